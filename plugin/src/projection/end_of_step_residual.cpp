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

void place(const Block& block, const State& base, State& end, double dt, std::span<const double> v, double t) {
  for (std::size_t s = 0; s < block.bodies.size(); ++s) {
    BodyState& body = end[block.bodies[s]];
    const BodyState& from = base[block.bodies[s]];
    const int column = block.column[s];
    if (block.column[s + 1] - column == 6) {
      const double* const u = v.data() + column;
      body.v = {u[0], u[1], u[2]};
      body.w = {u[3], u[4], u[5]};
    } else {
      const Vector6d u = twist_of(block, s, v);
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
  const Block& block = assembly.block;
  double worst = position_residuals(system, block, end, work.X, work.error) / std::fabs(dt);
  for (double& e : work.error) e /= dt;
  if (work.positions_only) return worst;
  for (std::size_t i = 0; i < block.constraints.size(); ++i) {
    const Constraint& constraint = constraint_at(system, block.constraints[i]);
    const Level level = constraint.function().level();
    if (level == Level::position) continue;
    const auto out = std::span(work.error).subspan(z(block.row[i]), z(block.row[i + 1] - block.row[i]));
    if (level == Level::velocity) {
      work.X.clear();
      for (const BodyId id : constraint.bodies()) {
        const int slot = block.slot(id);
        if (slot < 0) {
          work.X.push_back(halfway(base[id], end[id], dt));
          continue;
        }
        const Vector6d u = twist_of(block, z(slot), v);
        BodyState& mid = work.X.emplace_back(base[id]);
        mid.v = u.head<3>();
        mid.w = u.tail<3>();
        advance(mid, mid.v, mid.w, 0.5 * dt);
      }
      evaluate_residual(constraint, work.X, base.t + 0.5 * dt, out);
    } else {
      for (int r = block.row[i]; r < block.row[i + 1]; ++r) {
        double sum = -dt * assembly.instant.b[z(r)];
        for (int e = assembly.instant.row_start[z(r)]; e < assembly.instant.row_start[z(r + 1)]; ++e) {
          const Instant::Entry& entry = assembly.instant.entries[z(e)];
          sum += entry.value * (v[z(entry.column)] - assembly.v[z(entry.column)]);
        }
        out[z(r - block.row[i])] = sum;
      }
    }
    for (const double x : out)
      worst = std::isfinite(x) ? std::max(worst, std::fabs(x)) : std::numeric_limits<double>::infinity();
  }
  return worst;
}

bool at_round_off(const System& system, const Assembly& assembly, const State& end, double dt,
                  std::span<const double> error) {
  for (std::size_t i = 0; i < assembly.block.constraints.size(); ++i) {
    const bool position = constraint_at(system, assembly.block.constraints[i]).function().level() == Level::position;
    for (int r = assembly.block.row[i]; r < assembly.block.row[i + 1]; ++r)
      if (std::fabs(error[z(r)]) * (position ? std::fabs(dt) : 1.0) >
          round_off(system, assembly, end, static_cast<int>(i), r - assembly.block.row[i]))
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
