#include "bullet_file.h"

#include "callable.h"
#include "linchpin/bullet_description.h"

#include <nanobind/stl/pair.h>

#include <nlohmann/json.hpp>

#include <stdexcept>
#include <string>
#include <utility>

namespace nb = nanobind;

namespace linchpin::python {

scene::BulletImporter importer_of(const nb::callable& read) {
  return [call = Callable(read)](const std::string& path) {
    cli::require_bullet_scene(path);
    const auto [text, failure] = call(
        "the reader of .bullet files",
        [](const nb::object& answer) { return nb::cast<std::pair<std::string, std::string>>(answer); }, path);
    if (!failure.empty()) throw std::runtime_error(failure);
    return cli::imported_of(nlohmann::ordered_json::parse(text));
  };
}

}  // namespace linchpin::python
