// Compliance of constraints: springs with dampers in place of exact rows (row_forces.h). These functions find the
// constraints that have it. They record what their springs do in steps of the joint kernel. They choose the joints that
// yield in an island whose exact rows cannot bear their load.
#pragma once

#include "host/context.h"

#include <linchpin/constraint.h>

namespace linchpin::host {

/// Returns whether a constraint is a joint of points, axes and dots, exact or with compliance.
bool is_stock_joint(const Constraint& constraint);
/// Returns whether some rows of a constraint are springs.
bool has_compliance(const Constraint& constraint);
/// The same of an entry that the system has.
bool has_compliance(const Context& c, const ConstraintEntry& entry);

/// Adds what the springs of an island have done in a step of the joint kernel to the reports of their laws.
void record_springs(Context& c, Island& b);
/// Writes the wrenches of the springs beyond those of the step's start into the stabilisation of the reactions, for a
/// step of the joint kernel as a whole.
void write_spring_stabilisation(Context& c, Island& b);

/// Chooses the constraints of an island that are to yield from the next step on, where no step keeps its exact rows
/// (SolverOptions::automatic_compliance). Call it before the host solves the island.
void choose_yielding_constraints(Context& c, Island& b);

}  // namespace linchpin::host
