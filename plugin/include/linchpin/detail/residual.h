// Makes a ConstraintFunction from a lambda by evaluating it on dual and Taylor numbers (T3). It is included at the end
// of constraint.h and is not for direct use. Hides how poses, velocities and accelerations are seeded.
#pragma once

#include <linchpin/constraint.h>

#include <cassert>

namespace linchpin {
namespace detail {

template <class View>
View AutodiffSeed::constant(const BodyState& s, const Matrix3d& R) {
  using T = typename View::number;
  View x;
  x.p_ = s.p;
  for (std::size_t j = 0; j < 3; ++j) x.columns_[j] = Vector3d(R.col(static_cast<Eigen::Index>(j)));
  if constexpr (std::is_base_of_v<VelocityView<T>, View>) {
    x.v_ = s.v;
    x.w_ = s.w;
  }
  if constexpr (std::is_base_of_v<AccelerationView<T>, View>) {
    x.a_ = s.a;
    x.alpha_ = s.alpha;
  }
  return x;
}

/// Seeds directions first, first+1, first+2 along the three components of u.
inline void seed_directions(Vec3<Dual<6>>& u, std::size_t first) {
  u.x.grad[first] = 1;
  u.y.grad[first + 1] = 1;
  u.z.grad[first + 2] = 1;
}

inline Vec3<Taylor> taylor(const Vector3d& c0, const Vector3d& c1, const Vector3d& c2) {
  return {{c0.x(), c1.x(), c2.x()}, {c0.y(), c1.y(), c2.y()}, {c0.z(), c1.z(), c2.z()}};
}

inline PoseView<Dual<6>> AutodiffSeed::displaced(const BodyState& s, const Matrix3d& R, bool seeded) {
  auto x = constant<PoseView<Dual<6>>>(s, R);
  if (!seeded) return x;
  seed_directions(x.p_, 0);
  for (Vec3<Dual<6>>& r : x.columns_) {  // δr = δθ × r
    r.y.grad[3] = -r.z.value, r.z.grad[3] = r.y.value;
    r.x.grad[4] = r.z.value, r.z.grad[4] = -r.x.value;
    r.x.grad[5] = -r.y.value, r.y.grad[5] = r.x.value;
  }
  return x;
}

inline VelocityView<Dual<6>> AutodiffSeed::velocity(const BodyState& s, const Matrix3d& R, bool seeded) {
  auto x = constant<VelocityView<Dual<6>>>(s, R);
  if (!seeded) return x;
  seed_directions(x.v_, 0);
  seed_directions(x.w_, 3);
  return x;
}

inline AccelerationView<Dual<6>> AutodiffSeed::acceleration(const BodyState& s, const Matrix3d& R, bool seeded) {
  auto x = constant<AccelerationView<Dual<6>>>(s, R);
  if (!seeded) return x;
  seed_directions(x.a_, 0);
  seed_directions(x.alpha_, 3);
  return x;
}

inline PoseView<Taylor> AutodiffSeed::moved(const BodyState& s, const Matrix3d& R) {
  PoseView<Taylor> x;
  x.p_ = taylor(s.p, s.v, 0.5 * s.a);
  for (std::size_t j = 0; j < 3; ++j) {  // r' = ω × r,  r'' = α × r + ω × r'
    const Vector3d r = R.col(static_cast<Eigen::Index>(j)), r1 = s.w.cross(r);
    x.columns_[j] = taylor(r, r1, 0.5 * (s.alpha.cross(r) + s.w.cross(r1)));
  }
  return x;
}

inline VelocityView<Taylor> AutodiffSeed::moving(const BodyState& s, const Matrix3d& R) {
  VelocityView<Taylor> x;
  static_cast<PoseView<Taylor>&>(x) = moved(s, R);
  // The second coefficients are unknown. A velocity row needs only the first.
  x.v_ = taylor(s.v, s.a, Vector3d::Zero());
  x.w_ = taylor(s.w, s.alpha, Vector3d::Zero());
  return x;
}

/// @tparam View  argument of the lambda for each body. @tparam level_  level of the condition.
template <template <class> class View, class F, Level level_>
class FromResidual final : public ConstraintFunction {
  using Returned =
      std::remove_cvref_t<decltype(std::declval<const F&>()(std::declval<const ResidualArgs<View, Dual<0>>&>()))>;
  static constexpr int rows_ = row_traits<Returned>::count;
  static_assert(rows_ > 0,
                "linchpin: a residual must return a number, a Vec3, a std::array of numbers or rows(...), computed "
                "from s[k] or s.t");
  static_assert(
      std::is_copy_constructible_v<F>,
      "linchpin: a residual must be copyable, because constraints are copied. Capture by value or by pointer");

 public:
  FromResidual(F f, std::size_t bodies, RowUnit unit)
      : f_(std::move(f)), unit_(unit), R_(bodies), plain_(bodies), dual_(bodies), taylor_(bodies) {}

  std::unique_ptr<ConstraintFunction> clone() const override { return std::make_unique<FromResidual>(*this); }
  int rows() const override { return rows_; }
  int bodies() const override { return static_cast<int>(R_.size()); }
  Level level() const override { return level_; }
  RowUnit unit(int) const override { return unit_; }

  void residual(std::span<const BodyState> X, double t, std::span<double> out) const override {
    assert(X.size() == R_.size() && out.size() == static_cast<std::size_t>(rows_));
    for (std::size_t k = 0; k < R_.size(); ++k) plain_[k] = AutodiffSeed::constant<View<Dual<0>>>(X[k], X[k].R());
    evaluate<Dual<0>>(plain_, t, [&](std::size_t i, const Dual<0>& x) { out[i] = x.value; });
  }

  void linearize(std::span<const BodyState> X, double t, Linearization out) const override {
    assert(X.size() == R_.size() && out.A.size() == static_cast<std::size_t>(rows_) * 6 * X.size());
    const std::size_t K = R_.size();
    for (std::size_t k = 0; k < K; ++k) {
      R_[k] = X[k].R();
      dual_[k] = seed(X[k], R_[k], false);
    }
    for (std::size_t k = 0; k < K; ++k) {  // A, six columns at a time (T3).
      dual_[k] = seed(X[k], R_[k], true);
      evaluate<Dual<6>>(dual_, t, [&](std::size_t i, const Dual<6>& x) {
        for (std::size_t j = 0; j < 6; ++j) out.A[(i * K + k) * 6 + j] = x.grad[j];
        if constexpr (level_ == Level::acceleration) out.b[i] = -x.value;  // (T3)
      });
      dual_[k] = seed(X[k], R_[k], false);
    }
    if constexpr (level_ == Level::acceleration) {
      for (double& x : out.position) x = 0;
      for (double& x : out.velocity) x = 0;
      return;
    } else {
      for (std::size_t k = 0; k < K; ++k) {
        if constexpr (level_ == Level::position)
          taylor_[k] = AutodiffSeed::moved(X[k], R_[k]);
        else
          taylor_[k] = AutodiffSeed::moving(X[k], R_[k]);
      }
      evaluate<Taylor>(taylor_, Taylor(t, 1, 0), [&](std::size_t i, const Taylor& x) {
        out.position[i] = level_ == Level::position ? x.c0 : 0;
        out.velocity[i] = level_ == Level::position ? x.c1 : x.c0;
        out.b[i] = level_ == Level::position ? -2 * x.c2 : -x.c1;  // (T3)
      });
    }
  }

 private:
  static View<Dual<6>> seed(const BodyState& s, const Matrix3d& R, bool seeded) {
    if constexpr (level_ == Level::position)
      return AutodiffSeed::displaced(s, R, seeded);
    else if constexpr (level_ == Level::velocity)
      return AutodiffSeed::velocity(s, R, seeded);
    else
      return AutodiffSeed::acceleration(s, R, seeded);
  }

  template <class T, class Sink>
  void evaluate(const std::vector<View<T>>& views, const T& t, Sink sink) const {
    const auto result = f_(ResidualArgs<View, T>{views, t});
    using Traits = row_traits<std::remove_cvref_t<decltype(result)>>;
    static_assert(Traits::count == rows_,
                  "linchpin: a residual must return the same number of rows for every number type");
    Traits::each(result, [&](int i, const auto& x) { sink(static_cast<std::size_t>(i), x); });
  }

  F f_;
  RowUnit unit_;
  // One per body, sized once, so that an evaluation does not allocate. They carry nothing from call to call.
  mutable std::vector<Matrix3d> R_;
  mutable std::vector<View<Dual<0>>> plain_;
  mutable std::vector<View<Dual<6>>> dual_;
  mutable std::vector<View<Taylor>> taylor_;
};

template <class Function, class F>
Constraint from_residual(std::string name, std::vector<BodyId> bodies, F f, RowUnit unit) {
  const std::size_t K = bodies.size();
  return {std::move(name), std::move(bodies), std::make_unique<Function>(std::move(f), K, unit)};
}

}  // namespace detail

template <class Phi>
Constraint holonomic(std::string name, std::vector<BodyId> bodies, Phi phi, RowUnit unit) {
  return detail::from_residual<detail::HolonomicFunction<Phi>>(std::move(name), std::move(bodies), std::move(phi),
                                                               unit);
}

template <class Psi>
Constraint nonholonomic(std::string name, std::vector<BodyId> bodies, Psi psi) {
  return detail::from_residual<detail::NonholonomicFunction<Psi>>(std::move(name), std::move(bodies), std::move(psi),
                                                                  RowUnit::custom);
}

template <class Alpha>
Constraint on_acceleration(std::string name, std::vector<BodyId> bodies, Alpha alpha) {
  return detail::from_residual<detail::AccelerationFunction<Alpha>>(std::move(name), std::move(bodies),
                                                                    std::move(alpha), RowUnit::custom);
}

}  // namespace linchpin
