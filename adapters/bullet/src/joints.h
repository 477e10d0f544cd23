// Maps a stock joint to rows that linchpin can hold exactly, and says which of Bullet's own rows stay with Bullet. A
// joint is classified by limits and flags, never by how many rows Bullet emits: an axis exactly on its limit may emit
// none.
#pragma once

#include "bodies.h"

#include <linchpin/joint_mapping.h>

#include <array>
#include <cstdint>
#include <vector>

namespace LINCHPIN_BULLET_NAMESPACE {

struct RowList;
/// How a class of joints is mapped; a new one is a line in the table of joints.cpp.
struct JointClass {
  const char* name;  ///< "hinge", "slider", "6dof-spring2", … for names and reports
  bool (*is)(const btTypedConstraint&);
  /// Maps a joint as it is configured now.
  host::JointShape (*map)(btTypedConstraint&);
  /// A number for all settings that map() depends on. Where it has changed, the joint is mapped again.
  std::uint64_t (*settings)(btTypedConstraint&);
  void (*list_rows)(RowList&, btTypedConstraint&);
};
const JointClass& joint_class(const btTypedConstraint& joint);

/// Returns whether rows without bounds that stay with Bullet hold the joint both ways. Such rows of other joints are
/// motors.
bool is_held_by_own_rows(const btTypedConstraint& joint);

/// Rows of a joint that stay with Bullet, in the order of the joint's own, given that getInfo1 has just been called.
/// @param exact_axis  axes whose rows linchpin holds @param emitted  number of the joint's own rows
void find_native_rows(btTypedConstraint& joint, const std::array<bool, 6>& exact_axis, int emitted,
                      std::vector<int>& rows);

/// Stands for a joint in the list of Bullet's solver, and emits only the rows that stay with Bullet.
class NativePart final : public btTypedConstraint {
 public:
  NativePart(btTypedConstraint& joint, const std::array<bool, 6>& exact_axis)
      : btTypedConstraint(joint.getConstraintType(), joint.getRigidBodyA(), joint.getRigidBodyB()),
        joint_(joint),
        exact_axis_(exact_axis) {}

  void buildJacobian() override { joint_.buildJacobian(); }
  void getInfo1(btConstraintInfo1* info) override;
  void getInfo2(btConstraintInfo2* info) override;
  void setParam(int, btScalar, int) override {}
  btScalar getParam(int, int) const override { return 0; }

 private:
  btTypedConstraint& joint_;
  const std::array<bool, 6> exact_axis_;
  std::vector<int> rows_;
};

}  // namespace LINCHPIN_BULLET_NAMESPACE
