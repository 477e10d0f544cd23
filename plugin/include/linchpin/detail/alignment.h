// Measures how far a joint is turned from the rotation that its dots define. Dots also vanish at other poses. This
// header is not for direct use.
#pragma once

#include <linchpin/export.h>
#include <linchpin/joints.h>

#include <Eigen/Geometry>

#include <algorithm>
#include <cmath>
#include <span>

namespace linchpin::detail {

/// Up to this angle the dots of a joint define the direction back to its rotation [rad].
inline constexpr double far_turn = 0.5, cosine_of_far = 0.87758256189037276;

struct Misalignment {
  bool far = false;  ///< The turn is beyond far_turn. The rest is valid only then.
  /// The rotation vector of B from its required rotation to its present one [rad] (W).
  Vector3d turn = Vector3d::Zero();
  Matrix3d axes = Matrix3d::Zero();  ///< The unit axes of the constrained rotation, in its first columns (W).
};

/// @param A, B  rotation matrices of the bodies
inline Misalignment misalignment(const JointRows::Alignment& alignment, const Matrix3d& A, const Matrix3d& B) {
  using Of = JointRows::Alignment::Of;
  constexpr double met = 1e-3;  // A direction or an angle near half a turn may be reached from either side.
  Misalignment out;
  if (alignment.of == Of::nothing) return out;
  const Matrix3d F = A * alignment.A, G = B * alignment.B;
  if (alignment.of == Of::orientation) {
    if (F.cwiseProduct(G).sum() > 1 + 2 * cosine_of_far) return out;  // The trace of FᵀG.
    const Eigen::AngleAxisd turn(Matrix3d(F.transpose() * G));
    out.axes = F;
    out.turn = turn.angle() * (F * turn.axis());
  } else if (alignment.of == Of::direction) {
    const Vector3d u = F.col(2), w = G.col(2);
    if (u.dot(w) > cosine_of_far) return out;
    const Vector3d n = u.cross(w);
    out.axes << F.col(0), F.col(1), Vector3d::Zero();
    if (n.norm() > met) out.turn = std::atan2(n.norm(), u.dot(w)) * n.normalized();
  } else {
    const bool in_b = alignment.of == Of::angle_in_b;
    const Matrix3d &of = in_b ? G : F, &other = in_b ? F : G;
    const double sine = of.col(1).dot(other.col(0)), cosine = of.col(0).dot(other.col(0));
    out.axes.col(0) = of.col(2);
    if (std::abs(sine) > met) out.turn = (in_b ? -1 : 1) * std::atan2(sine, cosine) * of.col(2);
  }
  out.far = out.turn.squaredNorm() > far_turn * far_turn;
  return out;
}

/// The angle by which a joint is turned from its required rotation [rad]. It is 0 where the dots define the way back.
inline double turned_away(const JointRows::Alignment& alignment, const Matrix3d& A, const Matrix3d& B) {
  const Misalignment off = misalignment(alignment, A, B);
  return off.far ? off.turn.norm() : 0;
}

/// The alignment of a constraint made by `joint`. It is null where there is none, and for any other constraint.
LINCHPIN_API const JointRows::Alignment* alignment_of(const ConstraintFunction& function);

/// Overwrites the rows of the dots by the way back, where such a constraint is turned far.
/// @return the angle [rad], or 0 where nothing is changed
LINCHPIN_API double linearize_way_back(const ConstraintFunction& function, std::span<const BodyState> X,
                                       Linearization out);

}  // namespace linchpin::detail
