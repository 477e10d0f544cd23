#include "loop_assembly.h"

#include <linchpin/scene/robot_dynamics.h>

#include <Eigen/Cholesky>
#include <Eigen/Geometry>
#include <Eigen/QR>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <utility>

namespace linchpin::scene {

namespace {

using Dense = Eigen::MatrixXd;
using Column = Eigen::VectorXd;

// A joint that closes a loop, by the frames that it brings together.
struct ClosingJoint {
  enum class Kind { ball, hinge, slider, weld };
  std::string name;
  Kind kind = Kind::weld;
  BodyFrame frame_a, frame_b;  // x along the axis
};

BodyFrame body_frame_of(BodyId body, const JointFrame& frame) {
  return {body, frame.origin, Quaterniond(Eigen::Quaterniond(frame.axes)).normalized()};
}

std::optional<ClosingJoint::Kind> closing_kind(const std::string& type) {
  if (type == "ball") return ClosingJoint::Kind::ball;
  if (type == "hinge") return ClosingJoint::Kind::hinge;
  if (type == "slider") return ClosingJoint::Kind::slider;
  if (type == "weld") return ClosingJoint::Kind::weld;
  return {};
}

ClosingJoint closing_joint(const SceneConstraint& c, ClosingJoint::Kind kind) {
  return {c.name, kind, body_frame_of(c.bodies[0], c.frame_a), body_frame_of(c.bodies[1], c.frame_b)};
}

// [distance; rotation] from the first frame to the second, in the axes of the first, without the free directions.
Vector6 frame_gap(const ClosingJoint& joint, const Pose& A, const Pose& B) {
  Vector6 r = Vector6::Zero();
  r.head<3>() = A.q.conjugate() * Vector3d(B.p - A.p);
  if (joint.kind == ClosingJoint::Kind::slider) r[0] = 0;
  if (joint.kind == ClosingJoint::Kind::ball) return r;
  Quaterniond turn = (A.q.conjugate() * B.q).normalized();
  const bool hinge = joint.kind == ClosingJoint::Kind::hinge;
  if (hinge) turn = Eigen::Quaterniond::FromTwoVectors(Vector3d::UnitX(), turn * Vector3d::UnitX());
  r.tail<3>() = turn_between(Quaterniond::Identity(), turn);
  if (hinge) r[3] = 0;
  return r;
}

// Distance [m] or angle [rad], whichever is larger.
double size_of(const Vector6& gap) { return std::max(gap.head<3>().norm(), gap.tail<3>().norm()); }

// The joints that are open by more than open_loop at the start of a model.
std::vector<ClosingJoint> open_joints(const Model& model) {
  const auto pose = [&](const BodyFrame& frame) -> Pose {
    if (frame.body == ground) return {frame.p_BQ, frame.q_BF};
    const BodyState& s = model.bodies[static_cast<std::size_t>(frame.body.index) - 1].start;
    return {s.point(frame.p_BQ), (s.q * frame.q_BF).normalized()};
  };
  std::vector<ClosingJoint> out;
  for (const SceneConstraint& c : model.constraints) {
    const auto kind = closing_kind(c.type);
    if (!kind || c.tree || c.yields() || c.unilateral) continue;
    const ClosingJoint joint = closing_joint(c, *kind);
    if (size_of(frame_gap(joint, pose(joint.frame_a), pose(joint.frame_b))) > open_loop) out.push_back(joint);
  }
  return out;
}

RobotDynamicsOptions without(const std::vector<ClosingJoint>& joints) {
  RobotDynamicsOptions options;
  for (const ClosingJoint& joint : joints) options.without.push_back(joint.name);
  return options;
}

class LoopSearch {
 public:
  /// @param open  joints that are open at the start, which are not part of the trees
  LoopSearch(const Model& model, const std::vector<ClosingJoint>& open, const std::set<std::string, std::less<>>& held,
             bool limits)
      : model_(model),
        robot_(model, without(open)),
        n_(robot_.velocities()),
        lower_(Column::Constant(n_, -endless)),
        upper_(Column::Constant(n_, endless)),
        moves_(static_cast<std::size_t>(n_), 1),
        joints_(open) {
    const std::vector<std::string> names = robot_.constraint_names();
    const std::set<std::string, std::less<>> rows(names.begin(), names.end());
    for (const SceneConstraint& c : model.constraints)
      if (const auto kind = closing_kind(c.type); kind && rows.count(c.name))
        joints_.push_back(closing_joint(c, *kind));
    hold_free_bases();
    for (const RobotJoint& j : robot_.joints())
      if (j.positions == 1 && held.count(j.name)) moves_[static_cast<std::size_t>(j.velocity)] = 0;
    for (const RobotJoint& j : robot_.joints())
      if (limits && j.limits) lower_[j.velocity] = j.limits->first, upper_[j.velocity] = j.limits->second;
  }

  LoopAssembly run() {
    LoopAssembly out;
    const VectorX start = robot_.q(), v = robot_.v();
    const Here first = evaluate(start);
    out.gap_at_start = first.gap;
    for (int i = 0; i < n_; ++i) in_loop_.push_back(first.J.col(i).isZero(0) ? 0 : 1);
    Here best = descend(follow(first));
    std::mt19937 random(20241128);  // the same places in every call
    for (int k = 0; k < restarts && best.gap > closed; ++k) {
      Here next = descend(follow(evaluate(another_start(start, k, random))));
      if (next.cost < best.cost) best = std::move(next);
    }
    out.gap = best.gap, out.worst = best.worst;
    out.outcome = best.gap > closed_slowly ? LoopAssembly::Outcome::not_closable : LoopAssembly::Outcome::assembled;
    robot_.set_state(best.q, v, robot_.t());
    out.state = robot_.state();
    out.positions.assign(model_.constraints.size(), 0);
    for (std::size_t i = 0; i < model_.constraints.size(); ++i)
      for (const RobotJoint& j : robot_.joints())
        if (j.positions == 1 && j.name == model_.constraints[i].name) out.positions[i] = best.q[j.position];
    return out;
  }

 private:
  static constexpr double endless = std::numeric_limits<double>::infinity();
  static constexpr double closed = 1e-9;  // [m or rad]; the rest is round-off
  // Where a loop closes with joints exactly at their limits, the search converges slowly and ends at some 1e-9. Such a
  // rest is far below open_loop, and hosts close it.
  static constexpr double closed_slowly = 1e-7;
  static constexpr int restarts = 20;

  struct Here {
    VectorX q;
    Column r;                  // gaps of the joints, then the other rows on positions
    Dense J;                   // ∂r/∂q
    double cost = 0, gap = 0;  // ½|r|², largest distance, angle or row
    std::string worst;
  };

  // The base of a robot stays where it is: the first body of a tree that no constraint of the tree moves.
  void hold_free_bases() {
    std::set<int> hanging;  // bodies that a joint names as its second one, such as a universal joint
    for (const SceneConstraint& c : model_.constraints)
      if (c.bodies.size() == 2) hanging.insert(c.bodies[1].index);
    for (const RobotJoint& j : robot_.joints()) {
      const bool free = j.kind == RobotJoint::Kind::free_body || j.kind == RobotJoint::Kind::free_particle;
      if (!free || hanging.count(j.child.index)) continue;
      for (int k = 0; k < j.velocities; ++k) moves_[static_cast<std::size_t>(j.velocity + k)] = 0;
    }
  }

  Here evaluate(const VectorX& q) {
    Here out;
    out.q = q;
    robot_.set_state(q, VectorX::Zero(n_), robot_.t());
    const RobotConstraints rows = robot_.constraints();
    std::vector<Eigen::Index> others;
    for (Eigen::Index i = 0; i < rows.A.rows(); ++i) {
      const auto k = static_cast<std::size_t>(i);
      const bool closing = std::any_of(joints_.begin(), joints_.end(),
                                       [&](const ClosingJoint& joint) { return joint.name == rows.names[k]; });
      if (!closing && rows.levels[k] == Level::position) others.push_back(i);
    }
    const auto of_joints = 6 * static_cast<Eigen::Index>(joints_.size());
    out.r = Column::Zero(of_joints + static_cast<Eigen::Index>(others.size()));
    out.J = Dense::Zero(out.r.size(), n_);
    const auto take = [&](double gap, const std::string& name) {
      if (gap > out.gap || out.worst.empty()) out.gap = std::max(gap, out.gap), out.worst = name;
    };
    for (std::size_t k = 0; k < joints_.size(); ++k) {
      const auto at = 6 * static_cast<Eigen::Index>(k);
      add(joints_[k], out.r.segment<6>(at), out.J.middleRows<6>(at));
      take(size_of(out.r.segment<6>(at)), joints_[k].name);
    }
    for (std::size_t k = 0; k < others.size(); ++k) {
      const auto at = of_joints + static_cast<Eigen::Index>(k);
      out.r[at] = rows.position[others[k]];
      if (const auto whole = coupling(rows.names[static_cast<std::size_t>(others[k])], q)) out.r[at] = *whole;
      out.J.row(at) = rows.A.row(others[k]);
      take(std::abs(out.r[at]), rows.names[static_cast<std::size_t>(others[k])]);
    }
    for (int i = 0; i < n_; ++i)
      if (!moves_[static_cast<std::size_t>(i)]) out.J.col(i).setZero();
    out.cost = 0.5 * out.r.squaredNorm();
    return out;
  }

  // The row of a mimic by joint positions, which count whole turns. The row itself counts them from step to step only.
  std::optional<double> coupling(const std::string& name, const VectorX& q) const {
    for (const SceneConstraint& c : model_.constraints) {
      if (c.name != name || !c.mimic) continue;
      const RobotJoint *follower = nullptr, *leader = nullptr;
      for (const RobotJoint& j : robot_.joints()) {
        if (j.positions != 1) continue;
        if (j.name == c.mimic->follower) follower = &j;
        if (j.name == c.mimic->leader) leader = &j;
      }
      if (follower && leader)
        return q[follower->position] - c.mimic->multiplier * q[leader->position] - c.mimic->offset;
    }
    return {};
  }

  // frame_gap(), and its derivative.
  void add(const ClosingJoint& joint, Eigen::Ref<Column> r, Eigen::Ref<Dense> J) const {
    const Pose A = robot_.pose(joint.frame_a), B = robot_.pose(joint.frame_b);
    r = frame_gap(joint, A, B);
    const Matrix3d R = A.q.toRotationMatrix().transpose();
    const Dense JA = robot_.jacobian(joint.frame_a), JB = robot_.jacobian(joint.frame_b);
    const Vector3d d = B.p - A.p;
    J.topRows(3) = R * (JB.topRows(3) - JA.topRows(3));
    for (Eigen::Index c = 0; c < J.cols(); ++c)
      J.col(c).head<3>() -= R * Vector3d(JA.col(c).tail<3>()).cross(d);  // the first frame turns under it
    J.bottomRows(3) = R * (JB.bottomRows(3) - JA.bottomRows(3));
    switch (joint.kind) {
      case ClosingJoint::Kind::ball:
        J.bottomRows(3).setZero();
        break;
      case ClosingJoint::Kind::hinge:
        J.row(3).setZero();
        break;
      case ClosingJoint::Kind::slider:
        J.row(0).setZero();
        break;
      case ClosingJoint::Kind::weld:
        break;
    }
  }

  // The step that reduces r − target most, of those that keep the limits.
  Column step(const Here& here, const Column& wanted, double damping) const {
    std::vector<char> fixed(static_cast<std::size_t>(n_));
    Column low = Column::Constant(n_, -endless), high = Column::Constant(n_, endless), d = Column::Zero(n_);
    for (const RobotJoint& j : robot_.joints())
      if (j.positions == 1)
        low[j.velocity] = lower_[j.velocity] - here.q[j.position],
        high[j.velocity] = upper_[j.velocity] - here.q[j.position];
    for (int pass = 0; pass <= n_; ++pass) {
      std::vector<int> free;
      Column rest = wanted - here.J * d;
      for (int i = 0; i < n_; ++i)
        if (moves_[static_cast<std::size_t>(i)] && !fixed[static_cast<std::size_t>(i)]) {
          free.push_back(i);
          rest += here.J.col(i) * d[i];
        }
      if (free.empty()) break;
      Dense J(here.J.rows(), static_cast<Eigen::Index>(free.size()));
      for (std::size_t k = 0; k < free.size(); ++k) J.col(static_cast<Eigen::Index>(k)) = here.J.col(free[k]);
      Dense H = J.transpose() * J;
      H.diagonal().array() += damping;
      const Column x = H.ldlt().solve(J.transpose() * rest);
      bool again = false;
      for (std::size_t k = 0; k < free.size(); ++k) {
        const int i = free[k];
        d[i] = x[static_cast<Eigen::Index>(k)];
        if (d[i] >= low[i] && d[i] <= high[i]) continue;
        d[i] = std::clamp(d[i], std::min(low[i], 0.0), std::max(high[i], 0.0));
        fixed[static_cast<std::size_t>(i)] = 1, again = true;
      }
      if (!again) break;
    }
    return d;
  }

  VectorX within_limits(VectorX q) const {
    for (const RobotJoint& j : robot_.joints())
      if (j.positions == 1 && moves_[static_cast<std::size_t>(j.velocity)])
        q[j.position] = std::clamp(q[j.position], lower_[j.velocity], upper_[j.velocity]);
    return q;
  }
  Here moved(const Here& from, Column d) {
    if (const double longest = d.cwiseAbs().maxCoeff(); longest > longest_step) d *= longest_step / longest;
    return evaluate(within_limits(robot_.moved(from.q, d)));
  }
  static constexpr double longest_step = 0.5;  // [rad or m]

  // Continuation: r(q(s)) = (1 − s) r(q(0)), with s from 0 to 1.
  Here follow(const Here& start) {
    Here here = start;
    double s = 0, ds = 0.1;
    while (s < 1 && ds > 1e-4) {
      const double to = std::min(1.0, s + ds);
      const Column target = (1 - to) * start.r;
      Here next = here;
      double error = (next.r - target).norm();
      const double enough = std::max(1e-9, 1e-3 * ds * start.r.norm());
      for (int k = 0; k < 8 && error > enough; ++k) {
        Here trial = moved(next, step(next, target - next.r, 1e-10));
        const double now = (trial.r - target).norm();
        if (!(now < 0.7 * error)) break;
        next = std::move(trial), error = now;
      }
      if (error > enough) {
        ds *= 0.5;
        continue;
      }
      here = std::move(next), s = to, ds = std::min(2 * ds, 0.25);
    }
    return here;
  }

  // Levenberg–Marquardt on ½|r|² within the limits.
  Here descend(Here here) {
    double mu = 1e-4;
    int slow = 0;
    for (int k = 0; k < 400 && here.gap > 1e-13 && slow < 5; ++k) {
      Here next = moved(here, step(here, -here.r, std::max(1e-14, mu)));
      if (next.cost < here.cost) {
        slow = next.cost > here.cost * (1 - 1e-9) ? slow + 1 : 0;
        here = std::move(next);
        mu *= 0.1;
      } else {
        mu = std::max(10 * mu, 1e-10);
        if (mu > 1e6) break;
      }
    }
    return polished(std::move(here));
  }

  // Gauss–Newton steps of least norm, which have no damping and no square of the condition of J.
  Here polished(Here here) {
    for (int k = 0; k < 5 && here.gap > 1e-13 && here.gap < 1e-4; ++k) {
      Eigen::CompleteOrthogonalDecomposition<Dense> factor;
      factor.setThreshold(1e-9);
      factor.compute(here.J);
      Here next = moved(here, factor.solve(-here.r));
      if (!(next.cost < here.cost)) break;
      here = std::move(next);
    }
    return here;
  }

  // First a little beside the start, which may be singular; then anywhere.
  VectorX another_start(const VectorX& start, int k, std::mt19937& random) {
    const auto unit = [&] { return 2 * (double(random()) / 4294967295.0) - 1; };
    const double spread = k < 2 ? 0.1 : k < 6 ? 0.4 : k < 12 ? 1 : 2.5;
    Column d = Column::Zero(n_);
    for (const RobotJoint& j : robot_.joints()) {
      const bool slides = j.kind == RobotJoint::Kind::slider || j.kind == RobotJoint::Kind::free_particle;
      for (int c = 0; c < j.velocities; ++c) {
        const double to = unit();
        const bool shift = slides || (j.kind == RobotJoint::Kind::free_body && c < 3);
        if (in_loop_[static_cast<std::size_t>(j.velocity + c)]) d[j.velocity + c] = (shift ? 0.1 : 1) * spread * to;
      }
    }
    return within_limits(robot_.moved(start, d));
  }

  const Model& model_;
  RobotDynamics robot_;
  int n_;
  Column lower_, upper_;
  std::vector<char> moves_;    // by coordinate: whether it may move
  std::vector<char> in_loop_;  // whether a gap depends on it
  std::vector<ClosingJoint> joints_;
};

}  // namespace

LoopAssembly assemble_loops(const Model& model, const std::set<std::string, std::less<>>& held) {
  const std::vector<ClosingJoint> open = open_joints(model);
  if (open.empty()) return {};
  LoopAssembly out = LoopSearch(model, open, held, true).run();
  if (out.outcome == LoopAssembly::Outcome::not_closable && !held.empty()) {
    LoopAssembly freed = LoopSearch(model, open, {}, true).run();
    if (freed.outcome == LoopAssembly::Outcome::assembled) {
      out = std::move(freed);
      for (std::size_t i = 0; i < model.constraints.size(); ++i) {
        const SceneConstraint& c = model.constraints[i];
        if (held.count(c.name) && std::abs(out.positions[i] - c.start) > 1e-9) out.moved.push_back(c.name);
      }
    }
  }
  if (out.outcome == LoopAssembly::Outcome::not_closable) {
    const LoopAssembly unlimited = LoopSearch(model, open, {}, false).run();
    for (std::size_t i = 0; i < model.constraints.size() && unlimited.outcome == LoopAssembly::Outcome::assembled; ++i)
      if (const auto& limits = model.constraints[i].limits;
          limits && (unlimited.positions[i] < limits->first || unlimited.positions[i] > limits->second))
        out.beyond_limits.push_back(model.constraints[i].name);
  }
  for (const ClosingJoint& joint : open) out.opened.push_back(joint.name);
  return out;
}

}  // namespace linchpin::scene
