// linchpin._core: the part of the Python package that is C++. The package adds what is easier to read in Python.
#include "module.h"

#include <linchpin/version.h>

NB_MODULE(_core, m) {
  // A law or a controller may refer to its own simulation. The interpreter then ends before both are released.
  nanobind::set_leak_warnings(false);
  m.doc() = "The compiled part of linchpin. Use the package `linchpin`.";
  m.attr("version") = LINCHPIN_VERSION;
  linchpin::python::add_errors(m);
  linchpin::python::add_solve(m);
  linchpin::python::add_laws(m);
  linchpin::python::add_simulation(m);
  linchpin::python::add_recording(m);
  linchpin::python::add_rollout(m);
  linchpin::python::add_experiment(m);
  linchpin::python::add_linearization(m);
  linchpin::python::add_sensitivities(m);
  linchpin::python::add_fit(m);
  linchpin::python::add_derivatives(m);
  linchpin::python::add_dynamics(m);
}
