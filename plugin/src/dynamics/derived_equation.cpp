// Solves the derived equation with the factor of the state. The reverse solution is the transposed product of the same
// steps.
#include "dynamics/derived_equation.h"

#include "problem/jacobian_products.h"

#include <Eigen/Dense>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace linchpin {
namespace {

/// y += factor x.
void add_multiple(double factor, std::span<const double> x, std::span<double> y) {
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += factor * x[i];
}

double inner(std::span<const double> x, std::span<const double> y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

Eigen::Map<const Eigen::VectorXd> part(std::span<const double> x, int first, int size) {
  return {x.data() + first, size};
}
Eigen::Map<Eigen::VectorXd> part(std::span<double> x, int first, int size) { return {x.data() + first, size}; }

void set(std::span<double> to, std::span<const double> from) {
  if (from.empty())
    std::fill(to.begin(), to.end(), 0.0);
  else
    std::copy(from.begin(), from.end(), to.begin());
}

}  // namespace

void DerivedEquation::prepare(const Dynamics& dynamics, const State& state, const KeptSolution& solution,
                              const EquationParts& parts, EquationPartials& here) {
  dynamics_ = &dynamics;
  solution_ = &solution;
  parts_ = parts;
  for (auto* x : {&f_, &x_, &dv_}) x->assign(z(parts.n), 0.0);
  for (auto* x : {&g_, &y_, &ideal_y_, &e_, &scale_, &row_}) x->assign(z(parts.m), 0.0);
  readings_.clear();
  unknowns_.clear();
  if (parts.redundant) find_outside_range();
  if (!parts.laws) return;
  find_readings(state, here);
  for (Unknown& unknown : unknowns_) {
    unknown.vdot.resize(z(parts.n));
    unknown.lambda.resize(z(parts.m));
    f_ = unknown.force;
    std::fill(g_.begin(), g_.end(), 0.0);
    solve(f_, g_, unknown.vdot, unknown.lambda);
  }
  invert_coupling();
}

/// Finds how the efforts of laws depend on multipliers, and the unknown efforts.
void DerivedEquation::find_readings(const State& state, EquationPartials& here) {
  LawPartials& laws = here.laws();
  const LawSolver::Scene scene{here.system(), here.assembly(), dynamics_->solver(), state, solution_->lambda};
  laws.evaluate(scene, solution_->laws, solution_->vdot, solution_->induced);
  const std::vector<int>& row = here.assembly().layout.row;
  for (int site = 0; site < laws.site_count(); ++site) {
    Reading& reading = readings_.emplace_back();
    const std::size_t constraint = z(laws.constraint_of(site));
    reading.site = site;
    reading.first_row = row[constraint];
    reading.rows = row[constraint + 1] - row[constraint];
    reading.effort_by_ideal.setZero(6, reading.rows);
    reading.effort_by_coupled.setZero(6, reading.rows);
    reading.slip_by_ideal.setZero(parts_.sticking, reading.rows);
    reading.forces.assign(6 * z(parts_.n), 0.0);
    for (int k = 0; k < 6; ++k)
      laws.add(scene, site, Vector6::Unit(k), std::span(reading.forces).subspan(z(k * parts_.n), z(parts_.n)));
  }
  add_sticking_unknowns(scene, laws);
  if (solution_->laws.any_frictionless) differentiate_readings(scene, laws, false);
  if (solution_->laws.any_coupled) differentiate_readings(scene, laws, true);
  for (Reading& reading : readings_) reading.reads_ideal = !reading.effort_by_ideal.isZero(0);
  add_reading_unknowns();
}

/// Differentiates efforts by the multipliers of the rows of their constraint, for all constraints at the same time.
/// @param coupled  by all multipliers, and otherwise by those of Q^N with the sum kept
void DerivedEquation::differentiate_readings(const LawSolver::Scene& scene, LawPartials& laws, bool coupled) {
  const std::size_t efforts = 6 * readings_.size(), size = efforts + z(parts_.sticking);
  std::vector<double> lambda, induced, derivative(size), largest_multiplier;
  const std::span<const double> slopes(derivative);
  double most_effort = 0, most_multiplier = 0;
  int most_rows = 0;
  for (const Reading& reading : readings_) {
    most_rows = std::max(most_rows, reading.rows);
    most_effort = std::max(most_effort, laws.effort(reading.site).cwiseAbs().maxCoeff());
    double most = 0;
    for (int r = reading.first_row; r < reading.first_row + reading.rows; ++r)
      most = std::max(most, std::fabs(solution_->lambda[z(r)] + (coupled ? solution_->induced[z(r)] : 0)));
    largest_multiplier.push_back(most);
    most_multiplier = std::max(most_multiplier, most);
  }
  for (double& most : largest_multiplier)
    if (!(most > 1e-9 * most_multiplier)) most = most_multiplier > 0 ? most_multiplier : 1;
  const detail::ValueBlock blocks[] = {{0, efforts, most_effort}, {efforts, size, largest(solution_->vdot)}};
  for (int row = 0; row < most_rows; ++row) {
    const auto value = [&](int, double step, std::span<double> out) {
      lambda = solution_->lambda;
      induced = solution_->induced;
      for (std::size_t i = 0; i < readings_.size(); ++i) {
        if (row >= readings_[i].rows) continue;
        const double change = step * largest_multiplier[i];
        induced[z(readings_[i].first_row + row)] += coupled ? change : -change;
        if (!coupled) lambda[z(readings_[i].first_row + row)] += change;
      }
      LawSolver::Scene changed{scene.system, scene.assembly, scene.solver, scene.state, lambda};
      laws.evaluate_at_multipliers(changed, solution_->laws, solution_->vdot, induced);
      for (std::size_t i = 0; i < readings_.size(); ++i)
        std::copy_n(laws.effort(readings_[i].site).data(), 6, out.begin() + static_cast<std::ptrdiff_t>(6 * i));
      std::copy(laws.slip_accelerations().begin(), laws.slip_accelerations().end(),
                out.begin() + static_cast<std::ptrdiff_t>(efforts));
      return true;
    };
    difference_.run(value, detail::CentralDifference::first_step, blocks, derivative);
    for (std::size_t i = 0; i < readings_.size(); ++i) {
      Reading& reading = readings_[i];
      if (row >= reading.rows) continue;
      (coupled ? reading.effort_by_coupled : reading.effort_by_ideal).col(row) =
          part(slopes, static_cast<int>(6 * i), 6) / largest_multiplier[i];
      for (std::size_t k = 0; !coupled && k < z(parts_.sticking); ++k)  // The first unknowns.
        if (z(unknowns_[k].reading) == i)
          reading.slip_by_ideal(static_cast<Eigen::Index>(k), row) = slopes[efforts + k] / largest_multiplier[i];
    }
  }
}

void DerivedEquation::add_sticking_unknowns(const LawSolver::Scene& scene, LawPartials& laws) {
  for (const KeptLaws::Term& term : solution_->laws.terms)
    for (int k = 0; k < term.dim && term.kind == KeptLaws::Kind::sticks; ++k) {
      Unknown& unknown = unknowns_.emplace_back();
      unknown.sticks = true;
      unknown.reading = laws.site_of(term.constraint);
      unknown.force.assign(z(parts_.n), 0.0);
      laws.add(scene, unknown.reading, term.basis.col(k), unknown.force);
    }
}

/// Adds the directions in which efforts change with the coupled normal force.
void DerivedEquation::add_reading_unknowns() {
  constexpr double negligible = 1e-13;
  for (std::size_t i = 0; i < readings_.size(); ++i) {
    const Reading& reading = readings_[i];
    if (reading.effort_by_coupled.isZero(0)) continue;
    const Eigen::JacobiSVD<Eigen::MatrixXd> svd(reading.effort_by_coupled, Eigen::ComputeThinU | Eigen::ComputeThinV);
    for (Eigen::Index k = 0; k < svd.singularValues().size(); ++k) {
      if (!(svd.singularValues()[k] > negligible * svd.singularValues()[0])) break;
      Unknown& unknown = unknowns_.emplace_back();
      unknown.reading = static_cast<int>(i);
      unknown.reads = svd.singularValues()[k] * svd.matrixV().col(k);
      unknown.force.assign(z(parts_.n), 0.0);
      for (int j = 0; j < 6; ++j)
        add_multiple(svd.matrixU()(j, k), std::span(reading.forces).subspan(z(j * parts_.n), z(parts_.n)),
                     unknown.force);
    }
  }
}

/// Inverts the small system of the unknown efforts. Static friction that is indeterminate makes it singular. Its
/// accelerations are then the same for all solutions, and the one of least norm is taken.
void DerivedEquation::invert_coupling() {
  const Eigen::Index size = static_cast<Eigen::Index>(unknowns_.size());
  coupling_.resize(size, size);
  right_.resize(size);
  efforts_.resize(size);
  if (size == 0) return;
  Eigen::VectorXd unit(size);  // Sticking efforts that move free bodies equally.
  int sticking = 0;
  for (Eigen::Index j = 0; j < size; ++j) {
    const Unknown& unknown = unknowns_[static_cast<std::size_t>(j)];
    unit[j] = 1;
    if (unknown.sticks) {
      ++sticking;
      dynamics_->solver().inverse_mass(unknown.force, dv_);
      if (const double mobility = inner(unknown.force, dv_); mobility > 0) unit[j] = 1 / std::sqrt(mobility);
    }
    for (Eigen::Index l = 0; l < size; ++l) {
      const Unknown& other = unknowns_[static_cast<std::size_t>(l)];
      if (unknown.sticks) {
        coupling_(j, l) = -inner(unknown.force, other.vdot);
        continue;
      }
      const Reading& reading = readings_[z(unknown.reading)];
      const std::span<const double> lambda(other.lambda);
      coupling_(j, l) = (j == l ? 1 : 0) - unknown.reads.dot(part(lambda, reading.first_row, reading.rows));
    }
  }
  // A response below this part of that of free bodies is rounding: other constraints hold the direction.
  constexpr double immovable = 1e-10;
  Eigen::CompleteOrthogonalDecomposition<Eigen::MatrixXd> factor;
  factor.compute(unit.asDiagonal() * coupling_ * unit.asDiagonal());
  if (factor.maxPivot() > 0) factor.setThreshold(std::min(0.5, immovable / factor.maxPivot()));
  if (size - factor.rank() > sticking) fail_without_unique_efforts();
  factor.compute(unit.asDiagonal() * coupling_ * unit.asDiagonal());
  coupling_ = unit.asDiagonal() * factor.pseudoInverse() * unit.asDiagonal();
}

void DerivedEquation::fail_without_unique_efforts() const {
  std::string names;
  for (const Unknown& unknown : unknowns_) {
    if (unknown.sticks) continue;
    const std::string& name =
        problem().constraints[z(problem().row_constraint[z(readings_[z(unknown.reading)].first_row)])];
    if (names.find("\"" + name + "\"") == std::string::npos) names += (names.empty() ? "\"" : ", \"") + name + "\"";
  }
  throw std::invalid_argument("the laws on " + names +
                              " read the coupled normal force where it has no derivative: two of its solutions meet at "
                              "this state");
}

/// Finds an orthonormal basis of the vectors outside the range of A, in the rows as given.
void DerivedEquation::find_outside_range() {
  const ConstrainedProblem& of = problem();
  Eigen::MatrixXd A = Eigen::MatrixXd::Zero(of.m(), of.n());
  for (int r = 0; r < of.m(); ++r)
    for (int i = of.row_start[z(r)]; i < of.row_start[z(r + 1)]; ++i)
      A(r, of.entries[z(i)].column) = of.entries[z(i)].value;
  const Eigen::ColPivHouseholderQR<Eigen::MatrixXd> qr(A);
  outside_range_ = Eigen::MatrixXd::Identity(of.m(), of.m()).rightCols(of.m() - dynamics_->solver().rank());
  outside_range_.applyOnTheLeft(qr.householderQ());
  outside_.resize(outside_range_.cols());
}

/// Solves M x − Aᵀy = f, A x = g, with the least norm of y. What lies outside the range of A does not count in g. f is
/// work memory.
void DerivedEquation::solve(std::span<double> f, std::span<const double> g, std::span<double> x, std::span<double> y) {
  const ConstraintFactorization& factor = dynamics_->solver();
  factor.complete_force(g, f);
  factor.inverse_mass(f, x);
  if (parts_.m == 0) return;
  difference(dynamics_->assembly(), g, x, e_, scale_);
  if (parts_.redundant) add_outside_range(-1, e_, e_);
  factor.apply(e_, y, {}, dv_, scale_);
  if (parts_.redundant) add_outside_range(-1, y, y);
  add_multiple(1, dv_, x);
}

/// y += factor times the part of k outside the range of A.
void DerivedEquation::add_outside_range(double factor, std::span<const double> k, std::span<double> y) {
  outside_.noalias() = outside_range_.transpose() * part(k, 0, parts_.m);
  part(y, 0, parts_.m).noalias() += factor * (outside_range_ * outside_);
}

void DerivedEquation::forward(std::span<const double> change, std::span<const double> force, OutputChange& out) {
  const EquationParts::Spans<const double> of = parts_.of(change);
  set(f_, of.ideal_balance);
  if (!force.empty()) add_multiple(1, force, f_);
  solve(f_, of.ideal_rows, x_, ideal_y_);
  if (parts_.redundant) add_outside_range(1, of.ideal_range, ideal_y_);
  set(out.lambda, ideal_y_);
  set(out.ideal, of.ideal_force);
  add_transposed(dynamics_->assembly(), ideal_y_, out.ideal);
  set(out.velocity_residual, of.velocity);
  if (!parts_.laws) {
    set(out.vdot, x_);
    set(out.nonideal, {});
    return;
  }

  set(f_, of.balance);
  if (!force.empty()) add_multiple(1, force, f_);
  set(out.nonideal, of.law_force);
  for (const Reading& reading : readings_) {
    if (!reading.reads_ideal) continue;
    effort_.noalias() =
        reading.effort_by_ideal * part(std::span<const double>(ideal_y_), reading.first_row, reading.rows);
    for (int k = 0; k < 6; ++k) {
      const auto unit = std::span(reading.forces).subspan(z(k * parts_.n), z(parts_.n));
      add_multiple(effort_[k], unit, f_);
      add_multiple(effort_[k], unit, out.nonideal);
    }
  }
  solve(f_, of.rows, x_, y_);
  if (parts_.redundant) add_outside_range(1, of.range, y_);
  std::size_t stick = 0;
  for (std::size_t j = 0; j < unknowns_.size(); ++j) {
    const Unknown& unknown = unknowns_[j];
    double& right = right_[static_cast<Eigen::Index>(j)];
    if (!unknown.sticks) {
      const Reading& reading = readings_[z(unknown.reading)];
      right = unknown.reads.dot(part(std::span<const double>(y_), reading.first_row, reading.rows));
      continue;
    }
    right = of.slip[stick] + inner(unknown.force, x_);
    const Reading& reading = readings_[z(unknown.reading)];
    right += reading.slip_by_ideal.row(static_cast<Eigen::Index>(stick))
                 .dot(part(std::span<const double>(ideal_y_), reading.first_row, reading.rows));
    ++stick;
  }
  efforts_.noalias() = coupling_ * right_;
  for (std::size_t j = 0; j < unknowns_.size(); ++j) {
    const double effort = efforts_[static_cast<Eigen::Index>(j)];
    add_multiple(effort, unknowns_[j].vdot, x_);
    add_multiple(effort, unknowns_[j].lambda, y_);
    add_multiple(effort, unknowns_[j].force, out.nonideal);
  }
  set(out.vdot, x_);
  add_multiple(-1, ideal_y_, y_);
  add_transposed(dynamics_->assembly(), y_, out.nonideal);
}

void DerivedEquation::reverse(const OutputWeights& weights, std::span<double> of_parts, std::span<double> of_force) {
  const EquationParts::Spans<double> of = parts_.of(of_parts);
  std::fill(of_parts.begin(), of_parts.end(), 0.0);
  set(of.ideal_force, weights.ideal);
  set(of.velocity, weights.velocity_residual);
  set(ideal_y_, weights.lambda);
  const auto add_rows = [&](double sign, std::span<const double> x, std::span<double> y) {  // y ± A x.
    if (x.empty()) return;
    multiply(problem(), x, row_);
    add_multiple(sign, row_, y);
  };
  add_rows(1, weights.ideal, ideal_y_);
  // Solves the transposed system for weights x of accelerations and y of multipliers.
  const auto solve_transposed = [&](std::span<const double> x, std::span<const double> y, std::span<double> f,
                                    std::span<double> g, std::span<double> range) {
    set(f_, x);
    for (std::size_t r = 0; r < g_.size(); ++r) g_[r] = -y[r];
    solve(f_, g_, f, g);
    for (double& gi : g) gi = -gi;
    if (range.empty()) return;
    add_outside_range(1, y, range);
  };
  if (!parts_.laws) {
    set(x_, weights.vdot);
    solve_transposed(x_, ideal_y_, of.ideal_balance, of.ideal_rows, of.ideal_range);
    set(of_force, of.ideal_balance);
    return;
  }

  set(x_, weights.vdot);
  set(y_, {});
  set(of.law_force, weights.nonideal);
  add_rows(1, weights.nonideal, y_);
  add_rows(-1, weights.nonideal, ideal_y_);
  for (std::size_t j = 0; j < unknowns_.size(); ++j)
    efforts_[static_cast<Eigen::Index>(j)] =
        inner(unknowns_[j].force, of.law_force) + inner(unknowns_[j].vdot, x_) + inner(unknowns_[j].lambda, y_);
  right_.noalias() = coupling_.transpose() * efforts_;
  std::size_t stick = 0;
  for (std::size_t j = 0; j < unknowns_.size(); ++j) {
    const Unknown& unknown = unknowns_[j];
    const double right = right_[static_cast<Eigen::Index>(j)];
    if (!unknown.sticks) {
      const Reading& reading = readings_[z(unknown.reading)];
      part(std::span<double>(y_), reading.first_row, reading.rows) += right * unknown.reads;
      continue;
    }
    of.slip[stick] = right;
    add_multiple(right, unknown.force, x_);
    const Reading& reading = readings_[z(unknown.reading)];
    part(std::span<double>(ideal_y_), reading.first_row, reading.rows) +=
        right * reading.slip_by_ideal.row(static_cast<Eigen::Index>(stick)).transpose();
    ++stick;
  }
  solve_transposed(x_, y_, of.balance, of.rows, of.range);
  for (const Reading& reading : readings_) {
    if (!reading.reads_ideal) continue;
    for (int k = 0; k < 6; ++k) {
      const auto unit = std::span(reading.forces).subspan(z(k * parts_.n), z(parts_.n));
      effort_[k] = inner(unit, of.balance) + inner(unit, of.law_force);
    }
    part(std::span<double>(ideal_y_), reading.first_row, reading.rows) += reading.effort_by_ideal.transpose() * effort_;
  }
  std::fill(x_.begin(), x_.end(), 0.0);
  solve_transposed(x_, ideal_y_, of.ideal_balance, of.ideal_rows, of.ideal_range);
  set(of_force, of.balance);
  add_multiple(1, of.ideal_balance, of_force);
}

}  // namespace linchpin
