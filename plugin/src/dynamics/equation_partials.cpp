// Evaluates the parts of the equation at a state beside its solution.
#include "dynamics/equation_partials.h"

#include "problem/jacobian_products.h"

#include <algorithm>
#include <exception>

namespace linchpin {
namespace {

/// f −= M x.
void subtract_inertia(const ConstrainedProblem& problem, std::span<const double> x, std::span<double> f) {
  const double* M = problem.mass.data();
  std::size_t column = 0;
  for (const int block : problem.block_sizes) {
    const std::size_t size = z(block);
    for (std::size_t i = 0; i < size; ++i, M += size)
      for (std::size_t j = 0; j < size; ++j) f[column + i] -= M[j] * x[column + j];
    column += size;
  }
}

/// e = b − A x.
void row_error(const ConstrainedProblem& problem, std::span<const double> x, std::span<double> e) {
  multiply(problem, x, e);
  for (std::size_t r = 0; r < e.size(); ++r) e[r] = problem.b[r] - e[r];
}

}  // namespace

EquationPartials::EquationPartials(const System& system, const IslandLayout& layout) : system_(system) {
  assembly_.layout = layout;
  laws_.restructure(layout);
}

bool EquationPartials::assemble(const State& state) {
  assemble_constraints(system_, state, assembly_);
  if (assembly_.failure.empty()) assemble_forces(system_, state, assembly_);
  failure_ = assembly_.failure;
  return failure_.empty();
}

bool EquationPartials::evaluate(const State& state, const KeptSolution& solution, const ConstraintFactorization& factor,
                                const EquationParts& parts, std::span<double> out) {
  if (!assemble(state)) return false;
  const ConstrainedProblem& problem = assembly_.problem;
  const EquationParts::Spans<double> of = parts.of(out);
  std::fill(of.ideal_force.begin(), of.ideal_force.end(), 0.0);
  add_transposed(assembly_, solution.lambda, of.ideal_force);
  for (std::size_t j = 0; j < of.ideal_force.size(); ++j) of.ideal_balance[j] = problem.Q[j] + of.ideal_force[j];
  if (parts.laws) std::copy(of.ideal_balance.begin(), of.ideal_balance.end(), of.balance.begin());
  subtract_inertia(problem, solution.ideal_vdot, of.ideal_balance);
  row_error(problem, solution.ideal_vdot, of.ideal_rows);
  std::copy(assembly_.velocity.begin(), assembly_.velocity.end(), of.velocity.begin());
  if (parts.redundant) multiply(problem, solution.preimage, of.ideal_range);
  if (!parts.laws) return true;

  LawSolver::Scene scene{system_, assembly_, factor, state, solution.lambda};
  try {
    laws_.evaluate(scene, solution.laws, solution.vdot, solution.induced);
  } catch (const std::exception& e) {
    failure_ = e.what();
    return false;
  }
  std::fill(of.law_force.begin(), of.law_force.end(), 0.0);
  for (int site = 0; site < laws_.site_count(); ++site) laws_.add(scene, site, laws_.effort(site), of.law_force);
  add_transposed(assembly_, solution.induced, of.law_force);
  for (std::size_t j = 0; j < of.balance.size(); ++j) of.balance[j] += of.law_force[j];
  subtract_inertia(problem, solution.vdot, of.balance);
  row_error(problem, solution.vdot, of.rows);
  std::copy(laws_.slip_accelerations().begin(), laws_.slip_accelerations().end(), of.slip.begin());
  if (parts.redundant) multiply(problem, solution.laws_preimage, of.range);
  return true;
}

}  // namespace linchpin
