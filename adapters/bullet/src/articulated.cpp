#include "articulated.h"

#include "bodies.h"
#include "columns.h"

#include <BulletDynamics/Featherstone/btMultiBodyLinkCollider.h>

#include <cmath>
#include <limits>
#include <utility>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {

Quaterniond from_bullet_turn(const btQuaternion& q) {
  return Quaterniond(double(q.w()), double(q.x()), double(q.y()), double(q.z())).normalized();
}
double square(double x) { return x * x; }

}  // namespace

std::string Articulated::unsupported() const {
  if (body_->isUsingRK4Integration()) return "it is integrated by RK4 (useRK4Integration)";
  if (body_->isUsingGlobalVelocities()) return "it keeps global velocities (useGlobalVelocities)";
  if (body_->isBaseKinematic()) return "its base is kinematic";
  for (int i = 0; i < body_->getNumLinks(); ++i) {
    const btMultibodyLink& link = body_->getLink(i);
    if (link.m_jointType == btMultibodyLink::ePlanar) return "joint " + std::to_string(i) + " is planar";
    if (link.m_jointType == btMultibodyLink::eInvalid) return "joint " + std::to_string(i) + " has not been set up";
    if (link.m_collider && link.m_collider->isStaticOrKinematicObject())
      return "the collider of link " + std::to_string(i) + " is static or kinematic";
  }
  return {};
}

bool Articulated::same_shape() const {
  return links_ == body_->getNumLinks() && dofs_ == body_->getNumDofs() && first_ == (body_->hasFixedBase() ? 6 : 0);
}

std::vector<int> Articulated::limbs() const {
  if (first_ == 0) return {columns()};
  std::vector<int> sizes, root(z(links_));
  for (int i = 0; i < links_; ++i) {
    const int up = body_->getLink(i).m_parent;
    root[z(i)] = up < 0 ? i : root[z(up)];
  }
  std::vector<char> seen(z(links_), 0);
  int last = -1;
  for (int k = 0; k < dofs_; ++k) {
    const int own = root[z(link_of_[z(k)])];
    if (std::exchange(last, own) != own) {
      if (std::exchange(seen[z(own)], 1)) return {columns()};  // its coordinates are in several places
      sizes.push_back(0);
    }
    ++sizes.back();
  }
  return sizes;
}

// Whoever touches a link touches its ancestors: a group goes on as long as every link hangs on the one before it, and
// no other.
std::vector<int> Articulated::groups() const {
  std::vector<int> sizes, children(z(links_ + 1), 0);
  if (first_ == 0) sizes.push_back(6);
  for (int i = 0; i < links_; ++i) ++children[z(body_->getLink(i).m_parent + 1)];
  int last = -2;  // link of the group's last column
  for (int i = 0; i < links_; ++i) {
    const btMultibodyLink& own = body_->getLink(i);
    if (own.m_dofCount == 0) {  // a weld: part of the line it is in
      if (own.m_parent == last && children[z(last + 1)] == 1) last = i;
      continue;
    }
    const bool on =
        last >= 0 && own.m_parent == last && children[z(last + 1)] == 1 && sizes.back() + own.m_dofCount <= 6;
    on ? void(sizes.back() += own.m_dofCount) : sizes.push_back(own.m_dofCount);
    last = i;
  }
  return sizes;
}

// As btMultiBodyDynamicsWorld looks at it: one collider asleep, and the multibody stands.
bool Articulated::asleep() const {
  const auto sleeps = [](const btMultiBodyLinkCollider* c) { return c && c->getActivationState() == ISLAND_SLEEPING; };
  bool any = sleeps(body_->getBaseCollider());
  for (int i = 0; i < body_->getNumLinks(); ++i) any = any || sleeps(body_->getLink(i).m_collider);
  return any;
}

Vector3d Articulated::axis_top(int link, int k) const { return from_bullet(body_->getLink(link).getAxisTop(k)); }
Vector3d Articulated::axis_bottom(int link, int k) const { return from_bullet(body_->getLink(link).getAxisBottom(k)); }
double Articulated::mass(int link) const { return double(link < 0 ? body_->getBaseMass() : body_->getLinkMass(link)); }
Vector3d Articulated::inertia(int link) const {
  return from_bullet(link < 0 ? body_->getBaseInertia() : body_->getLinkInertia(link));
}

void Articulated::capture() {
  links_ = body_->getNumLinks();
  dofs_ = body_->getNumDofs();
  first_ = body_->hasFixedBase() ? 6 : 0;
  start_.p = from_bullet(body_->getBasePos());
  start_.q = from_bullet_turn(body_->getWorldToBaseRot()).conjugate();
  start_.joints.resize(z(body_->getNumPosVars()));
  u_.resize(z(rates()));
  for (int i = 0; i < rates(); ++i) u_[z(i)] = double(body_->getVelocityVector()[i]);
  torque_.assign(z(dofs_), 0);
  link_of_.assign(z(dofs_), -1);
  every_.resize(z(links_ + 1));
  for (int i = 0; i <= links_; ++i) every_[z(i)] = links_ - 1 - i;
  fixed_.resize(z(links_));
  forces_.resize(z(links_ + 1));
  forces_[0] = {from_bullet(body_->getBaseForce()), from_bullet(body_->getBaseTorque())};
  for (int i = 0; i < links_; ++i) {
    const btMultibodyLink& link = body_->getLink(i);
    for (int k = 0; k < link.m_posVarCount; ++k) start_.joints[z(link.m_cfgOffset + k)] = double(link.m_jointPos[k]);
    for (int k = 0; k < link.m_dofCount; ++k) {
      torque_[z(link.m_dofOffset + k)] = double(link.m_jointTorque[k]);
      link_of_[z(link.m_dofOffset + k)] = i;
    }
    fixed_[z(i)] = {from_bullet_turn(link.m_zeroRotParentToThis).conjugate().toRotationMatrix(),
                    link.m_jointType == btMultibodyLink::eRevolute ? axis_top(i, 0).normalized() : Vector3d::UnitX()};
    forces_[z(i + 1)] = {from_bullet(link.m_appliedForce), from_bullet(link.m_appliedTorque)};
  }
}

Matrix3d Articulated::to_parent(int i, const Configuration& at) const {
  const btMultibodyLink& link = body_->getLink(i);
  const Fixed& own = fixed_[z(i)];
  const double* q = at.joints.data() + link.m_cfgOffset;
  switch (link.m_jointType) {
    case btMultibodyLink::eRevolute:
      return own.to_parent * Eigen::AngleAxisd(q[0], own.axis).toRotationMatrix();
    case btMultibodyLink::eSpherical:
      return own.to_parent * Quaterniond(q[3], q[0], q[1], q[2]).normalized().toRotationMatrix();
    default:
      return own.to_parent;
  }
}

void Articulated::place(const Configuration& at, std::span<const double> u, std::vector<Place>& out) const {
  out.resize(z(links_ + 1));
  Place& base = out[0];
  base.p = base.pivot = at.p;
  base.R = at.q.toRotationMatrix();
  base.w = head(u, 0);
  base.v = head(u, 3);
  base.a.setZero();
  base.alpha.setZero();
  for (int i = 0; i < links_; ++i) {
    const btMultibodyLink& link = body_->getLink(i);
    const Place& up = out[z(link.m_parent + 1)];
    Place& to = out[z(i + 1)];
    to.R = up.R * to_parent(i, at);
    to.pivot = up.p + up.R * from_bullet(link.m_eVector);
    if (link.m_jointType == btMultibodyLink::ePrismatic)  // a slider's goes with the link
      to.pivot += at.joints[z(link.m_cfgOffset)] * (to.R * axis_bottom(i, 0));
    to.p = to.pivot + to.R * from_bullet(link.m_dVector);
    Vector3d turn = Vector3d::Zero(), slide = Vector3d::Zero();
    for (int k = 0; k < link.m_dofCount; ++k) {
      const double rate = u[z(6 + link.m_dofOffset + k)];
      turn += rate * axis_top(i, k);
      slide += rate * axis_bottom(i, k);
    }
    turn = to.R * turn;
    slide = to.R * slide;
    const Vector3d r = to.p - up.p;
    to.w = up.w + turn;
    to.v = up.v + up.w.cross(r) + slide;
    to.alpha = up.alpha + up.w.cross(turn);
    to.a = up.a + up.alpha.cross(r) + up.w.cross(up.w.cross(r) + slide) + to.w.cross(slide);
  }
}

void Articulated::advance(const Configuration& from, std::span<const double> u, double dt, Configuration& to) const {
  to.joints = from.joints;
  to.p = from.p + dt * head(u, 3);
  to.q = (host_rotation(head(u, 0), dt) * from.q).normalized();
  for (int i = 0; i < links_; ++i) {
    const btMultibodyLink& link = body_->getLink(i);
    double* q = to.joints.data() + link.m_cfgOffset;
    const int at = 6 + link.m_dofOffset;
    if (link.m_jointType == btMultibodyLink::eSpherical) {
      const Quaterniond turn = Quaterniond(q[3], q[0], q[1], q[2]).normalized();
      const Quaterniond next = (host_rotation(turn * head(u, at), dt) * turn).normalized();
      q[0] = next.x(), q[1] = next.y(), q[2] = next.z(), q[3] = next.w();
    } else if (link.m_dofCount == 1) {
      q[0] += dt * u[z(at)];
    }
  }
}

void Articulated::write(const Configuration& q) const {
  if (first_ == 0) {
    body_->setBasePos(to_bullet(q.p));
    const Quaterniond b = q.q.conjugate();
    body_->setWorldToBaseRot(btQuaternion(btScalar(b.x()), btScalar(b.y()), btScalar(b.z()), btScalar(b.w())));
  }
  for (int i = 0; i < links_; ++i)
    if (const btMultibodyLink& link = body_->getLink(i); link.m_posVarCount > 0)
      body_->setJointPosMultiDof(i, q.joints.data() + link.m_cfgOffset);
  btAlignedObjectArray<btQuaternion> turns;
  btAlignedObjectArray<btVector3> places;
  body_->forwardKinematics(turns, places);
}

bool Articulated::refresh() {
  place(start_, u_, places_);
  top_.resize(z(dofs_));
  bottom_.resize(z(dofs_));
  for (int k = 0; k < dofs_; ++k) {
    const int i = link_of_[z(k)], own = k - body_->getLink(i).m_dofOffset;
    top_[z(k)] = places_[z(i + 1)].R * axis_top(i, own);
    bottom_[z(k)] = places_[z(i + 1)].R * axis_bottom(i, own);
  }
  return factor();
}

// ---- the mass as an operator ----

namespace {

Matrix3d cross_matrix(const Vector3d& r) {
  Matrix3d out;
  out << 0, -r.z(), r.y(), r.z(), 0, -r.x(), -r.y(), r.x(), 0;
  return out;
}
// A wrench [force; moment] about a point that is r from the new one.
Articulated::Vector6 about(const Articulated::Vector6& w, const Vector3d& r) {
  Articulated::Vector6 out = w;
  out.tail<3>() += r.cross(w.head<3>());
  return out;
}

}  // namespace

/// From the parent's centre to the link's.
Vector3d Articulated::arm(int link) const {
  return places_[z(link + 1)].p - places_[z(body_->getLink(link).m_parent + 1)].p;
}

/// A coordinate's direction of motion [linear; angular] at its link's centre; those of a base that moves come first.
Articulated::Vector6 Articulated::direction(int column) const {
  Vector6 out = Vector6::Zero();
  const int k = column + first_ - 6;
  if (k < 0)
    out[(column + 3) % 6] = 1;
  else
    out << bottom_[z(k)], top_[z(k)];
  return out;
}

// From the tips inward: what a joint feels behind it, P, loses what the joint lets go, P S Sᵀ P / D, and the rest is
// borne by the parent. A coordinate after the other, also where a joint has several.
bool Articulated::factor() {
  pivots_.resize(z(columns()));
  inertias_.resize(z(links_ + 1));
  lost_.assign(z(columns()), 0);
  for (int i = 0; i <= links_; ++i) {
    auto& P = inertias_[z(i)];
    P.setZero();
    P.diagonal().head<3>().setConstant(mass(i - 1));
    P.bottomRightCorner<3, 3>() = places_[z(i)].R * inertia(i - 1).asDiagonal() * places_[z(i)].R.transpose();
  }
  const auto columns_of = [&](int link) -> std::pair<int, int> {
    if (link < 0) return {0, 6 - first_};
    const btMultibodyLink& own = body_->getLink(link);
    return {column_of(own.m_dofOffset), column_of(own.m_dofOffset + own.m_dofCount)};
  };
  for (const int link : every_) {
    auto& P = inertias_[z(link + 1)];
    const auto [begin, end] = columns_of(link);
    const int parent = link < 0 ? -2 : body_->getLink(link).m_parent;
    const Vector3d r = link < 0 ? Vector3d(Vector3d::Zero()) : arm(link);
    const auto [up_begin, up_end] = parent < -1 ? std::pair(0, 0) : columns_of(parent);
    for (int c = begin; c < end; ++c) {
      const Vector6 S = direction(c), U = P * S;
      const double D = S.dot(U);
      // Of what has cancelled only rounding may be left: M would be singular.
      constexpr double least = 32 * std::numeric_limits<double>::epsilon();
      if (!(D > least * (D + lost_[z(c)])) || !std::isfinite(D)) return false;
      pivots_[z(c)] = {U / D, 1 / std::sqrt(D)};
      P.noalias() -= U * pivots_[z(c)].gain.transpose();
      for (int other = c + 1; other < end; ++other) lost_[z(other)] += square(direction(other).dot(U)) / D;
      const Vector6 borne = about(U, r);
      for (int other = up_begin; other < up_end; ++other) lost_[z(other)] += square(direction(other).dot(borne)) / D;
    }
    if (parent < -1 || (parent == -1 && first_ > 0)) continue;
    const Matrix3d R = cross_matrix(r), C = P.topLeftCorner<3, 3>(), H = P.topRightCorner<3, 3>();
    const Matrix3d moved = H - C * R;
    auto& up = inertias_[z(parent + 1)];
    up.topLeftCorner<3, 3>() += C;
    up.topRightCorner<3, 3>() += moved;
    up.bottomLeftCorner<3, 3>() += moved.transpose();
    up.bottomRightCorner<3, 3>() += P.bottomRightCorner<3, 3>() - H.transpose() * R + R * moved;
  }
  return true;
}

void Articulated::to_unit(std::span<const int> path, std::span<Vector6> on, std::span<double> w) const {
  for (const int link : path) {
    Vector6& f = on[z(link + 1)];
    const auto take = [&](int c) {
      const double left = w[z(c)] + direction(c).dot(f);
      w[z(c)] = left * pivots_[z(c)].root;
      f -= left * pivots_[z(c)].gain;
    };
    if (link < 0) {
      for (int c = 0; c < 6 - first_; ++c) take(c);
      continue;
    }
    const btMultibodyLink& own = body_->getLink(link);
    for (int k = own.m_dofOffset; k < own.m_dofOffset + own.m_dofCount; ++k) take(column_of(k));
    on[z(own.m_parent + 1)] += about(f, arm(link));
  }
}

// moves_ of a link ← that of its parent, seen at the link's centre: the joint between them as yet at rest.
Articulated::Vector6& Articulated::carry(int link) const {
  const Vector6& up = moves_[z(body_->getLink(link).m_parent + 1)];
  Vector6& motion = moves_[z(link + 1)];
  motion = up;
  motion.head<3>() += up.tail<3>().cross(arm(link));
  return motion;
}

void Articulated::from_unit(std::span<double> v) const {
  moves_.resize(z(links_ + 1));
  const auto give = [&](int c, Vector6& motion) {
    v[z(c)] = v[z(c)] * pivots_[z(c)].root - pivots_[z(c)].gain.dot(motion);
    motion += v[z(c)] * direction(c);
  };
  moves_[0].setZero();
  for (int c = 5 - first_; c >= 0; --c) give(c, moves_[0]);
  for (int i = 0; i < links_; ++i) {
    const btMultibodyLink& own = body_->getLink(i);
    Vector6& motion = carry(i);
    for (int k = own.m_dofOffset + own.m_dofCount - 1; k >= own.m_dofOffset; --k) give(column_of(k), motion);
  }
}

void Articulated::free_acceleration(std::span<double> out) const {
  on_.resize(z(links_ + 1));
  for (int i = 0; i <= links_; ++i) {
    const Force own = acting(i);
    on_[z(i)] << own.f, own.n;
  }
  for (int c = 0; c < 6 - first_; ++c) out[z(c)] = 0;
  for (int k = 0; k < dofs_; ++k) out[z(column_of(k))] = torque_[z(k)];
  to_unit(on_, out);
  from_unit(out);
}

// moves_ ← accelerations of the links by those of the joints alone.
void Articulated::accelerate(std::span<const double> vdot) const {
  moves_.resize(z(links_ + 1));
  moves_[0].setZero();
  if (first_ == 0) moves_[0] << head(vdot, 3), head(vdot, 0);
  for (int i = 0; i < links_; ++i) {
    const btMultibodyLink& own = body_->getLink(i);
    Vector6& motion = carry(i);
    for (int k = own.m_dofOffset; k < own.m_dofOffset + own.m_dofCount; ++k) {
      motion.head<3>() += vdot[z(column_of(k))] * bottom_[z(k)];
      motion.tail<3>() += vdot[z(column_of(k))] * top_[z(k)];
    }
  }
}

// What a link takes to be moved so, its velocity apart.
Articulated::Force Articulated::resistance(int i) const {
  const Matrix3d& R = places_[z(i)].R;
  const Vector3d turn = moves_[z(i)].tail<3>();
  return {mass(i - 1) * moves_[z(i)].head<3>(), R * (inertia(i - 1).asDiagonal() * (R.transpose() * turn))};
}

void Articulated::times_mass(std::span<const double> v, std::span<double> out) const {
  accelerate(v);
  scratch_.resize(z(links_ + 1));
  for (int i = 0; i <= links_; ++i) scratch_[z(i)] = resistance(i);
  generalized(scratch_, out);
}

void Articulated::mass_matrix(std::vector<double>& out) const {
  const int n = columns();
  out.assign(z(n) * z(n), 0.0);
  std::vector<double> one(z(n), 0.0), column(z(n));
  for (int c = 0; c < n; ++c) {
    one[z(c)] = 1;
    times_mass(one, column);
    one[z(c)] = 0;
    for (int r = 0; r < n; ++r) out[z(r) * z(n) + z(c)] = column[z(r)];
  }
  for (int r = 0; r < n; ++r)  // its two halves may differ by rounding
    for (int c = 0; c < r; ++c) out[z(c) * z(n) + z(r)] = out[z(r) * z(n) + z(c)];
}

// ---- forces ----

// What a link takes to move as it does with all joint accelerations zero.
Articulated::Force Articulated::inertial(int i) const {
  const Place& at = places_[z(i)];
  const Matrix3d I = at.R * inertia(i - 1).asDiagonal() * at.R.transpose();
  Force out{mass(i - 1) * at.a, I * at.alpha};
  if (body_->getUseGyroTerm()) out.n += at.w.cross(I * at.w);
  return out;
}

// Bullet's damping, which grows with the speed.
Articulated::Force Articulated::damped(int i) const {
  const Place& at = places_[z(i)];
  const double c = double(body_->getLinearDamping()), d = double(body_->getAngularDamping());
  const Vector3d spin = at.R * (inertia(i - 1).asDiagonal() * (at.R.transpose() * at.w));
  return {-mass(i - 1) * c * (1 + at.v.norm()) * at.v, -d * (1 + at.w.norm()) * spin};
}

// Adds what acts on the links to their parents, about the parents' centres.
void Articulated::inward(std::vector<Force>& on) const {
  for (int i = links_; i >= 1; --i) {
    const int up = body_->getLink(i - 1).m_parent + 1;
    on[z(up)].f += on[z(i)].f;
    on[z(up)].n += on[z(i)].n + (places_[z(i)].p - places_[z(up)].p).cross(on[z(i)].f);
  }
}

// What forces on the links, about their centres, are along the coordinates. Spoils `on`.
// What is left of the applied forces and damping for joint accelerations.
Articulated::Force Articulated::acting(int i) const {
  const Force needed = inertial(i), damping = damped(i);
  return {forces_[z(i)].f - needed.f + damping.f, forces_[z(i)].n - needed.n + damping.n};
}

void Articulated::generalized(std::vector<Force>& on, std::span<double> out) const {
  inward(on);
  for (int k = 0; k < dofs_; ++k) {
    const Force& at = on[z(link_of_[z(k)] + 1)];
    out[z(column_of(k))] = top_[z(k)].dot(at.n) + bottom_[z(k)].dot(at.f);
  }
  if (first_ > 0) return;
  put(out, 0, on[0].n);
  put(out, 3, on[0].f);
}

void Articulated::applied(std::span<double> out) const {
  scratch_.resize(z(links_ + 1));
  for (int i = 0; i <= links_; ++i) scratch_[z(i)] = acting(i);
  generalized(scratch_, out);
  for (int k = 0; k < dofs_; ++k) out[z(column_of(k))] += torque_[z(k)];
}

void Articulated::causes(const Vector3d& g, Causes& out) const {
  const auto of = [&](std::vector<double>& sum, auto force) {
    sum.resize(z(columns()));
    scratch_.resize(z(links_ + 1));
    for (int i = 0; i <= links_; ++i) scratch_[z(i)] = force(i);
    generalized(scratch_, sum);
  };
  const auto weight = [&](int i) { return (mass(i - 1) * g).eval(); };
  of(out.gravity, [&](int i) { return Force{weight(i), Vector3d::Zero()}; });
  of(out.velocity, [&](int i) {
    const Force needed = inertial(i);
    return Force{-needed.f, -needed.n};
  });
  of(out.damping, [&](int i) { return damped(i); });
  of(out.applied, [&](int i) { return Force{forces_[z(i)].f - weight(i), forces_[z(i)].n}; });
  for (int k = 0; k < dofs_; ++k) out.applied[z(column_of(k))] += torque_[z(k)];
}

void Articulated::applied_on_links(std::vector<Wrench>& out) const {
  out.resize(z(links_ + 1));
  for (int i = 0; i <= links_; ++i) {
    const Place& at = places_[z(i)];
    const Force damping = damped(i);
    out[z(i)] = {forces_[z(i)].f + damping.f, forces_[z(i)].n + damping.n, at.p};
    if (!body_->getUseGyroTerm()) continue;
    const Vector3d spin = at.R * (inertia(i - 1).asDiagonal() * (at.R.transpose() * at.w));
    out[z(i)].moment -= at.w.cross(spin);
  }
  add_along_joints(torque_, out);
}

void Articulated::add_along_joints(std::span<const double> efforts, std::vector<Wrench>& on) const {
  for (int k = 0; k < dofs_; ++k) {
    const std::size_t down = z(link_of_[z(k)] + 1), up = z(body_->getLink(link_of_[z(k)]).m_parent + 1);
    const bool slides = body_->getLink(link_of_[z(k)]).m_jointType == btMultibodyLink::ePrismatic;
    const Vector3d f = slides ? Vector3d(efforts[z(k)] * bottom_[z(k)]) : Vector3d(Vector3d::Zero()),
                   n = slides ? Vector3d(Vector3d::Zero()) : Vector3d(efforts[z(k)] * top_[z(k)]);
    on[down].force += f;
    on[down].moment += n;
    on[up].force -= f;
    on[up].moment -= n + (places_[down].p - places_[up].p).cross(f);
  }
}

void Articulated::along(std::span<const Wrench> on, std::span<double> out) const {
  scratch_.resize(z(links_ + 1));
  for (int i = 0; i <= links_; ++i) scratch_[z(i)] = {on[z(i)].force, on[z(i)].moment};
  generalized(scratch_, out);
}

void Articulated::add_row(int link, const double* row, std::span<double> out) const {
  const Vector3d f(row[0], row[1], row[2]), n(row[3], row[4], row[5]);
  const Vector3d& p = places_[z(link + 1)].p;
  for (int j = link; j >= 0; j = body_->getLink(j).m_parent) {
    const btMultibodyLink& up = body_->getLink(j);
    const Vector3d about = n + (p - places_[z(j + 1)].p).cross(f);
    for (int k = up.m_dofOffset; k < up.m_dofOffset + up.m_dofCount; ++k)
      out[z(column_of(k))] += bottom_[z(k)].dot(f) + top_[z(k)].dot(about);
  }
  if (first_ > 0) return;
  add(out, 0, n + (p - places_[0].p).cross(f));
  add(out, 3, f);
}

bool Articulated::moves(int link) const {
  if (first_ == 0) return true;
  for (; link >= 0; link = body_->getLink(link).m_parent)
    if (body_->getLink(link).m_dofCount > 0) return true;
  return false;
}

// scratch_ ← what the links take to be accelerated as they are in moves_, less what others do of it.
void Articulated::resist(std::span<const Wrench> others) const {
  scratch_.resize(z(links_ + 1));
  for (int i = 0; i <= links_; ++i) {
    const Force needed = resistance(i);
    scratch_[z(i)] = {needed.f - others[z(i)].force, needed.n - others[z(i)].moment};
  }
}

void Articulated::at_pivots(std::vector<Wrench>& out) const {
  inward(scratch_);
  out.resize(z(links_ + 1));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = Wrench{scratch_[i].f, scratch_[i].n, places_[i].p}.about(places_[i].pivot);
}

void Articulated::through_joints(std::span<const double> vdot, std::span<const Wrench> others,
                                 std::vector<Wrench>& out) const {
  accelerate(vdot);
  resist(others);
  for (int i = 0; i <= links_; ++i) {
    const Force needed = inertial(i), damping = damped(i);
    scratch_[z(i)].f += needed.f - damping.f - forces_[z(i)].f;
    scratch_[z(i)].n += needed.n - damping.n - forces_[z(i)].n;
  }
  at_pivots(out);
}

void Articulated::through_joints_at_rest(std::span<const double> vdot, std::span<const Wrench> others,
                                         std::vector<Wrench>& out) const {
  accelerate(vdot);
  resist(others);
  at_pivots(out);
}

double Articulated::kinetic() const {
  double sum = 0;
  for (int i = first_ > 0 ? 1 : 0; i <= links_; ++i) {
    const Place& at = places_[z(i)];
    const Vector3d w = at.R.transpose() * at.w;
    sum += 0.5 * mass(i - 1) * at.v.squaredNorm() + 0.5 * w.dot(inertia(i - 1).asDiagonal() * w);
  }
  return sum;
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
