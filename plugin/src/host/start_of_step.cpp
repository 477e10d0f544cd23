#include "host/start_of_step.h"

#include "host/geometric_damping.h"
#include "host/tuning.h"
#include "projection/turned_joints.h"

#include <linchpin/detail/gyroscopic.h>

#include <utility>

namespace linchpin::host {

namespace {

void begin_step(Context& c, Island& b) {
  const std::size_t n = z(b.layout().n()), m = z(b.layout().m());
  if (std::exchange(b.step.start_gap, StartGap::small) == StartGap::turned_far && b.dynamics)
    linchpin::detail::hold_as_made(c.system, *b.dynamics);
  b.step = IslandStep{};
  b.step.outcome.loose_convergence = c.step < b.history.loose_until;
  b.report.has_start_problem = false;
  b.rows.damping.clear();
  for (auto* x : {&b.x.v, &b.x.applied, &b.x.Q}) x->resize(n);  // all of it is written
  for (auto* x : {&b.x.row_velocity, &b.x.multipliers}) x->resize(m);
  b.x.newton.assign(m, 0);
  if (c.options.mode == Mode::passive) {  // the host steps: nothing else writes these
    b.x.v.assign(n, 0);
    b.x.multipliers.assign(m, 0);
  }
  b.solver_body.assign(b.slots(), -1);
  for (auto* x : {&b.gyroscopics.active, &b.gyroscopics.in_kernel}) x->assign(b.slots(), 0);
  b.gyroscopics.any_in_kernel = false;
  b.gyroscopics.step.clear();
}

/// Change of angular velocity by the host's gyroscopic rule in a step [rad/s], in the body's axes. The rule that bodies
/// have by default, a Newton step of implicit Euler, is evaluated here in double.
Vector3d host_gyroscopic_change(const Context& c, BodyId id, const Matrix3d& R, const Vector3d& I, const Vector3d& u,
                                const Vector3d& L) {
  switch (c.bodies.gyroscopic(id)) {
    case GyroscopicRule::host:
      return c.world.gyroscopic_change(id, R);
    case GyroscopicRule::implicit_body:
      return Vector3d::Zero() - linchpin::detail::solve_gyroscopic(I, u, L, c.dt, c.dt * u.cross(L));
    case GyroscopicRule::none:
      break;
  }
  return Vector3d::Zero();
}

/// Adds the gyroscopic torque of a body (T2): the torque at the step's start to Q, the impulse over the step to
/// `applied`.
/// @param by_host  `applied` contains the impulse of the host's rule already
void add_gyroscopic_torque(const Context& c, Island& b, std::size_t slot, bool by_host) {
  const BodyId id = b.layout().bodies[slot];
  const BodyState& s = c.bodies.start[id];
  const int column = b.layout().column[slot] + 3;
  const Matrix3d R = s.R();
  const Vector3d I = c.system.inertia(id).diagonal();  // hosts have principal moments only
  const Vector3d u = R.transpose() * s.w, L = I.cwiseProduct(u);
  const bool is_unsafe = s.w.squaredNorm() * (c.dt * c.dt) >
                         tuning::max_host_gyroscopic_turn * tuning::max_host_gyroscopic_turn,
             is_far = is_fast_rotation(c, s.w);
  const Vector3d change =
      by_host && !is_unsafe && !is_far ? Vector3d::Zero() : host_gyroscopic_change(c, id, R, I, u, L);
  if (!by_host) add(b.x.applied, column, R * I.cwiseProduct(change));
  // The host's rules make one Newton step, or none, and may multiply the rate of a body that tumbles fast.
  if (is_far)
    add(b.x.applied, column, b.gyroscopics.step.add(static_cast<int>(slot), s, I, c.dt) - R * I.cwiseProduct(change));
  else if (is_unsafe && (u + change).dot(I.cwiseProduct(u + change)) > u.dot(L))
    add(b.x.applied, column, c.dt * mean_gyroscopic_torque(I, s, c.dt) - R * I.cwiseProduct(change));
  add(b.x.Q, column, -(R * u.cross(L)));
}

/// Forces on one body, from the host's row solver where that has its velocities already.
void read_forces(const Context& c, Island& b, std::size_t slot, const RowBody* row_body) {
  const BodyId id = b.layout().bodies[slot];
  const int column = b.layout().column[slot];
  const auto& [force, torque] = c.bodies.load(id);
  put(b.x.Q, column, force);
  if (row_body)
    put(b.x.applied, column, c.system.mass(id) * row_body->force_v);
  else
    put(b.x.applied, column, c.dt * force);
  if (!turns(b.layout(), slot)) return;
  put(b.x.Q, column + 3, torque);
  if (!row_body) return put(b.x.applied, column + 3, c.dt * torque);
  const Matrix3d R = c.bodies.start[id].R();
  put(b.x.applied, column + 3, R * c.system.inertia(id).diagonal().cwiseProduct(R.transpose() * row_body->force_w));
}

}  // namespace

bool read_island(Context& c, Island& b, std::span<const RowBody> row_bodies, bool among_rows) {
  for (const BodyId id : b.layout().bodies)  // a repeated setup finds bodies that were moved since
    if (among_rows || !c.bodies.was_read(id, c.step)) c.bodies.read(c.world, id, c.step);
  if (c.step < b.history.next_try) {
    b.step.poses.current = b.step.is_sized = false;
    return fail(b, std::move(b.history.failure));
  }
  begin_step(c, b);
  const bool fast = !among_rows && b.fast.fits;
  if (!fast) size_vectors(c, b);
  for (std::size_t slot = 0; slot < b.slots(); ++slot) {
    const BodyId id = b.layout().bodies[slot];
    const int index = among_rows ? c.world.row_body(id) : -1;
    const bool here = among_rows ? index >= 0 : !b.detached;
    if (!here || !c.bodies.in_world(id))  // a host row may have added a body that the host does not move
      return fail(b, "body '" + c.system.name(id) + "' is constrained but not part of the island (not in the world?)");
    b.solver_body[slot] = index;
    read_forces(c, b, slot, among_rows ? &row_bodies[z(index)] : nullptr);
    if (!turns(b.layout(), slot)) continue;
    b.gyroscopics.active[slot] = c.bodies.gyroscopic(id) != GyroscopicRule::none;
    if (!b.gyroscopics.active[slot]) continue;
    if (fast && !c.options.geometric_stiffness && c.bodies.gyroscopic(id) == GyroscopicRule::implicit_body &&
        !is_fast_rotation(c, c.bodies.start[id].w))
      b.gyroscopics.in_kernel[slot] = b.gyroscopics.any_in_kernel = true;
    else
      add_gyroscopic_torque(c, b, slot, among_rows);
  }
  if (c.options.geometric_stiffness && c.options.stepping == Stepping::semi_implicit && c.options.mode == Mode::exact)
    begin_stiffness(c, b);
  return true;
}

void size_vectors(const Context& c, Island& b) {
  const std::size_t n = z(b.layout().n());
  for (auto* x : {&b.x.v0, &b.x.Q_total}) x->resize(n);
  for (auto* x : {&b.x.force, &b.x.dv}) x->resize(n);
  if (c.options.mode == Mode::passive)  // the host steps: nothing else writes these
    for (auto* x : {&b.x.force, &b.x.dv}) std::fill(x->begin(), x->end(), 0.0);
  for (auto* x : {&b.x.target, &b.x.row, &b.x.mean_force}) x->resize(z(b.layout().m()));
  for (auto* x : {&b.rows.total, &b.rows.impact, &b.rows.sustained}) x->assign(n, 0);
  b.rows.passive.clear();
  b.step.is_sized = true;
  read_velocities(b.layout(), c.bodies.start, b.x.v0);
}

void add_gyroscopic_torques(const Context& c, Island& b) {
  if (!std::exchange(b.gyroscopics.any_in_kernel, false)) return;
  for (std::size_t slot = 0; slot < b.gyroscopics.in_kernel.size(); ++slot)
    if (b.gyroscopics.in_kernel[slot]) add_gyroscopic_torque(c, b, slot, false);
}

void make_dynamics(const Context& c, Island& b) {
  SolveOptions solve;
  solve.rank_tolerance = c.options.rank_tolerance;
  solve.reference_rows = tuning::max_dense_rows;
  b.dynamics.emplace(c.system, b.topology.ids, solve);
}

bool is_fast_rotation(const Context& c, const Vector3d& w) {
  return c.options.mode == Mode::exact && c.options.drift_correction && !c.options.geometric_stiffness &&
         c.options.stepping == Stepping::semi_implicit &&
         w.squaredNorm() * (c.dt * c.dt) > tuning::min_fast_rotation * tuning::min_fast_rotation;
}

Vector3d mean_gyroscopic_torque(const Vector3d& I, const BodyState& s, double h) {
  const Matrix3d R = s.R();
  const Vector3d w0 = R.transpose() * s.w, w = linchpin::detail::end_angular_velocity(I, w0, w0, h);
  return R * I.cwiseProduct(w - w0) / h;
}

double length_before(const Context& c, const Island& b) {
  return b.history.last_length > 0 && b.step.rows == HostRows::none ? b.history.last_length : c.dt;
}

void add_applied(const Context& c, Island& b, double time) {
  if (time != 0)
    for (std::size_t j = 0; j < b.x.applied.size(); ++j) b.x.applied[j] += time * b.x.Q[j];
  for (const int slot : b.gyroscopics.step.slots()) {  // Q has the torque of the start
    const int column = b.layout().column[z(slot)] + 3;
    add(b.x.applied, column, time * (c.bodies.load(b.layout().bodies[z(slot)]).torque - head(b.x.Q, column)));
  }
  b.gyroscopics.step.apply_free(b.layout(), time, b.x.applied);
}

}  // namespace linchpin::host
