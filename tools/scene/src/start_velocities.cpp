#include "start_velocities.h"

#include <linchpin/dynamics.h>
#include <linchpin/projection.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace linchpin::scene {

namespace {

// A name that no constraint of the scene has.
std::string free_name(const Model& model) {
  std::string name = "start";
  const auto taken = [&] {
    return std::any_of(model.constraints.begin(), model.constraints.end(),
                       [&](const SceneConstraint& c) { return c.name == name; });
  };
  while (taken()) name += "'";
  return name;
}

// How far the velocities are from the constraints, relative to 1 and to the fastest body: the largest row, by name.
std::pair<double, std::string> largest_residual(const Dynamics& dynamics) {
  const Assembly& a = dynamics.assembly();
  double scale = 1, largest = 0;
  for (const double v : a.v) scale = std::max(scale, std::abs(v));
  std::string name;
  for (std::size_t row = 0; row < a.velocity.size(); ++row) {
    const double x = std::abs(a.velocity[row]) / scale;
    if (!(x > largest)) continue;
    largest = x;
    name = a.problem.constraints[static_cast<std::size_t>(a.problem.row_constraint[row])];
  }
  return {largest, name};
}

}  // namespace

std::string assemble_velocities(Model& model, const std::shared_ptr<const Tape>& given) {
  constexpr int most_iterations = 50;  // rows that are not linear in the velocities are met by Newton's method
  constexpr double met = 1e-10;
  System system = model.system();
  std::vector<BodyId> bodies;
  for (const int body : given->bodies) bodies.push_back(BodyId{body});
  const std::string name = free_name(model);
  system.add(Constraint(name, bodies, make_function(given, Level::velocity, RowUnit::custom)));
  Dynamics dynamics(system, model.options.solve);
  State state = system.initial_state();
  std::pair<double, std::string> left;
  for (int i = 0; i < most_iterations; ++i) {
    if (dynamics.factor(state) == Status::invalid) return dynamics.reason();
    left = largest_residual(dynamics);
    if (left.first < 1e-15) break;
    project_velocities(system, dynamics, state);
  }
  if (dynamics.factor(state) == Status::invalid) return dynamics.reason();
  left = largest_residual(dynamics);
  if (!(left.first <= met)) {
    char text[200];
    std::snprintf(text, sizeof text,
                  "no velocities meet this and the constraints: %.3g of %s is left. Give a rate that the mechanism can "
                  "have",
                  left.first, left.second == name ? "it" : ("\"" + left.second + "\"").c_str());
    return text;
  }
  for (std::size_t i = 0; i < model.bodies.size(); ++i) {
    const BodyId id{static_cast<int>(i) + 1};
    if (system.dof(id) == 0) continue;
    model.bodies[i].start.v = state[id].v;
    model.bodies[i].start.w = state[id].w;
  }
  return {};
}

}  // namespace linchpin::scene
