// What Bullet gets back: velocities and start poses of the blocks, joint feedback, broken joints; and what is looked at
// once Bullet has integrated: gaps, sleep, the clock.
#include "engine.h"

#include "bodies.h"
#include "columns.h"

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

void Engine::after_finish() {
  for (const int index : group_) {
    BlockSolve& b = *blocks_[z(index)];
    if (options_.mode == Mode::observe) continue;
    if (b.failed) {
      refuse_non_finite(b);
      continue;
    }
    if (b.substeps == 1) b.last_length = dt_;
    if (b.moved > 0 && b.gap_left <= options_.gap_tolerance) {
      ++counts_.gap_corrections;
      counts_.corrected = std::max(counts_.corrected, b.moved);
    }
    for (const int i : b.records) records_[z(i)].unmet = b.unmet || b.gap_left > options_.gap_tolerance;
    keep_books(b);
    give_back(b);
    break_joints(b);
  }
  for (const auto& [pointer, index] : record_of_) {  // a limit row that broke breaks its joint
    Record& r = records_[z(index)];
    if (r.native_part && r.joint && pointer == r.native_part.get() && !r.native_part->isEnabled() &&
        r.joint->isEnabled()) {
      r.joint->setEnabled(false);
      r.broken = true;
    }
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
      if (now.v.allFinite() && now.w.allFinite() && now.p.allFinite() && now.q.coeffs().allFinite()) continue;
      ++counts_.non_finite;
      body->setLinearVelocity(to_bullet(state_[id].v));
      body->setAngularVelocity(to_bullet(state_[id].w));
      write_pose(body->getWorldTransform(), state_[id].p, state_[id].q);
    }
}

void Engine::give_back(BlockSolve& b) {
  const Block& block = b.dynamics->assembly().block;
  for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
    btRigidBody& body = *b.bodies[slot];
    const BodyId id = block.bodies[slot];
    const int c = block.column[slot], dof = block.column[slot + 1] - c;
    const Vector3d v = head(b.v, c), w = dof == 6 ? head(b.v, c + 3) : from_bullet(body.getAngularVelocity());
    if (!v.allFinite() || !w.allFinite()) {
      ++counts_.non_finite;
      continue;  // the body keeps what the native solver gave it
    }
    body.setLinearVelocity(to_bullet(v));
    if (dof == 6) body.setAngularVelocity(to_bullet(w));
    if (b.write_pose) write_pose(body.getWorldTransform(), base_[id].p, base_[id].q);
    BodyBooks& books = books_[z(book_of_[z(id.index)])];
    books.rounding.head<3>() = system_.mass(id) * (from_bullet(body.getLinearVelocity()) - v);
    if (dof == 6)
      books.rounding.tail<3>() = system_.world_inertia(id, state_[id].q) * (from_bullet(body.getAngularVelocity()) - w);
  }
}

void Engine::break_joints(BlockSolve& b) {
  bool any = false;
  for (const int index : b.records)
    any = any || (records_[z(index)].joint && records_[z(index)].joint->getBreakingImpulseThreshold() < SIMD_INFINITY);
  for (std::size_t i = 0; i < b.records.size(); ++i) {
    Record& r = records_[z(b.records[i])];
    if (!r.joint) continue;
    const Reaction& reaction = reactions_[z(r.reaction)];
    // Bullet's own reports: feedback as forces and torques about the centres of mass, native rows included; applied
    // impulse as the norm of the force's impulse, not as the last row's.
    const auto total = [&](int k) {
      const Vector3d com = state_[system_.constraint(r.id).bodies()[z(k)]].p;
      Wrench w = reaction.on(k).about(com);
      if (r.native_seen) {
        w.force += r.native.on(k).force;
        w.moment += r.native.on(k).moment;
      }
      return w;
    };
    const Wrench on_a = total(0), on_b = total(1);
    if (btJointFeedback* fb = r.joint->getJointFeedback()) {
      fb->m_appliedForceBodyA = to_bullet(on_a.force);
      fb->m_appliedTorqueBodyA = to_bullet(on_a.moment);
      fb->m_appliedForceBodyB = to_bullet(on_b.force);
      fb->m_appliedTorqueBodyB = to_bullet(on_b.moment);
    }
    r.joint->internalSetAppliedImpulse(btScalar(on_a.force.norm() * dt_));
  }
  if (!any || b.substeps > 1) return;  // after substeps the factor is another pose's: breaking waits for the next step
  // Least-norm multipliers of the whole impulse: λ = G⁺A M⁻¹(AᵀL); Newton's raw sum carries null-space noise (T12).
  const Block& block = b.dynamics->assembly().block;
  for (std::size_t j = 0; j < b.force.size(); ++j)
    b.force[j] +=
        dt_ * (b.dynamics->ideal()[j] + b.dynamics->nonideal()[j]) - dt_ * b.dynamics->assembly().instant.c[j];
  b.dynamics->solver().inverse_mass(b.force, b.dv);
  velocity_of_rows(b, b.dv, b.e);
  b.dynamics->solver().apply(b.e, b.lambda, {}, {});
  for (std::size_t i = 0; i < b.records.size(); ++i) {
    Record& r = records_[z(b.records[i])];
    if (!r.joint) continue;
    const double threshold = double(r.joint->getBreakingImpulseThreshold());
    if (threshold >= double(SIMD_INFINITY)) continue;
    double worst = 0;
    int row = block.row[i];
    for (std::size_t k = 0; k < r.shape.rows.points.size(); ++k, row += 3) {
      Vector3d p(b.lambda[z(row)], b.lambda[z(row + 1)], b.lambda[z(row + 2)]);
      if (!r.shape.row_axes_world)
        p = r.shape.row_axes_A.transpose() * (state_[system_.constraint(r.id).bodies()[0]].q.conjugate() * p);
      worst = std::max(worst, p.cwiseAbs().maxCoeff());
    }
    for (; row < block.row[i + 1]; ++row) worst = std::max(worst, std::abs(b.lambda[z(row)]));
    if (worst >= threshold) {  // per row, as Bullet
      r.joint->setEnabled(false);
      r.broken = true;
    }
  }
}

// A constraint that moves with time moves its bodies: they must not fall asleep, and must wake when it starts again.
void Engine::keep_awake() {
  for (Record& r : records_) {
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

std::span<const BodyState> Engine::states_now(const Constraint& c) {
  states_.resize(c.bodies().size());
  for (std::size_t k = 0; k < states_.size(); ++k) {
    const btRigidBody* body = body_of_[z(c.bodies()[k].index)];
    states_[k] = body ? read_state(*body) : BodyState{};
  }
  return states_;
}

void Engine::measure_gap(Record& r) {
  Constraint& c = system_.constraint(r.id);
  Reaction& reaction = reactions_[z(r.reaction)];
  residual_.resize(z(c.function().rows()));
  c.function().residual(states_now(c), t_, residual_);
  reaction.gap = reaction.gap_angle = reaction.residual = 0;
  for (std::size_t i = 0; i < residual_.size(); ++i) {
    const RowUnit unit = c.function().unit(static_cast<int>(i));
    double& to = unit == RowUnit::metre    ? reaction.gap
                 : unit == RowUnit::radian ? reaction.gap_angle
                                           : reaction.residual;
    to = std::max(to, std::abs(residual_[i]));
  }
  if (r.joint && r.shape.rows.points.size() == 1) reaction.gap = std::hypot(residual_[0], residual_[1], residual_[2]);
  last_gap_ = std::max(last_gap_, reaction.gap);
  max_angle_ = std::max(max_angle_, reaction.gap_angle);
}

void Engine::updateAction(btCollisionWorld*, btScalar dt) {
  t_ += double(dt);
  ++counts_.steps;
  last_gap_ = 0;
  for (Record& r : records_)  // what is switched off or broken carries nothing
    if (r.alive && r.reaction >= 0 && !(r.joint ? r.joint->isEnabled() : r.enabled)) {
      Reaction& reaction = reactions_[z(r.reaction)];
      for (Wrenches* part : {static_cast<Wrenches*>(&reaction), &reaction.ideal, &reaction.prescribed,
                             &reaction.induced, &reaction.stabilisation})
        for (int k = 0; k < static_cast<int>(r.bodies.size()); ++k)
          part->on(k).force = part->on(k).moment = Vector3d::Zero();
      std::fill(reaction.lambda.begin(), reaction.lambda.end(), 0.0);
      reaction.power = reaction.gap = reaction.gap_angle = reaction.residual = reaction.velocity_residual = 0;
      reaction.t = t_;
      r.unmet = r.moves_by_itself = false;
    }
  for (Record& r : records_)
    if (r.alive && r.id.index >= 0 && r.reaction >= 0 && (r.joint ? r.joint->isEnabled() : r.enabled) &&
        system_.constraint(r.id).function().level() == Level::position)
      measure_gap(r);
  max_gap_ = std::max(max_gap_, last_gap_);
  for (const Record& r : records_)  // wholly native joints show what Bullet's rows did
    if (r.alive && r.joint && r.id.index < 0 && r.reaction >= 0 && r.native_seen && options_.mode == Mode::exact) {
      Reaction& reaction = reactions_[z(r.reaction)];
      const auto on = [&](const Wrench& w, const btRigidBody& body) {
        return Wrench{w.force, w.moment,
                      from_bullet(body.getCenterOfMassPosition()) - double(dt) * from_bullet(body.getLinearVelocity())};
      };
      reaction.t = t_ - double(dt);
      reaction.on_a = on(r.native.on_a, r.joint->getRigidBodyA());
      reaction.on_b = on(r.native.on_b, r.joint->getRigidBodyB());
    }
  for (const auto& b : blocks_)  // functions with a memory remember where the step ended
    if (b->last_step == step_ && !b->failed)
      for (const ConstraintId id : b->ids)
        system_.constraint(id).function().accept(states_now(system_.constraint(id)), t_);
  for (std::size_t i = 1; i < body_of_.size(); ++i)
    if (body_of_[i] && body_of_[i]->isKinematicObject()) {
      last_v_[i] = from_bullet(body_of_[i]->getLinearVelocity());
      last_w_[i] = from_bullet(body_of_[i]->getAngularVelocity());
      last_known_[i] = 1;
    }
  keep_awake();
  if (options_.shadow || options_.mode == Mode::observe) compare_with_native();
  if (const auto callback = callback_) (*callback)(Step{t_, double(dt), owner_});
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
