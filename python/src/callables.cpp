#include "callables.h"

#include "arrays.h"
#include "callable.h"

#include <nanobind/stl/string.h>

#include <stdexcept>
#include <vector>

namespace nb = nanobind;

namespace linchpin::python {

namespace {

ForceMoment force_of(const nb::object& value) {
  // The solver refuses numbers that are not finite, with the names of law and constraint.
  if (nb::isinstance<nb::tuple>(value) && nb::len(value) == 2)
    return {vector3_argument("the returned force", value[0], false),
            vector3_argument("the returned moment", value[1], false)};
  return {vector3_argument("the returned force", value, false), Vector3d::Zero()};
}

}  // namespace

Law law_of(const nb::object& given, const std::string& constraint) {
  Law known;
  if (nb::try_cast(given, known)) return known;
  nb::callable function;
  if (!nb::try_cast(given, function))
    throw std::invalid_argument("the law of \"" + constraint + "\" is " + nb::cast<std::string>(nb::repr(given)) +
                                "; it must be a law of linchpin.laws or a function of a ConstraintReaction");
  const std::string what = "the law of \"" + constraint + "\"";
  Law law = [call = Callable(function), what](const ConstraintReaction& reaction) {
    return call(
        what, [&](const nb::object& value) { return force_of(value); }, nb::cast(reaction));
  };
  return law.with_name("python");
}

scene::Controller controller_of(const nb::callable& function) {
  return [call = Callable(function)](const scene::JointState& state, std::vector<double>& force) {
    const nb::gil_scoped_acquire acquire;
    call(
        "the controller",
        [&](const nb::object& value) {
          if (value.is_none()) return;  // no force
          // The simulation reports a wrong size and numbers that are not finite.
          const VectorX forces = vector_argument("the returned forces", value, -1, false);
          force.assign(forces.data(), forces.data() + forces.size());
        },
        state.t, new_vector(state.position), new_vector(state.velocity));
  };
}

void add_constraint_reaction(nb::module_& m) {
  const auto copy = [](Vector3d ConstraintReaction::*member) {
    return [member](const ConstraintReaction& n) { return new_vector(n.*member); };
  };
  nb::class_<ConstraintReaction>(
      m, "ConstraintReaction",
      "Input of a force law: the reaction of its constraint and the relative motion. World axes. Directions are free "
      "where the constraint can apply no force, or no moment.")
      .def_ro("t", &ConstraintReaction::t, "Time [s].")
      .def_prop_ro("point", copy(&ConstraintReaction::point), nb::rv_policy::automatic,
                   "Point where the constraint acts on the first body [m].")
      .def_prop_ro("normal", copy(&ConstraintReaction::normal), nb::rv_policy::automatic,
                   "Normal force: force of the constraint on the first body [N].")
      .def_prop_ro("moment", copy(&ConstraintReaction::moment), nb::rv_policy::automatic,
                   "Moment of the constraint on the first body about `point` [N·m].")
      .def_prop_ro("slip_velocity", copy(&ConstraintReaction::slip_velocity), nb::rv_policy::automatic,
                   "Free part of the relative velocity at `point` [m/s].")
      .def_prop_ro("spin_velocity", copy(&ConstraintReaction::spin_velocity), nb::rv_policy::automatic,
                   "Free part of the relative angular velocity [rad/s].")
      .def_prop_ro("axis", copy(&ConstraintReaction::axis), nb::rv_policy::automatic,
                   "Unit axis of the free rotation if there is exactly one, otherwise zero.")
      .def_prop_ro("relative_velocity", copy(&ConstraintReaction::relative_velocity), nb::rv_policy::automatic,
                   "Velocity of the first body relative to the second at `point` [m/s].")
      .def_prop_ro("magnitude", &ConstraintReaction::magnitude, "Size of the normal force [N].")
      .def(
          "slip_direction",
          [](const ConstraintReaction& n, double speed) { return new_vector(n.slip_direction(speed)); },
          nb::arg("speed") = 0.0,
          "Unit vector along the slip, zero without slip. With `speed` [m/s] above 0 it is smooth through zero.");
}

}  // namespace linchpin::python
