// Joints of the host, solved exactly: gaps, reactions, redundancy, motors, breaking.
#include "host_world.h"

#include <gtest/gtest.h>

#include <cmath>

namespace linchpin::test {

namespace {

double largest_gap(HostWorld& w, const std::vector<int>& joints) {
  double gap = 0;
  for (const int joint : joints) {
    const Reaction r = w.reaction(w.handle_of(joint));
    gap = std::max({gap, r.gap, r.gap_angle});
  }
  return gap;
}

/// Boxes in a row along x, each joined to the one before it, the first one to the world.
std::vector<int> add_chain(HostWorld& w, JointKind kind, int links) {
  std::vector<int> joints;
  int last = -1;
  for (int i = 0; i < links; ++i) {
    const int link = w.add_box(1, Vector3d(0.25, 0.05, 0.08), Vector3d(0.25 + 0.5 * i, 2, 0));
    joints.push_back(w.add_joint(kind, last, link, Vector3d(0.5 * i, 2, 0)));
    last = link;
  }
  return joints;
}

class EveryJoint : public testing::TestWithParam<JointKind> {};

TEST_P(EveryJoint, HoldsAChainToRounding) {
  const auto w = make_host_world();
  const std::vector<int> joints = add_chain(*w, GetParam(), 5);
  w->install();
  for (int i = 0; i < 240; ++i) {
    w->step();
    ASSERT_LT(largest_gap(*w, joints), w->precision(1e-13, 3e-5)) << "step " << i;
    ASSERT_LT(w->worst_imbalance(), w->precision(1e-9, 1e-4)) << "step " << i;
  }
}
INSTANTIATE_TEST_SUITE_P(Of, EveryJoint,
                         testing::Values(JointKind::ball, JointKind::hinge, JointKind::slider, JointKind::weld));

TEST(Joints, CarryTheWeightOfWhatHangs) {
  const auto w = make_host_world();
  const int body = w->add_box(3, Vector3d(0.1, 0.1, 0.1), Vector3d(0, 1, 0));
  const int joint = w->add_joint(JointKind::ball, -1, body, Vector3d(0, 1.5, 0));
  w->install();
  w->step(10);
  const Reaction r = w->reaction(w->handle_of(joint));
  EXPECT_NEAR(r.on_b.force.y(), 3 * standard_gravity, w->precision(1e-9, 1e-3));
  EXPECT_NEAR(r.on_a.force.y(), -3 * standard_gravity, w->precision(1e-9, 1e-3));
}

// The rod of a pendulum at the angle θ from the vertical carries m (standard_gravity cos θ + l ω²).
TEST(Joints, CarryWhatAPendulumNeeds) {
  const auto w = make_host_world();
  const double m = 2, l = 0.8;
  const int bob = w->add_ball(m, 0.001, Vector3d(l, 2, 0));
  const int joint = w->add_joint(JointKind::ball, -1, bob, Vector3d(0, 2, 0));
  w->install();
  BodyState at;
  for (int i = 0; i < 60; ++i) {
    at = w->state(bob);
    w->step();
  }
  const Vector3d arm = at.p - Vector3d(0, 2, 0), pull = -arm.normalized();
  const double expected = m * (at.v.squaredNorm() / l + standard_gravity * pull.y());
  EXPECT_NEAR(w->reaction(w->handle_of(joint)).on_b.force.dot(pull), expected, w->precision(1e-5, 2e-3) * expected);
}

TEST(Joints, KeepTheEnergyOfAPendulum) {
  for (const host::Stepping stepping : {host::Stepping::rk4, host::Stepping::adaptive}) {
    const auto w = make_host_world();
    LINCHPIN_NEEDS(*w, Feature::steps_by_stages);
    const int bob = w->add_ball(2, 0.1, Vector3d(0.8, 2, 0));
    w->add_joint(JointKind::ball, -1, bob, Vector3d(0, 2, 0));
    host::SolverOptions options;
    options.stepping = stepping;
    w->install(options);
    const double before = w->energy();
    w->step(480);
    EXPECT_NEAR(w->energy(), before, w->precision(1e-4, 1e-3)) << static_cast<int>(stepping);
    EXPECT_EQ(w->counts().fallbacks, 0);
  }
}

TEST(Joints, ThatAreRedundantAreNamed) {
  const auto w = make_host_world();
  const int door = w->add_box(4, Vector3d(0.4, 0.6, 0.02), Vector3d(0.4, 1, 0));
  const int low = w->add_joint(JointKind::hinge, -1, door, Vector3d(0, 0.6, 0), Vector3d(0, 1, 0));
  const int high = w->add_joint(JointKind::hinge, -1, door, Vector3d(0, 1.4, 0), Vector3d(0, 1, 0));
  w->install();
  w->step(20);
  const Reaction a = w->reaction(w->handle_of(low)), b = w->reaction(w->handle_of(high));
  EXPECT_TRUE(a.redundant && b.redundant);
  EXPECT_FALSE(a.determined && b.determined);
  EXPECT_NEAR(a.on_b.force.y() + b.on_b.force.y(), 4 * standard_gravity, w->precision(1e-8, 1e-2));
}

TEST(Joints, ThatContradictEachOtherAreNamed) {
  const auto w = make_host_world();
  const int body = w->add_box(1, Vector3d(0.1, 0.1, 0.1), Vector3d(0, 1, 0));
  w->add_joint(JointKind::ball, -1, body, Vector3d(0, 1, 0));
  w->install();
  const int handle = w->constrain({body}, [](const std::vector<BodyId>& ids) {
    return holonomic("lifted", ids, [](const auto& s) { return s[0].point(0, 0, 0).y - 1.2; });
  });
  w->step(5);
  const auto findings = w->check();
  bool named = false;
  for (const host::Finding& f : findings) named = named || f.constraint == "lifted";
  EXPECT_TRUE(named) << findings.size() << " findings";
  EXPECT_TRUE(w->state(body).p.allFinite());
  w->remove(handle);
  w->step(5);
  EXPECT_NEAR(w->state(body).p.y(), 1, w->precision(1e-12, 1e-5));
}

TEST(Joints, OnAKinematicBodyFollowIt) {
  const auto w = make_host_world();
  LINCHPIN_NEEDS(*w, Feature::kinematic_bodies);
  const int cart = w->add_kinematic(Vector3d(0, 2, 0));
  const int load = w->add_box(1, Vector3d(0.1, 0.1, 0.1), Vector3d(0, 1.5, 0));
  const int joint = w->add_joint(JointKind::ball, cart, load, Vector3d(0, 2, 0));
  w->install();
  for (int i = 0; i < 120; ++i) {
    BodyState s = w->state(cart);
    s.v = Vector3d(std::sin(0.05 * i), 0, 0);
    w->set_state(cart, s);
    w->step();
    ASSERT_LT(largest_gap(*w, {joint}), w->precision(1e-12, 3e-5)) << "step " << i;
  }
  EXPECT_GT(w->state(load).p.x(), 0.1);
}

TEST(Joints, WithMotorsLeaveTheMotorToTheHost) {
  const auto w = make_host_world();
  LINCHPIN_NEEDS(*w, Feature::joint_motors);
  const int wheel = w->add_box(1, Vector3d(0.3, 0.3, 0.05), Vector3d(0, 2, 0));
  const int joint = w->add_joint(JointKind::hinge, -1, wheel, Vector3d(0, 2, 0));
  w->set_motor(joint, 3, 5);
  w->install();
  w->step(120);
  EXPECT_NEAR(std::abs(w->state(wheel).w.z()), 3, 1e-3);
  EXPECT_LT(largest_gap(*w, {joint}), w->precision(1e-12, 1e-5));
  EXPECT_LT(w->worst_imbalance(), w->precision(1e-9, 1e-4));
  const auto parts = w->host_parts();
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_NE(parts[0].why.find("motor"), std::string::npos) << parts[0].why;
}

TEST(Joints, BreakBeyondTheirImpulse) {
  const auto w = make_host_world();
  LINCHPIN_NEEDS(*w, Feature::joint_breaking);
  const int light = w->add_box(1, Vector3d(0.1, 0.1, 0.1), Vector3d(0, 1, 0));
  const int heavy = w->add_box(9, Vector3d(0.1, 0.1, 0.1), Vector3d(2, 1, 0));
  const int holds = w->add_joint(JointKind::ball, -1, light, Vector3d(0, 1.5, 0));
  const int breaks = w->add_joint(JointKind::ball, -1, heavy, Vector3d(2, 1.5, 0));
  for (const int joint : {holds, breaks}) w->set_breaking_impulse(joint, 5 * standard_gravity * step_length);
  w->install();
  w->step(30);
  EXPECT_TRUE(w->is_enabled(holds));
  EXPECT_FALSE(w->is_enabled(breaks));
  EXPECT_NEAR(w->state(light).p.y(), 1, w->precision(1e-9, 1e-5));
  EXPECT_LT(w->state(heavy).p.y(), 0.99);
}

TEST(Joints, ComeAndGoAsTheProgramLikes) {
  const auto w = make_host_world();
  const int a = w->add_box(1, Vector3d(0.1, 0.1, 0.1), Vector3d(0, 1, 0));
  const int joint = w->add_joint(JointKind::ball, -1, a, Vector3d(0, 1.5, 0));
  w->install();
  w->step(3);
  w->enable_joint(joint, false);
  w->step(10);
  EXPECT_LT(w->state(a).p.y(), 0.999);
  BodyState back;
  back.p = Vector3d(0, 1, 0);
  w->set_state(a, back);
  w->enable_joint(joint, true);
  w->step(10);
  EXPECT_NEAR(w->state(a).p.y(), 1, w->precision(1e-9, 1e-5));
  w->set_mass(a, 5);
  w->step();
  EXPECT_NEAR(w->reaction(w->handle_of(joint)).on_b.force.y(), 5 * standard_gravity, w->precision(1e-8, 1e-3));
  w->remove_joint(joint);
  w->step(10);
  EXPECT_LT(w->state(a).p.y(), 0.999);
  w->remove_body(a);
  w->step(3);
  const int b = w->add_box(2, Vector3d(0.1, 0.1, 0.1), Vector3d(0, 1, 0));
  const int other = w->add_joint(JointKind::ball, -1, b, Vector3d(0, 1.5, 0));
  w->step(3);
  EXPECT_NEAR(w->reaction(w->handle_of(other)).on_b.force.y(), 2 * standard_gravity, w->precision(1e-8, 1e-3));
}

TEST(Joints, CloseAGapAfterATeleport) {
  const auto w = make_host_world();
  const std::vector<int> joints = add_chain(*w, JointKind::hinge, 3);
  w->install();
  w->step(5);
  BodyState s = w->state(1);
  s.p += Vector3d(0.02, 0.03, 0);
  w->set_state(1, s);
  w->step(1);
  EXPECT_LT(largest_gap(*w, joints), w->precision(1e-12, 3e-5));
  EXPECT_GE(w->counts().gap_corrections, 1);
}

TEST(Joints, GoBackToTheHostWhenLinchpinLeaves) {
  const auto w = make_host_world();
  const int bob = w->add_box(1, Vector3d(0.1, 0.1, 0.1), Vector3d(0.5, 2, 0));
  w->add_joint(JointKind::ball, -1, bob, Vector3d(0, 2, 0));
  w->install();
  w->step(10);
  w->uninstall();
  w->step(100);
  EXPECT_NEAR((w->state(bob).p - Vector3d(0, 2, 0)).norm(), 0.5, 0.02);  // as well as the host holds it
  w->install();
  w->step(2);
  EXPECT_NEAR((w->state(bob).p - Vector3d(0, 2, 0)).norm(), 0.5, w->precision(1e-9, 1e-5));
}

}  // namespace

}  // namespace linchpin::test
