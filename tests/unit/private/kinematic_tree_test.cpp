// One articulated body without a host: its mass as an operator, its free motion and its momentum.
#include "articulated/kinematic_tree.h"

#include <gtest/gtest.h>

#include <Eigen/Cholesky>

#include <cmath>
#include <random>
#include <span>
#include <vector>

namespace linchpin::test::kinematic_tree {
namespace {

using namespace articulated;

Quaterniond exponential(const Vector3d& w, double dt) {
  const double angle = w.norm() * dt;
  return angle != 0 ? Quaterniond(Eigen::AngleAxisd(angle, w.normalized())) : Quaterniond(Quaterniond::Identity());
}

/// A tree of ten links: limbs of hinges, sliders, ball joints and welds on a base, at a random state.
class RandomTree {
 public:
  explicit RandomTree(bool fixed_base, unsigned seed = 1) : random_(seed) {
    tree.update([&](TreeModel& model, TreeState& state) {
      model.fixed_base = fixed_base;
      model.base_mass = fixed_base ? 0 : 2;
      model.base_inertia = fixed_base ? Vector3d(Vector3d::Zero()) : Vector3d(0.3, 0.4, 0.5);
      for (int i = 0; i < 10; ++i) add_link(model, i);
      state.at.p = vector();
      state.at.q = rotation();
      state.velocity.assign(static_cast<std::size_t>(6 + model.rates), 0);
      for (double& x : state.velocity) x = number();
      if (fixed_base) std::fill_n(state.velocity.begin(), 6, 0.0);
      state.at.joints.assign(static_cast<std::size_t>(model.positions), 0);
      for (const LinkModel& link : model.links) {
        double* q = state.at.joints.data() + link.first_position;
        for (int k = 0; k < link.positions; ++k) q[k] = number();
        if (link.joint == JointKind::spherical) Eigen::Map<Eigen::Vector4d>(q).normalize();
      }
      state.forces.assign(model.links.size() + 1, LinkForce{Vector3d::Zero(), Vector3d::Zero()});
      state.joint_forces.assign(static_cast<std::size_t>(model.rates), 0);
    });
  }
  double number() { return std::uniform_real_distribution<double>(-1, 1)(random_); }
  Vector3d vector() { return {number(), number(), number()}; }
  Quaterniond rotation() { return Quaterniond(number(), number(), number(), number()).normalized(); }
  void set_forces(const auto& force_on) {
    tree.update([&](TreeModel& model, TreeState& state) {
      for (int i = -1; i < static_cast<int>(model.links.size()); ++i)
        state.forces[static_cast<std::size_t>(i + 1)] = force_on(model, i);
    });
  }

  KinematicTree tree{exponential};

 private:
  void add_link(TreeModel& model, int i) {
    constexpr JointKind kinds[] = {JointKind::revolute, JointKind::spherical, JointKind::prismatic, JointKind::revolute,
                                   JointKind::fixed};
    LinkModel link;
    link.parent = i == 0 ? -1 : static_cast<int>((std::uniform_int_distribution<int>(-1, i - 1))(random_));
    link.joint = kinds[i % 5];
    link.mass = 1.5 + number();
    link.inertia = Vector3d(0.2, 0.25, 0.3) * link.mass;
    link.R_PL_at_zero = rotation().toRotationMatrix();
    link.p_PJ = vector();
    link.p_JL = vector();
    link.first_position = model.positions;
    link.first_rate = model.rates;
    if (link.joint == JointKind::spherical) {
      link.positions = 4;
      link.rates = 3;
      for (int k = 0; k < 3; ++k) set_axis(link, k, Vector3d::Unit(k));
    } else if (link.joint != JointKind::fixed) {
      link.positions = link.rates = 1;
      set_axis(link, 0, vector().normalized());
    }
    model.positions += link.positions;
    model.rates += link.rates;
    model.links.push_back(link);
  }
  static void set_axis(LinkModel& link, int k, const Vector3d& u) {
    const auto at = static_cast<std::size_t>(k);
    const bool slides = link.joint == JointKind::prismatic;
    link.angular[at] = slides ? Vector3d(Vector3d::Zero()) : u;
    link.linear[at] = slides ? u : Vector3d(u.cross(link.p_JL));
  }

  std::mt19937 random_;
};

Eigen::MatrixXd mass_matrix(const KinematicTree& tree) {
  std::vector<double> M;
  tree.mass_matrix(M);
  return Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
      M.data(), tree.columns(), tree.columns());
}
Eigen::VectorXd random_columns(RandomTree& t) {
  Eigen::VectorXd x(t.tree.columns());
  for (double& xi : x) xi = t.number();
  return x;
}
std::span<double> numbers(Eigen::VectorXd& x) { return {x.data(), static_cast<std::size_t>(x.size())}; }
std::span<const double> numbers(const Eigen::VectorXd& x) { return {x.data(), static_cast<std::size_t>(x.size())}; }

class KinematicTrees : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(FixedBase, KinematicTrees, testing::Bool());

TEST_P(KinematicTrees, MassMatrixIsPositiveDefiniteAndTimesMassIsItsProduct) {
  RandomTree t(GetParam());
  ASSERT_TRUE(t.tree.factorize());
  const Eigen::MatrixXd M = mass_matrix(t.tree);
  EXPECT_EQ(M.llt().info(), Eigen::Success);
  const Eigen::VectorXd v = random_columns(t);
  Eigen::VectorXd Mv(v.size());
  t.tree.times_mass(numbers(v), numbers(Mv));
  EXPECT_LT((M * v - Mv).norm(), 1e-12 * Mv.norm());
}

TEST_P(KinematicTrees, FactorIsARootOfTheMassMatrix) {
  RandomTree t(GetParam());
  ASSERT_TRUE(t.tree.factorize());
  const int n = t.tree.columns();
  const Eigen::MatrixXd M = mass_matrix(t.tree);
  Eigen::MatrixXd inverse(n, n);  // L⁻ᵀ L⁻¹, column by column
  std::vector<Vector6> none(static_cast<std::size_t>(t.tree.links() + 1), Vector6::Zero());
  for (int c = 0; c < n; ++c) {
    Eigen::VectorXd x = Eigen::VectorXd::Unit(n, c);
    std::fill(none.begin(), none.end(), Vector6::Zero());
    t.tree.solve_factor(none, numbers(x));
    t.tree.solve_factor_transposed(numbers(x));
    inverse.col(c) = x;
  }
  EXPECT_LT((inverse * M - Eigen::MatrixXd::Identity(n, n)).norm(), 1e-10);
}

TEST_P(KinematicTrees, KineticEnergyIsThatOfTheMassMatrix) {
  RandomTree t(GetParam());
  ASSERT_TRUE(t.tree.factorize());
  const auto& u = t.tree.state().velocity;
  const Eigen::VectorXd v = Eigen::Map<const Eigen::VectorXd>(u.data() + t.tree.fixed_velocities(), t.tree.columns());
  EXPECT_NEAR(t.tree.kinetic_energy(), 0.5 * v.dot(mass_matrix(t.tree) * v), 1e-12 * t.tree.kinetic_energy());
}

TEST_P(KinematicTrees, FreeAccelerationSolvesTheEquationOfMotion) {
  RandomTree t(GetParam());
  t.set_forces([&](const TreeModel&, int) { return LinkForce{t.vector(), t.vector()}; });
  ASSERT_TRUE(t.tree.factorize());
  Eigen::VectorXd a(t.tree.columns()), Q(t.tree.columns());
  t.tree.free_acceleration(numbers(a));
  t.tree.generalized_force(numbers(Q));
  EXPECT_LT((mass_matrix(t.tree) * a - Q).norm(), 1e-11 * (1 + Q.norm()));
}

TEST_P(KinematicTrees, WrenchesThroughJointsBalanceTheForcesOnEveryLink) {
  RandomTree t(GetParam());
  t.set_forces([&](const TreeModel&, int) { return LinkForce{t.vector(), t.vector()}; });
  ASSERT_TRUE(t.tree.factorize());
  Eigen::VectorXd a(t.tree.columns());
  t.tree.free_acceleration(numbers(a));
  std::vector<Wrench> none(static_cast<std::size_t>(t.tree.links() + 1)), through;
  t.tree.joint_wrenches(numbers(a), none, through);
  for (int i = 0; i < t.tree.links(); ++i) {  // without motors, nothing acts along what a joint leaves free
    const Wrench& w = through[static_cast<std::size_t>(i + 1)];
    const Wrench held = t.tree.without_free_part(i, w);
    EXPECT_LT((w.force - held.force).norm() + (w.moment - held.moment).norm(), 1e-10) << "joint " << i;
  }
}

// A tree at rest that falls freely is a rigid body: every centre has the acceleration g and no joint turns.
TEST(KinematicTree, FallsFreelyAsOneBody) {
  RandomTree t(false);
  const Vector3d g(0.5, -9.81, 0.25);
  t.tree.update([](TreeModel&, TreeState& state) { std::fill(state.velocity.begin(), state.velocity.end(), 0.0); });
  t.set_forces([&](const TreeModel& model, int i) { return LinkForce{model.mass(i) * g, Vector3d::Zero()}; });
  ASSERT_TRUE(t.tree.factorize());
  Eigen::VectorXd a(t.tree.columns());
  t.tree.free_acceleration(numbers(a));
  EXPECT_LT((a.segment<3>(3) - g).norm(), 1e-12);
  EXPECT_LT(a.head<3>().norm() + a.tail(a.size() - 6).norm(), 1e-11);
}

// Without applied forces both momenta are kept: their rates, by finite differences of the motion, vanish.
TEST(KinematicTree, KeepsMomentumWithoutForces) {
  const auto momentum = [](const KinematicTree& tree) {
    Vector6 sum = Vector6::Zero();
    for (int i = -1; i < tree.links(); ++i) {
      const LinkMotion& at = tree.motion(i);
      const Vector3d p = tree.model().mass(i) * at.v;
      sum.head<3>() += p;
      sum.tail<3>() += at.p.cross(p) + at.R * (tree.model().inertia(i).asDiagonal() * (at.R.transpose() * at.w));
    }
    return sum;
  };
  RandomTree t(false);
  ASSERT_TRUE(t.tree.factorize());
  Eigen::VectorXd a(t.tree.columns());
  t.tree.free_acceleration(numbers(a));
  const TreeState start = t.tree.state();
  const auto after = [&](double h) {
    Configuration end;
    std::vector<double> mean = start.velocity, u = start.velocity;
    for (std::size_t k = 0; k < u.size(); ++k) {
      mean[k] += 0.5 * h * a[static_cast<Eigen::Index>(k)];
      u[k] += h * a[static_cast<Eigen::Index>(k)];
    }
    t.tree.integrate(start.at, mean, h, end);
    t.tree.update([&](TreeModel&, TreeState& state) { state.at = end, state.velocity = u; });
    EXPECT_TRUE(t.tree.factorize());
    return momentum(t.tree);
  };
  const double h = 1e-5;
  const Vector6 rate = (after(h) - after(-h)) / (2 * h);
  EXPECT_LT(rate.norm(), 1e-6 * a.norm());
}

TEST(KinematicTree, MassBlocksAreTheLimbsOfAFixedBase) {
  for (unsigned seed = 1; seed < 20; ++seed) {
    RandomTree t(true, seed);
    ASSERT_TRUE(t.tree.factorize());
    const Eigen::MatrixXd M = mass_matrix(t.tree);
    int at = 0;
    for (const int size : t.tree.mass_block_sizes()) {
      EXPECT_LT(M.block(at, at + size, size, M.cols() - at - size).norm(), 1e-12 * M.norm()) << "seed " << seed;
      at += size;
    }
    EXPECT_EQ(at, t.tree.columns());
  }
}

TEST(KinematicTree, RefusesALinkWithoutMass) {
  RandomTree t(true);
  t.tree.update([](TreeModel& model, TreeState&) {
    for (LinkModel& link : model.links) link.mass = 0, link.inertia.setZero();
  });
  EXPECT_FALSE(t.tree.factorize());
}

}  // namespace
}  // namespace linchpin::test::kinematic_tree
