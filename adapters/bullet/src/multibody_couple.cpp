// Coupling of constraints on links with Bullet's own rows. Velocities are put back on the constraints between Bullet's
// iterations. The impulses of its rows on links are read when these are over.
#include "multibody.h"

#include "class_of.h"

#include <BulletDynamics/Featherstone/btMultiBodyGearConstraint.h>
#include <BulletDynamics/Featherstone/btMultiBodyJointLimitConstraint.h>
#include <BulletDynamics/Featherstone/btMultiBodyJointMotor.h>
#include <BulletDynamics/Featherstone/btMultiBodySphericalJointLimit.h>
#include <BulletDynamics/Featherstone/btMultiBodySphericalJointMotor.h>

#include <utility>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

void Multibodies::couple(SolverArrays arrays, btMultiBodyJacobianData& data, bool first) {
  if (!is_solved() || (!first && !has_host_rows_)) return;
  read_velocities_of_links(solution_.v);
  read_pool_velocities(arrays, first);
  if (first) {
    std::fill(solution_.impulse.begin(), solution_.impulse.end(), 0.0);
    for (auto& t : trees_) std::fill(t->added.begin(), t->added.end(), 0.0);
    if (!has_host_rows_) return;  // finish() does it all
    start_coupling();
  } else {
    constraints_.row_velocities(solution_.v, scratch_.rows);
    for (std::size_t r = 0; r < scratch_.rows.size(); ++r)
      scratch_.rows[r] = solution_.row_target[r] - scratch_.rows[r];
    constraints_.solve_kept(scratch_.rows, scratch_.lambda, scratch_.dv);
    for (std::size_t r = 0; r < scratch_.rows.size(); ++r) solution_.impulse[r] += scratch_.lambda[r];
  }
  if (!finite(scratch_.dv)) return;
  add_to_multibodies(data);
  add_to_pools(arrays);
}

/// Reads the velocities of the rigid bodies from Bullet's solver bodies.
void Multibodies::read_pool_velocities(SolverArrays arrays, bool first) {
  for (Rigid& b : rigid_) {
    const int index = b.body->getCompanionId();
    b.in_pool = index >= 0 && index < arrays.bodies.size() && arrays.bodies[index].m_originalBody == b.body;
    if (!b.in_pool) continue;
    const btSolverBody& sb = arrays.bodies[index];
    if (first) {
      b.applied << from_bullet(sb.m_externalForceImpulse), from_bullet(sb.m_externalTorqueImpulse);
      b.own.setZero();
    }
    put(solution_.v, b.column,
        from_bullet(sb.m_linearVelocity) + from_bullet(sb.m_externalForceImpulse) +
            from_bullet(sb.m_deltaLinearVelocity));
    if (b.dof == 6)
      put(solution_.v, b.column + 3,
          from_bullet(sb.m_angularVelocity) + from_bullet(sb.m_externalTorqueImpulse) +
              from_bullet(sb.m_deltaAngularVelocity));
  }
}

/// Finds the velocities that end the step on the constraints. Bullet's rows start from the row velocities there, and
/// are kept to them.
void Multibodies::start_coupling() {
  constexpr double loose = 1e3;  // times the tolerance of the end of the step: rows change the velocities again
  constexpr int most_solves = 6;
  solution_.bullet_v = solution_.v;
  if (laws_.are_solved) {
    for (std::size_t k = 0; k < solution_.v.size(); ++k) solution_.v[k] += dt_ * laws_.dv[k];
    for (std::size_t r = 0; r < solution_.impulse.size(); ++r) solution_.impulse[r] = dt_ * laws_.lambda[r];
  }
  projection_.solve_end_of_step(step(), solution_.v, solution_.impulse, loose * c_.options.newton_tolerance,
                                most_solves);
  c_.counts.newton += projection_.take_solves();
  constraints_.row_velocities(solution_.v, solution_.row_target);
  for (std::size_t k = 0; k < solution_.v.size(); ++k) scratch_.dv[k] = solution_.v[k] - solution_.bullet_v[k];
}

void Multibodies::add_to_multibodies(btMultiBodyJacobianData& data) {
  for (auto& t : trees_) {
    if (t->column < 0) continue;
    scratch_.bullet_dv.assign(z(t->tree.velocities()), 0);
    for (int k = 0; k < t->tree.columns(); ++k) {
      const std::size_t i = z(t->tree.fixed_velocities() + k);
      scratch_.bullet_dv[i] = btScalar(scratch_.dv[z(t->column + k)]);
      t->added[i] += double(scratch_.bullet_dv[i]);
    }
    t->body->applyDeltaVeeMultiDof2(scratch_.bullet_dv.data(), 1);
    if (const int at = t->body->getCompanionId(); at >= 0)
      for (int i = 0; i < t->tree.velocities(); ++i) data.m_deltaVelocities[at + i] += scratch_.bullet_dv[z(i)];
  }
}

void Multibodies::add_to_pools(SolverArrays arrays) {
  for (Rigid& b : rigid_) {
    if (!b.in_pool) continue;
    btSolverBody& sb = arrays.bodies[b.body->getCompanionId()];
    const btVector3 v = to_bullet(head(scratch_.dv, b.column));
    sb.internalGetDeltaLinearVelocity() += v;
    b.own.head<3>() += from_bullet(v);
    if (b.dof != 6) continue;
    const btVector3 w = to_bullet(head(scratch_.dv, b.column + 3));
    sb.internalGetDeltaAngularVelocity() += w;
    b.own.tail<3>() += from_bullet(w);
  }
}

void Multibodies::find_host_rows(SolverArrays arrays) {
  has_host_rows_ = false;
  if (!is_solved()) return;
  const auto in_tree = [&](const btMultiBody* body) {
    const int at = body ? tree_of(body) : -1;
    return at >= 0 && trees_[z(at)]->column >= 0;
  };
  const auto in_body = [&](int index) {
    if (index < 0 || index >= arrays.bodies.size()) return false;
    for (const Rigid& b : rigid_)
      if (arrays.bodies[index].m_originalBody == b.body) return true;
    return false;
  };
  for (const btMultiBodyConstraintArray* rows : arrays.link_rows)
    for (int i = 0; rows && i < rows->size() && !has_host_rows_; ++i) {
      const btMultiBodySolverConstraint& row = (*rows)[i];
      has_host_rows_ = row.m_multiBodyA ? in_tree(row.m_multiBodyA) : in_body(row.m_solverBodyIdA);
      has_host_rows_ = has_host_rows_ || (row.m_multiBodyB ? in_tree(row.m_multiBodyB) : in_body(row.m_solverBodyIdB));
    }
  if (rigid_.empty()) return;
  for (const btConstraintArray* rows : {&arrays.contacts, &arrays.joints})
    for (int i = 0; i < rows->size() && !has_host_rows_; ++i)
      has_host_rows_ = in_body((*rows)[i].m_solverBodyIdA) || in_body((*rows)[i].m_solverBodyIdB);
}

namespace {

bool acts_along_joints(const btMultiBodyConstraint* c) {
  return c && (is_exactly<btMultiBodyJointMotor>(*c) || is_exactly<btMultiBodyJointLimitConstraint>(*c) ||
               is_exactly<btMultiBodyGearConstraint>(*c) || is_exactly<btMultiBodySphericalJointMotor>(*c) ||
               is_exactly<btMultiBodySphericalJointLimit>(*c));
}

}  // namespace

Multibodies::Tree* Multibodies::read_tree_of(const btMultiBody* body) {
  const int at = body ? tree_of(body) : -1;
  if (at < 0 || !trees_[z(at)]->was_read || !same_shape(trees_[z(at)]->tree, *trees_[z(at)]->body)) return nullptr;
  return trees_[z(at)].get();
}

void Multibodies::read_host_rows(const LinkRows& rows, const btMultiBodyJacobianData& data) {
  const btMultiBody* last = nullptr;  // rows of one body come in runs: it is not searched again for each
  Tree* tree = nullptr;
  const auto add = [&](const btMultiBody* body, int jacobian, double impulse, std::vector<double> HostImpulses::*sum) {
    if (!body) return;
    if (std::exchange(last, body) != body) tree = read_tree_of(body);
    if (!tree) return;
    std::vector<double>& to = tree->host.*sum;
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] += impulse * double(data.m_jacobians[jacobian + static_cast<int>(i)]);
  };
  // Bullet writes rows along joints back as couples on two links, from outside. They go through the joint.
  const auto add_along_joint = [&](const btMultiBody* body, int link, const btVector3& force, const btVector3& moment) {
    Tree* const of = read_tree_of(body);
    if (!of) return;
    Wrench& to = of->host.along_joints[z(link + 1)];
    to.force += from_bullet(force);
    to.moment += from_bullet(moment);
  };
  for (std::size_t kind = 0; kind < rows.size(); ++kind)
    for (int i = 0; rows[kind] && i < rows[kind]->size(); ++i) {
      const btMultiBodySolverConstraint& row = (*rows[kind])[i];
      if (kind == 0 && acts_along_joints(row.m_orgConstraint)) {
        const btScalar f = row.m_appliedImpulse / btScalar(dt_);
        add_along_joint(row.m_multiBodyA, row.m_linkA, row.m_contactNormal1 * f, row.m_relpos1CrossNormal * f);
        add_along_joint(row.m_multiBodyB, row.m_linkB, row.m_contactNormal2 * f, row.m_relpos2CrossNormal * f);
      }
      const auto sum = kind == 0 ? &HostImpulses::joint : kind == 1 ? &HostImpulses::contact : &HostImpulses::friction;
      add(row.m_multiBodyA, row.m_jacAindex, double(row.m_appliedImpulse), sum);
      add(row.m_multiBodyB, row.m_jacBindex, double(row.m_appliedImpulse), sum);
    }
}

void Multibodies::take_back_host_rows(btMultiBodyJacobianData& data) {
  for (auto& t : trees_)
    if (const int at = t->body->getCompanionId(); at >= 0 && at + t->tree.velocities() <= data.m_deltaVelocities.size())
      t->body->applyDeltaVeeMultiDof2(&data.m_deltaVelocities[at], -1);
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
