#include "articulated/tree_projection.h"

#include "articulated/column_parts.h"

#include <linchpin/detail/alignment.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace linchpin::articulated {

namespace {

/// How far closing gaps may go in one iteration. Rows that all but repeat others ask for much longer ways, as those of
/// a ball joint across the plane of hinges that are not quite parallel.
namespace gaps {
constexpr double longest_way = 100;   ///< [gaps]
constexpr double widest_cut = 0.1;    ///< of the rank decision, which drops such rows
constexpr double wide = 1e-3;         ///< gaps beyond it are closed with a line search [m, rad]
constexpr double widest_angle = 0.5;  ///< of one iteration: beyond it, rows say nothing of where they lead [rad]
constexpr int most_long_steps = 300;  ///< iterations on a long way, after each of which Newton begins again
}  // namespace gaps

}  // namespace

void TreeProjection::lay_out() {
  const std::size_t n = z(constraints_.columns()), m = z(constraints_.rows());
  for (auto* x : {&displacement_, &dv_}) x->assign(n, 0);
  for (auto* x : {&left_open_, &error_, &lambda_, &rates_, &start_rates_}) x->assign(m, 0);
}

// ---- positions ----

void TreeProjection::begin_step() { std::fill(left_open_.begin(), left_open_.end(), 0.0); }

bool TreeProjection::has_gap(const State& state) const {
  int which = -1;
  return constraints_.largest_gap() > options_.gap_tolerance || widest_angle(state, which) > 0;
}

/// The widest angle [rad] by which a joint is turned so far from where it is held that its dots do not tell the way.
double TreeProjection::widest_angle(const State& state, int& which) const {
  double most = 0;
  const auto R = [&](const ConstraintBody& body) {
    return body.id == linchpin::ground ? Matrix3d(Matrix3d::Identity()) : state[body.id].R();
  };
  const auto constraints = constraints_.constraints();
  for (std::size_t i = 0; i < constraints.size(); ++i) {
    const ConstraintRows& c = constraints[i];
    if (c.is_gear()) continue;
    const JointRows::Alignment* const alignment = detail::alignment_of(c.constraint->function());
    if (!alignment) continue;
    const double angle = detail::turned_away(*alignment, R(c.bodies[0]), R(c.bodies[1]));
    if (angle > most) most = angle, which = static_cast<int>(i);
  }
  return most;
}

// An initial gap, or one that the program made, is closed by moving, not by pushing (T12). A gap that no motion closes,
// as of a pin beyond the reach of its arm, stays open as it then is.
GapClosing TreeProjection::project_positions(const TreeStep& step, PoseAccess& poses) {
  GapClosing out;
  step_ = &step;
  poses_ = &poses;
  failure_.clear();
  out.widest = widest_angle(step.state, out.widest_constraint);
  if (out.widest == 0) {
    close_gaps_by_rows(out);
  } else {
    far_joints_ = TreeConstraints::FarJoints::on_way_back;
    if (linearize()) close_gaps_by_rows(out);
    far_joints_ = TreeConstraints::FarJoints::as_they_are;
    if (failure_.empty() && linearize() && !(constraints_.largest_gap() <= options_.gap_tolerance)) leave_gaps_open();
  }
  out.failure = failure_;
  return out;
}

void TreeProjection::leave_gaps_open() {
  for (int r = 0; r < constraints_.rows(); ++r)
    left_open_[z(r)] = constraints_.rank().is_dropped(r) ? 0 : constraints_.position()[z(r)];
}

void TreeProjection::close_gaps_by_rows(GapClosing& out) {
  double moved = 0, turned = 0;
  for (int left = options_.max_newton, long_steps = 0; left > 0;) {
    const GapStep taken = take_gap_step();
    if (!failure_.empty()) return;
    if (taken.ends) break;
    moved = std::max(moved, taken.length);
    turned += taken.angle;
    left = taken.is_on_long_way && long_steps++ < gaps::most_long_steps ? options_.max_newton : left - 1;
  }
  if (constraints_.largest_gap() > options_.gap_tolerance) leave_gaps_open();
  out.moved = moved;
  out.turned = turned;
  out.is_any = std::max(moved, turned) != 0;
}

// A displacement is never longer by far than the gaps are. Rows that ask for more are dropped in this step, and their
// gap is reported by name. Nor is it so wide a turn that rows say nothing of where they lead.
TreeProjection::GapStep TreeProjection::take_gap_step() {
  constexpr GapStep ends{.ends = true};
  const double open = constraints_.largest_gap();
  if (open <= 0.01 * options_.gap_tolerance) return ends;
  for (std::size_t r = 0; r < error_.size(); ++r) error_[r] = -constraints_.position()[r];
  constraints_.solve_kept(error_, {}, displacement_);
  if (!finite(displacement_)) return ends;
  const double angle = angle_of(displacement_);
  const double scale = angle > gaps::widest_angle ? gaps::widest_angle / angle : 1;
  const double length = try_displacement(scale);
  if (std::max(length, scale * angle) <= 1e-3 * options_.gap_tolerance) return ends;  // the rest contradicts other rows
  if (!(length <= gaps::longest_way * open)) return widen_rank_cut() ? GapStep{} : ends;
  if (!arrive(scale) || open <= gaps::wide) return {.length = length, .angle = scale * angle};
  return shorten_gap_step(open, scale, angle, length);
}

/// Halves a displacement that has been made until gaps are smaller than `open`.
TreeProjection::GapStep TreeProjection::shorten_gap_step(double open, double scale, double angle, double length) {
  constexpr GapStep ends{.ends = true};
  for (const double least = 0.1 * scale; !(constraints_.largest_gap() < open) && scale > least; scale *= 0.5)
    if (!displace(-0.5 * scale)) return ends;
  if (!(constraints_.largest_gap() < 0.99 * open)) {
    displace(-scale);
    return ends;
  }
  return {.is_on_long_way = scale < 1, .length = length, .angle = scale * angle};
}

/// Drops more rows. @return false where the cut is as wide as it may be
bool TreeProjection::widen_rank_cut() {
  if (constraints_.rank_cut() >= gaps::widest_cut) return false;
  if (!constraints_.drop_dependent_rows(step_->system, step_->state, 10 * constraints_.rank_cut()))
    failure_ = "a value of the projection is not finite";
  return true;
}

/// The widest angle [rad] by which a displacement turns a joint or a body.
double TreeProjection::angle_of(std::span<const double> d) const {
  double most = 0;
  for (const ConstrainedTree* t : constraints_.trees()) {
    if (t->column < 0) continue;
    if (t->tree.fixed_velocities() == 0) most = std::max(most, three_at(d, t->column).norm());
    for (const LinkModel& link : t->tree.model().links) {
      if (link.joint == JointKind::prismatic) continue;
      for (int k = 0; k < link.rates; ++k)
        most = std::max(most, std::abs(d[z(t->column + t->tree.column_of(link.first_rate + k))]));
    }
  }
  for (const RigidBody& b : constraints_.rigid_bodies())
    if (b.dof == 6) most = std::max(most, three_at(d, b.column + 3).norm());
  return most;
}

/// How far `scale` of the displacement takes a centre of mass [m]. Leaves where trees would be in their `end`.
double TreeProjection::try_displacement(double scale) {
  double most = 0;
  for (ConstrainedTree* t : constraints_.trees()) {
    if (t->column < 0) continue;
    t->try_displacement(displacement_, scale);
    for (std::size_t k = 0; k < t->at_end.size(); ++k)
      most = std::max(most, (t->at_end[k].p - t->tree.motions()[k].p).norm());
  }
  for (const RigidBody& b : constraints_.rigid_bodies())
    most = std::max(most, std::abs(scale) * three_at(displacement_, b.column).norm());
  return most;
}

/// Moves all by `scale` of the displacement, and linearizes there. @return whether there is a problem there
bool TreeProjection::displace(double scale) {
  try_displacement(scale);
  return arrive(scale);
}

/// The same where try_displacement() has just been.
bool TreeProjection::arrive(double scale) {
  const auto trees = constraints_.trees();
  for (std::size_t i = 0; i < trees.size(); ++i) {
    if (trees[i]->column < 0) continue;
    poses_->move_tree(static_cast<int>(i), trees[i]->end);
    trees[i]->factor = ConstrainedTree::Factor::stale;
  }
  for (const RigidBody& b : constraints_.rigid_bodies()) {
    BodyState& s = step_->state[b.id];
    const Vector3d turn = b.dof == 6 ? three_at(displacement_, b.column + 3) : Vector3d::Zero();
    linchpin::advance(s, three_at(displacement_, b.column), turn, scale);
    poses_->move_body(b.id, s);
  }
  poses_->read_bodies();
  constraints_.write_link_states(step_->state);
  return linearize();
}

bool TreeProjection::linearize() {
  failure_ = constraints_.linearize(step_->system, step_->state, step_->t, far_joints_);
  return failure_.empty();
}

// ---- velocities ----

/// Writes what v leaves of the constraints at the step's end, as velocities, to error_. @return the largest times dt
double TreeProjection::residuals(const TreeStep& step, std::span<const double> v) {
  double worst = 0;
  const auto all = constraints_.constraints();
  if (std::any_of(all.begin(), all.end(), [](const ConstraintRows& c) { return c.level() == Level::acceleration; })) {
    constraints_.row_velocities(v, rates_);
    constraints_.row_velocities(constraints_.start_velocity(), start_rates_);
  }
  for (const bool is_midpoint : {false, true}) {
    const auto belongs = [&](const ConstraintRows& c) { return (c.level() == Level::velocity) == is_midpoint; };
    if (std::none_of(all.begin(), all.end(), belongs)) continue;
    const double h = is_midpoint ? 0.5 * step.dt : step.dt;
    try_step(step, v, h);
    for (const ConstraintRows& c : all)
      if (belongs(c)) worst = std::max(worst, residuals_of(step, c, h));
  }
  return worst;
}

/// Moves all by velocities v over h.
void TreeProjection::try_step(const TreeStep& step, std::span<const double> v, double h) {
  for (ConstrainedTree* t : constraints_.trees())
    if (t->column >= 0) t->try_motion(v, h);
  for (const RigidBody& b : constraints_.rigid_bodies()) {
    const BodyState& from = step.base[b.id];
    BodyState& to = step.end[b.id];
    const Vector3d w = b.dof == 6 ? three_at(v, b.column + 3) : Vector3d::Zero();
    to.v = three_at(v, b.column);
    to.p = from.p + h * to.v;
    to.q = from.q;
    if (b.dof == 6) to.q = (rotation_(w, h) * from.q).normalized();
    to.w = b.dof == 6 ? w : from.w;
  }
}

/// The part of one constraint, where try_step() has been. @return the largest of it times dt
double TreeProjection::residuals_of(const TreeStep& step, const ConstraintRows& c, double h) {
  const auto error = c.own(std::span(error_));
  double worst = 0;
  if (c.level() == Level::acceleration) {
    for (int r = c.row; r < c.row + c.rows; ++r) {
      error_[z(r)] = step.dt * constraints_.problem().b[z(r)] - (rates_[z(r)] - start_rates_[z(r)]);
      if (!constraints_.rank().is_dropped(r)) worst = std::max(worst, std::abs(error_[z(r)]) * step.dt);
    }
    return worst;
  }
  const bool is_midpoint = c.level() == Level::velocity;
  evaluate(step, c, h, error);
  for (int r = c.row; r < c.row + c.rows; ++r) {
    double& x = error_[z(r)];
    x -= left_open_[z(r)];
    if (!std::isfinite(x))
      worst = std::numeric_limits<double>::infinity();
    else if (!constraints_.rank().is_dropped(r))
      worst = std::max(worst, std::abs(x) * (is_midpoint ? step.dt : 1));
    x = is_midpoint ? -x : -x / step.dt;
  }
  return worst;
}

/// The residual of a constraint, where try_step() has been over h. A user's that throws is not a number.
void TreeProjection::evaluate(const TreeStep& step, const ConstraintRows& c, double h, std::span<double> out) {
  if (c.is_gear()) {
    out[0] = constraints_.gear_residual_at_end(c);
    return;
  }
  const bool is_midpoint = c.level() == Level::velocity;
  states_.clear();
  for (const ConstraintBody& body : c.bodies)
    states_.push_back(body.tree >= 0                 ? constraints_.state_of(body, true)
                      : body.id == linchpin::ground  ? BodyState{}
                      : body.dof > 0 || !is_midpoint ? step.end[body.id]
                                                     : step.base[body.id]);
  try {
    c.constraint->function().residual(states_, step.t + h, out);
  } catch (...) {
    std::fill(out.begin(), out.end(), std::numeric_limits<double>::quiet_NaN());
  }
}

bool TreeProjection::solve_end_of_step(const TreeStep& step, std::span<double> v, std::vector<double>& impulse,
                                       double tolerance, int max_solves) {
  constexpr int patience = 5;  // iterations without a better point
  const double round_off = 1e3 * tolerance;
  const bool full = constraints_.full_row_rank();
  double last = std::numeric_limits<double>::infinity(), best = last;
  bool accelerates = false;
  anderson_.begin();
  for (int i = 0, since = 0; i <= max_solves; ++i) {
    const double worst = residuals(step, v);
    if (worst <= tolerance) return true;
    if (!std::isfinite(worst)) break;
    constraints_.solve_kept(error_, lambda_, dv_);
    // Rows that contradict each other, by a little or by much, keep a residual that no velocity takes away. There the
    // least squares have been reached when a solve moves nothing any more (T6).
    const double moves = largest(dv_);
    const bool rests =
        !full && (moves * step.dt <= tolerance || moves <= 64 * std::numeric_limits<double>::epsilon() * largest(v));
    const double left = rests ? 0 : full ? worst : moves * step.dt;
    if (left < best) {
      best = left;
      best_v_.assign(v.begin(), v.end());
      best_impulse_ = impulse;
      since = 0;
    } else if (++since > patience) {
      break;
    }
    if (rests || i == max_solves) break;
    if (left > 0.5 * last) {
      if (best <= round_off) break;
      accelerates = true;  // rows turn within the step, as close to where the mechanism folds
    }
    last = left;
    chord_ = dv_;
    anderson_.improve<2>(full ? error_ : chord_, {lambda_, dv_}, accelerates);
    ++solves_;
    for (std::size_t k = 0; k < v.size(); ++k) v[k] += dv_[k];
    for (std::size_t r = 0; r < impulse.size(); ++r) impulse[r] += lambda_[r];
  }
  if (!std::isfinite(best)) return false;
  std::copy(best_v_.begin(), best_v_.end(), v.begin());
  impulse = best_impulse_;
  residuals(step, v);
  return best <= options_.gap_tolerance;
}

void TreeProjection::correct_once(const TreeStep& step, std::span<double> v, std::span<double> impulse) {
  residuals(step, v);
  constraints_.solve_kept(error_, lambda_, dv_);
  ++solves_;
  if (!finite(dv_)) return;
  for (std::size_t k = 0; k < v.size(); ++k) v[k] += dv_[k];
  for (std::size_t r = 0; r < impulse.size(); ++r) impulse[r] += lambda_[r];
}

void TreeProjection::project_velocities(std::span<double> v, std::span<double> impulse) {
  constraints_.row_velocities(v, error_);
  constraints_.row_velocities(constraints_.start_velocity(), start_rates_);
  for (std::size_t r = 0; r < error_.size(); ++r)
    error_[r] = -(constraints_.velocity()[r] - start_rates_[r]) - error_[r];
  constraints_.solve_kept(error_, lambda_, dv_);
  for (std::size_t k = 0; k < v.size(); ++k) v[k] += dv_[k];
  for (std::size_t r = 0; r < impulse.size(); ++r) impulse[r] += lambda_[r];
  std::fill(error_.begin(), error_.end(), 0.0);
}

bool TreeProjection::is_unmet(const ConstraintRows& c, double dt) const {
  for (int r = c.row; r < c.row + c.rows; ++r)
    if (std::abs(error_[z(r)]) * dt + std::abs(left_open_[z(r)]) > options_.gap_tolerance) return true;
  return false;
}

}  // namespace linchpin::articulated
