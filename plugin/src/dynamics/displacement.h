// Displacements and velocity changes of all bodies of a block, as vectors in block order: [δp; δθ] and [δv; δω] in
// world axes. Private to the core.
#pragma once

#include <linchpin/assembly.h>
#include <linchpin/system.h>

#include <Eigen/Core>

namespace linchpin {

/// Sizes with which displacements and velocity changes are compared.
struct MotionScale {
  double length = 1;  ///< Distance over which the bodies are spread, or the radius of gyration of one [m].
  double rate = 1;    ///< Rate of the motion, or that of a pendulum as long as the mechanism [rad/s].
};

/// The fastest rate at which bodies move beside a length, or turn [rad/s].
double speed_of_motion(const System& system, const IslandLayout& layout, const State& state, double length);
MotionScale motion_scale(const System& system, const IslandLayout& layout, const State& state);

/// Computes the state after a part of a displacement [n] and of a velocity change [n]. The time stays.
void displace(const System& system, const IslandLayout& layout, const State& from, const Eigen::VectorXd& dq,
              const Eigen::VectorXd& dv, double part, State& to);

/// Largest size of a displacement, relative to the scale, or angle [rad], and of a velocity change, relative to the
/// characteristic velocity.
double relative_size(const System& system, const IslandLayout& layout, const MotionScale& scale,
                     const Eigen::VectorXd& dq, const Eigen::VectorXd& dv);

/// Finds the displacement and velocity change [n] that take one state to another. Rotations are at most half a turn.
void difference(const System& system, const IslandLayout& layout, const State& from, const State& to,
                Eigen::Ref<Eigen::VectorXd> dq, Eigen::Ref<Eigen::VectorXd> dv);

}  // namespace linchpin
