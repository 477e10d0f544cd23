// Forces along the rows of a constraint in place of the rows themselves: a motor with a largest force, and compliance
// (stiffness and damping). Such a row is not satisfied exactly. Its multiplier is the force, and reports show it as a
// law of the constraint: LawWork has the power and the work, Reaction::prescribed has the wrench.
//
// The constraint has one body or two. If both move, its residual depends on their relative pose, and possibly on time.
// The force on the second body is then opposite to the force on the first one.
//
// In steps of a host and of Method::semi_implicit the forces are those at the end of the step. They are therefore
// stable for any stiffness along the row. Such a step damps a spring whose frequency times the step is not small. rk4
// and the adaptive methods evaluate compliance in their stages, and keep its energy to their order.
//
// The structs of this header are plain values. The functions change their system and keep no reference.
#pragma once

#include <linchpin/constraint.h>
#include <linchpin/export.h>
#include <linchpin/laws.h>
#include <linchpin/system.h>

#include <limits>

namespace linchpin {

/// A motor on one row: a force of at most `max_force` along the row brings φ̇, or ψ of a velocity constraint, to
/// `speed`.
struct Motor {
  double speed = 0;      ///< Target of φ̇ or ψ [m/s, rad/s, or the unit of the row per second]. Finite.
  double max_force = 0;  ///< Largest magnitude of the multiplier [N or N·m]. Finite and ≥ 0.
};

/// Springs and dampers in place of exact rows of a position constraint. The multiplier of a row is
/// −stiffness·φ − damping·φ̇. A row whose stiffness is infinite stays exact. All values are ≥ 0.
struct Compliance {
  double stiffness = std::numeric_limits<double>::infinity();  ///< For rows in metres or in a unit of the user [N/m].
  double damping = 0;                                          ///< For the same rows [N·s/m].
  double angular_stiffness = std::numeric_limits<double>::infinity();  ///< For rows in radians [N·m/rad].
  double angular_damping = 0;                                          ///< For the same rows [N·m·s/rad].
};

/// Adds a constraint with a motor on its row. The system gets a copy of the constraint.
/// @throws std::invalid_argument  unless the constraint has one row on positions or velocities and at most two bodies.
/// Also for values that Motor excludes, and where the forces on two bodies are not opposite at the initial state.
LINCHPIN_API ConstraintId add_motor(System& system, const Constraint& row, const Motor& motor);
/// Adds a constraint with compliance. The system gets a copy of the constraint.
/// @throws std::invalid_argument  unless the constraint is on positions and has at most two bodies. Also for values
/// that Compliance excludes, and where the forces on two bodies are not opposite at the initial state.
LINCHPIN_API ConstraintId add_compliant(System& system, const Constraint& constraint, const Compliance& compliance);

}  // namespace linchpin
