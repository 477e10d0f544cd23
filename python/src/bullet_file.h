// .bullet files in the package. linchpin/bullet_file.py reads them in a process of its own.
#pragma once

#include <linchpin/scene.h>

#include <nanobind/nanobind.h>

namespace linchpin::python {

/// An importer that calls a Python function with a path. The function returns the contents as JSON, and the reason of a
/// failure.
scene::BulletImporter importer_of(const nanobind::callable& read);

}  // namespace linchpin::python
