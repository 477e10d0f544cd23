// Constraints made from lambdas: their A and b, what they refuse, and the derivative test itself.
#include "support/allocation_counter.h"
#include "support/linearized.h"
#include "support/random.h"

#include <linchpin/constraint.h>
#include <linchpin/system.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>

namespace linchpin::test::constraint_test {
namespace {

const std::vector<BodyId> two = {{1}, {2}}, three = {{1}, {2}, {3}};

// Bodies with velocities and given accelerations.
std::vector<BodyState> bodies(Random& random, int count, double speed = 1) {
  std::vector<BodyState> X;
  for (int k = 0; k < count; ++k) X.push_back(random.body_state(1, speed));
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

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// ---- holonomic ----

TEST(Holonomic, DerivativesAreThoseOfTheResidualAtAnyPose) {
  // Points, axes, the inverse map, explicit time and several kinds of functions in one residual.
  const Constraint c = holonomic("many", two, [](const auto& s) {
    const auto d = s[0].point(0.1, -0.2, 0.3) - s[1].point(-0.3, 0.2, 0.1);
    const auto seen = s[1].to_body(s[0].position());
    return rows(dot(d, d) - square(1.5 + 0.1 * sin(3.0 * s.t)),
                dot(s[0].axis(1, 2, 3), s[1].axis(0, 1, -1)) * exp(-s.t), seen, atan2(seen.y, 3.0 + seen.x));
  });
  ASSERT_EQ(c.function().rows(), 6);
  for (const std::uint64_t seed : seeds(100)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    const auto X = bodies(random, 2);
    expect_true_derivatives(c.function(), X, random.uniform(0, 2));
  }
}

TEST(Holonomic, ThreeBodiesShareOneResidual) {
  const Constraint c = holonomic("pulley", three, [](const auto& s) {
    const auto d = s[0].position() - s[1].point(0, 0, 0.5), e = s[2].point(0.2, 0, 0) - s[1].point(0, 0, 0.5);
    return norm(d) + 2.0 * norm(e) - 3.0 - 0.2 * s.t * s.t;
  });
  for (const std::uint64_t seed : seeds(100)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    auto X = bodies(random, 3);
    X[0].p += Vector3d(4, 0, 0), X[2].p -= Vector3d(4, 0, 0);  // away from zero length
    expect_true_derivatives(c.function(), X, 0.3);
  }
}

TEST(Holonomic, ABallJointGivesTheTextbookRows) {
  // By hand, so that a mistake shared by jets and differences would show: A = [I, −[r_A]×, −I, [r_B]×], and
  // b = −ω_A×(ω_A×r_A) + ω_B×(ω_B×r_B) less what the given accelerations contribute.
  const Vector3d p_AQ(0.1, 0.4, -0.3), p_BQ(-0.2, 0.5, 0.6);
  const Constraint c = holonomic("ball", two, [=](const auto& s) { return s[0].point(p_AQ) - s[1].point(p_BQ); });
  const auto cross_matrix = [](const Vector3d& r) {
    return Matrix3d{{0, -r.z(), r.y()}, {r.z(), 0, -r.x()}, {-r.y(), r.x(), 0}};
  };
  for (const std::uint64_t seed : seeds(100)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    const auto X = bodies(random, 2, 3);
    const BodyState &A = X[0], &B = X[1];
    const Vector3d rA = A.q * p_AQ, rB = B.q * p_BQ;
    Linearized hand;
    hand.A.resize(3, 12);
    hand.A << Matrix3d::Identity(), -cross_matrix(rA), -Matrix3d::Identity(), cross_matrix(rB);
    hand.b =
        -A.w.cross(A.w.cross(rA)) + B.w.cross(B.w.cross(rB)) - (A.a + A.alpha.cross(rA)) + (B.a + B.alpha.cross(rB));
    hand.position = A.point(p_AQ) - B.point(p_BQ);
    hand.velocity = A.velocity_of(p_AQ) - B.velocity_of(p_BQ);
    expect_same(linearized(c.function(), X, 0), hand, tol_rounding(), tol_rounding());
  }
}

TEST(Holonomic, ExplicitTimeGivesTheRheonomicTerms) {
  // φ = x − sin 3t: φ_t = −3 cos 3t, b = −φ_tt = −9 sin 3t.
  const Constraint c = holonomic("shaken", {{1}}, [](const auto& s) { return s[0].position().x - sin(3.0 * s.t); });
  BodyState s;
  s.v = {0.5, 0, 0};
  const double t = 0.4;
  const Linearized l = linearized(c.function(), std::vector{s}, t);
  EXPECT_NEAR(l.velocity[0], 0.5 - 3 * std::cos(3 * t), tol_rounding());
  EXPECT_NEAR(l.b[0], -9 * std::sin(3 * t), tol_rounding());
  EXPECT_NEAR(l.A(0, 0), 1, 0);
}

TEST(Holonomic, MixedDerivativesOfTimeAndPlaceAreThere) {
  // φ = x t: φ̈ = 2 v at v̇ = 0, so b = −2 v.
  const Constraint c = holonomic("mixed", {{1}}, [](const auto& s) { return s[0].position().x * s.t; });
  BodyState s;
  s.v = {0.7, 0, 0};
  EXPECT_NEAR(linearized(c.function(), std::vector{s}, 2).b[0], -1.4, tol_rounding());
}

TEST(Holonomic, RowsAreCountedFromWhatIsReturned) {
  const auto count = [](const Constraint& c) { return c.function().rows(); };
  EXPECT_EQ(count(holonomic("1", two, [](const auto& s) { return s[0].position().x; })), 1);
  EXPECT_EQ(count(holonomic("3", two, [](const auto& s) { return s[0].position(); })), 3);
  EXPECT_EQ(count(holonomic("2", two, [](const auto& s) { return std::array{s.t, s[0].position().x}; })), 2);
  EXPECT_EQ(count(holonomic("7", two, [](const auto& s) { return rows(s.t, s[0].position(), s[1].position()); })), 7);
}

TEST(Holonomic, RowsAreInTheirOwnUnitUnlessDeclared) {
  const auto phi = [](const auto& s) { return s[0].position().x; };
  EXPECT_EQ(holonomic("own", two, phi).function().unit(0), RowUnit::custom);
  EXPECT_EQ(holonomic("metre", two, phi, RowUnit::metre).function().unit(0), RowUnit::metre);
}

// ---- nonholonomic and acceleration ----

TEST(Nonholonomic, DerivativesAreThoseOfTheResidualLinearOrNot) {
  const Constraint c = nonholonomic("many", two, [](const auto& s) {
    const auto v = s[0].velocity(0.1, 0.2, -0.3) - s[1].velocity();
    return rows(dot(v, s[0].axis(0, 0, 1)),                                // a knife edge: linear
                dot(v, v) - square(2.0 + 0.3 * cos(s.t)),                  // a speed: nonlinear
                dot(s[0].omega(), s[1].axis(1, 0, 0)) * s[1].position().y  // rates of turn, and place
    );
  });
  for (const std::uint64_t seed : seeds(100)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    const auto X = bodies(random, 2);
    expect_true_derivatives(c.function(), X, random.uniform(0, 2));
  }
}

TEST(Nonholonomic, ARollingDiscGivesTheTextbookRow) {
  // v + ω × (−r n) = 0 for a ball on the plane: A = [I, r[n]×…], b = 0 since n is fixed and r constant.
  const double r = 0.3;
  const Constraint c = nonholonomic(
      "rolling", {{1}}, [=](const auto& s) { return s[0].velocity() + cross(s[0].omega(), Vector3d(0, 0, -r)); });
  Random random(3);
  auto X = bodies(random, 1);
  X[0].a.setZero(), X[0].alpha.setZero();
  const Linearized l = linearized(c.function(), X, 0);
  const Eigen::MatrixXd angular{{0, -r, 0}, {r, 0, 0}, {0, 0, 0}};
  EXPECT_LE(size_of(l.A.leftCols(3) - Matrix3d::Identity()), 0);
  EXPECT_LE(size_of(l.A.rightCols(3) - angular), tol_rounding());
  EXPECT_LE(size_of(l.b), tol_rounding());
  EXPECT_LE(size_of(l.position), 0) << "a velocity row has no position residual";
}

TEST(OnAcceleration, DerivativesAndRightSideAreThoseOfALinearCondition) {
  const Constraint c = on_acceleration("many", two, [](const auto& s) {
    const auto relative = s[0].acceleration(0.2, 0.1, 0) - s[1].acceleration();
    return rows(dot(relative, s[0].axis(0, 1, 0)) - 3.0 * sin(s.t),
                dot(s[1].alpha(), s[0].velocity()) + s[0].position().x);
  });
  EXPECT_EQ(c.function().level(), Level::acceleration);
  for (const std::uint64_t seed : seeds(100)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    const auto X = bodies(random, 2);
    const double t = random.uniform(0, 2);
    expect_true_derivatives(c.function(), X, t);
    // A v̇ − b at any v̇ is the residual there.
    auto free = X;
    for (BodyState& s : free) s.a.setZero(), s.alpha.setZero();
    const Linearized l = linearized(c.function(), free, t);
    Eigen::VectorXd vdot(12);
    vdot << X[0].a, X[0].alpha, X[1].a, X[1].alpha;
    EXPECT_LE(size_of(l.A * vdot - l.b - residual(c.function(), X, t)), tol_rounding(10));
  }
}

TEST(Levels, AHolonomicConditionAndItsDerivativesSayTheSame) {
  // φ = |p|² − 1, ψ = φ̇ and α = φ̈ have the same A v̇ = b, up to the factor of A.
  const Constraint phi = holonomic("phi", {{1}}, [](const auto& s) { return dot(s[0].position(), s[0].position()); });
  const Constraint psi =
      nonholonomic("psi", {{1}}, [](const auto& s) { return 2.0 * dot(s[0].position(), s[0].velocity()); });
  const Constraint alpha = on_acceleration("alpha", {{1}}, [](const auto& s) {
    return 2.0 * dot(s[0].velocity(), s[0].velocity()) + 2.0 * dot(s[0].position(), s[0].acceleration());
  });
  for (const std::uint64_t seed : seeds(20)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    const auto X = bodies(random, 1);
    const Linearized p = linearized(phi.function(), X, 0), v = linearized(psi.function(), X, 0),
                     a = linearized(alpha.function(), X, 0);
    EXPECT_LE(size_of(p.A - v.A) + size_of(p.A - a.A), tol_rounding());
    EXPECT_LE(size_of(p.b - v.b) + size_of(p.b - a.b), tol_rounding(10));
    EXPECT_LE(size_of(p.velocity - v.velocity), tol_rounding());
  }
}

TEST(Constraint, EvaluationTakesNothingFromTheHeap) {
  const Constraint all[] = {
      holonomic("h", three,
                [](const auto& s) {
                  return rows(s[0].point(1, 2, 3) - s[1].position(), dot(s[2].axis(1, 0, 0), s[0].axis(0, 1, 0)));
                }),
      nonholonomic("n", three, [](const auto& s) { return s[0].velocity(1, 0, 0) - s[2].velocity(); }),
      on_acceleration("a", three, [](const auto& s) { return s[0].acceleration(1, 0, 0) - s[2].acceleration(); })};
  Random random(1);
  const auto X = bodies(random, 3);
  std::array<double, 4 * 18> A;
  std::array<double, 4> b, position, velocity;
  for (const Constraint& c : all) {
    const auto m = static_cast<std::size_t>(c.function().rows());
    const auto of = [&](auto& x, std::size_t n) { return std::span<double>(x.data(), n); };
    const AllocationCounter allocations;
    c.function().linearize(X, 0.5, {of(A, m * 18), of(b, m), of(position, m), of(velocity, m)});
    c.function().residual(X, 0.5, of(b, m));
    EXPECT_EQ(allocations.count(), 0u) << c.name();
  }
  const AllocationCounter allocations;
  int* volatile seen = new int;  // the counter itself counts; volatile, or the pair may be optimised away
  delete seen;
  EXPECT_GE(allocations.count(), 1u);
}

// ---- copies ----

// |p|² = n², where n grows by one with every accepted step.
class Counting final : public ConstraintFunction {
 public:
  std::unique_ptr<ConstraintFunction> clone() const override { return std::make_unique<Counting>(*this); }
  int rows() const override { return 1; }
  int bodies() const override { return 1; }
  Level level() const override { return Level::position; }
  RowUnit unit(int) const override { return RowUnit::custom; }
  void residual(std::span<const BodyState> X, double, std::span<double> out) const override {
    out[0] = X[0].p.squaredNorm() - n_ * n_;
  }
  void linearize(std::span<const BodyState> X, double, Linearization out) const override {
    for (std::size_t j = 0; j < 6; ++j) out.A[j] = j < 3 ? 2 * X[0].p[static_cast<Eigen::Index>(j)] : 0;
    out.position[0] = X[0].p.squaredNorm() - n_ * n_;
    out.velocity[0] = 2 * X[0].p.dot(X[0].v);
    out.b[0] = -2 * X[0].v.squaredNorm() - 2 * X[0].p.dot(X[0].a);
  }
  void accept(std::span<const BodyState>, double) override { n_ += 1; }

 private:
  double n_ = 0;
};

TEST(Constraint, CopiesShareNothing) {
  Constraint first("count", {BodyId{1}}, std::make_unique<Counting>());
  const std::vector<BodyState> X(1);
  first.function().accept(X, 0);
  Constraint second = first, moved = first.between({BodyId{2}});
  second.function().accept(X, 0);
  EXPECT_EQ(residual(first.function(), X, 0)[0], -1);
  EXPECT_EQ(residual(second.function(), X, 0)[0], -4) << "a copy has the state of the original and goes on by itself";
  moved.function().accept(X, 0);
  moved.function().accept(X, 0);
  EXPECT_EQ(residual(moved.function(), X, 0)[0], -9);
  EXPECT_EQ(residual(first.function(), X, 0)[0], -1);
  EXPECT_EQ(moved.bodies()[0], BodyId{2});

  second = first;
  EXPECT_EQ(residual(second.function(), X, 0)[0], -1);
  const ConstraintFunction* const function = &second.function();
  const Constraint taken = std::move(second);
  EXPECT_EQ(&taken.function(), function) << "a move takes the function itself";
}

TEST(Constraint, AddedToTwoSystemsDoesNotJoinThem) {
  Constraint c("count", {BodyId{1}}, std::make_unique<Counting>());
  System systems[2];
  ConstraintId id[2];
  for (int i = 0; i < 2; ++i) {
    systems[i].add_particle("p", 1, {1, 0, 0});
    id[i] = systems[i].add(c);
  }
  const std::vector<BodyState> X(1);
  systems[0].constraint(id[0]).function().accept(X, 0);
  EXPECT_EQ(residual(systems[0].constraint(id[0]).function(), X, 0)[0], -1);
  EXPECT_EQ(residual(systems[1].constraint(id[1]).function(), X, 0)[0], 0);
  EXPECT_EQ(residual(c.function(), X, 0)[0], 0);
}

TEST(Constraint, ALambdaIsCopiedWithWhatItCaptures) {
  double shared = 1;
  const Constraint first =
      holonomic("x", {{1}}, [own = 2.0, &shared](const auto& s) { return s[0].position().x - own * shared; });
  Constraint second = first;
  const std::vector<BodyState> X(1);
  EXPECT_NE(&first.function(), &second.function());
  EXPECT_EQ(residual(second.function(), X, 0)[0], -2);
  shared = 3;  // by reference: one object for all copies
  EXPECT_EQ(residual(first.function(), X, 0)[0], -6);
  EXPECT_EQ(residual(second.function(), X, 0)[0], -6);
}

// ---- what is refused ----

TEST(Constraint, RefusesWhatCannotBeRightByName) {
  const auto phi = [](const auto& s) { return s[0].position(); };
  EXPECT_EQ(thrown([&] { holonomic("", two, phi); }), "a constraint needs a name");
  EXPECT_EQ(thrown([&] { holonomic("x", {}, phi); }), "constraint 'x': it names no body");
  EXPECT_TRUE(contains(thrown([&] {
                         holonomic("x", {{1}, {2}, {1}}, phi);
                       }),
                       "constraint 'x': names the same body twice"));
  EXPECT_TRUE(contains(thrown([&] { holonomic("x", {BodyId{}}, phi); }),
                       "constraint 'x': its body 0 has the index -1, which is not a body"));
  EXPECT_TRUE(contains(thrown([] { Constraint("x", two, nullptr); }), "no function"));
  using Function = detail::HolonomicFunction<std::remove_const_t<decltype(phi)>>;
  EXPECT_TRUE(contains(thrown([&] { Constraint("x", three, std::make_unique<Function>(phi, 2u, RowUnit::custom)); }),
                       "its function needs 2 bodies, but 3 were given"));
}

TEST(Constraint, ReadingABodyThatIsNotNamedIsAnErrorNotACrash) {
  const Constraint c = holonomic("x", two, [](const auto& s) { return s[2].position(); });
  Random random(1);
  const auto X = bodies(random, 2);
  EXPECT_EQ(thrown([&] { residual(c.function(), X, 0); }),
            "the residual reads s[2], but its constraint has 2 bodies (s[0] and s[1]). Name all bodies that it reads");
}

TEST(Constraint, ActsWhereItIsDeclared) {
  Constraint c = holonomic("x", two, [](const auto& s) { return s[0].position(); });
  EXPECT_FALSE(c.has_application_points());
  EXPECT_EQ(c.point(1), Vector3d(0, 0, 0));
  EXPECT_TRUE(contains(thrown([&] { c.set_sliding_body(1); }), "Call set_application_points() first"));
  EXPECT_TRUE(contains(thrown([&] { c.set_application_points({Vector3d::Zero()}); }), "each of the 2 bodies, got 1"));
  EXPECT_TRUE(contains(thrown([&] { c.set_application_points({Vector3d::Zero(), Vector3d(0, NAN, 0)}); }), "finite"));
  c.set_application_points({{1, 0, 0}, {0, 2, 0}});
  State state;
  Random random(4);
  state.bodies = bodies(random, 3);
  EXPECT_EQ(c.application_point(0, state), state[BodyId{1}].point({1, 0, 0}));
  EXPECT_EQ(c.application_point(1, state), state[BodyId{2}].point({0, 2, 0}));
  c.set_sliding_body(1);
  EXPECT_EQ(c.application_point(0, state), state[BodyId{2}].point({0, 2, 0}));
  EXPECT_TRUE(contains(thrown([&] { c.set_sliding_body(2); }), "it has 2 bodies"));
}

// ---- check_constraint ----

class CheckConstraint : public ::testing::Test {
 protected:
  CheckConstraint() {
    Random random(7);
    a = random.add_body(system, "a");
    b = random.add_body(system, "b");
    bead = system.add_particle("bead", 1, {1, 2, 3});
    wall = system.add_fixed("wall", {});
    hand = system.add_kinematic("hand", {}, [](double t) {
      BodyState s;
      s.p.x() = std::sin(t), s.v.x() = std::cos(t), s.a.x() = -std::sin(t);
      return s;
    });
    state = system.initial_state();
  }
  ConstraintCheck check(const Constraint& c) { return check_constraint(system, c, state); }

  System system;
  BodyId a, b, bead, wall, hand;
  State state;
};

TEST_F(CheckConstraint, NamesTheBodyThatIsNotFiniteAndNotTheResidual) {
  const Constraint rod =
      holonomic("rod", {wall, b}, [](const auto& s) { return norm(s[0].position() - s[1].position()) - 1.0; });
  state[b].p = {0, std::numeric_limits<double>::quiet_NaN(), 2};
  const ConstraintCheck found = check(rod);
  EXPECT_FALSE(found.finite);
  EXPECT_EQ(
      found.message,
      "constraint 'rod': the position of body 1 ('b') is (0, nan, 2) m, which is not finite. Give the body a finite "
      "position");
  state = system.initial_state();
  state[b].w.x() = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(contains(check(rod).message, "the angular velocity of body 1 ('b') is (inf, ")) << check(rod).message;
}

// A sphere about the origin, |p|² = 1, with a mistake of the tester's choice.
class Mistaken : public ConstraintFunction {
 public:
  enum Mistake { none, in_A, in_b, in_velocity, in_position };
  explicit Mistaken(Mistake mistake) : mistake_(mistake) {}
  std::unique_ptr<ConstraintFunction> clone() const override { return std::make_unique<Mistaken>(*this); }
  int rows() const override { return 1; }
  int bodies() const override { return 1; }
  Level level() const override { return Level::position; }
  RowUnit unit(int) const override { return RowUnit::custom; }
  void residual(std::span<const BodyState> X, double, std::span<double> out) const override {
    out[0] = X[0].p.squaredNorm() - 1;
  }
  void linearize(std::span<const BodyState> X, double, Linearization out) const override {
    for (std::size_t j = 0; j < 6; ++j) out.A[j] = j < 3 ? 2 * X[0].p[static_cast<Eigen::Index>(j)] : 0;
    out.position[0] = X[0].p.squaredNorm() - 1;
    out.velocity[0] = 2 * X[0].p.dot(X[0].v);
    out.b[0] = -2 * X[0].v.squaredNorm() - 2 * X[0].p.dot(X[0].a);
    if (mistake_ == in_A) out.A[1] *= 1.001;
    if (mistake_ == in_b) out.b[0] *= 1.01;
    if (mistake_ == in_velocity) out.velocity[0] *= 1.01;
    if (mistake_ == in_position) out.position[0] += 0.01;
  }

 private:
  Mistake mistake_;
};

TEST_F(CheckConstraint, PassesGoodResidualsOfEveryLevel) {
  const Constraint good[] = {
      holonomic("h", {a, bead},
                [](const auto& s) {
                  auto d = s[0].point(0, 1, 0) - s[1].position();
                  return dot(d, d) - square(1.0 + s.t);
                }),
      holonomic("driven", {hand, a}, [](const auto& s) { return s[0].point(0, 1, 0) - s[1].position(); }),
      nonholonomic("n", {a, wall}, [](const auto& s) { return dot(s[0].velocity(), s[0].axis(0, 0, 1)) - sin(s.t); }),
      on_acceleration("a", {b}, [](const auto& s) { return dot(s[0].acceleration(), s[0].velocity()) - 1.0; }),
      Constraint("by hand", {a}, std::make_unique<Mistaken>(Mistaken::none))};
  for (const Constraint& c : good) {
    const ConstraintCheck found = check(c);
    EXPECT_TRUE(found.ok()) << found.message;
    EXPECT_LE(found.error_A, tol_difference()) << c.name();
    EXPECT_LE(found.error_b, tol_second_difference()) << c.name();
    EXPECT_LE(found.error_velocity, tol_second_difference()) << c.name();
  }
}

TEST_F(CheckConstraint, FindsEachMistakeOfAHandDerivation) {
  const auto message = [&](Mistaken::Mistake mistake) {
    return check(Constraint("sphere", {a}, std::make_unique<Mistaken>(mistake))).message;
  };
  EXPECT_TRUE(
      contains(message(Mistaken::in_A), "constraint 'sphere', row 0, body 'a': the derivative (matrix A) differs"));
  EXPECT_TRUE(
      contains(message(Mistaken::in_b), "constraint 'sphere', row 0: the second derivative (vector b) differs"));
  EXPECT_TRUE(contains(message(Mistaken::in_velocity), "the velocity residual differs"));
  EXPECT_TRUE(contains(message(Mistaken::in_position), "linearize() and residual() return different values"));
}

TEST_F(CheckConstraint, FindsAWrongRightSideEvenAtRest) {
  for (BodyState& s : state.bodies) s.v.setZero(), s.w.setZero();
  const ConstraintCheck found = check(Constraint("sphere", {a}, std::make_unique<Mistaken>(Mistaken::in_b)));
  EXPECT_TRUE(contains(found.message, "the second derivative (vector b) differs")) << found.message;
  EXPECT_EQ(found.velocity, 0) << "the residual reported is that of the state";
}

TEST_F(CheckConstraint, PointsOutASquareRootOfZero) {
  state[bead].p.setZero();
  const ConstraintCheck found =
      check(holonomic("rod", {bead, wall}, [](const auto& s) { return norm(s[0].position() - s[1].position()); }));
  EXPECT_FALSE(found.finite);
  EXPECT_EQ(found.row, 0);
  EXPECT_TRUE(contains(found.message, "dot(d, d) = l²")) << found.message;
}

TEST_F(CheckConstraint, PointsOutAKink) {
  state[bead].p = {0, 1, 0};
  const ConstraintCheck found = check(holonomic("kink", {bead}, [](const auto& s) { return abs(s[0].position().x); }));
  EXPECT_TRUE(contains(found.message, "body 'bead': the derivative (matrix A) differs")) << found.message;
}

TEST_F(CheckConstraint, RefusesBodiesThatCannotMoveAndBodiesNotThere) {
  const auto phi = [](const auto& s) { return s[0].position(); };
  EXPECT_TRUE(
      contains(check(holonomic("x", {wall, hand}, phi)).message, "none of its bodies ('wall', 'hand') can move"));
  EXPECT_TRUE(contains(check(holonomic("x", {a, {99}}, phi)).message, "body 99 is not in the system"));
}

TEST_F(CheckConstraint, CatchesWhatAResidualThrows) {
  const auto phi = [](const auto& s) {
    if (s.t > -1.0) throw std::runtime_error("out of range");
    return s[0].position();
  };
  EXPECT_TRUE(contains(check(holonomic("x", {a}, phi)).message, "constraint 'x': its function threw: out of range"));
}

TEST_F(CheckConstraint, DoesNotAskHowAParticleTurns) {
  // A point of a particle off its centre has no meaning; its columns are not used and so not judged.
  class Careless final : public Mistaken {
   public:
    Careless() : Mistaken(none) {}
    std::unique_ptr<ConstraintFunction> clone() const override { return std::make_unique<Careless>(*this); }
    void linearize(std::span<const BodyState> X, double t, Linearization out) const override {
      Mistaken::linearize(X, t, out);
      out.A[4] = std::numeric_limits<double>::quiet_NaN();
    }
  };
  EXPECT_TRUE(check(Constraint("x", {bead}, std::make_unique<Careless>())).ok());
  EXPECT_FALSE(check(Constraint("x", {a}, std::make_unique<Careless>())).ok());
}

TEST_F(CheckConstraint, ReportsTheResidualsOfTheState) {
  const ConstraintCheck found =
      check(holonomic("x", {bead}, [](const auto& s) { return s[0].position().z - 2.5 * s.t - 2.0; }));
  EXPECT_NEAR(found.residual, 1, tol_rounding());
  EXPECT_NEAR(found.velocity, 2.5, tol_rounding());
}

}  // namespace
}  // namespace linchpin::test::constraint_test
