// Generalized coordinates: Lagrange's equations from a kinetic energy, against those written out by hand, and among
// bodies and constraints.
#include <linchpin/constraint.h>
#include <linchpin/coordinates.h>
#include <linchpin/dynamics.h>
#include <linchpin/forces.h>
#include <linchpin/joints.h>
#include <linchpin/report.h>
#include <linchpin/stepper.h>

#include <gtest/gtest.h>

#include <cmath>

namespace linchpin::test::coordinates_test {
namespace {

constexpr double g = 9.81;

auto double_pendulum(double m1, double m2, double L1, double L2) {
  return [=](const auto& s) {
    return 0.5 * (m1 + m2) * L1 * L1 * square(s.rate[0]) + 0.5 * m2 * L2 * L2 * square(s.rate[1]) +
           m2 * L1 * L2 * cos(s.q[0] - s.q[1]) * s.rate[0] * s.rate[1];
  };
}

TEST(Coordinates, MassMatrixAndBiasAreThoseWrittenByHand) {
  const double m1 = 1.3, m2 = 0.7, L1 = 0.9, L2 = 1.1;
  const auto T = kinetic_energy(2, double_pendulum(m1, m2, L1, L2));
  const std::vector<double> q = {0.4, -1.1}, rate = {2.0, -0.3};
  std::vector<double> M(4), h(2);
  T->evaluate(q, rate, 0, M, h);
  const double k = m2 * L1 * L2, c = std::cos(q[0] - q[1]), s = std::sin(q[0] - q[1]);
  EXPECT_NEAR(M[0], (m1 + m2) * L1 * L1, 1e-15);
  EXPECT_NEAR(M[1], k * c, 1e-15);
  EXPECT_NEAR(M[2], k * c, 1e-15);
  EXPECT_NEAR(M[3], m2 * L2 * L2, 1e-15);
  EXPECT_NEAR(h[0], k * s * rate[1] * rate[1], 1e-14);
  EXPECT_NEAR(h[1], -k * s * rate[0] * rate[0], 1e-14);
  EXPECT_NEAR(T->energy_integral(q, rate, 0), T->energy(q, rate, 0), 1e-14);  // of degree two in the rates
}

// More than six coordinates, every term of first and zeroth degree, and time.
TEST(Coordinates, MovingAxesAndManyColumns) {
  constexpr std::size_t n = 8;
  const auto f = [](const auto& s) {
    auto T = 0.5 * square(s.rate[0] + s.q[7] * sin(3.0 * s.t)) + 0.5 * square(s.q[1] * (s.rate[1] + 0.4));
    for (std::size_t i = 2; i < n; ++i) T += (0.5 + 0.1 * double(i)) * square(s.rate[i] + s.q[i - 1] * s.rate[i - 1]);
    return T;
  };
  const auto T = kinetic_energy(n, f, true);
  std::vector<double> q(n), rate(n), M(n * n), h(n);
  for (std::size_t i = 0; i < n; ++i) q[i] = 0.3 + 0.1 * double(i), rate[i] = 1 - 0.2 * double(i);
  const double t = 0.7, step = 1e-5;
  T->evaluate(q, rate, t, M, h);
  // d/dt ∂T/∂q̇ along q + s q̇, t + s, and the other derivatives, by differences of T.
  const auto at = [&](double s, std::size_t i, double dr, std::size_t j, double dq) {
    std::vector<double> Q = q, R = rate;
    for (std::size_t k = 0; k < n; ++k) Q[k] += s * rate[k];
    R[i] += dr, Q[j] += dq;
    return T->energy(Q, R, t + s);
  };
  for (std::size_t i = 0; i < n; ++i) {
    const auto p = [&](double s) { return (at(s, i, 1e-3, 0, 0) - at(s, i, -1e-3, 0, 0)) / 2e-3; };  // T is quadratic
    const double dpdt = (p(step) - p(-step)) / (2 * step),
                 dTdq = (at(0, 0, 0, i, step) - at(0, 0, 0, i, -step)) / (2 * step);
    EXPECT_NEAR(h[i], dpdt - dTdq, 1e-6) << i;
    for (std::size_t j = 0; j < n; ++j) {
      std::vector<double> one = rate, both = rate, other = rate;
      one[i] += 1, other[j] += 1, both[i] += 1, both[j] += 1;
      EXPECT_NEAR(M[i * n + j],
                  T->energy(q, both, t) - T->energy(q, one, t) - T->energy(q, other, t) + T->energy(q, rate, t), 1e-12);
    }
  }
  EXPECT_LT(T->energy_integral(q, rate, t), T->energy(q, rate, t));
}

System pendulum_in_angles() {
  System system;
  const BodyId first =
      system.add_coordinates({"a", "b"}, {1.2, -0.4}, {0.5, 0.9}, kinetic_energy(2, double_pendulum(1, 1, 1, 1)));
  system.add(Force(
      "weight", {first, BodyId{first.index + 1}},
      [](ForceFrame& f) {
        f.add_force(0, Vector3d(-2 * g * std::sin(f[0].p.x()), 0, 0));
        f.add_force(1, Vector3d(-g * std::sin(f[1].p.x()), 0, 0));
      },
      [](std::span<const BodyState> X, double) { return -2 * g * std::cos(X[0].p.x()) - g * std::cos(X[1].p.x()); }));
  return system;
}

TEST(Coordinates, MoveAsTheBodiesTheyDescribe) {
  System angles = pendulum_in_angles();
  const State start = angles.initial_state();
  const auto place = [](double a, double b) {
    const Vector3d p(std::sin(a), -std::cos(a), 0);
    return std::pair{p, Vector3d(p + Vector3d(std::sin(b), -std::cos(b), 0))};
  };
  System bodies;
  bodies.set_gravity({0, -g, 0});
  const auto [p, r] = place(1.2, -0.4);
  const Vector3d v = 0.5 * Vector3d(std::cos(1.2), std::sin(1.2), 0),
                 u = v + 0.9 * Vector3d(std::cos(-0.4), std::sin(-0.4), 0);
  const BodyId one = bodies.add_particle("p", 1, p, v), two = bodies.add_particle("r", 1, r, u);
  bodies.add(joints::rod("upper", ground, Vector3d::Zero(), one, Vector3d::Zero(), 1.0));
  bodies.add(joints::rod("lower", one, Vector3d::Zero(), two, Vector3d::Zero(), 1.0));
  StepOptions options;
  options.method = Method::rk4;
  Stepper of_angles(angles, start, options), of_bodies(bodies, bodies.initial_state(), options);
  EXPECT_NEAR(kinetic_energy(angles, start), kinetic_energy(bodies, bodies.initial_state()), 1e-14);
  const double energy0 = of_angles.energy_minus_work();
  for (int i = 0; i < 1000; ++i) of_angles.step(1e-3), of_bodies.step(1e-3);
  const auto [q1, q2] = place(of_angles.state()[BodyId{1}].p.x(), of_angles.state()[BodyId{2}].p.x());
  EXPECT_LT((q1 - of_bodies.state()[one].p).norm(), 1e-9);
  EXPECT_LT((q2 - of_bodies.state()[two].p).norm(), 1e-9);
  EXPECT_NEAR(of_angles.energy_minus_work(), energy0, 1e-9);
  EXPECT_NEAR(of_angles.energy_balance().imbalance(), 0, 1e-4);
}

TEST(Coordinates, SemiImplicitStepsConvergeToTheSame) {
  const auto end = [](Method method, double dt) {
    System system = pendulum_in_angles();
    StepOptions options;
    options.method = method;
    Stepper stepper(system, system.initial_state(), options);
    for (int i = 0; i < std::lround(0.5 / dt); ++i) stepper.step(dt);
    return stepper.state()[BodyId{1}].p.x();
  };
  const double is = end(Method::rk4, 1e-3), coarse = end(Method::semi_implicit, 1e-3) - is,
               fine = end(Method::semi_implicit, 5e-4) - is;
  EXPECT_LT(std::abs(coarse), 1e-2);
  EXPECT_NEAR(coarse / fine, 2, 0.1);  // of first order
}

// A wheel whose angle is a coordinate winds up a rope that a particle hangs on: (I/R² + m) y'' = −m g.
TEST(Coordinates, ConstraintsJoinThemToBodies) {
  const double I = 0.3, R = 0.2, m = 1.5;
  System system;
  system.set_gravity({0, -g, 0});
  const BodyId load = system.add_particle("load", m, {0, 1, 0});
  const BodyId wheel = system.add_coordinates(
      {"wheel"}, {0.0}, {0.0}, kinetic_energy(1, [=](const auto& s) { return 0.5 * I * square(s.rate[0]); }));
  const ConstraintId rope = system.add(
      holonomic("rope", {load, wheel}, [=](const auto& s) { return s[0].position().y - 1.0 - R * s[1].position().x; }));
  EXPECT_TRUE(check_constraint(system, system.constraint(rope), system.initial_state()).ok());
  Dynamics dynamics(system);
  ASSERT_EQ(dynamics.evaluate(system.initial_state()), Status::ok);
  ASSERT_EQ(dynamics.vdot().size(), 4u);
  const double a = -m * g / (I / (R * R) + m);
  EXPECT_NEAR(dynamics.vdot()[1], a, 1e-13);
  EXPECT_NEAR(dynamics.vdot()[3], a / R, 1e-12);
  std::vector<Reaction> reactions;
  dynamics.reactions(system.initial_state(), reactions);
  EXPECT_NEAR(reactions[0].on(1).force.x(), I * a / R, 1e-13);  // torque on the wheel
  EXPECT_NEAR(reactions[0].on(0).force.y(), m * (a + g), 1e-13);
  // A block of its own brings all coordinates of the group.
  System two = pendulum_in_angles();
  const ConstraintId only = two.add(holonomic("c", {BodyId{2}}, [](const auto& s) { return s[0].position().x + 0.4; }));
  IslandLayout layout;
  lay_out_island(two, std::vector<ConstraintId>{only}, layout);
  EXPECT_EQ(layout.n(), 2);
  EXPECT_EQ(layout.bodies.size(), 2u);
}

TEST(Coordinates, RefuseWhatCannotBe) {
  System system;
  const auto T = kinetic_energy(1, [](const auto& s) { return 0.5 * square(s.rate[0]); });
  EXPECT_THROW((void)kinetic_energy(0, [](const auto& s) { return s.t; }), std::invalid_argument);
  EXPECT_THROW(system.add_coordinates({"a", "b"}, {0, 0}, {0, 0}, T), std::invalid_argument);
  EXPECT_THROW(system.add_coordinates({"a"}, {std::nan("")}, {0}, T), std::invalid_argument);
  EXPECT_THROW(system.add_coordinates({"a"}, {0}, {0}, nullptr), std::invalid_argument);
  EXPECT_FALSE(system.try_add_coordinates({"world"}, {0}, {0}, T));
  const BodyId a = system.try_add_coordinates({"a"}, {0}, {0}, T).value();
  EXPECT_EQ(system.kind(a), BodyKind::coordinate);
  EXPECT_EQ(system.dof(a), 1);
  EXPECT_THROW(system.set_mass(a, 1, Matrix3d::Identity()), std::invalid_argument);
  EXPECT_THROW(system.remove(a), std::invalid_argument);
  const ConstraintId c = system.add(holonomic("c", {a}, [](const auto& s) { return s[0].position().x; }));
  EXPECT_NE(try_add_law(system, c, laws::viscous(1)).error().message, "");
  // A kinetic energy without inertia, or that is no number, is a state and not a crash.
  System bad;
  bad.add_coordinates({"flat"}, {0}, {1}, kinetic_energy(1, [](const auto& s) { return s.q[0] * square(s.rate[0]); }));
  Dynamics dynamics(bad);
  EXPECT_EQ(dynamics.evaluate(bad.initial_state()), Status::invalid);
  System nan;
  nan.add_coordinates({"odd"}, {0}, {1}, kinetic_energy(1, [](const auto& s) { return square(s.rate[0]) / s.q[0]; }));
  Dynamics lost(nan);
  EXPECT_EQ(lost.evaluate(nan.initial_state()), Status::invalid);
  EXPECT_NE(lost.reason().find("odd"), std::string::npos) << lost.reason();
}

TEST(Coordinates, InertiaThatIsAddedToABodyBesideThemIsTheBodys) {
  System system;
  system.add_coordinates({"a", "b"}, {1.2, -0.4}, {0.5, 0.9}, kinetic_energy(2, double_pendulum(1, 1, 1, 1)));
  const BodyId wheel = system.add_body("wheel", 2, Vector3d(0.1, 0.2, 0.25), Pose{});
  Dynamics dynamics(system);
  ASSERT_EQ(dynamics.evaluate(system.initial_state()), Status::ok);
  std::vector<double> M = dynamics.assembly().problem.mass;  // of two coordinates together, then of the body
  ASSERT_EQ(M.size(), 4u + 36u);
  std::vector<Eigen::Matrix3d> added(3, Eigen::Matrix3d::Zero());
  added[static_cast<std::size_t>(dynamics.assembly().layout.body_index(wheel))] = Vector3d(1, 2, 4).asDiagonal();
  dynamics.add_inertia(added);
  ASSERT_EQ(dynamics.evaluate(system.initial_state()), Status::ok);
  for (std::size_t i = 0; i < 3; ++i) M[4 + 7 * (3 + i)] += double(1u << i);
  EXPECT_EQ(dynamics.assembly().problem.mass, M);
}

}  // namespace
}  // namespace linchpin::test::coordinates_test
