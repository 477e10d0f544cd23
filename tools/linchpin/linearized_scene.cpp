#include "linearized_scene.h"

#include "equilibrium_search.h"

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

LinearizedScene linearize_scene(const scene::Model& model, const System& system, const State& state) {
  LinearizedScene out;
  out.state = state;
  const IslandLayout layout = whole_system(system);
  if (layout.n() > most_velocities)
    throw std::invalid_argument("the scene has " + std::to_string(layout.n()) +
                                " velocities, but its equations are linearised for at most " +
                                std::to_string(most_velocities));
  out.coordinates = scene::coordinate_gradients(model, system, state, layout);
  LinearizeOptions options;
  options.solve = model.options.solve;
  out.motion = linearize(system, state, scene::force_inputs(out.coordinates), options);
  out.modes = eigenmodes(out.motion);
  return out;
}

}  // namespace linchpin::cli
