// The equation at a state: laws and what they see, contradictory rows and rows that are merely a step off, another
// force with the same factor, blocks of a system, and one step on a host's terms.
#include "allocation_counter.h"
#include "random.h"
#include "tolerances.h"

#include <linchpin/constraint.h>
#include <linchpin/forces.h>
#include <linchpin/joints.h>
#include <linchpin/projection.h>
#include <linchpin/stepper.h>

#include <gtest/gtest.h>

#include <numbers>
#include <stdexcept>

namespace linchpin::test::dynamics_test {
namespace {

constexpr double pi = std::numbers::pi;

Vector3d part(std::span<const double> x, std::size_t from) { return {x[from], x[from + 1], x[from + 2]}; }

std::vector<Reaction> reactions_of(const Dynamics& dynamics, const State& state) {
  std::vector<Reaction> all;
  dynamics.reactions(state, all);
  return all;
}

/// A block that slides along x of a body that moves freely itself, away from where the rail was declared.
struct BlockOnRail {
  System system;
  BodyId carrier, block;
  ConstraintId rail;
  State state;
  BlockOnRail() {
    system.set_gravity({0, 0, -9.81});
    const Quaterniond q(Eigen::AngleAxisd(0.4, Vector3d(1, 2, -1).normalized()));
    carrier =
        system.add_body("carrier", 5, Vector3d(1, 1.5, 2), {{0.1, 0.2, 0.3}, q}, {0.3, -0.1, 0.2}, {0.5, 1.1, -0.7});
    const Vector3d at(0.8, 0.3, 0.2);  // in the carrier
    const Vector3d arm = q * at;
    const Vector3d w(0.5, 1.1, -0.7), v = Vector3d(0.3, -0.1, 0.2) + w.cross(arm) + q * Vector3d(1.4, 0, 0);
    block = system.add_body("block", 2, Vector3d(0.1, 0.2, 0.15), {Vector3d(0.1, 0.2, 0.3) + arm, q}, v, w);
    rail = system.add(joints::slider("rail", carrier, {.origin = {-0.2, 0.3, 0.2}, .axes = Matrix3d::Identity()}, block,
                                     {.origin = Vector3d::Zero(), .axes = Matrix3d::Identity()}));
    state = system.initial_state();
  }
};

TEST(Laws, SeeTheIdealReactionAndTheSlipWhereTheConstraintActs) {
  BlockOnRail s;
  ConstraintReaction seen;
  int calls = 0;
  add_law(s.system, s.rail, Law([&](const ConstraintReaction& n) -> Vector3d {
                              seen = n;
                              ++calls;
                              return Vector3d::Zero();
                            }).with_normal_force(NormalForce::frictionless));
  Dynamics dynamics(s.system);
  ASSERT_EQ(dynamics.evaluate(s.state), Status::ok);
  EXPECT_EQ(calls, 1);
  const BodyState &carrier = s.state[s.carrier], &block = s.state[s.block];
  EXPECT_NEAR((seen.point - block.p).norm(), 0, tol_rounding());  // where the block is, not where the rail begins
  EXPECT_NEAR((seen.normal + part(dynamics.ideal(), 6)).norm(), 0, tol_rounding(100));
  EXPECT_NEAR(seen.moment.norm(), (reactions_of(dynamics, s.state)[0].ideal.on_a.moment).norm(), tol_rounding(100));
  // Minus the sliding, seen from the carrier: the block's spin and the carrier's turning do not enter.
  const Vector3d sliding = -(carrier.q * Vector3d(1.4, 0, 0));
  const Vector3d n = seen.normal.normalized();
  EXPECT_NEAR((seen.slip_velocity - (sliding - n * n.dot(sliding))).norm(), 0, tol_rounding());
  EXPECT_EQ(seen.first->p, carrier.p);
  EXPECT_EQ(seen.second->p, block.p);
  EXPECT_NEAR(seen.magnitude(), seen.normal.norm(), 0);
}

TEST(Laws, ActOnBothBodiesAndMakeNoMomentum) {
  BlockOnRail s;
  Dynamics dynamics(s.system);
  ASSERT_EQ(dynamics.evaluate(s.state), Status::ok);
  const std::vector<double> without(dynamics.vdot().begin(), dynamics.vdot().end());
  add_law(s.system, s.rail, laws::coulomb(0.3));
  add_law(s.system, s.rail, laws::viscous(0.7));
  ASSERT_EQ(dynamics.evaluate(s.state), Status::ok);
  const Reaction r = reactions_of(dynamics, s.state)[0];
  EXPECT_GT(r.prescribed.on_a.force.norm(), 0.1);
  for (const Wrenches* w : {static_cast<const Wrenches*>(&r), &r.ideal, &r.prescribed, &r.induced}) {
    EXPECT_NEAR((w->on_a.force + w->on_b.force).norm(), 0, tol_rounding(100));
    EXPECT_NEAR((w->on_a.about(Vector3d::Zero()).moment + w->on_b.about(Vector3d::Zero()).moment).norm(), 0,
                tol_rounding(100));
  }
  // Q^W = prescribed + induced, on each body.
  EXPECT_NEAR((part(dynamics.nonideal(), 0) - r.prescribed.on_a.force - r.induced.on_a.force).norm(), 0,
              tol_rounding(100));
  // It brakes: the power of Q^W is that of the prescribed force, since A v = 0 (T5).
  double power = 0;
  for (std::size_t j = 0; j < 12; ++j) power += dynamics.nonideal()[j] * dynamics.assembly().v[j];
  const BodyState &carrier = s.state[s.carrier], &block = s.state[s.block];
  const Vector3d at = r.prescribed.on_b.point;
  const Vector3d relative = carrier.v + carrier.w.cross(at - carrier.p) - block.v - block.w.cross(at - block.p);
  EXPECT_NEAR(power, r.prescribed.on_a.force.dot(relative), tol_rounding(10));
  EXPECT_LT(power, -0.1);
  EXPECT_NEAR(r.power, power, tol_rounding(10));  // the ideal part has none
  // Taking the laws away gives the old answer.
  clear_laws(s.system, s.rail);
  ASSERT_EQ(dynamics.evaluate(s.state), Status::ok);
  for (std::size_t j = 0; j < 12; ++j) EXPECT_EQ(dynamics.vdot()[j], without[j]);
}

TEST(Laws, ThatThrowOrReturnNonsenseAreNamed) {
  BlockOnRail s;
  Dynamics dynamics(s.system);
  add_law(s.system, s.rail, [](const ConstraintReaction&) -> Vector3d { throw std::runtime_error("no oil"); });
  EXPECT_EQ(dynamics.evaluate(s.state), Status::invalid);
  EXPECT_NE(dynamics.reason().find("rail"), std::string::npos);
  EXPECT_NE(dynamics.reason().find("no oil"), std::string::npos);
  for (const double x : dynamics.vdot()) EXPECT_EQ(x, 0);
  clear_laws(s.system, s.rail);
  add_law(s.system, s.rail, [](const ConstraintReaction&) { return Vector3d(std::nan(""), 0, 0); });
  EXPECT_EQ(dynamics.evaluate(s.state), Status::invalid);
  EXPECT_NE(dynamics.reason().find("rail"), std::string::npos);
  clear_laws(s.system, s.rail);
  EXPECT_EQ(dynamics.evaluate(s.state), Status::ok);
  EXPECT_TRUE(dynamics.reason().empty());
  EXPECT_EQ(dynamics.failure(), FailureKind::none);
}

TEST(Dynamics, ResolvesForAnotherForceAsIfEvaluatedWithIt) {
  BlockOnRail s;
  add_law(s.system, s.rail, laws::coulomb(0.3));
  Dynamics once(s.system), twice(s.system);
  std::vector<double> Q(12);
  for (std::size_t j = 0; j < 12; ++j) Q[j] = 3 - static_cast<double>(j);
  EXPECT_EQ(twice.resolve(s.state, Q), Status::invalid);  // nothing to resolve yet
  EXPECT_EQ(twice.failure(), FailureKind::problem);
  ASSERT_EQ(once.evaluate(s.state, Q), Status::ok);
  ASSERT_EQ(twice.evaluate(s.state), Status::ok);
  ASSERT_EQ(twice.resolve(s.state, Q), Status::ok);
  for (std::size_t j = 0; j < 12; ++j) {
    EXPECT_EQ(once.vdot()[j], twice.vdot()[j]);
    EXPECT_EQ(once.nonideal()[j], twice.nonideal()[j]);
  }
  EXPECT_EQ(once.evaluate(s.state, std::vector<double>(3)), Status::invalid);
}

TEST(Dynamics, ABlockHoldsTheGivenConstraintsAndTheirBodies) {
  System system;
  const auto a = system.add_particle("a", 1, {1, 0, 0}), b = system.add_particle("b", 1, {2, 0, 0});
  const auto c = system.add_particle("c", 1, {3, 0, 0});
  const auto first = system.add(joints::rod("first", ground, Vector3d::Zero(), a, Vector3d::Zero(), 1));
  const auto second = system.add(joints::rod("second", b, Vector3d::Zero(), c, Vector3d::Zero(), 1));
  const ConstraintId only[] = {second};
  Dynamics dynamics(system, only);
  ASSERT_EQ(dynamics.evaluate(system.initial_state()), Status::ok);
  EXPECT_EQ(dynamics.vdot().size(), 6u);
  EXPECT_EQ(dynamics.lambda().size(), 1u);
  system.enable(second, false);
  dynamics.restructure();
  EXPECT_EQ(dynamics.evaluate(system.initial_state()), Status::ok);
  EXPECT_EQ(dynamics.lambda().size(), 0u);
  EXPECT_TRUE(system.enabled(first));
}

// Two hinges in line on one door: the second repeats rows of the first.
struct Door {
  System system;
  BodyId body;
  explicit Door(double slant = 0) {
    system.set_gravity({0, 0, -9.81});
    body =
        system.add_body("door", 20, Vector3d(2, 3, 1.5), {{0.5, 0, 0}, Quaterniond::Identity()}, {0, 1, 0}, {0, 0, 2});
    system.add(joints::hinge("upper", ground, {0, 0, 1}, Vector3d::UnitZ(), body, {-0.5, 0, 1}, Vector3d::UnitZ()));
    const Vector3d axis = Vector3d(slant, 0, 1).normalized();
    system.add(joints::hinge("lower", ground, {0, 0, -1}, axis, body, {-0.5, 0, -1}, axis));
  }
};

TEST(Consistency, IsJudgedWithTheVelocityProjected) {
  Door door;
  Dynamics dynamics(door.system);
  State state = door.system.initial_state();
  EXPECT_EQ(dynamics.evaluate(state), Status::redundant);
  // A host's velocity is O(dt) off the constraints, and b is then O(dt) off range(A). That is no contradiction.
  state[door.body].w += Vector3d(1e-3, 0, 0);
  state[door.body].v += Vector3d(0, 0, 1e-3);
  EXPECT_EQ(dynamics.evaluate(state), Status::redundant);
  EXPECT_TRUE(dynamics.rank_report().contradictory.empty());
  EXPECT_EQ(dynamics.rank_report().redundant.size(), 2u);
  const auto reactions = reactions_of(dynamics, state);
  EXPECT_TRUE(reactions[0].redundant);
  EXPECT_FALSE(reactions[0].determined);  // who carries the weight is open
}

TEST(Consistency, RowsThatContradictEachOtherAreNamed) {
  System system;
  const auto p = system.add_particle("p", 1, {0, 0, 0});
  system.add_particle("free", 1, {0, 0, 0});
  system.add(on_acceleration("one", {p}, [](const auto& s) { return s[0].acceleration().x - 1.0; }));
  system.add(on_acceleration("three", {p}, [](const auto& s) { return s[0].acceleration().x - 3.0; }));
  Dynamics dynamics(system);
  EXPECT_EQ(dynamics.evaluate(system.initial_state()), Status::contradictory);
  EXPECT_NEAR(dynamics.vdot()[0], 2, tol_rounding());  // least squares
  EXPECT_EQ(dynamics.rank_report().contradictory.size(), 2u);
  Stepper stepper(system, system.initial_state());
  const StepReport& report = stepper.step(0.1);
  EXPECT_FALSE(report.rejected);
  EXPECT_EQ(report.status, Status::contradictory);
  EXPECT_NEAR(stepper.state()[p].v.x(), 0.2, tol_rounding());
}

TEST(Dynamics, AllocatesNothingOnceWarm) {
  BlockOnRail s;
  add_law(s.system, s.rail, laws::coulomb(0.3));
  Door door;
  Dynamics rail(s.system), hinges(door.system);
  const State at_door = door.system.initial_state();
  std::vector<Reaction> all;
  rail.evaluate(s.state);
  rail.reactions(s.state, all);
  hinges.evaluate(at_door);
  const AllocationCounter allocations;
  rail.evaluate(s.state);
  rail.resolve(s.state, rail.assembly().problem.Q);
  rail.reactions(s.state, all);
  hinges.evaluate(at_door);
  EXPECT_EQ(allocations.count(), 0u);
}

// ---- one step on a host's terms ----

TEST(EndOnConstraints, ReturnsTheImpulseThatItApplied) {
  for (const auto seed : seeds(20)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    BlockOnRail s;
    Dynamics dynamics(s.system);
    ASSERT_EQ(dynamics.evaluate(s.state), Status::ok);
    const double dt = 1.0 / 60;
    std::vector<double> v(dynamics.assembly().v), before, lambda(5, 0.0), force(12, 0.0), dv(12);
    for (double& x : v) x += random.uniform(-0.5, 0.5);
    before = v;
    State end = s.state;
    const NewtonReport report = solve_end_of_step(s.system, dynamics, s.state, end, dt, v, lambda, force, 1e-14, 30);
    EXPECT_TRUE(report.converged);
    EXPECT_LE(report.residual * dt, scaled(1e-14));
    EXPECT_NEAR(end.t, dt, 1e-16);
    std::vector<double> phi(5);
    const BodyState X[] = {end[s.carrier], end[s.block]};
    s.system.constraint(s.rail).function().residual(X, end.t, phi);
    for (const double x : phi) EXPECT_NEAR(x, 0, scaled(1e-14));
    dynamics.solver().inverse_mass(force, dv);
    for (std::size_t j = 0; j < 12; ++j) EXPECT_NEAR(v[j] - before[j], dv[j], tol_rounding());
    const ConstrainedProblem& problem = dynamics.assembly().problem;
    std::vector<double> Atl(12, 0.0);
    for (std::size_t r = 0; r < 5; ++r)
      for (auto e = static_cast<std::size_t>(problem.row_start[r]);
           e < static_cast<std::size_t>(problem.row_start[r + 1]); ++e)
        Atl[static_cast<std::size_t>(problem.entries[e].column)] += problem.entries[e].value * lambda[r];
    for (std::size_t j = 0; j < 12; ++j) EXPECT_NEAR(force[j], Atl[j], tol_rounding());
    // The end is where the velocities lead.
    BodyState block = s.state[s.block];
    advance(block, part(v, 6), part(v, 9), dt);
    EXPECT_EQ(block.p, end[s.block].p);
  }
}

TEST(EndOnConstraints, GivesBackWhatItGotWhenThereIsNoEnd) {
  System system;
  const auto p = system.add_particle("p", 1, {1, 0, 0});
  system.add(joints::rod("short", ground, Vector3d::Zero(), p, Vector3d::Zero(), 1));
  system.add(joints::rod("long", ground, {-0.4, 0, 0}, p, Vector3d::Zero(), 1.4));
  system.add(joints::point_on_line("wire", ground, {0, 0, 0}, {1, 1e-3, 0}, p, Vector3d::Zero()));
  Dynamics dynamics(system);
  const State base = system.initial_state();
  dynamics.evaluate(base);
  State end = base;
  std::vector<double> v{0, 30, 0}, lambda(4, 0.0), force(3, 0.0);
  const NewtonReport report = solve_end_of_step(system, dynamics, base, end, 0.1, v, lambda, force, 1e-13, 30);
  EXPECT_FALSE(report.converged);
  EXPECT_TRUE(std::isfinite(v[0]) && std::isfinite(v[1]) && std::isfinite(v[2]));
}

TEST(CloseGaps, MovesInTheMassMetricAndLeavesVelocitiesAlone) {
  System system;
  const auto a = system.add_particle("a", 1, {0, 0, 0}, {0.5, 0, 0}),
             b = system.add_particle("b", 3, {1.2, 0, 0}, {0, 0.7, 0});
  system.add(joints::rod("rod", a, Vector3d::Zero(), b, Vector3d::Zero(), 1));
  Dynamics dynamics(system);
  State state = system.initial_state();
  dynamics.evaluate(state);
  double moved = 0;
  EXPECT_LE(project_positions(system, dynamics, state, 1e-14, 30, &moved), scaled(1e-14));
  EXPECT_NEAR(state[a].p.x(), 0.15, scaled(1e-13));  // the lighter one moves three times as far
  EXPECT_NEAR(state[b].p.x(), 1.15, scaled(1e-13));
  EXPECT_NEAR(moved, 0.15, scaled(1e-13));
  EXPECT_EQ(state[a].v, Vector3d(0.5, 0, 0));
  EXPECT_EQ(state[b].v, Vector3d(0, 0.7, 0));
}

TEST(CloseGaps, ClosesLargeGapsOfRedundantRows) {
  for (const auto seed : seeds(20)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    Door door;
    State state = door.system.initial_state();
    state[door.body].p += random.vector(0.1);
    state[door.body].q =
        Quaterniond(Eigen::AngleAxisd(random.uniform(-0.2, 0.2), random.direction())) * state[door.body].q;
    Dynamics dynamics(door.system);
    dynamics.evaluate(state);
    EXPECT_LE(project_positions(door.system, dynamics, state, 1e-13, 100), scaled(1e-13));
    EXPECT_NEAR(state[door.body].p.head<2>().norm(), 0.5, scaled(1e-12));
  }
}

// Planks between two posts that are too far apart: what is left of their gaps only creeps. Each step of a long way has
// a factor of its own, here of rows that nearly depend on each other, and a game waits for it.
TEST(CloseGaps, LeavesALongWayThatDoesNotArriveAfterAFewSteps) {
  constexpr int planks = 20;
  Random random(1);
  System system;
  int looks = 0;
  BodyId last = ground;
  for (int i = 0; i < planks; ++i) {
    const Vector3d p(0.5 * i + 0.25, random.uniform(-0.1, 0.1), 0);
    const Quaterniond q(Eigen::AngleAxisd(random.uniform(-0.4, 0.4), Vector3d::UnitZ()));
    const BodyId plank = system.add_body("plank" + std::to_string(i), 5, Vector3d(1.7, 1.8, 0.1), {p, q});
    system.add(joints::hinge("hinge" + std::to_string(i), last,
                             last == ground ? Vector3d::Zero() : Vector3d(0.25, 0, 0), Vector3d::UnitZ(), plank,
                             Vector3d(-0.25, 0, 0), Vector3d::UnitZ()));
    last = plank;
  }
  system.add(joints::hinge("post", last, Vector3d(0.25, 0, 0), Vector3d::UnitZ(), ground,
                           Vector3d(0.5 * planks + 0.3, 0, 0), Vector3d::UnitZ()));
  system.add(holonomic("plane", {last}, [&looks](const auto& s) {
    ++looks;
    return s[0].position().z;
  }));
  Dynamics dynamics(system);
  State state = system.initial_state();
  dynamics.evaluate(state);
  looks = 0;
  EXPECT_GT(project_positions(system, dynamics, state, 1e-14, 30), 1e-3);
  EXPECT_LE(looks, 300);
}

// x·y, y·z and z·x of two frames vanish at half turns about an axis and at third turns about a diagonal as well.
TEST(CloseGaps, BringsFramesTogetherFromAnyTurnAndNotToAnother) {
  std::vector<Quaterniond> turns;
  for (const Vector3d& axis :
       {Vector3d(1, 0, 0), Vector3d(0, 1, 0), Vector3d(0, 0, 1), Vector3d(1, 1, 1), Vector3d(1, -1, 1)})
    for (const double angle : {0.4, 1.0, 0.5 * pi, 2.0, 2 * pi / 3, -2 * pi / 3, 3.0, pi})
      turns.emplace_back(Eigen::AngleAxisd(angle, axis.normalized()));
  for (const auto seed : seeds(20)) turns.push_back(Random(seed).rotation());
  const JointFrame here{{0.5, 0, 0}, Matrix3d::Identity()}, there{{-0.5, 0, 0}, Matrix3d::Identity()};
  for (const bool slides : {false, true})
    for (const Quaterniond& turn : turns) {
      SCOPED_TRACE(Eigen::AngleAxisd(turn).angle());
      System system;
      const BodyId a = system.add_body("a", 2, Vector3d(2, 3, 1.5), {}),
                   b = system.add_body("b", 1, Vector3d(1, 1.5, 0.9), {{1, 0, 0}, turn});
      system.add(slides ? joints::slider("joint", a, here, b, there) : joints::weld("joint", a, here, b, there));
      Dynamics dynamics(system);
      State state = system.initial_state();
      dynamics.evaluate(state);
      double moved = 0, turned = 0;
      EXPECT_LE(project_positions(system, dynamics, state, 1e-13, 100, &moved, &turned), scaled(1e-13));
      EXPECT_NEAR(turn_between(state[a].q, state[b].q).norm(), 0, 1e-12);
      EXPECT_LE(turned, pi + 1e-9);
      EXPECT_GE(turned, 0.3 * turn_between(Quaterniond::Identity(), turn).norm());
    }
}

TEST(CloseGaps, TurnsBackByNoMoreThanItIsAllowed) {
  System system;
  const BodyId b = system.add_body("b", 1, Vector3d(1, 1.5, 0.9),
                                   {{0, 0, 0}, Quaterniond(Eigen::AngleAxisd(2.5, Vector3d(1, 2, 3).normalized()))});
  system.add(joints::weld("weld", ground, {}, b, {}));
  Dynamics dynamics(system);
  State state = system.initial_state();
  for (const double left : {2.0, 1.5, 1.0, 0.5}) {
    dynamics.evaluate(state);
    double moved = 0, turned = 0;
    const double gap = project_positions(system, dynamics, state, 1e-13, 100, &moved, &turned, 0.5);
    if (left > 0.6) {
      EXPECT_NEAR(gap, left, 1e-12) << "what is left is told as the angle";
      EXPECT_NEAR(turned, 0.5, 1e-12);
    }
  }
  EXPECT_NEAR(turn_between(state[b].q, Quaterniond::Identity()).norm(), 0, 1e-12);
}

// A line has no sense: axes that were given in opposite directions stay so.
TEST(CloseGaps, LeavesTheAxesOfAHingeAsTheyWereGiven) {
  System system;
  const BodyId b = system.add_body("b", 1, Vector3d(1, 1.5, 0.9), {{0.01, 0, 0}, Quaterniond::Identity()});
  system.add(joints::hinge("hinge", ground, {0, 0, 0}, {0, 0, 1}, b, {0, 0, 0}, {0, 0, -1}));
  Dynamics dynamics(system);
  State state = system.initial_state();
  dynamics.evaluate(state);
  double moved = 0, turned = 0;
  EXPECT_LE(project_positions(system, dynamics, state, 1e-13, 100, &moved, &turned), scaled(1e-13));
  EXPECT_EQ(turned, 0);
}

TEST(ProjectVelocities, IsTheImpulseOfLeastEnergy) {
  Door door;
  Dynamics dynamics(door.system);
  State state = door.system.initial_state();
  dynamics.evaluate(state);
  EXPECT_NEAR(project_velocities(door.system, dynamics, state), 0, scaled(1e-24));
  state[door.body].v = {0, 0, 0};
  state[door.body].w = {0, 0, 2};  // about its own centre, as if the hinges had just caught it
  const double lost = project_velocities(door.system, dynamics, state);
  const double about_hinge = 1.5 + 20 * 0.25, w = 1.5 * 2 / about_hinge;  // L about the axis is kept
  EXPECT_NEAR(state[door.body].w.z(), w, scaled(1e-13));
  EXPECT_NEAR(state[door.body].v.y(), 0.5 * w, scaled(1e-13));
  EXPECT_NEAR(lost, 0.5 * 1.5 * 4 - 0.5 * about_hinge * w * w, scaled(1e-12));  // Carnot
}

namespace {
struct Hanging {
  System system;
  const double m = 3, l = 0.7;
  Hanging() {
    system.set_gravity({0, 0, -9.81});
    const auto body = system.add_body("body", m, Vector3d(0.5, 0.8, 0.4), {{0, 0, -l}, Quaterniond::Identity()});
    system.add(joints::ball("pin", ground, Vector3d::Zero(), body, {0, 0, l}));
  }
};
}  // namespace

TEST(FastestSwing, OfAHangingBodyIsThatOfAPendulumAboutItsCentre) {
  const Hanging hanging;
  const auto& [system, m, l] = hanging;
  Dynamics dynamics(system);
  const State state = system.initial_state();
  ASSERT_EQ(dynamics.evaluate(state), Status::ok);
  EXPECT_NEAR(tension_frequency(system, dynamics, state, dynamics.lambda()), std::sqrt(m * 9.81 * l / 0.5),
              tol_rounding(10));
  // Pushed from below instead, it would fall over: no swing.
  std::vector<double> pushed(dynamics.lambda().begin(), dynamics.lambda().end());
  for (double& x : pushed) x = -x;
  EXPECT_EQ(tension_frequency(system, dynamics, state, pushed), 0);
}

TEST(FastestSwing, IsNeverAboveItsBound) {
  const Hanging hanging;
  const auto& [system, m, l] = hanging;
  Dynamics dynamics(system);
  const State state = system.initial_state();
  ASSERT_EQ(dynamics.evaluate(state), Status::ok);
  // √(Σ|r||f| / least principal moment), which the turn about z has, though nothing pulls at it.
  constexpr double anything = std::numeric_limits<double>::infinity();
  EXPECT_NEAR(tension_frequency(system, dynamics, state, dynamics.lambda(), anything), std::sqrt(m * 9.81 * l / 0.4),
              tol_rounding(10));

  for (const bool slides : {false, true}) {  // a chain at any angles, pulled anyhow
    SCOPED_TRACE(slides ? "with sliders" : "of balls");
    Random random(7);
    System chain;
    BodyId last = ground;
    Vector3d end = Vector3d::Zero();
    for (int i = 0; i < 12; ++i) {
      const Quaterniond q = random.rotation();
      const Vector3d arm(0.4, 0.1, -0.2), at = last == ground ? end : Vector3d(-arm);
      const BodyId link =
          chain.add_body("link" + std::to_string(i), 1 + i, Vector3d(0.3, 0.4, 0.5), {end - q * arm, q});
      const std::string name = "pin" + std::to_string(i);
      if (slides && i % 3 == 1)  // some way along its line, where it is an arm of its own
        chain.add(joints::cylindrical(name, last, at - 0.3 * Vector3d::UnitX(), Vector3d::UnitX(), link, arm,
                                      Vector3d::UnitY()));
      else if (slides && i % 3 == 2)
        chain.add(joints::axis_row(name, last, at, Vector3d(0, 0.6, 0.8), link, arm));
      else
        chain.add(joints::ball(name, last, at, link, arm));
      end = end - q * arm - q * arm;
      last = link;
    }
    Dynamics any(chain);
    const State bent = chain.initial_state();
    ASSERT_NE(any.evaluate(bent), Status::invalid);
    for (int trial = 0; trial < 100; ++trial) {
      std::vector<double> f(any.lambda().size());
      for (double& x : f) x = random.uniform(-100, 100);
      const double exact = tension_frequency(chain, any, bent, f),
                   bound = tension_frequency(chain, any, bent, f, anything);
      EXPECT_LE(exact, bound * (1 + 1e-14));
      EXPECT_NE(exact, bound);
      // Where some are fast enough to be looked at, the fastest of all is known; else a bound below what was enough.
      EXPECT_EQ(tension_frequency(chain, any, bent, f, 0.5 * exact), exact);
      EXPECT_EQ(tension_frequency(chain, any, bent, f, bound), bound);
      const double between = tension_frequency(chain, any, bent, f, 0.5 * (exact + bound));
      EXPECT_GE(between, exact);
      EXPECT_LE(between, std::max(exact, 0.5 * (exact + bound)));
    }

    // What is no stock joint has no such bound.
    chain.add(joints::rod("rod", ground, Vector3d(1, 2, 3), last, Vector3d(0, 0.1, 0), 2));
    Dynamics other(chain);
    other.evaluate(bent);
    const std::vector<double> ones(other.lambda().size(), 1.0);
    EXPECT_GT(tension_frequency(chain, other, bent, ones), 0);
    EXPECT_EQ(tension_frequency(chain, other, bent, ones, anything), tension_frequency(chain, other, bent, ones));
  }
}

}  // namespace
}  // namespace linchpin::test::dynamics_test
