// Every stock joint against automatic differentiation of the same condition written as a lambda, and against central
// differences, over random poses, velocities and given accelerations of both bodies.
#include "support/allocation_counter.h"
#include "support/instants.h"
#include "support/linearized.h"
#include "support/random.h"

#include <linchpin/joints.h>
#include <linchpin/system.h>
#include <linchpin/world_joints.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <stdexcept>

namespace linchpin::test::joints_test {
namespace {

constexpr BodyId a{1}, b{2}, carrier{3};

// The two directions across u that rows are taken along (joints.h).
std::array<Vector3d, 2> across(const Vector3d& u_A) {
  const Vector3d u = u_A.normalized(), e = u.unitOrthogonal();
  return {e, u.cross(e)};
}

struct Parameters {
  Vector3d p_AQ, p_BQ, u_A, u_B;
  JointFrame frame_A, frame_B;
  double length, offset;

  explicit Parameters(Random& random)
      : p_AQ(random.vector()),
        p_BQ(random.vector()),
        u_A(3 * random.direction()),  // axes need not be unit
        u_B(0.2 * random.direction()),
        frame_A{random.vector(), random.rotation().toRotationMatrix()},
        frame_B{random.vector(), random.rotation().toRotationMatrix()},
        length(random.uniform(0.5, 2)),
        offset(random.uniform(-0.5, 0.5)) {}
};

struct Pair {
  Constraint joint, lambda;
  std::string units;  // of the rows: m, r
};

std::vector<Pair> pairs(const Parameters& x) {
  const auto point = [=](const auto& s) { return s[0].point(x.p_AQ) - s[1].point(x.p_BQ); };
  const auto e = across(x.u_A);
  const Vector3d u = x.u_A.normalized(), w = x.u_B.normalized();
  const auto along = [=](const auto& s) {
    return std::array{dot(s[0].axis(e[0]), s[1].axis(w)), dot(s[0].axis(e[1]), s[1].axis(w))};
  };
  const auto offset = [=](const auto& s, const Vector3d& axis) {
    return dot(s[0].axis(axis), s[1].point(x.p_BQ) - s[0].point(x.p_AQ));
  };
  const JointFrame F = x.frame_A, G = x.frame_B;
  const auto orientation = [=](const auto& s) {
    const auto row = [&](int i, int j) { return dot(s[0].axis(F.axes.col(i)), s[1].axis(G.axes.col(j))); };
    return std::array{row(0, 1), row(1, 2), row(2, 0)};
  };
  const auto origins = [=](const auto& s) { return s[1].point(G.origin) - s[0].point(F.origin); };
  const auto length = [=](const auto& s) {
    const auto d = point(s);
    return (dot(d, d) - x.length * x.length) / (2 * x.length);
  };
  const std::vector<BodyId> ab = {a, b};

  std::vector<Pair> all;
  const auto add = [&](Constraint joint, auto lambda, std::string units) {
    all.push_back({std::move(joint), holonomic("lambda", ab, lambda), std::move(units)});
  };
  add(joints::ball("ball", a, x.p_AQ, b, x.p_BQ), point, "mmm");
  add(
      joints::hinge("hinge", a, x.p_AQ, x.u_A, b, x.p_BQ, x.u_B),
      [=](const auto& s) { return rows(point(s), along(s)); }, "mmmrr");
  add(
      joints::slider("slider", a, F, b, G),
      [=](const auto& s) {
        const auto d = origins(s);
        return rows(dot(s[0].axis(F.axes.col(1)), d), dot(s[0].axis(F.axes.col(2)), d), orientation(s));
      },
      "mmrrr");
  add(
      joints::weld("weld", a, F, b, G), [=](const auto& s) { return rows(-origins(s), orientation(s)); }, "mmmrrr");
  add(
      joints::universal("universal", a, x.p_AQ, x.u_A, b, x.p_BQ, x.u_B),
      [=](const auto& s) { return rows(point(s), dot(s[0].axis(u), s[1].axis(w))); }, "mmmr");
  add(
      joints::cylindrical("cylindrical", a, x.p_AQ, x.u_A, b, x.p_BQ, x.u_B),
      [=](const auto& s) { return rows(offset(s, e[0]), offset(s, e[1]), along(s)); }, "mmrr");
  add(
      joints::planar("planar", a, x.p_AQ, x.u_A, b, x.p_BQ, x.u_B),
      [=](const auto& s) { return rows(offset(s, u), along(s)); }, "mrr");
  add(
      joints::point_on_line("line", a, x.p_AQ, x.u_A, b, x.p_BQ),
      [=](const auto& s) { return rows(offset(s, e[0]), offset(s, e[1])); }, "mm");
  add(
      joints::point_on_plane("plane", a, x.p_AQ, x.u_A, b, x.p_BQ), [=](const auto& s) { return offset(s, u); }, "m");
  add(joints::rod("rod", a, x.p_AQ, b, x.p_BQ, x.length), length, "m");
  add(joints::point_on_sphere("sphere", a, x.p_AQ, x.length, b, x.p_BQ), length, "m");
  add(
      joints::dot_row("dot", a, x.u_A, b, x.u_B, x.offset),
      [=](const auto& s) { return dot(s[0].axis(u), s[1].axis(w)) - x.offset; }, "r");
  add(
      joints::axis_row("axis", a, x.p_AQ, x.u_A, b, x.p_BQ, x.offset),
      [=](const auto& s) { return offset(s, u) - x.offset; }, "m");
  JointRows mixed;
  mixed.dots = {{x.u_A, x.u_B, x.offset}};
  mixed.points = {{x.p_AQ, x.p_BQ}, {x.p_BQ, x.p_AQ}};
  mixed.axes = {{x.u_A, x.p_AQ, x.p_BQ, x.offset}};
  add(
      joints::joint("general", a, b, mixed, x.p_AQ, x.p_BQ),
      [=](const auto& s) {
        return rows(point(s), s[0].point(x.p_BQ) - s[1].point(x.p_AQ), offset(s, u) - x.offset,
                    dot(s[0].axis(u), s[1].axis(w)) - x.offset);
      },
      "mmmmmmmr");
  return all;
}

std::vector<BodyState> bodies(Random& random, int count) {
  std::vector<BodyState> X;
  for (int k = 0; k < count; ++k) X.push_back(random.body_state(1, 2));
  return X;
}

std::string thrown(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "(nothing thrown)";
}

// ---- derivatives ----

TEST(Joints, HandDerivationsAreAutomaticDerivativesOfTheSameCondition) {
  for (const std::uint64_t seed : seeds(150)) {
    Random random(seed);
    const Parameters parameters(random);
    const auto X = bodies(random, 2);
    for (const Pair& pair : pairs(parameters)) {
      SCOPED_TRACE(pair.joint.name() + "; " + repeat_with(seed));
      ASSERT_EQ(pair.joint.function().rows(), pair.lambda.function().rows());
      // Rates of 2 squared, arms of 3: b is of size 50.
      expect_same(linearized(pair.joint.function(), X, 0), linearized(pair.lambda.function(), X, 0), tol_rounding(),
                  tol_rounding());
      EXPECT_LE(size_of(residual(pair.joint.function(), X, 0) - residual(pair.lambda.function(), X, 0)),
                tol_rounding(10));
    }
  }
}

TEST(Joints, HandDerivationsAreCentralDifferencesOfTheResidual) {
  for (const std::uint64_t seed : seeds(100)) {
    Random random(seed);
    const Parameters parameters(random);
    const auto X = bodies(random, 2);
    for (const Pair& pair : pairs(parameters)) {
      SCOPED_TRACE(pair.joint.name() + "; " + repeat_with(seed));
      expect_true_derivatives(pair.joint.function(), X, 0);
    }
  }
}

TEST(Joints, RowsSayWhatTheyAreMeasuredIn) {
  Random random(1);
  const Parameters parameters(random);
  for (const Pair& pair : pairs(parameters)) {
    std::string units;
    for (int i = 0; i < pair.joint.function().rows(); ++i)
      units += pair.joint.function().unit(i) == RowUnit::metre ? 'm' : 'r';
    EXPECT_EQ(units, pair.units) << pair.joint.name();
  }
}

TEST(Joints, TheRowsOfAHingeVanishExactlyWhereItIsClosed) {
  for (const std::uint64_t seed : seeds(20)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    const Parameters x(random);
    const Constraint c = joints::hinge("h", a, x.p_AQ, x.u_A, b, x.p_BQ, x.u_B);
    auto X = bodies(random, 2);
    // Turn b's axis onto a's, then by any angle about it; bring the points together.
    const Vector3d axis = X[0].q * x.u_A.normalized();
    X[1].q = Quaterniond(Eigen::AngleAxisd(random.uniform(-3, 3), axis)) * Quaterniond::FromTwoVectors(x.u_B, axis);
    X[1].p += X[0].point(x.p_AQ) - X[1].point(x.p_BQ);
    EXPECT_LE(size_of(residual(c.function(), X, 0)), tol_rounding());
    X[1].q = Quaterniond(Eigen::AngleAxisd(0.01, axis.unitOrthogonal())) * X[1].q;
    EXPECT_GE(size_of(residual(c.function(), X, 0)), 0.007);
  }
}

TEST(Joints, TheRowsOfAWeldAreIndependentWhereItIsClosed) {
  for (const std::uint64_t seed : seeds(20)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    const Parameters x(random);
    auto X = bodies(random, 2);
    X[1].q = Quaterniond(X[0].R() * x.frame_A.axes * x.frame_B.axes.transpose());
    X[1].p += X[0].point(x.frame_A.origin) - X[1].point(x.frame_B.origin);
    const Linearized l = linearized(joints::weld("w", a, x.frame_A, b, x.frame_B).function(), X, 0);
    EXPECT_LE(size_of(l.position), tol_rounding());
    EXPECT_GE(singular_values(l.A).minCoeff(), 0.3);
    const Linearized m = linearized(joints::slider("s", a, x.frame_A, b, x.frame_B).function(), X, 0);
    EXPECT_LE(size_of(m.position), tol_rounding());
    EXPECT_GE(singular_values(m.A).minCoeff(), 0.3);
  }
}

TEST(Joints, ALongRodKeepsTheDigitsOfItsGap) {
  const Constraint c = joints::rod("r", a, Vector3d::Zero(), b, Vector3d::Zero(), 1000);
  std::vector<BodyState> X(2);
  X[1].p.x() = 1000 + 1e-9;
  EXPECT_NEAR(residual(c.function(), X, 0)[0], 1e-9, 2e-13) << "one unit in the last place of 1000 is 1e-13";
}

TEST(Joints, MadeFromLambdasHaveTrueDerivatives) {
  for (const std::uint64_t seed : seeds(100)) {
    Random random(seed);
    const Parameters x(random);
    const Constraint all[] = {
        joints::rod("rod", a, x.p_AQ, b, x.p_BQ, [](auto t) { return 1.5 + 0.1 * sin(2.0 * t); }),
        joints::rod("constant", a, x.p_AQ, b, x.p_BQ, [](auto) { return 1.5; }),
        joints::point_on_surface(
            "bowl", a, [](auto p) { return p.z - square(p.x) - 2.0 * square(p.y) * cos(p.x); }, b, x.p_BQ),
        joints::point_on_curve(
            "helix", a, [](auto p) { return rows(p.x - cos(p.z), p.y - sin(p.z)); }, b, x.p_BQ),
        joints::prescribed_distance("ram", a, x.p_AQ, x.u_A, b, x.p_BQ, [](auto t) { return 0.3 * t * t; }),
        joints::prescribed_angle("motor", a, x.u_A, x.u_B, b, x.p_BQ, [](auto t) { return 2.0 * t + sin(t); }),
        joints::prescribed_angle("held", a, x.u_A, x.u_B, b, x.p_BQ, [](auto) { return 0.5; })};
    const auto X = bodies(random, 2);
    for (const Constraint& c : all) {
      SCOPED_TRACE(c.name() + "; " + repeat_with(seed));
      expect_true_derivatives(c.function(), X, random.uniform(0, 1));
    }
  }
}

TEST(Joints, AConstantLengthGivesTheSameRodEitherWay) {
  Random random(5);
  const Parameters x(random);
  const auto X = bodies(random, 2);
  const double length = x.length;
  expect_same(linearized(joints::rod("a", a, x.p_AQ, b, x.p_BQ, [=](auto) { return length; }).function(), X, 0),
              linearized(joints::rod("b", a, x.p_AQ, b, x.p_BQ, length).function(), X, 0), tol_rounding(),
              tol_rounding());
  EXPECT_EQ(joints::rod("whole number", a, x.p_AQ, b, x.p_BQ, 2).function().rows(), 1);
}

TEST(Joints, APrescribedAngleIsZeroAlongItsMotionOnly) {
  const Constraint c =
      joints::prescribed_angle("motor", ground, {0, 0, 2}, {1, 0, 0}, a, {0, 1, 0}, [](auto t) { return 3.0 * t; });
  for (double t : {0.0, 0.3, 1.1, 2.0}) {
    std::vector<BodyState> X(2);
    X[1].q = Eigen::AngleAxisd(3 * t - std::numbers::pi / 2, Vector3d::UnitZ());  // its y leads x by 3t
    EXPECT_NEAR(residual(c.function(), X, t)[0], 0, tol_rounding());
    X[1].q = Eigen::AngleAxisd(0.1, Vector3d::UnitZ()) * X[1].q;
    EXPECT_NEAR(residual(c.function(), X, t)[0], std::sin(0.1), tol_rounding());
  }
}

// ---- gears ----

// θ_a + ratio·θ_b as a lambda, with the frames in the carrier that `gear` would take at `first`.
Constraint gear_lambda(std::span<const BodyState> first, const Vector3d& u_A, const Vector3d& u_B, double ratio) {
  struct Turn {
    Vector3d arrow, x, y;
  };
  const auto turn = [&](int k, const Vector3d& axis) {
    const Matrix3d C = first[2].R().transpose() * first[static_cast<std::size_t>(k)].R();
    const Vector3d arrow = axis.normalized().unitOrthogonal();
    return Turn{arrow, C * arrow, C * axis.normalized().cross(arrow)};
  };
  const Turn A = turn(0, u_A), B = turn(1, u_B);
  return holonomic("lambda", {a, b, carrier}, [=](const auto& s) {
    const auto angle = [&](const auto& body, const Turn& of) {
      const auto arrow = body.axis(of.arrow);
      return atan2(dot(arrow, s[2].axis(of.y)), dot(arrow, s[2].axis(of.x)));
    };
    return angle(s[0], A) + ratio * angle(s[1], B);
  });
}

TEST(Gear, DerivativesAreThoseOfTheAngles) {
  for (const std::uint64_t seed : seeds(150)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    const Vector3d u_A = 2 * random.direction(), u_B = 0.3 * random.direction();
    const double ratio = random.uniform(0.5, 3) * (random.coin() ? 1 : -1);
    auto X = bodies(random, 3);
    const Constraint made = joints::gear("gear", a, u_A, b, u_B, ratio, carrier),
                     lambda = gear_lambda(X, u_A, u_B, ratio);
    EXPECT_NEAR(residual(made.function(), X, 0)[0], 0, tol_rounding());
    // Elsewhere, also with the wheels off their axes; below half a turn, where no unwrapping is needed.
    for (BodyState& s : X) advance(s, random.vector(), random.vector(0.5), 1);
    expect_same(linearized(made.function(), X, 0), linearized(lambda.function(), X, 0), tol_rounding(10),
                tol_rounding(10));
    expect_true_derivatives(made.function(), X, 0);
  }
}

TEST(Gear, OnFixedAxesIsTheSumOfTheRatesAndHasNoRightSide) {
  const Constraint c = joints::gear("gear", a, {0, 0, 1}, b, {0, 0, -1}, 2.5, carrier);
  std::vector<BodyState> X(3);
  X[0].w = {0, 0, 3}, X[1].w = {0, 0, 0.7}, X[2].w = {0, 0, 0.2};
  const Linearized l = linearized(c.function(), X, 0);
  EXPECT_NEAR(l.velocity[0], (3 - 0.2) + 2.5 * -(0.7 - 0.2), tol_rounding());
  EXPECT_NEAR(l.b[0], 0, tol_rounding());
  EXPECT_EQ(c.function().unit(0), RowUnit::radian);
}

TEST(Gear, CountsTurnsFromStepToStep) {
  Constraint c = joints::gear("gear", a, {0, 0, 1}, b, {0, 0, 1}, 0.5);
  std::vector<BodyState> X(3);
  EXPECT_NEAR(residual(c.function(), X, 0)[0], 0, tol_rounding());
  const double step = 2.5;  // under half a turn
  for (int i = 1; i <= 20; ++i) {
    advance(X[0], Vector3d::Zero(), {0, 0, step}, 1);
    EXPECT_NEAR(residual(c.function(), X, 0)[0], i * step, tol_rounding(100));
    EXPECT_NEAR(linearized(c.function(), X, 0).position[0], i * step, tol_rounding(100));
    c.function().accept(X, 0);
  }
  for (int i = 1; i <= 20; ++i) {
    advance(X[1], Vector3d::Zero(), {0, 0, -step}, 1);
    c.function().accept(X, 0);
  }
  EXPECT_NEAR(residual(c.function(), X, 0)[0], 20 * step - 0.5 * 20 * step, tol_rounding(100));
}

TEST(Gear, AnEvaluationThatIsNotAcceptedIsForgotten) {
  Constraint c = joints::gear("gear", a, {0, 0, 1}, b, {0, 0, 1}, 1);
  std::vector<BodyState> start(3), turned = start;
  residual(c.function(), start, 0);
  for (int i = 0; i < 3; ++i) {
    advance(turned[0], Vector3d::Zero(), {0, 0, 2}, 1);
    residual(c.function(), turned, 0);
  }
  EXPECT_NEAR(residual(c.function(), turned, 0)[0], std::remainder(6.0, 2 * std::numbers::pi), tol_rounding());
  EXPECT_NEAR(residual(c.function(), start, 0)[0], 0, tol_rounding());
}

TEST(Gear, ACopyKeepsItsOwnAngles) {
  Constraint first = joints::gear("gear", a, {0, 0, 1}, b, {0, 0, 1}, 0.5);
  const Constraint fresh = first;
  std::vector<BodyState> X(3);
  residual(first.function(), X, 0);
  const auto turn = [&](Constraint& c, int steps) {
    for (int i = 0; i < steps; ++i) {
      advance(X[0], Vector3d::Zero(), {0, 0, 2.5}, 1);
      c.function().accept(X, 0);
    }
  };
  turn(first, 4);
  Constraint later = first;
  EXPECT_EQ(later.function().internal_state(), first.function().internal_state());
  turn(later, 4);
  EXPECT_NEAR(residual(later.function(), X, 0)[0], 8 * 2.5, tol_rounding(100));
  EXPECT_NEAR(residual(first.function(), X, 0)[0], 10 + std::remainder(10.0, 2 * std::numbers::pi), tol_rounding(100))
      << "the copy has not advanced the original";
  EXPECT_NEAR(residual(fresh.function(), X, 0)[0], 0, tol_rounding()) << "a copy that was never evaluated begins here";

  later = fresh;
  EXPECT_EQ(later.function().internal_state(), fresh.function().internal_state());
  EXPECT_NE(&later.function(), &fresh.function());
}

// ---- where they act, memory, errors ----

TEST(Joints, ActAtTheirPointsOrWhereTheSlidingPointIs) {
  Random random(2);
  const Parameters x(random);
  State state;
  state.bodies = bodies(random, 3);
  const Constraint still = joints::ball("b", a, x.p_AQ, b, x.p_BQ);
  EXPECT_EQ(still.application_point(0, state), state[a].point(x.p_AQ));
  EXPECT_EQ(still.application_point(1, state), state[b].point(x.p_BQ));
  const Constraint sliding[] = {joints::point_on_line("l", a, x.p_AQ, x.u_A, b, x.p_BQ),
                                joints::point_on_plane("p", a, x.p_AQ, x.u_A, b, x.p_BQ),
                                joints::cylindrical("c", a, x.p_AQ, x.u_A, b, x.p_BQ, x.u_B),
                                joints::planar("f", a, x.p_AQ, x.u_A, b, x.p_BQ, x.u_B),
                                joints::point_on_surface(
                                    "s", a, [](auto p) { return p.x; }, b, x.p_BQ)};
  for (const Constraint& c : sliding)
    for (int k : {0, 1}) EXPECT_EQ(c.application_point(k, state), state[b].point(x.p_BQ)) << c.name();
}

TEST(Joints, EvaluationTakesNothingFromTheHeap) {
  Random random(1);
  const Parameters parameters(random);
  const auto X = bodies(random, 3);
  std::vector<Pair> all = pairs(parameters);
  std::array<double, 8 * 18> A;
  std::array<double, 8> r, position, velocity;
  const auto evaluate = [&](const Constraint& c) {
    const auto m = static_cast<std::size_t>(c.function().rows()), K = c.bodies().size();
    const std::span<const BodyState> of_c(X.data(), K);
    const AllocationCounter allocations;
    c.function().linearize(of_c, 0, {{A.data(), m * 6 * K}, {r.data(), m}, {position.data(), m}, {velocity.data(), m}});
    c.function().residual(of_c, 0, {r.data(), m});
    EXPECT_EQ(allocations.count(), 0u) << c.name();
  };
  for (const Pair& pair : all) evaluate(pair.joint);
  evaluate(joints::gear("gear", a, parameters.u_A, b, parameters.u_B, 2, carrier));
}

TEST(Joints, RefuseWhatCannotBeRightByName) {
  const Vector3d p = Vector3d::Zero(), u = Vector3d::UnitX(), bad(0, std::numeric_limits<double>::quiet_NaN(), 0);
  const auto expect = [](const std::function<void()>& call, const std::string& part) {
    const std::string message = thrown(call);
    EXPECT_NE(message.find(part), std::string::npos) << message << "\nexpected: " << part;
  };
  expect([&] { joints::hinge("gate", a, p, p, b, p, u); },
         "constraint 'gate': u_A must have a direction, got (0, 0, 0)");
  expect([&] { joints::hinge("gate", a, p, u, b, p, p); }, "constraint 'gate': u_B must have a direction");
  expect([&] { joints::ball("gate", a, p, b, bad); },
         "constraint 'gate': the anchor point p_BQ on the second body must be finite, got (0, nan, 0) m");
  const joints::PlacedBody here{a, {}}, there{b, {}}, lost{b, {bad, Quaterniond::Identity()}};
  expect([&] { joints::ball("gate", here, there, bad); },
         "constraint 'gate': the point must be finite, got (0, nan, 0) m");
  expect([&] { joints::rod("gate", here, p, there, bad); },
         "constraint 'gate': the point on the second body must be finite, got (0, nan, 0) m");
  expect([&] { joints::hinge("gate", here, lost, p, u); },
         "constraint 'gate': the position of the second body must be finite, got (0, nan, 0) m");
  expect([&] { joints::ball("gate", a, p, a, p); }, "constraint 'gate': names the same body twice");
  expect([&] { joints::rod("gate", a, p, b, p, 0.0); }, "constraint 'gate': length must be positive and finite, got 0");
  expect([&] { joints::point_on_sphere("gate", a, p, -1, b, p); },
         "constraint 'gate': radius must be positive and finite, got -1");
  expect([&] { joints::gear("gate", a, u, b, u, 0); }, "constraint 'gate': ratio must be finite and not 0, got 0");
  expect([&] { joints::gear("gate", a, u, ground, u, 1); }, "names the same body twice");
  expect([&] { joints::joint("gate", a, b, {}, p, p); }, "constraint 'gate': it has no rows");
  expect([&] { joints::axis_row("gate", a, p, u, b, p, INFINITY); }, "constraint 'gate': d0 must be finite, got inf");
  JointFrame mirrored;
  mirrored.axes(0, 0) = -1;
  expect([&] { joints::weld("gate", a, {}, b, mirrored); }, "constraint 'gate': frame_B: its axes must be a rotation");
  const auto still = [](auto) { return 0.0; };
  expect([&] { joints::prescribed_angle("gate", a, u, u, b, u, still); }, "perpendicular to u_A must have a direction");
  expect([&] { joints::prescribed_distance("gate", a, p, p, b, p, still); },
         "constraint 'gate': u_A must have a direction");
  expect(
      [&] {
        joints::point_on_surface(
            "gate", a, [](auto q) { return q.x; }, b, bad);
      },
      "constraint 'gate': the anchor point p_BQ on the second body must be finite");
}

}  // namespace
}  // namespace linchpin::test::joints_test
