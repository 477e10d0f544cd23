#include "arrays.h"

#include <nanobind/stl/string.h>

#include <stdexcept>

namespace nb = nanobind;

namespace linchpin::python {

VectorX vector_argument(const std::string& name, const nb::handle& value, int size, bool finite) {
  const std::string wanted = size < 0 ? "a vector" : "a vector of " + std::to_string(size) + " numbers";
  const auto refuse = [&]() { return name + " must be " + wanted + ", not " + nb::cast<std::string>(nb::repr(value)); };
  const nb::module_ numpy = nb::module_::import_("numpy");
  nb::object array;
  try {
    array = numpy.attr("asarray")(value);
  } catch (const nb::python_error&) {
    throw std::invalid_argument(refuse());
  }
  const std::string kind = nb::cast<std::string>(array.attr("dtype").attr("kind"));
  const bool empty = nb::cast<std::size_t>(array.attr("size")) == 0;
  if (!empty && kind != "f" && kind != "i" && kind != "u") throw nb::type_error(refuse().c_str());
  VectorArgument numbers;
  if (!nb::try_cast(numpy.attr("ascontiguousarray")(array, "float64"), numbers)) throw std::invalid_argument(refuse());
  if (nb::cast<int>(array.attr("ndim")) != 1 || (size >= 0 && numbers.size() != static_cast<std::size_t>(size)))
    throw std::invalid_argument(refuse());
  const VectorX out = Eigen::Map<const VectorX>(numbers.data(), static_cast<Eigen::Index>(numbers.size()));
  if (finite && !out.allFinite()) throw std::invalid_argument(refuse() + ": all numbers must be finite");
  return out;
}

double number_argument(const std::string& name, const nb::handle& value) {
  double out = 0;
  if (!nb::try_cast(value, out))
    throw nb::type_error((name + " must be a number, not " + nb::cast<std::string>(nb::repr(value))).c_str());
  return out;
}

Vector3d vector3_argument(const std::string& name, const nb::handle& value, bool finite) {
  return vector_argument(name, value, 3, finite);
}

}  // namespace linchpin::python
