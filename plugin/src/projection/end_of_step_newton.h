// The Newton iteration that ends a step on the constraints (T12, T13). Private to the core.
#pragma once

#include "problem/jacobian_products.h"
#include "projection/stock_joints_of.h"
#include "projection/workspace.h"

#include <linchpin/projection.h>

#include <limits>
#include <span>
#include <utility>

namespace linchpin {

/// Moves the bodies of the block by v over dt from their poses in `base`, and sets the clock.
void place(const Block& block, const State& base, State& end, double dt, std::span<const double> v, double t);

/// The three kinds of end-of-step residual (T12), all as velocities. @return the largest.
double step_residuals(const System& system, const Assembly& assembly, const State& base, const State& end, double dt,
                      std::span<const double> v, Workspace& work);

bool at_round_off(const System& system, const Assembly& assembly, const State& end, double dt,
                  std::span<const double> error);

/// The Newton of all ways to end a step (T12, T13). @param settle  makes v of what it was and a solve's Aᵀλ and
/// M⁻¹Aᵀλ, the first empty unless `with_force`; steps backwards have dt < 0. @param poses_alone  v is but a
/// displacement in dt, of which other levels know nothing
template <class Settle>
NewtonReport newton_to_the_end(const System& system, const Dynamics& dynamics, const State& base, State& end, double dt,
                               std::span<double> v, std::span<double> lambda, std::span<double> force, double tolerance,
                               int max_solves, bool shorten, bool with_force, Settle settle, bool poses_alone = false,
                               std::span<const double> left_open = {}) {
  const Assembly& assembly = dynamics.assembly();
  const Solver& solver = dynamics.solver();
  const std::size_t n = z(assembly.block.n()), m = z(assembly.block.m());
  const bool full = solver.full_row_rank();
  // Where laws read slips to the last digit, poses and velocities are those that the laws will be asked at.
  const bool laws = !poses_alone && (!dynamics.law_efforts().empty() || !dynamics.contacts().empty());
  with_force = with_force || laws || !full;
  Workspace& work = workspace();
  work.start.assign(v.begin(), v.end());
  const bool by_joints = !laws && work.joints.begin(dynamics, base, end, dt);
  work.positions_only =
      poses_alone || by_joints ||
      (!has_level(system, assembly.block, Level::velocity) && !has_level(system, assembly.block, Level::acceleration));
  for (auto* x : {&work.error, &work.previous, &work.lambda}) x->resize(m);
  for (auto* x : {&work.force, &work.dv}) x->resize(n);
  work.lambda_sum.assign(m, 0.0);
  if (with_force) work.force_sum.assign(n, 0.0);

  const double length = std::fabs(dt), t_end = poses_alone ? base.t : base.t + dt;
  const auto look = [&] {
    double worst;
    if (by_joints) {
      worst = work.joints.residuals(v, -1 / dt, work.error) / length;
    } else {
      place(assembly.block, base, end, dt, v, t_end);
      worst = step_residuals(system, assembly, base, end, dt, v, work);
      for (double& e : work.error) e = -e;
    }
    if (left_open.empty() || !std::isfinite(worst)) return worst;
    for (std::size_t r = 0; r < m; ++r) work.error[r] += left_open[r] / dt;
    return largest(work.error);
  };
  const auto arrive = [&] {
    if (by_joints) place(assembly.block, base, end, dt, v, t_end);
  };
  NewtonReport report;
  double first = 0, previous = 0, moved = std::numeric_limits<double>::max();
  bool least_squares = false, turns = false;
  std::span<double> pull = with_force ? std::span(work.force) : std::span<double>();
  // Forces once, from the sum, which velocities then follow to rounding.
  const auto follow = [&] {
    work.force_sum.assign(n, 0.0);
    add_transposed(assembly, work.lambda_sum, work.force_sum);
    solver.inverse_mass(work.force_sum, work.dv);
    for (std::size_t j = 0; j < n; ++j) v[j] = work.start[j] + work.dv[j];
    with_force = true;
  };
  constexpr double close = 1e-3;  // to where rows lose their rank
  work.anderson.begin();
  for (int stalled = 0;; ++report.solves) {
    work.previous.swap(work.error);
    report.residual = look();
    if (report.solves == 0) first = report.residual;
    report.converged = report.residual * length <= tolerance;
    if (report.converged && !with_force && !poses_alone && report.solves > 0 && solver.info().smallest_pivot < close) {
      // There a factor's multipliers do not make quite the velocities it gives: chords of those that they make follow.
      follow();
      least_squares = true;
      pull = work.force;
      turns = false;
      work.anderson.begin();
      previous = std::numeric_limits<double>::infinity();
      report.residual = look();
      report.converged = report.residual * length <= tolerance;
    }
    if (report.converged || !std::isfinite(report.residual)) break;
    if (report.solves > 0 && report.residual > 0.5 * previous && !full && !std::exchange(least_squares, true)) {
      // Redundant rows may contradict each other: from here on none of them is left out.
    } else if (report.solves > 0 && report.residual > 0.5 * previous) {
      // It no longer shrinks: because it cannot, or because it never will.
      arrive();
      report.converged = at_round_off(system, assembly, end, dt, work.error);
      // Rows that contradict each other, by a little (a float host's frames) or by much, keep a residual that no
      // velocity can take away; there the least squares have been reached when a solve moves nothing any more (T6).
      double size = 0, moves = 0;
      for (std::size_t j = 0; j < n; ++j) {
        size = std::max(size, std::fabs(v[j]));
        moves = std::max(moves, std::fabs(work.dv[j]));
      }
      report.least_squares = !report.converged && (moves * length <= tolerance || moves <= 64 * epsilon * size);
      report.converged = report.converged || report.least_squares;
      if (report.converged || report.residual > 100 * first) break;
      stalled = report.residual > 0.9 * previous && moves > 0.5 * moved ? stalled + 1 : 0;
      moved = moves;
      if (stalled == 3) break;
      // Close to where rows lose their rank they turn within a step, and what the last chord did tells of the next.
      // Elsewhere a chord that does not contract says that the step is too long.
      if (full && solver.info().smallest_pivot < close && !std::exchange(turns, true))
        work.anderson.improve<3>(work.previous, {work.lambda, pull, work.dv}, false);
    }
    if (report.solves == max_solves) break;
    previous = report.residual;

    // The factor at the base: a chord (T12).
    if (least_squares)
      solver.apply(work.error, work.lambda, pull, work.dv);
    else
      solver.approach(work.error, work.lambda, pull, work.dv);
    if (turns) work.anderson.improve<3>(work.error, {work.lambda, pull, work.dv}, true);
    settle(work.force, work.dv);
    for (std::size_t j = 0; with_force && j < n; ++j) work.force_sum[j] += work.force[j];
    for (std::size_t r = 0; r < m; ++r) work.lambda_sum[r] += work.lambda[r];
  }

  if (!report.converged && !(report.residual <= first)) {
    // It made things worse: the caller gets back what it gave.
    std::copy(work.start.begin(), work.start.end(), v.begin());
    place(assembly.block, base, end, dt, v, t_end);
    return report;
  }
  if (!with_force && !poses_alone && report.solves > 0) follow();
  arrive();
  if (!lambda.empty() && !full && report.solves > 0) {
    solver.shortest(work.force_sum, work.lambda_sum, shorten ? v : std::span<double>());
    place(assembly.block, base, end, dt, v, t_end);
    report.residual = step_residuals(system, assembly, base, end, dt, v, work);
    report.least_squares = report.least_squares || (report.converged && report.residual * length > tolerance &&
                                                    !at_round_off(system, assembly, end, dt, work.error));
  }
  if (report.solves == 0) return report;
  for (std::size_t r = 0; r < std::min(m, lambda.size()); ++r) lambda[r] += work.lambda_sum[r];
  for (std::size_t j = 0; j < std::min(n, force.size()); ++j) force[j] += work.force_sum[j];
  return report;
}

}  // namespace linchpin
