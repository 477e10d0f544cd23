#include "linearized_scene.h"

#include "equilibrium_search.h"

#include <linchpin/dynamics.h>
#include <linchpin/projection.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace linchpin::cli {

double LinearizedScene::largest_growth_rate() const {
  double most = -std::numeric_limits<double>::infinity();
  for (const Eigenmode& mode : modes) most = std::max(most, mode.eigenvalue.real());
  return most;
}

std::string LinearizedScene::stability() const {
  const double most = largest_growth_rate();
  return most > 0 ? "unstable" : most < 0 ? "stable" : "marginal";
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
