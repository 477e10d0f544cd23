#include "expression.h"
#include "singular_values.h"

#include <linchpin/scene/inverse_kinematics.h>

#include <Eigen/Cholesky>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <stdexcept>
#include <utility>

namespace linchpin::scene {

const char* to_string(InverseKinematics::Outcome outcome) {
  constexpr const char* names[] = {"found", "nearest", "not converged", "not closed"};
  return names[static_cast<int>(outcome)];
}

namespace {

using Dense = Eigen::MatrixXd;
using Column = Eigen::VectorXd;

[[noreturn]] void refuse_target(const std::string& text) { throw std::invalid_argument("inverse kinematics: " + text); }

class PoseSearch {
 public:
  PoseSearch(const RobotDynamics& robot, const FrameTarget& target, const InverseKinematicsOptions& options)
      : robot_(robot), target_(target), options_(options), n_(robot.velocities()), t_(robot.t()) {
    check_numbers();
    (void)robot_.pose(target.frame);  // throws for a frame that is none
    constexpr double endless = std::numeric_limits<double>::infinity();
    lower_ = Column::Constant(n_, -endless), upper_ = Column::Constant(n_, endless);
    weight_ = Column::Ones(n_);
    moves_.assign(static_cast<std::size_t>(n_), 1);
    for (const RobotJoint& j : robot_.joints()) {
      if (options.limits && j.limits) set_limits(j, *j.limits);
      if (options.hold_free_bodies && is_free(j)) hold(j);
    }
    for (const auto& [name, limits] : options.own_limits) set_limits(named(name, "own_limits"), limits);
    for (const auto& [name, weight] : options.weights) {
      const RobotJoint& j = named(name, "weights");
      if (!(weight > 0) || !std::isfinite(weight))
        refuse_target("weights: \"" + name + "\" has " + std::to_string(weight) + ". A weight is finite and above 0");
      weight_.segment(j.velocity, j.velocities).setConstant(weight);
    }
    for (const std::string& name : options.held) hold(named(name, "held"));
    for (int i = 0; i < n_; ++i)
      if (moves_[static_cast<std::size_t>(i)]) moving_.push_back(i);
  }

  InverseKinematics run(const VectorX& start) {
    InverseKinematics best;
    VectorX first = within_limits(start);
    robot_.set_state(first, VectorX::Zero(n_), t_);
    best.q = first;
    measure(best);
    std::mt19937 random(20240611);  // the same places in every call
    bool have = false;
    int iterations = 0, starts = 0;
    for (int k = 0; k <= options_.restarts; ++k) {
      const VectorX from = k == 0 ? first : another_start(first, k, random);
      InverseKinematics now = from_start(from);
      iterations += now.iterations, ++starts;
      if (now.outcome == InverseKinematics::Outcome::not_closed) continue;
      const bool better = !have || rank(now) < rank(best) ||
                          (rank(now) == rank(best) && cost_of(now) < cost_of(best) * (1 - 1e-9) - 1e-24);
      if (better) best = now, have = true;
      if (best.outcome == InverseKinematics::Outcome::found) break;
      if (moving_.empty()) break;
    }
    best.iterations = iterations, best.starts = starts;
    for (const RobotJoint& j : robot_.joints())
      if (j.positions == 1 && moves_[static_cast<std::size_t>(j.velocity)] &&
          (best.q[j.position] <= lower_[j.velocity] || best.q[j.position] >= upper_[j.velocity]))
        best.at_limit.push_back(j.name);
    return best;
  }

 private:
  static bool is_free(const RobotJoint& j) {
    return j.kind == RobotJoint::Kind::free_body || j.kind == RobotJoint::Kind::free_particle;
  }
  void check_numbers() const {
    const auto positive = [](const char* what, double x) {
      if (!(x > 0) || !std::isfinite(x))
        refuse_target(std::string(what) + " is " + std::to_string(x) + ". It must be finite and above 0");
    };
    positive("position_tolerance", options_.position_tolerance);
    positive("rotation_tolerance", options_.rotation_tolerance);
    positive("constraint_tolerance", options_.constraint_tolerance);
    positive("rotation_weight", options_.rotation_weight);
    if (options_.iterations < 1)
      refuse_target("iterations is " + std::to_string(options_.iterations) + ", not above 0");
    if (options_.restarts < 0) refuse_target("restarts is " + std::to_string(options_.restarts) + ", below 0");
    if (!target_.p.allFinite()) refuse_target("the position of the target is not finite");
    if (target_.rotation && (!target_.rotation->coeffs().allFinite() || !(target_.rotation->norm() > 0)))
      refuse_target("the rotation of the target is not finite, or its quaternion has length 0");
  }
  const RobotJoint& named(const std::string& name, const char* option) const {
    std::vector<std::string> names;
    for (const RobotJoint& j : robot_.joints()) {
      if (j.name == name) return j;
      names.push_back(j.name);
    }
    refuse_target(std::string(option) + ": no joint \"" + name + "\" has coordinates" + suggestion(name, names));
  }
  void set_limits(const RobotJoint& j, const std::pair<double, double>& limits) {
    if (j.positions != 1)
      refuse_target("own_limits: \"" + j.name + "\" is neither a hinge nor a slider and has no limits");
    if (!(limits.first <= limits.second))
      refuse_target("own_limits: the lower limit of \"" + j.name + "\" is " + std::to_string(limits.first) +
                    ", above the upper one of " + std::to_string(limits.second));
    lower_[j.velocity] = limits.first, upper_[j.velocity] = limits.second;
  }
  void hold(const RobotJoint& j) {
    for (int k = 0; k < j.velocities; ++k) moves_[static_cast<std::size_t>(j.velocity + k)] = 0;
  }
  VectorX within_limits(VectorX q) const {
    for (const RobotJoint& j : robot_.joints())
      if (j.positions == 1 && moves_[static_cast<std::size_t>(j.velocity)])
        q[j.position] = std::clamp(q[j.position], lower_[j.velocity], upper_[j.velocity]);
    return q;
  }

  // First a little beside the first start, which may be singular; then anywhere.
  VectorX another_start(const VectorX& first, int k, std::mt19937& random) {
    const auto unit = [&] { return 2 * (double(random()) / 4294967295.0) - 1; };
    const double spread = k == 1 ? 0.01 : k == 2 ? 0.1 : k == 3 ? 0.5 : 0;
    VectorX dq = VectorX::Zero(n_);
    for (const RobotJoint& j : robot_.joints())
      for (int c = 0; c < j.velocities; ++c) {
        const int i = j.velocity + c;
        if (!moves_[static_cast<std::size_t>(i)]) continue;
        const double to = unit();
        if (spread > 0) {
          dq[i] = spread * to;
        } else if (j.positions == 1) {
          const double far = j.kind == RobotJoint::Kind::hinge ? std::numbers::pi : 1, now = first[j.position];
          const double low = std::max(lower_[i], std::min(now, upper_[i]) - far),
                       high = std::min(upper_[i], std::max(now, lower_[i]) + far);
          dq[i] = 0.5 * (low + high) + 0.5 * (high - low) * to - now;
        } else {
          dq[i] = (c < 3 && is_free(j) ? 1 : std::numbers::pi / 2) * to;
        }
      }
    return within_limits(robot_.moved(first, dq));
  }

  // ---- residuals ----

  struct Here {
    VectorX q;
    Vector6 r = Vector6::Zero();  // [Δp; w θ]
    double cost = 0;              // ½|r|²
    double gap = 0;               // largest |φ|
    Column phi;                   // divided as the rows
    Dense A;                      // rows on positions, divided by their lengths on the bodies
    Dense M;                      // mass matrix, the metric of the rows
  };

  Here evaluate(const VectorX& q) {
    Here out;
    out.q = q;
    robot_.set_state(q, VectorX::Zero(n_), t_);
    const Pose at = robot_.pose(target_.frame);
    out.r.head<3>() = at.p - target_.p;
    if (target_.rotation)
      out.r.tail<3>() = options_.rotation_weight * turn_between(target_.rotation->normalized(), at.q);
    out.cost = 0.5 * out.r.squaredNorm();
    const RobotConstraints c = robot_.constraints();
    std::vector<Eigen::Index> rows;
    for (std::size_t i = 0; i < c.levels.size(); ++i)
      if (c.levels[i] == Level::position) rows.push_back(static_cast<Eigen::Index>(i));
    const auto m = static_cast<Eigen::Index>(rows.size());
    out.A.resize(m, n_), out.phi.resize(m);
    for (Eigen::Index i = 0; i < m; ++i) {
      const Eigen::Index row = rows[index(static_cast<int>(i))];
      const double scale = c.length[row] > 0 ? 1 / c.length[row] : 1;
      out.A.row(i) = scale * c.A.row(row);
      out.phi[i] = scale * c.position[row];
      out.gap = std::max(out.gap, std::abs(c.position[row]));
    }
    if (m > 0) out.M = robot_.mass_matrix();
    return out;
  }

  void measure(InverseKinematics& out) {
    const Here here = evaluate(out.q);
    out.distance = here.r.head<3>().norm();
    out.angle = here.r.tail<3>().norm() / options_.rotation_weight;
    out.constraint_residual = here.gap;
  }
  double cost_of(const InverseKinematics& of) const {
    return 0.5 * (of.distance * of.distance + std::pow(options_.rotation_weight * of.angle, 2));
  }
  static int rank(const InverseKinematics& of) {
    return of.outcome == InverseKinematics::Outcome::found ? 0 : 1;  // then the distance decides
  }
  bool is_there(const Here& at) const {
    return at.r.head<3>().norm() <= options_.position_tolerance &&
           at.r.tail<3>().norm() <= options_.rotation_weight * options_.rotation_tolerance;
  }

  // ---- steps ----

  // Splits the space of the coordinates `free`: a solution of A d = e, least in the mass metric, and a basis of A d =
  // 0.
  static void split(const Here& here, const std::vector<int>& free, const Column& e, Column& particular, Dense& basis) {
    const auto n = static_cast<Eigen::Index>(free.size());
    particular = Column::Zero(n);
    basis = Dense::Identity(n, n);
    if (here.A.rows() == 0 || n == 0) return;
    Dense M(n, n);
    for (Eigen::Index i = 0; i < n; ++i)
      for (Eigen::Index j = 0; j < n; ++j)
        M(i, j) = here.M(free[index(static_cast<int>(i))], free[index(static_cast<int>(j))]);
    const Eigen::LLT<Dense> factor(M);
    if (factor.info() != Eigen::Success)
      refuse_target(
          "the mass matrix is not positive definite. Give the bodies beyond each joint a mass and an inertia");
    const Dense B = factor.matrixL().solve(columns(here.A, free).transpose()).transpose();
    const Eigen::JacobiSVD<Dense> svd(B, Eigen::ComputeThinU | Eigen::ComputeFullV);
    const Column& d = svd.singularValues();
    Eigen::Index rank = 0;
    while (rank < d.size() && d[rank] > 1e-6 * std::max(1.0, d[0])) ++rank;
    const Column z = (svd.matrixU().leftCols(rank).transpose() * e).cwiseQuotient(d.head(rank));
    particular = factor.matrixU().solve(svd.matrixV().leftCols(rank) * z);
    basis = factor.matrixU().solve(svd.matrixV().rightCols(n - rank));
  }

  std::vector<int> without_fixed(const std::vector<char>& fixed) const {
    std::vector<int> out;
    for (const int i : moving_)
      if (!fixed[static_cast<std::size_t>(i)]) out.push_back(i);
    return out;
  }
  static Dense columns(const Dense& of, const std::vector<int>& which) {
    Dense out(of.rows(), static_cast<Eigen::Index>(which.size()));
    for (std::size_t k = 0; k < which.size(); ++k) out.col(static_cast<Eigen::Index>(k)) = of.col(which[k]);
    return out;
  }

  Column room(const VectorX& q, const Column& limit, double endless) const {
    Column out = Column::Constant(n_, endless);
    for (const RobotJoint& j : robot_.joints())
      if (j.positions == 1) out[j.velocity] = limit[j.velocity] - q[j.position];
    return out;
  }

  // Moves q onto the constraints by Newton within the limits. False: it does not converge.
  bool close(Here& here) {
    constexpr int most = 40;
    for (int k = 0; k < most && here.gap > options_.constraint_tolerance; ++k) {
      std::vector<char> fixed(static_cast<std::size_t>(n_));
      const Column low = room(here.q, lower_, -1e300), high = room(here.q, upper_, 1e300);
      Column d = Column::Zero(n_);
      for (int pass = 0; pass <= n_; ++pass) {
        const std::vector<int> free = without_fixed(fixed);
        Column part;
        Dense basis;
        split(here, free, -here.phi, part, basis);
        d.setZero();
        bool again = false;
        for (std::size_t i = 0; i < free.size(); ++i) {
          const int at = free[i];
          d[at] = part[static_cast<Eigen::Index>(i)];
          if (d[at] < low[at] - 1e-15 || d[at] > high[at] + 1e-15) {
            if ((low[at] >= 0 && d[at] < 0) || (high[at] <= 0 && d[at] > 0))
              fixed[static_cast<std::size_t>(at)] = 1, again = true;
            d[at] = std::clamp(d[at], low[at], high[at]);
          }
        }
        if (!again) break;
      }
      if (!d.allFinite()) return false;
      if (const double longest = d.size() ? d.cwiseAbs().maxCoeff() : 0; longest > 1) d /= longest;
      Here next = evaluate(within_limits(robot_.moved(here.q, d)));
      for (int half = 0; half < 6 && !(next.gap < here.gap); ++half) {
        d *= 0.5;
        next = evaluate(within_limits(robot_.moved(here.q, d)));
      }
      if (!(next.gap < here.gap)) break;
      here = std::move(next);
    }
    return here.gap <= options_.constraint_tolerance;
  }

  struct Model2 {
    Column g;  // gradient of the cost
    Dense J, H;
  };
  // The gradient is exact. H has the curvature of positions where joints are hinges and sliders, and JᵀJ of rotations.
  Model2 derivatives(const Here& here) {
    robot_.set_state(here.q, VectorX::Zero(n_), t_);
    Model2 out;
    const Dense J = robot_.jacobian(target_.frame);
    out.J = J;
    if (target_.rotation)
      out.J.bottomRows(3) *= options_.rotation_weight;
    else
      out.J.bottomRows(3).setZero();
    out.g = out.J.transpose() * here.r;
    out.H = curvature(here, J);
    return out;
  }
  // r · ∂²p/∂q_i∂q_j = r · (w_i × p_j) where joint i carries joint j.
  Dense curvature(const Here& here, const Dense& J) const {
    Dense out = Dense::Zero(n_, n_);
    const Vector3d r = here.r.head<3>();
    const auto term = [&](int i, int j) {
      const Vector3d w = J.col(i).tail<3>(), p = J.col(j).head<3>();
      return r.dot(w.cross(p));
    };
    for (const int i : moving_)
      for (const int j : moving_) {
        if (j < i || J.col(i).isZero(0) || J.col(j).isZero(0)) continue;
        const double value = carries_[index(i)][index(j)]   ? term(i, j)
                             : carries_[index(j)][index(i)] ? term(j, i)
                                                            : 0.5 * (term(i, j) + term(j, i));
        out(i, j) = out(j, i) = value;
      }
    return out;
  }
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  // Which coordinate carries which, on the way to the frame: a joint that is moved moves the axes beyond it.
  void find_order(const VectorX& q) {
    carries_.assign(index(n_), std::vector<char>(index(n_)));
    for (const RobotJoint& j : robot_.joints()) {
      // The body beyond joint j of the tree moves with exactly those coordinates that carry j, and with its own.
      const auto mine = [&](BodyId body) {
        robot_.set_state(q, VectorX::Zero(n_), t_);
        return Dense(robot_.jacobian(BodyFrame{body, Vector3d::Zero(), Quaterniond::Identity()}));
      };
      const Dense child = mine(j.child), parent = mine(j.parent);
      const bool outwards = !child.middleCols(j.velocity, j.velocities).isZero(0);
      const Dense& beyond = outwards ? child : parent;
      for (int i = 0; i < n_; ++i) {
        if (i >= j.velocity && i < j.velocity + j.velocities) continue;
        if (beyond.col(i).isZero(0)) continue;
        for (int c = 0; c < j.velocities; ++c) carries_[index(i)][index(j.velocity + c)] = 1;
      }
    }
  }

  // The least of g·d + ½ dᵀ (H + μ W) d with A d = −φ within the limits, by an active set. `newton`: with curvature.
  // False: the matrix is not positive definite on the free motions.
  bool step(const Here& here, const Model2& of, bool newton, double mu, Column& d) const {
    const Column low = room(here.q, lower_, -1e300), high = room(here.q, upper_, 1e300);
    Dense H = of.J.transpose() * of.J;
    if (newton) H += of.H;
    H.diagonal() += mu * weight_;
    std::vector<char> fixed(index(n_));
    Column at_bound = Column::Zero(n_);
    for (int pass = 0; pass < 4 * n_ + 4; ++pass) {
      const std::vector<int> free = without_fixed(fixed);
      const auto count = static_cast<Eigen::Index>(free.size());
      d = at_bound;
      const Dense A = columns(here.A, free);
      Column part;
      Dense N;
      split(here, free, -here.phi - here.A * at_bound, part, N);
      const Column gradient = of.g + H * at_bound;
      Dense Hf(count, count);
      Column gf(count);
      for (Eigen::Index i = 0; i < count; ++i) {
        gf[i] = gradient[free[index(int(i))]];
        for (Eigen::Index j = 0; j < count; ++j) Hf(i, j) = H(free[index(int(i))], free[index(int(j))]);
      }
      Column z = part;
      if (N.cols() > 0) {
        const Dense reduced = N.transpose() * Hf * N;
        const Eigen::LLT<Dense> factor(reduced);
        if (factor.info() != Eigen::Success) return false;
        z += N * factor.solve(-N.transpose() * (gf + Hf * part));
      }
      if (!z.allFinite()) return false;
      // The worst violation becomes a bound.
      int worst = -1;
      double most = 0;
      for (Eigen::Index i = 0; i < count; ++i) {
        const int c = free[index(int(i))];
        d[c] = z[i];
        const double over = std::max(low[c] - d[c], d[c] - high[c]);
        if (over > most) most = over, worst = c;
      }
      if (worst >= 0) {
        at_bound[worst] = std::clamp(d[worst], low[worst], high[worst]);
        fixed[index(worst)] = 1;
        continue;
      }
      // Multipliers of the bounds: one with the wrong sign becomes free again.
      const Column total = of.g + H * d;
      Column lambda;  // of the rows, by least squares on the free columns
      Column bound = total;
      if (count > 0 && A.norm() > 1e-9) {  // else the joints hold the rows by themselves
        Column tf(count);
        for (Eigen::Index i = 0; i < count; ++i) tf[i] = total[free[index(int(i))]];
        Eigen::JacobiSVD<Dense> svd(A.transpose(), Eigen::ComputeThinU | Eigen::ComputeThinV);
        svd.setThreshold(1e-6);
        lambda = svd.solve(tf);
        bound -= here.A.transpose() * lambda;
      }
      int release = -1;
      double wrong = 1e-12 * (1e-300 + of.g.cwiseAbs().maxCoeff());
      for (const int c : moving_) {
        if (!fixed[index(c)] || !(high[c] > low[c])) continue;
        const double sign = at_bound[c] >= high[c] ? bound[c] : -bound[c];
        if (sign > wrong) wrong = sign, release = c;
      }
      if (release < 0 || pass > 3 * n_) return true;
      fixed[index(release)] = 0, at_bound[release] = 0;
    }
    return false;
  }
  InverseKinematics from_start(const VectorX& from) {
    InverseKinematics out;
    Here here = evaluate(from);
    if (!close(here)) {
      out.q = from;
      measure(out);
      return out;
    }
    if (carries_.empty()) find_order(here.q);
    out.outcome = InverseKinematics::Outcome::not_converged;
    double mu = 1e-3;  // relative to |J|²
    int slow = 0;
    for (; out.iterations < options_.iterations && !moving_.empty() && !is_there(here); ++out.iterations) {
      const Model2 of = derivatives(here);
      bool accepted = false;
      for (; mu < 1e8 && !accepted; mu = std::max(4 * mu, 1e-12)) {
        const double damping = mu * of.J.squaredNorm();
        Column d;
        if (!step(here, of, true, damping, d) && !step(here, of, false, damping, d)) continue;
        const double length = d.size() ? d.cwiseAbs().maxCoeff() : 0;
        if (length > 1) continue;  // longer than the derivatives hold
        if (length < 1e-15) break;
        Here next = evaluate(within_limits(robot_.moved(here.q, d)));
        if (!close(next) || !(next.cost < here.cost)) continue;
        slow = next.cost > here.cost * (1 - 1e-12) ? slow + 1 : 0;
        here = std::move(next);
        accepted = true;
        mu *= 0.02;
      }
      if (!accepted || slow > 5) {  // rounding ends the descent
        out.outcome = InverseKinematics::Outcome::nearest;
        break;
      }
    }
    out.q = here.q;
    measure(out);
    if (is_there(here) || moving_.empty())
      out.outcome = is_there(here) ? InverseKinematics::Outcome::found : InverseKinematics::Outcome::nearest;
    return out;
  }

  RobotDynamics robot_;
  FrameTarget target_;
  InverseKinematicsOptions options_;
  int n_;
  double t_;
  Column lower_, upper_, weight_;
  std::vector<char> moves_;
  std::vector<int> moving_;                 // coordinates that move
  std::vector<std::vector<char>> carries_;  // by two coordinates
};

}  // namespace

InverseKinematics inverse_kinematics(const RobotDynamics& robot, const FrameTarget& target, const VectorX& start,
                                     const InverseKinematicsOptions& options) {
  if (start.size() != robot.positions())
    refuse_target("start has " + std::to_string(start.size()) + " components and must have " +
                  std::to_string(robot.positions()));
  return PoseSearch(robot, target, options).run(start);
}

}  // namespace linchpin::scene
