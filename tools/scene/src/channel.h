// What a channel is made of, and what it may ask.
#pragma once

#include "expression.h"

#include <linchpin/scene.h>

#include <memory>
#include <string>
#include <vector>

namespace linchpin {

struct Channel::Impl {
  explicit Impl(std::shared_ptr<const scene::Tape> tape);
  scene::Evaluator evaluate;
  std::vector<BodyState> X;
  std::vector<Vector3d> given;
};

namespace scene {
/// Adds reaction(c), gap(c), energy() and their kin to what an expression may use.
void offer_observables(Names& names);
/// The unit of an expression that is one quantity by itself; else empty.
std::string unit_of(const std::string& text, const Tape& tape);
}  // namespace scene

}  // namespace linchpin
