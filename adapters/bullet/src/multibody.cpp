// What there is: multibodies and their constraints in the world, and how the problem is laid out; stock constraints.
#include "multibody.h"

#include "bodies.h"
#include "columns.h"

#include <BulletDynamics/Featherstone/btMultiBodyFixedConstraint.h>
#include <BulletDynamics/Featherstone/btMultiBodyGearConstraint.h>
#include <BulletDynamics/Featherstone/btMultiBodyLinkCollider.h>
#include <BulletDynamics/Featherstone/btMultiBodyPoint2Point.h>
#include <BulletDynamics/Featherstone/btMultiBodySliderConstraint.h>

#include <cstdint>
#include <set>
#include <typeinfo>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {

// Protected without accessors: a pointer to member named through a derived class is how C++ lets one read them.
struct PointPeek : btMultiBodyPoint2Point {
  static btRigidBody* rigid(btMultiBodyPoint2Point& c) { return c.*(&PointPeek::m_rigidBodyB); }
  static const btVector3& pivot(btMultiBodyPoint2Point& c) { return c.*(&PointPeek::m_pivotInA); }
};
struct FixedPeek : btMultiBodyFixedConstraint {
  static btRigidBody* rigid(btMultiBodyFixedConstraint& c) { return c.*(&FixedPeek::m_rigidBodyB); }
};
struct SliderPeek : btMultiBodySliderConstraint {
  static btRigidBody* rigid(btMultiBodySliderConstraint& c) { return c.*(&SliderPeek::m_rigidBodyB); }
};
struct GearPeek : btMultiBodyGearConstraint {
  static double ratio(btMultiBodyGearConstraint& c) { return double(c.*(&GearPeek::m_gearRatio)); }
  static int aux(btMultiBodyGearConstraint& c) { return c.*(&GearPeek::m_gearAuxLink); }
  static double erp(btMultiBodyGearConstraint& c) { return double(c.*(&GearPeek::m_erp)); }
  static double target(btMultiBodyGearConstraint& c) { return double(c.*(&GearPeek::m_relativePositionTarget)); }
};

/// Above it Bullet's multibody constraints let go; it is a default, not a wish.
constexpr double default_most_impulse = 100;

Matrix3d matrix(const btMatrix3x3& m) {
  Matrix3d out;
  for (int i = 0; i < 3; ++i)
    for (int k = 0; k < 3; ++k) out(i, k) = double(m[i][k]);
  return out;
}

// 3D: the axes of two frames stay together.
void hold_turn(const Matrix3d& A, const Matrix3d& B, JointRows& rows) {
  for (int i = 0; i < 3; ++i) rows.dots.push_back({A.col(i), B.col((i + 1) % 3), 0});
}

}  // namespace

StockShape shape_of(btMultiBodyConstraint& c) {
  StockShape out;
  const std::type_info& type = typeid(c);
  const auto names_links = [&] {
    const auto there = [](const btMultiBody* body, int link) { return !body || link < body->getNumLinks(); };
    return c.getMultiBodyA() && there(c.getMultiBodyA(), c.getLinkA()) && there(c.getMultiBodyB(), c.getLinkB());
  };
  const auto frames = [&](const auto& f, const btRigidBody* rigid) {
    if (rigid && !matrix(f.getFrameInB()).isIdentity(0))
      out.native = "all (its frame on the rigid body is not the identity, and Bullet takes it in world axes)";
    return std::pair(matrix(f.getFrameInA()), matrix(f.getFrameInB()));
  };
  const auto acting = [&](const auto& f) {
    out.acting_A = from_bullet(f.getPivotInA());
    out.acting_B = from_bullet(f.getPivotInB());
  };
  if (type == typeid(btMultiBodyPoint2Point)) {
    auto& p = static_cast<btMultiBodyPoint2Point&>(c);
    out.kind = "multibody point2point";
    out.rigid = PointPeek::rigid(p);
    out.acting_A = from_bullet(PointPeek::pivot(p));
    out.acting_B = from_bullet(p.getPivotInB());
    out.rows.points.push_back({out.acting_A, out.acting_B});
  } else if (type == typeid(btMultiBodyFixedConstraint)) {
    auto& f = static_cast<btMultiBodyFixedConstraint&>(c);
    out.kind = "multibody fixed";
    out.rigid = FixedPeek::rigid(f);
    acting(f);
    const auto [A, B] = frames(f, out.rigid);
    out.rows.points.push_back({out.acting_A, out.acting_B});
    hold_turn(A, B, out.rows);
  } else if (type == typeid(btMultiBodySliderConstraint)) {
    auto& s = static_cast<btMultiBodySliderConstraint&>(c);
    out.kind = "multibody slider";
    out.rigid = SliderPeek::rigid(s);
    acting(s);
    const auto [A, B] = frames(s, out.rigid);
    const Vector3d axis = from_bullet(s.getJointAxis());
    if (!(axis.norm() > 0)) {
      out.native = "all (its axis is zero)";
      return out;
    }
    const Vector3d u = axis.normalized(), e = u.unitOrthogonal();
    out.rows.axes.push_back({e, out.acting_A, out.acting_B, 0});
    out.rows.axes.push_back({u.cross(e), out.acting_A, out.acting_B, 0});
    hold_turn(A, B, out.rows);
  } else if (type == typeid(btMultiBodyGearConstraint)) {
    auto& g = static_cast<btMultiBodyGearConstraint&>(c);
    out.kind = "multibody gear";
    out.gear = true;
    out.ratio = GearPeek::ratio(g);
    out.aux = GearPeek::aux(g);
    out.has_target = GearPeek::erp(g) != 0;
    out.target = GearPeek::target(g);
    const auto turns_or_slides = [](const btMultiBody* body, int link) {
      return body && link >= 0 && link < body->getNumLinks() && body->getLink(link).m_dofCount == 1;
    };
    if (!turns_or_slides(c.getMultiBodyA(), c.getLinkA()) || !turns_or_slides(c.getMultiBodyB(), c.getLinkB()) ||
        (out.aux >= 0 && !turns_or_slides(c.getMultiBodyA(), out.aux)))
      out.native = "all (its links do not have one joint coordinate each)";
    else if (c.getMultiBodyA() != c.getMultiBodyB())
      out.native = "all (its links belong to two multibodies, of which Bullet reads one)";
  } else {
    out.native = "all (a limit, a motor or a kind that is not known stays with Bullet)";
    return out;
  }
  if (out.native.empty() && !names_links()) out.native = "all (it names a link that is not there)";
  if (out.native.empty() && double(c.getMaxAppliedImpulse()) < default_most_impulse)
    out.native = "all (its largest impulse is bounded by the program)";
  return out;
}

StockNumbers numbers_of(btMultiBodyConstraint& c) {
  StockNumbers out{};
  std::size_t n = 0;
  const auto put = [&](double x) { out[n++] = x; };
  const auto vector = [&](const btVector3& u) {
    for (int i = 0; i < 3; ++i) put(double(u[i]));
  };
  const auto body = [&](const void* p) { put(static_cast<double>(reinterpret_cast<std::uintptr_t>(p))); };
  const auto frames = [&](const auto& f) {
    for (const btMatrix3x3* m : {&f.getFrameInA(), &f.getFrameInB()})
      for (int i = 0; i < 3; ++i) vector((*m)[i]);
    vector(f.getPivotInA());
    vector(f.getPivotInB());
  };
  const std::type_info& type = typeid(c);
  body(&type);
  body(c.getMultiBodyA());
  body(c.getMultiBodyB());
  put(c.getLinkA());
  put(c.getLinkB());
  put(double(c.getMaxAppliedImpulse()));
  if (type == typeid(btMultiBodyPoint2Point)) {
    auto& p = static_cast<btMultiBodyPoint2Point&>(c);
    body(PointPeek::rigid(p));
    vector(PointPeek::pivot(p));
    vector(p.getPivotInB());
  } else if (type == typeid(btMultiBodyFixedConstraint)) {
    auto& f = static_cast<btMultiBodyFixedConstraint&>(c);
    body(FixedPeek::rigid(f));
    frames(f);
  } else if (type == typeid(btMultiBodySliderConstraint)) {
    auto& s = static_cast<btMultiBodySliderConstraint&>(c);
    body(SliderPeek::rigid(s));
    frames(s);
    vector(s.getJointAxis());
  } else if (type == typeid(btMultiBodyGearConstraint)) {
    auto& g = static_cast<btMultiBodyGearConstraint&>(c);
    put(GearPeek::ratio(g));
    put(GearPeek::aux(g));
    put(GearPeek::erp(g));
    put(GearPeek::target(g));
  }
  return out;
}

// ---- what there is ----

int Multibodies::tree_of(const btMultiBody* body) const {
  for (std::size_t i = 0; i < trees_.size(); ++i)
    if (&trees_[i]->a.body() == body) return static_cast<int>(i);
  return -1;
}

std::string Multibodies::id_of(const Link& link, BodyId& id) {
  scan();
  return register_link(link, id);
}

std::string Multibodies::register_link(const Link& link, BodyId& id) {
  if (!link.body || tree_of(link.body) < 0) return "the multibody is not in the world";
  if (link.index < -1 || link.index >= link.body->getNumLinks())
    return "the multibody has no link " + std::to_string(link.index);
  if (const std::string why = Articulated(*link.body).unsupported(); !why.empty())
    return "the multibody cannot be held exactly: " + why;
  for (std::size_t i = 0; i < link_of_id_.size(); ++i)
    if (link_of_id_[i].body == link.body && link_of_id_[i].link == link.index) {
      id = {static_cast<int>(i)};
      return {};
    }
  // To the core a rigid body with a mass of its own; that it is part of a tree is known here only.
  const std::string name = "link#" + std::to_string(engine_.system_.body_count());
  const Articulated a(*link.body);
  const Vector3d inertia = a.inertia(link.index);
  if ((link.index < 0 && link.body->hasFixedBase()) || !(a.mass(link.index) > 0) || !(inertia.minCoeff() > 0)) {
    id = engine_.system_.add_fixed(name, Pose{});
  } else {
    std::string why = engine_.system_.try_add_body(id, name, 1, Matrix3d::Identity(), Pose{});
    if (why.empty()) why = engine_.system_.try_set_mass(id, a.mass(link.index), inertia.asDiagonal());
    if (!why.empty()) return why;
  }
  engine_.make_room(nullptr);
  link_of_id_.resize(z(id.index) + 1);
  link_of_id_[z(id.index)] = {link.body, link.index};
  return {};
}

std::string Multibodies::add(Constraint constraint, int& index) {
  if (engine_.find(constraint.name()) >= 0) return "linchpin: the name '" + constraint.name() + "' is in use";
  std::vector<btRigidBody*> rigid;
  bool moves = false;
  std::vector<Articulated::Place> places;
  State now = engine_.state_;
  now.t = engine_.t_;
  for (const BodyId id : constraint.bodies()) {
    if (is_link(id)) {
      const LinkId& link = link_of_id_[z(id.index)];
      Articulated a(*link.body);
      a.capture();
      a.place(a.start(), a.u(), places);
      const Articulated::Place& at = places[z(link.link + 1)];
      now[id] = BodyState{at.p, Quaterniond(at.R), at.v, at.w};
      moves = moves || a.moves(link.link);
      continue;
    }
    btRigidBody* body = id == linchpin::world ? nullptr : engine_.body_of_[z(id.index)];
    if (!body) continue;
    if (part_of(*body) == BodyPart::unsupported)
      return "linchpin: constraint '" + constraint.name() + "' is on " + why_unsupported(*body) +
             ", which has no mass matrix";
    now[id] = read_state(*body);
    moves = moves || engine_.system_.dof(id) > 0;
    rigid.push_back(body);
  }
  if (!moves) return "linchpin: constraint '" + constraint.name() + "': none of its bodies and links can move";
  if (const ConstraintCheck found = check_constraint(engine_.system_, constraint, now);
      !found.ok() && (!found.finite || std::max({found.error_A, found.error_b, found.error_velocity}) > 1e-5))
    return "linchpin: " + found.message;
  index = engine_.make_record(nullptr, constraint.name(), true);
  Record& r = engine_.records_[z(index)];
  r.on_links = true;
  r.bodies = std::move(rigid);
  r.waiting = std::move(constraint);
  for (btRigidBody* body : r.bodies) body->activate();
  changed_ = true;
  engine_.order_reactions();
  return {};
}

std::string Multibodies::name(btMultiBodyConstraint& constraint, std::string name, int& index) {
  scan();
  for (Stock& s : stock_) {
    if (s.constraint != &constraint) continue;
    if (const int other = engine_.find(name); other >= 0 && other != s.record)
      return "linchpin: the name '" + name + "' is in use";
    Record& r = engine_.records_[z(s.record)];
    r.name = std::move(name);
    r.named = true;
    engine_.reactions_[z(r.reaction)].name = r.name;
    if (engine_.tells_native()) engine_.shadow_[z(r.reaction)].name = r.name;
    make_stock(s);  // its core constraint, under the new name
    index = s.record;
    return {};
  }
  return "linchpin: adopt '" + name + "': the constraint is not in the world";
}

void Multibodies::reset() {
  for (Stock& s : stock_)
    if (s.shape.gear) make_stock(s);
}

void Multibodies::forget(const btMultiBody& body) {
  for (std::size_t i = 0; i < engine_.records_.size(); ++i) {
    const Record& r = engine_.records_[i];
    if (!r.alive || !r.on_links || !r.waiting) continue;
    const auto ids = r.waiting->bodies();
    if (std::any_of(ids.begin(), ids.end(),
                    [&](BodyId id) { return is_link(id) && link_of_id_[z(id.index)].body == &body; }))
      engine_.remove(static_cast<int>(i));
  }
  std::erase_if(stock_, [&](const Stock& s) {
    if (s.constraint->getMultiBodyA() != &body && s.constraint->getMultiBodyB() != &body) return false;
    if (engine_.records_[z(s.record)].alive) engine_.remove(s.record);
    return true;
  });
  stock_of_.clear();  // the next look finds them anew
  for (LinkId& link : link_of_id_)
    if (link.body == &body) link = {};
  std::erase_if(trees_, [&](const auto& t) { return &t->a.body() == &body; });
  changed_ = true;
}

// Multibodies come and go without a word. Pointers are compared, what they point to may be gone.
void Multibodies::scan() {
  const int n = world_.getNumMultibodies();
  bool same = n == static_cast<int>(trees_.size());
  for (int i = 0; same && i < n; ++i)
    same = &trees_[z(i)]->a.body() == world_.getMultiBody(i) &&
           (trees_[z(i)]->a.links() == 0 || trees_[z(i)]->a.same_shape());
  if (!same) {
    std::vector<std::unique_ptr<Tree>> fresh;
    for (int i = 0; i < n; ++i) {
      const int at = tree_of(world_.getMultiBody(i));
      fresh.push_back(at >= 0 && trees_[z(at)] ? std::move(trees_[z(at)])
                                               : std::make_unique<Tree>(*world_.getMultiBody(i)));
      std::erase(trees_, nullptr);
      fresh.back()->a.capture();
    }
    trees_ = std::move(fresh);
    for (std::size_t i = 0; i < engine_.records_.size(); ++i) {
      const Record& r = engine_.records_[i];
      if (!r.alive || !r.on_links || !r.waiting) continue;
      const auto ids = r.waiting->bodies();
      if (std::any_of(ids.begin(), ids.end(),
                      [&](BodyId id) { return is_link(id) && tree_of(link_of_id_[z(id.index)].body) < 0; }))
        engine_.remove(static_cast<int>(i));
    }
    for (LinkId& link : link_of_id_)
      if (link.body && tree_of(link.body) < 0) link = {};
    changed_ = true;
  }
  scan_stock();
}

void Multibodies::scan_stock() {
  const int n = world_.getNumMultiBodyConstraints();
  bool same = z(n) == stock_.size() && stock_of_.size() == stock_.size();
  for (int i = 0; same && i < n; ++i) same = world_.getMultiBodyConstraint(i) == stock_[z(i)].constraint;
  if (same) {
    for (Stock& s : stock_)
      if (numbers_of(*s.constraint) != s.numbers) make_stock(s);
    return;
  }
  std::erase_if(stock_, [&](const Stock& s) {
    for (int i = 0; i < n; ++i)
      if (world_.getMultiBodyConstraint(i) == s.constraint) return false;
    if (engine_.records_[z(s.record)].alive) engine_.remove(s.record);
    changed_ = true;
    return true;
  });
  for (int i = 0; i < n; ++i) {
    btMultiBodyConstraint* c = world_.getMultiBodyConstraint(i);
    auto at = std::find_if(stock_.begin(), stock_.end(), [&](const Stock& s) { return s.constraint == c; });
    if (at == stock_.end()) {
      const StockShape shape = shape_of(*c);
      const int record =
          engine_.make_record(nullptr, engine_.free_name(std::string(shape.kind) + "#" + std::to_string(i)), false);
      engine_.records_[z(record)].on_links = true;
      stock_.push_back({c, record, {}, {}, 0});
      make_stock(stock_.back());
      engine_.order_reactions();
    } else if (numbers_of(*c) != at->numbers) {
      make_stock(*at);
    }
  }
  stock_of_.clear();
  for (int i = 0; i < n; ++i) stock_of_.emplace(world_.getMultiBodyConstraint(i), z(i));
  std::sort(stock_.begin(), stock_.end(),
            [&](const Stock& a, const Stock& b) { return stock_of_.at(a.constraint) < stock_of_.at(b.constraint); });
}

void Multibodies::make_stock(Stock& s) {
  changed_ = true;
  s.numbers = numbers_of(*s.constraint);
  s.shape = shape_of(*s.constraint);
  Record& r = engine_.records_[z(s.record)];
  r.waiting.reset();
  r.bodies.clear();
  if (r.reaction >= 0) {  // what it was is no more
    Reaction none;
    none.name = r.name;
    none.native = true;
    none.work = engine_.reactions_[z(r.reaction)].work;
    engine_.reactions_[z(r.reaction)] = std::move(none);
  }
  r.shape.native = r.released ? "all (given back)" : s.shape.native;
  if (!r.shape.native.empty()) return;
  const Link a{s.constraint->getMultiBodyA(), s.constraint->getLinkA()};
  const Link b{s.constraint->getMultiBodyB(), s.constraint->getLinkB()};
  BodyId id_a, id_b = linchpin::world;
  std::string why = register_link(a, id_a);
  if (why.empty() && b.body) why = register_link(b, id_b);
  if (why.empty() && !b.body && s.shape.rigid) {
    if (!engine_.in_world(*s.shape.rigid)) {
      why = "its rigid body is not in the world";
    } else if (part_of(*s.shape.rigid) == BodyPart::unsupported) {
      why = why_unsupported(*s.shape.rigid);
    } else {
      id_b = engine_.body_id(*s.shape.rigid);
      r.bodies.push_back(s.shape.rigid);
    }
  }
  if (why.empty() && id_a == id_b) why = "it joins a link to itself";
  if (!why.empty()) {
    r.shape.native = "all (" + why + ")";
    return;
  }
  if (s.shape.gear) {
    const auto at = [](const Link& l) { return double(l.body->getJointPosMultiDof(l.index)[0]); };
    s.target = s.shape.has_target ? s.shape.target
                                  : at(a) - (s.shape.aux >= 0 ? at({a.body, s.shape.aux}) : 0) + s.shape.ratio * at(b);
    // Its rows are on joint coordinates; the constraint only says between whom.
    JointRows none;
    none.points.push_back({Vector3d::Zero(), Vector3d::Zero()});
    r.waiting.emplace(linchpin::joint(r.name, id_a, id_b, none, Vector3d::Zero(), Vector3d::Zero()));
    return;
  }
  r.waiting.emplace(linchpin::joint(r.name, id_a, id_b, s.shape.rows, s.shape.acting_A, s.shape.acting_B));
}

bool Multibodies::stock(const Record& r) const {
  return std::any_of(stock_.begin(), stock_.end(),
                     [&](const Stock& s) { return &engine_.records_[z(s.record)] == &r; });
}

bool Multibodies::give_back(int record) {
  for (Stock& s : stock_) {
    if (s.record != record) continue;
    engine_.records_[z(record)].released = true;
    make_stock(s);
    return true;
  }
  return false;
}

bool Multibodies::adopted(const btMultiBodyConstraint* constraint) const {
  if (!active_ || failed_) return false;
  const auto at = stock_of_.find(constraint);
  if (at == stock_of_.end() || at->second >= stock_.size()) return false;
  const Record& r = engine_.records_[z(stock_[at->second].record)];
  return r.alive && r.waiting.has_value() && r.enabled;
}

bool Multibodies::holds(int record) const {
  return solved_ && std::any_of(items_.begin(), items_.end(), [&](const Item& i) { return i.record == record; });
}

std::vector<Solver::Native> Multibodies::notes() const {
  std::vector<Solver::Native> out;
  for (const std::string& text : notes_) {
    const std::size_t cut = text.find('\n');
    out.push_back({text.substr(0, cut), text.substr(cut + 1)});
  }
  return out;
}

// What its rows may touch: the links of its parts, in a gear of its coordinates, with their ancestors.
void Multibodies::lay_path(Item& item) {
  item.paths.clear();
  item.columns.clear();
  item.joints = 0;
  for (std::size_t at = 0; at < trees_.size(); ++at) {
    const Tree& t = *trees_[at];
    std::vector<std::size_t> on;  // how many of its parts hang on a link
    const auto take = [&](int tree, int link) {
      if (tree != static_cast<int>(at)) return;
      on.resize(z(t.a.links() + 1), 0);
      ++on[0];
      for (int i = link; i >= 0; i = t.a.body().getLink(i).m_parent) ++on[z(i + 1)];
    };
    for (const Part& p : item.parts) take(p.tree, p.link);
    for (const Coordinate& c : item.coordinates) take(c.tree, c.link);
    if (on.empty()) continue;
    Path path{static_cast<int>(at), {}};
    for (int c = 0; c < 6 - t.a.first(); ++c) item.columns.push_back(t.column + c);
    for (int i = 0; i < t.a.links(); ++i) {
      const btMultibodyLink& own = t.a.body().getLink(i);
      for (int k = 0; on[z(i + 1)] && k < own.m_dofCount; ++k)
        item.columns.push_back(t.column + 6 - t.a.first() + own.m_dofOffset + k);
    }
    for (int i = t.a.links() - 1; i >= -1; --i) {
      if (on[z(i + 1)]) path.links.push_back(i);
      if (i >= 0 && on[z(i + 1)] && on[z(i + 1)] < item.parts.size()) ++item.joints;
    }
    item.paths.push_back(std::move(path));
  }
  for (const Part& p : item.parts)
    for (int k = 0; k < p.dof; ++k) item.columns.push_back(p.column + k);
  std::sort(item.columns.begin(), item.columns.end());  // bodies of a constraint come in any order
  item.columns.erase(std::unique(item.columns.begin(), item.columns.end()), item.columns.end());
}

// Which constraints are in the problem, where their rows and the columns of their bodies are. Rigid joints come in with
// the bodies that they share with links, and bring theirs.
void Multibodies::lay_out() {
  changed_ = false;
  laid_out_for_ = engine_.structure_;
  items_.clear();
  moving_.clear();
  notes_.clear();
  flags_rank_ = -1;
  forget_bodies();
  for (Record& r : engine_.records_) r.by_links = false;
  for (auto& t : trees_) t->column = -1;
  std::set<int> bodies;  // rigid ones that move, by BodyId
  const auto part = [&](BodyId id) {
    Part p;
    p.id = id;
    if (is_link(id)) {
      p.tree = tree_of(link_of_id_[z(id.index)].body);
      p.link = link_of_id_[z(id.index)].link;
      if (p.tree >= 0) trees_[z(p.tree)]->column = 0;
    } else if (id != linchpin::world && engine_.system_.dof(id) > 0) {
      bodies.insert(id.index);
    }
    return p;
  };
  for (std::size_t i = 0; i < engine_.records_.size(); ++i) {
    Record& r = engine_.records_[i];
    if (!r.alive || !r.on_links || !r.enabled || r.let_go || !r.waiting) continue;
    std::vector<BodyId> ids;  // a rigid body may have changed its kind
    for (const BodyId id : r.waiting->bodies())
      ids.push_back(is_link(id) || id == linchpin::world || !engine_.body_of_[z(id.index)]
                        ? id
                        : engine_.body_id(*engine_.body_of_[z(id.index)]));
    if (!std::equal(ids.begin(), ids.end(), r.waiting->bodies().begin())) r.waiting = r.waiting->between(ids);
    bodies_.present = bodies_.present || !r.laws.empty();
    if (r.in_tree) {  // no row of its own; with a law the multibody is part of the problem
      if (!r.laws.empty()) part(ids[1]);
      continue;
    }
    Item item;
    item.record = static_cast<int>(i);
    item.constraint = &*r.waiting;
    for (const BodyId id : ids) item.parts.push_back(part(id));
    for (const Stock& s : stock_) {
      if (s.record != item.record || !s.shape.gear) continue;
      const auto coordinate = [&](int link, double factor) {
        const btMultibodyLink& l = s.constraint->getMultiBodyA()->getLink(link);
        item.coordinates.push_back({item.parts[0].tree, link, l.m_cfgOffset, 6 + l.m_dofOffset, factor});
      };
      coordinate(s.constraint->getLinkA(), 1);
      coordinate(s.constraint->getLinkB(), s.shape.ratio);
      if (s.shape.aux >= 0) coordinate(s.shape.aux, -1);
      item.target = s.target;
    }
    items_.push_back(std::move(item));
  }
  for (bool more = !bodies.empty(); more;) {
    more = false;
    for (std::size_t i = 0; i < engine_.records_.size(); ++i) {
      Record& r = engine_.records_[i];
      if (!r.alive || r.on_links || r.by_links || r.id.index < 0) continue;
      if (r.joint ? !r.joint->isEnabled() : !r.enabled || r.let_go) continue;
      const auto ids = engine_.system_.constraint(r.id).bodies();
      if (std::none_of(ids.begin(), ids.end(), [&](BodyId id) { return bodies.contains(id.index); })) continue;
      r.by_links = more = true;
      Item item;
      item.record = static_cast<int>(i);
      item.constraint = &engine_.system_.constraint(r.id);
      for (const BodyId id : ids) item.parts.push_back(part(id));
      items_.push_back(std::move(item));
      const auto note = [&](const char* what) {
        notes_.push_back(r.name + "\n" + what + " (it shares bodies with links of a multibody)");
      };
      bodies_.present = bodies_.present || !r.laws.empty();
      if (r.joint && double(r.joint->getBreakingImpulseThreshold()) < double(SIMD_INFINITY)) note("does not break");
    }
  }
  int n = 0, m = 0;
  unit_.clear();
  for (auto& t : trees_) {
    if (t->column < 0) continue;
    t->column = n;
    t->on.assign(z(t->a.links() + 1), Vector6::Zero());
    n += t->a.columns();
    for (const int size : t->a.groups()) {
      unit_.block_sizes.push_back(size);
      for (int i = 0; i < size * size; ++i) unit_.mass.push_back(i % (size + 1) == 0 ? 1 : 0);
    }
  }
  bodies_from_ = n;
  for (const int id : bodies) {
    const int dof = engine_.system_.dof(BodyId{id});
    moving_.push_back({BodyId{id}, engine_.body_of_[z(id)], n, dof, Vector6::Zero(), Vector6::Zero(), false});
    unit_.block_sizes.push_back(dof);
    unit_.mass.resize(unit_.mass.size() + z(dof * dof));
    n += dof;
  }
  for (Item& item : items_) {
    for (Part& p : item.parts)
      for (const Moving& b : moving_)
        if (b.id == p.id) p.column = b.column, p.dof = b.dof;
    lay_path(item);
    item.row = m;
    item.rows = item.coordinates.empty() ? item.constraint->function().rows() : 1;
    item.A.assign(z(item.rows) * 6 * item.parts.size(), 0);
    m += item.rows;
    unit_.constraints.push_back(record(item).name);
    for (int r = 0; r < item.rows; ++r) unit_.row_constraint.push_back(static_cast<int>(unit_.constraints.size()) - 1);
  }
  for (auto* x : {&v0_, &v_, &before_, &free_, &dv_, &half_, &dense_, &part_row_, &unit_row_, &force_})
    x->assign(z(n), 0);
  for (auto* x : {&position_, &velocity_, &e_, &scale_, &lambda_, &one_, &impulse_, &target_, &half_rows_, &one_report_,
                  &length_, &length_beside_, &rest_size_, &left_open_})
    x->assign(z(m), 0);
  silent_.assign(z(m), 0);
  unit_.Q.assign(z(n), 0);
  unit_.c.assign(z(n), 0);
  unit_.b.assign(z(m), 0);
  SolveOptions options;
  options.rank_tolerance = engine_.options_.rank_tolerance;
  solver_.set_options(options);
  if (bodies_.present) lay_out_bodies();
  active_ = n > 0 && (m > 0 || bodies_.present);
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
