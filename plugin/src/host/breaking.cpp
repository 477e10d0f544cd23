#include "host/breaking.h"

#include "model/primitives/list.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace linchpin::host {

void break_joints(Context& c, const Island& b) {
  const std::span<const double> impulses = b.x.multipliers;
  for (const Topology::Joint& j : b.topology.joints)
    break_if_overloaded(c, j.entry, impulses.subspan(z(j.row), z(b.layout().row[z(j.place) + 1] - j.row)));
}

// A host compares the impulse of each of its rows with the threshold. Points come first among the rows of a joint; the
// host's rows of a point lie along axes of its own.
void break_if_overloaded(Context& c, int entry, std::span<const double> impulses) {
  const double threshold = c.world.breaking_impulse(entry);
  if (threshold == std::numeric_limits<double>::infinity()) return;
  ConstraintEntry& r = c.constraints[entry];
  double worst = 0;
  std::size_t row = 0;
  const int points = r.geometry.counts[linchpin::detail::index_of<linchpin::detail::PointPrimitive>()];
  for (int k = 0; k < points; ++k, row += 3) {
    Vector3d p(impulses[row], impulses[row + 1], impulses[row + 2]);
    if (r.geometry.breaking_axes)
      p = r.geometry.breaking_axes->transpose() *
          (c.bodies.start[c.system.constraint(r.id).bodies()[0]].q.conjugate() * p);
    worst = std::max(worst, p.cwiseAbs().maxCoeff());
  }
  for (; row < impulses.size(); ++row) worst = std::max(worst, std::abs(impulses[row]));
  if (worst < threshold) return;
  c.world.break_joint(entry);
  r.outcome.broken = true;
}

}  // namespace linchpin::host
