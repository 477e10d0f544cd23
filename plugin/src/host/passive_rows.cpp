#include "host/passive_rows.h"

#include "host/body_vectors.h"
#include "host/energy_budget.h"
#include "host/step_acceptance.h"

#include <algorithm>
#include <array>
#include <utility>

namespace linchpin::host {

namespace {
double velocity(const Vector6& J, const Vector3d& v, const Vector3d& w) {
  return J.head<3>().dot(v) + J.tail<3>().dot(w);
}
bool is_active(const PassiveRow& row) { return row.state == PassiveRow::State::active; }
}  // namespace

void add_impulse(const Island& b, const PassiveRow& row, double impulse, std::span<double> to) {
  for (std::size_t k = 0; k < 2; ++k) {
    if (row.slot[k] < 0) continue;
    const int column = b.layout().column[z(row.slot[k])];
    add(to, column, impulse * row.J[k].head<3>());
    add(to, column + 3, impulse * row.J[k].tail<3>());
  }
}

void begin_row_substeps(const Context& c, Island& b) {
  RowLoad& load = b.rows;
  if (!load.passive.empty() && load.is_delivered)
    load.total.swap(load.applied);  // the step is repeated for its records
  for (auto* x : {&load.force_now, &load.impact_now, &load.applied}) x->assign(load.total.size(), 0);
  for (PassiveRow& row : load.passive) {
    row.state = PassiveRow::State::active;
    row.impact_left = row.impact;
    row.impulse_left = row.impulse - row.impact;
  }
  if (load.passive.empty()) return;
  // Contacts may give as much energy as constraints: bodies that a contact does not stop in a substep overlap more in
  // the next step.
  load.budget[PassiveRow::contact] = energy_allowance(c, b);
  load.budget[PassiveRow::limit] = limit_budget(c, b);
  load.budget[PassiveRow::shared] = energy_floor(c, b) + start_energy(c, b) + load.absorbed;
}

void set_row_substep(const Context& c, Island& b, const State& now, double done, double length) {
  RowLoad& load = b.rows;
  const bool first = done == 0;
  for (std::size_t j = 0; j < load.force_now.size(); ++j) {
    load.force_now[j] = load.sustained[j] / c.dt;
    load.impact_now[j] = first ? load.impact[j] : 0;
  }
  for (PassiveRow& row : load.passive) {
    row.velocity_before = 0;
    for (std::size_t k = 0; k < 2; ++k)
      if (row.slot[k] >= 0) {
        const BodyState& s = now[b.layout().bodies[z(row.slot[k])]];
        row.velocity_before += velocity(row.J[k], s.v, s.w);
      }
    row.sustained_now = is_active(row) ? row.impulse_left * std::min(1.0, length / (c.dt - done)) : 0;
    if (row.sustained_now != 0) add_impulse(b, row, row.sustained_now / length, load.force_now);
    if (first && row.impact_left != 0) add_impulse(b, row, row.impact_left, load.impact_now);
  }
}

// The work is that of the impulses with the mean velocity (T11).
bool release_rows(Island& b, std::span<const double> v, bool first) {
  std::array<double, PassiveRow::kinds> work{};
  for (PassiveRow& row : b.rows.passive) {
    const double impulse = row.sustained_now + (first ? row.impact_left : 0);
    double after = 0;
    for (std::size_t k = 0; impulse != 0 && k < 2; ++k)
      if (row.slot[k] >= 0) {
        const int column = b.layout().column[z(row.slot[k])];
        after += velocity(row.J[k], head(v, column), head(v, column + 3));
      }
    row.work = impulse != 0 ? 0.5 * impulse * (row.velocity_before + after) : 0;
    work[row.kind] += row.work;
  }
  bool again = false;
  for (PassiveRow& row : b.rows.passive) {
    if (!(work[row.kind] > b.rows.budget[row.kind]) || !(row.work > 0)) continue;
    if (is_active(row)) row.state = PassiveRow::State::released;
    again = true;
    if (first) row.impulse_left += std::exchange(row.impact_left, 0);
  }
  if (again) return true;
  for (std::size_t kind = 0; kind < work.size(); ++kind) b.rows.budget[kind] -= std::max(work[kind], 0.0);
  return false;
}

bool drop_rows(Island& b) {
  bool again = false;
  for (PassiveRow& row : b.rows.passive) {
    if (row.state == PassiveRow::State::dropped || (row.impulse_left == 0 && row.impact_left == 0)) continue;
    row.state = PassiveRow::State::dropped;
    again = true;
    row.impulse_left += std::exchange(row.impact_left, 0);
  }
  return again;
}

double row_work(const Island& b, double force_time, bool first, std::span<const double> v0,
                std::span<const double> v1) {
  double sum = force_time * work_of(b.rows.force_now, v0, v1);
  if (first) sum += work_of(b.rows.impact_now, v0, v1);
  return sum;
}

void accept_row_substep(Island& b, double force_time) {
  RowLoad& load = b.rows;
  for (std::size_t j = 0; j < load.applied.size(); ++j)
    load.applied[j] += force_time * load.force_now[j] + load.impact_now[j];
  for (PassiveRow& row : load.passive) {
    if (row.state == PassiveRow::State::released) row.state = PassiveRow::State::active;
    row.impulse_left -= row.sustained_now;
  }
}

// The host's rows do not outlive the step, so they are written once, also where the step is repeated for its records.
void end_row_substeps(Context& c, Island& b) {
  RowLoad& load = b.rows;
  if (load.passive.empty()) return;
  load.total.swap(load.applied);
  if (std::exchange(load.is_delivered, true)) return;
  for (PassiveRow& row : load.passive) {
    row.row->impulse = row.impulse - row.impulse_left;
    row.row->was_cut = true;
    if (row.entry < 0) continue;
    for (int k : {0, 1}) {
      Wrench& w = c.constraints[row.entry].host->on(k);
      w.force -= row.impulse_left / c.dt * row.row->side[z(k)].J.head<3>();
      w.moment -= row.impulse_left / c.dt * row.row->side[z(k)].J.tail<3>();
    }
  }
}

}  // namespace linchpin::host
