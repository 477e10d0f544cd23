// Two benches on which one experiment is built once and run twice: linchpin's own stepper, which locates every change
// between sticking and sliding in time, and Bullet at its usual 240 steps per second. z is up, SI.
#pragma once

#include <linchpin/bullet.h>
#include <linchpin/constraint.h>
#include <linchpin/forces.h>
#include <linchpin/joints.h>
#include <linchpin/stepper.h>

#include "../papers/known.h"
#include "plot.h"

#include <memory>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

using linchpin::BodyId, linchpin::BodyState, linchpin::Law, linchpin::Reaction, linchpin::NormalForce,
    linchpin::Vector3d;
using std::numbers::pi;

inline constexpr double g = 9.81;
inline constexpr double host_step = 1.0 / 240;

/// The host-free stepper: fourth order, contacts change their mode where they do.
class Free {
 public:
  Free() { system.set_gravity({0, 0, -g}); }
  BodyId body(const std::string& name, double mass, const Vector3d& inertia, const BodyState& at) {
    return system.add_body(name, mass, inertia, {at.p, at.q}, at.v, at.w);
  }
  void add(linchpin::Constraint constraint, const Law& law = {}) {
    const auto id = system.add(std::move(constraint));
    if (law) add_law(system, id, law);
  }
  void add(linchpin::Force force) { system.add(std::move(force)); }
  void gravity(const Vector3d& acceleration) { system.set_gravity(acceleration); }

  bool step(double dt) {
    const linchpin::StepReport& report = stepper().step(dt);
    for (const auto& s : stepper().switches()) switches.push_back(s);
    if (report.rejected) std::printf("  rejected: %s\n", report.reason.c_str());
    return !report.rejected;
  }
  double t() { return stepper().t(); }
  const BodyState& operator[](BodyId id) { return stepper().state()[id]; }
  const Reaction& reaction(const std::string& name) {
    for (const Reaction& r : stepper().reactions())
      if (r.name == name) return r;
    static const Reaction none;
    return none;
  }
  linchpin::Stepper& stepper() {
    if (!stepper_)
      stepper_ = std::make_unique<linchpin::Stepper>(system, system.initial_state(),
                                                     linchpin::StepOptions{.method = linchpin::Method::rk4});
    return *stepper_;
  }

  linchpin::System system;
  std::vector<linchpin::ModeSwitch> switches;  ///< all so far

 private:
  std::unique_ptr<linchpin::Stepper> stepper_;
};

/// The same bodies, constraints, laws and forces in a Bullet world.
class Hosted {
 public:
  Hosted() { world.setGravity({0, 0, btScalar(-g)}); }
  ~Hosted() {
    for (const auto& b : bodies_) {
      exact.release_body(*b);
      world.removeRigidBody(b.get());
    }
  }
  BodyId body(const std::string&, double mass, const Vector3d& inertia, const BodyState& at) {
    using linchpin::bullet::to_bullet;
    bodies_.push_back(std::make_unique<btRigidBody>(btScalar(mass), nullptr, &shape_, to_bullet(inertia)));
    btRigidBody& b = *bodies_.back();
    const btQuaternion q(btScalar(at.q.x()), btScalar(at.q.y()), btScalar(at.q.z()), btScalar(at.q.w()));
    b.setCenterOfMassTransform(btTransform(q, to_bullet(at.p)));
    b.setLinearVelocity(to_bullet(at.v));
    b.setAngularVelocity(to_bullet(at.w));
    b.setActivationState(DISABLE_DEACTIVATION);
    world.addRigidBody(&b, 0, 0);  // collides with nothing
    ids_.push_back(exact.id(b));
    return ids_.back();
  }
  void add(linchpin::Constraint constraint, const Law& law = {}) {
    auto handle = exact.add(std::move(constraint));
    if (law) handle.law(law);
  }
  void add(linchpin::Force force) { forces_.push_back(std::move(force)); }
  void gravity(const Vector3d& acceleration) {
    world.setGravity(linchpin::bullet::to_bullet(acceleration));
    for (const auto& b : bodies_) b->setGravity(world.getGravity());
  }

  bool step(double dt) {
    using linchpin::bullet::to_bullet;
    for (const linchpin::Force& force : forces_) {
      std::vector<BodyState> at;
      for (const BodyId id : force.bodies()) at.push_back(id == linchpin::ground ? BodyState{} : (*this)[id]);
      std::vector<linchpin::Vector6> wrenches(at.size(), linchpin::Vector6::Zero());
      linchpin::ForceFrame frame(exact.t(), at, wrenches);
      force.act(frame);
      for (std::size_t k = 0; k < at.size(); ++k)
        if (btRigidBody* b = find(force.bodies()[k])) {
          b->applyCentralForce(to_bullet(wrenches[k].head<3>()));
          b->applyTorque(to_bullet(wrenches[k].tail<3>()));
        }
    }
    world.stepSimulation(btScalar(dt), 0);
    return true;
  }
  double t() const { return exact.t(); }
  BodyState operator[](BodyId id) {
    using linchpin::bullet::from_bullet;
    const btRigidBody& b = *find(id);
    const btQuaternion q = b.getCenterOfMassTransform().getRotation();
    return {.p = from_bullet(b.getCenterOfMassPosition()),
            .q = {double(q.w()), double(q.x()), double(q.y()), double(q.z())},
            .v = from_bullet(b.getLinearVelocity()),
            .w = from_bullet(b.getAngularVelocity())};
  }
  const Reaction& reaction(const std::string& name) { return exact.find(name).reaction(); }

  btDefaultCollisionConfiguration config;
  btCollisionDispatcher dispatcher{&config};
  btDbvtBroadphase broadphase;
  btSequentialImpulseConstraintSolver native;
  btDiscreteDynamicsWorld world{&dispatcher, &broadphase, &native, &config};
  linchpin::bullet::Solver exact{world};

 private:
  btRigidBody* find(BodyId id) {
    for (std::size_t k = 0; k < ids_.size(); ++k)
      if (ids_[k] == id) return bodies_[k].get();
    return nullptr;
  }
  btSphereShape shape_{btScalar(0.05)};
  std::vector<std::unique_ptr<btRigidBody>> bodies_;
  std::vector<BodyId> ids_;
  std::vector<linchpin::Force> forces_;
};

/// Steps to `end`, the last step shortened; `see()` before the first step and after every one.
template <class Bench, class See>
void run(Bench& bench, double end, double dt, See see) {
  see();
  while (bench.t() < end - 1e-6 * dt) {
    if (!bench.step(std::min(dt, end - bench.t()))) return;
    see();
  }
}
template <class Bench>
void run(Bench& bench, double end, double dt) {
  run(bench, end, dt, [] {});
}

/// What a host's step must show: an error that falls at least as the step does.
/// @param finer  the error with the step divided by `times`
inline void expect_first_order(const std::string& what, double error, double finer, double times = 2) {
  const double order = std::log(error / finer) / std::log(times);
  const bool met = order >= 0.9 || finer <= 1e-9;
  std::printf("  %-44s %18.3e   of order %.2f, known at least 1%s\n", what.c_str(), error, order,
              met ? "" : "   MISSED");
  if (!met) ++known_answers_missed;
}
