#include "principal_axes.h"

#include <Eigen/Eigenvalues>

#include <memory>
#include <utility>

namespace linchpin::bullet_scene {

namespace {

// A function of poses in the axes of the scene, given those of Bullet. Its derivatives are in world axes, so they stay.
class InAxesOfScene final : public ConstraintFunction {
 public:
  InAxesOfScene(std::unique_ptr<ConstraintFunction> inner, std::vector<Quaterniond> back)
      : inner_(std::move(inner)), back_(std::move(back)), X_(back_.size()) {}
  InAxesOfScene(const InAxesOfScene& other)
      : ConstraintFunction(other), inner_(other.inner_->clone()), back_(other.back_), X_(other.X_) {}

  std::unique_ptr<ConstraintFunction> clone() const override { return std::make_unique<InAxesOfScene>(*this); }
  int rows() const override { return inner_->rows(); }
  int bodies() const override { return inner_->bodies(); }
  Level level() const override { return inner_->level(); }
  RowUnit unit(int row) const override { return inner_->unit(row); }
  void residual(std::span<const BodyState> X, double t, std::span<double> out) const override {
    inner_->residual(turned(X), t, out);
  }
  void linearize(std::span<const BodyState> X, double t, Linearization out) const override {
    inner_->linearize(turned(X), t, out);
  }
  void accept(std::span<const BodyState> X, double t) override { inner_->accept(turned(X), t); }
  std::vector<double> internal_state() const override { return inner_->internal_state(); }
  void set_internal_state(std::span<const double> kept) override { inner_->set_internal_state(kept); }

 private:
  std::span<const BodyState> turned(std::span<const BodyState> X) const {
    for (std::size_t k = 0; k < X_.size(); ++k) {
      X_[k] = X[k];
      X_[k].q = X[k].q * back_[k];
    }
    return X_;
  }
  std::unique_ptr<ConstraintFunction> inner_;
  std::vector<Quaterniond> back_;
  mutable std::vector<BodyState> X_;  // evaluation does not allocate, and is for one thread at a time
};

// A function of a law, called with the two bodies in the axes of the scene.
template <class F>
auto in_axes_of_scene(F function, const Quaterniond& first, const Quaterniond& second) {
  return [function = std::move(function), first, second](const ConstraintReaction& n, auto... more) {
    ConstraintReaction seen = n;
    BodyState a, b;
    if (n.first) a = *n.first, a.q = n.first->q * first, seen.first = &a;
    if (n.second) b = *n.second, b.q = n.second->q * second, seen.second = &b;
    return function(seen, more...);
  };
}

}  // namespace

PrincipalAxes principal_axes(const Matrix3d& inertia) {
  PrincipalAxes out{Quaterniond::Identity(), inertia.diagonal(), false};
  if ((inertia - Matrix3d(inertia.diagonal().asDiagonal())).norm() <= 1e-12 * inertia.norm()) return out;
  const Eigen::SelfAdjointEigenSolver<Matrix3d> eigen(inertia);
  Matrix3d axes = eigen.eigenvectors();
  if (axes.determinant() < 0) axes.col(2) = -axes.col(2);
  return {Quaterniond(Eigen::Quaterniond(axes)).normalized(), eigen.eigenvalues(), true};
}

Constraint with_axes_of_scene(const Constraint& constraint, const std::vector<Quaterniond>& turns) {
  std::vector<Quaterniond> back;
  for (const Quaterniond& turn : turns) back.push_back(turn.conjugate());
  const std::vector<BodyId> bodies(constraint.bodies().begin(), constraint.bodies().end());
  Constraint out(constraint.name(), bodies, std::make_unique<InAxesOfScene>(constraint.function().clone(), back));
  if (constraint.application_point_moves()) {
    out.set_application_point([constraint, bodies, back, seen = State()](const State& state) mutable {
      seen = state;
      for (std::size_t k = 0; k < bodies.size(); ++k) seen[bodies[k]].q = state[bodies[k]].q * back[k];
      return constraint.application_point(0, seen);
    });
  } else if (constraint.has_application_points()) {
    std::vector<Vector3d> points;
    for (std::size_t k = 0; k < bodies.size(); ++k) points.push_back(back[k] * constraint.point(static_cast<int>(k)));
    out.set_application_points(std::move(points));
    if (constraint.sliding_body() >= 0) out.set_sliding_body(constraint.sliding_body());
  }
  return out;
}

Law with_axes_of_scene(const Law& law, const Quaterniond& first, const Quaterniond& second) {
  const Quaterniond a = first.conjugate(), b = second.conjugate();
  Law out;
  for (const Law::Term& term : law.terms()) {
    Law::Term turned = term;
    if (term.force) turned.force = in_axes_of_scene(term.force, a, b);
    if (term.static_limit) turned.static_limit = in_axes_of_scene(term.static_limit, a, b);
    if (term.sliding_magnitude) turned.sliding_magnitude = in_axes_of_scene(term.sliding_magnitude, a, b);
    if (term.belt) turned.belt = in_axes_of_scene(term.belt, a, b);
    if (term.internal_state_rate) turned.internal_state_rate = in_axes_of_scene(term.internal_state_rate, a, b);
    if (term.advance_state) turned.advance_state = in_axes_of_scene(term.advance_state, a, b);
    out = out ? out + Law(std::move(turned)) : Law(std::move(turned));
  }
  return out;
}

}  // namespace linchpin::bullet_scene
