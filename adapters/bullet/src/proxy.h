// The stand-in of a user's constraint in the world: what Bullet's islands, sleeping and collision filters know of it.
// Its rows are honest and linearised, for the steps that the native solver takes (fallback, shadow, Mode::observe).
#pragma once

#include <linchpin/bullet.h>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

class Proxy final : public btTypedConstraint {
 public:
  /// @param first, second  which of the constraint's bodies this one joins; second −1: to the world.
  Proxy(Engine& engine, int record, btRigidBody& a, btRigidBody& b, int first, int second);
  int record() const { return record_; }

  void getInfo1(btConstraintInfo1* info) override;
  void getInfo2(btConstraintInfo2* info) override;
  void setParam(int, btScalar, int) override {}
  btScalar getParam(int, int) const override { return 0; }

 private:
  Engine& engine_;
  int record_;
  int first_, second_;
};

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
