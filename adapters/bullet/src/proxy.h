// A proxy represents a constraint of the user's own in the world, for Bullet's islands, sleeping and collision filters.
// Its rows are the constraint, linearised, for the steps that Bullet's own solver takes (fallback, shadow,
// Mode::passive).
#pragma once

#include <linchpin/bullet.h>
#include <linchpin/host.h>

namespace LINCHPIN_BULLET_NAMESPACE {

class Proxy final : public btTypedConstraint {
 public:
  /// @param first, second  which of the constraint's bodies this one joins; second −1: to the world.
  Proxy(const host::ConstraintSolver& solver, int entry, btRigidBody& a, btRigidBody& b, int first, int second);

  void getInfo1(btConstraintInfo1* info) override;
  void getInfo2(btConstraintInfo2* info) override;
  void setParam(int, btScalar, int) override {}
  btScalar getParam(int, int) const override { return 0; }

 private:
  const host::ConstraintSolver& solver_;
  int entry_;
  int first_, second_;
};

}  // namespace LINCHPIN_BULLET_NAMESPACE
