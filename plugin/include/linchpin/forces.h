// All forces beside ideal constraint forces: impressed forces are here, and the nonideal laws of constraints are in
// laws.h.
#pragma once

#include <linchpin/export.h>
#include <linchpin/laws.h>
#include <linchpin/system.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace linchpin {

/// Input and output of an impressed force. All in world axes, SI units. It refers to states and wrenches of the caller
/// and is valid during the call of the force. Do not keep it or references to its states.
class ForceFrame {
 public:
  /// Made by the library. `wrenches` has one wrench for each body, or is empty.
  ForceFrame(double time, std::span<const BodyState> bodies, std::span<Vector6> wrenches)
      : t(time), bodies_(bodies), wrenches_(wrenches) {}
  const double t;  ///< Time [s].
  /// State of the k-th body of the force.
  const BodyState& operator[](std::size_t k) const { return bodies_[k]; }
  /// Adds a force [N] on body k at a world point [m].
  void add_force(std::size_t k, const Vector3d& force, const Vector3d& p_WQ) {
    add(k, force, (p_WQ - bodies_[k].p).cross(force));
  }
  /// Adds a force [N] at the centre of mass of body k.
  void add_force(std::size_t k, const Vector3d& force) { add(k, force, Vector3d::Zero()); }
  /// Adds a moment [N·m] on body k.
  void add_moment(std::size_t k, const Vector3d& moment) { add(k, Vector3d::Zero(), moment); }

 private:
  void add(std::size_t k, const Vector3d& f, const Vector3d& m) {
    if (wrenches_.empty()) return;
    wrenches_[k].head<3>() += f;
    wrenches_[k].tail<3>() += m;
  }
  std::span<const BodyState> bodies_;
  std::span<Vector6> wrenches_;
};

/// A named impressed force on any number of bodies, with its potential energy where it has one.
///
/// A Force is a value. A copy copies the two functions as C++ copies them: what they capture by reference or by pointer
/// is the same object for all copies and must outlive them. A solver calls `act` in every evaluation of a state, from
/// its thread. Reports of energy call `energy`. The functions must not change the system or call a solver: solvers of
/// one thread share work memory. If `act` throws, the evaluation or the step fails with the text. Two threads may use
/// two forces whose functions share nothing.
class LINCHPIN_API Force {
 public:
  /// @param act     adds its forces to the frame. It reads bodies in the order given here.
  /// @param energy  potential [J] at a state. Leave it empty for forces without one. Then energy has no meaning for the
  /// system, and reports say so.
  Force(std::string name, std::vector<BodyId> bodies, std::function<void(ForceFrame&)> act,
        std::function<double(std::span<const BodyState>, double t)> energy = {});
  const std::string& name() const { return name_; }               ///< Name of the force, as in messages.
  std::span<const BodyId> bodies() const { return bodies_; }      ///< Valid as long as the Force is not assigned.
  void act(ForceFrame& frame) const { act_(frame); }              ///< Calls the function that adds the forces.
  bool has_energy() const { return static_cast<bool>(energy_); }  ///< Returns whether the force has a potential.
  /// Potential energy at a state [J]. Call it only if has_energy().
  double energy(std::span<const BodyState> bodies, double t) const { return energy_(bodies, t); }

 private:
  std::string name_;
  std::vector<BodyId> bodies_;
  std::function<void(ForceFrame&)> act_;
  std::function<double(std::span<const BodyState>, double)> energy_;
};

/// A spring and damper between two body-fixed points: pulls with stiffness·(length − rest) + damping·(rate of length).
/// With rest > 0 the direction is undefined where the points coincide, and the force is zero there.
/// @param stiffness [N/m] ≥ 0.
/// @param rest [m] ≥ 0.
/// @param damping [N·s/m] ≥ 0. A damped spring has no potential.
LINCHPIN_API Force spring(std::string name, BodyId a, const Vector3d& p_AQ, BodyId b, const Vector3d& p_BQ,
                          double stiffness, double rest, double damping = 0);

}  // namespace linchpin
