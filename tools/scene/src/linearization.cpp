#include "joint_coordinate.h"

#include <linchpin/scene/linearization.h>

namespace linchpin::scene {

std::vector<CoordinateGradient> coordinate_gradients(const Model& model, const System& system, const State& state,
                                                     const IslandLayout& layout) {
  std::vector<CoordinateGradient> out;
  const State start = system.initial_state();
  for (const SceneConstraint* joint : joints_with_coordinate(model)) {
    const JointCoordinate j = coordinate_of(*joint, start);
    const CoordinateRow row = coordinate_row(j, state[BodyId{j.parent}], state[BodyId{j.child}], j.start_values());
    CoordinateGradient of{joint->name, j.slides ? "m" : "rad",
                          std::vector<double>(static_cast<std::size_t>(layout.n()), 0.0)};
    bool acts = false;
    const auto put = [&](int body, const Vector3d& linear, const Vector3d& angular) {
      const int slot = layout.body_index(BodyId{body});
      if (slot < 0) return;
      acts = true;
      const std::size_t at = static_cast<std::size_t>(layout.column[static_cast<std::size_t>(slot)]);
      for (std::size_t k = 0; k < 3; ++k) {
        of.gradient[at + k] += linear[static_cast<Eigen::Index>(k)];
        if (system.kind(BodyId{body}) == BodyKind::rigid)
          of.gradient[at + 3 + k] += angular[static_cast<Eigen::Index>(k)];
      }
    };
    put(j.parent, row.linear_P, row.angular_P);
    put(j.child, row.linear_C, row.angular_C);
    if (acts) out.push_back(std::move(of));
  }
  for (std::size_t i = 0; i < model.bodies.size(); ++i) {
    if (model.bodies[i].kind != BodyKind::coordinate) continue;
    const int slot = layout.body_index(BodyId{static_cast<int>(i) + 1});
    if (slot < 0) continue;
    CoordinateGradient& of = out.emplace_back();
    of.name = model.bodies[i].name;
    of.unit = model.bodies[i].unit;
    of.gradient.assign(static_cast<std::size_t>(layout.n()), 0.0);
    of.gradient[static_cast<std::size_t>(layout.column[static_cast<std::size_t>(slot)])] = 1;
  }
  return out;
}

std::vector<ForceInput> force_inputs(const std::vector<CoordinateGradient>& gradients) {
  std::vector<ForceInput> out;
  for (const CoordinateGradient& g : gradients) out.push_back({g.name, g.gradient});
  return out;
}

std::vector<double> position_outputs(const std::vector<CoordinateGradient>& gradients, const LinearizedMotion& motion) {
  const std::size_t k = static_cast<std::size_t>(motion.size());
  std::vector<double> out;
  for (const CoordinateGradient& g : gradients)
    for (std::size_t j = 0; j < k; ++j) {
      double sum = 0;
      for (std::size_t i = 0; i < g.gradient.size(); ++i) sum += g.gradient[i] * motion.basis[i * k + j];
      out.push_back(sum);
    }
  return out;
}

}  // namespace linchpin::scene
