// What a force and torque sensor in a joint reads: the closed form, linchpin's, and Bullet's own joint feedback, which
// counts what moves in both of its passes, and motors and limits in none. This is the table of docs/how-to/robots.md,
// row by row.
#include "link_world.h"

#include <BulletDynamics/Featherstone/btMultiBodyJointFeedback.h>
#include <BulletDynamics/Featherstone/btMultiBodyJointLimitConstraint.h>
#include <BulletDynamics/Featherstone/btMultiBodyJointMotor.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace linchpin::test::sensor_table_test {
namespace {

struct Sensor {
  const char* name;
  int link;
  double force, moment;                // by hand [N], [N m], about the joint
  double native_force, native_moment;  // of Bullet 3.24
  double gravity;
  std::function<btMultiBody&(LinkWorld&)> make;
};

constexpr double g = 9.8, m = 6, l = 0.9, u = -4.62124490737915, q = -0.0005009165033698082;

// A mass at the end of an arm that hangs.
btMultiBody& pendulum(LinkWorld& w, double angle, double rate) {
  btMultiBody& mb = w.multibody(1, true);
  const btScalar I(0.1);
  mb.setupRevolute(0, btScalar(m), {I, I, I}, -1, straight, bt(0, 0, 1), bt(0, 0, 0), bt(0, -l, 0), false);
  w.finish(mb);
  mb.setJointPos(0, btScalar(angle));
  mb.setJointVel(0, btScalar(rate));
  return mb;
}

// Two bars of 1 kg and 1 m, along x; what drives the first.
btMultiBody& bars(LinkWorld& w, double torque) {
  btMultiBody& mb = w.multibody(2, true);
  bar(mb, 0, -1, 1, 0);
  bar(mb, 1, 0, 1, 0.5);
  w.finish(mb);
  mb.addJointTorque(0, btScalar(torque));
  return mb;
}

// The same, welded to each other, and held level by a motor.
btMultiBody& held(LinkWorld& w) {
  btMultiBody& mb = w.multibody(2, true);
  bar(mb, 0, -1, 1, 0);
  mb.setupFixed(1, 1, bt(1e-3, 1. / 12, 1. / 12), 0, straight, bt(0.5, 0, 0), bt(0.5, 0, 0), true);
  w.finish(mb);
  w.shapes.push_back(std::make_unique<btEmptyShape>());
  for (int i = 0; i < 2; ++i) w.collider(mb, i, *w.shapes.back());  // else Bullet leaves the motor out
  w.constraint<btMultiBodyJointMotor>(&mb, 0, btScalar(0), btScalar(100)).finalizeMultiDof();
  return mb;
}

// One bar of 1 kg and 1 m that rests on the limit of its joint.
btMultiBody& resting(LinkWorld& w) {
  btMultiBody& mb = w.multibody(1, true);
  bar(mb, 0, -1, 1, 0);
  w.finish(mb);
  w.shapes.push_back(std::make_unique<btEmptyShape>());
  w.collider(mb, 0, *w.shapes.back());
  w.constraint<btMultiBodyJointLimitConstraint>(&mb, 0, btScalar(0), btScalar(1)).finalizeMultiDof();
  return mb;
}

const Sensor sensors[] = {
    {"a pendulum at rest", 0, m* g, 0, m* g, 0, g, [](LinkWorld& w) -> btMultiBody& { return pendulum(w, 0, 0); }},
    // The state and the masses of an issue of Bullet's (4451): m (l u^2 + g cos q) along the arm.
    {"a pendulum that swings through", 0,
     std::hypot(m*(l* u* u + g * std::cos(q)), m* g* std::sin(q) * (1 - m * l * l / (0.1 + m * l * l))), 0, 289.44, 0,
     g, [](LinkWorld& w) -> btMultiBody& { return pendulum(w, q, u); }},
    // Lagrange's equations of both: a1 = tau/(7/12), a2 = -5/2 a1, and m (a1/2 + a1 + (a1 + a2)/2) is the force.
    {"two bars, the first turned by 4.5 N m, without gravity", 0, 4.5 * 9 / 7, 4.5, 2 * 4.5 * 9 / 7, 9, 0,
     [](LinkWorld& w) -> btMultiBody& { return bars(w, 4.5); }},
    {"two welded bars held level by a motor: its joint", 0, 2 * g, 2 * g, 2 * g, 0, g, held},
    {"the same: the weld", 1, g, g / 2, g, g / 2, g, held},
    {"a bar that lies on its joint's limit", 0, g, g / 2, g, 0, g, resting},
};

TEST(SensorTable, AsItStandsInTheDocuments) {
  std::printf("| %-54s | by hand | linchpin | native |\n", "sensor");
  for (const Sensor& each : sensors) {
    LinkWorld ours(each.gravity), bullets(each.gravity);
    btMultiBody& mb = each.make(ours);
    bullet::Solver exact(ours.world);
    ours.step();
    const Wrench sensor = exact.joint_wrench(link(mb, each.link));
    const btMultiBody& native = each.make(bullets);
    btMultiBodyJointFeedback feedback;
    const_cast<btMultiBody&>(native).getLink(each.link).m_jointFeedback = &feedback;
    bullets.world.getSolverInfo().m_jointFeedbackInJointFrame = true;
    bullets.step();
    const double force = double(feedback.m_reactionForces.m_topVec.length()),
                 moment = double(feedback.m_reactionForces.m_bottomVec.length());
    std::printf("| %-54s | %.2f N, %.2f N m | %.2f N, %.2f N m | %.2f N, %.2f N m |\n", each.name, each.force,
                each.moment, sensor.force.norm(), sensor.moment.norm(), force, moment);
    EXPECT_NEAR(sensor.force.norm(), each.force, precision(1e-10, 2e-5) * (1 + each.force)) << each.name;
    EXPECT_NEAR(sensor.moment.norm(), each.moment, precision(1e-10, 2e-5) * (1 + each.moment)) << each.name;
    EXPECT_NEAR(force, each.native_force, 1e-2) << each.name;
    EXPECT_NEAR(moment, each.native_moment, 1e-2) << each.name;
  }
}

}  // namespace
}  // namespace linchpin::test::sensor_table_test
