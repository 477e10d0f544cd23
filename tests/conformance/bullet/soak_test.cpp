// Random programs: worlds of joints of every kind, edited while they run as real programs and mistaken ones do. Nothing
// may crash or become NaN, every exact gap is closed or its reason told, books close, and after leaving, Bullet runs on
// as with a fresh solver of its own. A slice runs always; LINCHPIN_SOAK_MINUTES=10 runs new seeds that
// long, from LINCHPIN_SOAK_FROM on.
#include "world.h"

#include "random.h"

#include <BulletCollision/CollisionDispatch/btSimulationIslandManager.h>
#include <BulletDynamics/ConstraintSolver/btHinge2Constraint.h>
#include <BulletDynamics/ConstraintSolver/btNNCGConstraintSolver.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <utility>

namespace linchpin::test::soak_test {
namespace {

enum class Leaving {
  destroyed,  ///< the Solver's destructor runs
  replaced    ///< it lives on, but a fresh native solver takes its place
};

/// What becomes of bodies and joints that the program deletes.
enum class Heap {
  freed,   ///< another may come to lie where one was
  hoarded  ///< no address is ever used again
};

btVector3 bt(const Vector3d& u) { return bullet::to_bullet(u); }

class Program final : public btActionInterface {
 public:
  Program(std::uint64_t seed, Heap heap) : random_(seed), heap_(heap) {
    options_.mode = chance(0.06) ? bullet::Mode::passive : bullet::Mode::exact;
    options_.compare_native = chance(0.1);
    options_.drift_correction = !chance(0.04);
    if (chance(0.1)) options_.max_substeps = 2;
    nncg_ = chance(0.08);
    if (nncg_) w_.world.setConstraintSolver(&nncg_solver_);
    w_.world.getDispatchInfo().m_deterministicOverlappingPairs = chance(0.2);
    if (chance(0.15)) w_.world.getSimulationIslandManager()->setSplitIslands(false);
    if (chance(0.2)) w_.world.getSolverInfo().m_splitImpulse = false;
    if (chance(0.1)) w_.world.getSolverInfo().m_minimumSolverBatchSize = 1;
    may_poison_ = chance(0.03);
    if (chance(0.7)) w_.box(0, btVector3(20, btScalar(0.5), 20), btVector3(0, -2, 0));
    w_.world.addAction(this);
    const int bodies = random_.integer(3, 14);
    for (int i = 0; i < bodies; ++i) add_body();
    for (int i = 0; i < bodies + 2; ++i) add_joint();
    install();
  }
  ~Program() override {
    exact_.reset();
    w_.world.removeAction(this);
    for (const auto& joint : w_.joints) w_.world.removeConstraint(joint.get());
    w_.world.setConstraintSolver(w_.native.get());
  }

  /// Runs `steps` with edits, leaves, and runs on natively. @return every bit of the end.
  std::vector<btScalar> run(int steps, Leaving leaving) {
    const bool varying = chance(0.3);
    const int several = chance(0.15) ? 3 : 0;
    dt_ = random_dt();
    for (int i = 0; i < steps && !::testing::Test::HasFatalFailure(); ++i) {
      step_ = i;
      if (chance(0.35)) edit();
      animate(i * 0.01);
      if (varying) dt_ = random_dt();
      meddle_ = chance(0.04);
      in_step_ = true;
      const double before = fastest();
      if (several)
        w_.world.stepSimulation(btScalar(dt_ * random_.uniform(0.4, 2.9)), several, btScalar(dt_));
      else
        w_.world.stepSimulation(btScalar(dt_), 0);
      in_step_ = false;
      // Bullet's own iterations diverge on rows that a factor of a body turns round: an impulse then moves the row
      // against itself. A step that was left to them wholly, and by name, is theirs, and so is a body that nothing
      // holds.
      const double bound = 1e6 * (1 + before);
      if (!(fastest() <= bound) && (all_native() || a_free_one_is_turned_round(bound))) poisoned_ = true;
      look();
    }
    btSequentialImpulseConstraintSolver fresh;
    btNNCGConstraintSolver fresh_nncg;
    btConstraintSolver* native = nncg_ ? &fresh_nncg : &fresh;
    if (leaving == Leaving::destroyed) {
      exact_.reset();
    } else {
      for (User& u : users_) u.handle.remove();
      w_.world.setConstraintSolver(native);
    }
    for (int i = 0; i < 15; ++i) w_.world.stepSimulation(btScalar(1.0 / 120), 0);
    auto bits = w_.bits();
    w_.world.setConstraintSolver(w_.native.get());
    return bits;
  }
  bool poisoned() const { return poisoned_; }

  /// A user's action, older than linchpin's: it may remove things between the solve and the end of the step.
  void updateAction(btCollisionWorld*, btScalar) override {
    if (meddle_) remove_something();
    meddle_ = false;
  }
  void debugDraw(btIDebugDraw*) override {}

 private:
  struct User {
    bullet::Handle handle;
    std::vector<btRigidBody*> bodies;
  };

  bool chance(double p) { return random_.uniform(0, 1) < p; }
  double random_dt() {
    static constexpr double rates[] = {30, 50, 60, 120, 240, 480, 1000};
    return 1 / rates[random_.integer(0, 6)];
  }
  void install() {
    auto installed = bullet::Solver::try_install(w_.world, options_);
    ASSERT_TRUE(installed) << installed.error().message;
    exact_ = *std::move(installed);
    if (chance(0.3))
      exact_->on_step([this](bullet::Step s) {
        if (in_step_ && chance(0.03)) remove_something();
        if (in_step_ && chance(0.2))
          if (auto hinge = s.solver.find("hinge#1")) (void)hinge.reaction();
      });
  }

  btRigidBody* any_body() { return w_.bodies[at(random_.integer(0, count(w_.bodies) - 1))].get(); }
  btRigidBody* any_dynamic() {
    for (int i = 0; i < 8; ++i)
      if (btRigidBody* body = any_body(); !body->isStaticOrKinematicObject()) return body;
    return nullptr;
  }
  btTypedConstraint* any_joint() {
    return w_.joints.empty() ? nullptr : w_.joints[at(random_.integer(0, count(w_.joints) - 1))].get();
  }
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  template <class T>
  static int count(const T& x) {
    return static_cast<int>(x.size());
  }

  btRigidBody& add_body() {
    const double kind = random_.uniform(0, 1);
    const double mass = kind < 0.1 ? 0 : (nncg_ ? 4 : 1) * std::pow(10, random_.uniform(-0.7, 0.7));
    const btVector3 place = bt(random_.vector(1.2)), half = bt(Vector3d(0.06, 0.06, 0.06) + 0.05 * random_.vector());
    btRigidBody& body = chance(0.3) ? w_.ball(mass, 0.1, place) : w_.box(mass, half, place, turn());
    if (mass == 0) {
      if (chance(0.5)) make_kinematic(body, true);
    } else {
      if (chance(0.6)) body.forceActivationState(ACTIVE_TAG);
      body.setLinearVelocity(bt(random_.vector(1)));
      body.setAngularVelocity(bt(random_.vector(2)));
      if (chance(0.1)) body.setDamping(btScalar(0.1), btScalar(0.2));
      if (chance(0.1)) body.setFlags(body.getFlags() & ~BT_ENABLE_GYROSCOPIC_FORCE_IMPLICIT_BODY);
      if (chance(0.1)) body.setLinearFactor(btVector3(1, 1, 0));
      if (chance(0.1)) body.setAngularFactor(btVector3(0, chance(0.5) ? 0 : 1, 1));
      if (chance(0.03)) body.setLinearFactor(btVector3(1, btScalar(0.5), 1));
      if (chance(0.05)) body.setRestitution(btScalar(0.8));
    }
    return body;
  }

  void add_joint() {
    btRigidBody* a = any_dynamic();
    btRigidBody* b = any_body();
    if (!a || !a->isInWorld()) return;
    if (a == b || !b->isInWorld()) b = nullptr;
    add_joint(*a, b);
  }

  // At the bodies' present poses, now and then off by a little: a program's own slip.
  void add_joint(btRigidBody& a, btRigidBody* b) {
    const btTransform A = a.getWorldTransform(), B = b ? b->getWorldTransform() : btTransform::getIdentity();
    btVector3 middle = b ? (A.getOrigin() + B.getOrigin()) * btScalar(0.5) : A.getOrigin() + bt(random_.vector(0.3));
    if (!b) b = &btTypedConstraint::getFixedBody();
    const btTransform frame(turn(), middle), fb = B.inverse() * frame;
    btTransform fa = A.inverse() * frame;
    if (chance(0.1)) fa.getOrigin() += bt(random_.vector(0.01));
    btVector3 x = frame.getBasis().getColumn(0), y = frame.getBasis().getColumn(1);
    const btVector3 z_a = fa.getBasis().getColumn(2), z_b = fb.getBasis().getColumn(2);
    const btScalar lo = btScalar(random_.uniform(-0.6, 0)), hi = btScalar(random_.uniform(0, 0.6));
    btTypedConstraint* made = nullptr;
    switch (random_.integer(0, 9)) {
      case 0:
        made = &w_.joint<btPoint2PointConstraint>(a, *b, fa.getOrigin(), fb.getOrigin());
        break;
      case 1: {
        auto& hinge = w_.joint<btHingeConstraint>(a, *b, fa.getOrigin(), fb.getOrigin(), z_a, z_b);
        made = &hinge;
        if (chance(0.4)) hinge.setLimit(lo, hi);
        if (chance(0.2)) hinge.enableAngularMotor(true, 2, 1);
        break;
      }
      case 2: {
        auto& slider = w_.joint<btSliderConstraint>(a, *b, fa, fb, chance(0.5));
        made = &slider;
        slider.setLowerLinLimit(lo);
        slider.setUpperLinLimit(chance(0.3) ? lo : hi);
        slider.setPoweredLinMotor(chance(0.2));
        slider.setMaxLinMotorForce(5);
        break;
      }
      case 3:
        made = &w_.joint<btFixedConstraint>(a, *b, fa, fb);
        break;
      case 4:
        made = &w_.joint<btUniversalConstraint>(a, *b, middle, x, y);
        break;
      case 5:
        made = &w_.joint<btHinge2Constraint>(a, *b, middle, x, y);
        break;
      case 6: {
        auto& d6 = w_.joint<btGeneric6DofConstraint>(a, *b, fa, fb, chance(0.5));
        made = &d6;
        for (int i = 0; i < 6; ++i) limit(d6, i, lo, hi);
        d6.getRotationalLimitMotor(0)->m_enableMotor = chance(0.1);
        break;
      }
      case 7: {
        auto& d6 = w_.joint<btGeneric6DofSpring2Constraint>(a, *b, fa, fb, RotateOrder(random_.integer(0, 5)));
        made = &d6;
        for (int i = 0; i < 6; ++i) {
          limit(d6, i, lo, hi);
          if (!chance(0.15)) continue;
          d6.enableSpring(i, true);
          d6.setStiffness(i, 20);
        }
        d6.enableMotor(random_.integer(0, 5), chance(0.1));
        break;
      }
      case 8: {
        auto& cone = w_.joint<btConeTwistConstraint>(a, *b, fa, fb);
        made = &cone;
        const bool tight = chance(0.4);
        cone.setLimit(tight ? btScalar(0) : hi, tight ? btScalar(0) : btScalar(0.3), chance(0.3) ? btScalar(0) : hi);
        break;
      }
      default:
        made = &w_.joint<btGearConstraint>(a, *b, fa.getBasis().getColumn(2), z_b, btScalar(random_.uniform(0.5, 3)));
    }
    if (chance(0.1)) made->setBreakingImpulseThreshold(btScalar(random_.uniform(0.001, 1)));
    if (chance(0.1)) made->setJointFeedback(&feedback_);
    a.activate();
    b->activate();
  }
  template <class Joint>
  void limit(Joint& joint, int axis, btScalar lo, btScalar hi) {
    const int kind = random_.integer(0, 9);
    if (kind < 6)
      joint.setLimit(axis, 0, 0);
    else if (kind < 8)
      joint.setLimit(axis, 1, -1);
    else if (kind < 9)
      joint.setLimit(axis, lo, hi);
    else
      joint.setLimit(axis, btScalar(0.1) * hi, btScalar(0.1) * hi);
  }

  void add_user() {
    std::vector<btRigidBody*> bodies;
    for (int i = random_.integer(1, 3); i > 0; --i) bodies.push_back(any_body());
    const std::string name = "own " + std::to_string(named_ += chance(0.95));  // a name in use, now and then
    const Vector3d p = bullet::from_bullet(bodies[0]->getWorldTransform().getOrigin());
    const double t = exact_->t();
    const std::vector<bullet::BodyRef> on(bodies.begin(), bodies.end());
    Result<bullet::Handle> made = Error{};
    if (bodies.size() == 3) {
      Vector3d offset = p;
      for (const int k : {1, 1, 2})
        offset += (k == 2 ? 1.0 : -1.0) * bullet::from_bullet(bodies[at(k)]->getWorldTransform().getOrigin());
      made = exact_->try_constrain(name, on, [=](const auto& s) {
        const auto d = s[0].position() + s[2].position() - 2.0 * s[1].position();
        return rows(d.x - offset.x(), d.y - offset.y());
      });
    } else if (bodies.size() == 2) {
      const double L = (p - bullet::from_bullet(bodies[1]->getWorldTransform().getOrigin())).squaredNorm();
      const double metres = 1 / std::max(2 * std::sqrt(L), 0.1);  // bodies fall far: the residual is their distance
      made = exact_->try_constrain(name, on, [=](const auto& s) {
        const auto d = s[0].position() - s[1].position();
        return metres * (dot(d, d) - L);
      });
    } else {
      switch (random_.integer(0, 4)) {
        case 0:
          made = exact_->try_constrain(name, on, [=](const auto& s) { return s[0].position().y - p.y(); });
          break;
        case 1:
          made = exact_->try_constrain(
              name, on, [=](const auto& s) { return s[0].position().x - p.x() - 0.05 * sin(3.0 * (s.t - t)); });
          break;
        case 2:
          made = exact_->try_constrain_velocity(name, on,
                                                [](const auto& s) { return dot(s[0].velocity(), s[0].axis(0, 0, 1)); });
          break;
        case 3:  // stops being a number after a while
          made = exact_->try_constrain(
              name, on, [=](const auto& s) { return s[0].position().z - p.z() + 0.0 * sqrt(t + 0.1 - s.t); });
          break;
        default:  // and one that gives up
          made = exact_->try_constrain(name, on, [=](const auto& s) {
            if (s.t > t + 0.1) throw std::runtime_error("gave up");
            return s[0].position().z - p.z();
          });
      }
    }
    if (!made) return;
    bullet::Handle handle = *made;
    EXPECT_TRUE(handle.valid());
    if (chance(0.4)) {
      handle.set_application_points(std::vector<Vector3d>(bodies.size(), Vector3d::Zero()));
      (void)handle.try_law(any_law());
    }
    users_.push_back({handle, std::move(bodies)});
  }
  Law any_law() { return chance(0.5) ? laws::viscous(0.5) : laws::coulomb(0.2); }

  void take_out(btTypedConstraint& joint) {
    w_.world.removeConstraint(&joint);
    joint.setJointFeedback(nullptr);
  }
  void delete_joint(int i) {
    take_out(*w_.joints[at(i)]);
    if (heap_ == Heap::hoarded) old_joints_.push_back(std::move(w_.joints[at(i)]));
    w_.joints.erase(w_.joints.begin() + i);
  }
  void delete_body(int i) {
    btRigidBody& body = *w_.bodies[at(i)];
    for (int k = count(w_.joints) - 1; k >= 0; --k)
      if (&w_.joints[at(k)]->getRigidBodyA() == &body || &w_.joints[at(k)]->getRigidBodyB() == &body) delete_joint(k);
    const auto on_it = [&](const User& u) {
      return std::find(u.bodies.begin(), u.bodies.end(), &body) != u.bodies.end();
    };
    if (std::any_of(users_.begin(), users_.end(), on_it)) exact_->release_body(body);
    std::erase_if(users_, on_it);
    w_.world.removeRigidBody(&body);
    if (heap_ == Heap::hoarded) old_bodies_.push_back(std::move(w_.bodies[at(i)]));
    w_.bodies.erase(w_.bodies.begin() + i);
  }
  void remove_something() {
    if (chance(0.4) && w_.bodies.size() > 3)
      delete_body(random_.integer(1, count(w_.bodies) - 1));
    else if (!w_.joints.empty())
      delete_joint(random_.integer(0, count(w_.joints) - 1));
  }
  static void make_kinematic(btRigidBody& body, bool on) {
    const int flag = btCollisionObject::CF_KINEMATIC_OBJECT;
    body.setCollisionFlags(on ? body.getCollisionFlags() | flag : body.getCollisionFlags() & ~flag);
    if (!on) body.activate(true);
  }
  void animate(double by) {
    for (const auto& body : w_.bodies)
      if (body->isKinematicObject() && body->isInWorld())
        body->getWorldTransform().getOrigin() += btVector3(btScalar(0.005 * std::sin(10 * by)), 0, 0);
  }
  void set_mass(btRigidBody& body, double mass) {
    btVector3 inertia(0, 0, 0);
    if (mass > 0) body.getCollisionShape()->calculateLocalInertia(btScalar(mass), inertia);
    body.setMassProps(btScalar(mass), inertia);
    body.updateInertiaTensor();
    body.activate(true);
  }

  void edit() {
    btRigidBody* body = any_dynamic();
    btTypedConstraint* joint = any_joint();
    if (!body || !joint) {
      add_body();
      return add_joint();
    }
    const int what = random_.integer(0, 30);
    story_ += " " + std::to_string(step_) + ":" + std::to_string(what);
    switch (what) {
      case 0:
        return add_joint(add_body(), chance(0.5) ? body : nullptr);
      case 1:
        return add_joint();
      case 2:
      case 3:
        return remove_something();
      case 4:
        take_out(*joint);
        if (chance(0.5)) w_.world.addConstraint(joint, chance(0.5));
        return;
      case 5:
      case 6:
        return joint->setEnabled(!joint->isEnabled());
      case 7:
        return set_mass(*body, (nncg_ ? 4 : 1) * random_.uniform(0.3, 4));
      case 8:
        return body->setAngularFactor(chance(0.5) ? btVector3(1, 1, 1) : btVector3(0, 1, 1));
      case 9:
        return body->setLinearFactor(chance(0.5) ? btVector3(1, 1, 1) : btVector3(1, 0, 1));
      case 10:
      case 11:
        body = any_body();
        if (body->getInvMass() > 0) make_kinematic(*body, !body->isKinematicObject());
        return;
      case 12:
        body = any_body();  // Bullet moves only what was no static body when it came
        w_.world.removeRigidBody(body);
        set_mass(*body, body->getInvMass() > 0 ? 0 : 4);
        return w_.world.addRigidBody(body);
      case 13:  // out of the world and in again at another place; to leave it out under its joints crashes Bullet
                // itself
        body = any_body();
        w_.world.removeRigidBody(body);
        return w_.world.addRigidBody(body);
      case 14:
        body->getWorldTransform().getOrigin() += bt(random_.vector(chance(0.8) ? 0.02 : 2));
        return body->activate(true);
      case 15:
        body->setLinearVelocity(bt(random_.vector(5)));
        return body->activate(true);
      case 16:
        body->applyCentralForce(bt(random_.vector(chance(0.8) ? 50 : 1e5)));
        return body->applyTorque(bt(random_.vector(3)));
      case 17:
        if (auto* hinge = dynamic_cast<btHingeConstraint*>(joint)) {
          hinge->enableAngularMotor(chance(0.5), 3, 1);
          if (chance(0.5)) hinge->setLimit(btScalar(-0.2), chance(0.5) ? btScalar(-0.2) : btScalar(0.3));
        } else if (auto* slider = dynamic_cast<btSliderConstraint*>(joint)) {
          slider->setLowerAngLimit(btScalar(-0.2));
        } else if (auto* d6 = dynamic_cast<btGeneric6DofSpring2Constraint*>(joint)) {
          limit(*d6, random_.integer(0, 5), btScalar(-0.3), btScalar(0.3));
        } else if (auto* point = dynamic_cast<btPoint2PointConstraint*>(joint)) {
          point->m_setting.m_impulseClamp = btScalar(chance(0.5) ? 1 : 0);
        }
        return;
      case 18:
        return joint->setBreakingImpulseThreshold(chance(0.5) ? btScalar(SIMD_INFINITY) : btScalar(0.05));
      case 19:
        return joint->setJointFeedback(chance(0.5) ? &feedback_ : nullptr);
      case 20:
      case 21:
        return add_user();
      case 22:
        if (users_.empty()) return add_user();
        switch (User& u = users_[at(random_.integer(0, count(users_) - 1))]; random_.integer(0, 4)) {
          case 0:
            return u.handle.remove();
          case 1:
            u.handle.enable(chance(0.5));
            return;
          case 2:
            u.handle.collisions_between_bodies(chance(0.5));
            return;
          case 3:
            u.handle.clear_laws();
            return;
          default:
            (void)u.handle.try_law(any_law());
            return;
        }
      case 23: {
        const auto named = exact_->try_name_joint(*joint, "mine " + std::to_string(random_.integer(0, 3)));
        bullet::Handle handle = named ? *named : bullet::Handle();
        if (chance(0.5)) (void)handle.try_law(any_law());
        if (chance(0.2)) handle.enable(chance(0.5));
        if (chance(0.1)) handle.remove();
        return;
      }
      case 24:
        if (chance(0.3)) exact_->reset();
        if (chance(0.3)) exact_->release_body(*body);
        if (chance(0.3)) (void)exact_->check();
        return;
      case 25:
        static constexpr int states[] = {ACTIVE_TAG, ISLAND_SLEEPING, WANTS_DEACTIVATION, DISABLE_DEACTIVATION};
        return body->forceActivationState(states[random_.integer(0, 3)]);
      case 26:
        if (chance(0.5)) w_.world.setGravity(bt(random_.vector(10)));
        return w_.world.getSimulationIslandManager()->setSplitIslands(chance(0.7));
      case 27:  // leave and come back
        if (in_step_) return;
        users_.clear();
        exact_.reset();
        if (chance(0.5)) native_step(0.01);
        return install();
      case 28: {  // another solver for a while, linchpin looking on
        btSequentialImpulseConstraintSolver other;
        btConstraintSolver* ours = w_.world.getConstraintSolver();
        w_.world.setConstraintSolver(&other);
        for (int i = random_.integer(1, 3); i > 0; --i) {
          native_step(0.01);
          if (chance(0.5)) remove_something();
          (void)exact_->summary();
        }
        return w_.world.setConstraintSolver(ours);
      }
      case 29: {
        btDefaultSerializer serializer;
        return w_.world.serialize(&serializer);
      }
      default:
        if (chance(0.3) && !users_.empty()) {  // somebody clears the world of constraints he does not know
          btTypedConstraint* last = w_.world.getConstraint(w_.world.getNumConstraints() - 1);
          if (last->getConstraintType() == CONTACT_CONSTRAINT_TYPE) w_.world.removeConstraint(last);
        } else if (may_poison_) {
          poisoned_ = true;
          body->setLinearVelocity(btVector3(btScalar(NAN), 0, 0));
        }
    }
  }

  // A step of another native solver, on bodies that no constraint of ours is on: what it makes of finite numbers is
  // Bullet's own, as the axes of a 6dof whose middle angle is π/2.
  void native_step(double dt) {
    const bool finite_before = w_.finite();
    w_.world.stepSimulation(btScalar(dt), 0);
    if (!finite_before || w_.finite()) return;
    poisoned_ = std::none_of(w_.bodies.begin(), w_.bodies.end(), [&](const auto& body) {
      const btVector3 sum =
          body->getLinearVelocity() + body->getAngularVelocity() + body->getWorldTransform().getOrigin();
      return !std::isfinite(sum.x() + sum.y() + sum.z()) && a_user_holds(*body);
    });
  }
  bool a_user_holds(const btRigidBody& body) const {
    return std::any_of(users_.begin(), users_.end(), [&](const User& u) {
      return std::find(u.bodies.begin(), u.bodies.end(), &body) != u.bodies.end();
    });
  }

  static double speed(const btRigidBody& body) {
    const double v = double(body.getLinearVelocity().length()), w = double(body.getAngularVelocity().length());
    return std::isfinite(v + w) ? std::max(v, w) : std::numeric_limits<double>::infinity();
  }
  double fastest() const {
    double most = 0;
    for (const auto& body : w_.bodies) most = std::max(most, speed(*body));
    return most;
  }
  bool a_free_one_is_turned_round(double bound) const {
    return std::any_of(w_.bodies.begin(), w_.bodies.end(), [&](const auto& body) {
      const btVector3& factor = body->getAngularFactor();
      return !body->isStaticOrKinematicObject() && factor != btVector3(1, 1, 1) && !factor.isZero() &&
             speed(*body) > bound && !held(*body);
    });
  }
  bool all_native() const {
    return std::all_of(exact_->reactions().begin(), exact_->reactions().end(),
                       [](const Reaction& r) { return r.native; });
  }

  // What must hold after every step; and that whatever may be asked, in any order, is answered.
  void look() {
    // NNCG diverges natively; the bare acceleration, without drift correction, squares what it is off by in every step.
    const bool sound = !poisoned_ && !nncg_ && options_.drift_correction;
    spare_tumblers();
    const bool in_parts = std::exchange(substeps_, exact_->counts().substeps) != exact_->counts().substeps;
    // A joint that a program has turned far comes back by a bounded turn in each step, and tells the angle that is
    // left.
    const bool comes_back =
        std::exchange(turned_back_, exact_->counts().realigned_steps) != exact_->counts().realigned_steps;
    ASSERT_TRUE(!sound || w_.finite()) << where();
    if (chance(0.3)) (void)exact_->summary();
    if (chance(0.1)) (void)exact_->check();
    if (chance(0.2)) (void)exact_->rank_report();
    if (chance(0.1)) (void)exact_->native_comparison();
    if (chance(0.1)) remove_something();
    if (!chance(0.5) || !sound) return;
    std::vector<char> contradictory(exact_->reactions().size(), 0);
    for (const int i : exact_->rank_report().contradictory) contradictory[at(i)] = 1;
    const auto native = exact_->native();
    const bool held = options_.mode == bullet::Mode::exact;
    for (std::size_t i = 0; i < contradictory.size(); ++i) {
      const Reaction& r = exact_->reactions()[i];
      ASSERT_TRUE(std::isfinite(r.work) && r.on_a.force.allFinite() && r.on_b.moment.allFinite()) << r.name;
      if (!held || contradictory[i] || r.native || asleep(static_cast<int>(i)) || comes_back ||
          std::any_of(native.begin(), native.end(),
                      [&](const auto& n) { return n.name == r.name && n.why.starts_with("all"); }))
        continue;
      const double away =
          std::max(1.0, extent(static_cast<int>(i)) / 50);  // [50 m]: positions are rounded so, and turns
      ASSERT_LE(std::max({r.gap, r.gap_angle, r.residual}), away * precision(1e-9, 1e-4)) << r.name << where();
    }
    // Multipliers of rows that contradict each other carry parts of any size that cancel, and the books are summed from
    // them; in single precision redundant rows do contradict, by the rounding of Bullet's frames.
    const RankReport ranks = exact_->rank_report();
    if (!ranks.contradictory.empty() || (single && (!ranks.redundant.empty() || ranks.largest_dropped > 0))) return;
    // Rows that depend on others but for a little are solved as if they did wholly (T6): the impulses of their rows are
    // those on the bodies but for that little.
    // Nobody knows whether they do once a body of theirs has been forgotten.
    if (ranks.largest_dropped > 1e-12 || ranks.rank == 0) return;
    for (const MomentumBalance& b : exact_->momentum_balances()) {
      // Newton ends a step to 1e-15 m, which is an impulse of 1e-15 N·s and more on a kilogram.
      if ((b.momentum - b.applied - b.host - b.constraints).norm() < precision(1e-15, 1e-10)) continue;
      // Parts of a step may pass poses at which they do, of which the rank at its start says nothing.
      ASSERT_LE(b.imbalance(), in_parts ? precision(1e-6, 1e-5) : precision(1e-9, 1e-5)) << where();
    }
  }

  // The bodies that the i-th reaction is between: joints come first, in the world's order.
  std::vector<const btRigidBody*> held_by(int i) const {
    std::vector<const btTypedConstraint*> joints;
    for (int k = 0; k < w_.world.getNumConstraints(); ++k) {
      const btTypedConstraint* c = w_.world.getConstraint(k);
      if (c->getConstraintType() != CONTACT_CONSTRAINT_TYPE &&
          std::find(joints.begin(), joints.end(), c) == joints.end())
        joints.push_back(c);
    }
    std::vector<const btRigidBody*> out;
    if (i < count(joints)) out = {&joints[at(i)]->getRigidBodyA(), &joints[at(i)]->getRigidBodyB()};
    for (const User& u : users_)
      if (u.handle.valid() && u.handle.name() == exact_->reactions()[at(i)].name)
        out.insert(out.end(), u.bodies.begin(), u.bodies.end());
    std::erase(out, &btTypedConstraint::getFixedBody());
    return out;
  }
  // How far out they are, or how far they turn in the step.
  double extent(int i) const {
    double out = exact_->reactions()[at(i)].on_a.point.norm();
    for (const btRigidBody* body : held_by(i))
      out = std::max({out, double(body->getWorldTransform().getOrigin().length()),
                      double(body->getAngularVelocity().length()) * dt_});
    return out;
  }
  // What native steps left of one that sleeps is closed when it wakes.
  bool asleep(int i) const {
    const auto bodies = held_by(i);
    return exact_->reactions()[at(i)].t < exact_->t() - 1.001 * dt_ ||
           (!bodies.empty() && std::none_of(bodies.begin(), bodies.end(), [](const btRigidBody* body) {
             return !body->isStaticOrKinematicObject() && body->isActive();
           }));
  }
  // Bullet's gyroscopic step, one of Newton's, squares the rate of what turns by radians in a step. On bodies that
  // exact constraints hold linchpin sees to that; on others, free ones and those of a block left to native rows, it is
  // the host's doing, and so in a program without linchpin: the program switches the term off, as programs do.
  void spare_tumblers() {
    const bool fell_back = std::exchange(fallbacks_, exact_->counts().fallbacks) != exact_->counts().fallbacks;
    for (const auto& body : w_.bodies) {
      if (body->isStaticOrKinematicObject() || !(body->getAngularVelocity().length() * btScalar(dt_) > btScalar(0.5)))
        continue;
      if (!(body->getFlags() & BT_ENABLE_GYROSCOPIC_FORCE_IMPLICIT_BODY) || (!fell_back && held(*body))) continue;
      body->setFlags(body->getFlags() & ~BT_ENABLE_GYROSCOPIC_FORCE_IMPLICIT_BODY);
    }
  }
  bool held(const btRigidBody& body) const {
    for (int i = 0; i < w_.world.getNumConstraints(); ++i) {
      const btTypedConstraint& c = *w_.world.getConstraint(i);
      if (c.isEnabled() && (&c.getRigidBodyA() == &body || &c.getRigidBodyB() == &body)) return true;
    }
    return false;
  }
  // What nobody solved in the last step, because all of it sleeps, has the gap that it fell asleep with.
  std::string where() { return "\nstep " + std::to_string(step_) + ", edits" + story_ + "\n" + exact_->summary(); }
  btQuaternion turn() {
    const Quaterniond q = random_.rotation();
    return {btScalar(q.x()), btScalar(q.y()), btScalar(q.z()), btScalar(q.w())};
  }

  Random random_;
  Heap heap_;
  std::vector<std::unique_ptr<btRigidBody>> old_bodies_;  // outlive the joints on them
  std::vector<std::unique_ptr<btTypedConstraint>> old_joints_;
  TestWorld w_;
  btNNCGConstraintSolver nncg_solver_;
  btJointFeedback feedback_;
  bullet::Options options_;
  std::unique_ptr<bullet::Solver> exact_;
  std::vector<User> users_;
  std::string story_;  ///< step:edit
  int named_ = 0, step_ = 0;
  long long fallbacks_ = 0, substeps_ = 0, turned_back_ = 0;
  double dt_ = 0;  ///< [s] of the last step
  bool nncg_ = false, may_poison_ = false, poisoned_ = false, meddle_ = false, in_step_ = false;
};

void run(std::uint64_t seed, int steps) {
  SCOPED_TRACE(repeat_with(seed));
  std::vector<btScalar> bits[2];
  for (const Leaving leaving : {Leaving::destroyed, Leaving::replaced}) {
    SCOPED_TRACE(leaving == Leaving::destroyed ? "destroyed" : "replaced");
    Program program(seed, Heap::hoarded);
    bits[leaving == Leaving::replaced] = program.run(steps, leaving);
    if (::testing::Test::HasFatalFailure() || program.poisoned()) return;
  }
  ASSERT_EQ(bits[0].size(), bits[1].size());
  for (std::size_t i = 0; i < bits[0].size(); ++i)  // NNCG diverges natively: no number is as good as another
    ASSERT_TRUE(bits[0][i] == bits[1][i] || (!std::isfinite(bits[0][i]) && !std::isfinite(bits[1][i])))
        << "number " << i << ": " << bits[0][i] << " and " << bits[1][i];
  SCOPED_TRACE("addresses used again");
  Program(seed, Heap::freed).run(steps, Leaving::destroyed);
}

// Under the sanitizers a program takes fifteen times as long: LINCHPIN_TEST_SEED=N, or LINCHPIN_SOAK_MINUTES, for
// others.
#ifdef __SANITIZE_ADDRESS__
constexpr int programs_always = 3;
#else
constexpr int programs_always = 60;
#endif

TEST(Soak, ShortProgramsEndAsTheyShould) {
  for (const std::uint64_t seed : seeds(programs_always)) {
    run(seed, 30);
    if (HasFailure()) return;
  }
}

// Programs that have found what no other test did: in single precision a constraint left behind by a body that had
// become kinematic, and one that was open since a body of it had come to life with a factor of a half, in double a body
// on a joint to an animated one that took all the energy there is, a constraint between more than two bodies that was
// switched off before anything was told of it, and a body at 1000 rad/s whose books had of its turn what a part of a
// step that was refused had found.
TEST(Soak, ProgramsThatHaveFoundSomething) {
  for (const std::uint64_t seed : {1140u, 1349u, 2055u, 2642u, 5000047u, 7000218u}) run(seed, 150);
}

// LINCHPIN_SOAK_MINUTES=10 runs as many as it can; else LINCHPIN_SOAK_PROGRAMS=80 runs always the same. From
// LINCHPIN_SOAK_FROM on.
TEST(SlowSoak, ProgramsForMinutes) {
  const char* minutes = std::getenv("LINCHPIN_SOAK_MINUTES");
  const char* programs = std::getenv("LINCHPIN_SOAK_PROGRAMS");
  if (!minutes && !programs) GTEST_SKIP() << "neither LINCHPIN_SOAK_MINUTES nor LINCHPIN_SOAK_PROGRAMS is set";
  if (std::getenv("LINCHPIN_TEST_SEED")) return run(seeds(1).front(), 150);
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(60 * std::strtod(minutes ? minutes : "0", nullptr));
  const char* from = std::getenv("LINCHPIN_SOAK_FROM");
  const std::uint64_t first = from ? std::strtoull(from, nullptr, 10) : 1000;
  const std::uint64_t last = first + (programs ? std::strtoull(programs, nullptr, 10) : 0);
  std::uint64_t seed = first;
  for (; minutes ? Clock::now() < end : seed < last; ++seed) {
    run(seed, 150);
    if (HasFailure()) return;
  }
  std::printf("%d programs\n", static_cast<int>(seed - first));
}

}  // namespace
}  // namespace linchpin::test::soak_test
