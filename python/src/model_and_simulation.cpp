// Models and simulations as Python classes.
#include "simulation.h"

#include "arrays.h"
#include "bullet_file.h"
#include "callables.h"
#include "module.h"
#include "reaction_arrays.h"

#include <linchpin/report.h>
#include <linchpin/scene.h>

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <stdexcept>
#include <utility>

namespace nb = nanobind;

namespace linchpin::python {

namespace {

/// A joint of a simulation, which it refers to.
struct PythonJoint {
  PythonSimulation* simulation;
  std::size_t index;
  scene::SimulatedJoint& joint() const { return simulation->joints()[index]; }
};

template <class Function>
auto read(const PythonJoint& at, Function function) {
  const PythonSimulation::Access access = at.simulation->use();
  return function(at.joint());
}

template <class Function>
void change(const PythonJoint& at, Function function) {
  const PythonSimulation::Access access = at.simulation->use();
  function(at.joint());
  at.simulation->renew();
}

/// A function that sets a number of a joint. @param name  of the number, for messages
auto setter(const char* name, void (scene::SimulatedJoint::*set)(double)) {
  return [name, set](const PythonJoint& at, const nb::object& given) {
    const double value = number_argument(name, given);
    change(at, [&](scene::SimulatedJoint& joint) { (joint.*set)(value); });
  };
}

/// Names, rows and multipliers of all reactions.
nb::tuple reactions(PythonSimulation& self) {
  const PythonSimulation::Access access = self.use();
  return arrays_of(access->reactions());
}

/// Names and units of the channels, and how many numbers each has.
nb::list channels(PythonSimulation& self) {
  const PythonSimulation::Access access = self.use();
  nb::list out;
  for (const scene::Channel& channel : access->model().logs)
    out.append(nb::make_tuple(channel.title(), channel.unit(), channel.size()));
  return out;
}

/// The values of all channels, one after the other. Channels that read forces are NaN where there are none yet.
Array channel_values(PythonSimulation& self) {
  const PythonSimulation::Access access = self.use();
  std::span<const Reaction> forces;
  bool read = false;
  for (const scene::Channel& channel : access->model().logs) read = read || channel.reads_forces();
  if (read) {
    try {
      forces = access->reactions();
    } catch (const OrderError&) {  // Bullet has none before the first step.
    }
  }
  std::vector<double> out;
  const scene::Simulation& simulation = access.simulation;
  for (const scene::Channel& channel : simulation.model().logs) {
    const std::span<const double> values = channel({simulation.system(), simulation.state(), forces});
    out.insert(out.end(), values.begin(), values.end());
  }
  return new_vector(out);
}

scene::Overrides overrides_of(const std::map<std::string, double>& params, const std::vector<std::string>& logs,
                              const std::string& robots) {
  scene::Overrides out;
  out.params.insert(params.begin(), params.end());
  out.logs = logs;
  if (robots == "bodies") out.robots = scene::RobotsAs::bodies;
  if (robots == "multibody") out.robots = scene::RobotsAs::multibody;
  return out;
}

std::vector<std::string> notes_of(const scene::Model& model) {
  std::vector<std::string> out;
  for (const scene::Note& note : model.notes) out.push_back(note.shown());
  if (!model.bullet_file.empty())
    out.push_back(model.bullet_file + ": the bodies of this file have no shapes here, so they do not collide");
  for (const std::string& part : model.native) out.push_back("left out, because it is no equation: " + part);
  return out;
}

/// Puts laws on constraints.
void add_laws(scene::Model& model, const std::map<std::string, nb::object>& laws) {
  for (const auto& [name, law] : laws) {
    const auto found = std::find_if(model.constraints.begin(), model.constraints.end(),
                                    [&name = name](const scene::SceneConstraint& c) { return c.name == name; });
    if (found == model.constraints.end())
      throw std::invalid_argument("laws: there is no constraint \"" + name + "\" in " + model.file);
    found->laws.push_back(law_of(law, name));
  }
}

/// A model with the laws and the step of the caller.
scene::Model completed(scene::Model model, const std::map<std::string, nb::object>& laws, std::optional<double> dt) {
  add_laws(model, laws);
  if (dt) model.dt = *dt;
  return model;
}

void set_controller(PythonSimulation& self, const std::optional<nb::callable>& function, double period,
                    const std::string& on_failure, double deadline) {
  const PythonSimulation::Access access = self.use();
  scene::ControllerOptions options;
  options.period = period;
  options.deadline = deadline;
  options.on_failure = on_failure == "hold" ? scene::FailureCommand::hold : scene::FailureCommand::zero;
  access->set_controller(function ? controller_of(*function) : scene::Controller(), options);
}

const char* text_of_failure(scene::ControllerFailure::Kind kind) {
  switch (kind) {
    case scene::ControllerFailure::Kind::exception:
      return "exception";
    case scene::ControllerFailure::Kind::not_finite:
      return "not finite";
    case scene::ControllerFailure::Kind::wrong_size:
      return "wrong size";
    case scene::ControllerFailure::Kind::late:
      return "late";
  }
  return "";
}

nb::list failures(PythonSimulation& self) {
  const PythonSimulation::Access access = self.use();
  nb::list out;
  for (const scene::ControllerFailure& f : access->failures())
    out.append(nb::make_tuple(f.t, text_of_failure(f.kind), f.message));
  return out;
}

/// An array that Python can only read. It refers to the memory of the simulation, and keeps the simulation alive.
ReadOnlyArray view(const nb::object& self, const std::vector<double>& memory, std::size_t columns = 0) {
  if (columns == 0) return ReadOnlyArray(memory.data(), {memory.size()}, self);
  return ReadOnlyArray(memory.data(), {memory.size() / columns, columns}, self);
}

const StateArrays& arrays_in_use(const nb::object& self, bool joints) {
  auto& simulation = nb::cast<PythonSimulation&>(self);
  const PythonSimulation::Access access = simulation.use();
  if (joints)
    simulation.use_joints();
  else
    simulation.use_bodies();
  return simulation.arrays();
}

void add_model(nb::module_& m) {
  nb::class_<scene::Model>(m, "Model", "A scene or a robot that has been read.")
      .def_prop_ro("file", [](const scene::Model& model) { return model.file; })
      .def_prop_ro("dt", [](const scene::Model& model) { return model.dt; })
      .def_prop_ro("duration", [](const scene::Model& model) { return model.duration; })
      .def_prop_ro("host", [](const scene::Model& model) { return scene::to_string(model.host); })
      .def_prop_ro("warnings", [](const scene::Model& model) { return model.warnings; })
      .def_prop_ro("notes", [](const scene::Model& model) { return notes_of(model); })
      .def_prop_ro("bodies",
                   [](const scene::Model& model) {
                     std::vector<std::string> out;
                     for (const scene::SceneBody& body : model.bodies) out.push_back(body.name);
                     return out;
                   })
      .def_prop_ro("constraints", [](const scene::Model& model) {
        std::vector<std::string> out;
        for (const scene::SceneConstraint& constraint : model.constraints) out.push_back(constraint.name);
        return out;
      });
  m.def(
      "load",
      [](const std::string& path, const std::map<std::string, double>& params, const std::vector<std::string>& logs,
         const std::string& robots, const std::map<std::string, nb::object>& laws, std::optional<double> dt,
         const nb::callable& read_bullet) {
        return completed(scene::load(path, importer_of(read_bullet), overrides_of(params, logs, robots)), laws, dt);
      },
      nb::arg("path"), nb::arg("params"), nb::arg("logs"), nb::arg("robots"), nb::arg("laws"), nb::arg("dt").none(),
      nb::arg("read_bullet"));
  m.def(
      "load_text",
      [](const std::string& text, const std::string& path, const std::map<std::string, double>& params,
         const std::vector<std::string>& logs, const std::string& robots, const std::map<std::string, nb::object>& laws,
         std::optional<double> dt, const nb::callable& read_bullet) {
        return completed(scene::load_text(text, path, importer_of(read_bullet), overrides_of(params, logs, robots)),
                         laws, dt);
      },
      nb::arg("text"), nb::arg("path"), nb::arg("params"), nb::arg("logs"), nb::arg("robots"), nb::arg("laws"),
      nb::arg("dt").none(), nb::arg("read_bullet"));
}

void add_joint(nb::module_& m) {
  const auto by = nb::rv_policy::move;
  nb::class_<PythonJoint>(m, "Joint",
                          "A hinge or a slider of a simulation. Signs and zeros are those of the robot's file.")
      .def_prop_ro("name", [](const PythonJoint& j) { return read(j, [](auto& at) { return at.name(); }); })
      .def_prop_ro(
          "slides", [](const PythonJoint& j) { return read(j, [](auto& at) { return at.slides(); }); },
          "True for a slider [m, N], False for a hinge [rad, N m].")
      .def_prop_rw(
          "position", [](const PythonJoint& j) { return read(j, [](auto& at) { return at.position(); }); },
          setter("position", &scene::SimulatedJoint::set_position),
          "Position [rad or m], with whole turns. Setting it moves the child and all bodies that joints connect to it.")
      .def_prop_rw(
          "velocity", [](const PythonJoint& j) { return read(j, [](auto& at) { return at.velocity(); }); },
          setter("velocity", &scene::SimulatedJoint::set_velocity), "Rate [rad/s or m/s].")
      .def_prop_ro(
          "acceleration", [](const PythonJoint& j) { return read(j, [](auto& at) { return at.acceleration(); }); },
          "Second derivative of the position [rad/s² or m/s²]. In Bullet it is the mean value of the last step.")
      .def_prop_rw(
          "force", [](const PythonJoint& j) { return read(j, [](auto& at) { return at.force(); }); },
          setter("force", &scene::SimulatedJoint::set_force),
          "Reading: the force of motors, actuators, damping and friction on the child along the coordinate [N m or N]. "
          "Setting: the force of a motor, which acts until it is set again.")
      .def_prop_ro(
          "limits", [](const PythonJoint& j) { return read(j, [](auto& at) { return at.limits(); }); },
          "Lower and upper limit of the position [rad or m], or None.")
      .def_prop_ro(
          "max_force", [](const PythonJoint& j) { return read(j, [](auto& at) { return at.max_force(); }); },
          "Largest force of the motor [N m or N], from the file, or None.")
      .def_prop_ro(
          "max_rate", [](const PythonJoint& j) { return read(j, [](auto& at) { return at.max_rate(); }); },
          "Rate at which the motor has no effect in the direction of motion [rad/s or m/s], or None.")
      .def(
          "_wrench", [](const PythonJoint& j) { return read(j, [](auto& at) { return tuple_of(at.wrench()); }); }, by);
}

}  // namespace

void add_simulation(nb::module_& m) {
  add_model(m);
  add_joint(m);
  add_constraint_reaction(m);
  nb::class_<PythonSimulation>(m, "Simulation", "The compiled part of linchpin.Simulation.")
      .def_prop_ro("t", [](PythonSimulation& self) { return self.use()->t(); })
      .def_prop_ro("host", [](const PythonSimulation& self) { return self.host(); })
      .def("summary", &PythonSimulation::summary)
      .def("step", &PythonSimulation::step, nb::arg("count"), nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("joint_names",
                   [](PythonSimulation& self) {
                     const auto access = self.use();
                     const std::span<const std::string> names = access->joints();
                     return std::vector<std::string>(names.begin(), names.end());
                   })
      .def(
          "joint",
          [](PythonSimulation& self, std::size_t index) {
            if (index >= self.joints().size()) throw nb::index_error("no joint of this index");
            return PythonJoint{&self, index};
          },
          nb::keep_alive<0, 1>())
      .def_prop_ro("q", [](const nb::object& self) { return view(self, arrays_in_use(self, true).q); })
      .def_prop_ro("v", [](const nb::object& self) { return view(self, arrays_in_use(self, true).v); })
      .def_prop_ro("positions",
                   [](const nb::object& self) { return view(self, arrays_in_use(self, false).position, 3); })
      .def_prop_ro("orientations",
                   [](const nb::object& self) { return view(self, arrays_in_use(self, false).orientation, 4); })
      .def_prop_ro("velocities",
                   [](const nb::object& self) { return view(self, arrays_in_use(self, false).velocity, 3); })
      .def_prop_ro("angular_velocities",
                   [](const nb::object& self) { return view(self, arrays_in_use(self, false).angular_velocity, 3); })
      .def("reactions", &reactions)
      .def("channels", &channels)
      .def("channel_values", &channel_values)
      .def("energy",
           [](PythonSimulation& self) {
             const PythonSimulation::Access access = self.use();
             const scene::Simulation& simulation = access.simulation;
             return linchpin::energy(simulation.system(), simulation.state());
           })
      .def("set_controller", &set_controller, nb::arg("function").none(), nb::arg("period"), nb::arg("on_failure"),
           nb::arg("deadline"))
      .def("failures", &failures)
      .def("failure_count", [](PythonSimulation& self) { return self.use()->failure_count(); });
  m.def(
      "simulate",
      [](const scene::Model& model) {
        const nb::gil_scoped_release release;
        auto simulation = std::make_shared<scene::Simulation>(model);
        return new PythonSimulation(simulation, "bare", [] { return std::string(); });
      },
      nb::arg("model"), nb::rv_policy::take_ownership, "Makes a simulation without an engine.");
}

}  // namespace linchpin::python
