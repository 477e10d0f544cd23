// Anderson acceleration of a chord Newton, whose factor belongs to another place (Anderson, J. ACM 12 (1965) 547). A
// chord iteration overshoots or diverges in one or two directions where rows turn much within a step, as close to a
// pose at which a mechanism folds. The changes of residual and step in the last iterations correct the length of the
// next step.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace linchpin::detail {

/// One Newton iteration: call begin(), then improve() for every chord step in order. Memory is kept and only grows.
class AndersonAcceleration {
 public:
  void begin() { known_ = steps_ = 0; }

  /// @param e      residual that the chord step would remove if the rows were linear
  /// @param steps  in: parts of the chord step, linear in e (multipliers, forces, velocities). Out: the step to take.
  /// @param use    false: the chord step is returned unchanged, but stored
  template <std::size_t parts>
  void improve(std::span<const double> e, const std::array<std::span<double>, parts>& steps, bool use) {
    std::size_t n = 0;
    for (const auto& s : steps) n += s.size();
    chord_.resize(n);
    double* to = chord_.data();
    for (const auto& s : steps) to = std::copy(s.begin(), s.end(), to);
    // Stores the change of e and of the chord step since the last call, and the displacement between them.
    if (steps_ > 0) {
      Change& c = changes_[static_cast<std::size_t>(known_++) % most];
      c.e.resize(e.size());
      c.displacement.resize(n);
      for (std::size_t i = 0; i < e.size(); ++i) c.e[i] = e[i] - last_e_[i];
      for (std::size_t i = 0; i < n; ++i) c.displacement[i] = last_step_[i] + (chord_[i] - last_chord_[i]);
    }
    ++steps_;
    last_e_.assign(e.begin(), e.end());
    last_chord_ = chord_;
    last_step_ = chord_;
    if (use) subtract_projection(e);
    const double* from = last_step_.data();
    for (const auto& s : steps) {
      std::copy_n(from, s.size(), s.data());
      from += s.size();
    }
  }

 private:
  static constexpr std::size_t most = 5;
  struct Change {
    std::vector<double> e, displacement;
    std::vector<double> q;  // Component of e orthogonal to the newer ones, unit length.
  };
  static double dot(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  }

  // Computes last_step_ −= Σ γ_j way_j with the γ for which ‖e − Σ γ_j e_j‖ is least, newest changes first.
  void subtract_projection(std::span<const double> e) {
    const std::size_t count = std::min(static_cast<std::size_t>(known_), most);
    std::array<std::array<double, most>, most> R{};
    std::array<double, most> y{}, gamma{};
    std::array<Change*, most> kept{};
    std::size_t k = 0;
    for (std::size_t back = 1; back <= count; ++back) {
      Change& c = changes_[(static_cast<std::size_t>(known_) - back) % most];
      const double size = std::sqrt(dot(c.e, c.e));
      c.q = c.e;
      for (int twice = 0; twice < 2; ++twice)
        for (std::size_t j = 0; j < k; ++j) {
          const double r = dot(kept[j]->q, c.q);
          R[j][k] += r;
          for (std::size_t i = 0; i < c.q.size(); ++i) c.q[i] -= r * kept[j]->q[i];
        }
      const double left = std::sqrt(dot(c.q, c.q));
      if (!(left > 1e-6 * size)) {
        for (std::size_t j = 0; j < k; ++j) R[j][k] = 0;
        continue;
      }
      for (double& x : c.q) x /= left;
      R[k][k] = left;
      y[k] = 0;
      for (std::size_t i = 0; i < c.q.size(); ++i) y[k] += c.q[i] * e[i];
      kept[k++] = &c;
    }
    for (std::size_t j = k; j-- > 0;) {
      gamma[j] = y[j];
      for (std::size_t l = j + 1; l < k; ++l) gamma[j] -= R[j][l] * gamma[l];
      gamma[j] /= R[j][j];
      for (std::size_t i = 0; i < last_step_.size(); ++i) last_step_[i] -= gamma[j] * kept[j]->displacement[i];
    }
  }

  int known_ = 0, steps_ = 0;
  std::array<Change, most> changes_;
  std::vector<double> chord_, last_e_, last_chord_, last_step_;
};

}  // namespace linchpin::detail
