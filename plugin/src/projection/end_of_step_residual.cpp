#include "projection/end_of_step_residual.h"

#include <algorithm>
#include <cmath>

namespace linchpin {

namespace {

/// Returns a kinematic body in the middle of a step, with the velocity that carries it across.
BodyState halfway(const BodyState& from, const BodyState& to, double dt) {
  BodyState mid = from;
  mid.v = (to.p - from.p) / dt;
  mid.w = turn_between(from.q, to.q) / dt;
  advance(mid, mid.v, mid.w, 0.5 * dt);
  return mid;
}

}  // namespace

void place(const IslandLayout& layout, const State& base, State& end, double dt, std::span<const double> v, double t) {
  for (std::size_t s = 0; s < layout.bodies.size(); ++s) {
    BodyState& body = end[layout.bodies[s]];
    const BodyState& from = base[layout.bodies[s]];
    const int column = layout.column[s];
    if (layout.column[s + 1] - column == 6) {
      const double* const u = v.data() + column;
      body.v = {u[0], u[1], u[2]};
      body.w = {u[3], u[4], u[5]};
    } else {
      const Vector6d u = twist_of(layout, s, v);
      body.v = u.head<3>();
      body.w = u.tail<3>();
    }
    body.p = from.p;
    body.q = from.q;
    advance(body, body.v, body.w, dt);
  }
  // Blocks of one state may be solved concurrently. Only the first of them sets the clock.
  if (end.t != t) end.t = t;
}

double step_residuals(const System& system, const Assembly& assembly, const State& base, const State& end, double dt,
                      std::span<const double> v, Workspace& work) {
  const IslandLayout& layout = assembly.layout;
  double worst = position_residuals(system, layout, end, work.X, work.error) / std::fabs(dt);
  for (double& e : work.error) e /= dt;
  if (work.positions_only) return worst;
  for (std::size_t i = 0; i < layout.constraints.size(); ++i) {
    const Constraint& constraint = constraint_at(system, layout.constraints[i]);
    const Level level = constraint.function().level();
    if (level == Level::position) continue;
    const auto out = std::span(work.error).subspan(z(layout.row[i]), z(layout.row[i + 1] - layout.row[i]));
    if (level == Level::velocity) {
      work.X.clear();
      for (const BodyId id : constraint.bodies()) {
        const int slot = layout.body_index(id);
        if (slot < 0) {
          work.X.push_back(halfway(base[id], end[id], dt));
          continue;
        }
        const Vector6d u = twist_of(layout, z(slot), v);
        BodyState& mid = work.X.emplace_back(base[id]);
        mid.v = u.head<3>();
        mid.w = u.tail<3>();
        advance(mid, mid.v, mid.w, 0.5 * dt);
      }
      evaluate_residual(constraint, work.X, base.t + 0.5 * dt, out);
    } else {
      for (int r = layout.row[i]; r < layout.row[i + 1]; ++r) {
        double sum = -dt * assembly.problem.b[z(r)];
        for (int e = assembly.problem.row_start[z(r)]; e < assembly.problem.row_start[z(r + 1)]; ++e) {
          const ConstrainedProblem::Entry& entry = assembly.problem.entries[z(e)];
          sum += entry.value * (v[z(entry.column)] - assembly.v[z(entry.column)]);
        }
        out[z(r - layout.row[i])] = sum;
      }
    }
    for (const double x : out)
      worst = std::isfinite(x) ? std::max(worst, std::fabs(x)) : std::numeric_limits<double>::infinity();
  }
  return worst;
}

bool at_round_off(const System& system, const Assembly& assembly, const State& end, double dt,
                  std::span<const double> error) {
  for (std::size_t i = 0; i < assembly.layout.constraints.size(); ++i) {
    const bool position = constraint_at(system, assembly.layout.constraints[i]).function().level() == Level::position;
    for (int r = assembly.layout.row[i]; r < assembly.layout.row[i + 1]; ++r)
      if (std::fabs(error[z(r)]) * (position ? std::fabs(dt) : 1.0) >
          round_off(system, assembly, end, static_cast<int>(i), r - assembly.layout.row[i]))
        return false;
  }
  return true;
}

double GeneralEndResidual::evaluate(std::span<const double> v, std::span<double> error) {
  place(v);
  const double worst =
      step_residuals(step_.system, step_.dynamics.assembly(), step_.base, step_.end, step_.dt, v, work_);
  for (double& e : error) e = -e;
  return worst;
}

double StockJointEndResidual::evaluate(std::span<const double> v, std::span<double> error) {
  return work_.joints.residuals(v, -1 / step_.dt, error) / std::fabs(step_.dt);
}

}  // namespace linchpin
