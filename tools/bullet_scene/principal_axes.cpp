#include "principal_axes.h"

#include <Eigen/Eigenvalues>

#include <memory>
#include <utility>

namespace linchpin::bullet_scene {

namespace {

// A function of poses in the axes of the scene, given those of the host. Its derivatives are in world axes, so they
// stay.
class InAxesOfScene final : public ConstraintFunction {
 public:
  InAxesOfScene(std::unique_ptr<ConstraintFunction> inner, std::vector<Quaterniond> back, std::vector<Vector3d> origins)
      : inner_(std::move(inner)), back_(std::move(back)), origins_(std::move(origins)), X_(back_.size()) {}
  InAxesOfScene(const InAxesOfScene& other)
      : ConstraintFunction(other),
        inner_(other.inner_->clone()),
        back_(other.back_),
        origins_(other.origins_),
        X_(other.X_) {}

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
    if (origins_.empty()) return;
    // A turn of the host's body also moves the centre of the scene's.
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows()); ++row)
      for (std::size_t k = 0; k < X_.size(); ++k) {
        double* const J = out.A.data() + 6 * (row * X_.size() + k);
        Eigen::Map<Vector3d>(J + 3) += (X[k].q * origins_[k]).cross(Vector3d(J[0], J[1], J[2]));
      }
  }
  void accept(std::span<const BodyState> X, double t) override { inner_->accept(turned(X), t); }
  std::vector<double> internal_state() const override { return inner_->internal_state(); }
  void set_internal_state(std::span<const double> kept) override { inner_->set_internal_state(kept); }

 private:
  std::span<const BodyState> turned(std::span<const BodyState> X) const {
    for (std::size_t k = 0; k < X_.size(); ++k) {
      X_[k] = X[k];
      X_[k].q = X[k].q * back_[k];
      if (!origins_.empty()) X_[k].p += X[k].q * origins_[k];
    }
    return X_;
  }
  std::unique_ptr<ConstraintFunction> inner_;
  std::vector<Quaterniond> back_;
  std::vector<Vector3d> origins_;
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

Constraint with_axes_of_scene(const Constraint& constraint, const std::vector<Quaterniond>& turns,
                              const std::vector<Vector3d>& origins) {
  std::vector<Quaterniond> back;
  for (const Quaterniond& turn : turns) back.push_back(turn.conjugate());
  const std::vector<BodyId> bodies(constraint.bodies().begin(), constraint.bodies().end());
  Constraint out(constraint.name(), bodies,
                 std::make_unique<InAxesOfScene>(constraint.function().clone(), back, origins));
  if (constraint.application_point_moves()) {
    out.set_application_point([constraint, bodies, back, origins, seen = State()](const State& state) mutable {
      seen = state;
      for (std::size_t k = 0; k < bodies.size(); ++k) {
        seen[bodies[k]].q = state[bodies[k]].q * back[k];
        if (!origins.empty()) seen[bodies[k]].p += state[bodies[k]].q * origins[k];
      }
      return constraint.application_point(0, seen);
    });
  } else if (constraint.has_application_points()) {
    std::vector<Vector3d> points;
    for (std::size_t k = 0; k < bodies.size(); ++k) {
      points.push_back(back[k] * constraint.point(static_cast<int>(k)));
      if (!origins.empty()) points.back() += origins[k];
    }
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
