// Loop-closing constraints in joint coordinates without a host: a planar four-bar linkage, a tree of three links whose
// last one is closed by a hinge to the ground.
#include "articulated/tree_constraints.h"
#include "articulated/gram_factor.h"
#include "articulated/tree_joints.h"
#include "articulated/tree_projection.h"
#include "bars.h"

#include <linchpin/joints.h>

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace linchpin::test::tree_constraints {
namespace {

using namespace articulated;
using FarJoints = TreeConstraints::FarJoints;

/// A square of side 1 m that swings as a parallelogram with 1 rad/s, under gravity.
class FourBar : public PoseAccess {
 public:
  static constexpr double dt = 1.0 / 240;

  explicit FourBar(double opened = 0) {
    const double right = 0.5 * std::numbers::pi;
    tree.tree.update([&](TreeModel& model, TreeState& start) {
      model.fixed_base = true;
      for (int i = 0; i < 3; ++i) model.links.push_back(bar(i));
      model.positions = model.rates = 3;
      start.at.joints = {right + opened, -right, -right};
      start.velocity = {0, 0, 0, 0, 0, 0, 1, -1, 1};
      start.forces.assign(4, LinkForce{Vector3d::Zero(), Vector3d::Zero()});
      for (int i = 0; i < 3; ++i) start.forces[static_cast<std::size_t>(i + 1)].force = Vector3d(0, -9.81, 0);
      start.joint_forces.assign(3, 0);
    });
    last = system.add_body("last", 1, Vector3d(0.1, 0.1, 0.1), Pose{});
    state = system.initial_state();
    end = state;
  }
  void lay_out(std::vector<Constraint>& closings) {
    std::vector<std::string> names;
    constraints.clear();
    for (Constraint& c : closings) {
      ConstraintRows rows;
      rows.constraint = &c;
      rows.bodies = {{last, 0, 2}};
      if (c.function().bodies() > 1) rows.bodies.push_back({linchpin::ground});
      constraints.add(std::move(rows));
      names.push_back(c.name());
    }
    tree.column = 0;
    ConstrainedTree* const trees[] = {&tree};
    constraints.lay_out(trees, {}, names, {});
    projection.lay_out();
    projection.set_options({1e-12, 1e-13, 20});
    projection.begin_step();
  }
  Constraint closing(const std::string& name = "closing") const {
    return joints::hinge(name, last, {0.5, 0, 0}, Vector3d::UnitZ(), linchpin::ground, {1, 0, 0}, Vector3d::UnitZ());
  }
  std::string linearize() {
    constraints.write_link_states(state);
    constraints.reset_rank_cut();
    return constraints.linearize(system, state, 0, FarJoints::as_they_are);
  }
  TreeStep step() { return {system, state, state, end, 0, dt}; }

  void move_tree(int, const Configuration& to) override {
    tree.tree.update([&](TreeModel&, TreeState& s) { s.at = to; });
    ++moves;
  }
  void move_body(BodyId, const BodyState&) override {}
  void read_bodies() override {}

  System system;
  BodyId last;
  State state, end;
  ConstrainedTree tree{exponential};
  TreeConstraints constraints;
  TreeProjection projection{constraints, exponential};
  int moves = 0;
};

TEST(TreeConstraints, RowsAcrossAPlanarLoopAreNoRows) {
  FourBar t;
  std::vector<Constraint> closings = {t.closing()};
  t.lay_out(closings);
  ASSERT_EQ(t.linearize(), "");
  EXPECT_EQ(t.constraints.rows(), 5);
  EXPECT_EQ(t.constraints.solver().rank(), 2);
}

TEST(TreeConstraints, ForcesGiveTheAccelerationOfTheDenseSolver) {
  FourBar t;
  std::vector<Constraint> closings = {t.closing(), t.closing("the same again")};
  t.lay_out(closings);
  ASSERT_EQ(t.linearize(), "");
  std::vector<double> lambda(10), acceleration(3);
  EXPECT_LT(t.constraints.solve_forces(lambda, acceleration), 1e-9);
  const Acceleration expected = solve(t.constraints.problem_in_joint_coordinates(), {.backend = Backend::dense});
  ASSERT_NE(expected.status, Status::invalid) << expected.reason;
  for (int k = 0; k < 3; ++k)
    EXPECT_NEAR(
        t.constraints.free_acceleration()[static_cast<std::size_t>(k)] + acceleration[static_cast<std::size_t>(k)],
        expected.vdot[k], 1e-9);
  std::vector<double> force(3);
  t.constraints.add_constraint_force(t.tree, TreeConstraints::Columns::joint, lambda, force);
  for (int k = 0; k < 3; ++k) EXPECT_NEAR(force[static_cast<std::size_t>(k)], expected.ideal[k], 1e-9);
}

/// Two constraints of three rows in five columns of unit mass. The last row of the first one follows from the others.
ConstrainedProblem two_constraints() {
  ConstrainedProblem out;
  out.block_sizes = {5};
  for (int i = 0; i < 25; ++i) out.mass.push_back(i % 6 == 0 ? 1 : 0);
  out.Q.assign(5, 0);
  out.c.assign(5, 0);
  out.b.assign(6, 0);
  out.row_constraint = {0, 0, 0, 1, 1, 1};
  out.constraints = {"first", "second"};
  const double rows[6][4] = {{1, 2, 0.5, -1}, {0.3, -1, 2, 0.7}, {1.6, 0, 4.5, 0.4},
                             {1, 1, 0, 2},    {0, 0, 0, 0},      {2, 0, 1, 0}};
  for (int r = 0; r < 6; ++r) {
    out.row_start.push_back(4 * r);
    for (int k = 0; k < 4; ++k) out.entries.push_back({r < 3 ? k : k + 1, rows[r][k]});
  }
  out.row_start.push_back(24);
  return out;
}

TEST(GramFactor, GivesTheLeastNormOfRedundantRows) {
  const ConstrainedProblem problem = two_constraints();
  GramFactor factor;
  ASSERT_TRUE(factor.factor(problem));
  EXPECT_EQ(factor.kept().size(), 4u);
  EXPECT_FALSE(factor.full_row_rank());
  ConstraintFactorization dense({.backend = Backend::dense});
  ASSERT_TRUE(dense.factor(problem));
  const std::vector<double> e = {1, -2, 3, 0.5, 0, -1};  // rows that contradict each other
  std::vector<double> lambda(6), dv(5), expected_lambda(6), expected_dv(5), force(5);
  const double outside = factor.solve_refined(problem, e, e, lambda, dv);
  const double expected = dense.apply(e, expected_lambda, force, expected_dv, e);
  EXPECT_GT(outside, 0.01);
  EXPECT_NEAR(outside, expected, 1e-12);
  for (std::size_t r = 0; r < 6; ++r) EXPECT_NEAR(lambda[r], expected_lambda[r], 1e-12);
  for (std::size_t k = 0; k < 5; ++k) EXPECT_NEAR(dv[k], expected_dv[k], 1e-12);
}

TEST(GramFactor, LeavesDoubtfulRowsToTheGeneralSolver) {
  ConstrainedProblem problem = two_constraints();
  problem.entries[8].value += 1e-3;
  EXPECT_FALSE(GramFactor().factor(problem));
}

TEST(TreeConstraints, NewtonEndsTheStepOnTheConstraints) {
  FourBar t;
  std::vector<Constraint> closings = {t.closing()};
  t.lay_out(closings);
  ASSERT_EQ(t.linearize(), "");
  std::vector<double> lambda(5), acceleration(3), impulse(5), v(3);
  t.constraints.solve_forces(lambda, acceleration);
  for (std::size_t k = 0; k < 3; ++k)
    v[k] = t.constraints.start_velocity()[k] + FourBar::dt * (t.constraints.free_acceleration()[k] + acceleration[k]);
  v[1] += 0.1;  // a parallelogram that swings ends on its constraints without Newton
  ASSERT_TRUE(t.projection.solve_end_of_step(t.step(), v, impulse, 1e-13, 20));
  EXPECT_GT(t.projection.take_solves(), 0);
  t.tree.try_motion(v, FourBar::dt);
  const BodyState at_end = state_of(t.tree.at_end[3]);
  EXPECT_LT((at_end.point({0.5, 0, 0}) - Vector3d(1, 0, 0)).norm(), 1e-12);
  EXPECT_FALSE(t.projection.is_unmet(t.constraints.constraints()[0], FourBar::dt));
}

TEST(TreeConstraints, GapsAreClosedByMoving) {
  FourBar t(0.2);
  std::vector<Constraint> closings = {t.closing()};
  t.lay_out(closings);
  ASSERT_EQ(t.linearize(), "");
  ASSERT_TRUE(t.projection.has_gap(t.state));
  EXPECT_GT(t.constraints.largest_gap(), 0.1);
  const GapClosing done = t.projection.project_positions(t.step(), t);
  EXPECT_EQ(done.failure, "");
  EXPECT_TRUE(done.is_any);
  EXPECT_GT(t.moves, 0);
  EXPECT_LT(t.constraints.largest_gap(), 1e-12);
}

TEST(TreeConstraints, GapsBeyondReachStayOpen) {
  FourBar t;
  std::vector<Constraint> closings = {joints::ball("too far", t.last, {0.5, 0, 0}, linchpin::ground, {3.5, 0, 0})};
  t.lay_out(closings);
  ASSERT_EQ(t.linearize(), "");
  t.projection.project_positions(t.step(), t);
  EXPECT_NEAR(t.constraints.largest_gap(), 0.5, 0.02);  // iterations end where they gain less than a hundredth
  EXPECT_TRUE(t.projection.is_unmet(t.constraints.constraints()[0], FourBar::dt));
}

TEST(TreeConstraints, AThrowingResidualIsAReason) {
  FourBar t;
  bool is_broken = false;
  std::vector<Constraint> closings = {holonomic("broken", std::vector{t.last}, [&](const auto& s) {
    if (is_broken) throw std::runtime_error("no such place");
    return s[0].position().x;
  })};
  is_broken = true;
  t.lay_out(closings);
  EXPECT_NE(t.linearize().find("no such place"), std::string::npos);
}

// A row that is short in joint coordinates alone is rounding; one that is as short for the bodies themselves is not.
TEST(TreeRank, DropsRowsThatAreShortAgainstTheirLengthInMaximalCoordinates) {
  for (const double length : {1.0, 1e-8}) {
    ConstrainedProblem problem;
    problem.Q = {0, 0};
    problem.b = {0, 0};
    problem.entries = {{0, 1.0}, {1, 1e-8}};
    problem.row_start = {0, 1, 2};
    TreeRank rank;
    rank.resize(2);
    rank.set_length(0, 1, 0, 0);
    rank.set_length(1, length * length, 0, 0);
    const bool dropped = rank.drop_dependent_rows(problem, 1e-16, {.cut = 1e-6, .rank = 1e-6}, System(), State(), {});
    EXPECT_EQ(dropped, length == 1);
    EXPECT_EQ(rank.is_dropped(1), length == 1);
    EXPECT_FALSE(rank.is_dropped(0));
    EXPECT_EQ(problem.entries[1].value, length == 1 ? 0 : 1e-8);
    std::vector<double> e = {1, 1};
    rank.zero_dropped_rows(e);
    EXPECT_EQ(e[1], length == 1 ? 0 : 1);
  }
}

}  // namespace
}  // namespace linchpin::test::tree_constraints
