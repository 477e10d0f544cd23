// Where `equilibrium` and `sweep --equilibrium` look for places of rest.
#pragma once

#include <linchpin/scene.h>
#include <linchpin/scene/analysis.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace linchpin::cli {

/// The search is dense: O(n³) for each of many steps.
inline constexpr int most_velocities = 600;

/// As far around the start as its bodies are apart, in the frame of the kinematic bodies where they have one.
inline scene::EquilibriumSearch search_around(const State& start,
                                              const std::optional<std::pair<Vector3d, Vector3d>>& turning, int starts) {
  scene::EquilibriumSearch search;
  search.starts = starts;
  double length = 0;
  for (const BodyState& body : start.bodies) length = std::max(length, (body.p - start.bodies.back().p).norm());
  search.spread = std::max(1.0, length);
  if (turning) search.omega = turning->first, search.centre = turning->second;
  return search;
}

/// What moves or changes with time by itself and is held as at the start, by name; empty where all of it turns at one
/// rate, which the search itself sees to.
struct Held {
  std::vector<std::string> bodies, others;  ///< kinematic; constraints, forces, the kinetic energy
  bool any() const { return !bodies.empty() || !others.empty(); }
};
inline Held held_at_start(const scene::Model& model, const System& system, bool turning) {
  Held out;
  if (turning) return out;
  for (const BodyId id : scene::moving_kinematic_bodies(system)) out.bodies.push_back(system.name(id));
  const scene::TimeDependence changing = scene::time_dependence(system);
  for (const ConstraintId id : changing.constraints) out.others.push_back(system.constraint(id).name());
  out.others.insert(out.others.end(), changing.forces.begin(), changing.forces.end());
  if (model.kinetics && model.kinetics()->rheonomic()) out.others.emplace_back("kinetic energy");
  return out;
}

/// What the search leaves out, in words: laws, and what a scene leaves to its host (limits, motors). Damping has no
/// part in rest, but laws, limits and motors may hold a scene where it else would move, or move it where it else would
/// rest.
inline std::vector<std::string> left_out(const scene::Model& model) {
  std::vector<std::string> out;
  for (const scene::SceneConstraint& c : model.constraints) {
    std::vector<std::string> names;
    for (const Law& law : c.laws)
      for (const Law::Term& term : law.terms())
        if (std::find(names.begin(), names.end(), term.name) == names.end()) names.push_back(term.name);
    for (const std::string& name : names) out.push_back("law '" + name + "' on " + c.name);
    if (c.unilateral) out.push_back("the free side of " + c.name + ", which is held as an equality");
  }
  out.insert(out.end(), model.native.begin(), model.native.end());
  return out;
}

/// Leaves out what is no place of rest: a constraint asks for motion there. @return the names of those that did
inline std::vector<std::string> drop_moving(const System& system, const scene::EquilibriumSearch& search,
                                            std::vector<scene::Equilibrium>& found) {
  std::vector<std::string> names;
  std::erase_if(found, [&](const scene::Equilibrium& e) {
    const auto asking = scene::requiring_motion(system, e.state, search.omega, search.centre);
    for (const ConstraintId id : asking)
      if (const std::string& name = system.constraint(id).name();
          std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(name);
    return !asking.empty();
  });
  return names;
}

/// @param held  something that moves is held: then it is said, for what the motion itself does is not known
inline std::string to_string(scene::Equilibrium::Stability s, bool held) {
  const char* word = s == scene::Equilibrium::Stability::stable     ? "stable"
                     : s == scene::Equilibrium::Stability::unstable ? "unstable"
                                                                    : "marginal";
  return held ? std::string(word) + " while frozen" : word;
}

}  // namespace linchpin::cli
