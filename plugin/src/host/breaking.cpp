#include "host/breaking.h"

#include "host/compliance.h"
#include "model/force_rows.h"
#include "model/primitives/list.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace linchpin::host {

void break_joints(Context& c, const Island& b) {
  const std::span<const double> impulses = b.x.multipliers;
  for (std::size_t i = 0; i < b.topology.entries.size(); ++i) {
    const int row = b.layout().row[i];
    break_if_overloaded(c, b.topology.entries[i], impulses.subspan(z(row), z(b.layout().row[i + 1] - row)));
  }
}

namespace {

/// Returns the impulse of one row above which an entry breaks.
double breaking_impulse(const Context& c, int entry) {
  const ConstraintEntry& r = c.constraints[entry];
  return r.is_joint() ? c.world.breaking_impulse(entry) : r.breaking_impulse;
}

/// Returns the largest impulse of compliance and motors in place of rows [N·s or N·m·s].
double largest_law_impulse(Context& c, const ConstraintEntry& r) {
  double worst = 0;
  if (r.id.index < 0 || !linchpin::detail::force_rows_of(c.system.constraint(r.id))) return worst;
  for (const LawWork& law : c.laws.of(r)) {
    const double force = law.force.force.norm();
    worst = std::max(worst, c.dt * (force > 0 ? force : law.force.moment.norm()));
  }
  return worst;
}

}  // namespace

// A host compares the impulse of each of its rows with the threshold. Points come first among the rows of a joint; the
// host's rows of a point lie along axes of its own.
void break_if_overloaded(Context& c, int entry, std::span<const double> impulses) {
  const double threshold = breaking_impulse(c, entry);
  if (threshold == std::numeric_limits<double>::infinity()) return;
  ConstraintEntry& r = c.constraints[entry];
  double worst = largest_law_impulse(c, r);
  std::size_t row = 0;
  const int points =
      has_compliance(c, r) ? 0 : r.geometry.counts[linchpin::detail::index_of<linchpin::detail::PointPrimitive>()];
  for (int k = 0; k < points; ++k, row += 3) {
    Vector3d p(impulses[row], impulses[row + 1], impulses[row + 2]);
    if (r.geometry.breaking_axes)
      p = r.geometry.breaking_axes->transpose() *
          (c.bodies.start[c.system.constraint(r.id).bodies()[0]].q.conjugate() * p);
    worst = std::max(worst, p.cwiseAbs().maxCoeff());
  }
  for (; row < impulses.size(); ++row) worst = std::max(worst, std::abs(impulses[row]));
  if (worst < threshold) return;
  if (r.is_joint()) {
    c.world.break_joint(entry);
  } else {
    r.enabled = false;
    c.world.enable(entry, false);
    ++c.structure;
  }
  r.outcome.broken = true;
}

}  // namespace linchpin::host
