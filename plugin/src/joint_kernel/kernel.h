// The numbers of JointStep, for one block or for several alike side by side in the lanes of a vector (Real): the
// equation's answer at the start, and Newton from there to the end.
#pragma once

#include "joint_kernel/acceptance.h"
#include "joint_kernel/dispatch.h"
#include "joint_kernel/end_residual.h"
#include "joint_kernel/impulse_response.h"
#include "joint_kernel/rows.h"
#include "joint_kernel/schur_complement.h"
#include "joint_kernel/start_evaluation.h"
#include "math/anderson.h"
#include "math/simd.h"

#include <linchpin/detail/gyroscopic.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

template <class Real>
class JointKernel {
 public:
  using Rows = KernelRows<Real>;
  using Equation = SchurComplement<Real>;
  using Result = JointResult<Real>;
  static constexpr int lanes = SimdTraits<Real>::count;

  void lay_out(const SymbolicFactor& p) {
    rows_.lay_out(p);
    end_.lay_out(p);
    equation_.lay_out(p);
    judgement_.lay_out(p);
    anderson_.lay_out(z(p.rows));
    for (auto* x : {&free_, &accelerations_, &twists_}) x->assign(z(p.all_bodies), Twist{});
    for (auto* x : {&x_, &lambda_, &newton_, &total_}) x->assign(z(p.rows), Real{});
  }

  void take_block(int lane, const JointBlock& block, const State& state) { rows_.read_block(lane, block, state); }

  // Forces stand in the place of the twists that they make until step() has the masses.
  void take_forces(int lane, std::span<const double> Q, std::span<const double> applied) {
    for (std::size_t i = 0; i < rows_.moving; ++i) {
      set_lane(accelerations_[i].v, lane, Q.data() + 6 * i);
      set_lane(accelerations_[i].w, lane, Q.data() + 6 * i + 3);
      set_lane(free_[i].v, lane, applied.data() + 6 * i);
      set_lane(free_[i].w, lane, applied.data() + 6 * i + 3);
    }
  }

  // Bodies that the start is to add a gyroscopic torque of, before see().
  void take_spinning(int lane, std::span<const char> which) {
    spins_ = (lane > 0 && spins_) || !which.empty();
    for (std::size_t i = 0; i < rows_.moving; ++i) set_lane(rows_.gyroscopic[i], lane, !which.empty() && which[i]);
  }

  // Bodies that the end is to find the gyroscopic torque of.
  void take_turning(int lane, const JointStep::Numbers& of) {
    if (lane == 0) turning_.clear();
    for (const int slot : of.turning) turning_.push_back({.body = z(slot), .lane = lane, .h = of.turning_for});
  }

  void take_start(const SymbolicFactor& p, int lane, std::span<const double> newton) {
    for (std::size_t r = 0; r < newton_.size(); ++r) set_lane(newton_[r], lane, newton[z(p.row_of[r])]);
  }

  Result step(const SymbolicFactor& p, const JointStep::Limits& limits, std::span<const JointStep::Job> jobs) {
    see(spins_ ? limits.dt : 0);
    Result result = found();
    for (int lane = 0; lane < lanes; ++lane)
      if (!(get_lane(seen_.position_error, lane) <= limits.gap_tolerance)) result.refuse(lane, "a gap at the start");
    if (result.refused()) return result;
    const Real margin = equation_.factor(p, rows_, [&](int lane) { return !result.of[z(lane)].refused; });
    for (int lane = 0; lane < lanes; ++lane)
      if (!(get_lane(margin, lane) > 0)) result.refuse(lane, Equation::why_not(get_lane(margin, lane)));
    if (!result.refused()) finish(p, limits, jobs, result);
    return result;
  }

  // ---- one block in turns with a host's rows (JointStep::begin and what follows it) ----

  const char* begin(const SymbolicFactor& p, double gap_tolerance) {
    for (auto* x : {&target_, &newton_}) x->assign(z(p.rows), Real{});
    moves_.lay_out(p);
    for (auto* x : {&accelerations_, &free_}) std::fill(x->begin(), x->end(), Twist{});  // no forces so far
    see(0);
    if (!(seen_.position_error <= gap_tolerance)) return "a gap at the start";
    const Real margin = equation_.factor(p, rows_, [](int) { return true; });
    return margin > 0 ? nullptr : Equation::why_not(margin);
  }

  double reach(const SymbolicFactor& p, double dt, double tolerance, int most, std::span<const double> applied,
               std::span<const double> Q) {
    set_free(applied);
    std::fill(total_.begin(), total_.end(), Real{});
    twists_ = free_;
    if (!Q.empty()) {  // from what answers the forces
      ask(Q);
      if (equation_.redundant()) equation_.least_norm(x_);
      equation_.solve(p, x_);
      for (std::size_t r = 0; r < x_.size(); ++r) total_[r] = dt * x_[r];
      rows_.add_response(p, total_, free_, twists_);
    }
    Real worst = end_.evaluate(rows_, dt, Real{}, twists_, x_);
    for (int solves = 0; solves < most && worst > tolerance; ++solves) {
      for (Real& x : x_) x *= -1 / dt;
      equation_.solve(p, x_);
      for (std::size_t r = 0; r < x_.size(); ++r) total_[r] += x_[r];
      rows_.add_response(p, total_, free_, twists_);
      worst = end_.evaluate(rows_, dt, Real{}, twists_, x_);
    }
    rows_.rates(twists_, target_);
    if (p.is_composite) lift_target();
    return worst;
  }

  void keep(const SymbolicFactor& p, double time, std::span<const double> applied) {
    set_free(applied);
    twists_ = free_;
    for (std::size_t r = 0; r < target_.size(); ++r) target_[r] = 0.5 * time * rows_.biases[r];
    if (p.is_composite) lift_target();
    approach_target(p);
  }

  void hold(const SymbolicFactor& p, std::span<const double> v) {
    for (std::size_t i = 0; i < rows_.moving; ++i) twists_[i] = twist_from(v, i);
    approach_target(p);
  }

  void aim(const SymbolicFactor& p, std::span<const int> bodies) { moves_.aim(p, bodies); }
  void move(const SymbolicFactor& p, std::span<const JointStep::Push> pushes, double* to) {
    moves_.move(p, rows_, equation_, pushes, to);
  }

  bool as_one(JointStep::One& to) const {
    const auto& I = equation_.composite().inverse();
    get_lane(equation_.composite().centre(), 0, to.centre.data());
    to.inverse_mass = equation_.composite().inverse_mass();
    to.inverse_inertia << I.xx, I.xy, I.xz, I.xy, I.yy, I.yz, I.xz, I.yz, I.zz;
    return true;
  }

  Result end(const SymbolicFactor& p, const JointStep::Limits& limits, std::span<const JointStep::Job> job) {
    set_free(job[0].numbers.applied);
    ask(job[0].numbers.Q);
    take_turning(0, job[0].numbers);
    std::fill(newton_.begin(), newton_.end(), Real{});
    Result result = found();
    finish(p, limits, job, result);
    return result;
  }

  void give_velocities(int lane, std::span<double> v) const {
    for (std::size_t i = 0; i < rows_.moving; ++i) {
      get_lane(twists_[i].v, lane, v.data() + 6 * i);
      get_lane(twists_[i].w, lane, v.data() + 6 * i + 3);
    }
  }

  void give(const SymbolicFactor& p, int lane, const JointStep::Outcome& outcome, JointStep::Job& job) const {
    const JointStep::Numbers& to = job.numbers;
    job.outcome = outcome;
    for (std::size_t r = 0; r < to.start.size() && outcome.answered; ++r)
      to.start[z(p.row_of[r])] = get_lane(lambda_[r], lane);
    if (outcome.refused) return;
    give_velocities(lane, to.v);
    for (std::size_t r = 0; r < lambda_.size(); ++r) {
      const std::size_t row = z(p.row_of[r]);
      to.newton[row] = get_lane(newton_[r], lane);
      to.total[row] = get_lane(total_[r], lane);
      to.mean[row] = get_lane(x_[r], lane);
    }
    if (!to.pull.empty()) give_pull(p, lane, to.pull);
  }

 private:
  using V = Vector3<Real>;
  using Twist = typename Rows::Twist;

  static std::size_t z(int i) { return static_cast<std::size_t>(i); }

  void give_pull(const SymbolicFactor& p, int lane, std::span<double> to) const {
    for (std::size_t i = 0; i < p.nodes.size(); ++i) {
      const SymbolicFactor::Node& node = p.nodes[i];
      Twist on_a{}, on_b{};
      for_each_primitive([&]<class P>(P) {
        for_each_of<P>(node.primitives, [&](std::size_t k) {
          const auto& row = rows_.rows.template of<P>()[k];
          P::add_constraint_force(row, total_.data() + row.row, 0, on_a);
          P::add_constraint_force(row, total_.data() + row.row, 1, on_b);
        });
      });
      double* const at = to.data() + 12 * z(p.joint_of[i]);
      get_lane(on_a.v, lane, at);
      get_lane(on_a.w, lane, at + 3);
      get_lane(-on_a.v, lane, at + 6);
      get_lane(on_b.w, lane, at + 9);
    }
  }

  void see(double spin_for) { seen_ = StartEvaluation<Real>::evaluate(rows_, free_, accelerations_, x_, spin_for); }
  Result found() const {
    Result result;
    for (int lane = 0; lane < lanes; ++lane) {
      JointStep::Outcome& out = result.of[z(lane)];
      out.off = get_lane(seen_.velocity_error, lane);
      out.fastest = get_lane(seen_.fastest, lane);
      out.kinetic = get_lane(seen_.kinetic, lane);
    }
    return result;
  }

  // From the factor on; x_ is what the forces leave of the bias.
  void finish(const SymbolicFactor& p, const JointStep::Limits& limits, std::span<const JointStep::Job> jobs,
              Result& result) {
    answer(p, result);
    for (JointStep::Outcome& out : result.of) out.answered = !out.refused;
    if (result.refused()) return;
    activate(p, jobs, result);
    close(p, limits, result);
    if (result.refused()) return;
    if (equation_.redundant()) {
      equation_.least_norm(total_);
      for (int lane = 0; lane < lanes; ++lane)
        if (equation_.redundant(lane))
          for (std::size_t r = 0; r < total_.size(); ++r)
            set_lane(newton_[r], lane, get_lane(total_[r], lane) - limits.dt * get_lane(lambda_[r], lane));
    }
    judgement_.judge(rows_, limits, twists_, total_, x_, result);
  }

  Twist twist_from(std::span<const double> x, std::size_t i) const {
    Twist u;
    set_lane(u.v, 0, x.data() + 6 * i);
    set_lane(u.w, 0, x.data() + 6 * i + 3);
    return u;
  }

  // free_ ← the velocities at the start and what impulses make of them
  void set_free(std::span<const double> applied) {
    for (std::size_t i = 0; i < rows_.moving; ++i) {
      free_[i] = rows_.start[i] + rows_.inverse_masses[i] * (twist_from(applied, i));
    }
  }

  void lift_target() {
    lifted_.resize(rows_.moving);
    const auto* const twists = equation_.composite().lift(target_.data());
    for (std::size_t i = 0; i < rows_.moving; ++i) lifted_[i] = {twists[i].v, twists[i].w};
  }

  // x_ ← what forces leave of the bias, as see() has it of those that it knows
  void ask(std::span<const double> Q) {
    for (std::size_t i = 0; i < rows_.moving; ++i)
      twists_[i] = accelerations_[i] = rows_.inverse_masses[i] * (twist_from(Q, i));
    rows_.rates(twists_, x_);
    seen_.size = Real{};
    for (std::size_t r = 0; r < x_.size(); ++r) {
      seen_.size = maximum(seen_.size, maximum(absolute(rows_.biases[r]), absolute(x_[r])));
      x_[r] = rows_.biases[r] - x_[r];
    }
  }

  // twists_ ← the nearest, in the metric of the masses, whose rates are the target
  void approach_target(const SymbolicFactor& p) {
    if (p.is_composite) {
      const auto all = equation_.composite().common(twists_.data());
      for (std::size_t i = 0; i < rows_.moving; ++i) {
        const auto own = equation_.composite().at(i, all);
        twists_[i] = lifted_[i] + Twist{own.v, own.w};
      }
      return;
    }
    rows_.rates(twists_, x_);
    for (std::size_t r = 0; r < x_.size(); ++r) x_[r] = target_[r] - x_[r];
    equation_.solve(p, x_);
    rows_.add_response(p, x_, twists_, twists_);
  }

  // What rows that depend on each other ask for need not agree: velocities a step begins with are off the constraints
  // by O(dt), and so are accelerations at them. As far as it does not they are met in the least squares (T6).
  // @return what they agree on in place of the biases, which stay for those that ask again in turns
  const AlignedVector<Real>& consent() {
    rest_ = x_;
    equation_.least_norm(rest_);
    agreed_.resize(x_.size());
    for (std::size_t r = 0; r < x_.size(); ++r) agreed_[r] = rows_.biases[r] - (x_[r] - rest_[r]);
    std::swap(x_, rest_);
    return agreed_;
  }

  // x_ ← what λ leaves of the biases, with what it does in accelerations_. @return the largest, NaN where one is
  Real leave(const SymbolicFactor& p, const AlignedVector<Real>& biases) {
    rows_.add_response(p, lambda_, accelerations_, twists_);
    Real worst{}, probe{};
    rows_.for_each_row([&]<class P>(P, const typename Rows::template Row<P>& k) {
      const auto e = load_rows<P>(biases, k.row) - Rows::rate(k, twists_);
      worst = maximum(worst, max_abs(e));
      probe += 0 * sum(e);
      store_rows(x_, k.row, e);
    });
    return worst + probe;
  }

  // The equation (T5), its residual looked at and, where it is more than rounding, taken out once.
  void answer(const SymbolicFactor& p, Result& result) {
    constexpr double rounding = 1e-7, smooth = 1e-13;
    const AlignedVector<Real>& biases = equation_.redundant() ? consent() : rows_.biases;
    equation_.solve(p, x_);
    std::swap(lambda_, x_);
    // Before they are looked at: what a null vector is wrong by is part of the residual, and taken out with it.
    if (equation_.redundant()) equation_.least_norm(lambda_);
    Real worst = leave(p, biases);
    // Gaps of single precision let welds be one body, and rows depend on each other, to seven digits only.
    Real rough{};
    bool any = false;
    for (int lane = 0; lane < lanes; ++lane) {
      if (get_lane(worst, lane) <= rounding * get_lane(seen_.size, lane) ||
          !(p.is_composite || equation_.redundant(lane)))
        continue;
      set_lane(rough, lane, 1);
      any = true;
    }
    if (any) {
      equation_.solve(p, x_);
      if (equation_.redundant()) equation_.least_norm(x_);
      for (std::size_t r = 0; r < x_.size(); ++r) lambda_[r] += rough * x_[r];
      worst = leave(p, biases);
    }
    for (int lane = 0; lane < lanes; ++lane)
      if (!(get_lane(worst, lane) <= rounding * get_lane(seen_.size, lane)))
        result.refuse(lane, "the equation's residual");
    if (result.refused()) return;
    rough = Real{};
    any = false;
    for (int lane = 0; lane < lanes; ++lane) {
      if (result.of[z(lane)].refused || get_lane(worst, lane) <= smooth * get_lane(seen_.size, lane)) continue;
      set_lane(rough, lane, 1);
      any = true;
    }
    if (!any) return;
    equation_.solve(p, x_);
    for (std::size_t r = 0; r < x_.size(); ++r) lambda_[r] += rough * x_[r];
  }

  // Of a step that begins further off the velocity constraints than steps do.
  void activate(const SymbolicFactor& p, std::span<const JointStep::Job> jobs, Result& result) {
    constexpr double rounding = 1e-13;
    const auto jumps = [&](std::size_t i) {
      const JointStep::Outcome& out = result.of[i];
      return !out.refused && out.off > 2 * jobs[i].usual_off && out.off > rounding * out.fastest;
    };
    bool any = false;
    for (std::size_t i = 0; i < jobs.size(); ++i) any = any || jumps(i);
    if (!any) return;
    x_ = rows_.velocities;
    if (equation_.redundant()) equation_.least_norm(x_);
    equation_.solve(p, x_);
    Real energy{};
    for (std::size_t r = 0; r < x_.size(); ++r) energy += 0.5 * (x_[r] * rows_.velocities[r]);
    for (std::size_t i = 0; i < jobs.size(); ++i)
      if (jumps(i)) result.of[i].activation = get_lane(energy, static_cast<int>(i));
  }

  // Newton from newton_ to the step's end on the constraints (T12), by the factor at its start.
  void close(const SymbolicFactor& p, const JointStep::Limits& limits, Result& result) {
    constexpr double round_off = 1e-12;
    const double dt = limits.dt;
    Real left{};
    for (int lane = 0; lane < lanes; ++lane)
      if (get_lane(seen_.position_error, lane) > round_off) set_lane(left, lane, limits.left_open);
    for (std::size_t r = 0; r < lambda_.size(); ++r) total_[r] = dt * lambda_[r] + newton_[r];
    Real going = SimdTraits<Real>::all(1), best = SimdTraits<Real>::all(std::numeric_limits<double>::max());
    for (int lane = 0; lane < lanes; ++lane)
      if (result.of[z(lane)].refused) set_lane(going, lane, 0);
    constexpr int most_stalls = 3;
    constexpr double coarse = 1e-11, most_disagreement = 10;  // of what Newton is to leave, and of that
    std::array<int, std::size_t{lanes}> stalled{};
    Real turns{};  // one in lanes where chords leave more than a tenth
    anderson_.begin();
    begin_turning();
    for (int solves = 0;; ++solves) {
      rows_.add_response(p, total_, free_, twists_);
      turn();
      const Real worst = end_.evaluate(rows_, dt, left, twists_, x_);
      bool any = false, stalls = false;
      for (int lane = 0; lane < lanes; ++lane) {
        if (get_lane(going, lane) == 0) continue;
        const double now = get_lane(worst, lane);
        result.of[z(lane)].residual = now;
        // Poses far out are no better than their own rounding.
        if (now <= std::max(limits.newton_tolerance,
                            4 * std::numeric_limits<double>::epsilon() * get_lane(seen_.extent, lane))) {
          set_lane(going, lane, 0);
          result.of[z(lane)].solves = solves;
        } else if (!(now < std::numeric_limits<double>::infinity()) || solves == limits.max_solves) {
          set_lane(going, lane, 0);
          result.refuse(lane, "Newton does not end");
        } else {
          if (solves > 0 && now > 0.1 * get_lane(best, lane)) set_lane(turns, lane, 1);
          stalls = stalls || now > 0.5 * get_lane(best, lane);
          any = true;
        }
      }
      if (!any) return;
      if (stalls) {
        const Real beyond = EndResidual<Real>::over_rounding(rows_, x_);
        for (int lane = 0; lane < lanes; ++lane) {
          if (get_lane(going, lane) == 0 || !(get_lane(worst, lane) > 0.5 * get_lane(best, lane))) continue;
          const bool rounding = get_lane(beyond, lane) <= 1;
          if (!rounding && ++stalled[z(lane)] < most_stalls && get_lane(worst, lane) < 10 * get_lane(best, lane))
            continue;
          set_lane(going, lane, 0);
          result.of[z(lane)].solves = solves;
          // Poses of single precision let rows depend on each other to seven digits; what they come to disagree in by
          // the end no multiplier takes away. Where Newton is to end at rounding a shorter step does.
          const bool disagree = limits.newton_tolerance >= coarse && equation_.redundant(lane) &&
                                get_lane(worst, lane) <= most_disagreement * limits.newton_tolerance;
          if (!rounding && !disagree) result.refuse(lane, "Newton does not contract");
        }
      }
      best = minimum(best, worst);
      const Real scale = (-1 / dt) * going;
      for (Real& x : x_) x *= scale;
      anderson_.reduce(x_, turns);
      equation_.solve(p, x_);
      const AlignedVector<Real>& step = anderson_.lengthen(x_);
      for (std::size_t r = 0; r < step.size(); ++r) {
        newton_[r] += step[r];
        total_[r] += step[r];
      }
    }
  }

  void begin_turning() {
    for (Turning& t : turning_) {
      const Rotation3<Real>& R = rows_.rotations[t.body];
      get_lane(rows_.bodies[t.body].inertia, t.lane, t.I.data());
      get_lane(rows_.start[t.body].w, t.lane, t.w0.data());
      double* const to = t.R.data();  // by columns
      for (int i = 0; i < 3; ++i) {
        const V& row = i == 0 ? R.x : i == 1 ? R.y : R.z;
        to[i] = get_lane(row.x, t.lane), to[i + 3] = get_lane(row.y, t.lane), to[i + 6] = get_lane(row.z, t.lane);
      }
    }
  }

  // In twists_, what their own spin does to bodies that turn far.
  void turn() {
    for (Turning& t : turning_) {
      V& w = twists_[t.body].w;
      get_lane(w, t.lane, t.w.data());
      t.turn();
      set_lane(w, t.lane, t.w.data());
    }
  }

  KernelRows<Real> rows_;
  EndResidual<Real> end_;
  SchurComplement<Real> equation_;
  StepAcceptance<Real> judgement_;
  AndersonAcceleration<Real> anderson_;
  ImpulseResponse<Real> moves_;  // of one block in turns
  StartSummary<Real> seen_;
  AlignedVector<Twist> free_, accelerations_;  // without the joints, at the end and at the start
  AlignedVector<Twist> twists_;                // of the bodies, with them
  AlignedVector<Real> x_, lambda_, newton_, total_, rest_, agreed_;
  AlignedVector<Real> target_;    // rates of the rows that a host's own are to leave
  AlignedVector<Twist> lifted_;   // of welds, the twists of those
  std::vector<Turning> turning_;  // by lane
  bool spins_ = false;            // some body of some lane
};

template <class Real>
class JointLanes final : public JointWork {
 public:
  explicit JointLanes(const SymbolicFactor& pattern) : pattern_(pattern) { kernel_.lay_out(pattern); }

  void take(const State& state, const JointStep::Limits& limits, std::span<JointStep::Job> jobs) override {
    for (int lane = 0; lane < JointKernel<Real>::lanes; ++lane) {  // lanes without a job of their own have the first's
      const JointStep::Job& job =
          jobs[static_cast<std::size_t>(lane) < jobs.size() ? static_cast<std::size_t>(lane) : 0];
      kernel_.take_block(lane, job.of->block(), state);
      kernel_.take_forces(lane, job.numbers.Q, job.numbers.applied);
      kernel_.take_turning(lane, job.numbers);
      kernel_.take_spinning(lane, job.numbers.spinning);
      kernel_.take_start(pattern_, lane, job.numbers.newton);
    }
    const auto result = kernel_.step(pattern_, limits, jobs);
    for (std::size_t i = 0; i < jobs.size(); ++i) kernel_.give(pattern_, static_cast<int>(i), result.of[i], jobs[i]);
  }

 private:
  const SymbolicFactor& pattern_;
  JointKernel<Real> kernel_;
};

class SingleCoupledStep final : public CoupledStep {
 public:
  explicit SingleCoupledStep(const SymbolicFactor& pattern) : pattern_(pattern) { kernel_.lay_out(pattern); }

  const char* begin(const State& state, const JointBlock& block, double gap_tolerance) override {
    kernel_.take_block(0, block, state);
    return kernel_.begin(pattern_, gap_tolerance);
  }
  double reach(double dt, double tolerance, int most_solves, std::span<const double> applied, std::span<const double> Q,
               std::span<double> v) override {
    const double left = kernel_.reach(pattern_, dt, tolerance, most_solves, applied, Q);
    kernel_.give_velocities(0, v);
    return left;
  }
  void keep(double time, std::span<const double> applied, std::span<double> v) override {
    kernel_.keep(pattern_, time, applied);
    kernel_.give_velocities(0, v);
  }
  void hold(std::span<double> v) override {
    kernel_.hold(pattern_, v);
    kernel_.give_velocities(0, v);
  }
  bool as_one(JointStep::One& to) const override { return pattern_.is_composite && kernel_.as_one(to); }
  void aim(std::span<const int> bodies) override { kernel_.aim(pattern_, bodies); }
  void move(std::span<const JointStep::Push> pushes, double* to) override { kernel_.move(pattern_, pushes, to); }
  void end(const JointStep::Limits& limits, JointStep::Job& job) override {
    kernel_.give(pattern_, 0, kernel_.end(pattern_, limits, {&job, 1}).of[0], job);
  }

 private:
  const SymbolicFactor& pattern_;
  JointKernel<double> kernel_;
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
