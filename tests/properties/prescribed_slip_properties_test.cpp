// Random mechanisms in which a velocity constraint drives a joint that has dry friction. Steps of the default method
// converge to what rk4 finds at a tenth of the step. rk4 decides by other means which contacts slide.
#include "motion.h"
#include "random_system.h"

#include <linchpin/report.h>

#include <numbers>

namespace linchpin::test::prescribed_slip_properties_test {
namespace {

constexpr double duration = 0.08;

/// A tree of joints with dry friction on some of them, one of which is kinematic along a random direction of its slip.
struct Driven {
  Built built;
  ConstraintId friction;
  double speed = 0;
};

bool slides(Blueprint::Kind kind) {
  return kind == Blueprint::Kind::slider || kind == Blueprint::Kind::cylindrical || kind == Blueprint::Kind::on_line ||
         kind == Blueprint::Kind::on_plane;
}

Driven random_driven(std::uint64_t seed) {
  Random random(seed);
  BlueprintOptions options;
  options.particles = false;
  options.loops = 0;
  options.most = 4;
  Blueprint plan = random_blueprint(random, options);
  for (Blueprint::Joint& j : plan.joints) {
    if (j.kind == Blueprint::Kind::weld || j.kind == Blueprint::Kind::rod) j.kind = Blueprint::Kind::on_plane;
    if (j.kind == Blueprint::Kind::universal) j.kind = Blueprint::Kind::hinge;
  }
  const int kinematic = random.integer(0, static_cast<int>(plan.joints.size()) - 1);
  Blueprint::Joint& drive = plan.joints[static_cast<std::size_t>(kinematic)];
  if (drive.kind == Blueprint::Kind::ball) drive.kind = Blueprint::Kind::on_plane;
  const NormalForce normal_force = random.coin() ? NormalForce::coupled : NormalForce::frictionless;
  const double mu = random.uniform(0.1, 0.5);

  Driven out{build(plan), {}, random.uniform(0.2, 1) * (random.coin() ? 1 : -1)};
  System& system = out.built.system;
  for (std::size_t k = 0; k < plan.joints.size(); ++k) {
    const Blueprint::Joint& j = plan.joints[k];
    if (static_cast<int>(k) != kinematic && random.coin()) continue;
    if (slides(j.kind))
      add_law(system, out.built.constraints[k], laws::coulomb(mu).with_normal_force(normal_force));
    else if (j.kind == Blueprint::Kind::hinge)
      add_law(
          system, out.built.constraints[k],
          laws::hinge_friction({.mu_static = mu, .mu_kinetic = mu, .pin_radius = 0.1}).with_normal_force(normal_force));
  }
  out.friction = out.built.constraints[static_cast<std::size_t>(kinematic)];

  const auto& bodies = system.constraint(out.friction).bodies();
  const auto pose = [&](int body) {
    return body < 0 ? BodyState{} : plan.bodies[static_cast<std::size_t>(body)].state;
  };
  const BodyState A = pose(drive.a), B = pose(drive.b);
  const Matrix3d axes = (A.q.conjugate() * drive.q_W).toRotationMatrix();
  Vector3d along = axes.col(0);
  if (drive.kind == Blueprint::Kind::on_plane) {  // anywhere in the plane
    const double angle = random.uniform(-std::numbers::pi, std::numbers::pi);
    along = std::cos(angle) * axes.col(1) + std::sin(angle) * axes.col(2);
  }
  const Vector3d p_BQ = B.q.conjugate() * (drive.p_W - B.p);
  const double speed = out.speed;
  const bool turns = drive.kind == Blueprint::Kind::hinge;
  system.add(nonholonomic("drive", {bodies[0], bodies[1]}, [=](const auto& s) {
    const auto u = s[0].axis(along);
    if (turns) return dot(u, s[1].omega() - s[0].omega()) - speed;
    const auto point = s[1].point(p_BQ);  // on a it is the point that lies there now
    return dot(u, s[1].velocity(p_BQ) - s[0].velocity() - cross(s[0].omega(), point - s[0].position())) - speed;
  }));
  return out;
}

TEST(PrescribedSlip, OfRandomMechanismsConvergesToWhatRungeKuttaFinds) {
  for (const std::uint64_t seed : seeds(60)) {
    SCOPED_TRACE(repeat_with(seed));
    struct Outcome {
      State state;
      double drive = 0, work = 0;  // force of the drive at the end, and what all laws have taken
    };
    const auto run_with = [&](Method method, double dt) {
      Driven d = random_driven(seed);
      Stepper stepper(d.built.system, d.built.state, {.method = method});
      run(stepper, duration, static_cast<int>(std::lround(duration / dt)));
      Outcome out{stepper.state()};
      const Reaction& r = named(stepper.reactions(), "drive");
      out.drive = r.on_a.force.norm() + r.on_a.moment.norm();
      for (const LawWork& law : stepper.law_works()) out.work += law.work;
      return out;
    };
    const Outcome reference = run_with(Method::rk4, 1e-4), coarse = run_with(Method::semi_implicit, 1e-3),
                  fine = run_with(Method::semi_implicit, 5e-4);
    if (testing::Test::HasFatalFailure()) return;
    const auto apart = [&](const Outcome& o) {
      double most = 0;
      for (std::size_t i = 0; i < o.state.bodies.size(); ++i)
        most = std::max(most, (o.state.bodies[i].p - reference.state.bodies[i].p).norm());
      return most;
    };
    // First order: halved with the step.
    EXPECT_LE(apart(coarse), scaled(1e-3));
    EXPECT_LE(apart(fine), scaled(0.62 * apart(coarse)));
    EXPECT_NEAR(fine.drive, reference.drive, scaled(0.02 * (1 + std::fabs(reference.drive))));
    EXPECT_NEAR(fine.work, reference.work, scaled(0.02 * (0.01 + std::fabs(reference.work))));
  }
}

}  // namespace
}  // namespace linchpin::test::prescribed_slip_properties_test
