// What Bullet itself tells of a joint, its feedback, its applied impulse and its breaking, is of one impulse: all that
// the joint did in the step, however the step was taken.
#include "link_world.h"
#include "world.h"

#include <BulletDynamics/ConstraintSolver/btSliderConstraint.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <stdexcept>

namespace linchpin::test::joint_reports_test {
namespace {

using bullet::from_bullet;
using bullet::Stepping;

constexpr double never = 1e30;  ///< a threshold, so that setting another changes nothing but that

struct Case {
  const char* name;
  std::function<void(TestWorld&)> build;
  bullet::Options options{};
  /// Of the solver, and before each step.
  std::function<void(bullet::Solver&, TestWorld&)> add = [](bullet::Solver&, TestWorld&) {};
  std::function<void(TestWorld&, int)> before = [](TestWorld&, int) {};
  /// That the steps were taken as the name says.
  std::function<bool(const bullet::Counts&)> taken_so = [](const bullet::Counts&) { return true; };
  bool exact = true;               ///< there are books
  bool touches = false;            ///< contacts act, and no native row of a joint
  std::vector<const char*> own{};  ///< constraints of the user's
  double dt = 1.0 / 240;
};

void PrintTo(const Case& of, std::ostream* out) { *out << of.name; }

btTransform at(double x, double y, double z = 0) {
  return btTransform(btQuaternion::getIdentity(), btVector3(btScalar(x), btScalar(y), btScalar(z)));
}

void spin(TestWorld& w, double rate) {
  const btVector3 turn(btScalar(0.2), btScalar(0.3), btScalar(-rate));
  for (const auto& body : w.bodies) {
    if (body->isStaticOrKinematicObject()) continue;
    body->setAngularVelocity(turn);
    body->setLinearVelocity(turn.cross(body->getWorldTransform().getOrigin()));
  }
}

void bare(TestWorld& w) {
  chain(w, 4);
  spin(w, 3);
}

/// A ton on light links: too fast for a step.
void load(TestWorld& w) {
  chain(w, 6, 0.1);
  btRigidBody& ball = w.ball(1000, 0.3, btVector3(btScalar(3.3), 0, 0));
  w.joint<btPoint2PointConstraint>(*w.bodies[5], ball, btVector3(btScalar(0.25), 0, 0),
                                   btVector3(btScalar(-0.3), 0, 0));
  spin(w, 3);
}

/// The same with a ball in its way, which it takes along.
void load_that_pushes(TestWorld& w) {
  load(w);
  w.ball(1, 0.1, btVector3(btScalar(3.3), btScalar(-0.399), 0));
}

void on_floor(TestWorld& w) {
  bare(w);
  w.box(0, btVector3(5, btScalar(0.5), 5), btVector3(0, btScalar(-0.6), 0));
}

btHingeConstraint& arm(TestWorld& w) {
  chain(w, 2);
  btRigidBody& tip =
      w.box(1, btVector3(btScalar(0.25), btScalar(0.05), btScalar(0.05)), btVector3(btScalar(1.25), 0, 0));
  auto& hinge = w.joint<btHingeConstraint>(*w.bodies[1], tip, btVector3(btScalar(0.25), 0, 0),
                                           btVector3(btScalar(-0.25), 0, 0), btVector3(0, 0, 1), btVector3(0, 0, 1));
  spin(w, 3);
  return hinge;
}

void motor(TestWorld& w) { arm(w).enableAngularMotor(true, 2, 100); }
void limit(TestWorld& w) {
  arm(w).setLimit(btScalar(-0.02), btScalar(0.02));
  w.bodies[2]->setAngularVelocity(btVector3(0, 0, 5));
}
void slider(TestWorld& w) {
  btRigidBody& cart = w.box(2, btVector3(btScalar(0.2), btScalar(0.1), btScalar(0.1)), btVector3(0, 0, 0));
  auto& rail = w.joint<btSliderConstraint>(cart, at(0.1, 0.2), true);
  rail.setLowerLinLimit(-10);
  rail.setUpperLinLimit(10);
  rail.setPoweredLinMotor(true);
  rail.setTargetLinMotorVelocity(3);
  rail.setMaxLinMotorForce(50);
}
void motor_in_parts(TestWorld& w) {
  load(w);
  btRigidBody& fin =
      w.box(0.1, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), btVector3(btScalar(0.25), btScalar(0.3), 0));
  w.joint<btHingeConstraint>(*w.bodies[0], fin, btVector3(0, btScalar(0.15), 0), btVector3(0, btScalar(-0.15), 0),
                             btVector3(0, 1, 0), btVector3(0, 1, 0))
      .enableAngularMotor(true, 1, 10);
}

void welds(TestWorld& w) {
  bare(w);
  btRigidBody& end = w.box(1, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), btVector3(btScalar(2.2), 0, 0));
  for (int i = 0; i < 2; ++i) w.joint<btFixedConstraint>(*w.bodies[3], end, at(0.25, 0), at(-0.2, 0));
}

void on_post(TestWorld& w) {
  btRigidBody& post = w.box(0, btVector3(btScalar(0.1), 1, btScalar(0.1)), btVector3(0, 1, 0));
  btRigidBody& bar = w.box(2, btVector3(btScalar(0.5), btScalar(0.1), btScalar(0.1)), btVector3(btScalar(0.7), 2, 0));
  w.joint<btPoint2PointConstraint>(post, bar, btVector3(btScalar(0.15), 1, 0), btVector3(btScalar(-0.55), 0, 0));
  bar.setAngularVelocity(btVector3(1, 2, 3));
}

void on_cart(TestWorld& w) {
  on_post(w);
  w.bodies[0]->setCollisionFlags(btCollisionObject::CF_KINEMATIC_OBJECT);
  w.bodies[0]->setActivationState(DISABLE_DEACTIVATION);
}
void drive(TestWorld& w, int step) { w.bodies[0]->setWorldTransform(at(1e-4 * step * step, 1)); }

void lift(TestWorld& w) {
  btRigidBody& cage = w.box(20, btVector3(1, 1, 1), btVector3(0, 0, 0));
  auto& rails = w.joint<btGeneric6DofSpring2Constraint>(cage, btTransform::getIdentity());
  for (int axis = 0; axis < 6; ++axis) rails.setLimit(axis, 0, 0);
}
void raise(TestWorld& w, int step) {
  const auto height = btScalar(2e-5 * step * step);
  static_cast<btGeneric6DofSpring2Constraint&>(*w.joints[0]).setLimit(1, height, height);
}

void soft(TestWorld& w) {
  bare(w);
  for (const auto& joint : w.joints) joint->setParam(BT_CONSTRAINT_CFM, btScalar(1e-4), -1);
}

bullet::Options with(Stepping stepping) { return {.stepping = stepping}; }
bullet::Options with_stiffness() {
  bullet::Options options;
  options.geometric_stiffness = true;
  return options;
}
bool in_parts(const bullet::Counts& n) { return n.substepped_steps > 30 && n.fallbacks == 0; }
bool by_stages(const bullet::Counts& n) {
  return n.integrator_substeps >= n.steps && n.order_reductions == 0 && n.fallbacks == 0;
}
bool whole(const bullet::Counts& n) { return n.substepped_steps == 0 && n.fallbacks == 0; }

void friction(bullet::Solver& exact, TestWorld& w) { exact.name_joint(*w.joints[1], "stiff").law(laws::viscous(0.3)); }
/// Two links that do not bend in their plane.
void splint(bullet::Solver& exact, TestWorld& w) {
  exact.constrain("splint", {*w.bodies[0], *w.bodies[1]},
                  [](const auto& s) { return dot(s[0].axis(0, 1, 0), s[1].axis(1, 0, 0)); });
}
/// The same of others, which cannot be evaluated for a while: the block is left to native rows.
void moody(bullet::Solver& exact, TestWorld& w) {
  exact.constrain("moody", {*w.bodies[2], *w.bodies[3]}, [](const auto& s) {
    if (s.t > 0.03 && s.t < 0.04) throw std::runtime_error("not now");
    return dot(s[0].axis(0, 1, 0), s[1].axis(1, 0, 0));
  });
}

/// A world under linchpin whose joints are all listened to.
struct Watched {
  explicit Watched(const Case& of) : c(of), feedback() {
    c.build(w);
    for (const auto& joint : w.joints) {
      joint->setJointFeedback(&feedback.emplace_back());
      joint->setBreakingImpulseThreshold(btScalar(never));
    }
    exact = std::make_unique<bullet::Solver>(w.world, c.options);
    c.add(*exact, w);
  }
  void step() {
    for (btJointFeedback& f : feedback)
      for (btVector3* x :
           {&f.m_appliedForceBodyA, &f.m_appliedForceBodyB, &f.m_appliedTorqueBodyA, &f.m_appliedTorqueBodyB})
        x->setZero();
    c.before(w, ++steps);
    w.step(1, c.dt);
  }
  Vector3d force(std::size_t joint) const { return from_bullet(feedback[joint].m_appliedForceBodyA); }
  Vector3d moment(std::size_t joint) const { return from_bullet(feedback[joint].m_appliedTorqueBodyA); }

  const Case& c;
  TestWorld w;
  std::deque<btJointFeedback> feedback;
  std::unique_ptr<bullet::Solver> exact;
  int steps = 0;
};

class JointReports : public ::testing::TestWithParam<Case> {};

// m Δv = gravity and contacts, in the books of their own, and what the joints say; and likewise of turning.
TEST_P(JointReports, AddUpToWhatEachBodyGains) {
  const Case& c = GetParam();
  Watched x(c);
  for (int step = 0; step < 60; ++step) {
    std::vector<BodyState> start(x.w.bodies.size());
    for (std::size_t i = 0; i < start.size(); ++i) {
      start[i].p = from_bullet(x.w.bodies[i]->getCenterOfMassPosition());
      start[i].v = from_bullet(x.w.bodies[i]->getLinearVelocity());
    }
    x.step();
    const auto books = x.exact->momentum_balances();
    for (std::size_t i = 0; i < x.w.bodies.size(); ++i) {
      btRigidBody& body = *x.w.bodies[i];
      if (body.isStaticOrKinematicObject()) continue;
      const double mass = 1 / double(body.getInvMass());
      const Vector3d now = from_bullet(body.getLinearVelocity()), gained = mass * (now - start[i].v);
      Vector3d push = mass * c.dt * from_bullet(body.getGravity()), turn = Vector3d::Zero();
      const MomentumBalance* book = nullptr;
      for (const MomentumBalance& b : books)
        if (b.body == x.exact->id(body)) book = &b;
      if (book) {
        push = book->applied.head<3>();
        turn = book->applied.tail<3>();
        if (c.touches) push += book->host.head<3>(), turn += book->host.tail<3>();
      }
      if (!book && c.touches) continue;
      double size = mass * (now.norm() + start[i].v.norm()), moments = 0;
      for (std::size_t j = 0; j < x.w.joints.size(); ++j) {
        const btJointFeedback& f = x.feedback[j];
        const auto add = [&](const btVector3& force, const btVector3& torque) {
          push += c.dt * from_bullet(force);
          turn += c.dt * from_bullet(torque);
          size = std::max(size, c.dt * from_bullet(force).norm());
          moments = std::max(moments, c.dt * from_bullet(torque).norm());
        };
        if (&x.w.joints[j]->getRigidBodyA() == &body) add(f.m_appliedForceBodyA, f.m_appliedTorqueBodyA);
        if (&x.w.joints[j]->getRigidBodyB() == &body) add(f.m_appliedForceBodyB, f.m_appliedTorqueBodyB);
        ASSERT_LE((f.m_appliedForceBodyA + f.m_appliedForceBodyB).length(),
                  precision(1e-12, 1e-5) * (1 + double(f.m_appliedForceBodyA.length())));
      }
      for (const char* name : c.own) {
        bullet::Handle handle = x.exact->find(name);
        for (std::size_t k = 0; book && k < handle.bodies().size(); ++k) {
          if (handle.bodies()[k] != &body) continue;
          const int side = static_cast<int>(k);
          for (const Wrench& part : {Wrench(handle.reaction().on(side)), handle.reaction().stabilisation.on(side)}) {
            push += c.dt * part.force;
            turn += c.dt * part.about(start[i].p).moment;
          }
        }
      }
      ASSERT_LE((push - gained).norm(), precision(1e-11, 1e-5) * size) << "body " << i << ", step " << step;
      if (!book || x.exact->counts().stiffened_steps > 0) continue;  // whose torque is no joint's
      ASSERT_LE((turn - book->momentum.tail<3>()).norm(),
                precision(1e-10, 1e-4) * (moments + book->momentum.tail<3>().norm() + 1e-3 * size))
          << "body " << i << ", step " << step;
    }
  }
  EXPECT_TRUE(c.taken_so(x.exact->counts())) << x.exact->summary();
}

/// What breaks a ball: the largest component of its impulse, along the world's axes as Bullet's rows.
double of_ball(const Watched& x, std::size_t joint) { return x.c.dt * x.force(joint).cwiseAbs().maxCoeff(); }

// A joint breaks in the step whose feedback says so, and its applied impulse is the force's.
TEST_P(JointReports, AreWhatBreaksAJoint) {
  const Case& c = GetParam();
  if (!c.exact) GTEST_SKIP() << "Bullet's own rows";
  constexpr int step = 20;
  Watched watched(c);
  for (int i = 0; i < step; ++i) watched.step();
  const double close = precision(1e-9, 1e-4);
  int balls = 0;
  for (std::size_t j = 0; j < watched.w.joints.size(); ++j) {
    if (watched.w.joints[j]->getConstraintType() != POINT2POINT_CONSTRAINT_TYPE) continue;
    ++balls;
    EXPECT_NEAR(double(watched.w.joints[j]->getAppliedImpulse()), c.dt * watched.force(j).norm(),
                close * c.dt * watched.force(j).norm());
    for (const double share : {1 - close, 1 + close}) {
      SCOPED_TRACE(std::to_string(j) + (share < 1 ? " below" : " above"));
      Watched again(c);
      for (int i = 1; i < step; ++i) again.step();
      again.w.joints[j]->setBreakingImpulseThreshold(btScalar(share * of_ball(watched, j)));
      again.step();
      EXPECT_EQ(again.w.joints[j]->isEnabled(), share > 1) << again.exact->summary();
    }
  }
  if (balls == 0) GTEST_SKIP() << "no balls";
}

INSTANTIATE_TEST_SUITE_P(
    Of, JointReports,
    ::testing::Values(
        Case{.name = "whole_steps", .build = bare, .taken_so = whole},
        Case{.name = "whole_steps_with_a_law", .build = bare, .add = friction, .taken_so = whole},
        Case{.name = "parts", .build = load, .taken_so = in_parts},
        Case{.name = "parts_with_a_law", .build = load, .add = friction, .taken_so = in_parts},
        Case{.name = "parts_in_contact", .build = load_that_pushes, .taken_so = in_parts, .touches = true},
        Case{.name = "contact", .build = on_floor, .touches = true},
        Case{
            .name = "order_four", .build = bare, .options = with(Stepping::rk4), .taken_so = by_stages, .dt = 1.0 / 60},
        Case{.name = "adaptive", .build = bare, .options = with(Stepping::adaptive), .taken_so = by_stages},
        Case{.name = "order_four_in_parts",
             .build = load,
             .options = with(Stepping::rk4),
             .taken_so = in_parts,
             .dt = 1.0 / 60},
        Case{.name = "order_four_with_a_law",
             .build = bare,
             .options = with(Stepping::rk4),
             .add = friction,
             .taken_so = by_stages},
        Case{.name = "geometric_stiffness",
             .build = load,
             .options = with_stiffness(),
             .taken_so = [](const auto& n) { return n.stiffened_steps > 30; }},
        Case{.name = "a_motor", .build = motor}, Case{.name = "a_limit", .build = limit},
        Case{.name = "a_motor_on_a_slide", .build = slider},
        Case{.name = "a_motor_in_parts", .build = motor_in_parts, .taken_so = in_parts},
        Case{.name = "welds_too_many", .build = welds}, Case{.name = "a_post", .build = on_post},
        Case{.name = "an_animated_cart", .build = on_cart, .before = drive},
        Case{.name = "a_moving_limit", .build = lift, .before = raise},
        Case{.name = "a_splint", .build = bare, .add = splint, .own = {"splint"}},
        Case{.name = "a_fallback",
             .build = bare,
             .add = moody,
             .taken_so = [](const auto& n) { return n.fallbacks > 0; },
             .own = {"moody"}},
        Case{.name = "soft_joints", .build = soft, .exact = false},
        Case{.name = "observing", .build = bare, .options = {.mode = bullet::Mode::passive}, .exact = false}),
    [](const auto& of) { return std::string(of.param.name); });

// Of turning rows too, the motor's among them: components of the moment about the joint's point along its axes.
TEST(JointReports, MomentsBreakHingesAndWelds) {
  enum class Kind { hinge, motor, weld };
  for (const Kind kind : {Kind::hinge, Kind::motor, Kind::weld}) {
    SCOPED_TRACE(static_cast<int>(kind));
    const btVector3 half(2, btScalar(0.1), btScalar(0.1));
    btTransform frame(btQuaternion::getIdentity(), btVector3(btScalar(-2.2), 0, 0));
    const Case c{.name = "", .build = [&](TestWorld& w) {
                   btRigidBody& post = w.box(0, btVector3(btScalar(0.1), 1, btScalar(0.1)), btVector3(0, 0, 0));
                   btRigidBody& beam = w.box(2, half, btVector3(btScalar(2.2), 0, 0));
                   if (kind == Kind::weld) {
                     w.joint<btFixedConstraint>(beam, post, frame, btTransform::getIdentity());
                   } else {
                     const btVector3 axis(0, btScalar(0.6), btScalar(0.8));
                     auto& hinge =
                         w.joint<btHingeConstraint>(beam, post, frame.getOrigin(), btVector3(0, 0, 0), axis, axis);
                     hinge.enableAngularMotor(kind == Kind::motor, 0, 1000);
                     frame.setBasis(hinge.getAFrame().getBasis());
                   }
                 }};
    constexpr int step = 10;
    Watched watched(c);
    for (int i = 1; i < step; ++i) watched.step();
    const btTransform start = watched.w.bodies[1]->getCenterOfMassTransform();
    watched.step();
    const btVector3 force = watched.feedback[0].m_appliedForceBodyA,
                    moment =
                        watched.feedback[0].m_appliedTorqueBodyA - (start.getBasis() * frame.getOrigin()).cross(force);
    const btVector3 along = (start.getBasis() * frame.getBasis()).transpose() * moment;
    double worst = 0;
    for (int i = 0; i < 3; ++i)
      worst = std::max({worst, c.dt * std::abs(double(along[i])), c.dt * std::abs(double(force[i]))});
    EXPECT_GT(worst, 1.1 * c.dt * double(force.length()));
    for (const double share : {0.99, 1.01}) {
      Watched again(c);
      for (int i = 1; i < step; ++i) again.step();
      again.w.joints[0]->setBreakingImpulseThreshold(btScalar(share * worst));
      again.step();
      EXPECT_EQ(again.w.joints[0]->isEnabled(), share > 1) << again.exact->summary();
    }
  }
}

// A joint between rigid bodies that is solved with links of a multibody reports and breaks as any other, in steps that
// do not end on the constraints too.
TEST(JointReports, OfJointsThatAreSolvedWithLinks) {
  for (const int solves : {30, 0}) {
    SCOPED_TRACE(solves);
    double carried = 0;
    for (const double share : {0.0, 0.99, 1.01}) {
      SCOPED_TRACE(share);
      LinkWorld w;
      btMultiBody& mb = w.multibody(1, true);
      mb.setupRevolute(0, 1, btVector3(btScalar(0.01), btScalar(0.1), btScalar(0.1)), -1, straight, btVector3(0, 0, 1),
                       btVector3(0, 0, 0), btVector3(btScalar(0.5), 0, 0), true);
      w.finish(mb);
      btRigidBody& load =
          w.box(5, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), btVector3(1, btScalar(-0.3), 0));
      btRigidBody& tail =
          w.box(1, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), btVector3(1, btScalar(-0.9), 0));
      btPoint2PointConstraint joint(load, tail, btVector3(0, btScalar(-0.3), 0), btVector3(0, btScalar(0.3), 0));
      w.world.addConstraint(&joint);
      btJointFeedback feedback;
      joint.setJointFeedback(&feedback);
      joint.setBreakingImpulseThreshold(btScalar(never));
      tail.setLinearVelocity(btVector3(1, 0, 2));
      {
        bullet::Solver exact(w.world, {.max_newton = solves});
        exact.constrain("hook", {link(mb, 0), load},
                        [](const auto& s) { return s[0].point(0.5, 0, 0) - s[1].point(0, 0.3, 0); });
        for (int step = 1; step <= 20; ++step) {
          const Vector3d v = from_bullet(tail.getLinearVelocity()),
                         spin = from_bullet(tail.getInvInertiaTensorWorld().inverse() * tail.getAngularVelocity());
          const btMatrix3x3 inertia = tail.getInvInertiaTensorWorld().inverse();
          if (step == 20 && share > 0) joint.setBreakingImpulseThreshold(btScalar(share * carried));
          w.step();
          const Vector3d force = from_bullet(feedback.m_appliedForceBodyB),
                         impulse = from_bullet(tail.getLinearVelocity()) - v - from_bullet(w.world.getGravity()) / 240;
          ASSERT_LE((force / 240 - impulse).norm(), precision(1e-12, 1e-5) * (1 + impulse.norm())) << step;
          const Vector3d turned = from_bullet(inertia * tail.getAngularVelocity()) - spin;
          ASSERT_LE((from_bullet(feedback.m_appliedTorqueBodyB) / 240 - turned).norm(), precision(1e-12, 1e-5)) << step;
          ASSERT_LE((feedback.m_appliedForceBodyA + feedback.m_appliedForceBodyB).length(), precision(1e-10, 1e-4));
          ASSERT_NEAR(double(joint.getAppliedImpulse()), force.norm() / 240, precision(1e-12, 1e-5));
          carried = share > 0 ? carried : force.cwiseAbs().maxCoeff() / 240;
        }
        EXPECT_EQ(exact.counts().fallbacks > 0, solves == 0);
        EXPECT_EQ(joint.isEnabled(), share == 0 || share > 1) << exact.summary();
        w.step(2);
      }
      w.world.removeConstraint(&joint);
    }
  }
}

}  // namespace
}  // namespace linchpin::test::joint_reports_test
