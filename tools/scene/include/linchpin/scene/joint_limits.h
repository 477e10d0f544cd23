// Limits of robots' joints without an engine: constraints that push at one end of the range each.
#pragma once

#include <linchpin/scene.h>

namespace linchpin::scene {

/// Returns a model in which SceneConstraint::limits of hinges and sliders are constraints of linchpin, for a Stepper.
/// The constraint "NAME.lower" pushes the second body of the joint NAME upwards where its coordinate comes to the lower
/// limit, "NAME.upper" pushes it downwards at the upper one. They stop the joint without rebound. If the two limits are
/// equal, one constraint "NAME.limits" holds the coordinate. Their lines in Model::native are left out.
///
/// Joints whose limits are there already stay as they are. The limits of Model::compound_coordinates are added, too.
/// rattle and rattle4 have no steps with impacts: with these methods the result is the model without limits, and
/// Model::native lists them. Hosts with limits of their own take with_compound_limits().
[[nodiscard]] LINCHPIN_SCENE_API Model with_joint_limits(Model model);

/// Returns a model in which the limits of Model::compound_coordinates are constraints, for hosts that have limits of
/// hinges and sliders of their own. "NAME.lower" and "NAME.upper" are unilateral; equal limits are one constraint
/// "NAME.limits".
[[nodiscard]] LINCHPIN_SCENE_API Model with_compound_limits(Model model);

}  // namespace linchpin::scene
