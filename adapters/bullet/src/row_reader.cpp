#include "row_reader.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {

using Row = host::Row;

thread_local RowReader* iterating = nullptr;  // Bullet's row solvers are plain functions

std::size_t z(int i) { return static_cast<std::size_t>(i); }

const btVector3& normal(const btSolverConstraint& row, int k) {
  return k == 0 ? row.m_contactNormal1 : row.m_contactNormal2;
}
btVector3& moment(btSolverConstraint& row, int k) {
  return k == 0 ? row.m_relpos1CrossNormal : row.m_relpos2CrossNormal;
}
const btVector3& moment(const btSolverConstraint& row, int k) {
  return k == 0 ? row.m_relpos1CrossNormal : row.m_relpos2CrossNormal;
}
btVector3& angular(btSolverConstraint& row, int k) {
  return k == 0 ? row.m_angularComponentA : row.m_angularComponentB;
}
const btVector3& angular(const btSolverConstraint& row, int k) {
  return k == 0 ? row.m_angularComponentA : row.m_angularComponentB;
}
int& body(btSolverConstraint& row, int k) { return k == 0 ? row.m_solverBodyIdA : row.m_solverBodyIdB; }
int body(const btSolverConstraint& row, int k) { return k == 0 ? row.m_solverBodyIdA : row.m_solverBodyIdB; }

/// Sums from the left, in double.
double dot(const btVector3& a, const btVector3& b) {
  return double(a.x()) * double(b.x()) + double(a.y()) * double(b.y()) + double(a.z()) * double(b.z());
}

btTypedConstraint* joint_of(const btSolverConstraint& row) {
  return static_cast<btTypedConstraint*>(row.m_originalContactPoint);
}

constexpr btScalar unbounded_joint = btScalar(1e9);  // a bound of a joint's row beyond this is none
constexpr btScalar unbounded = btScalar(1e10);       // as Bullet writes it in contacts

/// Whether a joint's row pushes without bounds and one way only, which no motor does.
bool is_limit(const btSolverConstraint& row) {
  return (row.m_lowerLimit == 0 && row.m_upperLimit >= unbounded_joint) ||
         (row.m_upperLimit == 0 && row.m_lowerLimit <= -unbounded_joint);
}

/// Whether a joint's row holds an angle both ways: the twist of a cone-twist joint without a motor that is to be none.
/// Other rows without bounds are motors.
bool is_lock(const btSolverConstraint& row, const JointBinding& j) {
  if (row.m_lowerLimit > -unbounded_joint || row.m_upperLimit < unbounded_joint) return false;
  return j.kind == JointKind::cone_twist && j.joint && !static_cast<btConeTwistConstraint*>(j.joint)->isMotorEnabled();
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

void RowReader::read_row(const btSolverConstraint& row, int index, Row& out) const {
  out = Row{};
  out.index = index;
  out.bounded = row.m_upperLimit < unbounded && row.m_lowerLimit > -unbounded;
  out.limit_sign = row.m_lowerLimit == 0 ? 1 : -1;
  const double inverse = double(row.m_jacDiagABInv);
  out.ask = double(row.m_rhs) / inverse;
  out.effective_mass = inverse;
  out.softness = double(row.m_cfm) / inverse;
  out.host_mobility = double(world_->getSolverInfo().m_sor) / inverse;
  out.impulse = double(row.m_appliedImpulse);
  for (const int k : {0, 1}) {
    Row::Side& side = out.side[z(k)];
    const btVector3 &n = normal(row, k), &rn = moment(row, k);
    side.body = body(row, k);
    side.J << from_bullet(n), from_bullet(rn);
    const btSolverBody& sb = (*solver_bodies_)[side.body];
    side.mobility = dot(n, n * sb.m_invMass * sb.m_linearFactor) + dot(rn, angular(row, k) * sb.m_angularFactor);
  }
}

void RowReader::read_contact(const btSolverConstraint& row, Row& out) const {
  const auto& point = *static_cast<const btManifoldPoint*>(row.m_originalContactPoint);
  out.kind = Row::Kind::contact;
  out.penetrates = row.m_rhsPenetration == 0 && -(point.getDistance() + world_->getSolverInfo().m_linearSlop) > 0;
}

void RowReader::read_rows(SolverArrays arrays) {
  read_bodies(arrays);
  const auto rows = all_rows();
  const auto from = all(arrays);
  for (const Array of : {contact_rows, friction_rows, rolling_rows}) {
    rows[of]->clear();
    for (int i = 0; i < from[of]->size(); ++i) {
      const btSolverConstraint& row = (*from[of])[i];
      if (!concerns_us(row)) continue;
      Row& to = rows[of]->emplace_back();
      read_row(row, i, to);
      if (of == contact_rows) {
        read_contact(row, to);
        continue;
      }
      const auto& point =
          *static_cast<const btManifoldPoint*>(arrays.contacts[row.m_frictionIndex].m_originalContactPoint);
      to.kind = point.m_contactMotion1 == 0 && point.m_contactMotion2 == 0 ? Row::Kind::friction : Row::Kind::belt;
    }
  }
  read_joints(arrays);
  read_link_rows(arrays);
}

void RowReader::read_joints(SolverArrays arrays) {
  rows_.joints.clear();
  const bool observes = solver_.options().mode == host::Mode::observe;
  const btTypedConstraint* last = nullptr;
  int in_joint = 0, kept = 0;
  std::array<int, 24> own{};
  for (int i = 0; i < arrays.joints.size(); ++i) {
    const btSolverConstraint& row = arrays.joints[i];
    btTypedConstraint* const joint = joint_of(row);
    const int entry = joints_.find(joint);
    const bool exact = entry >= 0 && solver_.entry(entry).id.index >= 0;
    if (std::exchange(last, joint) != joint) {
      in_joint = kept = 0;
      if (observes && exact && joints_[entry].joint && joints_[entry].shape.may_emit_native) {
        int emitted = 0;
        for (int k = i; k < arrays.joints.size() && joint_of(arrays.joints[k]) == joint; ++k) ++emitted;
        kept = NativePart::native_rows(*joints_[entry].joint, joints_[entry].shape, emitted, own);
      }
    }
    const bool is_own = std::find(own.begin(), own.begin() + kept, in_joint++) != own.begin() + kept;
    if (entry < 0 && !concerns_us(row)) continue;
    Row& to = rows_.joints.emplace_back();
    read_row(row, i, to);
    to.constraint = entry;
    to.kind = is_limit(row)                                ? Row::Kind::limit
              : entry >= 0 && is_lock(row, joints_[entry]) ? Row::Kind::lock
                                                           : Row::Kind::motor;
    if (observes && exact && !is_own) to.kind = Row::Kind::equality;
  }
}

void RowReader::read_link_rows(SolverArrays arrays) {
  rows_.multibody.clear();
  for (const btMultiBodyConstraintArray* rows : arrays.link_rows)
    for (int i = 0; rows && i < rows->size(); ++i) {
      const btMultiBodySolverConstraint& row = (*rows)[i];
      const int a = row.m_multiBodyA ? -1 : row.m_solverBodyIdA, b = row.m_multiBodyB ? -1 : row.m_solverBodyIdB;
      if (!solver_.acts_on_island(a) && !solver_.acts_on_island(b)) continue;
      Row& to = rows_.multibody.emplace_back();
      to.kind = Row::Kind::multibody;
      to.impulse = double(row.m_appliedImpulse);
      to.side[0].body = a;
      to.side[0].J << from_bullet(row.m_contactNormal1), from_bullet(row.m_relpos1CrossNormal);
      to.side[1].body = b;
      to.side[1].J << from_bullet(row.m_contactNormal2), from_bullet(row.m_relpos2CrossNormal);
    }
}

// ---- before the iterations ----

bool RowReader::start(SolverArrays arrays) {
  solver_bodies_ = &arrays.bodies;
  hold_kinematic(arrays);
  read_bodies(arrays);
  if (!solver_.begin_among_rows(rows_)) return false;
  if (solver_.options().mode == host::Mode::observe || !solver_.has_group()) return true;
  read_rows(arrays);
  leave_out_rigid_parts(arrays);
  const bool good = solver_.start_rows(rows_);
  write_start_velocities(arrays);
  return good;
}

// Contacts between bodies of one rigid part, before any impulse counts.
void RowReader::leave_out_rigid_parts(SolverArrays arrays) {
  const auto rows = all_rows();
  for (const Array of : {contact_rows, friction_rows, rolling_rows})
    std::erase_if(*rows[of], [&](const Row& row) {
      if (!solver_.is_within_rigid_part(rows_, row)) return false;
      btSolverConstraint& at = (*all(arrays)[of])[row.index];
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
  const btScalar erp = world_ ? world_->getSolverInfo().m_splitImpulseTurnErp : btScalar(0);
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
  responses_.clear();
  for (Range& range : ranges_) range.first = nullptr;
  if (!solver_.has_group()) return false;
  read_rows(arrays);
  bool any = false;
  if (find_composites && make_composites(arrays)) {
    any = true;
    read_rows(arrays);
  }
  const host::RowSettings settings{.joint_erp = double(world_->getSolverInfo().m_erp)};
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
  const auto rows = all_rows();
  for (const Array of : {contact_rows, joint_rows, friction_rows, rolling_rows})
    for (const Row& row : *rows[of])
      put_on_composites((*all(arrays)[of])[row.index], solver_.on_composites(rows_, row));
  return true;
}

void RowReader::put_on_composites(btSolverConstraint& row, const host::CompositeRow& by) {
  if (by.change.inactive) return make_inactive(row);
  if (by.composite[0] < 0 && by.composite[1] < 0) return;
  for (const int k : {0, 1}) {
    if (by.composite[z(k)] < 0) continue;
    sides_.push_back({&row, k, body(row, k), moment(row, k), angular(row, k)});
    moment(row, k) = to_bullet(by.moment[z(k)]);
    angular(row, k) = to_bullet(by.turn[z(k)]);
    body(row, k) = composite_body_[z(by.composite[z(k)])];
  }
  row.m_rhs -= btScalar(by.had) * row.m_jacDiagABInv;
  scale(row, by.change.scale);
}

void RowReader::put_rows_back(SolverArrays arrays) {
  for (const Side& side : sides_) {
    moment(*side.row, side.k) = side.moment;
    angular(*side.row, side.k) = side.angular;
    body(*side.row, side.k) = side.body;
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
  const auto rows = all_rows();
  const btContactSolverInfo& info = world_->getSolverInfo();
  for (const Array of : {contact_rows, joint_rows, friction_rows, rolling_rows}) {
    btConstraintArray& to = *all(arrays)[of];
    Range& range = ranges_[of];
    range.first = to.size() > 0 ? &to[0] : nullptr;
    range.response.assign(z(to.size()), -1);
    for (std::size_t i = 0; i < rows[of]->size(); ++i) {
      const int index = (*rows[of])[i].index;
      btSolverConstraint& row = to[index];
      const host::Response& response = solver_.response(*rows[of], i);
      if (response.island[0] >= 0 || response.island[1] >= 0) {
        range.response[z(index)] = static_cast<int>(responses_.size());
        responses_.push_back(response);
      }
      const host::RowChange& change = solver_.row_change(*rows[of], i);
      if (change.overlap_less != 0) {
        const auto& point = *static_cast<const btManifoldPoint*>(row.m_originalContactPoint);
        const btScalar depth = -(point.getDistance() + info.m_linearSlop);
        const btScalar erp =
            point.m_contactPointFlags & BT_CONTACT_FLAG_HAS_CONTACT_ERP ? point.m_contactERP : info.m_erp2;
        row.m_rhs -= btScalar(change.overlap_less) * depth * erp / btScalar(solver_.dt()) * row.m_jacDiagABInv;
      }
      if (change.target_less != 0) row.m_rhs -= btScalar(change.target_less) * row.m_jacDiagABInv;
      if (change.inactive)
        make_inactive(row);
      else if (change.scale != 1)
        scale(row, change.scale);
    }
  }
  const std::span<const double> motion = solver_.response_motion();
  motion_.resize(motion.size() / 3);
  for (std::size_t i = 0; i < motion_.size(); ++i)
    motion_[i] = to_bullet(Vector3d(motion[3 * i], motion[3 * i + 1], motion[3 * i + 2]));
  for (const host::Response& response : responses_)
    for (const int island : response.island) {
      if (island < 0) continue;
      if (z(island) >= response_bodies_.size()) response_bodies_.resize(z(island) + 1);
      const auto bodies = solver_.response_bodies(island);
      response_bodies_[z(island)].assign(bodies.begin(), bodies.end());
    }
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
    if (range.first && !std::less<>()(&row, range.first) && std::less<>()(&row, range.first + range.response.size())) {
      const int response = range.response[static_cast<std::size_t>(&row - range.first)];
      return response < 0 ? nullptr : &responses_[z(response)];
    }
  return nullptr;
}

// As Bullet's own scalar row solver, but for what moves; where that is no more than Bullet takes it to be, Bullet's
// own. An inactive row leaves nothing to do: 0 · ∞ would hide from Bullet, which ends where all rows leave nothing,
// what the rows before it do.
btScalar RowReader::resolve(btSolverBody& a, btSolverBody& b, const btSolverConstraint& row, bool bounded_above) const {
  if (row.m_jacDiagABInv == 0) return 0;
  const host::Response* const response = response_of(row);
  if (!response) return bounded_above ? native_generic_(a, b, row) : native_lower_(a, b, row);
  const btScalar before = btScalar(row.m_appliedImpulse);
  btScalar change = row.m_rhs - before * row.m_cfm;
  change -= (row.m_contactNormal1.dot(a.internalGetDeltaLinearVelocity()) +
             row.m_relpos1CrossNormal.dot(a.internalGetDeltaAngularVelocity())) *
            row.m_jacDiagABInv;
  change -= (row.m_contactNormal2.dot(b.internalGetDeltaLinearVelocity()) +
             row.m_relpos2CrossNormal.dot(b.internalGetDeltaAngularVelocity())) *
            row.m_jacDiagABInv;
  btScalar sum = before + change;
  if (sum < row.m_lowerLimit) sum = row.m_lowerLimit;
  if (bounded_above && sum > row.m_upperLimit) sum = row.m_upperLimit;
  change = sum - before;
  row.m_appliedImpulse = sum;
  for (const int k : {0, 1}) {
    if (change == 0) break;
    if (const int island = response->island[z(k)]; island >= 0) {
      const btVector3* part = &motion_[response->first[z(k)] / 3];
      for (const int moved : response_bodies_[z(island)]) {
        btSolverBody& sb = (*solver_bodies_)[moved];
        sb.internalGetDeltaLinearVelocity() += part[0] * change;
        sb.internalGetDeltaAngularVelocity() += part[1] * change;
        part += 2;
      }
    } else if (response->moves_body(k)) {
      btSolverBody& sb = k == 0 ? a : b;
      sb.internalApplyImpulse(normal(row, k) * sb.internalGetInvMass(), angular(row, k), change);
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
  if (!solver_.has_group()) {
    if (world_ && arrays.joints.size() > 0) {
      read_rows(arrays);
      solver_.note_rows(rows_);
    }
    return true;
  }
  read_rows(arrays);
  if (!solver_.finish_rows(rows_)) return false;
  const auto rows = all_rows();
  for (const Array of : {contact_rows, joint_rows, friction_rows, rolling_rows})
    for (const Row& row : *rows[of])
      if (row.was_cut) (*all(arrays)[of])[row.index].m_appliedImpulse = btScalar(row.impulse);
  for (const Row& row : rows_.contacts)
    if (solver_.is_left_approaching(rows_, row)) arrays.contacts[row.index].m_appliedImpulse = 0;
  return true;
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
