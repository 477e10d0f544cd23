#include "robots.h"

#include <linchpin/bullet.h>

#include <BulletDynamics/Featherstone/btMultiBody.h>
#include <BulletDynamics/Featherstone/btMultiBodyConstraintSolver.h>
#include <BulletDynamics/Featherstone/btMultiBodyDynamicsWorld.h>
#include <BulletDynamics/Featherstone/btMultiBodyLinkCollider.h>
#include <BulletDynamics/Featherstone/btMultiBodyPoint2Point.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <memory>

namespace linchpin::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

btVector3 bt(double x, double y, double z) { return {btScalar(x), btScalar(y), btScalar(z)}; }
const btQuaternion straight = btQuaternion::getIdentity();

/// A multibody in a world of its own, with loops closed by Bullet's point2point constraints.
struct Robot {
  btDefaultCollisionConfiguration config;
  btCollisionDispatcher dispatcher{&config};
  btDbvtBroadphase broadphase;
  btMultiBodyConstraintSolver native;
  btMultiBodyDynamicsWorld world{&dispatcher, &broadphase, &native, &config};
  btSphereShape small{btScalar(0.01)};
  std::unique_ptr<btMultiBody> body;
  std::vector<std::unique_ptr<btMultiBodyLinkCollider>> colliders;
  struct Loop {
    std::unique_ptr<btMultiBodyPoint2Point> constraint;
    int a, b;  ///< links; b −1: the base
    btVector3 on_a, on_b;
  };
  std::vector<Loop> loops;

  ~Robot() {
    for (const Loop& l : loops) world.removeMultiBodyConstraint(l.constraint.get());
    world.removeMultiBody(body.get());
    for (const auto& c : colliders) world.removeCollisionObject(c.get());
  }
  void make(int links, bool fixed) {
    world.setGravity(bt(0, -9.81, 0));
    body = std::make_unique<btMultiBody>(links, btScalar(fixed ? 0 : 5), fixed ? bt(0, 0, 0) : bt(0.1, 0.2, 0.1), fixed,
                                         false);
  }
  /// A bar of unit length along x, turning about `axis`.
  void bar(int i, int parent, const btVector3& from, const btVector3& axis, double length, double angle) {
    const double across = length * length / 12;
    body->setupRevolute(i, 1, bt(1e-2, across, across), parent, straight, axis, from, bt(length / 2, 0, 0), true);
    body->setJointPos(i, btScalar(angle));
  }
  void finish() {
    body->finalizeMultiDof();
    body->setLinearDamping(0);
    body->setAngularDamping(0);
    body->setHasSelfCollision(false);
    world.addMultiBody(body.get());
    btAlignedObjectArray<btQuaternion> turns;
    btAlignedObjectArray<btVector3> places;
    body->forwardKinematics(turns, places);
    for (int i = -1; i < body->getNumLinks(); ++i) {  // without colliders Bullet solves no constraint of theirs
      colliders.push_back(std::make_unique<btMultiBodyLinkCollider>(body.get(), i));
      btMultiBodyLinkCollider& c = *colliders.back();
      c.setCollisionShape(&small);
      c.setWorldTransform(place(i));
      world.addCollisionObject(&c, 2, 0);
      (i < 0 ? body->setBaseCollider(&c) : void(body->getLink(i).m_collider = &c));
    }
    body->setCanSleep(false);
  }
  btTransform place(int i) const {
    return i < 0 ? body->getBaseWorldTransform() : body->getLink(i).m_cachedWorldTransform;
  }
  /// Closed where they are.
  void close(int a, const btVector3& on_a, int b) {
    const btVector3 on_b = place(b).inverse() * (place(a) * on_a);
    loops.push_back(
        {std::make_unique<btMultiBodyPoint2Point>(body.get(), a, body.get(), b, on_a, on_b), a, b, on_a, on_b});
    loops.back().constraint->finalizeMultiDof();
    world.addMultiBodyConstraint(loops.back().constraint.get());
  }
  double gap() const {
    double most = 0;
    for (const Loop& l : loops) most = std::max(most, double((place(l.a) * l.on_a).distance(place(l.b) * l.on_b)));
    return most;
  }
};

void arm(Robot& r, int links) {
  r.make(links, true);
  const btVector3 axes[] = {bt(0, 1, 0), bt(0, 0, 1)};
  for (int i = 0; i < links; ++i) r.bar(i, i - 1, bt(i ? 0.2 : 0, 0, 0), axes[i % 2], 0.4, 0.3);
  r.finish();
}

/// Each link carries two, breadth first: deep as the logarithm of their number.
void tree(Robot& r, int links) {
  r.make(links, true);
  for (int i = 0; i < links; ++i)
    r.bar(i, i == 0 ? -1 : (i - 1) / 2, bt(i ? 0.2 : 0, 0, 0), bt(0, 0, 1), 0.4, i % 2 ? 0.5 : -0.5);
  r.finish();
  r.close(links - 1, bt(0.2, 0, 0), -1);
}

/// Chains of ten on one base, each closed back to it.
void comb(Robot& r, int links) {
  r.make(links, true);
  for (int i = 0; i < links; ++i)
    r.bar(i, i % 10 ? i - 1 : -1, i % 10 ? bt(0.2, 0, 0) : bt(0, 0, 0.1 * i), bt(0, 0, 1), 0.4, 0.3);
  r.finish();
  for (int i = 9; i < links; i += 10) r.close(i, bt(0.2, 0, 0), -1);
}

/// A body on four legs, each of two arms from the hip and two shins that meet: 16 links, 4 loops, falling.
void quadruped(Robot& r, int) {
  r.make(16, false);
  for (int leg = 0; leg < 4; ++leg) {
    const double x = leg % 2 ? 0.25 : -0.25, y = leg / 2 ? 0.15 : -0.15, half_pi = 1.5707963267948966;
    for (int side = 0; side < 2; ++side) {
      const int upper = 4 * leg + 2 * side;
      const double turn = side ? 0.6 : -0.6;
      r.bar(upper, -1, bt(x, 0, y), bt(0, 0, 1), 0.2, -half_pi + turn);
      r.bar(upper + 1, upper, bt(0.1, 0, 0), bt(0, 0, 1), 0.2, -2 * turn);
    }
  }
  r.finish();
  for (int leg = 0; leg < 4; ++leg) r.close(4 * leg + 1, bt(0.1, 0, 0), 4 * leg + 3);
  for (int i = 0; i < 16; i += 2) r.body->setJointVel(i, btScalar(i % 4 ? 1 : -1));
}

struct Kind {
  std::string_view name;
  void (*build)(Robot&, int);
  std::vector<int> sizes;
};
const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{{"R1", arm, {7}},
                                     {"R2", tree, {10, 20, 50, 100, 200, 500}},
                                     {"R3", comb, {10, 20, 50, 100, 200, 500}},
                                     {"R4", quadruped, {16}}};
  return all;
}
const Kind* find(std::string_view name) {
  for (const Kind& k : kinds())
    if (k.name == name) return &k;
  return nullptr;
}

double median(std::vector<double> x) {
  if (x.empty()) return 0;
  const auto middle = x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2);
  std::nth_element(x.begin(), middle, x.end());
  return *middle;
}

}  // namespace

bool is_robot(std::string_view name) { return find(name) != nullptr; }
std::vector<int> robot_sizes(std::string_view name) { return find(name)->sizes; }

void run_robot(std::string_view name, int size, double duration, double budget) {
  constexpr double dt = 1. / 240;
  struct Side {
    Robot robot;
    std::unique_ptr<bullet::Solver> exact;
    std::vector<double> step;  // [µs]
    double gap = 0;
  };
  Side sides[2];  // exact, native
  for (Side& s : sides) find(name)->build(s.robot, size);
  sides[0].exact = std::make_unique<bullet::Solver>(sides[0].robot.world);
  const int steps = std::max(1, static_cast<int>(std::lround(duration / dt)));
  const auto begin = Clock::now();
  for (int i = 0; i < steps && std::chrono::duration<double>(Clock::now() - begin).count() < budget; ++i)
    for (Side& s : sides) {
      const auto start = Clock::now();
      s.robot.world.stepSimulation(btScalar(dt), 0);
      s.step.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
      s.gap = std::max(s.gap, s.robot.gap());
    }
  const double native = median(sides[1].step);
  for (Side& s : sides) {
    Json out;
    out["scene"] = name;
    out["size"] = size;
    out["bodies"] = s.robot.body->getNumLinks();
    out["rows"] = 3 * s.robot.loops.size();
    out["dt_s"] = dt;
    out["precision"] = sizeof(btScalar) == 4 ? "single" : "double";
    out["solver"] = s.exact ? "exact" : "si:10";
    out["steps"] = s.step.size();
    out["us_per_step"] = median(s.step);
    out["ratio_to_si10_step"] = median(s.step) / native;
    out["max_gap_m"] = std::isfinite(s.gap) ? Json(s.gap) : Json(nullptr);
    out["fallbacks"] = s.exact ? s.exact->counts().fallbacks : 0;
    out["status"] = std::isfinite(s.gap) ? "ok" : "diverged";
    std::cout << out.dump() << std::endl;
  }
  sides[0].exact.reset();
}

}  // namespace linchpin::bench
