// An island's step by detail::JointIsland beside its Dynamics, for tests of the one by the other.
#pragma once

#include "allocation_counter.h"
#include "joint_kernel/joint_island.h"
#include "random.h"

#include <linchpin/dynamics.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <vector>

namespace linchpin::test {

constexpr double joint_step_dt = 1.0 / 240;

/// A mechanism's island with all that its step needs.
struct JointSolve {
  Dynamics dynamics;
  detail::JointIsland island;
  std::vector<double> Q, applied, newton, v, start, total, mean, pull;
  std::vector<int> gyroscopic;  ///< bodies that have a gyroscopic torque
  JointSolve(const System& system, const std::vector<ConstraintId>& joints, const State& state,
             detail::JointTopologies& topologies, Random& random, SolveOptions options = {})
      : dynamics(system, joints, options) {
    const std::size_t n = static_cast<std::size_t>(dynamics.assembly().layout.n()),
                      m = static_cast<std::size_t>(dynamics.assembly().layout.m());
    for (auto* x : {&Q, &applied, &v}) x->resize(n);
    for (auto* x : {&newton, &start, &total, &mean}) x->resize(m);
    pull.resize(12 * joints.size());
    for (double& x : Q) x = random.uniform(-10, 10);
    for (std::size_t j = 0; j < n; ++j) applied[j] = joint_step_dt * Q[j];
    EXPECT_NE(dynamics.evaluate(state, Q), Status::invalid);
    EXPECT_TRUE(island.lay_out(system, dynamics.assembly().layout, topologies));
  }
  detail::JointIsland::Job job() {
    std::fill(newton.begin(), newton.end(), 0.0);
    return {.island = &island,
            .vectors = {.Q = Q,
                        .applied_impulse = applied,
                        .newton_impulses = newton,
                        .v = v,
                        .start_multipliers = start,
                        .total_impulses = total,
                        .mean_row_velocities = mean,
                        .constraint_impulses = pull,
                        .gyroscopic = gyroscopic,
                        .gyroscopic_time = joint_step_dt}};
  }
};

inline constexpr detail::JointIsland::Limits joint_step_limits{.dt = joint_step_dt,
                                                               .newton_tolerance = 1e-14,
                                                               .gap_tolerance = 1e-9,
                                                               .max_solves = 20,
                                                               .max_omega_dt = 1,
                                                               .coarse_omega_dt = 0};

/// Steps of islands of one topology, two to four side by side: each comes out as alone, to the last bit, or is refused
/// as alone.
/// @return which are not
inline std::vector<bool> expect_the_same_alone(const State& state, std::deque<JointSolve>& solves) {
  const auto numbers = [](const JointSolve& s, const detail::JointIsland::Job& job) {
    std::vector<double> all;
    if (!job.outcome.refused())
      for (const auto* x : {&s.v, &s.newton, &s.start, &s.total, &s.mean, &s.pull})
        all.insert(all.end(), x->begin(), x->end());
    return all;
  };
  std::vector<bool> taken;
  std::vector<std::vector<double>> alone;
  for (JointSolve& s : solves) {
    EXPECT_EQ(s.island.topology(), solves[0].island.topology());
    detail::JointIsland::Job job = s.job();
    detail::JointIsland::solve_steps(state, joint_step_limits, {&job, 1});
    alone.push_back(numbers(s, job));
    taken.push_back(!job.outcome.refused());
  }
  for (std::size_t count = 2; count <= solves.size(); ++count) {
    std::vector<detail::JointIsland::Job> jobs(count);
    const auto take = [&] { detail::JointIsland::solve_steps(state, joint_step_limits, jobs); };
    for (std::size_t i = 0; i < count; ++i) jobs[i] = solves[i].job();
    take();  // memory for rows that depend on others is made when there are some
    for (std::size_t i = 0; i < count; ++i) jobs[i] = solves[i].job();
    const AllocationCounter allocations;
    take();
    EXPECT_EQ(allocations.count(), 0u);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(!jobs[i].outcome.refused(), taken[i]);
      EXPECT_EQ(numbers(solves[i], jobs[i]), alone[i]);
    }
  }
  return taken;
}

}  // namespace linchpin::test
