// Derivatives of the equation of a scene at a state, with respect to the state, forces, time and [params].
// linchpin/derivatives.py gives names to them.
#include "arrays.h"
#include "bullet_file.h"
#include "module.h"

#include <linchpin/derivatives.h>
#include <linchpin/scene.h>
#include <linchpin/scene/parametric_scene.h>

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace linchpin::python {

namespace {

/// A scene whose numbers of [params] are parameters.
struct ParametricScene {
  std::string text, path;
  scene::BulletImporter import;
  std::map<std::string, double> params;  ///< Values that replace those of the scene and stay.
  std::vector<std::string> names;        ///< Names of the parameters.

  /// Reads the scene. Without values, the parameters have those of the scene. @param logs  channels after its own
  scene::Model load(std::span<const double> values, std::vector<std::string> logs = {}) const {
    scene::Overrides overrides;
    overrides.params.insert(params.begin(), params.end());
    for (std::size_t k = 0; k < values.size(); ++k) overrides.params.insert_or_assign(names[k], values[k]);
    overrides.logs = std::move(logs);
    return scene::load_text(text, path, import, overrides);
  }
  /// The values of the parameters in the scene.
  std::vector<double> values() const { return scene::logs_at_start(load({}, names), names.size()); }
  ParametricSystem parametric() const {
    return {names, values(), [*this](std::span<const double> at) { return load(at).system(); }};
  }
};

std::span<const double> span_of(const std::optional<VectorArgument>& x) {
  if (!x) return {};
  return {x->data(), x->size()};
}

/// Derivatives with the system that they need.
class PythonDerivatives {
 public:
  explicit PythonDerivatives(const ParametricScene& scene)
      : parametric_(scene.parametric()),
        model_(scene.load(parametric_.values)),
        system_(model_.system()),
        derivatives_(system_, parametric_, model_.options.solve) {}

  const ParametricSystem& parametric() const { return parametric_; }
  const System& system() const { return system_; }
  Derivatives& derivatives() { return derivatives_; }
  const Dynamics& dynamics() const { return derivatives_.dynamics(); }
  const IslandLayout& layout() const { return dynamics().assembly().layout; }

  void evaluate_start() { derivatives_.evaluate(system_.initial_state()); }
  /// @param positions  [bodies × 3], and so on, without the ground
  void evaluate(double t, const MatrixArgument& positions, const MatrixArgument& orientations,
                const MatrixArgument& velocities, const MatrixArgument& angular_velocities) {
    State state = system_.initial_state();
    const std::size_t bodies = state.bodies.size() - 1;
    for (const auto* array : {&positions, &orientations, &velocities, &angular_velocities})
      if (array->shape(0) != bodies) throw nb::index_error("evaluate: wrong number of bodies");
    state.t = t;
    const auto three = [](const MatrixArgument& of, std::size_t i) {
      return Vector3d(of.data()[3 * i], of.data()[3 * i + 1], of.data()[3 * i + 2]);
    };
    for (std::size_t i = 0; i < bodies; ++i) {
      BodyState& body = state.bodies[i + 1];
      body.p = three(positions, i);
      body.v = three(velocities, i);
      body.w = three(angular_velocities, i);
      const double* const q = orientations.data() + 4 * i;
      body.q = Quaterniond(q[0], q[1], q[2], q[3]);
      body.q.normalize();
    }
    system_.update_kinematic(state);
    derivatives_.evaluate(state);
  }

 private:
  ParametricSystem parametric_;
  scene::Model model_;
  System system_;
  Derivatives derivatives_;
};

nb::dict numbers_of(const OutputChange& change) {
  nb::dict out;
  out["vdot"] = new_vector(change.vdot);
  out["multipliers"] = new_vector(change.lambda);
  out["ideal"] = new_vector(change.ideal);
  out["nonideal"] = new_vector(change.nonideal);
  out["velocity_residual"] = new_vector(change.velocity_residual);
  return out;
}

nb::dict solution(PythonDerivatives& self) {
  const Dynamics& dynamics = self.dynamics();
  nb::dict out;
  out["vdot"] = new_vector(dynamics.vdot());
  out["multipliers"] = new_vector(dynamics.lambda());
  out["ideal"] = new_vector(dynamics.ideal());
  out["nonideal"] = new_vector(dynamics.nonideal());
  out["velocity_residual"] = new_vector(dynamics.assembly().velocity);
  return out;
}

/// Names with their first number, and the number after the last.
template <class Id>
nb::list ranges(const System& system, const std::vector<Id>& ids, const std::vector<int>& first) {
  nb::list out;
  for (std::size_t i = 0; i < ids.size(); ++i) out.append(nb::make_tuple(system.name(ids[i]), first[i], first[i + 1]));
  return out;
}
nb::list columns(PythonDerivatives& self) { return ranges(self.system(), self.layout().bodies, self.layout().column); }
nb::list rows(PythonDerivatives& self) { return ranges(self.system(), self.layout().constraints, self.layout().row); }

nb::dict forward(PythonDerivatives& self, const std::optional<VectorArgument>& displacement,
                 const std::optional<VectorArgument>& velocity, const std::optional<VectorArgument>& force, double time,
                 const std::optional<VectorArgument>& parameters) {
  return numbers_of(self.derivatives().forward({.displacement = span_of(displacement),
                                                .velocity = span_of(velocity),
                                                .force = span_of(force),
                                                .time = time,
                                                .parameters = span_of(parameters)}));
}

nb::dict reverse(PythonDerivatives& self, const std::optional<VectorArgument>& vdot,
                 const std::optional<VectorArgument>& multipliers, const std::optional<VectorArgument>& ideal,
                 const std::optional<VectorArgument>& nonideal,
                 const std::optional<VectorArgument>& velocity_residual) {
  const InputGradient& gradient = self.derivatives().reverse({.vdot = span_of(vdot),
                                                              .lambda = span_of(multipliers),
                                                              .ideal = span_of(ideal),
                                                              .nonideal = span_of(nonideal),
                                                              .velocity_residual = span_of(velocity_residual)});
  nb::dict out;
  out["displacement"] = new_vector(gradient.displacement);
  out["velocity"] = new_vector(gradient.velocity);
  out["force"] = new_vector(gradient.force);
  out["time"] = gradient.time;
  out["parameters"] = new_vector(gradient.parameters);
  return out;
}

}  // namespace

void add_derivatives(nb::module_& m) {
  nb::class_<PythonDerivatives>(m, "Derivatives", "The compiled part of linchpin.Derivatives.")
      .def("columns", &columns)
      .def("rows", &rows)
      .def_prop_ro("values", [](PythonDerivatives& self) { return self.parametric().values; })
      .def_prop_ro("body_count", [](PythonDerivatives& self) { return self.system().body_count() - 1; })
      .def("evaluate_start", &PythonDerivatives::evaluate_start)
      .def("evaluate", &PythonDerivatives::evaluate, nb::arg("t"), nb::arg("positions"), nb::arg("orientations"),
           nb::arg("velocities"), nb::arg("angular_velocities"))
      .def("solution", &solution)
      .def("forward", &forward, nb::arg("displacement").none(), nb::arg("velocity").none(), nb::arg("force").none(),
           nb::arg("time"), nb::arg("parameters").none())
      .def("reverse", &reverse, nb::arg("vdot").none(), nb::arg("multipliers").none(), nb::arg("ideal").none(),
           nb::arg("nonideal").none(), nb::arg("velocity_residual").none());
  m.def(
      "derivatives",
      [](const std::string& text, const std::string& path, std::vector<std::string> names,
         const std::map<std::string, double>& params, const nb::callable& read_bullet) {
        return new PythonDerivatives({text, path, importer_of(read_bullet), params, std::move(names)});
      },
      nb::arg("text"), nb::arg("path"), nb::arg("names"), nb::arg("params"), nb::arg("read_bullet"),
      nb::rv_policy::take_ownership);
}

}  // namespace linchpin::python
