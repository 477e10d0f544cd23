// A scene linearised about one state, for `linearize` and `sweep --linearize`.
#pragma once

#include <linchpin/linearization.h>
#include <linchpin/scene/linearization.h>

#include <string>
#include <vector>

namespace linchpin::cli {

/// A scene linearised about one state.
struct LinearizedScene {
  State state;
  LinearizedMotion motion;
  std::vector<Eigenmode> modes;
  std::vector<scene::CoordinateGradient> coordinates;  ///< inputs and outputs
  /// "unstable" if a mode grows, "stable" if all decay, "marginal" if neither is so.
  std::string stability() const;
  double largest_growth_rate() const;  ///< [1/s]
};

/// Linearises a scene about a state, which is moved to the constraints first.
/// @throws std::invalid_argument  the scene is too large, or has no derivatives at the state
LinearizedScene linearize_scene(const scene::Model& model, const System& system, const State& state);

}  // namespace linchpin::cli
