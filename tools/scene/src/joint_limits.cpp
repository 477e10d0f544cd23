#include "joint_coordinate.h"

#include <linchpin/scene/joint_limits.h>

#include <algorithm>
#include <utility>

namespace linchpin::scene {

namespace {

bool has_constraint(const Model& model, const std::string& name) {
  return std::any_of(model.constraints.begin(), model.constraints.end(),
                     [&](const SceneConstraint& c) { return c.name == name; });
}

// value ≥ bound, value ≤ bound or value = bound.
SceneConstraint limit(const SceneConstraint& c, const JointCoordinate& of, const char* end, double bound) {
  SceneConstraint out;
  out.name = c.name + end;
  out.type = "limit";
  out.bodies = c.bodies;
  out.make = [name = out.name, joint = of, by_frames = bound + of.zero](const std::vector<BodyId>& id) {
    return coordinate_constraint(name, id, joint, by_frames);
  };
  return out;
}

// Adds the limits of a joint, without those that the model has already.
void add_limits(Model& model, const SceneConstraint& c, const JointCoordinate& of) {
  for (const char* end : {".lower", ".upper", ".limits"})
    if (has_constraint(model, c.name + end)) return;
  const auto [lower, upper] = *c.limits;
  if (lower < upper) {
    model.constraints.push_back(limit(c, of, ".lower", lower));
    model.constraints.back().unilateral = Unilateral{.negative = false, .reengage = true};
    model.constraints.push_back(limit(c, of, ".upper", upper));
    model.constraints.back().unilateral = Unilateral{.negative = true, .reengage = true};
  } else {
    model.constraints.push_back(limit(c, of, ".limits", lower));
  }
}

}  // namespace

Model with_compound_limits(Model model) {
  const State start;  // The coordinates of a compound joint do not need it.
  for (const SceneConstraint& c : model.compound_coordinates)
    if (c.limits) add_limits(model, c, coordinate_of(c, start));
  return model;
}

Model with_joint_limits(Model model) {
  if (model.options.method == Method::rattle || model.options.method == Method::rattle4) {
    for (const SceneConstraint& c : model.compound_coordinates)
      if (c.limits) model.native.push_back(c.name + ": limits of a joint in a compound joint");
    return model;
  }
  model = with_compound_limits(std::move(model));
  const auto limited = [](const SceneConstraint& c) { return c.limits && has_coordinate(c); };
  if (std::none_of(model.constraints.begin(), model.constraints.end(), limited)) return model;
  const State start = model.system().initial_state();
  const std::size_t count = model.constraints.size();
  for (std::size_t i = 0; i < count; ++i) {
    const SceneConstraint c = model.constraints[i];
    if (!limited(c)) continue;
    add_limits(model, c, coordinate_of(c, start));
    std::erase_if(model.native, [&](const std::string& each) { return each.starts_with(c.name + ": limits "); });
  }
  return model;
}

}  // namespace linchpin::scene
