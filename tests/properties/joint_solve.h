// A block's step by detail::JointStep beside its Dynamics, for tests of the one by the other.
#pragma once

#include "random.h"

#include <linchpin/detail/joint_step.h>
#include <linchpin/dynamics.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace linchpin::test {

constexpr double joint_step_dt = 1.0 / 240;

/// A mechanism's block with all that its step needs.
struct JointSolve {
  Dynamics dynamics;
  detail::JointStep step;
  std::vector<double> Q, applied, newton, v, start, total, mean, pull;
  JointSolve(const System& system, const std::vector<ConstraintId>& joints, const State& state,
             detail::JointShapes& shapes, Random& random, SolveOptions options = {})
      : dynamics(system, joints, options) {
    const std::size_t n = static_cast<std::size_t>(dynamics.assembly().block.n()),
                      m = static_cast<std::size_t>(dynamics.assembly().block.m());
    for (auto* x : {&Q, &applied, &v}) x->resize(n);
    for (auto* x : {&newton, &start, &total, &mean}) x->resize(m);
    pull.resize(12 * joints.size());
    for (double& x : Q) x = random.uniform(-10, 10);
    for (std::size_t j = 0; j < n; ++j) applied[j] = joint_step_dt * Q[j];
    EXPECT_NE(dynamics.evaluate(state, Q), Status::invalid);
    EXPECT_TRUE(step.lay_out(system, dynamics.assembly().block, shapes));
  }
  detail::JointStep::Job job() {
    std::fill(newton.begin(), newton.end(), 0.0);
    return {.of = &step,
            .numbers = {.Q = Q,
                        .applied = applied,
                        .newton = newton,
                        .v = v,
                        .start = start,
                        .total = total,
                        .mean = mean,
                        .pull = pull}};
  }
};

inline constexpr detail::JointStep::Limits joint_step_limits{
    .dt = joint_step_dt, .newton_tolerance = 1e-14, .gap_tolerance = 1e-9, .max_solves = 20, .swing = 1, .enough = 0};

}  // namespace linchpin::test
