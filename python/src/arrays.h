// Vectors and matrices between C++ and NumPy.
#pragma once

#include <linchpin/problem.h>
#include <linchpin/system.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <Eigen/Core>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

namespace linchpin::python {

/// A NumPy array of double precision.
using Array = nanobind::ndarray<nanobind::numpy, double>;
/// A NumPy array that Python cannot write.
using ReadOnlyArray = nanobind::ndarray<nanobind::numpy, const double>;
/// An argument: a contiguous vector of double precision. nanobind converts lists and other types.
using VectorArgument = nanobind::ndarray<const double, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
/// An argument: a contiguous matrix of double precision, row by row.
using MatrixArgument = nanobind::ndarray<const double, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;

/// A new array that owns a copy of the numbers, row by row. @param shape  its product is the number of values
inline Array new_array(const double* values, std::initializer_list<std::size_t> shape) {
  std::size_t count = 1;
  for (const std::size_t n : shape) count *= n;
  auto memory = std::make_unique<double[]>(std::max<std::size_t>(count, 1));
  std::copy_n(values, count, memory.get());
  const nanobind::capsule owner(memory.get(), [](void* p) noexcept { delete[] static_cast<double*>(p); });
  return Array(memory.release(), shape, owner);
}

/// A new array of one dimension.
template <class Vector>
Array new_vector(const Vector& v) {
  return new_array(v.data(), {static_cast<std::size_t>(v.size())});
}

/// A new array of two dimensions from an Eigen matrix, which is stored column by column.
template <class Matrix>
Array new_matrix(const Matrix& m) {
  const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> rows = m;
  return new_array(rows.data(), {static_cast<std::size_t>(m.rows()), static_cast<std::size_t>(m.cols())});
}

/// The numbers of a vector that a program gives as an array, a list or a tuple.
/// @param size  number of components, or -1 for any
/// @param finite  false: numbers that are not finite are accepted
/// @throws nanobind::type_error for what is no array of real numbers @throws std::invalid_argument for another size and
/// for a number that is not finite; both name the argument
VectorX vector_argument(const std::string& name, const nanobind::handle& value, int size = -1, bool finite = true);
/// Does the same for 3 components.
Vector3d vector3_argument(const std::string& name, const nanobind::handle& value, bool finite = true);

/// A number. @throws nanobind::type_error with the name and the value for what is no real number
double number_argument(const std::string& name, const nanobind::handle& value);

/// The numbers of an argument.
inline std::vector<double> numbers(const VectorArgument& v) { return {v.data(), v.data() + v.size()}; }

}  // namespace linchpin::python
