// Constraints of the user's own for a host whose islands and rows know two bodies.
#include "host/constraint_solver_impl.h"
#include "host/unilateral.h"
#include "model/force_rows.h"

#include <algorithm>
#include <cmath>

namespace linchpin::host {

// Islands of a host do not reach across a body that stands. If all bodies stand, one pair is enough: a second
// pair, with less of the row in it, would hold the first one back.
std::vector<std::array<int, 2>> pairs_of_bodies(std::span<const char> stands) {
  const int count = static_cast<int>(stands.size());
  if (count == 1) return {{0, -1}};
  int first = 0;
  while (first < count - 1 && stands[z(first)]) ++first;
  int partners = 0;
  for (int k = 0; k < count; ++k) partners += k != first && !stands[z(k)];
  std::vector<std::array<int, 2>> pairs;
  for (int k = 0; k < count; ++k)
    if (k != first && (!stands[z(k)] || (partners == 0 && pairs.empty()))) pairs.push_back({first, k});
  return pairs;
}

namespace {

/// Fills a row from a row of the constraint. @return the velocity of the row by the two bodies alone
double join(const Context& c, const Constraint& constraint, const double* row, std::array<int, 2> bodies, PairRow& to) {
  double speed = 0;
  for (std::size_t side = 0; side < 2; ++side) {
    to.J[side].setZero();
    if (bodies[side] < 0) continue;
    BodyState now;
    c.world.read(constraint.bodies()[z(bodies[side])], now);
    const double* const part = row + 6 * bodies[side];
    for (int j = 0; j < 3; ++j) speed += part[j] * now.v[j] + part[3 + j] * now.w[j];
    to.J[side] = Eigen::Map<const Vector6>(part);
  }
  return speed;
}

}  // namespace

int ConstraintSolver::pair_row_count(int entry) const {
  return linchpin::detail::whole_function(constraint(entry)).rows();
}

std::vector<PairRow> ConstraintSolver::pair_rows(int entry, int first, int second, double rate, double erp) const {
  const Context& c = impl_->c;
  const ConstraintEntry& r = c.constraints[entry];
  const Constraint& constraint = c.constraints.of(r);
  const LinearizedEntry rows = linearize(c, r);
  const auto* const forces = linchpin::detail::force_rows_of(constraint);
  const bool is_motor = forces && forces->is_motor;
  const Level level = is_motor ? Level::velocity : constraint.function().level();
  const std::size_t width = rows.A.size() / rows.b.size();
  std::vector<PairRow> out(rows.b.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    PairRow& to = out[i];
    const double* const row = &rows.A[i * width];
    const double speed = join(c, constraint, row, {first, second}, to);
    // A v = speed of the two + the rest (other bodies, explicit time), which is taken as it stands.
    to.target = -(rows.velocity[i] - speed);
    if (level == Level::position) to.target -= rate * erp * rows.position[i];
    if (level == Level::acceleration) to.target = speed + rows.b[i] / rate;
    if (is_motor) to.max_impulse = r.laws[0].terms()[0].static_limit({}) / rate;
    // A row that is not finite is there but holds nothing: no NaN reaches the host from here.
    if (std::isfinite(to.target) && std::all_of(row, row + width, [](double x) { return std::isfinite(x); })) continue;
    to.target = to.max_impulse = 0;
    for (Vector6& J : to.J) J.setZero();
  }
  return out;
}

}  // namespace linchpin::host
