// From a system at a state to plain numbers: which column is whose, what enters b, and what happens when a callable of
// the user's misbehaves.
#include "allocation_counter.h"
#include "instants.h"
#include "random.h"
#include "tolerances.h"

#include <linchpin/constraint.h>
#include <linchpin/dynamics.h>
#include <linchpin/forces.h>
#include <linchpin/joints.h>
#include <linchpin/system.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace linchpin::test::assemble_test {
namespace {

Constraint distance(std::string name, BodyId a, BodyId b, double length) {
  return holonomic(std::move(name), {a, b}, [=](const auto& s) {
    const auto d = s[0].position() - s[1].position();
    return dot(d, d) - length * length;
  });
}

Assembly assembled(const System& system, const State& state) {
  Assembly out;
  out.layout = whole_system(system);
  assemble_constraints(system, state, out);
  assemble_forces(system, state, out);
  return out;
}

struct Pair {  // a particle, a fixed anchor and a rigid body, so that columns start at 0 and 3
  System system;
  BodyId particle, anchor, body;
  Pair() {
    system.set_gravity({0, 0, -9.81});
    particle = system.add_particle("bob", 2, {1, 0, 0}, {0, 0.5, 0});
    anchor = system.add_fixed("anchor", {});
    Matrix3d I;
    I << 0.4, 0.02, 0, 0.02, 0.5, 0.01, 0, 0.01, 0.6;
    body =
        system.add_body("bar", 3, I, {{0, 1, 0}, Quaterniond(Eigen::AngleAxisd(0.7, Vector3d(1, 2, 3).normalized()))},
                        {0.1, 0, 0}, {0.3, -0.2, 0.5});
  }
};

// A Dynamics writes stock joints straight to their places; the public function asks each joint for its rows.
TEST(Assemble, JointsInABlockAreAsTheirFunctionsSay) {
  for (const auto seed : seeds(20)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    Pair p;
    const BodyId kinematic = p.system.add_kinematic("crank", {});
    const BodyId other = p.system.add_body("other", 2, Vector3d(0.1, 0.2, 0.25), {});
    const JointFrame frame{{0.1, 0, 0}, Matrix3d::Identity()};
    p.system.add(joints::weld("weld", kinematic, frame, p.body, frame));
    p.system.add(distance("rod", p.body, p.particle, 1));  // no stock joint, between two that are
    p.system.add(joints::slider("slider", p.anchor, frame, other, frame));
    p.system.add(joints::hinge("hinge", other, {0, 1, 0}, {0, 0, 1}, p.body, {0, 0, 1}, {1, 0, 0}));
    p.system.add(joints::ball("ball", p.particle, Vector3d::Zero(), p.body, {0, 1, 0}));
    State state = p.system.initial_state();
    for (const BodyId id : {p.particle, p.body, other, kinematic}) {
      BodyState& s = state[id];
      s.p = random.vector(1);
      s.v = random.vector(1);
      if (id == p.particle) continue;
      s.q = Quaterniond(random.uniform(-1, 1), random.uniform(-1, 1), random.uniform(-1, 1), 0.3).normalized();
      s.w = random.vector(1);
    }
    state[kinematic].a = random.vector(1);
    state[kinematic].alpha = random.vector(1);
    const Assembly asked = assembled(p.system, state);
    Dynamics dynamics(p.system);
    dynamics.evaluate(state);
    const Assembly& written = dynamics.assembly();
    ASSERT_EQ(asked.layout.row, written.layout.row);
    for (int i = 0; i < static_cast<int>(asked.layout.constraints.size()); ++i)
      for (int k = 0;
           k < p.system.constraint(asked.layout.constraints[static_cast<std::size_t>(i)]).function().bodies(); ++k) {
        const auto one = asked.jacobian(i, k), two = written.jacobian(i, k);
        EXPECT_TRUE(std::equal(one.begin(), one.end(), two.begin(), two.end())) << i << ", " << k;
      }
    EXPECT_EQ(asked.problem.mass, written.problem.mass);
    for (std::size_t e = 0; e < asked.problem.entries.size(); ++e) {
      EXPECT_EQ(asked.problem.entries[e].column, written.problem.entries[e].column);
      EXPECT_EQ(asked.problem.entries[e].value, written.problem.entries[e].value);
    }
    for (std::size_t r = 0; r < asked.problem.b.size(); ++r) {
      EXPECT_NEAR(asked.problem.b[r], written.problem.b[r], tol_rounding());
      EXPECT_NEAR(asked.position[r], written.position[r], tol_rounding());
      EXPECT_NEAR(asked.velocity[r], written.velocity[r], tol_rounding());
    }
  }
}

TEST(Assemble, ColumnsAndMasses) {
  Pair p;
  p.system.add(distance("rod", p.body, p.particle, std::sqrt(2.0)));
  const State state = p.system.initial_state();
  const Assembly x = assembled(p.system, state);
  EXPECT_EQ(x.failure, "");
  EXPECT_EQ(x.problem.invalid(), "");
  EXPECT_EQ(x.layout.n(), 9);
  EXPECT_EQ(x.layout.m(), 1);
  EXPECT_EQ(x.layout.bodies, (std::vector<BodyId>{p.particle, p.body}));
  EXPECT_EQ(x.layout.column, (std::vector<int>{0, 3, 9}));
  EXPECT_EQ(x.problem.block_sizes, (std::vector<int>{3, 6}));
  Eigen::MatrixXd M = Eigen::MatrixXd::Zero(9, 9);
  M.diagonal().head(3).setConstant(2);
  M.diagonal().segment(3, 3).setConstant(3);
  M.bottomRightCorner(3, 3) = p.system.world_inertia(p.body, state[p.body].q);
  EXPECT_LE((mass_matrix(x.problem) - M).norm(), tol_rounding());
  EXPECT_LE(norm_inf(vector(x.v) - vector({0, 0.5, 0, 0.1, 0, 0, 0.3, -0.2, 0.5})), 0);
  Eigen::VectorXd Q = Eigen::VectorXd::Zero(9);
  Q[2] = -2 * 9.81;
  Q[5] = -3 * 9.81;
  Q.tail(3) = p.system.gyroscopic_torque(p.body, state[p.body]);
  EXPECT_LE(norm_inf(vector(x.problem.Q) - Q), tol_rounding(30));
}

// φ = |d|² − l² with d = p_bar − p_bob: A = 2dᵀ on the bar, −2dᵀ on the bob, whatever order the bodies are named in.
TEST(Assemble, RowsAreSortedByColumn) {
  for (const bool turned : {false, true}) {
    Pair p;
    p.system.add(turned ? distance("rod", p.particle, p.body, 1) : distance("rod", p.body, p.particle, 1));
    const Assembly x = assembled(p.system, p.system.initial_state());
    ASSERT_EQ(x.problem.invalid(), "");
    const Eigen::MatrixXd A = constraint_matrix(x.problem);
    EXPECT_LE((A.row(0) - Eigen::RowVectorXd{{2, -2, 0, -2, 2, 0, 0, 0, 0}}).norm(), tol_rounding());
    EXPECT_NEAR(x.position[0], 1, tol_rounding());
    const Vector3d d(-1, 1, 0), dv(0.1, -0.5, 0);
    EXPECT_NEAR(x.velocity[0], 2 * d.dot(dv), tol_rounding());
    EXPECT_NEAR(x.problem.b[0], -2 * dv.squaredNorm(), tol_rounding());
    EXPECT_EQ(x.jacobian(0, turned ? 1 : 0).size(), 6u);
    EXPECT_NEAR(x.jacobian(0, turned ? 1 : 0)[0], -2, tol_rounding());  // the bar
    EXPECT_NEAR(x.jacobian(0, turned ? 0 : 1)[0], 2, tol_rounding());   // the bob
  }
}

TEST(Assemble, JacobiansOfSeveralRowsLieBodyByBody) {
  Pair p;
  p.system.add(joints::ball("ball", p.body, {0.1, 0.2, 0.3}, p.particle, {0, 0, 0}));
  const Assembly x = assembled(p.system, p.system.initial_state());
  const auto J0 = x.jacobian(0, 0), J1 = x.jacobian(0, 1);
  ASSERT_EQ(J0.size(), 18u);
  const Eigen::MatrixXd A = constraint_matrix(x.problem);
  for (int r = 0; r < 3; ++r) {
    for (int j = 0; j < 6; ++j) EXPECT_EQ(J0[static_cast<std::size_t>(6 * r + j)], A(r, 3 + j));
    for (int j = 0; j < 3; ++j) EXPECT_EQ(J1[static_cast<std::size_t>(6 * r + j)], A(r, j));
  }
}

TEST(Assemble, FixedBodiesHaveNoColumns) {
  Pair p;
  p.system.add(distance("rod", p.anchor, p.particle, 1));
  const Assembly x = assembled(p.system, p.system.initial_state());
  EXPECT_EQ(x.problem.entries.size(), 3u);
  EXPECT_NEAR(x.jacobian(0, 0)[0], -2, tol_rounding());  // kept, though not in A
}

// What moves by itself enters b with its velocity and acceleration; what the equations move does not, whatever its
// state happens to hold.
TEST(Assemble, OnlyDrivenAccelerationsEnterB) {
  System system;
  const BodyId hook = system.add_kinematic("hook", {{0, 0, 1}, Quaterniond::Identity()});
  const BodyId load = system.add_particle("load", 1, {0, 0, 0});
  system.add(joints::axis_row("level", hook, {0, 0, 0}, {0, 0, 1}, load, {0, 0, 0}, -1));
  State state = system.initial_state();
  state[hook].a = {0, 0, 2.5};
  state[load].a = {7, 7, 7};
  const Assembly x = assembled(system, state);
  ASSERT_EQ(x.layout.n(), 3);
  const Acceleration y = solve(x.problem);
  ASSERT_EQ(y.status, Status::ok) << y.reason;
  EXPECT_NEAR(y.vdot[2], 2.5, tol_rounding());  // goes up with its hook
}

TEST(Assemble, BlocksHoldOnlyTheirOwn) {
  System system;
  std::vector<BodyId> beads;
  for (int i = 0; i < 4; ++i) beads.push_back(system.add_particle("bead " + std::to_string(i), 1 + i, {1.0 * i, 0, 0}));
  const ConstraintId first = system.add(distance("first", beads[1], beads[0], 1));
  const ConstraintId last = system.add(distance("last", beads[3], beads[2], 1));
  EXPECT_EQ(whole_system(system).n(), 12);
  EXPECT_EQ(whole_system(system).constraints, (std::vector<ConstraintId>{first, last}));
  Assembly x;
  lay_out_island(system, std::vector<ConstraintId>{last}, x.layout);
  EXPECT_EQ(x.layout.bodies, (std::vector<BodyId>{beads[2], beads[3]}));
  EXPECT_EQ(x.layout.body_index(beads[0]), -1);
  assemble_constraints(system, system.initial_state(), x);
  EXPECT_EQ(x.problem.constraints, std::vector<std::string>{"last"});
  EXPECT_EQ(x.problem.mass[0], 3);

  system.enable(first, false);
  EXPECT_EQ(whole_system(system).constraints, std::vector<ConstraintId>{last});
  EXPECT_EQ(whole_system(system).n(), 12);                             // its bodies fall on
  lay_out_island(system, std::vector<ConstraintId>{first}, x.layout);  // memory used again
  assemble_constraints(system, system.initial_state(), x);
  EXPECT_EQ(x.problem.constraints, std::vector<std::string>{"first"});
  EXPECT_EQ(x.problem.n(), 6);
}

TEST(Assemble, ForcesReachTheirBodiesAndNoOthers) {
  Pair p;
  p.system.set_gravity(Vector3d::Zero());
  p.system.add(Force("push", {p.body, p.particle}, [](ForceFrame& f) {
    f.add_force(0, {1, 2, 3}, f[0].p + Vector3d(0, 0, 1));
    f.add_force(1, {-1, -2, -3});
    f.add_moment(1, {5, 5, 5});  // a particle has nothing to twist
  }));
  const State state = p.system.initial_state();
  const Assembly x = assembled(p.system, state);
  const Vector3d torque =
      Vector3d(0, 0, 1).cross(Vector3d(1, 2, 3)) + p.system.gyroscopic_torque(p.body, state[p.body]);
  EXPECT_LE(norm_inf(vector(x.problem.Q).head(6) - vector({-1, -2, -3, 1, 2, 3})), tol_rounding());
  EXPECT_LE((vector(x.problem.Q).tail(3) - torque).norm(), tol_rounding());

  const ConstraintId rod = p.system.add(distance("rod", p.anchor, p.particle, 1));
  Assembly part;
  lay_out_island(p.system, std::vector<ConstraintId>{rod}, part.layout);
  assemble_constraints(p.system, state, part);
  assemble_forces(p.system, state, part);
  EXPECT_EQ(part.problem.Q, (std::vector<double>{-1, -2, -3}));
}

// ---- what may go wrong
// -------------------------------------------------------------------------------------------------

TEST(Assemble, ResidualThatThrowsIsNamed) {
  Pair p;
  p.system.add(distance("fine", p.anchor, p.particle, 1));
  p.system.add(holonomic("moody", {p.particle}, [](const auto& s) {
    if (s[0].position().x > 0.5) throw std::runtime_error("too far right");
    return s[0].position().x;
  }));
  const Assembly x = assembled(p.system, p.system.initial_state());
  EXPECT_NE(x.failure.find("\"moody\""), std::string::npos) << x.failure;
  EXPECT_NE(x.failure.find("too far right"), std::string::npos) << x.failure;
  // Whoever looks only at the ConstrainedProblem is stopped, too.
  const Acceleration y = solve(assemble(p.system, p.system.initial_state()));
  EXPECT_EQ(y.status, Status::invalid);
  EXPECT_NE(y.reason.find("moody"), std::string::npos) << y.reason;

  State left = p.system.initial_state();
  left[p.particle].p.x() = 0;
  EXPECT_EQ(assembled(p.system, left).failure, "");
}

TEST(Assemble, ResidualThatIsNotFiniteIsNamed) {
  Pair p;
  p.system.add(holonomic("root", {p.particle}, [](const auto& s) { return sqrt(s[0].position().x - 2.0); }));
  const Assembly x = assembled(p.system, p.system.initial_state());
  EXPECT_NE(x.failure.find("\"root\""), std::string::npos) << x.failure;
  EXPECT_NE(x.failure.find("not finite"), std::string::npos) << x.failure;
}

TEST(Assemble, PoseThatIsNotFiniteIsNamedWithItsBody) {
  Pair p;
  p.system.add(holonomic("level", {p.particle}, [](const auto& s) { return s[0].position().x - 2.0; }));
  State state = p.system.initial_state();
  state[p.particle].p.x() = std::numeric_limits<double>::quiet_NaN();
  const Assembly x = assembled(p.system, state);
  EXPECT_NE(x.failure.find("the position of body 0 ('" + p.system.name(p.particle) + "') is (nan, "), std::string::npos)
      << x.failure;
}

TEST(Assemble, ForceThatThrowsOrIsNotFiniteIsNamed) {
  for (const bool throws : {true, false}) {
    Pair p;
    p.system.add(Force("gust", {p.particle}, [=](ForceFrame& f) {
      if (throws) throw std::runtime_error("no wind today");
      f.add_force(0, Vector3d(0, std::numeric_limits<double>::quiet_NaN(), 0));
    }));
    const Assembly x = assembled(p.system, p.system.initial_state());
    EXPECT_NE(x.failure.find("force \"gust\""), std::string::npos) << x.failure;
    EXPECT_NE(x.failure.find(throws ? "no wind today" : "not finite"), std::string::npos) << x.failure;
    EXPECT_EQ(solve(x.problem).status, Status::invalid);
  }
}

TEST(Assemble, StateOfAnotherSystemIsRefused) {
  Pair p;
  State state = p.system.initial_state();
  state.bodies.pop_back();
  EXPECT_NE(assembled(p.system, state).failure.find("3 bodies"), std::string::npos)
      << assembled(p.system, state).failure;
  EXPECT_EQ(solve(assemble(p.system, state)).status, Status::invalid);
}

TEST(Assemble, NothingIsAllocatedOnceWarm) {
  Pair p;
  p.system.add(joints::ball("a ball joint with a long name that no small string holds", p.body, {0, -1, 0}, p.anchor,
                            {0, 0, 0}));
  p.system.add(distance("rod", p.body, p.particle, std::sqrt(2.0)));
  p.system.add(spring("spring", p.particle, {0, 0, 0}, p.anchor, {0, 0, 0}, 10, 0.5, 0.1));
  const State state = p.system.initial_state();
  Assembly x = assembled(p.system, state);
  const AllocationCounter allocations;
  assemble_constraints(p.system, state, x);
  assemble_forces(p.system, state, x);
  EXPECT_EQ(allocations.count(), 0u);
  EXPECT_EQ(x.failure, "");
}

// The whole path once: a pendulum's tension (T-PEND in the plane y-down, here z-down).
TEST(Assemble, PendulumFromResidualToTension) {
  System system;
  system.set_gravity({0, 0, -9.81});
  const double l = 1.5, angle = 0.7, omega = 1.3;
  const BodyId bob = system.add_particle("bob", 2, {l * std::sin(angle), 0, -l * std::cos(angle)},
                                         {l * omega * std::cos(angle), 0, l * omega * std::sin(angle)});
  system.add(distance("rod", bob, ground, l));
  const Acceleration y = solve(assemble(system, system.initial_state()));
  EXPECT_EQ(y.status, Status::ok);
  EXPECT_NEAR(y.ideal.norm(), 20.076203714521668, scaled(2e-11));
  EXPECT_LE(error(y.ideal, vector({-12.933445525481895, 0, 15.355127561383734})), scaled(1e-12));
}

}  // namespace
}  // namespace linchpin::test::assemble_test
