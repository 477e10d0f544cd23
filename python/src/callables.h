// Python functions as laws and controllers. They may be called and destroyed without the lock of the interpreter.
#pragma once

#include <linchpin/laws.h>
#include <linchpin/scene/simulation.h>

#include <nanobind/nanobind.h>

#include <string>

namespace linchpin::python {

/// A law from a Law, or from a function of a ConstraintReaction, which returns a force, or a force and a moment.
/// @param constraint  name, for messages
Law law_of(const nanobind::object& law, const std::string& constraint);

/// A controller from a function of t, q and v, which returns the forces of all joints.
scene::Controller controller_of(const nanobind::callable& function);

/// Adds the argument of a law.
void add_constraint_reaction(nanobind::module_& m);

}  // namespace linchpin::python
