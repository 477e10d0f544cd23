// Stores bodies, constraints and forces by name, and refuses invalid ones.
#include <linchpin/coordinates.h>
#include <linchpin/system.h>

#include "model/format.h"
#include "model/system_impl.h"

#include <Eigen/Eigenvalues>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace linchpin {
namespace {

// Relative rounding of the data of single-precision hosts, which must pass.
constexpr double host_round_off = 1e-6;

[[noreturn]] void refuse(const char* kind, const std::string& name, const std::string& what) {
  throw std::invalid_argument(std::string(kind) + " '" + name + "': " + what);
}

/// @param taken  index of the owner of the name, −1: none
void require_name(const char* kind, const std::string& name, int taken) {
  if (name.empty()) throw std::invalid_argument(std::string("a ") + kind + " needs a name");
  if (taken >= 0) refuse(kind, name, "this name is in use. Choose a different name");
}

void require_mass(const std::string& name, double mass) {
  if (!(mass > 0) || !std::isfinite(mass)) refuse("body", name, "mass must be positive and finite, got " + text(mass));
}

void require_finite_state(const std::string& name, const char* what, const Vector3d& u) {
  if (!u.allFinite()) refuse("body", name, std::string(what) + " must be finite, got " + text(u));
}

// Symmetric, positive definite, and (`physical`) the inertia of some distribution of mass.
struct Inertia {
  Matrix3d whole;
  double least;  // Least principal moment.
};
Inertia checked_inertia(const std::string& name, const Matrix3d& inertia, bool physical) {
  if (!inertia.allFinite()) refuse("body", name, "inertia must be finite");
  const double scale = inertia.cwiseAbs().maxCoeff();
  if ((inertia - inertia.transpose()).cwiseAbs().maxCoeff() > host_round_off * scale)
    refuse("body", name, "inertia must be symmetric");
  const Matrix3d symmetric = 0.5 * (inertia + inertia.transpose());
  const Vector3d principal = Eigen::SelfAdjointEigenSolver<Matrix3d>(symmetric, Eigen::EigenvaluesOnly).eigenvalues();
  if (!(principal[0] > 0))
    refuse("body", name, "inertia must be positive definite, got the principal moments " + text(principal));
  if (physical && principal[2] > principal[0] + principal[1] + host_round_off * scale)
    refuse("body", name,
           "a principal moment of inertia exceeds the sum of the other two, which no body has: " + text(principal) +
               " kg m²");
  return {symmetric, principal[0]};
}

Quaterniond checked_rotation(const std::string& name, const Quaterniond& q) {
  const double norm = q.norm();
  if (!(std::abs(norm - 1) <= host_round_off))
    refuse("body", name, "orientation must be a unit quaternion, its norm is " + text(norm));
  return q.normalized();
}

BodyState checked_state(const std::string& name, const BodyState& given) {
  BodyState s = given;
  require_finite_state(name, "position", s.p);
  s.q = checked_rotation(name, s.q);
  require_finite_state(name, "velocity", s.v);
  require_finite_state(name, "angular velocity", s.w);
  require_finite_state(name, "acceleration", s.a);
  require_finite_state(name, "angular acceleration", s.alpha);
  return s;
}

bool has_mass(BodyKind kind) { return kind == BodyKind::particle || kind == BodyKind::rigid; }
bool movable(BodyKind kind) { return has_mass(kind) || kind == BodyKind::coordinate; }

template <class Items>
auto& item(Items& items, int index, const char* kind) {
  if (index < 0 || static_cast<std::size_t>(index) >= items.size())
    throw std::invalid_argument("no " + std::string(kind) + " has the index " + std::to_string(index) +
                                " (this system has " + std::to_string(items.size()) + ")");
  return items[static_cast<std::size_t>(index)];
}
template <class Items, class Id>
auto& item(Items& items, Id id, const char* kind) {
  auto& found = item(items, id.index, kind);
  if (found.version != id.version)
    throw std::invalid_argument("the " + std::string(kind) + " with index " + std::to_string(id.index) +
                                " has been removed, and another " + kind +
                                " has its index now. Do not keep ids of removed objects");
  return found;
}

}  // namespace

System::Impl::Body& System::Impl::at(BodyId id) { return item(bodies, id, "body"); }
System::Impl::Entry& System::Impl::at(ConstraintId id) { return item(constraints, id, "constraint"); }
const System::Impl::Entry& System::Impl::at(ConstraintId id) const { return item(constraints, id, "constraint"); }

void System::Impl::restructured() {
  static std::atomic<unsigned long> last{0};
  structure = ++last;
}

BodyId System::Impl::append(Body body, const BodyState& start, std::function<BodyState(double)> motion) {
  restructured();
  const bool at_rest = start.p.isZero(0) && start.q.coeffs() == Quaterniond::Identity().coeffs() && start.v.isZero(0) &&
                       start.w.isZero(0) && start.a.isZero(0) && start.alpha.isZero(0);
  if (!at_rest || motion) body.given = std::make_unique<Start>(Start{start, std::move(motion)});
  // Indices of coordinates are consecutive.
  int index = body.kind == BodyKind::coordinate ? -1 : free_bodies.take(bodies.size());
  if (index < 0) {
    index = static_cast<int>(bodies.size());
    bodies.push_back(std::move(body));
  } else {
    body.version = bodies[static_cast<std::size_t>(index)].version + 1;
    bodies[static_cast<std::size_t>(index)] = std::move(body);
    bodies_replaced = true;
  }
  body_names.add(index, body_name());
  return {index, bodies[static_cast<std::size_t>(index)].version};
}

bool System::Impl::lacks_bodies(const State& state) const {
  if (state.bodies.size() < bodies.size()) return true;
  for (std::size_t i = 0; bodies_replaced && i < std::min(state.versions.size(), bodies.size()); ++i)
    if (state.versions[i] != bodies[i].version) return true;
  return false;
}

bool System::Impl::bring_in(State& state) const {
  const bool any = lacks_bodies(state);
  for (std::size_t i = 0; any && i < bodies.size(); ++i) {
    if (i == state.bodies.size())
      state.bodies.push_back(bodies[i].start());
    else if (i < state.versions.size() && state.versions[i] != bodies[i].version)
      state.bodies[i] = bodies[i].start();
  }
  if (!any && state.versions.size() == state.bodies.size()) return false;
  state.versions.resize(state.bodies.size());
  for (std::size_t i = 0; i < std::min(state.versions.size(), bodies.size()); ++i)
    state.versions[i] = bodies[i].version;
  return any;
}

std::string System::Impl::names_of(std::span<const BodyId> ids) const {
  std::string names;
  for (BodyId id : ids) names += (names.empty() ? "'" : ", '") + bodies[static_cast<std::size_t>(id.index)].name + "'";
  return names;
}

void System::Impl::require_bodies(const char* kind, const std::string& name, std::span<const BodyId> ids) const {
  for (std::size_t k = 0; k < ids.size(); ++k) {
    const int index = ids[k].index;
    if (index < 0 || static_cast<std::size_t>(index) >= bodies.size())
      refuse(kind, name,
             "its body " + std::to_string(k) + " is not in this system (index " + std::to_string(index) + ")");
    const Body& body = bodies[static_cast<std::size_t>(index)];
    if (body.version != ids[k].version)
      refuse(kind, name, "its body " + std::to_string(k) + " has been removed (index " + std::to_string(index) + ")");
    if (body.removed) refuse(kind, name, "its body '" + body.name + "' has been removed");
  }
}

namespace {

// Computes q ← (w, x, y, z) over its length. The length mostly is 1 but for rounding. Then the series of 1/√ is used.
void set_unit(Quaterniond& q, double w, double x, double y, double z) {
  const double over = (w * w + x * x) + (y * y + z * z) - 1;
  const double scale = std::fabs(over) < 1e-8 ? 1 - 0.5 * over : 1 / std::sqrt(1 + over);
  q.w() = scale * w, q.x() = scale * x, q.y() = scale * y, q.z() = scale * z;
}

}  // namespace

void advance(BodyState& body, const Vector3d& v, const Vector3d& w, double dt) {
  body.p += dt * v;
  const Vector3d half = 0.5 * dt * w;
  const double h2 = half.squaredNorm();
  // sin(h)/h and cos(h). Below the bound the next terms of the series are under 1e-17.
  double sinc, cosine;
  if (h2 < 1e-2) {
    sinc = 1 - h2 * (1. / 6 - h2 * (1. / 120 - h2 * (1. / 5040 - h2 * (1. / 362880 - h2 * (1. / 39916800)))));
    cosine = 1 - h2 * (1. / 2 - h2 * (1. / 24 - h2 * (1. / 720 - h2 * (1. / 40320 - h2 * (1. / 3628800)))));
  } else {
    const double h = std::sqrt(h2);
    sinc = std::sin(h) / h;
    cosine = std::cos(h);
  }
  const double c = cosine, x = sinc * half.x(), y = sinc * half.y(), z = sinc * half.z();
  const Quaterniond& q = body.q;
  set_unit(body.q, c * q.w() - (x * q.x() + y * q.y() + z * q.z()), c * q.x() + x * q.w() + (y * q.z() - z * q.y()),
           c * q.y() + y * q.w() + (z * q.x() - x * q.z()), c * q.z() + z * q.w() + (x * q.y() - y * q.x()));
}

Vector3d turn_between(const Quaterniond& from, const Quaterniond& to) {
  const Eigen::AngleAxisd turn(to * from.conjugate());
  return turn.angle() * turn.axis();
}

System::System() : impl_(std::make_unique<Impl>()) {
  impl_->bodies.push_back({.name = "world"});
  impl_->body_names.add(0, impl_->body_name());
}
System::~System() = default;
System::System(System&&) noexcept = default;
System& System::operator=(System&&) noexcept = default;

// ---- building ----

BodyId System::add_particle(std::string name, double mass, const Vector3d& p, const Vector3d& v) {
  require_name("body", name, impl_->find_body(name));
  require_mass(name, mass);
  const BodyState start = checked_state(name, {.p = p, .v = v});
  return impl_->append({.name = std::move(name), .kind = BodyKind::particle, .mass = mass}, start);
}

BodyId System::add_body(std::string name, double mass, const Matrix3d& inertia, const Pose& pose, const Vector3d& v,
                        const Vector3d& w) {
  require_name("body", name, impl_->find_body(name));
  require_mass(name, mass);
  const Inertia checked = checked_inertia(name, inertia, true);
  const BodyState start = checked_state(name, {.p = pose.p, .q = pose.q, .v = v, .w = w});
  return impl_->append({.name = std::move(name),
                        .kind = BodyKind::rigid,
                        .mass = mass,
                        .least_inertia = checked.least,
                        .inertia = checked.whole},
                       start);
}

BodyId System::add_body(std::string name, double mass, const Vector3d& principal_inertia, const Pose& pose,
                        const Vector3d& v, const Vector3d& w) {
  return add_body(std::move(name), mass, Matrix3d(principal_inertia.asDiagonal()), pose, v, w);
}

BodyId System::add_fixed(std::string name, const Pose& pose) {
  require_name("body", name, impl_->find_body(name));
  const BodyState start = checked_state(name, {.p = pose.p, .q = pose.q});
  return impl_->append({.name = std::move(name), .kind = BodyKind::fixed}, start);
}

BodyId System::add_kinematic(std::string name, const Pose& pose, std::function<BodyState(double)> motion) {
  require_name("body", name, impl_->find_body(name));
  const BodyState start = checked_state(name, motion ? motion(0.0) : BodyState{.p = pose.p, .q = pose.q});
  return impl_->append({.name = std::move(name), .kind = BodyKind::kinematic}, start, std::move(motion));
}

BodyId System::add_coordinates(std::vector<std::string> names, std::vector<double> q, std::vector<double> rate,
                               std::shared_ptr<const Kinetics> kinetics) {
  if (!kinetics) throw std::invalid_argument("coordinates need a kinetic energy");
  const std::size_t n = names.size();
  if (n != static_cast<std::size_t>(kinetics->size()) || q.size() != n || rate.size() != n)
    throw std::invalid_argument("the numbers of names (" + std::to_string(n) + "), values (" +
                                std::to_string(q.size()) + ") and rates (" + std::to_string(rate.size()) +
                                ") must equal the number of coordinates of the kinetic energy (" +
                                std::to_string(kinetics->size()) + ")");
  for (std::size_t i = 0; i < n; ++i) {
    require_name("coordinate", names[i], impl_->find_body(names[i]));
    if (std::count(names.begin(), names.end(), names[i]) > 1) refuse("coordinate", names[i], "is named twice");
    if (!std::isfinite(q[i]) || !std::isfinite(rate[i]))
      refuse("coordinate", names[i], "value and rate must be finite, got " + text(q[i]) + " and " + text(rate[i]));
  }
  const int first = body_count(), group = static_cast<int>(impl_->groups.size());
  impl_->groups.push_back({first, static_cast<int>(n), std::move(kinetics)});
  for (std::size_t i = 0; i < n; ++i) {
    BodyState start;
    start.p.x() = q[i];
    start.v.x() = rate[i];
    impl_->append({.name = std::move(names[i]), .kind = BodyKind::coordinate, .group = group}, start);
  }
  return {first};
}

ConstraintId System::add(Constraint constraint) {
  const std::string& name = constraint.name();
  const std::span<const BodyId> ids = constraint.bodies();
  require_name("constraint", name, impl_->find_constraint(name));
  impl_->require_bodies("constraint", name, ids);

  int moving = -1, moving_count = 0;
  for (std::size_t k = 0; k < ids.size(); ++k)
    if (movable(impl_->at(ids[k]).kind)) moving = static_cast<int>(k), ++moving_count;
  if (moving_count == 0) refuse("constraint", name, "none of its bodies (" + impl_->names_of(ids) + ") can move");

  // A point mass has only one point, so its constraint acts there.
  if (!constraint.has_application_points() && moving_count == 1 &&
      impl_->at(ids[static_cast<std::size_t>(moving)]).kind == BodyKind::particle)
    constraint.set_application_points(std::vector<Vector3d>(ids.size(), Vector3d::Zero())).set_sliding_body(moving);

  impl_->restructured();
  int index = impl_->free_constraints.take(impl_->constraints.size());
  if (index < 0) {
    index = constraint_count();
    impl_->constraints.push_back({.constraint = std::move(constraint)});
  } else {
    Impl::Entry& place = impl_->constraints[static_cast<std::size_t>(index)];
    place = {.constraint = std::move(constraint), .version = place.version + 1};
  }
  impl_->constraint_names.add(index, impl_->constraint_name());
  return constraint_at(index);
}

void System::add(Force force) {
  const auto same = [&](const Force& f) { return f.name() == force.name(); };
  if (std::any_of(impl_->forces.begin(), impl_->forces.end(), same))
    refuse("force", force.name(), "this name is in use. Choose a different name");
  impl_->require_bodies("force", force.name(), force.bodies());
  impl_->forces.push_back(std::move(force));
}

void System::set_gravity(const Vector3d& g) {
  if (!g.allFinite()) throw std::invalid_argument("gravity must be finite, got " + text(g));
  impl_->gravity = g;
}

Result<BodyId> System::try_add_particle(std::string name, double mass, const Vector3d& p, const Vector3d& v) noexcept {
  return try_call([&] { return add_particle(std::move(name), mass, p, v); });
}
Result<BodyId> System::try_add_body(std::string name, double mass, const Matrix3d& inertia, const Pose& pose,
                                    const Vector3d& v, const Vector3d& w) noexcept {
  return try_call([&] { return add_body(std::move(name), mass, inertia, pose, v, w); });
}
Result<BodyId> System::try_add_fixed(std::string name, const Pose& pose) noexcept {
  return try_call([&] { return add_fixed(std::move(name), pose); });
}
Result<BodyId> System::try_add_kinematic(std::string name, const Pose& pose,
                                         std::function<BodyState(double)> motion) noexcept {
  return try_call([&] { return add_kinematic(std::move(name), pose, std::move(motion)); });
}
Result<BodyId> System::try_add_coordinates(std::vector<std::string> names, std::vector<double> q,
                                           std::vector<double> rate,
                                           std::shared_ptr<const Kinetics> kinetics) noexcept {
  return try_call(
      [&] { return add_coordinates(std::move(names), std::move(q), std::move(rate), std::move(kinetics)); });
}
Result<ConstraintId> System::try_add(Constraint constraint) noexcept {
  return try_call([&] { return add(std::move(constraint)); });
}
Result<void> System::try_add(Force force) noexcept {
  return try_call([&] { add(std::move(force)); });
}
Result<void> System::try_set_mass(BodyId id, double mass, const Matrix3d& inertia) noexcept {
  return try_call([&] { set_mass(id, mass, inertia); });
}

// ---- changing ----

void System::enable(ConstraintId id, bool on) {
  if (!on && removed(id)) return;
  Impl::Entry& entry = impl_->at(id);
  if (entry.removed && on) refuse("constraint", entry.constraint.name(), "has been removed and cannot be enabled");
  entry.enabled = on;
  impl_->restructured();
}

bool System::enabled(ConstraintId id) const { return !removed(id) && impl_->at(id).enabled; }

void System::remove(ConstraintId id) {
  if (removed(id)) return;
  Impl::Entry& entry = impl_->at(id);
  entry.removed = true;
  impl_->restructured();
  entry.enabled = false;
  if (entry.lawful) entry.lawful->laws.clear();
  impl_->constraint_names.erase(id.index, entry.constraint.name());
  impl_->free_constraints.give(id.index);
}

void System::set_name(BodyId id, std::string name) {
  if (id == ground) throw std::invalid_argument("body 'world': cannot have another name");
  Impl::Body& body = impl_->at(id);
  if (body.name == name) return;
  require_name("body", name, impl_->find_body(name));
  impl_->body_names.erase(id.index, body.name);
  body.name = std::move(name);
  impl_->body_names.add(id.index, impl_->body_name());
}

void System::remove(BodyId id) {
  if (id == ground) throw std::invalid_argument("body 'world': cannot be removed");
  if (removed(id)) return;
  Impl::Body& body = impl_->at(id);
  if (body.kind == BodyKind::coordinate)
    refuse("coordinate", body.name, "cannot be removed: the mass matrix couples it to the others");
  impl_->restructured();
  const auto names = [&](std::span<const BodyId> ids) { return std::find(ids.begin(), ids.end(), id) != ids.end(); };
  for (int i = 0; i < constraint_count(); ++i)
    if (names(constraint(constraint_at(i)).bodies())) remove(constraint_at(i));
  std::erase_if(impl_->forces, [&](const Force& f) { return names(f.bodies()); });
  impl_->body_names.erase(id.index, body.name);
  body.removed = true;
  body.kind = BodyKind::fixed;
  body.mass = 0;
  body.inertia.setZero();
  if (body.given) body.given->motion = {};
  impl_->free_bodies.give(id.index);
}

void System::set_mass(BodyId id, double mass, const Matrix3d& inertia) {
  Impl::Body& body = impl_->at(id);
  if (!has_mass(body.kind)) refuse("body", body.name, "only particles and rigid bodies have a mass");
  require_mass(body.name, mass);
  if (body.kind == BodyKind::rigid) {
    const Inertia checked = checked_inertia(body.name, inertia, false);
    body.inertia = checked.whole;
    body.least_inertia = checked.least;
  }
  body.mass = mass;
}

// ---- queries ----

unsigned long System::structure() const { return impl_->structure; }
void System::reserve(int bodies, int constraints) {
  impl_->bodies.reserve(static_cast<std::size_t>(std::max(bodies, 0)));
  impl_->constraints.reserve(static_cast<std::size_t>(std::max(constraints, 0)));
}
int System::body_count() const { return static_cast<int>(impl_->bodies.size()); }
int System::constraint_count() const { return static_cast<int>(impl_->constraints.size()); }
BodyId System::body_at(int index) const { return {index, item(impl_->bodies, index, "body").version}; }
ConstraintId System::constraint_at(int index) const {
  return {index, item(impl_->constraints, index, "constraint").version};
}
BodyKind System::kind(BodyId id) const {
  const Impl::Body& body = item(impl_->bodies, id.index, "body");
  return body.version == id.version ? body.kind : BodyKind::fixed;
}

int System::dof(BodyId id) const {
  const BodyKind k = kind(id);
  return k == BodyKind::rigid ? 6 : k == BodyKind::particle ? 3 : k == BodyKind::coordinate ? 1 : 0;
}

System::CoordinateGroup System::coordinates(BodyId id) const {
  const int group = impl_->at(id).group;
  if (group < 0) return {};
  const Impl::Group& g = impl_->groups[static_cast<std::size_t>(group)];
  return {BodyId{g.first}, g.count, g.kinetics.get()};
}

namespace detail {
void no_coordinates() { throw std::invalid_argument("a kinetic energy needs at least one coordinate"); }
}  // namespace detail

double System::mass(BodyId id) const { return impl_->at(id).mass; }
const Matrix3d& System::inertia(BodyId id) const { return impl_->at(id).inertia; }
const std::string& System::name(BodyId id) const { return impl_->at(id).name; }
const std::string& System::name(ConstraintId id) const { return impl_->at(id).constraint.name(); }
const Constraint& System::constraint(ConstraintId id) const { return impl_->at(id).constraint; }
Constraint& System::constraint(ConstraintId id) { return impl_->at(id).constraint; }
bool System::removed(BodyId id) const {
  const Impl::Body& body = item(impl_->bodies, id.index, "body");
  return body.removed || body.version != id.version;
}
bool System::removed(ConstraintId id) const {
  const Impl::Entry& entry = item(impl_->constraints, id.index, "constraint");
  return entry.removed || entry.version != id.version;
}
const Vector3d& System::gravity() const { return impl_->gravity; }
std::span<const Force> System::forces() const { return impl_->forces; }

BodyId System::find_body(std::string_view name) const {
  const int index = impl_->find_body(name);
  return index < 0 ? BodyId{} : body_at(index);
}

ConstraintId System::find_constraint(std::string_view name) const {
  const int index = impl_->find_constraint(name);
  return index < 0 ? ConstraintId{} : constraint_at(index);
}

State System::initial_state() const {
  State state;
  state.bodies.reserve(impl_->bodies.size());
  for (const Impl::Body& body : impl_->bodies) state.bodies.push_back(body.start());
  impl_->bring_in(state);
  return state;
}

void System::update_kinematic(State& state) const {
  impl_->bring_in(state);
  for (std::size_t i = 0; i < impl_->bodies.size(); ++i) {
    const Impl::Body& body = impl_->bodies[i];
    if (body.kind == BodyKind::fixed) {
      state.bodies[i] = {.p = body.start().p, .q = body.start().q};
    } else if (body.kind == BodyKind::kinematic && body.given && body.given->motion) {
      state.bodies[i] = body.given->motion(state.t);
      state.bodies[i].q.normalize();
    }
  }
}

Matrix3d System::world_inertia(BodyId id, const Quaterniond& q) const {
  const Matrix3d R = q.toRotationMatrix();
  const Matrix3d half = R * inertia(id);
  Matrix3d turned;
  for (int i = 0; i < 3; ++i)  // Computes half of it, which makes it symmetric to the last bit.
    for (int j = 0; j <= i; ++j)
      turned(i, j) = turned(j, i) = half(i, 0) * R(j, 0) + half(i, 1) * R(j, 1) + half(i, 2) * R(j, 2);
  return turned;
}

Vector3d System::gyroscopic_torque(BodyId id, const BodyState& s) const {
  const Matrix3d R = s.R();
  const Vector3d momentum = R * (inertia(id) * (R.transpose() * s.w));
  return -s.w.cross(momentum);  // (T2)
}

}  // namespace linchpin
