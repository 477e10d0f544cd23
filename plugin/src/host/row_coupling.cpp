#include "host/row_coupling.h"

#include "host/body_vectors.h"
#include "host/energy_budget.h"
#include "host/tuning.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace linchpin::host {

namespace {

RowChange inactive(const Row& row) {
  // A row without bounds whose sides do not move would increase its impulse in every iteration. A row with bounds, as
  // of a motor, reaches its bound.
  return {.inactive = !row.bounded};
}

}  // namespace

bool RowCoupling::is_within_cluster(const Rows& rows, const Row& row) const {
  // Identifies the rigid part of a body: a cluster of an island, a free body, or all bodies that do not move.
  const auto part_of = [&](int body) -> std::pair<int, int> {
    const BodySlot at = slots[body];
    if (at.island >= 0) {
      const int cluster = c_.islands[at.island].topology.cluster[z(at.slot)];
      return {cluster < 0 ? -1 : at.island, cluster};
    }
    return body >= 0 && rows.bodies[z(body)].motion == RowBody::Motion::free ? std::pair(-2, body) : std::pair(-1, -1);
  };
  return part_of(row.side[0].body) == part_of(row.side[1].body);
}

// ---- composite bodies ----

std::span<const CompositeBody> RowCoupling::find_composites() {
  composites_.clear();
  composite_of_.assign(c_.islands.all().size(), -1);
  for (const int index : c_.islands.group) {
    Island& b = c_.islands[index];
    CompositeBody found;
    if (b.failed() || (b.step.rows != HostRows::joints && b.step.rows != HostRows::contacts) ||
        b.step.path != Path::coupled || !fast_.is_composite(b, found))
      continue;
    b.step.method = RowMethod::composite;
    found.island = index;
    for (std::size_t slot = 0; slot < b.slots(); ++slot)
      found.members.push_back(
          {b.solver_body[slot], Vector3d(c_.bodies.start[b.layout().bodies[slot]].p - found.centre)});
    composite_of_[z(index)] = static_cast<int>(composites_.size());
    composites_.push_back(std::move(found));
  }
  return composites_;
}

// The composite body begins without a velocity. The velocity that a row has so far is subtracted from its target.
CompositeRow RowCoupling::on_composites(const Rows& rows, const Row& row) const {
  CompositeRow out;
  std::array<BodySlot, 2> at;
  for (std::size_t k = 0; k < 2; ++k) {
    at[k] = slots[row.side[k].body];
    if (at[k].island >= 0) out.composite[k] = composite_of_[z(at[k].island)];
    if (out.composite[k] < 0) at[k] = {};
  }
  if (at[0].island == at[1].island) {  // on no composite body, or between bodies of one, which it cannot move
    if (at[0].island >= 0) out.change = inactive(row);
    out.composite = {-1, -1};
    return out;
  }
  const double raw = row.host_mobility;
  double held = raw;
  for (std::size_t k = 0; k < 2; ++k) {
    if (out.composite[k] < 0) continue;
    const CompositeBody& whole = composites_[z(out.composite[k])];
    const Row::Side& side = row.side[k];
    const RowBody& body = rows.body_of(side);
    out.had += velocity_of(side, body.row_v, body.row_w);
    held -= side.mobility;
    const Vector3d &arm = whole.members[z(at[k].slot)].arm, f = side.J.head<3>();
    out.moment[k] = side.J.tail<3>() + arm.cross(f);
    out.turn[k] = whole.inverse_inertia * out.moment[k];
    held += whole.inverse_mass * f.squaredNorm() + out.moment[k].dot(out.turn[k]);
  }
  if (!(held > tuning::min_freedom * raw))
    out.change = inactive(row), out.composite = {-1, -1};
  else
    out.change.scale = raw / held;
  return out;
}

// ---- responses ----

bool RowCoupling::find_responses(const Rows& rows, const RowSettings& settings) {
  const std::array<const std::vector<Row>*, 4> all{&rows.contacts, &rows.joints, &rows.friction, &rows.rolling};
  responses_.clear();
  changes_.clear();
  motion_.clear();
  count_rows(rows);
  if (!prepare_islands()) return false;
  find_unit_responses(rows);
  for (std::size_t k = 0; k < all.size(); ++k) {
    first_rows_[k] = all[k]->data();
    first_responses_[k] = responses_.size();
    for (const Row& row : *all[k]) respond(row);
  }
  solve_pending(motion_);
  std::size_t i = 0;
  for (const auto* of : all)
    for (const Row& row : *of) {
      const Response& response = responses_[i++];
      RowChange& change = changes_.emplace_back();
      if (response.island[0] < 0 && response.island[1] < 0) continue;
      if (row.kind == Row::Kind::contact) change.overlap_less = overlap_less(rows, row, response);
      if (row.of_joint()) change.target_less = target_less(rows, row, response, settings);
      // The row's own motion is relaxed. Factors of a host that act on the body and not on the row may make that motion
      // any number, a negative one too. The row is therefore relaxed no further than by the host's own step.
      const double own = std::min(response.raw + row.softness, row.host_mobility),
                   held = response.held + motion_of(row, response) + row.softness;
      if (!(own > 0)) continue;
      if (held > tuning::min_freedom * own)
        change.scale = own / held;
      else
        change.inactive = inactive(row).inactive;
    }
  return true;
}

void RowCoupling::count_rows(const Rows& rows) {
  for (const int index : c_.islands.group) c_.islands[index].rows.rows = 0;
  rows_at_.assign(slots.size(), 0);
  for (const auto* of : {&rows.contacts, &rows.joints, &rows.friction, &rows.rolling})
    for (const Row& row : *of) {
      if (row.moves_nothing()) continue;
      const int a = slots[row.side[0].body].island, b = slots[row.side[1].body].island;
      if (a >= 0) ++c_.islands[a].rows.rows;
      if (b >= 0 && b != a) ++c_.islands[b].rows.rows;
      for (const Row::Side& side : row.side)
        if (slots[side.body].island >= 0) ++rows_at_[z(side.body)];
    }
}

// @return whether rows of some island respond
bool RowCoupling::prepare_islands() {
  bool any = false;
  for (const int index : c_.islands.group) {
    Island& b = c_.islands[index];
    RowLoad& load = b.rows;
    load.limit_return = 0;
    const bool has_rows = b.step.rows == HostRows::joints || b.step.rows == HostRows::contacts;
    if (b.failed() || !has_rows || b.step.method == RowMethod::composite || load.rows > tuning::max_response_rows)
      continue;
    any = true;
    b.step.method = RowMethod::responses;
    load.contacted.clear();
    load.contacted_bodies.clear();
    load.contacted_at.assign(b.slots(), -1);
    for (std::size_t slot = 0; slot < b.slots(); ++slot) {
      if (rows_at_[z(b.solver_body[slot])] == 0) continue;
      load.contacted_at[slot] = static_cast<int>(load.contacted.size());
      load.contacted.push_back(static_cast<int>(slot));
      load.contacted_bodies.push_back(b.solver_body[slot]);
    }
    load.mass = 0;
    for (const BodyId id : b.layout().bodies) load.mass += c_.system.mass(id);
    load.budget[PassiveRow::limit] = limit_budget(c_, b);
    solver_of(b).prepare_responses(b);
  }
  return any;
}

// Where many rows act on a body, the response of each row is a sum of the six unit responses of the body. This does not
// pay where another body of the row would need a solve of its own.
bool RowCoupling::uses_unit_responses(const Row& row) const {
  bool any = false;
  for (const Row::Side& side : row.side) {
    const BodySlot at = slots[side.body];
    if (!responds(at)) continue;
    if (rows_at_[z(side.body)] <= tuning::max_own_responses || !turns(c_.islands[at.island].layout(), z(at.slot)))
      return false;
    any = true;
  }
  return any;
}

void RowCoupling::find_unit_responses(const Rows& rows) {
  unit_responses_.clear();
  unit_at_.assign(slots.size(), -1);
  for (const auto* of : {&rows.contacts, &rows.joints, &rows.friction, &rows.rolling})
    for (const Row& row : *of)
      if (uses_unit_responses(row))
        for (const Row::Side& side : row.side)
          if (slots[side.body].island >= 0) unit_at_[z(side.body)] = wanted;
  for (const int index : c_.islands.group) {
    Island& b = c_.islands[index];
    if (b.step.method != RowMethod::responses) continue;
    const std::size_t n = 6 * b.rows.contacted.size();
    for (const int slot : b.rows.contacted)
      if (int& at = unit_at_[z(b.solver_body[z(slot)])]; at == wanted) {
        at = static_cast<int>(unit_responses_.size());
        unit_responses_.resize(unit_responses_.size() + 6 * n);
        for (int k = 0; k < 6; ++k) {
          RespondingIslandSolver::Impulse impulse;
          impulse.at[0].body = slot;
          impulse.at[0].impulse.setZero()[k] = 1;
          b.rows.pending.push_back({z(at) + z(k) * n, impulse});
        }
      }
  }
  solve_pending(unit_responses_);
}

// Finds the response of one row, or adds it to those that are found together.
void RowCoupling::respond(const Row& row) {
  Response& out = responses_.emplace_back();
  const std::array<BodySlot, 2> at{slots[row.side[0].body], slots[row.side[1].body]};
  if ((!responds(at[0]) && !responds(at[1])) || row.moves_nothing()) return;
  const bool by_units = uses_unit_responses(row);
  std::array<RespondingIslandSolver::Impulse, 2> impulses;  // by island
  for (std::size_t k = 0; k < 2; ++k) {
    const Row::Side& side = row.side[k];
    out.raw += side.mobility;
    if (!responds(at[k])) {
      out.held += side.mobility;
      continue;
    }
    const std::size_t size = 6 * c_.islands[at[k].island].rows.contacted.size();
    const bool both = k == 1 && at[1].island == out.island[0];
    const std::size_t of = both ? 0 : k;
    out.second_with_first = both;
    if (!both) {
      out.island[k] = at[k].island;
      out.first[k] = motion_.size();
      motion_.resize(motion_.size() + size);
    }
    if (by_units) {
      const double* unit = unit_responses_.data() + unit_at_[z(side.body)];
      double* const to = motion_.data() + out.first[of];
      for (int i = 0; i < 6; ++i, unit += size)
        for (std::size_t j = 0; j < size; ++j) to[j] += side.J[i] * unit[j];
      continue;
    }
    RespondingIslandSolver::Impulse& impulse = impulses[of];
    if (impulse.at[0].body < 0 || impulse.at[0].body == at[k].slot) {
      impulse.at[0].impulse = impulse.at[0].body < 0 ? side.J : Vector6(impulse.at[0].impulse + side.J);
      impulse.at[0].body = at[k].slot;
    } else {
      impulse.at[1] = {at[k].slot, side.J};
    }
  }
  for (std::size_t k = 0; k < 2; ++k)
    if (impulses[k].at[0].body >= 0) c_.islands[out.island[k]].rows.pending.push_back({out.first[k], impulses[k]});
}

void RowCoupling::solve_pending(std::vector<double>& to) {
  std::array<RespondingIslandSolver::Impulse, RespondingIslandSolver::most_impulses> batch;
  for (const int index : c_.islands.group) {
    Island& b = c_.islands[index];
    std::vector<RowLoad::Pending>& pending = b.rows.pending;
    const std::size_t n = 6 * b.rows.contacted.size();
    moves_.resize(batch.size() * n);
    for (std::size_t i = 0; i < pending.size(); i += batch.size()) {
      const std::size_t count = std::min(batch.size(), pending.size() - i);
      for (std::size_t k = 0; k < count; ++k) batch[k] = pending[i + k].impulse;
      solver_of(b).respond(b, std::span(batch).first(count), moves_);
      for (std::size_t k = 0; k < count; ++k)
        for (std::size_t j = 0; j < n; ++j) to[pending[i + k].at + j] += moves_[k * n + j];
    }
    pending.clear();
  }
}

std::size_t RowCoupling::first_of(std::span<const Row> rows) const {
  const auto at = std::find(first_rows_.begin(), first_rows_.end(), rows.data());
  return first_responses_[static_cast<std::size_t>(at - first_rows_.begin())];
}

// Motion of a row itself by a unit impulse on it, of its bodies in islands that respond.
double RowCoupling::motion_of(const Row& row, const Response& response) const {
  double sum = 0;
  for (std::size_t k = 0; k < 2; ++k) {
    const BodySlot at = slots[row.side[k].body];
    if (!responds(at)) continue;
    const std::size_t first = response.first[k == 1 && at.island == response.island[0] ? 0 : k];
    const int moved = static_cast<int>(first) + 6 * c_.islands[at.island].rows.contacted_at[z(at.slot)];
    sum += row.side[k].J.head<3>().dot(head(motion_, moved)) + row.side[k].J.tail<3>().dot(head(motion_, moved + 3));
  }
  return sum;
}

// A host turns an overlap into a velocity that removes it in some steps. Where a mechanism is almost rigid at the
// contact, as a pendulum that is jammed under its pivot, that velocity would be amplified elsewhere by the ratio of
// mobilities. It is limited to the energy of the island moving as one rigid body with the contact.
double RowCoupling::overlap_less(const Rows& rows, const Row& row, const Response& response) const {
  if (!row.penetrates) return 0;
  const int own = response.island[0] >= 0 ? response.island[0] : response.island[1];
  double mass = 0;
  for (std::size_t k = 0; k < 2; ++k) {
    if (response.island[k] >= 0) {
      mass += c_.islands[response.island[k]].rows.mass;
      continue;
    }
    const double inverse = rows.body_of(row.side[k]).inverse_mass;
    if (slots[row.side[k].body].island != own && inverse > 0) mass += 1 / inverse;
  }
  const double share = mass * (response.held + motion_of(row, response));
  return share < 1 ? 1 - std::sqrt(std::max(share, 0.0)) : 0;
}

// A limit or lock that is exceeded is kinematic back by a bounded velocity. It is no faster than if the whole island
// turned, or slid, as one body. Its energy is no more than limits may give in a step. It may always be as fast as the
// approach was. A mechanism at rest without forces has no such energy: the energy that would bring it back as one body
// in some seconds is always allowed.
double RowCoupling::target_less(const Rows& rows, const Row& row, const Response& response,
                                const RowSettings& settings) {
  const bool limit = row.kind == Row::Kind::limit;
  if (!(limit || row.kind == Row::Kind::lock) || !(row.effective_mass > 0) || row.constraint < 0) return 0;
  const ConstraintEntry& entry = c_.constraints[row.constraint];
  if (entry.id.index < 0) return 0;
  const double speed = start_velocity_of(row.side[0], rows.body_of(row.side[0])) +
                       start_velocity_of(row.side[1], rows.body_of(row.side[1])),
               asked = row.velocity_change + speed,
               sign = limit       ? row.limit_sign
                      : asked > 0 ? 1
                                  : -1;
  const double came = std::max(-sign * speed, 0.0), target = sign * asked;
  if (!(target > came)) return 0;
  const std::size_t k = response.island[0] >= 0 ? 0 : 1;
  const Vector3d slide = row.side[k].J.head<3>(), turn = row.side[k].J.tail<3>();
  Island& b = c_.islands[response.island[k]];
  double as_one = b.rows.mass * slide.squaredNorm();
  if (slide.isZero()) {
    const Vector3d about = c_.system.constraint(entry.id).application_point(0, c_.bodies.start);
    for (const BodyId id : b.layout().bodies) {
      const BodyState& s = c_.bodies.start[id];
      as_one += c_.system.mass(id) * turn.cross(s.p - about).squaredNorm();
      if (c_.system.dof(id) == 6) as_one += turn.dot(c_.system.world_inertia(id, s.q) * turn);
    }
  }
  const double held = response.held + motion_of(row, response), share = as_one * held;
  const double slow = std::min(1.0, c_.dt / (settings.joint_erp * tuning::limit_return_time)) * target,
               returning = 0.5 * as_one * slow * slow;
  b.rows.limit_return = std::max(b.rows.limit_return, returning);
  const double energy = std::max(b.rows.budget[PassiveRow::limit], returning);
  const double gentle = std::max(
      came, std::min({target, std::sqrt(std::max(share, 0.0)) * target, std::sqrt(2 * std::max(held, 0.0) * energy)}));
  return sign * (target - gentle);
}

bool is_left_approaching(const BodySlots& slots, const Rows& rows, const Row& contact) {
  if (slots[contact.side[0].body].island < 0 && slots[contact.side[1].body].island < 0) return false;
  double start = 0, end = 0;
  for (const Row::Side& side : contact.side) {
    const RowBody& body = rows.body_of(side);
    const double own = start_velocity_of(side, body);
    start += std::abs(own) + tuning::iteration_accuracy * (body.row_v.norm() + body.row_w.norm());
    end += own + velocity_of(side, body.row_v, body.row_w);
  }
  return -end > tuning::left_approaching * start;
}

}  // namespace linchpin::host
