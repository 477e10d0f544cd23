// Recordings of simulations: linchpin::scene::Recorder. linchpin/trace.py uses it.
#include "module.h"
#include "simulation.h"

#include <linchpin/scene_recorder.h>

#include <nanobind/stl/string.h>

#include <string>

namespace nb = nanobind;

namespace linchpin::python {

namespace {

/// Records a simulation, with its frames.
class PythonRecorder {
 public:
  explicit PythonRecorder(PythonSimulation& simulation)
      : simulation_(simulation), recorder_(simulation.use().simulation, {.full = true}) {}
  /// Takes steps and records each of them.
  void step(long count) {
    const PythonSimulation::Access access = simulation_.use();
    for (long i = 0; i < count; ++i) {
      simulation_.step(1);
      recorder_.add();
    }
  }
  void write(const std::string& path) {
    const PythonSimulation::Access access = simulation_.use();
    recorder_.write(path, simulation_.host());
  }

 private:
  PythonSimulation& simulation_;
  scene::Recorder recorder_;
};

}  // namespace

void add_recording(nb::module_& m) {
  nb::class_<PythonRecorder>(m, "Recorder", "The compiled part of linchpin.Trace.")
      .def(nb::init<PythonSimulation&>(), nb::arg("simulation"), nb::keep_alive<1, 2>())
      .def("step", &PythonRecorder::step, nb::arg("count"), nb::call_guard<nb::gil_scoped_release>())
      .def("write", &PythonRecorder::write, nb::arg("path"), nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace linchpin::python
