#include "articulated.h"

#include "bodies.h"
#include "columns.h"

#include <BulletDynamics/Featherstone/btMultiBodyLinkCollider.h>

#include <utility>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {

Quaterniond from_bullet_turn(const btQuaternion& q) {
  return Quaterniond(double(q.w()), double(q.x()), double(q.y()), double(q.z())).normalized();
}
Matrix3d rotation(const Vector3d& axis, double angle) {
  return Eigen::AngleAxisd(angle, axis.normalized()).toRotationMatrix();
}

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
  std::vector<int> sizes;
  std::vector<char> seen(z(links_), 0);
  int last = -1;
  for (int k = 0; k < dofs_; ++k) {
    int root = link_of_[z(k)];
    while (body_->getLink(root).m_parent >= 0) root = body_->getLink(root).m_parent;
    if (std::exchange(last, root) != root) {
      if (std::exchange(seen[z(root)], 1)) return {columns()};  // its coordinates are in several places
      sizes.push_back(0);
    }
    ++sizes.back();
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
  forces_.resize(z(links_ + 1));
  forces_[0] = {from_bullet(body_->getBaseForce()), from_bullet(body_->getBaseTorque())};
  for (int i = 0; i < links_; ++i) {
    const btMultibodyLink& link = body_->getLink(i);
    for (int k = 0; k < link.m_posVarCount; ++k) start_.joints[z(link.m_cfgOffset + k)] = double(link.m_jointPos[k]);
    for (int k = 0; k < link.m_dofCount; ++k) {
      torque_[z(link.m_dofOffset + k)] = double(link.m_jointTorque[k]);
      link_of_[z(link.m_dofOffset + k)] = i;
    }
    forces_[z(i + 1)] = {from_bullet(link.m_appliedForce), from_bullet(link.m_appliedTorque)};
  }
}

Matrix3d Articulated::from_parent(int i, const Configuration& at) const {
  const btMultibodyLink& link = body_->getLink(i);
  const Matrix3d zero = from_bullet_turn(link.m_zeroRotParentToThis).toRotationMatrix();
  const double* q = at.joints.data() + link.m_cfgOffset;
  switch (link.m_jointType) {
    case btMultibodyLink::eRevolute:
      return rotation(axis_top(i, 0), -q[0]) * zero;
    case btMultibodyLink::eSpherical:
      return Quaterniond(q[3], q[0], q[1], q[2]).normalized().toRotationMatrix().transpose() * zero;
    default:
      return zero;
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
    to.R = up.R * from_parent(i, at).transpose();
    to.pivot = up.p + up.R * from_bullet(link.m_eVector);
    Vector3d arm = from_bullet(link.m_dVector);
    if (link.m_jointType == btMultibodyLink::ePrismatic) arm += at.joints[z(link.m_cfgOffset)] * axis_bottom(i, 0);
    to.p = to.pivot + to.R * arm;
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

void Articulated::refresh() {
  place(start_, u_, places_);
  top_.resize(z(dofs_));
  bottom_.resize(z(dofs_));
  for (int k = 0; k < dofs_; ++k) {
    const int i = link_of_[z(k)], own = k - body_->getLink(i).m_dofOffset;
    top_[z(k)] = places_[z(i + 1)].R * axis_top(i, own);
    bottom_[z(k)] = places_[z(i + 1)].R * axis_bottom(i, own);
  }
  // Composite rigid bodies: what hangs on a link, as one; its momentum for each joint rate, seen by the joints above.
  composite_.resize(z(links_ + 1));
  for (int i = 0; i <= links_; ++i) {
    const Place& at = places_[z(i)];
    composite_[z(i)] = {mass(i - 1), at.p, at.R * inertia(i - 1).asDiagonal() * at.R.transpose()};
  }
  const auto around = [](double m, const Vector3d& r) -> Matrix3d {
    return m * (r.squaredNorm() * Matrix3d::Identity() - r * r.transpose());
  };
  for (int i = links_ - 1; i >= 0; --i) {
    Composite& up = composite_[z(body_->getLink(i).m_parent + 1)];
    const Composite& down = composite_[z(i + 1)];
    const double m = up.m + down.m;
    if (!(m > 0)) {
      up.I += down.I;
      continue;
    }
    const Vector3d c = (up.m * up.c + down.m * down.c) / m;
    up.I += down.I + around(up.m, up.c - c) + around(down.m, down.c - c);
    up.m = m;
    up.c = c;
  }
  const int n = columns();
  M_.assign(z(n) * z(n), 0.0);
  const auto entry = [&](int r, int c) -> double& { return M_[z(r) * z(n) + z(c)]; };
  for (int k = 0; k < dofs_; ++k) {
    const int i = link_of_[z(k)];
    const Composite& body = composite_[z(i + 1)];
    const Vector3d momentum = body.m * (bottom_[z(k)] + top_[z(k)].cross(body.c - places_[z(i + 1)].p));
    const Vector3d spin = body.I * top_[z(k)];
    const int column = 6 + k - first_;
    for (int j = i; j >= 0; j = body_->getLink(j).m_parent) {
      const btMultibodyLink& link = body_->getLink(j);
      const Vector3d about = spin + (body.c - places_[z(j + 1)].p).cross(momentum);
      for (int l = link.m_dofOffset; l < link.m_dofOffset + link.m_dofCount; ++l) {
        if (j == i && l > k) continue;
        entry(column, 6 + l - first_) = entry(6 + l - first_, column) =
            bottom_[z(l)].dot(momentum) + top_[z(l)].dot(about);
      }
    }
    if (first_ > 0) continue;
    const Vector3d about = spin + (body.c - places_[0].p).cross(momentum);
    for (int l = 0; l < 3; ++l) {
      entry(column, l) = entry(l, column) = about[l];
      entry(column, 3 + l) = entry(3 + l, column) = momentum[l];
    }
  }
  if (first_ > 0) return;
  const Composite& all = composite_[0];
  const Vector3d r = all.c - places_[0].p;
  Matrix3d cross;
  cross << 0, -r.z(), r.y(), r.z(), 0, -r.x(), -r.y(), r.x(), 0;
  const Matrix3d turning = all.I + around(all.m, r);
  for (int i = 0; i < 3; ++i)
    for (int k = 0; k < 3; ++k) {
      entry(i, k) = turning(i, k);
      entry(i, 3 + k) = all.m * cross(i, k);
      entry(3 + k, i) = all.m * cross(i, k);
      entry(3 + i, 3 + k) = i == k ? all.m : 0;
    }
}

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
void Articulated::generalized(std::vector<Force>& on, std::span<double> out) const {
  inward(on);
  for (int k = 0; k < dofs_; ++k) {
    const Force& at = on[z(link_of_[z(k)] + 1)];
    out[z(6 + k - first_)] = top_[z(k)].dot(at.n) + bottom_[z(k)].dot(at.f);
  }
  if (first_ > 0) return;
  put(out, 0, on[0].n);
  put(out, 3, on[0].f);
}

void Articulated::applied(std::span<double> out) const {
  scratch_.resize(z(links_ + 1));
  for (int i = 0; i <= links_; ++i) {
    const Force needed = inertial(i), damping = damped(i);
    scratch_[z(i)] = {forces_[z(i)].f - needed.f + damping.f, forces_[z(i)].n - needed.n + damping.n};
  }
  generalized(scratch_, out);
  for (int k = 0; k < dofs_; ++k) out[z(6 + k - first_)] += torque_[z(k)];
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
  for (int k = 0; k < dofs_; ++k) out.applied[z(6 + k - first_)] += torque_[z(k)];
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
      out[z(6 + k - first_)] += bottom_[z(k)].dot(f) + top_[z(k)].dot(about);
  }
  if (first_ > 0) return;
  add(out, 0, n + (p - places_[0].p).cross(f));
  add(out, 3, f);
}

void Articulated::mark(int link, std::span<char> out) const {
  for (int j = link; j >= 0; j = body_->getLink(j).m_parent) {
    const btMultibodyLink& up = body_->getLink(j);
    for (int k = up.m_dofOffset; k < up.m_dofOffset + up.m_dofCount; ++k) out[z(6 + k - first_)] = 1;
  }
  for (int k = 0; k < 6 - first_; ++k) out[z(k)] = 1;
}

Wrench Articulated::through_joint(int link, std::span<const double> vdot, std::span<const Wrench> others) const {
  scratch_.resize(z(links_ + 1));
  alpha_.assign(z(links_ + 1), Vector3d::Zero());
  a_.assign(z(links_ + 1), Vector3d::Zero());
  if (first_ == 0) {
    alpha_[0] = head(vdot, 0);
    a_[0] = head(vdot, 3);
  }
  for (int i = 0; i <= links_; ++i) {
    const Place& at = places_[z(i)];
    if (i > 0) {
      const btMultibodyLink& own = body_->getLink(i - 1);
      const std::size_t up = z(own.m_parent + 1);
      alpha_[z(i)] = alpha_[up];
      a_[z(i)] = a_[up] + alpha_[up].cross(at.p - places_[up].p);
      for (int k = own.m_dofOffset; k < own.m_dofOffset + own.m_dofCount; ++k) {
        const double x = vdot[z(6 + k - first_)];
        alpha_[z(i)] += x * top_[z(k)];
        a_[z(i)] += x * bottom_[z(k)];
      }
    }
    const Force needed = inertial(i), damping = damped(i);
    const Vector3d& local = alpha_[z(i)];
    const Vector3d spin = at.R * (inertia(i - 1).asDiagonal() * (at.R.transpose() * local));
    scratch_[z(i)] = {needed.f + mass(i - 1) * a_[z(i)] - damping.f - forces_[z(i)].f - others[z(i)].force,
                      needed.n + spin - damping.n - forces_[z(i)].n - others[z(i)].moment};
  }
  inward(scratch_);
  const std::size_t i = z(link + 1);
  return Wrench{scratch_[i].f, scratch_[i].n, places_[i].p}.about(places_[i].pivot);
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
