// Linearised equations of motion against frequencies and stability limits in closed form: about rest, about steady
// motions, with velocity constraints, with redundant rows, and with laws.
#include "random.h"
#include "tolerances.h"

#include <linchpin/constraint.h>
#include <linchpin/forces.h>
#include <linchpin/joints.h>
#include <linchpin/laws.h>
#include <linchpin/linearization.h>
#include <linchpin/projection.h>
#include <linchpin/stepper.h>

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <unsupported/Eigen/MatrixFunctions>

#include <cmath>
#include <stdexcept>
#include <string>

namespace linchpin::test::linearization_test {
namespace {

constexpr double g = 9.81;

/// The frequencies of the modes that oscillate, each pair once, ascending.
std::vector<double> frequencies(const LinearizedMotion& motion) {
  std::vector<double> out;
  for (const Eigenmode& mode : eigenmodes(motion))
    if (mode.eigenvalue.imag() > 0) out.push_back(mode.frequency());
  return out;
}

double largest_growth_rate(const LinearizedMotion& motion) {
  double most = -INFINITY;
  for (const Eigenmode& mode : eigenmodes(motion)) most = std::max(most, mode.eigenvalue.real());
  return most;
}

Constraint rod(const std::string& name, BodyId a, BodyId b) {
  return holonomic(name, {a, b}, [](const auto& s) {
    const auto d = s[1].position() - s[0].position();
    return dot(d, d) - 1.0;
  });
}

/// Two point masses on rods of 1 m that hang at rest.
struct DoublePendulum {
  System system;
  BodyId upper, lower;
  DoublePendulum() {
    system.set_gravity({0, -g, 0});
    upper = system.add_particle("upper", 1, {0, -1, 0});
    lower = system.add_particle("lower", 1, {0, -2, 0});
    system.add(holonomic("first rod", {upper}, [](const auto& s) {
      const auto d = s[0].position();
      return dot(d, d) - 1.0;
    }));
    system.add(rod("second rod", upper, lower));
  }
};

TEST(Linearization, HasTheFrequenciesOfADoublePendulum) {
  const DoublePendulum pendulum;
  const LinearizedMotion motion = linearize(pendulum.system, pendulum.system.initial_state());
  EXPECT_EQ(motion.displacements, 4);
  EXPECT_EQ(motion.velocities, 4);
  EXPECT_TRUE(motion.is_steady());
  EXPECT_EQ(motion.frame_angular_velocity, Vector3d(Vector3d::Zero()));
  const auto found = frequencies(motion);
  ASSERT_EQ(found.size(), 4u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_NEAR(found[static_cast<std::size_t>(i)], std::sqrt(g * (2 - std::sqrt(2.0))), 1e-10);
    EXPECT_NEAR(found[static_cast<std::size_t>(2 + i)], std::sqrt(g * (2 + std::sqrt(2.0))), 1e-10);
  }
}

TEST(Linearization, RedundantRowsChangeNothing) {
  DoublePendulum pendulum;
  const auto before = frequencies(linearize(pendulum.system, pendulum.system.initial_state()));
  pendulum.system.add(rod("the second rod again", pendulum.upper, pendulum.lower));
  const LinearizedMotion motion = linearize(pendulum.system, pendulum.system.initial_state());
  EXPECT_EQ(motion.displacements, 4);
  const auto after = frequencies(motion);
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < after.size(); ++i) EXPECT_NEAR(after[i], before[i], 1e-10);
}

/// A symmetric top on a fixed point in steady precession.
struct SteadyTop {
  static constexpr double mass = 1, length = 0.3, transverse = 0.02, axial = 0.01, tilt = 0.5, precession = 2;
  static constexpr double about_pivot = transverse + mass * length * length;
  static double spin() { return (mass * g * length / precession + about_pivot * precession * std::cos(tilt)) / axial; }
  System system;
  SteadyTop() {
    system.set_gravity({0, 0, -g});
    Pose pose;
    pose.q = Quaterniond(Eigen::AngleAxisd(tilt, Vector3d::UnitX()));
    const Vector3d axis = pose.q * Vector3d::UnitZ();
    pose.p = length * axis;
    const Vector3d w = precession * Vector3d::UnitZ() + (spin() - precession * std::cos(tilt)) * axis;
    const BodyId top = system.add_body("top", mass, Vector3d(transverse, transverse, axial), pose, w.cross(pose.p), w);
    system.add(holonomic("pivot", {top}, [](const auto& s) { return s[0].point(0, 0, -length); }));
  }
  /// The frequency of nutation, from the effective potential of the tilt.
  static double nutation() {
    const double c = std::cos(tilt), s = std::sin(tilt);
    const double f = about_pivot * precession * s, f1 = axial * spin() - f * c / s, f2 = -f1 * c / s + f / (s * s);
    return std::sqrt(((f1 * f1 + f * f2) / about_pivot - mass * g * length * c) / about_pivot);
  }
};

TEST(Linearization, HasTheNutationOfATopInSteadyPrecession) {
  const SteadyTop top;
  const LinearizedMotion motion = linearize(top.system, top.system.initial_state());
  EXPECT_TRUE(motion.is_steady()) << motion.unsteadiness;
  EXPECT_NEAR((motion.frame_angular_velocity - Vector3d(0, 0, SteadyTop::precession)).norm(), 0, 1e-10);
  const auto found = frequencies(motion);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NEAR(found[0], SteadyTop::nutation(), 1e-10);
}

TEST(Linearization, FindsTheUnstableAxisOfAFreeBody) {
  const Vector3d inertia(1, 2, 2.5);
  for (int axis = 0; axis < 3; ++axis) {
    System system;
    const BodyId body = system.add_body("book", 1, inertia, {}, Vector3d::Zero(), 5 * Vector3d(Vector3d::Unit(axis)));
    const LinearizedMotion motion = linearize(system, system.initial_state());
    EXPECT_TRUE(motion.is_steady()) << motion.unsteadiness;
    EXPECT_NEAR((motion.frame_angular_velocity - system.initial_state()[body].w).norm(), 0, 1e-10);
    const double a = inertia[axis], b = inertia[(axis + 1) % 3], c = inertia[(axis + 2) % 3];
    const double square = -25 * (a - b) * (a - c) / (b * c);  // of λ
    if (square > 0)
      EXPECT_NEAR(largest_growth_rate(motion), std::sqrt(square), 1e-9) << "axis " << axis;
    else
      EXPECT_LE(largest_growth_rate(motion), 0) << "axis " << axis;
  }
}

/// A thin disk that rolls upright along a straight line on the ground.
System rolling_disk(double rate) {
  constexpr double r = 0.5, m = 2;
  System system;
  system.set_gravity({0, 0, -g});
  Pose pose;
  pose.p = {0, 0, r};
  const BodyId disk =
      system.add_body("disk", m, m * r * r * Vector3d(0.25, 0.5, 0.25), pose, {rate * r, 0, 0}, {0, rate, 0});
  system.add(nonholonomic("rolling", {disk}, [](const auto& s) {
    const auto axis = s[0].axis(0, 1, 0);
    auto down = axis * axis.z;
    down.z = down.z - 1.0;
    return s[0].velocity() + cross(s[0].omega(), down * (0.5 / sqrt(dot(down, down))));
  }));
  return system;
}

TEST(Linearization, FindsTheStabilityLimitOfARollingDisk) {
  const auto growth = [](double rate) {
    const System system = rolling_disk(rate);
    const LinearizedMotion motion = linearize(system, system.initial_state());
    EXPECT_TRUE(motion.is_steady());
    EXPECT_EQ(motion.displacements, 6);
    EXPECT_EQ(motion.velocities, 3);
    return largest_growth_rate(motion);
  };
  double slow = 1, fast = 5;  // λ² = 0 at the limit, so that bisection finds it to the square of the error of λ.
  while (fast - slow > 1e-12) {
    const double middle = 0.5 * (slow + fast);
    (growth(middle) > 0 ? slow : fast) = middle;
  }
  EXPECT_NEAR(slow, std::sqrt(g / (3 * 0.5)), 1e-10);
}

/// A body on a straight rail along x, held by a spring of 50 N/m.
struct Oscillator {
  static constexpr double mass = 2, stiffness = 50;
  System system;
  BodyId body;
  ConstraintId rail;
  explicit Oscillator(double x = 0, double speed = 0) {
    body = system.add_particle("body", mass, {x, 0, 0}, {speed, 0, 0});
    rail =
        system.add(holonomic("rail", {body}, [](const auto& s) { return rows(s[0].position().y, s[0].position().z); }));
    system.add(Force("spring", {body}, [](ForceFrame& f) { f.add_force(0, {-stiffness * f[0].p.x(), 0, 0}); }));
  }
};

TEST(Linearization, HasTheDampingOfALaw) {
  constexpr double m = Oscillator::mass, k = Oscillator::stiffness, d = 3;
  Oscillator oscillator;
  add_law(oscillator.system, oscillator.rail, laws::viscous(d));
  const auto modes = eigenmodes(linearize(oscillator.system, oscillator.system.initial_state()));
  ASSERT_EQ(modes.size(), 2u);
  EXPECT_NEAR(modes[0].eigenvalue.real(), -d / (2 * m), 1e-10);
  EXPECT_NEAR(modes[0].frequency(), std::sqrt(k / m - d * d / (4 * m * m)), 1e-10);
  EXPECT_NEAR(modes[0].damping_ratio(), d / (2 * std::sqrt(k * m)), 1e-10);
  EXPECT_EQ(modes[1].eigenvalue, std::conj(modes[0].eigenvalue));
}

/// A block on a belt that moves with 2 m/s, pressed by a pad through an inclined spring. Friction follows the force of
/// this spring, so that the stiffness is not symmetric. With the stiffnesses chosen here both oscillations alone have
/// one frequency w. Together they have λ² = −w² ± kc sin b √(cos b (cos b − μ sin b))/m.
struct Brake {
  static constexpr double mass = 1, stiffness = 4000, pad_stiffness = 1000, press = 50;
  double c = std::cos(75 * M_PI / 180), s = std::sin(75 * M_PI / 180);
  System system;
  explicit Brake(double mu) {
    const double kx = pad_stiffness + stiffness * (s * s - c * c + mu * s * c);
    const double A11 = kx + stiffness * (c * c - mu * s * c), A12 = stiffness * s * (mu * s - c),
                 A21 = -stiffness * s * c, A22 = pad_stiffness + stiffness * s * s, D = A11 * A22 - A12 * A21;
    const double x = -A12 * -press / D, y = -A11 * press / D;  // at rest, with μ · force of the spring along the belt
    const BodyId block = system.add_particle("block", mass, {x, 0, 0}),
                 pad = system.add_particle("pad", mass, {0, y, 0});
    const ConstraintId belt = system.add(
        holonomic("belt", {block}, [](const auto& s) { return rows(s[0].position().y, s[0].position().z); }));
    add_law(system, belt, laws::coulomb(mu).on_belt({2, 0, 0}));
    system.add(holonomic("guide", {pad}, [](const auto& s) { return rows(s[0].position().x, s[0].position().z); }));
    system.add(Force("springs", {block, pad}, [=, c = c, s = s](ForceFrame& f) {
      const double pressed = c * (f[0].p.x() - f[1].p.x()) + s * (f[0].p.y() - f[1].p.y());
      f.add_force(0, -stiffness * pressed * Vector3d(c, s, 0) + Vector3d(-kx * f[0].p.x(), 0, 0));
      f.add_force(1, stiffness * pressed * Vector3d(c, s, 0) + Vector3d(0, -pad_stiffness * f[1].p.y() - press, 0));
    }));
  }
  double growth(double mu) const {
    const double w2 = (pad_stiffness + stiffness * s * s) / mass,
                 d2 = stiffness * stiffness * s * s * c * (mu * s - c) / (mass * mass);
    return d2 > 0 ? std::sqrt((std::sqrt(w2 * w2 + d2) - w2) / 2) : 0;
  }
};

TEST(Linearization, FindsTheFlutterOfABrake) {
  for (const double mu : {0.1, 0.26, 0.28, 0.5}) {
    const Brake brake(mu);
    const LinearizedMotion motion = linearize(brake.system, brake.system.initial_state());
    EXPECT_TRUE(motion.is_steady()) << motion.unsteadiness;
    EXPECT_NEAR(largest_growth_rate(motion), brake.growth(mu), 1e-9) << "mu " << mu;
  }
}

TEST(Linearization, InputsActOnTheFreedomsThatAreLeft) {
  DoublePendulum pendulum;
  pendulum.system.add(holonomic("plane", {pendulum.upper, pendulum.lower},
                                [](const auto& s) { return rows(s[0].position().z, s[1].position().z); }));
  const State state = pendulum.system.initial_state();
  ForceInput sideways{"sideways", {0, 0, 0, 1, 0, 0}}, along_the_rod{"along the rod", {0, 0, 0, 0, 1, 0}};
  const ForceInput inputs[] = {sideways, along_the_rod};
  const LinearizedMotion motion = linearize(pendulum.system, state, inputs);
  ASSERT_EQ(motion.size(), 4);
  // The masses accelerate by (0, 1) m/s² under 1 N on the lower one, because the rods are vertical.
  Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>> B(motion.B.data(), 4, 2),
      basis(motion.basis.data(), 12, 4);
  Eigen::VectorXd expected = Eigen::VectorXd::Zero(6);
  expected[3] = 1;
  EXPECT_LT((basis.bottomRows(6) * B.col(0) - expected).norm(), 1e-12);
  EXPECT_LT(B.col(1).norm(), 1e-12);
}

TEST(Linearization, AgreesWithTheMotion) {
  // A double pendulum in a plane that is pushed from rest by 1e-6 moves as exp(A t), in closed form and by the Stepper.
  DoublePendulum pendulum;
  const State rest = pendulum.system.initial_state();
  const LinearizedMotion motion = linearize(pendulum.system, rest);
  const int k = motion.size();
  const Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>> A(motion.A.data(), k,
                                                                                                   k),
      basis(motion.basis.data(), 12, k);
  constexpr double small = 1e-6, t = 0.5;
  for (int j = 0; j < k; ++j) {
    State start = rest;
    for (int i = 0; i < 2; ++i) {
      start.bodies[static_cast<std::size_t>(i + 1)].p += small * basis.col(j).segment<3>(3 * i);
      start.bodies[static_cast<std::size_t>(i + 1)].v += small * basis.col(j).segment<3>(6 + 3 * i);
    }
    StepOptions options;
    options.method = Method::adaptive8;
    options.relative_tolerance = options.absolute_tolerance = 1e-13;
    Stepper stepper(pendulum.system, start, options);
    stepper.step(t);
    const Eigen::VectorXd x = basis * ((A * t).exp() * Eigen::VectorXd::Unit(k, j));
    for (int i = 0; i < 2; ++i) {
      const BodyState& body = stepper.state().bodies[static_cast<std::size_t>(i + 1)];
      const BodyState& before = rest.bodies[static_cast<std::size_t>(i + 1)];
      EXPECT_LT(((body.p - before.p) / small - x.segment<3>(3 * i)).norm(), 1e-5);
      EXPECT_LT((body.v / small - x.segment<3>(6 + 3 * i)).norm(), 1e-5);
    }
  }
}

TEST(Linearization, MotionsThatChangeAreNotSteady) {
  System system;
  system.set_gravity({0, -g, 0});
  const BodyId body = system.add_particle("bob", 1, {1, 0, 0});
  system.add(holonomic("rod", {body}, [](const auto& s) { return dot(s[0].position(), s[0].position()) - 1.0; }));
  const LinearizedMotion falls = linearize(system, system.initial_state());
  EXPECT_FALSE(falls.is_steady());
  State hangs = system.initial_state();
  hangs[body].p = {0, -1, 0};
  EXPECT_TRUE(linearize(system, hangs).is_steady());
  hangs[body].v = {0.5, 0, 0};
  EXPECT_FALSE(linearize(system, hangs).is_steady());
}

TEST(Linearization, ABodyInThePlayOfASpringIsNotSteady) {
  System system;
  const BodyId body = system.add_particle("body", 1, {0, 0, 0}, {0.4, 0, 0});
  system.add(Force("spring", {body}, [](ForceFrame& f) {
    f.add_force(0, {-200 * std::max(f[0].p.x() - 0.03, 0.0), 0, 0});
  }));
  const LinearizedMotion motion = linearize(system, system.initial_state());
  EXPECT_EQ(motion.unsteadiness, 1);
  for (const Eigenmode& mode : eigenmodes(motion)) EXPECT_EQ(mode.eigenvalue, 0.0);
}

TEST(Linearization, ForcesOfShortRangeHaveTheirOwnSlope) {
  for (const double length : {0.1, 0.05, 0.01, 0.0005}) {
    System system;
    const BodyId body = system.add_particle("body", 1, {0, 0, 0});
    for (const double side : {-1.0, 1.0})
      system.add(spring(side < 0 ? "left" : "right", body, Vector3d::Zero(), ground, {side * length, 0, 0}, 1000,
                        0.8 * length));
    const auto found = frequencies(linearize(system, system.initial_state()));
    ASSERT_EQ(found.size(), 3u) << length;
    EXPECT_NEAR(found[0], 20, 1e-6) << length;
    EXPECT_NEAR(found[1], 20, 1e-6) << length;
    EXPECT_NEAR(found[2], std::sqrt(2000.0), 1e-6) << length;
  }
}

TEST(Linearization, HasAllModesOfAHangingChain) {
  for (const int count : {8, 20}) {
    System system;
    system.set_gravity({0, -g, 0});
    BodyId before = ground;
    for (int i = 0; i < count; ++i) {
      const BodyId next = system.add_particle("bob " + std::to_string(i), 1, {0, -1.0 - i, 0});
      if (i == 0)
        system.add(
            holonomic("rod 0", {next}, [](const auto& s) { return dot(s[0].position(), s[0].position()) - 1.0; }));
      else
        system.add(rod("rod " + std::to_string(i), before, next));
      before = next;
    }
    const LinearizedMotion motion = linearize(system, system.initial_state());
    EXPECT_LT(motion.error, 1e-9);
    const auto found = frequencies(motion);
    ASSERT_EQ(found.size(), static_cast<std::size_t>(2 * count));
    // Laguerre polynomials have the squares of the frequencies, over g, as their zeros.
    // Rounding of the polynomial hides its zeros at 20.
    for (const double w : found) {
      if (count == 8) {
        EXPECT_NEAR(std::laguerre(8u, w * w / g), 0, 1e-8) << w;
      }
    }
  }
}

/// The text with which a state is refused.
std::string refusal(const System& system, const State& state, std::span<const ForceInput> inputs = {}) {
  const auto result = try_linearize(system, state, inputs);
  return result ? std::string() : result.error().message;
}

TEST(Linearization, RefusesStatesWithoutADerivative) {
  DoublePendulum pendulum;
  State off = pendulum.system.initial_state();
  off[pendulum.lower].p.y() -= 0.1;
  EXPECT_NE(refusal(pendulum.system, off).find("violates the constraint \"second rod\""), std::string::npos);
  off = pendulum.system.initial_state();
  off[pendulum.upper].v.y() = 0.1;
  EXPECT_NE(refusal(pendulum.system, off).find("its velocity residual is"), std::string::npos);
  const ForceInput wrong[] = {{"wrong", {1, 2, 3}}};
  EXPECT_NE(refusal(pendulum.system, pendulum.system.initial_state(), wrong)
                .find("the input \"wrong\" has 3 numbers, but the system has 6 columns"),
            std::string::npos);
  Oscillator dry;
  dry.system.set_gravity({0, 0, -g});
  add_law(dry.system, dry.rail, laws::coulomb(0.5));
  EXPECT_NE(refusal(dry.system, dry.system.initial_state()).find("the dry friction of \"rail\" sticks"),
            std::string::npos);
  off[pendulum.upper].p.x() = NAN;
  EXPECT_NE(refusal(pendulum.system, off), "");
}

}  // namespace
}  // namespace linchpin::test::linearization_test
