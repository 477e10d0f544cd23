#include "articulated/kinematic_tree.h"

#include "articulated/column_parts.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace linchpin::articulated {

namespace {

double square(double x) { return x * x; }

Matrix3d cross_matrix(const Vector3d& r) {
  Matrix3d out;
  out << 0, -r.z(), r.y(), r.z(), 0, -r.x(), -r.y(), r.x(), 0;
  return out;
}

/// A wrench [force; moment] about a point that is r from its present one.
Vector6 about(const Vector6& w, const Vector3d& r) {
  Vector6 out = w;
  out.tail<3>() += r.cross(w.head<3>());
  return out;
}

/// Returns whether the links of two trees are joined in the same way, so that motions of both are the same.
bool has_same_joints(const TreeModel& a, const TreeModel& b) {
  return a.base_origin == b.base_origin &&
         std::equal(a.links.begin(), a.links.end(), b.links.begin(), b.links.end(),
                    [](const LinkModel& x, const LinkModel& y) {
                      return x.parent == y.parent && x.joint == y.joint && x.first_position == y.first_position &&
                             x.first_rate == y.first_rate && x.rates == y.rates && x.angular == y.angular &&
                             x.linear == y.linear && x.R_PL_at_zero == y.R_PL_at_zero && x.p_PJ == y.p_PJ &&
                             x.p_JL == y.p_JL;
                    });
}

/// The rotation of a spherical joint from its position.
Quaterniond rotation_of(const double* position) {
  return Quaterniond(position[3], position[0], position[1], position[2]).normalized();
}

}  // namespace

// ---- model and sizes ----

/// Computes what depends on the model alone.
void KinematicTree::prepare() {
  has_motions_ = false;
  fixed_ = model_.fixed_base ? 6 : 0;
  link_of_rate_.assign(z(model_.rates), -1);
  inward_order_.resize(z(links() + 1));
  for (int i = 0; i <= links(); ++i) inward_order_[z(i)] = links() - 1 - i;
  revolute_axis_.resize(z(links()));
  for (int i = 0; i < links(); ++i) {
    const LinkModel& own = link(i);
    for (int k = 0; k < own.rates; ++k) link_of_rate_[z(own.first_rate + k)] = i;
    revolute_axis_[z(i)] =
        own.joint == JointKind::revolute ? Vector3d(own.angular[0].normalized()) : Vector3d(Vector3d::UnitX());
  }
}

std::vector<int> KinematicTree::mass_block_sizes() const {
  if (fixed_ == 0) return {columns()};
  std::vector<int> sizes, root(z(links()));
  for (int i = 0; i < links(); ++i) {
    const int up = link(i).parent;
    root[z(i)] = up < 0 ? i : root[z(up)];
  }
  std::vector<char> seen(z(links()), 0);
  int last = -1;
  for (const int i : link_of_rate_) {
    const int own = root[z(i)];
    if (std::exchange(last, own) != own) {
      if (std::exchange(seen[z(own)], 1)) return {columns()};  // the coordinates of a limb are in several places
      sizes.push_back(0);
    }
    ++sizes.back();
  }
  return sizes;
}

// A row that touches a link touches all ancestors of it. A group goes on as long as every link hangs on the one before
// it, and that one has no other child.
std::vector<int> KinematicTree::column_group_sizes() const {
  constexpr int none = -2;
  std::vector<int> sizes, children(z(links() + 1), 0);
  if (fixed_ == 0) sizes.push_back(6);
  for (int i = 0; i < links(); ++i) ++children[z(link(i).parent + 1)];
  int last = none;  // link of the group's last column
  for (int i = 0; i < links(); ++i) {
    const LinkModel& own = link(i);
    const bool hangs_on_last = own.parent == last && children[z(last + 1)] == 1;
    if (own.rates == 0) {  // a weld belongs to the line that it is in
      if (hangs_on_last) last = i;
      continue;
    }
    if (last >= 0 && hangs_on_last && sizes.back() + own.rates <= 6)
      sizes.back() += own.rates;
    else
      sizes.push_back(own.rates);
    last = i;
  }
  return sizes;
}

bool KinematicTree::can_move(int i) const {
  if (fixed_ == 0) return true;
  for (; i >= 0; i = link(i).parent)
    if (link(i).rates > 0) return true;
  return false;
}

/// First column of a link, or of the base, and the one behind its last.
std::pair<int, int> KinematicTree::columns_of(int i) const {
  if (i < 0) return {0, base_columns()};
  return {column_of(link(i).first_rate), column_of(link(i).first_rate + link(i).rates)};
}

// ---- kinematics ----

Matrix3d KinematicTree::rotation_to_parent(int i, const Configuration& at) const {
  const LinkModel& own = link(i);
  const double* position = at.joints.data() + own.first_position;
  if (own.joint == JointKind::revolute)
    return own.R_PL_at_zero * Eigen::AngleAxisd(position[0], revolute_axis_[z(i)]).toRotationMatrix();
  if (own.joint == JointKind::spherical) return own.R_PL_at_zero * rotation_of(position).toRotationMatrix();
  return own.R_PL_at_zero;
}

void KinematicTree::forward_kinematics(const Configuration& at, std::span<const double> u,
                                       std::vector<LinkMotion>& out) const {
  find_motions<true>(at, u, out);
}

void KinematicTree::poses_and_velocities(const Configuration& at, std::span<const double> u,
                                         std::vector<LinkMotion>& out) const {
  find_motions<false>(at, u, out);
}

template <bool with_accelerations>
void KinematicTree::find_motions(const Configuration& at, std::span<const double> u,
                                 std::vector<LinkMotion>& out) const {
  out.resize(z(links() + 1));
  LinkMotion& base = out[0];
  base.p = base.pivot = at.p;
  base.R = at.q.toRotationMatrix();
  base.w = three_at(u, 0);
  base.v = three_at(u, 3);
  base.a.setZero();
  if (!model_.base_origin.isZero(0)) {
    const Vector3d arm = -(base.R * model_.base_origin);
    base.v += base.w.cross(arm);
    base.a = base.w.cross(base.w.cross(arm));
  }
  base.alpha.setZero();
  for (int i = 0; i < links(); ++i) {
    const LinkModel& own = link(i);
    const LinkMotion& up = out[z(own.parent + 1)];
    LinkMotion& to = out[z(i + 1)];
    to.R.noalias() = up.R * rotation_to_parent(i, at);
    to.pivot = up.p + up.R * own.p_PJ;
    if (own.joint == JointKind::prismatic)  // the pivot of a slider goes with the link
      to.pivot += at.joints[z(own.first_position)] * (to.R * own.linear[0]);
    to.p = to.pivot + to.R * own.p_JL;
    Vector3d in_link = Vector3d::Zero(), linear_in_link = Vector3d::Zero();
    for (int k = 0; k < own.rates; ++k) {
      const double rate = u[z(6 + own.first_rate + k)];
      in_link += rate * own.angular[z(k)];
      linear_in_link += rate * own.linear[z(k)];
    }
    const Vector3d angular = to.R * in_link, linear = to.R * linear_in_link, r = to.p - up.p;
    to.w = up.w + angular;
    to.v = up.v + up.w.cross(r) + linear;
    if constexpr (!with_accelerations) continue;
    to.alpha = up.alpha + up.w.cross(angular);
    to.a = up.a + up.alpha.cross(r) + up.w.cross(up.w.cross(r) + linear) + to.w.cross(linear);
  }
}

void KinematicTree::velocities_at_state(std::span<const double> u, std::vector<LinkMotion>& out) const {
  out.resize(z(links() + 1));
  out[0].p = motions_[0].p;
  out[0].R = motions_[0].R;
  out[0].w = three_at(u, 0);
  out[0].v = three_at(u, 3) + out[0].w.cross(base_arm());
  for (int i = 0; i < links(); ++i) {
    const LinkModel& own = link(i);
    const LinkMotion& up = out[z(own.parent + 1)];
    LinkMotion& to = out[z(i + 1)];
    to.p = motion(i).p;
    to.R = motion(i).R;
    to.w = up.w;
    to.v = up.v + up.w.cross(to.p - up.p);
    for (int k = own.first_rate; k < own.first_rate + own.rates; ++k) {
      to.w += u[z(6 + k)] * angular_[z(k)];
      to.v += u[z(6 + k)] * linear_[z(k)];
    }
  }
}

/// How the way of the base's centre differs from that of its origin, between two rotations.
Vector3d KinematicTree::turn_about_origin(const Quaterniond& from, const Quaterniond& to) const {
  const Vector3d& origin = model_.base_origin;
  return origin.isZero(0) ? Vector3d(Vector3d::Zero()) : Vector3d(from * origin - to * origin);
}

void KinematicTree::integrate(const Configuration& from, std::span<const double> u, double dt,
                              Configuration& to) const {
  to.joints = from.joints;
  to.q = (rotation_(three_at(u, 0), dt) * from.q).normalized();
  to.p = from.p + dt * three_at(u, 3) + turn_about_origin(from.q, to.q);
  for (const LinkModel& own : model_.links) {
    double* position = to.joints.data() + own.first_position;
    const int at = 6 + own.first_rate;
    if (own.joint == JointKind::spherical) {
      const Quaterniond now = rotation_of(position);
      const Quaterniond next = (rotation_(now * three_at(u, at), dt) * now).normalized();
      position[0] = next.x(), position[1] = next.y(), position[2] = next.z(), position[3] = next.w();
    } else if (own.rates == 1) {
      position[0] += dt * u[z(at)];
    }
  }
}

void KinematicTree::integrate_back(const Configuration& end, std::span<const double> u, double dt,
                                   Configuration& to) const {
  to.joints = end.joints;
  to.q = (rotation_(three_at(u, 0), dt).conjugate() * end.q).normalized();
  to.p = end.p - dt * three_at(u, 3) - turn_about_origin(to.q, end.q);
  for (const LinkModel& own : model_.links) {
    double* position = to.joints.data() + own.first_position;
    const int at = 6 + own.first_rate;
    if (own.joint == JointKind::spherical) {
      const Quaterniond then = rotation_of(position);  // A turn about u leaves u as it is in the link.
      const Quaterniond from = (rotation_(then * three_at(u, at), dt).conjugate() * then).normalized();
      position[0] = from.x(), position[1] = from.y(), position[2] = from.z(), position[3] = from.w();
    } else if (own.rates == 1) {
      position[0] -= dt * u[z(at)];
    }
  }
}

void KinematicTree::find_motions() {
  if (!has_motions_) forward_kinematics(state_.at, state_.velocity, motions_);
  has_motions_ = true;
}

void KinematicTree::take_motions(const KinematicTree& from) {
  if (!from.has_motions_ || state_.velocity != from.state_.velocity || !(state_.at == from.state_.at) ||
      !has_same_joints(model_, from.model_))
    return;
  motions_ = from.motions_;
  has_motions_ = true;
}

bool KinematicTree::factorize() {
  find_motions();
  angular_.resize(z(model_.rates));
  linear_.resize(z(model_.rates));
  for (int k = 0; k < model_.rates; ++k) {
    const LinkModel& own = link(link_of_rate_[z(k)]);
    const Matrix3d& R = motion(link_of_rate_[z(k)]).R;
    angular_[z(k)] = R * own.angular[z(k - own.first_rate)];
    linear_[z(k)] = R * own.linear[z(k - own.first_rate)];
  }
  directions_.resize(z(columns()));
  for (int c = 0; c < columns(); ++c) directions_[z(c)] = find_direction(c);
  pivots_.resize(z(columns()));
  inertias_.resize(z(links() + 1));
  cancelled_.assign(z(columns()), 0);
  for (int i = -1; i < links(); ++i) {
    Matrix6& P = inertias_[z(i + 1)];
    P.setZero();
    P.diagonal().head<3>().setConstant(model_.mass(i));
    P.bottomRightCorner<3, 3>() = motion(i).R * model_.inertia(i).asDiagonal() * motion(i).R.transpose();
  }
  for (const int i : inward_order_) {
    if (!factor_link(i)) return false;
    if (i >= 0 && (link(i).parent >= 0 || fixed_ == 0)) add_inertia_to_parent(i);
  }
  return true;
}

// ---- the mass as an operator ----

/// From the parent's centre to the link's.
Vector3d KinematicTree::arm(int i) const { return motion(i).p - motion(link(i).parent).p; }

/// Direction of motion [linear; angular] of a column at its link's centre; those of a base that moves come first.
Vector6 KinematicTree::find_direction(int column) const {
  Vector6 out = Vector6::Zero();
  const int k = column + fixed_ - 6;
  if (k < 0) {
    out[(column + 3) % 6] = 1;
    if (column < 3) out.head<3>() = Vector3d::Unit(column).cross(base_arm());
  } else {
    out << linear_[z(k)], angular_[z(k)];
  }
  return out;
}

/// From the origin of the base to its centre.
Vector3d KinematicTree::base_arm() const { return -(motions_[0].R * model_.base_origin); }

// Subtracts from the articulated inertia P of a link what its joint leaves free, P S Sᵀ P / D, one coordinate after the
// other. The parent carries the rest.
bool KinematicTree::factor_link(int i) {
  // Where SᵀP S has cancelled to this part of itself, only rounding is left, and M is singular.
  constexpr double least = 32 * std::numeric_limits<double>::epsilon();
  Matrix6& P = inertias_[z(i + 1)];
  const auto [begin, end] = columns_of(i);
  const Vector3d r = i < 0 ? Vector3d(Vector3d::Zero()) : arm(i);
  const auto [up_begin, up_end] = i < 0 ? std::pair(0, 0) : columns_of(link(i).parent);
  for (int c = begin; c < end; ++c) {
    const Vector6 S = direction(c), U = P * S;
    const double D = S.dot(U) + added_inertia(c);
    if (!(D > least * (D + cancelled_[z(c)])) || !std::isfinite(D)) return false;
    pivots_[z(c)] = {U / D, 1 / std::sqrt(D)};
    P.noalias() -= U * pivots_[z(c)].gain.transpose();
    for (int other = c + 1; other < end; ++other) cancelled_[z(other)] += square(direction(other).dot(U)) / D;
    const Vector6 carried = about(U, r);
    for (int other = up_begin; other < up_end; ++other)
      cancelled_[z(other)] += square(direction(other).dot(carried)) / D;
  }
  return true;
}

void KinematicTree::add_inertia_to_parent(int i) {
  const Matrix6& P = inertias_[z(i + 1)];
  const Matrix3d R = cross_matrix(arm(i)), C = P.topLeftCorner<3, 3>(), H = P.topRightCorner<3, 3>();
  const Matrix3d moved = H - C * R;
  Matrix6& up = inertias_[z(link(i).parent + 1)];
  up.topLeftCorner<3, 3>() += C;
  up.topRightCorner<3, 3>() += moved;
  up.bottomLeftCorner<3, 3>() += moved.transpose();
  up.bottomRightCorner<3, 3>() += P.bottomRightCorner<3, 3>() - H.transpose() * R + R * moved;
}

void KinematicTree::solve_factor(std::span<const int> path, std::span<Vector6> on, std::span<double> w) const {
  for (const int i : path) {
    Vector6& f = on[z(i + 1)];
    const auto [begin, end] = columns_of(i);
    for (int c = begin; c < end; ++c) {
      const double left = w[z(c)] + direction(c).dot(f);
      w[z(c)] = left * pivots_[z(c)].root;
      f -= left * pivots_[z(c)].gain;
    }
    if (i >= 0) on[z(link(i).parent + 1)] += about(f, arm(i));
  }
}

void KinematicTree::solve_factor(std::span<const int> path, std::span<WrenchRows> on,
                                 std::span<CoordinateRows> w) const {
  constexpr std::size_t lanes = rows_at_once;
  for (const int i : path) {
    WrenchRows& f = on[z(i + 1)];
    const auto [begin, end] = columns_of(i);
    for (int c = begin; c < end; ++c) {
      const Vector6 &S = direction(c), &gain = pivots_[z(c)].gain;
      CoordinateRows left = w[z(c)];
      for (int k = 0; k < 6; ++k)
        for (std::size_t r = 0; r < lanes; ++r) left[r] += S[k] * f[z(k)][r];
      for (int k = 0; k < 6; ++k)
        for (std::size_t r = 0; r < lanes; ++r) f[z(k)][r] -= gain[k] * left[r];
      for (std::size_t r = 0; r < lanes; ++r) w[z(c)][r] = left[r] * pivots_[z(c)].root;
    }
    if (i < 0) continue;
    WrenchRows& up = on[z(link(i).parent + 1)];
    const Vector3d d = arm(i);
    for (std::size_t r = 0; r < lanes; ++r) {
      for (std::size_t k = 0; k < 6; ++k) up[k][r] += f[k][r];
      up[3][r] += d.y() * f[2][r] - d.z() * f[1][r];
      up[4][r] += d.z() * f[0][r] - d.x() * f[2][r];
      up[5][r] += d.x() * f[1][r] - d.y() * f[0][r];
    }
  }
}

/// Sets the acceleration of a link to that of its parent, seen at the link's centre: the joint between them as yet at
/// rest.
Vector6& KinematicTree::carry_outward(int i) const {
  const Vector6& up = link_accelerations_[z(link(i).parent + 1)];
  Vector6& own = link_accelerations_[z(i + 1)];
  own = up;
  own.head<3>() += up.tail<3>().cross(arm(i));
  return own;
}

void KinematicTree::solve_factor_transposed(std::span<double> v) const {
  link_accelerations_.resize(z(links() + 1));
  link_accelerations_[0].setZero();
  for (int i = -1; i < links(); ++i) {
    Vector6& own = i < 0 ? link_accelerations_[0] : carry_outward(i);
    const auto [begin, end] = columns_of(i);
    for (int c = end - 1; c >= begin; --c) {
      v[z(c)] = v[z(c)] * pivots_[z(c)].root - pivots_[z(c)].gain.dot(own);
      own += v[z(c)] * direction(c);
    }
  }
}

void KinematicTree::free_acceleration(std::span<double> out) const {
  link_wrenches_.resize(z(links() + 1));
  for (int i = 0; i <= links(); ++i) {
    const LinkForce own = net_force(i);
    link_wrenches_[z(i)] << own.force, own.moment;
  }
  for (int c = 0; c < base_columns(); ++c) out[z(c)] = 0;
  for (int k = 0; k < model_.rates; ++k) out[z(column_of(k))] = state_.joint_forces[z(k)];
  solve_factor(link_wrenches_, out);
  solve_factor_transposed(out);
}

/// Sets link_accelerations_ to what the accelerations of the coordinates alone make.
void KinematicTree::accelerate(std::span<const double> vdot) const {
  link_accelerations_.resize(z(links() + 1));
  link_accelerations_[0].setZero();
  if (fixed_ == 0) link_accelerations_[0] << three_at(vdot, 3) + three_at(vdot, 0).cross(base_arm()), three_at(vdot, 0);
  for (int i = 0; i < links(); ++i) {
    const LinkModel& own = link(i);
    Vector6& acceleration = carry_outward(i);
    for (int k = own.first_rate; k < own.first_rate + own.rates; ++k) {
      acceleration.head<3>() += vdot[z(column_of(k))] * linear_[z(k)];
      acceleration.tail<3>() += vdot[z(column_of(k))] * angular_[z(k)];
    }
  }
}

/// The force that gives a link its part of link_accelerations_.
LinkForce KinematicTree::acceleration_force(int i) const {
  const Matrix3d& R = motions_[z(i)].R;
  const Vector3d angular = link_accelerations_[z(i)].tail<3>();
  return {model_.mass(i - 1) * link_accelerations_[z(i)].head<3>(),
          R * (model_.inertia(i - 1).asDiagonal() * (R.transpose() * angular))};
}

void KinematicTree::times_mass(std::span<const double> v, std::span<double> out) const {
  accelerate(v);
  link_forces_.resize(z(links() + 1));
  for (int i = 0; i <= links(); ++i) link_forces_[z(i)] = acceleration_force(i);
  project_on_coordinates(link_forces_, out);
  for (int c = base_columns(); c < columns(); ++c) out[z(c)] += added_inertia(c) * v[z(c)];
}

void KinematicTree::motion_impulses(std::span<const double> dv, double h, std::vector<Vector6>& out) const {
  accelerate(dv);
  out.resize(z(links() + 1));
  for (int i = 0; i <= links(); ++i) {
    const LinkMotion& at = motions_[z(i)];
    const LinkForce own = acceleration_force(i);
    out[z(i)] << own.force + h * model_.mass(i - 1) * at.a,
        own.moment + h * (at.R * (model_.inertia(i - 1).asDiagonal() * (at.R.transpose() * at.alpha)));
  }
}

void KinematicTree::mass_matrix(std::vector<double>& out) const {
  const int n = columns();
  out.assign(z(n) * z(n), 0.0);
  std::vector<double> one(z(n), 0.0), column(z(n));
  for (int c = 0; c < n; ++c) {
    one[z(c)] = 1;
    times_mass(one, column);
    one[z(c)] = 0;
    for (int r = 0; r < n; ++r) out[z(r) * z(n) + z(c)] = column[z(r)];
  }
  for (int r = 0; r < n; ++r)  // the two halves may differ by rounding
    for (int c = 0; c < r; ++c) out[z(c) * z(n) + z(r)] = out[z(r) * z(n) + z(c)];
}

double KinematicTree::kinetic_energy(std::span<const LinkMotion> motions, std::span<const double> u) const {
  double sum = 0;
  for (int i = model_.fixed_base ? 0 : -1; i < links(); ++i) {
    const LinkMotion& at = motions[z(i + 1)];
    const Vector3d w = at.R.transpose() * at.w;
    sum += 0.5 * model_.mass(i) * at.v.squaredNorm() + 0.5 * w.dot(model_.inertia(i).asDiagonal() * w);
    if (i < 0) continue;
    const LinkModel& own = link(i);
    for (int k = 0; k < own.rates; ++k)
      if (own.rotor_inertia[z(k)] > 0) sum += 0.5 * own.rotor_inertia[z(k)] * square(u[z(6 + own.first_rate + k)]);
  }
  return sum;
}

double KinematicTree::added_inertia(int column) const {
  const int rate = column + fixed_ - 6;
  if (rate < 0) return 0;
  const LinkModel& own = link(link_of_rate_[z(rate)]);
  const std::size_t k = z(rate - own.first_rate);
  return own.rotor_inertia[k] + own.damping_inertia[k];
}

// ---- forces ----

LinkForce KinematicTree::velocity_force(int i) const {
  const LinkMotion& at = motions_[z(i)];
  const auto times_inertia = [&](const Vector3d& x) {
    const Vector3d in_link = model_.inertia(i - 1).cwiseProduct(at.R.transpose() * x);
    return Vector3d(at.R * in_link);
  };
  LinkForce out{model_.mass(i - 1) * at.a, times_inertia(at.alpha)};
  if (model_.gyroscopic) out.moment += at.w.cross(times_inertia(at.w));
  return out;
}

LinkForce KinematicTree::damping_force(int i) const {
  const LinkMotion& at = motions_[z(i)];
  const double c = model_.linear_damping, d = model_.angular_damping;
  if (c == 0 && d == 0) return {Vector3d::Zero(), Vector3d::Zero()};
  const Vector3d angular_momentum = at.R * (model_.inertia(i - 1).asDiagonal() * (at.R.transpose() * at.w));
  return {-model_.mass(i - 1) * c * (1 + at.v.norm()) * at.v, -d * (1 + at.w.norm()) * angular_momentum};
}

/// The part of the applied forces and damping that is left for joint accelerations.
LinkForce KinematicTree::net_force(int i) const {
  const LinkForce needed = velocity_force(i), damping = damping_force(i);
  return {state_.forces[z(i)].force - needed.force + damping.force,
          state_.forces[z(i)].moment - needed.moment + damping.moment};
}

/// Adds the forces on every link to those on its parent, about the parent's centre.
void KinematicTree::accumulate_inward(std::vector<LinkForce>& on) const {
  for (int i = links(); i >= 1; --i) {
    const int up = link(i - 1).parent + 1;
    on[z(up)].force += on[z(i)].force;
    on[z(up)].moment += on[z(i)].moment + (motions_[z(i)].p - motions_[z(up)].p).cross(on[z(i)].force);
  }
}

/// Jᵀ of forces on the links. Overwrites `on` by their sums.
void KinematicTree::project_on_coordinates(std::vector<LinkForce>& on, std::span<double> out) const {
  accumulate_inward(on);
  for (int k = 0; k < model_.rates; ++k) {
    const LinkForce& at = on[z(link_of_rate_[z(k)] + 1)];
    out[z(column_of(k))] = angular_[z(k)].dot(at.moment) + linear_[z(k)].dot(at.force);
  }
  if (fixed_ > 0) return;
  set_three(out, 0, on[0].moment + base_arm().cross(on[0].force));
  set_three(out, 3, on[0].force);
}

void KinematicTree::generalized_force(std::span<double> out) const {
  link_forces_.resize(z(links() + 1));
  for (int i = 0; i <= links(); ++i) link_forces_[z(i)] = net_force(i);
  project_on_coordinates(link_forces_, out);
  for (int k = 0; k < model_.rates; ++k) out[z(column_of(k))] += state_.joint_forces[z(k)];
}

void KinematicTree::forces_by_cause(const Vector3d& g, ForcesByCause& out) const {
  const auto project = [&](std::vector<double>& sum, auto force) {
    sum.resize(z(columns()));
    link_forces_.resize(z(links() + 1));
    for (int i = 0; i <= links(); ++i) link_forces_[z(i)] = force(i);
    project_on_coordinates(link_forces_, sum);
  };
  const auto weight = [&](int i) { return (model_.mass(i - 1) * g).eval(); };
  project(out.gravity, [&](int i) { return LinkForce{weight(i), Vector3d::Zero()}; });
  project(out.velocity, [&](int i) {
    const LinkForce needed = velocity_force(i);
    return LinkForce{-needed.force, -needed.moment};
  });
  project(out.damping, [&](int i) { return damping_force(i); });
  project(out.applied, [&](int i) {
    return LinkForce{state_.forces[z(i)].force - weight(i), state_.forces[z(i)].moment};
  });
  for (int k = 0; k < model_.rates; ++k) out.applied[z(column_of(k))] += state_.joint_forces[z(k)];
}

void KinematicTree::applied_wrenches(std::vector<Wrench>& out) const {
  out.resize(z(links() + 1));
  for (int i = 0; i <= links(); ++i) {
    const LinkMotion& at = motions_[z(i)];
    const LinkForce damping = damping_force(i);
    out[z(i)] = {state_.forces[z(i)].force + damping.force, state_.forces[z(i)].moment + damping.moment, at.p};
    if (!model_.gyroscopic) continue;
    const Vector3d angular_momentum = at.R * (model_.inertia(i - 1).asDiagonal() * (at.R.transpose() * at.w));
    out[z(i)].moment -= at.w.cross(angular_momentum);
  }
  add_joint_forces(state_.joint_forces, out);
}

void KinematicTree::add_joint_forces(std::span<const double> efforts, std::vector<Wrench>& on) const {
  for (int k = 0; k < model_.rates; ++k) {
    const LinkModel& own = link(link_of_rate_[z(k)]);
    const std::size_t down = z(link_of_rate_[z(k)] + 1), up = z(own.parent + 1);
    const bool slides = own.joint == JointKind::prismatic;
    const Vector3d f = slides ? Vector3d(efforts[z(k)] * linear_[z(k)]) : Vector3d(Vector3d::Zero()),
                   n = slides ? Vector3d(Vector3d::Zero()) : Vector3d(efforts[z(k)] * angular_[z(k)]);
    on[down].force += f;
    on[down].moment += n;
    on[up].force -= f;
    on[up].moment -= n + (motions_[down].p - motions_[up].p).cross(f);
  }
}

void KinematicTree::generalized(std::span<const Wrench> on, std::span<double> out) const {
  link_forces_.resize(z(links() + 1));
  for (int i = 0; i <= links(); ++i) link_forces_[z(i)] = {on[z(i)].force, on[z(i)].moment};
  project_on_coordinates(link_forces_, out);
}

double KinematicTree::add_jacobian_row(int i, const double* row, std::span<double> out) const {
  const Vector3d f(row[0], row[1], row[2]), n(row[3], row[4], row[5]);
  const Vector3d& p = motion(i).p;
  double most = 0;
  const auto add = [&](int column, double x) {
    out[z(column)] += x;
    most = std::max(most, std::abs(x));
  };
  for (int j = i; j >= 0; j = link(j).parent) {
    const Vector3d moment = n + (p - motion(j).p).cross(f);
    for (int k = link(j).first_rate; k < link(j).first_rate + link(j).rates; ++k)
      add(column_of(k), linear_[z(k)].dot(f) + angular_[z(k)].dot(moment));
  }
  if (fixed_ > 0) return most;
  const Vector3d moment = n + (p - motions_[0].p + base_arm()).cross(f);
  for (int k = 0; k < 3; ++k) {
    add(k, moment[k]);
    add(3 + k, f[k]);
  }
  return most;
}

// ---- wrenches through the joints ----

/// Sets link_forces_ to what gives the links their link_accelerations_, less the part of `others`.
void KinematicTree::subtract_from_inertial(std::span<const Wrench> others) const {
  link_forces_.resize(z(links() + 1));
  for (int i = 0; i <= links(); ++i) {
    const LinkForce needed = acceleration_force(i);
    link_forces_[z(i)] = {needed.force - others[z(i)].force, needed.moment - others[z(i)].moment};
  }
}

void KinematicTree::wrenches_at_pivots(std::vector<Wrench>& out) const {
  accumulate_inward(link_forces_);
  out.resize(z(links() + 1));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = Wrench{link_forces_[i].force, link_forces_[i].moment, motions_[i].p}.about(motions_[i].pivot);
}

void KinematicTree::joint_wrenches(std::span<const double> vdot, std::span<const Wrench> others,
                                   std::vector<Wrench>& out) const {
  accelerate(vdot);
  subtract_from_inertial(others);
  for (int i = 0; i <= links(); ++i) {
    const LinkForce needed = velocity_force(i), damping = damping_force(i);
    link_forces_[z(i)].force += needed.force - damping.force - state_.forces[z(i)].force;
    link_forces_[z(i)].moment += needed.moment - damping.moment - state_.forces[z(i)].moment;
  }
  wrenches_at_pivots(out);
}

void KinematicTree::joint_wrenches_at_rest(std::span<const double> vdot, std::span<const Wrench> others,
                                           std::vector<Wrench>& out) const {
  accelerate(vdot);
  subtract_from_inertial(others);
  wrenches_at_pivots(out);
}

Wrench KinematicTree::without_free_part(int i, Wrench w) const {
  const LinkModel& own = link(i);
  const Matrix3d& R = motion(i).R;
  if (own.joint == JointKind::revolute) {
    const Vector3d u = R * own.angular[0].normalized();
    w.moment -= u.dot(w.moment) * u;
  } else if (own.joint == JointKind::prismatic) {
    const Vector3d u = R * own.linear[0].normalized();
    w.force -= u.dot(w.force) * u;
  } else if (own.joint == JointKind::spherical) {
    w.moment.setZero();
  }
  return w;
}

}  // namespace linchpin::articulated
