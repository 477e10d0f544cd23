#include "host/gap_monitor.h"

#include "host/context.h"

#include <linchpin/detail/alignment.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace linchpin::host {

int NumberRuns::take(int size) {
  if (std::vector<int>& free = free_[size]; !free.empty()) {
    const int first = free.back();
    free.pop_back();
    return first;
  }
  const int first = static_cast<int>(numbers_.size());
  numbers_.resize(numbers_.size() + z(size));
  return first;
}

namespace {
constexpr int point_size = 6, axis_size = 10, dot_size = 7, orientation_size = 9;  // numbers of one primitive

/// Reads the numbers of primitives one after the other.
struct Numbers {
  const double* at;
  double number() { return *at++; }
  Vector3d vector() {
    at += 3;
    return {at[-3], at[-2], at[-1]};
  }
};

/// A body as the host stores it.
struct Frame {
  Vector3d p;
  Matrix3d R;
  Frame(const World& world, BodyId body) { world.read_frame(body, p, R); }
  Vector3d turned(const Vector3d& u) const {
    const auto along = [&](int i) { return R(i, 0) * u.x() + R(i, 1) * u.y() + R(i, 2) * u.z(); };
    return {along(0), along(1), along(2)};
  }
};
}  // namespace

void GapMonitor::set_geometry(ConstraintEntry& entry, const JointRows& rows) {
  JointGeometry& g = entry.geometry;
  g.points = static_cast<short>(rows.points.size());
  g.axes = static_cast<short>(rows.axes.size());
  g.dots = static_cast<short>(rows.dots.size());
  g.has_orientation = rows.alignment.of == JointRows::Alignment::Of::orientation;
  const int size =
      point_size * g.points + axis_size * g.axes + dot_size * g.dots + orientation_size * g.has_orientation;
  if (size > g.size) {
    numbers_.give(g.first, g.size);
    g.first = numbers_.take(size);
    g.size = size;
  }
  double* to = numbers_.data() + g.first;
  const auto keep = [&](const Vector3d& u) { to = std::copy_n(u.data(), 3, to); };
  for (const JointRows::Point& p : rows.points) keep(p.p_AQ), keep(p.p_BQ);
  for (const JointRows::Axis& x : rows.axes) keep(x.u_A), keep(x.p_AQ), keep(x.p_BQ), *to++ = x.d0;
  for (const JointRows::Dot& d : rows.dots) keep(d.u_A), keep(d.w_B), *to++ = d.c;
  if (!g.has_orientation) return;
  const Matrix3d R_BA = rows.alignment.B * rows.alignment.A.transpose();
  for (int i = 0; i < 3; ++i) keep(R_BA.col(i));
}

void GapMonitor::forget_geometry(ConstraintEntry& entry) {
  numbers_.give(entry.geometry.first, entry.geometry.size);
  entry.geometry.size = 0;
}

void GapMonitor::set_turned_far(ConstraintEntry& entry, bool is) {
  entry.geometry.turned_far = is;
  turned_far_ += is;
}

void GapMonitor::begin_list(Context& c) {
  before_.clear();
  if (!reported_ && c.reactions.exist()) report(c);
  if (!reported_) before_.swap(watched_);
  watched_.clear();
}

void GapMonitor::watch(const Context& c, int entry) {
  const ConstraintEntry& r = c.constraints[entry];
  const auto bodies = c.system.constraint(r.id).bodies();
  const bool has_primitives = r.owner == ConstraintEntry::Owner::joint && !r.geometry.is_gear;
  watched_.push_back({bodies[0], bodies.size() > 1 ? bodies[1] : bodies[0], entry, r.id,
                      has_primitives ? r.geometry.first : -1, r.geometry.points, r.geometry.axes, r.geometry.dots,
                      r.geometry.has_orientation});
}

void GapMonitor::end_list() {
  std::size_t k = 0;
  for (Watch& w : watched_) {  // both lists are in the order of entries
    while (k < before_.size() && before_[k].entry < w.entry) ++k;
    if (k < before_.size() && before_[k].entry == w.entry) w.gap = before_[k].gap;
  }
}

void GapMonitor::measure(Context& c) {
  reported_ = false;
  turned_far_ = 0;
  for (Watch& w : watched_) {
    if (w.first >= 0) {
      w.gap = of_primitives(c.world, w);
    } else {
      const Constraint& constraint = c.system.constraint(w.id);
      w.gap = gap_of(constraint.function(), read_states(c, constraint, states_), c.t, residual_);
    }
    if (w.has_orientation) set_turned_far(c.constraints[w.entry], w.gap.angle > linchpin::detail::far_turn);
    largest_gap = std::max(largest_gap, w.gap.length);
    largest_angle = std::max(largest_angle, w.gap.angle);
  }
}

void GapMonitor::report(Context& c) {
  if (std::exchange(reported_, true)) return;
  c.reactions.make(c);
  for (const Watch& w : watched_) {
    const int at = c.constraints[w.entry].reaction;
    if (at < 0) continue;  // gone since
    Reaction& r = c.reactions[at];
    r.gap = w.gap.length;
    r.gap_angle = w.gap.angle;
    r.residual = w.gap.own;
  }
}

GapMonitor::Gap GapMonitor::of_primitives(const World& world, const Watch& w) const {
  const Frame a(world, w.a), b(world, w.b);
  Numbers next{numbers_.data() + w.first};
  Gap gap;
  for (int i = 0; i < w.points; ++i) {
    const Vector3d r_a = a.turned(next.vector()), r_b = b.turned(next.vector());
    gap.length = std::max(gap.length, (a.p + r_a - b.p - r_b).norm());
  }
  for (int i = 0; i < w.axes; ++i) {
    const Vector3d u = a.turned(next.vector()), r_a = a.turned(next.vector()), r_b = b.turned(next.vector());
    gap.length = std::max(gap.length, std::abs(u.dot(b.p + r_b - a.p - r_a) - next.number()));
  }
  for (int i = 0; i < w.dots; ++i) {
    const Vector3d u = a.turned(next.vector()), v = b.turned(next.vector());
    gap.angle = std::max(gap.angle, std::abs(u.dot(v) - next.number()));
  }
  if (!w.has_orientation) return gap;
  double trace = 0;  // of R_AB R_Bᵀ R_A: dots vanish at other poses, too
  for (int i = 0; i < 3; ++i) {
    const Vector3d u = b.turned(next.vector());
    trace += a.R(0, i) * u.x() + a.R(1, i) * u.y() + a.R(2, i) * u.z();
  }
  if (const double cosine = 0.5 * (trace - 1); cosine < linchpin::detail::cosine_of_far)
    gap.angle = std::acos(std::max(cosine, -1.0));
  return gap;
}

GapMonitor::Gap gap_of(const ConstraintFunction& function, std::span<const BodyState> X, double t,
                       std::vector<double>& residual) {
  residual.resize(z(function.rows()));
  try {
    function.residual(X, t, residual);
  } catch (...) {  // a user's function: the next step's solve names it
    return {};
  }
  GapMonitor::Gap gap;
  for (std::size_t i = 0; i < residual.size(); ++i) {
    const RowUnit unit = function.unit(static_cast<int>(i));
    double& to = unit == RowUnit::metre ? gap.length : unit == RowUnit::radian ? gap.angle : gap.own;
    to = std::max(to, std::abs(residual[i]));
  }
  return gap;
}

std::span<const BodyState> read_states(const Context& c, const Constraint& constraint, std::vector<BodyState>& out) {
  out.resize(constraint.bodies().size());
  for (std::size_t k = 0; k < out.size(); ++k) {
    out[k] = BodyState{};
    if (c.bodies.in_host(constraint.bodies()[k])) c.world.read(constraint.bodies()[k], out[k]);
  }
  return out;
}

}  // namespace linchpin::host
