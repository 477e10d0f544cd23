// State at any time of the last step, and zero crossings of user functions in it.
#include "integrators/discrete_legendre.h"
#include "integrators/stepper_impl.h"
#include "problem/jacobian_products.h"

#include <algorithm>
#include <cmath>

namespace linchpin {

void Stepper::Impl::interpolate(double dt, std::span<const double> end_rate, std::span<const double> end_vdot) {
  dense.trial.h = dt;
  dense.trial.powers = 3;
  for (std::size_t j = 0; j < work.in_chart.size(); ++j) {
    const auto hermite = [&](auto& c, double difference, double first, double last) {
      c[0][j] = difference;
      c[1][j] = dt * first - difference;
      c[2][j] = difference - dt * last - c[1][j];
    };
    hermite(dense.trial.pose, work.in_chart[j], work.pose_rate[0][j], end_rate[j]);
    hermite(dense.trial.rate, work.v1[j] - work.v0[j], work.vdot[0][j], end_vdot[j]);
  }
}

bool Stepper::Impl::add_powers(double dt) {
  const Tableau& method = tableau();
  if (!method.pair || (method.extra > 0 && !options.dense_output && dense.functions.empty())) return true;
  const std::size_t known = method.stages + 1;
  for (std::size_t k = known; k < known + method.extra; ++k) {
    place_stage(k, dt);
    if (!evaluate_stage(k, dt)) return false;
  }
  for (std::size_t i = 0; i < method.powers; ++i) {
    combine(dt, method.dense[i], known + method.extra, work.pose_rate, dense.trial.pose[3 + i]);
    combine(dt, method.dense[i], known + method.extra, work.vdot, dense.trial.rate[3 + i]);
  }
  dense.trial.powers = 3 + method.powers;
  // The last evaluation is that of the end, where events are tested and the next substep begins.
  if (method.extra == 0) return true;
  dynamics.set_internal_state(work.memory.after);
  return dynamics.evaluate(work.next) != Status::invalid;
}

void Stepper::Impl::interpolate_ends(double dt) {
  const IslandLayout& b = block();
  for (std::size_t s = 0; s < b.bodies.size(); ++s) {
    const BodyState &from = state[b.bodies[s]], &to = work.next[b.bodies[s]];
    const Vector3d turn = turn_between(from.q, to.q);
    for (int j = b.column[s]; j < b.column[s + 1]; ++j)
      work.in_chart[z(j)] =
          j < b.column[s] + 3 ? to.p[j - b.column[s]] - from.p[j - b.column[s]] : turn[j - b.column[s] - 3];
  }
  velocities(state, work.v0);
  velocities(work.next, work.v1);
  std::copy(work.v0.begin(), work.v0.end(), work.pose_rate[0].begin());
  rate_of_chart(work.in_chart, work.v1, work.pose_rate[3]);
  for (std::size_t j = 0; j < work.gained.size(); ++j) work.vdot[0][j] = (work.v1[j] - work.v0[j]) / dt;
  interpolate(dt, work.pose_rate[3], work.vdot[0]);
}

void Stepper::Impl::evaluate_segment(const State& base, const Segment& segment, double theta, State& out) {
  out = base;
  out.t = base.t + theta * segment.h;
  system->update_kinematic(out);
  const double rest = 1 - theta;
  const auto at = [&](const auto& c, std::size_t j) {
    double y = 0;
    for (std::size_t k = segment.powers; k-- > 0;) y = (k % 2 == 0 ? theta : rest) * (c[k][j] + y);
    return y;
  };
  for (std::size_t j = 0; j < work.in_chart.size(); ++j) {
    work.in_chart[j] = at(segment.pose, j);
    work.gained[j] = at(segment.rate, j);
  }
  place(base, work.in_chart, work.gained, out);
}

void Stepper::Impl::store_segment() {
  if (dense.segment_count == dense.segments.size()) dense.segments.emplace_back(dense.trial);
  Segment& segment = dense.segments[dense.segment_count++];
  std::swap(segment, dense.trial);
  dense.trial.resize(z(block().n()));
  segment.base = work.next;
  if (!dense.functions.empty()) find_crossings(segment);
}

void Stepper::Impl::find_crossings(const Segment& segment) {
  // Number of samples in each substep, so that a function that comes and goes within it is detected.
  constexpr int samples = 4;
  for (std::size_t i = 0; i < dense.functions.size(); ++i) {
    double& value = dense.values[i];
    if (std::isnan(value)) value = dense.functions[i](segment.base);
    for (int k = 1; k <= samples; ++k) {
      double a = (k - 1.0) / samples, b = double(k) / samples, at_a = value;
      const auto look = [&](double theta) {
        evaluate_segment(segment.base, segment, theta, work.probe);
        return dense.functions[i](work.probe);
      };
      double at_b = k == samples ? dense.functions[i](state) : look(b);
      value = at_b;
      if (!(at_a < 0 && at_b >= 0) && !(at_a > 0 && at_b <= 0)) continue;
      const bool rising = at_a < 0;
      const double sharp = std::max(options.event_tolerance, 4e-16 * std::fabs(state.t)) / segment.h;
      for (int n = 0; b - a > sharp && n < 200; ++n) {  // Illinois, with halving as a safeguard.
        double m = n % 3 == 2 || at_a == at_b ? 0.5 * (a + b) : (a * at_b - b * at_a) / (at_b - at_a);
        m = std::clamp(m, a + 0.25 * std::min(sharp, b - a), b - 0.25 * std::min(sharp, b - a));
        const double e = look(m);
        if (rising ? e < 0 : e > 0) {
          a = m, at_a = e;
          at_b *= 0.5;
        } else {
          b = m, at_b = e;
          at_a *= 0.5;
        }
      }
      evaluate_segment(segment.base, segment, b, work.probe);
      dense.crossings.push_back({work.probe.t, static_cast<int>(i), rising, work.probe});
    }
  }
}

}  // namespace linchpin
