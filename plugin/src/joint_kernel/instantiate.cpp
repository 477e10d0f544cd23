#include "joint_kernel/coupled_kernel.h"
#include "joint_kernel/kernel.h"

namespace linchpin::detail {

std::unique_ptr<JointSolver> make_joint_solver(const SymbolicFactor& pattern) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return make_joint_solver_avx2(pattern);
#endif
  return std::make_unique<SimdJointSolver<double>>(pattern);
}

std::unique_ptr<JointSolver> make_four_lane_joint_solver(const SymbolicFactor& pattern) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return make_four_lane_joint_solver_avx2(pattern);
#endif
  return std::make_unique<SimdJointSolver<Vec4d>>(pattern);
}

std::unique_ptr<CoupledStep> make_coupled_step(const SymbolicFactor& pattern) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return make_coupled_step_avx2(pattern);
#endif
  return std::make_unique<CoupledKernel>(pattern);
}

}  // namespace linchpin::detail
