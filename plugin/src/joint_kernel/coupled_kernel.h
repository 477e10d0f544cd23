// A step of one island that is coupled with rows of the host (JointIsland::factor and the functions after it).
#pragma once

#include "joint_kernel/impulse_response.h"
#include "joint_kernel/kernel.h"
#include "joint_kernel/kernel_data.h"
#include "math/simd.h"

#include <algorithm>
#include <cstddef>
#include <span>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

class CoupledKernel final : public CoupledStep {
 public:
  explicit CoupledKernel(const SymbolicFactor& pattern) : p_(pattern), kernel_(pattern), data_(kernel_.data()) {}

  JointIsland::Refusal factor(const State& state, const JointIslandData& island, double dt,
                              double gap_tolerance) override {
    data_.rows.read_island(0, island, state);
    for (auto* x : {&target_, &data_.newton, &springs_}) x->assign(data_.x.size(), 0.0);
    responses_.lay_out(p_);
    for (auto* x : {&data_.accelerations, &data_.free}) std::fill(x->begin(), x->end(), Twist{});  // no forces yet
    data_.evaluate_start(dt);
    if (!(data_.start.position_error <= gap_tolerance)) return JointIsland::Refusal::gap_at_start;
    const double margin = data_.schur.factor(p_, data_.rows, data_.compliance.gamma(), [](int) { return true; });
    return margin > 0 ? JointIsland::Refusal::none : SchurComplement<double>::why_not(margin);
  }

  double find_start_velocities(double dt, double tolerance, int max_solves, std::span<const double> applied,
                               std::span<const double> forces, std::span<double> v) override {
    data_.set_free(applied);
    std::fill(data_.total.begin(), data_.total.end(), 0.0);
    data_.twists = data_.free;
    if (!forces.empty()) {  // Newton begins with the multipliers that answer them
      data_.set_right_hand_side(forces);
      if (data_.schur.redundant()) data_.schur.least_norm(data_.x);
      data_.schur.solve(p_, data_.x);
      for (std::size_t r = 0; r < data_.x.size(); ++r) data_.total[r] = dt * data_.x[r];
      data_.rows.add_response(p_, data_.total, data_.free, data_.twists);
    }
    double worst = end_residual(dt);
    for (int solves = 0; solves < max_solves && worst > tolerance; ++solves) {
      for (double& x : data_.x) x *= -1 / dt;
      data_.schur.solve(p_, data_.x);
      for (std::size_t r = 0; r < data_.x.size(); ++r) data_.total[r] += data_.x[r];
      data_.rows.add_response(p_, data_.total, data_.free, data_.twists);
      worst = end_residual(dt);
    }
    data_.rows.rates(data_.twists, target_);
    springs_ = data_.total;
    data_.compliance.add_impulses(springs_, target_);
    if (p_.is_composite) lift_target();
    data_.write_velocities(0, v);
    return worst;
  }

  void find_linearized_start_velocities(double time, std::span<const double> applied, std::span<double> v) override {
    data_.set_free(applied);
    data_.twists = data_.free;
    for (std::size_t r = 0; r < target_.size(); ++r) target_[r] = 0.5 * time * data_.rows.biases[r];
    data_.compliance.write_rest_rates(target_);
    std::fill(springs_.begin(), springs_.end(), 0.0);
    if (p_.is_composite) lift_target();
    project_on_target();
    data_.write_velocities(0, v);
  }

  void project(std::span<double> v) override {
    for (std::size_t i = 0; i < data_.rows.moving; ++i) data_.twists[i] = Data::twist_of_lane(0, v, i);
    project_on_target();
    data_.write_velocities(0, v);
  }

  bool composite_body(JointIsland::CompositeMass& to) const override {
    if (!p_.is_composite) return false;
    const CompositeBody<double>& body = data_.schur.composite();
    const auto& I = body.inverse();
    get_lane(body.centre(), 0, to.centre.data());
    to.inverse_mass = body.inverse_mass();
    to.inverse_inertia << I.xx, I.xy, I.xz, I.xy, I.yy, I.yz, I.xz, I.yz, I.zz;
    return true;
  }

  void select_response_bodies(std::span<const int> bodies) override { responses_.select_bodies(p_, bodies); }
  void find_impulse_responses(std::span<const JointIsland::Impulse> impulses, double* to) override {
    responses_.apply(p_, data_.rows, data_.schur, impulses, to);
  }

  void solve_end_of_step(const JointIsland::Limits& limits, JointIsland::Job& job) override {
    data_.set_free(job.vectors.applied_impulse);
    data_.set_right_hand_side(job.vectors.Q);
    kernel_.read_gyroscopic(0, job.vectors);
    std::fill(data_.newton.begin(), data_.newton.end(), 0.0);
    LaneOutcomes<double> result = data_.start_result();
    kernel_.finish(limits, {&job, 1}, result);
    kernel_.write(0, result.of[0], job);
  }

 private:
  using Data = KernelData<double>;
  using Twist = Data::Twist;

  // x ← φ at the end of a step with `twists` and `total`, less what springs leave of it. @return the largest magnitude
  double end_residual(double dt) {
    const double worst = kernel_.end_residual().evaluate(data_.rows, dt, 0, data_.twists, data_.x);
    return data_.compliance.any() ? data_.compliance.complete_end_residual(data_.total, 0, data_.x) : worst;
  }

  // Welds reach the target by motions of their own, to which the motion of the whole is added.
  void lift_target() {
    lifted_.resize(data_.rows.moving);
    const auto* const twists = data_.schur.composite().lift(target_.data());
    for (std::size_t i = 0; i < data_.rows.moving; ++i) lifted_[i] = {twists[i].v, twists[i].w};
  }

  // twists ← the nearest, in the metric of the masses, whose rates are the target
  void project_on_target() {
    if (p_.is_composite) {
      const CompositeBody<double>& body = data_.schur.composite();
      const auto all = body.common(data_.twists.data());
      for (std::size_t i = 0; i < data_.rows.moving; ++i) {
        const auto own = body.at(i, all);
        data_.twists[i] = lifted_[i] + Twist{own.v, own.w};
      }
      return;
    }
    data_.rows.rates(data_.twists, data_.x);
    for (std::size_t r = 0; r < data_.x.size(); ++r) data_.x[r] = target_[r] - data_.x[r];
    data_.compliance.subtract_impulses(springs_, data_.x);
    data_.schur.solve(p_, data_.x);
    if (data_.compliance.any())
      for (std::size_t r = 0; r < data_.x.size(); ++r) springs_[r] += data_.x[r];
    data_.rows.add_response(p_, data_.x, data_.twists, data_.twists);
  }

  const SymbolicFactor& p_;
  JointKernel<double> kernel_;
  Data& data_;
  ImpulseResponse<double> responses_;
  Data::Vector target_;          // A v + γ p, by row, that rows of the host have to leave
  Data::Vector springs_;         // impulses p so far, by row; those of springs are read
  AlignedVector<Twist> lifted_;  // of welds, the motions that make them
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
