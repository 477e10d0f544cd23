// A constraint some of whose rows are forces (row_forces.h): the rows themselves are left out of the equations, and
// laws with Law::Term::row act along them. Private to the core.
#pragma once

#include <linchpin/constraint.h>
#include <linchpin/detail/class_of.h>
#include <linchpin/row_forces.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace linchpin::detail {

/// A spring with a damper in place of a row: its multiplier is −stiffness·φ − damping·φ̇.
struct RowSpring {
  double stiffness = 0;  ///< [N/m, N·m/rad]
  double damping = 0;    ///< [N·s/m, N·m·s/rad]
};

/// A residual whose rows are all evaluated, while only the rows that stay exact are rows of the constraint.
class ForceRows final : public ConstraintFunction {
 public:
  /// @param exact  the rows of `whole` that stay exact, in order
  ForceRows(std::unique_ptr<ConstraintFunction> whole, std::vector<int> exact);
  ForceRows(const ForceRows& other);
  std::unique_ptr<ConstraintFunction> clone() const override { return std::make_unique<ForceRows>(*this); }
  int rows() const override { return static_cast<int>(exact_.size()); }
  int bodies() const override { return whole_->bodies(); }
  Level level() const override { return whole_->level(); }
  /// Where no row stays exact, the units are those of whole().
  RowUnit unit(int row) const override {
    return whole_->unit(exact_.empty() ? row : exact_[static_cast<std::size_t>(row)]);
  }
  void residual(std::span<const BodyState> X, double t, std::span<double> out) const override;
  void linearize(std::span<const BodyState> X, double t, Linearization out) const override;
  void accept(std::span<const BodyState> X, double t) override { whole_->accept(X, t); }
  std::vector<double> internal_state() const override { return whole_->internal_state(); }
  void set_internal_state(std::span<const double> kept) override { whole_->set_internal_state(kept); }

  /// The values of all rows at a state. They are valid until the next call.
  struct Values {
    std::vector<double> A, b, position, velocity;
  };
  const Values& evaluate(std::span<const BodyState> X, double t) const;
  const ConstraintFunction& whole() const { return *whole_; }
  std::span<const int> exact() const { return exact_; }  ///< rows of whole() that stay exact, in order
  std::vector<RowSpring> springs;  ///< by row of whole(), of those that do not stay exact; none for a motor
  bool is_motor = false;
  double speed = 0;  ///< of a motor, subtracted from the velocity of its row

 private:
  std::unique_ptr<ConstraintFunction> whole_;
  std::vector<int> exact_;
  mutable Values values_;
  mutable std::vector<double> residual_;
};

/// A constraint with forces in place of rows, and the law of these forces.
struct RowForces {
  Constraint constraint;
  Law law;
};
/// @throws std::invalid_argument  as add_motor() and add_compliant(), without the test of opposite forces
RowForces motor_on(const Constraint& row, const Motor& motor);
RowForces compliance_of(const Constraint& constraint, const Compliance& compliance);
/// Describes why a constraint cannot have forces in place of rows at a state. Empty if it can.
/// @param X  states of its bodies
std::string why_no_row_forces(const System& system, const Constraint& constraint, std::span<const BodyState> X,
                              double t);
/// The function of a constraint with forces in place of rows. Null for other constraints.
/// The class of a function may have been compiled with -fno-rtti.
inline const ForceRows* force_rows_of(const Constraint& constraint) {
  const ConstraintFunction& function = constraint.function();
  return is_exactly<ForceRows>(function) ? static_cast<const ForceRows*>(&function) : nullptr;
}

/// The function of a constraint with compliance. Null for other constraints.
inline const ForceRows* compliant_rows_of(const Constraint& constraint) {
  const ForceRows* const forces = force_rows_of(constraint);
  return forces && !forces->is_motor ? forces : nullptr;
}

/// The function of all rows of a constraint, those that are forces included.
inline const ConstraintFunction& whole_function(const Constraint& constraint) {
  const ForceRows* const forces = force_rows_of(constraint);
  return forces ? forces->whole() : constraint.function();
}

}  // namespace linchpin::detail
