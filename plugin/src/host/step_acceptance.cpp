#include "host/step_acceptance.h"

#include "host/body_vectors.h"
#include "host/tuning.h"
#include "problem/jacobian_products.h"

#include <algorithm>
#include <cmath>

namespace linchpin::host {

namespace {

/// Returns whether the constraints of an island can do work by themselves: they depend on time, or on a kinematic body.
bool can_do_work(const Context& c, const Island& b) {
  if (b.has(Trait::kinematic_body)) return true;
  return b.has(Trait::user_constraint) && std::any_of(b.topology.entries.begin(), b.topology.entries.end(), [&](int i) {
           return c.constraints[i].time != ConstraintEntry::Time::constant;
         });
}

/// Returns the work of ideal constraint impulses where they can do none: impulse · ½(v₀ + v₁), without prescribed
/// forces [J].
double work_of_ideal(const Dynamics& dynamics, double h, std::span<const double> newton, std::span<const double> v0,
                     std::span<const double> v1) {
  const auto ideal = dynamics.ideal(), nonideal = dynamics.nonideal();
  const std::vector<double>& prescribed = dynamics.assembly().problem.c;
  double sum = 0;
  for (std::size_t j = 0; j < v0.size(); ++j) {
    const double impulse = h * (ideal[j] + nonideal[j] - prescribed[j]) + newton[j];
    sum += impulse * 0.5 * (v0[j] + v1[j]);
  }
  return sum;
}

}  // namespace

double kinetic_energy(const Assembly& assembly, std::span<const double> v) {
  return 0.5 * mass_norm(assembly.problem, v);
}

double kinetic_energy(const System& system, const IslandLayout& layout, const State& poses, std::span<const double> v,
                      const RigidMotion& relative_to) {
  double sum = 0;
  for (std::size_t slot = 0; slot < layout.bodies.size(); ++slot) {
    const BodyId id = layout.bodies[slot];
    const BodyState& pose = poses[id];
    sum += 0.5 * system.mass(id) * (head(v, layout.column[slot]) - relative_to.at(pose.p)).squaredNorm();
    if (!turns(layout, slot)) continue;
    const Vector3d w = head(v, layout.column[slot] + 3) - relative_to.angular;
    sum += 0.5 * w.dot(system.world_inertia(id, pose.q) * w);
  }
  return sum;
}

double open_by_rounding(const Context& c, const BodyState& s) {
  return tuning::floor_newton_tolerances * c.options.newton_tolerance +
         tuning::floor_pose_roundings * c.capabilities.rounding * std::max(1.0, s.p.cwiseAbs().maxCoeff());
}

double start_energy(const Context& c, const Island& b) { return energy_of(c, b, c.bodies.start); }

double energy_of(const Context& c, const Island& b, const State& at) {
  double sum = 0;
  for (const BodyId id : b.layout().bodies) {
    const BodyState& s = at[id];
    sum += 0.5 * (c.system.mass(id) * s.v.squaredNorm() + s.w.dot(c.system.world_inertia(id, s.q) * s.w));
  }
  return sum;
}

double inner_start_energy(const Context& c, const Island& b) {
  const double all = start_energy(c, b);
  if (!b.topology.boundary.empty()) return all;
  double mass = 0;
  Vector3d momentum(0, 0, 0);
  for (const BodyId id : b.layout().bodies) {
    mass += c.system.mass(id);
    momentum += c.system.mass(id) * c.bodies.start[id].v;
  }
  return std::max(0.0, all - 0.5 * momentum.squaredNorm() / mass);
}

double work_of(std::span<const double> impulses, std::span<const double> v0, std::span<const double> v1) {
  double sum = 0;
  for (std::size_t j = 0; j < impulses.size(); ++j) sum += 0.5 * impulses[j] * (v0[j] + v1[j]);
  return sum;
}

double gain_of_constraints(const Context& c, Island& b, double h, std::span<const double> v0,
                           std::span<const double> v1) {
  if (!can_do_work(c, b)) return work_of_ideal(*b.dynamics, h, b.x.force, v0, v1);
  return work_of_rows(b, h, v0, v1, [](std::size_t) { return true; });
}

// The floor has no gyroscopic torque, because there is none from rest. The torque of a body that turns by ω·dt ≫ 1 in
// the step would allow (ω·dt)² times all its energy. A step is also no more exact than the poses that it begins with.
// It closes gaps that the rounding of the host and the tolerance of Newton have left; in mid-air a structure at rest
// does nothing else.
double energy_floor(const Context& c, const Island& b) {
  const IslandLayout& layout = b.layout();
  double sum = 0, rounding = 0;
  for (std::size_t slot = 0; slot < b.slots(); ++slot) {
    const BodyId id = layout.bodies[slot];
    const BodyState& s = c.bodies.start[id];
    const double open = open_by_rounding(c, s);
    sum += head(b.x.Q, layout.column[slot]).squaredNorm() / c.system.mass(id);
    rounding += c.system.mass(id) * open * open;
    if (!turns(layout, slot)) continue;
    const Vector3d own = s.q.conjugate() * c.bodies.load(id).torque, I = c.system.inertia(id).diagonal();
    sum += own.cwiseQuotient(I).dot(own);
    rounding += I.sum() * open * open;
  }
  return 0.5 * (c.dt * c.dt * sum + rounding / (c.dt * c.dt));
}

bool gear_turns_too_far(const Context& c, const Island& b, const State& end, double h) {
  if (!b.has(Trait::gear)) return false;
  for (std::size_t i = 0; i < b.topology.entries.size(); ++i) {
    if (!c.constraints[b.topology.entries[i]].geometry.is_gear) continue;
    for (const BodyId id : c.system.constraint(b.topology.ids[i]).bodies())
      if (!(end[id].w.norm() * h < tuning::half_turn)) return true;
  }
  return false;
}

bool turns_beyond_host(const Context& c, const Island& b) {
  const double most = c.capabilities.largest_turn;
  for (std::size_t slot = 0; slot < b.slots(); ++slot)
    if (turns(b.layout(), slot) && head(b.x.v, b.layout().column[slot] + 3).squaredNorm() * (c.dt * c.dt) > most * most)
      return true;
  return false;
}

bool starts_half_a_turn_away(const Context& c, const Island& b) {
  for (std::size_t slot = 0; slot < b.slots(); ++slot)
    if (turns(b.layout(), slot) &&
        !((head(b.x.v, b.layout().column[slot] + 3) - c.bodies.start[b.layout().bodies[slot]].w).norm() * c.dt <
          tuning::half_turn))
      return true;
  return false;
}

bool held_by_curvature(const Context& c, const Island& b, const NewtonReport& newton) {
  return newton.least_squares && !b.has(Trait::laws) &&
         newton.residual * c.dt >
             tuning::curvature_rounding + tuning::curvature_gap_factor * largest(b.dynamics->assembly().position) &&
         std::all_of(b.topology.ids.begin(), b.topology.ids.end(),
                     [&](ConstraintId id) { return c.system.constraint(id).function().level() == Level::position; });
}

bool contradicts(const NewtonReport& newton, double h, double gap_tolerance) {
  return newton.least_squares && std::sqrt(3.0) * newton.residual * h > gap_tolerance;
}

}  // namespace linchpin::host
