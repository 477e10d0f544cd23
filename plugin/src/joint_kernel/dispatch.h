// Where JointStep meets its numbers: what is kept of a block, and the memory in which steps of blocks of one pattern
// are worked out, one at a time or four.
#pragma once

#include "joint_kernel/symbolic.h"

#include <linchpin/detail/joint_step.h>

#include <memory>
#include <span>
#include <vector>

namespace linchpin::detail {

/// A block's own: everything else is its pattern's, or its state's.
struct JointBlock {
  unsigned long version = 0;   // another whenever something of it is; never that of another block
  std::vector<BodyId> bodies;  // in the order of the pattern
  struct Mass {
    double mass, inverse_mass, least_inertia;
    Vector3d inertia, inverse_inertia;
  };
  std::vector<Mass> masses;      // of those that move
  std::vector<double> geometry;  // of its points p_AQ, p_BQ and their norms, of its axes u_A, p_AQ, p_BQ and d0, of its
                                 // dots u_A, w_B and c
};

class JointWork {
 public:
  virtual ~JointWork() = default;
  /// As many as there is room for, of one pattern.
  virtual void take(const State& state, const JointStep::Limits& limits, std::span<JointStep::Job> jobs) = 0;
};

/// JointStep::begin and what follows it.
class CoupledStep {
 public:
  virtual ~CoupledStep() = default;
  virtual const char* begin(const State& state, const JointBlock& block, double gap_tolerance) = 0;
  virtual double reach(double dt, double tolerance, int most_solves, std::span<const double> applied,
                       std::span<const double> Q, std::span<double> v) = 0;
  virtual void keep(double time, std::span<const double> applied, std::span<double> v) = 0;
  virtual void hold(std::span<double> v) = 0;
  virtual bool as_one(JointStep::One& to) const = 0;
  virtual void aim(std::span<const int> bodies) = 0;
  virtual void move(std::span<const JointStep::Push> pushes, double* to) = 0;
  virtual void end(const JointStep::Limits& limits, JointStep::Job& job) = 0;
};

std::unique_ptr<JointWork> work_for_one(const SymbolicFactor& pattern);
std::unique_ptr<JointWork> work_for_four(const SymbolicFactor& pattern);
std::unique_ptr<CoupledStep> turns_of_one(const SymbolicFactor& pattern);
#if defined(__x86_64__)
std::unique_ptr<JointWork> work_for_one_by_avx2(const SymbolicFactor& pattern);
std::unique_ptr<JointWork> work_for_four_by_avx2(const SymbolicFactor& pattern);
std::unique_ptr<CoupledStep> turns_of_one_by_avx2(const SymbolicFactor& pattern);
#endif

}  // namespace linchpin::detail
