// What is told of constraints on links: reactions, rank, the sensors in joints, energy.
#include "multibody.h"

#include "bodies.h"

#include <Eigen/Cholesky>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

void Multibodies::tell() {
  if (!told_ && solved_) tell_constraints();
  told_ = true;
  if (std::exchange(joints_told_, true)) return;
  for (Record& r : engine_.records_)
    if (r.alive && r.in_tree && r.reaction >= 0) tell_joint(r, engine_.reactions_[z(r.reaction)]);
}

// A joint of a multibody that has a name: what holds it, which is all that goes through it but for what acts along it.
// Laws and what they call up are told apart where there are any.
void Multibodies::tell_joint(const Record& r, Reaction& to) {
  const LinkId& of = link_of_id_[z(r.waiting->bodies()[1].index)];
  Tree* t = nullptr;
  to.native = !told_tree("reaction", {of.body, of.link}, t).empty();
  if (to.native) return;
  to.t = engine_.state_.t;
  to.lambda.clear();
  to.power = to.gap = to.gap_angle = to.residual = to.velocity_residual = 0;
  if (bodies_.good && solved_ && t->column >= 0) {
    for (std::size_t i = 0; i < bodies_.record_of.size(); ++i) {
      const int record = bodies_.record_of[i];
      if (record < 0 || &engine_.records_[z(record)] != &r) continue;
      const Reaction& from = bodies_.reactions[i];
      static_cast<Wrenches&>(to) = from;
      to.ideal = from.ideal;
      to.prescribed = from.prescribed;
      to.induced = from.induced;
      to.power = from.power;
    }
  } else {
    Wrench w = t->a.through_joint(of.link, t->vdot, t->others);
    const btMultibodyLink& own = of.body->getLink(of.link);
    const Matrix3d& R = t->a.places()[z(of.link + 1)].R;
    if (own.m_jointType == btMultibodyLink::eRevolute) {
      const Vector3d u = R * from_bullet(own.getAxisTop(0)).normalized();
      w.moment -= u.dot(w.moment) * u;
    } else if (own.m_jointType == btMultibodyLink::ePrismatic) {
      const Vector3d u = R * from_bullet(own.getAxisBottom(0)).normalized();
      w.force -= u.dot(w.force) * u;
    } else if (own.m_jointType == btMultibodyLink::eSpherical) {
      w.moment.setZero();
    }
    to.on_b = to.ideal.on_b = w;
    to.on_a = to.ideal.on_a = Wrench{-w.force, -w.moment, w.point};
    for (Wrenches* none : {&to.prescribed, &to.induced})
      none->on_a = none->on_b = Wrench{Vector3d::Zero(), Vector3d::Zero(), w.point};
  }
  to.stabilisation.on_a = to.stabilisation.on_b = Wrench{Vector3d::Zero(), Vector3d::Zero(), to.on_b.point};
}

void Multibodies::tell_constraints() {
  const bool laws = bodies_.good;
  for (std::size_t r = 0; r < impulse_.size(); ++r)
    lambda_[r] = impulse_[r] / dt_ - one_report_[r] - (laws ? bodies_.lambda[r] : 0);
  if (laws) bodies_.dynamics->reactions(engine_.state_, bodies_.reactions, false);
  for (const Item& item : items_) {
    const Record& r = record(item);
    if (r.reaction < 0) continue;
    Reaction& to = engine_.reactions_[z(r.reaction)];
    to.t = instant_.t;
    to.native = false;
    to.lambda.assign(one_report_.begin() + item.row, one_report_.begin() + item.row + item.rows);
    to.power = to.velocity_residual = 0;
    const int K = static_cast<int>(item.parts.size());
    for (Wrenches* w : {static_cast<Wrenches*>(&to), &to.ideal, &to.prescribed, &to.induced, &to.stabilisation})
      w->others.resize(z(std::max(0, K - 2)));
    for (int k = 0; k < K; ++k) {
      const Part& p = item.parts[z(k)];
      const BodyState s = p.id == linchpin::world ? BodyState{} : engine_.state_[p.id];
      Vector3d point = s.p;
      if (!item.coordinates.empty())
        point = trees_[z(p.tree)]->a.places()[z(p.link + 1)].pivot;
      else
        point = item.constraint->acting_point(k, engine_.state_);
      const auto at = [&](std::span<const double> lambda) {
        const Vector6 f = wrench_on(item, k, lambda);
        return Wrench{f.head<3>(), f.tail<3>(), s.p}.about(point);
      };
      to.on(k) = to.ideal.on(k) = at(one_report_);
      to.stabilisation.on(k) = at(lambda_);
      to.prescribed.on(k) = to.induced.on(k) = Wrench{Vector3d::Zero(), Vector3d::Zero(), point};
      if (!laws) continue;
      to.induced.on(k) = at(bodies_.lambda);
      to.on(k).force += to.induced.on(k).force;
      to.on(k).moment += to.induced.on(k).moment;
    }
    for (int i = item.row; i < item.row + item.rows; ++i)
      to.velocity_residual = std::max(to.velocity_residual, std::abs(velocity_[z(i)]));
    row_velocities(v0_, e_);
    for (int i = item.row; i < item.row + item.rows; ++i)
      to.power += (one_report_[z(i)] + (laws ? bodies_.lambda[z(i)] : 0)) * e_[z(i)];
  }
  if (!laws) return;
  for (std::size_t i = 0; i < bodies_.record_of.size(); ++i) {
    if (bodies_.record_of[i] < 0) continue;
    const Record& r = engine_.records_[z(bodies_.record_of[i])];
    if (!r.alive || r.reaction < 0 || r.in_tree) continue;
    Reaction& to = engine_.reactions_[z(r.reaction)];
    const auto ids = (r.by_links ? engine_.system_.constraint(r.id) : *r.waiting).bodies();
    for (std::size_t k = 0; k < std::min<std::size_t>(2, ids.size()); ++k) {
      const int side = static_cast<int>(k);
      const Wrench w = bodies_.reactions[i].prescribed.on(side).about(to.on(side).point);
      to.prescribed.on(side) = w;
      to.on(side).force += w.force;
      to.on(side).moment += w.moment;
      const BodyState& s = engine_.state_[ids[k]];
      if (ids[k] != linchpin::world) to.power += w.force.dot(s.v) + w.about(s.p).moment.dot(s.w);
    }
  }
}

RankReport Multibodies::rank_report() const {
  RankReport out;
  if (!solved_) return out;
  out = solver_.report(instant_.b);
  const auto named = [&](std::vector<int>& of) {
    std::vector<int> at;
    for (const int i : of)
      if (const int reaction = record(items_[z(i)]).reaction; reaction >= 0) at.push_back(reaction);
    of = at;
  };
  named(out.redundant);
  named(out.undetermined);
  out.contradictory.clear();  // found with the forces: Record::unmet
  return out;
}

void Multibodies::tell_flags() {
  if (!solved_ || flags_rank_ == solver_.rank()) return;
  flags_rank_ = solver_.rank();
  for (const Item& item : items_)
    if (const int at = record(item).reaction; at >= 0) {
      engine_.reactions_[z(at)].determined = true;
      engine_.reactions_[z(at)].redundant = false;
    }
  if (solver_.full_row_rank()) return;
  const RankReport ranks = rank_report();
  for (const int i : ranks.redundant) engine_.reactions_[z(i)].redundant = true;
  for (const int i : ranks.undetermined) engine_.reactions_[z(i)].determined = false;
}

double Multibodies::energy() const {
  double sum = 0;
  const Vector3d g = from_bullet(world_.getGravity());
  for (int i = 0; i < world_.getNumMultibodies(); ++i) {
    Articulated a(*world_.getMultiBody(i));
    a.capture();
    a.refresh();
    sum += a.kinetic();
    for (int k = a.first() > 0 ? 0 : -1; k < a.links(); ++k) sum -= a.mass(k) * g.dot(a.places()[z(k + 1)].p);
  }
  return sum;
}

// The multibody of a joint that is asked about, with the accelerations of the last step.
std::string Multibodies::told_tree(const char* verb, const Link& link, Tree*& out) {
  const std::string who = std::string("linchpin: ") + verb + ": ";
  const int at = tree_of(link.body);
  if (at < 0) return who + "the multibody is not in the world";
  Tree& t = *trees_[z(at)];
  if (link.index < 0 || link.index >= t.a.links())
    return who + "the multibody has no joint " + std::to_string(link.index);
  if (const std::string why = t.a.unsupported(); !why.empty()) return who + why;
  if (!t.captured || t.others.empty()) return who + "no step has been taken yet";
  if (!t.told && (t.column < 0 || !solved_)) {
    const int n = t.a.columns();
    t.a.refresh();
    t.vdot.assign(z(n), 0);
    if (!t.slept && n > 0) {
      t.a.applied(t.vdot);
      Eigen::Map<Eigen::VectorXd> x(t.vdot.data(), n);
      x = Eigen::Map<const Eigen::MatrixXd>(t.a.M().data(), n, n).ldlt().solve(x.eval()).eval();
      for (int k = 0; k < n; ++k) t.vdot[z(k)] += t.host[z(t.a.first() + k)];
    }
  }
  t.told = true;
  out = &t;
  return {};
}

std::string Multibodies::joint_wrench(const Link& link, Wrench& out) {
  Tree* t = nullptr;
  if (std::string why = told_tree("joint_wrench", link, t); !why.empty()) return why;
  out = t->a.through_joint(link.index, t->vdot, t->others);
  return {};
}

std::string Multibodies::joint_forces(const Link& link, JointForces& out) {
  Tree* t = nullptr;
  if (std::string why = told_tree("joint_forces", link, t); !why.empty()) return why;
  const Articulated& a = t->a;
  const btMultibodyLink& joint = link.body->getLink(link.index);
  const int n = a.columns();
  Articulated::Causes causes;
  a.causes(from_bullet(world_.getGravity()), causes);
  std::vector<double> exact(z(n), 0.0);
  for (int r = 0; solved_ && t->column >= 0 && r < instant_.m(); ++r)
    for (int k = instant_.row_start[z(r)]; k < instant_.row_start[z(r + 1)]; ++k)
      if (const int c = instant_.entries[z(k)].column - t->column; c >= 0 && c < n)
        exact[z(c)] += instant_.entries[z(k)].value * (one_report_[z(r)] + (bodies_.good ? bodies_.lambda[z(r)] : 0));
  for (int k = 0; k < joint.m_dofCount; ++k) {
    const int rate = 6 + joint.m_dofOffset + k, column = rate - a.first();
    out.gravity[k] = causes.gravity[z(column)];
    out.velocity[k] = causes.velocity[z(column)];
    out.damping[k] = causes.damping[z(column)];
    out.applied[k] = causes.applied[z(column)];
    out.constraint[k] = exact[z(column)];
    if (bodies_.good && solved_ && t->column >= 0) out.laws[k] = bodies_.c[z(t->column + column)];
    out.contact[k] = t->contact[z(rate)] / dt_;
    out.friction[k] = t->friction[z(rate)] / dt_;
    out.native[k] = t->joint_rows[z(rate)] / dt_;
    for (int i = 0; i < n; ++i) out.inertia[k] += a.M()[z(column) * z(n) + z(i)] * t->vdot[z(i)];
  }
  if (t->slept) out.native = -(out.gravity + out.velocity + out.damping + out.applied + out.constraint);
  return {};
}

std::vector<Solver::Finding> Multibodies::check() {
  std::vector<Solver::Finding> out;
  tell();
  solved_ = false;
  changed_ = true;
  scan();
  lay_out();
  if (!active_) return out;
  for (auto& t : trees_) t->a.capture();
  states_at_start();
  engine_.state_.t = engine_.t_;
  for (const Item& item : items_) {
    const Record& r = record(item);
    if (!r.on_links || !item.coordinates.empty()) continue;
    const ConstraintCheck found = check_constraint(engine_.system_, *item.constraint, engine_.state_);
    if (!found.finite || std::max({found.error_A, found.error_b, found.error_velocity}) > 1e-4)
      out.push_back({r.name, found.message});
    if (found.residual > 1e-6) out.push_back({r.name, "starts " + std::to_string(found.residual) + " off"});
  }
  return out;
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
