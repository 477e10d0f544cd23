// The stock joints of a block in flat lists, and their rows written straight to where they belong: what assembly and
// the Newton of a step's end do for every joint in every step, without a call, a copy or an allocation for each.
#pragma once

#include <linchpin/detail/alignment.h>
#include <linchpin/joints.h>

#include <algorithm>
#include <vector>

namespace linchpin::detail {

/// The primitives of a constraint made by `joint`; null for any other.
const JointRows* rows_of(const ConstraintFunction& function);

struct StockJoints {
  struct Joint {
    int constraint = 0, row = 0;  // in the block
    BodyId a, b;
    int slot_a = -1, slot_b = -1;  // in Block::bodies, −1 outside
    bool driven_a = false, driven_b = false;
    int point = 0, axis = 0, dot = 0;  // first of each; the next joint's are the ends
    int alignment = -1;                // −1: none
  };
  std::vector<Joint> joints;  // and one more at the end
  std::vector<JointRows::Point> points;
  std::vector<JointRows::Axis> axes;
  std::vector<JointRows::Dot> dots;
  std::vector<JointRows::Alignment> alignments;
  std::vector<int> others;   // constraints of the block that are none
  bool rigid = false;        // there are no others, and every body of the block has six columns
  std::vector<double> arms;  // per point ‖p_AQ‖ and ‖p_BQ‖

  int count() const { return std::max(0, static_cast<int>(joints.size()) - 1); }
};

/// A body with its rotation matrix, made once for all rows on it.
struct TurnedBody {
  const BodyState& s;
  const Matrix3d& R;
};

/// Where one row of A, b, φ and φ̇ of a joint goes: six columns for each of its two bodies.
struct JointRow {
  double *A, *B;
  double *b, *position, *velocity;
  void columns(const Vector3d& linear_A, const Vector3d& angular_A, const Vector3d& linear_B,
               const Vector3d& angular_B) const {
    for (Eigen::Index i = 0; i < 3; ++i)
      A[i] = linear_A[i], A[i + 3] = angular_A[i], B[i] = linear_B[i], B[i + 3] = angular_B[i];
  }
  // φ̇ includes no φ_t: nothing made here depends on time but through its bodies.
  void values(double phi, double phi_dot, double right) const {
    *position = phi;
    *velocity = phi_dot;
    *b = right;
  }
};

// P: φ = p_A + r_A − p_B − r_B, row i along world axis i. @param row  row(i) → JointRow
template <class Row>
void write_point(const JointRows::Point& p, const TurnedBody& A, const TurnedBody& B, const Row& row) {
  const Vector3d rA = A.R * p.p_AQ, rB = B.R * p.p_BQ;
  const Vector3d vA = A.s.w.cross(rA), vB = B.s.w.cross(rB);
  const Vector3d phi = (A.s.p - B.s.p) + (rA - rB);
  const Vector3d phi_dot = A.s.v + vA - B.s.v - vB;
  const Vector3d b = B.s.w.cross(vB) - A.s.w.cross(vA);
  const JointRow x = row(0), y = row(1), z = row(2);  // angular parts: r_A × e and e × r_B
  x.columns({1, 0, 0}, {0, rA.z(), -rA.y()}, {-1, 0, 0}, {0, -rB.z(), rB.y()});
  x.values(phi.x(), phi_dot.x(), b.x());
  y.columns({0, 1, 0}, {-rA.z(), 0, rA.x()}, {0, -1, 0}, {rB.z(), 0, -rB.x()});
  y.values(phi.y(), phi_dot.y(), b.y());
  z.columns({0, 0, 1}, {rA.y(), -rA.x(), 0}, {0, 0, -1}, {-rB.y(), rB.x(), 0});
  z.values(phi.z(), phi_dot.z(), b.z());
}

// L: φ = u · d − d0 with u fixed in A and d = p_BQ − p_AQ.
inline void write_axis(const JointRows::Axis& axis, const TurnedBody& A, const TurnedBody& B, const JointRow& row) {
  const Vector3d u = A.R * axis.u_A, rA = A.R * axis.p_AQ, rB = B.R * axis.p_BQ;
  const Vector3d vA = A.s.w.cross(rA), vB = B.s.w.cross(rB);
  const Vector3d d = (B.s.p - A.s.p) + (rB - rA);
  const Vector3d d_dot = B.s.v + vB - A.s.v - vA, u_dot = A.s.w.cross(u);
  row.columns(-u, u.cross(rA + d), u, rB.cross(u));
  row.values(u.dot(d) - axis.d0, u_dot.dot(d) + u.dot(d_dot),
             -(A.s.w.cross(u_dot).dot(d) + 2 * u_dot.dot(d_dot) + u.dot(B.s.w.cross(vB) - A.s.w.cross(vA))));
}

// D: φ = u · w − c with u fixed in A and w in B.
inline void write_dot(const JointRows::Dot& dot, const TurnedBody& A, const TurnedBody& B, const JointRow& row) {
  const Vector3d u = A.R * dot.u_A, w = B.R * dot.w_B, n = u.cross(w);
  const Vector3d u_dot = A.s.w.cross(u), w_dot = B.s.w.cross(w);
  row.columns(Vector3d::Zero(), n, Vector3d::Zero(), -n);
  row.values(u.dot(w) - dot.c, n.dot(A.s.w - B.s.w),
             -(A.s.w.cross(u_dot).dot(w) + 2 * u_dot.dot(w_dot) + u.dot(B.s.w.cross(w_dot))));
}

// In place of the first dots of a joint that is turned far: B turns back about the axis of its turn, the shortest way.
// For moving poses only; b is that of no motion.
template <class Row>
void write_misalignment(const Misalignment& off, int held, const TurnedBody& A, const TurnedBody& B, const Row& row) {
  for (int i = 0; i < held; ++i) {
    const Vector3d e = off.axes.col(i);
    const JointRow to = row(i);
    to.columns(Vector3d::Zero(), e, Vector3d::Zero(), -e);
    to.values(-e.dot(off.turn), e.dot(A.s.w - B.s.w), 0);
  }
}

}  // namespace linchpin::detail
