// The state of a simulation as arrays, and many steps of one start. linchpin/state.py and linchpin/rollout.py use it.
#include "arrays.h"
#include "module.h"
#include "simulation.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cmath>
#include <exception>
#include <limits>
#include <optional>
#include <vector>

namespace nb = nanobind;

namespace linchpin::python {

namespace {

/// Numbers of the state at several times, one after the other.
struct Rows {
  std::vector<double> t;
  StateArrays arrays;

  void add(double time, const StateArrays& at) {
    t.push_back(time);
    for (const auto member : {&StateArrays::q, &StateArrays::v, &StateArrays::position, &StateArrays::orientation,
                              &StateArrays::velocity, &StateArrays::angular_velocity})
      (arrays.*member).insert((arrays.*member).end(), (at.*member).begin(), (at.*member).end());
  }
};

void set_forces(PythonSimulation& simulation, const double* forces) {
  for (std::size_t i = 0; i < simulation.joints().size(); ++i) simulation.joints()[i].set_force(forces[i]);
}

/// Takes steps and keeps the state at the start and after each `every`-th step. After a step without a result, all rows
/// are NaN, and the last item of the returned tuple has the reason.
nb::tuple roll(PythonSimulation& self, long steps, long every, const std::optional<MatrixArgument>& forces) {
  Rows rows;
  std::string failure;
  std::size_t joints = 0, bodies = 0;
  {
    const nb::gil_scoped_release release;
    const PythonSimulation::Access access = self.use();
    self.use_joints();
    self.use_bodies();
    joints = self.joints().size();
    bodies = self.arrays().orientation.size() / 4;
    rows.add(access->t(), self.arrays());
    try {
      for (long i = 0; i < steps; ++i) {
        if (forces) set_forces(self, forces->data() + static_cast<std::size_t>(i) * joints);
        self.step(1);
        if ((i + 1) % every == 0) rows.add(access->t(), self.arrays());
      }
    } catch (const nb::python_error&) {
      throw;  // Ctrl+C
    } catch (const std::exception& e) {
      failure = e.what();
    }
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    const StateArrays empty{std::vector<double>(joints, none),     std::vector<double>(joints, none),
                            std::vector<double>(3 * bodies, none), std::vector<double>(4 * bodies, none),
                            std::vector<double>(3 * bodies, none), std::vector<double>(3 * bodies, none)};
    while (rows.t.size() < static_cast<std::size_t>(steps / every) + 1) rows.add(none, empty);
  }
  const std::size_t count = rows.t.size();
  const StateArrays& all = rows.arrays;
  return nb::make_tuple(new_vector(rows.t), new_array(all.q.data(), {count, joints}),
                        new_array(all.v.data(), {count, joints}), new_array(all.position.data(), {count, bodies, 3}),
                        new_array(all.orientation.data(), {count, bodies, 4}),
                        new_array(all.velocity.data(), {count, bodies, 3}),
                        new_array(all.angular_velocity.data(), {count, bodies, 3}), failure);
}

void set_state(PythonSimulation& self, double t, const MatrixArgument& position, const MatrixArgument& orientation,
               const MatrixArgument& velocity, const MatrixArgument& angular_velocity, const VectorArgument& q) {
  const PythonSimulation::Access access = self.use();
  State state = access->state();
  const std::size_t bodies = state.bodies.size() - 1;  // the first one is the world
  for (const auto& [array, columns] :
       {std::pair(&position, 3u), {&orientation, 4u}, {&velocity, 3u}, {&angular_velocity, 3u}})
    if (array->shape(0) != bodies || array->shape(1) != columns) throw nb::index_error("set_state: wrong shape");
  state.t = t;
  for (std::size_t i = 0; i < bodies; ++i) {
    BodyState& body = state.bodies[i + 1];
    body.p = Eigen::Map<const Vector3d>(position.data() + 3 * i);
    const double* w = orientation.data() + 4 * i;
    body.q = Quaterniond(w[0], w[1], w[2], w[3]);
    body.v = Eigen::Map<const Vector3d>(velocity.data() + 3 * i);
    body.w = Eigen::Map<const Vector3d>(angular_velocity.data() + 3 * i);
  }
  access->set_state(state, {q.data(), q.size()});
  self.renew();
}

}  // namespace

void add_rollout(nb::module_& m) {
  m.def("roll", &roll, nb::arg("simulation"), nb::arg("steps"), nb::arg("every"), nb::arg("forces").none());
  m.def("set_state", &set_state, nb::arg("simulation"), nb::arg("t"), nb::arg("positions"), nb::arg("orientations"),
        nb::arg("velocities"), nb::arg("angular_velocities"), nb::arg("q"));
}

}  // namespace linchpin::python
