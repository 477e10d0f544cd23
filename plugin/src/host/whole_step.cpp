#include "host/whole_step.h"

#include "host/body_vectors.h"
#include "host/energy_budget.h"
#include "host/step_acceptance.h"
#include "host/tuning.h"

#include <algorithm>
#include <utility>

namespace linchpin::host {

bool extrapolate_newton(const Context& c, Island& b) {
  History& h = b.history;
  if (h.extrapolation.is_paused()) return false;
  if (b.step.rows != HostRows::none || std::max(b.step.moved, b.step.turned) > 0 || h.last_length != c.dt)
    h.extrapolation_steps = 0;
  return h.extrapolation.extrapolate(h.extrapolation_steps, b.x.newton);
}

bool starts_in_substeps(const Context& c, const Island& b) {
  return (b.history.last_length > 0 && b.history.last_length < tuning::whole_length * c.dt) ||
         b.history.too_long_at == c.step;
}

double extrapolation_time(const Context& c, const Island& b) {
  if (b.has(Trait::user_constraint)) return 0;  // its rows may turn though no body does
  constexpr double squared_turn = tuning::max_extrapolated_turn * tuning::max_extrapolated_turn;
  double fastest = 0;
  for (const BodyId id : b.layout().bodies) fastest = std::max(fastest, c.bodies.start[id].w.squaredNorm());
  return fastest * c.dt * c.dt > squared_turn ? squared_turn / (fastest * c.dt) : c.dt;
}

bool ask_for_rows_again(const Context& c, Island& b) {
  if (b.step.rows < HostRows::contacts || starts_in_substeps(c, b)) return false;
  b.history.too_long_at = c.step;
  b.step.outcome.repeats_rows = true;
  return true;
}

void set_poses(Context& c, Island& b) {
  if (std::exchange(b.step.poses.current, true)) return;
  c.bodies.make_ends();
  for (std::size_t slot = 0; slot < b.slots(); ++slot) {
    const BodyId id = b.layout().bodies[slot];
    BodyState& end = c.bodies.end[id];
    c.bodies.base[id] = end = c.bodies.start[id];
    end.v = head(b.x.v, b.layout().column[slot]);
    end.w = head(b.x.v, b.layout().column[slot] + 3);
    advance(end, end.v, end.w, c.dt);
  }
}

namespace {

/// Sets the start pose of a step that moved by the velocities `motion` and ends with x.v: the host, which integrates
/// x.v, then comes to the same end.
void start_from_end_of(Context& c, Island& b, std::span<const double> motion) {
  b.step.poses.start_changed = true;
  for (std::size_t slot = 0; slot < b.slots(); ++slot) {
    const int column = b.layout().column[slot];
    BodyState& s = c.bodies.base[b.layout().bodies[slot]];
    const auto turning = [&](std::span<const double> v) -> Vector3d {
      return turns(b.layout(), slot) ? head(v, column + 3) : Vector3d::Zero();
    };
    advance(s, head(motion, column), turning(motion), c.dt);
    start_pose_for_end(c.world, s.p, s.q, head(b.x.v, column), turning(b.x.v), c.dt);
  }
}

}  // namespace

void end_whole_step(Context& c, Island& b, double constraints, double rows) {
  const bool beyond = turns_beyond_host(c, b), has_rows = b.step.rows != HostRows::none;
  const double damped = b.stats.damping_work;
  if (has_rows) b.x.dv.assign(b.x.v.begin(), b.x.v.end());
  if (bounds_energy(c, b)) {
    reset_energy(b);
    damp_excess_energy(c, b, constraints, rows, energy_allowance(c, b), c.bodies.start, b.x.v);
    count_damping(b);
  }
  if (!beyond && b.stats.damping_work == damped) return;
  set_poses(c, b);
  start_from_end_of(c, b, has_rows ? std::span<const double>(b.x.dv) : std::span<const double>(b.x.v));
}

}  // namespace linchpin::host
