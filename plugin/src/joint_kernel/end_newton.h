// Newton to the end of a step on the constraints (T12), by the factor at its start, of all lanes side by side. A lane
// that has arrived, or is refused, takes no more steps.
//
// It is a loop of its own beside projection/end_of_step_newton.h. Each lane decides for itself. It accelerates whenever
// a chord contracts slowly, and it refuses where the other loop seeks least squares. A common loop would take other
// steps than either, and results would change by more than rounding.
#pragma once

#include "joint_kernel/end_residual.h"
#include "joint_kernel/gather.h"
#include "joint_kernel/kernel_data.h"
#include "joint_kernel/tuning.h"
#include "math/anderson.h"
#include "math/gyroscopic_newton.h"
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
    gyroscopic_.assign(static_cast<std::size_t>(p.bodies), Gyroscopic{});
    gyroscopic_bodies_.reserve(gyroscopic_.size());
  }

  EndResidual<Real>& residual() { return residual_; }

  /// Reads the bodies that have a gyroscopic torque, lane after lane from 0.
  void read_gyroscopic(int lane, const JointIsland::Vectors& of) {
    if (lane == 0) {
      for (const std::size_t body : gyroscopic_bodies_) gyroscopic_[body].h = Real{};
      gyroscopic_bodies_.clear();
    }
    for (const int slot : of.gyroscopic) {
      const std::size_t body = static_cast<std::size_t>(slot);
      if (!any_positive(gyroscopic_[body].h)) gyroscopic_bodies_.push_back(body);
      set_lane(gyroscopic_[body].h, lane, of.gyroscopic_time);
    }
  }

  /// Starts from `data.newton`, and leaves the impulses in `newton` and `total`, and the velocities in `twists`.
  void solve(const SymbolicFactor& p, const JointIsland::Limits& limits, Data& data, LaneOutcomes<Real>& result) {
    begin(limits, data, result);
    for (int solves = 0;; ++solves) {
      data.rows.add_response(p, data.total, data.free, data.twists);
      add_gyroscopic_torques(data);
      worst_ = residual_.evaluate(data.rows, limits.dt, target_, data.twists, data.x);
      if (data.compliance.any()) worst_ = data.compliance.complete_end_residual(data.total, target_, data.x);
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
    for (const std::size_t body : gyroscopic_bodies_) gyroscopic_[body].change = Vector3<Real>{};
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

  // Adds to the twists, which impulses alone make, the effect of the gyroscopic torque of the mean velocities. Newton
  // for it starts from the effect at the last twists.
  void add_gyroscopic_torques(Data& data) {
    const auto& rows = data.rows;
    const auto add = [&](const auto& pick, const auto& store) {
      const auto R = pick([&](std::size_t i) -> const auto& { return rows.rotations[i]; });
      const auto in_axes = [&](const auto& twists) {
        return transposed_times(R, pick([&](std::size_t i) -> const auto& { return twists[i].w; }));
      };
      const auto change = gyroscopic_change(pick([&](std::size_t i) -> const auto& { return rows.bodies[i].inertia; }),
                                            in_axes(rows.start), in_axes(data.twists),
                                            pick([&](std::size_t i) -> const auto& { return gyroscopic_[i].h; }),
                                            pick([&](std::size_t i) -> const auto& { return gyroscopic_[i].change; }));
      store(change, R * change);
    };
    const auto store = [&](std::size_t body, const Vector3<Real>& change, const Vector3<Real>& in_world) {
      gyroscopic_[body].change = change;
      data.twists[body].w += in_world;
    };
    std::size_t k = 0;
    const auto& bodies = gyroscopic_bodies_;
    if constexpr (lanes == 1)
      for (; k + 4 <= bodies.size(); k += 4)
        add([&](const auto& get) { return PickFour{k}([&](std::size_t i) -> const auto& { return get(bodies[i]); }); },
            [&](const auto& change, const auto& in_world) {
              for (int lane = 0; lane < 4; ++lane)
                store(bodies[k + static_cast<std::size_t>(lane)], lane_of(change, lane), lane_of(in_world, lane));
            });
    for (; k < bodies.size(); ++k)
      add(
          [&](const auto& get) -> const auto& { return get(bodies[k]); },
          [&](const auto& change, const auto& in_world) { store(bodies[k], change, in_world); });
  }

  struct Gyroscopic {
    Real h{};                // time of the torque, 0 where there is none [s]
    Vector3<Real> change{};  // of the angular velocity, in the axes of the body [rad/s]
  };

  EndResidual<Real> residual_;
  AndersonAcceleration<Real> anderson_;
  AlignedVector<Gyroscopic> gyroscopic_;        // by body
  std::vector<std::size_t> gyroscopic_bodies_;  // that have the torque in some lane
  Real target_{};                               // share of φ at the start that φ at the end is to have
  Real going_{}, accelerates_{};                // by lane, 1 or 0
  Real worst_{}, best_{};                       // |φ| now, and the smallest so far
  std::array<int, std::size_t{lanes}> stalls_{};
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
