#include "proxy.h"

#include "engine.h"

#include <algorithm>
#include <cmath>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

// Bullet has no constraint type for what it does not know; this one it never serialises into something else.
Proxy::Proxy(Engine& engine, int record, btRigidBody& a, btRigidBody& b, int first, int second)
    : btTypedConstraint(CONTACT_CONSTRAINT_TYPE, a, b),
      engine_(engine),
      record_(record),
      first_(first),
      second_(second) {}

void Proxy::getInfo1(btConstraintInfo1* info) {
  const Record& r = engine_.records_[static_cast<std::size_t>(record_)];
  info->m_numConstraintRows = engine_.own(r).function().rows();  // never zero: some solvers index by it
  info->nub = 0;
}

void Proxy::getInfo2(btConstraintInfo2* info) {
  const Record& r = engine_.records_[static_cast<std::size_t>(record_)];
  const Constraint& c = engine_.own(r);
  const int m = c.function().rows(), K = static_cast<int>(c.bodies().size());
  std::vector<double> A, b, position, velocity;
  engine_.linearize(r, A, b, position, velocity);
  const bool at_position = c.function().level() == Level::position;
  for (int i = 0; i < m; ++i) {
    const int at = i * info->rowskip;
    const double* row = &A[static_cast<std::size_t>(i * 6 * K)];
    double rate = 0;  // of the bodies that this proxy joins
    const auto put = [&](int k, btScalar* linear, btScalar* angular) {
      const btRigidBody& body = *r.bodies[static_cast<std::size_t>(k)];
      for (int j = 0; j < 3; ++j) {
        linear[at + j] = btScalar(row[6 * k + j]);
        angular[at + j] = btScalar(row[6 * k + 3 + j]);
        rate += row[6 * k + j] * double(body.getLinearVelocity()[j]) +
                row[6 * k + 3 + j] * double(body.getAngularVelocity()[j]);
      }
    };
    put(first_, info->m_J1linearAxis, info->m_J1angularAxis);
    if (second_ >= 0) put(second_, info->m_J2linearAxis, info->m_J2angularAxis);
    // A v = rate of these bodies + the rest (other bodies, explicit time), which is taken as it stands.
    const std::size_t s = static_cast<std::size_t>(i);
    double target = -(velocity[s] - rate);
    if (at_position) target -= double(info->fps) * double(info->erp) * position[s];
    if (c.function().level() == Level::acceleration) target = rate + b[s] / double(info->fps);
    // A row that is not finite here is there but holds nothing: no NaN reaches the native solver through us.
    const bool finite =
        std::isfinite(target) && std::all_of(row, row + 6 * K, [](double x) { return std::isfinite(x); });
    if (!finite)
      for (int j = 0; j < 3; ++j)
        info->m_J1linearAxis[at + j] = info->m_J1angularAxis[at + j] = info->m_J2linearAxis[at + j] =
            info->m_J2angularAxis[at + j] = 0;
    info->m_constraintError[at] = finite ? btScalar(target) : 0;
    info->m_lowerLimit[at] = finite ? -SIMD_INFINITY : 0;
    info->m_upperLimit[at] = finite ? SIMD_INFINITY : 0;
  }
  info->m_damping = 1;
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
