// Which rows of a stock joint are equalities that linchpin can hold exactly, and which stay with Bullet. Classified by
// limits and flags, never by how many rows Bullet emits (an axis exactly on its limit may emit none).
#pragma once

#include <linchpin/bullet.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

/// What became of one stock joint, as far as it is remembered of each of very many.
struct JointSummary {
  bool row_axes_world = true;        ///< Bullet's own linear rows lie along the world's axes
  bool may_emit_native = false;      ///< limits, motors or springs that Bullet keeps
  std::array<bool, 6> exact_axis{};  ///< 6dof: linear x y z, angular x y z
  bool limit_locked = false;         ///< hinge: its limit row is an equality; slider: see exact_axis 0 and 3
  bool swing_locked = false, twist_locked = false;  ///< cone-twist
  std::shared_ptr<ConstraintFunction> function;     ///< in place of rows: a gear
  std::string native;                               ///< what stays native and why; empty when nothing does
};

/// And what it is made of.
struct JointShape : JointSummary {
  JointRows rows;  ///< exact part, in the bodies' own axes; empty when all is native
  Vector3d acting_A = Vector3d::Zero(), acting_B = Vector3d::Zero();
  Matrix3d row_axes_A =
      Matrix3d::Identity();  ///< axes in A along which Bullet's own linear rows lie (breaking is per row)

  bool any_exact() const { return function || !rows.points.empty() || !rows.axes.empty() || !rows.dots.empty(); }
};

/// "hinge", "slider", "6dof-spring2", … for names and reports.
const char* kind_of(const btTypedConstraint& joint);

/// @return the shape of a joint as it is configured now.
JointShape classify(btTypedConstraint& joint);

/// Bullet's classes of joints, derived ones with their base.
enum class JointKind { point_to_point, hinge, slider, spring2, six_dof, cone_twist, gear, other };
JointKind joint_kind(const btTypedConstraint& joint);

/// Numbers that classify() depends on, as many as the kind of joint has; when they change, the joint is classified
/// again.
int count_numbers(btTypedConstraint& joint, JointKind kind);
void read_numbers(btTypedConstraint& joint, JointKind kind, double* out);
/// Cheap, no allocation.
bool unchanged(btTypedConstraint& joint, JointKind kind, const double* as);
/// Where in a joint those numbers lie, in bytes from its beginning; nowhere where it is not known.
struct Reach {
  unsigned short at = 0, size = 0;
};
Reach reach_of_numbers(const btTypedConstraint& joint, JointKind kind);

/// The native part of a joint that is otherwise exact: emits only the rows of Bullet's own that linchpin does not hold.
/// Stands in for the joint in the list handed to the native solver.
class NativePart final : public btTypedConstraint {
 public:
  NativePart(btTypedConstraint& joint, const JointSummary& shape);
  btTypedConstraint& joint() const { return joint_; }

  void buildJacobian() override { joint_.buildJacobian(); }
  void getInfo1(btConstraintInfo1* info) override;
  void getInfo2(btConstraintInfo2* info) override;
  void setParam(int, btScalar, int) override {}
  btScalar getParam(int, int) const override { return 0; }
  /// Rows of the joint that are Bullet's, in the joint's own order, given that getInfo1 has just been called on it.
  static int native_rows(btTypedConstraint& joint, const JointSummary& shape, int emitted, std::array<int, 24>& rows);

 private:
  btTypedConstraint& joint_;
  const JointSummary& shape_;
  int emitted_ = 0, kept_ = 0;
  std::array<int, 24> rows_{};
};

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
