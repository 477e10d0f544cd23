// Derivatives of the equation at a state against closed forms, and against extrapolated differences of the whole
// evaluation over random systems: loops, redundant rows, velocity constraints, coordinates, laws that slide and stick.
#include "allocation_counter.h"
#include "random_system.h"
#include "refused.h"
#include "tolerances.h"

#include <linchpin/coordinates.h>
#include <linchpin/derivatives.h>
#include <linchpin/forces.h>
#include <linchpin/laws.h>
#include <linchpin/row_forces.h>

#include <gtest/gtest.h>

#include <Eigen/Dense>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string>

namespace linchpin::test::derivatives_test {
namespace {

double inner(std::span<const double> x, std::span<const double> y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

double largest(std::span<const double> x) {
  double most = 0;
  for (const double xi : x) most = std::max(most, std::fabs(xi));
  return most;
}

// ---- a pendulum in closed form ----

constexpr double mass = 2, length = 1.5, angle = 0.7, rate = 1.3, gravity = 9.81;

/// A point mass on a massless rod. Parameters: l, g.
System pendulum(std::span<const double> values) {
  System system;
  system.set_gravity({0, -values[1], 0});
  const double l = values[0];
  const BodyId bob = system.add_particle("bob", mass, l * Vector3d(std::sin(angle), -std::cos(angle), 0),
                                         l * rate * Vector3d(std::cos(angle), std::sin(angle), 0));
  system.add(holonomic("rod", {bob}, [l](const auto& s) { return norm(s[0].position()) - l; }));
  system.add(holonomic("plane", {bob}, [](const auto& s) { return s[0].position().z; }));
  return system;
}

/// Tension T = m (l ω² + g cos θ): the multiplier of the rod pulls.
class Pendulum : public testing::Test {
 protected:
  const ParametricSystem parametric{{"l", "g"}, {length, gravity}, pendulum};
  const System system = pendulum(parametric.values);
  Derivatives derivatives{system, parametric};
  const Vector3d radial{std::sin(angle), -std::cos(angle), 0}, tangent{std::cos(angle), std::sin(angle), 0};
  void SetUp() override { derivatives.evaluate(system.initial_state()); }
  static std::span<const double> numbers(const Vector3d& x) { return {x.data(), 3}; }
  double tension(const InputChange& change) { return -derivatives.forward(change).lambda[0]; }
};

TEST_F(Pendulum, TensionHasItsDerivatives) {
  constexpr double accurate = 1e-11;
  EXPECT_NEAR(-derivatives.dynamics().lambda()[0], mass * (length * rate * rate + gravity * std::cos(angle)), 1e-12);
  // At fixed angle and rate, the length moves the bob and its velocity.
  const Vector3d faster = rate * tangent;
  const std::array longer{1.0, 0.0}, heavier{0.0, 1.0};
  EXPECT_NEAR(tension({.displacement = numbers(radial), .velocity = numbers(faster), .parameters = longer}), 3.38,
              scaled(accurate));
  EXPECT_NEAR(tension({.parameters = heavier}), 1.529684374568977, scaled(accurate));
  const Vector3d turned = length * tangent, turned_velocity = -length * rate * radial;
  EXPECT_NEAR(tension({.displacement = numbers(turned), .velocity = numbers(turned_velocity)}), -12.639551023603499,
              scaled(accurate));
  EXPECT_NEAR(tension({.velocity = numbers(turned)}), 7.8, scaled(accurate));
}

TEST_F(Pendulum, ReverseHasTheSameDerivatives) {
  const std::array weights{-1.0, 0.0};
  const InputGradient& gradient = derivatives.reverse({.lambda = weights});
  EXPECT_NEAR(gradient.parameters[1], 1.529684374568977, scaled(1e-11));
  const Vector3d turned = length * tangent, turned_velocity = -length * rate * radial;
  EXPECT_NEAR(inner(gradient.displacement, numbers(turned)) + inner(gradient.velocity, numbers(turned_velocity)),
              -12.639551023603499, scaled(1e-11));
  EXPECT_NEAR(inner(gradient.velocity, numbers(turned)), 7.8, scaled(1e-11));
  // A pull along the rod increases the tension by the same amount.
  EXPECT_NEAR(inner(gradient.force, numbers(radial)), 1, scaled(1e-12));
}

TEST_F(Pendulum, ForwardDoesNotAllocate) {
  const Vector3d turned = length * tangent;
  const std::array heavier{0.0, 1.0};
  const InputChange change{
      .displacement = numbers(turned), .velocity = numbers(turned), .time = 1, .parameters = heavier};
  derivatives.forward(change);
  derivatives.evaluate(system.initial_state());
  derivatives.forward(change);
  const AllocationCounter allocations;
  derivatives.forward(change);
  EXPECT_EQ(allocations.count(), 0u);
}

// ---- random systems ----

/// What a case fixes beside the state.
struct Modes {
  std::vector<FrictionMode> modes;
  std::vector<Vector6> senses;
};

/// The solution of the equation at a state, with an added force.
class Reference {
 public:
  Reference(const System& system, const Modes& modes) : system_(system), dynamics_(system), modes_(modes) {}
  OutputChange operator()(const State& state, std::span<const double> force) {
    if (!ready_) dynamics_.evaluate(state);
    ready_ = true;
    for (std::size_t i = 0; i < modes_.modes.size(); ++i)
      dynamics_.set_friction_mode(static_cast<int>(i), modes_.modes[i], modes_.senses[i]);
    EXPECT_NE(dynamics_.evaluate(state), Status::invalid) << dynamics_.reason();
    if (!force.empty()) {
      std::vector<double> Q = dynamics_.assembly().problem.Q;
      for (std::size_t j = 0; j < Q.size(); ++j) Q[j] += force[j];
      EXPECT_NE(dynamics_.evaluate(state, Q), Status::invalid) << dynamics_.reason();
    }
    for (std::size_t i = 0; i < modes_.modes.size(); ++i)
      if (modes_.modes[i] == FrictionMode::sticks && !dynamics_.friction_elements()[i].sticks) keeps_modes_ = false;
    // Where several normal forces satisfy the laws, the branch may change. Where constraints nearly hold an element, it
    // sticks with a force beyond all others, and differences lose their digits.
    if (dynamics_.law_report().gain > 0.8) keeps_modes_ = false;
    for (const FrictionElement& e : dynamics_.friction_elements()) keeps_modes_ = keeps_modes_ && e.friction < 300;
    const auto copy = [](std::span<const double> x) { return std::vector<double>(x.begin(), x.end()); };
    return {copy(dynamics_.vdot()), copy(dynamics_.lambda()), copy(dynamics_.ideal()), copy(dynamics_.nonideal()),
            dynamics_.assembly().velocity};
  }
  /// Elements that shall stick have stuck at all states, and the solution is unique.
  bool keeps_modes() const { return keeps_modes_; }

 private:
  const System& system_;
  Dynamics dynamics_;
  Modes modes_;
  bool ready_ = false, keeps_modes_ = true;
};

/// Calls visit(a, b) for each pair of members of two results.
template <class A, class B, class Visit>
void for_each_member(A& a, B& b, Visit visit) {
  visit("vdot", a.vdot, b.vdot);
  visit("lambda", a.lambda, b.lambda);
  visit("ideal", a.ideal, b.ideal);
  visit("nonideal", a.nonideal, b.nonideal);
  visit("velocity residual", a.velocity_residual, b.velocity_residual);
}

/// Extrapolates central differences with four steps to the eighth order.
OutputChange extrapolated(const std::function<OutputChange(double)>& value, double step) {
  std::vector<OutputChange> table;
  for (int level = 0; level < 4; ++level, step /= 2) {
    OutputChange ahead = value(step), behind = value(-step);
    for_each_member(ahead, behind, [&](const char*, std::vector<double>& x, std::vector<double>& y) {
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = (x[i] - y[i]) / (2 * step);
    });
    table.push_back(ahead);
  }
  double power = 1;
  for (std::size_t order = 1; order < 4; ++order) {
    power *= 4;
    for (std::size_t i = 0; i + order < 4; ++i)
      for_each_member(table[i], table[i + 1], [&](const char*, std::vector<double>& x, std::vector<double>& y) {
        for (std::size_t k = 0; k < x.size(); ++k) x[k] = (power * y[k] - x[k]) / (power - 1);
      });
  }
  return table[0];
}

/// A random direction of all inputs.
struct Direction {
  std::vector<double> displacement, velocity, force, parameters;
  double time = 0;
  InputChange change() const {
    return {.displacement = displacement, .velocity = velocity, .force = force, .time = time, .parameters = parameters};
  }
};

struct Options {
  bool keeps_constraints = false;  // Directions are displacements that the rows allow.
  double step = 4e-3;
  double tolerance = 1e-7;
  double transposed = 1e-12;
};

/// Checks derivatives of one system at one state.
class Check {
 public:
  Check(const System& system, ParametricSystem parametric, const State& state, Modes modes, Options options)
      : system_(system),
        parametric_(std::move(parametric)),
        state_(state),
        modes_(std::move(modes)),
        options_(options),
        derivatives_(system, parametric_) {
    for (std::size_t i = 0; i < modes_.modes.size(); ++i)
      derivatives_.set_friction_mode(static_cast<int>(i), modes_.modes[i], modes_.senses[i]);
    derivatives_.evaluate(state_);
  }
  const Derivatives& derivatives() const { return derivatives_; }

  void run(Random& random) {
    for (int part = 0; part < 7; ++part) {
      SCOPED_TRACE("inputs: " + std::to_string(part));
      const Direction d = direction(random, part);
      const OutputChange found = derivatives_.forward(d.change());
      const OutputChange expected = differences(d);
      if (!comparable) return;
      compare(found, expected);
    }
    for (int repeat = 0; repeat < 2; ++repeat) compare_with_transposed(random);
  }

 private:
  const IslandLayout& layout() const { return derivatives_.dynamics().assembly().layout; }
  std::size_t n() const { return static_cast<std::size_t>(layout().n()); }
  std::size_t m() const { return static_cast<std::size_t>(layout().m()); }
  static std::vector<double> numbers(Random& random, std::size_t count) {
    std::vector<double> out(count);
    for (double& x : out) x = random.uniform();
    return out;
  }

  /// @param part  0 to 4: one input, 5: all, 6: the state and one parameter
  Direction direction(Random& random, int part) {
    Direction d;
    const auto filled = [&](int index, std::size_t count) {
      return part == index || part >= 5 ? numbers(random, count) : std::vector<double>(count, 0.0);
    };
    d.displacement = filled(0, n());
    d.velocity = filled(1, n());
    d.force = filled(2, n());
    d.parameters = filled(3, parametric_.values.size());
    d.time = part == 4 || part == 5 ? random.uniform() : 0;
    for (std::size_t k = 1; k < d.parameters.size() && part == 6; ++k) d.parameters[k] = 0;
    if (options_.keeps_constraints)
      for (auto* x : {&d.displacement, &d.velocity}) allow(*x);
    return d;
  }
  void allow(std::vector<double>& x) {
    const ConstrainedProblem& problem = derivatives_.dynamics().assembly().problem;
    for (int repeat = 0; repeat < 2; ++repeat) {
      std::vector<double> e(m(), 0.0), dv(n());
      for (std::size_t r = 0; r < m(); ++r)
        for (int i = problem.row_start[r]; i < problem.row_start[r + 1]; ++i)
          e[r] -= problem.entries[static_cast<std::size_t>(i)].value *
                  x[static_cast<std::size_t>(problem.entries[static_cast<std::size_t>(i)].column)];
      derivatives_.dynamics().solver().apply(e, {}, {}, dv);
      for (std::size_t j = 0; j < n(); ++j) x[j] += dv[j];
    }
  }

  State displaced(const System& system, const Direction& d, double part) const {
    State out = state_;
    for (std::size_t s = 0; s < layout().bodies.size(); ++s) {
      const BodyId id = layout().bodies[s];
      const std::size_t at = static_cast<std::size_t>(layout().column[s]);
      const auto three = [&](const std::vector<double>& x, std::size_t from) {
        return Vector3d(part * x[from], part * x[from + 1], part * x[from + 2]);
      };
      BodyState& body = out[id];
      if (system.kind(id) == BodyKind::coordinate) {
        body.p.x() += part * d.displacement[at];
        body.v.x() += part * d.velocity[at];
        continue;
      }
      body.p += three(d.displacement, at);
      body.v += three(d.velocity, at);
      if (system.kind(id) != BodyKind::rigid) continue;
      advance(body, Vector3d::Zero(), three(d.displacement, at + 3), 1);
      body.w += three(d.velocity, at + 3);
    }
    out.t += part * d.time;
    system.update_kinematic(out);
    return out;
  }

  OutputChange differences(const Direction& d) {
    const bool other_systems = std::any_of(d.parameters.begin(), d.parameters.end(), [](double x) { return x != 0; });
    Reference here(system_, modes_);
    const OutputChange out = extrapolated(
        [&](double part) {
          std::vector<double> force = d.force;
          for (double& f : force) f *= part;
          if (!other_systems) return here(displaced(system_, d, part), force);
          std::vector<double> values = parametric_.values;
          for (std::size_t k = 0; k < values.size(); ++k) values[k] += part * d.parameters[k];
          const System system = parametric_.make(values);
          Reference there(system, modes_);
          const OutputChange value = there(displaced(system, d, part), force);
          comparable = comparable && there.keeps_modes();
          return value;
        },
        options_.step);
    comparable = comparable && here.keeps_modes();
    return out;
  }

  void compare(const OutputChange& found, const OutputChange& expected) {
    for_each_member(found, expected, [&](const char* what, const auto& x, const auto& y) {
      ASSERT_EQ(x.size(), y.size()) << what;
      const double size = 1 + largest(y);
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_NEAR(x[i], y[i], scaled(options_.tolerance * size)) << what << " " << i;
        worst = std::max(worst, std::fabs(x[i] - y[i]) / size);
      }
    });
  }

  void compare_with_transposed(Random& random) {
    const Direction d = direction(random, 5);
    OutputChange w{numbers(random, n()), numbers(random, m()), numbers(random, n()), numbers(random, n()),
                   numbers(random, m())};
    const InputGradient gradient = derivatives_.reverse({.vdot = w.vdot,
                                                         .lambda = w.lambda,
                                                         .ideal = w.ideal,
                                                         .nonideal = w.nonideal,
                                                         .velocity_residual = w.velocity_residual});
    const OutputChange out = derivatives_.forward(d.change());
    const double by_forward = inner(w.vdot, out.vdot) + inner(w.lambda, out.lambda) + inner(w.ideal, out.ideal) +
                              inner(w.nonideal, out.nonideal) + inner(w.velocity_residual, out.velocity_residual);
    const double by_reverse = inner(gradient.displacement, d.displacement) + inner(gradient.velocity, d.velocity) +
                              inner(gradient.force, d.force) + gradient.time * d.time +
                              inner(gradient.parameters, d.parameters);
    double size = 1;  // Of the terms of both sums.
    for_each_member(w, out, [&](const char*, const auto& x, const auto& y) {
      for (std::size_t i = 0; i < x.size(); ++i) size += std::fabs(x[i] * y[i]);
    });
    EXPECT_NEAR(by_forward, by_reverse, scaled(options_.transposed * size));
    worst_transposed = std::max(worst_transposed, std::fabs(by_forward - by_reverse) / size);
  }

  const System& system_;
  ParametricSystem parametric_;
  State state_;
  Modes modes_;
  Options options_;
  Derivatives derivatives_;

 public:
  bool comparable = true;
  double worst = 0, worst_transposed = 0;
};

/// Laws of a joint by a number.
Law law_of(int kind, double mu) {
  switch (kind) {
    case 0:
      return laws::coulomb(1.2 * mu, mu);
    case 1:
      return laws::stribeck({.mu_static = 1.3 * mu, .mu_kinetic = mu, .speed = 0.4, .viscous = 0.1});
    case 2:
      return laws::hinge_friction({.mu_static = mu,
                                   .mu_kinetic = mu,
                                   .pin_radius = 0.1,
                                   .friction_radius = 0.05,
                                   .bending_arm = 0.5,
                                   .preload = 0.1});
    case 3:
      return laws::ball_friction({.mu_static = mu, .mu_kinetic = mu, .pin_radius = 0.1, .preload = 0.1});
    case 4:
      return laws::cylinder_friction({.mu_static = mu, .mu_kinetic = mu, .pin_radius = 0.1, .bending_arm = 0.7});
    case 5:
      return laws::viscous(mu) + laws::viscous_torque(0.3 * mu);
    case 6:
      return laws::regularized_coulomb(mu, 0.3) + laws::drag(0.1);
    case 7:
      return laws::coulomb(mu).with_normal_force(NormalForce::frictionless);
    default:
      return laws::rolling_resistance(0.1 * mu) + laws::lorentz(0.3, {0.1, 0.2, 0.3}, {1, 2, -1});
  }
}

struct RandomCase {
  Blueprint plan;
  Elsewhere place;
  int copies = 1;
  std::vector<int> laws;  // By joint. −1: none.

  /// Parameters: mass of the first body, a component of gravity, and the coefficient of all laws.
  Built make(std::span<const double> values) const {
    Blueprint changed = plan;
    changed.bodies[0].mass = values[0];
    changed.gravity.x() = values[1];
    Built out = build(changed, place, {}, {}, copies);
    for (std::size_t i = 0; i < laws.size(); ++i)
      if (laws[i] >= 0) add_law(out.system, out.constraints[i], law_of(laws[i], values[2]));
    return out;
  }
  ParametricSystem parametric() const {
    return {{"mass", "gravity", "coefficient"},
            {plan.bodies[0].mass, plan.gravity.x(), 0.3},
            [*this](std::span<const double> values) { return std::move(make(values).system); }};
  }
};

RandomCase random_case(Random& random, bool with_laws) {
  RandomCase out;
  out.plan = random_blueprint(random, {.loops = random.integer(0, 1), .most = 4});
  out.place.speed = random.vector(0.5);
  for (std::size_t i = 0; i < out.plan.joints.size(); ++i)
    out.laws.push_back(with_laws && random.coin() ? random.integer(0, 8) : -1);
  return out;
}

Modes random_modes(const System& system, const State& state, Random& random) {
  Dynamics dynamics(system);
  EXPECT_NE(dynamics.evaluate(state), Status::invalid) << dynamics.reason();
  Modes out;
  for (const FrictionElement& e : dynamics.friction_elements()) {
    // Elements whose slip is small stick, and some of the others.
    const bool sticks = e.slip_velocity.norm() < 0.2 || random.integer(0, 2) == 0;
    out.modes.push_back(sticks ? FrictionMode::sticks : FrictionMode::automatic);
    out.senses.push_back(Vector6::Zero());
  }
  // Constraints may make an element slip.
  for (std::size_t i = 0; i < out.modes.size(); ++i) dynamics.set_friction_mode(static_cast<int>(i), out.modes[i]);
  EXPECT_NE(dynamics.evaluate(state), Status::invalid) << dynamics.reason();
  for (std::size_t i = 0; i < out.modes.size(); ++i)
    if (!dynamics.friction_elements()[i].sticks) out.modes[i] = FrictionMode::automatic;
  return out;
}

class RandomSystems : public testing::Test {
 protected:
  template <class Run>
  void each(int count, Run run) {
    for (const auto seed : seeds(count)) {
      SCOPED_TRACE(repeat_with(seed));
      Random random(seed);
      run(random);
      if (HasFatalFailure()) return;
    }
    RecordProperty("worst", std::to_string(worst));
    RecordProperty("worst_transposed", std::to_string(worst_transposed));
  }
  void check(const RandomCase& c, Random& random, Options options) {
    const ParametricSystem parametric = c.parametric();
    const Built built = c.make(parametric.values);
    std::string kinds = "laws:";
    for (std::size_t i = 0; i < c.laws.size(); ++i)
      kinds += " " + std::to_string(c.laws[i]) + " on joint " + std::to_string(static_cast<int>(c.plan.joints[i].kind));
    SCOPED_TRACE(kinds);
    const Modes modes = random_modes(built.system, built.state, random);
    RandomCase once = c;
    once.copies = 1;
    const Built single = once.make(parametric.values);
    Dynamics dynamics(single.system);
    dynamics.evaluate(single.state);
    // The rank of redundant rows is constant along displacements that they allow. Joint friction has a corner where a
    // joint that cannot carry an axial force begins to carry one. Rolling friction has one where the axis of a joint is
    // no longer perpendicular to its normal force.
    const bool has_corners =
        std::any_of(c.laws.begin(), c.laws.end(), [](int law) { return (law >= 2 && law <= 4) || law == 8; });
    options.keeps_constraints = has_corners || !dynamics.solver().full_row_rank();
    if (!dynamics.solver().full_row_rank()) options.step = 4e-4;
    Check one(built.system, parametric, built.state, modes, options);
    one.run(random);
    compared += one.comparable;
    for (const FrictionElement& e : one.derivatives().dynamics().friction_elements())
      if (e.dim > 0 && one.comparable) ++(e.sticks ? sticking : sliding);
    worst = std::max(worst, one.worst);
    worst_transposed = std::max(worst_transposed, one.worst_transposed);
  }
  double worst = 0, worst_transposed = 0;
  int compared = 0, sticking = 0, sliding = 0;
};

TEST_F(RandomSystems, WithIdealConstraints) {
  each(60, [&](Random& random) { check(random_case(random, false), random, {}); });
  EXPECT_EQ(compared, 60);
}

TEST_F(RandomSystems, WithEachRowTwice) {
  each(60, [&](Random& random) {
    RandomCase c = random_case(random, true);
    c.copies = 2;
    for (int& law : c.laws) law = law >= 5 ? law : -1;  // Others read normal forces that two copies share.
    check(c, random, {});
  });
  EXPECT_GT(compared, 50);
}

TEST_F(RandomSystems, WithLaws) {
  each(150, [&](Random& random) { check(random_case(random, true), random, {}); });
  EXPECT_GT(compared, 120);
  EXPECT_GT(sticking, 20);
  EXPECT_GT(sliding, 50);
}

/// Everything that is not in the random systems: coordinates, constraints on velocities and accelerations, kinematic
/// bodies, explicit time, forces, a motor, compliance, and a belt. Parameters: a mass, a stiffness, a frequency.
System varied(std::span<const double> values) {
  const double m = values[0], stiffness = values[1], frequency = values[2];
  System system;
  system.set_gravity({0.3, -9.81, 0.2});
  const BodyId arm = system.add_coordinates({"r", "phi"}, {1.1, 0.4}, {0.3, 0.8}, kinetic_energy(2, [m](const auto& s) {
                                              return 0.5 * m * (square(s.rate[0]) + square(s.q[0] * s.rate[1])) +
                                                     0.3 * s.rate[0] * s.rate[1] * cos(s.q[1]);
                                            }));
  const BodyId driven = system.add_kinematic("driven", {}, [frequency](double t) {
    BodyState s;
    s.p = {0.2 * std::sin(frequency * t + 0.3), 1.2, 0};
    s.v = {0.2 * frequency * std::cos(frequency * t + 0.3), 0, 0};
    s.a = {-0.2 * frequency * frequency * std::sin(frequency * t + 0.3), 0, 0};
    return s;
  });
  Pose pose;
  pose.p = {0.2 * std::sin(0.3) + 0.5, 1.2, 0};
  pose.q = Quaterniond(Eigen::AngleAxisd(0.6, Vector3d(1, 2, 3).normalized()));
  const BodyId body = system.add_body("body", 2 * m, Vector3d(0.2, 0.3, 0.25), pose, {0.1, 0.2, -0.3}, {0.4, 0.7, 0.2});
  const BodyId skate = system.add_particle("skate", 1.5, {1, 0.2, 0.7}, {0.5, 0.1, 0.2});
  system.add(joints::ball("hanger", driven, {0, 0, 0}, body, pose.q.conjugate() * Vector3d(-0.5, 0, 0)));
  system.add(nonholonomic("blade", {skate}, [](const auto& s) {
    return s[0].velocity().x * sin(s.t + 0.2) + s[0].velocity().z * cos(s.t + 0.2) - 0.1 * square(s[0].velocity().y);
  }));
  system.add(on_acceleration("commanded", {body}, [frequency](const auto& s) {
    return s[0].alpha().z + s[0].velocity().z * s[0].position().x - sin(frequency * s.t);
  }));
  const BodyId phi{arm.index + 1};
  system.add(holonomic("coupled", {arm, phi}, [](const auto& s) {
    return s[0].position().x * s[1].position().x + square(s[1].position().x) - 0.6 - 0.1 * sin(2.0 * s.t);
  }));
  system.add(spring("spring", body, {0.1, 0.2, 0.3}, skate, {0, 0, 0}, stiffness, 0.4, 0.7));
  system.add(Force("on r", {arm}, [](ForceFrame& f) {
    f.add_force(0, Vector3d(-2 * std::pow(f[0].p.x(), 3) + std::sin(f.t) - 0.2 * f[0].v.x(), 0, 0));
  }));
  add_compliant(system, joints::rod("bushing", ground, {0.3, 0, 0.1}, body, {0.2, 0.1, 0}, 0.9),
                {.stiffness = stiffness, .damping = 3});
  add_motor(system, holonomic("wheel", {body}, [](const auto& s) { return s[0].position().z; }),
            {.speed = 0.5, .max_force = 4});
  const ConstraintId floor = system.add(holonomic("floor", {skate}, [](const auto& s) {
    return s[0].position().y - 0.2 - 0.05 * square(s[0].position().x - 1.0) * s[0].position().z;
  }));
  add_law(system, floor, laws::coulomb(0.3).on_belt({0.2, 0, 0.6}));
  return system;
}

TEST(Derivatives, HoldForAllKindsOfConstraintsAndForces) {
  const ParametricSystem parametric{{"mass", "stiffness", "frequency"}, {1.3, 20, 2.1}, varied};
  const System system = varied(parametric.values);
  Check check(system, parametric, system.initial_state(), {}, {});
  for (const auto seed : seeds(5)) {
    Random random(seed);
    check.run(random);
  }
  EXPECT_TRUE(check.comparable);
}

TEST(Derivatives, HoldWithTheDenseSolverAndLargerSystems) {
  Random random(3);
  const Blueprint plan = random_blueprint(random, {.friction = true, .loops = 0, .fewest = 12, .most = 12});
  const Built built = build(plan);
  Check check(built.system, {}, built.state, {}, {});
  check.run(random);
  EXPECT_TRUE(check.comparable);
}

// ---- where there are no derivatives ----

/// A block on a rough floor.
System block_on_floor(double speed, double pull) {
  System system;
  system.set_gravity({0, 0, -10});
  const BodyId block = system.add_particle("block", 1, {0, 0, 0}, {speed, 0, 0});
  const ConstraintId floor = system.add(holonomic("floor", {block}, [](const auto& s) { return s[0].position().z; }));
  add_law(system, floor, laws::coulomb(0.5));
  system.add(Force("pull", {block}, [pull](ForceFrame& f) { f.add_force(0, Vector3d(pull, 0, 0)); }));
  return system;
}

TEST(Derivatives, DoNotExistWhereFrictionBeginsToSlide) {
  for (const double pull : {5.0, 6.0}) {
    const System system = block_on_floor(0, pull);
    Derivatives derivatives(system);
    expect_refused([&] { derivatives.evaluate(system.initial_state()); },
                   pull > 5 ? "\"floor\" starts to slide" : "\"floor\" is at its bound");
  }
  const System system = block_on_floor(0, 4);
  Derivatives derivatives(system);
  derivatives.evaluate(system.initial_state());
  const std::array force{1.0, 0.0, 2.0};
  const OutputChange& held = derivatives.forward({.force = force});
  EXPECT_NEAR(held.vdot[0], 0, 1e-15);
  EXPECT_NEAR(held.nonideal[0], -1, scaled(1e-14));
}

TEST(Derivatives, FollowAGivenMode) {
  const System system = block_on_floor(0, 6);
  Derivatives derivatives(system);
  Vector6 sense = Vector6::Zero();
  sense[0] = 1;
  derivatives.set_friction_mode(0, FrictionMode::slips, sense);
  derivatives.evaluate(system.initial_state());
  EXPECT_NEAR(derivatives.dynamics().vdot()[0], 1, 1e-14);
  const std::array force{1.0, 0.0, -2.0};  // A force down increases friction.
  EXPECT_NEAR(derivatives.forward({.force = force}).vdot[0], 1 - 0.5 * 2, scaled(1e-12));
}

TEST(Derivatives, DoNotExistWhereTheRankDrops) {
  // Two rods of the same length, stretched, hold a point between two fixed points: its rows become parallel.
  System system;
  const BodyId p = system.add_particle("p", 1, {0, 0, 0});
  for (const double side : {-1.0, 1.0})
    system.add(joints::rod(side < 0 ? "left" : "right", ground, {side, 0, 0}, p, {0, 0, 0}, 1));
  Derivatives derivatives(system);
  expect_refused([&] { derivatives.evaluate(system.initial_state()); }, "\"right\" drops at this state");
}

TEST(Derivatives, RefuseContradictoryRowsAndWrongSizes) {
  System system;
  const BodyId p = system.add_particle("p", 1, {0, 0, 0});
  system.add(on_acceleration("one", {p}, [](const auto& s) { return s[0].acceleration().x - 1.0; }));
  const ConstraintId two =
      system.add(on_acceleration("two", {p}, [](const auto& s) { return s[0].acceleration().x - 2.0; }));
  Derivatives derivatives(system);
  expect_refused([&] { derivatives.forward({}); }, "Call evaluate() first");
  expect_refused([&] { derivatives.evaluate(system.initial_state()); }, "contradict");
  system.enable(two, false);
  derivatives.evaluate(system.initial_state());
  const std::array wrong{1.0};
  expect_refused([&] { derivatives.forward({.displacement = wrong}); }, "has 1 numbers, but the system has 3");
  expect_refused([&] { derivatives.reverse({.vdot = wrong}); }, "has 1 numbers, but the system has 3");
}

TEST(Derivatives, NameTheParameterWhoseSystemsCannotBeMade) {
  const ParametricSystem parametric{{"mass"}, {1}, [](std::span<const double> values) {
                                      System system;
                                      if (values[0] != 1) throw std::invalid_argument("the mass is 1");
                                      system.add_particle("p", values[0], {0, 0, 0});
                                      return system;
                                    }};
  const System system = parametric.make(parametric.values);
  Derivatives derivatives(system, parametric);
  derivatives.evaluate(system.initial_state());
  const std::array one{1.0};
  expect_refused([&] { derivatives.forward({.parameters = one}); }, "parameter \"mass\": the mass is 1");
}

}  // namespace
}  // namespace linchpin::test::derivatives_test
