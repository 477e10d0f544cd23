// Energy and momenta of a whole system, and the texts of reactions and balances. It contains only sums.
#include "model/format.h"
#include "problem/jacobian_products.h"

#include <linchpin/constraint.h>
#include <linchpin/coordinates.h>
#include <linchpin/forces.h>
#include <linchpin/report.h>

#include <algorithm>
#include <limits>
#include <ostream>
#include <sstream>
#include <utility>

namespace linchpin {

namespace {

/// " (and 2 more times)" of an event that happened `count` times.
std::string more_times(long count) {
  if (count == 1) return "";
  return " (and " + std::to_string(count - 1) + (count == 2 ? " more time)" : " more times)");
}

}  // namespace

std::string energy_gain_text(const std::string& body, const EnergyGain& gain, long count) {
  const std::string others = gain.bodies > 2 ? std::to_string(gain.bodies - 1) + " bodies" : "body";
  return "energy grows without a source: '" + body + "'" +
         (gain.bodies > 1 ? " and the " + others + " joined to it have" : " has") + " gained " + text(gain.gain) +
         " J until t = " + text(gain.t) + " s, which is " + text(100 * gain.relative) +
         " % of the energy of the motion. " +
         (gain.contradictory
              ? "Its constraints contradict each other, and their forces therefore do work. Remove one of "
                "them or give one compliance"
              : "Use a shorter step, or a method of higher order") +
         more_times(count);
}
std::string energy_gain_text(const System& system, const EnergyGain& gain, long count) {
  return energy_gain_text(gain.body.index < 0 ? "a multibody" : system.name(gain.body), gain, count);
}
std::string velocity_residual_text(const VelocityResidual& residual, long count) {
  return "velocities do not satisfy '" + residual.constraint + "': their residual is " + text(residual.residual) +
         " at t = " + text(residual.t) + " s, which is " + text(100 * residual.relative) +
         " % of the motion of its bodies. Switch on the correction of drift, or use a shorter step" + more_times(count);
}

double MomentumBalance::imbalance() const {
  const Eigen::Matrix<double, 6, 1> left = momentum - applied - host - constraints;
  if (!left.allFinite()) return std::numeric_limits<double>::infinity();
  double force = gross_force, moment = gross_moment;
  for (const auto* term : {&momentum, &applied, &host, &constraints}) {
    force = std::max(force, term->head<3>().norm());
    moment = std::max(moment, term->tail<3>().norm());
  }
  // If one of the two is only round-off, the other sets its scale.
  const double force_scale = std::max(force, 1e-3 * moment), moment_scale = std::max(moment, 1e-3 * force);
  if (!(force_scale > 0) && !(moment_scale > 0)) return 0;
  // Velocities have rounding of their own, and the impulse of a step may be smaller than that.
  constexpr double slack = 16 * std::numeric_limits<double>::epsilon();
  return std::max({0.0, (left.head<3>().norm() - slack * linear_motion) / force_scale,
                   (left.tail<3>().norm() - slack * angular_motion) / moment_scale});
}

double add_law_work(const System& system, const Dynamics& dynamics, const State& state, const LawForce& e, double dt,
                    std::span<const double> v0, std::span<const double> v1, LawWork& to) {
  const IslandLayout& layout = dynamics.assembly().layout;
  const ConstraintId id = layout.constraints[z(e.constraint)];
  const auto bodies = system.constraint(id).bodies();
  double on_moving = 0;
  for (int k = 0; k < std::min(2, static_cast<int>(bodies.size())); ++k) {
    const BodyState& body = state[bodies[z(k)]];
    const int slot = layout.body_index(bodies[z(k)]);
    Vector6d twice;
    if (slot >= 0)
      twice = twist_of(layout, z(slot), v0) + twist_of(layout, z(slot), v1);
    else  // A kinematic or fixed body counts with its own velocity.
      twice << 2 * body.v, 2 * body.w;
    if (system.kind(bodies[z(k)]) == BodyKind::particle) twice.tail<3>().setZero();
    const Vector3d moment = e.moment + (e.p_WQ - body.p).cross(e.force);
    const double work = (k == 0 ? 0.5 : -0.5) * dt * (e.force.dot(twice.head<3>()) + moment.dot(twice.tail<3>()));
    to.last += work;
    if (slot >= 0) on_moving += work;
  }
  const LawReport& report = dynamics.law_report();
  to.force = Wrench{e.force, e.moment, e.p_WQ};
  to.power = e.power;
  to.normal_force = e.normal_force;
  to.normal = Wrench{e.normal, e.normal_moment, e.p_WQ};
  to.solutions = e.normal_force == NormalForce::coupled ? report.solutions : 0;
  to.branch = report.branch;
  to.fell_back =
      report.fell_back && laws_on(system, id)[z(e.law)].terms()[z(e.term)].normal_force == NormalForce::coupled;
  to.mode = LawWork::Mode::smooth;
  if (e.element >= 0) {
    const FrictionElement& element = dynamics.friction_elements()[z(e.element)];
    to.mode = element.sticks ? LawWork::Mode::sticks : LawWork::Mode::slides;
    to.bound = element.bound;
  }
  to.difference = Wrench{e.difference, e.difference_moment, e.p_WQ};
  if (e.switches > to.counted) to.switches += e.switches - to.counted;
  to.counted = e.switches;
  return on_moving;
}

void LawWork::end_step(double dt) {
  work += last;
  time += dt;
  const double force_difference = difference.force.norm(), moment_difference = difference.moment.norm();
  if (force_difference > largest_difference) normal_force_there = normal.force.norm();
  if (largest_difference == 0 && force_difference == 0 && moment_difference > largest_moment_difference)
    normal_force_there = normal.moment.norm();
  largest_difference = std::max(largest_difference, force_difference);
  largest_moment_difference = std::max(largest_moment_difference, moment_difference);
}

namespace {

std::string difference_text(const LawWork& law) {
  const bool force = law.largest_difference > 0, actual = law.normal_force == NormalForce::coupled;
  const char* unit = force ? " N" : " N·m";
  std::ostringstream out;
  out.precision(4);
  out << (law.name == "law" ? "the law" : "law '" + law.name + "'") << " on " << law.constraint << " used the "
      << (actual ? "coupled" : "frictionless") << (force ? " normal force" : " moment") << ", which differed from the "
      << (actual ? "frictionless" : "coupled") << " one by up to "
      << (force ? law.largest_difference : law.largest_moment_difference) << unit << " (at " << law.normal_force_there
      << unit << ")";
  return out.str();
}

}  // namespace

std::vector<std::string> normal_force_differences(std::span<const LawWork> laws, std::size_t most) {
  std::vector<const LawWork*> different;
  for (const LawWork& law : laws)
    if (law.largest_difference > 0 || law.largest_moment_difference > 0) different.push_back(&law);
  std::stable_sort(different.begin(), different.end(), [](const LawWork* a, const LawWork* b) {
    return std::pair(a->largest_difference, a->largest_moment_difference) >
           std::pair(b->largest_difference, b->largest_moment_difference);
  });
  std::vector<std::string> out;
  for (std::size_t i = 0; i < different.size() && i < most; ++i) out.push_back(difference_text(*different[i]));
  if (different.size() > most)
    out.push_back("the coupled and the frictionless normal force differed for " +
                  std::to_string(different.size() - most) + " more laws");
  return out;
}

namespace {

template <class Visit>
void for_movable(const System& system, const State& state, Visit visit) {
  for (int i = 0; i < system.body_count(); ++i)
    if (const BodyId id = system.body_at(i); system.dof(id) > 0) visit(id, state[id], system.dof(id) == 6);
}

}  // namespace

namespace {

// Visits each group of coordinates once: visit(kinetics, q, rate).
template <class Visit>
void for_coordinates(const System& system, const State& state, Visit visit) {
  std::vector<double> q, rate;
  for (int i = 0; i < system.body_count();) {
    const auto group = system.coordinates(system.body_at(i));
    if (!group.kinetics) {
      ++i;
      continue;
    }
    q.clear(), rate.clear();
    for (const int end = i + group.count; i < end; ++i) {
      q.push_back(state[BodyId{i}].p.x());
      rate.push_back(state[BodyId{i}].v.x());
    }
    visit(*group.kinetics, q, rate);
  }
}

}  // namespace

double kinetic_energy(const System& system, const State& state) {
  double sum = 0;
  for_coordinates(system, state,
                  [&](const Kinetics& T, const auto& q, const auto& rate) { sum += T.energy(q, rate, state.t); });
  for_movable(system, state, [&](BodyId id, const BodyState& s, bool rigid) {
    sum += 0.5 * system.mass(id) * s.v.squaredNorm();
    if (rigid) sum += 0.5 * s.w.dot(system.world_inertia(id, s.q) * s.w);
  });
  return sum;
}

double potential_energy(const System& system, const State& state) {
  double sum = 0;
  for_movable(system, state,
              [&](BodyId id, const BodyState& s, bool) { sum -= system.mass(id) * system.gravity().dot(s.p); });
  std::vector<BodyState> of_force;
  for (const Force& force : system.forces()) {
    if (!force.has_energy()) continue;
    of_force.clear();
    for (const BodyId id : force.bodies()) of_force.push_back(state[id]);
    sum += force.energy(of_force, state.t);
  }
  return sum;
}

bool conservative(const System& system) {
  for (int i = 0; i < system.body_count(); ++i)
    if (const auto group = system.coordinates(system.body_at(i)); group.kinetics && group.kinetics->rheonomic())
      return false;
  for (const Force& force : system.forces())
    if (!force.has_energy()) return false;
  for (int i = 0; i < system.constraint_count(); ++i)
    if (const ConstraintId id = system.constraint_at(i);
        !system.removed(id) && system.enabled(id) && !laws_on(system, id).empty())
      return false;
  return true;
}

double energy(const System& system, const State& state) {
  return kinetic_energy(system, state) + potential_energy(system, state);
}

double energy_integral(const System& system, const State& state) {
  double sum = energy(system, state);
  for_coordinates(system, state, [&](const Kinetics& T, const auto& q, const auto& rate) {
    sum += T.energy_integral(q, rate, state.t) - T.energy(q, rate, state.t);
  });
  return sum;
}

Vector3d linear_momentum(const System& system, const State& state) {
  Vector3d sum = Vector3d::Zero();
  for_movable(system, state, [&](BodyId id, const BodyState& s, bool) { sum += system.mass(id) * s.v; });
  return sum;
}

Vector3d angular_momentum(const System& system, const State& state, const Vector3d& about) {
  Vector3d sum = Vector3d::Zero();
  for_movable(system, state, [&](BodyId id, const BodyState& s, bool rigid) {
    sum += system.mass(id) * (s.p - about).cross(s.v);
    if (rigid) sum += system.world_inertia(id, s.q) * s.w;
  });
  return sum;
}

double energy_in_rotating_frame(const System& system, const State& state, const Vector3d& omega) {
  return energy(system, state) - omega.dot(angular_momentum(system, state));
}

std::ostream& operator<<(std::ostream& out, const Reaction& r) {
  // A component that is round-off of the others is printed as zero.
  const auto print = [&out](const Vector3d& u, double size) {
    const auto clean = [&](double x) { return std::fabs(x) > 1e-13 * size ? x : 0.0; };
    out << '(' << clean(u.x()) << ", " << clean(u.y()) << ", " << clean(u.z()) << ')';
  };
  const double force = r.on_a.force.norm();
  if (r.name.empty()) return out << "no reaction: there is no constraint of that name, or it was removed\n";
  out << r.name;
  if (r.native) out << "  (solved by the native solver)";
  out << "  F = ";
  print(r.on_a.force, force);
  out << " N  M = ";
  print(r.on_a.moment, r.on_a.moment.norm());
  out << " N·m at ";
  print(r.on_a.point, std::max(1.0, r.on_a.point.norm()));
  out << " m";
  if (!r.prescribed.on_a.force.isZero(0)) {
    out << "  of which prescribed by laws: ";
    print(r.prescribed.on_a.force, force);
    out << " N";
  }
  out << "  power " << r.power << " W";
  if (r.residual == 0 || r.gap != 0 || r.gap_angle != 0) out << "  gap " << r.gap << " m";
  if (r.gap_angle != 0) out << ", " << r.gap_angle << " rad";
  if (r.residual != 0) out << "  residual " << r.residual;
  if (!r.determined) out << "  (undetermined: the distribution of least norm)";
  return out << '\n';
}

}  // namespace linchpin
