// The fast step of stock joints (joint_kernel/joint_island.h) against the general solver: the same multipliers, the
// same end of the step, alone and in lanes.
#include "joint_solve.h"
#include "random.h"

#include "joint_kernel/joint_island.h"
#include "model/force_rows.h"
#include "model/primitives/gap.h"
#include "model/stock_joints.h"

#include <linchpin/joints.h>
#include <linchpin/projection.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>

namespace linchpin::test::joint_island_properties_test {
namespace {

constexpr double dt = joint_step_dt;
constexpr const detail::JointIsland::Limits& limits = joint_step_limits;
using Solve = JointSolve;
using Refusal = detail::JointIsland::Refusal;

/// Which mechanisms: with a few joints to each body, with bodies that many hang on, or nets, which are long in fill.
enum class Kind { branched, on_hubs, net };

/// Bodies hung from each other or from the world by balls, hinges, crosses and welds, by what slides in lines and
/// planes, and by joints of all primitives, here and there closed to a loop. Hubs hang on the world, on each other, on
/// both or on nothing, with limbs of one body or more that may end on another hub or on the world. `how` decides which,
/// `where` everything else: mechanisms of one `how` are alike. Constraints hold at the start.
struct Mechanism {
  std::vector<BodyId> bodies;
  std::vector<ConstraintId> joints;
  int axes = 0;  // of all joints
  /// @param row_by_row  the same rows in the same order, of each primitive a joint of its own
  Mechanism(System& system, const std::string& name, Random& how, Random& where, Kind of = Kind::branched,
            bool row_by_row = false) {
    const auto at = [&](BodyId id) { return system.initial_state()[id]; };
    const auto add = [&](Constraint made) {
      const JointRows& rows = *detail::rows_of(made.function());
      axes += static_cast<int>(rows.axes.size());
      if (!row_by_row) {
        joints.push_back(system.add(std::move(made)));
        return;
      }
      const BodyId a = made.bodies()[0], b = made.bodies()[1];
      int i = 0;
      const auto part = [&] { return made.name() + " " + std::to_string(i++); };
      for (const JointRows::Point& p : rows.points)
        joints.push_back(system.add(joints::ball(part(), a, p.p_AQ, b, p.p_BQ)));
      for (const JointRows::Axis& l : rows.axes)
        joints.push_back(system.add(joints::axis_row(part(), a, l.p_AQ, l.u_A, b, l.p_BQ, l.d0)));
      for (const JointRows::Dot& d : rows.dots)
        joints.push_back(system.add(joints::dot_row(part(), a, d.u_A, b, d.w_B, d.c)));
    };
    const auto join = [&](const std::string& joint, int kind, BodyId a, BodyId b, const Vector3d& Q) {
      const BodyState A = at(a), B = at(b);
      const auto in_A = [&](const Vector3d& X) -> Vector3d { return A.q.conjugate() * (X - A.p); };
      const auto in_B = [&](const Vector3d& X) -> Vector3d { return B.q.conjugate() * (X - B.p); };
      const Vector3d p_A = in_A(Q), p_B = in_B(Q), u = where.direction();
      const Vector3d u_A = A.q.conjugate() * u, u_B = B.q.conjugate() * u;
      if (kind == 0) return joints::ball(joint, a, p_A, b, p_B);
      if (kind == 1) return joints::hinge(joint, a, p_A, u_A, b, p_B, u_B);
      if (kind == 2) return joints::universal(joint, a, p_A, u_A, b, p_B, B.q.conjugate() * u.unitOrthogonal());
      const Quaterniond turn = where.rotation();
      const JointFrame frame_A{p_A, Matrix3d(A.q.conjugate() * turn)}, frame_B{p_B, Matrix3d(B.q.conjugate() * turn)};
      if (kind == 3) return joints::weld(joint, a, frame_A, b, frame_B);
      const Vector3d x = turn * Vector3d::UnitX(), along = Q + where.uniform(-0.5, 0.5) * x;
      if (kind == 4) return joints::slider(joint, a, {in_A(along), frame_A.axes}, b, frame_B);
      if (kind == 5)
        return joints::cylindrical(joint, a, in_A(along), frame_A.axes.col(0), b, p_B, frame_B.axes.col(0));
      if (kind == 6) return joints::planar(joint, a, in_A(Q + u.cross(x)), u_A, b, p_B, u_B);
      if (kind == 7) return joints::point_on_line(joint, a, in_A(along), frame_A.axes.col(0), b, p_B);
      if (kind == 8) return joints::point_on_plane(joint, a, in_A(Q + u.cross(x)), u_A, b, p_B);
      // Rows at odds with each other in nothing but that each takes something: places, distances and angles anyhow.
      const int points = how.integer(0, 1), most = points == 0 ? 3 : 1, lines = how.integer(1, most);
      JointRows rows;
      if (points > 0) rows.points.push_back({p_A, p_B});
      for (int i = 0; i < lines; ++i) {
        const Vector3d n = points == 0 ? Vector3d(turn * Vector3d::Unit(i)) : where.direction();
        const Vector3d X = Q + where.vector(0.5), Y = points == 0 ? Q : Vector3d(Q + where.vector(0.5));
        rows.axes.push_back({A.q.conjugate() * n, in_A(X), in_B(Y), n.dot(Y - X)});
      }
      for (int i = 0, dots = how.integer(0, 6 - 3 * points - lines - 1); i < std::min(dots, 2); ++i) {
        const Vector3d n = turn * Vector3d::Unit(i), w = where.direction();
        rows.dots.push_back({A.q.conjugate() * n, B.q.conjugate() * w, n.dot(w)});
      }
      return linchpin::joints::joint(joint, a, b, std::move(rows), p_A, p_B);
    };
    const auto add_body = [&](const Vector3d& p) {
      const double m = where.uniform(0.5, 3);
      const Vector3d I = m * Vector3d(where.uniform(0.1, 0.2), where.uniform(0.1, 0.2), where.uniform(0.1, 0.2));
      bodies.push_back(system.add_body(name + std::to_string(bodies.size()), m, I, {p, where.rotation()},
                                       where.vector(0.5), where.vector(0.5)));
      return bodies.back();
    };
    const auto next = [&] { return name + "j" + std::to_string(joints.size()); };
    const auto hang = [&](BodyId a, int kind) {
      const Vector3d Q = at(a).p + where.vector(0.5);
      const BodyId b = add_body(Q + where.vector(0.5));
      add(join(next(), kind, a, b, Q));
      return b;
    };
    if (of == Kind::on_hubs) {
      const int hubs = how.integer(1, 3);
      for (int i = 0; i < hubs; ++i) add_body(where.vector());
      for (int i = 0; i < hubs; ++i) {
        const BodyId hub = bodies[static_cast<std::size_t>(i)];
        if (how.coin()) add(join(next(), how.integer(0, 2), ground, hub, at(hub).p + where.vector(0.5)));
        if (i > 0 && how.coin()) {
          const BodyId before = bodies[static_cast<std::size_t>(i - 1)];
          add(join(next(), how.coin() ? 0 : 7, before, hub, 0.5 * (at(before).p + at(hub).p) + where.vector(0.3)));
        }
        for (int limbs = how.integer(9, 12), k = 0; k < limbs; ++k) {
          const int parts = how.integer(1, 3);
          BodyId last = hub;
          for (int part = 0; part < parts; ++part) last = hang(last, how.integer(0, parts > 1 ? 2 : 9));
          if (parts < 3 || k % 3 > 0) continue;
          const int to = how.integer(-1, i - 1);
          const BodyId end = to < 0 ? ground : bodies[static_cast<std::size_t>(to)];
          add(join(next(), 8, end, last, 0.5 * (at(end).p + at(last).p) + where.vector(0.3)));
        }
      }
      return;
    }
    if (of == Kind::net) {
      const int length = how.integer(6, 10), width = how.integer(6, 10);
      const auto tie = [&](BodyId a, BodyId b, const Vector3d& Q) { add(join(next(), 0, a, b, Q)); };
      for (int i = 0; i < length; ++i)
        for (int k = 0; k < width; ++k) {
          const BodyId b = add_body(Vector3d(i, k, 0) + where.vector(0.2));
          for (const int back : {1, width}) {
            if (back == 1 ? k == 0 : i == 0) continue;
            const BodyId a = bodies[bodies.size() - 1 - static_cast<std::size_t>(back)];
            tie(a, b, 0.5 * (at(a).p + at(b).p) + where.vector(0.2));
          }
        }
      for (const BodyId corner : {bodies.front(), bodies[static_cast<std::size_t>(width - 1)]})
        tie(ground, corner, at(corner).p + where.vector(0.5));
      return;
    }
    const int count = how.integer(1, 12);
    for (int i = 0; i < count; ++i) {
      const int parent = how.integer(-1, i - 1), kind = how.integer(0, 9);
      hang(parent < 0 ? ground : bodies[static_cast<std::size_t>(parent)], kind);
    }
    if (count > 5 && how.coin()) {
      const BodyId a = bodies[1], b = bodies.back();
      add(join(name + "loop", how.coin() ? 0 : 7, a, b, 0.5 * (at(a).p + at(b).p) + where.vector(0.3)));
    }
  }
};

void expect_step_of_dynamics_and_newton(Kind of, int count) {
  int plain = 0, refused = 0, with_axes = 0;
  for (const std::uint64_t seed : seeds(count)) {
    SCOPED_TRACE(repeat_with(seed));
    Random how(seed), where(seed + 1000000);
    System system;
    const Mechanism mechanism(system, "a", how, where, of);
    const State state = system.initial_state();
    detail::JointTopologies topologies(1);
    Solve s(system, mechanism.joints, state, topologies, where);
    detail::JointIsland::Job job = s.job();
    detail::JointIsland::solve_steps(state, limits, {&job, 1});
    if (job.outcome.refused()) {
      ++refused;
      // A wrong entry of G would show as a residual, or as a Newton that is slow; so do rows that contradict each
      // other, and those that are near depending on each other, which they stop or start within the step.
      const Refusal why = job.outcome.refusal;
      const bool slow = why == Refusal::newton_stalled &&
                        (!s.dynamics.solver().full_row_rank() || s.dynamics.solver().info().smallest_pivot < 1e-4);
      EXPECT_TRUE(why == Refusal::rank_unclear || why == Refusal::step_too_long || slow) << static_cast<int>(why);
      continue;
    }
    ++plain;
    with_axes += mechanism.axes > 0;
    const Dynamics& d = s.dynamics;
    const std::size_t n = s.v.size(), m = s.start.size();
    std::vector<double> force(n), v(n), lambda(m), end_force(n);
    for (std::size_t j = 0; j < n; ++j) force[j] = s.applied[j] + dt * d.ideal()[j];
    d.solver().inverse_mass(force, v);
    for (std::size_t j = 0; j < n; ++j) v[j] += d.assembly().v[j];
    State end = state;
    const NewtonReport newton =
        solve_end_of_step(system, d, state, end, dt, v, lambda, end_force, limits.newton_tolerance, 20);
    ASSERT_TRUE(newton.converged);
    double speed = 0, size = 0, mean_size = 0;
    for (std::size_t j = 0; j < n; ++j) speed = std::max({speed, std::abs(v[j]), std::abs(d.assembly().v[j])});
    for (std::size_t r = 0; r < m; ++r) size = std::max(size, std::abs(d.lambda()[r]));
    for (std::size_t j = 0; j < n; ++j) ASSERT_NEAR(s.v[j], v[j], 1e-11 * speed);
    // Each Newton leaves as much of φ open as its tolerance, which where rows are almost dependent is worth impulses of
    // ‖G⁻¹‖∞ tolerance / dt, and hardly moves a body.
    std::vector<double> unit(m), column(m), sums(m), none(n);
    for (std::size_t r = 0; r < m; ++r) {
      unit[r] = 1;
      d.solver().apply(unit, column, {}, none);
      unit[r] = 0;
      for (std::size_t k = 0; k < m; ++k) sums[k] += std::abs(column[k]);
    }
    const double open_impulse = 2 * *std::max_element(sums.begin(), sums.end()) * limits.newton_tolerance / dt;
    for (std::size_t r = 0; r < m; ++r) {
      ASSERT_NEAR(s.start[r], d.lambda()[r], 1e-10 * size);
      ASSERT_NEAR(s.total[r], dt * d.lambda()[r] + lambda[r], 1e-10 * dt * size + open_impulse);
      mean_size = std::max(mean_size, std::abs(d.assembly().velocity[r]));
    }
    EXPECT_NEAR(job.outcome.velocity_error, mean_size, 1e-13 * (1 + mean_size));
    // What each joint does to its bodies, and moves along: its rows of Aᵀ and A.
    for (int i = 0; i < static_cast<int>(d.assembly().layout.constraints.size()); ++i) {
      const int first = d.assembly().layout.row[static_cast<std::size_t>(i)],
                rows = d.assembly().layout.row[static_cast<std::size_t>(i) + 1] - first;
      for (int k = 0; k < 2; ++k) {
        const auto J = d.assembly().jacobian(i, k);
        for (int c = 0; c < 6; ++c) {
          double sum = 0;
          for (int r = 0; r < rows; ++r)
            sum += J[static_cast<std::size_t>(6 * r + c)] * s.total[static_cast<std::size_t>(first + r)];
          ASSERT_NEAR(s.pull[static_cast<std::size_t>(12 * i + 6 * k + c)], sum, 1e-12 * dt * size);
        }
      }
    }
    // Work, row by row, against that of the generalized forces with the mean velocities.
    double gain = 0, kinetic = 0;
    for (std::size_t j = 0; j < n; ++j) gain += (dt * d.ideal()[j] + end_force[j]) * 0.5 * (d.assembly().v[j] + v[j]);
    EXPECT_NEAR(job.outcome.constraint_work, gain, 1e-9 * (1 + std::abs(gain)));
    for (std::size_t i = 0; i < mechanism.bodies.size(); ++i)
      kinetic += 0.5 * system.mass(mechanism.bodies[i]) * state[mechanism.bodies[i]].v.squaredNorm();
    EXPECT_NEAR(job.outcome.start_energy, kinetic, 1e-12 * kinetic);
    std::vector<double> mean_force(m);
    for (std::size_t r = 0; r < m; ++r) mean_force[r] = s.total[r] / dt;
    // A force swings a body by where it acts, which each primitive knows for itself, and a joint for all of them.
    System parts;
    Random how_again(seed), where_again(seed + 1000000);
    const Mechanism same(parts, "a", how_again, where_again, of, true);
    Dynamics by_rows(parts, same.joints);
    ASSERT_NE(by_rows.evaluate(parts.initial_state(), s.Q), Status::invalid);
    for (std::size_t r = 0; r < m; ++r) ASSERT_NEAR(by_rows.lambda()[r], d.lambda()[r], 1e-10 * size);
    EXPECT_NEAR(job.outcome.omega_dt, dt * tension_frequency(parts, by_rows, parts.initial_state(), mean_force, 0),
                1e-9);
    // Where a bound of it will do, none swings faster than that says.
    detail::JointIsland::Limits looser = limits;
    looser.coarse_omega_dt = 1e9;
    detail::JointIsland::Job bounded = s.job();
    detail::JointIsland::solve_steps(state, looser, {&bounded, 1});
    EXPECT_GE(bounded.outcome.omega_dt, job.outcome.omega_dt * (1 - 1e-12));
  }
  if (plain + refused > 1) {
    EXPECT_GT(plain, 5 * refused) << refused << " refused";  // of which some swing too far, some are almost singular
    EXPECT_EQ(with_axes > plain / 2, of != Kind::net);
  }
}

TEST(JointIsland, IsTheStepOfDynamicsAndNewton) { expect_step_of_dynamics_and_newton(Kind::branched, 1000); }

// Bodies that so many joints hang on that they would all meet there.
TEST(JointIsland, OnHubsIsTheStepOfDynamicsAndNewton) { expect_step_of_dynamics_and_newton(Kind::on_hubs, 200); }

// Such nets are eliminated in another order than what has less fill.
TEST(JointIsland, OfNetsIsTheStepOfDynamicsAndNewton) { expect_step_of_dynamics_and_newton(Kind::net, 10); }

// A chain thrown round by much of a radian a step, where chords alone leave a half of what is open, each.
TEST(JointIsland, LearnsFromItsOwnChordsWhereRowsTurnFar) {
  System system;
  std::vector<ConstraintId> joints;
  constexpr int links = 12;
  const Vector3d w(0, 0, 90), I(0.1, 0.2, 0.25);  // [rad/s, kg m²]
  BodyId last = ground;
  for (int i = 0; i < links; ++i) {
    const Vector3d anchor(i, i % 2, 0), end(i + 1, (i + 1) % 2, 0), p = 0.5 * (anchor + end);
    const BodyId b =
        system.add_body("b" + std::to_string(i), 1 + i % 3, I, {p, Quaterniond::Identity()}, w.cross(p), w);
    const Vector3d in_last = last == ground ? anchor : Vector3d(anchor - system.initial_state()[last].p);
    joints.push_back(system.add(joints::ball("j" + std::to_string(i), last, in_last, b, anchor - p)));
    last = b;
  }
  const State state = system.initial_state();
  detail::JointTopologies topologies(1);
  Random random(1);
  Solve s(system, joints, state, topologies, random);
  detail::JointIsland::Limits far = limits;
  far.max_omega_dt = 1e9;
  detail::JointIsland::Job job = s.job();
  detail::JointIsland::solve_steps(state, far, {&job, 1});
  ASSERT_EQ(job.outcome.refusal, Refusal::none);
  State end = state;
  for (std::size_t i = 0; i < links; ++i) {
    const BodyId id = s.dynamics.assembly().layout.bodies[i];
    const Eigen::Map<const Vector3d> v(s.v.data() + 6 * i), turn(s.v.data() + 6 * i + 3);
    advance(end[id], v, turn, dt);
  }
  for (const ConstraintId id : joints) {
    const Constraint& joint = system.constraint(id);
    const std::array<BodyState, 2> at{end[joint.bodies()[0]], end[joint.bodies()[1]]};
    std::array<double, 3> phi{};
    joint.function().residual(at, 0, phi);
    for (const double x : phi) EXPECT_LE(std::abs(x), 1e-13);
  }
}

// The gyroscopic torque of a body is that of the mean of its velocities at the start and at the end of the step. Its
// impulse has the same effect as if it had been among the applied impulses, alone and in lanes.
TEST(JointIsland, AddsGyroscopicTorque) {
  int taken = 0;
  for (const std::uint64_t seed : seeds(50)) {
    SCOPED_TRACE(repeat_with(seed));
    System system;
    std::vector<Mechanism> mechanisms;
    Random where(seed + 3000000);
    for (int i = 0; i < 4; ++i) {
      Random how(seed);
      mechanisms.emplace_back(system, std::string(1, static_cast<char>('a' + i)), how, where);
    }
    State state = system.initial_state();
    for (const Mechanism& mechanism : mechanisms)
      for (const BodyId id : mechanism.bodies) state[id].w = where.vector(15);
    detail::JointTopologies topologies(1);
    std::deque<Solve> solves;
    for (const Mechanism& mechanism : mechanisms) {
      Solve& s = solves.emplace_back(system, mechanism.joints, state, topologies, where);
      for (std::size_t k = 0; k < mechanism.bodies.size(); ++k)
        if (where.coin()) s.gyroscopic.push_back(static_cast<int>(k));
      detail::JointIsland::Job with = s.job();
      detail::JointIsland::solve_steps(state, limits, {&with, 1});
      const std::vector<double> v(s.v), start(s.start);
      const std::vector<int> slots = std::exchange(s.gyroscopic, {});
      const std::vector<double> applied(s.applied);
      double spun = 0;
      for (const int slot : slots) {
        const std::size_t k = static_cast<std::size_t>(slot);
        const BodyId id = s.dynamics.assembly().layout.bodies[k];
        const Matrix3d R = state[id].R(), I = R * system.inertia(id) * R.transpose();
        const Vector3d mean = 0.5 * (state[id].w + Eigen::Map<const Vector3d>(v.data() + 6 * k + 3));
        const Vector3d impulse = -dt * mean.cross(I * mean);
        Eigen::Map<Vector3d>(s.applied.data() + 6 * k + 3) += impulse;
        spun = std::max(spun, (I.inverse() * impulse).norm());
      }
      detail::JointIsland::Job without = s.job();
      detail::JointIsland::solve_steps(state, limits, {&without, 1});
      EXPECT_EQ(with.outcome.refused(), without.outcome.refused());
      if (!with.outcome.refused() && !without.outcome.refused()) {
        taken += spun > 0.01;
        double speed = with.outcome.largest_velocity;  // joints may leave none of it, but its rounding
        for (const double x : v) speed = std::max(speed, std::abs(x));
        double size = 0;
        for (const double x : start) size = std::max(size, std::abs(x));
        for (std::size_t j = 0; j < v.size(); ++j) ASSERT_NEAR(v[j], s.v[j], 1e-10 * speed);
        for (std::size_t r = 0; r < start.size(); ++r) ASSERT_NEAR(start[r], s.start[r], 1e-10 * size);
      }
      s.applied = applied;
      s.gyroscopic = slots;
    }
    expect_the_same_alone(state, solves);
  }
  EXPECT_GT(taken, 20);
}

double scale(const std::vector<double>& x) {
  double most = 0;
  for (const double a : x) most = std::max(most, std::abs(a));
  return most;
}

// The gaps from packed parameters are those of the residuals.
TEST(JointIsland, MeasuresGapsFromPackedParameters) {
  for (int seed = 0; seed < 20; ++seed) {
    Random random(static_cast<unsigned>(seed));
    const auto point = [&] { return Vector3d(random.direction() * 0.7); };
    JointRows given;
    for (int i = 0; i < seed % 3; ++i) given.points.push_back({point(), point()});
    for (int i = 0; i < seed % 4; ++i) given.axes.push_back({point(), point(), point(), 0.3});
    for (int i = 0; i < seed % 2; ++i) given.dots.push_back({point(), point(), 0.1});
    if (given.points.empty() && given.axes.empty() && given.dots.empty()) continue;
    const Constraint made = joints::joint("joint", ground, BodyId{1}, given, Vector3d::Zero(), Vector3d::Zero());
    const JointRows& rows = *detail::rows_of(made.function());
    std::array<BodyState, 2> X;
    for (BodyState& body : X) {
      body.p = point();
      body.q = Eigen::Quaterniond(Eigen::AngleAxisd(1.3, random.direction()));
    }
    const auto counts = detail::counts_of(rows);
    std::vector<double> packed(static_cast<std::size_t>(detail::packed_size(counts)));
    ASSERT_EQ(packed.size(), 6 * rows.points.size() + 10 * rows.axes.size() + 7 * rows.dots.size());
    ASSERT_EQ(detail::pack(rows, packed.data()), packed.data() + packed.size());
    struct Pose {
      Vector3d p;
      Eigen::Quaterniond q;
      Vector3d rotate(const Vector3d& u) const { return q * u; }
    };
    const double* from = packed.data();
    const auto gap = detail::gap_of(from, counts, Pose{X[0].p, X[0].q}, Pose{X[1].p, X[1].q});
    EXPECT_EQ(from, packed.data() + packed.size());

    std::vector<double> phi(3 * rows.points.size() + rows.axes.size() + rows.dots.size());
    made.function().residual(X, 0, phi);
    double length = 0, angle = 0;
    for (std::size_t i = 0; i < rows.points.size(); ++i)
      length = std::max(length, Vector3d::Map(phi.data() + 3 * i).norm());
    for (std::size_t i = 3 * rows.points.size(); i < phi.size(); ++i) {
      double& most = i < 3 * rows.points.size() + rows.axes.size() ? length : angle;
      most = std::max(most, std::fabs(phi[i]));
    }
    EXPECT_EQ(gap.length, length);
    EXPECT_EQ(gap.angle, angle);
  }
}

// A step that is coupled with a host's rows: the velocities with which they start, the motion by one of their impulses,
// the projection that keeps the rates of the rows, and the end of the step. Each is compared with Dynamics.
TEST(JointIsland, CoupledIsWhatDynamicsComputes) {
  int asked = 0;
  for (const std::uint64_t seed : seeds(100)) {
    SCOPED_TRACE(repeat_with(seed));
    Random how(seed), where(seed + 2000000);
    System system;
    const Mechanism mechanism(system, "a", how, where, seed % 2 == 0 ? Kind::on_hubs : Kind::branched);
    const State state = system.initial_state();
    detail::JointTopologies topologies(1);
    Solve s(system, mechanism.joints, state, topologies, where);
    const std::vector<double> v0(s.dynamics.assembly().v);
    detail::JointIsland::Job whole = s.job();
    detail::JointIsland::solve_steps(state, limits, {&whole, 1});
    if (whole.outcome.refused()) continue;
    ++asked;
    const std::vector<double> v_whole = s.v, total_whole = s.total;
    const linchpin::ConstraintFactorization& solver = s.dynamics.solver();
    const std::size_t n = s.v.size(), m = s.start.size();
    const double speed = std::max(scale(v0), scale(v_whole));
    ASSERT_EQ(s.island.factor(state, limits.dt, limits.gap_tolerance), Refusal::none);

    // Where rows start: without an answer to the forces, Newton finds all of it.
    constexpr double near = 1e-9;
    std::vector<double> v(n), expected(n), dv(n), e(m);
    ASSERT_LE(s.island.find_start_velocities(dt, near, 20, s.applied, {}, v), near);
    const std::vector<double> without(v);
    ASSERT_LE(s.island.find_start_velocities(dt, near, 20, s.applied, s.Q, v), near);
    for (std::size_t j = 0; j < n; ++j) ASSERT_NEAR(v[j], without[j], 20 * near / dt * (1 + speed));
    solver.inverse_mass(s.applied, expected);
    for (std::size_t j = 0; j < n; ++j) expected[j] += v0[j];
    State end = state;
    ASSERT_TRUE(solve_end_of_step(system, s.dynamics, state, end, dt, expected, {}, {}, 1e-13, 20).converged);
    for (std::size_t j = 0; j < n; ++j) ASSERT_NEAR(v[j], expected[j], 20 * near / dt * (1 + speed));

    // What impulses at one body or two move: M⁻¹f − M⁻¹AᵀG⁻¹AM⁻¹f.
    const auto rates = [&](const std::vector<double>& of, std::vector<double>& to) {
      const ConstrainedProblem& x = s.dynamics.assembly().problem;
      std::fill(to.begin(), to.end(), 0.0);
      for (std::size_t r = 0; r < m; ++r)
        for (int k = x.row_start[r]; k < x.row_start[r + 1]; ++k)
          to[r] += x.entries[static_cast<std::size_t>(k)].value *
                   of[static_cast<std::size_t>(x.entries[static_cast<std::size_t>(k)].column)];
    };
    std::vector<int> some;  // bodies that are looked at
    for (int body = 0; body < static_cast<int>(mechanism.bodies.size()); ++body)
      if (where.coin()) some.push_back(body);
    if (some.empty()) some.push_back(0);
    const auto one = [&] {
      return some[static_cast<std::size_t>(where.integer(0, static_cast<int>(some.size()) - 1))];
    };
    std::vector<detail::JointIsland::Impulse> impulses(3);
    for (detail::JointIsland::Impulse& impulse : impulses) {
      impulse.at[0].body = one();
      if (where.coin()) impulse.at[1].body = one();
      for (auto& at : impulse.at) at.impulse << where.vector(1), where.vector(1);
    }
    std::vector<double> moves(impulses.size() * 6 * some.size()), f(n);
    s.island.select_response_bodies(some);
    s.island.find_impulse_responses(impulses, moves);
    for (std::size_t i = 0; i < impulses.size(); ++i) {
      std::fill(f.begin(), f.end(), 0.0);
      for (const auto& at : impulses[i].at)
        for (std::size_t j = 0; at.body >= 0 && j < 6; ++j)
          f[6 * static_cast<std::size_t>(at.body) + j] += at.impulse[static_cast<Eigen::Index>(j)];
      solver.inverse_mass(f, expected);
      rates(expected, e);
      for (double& x : e) x = -x;
      solver.apply(e, {}, {}, dv);
      const double size = scale(expected);
      for (std::size_t k = 0; k < some.size(); ++k)
        for (std::size_t j = 0, at = 6 * static_cast<std::size_t>(some[k]); j < 6; ++j, ++at)
          ASSERT_NEAR(moves[6 * (i * some.size() + k) + j], expected[at] + dv[at], 1e-9 * size);
    }

    // What keeps the rows as fast as they were, wherever bodies have been thrown.
    std::vector<double> thrown(v), rate(m), now(m);
    for (double& x : thrown) x += where.uniform(-1, 1);
    std::vector<double> held(thrown);
    s.island.project(held);
    rates(v, rate);
    rates(thrown, now);
    for (std::size_t r = 0; r < m; ++r) e[r] = rate[r] - now[r];
    solver.apply(e, {}, {}, dv);
    for (std::size_t j = 0; j < n; ++j) ASSERT_NEAR(held[j], thrown[j] + dv[j], 1e-9 * (1 + speed));

    // And the end is that of the step taken whole.
    detail::JointIsland::Job job = s.job();
    s.island.solve_end_of_step(limits, job);
    ASSERT_EQ(job.outcome.refusal, Refusal::none);
    for (std::size_t j = 0; j < n; ++j) ASSERT_NEAR(s.v[j], v_whole[j], 1e-13 * speed);
    for (std::size_t r = 0; r < m; ++r) ASSERT_NEAR(s.total[r], total_whole[r], 1e-12 * scale(total_whole));
  }
  EXPECT_GT(asked, 0);
}

// A substep closes its share of a gap.
/// The residuals of all rows of a joint.
std::vector<double> residual_of(const Constraint& joint, const State& state) {
  std::vector<BodyState> X;
  for (const BodyId id : joint.bodies()) X.push_back(state[id]);
  std::vector<double> phi(static_cast<std::size_t>(joint.function().rows()));
  joint.function().residual(X, state.t, phi);
  return phi;
}

// Some joints have springs in place of all rows, or of those in metres. Exact rows end on φ = 0. Springs have the
// impulse of their force at the end of the step.
TEST(JointIsland, EndsOnTheForcesOfSprings) {
  int solved = 0, springs = 0;
  for (const std::uint64_t seed : seeds(300)) {
    SCOPED_TRACE(repeat_with(seed));
    detail::JointTopologies topologies(1);
    System exact, system;  // alike, but for the joints that yield in one of them
    Random how(seed), where(seed + 1000000), how_again(seed), where_again(seed + 1000000);
    const Mechanism mechanism(exact, "m", how, where);
    (void)Mechanism(system, "m", how_again, where_again);
    std::vector<ConstraintId> joints;
    for (const ConstraintId id : mechanism.joints) {
      Compliance compliance{.stiffness = std::pow(10, where.uniform(2, 7)), .damping = where.uniform(0, 100)};
      if (where.coin()) compliance.angular_stiffness = std::pow(10, where.uniform(1, 6));
      const auto& function = exact.constraint(id).function();
      bool yields = where.coin();
      for (int row = 0, any = 0; yields && row < function.rows(); ++row) {
        any += function.unit(row) != RowUnit::radian || std::isfinite(compliance.angular_stiffness);
        if (row + 1 == function.rows()) yields = any > 0;
      }
      if (!yields) {
        joints.push_back(id);
        continue;
      }
      system.remove(id);
      joints.push_back(system.add(detail::compliance_of(exact.constraint(id), compliance).constraint));
    }
    State state = system.initial_state();
    Solve s(system, joints, state, topologies, where);
    std::vector<detail::JointIsland::SpringImpulse> impulses(s.island.springs().size());
    for (int step = 0; step < 3; ++step) {
      detail::JointIsland::Job job = s.job();
      job.vectors.springs = impulses;
      detail::JointIsland::solve_steps(state, limits, {&job, 1});
      if (job.outcome.refused()) break;
      ++solved;
      const State before = state;
      const IslandLayout& layout = s.dynamics.assembly().layout;
      for (std::size_t slot = 0; slot < layout.bodies.size(); ++slot) {
        BodyState& body = state[layout.bodies[slot]];
        const double* const v = &s.v[static_cast<std::size_t>(layout.column[slot])];
        body.v = Vector3d(v[0], v[1], v[2]);
        body.w = Vector3d(v[3], v[4], v[5]);
        advance(body, body.v, body.w, dt);
      }
      std::vector<std::vector<char>> is_spring;
      for (const ConstraintId id : mechanism.joints)
        is_spring.emplace_back(static_cast<std::size_t>(exact.constraint(id).function().rows()), 0);
      for (std::size_t i = 0; i < impulses.size(); ++i, ++springs) {
        const detail::JointIsland::Spring& spring = s.island.springs()[i];
        const auto joint = static_cast<std::size_t>(spring.constraint), row = static_cast<std::size_t>(spring.row);
        is_spring[joint][row] = 1;
        const Constraint& of = exact.constraint(mechanism.joints[joint]);
        const double phi0 = residual_of(of, before)[row], phi1 = residual_of(of, state)[row];
        const double expected = -(dt * spring.stiffness * phi1 + spring.damping * (phi1 - phi0));
        const double kappa = dt * spring.stiffness + spring.damping;
        EXPECT_NEAR(impulses[i].impulse, expected, 1e-12 * kappa + 1e-9 * std::abs(expected)) << i;
      }
      for (std::size_t i = 0; i < mechanism.joints.size(); ++i) {
        const std::vector<double> phi = residual_of(exact.constraint(mechanism.joints[i]), state);
        for (std::size_t row = 0; row < phi.size(); ++row)
          if (!is_spring[i][row]) {
            EXPECT_LE(std::abs(phi[row]), 1e-12) << i;
          }
        // The wrenches of springs are those of the joint where all of its rows yield.
        if (std::find(is_spring[i].begin(), is_spring[i].end(), 0) != is_spring[i].end()) continue;
        Eigen::Matrix<double, 6, 1> sum = Eigen::Matrix<double, 6, 1>::Zero();
        for (std::size_t k = 0; k < impulses.size(); ++k)
          if (s.island.springs()[k].constraint == static_cast<int>(i)) sum += impulses[k].on[0];
        for (std::size_t k = 0; k < 6; ++k)
          EXPECT_NEAR(sum[static_cast<Eigen::Index>(k)], s.pull[12 * i + k], 1e-9 * (1 + sum.norm()));
      }
    }
  }
  EXPECT_GT(solved, 500);
  EXPECT_GT(springs, 1000);
}

TEST(JointIsland, LeavesTheResidualShareThatItIsGiven) {
  int gaps = 0;
  for (const std::uint64_t seed : seeds(100)) {
    SCOPED_TRACE(repeat_with(seed));
    Random how(seed), where(seed + 1000000);
    System system;
    const Mechanism mechanism(system, "a", how, where);
    State state = system.initial_state();
    for (const BodyId id : mechanism.bodies) {
      state[id].p += where.vector(1e-10);
      state[id].q = Quaterniond(Eigen::AngleAxisd(1e-10, where.direction())) * state[id].q;
    }
    detail::JointTopologies topologies(1);
    Solve s(system, mechanism.joints, state, topologies, where);
    detail::JointIsland::Job job = s.job();
    detail::JointIsland::Limits part = limits;
    part.residual_share = 0.75;
    detail::JointIsland::solve_steps(state, part, {&job, 1});
    if (job.outcome.refused()) continue;
    const std::vector<double> start = s.dynamics.assembly().position;
    State end = state;
    for (std::size_t i = 0; i < mechanism.bodies.size(); ++i) {
      BodyState& b = end[mechanism.bodies[i]];
      const double* u =
          s.v.data() + 6 * static_cast<std::size_t>(s.dynamics.assembly().layout.body_index(mechanism.bodies[i]));
      const Vector3d turn = dt * Vector3d(u[3], u[4], u[5]);
      b.p += dt * Vector3d(u[0], u[1], u[2]);
      if (turn.norm() > 0) b.q = Quaterniond(Eigen::AngleAxisd(turn.norm(), turn.normalized())) * b.q;
    }
    ASSERT_NE(s.dynamics.evaluate(end, s.Q), Status::invalid);
    for (std::size_t r = 0; r < start.size(); ++r) {
      ASSERT_NEAR(s.dynamics.assembly().position[r], part.residual_share * start[r], 5 * limits.newton_tolerance);
      gaps += std::abs(start[r]) > 1e-11;
    }
  }
  EXPECT_GT(gaps, 0);
}

// Four alike side by side, with fewer than four, and with one among them that is refused.
TEST(JointIsland, InLanesIsToTheLastBitWhatItIsAlone) {
  int with_axes = 0;
  for (const std::uint64_t seed : seeds(300)) {
    SCOPED_TRACE(repeat_with(seed));
    System system;
    std::vector<Mechanism> mechanisms;
    for (int i = 0; i < 4; ++i) {
      Random how(seed), where(seed + 1000000 * static_cast<std::uint64_t>(i + 1));
      mechanisms.emplace_back(system, "m" + std::to_string(i) + " ", how, where,
                              seed % 50 == 0  ? Kind::net
                              : seed % 5 == 0 ? Kind::on_hubs
                                              : Kind::branched);
    }
    State state = system.initial_state();
    state[mechanisms[2].bodies[0]].p += Vector3d(1e-3, 0, 0);  // a gap at the start
    detail::JointTopologies topologies(1);
    std::deque<Solve> solves;
    Random random(seed + 77);
    for (const Mechanism& m : mechanisms) solves.emplace_back(system, m.joints, state, topologies, random);
    const std::vector<bool> taken = expect_the_same_alone(state, solves);
    EXPECT_FALSE(taken[2]);
    for (std::size_t count = 2; count <= 4; ++count)
      for (std::size_t i = 0; i < count; ++i) with_axes += taken[i] && mechanisms[i].axes > 0;
  }
  if (seeds(300).size() > 1) {
    EXPECT_GT(with_axes, 1000);
  }
}

}  // namespace
}  // namespace linchpin::test::joint_island_properties_test
