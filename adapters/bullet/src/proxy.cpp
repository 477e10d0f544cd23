#include "proxy.h"

namespace LINCHPIN_BULLET_NAMESPACE {

// Bullet has no constraint type for what it does not know; this one it never serialises into something else.
Proxy::Proxy(const host::ConstraintSolver& solver, int entry, btRigidBody& a, btRigidBody& b, int first, int second)
    : btTypedConstraint(CONTACT_CONSTRAINT_TYPE, a, b),
      solver_(solver),
      entry_(entry),
      first_(first),
      second_(second) {}

void Proxy::getInfo1(btConstraintInfo1* info) {
  info->m_numConstraintRows = solver_.pair_row_count(entry_);  // never zero: some solvers index by it
  info->nub = 0;
}

void Proxy::getInfo2(btConstraintInfo2* info) {
  int at = 0;
  for (const host::PairRow& row : solver_.pair_rows(entry_, first_, second_, double(info->fps), double(info->erp))) {
    const auto write = [&](const Vector6& J, btScalar* linear, btScalar* angular) {
      for (int i = 0; i < 3; ++i) {
        linear[at + i] = btScalar(J[i]);
        angular[at + i] = btScalar(J[3 + i]);
      }
    };
    write(row.J[0], info->m_J1linearAxis, info->m_J1angularAxis);
    write(row.J[1], info->m_J2linearAxis, info->m_J2angularAxis);
    info->m_constraintError[at] = btScalar(row.target);
    info->m_upperLimit[at] = btScalar(btMin(row.max_impulse, double(SIMD_INFINITY)));
    info->m_lowerLimit[at] = -info->m_upperLimit[at];
    at += info->rowskip;
  }
  info->m_damping = 1;
}

}  // namespace LINCHPIN_BULLET_NAMESPACE
