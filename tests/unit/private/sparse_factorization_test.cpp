// Factoring the rows of few constraints again gives the numbers of a whole factorisation.
#include "problem/sparse_factorization.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace linchpin::test::sparse_factorization {
namespace {

using detail::SparseFactorization;
using Order = detail::BlockCholesky::Order;

constexpr int body_size = 6, rows_of_joint = 6;

std::size_t z(int i) { return static_cast<std::size_t>(i); }

/// Rigid bodies with joints between pairs of them. A second body of −1 means the ground.
class Net {
 public:
  Net(int bodies, std::vector<std::pair<int, int>> joints, unsigned seed) : joints_(std::move(joints)), random_(seed) {
    for (int b = 0; b < bodies; ++b) {
      problem.block_sizes.push_back(body_size);
      for (int i = 0; i < body_size; ++i)
        for (int j = 0; j < body_size; ++j) problem.mass.push_back(i == j ? (i < 3 ? 2.0 : 0.5 + 0.1 * i) : 0.0);
    }
    problem.Q.assign(z(bodies * body_size), 0.0);
    problem.c = problem.Q;
    problem.row_start.push_back(0);
    for (std::size_t k = 0; k < joints_.size(); ++k) {
      problem.constraints.push_back("joint " + std::to_string(k));
      for (int r = 0; r < rows_of_joint; ++r) {
        const auto [first, second] = std::minmax(joints_[k].first, joints_[k].second);
        for (const int b : {first, second})
          for (int c = 0; b >= 0 && c < body_size; ++c) problem.entries.push_back({b * body_size + c, 0.0});
        problem.row_start.push_back(static_cast<int>(problem.entries.size()));
        problem.row_constraint.push_back(static_cast<int>(k));
      }
    }
    problem.b.assign(problem.row_constraint.size(), 0.0);
    compliance.assign(problem.b.size(), 0.0);
    for (std::size_t k = 0; k < joints_.size(); ++k) change(static_cast<int>(k));
  }

  int joints() const { return static_cast<int>(joints_.size()); }

  /// Gives a joint new rows and compliances. Some rows are zero, and some equal the row before them.
  void change(int joint) {
    for (int r = joint * rows_of_joint; r < (joint + 1) * rows_of_joint; ++r) {
      const bool is_zero = pick(10) == 0, repeats = r > joint * rows_of_joint && pick(10) == 0;
      const int begin = problem.row_start[z(r)], size = problem.row_start[z(r + 1)] - begin;
      for (int i = begin; i < begin + size; ++i)
        problem.entries[z(i)].value = is_zero ? 0 : repeats ? problem.entries[z(i - size)].value : number();
      compliance[z(r)] = pick(2) == 0 ? 0 : number() * number();
    }
  }

  int pick(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }
  double number() { return std::uniform_real_distribution<double>(-1, 1)(random_); }

  ConstrainedProblem problem;
  std::vector<double> compliance;
  bool is_dense = false;  // Most joints depend on most others, so that parts of the factor are not worthwhile.

 private:
  std::vector<std::pair<int, int>> joints_;
  std::mt19937 random_;
};

std::vector<double> multipliers(const SparseFactorization& factor, std::span<const double> e, int columns) {
  std::vector<double> lambda(e.size()), dv(z(columns));
  factor.solve_unrefined(e, lambda, {}, dv);
  lambda.insert(lambda.end(), dv.begin(), dv.end());
  return lambda;
}

/// Changes some joints many times, and compares each time with a whole factorisation.
void agrees(Net net, Order order) {
  SparseFactorization in_parts(order), whole(order);
  ASSERT_TRUE(in_parts.factor(net.problem, net.compliance));
  ASSERT_TRUE(whole.factor(net.problem, net.compliance));
  std::vector<double> e(net.problem.b.size());
  bool any_in_parts = false;
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<int> changed;
    for (int i = 0; i <= trial % 3; ++i) changed.push_back(net.pick(net.joints()));
    for (const int joint : changed) net.change(joint);
    for (double& x : e) x = net.number();
    ASSERT_TRUE(whole.factor(net.problem, net.compliance));
    ASSERT_TRUE(in_parts.factor_changed(net.problem, net.compliance, changed));
    any_in_parts = any_in_parts || in_parts.factored_panels() < whole.factored_panels();
    const int n = net.problem.n();
    EXPECT_EQ(multipliers(in_parts, e, n), multipliers(whole, e, n)) << "trial " << trial;
  }
  EXPECT_TRUE(any_in_parts || net.is_dense);
}

void agrees(const Net& net) {
  for (const Order order : {Order::degree, Order::depth}) agrees(net, order);
}

TEST(SparseFactorization, FactorsChangedRowsOfTrees) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    std::mt19937 random(seed);
    std::vector<std::pair<int, int>> joints;
    for (int b = 0; b < 40; ++b)  // The longer reach of even seeds makes bushy trees, and odd ones are near to chains.
      joints.emplace_back(b,
                          std::uniform_int_distribution<int>(std::max(-1, seed % 2 == 0 ? -1 : b - 2), b - 1)(random));
    agrees(Net(40, joints, seed));
  }
}

TEST(SparseFactorization, FactorsChangedRowsOfSeveralTrees) {
  std::vector<std::pair<int, int>> joints;
  for (int b = 0; b < 30; ++b) joints.emplace_back(b, b % 10 == 0 ? -1 : b - 1);
  agrees(Net(30, joints, 1));
}

TEST(SparseFactorization, FactorsFewPanelsOfChainsOrderedByDepth) {
  constexpr int bodies = 500;
  std::vector<std::pair<int, int>> joints;
  for (int b = 0; b < bodies; ++b) joints.emplace_back(b, b - 1);
  Net net(bodies, joints, 2);
  SparseFactorization factor(Order::depth);
  ASSERT_TRUE(factor.factor(net.problem, net.compliance));
  for (const int joint : {0, 1, 100, 250, 499}) {
    net.change(joint);
    ASSERT_TRUE(factor.factor_changed(net.problem, net.compliance, std::span(&joint, 1)));
    EXPECT_LE(factor.factored_panels(), 12) << "joint " << joint;
  }
}

TEST(SparseFactorization, FactorsChangedRowsOfLoops) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    std::mt19937 random(seed);
    std::vector<std::pair<int, int>> joints;
    for (int b = 0; b < 30; ++b) joints.emplace_back(b, b - 1);
    for (unsigned i = 0; i <= seed; ++i) {
      const int b = std::uniform_int_distribution<int>(2, 29)(random);
      joints.emplace_back(b, std::uniform_int_distribution<int>(0, b - 2)(random));
    }
    Net net(30, joints, seed);
    net.is_dense = seed > 3;
    agrees(net);
  }
}

TEST(SparseFactorization, FactorsChangedRowsOnHubs) {
  std::vector<std::pair<int, int>> joints = {{0, -1}, {20, -1}};
  for (int b = 1; b < 20; ++b) joints.emplace_back(b, 0);
  for (int b = 21; b < 40; ++b) joints.emplace_back(b, 20);
  joints.emplace_back(5, 25);
  agrees(Net(40, joints, 3));
}

}  // namespace
}  // namespace linchpin::test::sparse_factorization
