#include "robots.h"

#include "median.h"

#include <linchpin/bullet.h>
#include <linchpin/dynamics.h>
#include <linchpin/joints.h>
#include <linchpin/system.h>

#include <BulletDynamics/Featherstone/btMultiBody.h>
#include <BulletDynamics/Featherstone/btMultiBodyConstraintSolver.h>
#include <BulletDynamics/Featherstone/btMultiBodyDynamicsWorld.h>
#include <BulletDynamics/Featherstone/btMultiBodyLinkCollider.h>
#include <BulletDynamics/Featherstone/btMultiBodyPoint2Point.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <iostream>
#include <memory>

namespace linchpin::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// [µs] of this process, which is not interrupted by others.
double cpu_time() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}
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
    body->setupRevolute(i, 1, bt(std::min(1e-2, across), across, across), parent, straight, axis, from,
                        bt(length / 2, 0, 0), true);
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
  /// Takes the loops out again.
  void open() {
    for (const Loop& l : loops) world.removeMultiBodyConstraint(l.constraint.get());
    loops.clear();
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

/// A long arm, pinned to the base at `pins` places where it starts.
template <int pins>
void chain(Robot& r, int links) {
  arm(r, links);
  for (int i = 1; i <= pins; ++i) r.close(i * links / pins - 1, bt(0.2, 0, 0), -1);
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
                                     {"R4", quadruped, {16}},
                                     {"R5", chain<0>, {10, 20, 50, 100, 200, 500}},
                                     {"R5+1", chain<1>, {10, 20, 50, 100, 200, 500}},
                                     {"R5+2", chain<2>, {10, 20, 50, 100, 200, 500}},
                                     {"R5+4", chain<4>, {20, 50, 100, 200, 500}}};
  return all;
}
const Kind* find(std::string_view name) {
  for (const Kind& k : kinds())
    if (k.name == name) return &k;
  return nullptr;
}

/// The robot as it is, with every link a body of its own and every joint and loop a constraint: a second method.
class Bodies {
 public:
  explicit Bodies(const Robot& r) {
    btMultiBody& mb = *r.body;
    btAlignedObjectArray<btQuaternion> turns;
    btAlignedObjectArray<btVector3> places;  // Bullet's own are those of the step before
    mb.forwardKinematics(turns, places);
    const int n = mb.getNumLinks();
    const auto vector = [](const btVector3& u) { return Vector3d(double(u[0]), double(u[1]), double(u[2])); };
    const auto z = [](int i) { return static_cast<std::size_t>(i); };
    system_.set_gravity({0, -9.81, 0});
    std::vector<btVector3> omega(z(n + 1)), velocity(z(n + 1));
    mb.compTreeLinkVelocities(omega.data(), velocity.data());
    std::vector<BodyId> ids;
    std::vector<Pose> poses;
    for (int i = -1; i < n; ++i) {
      const btTransform at = r.place(i);
      const btQuaternion q = at.getRotation();
      const Pose pose{vector(at.getOrigin()),
                      Quaterniond(double(q.w()), double(q.x()), double(q.y()), double(q.z())).normalized()};
      const std::string name = "link" + std::to_string(i);
      poses.push_back(pose);
      if (i < 0 && mb.hasFixedBase()) {
        ids.push_back(system_.add_fixed(name, pose));
        continue;
      }
      ids.push_back(system_.add_body(name, double(i < 0 ? mb.getBaseMass() : mb.getLinkMass(i)),
                                     vector(i < 0 ? mb.getBaseInertia() : mb.getLinkInertia(i)), pose,
                                     pose.q * vector(velocity[z(i + 1)]), pose.q * vector(omega[z(i + 1)])));
      if (i < 0) continue;
      const btMultibodyLink& link = mb.getLink(i);
      const Pose& up = poses[z(link.m_parent + 1)];
      const Vector3d axis = vector(link.getAxisTop(0));
      joints_.push_back(
          system_.add(joints::hinge("joint" + std::to_string(i), ids[z(link.m_parent + 1)], vector(link.m_eVector),
                                    up.q.conjugate() * (pose.q * axis), ids.back(), -vector(link.m_dVector), axis)));
    }
    for (const Robot::Loop& l : r.loops)
      system_.add(
          joints::ball("loop" + std::to_string(l.a), ids[z(l.a + 1)], vector(l.on_a), ids[z(l.b + 1)], vector(l.on_b)));
    const State state = system_.initial_state();
    Dynamics dynamics(system_);
    dynamics.evaluate(state);
    dynamics.reactions(state, reactions_);
  }
  /// Largest difference of a joint's force [N] and moment [N m] from those of the step just taken, relative to the
  /// largest force (over a metre).
  double difference(bullet::Solver& exact, const Robot& r) const {
    double off = 0, most = 0;
    for (int i = 0; i < r.body->getNumLinks(); ++i) {
      const Wrench a = exact.joint_wrench(bullet::link(*r.body, i));
      const Reaction& joint = reactions_[static_cast<std::size_t>(joints_[static_cast<std::size_t>(i)].index)];
      const Wrench b = joint.on_b.about(a.point);
      off = std::max({off, (a.force - b.force).norm(), (a.moment - b.moment).norm()});
      most = std::max(most, b.force.norm());
    }
    return off / most;
  }

 private:
  System system_;
  std::vector<ConstraintId> joints_;
  std::vector<Reaction> reactions_;
};

}  // namespace

bool is_robot(std::string_view name) { return find(name) != nullptr; }
std::vector<int> robot_sizes(std::string_view name) { return find(name)->sizes; }

void run_robot(std::string_view name, int size, double duration, double budget) {
  constexpr double dt = 1. / 240;
  constexpr int compared = 12;  // the step that a second method is asked about: everything moves by then
  struct Side {
    Robot robot;
    std::unique_ptr<bullet::Solver> exact;
    std::vector<double> step;  // [µs]
    double gap = 0;
  };
  Side sides[3];  // exact, native, native without its loops
  for (Side& s : sides) find(name)->build(s.robot, size);
  sides[2].robot.open();
  sides[0].exact = std::make_unique<bullet::Solver>(sides[0].robot.world);
  const int steps = std::max(1, static_cast<int>(std::lround(duration / dt)));
  double difference = 0;
  const auto begin = Clock::now();
  for (int i = 0; i < steps && std::chrono::duration<double>(Clock::now() - begin).count() < budget; ++i) {
    std::unique_ptr<Bodies> second;
    if (i == compared) second = std::make_unique<Bodies>(sides[0].robot);
    for (Side& s : sides) {
      const double start = cpu_time();
      s.robot.world.stepSimulation(btScalar(dt), 0);
      s.step.push_back(cpu_time() - start);
      s.gap = std::max(s.gap, s.robot.gap());
    }
    if (second) difference = second->difference(*sides[0].exact, sides[0].robot);
  }
  const double native = median(sides[1].step), open = median(sides[2].step);
  for (int k = 0; k < 2; ++k) {
    Side& s = sides[k];
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
    out["us_per_step_without_loops"] = open;
    out["ratio_to_si10_step"] = median(s.step) / native;
    out["max_gap_m"] = std::isfinite(s.gap) ? Json(s.gap) : Json(nullptr);
    out["wrench_difference_rel"] =
        s.exact && static_cast<int>(s.step.size()) > compared ? Json(difference) : Json(nullptr);
    out["fallbacks"] = s.exact ? s.exact->counts().fallbacks : 0;
    out["status"] = std::isfinite(s.gap) ? "ok" : "diverged";
    std::cout << out.dump() << std::endl;
  }
  sides[0].exact.reset();
}

}  // namespace linchpin::bench
