// The linearised equations of a simulation as arrays. linchpin/linearization.py gives names to them.
#include "arrays.h"
#include "linchpin/linearized_scene.h"
#include "linchpin/place_of_rest.h"
#include "module.h"
#include "simulation.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <complex>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace linchpin::python {

namespace {

using Complex = std::complex<double>;

/// A shape with six numbers for each body of the model, in the order of the model.
void append_shape(const LinearizedMotion& motion, const Eigenmode& mode, std::size_t from, std::size_t bodies,
                  std::vector<double>& real, std::vector<double>& imaginary) {
  const std::size_t start = real.size();
  real.resize(start + 6 * bodies, 0.0);
  imaginary.resize(start + 6 * bodies, 0.0);
  for (std::size_t s = 0; s < motion.layout.bodies.size(); ++s) {
    const std::size_t body = static_cast<std::size_t>(motion.layout.bodies[s].index) - 1;
    if (body >= bodies) continue;
    for (int i = motion.layout.column[s]; i < motion.layout.column[s + 1]; ++i) {
      const Complex x = mode.shape[from + static_cast<std::size_t>(i)];
      const std::size_t to = start + 6 * body + static_cast<std::size_t>(i - motion.layout.column[s]);
      real[to] = x.real();
      imaginary[to] = x.imag();
    }
  }
}

nb::dict linearize(PythonSimulation& self, bool equilibrium, int starts) {
  cli::LinearizedScene of;
  std::size_t bodies = 0;
  {
    const nb::gil_scoped_release release;
    const PythonSimulation::Access access = self.use();
    bodies = access->state().bodies.size() - 1;  // The first one is the world.
    const System& system = std::as_const(access.simulation).system();
    const State state = equilibrium ? cli::place_of_rest(access->model(), system, starts).state : access->state();
    of = cli::linearize_scene(access->model(), system, state);
  }
  const LinearizedMotion& motion = of.motion;
  const std::size_t k = static_cast<std::size_t>(motion.size()), count = of.coordinates.size();
  std::vector<double> real, imaginary, errors, shape_real, shape_imaginary, rate_real, rate_imaginary;
  for (const Eigenmode& mode : of.modes) {
    real.push_back(mode.eigenvalue.real());
    imaginary.push_back(mode.eigenvalue.imag());
    errors.push_back(mode.error);
    append_shape(motion, mode, 0, bodies, shape_real, shape_imaginary);
    append_shape(motion, mode, mode.shape.size() / 2, bodies, rate_real, rate_imaginary);
  }
  std::vector<std::string> names, units;
  for (const scene::CoordinateGradient& g : of.coordinates) {
    names.push_back(g.name);
    units.push_back(g.unit);
  }
  const std::vector<double> C = scene::position_outputs(of.coordinates, motion);
  const auto shapes = [&](const std::vector<double>& values) { return new_array(values.data(), {k, bodies, 6}); };
  nb::dict out;
  out["t"] = of.state.t;
  out["A"] = new_array(motion.A.data(), {k, k});
  out["B"] = new_array(motion.B.data(), {k, count});
  out["C"] = new_array(C.data(), {count, k});
  out["coordinates"] = names;
  out["coordinate_units"] = units;
  out["eigenvalues"] = nb::make_tuple(new_vector(real), new_vector(imaginary));
  out["errors"] = new_vector(errors);
  out["shapes"] = nb::make_tuple(shapes(shape_real), shapes(shape_imaginary));
  out["velocity_shapes"] = nb::make_tuple(shapes(rate_real), shapes(rate_imaginary));
  out["displacements"] = motion.displacements;
  out["velocities"] = motion.velocities;
  out["unsteadiness"] = motion.unsteadiness;
  out["is_steady"] = motion.is_steady();
  out["frame_angular_velocity"] = new_vector(motion.frame_angular_velocity);
  out["error"] = motion.error;
  out["stability"] = of.stability();
  return out;
}

}  // namespace

void add_linearization(nb::module_& m) {
  m.def("linearize", &linearize, nb::arg("simulation"), nb::arg("equilibrium"), nb::arg("starts"));
}

}  // namespace linchpin::python
