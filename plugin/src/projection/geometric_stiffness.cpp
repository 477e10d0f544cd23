// The geometric stiffness of constraint forces (T15), which turn a body back that has turned, and the frequency ω that
// a body has under them.
#include "model/system_impl.h"
#include "problem/jacobian_products.h"
#include "projection/stock_joints_of.h"
#include "projection/workspace.h"

#include <linchpin/laws.h>
#include <linchpin/projection.h>

#include <Eigen/Eigenvalues>

#include <algorithm>
#include <limits>

namespace linchpin {

namespace {

/// The force of the i-th constraint of a block on its body k, and its arm about that body's centre (W).
struct ForceOnBody {
  Vector3d f = Vector3d::Zero(), r;
  ForceOnBody(const Constraint& constraint, const Assembly& assembly, const State& state,
              std::span<const double> lambda, int i, int k)
      : r(constraint.application_point(k, state) - state[constraint.bodies()[z(k)]].p) {
    const double* J = assembly.jacobian(i, k).data();
    for (int row = assembly.layout.row[z(i)]; row < assembly.layout.row[z(i + 1)]; ++row, J += 6)
      f += lambda[z(row)] * Vector3d(J[0], J[1], J[2]);
  }
};

/// Adds the stiffness of a force at an arm to the lower triangle of K (T15).
void add_stiffness_of(const Vector3d& f, const Vector3d& r, Matrix3d& K) {
  const double along = r.dot(f);
  for (int a = 0; a < 3; ++a) {
    for (int b = 0; b < a; ++b) K(a, b) -= 0.5 * (r[a] * f[b] + f[a] * r[b]);
    K(a, a) += along - r[a] * f[a];
  }
}

/// Adds the stiffness of the forces of motors and compliance, which have no multiplier.
template <typename LeftOut>
void add_stiffness_of_row_forces(const System& system, const Dynamics& dynamics, const State& state,
                                 const LeftOut& left_out, std::vector<Matrix3d>& stiffness) {
  const IslandLayout& layout = dynamics.assembly().layout;
  for (const LawForce& e : dynamics.law_forces()) {
    const ConstraintId id = layout.constraints[z(e.constraint)];
    if (laws_on(system, id)[z(e.law)].terms()[z(e.term)].row < 0) continue;
    const auto bodies = system.constraint(id).bodies();
    for (std::size_t k = 0; k < bodies.size(); ++k) {
      const int slot = layout.body_index(bodies[k]);
      if (slot < 0 || layout.column[z(slot + 1)] - layout.column[z(slot)] != 6 || left_out(z(slot))) continue;
      add_stiffness_of(k == 0 ? e.force : Vector3d(-e.force), e.p_WQ - state[bodies[k]].p, stiffness[z(slot)]);
    }
  }
}

/// Computes K of T15 by body of the block, in lower triangles, but for the bodies that `left_out` excludes.
template <typename LeftOut>
void add_stiffness(const System& system, const Dynamics& dynamics, const State& state, std::span<const double> lambda,
                   const LeftOut& left_out, std::vector<Matrix3d>& stiffness) {
  const Assembly& assembly = dynamics.assembly();
  const IslandLayout& layout = assembly.layout;
  stiffness.assign(layout.bodies.size(), Matrix3d::Zero());
  for (std::size_t i = 0; i < layout.constraints.size(); ++i) {
    const Constraint& constraint = constraint_at(system, layout.constraints[i]);
    for (int k = 0; k < static_cast<int>(constraint.bodies().size()); ++k) {
      const int slot = assembly.body_index(static_cast<int>(i), k);
      if (slot < 0 || layout.column[z(slot + 1)] - layout.column[z(slot)] != 6 || left_out(z(slot))) continue;
      const auto [f, r] = ForceOnBody(constraint, assembly, state, lambda, static_cast<int>(i), k);
      add_stiffness_of(f, r, stiffness[z(slot)]);
    }
  }
  add_stiffness_of_row_forces(system, dynamics, state, left_out, stiffness);
}

/// Bounds ω² of each body of stock joints by Σ|r||f| / least principal moment.
void bound_by_tension(const System& system, const Dynamics& dynamics, const State& state,
                      std::span<const double> lambda, std::vector<double>& bound) {
  const Assembly& assembly = dynamics.assembly();
  const IslandLayout& layout = assembly.layout;
  const detail::StockJoints& stock = detail::stock_of(dynamics);
  for (int i = 0; i < stock.count(); ++i) {
    const detail::StockJoints::Joint& joint = stock.joints[z(i)];
    if (detail::count_of<detail::AxisPrimitive>(stock.ranges(i)) > 0) {  // it slides, and its arm with it
      const Constraint& constraint = constraint_at(system, layout.constraints[z(joint.constraint)]);
      for (const int k : {0, 1})
        if (const int slot = k == 0 ? joint.slot_a : joint.slot_b; slot >= 0) {
          const ForceOnBody force(constraint, assembly, state, lambda, joint.constraint, k);
          bound[z(slot)] += force.f.norm() * force.r.norm();
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
  const auto& bodies = SystemParts::of(system).bodies;
  for (std::size_t s = 0; s < bound.size(); ++s) bound[s] /= bodies[z(layout.bodies[s].index)].least_inertia;
}

/// K ← L⁻¹ K L⁻ᵀ with the inertia L Lᵀ, whose eigenvalues are ω². @param M  mass matrix of a rigid body, row by row
void whiten(const double* M, Matrix3d& K) {
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
}

/// The largest of `most` and the eigenvalues of the whitened K, infinity where one is no number. The Frobenius norm of
/// K bounds its eigenvalues, so that few have to be found.
/// @param bound  out: those norms, of the bodies that have a stiffness
double largest_eigenvalue(const Assembly& assembly, std::vector<Matrix3d>& stiffness, std::vector<double>& bound,
                          double most) {
  std::size_t widest = 0;
  for_mass_blocks(assembly.layout, assembly.problem, [&](std::size_t s, const double* M, int dof) {
    if (!std::isfinite(bound[widest])) return;
    bound[s] = 0;
    if (Matrix3d& K = stiffness[s]; dof == 6 && !K.isZero(0)) {
      whiten(M, K);
      bound[s] = K.norm();
      if (!(bound[s] <= bound[widest])) widest = s;
    }
  });
  if (bound.empty()) return most;
  if (!std::isfinite(bound[widest])) return std::numeric_limits<double>::infinity();
  const auto consider = [&](std::size_t s) {
    if (!(bound[s] > most)) return;
    const Eigen::SelfAdjointEigenSolver<Matrix3d> solver(stiffness[s], Eigen::EigenvaluesOnly);
    most = std::max(most, solver.eigenvalues().maxCoeff());
  };
  consider(widest);
  for (std::size_t s = 0; s < bound.size(); ++s)
    if (s != widest) consider(s);
  return most;
}

}  // namespace

double tension_frequency(const System& system, const Dynamics& dynamics, const State& state,
                         std::span<const double> lambda, double enough) {
  const Assembly& assembly = dynamics.assembly();
  const bool rigid = detail::stock_of(dynamics).rigid;
  thread_local std::vector<Matrix3d> stiffness;
  thread_local std::vector<double> bound;  // of ω²
  bound.assign(assembly.layout.bodies.size(), 0.0);
  double most = 0;
  if (rigid) {
    bound_by_tension(system, dynamics, state, lambda, bound);
    double probe = 0;  // 0 times what is not finite is not a number
    for (const double b : bound) {
      most = std::max(most, b);
      probe += 0 * b;
    }
    if (probe != 0) return std::numeric_limits<double>::infinity();
    if (std::sqrt(most) <= enough) return std::sqrt(most);
  }
  const auto slow = [&](std::size_t s) { return rigid && bound[s] <= enough * enough; };
  most = 0;
  for (std::size_t s = 0; s < bound.size(); ++s)
    if (slow(s)) most = std::max(most, bound[s]);
  add_stiffness(system, dynamics, state, lambda, slow, stiffness);
  return std::sqrt(largest_eigenvalue(assembly, stiffness, bound, most));
}

void geometric_stiffness(const System& system, const Dynamics& dynamics, const State& state,
                         std::span<const double> lambda, std::vector<Matrix3d>& K) {
  add_stiffness(
      system, dynamics, state, lambda, [](std::size_t) { return false; }, K);
  for (Matrix3d& k : K) {
    if (k.isZero(0)) continue;
    const Eigen::SelfAdjointEigenSolver<Matrix3d> solver(k);  // reads the lower triangle
    k = solver.eigenvectors() * solver.eigenvalues().cwiseMax(0).asDiagonal() * solver.eigenvectors().transpose();
  }
}

}  // namespace linchpin
