// What is told of constraints on links: reactions, rank, the sensors in joints, energy.
#include "multibody.h"

#include "bodies.h"

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {

// out += Aᵀλ of a multibody's columns, from `first` on. @param entries  of A, laid out as those of `rows`
template <class Multiplier>
void pull(const Instant& rows, std::span<const Instant::Entry> entries, int first, const Multiplier& lambda,
          std::span<double> out) {
  for (int r = 0; r < rows.m(); ++r)
    for (int k = rows.row_start[z(r)]; k < rows.row_start[z(r + 1)]; ++k)
      if (const int c = entries[z(k)].column - first; c >= 0 && c < static_cast<int>(out.size()))
        out[z(c)] += entries[z(k)].value * lambda(r);
}

}  // namespace

void Multibodies::tell() {
  if (!told_ && solved_) tell_constraints();
  told_ = true;
  if (std::exchange(joints_told_, true)) return;
  for (Record& r : engine_.records_)
    if (r.alive && r.in_tree && r.reaction >= 0) tell_joint(r, engine_.reactions_[z(r.reaction)]);
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
  for (const Prescribed& p : bodies_.dynamics->prescribed()) {
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
    const articulated::LinkModel& link = trees_[z(p.tree)]->a.link(p.link);
    const Matrix3d& R = trees_[z(p.tree)]->a.motions()[z(p.link + 1)].R;
    const double size = lambda[z(item.row)] * c.factor;
    if (link.joint == articulated::JointKind::prismatic)
      out.head<3>() = size * (R * link.linear[0]);
    else
      out.tail<3>() = size * (R * link.angular[0]);
    return out;
  }
  const std::size_t K = item.parts.size();
  for (int r = 0; r < item.rows; ++r)
    for (int c = 0; c < 6; ++c) out[c] += item.A[(z(r) * K + z(k)) * 6 + z(c)] * lambda[z(item.row + r)];
  return out;
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
  to.stabilisation.on_a = to.stabilisation.on_b = Wrench{};
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
      to.stabilisation = from.stabilisation;
    }
  } else {
    const Wrench w = t->a.without_free_part(of.link, through(*t)[z(of.link + 1)]);
    to.on_b = to.ideal.on_b = w;
    to.on_a = to.ideal.on_a = Wrench{-w.force, -w.moment, w.point};
    for (Wrenches* none : {&to.prescribed, &to.induced})
      none->on_a = none->on_b = Wrench{Vector3d::Zero(), Vector3d::Zero(), w.point};
    to.stabilisation.on_a = to.stabilisation.on_b = Wrench{Vector3d::Zero(), Vector3d::Zero(), w.point};
  }
  if (!solved_ || t->column < 0) return;
  const Wrench w = t->a.without_free_part(of.link, corrected(*t)[z(of.link + 1)]).about(to.on_b.point);
  const Wrenches of_laws = std::exchange(to.stabilisation, {});  // what laws do in the step beyond its start
  to.stabilisation.on_b = Wrench{of_laws.on_b.force + w.force, of_laws.on_b.moment + w.moment, w.point};
  to.stabilisation.on_a = Wrench{of_laws.on_a.force - w.force, of_laws.on_a.moment - w.moment, w.point};
}

void Multibodies::tell_constraints() {
  const bool laws = bodies_.good;
  if (laws) bodies_.dynamics->reactions(engine_.state_, bodies_.reactions, false);
  for (const Item& item : items_) {
    const Record& r = record(item);
    if (r.reaction < 0) continue;
    Reaction& to = engine_.reactions_[z(r.reaction)];
    to.t = unit_.t;
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
        point = trees_[z(p.tree)]->a.motions()[z(p.link + 1)].pivot;
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
    for (std::size_t k = 0; k < ids.size(); ++k) {  // what laws do in the step beyond its start
      Wrench& sum = to.stabilisation.on(static_cast<int>(k));
      const Wrench of_laws = bodies_.reactions[i].stabilisation.on(static_cast<int>(k)).about(sum.point);
      sum.force += of_laws.force;
      sum.moment += of_laws.moment;
    }
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
  out = solver_.report(unit_.b);
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

Instant Multibodies::instant() const {
  Instant out = unit_;
  out.entries = entries_;
  out.block_sizes.clear();
  out.mass.clear();
  std::vector<double> M;
  for (const auto& t : trees_) {
    if (t->column < 0) continue;
    t->a.generalized_force(std::span(out.Q).subspan(z(t->column), z(t->a.columns())));
    t->a.mass_matrix(M);
    int at = 0;
    for (const int size : t->a.mass_block_sizes()) {
      if (size > 0) out.block_sizes.push_back(size);
      for (int r = at; r < at + size; ++r) {
        const auto row = std::span(M).subspan(z(r) * z(t->a.columns()) + z(at), z(size));
        out.mass.insert(out.mass.end(), row.begin(), row.end());
      }
      at += size;
    }
  }
  for (const Moving& b : moving_) out.block_sizes.push_back(b.dof);
  out.mass.insert(out.mass.end(), unit_.mass.begin() + static_cast<std::ptrdiff_t>(mass_of_bodies()), unit_.mass.end());
  return out;
}

double Multibodies::energy() const {
  double sum = 0;
  const Vector3d g = from_bullet(world_.getGravity());
  for (int i = 0; i < world_.getNumMultibodies(); ++i) {
    KinematicTree a(host_rotation);
    read_tree(*world_.getMultiBody(i), a);
    a.factorize();
    sum += a.kinetic_energy();
    for (int k = a.fixed_velocities() > 0 ? 0 : -1; k < a.links(); ++k)
      sum -= a.model().mass(k) * g.dot(a.motions()[z(k + 1)].p);
  }
  return sum;
}

// The multibody of a joint that is asked about, with the accelerations of the last step.
std::string Multibodies::told_tree(const char* verb, const Link& link, Tree*& out) {
  const auto who = [&] { return std::string("linchpin: ") + verb + ": "; };
  const int at = tree_of(link.body);
  if (at < 0) return who() + "the multibody is not in the world";
  Tree& t = *trees_[z(at)];
  if (link.index < 0 || link.index >= t.a.links())
    return who() + "the multibody has no joint " + std::to_string(link.index);
  if (const std::string why = why_unsupported(*t.body); !why.empty()) return who() + why;
  if (!t.captured || t.others.empty()) return who() + "no step has been taken yet";
  if (!t.told && (t.column < 0 || !solved_)) {
    const int n = t.a.columns();
    t.vdot.assign(z(n), 0);
    if (!ready(t).good) return who() + "the mass matrix of the multibody is not positive definite";
    for (int k = 0; !t.slept && k < n; ++k) t.vdot[z(k)] = t.free[z(k)] + t.host[z(t.a.fixed_velocities() + k)];
  }
  t.told = true;
  out = &t;
  return {};
}

std::string Multibodies::joint_wrench(const Link& link, Wrench& out) {
  Tree* t = nullptr;
  if (std::string why = told_tree("joint_wrench", link, t); !why.empty()) return why;
  out = through(*t)[z(link.index + 1)];
  return {};
}

// All joints at once when one is asked about: who asks about one mostly asks about all.
const std::vector<Wrench>& Multibodies::through(Tree& t) {
  if (std::exchange(t.told_wrenches, true)) return t.through;
  t.outside = t.others;
  for (std::size_t i = 0; i < t.outside.size(); ++i) {
    t.outside[i].force -= t.within[i].force;
    t.outside[i].moment -= t.within[i].moment;
  }
  t.a.joint_wrenches(t.vdot, t.outside, t.through);
  return t.through;
}

// Through the joints, by what constraints gave beyond their reactions to end the step where they are met (T11): their
// multipliers are in lambda_.
const std::vector<Wrench>& Multibodies::corrected(Tree& t) {
  std::vector<Wrench>& out = t.correction;
  if (std::exchange(t.told_corrected, true)) return out;
  const auto dv = std::span(dv_).subspan(z(t.column), z(t.a.columns()));
  std::fill(dv.begin(), dv.end(), 0.0);
  pull(
      unit_, unit_.entries, t.column, [&](int r) { return lambda_[z(r)]; }, dv);
  t.a.solve_factor_transposed(dv);
  out.assign(z(t.a.links() + 1), Wrench{});
  for (const Item& item : items_)
    for (std::size_t k = 0; item.coordinates.empty() && k < item.parts.size(); ++k) {
      const Part& p = item.parts[k];
      if (p.tree < 0 || trees_[z(p.tree)].get() != &t) continue;
      const Vector6 w = wrench_on(item, static_cast<int>(k), lambda_);
      out[z(p.link + 1)].force += w.head<3>();
      out[z(p.link + 1)].moment += w.tail<3>();
    }
  t.a.joint_wrenches_at_rest(dv, out, out);
  return out;
}

void Multibodies::tell_causes(Tree& t) {
  if (std::exchange(t.told_causes, true)) return;
  const int n = t.a.columns();
  t.a.forces_by_cause(from_bullet(world_.getGravity()), t.causes);
  t.inertia.assign(z(n), 0);
  t.a.times_mass(t.vdot, t.inertia);
  t.exact.assign(z(n), 0);
  if (solved_ && t.column >= 0)
    pull(
        unit_, entries_, t.column, [&](int r) { return one_report_[z(r)] + (bodies_.good ? bodies_.lambda[z(r)] : 0); },
        t.exact);
}

std::string Multibodies::joint_forces(const Link& link, JointForces& out) {
  Tree* t = nullptr;
  if (std::string why = told_tree("joint_forces", link, t); !why.empty()) return why;
  tell_causes(*t);
  const KinematicTree& a = t->a;
  const btMultibodyLink& joint = link.body->getLink(link.index);
  for (int k = 0; k < joint.m_dofCount; ++k) {
    const int rate = 6 + joint.m_dofOffset + k, column = rate - a.fixed_velocities();
    out.gravity[k] = t->causes.gravity[z(column)];
    out.velocity[k] = t->causes.velocity[z(column)];
    out.damping[k] = t->causes.damping[z(column)];
    out.applied[k] = t->causes.applied[z(column)];
    out.constraint[k] = t->exact[z(column)];
    out.inertia[k] = t->inertia[z(column)];
    if (bodies_.good && solved_ && t->column >= 0) out.laws[k] = bodies_.c[z(t->column + column)];
    out.contact[k] = t->contact[z(rate)] / dt_;
    out.friction[k] = t->friction[z(rate)] / dt_;
    out.native[k] = t->joint_rows[z(rate)] / dt_;
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
  for (auto& t : trees_) {
    read_tree(*t->body, t->a);
    t->ready = false;
  }
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
