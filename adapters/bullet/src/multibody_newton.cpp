// Onto the constraints (T12): gaps of a step's start closed by moving, and velocities that end the step on them, by
// Newton on Bullet's own map.
#include "multibody.h"

#include "bodies.h"
#include "columns.h"

#include <algorithm>
#include <limits>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

/// The largest residual of position that rows can do something about.
double Multibodies::gap() const {
  double most = 0;
  for (std::size_t r = 0; r < position_.size(); ++r)
    if (!silent_[r]) most = std::max(most, std::abs(position_[r]));
  return most;
}

// An initial gap, or one that the program made, is closed by moving, not by pushing (T12). What no motion closes, as a
// pin beyond the reach of its arm, stays open as it then is.
void Multibodies::close_gaps() {
  const Item* which = nullptr;
  const double away = turned_away(which);
  if (away == 0) return close_gaps_so();
  ++engine_.counts_.turned_back;
  if (away > engine_.counts_.widest) {
    engine_.counts_.widest = away;
    engine_.widest_turned_ = record(*which).name;
  }
  closing_ = true;
  if (linearize()) close_gaps_so();
  closing_ = false;
  if (failed_ || !linearize() || gap() <= engine_.options_.gap_tolerance) return;
  for (std::size_t r = 0; r < position_.size(); ++r) left_open_[r] = silent_[r] ? 0 : position_[r];
}

/// The widest angle [rad] by which a joint is turned so far from where it is held that its dots do not tell the way.
double Multibodies::turned_away(const Item*& which) const {
  double most = 0;
  const auto R = [&](const Part& p) {
    return p.id == linchpin::world ? Matrix3d(Matrix3d::Identity()) : engine_.state_[p.id].R();
  };
  for (const Item& item : items_) {
    if (!item.coordinates.empty()) continue;
    const JointRows::Alignment* const alignment = detail::alignment_of(item.constraint->function());
    if (!alignment) continue;
    const double angle = detail::turned_away(*alignment, R(item.parts[0]), R(item.parts[1]));
    if (angle > most) most = angle, which = &item;
  }
  return most;
}

void Multibodies::close_gaps_so() {
  constexpr int most_long = 300;  // steps of a long way, after each of which Newton has all of its own again
  double moved = 0, turned = 0;
  for (int left = engine_.options_.max_newton, long_steps = 0; left > 0;) {
    const Approach approach = approach_gaps();
    if (failed_) return;
    if (approach.ends) break;
    moved = std::max(moved, approach.length);
    turned += approach.turn;
    left = approach.on_a_long_way && long_steps++ < most_long ? engine_.options_.max_newton : left - 1;
  }
  if (gap() > engine_.options_.gap_tolerance)
    for (std::size_t r = 0; r < position_.size(); ++r) left_open_[r] = silent_[r] ? 0 : position_[r];
  if (std::max(moved, turned) == 0) return;
  ++engine_.counts_.gap_corrections;
  engine_.counts_.turned = std::max(engine_.counts_.turned, turned);
  engine_.counts_.corrected = std::max(engine_.counts_.corrected, moved);
}

// One step of it. Never by far more than gaps are: what asks for that are rows that all but repeat others, as of a ball
// joint across the plane of hinges that are not quite parallel. Those are left out of this step, and their gap is said
// by name. Nor by turns so wide that rows say nothing of where they lead.
Multibodies::Approach Multibodies::approach_gaps() {
  constexpr double far = 100, widest_cut = 0.1, far_open = 1e-3, far_turn = 0.5;
  constexpr Approach ends{.ends = true};
  const double open = gap();
  if (open <= 0.01 * engine_.options_.gap_tolerance) return ends;
  for (std::size_t r = 0; r < position_.size(); ++r) e_[r] = -position_[r];
  hush(e_);
  solver_.apply(e_, {}, {}, dv_);
  from_unit(dv_);
  if (!finite(dv_)) return ends;
  half_ = dv_;  // the solves on the way have dv_ for themselves
  const double turn = turn_of(half_);
  double scale = turn > far_turn ? far_turn / turn : 1;
  const double length = reach(half_, scale);
  if (std::max(length, scale * turn) <= 1e-3 * engine_.options_.gap_tolerance)
    return ends;  // what is left contradicts other rows
  if (!(length <= far * open)) {
    if (cut_ >= widest_cut) return ends;
    cut_ *= 10;
    if (!settle_rank()) fail("a number is not finite");
    return {};
  }
  if (!arrive(half_, scale) || open <= far_open) return {.length = length, .turn = scale * turn};
  for (const double least = 0.1 * scale; !(gap() < open) && scale > least; scale *= 0.5)
    if (!displace(half_, -0.5 * scale)) return ends;
  if (!(gap() < 0.99 * open)) {
    displace(half_, -scale);
    return ends;
  }
  return {.on_a_long_way = scale < 1, .length = length, .turn = scale * turn};
}

/// The widest angle [rad] by which a displacement turns a joint or a body.
double Multibodies::turn_of(std::span<const double> d) const {
  double most = 0;
  for (const auto& t : trees_) {
    if (t->column < 0) continue;
    const btMultiBody& body = *t->body;
    if (t->a.fixed_velocities() == 0) most = std::max(most, head(d, t->column).norm());
    for (int i = 0; i < t->a.links(); ++i) {
      const btMultibodyLink& link = body.getLink(i);
      if (link.m_jointType == btMultibodyLink::ePrismatic) continue;
      for (int k = 0; k < link.m_dofCount; ++k)
        most = std::max(most, std::abs(d[z(t->column + 6 - t->a.fixed_velocities() + link.m_dofOffset + k)]));
    }
  }
  for (const Moving& b : moving_)
    if (b.dof == 6) most = std::max(most, head(d, b.column + 3).norm());
  return most;
}

/// How far such a displacement takes a centre of mass [m]; leaves where multibodies would be in their `end`.
double Multibodies::reach(std::span<const double> d, double scale) {
  double most = 0;
  for (auto& t : trees_) {
    if (t->column < 0) continue;
    velocities_of(*t, d, t->u);
    for (int k = 0; k < t->a.fixed_velocities(); ++k) t->u[z(k)] = 0;
    t->a.integrate(t->a.state().at, t->u, scale, t->end);
    t->a.forward_kinematics(t->end, t->u, t->at_end);
    for (std::size_t k = 0; k < t->at_end.size(); ++k)
      most = std::max(most, (t->at_end[k].p - t->a.motions()[k].p).norm());
  }
  for (const Moving& b : moving_) most = std::max(most, std::abs(scale) * head(d, b.column).norm());
  return most;
}

/// Moves all by `scale` of a displacement and looks at the rows there. @return whether there is a problem there
bool Multibodies::displace(std::span<const double> d, double scale) {
  reach(d, scale);
  return arrive(d, scale);
}

/// The same where reach() has just looked.
bool Multibodies::arrive(std::span<const double> d, double scale) {
  for (auto& t : trees_) {
    if (t->column < 0) continue;
    write_configuration(t->end, *t->body);
    read_tree(*t->body, t->a);
    t->ready = false;
  }
  for (const Moving& b : moving_) {
    BodyState& s = engine_.state_[b.id];
    linchpin::advance(s, head(d, b.column), b.dof == 6 ? head(d, b.column + 3) : Vector3d::Zero(), scale);
    write_pose(b.body->getWorldTransform(), s.p, s.q);
  }
  states_at_start();
  return linearize();
}

// What v leaves of the constraints at the step's end, as velocities; the largest of it times dt.
double Multibodies::residuals(std::span<const double> v, std::span<double> e) {
  double worst = 0;
  row_velocities(v, half_rows_);
  row_velocities(v0_, one_);
  for (const bool middle : {false, true}) {
    bool any = false;
    for (const Item& item : items_) any = any || (item.constraint->function().level() == Level::velocity) == middle;
    if (!any) continue;
    const double h = middle ? 0.5 * dt_ : dt_;
    for (auto& t : trees_) {
      if (t->column < 0) continue;
      velocities_of(*t, v, t->u);
      t->a.integrate(t->a.state().at, t->u, h, t->end);
      t->a.forward_kinematics(t->end, t->u, t->at_end);
    }
    for (const Moving& b : moving_) {
      const Vector3d u = head(v, b.column), w = b.dof == 6 ? head(v, b.column + 3) : Vector3d::Zero();
      const BodyState& from = engine_.base_[b.id];
      BodyState& to = engine_.end_[b.id];
      to.p = from.p + h * u;
      to.q = from.q;
      if (b.dof == 6) to.q = (host_rotation(w, h) * from.q).normalized();
      to.v = u;
      to.w = b.dof == 6 ? w : from.w;
    }
    for (const Item& item : items_) {
      const Level level = item.coordinates.empty() ? item.constraint->function().level() : Level::position;
      if ((level == Level::velocity) != middle) continue;
      const auto out = e.subspan(z(item.row), z(item.rows));
      if (level == Level::acceleration) {
        for (int r = item.row; r < item.row + item.rows; ++r) {
          e[z(r)] = dt_ * unit_.b[z(r)] - (half_rows_[z(r)] - one_[z(r)]);
          if (!silent_[z(r)]) worst = std::max(worst, std::abs(e[z(r)]) * dt_);
        }
        continue;
      }
      if (!item.coordinates.empty()) {
        double phi = -item.target;
        for (const Coordinate& c : item.coordinates) phi += c.factor * trees_[z(c.tree)]->end.joints[z(c.position)];
        out[0] = phi;
      } else {
        X_.clear();
        for (const Part& p : item.parts)
          X_.push_back(p.tree >= 0               ? state_of(p, true)
                       : p.id == linchpin::world ? BodyState{}
                       : p.dof > 0 || !middle    ? engine_.end_[p.id]
                                                 : engine_.base_[p.id]);
        try {
          item.constraint->function().residual(X_, engine_.t_ + h, out);
        } catch (...) {
          std::fill(out.begin(), out.end(), std::numeric_limits<double>::quiet_NaN());
        }
      }
      for (int r = item.row; r < item.row + item.rows; ++r) {
        double& x = e[z(r)];
        x -= left_open_[z(r)];
        if (!std::isfinite(x))
          worst = std::numeric_limits<double>::infinity();
        else if (!silent_[z(r)])
          worst = std::max(worst, std::abs(x) * (middle ? dt_ : 1));
        x = middle ? -x : -x / dt_;
      }
    }
  }
  return worst;
}

/// Corrects v until the step ends on the constraints, or where it is nearest to them if they contradict each other;
/// multipliers are added to impulse_. What residuals() has there is left in e_.
bool Multibodies::newton(std::span<double> v, double tolerance, int most) {
  const double round_off = 1e3 * tolerance;
  const bool full = solver_.full_row_rank();
  double last = std::numeric_limits<double>::infinity(), best = last;
  bool turns = false;
  anderson_.begin();
  for (int i = 0, since = 0; i <= most; ++i) {
    const double worst = residuals(v, e_);
    if (worst <= tolerance) return true;
    if (!std::isfinite(worst)) break;
    hush(e_);
    solver_.apply(e_, lambda_, {}, dv_);
    from_unit(dv_);
    // Rows that depend on others may keep a residual: the least squares are where a solve moves nothing any more (T6).
    const double moves = largest(dv_);
    const bool rests =
        !full && (moves * dt_ <= tolerance || moves <= 64 * std::numeric_limits<double>::epsilon() * largest(v));
    const double left = rests ? 0 : full ? worst : moves * dt_;
    if (left < best) {
      best = left;
      best_v_.assign(v.begin(), v.end());
      best_impulse_ = impulse_;
      since = 0;
    } else if (++since > 5) {
      break;
    }
    if (rests || i == most) break;
    if (left > 0.5 * last) {
      if (best <= round_off) break;
      turns = true;  // within the step, as close to where the mechanism folds
    }
    last = left;
    half_ = dv_;
    anderson_.improve<2>(full ? e_ : half_, {lambda_, dv_}, turns);
    ++engine_.counts_.newton;
    for (std::size_t k = 0; k < v.size(); ++k) v[k] += dv_[k];
    for (std::size_t r = 0; r < impulse_.size(); ++r) impulse_[r] += lambda_[r];
  }
  if (!std::isfinite(best)) return false;
  std::copy(best_v_.begin(), best_v_.end(), v.begin());
  impulse_ = best_impulse_;
  residuals(v, e_);
  return best <= engine_.options_.gap_tolerance;
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
