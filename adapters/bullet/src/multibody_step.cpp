// One step of the constraints on links: the problem at the step's start, velocities kept on it between Bullet's
// iterations, Newton on Bullet's own map at the end (T12), and what the forces were (T11).
#include "multibody.h"

#include "bodies.h"
#include "columns.h"

#include <BulletDynamics/Featherstone/btMultiBodyGearConstraint.h>
#include <BulletDynamics/Featherstone/btMultiBodyJointLimitConstraint.h>
#include <BulletDynamics/Featherstone/btMultiBodyJointMotor.h>
#include <BulletDynamics/Featherstone/btMultiBodyLinkCollider.h>
#include <BulletDynamics/Featherstone/btMultiBodySphericalJointLimit.h>
#include <BulletDynamics/Featherstone/btMultiBodySphericalJointMotor.h>

#include <Eigen/Cholesky>

#include <limits>
#include <typeinfo>
#include <utility>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

// ---- the problem at the step's start ----

void Multibodies::begin_step() {
  scan();
  solved_ = failed_ = native_rows_ = false;
  told_ = joints_told_ = true;
  bodies_.good = false;
  dt_ = double(world_.getSolverInfo().m_timeStep);
  for (auto& t : trees_) {
    t->a.capture();
    t->captured = true;
    t->ready = t->told = t->told_wrenches = t->told_causes = t->told_corrected = false;
    t->slept = t->a.asleep();
    for (auto* x : {&t->own, &t->host, &t->contact, &t->friction, &t->joint_rows}) x->assign(z(t->a.rates()), 0);
    t->within.assign(z(t->a.links() + 1), Wrench{});
  }
  engage_one_sided();
  if (changed_ || laid_out_for_ != engine_.structure_) lay_out();
  if (!active_) return;
  for (auto& t : trees_) {
    if (t->column < 0) continue;
    // A closed loop at rest in mid-air is no rest to Bullet's timer: multibodies held exactly stay awake.
    btMultiBody& body = t->a.body();
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
    if (gap() > engine_.options_.gap_tolerance) close_gaps();
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
        t.a.add_row(link_of_id_[z(ids[k].index)].link, row, one_sided_);
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

void Multibodies::fail(const std::string& why) {
  failed_ = true;
  solved_ = false;
  ++engine_.counts_.fallbacks;
  engine_.trouble_ = "links of multibodies: " + why;
  for (const Item& item : items_) {
    Record& r = engine_.records_[z(item.record)];
    r.why_native = why;
    engine_.failed_records_.push_back(item.record);
    if (r.reaction >= 0) engine_.reactions_[z(r.reaction)].native = true;
    r.by_links = false;  // rigid joints are solved without the links
  }
  laid_out_for_ = 0;  // and taken in again in the next step
}

Multibodies::Tree& Multibodies::ready(Tree& t) {
  if (std::exchange(t.ready, true)) return t;
  t.good = t.a.refresh();
  t.free.assign(z(t.a.columns()), 0);
  if (t.good) t.a.free_acceleration(t.free);
  return t;
}

/// From the solver's columns to the multibodies' own coordinates.
void Multibodies::from_unit(std::span<double> v) const {
  for (const auto& t : trees_)
    if (t->column >= 0) t->a.from_unit(v.subspan(z(t->column), z(t->a.columns())));
}

void Multibodies::states_at_start() {
  for (auto& t : trees_)
    if (t->column >= 0) ready(*t);
  for (const Item& item : items_)
    for (const Part& p : item.parts) {
      if (p.tree >= 0)
        engine_.state_[p.id] = state_of(p, false);
      else if (p.id != linchpin::world)
        engine_.sync_body(p.id);
    }
}

BodyState Multibodies::state_of(const Part& p, bool end) const {
  const Tree& t = *trees_[z(p.tree)];
  const Articulated::Place& at = (end ? t.at_end : t.a.places())[z(p.link + 1)];
  return BodyState{at.p, Quaterniond(at.R), at.v, at.w, at.a, at.alpha};
}

// A, b, M and a of the problem, and its factor.
bool Multibodies::linearize() {
  for (const auto& t : trees_) {
    if (t->column < 0 || t->good) continue;
    fail("a mass matrix is not positive definite, or a number is not finite");
    return false;
  }
  masses_and_forces();
  std::fill(silent_.begin(), silent_.end(), 0);
  entries_.clear();
  unit_.entries.clear();
  unit_.row_start.clear();
  for (Item& item : items_) {
    if (!item.coordinates.empty())
      gear_row(item);
    else if (!rows_of(item))
      return false;
  }
  unit_.row_start.push_back(static_cast<int>(unit_.entries.size()));
  if (!finite(position_) || !finite(velocity_) || !finite(unit_.b) || !finite(free_)) {
    fail("a residual, its derivatives or a force is not finite");
    return false;
  }
  if (solver_.factor(unit_) && settle_rank()) return true;
  fail("a mass matrix is not positive definite, or a number is not finite");
  return false;
}

/// Where the rigid bodies' blocks begin in the mass: at the end, behind the multibodies'.
std::size_t Multibodies::mass_of_bodies() const {
  std::size_t at = unit_.mass.size();
  for (const Moving& b : moving_) at -= z(b.dof * b.dof);
  return at;
}

void Multibodies::masses_and_forces() {
  unit_.t = engine_.t_;
  for (auto& t : trees_) {
    if (t->column < 0) continue;
    std::copy(t->free.begin(), t->free.end(), free_.begin() + t->column);
    for (int k = 0; k < t->a.columns(); ++k) v0_[z(t->column + k)] = t->a.u()[z(t->a.first() + k)];
  }
  std::size_t mass = mass_of_bodies();
  for (const Moving& b : moving_) {
    const BodyState& s = engine_.state_[b.id];
    Eigen::Matrix<double, 6, 6> M = Eigen::Matrix<double, 6, 6>::Zero();
    M.topLeftCorner<3, 3>().diagonal().setConstant(engine_.system_.mass(b.id));
    put(v0_, b.column, s.v);
    put(unit_.Q, b.column, from_bullet(b.body->getTotalForce()));
    if (b.dof == 6) {
      const Matrix3d I = engine_.system_.world_inertia(b.id, s.q);
      M.bottomRightCorner<3, 3>() = I;
      put(v0_, b.column + 3, s.w);
      put(unit_.Q, b.column + 3, from_bullet(b.body->getTotalTorque()));
      if (is_gyroscopic(*b.body)) bullet::add(unit_.Q, b.column + 3, -s.w.cross(I * s.w));  // (T2)
      put(free_, b.column + 3, I.ldlt().solve(head(unit_.Q, b.column + 3)));
    }
    put(free_, b.column, head(unit_.Q, b.column) / engine_.system_.mass(b.id));
    for (int r = 0; r < b.dof; ++r)
      for (int c = 0; c < b.dof; ++c) unit_.mass[mass++] = M(r, c);
  }
}

void Multibodies::gear_row(const Item& item) {
  double phi = -item.target, rate = 0;
  for (const int c : item.columns) dense_[z(c)] = 0;
  for (const Coordinate& c : item.coordinates) {
    const Tree& t = *trees_[z(c.tree)];
    phi += c.factor * t.a.start().joints[z(c.position)];
    rate += c.factor * t.a.u()[z(c.rate)];
    dense_[z(t.column + c.rate - t.a.first())] += c.factor;
  }
  position_[z(item.row)] = phi;
  velocity_[z(item.row)] = rate;
  unit_.b[z(item.row)] = 0;
  length_[z(item.row)] = length_beside_[z(item.row)] = 0;
  append_row(item, -1);
}

// Rows of a constraint function, [linear; angular] by part, along the columns.
bool Multibodies::rows_of(Item& item) {
  const auto own = [&](std::vector<double>& x) { return std::span(x).subspan(z(item.row), z(item.rows)); };
  X_.clear();
  for (const Part& p : item.parts) {
    X_.push_back(p.id == linchpin::world ? BodyState{} : engine_.state_[p.id]);
    if (p.dof > 0) X_.back().a = X_.back().alpha = Vector3d::Zero();
  }
  try {
    item.constraint->function().linearize(X_, engine_.t_, {item.A, own(unit_.b), own(position_), own(velocity_)});
  } catch (const std::exception& e) {  // a user's residual: nothing throws out of a step
    fail("constraint '" + record(item).name + "': " + e.what());
    return false;
  }
  const std::size_t K = item.parts.size();
  for (int r = 0; r < item.rows; ++r) {
    for (const int c : item.columns) dense_[z(c)] = 0;
    double alone = 0, known = 0;  // what single parts make of the row, and of b
    for (std::size_t k = 0; k < K; ++k) {
      const Part& p = item.parts[k];
      const double* row = item.A.data() + (z(r) * K + k) * 6;
      if (p.tree >= 0) {
        const Tree& t = *trees_[z(p.tree)];
        for (const int c : item.columns) part_row_[z(c)] = 0;
        t.a.add_row(p.link, row, std::span(part_row_).subspan(z(t.column), z(t.a.columns())));
        for (const int c : item.columns) {
          dense_[z(c)] += part_row_[z(c)];
          alone = std::max(alone, std::abs(part_row_[z(c)]));
        }
      }
      for (int c = 0; c < p.dof; ++c) {
        dense_[z(p.column + c)] += row[c];
        alone = std::max(alone, std::abs(row[c]));
      }
      for (int c = 0; c < 3; ++c) known += std::abs(row[c] * X_[k].a[c]) + std::abs(row[3 + c] * X_[k].alpha[c]);
    }
    // Two links of one multibody may have a direction in which none of its joints moves one against the other, as
    // across the plane of a planar loop: what is left of such a row is rounding, and to be no row at all (T6).
    double most = 0;
    for (const int c : item.columns) most = std::max(most, std::abs(dense_[z(c)]));
    const bool none = most <= engine_.options_.rank_tolerance * alone;
    if (none) {
      for (const int c : item.columns) dense_[z(c)] = 0;
      double& b = unit_.b[z(item.row + r)];
      if (std::abs(b) <= engine_.options_.rank_tolerance * known) b = 0;
    }
    append_row(item, none ? -1 : r);
    measure_row(item, r);
  }
  return true;
}

// The row in dense_, and what it is in the solver's columns: from the wrenches of its parts on their links, where it is
// such a row, which keeps digits that sums along the coordinates would lose.
void Multibodies::append_row(const Item& item, int row) {
  unit_.row_start.push_back(static_cast<int>(unit_.entries.size()));
  for (const int c : item.columns) unit_row_[z(c)] = dense_[z(c)];
  for (const Path& path : item.paths) {
    Tree& t = *trees_[z(path.tree)];
    const auto w = std::span(unit_row_).subspan(z(t.column), z(t.a.columns()));
    for (const int i : path.links) t.on[z(i + 1)].setZero();
    t.on[0].setZero();
    if (row >= 0) {
      for (const int c : item.columns)
        if (c >= t.column && c < t.column + t.a.columns()) unit_row_[z(c)] = 0;
      const std::size_t K = item.parts.size();
      for (std::size_t k = 0; k < K; ++k)
        if (item.parts[k].tree == path.tree)
          t.on[z(item.parts[k].link + 1)] += Eigen::Map<const Vector6>(item.A.data() + (z(row) * K + k) * 6);
    }
    t.a.to_unit(path.links, t.on, w);
  }
  for (const int c : item.columns) {
    entries_.push_back({c, dense_[z(c)]});
    unit_.entries.push_back({c, unit_row_[z(c)]});
  }
}

/// The largest residual of position that rows can do something about.
double Multibodies::gap() const {
  double most = 0;
  for (std::size_t r = 0; r < position_.size(); ++r)
    if (!silent_[r]) most = std::max(most, std::abs(position_[r]));
  return most;
}

// An initial gap, or one that the program made, is closed by moving, not by pushing (T12). What no motion closes, as a
// pin beyond the reach of its arm, stays open as it then is.
void Multibodies::close_gaps() {
  constexpr int most_long = 300;  // steps of a long way, after each of which Newton has all of its own again
  double moved = 0;
  for (int left = engine_.options_.max_newton, long_steps = 0; left > 0;) {
    const Approach approach = approach_gaps();
    if (failed_) return;
    if (approach.ends) break;
    moved = std::max(moved, approach.length);
    left = approach.on_a_long_way && long_steps++ < most_long ? engine_.options_.max_newton : left - 1;
  }
  if (gap() > engine_.options_.gap_tolerance)
    for (std::size_t r = 0; r < position_.size(); ++r) left_open_[r] = silent_[r] ? 0 : position_[r];
  if (moved == 0) return;
  ++engine_.counts_.gap_corrections;
  engine_.counts_.corrected = std::max(engine_.counts_.corrected, moved);
}

// One step of it. Never by far more than gaps are: what asks for that are rows that all but repeat others, as of a ball
// joint across the plane of hinges that are not quite parallel. Those are left out of this step, and their gap is said
// by name. Nor by turns so wide that rows say nothing of where they lead.
Multibodies::Approach Multibodies::approach_gaps() {
  constexpr double far = 100, widest_cut = 0.1, far_open = 1e-3, far_turn = 0.5;
  constexpr Approach ends{.ends = true};
  const double open = gap();
  if (open <= 0.01 * engine_.options_.gap_tolerance) return ends;
  for (std::size_t r = 0; r < position_.size(); ++r) e_[r] = -position_[r];
  hush(e_);
  solver_.apply(e_, {}, {}, dv_);
  from_unit(dv_);
  if (!finite(dv_)) return ends;
  half_ = dv_;  // the solves on the way have dv_ for themselves
  const double turn = turn_of(half_);
  double scale = turn > far_turn ? far_turn / turn : 1;
  const double length = reach(half_, scale);
  if (length <= 1e-3 * engine_.options_.gap_tolerance) return ends;  // what is left contradicts other rows
  if (!(length <= far * open)) {
    if (cut_ >= widest_cut) return ends;
    cut_ *= 10;
    if (!settle_rank()) fail("a number is not finite");
    return {};
  }
  if (!arrive(half_, scale) || open <= far_open) return {.length = length};
  for (const double least = 0.1 * scale; !(gap() < open) && scale > least; scale *= 0.5)
    if (!displace(half_, -0.5 * scale)) return ends;
  if (!(gap() < 0.99 * open)) {
    displace(half_, -scale);
    return ends;
  }
  return {.on_a_long_way = scale < 1, .length = length};
}

/// The widest angle [rad] by which a displacement turns a joint or a body.
double Multibodies::turn_of(std::span<const double> d) const {
  double most = 0;
  for (const auto& t : trees_) {
    if (t->column < 0) continue;
    const btMultiBody& body = t->a.body();
    if (t->a.first() == 0) most = std::max(most, head(d, t->column).norm());
    for (int i = 0; i < t->a.links(); ++i) {
      const btMultibodyLink& link = body.getLink(i);
      if (link.m_jointType == btMultibodyLink::ePrismatic) continue;
      for (int k = 0; k < link.m_dofCount; ++k)
        most = std::max(most, std::abs(d[z(t->column + 6 - t->a.first() + link.m_dofOffset + k)]));
    }
  }
  for (const Moving& b : moving_)
    if (b.dof == 6) most = std::max(most, head(d, b.column + 3).norm());
  return most;
}

/// How far such a displacement takes a centre of mass [m]; leaves where multibodies would be in their `end`.
double Multibodies::reach(std::span<const double> d, double scale) {
  double most = 0;
  for (auto& t : trees_) {
    if (t->column < 0) continue;
    velocities_of(*t, d, t->u);
    for (int k = 0; k < t->a.first(); ++k) t->u[z(k)] = 0;
    t->a.advance(t->a.start(), t->u, scale, t->end);
    t->a.place(t->end, t->u, t->at_end);
    for (std::size_t k = 0; k < t->at_end.size(); ++k)
      most = std::max(most, (t->at_end[k].p - t->a.places()[k].p).norm());
  }
  for (const Moving& b : moving_) most = std::max(most, std::abs(scale) * head(d, b.column).norm());
  return most;
}

/// Moves all by `scale` of a displacement and looks at the rows there. @return whether there is a problem there
bool Multibodies::displace(std::span<const double> d, double scale) {
  reach(d, scale);
  return arrive(d, scale);
}

/// The same where reach() has just looked.
bool Multibodies::arrive(std::span<const double> d, double scale) {
  for (auto& t : trees_) {
    if (t->column < 0) continue;
    t->a.write(t->end);
    t->a.capture();
    t->ready = false;
  }
  for (const Moving& b : moving_) {
    BodyState& s = engine_.state_[b.id];
    linchpin::advance(s, head(d, b.column), b.dof == 6 ? head(d, b.column + 3) : Vector3d::Zero(), scale);
    write_pose(b.body->getWorldTransform(), s.p, s.q);
  }
  states_at_start();
  return linearize();
}

// ---- velocities ----

void Multibodies::velocities_of(const Tree& t, std::span<const double> v, std::vector<double>& u) const {
  u.assign(t.a.u().begin(), t.a.u().end());
  for (int k = 0; k < t.a.columns(); ++k) u[z(t.a.first() + k)] = v[z(t.column + k)];
}

void Multibodies::row_velocities(std::span<const double> v, std::span<double> out) const {
  for (int r = 0; r < unit_.m(); ++r) {
    double sum = 0;
    for (int k = unit_.row_start[z(r)]; k < unit_.row_start[z(r + 1)]; ++k)
      sum += entries_[z(k)].value * v[z(entries_[z(k)].column)];
    out[z(r)] = sum;
  }
}

// What v leaves of the constraints at the step's end, as velocities; the largest of it times dt.
double Multibodies::residuals(std::span<const double> v, std::span<double> e) {
  double worst = 0;
  row_velocities(v, half_rows_);
  row_velocities(v0_, one_);
  for (const bool middle : {false, true}) {
    bool any = false;
    for (const Item& item : items_) any = any || (item.constraint->function().level() == Level::velocity) == middle;
    if (!any) continue;
    const double h = middle ? 0.5 * dt_ : dt_;
    for (auto& t : trees_) {
      if (t->column < 0) continue;
      velocities_of(*t, v, t->u);
      t->a.advance(t->a.start(), t->u, h, t->end);
      t->a.place(t->end, t->u, t->at_end);
    }
    for (const Moving& b : moving_) {
      const Vector3d u = head(v, b.column), w = b.dof == 6 ? head(v, b.column + 3) : Vector3d::Zero();
      const BodyState& from = engine_.base_[b.id];
      BodyState& to = engine_.end_[b.id];
      to.p = from.p + h * u;
      to.q = from.q;
      if (b.dof == 6) to.q = (host_rotation(w, h) * from.q).normalized();
      to.v = u;
      to.w = b.dof == 6 ? w : from.w;
    }
    for (const Item& item : items_) {
      const Level level = item.coordinates.empty() ? item.constraint->function().level() : Level::position;
      if ((level == Level::velocity) != middle) continue;
      const auto out = e.subspan(z(item.row), z(item.rows));
      if (level == Level::acceleration) {
        for (int r = item.row; r < item.row + item.rows; ++r) {
          e[z(r)] = dt_ * unit_.b[z(r)] - (half_rows_[z(r)] - one_[z(r)]);
          if (!silent_[z(r)]) worst = std::max(worst, std::abs(e[z(r)]) * dt_);
        }
        continue;
      }
      if (!item.coordinates.empty()) {
        double phi = -item.target;
        for (const Coordinate& c : item.coordinates) phi += c.factor * trees_[z(c.tree)]->end.joints[z(c.position)];
        out[0] = phi;
      } else {
        X_.clear();
        for (const Part& p : item.parts)
          X_.push_back(p.tree >= 0               ? state_of(p, true)
                       : p.id == linchpin::world ? BodyState{}
                       : p.dof > 0 || !middle    ? engine_.end_[p.id]
                                                 : engine_.base_[p.id]);
        try {
          item.constraint->function().residual(X_, engine_.t_ + h, out);
        } catch (...) {
          std::fill(out.begin(), out.end(), std::numeric_limits<double>::quiet_NaN());
        }
      }
      for (int r = item.row; r < item.row + item.rows; ++r) {
        double& x = e[z(r)];
        x -= left_open_[z(r)];
        if (!std::isfinite(x))
          worst = std::numeric_limits<double>::infinity();
        else if (!silent_[z(r)])
          worst = std::max(worst, std::abs(x) * (middle ? dt_ : 1));
        x = middle ? -x : -x / dt_;
      }
    }
  }
  return worst;
}

/// Corrects v until the step ends on the constraints, or where it is nearest to them if they contradict each other;
/// multipliers are added to impulse_. What residuals() has there is left in e_.
bool Multibodies::newton(std::span<double> v, double tolerance, int most) {
  const double round_off = 1e3 * tolerance;
  const bool full = solver_.full_row_rank();
  double last = std::numeric_limits<double>::infinity(), best = last;
  bool turns = false;
  secants_.begin();
  for (int i = 0, since = 0; i <= most; ++i) {
    const double worst = residuals(v, e_);
    if (worst <= tolerance) return true;
    if (!std::isfinite(worst)) break;
    hush(e_);
    solver_.apply(e_, lambda_, {}, dv_);
    from_unit(dv_);
    // Rows that depend on others may keep a residual: the least squares are where a solve moves nothing any more (T6).
    const double moves = largest(dv_);
    const bool rests =
        !full && (moves * dt_ <= tolerance || moves <= 64 * std::numeric_limits<double>::epsilon() * largest(v));
    const double left = rests ? 0 : full ? worst : moves * dt_;
    if (left < best) {
      best = left;
      best_v_.assign(v.begin(), v.end());
      best_impulse_ = impulse_;
      since = 0;
    } else if (++since > 5) {
      break;
    }
    if (rests || i == most) break;
    if (left > 0.5 * last) {
      if (best <= round_off) break;
      turns = true;  // within the step, as close to where the mechanism folds
    }
    last = left;
    half_ = dv_;
    secants_.improve<2>(full ? e_ : half_, {lambda_, dv_}, turns);
    ++engine_.counts_.newton;
    for (std::size_t k = 0; k < v.size(); ++k) v[k] += dv_[k];
    for (std::size_t r = 0; r < impulse_.size(); ++r) impulse_[r] += lambda_[r];
  }
  if (!std::isfinite(best)) return false;
  std::copy(best_v_.begin(), best_v_.end(), v.begin());
  impulse_ = best_impulse_;
  residuals(v, e_);
  return best <= engine_.options_.gap_tolerance;
}

// ---- between Bullet's iterations ----

void Multibodies::couple(Pools pools, btMultiBodyJacobianData& data, bool first) {
  if (!solved_ || (!first && !native_rows_)) return;
  for (const auto& t : trees_) {
    if (t->column < 0) continue;
    for (int k = 0; k < t->a.columns(); ++k) {
      const int i = t->a.first() + k;
      v_[z(t->column + k)] =
          double(t->a.body().getVelocityVector()[i]) + double(t->a.body().getDeltaVelocityVector()[i]);
    }
  }
  for (Moving& b : moving_) {
    const int index = b.body->getCompanionId();
    b.in_pool = index >= 0 && index < pools.bodies.size() && pools.bodies[index].m_originalBody == b.body;
    if (!b.in_pool) continue;
    const btSolverBody& sb = pools.bodies[index];
    if (first) {
      b.applied << from_bullet(sb.m_externalForceImpulse), from_bullet(sb.m_externalTorqueImpulse);
      b.own.setZero();
    }
    put(v_, b.column,
        from_bullet(sb.m_linearVelocity) + from_bullet(sb.m_externalForceImpulse) +
            from_bullet(sb.m_deltaLinearVelocity));
    if (b.dof == 6)
      put(v_, b.column + 3,
          from_bullet(sb.m_angularVelocity) + from_bullet(sb.m_externalTorqueImpulse) +
              from_bullet(sb.m_deltaAngularVelocity));
  }
  if (first) {
    std::fill(impulse_.begin(), impulse_.end(), 0.0);
    for (auto& t : trees_) std::fill(t->own.begin(), t->own.end(), 0.0);
    if (!native_rows_) return;  // finish() does it all
    // Native rows start from, and are kept to, the row velocities that end the step on the constraints.
    before_ = v_;
    if (bodies_.good) {
      for (std::size_t k = 0; k < v_.size(); ++k) v_[k] += dt_ * bodies_.dv[k];
      for (std::size_t r = 0; r < impulse_.size(); ++r) impulse_[r] = dt_ * bodies_.lambda[r];
    }
    newton(v_, 1e3 * engine_.options_.newton_tolerance, 6);
    row_velocities(v_, target_);
    for (std::size_t k = 0; k < v_.size(); ++k) dv_[k] = v_[k] - before_[k];
  } else {
    row_velocities(v_, e_);
    for (std::size_t r = 0; r < e_.size(); ++r) e_[r] = target_[r] - e_[r];
    hush(e_);
    solver_.apply(e_, lambda_, {}, dv_);
    from_unit(dv_);
    for (std::size_t r = 0; r < e_.size(); ++r) impulse_[r] += lambda_[r];
  }
  if (!finite(dv_)) return;
  for (auto& t : trees_) {
    if (t->column < 0) continue;
    narrow_.assign(z(t->a.rates()), 0);
    for (int k = 0; k < t->a.columns(); ++k) {
      const std::size_t i = z(t->a.first() + k);
      narrow_[i] = btScalar(dv_[z(t->column + k)]);
      t->own[i] += double(narrow_[i]);
    }
    t->a.body().applyDeltaVeeMultiDof2(narrow_.data(), 1);
    if (const int at = t->a.body().getCompanionId(); at >= 0)
      for (int i = 0; i < t->a.rates(); ++i) data.m_deltaVelocities[at + i] += narrow_[z(i)];
  }
  for (Moving& b : moving_) {
    if (!b.in_pool) continue;
    btSolverBody& sb = pools.bodies[b.body->getCompanionId()];
    const btVector3 v = to_bullet(head(dv_, b.column));
    sb.internalGetDeltaLinearVelocity() += v;
    b.own.head<3>() += from_bullet(v);
    if (b.dof != 6) continue;
    const btVector3 w = to_bullet(head(dv_, b.column + 3));
    sb.internalGetDeltaAngularVelocity() += w;
    b.own.tail<3>() += from_bullet(w);
  }
}

void Multibodies::look_for_rows(Pools pools) {
  native_rows_ = false;
  if (!solved_) return;
  const auto in_tree = [&](const btMultiBody* body) {
    const int at = body ? tree_of(body) : -1;
    return at >= 0 && trees_[z(at)]->column >= 0;
  };
  const auto in_body = [&](int index) {
    if (index < 0 || index >= pools.bodies.size()) return false;
    for (const Moving& b : moving_)
      if (pools.bodies[index].m_originalBody == b.body) return true;
    return false;
  };
  for (const btMultiBodyConstraintArray* rows : pools.link_rows)
    for (int i = 0; rows && i < rows->size() && !native_rows_; ++i) {
      const btMultiBodySolverConstraint& row = (*rows)[i];
      native_rows_ = row.m_multiBodyA ? in_tree(row.m_multiBodyA) : in_body(row.m_solverBodyIdA);
      native_rows_ = native_rows_ || (row.m_multiBodyB ? in_tree(row.m_multiBodyB) : in_body(row.m_solverBodyIdB));
    }
  if (moving_.empty()) return;
  for (const btConstraintArray* rows : {&pools.contacts, &pools.joints})
    for (int i = 0; i < rows->size() && !native_rows_; ++i)
      native_rows_ = in_body((*rows)[i].m_solverBodyIdA) || in_body((*rows)[i].m_solverBodyIdB);
}

namespace {

bool acts_along_joints(const btMultiBodyConstraint* c) {
  if (!c) return false;
  for (const std::type_info* type :
       {&typeid(btMultiBodyJointMotor), &typeid(btMultiBodyJointLimitConstraint), &typeid(btMultiBodyGearConstraint),
        &typeid(btMultiBodySphericalJointMotor), &typeid(btMultiBodySphericalJointLimit)})
    if (typeid(*c) == *type) return true;
  return false;
}

}  // namespace

void Multibodies::gather(const LinkRows& rows, const btMultiBodyJacobianData& data) {
  const btMultiBody* found = nullptr;  // rows of one body come in runs: it is not looked for again for each
  Tree* tree = nullptr;
  const auto add = [&](const btMultiBody* body, int jacobian, double impulse, std::vector<double> Tree::*sum) {
    if (!body) return;
    if (std::exchange(found, body) != body) {
      const int at = tree_of(body);
      tree = at >= 0 ? trees_[z(at)].get() : nullptr;
    }
    if (!tree || !tree->captured || !tree->a.same_shape()) return;
    std::vector<double>& to = tree->*sum;
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] += impulse * double(data.m_jacobians[jacobian + static_cast<int>(i)]);
  };
  // Bullet writes rows along joints back as couples on two links, from outside; they go through the joint.
  const auto add_within = [&](const btMultiBody* body, int link, const btVector3& force, const btVector3& moment) {
    const int at = body ? tree_of(body) : -1;
    if (at < 0 || !trees_[z(at)]->captured || !trees_[z(at)]->a.same_shape()) return;
    Wrench& to = trees_[z(at)]->within[z(link + 1)];
    to.force += from_bullet(force);
    to.moment += from_bullet(moment);
  };
  for (std::size_t kind = 0; kind < rows.size(); ++kind)
    for (int i = 0; rows[kind] && i < rows[kind]->size(); ++i) {
      const btMultiBodySolverConstraint& row = (*rows[kind])[i];
      if (kind == 0 && acts_along_joints(row.m_orgConstraint)) {
        const btScalar f = row.m_appliedImpulse / btScalar(dt_);
        add_within(row.m_multiBodyA, row.m_linkA, row.m_contactNormal1 * f, row.m_relpos1CrossNormal * f);
        add_within(row.m_multiBodyB, row.m_linkB, row.m_contactNormal2 * f, row.m_relpos2CrossNormal * f);
      }
      const auto sum = kind == 0 ? &Tree::joint_rows : kind == 1 ? &Tree::contact : &Tree::friction;
      add(row.m_multiBodyA, row.m_jacAindex, double(row.m_appliedImpulse), sum);
      add(row.m_multiBodyB, row.m_jacBindex, double(row.m_appliedImpulse), sum);
    }
}

void Multibodies::drop(btMultiBodyJacobianData& data) {
  for (auto& t : trees_)
    if (const int at = t->a.body().getCompanionId(); at >= 0 && at + t->a.rates() <= data.m_deltaVelocities.size())
      t->a.body().applyDeltaVeeMultiDof2(&data.m_deltaVelocities[at], -1);
}

// ---- the end of the step ----

void Multibodies::finish() {
  if (batched_) world_.getSolverInfo().m_minimumSolverBatchSize = batch_;
  batched_ = false;
  joints_told_ = false;
  for (auto& t : trees_) {
    if (!t->captured) continue;
    btMultiBody& body = t->a.body();
    t->others.assign(z(t->a.links() + 1), Wrench{});
    for (int i = 0; i < t->a.links(); ++i) {
      t->others[z(i + 1)].force = from_bullet(body.getLink(i).m_appliedConstraintForce);
      t->others[z(i + 1)].moment = from_bullet(body.getLink(i).m_appliedConstraintTorque);
    }
    for (int i = 0; i < t->a.rates(); ++i)
      t->host[z(i)] = (double(body.getDeltaVelocityVector()[i]) - t->own[z(i)]) / dt_;
  }
  if (!solved_) return;
  for (const auto& t : trees_) {
    if (t->column < 0) continue;
    for (int k = 0; k < t->a.columns(); ++k) {
      const int i = t->a.first() + k;
      v_[z(t->column + k)] =
          double(t->a.body().getVelocityVector()[i]) + double(t->a.body().getDeltaVelocityVector()[i]);
    }
  }
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
  bool good = finite(v_);
  if (good && !native_rows_) {
    for (std::size_t k = 0; k < v_.size(); ++k) v_[k] += dt_ * force_[k];
    for (std::size_t r = 0; r < impulse_.size(); ++r) impulse_[r] = dt_ * one_report_[r];
    if (bodies_.good) {  // from our own numbers: what sticks rests to the last bit, in single precision too
      for (std::size_t k = 0; k < v_.size(); ++k) v_[k] = v0_[k] + dt_ * (free_[k] + force_[k] + bodies_.dv[k]);
      for (std::size_t r = 0; r < impulse_.size(); ++r) impulse_[r] += dt_ * bodies_.lambda[r];
    }
  } else if (good && bodies_.present) {
    for (std::size_t k = 0; k < v_.size(); ++k) v_[k] += dt_ * (bodies_.dv[k] - bodies_.first_dv[k]);
    for (std::size_t r = 0; r < impulse_.size(); ++r)
      impulse_[r] += dt_ * (bodies_.lambda[r] - bodies_.first_lambda[r]);
  }
  before_newton_ = v_;
  if (good && engine_.options_.drift_correction) {
    double extent = 0;  // poses far out are no better than their own rounding
    for (const auto& t : trees_)
      if (t->column >= 0)
        for (const auto& p : t->a.places()) extent = std::max(extent, p.p.cwiseAbs().maxCoeff());
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
      solver_.apply(e_, impulse_, {}, dv_);
      from_unit(dv_);
      for (std::size_t k = 0; k < v_.size(); ++k) v_[k] += dv_[k];
      std::fill(e_.begin(), e_.end(), 0.0);
    }
    // What contradicts others is known by what is left of it.
    for (const Item& item : items_)
      for (int r = item.row; r < item.row + item.rows; ++r)
        if (std::abs(e_[z(r)]) * dt_ + std::abs(left_open_[z(r)]) > engine_.options_.gap_tolerance)
          engine_.records_[z(item.record)].unmet = true;
  }
  good = good && finite(v_);
  if (!good) {
    ++engine_.counts_.non_finite;
    engine_.trouble_ = "links of multibodies: velocities that are not finite were kept from the world";
    told_ = false;
    return;
  }
  for (auto& t : trees_) {
    if (t->column < 0) continue;
    narrow_.assign(z(t->a.rates()), 0);
    bool clamped = false;
    const double most = double(t->a.body().getMaxCoordinateVelocity());
    for (int k = 0; k < t->a.columns(); ++k) {
      narrow_[z(t->a.first() + k)] = btScalar(v_[z(t->column + k)] - before_[z(t->column + k)]);
      clamped = clamped || std::abs(v_[z(t->column + k)]) > most;
    }
    t->a.body().applyDeltaVeeMultiDof2(narrow_.data(), 1);
    if (clamped)
      engine_.trouble_ =
          "links of multibodies: a velocity beyond the multibody's largest (setMaxCoordinateVelocity), at "
          "which Bullet clamps it";
  }
  for (const Moving& b : moving_) {
    b.body->setLinearVelocity(to_bullet(head(v_, b.column)));
    if (b.dof == 6) b.body->setAngularVelocity(to_bullet(head(v_, b.column + 3)));
  }
  tell_forces();
  // Work of the impulses with the mean velocity (T11).
  for (std::size_t k = 0; k < v_.size(); ++k) half_[k] = 0.5 * (v0_[k] + v_[k]);
  row_velocities(half_, e_);
  for (const Item& item : items_)
    if (const int at = record(item).reaction; at >= 0)
      for (int r = item.row; r < item.row + item.rows; ++r) engine_.reactions_[z(at)].work += impulse_[z(r)] * e_[z(r)];
  book_laws();
  release_one_sided();
  told_ = false;
}

// The instantaneous forces (T5) at the step's start, with what native rows did as a mean force (T11).
void Multibodies::solve_report() {
  for (const auto& t : trees_)
    for (int k = 0; t->column >= 0 && k < t->a.columns(); ++k) free_[z(t->column + k)] += t->host[z(t->a.first() + k)];
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

// Accelerations and what acts on the links, for the sensors in joints.
void Multibodies::tell_forces() {
  const bool laws = bodies_.good;
  for (auto& t : trees_) {
    if (t->column < 0) continue;
    t->vdot.resize(z(t->a.columns()));
    for (int k = 0; k < t->a.columns(); ++k) {
      const std::size_t c = z(t->column + k);
      t->vdot[z(k)] = free_[c] + force_[c] + (laws ? bodies_.dv[c] : 0);
    }
  }
  for (const Item& item : items_) {
    if (!item.coordinates.empty()) continue;
    for (std::size_t k = 0; k < item.parts.size(); ++k) {
      const Part& p = item.parts[k];
      if (p.tree < 0) continue;
      Vector6 w = wrench_on(item, static_cast<int>(k), one_report_);
      if (laws) w += wrench_on(item, static_cast<int>(k), bodies_.lambda);
      Wrench& on = trees_[z(p.tree)]->others[z(p.link + 1)];
      on.force += w.head<3>();
      on.moment += w.tail<3>();
    }
  }
  if (!laws) return;
  // And what laws prescribe between links; in a joint of a multibody it is part of what goes through the joint.
  for (const Dynamics::Prescribed& p : bodies_.dynamics->prescribed()) {
    const int index = bodies_.record_of[z(p.constraint)];
    if (index < 0 || engine_.records_[z(index)].in_tree) continue;
    const auto ids =
        engine_.system_.constraint(bodies_.dynamics->assembly().block.constraints[z(p.constraint)]).bodies();
    for (std::size_t k = 0; k < std::min<std::size_t>(2, ids.size()); ++k) {
      if (!is_link(ids[k])) continue;
      const LinkId& link = link_of_id_[z(ids[k].index)];
      Wrench& on = trees_[z(tree_of(link.body))]->others[z(link.link + 1)];
      const Wrench w = Wrench{p.force, p.moment, p.p_WQ}.about(engine_.state_[ids[k]].p);
      on.force += k == 0 ? w.force : Vector3d(-w.force);
      on.moment += k == 0 ? w.moment : Vector3d(-w.moment);
    }
  }
}

Vector6 Multibodies::wrench_on(const Item& item, int k, std::span<const double> lambda) const {
  Vector6 out = Vector6::Zero();
  if (!item.coordinates.empty()) {  // along the joint's axis, on its link
    const Coordinate& c = item.coordinates[z(k)];
    const Part& p = item.parts[z(k)];
    const btMultibodyLink& link = trees_[z(p.tree)]->a.body().getLink(p.link);
    const Matrix3d& R = trees_[z(p.tree)]->a.places()[z(p.link + 1)].R;
    const double size = lambda[z(item.row)] * c.factor;
    if (link.m_jointType == btMultibodyLink::ePrismatic)
      out.head<3>() = size * (R * from_bullet(link.getAxisBottom(0)));
    else
      out.tail<3>() = size * (R * from_bullet(link.getAxisTop(0)));
    return out;
  }
  const std::size_t K = item.parts.size();
  for (int r = 0; r < item.rows; ++r)
    for (int c = 0; c < 6; ++c) out[c] += item.A[(z(r) * K + z(k)) * 6 + z(c)] * lambda[z(item.row + r)];
  return out;
}

void Multibodies::after_step() {
  if (!solved_) return;
  for (auto& t : trees_) {
    if (t->column < 0) continue;
    t->after.capture();
    t->after.place(t->after.start(), t->after.u(), t->at_end);
    t->end = t->after.start();
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
      engine_.max_gap_ = std::max(engine_.max_gap_, to.gap);
      engine_.max_angle_ = std::max(engine_.max_angle_, to.gap_angle);
    }
    function.accept(X_, engine_.t_);
  }
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
