// The step: contacts of the host beside exact constraints, substeps, acceptance, fallback, observing, threads,
// rollback.
#include "host_world.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace linchpin::test {

namespace {

std::vector<double> bits(const HostWorld& w, int bodies) {
  std::vector<double> out;
  for (int i = 0; i < bodies; ++i) {
    const BodyState s = w.state(i);
    for (const Vector3d& x : {s.p, s.v, s.w}) out.insert(out.end(), x.data(), x.data() + 3);
    out.insert(out.end(), s.q.coeffs().data(), s.q.coeffs().data() + 4);
  }
  return out;
}
bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

// A bar of length 2 on a hinge at one end; its other end rests on the ground. Half of the weight is on the hinge.
TEST(Contacts, ReachTheReactionsOfJoints) {
  const auto w = make_host_world();
  w->add_ground(0);
  const double m = 4;
  const int bar = w->add_box(m, Vector3d(1, 0.1, 0.1), Vector3d(0, 0.1, 0));
  const int hinge = w->add_joint(JointKind::hinge, -1, bar, Vector3d(-1, 0.1, 0));
  w->install();
  w->step(240);
  const Reaction r = w->reaction(w->handle_of(hinge));
  // The ground also carries what is beside the hinge; the bar's far edge carries the rest.
  EXPECT_GT(r.on_b.force.y(), -1e-6);
  EXPECT_LT(r.on_b.force.y(), 0.6 * m * standard_gravity);
  EXPECT_NEAR(w->state(bar).p.y(), 0.1, 2e-3);
  EXPECT_LT(r.gap, w->precision(1e-12, 1e-5));
  EXPECT_LT(w->worst_imbalance(), w->precision(1e-9, 1e-4));
}

TEST(Contacts, CarryABoxThatIsMadeOfTwo) {
  const auto w = make_host_world();
  w->add_ground(0.5);
  const int a = w->add_box(1, Vector3d(0.2, 0.1, 0.2), Vector3d(-0.2, 0.1, 0));
  const int b = w->add_box(3, Vector3d(0.2, 0.1, 0.2), Vector3d(0.2, 0.1, 0));
  const int weld = w->add_joint(JointKind::weld, a, b, Vector3d(0, 0.1, 0));
  w->install();
  w->step(240);
  EXPECT_LT(w->reaction(w->handle_of(weld)).gap, w->precision(1e-12, 1e-5));
  for (const int body : {a, b}) {
    EXPECT_NEAR(w->state(body).p.y(), 0.1, 2e-3);
    EXPECT_LT(w->state(body).v.norm(), 1e-2);
  }
  double carried = 0;
  for (const MomentumBalance& of : w->momentum_balances()) carried += of.host[1];
  EXPECT_NEAR(carried / step_length, 4 * standard_gravity, 0.5);
}

TEST(Contacts, StopAChainThatFallsOnTheGround) {
  const auto w = make_host_world();
  w->add_ground(0.5);
  std::vector<int> joints;
  for (int i = 0; i < 6; ++i) {
    const int link = w->add_box(1, Vector3d(0.2, 0.05, 0.05), Vector3d(0.4 * i, 0.5, 0));
    if (i > 0) joints.push_back(w->add_joint(JointKind::ball, link - 1, link, Vector3d(0.4 * i - 0.2, 0.5, 0)));
  }
  w->install();
  const double before = w->energy();
  // A host may find one contact of a face in a step. Then links roll over before they lie flat, which takes up to 4 s.
  for (int i = 0; i < 1200; ++i) {
    w->step();
    ASSERT_LT(w->energy(), before + 0.05) << "step " << i;
    for (const int joint : joints) ASSERT_LT(w->reaction(w->handle_of(joint)).gap, w->precision(1e-11, 1e-4)) << i;
  }
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(w->state(i).p.y(), 0.05, 0.02) << i;
}

TEST(Steps, OfFastSwingsAreTakenInSubsteps) {
  const auto w = make_host_world();
  const int a = w->add_ball(1, 0.02, Vector3d(0.05, 2, 0)), b = w->add_ball(0.01, 0.02, Vector3d(0.1, 2, 0));
  const int first = w->add_joint(JointKind::ball, -1, a, Vector3d(0, 2, 0)),
            second = w->add_joint(JointKind::ball, a, b, Vector3d(0.05, 2, 0));
  BodyState s = w->state(b);
  s.v = Vector3d(0, 40, 0);
  w->set_state(b, s);
  w->install();
  const double before = w->energy();
  w->step(60);
  EXPECT_GT(w->counts().substepped_steps, 0);
  EXPECT_GE(w->counts().substeps, 2 * w->counts().substepped_steps);
  EXPECT_LT(w->energy(), before + 0.1);
  for (const int joint : {first, second}) EXPECT_LT(w->reaction(w->handle_of(joint)).gap, w->precision(1e-11, 1e-4));
  EXPECT_EQ(w->counts().fallbacks, 0);
}

TEST(Steps, ThatCannotBeTakenAreLeftToTheHostByName) {
  const auto w = make_host_world();
  const int a = w->add_ball(1, 0.02, Vector3d(0.05, 2, 0)), b = w->add_ball(0.01, 0.02, Vector3d(0.1, 2, 0));
  w->add_joint(JointKind::ball, -1, a, Vector3d(0, 2, 0));
  const int joint = w->add_joint(JointKind::ball, a, b, Vector3d(0.05, 2, 0));
  BodyState s = w->state(b);
  s.v = Vector3d(0, 400, 0);
  w->set_state(b, s);
  host::SolverOptions options;
  options.max_substeps = 1;
  w->install(options);
  w->step(1);
  EXPECT_GE(w->counts().fallbacks, 1);
  EXPECT_TRUE(w->state(b).p.allFinite());
  EXPECT_NE(w->summary().find("last problem"), std::string::npos) << w->summary();
  EXPECT_EQ(w->reaction(w->handle_of(joint)).native, w->has(Feature::long_steps_to_host));
}

TEST(Steps, KeepNumbersThatAreNotFiniteFromTheHost) {
  const auto w = make_host_world();
  const int bob = w->add_box(1, Vector3d(0.1, 0.1, 0.1), Vector3d(0.5, 2, 0));
  const int other = w->add_box(1, Vector3d(0.1, 0.1, 0.1), Vector3d(5.5, 2, 0));
  w->add_joint(JointKind::ball, -1, bob, Vector3d(0, 2, 0));
  const int joint = w->add_joint(JointKind::ball, -1, other, Vector3d(5, 2, 0));
  w->install();
  w->step(2);
  w->constrain({bob}, [](const std::vector<BodyId>& ids) {
    return holonomic("broken", ids, [](const auto& s) {
      return s.t > 3 * step_length ? s[0].point(0, 0, 0).z * std::numeric_limits<double>::quiet_NaN()
                                   : s[0].point(0, 0, 0).z;
    });
  });
  w->step(20);
  EXPECT_TRUE(w->state(bob).p.allFinite() && w->state(bob).v.allFinite());
  EXPECT_GE(w->counts().fallbacks, 1);
  if (w->has(Feature::separate_islands)) {
    EXPECT_LT(w->reaction(w->handle_of(joint)).gap, w->precision(1e-12, 1e-5));
  }
}

TEST(Steps, WithoutDriftCorrectionDrift) {
  const auto drift = [](bool corrected) {
    const auto w = make_host_world();
    const int bob = w->add_ball(1, 0.1, Vector3d(0.8, 2, 0));
    const int joint = w->add_joint(JointKind::ball, -1, bob, Vector3d(0, 2, 0));
    host::SolverOptions options;
    options.drift_correction = corrected;
    w->install(options);
    w->step(240);
    return w->reaction(w->handle_of(joint)).gap;
  };
  const double with = drift(true), without = drift(false);
  EXPECT_GT(without, 1e-4);
  EXPECT_LT(with, 1e-5);
}

TEST(Observing, LeavesTheBitsOfTheHost) {
  LINCHPIN_NEEDS(*make_host_world(), Feature::passive_mode);
  const auto run = [](bool observe) {
    const auto w = make_host_world();
    const int bob = w->add_box(1, Vector3d(0.1, 0.1, 0.1), Vector3d(0.5, 2, 0));
    const int joint = w->add_joint(JointKind::ball, -1, bob, Vector3d(0, 2, 0));
    host::SolverOptions options;
    options.mode = host::Mode::passive;
    if (observe) w->install(options);
    w->step(60);
    if (observe) {
      const Reaction r = w->reaction(w->handle_of(joint));
      EXPECT_TRUE(r.native);
      EXPECT_GT(r.gap, 0);
      EXPECT_GT(r.on_b.force.norm(), 1);
    }
    return bits(*w, 1);
  };
  EXPECT_TRUE(same_bits(run(true), run(false)));
}

TEST(Threads, DoNotChangeABit) {
  LINCHPIN_NEEDS(*make_host_world(), Feature::threads);
  const auto run = [](int threads) {
    const auto w = make_host_world();
    for (int i = 0; i < 24; ++i) {
      const Vector3d at(0, 2, 3.0 * i);
      const int a = w->add_box(1, Vector3d(0.2, 0.05, 0.05), at + Vector3d(0.2, 0, 0));
      w->add_joint(i % 2 ? JointKind::ball : JointKind::hinge, -1, a, at);
      const int b = w->add_box(1 + 0.1 * i, Vector3d(0.2, 0.05, 0.05), at + Vector3d(0.6, 0, 0));
      w->add_joint(JointKind::hinge, a, b, at + Vector3d(0.4, 0, 0));
    }
    host::SolverOptions options;
    options.threads = threads;
    w->install(options);
    w->step(60);
    return bits(*w, 48);
  };
  const auto one = run(1);
  EXPECT_TRUE(same_bits(run(2), one));
  EXPECT_TRUE(same_bits(run(4), one));
}

TEST(Rollback, StepsHaveTheSameBitsAgain) {
  const auto w = make_host_world();
  for (int i = 0; i < 4; ++i) {
    const int link = w->add_box(1, Vector3d(0.2, 0.05, 0.05), Vector3d(0.4 * i, 0.4, 0));
    if (i > 0) w->add_joint(JointKind::ball, link - 1, link, Vector3d(0.4 * i - 0.2, 0.4, 0));
  }
  w->install();
  w->step(20);
  const auto back = w->save();
  w->step(15);
  const auto first = bits(*w, 4);
  ASSERT_EQ(back(), "");
  w->step(15);
  EXPECT_TRUE(same_bits(bits(*w, 4), first));
}

}  // namespace

}  // namespace linchpin::test
