// The solvers of instantiate.cpp for processors that have AVX2, which is found out at run time. Headers that are not
// part of the kernel are included before AVX2 is switched on: of a function of the standard library the linker keeps
// one version for all files.
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

#include "joint_kernel/coupled_kernel.h"
#include "joint_kernel/kernel.h"

namespace linchpin::detail {

std::unique_ptr<JointSolver> make_joint_solver_avx2(const SymbolicFactor& pattern) {
  return std::make_unique<SimdJointSolver<double>>(pattern);
}

std::unique_ptr<JointSolver> make_four_lane_joint_solver_avx2(const SymbolicFactor& pattern) {
  return std::make_unique<SimdJointSolver<Vec4d>>(pattern);
}

std::unique_ptr<CoupledStep> make_coupled_step_avx2(const SymbolicFactor& pattern) {
  return std::make_unique<CoupledKernel>(pattern);
}

}  // namespace linchpin::detail

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
