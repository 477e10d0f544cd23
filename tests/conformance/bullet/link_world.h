// A btMultiBodyDynamicsWorld to test in: multibodies made link by link, rigid bodies, constraints.
#pragma once

#include "world.h"

#include <BulletDynamics/Featherstone/btMultiBody.h>
#include <BulletDynamics/Featherstone/btMultiBodyConstraint.h>
#include <BulletDynamics/Featherstone/btMultiBodyConstraintSolver.h>
#include <BulletDynamics/Featherstone/btMultiBodyDynamicsWorld.h>
#include <BulletDynamics/Featherstone/btMultiBodyLinkCollider.h>

#include <random>
#include <string>

namespace linchpin::test {

using bullet::link;

inline btVector3 bt(double x, double y, double z) { return {btScalar(x), btScalar(y), btScalar(z)}; }

struct LinkWorld {
  explicit LinkWorld(double gravity = 9.81) : dispatcher(&config), world(&dispatcher, &broadphase, &native, &config) {
    world.setGravity(bt(0, -gravity, 0));
  }
  ~LinkWorld() {
    for (const auto& c : constraints) world.removeMultiBodyConstraint(c.get());
    while (world.getNumConstraints() > 0) world.removeConstraint(world.getConstraint(0));
    while (world.getNumMultibodies() > 0) world.removeMultiBody(world.getMultiBody(0));
    while (world.getNumCollisionObjects() > 0) world.removeCollisionObject(world.getCollisionObjectArray()[0]);
  }
  /// @param links set up by the caller, then finish()
  btMultiBody& multibody(int links, bool fixed_base, double mass = 0, const btVector3& inertia = bt(0, 0, 0)) {
    bodies.push_back(std::make_unique<btMultiBody>(links, btScalar(mass), inertia, fixed_base, false));
    return *bodies.back();
  }
  void finish(btMultiBody& mb) {
    mb.finalizeMultiDof();
    mb.setLinearDamping(0);
    mb.setAngularDamping(0);
    world.addMultiBody(&mb);
    btAlignedObjectArray<btQuaternion> turns;
    btAlignedObjectArray<btVector3> places;
    mb.forwardKinematics(turns, places);
  }
  btMultiBodyLinkCollider& collider(btMultiBody& mb, int index, btCollisionShape& shape, bool moves = true) {
    colliders.push_back(std::make_unique<btMultiBodyLinkCollider>(&mb, index));
    btMultiBodyLinkCollider& c = *colliders.back();
    c.setCollisionShape(&shape);
    btTransform at = mb.getBaseWorldTransform();
    if (index >= 0) at = mb.getLink(index).m_cachedWorldTransform;
    c.setWorldTransform(at);
    world.addCollisionObject(&c, moves ? 1 : 2, -1);
    if (index < 0)
      mb.setBaseCollider(&c);
    else
      mb.getLink(index).m_collider = &c;
    return c;
  }
  btRigidBody& box(double mass, const btVector3& half, const btVector3& at) {
    shapes.push_back(std::make_unique<btBoxShape>(half));
    btVector3 inertia(0, 0, 0);
    if (mass > 0) shapes.back()->calculateLocalInertia(btScalar(mass), inertia);
    rigid.push_back(std::make_unique<btRigidBody>(btScalar(mass), nullptr, shapes.back().get(), inertia));
    rigid.back()->setWorldTransform(btTransform(btQuaternion::getIdentity(), at));
    world.addRigidBody(rigid.back().get(), 0, 0);
    rigid.back()->setActivationState(DISABLE_DEACTIVATION);
    return *rigid.back();
  }
  template <class C, class... Args>
  C& constraint(Args&&... args) {
    auto made = std::make_unique<C>(std::forward<Args>(args)...);
    C& out = *made;
    constraints.push_back(std::move(made));
    world.addMultiBodyConstraint(&out);
    return out;
  }
  void step(int n = 1, double dt = 1.0 / 240) {
    for (int i = 0; i < n; ++i) world.stepSimulation(btScalar(dt), 0);
  }
  std::vector<btScalar> bits() const {
    std::vector<btScalar> out;
    for (const auto& b : bodies) {
      for (int i = 0; i < 3; ++i) out.push_back(b->getBasePos()[i]);
      for (int i = 0; i < 4; ++i) out.push_back(b->getWorldToBaseRot()[i]);
      for (int i = 0; i < 6 + b->getNumDofs(); ++i) out.push_back(b->getVelocityVector()[i]);
      for (int i = 0; i < b->getNumLinks(); ++i)
        for (int k = 0; k < b->getLink(i).m_posVarCount; ++k) out.push_back(b->getLink(i).m_jointPos[k]);
    }
    for (const auto& b : rigid)
      for (int i = 0; i < 3; ++i) {
        out.push_back(b->getWorldTransform().getOrigin()[i]);
        out.push_back(b->getLinearVelocity()[i]);
        out.push_back(b->getAngularVelocity()[i]);
      }
    return out;
  }

  btDefaultCollisionConfiguration config;
  btCollisionDispatcher dispatcher;
  btDbvtBroadphase broadphase;
  btMultiBodyConstraintSolver native;
  btMultiBodyDynamicsWorld world;
  std::vector<std::unique_ptr<btCollisionShape>> shapes;
  std::vector<std::unique_ptr<btMultiBody>> bodies;
  std::vector<std::unique_ptr<btMultiBodyLinkCollider>> colliders;
  std::vector<std::unique_ptr<btRigidBody>> rigid;
  std::vector<std::unique_ptr<btMultiBodyConstraint>> constraints;
};

inline const btQuaternion straight = btQuaternion::getIdentity();

/// A bar along x of its own axes, hinged about z at its left end to the right end of its parent.
inline void bar(btMultiBody& mb, int i, int parent, double length, double parent_end, double angle = 0) {
  const double m = length, across = m * length * length / 12;
  mb.setupRevolute(i, btScalar(m), bt(1e-3, across, across), parent, straight, bt(0, 0, 1), bt(parent_end, 0, 0),
                   bt(length / 2, 0, 0), true);
  mb.setJointPos(i, btScalar(angle));
}

/// A multibody of links by chance, and the same bodies with all their joints as constraints in a system of the core:
/// joints 0, 3, … revolute, 1, 4, … spherical, 2, 5, … prismatic; the base of even seeds is fixed.
struct RandomTree {
  btMultiBody* body = nullptr;
  std::vector<BodyId> ids;  ///< of the core, the base first
  std::vector<Pose> poses;  ///< of the links, without the base
  std::vector<ConstraintId> joints;
  Vector3d on_last{0.3, -0.2, 0.4}, meets = Vector3d::Zero();  ///< a point of the last link, and where it is
};
/// @param reach  how far back in the order of the links a parent is at most: 1 makes a chain
inline RandomTree random_tree(LinkWorld& w, System& s, unsigned seed, int n = 6, int reach = 6) {
  RandomTree out;
  std::mt19937 random(seed);
  const auto x = [&] { return std::uniform_real_distribution<double>(-1, 1)(random); };
  const auto direction = [&] { return Vector3d(Vector3d(x(), x(), x()) + Vector3d(0, 0, 2)).normalized(); };
  const auto inertia = [&] { return bt(0.3 + 0.1 * x(), 0.35 + 0.1 * x(), 0.4 + 0.1 * x()); };
  const bool fixed = seed % 2 == 0;
  btMultiBody& mb = w.multibody(n, fixed, 2, bt(0.4, 0.3, 0.35));
  out.body = &mb;
  for (int i = 0; i < n; ++i) {
    const int any = static_cast<int>(random() % static_cast<unsigned>(i + 1)) - 1;
    // The last on the ball joint before it, so that the loop leaves it free.
    const int parent = i == n - 1 ? i - 1 : std::max(any, i - reach);
    const btQuaternion turn(bullet::to_bullet(direction()), btScalar(2 * x()));
    const btVector3 e = bt(x(), x(), x()), d = bt(x(), x(), x()), axis = bullet::to_bullet(direction());
    const btScalar m = btScalar(1.5 + x());
    if (i % 3 == 0) mb.setupRevolute(i, m, inertia(), parent, turn, axis, e, d, true);
    if (i % 3 == 1) mb.setupSpherical(i, m, inertia(), parent, turn, e, d, true);
    if (i % 3 == 2) mb.setupPrismatic(i, m, inertia(), parent, turn, axis, e, d, true);
  }
  mb.finalizeMultiDof();
  for (int i = 0; i < n; ++i) {
    btScalar q[4] = {btScalar(x()), btScalar(x()), btScalar(x()), btScalar(1.5)};
    btScalar rate[3] = {btScalar(x()), btScalar(x()), btScalar(x())};
    if (i % 3 == 1) {
      btQuaternion turn(q[0], q[1], q[2], q[3]);
      turn.normalize();
      for (int k = 0; k < 4; ++k) q[k] = turn[k];
    }
    mb.setJointPosMultiDof(i, q);
    mb.setJointVelMultiDof(i, rate);
  }
  if (!fixed) {
    mb.setBaseOmega(bt(x(), x(), x()));
    mb.setBaseVel(bt(x(), x(), x()));
  }
  w.finish(mb);
  std::vector<btVector3> omega(static_cast<std::size_t>(n + 1)), vel(omega.size());
  mb.compTreeLinkVelocities(omega.data(), vel.data());

  s.set_gravity({0, -9.81, 0});
  std::vector<BodyId>& ids = out.ids;
  std::vector<Pose> poses;
  for (int i = -1; i < n; ++i) {
    const btTransform at = i < 0 ? mb.getBaseWorldTransform() : mb.getLink(i).m_cachedWorldTransform;
    const btQuaternion q = at.getRotation();
    const Pose pose{bullet::from_bullet(at.getOrigin()),
                    Quaterniond(double(q.w()), double(q.x()), double(q.y()), double(q.z())).normalized()};
    poses.push_back(pose);
    const auto z = static_cast<std::size_t>(i + 1);
    const std::string name = "body" + std::to_string(i);
    const btVector3 I = i < 0 ? mb.getBaseInertia() : mb.getLinkInertia(i);
    ids.push_back(i < 0 && fixed
                      ? s.add_fixed(name, pose)
                      : s.add_body(name, double(i < 0 ? mb.getBaseMass() : mb.getLinkMass(i)), bullet::from_bullet(I),
                                   pose, pose.q * bullet::from_bullet(vel[z]), pose.q * bullet::from_bullet(omega[z])));
    if (i < 0) continue;
    const btMultibodyLink& link = mb.getLink(i);
    const auto up = static_cast<std::size_t>(link.m_parent + 1);
    const Vector3d p_A = bullet::from_bullet(link.m_eVector), p_B = -bullet::from_bullet(link.m_dVector);
    const Matrix3d B_in_A = (poses[up].q.conjugate() * pose.q).toRotationMatrix();
    const std::string joint_name = "joint" + std::to_string(i);
    out.poses.push_back(pose);
    if (i % 3 == 0) {
      const Vector3d axis = bullet::from_bullet(link.getAxisTop(0));
      out.joints.push_back(s.add(joints::hinge(joint_name, ids[up], p_A, B_in_A * axis, ids.back(), p_B, axis)));
    } else if (i % 3 == 1) {
      out.joints.push_back(s.add(joints::ball(joint_name, ids[up], p_A, ids.back(), p_B)));
    } else {
      const Vector3d axis = bullet::from_bullet(link.getAxisBottom(0)), across = axis.unitOrthogonal();
      Matrix3d axes;
      axes << axis, across, axis.cross(across);
      out.joints.push_back(s.add(joints::slider(joint_name, ids[up], {p_A, B_in_A * axes}, ids.back(), {p_B, axes})));
    }
  }
  out.meets = poses.back().p + poses.back().q * out.on_last;
  return out;
}

}  // namespace linchpin::test
