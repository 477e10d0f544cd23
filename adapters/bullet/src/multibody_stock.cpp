// Bullet's own constraints between links: which rows of each can be held exactly, and which of them are in the world.
#include "bodies.h"
#include "multibody.h"

#include <BulletDynamics/Featherstone/btMultiBodyFixedConstraint.h>
#include <BulletDynamics/Featherstone/btMultiBodyGearConstraint.h>
#include <BulletDynamics/Featherstone/btMultiBodyPoint2Point.h>
#include <BulletDynamics/Featherstone/btMultiBodySliderConstraint.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

namespace LINCHPIN_BULLET_NAMESPACE {

namespace {

// These members are protected and have no accessors. C++ allows to read them through a pointer to member that a
// derived class forms.
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

/// Above this impulse Bullet's multibody constraints give way. It is Bullet's default, which no program asks for.
constexpr double default_most_impulse = 100;

Matrix3d matrix(const btMatrix3x3& m) {
  Matrix3d out;
  for (int i = 0; i < 3; ++i)
    for (int k = 0; k < 3; ++k) out(i, k) = double(m[i][k]);
  return out;
}

/// Adds rows that keep the axes of two frames together.
void add_orientation_rows(const Matrix3d& A, const Matrix3d& B, JointRows& rows) {
  for (int i = 0; i < 3; ++i) rows.dots.push_back({A.col(i), B.col((i + 1) % 3), 0});
  rows.alignment = {JointRows::Alignment::Of::orientation, A, B};
}

template <class Framed>
std::pair<Matrix3d, Matrix3d> read_frames(const Framed& c, StockShape& out) {
  out.application_A = from_bullet(c.getPivotInA());
  out.application_B = from_bullet(c.getPivotInB());
  if (out.rigid && !matrix(c.getFrameInB()).isIdentity(0))
    out.native = "all (its frame on the rigid body is rotated, and Bullet reads this frame in world axes)";
  return {matrix(c.getFrameInA()), matrix(c.getFrameInB())};
}

void read_point(btMultiBodyPoint2Point& c, StockShape& out) {
  out.kind = "multibody point2point";
  out.rigid = PointPeek::rigid(c);
  out.application_A = from_bullet(PointPeek::pivot(c));
  out.application_B = from_bullet(c.getPivotInB());
  out.rows.points.push_back({out.application_A, out.application_B});
}

void read_fixed(btMultiBodyFixedConstraint& c, StockShape& out) {
  out.kind = "multibody fixed";
  out.rigid = FixedPeek::rigid(c);
  const auto [A, B] = read_frames(c, out);
  out.rows.points.push_back({out.application_A, out.application_B});
  add_orientation_rows(A, B, out.rows);
}

void read_slider(btMultiBodySliderConstraint& c, StockShape& out) {
  out.kind = "multibody slider";
  out.rigid = SliderPeek::rigid(c);
  const auto [A, B] = read_frames(c, out);
  const Vector3d axis = from_bullet(c.getJointAxis());
  if (!(axis.norm() > 0)) {
    out.native = "all (its axis has length 0)";
    return;
  }
  const Vector3d u = axis.normalized(), e = u.unitOrthogonal();
  out.rows.axes.push_back({e, out.application_A, out.application_B, 0});
  out.rows.axes.push_back({u.cross(e), out.application_A, out.application_B, 0});
  add_orientation_rows(A, B, out.rows);
}

void read_gear(btMultiBodyGearConstraint& c, StockShape& out) {
  out.kind = "multibody gear";
  out.gear = true;
  out.ratio = GearPeek::ratio(c);
  out.aux = GearPeek::aux(c);
  out.has_target = GearPeek::erp(c) != 0;
  out.target = GearPeek::target(c);
  const auto has_one_rate = [](const btMultiBody* body, int link) {
    return body && link >= 0 && link < body->getNumLinks() && body->getLink(link).m_dofCount == 1;
  };
  if (!has_one_rate(c.getMultiBodyA(), c.getLinkA()) || !has_one_rate(c.getMultiBodyB(), c.getLinkB()) ||
      (out.aux >= 0 && !has_one_rate(c.getMultiBodyA(), out.aux)))
    out.native = "all (a gear needs links with one joint coordinate each)";
  else if (c.getMultiBodyA() != c.getMultiBodyB())
    out.native = "all (its links belong to two multibodies; Bullet's gear uses only the first)";
}

bool names_links(btMultiBodyConstraint& c) {
  const auto there = [](const btMultiBody* body, int link) { return !body || link < body->getNumLinks(); };
  return c.getMultiBodyA() && there(c.getMultiBodyA(), c.getLinkA()) && there(c.getMultiBodyB(), c.getLinkB());
}

}  // namespace

StockShape shape_of(btMultiBodyConstraint& c) {
  StockShape out;
  if (is_exactly<btMultiBodyPoint2Point>(c))
    read_point(static_cast<btMultiBodyPoint2Point&>(c), out);
  else if (is_exactly<btMultiBodyFixedConstraint>(c))
    read_fixed(static_cast<btMultiBodyFixedConstraint&>(c), out);
  else if (is_exactly<btMultiBodySliderConstraint>(c))
    read_slider(static_cast<btMultiBodySliderConstraint&>(c), out);
  else if (is_exactly<btMultiBodyGearConstraint>(c))
    read_gear(static_cast<btMultiBodyGearConstraint&>(c), out);
  else
    out.native = "all (it is a limit, a motor or of a class that linchpin does not know)";
  if (out.native.empty() && !names_links(c)) out.native = "all (it names a link that is not there)";
  if (out.native.empty() && double(c.getMaxAppliedImpulse()) < default_most_impulse)
    out.native = "all (the program bounds its impulse below 100)";
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
  body(class_of(c));
  body(c.getMultiBodyA());
  body(c.getMultiBodyB());
  put(c.getLinkA());
  put(c.getLinkB());
  put(double(c.getMaxAppliedImpulse()));
  if (is_exactly<btMultiBodyPoint2Point>(c)) {
    auto& p = static_cast<btMultiBodyPoint2Point&>(c);
    body(PointPeek::rigid(p));
    vector(PointPeek::pivot(p));
    vector(p.getPivotInB());
  } else if (is_exactly<btMultiBodyFixedConstraint>(c)) {
    auto& f = static_cast<btMultiBodyFixedConstraint&>(c);
    body(FixedPeek::rigid(f));
    frames(f);
  } else if (is_exactly<btMultiBodySliderConstraint>(c)) {
    auto& s = static_cast<btMultiBodySliderConstraint&>(c);
    body(SliderPeek::rigid(s));
    frames(s);
    vector(s.getJointAxis());
  } else if (is_exactly<btMultiBodyGearConstraint>(c)) {
    auto& g = static_cast<btMultiBodyGearConstraint&>(c);
    put(GearPeek::ratio(g));
    put(GearPeek::aux(g));
    put(GearPeek::erp(g));
    put(GearPeek::target(g));
  }
  return out;
}

int Multibodies::name(btMultiBodyConstraint& constraint, std::string name) {
  scan();
  const int entry = find(constraint);
  if (entry < 0) host::demand("linchpin: name_joint '" + name + "': the constraint is not in the world");
  host_.solver.name_joint(entry, std::move(name));
  return entry;
}

void Multibodies::mesh_gears() {
  for (Stock& s : stock_)
    if (s.shape.gear) classify(s);
}

void Multibodies::scan_stock() {
  const int n = world_.getNumMultiBodyConstraints();
  bool same = z(n) == stock_.size() && stock_of_.size() == stock_.size();
  for (int i = 0; same && i < n; ++i) same = world_.getMultiBodyConstraint(i) == stock_[z(i)].constraint;
  if (same) {
    for (Stock& s : stock_)
      if (numbers_of(*s.constraint) != s.numbers) classify(s);
    return;
  }
  std::erase_if(stock_, [&](const Stock& s) {
    for (int i = 0; i < n; ++i)
      if (world_.getMultiBodyConstraint(i) == s.constraint) return false;
    if (host_.solver.entry(s.entry).alive) host_.solver.remove(s.entry);
    return true;
  });
  for (int i = 0; i < n; ++i) {
    btMultiBodyConstraint* c = world_.getMultiBodyConstraint(i);
    auto at = std::find_if(stock_.begin(), stock_.end(), [&](const Stock& s) { return s.constraint == c; });
    if (at == stock_.end()) {
      const std::string name = std::string(shape_of(*c).kind) + "#" + std::to_string(i);
      const int entry = host_.solver.add_entry(Owner::multibody_constraint, host_.solver.free_name(name));
      stock_.push_back({c, entry, {}, {}});
      classify(stock_.back());
      host_.solver.refresh_order();
    } else if (numbers_of(*c) != at->numbers) {
      classify(*at);
    }
  }
  stock_of_.clear();
  for (int i = 0; i < n; ++i) stock_of_.emplace(world_.getMultiBodyConstraint(i), z(i));
  std::sort(stock_.begin(), stock_.end(),
            [&](const Stock& a, const Stock& b) { return stock_of_.at(a.constraint) < stock_of_.at(b.constraint); });
}

namespace {

/// A gear whose target is its own, or the position that it has now.
articulated::Gear gear_of(btMultiBodyConstraint& constraint, const StockShape& shape) {
  const auto position = [&](const btMultiBody* body, int link) { return double(body->getJointPosMultiDof(link)[0]); };
  const btMultiBody *const a = constraint.getMultiBodyA(), *const b = constraint.getMultiBodyB();
  articulated::Gear out{{{constraint.getLinkA(), 1}, {constraint.getLinkB(), shape.ratio}}, shape.target};
  if (shape.aux >= 0) out.terms.push_back({shape.aux, -1});
  if (!shape.has_target)
    out.target = position(a, constraint.getLinkA()) - (shape.aux >= 0 ? position(a, shape.aux) : 0) +
                 shape.ratio * position(b, constraint.getLinkB());
  return out;
}

}  // namespace

void Multibodies::classify(Stock& s) {
  s.numbers = numbers_of(*s.constraint);
  s.shape = shape_of(*s.constraint);
  host::ConstraintEntry& r = host_.solver.entry(s.entry);
  trees_.set_constraint(s.entry, nullptr);
  host_.joints[s.entry].bodies.clear();
  if (r.reaction >= 0) {  // the reaction of what it was before is no more
    Reaction& reaction = host_.solver.reactions()[z(r.reaction)];
    Reaction none;
    none.name = r.name;
    none.native = true;
    none.work = reaction.work;
    reaction = std::move(none);
  }
  r.host_part = r.joint.released_to_host ? "all (the program has released it with remove(); name_joint() takes it back)"
                                         : s.shape.native;
  if (!r.host_part.empty()) return;
  const Result<std::array<BodyId, 2>> bodies = try_call([&] { return bodies_of(s); });
  if (!bodies) {
    r.host_part = "all (" + bodies.error().message + ")";
    return;
  }
  const auto [id_a, id_b] = *bodies;
  // The row of a gear is on joint positions; the constraint only says between which bodies.
  if (s.shape.gear) s.shape.rows.points.push_back({Vector3d::Zero(), Vector3d::Zero()});
  trees_.set_constraint(s.entry, std::make_unique<Constraint>(linchpin::joints::joint(
                                     r.name, id_a, id_b, s.shape.rows, s.shape.application_A, s.shape.application_B)));
  if (s.shape.gear) trees_.set_gear(s.entry, gear_of(*s.constraint, s.shape));
}

/// The core's ids of the bodies of a stock constraint. @throws std::invalid_argument  it has none
std::array<BodyId, 2> Multibodies::bodies_of(const Stock& s) {
  const Link a{s.constraint->getMultiBodyA(), s.constraint->getLinkA()};
  const Link b{s.constraint->getMultiBodyB(), s.constraint->getLinkB()};
  const BodyId id_a = trees_.link_id(tree_of(a.body), a.index);
  BodyId id_b = linchpin::ground;
  if (b.body) {
    id_b = trees_.link_id(tree_of(b.body), b.index);
  } else if (s.shape.rigid) {
    if (!host_.bodies.in_world(*s.shape.rigid)) host::demand("its rigid body is not in the world");
    if (const char* unsupported = bullet::why_unsupported(*s.shape.rigid)) host::demand(unsupported);
    id_b = host_.bodies.id(*s.shape.rigid);
    host_.joints[s.entry].bodies.push_back(s.shape.rigid);
  }
  if (id_a == id_b) host::demand("it joins a link to itself");
  return {id_a, id_b};
}

bool Multibodies::is_stock(int entry) const {
  return std::any_of(stock_.begin(), stock_.end(), [&](const Stock& s) { return s.entry == entry; });
}

void Multibodies::map(int entry) {
  for (Stock& s : stock_)
    if (s.entry == entry) classify(s);
}

bool Multibodies::adopted(const btMultiBodyConstraint* constraint) const {
  const auto at = stock_of_.find(constraint);
  return at != stock_of_.end() && at->second < stock_.size() && trees_.holds(stock_[at->second].entry);
}

}  // namespace LINCHPIN_BULLET_NAMESPACE
