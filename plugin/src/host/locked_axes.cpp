#include "host/locked_axes.h"

#include <algorithm>
#include <array>
#include <span>

namespace linchpin::host {

namespace {

class HeldAxes final : public ConstraintFunction {
 public:
  explicit HeldAxes(unsigned axes) {
    for (int i = 0; i < 6; ++i)
      if (axes >> i & 1u) axis_[z(count_++)] = i;
  }
  std::unique_ptr<ConstraintFunction> clone() const override { return std::make_unique<HeldAxes>(*this); }
  int rows() const override { return count_; }
  int bodies() const override { return 1; }
  Level level() const override { return Level::acceleration; }
  RowUnit unit(int) const override { return RowUnit::custom; }
  void residual(std::span<const BodyState> X, double, std::span<double> out) const override {
    for (std::size_t r = 0; r < out.size(); ++r) out[r] = axis_[r] < 3 ? X[0].a[axis_[r]] : X[0].alpha[axis_[r] - 3];
  }
  void linearize(std::span<const BodyState>, double, Linearization out) const override {
    for (auto* x : {&out.A, &out.b, &out.position, &out.velocity}) std::fill(x->begin(), x->end(), 0.0);
    for (std::size_t r = 0; r < out.b.size(); ++r) out.A[6 * r + z(axis_[r])] = 1;
  }

 private:
  int count_ = 0;
  std::array<int, 6> axis_{};
};

}  // namespace

std::unique_ptr<ConstraintFunction> hold_axes(unsigned axes) { return std::make_unique<HeldAxes>(axes); }

}  // namespace linchpin::host
