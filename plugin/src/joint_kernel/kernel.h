// The fast step of islands of stock joints, for one island or for several of one topology side by side in the lanes of
// Real: the equation at the start (T5), Newton from there to the end (T12), and the test whether the step is accepted
// (T15).
#pragma once

#include "joint_kernel/acceptance.h"
#include "joint_kernel/dispatch.h"
#include "joint_kernel/end_newton.h"
#include "joint_kernel/kernel_data.h"
#include "joint_kernel/start_multipliers.h"
#include "math/simd.h"
#include "model/primitives/list.h"

#include <array>
#include <cstddef>
#include <span>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

template <class Real>
class JointKernel {
 public:
  static constexpr int lanes = SimdTraits<Real>::count;
  using Data = KernelData<Real>;
  using Result = LaneOutcomes<Real>;

  explicit JointKernel(const SymbolicFactor& pattern) : p_(pattern) {
    data_.lay_out(p_);
    end_newton_.lay_out(p_);
    acceptance_.lay_out(p_);
  }

  Data& data() { return data_; }
  EndResidual<Real>& end_residual() { return end_newton_.residual(); }

  /// Reads an island into a lane. Lane 0 comes first.
  void read(int lane, const State& state, const JointIsland::Job& job) {
    const JointIsland::Vectors& of = job.vectors;
    data_.rows.read_island(lane, job.island->data(), state);
    for (std::size_t i = 0; i < data_.rows.moving; ++i) {
      read_twist(lane, of.Q, i, data_.accelerations[i]);
      read_twist(lane, of.applied_impulse, i, data_.free[i]);
    }
    read_gyroscopic(lane, of);
    for (std::size_t r = 0; r < data_.newton.size(); ++r)
      set_lane(data_.newton[r], lane, is_exact(r, of) ? of.newton_impulses[row_of(r)] : 0);
  }
  void read_gyroscopic(int lane, const JointIsland::Vectors& of) { end_newton_.read_gyroscopic(lane, of); }

  Result step(const JointIsland::Limits& limits, std::span<const JointIsland::Job> jobs) {
    data_.evaluate_start(limits.dt);
    Result result = data_.start_result();
    for (int lane = 0; lane < lanes; ++lane)
      if (!(get_lane(data_.start.position_error, lane) <= limits.gap_tolerance))
        result.refuse(lane, JointIsland::Refusal::gap_at_start);
    if (result.refused()) return result;
    const Real margin =
        data_.schur.factor(p_, data_.rows, data_.compliance.gamma(), [&](int lane) { return !result.refused(lane); });
    for (int lane = 0; lane < lanes; ++lane)
      if (!(get_lane(margin, lane) > 0)) result.refuse(lane, SchurComplement<Real>::why_not(get_lane(margin, lane)));
    if (!result.refused()) finish(limits, jobs, result);
    return result;
  }

  /// From the factor on. x is what the forces leave of the biases.
  void finish(const JointIsland::Limits& limits, std::span<const JointIsland::Job> jobs, Result& result) {
    multipliers_.solve(p_, data_, result);
    for (JointIsland::Outcome& out : result.of) out.has_start_multipliers = !out.refused();
    if (result.refused()) return;
    multipliers_.measure_activation(p_, data_, jobs, result);
    end_newton_.solve(p_, limits, data_, result);
    if (result.refused()) return;
    make_least_norm(limits.dt);
    acceptance_.check(data_.rows, data_.compliance, limits, data_.twists, data_.total, data_.x, result);
  }

  /// Writes what was found of a lane.
  void write(int lane, const JointIsland::Outcome& outcome, JointIsland::Job& job) const {
    const JointIsland::Vectors& to = job.vectors;
    job.outcome = outcome;
    if (!to.start_multipliers.empty() && outcome.has_start_multipliers)
      for (std::size_t r = 0; r < data_.lambda.size(); ++r)
        if (is_exact(r, to)) to.start_multipliers[row_of(r)] = get_lane(data_.lambda[r], lane);
    if (outcome.refused()) return;
    data_.write_velocities(lane, to.v);
    for (std::size_t r = 0; r < data_.lambda.size(); ++r) {
      if (!is_exact(r, to)) continue;
      to.newton_impulses[row_of(r)] = get_lane(data_.newton[r], lane);
      to.total_impulses[row_of(r)] = get_lane(data_.total[r], lane);
      to.mean_row_velocities[row_of(r)] = get_lane(data_.x[r], lane);
    }
    if (data_.compliance.any()) write_springs(lane, to.springs);
    if (!to.constraint_impulses.empty()) write_constraint_impulses(lane, to.constraint_impulses);
  }

 private:
  using Twist = typename Data::Twist;

  // Returns whether a row is one of the Block, and not a spring.
  bool is_exact(std::size_t r, const JointIsland::Vectors& of) const { return row_of(r) < of.total_impulses.size(); }
  std::size_t row_of(std::size_t r) const { return static_cast<std::size_t>(p_.row_of[r]); }
  // Forces and impulses stand in the place of the twists that they make until the masses are known.
  static void read_twist(int lane, std::span<const double> from, std::size_t body, Twist& to) {
    set_lane(to.v, lane, from.data() + 6 * body);
    set_lane(to.w, lane, from.data() + 6 * body + 3);
  }

  // Redundant rows: the impulses of least norm of all that do the same (T6).
  void make_least_norm(double dt) {
    if (!data_.schur.redundant()) return;
    data_.schur.least_norm(data_.total);
    for (int lane = 0; lane < lanes; ++lane)
      if (data_.schur.redundant(lane))
        for (std::size_t r = 0; r < data_.total.size(); ++r)
          set_lane(data_.newton[r], lane, get_lane(data_.total[r], lane) - dt * get_lane(data_.lambda[r], lane));
  }

  void write_springs(int lane, std::span<JointIsland::SpringImpulse> to) const {
    for (std::size_t i = 0; i < to.size(); ++i) {
      const std::size_t r = static_cast<std::size_t>(p_.compliant[i].row);
      to[i].impulse = get_lane(data_.total[r], lane);
      to[i].work = to[i].impulse * get_lane(data_.x[r], lane);
    }
    for_each_primitive([&]<class P>(P) {
      for (const auto& k : data_.rows.rows.template of<P>())
        for (int row = 0; row < P::rows; ++row) {
          const std::size_t of = row_of(Data::z(k.row + row));
          const std::size_t first = static_cast<std::size_t>(p_.rows) - to.size();
          if (of < first) continue;
          std::array<Real, std::size_t{P::rows}> lambda{};
          lambda[Data::z(row)] = data_.total[Data::z(k.row + row)];
          for (const int side : {0, 1}) {
            Twist on{};
            P::add_constraint_force(k, lambda.data(), side, on);
            double* const at = to[of - first].on[Data::z(side)].data();
            get_lane(on.v, lane, at);
            get_lane(on.w, lane, at + 3);
          }
        }
    });
  }

  // By joint, [force, moment] on the first body and on the second.
  void write_constraint_impulses(int lane, std::span<double> to) const {
    for (std::size_t i = 0; i < p_.nodes.size(); ++i) {
      Twist on_a{}, on_b{};
      for_each_primitive([&]<class P>(P) {
        for_each_of<P>(p_.nodes[i].primitives, [&](std::size_t k) {
          const auto& row = data_.rows.rows.template of<P>()[k];
          P::add_constraint_force(row, data_.total.data() + row.row, 0, on_a);
          P::add_constraint_force(row, data_.total.data() + row.row, 1, on_b);
        });
      });
      double* const at = to.data() + 12 * static_cast<std::size_t>(p_.joint_of[i]);
      get_lane(on_a.v, lane, at);
      get_lane(on_a.w, lane, at + 3);
      get_lane(-on_a.v, lane, at + 6);
      get_lane(on_b.w, lane, at + 9);
    }
  }

  const SymbolicFactor& p_;
  Data data_;
  StartMultipliers<Real> multipliers_;
  EndNewton<Real> end_newton_;
  StepAcceptance<Real> acceptance_;
};

/// Takes the steps of one island, or of up to four.
template <class Real>
class SimdJointSolver final : public JointSolver {
 public:
  explicit SimdJointSolver(const SymbolicFactor& pattern) : kernel_(pattern) {}

  void solve(const State& state, const JointIsland::Limits& limits, std::span<JointIsland::Job> jobs) override {
    for (int lane = 0; lane < kernel_.lanes; ++lane)  // lanes without a job of their own have the first's
      kernel_.read(lane, state,
                   jobs[static_cast<std::size_t>(lane) < jobs.size() ? static_cast<std::size_t>(lane) : 0]);
    const auto result = kernel_.step(limits, jobs);
    for (std::size_t i = 0; i < jobs.size(); ++i) kernel_.write(static_cast<int>(i), result.of[i], jobs[i]);
  }

 private:
  JointKernel<Real> kernel_;
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
