// Geometric stiffness of constraint forces (T15): how strongly they turn a body back, and how fast it swings under
// them.
#include "model/system_impl.h"
#include "problem/jacobian_products.h"
#include "projection/stock_joints_of.h"
#include "projection/workspace.h"

#include <linchpin/projection.h>

#include <Eigen/Eigenvalues>

#include <algorithm>
#include <limits>

namespace linchpin {

namespace {

/// The force of the i-th constraint of a block on its body k, and its arm about that body's centre (W).
struct Pull {
  Vector3d f = Vector3d::Zero(), r;
  Pull(const Constraint& constraint, const Assembly& assembly, const State& state, std::span<const double> lambda,
       int i, int k)
      : r(constraint.acting_point(k, state) - state[constraint.bodies()[z(k)]].p) {
    const double* J = assembly.jacobian(i, k).data();
    for (int row = assembly.block.row[z(i)]; row < assembly.block.row[z(i + 1)]; ++row, J += 6)
      f += lambda[z(row)] * Vector3d(J[0], J[1], J[2]);
  }
};

// K of T15 by slot, lower triangles; of the bodies that `left_out` says not.
template <typename LeftOut>
void add_stiffness(const System& system, const Assembly& assembly, const State& state, std::span<const double> lambda,
                   const LeftOut& left_out, std::vector<Matrix3d>& stiffness) {
  const Block& block = assembly.block;
  stiffness.assign(block.bodies.size(), Matrix3d::Zero());
  for (std::size_t i = 0; i < block.constraints.size(); ++i) {
    const Constraint& constraint = constraint_at(system, block.constraints[i]);
    for (int k = 0; k < static_cast<int>(constraint.bodies().size()); ++k) {
      const int slot = assembly.slot(static_cast<int>(i), k);
      if (slot < 0 || block.column[z(slot + 1)] - block.column[z(slot)] != 6 || left_out(z(slot))) continue;
      const auto [f, r] = Pull(constraint, assembly, state, lambda, static_cast<int>(i), k);
      const double along = r.dot(f);
      Matrix3d& K = stiffness[z(slot)];
      for (int a = 0; a < 3; ++a) {
        for (int b = 0; b < a; ++b) K(a, b) -= 0.5 * (r[a] * f[b] + f[a] * r[b]);
        K(a, a) += along - r[a] * f[a];  // (T15)
      }
    }
  }
}

}  // namespace

double fastest_swing(const System& system, const Dynamics& dynamics, const State& state, std::span<const double> lambda,
                     double enough) {
  const Assembly& assembly = dynamics.assembly();
  const Block& block = assembly.block;
  const detail::StockJoints& stock = detail::stock_of(dynamics);
  const auto& bodies = SystemParts::of(system).bodies;
  thread_local std::vector<Matrix3d> stiffness;
  thread_local std::vector<double> bound;  // of ω²
  bound.assign(block.bodies.size(), 0.0);
  double most = 0;
  if (stock.rigid) {  // ω² ≤ Σ|r||f| / least principal moment
    for (int i = 0; i < stock.count(); ++i) {
      const detail::StockJoints::Joint& joint = stock.joints[z(i)];
      if (detail::count_of<detail::AxisPrimitive>(stock.ranges(i)) > 0) {  // it slides, and its arm with it
        const Constraint& constraint = constraint_at(system, block.constraints[z(joint.constraint)]);
        for (const int k : {0, 1})
          if (const int slot = k == 0 ? joint.slot_a : joint.slot_b; slot >= 0) {
            const Pull pull(constraint, assembly, state, lambda, joint.constraint, k);
            bound[z(slot)] += pull.f.norm() * pull.r.norm();
          }
        continue;
      }
      const double* f = lambda.data() + joint.row;
      stock.for_each_of_joint<detail::PointPrimitive>(i, [&](const auto& fixed) {
        const double size = std::sqrt(f[0] * f[0] + f[1] * f[1] + f[2] * f[2]);
        if (joint.slot_a >= 0) bound[z(joint.slot_a)] += size * fixed.length_A;
        if (joint.slot_b >= 0) bound[z(joint.slot_b)] += size * fixed.length_B;
        f += 3;
      });
    }
    double probe = 0;  // 0 times what is not finite is not a number
    for (std::size_t s = 0; s < bound.size(); ++s) {
      bound[s] /= bodies[z(block.bodies[s].index)].least_inertia;
      most = std::max(most, bound[s]);
      probe += 0 * bound[s];
    }
    if (probe != 0) return std::numeric_limits<double>::infinity();
    if (std::sqrt(most) <= enough) return std::sqrt(most);
  }
  const auto slow = [&](std::size_t s) { return stock.rigid && bound[s] <= enough * enough; };
  most = 0;
  for (std::size_t s = 0; s < bound.size(); ++s)
    if (slow(s)) most = std::max(most, bound[s]);
  add_stiffness(system, assembly, state, lambda, slow, stiffness);
  // Whitened with the inertia; its Frobenius norm bounds what an eigenvalue can be, so that few have to be found.
  std::size_t widest = 0;
  for_mass_blocks(block, assembly.instant, [&](std::size_t s, const double* M, int dof) {
    if (!std::isfinite(bound[widest])) return;
    bound[s] = 0;
    if (Matrix3d& K = stiffness[s]; dof == 6 && !K.isZero(0)) {
      const double i00 = 1 / std::sqrt(M[21]), l10 = M[27] * i00, l20 = M[33] * i00;
      const double i11 = 1 / std::sqrt(M[28] - l10 * l10), l21 = (M[34] - l20 * l10) * i11;
      const double i22 = 1 / std::sqrt(M[35] - l20 * l20 - l21 * l21);
      K(0, 1) = K(1, 0), K(0, 2) = K(2, 0), K(1, 2) = K(2, 1);
      const auto solve = [&](auto row) {  // row ← L⁻¹ row
        row(0) *= i00;
        row(1) = (row(1) - l10 * row(0)) * i11;
        row(2) = (row(2) - l20 * row(0) - l21 * row(1)) * i22;
      };
      for (int j = 0; j < 3; ++j) solve(K.col(j));
      for (int j = 0; j < 3; ++j) solve(K.row(j));
      bound[s] = K.norm();
      if (!(bound[s] <= bound[widest])) widest = s;
    }
  });
  if (!block.bodies.empty() && !std::isfinite(bound[widest])) return std::numeric_limits<double>::infinity();
  const auto look = [&](std::size_t s) {
    if (!(bound[s] > most)) return;
    most = std::max(
        most, Eigen::SelfAdjointEigenSolver<Matrix3d>(stiffness[s], Eigen::EigenvaluesOnly).eigenvalues().maxCoeff());
  };
  if (!block.bodies.empty()) look(widest);
  for (std::size_t s = 0; s < block.bodies.size(); ++s)
    if (s != widest) look(s);
  return std::sqrt(most);
}

void geometric_stiffness(const System& system, const Dynamics& dynamics, const State& state,
                         std::span<const double> lambda, std::vector<Matrix3d>& K) {
  add_stiffness(
      system, dynamics.assembly(), state, lambda, [](std::size_t) { return false; }, K);
  for (Matrix3d& k : K) {
    if (k.isZero(0)) continue;
    const Eigen::SelfAdjointEigenSolver<Matrix3d> solver(k);  // reads the lower triangle
    k = solver.eigenvectors() * solver.eigenvalues().cwiseMax(0).asDiagonal() * solver.eigenvectors().transpose();
  }
}

}  // namespace linchpin
