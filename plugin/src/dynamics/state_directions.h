// Directions in the space of states, in block order: a displacement and a velocity change of every body. Hides how a
// state is displaced, and how large a displacement is for the mechanism. Private to the core.
#pragma once

#include <linchpin/assembly.h>
#include <linchpin/system.h>

#include <span>

namespace linchpin {

/// The displacement of a body is [δp; δθ], its velocity change [δv; δω], in world axes. A particle has the first three,
/// a coordinate one number. It keeps references to a system and a layout.
class StateDirections {
 public:
  StateDirections(const System& system, const IslandLayout& layout) : system_(system), layout_(layout) {}

  /// What the size of the mechanism contains beside the distances and the radii of gyration of its bodies.
  enum class Size {
    of_bodies,      ///< Nothing.
    of_constraints  ///< The distances at which constraints act, and that of a lone particle from the origin.
  };
  /// Measures the size of the mechanism and its rate at a state. The functions below use them.
  void measure(const State& state, Size size);
  double length() const { return length_; }  ///< Size of the mechanism [m].
  /// The fastest rate of the velocities at a state [rad/s], 0 at rest. measure() was called.
  double rate_of(const State& state) const;

  /// Sets the state after a part of a displacement [n] and of a velocity change [n].
  void displace(const State& from, std::span<const double> dq, std::span<const double> dv, double part,
                State& to) const;
  /// Finds the displacement [n] and the velocity change [n] that take one state to another. Rotations are at most half
  /// a turn.
  void difference(const State& from, const State& to, std::span<double> dq, std::span<double> dv) const;
  /// The size of a direction: 1 turns bodies by 1 rad, moves them by the size of the mechanism, or changes velocities
  /// by the present ones or by characteristic ones.
  double size_of(std::span<const double> dq, std::span<const double> dv) const;
  double characteristic_rate() const { return rate_; }  ///< Rate of the motion, or of a pendulum as long [rad/s].

 private:
  const System& system_;
  const IslandLayout& layout_;
  double length_ = 1, rate_ = 1;
};

}  // namespace linchpin
