#include "joint_kernel/kernel.h"

namespace linchpin::detail {

std::unique_ptr<JointWork> work_for_one(const SymbolicFactor& pattern) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return work_for_one_by_avx2(pattern);
#endif
  return std::make_unique<JointLanes<double>>(pattern);
}

std::unique_ptr<JointWork> work_for_four(const SymbolicFactor& pattern) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return work_for_four_by_avx2(pattern);
#endif
  return std::make_unique<JointLanes<Vec4d>>(pattern);
}

std::unique_ptr<CoupledStep> turns_of_one(const SymbolicFactor& pattern) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return turns_of_one_by_avx2(pattern);
#endif
  return std::make_unique<SingleCoupledStep>(pattern);
}

}  // namespace linchpin::detail
