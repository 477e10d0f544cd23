// The second-order cone {x : x₀ ≥ |(x₁, x₂, …)|} and the scaling by Nesterov and Todd of two points inside it, as
// interior-point methods use it. The formulas are those of Alizadeh and Goldfarb, Second-order cone programming,
// Mathematical Programming 95 (2003). Contains no mechanics. Private to the core.
#pragma once

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <limits>

namespace linchpin::detail {

/// A vector of 1 + 6 numbers. The number at 0 is the one along the axis of the cone. Cones of fewer dimensions have
/// zeros at the end.
using ConeVector = Eigen::Matrix<double, 7, 1>;

/// x₀² − |(x₁, x₂, …)|², the product of the two eigenvalues of x. It is positive inside the cone.
inline double cone_determinant(const ConeVector& x) {
  const double size = x.tail<6>().norm();
  return (x[0] - size) * (x[0] + size);
}

/// The Jordan product x ∘ y, with the unit (1, 0, …).
inline ConeVector cone_product(const ConeVector& x, const ConeVector& y) {
  ConeVector out = x[0] * y + y[0] * x;
  out[0] = x.dot(y);
  return out;
}

/// The vector q with x ∘ q = y. @param x  inside the cone
inline ConeVector cone_quotient(const ConeVector& x, const ConeVector& y) {
  ConeVector out;
  out[0] = (x[0] * y[0] - x.tail<6>().dot(y.tail<6>())) / cone_determinant(x);
  out.tail<6>() = (y.tail<6>() - out[0] * x.tail<6>()) / x[0];
  return out;
}

/// The largest a, possibly infinite, for which x + a d is in the cone. @param x  inside the cone
inline double step_to_cone_boundary(const ConeVector& x, const ConeVector& d) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  // det(x + a d) = det x + 2 a p + a² det d
  const double p = x[0] * d[0] - x.tail<6>().dot(d.tail<6>()), c = cone_determinant(x), square = cone_determinant(d);
  const double root = p * p - c * square;
  if (!(root >= 0)) return infinity;
  const double q = -(p + std::copysign(std::sqrt(root), p));
  double least = infinity;
  if (q != 0 && c / q > 0) least = std::min(least, c / q);
  if (square != 0 && q / square > 0) least = std::min(least, q / square);
  return least;
}

/// The linear map H with H x = s that preserves the cone. It makes one vector λ = H^½ x = H^−½ s of two points x and s
/// inside the cone.
class ConeScaling {
 public:
  ConeScaling() : w_(ConeVector::Zero()), root_(ConeVector::Zero()) {}
  ConeScaling(const ConeVector& x, const ConeVector& s) {
    const double x_size = std::sqrt(cone_determinant(x)), s_size = std::sqrt(cone_determinant(s));
    const ConeVector s_unit = s / s_size, x_unit = x / x_size;
    ratio_ = s_size / x_size;
    w_ = s_unit + reflected(x_unit);
    w_ /= std::sqrt(2 * (1 + x_unit.dot(s_unit)));
    root_ = w_;
    root_[0] += 1;
    root_ /= std::sqrt(2 * root_[0]);
  }

  /// H = ratio (2 w wᵀ − J), J = diag(1, −1, −1, …).
  double ratio() const { return ratio_; }
  const ConeVector& w() const { return w_; }
  /// H^½ x.
  ConeVector scale(const ConeVector& x) const { return std::sqrt(ratio_) * (2 * root_.dot(x) * root_ - reflected(x)); }
  /// H^−½ s.
  ConeVector scale_dual(const ConeVector& s) const {
    const ConeVector v = reflected(root_);
    return 1 / std::sqrt(ratio_) * (2 * v.dot(s) * v - reflected(s));
  }

 private:
  static ConeVector reflected(const ConeVector& x) {
    ConeVector out = -x;
    out[0] = x[0];
    return out;
  }

  double ratio_ = 1;
  ConeVector w_, root_;
};

}  // namespace linchpin::detail
