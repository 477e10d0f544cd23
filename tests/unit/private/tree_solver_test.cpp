// The solver of articulated bodies without a physics engine: a host of one planar chain of three bars, whose last bar
// is closed by a hinge to the ground. The host integrates semi-implicitly and has one motor row.
#include "articulated/kinematic_tree.h"
#include "bars.h"
#include "refused.h"

#include <linchpin/articulated.h>
#include <linchpin/joints.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace linchpin::test::tree_solver {
namespace {

using namespace articulated;
using Owner = host::ConstraintEntry::Owner;

/// A host without rigid bodies.
class NoBodies final : public host::World {
 public:
  void read(BodyId, BodyState&) const override {}
  void read_forces(BodyId, host::Load&) const override {}
  void write(std::span<host::Motion>) override {}
  void move(BodyId, const Vector3d&, const Quaterniond&) override {}
  bool restore_finite(BodyId, const BodyState&) override { return false; }
  void solve_in_host(int) override {}
};

/// Bars of 1 m under gravity, which begin as three sides of a square.
class Chain final : public TreeWorld {
 public:
  static constexpr double dt = 1.0 / 240;

  Chain() {
    const double right = 0.5 * std::numbers::pi;
    model.fixed_base = true;
    for (int i = 0; i < 3; ++i) model.links.push_back(bar(i));
    model.positions = model.rates = 3;
    state.at.joints = {right, -right, -right};
    state.velocity = {0, 0, 0, 0, 0, 0, 1, -1, 1};
    state.forces.assign(4, LinkForce{Vector3d::Zero(), Vector3d::Zero()});
    for (std::size_t i = 1; i < 4; ++i) state.forces[i].force = gravity();
    state.joint_forces.assign(3, 0);
    change.assign(9, 0);
    solver.make_reactions();
    trees.set_trees(std::vector<int>{-1});
  }

  int add(std::string name, Constraint constraint) {
    const int entry = solver.add_entry(Owner::user_on_links, std::move(name));
    trees.set_constraint(entry, std::make_unique<Constraint>(std::move(constraint)));
    solver.set_order({});
    return entry;
  }
  int close(const std::string& name = "closing") {
    return add(name, joints::hinge(name, link(2), {0.5, 0, 0}, Vector3d::UnitZ(), linchpin::ground, {1, 0, 0},
                                   Vector3d::UnitZ()));
  }
  BodyId link(int i) { return trees.link_id(0, i); }
  Vector3d tip() const {
    std::vector<LinkMotion> motions;
    tree().forward_kinematics(state.at, state.velocity, motions);
    return motions[3].p + motions[3].R * Vector3d(0.5, 0, 0);
  }
  double energy() const {
    double sum = 0;
    add_energy(model, state, gravity(), sum);
    return sum;
  }
  const Reaction& reaction(int entry) {
    solver.update_redundancy();
    return solver.reactions()[static_cast<std::size_t>(solver.entry(entry).reaction)];
  }

  /// @param motor  impulse of a row along the first joint in one iteration [N·m·s]
  void step(double motor = 0) {
    solver.begin_step();
    std::fill(change.begin(), change.end(), 0.0);
    is_solved = trees.begin_step(dt);
    const KinematicTree start = tree();
    std::vector<double> a(3);
    start.free_acceleration(a);
    for (std::size_t k = 0; k < 3; ++k) state.velocity[6 + k] += dt * a[k];
    trees.begin_rows(motor != 0);
    if (motor != 0) push(start, motor);
    trees.project_rows();
    trees.finish();
    for (std::size_t k = 0; k < 9; ++k) state.velocity[k] += change[k];
    Configuration to = state.at;
    start.integrate(state.at, state.velocity, dt, to);
    state.at = to;
    solver.end_step({.dt = dt});
  }

  void read(int, TreeModel& to_model, TreeState& to_state) const override {
    to_model = model;
    to_state = state;
  }
  LinkModel read_link(int, int link) const override {
    return link < 0 ? LinkModel{} : model.links[static_cast<std::size_t>(link)];
  }
  std::string why_unsupported(int) const override { return {}; }
  bool is_asleep(int) const override { return false; }
  void wake(int) override {}
  void move(int, const Configuration& to) override { state.at = to; }
  void read_velocity(int, std::span<double> v) const override {
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = state.velocity[i] + change[i];
  }
  void read_velocity_change(int, std::span<double> dv) const override {
    std::copy(change.begin(), change.end(), dv.begin());
  }
  void add_velocity(int, std::span<double> dv) override {
    for (std::size_t i = 0; i < dv.size(); ++i) change[i] += dv[i];
  }
  void read_row_wrenches(int, std::span<Wrench>) const override {}
  Vector3d gravity() const override { return {0, -9.81, 0}; }
  BodyId current_id(BodyId body) override { return body; }
  bool read_row_body(BodyId, host::RowBody&) const override { return false; }
  void add_row_velocity(BodyId, bool, Vector3d&, Vector3d&) override {}

  TreeModel model;
  TreeState state;
  std::vector<double> change;
  NoBodies bodies;
  host::ConstraintSolver solver{bodies, host::SolverOptions{}};
  TreeSolver trees{solver, *this, exponential};
  bool is_solved = false;

 private:
  KinematicTree tree() const {
    KinematicTree out(exponential);
    out.update([&](TreeModel& to_model, TreeState& to_state) { read(0, to_model, to_state); });
    out.factorize();
    return out;
  }
  void push(const KinematicTree& start, double motor) {
    std::vector<Vector6> none(4, Vector6::Zero());
    std::vector<double> dv = {motor, 0, 0};
    start.solve_factor(none, dv);
    start.solve_factor_transposed(dv);
    for (std::size_t k = 0; k < 3; ++k) change[6 + k] += dv[k];
    trees.rows_on(0)->joint[6] += motor;
  }
};

TEST(TreeSolver, KeepsALoopClosed) {
  Chain chain;
  const int closing = chain.close();
  const double energy = chain.energy();
  for (int i = 0; i < 240; ++i) {
    chain.step();
    ASSERT_TRUE(chain.is_solved);
    ASSERT_LT((chain.tip() - Vector3d(1, 0, 0)).norm(), 1e-9) << i;
  }
  EXPECT_NEAR(chain.energy(), energy, 0.05 * std::abs(energy));
  EXPECT_LT(chain.reaction(closing).gap, 1e-9);
  EXPECT_TRUE(chain.reaction(closing).redundant);  // a hinge across the plane of a planar loop
  EXPECT_EQ(chain.solver.rank_report().rank, 2);
}

TEST(TreeSolver, WithoutConstraintsTheHostHasTheTree) {
  Chain chain;
  chain.step();
  EXPECT_FALSE(chain.is_solved);
  EXPECT_FALSE(chain.trees.moves(0));
  EXPECT_TRUE(std::all_of(chain.change.begin(), chain.change.end(), [](double x) { return x == 0; }));
}

TEST(TreeSolver, ASensorShowsTheWeightOfWhatHangsOnItsJoint) {
  Chain chain;
  chain.state.at.joints = {-0.5 * std::numbers::pi, 0, 0};
  chain.state.velocity.assign(9, 0);
  EXPECT_THROW(chain.trees.joint_wrench(0, 0), OrderError);  // no step has been taken yet
  chain.step();
  for (int i = 0; i < 3; ++i) {
    const Wrench at = chain.trees.joint_wrench(0, i);
    EXPECT_LT((at.force - Vector3d(0, 9.81 * (3 - i), 0)).norm(), 1e-9);
    EXPECT_LT(at.moment.norm(), 1e-9);
  }
  expect_refused([&] { chain.trees.joint_wrench(0, 3); }, "the multibody has no joint 3");
}

TEST(TreeSolver, RowsOfTheHostWorkOnTheClosedLoop) {
  constexpr double motor = 0.02;
  Chain chain;
  chain.close();
  chain.step(motor);
  EXPECT_TRUE(chain.trees.moves(0));
  EXPECT_LT((chain.tip() - Vector3d(1, 0, 0)).norm(), 1e-9);
  const JointForces forces = chain.trees.joint_forces(0, 0);
  EXPECT_NEAR(forces.native[0], motor / Chain::dt, 1e-9);
  EXPECT_NEAR(forces.inertia[0],
              forces.gravity[0] + forces.velocity[0] + forces.applied[0] + forces.constraint[0] + forces.native[0],
              1e-6);
}

TEST(TreeSolver, AUnilateralConstraintLetsGoAndHoldsAgain) {
  Chain chain;
  chain.state.at.joints = {0, 0, 0};
  chain.state.velocity = {0, 0, 0, 0, 0, 0, 1, 0, 0};
  const auto height = [](const auto& X) { return X[0].point({0.5, 0, 0}).y; };
  const int floor = chain.add("floor", holonomic("floor", {chain.link(2)}, height));
  chain.solver.set_unilateral(floor, {.reengage = true});
  chain.step();
  EXPECT_TRUE(chain.solver.entry(floor).released);  // it flies up
  bool holds_again = false;
  for (int i = 0; i < 240 && !holds_again; ++i) {
    chain.step();
    ASSERT_GT(chain.tip().y(), -1e-9);
    holds_again = !chain.solver.entry(floor).released;
  }
  EXPECT_TRUE(holds_again);
  EXPECT_LT(std::abs(chain.tip().y()), 1e-9);
  EXPECT_GT(chain.reaction(floor).lambda[0], 0);
}

TEST(TreeSolver, ConstraintsOnTreesThatAreGoneAreNamed) {
  Chain chain;
  const int closing = chain.close();
  chain.step();
  const BodyId last = chain.link(2);
  EXPECT_EQ(chain.trees.set_trees({}), std::vector<int>{closing});
  EXPECT_FALSE(chain.trees.is_link(last));
  expect_refused([&] { chain.trees.link_id(0, 2); }, "the multibody is not in the world");
}

TEST(TreeSolver, AGearKeepsTwoJointsTogether) {
  Chain chain;
  JointRows none;
  none.points.push_back({Vector3d::Zero(), Vector3d::Zero()});
  const int gear =
      chain.add("gear", joints::joint("gear", chain.link(0), chain.link(1), none, Vector3d::Zero(), Vector3d::Zero()));
  chain.trees.set_gear(gear, {{{0, 1}, {1, 2}}, chain.state.at.joints[0] + 2 * chain.state.at.joints[1]});
  chain.state.velocity[7] = -0.5 * chain.state.velocity[6];
  for (int i = 0; i < 60; ++i) chain.step();
  EXPECT_NEAR(chain.state.at.joints[0] + 2 * chain.state.at.joints[1], -0.5 * std::numbers::pi, 1e-9);
}

}  // namespace
}  // namespace linchpin::test::tree_solver
