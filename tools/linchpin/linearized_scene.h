// A scene linearised about one state, for `linearize` and `sweep --linearize`.
#pragma once

#include <linchpin/linearization.h>
#include <linchpin/scene/linearization.h>

#include <nlohmann/json.hpp>

#include <complex>
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

/// How far a mode moves one body: its displacement [m] or its rotation [rad], whichever is larger.
struct Share {
  std::string body;
  double size = 0;
};

/// Returns the bodies that a mode moves, the largest share first.
std::vector<Share> shares(const System& system, const LinearizedMotion& motion, const Eigenmode& mode);

/// Returns whether a list of modes shows a mode: no neutral one, and of a conjugate pair the first.
inline bool is_listed(const Eigenmode& mode) { return mode.eigenvalue != 0.0 && mode.eigenvalue.imag() >= 0; }

/// A complex number as JSON: real part, imaginary part.
nlohmann::ordered_json complex_json(const std::complex<double>& x);
/// The state, the steadiness and the stability as JSON, without modes and matrices.
nlohmann::ordered_json linearization_json(const LinearizedScene& of);
/// The numbers of a mode as JSON, without its shape.
nlohmann::ordered_json mode_json(const Eigenmode& mode);

/// Linearises a scene about a state, which is moved to the constraints first.
/// @throws std::invalid_argument  the scene is too large, or has no derivatives at the state
LinearizedScene linearize_scene(const scene::Model& model, const System& system, const State& state);

}  // namespace linchpin::cli
