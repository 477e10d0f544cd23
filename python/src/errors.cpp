// Exceptions of C++ as exceptions of Python. nanobind makes ValueError of std::invalid_argument, and RuntimeError of
// other exceptions.
#include "module.h"

#include <linchpin/error.h>
#include <linchpin/scene.h>

namespace nb = nanobind;

namespace linchpin::python {

void add_errors(nb::module_& m) {
  // The last one that is added is the first that is tried.
  nb::exception<FileError>(m, "FileError", PyExc_OSError).doc() =
      "A file cannot be read, written or understood. The text names the file.";
  nb::exception<scene::SceneError>(m, "SceneError", PyExc_ValueError).doc() =
      "A fault in a scene or a robot. The text names the file, the line and the remedy.";
  nb::exception<OrderError>(m, "OrderError", PyExc_RuntimeError).doc() =
      "The call is not possible now, such as forces of Bullet before the first step.";
}

}  // namespace linchpin::python
