// Rows with compliance among those of an island (T12). A spring with stiffness k and a damper with damping c act in
// place of the equation φ = 0. A step of length h applies their force at its end (backward Euler). The impulse p of the
// row satisfies
//
//     p = −h (k φ₁ + c (φ₁ − φ₀) / h),   or   φ₁ + p/κ − (c/κ) φ₀ = 0   with κ = h k + c.
//
// Newton to the end of the step therefore solves with G + γ. γ = 1/(h κ) is on the diagonal of such rows. An island
// with springs costs what it costs with equations. An exact row is the limit k → ∞.
#pragma once

#include "joint_kernel/rows.h"
#include "joint_kernel/start_evaluation.h"
#include "joint_kernel/symbolic.h"
#include "math/simd.h"

#include <cstddef>
#include <vector>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

template <class Real>
class CompliantRows {
 public:
  using Rows = KernelRows<Real>;
  using Vector = AlignedVector<Real>;  // by row

  void lay_out(const SymbolicFactor& p) {
    rows_.clear();
    for (const SymbolicFactor::CompliantRow& row : p.compliant) rows_.push_back(row.row);
    if (rows_.empty()) return;
    is_exact_.assign(z(p.rows), 1);
    for (const int row : rows_) is_exact_[z(row)] = 0;
    gaps_.assign(z(p.rows), Real{});
    for (auto* x : {&gamma_, &length_per_impulse_, &kept_gap_, &rest_rates_}) x->assign(rows_.size(), Real{});
  }
  bool any() const { return !rows_.empty(); }
  /// γ [1/kg], by compliant row.
  const Vector& gamma() const { return gamma_; }

  /// Prepares a step of length dt from what was evaluated at its start. The errors of `start` become those of exact
  /// rows alone. The biases of compliant rows become those of a step that applies the springs at its end: with them,
  /// multipliers at the start solve (G + γ) λ = b − A M⁻¹Q.
  /// @param residual  in, out: by row, b less what forces make
  void begin(Rows& rows, double dt, StartSummary<Real>& start, Vector& residual) {
    rows.for_each_row([&]<class P>(P, const typename Rows::template Row<P>& k) { store_rows(gaps_, k.row, k.phi); });
    Real probe{};
    start.position_error = start.velocity_error = Real{};
    for (std::size_t r = 0; r < gaps_.size(); ++r) {
      probe += 0 * gaps_[r] + 0 * rows.velocities[r];  // 0 times what is not finite is not a number
      if (!is_exact_[r]) continue;
      start.position_error = maximum(start.position_error, absolute(gaps_[r]));
      start.velocity_error = maximum(start.velocity_error, absolute(rows.velocities[r]));
    }
    start.position_error += probe;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const std::size_t r = z(rows_[i]);
      const Real kappa = dt * rows.stiffness[i] + rows.damping[i];
      length_per_impulse_[i] = 1 / kappa;
      gamma_[i] = 1 / (dt * kappa);
      kept_gap_[i] = rows.damping[i] / kappa * gaps_[r];
      rest_rates_[i] = -(rows.stiffness[i] / kappa * gaps_[r]);
      const Real shift = (1 / dt) * (rest_rates_[i] - rows.velocities[r]);
      rows.biases[r] += shift;
      residual[r] += shift;
      start.size = maximum(start.size, absolute(shift));
    }
  }

  /// Completes b − A v̇ with −γ λ. @return the largest magnitude of all rows, not a number where one is none
  Real complete_start_residual(const Vector& lambda, Vector& x) const {
    for (std::size_t i = 0; i < rows_.size(); ++i) x[z(rows_[i])] -= gamma_[i] * lambda[z(rows_[i])];
    return largest(x);
  }

  /// Completes φ at the end, less `target` times φ at the start, with what springs leave of it.
  /// @return the largest magnitude of all rows, not a number where one is none
  Real complete_end_residual(const Vector& impulses, const Real& target, Vector& x) const {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const std::size_t r = z(rows_[i]);
      x[r] += target * gaps_[r] + (length_per_impulse_[i] * impulses[r] - kept_gap_[i]);
    }
    return largest(x);
  }

  /// Work of the springs and dampers. @param rates  mean rates of the rows
  Real work(const Vector& impulses, const Vector& rates) const {
    Real sum{};
    for (const int row : rows_) sum += impulses[z(row)] * rates[z(row)];
    return sum;
  }

  // The rates that rows of the host leave satisfy A v + γ p = rate.

  /// rates ← rates + γ p
  void add_impulses(const Vector& impulses, Vector& rates) const {
    for (std::size_t i = 0; i < rows_.size(); ++i) rates[z(rows_[i])] += gamma_[i] * impulses[z(rows_[i])];
  }
  /// rates ← rates − γ p
  void subtract_impulses(const Vector& impulses, Vector& rates) const {
    for (std::size_t i = 0; i < rows_.size(); ++i) rates[z(rows_[i])] -= gamma_[i] * impulses[z(rows_[i])];
  }
  /// Writes the rates that the springs leave at the linearised end of the step.
  void write_rest_rates(Vector& rates) const {
    for (std::size_t i = 0; i < rows_.size(); ++i) rates[z(rows_[i])] = rest_rates_[i];
  }

 private:
  static std::size_t z(int i) { return static_cast<std::size_t>(i); }
  static Real largest(const Vector& x) {
    Real most{}, probe{};
    for (const Real& e : x) most = maximum(most, absolute(e)), probe += 0 * e;
    return most + probe;
  }

  std::vector<int> rows_;
  std::vector<char> is_exact_;  // by row
  Vector gaps_;                 // φ at the start, by row
  // By compliant row:
  Vector gamma_;               // [1/kg]
  Vector length_per_impulse_;  // 1/κ [s/kg]
  Vector kept_gap_;            // (c/κ) φ₀ [m]
  Vector rest_rates_;          // −(k/κ) φ₀ [m/s]
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
