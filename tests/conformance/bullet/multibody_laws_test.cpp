// Laws on joints of multibodies and on constraints between links: the same numbers as rigid bodies with exact joints
// and as without a host, the true load of the joint as thrust, rest that stays.
#include "allocation_counter.h"
#include "link_world.h"

#include <BulletDynamics/Featherstone/btMultiBodyGearConstraint.h>
#include <BulletDynamics/Featherstone/btMultiBodyJointMotor.h>
#include <BulletDynamics/Featherstone/btMultiBodyPoint2Point.h>

#include <linchpin/stepper.h>

#include <gtest/gtest.h>

namespace linchpin::test::multibody_laws_test {
namespace {

const double g = double(btScalar(9.81));

/// A bar of 2 kg on a pin at the origin, its centre `arm` below, turning about z.
struct Bar {
  double mass = 2, arm = 0.6, across = 0.3, angle = 0.9, rate = 3;
};
btMultiBody& bar_on_pin(LinkWorld& w, const Bar& b) {
  btMultiBody& mb = w.multibody(1, true);
  mb.setupRevolute(0, btScalar(b.mass), bt(b.across, 0.01, b.across), -1, straight, bt(0, 0, 1), bt(0, 0, 0),
                   bt(0, -b.arm, 0), true);
  mb.setJointPos(0, btScalar(b.angle));
  w.finish(mb);
  mb.setJointVel(0, btScalar(b.rate));
  return mb;
}
/// The same without a host. @return the pin
ConstraintId bar_on_pin(System& s, const Bar& b) {
  s.set_gravity({0, -g, 0});
  const Quaterniond q(Eigen::AngleAxisd(double(btScalar(b.angle)), Vector3d::UnitZ()));
  const double rate = double(btScalar(b.rate)), arm = double(btScalar(b.arm)), I = double(btScalar(b.across));
  const Vector3d p = q * Vector3d(0, -arm, 0);
  const BodyId body = s.add_body("bar", b.mass, Vector3d(I, double(btScalar(0.01)), I), Pose{p, q},
                                 Vector3d(0, 0, rate).cross(p), {0, 0, rate});
  return s.add(joints::hinge("pin", ground, Vector3d::Zero(), Vector3d::UnitZ(), body, {0, arm, 0}, Vector3d::UnitZ()));
}
/// And as a rigid body in Bullet.
btRigidBody& bar_on_pin(TestWorld& w, const Bar& b) {
  btRigidBody& body = w.box(1, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), btVector3(0, 0, 0));
  body.setMassProps(btScalar(b.mass), bt(b.across, 0.01, b.across));
  const btQuaternion q(bt(0, 0, 1), btScalar(b.angle));
  const btVector3 p = quatRotate(q, bt(0, -b.arm, 0));
  body.setWorldTransform(btTransform(q, p));
  body.updateInertiaTensor();
  body.setAngularVelocity(bt(0, 0, b.rate));
  body.setLinearVelocity(bt(0, 0, b.rate).cross(p));
  body.setDamping(0, 0);
  return body;
}
bullet::Handle pin_of(bullet::Solver& exact, btRigidBody& body, const Bar& b) {
  return exact.add(joints::hinge("pin", ground, Vector3d::Zero(), Vector3d::UnitZ(), exact.id(body),
                                 {0, double(btScalar(b.arm)), 0}, Vector3d::UnitZ()));
}

struct NamedLaw {
  const char* name;
  Law law;
};
const laws::JointFriction worn{
    .mu_static = 0.4, .mu_kinetic = 0.3, .pin_radius = 0.05, .bending_arm = 0.2, .preload = 0.1};
std::vector<NamedLaw> pin_laws() {
  Law on_actual = laws::hinge_friction(worn);
  on_actual.with_normal_force(NormalForce::coupled);
  return {{"hinge_friction", hinge_friction(worn)},
          {"hinge_friction on the coupled normal force", on_actual},
          {"viscous_torque", laws::viscous_torque(0.2)},
          {"a law of the user's", Law([](const ConstraintReaction& n) {
             return ForceMoment{Vector3d::Zero(), -0.02 * n.magnitude() * n.spin_velocity /
                                                      std::sqrt(0.01 + n.spin_velocity.squaredNorm())};
           })}};
}

// ---- one pendulum in three forms ----

TEST(MultibodyLaws, APendulumSlowsAsARigidBodyAndAsWithoutAHost) {
  const Bar b;
  constexpr double dt = 1.0 / 240;
  for (const NamedLaw& law : pin_laws()) {
    SCOPED_TRACE(law.name);
    System s;
    const ConstraintId pin = bar_on_pin(s, b);
    add_law(s, pin, law.law);
    Dynamics d(s);
    d.set_step(dt);
    const State at = s.initial_state();
    ASSERT_NE(d.evaluate(at), Status::invalid) << d.reason();
    const LawForce& effort = d.law_forces()[0];

    LinkWorld w;
    btMultiBody& mb = bar_on_pin(w, b);
    bullet::Solver exact(w.world);
    bullet::Handle joint = exact.name_joint(link(mb, 0), "pin");
    joint.law(law.law);
    const double rate = double(mb.getJointVel(0));
    w.step(1, dt);
    const double got = (double(mb.getJointVel(0)) - rate) / dt;
    EXPECT_NEAR(got, d.vdot()[5], precision(1e-9, 1e-3) * std::abs(d.vdot()[5]));
    std::vector<Reaction> reactions;
    d.reactions(at, reactions);
    const Reaction& r = joint.reaction();
    EXPECT_LE((r.on_b.force - reactions[0].on_b.force).norm(), precision(1e-9, 1e-5) * r.on_b.force.norm());
    EXPECT_LE((r.prescribed.on_b.moment - reactions[0].prescribed.on_b.moment).norm(),
              precision(1e-9, 1e-5) * effort.moment.norm());
    EXPECT_LE((exact.laws()[0].normal.force - effort.normal).norm(), precision(1e-9, 1e-5) * effort.normal.norm());
    EXPECT_GT(effort.moment.norm(), 0.1);
    // What a sensor shows, and the joint's own row: friction is part of both.
    const Wrench sensor = exact.joint_wrench(link(mb, 0));
    EXPECT_LE((sensor.force - r.on_b.force).norm(), precision(1e-9, 1e-4) * r.on_b.force.norm());
    EXPECT_NEAR(sensor.moment.z(), r.prescribed.on_b.moment.z(), precision(1e-9, 1e-4));
    const bullet::JointForces f = exact.joint_forces(link(mb, 0));
    EXPECT_NEAR(f.laws[0], r.prescribed.on_b.moment.z(), precision(1e-9, 1e-5));
    EXPECT_NEAR(f.inertia[0], f.gravity[0] + f.velocity[0] + f.damping[0] + f.laws[0], precision(1e-10, 1e-4));

    TestWorld t;
    btRigidBody& body = bar_on_pin(t, b);
    bullet::Solver rigid(t.world, {.drift_correction = false});  // the acceleration itself
    bullet::Handle hinge = pin_of(rigid, body, b);
    hinge.law(law.law);
    t.step(1, dt);
    EXPECT_NEAR((double(body.getAngularVelocity().z()) - rate) / dt, got, precision(1e-9, 1e-3) * std::abs(got));
    EXPECT_LE((hinge.reaction().on_b.force - r.on_b.force).norm(), precision(1e-9, 1e-5) * r.on_b.force.norm());
  }
}

// Against the same without a host at small steps: first order, and rest where it rests.
TEST(MultibodyLaws, APendulumComesToRestWhereItDoesWithoutAHostAtFirstOrder) {
  const Bar b{.rate = 2.5};
  const Law law = laws::hinge_friction({.mu_static = 0.5, .mu_kinetic = 0.4, .pin_radius = 0.15});
  System s;
  add_law(s, bar_on_pin(s, b), law);
  Stepper stepper(s, s.initial_state(), {.method = Method::adaptive});
  while (stepper.state().t < 5 - 1e-9) stepper.step(0.01);
  const Vector3d down = stepper.state()[BodyId{1}].q * Vector3d(0, -1, 0);
  const double reference = std::atan2(down.x(), -down.y());
  EXPECT_LE(stepper.state()[BodyId{1}].w.norm(), 1e-12);
  EXPECT_GT(std::abs(reference), 1e-3);  // friction holds it off the lowest place
  double error[2];
  for (const int k : {0, 1}) {
    LinkWorld w;
    btMultiBody& mb = bar_on_pin(w, b);
    bullet::Solver exact(w.world);
    bullet::Handle joint = exact.name_joint(link(mb, 0), "pin");
    joint.law(law);
    const int rate = 480 << k;
    w.step(5 * rate, 1.0 / rate);
    EXPECT_LE(std::abs(double(mb.getJointVel(0))), precision(1e-15, 1e-9));
    EXPECT_EQ(joint.laws()[0].mode, LawWork::Mode::sticks);
    // All energy that went, went there.
    const double c = std::cos(double(mb.getJointPos(0))), c0 = std::cos(double(btScalar(b.angle)));
    const double I = double(btScalar(b.across)) + b.mass * b.arm * b.arm, start = 0.5 * I * b.rate * b.rate;
    const double lost = start + b.mass * g * b.arm * (c - c0);
    EXPECT_NEAR(joint.laws()[0].work, -lost, 0.03 * lost * 480 / rate);
    error[k] = std::abs(double(mb.getJointPos(0)) - reference);
  }
  EXPECT_LE(error[0], 0.02);
  EXPECT_LE(error[1], 0.65 * error[0] + precision(0, 1e-4));
}

// ---- closed forms ----

// A wheel on a rough pin: it turns by ω₀²/(2 α) and stays, α = μ r m g/I.
TEST(MultibodyLaws, AWheelOnARoughPinTurnsByTheClosedForm) {
  const double mass = 3, I = double(btScalar(0.09)), slowing = 0.3 * 0.02 * mass * g / I;
  double error[2];
  for (const int k : {0, 1}) {
    LinkWorld w;
    btMultiBody& mb = w.multibody(1, true);
    mb.setupRevolute(0, btScalar(mass), bt(0.05, 0.05, I), -1, straight, bt(0, 0, 1), bt(0, 0, 0), bt(0, 0, 0), true);
    w.finish(mb);
    mb.setJointVel(0, 5);
    bullet::Solver exact(w.world);
    bullet::Handle pin = exact.name_joint(link(mb, 0), "pin");
    pin.law(laws::hinge_friction({.mu_static = 0.3, .mu_kinetic = 0.3, .pin_radius = 0.02}));
    const int rate = 240 << k;
    w.step(static_cast<int>(5 / slowing * rate) / 2, 1.0 / rate);
    EXPECT_NEAR(double(mb.getJointVel(0)), 2.5, precision(1e-12, 1e-4) + slowing / rate);
    EXPECT_EQ(pin.laws()[0].mode, LawWork::Mode::slides);
    EXPECT_NEAR(pin.laws()[0].normal.force.norm(), mass * g, precision(1e-10, 1e-4));
    w.step(static_cast<int>((5 / slowing / 2 + 0.5) * rate), 1.0 / rate);
    EXPECT_EQ(mb.getJointVel(0), 0);
    EXPECT_EQ(pin.laws()[0].mode, LawWork::Mode::sticks);
    EXPECT_NEAR(pin.laws()[0].work, -12.5 * I, precision(1e-10, 1e-4));
    error[k] = std::abs(double(mb.getJointPos(0)) - 12.5 / slowing);
  }
  EXPECT_LE(error[1], 0.65 * error[0]);
}

// A carriage on an inclined rail of a multibody: a = g (sin θ − μ cos θ) beyond the angle of friction, rest below.
TEST(MultibodyLaws, ACarriageOnAnInclineSlidesAndSticksByTheAngleOfFriction) {
  for (const double theta : {0.2, 0.5}) {
    LinkWorld w;
    btMultiBody& mb = w.multibody(1, true);
    const btVector3 down = bt(std::cos(theta), -std::sin(theta), 0);
    mb.setupPrismatic(0, 2, bt(0.1, 0.1, 0.1), -1, straight, down, bt(0, 0, 0), bt(0, 0, 0), true);
    w.finish(mb);
    bullet::Solver exact(w.world);
    bullet::Handle rail = exact.name_joint(link(mb, 0), "rail");
    rail.law(laws::coulomb(0.3));
    w.step(240);
    const double a = g * (std::sin(theta) - 0.3 * std::cos(theta));
    EXPECT_NEAR(double(mb.getJointVel(0)), std::max(0.0, a), precision(1e-10, 1e-4));
    EXPECT_EQ(rail.laws()[0].mode, a > 0 ? LawWork::Mode::slides : LawWork::Mode::sticks);
    EXPECT_NEAR(rail.reaction().prescribed.on_b.force.norm(), 2 * g * std::min(std::sin(theta), 0.3 * std::cos(theta)),
                precision(1e-9, 1e-4));
  }
}

// Rest that belongs to no single joint: an arm of three that its own friction holds up.
TEST(MultibodyLaws, AnArmHeldUpByItsFrictionDoesNotCreep) {
  LinkWorld w;
  btMultiBody& mb = w.multibody(3, true);
  for (int i = 0; i < 3; ++i) bar(mb, i, i - 1, 1, i ? 0.5 : 0, 0.2);
  w.finish(mb);
  bullet::Solver exact(w.world);
  std::vector<bullet::Handle> joints;
  for (int i = 0; i < 3; ++i) {
    joints.push_back(exact.name_joint(link(mb, i), "joint " + std::to_string(i)));
    joints.back().law(laws::hinge_friction({.mu_static = 0.5, .mu_kinetic = 0.4, .pin_radius = 0.1, .preload = 50}));
  }
  w.step(2400);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(mb.getJointPos(i), btScalar(0.2));
    EXPECT_EQ(joints[std::size_t(i)].laws()[0].mode, LawWork::Mode::sticks);
    const bullet::JointForces f = exact.joint_forces(link(mb, i));
    EXPECT_NEAR(f.laws[0], -f.gravity[0], precision(1e-9, 1e-3));
  }
}

// ---- trees and loops by chance, against the same bodies in the core ----

/// @param damped  stiff dampers, not friction
void expect_as_in_the_core(bool damped) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    for (const bool loop : {false, true}) {
      SCOPED_TRACE(std::to_string(seed) + (loop ? " with a loop" : "") + (damped ? ", damped" : ""));
      LinkWorld w;
      System s;
      const RandomTree tree = random_tree(w, s, seed);
      btMultiBody& mb = *tree.body;
      s.set_gravity({0, -g, 0});
      const laws::JointFriction some{.mu_static = 0.15, .mu_kinetic = 0.1, .pin_radius = 0.05, .bending_arm = 0.3};
      const auto law = [&](int i) {
        if (damped) return i % 3 == 2 ? laws::viscous(100) : laws::viscous_torque(20);
        Law out = i % 3 == 0   ? laws::hinge_friction(some)
                  : i % 3 == 1 ? laws::ball_friction(some)
                               : laws::slider_friction(some);
        return out.with_normal_force(seed % 3 == 0 ? NormalForce::coupled : NormalForce::frictionless);
      };
      ConstraintId closing;
      if (loop) {
        closing = s.add(joints::ball("loop", tree.ids.back(), tree.on_last, linchpin::ground, tree.meets));
        add_law(s, closing, laws::ball_friction(some));
      }
      for (int i = 0; i < 6; ++i) add_law(s, tree.joints[std::size_t(i)], law(i));
      constexpr double dt = 1.0 / 240;
      Dynamics d(s);
      const State at = s.initial_state();
      std::vector<Reaction> expected;  // of the instant; the motion is of the step
      ASSERT_NE(d.evaluate(at), Status::invalid) << d.reason();
      d.reactions(at, expected);
      d.set_step(dt);
      ASSERT_NE(d.evaluate(at), Status::invalid) << d.reason();

      bullet::Solver exact(w.world, {.drift_correction = false});  // the acceleration itself
      std::vector<bullet::Handle> joints;
      for (int i = 0; i < 6; ++i) {
        joints.push_back(exact.name_joint(link(mb, i), "joint " + std::to_string(i)));
        joints.back().law(law(i));
      }
      if (loop) {
        joints.push_back(
            exact.add(joints::ball("loop", exact.id(link(mb, 5)), tree.on_last, linchpin::ground, tree.meets)));
        joints.back().law(laws::ball_friction(some));
      }
      std::vector<btScalar> before(mb.getVelocityVector(), mb.getVelocityVector() + 6 + mb.getNumDofs());
      w.step(1, dt);
      double size = 0;
      for (const Reaction& r : expected) size = std::max(size, r.on_b.force.norm());
      for (std::size_t i = 0; i < joints.size(); ++i) {
        const Reaction &got = joints[i].reaction(), &want = expected[i];
        EXPECT_LE((got.on_a.force - want.on_a.force).norm(), precision(1e-9, 1e-3) * size) << i;
        EXPECT_LE((got.on_a.moment - want.on_a.moment).norm(), precision(1e-9, 1e-3) * size) << i;
        EXPECT_LE((got.prescribed.on_a.moment - want.prescribed.on_a.moment).norm(), precision(1e-9, 1e-3) * size) << i;
        EXPECT_LE((got.prescribed.on_a.force - want.prescribed.on_a.force).norm(), precision(1e-9, 1e-3) * size) << i;
      }
      // Accelerations of the last link, from the joint velocities after the step at the places before it.
      const Wrench sensor = exact.joint_wrench(link(mb, 5));
      const Wrench whole = Wrench{expected[5].on_b}.about(sensor.point);
      EXPECT_LE((sensor.force - whole.force).norm(), precision(1e-9, 1e-3) * size);
      double worst = 0, largest = 0;  // along the first joint, a hinge: its rate's change is known in both
      const auto slot = [&](BodyId id) { return d.assembly().layout.body_index(id); };
      const btMultibodyLink& first = mb.getLink(0);
      const Vector3d axis = at[tree.ids[1]].q * bullet::from_bullet(first.getAxisTop(0));
      const int c = d.assembly().layout.column[std::size_t(slot(tree.ids[1]))];
      Vector3d alpha(d.vdot()[std::size_t(c + 3)], d.vdot()[std::size_t(c + 4)], d.vdot()[std::size_t(c + 5)]);
      if (const int up = slot(tree.ids[0]); up >= 0) {
        const std::size_t k = std::size_t(d.assembly().layout.column[std::size_t(up)] + 3);
        alpha -= Vector3d(d.vdot()[k], d.vdot()[k + 1], d.vdot()[k + 2]);
        alpha -= at[tree.ids[0]].w.cross(at[tree.ids[1]].w);  // of the axis itself
      }
      largest = std::abs(axis.dot(alpha));
      worst = std::abs((double(mb.getVelocityVector()[6]) - double(before[6])) / dt - axis.dot(alpha));
      EXPECT_LE(worst, precision(1e-8, 2e-2) * std::max(1.0, largest));
    }
  }
}

TEST(MultibodyLaws, RandomTreesWithALoopAndFrictionInEveryJointMoveAsTheSameBodiesInTheCore) {
  expect_as_in_the_core(false);
}

TEST(MultibodyLaws, RandomTreesWithStiffDampersReportTheForcesOfTheStateBeforeTheStep) { expect_as_in_the_core(true); }

// ---- loads from elsewhere ----

// Its pin carries half of a bar whose other end lies on the floor: thrust comes from a contact too.
TEST(MultibodyLaws, ThePinOfABarThatLiesOnTheFloorCarriesHalfOfIt) {
  LinkWorld w;
  btMultiBody& mb = w.multibody(1, true);
  bar(mb, 0, -1, 2, 0);
  mb.setBasePos(bt(0, 0.1, 0));
  w.finish(mb);
  auto offset = std::make_unique<btCompoundShape>();
  w.shapes.push_back(std::make_unique<btSphereShape>(btScalar(0.1)));
  offset->addChildShape(btTransform(straight, bt(1, 0, 0)), w.shapes.back().get());
  w.collider(mb, 0, *offset);
  w.shapes.push_back(std::move(offset));
  btRigidBody& floor = w.box(0, bt(5, 0.5, 5), bt(0, -0.5, 0));
  w.world.removeRigidBody(&floor);
  w.world.addRigidBody(&floor);
  bullet::Solver exact(w.world);
  bullet::Handle pin = exact.name_joint(link(mb, 0), "pin");
  pin.law(laws::hinge_friction({.mu_static = 0.3, .mu_kinetic = 0.3, .pin_radius = 0.02}));
  w.step(240);
  double mean = 0;  // Bullet's contact trembles from step to step
  for (int i = 0; i < 120; ++i) {
    w.step();
    mean += pin.laws()[0].normal.force.y() / 120;
    EXPECT_LE((pin.reaction().on_b.force - exact.joint_wrench(link(mb, 0)).force).norm(), precision(1e-9, 1e-3));
  }
  EXPECT_NEAR(mean, -0.5 * 2 * g, 0.02 * g);  // as well as Bullet holds the other end
  EXPECT_NEAR(double(mb.getJointVel(0)), 0, 1e-3);
}

// A motor turns the wheel against its friction: the motor's torque is no thrust, and pays for the friction.
TEST(MultibodyLaws, AMotorTurnsAWheelAgainstItsPinFriction) {
  LinkWorld w;
  btMultiBody& mb = w.multibody(1, true);
  mb.setupRevolute(0, 3, bt(0.05, 0.05, 0.09), -1, straight, bt(0, 0, 1), bt(0, 0, 0), bt(0, 0, 0), true);
  w.finish(mb);
  w.shapes.push_back(std::make_unique<btSphereShape>(btScalar(0.05)));
  w.collider(mb, 0, *w.shapes.back());
  auto& motor = w.constraint<btMultiBodyJointMotor>(&mb, 0, btScalar(4), btScalar(100));
  (void)motor;
  bullet::Solver exact(w.world);
  bullet::Handle pin = exact.name_joint(link(mb, 0), "pin");
  pin.law(laws::hinge_friction({.mu_static = 0.3, .mu_kinetic = 0.3, .pin_radius = 0.1}));
  w.step(480);
  EXPECT_NEAR(double(mb.getJointVel(0)), 4, precision(1e-3, 1e-3));
  const bullet::JointForces f = exact.joint_forces(link(mb, 0));
  EXPECT_NEAR(f.laws[0], -0.3 * 0.1 * 3 * g, precision(1e-9, 1e-4));
  EXPECT_NEAR(f.native[0], 0.3 * 0.1 * 3 * g, 1e-2);
  EXPECT_NEAR(pin.laws()[0].normal.force.norm(), 3 * g, precision(1e-9, 1e-4));
}

// A slot in a moving link: friction of a constraint between links, as the same bodies in the core have it.
TEST(MultibodyLaws, FrictionOnALoopAndOnARigidBodyOnALinkIsThatOfTheCore) {
  LinkWorld w;
  btMultiBody& mb = w.multibody(2, true);
  for (int i = 0; i < 2; ++i) bar(mb, i, i - 1, 1, i ? 0.5 : 0, 0.4);
  w.finish(mb);
  mb.setJointVel(0, 1);
  mb.setJointVel(1, btScalar(-0.5));
  const auto pose = [&](int i) {
    const btTransform t = mb.getLink(i).m_cachedWorldTransform;
    const btQuaternion q = t.getRotation();
    return Pose{bullet::from_bullet(t.getOrigin()),
                Quaterniond(double(q.w()), double(q.x()), double(q.y()), double(q.z())).normalized()};
  };
  // A bead that slides along the second bar.
  const Vector3d at = pose(1).p + pose(1).q * Vector3d(0.2, 0, 0);
  btRigidBody& bead = w.box(0.5, bt(0.05, 0.05, 0.05), bullet::to_bullet(at));
  bead.setLinearVelocity(bt(0.4, 0.9, 0));
  std::vector<btVector3> omega(3), vel(3);
  mb.compTreeLinkVelocities(omega.data(), vel.data());
  System s;
  s.set_gravity({0, -g, 0});
  std::vector<BodyId> ids;
  for (int i = 0; i < 2; ++i)
    ids.push_back(s.add_body("bar" + std::to_string(i), 1, bullet::from_bullet(mb.getLinkInertia(i)), pose(i),
                             pose(i).q * bullet::from_bullet(vel[std::size_t(i + 1)]),
                             pose(i).q * bullet::from_bullet(omega[std::size_t(i + 1)])));
  const double I = 1 / double(bead.getInvInertiaDiagLocal().x());
  ids.push_back(s.add_body("bead", 0.5, Vector3d(I, I, I),
                           Pose{bullet::from_bullet(bead.getWorldTransform().getOrigin())},
                           bullet::from_bullet(bead.getLinearVelocity())));
  const Vector3d u = Vector3d::UnitZ(), x = Vector3d::UnitX();
  const auto slot = [=](BodyId bar, BodyId on) {
    return joints::point_on_line("slot", bar, Vector3d::Zero(), x, on, Vector3d::Zero());
  };
  s.add(joints::hinge("0", linchpin::ground, Vector3d::Zero(), u, ids[0], {-0.5, 0, 0}, u));
  s.add(joints::hinge("1", ids[0], {0.5, 0, 0}, u, ids[1], {-0.5, 0, 0}, u));
  const ConstraintId line = s.add(slot(ids[1], ids[2]));
  add_law(s, line, laws::coulomb(0.3));
  Dynamics d(s);
  d.set_step(1.0 / 240);
  const State start = s.initial_state();
  ASSERT_NE(d.evaluate(start), Status::invalid) << d.reason();
  std::vector<Reaction> expected;
  d.reactions(start, expected);
  bullet::Solver exact(w.world, {.drift_correction = false});
  bullet::Handle held = exact.add(slot(exact.id(link(mb, 1)), exact.id(bead)));
  held.law(laws::coulomb(0.3));
  w.step();
  const Reaction &got = held.reaction(), &want = expected[2];
  EXPECT_GT(want.prescribed.on_a.force.norm(), 0.05);
  EXPECT_LE((got.on_a.force - want.on_a.force).norm(), precision(1e-9, 1e-4) * want.on_a.force.norm());
  EXPECT_LE((got.prescribed.on_a.force - want.prescribed.on_a.force).norm(),
            precision(1e-9, 1e-4) * want.on_a.force.norm());
  EXPECT_LE((got.induced.on_a.force - want.induced.on_a.force).norm(), precision(1e-9, 1e-4) * want.on_a.force.norm());
  EXPECT_NEAR(got.power, want.power, precision(1e-9, 1e-4) * std::abs(want.power));
  const std::size_t c = std::size_t(d.assembly().layout.column[2]);
  EXPECT_NEAR((double(bead.getLinearVelocity().x()) - 0.4) * 240, d.vdot()[c], precision(1e-9, 1e-3) * 10);
}

// ---- constraints that only push ----

// A carriage on an upright rail of a multibody, thrown up from its stop: it flies by the closed form, and stays where
// it lands.
TEST(MultibodyLaws, AStopForALinkOnlyPushes) {
  LinkWorld w;
  btMultiBody& mb = w.multibody(1, true);
  mb.setupPrismatic(0, 2, bt(0.1, 0.1, 0.1), -1, straight, bt(0, 1, 0), bt(0, 0, 0), bt(0, 0, 0), true);
  w.finish(mb);
  bullet::Solver exact(w.world);
  bullet::Handle stop = exact.constrain("stop", {link(mb, 0)}, [](const auto& s) { return s[0].position().y; });
  stop.unilateral({.reengage = true});
  w.step(24);
  EXPECT_FALSE(stop.released());
  EXPECT_NEAR(double(mb.getJointPos(0)), 0, precision(1e-15, 1e-7));
  EXPECT_NEAR(stop.reaction().on_a.force.y(), 2 * g, precision(1e-10, 1e-4));
  mb.setJointVel(0, 2);
  w.step(48);
  const double t = 0.2, flies = 2 * t - 0.5 * g * t * (t + 1.0 / 240);  // as Bullet steps
  EXPECT_NEAR(double(mb.getJointPos(0)), flies, precision(1e-12, 1e-5));
  EXPECT_TRUE(stop.released());
  w.step(120);
  EXPECT_FALSE(stop.released());
  EXPECT_NEAR(double(mb.getJointPos(0)), 0, precision(1e-14, 1e-6));
  EXPECT_NEAR(double(mb.getJointVel(0)), 0, precision(1e-12, 1e-5));
  EXPECT_NEAR(stop.reaction().on_a.force.y(), 2 * g, precision(1e-9, 1e-3));
  EXPECT_EQ(exact.counts().engaged, 1);
}

TEST(MultibodyLaws, ALinkHasMotorsAndCompliance) {
  LinkWorld w;
  btMultiBody& mb = w.multibody(1, true);
  mb.setupPrismatic(0, 2, bt(0.1, 0.1, 0.1), -1, straight, bt(0, 1, 0), bt(0, 0, 0), bt(0, 0, 0), true);
  w.finish(mb);
  bullet::Solver exact(w.world);
  bullet::Handle row = exact.constrain("row", {link(mb, 0)}, [](const auto& s) { return s[0].position().y; });
  row.compliance({.stiffness = 1000, .damping = 60});
  w.step(960);
  EXPECT_NEAR(double(mb.getJointPos(0)), -2 * g / 1000, precision(1e-6, 1e-5));
  EXPECT_NEAR(row.reaction().on_a.force.y(), 2 * g, precision(1e-5, 1e-3));
  row.motor({.speed = 0.5, .max_force = 100});
  w.step(240);
  EXPECT_NEAR(double(mb.getJointVel(0)), 0.5, precision(1e-10, 1e-5));
  row.motor({.speed = 0.5, .max_force = 10});  // less than the weight
  w.step(24);
  EXPECT_NEAR(double(mb.getJointVel(0)), 0.5 - 0.1 * (g - 5), precision(1e-9, 1e-4));
  EXPECT_THROW(row.limits(0, 1), std::invalid_argument);
}

TEST(MultibodyLaws, ARigidBodyBesideALinkHasMotorsAndBreaks) {
  LinkWorld w(0);
  btMultiBody& mb = w.multibody(1, true);
  mb.setupPrismatic(0, 2, bt(0.1, 0.1, 0.1), -1, straight, bt(0, 1, 0), bt(0, 0, 0), bt(0, 0, 0), true);
  w.finish(mb);
  btRigidBody& body = w.box(1, bt(0.1, 0.1, 0.1), bt(1, 0, 0));
  bullet::Solver exact(w.world);
  exact.weld("weld", link(mb, 0), body, bt(0.5, 0, 0));
  bullet::Handle motor = exact.constrain("motor", {body}, [](const auto& s) { return s[0].position().y; });
  motor.motor({.speed = 0.5, .max_force = 3});
  w.step(60);  // 3 kg are accelerated by 1 m/s²
  EXPECT_NEAR(double(mb.getJointVel(0)), 0.25, precision(1e-10, 1e-5));
  w.step(240);
  EXPECT_NEAR(double(body.getLinearVelocity().y()), 0.5, precision(1e-10, 1e-5));
  bullet::Handle stop = exact.constrain(
      "stop", {body},
      [y = double(body.getWorldTransform().getOrigin().y())](const auto& s) { return s[0].position().y - y; });
  stop.breaking_impulse(0.5);  // the whole momentum is 1.5
  w.step();
  EXPECT_TRUE(stop.broken());
  w.step(240);
  EXPECT_NEAR(double(body.getLinearVelocity().y()), 0.5, precision(1e-10, 1e-5));
}

// A link is thrown off its stop and falls back. Free flight would end a step ½ g dt² below the stop. Without gravity
// during that step it would end above the stop. The step ends on the stop.
TEST(MultibodyLaws, AStepThatGravityEndsBeyondTheStopOfALinkEndsOnIt) {
  const double dt = 1.0 / 240;
  for (const int steps : {20, 21, 40}) {
    SCOPED_TRACE(steps);
    LinkWorld w;
    btMultiBody& mb = w.multibody(1, true);
    mb.setupPrismatic(0, 2, bt(0.1, 0.1, 0.1), -1, straight, bt(0, 1, 0), bt(0, 0, 0), bt(0, 0, 0), true);
    w.finish(mb);
    bullet::Solver exact(w.world);
    bullet::Handle stop = exact.constrain("stop", {link(mb, 0)}, [](const auto& s) { return s[0].position().y; });
    stop.unilateral({.reengage = true});
    w.step(2);
    mb.setJointVel(0, btScalar(g * dt * (0.5 * (steps + 1) - 0.5 / steps)));
    for (int i = 0; i < 2 * steps; ++i) {
      w.step();
      EXPECT_GE(double(mb.getJointPos(0)), -precision(1e-12, 1e-6)) << i;
    }
    EXPECT_EQ(exact.counts().engaged, 1);
    EXPECT_FALSE(stop.released());
  }
}

// ---- life ----

TEST(MultibodyLaws, AStepAllocatesNothingOnceWarm) {
  LinkWorld w;
  btMultiBody& mb = w.multibody(4, true);
  for (int i = 0; i < 4; ++i) bar(mb, i, i - 1, 1, i ? 0.5 : 0, 0.3);
  w.finish(mb);
  const btVector3 end = mb.getLink(3).m_cachedWorldTransform * bt(0.5, 0, 0);
  w.constraint<btMultiBodyPoint2Point>(&mb, 3, static_cast<btRigidBody*>(nullptr), bt(0.5, 0, 0), end);
  bullet::Solver exact(w.world);
  for (int i = 0; i < 4; ++i)
    exact.name_joint(link(mb, i), "joint " + std::to_string(i))
        .law(laws::hinge_friction({.mu_static = 0.3, .mu_kinetic = 0.2, .pin_radius = 0.05}));
  // Long enough to have been folded, where rank is in doubt and the reference is asked: its memory is of the first
  // time.
  w.step(480);
  const AllocationCounter allocations;
  w.step(240);
  EXPECT_EQ(allocations.count(), 0u);
  EXPECT_EQ(exact.counts().fallbacks, 0);
}

TEST(MultibodyLaws, ComeAndGoAndAreRefusedByName) {
  LinkWorld w;
  btMultiBody& mb = bar_on_pin(w, {});
  btMultiBody& two = w.multibody(2, true);
  for (int i = 0; i < 2; ++i) bar(two, i, -1, 1, 0, 0.4 * i);
  w.finish(two);
  auto& gear = w.constraint<btMultiBodyGearConstraint>(&two, 0, &two, 1, bt(0, 0, 0), bt(0, 0, 0),
                                                       btMatrix3x3::getIdentity(), btMatrix3x3::getIdentity());
  gear.setGearRatio(1);
  bullet::Solver exact(w.world);
  EXPECT_THROW(exact.name_joint(link(mb, -1), "base"), std::invalid_argument);
  EXPECT_THROW(exact.name_joint(link(mb, 3), "none"), std::invalid_argument);
  bullet::Handle pin = exact.name_joint(link(mb, 0), "pin");
  EXPECT_EQ(exact.name_joint(link(mb, 0), "again").name(), "again");  // another name
  EXPECT_EQ(pin.name(), "again");
  exact.name_joint(link(mb, 0), "pin");
  w.step();
  const Wrench sensor = exact.joint_wrench(link(mb, 0));
  EXPECT_LE((pin.reaction().on_b.force - sensor.force).norm(), 1e-12);  // without a law too
  pin.law(laws::viscous_torque(0.5));
  w.step();
  EXPECT_LT(pin.laws()[0].power, 0);
  pin.enable(false);
  w.step();
  EXPECT_EQ(exact.joint_forces(link(mb, 0)).laws[0], 0);
  pin.enable(true);
  w.step();
  EXPECT_NE(exact.joint_forces(link(mb, 0)).laws[0], 0);
  pin.clear_laws();
  w.step();
  EXPECT_EQ(exact.joint_forces(link(mb, 0)).laws[0], 0);
  bullet::Handle geared = exact.name_joint(gear, "gear");
  EXPECT_NE(geared.try_law(laws::coulomb(0.1)).error().message.find("a gear"), std::string::npos);
  // A law on a joint of a multibody with a gear: both hold.
  bullet::Handle one = exact.name_joint(link(two, 0), "one");
  one.law(laws::viscous_torque(0.3));
  w.step(240);
  EXPECT_NEAR(double(two.getJointPos(0) + two.getJointPos(1)), 0.4, precision(1e-12, 1e-5));
  const bullet::JointForces f = exact.joint_forces(link(two, 0));
  EXPECT_NEAR(f.laws[0], -0.3 * double(two.getJointVel(0)), 0.05);
  btMultiBody& light = w.multibody(2, true);
  light.setupRevolute(0, 0, bt(0, 0, 0), -1, straight, bt(0, 0, 1), bt(0, 0, 0), bt(0, 0, 0), true);
  bar(light, 1, 0, 1, 0);
  w.finish(light);
  bullet::Handle joint = exact.name_joint(link(light, 1), "joint");
  EXPECT_NE(joint.try_law(laws::coulomb(0.1)).error().message.find("link 0 of its multibody has no mass"),
            std::string::npos);
  w.world.removeMultiBody(&mb);  // without a word
  w.step();
  EXPECT_FALSE(pin.valid());
}

}  // namespace
}  // namespace linchpin::test::multibody_laws_test
