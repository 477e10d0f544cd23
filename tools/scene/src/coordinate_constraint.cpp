// Constraints on the positions of joints: two that follow one another, as mimic joints of a URDF file, and a limit, a
// damper or a prescribed motion of one.
#include "compound_joint.h"
#include "joint_coordinate.h"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace linchpin::scene {

namespace {

// Σ weight · q = value(t)
class CoordinateFunction final : public ConstraintFunction {
 public:
  struct Term {
    JointCoordinate joint;
    double weight = 1;
    CoordinateValues last;  // at the last accepted step
  };
  CoordinateFunction(std::size_t bodies, std::vector<Term> terms, std::function<Taylor(double)> value)
      : K_(bodies), terms_(std::move(terms)), value_(std::move(value)) {
    for (Term& term : terms_) term.last = term.joint.start_values();
  }
  std::unique_ptr<ConstraintFunction> clone() const override { return std::make_unique<CoordinateFunction>(*this); }
  int rows() const override { return 1; }
  int bodies() const override { return static_cast<int>(K_); }
  Level level() const override { return Level::position; }
  RowUnit unit(int) const override { return terms_.back().joint.slides ? RowUnit::metre : RowUnit::radian; }

  void residual(std::span<const BodyState> X, double t, std::span<double> out) const override {
    double sum = 0;
    for (const Term& term : terms_) sum += term.weight * of(X, term).value;
    out[0] = sum - value_(t).c0;
  }

  void linearize(std::span<const BodyState> X, double t, Linearization out) const override {
    for (std::size_t i = 0; i < 6 * K_; ++i) out.A[i] = 0;
    const Taylor value = value_(t);
    double phi = -value.c0, phi_dot = -value.c1, b = 2 * value.c2;
    for (const Term& term : terms_) {
      const CoordinateRow c = of(X, term);
      const auto add = [&](int body, const Vector3d& linear, const Vector3d& angular) {
        double* at = &out.A[6 * static_cast<std::size_t>(body)];
        for (Eigen::Index i = 0; i < 3; ++i) at[i] += term.weight * linear[i], at[i + 3] += term.weight * angular[i];
      };
      add(term.joint.parent, c.linear_P, c.angular_P);
      add(term.joint.child, c.linear_C, c.angular_C);
      phi += term.weight * c.value, phi_dot += term.weight * c.rate, b += term.weight * c.b;
    }
    for (std::size_t k = 0; k < K_; ++k)
      for (std::size_t i = 0; i < 3; ++i) {
        const auto e = static_cast<Eigen::Index>(i);
        b -= out.A[6 * k + i] * X[k].a[e] + out.A[6 * k + 3 + i] * X[k].alpha[e];
      }
    out.position[0] = phi, out.velocity[0] = phi_dot, out.b[0] = b;
  }

  void accept(std::span<const BodyState> X, double) override {
    for (Term& term : terms_) term.last = of(X, term).values;
  }
  std::vector<double> internal_state() const override {
    std::vector<double> out;
    for (const Term& term : terms_) out.insert(out.end(), term.last.begin(), term.last.end());
    return out;
  }
  void set_internal_state(std::span<const double> kept) override {
    std::size_t size = 0, at = 0;
    for (const Term& term : terms_) size += static_cast<std::size_t>(term.last.size());
    if (kept.size() != size) return;
    for (Term& term : terms_)
      for (double& x : term.last) x = kept[at++];
  }

 private:
  static CoordinateRow of(std::span<const BodyState> X, const Term& term) {
    const JointCoordinate& j = term.joint;
    return coordinate_row(j, X[static_cast<std::size_t>(j.parent)], X[static_cast<std::size_t>(j.child)], term.last);
  }

  std::size_t K_;
  std::vector<Term> terms_;
  std::function<Taylor(double)> value_;
};

Constraint make(std::string name, std::vector<BodyId> bodies, std::vector<CoordinateFunction::Term> terms,
                std::function<Taylor(double)> value) {
  auto function = std::make_unique<CoordinateFunction>(bodies.size(), std::move(terms), std::move(value));
  return {std::move(name), std::move(bodies), std::move(function)};
}

std::function<Taylor(double)> constant(double value) {
  return [value](double) { return Taylor(value); };
}

}  // namespace

Constraint couple(std::string name, std::vector<BodyId> bodies, const JointCoordinate& leader,
                  const JointCoordinate& follower, double multiplier, double offset) {
  return make(std::move(name), std::move(bodies), {{leader, -multiplier, {}}, {follower, 1, {}}}, constant(offset));
}

Constraint coordinate_constraint(std::string name, std::vector<BodyId> bodies, JointCoordinate joint, double value) {
  return coordinate_constraint(std::move(name), std::move(bodies), std::move(joint), constant(value));
}

Constraint coordinate_constraint(std::string name, std::vector<BodyId> bodies, JointCoordinate joint,
                                 std::function<Taylor(double)> value) {
  joint.parent = 0, joint.child = 1;
  Constraint out = make(std::move(name), std::move(bodies), {{joint, 1, {}}}, std::move(value));
  if (joint.compound)
    out.set_application_points({joint.compound->frame_A.origin, joint.compound->frame_B.origin}).set_sliding_body(1);
  return out;
}

}  // namespace linchpin::scene
