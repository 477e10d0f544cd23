#include "proxy.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

// Bullet has no constraint type for what it does not know; this one it never serialises into something else.
Proxy::Proxy(const host::ConstraintSolver& solver, int entry, btRigidBody& a, btRigidBody& b, int first, int second)
    : btTypedConstraint(CONTACT_CONSTRAINT_TYPE, a, b),
      solver_(solver),
      entry_(entry),
      first_(first),
      second_(second) {}

void Proxy::getInfo1(btConstraintInfo1* info) {
  info->m_numConstraintRows = solver_.constraint(entry_).function().rows();  // never zero: some solvers index by it
  info->nub = 0;
}

void Proxy::getInfo2(btConstraintInfo2* info) {
  std::vector<double> A, b, position, velocity;
  solver_.linearize(entry_, A, b, position, velocity);
  const Level level = solver_.constraint(entry_).function().level();
  const std::size_t width = A.size() / b.size();
  for (std::size_t i = 0; i < b.size(); ++i) {
    const int at = static_cast<int>(i) * info->rowskip;
    const double* row = &A[i * width];
    double rate = 0;  // of the bodies that this proxy joins
    const auto put = [&](const btRigidBody& body, int k, btScalar* linear, btScalar* angular) {
      for (int j = 0; j < 3; ++j) {
        linear[at + j] = btScalar(row[6 * k + j]);
        angular[at + j] = btScalar(row[6 * k + 3 + j]);
        rate += row[6 * k + j] * double(body.getLinearVelocity()[j]) +
                row[6 * k + 3 + j] * double(body.getAngularVelocity()[j]);
      }
    };
    put(m_rbA, first_, info->m_J1linearAxis, info->m_J1angularAxis);
    if (second_ >= 0) put(m_rbB, second_, info->m_J2linearAxis, info->m_J2angularAxis);
    // A v = rate of these bodies + the rest (other bodies, explicit time), which is taken as it stands.
    double target = -(velocity[i] - rate);
    if (level == Level::position) target -= double(info->fps) * double(info->erp) * position[i];
    if (level == Level::acceleration) target = rate + b[i] / double(info->fps);
    // A row that is not finite is there but holds nothing: no NaN reaches Bullet's solver through us.
    const bool finite =
        std::isfinite(target) && std::all_of(row, row + width, [](double x) { return std::isfinite(x); });
    if (!finite)
      for (btScalar* J : {info->m_J1linearAxis, info->m_J1angularAxis, info->m_J2linearAxis, info->m_J2angularAxis})
        std::fill_n(J + at, 3, btScalar(0));
    info->m_constraintError[at] = finite ? btScalar(target) : 0;
    info->m_lowerLimit[at] = finite ? -SIMD_INFINITY : 0;
    info->m_upperLimit[at] = finite ? SIMD_INFINITY : 0;
  }
  info->m_damping = 1;
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
