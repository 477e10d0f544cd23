// Impressed forces.
#include "model/system_impl.h"

#include <linchpin/forces.h>
#include <linchpin/joints.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace linchpin {

bool has_potential_of_bodies(const System& system, const Force& force) {
  return force.has_energy() && std::none_of(force.bodies().begin(), force.bodies().end(), [&](BodyId id) {
           return system.kind(id) == BodyKind::kinematic || system.kind(id) == BodyKind::coordinate;
         });
}
namespace {

void require_nonnegative(const std::string& what, double x) {
  if (!(x >= 0) || !std::isfinite(x))
    throw std::invalid_argument(what + " must be finite and not negative, got " + std::to_string(x));
}

void require_finite(const std::string& name, const char* what, const Vector3d& p) {
  if (!p.allFinite()) throw std::invalid_argument("force '" + name + "': " + what + " must be finite");
}

}  // namespace

Force::Force(std::string name, std::vector<BodyId> bodies, std::function<void(ForceFrame&)> act,
             std::function<double(std::span<const BodyState>, double t)> energy)
    : name_(std::move(name)), bodies_(std::move(bodies)), act_(std::move(act)), energy_(std::move(energy)) {
  if (name_.empty()) throw std::invalid_argument("a force needs a name");
  if (bodies_.empty()) throw std::invalid_argument("force '" + name_ + "': it names no body");
  if (!act_) throw std::invalid_argument("force '" + name_ + "': it has no function");
  for (std::size_t k = 0; k < bodies_.size(); ++k)
    if (std::find(bodies_.begin(), bodies_.begin() + static_cast<std::ptrdiff_t>(k), bodies_[k]) !=
        bodies_.begin() + static_cast<std::ptrdiff_t>(k))
      throw std::invalid_argument("force '" + name_ + "': body " + std::to_string(bodies_[k].index) +
                                  " is named twice");
}

Force spring(std::string name, BodyId a, const Vector3d& p_AQ, BodyId b, const Vector3d& p_BQ, double stiffness,
             double rest, double damping) {
  const std::string thing = "force '" + name + "': ";
  require_finite(name, detail::anchor_on_a, p_AQ);
  require_finite(name, detail::anchor_on_b, p_BQ);
  require_nonnegative(thing + "stiffness", stiffness);
  require_nonnegative(thing + "rest length", rest);
  require_nonnegative(thing + "damping", damping);
  const auto act = [=](ForceFrame& frame) {
    const BodyState &A = frame[0], &B = frame[1];
    const Vector3d p_A = A.point(p_AQ), p_B = B.point(p_BQ), d = p_B - p_A;
    const double length = d.norm();
    Vector3d pull = stiffness * d;  // Force on a. Without a rest length it is smooth also where the points coincide.
    if (length > 0) {
      const Vector3d u = d / length;
      pull += (damping * u.dot(B.velocity_of(p_BQ) - A.velocity_of(p_AQ)) - stiffness * rest) * u;
    }
    frame.add_force(0, pull, p_A);
    frame.add_force(1, -pull, p_B);
  };
  std::function<double(std::span<const BodyState>, double)> energy;
  if (damping == 0)
    energy = [=](std::span<const BodyState> X, double) {
      const double stretch = (X[1].point(p_BQ) - X[0].point(p_AQ)).norm() - rest;
      return 0.5 * stiffness * stretch * stretch;
    };
  return {std::move(name), {a, b}, act, std::move(energy)};
}

}  // namespace linchpin
