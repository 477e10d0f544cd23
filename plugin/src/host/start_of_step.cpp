#include "host/start_of_step.h"

#include "host/geometric_damping.h"
#include "host/tuning.h"
#include "projection/turned_joints.h"

#include <utility>

namespace linchpin::host {

namespace {

void begin_step(Context& c, Island& b) {
  const std::size_t n = z(b.layout().n()), m = z(b.layout().m());
  if (std::exchange(b.step.start_gap, StartGap::small) == StartGap::turned_far && b.dynamics)
    linchpin::detail::hold_as_made(c.system, *b.dynamics);
  b.step = IslandStep{};
  b.step.force_time = c.dt;
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
  b.gyroscopics.active.resize(b.slots());
  b.gyroscopics.step.clear();
  b.gyroscopics.step.set_time(c.dt);
}

/// Reads the forces on one body, with its gyroscopic torque at the start (T2). The impulse of the gyroscopic torque
/// follows later, because it depends on the end of the step.
void read_forces(const Context& c, Island& b, std::size_t slot) {
  const BodyId id = b.layout().bodies[slot];
  const int column = b.layout().column[slot];
  const Load& load = c.bodies.load(id);
  put(b.x.Q, column, load.force);
  put(b.x.applied, column, c.dt * load.force);
  b.gyroscopics.active[slot] = load.gyroscopic && turns(b.layout(), slot);
  if (!turns(b.layout(), slot)) return;
  put(b.x.Q, column + 3, load.torque);
  put(b.x.applied, column + 3, c.dt * load.torque);
  if (!load.gyroscopic) return;
  const BodyState& s = c.bodies.start[id];
  const Matrix3d R = s.R();
  const Vector3d I = c.system.inertia(id).diagonal();  // hosts have principal moments only
  add(b.x.Q, column + 3, gyroscopic_torque(R, I, s.w));
  b.gyroscopics.step.add(static_cast<int>(slot), I);
}

}  // namespace

bool read_island(Context& c, Island& b, bool among_rows) {
  for (const BodyId id : b.layout().bodies)  // a repeated setup finds bodies that were moved since
    if (among_rows || !c.bodies.was_read(id, c.step)) c.bodies.read(c.world, id, c.step);
  if (c.step < b.history.next_try) {
    b.step.poses.current = b.step.is_sized = false;
    return false;  // with the failure of the last try
  }
  begin_step(c, b);
  const bool fast = !among_rows && b.fast.fits;
  if (!fast) size_vectors(c, b);
  for (std::size_t slot = 0; slot < b.slots(); ++slot) {
    const BodyId id = b.layout().bodies[slot];
    const int index = among_rows ? c.world.row_body(id) : -1;
    const bool here = among_rows ? index >= 0 : !b.detached;
    if (!here || !c.bodies.in_world(id))  // a host row may have added a body that the host does not move
      return fail(b, "body '" + c.system.name(id) +
                         "' has a constraint but is not in the world. Add it to the world, or call release_body() "
                         "before you remove it");
    b.solver_body[slot] = index;
    read_forces(c, b, slot);
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

void make_dynamics(const Context& c, Island& b) {
  SolveOptions solve;
  solve.rank_tolerance = c.options.rank_tolerance;
  solve.reference_rows = tuning::max_dense_rows;
  b.dynamics.emplace(c.system, b.topology.ids, solve);
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
  b.gyroscopics.step.extend({c.system, b.layout(), c.bodies.start}, time, b.x.applied);
}

}  // namespace linchpin::host
