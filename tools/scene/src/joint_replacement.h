// A joint of a robot's file that a scene replaces by a joint of another kind, in the same place and with the same name.
#pragma once

#include "parts.h"
#include "robot.h"
#include "source.h"

#include <linchpin/scene.h>

#include <map>
#include <optional>
#include <string>

namespace linchpin::scene {

/// The joint that stands in place of one of the file.
struct JointReplacement {
  std::string type;                        ///< a stock joint, or "none"
  std::optional<Vector3d> axis_a, axis_b;  ///< in the axes of the joint's frame; without: the axis of the file
  Place place;
};
/// By the name of the joint in the file.
using JointReplacements = std::map<std::string, JointReplacement, std::less<>>;

/// The table `replace_joints` of [model]: NAME = "ball", or NAME = { type = "universal", axis_a = […], axis_b = […] }.
void read_replacements(const toml::table& table, Context& context, JointReplacements& into);

/// The joint between the same bodies. @param name  its whole name @param a, b  names of its bodies
/// @param body_a, body_b  these bodies in the scene
JointPlan plan_of(const JointReplacement& replacement, const ReplacedJoint& joint, const std::string& name,
                  const std::string& a, const std::string& b, BodyId body_a, BodyId body_b);

}  // namespace linchpin::scene
