// Newton to the end of a step on the constraints (T12), by the factor at its start, of all lanes side by side. A lane
// that has arrived, or is refused, takes no more steps.
//
// It is a loop of its own beside projection/end_of_step_newton.h. Each lane decides for itself. It accelerates whenever
// a chord contracts slowly, and it refuses where the other loop seeks least squares. A common loop would take other
// steps than either, and results would change by more than rounding.
#pragma once

#include "joint_kernel/end_residual.h"
#include "joint_kernel/kernel_data.h"
#include "joint_kernel/tuning.h"
#include "math/anderson.h"
#include "math/fast_rotation.h"
#include "math/simd.h"
#include "math/tuning.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <vector>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

template <class Real>
class EndNewton {
 public:
  using Data = KernelData<Real>;
  static constexpr int lanes = Data::lanes;

  void lay_out(const SymbolicFactor& p) {
    residual_.lay_out(p);
    anderson_.lay_out(static_cast<std::size_t>(p.rows));
  }

  EndResidual<Real>& residual() { return residual_; }

  /// Reads the bodies that turn so far that the end has to find their gyroscopic torque, lane after lane from 0.
  void read_fast_rotations(int lane, const JointIsland::Vectors& of) {
    if (lane == 0) fast_rotations_.clear();
    for (const int slot : of.fast_rotations)
      fast_rotations_.push_back({.body = static_cast<std::size_t>(slot), .lane = lane, .h = of.fast_rotation_time});
  }

  /// Starts from `data.newton`, and leaves the impulses in `newton` and `total`, and the velocities in `twists`.
  void solve(const SymbolicFactor& p, const JointIsland::Limits& limits, Data& data, LaneOutcomes<Real>& result) {
    begin(limits, data, result);
    for (int solves = 0;; ++solves) {
      data.rows.add_response(p, data.total, data.free, data.twists);
      add_gyroscopic_torques(data);
      worst_ = residual_.evaluate(data.rows, limits.dt, target_, data.twists, data.x);
      if (!check_lanes(limits, data, solves, result)) return;
      best_ = minimum(best_, worst_);
      take_chord_step(p, limits.dt, data);
    }
  }

 private:
  void begin(const JointIsland::Limits& limits, Data& data, const LaneOutcomes<Real>& result) {
    target_ = Real{};
    going_ = SimdTraits<Real>::all(1);
    best_ = SimdTraits<Real>::all(std::numeric_limits<double>::max());
    accelerates_ = Real{};
    stalls_.fill(0);
    for (int lane = 0; lane < lanes; ++lane) {
      if (get_lane(data.start.position_error, lane) > tuning::start_gap_rounding)
        set_lane(target_, lane, limits.residual_share);
      if (result.refused(lane)) set_lane(going_, lane, 0);
    }
    for (std::size_t r = 0; r < data.total.size(); ++r) data.total[r] = limits.dt * data.lambda[r] + data.newton[r];
    anderson_.begin();
    begin_fast_rotations(data);
  }

  // @return whether a lane goes on
  bool check_lanes(const JointIsland::Limits& limits, const Data& data, int solves, LaneOutcomes<Real>& result) {
    bool any = false, stalls = false;
    for (int lane = 0; lane < lanes; ++lane) {
      if (get_lane(going_, lane) == 0) continue;
      const double now = get_lane(worst_, lane);
      JointIsland::Outcome& out = result.of[Data::z(lane)];
      out.residual = now;
      // Poses far from the origin are no better than their own rounding.
      const double rounding = tuning::pose_rounding * get_lane(data.start.extent, lane);
      if (now <= std::max(limits.newton_tolerance, rounding)) {
        set_lane(going_, lane, 0);
        out.newton_solves = solves;
      } else if (!(now < std::numeric_limits<double>::infinity()) || solves == limits.max_solves) {
        set_lane(going_, lane, 0);
        result.refuse(lane, JointIsland::Refusal::newton_unfinished);
      } else {
        if (solves > 0 && now > tuning::slow_contraction * get_lane(best_, lane)) set_lane(accelerates_, lane, 1);
        stalls = stalls || now > tuning::stalled_contraction * get_lane(best_, lane);
        any = true;
      }
    }
    if (stalls) check_stalls(limits, data, solves, result);
    return any;
  }

  void check_stalls(const JointIsland::Limits& limits, const Data& data, int solves, LaneOutcomes<Real>& result) {
    const Real over_rounding = EndResidual<Real>::over_rounding(data.rows, data.x);
    for (int lane = 0; lane < lanes; ++lane) {
      const double now = get_lane(worst_, lane), best = get_lane(best_, lane);
      if (get_lane(going_, lane) == 0 || !(now > tuning::stalled_contraction * best)) continue;
      const bool rounding = get_lane(over_rounding, lane) <= 1;
      if (!rounding && ++stalls_[Data::z(lane)] < tuning::max_stalls && now < tuning::max_growth * best) continue;
      set_lane(going_, lane, 0);
      result.of[Data::z(lane)].newton_solves = solves;
      // Poses of single precision let rows depend on each other to seven digits. By what they disagree in at the end no
      // multiplier can help. Where Newton is to end at rounding, a shorter step can.
      const bool disagree = limits.newton_tolerance >= tuning::coarse_tolerance && data.schur.redundant(lane) &&
                            now <= tuning::max_disagreement * limits.newton_tolerance;
      if (!rounding && !disagree) result.refuse(lane, JointIsland::Refusal::newton_stalled);
    }
  }

  void take_chord_step(const SymbolicFactor& p, double dt, Data& data) {
    const Real scale = (-1 / dt) * going_;
    for (Real& e : data.x) e *= scale;
    anderson_.reduce(data.x, accelerates_);
    data.schur.solve(p, data.x);
    const auto& step = anderson_.lengthen(data.x);
    for (std::size_t r = 0; r < step.size(); ++r) {
      data.newton[r] += step[r];
      data.total[r] += step[r];
    }
  }

  void begin_fast_rotations(const Data& data) {
    for (FastRotatingBody& body : fast_rotations_) {
      const Rotation3<Real>& R = data.rows.rotations[body.body];
      get_lane(data.rows.bodies[body.body].inertia, body.lane, body.I.data());
      get_lane(data.rows.start[body.body].w, body.lane, body.w0.data());
      double* const to = body.R.data();  // by columns
      for (int i = 0; i < 3; ++i) {
        const Vector3<Real>& row = i == 0 ? R.x : i == 1 ? R.y : R.z;
        to[i] = get_lane(row.x, body.lane), to[i + 3] = get_lane(row.y, body.lane);
        to[i + 6] = get_lane(row.z, body.lane);
      }
    }
  }
  // The gyroscopic torque of the mean velocities changes the angular velocities of the twists.
  void add_gyroscopic_torques(Data& data) {
    for (FastRotatingBody& body : fast_rotations_) {
      Vector3<Real>& w = data.twists[body.body].w;
      get_lane(w, body.lane, body.w.data());
      body.add_gyroscopic_torque();
      set_lane(w, body.lane, body.w.data());
    }
  }

  EndResidual<Real> residual_;
  AndersonAcceleration<Real> anderson_;
  std::vector<FastRotatingBody> fast_rotations_;  // by lane
  Real target_{};                                 // share of φ at the start that φ at the end is to have
  Real going_{}, accelerates_{};                  // by lane, 1 or 0
  Real worst_{}, best_{};                         // |φ| now, and the smallest so far
  std::array<int, std::size_t{lanes}> stalls_{};
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
