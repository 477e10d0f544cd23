// The plain step of stock joints (linchpin/detail/joint_step.h) against the way of all others: the same multipliers,
// the same end of the step, alone and in lanes.
#include "allocation_counter.h"
#include "random.h"

#include <linchpin/detail/joint_step.h>
#include <linchpin/joints.h>
#include <linchpin/stepper.h>

#include <gtest/gtest.h>

#include <deque>

namespace linchpin::test::joint_step_properties_test {
namespace {

constexpr double dt = 1.0 / 240;

/// Bodies hung from each other or from the world by balls, hinges, crosses and welds, here and there closed to a loop.
/// `how` decides which, `where` everything else: mechanisms of one `how` are alike. Constraints hold at the start.
struct Mechanism {
  std::vector<BodyId> bodies;
  std::vector<ConstraintId> joints;
  Mechanism(System& system, const std::string& name, Random& how, Random& where) {
    const int count = how.integer(1, 12);
    const auto at = [&](BodyId id) { return system.initial_state()[id]; };
    const auto join = [&](const std::string& joint, int kind, BodyId a, BodyId b, const Vector3d& Q) {
      const BodyState A = at(a), B = at(b);
      const Vector3d p_A = A.q.conjugate() * (Q - A.p), p_B = B.q.conjugate() * (Q - B.p), u = where.direction();
      const Vector3d u_A = A.q.conjugate() * u, u_B = B.q.conjugate() * u;
      if (kind == 0) return ball(joint, a, p_A, b, p_B);
      if (kind == 1) return hinge(joint, a, p_A, u_A, b, p_B, u_B);
      if (kind == 2) return universal(joint, a, p_A, u_A, b, p_B, B.q.conjugate() * u.unitOrthogonal());
      const Quaterniond axes = where.rotation();
      return weld(joint, a, {p_A, Matrix3d(A.q.conjugate() * axes)}, b, {p_B, Matrix3d(B.q.conjugate() * axes)});
    };
    for (int i = 0; i < count; ++i) {
      const int parent = how.integer(-1, i - 1), kind = how.integer(0, 3);
      const BodyId a = parent < 0 ? world : bodies[static_cast<std::size_t>(parent)];
      const Vector3d Q = at(a).p + where.vector(0.5), p = Q + where.vector(0.5);
      const double m = where.uniform(0.5, 3);
      const Vector3d I = m * Vector3d(where.uniform(0.1, 0.2), where.uniform(0.1, 0.2), where.uniform(0.1, 0.2));
      bodies.push_back(
          system.add_body(name + std::to_string(i), m, I, {p, where.rotation()}, where.vector(0.5), where.vector(0.5)));
      joints.push_back(system.add(join(name + "j" + std::to_string(i), kind, a, bodies.back(), Q)));
    }
    if (count > 5 && how.coin()) {
      const BodyId a = bodies[1], b = bodies.back();
      joints.push_back(system.add(join(name + "loop", 0, a, b, 0.5 * (at(a).p + at(b).p) + where.vector(0.3))));
    }
  }
};

/// A mechanism's block with all that its step needs.
struct Solve {
  Dynamics dynamics;
  detail::JointStep step;
  std::vector<double> Q, applied, newton, v, start, total, mean;
  Solve(const System& system, const Mechanism& mechanism, const State& state, detail::JointShapes& shapes,
        Random& random)
      : dynamics(system, mechanism.joints) {
    const std::size_t n = static_cast<std::size_t>(dynamics.assembly().block.n()),
                      m = static_cast<std::size_t>(dynamics.assembly().block.m());
    for (auto* x : {&Q, &applied, &v}) x->resize(n);
    for (auto* x : {&newton, &start, &total, &mean}) x->resize(m);
    for (double& x : Q) x = random.uniform(-10, 10);
    for (std::size_t j = 0; j < n; ++j) applied[j] = dt * Q[j];
    EXPECT_NE(dynamics.evaluate(state, Q), Status::invalid);
    EXPECT_TRUE(step.lay_out(system, dynamics.assembly().block, shapes));
  }
  detail::JointStep::Job job() {
    std::fill(newton.begin(), newton.end(), 0.0);
    return {.of = &step,
            .numbers = {
                .Q = Q, .applied = applied, .newton = newton, .v = v, .start = start, .total = total, .mean = mean}};
  }
};

constexpr detail::JointStep::Limits limits{
    .dt = dt, .newton_tolerance = 1e-14, .gap_tolerance = 1e-9, .max_solves = 20, .swing = 1, .enough = 0};

TEST(JointStep, IsTheStepOfDynamicsAndNewton) {
  int plain = 0, refused = 0;
  for (const std::uint64_t seed : seeds(300)) {
    SCOPED_TRACE(repeat_with(seed));
    Random how(seed), where(seed + 1000000);
    System system;
    const Mechanism mechanism(system, "a", how, where);
    const State state = system.initial_state();
    detail::JointShapes shapes(1);
    Solve s(system, mechanism, state, shapes, where);
    detail::JointStep::Job job = s.job();
    detail::JointStep::take(state, limits, {&job, 1});
    if (job.outcome.refused) {
      ++refused;
      continue;
    }
    ++plain;
    const Dynamics& d = s.dynamics;
    const std::size_t n = s.v.size(), m = s.start.size();
    std::vector<double> force(n), v(n), lambda(m), pull(n), end_force(n);
    for (std::size_t j = 0; j < n; ++j) force[j] = s.applied[j] + dt * d.ideal()[j];
    d.solver().inverse_mass(force, v);
    for (std::size_t j = 0; j < n; ++j) v[j] += d.assembly().v[j];
    State end = state;
    const NewtonReport newton =
        end_on_constraints(system, d, state, end, dt, v, lambda, end_force, limits.newton_tolerance, 20);
    ASSERT_TRUE(newton.converged);
    double speed = 0, size = 0, mean_size = 0;
    for (std::size_t j = 0; j < n; ++j) speed = std::max({speed, std::abs(v[j]), std::abs(d.assembly().v[j])});
    for (std::size_t r = 0; r < m; ++r) size = std::max(size, std::abs(d.lambda()[r]));
    for (std::size_t j = 0; j < n; ++j) ASSERT_NEAR(s.v[j], v[j], 1e-11 * speed);
    for (std::size_t r = 0; r < m; ++r) {
      ASSERT_NEAR(s.start[r], d.lambda()[r], 1e-10 * size);
      ASSERT_NEAR(s.total[r], dt * d.lambda()[r] + lambda[r], 1e-10 * dt * size);
      mean_size = std::max(mean_size, std::abs(d.assembly().velocity[r]));
    }
    EXPECT_NEAR(job.outcome.off, mean_size, 1e-13 * (1 + mean_size));
    // Work, row by row, against that of the generalized forces with the mean velocities.
    double gain = 0, kinetic = 0;
    for (std::size_t j = 0; j < n; ++j) gain += (dt * d.ideal()[j] + end_force[j]) * 0.5 * (d.assembly().v[j] + v[j]);
    EXPECT_NEAR(job.outcome.gain, gain, 1e-9 * (1 + std::abs(gain)));
    for (std::size_t i = 0; i < mechanism.bodies.size(); ++i)
      kinetic += 0.5 * system.mass(mechanism.bodies[i]) * state[mechanism.bodies[i]].v.squaredNorm();
    EXPECT_NEAR(job.outcome.kinetic, kinetic, 1e-12 * kinetic);
    std::vector<double> mean_force(m);
    for (std::size_t r = 0; r < m; ++r) mean_force[r] = s.total[r] / dt;
    EXPECT_NEAR(job.outcome.swing, dt * fastest_swing(system, d, state, mean_force, 0), 1e-9);
  }
  if (plain + refused > 1) {
    EXPECT_GT(plain, 5 * refused) << refused << " refused";  // of which some swing too far, some are almost singular
  }
}

double scale(const std::vector<double>& x) {
  double most = 0;
  for (const double a : x) most = std::max(most, std::abs(a));
  return most;
}

// In turns with a host's rows: where it has them start, what an impulse of theirs moves, what it takes for the rows to
// keep their rates, and the step's end, each by Dynamics and its solver.
TEST(JointStep, InTurnsIsWhatDynamicsAnswers) {
  int asked = 0;
  for (const std::uint64_t seed : seeds(100)) {
    SCOPED_TRACE(repeat_with(seed));
    Random how(seed), where(seed + 2000000);
    System system;
    const Mechanism mechanism(system, "a", how, where);
    const State state = system.initial_state();
    detail::JointShapes shapes(1);
    Solve s(system, mechanism, state, shapes, where);
    const std::vector<double> v0(s.dynamics.assembly().v);
    detail::JointStep::Job whole = s.job();
    detail::JointStep::take(state, limits, {&whole, 1});
    if (whole.outcome.refused) continue;
    ++asked;
    const std::vector<double> v_whole = s.v, total_whole = s.total;
    const linchpin::Solver& solver = s.dynamics.solver();
    const std::size_t n = s.v.size(), m = s.start.size();
    const double speed = std::max(scale(v0), scale(v_whole));
    ASSERT_EQ(s.step.begin(state, limits.gap_tolerance), nullptr);

    // Where rows start: without an answer to the forces, Newton finds all of it.
    constexpr double near = 1e-9;
    std::vector<double> v(n), expected(n), dv(n), e(m);
    ASSERT_LE(s.step.reach(dt, near, 20, s.applied, v), near);
    solver.inverse_mass(s.applied, expected);
    for (std::size_t j = 0; j < n; ++j) expected[j] += v0[j];
    State end = state;
    ASSERT_TRUE(end_on_constraints(system, s.dynamics, state, end, dt, expected, {}, {}, 1e-13, 20).converged);
    for (std::size_t j = 0; j < n; ++j) ASSERT_NEAR(v[j], expected[j], 20 * near / dt * (1 + speed));

    // What impulses at one body or two move: M⁻¹f − M⁻¹AᵀG⁻¹AM⁻¹f.
    const auto rates = [&](const std::vector<double>& of, std::vector<double>& to) {
      const Instant& x = s.dynamics.assembly().instant;
      std::fill(to.begin(), to.end(), 0.0);
      for (std::size_t r = 0; r < m; ++r)
        for (int k = x.row_start[r]; k < x.row_start[r + 1]; ++k)
          to[r] += x.entries[static_cast<std::size_t>(k)].value *
                   of[static_cast<std::size_t>(x.entries[static_cast<std::size_t>(k)].column)];
    };
    std::vector<detail::JointStep::Push> pushes(3);
    const int bodies = static_cast<int>(mechanism.bodies.size());
    for (detail::JointStep::Push& push : pushes) {
      push.at[0].body = where.integer(0, bodies - 1);
      if (where.coin()) push.at[1].body = where.integer(0, bodies - 1);
      for (auto& at : push.at) at.impulse << where.vector(1), where.vector(1);
    }
    std::vector<double> moves(pushes.size() * n), f(n);
    s.step.move(pushes, moves);
    for (std::size_t i = 0; i < pushes.size(); ++i) {
      std::fill(f.begin(), f.end(), 0.0);
      for (const auto& at : pushes[i].at)
        for (std::size_t j = 0; at.body >= 0 && j < 6; ++j)
          f[6 * static_cast<std::size_t>(at.body) + j] += at.impulse[static_cast<Eigen::Index>(j)];
      solver.inverse_mass(f, expected);
      rates(expected, e);
      for (double& x : e) x = -x;
      solver.apply(e, {}, {}, dv);
      const double size = scale(expected);
      for (std::size_t j = 0; j < n; ++j) ASSERT_NEAR(moves[i * n + j], expected[j] + dv[j], 1e-9 * size);
    }

    // What keeps the rows as fast as they were, wherever bodies have been thrown.
    std::vector<double> thrown(v), rate(m), now(m);
    for (double& x : thrown) x += where.uniform(-1, 1);
    std::vector<double> held(thrown);
    s.step.hold(held);
    rates(v, rate);
    rates(thrown, now);
    for (std::size_t r = 0; r < m; ++r) e[r] = rate[r] - now[r];
    solver.apply(e, {}, {}, dv);
    for (std::size_t j = 0; j < n; ++j) ASSERT_NEAR(held[j], thrown[j] + dv[j], 1e-9 * (1 + speed));

    // And the end is that of the step taken whole.
    detail::JointStep::Job job = s.job();
    s.step.end(limits, job);
    ASSERT_EQ(job.outcome.refused, nullptr);
    for (std::size_t j = 0; j < n; ++j) ASSERT_NEAR(s.v[j], v_whole[j], 1e-13 * speed);
    for (std::size_t r = 0; r < m; ++r) ASSERT_NEAR(s.total[r], total_whole[r], 1e-12 * scale(total_whole));
  }
  EXPECT_GT(asked, 0);
}

// Four alike side by side, with fewer than four, and with one among them that is refused: each comes out as alone.
TEST(JointStep, InLanesIsToTheLastBitWhatItIsAlone) {
  for (const std::uint64_t seed : seeds(100)) {
    SCOPED_TRACE(repeat_with(seed));
    System system;
    std::vector<Mechanism> mechanisms;
    for (int i = 0; i < 4; ++i) {
      Random how(seed), where(seed + 1000000 * static_cast<std::uint64_t>(i + 1));
      mechanisms.emplace_back(system, "m" + std::to_string(i) + " ", how, where);
    }
    State state = system.initial_state();
    state[mechanisms[2].bodies[0]].p += Vector3d(1e-3, 0, 0);  // a gap at the start
    detail::JointShapes shapes(1);
    std::deque<Solve> solves;
    Random random(seed + 77);
    for (const Mechanism& m : mechanisms) solves.emplace_back(system, m, state, shapes, random);
    for (const Solve& s : solves) ASSERT_EQ(s.step.shape(), solves[0].step.shape());
    std::vector<std::vector<double>> alone;
    for (Solve& s : solves) {
      detail::JointStep::Job job = s.job();
      detail::JointStep::take(state, limits, {&job, 1});
      std::vector<double> all;
      if (!job.outcome.refused)
        for (const auto* x : {&s.v, &s.newton, &s.start, &s.total, &s.mean})
          all.insert(all.end(), x->begin(), x->end());
      alone.push_back(all);
    }
    EXPECT_TRUE(alone[2].empty());
    for (std::size_t count = 2; count <= 4; ++count) {
      std::vector<detail::JointStep::Job> jobs;
      for (std::size_t i = 0; i < count; ++i) jobs.push_back(solves[i].job());
      const AllocationCounter allocations;
      detail::JointStep::take(state, limits, jobs);
      EXPECT_EQ(allocations.count(), 0u);
      for (std::size_t i = 0; i < count; ++i) {
        const Solve& s = solves[i];
        EXPECT_EQ(jobs[i].outcome.refused == nullptr, !alone[i].empty());
        if (jobs[i].outcome.refused) continue;
        std::vector<double> all;
        for (const auto* x : {&s.v, &s.newton, &s.start, &s.total, &s.mean})
          all.insert(all.end(), x->begin(), x->end());
        EXPECT_EQ(all, alone[i]);
      }
    }
  }
}

}  // namespace
}  // namespace linchpin::test::joint_step_properties_test
