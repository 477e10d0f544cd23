// Mass matrix, bias forces, Jacobians and operational space of a robot: linchpin::scene::RobotDynamics.
#include "arrays.h"
#include "module.h"

#include <linchpin/scene/robot_dynamics.h>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

namespace nb = nanobind;

namespace linchpin::python {

namespace {

using scene::BodyFrame;
using scene::RobotDynamics;
using scene::RobotJoint;

struct PythonDynamics {
  PythonDynamics(const scene::Model& from, const scene::RobotDynamicsOptions& options)
      : model(from), dynamics(model, options) {}
  scene::Model model;
  RobotDynamics dynamics;
  BodyFrame frame(const std::string& name) const { return dynamics.frame(name); }
};

const char* text_of_joint_kind(RobotJoint::Kind kind) {
  switch (kind) {
    case RobotJoint::Kind::free_body:
      return "free_body";
    case RobotJoint::Kind::free_particle:
      return "free_particle";
    case RobotJoint::Kind::hinge:
      return "hinge";
    case RobotJoint::Kind::slider:
      return "slider";
    case RobotJoint::Kind::ball:
      return "ball";
  }
  return "";
}

nb::dict operational_space(const PythonDynamics& self, const std::string& frame) {
  const scene::OperationalSpace space = self.dynamics.operational_space(self.frame(frame));
  nb::dict out;
  out["inverse_inertia"] = new_matrix(space.inverse_inertia);
  out["inertia"] = new_matrix(space.inertia);
  out["jacobian_inverse"] = new_matrix(space.jacobian_inverse);
  out["rank"] = space.rank;
  return out;
}

nb::dict forward_dynamics(const PythonDynamics& self, const nb::object& tau) {
  const scene::RobotAcceleration result =
      self.dynamics.forward_dynamics(vector_argument("tau", tau, self.dynamics.velocities()));
  nb::dict out;
  out["acceleration"] = new_vector(result.vdot);
  out["constraint_force"] = new_vector(result.constraint_force);
  out["multipliers"] = new_vector(result.lambda);
  out["rank"] = result.rank;
  out["residual"] = result.residual;
  return out;
}

nb::dict momentum(const PythonDynamics& self) {
  const scene::RobotMomentum p = self.dynamics.momentum();
  nb::dict out;
  out["mass"] = p.mass;
  out["centre"] = new_vector(p.centre);
  out["velocity"] = new_vector(p.velocity);
  out["linear"] = new_vector(p.linear);
  out["angular"] = new_vector(p.angular);
  out["kinetic_energy"] = p.kinetic_energy;
  out["potential_energy"] = p.potential_energy;
  return out;
}

nb::list joints(const PythonDynamics& self) {
  nb::list out;
  for (const RobotJoint& joint : self.dynamics.joints()) {
    nb::dict each;
    each["name"] = joint.name;
    each["kind"] = text_of_joint_kind(joint.kind);
    each["positions"] = nb::slice(joint.position, joint.position + joint.positions, 1);
    each["velocities"] = nb::slice(joint.velocity, joint.velocity + joint.velocities, 1);
    out.append(each);
  }
  return out;
}

nb::tuple pose(const PythonDynamics& self, const std::string& frame) {
  const Pose at = self.dynamics.pose(self.frame(frame));
  return nb::make_tuple(new_vector(at.p), new_matrix(at.q.toRotationMatrix()));
}

}  // namespace

void add_dynamics(nb::module_& m) {
  nb::class_<PythonDynamics>(m, "Dynamics",
                             "Equation of motion of a robot in joint space, with loops: M v̇ + h = τ + g + Aᵀλ.")
      .def(
          "__init__",
          [](PythonDynamics* self, const scene::Model& model, const std::string& body,
             const std::vector<std::string>& without) {
            scene::RobotDynamicsOptions options;
            options.body = body;
            options.without = without;
            new (self) PythonDynamics(model, options);
          },
          nb::arg("model"), nb::arg("body") = "", nb::arg("without") = std::vector<std::string>(),
          "Begins at the start of the model.\n\n"
          ":param body: Name of a body. Only the bodies that constraints connect with it count. Default: all bodies.\n"
          ":param without: Names of constraints that do not count.")
      .def_prop_ro("joints", &joints,
                   "Joints in the order of their coordinates: name, kind, and the slices of q and v that they have.")
      .def_prop_ro(
          "positions", [](const PythonDynamics& self) { return self.dynamics.positions(); }, "Length of q.")
      .def_prop_ro(
          "velocities", [](const PythonDynamics& self) { return self.dynamics.velocities(); }, "Length n of v.")
      .def_prop_ro(
          "q", [](const PythonDynamics& self) { return new_vector(self.dynamics.q()); }, nb::rv_policy::automatic,
          "[positions] Present positions; a copy.")
      .def_prop_ro(
          "v", [](const PythonDynamics& self) { return new_vector(self.dynamics.v()); }, nb::rv_policy::automatic,
          "[n] Present velocities; a copy.")
      .def_prop_ro(
          "t", [](const PythonDynamics& self) { return self.dynamics.t(); }, "Present time [s].")
      .def(
          "set_state",
          [](PythonDynamics& self, const nb::object& q, const nb::object& v, double t) {
            self.dynamics.set_state(vector_argument("q", q, self.dynamics.positions()),
                                    vector_argument("v", v, self.dynamics.velocities()), t);
          },
          nb::arg("q"), nb::arg("v"), nb::arg("t") = 0.0, "Sets positions, velocities and the time [s].")
      .def(
          "mass_matrix", [](const PythonDynamics& self) { return new_matrix(self.dynamics.mass_matrix()); },
          "M, symmetric positive definite [n, n].")
      .def(
          "bias_force", [](const PythonDynamics& self) { return new_vector(self.dynamics.bias_force()); },
          "h: Coriolis, centrifugal and gyroscopic terms [n].")
      .def(
          "gravity_force", [](const PythonDynamics& self) { return new_vector(self.dynamics.gravity_force()); },
          "g, on the side of τ [n].")
      .def(
          "inverse_dynamics",
          [](const PythonDynamics& self, const nb::object& vdot) {
            return new_vector(
                self.dynamics.inverse_dynamics(vector_argument("vdot", vdot, self.dynamics.velocities())));
          },
          nb::arg("vdot"), "τ = M v̇ + h − g, as if no constraint closed a loop [n].")
      .def("forward_dynamics", &forward_dynamics, nb::arg("tau"),
           "v̇ from τ [n] under the constraints: acceleration, constraint_force, multipliers, rank and residual.")
      .def(
          "inverse_mass_matrix",
          [](const PythonDynamics& self) { return new_matrix(self.dynamics.inverse_mass_matrix()); },
          "P with v̇ = P τ + …: M⁻¹ without loops [n, n].")
      .def("pose", &pose, nb::arg("frame"),
           "Origin of a frame in the world [3] and its rotation matrix to the world [3, 3]. A frame is the name of a "
           "link, a [[frame]], a body (its centre of mass) or a joint.")
      .def(
          "velocity",
          [](const PythonDynamics& self, const std::string& frame) {
            return new_vector(self.dynamics.velocity(self.frame(frame)));
          },
          nb::arg("frame"), "[6] Linear velocity of the origin of a frame, then its angular velocity, world axes.")
      .def(
          "jacobian",
          [](const PythonDynamics& self, const std::string& frame) {
            return new_matrix(self.dynamics.jacobian(self.frame(frame)));
          },
          nb::arg("frame"), "J [6, n] of a frame, linear above angular, world axes.")
      .def(
          "jacobian_rate_times_v",
          [](const PythonDynamics& self, const std::string& frame) {
            return new_vector(self.dynamics.jacobian_rate_times_v(self.frame(frame)));
          },
          nb::arg("frame"), "J̇ v [6]: the acceleration of a frame where v̇ is zero.")
      .def("operational_space", &operational_space, nb::arg("frame"),
           "Operational space of a frame, with loops: inverse_inertia [6, 6], inertia [6, 6], jacobian_inverse [n, 6] "
           "and rank.")
      .def("momentum", &momentum,
           "Mass [kg], centre of mass [m] and its velocity [m/s], linear momentum [kg m/s], angular momentum about the "
           "centre of mass [kg m²/s], kinetic and potential energy [J].")
      .def(
          "constraint_names", [](const PythonDynamics& self) { return self.dynamics.constraint_names(); },
          "Names of the constraints that close loops.");
}

}  // namespace linchpin::python
