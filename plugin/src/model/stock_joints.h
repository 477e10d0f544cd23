// The stock joints of a block in flat lists, and the functions that write their rows to where they belong. Assembly and
// the end-of-step Newton do this for every joint in every step, without a call, a copy or an allocation for each.
#pragma once

#include "model/primitives/list.h"

#include <linchpin/detail/alignment.h>
#include <linchpin/joints.h>

#include <algorithm>
#include <vector>

namespace linchpin::detail {

class ForceRows;

/// Returns the primitives of a constraint made by `joint`, or null for any other.
const JointRows* rows_of(const ConstraintFunction& function);

struct StockJoints {
  struct Joint {
    int constraint = 0, row = 0;  // in the block
    BodyId a, b;
    int slot_a = -1, slot_b = -1;  // in IslandLayout::bodies, −1 outside
    bool driven_a = false, driven_b = false;
    PrimitiveIndices first{};               // of its primitives; those of the next joint are their ends
    int alignment = -1;                     // −1: none
    const ForceRows* compliance = nullptr;  // some of its rows are springs, which the block does not have
  };
  template <class P>
  using List = std::vector<typename P::template Geometry<Vector3d>>;

  std::vector<Joint> joints;  // and one more at the end
  PrimitiveLists<List> primitives;
  std::vector<JointRows::Alignment> alignments;
  std::vector<int> others;  // constraints of the block that are none
  bool rigid = false;       // there are no others, and every body of the block has six columns

  int count() const { return std::max(0, static_cast<int>(joints.size()) - 1); }
  /// The primitives of a joint.
  PrimitiveRanges ranges(int joint) const {
    const auto i = static_cast<std::size_t>(joint);
    return {joints[i].first, joints[i + 1].first};
  }
  template <class P, class Visit>
  void for_each_of_joint(int joint, const Visit& visit) const {
    for_each_of<P>(ranges(joint), [&](std::size_t k) { visit(primitives.of<P>()[k]); });
  }
};

/// A body with its rotation matrix, which is made once for all rows on it.
struct TurnedBody {
  const BodyState& s;
  const Matrix3d& R;
};

/// The places of one row of A, b, φ and φ̇ of a joint. There are six columns for each of its two bodies.
struct JointRow {
  double *A, *B;
  double *b, *position, *velocity;
  void columns(int side, const Vector3d& linear, const Vector3d& angular) const {
    double* const to = side == 0 ? A : B;
    for (Eigen::Index i = 0; i < 3; ++i) to[i] = linear[i], to[i + 3] = angular[i];
  }
  // φ̇ includes no φ_t: a stock joint depends on time through its bodies alone.
  void values(double phi, double phi_dot, double right) const {
    *position = phi;
    *velocity = phi_dot;
    *b = right;
  }
};

/// One row of the value of a primitive.
inline double row_of_value(double value, int) { return value; }
inline double row_of_value(const Vector3d& value, int row) { return value[row]; }

/// Writes A, b, φ and φ̇ of one primitive. @param row  row(i) → JointRow
template <class P, class Fixed, class Row>
void write_rows(const Fixed& fixed, const TurnedBody& A, const TurnedBody& B, const Row& row) {
  const auto k = P::start(fixed, A.R, B.R, Vector3d(A.s.p - B.s.p));
  const auto motion = P::motion(k, A.s, B.s);
  for (int side = 0; side < 2; ++side) {
    int i = 0;
    P::for_each_row(k, side,
                    [&](const Vector3d& linear, const Vector3d& angular) { row(i++).columns(side, linear, angular); });
  }
  for (int i = 0; i < P::rows; ++i)
    row(i).values(row_of_value(k.phi, i), row_of_value(motion.phi_dot, i), row_of_value(motion.bias, i));
}

/// Writes rows in place of the first dots of a joint that is turned far: B turns back about the axis of its turn, the
/// shortest way. They are for moving poses only, so b is that of no motion.
template <class Row>
void write_misalignment(const Misalignment& off, int held, const TurnedBody& A, const TurnedBody& B, const Row& row) {
  for (int i = 0; i < held; ++i) {
    const Vector3d e = off.axes.col(i);
    const JointRow to = row(i);
    to.columns(0, Vector3d::Zero(), e);
    to.columns(1, Vector3d::Zero(), -e);
    to.values(-e.dot(off.turn), e.dot(A.s.w - B.s.w), 0);
  }
}

}  // namespace linchpin::detail
