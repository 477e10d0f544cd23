// Friction of contacts on bodies with torques. Bullet leaves torques on a body out of the speed that a row of friction
// removes, so that the contact of a driven link would glide.
#include "world.h"

#include <gtest/gtest.h>

#include <cmath>

namespace linchpin::test::contact_torque_test {
namespace {

/// A box on the ground that carries another one, which does not touch the ground. Equal and opposite torques act on
/// both, as those of a motor do, and the joint takes them.
struct Tower {
  TestWorld w;
  btRigidBody& ground = w.box(0, btVector3(10, 1, 10), btVector3(0, -1, 0));
  btRigidBody& foot = w.box(1, btVector3(btScalar(0.2), btScalar(0.1), btScalar(0.2)), btVector3(0, btScalar(0.1), 0));
  btRigidBody& head = w.box(1, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), btVector3(0, btScalar(0.5), 0));
  Tower() { w.world.getSolverInfo().m_solverMode |= SOLVER_USE_2_FRICTION_DIRECTIONS; }
  void weld() {
    w.joint<btFixedConstraint>(foot, head, btTransform(btQuaternion::getIdentity(), btVector3(0, btScalar(0.4), 0)),
                               btTransform::getIdentity());
  }
  /// Returns the distance by which the foot has moved in 2 s [m].
  double run(const btVector3& torque) {
    for (int i = 0; i < 480; ++i) {
      foot.applyTorque(torque);
      head.applyTorque(-torque);
      w.step();
    }
    const btVector3 at = foot.getCenterOfMassPosition();
    return std::hypot(double(at.x()), double(at.z()));
  }
};

TEST(ContactTorque, TorquesBetweenExactLinksDoNotMoveTheContact) {
  for (const btVector3& torque : {btVector3(0, 0, 3), btVector3(3, 0, 0), btVector3(2, 0, -2)}) {
    Tower t;
    t.weld();
    bullet::Solver exact(t.w.world);
    EXPECT_LE(t.run(torque), precision(1e-4, 1e-3));
    EXPECT_LE(largest_gap(exact), precision(1e-12, 1e-6));
  }
}

// The same with Bullet alone: what the bound above is worth.
TEST(ContactTorque, TheNativeSolverGlidesThere) {
  Tower t;
  t.weld();
  EXPECT_GT(t.run(btVector3(0, 0, 3)), 0.1);
}

}  // namespace
}  // namespace linchpin::test::contact_torque_test
