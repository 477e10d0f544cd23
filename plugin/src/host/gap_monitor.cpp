#include "host/gap_monitor.h"

#include "host/compliance.h"
#include "host/context.h"
#include "model/force_rows.h"
#include "model/primitives/gap.h"

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
constexpr int orientation_size = 9;  // numbers of R_BA

/// A body as the host stores it.
struct Frame {
  Vector3d p;
  Matrix3d R;
  Frame(const World& world, BodyId body) { world.read_frame(body, p, R); }
  Vector3d rotate(const Vector3d& u) const {
    const auto along = [&](int i) { return R(i, 0) * u.x() + R(i, 1) * u.y() + R(i, 2) * u.z(); };
    return {along(0), along(1), along(2)};
  }
};
}  // namespace

void GapMonitor::set_geometry(ConstraintEntry& entry, const JointRows& rows) {
  JointGeometry& g = entry.geometry;
  g.counts = linchpin::detail::counts_of(rows);
  g.has_orientation = rows.alignment.of == JointRows::Alignment::Of::orientation;
  const int size = linchpin::detail::packed_size(g.counts) + orientation_size * g.has_orientation;
  if (size > g.size) {
    numbers_.give(g.first, g.size);
    g.first = numbers_.take(size);
    g.size = size;
  }
  double* const end = linchpin::detail::pack(rows, numbers_.data() + g.first);
  if (!g.has_orientation) return;
  Eigen::Map<Matrix3d> R_BA(end);
  R_BA = rows.alignment.B * rows.alignment.A.transpose();
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
                      has_primitives ? r.geometry.first : -1, r.geometry.counts, r.geometry.has_orientation,
                      has_compliance(c, r)});
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
  constexpr std::size_t ahead = 4;
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    if (i + ahead < watched_.size())
      for (const BodyId body : {watched_[i + ahead].a, watched_[i + ahead].b})
        c.world.prefetch_body(body, World::Access::frame);
    Watch& w = watched_[i];
    if (w.first >= 0) {
      w.gap = of_primitives(c.world, w);
    } else {
      const Constraint& constraint = c.system.constraint(w.id);
      w.gap = gap_of(linchpin::detail::whole_function(constraint), read_states(c, constraint, states_), c.t, residual_);
    }
    if (w.has_orientation) set_turned_far(c.constraints[w.entry], w.gap.angle > linchpin::detail::far_turn);
    if (w.yields) continue;
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
  const double* next = numbers_.data() + w.first;
  const linchpin::detail::JointGap primitives = linchpin::detail::gap_of(next, w.counts, a, b);
  Gap gap{primitives.length, primitives.angle};
  if (!w.has_orientation) return gap;
  double trace = 0;  // of R_AB R_Bᵀ R_A: dots vanish at other poses, too
  for (int i = 0; i < 3; ++i, next += 3) {
    const Vector3d u = b.rotate({next[0], next[1], next[2]});
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
