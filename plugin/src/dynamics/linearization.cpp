// The linearised equations of motion (T16). Directions of the tangent space come from the rows of the constraints in
// the mass metric. The derivatives along them are extrapolated central differences of the evaluated equation. The
// result is constant in the frame in which the motion is steady.
#include "dynamics/state_directions.h"
#include "math/vector_ops.h"
#include "model/format.h"

#include <linchpin/constraint.h>
#include <linchpin/dynamics.h>
#include <linchpin/linearization.h>

#include <Eigen/Cholesky>
#include <Eigen/Geometry>
#include <Eigen/QR>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace linchpin {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

/// Derivative of a vector function along one line, with its estimated error.
struct Slope {
  VectorXd value;
  double error = std::numeric_limits<double>::infinity();  // In the norm of `value`.
};

/// Extrapolates central differences with the steps h, h/2, h/4 … to steps of zero. The method is Ridders', Advances in
/// Engineering Software 4, 1982. @param f  f(h, out) writes the value, and returns false where there is none
template <class F>
Slope extrapolated_derivative(F& f, double h) {
  constexpr int most_levels = 8;
  constexpr double worse = 4;
  Slope best;
  std::vector<VectorXd> last, row;
  VectorXd ahead, behind;
  for (int level = 0; level < most_levels; ++level, h /= 2) {
    if (!f(h, ahead) || !f(-h, behind)) {
      last.clear();
      continue;
    }
    row.assign(1, (ahead - behind) / (2 * h));
    const double rounding = epsilon * std::max(ahead.norm(), behind.norm()) / h;
    double error = std::numeric_limits<double>::infinity(), power = 1;
    for (std::size_t j = 0; j < last.size(); ++j) {
      power *= 4;
      row.push_back((power * row[j] - last[j]) / (power - 1));
      const double off = rounding + std::max((row[j + 1] - row[j]).norm(), (row[j + 1] - last[j]).norm());
      error = std::min(error, off);
      if (off <= best.error) best = {row[j + 1], off};
    }
    last.swap(row);
    if (best.error <= 4 * epsilon * best.value.norm() || error > worse * best.error) break;
  }
  return best;
}

/// The derivative by one small step, with an estimate of its error by a step that is four times larger.
template <class F>
Slope local_derivative(F& f, double h) {
  VectorXd ahead, behind;
  std::array<VectorXd, 2> slopes;
  double size = 0;
  for (int i = 0; i < 2; ++i, h *= 4) {
    if (!f(h, ahead) || !f(-h, behind)) return {};
    slopes[static_cast<std::size_t>(i)] = (ahead - behind) / (2 * h);
    size = std::max(size, std::max(ahead.norm(), behind.norm()) / h);
  }
  constexpr double noise = 100;  // Rounding of an evaluation, in units of ε.
  return {slopes[0], (slopes[0] - slopes[1]).norm() + noise * epsilon * size};
}

/// Differentiates f at 0. Extrapolated differences are used where they agree with those of a small step. Larger steps
/// may leave the region in which f is smooth, and agree among themselves there.
/// @param step  largest step
template <class F>
Slope derivative(F f, double step) {
  constexpr int most_starts = 5;
  constexpr double smallest_step = 1e-5, accurate = 1e-9, safety = 10;
  Slope best = local_derivative(f, smallest_step * step);
  for (int tries = 0; best.value.size() == 0 && tries < 4; ++tries)
    best = local_derivative(f, smallest_step * step * std::pow(0.01, tries + 1));
  if (best.value.size() == 0) return best;
  const Slope local = best;
  double h = step;
  for (int start = 0; start < most_starts; ++start, h /= 8) {
    const Slope found = extrapolated_derivative(f, h);
    if (found.value.size() == 0) continue;
    const double size = std::max(found.value.norm(), local.value.norm());
    const bool agrees = (found.value - local.value).norm() <= safety * (local.error + found.error) + accurate * size;
    if (agrees && found.error < best.error) best = found;
    if (best.error <= accurate * size) break;
  }
  return best;
}

/// A rotation of space in vectors of block order.
class BlockRotation {
 public:
  BlockRotation(const System& system, const IslandLayout& layout) : system_(system), layout_(layout) {}
  /// Calls visit(start) for each vector of three columns.
  template <class Visit>
  void each_vector(Visit visit) const {
    for (std::size_t s = 0; s < layout_.bodies.size(); ++s) {
      const BodyKind kind = system_.kind(layout_.bodies[s]);
      if (kind == BodyKind::coordinate) continue;
      visit(layout_.column[s]);
      if (kind == BodyKind::rigid) visit(layout_.column[s] + 3);
    }
  }
  void rotate(const Matrix3d& R, MatrixXd& x) const {
    each_vector([&](int at) { x.middleRows<3>(at) = (R * x.middleRows<3>(at)).eval(); });
  }
  /// out −= Ω × x.
  void subtract_rotation_rate(const Vector3d& rate, const MatrixXd& x, MatrixXd& out) const {
    each_vector([&](int at) {
      for (Eigen::Index j = 0; j < x.cols(); ++j)
        out.col(j).segment<3>(at) -= rate.cross(Vector3d(x.col(j).segment<3>(at)));
    });
  }

 private:
  const System& system_;
  const IslandLayout& layout_;
};

class Linearizer {
 public:
  Linearizer(const System& system, const State& state, const LinearizeOptions& options)
      : system_(system),
        dynamics_(system, options.solve),
        state_(state),
        rotation_(system, layout()),
        directions_(system, layout()) {
    evaluate(state_);
    list_rows();
    check(options);
    directions_.measure(state_, StateDirections::Size::of_bodies);
    weight_by_mass();
  }

  LinearizedMotion run(std::span<const ForceInput> inputs) {
    LinearizedMotion out;
    out.layout = layout();
    find_tangent_space();
    const VectorXd acceleration = vector(dynamics_.vdot());
    error_ = 0;
    double least = 2;  // Unsteadiness is at most 1.
    MatrixXd best, tangent;
    for (const Vector3d& rate : possible_frame_rates(acceleration)) {
      const Directions here{displacements_, velocities_, {}};
      const Directions first = complete(state_, here);
      const MatrixXd A = matrix(state_, first, rate);
      const double off = unsteadiness(A, acceleration, rate);
      if (off >= least) continue;
      least = off;
      best = A;
      out.frame_angular_velocity = rate;
      tangent = MatrixXd::Zero(2 * n(), A.cols());
      tangent.topLeftCorner(n(), displacements_.cols()) = displacements_;
      tangent.bottomLeftCorner(n(), displacements_.cols()) = first.required;
      tangent.bottomRightCorner(n(), velocities_.cols()) = velocities_;
      if (least <= 0.1 * LinearizedMotion::max_unsteadiness) break;
    }
    out.displacements = static_cast<int>(displacements_.cols());
    out.velocities = static_cast<int>(velocities_.cols());
    out.unsteadiness = least;
    out.error = best.norm() > 0 ? error_ / best.norm() : 0;
    if (constexpr double most = 1e-3; out.error > most)
      throw std::invalid_argument("the derivatives at this state are known only to a relative error of " +
                                  text(out.error) + ", more than " + text(most) +
                                  ". Forces, laws or constraints change too fast next to the state");
    out.A = row_major(best);
    out.basis = row_major(tangent);
    out.B = row_major(input_matrix(inputs));
    return out;
  }

 private:
  /// Tangent directions at a state, [n × …] each.
  struct Directions {
    MatrixXd displacements, velocities;
    MatrixXd required;  // By displacement: the least velocity change that keeps the constraints on velocities.
  };

  const IslandLayout& layout() const { return dynamics_.assembly().layout; }
  Eigen::Index n() const { return layout().n(); }
  static VectorXd vector(std::span<const double> x) {
    return Eigen::Map<const VectorXd>(x.data(), static_cast<Eigen::Index>(x.size()));
  }
  static std::vector<double> row_major(const MatrixXd& x) {
    std::vector<double> out(static_cast<std::size_t>(x.size()));
    Eigen::Map<Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(out.data(), x.rows(), x.cols()) =
        x;
    return out;
  }

  void evaluate(const State& state) {
    if (dynamics_.evaluate(state) == Status::invalid)
      throw std::invalid_argument("the equation cannot be linearised: " + dynamics_.reason());
  }

  /// Lists the constraint of each row, which stays the same at all states.
  void list_rows() {
    const IslandLayout& of = layout();
    for (std::size_t i = 0; i < of.constraints.size(); ++i)
      constraint_of_row_.insert(constraint_of_row_.end(), z(of.row[i + 1] - of.row[i]),
                                &system_.constraint(of.constraints[i]));
  }
  Level level_of_row(int row) const { return constraint_of_row_[z(row)]->function().level(); }

  /// Returns a friction element that sticks at the state of the last evaluation, or null.
  const FrictionElement* sticking_element() const {
    for (const FrictionElement& e : dynamics_.friction_elements())
      if (e.dim > 0 && e.sticks) return &e;
    return nullptr;
  }

  void check(const LinearizeOptions& options) {
    const Assembly& a = dynamics_.assembly();
    const auto check_rows = [&](const std::vector<double>& residual, const char* what) {
      for (std::size_t r = 0; r < residual.size(); ++r)
        if (!(std::fabs(residual[r]) <= options.max_residual))
          throw std::invalid_argument("the state violates the constraint \"" + constraint_of_row_[r]->name() +
                                      "\": its " + what + " residual is " + text(residual[r]) + ", more than " +
                                      text(options.max_residual) +
                                      ". Project the state onto the constraints before it is linearised");
    };
    check_rows(a.position, "position");
    check_rows(a.velocity, "velocity");
    if (!dynamics_.internal_state().empty())
      throw std::invalid_argument(
          "a law has an internal state, which the linearised equations do not contain. Use a law without one");
    if (const FrictionElement* const e = sticking_element(); e != nullptr)
      throw std::invalid_argument("the dry friction of \"" +
                                  system_.constraint(layout().constraints[z(e->constraint)]).name() +
                                  "\" sticks at this state, where the equations have no derivative. Linearise about "
                                  "a state in which it slides, or without the law");
  }

  /// Factors M = L Lᵀ, block by block. Where a block is not positive definite, the metric has a small mass in its
  /// place.
  void weight_by_mass() {
    const ConstrainedProblem& problem = dynamics_.assembly().problem;
    L_ = MatrixXd::Zero(n(), n());
    Eigen::Index at = 0;
    const double* block = problem.mass.data();
    for (const int size : problem.block_sizes) {
      MatrixXd M = Eigen::Map<const MatrixXd>(block, size, size);
      Eigen::LLT<MatrixXd> factor(M);
      for (double added = 1e-6 * std::max(M.trace(), 1e-300); factor.info() != Eigen::Success; added *= 10)
        factor.compute(M + added * MatrixXd::Identity(size, size));
      L_.block(at, at, size, size) = factor.matrixL();
      at += size;
      block += static_cast<std::ptrdiff_t>(size) * size;
    }
  }
  MatrixXd weighted(const MatrixXd& x) const { return L_.transpose().triangularView<Eigen::Upper>() * x; }
  MatrixXd unweighted(const MatrixXd& x) const { return L_.transpose().triangularView<Eigen::Upper>().solve(x); }

  /// A L⁻ᵀ at the state of the last evaluation.
  MatrixXd weighted_jacobian() const {
    const ConstrainedProblem& problem = dynamics_.assembly().problem;
    MatrixXd A = MatrixXd::Zero(n(), problem.m());
    for (int r = 0; r < problem.m(); ++r)
      for (int i = problem.row_start[z(r)]; i < problem.row_start[z(r + 1)]; ++i)
        A(problem.entries[z(i)].column, r) = problem.entries[z(i)].value;
    return L_.triangularView<Eigen::Lower>().solve(A).transpose();
  }
  /// The same with rows of unit length. Rows that `include` does not select are zero.
  template <class Include>
  MatrixXd unit_rows(Include include) const {
    MatrixXd out = weighted_jacobian();
    for (int r = 0; r < out.rows(); ++r)
      if (const double length = out.row(r).norm(); !include(r))
        out.row(r).setZero();
      else if (length > 0)
        out.row(r) /= length;
    return out;
  }
  /// Orthonormal basis, in the mass metric, of the vectors that rows of unit length do not restrict.
  MatrixXd null_space(const MatrixXd& rows) const {
    if (rows.rows() == 0) return unweighted(MatrixXd::Identity(n(), n()));
    Eigen::ColPivHouseholderQR<MatrixXd> qr(rows.transpose());
    qr.setThreshold(dynamics_.solver().options().rank_tolerance);
    const MatrixXd Q = qr.householderQ();
    return unweighted(Q.rightCols(n() - qr.rank()));
  }

  void find_tangent_space() {
    displacements_ = null_space(unit_rows([&](int r) { return level_of_row(r) == Level::position; }));
    velocities_ = null_space(unit_rows([&](int r) { return level_of_row(r) != Level::acceleration; }));
  }

  static std::span<const double> numbers(const VectorXd& x) { return {x.data(), static_cast<std::size_t>(x.size())}; }

  /// Derivatives along a displacement and a velocity change at a state: Lᵀ of the acceleration, and the velocity
  /// residuals of the rows of unit length.
  Slope along(const State& state, const VectorXd& dq, const VectorXd& dv) {
    const auto value = [&](double part, VectorXd& out) {
      directions_.displace(state, numbers(dq), numbers(dv), part, displaced_);
      if (dynamics_.evaluate(displaced_) == Status::invalid || sticking_element() != nullptr) return false;
      const Assembly& a = dynamics_.assembly();
      out.resize(n() + a.problem.m());
      out.head(n()) = weighted(vector(dynamics_.vdot()));
      for (int r = 0; r < a.problem.m(); ++r)
        out[n() + r] = level_of_row(r) == Level::acceleration ? 0 : a.velocity[z(r)] / row_lengths_[r];
      return out.allFinite();
    };
    constexpr double largest = 0.1;  // Step in units of the size of a direction.
    const double size = directions_.size_of(numbers(dq), numbers(dv));
    const Slope slope = derivative(value, size > 0 ? largest / size : largest);
    if (slope.value.size() == 0)
      throw std::invalid_argument(
          "the equations have no derivative at this state: beside it, they cannot be evaluated, or dry friction "
          "sticks");
    error_ = std::max(error_, slope.error);
    return slope;
  }

  /// Completes displacements by the velocity changes that the constraints on velocities require.
  Directions complete(const State& state, Directions d) {
    measure_rows(state);
    const MatrixXd rows = unit_rows([&](int r) { return level_of_row(r) != Level::acceleration; });
    MatrixXd change(rows.rows(), d.displacements.cols());
    accelerations_ = MatrixXd(n(), d.displacements.cols());
    for (Eigen::Index j = 0; j < d.displacements.cols(); ++j) {
      const VectorXd slope = along(state, d.displacements.col(j), VectorXd::Zero(n())).value;
      accelerations_.col(j) = slope.head(n());
      change.col(j) = slope.tail(rows.rows());
    }
    d.required = MatrixXd::Zero(n(), d.displacements.cols());
    if (rows.rows() > 0 && d.displacements.cols() > 0) {
      Eigen::CompleteOrthogonalDecomposition<MatrixXd> factor;
      factor.setThreshold(dynamics_.solver().options().rank_tolerance);
      d.required = -unweighted(factor.compute(rows).solve(change));
    }
    return d;
  }
  void measure_rows(const State& state) {
    evaluate(state);
    row_lengths_ = weighted_jacobian().rowwise().norm();
    for (double& length : row_lengths_) length = length > 0 ? length : 1;
  }

  /// Computes A in a frame of this rate, in the coordinates of completed directions. complete() was called last.
  MatrixXd matrix(const State& state, const Directions& d, const Vector3d& rate) {
    const Eigen::Index positions = d.displacements.cols(), k = positions + d.velocities.cols();
    MatrixXd dq(n(), k), dv(n(), k);
    dq << d.displacements, MatrixXd::Zero(n(), d.velocities.cols());
    dv << d.required, d.velocities;
    MatrixXd dq_rate = dv, dv_rate(n(), k);
    for (Eigen::Index j = 0; j < k; ++j) {
      VectorXd slope = VectorXd::Zero(n());
      if (dv.col(j).norm() > 0) slope = along(state, VectorXd::Zero(n()), dv.col(j)).value.head(n());
      if (j < positions) slope += accelerations_.col(j);
      dv_rate.col(j) = unweighted(slope);
    }
    // The rotation of a body turns its displacement: dδθ/dt = δω + ω × δθ.
    for (std::size_t s = 0; s < layout().bodies.size(); ++s) {
      if (system_.kind(layout().bodies[s]) != BodyKind::rigid) continue;
      const int at = layout().column[s] + 3;
      for (Eigen::Index j = 0; j < k; ++j)
        dq_rate.col(j).segment<3>(at) += state[layout().bodies[s]].w.cross(Vector3d(dq.col(j).segment<3>(at)));
    }
    rotation_.subtract_rotation_rate(rate, dq, dq_rate);
    rotation_.subtract_rotation_rate(rate, dv, dv_rate);
    MatrixXd A(k, k);
    A.topRows(positions) = weighted(d.displacements).transpose() * weighted(dq_rate);
    A.bottomRows(k - positions) = weighted(d.velocities).transpose() * weighted(dv_rate);
    return A;
  }

  /// Rates of a rotation of the whole motion that explain the accelerations best: v̇ = Ω × v for each body. Where the
  /// velocities leave Ω open, that of a body is possible, too.
  std::vector<Vector3d> possible_frame_rates(const VectorXd& acceleration) const {
    Matrix3d normal = Matrix3d::Zero();
    Vector3d right = Vector3d::Zero(), fastest = Vector3d::Zero();
    const auto add = [&](const Vector3d& v, const Vector3d& a, double weight) {
      normal += weight * (v.squaredNorm() * Matrix3d::Identity() - v * v.transpose());
      right += weight * v.cross(a);
    };
    for (std::size_t s = 0; s < layout().bodies.size(); ++s) {
      const BodyId id = layout().bodies[s];
      if (system_.kind(id) == BodyKind::coordinate) continue;
      const int at = layout().column[s];
      add(state_[id].v, acceleration.segment<3>(at), 1 / (directions_.length() * directions_.length()));
      if (system_.kind(id) != BodyKind::rigid) continue;
      add(state_[id].w, acceleration.segment<3>(at + 3), 1);
      if (state_[id].w.norm() > fastest.norm()) fastest = state_[id].w;
    }
    for (const BodyId id : kinematic_bodies()) {
      add(state_[id].v, state_[id].a, 1 / (directions_.length() * directions_.length()));
      add(state_[id].w, state_[id].alpha, 1);
      if (state_[id].w.norm() > fastest.norm()) fastest = state_[id].w;
    }
    constexpr double open = 1e-12;  // Relative size of a direction that the velocities leave open.
    std::vector<Vector3d> out;
    const double size = normal.trace();
    if (!(size > 0)) return {Vector3d::Zero()};
    if (const Vector3d g = system_.gravity(); g.norm() > 0) {
      const Vector3d axis = g.normalized();
      const double along = axis.dot(normal * axis);
      out.push_back(along > open * size ? Vector3d(axis * (axis.dot(right) / along)) : Vector3d(Vector3d::Zero()));
      if (!(along > open * size)) out.push_back(axis * axis.dot(fastest));
      return out;
    }
    Eigen::CompleteOrthogonalDecomposition<Matrix3d> factor;
    factor.setThreshold(open);
    factor.compute(normal);
    out.push_back(factor.solve(right));
    if (factor.rank() < 3) out.push_back(out[0] + (fastest - factor.solve(normal * fastest)));
    return out;
  }
  std::vector<BodyId> kinematic_bodies() const {
    std::vector<BodyId> out;
    for (int i = 0; i < system_.body_count(); ++i)
      if (system_.kind(system_.body_at(i)) == BodyKind::kinematic) out.push_back(system_.body_at(i));
    return out;
  }

  /// Compares accelerations and A with those at a later state of the steady motion. @return the relative difference, at
  /// most 1
  double unsteadiness(const MatrixXd& A, const VectorXd& acceleration, const Vector3d& rate) {
    const MatrixXd L = L_;
    const double error = error_;
    double off = 1;
    try {
      off = change_along_motion(A, acceleration, rate);
    } catch (const std::invalid_argument&) {  // The later state has no derivative.
    }
    L_ = L;
    error_ = error;
    return off < 1 ? off : 1;
  }
  double change_along_motion(const MatrixXd& A, const VectorXd& acceleration, const Vector3d& rate) {
    const double fastest = std::max({directions_.rate_of(state_), rate.norm(), 1e-3 * A.norm()});
    const double time = fastest > 0 ? 0.3 / fastest : 1;
    const Matrix3d R = Eigen::AngleAxisd(time * rate.norm(),
                                         rate.norm() > 0 ? Vector3d(rate.normalized()) : Vector3d(Vector3d::UnitX()))
                           .toRotationMatrix();
    const State later = steady_state(rate, time);
    MatrixXd expected = acceleration;
    rotation_.rotate(R, expected);
    evaluate(state_);
    MatrixXd turning = MatrixXd::Zero(n(), 1);
    const MatrixXd v = vector(dynamics_.assembly().v);
    rotation_.subtract_rotation_rate(-rate, v, turning);
    const ConstrainedProblem& problem = dynamics_.assembly().problem;
    const MatrixXd forces = L_.triangularView<Eigen::Lower>().solve(vector(problem.Q));
    const double size = forces.norm() + weighted(acceleration).norm() + std::numeric_limits<double>::min();
    const auto relative = [&](const VectorXd& difference) {
      // At rest in generalized coordinates, forces and accelerations are rounding alone.
      constexpr double rounding = 1e-12;
      const VectorXd none = VectorXd::Zero(n()), change = difference / directions_.characteristic_rate();
      if (directions_.size_of(numbers(none), numbers(change)) < rounding) return 0.0;
      return weighted(difference).norm() / size;
    };
    double off = relative(acceleration - turning.col(0));
    evaluate(later);
    off = std::max(off, relative(vector(dynamics_.vdot()) - expected.col(0)));
    if (off > 1e3 * LinearizedMotion::max_unsteadiness) return off;
    Directions turned{displacements_, velocities_, {}};
    rotation_.rotate(R, turned.displacements);
    rotation_.rotate(R, turned.velocities);
    weight_by_mass();
    const MatrixXd then = matrix(later, complete(later, turned), rate);
    return std::max(off, (then - A).norm() / std::max(A.norm(), std::numeric_limits<double>::min()));
  }

  /// The state after a time if the motion rotates steadily.
  State steady_state(const Vector3d& rate, double time) const {
    State out = state_;
    out.t += time;
    const Quaterniond turn = rotation(rate * time);
    for (const BodyId id : layout().bodies) {
      BodyState& body = out[id];
      if (system_.kind(id) == BodyKind::coordinate) {
        body.p.x() += time * body.v.x();
        continue;
      }
      body.p += mean_rotation(rate * time) * body.v * time;
      body.q = turn * rotation((body.w - rate) * time) * body.q;
      body.q.normalize();
      body.v = turn * body.v;
      body.w = turn * body.w;
    }
    system_.update_kinematic(out);
    return out;
  }
  static Quaterniond rotation(const Vector3d& angle) {
    BodyState body;
    advance(body, Vector3d::Zero(), angle, 1);
    return body.q;
  }
  /// The mean of the rotations from 0 to an angle: I + (1 − cos x)/x² [x]× + (x − sin x)/x³ [x]×².
  static Matrix3d mean_rotation(const Vector3d& angle) {
    const double x = angle.norm();
    Matrix3d cross;
    cross << 0, -angle.z(), angle.y(), angle.z(), 0, -angle.x(), -angle.y(), angle.x(), 0;
    const double s = std::sin(0.5 * x), first = x > 1e-4 ? 2 * s * s / (x * x) : 0.5,
                 second = x > 1e-2 ? (x - std::sin(x)) / (x * x * x) : 1.0 / 6 - x * x / 120;
    return Matrix3d::Identity() + first * cross + second * cross * cross;
  }

  MatrixXd input_matrix(std::span<const ForceInput> inputs) {
    MatrixXd B = MatrixXd::Zero(displacements_.cols() + velocities_.cols(), static_cast<Eigen::Index>(inputs.size()));
    evaluate(state_);
    const std::vector<double> Q = dynamics_.assembly().problem.Q;
    std::vector<double> changed(Q.size());
    for (std::size_t j = 0; j < inputs.size(); ++j) {
      const std::vector<double>& force = inputs[j].force;
      if (force.size() != Q.size())
        throw std::invalid_argument("the input \"" + inputs[j].name + "\" has " + std::to_string(force.size()) +
                                    " numbers, but the system has " + std::to_string(Q.size()) + " columns");
      const double size = L_.triangularView<Eigen::Lower>().solve(vector(force)).norm();
      if (!(size > 0)) continue;
      const auto value = [&](double part, VectorXd& out) {
        for (std::size_t i = 0; i < Q.size(); ++i) changed[i] = Q[i] + part * force[i];
        if (dynamics_.resolve(state_, changed) == Status::invalid) return false;
        out = weighted(vector(dynamics_.vdot()));
        return out.allFinite();
      };
      const Slope slope = derivative(value, 1 / size);
      if (slope.value.size() == 0)
        throw std::invalid_argument("the accelerations have no derivative with respect to the input \"" +
                                    inputs[j].name + "\"");
      B.col(static_cast<Eigen::Index>(j)).tail(velocities_.cols()) = weighted(velocities_).transpose() * slope.value;
    }
    return B;
  }

  const System& system_;
  Dynamics dynamics_;
  State state_, displaced_;
  BlockRotation rotation_;
  StateDirections directions_;
  std::vector<const Constraint*> constraint_of_row_;
  MatrixXd L_;  // M = L Lᵀ.
  VectorXd row_lengths_;
  MatrixXd displacements_, velocities_;  // Tangent directions, orthonormal in the mass metric.
  MatrixXd accelerations_;               // Lᵀ ∂v̇/∂q along the displacements.
  double error_ = 0;                     // Largest error of a derivative, in the mass metric.
};

}  // namespace

LinearizedMotion linearize(const System& system, const State& state, std::span<const ForceInput> inputs,
                           const LinearizeOptions& options) {
  return Linearizer(system, state, options).run(inputs);
}

Result<LinearizedMotion> try_linearize(const System& system, const State& state, std::span<const ForceInput> inputs,
                                       const LinearizeOptions& options) noexcept {
  return try_call([&] { return linearize(system, state, inputs, options); });
}

}  // namespace linchpin
