// Staying on the constraints at finite steps. Hides the chord Newton of a step's end, of poses and of velocities, its
// stopping rule at round-off, and the estimate that says when a step is too long.
#include "columns.h"
#include "kept_assembly.h"
#include "system_impl.h"
#include "turn.h"
#include "variational.h"

#include <linchpin/constraint.h>
#include <linchpin/detail/secants.h>
#include <linchpin/detail/turned_joints.h>
#include <linchpin/stepper.h>

#include <Eigen/Eigenvalues>

#include <limits>
#include <utility>

namespace linchpin {

namespace {

constexpr double epsilon = std::numeric_limits<double>::epsilon();

/// φ of stock joints at the end of a step, from what the step adds: every vector fixed in a body is turned by the
/// exponential of dt ω, so no pose is made, and what is summed is of the size of the step and not of the world.
class StepOfJoints {
 public:
  /// @return false where it has no answer: constraints of other kinds, or bodies that are not rigid.
  bool begin(const Dynamics& dynamics, const State& base, const State& end, double dt) {
    stock_ = &detail::stock_of(dynamics);
    if (!stock_->rigid) return false;
    dt_ = dt;
    const Block& block = dynamics.assembly().block;
    bodies_.resize(block.bodies.size());
    R_.resize(block.bodies.size());
    for (std::size_t s = 0; s < R_.size(); ++s) R_[s] = base[block.bodies[s]].R();
    arms_.clear();
    offsets_.clear();
    const detail::StockJoints& stock = *stock_;
    for (int i = 0; i < stock.count(); ++i) {
      const auto &joint = stock.joints[z(i)], &next = stock.joints[z(i) + 1];
      const BodyState &a = base[joint.a], &b = base[joint.b];
      const Matrix3d Ra = joint.slot_a < 0 ? a.R() : Matrix3d(), Rb = joint.slot_b < 0 ? b.R() : Matrix3d();
      const Matrix3d &RA = joint.slot_a < 0 ? Ra : R_[z(joint.slot_a)],
                     &RB = joint.slot_b < 0 ? Rb : R_[z(joint.slot_b)];
      // Bodies outside the block end where `end` has them: what that adds is known now.
      const auto arm = [&](const Matrix3d& R, int slot, BodyId id, const Vector3d& u) -> const Vector3d& {
        Arm& made = arms_.emplace_back();
        made.r = R * u;
        if (slot < 0) made.added = end[id].q * u - made.r;
        return made.r;
      };
      const auto gone = [&](int slot, BodyId id) -> Vector3d {
        return slot < 0 ? Vector3d(end[id].p - base[id].p) : Vector3d::Zero();
      };
      const Vector3d added_a = gone(joint.slot_a, joint.a), added_b = gone(joint.slot_b, joint.b);
      for (int k = joint.point; k < next.point; ++k) {
        const Vector3d rA = arm(RA, joint.slot_a, joint.a, stock.points[z(k)].p_AQ),
                       rB = arm(RB, joint.slot_b, joint.b, stock.points[z(k)].p_BQ);
        offsets_.push_back((a.p - b.p) + (rA - rB) + (added_a - added_b));
      }
      for (int k = joint.axis; k < next.axis; ++k) {
        arm(RA, joint.slot_a, joint.a, stock.axes[z(k)].u_A);
        const Vector3d rA = arm(RA, joint.slot_a, joint.a, stock.axes[z(k)].p_AQ),
                       rB = arm(RB, joint.slot_b, joint.b, stock.axes[z(k)].p_BQ);
        offsets_.push_back((b.p - a.p) + (rB - rA) + (added_b - added_a));
      }
      for (int k = joint.dot; k < next.dot; ++k) {
        arm(RA, joint.slot_a, joint.a, stock.dots[z(k)].u_A);
        arm(RB, joint.slot_b, joint.b, stock.dots[z(k)].w_B);
      }
    }
    return true;
  }

  /// `scale` φ by row. @return the largest |φ|, infinity where one is no number.
  double residuals(std::span<const double> v, double scale, std::span<double> phi) {
    const double* u = v.data();
    for (Body& body : bodies_) {
      body.moved = {dt_ * u[0], dt_ * u[1], dt_ * u[2]};
      body.turn = {dt_ * u[3], dt_ * u[4], dt_ * u[5]};
      u += 6;
      detail::turn_factors(body.turn.squaredNorm(), body.sine, body.versine);
    }
    const detail::StockJoints& stock = *stock_;
    const Arm* arm = arms_.data();
    const Vector3d* offset = offsets_.data();
    double* out = phi.data();
    const auto added = [&](int slot, const Arm& to) -> Vector3d {
      if (slot < 0) return to.added;
      const Body& body = bodies_[z(slot)];
      const Vector3d across = body.turn.cross(to.r);
      return body.sine * across + body.versine * body.turn.cross(across);
    };
    const auto moved = [&](int slot) -> Vector3d { return slot < 0 ? Vector3d::Zero() : bodies_[z(slot)].moved; };
    for (int i = 0; i < stock.count(); ++i) {
      const auto &joint = stock.joints[z(i)], &next = stock.joints[z(i) + 1];
      const Vector3d apart = moved(joint.slot_a) - moved(joint.slot_b);
      for (int k = joint.point; k < next.point; ++k, arm += 2, out += 3) {
        const Vector3d gap = *offset++ + (apart + (added(joint.slot_a, arm[0]) - added(joint.slot_b, arm[1])));
        out[0] = gap.x(), out[1] = gap.y(), out[2] = gap.z();
      }
      for (int k = joint.axis; k < next.axis; ++k, arm += 3) {
        const Vector3d d = *offset++ - (apart + (added(joint.slot_a, arm[1]) - added(joint.slot_b, arm[2])));
        *out++ = (arm[0].r + added(joint.slot_a, arm[0])).dot(d) - stock.axes[z(k)].d0;
      }
      for (int k = joint.dot; k < next.dot; ++k, arm += 2)
        *out++ =
            (arm[0].r + added(joint.slot_a, arm[0])).dot(arm[1].r + added(joint.slot_b, arm[1])) - stock.dots[z(k)].c;
    }
    double worst = 0, probe = 0;  // 0 times what is not finite is not a number
    for (double& x : phi) {
      worst = std::max(worst, std::fabs(x));
      probe += 0 * x;
      x *= scale;
    }
    return probe == 0 ? worst : std::numeric_limits<double>::infinity();
  }

  /// φ̇ by row where bodies are at `at`, those outside the block with the velocities that they have there and those
  /// inside with v.
  class Velocities {
   public:
    void begin(const Dynamics& dynamics, const State& at) {
      stock_ = &detail::stock_of(dynamics);
      at_ = &at;
      const Block& block = dynamics.assembly().block;
      R_.resize(block.bodies.size());
      for (std::size_t s = 0; s < R_.size(); ++s) R_[s] = at[block.bodies[s]].R();
      arms_.clear();
      for (int i = 0; i < stock_->count(); ++i) {
        const auto &joint = stock_->joints[z(i)], &next = stock_->joints[z(i) + 1];
        const BodyState &a = at[joint.a], &b = at[joint.b];
        const Matrix3d Ra = joint.slot_a < 0 ? a.R() : Matrix3d(), Rb = joint.slot_b < 0 ? b.R() : Matrix3d();
        const Matrix3d &RA = joint.slot_a < 0 ? Ra : R_[z(joint.slot_a)],
                       &RB = joint.slot_b < 0 ? Rb : R_[z(joint.slot_b)];
        for (int k = joint.point; k < next.point; ++k)
          arms_.insert(arms_.end(), {RA * stock_->points[z(k)].p_AQ, RB * stock_->points[z(k)].p_BQ});
        for (int k = joint.axis; k < next.axis; ++k) {
          const JointRows::Axis& axis = stock_->axes[z(k)];
          const Vector3d rA = RA * axis.p_AQ, rB = RB * axis.p_BQ;
          arms_.insert(arms_.end(), {RA * axis.u_A, rA, rB, (b.p - a.p) + (rB - rA)});
        }
        for (int k = joint.dot; k < next.dot; ++k)
          arms_.push_back((RA * stock_->dots[z(k)].u_A).cross(RB * stock_->dots[z(k)].w_B));
      }
    }

    /// @return the largest |φ̇|, infinity where one is no number
    double residuals(std::span<const double> v, std::span<double> phi_dot) const {
      const Vector3d* arm = arms_.data();
      double* out = phi_dot.data();
      for (int i = 0; i < stock_->count(); ++i) {
        const auto &joint = stock_->joints[z(i)], &next = stock_->joints[z(i) + 1];
        const auto twist = [&](int slot, BodyId id) -> Vector6d {
          if (slot >= 0) return Eigen::Map<const Vector6d>(v.data() + 6 * slot);
          Vector6d u;
          u << (*at_)[id].v, (*at_)[id].w;
          return u;
        };
        const Vector6d a = twist(joint.slot_a, joint.a), b = twist(joint.slot_b, joint.b);
        const Vector3d vA = a.head<3>(), wA = a.tail<3>(), vB = b.head<3>(), wB = b.tail<3>();
        for (int k = joint.point; k < next.point; ++k, arm += 2, out += 3)
          Vector3d::Map(out) = vA + wA.cross(arm[0]) - vB - wB.cross(arm[1]);
        for (int k = joint.axis; k < next.axis; ++k, arm += 4)
          *out++ = wA.cross(arm[0]).dot(arm[3]) + arm[0].dot(vB + wB.cross(arm[2]) - vA - wA.cross(arm[1]));
        for (int k = joint.dot; k < next.dot; ++k, ++arm) *out++ = arm->dot(wA - wB);
      }
      return finite(phi_dot) ? largest(phi_dot) : std::numeric_limits<double>::infinity();
    }

   private:
    const detail::StockJoints* stock_ = nullptr;
    const State* at_ = nullptr;
    std::vector<Matrix3d> R_;
    std::vector<Vector3d> arms_;  // of a point r_A, r_B; of an axis u, r_A, r_B, d; of a dot u × w
  };

 private:
  struct Body {
    Vector3d moved, turn;
    double sine, versine;
  };
  struct Arm {
    Vector3d r = Vector3d::Zero();      // at the base (W)
    Vector3d added = Vector3d::Zero();  // on bodies outside the block: what the step adds
  };
  const detail::StockJoints* stock_ = nullptr;
  double dt_ = 0;
  std::vector<Body> bodies_;
  std::vector<Matrix3d> R_;
  std::vector<Arm> arms_;          // in the order of the rows: of a point 2, of an axis 3 (u first), of a dot 2
  std::vector<Vector3d> offsets_;  // of points φ, of axes d, both at the base
};

/// Memory of the functions below, which are called every step and have nowhere of their own to keep it. Contents never
/// survive a call.
struct Workspace {
  StepOfJoints joints;
  StepOfJoints::Velocities joint_velocities;
  std::vector<double> shift;
  std::vector<double> error, previous, minus, lambda, force, dv, lambda_sum, force_sum, start;
  std::vector<BodyState> X;
  bool positions_only = false;  // all rows of the step at hand
  std::vector<ConstraintId> chosen;
  State poses;
  detail::KeptAssembly assembly;
  Solver solver;
  detail::Secants secants;
};
Workspace& workspace() {
  thread_local Workspace memory;
  return memory;
}

/// Without the check of the index: these loops see every constraint several times in a step.
const Constraint& at(const System& system, ConstraintId id) {
  return SystemParts::of(system).constraints[z(id.index)].constraint;
}

bool has_level(const System& system, const Block& block, Level level) {
  return std::any_of(block.constraints.begin(), block.constraints.end(),
                     [&](ConstraintId id) { return at(system, id).function().level() == level; });
}

/// Residual of row r that the rounding of poses and velocities alone explains: a Newton that is there has arrived.
double round_off(const System& system, const Assembly& assembly, const State& state, int i, int r) {
  const Constraint& constraint = at(system, assembly.block.constraints[z(i)]);
  double sum = 0;
  for (int k = 0; k < static_cast<int>(constraint.bodies().size()); ++k) {
    const BodyState& body = state[constraint.bodies()[z(k)]];
    const auto J = assembly.jacobian(i, k).subspan(z(6 * r), 6);
    if (constraint.function().level() == Level::position)
      for (int j = 0; j < 3; ++j) sum += std::fabs(J[z(j)]) * body.p.cwiseAbs().maxCoeff() + std::fabs(J[z(3 + j)]);
    else
      for (int j = 0; j < 3; ++j) sum += std::fabs(J[z(j)] * body.v[j]) + std::fabs(J[z(3 + j)] * body.w[j]);
  }
  return 32 * epsilon * sum;
}

/// A user's residual may throw, but not out of a step: what it could not say is not a number.
void ask(const Constraint& constraint, std::span<const BodyState> X, double t, std::span<double> out) noexcept {
  try {
    constraint.function().residual(X, t, out);
  } catch (...) {
    std::fill(out.begin(), out.end(), std::numeric_limits<double>::quiet_NaN());
  }
}

/// φ of all position rows at `state`; zero for the other rows. @return the largest |φ|.
double position_residuals(const System& system, const Block& block, const State& state, std::vector<BodyState>& X,
                          std::span<double> phi) {
  const auto& constraints = SystemParts::of(system).constraints;
  for (std::size_t i = 0; i < block.constraints.size(); ++i) {
    const Constraint& constraint = constraints[z(block.constraints[i].index)].constraint;
    const auto out = phi.subspan(z(block.row[i]), z(block.row[i + 1] - block.row[i]));
    if (constraint.function().level() != Level::position) {
      std::fill(out.begin(), out.end(), 0.0);
      continue;
    }
    const auto bodies = constraint.bodies();
    X.resize(bodies.size());
    for (std::size_t k = 0; k < bodies.size(); ++k) {  // poses are all that it reads
      const BodyState& body = state[bodies[k]];
      X[k].p = body.p;
      X[k].q = body.q;
    }
    ask(constraint, X, state.t, out);
  }
  double worst = 0, probe = 0;  // 0 times what is not finite is not a number
  for (const double x : phi) {
    worst = std::max(worst, std::fabs(x));
    probe += 0 * x;
  }
  return probe == 0 ? worst : std::numeric_limits<double>::infinity();
}

/// Where a body that moves as told is in the middle of a step, with the velocity that carries it across.
BodyState halfway(const BodyState& from, const BodyState& to, double dt) {
  BodyState mid = from;
  mid.v = (to.p - from.p) / dt;
  mid.w = turn_between(from.q, to.q) / dt;
  advance(mid, mid.v, mid.w, 0.5 * dt);
  return mid;
}

void place(const Block& block, const State& base, State& end, double dt, std::span<const double> v, double t) {
  for (std::size_t s = 0; s < block.bodies.size(); ++s) {
    BodyState& body = end[block.bodies[s]];
    const BodyState& from = base[block.bodies[s]];
    const int column = block.column[s];
    if (block.column[s + 1] - column == 6) {
      const double* const u = v.data() + column;
      body.v = {u[0], u[1], u[2]};
      body.w = {u[3], u[4], u[5]};
    } else {
      const Vector6d u = twist_of(block, s, v);
      body.v = u.head<3>();
      body.w = u.tail<3>();
    }
    body.p = from.p;
    body.q = from.q;
    advance(body, body.v, body.w, dt);
  }
  // Blocks of one state may be solved at a time: only the first of them sets the clock.
  if (end.t != t) end.t = t;
}

/// The three kinds of end-of-step residual (T12), all as velocities. @return the largest.
double step_residuals(const System& system, const Assembly& assembly, const State& base, const State& end, double dt,
                      std::span<const double> v, Workspace& work) {
  const Block& block = assembly.block;
  double worst = position_residuals(system, block, end, work.X, work.error) / std::fabs(dt);
  for (double& e : work.error) e /= dt;
  if (work.positions_only) return worst;
  for (std::size_t i = 0; i < block.constraints.size(); ++i) {
    const Constraint& constraint = at(system, block.constraints[i]);
    const Level level = constraint.function().level();
    if (level == Level::position) continue;
    const auto out = std::span(work.error).subspan(z(block.row[i]), z(block.row[i + 1] - block.row[i]));
    if (level == Level::velocity) {
      work.X.clear();
      for (const BodyId id : constraint.bodies()) {
        const int slot = block.slot(id);
        if (slot < 0) {
          work.X.push_back(halfway(base[id], end[id], dt));
          continue;
        }
        const Vector6d u = twist_of(block, z(slot), v);
        BodyState& mid = work.X.emplace_back(base[id]);
        mid.v = u.head<3>();
        mid.w = u.tail<3>();
        advance(mid, mid.v, mid.w, 0.5 * dt);
      }
      ask(constraint, work.X, base.t + 0.5 * dt, out);
    } else {
      for (int r = block.row[i]; r < block.row[i + 1]; ++r) {
        double sum = -dt * assembly.instant.b[z(r)];
        for (int e = assembly.instant.row_start[z(r)]; e < assembly.instant.row_start[z(r + 1)]; ++e) {
          const Instant::Entry& entry = assembly.instant.entries[z(e)];
          sum += entry.value * (v[z(entry.column)] - assembly.v[z(entry.column)]);
        }
        out[z(r - block.row[i])] = sum;
      }
    }
    for (const double x : out)
      worst = std::isfinite(x) ? std::max(worst, std::fabs(x)) : std::numeric_limits<double>::infinity();
  }
  return worst;
}

bool at_round_off(const System& system, const Assembly& assembly, const State& end, double dt,
                  std::span<const double> error) {
  for (std::size_t i = 0; i < assembly.block.constraints.size(); ++i) {
    const bool position = at(system, assembly.block.constraints[i]).function().level() == Level::position;
    for (int r = assembly.block.row[i]; r < assembly.block.row[i + 1]; ++r)
      if (std::fabs(error[z(r)]) * (position ? std::fabs(dt) : 1.0) >
          round_off(system, assembly, end, static_cast<int>(i), r - assembly.block.row[i]))
        return false;
  }
  return true;
}

}  // namespace

namespace {

/// The Newton of all ways to end a step (T12, T13). @param settle  makes v of what it was and a solve's Aᵀλ and
/// M⁻¹Aᵀλ, the first empty unless `with_force`; steps backwards have dt < 0. @param poses_alone  v is but a
/// displacement in dt, of which other levels know nothing
template <class Settle>
NewtonReport newton_to_the_end(const System& system, const Dynamics& dynamics, const State& base, State& end, double dt,
                               std::span<double> v, std::span<double> lambda, std::span<double> force, double tolerance,
                               int max_solves, bool shorten, bool with_force, Settle settle, bool poses_alone = false,
                               std::span<const double> left_open = {}) {
  const Assembly& assembly = dynamics.assembly();
  const Solver& solver = dynamics.solver();
  const std::size_t n = z(assembly.block.n()), m = z(assembly.block.m());
  const bool full = solver.full_row_rank();
  // Where laws read slips to the last digit, poses and velocities are those that the laws will be asked at.
  const bool laws = !poses_alone && (!dynamics.law_efforts().empty() || !dynamics.contacts().empty());
  with_force = with_force || laws || !full;
  Workspace& work = workspace();
  work.start.assign(v.begin(), v.end());
  const bool by_joints = !laws && work.joints.begin(dynamics, base, end, dt);
  work.positions_only =
      poses_alone || by_joints ||
      (!has_level(system, assembly.block, Level::velocity) && !has_level(system, assembly.block, Level::acceleration));
  for (auto* x : {&work.error, &work.previous, &work.lambda}) x->resize(m);
  for (auto* x : {&work.force, &work.dv}) x->resize(n);
  work.lambda_sum.assign(m, 0.0);
  if (with_force) work.force_sum.assign(n, 0.0);

  const double length = std::fabs(dt), t_end = poses_alone ? base.t : base.t + dt;
  const auto look = [&] {
    double worst;
    if (by_joints) {
      worst = work.joints.residuals(v, -1 / dt, work.error) / length;
    } else {
      place(assembly.block, base, end, dt, v, t_end);
      worst = step_residuals(system, assembly, base, end, dt, v, work);
      for (double& e : work.error) e = -e;
    }
    if (left_open.empty() || !std::isfinite(worst)) return worst;
    for (std::size_t r = 0; r < m; ++r) work.error[r] += left_open[r] / dt;
    return largest(work.error);
  };
  const auto arrive = [&] {
    if (by_joints) place(assembly.block, base, end, dt, v, t_end);
  };
  NewtonReport report;
  double first = 0, previous = 0, moved = std::numeric_limits<double>::max();
  bool least_squares = false, turns = false;
  std::span<double> pull = with_force ? std::span(work.force) : std::span<double>();
  // Forces once, from the sum, which velocities then follow to rounding.
  const auto follow = [&] {
    work.force_sum.assign(n, 0.0);
    add_transposed(assembly, work.lambda_sum, work.force_sum);
    solver.inverse_mass(work.force_sum, work.dv);
    for (std::size_t j = 0; j < n; ++j) v[j] = work.start[j] + work.dv[j];
    with_force = true;
  };
  constexpr double close = 1e-3;  // to where rows lose their rank
  work.secants.begin();
  for (int stalled = 0;; ++report.solves) {
    work.previous.swap(work.error);
    report.residual = look();
    if (report.solves == 0) first = report.residual;
    report.converged = report.residual * length <= tolerance;
    if (report.converged && !with_force && !poses_alone && report.solves > 0 && solver.info().smallest_pivot < close) {
      // There a factor's multipliers do not make quite the velocities it gives: chords of those that they make follow.
      follow();
      least_squares = true;
      pull = work.force;
      turns = false;
      work.secants.begin();
      previous = std::numeric_limits<double>::infinity();
      report.residual = look();
      report.converged = report.residual * length <= tolerance;
    }
    if (report.converged || !std::isfinite(report.residual)) break;
    if (report.solves > 0 && report.residual > 0.5 * previous && !full && !std::exchange(least_squares, true)) {
      // Redundant rows may contradict each other: from here on none of them is left out.
    } else if (report.solves > 0 && report.residual > 0.5 * previous) {
      // It no longer shrinks: because it cannot, or because it never will.
      arrive();
      report.converged = at_round_off(system, assembly, end, dt, work.error);
      // Rows that contradict each other, by a little (a float host's frames) or by much, keep a residual that no
      // velocity can take away; there the least squares have been reached when a solve moves nothing any more (T6).
      double size = 0, moves = 0;
      for (std::size_t j = 0; j < n; ++j) {
        size = std::max(size, std::fabs(v[j]));
        moves = std::max(moves, std::fabs(work.dv[j]));
      }
      report.least_squares = !report.converged && (moves * length <= tolerance || moves <= 64 * epsilon * size);
      report.converged = report.converged || report.least_squares;
      if (report.converged || report.residual > 100 * first) break;
      stalled = report.residual > 0.9 * previous && moves > 0.5 * moved ? stalled + 1 : 0;
      moved = moves;
      if (stalled == 3) break;
      // Close to where rows lose their rank they turn within a step, and what the last chord did tells of the next.
      // Elsewhere a chord that does not contract says that the step is too long.
      if (full && solver.info().smallest_pivot < close && !std::exchange(turns, true))
        work.secants.improve<3>(work.previous, {work.lambda, pull, work.dv}, false);
    }
    if (report.solves == max_solves) break;
    previous = report.residual;

    // The factor at the base: a chord (T12).
    if (least_squares)
      solver.apply(work.error, work.lambda, pull, work.dv);
    else
      solver.approach(work.error, work.lambda, pull, work.dv);
    if (turns) work.secants.improve<3>(work.error, {work.lambda, pull, work.dv}, true);
    settle(work.force, work.dv);
    for (std::size_t j = 0; with_force && j < n; ++j) work.force_sum[j] += work.force[j];
    for (std::size_t r = 0; r < m; ++r) work.lambda_sum[r] += work.lambda[r];
  }

  if (!report.converged && !(report.residual <= first)) {
    // It made things worse: the caller gets back what it gave.
    std::copy(work.start.begin(), work.start.end(), v.begin());
    place(assembly.block, base, end, dt, v, t_end);
    return report;
  }
  if (!with_force && !poses_alone && report.solves > 0) follow();
  arrive();
  if (!lambda.empty() && !full && report.solves > 0) {
    solver.shortest(work.force_sum, work.lambda_sum, shorten ? v : std::span<double>());
    place(assembly.block, base, end, dt, v, t_end);
    report.residual = step_residuals(system, assembly, base, end, dt, v, work);
    report.least_squares = report.least_squares || (report.converged && report.residual * length > tolerance &&
                                                    !at_round_off(system, assembly, end, dt, work.error));
  }
  if (report.solves == 0) return report;
  for (std::size_t r = 0; r < std::min(m, lambda.size()); ++r) lambda[r] += work.lambda_sum[r];
  for (std::size_t j = 0; j < std::min(n, force.size()); ++j) force[j] += work.force_sum[j];
  return report;
}

}  // namespace

NewtonReport end_on_constraints(const System& system, const Dynamics& dynamics, const State& base, State& end,
                                double dt, std::span<double> v, std::span<double> lambda, std::span<double> force,
                                double tolerance, int max_solves, std::span<const double> left_open) {
  return newton_to_the_end(
      system, dynamics, base, end, dt, v, lambda, force, tolerance, max_solves, true, false,
      [&](std::span<const double>, std::span<const double> dv) {
        for (std::size_t j = 0; j < v.size(); ++j) v[j] += dv[j];
      },
      false, left_open);
}

NewtonReport end_on_constraints_with_momenta(const System& system, const Dynamics& dynamics, const State& base,
                                             State& end, double dt, std::span<double> momentum, std::span<double> v,
                                             std::span<double> lambda, double tolerance, int max_solves) {
  const Block& block = dynamics.assembly().block;
  twists_of(system, block, base, dt, momentum, v);
  return newton_to_the_end(system, dynamics, base, end, dt, v, lambda, {}, tolerance, max_solves, false, true,
                           [&](std::span<const double> force, std::span<const double>) {
                             for (std::size_t j = 0; j < momentum.size(); ++j) momentum[j] += force[j];
                             twists_of(system, block, base, dt, momentum, v);
                           });
}

namespace {

/// Displaces the block's bodies by M⁻¹Aᵀ of a solve: a twist over unit time.
void displace(const Block& block, std::span<const double> d, double scale, State& state) {
  for (std::size_t s = 0; s < block.bodies.size(); ++s) {
    const Vector6d u = scale * twist_of(block, s, d);
    advance(state[block.bodies[s]], u.head<3>(), u.tail<3>(), 1.0);
  }
}

/// The factor of the constraints of the block that have one of two levels, at `state`, in the workspace: where the
/// factor at hand is too far away or holds rows that have no say.
bool own_factor(const System& system, const Dynamics& dynamics, const State& state, Level level, Level or_level,
                double gap, Workspace& work) {
  work.chosen.clear();
  for (const ConstraintId id : dynamics.assembly().block.constraints) {
    const Level l = system.constraint(id).function().level();
    if (l == level || l == or_level) work.chosen.push_back(id);
  }
  make_block(system, work.chosen, work.assembly.block);
  assemble_constraints(system, state, work.assembly);
  if (!work.assembly.failure.empty()) return false;
  work.assembly.instant.Q.assign(z(work.assembly.block.n()), 0.0);
  work.assembly.instant.c.assign(z(work.assembly.block.n()), 0.0);
  // Redundant rows with a gap between them look independent at a singular value of the gap over the lever (T6).
  SolveOptions options = dynamics.solver().options();
  options.rank_tolerance = std::max(options.rank_tolerance, std::min(gap, 1e-2));
  work.solver.set_options(options);
  return work.solver.factor(work.assembly.instant);
}

void resize(Workspace& work, const Block& block) {
  for (auto* x : {&work.error, &work.minus}) x->assign(z(block.m()), 0.0);
  work.dv.assign(z(block.n()), 0.0);
}

/// The largest angle [rad] that a displacement turns a body by.
double turn_of(const Block& block, std::span<const double> d) {
  double most = 0;
  for (std::size_t s = 0; s < block.bodies.size(); ++s)
    if (block.column[s + 1] - block.column[s] == 6)
      most = std::max(most, Eigen::Map<const Vector3d>(&d[z(block.column[s] + 3)]).norm());
  return most;
}

/// @param limited  set where a step was cut because it would have turned a body too far
double close_by_chord(const System& system, const Assembly& assembly, const Solver& solver, State& state,
                      double tolerance, int& solves_left, Workspace& work, bool& limited) {
  using detail::far_turn;  // beyond it rows say nothing of where a step leads
  resize(work, assembly.block);
  double gap = position_residuals(system, assembly.block, state, work.X, work.error);
  while (gap > tolerance && solves_left > 0) {
    for (std::size_t r = 0; r < work.error.size(); ++r) work.minus[r] = -work.error[r];
    solver.apply(work.minus, {}, {}, work.dv);
    --solves_left;
    // A full step that does not help is halved a few times: far from the constraints the chord overshoots.
    const double turn = turn_of(assembly.block, work.dv);
    limited = turn > far_turn;
    double scale = limited ? far_turn / turn : 1, next = 0;
    const double least = 0.1 * scale;
    displace(assembly.block, work.dv, scale, state);
    while (next = position_residuals(system, assembly.block, state, work.X, work.error),
           !(next < gap) && scale > least) {
      displace(assembly.block, work.dv, -0.5 * scale, state);
      scale *= 0.5;
    }
    if (!(next < gap)) {
      displace(assembly.block, work.dv, -scale, state);
      return gap;
    }
    const bool slow = next > 0.5 * gap;
    gap = next;
    if (slow) break;
  }
  return gap;
}

/// What one step more, with a factor of its own, is of a way that is long, as of a body that the program put elsewhere:
/// it comes back in thirty or so. A mechanism that cannot reach creeps on for as long as it may, and its rows nearly
/// depend on each other: of a hundred of them by the reference, for seconds. So a way is as long as some tens of
/// milliseconds allow, no shorter than what a chord that is merely long takes.
double share_of_a_long_way(const Block& block, const Solver& solver) {
  constexpr double least = 10, most = 300;
  constexpr double by_reference = 1.5e6, by_sparse = 2e4;  // m² n of dense factors, rows of sparse ones
  const double m = block.m(), n = block.n();
  return 1 / std::clamp(solver.info().fallbacks > 0 ? by_reference / (m * m * n) : by_sparse / m, least, most);
}

/// Turns joints that are turned far back the shortest way, the other constraints kept, until their dots tell the way.
/// @param most_turn  of a body by all of it [rad]
/// @param widest  in and out: the widest angle that is left [rad]; not 0 where joints contradict each other, too
/// @return whether `most_turn` ended it
bool turn_back(const System& system, const Dynamics& dynamics, State& state, double most_turn, double& widest,
               Workspace& work) {
  double turned = 0;
  for (double way = 0; widest > 0 && way < 1;) {
    if (!(turned < most_turn)) return true;
    work.assembly.closing = true;
    const bool factored = own_factor(system, dynamics, state, Level::position, Level::position, detail::far_turn, work);
    work.assembly.closing = false;
    if (!factored) break;
    const Assembly& assembly = work.assembly;
    work.minus.assign(assembly.position.begin(), assembly.position.end());
    for (double& x : work.minus) x = -x;
    work.dv.assign(z(assembly.block.n()), 0.0);
    work.solver.apply(work.minus, {}, {}, work.dv);
    const double turn = turn_of(assembly.block, work.dv), allowed = std::min(detail::far_turn, most_turn - turned);
    if (!finite(work.dv)) break;
    const double scale = turn > allowed ? allowed / turn : 1;
    displace(assembly.block, work.dv, scale, state);
    const double next = detail::widest_turn(dynamics, state);
    if (!(next < widest)) {
      displace(assembly.block, work.dv, -scale, state);
      break;
    }
    widest = next;
    turned += std::min(turn, allowed);
    way += share_of_a_long_way(assembly.block, work.solver);
  }
  return false;
}

}  // namespace

double detail::widest_turn(const Dynamics& dynamics, const State& state) {
  const StockJoints& stock = stock_of(dynamics);
  double most = 0;
  for (int i = 0; i < stock.count(); ++i) {
    const StockJoints::Joint& joint = stock.joints[z(i)];
    if (joint.alignment < 0) continue;
    const JointRows::Alignment& alignment = stock.alignments[z(joint.alignment)];
    most = std::max(most, turned_away(alignment, state[joint.a].R(), state[joint.b].R()));
  }
  return most;
}

namespace {

/// Dots that vanish where the bodies are turned as they are.
void hold_as_turned(const JointRows::Alignment& alignment, const Matrix3d& A, const Matrix3d& B, JointRows::Dot* dots) {
  using Of = JointRows::Alignment::Of;
  const Matrix3d& G = alignment.B;
  const Matrix3d now = A.transpose() * B * G;  // the frame of B, in the axes of A
  if (alignment.of == Of::orientation) {
    for (int i = 0; i < 3; ++i) dots[i] = {now.col(i), G.col((i + 1) % 3), 0};
  } else if (alignment.of == Of::direction) {
    const Vector3d x = now.col(2).unitOrthogonal();
    dots[0] = {x, G.col(2), 0};
    dots[1] = {now.col(2).cross(x), G.col(2), 0};
  } else if (alignment.of == Of::angle) {
    dots[0] = {alignment.A.col(2).cross(now.col(0)), G.col(0), 0};
  } else {
    const Vector3d x = B.transpose() * (A * alignment.A.col(0));
    dots[0] = {alignment.A.col(0), G.col(2).cross(x), 0};
  }
}

}  // namespace

bool detail::hold_as_turned(Dynamics& dynamics, const State& state) {
  auto& stock = const_cast<StockJoints&>(stock_of(dynamics));  // of a Dynamics that may be changed
  if (!stock.rigid) return false;
  for (int i = 0; i < stock.count(); ++i) {
    const StockJoints::Joint& joint = stock.joints[z(i)];
    if (joint.alignment < 0) continue;
    const JointRows::Alignment& alignment = stock.alignments[z(joint.alignment)];
    const Matrix3d A = state[joint.a].R(), B = state[joint.b].R();
    if (turned_away(alignment, A, B) > 0) linchpin::hold_as_turned(alignment, A, B, &stock.dots[z(joint.dot)]);
  }
  return true;
}

void detail::hold_as_made(const System& system, Dynamics& dynamics) {
  find_stock(system, dynamics.assembly().block, const_cast<StockJoints&>(stock_of(dynamics)));
}

double close_gaps(const System& system, const Dynamics& dynamics, State& state, double tolerance, int max_solves,
                  double* moved, double* turned, double most_turn) {
  const Block& block = dynamics.assembly().block;
  Workspace& work = workspace();
  if (moved != nullptr) *moved = 0;
  if (turned != nullptr) *turned = 0;
  if (!has_level(system, block, Level::position)) return 0;
  resize(work, block);
  double gap = position_residuals(system, block, state, work.X, work.error);
  double away = detail::widest_turn(dynamics, state);
  if ((gap <= tolerance && away == 0) || !std::isfinite(gap)) return gap;
  if (moved != nullptr) work.poses = state;
  const bool from_afar = away > 0;
  bool on_the_way = false;  // what is still turned far has dots that lead elsewhere
  if (from_afar) {
    on_the_way = turn_back(system, dynamics, state, most_turn, away, work);
    resize(work, block);
    gap = position_residuals(system, block, state, work.X, work.error);
  }

  int left = on_the_way ? 0 : max_solves;
  double way = 0;
  bool limited = false;
  const bool positions_only =
      !has_level(system, block, Level::velocity) && !has_level(system, block, Level::acceleration);
  if (positions_only && gap < 1e-3 && !from_afar)
    gap = close_by_chord(system, dynamics.assembly(), dynamics.solver(), state, tolerance, left, work, limited);
  constexpr double finer = 1e-3;
  double of_gap = 1;  // in what is left of a way from afar rows look dependent that are not
  while (gap > tolerance && left > 0) {
    const double before = gap;
    if (!own_factor(system, dynamics, state, Level::position, Level::position, of_gap * gap, work)) break;
    gap = close_by_chord(system, work.assembly, work.solver, state, tolerance, left, work, limited);
    if (limited && gap < before && (way += share_of_a_long_way(work.assembly.block, work.solver)) < 1) {
      left = max_solves;
      continue;
    }
    if (gap < 0.9 * before) continue;
    if (!from_afar || of_gap < 1) break;  // at round-off, or the constraints cannot all be met
    of_gap = finer;
  }
  if (moved != nullptr && turned != nullptr)
    for (const BodyId id : block.bodies)
      *turned = std::max(*turned, turn_between(work.poses[id].q, state[id].q).norm());
  for (const ConstraintId id : block.constraints) {
    if (moved == nullptr) break;
    const Constraint& constraint = system.constraint(id);
    for (int k = 0; k < static_cast<int>(constraint.bodies().size()); ++k) {
      const BodyState &was = work.poses[constraint.bodies()[z(k)]], &is = state[constraint.bodies()[z(k)]];
      *moved = std::max(
          {*moved, (is.p - was.p).norm(), (is.point(constraint.point(k)) - was.point(constraint.point(k))).norm()});
    }
  }
  return std::max(gap, away);
}

double project_velocities(const System& system, const Dynamics& dynamics, State& state, std::span<double> lambda) {
  const Block& block = dynamics.assembly().block;
  Workspace& work = workspace();
  const bool mixed = has_level(system, block, Level::acceleration);
  if (mixed) {
    if (!own_factor(system, dynamics, state, Level::position, Level::velocity, 0, work)) return 0;
  } else {
    work.assembly.block = block;
    assemble_constraints(system, state, work.assembly);
    if (!work.assembly.failure.empty()) return 0;
    work.assembly.instant.Q.assign(z(block.n()), 0.0);
    work.assembly.instant.c.assign(z(block.n()), 0.0);
    work.solver.set_options(dynamics.solver().options());
  }
  const Block& own = work.assembly.block;
  resize(work, own);
  work.start = work.assembly.v;
  const Solver* solver = mixed ? &work.solver : &dynamics.solver();

  // One solve is the answer for the factor at this very state; a chord from a neighbouring one, or rows that are not
  // linear in the velocity, take a few.
  double worst = largest(work.assembly.velocity);
  for (int solves = 0; solves < 20 && worst > 0 && std::isfinite(worst); ++solves) {
    for (std::size_t r = 0; r < work.minus.size(); ++r) work.minus[r] = -work.assembly.velocity[r];
    const bool record = !mixed && !lambda.empty();
    if (record) work.lambda.resize(lambda.size());
    solver->apply(work.minus, record ? std::span(work.lambda) : std::span<double>(), {}, work.dv);  // (T14)
    for (std::size_t r = 0; record && r < lambda.size(); ++r) lambda[r] += work.lambda[r];
    for (std::size_t s = 0; s < own.bodies.size(); ++s) {
      const Vector6d u = twist_of(own, s, work.dv);
      state[own.bodies[s]].v += u.head<3>();
      state[own.bodies[s]].w += u.tail<3>();
    }
    assemble_constraints(system, state, work.assembly);
    const double next = largest(work.assembly.velocity);
    if (!(next < 0.5 * worst)) {
      if (solver == &work.solver || next < 1e-12) break;
      if (!work.solver.factor(work.assembly.instant)) break;
      solver = &work.solver;
    }
    worst = next;
  }
  for (std::size_t j = 0; j < work.start.size(); ++j) work.start[j] = work.assembly.v[j] - work.start[j];
  return 0.5 * mass_norm(work.assembly.instant, work.start);
}

Settling settle(const System& system, const Dynamics& dynamics, const State& off, State& on, std::span<double> v,
                std::span<double> lambda, double tolerance, int max_solves) {
  const Assembly& assembly = dynamics.assembly();
  const Block& block = assembly.block;
  const Solver& solver = dynamics.solver();
  Workspace& work = workspace();
  Settling out;
  const auto give_velocities = [&] {
    for (std::size_t s = 0; s < block.bodies.size(); ++s) {
      const Vector6d u = twist_of(block, s, v);
      on[block.bodies[s]].v = u.head<3>();
      on[block.bodies[s]].w = u.tail<3>();
    }
  };
  std::fill(lambda.begin(), lambda.end(), 0.0);
  work.shift.assign(v.size(), 0.0);
  const NewtonReport poses = newton_to_the_end(
      system, dynamics, off, on, 1.0, work.shift, {}, {}, tolerance, max_solves, false, false,
      [&](std::span<const double>, std::span<const double> dv) {
        for (std::size_t j = 0; j < work.shift.size(); ++j) work.shift[j] += dv[j];
      },
      true);
  out.solves = poses.solves;
  out.residual = poses.residual;
  out.least_squares = poses.least_squares;
  out.moved = largest(work.shift);
  give_velocities();
  if (!poses.converged || !finite(work.shift)) return out;

  // Velocities at the new poses. Rows on accelerations say nothing of them: what those leave alone stays.
  const bool by_joints = detail::stock_of(dynamics).rigid;
  const bool accelerations = !by_joints && has_level(system, block, Level::acceleration);
  if (by_joints) {
    work.joint_velocities.begin(dynamics, on);
    work.error.resize(lambda.size());
  } else {
    work.assembly.block = block;
  }
  const auto look = [&] {
    if (by_joints) return work.joint_velocities.residuals(v, work.error);
    give_velocities();
    assemble_constraints(system, on, work.assembly);
    if (!work.assembly.failure.empty()) return std::numeric_limits<double>::infinity();
    work.error = work.assembly.velocity;
    for (std::size_t i = 0; accelerations && i < block.constraints.size(); ++i)
      if (at(system, block.constraints[i]).function().level() == Level::acceleration)
        std::fill(work.error.begin() + block.row[i], work.error.begin() + block.row[i + 1], 0.0);
    return largest(work.error);
  };
  work.lambda.resize(lambda.size());
  work.dv.resize(v.size());
  work.shift.assign(v.begin(), v.end());
  double size = largest(v), previous = std::numeric_limits<double>::max();
  for (int solves = 0;; ++solves) {
    const double worst = look();
    out.converged = worst <= 4 * epsilon * size;
    if (out.converged || !std::isfinite(worst)) break;
    if (worst > 0.5 * previous) {  // as far as rounding, or rows that contradict each other, let it come
      const double moves = largest(work.dv);
      out.converged = worst <= 1e-12 * size || moves <= 64 * epsilon * size;
      out.least_squares = out.least_squares || worst > 1e-12 * size;
      break;
    }
    if (solves == max_solves) break;
    previous = worst;
    for (double& e : work.error) e = -e;
    solver.approach(work.error, work.lambda, {}, work.dv);
    for (std::size_t j = 0; j < v.size(); ++j) v[j] += work.dv[j];
    for (std::size_t r = 0; r < lambda.size(); ++r) lambda[r] += work.lambda[r];
    ++out.solves;
  }
  give_velocities();
  if (!solver.full_row_rank()) {
    work.force_sum.assign(v.size(), 0.0);
    add_transposed(assembly, lambda, work.force_sum);
    solver.shortest(work.force_sum, lambda);
  }
  for (std::size_t j = 0; j < v.size(); ++j) out.changed = std::max(out.changed, std::fabs(v[j] - work.shift[j]));
  out.converged = out.converged && finite(v);
  return out;
}

namespace {

/// The force of the i-th constraint of a block on its body k, and its arm about that body's centre (W).
struct Pull {
  Vector3d f = Vector3d::Zero(), r;
  Pull(const Constraint& constraint, const Assembly& assembly, const State& state, std::span<const double> lambda,
       int i, int k)
      : r(constraint.acting_point(k, state) - state[constraint.bodies()[z(k)]].p) {
    const double* J = assembly.jacobian(i, k).data();
    for (int row = assembly.block.row[z(i)]; row < assembly.block.row[z(i + 1)]; ++row, J += 6)
      f += lambda[z(row)] * Vector3d(J[0], J[1], J[2]);
  }
};

// K of T15 by slot, lower triangles; of the bodies that `left_out` says not.
template <typename LeftOut>
void add_stiffness(const System& system, const Assembly& assembly, const State& state, std::span<const double> lambda,
                   const LeftOut& left_out, std::vector<Matrix3d>& stiffness) {
  const Block& block = assembly.block;
  stiffness.assign(block.bodies.size(), Matrix3d::Zero());
  for (std::size_t i = 0; i < block.constraints.size(); ++i) {
    const Constraint& constraint = at(system, block.constraints[i]);
    for (int k = 0; k < static_cast<int>(constraint.bodies().size()); ++k) {
      const int slot = assembly.slot(static_cast<int>(i), k);
      if (slot < 0 || block.column[z(slot + 1)] - block.column[z(slot)] != 6 || left_out(z(slot))) continue;
      const auto [f, r] = Pull(constraint, assembly, state, lambda, static_cast<int>(i), k);
      const double along = r.dot(f);
      Matrix3d& K = stiffness[z(slot)];
      for (int a = 0; a < 3; ++a) {
        for (int b = 0; b < a; ++b) K(a, b) -= 0.5 * (r[a] * f[b] + f[a] * r[b]);
        K(a, a) += along - r[a] * f[a];  // (T15)
      }
    }
  }
}

}  // namespace

double fastest_swing(const System& system, const Dynamics& dynamics, const State& state, std::span<const double> lambda,
                     double enough) {
  const Assembly& assembly = dynamics.assembly();
  const Block& block = assembly.block;
  const detail::StockJoints& stock = detail::stock_of(dynamics);
  const auto& bodies = SystemParts::of(system).bodies;
  thread_local std::vector<Matrix3d> stiffness;
  thread_local std::vector<double> bound;  // of ω²
  bound.assign(block.bodies.size(), 0.0);
  double most = 0;
  if (stock.rigid) {  // ω² ≤ Σ|r||f| / least principal moment
    for (int i = 0; i < stock.count(); ++i) {
      const auto &joint = stock.joints[z(i)], &next = stock.joints[z(i) + 1];
      if (next.axis > joint.axis) {  // it slides, and its arm with it
        const Constraint& constraint = at(system, block.constraints[z(joint.constraint)]);
        for (const int k : {0, 1})
          if (const int slot = k == 0 ? joint.slot_a : joint.slot_b; slot >= 0) {
            const Pull pull(constraint, assembly, state, lambda, joint.constraint, k);
            bound[z(slot)] += pull.f.norm() * pull.r.norm();
          }
        continue;
      }
      const double* f = lambda.data() + joint.row;
      for (int k = joint.point; k < next.point; ++k, f += 3) {
        const double size = std::sqrt(f[0] * f[0] + f[1] * f[1] + f[2] * f[2]);
        if (joint.slot_a >= 0) bound[z(joint.slot_a)] += size * stock.arms[z(2 * k)];
        if (joint.slot_b >= 0) bound[z(joint.slot_b)] += size * stock.arms[z(2 * k + 1)];
      }
    }
    double probe = 0;  // 0 times what is not finite is not a number
    for (std::size_t s = 0; s < bound.size(); ++s) {
      bound[s] /= bodies[z(block.bodies[s].index)].least_inertia;
      most = std::max(most, bound[s]);
      probe += 0 * bound[s];
    }
    if (probe != 0) return std::numeric_limits<double>::infinity();
    if (std::sqrt(most) <= enough) return std::sqrt(most);
  }
  const auto slow = [&](std::size_t s) { return stock.rigid && bound[s] <= enough * enough; };
  most = 0;
  for (std::size_t s = 0; s < bound.size(); ++s)
    if (slow(s)) most = std::max(most, bound[s]);
  add_stiffness(system, assembly, state, lambda, slow, stiffness);
  // Whitened with the inertia; its Frobenius norm bounds what an eigenvalue can be, so that few have to be found.
  std::size_t widest = 0;
  for_mass_blocks(block, assembly.instant, [&](std::size_t s, const double* M, int dof) {
    if (!std::isfinite(bound[widest])) return;
    bound[s] = 0;
    if (Matrix3d& K = stiffness[s]; dof == 6 && !K.isZero(0)) {
      const double i00 = 1 / std::sqrt(M[21]), l10 = M[27] * i00, l20 = M[33] * i00;
      const double i11 = 1 / std::sqrt(M[28] - l10 * l10), l21 = (M[34] - l20 * l10) * i11;
      const double i22 = 1 / std::sqrt(M[35] - l20 * l20 - l21 * l21);
      K(0, 1) = K(1, 0), K(0, 2) = K(2, 0), K(1, 2) = K(2, 1);
      const auto solve = [&](auto row) {  // row ← L⁻¹ row
        row(0) *= i00;
        row(1) = (row(1) - l10 * row(0)) * i11;
        row(2) = (row(2) - l20 * row(0) - l21 * row(1)) * i22;
      };
      for (int j = 0; j < 3; ++j) solve(K.col(j));
      for (int j = 0; j < 3; ++j) solve(K.row(j));
      bound[s] = K.norm();
      if (!(bound[s] <= bound[widest])) widest = s;
    }
  });
  if (!block.bodies.empty() && !std::isfinite(bound[widest])) return std::numeric_limits<double>::infinity();
  const auto look = [&](std::size_t s) {
    if (!(bound[s] > most)) return;
    most = std::max(
        most, Eigen::SelfAdjointEigenSolver<Matrix3d>(stiffness[s], Eigen::EigenvaluesOnly).eigenvalues().maxCoeff());
  };
  if (!block.bodies.empty()) look(widest);
  for (std::size_t s = 0; s < block.bodies.size(); ++s)
    if (s != widest) look(s);
  return std::sqrt(most);
}

void geometric_stiffness(const System& system, const Dynamics& dynamics, const State& state,
                         std::span<const double> lambda, std::vector<Matrix3d>& K) {
  add_stiffness(
      system, dynamics.assembly(), state, lambda, [](std::size_t) { return false; }, K);
  for (Matrix3d& k : K) {
    if (k.isZero(0)) continue;
    const Eigen::SelfAdjointEigenSolver<Matrix3d> solver(k);  // reads the lower triangle
    k = solver.eigenvectors() * solver.eigenvalues().cwiseMax(0).asDiagonal() * solver.eigenvectors().transpose();
  }
}

}  // namespace linchpin
