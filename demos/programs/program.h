// What the programs of this folder have in common: a Bullet world that owns what is put into it and steps at the
// program's own rate. Nothing here or in the programs knows of linchpin; whoever runs one may install it by one line,
//
//     linchpin::bullet::Solver exact(program->world);
//
// y is up, SI.
#pragma once

#include <btBulletDynamicsCommon.h>

#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace programs {

inline btVector3 vec(double x, double y, double z) { return {btScalar(x), btScalar(y), btScalar(z)}; }
inline btQuaternion turn(const btVector3& axis, double angle) { return {axis, btScalar(angle)}; }
inline const btVector3 along_x(1, 0, 0), along_y(0, 1, 0), along_z(0, 0, 1);

class Program {
 public:
  explicit Program(double step_length)
      : world(&dispatcher, &broadphase, &native, &config), dt(step_length), passive_from(0) {
    world.setGravity(vec(0, -9.81, 0));
  }
  virtual ~Program() {
    while (world.getNumConstraints() > 0) world.removeConstraint(world.getConstraint(world.getNumConstraints() - 1));
    while (world.getNumCollisionObjects() > 0)
      world.removeCollisionObject(world.getCollisionObjectArray()[world.getNumCollisionObjects() - 1]);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void step() {
    control();
    world.stepSimulation(btScalar(dt), 0);
    t += dt;
  }

  template <class Shape, class... Args>
  Shape& shape(Args&&... args) {
    auto made = std::make_unique<Shape>(std::forward<Args>(args)...);
    Shape& out = *made;
    shapes.push_back(std::move(made));
    return out;
  }
  /// Mass 0: it stands. `collides` false: it passes through everything.
  btRigidBody& body(double mass, btCollisionShape& of, const btVector3& at,
                    const btQuaternion& q = btQuaternion::getIdentity(), bool collides = true) {
    btVector3 inertia(0, 0, 0);
    if (mass > 0) of.calculateLocalInertia(btScalar(mass), inertia);
    btRigidBody::btRigidBodyConstructionInfo info(btScalar(mass), nullptr, &of, inertia);
    info.m_startWorldTransform = btTransform(q, at);
    bodies.push_back(std::make_unique<btRigidBody>(info));
    if (collides)
      world.addRigidBody(bodies.back().get());
    else
      world.addRigidBody(bodies.back().get(), btBroadphaseProxy::DefaultFilter, 0);
    return *bodies.back();
  }
  btRigidBody& box(double mass, const btVector3& half, const btVector3& at,
                   const btQuaternion& q = btQuaternion::getIdentity(), bool collides = true) {
    return body(mass, shape<btBoxShape>(half), at, q, collides);
  }
  btRigidBody& ball(double mass, double radius, const btVector3& at) {
    return body(mass, shape<btSphereShape>(btScalar(radius)), at);
  }

  /// Bodies under one joint do not collide with each other.
  template <class Joint, class... Args>
  Joint& joint(Args&&... args) {
    auto made = std::make_unique<Joint>(std::forward<Args>(args)...);
    Joint& out = *made;
    joints.push_back(std::move(made));
    world.addConstraint(&out, true);
    return out;
  }
  /// A ball joint at a point of the world; on one body, to the world itself.
  btPoint2PointConstraint& pin(btRigidBody& a, btRigidBody& b, const btVector3& point) {
    return joint<btPoint2PointConstraint>(a, b, in(a)*point, in(b)*point);
  }
  btPoint2PointConstraint& pin(btRigidBody& a, const btVector3& point) {
    return joint<btPoint2PointConstraint>(a, in(a)*point);
  }
  /// A hinge through a point of the world along an axis of the world; its angle is how far `a` has turned beyond `b`.
  btHingeConstraint& hinge(btRigidBody& a, btRigidBody& b, const btVector3& point, const btVector3& axis) {
    const btTransform frame(shortestArcQuat(along_z, axis), point);
    return joint<btHingeConstraint>(a, b, in(a)*frame, in(b)*frame);
  }
  static btTransform in(const btRigidBody& body) { return body.getCenterOfMassTransform().inverse(); }

  btDefaultCollisionConfiguration config;
  btCollisionDispatcher dispatcher{&config};
  btDbvtBroadphase broadphase;
  btSequentialImpulseConstraintSolver native;
  btDiscreteDynamicsWorld world;

  double t = 0;         ///< [s]
  double dt;            ///< of a step [s]
  double passive_from;  ///< from then on no motor gives energy any more [s]

  std::vector<std::unique_ptr<btCollisionShape>> shapes;
  std::vector<std::unique_ptr<btRigidBody>> bodies;
  std::vector<std::unique_ptr<btTypedConstraint>> joints;

 protected:
  /// What the program does before each step: motors, brakes, forces.
  virtual void control() {}
};

struct Entry {
  std::string_view name;   ///< "suspension-bridge"
  std::string_view title;  ///< what happens in it
  std::unique_ptr<Program> (*make)();
};

std::unique_ptr<Program> suspension_bridge();
std::unique_ptr<Program> ragdoll();
std::unique_ptr<Program> wrecking_ball();
std::unique_ptr<Program> wrecking_ball_alone();  ///< without the wall: nothing stops it from snapping
std::unique_ptr<Program> newtons_cradle();
std::unique_ptr<Program> hinge2_car();
std::unique_ptr<Program> forklift();
std::unique_ptr<Program> walker();
std::unique_ptr<Program> chain_over_edge();
std::unique_ptr<Program> breakable_wall();

/// All of the above, but the wrecking ball without its wall.
std::span<const Entry> all();

}  // namespace programs
