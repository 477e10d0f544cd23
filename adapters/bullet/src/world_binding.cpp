#include "world_binding.h"

#include "bodies.h"
#include "multibody.h"
#include "prefetch.h"
#include "world_peek.h"

#include <linchpin/detail/gyroscopic.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {

std::size_t z(int i) { return static_cast<std::size_t>(i); }

host::Options host_options(const Options& o) {
  const bool single = sizeof(btScalar) == 4;
  const auto given = [](double x, double otherwise) { return x > 0 ? x : otherwise; };
  return {.mode = o.mode,
          .stepping = o.stepping,
          .rank_tolerance = given(o.rank_tolerance, single ? 1e-5 : 1e-6),
          .newton_tolerance = given(o.newton_tolerance, single ? 1e-10 : 1e-15),
          .gap_tolerance = given(o.gap_tolerance, single ? 1e-5 : 1e-9),
          .tolerance = given(o.tolerance, single ? 1e-6 : 1e-9),
          .swing_limit = o.swing_limit,
          .max_newton = o.max_newton,
          .max_substeps = o.max_substeps,
          .threads = o.threads,
          .geometric_stiffness = o.geometric_stiffness,
          .drift_correction = o.drift_correction};
}

/// The options that a program reads: zeros are replaced by what they stand for.
Options complete(Options o) {
  const host::Options host = host_options(o);
  o.rank_tolerance = host.rank_tolerance;
  o.newton_tolerance = host.newton_tolerance;
  o.gap_tolerance = host.gap_tolerance;
  o.tolerance = host.tolerance;
  return o;
}

}  // namespace

WorldBinding::WorldBinding(Solver& owner, const Options& options)
    : owner_(owner),
      options_(complete(options)),
      solver_(*this, host_options(options)),
      bodies_(solver_, options.mode == Mode::exact,
              {[this](const btRigidBody& body) { return joints_.names(body); },
               [this](const btRigidBody& body) { joints_.forget_classification(body); }}),
      joints_(solver_, bodies_),
      rows_(solver_, bodies_, joints_),
      groups_(bodies_, joints_),
      comparison_(solver_, bodies_, joints_) {}

// A solver injected at construction may outlive its world. Without an island manager of ours nobody knows whether it
// did.
WorldBinding::~WorldBinding() {
  if (native_ || islands_) uninstall();
}

// ---- a step ----

void WorldBinding::begin_step() {
  solver_.prepare_step();
  if (!world_) return;
  stepped_ = true;
  joints_.forget_past_proxies();
  joints_.scan();
  still_.clear();
  watch_bodies();
  solver_.switch_unilateral();
  joints_.watch();
  while (bodies_.has_new()) {  // a joint that is classified again may name a new body
    watch_bodies();
    joints_.watch();
  }
  groups_.expect_timers();
  if (islands_) islands_->exchange_split();
  // Bullet's own island pass where nothing is exact, with its order of islands, and bits; but not from several threads.
  groups_.take_islands(options_.mode == Mode::exact && base_name_ == "sequential impulse" &&
                       (solver_.has_exact_constraints() || threads_));
  solver_.begin_step();
  if (multibodies_) multibodies_->begin_step();
  solver_.release_places([this](int entry) {
    if (multibodies_ && multibodies_->is_stock(entry)) return false;
    joints_.forget_numbers(entry);
    return true;
  });
}

void WorldBinding::watch_bodies() {
  std::vector<const btRigidBody*> changed;
  const bool any = bodies_.watch(changed);
  joints_.note_changed_bodies(changed);
  if (!any) return;
  solver_.structure_changed();
  joints_.lock_axes();
}

WorldGroup& WorldBinding::gather_awake(btCollisionObject** bodies, int nb, btPersistentManifold** manifolds, int nm,
                                       btTypedConstraint** constraints, int nc, btDispatcher* dispatcher) {
  return groups_.gather(bodies, nb, manifolds, nm, constraints, nc, dispatcher, solver_.structure());
}

void WorldBinding::begin_group(btTypedConstraint** constraints, int count, const btContactSolverInfo& info) {
  max_gyroscopic_force_ = double(info.m_maxGyroscopicForce);
  const bool same = takes_islands() && grouped_structure_ == solver_.structure() &&
                    last_constraints_.size() == z(count) &&
                    std::equal(last_constraints_.begin(), last_constraints_.end(), constraints);
  if (!same) list_group(constraints, count);
  native_constraints_.clear();
  for (const auto& [constraint, entry] : stays_native_) {
    if (entry >= 0) {
      const btTypedConstraint& joint = *joints_[entry].joint;
      constraint->setBreakingImpulseThreshold(joint.getBreakingImpulseThreshold());
      constraint->setOverrideNumSolverIterations(joint.getOverrideNumSolverIterations());
      constraint->setEnabled(true);
    }
    native_constraints_.push_back(constraint);
  }
  const double dt = double(info.m_timeStep);
  if (dt > 0 && std::isfinite(dt)) return solver_.begin_islands(dt);
  char length[32];
  std::snprintf(length, sizeof length, "%g", dt);
  for (const BodyId id : solver_.leave_out_islands(
           dt, "a step of " + std::string(length) + " s: what is under exact constraints stood still in it")) {
    btRigidBody* const body = bodies_.body(id);
    still_.push_back({body, body->getWorldTransform(), body->getLinearVelocity(), body->getAngularVelocity()});
  }
}

// Finds which constraints of a group are exact, and which Bullet solves. The user's own are named by whichever of their
// proxies is awake.
void WorldBinding::list_group(btTypedConstraint** constraints, int count) {
  std::vector<int> exact_entries;
  stays_native_.clear();
  for (int i = 0; i < count; ++i) {
    btTypedConstraint* const c = constraints[i];
    const int entry = world_ ? joints_.find(c) : -1;
    if (entry < 0) {
      stays_native_.push_back({c, -1});
      continue;
    }
    const host::ConstraintEntry& r = solver_.entry(entry);
    const JointBinding& j = joints_[entry];
    const bool exact = r.alive && r.id.index >= 0 && c->isEnabled();
    if (exact && !(multibodies_ && multibodies_->trees().holds(entry))) exact_entries.push_back(entry);
    if (!exact || options_.mode == Mode::observe)
      stays_native_.push_back({c, -1});
    else if (j.native_part)
      stays_native_.push_back({j.native_part.get(), entry});
  }
  solver_.build_islands(exact_entries);
  last_constraints_.assign(constraints, constraints + count);
  grouped_structure_ = solver_.structure();
}

void WorldBinding::solve_separate(WorldGroup& g) {
  const auto bodies = solver_.separate_islands(groups_.find_touched(native_constraints_));
  if (!bodies.empty()) solver_.note_detached(groups_.take_out(bodies));
  for (const BodyId id : solver_.solve_separate(g.manifolds.empty() && native_constraints_.empty()))
    g.bodies.push_back(bodies_.body(id));
}

void WorldBinding::write_separate() {
  solver_.write_separate();
  end_group();
}

void WorldBinding::write_group() {
  solver_.write_group();
  if (!takes_islands()) end_group();
}

void WorldBinding::end_group() {
  for (btTypedConstraint* c : native_constraints_) JointTable::mark(*c);  // the native solver has written zeros
  for (const int i : solver_.entries_with_host_rows()) {                  // a limit row that broke breaks its joint
    const JointBinding& j = joints_[i];
    if (!j.native_part || !j.joint || j.native_part->isEnabled() || !j.joint->isEnabled()) continue;
    break_joint(i);
    solver_.entry(i).outcome.broken = true;
  }
  solver_.end_group();
}

void WorldBinding::end_solve() {
  groups_.give_islands_back();
  if (multibodies_) multibodies_->finish();
}

// Contacts remember impulses between bodies that their joints held exactly, which may be any number of times what stops
// the bodies alone: native rows begin without them.
void WorldBinding::forget_contacts_of_failed(btPersistentManifold** manifolds, int count) const {
  const auto failed = [&](const btCollisionObject* object) {
    const auto entries = solver_.entries_left_to_host();
    return !object->isStaticOrKinematicObject() && std::any_of(entries.begin(), entries.end(), [&](int entry) {
      const auto& bodies = joints_[entry].bodies;
      return std::find(bodies.begin(), bodies.end(), object) != bodies.end();
    });
  };
  for (int i = 0; i < count; ++i) {
    if (!failed(manifolds[i]->getBody0()) && !failed(manifolds[i]->getBody1())) continue;
    for (int k = 0; k < manifolds[i]->getNumContacts(); ++k) {
      btManifoldPoint& point = manifolds[i]->getContactPoint(k);
      point.m_appliedImpulse = point.m_appliedImpulseLateral1 = point.m_appliedImpulseLateral2 = 0;
    }
  }
}

// Whether actions beside ours may change the world after a step's solve.
bool WorldBinding::others_act() const {
  const int ours = options_.stepping == Stepping::semi_implicit || options_.mode == Mode::observe ? 1 : 2;
  return WorldPeek::actions(*world_).size() > ours;
}

void WorldBinding::updateAction(btCollisionWorld*, btScalar dt) {
  replaced_ = !std::exchange(stepped_, false);
  if (replaced_) {  // the program has put another solver in our place, which writes zeros into joints
    solver_.skip_step(double(dt));
    return joints_.mark_all();
  }
  const bool others = others_act();
  if (others) {  // they may have taken joints and bodies away since the solve
    joints_.scan();
    bodies_.drop_gone();
    bodies_.find_kinematic();
  }
  if (!joints_.lists_are_current()) joints_.watch();
  put_back_still();
  solver_.end_step({.dt = double(dt),
                    .may_stop_bodies = (others || bodies_.any_swept()) && world_->getDispatchInfo().m_useContinuous,
                    .timers_run = groups_.timers_run() || others,
                    .kinematic = bodies_.kinematic()});
  show_native_reactions(double(dt));
  if (compares()) comparison_.compare();
  if (const auto callback = callback_) (*callback)(Step{solver_.t(), double(dt), owner_});
}

void WorldBinding::put_back_still() {
  for (const Still& s : still_) {
    if (bodies_.find(*s.body) < 0) continue;  // gone
    s.body->proceedToTransform(s.pose);
    s.body->setLinearVelocity(s.v);
    s.body->setAngularVelocity(s.w);
  }
}

// Reactions of joints that Bullet solves as a whole are what its rows did.
void WorldBinding::show_native_reactions(double dt) {
  if (options_.mode != Mode::exact) return;
  for (const int i : solver_.entries_with_host_rows()) {
    const host::ConstraintEntry& r = solver_.entry(i);
    const JointBinding& j = joints_[i];
    if (!j.joint || r.id.index >= 0 || r.reaction < 0 || !r.outcome.has_host_rows) continue;
    const auto on = [&](const Wrench& w, const btRigidBody& body) {
      return Wrench{w.force, w.moment,
                    from_bullet(body.getCenterOfMassPosition()) - dt * from_bullet(body.getLinearVelocity())};
    };
    solver_.make_reactions();
    Reaction& reaction = solver_.reactions()[z(r.reaction)];
    reaction.t = solver_.t() - dt;
    reaction.on_a = on(r.host->on_a, j.joint->getRigidBodyA());
    reaction.on_b = on(r.host->on_b, j.joint->getRigidBodyB());
  }
}

// ---- reading bodies ----

void WorldBinding::read(BodyId id, BodyState& out) const {
  if (const btRigidBody* body = bodies_.body(id)) read_state(*body, out);
}

void WorldBinding::read_forces(BodyId id, host::Load& load, host::GyroscopicRule& rule) const {
  const btRigidBody& body = *bodies_.body(id);
  load = {from_bullet(body.getTotalForce()), from_bullet(body.getTotalTorque())};
  const int kind = body.getFlags() & gyroscopic_flags;
  rule = kind == 0                                          ? host::GyroscopicRule::none
         : kind == BT_ENABLE_GYROSCOPIC_FORCE_IMPLICIT_BODY ? host::GyroscopicRule::implicit_body
                                                            : host::GyroscopicRule::host;
}

void WorldBinding::read_frame(BodyId id, Vector3d& p, Matrix3d& R) const {
  const btRigidBody* const body = bodies_.body(id);
  const btTransform& x = (body ? *body : btTypedConstraint::getFixedBody()).getWorldTransform();
  p = from_bullet(x.getOrigin());
  for (int i = 0; i < 3; ++i)
    for (int k = 0; k < 3; ++k) R(i, k) = double(x.getBasis()[i][k]);
}

int WorldBinding::row_body(BodyId id) const { return rows_.row_body(*bodies_.body(id)); }

Quaterniond WorldBinding::rotation(const Vector3d& w, double dt) const { return host_rotation(w, dt); }

Vector3d WorldBinding::gyroscopic_change(BodyId id, const Matrix3d& R) const {
  const btRigidBody& body = *bodies_.body(id);
  const int flags = body.getFlags();
  const double dt = solver_.dt();
  const btScalar h = btScalar(dt);
  Vector3d change = Vector3d::Zero();
  if (flags & BT_ENABLE_GYROSCOPIC_FORCE_EXPLICIT)
    change -= R.transpose() * from_bullet(body.computeGyroscopicForceExplicit(btScalar(max_gyroscopic_force_)) *
                                          body.getInvInertiaTensorWorld() * h);
  if (flags & BT_ENABLE_GYROSCOPIC_FORCE_IMPLICIT_WORLD)
    change += R.transpose() * from_bullet(body.computeGyroscopicImpulseImplicit_World(h));
  if (flags & BT_ENABLE_GYROSCOPIC_FORCE_IMPLICIT_BODY) {
    const Vector3d I = read_inertia(body), u = R.transpose() * solver_.start_state(id).w, L = I.cwiseProduct(u);
    change -= linchpin::detail::solve_gyroscopic(I, u, L, dt, dt * u.cross(L));
  }
  return change;
}

double WorldBinding::swept_motion(BodyId id) const { return double(bodies_.body(id)->getCcdSquareMotionThreshold()); }
bool WorldBinding::is_awake(BodyId id) const { return bodies_.body(id)->isActive(); }
void WorldBinding::wake(BodyId id) {
  if (!world_) return;  // bodies may be gone with it
  btRigidBody* const body = bodies_.body(id);
  if (!body->isStaticOrKinematicObject()) body->activate();
}
bool WorldBinding::may_fall_asleep(BodyId id) const {
  if (!world_ || !bodies_.is_at_its_place(id)) return false;
  const int state = bodies_.body(id)->getActivationState();
  return state == WANTS_DEACTIVATION || state == ISLAND_SLEEPING;
}
double WorldBinding::rest_time(BodyId id) const { return double(bodies_.body(id)->getDeactivationTime()); }
void WorldBinding::restart_rest_timer(BodyId id) { bodies_.body(id)->setDeactivationTime(0); }

// ---- writing bodies ----

void WorldBinding::write(std::span<host::Motion> motions) {
  constexpr std::size_t ahead = 4;
  for (std::size_t i = 0; i < motions.size(); ++i) {
    if (i + ahead < motions.size())
      prefetch(&bodies_.body(motions[i + ahead].body)->getLinearVelocity(), 2 * sizeof(btVector3));
    host::Motion& m = motions[i];
    btRigidBody& body = *bodies_.body(m.body);
    // In Bullet's own precision: what is finite in ours need not be.
    m.written = can_be_squared(m.v) && can_be_squared(m.turns ? m.w : from_bullet(body.getAngularVelocity()));
    if (!m.written) continue;
    body.setLinearVelocity(to_bullet(m.v));
    if (m.turns) body.setAngularVelocity(to_bullet(m.w));
    if (m.write_pose) write_pose(body.getWorldTransform(), m.start.p, m.start.q);
  }
}

// A body that was swept into something keeps the velocity it got there, as Bullet's own do.
void WorldBinding::replace_velocity(const host::Motion& given, const Vector3d& v, const Vector3d& w) {
  if (!from_bullet(to_bullet(v)).allFinite() || !from_bullet(to_bullet(w)).allFinite()) return;
  const auto change = [](const btVector3& is, const Vector3d& was, const Vector3d& end) -> btVector3 {
    return is == to_bullet(was) ? to_bullet(end) : is + to_bullet(end - was);
  };
  btRigidBody& body = *bodies_.body(given.body);
  body.setLinearVelocity(change(body.getLinearVelocity(), given.v, v));
  if (given.turns) body.setAngularVelocity(change(body.getAngularVelocity(), given.w, w));
}

void WorldBinding::move(BodyId id, const Vector3d& p, const Quaterniond& q) {
  btTransform x;
  write_pose(x, p, q);
  bodies_.body(id)->proceedToTransform(x);
}

bool WorldBinding::restore_finite(BodyId id, const BodyState& was) {
  btRigidBody& body = *bodies_.body(id);
  const BodyState now = read_state(body);
  if (can_be_squared(now.v) && can_be_squared(now.w) && now.p.allFinite() && now.q.coeffs().allFinite()) return false;
  body.setLinearVelocity(to_bullet(was.v));
  body.setAngularVelocity(to_bullet(was.w));
  write_pose(body.getWorldTransform(), was.p, was.q);
  return true;
}

// ---- joints ----

bool WorldBinding::is_enabled(int entry) const {
  const JointBinding& j = joints_[entry];
  return j.joint ? j.joint->isEnabled() : solver_.entry(entry).enabled;
}
bool WorldBinding::wants_forces(int entry) const { return joints_[entry].joint->getJointFeedback() != nullptr; }

double WorldBinding::breaking_impulse(int entry) const {
  const btScalar threshold = joints_[entry].joint->getBreakingImpulseThreshold();
  return threshold < SIMD_INFINITY ? double(threshold) : std::numeric_limits<double>::infinity();
}
void WorldBinding::break_joint(int entry) { joints_[entry].joint->setEnabled(false); }

void WorldBinding::report_impulses(std::span<const host::JointImpulse> impulses, bool alone) {
  constexpr std::size_t ahead = 6;
  for (std::size_t i = 0; i < impulses.size(); ++i) {
    if (i + ahead < impulses.size()) prefetch(joints_[impulses[i + ahead].entry].joint, sizeof(btTypedConstraint));
    const btScalar impulse = btScalar(impulses[i].impulse);
    if (!alone) {
      report_impulse(impulses[i].entry, impulse);
      continue;
    }
    btTypedConstraint& joint = *joints_[impulses[i].entry].joint;
    joint.internalSetAppliedImpulse(impulse);
    JointTable::mark(joint);
  }
}

// Bullet's one number for a joint is the impulse of its last row: that of a motor or a limit where one is at work, as
// programs read it. Of a joint without, where the last row says nothing, it is the norm of the force's impulse.
void WorldBinding::report_impulse(int entry, btScalar of_force) {
  const JointBinding& j = joints_[entry];
  const bool native = j.native_part && solver_.entry(entry).outcome.has_host_rows;
  j.joint->internalSetAppliedImpulse(native ? j.native_part->internalGetAppliedImpulse() : of_force);
  JointTable::mark(*j.joint);
}

// Bullet's own report: forces and torques about the centres of mass as a mean over the step, of all that the joint did
// in it, native rows included.
void WorldBinding::report_forces(int entry, const Wrench& on_a, const Wrench& on_b) {
  btJointFeedback* const feedback = joints_[entry].joint->getJointFeedback();
  if (!feedback) return;
  const host::ConstraintEntry& r = solver_.entry(entry);
  const Wrench none{};
  const auto write = [](const Wrench& own, const Wrench& native, btVector3& force, btVector3& torque) {
    force = to_bullet(own.force + native.force);
    torque = to_bullet(own.moment + native.moment);
  };
  const bool native = r.outcome.has_host_rows;
  write(on_a, native ? r.host->on_a : none, feedback->m_appliedForceBodyA, feedback->m_appliedTorqueBodyA);
  write(on_b, native ? r.host->on_b : none, feedback->m_appliedForceBodyB, feedback->m_appliedTorqueBodyB);
}

void WorldBinding::solve_in_host(int entry) {
  const JointBinding& j = joints_[entry];
  if (j.native_part) std::erase(native_constraints_, static_cast<btTypedConstraint*>(j.native_part.get()));
  if (j.joint) native_constraints_.push_back(j.joint);
  for (const auto& p : j.proxies) native_constraints_.push_back(p.get());
}

// ---- for the facade ----

bool WorldBinding::is_there(int entry) {
  if (solver_.entry(entry).alive && joints_[entry].joint && world_) joints_.scan();
  return solver_.entry(entry).alive;
}

bool WorldBinding::is_stale(int entry, unsigned version) const {
  const host::ConstraintEntry& r = solver_.entry(entry);
  return r.version != version || !r.alive;
}

void WorldBinding::remove_by_user(int entry) {
  if (!is_there(entry)) return;
  const JointBinding& j = joints_[entry];
  if (!j.joint &&
      !(solver_.entry(entry).is_on_links() && j.proxies.empty() && multibodies_ && multibodies_->give_back(entry)))
    return joints_.remove(entry);
  solver_.update_reports();
  if (!j.joint) return joints_.order_reactions();
  if (world_) joints_.give_back(entry);
}

void WorldBinding::forget(btRigidBody& body) {
  solver_.update_reports();
  for (int i = 0; i < solver_.entry_count(); ++i) {
    const auto& bodies = joints_[i].bodies;
    if (solver_.entry(i).alive && !joints_[i].joint && std::find(bodies.begin(), bodies.end(), &body) != bodies.end())
      joints_.remove(i);
  }
  if (bodies_.find(body) < 0) return;
  bodies_.forget(body);
  solver_.forget_islands();
}

void WorldBinding::reset() {
  solver_.reset();
  replaced_ = false;
  if (world_) joints_.classify_anew();
  if (multibodies_) multibodies_->reset();
}

std::shared_ptr<const BindingPast> WorldBinding::history() {
  if (world_) joints_.scan();
  auto out = std::make_shared<BindingPast>();
  out->solver = solver_.history();
  out->replaced = replaced_;
  for (int i = 0; i < solver_.entry_count(); ++i)
    if (solver_.entry(i).alive && joints_[i].joint) out->given_back.emplace_back(i, joints_[i].given_back);
  return out;
}

std::string WorldBinding::restore(const BindingPast& past) {
  if (world_) joints_.scan();
  if (std::string why = solver_.why_not_restored(*past.solver); !why.empty()) return why;
  if (!world_) return std::string("linchpin: restore: ") + why_no_world();
  solver_.forget_unreported_gaps();
  for (const auto& [entry, given_back] :
       past.given_back) {  // joints that the program has set back are as they were then
    JointBinding& j = joints_[entry];
    if (j.given_back != given_back || !joints_.is_unchanged(entry)) j.is_classified = false;
    j.given_back = given_back;
    joints_.classify(entry);
  }
  joints_.order_reactions();
  solver_.restore(*past.solver);
  last_constraints_.clear();
  replaced_ = past.replaced;
  return {};
}

std::string WorldBinding::summary() {
  if (!world_) return world_ended_ ? "linchpin: the world has been destroyed\n" : "linchpin: not attached to a world\n";
  joints_.scan();
  std::string head = std::string("linchpin in Bullet (") + (sizeof(btScalar) == 4 ? "single" : "double") +
                     " precision, native part: " + base_name_ + ")";
  if (options_.mode == Mode::observe) head += ", observing";
  return head + solver_.summary(replaced_
                                    ? "\n  another constraint solver has solved the last step: gaps and forces are "
                                      "of the last one of ours"
                                    : "",
                                energy());
}

std::vector<Solver::Finding> WorldBinding::check() {
  if (!world_) return {{"", world_ended_ ? "the world has been destroyed" : "the solver is not attached to a world"}};
  joints_.scan();
  bodies_.drop_gone();
  joints_.classify_all();
  if (multibodies_) multibodies_->scan();
  return solver_.check();
}

double WorldBinding::energy() const {
  if (!world_) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  const btCollisionObjectArray& all = world_->getCollisionObjectArray();
  for (int i = 0; i < all.size(); ++i) {
    const btRigidBody* body = btRigidBody::upcast(all[i]);
    if (!body || body->isStaticOrKinematicObject() || body->getInvMass() == 0) continue;
    const BodyState s = read_state(*body);
    const double mass = 1 / double(body->getInvMass());
    sum += 0.5 * mass * s.v.squaredNorm() - mass * from_bullet(body->getGravity()).dot(s.p);
    const Vector3d w = s.q.conjugate() * s.w;
    for (int k = 0; k < 3; ++k) {
      const double inv = double(body->getInvInertiaDiagLocal()[k]);
      if (inv > 0) sum += 0.5 * w[k] * w[k] / inv;
    }
  }
  if (multibodies_) sum += multibodies_->energy();
  return sum;
}

void WorldBinding::set_callback(std::function<void(const Step&)> callback) {
  callback_ = callback ? std::make_shared<const std::function<void(const Step&)>>(std::move(callback)) : nullptr;
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
