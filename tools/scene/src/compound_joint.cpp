// The pose of frame B in frame A is the product of the poses along the chain. The coordinates q of a pose are those of
// the nearest pose of the chain, by Newton's method from the last q. With ξ the error of the pose and S its
// derivative by q, they satisfy Sᵀξ = 0. Where ξ = 0, two derivatives by time give
//
//   q̇ = S⁺V,   ξ̇ = V − S q̇,   q̈ = S⁺(V̇ − Ṡ q̇ − c) + 2 (SᵀS)⁻¹ Ṡᵀ ξ̇,
//   φ = Nᵀξ,   φ̇ = Nᵀ V,      φ̈ = Nᵀ(V̇ − Ṡ q̇ − c) + 2 Ṅᵀ ξ̇,
//
// where c = [0; (ω − ω_F) × ω_F] is the curvature of the rotation vector. N is N₀ less its part in the range of S. N₀
// is the basis at the last accepted step. It keeps its signs, so N is smooth in time. All twists are those of the
// origin of frame B, in the axes of frame A, with the linear part first. Angular parts are multiplied by a length.
#include "compound_joint.h"

#include "robot_file.h"

#include <Eigen/Dense>

#include <algorithm>
#include <cmath>
#include <utility>

namespace linchpin::scene {

namespace {

constexpr int most = 6;  // coordinates
using Columns = Eigen::Matrix<double, 6, Eigen::Dynamic, Eigen::ColMajor, 6, most>;
using Values = CoordinateValues;
using Twist = Eigen::Matrix<double, 6, 1>;

/// Singular values of S that are smaller than this, relative to the largest, count as zero. The coordinate along such a
/// direction does not follow the motion.
constexpr double least_singular_value = 1e-6;

// A length with which angles [rad] and shifts [m] of the chain are comparable: its extent at the start. A chain of axes
// through one point has none, and takes 1 m.
double length_of(const CompoundJoint& joint) {
  double extent = joint.tip.norm();
  for (std::size_t k = 1; k < joint.coordinates.size(); ++k)
    extent = std::max(extent, joint.coordinates[k].before.p.norm());
  return extent > 1e-3 ? extent : 1;
}

// The chain at q and q̇.
struct Motion {
  Vector3d p = Vector3d::Zero();  // origin of frame B in frame A
  Matrix3d R = Matrix3d::Identity();
  Vector3d w = Vector3d::Zero();  // its angular velocity
  Columns S, S_dot;
  // Of the coordinates; and the motion of what each axis is fixed in, at the origin.
  Eigen::Matrix<double, 3, Eigen::Dynamic, Eigen::ColMajor, 3, most> axis, origin, origin_dot, turning;
};

Motion motion_of(const CompoundJoint& joint, double length, const Values& q, const Values& rate) {
  const auto k = static_cast<Eigen::Index>(joint.coordinates.size());
  Motion out;
  out.S.setZero(6, k), out.S_dot.setZero(6, k);
  Vector3d v = Vector3d::Zero();  // of the origin at p
  auto &axis = out.axis, &origin = out.origin, &origin_dot = out.origin_dot;
  for (auto* each : {&axis, &origin, &origin_dot, &out.turning}) each->resize(3, k);
  Eigen::Matrix<double, 3, Eigen::Dynamic, Eigen::ColMajor, 3, most> axis_dot(3, k);
  for (Eigen::Index i = 0; i < k; ++i) {
    const CompoundJoint::Coordinate& each = joint.coordinates[static_cast<std::size_t>(i)];
    const Vector3d step = out.R * each.before.p;
    v += out.w.cross(step), out.p += step;
    out.R = out.R * each.before.q.toRotationMatrix();
    const Vector3d a = out.R * each.axis;
    axis.col(i) = a, axis_dot.col(i) = out.w.cross(a);
    origin.col(i) = out.p, origin_dot.col(i) = v, out.turning.col(i) = out.w;
    if (each.slides) {
      v += out.w.cross(a) * q[i] + a * rate[i], out.p += a * q[i];
    } else {
      out.R = out.R * Eigen::AngleAxisd(q[i], each.axis).toRotationMatrix();
      out.w += a * rate[i];
    }
  }
  const Vector3d step = out.R * joint.tip;
  v += out.w.cross(step), out.p += step;
  for (Eigen::Index i = 0; i < k; ++i) {
    const Vector3d a = axis.col(i), a_dot = axis_dot.col(i);
    if (joint.coordinates[static_cast<std::size_t>(i)].slides) {
      out.S.col(i).head<3>() = a, out.S_dot.col(i).head<3>() = a_dot;
      continue;
    }
    const Vector3d arm = out.p - origin.col(i), arm_dot = v - origin_dot.col(i);
    out.S.col(i) << a.cross(arm), length * a;
    out.S_dot.col(i) << a_dot.cross(arm) + a.cross(arm_dot), length * a_dot;
  }
  return out;
}

// S by its singular values.
struct Range {
  explicit Range(const Columns& S) {
    // With a fixed number of rows, assertions of Eigen 3.4 fail for fewer columns.
    using Any = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor, 6, most>;
    const Eigen::JacobiSVD<Any> svd(S, Eigen::ComputeThinU | Eigen::ComputeThinV);
    const auto& sigma = svd.singularValues();
    while (rank < S.cols() && sigma[rank] > least_singular_value * sigma[0]) ++rank;
    U = svd.matrixU().leftCols(rank);
    inverse.setZero(S.cols(), 6);
    for (Eigen::Index i = 0; i < rank; ++i) inverse += svd.matrixV().col(i) * (U.col(i).transpose() / sigma[i]);
  }
  Columns outside(const Columns& N) const { return N - U * (U.transpose() * N); }
  Eigen::Index rank = 0;
  Columns U;                                                                   // its range
  Eigen::Matrix<double, Eigen::Dynamic, 6, Eigen::ColMajor, most, 6> inverse;  // S⁺
};

// S⁺ξ for Newton's method: by the normal equations where they are accurate enough, which cost a tenth.
Values nearest_step(const Columns& S, const Twist& error) {
  using Square = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor, most, most>;
  const Eigen::LDLT<Square> normal(Square(S.transpose() * S));
  if (normal.vectorD().minCoeff() > 1e-6 * normal.vectorD().maxCoeff())
    return normal.solve(Values(S.transpose() * error));
  return Range(S).inverse * error;
}

// Gram and Schmidt, in the order of the columns. @return whether they are independent
bool orthonormalize(Columns& N) {
  for (Eigen::Index i = 0; i < N.cols(); ++i) {
    for (int twice = 0; twice < 2; ++twice)
      for (Eigen::Index j = 0; j < i; ++j) N.col(i) -= N.col(j).dot(N.col(i)) * N.col(j);
    const double size = N.col(i).norm();
    if (!(size > 1e-3)) return false;
    N.col(i) /= size;
  }
  return true;
}

// A basis of the complement with as many zeros as there are: the unit vectors that are nearest to it.
Columns complement_of(const Range& range) {
  const Eigen::Index rows = 6 - range.rank;
  Columns N(6, rows);
  for (Eigen::Index i = 0; i < rows; ++i) {
    double best = 0;
    Twist chosen = Twist::Zero();
    for (Eigen::Index e = 0; e < 6; ++e) {
      Twist x = Twist::Unit(e);
      for (int twice = 0; twice < 2; ++twice) {
        x -= range.U * (range.U.transpose() * x);
        x -= N.leftCols(i) * (N.leftCols(i).transpose() * x);
      }
      if (x.norm() > best + 1e-9) best = x.norm(), chosen = x;
    }
    N.col(i) = chosen.normalized();
    for (Eigen::Index e = 0; e < 6; ++e)
      if (std::abs(N(e, i)) < 1e-15) N(e, i) = 0;
  }
  return N;
}

// Coordinates around the start, in no special pose, the same on every machine.
constexpr int samples = 8;
Values sample(const CompoundJoint& joint, double length, int number, double size = 1.2) {
  Values q = start_values(joint);
  for (Eigen::Index i = 0; i < q.size(); ++i) {
    const double x = std::fmod(0.6180339887498949 * (7.0 * number + double(i) + 1), 1.0);
    const bool slides = joint.coordinates[static_cast<std::size_t>(i)].slides;
    q[i] += size * (2 * x - 1) * (slides ? length : 1);
  }
  return q;
}

Range range_at(const CompoundJoint& joint, double length, const Values& q) {
  return Range(motion_of(joint, length, q, Values::Zero(q.size())).S);
}

// Frame B relative to frame A, both at the state of their bodies.
struct Relative {
  Relative(const CompoundJoint& joint, double length, const BodyState& A, const BodyState& B)
      : R_A((A.q * Quaterniond(Eigen::Quaterniond(joint.frame_A.axes))).toRotationMatrix()),
        r_A(A.q * joint.frame_A.origin),
        r_B(B.q * joint.frame_B.origin),
        d(B.p - A.p + (r_B - r_A)) {
    const Matrix3d R_B = (B.q * Quaterniond(Eigen::Quaterniond(joint.frame_B.axes))).toRotationMatrix();
    p = R_A.transpose() * d;
    R = R_A.transpose() * R_B;
    const Vector3d d_dot = B.v + B.w.cross(r_B) - A.v - A.w.cross(r_A);
    w = R_A.transpose() * (B.w - A.w);
    V << R_A.transpose() * (d_dot - A.w.cross(d)), length * w;
    const Vector3d d_ddot = B.w.cross(B.w.cross(r_B)) - A.w.cross(A.w.cross(r_A));
    V_dot << R_A.transpose() * (d_ddot - 2 * A.w.cross(d_dot) + A.w.cross(A.w.cross(d))),
        length * (R_A.transpose() * -A.w.cross(B.w));
  }
  Matrix3d R_A;          // axes of frame A, world
  Vector3d r_A, r_B, d;  // the origins from the centres of mass, and from A to B; world
  Vector3d p;            // the rest in the axes of frame A
  Matrix3d R;
  Vector3d w;
  Twist V, V_dot;  // V̇ without accelerations of the bodies
};

Twist pose_error(const Relative& at, const Motion& chain, double length) {
  const Eigen::AngleAxisd turn(Eigen::Quaterniond(Matrix3d(at.R * chain.R.transpose())).normalized());
  Twist out;
  out << at.p - chain.p, length * std::remainder(turn.angle(), 2 * EIGEN_PI) * turn.axis();
  return out;
}

// Coordinates of the nearest pose of the chain, from the last ones.
Values nearest(const CompoundJoint& joint, double length, const Relative& at, Values q) {
  const Values rest = Values::Zero(q.size());
  double before = 1;
  for (int i = 0; i < 30; ++i) {
    const Motion chain = motion_of(joint, length, q, rest);
    Values step = nearest_step(chain.S, pose_error(at, chain, length));
    const double size = step.lpNorm<Eigen::Infinity>();
    if (!std::isfinite(size)) break;
    double turn = 0;
    for (Eigen::Index k = 0; k < q.size(); ++k)
      if (!joint.coordinates[static_cast<std::size_t>(k)].slides) turn = std::max(turn, std::abs(step[k]));
    if (turn > 1) step /= turn;  // A whole step of Newton's method could lead to another branch.
    q += step;
    if (size < 1e-14 || (size < 1e-10 && size >= 0.5 * before)) break;
    before = size;
  }
  return q;
}

// The chain at the pose and the velocities of the bodies.
struct Solution {
  Solution(const CompoundJoint& joint, double length, const Relative& at, const Values& last)
      : q(nearest(joint, length, at, last)),
        range(motion_of(joint, length, q, Values::Zero(q.size())).S),
        rate(range.inverse * at.V),
        chain(motion_of(joint, length, q, rate)),
        error(pose_error(at, chain, length)),
        error_dot(at.V - chain.S * rate) {
    curvature << Vector3d::Zero(), length * (at.w - chain.w).cross(chain.w);
  }
  Values q;
  Range range;
  Values rate;
  Motion chain;
  Twist error, error_dot, curvature;
};

// The row n · V on the velocities of the bodies.
CoordinateRow row_of(const Twist& n, double length, const Relative& at) {
  const Vector3d f = at.R_A * n.head<3>(), m = at.R_A * (length * n.tail<3>());
  CoordinateRow out;
  out.linear_P = -f, out.angular_P = -((at.r_A + at.d).cross(f) + m);
  out.linear_C = f, out.angular_C = at.r_B.cross(f) + m;
  return out;
}

// That row of a Linearization. What of b the accelerations of kinematic bodies are, is part of it.
void write_row(const CoordinateRow& from, std::size_t row, std::span<const BodyState> X, Linearization out) {
  double* A = &out.A[12 * row];
  Eigen::Map<Vector3d>(A + 0) = from.linear_P;
  Eigen::Map<Vector3d>(A + 3) = from.angular_P;
  Eigen::Map<Vector3d>(A + 6) = from.linear_C;
  Eigen::Map<Vector3d>(A + 9) = from.angular_C;
  out.b[row] = from.b;
  for (std::size_t k = 0; k < 2; ++k)
    out.b[row] -=
        Eigen::Map<const Vector3d>(A + 6 * k).dot(X[k].a) + Eigen::Map<const Vector3d>(A + 6 * k + 3).dot(X[k].alpha);
}

class CompoundFunction final : public ConstraintFunction {
 public:
  explicit CompoundFunction(const CompoundJoint& joint)
      : joint_(joint), length_(length_of(joint)), last_(start_values(joint)) {
    const Eigen::Index k = last_.size();
    std::vector<Range> ranges;
    for (int i = 0; i < samples; ++i) {
      Range range = range_at(joint_, length_, sample(joint_, length_, i));
      if (range.rank == k) ranges.push_back(std::move(range));
    }
    if (!ranges.empty()) {
      N_ = complement_of(ranges.front());
      constant_ = std::all_of(ranges.begin(), ranges.end(),
                              [&](const Range& r) { return (r.U.transpose() * N_).norm() < 1e-12; });
    }
    if (!constant_) {
      const Range start = range_at(joint_, length_, last_);
      if (start.rank == k) {
        N_ = complement_of(start);
      } else {  // the limit of the complements beside this singular pose
        N_ = start.outside(complement_of(range_at(joint_, length_, sample(joint_, length_, 0, 1e-3))));
        (void)orthonormalize(N_);
      }
    }
    scale_.setOnes(N_.cols());
    for (Eigen::Index i = 0; constant_ && i < N_.cols(); ++i)
      if (N_.col(i).head<3>().isZero()) scale_[i] = 1 / length_;
  }
  std::unique_ptr<ConstraintFunction> clone() const override { return std::make_unique<CompoundFunction>(*this); }
  int bodies() const override { return 2; }
  Level level() const override { return Level::position; }
  int rows() const override { return static_cast<int>(N_.cols()); }
  RowUnit unit(int row) const override {
    return constant_ && N_.col(row).head<3>().isZero() ? RowUnit::radian : RowUnit::metre;
  }

  void residual(std::span<const BodyState> X, double, std::span<double> out) const override {
    const Relative at(joint_, length_, X[0], X[1]);
    const Motion chain = motion_of(joint_, length_, nearest(joint_, length_, at, last_), Values::Zero(last_.size()));
    const Twist error = pose_error(at, chain, length_);
    const Columns N = constant_ ? N_ : Range(chain.S).outside(N_);
    for (Eigen::Index i = 0; i < N.cols(); ++i) out[static_cast<std::size_t>(i)] = scale_[i] * N.col(i).dot(error);
  }

  void linearize(std::span<const BodyState> X, double, Linearization out) const override {
    const Relative at(joint_, length_, X[0], X[1]);
    const Solution now(joint_, length_, at, last_);
    const Columns N = constant_ ? N_ : now.range.outside(N_);
    Twist acceleration = at.V_dot - now.curvature;
    Values turning = Values::Zero(N.cols());  // Ṅᵀξ̇
    if (!constant_) {                         // otherwise Ṡ is in the range of S
      acceleration -= now.chain.S_dot * now.rate;
      turning = -((now.range.inverse * N_).transpose() * (now.chain.S_dot.transpose() * now.error_dot));
    }
    for (Eigen::Index i = 0; i < N.cols(); ++i) {
      const Twist n = scale_[i] * N.col(i);
      const auto row = static_cast<std::size_t>(i);
      CoordinateRow of_n = row_of(n, length_, at);
      of_n.b = -(n.dot(acceleration) + 2 * scale_[i] * turning[i]);
      write_row(of_n, row, X, out);
      out.position[row] = n.dot(now.error);
      out.velocity[row] = n.dot(at.V);
    }
  }

  void accept(std::span<const BodyState> X, double) override {
    const Relative at(joint_, length_, X[0], X[1]);
    last_ = nearest(joint_, length_, at, last_);
    if (constant_) return;
    const Range range = range_at(joint_, length_, last_);
    if (range.rank < last_.size()) return;  // The rows of the last pose that is not singular stay.
    Columns N = range.outside(N_);
    N_ = orthonormalize(N) ? N : complement_of(range);
  }
  std::vector<double> internal_state() const override {
    std::vector<double> out(last_.data(), last_.data() + last_.size());
    out.insert(out.end(), N_.data(), N_.data() + N_.size());
    return out;
  }
  void set_internal_state(std::span<const double> kept) override {
    if (kept.size() != static_cast<std::size_t>(last_.size() + N_.size())) return;
    std::copy_n(kept.begin(), last_.size(), last_.data());
    std::copy_n(kept.begin() + last_.size(), N_.size(), N_.data());
  }

 private:
  CompoundJoint joint_;
  double length_;
  Values last_;            // coordinates at the last accepted step
  Columns N_;              // a basis of the complement of S at last_, orthonormal
  bool constant_ = false;  // The complement is the same in every pose, as of a ball joint and of a planar one.
  Values scale_;           // of the rows: those without a force are angles
};

}  // namespace

void move_to_common_point(CompoundJoint& joint) {
  const auto turns = [](const CompoundJoint::Coordinate& c) { return !c.slides; };
  if (!std::all_of(joint.coordinates.begin(), joint.coordinates.end(), turns)) return;
  // The point with the least distances to all axes, in frame A at the start.
  Matrix3d normal = Matrix3d::Zero();
  Vector3d right = Vector3d::Zero();
  Pose at;
  std::vector<std::pair<Vector3d, Matrix3d>> lines;  // origin, and what is across the axis
  for (const CompoundJoint::Coordinate& each : joint.coordinates) {
    at = at * each.before;
    const Vector3d axis = at.q * each.axis;
    const Matrix3d across = Matrix3d::Identity() - axis * axis.transpose();
    lines.emplace_back(at.p, across);
    normal += across, right += across * at.p;
    Pose turn;
    turn.q = Quaterniond(Eigen::Quaterniond(Eigen::AngleAxisd(each.start, each.axis)));
    at = at * turn;
  }
  const Eigen::FullPivLU<Matrix3d> lu(normal);
  if (std::abs(lu.determinant()) < 1e-9) return;  // parallel axes
  const Vector3d point = lu.solve(right);
  for (const auto& [origin, across] : lines)
    if ((across * (point - origin)).norm() > 1e-12 * std::max(1.0, (point - origin).norm())) return;
  const Vector3d tip = at.q.conjugate() * Vector3d(point - at.p), shift = tip - joint.tip;
  // Frame B has the axes of the frame after the last coordinate.
  joint.frame_B.origin += joint.frame_B.axes * shift;
  joint.tip = tip;
}

Freedom freedom(const CompoundJoint& joint) {
  const double length = length_of(joint);
  Freedom out;
  for (int i = 0; i < samples; ++i)
    out.rank = std::max(out.rank, static_cast<int>(range_at(joint, length, sample(joint, length, i)).rank));
  out.singular_start = static_cast<int>(range_at(joint, length, start_values(joint)).rank) < out.rank;
  return out;
}

Constraint compound_joint(BodyId a, BodyId b, const CompoundJoint& joint) {
  Constraint out(joint.name, {a, b}, std::make_unique<CompoundFunction>(joint));
  out.set_application_points({joint.frame_A.origin, joint.frame_B.origin}).set_sliding_body(1);
  return out;
}

CoordinateValues start_values(const CompoundJoint& joint) {
  CoordinateValues q(static_cast<Eigen::Index>(joint.coordinates.size()));
  for (Eigen::Index i = 0; i < q.size(); ++i) q[i] = joint.coordinates[static_cast<std::size_t>(i)].start;
  return q;
}

CoordinateRow compound_row(const CompoundJoint& joint, int which, const BodyState& A, const BodyState& B,
                           const CoordinateValues& near) {
  const double length = length_of(joint);
  const Relative at(joint, length, A, B);
  const Solution now(joint, length, at, near);
  const Twist n = now.range.inverse.row(which).transpose();
  const Twist acceleration = at.V_dot - now.chain.S_dot * now.rate - now.curvature;
  const Values across =
      now.range.inverse * (now.range.inverse.transpose() * (now.chain.S_dot.transpose() * now.error_dot));
  CoordinateRow out = row_of(n, length, at);
  out.value = now.q[which], out.rate = now.rate[which];
  out.b = -(n.dot(acceleration) + 2 * across[which]);
  out.axis = at.R_A * now.chain.axis.col(which);
  out.point = A.p + at.r_A + at.R_A * now.chain.origin.col(which);
  out.v = A.v + A.w.cross(out.point - A.p) + at.R_A * now.chain.origin_dot.col(which);
  out.w = A.w + at.R_A * now.chain.turning.col(which);
  out.values = now.q;
  return out;
}

}  // namespace linchpin::scene
