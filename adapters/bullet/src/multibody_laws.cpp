// Laws on constraints between links and on the joints of multibodies. What a law reads is a reaction, and joint
// coordinates know none of their own joints: the problem is solved once more with every link a body of its own and
// every joint a constraint, to the same accelerations, by the core, which also decides who sticks (T9, T10). What the
// laws prescribe there is then a force among others on the links.
#include "multibody.h"

#include "bodies.h"
#include "columns.h"

#include <algorithm>
#include <limits>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {

Matrix3d with_x(const Vector3d& x) {
  Matrix3d R;
  const Vector3d u = x.normalized(), e = u.unitOrthogonal();
  R << u, e, u.cross(e);
  return R;
}

}  // namespace

// ---- what there is ----

// A multibody's joint as the constraint that its coordinates keep.
Constraint Multibodies::joint_of(const Link& link, const std::string& name, BodyId parent, BodyId child) const {
  const btMultibodyLink& own = link.body->getLink(link.index);
  const btQuaternion& turn = own.m_zeroRotParentToThis;
  const Matrix3d to_parent = Quaterniond(double(turn.w()), double(turn.x()), double(turn.y()), double(turn.z()))
                                 .normalized()
                                 .toRotationMatrix()
                                 .transpose();
  const Vector3d p_A = from_bullet(own.m_eVector), p_B = -from_bullet(own.m_dVector);
  if (own.m_jointType == btMultibodyLink::eRevolute) {
    const Vector3d axis = from_bullet(own.getAxisTop(0));
    return hinge(name, parent, p_A, to_parent * axis, child, p_B, axis);
  }
  if (own.m_jointType == btMultibodyLink::eSpherical) return ball(name, parent, p_A, child, p_B);
  if (own.m_jointType == btMultibodyLink::ePrismatic) {
    const Matrix3d axes = with_x(from_bullet(own.getAxisBottom(0)));
    return slider(name, parent, {p_A, to_parent * axes}, child, {p_B, axes});
  }
  return weld(name, parent, {p_A, to_parent}, child, {p_B, Matrix3d::Identity()});
}

// A gear between joints, whose angles bodies do not know, by the rates.
Constraint Multibodies::gear_of(const Item& item, const std::string& name) {
  struct Term {
    std::size_t link, parent;
    Vector3d axis;
    bool slides;
    double factor;
  };
  std::vector<BodyId> ids;
  std::vector<Term> terms;
  const auto place = [&](btMultiBody& body, int link) {
    BodyId id;
    register_link({&body, link}, id);
    const auto at = std::find(ids.begin(), ids.end(), id);
    if (at != ids.end()) return static_cast<std::size_t>(at - ids.begin());
    ids.push_back(id);
    return ids.size() - 1;
  };
  for (const Coordinate& c : item.coordinates) {
    btMultiBody& body = *trees_[z(c.tree)]->body;
    const btMultibodyLink& own = body.getLink(c.link);
    const bool slides = own.m_jointType == btMultibodyLink::ePrismatic;
    terms.push_back({place(body, c.link), place(body, own.m_parent),
                     from_bullet(slides ? own.getAxisBottom(0) : own.getAxisTop(0)), slides, c.factor});
  }
  return nonholonomic(name, ids, [terms](const auto& s) {
    using T = std::remove_cvref_t<decltype(s.t)>;
    T sum(0.0);
    for (const Term& t : terms) {
      const auto &down = s[t.link], &up = s[t.parent];
      const auto axis = down.axis(t.axis);
      if (t.slides)
        sum = sum + t.factor *
                        dot(axis, down.velocity() - up.velocity() - cross(up.omega(), down.position() - up.position()));
      else
        sum = sum + t.factor * dot(axis, down.omega() - up.omega());
    }
    return sum;
  });
}

std::string Multibodies::massless(const btMultiBody& body) const {
  for (int i = body.hasFixedBase() ? 0 : -1; i < body.getNumLinks(); ++i) {
    const double mass = double(i < 0 ? body.getBaseMass() : body.getLinkMass(i));
    const Vector3d inertia = from_bullet(i < 0 ? body.getBaseInertia() : body.getLinkInertia(i));
    if (!(mass > 0) || !(inertia.minCoeff() > 0))
      return (i < 0 ? std::string("the base") : "link " + std::to_string(i)) +
             " of its multibody has no mass or no inertia of its own, and so the loads of the joints are not known";
  }
  return {};
}

std::string Multibodies::name_joint(const Link& link, std::string name, int& index) {
  scan();
  const std::string who = "linchpin: adopt '" + name + "': ";
  BodyId child, parent;
  if (std::string why = register_link(link, child); !why.empty()) return who + why;
  if (link.index < 0) return who + "the base of a multibody has no joint";
  if (std::string why = register_link({link.body, link.body->getLink(link.index).m_parent}, parent); !why.empty())
    return who + why;
  if (engine_.find(name) >= 0) return "linchpin: the name '" + name + "' is in use";
  for (const Record& r : engine_.records_)
    if (r.alive && r.in_tree && r.waiting->bodies()[1] == child)
      return who + "the joint is known already, as '" + r.name + "'";
  index = engine_.make_record(nullptr, name, true);
  Record& r = engine_.records_[z(index)];
  r.on_links = r.in_tree = true;
  try {
    r.waiting.emplace(joint_of(link, name, parent, child));
  } catch (const std::exception& e) {
    r.alive = false;
    engine_.names_.erase(index, r.name);
    return who + e.what();
  }
  changed_ = true;
  engine_.order_reactions();
  return {};
}

std::string Multibodies::why_no_law(const Record& r) {
  if (!r.waiting && r.id.index < 0) return "it is left to the native solver: " + r.shape.native;
  for (const Stock& s : stock_)
    if (&engine_.records_[z(s.record)] == &r && s.shape.gear) return "a gear has no place where a law could act";
  if (!r.waiting) return {};
  for (const BodyId id : r.waiting->bodies())
    if (id.index > 0 && is_link(id))
      if (std::string why = massless(*link_of_id_[z(id.index)].body); !why.empty()) return why;
  return {};
}

std::string Multibodies::add_law(Record& r, const Law& law) {
  if (r.link_id.index < 0)
    if (std::string why = engine_.system_.try_add(*r.waiting, &r.link_id); !why.empty()) return "linchpin: " + why;
  return linchpin::try_add_law(engine_.system_, r.link_id, law);
}

void Multibodies::forget_bodies() {
  for (const ConstraintId id : bodies_.joints) engine_.system_.remove(id);
  bodies_.joints.clear();
  for (Record& r : engine_.records_)
    if (r.link_id.index >= 0) {
      engine_.system_.remove(r.link_id);
      r.link_id = {};
    }
  bodies_.dynamics.reset();
  bodies_.present = bodies_.good = false;
}

// Which of all there is has laws has been found; trees and rigid bodies have their columns.
void Multibodies::lay_out_bodies() {
  engine_.laws_changed_ = true;
  bodies_.members.clear();
  bodies_.fixed.clear();
  std::vector<ConstraintId> ids;
  std::vector<std::pair<int, int>> named;            // constraint of the core, record
  const auto refuse = [&](const std::string& why) {  // what is not possible is said by name, and the rest goes on
    for (Record& r : engine_.records_)
      if (r.alive && !r.laws.empty() && (r.on_links || r.by_links))
        notes_.push_back(r.name + "\nits laws are not in force (" + why + ")");
    forget_bodies();
  };
  std::vector<std::vector<char>> has_name(trees_.size());
  for (std::size_t t = 0; t < trees_.size(); ++t) {
    if (trees_[t]->column < 0) continue;
    btMultiBody& body = *trees_[t]->body;
    if (std::string why = massless(body); !why.empty()) return refuse(why);
    has_name[t].assign(z(body.getNumLinks()), 0);
    for (int i = -1; i < body.getNumLinks(); ++i) {
      BodyId id;
      if (std::string why = register_link({&body, i}, id); !why.empty()) return refuse(why);
      const Bodies::Member m{id, static_cast<int>(t), i, -1};
      (i < 0 && body.hasFixedBase() ? bodies_.fixed : bodies_.members).push_back(m);
    }
  }
  for (std::size_t i = 0; i < moving_.size(); ++i)
    bodies_.members.push_back({moving_[i].id, -1, -1, static_cast<int>(i)});
  const auto take = [&](Record& r, int index, Constraint constraint) {  // why not, or empty
    std::string why = engine_.system_.try_add(std::move(constraint), &r.link_id);
    if (!why.empty()) return why;
    ids.push_back(r.link_id);
    named.emplace_back(r.link_id.index, index);
    for (const Law& law : r.laws)
      if (why.empty()) why = linchpin::try_add_law(engine_.system_, r.link_id, law);
    if (r.one_sided.on) linchpin::set_one_sided(engine_.system_, r.link_id, r.one_sided);
    return why;
  };
  for (std::size_t i = 0; i < engine_.records_.size(); ++i) {
    Record& r = engine_.records_[i];
    if (!r.alive || !r.in_tree || !r.enabled || !r.waiting) continue;
    const LinkId& link = link_of_id_[z(r.waiting->bodies()[1].index)];
    const int t = tree_of(link.body);
    if (t < 0 || trees_[z(t)]->column < 0) continue;
    has_name[z(t)][z(link.link)] = 1;
    if (const std::string why = take(r, static_cast<int>(i), *r.waiting); !why.empty()) return refuse(why);
  }
  for (std::size_t t = 0; t < trees_.size(); ++t)
    for (std::size_t i = 0; i < has_name[t].size(); ++i) {
      if (has_name[t][i]) continue;
      btMultiBody& body = *trees_[t]->body;
      BodyId child, parent;
      register_link({&body, static_cast<int>(i)}, child);
      register_link({&body, body.getLink(static_cast<int>(i)).m_parent}, parent);
      ConstraintId id;
      const std::string name = "joint of " + engine_.system_.name(child);
      const std::string why = engine_.system_.try_add(joint_of({&body, static_cast<int>(i)}, name, parent, child), &id);
      if (!why.empty()) return refuse(why);
      bodies_.joints.push_back(id);
      ids.push_back(id);
    }
  for (const Item& item : items_) {
    Record& r = engine_.records_[z(item.record)];
    if (r.by_links) {
      ids.push_back(r.id);
      named.emplace_back(r.id.index, item.record);
    } else if (const std::string why =
                   take(r, item.record, item.coordinates.empty() ? *item.constraint : gear_of(item, r.name));
               !why.empty()) {
      return refuse(why);
    }
  }
  SolveOptions options;
  options.rank_tolerance = engine_.options_.rank_tolerance;
  bodies_.dynamics.emplace(engine_.system_, ids, options);
  bodies_.standing_told = {};
  if (const auto laws = std::exchange(laws_to_go_back_to_, nullptr)) bodies_.dynamics->set_law_history(laws);
  const Block& block = bodies_.dynamics->assembly().block;
  bodies_.record_of.assign(block.constraints.size(), -1);
  for (std::size_t i = 0; i < block.constraints.size(); ++i)
    for (const auto& [core, record] : named)
      if (core == block.constraints[i].index) bodies_.record_of[i] = record;
  const std::size_t n = z(block.n());
  for (auto* x : {&bodies_.Q, &bodies_.v0, &bodies_.v1}) x->assign(n, 0);
  bodies_.on.resize(trees_.size());
  bodies_.prescribed.resize(trees_.size());
  for (auto* x : {&bodies_.c, &bodies_.dv, &bodies_.first_dv}) x->assign(v_.size(), 0);
  for (auto* x : {&bodies_.lambda, &bodies_.first_lambda}) x->assign(e_.size(), 0);
  bodies_.stuck.clear();
}

// ---- a step ----

// At the step's start: who is where, and what laws prescribe as far as is known, the native rows' impulses apart.
void Multibodies::evaluate_laws() {
  bodies_.good = false;
  if (!bodies_.present) return;
  const auto state = [&](const Bodies::Member& m) {
    const KinematicTree& a = trees_[z(m.tree)]->a;
    const articulated::LinkMotion& at = a.motions()[z(m.link + 1)];
    engine_.state_[m.id] = BodyState{at.p, Quaterniond(at.R), at.v, at.w};
  };
  for (const Bodies::Member& m : bodies_.fixed) state(m);
  for (const Bodies::Member& m : bodies_.members) {
    if (m.tree < 0) continue;
    state(m);
    const KinematicTree& a = trees_[z(m.tree)]->a;
    const Vector3d inertia = a.model().inertia(m.link);
    if (engine_.system_.mass(m.id) != a.model().mass(m.link) || engine_.system_.inertia(m.id).diagonal() != inertia)
      (void)engine_.system_.try_set_mass(m.id, a.model().mass(m.link), inertia.asDiagonal());
  }
  take_forces(false);
  bodies_.dynamics->set_step(dt_);  // friction obeys its law at the end of the step (T10)
  bodies_.good = bodies_.dynamics->evaluate(engine_.state_, bodies_.Q) != Status::invalid;
  answer_laws();
  bodies_.first_dv = bodies_.dv;
  bodies_.first_lambda = bodies_.lambda;
}

// Forces on every body of the problem; with what native rows did in this step, as mean forces.
void Multibodies::take_forces(bool native) {
  for (std::size_t t = 0; t < trees_.size(); ++t) {
    Tree& tree = *trees_[t];
    if (tree.column < 0) continue;
    tree.a.applied_wrenches(bodies_.on[t]);
    if (!native) continue;
    // Wrenches of native rows on links, as far as they are known by link; the rest of what they did, motors and limits
    // mostly, is along the joints.
    const int n = tree.a.columns();
    half_.assign(half_.size(), 0);
    const auto rest = std::span(half_).first(z(n));
    const auto all = std::span(part_row_).first(z(n));
    tree.a.generalized(tree.others, rest);
    tree.a.times_mass(std::span(tree.host).subspan(z(tree.a.fixed_velocities())), all);
    for (std::size_t r = 0; r < z(n); ++r) rest[r] = all[r] - rest[r];
    for (int i = 0; i <= tree.a.links(); ++i) {
      bodies_.on[t][z(i)].force += tree.others[z(i)].force;
      bodies_.on[t][z(i)].moment += tree.others[z(i)].moment;
    }
    const int joints = 6 - tree.a.fixed_velocities();
    tree.a.add_joint_forces(rest.subspan(z(joints)), bodies_.on[t]);
    if (joints == 0) continue;
    bodies_.on[t][0].moment += head(rest, 0);
    bodies_.on[t][0].force += head(rest, 3);
  }
  const Block& block = bodies_.dynamics->assembly().block;
  std::fill(bodies_.Q.begin(), bodies_.Q.end(), 0.0);
  for (const Bodies::Member& m : bodies_.members) {
    const int slot = block.slot(m.id);
    if (slot < 0) continue;
    const int c = block.column[z(slot)];
    if (m.tree >= 0) {
      put(bodies_.Q, c, bodies_.on[z(m.tree)][z(m.link + 1)].force);
      put(bodies_.Q, c + 3, bodies_.on[z(m.tree)][z(m.link + 1)].moment);
      continue;
    }
    const Moving& b = moving_[z(m.moving)];
    for (int k = 0; k < b.dof; ++k) bodies_.Q[z(c + k)] = unit_.Q[z(b.column + k)];
    if (!native || !b.in_pool) continue;
    const Vector6 change = native_change(b);
    bullet::add(bodies_.Q, c, engine_.system_.mass(b.id) * change.head<3>());
    if (b.dof == 6)
      bullet::add(bodies_.Q, c + 3, engine_.system_.world_inertia(b.id, engine_.state_[b.id].q) * change.tail<3>());
  }
}

// What laws prescribe, along the columns, and what it does there (T5).
void Multibodies::answer_laws() {
  std::fill(bodies_.c.begin(), bodies_.c.end(), 0.0);
  std::fill(bodies_.dv.begin(), bodies_.dv.end(), 0.0);
  std::fill(bodies_.lambda.begin(), bodies_.lambda.end(), 0.0);
  if (!bodies_.good) {
    ++engine_.counts_.fallbacks;
    engine_.trouble_ = "links of multibodies: laws were left out of a step: " + bodies_.dynamics->reason();
    return;
  }
  spread_prescribed();
  from_unit(bodies_.dv);
  if (unit_.m() == 0) return;
  row_velocities(bodies_.dv, e_);
  for (double& x : e_) x = -x;
  solver_.apply(e_, bodies_.lambda, {}, dv_);
  from_unit(dv_);
  for (std::size_t k = 0; k < dv_.size(); ++k) bodies_.dv[k] += dv_[k];
}

// Reports are of the step's start (T11), and so are the laws in them.
void Multibodies::answer_laws_at_start() {
  if (!bodies_.good) return;
  bodies_.dynamics->answer_at_instant(engine_.state_);
  answer_laws();
}

// Of what laws prescribe: c along the columns; in dv, what it gives to the solver's columns.
void Multibodies::spread_prescribed() {
  const Block& block = bodies_.dynamics->assembly().block;
  for (std::size_t t = 0; t < trees_.size(); ++t)
    if (trees_[t]->column >= 0) bodies_.prescribed[t].assign(z(trees_[t]->a.links() + 1), Wrench{});
  const auto on = [&](BodyId id, double sign, const Prescribed& p) {
    if (id == linchpin::world) return;
    const Vector3d force = sign * p.force, moment = sign * (p.moment + (p.p_WQ - engine_.state_[id].p).cross(p.force));
    if (is_link(id)) {
      const LinkId& link = link_of_id_[z(id.index)];
      Wrench& to = bodies_.prescribed[z(tree_of(link.body))][z(link.link + 1)];
      to.force += force;
      to.moment += moment;
      return;
    }
    for (const Moving& b : moving_)
      if (b.id == id) {
        bullet::add(bodies_.c, b.column, force);
        if (b.dof == 6) bullet::add(bodies_.c, b.column + 3, moment);
      }
  };
  for (const Prescribed& p : bodies_.dynamics->prescribed()) {
    const auto ids = engine_.system_.constraint(block.constraints[z(p.constraint)]).bodies();
    on(ids[0], 1, p);
    if (ids.size() > 1) on(ids[1], -1, p);
  }
  solver_.inverse_mass(bodies_.c, bodies_.dv);  // of rigid bodies; a multibody's columns have none here
  for (std::size_t at = 0; at < trees_.size(); ++at) {
    Tree& t = *trees_[at];
    if (t.column < 0) continue;
    const auto own = [&](std::vector<double>& x) { return std::span(x).subspan(z(t.column), z(t.a.columns())); };
    t.a.generalized(bodies_.prescribed[at], own(bodies_.c));
    for (std::size_t i = 0; i < t.on.size(); ++i)
      t.on[i] << bodies_.prescribed[at][i].force, bodies_.prescribed[at][i].moment;
    t.a.solve_factor(t.on, own(bodies_.dv));
  }
}

// Velocities of the bodies, at the step's start, when the columns have the velocities v.
void Multibodies::velocities_of_bodies(std::span<const double> v, std::vector<double>& out) {
  const Block& block = bodies_.dynamics->assembly().block;
  int placed = -1;
  for (const Bodies::Member& m : bodies_.members) {
    const int slot = block.slot(m.id);
    if (slot < 0) continue;
    const int c = block.column[z(slot)];
    if (m.tree < 0) {
      const Moving& b = moving_[z(m.moving)];
      for (int k = 0; k < b.dof; ++k) out[z(c + k)] = v[z(b.column + k)];
      continue;
    }
    Tree& t = *trees_[z(m.tree)];
    if (std::exchange(placed, m.tree) != m.tree) {
      velocities_of(t, v, t.u);
      t.a.forward_kinematics(t.a.state().at, t.u, t.at_end);
    }
    put(out, c, t.at_end[z(m.link + 1)].v);
    put(out, c + 3, t.at_end[z(m.link + 1)].w);
  }
}

// What sticks is brought to rest again after Newton, which moves it a little. @return whether it was moved
bool Multibodies::hold_laws() {
  velocities_of_bodies(v_, bodies_.v1);
  double size = 1;
  for (const double x : v_) size = std::max(size, std::abs(x));
  if (!(bodies_.dynamics->hold(engine_.state_, bodies_.v1) > 1e-15 * size)) return false;
  before_law_dv_ = bodies_.dv;
  before_law_lambda_ = bodies_.lambda;
  answer_laws();
  for (std::size_t k = 0; k < v_.size(); ++k) v_[k] += dt_ * (bodies_.dv[k] - before_law_dv_[k]);
  for (std::size_t r = 0; r < impulse_.size(); ++r) impulse_[r] += dt_ * (bodies_.lambda[r] - before_law_lambda_[r]);
  return true;
}

// What every law did in the step, and who of its contacts sticks.
void Multibodies::book_laws() {
  if (!bodies_.good) return;
  velocities_of_bodies(v0_, bodies_.v0);
  velocities_of_bodies(v_, bodies_.v1);
  engine_.order_laws();
  engine_.note_warnings(*bodies_.dynamics, bodies_.dynamics->law_report().trouble, bodies_.standing_told);
  for (const LawEffort& e : bodies_.dynamics->law_efforts()) {
    const int index = bodies_.record_of[z(e.constraint)];
    if (index < 0) continue;
    Record& r = engine_.records_[z(index)];
    for (int k = 0; k < r.law_count; ++k) {
      LawWork& to = engine_.law_works_[z(r.first_law + k)];
      if (to.law != e.law || to.term != e.term) continue;
      const double work =
          book_law(engine_.system_, *bodies_.dynamics, engine_.state_, e, dt_, bodies_.v0, bodies_.v1, to);
      to.end_step(dt_);
      if (r.reaction >= 0) engine_.add_work(r, work);
    }
  }
  bodies_.dynamics->accept(dt_);
  engine_.counts_.law_solves += bodies_.dynamics->law_report().back_solves;
  const auto contacts = bodies_.dynamics->contacts();
  const bool known = bodies_.stuck.size() == contacts.size();
  bodies_.stuck.resize(contacts.size());
  for (std::size_t i = 0; i < contacts.size(); ++i) {
    if (known && contacts[i].sticks != static_cast<bool>(bodies_.stuck[i])) ++engine_.counts_.mode_switches;
    bodies_.stuck[i] = contacts[i].sticks;
  }
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
