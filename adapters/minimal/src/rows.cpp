#include "indices.h"

#include <linchpin/minimal.h>

#include <cmath>

namespace linchpin::minimal {

namespace {
constexpr std::array<std::size_t, 2> sides{0, 1};
constexpr host::RowBody::Motion motions[] = {host::RowBody::Motion::fixed, host::RowBody::Motion::kinematic,
                                             host::RowBody::Motion::free};  // by toy::Body::Motion
}  // namespace

// ---- reading ----

void Solver::read_bodies(const toy::Solve& solve) {
  rows_.bodies.resize(solve.bodies.size());
  for (int i = 0; i < static_cast<int>(solve.bodies.size()); ++i) {
    const toy::SolverBody& from = solve.bodies[z(i)];
    host::RowBody& to = rows_.bodies[z(i)] = {};
    const toy::Body* const body = world_.body(i);
    to.body = z(i) < bodies_.size() ? bodies_[z(i)].id : BodyId{};
    if (body) to.motion = motions[static_cast<int>(body->moves())];
    to.inverse_mass = from.inverse_mass;
    const auto split = [](const toy::Vector6& x, Vector3d& linear, Vector3d& angular) {
      linear = x.head<3>();
      angular = x.tail<3>();
    };
    split(from.start, to.v, to.w);
    split(from.forces, to.force_v, to.force_w);
    split(from.start + from.forces, to.v_forces, to.w_forces);
    split(from.rows, to.row_v, to.row_w);
  }
}

void Solver::read_rows(const toy::Solve& solve) {
  read_bodies(solve);
  const bool observes = solver_.options().mode == host::Mode::passive;
  for (auto* rows : {&rows_.contacts, &rows_.joints, &rows_.friction}) rows->clear();
  for (std::size_t i = 0; i < solve.rows.size(); ++i) {
    const toy::Row& from = solve.rows[i];
    const int entry = from.joint < 0 ? -1 : joints_[z(from.joint)].entry;
    if (entry < 0 && !solver_.acts_on_island(from.body[0]) && !solver_.acts_on_island(from.body[1])) continue;
    host::Row& to = (from.kind == toy::Row::Kind::contact    ? rows_.contacts
                     : from.kind == toy::Row::Kind::friction ? rows_.friction
                                                             : rows_.joints)
                        .emplace_back();
    const bool observed = observes && entry >= 0 && solver_.entry(entry).id.index >= 0;
    to.kind = from.kind == toy::Row::Kind::contact             ? host::Row::Kind::contact
              : from.kind == toy::Row::Kind::friction          ? host::Row::Kind::friction
              : from.kind == toy::Row::Kind::joint && observed ? host::Row::Kind::equality
                                                               : host::Row::Kind::motor;
    to.penetrates = from.overlap_speed > 0;
    to.bounded = from.kind == toy::Row::Kind::friction || std::isfinite(from.upper);
    to.index = static_cast<int>(i);
    to.constraint = entry;
    to.velocity_change = from.velocity_change;
    to.effective_mass = from.effective_mass;
    to.host_mobility = from.effective_mass > 0 ? 1 / from.effective_mass : 0;
    to.impulse = from.impulse;
    for (const std::size_t k : sides) {
      to.side[k].body = from.body[k];
      if (from.body[k] < 0) continue;
      to.side[k].J = from.J[k];
      to.side[k].mobility = from.J[k].dot(from.by_unit[k]);
    }
  }
}

// ---- before the iterations ----

// Islands on which no row acts are solved at once. @return false where the engine must solve one of them after all
bool Solver::separate(const toy::Solve& solve) {
  is_separated_ = true;
  solved_.assign(solve.bodies.size(), 0);
  std::vector<char> touched(body_of_.size(), 0);
  for (const toy::Row& row : solve.rows)
    for (const std::size_t k : sides)
      if (row.body[k] >= 0 && z(row.body[k]) < bodies_.size() && bodies_[z(row.body[k])].id.index >= 0)
        touched[z(bodies_[z(row.body[k])].id.index)] = 1;
  std::vector<int> group;
  for (const BodyBinding& binding : bodies_) group.push_back(binding.id.index);
  const auto separated = solver_.separate_islands(touched, group);
  for (std::size_t i = 0; i < group.size() && !separated.empty(); ++i)
    if (group[i] >= 0) solved_[i] = separated[z(group[i])];
  const auto refused = solver_.solve_separate(false);
  for (const BodyId id : refused) solved_[z(body_of(id))] = 0;
  return refused.empty();
}

// Contacts between bodies of one rigid part cannot change anything.
void Solver::leave_out_rigid_parts(toy::Solve& solve) {
  for (auto* rows : {&rows_.contacts, &rows_.friction})
    std::erase_if(*rows, [&](const host::Row& row) {
      if (!solver_.is_within_rigid_part(rows_, row)) return false;
      solve.rows[z(row.index)].deactivate();
      return true;
    });
}

void Solver::write_start_velocities(toy::Solve& solve) {
  for (const host::RowVelocity& at : solver_.coupled_bodies()) {
    toy::SolverBody& body = solve.bodies[z(at.body)];
    body.rows << at.v, at.w;
    body.rows -= body.start + body.forces;
  }
}

// Finds the motion of a whole island by an impulse on a row, and changes the row accordingly.
void Solver::couple_rows(toy::Solve& solve) {
  responses_.assign(solve.rows.size(), nullptr);
  if (!solver_.has_group()) return;
  read_rows(solve);
  if (!solver_.find_responses(rows_, {.joint_erp = world_.joint_erp})) return;
  for (const auto* rows : {&rows_.contacts, &rows_.joints, &rows_.friction})
    for (std::size_t i = 0; i < rows->size(); ++i) {
      toy::Row& row = solve.rows[z((*rows)[i].index)];
      const host::Response& response = solver_.response(*rows, i);
      if (response.island[0] >= 0 || response.island[1] >= 0) responses_[z((*rows)[i].index)] = &response;
      const host::RowChange& change = solver_.row_change(*rows, i);
      row.velocity_change -= change.overlap_less * row.overlap_speed + change.target_less;
      row.effective_mass *= change.scale;
      if (change.inactive) row.deactivate();
    }
}

bool Solver::start(toy::Solve& solve) {
  responses_.assign(solve.rows.size(), nullptr);
  if (!is_separated_ && !separate(solve)) return false;
  read_bodies(solve);
  if (!solver_.begin_among_rows(rows_)) return false;
  if (solver_.options().mode == host::Mode::passive || !solver_.has_group()) return true;
  read_rows(solve);
  leave_out_rigid_parts(solve);
  const bool good = solver_.start_rows(rows_);
  write_start_velocities(solve);
  if (good) couple_rows(solve);
  return good;
}

// ---- the iterations ----

bool Solver::apply(toy::Solve& solve, std::size_t index, double impulse) {
  const host::Response* const response = index < responses_.size() ? responses_[index] : nullptr;
  if (!response) return false;
  const toy::Row& row = solve.rows[index];
  for (const std::size_t k : sides) {
    if (response->island[k] >= 0) {
      const double* motion = &solver_.response_motion()[response->first[k]];
      for (const int body : solver_.response_bodies(response->island[k])) {
        solve.bodies[z(body)].rows += impulse * Eigen::Map<const toy::Vector6>(motion);
        motion += 6;
      }
    } else if (row.body[k] >= 0 && response->moves_body(static_cast<int>(k))) {
      solve.bodies[z(row.body[k])].rows += impulse * row.by_unit[k];
    }
  }
  return true;
}

void Solver::after_iteration(toy::Solve& solve) {
  const auto bodies = solver_.projected_bodies();
  if (bodies.empty()) return;
  for (host::RowVelocity& at : bodies) {
    const toy::SolverBody& body = solve.bodies[z(at.body)];
    const toy::Vector6 velocity = body.start + body.forces + body.rows;
    at.v = velocity.head<3>();
    at.w = velocity.tail<3>();
  }
  solver_.project();
  for (const host::RowVelocity& at : bodies) {
    toy::Vector6 change;
    change << at.v, at.w;
    solve.bodies[z(at.body)].rows += change;
  }
}

bool Solver::finish(toy::Solve& solve) {
  read_rows(solve);
  return solver_.finish_rows(rows_);
}

}  // namespace linchpin::minimal
