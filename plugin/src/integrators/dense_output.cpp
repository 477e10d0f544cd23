// State at any time of the last step, and zero crossings of user functions in it.
#include "integrators/discrete_legendre.h"
#include "integrators/stepper_impl.h"
#include "problem/jacobian_products.h"

#include <algorithm>
#include <cmath>

namespace linchpin {

void Stepper::Impl::interpolate(double dt, std::span<const double> end_rate, std::span<const double> end_vdot) {
  trial.h = dt;
  trial.powers = 3;
  for (std::size_t j = 0; j < in_chart.size(); ++j) {
    const auto hermite = [&](auto& c, double difference, double first, double last) {
      c[0][j] = difference;
      c[1][j] = dt * first - difference;
      c[2][j] = difference - dt * last - c[1][j];
    };
    hermite(trial.pose, in_chart[j], pose_rate[0][j], end_rate[j]);
    hermite(trial.rate, v1[j] - v0[j], vdot[0][j], end_vdot[j]);
  }
}

bool Stepper::Impl::add_powers(double dt) {
  const Tableau& method = tableau();
  if (!method.pair || (method.extra > 0 && !options.dense_output && functions.empty())) return true;
  const std::size_t known = method.stages + 1;
  for (std::size_t k = known; k < known + method.extra; ++k) {
    place_stage(k, dt);
    if (!evaluate_stage(k, dt)) return false;
  }
  for (std::size_t i = 0; i < method.powers; ++i) {
    combine(dt, method.dense[i], known + method.extra, pose_rate, trial.pose[3 + i]);
    combine(dt, method.dense[i], known + method.extra, vdot, trial.rate[3 + i]);
  }
  trial.powers = 3 + method.powers;
  // The last evaluation is that of the end, where events are tested and the next substep begins.
  if (method.extra == 0) return true;
  dynamics.give_memory(memory_after);
  return dynamics.evaluate(next) != Status::invalid;
}

void Stepper::Impl::interpolate_ends(double dt) {
  const Block& b = block();
  for (std::size_t s = 0; s < b.bodies.size(); ++s) {
    const BodyState &from = state[b.bodies[s]], &to = next[b.bodies[s]];
    const Vector3d turn = turn_between(from.q, to.q);
    for (int j = b.column[s]; j < b.column[s + 1]; ++j)
      in_chart[z(j)] =
          j < b.column[s] + 3 ? to.p[j - b.column[s]] - from.p[j - b.column[s]] : turn[j - b.column[s] - 3];
  }
  velocities(state, v0);
  velocities(next, v1);
  std::copy(v0.begin(), v0.end(), pose_rate[0].begin());
  rate_of_chart(in_chart, v1, pose_rate[3]);
  for (std::size_t j = 0; j < gained.size(); ++j) vdot[0][j] = (v1[j] - v0[j]) / dt;
  interpolate(dt, pose_rate[3], vdot[0]);
}

void Stepper::Impl::evaluate_segment(const State& base, const Segment& segment, double theta, State& out) {
  out = base;
  out.t = base.t + theta * segment.h;
  system->update_driven(out);
  const double rest = 1 - theta;
  const auto at = [&](const auto& c, std::size_t j) {
    double y = 0;
    for (std::size_t k = segment.powers; k-- > 0;) y = (k % 2 == 0 ? theta : rest) * (c[k][j] + y);
    return y;
  };
  for (std::size_t j = 0; j < in_chart.size(); ++j) {
    in_chart[j] = at(segment.pose, j);
    gained[j] = at(segment.rate, j);
  }
  place(base, in_chart, gained, out);
}

void Stepper::Impl::store_segment() {
  if (segment_count == segments.size()) segments.emplace_back(trial);
  Segment& segment = segments[segment_count++];
  std::swap(segment, trial);
  trial.resize(z(block().n()));
  segment.base = next;
  if (!functions.empty()) find_crossings(segment);
}

void Stepper::Impl::find_crossings(const Segment& segment) {
  // Number of samples in each substep, so that a function that comes and goes within it is detected.
  constexpr int samples = 4;
  for (std::size_t i = 0; i < functions.size(); ++i) {
    double& value = values[i];
    if (std::isnan(value)) value = functions[i](segment.base);
    for (int k = 1; k <= samples; ++k) {
      double a = (k - 1.0) / samples, b = double(k) / samples, at_a = value;
      const auto look = [&](double theta) {
        evaluate_segment(segment.base, segment, theta, probe);
        return functions[i](probe);
      };
      double at_b = k == samples ? functions[i](state) : look(b);
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
      evaluate_segment(segment.base, segment, b, probe);
      crossings.push_back({probe.t, static_cast<int>(i), rising, probe});
    }
  }
}

}  // namespace linchpin
