// Friction that changes the thrust it reads: a block on a rough wedge, and Painlevé's rod, where the actual thrust has
// no answer or two. A wedge that two rough faces hold. All numbers have closed forms (beside each test). The default
// law and the explicit one of the papers, and what is said of their difference.
#include "motion.h"

#include <linchpin/constraint.h>
#include <linchpin/forces.h>
#include <linchpin/joints.h>
#include <linchpin/report.h>

#include <numbers>

namespace linchpin::test::coupled_friction_test {
namespace {

constexpr double g = 9.81;

// ---- a block on a rough wedge on a smooth floor ----

struct Wedge {
  System system;
  BodyId block, wedge;
  ConstraintId slope;
  double alpha = 0.6108652381980153;  // 35°
  State state;
  explicit Wedge(Law law) {
    system.set_gravity({0, 0, -g});
    // The block slides down towards +x; the wedge is pushed towards −x.
    const Vector3d down(std::cos(alpha), 0, -std::sin(alpha)), normal(std::sin(alpha), 0, std::cos(alpha));
    wedge = system.add_body("wedge", 5, Vector3d(1, 1, 1), {});
    block = system.add_body("block", 2, Vector3d(0.1, 0.1, 0.1), {0.3 * normal, Quaterniond::Identity()}, 0.2 * down);
    // The wedge does not turn, so the slope may be written in world axes.
    slope = system.add(holonomic("slope", {block, wedge}, [normal](const auto& s) {
                         const auto d = s[0].position() - s[1].position();
                         return d.x * normal.x() + d.z * normal.z() - 0.3;
                       }).set_application_points({Vector3d(0, 0, 0), Vector3d(0, 0, 0)}));
    system.add(holonomic("floor", {wedge}, [](const auto& s) {
      const auto ex = s[0].axis(1, 0, 0), ey = s[0].axis(0, 1, 0);
      return rows(s[0].position().z, s[0].position().y, ex.y, ex.z, ey.z);
    }));
    add_law(system, slope, std::move(law));
    state = system.initial_state();
  }
};

struct WedgeRow {
  double mu, N, A, relative, A_explicit;
};
constexpr WedgeRow wedge_rows[] = {
    {0, 14.202739772916711, 1.629271373074166, 6.9614058165589965, 1.629271373074166},
    {0.2, 14.690714504669272, 1.203892381865133, 5.1438842958456, 1.2180220008882532},
    {0.4, 15.213413759680419, 0.7482432112537729, 3.1970270447915645, 0.8067726287023402},
};

TEST(Wedge, BothThrusts) {
  for (const WedgeRow& row : wedge_rows) {
    SCOPED_TRACE(row.mu);
    Wedge w(laws::coulomb(row.mu));
    Dynamics dynamics(w.system);
    ASSERT_EQ(dynamics.evaluate(w.state), Status::ok) << dynamics.reason();
    std::vector<Reaction> reactions;
    dynamics.reactions(w.state, reactions);
    const Reaction& slope = named(reactions, "slope");
    EXPECT_NEAR((slope.ideal.on_a.force + slope.induced.on_a.force).norm(), row.N, scaled(1e-9));
    EXPECT_NEAR(slope.prescribed.on_a.force.norm(), row.mu * row.N, scaled(1e-9));
    EXPECT_NEAR(dynamics.vdot()[0], -row.A, scaled(1e-9));
    const Vector3d relative(dynamics.vdot()[6] - dynamics.vdot()[0], 0, dynamics.vdot()[8]);
    EXPECT_NEAR(relative.norm(), row.relative, scaled(1e-9));
    EXPECT_LE(dynamics.law_report().residual, scaled(1e-14));
    EXPECT_EQ(dynamics.law_report().solutions, 1);
    EXPECT_LT(dynamics.law_report().gain, 1);

    Wedge ideal(laws::coulomb(row.mu).with_normal_force(NormalForce::frictionless));
    Dynamics explicitly(ideal.system);
    ASSERT_EQ(explicitly.evaluate(ideal.state), Status::ok);
    explicitly.reactions(ideal.state, reactions);
    EXPECT_NEAR(named(reactions, "slope").ideal.on_a.force.norm(), wedge_rows[0].N, scaled(1e-9));
    EXPECT_NEAR(explicitly.vdot()[0], -row.A_explicit, scaled(1e-9));
  }
}

TEST(Wedge, ALawOnTheIdealThrustCostsOneBackSolveAndNoFactor) {
  Wedge w((laws::coulomb(0.2) + laws::viscous(0.1)).with_normal_force(NormalForce::frictionless));
  Dynamics dynamics(w.system);
  ASSERT_EQ(dynamics.evaluate(w.state), Status::ok);
  EXPECT_EQ(dynamics.law_report().back_solves, 1);
  // On the coupled normal force: one to find that friction changes it, two free directions on the slope, and the
  // friction.
  Wedge actual(laws::coulomb(0.2));
  Dynamics implicitly(actual.system);
  ASSERT_EQ(implicitly.evaluate(actual.state), Status::ok);
  EXPECT_EQ(implicitly.law_report().back_solves, 4);
}

// ---- a wedge that carries a load in a guide, rough on both faces ----

/// Two friction elements hold one degree of freedom. A force P sin ωt draws the wedge out in each period.
struct SelfLockingWedge {
  static constexpr double m = 1, M = 10, alpha = 10 * std::numbers::pi / 180, omega = 40 * std::numbers::pi;
  System system;
  BodyId wedge, load;
  double resistance, effective_mass;  // R = c M g + μ m g [N], and m − c M tan α [kg]

  SelfLockingWedge(double mu, double P) {
    const double c = std::tan(std::atan(mu) - alpha) + mu;
    resistance = c * M * g + mu * m * g;
    effective_mass = m - c * M * std::tan(alpha);
    system.set_gravity({0, -g, 0});
    wedge = system.add_particle("wedge", m, Vector3d::Zero());
    load = system.add_particle("load", M, Vector3d::Zero());
    const auto floor = system.add(
        holonomic("floor", {wedge}, [](const auto& s) { return rows(s[0].position().y, s[0].position().z); }));
    system.add(holonomic("guide", {load}, [](const auto& s) { return rows(s[0].position().x, s[0].position().z); }));
    const auto face = system.add(holonomic("face", {load, wedge}, [](const auto& s) {
      const auto d = s[0].position() - s[1].position();
      return d.y * std::cos(alpha) + d.x * std::sin(alpha);
    }));
    for (const ConstraintId rough : {floor, face}) add_law(system, rough, laws::coulomb(mu));
    system.add(
        Force("shaker", {wedge}, [=](ForceFrame& f) { f.add_force(0, Vector3d(-P * std::sin(omega * f.t), 0, 0)); }));
  }
};

// It slips from t₁ = asin(R/P)/ω on, where both faces reach their bounds together. The load sinks then and presses
// less, so that the wedge moves as if its mass were m − c M tan α, until s' = 0 at t₂.
TEST(SelfLockingWedge, BothFacesSlipAndStickTogether) {
  for (const auto& [mu, P] : {std::pair{0.2, 40.0}, {0.2, 25.0}, {0.25, 50.0}, {0.25, 40.0}, {0.19, 35.0}})
    for (const Method method : {Method::rk4, Method::adaptive})
      for (const double dt : {5e-4, 1.7e-3}) {
        SCOPED_TRACE("mu " + std::to_string(mu) + ", " + std::to_string(P) + " N, " + to_string(method) + ", " +
                     std::to_string(dt) + " s");
        SelfLockingWedge w(mu, P);
        const double omega = w.omega, R = w.resistance, period = 2 * std::numbers::pi / omega,
                     t1 = std::asin(R / P) / omega;
        const auto speed = [&](double t) {  // times the effective mass
          return P / omega * (std::cos(omega * t1) - std::cos(omega * t)) - R * (t - t1);
        };
        double before = period / 2 - t1, t2 = period;  // the speed is largest at the first
        for (int k = 0; k < 100; ++k) {
          const double middle = 0.5 * (before + t2);
          (speed(middle) > 0 ? before : t2) = middle;
        }
        const double way =
            (P / omega * (std::cos(omega * t1) * (t2 - t1) - (std::sin(omega * t2) - std::sin(omega * t1)) / omega) -
             0.5 * R * (t2 - t1) * (t2 - t1)) /
            w.effective_mass;
        Stepper stepper(w.system, w.system.initial_state(), {.method = method});
        const double error = method == Method::rk4 ? 1e-8 * std::pow(dt / 5e-4, 4) : 1e-8;
        const std::vector<ModeSwitch> switches = switches_until(stepper, 3 * period, dt);
        ASSERT_EQ(switches.size(), 12u);
        for (std::size_t i = 0; i < switches.size(); ++i) {  // in pairs: the two slip, the two stick
          const bool slips = i % 4 < 2;
          EXPECT_EQ(switches[i].what, slips ? ModeSwitch::What::slides : ModeSwitch::What::sticks) << i;
          EXPECT_NEAR(switches[i].t, static_cast<double>(i / 4) * period + (slips ? t1 : t2), error) << i;
        }
        EXPECT_NEAR(stepper.state()[w.wedge].p.x(), -3 * way, error);
        EXPECT_LE(std::fabs(stepper.state()[w.wedge].v.x()), 1e-15);
      }
}

// ---- a rope of beads over a drum ----

/// n beads of a gramme over half a turn of a drum of 1 m, in slow steady slip, each in a plane that is a constraint of
/// its own, or a row of the drum's. T₁ = 1 N pulls at the tail, a hand that is kinematic at the head.
struct BeadRope {
  System system;
  BodyId hand;
  double angle;  // of a bead
  static constexpr double slip = 1e-4, mu = 0.3;
  static BodyState on_circle(double at, double t) {
    const double a = at + slip * t;
    BodyState s;
    s.p = {std::cos(a), std::sin(a), 0};
    s.v = slip * Vector3d(-std::sin(a), std::cos(a), 0);
    s.a = -slip * slip * s.p;
    return s;
  }
  BeadRope(int n, bool own_planes) : angle(std::numbers::pi / n) {
    const auto kinematic = [&](const char* name, double at) {
      const BodyState start = on_circle(at, 0);
      return system.add_kinematic(name, Pose{start.p}, [at](double t) { return on_circle(at, t); });
    };
    const BodyId tail = kinematic("tail", -0.5 * angle);
    std::vector<BodyId> beads;
    for (int i = 0; i < n; ++i) {
      const BodyState start = on_circle((i + 0.5) * angle, 0);
      const std::string number = std::to_string(i + 1);
      beads.push_back(system.add_particle("bead" + number, 1e-3, start.p, start.v));
      const auto around = [](const auto& q) {
        const auto p = q[0].position();
        return p.x * p.x + p.y * p.y - 1.0;
      };
      if (own_planes)
        system.add(holonomic("plane" + number, {beads.back()}, [](const auto& q) { return q[0].position().z; }));
      const ConstraintId drum =
          system.add(own_planes ? holonomic("drum" + number, {beads.back()}, around)
                                : holonomic("drum" + number, {beads.back()},
                                            [around](const auto& q) { return rows(around(q), q[0].position().z); }));
      add_law(system, drum, laws::coulomb(mu).with_normal_force(NormalForce::coupled));
    }
    hand = kinematic("hand", (n + 0.5) * angle);
    const double length = 2 * std::sin(0.5 * angle);
    for (int i = 0; i < n; ++i)
      system.add(joints::rod(i + 1 < n ? "rope" + std::to_string(i + 1) : "pull", beads[std::size_t(i)],
                             Vector3d::Zero(), i + 1 < n ? beads[std::size_t(i + 1)] : hand, Vector3d::Zero(), length));
    system.add(Force("T1", {beads[0], tail}, [](ForceFrame& f) { f.add_force(0, (f[1].p - f[0].p).normalized()); }));
  }
};

// Nothing but the drum's own row leaves the beads free to move out of their planes: their friction turns nowhere, and
// asks for no parts of a step.
TEST(BeadRope, TakesWholeStepsThoughAnotherConstraintHoldsItsPlanes) {
  for (const int n : {2, 10})
    for (const bool own_planes : {true, false})
      for (const Method method : {Method::rk4, Method::adaptive, Method::adaptive8}) {
        SCOPED_TRACE(std::to_string(n) + (own_planes ? ", planes of their own, " : ", ") + to_string(method));
        BeadRope rope(n, own_planes);
        Stepper stepper(rope.system, rope.system.initial_state(), {.method = method});
        const double bend = BeadRope::mu * std::tan(0.5 * rope.angle), ratio = std::pow((1 + bend) / (1 - bend), n);
        for (int k = 0; k < 10; ++k) {
          const StepReport& report = stepper.step(1e-3);
          ASSERT_FALSE(report.rejected) << report.reason;
          ASSERT_EQ(report.substeps, 1);
          ASSERT_NEAR(named(stepper.reactions(), "pull").on_a.force.norm(), ratio, scaled(1e-8));
        }
      }
}

// ---- Painlevé's rod ----
//
//          o  end          half-length l = 1, mass 1, tip on the floor at angle θ; the centre is at +x of the tip.
//         /                Tip velocity along x has the sign σ. Row (0, 1, −l cos θ), b = −l sin θ θ̇².
//        o  centre         N p = g − l sin θ θ̇²,  p = 1 + 3 cos θ (cos θ + μ σ sin θ)
//       /
//      x  tip

struct Rod {
  System system;
  BodyId body;
  ConstraintId floor;
  State state;
  Rod(double theta, double omega, Law law, double sigma, bool pushes_only = false) {
    system.set_gravity({0, 0, -g});
    // Turning about y by −θ lifts x towards z. A thin rod, l²/3 about its centre; about itself anything.
    const Quaterniond q(Eigen::AngleAxisd(-theta, Vector3d::UnitY()));
    const Vector3d w(0, -omega, 0), tip_to_centre = q * Vector3d(1, 0, 0);
    const Vector3d v_tip(sigma * 0.7, 0, 0);
    body = system.add_body("rod", 1, Vector3d(0.02, 1.0 / 3, 1.0 / 3), {tip_to_centre, q},
                           v_tip + w.cross(tip_to_centre), w);
    const Vector3d tip(-1, 0, 0);
    floor = system.add(
        holonomic("floor", {body}, [tip](const auto& s) { return s[0].point(tip).z; }).set_application_points({tip}));
    system.add(holonomic("plane of motion", {body}, [](const auto& s) {
      const auto ey = s[0].axis(0, 1, 0);
      return rows(s[0].position().y, ey.x, ey.z);
    }));
    if (pushes_only) set_unilateral(system, floor);
    add_law(system, floor, std::move(law));
    state = system.initial_state();
  }
};

struct Thrusts {
  Status status;
  double ideal = 0, actual = 0;
  LawReport report;
};
Thrusts thrusts(const Rod& rod) {
  Dynamics dynamics(rod.system);
  Thrusts out{dynamics.evaluate(rod.state), 0, 0, {}};
  EXPECT_EQ(out.status, Status::ok) << dynamics.reason();
  std::vector<Reaction> reactions;
  dynamics.reactions(rod.state, reactions);
  const Reaction& floor = named(reactions, "floor");
  out.ideal = floor.ideal.on_a.force.z();
  out.actual = out.ideal + floor.induced.on_a.force.z();
  out.report = dynamics.law_report();
  return out;
}

struct RodRow {
  double theta, omega, mu, sigma, ideal, after_explicit;
  std::vector<double> actual;  // all answers, the pushing one first
};
const RodRow rod_rows[] = {
    {1.0471975511965976, 0, 0.5, 1, 5.605714285714285, 3.525132438091751, {4.088319277313511}},
    {1.0471975511965976, 0, 0.5, -1, 5.605714285714285, 7.686296133336816, {8.914284272982343}},
    {1.1071487177940904, 0, 1.3, -1, 6.13125, 12.10921875, {245.25}},
    {1.1071487177940904, 0, 1.4, -1, 6.13125, 12.5690625, {}},
    {1.0471975511965976, 4, 1.4, -1, -2.312232263172008, 0.09070999205632502, {58.93968148000459, -1.1338749007040698}},
};

TEST(PainleveRod, AllRowsOfBothThrusts) {
  for (const RodRow& row : rod_rows) {
    SCOPED_TRACE("theta " + std::to_string(row.theta) + " mu " + std::to_string(row.mu));
    const Thrusts explicitly = thrusts(
        Rod(row.theta, row.omega, laws::coulomb(row.mu).with_normal_force(NormalForce::frictionless), row.sigma));
    EXPECT_NEAR(explicitly.ideal, row.ideal, scaled(1e-9));
    EXPECT_NEAR(explicitly.actual, row.after_explicit, scaled(1e-9));

    const Law law = laws::coulomb(row.mu);
    const Thrusts t = thrusts(Rod(row.theta, row.omega, law, row.sigma));
    EXPECT_EQ(t.report.solutions, static_cast<int>(row.actual.size()));
    // 1 − p, the closed form of the coupling.
    const double p = 1 + 3 * std::cos(row.theta) * (std::cos(row.theta) + row.mu * row.sigma * std::sin(row.theta));
    const double gain = std::fabs(p / (1 + 3 * std::pow(std::cos(row.theta), 2)) - 1);
    EXPECT_NEAR(t.report.gain, gain, scaled(1e-6));
    if (row.actual.empty()) {
      EXPECT_TRUE(t.report.fell_back);
      EXPECT_NE(t.report.warning.find("law 'coulomb' on floor: no coupled normal force satisfies the law"),
                std::string::npos)
          << t.report.warning;
      EXPECT_NEAR(t.actual, row.after_explicit, scaled(1e-9)) << "what was done instead";
      continue;
    }
    EXPECT_FALSE(t.report.fell_back);
    if (row.actual.size() == 1) {
      EXPECT_NEAR(t.actual, row.actual[0], scaled(1e-9 * std::max(1.0, row.actual[0] / 10)));
      continue;
    }
    // The branch next to the frictionless normal force, either by name, and the one that a unilateral floor leaves.
    EXPECT_NE(t.report.warning.find("several coupled normal forces"), std::string::npos);
    EXPECT_NEAR(t.actual, row.actual[1], scaled(1e-9));
    const auto of = [&](Branch branch, bool unilateral) {
      Law chosen = law;
      chosen.with_branch(branch);
      return thrusts(Rod(row.theta, row.omega, chosen, row.sigma, unilateral));
    };
    EXPECT_NEAR(of(Branch::smallest, false).actual, row.actual[1], scaled(1e-9));
    EXPECT_NEAR(of(Branch::largest, false).actual, row.actual[0], scaled(1e-9));
    EXPECT_NEAR(of(Branch::continuous, true).actual, row.actual[0], scaled(1e-9));
    EXPECT_EQ(of(Branch::continuous, true).report.solutions, 1);
  }
}

LawForce only_effort(const Rod& rod, LawReport& report) {
  Dynamics dynamics(rod.system);
  EXPECT_EQ(dynamics.evaluate(rod.state), Status::ok) << dynamics.reason();
  EXPECT_EQ(dynamics.law_forces().size(), 1u);
  report = dynamics.law_report();
  return dynamics.law_forces()[0];
}

// Decision of design: physical friction without being asked for it, the law of the papers by name, and both say by how
// much they differ. Rod tip at 60°, μ = 0.5: 8.914 N press; the papers' law reads 5.606 N while 7.686 N press.
TEST(NormalForce, LawsReadTheActualOneUnlessToldToReadTheIdealOne) {
  const RodRow& row = rod_rows[1];
  const Law lambda = [](const ConstraintReaction& n) { return Vector3d(-0.5 * n.magnitude() * n.slip_direction()); };
  for (const Law& law : {laws::coulomb(row.mu), lambda}) {
    SCOPED_TRACE(law.terms()[0].name);
    LawReport report;
    const LawForce physical = only_effort(Rod(row.theta, 0, law, -1), report);
    EXPECT_EQ(physical.normal_force, NormalForce::coupled);
    EXPECT_NEAR(physical.normal.z(), row.actual[0], scaled(1e-9));
    EXPECT_NEAR(physical.force.norm(), row.mu * row.actual[0], scaled(1e-9));
    EXPECT_NEAR(physical.difference.z(), row.actual[0] - row.ideal, scaled(1e-9));
    EXPECT_EQ(report.most_different, 0);
    EXPECT_EQ(report.solutions, 1);
    const LawForce papers =
        only_effort(Rod(row.theta, 0, Law(law).with_normal_force(NormalForce::frictionless), -1), report);
    EXPECT_EQ(papers.normal_force, NormalForce::frictionless);
    EXPECT_NEAR(papers.normal.z(), row.ideal, scaled(1e-9));
    EXPECT_NEAR(papers.force.norm(), row.mu * row.ideal, scaled(1e-9));
    EXPECT_NEAR(papers.difference.z(), row.after_explicit - row.ideal, scaled(1e-9));
    EXPECT_EQ(report.most_different, 0);
    EXPECT_EQ(report.solutions, 0);
  }
}

// A law that reads no thrust, and one on a particle: nothing differs, and nothing is paid for.
TEST(NormalForce, WhereFrictionDoesNotChangeItBothLawsHaveTheSameBits) {
  const auto evaluated = [&](NormalForce normal_force) {
    System system;
    const BodyId bead = system.add_particle("bead", 2, {0.6, -0.8, 0}, {1.6, 1.2, 0});
    const ConstraintId ring = system.add(holonomic("ring", {bead}, [](const auto& s) {
      const auto& x = s[0].position();
      return rows(x.x * x.x + x.y * x.y - 1.0, x.z);
    }));
    add_law(system, ring, (laws::coulomb(0.3) + laws::viscous(0.2)).with_normal_force(normal_force));
    Dynamics dynamics(system);
    EXPECT_EQ(dynamics.evaluate(system.initial_state()), Status::ok) << dynamics.reason();
    EXPECT_EQ(dynamics.law_report().back_solves, 1);
    EXPECT_EQ(dynamics.law_report().most_different, -1);
    EXPECT_EQ(dynamics.law_forces()[0].difference, Vector3d(0, 0, 0));
    return std::vector<double>(dynamics.vdot().begin(), dynamics.vdot().end());
  };
  EXPECT_EQ(evaluated(NormalForce::coupled), evaluated(NormalForce::frictionless));
  LawReport report;
  EXPECT_EQ(only_effort(Rod(1, 0, laws::viscous(2), -1), report).difference, Vector3d(0, 0, 0));
  EXPECT_EQ(report.back_solves, 1);
}

// Friction of thin pins changes the loads of the pins a little: their laws follow them, for fewer back-solves than
// there are pins. What they give is μ r times the load that is there, to rounding.
TEST(NormalForce, ManyLawsThatHardlyChangeItFollowItByFewBackSolves) {
  constexpr int links = 24;
  constexpr double mu = 0.3, radius = 2e-3;
  System system;
  system.set_gravity({0, 0, -g});
  BodyId before = ground;
  for (int i = 0; i < links; ++i) {
    const Vector3d at(0.2 * i, 0, 0);
    const BodyId link = system.add_body("link" + std::to_string(i), 1 + 0.1 * i, Vector3d(0.01, 0.02, 0.02),
                                        {at + Vector3d(0.1, 0, 0), Quaterniond::Identity()});
    const ConstraintId pin = system.add(
        joints::hinge("pin" + std::to_string(i), before, before == ground ? Vector3d(0, 0, 0) : Vector3d(0.1, 0, 0),
                      Vector3d::UnitY(), link, Vector3d(-0.1, 0, 0), Vector3d::UnitY()));
    add_law(system, pin, laws::hinge_friction({.mu_static = mu, .mu_kinetic = mu, .pin_radius = radius}));
    before = link;
  }
  State state = system.initial_state();
  double speed = 0;  // every pin turns; the links whirl about the world's
  Vector3d v = Vector3d::Zero();
  for (int i = 0; i < links; ++i) {
    const double next = speed + (i % 2 == 0 ? 1.5 : -0.7);
    v += 0.1 * speed * Vector3d(0, 0, -1) + 0.1 * next * Vector3d(0, 0, -1);
    state[BodyId{i}].w = {0, next, 0};
    state[BodyId{i}].v = v;
    speed = next;
  }
  Dynamics dynamics(system);
  ASSERT_EQ(dynamics.evaluate(state), Status::ok) << dynamics.reason();
  EXPECT_GT(dynamics.law_report().back_solves, 1);
  EXPECT_LT(dynamics.law_report().back_solves, links);
  std::vector<Reaction> reactions;
  dynamics.reactions(state, reactions);
  ASSERT_EQ(dynamics.law_forces().size(), std::size_t(links));
  for (int i = 0; i < links; ++i) {
    const Reaction& r = reactions[std::size_t(i)];
    Vector3d load = r.ideal.on_a.force + r.induced.on_a.force;
    load.y() = 0;
    EXPECT_NEAR(dynamics.law_forces()[std::size_t(i)].moment.norm(), mu * radius * load.norm(),
                scaled(1e-12) * load.norm());
  }
}

TEST(NormalForce, ARunSaysByHowMuchTheTwoDiffered) {
  Rod rod(rod_rows[1].theta, 0, laws::coulomb(0.5), -1);
  Stepper stepper(rod.system, rod.state);
  for (int i = 0; i < 10; ++i) stepper.step(1e-3);
  const LawWork& work = stepper.law_works()[0];
  EXPECT_NEAR(work.largest_difference, 3.3, 0.1);
  const auto said = normal_force_differences(stepper.law_works());
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(
      said[0].find(
          "law 'coulomb' on floor used the coupled normal force, which differed from the frictionless one by up to "),
      0u)
      << said[0];
  Rod smooth(rod_rows[1].theta, 0, laws::viscous(0.5), -1);
  Stepper without(smooth.system, smooth.state);
  without.step(1e-3);
  EXPECT_TRUE(normal_force_differences(without.law_works()).empty()) << "a law that reads no normal force";
}

// A rod that turns so fast that its tip leaves the floor: below the critical friction the one answer pulls, which the
// floor cannot, and is let go for it. Neither is a case of Painlevé's.
TEST(NormalForce, AOneSidedConstraintThatWouldPullIsLetGoWithoutAComplaint) {
  for (const Method method : {Method::semi_implicit, Method::rk4}) {
    Rod rod(rod_rows[0].theta, 4, laws::coulomb(0.5), -1, true);
    Stepper stepper(rod.system, rod.state, {.method = method});
    for (int i = 0; i < 5; ++i) EXPECT_EQ(stepper.step(1e-3).warning, "");
    EXPECT_GT(stepper.state()[rod.body].p.z(), 1e-3 + std::sin(rod_rows[0].theta));
  }
}

// A step asks for the slip at its end. Where no thrust lets the tip slide on it comes to rest within the step, as by an
// impact without collision; so it does below the critical friction, if the step is long enough for that.
TEST(PainleveRod, AStepEndsAtRestWhereNoThrustLetsItSlide) {
  const double theta = std::atan(2.0), s = std::sin(theta), c = std::cos(theta), q = 1 + 3 * c * c;
  for (const auto& [mu, h] : {std::pair{1.3, 1.0 / 240}, {1.34, 1.0 / 240}, {1.4, 1.0 / 240}, {1.4, 1.0 / 24000}}) {
    SCOPED_TRACE(mu);
    const Rod rod(theta, 0, laws::coulomb(mu), -1);
    Dynamics dynamics(rod.system);
    dynamics.set_step(h);
    ASSERT_EQ(dynamics.evaluate(rod.state), Status::ok) << dynamics.reason();
    EXPECT_EQ(dynamics.law_report().solutions, 1);
    // Named where no normal force lets it slide: beyond 4/3.
    EXPECT_EQ(dynamics.law_report().warning.find(
                  "law 'coulomb' on floor: the body cannot slide with any coupled normal force (coupling gain "),
              mu > 4.0 / 3 ? 0 : std::string::npos)
        << dynamics.law_report().warning;
    EXPECT_EQ(dynamics.law_report().warning.empty(), mu < 4.0 / 3);
    const FrictionElement& contact = dynamics.friction_elements()[0];
    EXPECT_TRUE(contact.sticks);
    const double F = (0.7 / h + 3 * s * c * g / q) / (1 + 3 * s * s - 9 * s * s * c * c / q);
    const double N = (g + 3 * s * c * F) / q;
    ASSERT_LT(F, mu * N);
    EXPECT_NEAR(contact.friction / F, 1, scaled(1e-9));
    EXPECT_NEAR(contact.bound / (mu * N), 1, scaled(1e-9));
  }
  // And one that is too short for it slides with the normal force of the instant.
  const Rod rod(theta, 0, laws::coulomb(1.3), -1);
  Dynamics dynamics(rod.system);
  dynamics.set_step(1.0 / 2400);
  ASSERT_EQ(dynamics.evaluate(rod.state), Status::ok) << dynamics.reason();
  EXPECT_FALSE(dynamics.friction_elements()[0].sticks);
  EXPECT_NEAR(dynamics.friction_elements()[0].friction, 1.3 * 245.25, scaled(1e-6));
}

TEST(PainleveRod, CriticalFriction) {
  for (const auto& [degrees, mu] : {std::pair{40.0, 1.8687046671847072},
                                    {45.0, 5.0 / 3},
                                    {50.0, 1.5160507057677763},
                                    {55.0, 1.4096593865269846},
                                    {60.0, 1.347150628109127},
                                    {65.0, 1.3365791843765178},
                                    {70.0, 1.4011194521731436}}) {
    SCOPED_TRACE(degrees);
    const double theta = degrees * EIGEN_PI / 180;
    // The gain is proportional to μ, and 1 where the normal force grows beyond bounds.
    const double gain = thrusts(Rod(theta, 0, laws::coulomb(1), -1)).report.gain;
    EXPECT_NEAR(1 / gain, mu, scaled(1e-6));
    EXPECT_EQ(thrusts(Rod(theta, 0, laws::coulomb(mu * (1 - 1e-6)), -1)).report.solutions, 1);
    EXPECT_EQ(thrusts(Rod(theta, 0, laws::coulomb(mu * (1 + 1e-6)), -1)).report.solutions, 0);
  }
}

}  // namespace
}  // namespace linchpin::test::coupled_friction_test
