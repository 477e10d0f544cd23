// Memory for numbers that are read into SIMD vectors, and access to their lanes, without the vectors themselves
// (math/simd.h).
#pragma once

#include "math/so3_exp.h"

#include <cstddef>
#include <cstring>
#include <limits>
#include <new>
#include <vector>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

/// Access to the lanes of a number. A double has one.
template <class Real>
struct SimdTraits;
template <>
struct SimdTraits<double> {
  static constexpr int count = 1;
  static double get(double x, int) { return x; }
  static void set(double& x, int, double to) { x = to; }
  static double all(double x) { return x; }
};

/// An allocator that aligns to SIMD vectors, which GCC's own does not. One vector more can be read than there is.
template <class T>
struct SimdAllocator {
  using value_type = T;
  static constexpr std::size_t vector_size = 32;
  static constexpr std::align_val_t alignment{vector_size};
  SimdAllocator() = default;
  template <class U>
  SimdAllocator(const SimdAllocator<U>&) {}  // NOLINT: allocators convert
  T* allocate(std::size_t n) {
    constexpr std::size_t most = (std::numeric_limits<std::ptrdiff_t>::max() - vector_size) / sizeof(T);
    if (n > most) throw std::bad_array_new_length();
    char* const at = static_cast<char*>(::operator new(n * sizeof(T) + vector_size, alignment));
    std::memset(at + n * sizeof(T), 0, vector_size);
    return reinterpret_cast<T*>(at);
  }
  void deallocate(T* p, std::size_t) { ::operator delete(p, alignment); }
  bool operator==(const SimdAllocator&) const { return true; }
};
template <class T>
using AlignedVector = std::vector<T, SimdAllocator<T>>;

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
