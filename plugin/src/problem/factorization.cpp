// Chooses the solver, checks its result against the given data, and reports how it was found. The factorisations are in
// dense_factorization and sparse_factorization.
#include "math/vector_ops.h"
#include "problem/dense_factorization.h"
#include "problem/sparse_factorization.h"

#include <linchpin/problem.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace linchpin {
namespace {

bool usable(const SolveOptions& o) {
  return o.rank_tolerance >= 0 && o.rank_tolerance < 1 && o.consistency_tolerance >= 0;  // It is false for NaN, too.
}

// e = b − A x, or −A x.
void error_of(const ConstrainedProblem& problem, const VectorX& x, bool with_b, std::vector<double>& e) {
  for (int r = 0; r < problem.m(); ++r) {
    double sum = with_b ? problem.b[z(r)] : 0.0;
    for (int i = problem.row_start[z(r)]; i < problem.row_start[z(r) + 1]; ++i) {
      sum -= problem.entries[z(i)].value * x[problem.entries[z(i)].column];
    }
    e[z(r)] = sum;
  }
}

std::span<double> span_of(VectorX& x) { return {x.data(), static_cast<std::size_t>(x.size())}; }

std::vector<std::string> names(const ConstrainedProblem& problem, const std::vector<int>& which) {
  std::vector<std::string> out;
  out.reserve(which.size());
  for (const int i : which) out.push_back(problem.constraints[z(i)]);
  return out;
}

Acceleration invalid(std::string reason) {
  Acceleration out;
  out.status = Status::invalid;
  out.reason = std::move(reason);
  return out;
}

constexpr const char* overflows = "the solution is not finite, because the data exceed the range of double precision";

// Solves the whole equation by either solver.
template <class AnySolver>
Acceleration solve_with(const ConstrainedProblem& problem, std::span<const double> Q, const AnySolver& solver) {
  const int n = problem.n(), m = problem.m();
  Acceleration out;
  out.vdot.setZero(n);
  out.ideal.setZero(n);
  out.nonideal.setZero(n);
  out.lambda.setZero(m);
  std::vector<double> e(z(m)), scale(z(m));
  VectorX dv(n);

  solver.inverse_mass(Q, span_of(out.vdot));  // (T2)
  error_of(problem, out.vdot, true, e);
  solver.size_of_terms(problem.b, span_of(out.vdot), scale);
  if (std::isinf(solver.apply(e, scale, span_of(out.lambda), span_of(out.ideal), span_of(dv))))
    return invalid(overflows);
  out.vdot += dv;  // (T5)
  const RankReport ranks = solver.report(e, scale, false);

  if (std::any_of(problem.c.begin(), problem.c.end(), [](double c) { return c != 0; })) {
    VectorX free(n);
    solver.inverse_mass(problem.c, span_of(free));
    error_of(problem, free, false, e);
    solver.size_of_terms({}, span_of(free), scale);
    solver.apply(e, scale, {}, span_of(out.nonideal), span_of(dv));
    out.nonideal += Eigen::Map<const Eigen::VectorXd>(problem.c.data(), n);  // Q^W = c − AᵀG⁺A M⁻¹c (T5)
    out.vdot += free + dv;
  }

  error_of(problem, out.vdot, true, e);
  for (const double r : e) {
    if (!(std::abs(r) <= out.residual)) out.residual = std::abs(r);
  }
  if (!out.vdot.allFinite() || !out.ideal.allFinite() || !out.nonideal.allFinite() || !out.lambda.allFinite() ||
      !std::isfinite(out.residual)) {
    return invalid(overflows);
  }
  out.rank = ranks.rank;
  out.redundant = names(problem, ranks.redundant);
  out.undetermined = names(problem, ranks.undetermined);
  out.contradictory = names(problem, ranks.contradictory);
  out.status = !ranks.contradictory.empty() ? Status::contradictory : ranks.rank < m ? Status::redundant : Status::ok;
  return out;
}

}  // namespace

const char* to_string(Status status) {
  switch (status) {
    case Status::ok:
      return "ok";
    case Status::redundant:
      return "redundant";
    case Status::contradictory:
      return "contradictory";
    case Status::invalid:
      break;
  }
  return "invalid";
}

const char* to_string(Backend backend) {
  switch (backend) {
    case Backend::automatic:
      return "auto";
    case Backend::dense:
      return "dense";
    case Backend::sparse:
      break;
  }
  return "sparse";
}

// ---- the solver ----

struct LINCHPIN_PRIVATE ConstraintFactorization::Impl {
  SolveOptions options;
  detail::DenseFactorization dense;
  detail::SparseFactorization sparse;
  bool use_dense = false;

  detail::Completion completion;  // Completion of a singular M.
  bool completed = false;

  bool factor(const ConstrainedProblem& problem) {
    completed = false;
    if (!usable(options)) return false;
    use_dense = options.backend == Backend::dense;
    if (factor_as_given(problem)) return true;
    completed = detail::well_formed(problem, nullptr) && completion.make(problem);
    return completed && factor_as_given(completion.problem);
  }
  bool factor_as_given(const ConstrainedProblem& problem) {
    return use_dense ? detail::well_formed(problem, nullptr) && dense.factor(problem, options)
                     : sparse.factor(problem, options);
  }
  /// Calls a function that both solvers have, on the one that factored.
  template <class Call>
  decltype(auto) with_solver(Call call) const {
    return use_dense ? call(dense) : call(sparse);
  }
};

ConstraintFactorization::ConstraintFactorization(SolveOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->options = options;
}
ConstraintFactorization::~ConstraintFactorization() = default;
ConstraintFactorization::ConstraintFactorization(ConstraintFactorization&&) noexcept = default;
ConstraintFactorization& ConstraintFactorization::operator=(ConstraintFactorization&&) noexcept = default;

const SolveOptions& ConstraintFactorization::options() const { return impl_->options; }
void ConstraintFactorization::set_options(const SolveOptions& options) { impl_->options = options; }
bool ConstraintFactorization::factor(const ConstrainedProblem& problem) noexcept { return impl_->factor(problem); }
void ConstraintFactorization::complete_force(std::span<const double> b, std::span<double> Q) const noexcept {
  if (!impl_->completed) return;
  for (const auto& term : impl_->completion.terms) Q[z(term.column)] += term.value * b[z(term.row)];
}

int ConstraintFactorization::rank() const {
  return impl_->with_solver([](const auto& s) { return s.rank(); });
}
int ConstraintFactorization::rows() const {
  return impl_->with_solver([](const auto& s) { return s.rows(); });
}
int ConstraintFactorization::columns() const {
  return impl_->with_solver([](const auto& s) { return s.columns(); });
}
bool ConstraintFactorization::full_row_rank() const { return rank() == rows(); }
SolveInfo ConstraintFactorization::info() const {
  return impl_->use_dense ? SolveInfo{.smallest_pivot = impl_->dense.smallest_pivot()} : impl_->sparse.info();
}

double ConstraintFactorization::apply(std::span<const double> e, std::span<double> lambda, std::span<double> force,
                                      std::span<double> dv, std::span<const double> scale) const noexcept {
  return impl_->with_solver([&](const auto& s) { return s.apply(e, scale, lambda, force, dv); });
}

void ConstraintFactorization::solve_unrefined(std::span<const double> e, std::span<double> lambda,
                                              std::span<double> force, std::span<double> dv) const noexcept {
  if (impl_->use_dense)
    impl_->dense.apply(e, {}, lambda, force, dv);
  else
    impl_->sparse.solve_unrefined(e, lambda, force, dv);
}

void ConstraintFactorization::minimum_norm_multipliers(std::span<double> force, std::span<double> lambda,
                                                       std::span<double> v) const noexcept {
  if (!impl_->use_dense)
    impl_->sparse.minimum_norm_multipliers(force, lambda, v);  // The dense solver always has the least norm.
}

void ConstraintFactorization::inverse_mass(std::span<const double> f, std::span<double> dv) const noexcept {
  impl_->with_solver([&](const auto& s) { s.inverse_mass(f, dv); });
}

RankReport ConstraintFactorization::report(std::span<const double> e, std::span<const double> scale) const {
  return impl_->with_solver([&](const auto& s) { return s.report(e, scale, true); });
}

// ---- solve() ----

Acceleration solve(const ConstrainedProblem& problem, const SolveOptions& options) noexcept {
  if (!usable(options))
    return invalid("rank_tolerance must lie in [0, 1) and consistency_tolerance must not be negative");
  if (std::string why = problem.invalid(); !why.empty()) return invalid(std::move(why));
  ConstraintFactorization solver(options);
  if (!solver.factor(problem))
    return invalid("masses, lengths or rows differ by too many orders of magnitude for double precision");
  std::vector<double> Q = problem.Q;
  solver.complete_force(problem.b, Q);
  Acceleration out = solver.impl_->with_solver([&](const auto& s) { return solve_with(problem, Q, s); });
  const SolveInfo info = solver.info();
  out.backend = info.backend;
  out.fallback = info.reason;
  if (out.status != Status::invalid || options.backend == Backend::dense) return out;
  // A step does not use the dense solver for so many rows, because it is slow. A single call of solve() does.
  SolveOptions dense_options = options;
  dense_options.backend = Backend::dense;
  out = solve(problem, dense_options);
  out.fallback = info.reason;
  return out;
}

}  // namespace linchpin
