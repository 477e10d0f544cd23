// What a channel is made of, and what it may ask.
#pragma once

#include "expression.h"
#include "joint_coordinate.h"

#include <linchpin/assembly.h>
#include <linchpin/scene.h>

#include <Eigen/Core>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace linchpin::scene {

/// The wrench through a joint: what it does to one of its bodies, about the point where it acts on that body.
struct Sensor {
  std::string name, joint;
  int on = 1;                                  ///< which of the joint's bodies
  BodyId frame = ground;                       ///< whose axes the numbers are in,
  Quaterniond axes = Quaterniond::Identity();  ///< turned by this
  std::optional<Vector3d> origin;              ///< of a named frame in that body: the torque is about it
};

/// Accelerations of all bodies from the impressed forces and the reactions at a state: M v̇ = Q + Σ reactions (T5). So
/// they are the same on every host.
class Accelerations {
 public:
  /// Call it before the others, at each state.
  void evaluate(const Observation& at);
  /// [v̇; α] of a body, world axes; NaN where a reaction is not known. Of a coordinate the first is q̈.
  Vector6 of(const Observation& at, BodyId id) const;

 private:
  Assembly assembly_;
  Eigen::VectorXd a_;  // of the whole system, by column
};

struct LINCHPIN_PRIVATE Channel::Impl {
  Impl(std::shared_ptr<const scene::Tape> tape, std::shared_ptr<const std::vector<scene::Sensor>> sensors_,
       std::shared_ptr<const JointCoordinates> joints_);
  std::shared_ptr<const std::vector<scene::Sensor>> sensors;  ///< of the scene: inputs NAME_force and NAME_torque
  scene::JointReader joints;
  scene::Evaluator evaluate;
  std::vector<BodyState> X;
  std::vector<Vector3d> given;
  std::optional<Accelerations> accelerations;  ///< where the channel reads one
};

/// Adds reaction(c), gap(c), energy() and their kin to what an expression may use.
void offer_observables(Names& names);
/// The unit of an expression that is one quantity by itself, a part of it or its size; else empty.
std::string unit_of(const Tape& tape, const Model& model);

}  // namespace linchpin::scene
