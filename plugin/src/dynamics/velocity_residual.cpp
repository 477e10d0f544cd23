#include "dynamics/velocity_residual.h"

#include "math/vector_ops.h"

#include <linchpin/constraint.h>

#include <cmath>

namespace linchpin {

void RowComparison::add(const double* row, const BodyState& body, BodyKind kind, const SpeedFloor& floor) {
  const Eigen::Map<const Vector3d> along(row), about(row + 3);
  by_bodies_ += along.dot(body.v);
  size_ += along.norm() * (body.v.norm() + floor.linear);
  if (kind != BodyKind::rigid && kind != BodyKind::kinematic) return;
  by_bodies_ += about.dot(body.w);
  size_ += about.norm() * (body.w.norm() + floor.angular);
}

RowResidual RowComparison::residual(double rate, double later, int constraint) const {
  const double size = size_ + std::abs(rate - by_bodies_);  // |φ_t|
  return {size > 0 ? std::abs(later) / size : 0, std::abs(later), constraint};
}

RowResidual residual_of_constraint(const System& system, const Assembly& assembly, const State& at, int constraint,
                                   double lag, std::span<const SpeedFloor> floors) {
  RowResidual worst;
  const Constraint& of = system.constraint(assembly.layout.constraints[z(constraint)]);
  if (of.function().level() == Level::acceleration) return worst;
  const auto bodies = of.bodies();
  const int first = assembly.layout.row[z(constraint)], end = assembly.layout.row[z(constraint) + 1];
  for (int r = first; r < end; ++r) {
    RowComparison row;
    for (int k = 0; k < static_cast<int>(bodies.size()); ++k) {
      const int slot = assembly.body_index(constraint, k);
      row.add(assembly.jacobian(constraint, k).data() + 6 * (r - first), at[bodies[z(k)]], system.kind(bodies[z(k)]),
              slot < 0 ? SpeedFloor{} : floors[z(slot)]);
    }
    const double rate = assembly.velocity[z(r)];
    const RowResidual found = row.residual(rate, rate + lag * assembly.problem.b[z(r)], constraint);
    if (found.relative > worst.relative) worst = found;
  }
  return worst;
}

}  // namespace linchpin
