// Residuals of constraints at a state, and the part of them that rounding explains.
#include "model/system_impl.h"
#include "projection/tuning.h"
#include "projection/workspace.h"

namespace linchpin {

Workspace& workspace() {
  thread_local Workspace memory;
  return memory;
}

const Constraint& constraint_at(const System& system, ConstraintId id) {
  return SystemParts::of(system).constraints[z(id.index)].constraint;
}

bool has_level(const System& system, const IslandLayout& layout, Level level) {
  return std::any_of(layout.constraints.begin(), layout.constraints.end(),
                     [&](ConstraintId id) { return constraint_at(system, id).function().level() == level; });
}

double round_off(const System& system, const Assembly& assembly, const State& state, int i, int r) {
  const Constraint& constraint = constraint_at(system, assembly.layout.constraints[z(i)]);
  double sum = 0;
  for (int k = 0; k < static_cast<int>(constraint.bodies().size()); ++k) {
    const BodyState& body = state[constraint.bodies()[z(k)]];
    const auto J = assembly.jacobian(i, k).subspan(z(6 * r), 6);
    if (constraint.function().level() == Level::position)
      for (int j = 0; j < 3; ++j) sum += std::fabs(J[z(j)]) * body.p.cwiseAbs().maxCoeff() + std::fabs(J[z(3 + j)]);
    else
      for (int j = 0; j < 3; ++j) sum += std::fabs(J[z(j)] * body.v[j]) + std::fabs(J[z(3 + j)] * body.w[j]);
  }
  return detail::tuning::residual_rounding * sum;
}

void evaluate_residual(const Constraint& constraint, std::span<const BodyState> X, double t,
                       std::span<double> out) noexcept {
  try {
    constraint.function().residual(X, t, out);
  } catch (...) {
    std::fill(out.begin(), out.end(), std::numeric_limits<double>::quiet_NaN());
  }
}

double position_residuals(const System& system, const IslandLayout& layout, const State& state,
                          std::vector<BodyState>& X, std::span<double> phi) {
  const auto& constraints = SystemParts::of(system).constraints;
  for (std::size_t i = 0; i < layout.constraints.size(); ++i) {
    const Constraint& constraint = constraints[z(layout.constraints[i].index)].constraint;
    const auto out = phi.subspan(z(layout.row[i]), z(layout.row[i + 1] - layout.row[i]));
    if (constraint.function().level() != Level::position) {
      std::fill(out.begin(), out.end(), 0.0);
      continue;
    }
    const auto bodies = constraint.bodies();
    X.resize(bodies.size());
    for (std::size_t k = 0; k < bodies.size(); ++k) {  // poses are all that it reads
      const BodyState& body = state[bodies[k]];
      X[k].p = body.p;
      X[k].q = body.q;
    }
    evaluate_residual(constraint, X, state.t, out);
  }
  double worst = 0, probe = 0;  // 0 times what is not finite is not a number
  for (const double x : phi) {
    worst = std::max(worst, std::fabs(x));
    probe += 0 * x;
  }
  return probe == 0 ? worst : std::numeric_limits<double>::infinity();
}

}  // namespace linchpin
