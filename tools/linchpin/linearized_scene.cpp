#include "linearized_scene.h"

#include "equilibrium_search.h"
#include "vector_json.h"

#include <linchpin/dynamics.h>
#include <linchpin/projection.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace linchpin::cli {

using Json = nlohmann::ordered_json;

double LinearizedScene::largest_growth_rate() const {
  double most = -std::numeric_limits<double>::infinity();
  for (const Eigenmode& mode : modes) most = std::max(most, mode.eigenvalue.real());
  return most;
}

std::string LinearizedScene::stability() const {
  const double most = largest_growth_rate();
  return most > 0 ? "unstable" : most < 0 ? "stable" : "marginal";
}

std::vector<Share> shares(const System& system, const LinearizedMotion& motion, const Eigenmode& mode) {
  std::vector<Share> out;
  const auto part = [&](int at, int count) {
    double square = 0;
    for (int i = at; i < at + count; ++i) square += std::norm(mode.shape[static_cast<std::size_t>(i)]);
    return std::sqrt(square);
  };
  for (std::size_t s = 0; s < motion.layout.bodies.size(); ++s) {
    const int at = motion.layout.column[s], size = motion.layout.column[s + 1] - at;
    const double moves = std::max(part(at, std::min(size, 3)), size == 6 ? part(at + 3, 3) : 0.0);
    if (moves > 1e-6) out.push_back({system.name(motion.layout.bodies[s]), moves});
  }
  std::stable_sort(out.begin(), out.end(), [](const Share& a, const Share& b) { return a.size > (1 + 1e-6) * b.size; });
  return out;
}

Json complex_json(const std::complex<double>& x) { return {x.real() + 0.0, x.imag() + 0.0}; }

Json linearization_json(const LinearizedScene& of) {
  const LinearizedMotion& motion = of.motion;
  return {{"t", of.state.t},
          {"steady", motion.is_steady()},
          {"unsteadiness", motion.unsteadiness},
          {"frame_angular_velocity", vector_json(motion.frame_angular_velocity)},
          {"displacements", motion.displacements},
          {"velocities", motion.velocities},
          {"error", motion.error},
          {"stability", of.stability()}};
}

Json mode_json(const Eigenmode& mode) {
  return {{"eigenvalue", complex_json(mode.eigenvalue)},
          {"error", mode.error},
          {"frequency_rad_s", mode.frequency()},
          {"damping_ratio", mode.damping_ratio()}};
}

namespace {

/// Moves a state to the constraints. Steps of the semi-implicit method end with velocities that are on them in the
/// middle of the step only.
State on_constraints(const System& system, Dynamics& dynamics, State state) {
  constexpr double tolerance = 1e-12;
  constexpr int most_solves = 30;
  const auto factor = [&] {
    if (dynamics.factor(state) == Status::invalid) throw std::invalid_argument(dynamics.reason());
  };
  factor();
  project_positions(system, dynamics, state, tolerance, most_solves);
  factor();
  project_velocities(system, dynamics, state);
  return state;
}

}  // namespace

LinearizedScene linearize_scene(const scene::Model& model, const System& system, const State& state) {
  LinearizedScene out;
  const IslandLayout layout = whole_system(system);
  if (layout.n() > most_velocities)
    throw std::invalid_argument("the scene has " + std::to_string(layout.n()) +
                                " velocities, but its equations are linearised for at most " +
                                std::to_string(most_velocities));
  Dynamics dynamics(system, model.options.solve);
  out.state = on_constraints(system, dynamics, state);
  out.coordinates = scene::coordinate_gradients(model, system, out.state, layout);
  LinearizeOptions options;
  options.solve = model.options.solve;
  out.motion = linearize(system, out.state, scene::force_inputs(out.coordinates), options);
  out.modes = eigenmodes(out.motion);
  return out;
}

}  // namespace linchpin::cli
