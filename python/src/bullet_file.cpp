#include "bullet_file.h"

#include "callable.h"
#include "linchpin/bullet_description.h"

#include <nanobind/stl/pair.h>

#include <nlohmann/json.hpp>

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

namespace nb = nanobind;

namespace linchpin::python {

namespace {

void require_bullet_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in.is_open()) throw std::runtime_error("the file does not exist");
  if (const std::string fault = cli::scene_fault(bytes); !fault.empty()) throw std::runtime_error(fault);
}

}  // namespace

scene::BulletImporter importer_of(const nb::callable& read) {
  return [call = Callable(read)](const std::string& path) {
    require_bullet_file(path);
    const auto [text, failure] = call(
        "the reader of .bullet files",
        [](const nb::object& answer) { return nb::cast<std::pair<std::string, std::string>>(answer); }, path);
    if (!failure.empty()) throw std::runtime_error(failure);
    return cli::imported_of(nlohmann::ordered_json::parse(text));
  };
}

}  // namespace linchpin::python
