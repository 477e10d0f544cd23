// Dry friction against a slip that another constraint prescribes: friction is −μN σ/|σ|, and σ contains the prescribed
// part. A direction that other constraints hold is therefore not a direction at rest. Closed forms, in every method
// that has dry friction.
#include "motion.h"

#include <linchpin/constraint.h>
#include <linchpin/forces.h>
#include <linchpin/joints.h>
#include <linchpin/report.h>

#include <numbers>

namespace linchpin::test::prescribed_slip_test {
namespace {

constexpr double pi = std::numbers::pi;
constexpr std::array methods{Method::semi_implicit, Method::rk4, Method::adaptive, Method::adaptive8};
constexpr std::array both{NormalForce::frictionless, NormalForce::coupled};

void take(Stepper& stepper, double duration, int steps) {
  for (int i = 0; i < steps; ++i) {
    const StepReport& report = stepper.step(duration / steps);
    ASSERT_FALSE(report.rejected) << report.reason << " at t = " << stepper.t();
  }
}

// ---- a block that a constraint draws along x over a rough floor, pushed along y ----

struct DrawnBlock {
  static constexpr double m = 2, g = 10, mu = 0.3, F = 1.2;
  System system;
  BodyId block;
  template <class Motion>
  DrawnBlock(NormalForce normal_force, double start_speed, double side, Motion x) {
    system.set_gravity({0, 0, -g});
    block = system.add_particle("block", m, {0, 0, 0}, {start_speed, 0, 0});
    const ConstraintId floor = system.add(
        joints::point_on_plane("floor", ground, Vector3d::Zero(), Vector3d::UnitZ(), block, Vector3d::Zero()));
    add_law(system, floor, laws::coulomb(mu).with_normal_force(normal_force));
    system.add(holonomic("drawn", {block}, [x](const auto& s) { return s[0].position().x - x(s.t); }));
    system.add(Force("side", {block}, [side](ForceFrame& f) { f.add_force(0, Vector3d(0, side, 0)); }));
  }
};

// y'' = (F − μ m g y'/√(v² + y'²))/m and the drive force μ m g v/√(v² + y'²), integrated by themselves.
TEST(PrescribedSlip, ADrawnBlockGivesWayToASmallSideForce) {
  for (const Method method : methods)
    for (const NormalForce normal_force : both) {
      SCOPED_TRACE(std::string(to_string(method)) +
                   (normal_force == NormalForce::coupled ? ", coupled" : ", frictionless"));
      std::vector<double> errors;
      for (const int steps : {1000, 2000}) {
        DrawnBlock b(normal_force, 1, DrawnBlock::F, [](auto t) { return 1.0 * t; });
        Stepper stepper(b.system, b.system.initial_state(), {.method = method});
        take(stepper, 1, steps);
        const double dt = method == Method::semi_implicit ? 1.0 / steps : 0;
        EXPECT_NEAR(stepper.state()[b.block].v.y(), 0.192533005958, scaled(1e-9 + 0.1 * dt));
        const Reaction& drawn = named(stepper.reactions(), "drawn");
        EXPECT_NEAR(drawn.on_a.force.x(), 5.89179235856, scaled(1e-9 + 0.1 * dt));
        EXPECT_NEAR(named(stepper.reactions(), "floor").prescribed.on_a.force.norm(), 6, scaled(1e-9));
        EXPECT_NEAR(stepper.energy_balance().imbalance(), 0, scaled(1e-9));
        errors.push_back(std::fabs(stepper.state()[b.block].v.y() - 0.192533005958));
      }
      if (method == Method::semi_implicit) {
        EXPECT_GE(slope(errors), 0.95);
      }
    }
}

// A block that is drawn from rest slides at once: no friction holds what a constraint accelerates.
TEST(PrescribedSlip, ABlockDrawnFromRestSlidesFromTheBeginning) {
  for (const Method method : methods)
    for (const NormalForce normal_force : both) {
      SCOPED_TRACE(std::string(to_string(method)) +
                   (normal_force == NormalForce::coupled ? ", coupled" : ", frictionless"));
      DrawnBlock b(normal_force, 0, 0, [](auto t) { return 0.05 * t * t; });
      Stepper stepper(b.system, b.system.initial_state(), {.method = method});
      for (int i = 0; i < 100; ++i) {
        take(stepper, 1e-3, 1);
        const Reaction& drawn = named(stepper.reactions(), "drawn");
        ASSERT_NEAR(drawn.on_a.force.x(), 0.3 * 20 + 2 * 0.1, scaled(1e-9)) << "step " << i;
      }
      EXPECT_EQ(stepper.dynamics().law_report().sticking, 0);
    }
}

// A drive that turns back: friction turns with it, and its work is μN times the way.
TEST(PrescribedSlip, ADriveThatTurnsBackTakesFrictionWithIt) {
  for (const Method method : methods) {
    SCOPED_TRACE(to_string(method));
    DrawnBlock b(NormalForce::coupled, 0.5, 0, [](auto t) { return 0.25 * sin(2.0 * t); });
    Stepper stepper(b.system, b.system.initial_state(), {.method = method});
    take(stepper, 1.2, 1200);  // past π/4, where the drive turns back
    const Reaction& drawn = named(stepper.reactions(), "drawn");
    EXPECT_NEAR(drawn.on_a.force.x(), -6 - 2 * std::sin(2.4), scaled(method == Method::semi_implicit ? 5e-3 : 1e-8));
    ASSERT_EQ(stepper.law_works().size(), 1u);
    EXPECT_NEAR(stepper.law_works()[0].work, -6 * (0.25 + 0.25 - 0.25 * std::sin(2.4)),
                scaled(method == Method::semi_implicit ? 5e-3 : 1e-8));
  }
}

// A guide without a drive does not keep a contact from resting: the slip that it prescribes is zero.
TEST(PrescribedSlip, AGuideThatOnlyHoldsLeavesABlockAtRest) {
  for (const Method method : methods)
    for (const NormalForce normal_force : both) {
      SCOPED_TRACE(std::string(to_string(method)) +
                   (normal_force == NormalForce::coupled ? ", coupled" : ", frictionless"));
      DrawnBlock b(normal_force, 0, 5.9, [](auto t) { return 0.0 * t; });
      Stepper stepper(b.system, b.system.initial_state(), {.method = method});
      take(stepper, 0.1, 100);
      EXPECT_LE(stepper.state()[b.block].v.norm(), scaled(1e-12));
      EXPECT_EQ(stepper.dynamics().law_report().sticking, 1);
      EXPECT_NEAR(named(stepper.reactions(), "floor").prescribed.on_b.force.y(), -5.9, scaled(1e-12));
    }
}

// ---- a motor against the friction of its pin ----

TEST(PrescribedSlip, AMotorBearsTheFrictionOfItsPin) {
  for (const Method method : methods)
    for (const NormalForce normal_force : both) {
      SCOPED_TRACE(std::string(to_string(method)) +
                   (normal_force == NormalForce::coupled ? ", coupled" : ", frictionless"));
      System system;
      system.set_gravity({0, -10, 0});
      const BodyId wheel =
          system.add_body("wheel", 3, Matrix3d(0.048 * Matrix3d::Identity()), {}, Vector3d::Zero(), {0, 0, 2});
      const ConstraintId pin = system.add(joints::hinge("pin", ground, Vector3d::Zero(), Vector3d::UnitZ(), wheel,
                                                        Vector3d::Zero(), Vector3d::UnitZ()));
      add_law(system, pin,
              laws::hinge_friction({.mu_static = 0.2, .mu_kinetic = 0.2, .pin_radius = 0.05})
                  .with_normal_force(normal_force));
      system.add(joints::prescribed_angle("motor", ground, Vector3d::UnitZ(), Vector3d::UnitX(), wheel,
                                          Vector3d::UnitX(), [](auto t) { return 2.0 * t; }));
      Stepper stepper(system, system.initial_state(), {.method = method});
      take(stepper, 0.05, 50);
      EXPECT_NEAR(named(stepper.reactions(), "motor").on_b.moment.z(), 0.3, scaled(1e-9));
      EXPECT_NEAR(named(stepper.reactions(), "motor").work, 0.03, scaled(1e-9));
      EXPECT_NEAR(named(stepper.reactions(), "pin").work, -0.03, scaled(1e-9));
      EXPECT_NEAR(stepper.energy_balance().imbalance(), 0, scaled(1e-12));
    }
}

// ---- a rope of beads that is drawn over a drum ----

// A hand draws the bead beyond the last one round the drum; the other end is loaded. As slow as that, m v² is rounding.
TEST(PrescribedSlip, ARopeDrawnOverADrumHasTheTensionsOfACapstan) {
  constexpr int n = 10;
  constexpr double mu = 0.3, delta = pi / n, load = 10, speed = 1e-4;
  const double t = mu * std::tan(delta / 2), ratio = std::pow((1 + t) / (1 - t), n);
  ASSERT_NEAR(ratio, 2.5883556335, 1e-10);
  const auto at = [](double angle) { return Vector3d(std::cos(angle), 0, std::sin(angle)); };
  const auto along = [](double angle) { return Vector3d(-std::sin(angle), 0, std::cos(angle)); };
  for (const Method method : methods) {
    SCOPED_TRACE(to_string(method));
    System system;
    std::vector<BodyId> beads;
    for (int k = 0; k < n; ++k) {
      const double angle = (k + 0.5) * delta;
      beads.push_back(system.add_particle("bead" + std::to_string(k), 0.05, at(angle), speed * along(angle)));
    }
    const double chord = 2 * std::sin(delta / 2), hand = (n + 0.5) * delta;
    for (std::size_t k = 0; k < beads.size(); ++k) {
      const ConstraintId drum = system.add(holonomic("drum" + std::to_string(k), {beads[k]}, [](const auto& s) {
        const auto& x = s[0].position();
        return rows(0.5 * (x.x * x.x + x.z * x.z - 1.0), x.y);
      }));
      add_law(system, drum, laws::coulomb(mu).with_normal_force(NormalForce::coupled));
      if (k > 0)
        system.add(
            joints::rod("rope" + std::to_string(k), beads[k - 1], Vector3d::Zero(), beads[k], Vector3d::Zero(), chord));
    }
    system.add(holonomic("hand", {beads.back()}, [=](const auto& s) {
      const auto angle = hand + speed * s.t;
      const auto dx = s[0].position().x - cos(angle), dz = s[0].position().z - sin(angle);
      return (dx * dx + dz * dz - chord * chord) / (2 * chord);
    }));
    system.add(Force("load", {beads.front()}, [=](ForceFrame& f) {
      const Vector3d x = f[0].p;  // along the tangent half a chord before the first bead
      f.add_force(0, -load * along(std::atan2(x.z(), x.x()) - delta / 2));
    }));
    Stepper stepper(system, system.initial_state(), {.method = method});
    for (int i = 0; i < 5; ++i) {
      take(stepper, 1e-3, 1);
      const Reaction& hand_force = named(stepper.reactions(), "hand");
      ASSERT_NEAR(hand_force.on_a.force.norm() / load, ratio, scaled(1e-9)) << "step " << i;
    }
    // The hand's work is that of both tensions: its rod moves along the tangent.
    EXPECT_NEAR(named(stepper.reactions(), "hand").work, ratio * load * speed * std::cos(delta / 2) * 5e-3,
                scaled(1e-11));
  }
}

}  // namespace
}  // namespace linchpin::test::prescribed_slip_test
