// Parts of the extension module linchpin._core: each function adds the Python names of one subject.
#pragma once

#include <nanobind/nanobind.h>

namespace linchpin::python {

void add_errors(nanobind::module_& m);         ///< SceneError, OrderError, FileError
void add_solve(nanobind::module_& m);          ///< the equation as a function
void add_laws(nanobind::module_& m);           ///< the catalogue of force laws
void add_simulation(nanobind::module_& m);     ///< models and simulations
void add_recording(nanobind::module_& m);      ///< recordings of simulations
void add_experiment(nanobind::module_& m);     ///< cases of a sweep
void add_linearization(nanobind::module_& m);  ///< linearised equations
void add_sensitivities(nanobind::module_& m);  ///< derivatives of motions
void add_fit(nanobind::module_& m);            ///< parameters from measurements
void add_derivatives(nanobind::module_& m);    ///< derivatives at a state
void add_rollout(nanobind::module_& m);        ///< states, and many steps of one start
void add_dynamics(nanobind::module_& m);       ///< mass matrix, Jacobians, operational space

}  // namespace linchpin::python
