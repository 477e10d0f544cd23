#include "place_of_rest.h"

#include <linchpin/dynamics.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace linchpin::cli {

PlaceOfRest place_of_rest(const scene::Model& model, const System& system, int starts) {
  const State start = system.initial_state();
  Dynamics dynamics(system, model.options.solve);
  if (dynamics.evaluate(start) == Status::invalid) throw std::invalid_argument(dynamics.reason());
  if (dynamics.assembly().layout.n() > most_velocities)
    throw std::invalid_argument("the scene has more than " + std::to_string(most_velocities) +
                                " velocities, which is the limit of the search for equilibria");
  const auto turning = scene::rotation_of_kinematic_bodies(system);
  PlaceOfRest out;
  out.held = held_at_start(model, system, turning.has_value());
  const scene::EquilibriumSearch search = search_around(start, turning, starts);
  auto found = scene::find_equilibria(system, start, search);
  if (const auto moving = drop_moving(system, search, found); found.empty() && !moving.empty())
    throw std::invalid_argument("there is no equilibrium, because " + moving.front() + " prescribes a motion");
  if (found.empty()) throw std::invalid_argument("no equilibrium was found from " + std::to_string(starts) + " starts");
  const auto stable = std::find_if(found.begin(), found.end(), [](const scene::Equilibrium& e) {
    return e.stability == scene::Equilibrium::Stability::stable;
  });
  out.equilibrium = stable == found.end() ? found.front() : *stable;
  out.state = out.equilibrium.state;
  for (int i = 1; turning && i < system.body_count(); ++i) {
    const BodyId id{i};
    if (system.dof(id) == 0 || system.kind(id) == BodyKind::coordinate) continue;
    out.state[id].v = turning->first.cross(out.state[id].p - turning->second);
    if (system.kind(id) == BodyKind::rigid) out.state[id].w = turning->first;
  }
  return out;
}

}  // namespace linchpin::cli
