// Joints whose positions follow one another: mimic joints of a URDF file.
#include "joint_coordinate.h"
#include "robot.h"

#include <array>

namespace linchpin::scene {

namespace {

class CoupleFunction final : public ConstraintFunction {
 public:
  CoupleFunction(std::size_t bodies, const JointCoordinate& leader, const JointCoordinate& follower, double multiplier,
                 double offset)
      : K_(bodies),
        joints_{leader, follower},
        weight_{-multiplier, 1},
        offset_(offset),
        last_{leader.start, follower.start} {}
  std::unique_ptr<ConstraintFunction> clone() const override { return std::make_unique<CoupleFunction>(*this); }
  int rows() const override { return 1; }
  int bodies() const override { return static_cast<int>(K_); }
  Level level() const override { return Level::position; }
  RowUnit unit(int) const override { return joints_[1].slides ? RowUnit::metre : RowUnit::radian; }

  void residual(std::span<const BodyState> X, double, std::span<double> out) const override {
    out[0] = weight_[0] * of(X, 0).value + weight_[1] * of(X, 1).value - offset_;
  }

  void linearize(std::span<const BodyState> X, double, Linearization out) const override {
    for (std::size_t i = 0; i < 6 * K_; ++i) out.A[i] = 0;
    double phi = -offset_, phi_dot = 0, b = 0;
    for (std::size_t k = 0; k < 2; ++k) {
      const CoordinateRow c = of(X, k);
      const auto add = [&](int body, const Vector3d& linear, const Vector3d& angular) {
        double* at = &out.A[6 * static_cast<std::size_t>(body)];
        for (Eigen::Index i = 0; i < 3; ++i) at[i] += weight_[k] * linear[i], at[i + 3] += weight_[k] * angular[i];
      };
      add(joints_[k].parent, c.linear_P, c.angular_P);
      add(joints_[k].child, c.linear_C, c.angular_C);
      phi += weight_[k] * c.value, phi_dot += weight_[k] * c.rate, b += weight_[k] * c.b;
    }
    for (std::size_t k = 0; k < K_; ++k)
      for (std::size_t i = 0; i < 3; ++i) {
        const auto e = static_cast<Eigen::Index>(i);
        b -= out.A[6 * k + i] * X[k].a[e] + out.A[6 * k + 3 + i] * X[k].alpha[e];
      }
    out.position[0] = phi, out.velocity[0] = phi_dot, out.b[0] = b;
  }

  void accept(std::span<const BodyState> X, double) override {
    for (std::size_t k = 0; k < 2; ++k) last_[k] = of(X, k).value;
  }

 private:
  CoordinateRow of(std::span<const BodyState> X, std::size_t k) const {
    const JointCoordinate& j = joints_[k];
    return coordinate_row(j, X[static_cast<std::size_t>(j.parent)], X[static_cast<std::size_t>(j.child)], last_[k]);
  }

  std::size_t K_;
  std::array<JointCoordinate, 2> joints_;
  std::array<double, 2> weight_;
  double offset_;
  std::array<double, 2> last_;  // unwrapped, at the last accepted step
};

}  // namespace

Constraint couple(std::string name, std::vector<BodyId> bodies, const JointCoordinate& leader,
                  const JointCoordinate& follower, double multiplier, double offset) {
  auto function = std::make_unique<CoupleFunction>(bodies.size(), leader, follower, multiplier, offset);
  return {std::move(name), std::move(bodies), std::move(function)};
}

}  // namespace linchpin::scene
