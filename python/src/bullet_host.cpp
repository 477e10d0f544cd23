// Simulations in a world of Bullet, in one precision for each extension module. The two precisions of Bullet have the
// same symbols, so they must not be in one shared object.
#include "simulation.h"

#include <linchpin/bullet_simulation.h>

#include <nanobind/nanobind.h>

#include <memory>

namespace nb = nanobind;

#ifdef BT_USE_DOUBLE_PRECISION
#define LINCHPIN_PYTHON_HOST "bullet-float64"
#define LINCHPIN_PYTHON_MODULE _bullet_float64
#else
#define LINCHPIN_PYTHON_HOST "bullet"
#define LINCHPIN_PYTHON_MODULE _bullet
#endif

NB_MODULE(LINCHPIN_PYTHON_MODULE, m) {
  using linchpin::python::PythonSimulation;
  m.doc() = "Simulations of linchpin on the host " LINCHPIN_PYTHON_HOST ". Use linchpin.load().";
  nb::module_::import_("linchpin._core");  // knows the types
  m.def(
      "simulate",
      [](const linchpin::scene::Model& model) {
        auto simulation = std::make_shared<linchpin::bullet::Simulation>(model);
        return new PythonSimulation(simulation, LINCHPIN_PYTHON_HOST,
                                    [simulation] { return simulation->solver().summary(); });
      },
      nb::arg("model"), nb::rv_policy::take_ownership, "Makes a simulation in a world of Bullet.");
}
