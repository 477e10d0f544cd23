// Steps of Bullet's by the stages of rk4 and of the adaptive pair (T13): their order, against the core's own stepper,
// what they leave to semi-implicit steps, and that a program notices nothing else.
#include "world.h"

#include "allocation_counter.h"

#include <linchpin/joints.h>
#include <linchpin/laws.h>
#include <linchpin/stepper.h>

#include <gtest/gtest.h>

#include <array>

namespace linchpin::test::stepping_test {
namespace {

using bullet::Stepping;

bullet::Options by_stages(Stepping stepping = Stepping::rk4) { return {.stepping = stepping}; }
/// Whatever the error: each step of Bullet's in one part.
bullet::Options by_pair() { return {.stepping = Stepping::adaptive, .tolerance = 1e3}; }

constexpr std::array both{Stepping::rk4, Stepping::adaptive};
const char* name(Stepping stepping) { return stepping == Stepping::rk4 ? "rk4" : "adaptive"; }

/// Three bars and the world in a closed loop on hinges along z: 20 rows of rank 17, one degree of freedom.
void four_bar(TestWorld& w) {
  const std::array<btVector3, 4> pin{btVector3(0, 0, 0), btVector3(0, btScalar(0.4), 0),
                                     btVector3(btScalar(0.9), btScalar(0.7), 0), btVector3(btScalar(0.8), 0, 0)};
  std::array<btRigidBody*, 3> bar{};
  for (std::size_t i = 0; i < 3; ++i) {
    const btVector3 along = pin[i + 1] - pin[i];
    bar[i] = &w.box(1, btVector3(along.length() / 2, btScalar(0.05), btScalar(0.03)), (pin[i] + pin[i + 1]) / 2,
                    btQuaternion(btVector3(0, 0, 1), btAtan2(along.y(), along.x())));
    bar[i]->getBroadphaseHandle()->m_collisionFilterMask = 0;
  }
  const auto local = [&](std::size_t i, const btVector3& at) { return bar[i]->getWorldTransform().inverse() * at; };
  const btVector3 axis(0, 0, 1);
  w.joint<btHingeConstraint>(*bar[0], local(0, pin[0]), axis);
  w.joint<btHingeConstraint>(*bar[0], *bar[1], local(0, pin[1]), local(1, pin[1]), axis, axis);
  w.joint<btHingeConstraint>(*bar[1], *bar[2], local(1, pin[2]), local(2, pin[2]), axis, axis);
  w.joint<btHingeConstraint>(*bar[2], local(2, pin[3]), axis);
}

/// Where the bodies are and how fast, of all.
std::vector<double> numbers(const TestWorld& w) {
  std::vector<double> out;
  for (const btScalar x : w.bits()) out.push_back(double(x));
  return out;
}
double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

template <class Build>
std::vector<double> after(double time, int steps, const Build& build, const bullet::Options& options = by_stages()) {
  TestWorld w;
  bullet::Solver exact(w.world, options);
  build(w, exact);
  w.step(steps, time / steps);
  EXPECT_EQ(exact.counts().order_reductions, 0) << exact.summary();
  EXPECT_LE(largest_gap(exact), precision(1e-13, 2e-6));
  return numbers(w);
}

/// log₂ of what halving the step divides the error by.
template <class Build>
double slope(double time, int steps, const Build& build, const bullet::Options& options = by_stages()) {
  const auto exact = after(time, 16 * steps, build, options);
  return std::log2(difference(after(time, steps, build, options), exact) /
                   difference(after(time, 2 * steps, build, options), exact));
}

TEST(Stepping, OrderFourOnARigidClosedLoop) {
  const auto build = [](TestWorld& w, bullet::Solver&) { four_bar(w); };
  if (single) {  // rounding is all that is left of it
    EXPECT_LT(difference(after(0.4, 24, build), after(0.4, 96, build)), 2e-4);
    return;
  }
  EXPECT_NEAR(slope(0.4, 40, build), 4.0, 0.1);
  EXPECT_NEAR(slope(0.4, 80, build), 4.0, 0.1);
}

TEST(Stepping, OrderFiveOfThePairOnARigidClosedLoop) {
  if (single) return;
  const auto build = [](TestWorld& w, bullet::Solver&) { four_bar(w); };
  EXPECT_NEAR(slope(0.4, 20, build, by_pair()), 5.0, 0.2);
  EXPECT_NEAR(slope(0.4, 40, build, by_pair()), 5.0, 0.2);
}

// The pivot is a function of time: stages ask it at their own.
TEST(Stepping, OrderFourWithAConstraintThatMovesWithTime) {
  const auto build = [](TestWorld& w, bullet::Solver& exact) {
    btRigidBody& rod =
        w.box(1, btVector3(btScalar(0.5), btScalar(0.05), btScalar(0.1)), btVector3(btScalar(0.5), 0, 0));
    exact.constrain("pivot", {rod}, [](const auto& s) {
      using std::sin;
      auto end = s[0].point(-0.5, 0, 0);
      end.x -= 0.1 * (sin(5.0 * s.t) - 5.0 * s.t);  // at rest to begin with
      return end;
    });
  };
  if (single) return;
  EXPECT_NEAR(slope(0.5, 40, build), 4.0, 0.1);
}

/// A chain that turns about its own axis as the joints allow, in the host and without one.
struct Twice {
  explicit Twice(int links) {
    chain(w, links);
    system.set_gravity({0, -9.81, 0});
    for (std::size_t i = 0; i < w.bodies.size(); ++i) {
      w.bodies[i]->getBroadphaseHandle()->m_collisionFilterMask = 0;
      w.bodies[i]->setAngularVelocity(btVector3(4, 0, 0));
      const btVector3& inverse = w.bodies[i]->getInvInertiaDiagLocal();
      const Vector3d I(1 / double(inverse.x()), 1 / double(inverse.y()), 1 / double(inverse.z()));
      ids.push_back(system.add_body("link" + std::to_string(i), 1 / double(w.bodies[i]->getInvMass()), I,
                                    Pose{{(double(i) + 0.5) * 0.5, 0, 0}, Quaterniond::Identity()}));
      system.add(joints::ball("joint" + std::to_string(i), i == 0 ? linchpin::ground : ids[i - 1],
                              i == 0 ? Vector3d::Zero() : Vector3d(0.25, 0, 0), ids[i], Vector3d(-0.25, 0, 0)));
    }
    start = system.initial_state();
    for (const BodyId id : ids) start[id].w = {4, 0, 0};
  }
  /// By how much the host is elsewhere than the stepper: poses [m], velocities [m/s], rates [rad/s].
  std::array<double, 3> off(const State& to) const {
    std::array<double, 3> most{};
    for (std::size_t k = 0; k < ids.size(); ++k) {
      const btRigidBody& body = *w.bodies[k];
      most[0] = std::max(most[0], (bullet::from_bullet(body.getCenterOfMassPosition()) - to[ids[k]].p).norm());
      most[1] = std::max(most[1], (bullet::from_bullet(body.getLinearVelocity()) - to[ids[k]].v).norm());
      most[2] = std::max(most[2], (bullet::from_bullet(body.getAngularVelocity()) - to[ids[k]].w).norm());
    }
    return most;
  }
  TestWorld w;
  System system;
  State start;
  std::vector<BodyId> ids;
};

// Bullet's way from pose to pose ends where the core's own stepper does, gyroscopic torques and all.
TEST(Stepping, PosesAndVelocitiesAreThoseOfTheStepperWithoutAHost) {
  Twice t(3);
  Stepper stepper(t.system, t.start, {.method = Method::rk4});
  bullet::Solver exact(t.w.world, by_stages());
  for (int i = 0; i < 60; ++i) {
    t.w.step(1, 1.0 / 120);
    stepper.step(1.0 / 120);
    const double close = precision(1e-11, 2e-4);
    const auto off = t.off(stepper.state());
    ASSERT_LT(off[0], close) << i;
    ASSERT_LT(off[1], 10 * close) << i;
    ASSERT_LT(off[2], 100 * close) << i;
  }
  EXPECT_EQ(exact.counts().order_reductions, 0);
  EXPECT_EQ(exact.counts().substepped_steps, 0);
}

// A chain of six that whips: each hundredth of the tolerance takes the error down by as much, in more parts, whatever
// the step of the host.
TEST(Stepping, TheErrorOfThePairFollowsItsTolerance) {
  const double time = 0.8;
  State end;
  {
    Twice t(6);
    Stepper stepper(t.system, t.start,
                    {.method = Method::adaptive8, .relative_tolerance = 1e-12, .absolute_tolerance = 1e-13});
    ASSERT_FALSE(stepper.step(time).rejected);
    end = stepper.state();
  }
  long parts = 0;
  for (const double tolerance : single ? std::vector{1e-4} : std::vector{1e-5, 1e-7, 1e-9}) {
    Twice t(6);
    bullet::Solver exact(t.w.world, {.stepping = Stepping::adaptive, .tolerance = tolerance});
    t.w.step(24, time / 24);
    const auto off = t.off(end);
    EXPECT_LT(off[0], precision(100 * tolerance, 1e-2)) << tolerance;
    EXPECT_LT(off[1], precision(1000 * tolerance, 1e-1)) << tolerance;
    EXPECT_LE(largest_gap(exact), precision(1e-12, 2e-6));
    EXPECT_EQ(exact.counts().order_reductions + exact.counts().fallbacks, 0) << exact.summary();
    EXPECT_GT(exact.counts().integrator_substeps, parts);
    EXPECT_NE(exact.summary().find(std::to_string(exact.counts().integrator_substeps) + " substeps"),
              std::string::npos);
    parts = exact.counts().integrator_substeps;
  }
}

double kinetic(const TestWorld& w) {
  double sum = 0;
  for (const auto& body : w.bodies) {
    if (body->getInvMass() == 0) continue;
    const Vector3d v = bullet::from_bullet(body->getLinearVelocity()),
                   u = bullet::from_bullet(body->getWorldTransform().getBasis().transpose() *
                                           body->getAngularVelocity());
    sum += 0.5 * v.squaredNorm() / double(body->getInvMass());
    for (int k = 0; k < 3; ++k) sum += 0.5 * u[k] * u[k] / double(body->getInvInertiaDiagLocal()[k]);
  }
  return sum;
}

// What is asked of it: a hundred links let go from the level, sixty steps a second.
TEST(Stepping, AHundredLinksAtSixtyStepsASecondStayTogetherAndKeepTheirEnergy) {
  for (const Stepping stepping : both) {
    SCOPED_TRACE(name(stepping));
    TestWorld w;
    chain(w, 100);
    bullet::Solver exact(w.world, {.stepping = stepping, .tolerance = precision(1e-7, 1e-5)});
    const double start = exact.energy();
    double gap = 0, drift = 0, most = 0;
    for (int i = 0; i < (stepping == Stepping::rk4 ? 120 : 40); ++i) {
      w.step(1, 1.0 / 60);
      gap = std::max(gap, largest_gap(exact));
      drift = std::max(drift, std::abs(exact.energy() - start));
      most = std::max(most, kinetic(w));
    }
    EXPECT_LE(gap, precision(1e-9, 1e-4));  // in single: half an ulp of poses 50 m out, twice
    EXPECT_LE(drift / most, precision(1e-5, 1e-4));
    EXPECT_EQ(exact.counts().fallbacks, 0);
    EXPECT_EQ(exact.counts().order_reductions, 0);
  }
}

// The books close though a step has four states, and the reaction is that of its start, as ever.
TEST(Stepping, BooksCloseAndReactionsAreThoseOfTheStart) {
  for (const Stepping stepping : both) {
    SCOPED_TRACE(name(stepping));
    TestWorld w, other;
    four_bar(w);
    four_bar(other);
    bullet::Solver exact(w.world, by_stages(stepping)), semi(other.world);
    btJointFeedback feedback;
    w.joints[1]->setJointFeedback(&feedback);
    w.step(1, 1.0 / 60);
    other.step(1, 1.0 / 60);
    const Vector3d force = exact.reactions()[1].on_a.force;
    EXPECT_GT(force.norm(), 1);
    EXPECT_LT((force - semi.reactions()[1].on_a.force).norm(), precision(1e-11, 1e-4));
    for (int i = 0; i < 40; ++i) {
      w.step(1, 1.0 / 60);
      EXPECT_LE(worst_books(exact), 1e-9) << i;
      EXPECT_EQ(exact.momentum_balances().size(), 3u);
    }
    w.joints[1]->setJointFeedback(nullptr);  // from here on books are put together when somebody asks
    const auto before = exact.counts().factorizations;
    w.step(1, 1.0 / 60);
    EXPECT_LE(worst_books(exact), 1e-9);
    if (stepping != Stepping::rk4) continue;
    EXPECT_EQ(exact.counts().factorizations - before, 4);  // and asking counts for nothing
    EXPECT_EQ(exact.counts().substepped_steps, 0);
  }
}

// A chain that falls onto a floor and hangs from the ceiling again by its other half.
TEST(Stepping, InContactStepsAreSemiImplicitAndSaySo) {
  const auto run = [](Stepping stepping) {
    struct Out {
      double gap = 0, lowest = 1e9;
      long order_reductions = 0, steps = 0;
      bool finite = false;
      std::string summary;
    } out;
    TestWorld w;
    w.box(0, btVector3(20, 1, 20), btVector3(0, -2, 0));
    chain(w, 6);
    bullet::Solver exact(w.world, {.stepping = stepping});
    for (int i = 0; i < 240; ++i) {
      w.step(1, 1.0 / 120);
      out.gap = std::max(out.gap, largest_gap(exact));
      for (std::size_t k = 1; k < w.bodies.size(); ++k)
        out.lowest = std::min(out.lowest, double(w.bodies[k]->getCenterOfMassPosition().y()));
    }
    out.order_reductions = exact.counts().order_reductions;
    out.steps = exact.counts().steps;
    out.finite = w.finite();
    out.summary = exact.summary();
    return out;
  };
  const auto semi = run(Stepping::semi_implicit);
  EXPECT_EQ(semi.order_reductions, 0);
  for (const Stepping stepping : both) {
    SCOPED_TRACE(name(stepping));
    const auto staged = run(stepping);
    EXPECT_TRUE(staged.finite);
    EXPECT_LE(staged.gap, precision(1e-9, 1e-5));
    EXPECT_GT(staged.order_reductions, 10);
    EXPECT_LT(staged.order_reductions, staged.steps);
    EXPECT_NE(staged.summary.find("semi-implicit (first order)"), std::string::npos) << staged.summary;
    EXPECT_NE(staged.summary.find("contacts"), std::string::npos) << staged.summary;
    EXPECT_GT(staged.lowest, semi.lowest - 0.01);  // no deeper into the floor
  }
}

/// What other actions of the program see and do after the integration.
struct Probe : btActionInterface {
  explicit Probe(btRigidBody& b) : body(b) {}
  void updateAction(btCollisionWorld*, btScalar) override {
    seen = body.getLinearVelocity();
    body.applyCentralImpulse(push);
    order.push_back(number);
  }
  void debugDraw(btIDebugDraw*) override {}
  btRigidBody& body;
  btVector3 seen{0, 0, 0}, push{0, 0, 0};
  static inline std::vector<int> order;
  int number = 0;
};

TEST(Stepping, ActionsSeeTheVelocityOfTheEndAndWhatTheyAddStays) {
  TestWorld w;
  chain(w, 2);
  std::array<Probe, 3> probes{Probe(*w.bodies[1]), Probe(*w.bodies[1]), Probe(*w.bodies[1])};
  for (int i = 0; i < 3; ++i) {
    probes[std::size_t(i)].number = i;
    w.world.addAction(&probes[std::size_t(i)]);
  }
  {
    bullet::Solver exact(w.world, by_stages());
    Probe::order.clear();
    w.step(10, 1.0 / 60);
    EXPECT_EQ(probes[0].seen, w.bodies[1]->getLinearVelocity());
    probes[1].push = btVector3(0, 0, 1);
    w.step(1, 1.0 / 60);
    EXPECT_EQ(probes[2].seen, w.bodies[1]->getLinearVelocity());
    EXPECT_NEAR(double(probes[2].seen.z()), 1, 1e-6);
    probes[1].push.setZero();
    w.step(10, 1.0 / 60);
    EXPECT_LE(largest_gap(exact), precision(1e-13, 1e-6));
    EXPECT_GT(exact.counts().activation_energy, 0);
  }
  Probe::order.clear();
  w.step(1, 1.0 / 60);
  EXPECT_EQ(Probe::order, (std::vector<int>{0, 1, 2}));  // as the program added them
  for (Probe& p : probes) w.world.removeAction(&p);
}

// Leaving in mid-run: from there on the run of a fresh native solver, bit for bit.
TEST(Stepping, TheNativeSolverTakesOverInMidRun) {
  TestWorld w, other;
  four_bar(w);
  four_bar(other);
  {
    bullet::Solver exact(w.world, by_stages());
    w.step(25, 1.0 / 60);
    exact.detach();
    for (std::size_t i = 0; i < w.bodies.size(); ++i) {
      other.bodies[i]->setWorldTransform(w.bodies[i]->getWorldTransform());
      other.bodies[i]->setLinearVelocity(w.bodies[i]->getLinearVelocity());
      other.bodies[i]->setAngularVelocity(w.bodies[i]->getAngularVelocity());
    }
  }
  w.step(50, 1.0 / 60);
  other.step(50, 1.0 / 60);
  EXPECT_TRUE(w.finite());
  EXPECT_EQ(w.bits(), other.bits());
}

// A pendulum whose pivot the program moves to and fro: the pivot's own velocity, not the mean over the step.
TEST(Stepping, AnAnimatedPivotCarriesItsPendulumSmoothly) {
  const double reach = 0.2, rate = 6;
  const auto run = [&](Stepping stepping, int steps) {
    TestWorld w;
    btRigidBody& pivot = w.box(0, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), btVector3(0, 0, 0));
    pivot.setCollisionFlags(pivot.getCollisionFlags() | btCollisionObject::CF_KINEMATIC_OBJECT);
    pivot.setActivationState(DISABLE_DEACTIVATION);
    btRigidBody& rod =
        w.box(1, btVector3(btScalar(0.5), btScalar(0.05), btScalar(0.1)), btVector3(btScalar(0.5), 0, 0));
    rod.getBroadphaseHandle()->m_collisionFilterMask = 0;
    w.joint<btHingeConstraint>(rod, pivot, btVector3(btScalar(-0.5), 0, 0), btVector3(0, 0, 0), btVector3(0, 0, 1),
                               btVector3(0, 0, 1));
    bullet::Solver exact(w.world, {.stepping = stepping});
    const double dt = 1.0 / steps;
    for (int i = 1; i <= steps; ++i) {
      btTransform at = pivot.getWorldTransform();
      at.setOrigin(btVector3(btScalar(reach * (1 - std::cos(rate * dt * i))), 0, 0));
      pivot.setWorldTransform(at);
      w.step(1, dt);
    }
    EXPECT_LE(largest_gap(exact), precision(1e-12, 1e-6));
    EXPECT_EQ(exact.counts().order_reductions, 0);
    return std::pair(bullet::from_bullet(rod.getCenterOfMassPosition()), bullet::from_bullet(rod.getLinearVelocity()));
  };
  const auto fine = run(Stepping::rk4, 3840);
  const auto off = [&](const auto& x) { return (x.first - fine.first).norm() + 0.1 * (x.second - fine.second).norm(); };
  const double semi = off(run(Stepping::semi_implicit, 60));
  for (const Stepping stepping : both) EXPECT_LT(off(run(stepping, 60)), 0.1 * semi) << name(stepping);
}

// The program moves a pivot at a steady speed. The pendulum on it swings as on a pivot at rest. Steps are so long that
// each of them consists of several parts.
TEST(Stepping, ASteadyPivotCarriesItsPendulumThroughThePartsOfAStep) {
  const auto run = [](Stepping stepping, double speed) {
    TestWorld w;
    btRigidBody& pivot = w.box(0, btVector3(btScalar(0.1), btScalar(0.1), btScalar(0.1)), btVector3(0, 0, 0));
    pivot.setCollisionFlags(pivot.getCollisionFlags() | btCollisionObject::CF_KINEMATIC_OBJECT);
    pivot.setActivationState(DISABLE_DEACTIVATION);
    btRigidBody& rod =
        w.box(1, btVector3(btScalar(0.5), btScalar(0.05), btScalar(0.1)), btVector3(btScalar(0.5), 0, 0));
    rod.getBroadphaseHandle()->m_collisionFilterMask = 0;
    w.joint<btHingeConstraint>(rod, pivot, btVector3(btScalar(-0.5), 0, 0), btVector3(0, 0, 0), btVector3(0, 0, 1),
                               btVector3(0, 0, 1));
    rod.setAngularVelocity(btVector3(0, 0, 15));
    rod.setLinearVelocity(btVector3(btScalar(speed), btScalar(7.5), 0));
    bullet::Solver exact(w.world, {.stepping = stepping, .tolerance = precision(1e-9, 1e-6)});
    for (int i = 1; i <= 6; ++i) {
      btTransform at = pivot.getWorldTransform();
      at.setOrigin(btVector3(btScalar(speed * i / 6), 0, 0));
      pivot.setWorldTransform(at);
      w.step(1, 1.0 / 6);
    }
    EXPECT_GE(exact.counts().integrator_substeps, 2 * exact.counts().steps) << exact.summary();
    EXPECT_EQ(exact.counts().order_reductions, 0);
    return Vector3d(bullet::from_bullet(rod.getCenterOfMassPosition()) - Vector3d(speed, 0, 0));
  };
  for (const Stepping stepping : both) {
    SCOPED_TRACE(name(stepping));
    // The adaptive error is relative to sizes and speeds. They differ between the two runs, and so do the parts.
    EXPECT_LT((run(stepping, 3) - run(stepping, 0)).norm(), precision(1e-6, 1e-3));
  }
}

// Too stiff for a whole step: taken in parts, and where no part is allowed, semi-implicitly or by Bullet, counted.
TEST(Stepping, AWreckingBallIsTakenInPartsAndNamedWhereItMayNot) {
  const auto ball_on_chain = [](TestWorld& w) {
    chain(w, 10, 0.1, 0.2);
    btRigidBody& last = *w.bodies.back();
    btRigidBody& ball = w.ball(500, 0.3, btVector3(btScalar(2.3), 0, 0));
    ball.getBroadphaseHandle()->m_collisionFilterMask = 0;
    w.joint<btPoint2PointConstraint>(last, ball, btVector3(btScalar(0.1), 0, 0), btVector3(btScalar(-0.3), 0, 0));
  };
  for (const Stepping stepping : both) {
    SCOPED_TRACE(name(stepping));
    TestWorld w;
    ball_on_chain(w);
    bullet::Solver exact(w.world, {.stepping = stepping, .tolerance = precision(1e-7, 1e-5)});
    const double start = exact.energy();
    double drift = 0, most = 0;
    for (int i = 0; i < (stepping == Stepping::rk4 ? 120 : 40); ++i) {
      w.step(1, 1.0 / 60);
      drift = std::max(drift, std::abs(exact.energy() - start));
      most = std::max(most, kinetic(w));
    }
    EXPECT_GT(exact.counts().substeps, 4 * exact.counts().substepped_steps);
    EXPECT_GE(exact.counts().integrator_substeps, exact.counts().substeps);
    EXPECT_EQ(exact.counts().fallbacks + exact.counts().order_reductions, 0);
    EXPECT_LE(drift / most, precision(1e-5, 1e-3));
    EXPECT_LE(largest_gap(exact), precision(1e-12, 1e-5));

    TestWorld none;
    ball_on_chain(none);
    bullet::Solver coarse(none.world, {.stepping = stepping, .tolerance = 1e-12, .max_substeps = 1});
    none.step(60, 1.0 / 60);
    EXPECT_GT(coarse.counts().order_reductions, 0);
    EXPECT_NE(coarse.summary().find("even the shortest substep"), std::string::npos) << coarse.summary();
    EXPECT_TRUE(none.finite());
  }
}

/// A flywheel on a hinge that oil slows, and a sleigh on a rail that the air does.
TEST(Stepping, SmoothLawsActInTheStages) {
  const double mu = 0.3, drag_by = 0.7, rate = 20, speed = 5, time = 0.5;
  for (const Stepping stepping : both) {
    SCOPED_TRACE(name(stepping));
    TestWorld w(0);
    btRigidBody& wheel = w.box(2, btVector3(btScalar(0.4), btScalar(0.4), btScalar(0.1)), btVector3(0, 0, 0));
    btRigidBody& sleigh = w.box(1.5, btVector3(btScalar(0.2), btScalar(0.1), btScalar(0.1)), btVector3(0, 5, 0));
    auto& pin = w.joint<btHingeConstraint>(wheel, btVector3(0, 0, 0), btVector3(0, 0, 1));
    auto& rail = w.joint<btSliderConstraint>(sleigh, btTransform::getIdentity(), true);
    rail.setLowerLinLimit(1);
    rail.setUpperLinLimit(-1);
    wheel.setAngularVelocity(btVector3(0, 0, btScalar(rate)));
    sleigh.setLinearVelocity(btVector3(btScalar(speed), 0, 0));
    bullet::Solver exact(w.world, by_stages(stepping));
    auto oil = exact.name_joint(pin, "pin").law(laws::viscous_torque(mu));
    auto air = exact.name_joint(rail, "rail").law(laws::drag(drag_by));
    const double before = kinetic(w);
    const int steps = 30;
    for (int i = 0; i < steps; ++i) {
      w.step(1, time / steps);
      EXPECT_LE(worst_books(exact), 1e-9) << i;
    }
    EXPECT_EQ(exact.counts().order_reductions, 0) << exact.summary();
    // rk4 takes the wheel's decay in steps of h by 1 − x + x²/2 − x³/6 + x⁴/24, x = ch/I: off by x⁵/120 each.
    const double I = 1 / double(wheel.getInvInertiaDiagLocal().z()), m = 1.5;
    const double x = mu / I * time / steps;
    const double close = std::max(precision(1e-8, 2e-6), steps * std::pow(x, 5) / 100);
    EXPECT_NEAR(double(wheel.getAngularVelocity().z()), rate * std::exp(-mu / I * time), rate * close);
    EXPECT_NEAR(double(sleigh.getLinearVelocity().x()), speed / (1 + drag_by * speed * time / m), speed * close);
    const double lost = before - kinetic(w);
    ASSERT_EQ(oil.laws().size(), 1u);
    EXPECT_NEAR(-(oil.laws()[0].work + air.laws()[0].work), lost, before * 10 * close);
    EXPECT_NEAR(-(oil.reaction().work + air.reaction().work), lost, before * 10 * close);
    EXPECT_LT(largest_gap(exact), precision(1e-12, 1e-6));
  }
}

/// A heavy wheel on a light shaft whose pin is damped.
struct WheelInOil {
  TestWorld w;
  btRigidBody& shaft;
  btRigidBody& wheel;
  bullet::Solver exact;
  explicit WheelInOil(double oil)
      : w(0),
        shaft(w.box(0.001, btVector3(btScalar(0.01), btScalar(0.01), btScalar(0.1)), btVector3(0, 0, 0))),
        wheel(w.box(20, btVector3(btScalar(0.4), btScalar(0.4), btScalar(0.1)), btVector3(0, 0, 0))),
        exact(w.world, by_stages(Stepping::rk4)) {
    auto& pin = w.joint<btHingeConstraint>(shaft, btVector3(0, 0, 0), btVector3(0, 0, 1));
    w.joint<btFixedConstraint>(shaft, wheel, btTransform::getIdentity(), btTransform::getIdentity());
    for (btRigidBody* body : {&shaft, &wheel}) body->setAngularVelocity(btVector3(0, 0, 10));
    exact.name_joint(pin, "pin").law(laws::viscous_torque(oil).with_name("oil"));
  }
};

// The shaft alone would stop within microseconds: how fast a damper acts is judged on the motion that constraints
// leave.
TEST(Stepping, ADamperOnALightPartOfAHeavyBodyTakesWholeSteps) {
  WheelInOil scene(0.5);
  scene.w.step(60, 1.0 / 60);
  EXPECT_EQ(scene.exact.counts().integrator_substeps, 60) << scene.exact.summary();
  EXPECT_EQ(scene.exact.counts().order_reductions, 0) << scene.exact.summary();
  const double I =
      1 / double(scene.wheel.getInvInertiaDiagLocal().z()) + 1 / double(scene.shaft.getInvInertiaDiagLocal().z());
  EXPECT_NEAR(double(scene.wheel.getAngularVelocity().z()), 10 * std::exp(-0.5 / I), precision(1e-9, 1e-4));
}

// And where no part that max_substeps allows is short enough, the step is left at once, and says why.
TEST(Stepping, ADamperThatNoPartCanFollowIsLeftToSemiImplicitStepsByName) {
  WheelInOil scene(1e6);
  scene.w.step(10, 1.0 / 60);
  EXPECT_EQ(scene.exact.counts().order_reductions, 10) << scene.exact.summary();
  EXPECT_LE(scene.exact.counts().rejected_substeps, 10) << scene.exact.summary();
  EXPECT_NE(scene.exact.summary().find("a force law is too stiff for Options::max_substeps substeps"),
            std::string::npos)
      << scene.exact.summary();
  EXPECT_LE(std::abs(double(scene.wheel.getAngularVelocity().z())), 1e-2);
}

TEST(Stepping, DryFrictionAndLawsWithAMemoryAreLeftToSemiImplicitStepsByName) {
  const auto run = [](const Law& law, Stepping stepping) {
    TestWorld w;
    btRigidBody& rod =
        w.box(1, btVector3(btScalar(0.5), btScalar(0.05), btScalar(0.1)), btVector3(btScalar(0.5), 0, 0));
    auto& pin = w.joint<btHingeConstraint>(rod, btVector3(btScalar(-0.5), 0, 0), btVector3(0, 0, 1));
    bullet::Solver exact(w.world, by_stages(stepping));
    exact.name_joint(pin, "pin").law(law);
    w.step(30, 1.0 / 60);
    return std::tuple(w.bits(), exact.counts().order_reductions, exact.summary());
  };
  const Law dry = laws::hinge_friction({.mu_static = 0.3, .mu_kinetic = 0.3, .pin_radius = 0.02});
  Law::Term remembers;
  remembers.name = "remembers";
  remembers.force = [](const ConstraintReaction& n) {
    return ForceMoment{Vector3d::Zero(), -0.01 * (n.spin_velocity + n.internal_state)};
  };
  remembers.internal_state_rate = [](const ConstraintReaction& n) -> Vector3d {
    return n.spin_velocity - n.internal_state;
  };
  remembers.advance_state = [](const ConstraintReaction& n, double dt) -> Vector3d {
    return n.internal_state + dt * (n.spin_velocity - n.internal_state);
  };
  for (const auto& [law, why] : {std::pair(dry, "dry friction"), std::pair(Law(remembers), "internal state")}) {
    const auto semi = run(law, Stepping::semi_implicit);
    for (const Stepping stepping : both) {
      const auto staged = run(law, stepping);
      EXPECT_EQ(std::get<0>(staged), std::get<0>(semi));
      EXPECT_EQ(std::get<1>(staged), 30);
      EXPECT_NE(std::get<2>(staged).find(why), std::string::npos) << std::get<2>(staged);
    }
  }
}

TEST(Stepping, ATeleportIsClosedByMovingAndAThrownBodyByAnImpulse) {
  for (const Stepping stepping : both) {
    SCOPED_TRACE(name(stepping));
    TestWorld w;
    chain(w, 4);
    bullet::Solver exact(w.world, by_stages(stepping));
    w.step(10, 1.0 / 60);
    w.bodies[3]->translate(btVector3(0, 0, btScalar(0.2)));
    w.step(1, 1.0 / 60);
    EXPECT_EQ(exact.counts().gap_corrections, 1);
    EXPECT_LE(largest_gap(exact), precision(1e-12, 1e-5));
    w.bodies[2]->setLinearVelocity(btVector3(0, 0, 5));
    const double before = exact.energy();
    w.step(1, 1.0 / 60);
    EXPECT_LT(exact.energy(), before);  // the impulse can only take
    w.step(60, 1.0 / 60);
    EXPECT_LE(largest_gap(exact), precision(1e-12, 1e-5));
    EXPECT_EQ(exact.counts().fallbacks + exact.counts().order_reductions, 0);
  }
}

// Per row, as in a semi-implicit step: the tension of two hanging weights, of which the joint bears half too little.
TEST(Stepping, AJointBreaksAtItsThreshold) {
  for (const double share : {0.9, 1.1}) {
    TestWorld w;
    chain(w, 2);
    for (const auto& body : w.bodies) {
      body->setWorldTransform(btTransform(btQuaternion(btVector3(0, 0, 1), btScalar(-pi / 2)),
                                          btVector3(0, -body->getCenterOfMassPosition().x(), 0)));
      body->getBroadphaseHandle()->m_collisionFilterMask = 0;
    }
    w.joints[0]->setBreakingImpulseThreshold(btScalar(share * 2 * 9.81 / 60));
    bullet::Solver exact(w.world, by_stages());
    w.step(5, 1.0 / 60);
    EXPECT_EQ(w.joints[0]->isEnabled(), share > 1) << share;
  }
}

TEST(Stepping, BulletsDampingIsOnesAStep) {
  TestWorld w(0);
  btRigidBody &a = w.ball(1, 0.1, btVector3(0, 0, 0)), &b = w.ball(1, 0.1, btVector3(1, 0, 0));
  w.joint<btPoint2PointConstraint>(a, b, btVector3(btScalar(0.5), 0, 0), btVector3(btScalar(-0.5), 0, 0));
  for (btRigidBody* body : {&a, &b}) {
    body->setDamping(btScalar(0.5), 0);
    body->setLinearVelocity(btVector3(0, 3, 0));
  }
  bullet::Solver exact(w.world, by_stages());
  w.step(60, 1.0 / 60);
  EXPECT_NEAR(double(a.getLinearVelocity().y()), 3 * 0.5, precision(1e-12, 1e-5));
}

// Whoever asks gets the step taken once more, and nothing moves by that; not where bodies turn further in it than
// Bullet can turn them, either.
TEST(Stepping, AskingWhatAStepDidChangesNothing) {
  const auto run = [](bool asks, Stepping stepping) {
    TestWorld w;
    chain(w, 4);
    for (const auto& body : w.bodies) {
      body->getBroadphaseHandle()->m_collisionFilterMask = 0;
      body->setAngularVelocity(btVector3(70, 0, 0));  // more than a radian a step, about their own axes
    }
    bullet::Solver exact(w.world, by_stages(stepping));
    for (int i = 0; i < 60; ++i) {
      w.step(1, 1.0 / 60);
      if (!asks) continue;
      EXPECT_LE(worst_books(exact), 1e-9) << i;
      EXPECT_FALSE(exact.reactions().empty());
    }
    EXPECT_LE(largest_gap(exact), precision(1e-12, 1e-5));
    EXPECT_EQ(exact.counts().order_reductions, 0);
    return std::pair(w.bits(), exact.counts().factorizations);
  };
  for (const Stepping stepping : both) EXPECT_EQ(run(true, stepping), run(false, stepping)) << name(stepping);
}

TEST(Stepping, BodiesDeletedWithoutAWordAreNotAskedAgain) {
  TestWorld w;
  chain(w, 3);
  bullet::Solver exact(w.world, by_stages());
  w.step(5, 1.0 / 60);
  w.world.removeConstraint(w.joints[2].get());
  w.joints.pop_back();
  w.world.removeRigidBody(w.bodies[2].get());
  w.bodies.pop_back();
  EXPECT_FALSE(exact.summary().empty());
  EXPECT_LE(exact.momentum_balances().size(), 3u);
  w.step(30, 1.0 / 60);
  EXPECT_LE(largest_gap(exact), precision(1e-12, 1e-5));
}

TEST(Stepping, AWarmStepAllocatesNothing) {
  for (const Stepping stepping : both) {
    TestWorld w;
    chain(w, 20);
    bullet::Solver exact(w.world, {.stepping = stepping, .tolerance = precision(1e-7, 1e-5)});
    w.step(90, 1.0 / 60);
    const AllocationCounter allocations;
    w.step(30, 1.0 / 60);
    EXPECT_EQ(allocations.count(), 0u) << name(stepping);
  }
}

}  // namespace
}  // namespace linchpin::test::stepping_test
