// Constraints on links among Bullet's own rows: velocities kept on them between its iterations, and what its rows have
// done to links when these are over.
#include "multibody.h"

#include "bodies.h"
#include "class_of.h"
#include "columns.h"

#include <BulletDynamics/Featherstone/btMultiBodyGearConstraint.h>
#include <BulletDynamics/Featherstone/btMultiBodyJointLimitConstraint.h>
#include <BulletDynamics/Featherstone/btMultiBodyJointMotor.h>
#include <BulletDynamics/Featherstone/btMultiBodySphericalJointLimit.h>
#include <BulletDynamics/Featherstone/btMultiBodySphericalJointMotor.h>

#include <utility>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

void Multibodies::couple(Pools pools, btMultiBodyJacobianData& data, bool first) {
  if (!solved_ || (!first && !native_rows_)) return;
  velocities_of_links(v_);
  for (Moving& b : moving_) {
    const int index = b.body->getCompanionId();
    b.in_pool = index >= 0 && index < pools.bodies.size() && pools.bodies[index].m_originalBody == b.body;
    if (!b.in_pool) continue;
    const btSolverBody& sb = pools.bodies[index];
    if (first) {
      b.applied << from_bullet(sb.m_externalForceImpulse), from_bullet(sb.m_externalTorqueImpulse);
      b.own.setZero();
    }
    put(v_, b.column,
        from_bullet(sb.m_linearVelocity) + from_bullet(sb.m_externalForceImpulse) +
            from_bullet(sb.m_deltaLinearVelocity));
    if (b.dof == 6)
      put(v_, b.column + 3,
          from_bullet(sb.m_angularVelocity) + from_bullet(sb.m_externalTorqueImpulse) +
              from_bullet(sb.m_deltaAngularVelocity));
  }
  if (first) {
    std::fill(impulse_.begin(), impulse_.end(), 0.0);
    for (auto& t : trees_) std::fill(t->own.begin(), t->own.end(), 0.0);
    if (!native_rows_) return;  // finish() does it all
    // Native rows start from, and are kept to, the row velocities that end the step on the constraints.
    before_ = v_;
    if (bodies_.good) {
      for (std::size_t k = 0; k < v_.size(); ++k) v_[k] += dt_ * bodies_.dv[k];
      for (std::size_t r = 0; r < impulse_.size(); ++r) impulse_[r] = dt_ * bodies_.lambda[r];
    }
    newton(v_, 1e3 * engine_.options_.newton_tolerance, 6);
    row_velocities(v_, target_);
    for (std::size_t k = 0; k < v_.size(); ++k) dv_[k] = v_[k] - before_[k];
  } else {
    row_velocities(v_, e_);
    for (std::size_t r = 0; r < e_.size(); ++r) e_[r] = target_[r] - e_[r];
    hush(e_);
    solver_.apply(e_, lambda_, {}, dv_);
    from_unit(dv_);
    for (std::size_t r = 0; r < e_.size(); ++r) impulse_[r] += lambda_[r];
  }
  if (!finite(dv_)) return;
  for (auto& t : trees_) {
    if (t->column < 0) continue;
    narrow_.assign(z(t->a.velocities()), 0);
    for (int k = 0; k < t->a.columns(); ++k) {
      const std::size_t i = z(t->a.fixed_velocities() + k);
      narrow_[i] = btScalar(dv_[z(t->column + k)]);
      t->own[i] += double(narrow_[i]);
    }
    t->body->applyDeltaVeeMultiDof2(narrow_.data(), 1);
    if (const int at = t->body->getCompanionId(); at >= 0)
      for (int i = 0; i < t->a.velocities(); ++i) data.m_deltaVelocities[at + i] += narrow_[z(i)];
  }
  for (Moving& b : moving_) {
    if (!b.in_pool) continue;
    btSolverBody& sb = pools.bodies[b.body->getCompanionId()];
    const btVector3 v = to_bullet(head(dv_, b.column));
    sb.internalGetDeltaLinearVelocity() += v;
    b.own.head<3>() += from_bullet(v);
    if (b.dof != 6) continue;
    const btVector3 w = to_bullet(head(dv_, b.column + 3));
    sb.internalGetDeltaAngularVelocity() += w;
    b.own.tail<3>() += from_bullet(w);
  }
}

void Multibodies::look_for_rows(Pools pools) {
  native_rows_ = false;
  if (!solved_) return;
  const auto in_tree = [&](const btMultiBody* body) {
    const int at = body ? tree_of(body) : -1;
    return at >= 0 && trees_[z(at)]->column >= 0;
  };
  const auto in_body = [&](int index) {
    if (index < 0 || index >= pools.bodies.size()) return false;
    for (const Moving& b : moving_)
      if (pools.bodies[index].m_originalBody == b.body) return true;
    return false;
  };
  for (const btMultiBodyConstraintArray* rows : pools.link_rows)
    for (int i = 0; rows && i < rows->size() && !native_rows_; ++i) {
      const btMultiBodySolverConstraint& row = (*rows)[i];
      native_rows_ = row.m_multiBodyA ? in_tree(row.m_multiBodyA) : in_body(row.m_solverBodyIdA);
      native_rows_ = native_rows_ || (row.m_multiBodyB ? in_tree(row.m_multiBodyB) : in_body(row.m_solverBodyIdB));
    }
  if (moving_.empty()) return;
  for (const btConstraintArray* rows : {&pools.contacts, &pools.joints})
    for (int i = 0; i < rows->size() && !native_rows_; ++i)
      native_rows_ = in_body((*rows)[i].m_solverBodyIdA) || in_body((*rows)[i].m_solverBodyIdB);
}

namespace {

bool acts_along_joints(const btMultiBodyConstraint* c) {
  return c && (is_exactly<btMultiBodyJointMotor>(*c) || is_exactly<btMultiBodyJointLimitConstraint>(*c) ||
               is_exactly<btMultiBodyGearConstraint>(*c) || is_exactly<btMultiBodySphericalJointMotor>(*c) ||
               is_exactly<btMultiBodySphericalJointLimit>(*c));
}

}  // namespace

void Multibodies::gather(const LinkRows& rows, const btMultiBodyJacobianData& data) {
  const btMultiBody* found = nullptr;  // rows of one body come in runs: it is not looked for again for each
  Tree* tree = nullptr;
  const auto add = [&](const btMultiBody* body, int jacobian, double impulse, std::vector<double> Tree::*sum) {
    if (!body) return;
    if (std::exchange(found, body) != body) {
      const int at = tree_of(body);
      tree = at >= 0 ? trees_[z(at)].get() : nullptr;
    }
    if (!tree || !tree->captured || !same_shape(tree->a, *tree->body)) return;
    std::vector<double>& to = tree->*sum;
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] += impulse * double(data.m_jacobians[jacobian + static_cast<int>(i)]);
  };
  // Bullet writes rows along joints back as couples on two links, from outside; they go through the joint.
  const auto add_within = [&](const btMultiBody* body, int link, const btVector3& force, const btVector3& moment) {
    const int at = body ? tree_of(body) : -1;
    if (at < 0 || !trees_[z(at)]->captured || !same_shape(trees_[z(at)]->a, *trees_[z(at)]->body)) return;
    Wrench& to = trees_[z(at)]->within[z(link + 1)];
    to.force += from_bullet(force);
    to.moment += from_bullet(moment);
  };
  for (std::size_t kind = 0; kind < rows.size(); ++kind)
    for (int i = 0; rows[kind] && i < rows[kind]->size(); ++i) {
      const btMultiBodySolverConstraint& row = (*rows[kind])[i];
      if (kind == 0 && acts_along_joints(row.m_orgConstraint)) {
        const btScalar f = row.m_appliedImpulse / btScalar(dt_);
        add_within(row.m_multiBodyA, row.m_linkA, row.m_contactNormal1 * f, row.m_relpos1CrossNormal * f);
        add_within(row.m_multiBodyB, row.m_linkB, row.m_contactNormal2 * f, row.m_relpos2CrossNormal * f);
      }
      const auto sum = kind == 0 ? &Tree::joint_rows : kind == 1 ? &Tree::contact : &Tree::friction;
      add(row.m_multiBodyA, row.m_jacAindex, double(row.m_appliedImpulse), sum);
      add(row.m_multiBodyB, row.m_jacBindex, double(row.m_appliedImpulse), sum);
    }
}

void Multibodies::drop(btMultiBodyJacobianData& data) {
  for (auto& t : trees_)
    if (const int at = t->body->getCompanionId(); at >= 0 && at + t->a.velocities() <= data.m_deltaVelocities.size())
      t->body->applyDeltaVeeMultiDof2(&data.m_deltaVelocities[at], -1);
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
