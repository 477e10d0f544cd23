// The catalogue of force laws. linchpin/laws.py exports it.
#include "arrays.h"
#include "module.h"

#include <linchpin/laws.h>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <stdexcept>
#include <string>

namespace nb = nanobind;

namespace linchpin::python {

namespace {

Axes axes_of(const std::string& name) {
  if (name == "world") return Axes::of_world;
  if (name == "first") return Axes::of_first;
  if (name == "second") return Axes::of_second;
  throw std::invalid_argument("axes must be \"world\", \"first\" or \"second\", not \"" + name + "\"");
}

using JointLaw = Law (*)(const laws::JointFriction&);

/// Friction of a joint with engineering parameters.
template <JointLaw law>
Law joint_friction(double mu, std::optional<double> mu_kinetic, double pin_radius, double friction_radius,
                   double bending_arm, double preload) {
  return law({.mu_static = mu,
              .mu_kinetic = mu_kinetic.value_or(mu),
              .pin_radius = pin_radius,
              .friction_radius = friction_radius,
              .bending_arm = bending_arm,
              .preload = preload});
}

template <JointLaw law>
void add_joint_friction(nb::module_& m, const char* name, const char* text) {
  m.def(name, &joint_friction<law>, nb::arg("mu"), nb::kw_only(), nb::arg("mu_kinetic").none() = nb::none(),
        nb::arg("pin_radius") = 0.0, nb::arg("friction_radius") = 0.0, nb::arg("bending_arm") = 0.0,
        nb::arg("preload") = 0.0, text);
}

laws::Stribeck stribeck_of(double mu, double mu_kinetic, double speed, double shape, double viscous) {
  return {.mu_static = mu, .mu_kinetic = mu_kinetic, .speed = speed, .shape = shape, .viscous = viscous};
}

}  // namespace

void add_laws(nb::module_& m) {
  nb::class_<Law>(m, "Law",
                  "A law for the nonideal force of a constraint, from the catalogue linchpin.laws. Laws add with +.")
      .def(
          "__add__", [](const Law& a, const Law& b) { return a + b; }, nb::is_operator())
      .def_prop_ro(
          "name", [](const Law& law) { return law.terms().empty() ? std::string() : law.terms()[0].name; },
          "Name of the law in messages.");
  m.def(
      "coulomb", [](double mu, std::optional<double> mu_kinetic) { return laws::coulomb(mu, mu_kinetic.value_or(mu)); },
      nb::arg("mu"), nb::arg("mu_kinetic").none() = nb::none(),
      "Dry friction that sticks up to mu N and slides with mu_kinetic N (default: mu) against the slip.");
  m.def("regularized_coulomb", &laws::regularized_coulomb, nb::arg("mu"), nb::arg("speed"),
        "Friction −mu N slip/√(slip² + speed²), smooth through zero. It slides slowly where coulomb sticks. speed "
        "[m/s].");
  m.def("viscous", &laws::viscous, nb::arg("coefficient"), "Viscous force −coefficient·slip. coefficient [N·s/m].");
  m.def("viscous_torque", &laws::viscous_torque, nb::arg("coefficient"),
        "Viscous torque −coefficient·spin. coefficient [N·m·s/rad].");
  m.def(
      "stribeck",
      [](double mu, double mu_kinetic, double speed, double shape, double viscous) {
        return laws::stribeck(stribeck_of(mu, mu_kinetic, speed, shape, viscous));
      },
      nb::arg("mu"), nb::arg("mu_kinetic"), nb::arg("speed"), nb::arg("shape") = 2.0, nb::arg("viscous") = 0.0,
      "Friction that falls with the slip: N (mu_kinetic + (mu − mu_kinetic) exp(−(|slip|/speed)^shape)) + "
      "viscous·|slip|. It sticks up to mu N. speed [m/s], viscous [N·s/m].");
  m.def(
      "regularized_stribeck",
      [](double mu, double mu_kinetic, double speed, double width, double shape, double viscous) {
        return laws::regularized_stribeck(stribeck_of(mu, mu_kinetic, speed, shape, viscous), width);
      },
      nb::arg("mu"), nb::arg("mu_kinetic"), nb::arg("speed"), nb::arg("width"), nb::arg("shape") = 2.0,
      nb::arg("viscous") = 0.0, "stribeck, smooth through zero over width [m/s].");
  m.def(
      "lugre",
      [](double stiffness, double mu, double speed, std::optional<double> mu_kinetic, double damping, double viscous) {
        return laws::lugre({.stiffness = stiffness,
                            .damping = damping,
                            .mu_static = mu,
                            .mu_kinetic = mu_kinetic.value_or(mu),
                            .speed = speed,
                            .viscous = viscous});
      },
      nb::arg("stiffness"), nb::arg("mu"), nb::arg("speed"), nb::arg("mu_kinetic").none() = nb::none(),
      nb::arg("damping") = 0.0, nb::arg("viscous") = 0.0,
      "LuGre friction with bristles of this stiffness [N/m] and damping [N·s/m].");
  m.def("drag", &laws::drag, nb::arg("coefficient"), "Quadratic drag −coefficient·|slip|·slip. coefficient [N·s²/m²].");
  m.def(
      "constant_force",
      [](const nb::object& force, const std::string& axes) {
        return laws::constant_force(vector3_argument("force", force), axes_of(axes));
      },
      nb::arg("force"), nb::arg("axes") = "world",
      "A given force [N] on the first body, in the axes of the world, of the first or of the second body.");
  m.def(
      "lorentz",
      [](double charge, const nb::object& E, const nb::object& B) {
        return laws::lorentz(charge, vector3_argument("E", E), vector3_argument("B", B));
      },
      nb::arg("charge"), nb::arg("E"), nb::arg("B"),
      "Force charge·(E + u × B), where u is the velocity at the point. charge [C], E [V/m], B [T].");
  m.def("rolling_resistance", &laws::rolling_resistance, nb::arg("arm"),
        "Moment arm·N against free rotation about axes perpendicular to the normal force. arm [m].");
  add_joint_friction<&laws::hinge_friction>(
      m, "hinge_friction",
      "Torque about the free axis up to mu (pin_radius (|F_radial| + |M|/bending_arm) + friction_radius |F_axial|) + "
      "preload. Lengths [m], preload [N·m].");
  add_joint_friction<&laws::ball_friction>(m, "ball_friction",
                                           "Torque against the whole free spin, with the bound of hinge_friction.");
  add_joint_friction<&laws::slider_friction>(
      m, "slider_friction", "Force along the free direction up to mu (|F| + |M|/bending_arm) + preload [N].");
  add_joint_friction<&laws::cylinder_friction>(
      m, "cylinder_friction", "Friction of one bore that slides and rotates. pin_radius must be above 0.");
}

}  // namespace linchpin::python
