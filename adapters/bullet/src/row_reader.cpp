#include "row_reader.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace LINCHPIN_BULLET_NAMESPACE {

namespace {

using Row = host::Row;

thread_local RowReader* iterating = nullptr;  // Bullet's row solvers are plain functions

// The two sides of a row.
using Vector = btVector3 btSolverConstraint::*;
constexpr Vector normals[] = {&btSolverConstraint::m_contactNormal1, &btSolverConstraint::m_contactNormal2};
constexpr Vector moments[] = {&btSolverConstraint::m_relpos1CrossNormal, &btSolverConstraint::m_relpos2CrossNormal};
constexpr Vector angulars[] = {&btSolverConstraint::m_angularComponentA, &btSolverConstraint::m_angularComponentB};
constexpr int btSolverConstraint::*bodies_of[] = {&btSolverConstraint::m_solverBodyIdA,
                                                  &btSolverConstraint::m_solverBodyIdB};

/// Sums from the left, in double.
double dot(const btVector3& a, const btVector3& b) {
  return double(a.x()) * double(b.x()) + double(a.y()) * double(b.y()) + double(a.z()) * double(b.z());
}

btTypedConstraint* joint_of(const btSolverConstraint& row) {
  return static_cast<btTypedConstraint*>(row.m_originalContactPoint);
}

constexpr btScalar unbounded_joint = btScalar(1e9);  // a bound of a joint's row beyond this is none
constexpr btScalar unbounded = btScalar(1e10);       // as Bullet writes it in contacts

/// Returns whether a joint's row pushes without bounds and one way only, which no motor does.
bool is_limit(const btSolverConstraint& row) {
  return (row.m_lowerLimit == 0 && row.m_upperLimit >= unbounded_joint) ||
         (row.m_upperLimit == 0 && row.m_lowerLimit <= -unbounded_joint);
}

/// Returns whether a joint's row holds both ways.
bool is_lock(const btSolverConstraint& row, const JointBinding& j) {
  return row.m_lowerLimit <= -unbounded_joint && row.m_upperLimit >= unbounded_joint && j.joint &&
         is_held_by_own_rows(*j.joint);
}

/// By how much the bodies of a contact overlap beyond what Bullet lets them.
btScalar overlap_of(const btSolverConstraint& row, const btContactSolverInfo& info) {
  return -(static_cast<const btManifoldPoint*>(row.m_originalContactPoint)->getDistance() + info.m_linearSlop);
}

void make_inactive(btSolverConstraint& row) { row.m_jacDiagABInv = row.m_rhs = row.m_cfm = 0; }

void scale(btSolverConstraint& row, double by) {
  const btScalar longer = btScalar(by);
  row.m_jacDiagABInv *= longer;
  row.m_rhs *= longer;
  row.m_cfm *= longer;
}

}  // namespace

// ---- reading ----

int RowReader::row_body(const btRigidBody& body) const {
  const int index = body.getCompanionId();
  return solver_bodies_ && index >= 0 && index < solver_bodies_->size() &&
                 (*solver_bodies_)[index].m_originalBody == &body
             ? index
             : -1;
}

void RowReader::hold_kinematic(SolverArrays arrays) const {
  for (int i = 0; i < arrays.bodies.size(); ++i) {
    btSolverBody& sb = arrays.bodies[i];
    if (!sb.m_originalBody || !sb.m_originalBody->isKinematicObject() || bodies_.find(*sb.m_originalBody) < 0) continue;
    for (btVector3* x : {&sb.m_linearFactor, &sb.m_angularFactor, &sb.m_externalForceImpulse,
                         &sb.m_externalTorqueImpulse, &sb.m_deltaLinearVelocity, &sb.m_deltaAngularVelocity})
      x->setZero();
  }
}

void RowReader::forget_companions(SolverArrays arrays) {
  for (int i = 0; i < arrays.bodies.size(); ++i)
    if (arrays.bodies[i].m_originalBody) arrays.bodies[i].m_originalBody->setCompanionId(-1);
}

void RowReader::read_bodies(SolverArrays arrays) {
  rows_.bodies.resize(z(arrays.bodies.size()));
  for (int i = 0; i < arrays.bodies.size(); ++i) {
    const btSolverBody& sb = arrays.bodies[i];
    host::RowBody& to = rows_.bodies[z(i)];
    const btRigidBody* const original = sb.m_originalBody;
    to.motion = !original || original->isStaticObject() ? host::RowBody::Motion::fixed
                : original->isKinematicObject()         ? host::RowBody::Motion::kinematic
                                                        : host::RowBody::Motion::free;
    to.inverse_mass = double(sb.m_invMass.x());
    to.v = from_bullet(sb.m_linearVelocity);
    to.w = from_bullet(sb.m_angularVelocity);
    to.force_v = from_bullet(sb.m_externalForceImpulse);
    to.force_w = from_bullet(sb.m_externalTorqueImpulse);
    to.v_forces = from_bullet(sb.m_linearVelocity + sb.m_externalForceImpulse);
    to.w_forces = from_bullet(sb.m_angularVelocity + sb.m_externalTorqueImpulse);
    to.row_v = from_bullet(sb.m_deltaLinearVelocity);
    to.row_w = from_bullet(sb.m_deltaAngularVelocity);
  }
}

bool RowReader::concerns_us(const btSolverConstraint& row) const {
  return solver_.acts_on_island(row.m_solverBodyIdA) || solver_.acts_on_island(row.m_solverBodyIdB);
}

Row& RowReader::read_row(const btSolverConstraint& row, int index, std::vector<Row>& to) const {
  Row& out = to.emplace_back();
  out.index = index;
  out.bounded = row.m_upperLimit < unbounded && row.m_lowerLimit > -unbounded;
  out.limit_sign = row.m_lowerLimit == 0 ? 1 : -1;
  const double inverse = double(row.m_jacDiagABInv);
  out.velocity_change = double(row.m_rhs) / inverse;
  out.effective_mass = inverse;
  out.softness = double(row.m_cfm) / inverse;
  out.host_mobility = double(bodies_.world()->getSolverInfo().m_sor) / inverse;
  out.impulse = double(row.m_appliedImpulse);
  for (const int k : {0, 1}) {
    Row::Side& side = out.side[z(k)];
    const btVector3 &n = row.*normals[k], &rn = row.*moments[k];
    side.body = row.*bodies_of[k];
    side.J << from_bullet(n), from_bullet(rn);
    const btSolverBody& sb = (*solver_bodies_)[side.body];
    side.mobility = dot(n, n * sb.m_invMass * sb.m_linearFactor) + dot(rn, row.*angulars[k] * sb.m_angularFactor);
  }
  return out;
}

void RowReader::read_rows(SolverArrays arrays) {
  read_bodies(arrays);
  for (std::vector<Row>* rows : rows_.all()) rows->clear();
  for (int i = 0; i < arrays.contacts.size(); ++i) {
    const btSolverConstraint& row = arrays.contacts[i];
    if (!concerns_us(row)) continue;
    Row& to = read_row(row, i, rows_.contacts);
    to.kind = Row::Kind::contact;
    to.penetrates = row.m_rhsPenetration == 0 && overlap_of(row, bodies_.world()->getSolverInfo()) > 0;
  }
  read_friction(arrays.friction, arrays.contacts, rows_.friction);
  read_friction(arrays.rolling, arrays.contacts, rows_.rolling);
  read_joints(arrays);
  read_link_rows(arrays);
}

void RowReader::read_friction(const btConstraintArray& from, const btConstraintArray& contacts, std::vector<Row>& to) {
  for (int i = 0; i < from.size(); ++i) {
    if (!concerns_us(from[i])) continue;
    const auto& point = *static_cast<const btManifoldPoint*>(contacts[from[i].m_frictionIndex].m_originalContactPoint);
    const bool moves = point.m_contactMotion1 != 0 || point.m_contactMotion2 != 0;
    read_row(from[i], i, to).kind = moves ? Row::Kind::belt : Row::Kind::friction;
  }
}

// In Mode::passive the rows of an exact joint are equalities, but for those that stay with Bullet.
void RowReader::read_joints(SolverArrays arrays) {
  const btConstraintArray& rows = arrays.joints;
  const bool observes = solver_.options().mode == host::Mode::passive;
  for (int i = 0, end = 0; i < rows.size(); i = end) {
    btTypedConstraint* const joint = joint_of(rows[i]);
    while (end < rows.size() && joint_of(rows[end]) == joint) ++end;
    const int entry = joints_.find(joint);
    const JointBinding* const binding = entry < 0 ? nullptr : &joints_[entry];
    const bool equalities = observes && entry >= 0 && solver_.entry(entry).id.index >= 0;
    own_rows_.clear();
    if (equalities && binding->joint && solver_.entry(entry).may_have_host_rows)
      find_native_rows(*binding->joint, binding->exact_axis, end - i, own_rows_);
    for (int k = i; k < end; ++k) {
      if (entry < 0 && !concerns_us(rows[k])) continue;
      Row& to = read_row(rows[k], k, rows_.joints);
      to.constraint = entry;
      to.kind = is_limit(rows[k])                       ? Row::Kind::limit
                : binding && is_lock(rows[k], *binding) ? Row::Kind::lock
                                                        : Row::Kind::motor;
      if (equalities && std::find(own_rows_.begin(), own_rows_.end(), k - i) == own_rows_.end())
        to.kind = Row::Kind::equality;
    }
  }
}

// ---- before the iterations ----

bool RowReader::start(SolverArrays arrays) {
  solver_bodies_ = &arrays.bodies;
  hold_kinematic(arrays);
  read_bodies(arrays);
  if (!solver_.begin_among_rows(rows_)) return false;
  if (solver_.options().mode == host::Mode::passive || !solver_.has_group()) return true;
  for (btConstraintArray* rows : {&arrays.friction, &arrays.rolling}) add_torques(arrays, *rows);
  read_rows(arrays);
  leave_out_rigid_parts(arrays);
  const bool good = solver_.start_rows(rows_);
  write_start_velocities(arrays);
  return good;
}

// Bullet leaves torques on the bodies out of the speed that a row of friction removes (setupFrictionConstraint), but
// not out of that of a contact. The feet of a robot with torques in its joints would glide.
void RowReader::add_torques(SolverArrays arrays, btConstraintArray& friction) const {
  for (int i = 0; i < friction.size(); ++i) {
    btSolverConstraint& row = friction[i];
    if (!concerns_us(row)) continue;
    btScalar speed = 0;
    for (const int k : {0, 1}) speed += (row.*moments[k]).dot(arrays.bodies[row.*bodies_of[k]].m_externalTorqueImpulse);
    row.m_rhs -= speed * row.m_jacDiagABInv;
  }
}

// Contacts between bodies of one rigid part, before any impulse counts.
void RowReader::leave_out_rigid_parts(SolverArrays arrays) {
  for (const auto& [rows, from] : {std::pair(&rows_.contacts, &arrays.contacts),
                                   {&rows_.friction, &arrays.friction},
                                   {&rows_.rolling, &arrays.rolling}})
    std::erase_if(*rows, [&, from = from](const Row& row) {
      if (!solver_.is_within_rigid_part(rows_, row)) return false;
      btSolverConstraint& at = (*from)[row.index];
      for (btVector3* x : {&at.m_contactNormal1, &at.m_contactNormal2, &at.m_relpos1CrossNormal,
                           &at.m_relpos2CrossNormal, &at.m_angularComponentA, &at.m_angularComponentB})
        x->setZero();
      at.m_appliedImpulse = at.m_rhs = at.m_rhsPenetration = at.m_cfm = 0;
      return true;
    });
}

void RowReader::write_start_velocities(SolverArrays arrays) {
  for (const host::RowVelocity& at : solver_.coupled_bodies()) {
    btSolverBody& sb = arrays.bodies[at.body];
    sb.internalGetDeltaLinearVelocity() = to_bullet(at.v) - sb.m_linearVelocity - sb.m_externalForceImpulse;
    if (at.turns)
      sb.internalGetDeltaAngularVelocity() = to_bullet(at.w) - sb.m_angularVelocity - sb.m_externalTorqueImpulse;
  }
}

void RowReader::push(SolverArrays arrays) {
  const btScalar erp = bodies_.world() ? bodies_.world()->getSolverInfo().m_splitImpulseTurnErp : btScalar(0);
  bool any = false;
  for (host::RowVelocity& at : solver_.coupled_bodies()) {
    const btSolverBody& sb = arrays.bodies[at.body];
    at.v = from_bullet(sb.m_pushVelocity);
    at.w = from_bullet(sb.m_turnVelocity * erp);
    any = any || !at.v.isZero() || !at.w.isZero();
  }
  if (any) solver_.push();
}

bool RowReader::couple(SolverArrays arrays, bool find_composites) {
  for (Range& range : ranges_) range.first = nullptr;
  if (!solver_.has_group()) return false;
  read_rows(arrays);
  bool any = false;
  if (find_composites && make_composites(arrays)) {
    any = true;
    read_rows(arrays);
  }
  const host::RowSettings settings{.joint_erp = double(bodies_.world()->getSolverInfo().m_erp)};
  if (!solver_.find_responses(rows_, settings)) return any;  // rows of composites too may be inactive
  apply_changes(arrays);
  return true;
}

// Welds make one body of an island: to rows it can be one of Bullet's own.
bool RowReader::make_composites(SolverArrays arrays) {
  const auto found = solver_.find_composites();
  composite_body_.clear();
  for (const host::CompositeBody& whole : found) {
    composite_body_.push_back(arrays.bodies.size());
    btSolverBody one;
    one.m_worldTransform.setIdentity();
    for (btVector3* x :
         {&one.m_deltaLinearVelocity, &one.m_deltaAngularVelocity, &one.m_pushVelocity, &one.m_turnVelocity,
          &one.m_linearVelocity, &one.m_angularVelocity, &one.m_externalForceImpulse, &one.m_externalTorqueImpulse})
      x->setZero();
    one.m_linearFactor = one.m_angularFactor = btVector3(1, 1, 1);
    one.m_invMass = one.m_linearFactor * btScalar(whole.inverse_mass);
    one.m_originalBody = arrays.bodies[whole.members[0].body].m_originalBody;  // without any, rows do not move it
    arrays.bodies.push_back(one);
  }
  if (found.empty()) return false;
  for (std::size_t of = 0; of < arrays.all().size(); ++of)
    for (const Row& row : *rows_.all()[of])
      put_on_composites((*arrays.all()[of])[row.index], solver_.on_composites(rows_, row));
  return true;
}

void RowReader::put_on_composites(btSolverConstraint& row, const host::CompositeRow& by) {
  if (by.change.inactive) return make_inactive(row);
  if (by.composite[0] < 0 && by.composite[1] < 0) return;
  for (const int k : {0, 1}) {
    if (by.composite[z(k)] < 0) continue;
    sides_.push_back({&row, k, row.*bodies_of[k], row.*moments[k], row.*angulars[k]});
    row.*moments[k] = to_bullet(by.moment[z(k)]);
    row.*angulars[k] = to_bullet(by.turn[z(k)]);
    row.*bodies_of[k] = composite_body_[z(by.composite[z(k)])];
  }
  row.m_rhs -= btScalar(by.had) * row.m_jacDiagABInv;
  scale(row, by.change.scale);
}

void RowReader::put_rows_back(SolverArrays arrays) {
  for (const Side& side : sides_) {
    side.row->*moments[side.k] = side.moment;
    side.row->*angulars[side.k] = side.angular;
    side.row->*bodies_of[side.k] = side.body;
  }
  sides_.clear();
  const auto composites = solver_.composites();
  for (std::size_t i = 0; i < composite_body_.size(); ++i) {
    btSolverBody& one = arrays.bodies[composite_body_[i]];
    one.m_originalBody = nullptr;
    for (const auto& [index, arm] : composites[i].members) {  // they have moved with it
      btSolverBody& member = arrays.bodies[index];
      member.m_deltaLinearVelocity += one.m_deltaLinearVelocity + one.m_deltaAngularVelocity.cross(to_bullet(arm));
      member.m_deltaAngularVelocity += one.m_deltaAngularVelocity;
    }
  }
  composite_body_.clear();
}

void RowReader::apply_changes(SolverArrays arrays) {
  for (std::size_t of = 0; of < ranges_.size(); ++of) {
    const std::vector<Row>& rows = *rows_.all()[of];
    btConstraintArray& to = *arrays.all()[of];
    Range& range = ranges_[of];
    range.first = to.size() > 0 ? &to[0] : nullptr;
    range.response.assign(z(to.size()), nullptr);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      apply(solver_.row_change(rows, i), to[rows[i].index]);
      const host::Response& response = solver_.response(rows, i);
      if (response.island[0] >= 0 || response.island[1] >= 0) range.response[z(rows[i].index)] = &response;
    }
  }
  const std::span<const double> motion = solver_.response_motion();
  motion_.resize(motion.size() / 3);
  for (std::size_t i = 0; i < motion_.size(); ++i)
    motion_[i] = to_bullet(Vector3d(motion[3 * i], motion[3 * i + 1], motion[3 * i + 2]));
}

void RowReader::apply(const host::RowChange& change, btSolverConstraint& row) const {
  if (change.overlap_less != 0) {
    const btContactSolverInfo& info = bodies_.world()->getSolverInfo();
    const auto& point = *static_cast<const btManifoldPoint*>(row.m_originalContactPoint);
    const btScalar erp = point.m_contactPointFlags & BT_CONTACT_FLAG_HAS_CONTACT_ERP ? point.m_contactERP : info.m_erp2;
    row.m_rhs -=
        btScalar(change.overlap_less) * overlap_of(row, info) * erp / btScalar(solver_.dt()) * row.m_jacDiagABInv;
  }
  if (change.target_less != 0) row.m_rhs -= btScalar(change.target_less) * row.m_jacDiagABInv;
  if (change.inactive)
    make_inactive(row);
  else if (change.scale != 1)
    scale(row, change.scale);
}

// ---- during the iterations ----

void RowReader::begin_iterations(SolverArrays arrays, btSingleConstraintRowSolver generic,
                                 btSingleConstraintRowSolver lower) {
  iterating = this;
  native_generic_ = generic;
  native_lower_ = lower;
  solver_bodies_ = &arrays.bodies;  // not its first element: Bullet adds bodies between the rows of an iteration
}
btScalar RowReader::row_generic(btSolverBody& a, btSolverBody& b, const btSolverConstraint& row) {
  return iterating->resolve(a, b, row, true);
}
btScalar RowReader::row_lower(btSolverBody& a, btSolverBody& b, const btSolverConstraint& row) {
  return iterating->resolve(a, b, row, false);
}

const host::Response* RowReader::response_of(const btSolverConstraint& row) const {
  for (const Range& range : ranges_)
    if (range.first && !std::less<>()(&row, range.first) && std::less<>()(&row, range.first + range.response.size()))
      return range.response[static_cast<std::size_t>(&row - range.first)];
  return nullptr;
}

// Bullet's own scalar row solver, where a row moves no more than its two bodies. Otherwise the same with the response.
// An inactive row leaves nothing to do: 0 · ∞ would hide from Bullet, which ends where all rows leave nothing,
// what the rows before it do.
btScalar RowReader::resolve(btSolverBody& a, btSolverBody& b, const btSolverConstraint& row, bool bounded_above) const {
  if (row.m_jacDiagABInv == 0) return 0;
  const host::Response* const response = response_of(row);
  if (!response) return bounded_above ? native_generic_(a, b, row) : native_lower_(a, b, row);
  const btScalar before = btScalar(row.m_appliedImpulse);
  btScalar change = row.m_rhs - before * row.m_cfm;
  for (const int k : {0, 1}) {
    btSolverBody& sb = k == 0 ? a : b;
    change -= ((row.*normals[k]).dot(sb.internalGetDeltaLinearVelocity()) +
               (row.*moments[k]).dot(sb.internalGetDeltaAngularVelocity())) *
              row.m_jacDiagABInv;
  }
  btScalar sum = before + change;
  if (sum < row.m_lowerLimit) sum = row.m_lowerLimit;
  if (bounded_above && sum > row.m_upperLimit) sum = row.m_upperLimit;
  change = sum - before;
  row.m_appliedImpulse = sum;
  for (const int k : {0, 1}) {
    if (change == 0) break;
    if (const int island = response->island[z(k)]; island >= 0) {
      const btVector3* part = &motion_[response->first[z(k)] / 3];
      for (const int moved : solver_.response_bodies(island)) {
        btSolverBody& sb = (*solver_bodies_)[moved];
        sb.internalGetDeltaLinearVelocity() += part[0] * change;
        sb.internalGetDeltaAngularVelocity() += part[1] * change;
        part += 2;
      }
    } else if (response->moves_body(k)) {
      btSolverBody& sb = k == 0 ? a : b;
      sb.internalApplyImpulse(row.*normals[k] * sb.internalGetInvMass(), row.*angulars[k], change);
    }
  }
  return change * (btScalar(1) / row.m_jacDiagABInv);
}

void RowReader::project(SolverArrays arrays) {
  const auto bodies = solver_.projected_bodies();
  if (bodies.empty()) return;
  for (host::RowVelocity& at : bodies) {
    const btSolverBody& sb = arrays.bodies[at.body];
    at.v = from_bullet(sb.m_linearVelocity) + from_bullet(sb.m_externalForceImpulse) +
           from_bullet(sb.m_deltaLinearVelocity);
    at.w = from_bullet(sb.m_angularVelocity) + from_bullet(sb.m_externalTorqueImpulse) +
           from_bullet(sb.m_deltaAngularVelocity);
  }
  solver_.project();
  for (const host::RowVelocity& at : bodies) {
    btSolverBody& sb = arrays.bodies[at.body];
    sb.internalGetDeltaLinearVelocity() += to_bullet(at.v);
    if (at.turns) sb.internalGetDeltaAngularVelocity() += to_bullet(at.w);
  }
}

bool RowReader::finish(SolverArrays arrays) {
  solver_bodies_ = &arrays.bodies;
  put_rows_back(arrays);
  hold_kinematic(arrays);  // the iterations bring in bodies that no row knows
  if (!solver_.has_group() && (!bodies_.world() || arrays.joints.size() == 0)) return true;
  read_rows(arrays);
  if (!solver_.finish_rows(rows_)) return false;
  for (std::size_t of = 0; of < arrays.all().size(); ++of)
    for (const Row& row : *rows_.all()[of])
      if (row.was_cut) (*arrays.all()[of])[row.index].m_appliedImpulse = btScalar(row.impulse);
  return true;
}

}  // namespace LINCHPIN_BULLET_NAMESPACE
