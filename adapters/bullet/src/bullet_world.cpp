#include "bullet_world.h"

#include "multibody.h"

#include <linchpin/detail/prefetch.h>

#include <limits>

namespace LINCHPIN_BULLET_NAMESPACE {

using linchpin::detail::prefetch, linchpin::detail::prefetch_part;

constexpr std::size_t ahead = 4;  // elements between a prefetch and the use

BulletWorld::BulletWorld(const host::SolverOptions& options)
    : solver(*this, options), bodies(solver), joints(solver, bodies), rows(solver, bodies, joints) {}
BulletWorld::~BulletWorld() = default;

void BulletWorld::enter(btDiscreteDynamicsWorld* world) {
  bodies.set_world(world);
  if (world) ended_ = false;
}

std::string BulletWorld::name() const {
  return std::string("Bullet (") + (sizeof(btScalar) == 4 ? "single" : "double") +
         " precision, native part: " + native_solver + ")";
}

const char* BulletWorld::why_absent() const {
  if (world()) return nullptr;
  return ended_ ? host::world_has_ended : "attach the solver to a world first";
}

double BulletWorld::energy() const {
  double sum = 0;
  const btCollisionObjectArray& all = world()->getCollisionObjectArray();
  for (int i = 0; i < all.size(); ++i) {
    const btRigidBody* body = btRigidBody::upcast(all[i]);
    if (!body || body->isStaticOrKinematicObject() || body->getInvMass() == 0) continue;
    host::add_energy(read_state(*body), read_mass(*body), from_bullet(body->getInvInertiaDiagLocal()),
                     from_bullet(body->getGravity()), sum);
  }
  return multibodies ? sum + multibodies->energy() : sum;
}

void BulletWorld::map_joint(int entry) {
  if (solver.entry(entry).is_joint()) return joints.map(entry);
  if (multibodies) multibodies->map(entry);
}

bool BulletWorld::keeps_entry(int entry) const { return multibodies && multibodies->is_stock(entry); }

// ---- reading bodies ----

void BulletWorld::read(BodyId id, BodyState& out) const {
  if (const btRigidBody* body = bodies.body(id)) read_state(*body, out);
}

const char* BulletWorld::why_unsupported(BodyId id) const {
  const btRigidBody* body = bodies.body(id);
  return body ? bullet::why_unsupported(*body) : nullptr;
}

unsigned BulletWorld::locked_axes(BodyId id) const { return bullet::locked_axes(*bodies.body(id)); }

void BulletWorld::read_forces(BodyId id, host::Load& load) const {
  const btRigidBody& body = *bodies.body(id);
  const int rules = BT_ENABLE_GYROSCOPIC_FORCE_EXPLICIT | BT_ENABLE_GYROSCOPIC_FORCE_IMPLICIT_WORLD |
                    BT_ENABLE_GYROSCOPIC_FORCE_IMPLICIT_BODY;
  load = {from_bullet(body.getTotalForce()), from_bullet(body.getTotalTorque()), (body.getFlags() & rules) != 0};
}

void BulletWorld::read_frame(BodyId id, Vector3d& p, Matrix3d& R) const {
  const btRigidBody* const body = bodies.body(id);
  const btTransform& x = (body ? *body : btTypedConstraint::getFixedBody()).getWorldTransform();
  p = from_bullet(x.getOrigin());
  for (int i = 0; i < 3; ++i)
    for (int k = 0; k < 3; ++k) R(i, k) = double(x.getBasis()[i][k]);
}

void BulletWorld::wake(BodyId id) {
  if (!world()) return;  // bodies may be gone with it
  btRigidBody* const body = bodies.body(id);
  if (!body->isStaticOrKinematicObject()) body->activate();
}

bool BulletWorld::may_fall_asleep(BodyId id) const {
  if (!world() || !bodies.is_at_its_place(id)) return false;
  const int state = bodies.body(id)->getActivationState();
  return state == WANTS_DEACTIVATION || state == ISLAND_SLEEPING;
}

void BulletWorld::prefetch_body(BodyId id, Access access) const {
  static const btRigidBody& any = btTypedConstraint::getFixedBody();
  const btRigidBody* const body = bodies.body(id);
  prefetch_part(body, any, &any.getWorldTransform(), sizeof(btTransform));
  if (access == Access::state) prefetch_part(body, any, &any.getLinearVelocity(), 9 * sizeof(btVector3));
}

// ---- writing bodies ----

void BulletWorld::write(std::span<host::Motion> motions) {
  for (std::size_t i = 0; i < motions.size(); ++i) {
    if (i + ahead < motions.size())
      prefetch(&bodies.body(motions[i + ahead].body)->getLinearVelocity(), 2 * sizeof(btVector3));
    host::Motion& m = motions[i];
    btRigidBody& body = *bodies.body(m.body);
    // In Bullet's own precision: what is finite in ours need not be.
    m.written = can_be_squared(m.v) && can_be_squared(m.turns ? m.w : from_bullet(body.getAngularVelocity()));
    if (!m.written) continue;
    body.setLinearVelocity(to_bullet(m.v));
    if (m.turns) body.setAngularVelocity(to_bullet(m.w));
    if (m.write_pose) write_pose(body.getWorldTransform(), m.start.p, m.start.q);
  }
}

// A body that was swept into something keeps the velocity it got there, as Bullet's own do.
void BulletWorld::replace_velocity(const host::Motion& given, const Vector3d& v, const Vector3d& w) {
  if (!rounded(v).allFinite() || !rounded(w).allFinite()) return;
  const auto change = [](const btVector3& is, const Vector3d& was, const Vector3d& end) -> btVector3 {
    return is == to_bullet(was) ? to_bullet(end) : is + to_bullet(end - was);
  };
  btRigidBody& body = *bodies.body(given.body);
  body.setLinearVelocity(change(body.getLinearVelocity(), given.v, v));
  if (given.turns) body.setAngularVelocity(change(body.getAngularVelocity(), given.w, w));
}

void BulletWorld::move(BodyId id, const Vector3d& p, const Quaterniond& q) {
  btTransform x;
  write_pose(x, p, q);
  bodies.body(id)->proceedToTransform(x);
}

// ---- joints ----

bool BulletWorld::is_enabled(int entry) const {
  const JointBinding& j = joints[entry];
  return j.joint ? j.joint->isEnabled() : solver.entry(entry).enabled;
}

double BulletWorld::breaking_impulse(int entry) const {
  const btScalar threshold = joints[entry].joint->getBreakingImpulseThreshold();
  return threshold < SIMD_INFINITY ? double(threshold) : std::numeric_limits<double>::infinity();
}

// Bullet's one number for a joint is the impulse of its last row: that of a motor or a limit where one is at work, as
// programs read it. For other joints the last row says nothing. The number is then the norm of the force's impulse.
void BulletWorld::report_impulses(std::span<const host::JointImpulse> impulses) {
  for (std::size_t i = 0; i < impulses.size(); ++i) {
    if (i + ahead < impulses.size()) prefetch(joints[impulses[i + ahead].entry].joint, 64);
    const auto& [entry, impulse] = impulses[i];
    const JointBinding& j = joints[entry];
    const bool native = j.native_part && solver.entry(entry).outcome.has_host_rows;
    j.joint->internalSetAppliedImpulse(native ? j.native_part->internalGetAppliedImpulse() : btScalar(impulse));
    JointTable::mark(*j.joint);
  }
}

// Bullet's own report: forces and torques about the centres of mass as a mean over the step, of all that the joint did
// in it, Bullet's own rows included.
void BulletWorld::report_forces(int entry, const Wrench& on_a, const Wrench& on_b) {
  btJointFeedback* const feedback = joints[entry].joint->getJointFeedback();
  if (!feedback) return;
  const host::ConstraintEntry& r = solver.entry(entry);
  const Wrenches native = r.outcome.has_host_rows ? *r.host : Wrenches{};
  feedback->m_appliedForceBodyA = to_bullet(on_a.force + native.on_a.force);
  feedback->m_appliedTorqueBodyA = to_bullet(on_a.moment + native.on_a.moment);
  feedback->m_appliedForceBodyB = to_bullet(on_b.force + native.on_b.force);
  feedback->m_appliedTorqueBodyB = to_bullet(on_b.moment + native.on_b.moment);
}

void BulletWorld::solve_in_host(int entry) {
  const JointBinding& j = joints[entry];
  if (j.native_part) std::erase(native_constraints, static_cast<btTypedConstraint*>(j.native_part.get()));
  if (j.joint) native_constraints.push_back(j.joint);
  for (const auto& p : j.proxies) native_constraints.push_back(p.get());
}

}  // namespace LINCHPIN_BULLET_NAMESPACE
