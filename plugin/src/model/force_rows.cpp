// Motors and compliance: which rows of a constraint become forces, and the laws of these forces.
#include "model/force_rows.h"

#include "math/vector_ops.h"
#include "model/constraint_parts.h"
#include "model/format.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace linchpin {

namespace detail {

ForceRows::ForceRows(std::unique_ptr<ConstraintFunction> whole, std::vector<int> exact)
    : whole_(std::move(whole)), exact_(std::move(exact)) {}

ForceRows::ForceRows(const ForceRows& other)
    : ConstraintFunction(other),
      springs(other.springs),
      is_motor(other.is_motor),
      speed(other.speed),
      whole_(other.whole_->clone()),
      exact_(other.exact_) {}

void ForceRows::residual(std::span<const BodyState> X, double t, std::span<double> out) const {
  residual_.assign(z(whole_->rows()), 0.0);
  whole_->residual(X, t, residual_);
  for (std::size_t r = 0; r < exact_.size(); ++r) out[r] = residual_[z(exact_[r])];
}

void ForceRows::linearize(std::span<const BodyState> X, double t, Linearization out) const {
  if (exact_.empty()) return;
  const Values& all = evaluate(X, t);
  const std::size_t width = 6 * X.size();
  for (std::size_t r = 0; r < exact_.size(); ++r) {
    const std::size_t from = z(exact_[r]);
    std::copy_n(&all.A[from * width], width, &out.A[r * width]);
    out.b[r] = all.b[from];
    out.position[r] = all.position[from];
    out.velocity[r] = all.velocity[from];
  }
}

const ForceRows::Values& ForceRows::evaluate(std::span<const BodyState> X, double t) const {
  const std::size_t rows = z(whole_->rows());
  values_.A.assign(rows * 6 * X.size(), 0.0);
  for (auto* x : {&values_.b, &values_.position, &values_.velocity}) x->assign(rows, 0.0);
  whole_->linearize(X, t, {values_.A, values_.b, values_.position, values_.velocity});
  for (double& u : values_.velocity) u -= speed;
  return values_;
}

namespace {

[[noreturn]] void refuse(const Constraint& constraint, const std::string& what) {
  throw std::invalid_argument("constraint '" + constraint.name() + "': " + what);
}

void require_at_most_two_bodies(const Constraint& constraint, const char* what) {
  if (constraint.bodies().size() > 2)
    refuse(constraint, std::string(what) + " acts between two bodies, or on one, and the constraint has " +
                           std::to_string(constraint.bodies().size()));
}

void require_value(const Constraint& constraint, const char* what, double x, bool may_be_infinite) {
  if (!(x >= 0) || (!may_be_infinite && std::isinf(x)))
    refuse(constraint, std::string(what) +
                           (may_be_infinite ? " must not be negative" : " must be finite and not negative") + ", got " +
                           text(x));
}

Law::Term term_along(const char* name, int row) {
  Law::Term term;
  term.name = name;
  term.normal_force = NormalForce::frictionless;
  term.row = row;
  return term;
}

}  // namespace

RowForces motor_on(const Constraint& constraint, const Motor& motor) {
  const ConstraintFunction& whole = whole_function(constraint);
  require_at_most_two_bodies(constraint, "a motor");
  if (whole.rows() != 1 || whole.level() == Level::acceleration)
    refuse(constraint, "a motor needs a constraint of one row on positions or velocities, and this one has " +
                           std::to_string(whole.rows()) +
                           (whole.level() == Level::acceleration ? " on accelerations" : ""));
  if (!std::isfinite(motor.speed)) refuse(constraint, "the speed of a motor must be finite, got " + text(motor.speed));
  require_value(constraint, "the largest force of a motor", motor.max_force, false);
  auto function = std::make_unique<ForceRows>(whole.clone(), std::vector<int>{});
  function->is_motor = true;
  function->speed = motor.speed;
  Law::Term term = term_along("motor", 0);
  term.static_limit = [most = motor.max_force](const ConstraintReaction&) { return most; };
  term.sliding_magnitude = [most = motor.max_force](const ConstraintReaction&, double) { return most; };
  return {ConstraintParts::with_function(constraint, std::move(function)), Law(std::move(term))};
}

RowForces compliance_of(const Constraint& constraint, const Compliance& c) {
  const ConstraintFunction& whole = whole_function(constraint);
  require_at_most_two_bodies(constraint, "compliance");
  if (whole.level() != Level::position)
    refuse(constraint, "compliance needs a constraint on positions, because a spring has a length");
  require_value(constraint, "stiffness", c.stiffness, true);
  require_value(constraint, "damping", c.damping, false);
  require_value(constraint, "angular_stiffness", c.angular_stiffness, true);
  require_value(constraint, "angular_damping", c.angular_damping, false);
  std::vector<int> exact;
  std::vector<RowSpring> springs(z(whole.rows()));
  Law law;
  for (int row = 0; row < whole.rows(); ++row) {
    const bool turns = whole.unit(row) == RowUnit::radian;
    const double k = turns ? c.angular_stiffness : c.stiffness, d = turns ? c.angular_damping : c.damping;
    if (std::isinf(k)) {
      exact.push_back(row);
      continue;
    }
    springs[z(row)] = {k, d};
    Law::Term term = term_along("compliance", row);
    term.multiplier = [k, d](double position, double velocity) { return -(k * position + d * velocity); };
    law = law + Law(std::move(term));
  }
  if (!law)
    refuse(constraint,
           "none of its rows has a finite stiffness. `stiffness` is for rows in metres or in a unit of your own, "
           "`angular_stiffness` for rows in radians. A damper without a spring has a stiffness of 0");
  auto function = std::make_unique<ForceRows>(whole.clone(), std::move(exact));
  function->springs = std::move(springs);
  return {ConstraintParts::with_function(constraint, std::move(function)), law};
}

std::string why_no_row_forces(const System& system, const Constraint& constraint, std::span<const BodyState> X,
                              double t) {
  if (X.size() < 2 || system.dof(constraint.bodies()[0]) == 0 || system.dof(constraint.bodies()[1]) == 0) return {};
  const ForceRows whole(whole_function(constraint).clone(), {});
  const ForceRows::Values& values = whole.evaluate(X, t);
  const std::size_t rows = values.b.size();
  const double open = largest(values.position);  // The forces of an open joint have different points of action.
  for (std::size_t row = 0; row < rows; ++row) {
    const double* const J = &values.A[12 * row];
    const Vector3d f(J[0], J[1], J[2]), g(J[6], J[7], J[8]), about = X[1].p - X[0].p;
    Vector3d moment(J[3] + J[9], J[4] + J[10], J[5] + J[11]);
    moment += about.cross(g);
    const double size = std::max({f.norm(), g.norm(), Vector3d(J[3], J[4], J[5]).norm()});
    constexpr double rounding = 1e-6;
    if ((f + g).norm() > rounding * size || moment.norm() > (rounding * std::max(1.0, about.norm()) + 2 * open) * size)
      return "constraint '" + constraint.name() + "': the forces of row " + std::to_string(row) +
             " on its two bodies are not opposite, so its residual depends on more than their relative pose. A motor "
             "or compliance needs opposite forces";
  }
  return {};
}

}  // namespace detail

namespace {

ConstraintId add_forces(System& system, detail::RowForces forces) {
  const State state = system.initial_state();
  std::vector<BodyState> X;
  for (const BodyId id : forces.constraint.bodies()) X.push_back(state[id]);
  if (const std::string why = detail::why_no_row_forces(system, forces.constraint, X, state.t); !why.empty())
    throw std::invalid_argument(why);
  const ConstraintId id = system.add(std::move(forces.constraint));
  add_law(system, id, std::move(forces.law));
  return id;
}

}  // namespace

ConstraintId add_motor(System& system, const Constraint& row, const Motor& motor) {
  return add_forces(system, detail::motor_on(row, motor));
}

ConstraintId add_compliant(System& system, const Constraint& constraint, const Compliance& compliance) {
  return add_forces(system, detail::compliance_of(constraint, compliance));
}

}  // namespace linchpin
