// Bodies and things by name: what is kept, what is refused, and the exponential map.
#include "support/random.h"
#include "support/refused.h"
#include "support/tolerances.h"

#include <linchpin/constraint.h>
#include <linchpin/forces.h>
#include <linchpin/joints.h>
#include <linchpin/system.h>

#include <gtest/gtest.h>

#include <limits>
#include <numbers>
#include <stdexcept>

namespace linchpin::test::system_test {
namespace {

const Vector3d zero = Vector3d::Zero(), ones = Vector3d::Ones();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

BodyState moving(double t) {
  BodyState s;
  s.p = {t * t, 0, 0}, s.v = {2 * t, 0, 0}, s.a = {2, 0, 0};
  s.q = Quaterniond(Eigen::AngleAxisd(t, Vector3d::UnitZ()));
  s.w = {0, 0, 1};
  return s;
}

// ---- bodies ----

TEST(System, BeginsWithTheWorld) {
  const System system;
  EXPECT_EQ(system.body_count(), 1);
  EXPECT_EQ(system.constraint_count(), 0);
  EXPECT_EQ(system.name(ground), "world");
  EXPECT_EQ(system.kind(ground), BodyKind::fixed);
  EXPECT_EQ(system.dof(ground), 0);
  EXPECT_EQ(system.find_body("world"), ground);
  EXPECT_EQ(system.gravity(), zero);
}

TEST(System, KeepsBodiesAsTheyWereAdded) {
  System system;
  Random random(1);
  const Pose pose = random.pose();
  const Vector3d v = random.vector(), w = random.vector();
  const Matrix3d I = random.inertia();
  const BodyId bead = system.add_particle("bead", 2, pose.p, v), block = system.add_body("block", 3, I, pose, v, w),
               wall = system.add_fixed("wall", pose), hand = system.add_kinematic("hand", pose);
  EXPECT_EQ(system.dof(bead), 3);
  EXPECT_EQ(system.dof(block), 6);
  EXPECT_EQ(system.dof(wall) + system.dof(hand), 0);
  EXPECT_EQ(system.kind(hand), BodyKind::kinematic);
  EXPECT_EQ(system.mass(bead), 2);
  EXPECT_EQ(system.mass(wall), 0);
  EXPECT_LE((system.inertia(block) - I).norm(), 0);
  EXPECT_EQ(system.find_body("block"), block);
  EXPECT_EQ(system.find_body("nobody").index, -1);

  const State state = system.initial_state();
  ASSERT_EQ(state.bodies.size(), 5u);
  EXPECT_EQ(state.t, 0);
  EXPECT_EQ(state[bead].p, pose.p);
  EXPECT_EQ(state[bead].v, v);
  EXPECT_EQ(state[block].w, w);
  EXPECT_LE(state[block].q.angularDistance(pose.q), tol_rounding());
  EXPECT_LE(state[wall].q.angularDistance(pose.q), tol_rounding());
  EXPECT_EQ(state[wall].v, zero);
}

TEST(System, TakesInertiasOfEitherFormAndAsExpressions) {
  System system;
  const Matrix3d I = Vector3d(2, 4, 6).asDiagonal();
  const BodyId ids[] = {system.add_body("1", 1, I, {}), system.add_body("2", 1, Vector3d(2, 4, 6), {}),
                        system.add_body("3", 1, 2 * Vector3d(1, 2, 3), {}), system.add_body("4", 1, 0.5 * (I + I), {})};
  for (BodyId id : ids) EXPECT_EQ(system.inertia(id), I) << system.name(id);
}

TEST(System, RefusesMassesThatAreNone) {
  System system;
  expect_refused([&] { system.add_particle("bob", -1, zero); }, "body 'bob': mass must be positive and finite, got -1");
  expect_refused([&] { system.add_particle("bob", 0, zero); }, "got 0");
  expect_refused([&] { system.add_body("bob", nan, ones, {}); },
                 "body 'bob': mass must be positive and finite, got nan");
  expect_refused([&] { system.add_body("bob", INFINITY, ones, {}); }, "got inf");
  EXPECT_EQ(system.body_count(), 1) << "what was refused leaves nothing behind";
  EXPECT_EQ(system.find_body("bob").index, -1);
}

TEST(System, RefusesInertiasThatNoBodyHas) {
  System system;
  const auto add = [&](const Matrix3d& I) { return [&system, I] { system.add_body("bob", 1, I, {}); }; };
  Matrix3d skewed = Matrix3d::Identity();
  skewed(0, 1) = 0.1;
  expect_refused(add(skewed), "body 'bob': inertia must be symmetric");
  expect_refused(add(Vector3d(1, 1, 0).asDiagonal()), "positive definite, got the principal moments (0, 1, 1)");
  expect_refused(add(Vector3d(1, 1, -1).asDiagonal()), "positive definite");
  expect_refused(add(Vector3d(1, 1, 2.1).asDiagonal()),
                 "a principal moment of inertia exceeds the sum of the other two, which no body has: ");
  expect_refused(add(Vector3d(1, nan, 1).asDiagonal()), "body 'bob': inertia must be finite");
  EXPECT_NO_THROW(add(Vector3d(1, 1, 2).asDiagonal())()) << "a flat plate";
  // What a single-precision host computes for a turned plate.
  const Matrix3d R = Quaterniond(0.5, 0.5, -0.5, 0.5).toRotationMatrix();
  const Eigen::Matrix3f rounded = (R * Vector3d(0.1, 0.2, 0.3).asDiagonal() * R.transpose()).cast<float>();
  Matrix3d off = rounded.cast<double>();
  off(0, 1) += 1e-8;
  const BodyId plate = system.add_body("plate", 1, off, {});
  EXPECT_EQ(system.inertia(plate), system.inertia(plate).transpose()) << "kept symmetric to the last bit";
}

TEST(System, RefusesPosesThatAreNotFiniteOrNotTurns) {
  System system;
  expect_refused(
      [&] {
        system.add_particle("bob", 1, {0, nan, 0});
      },
      "body 'bob': position must be finite, got (0, nan, 0)");
  expect_refused([&] { system.add_particle("bob", 1, zero, {INFINITY, 0, 0}); }, "velocity must be finite");
  expect_refused(
      [&] {
        system.add_body("bob", 1, ones, {zero, Quaterniond(0, 0, 0, 2)});
      },
      "body 'bob': orientation must be a unit quaternion, its norm is 2");
  expect_refused([&] { system.add_fixed("bob", {zero, Quaterniond(0, 0, 0, 0)}); }, "unit quaternion");
  const BodyId b = system.add_fixed("b", {zero, Quaterniond(1 + 1e-8, 0, 0, 0)});
  EXPECT_EQ(system.initial_state()[b].q.norm(), 1) << "rounding of a host is taken off";
}

TEST(System, NamesAreTakenOnceAndGivenBack) {
  System system;
  const BodyId bob = system.add_particle("bob", 1, zero);
  expect_refused([&] { system.add_fixed("bob", {}); }, "body 'bob': this name is in use. Choose a different name");
  expect_refused([&] { system.add_fixed("world", {}); }, "this name is in use");
  expect_refused([&] { system.add_particle("", 1, zero); }, "a body needs a name");
  const ConstraintId c = system.add(joints::rod("bob", ground, zero, bob, zero, 1));  // not the same kind of thing
  expect_refused([&] { system.add(joints::rod("bob", ground, zero, bob, zero, 1)); },
                 "constraint 'bob': this name is in use");
  system.remove(c);
  EXPECT_EQ(system.find_constraint("bob").index, -1);
  EXPECT_NE(system.add(joints::rod("bob", ground, zero, bob, zero, 1)), c);
  system.remove(bob);
  EXPECT_NE(system.add_particle("bob", 1, zero), bob);
}

TEST(System, ABodyTakesAnotherName) {
  System system;
  const BodyId a = system.add_particle("a", 1, zero), b = system.add_particle("b", 1, zero);
  system.set_name(a, "bob");
  EXPECT_EQ(system.name(a), "bob");
  EXPECT_EQ(system.find_body("bob"), a);
  system.set_name(a, "bob");
  const BodyId c = system.add_particle("a", 1, zero);  // its old name is free
  EXPECT_EQ(system.find_body("a"), c);
  EXPECT_EQ(system.find_body("b"), b);
  expect_refused([&] { system.set_name(b, "bob"); }, "bob");
  expect_refused([&] { system.set_name(b, ""); }, "name");
  expect_refused([&] { system.set_name(ground, "earth"); }, "world");
  EXPECT_EQ(system.name(b), "b");
}

TEST(System, KnowsManyNamesAndNoneThatHasGone) {
  System system;
  const auto name = [](int i) { return "p" + std::to_string(i); };
  std::vector<BodyId> ids;
  for (int i = 0; i < 3000; ++i) ids.push_back(system.add_particle(name(i), 1, zero));
  for (int round = 0; round < 3; ++round)  // places that names have left are taken again
    for (int i = 0; i < 3000; i += 3) {
      system.remove(ids[static_cast<std::size_t>(i)]);
      ASSERT_EQ(system.find_body(name(i)).index, -1);
      ids[static_cast<std::size_t>(i)] = system.add_particle(name(i), 1, zero);
    }
  for (int i = 0; i < 3000; ++i) {
    ASSERT_EQ(system.find_body(name(i)), ids[static_cast<std::size_t>(i)]);
    ASSERT_EQ(system.name(ids[static_cast<std::size_t>(i)]), name(i));
  }
  EXPECT_EQ(system.find_body("p3000").index, -1);
}

TEST(System, ChangesMassUnderTheSameChecks) {
  System system;
  const BodyId bead = system.add_particle("bead", 1, zero), block = system.add_body("block", 1, ones, {}),
               wall = system.add_fixed("wall", {});
  system.set_mass(bead, 5, Matrix3d::Zero());
  EXPECT_EQ(system.mass(bead), 5);
  system.set_mass(block, 4, 2 * Matrix3d::Identity());
  EXPECT_EQ(system.inertia(block)(1, 1), 2);
  system.set_mass(block, 4, Vector3d(1, 1, 9).asDiagonal());  // no mass has this, hosts do
  EXPECT_EQ(system.inertia(block)(2, 2), 9);
  expect_refused([&] { system.set_mass(block, -4, Matrix3d::Identity()); }, "mass must be positive");
  expect_refused([&] { system.set_mass(block, 9, Matrix3d::Zero()); }, "positive definite");
  EXPECT_EQ(system.mass(block), 4) << "a refused change changes nothing";
  expect_refused([&] { system.set_mass(wall, 1, Matrix3d::Identity()); },
                 "body 'wall': only particles and rigid bodies");
}

TEST(System, RefusesIdsItNeverGave) {
  System system;
  expect_refused([&] { system.kind(BodyId{}); }, "no body has the index -1 (this system has 1)");
  expect_refused([&] { system.mass(BodyId{7}); }, "no body has the index 7");
  expect_refused([&] { system.enabled(ConstraintId{0}); }, "no constraint has the index 0");
  expect_refused([&] { system.set_gravity({0, nan, 0}); }, "gravity must be finite, got (0, nan, 0)");
}

TEST(System, EveryTryTwinReturnsTheErrorInsteadOfThrowing) {
  System system;
  const auto error_of = [](const auto& made) { return made.error().message; };
  const Result<BodyId> bead = system.try_add_particle("bead", 1, zero);
  ASSERT_TRUE(bead);
  EXPECT_EQ(*bead, system.find_body("bead"));
  EXPECT_EQ(bead.error().kind, ErrorKind::none);
  const Result<BodyId> bob = system.try_add_particle("bob", -1, zero);
  EXPECT_FALSE(bob);
  EXPECT_EQ(bob.error().kind, ErrorKind::argument);
  EXPECT_EQ(bob.error().message, "body 'bob': mass must be positive and finite, got -1");
  EXPECT_THROW((void)bob.value(), std::invalid_argument);
  EXPECT_NE(error_of(system.try_add_body("bob", 1, Matrix3d::Zero(), {})), "");
  EXPECT_NE(error_of(system.try_add_fixed("bead", {})), "");
  const auto thrown =
      system.try_add_kinematic("bob", {}, [](double) -> BodyState { throw std::runtime_error("no motion"); });
  EXPECT_EQ(thrown.error().message, "no motion");
  EXPECT_EQ(thrown.error().kind, ErrorKind::other);
  EXPECT_THROW((void)thrown.value(), std::runtime_error);
  EXPECT_NE(error_of(system.try_set_mass(ground, 1, Matrix3d::Identity())), "");
  const Result<ConstraintId> rod = system.try_add(joints::rod("rod", ground, zero, *bead, zero, 1));
  ASSERT_TRUE(rod);
  EXPECT_EQ(*rod, system.find_constraint("rod"));
  EXPECT_NE(error_of(system.try_add(joints::rod("rod", ground, zero, *bead, zero, 1))), "");
  EXPECT_TRUE(system.try_add(spring("s", ground, zero, *bead, zero, 1, 0)));
  EXPECT_EQ(error_of(system.try_add(spring("s", ground, zero, *bead, zero, 1, 0))),
            "force 's': this name is in use. Choose a different name");
}

TEST(Errors, AreOfTheKindOfTheException) {
  const auto kind_of = [](auto thrown) { return try_call([&] { throw thrown; }).error().kind; };
  EXPECT_EQ(kind_of(std::invalid_argument("")), ErrorKind::argument);
  EXPECT_EQ(kind_of(std::out_of_range("")), ErrorKind::argument);
  EXPECT_EQ(kind_of(OrderError("")), ErrorKind::order);
  EXPECT_EQ(kind_of(FileError("")), ErrorKind::file);
  EXPECT_EQ(kind_of(std::bad_alloc()), ErrorKind::other);
  EXPECT_EQ(kind_of(3), ErrorKind::other);
  EXPECT_TRUE(try_call([] {}));
  EXPECT_EQ(*try_call([] { return 3; }), 3);
  EXPECT_THROW((void)Result<int>(Error{ErrorKind::order, "too early"}).value(), OrderError);
  EXPECT_THROW((void)Result<int>(Error{ErrorKind::file, "not there"}).value(), FileError);
}

// ---- constraints ----

TEST(System, RefusesConstraintsThatCanDoNothing) {
  System system, other;
  const BodyId bob = system.add_particle("bob", 1, zero), wall = system.add_fixed("wall", {}),
               hand = system.add_kinematic("hand", {});
  expect_refused([&] { system.add(joints::ball("pin", wall, zero, hand, zero)); },
                 "constraint 'pin': none of its bodies ('wall', 'hand') can move");
  expect_refused([&] { other.add(joints::ball("pin", ground, zero, bob, zero)); },
                 "constraint 'pin': its body 1 is not in this system (index 1)");
  system.remove(bob);
  expect_refused([&] { system.add(joints::ball("pin", ground, zero, bob, zero)); },
                 "constraint 'pin': its body 'bob' has been removed");
  expect_refused([&] { system.add(spring("s", ground, zero, bob, zero, 1, 1)); },
                 "force 's': its body 'bob' has been removed");
}

TEST(System, EnablesDisablesAndRemovesConstraints) {
  System system;
  const BodyId bob = system.add_particle("bob", 1, zero);
  const ConstraintId one = system.add(joints::rod("one", ground, zero, bob, zero, 1)),
                     two = system.add(joints::rod("two", ground, zero, bob, zero, 2));
  EXPECT_TRUE(system.enabled(one));
  system.enable(one, false);
  EXPECT_FALSE(system.enabled(one));
  system.enable(one, true);
  system.remove(one);
  EXPECT_FALSE(system.enabled(one));
  EXPECT_TRUE(system.removed(one));
  EXPECT_EQ(system.constraint_count(), 2) << "ids of the others stay valid";
  EXPECT_EQ(system.name(two), "two");
  expect_refused([&] { system.enable(one, true); }, "constraint 'one': has been removed");
  EXPECT_NO_THROW(system.remove(one));
}

// A hand that grabs and lets go, for an hour.
TEST(System, PlacesOfRemovedThingsAreUsedAgainAndTheirIdsNameNobody) {
  System system;
  const BodyId bob = system.add_particle("bob", 1, zero);
  const BodyId first_body = system.add_particle("guest", 1, zero);
  system.add(joints::rod("hold", bob, zero, first_body, zero, 1));
  system.remove(first_body);
  BodyId last_body;
  ConstraintId last;
  for (int i = 0; i < 1000; ++i) {
    last_body = system.add_particle("guest", 2, Vector3d(1, 2, 3));
    last = system.add(joints::rod("hold", bob, zero, last_body, zero, 1));
    EXPECT_EQ(system.find_body("guest"), last_body);
    EXPECT_EQ(system.find_constraint("hold"), last);
    if (i < 999) system.remove(last_body);
  }
  EXPECT_LT(system.body_count(), 100);
  EXPECT_LT(system.constraint_count(), 100);
  BodyId stale;
  ConstraintId gone;
  for (unsigned version = 0; version < last_body.version; ++version) {
    EXPECT_TRUE(system.removed(BodyId{last_body.index, version}));
    EXPECT_EQ(system.kind(BodyId{last_body.index, version}), BodyKind::fixed);
    stale = {last_body.index, version};
  }
  for (unsigned version = 0; version < last.version; ++version) gone = {last.index, version};
  ASSERT_GT(last_body.version, 1u);
  ASSERT_GT(last.version, 1u);
  EXPECT_FALSE(system.removed(last_body));
  EXPECT_TRUE(system.removed(gone));
  EXPECT_FALSE(system.enabled(gone));
  expect_refused([&] { system.mass(stale); }, "has been removed, and another ");
  expect_refused([&] { system.name(gone); }, "has been removed, and another ");
  expect_refused([&] { system.enable(gone, true); }, "has been removed, and another ");
  expect_refused([&] { system.add(joints::rod("to a stale one", bob, zero, stale, zero, 1)); }, "has been removed");
  EXPECT_NO_THROW(system.remove(gone));
  EXPECT_NO_THROW(system.remove(stale));
  EXPECT_TRUE(system.enabled(last));
  EXPECT_EQ(system.kind(last_body), BodyKind::particle);
}

TEST(System, AStateMadeBeforeABodyTookTheirPlaceGetsItAsItWasAdded) {
  System system;
  const BodyId bob = system.add_particle("bob", 1, zero);
  State state = system.initial_state();
  state[bob].p = {7, 7, 7};
  BodyId guest;
  while (guest.version == 0) {
    if (guest.index >= 0) system.remove(guest);
    guest = system.add_particle("guest", 1, Vector3d(1, 2, 3));
    if (guest.version == 0) system.update_kinematic(state);
    if (guest.version == 0) state[guest].p = {9, 9, 9};
  }
  system.update_kinematic(state);
  EXPECT_EQ(state[bob].p, Vector3d(7, 7, 7));
  EXPECT_EQ(state[guest].p, Vector3d(1, 2, 3)) << "not where one before it was";
  state[guest].p = {4, 4, 4};
  system.update_kinematic(state);
  EXPECT_EQ(state[guest].p, Vector3d(4, 4, 4));
}

TEST(System, ARemovedBodyTakesItsConstraintsAndForcesAlong) {
  System system;
  const BodyId a = system.add_body("a", 1, ones, {}), b = system.add_body("b", 1, ones, {});
  const ConstraintId ab = system.add(joints::ball("ab", a, zero, b, zero)),
                     b0 = system.add(joints::ball("b0", b, zero, ground, zero));
  system.add(spring("sa", a, zero, ground, zero, 1, 1));
  system.add(spring("sb", b, zero, ground, zero, 1, 1));
  system.remove(a);
  EXPECT_TRUE(system.removed(a));
  EXPECT_TRUE(system.removed(ab));
  EXPECT_FALSE(system.removed(b0));
  EXPECT_EQ(system.kind(a), BodyKind::fixed);
  EXPECT_EQ(system.dof(b), 6);
  ASSERT_EQ(system.forces().size(), 1u);
  EXPECT_EQ(system.forces()[0].name(), "sb");
  expect_refused([&] { system.remove(ground); }, "body 'world': cannot be removed");
}

TEST(System, AResidualOnOneParticleActsAtTheParticle) {
  System system;
  const BodyId bead = system.add_particle("bead", 1, {1, 2, 3}), block = system.add_body("block", 1, ones, {});
  const auto phi = [](const auto& s) { return s[0].position() - s[1].position(); };
  const ConstraintId alone = system.add(holonomic("alone", {ground, bead}, phi)),
                     both = system.add(holonomic("both", {block, bead}, phi));
  const State state = system.initial_state();
  EXPECT_EQ(system.constraint(alone).application_point(0, state), Vector3d(1, 2, 3));
  EXPECT_EQ(system.constraint(alone).application_point(1, state), Vector3d(1, 2, 3));
  EXPECT_FALSE(system.constraint(both).has_application_points()) << "where it acts on the block nobody said";
}

// ---- states ----

TEST(System, DrivenBodiesFollowTheirMotion) {
  System system;
  const BodyId hand = system.add_kinematic("hand", {ones, {}}, moving),
               wall = system.add_fixed("wall", {ones, Quaterniond::Identity()}),
               held = system.add_kinematic("held", {ones, Quaterniond::Identity()});
  State state = system.initial_state();
  EXPECT_EQ(state[hand].p, zero) << "at motion(0), not at the pose given";
  EXPECT_EQ(state[hand].a, Vector3d(2, 0, 0));
  state.t = 3;
  state[wall].p = state[held].p = {7, 7, 7};
  state[wall].v = {7, 7, 7};
  system.update_kinematic(state);
  EXPECT_EQ(state[hand].p, Vector3d(9, 0, 0));
  EXPECT_EQ(state[hand].v, Vector3d(6, 0, 0));
  EXPECT_NEAR(state[hand].q.angularDistance(Quaterniond(Eigen::AngleAxisd(3, Vector3d::UnitZ()))), 0, tol_rounding());
  EXPECT_EQ(state[wall].p, ones);
  EXPECT_EQ(state[wall].v, zero);
  EXPECT_EQ(state[held].p, Vector3d(7, 7, 7)) << "the host moves it";
  expect_refused(
      [&] {
        system.add_kinematic("lost", {}, [](double) {
          BodyState s;
          s.v.x() = nan;
          return s;
        });
      },
      "body 'lost': velocity must be finite");
}

TEST(System, AStateGrowsWithTheBodiesAddedSince) {
  System system;
  State state = system.initial_state();
  const BodyId late = system.add_particle("late", 1, {1, 2, 3});
  system.update_kinematic(state);
  ASSERT_EQ(state.bodies.size(), 2u);
  EXPECT_EQ(state[late].p, Vector3d(1, 2, 3));
}

TEST(System, TurnsInertiaAndGyroscopicTorqueIntoTheWorld) {
  for (const std::uint64_t seed : seeds(20)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    System system;
    const Matrix3d I = random.inertia();
    const BodyId b = system.add_body("b", 1, I, {});
    const BodyState s = random.body_state();
    const Matrix3d J = s.R() * I * s.R().transpose();
    EXPECT_LE((system.world_inertia(b, s.q) - J).norm(), tol_rounding());
    EXPECT_LE((system.gyroscopic_torque(b, s) + s.w.cross(J * s.w)).norm(), tol_rounding());
    EXPECT_NEAR(system.gyroscopic_torque(b, s).dot(s.w), 0, tol_rounding()) << "does no work";
  }
}

// ---- the exponential map ----

TEST(Advance, IsTheExponentialMapForAnyAngle) {
  for (const std::uint64_t seed : seeds(100)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    const BodyState start = random.body_state();
    BodyState s = start;
    const Vector3d v = random.vector(3), axis = random.direction();
    const double angle = std::pow(10, random.uniform(-9, 1)), dt = random.uniform(0.01, 1);
    advance(s, v, angle / dt * axis, dt);
    EXPECT_LE((s.p - start.p - dt * v).norm(), tol_rounding());
    const Matrix3d expected = Eigen::AngleAxisd(angle, axis).toRotationMatrix() * start.R();
    EXPECT_LE((s.R() - expected).cwiseAbs().maxCoeff(), tol_rounding(angle));
    EXPECT_NEAR(s.q.norm(), 1, tol_rounding());
    EXPECT_EQ(s.v, start.v) << "a pose moves, velocities are the caller's";
  }
}

TEST(Advance, ASmallTurnKeepsAllItsDigits) {
  // At angle 1e-9 the vector part of the quaternion is half the angle to the last digits, whatever sin(h)/h does.
  for (double angle : {1e-3, 6e-3, 7e-3, 1e-6, 1e-9, 1e-15, 1e-200}) {
    BodyState s;
    advance(s, Vector3d::Zero(), {0, angle, 0}, 1);
    EXPECT_NEAR(s.q.y() / std::sin(angle / 2), 1, scaled(1e-15)) << angle;
  }
  BodyState s;
  advance(s, Vector3d::Zero(), Vector3d::Zero(), 1);
  EXPECT_EQ(s.q.coeffs(), Quaterniond::Identity().coeffs());
}

TEST(Advance, TwoHalvesAreTheWhole) {
  Random random(3);
  const BodyState start = random.body_state();
  BodyState whole = start, halves = start;
  advance(whole, start.v, start.w, 0.6);
  advance(halves, start.v, start.w, 0.3);
  advance(halves, start.v, start.w, 0.3);
  EXPECT_LE(whole.q.angularDistance(halves.q), tol_rounding());
  EXPECT_LE((whole.p - halves.p).norm(), tol_rounding());
}

}  // namespace
}  // namespace linchpin::test::system_test
