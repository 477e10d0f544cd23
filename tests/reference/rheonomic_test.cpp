// Constraints that move with time: wires and hoops that turn, rods and spheres that grow, an edge that is steered.
// Closed forms, the forces that keep them going, and what is constant instead of the energy.
#include "motion.h"

#include <linchpin/constraint.h>
#include <linchpin/joints.h>
#include <linchpin/report.h>

#include <numbers>

namespace linchpin::test::rheonomic_test {
namespace {

constexpr double g = 9.81;

// ---- a particle on a parabolic wire z = b r² that turns about z
// -------------------------------------------------------

struct Wire {
  System system;
  BodyId bead;
  double b, omega, m;

  Wire(double mass, double curvature, double w, double r, double rd) : b(curvature), omega(w), m(mass) {
    system.set_gravity({0, 0, -g});
    bead = system.add_particle("bead", m, {r, 0, b * r * r}, {rd, w * r, 2 * b * r * rd});
    system.add(holonomic("wire", {bead}, [curvature, w](const auto& s) {
      const auto& x = s[0].position();
      return rows(x.z - curvature * (x.x * x.x + x.y * x.y), x.x * sin(w * s.t) - x.y * cos(w * s.t));
    }));
  }
  double r(const State& s) const {
    return s[bead].p.x() * std::cos(omega * s.t) + s[bead].p.y() * std::sin(omega * s.t);
  }
  double rd(const State& s) const {
    return s[bead].v.x() * std::cos(omega * s.t) + s[bead].v.y() * std::sin(omega * s.t);
  }
  double jacobi(const State& s) const {
    const double x = r(s), xd = rd(s);
    return 0.5 * m * (xd * xd * (1 + 4 * b * b * x * x) - omega * omega * x * x) + m * g * b * x * x;
  }
};

TEST(RotatingWire, ForcesAtAnInstant) {
  for (const double x : {0.8, -0.3, 1.1}) {
    const double rd = 0.7;
    Wire wire(2, 0.5, 2, x, rd);
    const State s = wire.system.initial_state();
    Dynamics dynamics(wire.system);
    ASSERT_EQ(dynamics.evaluate(s), Status::ok);
    const double rdd = (x * (4 - 2 * 0.5 * g) - 4 * 0.25 * x * rd * rd) / (1 + 4 * 0.25 * x * x);
    const double lambda1 = 2 * (2 * 0.5 * (rd * rd + x * rdd) + g);
    std::vector<Reaction> reactions;
    dynamics.reactions(s, reactions);
    const Vector3d F = reactions[0].on_a.force;
    EXPECT_NEAR(F.x(), -2 * 0.5 * lambda1 * x, scaled(1e-11));
    EXPECT_NEAR(F.y(), 2 * 2 * 2 * rd, scaled(1e-11));  // the transverse force that the notes leave out
    EXPECT_NEAR(F.z(), lambda1, scaled(1e-11));
    EXPECT_NEAR(dynamics.vdot()[0], rdd - 4 * x, scaled(1e-11));
    EXPECT_NEAR(reactions[0].power, 2 * 2 * 2 * x * rd * 2, scaled(1e-11));  // torque · ω
  }
}

TEST(RotatingWire, Motion) {
  Wire wire(2, 0.5, 2, 0.8, 0);
  Stepper stepper(wire.system, wire.system.initial_state(), rk4());
  const double h0 = wire.jacobi(stepper.state()), kept = stepper.energy_minus_work();
  EXPECT_NEAR(h0, 3.7184, scaled(1e-12));
  struct Row {
    double t, r, torque, E;
  };
  for (const Row row : {Row{0.5, 0.43465176268000055, -5.16260071231224, 5.2297772384072},
                        Row{1, -0.44664019002231325, 5.2193585853537, 5.31429967474538},
                        Row{1.5, -0.799906097952928, -0.14763856202638231, 8.83719812433829},
                        Row{2, -0.422469206384703, -5.09808551438347, 5.14624184274684}}) {
    SCOPED_TRACE(row.t);
    run(stepper, 0.5, 500);
    const State& s = stepper.state();
    EXPECT_NEAR(s.t, row.t, 1e-12);
    EXPECT_NEAR(wire.r(s), row.r, scaled(1e-10));
    const Vector3d F = named(stepper.reactions(), "wire").on_a.force;
    EXPECT_NEAR(s[wire.bead].p.cross(F).z(), row.torque, scaled(1e-8));
    EXPECT_NEAR(energy(wire.system, s), row.E, scaled(1e-9));  // far from constant
    EXPECT_NEAR(wire.jacobi(s), h0, scaled(1e-10));
    EXPECT_NEAR(energy_in_rotating_frame(wire.system, s, {0, 0, 2}), h0, scaled(1e-10));
    EXPECT_NEAR(stepper.energy_minus_work(), kept, scaled(1e-10));
    if (row.t == 1.5) {
      const double a = 2 * s.t;
      EXPECT_NEAR(F.x() * std::cos(a) + F.y() * std::sin(a), 12.067914660503018, scaled(1e-8));
      EXPECT_NEAR(F.z(), 15.08666416144161, scaled(1e-8));
    }
  }
}

TEST(RotatingWire, AtTheNeutralSpeedItTravelsEvenlyAlongTheWire) {
  const double b = 0.5;
  Wire wire(1.4, b, std::sqrt(2 * b * g), 0, 1);
  Stepper stepper(wire.system, wire.system.initial_state(), rk4());
  for (const double r : {0.8926677710351896, 1.5278533266342913, 2.0187636222780654}) {
    run(stepper, 1, 1000);
    const double x = wire.r(stepper.state());
    EXPECT_NEAR(x, r, scaled(1e-9));
    EXPECT_NEAR(x / 2 * std::sqrt(1 + 4 * b * b * x * x) + std::asinh(2 * b * x) / (4 * b), stepper.t(), scaled(1e-9));
  }
}

// ---- a bead on a straight horizontal wire that turns: as explicit time, and as a kinematic body
// --------------------------

struct StraightWire {
  double r0 = 0.2, rd0 = 0.1, w = 2.5, m = 1.3;
  double r(double t) const { return r0 * std::cosh(w * t) + rd0 / w * std::sinh(w * t); }
  double rd(double t) const { return w * r0 * std::sinh(w * t) + rd0 * std::cosh(w * t); }

  System turning_in_the_residual() const {
    System system;
    const auto bead = system.add_particle("bead", m, {r0, 0, 0}, {rd0, w * r0, 0});
    system.add(holonomic("wire", {bead}, [w = w](const auto& s) {
      const auto& x = s[0].position();
      return rows(x.x * sin(w * s.t) - x.y * cos(w * s.t), x.z);
    }));
    return system;
  }
  System on_a_driven_body() const {
    System system;
    const auto arm = system.add_kinematic("arm", {}, [w = w](double t) {
      BodyState s;
      s.q = Quaterniond(Eigen::AngleAxisd(w * t, Vector3d::UnitZ()));
      s.w = {0, 0, w};
      return s;
    });
    const auto bead = system.add_particle("bead", m, {r0, 0, 0}, {rd0, w * r0, 0});
    system.add(joints::point_on_line("wire", arm, Vector3d::Zero(), Vector3d::UnitX(), bead, Vector3d::Zero()));
    return system;
  }
};

TEST(StraightWire, MotionAndForce) {
  const StraightWire wire;
  EXPECT_NEAR(wire.r(1.2), 2.414247396251949, scaled(1e-12));
  for (const bool kinematic : {false, true}) {
    SCOPED_TRACE(kinematic ? "kinematic body" : "time in the residual");
    System system = kinematic ? wire.on_a_driven_body() : wire.turning_in_the_residual();
    const BodyId bead = system.find_body("bead");
    Stepper stepper(system, system.initial_state(), rk4());
    const double kept = stepper.energy_minus_work();
    for (const double t : {0.6, 1.2}) {
      run(stepper, 0.6, 600);
      const State& s = stepper.state();
      const Vector3d along(std::cos(wire.w * s.t), std::sin(wire.w * s.t), 0);
      EXPECT_NEAR(s[bead].p.dot(along), wire.r(t), scaled(1e-9));
      EXPECT_NEAR(s[bead].v.dot(along), wire.rd(t), scaled(1e-9));
      const Reaction& r = named(stepper.reactions(), "wire");
      const Wrench on_bead = kinematic ? r.on_b : r.on_a;
      EXPECT_NEAR(on_bead.force.norm(), 2 * wire.m * wire.w * wire.rd(t), scaled(1e-7));
      EXPECT_NEAR(s[bead].p.cross(on_bead.force).z(), 2 * wire.m * wire.w * wire.r(t) * wire.rd(t), scaled(1e-7));
      if (kinematic) {  // the arm feels the opposite, about its own centre
        EXPECT_NEAR((r.on_a.force + r.on_b.force).norm(), 0, scaled(1e-11));
        EXPECT_NEAR(r.on_a.about(Vector3d::Zero()).moment.z(), -2 * wire.m * wire.w * wire.r(t) * wire.rd(t),
                    scaled(1e-7));
      }
      EXPECT_NEAR(stepper.energy_minus_work(), kept, scaled(1e-8));
      EXPECT_NEAR(energy_in_rotating_frame(system, s, {0, 0, wire.w}), kept - wire.m * wire.w * wire.w * 0.04,
                  scaled(1e-8));
    }
  }
  // The reference digits.
  EXPECT_NEAR(2 * wire.m * wire.w * wire.rd(1.2), 39.10207381133773, scaled(1e-10));
  EXPECT_NEAR(wire.r(0.6), 0.5556531012524422, scaled(1e-12));
}

TEST(StraightWire, ForceAtAnInstant) {
  const StraightWire wire;
  for (const bool kinematic : {false, true}) {
    System system = kinematic ? wire.on_a_driven_body() : wire.turning_in_the_residual();
    Dynamics dynamics(system);
    ASSERT_EQ(dynamics.evaluate(system.initial_state()), Status::ok);
    EXPECT_NEAR(dynamics.ideal()[1], 0.65, scaled(1e-12));
    EXPECT_NEAR(dynamics.ideal()[0], 0, scaled(1e-12));
    EXPECT_NEAR(dynamics.vdot()[1] * wire.m, 0.65, scaled(1e-12));
  }
}

// ---- a bead on a vertical hoop that turns
// -----------------------------------------------------------------------------

struct Hoop {
  System system;
  BodyId bead;
  double R, w, m;

  Hoop(double theta, double thetad, double radius = 0.5, double omega = 7, double mass = 0.8)
      : R(radius), w(omega), m(mass) {
    system.set_gravity({0, 0, -g});
    const Vector3d er(std::sin(theta), 0, -std::cos(theta)), et(std::cos(theta), 0, std::sin(theta));
    bead = system.add_particle("bead", m, R * er, R * thetad * et + Vector3d(0, R * w * std::sin(theta), 0));
    system.add(holonomic("hoop", {bead}, [r = R, omega](const auto& s) {
      const auto& x = s[0].position();
      return rows(0.5 * (dot(x, x) - r * r), x.x * sin(omega * s.t) - x.y * cos(omega * s.t));
    }));
  }
  Vector3d turned(const Vector3d& u, double t) const { return Eigen::AngleAxisd(-w * t, Vector3d::UnitZ()) * u; }
  double theta(const State& s) const {
    const Vector3d p = turned(s[bead].p, s.t);
    return std::atan2(p.x(), -p.z());
  }
  double thetad(const State& s) const {
    const Vector3d p = turned(s[bead].p, s.t), v = turned(s[bead].v, s.t);
    return (-p.z() * v.x() + p.x() * v.z()) / (R * R);
  }
  double jacobi(const State& s) const {
    const double td = thetad(s), wsin = w * std::sin(theta(s));
    return 0.5 * m * R * R * (td * td - wsin * wsin) - m * g * R * std::cos(theta(s));
  }
};

TEST(TurningHoop, MotionForcesAndWhatIsConstant) {
  Hoop hoop(0.4, 0);
  Stepper stepper(hoop.system, hoop.system.initial_state(), rk4());
  struct Row {
    double theta, thetad;
  };
  for (const Row row : {Row{1.5508348205872222, 2.488090920532547}, Row{0.6423167115147714, -2.330461252526411},
                        Row{0.830577877539749, 3.0988808908383634}, Row{1.3420557015336072, -3.435870731017161},
                        Row{0.42385832065404067, 0.6949216405160507}, Row{1.6725303088291357, 0.9676409114771978}}) {
    run(stepper, 0.5, 1000);
    const State& s = stepper.state();
    SCOPED_TRACE(s.t);
    EXPECT_NEAR(hoop.theta(s), row.theta, scaled(1e-8));
    EXPECT_NEAR(hoop.thetad(s), row.thetad, scaled(1e-8));
    EXPECT_NEAR(hoop.jacobi(s), -4.3573119025667655, scaled(1e-8));
    EXPECT_NEAR(energy_in_rotating_frame(hoop.system, s, {0, 0, hoop.w}), -4.3573119025667655, scaled(1e-8));
    if (std::fabs(s.t - 1.5) < 0.1) {
      const Vector3d F = hoop.turned(named(stepper.reactions(), "hoop").on_a.force, s.t);
      const double theta = hoop.theta(s);
      EXPECT_NEAR(F.dot(Vector3d(std::sin(theta), 0, -std::cos(theta))), -19.818620403633965, scaled(1e-6));
      EXPECT_NEAR(F.y(), 11.704211564558586, scaled(1e-6));
    }
  }
}

TEST(TurningHoop, ForcesAtAnInstant) {
  const double theta = 0.830577877539749, thetad = 3.0988808908383634;
  Hoop hoop(theta, thetad);
  Dynamics dynamics(hoop.system);
  ASSERT_EQ(dynamics.evaluate(hoop.system.initial_state()), Status::ok);
  const Vector3d F(dynamics.ideal()[0], dynamics.ideal()[1], dynamics.ideal()[2]);
  EXPECT_NEAR(F.dot(Vector3d(std::sin(theta), 0, -std::cos(theta))), -19.818620403633965, scaled(2e-11));
  EXPECT_NEAR(F.y(), 11.704211564558586, scaled(2e-11));
}

TEST(TurningHoop, RestsAndSwingsAboutItsEquilibrium) {
  const double equilibrium = std::acos(g / (0.5 * 49));
  EXPECT_NEAR(equilibrium, 1.158834094791965, scaled(1e-13));
  Hoop still(equilibrium, 0);
  const State s = after(still.system, 1, 1000);
  EXPECT_NEAR(still.theta(s), equilibrium, scaled(1e-10));
  // A quarter of a small swing from its middle: the period to second order in the amplitude of 1e-4.
  Hoop swinging(equilibrium, 1e-4 * 6.414358256032686);
  const State top = crossing(swinging.system, swinging.system.initial_state(), 1e-3, 1, rk4(),
                             [&](const State& x) { return swinging.thetad(x); });
  EXPECT_NEAR(top.t, std::numbers::pi / 2 / 6.414358256032686, scaled(2e-5));
}

// ---- rods and spheres that grow
// ---------------------------------------------------------------------------------------

struct GrowingRod {
  double l0 = 0.8, c = 0.3, w0 = 4;
  double l(double t) const { return l0 + c * t; }
  double theta(double t) const { return w0 * l0 * l0 / c * (1 / l0 - 1 / l(t)); }
  double thetad(double t) const { return w0 * l0 * l0 / (l(t) * l(t)); }
};

TEST(GrowingRod, TwoFreeParticles) {
  const GrowingRod exact;
  const double m1 = 1, m2 = 2.5, reduced = m1 * m2 / (m1 + m2);
  System system;
  const auto a = system.add_particle("a", m1, {0, 0, 0}, {-0.3 * m2 / 3.5, -4 * 0.8 * m2 / 3.5, 0});
  const auto b = system.add_particle("b", m2, {0.8, 0, 0}, {0.3 * m1 / 3.5, 4 * 0.8 * m1 / 3.5, 0});
  system.add(joints::rod("rod", a, Vector3d::Zero(), b, Vector3d::Zero(), [](auto t) { return 0.8 + 0.3 * t; }));
  Stepper stepper(system, system.initial_state(), rk4());
  EXPECT_NEAR(stepper.start().gap, 0, scaled(1e-15));
  EXPECT_NEAR(stepper.start().impulse_energy, 0, scaled(1e-15));
  EXPECT_NEAR(named(stepper.reactions(), "rod").on_a.force.x(), 9.142857142857144, scaled(1e-11));
  const double kept = stepper.energy_minus_work();
  for (const double t : {1.0, 2.0, 3.0, 4.0}) {
    run(stepper, 1, 1000);
    const State& s = stepper.state();
    const Vector3d d = s[b].p - s[a].p;
    EXPECT_NEAR(d.norm(), exact.l(t), scaled(1e-12));
    EXPECT_NEAR(std::remainder(std::atan2(d.y(), d.x()) - exact.theta(t), 2 * std::numbers::pi), 0, scaled(1e-9));
    EXPECT_NEAR(-named(stepper.reactions(), "rod").on_b.force.dot(d) / d.norm(),
                reduced * exact.l(t) * std::pow(exact.thetad(t), 2), scaled(1e-9));
    EXPECT_NEAR(linear_momentum(system, s).norm(), 0, scaled(1e-12));
    EXPECT_NEAR(stepper.energy_minus_work(), kept, scaled(1e-9));
  }
  EXPECT_NEAR(exact.theta(2), 4.571428571428571, scaled(1e-13));
}

TEST(GrowingSphere, OnItsEquator) {
  const GrowingRod exact;
  const double m = 1;
  System system;
  const auto a = system.add_particle("a", m, {0.8, 0, 0}, {0.3, 3.2, 0});
  system.add(holonomic("sphere", {a},
                       [](const auto& s) { return dot(s[0].position(), s[0].position()) - square(0.8 + 0.3 * s.t); }));
  Stepper stepper(system, system.initial_state(), rk4());
  run(stepper, 2, 2000);
  const Vector3d p = stepper.state()[a].p;
  EXPECT_NEAR(std::remainder(std::atan2(p.y(), p.x()) - exact.theta(2), 2 * std::numbers::pi), 0, scaled(1e-9));
  const Reaction& r = named(stepper.reactions(), "sphere");
  EXPECT_NEAR(r.on_a.force.dot(p.normalized()), -2.3883381924198255, scaled(1e-9));
  EXPECT_NEAR(r.power, -2.3883381924198255 * 0.3, scaled(1e-9));
}

// ---- an edge whose direction is prescribed
// ----------------------------------------------------------------------------

TEST(PrescribedKnife, RunsInACircle) {
  const double Om = 1.7, V = 2.2, m = 0.9;
  System system;
  const auto a = system.add_particle("a", m, {0, 0, 0}, {V, 0, 0});
  system.add(nonholonomic("edge", {a}, [=](const auto& s) {
    const auto& v = s[0].velocity();
    return v.x * sin(Om * s.t) - v.y * cos(Om * s.t);
  }));
  Dynamics dynamics(system);
  ASSERT_EQ(dynamics.evaluate(system.initial_state()), Status::ok);
  EXPECT_NEAR(dynamics.ideal()[1], 3.366, scaled(1e-12));  // b is nothing but ∂A/∂t
  Stepper stepper(system, system.initial_state(), rk4());
  for (int i = 0; i < 4; ++i) {
    run(stepper, 0.7, 700);
    const double t = stepper.t();
    EXPECT_NEAR((stepper.state()[a].p - V / Om * Vector3d(std::sin(Om * t), 1 - std::cos(Om * t), 0)).norm(), 0,
                scaled(1e-10));
    const Reaction& r = named(stepper.reactions(), "edge");
    EXPECT_NEAR(r.on_a.force.norm(), 3.366, scaled(1e-10));
    EXPECT_NEAR(r.power, 0, scaled(1e-10));
  }
}

// ---- order
// ------------------------------------------------------------------------------------------------------------

TEST(Rheonomic, OrderOfBothMethods) {
  const auto error = [](StepOptions options, int steps) {
    Wire wire(2, 0.5, 2, 0.8, 0);
    return std::fabs(wire.r(after(wire.system, 1, steps, options)) + 0.44664019002231325);
  };
  std::vector<double> fourth, first;
  for (const int steps : {40, 80, 160}) fourth.push_back(error(rk4(), steps));
  for (const int steps : {400, 800, 1600}) first.push_back(error(semi_implicit(), steps));
  EXPECT_NEAR(slope(fourth), 4, scaled(0.1));
  EXPECT_NEAR(slope(first), 1, scaled(0.1));
}

TEST(Rheonomic, OrderOnADrivenBody) {
  const StraightWire wire;
  std::vector<double> errors;
  for (const int steps : {40, 80, 160}) {
    System system = wire.on_a_driven_body();
    const State s = after(system, 1.2, steps, rk4());
    errors.push_back(std::fabs(s[system.find_body("bead")].p.norm() - wire.r(1.2)));
  }
  EXPECT_NEAR(slope(errors), 4, scaled(0.1));
}

}  // namespace
}  // namespace linchpin::test::rheonomic_test
