#include "directions.h"

#include <linchpin/constraint.h>
#include <linchpin/forces.h>
#include <linchpin/projection.h>
#include <linchpin/report.h>
#include <linchpin/scene/analysis.h>

#include <Eigen/Dense>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <utility>

namespace linchpin::scene {

using analysis::at_rest;
using analysis::Direction;
using analysis::directions_of;
using analysis::displace;
using analysis::Numbers;
using Eigen::MatrixXd;
using Eigen::VectorXd;

std::vector<BodyId> moving_kinematic_bodies(const System& system) {
  std::vector<bool> mentioned(static_cast<std::size_t>(system.body_count()), false);
  const auto mention = [&](std::span<const BodyId> bodies) {
    for (const BodyId id : bodies) mentioned[static_cast<std::size_t>(id.index)] = true;
  };
  for (int i = 0; i < system.constraint_count(); ++i)
    if (const ConstraintId id{i}; system.enabled(id) && !system.removed(id)) mention(system.constraint(id).bodies());
  for (const Force& force : system.forces()) mention(force.bodies());
  std::vector<BodyId> out;
  for (int i = 0; i < system.body_count(); ++i) {
    const BodyId id{i};
    if (system.kind(id) != BodyKind::kinematic || !mentioned[static_cast<std::size_t>(i)]) continue;
    State state = system.initial_state();
    for (const double later : {0.0, 0.137, 0.511, 1.7, 4.3}) {
      state.t = system.initial_state().t + later;
      system.update_kinematic(state);
      const BodyState& s = state[id];
      if (s.v.isZero() && s.w.isZero() && s.a.isZero() && s.alpha.isZero()) continue;
      out.push_back(id);
      break;
    }
  }
  return out;
}

std::optional<std::pair<Vector3d, Vector3d>> rotation_of_kinematic_bodies(const System& system) {
  std::optional<std::pair<Vector3d, Vector3d>> out;
  State state = system.initial_state();
  const double start = state.t;
  for (const BodyId id : moving_kinematic_bodies(system))
    for (const double later : {0.0, 0.137, 0.511, 1.7, 4.3}) {
      state.t = start + later;
      system.update_kinematic(state);
      const BodyState& s = state[id];
      const double rate = s.w.norm();
      // Turning about a point at rest, at a constant rate.
      if (rate < 1e-12 || s.v.norm() > 1e-9 * rate || s.a.norm() + s.alpha.norm() > 1e-9 * rate * rate) return {};
      if (out && ((out->first - s.w).norm() > 1e-9 * rate || (out->second - s.p).cross(s.w).norm() > 1e-9 * rate))
        return {};
      if (!out) out = {s.w, s.p};
    }
  return out;
}

TimeDependence time_dependence(const System& system) {
  TimeDependence out;
  // Frozen: what a kinematic body does is said by moving_kinematic_bodies.
  State beside = analysis::at_rest(system, system.initial_state());
  for (BodyState& s : beside.bodies) s.v = s.w = s.a = s.alpha = Vector3d::Zero();
  std::vector<State> places = {beside};
  const std::vector<Direction> directions = directions_of(system, analysis::movable(system));
  Numbers random;
  VectorXd by(static_cast<Eigen::Index>(directions.size()));
  for (double& each : by) each = 0.3 * random.next();
  displace(beside, directions, by);
  places.push_back(std::move(beside));
  const auto differ = [](double x, double y) { return !(std::abs(x - y) <= 1e-12 * (1 + std::abs(x) + std::abs(y))); };
  const double start = system.initial_state().t;
  std::vector<bool> moves(static_cast<std::size_t>(system.constraint_count()), false);
  std::vector<bool> changes(system.forces().size(), false);
  Assembly now, later;
  now.layout = later.layout = whole_system(system);
  const auto wrenches = [](const Force& force, const State& state) {
    std::vector<BodyState> X;
    for (const BodyId id : force.bodies()) X.push_back(state[id]);
    std::vector<Vector6> on(X.size(), Vector6::Zero());
    ForceFrame frame(state.t, X, on);
    force.act(frame);
    return on;
  };
  for (const State& place : places)
    for (const double after : {0.137, 0.511, 1.7, 4.3}) {
      State moved = place;
      moved.t = start + after;
      assemble_constraints(system, place, now);
      assemble_constraints(system, moved, later);
      if (!now.failure.empty() || !later.failure.empty()) continue;  // beside the start it may mean nothing
      const IslandLayout& layout = now.layout;
      for (std::size_t i = 0; i < layout.constraints.size(); ++i)
        for (auto r = static_cast<std::size_t>(layout.row[i]); r < static_cast<std::size_t>(layout.row[i + 1]); ++r) {
          bool other = differ(now.position[r], later.position[r]) || differ(now.velocity[r], later.velocity[r]);
          const ConstrainedProblem &a = now.problem, &b = later.problem;
          for (auto e = static_cast<std::size_t>(a.row_start[r]); e < static_cast<std::size_t>(a.row_start[r + 1]); ++e)
            other = other || differ(a.entries[e].value, b.entries[e].value);
          if (other) moves[static_cast<std::size_t>(layout.constraints[i].index)] = true;
        }
      std::size_t k = 0;
      for (const Force& force : system.forces()) {
        const auto f = wrenches(force, place), g = wrenches(force, moved);
        for (std::size_t b = 0; b < f.size(); ++b)
          for (Eigen::Index i = 0; i < 6; ++i) changes[k] = changes[k] || differ(f[b][i], g[b][i]);
        ++k;
      }
    }
  for (int i = 0; i < system.constraint_count(); ++i)
    if (moves[static_cast<std::size_t>(i)]) out.constraints.push_back({i});
  std::size_t k = 0;
  for (const Force& force : system.forces())
    if (changes[k++]) out.forces.push_back(force.name());
  return out;
}

std::vector<ConstraintId> requiring_motion(const System& system, const State& given, const Vector3d& omega,
                                           const Vector3d& centre) {
  State state = analysis::at_rest(system, given);
  if (omega.isZero()) {
    for (BodyState& s : state.bodies) s.v = s.w = s.a = s.alpha = Vector3d::Zero();
  } else {
    for (const BodyId id : analysis::movable(system)) {
      if (system.kind(id) == BodyKind::coordinate) continue;
      state[id].v = omega.cross(state[id].p - centre);
      if (system.dof(id) == 6) state[id].w = omega;
    }
  }
  Assembly assembly;
  assembly.layout = whole_system(system);
  assemble_constraints(system, state, assembly);
  std::vector<ConstraintId> out;
  if (!assembly.failure.empty()) return out;
  const IslandLayout& layout = assembly.layout;
  const double fastest = 1 + omega.norm();
  for (std::size_t i = 0; i < layout.constraints.size(); ++i) {
    if (system.constraint(layout.constraints[i]).function().level() != Level::velocity) continue;
    bool asks = false;
    for (auto r = static_cast<std::size_t>(layout.row[i]); r < static_cast<std::size_t>(layout.row[i + 1]); ++r)
      asks = asks || std::abs(assembly.velocity[r]) > 1e-7 * fastest;
    if (asks) out.push_back(layout.constraints[i]);
  }
  return out;
}

namespace {

class Rest {
 public:
  Rest(const System& system, const EquilibriumSearch& search)
      : system_(system),
        search_(search),
        dynamics_(system),
        directions_(directions_of(system, analysis::movable(system))) {
    assembly_.layout = whole_system(system);
    for (const ConstraintId id : assembly_.layout.constraints)
      rolls_ = rolls_ || system.constraint(id).function().level() == Level::velocity;
  }

  Eigen::Index n() const { return static_cast<Eigen::Index>(directions_.size()); }

  struct Balance {
    MatrixXd A, Z;  // rows; virtual displacements
    VectorXd F, lambda, g;
    double scale = 0;
  };

  bool look(const State& state, Balance& out) {
    if (!assemble(state, out.F)) return false;
    const ConstrainedProblem& in = assembly_.problem;
    out.A = rows();
    const bool held = in.m() > 0 && !out.A.isZero(0);
    if (held) {  // one decomposition for the multipliers of least norm and for what the rows leave free
      Eigen::CompleteOrthogonalDecomposition<MatrixXd> split;
      split.setThreshold(1e-9);
      split.compute(out.A.transpose());
      out.lambda = split.solve(-out.F);
      out.Z = split.householderQ() * MatrixXd::Identity(n(), n()).rightCols(n() - split.rank());
    } else {
      out.lambda = VectorXd::Zero(in.m());
      out.Z = MatrixXd::Identity(n(), n());
    }
    out.g = out.Z.transpose() * out.F;
    out.scale = std::max({1e-12, usual_, out.F.cwiseAbs().maxCoeff()});
    return true;
  }

  // ∂(F + Aᵀλ)/∂q in the virtual displacements: minus the stiffness. By central differences, of order 6 where `parts`
  // is asked for as well: the two of ∂F and ∂Aᵀλ, whose size says how much of their sum is rounding.
  bool tangent(const State& state, const Balance& at, MatrixXd& H, std::pair<MatrixXd, MatrixXd>* parts = nullptr) {
    const double h = parts ? fine_step : 1e-5;
    MatrixXd of_F = MatrixXd::Zero(n(), at.Z.cols()), of_A = of_F;
    VectorXd F;
    for (Eigen::Index j = 0; j < at.Z.cols(); ++j)
      for (int k = 1; k <= (parts ? 3 : 1); ++k)
        for (const int sign : {1, -1}) {
          State moved = state;
          displace(moved, directions_, VectorXd(sign * k * h * at.Z.col(j)));
          if (!assemble(moved, F)) return false;
          const double weight = sign * (parts ? analysis::difference_weights[k - 1] : 0.5) / h;
          of_F.col(j) += weight * F;
          const ConstrainedProblem& in = assembly_.problem;
          for (int r = 0; r < in.m(); ++r)
            for (int e = in.row_start[static_cast<std::size_t>(r)]; e < in.row_start[static_cast<std::size_t>(r) + 1];
                 ++e)
              of_A(in.entries[static_cast<std::size_t>(e)].column, j) +=
                  weight * in.entries[static_cast<std::size_t>(e)].value * at.lambda[r];
        }
    of_F = at.Z.transpose() * of_F;
    of_A = at.Z.transpose() * of_A;
    H = of_F + of_A;
    if (parts) *parts = {of_F, of_A};
    return true;
  }

  /// Displaces a state. Rows on velocities may hold positions, as the height of a wheel that rolls. Then the way goes
  /// along all rows and stays where they lead. @return false where that ended before
  bool move(State& state, const VectorXd& way) {
    if (!rolls_) {
      displace(state, directions_, way);
      return true;
    }
    const auto along = [&](const State& at) -> VectorXd {
      assemble_constraints(system_, at, assembly_);
      if (!assembly_.failure.empty()) return {};
      const MatrixXd Z = analysis::kernel(rows());
      return Z * (Z.transpose() * way);
    };
    constexpr double part = 0.02;  // error of a way of length 1: 1e-9
    const double parts = std::ceil(way.norm() / part);
    return parts < 1e6 && analysis::follow(state, directions_, along, std::max(1, static_cast<int>(parts)));
  }

  /// From a place on the constraints towards another: that itself, or as near to it as ways along rows on velocities
  /// lead. A place beside these ways is none that the system can get to.
  State towards(const State& from, const State& to) {
    if (!rolls_) return to;
    State state = from;
    double before = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 60; ++i) {
      VectorXd way = analysis::difference(state, to, directions_);
      const double left = way.norm();
      if (!(left < before - 1e-6 * (1 + left))) break;
      before = left;
      if (left > 0.5) way *= 0.5 / left;
      if (!move(state, way) || !close(state)) break;
    }
    return state;
  }

  bool close(State& state) {
    if (dynamics_.evaluate(state) == Status::invalid) return false;
    return project_positions(system_, dynamics_, state, 1e-13, 100) < 1e-9;
  }

  // Newton on Zᵀ(F + Aᵀλ) = 0, damped as long as that helps: finds places of rest of every stability.
  bool solve(State& state, Balance& at) {
    if (!close(state) || !look(state, at)) return false;
    // Where nothing is held all forces vanish at rest: what they are where the search began is their measure.
    usual_ = std::max(usual_, at.scale);
    at.scale = usual_;
    double damping = 1e-3, before = at.g.norm();
    for (int step = 0; step < 200 && residual(at) > 1e-14; ++step) {
      if (step % 20 == 19) {  // stuck on the slope of something that is no place of rest
        if (at.g.norm() > 0.9 * before) break;
        before = at.g.norm();
      }
      MatrixXd H;
      if ((search_.go_on && !search_.go_on(start, starts)) || !tangent(state, at, H)) return false;
      const MatrixXd normal = H.transpose() * H;
      const double size = std::max(1e-12, normal.diagonal().maxCoeff());
      bool better = false;
      for (int attempt = 0; attempt < (residual(at) > 1e-11 ? 12 : 1) && !better; ++attempt) {
        VectorXd y = (normal + damping * size * MatrixXd::Identity(normal.rows(), normal.cols()))
                         .ldlt()
                         .solve(-H.transpose() * at.g);
        if (const double length = y.norm(); length > 0.5) y *= 0.5 / length;
        State moved = state;
        Balance there;
        better = y.allFinite() && move(moved, at.Z * y) && close(moved) && look(moved, there) &&
                 there.g.norm() < at.g.norm();
        if (better) {
          state = moved;
          at = std::move(there);
          damping = std::max(1e-16, damping * 0.1);
        } else {
          damping *= 10;
        }
      }
      if (!better) break;
    }
    return residual(at) <= 1e-7;
  }

  // To where the forces take it: along each axis of the stiffness as far as that says, and never so far that they would
  // have done negative work. Not to the end, which is solve's.
  bool let_down(State& state) {
    Balance at;
    if (!close(state) || !look(state, at)) return false;
    for (int step = 0; step < 200 && residual(at) > 1e-4; ++step) {
      MatrixXd H;
      if ((search_.go_on && !search_.go_on(start, starts)) || !tangent(state, at, H)) return false;
      const Eigen::SelfAdjointEigenSolver<MatrixXd> eigen(0.5 * (H + H.transpose()));
      const VectorXd size = eigen.eigenvalues().cwiseAbs().cwiseMax(1e-3 * eigen.eigenvalues().cwiseAbs().maxCoeff());
      const VectorXd along = eigen.eigenvectors().transpose() * at.g;
      VectorXd way = at.Z * (eigen.eigenvectors() * along.cwiseQuotient(size.cwiseMax(1e-12)));
      if (const double length = way.norm(); length > 0.5 * search_.spread) way *= 0.5 * search_.spread / length;
      bool better = false;
      for (int attempt = 0; attempt < 12 && !better; ++attempt, way *= 0.5) {
        State moved = state;
        Balance there;
        better = way.allFinite() && move(moved, way) && close(moved) && look(moved, there) &&
                 (at.Z * at.g + there.Z * there.g).dot(way) > 0;
        if (!better) continue;
        state = moved;
        at = std::move(there);
      }
      if (!better) return false;
    }
    return true;
  }

  static double residual(const Balance& at) { return at.g.size() > 0 ? at.g.cwiseAbs().maxCoeff() / at.scale : 0; }

  // Whether it goes on being a place of rest when all turns with the frame.
  bool turns_along(const State& state) {
    const double rate = search_.omega.norm();
    Balance there;
    for (const double angle : {1.0, 2.3}) {
      const Eigen::Quaterniond by(Eigen::AngleAxisd(angle, search_.omega / rate));
      State turned = state;
      turned.t += angle / rate;
      for (const BodyId id : analysis::movable(system_)) {
        if (system_.kind(id) == BodyKind::coordinate) continue;
        turned[id].p = search_.centre + by * (state[id].p - search_.centre);
        turned[id].q = by * state[id].q;
      }
      system_.update_kinematic(turned);
      if (!look(turned, there) || residual(there) > 1e-6) return false;
      for (const double gap : assembly_.position)
        if (std::abs(gap) > 1e-6) return false;
    }
    return true;
  }

  // Whether no balance tells two places near each other apart. Not from the middle, which may be a third one.
  bool one_place(const State& a, const State& b, double residual_of_both) {
    State between = towards(a, mixed(a, b, 0.31));
    Balance there;
    return close(between) && look(between, there) && residual(there) <= std::max(1e-10, 10 * residual_of_both);
  }

  State mixed(const State& a, const State& b, double part) const {
    State out = a;
    for (const BodyId id : analysis::movable(system_)) {
      out[id].p += part * (b[id].p - a[id].p);
      out[id].q = a[id].q.slerp(part, b[id].q);
    }
    return out;
  }

  Equilibrium judge(const State& state, const Balance& at) {
    Equilibrium out;
    out.state = state;
    out.residual = residual(at);
    out.lambda.assign(at.lambda.begin(), at.lambda.end());
    MatrixXd H;
    std::pair<MatrixXd, MatrixXd> parts;
    VectorXd F;
    if (at.Z.cols() == 0 || !tangent(state, at, H, &parts) || !assemble(state, F)) {
      out.stability = Equilibrium::Stability::stable;  // nothing can move
      return out;
    }
    MatrixXd M = MatrixXd::Zero(n(), n());
    const ConstrainedProblem& in = assembly_.problem;
    Eigen::Index column = 0;
    std::size_t k = 0;
    for (const int size : in.block_sizes) {
      for (int i = 0; i < size; ++i)
        for (int j = 0; j < size; ++j) M(column + i, column + j) = in.mass[k++];
      column += size;
    }
    // Coordinates in which the mass is 1: M = L Lᵀ, L⁻¹ K L⁻ᵀ.
    const Eigen::LLT<MatrixXd> mass(at.Z.transpose() * M * at.Z);
    const auto reduced = [&](const MatrixXd& K) {
      const MatrixXd half = mass.matrixL().solve(K);
      return MatrixXd(mass.matrixL().solve(half.transpose()).transpose());
    };
    const MatrixXd K = reduced(-H);
    const double scale =
        std::max(reduced(parts.first).cwiseAbs().maxCoeff(), reduced(parts.second).cwiseAbs().maxCoeff());
    const double small = 1e-9 * std::max(1e-9, scale);
    const MatrixXd half = mass.matrixL().solve(MatrixXd::Identity(K.rows(), K.cols())).cwiseAbs();
    const MatrixXd by_rounding = half * rounding(at) * half.transpose();
    std::vector<std::complex<double>> w2;
    std::vector<double> least;  // below it, each is none
    MatrixXd ways;              // of each, in the virtual displacements
    // Forces with a potential have a symmetric stiffness; others (circulatory ones) may make oscillations that grow.
    if ((K - K.transpose()).cwiseAbs().maxCoeff() <= 1e-8 * std::max(1e-9, scale)) {
      const Eigen::SelfAdjointEigenSolver<MatrixXd> eigen(0.5 * (K + K.transpose()));
      w2.assign(eigen.eigenvalues().begin(), eigen.eigenvalues().end());
      const MatrixXd size = eigen.eigenvectors().cwiseAbs();
      for (Eigen::Index i = 0; i < size.cols(); ++i)  // to first order, xᵀ δK x
        least.push_back(small + size.col(i).dot(by_rounding * size.col(i)));
      ways = mass.matrixU().solve(eigen.eigenvectors());
    } else {
      const Eigen::EigenSolver<MatrixXd> eigen(K, false);
      w2.assign(eigen.eigenvalues().begin(), eigen.eigenvalues().end());
      // An equal pair splits by the root of what is rounding.
      for (auto& each : w2)
        if (std::abs(each.imag()) <= 1e-6 * scale) each = each.real();
      std::sort(w2.begin(), w2.end(), [](const auto& a, const auto& b) {
        return std::pair(a.real(), a.imag()) < std::pair(b.real(), b.imag());
      });
      least.assign(w2.size(), small + by_rounding.norm());
    }
    bool unstable = false, marginal = false;
    for (std::size_t i = 0; i < w2.size(); ++i) {
      auto& each = w2[i];
      if (std::abs(each) <= least[i]) each = 0;
      unstable = unstable || each.real() < 0 || each.imag() != 0;
      marginal = marginal || each == 0.0;
      out.frequencies_squared.push_back(each.real());
    }
    if (std::any_of(w2.begin(), w2.end(), [](const auto& each) { return each.imag() != 0; }))
      for (const auto& each : w2) out.imaginary_parts.push_back(each.imag());
    out.stability = unstable   ? Equilibrium::Stability::unstable
                    : marginal ? Equilibrium::Stability::marginal
                               : Equilibrium::Stability::stable;
    std::vector<Eigen::Index> idle;
    for (std::size_t i = 0; i < w2.size() && ways.cols() > 0; ++i)
      if (w2[i] == 0.0) idle.push_back(static_cast<Eigen::Index>(i));
    if (!idle.empty()) out.continuum = goes_on(state, at, ways(Eigen::all, idle));
    return out;
  }

  int start = 0, starts = 0;  // what go_on is told

 private:
  static constexpr double fine_step = 1e-4;  // of the differences that a place is judged by

  // How large each entry of the stiffness may be by rounding alone. Generalized forces Zᵀ(F + Aᵀλ) are sums of forces
  // on bodies that may cancel to the last digit, or be at right angles to every virtual displacement, as those are that
  // bear a door on a vertical hinge. The entries of a force or of a row on one body come from turned vectors: each is
  // rounded in proportion to the largest of them. A derivative by differences has that rounding over the step, with the
  // sum of the weights' sizes; the derivatives themselves, which may be nothing else, say nothing of it.
  MatrixXd rounding(const Balance& at) const {
    double weights = 0;
    for (const double each : analysis::difference_weights) weights += 2 * std::abs(each);
    VectorXd terms(n());
    for (Eigen::Index first = 0; first < n();) {
      const Eigen::Index dof = system_.dof(directions_[static_cast<std::size_t>(first)].body);
      double size = at.F.segment(first, dof).cwiseAbs().maxCoeff();
      if (at.A.rows() > 0)
        size += at.A.middleCols(first, dof).cwiseAbs().rowwise().maxCoeff().dot(at.lambda.cwiseAbs());
      terms.segment(first, dof).setConstant(size);
      first += dof;
    }
    const VectorXd of_force =
        weights * std::numeric_limits<double>::epsilon() / fine_step * (at.Z.cwiseAbs().transpose() * terms);
    return of_force * Eigen::RowVectorXd::Ones(at.Z.cols());
  }

  // Whether some way of rate 0 goes on through places of rest at the same potential, and not only begins so.
  bool goes_on(const State& state, const Balance& at, const MatrixXd& ways) {
    const double V = potential_energy(system_, state);
    for (Eigen::Index k = 0; k < ways.cols(); ++k) {
      State moved = state;
      Balance there;
      VectorXd way = at.Z * ways.col(k);
      const double most = way.cwiseAbs().maxCoeff();
      if (!(most > 0)) continue;
      way *= 0.1 / most;
      if (move(moved, way) && close(moved) && look(moved, there) && residual(there) <= 1e-7 &&
          std::abs(potential_energy(system_, moved) - V) <= 1e-9 * (1 + std::abs(V)))
        return true;
    }
    return false;
  }

  MatrixXd rows() const {
    const ConstrainedProblem& in = assembly_.problem;
    MatrixXd A = MatrixXd::Zero(in.m(), in.n());
    for (int r = 0; r < in.m(); ++r)
      for (int e = in.row_start[static_cast<std::size_t>(r)]; e < in.row_start[static_cast<std::size_t>(r) + 1]; ++e)
        A(r, in.entries[static_cast<std::size_t>(e)].column) = in.entries[static_cast<std::size_t>(e)].value;
    return A;
  }

  // M, A and the residuals into assembly_; the applied force, with what the turning frame adds.
  bool assemble(const State& state, VectorXd& F) {
    assemble_constraints(system_, state, assembly_);
    if (!assembly_.failure.empty()) return false;
    assemble_forces(system_, state, assembly_);
    if (!assembly_.failure.empty()) return false;
    F = VectorXd::Map(assembly_.problem.Q.data(), assembly_.problem.n()) + centrifugal(state);
    return F.allFinite();
  }

  VectorXd centrifugal(const State& state) const {
    VectorXd f = VectorXd::Zero(n());
    if (search_.omega.isZero()) return f;
    const Vector3d& w = search_.omega;
    for (std::size_t i = 0; i < directions_.size();) {
      const BodyId id = directions_[i].body;
      const auto at = static_cast<Eigen::Index>(i);
      i += static_cast<std::size_t>(system_.dof(id));
      if (system_.kind(id) == BodyKind::coordinate) continue;  // what turns with it is in its kinetic energy
      f.segment<3>(at) = -system_.mass(id) * w.cross(w.cross(state[id].p - search_.centre));
      if (system_.dof(id) == 6) f.segment<3>(at + 3) = -w.cross(system_.world_inertia(id, state[id].q) * w);
    }
    return f;
  }

  const System& system_;
  const EquilibriumSearch& search_;
  Dynamics dynamics_;
  Assembly assembly_;
  std::vector<Direction> directions_;
  bool rolls_ = false;  // some rows are on velocities
  double usual_ = 0;    // size of the forces at the places the searches began
};

double apart(const State& a, const State& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.bodies.size(); ++i) {
    most = std::max(most, (a.bodies[i].p - b.bodies[i].p).norm());
    most = std::max(most, a.bodies[i].q.angularDistance(b.bodies[i].q));
  }
  return most;
}

// Points of symmetry, likely: one component of all positions zero, from the frame's centre, and each coordinate; of few
// bodies also those of single ones.
std::vector<State> symmetric_starts(const System& system, const State& start, const EquilibriumSearch& search) {
  std::vector<State> out;
  const std::vector<BodyId> bodies = analysis::movable(system);
  const auto with_zeros = [&](std::span<const BodyId> of, int axis) {
    State state = start;
    for (const BodyId id : of)
      if (system.kind(id) != BodyKind::coordinate)
        state[id].p[axis] = search.centre[axis];
      else if (axis == 0)
        state[id].p.x() = 0;
    if (apart(state, start) > 1e-9) out.push_back(std::move(state));
  };
  for (int axis = 0; axis < 3; ++axis) with_zeros(bodies, axis);
  for (const BodyId id : bodies)
    for (int axis = 0; axis < 3 && bodies.size() > 1 && bodies.size() <= 4; ++axis) with_zeros({&id, 1}, axis);
  return out;
}

}  // namespace

std::vector<Equilibrium> find_equilibria(const System& system, const State& given, const EquilibriumSearch& search) {
  std::vector<Equilibrium> found;
  Rest rest(system, search);
  const auto go_on = [&] { return !search.go_on || search.go_on(rest.start, rest.starts); };
  const auto look_from = [&](State state) {
    ++rest.start;
    Rest::Balance at;
    if (!rest.solve(state, at)) return;
    for (Equilibrium& e : found) {
      const double distance = apart(e.state, state), residual = Rest::residual(at);
      if (distance > 0.1 || (distance > 1e-5 && !rest.one_place(e.state, state, std::max(e.residual, residual))))
        continue;
      if (residual < 0.1 * e.residual && e.residual > 1e-15) e = rest.judge(state, at);
      return;
    }
    if (!search.omega.isZero() && !rest.turns_along(state)) return;
    Equilibrium next = rest.judge(state, at);
    // Where a stiffness is zero the place is one of a family; one of them is enough.
    const auto same = [&](const Equilibrium& e) {
      const double V = potential_energy(system, e.state), U = potential_energy(system, next.state);
      bool equal = std::abs(V - U) < 1e-7 * (1 + std::abs(V)) && e.stability == next.stability &&
                   e.frequencies_squared.size() == next.frequencies_squared.size();
      for (std::size_t i = 0; equal && i < e.frequencies_squared.size(); ++i)
        equal = std::abs(e.frequencies_squared[i] - next.frequencies_squared[i]) <
                1e-4 * (1 + std::abs(e.frequencies_squared[i]));
      return equal;
    };
    const bool floppy = next.stability == Equilibrium::Stability::marginal ||
                        std::count(next.frequencies_squared.begin(), next.frequencies_squared.end(), 0.0) > 0;
    if (!floppy || std::none_of(found.begin(), found.end(), same)) found.push_back(std::move(next));
  };
  const State start = at_rest(system, given);
  const std::vector<State> symmetric = symmetric_starts(system, start, search);
  rest.starts = search.starts + 1 + static_cast<int>(symmetric.size());
  if (go_on()) look_from(start);
  if (State down = start; go_on() && rest.let_down(down)) look_from(down);
  State closed = start;
  (void)rest.close(closed);
  for (const State& state : symmetric)
    if (go_on()) look_from(rest.towards(closed, state));
  Numbers random;
  for (int i = 1; i < search.starts && go_on(); ++i) {
    State state = start;
    Rest::Balance at;
    if (!rest.close(state) || !rest.look(state, at)) break;
    VectorXd by(at.Z.cols());
    for (Eigen::Index k = 0; k < by.size(); ++k) by[k] = 2 * search.spread * random.next();
    // In small parts and straight on, so that a long way stays on the constraints.
    VectorXd way = at.Z * by;
    const double length = way.norm();
    for (int part = 0; part < 20 && way.norm() > 0 && go_on(); ++part) {
      if (!rest.move(state, 0.05 * way) || !rest.close(state) || !rest.look(state, at)) break;
      way = at.Z * (at.Z.transpose() * way);
      if (way.norm() > 0) way *= length / way.norm();
    }
    look_from(state);
  }
  // What is unstable, and near two that are not, is seldom found from elsewhere.
  std::vector<State> between;
  for (std::size_t a = 0; a < found.size(); ++a)
    for (std::size_t b = 0; b < a && between.size() < static_cast<std::size_t>(search.starts); ++b)
      between.push_back(rest.towards(found[a].state, rest.mixed(found[a].state, found[b].state, 0.5)));
  rest.starts += static_cast<int>(between.size());
  for (const State& state : between)
    if (go_on()) look_from(state);
  std::stable_sort(found.begin(), found.end(), [&](const Equilibrium& a, const Equilibrium& b) {
    return potential_energy(system, a.state) < potential_energy(system, b.state);
  });
  return found;
}

}  // namespace linchpin::scene
