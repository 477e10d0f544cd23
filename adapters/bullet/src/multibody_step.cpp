// One step of the constraints on links: how it begins, how it ends, and what the forces were (T11). Coupling between
// Bullet's iterations is in multibody_couple.cpp.
#include "multibody.h"

#include "host/breaking.h"
#include "host/unilateral.h"

#include <BulletDynamics/Featherstone/btMultiBodyLinkCollider.h>

#include <linchpin/detail/alignment.h>

#include <limits>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

using articulated::ConstraintBody;
using articulated::ConstraintRows;

// ---- its start ----

/// Poses of Bullet's bodies while gaps are closed.
class Multibodies::Poses final : public articulated::PoseAccess {
 public:
  explicit Poses(Multibodies& owner) : owner_(owner) {}
  void move_tree(int tree, const articulated::Configuration& to) override {
    Tree& t = *owner_.trees_[z(tree)];
    write_configuration(to, *t.body);
    read_tree(*t.body, t.tree);
  }
  void move_body(BodyId id, const BodyState& to) override {
    write_pose(owner_.binding_.bodies().body(id)->getWorldTransform(), to.p, to.q);
  }
  void read_bodies() override {
    for (const ConstraintRows& c : owner_.constraints_.constraints())
      for (const ConstraintBody& body : c.bodies)
        if (body.tree < 0 && body.id != linchpin::world)
          owner_.c_.bodies.read_boundary(owner_.c_.world, body.id, owner_.c_.dt, owner_.c_.teleported);
  }

 private:
  Multibodies& owner_;
};

void Multibodies::begin_step() {
  scan();
  phase_ = StepPhase::idle;
  has_host_rows_ = laws_.are_solved = false;
  report_is_current_ = joint_reports_are_current_ = true;
  c_.dt = dt_ = double(world_.getSolverInfo().m_timeStep);
  read_trees();
  for (int i = 0; i < static_cast<int>(c_.constraints.size()); ++i) engage_unilateral(i);
  if (layout_is_stale_ || laid_out_for_ != c_.structure) lay_out();
  if (!is_active() || !wake_all() || !read_problem()) return;
  evaluate_laws();
  // Bullet solves islands in batches. The islands of one problem must be in one of them.
  batch_size_ = world_.getSolverInfo().m_minimumSolverBatchSize;
  world_.getSolverInfo().m_minimumSolverBatchSize = std::numeric_limits<int>::max();
  phase_ = StepPhase::solved;
  ++c_.counts.solves;
}

void Multibodies::read_trees() {
  for (auto& t : trees_) {
    read_tree(*t->body, t->tree);
    t->factor = Tree::Factor::stale;
    t->was_read = true;
    t->was_asleep = is_asleep(*t->body);
    t->reports.acceleration_is_current = t->reports.wrenches_are_current = false;
    t->reports.forces_are_current = t->reports.corrections_are_current = false;
    for (auto* x : {&t->added, &t->host.acceleration, &t->host.contact, &t->host.friction, &t->host.joint})
      x->assign(z(t->tree.velocities()), 0);
    t->host.along_joints.assign(z(t->tree.links() + 1), Wrench{});
  }
}

/// Wakes all bodies of the problem. A closed loop at rest in mid-air is no rest to Bullet's timer.
/// @return whether all bodies are there
bool Multibodies::wake_all() {
  const auto wake = [](btMultiBodyLinkCollider* c) {
    if (c && !c->isActive()) c->setActivationState(ACTIVE_TAG);
  };
  for (auto& t : trees_) {
    if (t->column < 0) continue;
    t->body->wakeUp();
    wake(t->body->getBaseCollider());
    for (int i = 0; i < t->tree.links(); ++i) wake(t->body->getLink(i).m_collider);
    t->was_asleep = false;
  }
  for (Rigid& b : rigid_) {
    if (!c_.bodies.in_world(b.id)) {
      fail("body '" + c_.system.name(b.id) + "' is constrained but not in the world");
      return false;
    }
    if (!b.body->isActive()) b.body->activate();
    b.own.setZero();
    b.applied.setZero();
    b.in_pool = false;
  }
  return true;
}

/// Reads the problem at the step's start, and closes its gaps. @return whether there is one
bool Multibodies::read_problem() {
  c_.dt = dt_;
  c_.bodies.start.t = c_.bodies.base.t = c_.t;
  c_.bodies.end.t = c_.t + dt_;
  projection_.set_options({c_.options.gap_tolerance, c_.options.newton_tolerance, c_.options.max_newton});
  projection_.begin_step();
  for (std::size_t i = 0; i < rigid_.size(); ++i) {
    articulated::RigidBody& b = constraints_.rigid_bodies()[i];
    b.force = from_bullet(rigid_[i].body->getTotalForce());
    b.moment = from_bullet(rigid_[i].body->getTotalTorque());
    b.gyroscopic = (rigid_[i].body->getFlags() & gyroscopic_flags) != 0;
  }
  read_states();
  constraints_.reset_rank_cut();
  if (const std::string why = constraints_.linearize(c_.system, c_.bodies.start, c_.t,
                                                     articulated::TreeConstraints::FarJoints::as_they_are);
      !why.empty()) {
    fail(why);
    return false;
  }
  if (c_.options.drift_correction && projection_.has_gap(c_.bodies.start)) close_gaps();
  return phase_ != StepPhase::failed;
}

/// Reads the states of all bodies of the problem at the step's start.
void Multibodies::read_states() {
  Poses(*this).read_bodies();
  constraints_.write_link_states(c_.bodies.start);
}

articulated::TreeStep Multibodies::step() const {
  return {c_.system, c_.bodies.start, c_.bodies.base, c_.bodies.end, c_.t, dt_};
}

void Multibodies::close_gaps() {
  Poses poses(*this);
  const articulated::GapClosing done = projection_.close_gaps(step(), poses);
  auto& counts = c_.counts;
  if (done.widest > 0) {
    ++counts.turned_back;
    if (done.widest > counts.widest) {
      counts.widest = done.widest;
      c_.widest_turned = entry_of(constraints_.constraints()[z(done.widest_constraint)]).name;
    }
  }
  if (done.is_any) {
    ++counts.gap_corrections;
    counts.turned = std::max(counts.turned, done.turned);
    counts.corrected = std::max(counts.corrected, done.moved);
  }
  if (!done.failure.empty()) fail(done.failure);
}

void Multibodies::engage_unilateral(int entry) {
  const host::ConstraintEntry& r = c_.constraints[entry];
  if (!r.alive || !r.is_on_links() || !r.deferred || !r.enabled || !r.unilateral.on) return;
  if (r.released && !r.unilateral.reengage) return;
  host::UnilateralState at;
  if (read_unilateral_row(r, at.position, at.velocity, at.gain)) host::switch_unilateral(c_, entry, at);
}

/// Evaluates the row of a unilateral constraint.
/// @param gain  change of its velocity in the step, by the applied forces alone
/// @return false where the residual throws: the solve that holds it again names it
bool Multibodies::read_unilateral_row(const host::ConstraintEntry& r, double& position, double& velocity,
                                      double& gain) {
  const auto ids = r.deferred->bodies();
  scratch_.states.clear();
  for (const BodyId id : ids) {
    if (is_link(id)) {
      const LinkId& link = link_of_id_[z(id.index)];
      Tree& t = tree_of(link);
      t.refresh();
      scratch_.states.push_back(articulated::state_of(t.tree.motion(link.link)));
    } else {
      btRigidBody* body = id == linchpin::world ? nullptr : binding_.bodies().body(id);
      scratch_.states.push_back(body ? bullet::read_state(*body) : BodyState{});
    }
  }
  scratch_.unilateral_row.assign(6 * ids.size(), 0);
  double b = 0;
  try {
    r.deferred->function().linearize(scratch_.states, c_.t,
                                     {scratch_.unilateral_row, {&b, 1}, {&position, 1}, {&velocity, 1}});
  } catch (...) {
    return false;
  }
  gain = -dt_ * b;
  for (std::size_t k = 0; k < ids.size(); ++k) {
    const double* row = scratch_.unilateral_row.data() + 6 * k;
    if (is_link(ids[k])) {
      const LinkId& link = link_of_id_[z(ids[k].index)];
      const Tree& t = tree_of(link);
      const int n = t.tree.columns();
      scratch_.unilateral_columns.assign(z(n), 0);
      t.tree.add_jacobian_row(link.link, row, scratch_.unilateral_columns);
      for (int c = 0; t.has_factor() && c < n; ++c) gain += dt_ * scratch_.unilateral_columns[z(c)] * t.free[z(c)];
    } else if (btRigidBody* body = ids[k] == linchpin::world ? nullptr : binding_.bodies().body(ids[k]);
               body && !body->isStaticOrKinematicObject()) {
      const Vector3d a = double(body->getInvMass()) * from_bullet(body->getTotalForce()),
                     alpha = from_bullet(body->getInvInertiaTensorWorld() * body->getTotalTorque());
      for (int j = 0; j < 3; ++j) gain += dt_ * (row[j] * a[j] + row[3 + j] * alpha[j]);
    }
  }
  return true;
}

void Multibodies::release_unilateral() {
  for (const ConstraintRows& c : constraints_.constraints())
    if (c.rows == 1) host::release_unilateral(c_, c.owner, solution_.impulse[z(c.row)]);
}

void Multibodies::fail(const std::string& why) {
  phase_ = StepPhase::failed;
  ++c_.counts.fallbacks;
  c_.trouble = "links of multibodies: " + why;
  for (const ConstraintRows& c : constraints_.constraints()) {
    host::ConstraintEntry& r = entry_of(c);
    r.fallback = why;
    c_.left_to_host.push_back(c.owner);
    c_.reactions.set_left_to_host(r, true);
    binding_of(c.owner).with_links = false;  // rigid joints are solved without the links
  }
  laid_out_for_ = 0;  // the next step tries again
}

// ---- its end ----

void Multibodies::finish() {
  if (batch_size_) world_.getSolverInfo().m_minimumSolverBatchSize = *batch_size_;
  batch_size_.reset();
  joint_reports_are_current_ = false;
  read_host_impulses();
  if (!is_solved()) return;
  read_velocities_of_links(solution_.v);
  read_velocities_of_bodies(solution_.v);
  solution_.bullet_v = solution_.v;
  resolve_laws();
  solve_forces();
  if (finite(solution_.v)) {
    add_forces();
    if (c_.options.drift_correction) end_on_constraints();
  }
  subtract_reported();
  if (!finite(solution_.v)) {
    ++c_.counts.non_finite;
    c_.trouble = "links of multibodies: velocities that are not finite were kept from the world";
    report_is_current_ = false;
    return;
  }
  write_velocities();
  add_work();
  account_laws();
  write_joint_reports();
  release_unilateral();
  solve_laws_at_start();
  report_accelerations();
  report_is_current_ = false;
}

/// Reads what Bullet's own rows did to every multibody, in the problem or not.
void Multibodies::read_host_impulses() {
  for (auto& t : trees_) {
    if (!t->was_read) continue;
    const btMultiBody& body = *t->body;
    t->host.on_links.assign(z(t->tree.links() + 1), Wrench{});
    for (int i = 0; i < t->tree.links(); ++i) {
      t->host.on_links[z(i + 1)].force = from_bullet(body.getLink(i).m_appliedConstraintForce);
      t->host.on_links[z(i + 1)].moment = from_bullet(body.getLink(i).m_appliedConstraintTorque);
    }
    for (int i = 0; i < t->tree.velocities(); ++i)
      t->host.acceleration[z(i)] = (double(body.getDeltaVelocityVector()[i]) - t->added[z(i)]) / dt_;
  }
}

/// Reads the velocities of links as they are now, with those that Bullet's rows have added.
void Multibodies::read_velocities_of_links(std::span<double> v) const {
  for (const auto& t : trees_) {
    if (t->column < 0) continue;
    for (int k = 0; k < t->tree.columns(); ++k) {
      const int i = t->tree.fixed_velocities() + k;
      v[z(t->column + k)] = double(t->body->getVelocityVector()[i]) + double(t->body->getDeltaVelocityVector()[i]);
    }
  }
}

/// Reads the rigid bodies at the end of Bullet's solve: velocities, and poses, which split impulse may have moved.
void Multibodies::read_velocities_of_bodies(std::span<double> v) {
  for (const Rigid& b : rigid_) {
    const BodyState now = bullet::read_state(*b.body);
    put(v, b.column, now.v);
    if (b.dof == 6) put(v, b.column + 3, now.w);
    c_.bodies.base[b.id].p = now.p;
    c_.bodies.base[b.id].q = now.q;
  }
}

/// Adds the reaction over the whole step, with that of the laws, to the velocities.
void Multibodies::add_forces() {
  const std::span<const double> v0 = constraints_.start_velocity(), free = constraints_.free_acceleration();
  if (!has_host_rows_) {
    for (std::size_t k = 0; k < solution_.v.size(); ++k) solution_.v[k] += dt_ * solution_.acceleration[k];
    for (std::size_t r = 0; r < solution_.impulse.size(); ++r) solution_.impulse[r] = dt_ * solution_.reported[r];
    if (laws_.are_solved) {  // from our own numbers: sticking contacts rest to the last bit, in single precision too
      for (std::size_t k = 0; k < solution_.v.size(); ++k)
        solution_.v[k] = v0[k] + dt_ * (free[k] + solution_.acceleration[k] + laws_.dv[k]);
      for (std::size_t r = 0; r < solution_.impulse.size(); ++r) solution_.impulse[r] += dt_ * laws_.lambda[r];
    }
  } else if (laws_.are_present) {
    for (std::size_t k = 0; k < solution_.v.size(); ++k) solution_.v[k] += dt_ * (laws_.dv[k] - laws_.first_dv[k]);
    for (std::size_t r = 0; r < solution_.impulse.size(); ++r)
      solution_.impulse[r] += dt_ * (laws_.lambda[r] - laws_.first_lambda[r]);
  }
}

void Multibodies::end_on_constraints() {
  const double tolerance = std::max(c_.options.newton_tolerance, constraints_.pose_rounding());
  solution_.v_before_newton = solution_.v;
  solution_.impulse_before_newton = solution_.impulse;
  const auto newton = [&] {
    return projection_.solve_end_of_step(step(), solution_.v, solution_.impulse, tolerance, c_.options.max_newton);
  };
  bool ends = newton();
  for (int round = 1; round < 4 && ends && laws_.are_solved && reapply_stick(); ++round)
    ends = newton();  // the constraints have the last iteration
  c_.counts.newton += projection_.take_solves();
  if (!ends) {
    // The step is too long. It gets the velocities that the constraints allow now; the gap that is left is closed by
    // moving.
    ++c_.counts.fallbacks;
    c_.trouble = "links of multibodies: a step did not end on the constraints; its velocities were put on them";
    solution_.v = solution_.v_before_newton;
    solution_.impulse = solution_.impulse_before_newton;
    projection_.project_velocities(solution_.v, solution_.impulse);
  }
  // Rows that contradict others are known by the residual that is left of them.
  for (const ConstraintRows& c : constraints_.constraints())
    if (projection_.is_unmet(c, dt_)) entry_of(c).outcome.contradictory = true;
}

/// The step's impulses beyond the reported forces, as mean multipliers.
void Multibodies::subtract_reported() {
  for (std::size_t r = 0; r < solution_.impulse.size(); ++r)
    solution_.correction[r] =
        solution_.impulse[r] / dt_ - solution_.reported[r] - (laws_.are_solved ? laws_.lambda[r] : 0);
}

void Multibodies::write_velocities() {
  for (auto& t : trees_) {
    if (t->column < 0) continue;
    scratch_.bullet_dv.assign(z(t->tree.velocities()), 0);
    bool is_clamped = false;
    const double most = double(t->body->getMaxCoordinateVelocity());
    for (int k = 0; k < t->tree.columns(); ++k) {
      const std::size_t c = z(t->column + k);
      scratch_.bullet_dv[z(t->tree.fixed_velocities() + k)] = btScalar(solution_.v[c] - solution_.bullet_v[c]);
      is_clamped = is_clamped || std::abs(solution_.v[c]) > most;
    }
    t->body->applyDeltaVeeMultiDof2(scratch_.bullet_dv.data(), 1);
    if (is_clamped)
      c_.trouble =
          "links of multibodies: a velocity beyond the multibody's largest (setMaxCoordinateVelocity), at "
          "which Bullet clamps it";
  }
  for (const Rigid& b : rigid_) {
    b.body->setLinearVelocity(to_bullet(head(solution_.v, b.column)));
    if (b.dof == 6) b.body->setAngularVelocity(to_bullet(head(solution_.v, b.column + 3)));
  }
}

/// Work of the impulses with the mean velocity (T11).
void Multibodies::add_work() {
  for (std::size_t k = 0; k < solution_.v.size(); ++k)
    scratch_.columns[k] = 0.5 * (constraints_.start_velocity()[k] + solution_.v[k]);
  constraints_.row_velocities(scratch_.columns, scratch_.rows);
  for (const ConstraintRows& c : constraints_.constraints())
    if (host::ConstraintEntry& of = entry_of(c); of.reaction >= 0)
      for (int r = c.row; r < c.row + c.rows; ++r)
        c_.reactions.add_work(of, solution_.impulse[z(r)] * scratch_.rows[z(r)]);
}

/// Solves the instantaneous forces (T5) at the step's start, with what Bullet's rows did as a mean force (T11).
void Multibodies::solve_forces() {
  const std::span<double> free = constraints_.free_acceleration();
  for (const auto& t : trees_)
    for (int k = 0; t->column >= 0 && k < t->tree.columns(); ++k)
      free[z(t->column + k)] += t->host.acceleration[z(t->tree.fixed_velocities() + k)];
  for (const Rigid& b : rigid_) {
    if (!has_host_rows_ || !b.in_pool) continue;
    const Vector6 host = host_acceleration(b);
    for (int k = 0; k < b.dof; ++k) free[z(b.column + k)] += host[k];
  }
  const double contradiction = constraints_.solve_forces(solution_.reported, solution_.acceleration);
  for (const ConstraintRows& c : constraints_.constraints())
    entry_of(c).outcome.contradictory = contradiction > SolveOptions{}.consistency_tolerance;
}

/// Change of a rigid body's velocity by Bullet's own rows in this step, per dt.
Vector6 Multibodies::host_acceleration(const Rigid& b) const {
  const BodyState now = bullet::read_state(*b.body);
  const BodyState& then = c_.bodies.start[b.id];
  Vector6 host;
  host << now.v - then.v, now.w - then.w;
  return (host - b.applied - b.own) / dt_;
}

/// Reports joints between rigid bodies that are solved here, in Bullet's own ways.
void Multibodies::write_joint_reports() {
  for (const ConstraintRows& c : constraints_.constraints()) {
    if (!entry_of(c).is_joint()) continue;
    Wrench on[2];
    for (const int k : {0, 1}) {
      const Vector6 p = constraints_.wrench_on(c, k, solution_.impulse) / dt_;
      on[k] = {p.head<3>(), p.tail<3>(), Vector3d::Zero()};
    }
    binding_.report_impulse(c.owner, btScalar(dt_ * on[0].force.norm()));
    for (std::size_t i = 0; laws_.are_solved && i < laws_.dynamics->prescribed().size(); ++i) {
      const Prescribed& law = laws_.dynamics->prescribed()[i];
      if (laws_.entry_of_constraint[z(law.constraint)] != c.owner) continue;
      for (const int k : {0, 1}) {
        const Wrench w = Wrench{law.force, law.moment, law.p_WQ}.about(c_.bodies.start[c.constraint->bodies()[z(k)]].p);
        on[k].force += k == 0 ? w.force : Vector3d(-w.force);
        on[k].moment += k == 0 ? w.moment : Vector3d(-w.moment);
      }
    }
    binding_.report_forces(c.owner, on[0], on[1]);
    host::break_if_overloaded(c_, c.owner, c.own(std::span(std::as_const(solution_.impulse))));
  }
}

// ---- when Bullet has integrated ----

void Multibodies::end_step() {
  if (!is_solved()) return;
  for (auto& t : trees_) {
    if (t->column < 0) continue;
    read_tree(*t->body, t->after);
    t->after.forward_kinematics(t->after.state().at, t->after.state().velocity, t->at_end);
    t->end = t->after.state().at;
  }
  for (const ConstraintRows& c : constraints_.constraints()) {
    const host::ConstraintEntry& r = entry_of(c);
    if (r.is_on_links() && r.reaction >= 0) measure_gap(c, c_.reactions[r.reaction]);
  }
}

/// Measures the gap that a constraint has where Bullet has integrated to. A constraint with memory accepts that pose.
void Multibodies::measure_gap(const ConstraintRows& c, Reaction& to) {
  to.gap = to.gap_angle = to.residual = 0;
  if (c.is_gear()) {
    to.gap_angle = std::abs(constraints_.gear_residual_at_end(c));
    c_.gaps.largest_angle = std::max(c_.gaps.largest_angle, to.gap_angle);
    return;
  }
  ConstraintFunction& function = const_cast<ConstraintFunction&>(c.constraint->function());
  scratch_.states.clear();
  for (const ConstraintBody& body : c.bodies)
    scratch_.states.push_back(body.tree >= 0 ? constraints_.state_of(body, true)
                              : body.id == linchpin::world || !binding_.bodies().body(body.id)
                                  ? BodyState{}
                                  : bullet::read_state(*binding_.bodies().body(body.id)));
  if (function.level() == Level::position) {
    const auto out = c.own(std::span(scratch_.rows));
    try {
      function.residual(scratch_.states, c_.t, out);
    } catch (...) {  // a user's: the next step's solve names it
      return;
    }
    for (int i = 0; i < c.rows; ++i) {
      const RowUnit unit = function.unit(i);
      double& gap = unit == RowUnit::metre ? to.gap : unit == RowUnit::radian ? to.gap_angle : to.residual;
      gap = std::max(gap, std::abs(out[z(i)]));
    }
    if (const JointRows::Alignment* const alignment = detail::alignment_of(function))
      to.gap_angle =
          std::max(to.gap_angle, detail::turned_away(*alignment, scratch_.states[0].R(), scratch_.states[1].R()));
    c_.gaps.largest_gap = std::max(c_.gaps.largest_gap, to.gap);
    c_.gaps.largest_angle = std::max(c_.gaps.largest_angle, to.gap_angle);
  }
  function.accept(scratch_.states, c_.t);
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
