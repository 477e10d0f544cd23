// One step of the constraints on links: how it begins and how it ends, and what the forces were (T11). The problem at
// its start is in multibody_rows.cpp, what goes on between Bullet's iterations in multibody_couple.cpp, how gaps are
// closed and the step is ended on the constraints in multibody_newton.cpp.
#include "multibody.h"

#include "bodies.h"
#include "columns.h"

#include <BulletDynamics/Featherstone/btMultiBodyLinkCollider.h>

#include <limits>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

// ---- its start ----

void Multibodies::begin_step() {
  scan();
  solved_ = failed_ = native_rows_ = false;
  told_ = joints_told_ = true;
  bodies_.good = false;
  dt_ = double(world_.getSolverInfo().m_timeStep);
  for (auto& t : trees_) {
    read_tree(*t->body, t->a);
    t->captured = true;
    t->ready = t->told = t->told_wrenches = t->told_causes = t->told_corrected = false;
    t->slept = is_asleep(*t->body);
    for (auto* x : {&t->own, &t->host, &t->contact, &t->friction, &t->joint_rows}) x->assign(z(t->a.velocities()), 0);
    t->within.assign(z(t->a.links() + 1), Wrench{});
  }
  engage_one_sided();
  if (changed_ || laid_out_for_ != engine_.structure_) lay_out();
  if (!active_) return;
  for (auto& t : trees_) {
    if (t->column < 0) continue;
    // A closed loop at rest in mid-air is no rest to Bullet's timer: multibodies held exactly stay awake.
    btMultiBody& body = *t->body;
    body.wakeUp();
    const auto wake = [](btMultiBodyLinkCollider* c) {
      if (c && !c->isActive()) c->setActivationState(ACTIVE_TAG);
    };
    wake(body.getBaseCollider());
    for (int i = 0; i < t->a.links(); ++i) wake(body.getLink(i).m_collider);
    t->slept = false;
  }
  for (Moving& b : moving_) {
    if (engine_.place_[z(b.id.index)] < 0)
      return fail("body '" + engine_.system_.name(b.id) + "' is constrained but not in the world");
    if (!b.body->isActive()) b.body->activate();
    b.own.setZero();
    b.applied.setZero();
    b.in_pool = false;
  }
  engine_.dt_ = dt_;
  engine_.state_.t = engine_.base_.t = engine_.t_;
  engine_.end_.t = engine_.t_ + dt_;
  std::fill(left_open_.begin(), left_open_.end(), 0.0);
  states_at_start();
  cut_ = engine_.options_.rank_tolerance;
  if (!linearize()) return;
  if (engine_.options_.drift_correction) {
    const Item* away = nullptr;
    if (gap() > engine_.options_.gap_tolerance || turned_away(away) > 0) close_gaps();
    if (failed_) return;
  }
  evaluate_laws();
  // Bullet solves islands in batches; what is one problem must be one of them.
  batch_ = world_.getSolverInfo().m_minimumSolverBatchSize;
  world_.getSolverInfo().m_minimumSolverBatchSize = std::numeric_limits<int>::max();
  batched_ = true;
  solved_ = true;
  ++engine_.counts_.solves;
}

// Those that let go hold again in the step in which their gap would close: it then ends on the surface, inelastically.
// Those that hold let go before a step that begins with links thrown apart, faster than steps leave them.
void Multibodies::engage_one_sided() {
  for (Record& r : engine_.records_) {
    if (!r.alive || !r.on_links || !r.waiting || !r.enabled || !r.one_sided.on) continue;
    if (r.let_go && !r.one_sided.reengage) continue;
    const auto ids = r.waiting->bodies();
    X_.clear();
    for (const BodyId id : ids) {
      Part p;
      p.id = id;
      if (is_link(id)) {
        p.tree = tree_of(link_of_id_[z(id.index)].body);
        p.link = link_of_id_[z(id.index)].link;
        ready(*trees_[z(p.tree)]);
        X_.push_back(state_of(p, false));
      } else {
        btRigidBody* body = id == linchpin::world ? nullptr : engine_.body_of_[z(id.index)];
        X_.push_back(body ? read_state(*body) : BodyState{});
      }
    }
    one_sided_row_.assign(6 * ids.size(), 0);
    double b = 0, position = 0, velocity = 0;
    try {
      r.waiting->function().linearize(X_, engine_.t_, {one_sided_row_, {&b, 1}, {&position, 1}, {&velocity, 1}});
    } catch (...) {  // a user's: the solve that holds it again names it
      continue;
    }
    double gain = -dt_ * b;  // of φ̇, by the applied forces alone
    for (std::size_t k = 0; k < ids.size(); ++k) {
      const double* row = one_sided_row_.data() + 6 * k;
      if (is_link(ids[k])) {
        const Tree& t = *trees_[z(tree_of(link_of_id_[z(ids[k].index)].body))];
        const int n = t.a.columns();
        one_sided_.assign(z(n), 0);
        t.a.add_jacobian_row(link_of_id_[z(ids[k].index)].link, row, one_sided_);
        for (int c = 0; t.good && c < n; ++c) gain += dt_ * one_sided_[z(c)] * t.free[z(c)];
      } else if (btRigidBody* body = ids[k] == linchpin::world ? nullptr : engine_.body_of_[z(ids[k].index)];
                 body && !body->isStaticOrKinematicObject()) {
        const Vector3d a = double(body->getInvMass()) * from_bullet(body->getTotalForce()),
                       alpha = from_bullet(body->getInvInertiaTensorWorld() * body->getTotalTorque());
        for (int j = 0; j < 3; ++j) gain += dt_ * (row[j] * a[j] + row[3 + j] * alpha[j]);
      }
    }
    const double sign = r.one_sided.negative ? -1 : 1, parts = sign * velocity;
    if (!r.let_go) {
      if (parts > 2 * r.parting + 2 * std::abs(gain)) {
        r.let_go = true;
        ++engine_.counts_.released;
        engine_.switch_on(r, false);
      }
      r.parting = std::abs(parts);
    } else if (sign * (position + dt_ * (velocity + gain)) < 0) {
      r.let_go = false;
      r.parting = std::abs(parts);
      ++engine_.counts_.engaged;
      engine_.switch_on(r, r.enabled);
      engine_.wake(r);
    }
  }
}

// Those whose multiplier had the wrong sign over the step hold no more from the next on.
void Multibodies::release_one_sided() {
  for (const Item& item : items_) {
    Record& r = engine_.records_[z(item.record)];
    if (!r.one_sided.on || r.joint || item.rows != 1) continue;
    const double push = impulse_[z(item.row)];
    if (!((r.one_sided.negative ? -push : push) < 0)) continue;
    r.let_go = true;
    ++engine_.counts_.released;
    engine_.switch_on(r, false);
  }
}

/// Joints between rigid bodies that are solved here, in Bullet's own ways.
void Multibodies::report_joints() {
  for (const Item& item : items_) {
    Record& r = engine_.records_[z(item.record)];
    if (!r.joint) continue;
    Wrench on[2];
    for (const int k : {0, 1}) {
      const Vector6 p = wrench_on(item, k, impulse_) / dt_;
      on[k] = {p.head<3>(), p.tail<3>(), Vector3d::Zero()};
    }
    engine_.report_impulse(r, btScalar(dt_ * on[0].force.norm()));
    for (std::size_t i = 0; bodies_.good && i < bodies_.dynamics->prescribed().size(); ++i) {
      const Prescribed& law = bodies_.dynamics->prescribed()[i];
      if (bodies_.record_of[z(law.constraint)] != item.record) continue;
      for (const int k : {0, 1}) {
        const Wrench w =
            Wrench{law.force, law.moment, law.p_WQ}.about(engine_.state_[item.constraint->bodies()[z(k)]].p);
        on[k].force += k == 0 ? w.force : Vector3d(-w.force);
        on[k].moment += k == 0 ? w.moment : Vector3d(-w.moment);
      }
    }
    engine_.report_forces(r, on[0], on[1]);
    engine_.break_beyond(r, std::span(impulse_).subspan(z(item.row), z(item.rows)));
  }
}

void Multibodies::fail(const std::string& why) {
  failed_ = true;
  solved_ = false;
  ++engine_.counts_.fallbacks;
  engine_.trouble_ = "links of multibodies: " + why;
  for (const Item& item : items_) {
    Record& r = engine_.records_[z(item.record)];
    r.why_native = why;
    engine_.failed_records_.push_back(item.record);
    engine_.report_native(r, true);
    r.by_links = false;  // rigid joints are solved without the links
  }
  laid_out_for_ = 0;  // and taken in again in the next step
}

// ---- its end ----

void Multibodies::finish() {
  if (batched_) world_.getSolverInfo().m_minimumSolverBatchSize = batch_;
  batched_ = false;
  joints_told_ = false;
  note_native_rows();
  if (!solved_) return;
  velocities_of_links(v_);
  for (const Moving& b : moving_) {
    const BodyState now = read_state(*b.body);
    put(v_, b.column, now.v);
    if (b.dof == 6) put(v_, b.column + 3, now.w);
    engine_.base_[b.id].p = now.p;  // split impulse may have moved it
    engine_.base_[b.id].q = now.q;
  }
  before_ = v_;
  if (bodies_.good && native_rows_) {  // what presses is known now
    take_forces(true);
    bodies_.good = bodies_.dynamics->resolve(engine_.state_, bodies_.Q) != Status::invalid;
    answer_laws();
  }
  solve_report();
  if (finite(v_)) {
    add_forces();
    if (engine_.options_.drift_correction) end_on_constraints();
  }
  take_reported_off();
  if (!finite(v_)) {
    ++engine_.counts_.non_finite;
    engine_.trouble_ = "links of multibodies: velocities that are not finite were kept from the world";
    told_ = false;
    return;
  }
  give_velocities();
  // Work of the impulses with the mean velocity (T11).
  for (std::size_t k = 0; k < v_.size(); ++k) half_[k] = 0.5 * (v0_[k] + v_[k]);
  row_velocities(half_, e_);
  for (const Item& item : items_)
    if (Record& of = engine_.records_[z(item.record)]; of.reaction >= 0)
      for (int r = item.row; r < item.row + item.rows; ++r) engine_.add_work(of, impulse_[z(r)] * e_[z(r)]);
  book_laws();
  report_joints();
  release_one_sided();
  answer_laws_at_start();
  tell_forces();
  told_ = false;
}

/// What native rows did to every multibody, in the problem or not.
void Multibodies::note_native_rows() {
  for (auto& t : trees_) {
    if (!t->captured) continue;
    btMultiBody& body = *t->body;
    t->others.assign(z(t->a.links() + 1), Wrench{});
    for (int i = 0; i < t->a.links(); ++i) {
      t->others[z(i + 1)].force = from_bullet(body.getLink(i).m_appliedConstraintForce);
      t->others[z(i + 1)].moment = from_bullet(body.getLink(i).m_appliedConstraintTorque);
    }
    for (int i = 0; i < t->a.velocities(); ++i)
      t->host[z(i)] = (double(body.getDeltaVelocityVector()[i]) - t->own[z(i)]) / dt_;
  }
}

/// The reaction over the whole step, with what laws do.
void Multibodies::add_forces() {
  if (!native_rows_) {
    for (std::size_t k = 0; k < v_.size(); ++k) v_[k] += dt_ * force_[k];
    for (std::size_t r = 0; r < impulse_.size(); ++r) impulse_[r] = dt_ * one_report_[r];
    if (bodies_.good) {  // from our own numbers: what sticks rests to the last bit, in single precision too
      for (std::size_t k = 0; k < v_.size(); ++k) v_[k] = v0_[k] + dt_ * (free_[k] + force_[k] + bodies_.dv[k]);
      for (std::size_t r = 0; r < impulse_.size(); ++r) impulse_[r] += dt_ * bodies_.lambda[r];
    }
  } else if (bodies_.present) {
    for (std::size_t k = 0; k < v_.size(); ++k) v_[k] += dt_ * (bodies_.dv[k] - bodies_.first_dv[k]);
    for (std::size_t r = 0; r < impulse_.size(); ++r)
      impulse_[r] += dt_ * (bodies_.lambda[r] - bodies_.first_lambda[r]);
  }
}

void Multibodies::end_on_constraints() {
  before_newton_ = v_;
  impulse_before_newton_ = impulse_;
  double extent = 0;  // poses far out are no better than their own rounding
  for (const auto& t : trees_)
    if (t->column >= 0)
      for (const auto& p : t->a.motions()) extent = std::max(extent, p.p.cwiseAbs().maxCoeff());
  const double tolerance =
      std::max(engine_.options_.newton_tolerance, 4 * std::numeric_limits<double>::epsilon() * extent);
  bool ends = newton(v_, tolerance, engine_.options_.max_newton);
  for (int round = 1; round < 4 && ends && bodies_.good && hold_laws(); ++round)
    ends = newton(v_, tolerance, engine_.options_.max_newton);  // the last word is the constraints'
  if (!ends) {
    // Too long a step: the velocities that the constraints allow now; the gap that is left is closed by moving.
    ++engine_.counts_.fallbacks;
    engine_.trouble_ = "links of multibodies: a step did not end on the constraints; its velocities were put on them";
    v_ = before_newton_;
    row_velocities(v_, e_);
    row_velocities(v0_, one_);
    for (std::size_t r = 0; r < e_.size(); ++r) e_[r] = -(velocity_[r] - one_[r]) - e_[r];
    hush(e_);
    solver_.apply(e_, lambda_, {}, dv_);
    from_unit(dv_);
    for (std::size_t k = 0; k < v_.size(); ++k) v_[k] += dv_[k];
    for (std::size_t r = 0; r < impulse_.size(); ++r) impulse_[r] = impulse_before_newton_[r] + lambda_[r];
    std::fill(e_.begin(), e_.end(), 0.0);
  }
  // What contradicts others is known by what is left of it.
  for (const Item& item : items_)
    for (int r = item.row; r < item.row + item.rows; ++r)
      if (std::abs(e_[z(r)]) * dt_ + std::abs(left_open_[z(r)]) > engine_.options_.gap_tolerance)
        engine_.records_[z(item.record)].unmet = true;
}

// What the step did beyond its reactions, as mean multipliers.
void Multibodies::take_reported_off() {
  for (std::size_t r = 0; r < impulse_.size(); ++r)
    lambda_[r] = impulse_[r] / dt_ - one_report_[r] - (bodies_.good ? bodies_.lambda[r] : 0);
}

void Multibodies::give_velocities() {
  for (auto& t : trees_) {
    if (t->column < 0) continue;
    narrow_.assign(z(t->a.velocities()), 0);
    bool clamped = false;
    const double most = double(t->body->getMaxCoordinateVelocity());
    for (int k = 0; k < t->a.columns(); ++k) {
      narrow_[z(t->a.fixed_velocities() + k)] = btScalar(v_[z(t->column + k)] - before_[z(t->column + k)]);
      clamped = clamped || std::abs(v_[z(t->column + k)]) > most;
    }
    t->body->applyDeltaVeeMultiDof2(narrow_.data(), 1);
    if (clamped)
      engine_.trouble_ =
          "links of multibodies: a velocity beyond the multibody's largest (setMaxCoordinateVelocity), at "
          "which Bullet clamps it";
  }
  for (const Moving& b : moving_) {
    b.body->setLinearVelocity(to_bullet(head(v_, b.column)));
    if (b.dof == 6) b.body->setAngularVelocity(to_bullet(head(v_, b.column + 3)));
  }
}

// The instantaneous forces (T5) at the step's start, with what native rows did as a mean force (T11).
void Multibodies::solve_report() {
  for (const auto& t : trees_)
    for (int k = 0; t->column >= 0 && k < t->a.columns(); ++k)
      free_[z(t->column + k)] += t->host[z(t->a.fixed_velocities() + k)];
  if (native_rows_)
    for (const Moving& b : moving_) {
      if (!b.in_pool) continue;
      const Vector6 host = native_change(b);
      for (int k = 0; k < b.dof; ++k) free_[z(b.column + k)] += host[k];
    }
  row_velocities(free_, e_);
  for (int r = 0; r < unit_.m(); ++r) {
    double size = std::abs(unit_.b[z(r)]);
    for (int k = unit_.row_start[z(r)]; k < unit_.row_start[z(r + 1)]; ++k)
      size += std::abs(entries_[z(k)].value * free_[z(entries_[z(k)].column)]);
    scale_[z(r)] = silent_[z(r)] ? 0 : size;
    e_[z(r)] = unit_.b[z(r)] - e_[z(r)];
  }
  hush(e_);
  const double off = solver_.apply(e_, one_report_, {}, force_, scale_);
  from_unit(force_);
  for (const Item& item : items_) engine_.records_[z(item.record)].unmet = off > SolveOptions{}.consistency_tolerance;
}

/// What native rows made of a rigid body's velocity in this step, per dt.
Vector6 Multibodies::native_change(const Moving& b) const {
  const BodyState now = read_state(*b.body);
  const BodyState& then = engine_.state_[b.id];
  Vector6 host;
  host << now.v - then.v, now.w - then.w;
  return (host - b.applied - b.own) / dt_;
}

void Multibodies::after_step() {
  if (!solved_) return;
  for (auto& t : trees_) {
    if (t->column < 0) continue;
    read_tree(*t->body, t->after);
    t->after.forward_kinematics(t->after.state().at, t->after.state().velocity, t->at_end);
    t->end = t->after.state().at;
  }
  for (const Item& item : items_) {
    const Record& r = record(item);
    if (!r.on_links || r.reaction < 0) continue;
    Reaction& to = engine_.reactions_[z(r.reaction)];
    to.gap = to.gap_angle = to.residual = 0;
    if (!item.coordinates.empty()) {
      double phi = -item.target;
      for (const Coordinate& c : item.coordinates) phi += c.factor * trees_[z(c.tree)]->end.joints[z(c.position)];
      to.gap_angle = std::abs(phi);
      engine_.max_angle_ = std::max(engine_.max_angle_, to.gap_angle);
      continue;
    }
    ConstraintFunction& function = const_cast<ConstraintFunction&>(item.constraint->function());
    X_.clear();
    for (const Part& p : item.parts)
      X_.push_back(p.tree >= 0 ? state_of(p, true)
                   : p.id == linchpin::world || !engine_.body_of_[z(p.id.index)]
                       ? BodyState{}
                       : read_state(*engine_.body_of_[z(p.id.index)]));
    if (function.level() == Level::position) {
      const auto out = std::span(one_).subspan(z(item.row), z(item.rows));
      try {
        function.residual(X_, engine_.t_, out);
      } catch (...) {  // a user's: the next step's solve names it
        continue;
      }
      for (int i = 0; i < item.rows; ++i) {
        const RowUnit unit = function.unit(i);
        double& gap = unit == RowUnit::metre ? to.gap : unit == RowUnit::radian ? to.gap_angle : to.residual;
        gap = std::max(gap, std::abs(out[z(i)]));
      }
      if (const JointRows::Alignment* const alignment = detail::alignment_of(function))
        to.gap_angle = std::max(to.gap_angle, detail::turned_away(*alignment, X_[0].R(), X_[1].R()));
      engine_.max_gap_ = std::max(engine_.max_gap_, to.gap);
      engine_.max_angle_ = std::max(engine_.max_angle_, to.gap_angle);
    }
    function.accept(X_, engine_.t_);
  }
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
