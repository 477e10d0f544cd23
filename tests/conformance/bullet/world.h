// A Bullet world that owns what is put into it, so that tests read as scenes.
#pragma once

#include <linchpin/bullet.h>

#include <BulletDynamics/ConstraintSolver/btFixedConstraint.h>
#include <BulletDynamics/ConstraintSolver/btGeneric6DofSpring2Constraint.h>
#include <BulletDynamics/ConstraintSolver/btUniversalConstraint.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

namespace linchpin::test {

inline constexpr bool single = sizeof(btScalar) == 4;
/// What a test may ask of the host's arithmetic: `d` in double, `s` in single precision.
inline double precision(double d, double s) { return single ? s : d; }
inline constexpr double pi = 3.14159265358979323846;

class TestWorld {
 public:
  explicit TestWorld(double gravity = 9.81, btConstraintSolver* solver = nullptr, bool own_solver = true)
      : dispatcher(&config),
        native(own_solver && !solver ? new btSequentialImpulseConstraintSolver : nullptr),
        world(&dispatcher, &broadphase, solver ? solver : native.get(), &config) {
    world.setGravity(btVector3(0, btScalar(-gravity), 0));
  }
  ~TestWorld() {
    while (world.getNumConstraints() > 0) world.removeConstraint(world.getConstraint(0));
    while (world.getNumCollisionObjects() > 0) world.removeCollisionObject(world.getCollisionObjectArray()[0]);
  }

  btRigidBody& box(double mass, const btVector3& half, const btVector3& at,
                   const btQuaternion& turn = btQuaternion::getIdentity()) {
    shapes.push_back(std::make_unique<btBoxShape>(half));
    return body(mass, *shapes.back(), at, turn);
  }
  btRigidBody& ball(double mass, double radius, const btVector3& at) {
    shapes.push_back(std::make_unique<btSphereShape>(btScalar(radius)));
    return body(mass, *shapes.back(), at, btQuaternion::getIdentity());
  }
  btRigidBody& body(double mass, btCollisionShape& shape, const btVector3& at, const btQuaternion& turn) {
    btVector3 inertia(0, 0, 0);
    if (mass > 0) shape.calculateLocalInertia(btScalar(mass), inertia);
    bodies.push_back(std::make_unique<btRigidBody>(btScalar(mass), nullptr, &shape, inertia));
    bodies.back()->setWorldTransform(btTransform(turn, at));
    bodies.back()->setInterpolationWorldTransform(btTransform(turn, at));
    world.addRigidBody(bodies.back().get());
    if (mass > 0) bodies.back()->setActivationState(DISABLE_DEACTIVATION);
    return *bodies.back();
  }
  template <class Joint, class... Args>
  Joint& joint(Args&&... args) {
    auto made = std::make_unique<Joint>(std::forward<Args>(args)...);
    Joint& out = *made;
    joints.push_back(std::move(made));
    world.addConstraint(&out, true);
    return out;
  }
  void step(int n = 1, double dt = 1.0 / 240) {
    for (int i = 0; i < n; ++i) world.stepSimulation(btScalar(dt), 0);
  }
  /// Every bit of every body's pose and velocity.
  std::vector<btScalar> bits() const {
    std::vector<btScalar> out;
    for (const auto& b : bodies) {
      for (int i = 0; i < 3; ++i) {
        out.push_back(b->getWorldTransform().getOrigin()[i]);
        out.push_back(b->getLinearVelocity()[i]);
        out.push_back(b->getAngularVelocity()[i]);
        for (int k = 0; k < 3; ++k) out.push_back(b->getWorldTransform().getBasis()[i][k]);
      }
      out.push_back(btScalar(b->getActivationState()));
    }
    return out;
  }
  bool finite() const {
    for (const btScalar x : bits())
      if (!std::isfinite(x)) return false;
    return true;
  }

  btDefaultCollisionConfiguration config;
  btCollisionDispatcher dispatcher;
  btDbvtBroadphase broadphase;
  std::unique_ptr<btConstraintSolver> native;
  btDiscreteDynamicsWorld world;
  std::vector<std::unique_ptr<btCollisionShape>> shapes;
  std::vector<std::unique_ptr<btRigidBody>> bodies;
  std::vector<std::unique_ptr<btTypedConstraint>> joints;
};

/// Links of a chain along x, the first on the world at the origin.
inline void chain(TestWorld& w, int links, double mass = 1, double length = 0.5) {
  const btScalar h = btScalar(length / 2);
  btRigidBody* last = nullptr;
  for (int i = 0; i < links; ++i) {
    btRigidBody& link =
        w.box(mass, btVector3(h, btScalar(0.05), btScalar(0.05)), btVector3(btScalar((i + 0.5) * length), 0, 0));
    if (last)
      w.joint<btPoint2PointConstraint>(*last, link, btVector3(h, 0, 0), btVector3(-h, 0, 0));
    else
      w.joint<btPoint2PointConstraint>(link, btVector3(-h, 0, 0));
    last = &link;
  }
}

inline double largest_gap(bullet::Solver& exact) {
  double gap = 0;
  for (const Reaction& r : exact.reactions()) gap = std::max({gap, r.gap, r.gap_angle, r.residual});
  return gap;
}
inline double worst_books(bullet::Solver& exact) {
  double worst = 0;
  for (const MomentumBalance& b : exact.momentum_balances()) worst = std::max(worst, b.imbalance());
  return worst;
}

}  // namespace linchpin::test
