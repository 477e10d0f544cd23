// Bullet's own rows on links: which act on what the core's solver moves, the velocities that they work on, and the
// impulses that they made.
#include "multibody.h"

#include <BulletDynamics/Featherstone/btMultiBodyGearConstraint.h>
#include <BulletDynamics/Featherstone/btMultiBodyJointLimitConstraint.h>
#include <BulletDynamics/Featherstone/btMultiBodyJointMotor.h>
#include <BulletDynamics/Featherstone/btMultiBodySphericalJointLimit.h>
#include <BulletDynamics/Featherstone/btMultiBodySphericalJointMotor.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace LINCHPIN_BULLET_NAMESPACE {

// ---- a step ----

// Bullet solves islands in batches. The islands of one problem must be in one of them.
void Multibodies::begin_step() {
  btContactSolverInfo& info = world_.getSolverInfo();
  if (!trees_.begin_step(double(info.m_timeStep))) return;
  batch_size_ = info.m_minimumSolverBatchSize;
  info.m_minimumSolverBatchSize = std::numeric_limits<int>::max();
}

void Multibodies::finish() {
  if (batch_size_) world_.getSolverInfo().m_minimumSolverBatchSize = *batch_size_;
  batch_size_.reset();
  trees_.finish();
}

void Multibodies::couple(SolverArrays arrays, btMultiBodyJacobianData& data, bool first) {
  if (!batch_size_) return;  // nothing is solved in this step
  arrays_ = &arrays;
  jacobians_ = &data;
  if (first)
    trees_.begin_rows(acts_on_problem(arrays));
  else
    trees_.project_rows();
  arrays_ = nullptr;
  jacobians_ = nullptr;
}

/// Returns whether some row of Bullet's acts on what the core's problem moves.
bool Multibodies::acts_on_problem(const SolverArrays& arrays) {
  rigid_.clear();
  for (const BodyId id : trees_.rigid_bodies()) rigid_.push_back(host_.bodies.body(id));
  const auto moves = [&](const btMultiBody* of, int solver_body) {
    if (of) return trees_.moves(tree_of(of));
    return !rigid_.empty() && solver_body >= 0 && solver_body < arrays.bodies.size() &&
           std::find(rigid_.begin(), rigid_.end(), arrays.bodies[solver_body].m_originalBody) != rigid_.end();
  };
  for (const btMultiBodyConstraintArray* rows : arrays.link_rows)
    for (int i = 0; rows && i < rows->size(); ++i) {
      const btMultiBodySolverConstraint& row = (*rows)[i];
      if (moves(row.m_multiBodyA, row.m_solverBodyIdA) || moves(row.m_multiBodyB, row.m_solverBodyIdB)) return true;
    }
  for (const btConstraintArray* rows : {&arrays.contacts, &arrays.joints})
    for (int i = 0; !rigid_.empty() && i < rows->size(); ++i)
      if (moves(nullptr, (*rows)[i].m_solverBodyIdA) || moves(nullptr, (*rows)[i].m_solverBodyIdB)) return true;
  return false;
}

// ---- articulated::TreeWorld: velocities ----

void Multibodies::read_velocity(int tree, std::span<double> v) const {
  const btScalar *const now = body(tree).getVelocityVector(), *const change = body(tree).getDeltaVelocityVector();
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = double(now[i]) + double(change[i]);
}

void Multibodies::read_velocity_change(int tree, std::span<double> dv) const {
  for (std::size_t i = 0; i < dv.size(); ++i) dv[i] = double(body(tree).getDeltaVelocityVector()[i]);
}

void Multibodies::add_velocity(int tree, std::span<double> dv) {
  change_.resize(dv.size());
  for (std::size_t i = 0; i < dv.size(); ++i) {
    change_[i] = btScalar(dv[i]);
    dv[i] = double(change_[i]);
  }
  body(tree).applyDeltaVeeMultiDof2(change_.data(), 1);
  if (const int at = body(tree).getCompanionId(); jacobians_ && at >= 0)
    for (std::size_t i = 0; i < change_.size(); ++i)
      jacobians_->m_deltaVelocities[at + static_cast<int>(i)] += change_[i];
}

std::string Multibodies::why_limited(int tree, std::span<const double> v) const {
  const double most = double(body(tree).getMaxCoordinateVelocity());
  if (std::none_of(v.begin(), v.end(), [&](double x) { return std::abs(x) > most; })) return {};
  return "a joint velocity exceeds the limit of the multibody, and Bullet clamps it. setMaxCoordinateVelocity() "
         "changes the limit";
}

/// A rigid body in the arrays of Bullet's solver; null where it is not there.
btSolverBody* Multibodies::solver_body(BodyId id) const {
  const int index = host_.rows.row_body(*host_.bodies.body(id));
  return index < 0 ? nullptr : &arrays_->bodies[index];
}

bool Multibodies::read_row_body(BodyId id, host::RowBody& out) const {
  const btSolverBody* const from = solver_body(id);
  if (!from) return false;
  out.v = from_bullet(from->m_linearVelocity);
  out.w = from_bullet(from->m_angularVelocity);
  out.force_v = from_bullet(from->m_externalForceImpulse);
  out.force_w = from_bullet(from->m_externalTorqueImpulse);
  out.row_v = from_bullet(from->m_deltaLinearVelocity);
  out.row_w = from_bullet(from->m_deltaAngularVelocity);
  return true;
}

void Multibodies::add_row_velocity(BodyId id, bool turns, Vector3d& v, Vector3d& w) {
  btSolverBody& to = *solver_body(id);
  const btVector3 dv = to_bullet(v), dw = to_bullet(w);
  to.internalGetDeltaLinearVelocity() += dv;
  if (turns) to.internalGetDeltaAngularVelocity() += dw;
  v = from_bullet(dv);
  w = from_bullet(dw);
}

// ---- impulses ----

void RowReader::read_link_rows(SolverArrays arrays) {
  rows_.multibody.clear();
  for (const btMultiBodyConstraintArray* rows : arrays.link_rows)
    for (int i = 0; rows && i < rows->size(); ++i) {
      const btMultiBodySolverConstraint& row = (*rows)[i];
      const int a = row.m_multiBodyA ? -1 : row.m_solverBodyIdA, b = row.m_multiBodyB ? -1 : row.m_solverBodyIdB;
      if (!solver_.acts_on_island(a) && !solver_.acts_on_island(b)) continue;
      host::Row& to = rows_.multibody.emplace_back();
      to.kind = host::Row::Kind::multibody;
      to.impulse = double(row.m_appliedImpulse);
      to.side[0].body = a;
      to.side[0].J << from_bullet(row.m_contactNormal1), from_bullet(row.m_relpos1CrossNormal);
      to.side[1].body = b;
      to.side[1].J << from_bullet(row.m_contactNormal2), from_bullet(row.m_relpos2CrossNormal);
    }
}

void Multibodies::read_row_wrenches(int tree, std::span<Wrench> on) const {
  for (std::size_t i = 1; i < on.size(); ++i) {
    const btMultibodyLink& link = body(tree).getLink(static_cast<int>(i) - 1);
    on[i].force = from_bullet(link.m_appliedConstraintForce);
    on[i].moment = from_bullet(link.m_appliedConstraintTorque);
  }
}

namespace {

bool acts_along_joints(const btMultiBodyConstraint* c) {
  return c && (is_exactly<btMultiBodyJointMotor>(*c) || is_exactly<btMultiBodyJointLimitConstraint>(*c) ||
               is_exactly<btMultiBodyGearConstraint>(*c) || is_exactly<btMultiBodySphericalJointMotor>(*c) ||
               is_exactly<btMultiBodySphericalJointLimit>(*c));
}

}  // namespace

/// Where the impulses of rows on a multibody are added; null: the step does not know it.
articulated::RowImpulses* Multibodies::impulses_on(btMultiBody* of) {
  const int tree = of ? tree_of(of) : -1;
  return tree >= 0 && trees_seen_[z(tree)] == Tree(*of) ? trees_.rows_on(tree) : nullptr;
}

void Multibodies::read_rows(const LinkRows& rows, const btMultiBodyJacobianData& data) {
  using Impulses = articulated::RowImpulses;
  const btMultiBody* last = nullptr;  // rows of one body come in runs: it is not searched again for each
  Impulses* on = nullptr;
  const auto add = [&](btMultiBody* of, int jacobian, double impulse, std::vector<double> Impulses::*sum) {
    if (!of) return;
    if (std::exchange(last, of) != of) on = impulses_on(of);
    if (!on) return;
    std::vector<double>& to = on->*sum;
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] += impulse * double(data.m_jacobians[jacobian + static_cast<int>(i)]);
  };
  const auto add_along_joint = [&](btMultiBody* of, int link, const btVector3& force, const btVector3& moment) {
    Impulses* const to = impulses_on(of);
    if (!to) return;
    to->along_joints[z(link + 1)].force += from_bullet(force);
    to->along_joints[z(link + 1)].moment += from_bullet(moment);
  };
  for (std::size_t kind = 0; kind < rows.size(); ++kind)
    for (int i = 0; rows[kind] && i < rows[kind]->size(); ++i) {
      const btMultiBodySolverConstraint& row = (*rows[kind])[i];
      if (kind == 0 && acts_along_joints(row.m_orgConstraint)) {
        const btScalar f = row.m_appliedImpulse / world_.getSolverInfo().m_timeStep;
        add_along_joint(row.m_multiBodyA, row.m_linkA, row.m_contactNormal1 * f, row.m_relpos1CrossNormal * f);
        add_along_joint(row.m_multiBodyB, row.m_linkB, row.m_contactNormal2 * f, row.m_relpos2CrossNormal * f);
      }
      const auto sum = kind == 0 ? &Impulses::joint : kind == 1 ? &Impulses::contact : &Impulses::friction;
      add(row.m_multiBodyA, row.m_jacAindex, double(row.m_appliedImpulse), sum);
      add(row.m_multiBodyB, row.m_jacBindex, double(row.m_appliedImpulse), sum);
    }
}

void Multibodies::take_back_rows(btMultiBodyJacobianData& data) {
  for (const Tree& t : trees_seen_)
    if (const int at = t.body->getCompanionId(); at >= 0 && at + 6 + t.rates <= data.m_deltaVelocities.size())
      t.body->applyDeltaVeeMultiDof2(&data.m_deltaVelocities[at], -1);
}

}  // namespace LINCHPIN_BULLET_NAMESPACE
