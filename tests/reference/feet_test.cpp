// A rigid body on rough feet, more of them than it takes: normals that redundancy leaves undetermined, and more
// directions of friction than the body has to slide in (T9, T10). How the feet share is open; whether they hold all
// together, and how the body moves, is not.
#include "motion.h"
#include "tolerances.h"

#include <linchpin/constraint.h>
#include <linchpin/forces.h>
#include <linchpin/joints.h>
#include <linchpin/laws.h>
#include <linchpin/report.h>
#include <linchpin/stepper.h>

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace linchpin::test::feet_test {
namespace {

StepOptions with(Method method) { return {.method = method}; }

/// 2 kg on feet 0.1 m below its centre of mass, on a slope of 20 degrees that falls along x: tan 20° = 0.36397.
constexpr double g = 9.81, pi = 3.14159265358979324;

struct Slope {
  static constexpr double angle = 20 * pi / 180;
  System system;
  BodyId block;
  std::vector<Vector3d> points;  // of the feet, in the block

  Slope(int feet, double mu, NormalForce normal_force, double speed = 0, double tilt = angle) {
    system.set_gravity(g * Vector3d(std::sin(tilt), 0, -std::cos(tilt)));
    block = system.add_body("block", 2, Vector3d(0.1, 0.2, 0.3), Pose{{0, 0, 0.1}}, {speed, 0, 0});
    points = {{0.5, 0.3, -0.1},  {-0.5, 0.3, -0.1}, {-0.5, -0.3, -0.1},
              {0.5, -0.3, -0.1}, {0, 0.3, -0.1},    {0.1, -0.3, -0.1}};
    if (feet == 3) points = {{0.5, 0.3, -0.1}, {-0.5, 0, -0.1}, {0.5, -0.3, -0.1}};
    for (int i = 0; i < feet; ++i)
      add_law(system,
              system.add(joints::point_on_plane("foot" + std::to_string(i), ground, Vector3d::Zero(), Vector3d::UnitZ(),
                                                block, points[static_cast<std::size_t>(i)])),
              laws::coulomb(mu).with_normal_force(normal_force));
  }
};

TEST(Feet, HoldABlockOnASlopeUpToTheTangentHoweverMany) {
  for (const int feet : {3, 4, 5, 6})
    for (const NormalForce normal_force : {NormalForce::coupled, NormalForce::frictionless})
      for (const Method method : {Method::rk4, Method::semi_implicit, Method::adaptive})
        for (const double mu : {0.4, 0.365, 0.36397024}) {  // the last by a part in 10⁸
          SCOPED_TRACE(std::to_string(feet) + " feet, " + to_string(method) + ", " + std::to_string(mu) +
                       (normal_force == NormalForce::coupled ? ", coupled" : ", frictionless"));
          Slope s(feet, mu, normal_force);
          Stepper stepper(s.system, s.system.initial_state(), with(method));
          for (int k = 0; k < 24; ++k) {
            const StepReport& report = stepper.step(1.0 / 240);
            ASSERT_FALSE(report.rejected) << report.reason;
            ASSERT_EQ(report.warning.find("coupled normal force"), std::string::npos) << report.warning;
            ASSERT_EQ(report.mode_switches, 0);
            ASSERT_EQ(report.sticking, feet);
          }
          const BodyState& end = stepper.state()[s.block];
          EXPECT_LE(end.v.norm() + end.w.norm(), scaled(1e-13));
          EXPECT_LE(end.p.head<2>().norm(), scaled(1e-14));
          // A distribution that is one: each within its bound, all together what the slope pulls with.
          Vector3d sum = Vector3d::Zero();
          double pressing = 0;
          for (const FrictionElement& c : stepper.dynamics().friction_elements()) {
            EXPECT_TRUE(c.sticks);
            EXPECT_LE(c.friction, c.bound * (1 + 1e-9));
            sum -= c.force.head<3>();  // the world is first
            pressing += c.bound / mu;
          }
          EXPECT_NEAR(sum.x(), -2 * g * std::sin(Slope::angle), scaled(1e-10));
          EXPECT_NEAR(sum.y(), 0, scaled(1e-10));
          EXPECT_NEAR(pressing, 2 * g * std::cos(Slope::angle), scaled(1e-9));
        }
}

TEST(Feet, ShareAlikeWhereNothingSaysOtherwise) {
  // Far from their bounds all feet of a rectangle hold the same: the efforts of least norm.
  for (const Method method : {Method::rk4, Method::semi_implicit, Method::adaptive}) {
    Slope s(4, 0.8, NormalForce::coupled);
    Stepper stepper(s.system, s.system.initial_state(), with(method));
    ASSERT_FALSE(stepper.step(1.0 / 240).rejected);
    for (const FrictionElement& c : stepper.dynamics().friction_elements())
      EXPECT_NEAR(c.friction, 0.5 * g * std::sin(Slope::angle), scaled(1e-6));
  }
}

TEST(Feet, LetABlockGoBelowTheTangentAndSlideAsOneBlockWould) {
  for (const int feet : {3, 4, 5, 6})
    for (const Method method : {Method::rk4, Method::semi_implicit, Method::adaptive})
      for (const double speed : {0.0, 0.3}) {
        SCOPED_TRACE(std::to_string(feet) + " feet, " + to_string(method) + ", " + std::to_string(speed) + " m/s");
        Slope s(feet, 0.363, NormalForce::coupled, speed);
        Stepper stepper(s.system, s.system.initial_state(), with(method));
        for (int k = 0; k < 2; ++k) {
          const StepReport& report = stepper.step(0.001);
          ASSERT_FALSE(report.rejected) << report.reason;
          ASSERT_EQ(report.warning.find("coupled normal force"), std::string::npos) << report.warning;
        }
        const BodyState& end = stepper.state()[s.block];
        const double a = g * (std::sin(Slope::angle) - 0.363 * std::cos(Slope::angle));
        EXPECT_NEAR(end.v.x(), speed + a * 0.002, scaled(1e-9));
        EXPECT_LE(end.w.norm() + std::fabs(end.v.y()), scaled(1e-9));
      }
}

TEST(Feet, OfAReleasedBlockStopTogetherAndStay) {
  // 0.3 m/s against μ = 0.5: stops after v/(g (μ cos − sin)), which events know to 10⁻¹⁰ s.
  const double stops = 0.3 / (g * (0.5 * std::cos(Slope::angle) - std::sin(Slope::angle)));
  for (const int feet : {3, 4, 6})
    for (const Method method : {Method::rk4, Method::semi_implicit, Method::adaptive}) {
      SCOPED_TRACE(std::to_string(feet) + " feet, " + to_string(method));
      Slope s(feet, 0.5, NormalForce::coupled, 0.3);
      Stepper stepper(s.system, s.system.initial_state(), with(method));
      int switches = 0;
      for (int k = 0; k < 84; ++k) {
        const StepReport& report = stepper.step(1.0 / 240);
        ASSERT_FALSE(report.rejected) << report.reason;
        ASSERT_EQ(report.warning.find("coupled normal force"), std::string::npos) << report.warning;
        switches += report.mode_switches;
        for (const ModeSwitch& m : stepper.switches())
          EXPECT_NEAR(m.t, stops, method == Method::semi_implicit ? 1.0 / 240 : 1e-10) << s.system.name(m.on);
      }
      EXPECT_EQ(switches, feet) << "each once";
      const BodyState& end = stepper.state()[s.block];
      EXPECT_LE(end.v.norm() + end.w.norm(), scaled(1e-12));
      EXPECT_NEAR(end.p.x(), 0.15 * stops, method == Method::semi_implicit ? 0.3 / 240 : 1e-10);
    }
}

TEST(Feet, LetABlockGoWhereverItIsOnTheEdge) {
  // Beyond the angle of friction by a part in 10⁷ it starts with a 10⁷th of g, straight down: friction turns what is so
  // slow in 10⁻⁹ s and less.
  for (const int feet : {3, 4, 5, 6})
    for (const NormalForce normal_force : {NormalForce::coupled, NormalForce::frictionless})
      for (const Method method : {Method::rk4, Method::semi_implicit, Method::adaptive})
        for (const double beyond : {1e-7, 1e-5, 1e-3}) {
          SCOPED_TRACE(std::to_string(feet) + " feet, " + to_string(method) + ", " + std::to_string(beyond) +
                       (normal_force == NormalForce::coupled ? ", coupled" : ", frictionless"));
          const double angle = (1 + beyond) * std::atan(0.36);
          Slope s(feet, 0.36, normal_force, 0, angle);
          Stepper stepper(s.system, s.system.initial_state(), with(method));
          constexpr double dt = 0.004;
          constexpr int steps = 10;
          // After its first step it slips by 1.4·10⁻⁹ m/s, next to what counts as rest: where the pair of order 5 goes
          // on from there, rounding may hold it once more, and it loses what it had.
          const bool may_be_held = method == Method::adaptive && beyond < 1e-6;
          for (int k = 0; k < steps; ++k) {
            const StepReport& report = stepper.step(dt);
            ASSERT_FALSE(report.rejected) << report.reason;
            if (!may_be_held) {
              ASSERT_EQ(report.mode_switches, 0);
            }
            ASSERT_EQ(report.sticking, 0);
            if (method != Method::semi_implicit) {
              ASSERT_LE(report.substeps, 64);
            }
          }
          // What is across, and a slip that counts as rest: 10⁻⁹ m/s.
          const BodyState& end = stepper.state()[s.block];
          const double a = g * (std::sin(angle) - 0.36 * std::cos(angle)), t = steps * dt;
          const double lost = may_be_held ? a * dt : 0;
          EXPECT_NEAR(end.v.x(), a * t, 1e-10 + 1e-9 * a * t + lost);  // a tenth of what counts as rest
          EXPECT_NEAR(end.p.x(), 0.5 * a * t * (t + (method == Method::semi_implicit ? dt : 0)), 1e-12 + lost * t);
          EXPECT_LE(end.w.norm() + std::fabs(end.v.y()), 1e-9);
          EXPECT_LE(std::fabs(end.p.y()), 1e-12);
        }
}

/// 2 kg, 20 N, on feet of μ = 0.3 below its centre of mass, under a push along x that grows by 1 N/s, `aside` of it.
struct GrowingPush {
  System system;
  BodyId block;

  GrowingPush(int feet, NormalForce normal_force, double from, double aside = 0) {
    system.set_gravity({0, 0, -10});
    block = system.add_body("block", 2, Vector3d(0.1, 0.2, 0.3), Pose{{0, 0, 0.1}});
    std::vector<Vector3d> points = {{0.5, 0.3, -0.1},  {-0.5, 0.3, -0.1}, {-0.5, -0.3, -0.1},
                                    {0.5, -0.3, -0.1}, {0, 0.3, -0.1},    {0.1, -0.3, -0.1}};
    if (feet == 3) points = {{0.5, 0.3, -0.1}, {-0.5, 0, -0.1}, {0.5, -0.3, -0.1}};
    for (int i = 0; i < feet; ++i)
      add_law(system,
              system.add(joints::point_on_plane("foot" + std::to_string(i), ground, Vector3d::Zero(), Vector3d::UnitZ(),
                                                block, points[static_cast<std::size_t>(i)])),
              laws::coulomb(0.3).with_normal_force(normal_force));
    system.add(Force("push", {block}, [=](ForceFrame& f) {
      f.add_force(0, Vector3d(from + f.t, 0, 0));
      f.add_moment(0, Vector3d(0, 0, -aside * (from + f.t)));
    }));
  }
};

TEST(Feet, LetGoTogetherInTheMomentInWhichAGrowingPushIsAllTheyHold) {
  // 6 N after 0.1 s; the push then exceeds what drags by τ N, and the block is τ³/12 m away.
  for (const int feet : {3, 4, 6})
    for (const NormalForce normal_force : {NormalForce::coupled, NormalForce::frictionless})
      for (const Method method : {Method::rk4, Method::adaptive}) {
        SCOPED_TRACE(std::to_string(feet) + " feet, " + to_string(method) +
                     (normal_force == NormalForce::coupled ? ", coupled" : ", frictionless"));
        GrowingPush s(feet, normal_force, 5.9);
        Stepper stepper(s.system, s.system.initial_state(), with(method));
        int switches = 0;
        for (int k = 0; k < 20; ++k) {
          const StepReport& report = stepper.step(0.01);
          ASSERT_FALSE(report.rejected) << report.reason;
          switches += report.mode_switches;
          for (const ModeSwitch& m : stepper.switches()) {
            EXPECT_EQ(m.what, ModeSwitch::What::slides);
            EXPECT_NEAR(m.t, 0.1, 1e-10) << s.system.name(m.on);
          }
        }
        EXPECT_EQ(switches, feet) << "each once";
        const BodyState& end = stepper.state()[s.block];
        EXPECT_NEAR(end.v.x(), 0.0025, 1e-10);
        EXPECT_NEAR(end.p.x(), 1e-3 / 12, 1e-10);
        EXPECT_LE(end.w.norm() + std::fabs(end.v.y()), 1e-12);
      }
}

/// A flat body that slides and spins on a level floor, on feet with given loads: three degrees of freedom, integrated
/// until it stops, in steps that shorten as its slowest foot does.
struct Spin {
  Eigen::Matrix2Xd feet;
  Eigen::VectorXd loads;  // μN [N]
  double mass, inertia;
  using Coordinates = Eigen::Matrix<double, 6, 1>;  // x, y, angle, and their rates

  Coordinates rate(const Coordinates& q) const {
    Coordinates out = Coordinates::Zero();
    out.head<3>() = q.tail<3>();
    for (int i = 0; i < feet.cols(); ++i) {
      const Eigen::Vector2d r = Eigen::Rotation2Dd(q[2]) * feet.col(i);
      const Eigen::Vector2d slip = q.segment<2>(3) + q[5] * Eigen::Vector2d(-r.y(), r.x());
      const Eigen::Vector2d f = -loads[i] * slip.normalized();
      out.segment<2>(3) += f / mass;
      out[5] += (r.x() * f.y() - r.y() * f.x()) / inertia;
    }
    return out;
  }
  double slowest(const Coordinates& q) const {
    double least = 1e300;
    for (int i = 0; i < feet.cols(); ++i) {
      const Eigen::Vector2d r = Eigen::Rotation2Dd(q[2]) * feet.col(i);
      least = std::min(least, (q.segment<2>(3) + q[5] * Eigen::Vector2d(-r.y(), r.x())).norm());
    }
    return least;
  }
  /// @return time of the stop; q is there
  double stop(Coordinates& q) const {
    double t = 0;
    while (slowest(q) > 1e-12) {
      const double h = std::min(1e-4, 0.01 * slowest(q) * mass / loads.sum());
      const Coordinates a = rate(q), b = rate(q + h / 2 * a), c = rate(q + h / 2 * b), d = rate(q + h * c);
      q += h / 6 * (a + 2 * b + 2 * c + d);
      t += h;
    }
    return t;
  }
};

TEST(Feet, OfABlockThatSpinsComeToRestWhereTheDiscDoes) {
  for (const int feet : {3, 4, 6})
    for (const double spin : {3.0, 0.5}) {
      if (feet == 6 && spin == 3) continue;  // it ends by turning about a foot that is at rest: see below
      Slope s(feet, 0.3, NormalForce::frictionless, 0, 0);
      State start = s.system.initial_state();
      start[s.block].v = {1, 0.2, 0};
      start[s.block].w = {0, 0, spin};
      // Loads of least norm that carry the weight at the middle.
      Eigen::Matrix3Xd carries(3, feet);
      Spin disc{Eigen::Matrix2Xd(2, feet), {}, 2, 0.3};
      for (int i = 0; i < feet; ++i) {
        disc.feet.col(i) = s.points[static_cast<std::size_t>(i)].head<2>();
        carries.col(i) << 1, disc.feet.col(i);
      }
      disc.loads = 0.3 * (carries.transpose() * (carries * carries.transpose()).ldlt().solve(Vector3d(2 * g, 0, 0)));
      Spin::Coordinates q;
      q << 0, 0, 0, 1, 0.2, spin;
      const double stops = disc.stop(q);
      for (const Method method : {Method::rk4, Method::adaptive, Method::semi_implicit}) {
        SCOPED_TRACE(std::to_string(feet) + " feet, " + to_string(method) + ", " + std::to_string(spin) + " rad/s");
        Stepper stepper(s.system, start, with(method));
        const bool first_order = method == Method::semi_implicit;
        int switches = 0;
        while (stepper.state().t < stops + 0.01) {
          const StepReport& report = stepper.step(0.001);
          ASSERT_FALSE(report.rejected) << report.reason;
          ASSERT_EQ(report.warning.find("coupled normal force"), std::string::npos) << report.warning;
          switches += report.mode_switches;
          for (const ModeSwitch& m : stepper.switches()) {
            EXPECT_EQ(m.what, ModeSwitch::What::sticks);
            EXPECT_NEAR(m.t, stops, first_order ? 3e-3 : 1e-9);
          }
        }
        EXPECT_EQ(switches, feet) << "each once";
        const BodyState& end = stepper.state()[s.block];
        EXPECT_LE(end.v.norm() + end.w.norm(), 1e-12);
        EXPECT_NEAR(end.p.x(), q[0], first_order ? 3e-3 : 1e-9);
        EXPECT_NEAR(end.p.y(), q[1], first_order ? 3e-3 : 1e-9);
        EXPECT_NEAR(2 * std::atan2(end.q.z(), end.q.w()), q[2], first_order ? 3e-3 : 1e-9);
      }
    }
}

TEST(Feet, OfABlockThatSpinsOnTheActualThrustComeToRestAlikeByBothMethods) {
  // Its feet are below its centre of mass, so that friction shifts their loads; on six it ends by turning about one.
  constexpr double spin = 3;
  for (const int feet : {4, 6}) {
    std::vector<std::vector<double>> stops(2);
    std::vector<Vector3d> ends;
    for (const Method method : {Method::rk4, Method::adaptive}) {
      SCOPED_TRACE(std::to_string(feet) + " feet, " + to_string(method));
      Slope s(feet, 0.3, NormalForce::coupled, 0, 0);
      State start = s.system.initial_state();
      start[s.block].v = {1, 0.2, 0};
      start[s.block].w = {0, 0, spin};
      Stepper stepper(s.system, start, with(method));
      const double dt = method == Method::rk4 ? 1.0 / 240 : 1.0 / 60;
      while (stepper.state().t < 0.6) {
        const StepReport& report = stepper.step(dt);
        ASSERT_FALSE(report.rejected) << report.reason;
        for (const ModeSwitch& m : stepper.switches()) stops[ends.size()].push_back(m.t);
      }
      const BodyState& end = stepper.state()[s.block];
      EXPECT_LE(end.v.norm() + end.w.norm(), 1e-12);
      ends.push_back(end.p);
    }
    EXPECT_LE((ends[0] - ends[1]).norm(), 1e-8);  // rk4's own error
    ASSERT_EQ(stops[0].size(), static_cast<std::size_t>(feet));
    ASSERT_EQ(stops[1].size(), stops[0].size());
    for (std::size_t i = 0; i < stops[0].size(); ++i) EXPECT_NEAR(stops[0][i], stops[1][i], 2e-8);
  }
}

/// Where a function with one valley is least, between a and b.
template <class Function>
double valley(Function f, double a, double b) {
  for (int k = 0; k < 60; ++k) {
    const double left = a + (b - a) / 3, right = b - (b - a) / 3;
    f(left) < f(right) ? b = right : a = left;
  }
  return f(0.5 * (a + b));
}

/// 10 kg, 100 N, on feet of μ = 0.2 at (±0.6, ±0.4), pushed along x at the height of its centre of mass, `aside` of it.
/// What holds it, from the other side: it gives way by turning about some point C of the floor, and the least force
/// that makes it do so is that which does the work of all feet, F |aside − C_y| = Σ μ N |r − C|; normals carry the
/// overturning moment, N = 25 ∓ F height / 2.4.
double least_push(double aside, double height) {
  const auto least = [&](double F) {
    const auto about = [&](double x_c, double y_c) {
      double work = 0;
      for (const double x : {-0.6, 0.6})
        for (const double y : {-0.4, 0.4})
          work += 0.2 * (25 + (x > 0 ? 1 : -1) * F * height / 2.4) * std::hypot(x - x_c, y - y_c);
      return work / std::fabs(aside - y_c);
    };
    const auto at_distance = [&](double d) {  // of the line of the push, a power of e
      return std::min(valley([&](double x) { return about(x, aside + std::exp(d)); }, -10, 10),
                      valley([&](double x) { return about(x, aside - std::exp(d)); }, -10, 10));
    };
    double best = 1e300;
    for (double d = -6; d < 10; d += 0.5) best = std::min(best, valley(at_distance, d, d + 0.5));
    return best;
  };
  double F = 20;
  for (int k = 0; k < 4 && height + aside > 0; ++k) F = least(F);
  return F;
}

TEST(Feet, OfATableSlipWhereThePushIsBeyondAllOfThem) {
  for (const double height : {0.0, 0.3})
    for (const double aside : {0.0, 0.2}) {
      const double limit = least_push(aside, height);
      if (aside == 0) {
        ASSERT_NEAR(limit, 20, 1e-2);
      }
      for (const Method method : {Method::rk4, Method::semi_implicit, Method::adaptive})
        for (const double part : {0.999, 1.001}) {
          SCOPED_TRACE(std::to_string(part) + " of " + std::to_string(limit) + " N, " + std::to_string(aside) +
                       " m aside, " + std::to_string(height) + " m high, " + to_string(method));
          System system;
          system.set_gravity({0, 0, -10});
          const BodyId table = system.add_body("table", 10, Vector3d(1, 1, 1), {});
          for (const double x : {-0.6, 0.6})
            for (const double y : {-0.4, 0.4}) {
              const Vector3d foot(x, y, -height);
              add_law(system,
                      system.add(holonomic("foot" + std::to_string(system.constraint_count()), {table},
                                           [foot, height](const auto& s) { return s[0].point(foot).z + height; })
                                     .set_application_points({foot})),
                      laws::coulomb(0.2).with_normal_force(NormalForce::coupled));
            }
          system.add(Force("push", {table}, [=](ForceFrame& f) {
            f.add_force(0, Vector3d(part * limit, 0, 0));
            f.add_moment(0, Vector3d(0, 0, -aside * part * limit));
          }));
          Stepper stepper(system, system.initial_state(), with(method));
          int switches = 0, sticking = 0;
          for (int k = 0; k < 2; ++k) {
            const StepReport& report = stepper.step(0.002);
            ASSERT_FALSE(report.rejected) << report.reason;
            ASSERT_EQ(report.warning.find("coupled normal force"), std::string::npos) << report.warning;
            switches += report.mode_switches;
            sticking = report.sticking;
          }
          const BodyState& end = stepper.state()[table];
          if (part < 1) {
            EXPECT_LE(end.v.norm() + end.w.norm(), 1e-12);
            EXPECT_EQ(switches, 0);
            EXPECT_EQ(sticking, 4);
          } else {
            EXPECT_GT(end.v.norm() + end.w.norm(), 1e-6);
            EXPECT_LT(sticking, 4);
          }
        }
    }
}

// Three bodies on balls, the last 10⁶ times as heavy as the first: thrusts hardly call up each other, so there is one
// answer (T9), whatever digits the ratio has cost.
TEST(SlowUnlikeMasses, HaveOneActualThrustAndItIsFound) {
  for (const double speed : {0.0, 1.0}) {
    SCOPED_TRACE(speed);
    System system;
    system.set_gravity({2, 0, -g});
    BodyId last = ground;
    for (int i = 0; i < 3; ++i) {
      const double mass = i == 2 ? 1e6 : 1;
      const BodyId body = system.add_body("b" + std::to_string(i), mass, Vector3d::Constant(0.1 * mass),
                                          Pose{{0.5 + i, 0, 0}}, {0, 0, -speed * (0.5 + i)}, {0, speed, 0});
      add_law(system,
              system.add(joints::ball("ball" + std::to_string(i), last, i > 0 ? Vector3d(0.5, 0, 0) : Vector3d(0, 0, 0),
                                      body, Vector3d(-0.5, 0, 0))),
              laws::ball_friction({.mu_static = 0.4, .mu_kinetic = 0.4, .pin_radius = 0.1})
                  .with_normal_force(NormalForce::coupled));
      last = body;
    }
    Stepper stepper(system, system.initial_state(), with(Method::semi_implicit));
    for (int k = 0; k < 60; ++k) {
      const StepReport& report = stepper.step(1.0 / 240);
      ASSERT_FALSE(report.rejected) << report.reason;
      ASSERT_EQ(report.warning.find("coupled normal force"), std::string::npos) << report.warning;
    }
  }
}

}  // namespace
}  // namespace linchpin::test::feet_test
