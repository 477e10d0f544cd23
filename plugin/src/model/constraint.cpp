// Constraints as named things, and the derivative test for their functions.
#include "model/finite_state.h"

#include <linchpin/constraint.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <stdexcept>

namespace linchpin {

Constraint::Constraint(std::string name, std::vector<BodyId> bodies, std::unique_ptr<ConstraintFunction> function)
    : name_(std::move(name)), bodies_(std::move(bodies)), function_(std::move(function)) {
  if (name_.empty()) throw std::invalid_argument("a constraint needs a name");
  const std::string thing = "constraint '" + name_ + "': ";
  if (bodies_.empty()) throw std::invalid_argument(thing + "it names no body");
  for (std::size_t k = 0; k < bodies_.size(); ++k) {
    if (bodies_[k].index < 0)
      throw std::invalid_argument(thing + "its body " + std::to_string(k) + " has the index " +
                                  std::to_string(bodies_[k].index) + ", which is not a body");
    for (std::size_t j = 0; j < k; ++j)
      if (bodies_[j] == bodies_[k])
        throw std::invalid_argument(thing + "names the same body twice (index " + std::to_string(bodies_[k].index) +
                                    ", places " + std::to_string(j) + " and " + std::to_string(k) + ")");
  }
  if (!function_) throw std::invalid_argument(thing + "it has no function");
  if (function_->bodies() != static_cast<int>(bodies_.size()))
    throw std::invalid_argument(thing + "its function needs " + std::to_string(function_->bodies()) +
                                (function_->bodies() == 1 ? " body" : " bodies") + ", but " +
                                std::to_string(bodies_.size()) + (bodies_.size() == 1 ? " was" : " were") + " given");
  if (function_->rows() < 1) throw std::invalid_argument(thing + "it has no rows");
}

Constraint::Constraint(const Constraint& other)
    : name_(other.name_),
      bodies_(other.bodies_),
      function_(other.function_ ? other.function_->clone() : nullptr),
      points_(other.points_),
      slider_(other.slider_),
      where_(other.where_) {}
// A list of constraints that grows moves them. The functions stay where they are.
static_assert(std::is_nothrow_move_constructible_v<Constraint>);

Constraint& Constraint::set_application_points(std::vector<Vector3d> p_BQ) {
  const std::string thing = "constraint '" + name_ + "': set_application_points ";
  if (p_BQ.size() != bodies_.size())
    throw std::invalid_argument(thing + "needs a point on each of the " + std::to_string(bodies_.size()) +
                                " bodies, got " + std::to_string(p_BQ.size()));
  for (const Vector3d& p : p_BQ)
    if (!p.allFinite()) throw std::invalid_argument(thing + "needs finite points");
  points_ = std::move(p_BQ);
  return *this;
}

Constraint& Constraint::set_application_point(std::function<Vector3d(const State&)> p_WQ) {
  if (!p_WQ) throw std::invalid_argument("constraint '" + name_ + "': set_application_point needs a function");
  where_ = std::move(p_WQ);
  return *this;
}

Constraint& Constraint::set_sliding_body(int k) {
  const std::string thing = "constraint '" + name_ + "': set_sliding_body ";
  if (k < 0 || static_cast<std::size_t>(k) >= bodies_.size())
    throw std::invalid_argument(thing + std::to_string(k) + ": it has " + std::to_string(bodies_.size()) + " bodies");
  if (points_.empty()) throw std::invalid_argument(thing + "needs the point. Call set_application_points() first");
  slider_ = k;
  return *this;
}

void detail::no_such_body(std::size_t k, std::size_t count) {
  throw std::invalid_argument(
      "the residual reads s[" + std::to_string(k) + "], but its constraint has " + std::to_string(count) +
      (count == 1 ? " body (s[0])"
                  : (count == 2 ? " bodies (s[0] and s[" : " bodies (s[0] to s[") + std::to_string(count - 1) + "])") +
      ". Name all bodies that it reads");
}

// ---- the derivative test ----

namespace {

constexpr double accepted_A = 1e-5, accepted_b = 1e-4;  // documented in constraint.h

using Values = std::vector<double>;

double largest(const Values& x) {
  double most = 0;
  for (double xi : x) most = std::max(most, std::abs(xi));
  return most;
}

bool all_finite(const Values& x) {
  return std::all_of(x.begin(), x.end(), [](double xi) { return std::isfinite(xi); });
}

struct Computed {
  Values A, b, position, velocity;
};

class Check {
 public:
  Check(const System& system, const Constraint& constraint)
      : system_(system), constraint_(constraint), f_(constraint.function()) {}

  ConstraintCheck run(const State& state) {
    if (!collect(state)) return result_;
    if (const std::string what = detail::what_is_not_finite(system_, constraint_.bodies(), state); !what.empty()) {
      result_.finite = false;
      say(": " + what);
      return result_;
    }
    const Computed at = linearized(X_);
    const Values residual = residual_at(X_, t_);
    report_residuals(at);
    if (!finite(at, residual)) return result_;
    compare_residual(at, residual);
    compare_A(at);
    compare_path(at, X_);
    compare_path_in_motion();
    conclude();
    return result_;
  }

 private:
  std::size_t rows() const { return static_cast<std::size_t>(f_.rows()); }
  std::size_t K() const { return X_.size(); }
  std::string body_name(std::size_t k) const { return "'" + system_.name(constraint_.bodies()[k]) + "'"; }
  bool moves(std::size_t k) const { return system_.kind(constraint_.bodies()[k]) != BodyKind::fixed; }
  // A particle does not rotate, so the last three columns are not used.
  std::size_t columns(std::size_t k) const {
    const BodyKind kind = system_.kind(constraint_.bodies()[k]);
    return kind == BodyKind::particle ? 3 : kind == BodyKind::coordinate ? 1 : 6;
  }

  void say(const std::string& what) {
    if (result_.message.empty()) result_.message = "constraint '" + constraint_.name() + "'" + what;
  }

  // Collects the bodies as a solver would pass them. Returns false, with a message, when a body is missing or none can
  // move.
  bool collect(const State& state) {
    bool any = false;
    std::string names;
    t_ = state.t;
    for (BodyId id : constraint_.bodies()) {
      if (id.index >= system_.body_count() || static_cast<std::size_t>(id.index) >= state.bodies.size()) {
        say(": body " + std::to_string(id.index) + " is not in the system or not in the state");
        return false;
      }
      const bool movable = system_.dof(id) > 0;
      BodyState s = state[id];
      if (movable) s.a.setZero(), s.alpha.setZero();
      X_.push_back(s);
      any = any || movable;
      names += (names.empty() ? "'" : ", '") + system_.name(id) + "'";
    }
    if (!any) say(": none of its bodies (" + names + ") can move");
    return any;
  }

  Computed linearized(const std::vector<BodyState>& X) const {
    Computed c{Values(rows() * 6 * K()), Values(rows()), Values(rows()), Values(rows())};
    f_.linearize(X, t_, {c.A, c.b, c.position, c.velocity});
    return c;
  }

  Values residual_at(const std::vector<BodyState>& X, double t) const {
    Values r(rows());
    f_.residual(X, t, r);
    return r;
  }

  void report_residuals(const Computed& at) {
    result_.residual = largest(f_.level() == Level::velocity ? at.velocity : at.position);
    result_.velocity = largest(at.velocity);
  }

  bool finite(const Computed& at, const Values& residual) {
    for (std::size_t i = 0; i < rows() && result_.finite; ++i) {
      const char* what = nullptr;
      if (!std::isfinite(residual[i])) what = "the residual";
      for (std::size_t k = 0; k < K() && !what; ++k)
        for (std::size_t j = 0; j < columns(k); ++j)
          if (!std::isfinite(at.A[(i * K() + k) * 6 + j])) {
            what = "A";
            result_.body = static_cast<int>(k);
          }
      if (!what && !std::isfinite(at.b[i])) what = "b";
      if (!what && !(std::isfinite(at.velocity[i]) && std::isfinite(at.position[i]))) what = "the velocity residual";
      if (!what) continue;
      result_.finite = false;
      result_.row = static_cast<int>(i);
      say(", row " + std::to_string(i) + ": " + what +
          " is not finite at this state; a residual must be smooth there (write a distance as dot(d, d) = l², not as "
          "sqrt)");
    }
    return result_.finite;
  }

  // `linearize` must report the same residual as `residual`.
  void compare_residual(const Computed& at, const Values& residual) {
    for (std::size_t i = 0; i < rows(); ++i) {
      const double reported = f_.level() == Level::position   ? at.position[i]
                              : f_.level() == Level::velocity ? at.velocity[i]
                                                              : -at.b[i];
      if (std::abs(reported - residual[i]) > accepted_A * std::max(1.0, largest(residual)))
        say(", row " + std::to_string(i) + ": linearize() and residual() return different values of the residual");
    }
  }

  // Returns the bodies with body k displaced by h along direction j of the columns of A.
  std::vector<BodyState> stepped(std::size_t k, std::size_t j, double h) const {
    std::vector<BodyState> X = X_;
    const Vector3d step = h * Vector3d::Unit(static_cast<Eigen::Index>(j % 3));
    BodyState& s = X[k];
    if (f_.level() == Level::position)
      advance(s, j < 3 ? step : Vector3d::Zero(), j < 3 ? Vector3d::Zero() : step, 1);
    else if (f_.level() == Level::velocity)
      (j < 3 ? s.v : s.w) += step;
    else
      (j < 3 ? s.a : s.alpha) += step;
    return X;
  }

  void compare_A(const Computed& at) {
    const double scale = std::max(1.0, largest(at.A));
    for (std::size_t k = 0; k < K(); ++k)
      for (std::size_t j = 0; j < columns(k); ++j) {
        // The smaller error of two step lengths: one may suffer from rounding, the other from curvature.
        Values error(rows(), std::numeric_limits<double>::infinity());
        for (double h : {1e-4, 1e-6}) {
          const Values p = residual_at(stepped(k, j, h), t_), m = residual_at(stepped(k, j, -h), t_);
          for (std::size_t i = 0; i < rows(); ++i)
            error[i] = std::min(error[i], std::abs((p[i] - m[i]) / (2 * h) - at.A[(i * K() + k) * 6 + j]) / scale);
        }
        for (std::size_t i = 0; i < rows(); ++i)
          if (note(error[i], result_.error_A, i, static_cast<int>(k)) && error[i] > accepted_A) worst_A_ = {i, k};
      }
  }

  // Residual along the motion with v̇ = a, α of the given bodies and zero for the others (T3).
  Values along(const std::vector<BodyState>& start, double s) const {
    std::vector<BodyState> X = start;
    for (BodyState& x : X) {
      // exp(sω + ½s²α) is accurate to second order.
      const Vector3d v = x.v + 0.5 * s * x.a, w = x.w + 0.5 * s * x.alpha;
      advance(x, v, w, s);
      x.v += s * x.a;
      x.w += s * x.alpha;
    }
    return residual_at(X, t_ + s);
  }

  void compare_path(const Computed& at, const std::vector<BodyState>& start) {
    if (f_.level() == Level::acceleration) return;  // b was already compared as the residual.
    double rate = 1;
    for (const BodyState& s : start) rate = std::max({rate, s.w.norm(), std::sqrt(s.alpha.norm())});
    Values error_b(rows(), std::numeric_limits<double>::infinity()), error_velocity = error_b;
    for (double h : {3e-3 / rate, 3e-4 / rate}) {
      const Values m2 = along(start, -2 * h), m1 = along(start, -h), z = along(start, 0), p1 = along(start, h),
                   p2 = along(start, 2 * h);
      for (std::size_t i = 0; i < rows(); ++i) {
        const double first = (m2[i] - 8 * m1[i] + 8 * p1[i] - p2[i]) / (12 * h);
        const double second = (-m2[i] + 16 * m1[i] - 30 * z[i] + 16 * p1[i] - p2[i]) / (12 * h * h);
        const bool position = f_.level() == Level::position;
        error_b[i] = std::min(error_b[i], std::abs(at.b[i] + (position ? second : first)));
        error_velocity[i] = std::min(error_velocity[i], position ? std::abs(at.velocity[i] - first) : 0);
      }
    }
    const double scale_b = std::max(1.0, largest(at.b)), scale_velocity = std::max(1.0, largest(at.velocity));
    for (std::size_t i = 0; i < rows(); ++i) {
      note(error_b[i] / scale_b, result_.error_b, i, -1);
      note(error_velocity[i] / scale_velocity, result_.error_velocity, i, -1);
    }
  }

  // Most of b vanishes at rest, so the test is repeated while everything that can move does.
  void compare_path_in_motion() {
    std::vector<BodyState> X = X_;
    for (std::size_t k = 0; k < K(); ++k) {
      if (!moves(k)) continue;
      const double c = 1.0 + 0.3 * static_cast<double>(k);
      X[k].v += c * Vector3d(0.31, -0.47, 0.23);
      if (columns(k) == 6) X[k].w += c * Vector3d(-0.29, 0.37, 0.53);
    }
    const Computed at = linearized(X);
    if (all_finite(at.A) && all_finite(at.b) && all_finite(at.velocity)) compare_path(at, X);
  }

  // Stores the largest error of its kind, and the place of the largest error of all. Returns true where `error` is the
  // largest of its kind.
  bool note(double error, double& kind, std::size_t row, int body) {
    if (error > std::max({result_.error_A, result_.error_b, result_.error_velocity})) {
      result_.row = static_cast<int>(row);
      result_.body = body;
    }
    if (!(error > kind)) return false;
    kind = error;
    return true;
  }

  void conclude() {
    char error[32];
    const auto row = [&](std::size_t i) { return ", row " + std::to_string(i); };
    if (result_.error_A > accepted_A) {
      std::snprintf(error, sizeof error, "%.2g", result_.error_A);
      say(row(worst_A_.row) + ", body " + body_name(worst_A_.body) + ": the derivative (matrix A) differs by " + error +
          " (relative) from finite differences of the residual. The derivative is wrong, or the residual has a kink at "
          "this state");
    } else if (result_.error_b > accepted_b || result_.error_velocity > accepted_A) {
      const bool b = result_.error_b > accepted_b;
      std::snprintf(error, sizeof error, "%.2g", b ? result_.error_b : result_.error_velocity);
      say(row(static_cast<std::size_t>(std::max(0, result_.row))) + ": " +
          (b ? "the second derivative (vector b)" : "the velocity residual") + " differs by " + error +
          " (relative) from finite differences along the motion. Check how the residual uses time and velocities");
    }
  }

  struct Place {
    std::size_t row = 0, body = 0;
  };
  const System& system_;
  const Constraint& constraint_;
  const ConstraintFunction& f_;
  std::vector<BodyState> X_;
  double t_ = 0;
  Place worst_A_;
  ConstraintCheck result_;
};

}  // namespace

ConstraintCheck check_constraint(const System& system, const Constraint& constraint, const State& state) noexcept {
  try {
    return Check(system, constraint).run(state);
  } catch (const std::exception& e) {
    ConstraintCheck failed;
    failed.message = "constraint '" + constraint.name() + "': its function threw: " + e.what();
    return failed;
  } catch (...) {
    ConstraintCheck failed;
    failed.message =
        "constraint '" + constraint.name() + "': its function threw an exception that is not a std::exception";
    return failed;
  }
}

}  // namespace linchpin
