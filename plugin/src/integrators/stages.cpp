// Steps by stages with forces of a host (T13). It is the stage bookkeeping of a host, as the stepper has its own.
#include "integrators/exponential_chart.h"
#include "integrators/tableau.h"
#include "problem/assembly_parts.h"

#include <linchpin/stages.h>
#include <linchpin/stepper.h>

#include <algorithm>
#include <cmath>

namespace linchpin {

namespace {
const Tableau& tableau_of(Method method) { return method == Method::adaptive ? dormand_prince_5 : runge_kutta_4; }

/// e = b − A x, with blocks of bodies taken whole.
void residual(const Assembly& assembly, std::span<const double> x, std::span<double> e) {
  const ConstrainedProblem& problem = assembly.problem;
  const auto& parts = AssemblyParts::of(assembly);
  const AssemblyParts::EntryRun* run = parts.entry_runs.data();
  for (int r = 0; r < problem.m(); ++r) {
    double sum = problem.b[z(r)];
    for (int k = problem.row_start[z(r)]; k < problem.row_start[z(r + 1)]; k += run->length, ++run) {
      const double *J = parts.jacobians.data() + run->source, *of = x.data() + problem.entries[z(k)].column;
      if (run->length == 6)
        sum -= Eigen::Map<const Vector6d>(J).dot(Eigen::Map<const Vector6d>(of));
      else
        for (int i = 0; i < run->length; ++i) sum -= J[i] * of[i];
    }
    e[z(r)] = sum;
  }
}
}  // namespace

void RungeKuttaStages::begin(const Dynamics& dynamics, Method method, const State& from, double h) {
  const IslandLayout& layout = dynamics.assembly().layout;
  method_ = method;
  from_ = &from;
  block_ = &layout;
  h_ = h;
  placed_ = 0;
  const std::size_t n = z(layout.n()), stages = tableau_of(method).stages + (tableau_of(method).pair ? 1 : 0);
  for (auto* x : {&v0_, &v_, &chart_, &gained_, &a_, &dv_}) x->resize(n);
  for (auto* x : {&error_, &scale_, &lambda_}) x->resize(z(layout.m()));
  for (std::size_t k = 0; k < stages; ++k) {
    pose_rate_[k].resize(n);
    vdot_[k].resize(n);
  }
  std::fill(chart_.begin(), chart_.end(), 0.0);
  for (std::size_t s = 0; s < layout.bodies.size(); ++s) {
    const BodyState& body = from[layout.bodies[s]];
    for (int j = layout.column[s]; j < layout.column[s + 1]; ++j)
      v0_[z(j)] = j < layout.column[s] + 3 ? body.v[j - layout.column[s]] : body.w[j - layout.column[s] - 3];
  }
  std::copy(v0_.begin(), v0_.end(), v_.begin());
}

void RungeKuttaStages::store(const Dynamics& dynamics) {
  std::copy(dynamics.vdot().begin(), dynamics.vdot().end(), vdot_[placed_].begin());
  for (std::size_t r = 0; r < lambda_.size(); ++r) lambda_[r] = dynamics.lambda()[r] + dynamics.induced()[r];
  rates_in_chart(*block_, chart_, v_, pose_rate_[placed_]);
}

void RungeKuttaStages::continue_from_last() {
  vdot_[0].swap(vdot_[dormand_prince_5.stages]);
  rates_in_chart(*block_, chart_, v_, pose_rate_[0]);
}

bool RungeKuttaStages::solve(const Dynamics& dynamics, std::span<const double> Q) {
  const Assembly& assembly = dynamics.assembly();
  const ConstraintFactorization& solver = dynamics.solver();
  std::copy(Q.begin(), Q.end(), dv_.begin());
  solver.complete_force(assembly.problem.b, dv_);
  solver.inverse_mass(dv_, a_);
  if (solver.full_row_rank()) {
    residual(assembly, a_, error_);
    solver.solve_unrefined(error_, lambda_, {}, dv_);
  } else {
    difference(assembly, assembly.problem.b, a_, error_, scale_);
    solver.apply(error_, lambda_, {}, dv_, scale_);
  }
  std::vector<double>& vdot = vdot_[placed_];
  for (std::size_t j = 0; j < vdot.size(); ++j) vdot[j] = a_[j] + dv_[j];
  rates_in_chart(*block_, chart_, v_, pose_rate_[placed_]);
  return finite(vdot) && finite(lambda_);
}

double RungeKuttaStages::weight() const { return h_ * tableau_of(method_).weight[placed_]; }

bool RungeKuttaStages::next_stage(State& at) {
  const Tableau& method = tableau_of(method_);
  ++placed_;
  const bool inside = placed_ < method.stages;
  const Tableau::Row& row = inside ? method.from[placed_] : method.weight;
  combine_rates(h_, row, placed_, pose_rate_, chart_);
  combine_rates(h_, row, placed_, vdot_, gained_);
  place_in_chart(*block_, *from_, chart_, gained_, at);
  at.t = from_->t + (inside ? method.at[placed_] : 1.0) * h_;
  for (std::size_t j = 0; j < v_.size(); ++j) v_[j] = v0_[j] + gained_[j];
  return inside;
}

void RungeKuttaStages::set_projected_end(const State& off, const State& on, std::span<const double> v) {
  follow_in_chart(*block_, off, on, chart_);
  std::copy(v.begin(), v.end(), v_.begin());
}

double RungeKuttaStages::error(const State& end, double absolute, double relative) {
  const Tableau& method = tableau_of(method_);
  double sum = 0;
  for (const auto* rate : {&pose_rate_, &vdot_}) {
    combine_rates(h_, method.error, method.stages + 1, *rate, gained_);
    sum += squares_in_chart(*block_, *from_, end, gained_, rate == &pose_rate_, absolute, relative);
  }
  return std::sqrt(sum / std::max(1.0, 2.0 * block_->n()));
}

}  // namespace linchpin
