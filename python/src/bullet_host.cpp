// Simulations in a world of Bullet, in one precision for each extension module. The two precisions of Bullet have the
// same symbols, so they must not be in one shared object.
#include "simulation.h"

#include <linchpin/bullet_simulation.h>

#include <nanobind/nanobind.h>

#ifdef LINCHPIN_PYTHON_BULLET_FILES
#include "describe.h"
#endif

#include <nanobind/stl/string.h>

#include <memory>
#include <string>

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
        const nb::gil_scoped_release release;
        auto simulation = std::make_shared<linchpin::bullet::Simulation>(model);
        return new PythonSimulation(simulation, LINCHPIN_PYTHON_HOST,
                                    [simulation] { return simulation->solver().summary(); });
      },
      nb::arg("model"), nb::rv_policy::take_ownership, "Makes a simulation in a world of Bullet.");
#ifdef LINCHPIN_PYTHON_BULLET_FILES
  m.def(
      "describe_bullet_file",
      [](const std::string& path) {
        using linchpin::worker::Json;
        return linchpin::worker::describe(path).dump(-1, ' ', false, Json::error_handler_t::replace);
      },
      nb::arg("path"), "The contents of a .bullet file as JSON. Call it in a process of its own.");
#endif
}
