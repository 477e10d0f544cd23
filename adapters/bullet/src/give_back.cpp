// What Bullet gets back: velocities and start poses of the blocks, joint feedback, broken joints; and what is looked at
// once Bullet has integrated: gaps, sleep, the clock.
#include "engine.h"

#include "bodies.h"
#include "columns.h"
#include "multibody.h"

#include <cmath>
#include <limits>
#include <utility>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

void Engine::after_finish() {
  for (const int index : group_) conclude(*blocks_[z(index)]);
  if (!whole_world_) end_group();
}

void Engine::conclude(BlockSolve& b) {
  const BlockSolve::Tally done = std::exchange(b.tally, {});
  counts_.solves += done.solves;
  counts_.factors += done.factors;
  counts_.newton += done.newton;
  counts_.substepped += done.substepped;
  counts_.substeps += done.substeps;
  counts_.stiffened += done.stiffened;
  counts_.stiffness_work += done.stiffness_work;
  counts_.damped += done.damped;
  counts_.damping_work += done.damping_work;
  counts_.parts += done.parts;
  counts_.parts_refused += done.parts_refused;
  counts_.stepped_down += done.stepped_down;
  if (done.stepped_down > 0) stepped_down_ = b.stepped_down;
  counts_.activation_energy = std::max(counts_.activation_energy, done.activation_energy);
  if (b.with_laws && !b.failed) {
    note_trouble(b);
    note_warnings(*b.dynamics, b.law_trouble, b.standing_told);
  }
  b.law_trouble.clear();
  if (options_.mode == Mode::observe) return;
  if (b.failed) return refuse_non_finite(b);
  b.failures = 0;
  if (!b.in_parts) b.last_length = dt_;
  if (std::max(b.moved, b.turned) > 0 && (b.on_the_way || b.gap_left <= options_.gap_tolerance)) {
    ++counts_.gap_corrections;
    counts_.corrected = std::max(counts_.corrected, b.moved);
    counts_.turned = std::max(counts_.turned, b.turned);
  }
  if (b.away > 0) {
    ++counts_.turned_back;
    if (b.away > counts_.widest) {
      counts_.widest = b.away;
      widest_turned_ = records_[z(b.away_record)].name;
    }
  }
  const bool unmet = b.unmet || (b.gap_left > options_.gap_tolerance && !b.on_the_way);
  if (unmet || b.was_unmet)
    for (const int i : b.records) records_[z(i)].unmet = unmet;
  b.was_unmet = unmet;
  give_back(b);
  if (b.with_laws) {
    order_laws();
    if (!b.in_parts) {
      book_laws(b, state_, dt_, b.v0, b.v);
      b.dynamics->accept(dt_);
    }
    for (const int i : b.records)
      for (int k = 0; k < records_[z(i)].law_count; ++k) law_works_[z(records_[z(i)].first_law + k)].end_step(dt_);
    note_grips(b);
  }
  release_one_sided(b);
  // Work of the impulses with the mean velocity (T11): row by row where rows are all there is, of plain substeps one by
  // one, else with the books.
  b.work_in_books = !b.by_stages && !b.plain_parts && (b.wants_all || b.with_driven || b.follows || b.in_parts);
  if (b.plain_parts) {
    for (std::size_t i = 0; i < b.work.size(); ++i) b.work[i] += b.sub_work[i];
  } else if (!b.by_stages && !b.work_in_books) {
    if (!b.plainly) {  // else e has them
      for (std::size_t j = 0; j < b.v.size(); ++j) b.dv[j] = 0.5 * (b.v0[j] + b.v[j]);
      velocity_of_rows(b, b.dv, b.e);
    }
    for (std::size_t i = 0; i < b.e.size(); ++i) b.work[i] += b.own_lambda[i] * b.e[i];
  }
  constexpr std::size_t ahead = 6;
  for (std::size_t at = 0; at < b.joints.size(); ++at) {
    const BlockSolve::JointRow& j = b.joints[at];
    if (at + ahead < b.joints.size()) prefetch(b.joints[at + ahead].joint, sizeof(btTypedConstraint));
    double square = 0;
    for (int row = j.row; row < j.row + j.count; ++row) square += b.own_lambda[z(row)] * b.own_lambda[z(row)];
    const btScalar impulse = btScalar(std::sqrt(square));
    if (b.plainly && !b.in_turns) {  // no native row of it is at work
      j.joint->internalSetAppliedImpulse(impulse);
      mark(*j.joint);
    } else {
      report_impulse(records_[z(b.records[z(j.index)])], impulse);
    }
  }
  if (b.by_stages ? b.recorded : b.work_in_books || b.wants_all) {
    tell(b);
    give_feedback(b);
  }
  if (b.breaks) break_joints(b);
}

void Engine::note_trouble(BlockSolve& b) {
  if (b.law_trouble.empty()) b.law_trouble = b.dynamics->law_report().trouble;
}

void Engine::note_warnings(const Dynamics& dynamics, std::string_view trouble, StandingTold& told) {
  if (!trouble.empty()) law_warnings_.note(trouble, t_, step_);
  if (std::exchange(told.laws, law_edits_) != law_edits_) told.told = {};
  if (std::exchange(told.told[dynamics.solver().full_row_rank()], true)) return;
  for (const std::string& warning : dynamics.warnings())
    if (warning != dynamics.law_report().trouble) law_warnings_.note_standing(warning, t_);
}

// Those whose multiplier had the wrong sign over the step hold no more from the next on.
void Engine::release_one_sided(BlockSolve& b) {
  if (!b.of_users) return;
  const Block& block = b.block;
  for (std::size_t i = 0; i < b.records.size(); ++i) {
    Record& r = records_[z(b.records[i])];
    if (!r.alive || !r.one_sided.on || r.joint) continue;
    const double push = b.own_lambda[z(block.row[i])];
    if (!((r.one_sided.negative ? -push : push) < 0)) continue;
    r.let_go = true;
    ++counts_.released;
    switch_on(r, false);
  }
}

void Engine::book_laws(BlockSolve& b, const State& at, double dt, std::span<const double> v0,
                       std::span<const double> v1, std::span<double> by_row) {
  order_laws();
  for (const LawEffort& e : b.dynamics->law_efforts()) {
    const Record& r = records_[z(b.records[z(e.constraint)])];
    for (int k = 0; k < r.law_count; ++k) {
      LawWork& to = law_works_[z(r.first_law + k)];
      if (to.law != e.law || to.term != e.term) continue;
      const double work = book_law(system_, *b.dynamics, at, e, dt, v0, v1, to);
      if (!by_row.empty()) by_row[z(b.block.row[z(e.constraint)])] += work;
    }
  }
}

void Engine::end_group() {
  for (btTypedConstraint* c : rest_) mark(*c);  // the native solver has written zeros
  for (const int i : with_native_part_)         // a limit row that broke breaks its joint
    if (Record& r = records_[z(i)]; r.native_part && r.joint && !r.native_part->isEnabled() && r.joint->isEnabled()) {
      r.joint->setEnabled(false);
      r.broken = true;
    }
  group_.clear();
}

// The native solver has no such check: a body that it made non-finite stays where and as fast as it was.
void Engine::refuse_non_finite(BlockSolve& b) {
  for (const ConstraintId c : b.ids)
    for (const BodyId id : system_.constraint(c).bodies()) {
      btRigidBody* body = body_of_[z(id.index)];
      if (!body || system_.dof(id) == 0) continue;
      const BodyState now = read_state(*body);
      if (can_be_squared(now.v) && can_be_squared(now.w) && now.p.allFinite() && now.q.coeffs().allFinite()) continue;
      ++counts_.non_finite;
      body->setLinearVelocity(to_bullet(state_[id].v));
      body->setAngularVelocity(to_bullet(state_[id].w));
      write_pose(body->getWorldTransform(), state_[id].p, state_[id].q);
    }
}

void Engine::give_back(BlockSolve& b) {
  const Block& block = b.block;
  if (b.end_after) b.mean.assign(b.pool.size(), Vector6::Constant(std::numeric_limits<double>::quiet_NaN()));
  constexpr std::size_t ahead = 4;
  for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
    if (slot + ahead < b.pool.size())
      prefetch(&body_of_[z(block.bodies[slot + ahead].index)]->getLinearVelocity(), 2 * sizeof(btVector3));
    const BodyId id = block.bodies[slot];
    btRigidBody& body = *body_of_[z(id.index)];
    const int c = block.column[slot], dof = block.column[slot + 1] - c;
    Vector3d v = head(b.v, c), w = dof == 6 ? head(b.v, c + 3) : from_bullet(body.getAngularVelocity());
    bool write = b.write_pose;
    Quaterniond from;
    if (write) from = base_[id].q;
    if (b.end_after) {
      v = (end_[id].p - base_[id].p) / dt_;
      if (dof == 6) {
        w = turn_between(base_[id].q, end_[id].q) / dt_;
        if (w.norm() * dt_ > 0.78) {  // beyond π/4 per step Bullet does not turn as it says
          from = (host_rotation(w, dt_).conjugate() * end_[id].q).normalized();
          write = true;
        }
      }
    }
    // In Bullet's own precision: what is finite in ours need not be.
    if (!can_be_squared(v) || !can_be_squared(w)) {
      ++counts_.non_finite;
      continue;  // the body keeps what the native solver gave it
    }
    if (b.end_after) b.mean[slot] << v, w;
    body.setLinearVelocity(to_bullet(v));
    if (dof == 6) body.setAngularVelocity(to_bullet(w));
    if (write) write_pose(body.getWorldTransform(), base_[id].p, from);
  }
}

// What the step ends with. A body swept into something keeps it, as Bullet's own do; what an impulse has added since
// the solve stays added.
void Engine::end_velocities() {
  if (!stepped_) return;
  for (const auto& block_solve : blocks_) {
    BlockSolve& b = *block_solve;
    if (b.last_step != step_ || b.failed || !b.end_after) continue;
    const Block& block = b.block;
    for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
      btRigidBody* body = body_of_[z(block.bodies[slot].index)];
      const int c = block.column[slot], dof = block.column[slot + 1] - c;
      const Vector3d v = head(b.v, c), w = dof == 6 ? head(b.v, c + 3) : Vector3d::Zero();
      if (!body || !b.mean[slot].allFinite() || !from_bullet(to_bullet(v)).allFinite() ||
          !from_bullet(to_bullet(w)).allFinite())
        continue;
      const auto change = [](const btVector3& is, const Vector3d& given, const Vector3d& end) -> btVector3 {
        return is == to_bullet(given) ? to_bullet(end) : is + to_bullet(end - given);
      };
      body->setLinearVelocity(change(body->getLinearVelocity(), b.mean[slot].head<3>(), v));
      if (dof == 6) body->setAngularVelocity(change(body->getAngularVelocity(), b.mean[slot].tail<3>(), w));
    }
  }
}

// Bullet's one number for a joint is the impulse of its last row: that of a motor or a limit where one is at work, as
// programs read it. Of one without, where the last row says nothing, it is the norm of the force's impulse.
void Engine::report_impulse(const Record& r, btScalar of_force) {
  const bool native = r.native_part && r.native_seen;
  r.joint->internalSetAppliedImpulse(native ? r.native_part->internalGetAppliedImpulse() : of_force);
  mark(*r.joint);
}

// Bullet's own report: forces and torques about the centres of mass as a mean over the step, of all that the joint did
// in it, native rows included.
void Engine::report_forces(const Record& r, const Wrench& on_a, const Wrench& on_b) {
  btJointFeedback* fb = r.joint->getJointFeedback();
  if (!fb) return;
  const auto with_native = [&](const Wrench& own, const Wrench& native, btVector3& force, btVector3& torque) {
    force = to_bullet(own.force + native.force);
    torque = to_bullet(own.moment + native.moment);
  };
  with_native(on_a, r.native_seen ? r.native->on_a : Wrench{}, fb->m_appliedForceBodyA, fb->m_appliedTorqueBodyA);
  with_native(on_b, r.native_seen ? r.native->on_b : Wrench{}, fb->m_appliedForceBodyB, fb->m_appliedTorqueBodyB);
}

void Engine::give_feedback(BlockSolve& b) {
  for (const BlockSolve::JointRow& j : b.joints) {
    if (!j.joint->getJointFeedback()) continue;
    const Record& r = records_[z(b.records[z(j.index)])];
    const Reaction& reaction = reactions_[z(r.reaction)];
    Wrench on[2];
    for (const int k : {0, 1}) {
      const Vector3d com = state_[system_.constraint(r.id).bodies()[z(k)]].p;
      const Wrench beyond = reaction.stabilisation.on(k).about(com);
      on[k] = reaction.on(k).about(com);
      on[k].force += beyond.force;
      on[k].moment += beyond.moment;
    }
    report_forces(r, on[0], on[1]);
  }
}

// By the multipliers of least norm of all that the joints' exact rows did in the step, of parts their sums: what their
// applied impulses and feedbacks are made of.
void Engine::break_joints(const BlockSolve& b) {
  const std::span<const double> lambda = b.own_lambda;
  for (const BlockSolve::JointRow& j : b.joints)
    break_beyond(records_[z(b.records[z(j.index)])], lambda.subspan(z(j.row), z(b.block.row[z(j.index) + 1] - j.row)));
}

/// @param lambda  of its rows, over the step
void Engine::break_beyond(Record& r, std::span<const double> lambda) {
  const double threshold = double(r.joint->getBreakingImpulseThreshold());
  if (threshold >= double(SIMD_INFINITY)) return;
  double worst = 0;
  std::size_t row = 0;
  for (int k = 0; k < r.points; ++k, row += 3) {
    Vector3d p(lambda[row], lambda[row + 1], lambda[row + 2]);
    if (!r.shape.row_axes_world)
      p = (*r.row_axes).transpose() * (state_[system_.constraint(r.id).bodies()[0]].q.conjugate() * p);
    worst = std::max(worst, p.cwiseAbs().maxCoeff());
  }
  for (; row < lambda.size(); ++row) worst = std::max(worst, std::abs(lambda[row]));
  if (worst < threshold) return;  // per row, as Bullet
  r.joint->setEnabled(false);
  r.broken = true;
}

// A constraint that moves with time moves its bodies: they must not fall asleep, and must wake when it starts again.
void Engine::keep_awake() {
  for (const int i : timed_records_) {
    Record& r = records_[z(i)];
    if (!r.alive || !r.time_dependent || !r.enabled || r.id.index < 0) continue;
    bool wake = r.moves_by_itself;
    if (!wake) {
      for (const btRigidBody* body : r.bodies) wake = wake || (!body->isStaticOrKinematicObject() && !body->isActive());
      if (!wake) continue;
      std::vector<double> A, b, position, velocity;  // only while its bodies sleep
      linearize(r, A, b, position, velocity);
      wake = false;
      for (const auto* residual : {&position, &velocity})
        for (const double x : *residual) wake = wake || std::abs(x) > options_.gap_tolerance;
    }
    if (!wake) continue;
    for (btRigidBody* body : r.bodies)
      if (!body->isStaticOrKinematicObject()) body->activate();
  }
}

// Bullet sends to sleep what is slow for two seconds, a pendulum in mid-air too. What has moved since its timer began
// is not at rest: the timer begins again. Not in contact, where things creep and Bullet's rule is what lets them rest.
void Engine::keep_slow_ones_awake() {
  constexpr double rest_motion = 1e-3;  // [m] and [rad]
  if (!timers_run_ && !others_act()) return rest_poses_.clear();
  rest_poses_.resize(body_of_.size());
  for (const auto& b : blocks_) {
    if (b->last_step != step_ || b->failed || b->in_contact || options_.mode == Mode::observe) continue;
    const std::vector<BodyId>& ids = b->block.bodies;
    for (std::size_t slot = 0; slot < ids.size(); ++slot) {
      btRigidBody* body = body_of_[z(ids[slot].index)];
      if (!body) continue;
      RestPose& rest = rest_poses_[z(ids[slot].index)];
      const bool running = body->getDeactivationTime() > 0;
      const Pose now = running || rest.known ? read_pose(body->getWorldTransform()) : Pose{};
      if (!running) {
        rest.known = false;
        continue;
      }
      if (rest.known && (now.p - rest.p).norm() <= rest_motion && rest.q.angularDistance(now.q) <= rest_motion)
        continue;
      if (rest.known) body->setDeactivationTime(0);
      rest = {true, now.p, now.q};
    }
  }
}

std::span<const BodyState> Engine::states_now(const Constraint& c) {
  states_.resize(c.bodies().size());
  for (std::size_t k = 0; k < states_.size(); ++k) {
    const btRigidBody* body = body_of_[z(c.bodies()[k].index)];
    states_[k] = body ? read_state(*body) : BodyState{};
  }
  return states_;
}

/// Has the gap of a constraint measured at the end of every step.
void Engine::watch_gap(int record) {
  const Record& r = records_[z(record)];
  GapWatch& w = gap_watch_.emplace_back();
  w.a = r.bodies[0];
  w.b = r.bodies.size() > 1 ? r.bodies[1] : nullptr;
  w.record = record;
  w.id = r.id;
  w.first = r.joint && !r.shape.function ? r.primitives : -1;
  w.points = r.points;
  w.axes = r.axes;
  w.dots = r.dots;
  w.oriented = r.oriented;
}

/// Of a joint's exact part, where gaps are measured from: in its old place, if that is large enough.
void Engine::keep_primitives(Record& r, const JointRows& rows) {
  r.points = static_cast<short>(rows.points.size());
  r.axes = static_cast<short>(rows.axes.size());
  r.dots = static_cast<short>(rows.dots.size());
  r.oriented = rows.alignment.of == JointRows::Alignment::Of::orientation;
  const int size = 6 * r.points + 10 * r.axes + 7 * r.dots + 9 * r.oriented;
  if (size > r.primitives_size) {
    gap_numbers_.give(r.primitives, r.primitives_size);
    r.primitives = gap_numbers_.take(size);
    r.primitives_size = size;
  }
  double* to = gap_numbers_.data() + r.primitives;
  const auto keep = [&](const Vector3d& u) { to = std::copy_n(u.data(), 3, to); };
  for (const JointRows::Point& p : rows.points) keep(p.p_AQ), keep(p.p_BQ);
  for (const JointRows::Axis& x : rows.axes) keep(x.u_A), keep(x.p_AQ), keep(x.p_BQ), *to++ = x.d0;
  for (const JointRows::Dot& d : rows.dots) keep(d.u_A), keep(d.w_B), *to++ = d.c;
  const Matrix3d columns = rows.alignment.B * rows.alignment.A.transpose();  // of R_BA, which are the rows of R_AB
  for (int i = 0; r.oriented && i < 3; ++i) keep(columns.col(i));
}

// Straight from Bullet's transforms, in double: the residuals of the primitives P, L and D.
Engine::Gap Engine::gap_of(const GapWatch& w) const {
  const btTransform &a = w.a->getWorldTransform(), &b = w.b->getWorldTransform();
  const Vector3d p_a = from_bullet(a.getOrigin()), p_b = from_bullet(b.getOrigin());
  const auto turned = [](const btTransform& x, const Vector3d& u) {
    const btMatrix3x3& R = x.getBasis();
    const auto along = [&](int i) {
      return double(R[i][0]) * u.x() + double(R[i][1]) * u.y() + double(R[i][2]) * u.z();
    };
    return Vector3d(along(0), along(1), along(2));
  };
  const double* at = gap_numbers_.data() + w.first;
  const auto number = [&] { return *at++; };
  const auto vector = [&] {
    at += 3;
    return Vector3d(at[-3], at[-2], at[-1]);
  };
  Gap gap;
  for (int i = 0; i < w.points; ++i) {
    const Vector3d r_a = turned(a, vector()), r_b = turned(b, vector());
    gap.length = std::max(gap.length, (p_a + r_a - p_b - r_b).norm());
  }
  for (int i = 0; i < w.axes; ++i) {
    const Vector3d u = turned(a, vector()), r_a = turned(a, vector()), r_b = turned(b, vector());
    gap.length = std::max(gap.length, std::abs(u.dot(p_b + r_b - p_a - r_a) - number()));
  }
  for (int i = 0; i < w.dots; ++i) {
    const Vector3d u = turned(a, vector()), v = turned(b, vector());
    gap.angle = std::max(gap.angle, std::abs(u.dot(v) - number()));
  }
  if (w.oriented) {  // the trace of R_AB R_Bᵀ R_A: dots vanish at other poses, too
    double trace = 0;
    for (int i = 0; i < 3; ++i) {
      const Vector3d u = turned(b, vector());
      const btMatrix3x3& R = a.getBasis();
      trace += double(R[0][i]) * u.x() + double(R[1][i]) * u.y() + double(R[2][i]) * u.z();
    }
    if (const double cosine = 0.5 * (trace - 1); cosine < detail::cosine_of_far)
      gap.angle = std::acos(std::max(cosine, -1.0));
  }
  return gap;
}

Engine::Gap Engine::gap_of(Constraint& c) {
  residual_.resize(z(c.function().rows()));
  try {
    c.function().residual(states_now(c), t_, residual_);
  } catch (...) {  // a user's: the next step's solve names it
    return {};
  }
  Gap gap;
  for (std::size_t i = 0; i < residual_.size(); ++i) {
    const RowUnit unit = c.function().unit(static_cast<int>(i));
    double& to = unit == RowUnit::metre ? gap.length : unit == RowUnit::radian ? gap.angle : gap.own;
    to = std::max(to, std::abs(residual_[i]));
  }
  return gap;
}

// Bullet stops a body that is swept into something in mid-step (CCD), and nothing else: the rest of the mechanism would
// go on without it. The whole block stops where that body does, and what its parts' ways were not straight is closed
// by moving.
void Engine::cut_together(BlockSolve& b) {
  const Block& block = b.block;
  double part = 1;  // of the step
  for (std::size_t slot = 0; slot < block.bodies.size(); ++slot) {
    const BodyId id = block.bodies[slot];
    const btRigidBody* body = body_of_[z(id.index)];
    if (!body) return;  // taken out since the solve
    const double threshold = double(body->getCcdSquareMotionThreshold());
    if (threshold == 0) continue;
    pose(b);
    const Vector3d whole =
                       b.end_after ? Vector3d(end_[id].p - base_[id].p) : dt_ * from_bullet(body->getLinearVelocity()),
                   gone = from_bullet(body->getWorldTransform().getOrigin()) - base_[id].p;
    if (!(whole.squaredNorm() > threshold)) continue;
    const double rounding = 64 * double(SIMD_EPSILON) * (1 + base_[id].p.norm()) / whole.norm(),
                 covered = gone.dot(whole) / whole.squaredNorm();
    if (covered < 1 - rounding) part = std::min(part, std::max(covered, 0.0));
  }
  if (part == 1) return;
  for (std::size_t i = 0; i < b.records.size(); ++i)
    if (const Record& r = records_[z(b.records[i])]; !r.alive || r.id != b.ids[i]) return;
  State& now = substep_states_[0]->now;
  copy_block(b, end_, now);
  now.t = t_;
  for (const BodyId id : block.bodies) {
    const BodyState &from = state_[id], &to = end_[id];
    BodyState& at = now[id] = from;
    advance(at, to.p - from.p, turn_between(from.q, to.q), part);
  }
  close_gaps(system_, problem(b), now, options_.newton_tolerance, options_.max_newton);
  for (const BodyId id : block.bodies) {
    btTransform x;
    write_pose(x, now[id].p, now[id].q);
    body_of_[z(id.index)]->proceedToTransform(x);
  }
}

void Engine::measure_gaps() {
  gaps_told_ = false;
  turned_away_ = 0;
  constexpr std::size_t ahead = 4;
  for (std::size_t i = 0; i < gap_watch_.size(); ++i) {
    if (i + ahead < gap_watch_.size() && gap_watch_[i + ahead].first >= 0)
      for (const btRigidBody* body : {gap_watch_[i + ahead].a, gap_watch_[i + ahead].b})
        prefetch(&body->getWorldTransform(), sizeof(btTransform));
    GapWatch& w = gap_watch_[i];
    w.gap = w.first >= 0 ? gap_of(w) : gap_of(system_.constraint(w.id));
    if (w.oriented) note_turned_away(records_[z(w.record)], w.gap.angle > detail::far_turn);
    max_gap_ = std::max(max_gap_, w.gap.length);
    max_angle_ = std::max(max_angle_, w.gap.angle);
  }
}

void Engine::updateAction(btCollisionWorld*, btScalar dt) {
  if (dt > 0 && std::isfinite(dt)) t_ += double(dt);
  teleported_ = false;
  replaced_ = !std::exchange(stepped_, false);
  if (replaced_) {  // the program has put another solver in our place
    past_of_driven_.clear();
    for (int i = 0; i < world_->getNumConstraints(); ++i)  // which writes zeros, too
      if (record_of_.contains(world_->getConstraint(i))) mark(*world_->getConstraint(i));
    return;
  }
  ++counts_.steps;
  if (others_act()) {  // and may have taken joints and bodies away since the solve
    scan_world();
    drop_bodies_gone();
    any_swept_ = true;
    driven_.clear();
    for (std::size_t i = 1; i < body_of_.size(); ++i)
      if (body_of_[i] && body_of_[i]->isKinematicObject()) driven_.push_back(static_cast<int>(i));
  }
  if (watched_structure_ != structure_) watch_joints();
  for (const Still& s : still_) {
    if (!id_of_.contains(s.body)) continue;  // gone
    s.body->proceedToTransform(s.pose);
    s.body->setLinearVelocity(s.v);
    s.body->setAngularVelocity(s.w);
  }
  for (const int i : off_records_) {
    Record& r = records_[z(i)];
    if (reactions_made_) silence(r);
    r.unmet = r.moves_by_itself = false;
  }
  if (any_swept_ && options_.drift_correction && options_.mode == Mode::exact &&
      world_->getDispatchInfo().m_useContinuous)
    for (const auto& b : blocks_)
      if (b->last_step == step_ && !b->failed) cut_together(*b);
  measure_gaps();
  if (multibodies_) multibodies_->after_step();
  for (const int i : with_native_part_) {  // wholly native joints show what Bullet's rows did
    const Record& r = records_[z(i)];
    if (!r.joint || r.id.index >= 0 || r.reaction < 0 || !r.native_seen || options_.mode != Mode::exact) continue;
    make_reactions();
    Reaction& reaction = reactions_[z(r.reaction)];
    const auto on = [&](const Wrench& w, const btRigidBody& body) {
      return Wrench{w.force, w.moment,
                    from_bullet(body.getCenterOfMassPosition()) - double(dt) * from_bullet(body.getLinearVelocity())};
    };
    reaction.t = t_ - double(dt);
    reaction.on_a = on(r.native->on_a, r.joint->getRigidBodyA());
    reaction.on_b = on(r.native->on_b, r.joint->getRigidBodyB());
  }
  for (const auto& b : blocks_)  // functions with a memory remember where the step ended
    if (b->last_step == step_ && !b->failed && b->remembers)
      for (std::size_t i = 0; i < b->ids.size(); ++i)
        if (const Record& r = records_[z(b->records[i])]; r.alive && r.id == b->ids[i])
          system_.constraint(r.id).function().accept(states_now(system_.constraint(r.id)), t_);
  for (const int i : driven_) {
    if (!body_of_[z(i)]) continue;
    const BodyState now = read_state(*body_of_[z(i)]);
    past_of_driven_[i] = {now.v, driven_spin(system_.body_at(i), now), now.q};
  }
  keep_awake();
  keep_slow_ones_awake();
  if (tells_native()) compare_with_native();
  if (const auto callback = callback_) (*callback)(Step{t_, double(dt), owner_});
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
