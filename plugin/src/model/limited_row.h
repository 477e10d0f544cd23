// A position row between two limits. The constraint is unilateral at one of them at a time. Private to the core.
#pragma once

#include <linchpin/constraint.h>

#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace linchpin::detail {

/// φ − bound, where φ is the residual of another function of one row.
class LimitedRow final : public ConstraintFunction {
 public:
  LimitedRow(std::unique_ptr<ConstraintFunction> row, double lower, double upper)
      : row_(std::move(row)), lower_(lower), upper_(upper) {}
  LimitedRow(const LimitedRow& other)
      : ConstraintFunction(other),
        at_upper(other.at_upper),
        row_(other.row_->clone()),
        lower_(other.lower_),
        upper_(other.upper_) {}
  std::unique_ptr<ConstraintFunction> clone() const override { return std::make_unique<LimitedRow>(*this); }
  int rows() const override { return 1; }
  int bodies() const override { return row_->bodies(); }
  Level level() const override { return Level::position; }
  RowUnit unit(int row) const override { return row_->unit(row); }
  void residual(std::span<const BodyState> X, double t, std::span<double> out) const override {
    row_->residual(X, t, out);
    out[0] -= bound();
  }
  void linearize(std::span<const BodyState> X, double t, Linearization out) const override {
    row_->linearize(X, t, out);
    out.position[0] -= bound();
  }
  void accept(std::span<const BodyState> X, double t) override { row_->accept(X, t); }
  std::vector<double> internal_state() const override {
    std::vector<double> out = row_->internal_state();
    out.push_back(at_upper);
    return out;
  }
  void set_internal_state(std::span<const double> kept) override {
    if (kept.empty()) return;
    at_upper = kept.back() != 0;
    row_->set_internal_state(kept.first(kept.size() - 1));
  }

  double bound() const { return at_upper ? upper_ : lower_; }
  double lower() const { return lower_; }
  double upper() const { return upper_; }
  const ConstraintFunction& row() const { return *row_; }
  bool at_upper = false;  ///< the limit at which the constraint acts

 private:
  std::unique_ptr<ConstraintFunction> row_;
  double lower_, upper_;
};

}  // namespace linchpin::detail
