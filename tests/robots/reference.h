// The dynamics of a robot of robots.txt, written from the table by the textbook and without any code of linchpin:
// positions link by link, Jacobians by cross products, the mass matrix as the sum over bodies, Newton–Euler inwards and
// outwards, loops by their Lagrange multipliers. Nothing here is fast. World axes, SI units.
#pragma once

#include "table.h"

#include <Eigen/Dense>

#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace linchpin::test::robots {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

/// The columns of the velocities u: a free root has velocity of its centre of mass and angular velocity, a hinge and a
/// slider their rate, a ball the relative angular velocity in the axes of its joint on the parent.
class Reference {
 public:
  /// @param losses  with damping and friction @param closed  with loops and mimics
  Reference(const Robot& robot, bool losses, bool closed = true) : robot_(robot), losses_(losses), closed_(closed) {
    const std::size_t n = robot.links.size();
    q.assign(n, 0), R_.resize(n), o_.resize(n), c_.resize(n), first_.resize(n), ball.assign(n, Matrix3d::Identity());
    for (std::size_t i = 0; i < n; ++i) {
      first_[i] = dof_;
      dof_ += count(i);
    }
    u = Vector::Zero(dof_);
  }

  std::vector<double> q;       ///< of hinges and sliders, by link [rad or m]
  std::vector<Matrix3d> ball;  ///< of ball joints: turn of the link in the frame of its joint
  Vector3d base_p = Vector3d::Zero();
  Matrix3d base_R = Matrix3d::Identity();
  Vector u;  ///< velocities
  Vector3d gravity{0, 0, -9.81};

  int dof() const { return dof_; }
  int first(int link) const { return first_[at(link)]; }
  int count(std::size_t i) const {
    const Link& link = robot_.links[i];
    if (link.parent < 0) return robot_.free ? 6 : 0;
    return link.kind == JointKind::weld ? 0 : link.kind == JointKind::ball ? 3 : 1;
  }
  const Matrix3d& R(int link) const { return R_[at(link)]; }
  const Vector3d& centre(int link) const { return c_[at(link)]; }
  Vector3d point(int link, const Vector3d& p) const { return o_[at(link)] + R_[at(link)] * p; }

  /// Places the links by q.
  void place() {
    for (std::size_t i = 0; i < q.size(); ++i) {
      const Link& link = robot_.links[i];
      if (link.parent < 0) {
        R_[i] = base_R, o_[i] = base_p;
      } else {
        const Matrix3d& P = R_[at(link.parent)];
        o_[i] = o_[at(link.parent)] + P * link.at;
        R_[i] = P * link.turn;
        if (link.kind == JointKind::hinge) R_[i] = R_[i] * Eigen::AngleAxisd(q[i], link.axis).toRotationMatrix();
        if (link.kind == JointKind::slider) o_[i] += R_[i] * link.axis * q[i];
        if (link.kind == JointKind::ball) R_[i] = R_[i] * ball[i];
      }
      c_[i] = o_[i] + R_[i] * link.com;
    }
  }

  /// [6 × dof] of a point that moves with a link: linear above angular.
  Matrix jacobian(int link, const Vector3d& p) const {
    Matrix J = Matrix::Zero(6, dof_);
    for (int i = link; i >= 0; i = robot_.link(i).parent) {
      const Link& via = robot_.link(i);
      const int k = first(i);
      if (via.parent < 0) {
        if (!robot_.free) break;
        J.block<3, 3>(0, k).setIdentity(), J.block<3, 3>(3, k + 3).setIdentity();
        for (int e = 0; e < 3; ++e) J.block<3, 1>(0, k + 3 + e) = Vector3d::Unit(e).cross(p - c_[at(i)]);
      } else if (via.kind == JointKind::slider) {
        J.block<3, 1>(0, k) = R_[at(i)] * via.axis;
      } else {
        for (int e = 0; e < count(at(i)); ++e) {
          const Vector3d about = via.kind == JointKind::hinge ? Vector3d(R_[at(i)] * via.axis)
                                                              : Vector3d((R_[at(via.parent)] * via.turn).col(e));
          J.block<3, 1>(0, k + e) = about.cross(p - o_[at(i)]), J.block<3, 1>(3, k + e) = about;
        }
      }
    }
    return J;
  }
  Matrix jacobian(int link) const { return jacobian(link, c_[at(link)]); }

  Matrix3d inertia(int link) const { return R(link) * robot_.link(link).inertia * R(link).transpose(); }
  Matrix mass_matrix() const {
    Matrix M = Matrix::Zero(dof_, dof_);
    for (int i = 0; i < links(); ++i) {
      if (robot_.link(i).mass == 0) continue;
      const Matrix J = jacobian(i);
      M += robot_.link(i).mass * J.topRows(3).transpose() * J.topRows(3) +
           J.bottomRows(3).transpose() * inertia(i) * J.bottomRows(3);
    }
    return M;
  }

  /// Motion of all links for an acceleration of the coordinates.
  struct Motion {
    std::vector<Vector3d> w, alpha, v, a;  ///< of the origin of the link, but of the root of its centre
  };
  Motion motion(const Vector& udot) const {
    const std::size_t n = q.size();
    Motion m{std::vector<Vector3d>(n, Vector3d::Zero()), std::vector<Vector3d>(n, Vector3d::Zero()),
             std::vector<Vector3d>(n, Vector3d::Zero()), std::vector<Vector3d>(n, Vector3d::Zero())};
    for (std::size_t i = 0; i < n; ++i) {
      const Link& link = robot_.links[i];
      const int k = first_[i];
      if (link.parent < 0) {
        if (!robot_.free) continue;
        m.v[i] = u.segment<3>(k), m.w[i] = u.segment<3>(k + 3);
        m.a[i] = udot.segment<3>(k), m.alpha[i] = udot.segment<3>(k + 3);
        const Vector3d r = o_[i] - c_[i];
        m.v[i] += m.w[i].cross(r), m.a[i] += m.alpha[i].cross(r) + m.w[i].cross(m.w[i].cross(r));
        continue;
      }
      const std::size_t p = at(link.parent);
      const Vector3d r = o_[i] - o_[p], &w = m.w[p];
      m.v[i] = m.v[p] + w.cross(r);
      m.a[i] = m.a[p] + m.alpha[p].cross(r) + w.cross(w.cross(r));
      Vector3d turning = Vector3d::Zero(), faster = turning, sliding = turning;
      if (link.kind == JointKind::hinge) turning = R_[i] * link.axis * u[k], faster = R_[i] * link.axis * udot[k];
      if (link.kind == JointKind::ball) {
        const Matrix3d E = R_[p] * link.turn;
        turning = E * u.segment<3>(k), faster = E * udot.segment<3>(k);
      }
      if (link.kind == JointKind::slider) {
        sliding = R_[i] * link.axis * u[k];
        m.v[i] += sliding, m.a[i] += R_[i] * link.axis * udot[k] + 2 * w.cross(sliding);
      }
      m.w[i] = w + turning, m.alpha[i] = m.alpha[p] + faster + w.cross(turning);
    }
    return m;
  }
  Vector3d velocity(const Motion& m, int i, const Vector3d& p) const {
    return m.v[at(i)] + m.w[at(i)].cross(p - o_[at(i)]);
  }
  Vector3d acceleration(const Motion& m, int i, const Vector3d& p) const {
    const Vector3d r = p - o_[at(i)];
    return m.a[at(i)] + m.alpha[at(i)].cross(r) + m.w[at(i)].cross(m.w[at(i)].cross(r));
  }
  /// [linear of the centre of mass; angular].
  Vector6 acceleration(const Motion& m, int i) const {
    Vector6 out;
    out << acceleration(m, i, c_[at(i)]), m.alpha[at(i)];
    return out;
  }

  /// A force and a moment about the centre of mass of a link.
  struct Load {
    Vector3d force = Vector3d::Zero(), moment = Vector3d::Zero();
  };
  /// What the joint of each link has to transmit to it, about its centre of mass. @param loads  on the links besides
  /// gravity
  std::vector<Load> transmitted(const Motion& m, const std::vector<Load>& loads, const Vector3d& g) const {
    std::vector<Load> out(q.size());
    for (int i = links() - 1; i >= 0; --i) {
      const Link& link = robot_.link(i);
      Load& load = out[at(i)];
      load.force += link.mass * (acceleration(m, i, c_[at(i)]) - g) - loads[at(i)].force;
      const Matrix3d I = inertia(i);
      const Vector3d& w = m.w[at(i)];
      load.moment += I * m.alpha[at(i)] + w.cross(I * w) - loads[at(i)].moment;
      if (link.parent < 0) continue;
      Load& up = out[at(link.parent)];
      up.force += load.force, up.moment += load.moment + (c_[at(i)] - c_[at(link.parent)]).cross(load.force);
    }
    return out;
  }
  /// The same along the coordinates.
  Vector along(const std::vector<Load>& transmitted) const {
    Vector tau = Vector::Zero(dof_);
    for (int i = 0; i < links(); ++i) {
      const Link& link = robot_.link(i);
      const Load& load = transmitted[at(i)];
      const int k = first(i);
      const Vector3d about_joint = load.moment + (c_[at(i)] - o_[at(i)]).cross(load.force);
      if (link.parent < 0) {
        if (robot_.free) tau.segment<3>(k) = load.force, tau.segment<3>(k + 3) = load.moment;
      } else if (link.kind == JointKind::hinge) {
        tau[k] = about_joint.dot(R(i) * link.axis);
      } else if (link.kind == JointKind::slider) {
        tau[k] = load.force.dot(R(i) * link.axis);
      } else if (link.kind == JointKind::ball) {
        tau.segment<3>(k) = (R(link.parent) * link.turn).transpose() * about_joint;
      }
    }
    return tau;
  }
  std::vector<Load> no_loads() const { return std::vector<Load>(q.size()); }
  Vector bias_force() const { return along(transmitted(motion(Vector::Zero(dof_)), no_loads(), Vector3d::Zero())); }
  Vector gravity_force() const {
    Vector g = Vector::Zero(dof_);
    for (int i = 0; i < links(); ++i) g += jacobian(i).topRows(3).transpose() * (robot_.link(i).mass * gravity);
    return g;
  }
  /// Damping and friction.
  Vector losses() const {
    Vector tau = Vector::Zero(dof_);
    for (int i = 0; i < links(); ++i) {
      if (count(at(i)) != 1) continue;
      const double rate = u[first(i)];
      if (losses_)
        tau[first(i)] = -robot_.link(i).damping * rate - robot_.link(i).friction * (rate > 0 ? 1 : rate < 0 ? -1 : 0);
    }
    return tau;
  }

  /// Rows A u̇ = b of loops, then of mimics, and the residuals of positions.
  struct Rows {
    Matrix A;
    Vector b, position;
  };
  Rows rows() const {
    const Motion still = motion(Vector::Zero(dof_));
    int m = 0;
    for (const Loop& loop : robot_.loops) m += loop.pin ? 2 : 3;
    for (const Link& link : robot_.links) m += link.leader >= 0;
    if (!closed_) m = 0;
    Rows out{Matrix::Zero(m, dof_), Vector::Zero(m), Vector::Zero(m)};
    if (!closed_) return out;
    int row = 0;
    for (const Loop& loop : robot_.loops) {
      const Vector3d pa = point(loop.a, loop.at_a), pb = point(loop.b, loop.at_b), d = pb - pa;
      const Matrix JA = jacobian(loop.a, pa), JB = jacobian(loop.b, pb);
      const Vector3d &w = still.w[at(loop.a)], &alpha = still.alpha[at(loop.a)];
      const Vector3d closing = velocity(still, loop.b, pb) - velocity(still, loop.a, pa);
      const Vector3d faster = acceleration(still, loop.b, pb) - acceleration(still, loop.a, pa);
      for (const Vector3d& e : directions(loop)) {
        const Vector3d e_rate = w.cross(e), e_faster = alpha.cross(e) + w.cross(e_rate);
        out.A.row(row) = e.transpose() * (JB.topRows(3) - JA.topRows(3));
        out.A.row(row) += e.cross(d).transpose() * JA.bottomRows(3);
        out.b[row] = -(e.dot(faster) + 2 * e_rate.dot(closing) + e_faster.dot(d));
        out.position[row++] = e.dot(d);
      }
    }
    for (int i = 0; i < links(); ++i) {
      const Link& link = robot_.link(i);
      if (link.leader < 0) continue;
      out.A(row, first(i)) = 1, out.A(row, first(link.leader)) = -link.multiplier;
      out.position[row++] = q[at(i)] - link.multiplier * q[at(link.leader)] - link.offset;
    }
    return out;
  }

  /// u̇, the multipliers, and what the joints transmit: with all losses, without what mimics exert.
  struct Answer {
    Vector udot, lambda;
    Motion motion;
    std::vector<Load> transmitted;
    /// Of loops on their second link and of mimics on their own link, by the names in linchpin.
    std::map<std::string, Load> closing;
    Matrix response;  ///< P with u̇ = P τ + …
  };
  Answer solve() const {
    const Matrix M = mass_matrix();
    const Vector f = losses() + gravity_force() - bias_force();
    const Rows loop = rows();
    const Eigen::LLT<Matrix> llt(M);
    Answer out;
    const Matrix inverse = llt.solve(Matrix::Identity(dof_, dof_));
    out.udot = llt.solve(f), out.response = inverse, out.lambda = Vector::Zero(loop.b.size());
    if (loop.b.size() > 0) {
      const Matrix L = llt.matrixL().solve(loop.A.transpose());  // A M⁻¹ Aᵀ = Lᵀ L
      const Eigen::LDLT<Matrix> schur(L.transpose() * L);
      out.lambda = schur.solve(loop.b - loop.A * out.udot);
      out.udot += llt.solve(loop.A.transpose() * out.lambda);
      const Matrix W = inverse * loop.A.transpose();
      out.response -= W * schur.solve(W.transpose());
    }
    out.motion = motion(out.udot);
    std::vector<Load> loads = no_loads();
    int row = 0;
    const auto push = [&](int link, const Vector3d& force, const Vector3d& at_point, double sign) {
      loads[at(link)].force += sign * force;
      loads[at(link)].moment += sign * (at_point - c_[at(link)]).cross(force);
    };
    for (const Loop& loop_joint : robot_.loops)
      for (const Vector3d& e : directions(loop_joint)) {
        if (!closed_) break;
        const Vector3d force = out.lambda[row++] * e, pb = point(loop_joint.b, loop_joint.at_b);
        push(loop_joint.b, force, pb, 1), push(loop_joint.a, force, pb, -1);
        Load& load = out.closing[loop_joint.name];
        load.force += force, load.moment += (pb - c_[at(loop_joint.b)]).cross(force);
      }
    out.transmitted = transmitted(out.motion, loads, gravity);
    for (int i = 0; closed_ && i < links(); ++i) {
      const Link& link = robot_.link(i);
      if (link.leader < 0) continue;
      const double effort = out.lambda[row++];
      for (const int joint : {i, link.leader}) {
        const Load on = along_joint(joint, joint == i ? effort : -link.multiplier * effort);
        Load& load = out.transmitted[at(joint)];
        load.force -= on.force, load.moment -= on.moment;
        if (joint == i) out.closing[link.joint() + ".mimic"] = on;
      }
    }
    return out;
  }

  void take_state(const Reference& from) {
    q = from.q, ball = from.ball, base_p = from.base_p, base_R = from.base_R, u = from.u;
    place();
  }
  /// A force or torque along the coordinate of a joint, on its link.
  Load along_joint(int joint, double effort) const {
    const Vector3d along = R(joint) * robot_.link(joint).axis * effort;
    if (robot_.link(joint).kind == JointKind::hinge) return {Vector3d::Zero(), along};
    return {along, (o_[at(joint)] - c_[at(joint)]).cross(along)};
  }
  /// A position within the limits that closes the loops, and rates that keep them closed.
  void put_at_random(unsigned seed) {
    std::mt19937 bits(seed);
    const auto random = [&](double low, double high) { return low + (high - low) * (double(bits()) / 4294967295.0); };
    const auto vector = [&](double size) {
      const double x = random(-size, size), y = random(-size, size), z = random(-size, size);
      return Vector3d(x, y, z);
    };
    const bool loops = !robot_.loops.empty();
    base_p = vector(1), base_R = rotation(vector(2));
    for (std::size_t i = 0; i < q.size(); ++i) {
      const Link& link = robot_.links[i];
      const double low = link.within ? std::max(link.within->first, -2.0) : -2,
                   high = link.within ? std::min(link.within->second, 2.0) : 2;
      const double r = random(0.1, 0.9);
      q[i] = loops         ? link.near + 0.05 * (r - 0.5)
             : low <= high ? low + r * (high - low)
                           : 0.5 * (link.within->first + link.within->second);
      if (link.kind == JointKind::slider && loops) q[i] *= 0.2;
      if (link.kind == JointKind::ball && !loops) ball[i] = rotation(vector(1));
      if (link.leader >= 0) q[i] = link.multiplier * q[at(link.leader)] + link.offset;
    }
    place();
    for (int k = 0; k < 50 && rows().b.size() > 0; ++k) {
      const Rows at_q = rows();
      if (at_q.position.norm() < 1e-16) break;
      move(-at_q.A.transpose() * (at_q.A * at_q.A.transpose()).ldlt().solve(at_q.position));
    }
    for (int k = 0; k < dof_; ++k) u[k] = random(0.2, 2) * (bits() % 2 ? 1 : -1);
    for (int i = 0; i < links(); ++i)
      if (robot_.link(i).kind == JointKind::slider) u[first(i)] *= 0.1;
    const Matrix A = rows().A;
    if (A.rows() > 0)
      for (int k = 0; k < 3; ++k) u -= A.transpose() * (A * A.transpose()).ldlt().solve(A * u);
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  int links() const { return static_cast<int>(q.size()); }
  std::vector<Vector3d> directions(const Loop& loop) const {
    if (!loop.pin) return {Vector3d::UnitX(), Vector3d::UnitY(), Vector3d::UnitZ()};
    const Vector3d e = loop.axis.unitOrthogonal();
    return {R(loop.a) * e, R(loop.a) * loop.axis.cross(e)};
  }
  void move(const Vector& dq) {
    for (std::size_t i = 0; i < q.size(); ++i) {
      const Link& link = robot_.links[i];
      if (link.parent < 0) continue;  // A loop does not depend on it.
      if (count(i) == 1) q[i] += dq[first_[i]];
      if (link.kind != JointKind::ball) continue;
      const Vector3d turn = dq.segment<3>(first_[i]);
      if (turn.norm() > 0) ball[i] = Eigen::AngleAxisd(turn.norm(), turn.normalized()).toRotationMatrix() * ball[i];
    }
    place();
  }

  const Robot& robot_;
  bool losses_, closed_;
  int dof_ = 0;
  std::vector<int> first_;
  std::vector<Matrix3d> R_;
  std::vector<Vector3d> o_, c_;
};

}  // namespace linchpin::test::robots
