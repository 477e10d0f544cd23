// What a channel is made of, and what it may ask.
#pragma once

#include "expression.h"

#include <linchpin/scene.h>

#include <memory>
#include <string>
#include <vector>

namespace linchpin::scene {

/// The wrench through a joint: what it does to one of its bodies, about the point where it acts on that body.
struct Sensor {
  std::string name, joint;
  int on = 1;                                  ///< which of the joint's bodies
  BodyId frame = ground;                       ///< whose axes the numbers are in,
  Quaterniond axes = Quaterniond::Identity();  ///< turned by this
};

struct LINCHPIN_PRIVATE Channel::Impl {
  Impl(std::shared_ptr<const scene::Tape> tape, std::shared_ptr<const std::vector<scene::Sensor>> sensors_);
  std::shared_ptr<const std::vector<scene::Sensor>> sensors;  ///< of the scene: inputs NAME_force and NAME_torque
  scene::Evaluator evaluate;
  std::vector<BodyState> X;
  std::vector<Vector3d> given;
};

/// Adds reaction(c), gap(c), energy() and their kin to what an expression may use.
void offer_observables(Names& names);
/// The unit of an expression that is one quantity by itself, a part of it or its size; else empty.
std::string unit_of(const Tape& tape, const Model& model);

}  // namespace linchpin::scene
