// Prints numbers with all their bits: states, reactions and energies of a Bullet world and of a system without a host.
// Both have stock joints, a constraint of the program's own and friction. The output must not depend on how the program
// is compiled, or on whether the libraries are shared.
#include <btBulletDynamicsCommon.h>
#include <linchpin/assembly.h>
#include <linchpin/bullet.h>
#include <linchpin/coordinates.h>
#include <linchpin/problem.h>
#include <linchpin/stepper.h>

#include <cstdio>
#include <initializer_list>
#include <memory>
#include <string>

using namespace linchpin;

namespace {

void print(const char* what, std::initializer_list<double> numbers) {
  std::printf("%s", what);
  for (const double x : numbers) std::printf(" %a", x);
  std::printf("\n");
}
void print(const char* what, const Vector3d& u) { print(what, {u.x(), u.y(), u.z()}); }
void print(const char* what, const btVector3& u) { print(what, bullet::from_bullet(u)); }

void print(const Reaction& r) {
  std::printf("%s\n", r.name.c_str());
  for (const int k : {0, 1}) {
    print("  force", r.on(k).force);
    print("  moment", r.on(k).moment);
  }
  print("  prescribed", r.prescribed.on_a.force);
  print("  prescribed", r.prescribed.on_a.moment);
  print("  stabilisation", r.stabilisation.on_a.force);
  for (const double x : r.lambda) print("  multiplier", {x});
  print("  power, work, gap", {r.power, r.work, r.gap, r.gap_angle});
}
void print(const LawWork& w) {
  print(w.name.c_str(), {w.work, w.power, w.force.force.norm(), w.force.moment.norm(), double(w.mode)});
}

/// The text of an exception of the library, caught here where the program has exceptions.
template <class Exception, class Call>
std::string refused(Call call) {
#ifdef __cpp_exceptions
  try {
    call();
  } catch (const Exception& e) {
    return e.what();
  }
  return "";
#else
  return try_call(call).error().message;
#endif
}

/// A constraint that is derived by hand: the first body stays at a height.
class Height final : public ConstraintFunction {
 public:
  explicit Height(double height) : height_(height) {}
  std::unique_ptr<ConstraintFunction> clone() const override { return std::make_unique<Height>(*this); }
  int rows() const override { return 1; }
  int bodies() const override { return 1; }
  Level level() const override { return Level::position; }
  RowUnit unit(int) const override { return RowUnit::metre; }
  void residual(std::span<const BodyState> X, double, std::span<double> out) const override {
    out[0] = X[0].p.y() - height_;
  }
  void linearize(std::span<const BodyState> X, double t, Linearization out) const override {
    for (double& x : out.A) x = 0;
    out.A[1] = 1;
    out.b[0] = -X[0].a.y();
    residual(X, t, out.position);
    out.velocity[0] = X[0].v.y();
  }

 private:
  double height_;
};

void in_bullet() {
  btDefaultCollisionConfiguration config;
  btCollisionDispatcher dispatcher(&config);
  btDbvtBroadphase broadphase;
  btSequentialImpulseConstraintSolver native;
  btDiscreteDynamicsWorld world(&dispatcher, &broadphase, &native, &config);
  world.setGravity(btVector3(0, btScalar(-9.81), 0));
  btBoxShape box(btVector3(btScalar(.1), btScalar(.2), btScalar(.1)));
  std::unique_ptr<btRigidBody> bodies[4];
  for (int i = 0; i < 4; ++i) {
    bodies[i] = std::make_unique<btRigidBody>(btScalar(1 + i), nullptr, &box,
                                              btVector3(btScalar(.02), btScalar(.01), btScalar(.03)));
    btTransform at = btTransform::getIdentity();
    at.setOrigin(btVector3(btScalar(.5 * i), btScalar(2), 0));
    bodies[i]->setCenterOfMassTransform(at);
    bodies[i]->setAngularVelocity(btVector3(btScalar(.3), btScalar(.1 * i), btScalar(1)));
    bodies[i]->setActivationState(DISABLE_DEACTIVATION);
    world.addRigidBody(bodies[i].get(), 1, 0);
  }
  btPoint2PointConstraint ball(*bodies[0], btVector3(btScalar(-.5), 0, 0));
  btHingeConstraint hinge(*bodies[0], *bodies[1], btVector3(btScalar(.25), 0, 0), btVector3(btScalar(-.25), 0, 0),
                          btVector3(0, 0, 1), btVector3(0, 0, 1));
  btTransform there = btTransform::getIdentity(), here = there;
  there.setOrigin(btVector3(btScalar(.25), 0, 0));
  here.setOrigin(btVector3(btScalar(-.25), 0, 0));
  btSliderConstraint slider(*bodies[1], *bodies[2], there, here, true);
  slider.setLowerLinLimit(1);
  slider.setUpperLinLimit(-1);
  for (btTypedConstraint* joint : {static_cast<btTypedConstraint*>(&ball), static_cast<btTypedConstraint*>(&hinge),
                                   static_cast<btTypedConstraint*>(&slider)})
    world.addConstraint(joint, true);
  {
    bullet::Solver exact(world);
    exact.constrain("rod", {*bodies[2], *bodies[3]}, [](const auto& s) {
      return norm(s[0].position() - s[1].position()) - 0.5 - 0.01 * sin(3.0 * s.t);
    });
    exact.name_joint(hinge, "hinge")
        .law(laws::hinge_friction({.mu_static = 0.3, .mu_kinetic = 0.2, .pin_radius = 0.05}));
    exact.name_joint(ball, "ball").law([](const ConstraintReaction& n) {
      return ForceMoment{Vector3d::Zero(), Vector3d(-0.02 * n.spin_velocity)};
    });
    exact.constrain("hook", {*bodies[3]}, [](const auto& s) { return s[0].position().z; })
        .compliance({.stiffness = 1000, .damping = 10});
    exact
        .constrain_velocity("motor", {*bodies[2], *bodies[3]},
                            [](const auto& s) { return dot(s[0].axis(0, 0, 1), s[1].omega() - s[0].omega()); })
        .motor({.speed = 1, .max_force = 0.01});
    exact.constrain("range", {*bodies[1]}, [](const auto& s) { return s[0].position().y; }).limits(1.5, 2.1);
    for (int i = 0; i < 120; ++i) world.stepSimulation(btScalar(1) / 120, 0);
    for (const auto& body : bodies) {
      print("position", body->getCenterOfMassPosition());
      print("velocity", body->getLinearVelocity());
      print("angular velocity", body->getAngularVelocity());
    }
    for (const Reaction& r : exact.reactions()) print(r);
    for (const LawWork& w : exact.laws()) print(w);
    for (const MomentumBalance& b : exact.momentum_balances()) print("imbalance", {b.imbalance()});
    print("energy", {exact.energy()});
    std::printf("%s\n", refused<std::invalid_argument>([&] { exact.name_joint(slider, "rod"); }).c_str());
    exact.detach();
    std::printf("%s\n", refused<OrderError>([&] {
                          exact.constrain("late", {*bodies[0]}, [](const auto& s) { return s[0].position().y; });
                        }).c_str());
  }
  world.removeConstraint(&slider);
  world.removeConstraint(&hinge);
  world.removeConstraint(&ball);
  for (const auto& body : bodies) world.removeRigidBody(body.get());
}

void without_a_host() {
  System system;
  system.set_gravity({0, -9.81, 0});
  const BodyId crank = system.add_body("crank", 1, Vector3d(0.01, 0.02, 0.02), {{0.5, 0, 0}, Quaterniond::Identity()},
                                       {0, 0.5, 0}, {0, 0, 1});
  const BodyId bob = system.add_particle("bob", 2, {1, -1, 0});
  const BodyId puck = system.add_particle("puck", 0.5, {0, 3, 0}, {1, 0, 0.5});
  const BodyId r = system.add_coordinates({"r", "phi"}, {1.0, 0.2}, {0.0, 2.0}, kinetic_energy(2, [](const auto& s) {
                                            return 0.5 * (square(s.rate[0]) + square(s.q[0] * s.rate[1]));
                                          }));
  add_law(system,
          system.add(joints::hinge("hinge", ground, Vector3d::Zero(), {0, 0, 1}, crank, {-0.5, 0, 0}, {0, 0, 1})),
          laws::hinge_friction({.mu_static = 0.2, .mu_kinetic = 0.1, .pin_radius = 0.1}));
  system.add(joints::rod("rod", crank, Vector3d(0.5, 0, 0), bob, Vector3d::Zero(), 1));
  add_law(system, system.add(Constraint("table", {puck}, std::make_unique<Height>(3))), laws::coulomb(0.1));
  system.add(nonholonomic("rolling", {r}, [](const auto& s) { return s[0].velocity().x - 0.1 * sin(s.t); }));
  system.add(spring("spring", crank, {0.5, 0, 0}, ground, {2, 0, 0}, 5, 0.5));
  const Acceleration answer = solve(assemble(system, system.initial_state()));
  for (const double x : answer.vdot) print("acceleration", {x});
  for (const double x : answer.lambda) print("multiplier", {x});
  for (const Method method : {Method::semi_implicit, Method::adaptive}) {
    std::printf("%s\n", to_string(method));
    Stepper stepper(system, system.initial_state(), {.method = method});
    for (int i = 0; i < 50; ++i) {
      const StepReport& report = stepper.step(0.01);
      if (report.rejected) std::printf("rejected: %s\n", report.reason.c_str());
    }
    for (const BodyState& s : stepper.state().bodies) {
      print("position", s.p);
      print("velocity", s.v);
    }
    for (const Reaction& reaction : stepper.reactions()) print(reaction);
    for (const LawWork& w : stepper.law_works()) print(w);
    print("energy", {energy(system, stepper.state()), stepper.energy_balance().imbalance()});
  }
  std::printf("%s\n", refused<std::invalid_argument>([&] { system.add_particle("bob", 1, {0, 0, 0}); }).c_str());
}

}  // namespace

int main() {
  in_bullet();
  without_a_host();
  return 0;
}
