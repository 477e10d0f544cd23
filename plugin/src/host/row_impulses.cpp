#include "host/row_impulses.h"

#include "host/body_vectors.h"
#include "host/energy_budget.h"
#include "host/passive_rows.h"
#include "host/step_acceptance.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace linchpin::host {

double velocity_of(const Row::Side& side, const Vector3d& v, const Vector3d& w) {
  return dot(side.J.head<3>(), v) + dot(side.J.tail<3>(), w);
}
double change_of(const Row::Side& side, const RowBody& body) {
  return velocity_of(side, body.force_v, body.force_w) + velocity_of(side, body.row_v, body.row_w);
}
double start_velocity_of(const Row::Side& side, const RowBody& body) {
  return velocity_of(side, body.v_forces, body.w_forces);
}

namespace {

class RowImpulseReader {
 public:
  RowImpulseReader(Context& c, const BodySlots& slots, Rows& rows, bool solved)
      : c_(c), slots_(slots), rows_(rows), solved_(solved) {}

  void read() {
    for (const int index : c_.islands.group) begin(c_.islands[index]);
    for (const Row& row : rows_.joints) begin_joint(row);
    for (auto* rows : {&rows_.contacts, &rows_.friction, &rows_.rolling})
      for (Row& row : *rows) add_row(row, nullptr);
    for (const Row& row : rows_.multibody) add_multibody_row(row);
    for (Row& row : rows_.joints) add_joint_row(row);
    for (const int index : c_.islands.group) {
      Island& b = c_.islands[index];
      b.rows.source_work = std::max(b.rows.solved_work + b.rows.taken_beyond, 0.0) + lifting_work(b);
      b.rows.solved_work += passive_work(c_, b);
    }
  }

 private:
  void begin(Island& b) {
    for (auto* x : {&b.rows.total, &b.rows.impact, &b.rows.sustained}) std::fill(x->begin(), x->end(), 0.0);
    b.rows.passive.clear();
    b.rows.is_delivered = false;
    b.rows.absorbed = b.rows.solved_work = b.rows.source_work = b.rows.taken_beyond = 0;
    b.rows.passive_work = {};
    if (!solved_ || b.step.rows == HostRows::none) return;
    b.rows.budget[PassiveRow::limit] = limit_budget(c_, b);
    b.rows.mass = b.rows.applied_impulse = 0;
    for (const BodyId id : b.layout().bodies) {
      b.rows.mass += c_.system.mass(id);
      b.rows.applied_impulse += c_.dt * c_.bodies.load(id).force.norm();
    }
  }

  // Returns the work of passive rows towards their targets that has a source [J]. It lifts bodies out of an overlap by
  // no more impulse than the applied forces have in the step. It also brings an island that is slower than the largest
  // target of its contacts to that velocity, as where bodies overlap at rest. Work beyond it comes from constraints
  // that press bodies together. They are no source.
  double lifting_work(const Island& b) const {
    const PassiveWork& passive = b.rows.passive_work;
    const double by_forces = b.rows.applied_impulse * passive.max_lifting_velocity;
    if (passive.lifting_work <= by_forces) return passive.lifting_work;
    return std::min(passive.lifting_work, by_forces + std::max(0.0, passive.max_contact_work - start_energy(c_, b)));
  }

  void begin_joint(const Row& row) {
    if (row.constraint < 0) return;
    ConstraintEntry& r = c_.constraints[row.constraint];
    r.outcome.has_host_rows = true;
    if (!r.host) r.host = std::make_unique<Wrenches>();
    r.host->on_a = r.host->on_b = Wrench{};
  }

  void add_joint_row(Row& row) {
    ConstraintEntry* const entry = row.constraint < 0 ? nullptr : &c_.constraints[row.constraint];
    if (row.kind == Row::Kind::equality) {  // the host's result is the reaction, not an additional impulse
      const double p = row.impulse / c_.dt;
      for (const int k : {0, 1}) {
        entry->host->on(k).force += p * row.side[z(k)].J.head<3>();
        entry->host->on(k).moment += p * row.side[z(k)].J.tail<3>();
      }
      return;
    }
    add_row(row, c_.options.mode == Mode::passive && entry && entry->id.index >= 0 ? nullptr : entry);
  }

  void add_row(Row& row, ConstraintEntry* entry) {
    const double p = row.impulse;
    const bool ours = slots_[row.side[0].body].island >= 0 || slots_[row.side[1].body].island >= 0;
    const double impact = ours && solved_ ? impact_of(row) : 0;
    if (ours && solved_ && p != 0) note_work(row);
    const bool is_stored =
        ours && solved_ && p != 0 && c_.options.mode == Mode::exact && store_passive(row, impact, entry);
    for (const int k : {0, 1}) {
      const Vector3d n = row.side[z(k)].J.head<3>(), rn = row.side[z(k)].J.tail<3>();
      const Vector3d f = p * n, m = p * rn;
      if (entry) {
        entry->host->on(k).force += f / c_.dt;
        entry->host->on(k).moment += m / c_.dt;
      }
      const auto [of, slot] = slots_[row.side[z(k)].body];
      if (of < 0) continue;
      Island& b = c_.islands[of];
      const int column = b.layout().column[z(slot)];
      const bool turns = host::turns(b.layout(), z(slot));
      add(b.rows.total, column, f);
      if (turns) add(b.rows.total, column + 3, m);
      if (is_stored || !solved_) continue;
      add(b.rows.impact, column, impact * n);
      add(b.rows.sustained, column, (p - impact) * n);
      if (!turns) continue;
      add(b.rows.impact, column + 3, impact * rn);
      add(b.rows.sustained, column + 3, (p - impact) * rn);
    }
  }

  // Adds the impulses of multibodies on rigid bodies.
  void add_multibody_row(const Row& row) {
    for (const Row::Side& side : row.side) {
      const auto [of, slot] = slots_[side.body];
      if (of < 0) continue;
      Island& b = c_.islands[of];
      const int column = b.layout().column[z(slot)];
      const RowBody& body = rows_.body_of(side);
      b.rows.solved_work += row.impulse * (velocity_of(side, body.v, body.w) + 0.5 * change_of(side, body));
      for (auto* x : {&b.rows.total, &b.rows.sustained}) {
        add(*x, column, row.impulse * side.J.head<3>());
        if (turns(b.layout(), z(slot))) add(*x, column + 3, row.impulse * side.J.tail<3>());
      }
    }
  }

  // Returns the part of a row's impulse that changes the row's own velocity: an impact at the start of the step. Spread
  // over substeps it would let bodies approach until the end. The rest balances forces, and acts as long as they do.
  double impact_of(const Row& row) const {
    const double p = row.impulse;
    if (p == 0) return 0;
    double change = 0;
    change += change_of(row.side[0], body(row, 0)) + change_of(row.side[1], body(row, 1));
    const double impact = change * row.effective_mass;
    return p > 0 ? std::clamp(impact, 0.0, p) : std::clamp(impact, p, 0.0);
  }

  // Adds the work that a row was solved to do on each island [J]: the impulse times the mean of the velocities before
  // and after the host's iterations (T11). A passive row needs no more work than brings its bodies to its target
  // velocity, as to remove an overlap. Work of iterations beyond that has no source. A free body that pushes at an
  // island is the source of all that it loses. The island may gain that in its substeps, also where the row was solved
  // to give it less.
  void note_work(const Row& row) {
    const double p = row.impulse;
    const std::array<int, 2> of{slots_[row.side[0].body].island, slots_[row.side[1].body].island};
    std::array<double, 2> work{};
    double start = 0;
    bool moves = false;  // another island, a free body or a kinematic one
    for (std::size_t k = 0; k < 2; ++k) {
      const RowBody& at = body(row, k);
      if (of[k] < 0) {
        moves = moves || at.motion != RowBody::Motion::fixed;
        continue;
      }
      const double before = velocity_of(row.side[k], at.v, at.w);
      start += before;
      work[k] = p * (before + 0.5 * change_of(row.side[k], at));
    }
    const double sum = work[0] + work[1];
    if (of[0] == of[1]) {
      work[1] = 0;
      work[0] = sum;
    } else {
      moves = moves || (of[0] >= 0 && of[1] >= 0);
    }
    if (!moves && row.is_passive() && row.effective_mass > 0) return note_passive_work(row, of, sum, start);
    for (std::size_t k = 0; k < 2; ++k) {
      if (of[k] < 0 || (k == 1 && of[0] == of[1])) continue;
      RowLoad& load = c_.islands[of[k]].rows;
      load.solved_work += work[k];
      if (moves && of[1 - k] < 0 && row.is_passive()) {
        const RowBody& other = body(row, 1 - k);
        const double taken =
            -p * (velocity_of(row.side[1 - k], other.v, other.w) + 0.5 * change_of(row.side[1 - k], other));
        load.taken_beyond += std::max(0.0, taken - work[k]);
      }
      load.pushes_at_fixed = load.pushes_at_fixed || (!moves && of[0] != of[1]);
    }
  }

  void note_passive_work(const Row& row, const std::array<int, 2>& of, double sum, double start) {
    RowLoad& load = c_.islands[std::max(of[0], of[1])].rows;
    const double p = row.impulse;
    const double target = row.velocity_change + start_velocity_of(row.side[0], body(row, 0)) +
                          start_velocity_of(row.side[1], body(row, 1));
    const bool limit = row.of_joint();
    const double as_one = 0.5 * load.mass * target * target,
                 asked = std::min(0.5 * std::max(0.0, p * target), limit ? load.budget[PassiveRow::limit] : as_one);
    load.passive_work.work += std::min(sum, 0.5 * p * start + asked);
    (limit ? load.passive_work.limit_target_work : load.passive_work.contact_target_work) += 2 * asked;
    const double mean = 0.5 * (start + target), velocity = p * target >= p * mean ? target : mean;
    const double lifting = std::max(0.0, p * velocity);
    load.passive_work.lifting_work += limit ? std::min(lifting, 2 * load.budget[PassiveRow::limit]) : lifting;
    load.passive_work.max_lifting_velocity = std::max(load.passive_work.max_lifting_velocity, std::abs(velocity));
    if (!limit) load.passive_work.max_contact_work = std::max(load.passive_work.max_contact_work, as_one);
    load.pushes_at_fixed = load.pushes_at_fixed || of[0] != of[1];
  }

  // Stores a passive row separately, so that substeps may leave it out. A row may be shared with another island, a free
  // body or a kinematic one. It then gives here the energy that it takes there, and its impulse there does not depend
  // on what it does here. It may give the energy that it was solved for, and all the energy of the island once more.
  // @return whether it is stored
  bool store_passive(Row& row, double impact, const ConstraintEntry* entry) {
    if (!row.is_passive()) {
      if (row.of_joint()) spread_contacts_beside_motor(row);
      return false;
    }
    const std::array<BodySlot, 2> at{slots_[row.side[0].body], slots_[row.side[1].body]};
    bool both = false;  // two sides that move, not on one island
    for (std::size_t k = 0; k < 2; ++k) {
      if (at[k].island < 0 && body(row, k).motion != RowBody::Motion::fixed) both = true;
      if (at[k].island >= 0 && !turns(c_.islands[at[k].island].layout(), z(at[k].slot))) return false;
    }
    both = both || (at[0].island >= 0 && at[1].island >= 0 && at[0].island != at[1].island);
    if (both && entry) return false;
    PassiveRow out;
    out.row = &row;
    out.kind = both ? PassiveRow::shared : row.of_joint() ? PassiveRow::limit : PassiveRow::contact;
    out.entry = entry ? row.constraint : -1;
    out.impact = impact;
    out.impulse = row.impulse;
    out.slot = {-1, -1};
    int island = -1;
    for (std::size_t k = 0; k < 2; ++k) {
      if (at[k].island < 0) continue;
      island = at[k].island;
      out.slot[k] = at[k].slot;
      out.J[k] = row.side[k].J;
      if (!both) continue;
      const RowBody& b = body(row, k);
      const double start = start_velocity_of(row.side[k], b),
                   change = out.J[k].head<3>().dot(b.row_v) + out.J[k].tail<3>().dot(b.row_w);
      RowLoad& load = c_.islands[island].rows;
      load.absorbed += std::max(0.0, out.impulse * (start + 0.5 * change));
      load.passive.push_back(out);
      out.slot[k] = -1;
    }
    if (!both) c_.islands[island].rows.passive.push_back(out);
    return true;
  }

  // Applies contacts beside a motor as they were solved, because their energy may come from the motor.
  void spread_contacts_beside_motor(const Row& row) {
    for (std::size_t k = 0; k < 2; ++k) {
      const int of = slots_[row.side[k].body].island;
      if (of < 0) continue;
      Island& b = c_.islands[of];
      std::erase_if(b.rows.passive, [&](const PassiveRow& passive) {
        if (passive.row->of_joint()) return false;
        add_impulse(b, passive, passive.impact, b.rows.impact);
        add_impulse(b, passive, passive.impulse - passive.impact, b.rows.sustained);
        return true;
      });
    }
  }

  const RowBody& body(const Row& row, std::size_t k) const { return rows_.body_of(row.side[k]); }

  Context& c_;
  const BodySlots& slots_;
  Rows& rows_;
  bool solved_;
};

}  // namespace

void read_row_impulses(Context& c, const BodySlots& slots, Rows& rows, bool solved) {
  RowImpulseReader(c, slots, rows, solved).read();
}

}  // namespace linchpin::host
