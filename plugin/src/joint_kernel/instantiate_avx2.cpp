// The same for processors that have AVX2, which is found out at run time. What is not ours is included before it is
// asked for: of the standard library's functions the linker keeps one version for everybody.
#include "joint_kernel/dispatch.h"

#include <linchpin/joints.h>

#include <Eigen/Geometry>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__x86_64__)

#define LINCHPIN_SIMD simd_avx2
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif

#include "joint_kernel/kernel.h"

namespace linchpin::detail {

std::unique_ptr<JointWork> work_for_one_by_avx2(const SymbolicFactor& pattern) {
  return std::make_unique<JointLanes<double>>(pattern);
}

std::unique_ptr<JointWork> work_for_four_by_avx2(const SymbolicFactor& pattern) {
  return std::make_unique<JointLanes<Vec4d>>(pattern);
}

std::unique_ptr<CoupledStep> turns_of_one_by_avx2(const SymbolicFactor& pattern) {
  return std::make_unique<SingleCoupledStep>(pattern);
}

}  // namespace linchpin::detail

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
