// The fast step of joints whose rows depend on each other (joint_kernel/joint_island.h) against the general solver: the
// same end of the step, multipliers of least norm (T7), alone and in lanes. It refuses contradictions.
#include "joint_solve.h"
#include "random.h"

#include <linchpin/joints.h>
#include <linchpin/projection.h>

#include <gtest/gtest.h>
#include <Eigen/QR>

#include <deque>
#include <numeric>

namespace linchpin::test::redundant_joints_properties_test {
namespace {

constexpr double dt = joint_step_dt;
constexpr const detail::JointIsland::Limits& limits = joint_step_limits;
using Solve = JointSolve;
using Refusal = detail::JointIsland::Refusal;

/// Mechanisms of which some rows say what others have said: planar loops of hinges, wherever their plane may be, one or
/// several side by side, with a limb or without, bodies welded in rings, joints that are there twice, two balls and a
/// hinge on one line, a body on two rods; and bodies with many joints (make_hub). `how` and `where` as above.
struct Redundant {
  System& system;
  std::string name;
  Random &how, &where;
  std::vector<BodyId> bodies{};
  std::vector<ConstraintId> joints{};

  BodyId body(const Vector3d& p) {
    const double m = where.uniform(0.5, 3);
    const Vector3d I = m * Vector3d(where.uniform(0.1, 0.2), where.uniform(0.1, 0.2), where.uniform(0.1, 0.2));
    bodies.push_back(system.add_body(name + std::to_string(bodies.size()), m, I, {p, where.rotation()},
                                     where.vector(0.5), where.vector(0.5)));
    return bodies.back();
  }
  Vector3d local(BodyId id, const Vector3d& Q) const {
    const BodyState s = system.initial_state()[id];
    return s.q.conjugate() * (Q - s.p);
  }
  Vector3d turned(BodyId id, const Vector3d& u) const { return system.initial_state()[id].q.conjugate() * u; }
  std::string next() const { return name + "j" + std::to_string(joints.size()); }
  void add_ball(BodyId a, BodyId b, const Vector3d& Q) {
    joints.push_back(system.add(joints::ball(next(), a, local(a, Q), b, local(b, Q))));
  }
  void add_hinge(BodyId a, BodyId b, const Vector3d& Q, const Vector3d& u) {
    joints.push_back(system.add(joints::hinge(next(), a, local(a, Q), turned(a, u), b, local(b, Q), turned(b, u))));
  }
  void add_weld(BodyId a, BodyId b, const Vector3d& Q) {
    const Matrix3d axes = where.rotation().toRotationMatrix();
    const State& s = system.initial_state();
    joints.push_back(system.add(joints::weld(next(), a, {local(a, Q), Matrix3d(s[a].q.conjugate() * axes)}, b,
                                             {local(b, Q), Matrix3d(s[b].q.conjugate() * axes)})));
  }
  /// Links from hinge to hinge and back to the first; in one plane all axes are parallel.
  void ring(int hinges, bool grounded, bool planar) {
    const Matrix3d axes = where.rotation().toRotationMatrix();
    std::vector<Vector3d> at;
    std::vector<BodyId> link;
    for (int i = 0; i < hinges; ++i)
      at.push_back(axes * Vector3d(where.uniform(), where.uniform(), planar ? 0 : where.uniform()));
    for (int i = 0; i < hinges; ++i)
      link.push_back(i == 0 && grounded
                         ? ground
                         : body(0.5 * (at[std::size_t(i)] + at[std::size_t((i + 1) % hinges)]) + where.vector(0.2)));
    for (int i = 0; i < hinges; ++i)
      add_hinge(link[std::size_t((i + hinges - 1) % hinges)], link[std::size_t(i)], at[std::size_t(i)],
                planar ? Vector3d(axes.col(2)) : where.direction());
  }
  void windows(int count) {
    const Matrix3d axes = where.rotation().toRotationMatrix();
    const Vector3d bar = axes * Vector3d(where.uniform(-0.5, 0.5), 1, 0);
    BodyId last{};
    for (int i = 0; i <= count; ++i) {
      const Vector3d top = axes * Vector3d(0.7 * i, 0, 0);
      const BodyId b = body(top + 0.5 * bar);
      add_hinge(b, ground, top, axes.col(2));
      if (i > 0) {
        const Vector3d left = top + bar - axes * Vector3d(0.7, 0, 0);
        const BodyId coupler = body(0.5 * (left + top + bar));
        add_hinge(coupler, last, left, axes.col(2));
        add_hinge(coupler, b, top + bar, axes.col(2));
      }
      last = b;
    }
  }
  /// Of bricks, each welded to its neighbours; one of them, or two, to the world.
  void wall(int wide, int high, int deep, int anchors) {
    const Matrix3d axes = where.rotation().toRotationMatrix();
    const auto at = [&](int i, int k, int l) { return std::size_t((l * high + k) * wide + i); };
    for (int l = 0; l < deep; ++l)
      for (int k = 0; k < high; ++k)
        for (int i = 0; i < wide; ++i) {
          const Vector3d p = axes * Vector3d(i, k, l);
          body(p);
          if (i > 0) add_weld(bodies[at(i - 1, k, l)], bodies.back(), p - 0.5 * axes.col(0));
          if (k > 0) add_weld(bodies.back(), bodies[at(i, k - 1, l)], p - 0.5 * axes.col(1));
          if (l > 0) add_weld(bodies[at(i, k, l - 1)], bodies.back(), p - 0.5 * axes.col(2));
        }
    for (int i = 0; i < anchors; ++i) add_weld(i == 0 ? bodies.back() : bodies.front(), ground, where.vector());
  }
  void make() {
    const int kind = how.integer(0, 6);
    if (kind == 0) ring(how.integer(4, 7), how.coin(), true);
    if (kind == 1) windows(how.integer(1, 4));
    if (kind == 2) {  // some twice, and hung up or not
      const int count = how.integer(3, 6);
      const bool hung = how.coin();
      for (int i = 0; i < count; ++i) body(where.vector());
      for (int i = 0; i < count; ++i) {
        const BodyId a = bodies[std::size_t(i)], b = bodies[std::size_t((i + 1) % count)];
        add_weld(a, b, where.vector());
        if (how.coin()) add_weld(a, b, where.vector());
      }
      if (hung) add_ball(ground, bodies[0], where.vector());
    }
    if (kind == 3) {  // every joint of a chain once or twice
      const int count = how.integer(2, 5);
      for (int i = 0; i < count; ++i) {
        const BodyId a = i == 0 ? ground : bodies.back(), b = body(where.vector());
        const Vector3d Q = where.vector(), u = where.direction();
        for (int times = how.integer(1, 2); times > 0; --times) add_hinge(a, b, Q + where.uniform() * u, u);
      }
      add_hinge(bodies[0], bodies[1], where.vector(), where.direction());  // locks them: no more than six rows count
    }
    if (kind == 4) {  // on one line
      const BodyId a = body(where.vector()), b = body(where.vector());
      const Vector3d Q = where.vector(), u = where.direction();
      add_ball(a, b, Q);
      add_ball(a, b, Q + 0.3 * u);
      add_hinge(a, b, Q + 0.7 * u, u);
      if (how.coin()) add_ball(ground, a, where.vector());
    }
    if (kind == 5) {  // and what hangs from it
      const BodyId a = body(where.vector());
      add_ball(a, ground, where.vector());
      add_ball(a, ground, where.vector());
      const BodyId b = body(where.vector());
      add_ball(a, b, where.vector());
    }
    if (kind == 6) {  // two loops with a joint in common, and a limb
      ring(4, true, true);
      const BodyId a = bodies[0], limb = body(where.vector());
      add_ball(a, limb, where.vector());
      add_ball(a, limb, where.vector());
    }
  }
};

/// Likewise about a body of many joints: on parallel bars that hang on the world or on another such body; held by far
/// more than it takes, by limbs that are too, or by all of them the same way; a wheel.
void make_hub(Redundant& of) {
  Random &how = of.how, &where = of.where;
  const int kind = how.integer(0, 5), count = how.integer(9, 12);
  const BodyId hub = of.body(where.vector());
  if (kind <= 1) {
    const Matrix3d axes = where.rotation().toRotationMatrix();
    const Vector3d bar = axes * Vector3d(where.uniform(-0.5, 0.5), 1, 0);
    const BodyId base = kind == 0 ? ground : of.body(where.vector());
    for (int i = 0; i < count; ++i) {
      const Vector3d top = axes * Vector3d(0.3 * i, where.uniform(), 0);
      const BodyId b = of.body(top + 0.5 * bar);
      of.add_hinge(b, base, top, axes.col(2));
      of.add_hinge(hub, b, top + bar, axes.col(2));
    }
    if (kind == 1 && how.coin()) of.add_ball(base, ground, where.vector());
  }
  if (kind == 2) {  // no more than one row in ten tells something
    const bool both = how.coin();
    const BodyId other = both ? of.body(where.vector()) : ground;
    for (int i = 0; i < count; ++i) of.add_weld(i % 3 == 0 ? ground : other, hub, where.vector());
    if (both) of.add_ball(other, of.body(where.vector()), where.vector());
  }
  if (kind == 3) {  // and limbs that are free, hung on once or twice
    for (int i = 0; i < count; ++i) {
      const BodyId b = of.body(where.vector());
      const Vector3d Q = where.vector(), u = where.direction();
      for (int times = i == 0 ? 2 : how.integer(1, 2); times > 0; --times)
        of.add_hinge(hub, b, Q + where.uniform() * u, u);
      if (how.coin()) of.add_ball(b, of.body(where.vector()), where.vector());
    }
    if (how.coin()) of.add_ball(ground, hub, where.vector());
  }
  if (kind == 4) {  // on one line
    const Vector3d Q = where.vector(), u = where.direction();
    for (int i = 0; i < count; ++i) of.add_ball(i % 2 == 0 ? ground : of.body(where.vector()), hub, Q + 0.3 * i * u);
    of.add_hinge(ground, hub, Q, u);
  }
  if (kind == 5) {  // spokes
    std::vector<BodyId> rim;
    for (int i = 0; i < count; ++i) {
      rim.push_back(of.body(where.vector()));
      of.add_weld(hub, rim.back(), where.vector());
      if (i > 0 && how.coin()) of.add_weld(rim[std::size_t(i - 1)], rim.back(), where.vector());
    }
    of.add_weld(rim[0], rim.back(), where.vector());
  }
}

/// Onto the velocity constraints: where some rows follow from others, what they ask for does, too, only there.
void project_state(const System& system, const std::vector<ConstraintId>& joints, State& state) {
  Dynamics dynamics(system, joints, {.backend = Backend::dense});
  dynamics.evaluate(state, std::vector<double>(static_cast<std::size_t>(dynamics.assembly().layout.n())));
  for (int i = 0; i < 2; ++i) {
    project_velocities(system, dynamics, state);
    dynamics.evaluate(state, std::vector<double>(static_cast<std::size_t>(dynamics.assembly().layout.n())));
  }
}

/// λ of least norm among those with the same Aᵀλ.
Eigen::VectorXd shortest(const ConstrainedProblem& problem, const std::vector<double>& lambda) {
  Eigen::MatrixXd At = Eigen::MatrixXd::Zero(problem.n(), problem.m());
  for (int r = 0; r < problem.m(); ++r)
    for (int k = problem.row_start[std::size_t(r)]; k < problem.row_start[std::size_t(r) + 1]; ++k)
      At(problem.entries[std::size_t(k)].column, r) = problem.entries[std::size_t(k)].value;
  Eigen::CompleteOrthogonalDecomposition<Eigen::MatrixXd> qr(At.rows(), At.cols());
  qr.setThreshold(1e-9);
  qr.compute(At);
  return qr.solve(At * Eigen::Map<const Eigen::VectorXd>(lambda.data(), At.cols()));
}

/// Of a step that was taken, against Dynamics and solve_end_of_step: the same velocities, the multipliers of least
/// norm.
void expect_step_of_dynamics(const System& system, const State& state, const Solve& s,
                             const detail::JointIsland::Outcome& outcome, double newton_tolerance, double least_speed) {
  const Dynamics& d = s.dynamics;
  const std::size_t n = s.v.size(), m = s.start.size();
  std::vector<double> force(n), v(n), lambda(m), end_force(n);
  for (std::size_t j = 0; j < n; ++j) force[j] = s.applied[j] + dt * d.ideal()[j];
  d.solver().inverse_mass(force, v);
  for (std::size_t j = 0; j < n; ++j) v[j] += d.assembly().v[j];
  State end = state;
  const NewtonReport newton = solve_end_of_step(system, d, state, end, dt, v, lambda, end_force, newton_tolerance, 20);
  ASSERT_TRUE(newton.converged);
  for (std::size_t r = 0; r < m; ++r) lambda[r] += dt * d.lambda()[r];
  const Eigen::VectorXd total = d.solver().full_row_rank()
                                    ? Eigen::VectorXd(Eigen::Map<const Eigen::VectorXd>(lambda.data(), Eigen::Index(m)))
                                    : shortest(d.assembly().problem, lambda);
  double speed = least_speed, size = 0, mean_size = 0;
  for (std::size_t j = 0; j < n; ++j) speed = std::max({speed, std::abs(v[j]), std::abs(d.assembly().v[j])});
  for (std::size_t r = 0; r < m; ++r) size = std::max(size, std::abs(d.lambda()[r]));
  const double impulse = std::max(dt * size, least_speed);  // of a kilogram
  for (std::size_t j = 0; j < n; ++j) ASSERT_NEAR(s.v[j], v[j], 1e-11 * speed);
  for (std::size_t r = 0; r < m; ++r) {
    ASSERT_NEAR(s.start[r], d.lambda()[r], 1e-10 * size);
    ASSERT_NEAR(s.total[r], total[Eigen::Index(r)], 1e-10 * impulse);
    ASSERT_NEAR(s.newton[r], s.total[r] - dt * s.start[r], 1e-13 * impulse);
    mean_size = std::max(mean_size, std::abs(d.assembly().velocity[r]));
  }
  EXPECT_NEAR(outcome.velocity_error, mean_size, 1e-13 * (1 + mean_size));
  // Work, row by row, against that of the generalized forces with the mean velocities.
  double gain = 0, kinetic = 0;
  for (std::size_t j = 0; j < n; ++j) gain += (dt * d.ideal()[j] + end_force[j]) * 0.5 * (d.assembly().v[j] + v[j]);
  EXPECT_NEAR(outcome.constraint_work, gain, 1e-9 * (1 + std::abs(gain)));
  for (const BodyId id : d.assembly().layout.bodies) kinetic += 0.5 * system.mass(id) * state[id].v.squaredNorm();
  EXPECT_NEAR(outcome.start_energy, kinetic, 1e-12 * kinetic);
  std::vector<double> mean_force(m);
  for (std::size_t r = 0; r < m; ++r) mean_force[r] = s.total[r] / dt;
  EXPECT_NEAR(outcome.omega_dt, dt * tension_frequency(system, d, state, mean_force, 0), 1e-9);
}

void expect_least_norm(int count, void (*make)(Redundant&), bool settled = true) {
  // They move slowly or not at all: what 1e-14 m left open in either would show, and the rounding of poses does where
  // rows are as near to others as pivots may be: 1e-16 m in a step are 2e-14 m/s, and 300 times that.
  detail::JointIsland::Limits to_rounding = limits;
  to_rounding.newton_tolerance = 0;
  int plain = 0, refused = 0;
  for (const std::uint64_t seed : seeds(count)) {
    SCOPED_TRACE(repeat_with(seed));
    Random how(seed), where(seed + 1000000);
    System system;
    Redundant mechanism{system, "a", how, where};
    make(mechanism);
    State state = system.initial_state();
    if (settled) project_state(system, mechanism.joints, state);
    detail::JointTopologies topologies(1);
    Solve s(system, mechanism.joints, state, topologies, where, {.backend = Backend::dense});
    detail::JointIsland::Job job = s.job();
    detail::JointIsland::solve_steps(state, to_rounding, {&job, 1});
    EXPECT_FALSE(s.dynamics.solver().full_row_rank());
    if (job.outcome.refused()) {
      ++refused;
      continue;
    }
    ++plain;
    expect_step_of_dynamics(system, state, s, job.outcome, to_rounding.newton_tolerance, 1);
    if (testing::Test::HasFatalFailure()) return;
  }
  if (plain + refused > 1) {
    EXPECT_GT(plain, 5 * refused) << refused << " refused";  // as above
  }
}

TEST(RedundantJoints, StepIsThatOfLeastNorm) {
  expect_least_norm(300, [](Redundant& of) { of.make(); });
}

TEST(RedundantJoints, StepOnHubsIsThatOfLeastNorm) { expect_least_norm(200, make_hub); }
TEST(RedundantJoints, StepOnHubsMeetsWhatDisagreesInTheLeastSquares) { expect_least_norm(100, make_hub, false); }

// An island of nothing but welds moves as one body, whatever acts on it and wherever.
TEST(RedundantJoints, WeldsMakeOneBody) {
  detail::JointIsland::Limits to_rounding = limits;
  to_rounding.newton_tolerance = 0;
  for (const std::uint64_t seed : seeds(60)) {
    SCOPED_TRACE(repeat_with(seed));
    Random how(seed), where(seed + 1000000);
    System system;
    Redundant wall{system, "a", how, where};
    wall.wall(how.integer(2, 4), how.integer(1, 4), how.integer(1, 2), how.coin() ? 0 : how.integer(1, 2));
    State state = system.initial_state();
    project_state(system, wall.joints, state);
    detail::JointTopologies topologies(1);
    Solve s(system, wall.joints, state, topologies, where, {.backend = Backend::dense});
    detail::JointIsland::Job job = s.job();
    detail::JointIsland::solve_steps(state, to_rounding, {&job, 1});
    ASSERT_EQ(job.outcome.refusal, Refusal::none);
    expect_step_of_dynamics(system, state, s, job.outcome, to_rounding.newton_tolerance, 1);
    if (HasFatalFailure()) return;
    const std::vector<double> whole(s.v), total(s.total);

    const linchpin::ConstraintFactorization& solver = s.dynamics.solver();
    const ConstrainedProblem& problem = s.dynamics.assembly().problem;
    const std::size_t n = s.v.size(), m = s.start.size(), bodies = wall.bodies.size();
    const auto rates = [&](const std::vector<double>& of) {
      std::vector<double> to(m);
      for (std::size_t r = 0; r < m; ++r)
        for (int k = problem.row_start[r]; k < problem.row_start[r + 1]; ++k)
          to[r] += problem.entries[std::size_t(k)].value * of[std::size_t(problem.entries[std::size_t(k)].column)];
      return to;
    };
    ASSERT_EQ(s.island.factor(state, limits.dt, limits.gap_tolerance), Refusal::none);
    std::vector<double> v(n), thrown(n), e(m), dv(n), expected(n), force(n);
    ASSERT_LE(s.island.find_start_velocities(dt, 1e-12, 20, s.applied, s.Q, v), 1e-12);
    for (std::size_t j = 0; j < n; ++j) thrown[j] = v[j] + where.uniform(-1, 1);
    std::vector<double> held(thrown);
    s.island.project(held);
    const std::vector<double> wanted = rates(v), now = rates(thrown);
    for (std::size_t r = 0; r < m; ++r) e[r] = wanted[r] - now[r];
    solver.apply(e, {}, {}, dv);
    for (std::size_t j = 0; j < n; ++j) ASSERT_NEAR(held[j], thrown[j] + dv[j], 1e-10);

    detail::JointIsland::CompositeMass one;
    ASSERT_TRUE(s.island.composite_body(one));
    std::vector<int> all(bodies);
    std::iota(all.begin(), all.end(), 0);
    s.island.select_response_bodies(all);
    detail::JointIsland::Impulse impulse;
    impulse.at[0] = {where.integer(0, int(bodies) - 1), {}};
    impulse.at[0].impulse << where.vector(1), where.vector(1);
    std::vector<double> moves(n);
    s.island.find_impulse_responses({&impulse, 1}, moves);
    const std::size_t at = std::size_t(impulse.at[0].body);
    for (std::size_t j = 0; j < 6; ++j) force[6 * at + j] = impulse.at[0].impulse[Eigen::Index(j)];
    solver.inverse_mass(force, expected);
    e = rates(expected);
    for (double& x : e) x = -x;
    solver.apply(e, {}, {}, dv);
    const auto arm = [&](std::size_t i) -> Vector3d { return state[wall.bodies[i]].p - one.centre; };
    const Vector3d f = impulse.at[0].impulse.head<3>(),
                   w = one.inverse_inertia * (impulse.at[0].impulse.tail<3>() + arm(at).cross(f));
    for (std::size_t i = 0; i < bodies; ++i) {
      const Vector3d u = one.inverse_mass * f + w.cross(arm(i));
      for (std::size_t j = 0; j < 6; ++j) {
        ASSERT_NEAR(moves[6 * i + j], expected[6 * i + j] + dv[6 * i + j], 1e-10);
        ASSERT_NEAR(moves[6 * i + j], j < 3 ? u[Eigen::Index(j)] : w[Eigen::Index(j) - 3], 1e-12);
      }
    }

    job = s.job();
    s.island.solve_end_of_step(to_rounding, job);
    ASSERT_EQ(job.outcome.refusal, Refusal::none);
    for (std::size_t j = 0; j < n; ++j) ASSERT_NEAR(s.v[j], whole[j], 1e-12);
    for (std::size_t r = 0; r < m; ++r) ASSERT_NEAR(s.total[r], total[r], 1e-11);
  }
}

// Poses kept in single precision leave welds open by 1e-7 m: they are one body, and loops of them redundant, to seven
// digits only. Forces thousands of times what is left of them, as of bricks that lie on each other, are answered all
// the same.
TEST(RedundantJoints, WeldsThatAreOpenByRoundingOfSinglePrecisionAreOneBody) {
  detail::JointIsland::Limits open = limits;
  open.gap_tolerance = 1e-5;
  open.max_omega_dt = 1e9;
  open.newton_tolerance = 1e-9;
  for (const std::uint64_t seed : seeds(60)) {
    SCOPED_TRACE(repeat_with(seed));
    Random how(seed), where(seed + 1000000);
    System system;
    Redundant wall{system, "a", how, where};
    wall.wall(how.integer(2, 4), how.integer(1, 4), how.integer(1, 2), how.coin() ? 0 : how.integer(1, 2));
    State state = system.initial_state();
    project_state(system, wall.joints, state);
    for (const BodyId body : wall.bodies) state[body].p += 1e-7 * where.vector(1);
    detail::JointTopologies topologies(1);
    Solve s(system, wall.joints, state, topologies, where, {.backend = Backend::dense});
    for (std::size_t j = 0; j < s.Q.size(); ++j) s.applied[j] = dt * (s.Q[j] += where.uniform(-1e3, 1e3));
    ASSERT_NE(s.dynamics.evaluate(state, s.Q), Status::invalid);
    detail::JointIsland::Job job = s.job();
    detail::JointIsland::solve_steps(state, open, {&job, 1});
    ASSERT_EQ(job.outcome.refusal, Refusal::none);
    const auto expected = s.dynamics.lambda();
    double size = 0;
    for (const double x : expected) size = std::max(size, std::abs(x));
    for (std::size_t r = 0; r < s.start.size(); ++r) ASSERT_NEAR(s.start[r], expected[r], 1e-5 * size);
  }
}

// Where velocities are off the constraints rows that depend on each other ask for accelerations that do not agree:
// links that move apart across the plane of their loop. As Dynamics has it they are met in the least squares, and
// Newton ends the step on the constraints. Where the step has no such end the fast step is refused: two bars stretched
// between two walls can bend out of their line as far as velocities show, but not go on.
TEST(RedundantJoints, StepMeetsWhatDisagreesInTheLeastSquares) {
  int plain = 0, refused = 0;
  for (const std::uint64_t seed : seeds(50)) {
    SCOPED_TRACE(repeat_with(seed));
    Random how(seed), where(seed + 1000000);
    System system;
    Redundant stretched{system, "a", how, where}, apart{system, "b", how, where};
    const Vector3d u = where.direction(), Q = where.vector();
    const BodyId a = stretched.body(Q + 0.5 * u), b = stretched.body(Q + 1.5 * u);
    stretched.add_ball(ground, a, Q);
    stretched.add_ball(a, b, Q + u);
    stretched.add_ball(b, ground, Q + 2 * u);
    apart.ring(how.integer(4, 7), how.coin(), true);
    State state = system.initial_state();
    project_state(system, stretched.joints, state);
    detail::JointTopologies topologies(1);
    Solve s(system, stretched.joints, state, topologies, where, {.backend = Backend::dense});
    EXPECT_EQ(s.dynamics.evaluate(state, s.Q), Status::contradictory);
    detail::JointIsland::Job job = s.job();
    detail::JointIsland::solve_steps(state, limits, {&job, 1});
    EXPECT_TRUE(job.outcome.refused());

    Solve t(system, apart.joints, state, topologies, where, {.backend = Backend::dense});
    job = t.job();
    detail::JointIsland::solve_steps(state, limits, {&job, 1});
    if (job.outcome.refused()) {
      ++refused;
      continue;
    }
    ++plain;
    expect_step_of_dynamics(system, state, t, job.outcome, limits.newton_tolerance, 1);
    if (HasFatalFailure()) return;
  }
  if (plain + refused > 1) {
    EXPECT_GT(plain, refused);
  }
}

// Two points, two lines or two angles that are held apart by less than what counts as a gap: no Newton ends on both,
// and what it leaves is more than rounding.
TEST(RedundantJoints, StepEndsWhereRowsContradictNoMoreThanByRounding) {
  const Vector3d p(0.3, -0.2, 0.1), q(0.1, 0.2, -0.1), u = Vector3d(1, 2, 3).normalized(),
                                                       w = Vector3d(3, -1, 1).normalized();
  for (const int kind : {0, 1, 2})
    for (const double apart : {0.0, 5e-10}) {
      SCOPED_TRACE(std::to_string(kind) + " apart by " + std::to_string(apart * 1e9) + "e-9");
      System system;
      const Quaterniond turn(Eigen::AngleAxisd(0.7, w));
      const BodyId body =
          system.add_body("body", 2, Vector3d(0.2, 0.3, 0.4), {p - turn * q, turn}, {0.1, 0.2, 0.3}, {0.3, 0.2, -0.4});
      std::vector<ConstraintId> joints;
      for (const double by : {-0.5 * apart, 0.5 * apart}) {
        const std::string name = "row" + std::to_string(joints.size());
        if (kind == 0) joints.push_back(system.add(joints::ball(name, ground, p + by * u, body, q)));
        if (kind == 1)
          joints.push_back(system.add(joints::axis_row(name, ground, Vector3d::Zero(), u, body, q, u.dot(p) + by)));
        if (kind == 2) joints.push_back(system.add(joints::dot_row(name, ground, u, body, w, u.dot(turn * w) + by)));
      }
      State state = system.initial_state();
      project_state(system, joints, state);
      detail::JointTopologies topologies(1);
      Random random(1);
      Solve s(system, joints, state, topologies, random);
      detail::JointIsland::Limits to_rounding = limits;
      to_rounding.newton_tolerance = 0;
      detail::JointIsland::Job job = s.job();
      detail::JointIsland::solve_steps(state, to_rounding, {&job, 1});
      if (apart == 0)
        EXPECT_EQ(job.outcome.refusal, Refusal::none);
      else
        EXPECT_EQ(job.outcome.refusal, Refusal::newton_stalled);
      if (apart == 0) continue;
      // Where Newton is to leave no less than a tenth of that it has an end.
      for (const double tolerance : {1e-10, 1e-12}) {
        to_rounding.newton_tolerance = tolerance;
        job = s.job();
        detail::JointIsland::solve_steps(state, to_rounding, {&job, 1});
        EXPECT_EQ(job.outcome.refusal, tolerance == 1e-10 ? Refusal::none : Refusal::newton_stalled);
        EXPECT_LE(job.outcome.residual, 1.01 * apart);
      }
    }
}

// Of rails that are named before their rungs the rungs are dropped, and carry no other loop: null vectors grow with the
// ladder, and are not worth it. All of it lies near one place, which leaves no doubt about its rank. A ball hangs on
// it: nothing but welds would be one body.
TEST(RedundantJoints, LongLaddersOfWeldsHaveTooLargeANullSpace) {
  for (const int rungs : {3, 240}) {
    SCOPED_TRACE(rungs);
    System system;
    Random how(1), where(1);
    Redundant ladder{system, "a", how, where};
    for (int i = 0; i < 2 * rungs; ++i) ladder.body(where.vector(0.1));
    const auto weld = [&](int a, int b) {
      ladder.add_weld(ladder.bodies[std::size_t(a)], ladder.bodies[std::size_t(b)], where.vector(0.1));
    };
    for (int i = 0; i < rungs; ++i) {
      if (i > 0) weld(2 * i - 2, 2 * i), weld(2 * i - 1, 2 * i + 1);
      weld(2 * i, 2 * i + 1);
    }
    const BodyId last = ladder.bodies.back();
    ladder.add_ball(last, ladder.body(where.vector(0.1)), where.vector(0.1));
    const State state = system.initial_state();
    detail::JointTopologies topologies(1);
    Solve s(system, ladder.joints, state, topologies, where);
    detail::JointIsland::Job job = s.job();
    detail::JointIsland::solve_steps(state, limits, {&job, 1});
    if (rungs < 10)
      EXPECT_EQ(job.outcome.refusal, Refusal::none);
    else
      EXPECT_EQ(job.outcome.refusal, Refusal::null_space_too_large);
  }
}

// In every lane other rows may be the ones that say nothing new: of rings of seven hinges those in a plane have three,
// the others none.
TEST(RedundantJoints, StepInLanesDropsOfEachItsOwnRows) {
  int taken = 0;
  for (const std::uint64_t seed : seeds(100)) {
    SCOPED_TRACE(repeat_with(seed));
    System system;
    std::vector<std::vector<ConstraintId>> joints;
    const bool rings = seed % 2 == 0, hubs = seed % 5 == 0;
    for (int i = 0; i < 4; ++i) {
      Random how(seed), where(seed + 1000000 * static_cast<std::uint64_t>(i + 1));
      Redundant mechanism{system, "m" + std::to_string(i) + " ", how, where};
      if (hubs)
        make_hub(mechanism);
      else if (rings)
        mechanism.ring(7, true, where.coin());
      else
        mechanism.make();
      joints.push_back(mechanism.joints);
    }
    State state = system.initial_state();
    for (const auto& of : joints) project_state(system, of, state);
    detail::JointTopologies topologies(1);
    std::deque<Solve> solves;
    Random random(seed + 77);
    for (const auto& of : joints) solves.emplace_back(system, of, state, topologies, random);
    for (const bool taken_alone : expect_the_same_alone(state, solves)) taken += taken_alone;
  }
  EXPECT_GT(taken, 300);
}

}  // namespace
}  // namespace linchpin::test::redundant_joints_properties_test
