#include "joint_coordinate.h"

#include <linchpin/report.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace linchpin::scene {

std::vector<Vector6> wrenches_of(const Force& force, const State& state) {
  std::vector<BodyState> X;
  for (const BodyId id : force.bodies()) X.push_back(state[id]);
  std::vector<Vector6> wrenches(X.size(), Vector6::Zero());
  ForceFrame frame(state.t, X, wrenches);
  force.act(frame);
  return wrenches;
}

namespace {

Vector3d centripetal(const BodyState& s, const Vector3d& r) { return s.w.cross(s.w.cross(r)); }

// u_P · (p_CQ − p_PQ)
CoordinateRow shift(const JointCoordinate& j, const BodyState& P, const BodyState& C) {
  const Vector3d u = P.q * Vector3d(j.frame_P.axes.col(0));
  const Vector3d r_P = P.q * j.frame_P.origin, r_C = C.q * j.frame_C.origin;
  const Vector3d d = (C.p - P.p) + (r_C - r_P);
  const Vector3d d_dot = C.v + C.w.cross(r_C) - P.v - P.w.cross(r_P), u_dot = P.w.cross(u);
  CoordinateRow out;
  out.value = u.dot(d);
  out.rate = u.dot(d_dot) + u_dot.dot(d);
  out.linear_C = u, out.linear_P = -u;
  out.angular_C = r_C.cross(u);
  out.angular_P = u.cross(d) - r_P.cross(u);
  out.b = -(2 * u_dot.dot(d_dot) + centripetal(P, u).dot(d) + u.dot(centripetal(C, r_C) - centripetal(P, r_P)));
  return out;
}

// The angle from y of P to y of C about x of P, by sine and cosine, so that A and b are those of the residual wherever
// the axes are.
CoordinateRow turn(const JointCoordinate& j, const BodyState& P, const BodyState& C, double near) {
  const Vector3d arrow = C.q * Vector3d(j.frame_C.axes.col(1));
  struct Dot {  // arrow · w, w fixed in P
    Dot(const Vector3d& a, const Vector3d& w, const BodyState& A, const BodyState& B)
        : value(a.dot(w)),
          n(a.cross(w)),
          rate(n.dot(A.w - B.w)),
          b(-(centripetal(A, a).dot(w) + 2 * A.w.cross(a).dot(B.w.cross(w)) + a.dot(centripetal(B, w)))) {}
    double value;
    Vector3d n;
    double rate, b;
  };
  const Dot c(arrow, P.q * Vector3d(j.frame_P.axes.col(1)), C, P),
      s(arrow, P.q * Vector3d(j.frame_P.axes.col(2)), C, P);
  const double r2 = s.value * s.value + c.value * c.value;
  CoordinateRow out;
  out.value = near + std::remainder(std::atan2(s.value, c.value) - near, 2 * std::numbers::pi);
  out.rate = (c.value * s.rate - s.value * c.rate) / r2;
  out.b = (c.value * s.b - s.value * c.b) / r2 + 2 * out.rate * (s.value * s.rate + c.value * c.rate) / r2;
  out.angular_C = (c.value * s.n - s.value * c.n) / r2;
  out.angular_P = -out.angular_C;
  return out;
}

// Along the coordinate. Bodies 0 and 1 of the force are the parent and the child.
double force_of_actuator(const std::string& name, const JointCoordinate& j, const Observation& at) {
  for (const Force& force : at.system.forces()) {
    if (force.name() != name) continue;
    const std::vector<Vector6> wrenches = wrenches_of(force, at.state);
    const Vector3d axis = at.state[BodyId{j.parent}].q * Vector3d(j.frame_P.axes.col(0));
    return axis.dot(j.slides ? wrenches[1].head<3>() : wrenches[1].tail<3>());
  }
  return 0;
}

}  // namespace

CoordinateRow coordinate_row(const JointCoordinate& j, const BodyState& P, const BodyState& C, double near) {
  return j.slides ? shift(j, P, C) : turn(j, P, C, near);
}

bool has_coordinate(const SceneConstraint& c) {
  // The frames of an imported joint are not known.
  return !c.imported && (c.type == "hinge" || c.type == "slider") && c.bodies.size() == 2;
}

JointCoordinate coordinate_of(const SceneConstraint& c, const State& start) {
  JointCoordinate out;
  out.parent = c.bodies[0].index, out.child = c.bodies[1].index;
  out.slides = c.type == "slider";
  out.frame_P = c.frame_a, out.frame_C = c.frame_b;
  out.start = c.start;
  out.zero = coordinate_row(out, start[c.bodies[0]], start[c.bodies[1]], c.start).value - c.start;
  return out;
}

JointCoordinate driven_coordinate_of(const SceneConstraint& c, const State& start,
                                     std::span<const SceneConstraint> constraints, std::span<const SceneForce> forces) {
  JointCoordinate out = coordinate_of(c, start);
  for (const SceneForce& force : forces)
    if (force.joint == c.name) out.actuators.push_back(force.name);
  for (const SceneConstraint& drive : constraints)
    if ((drive.type == "prescribed_angle" || drive.type == "prescribed_distance") && drive.bodies == c.bodies)
      out.actuators.push_back(drive.name);
  out.actuators.push_back(motor_name(c.name));
  return out;
}

double JointReader::position(std::string_view name, const State& at) {
  if (at.t < t_) last_.clear();
  t_ = at.t;
  const JointCoordinate& j = joint(name);
  auto last = last_.find(name);
  if (last == last_.end()) last = last_.emplace(std::string(name), j.start + j.zero).first;
  last->second = row(j, at, last->second).value;
  return last->second - j.zero;
}

void JointReader::set_near(std::string_view name, double position) {
  last_.insert_or_assign(std::string(name), position + joint(name).zero);
}

double JointReader::velocity(std::string_view name, const State& at) const { return row(joint(name), at, 0).rate; }

double JointReader::acceleration(std::string_view name, const State& at, const Vector6& P, const Vector6& C) const {
  const CoordinateRow r = row(joint(name), at, 0);
  return r.linear_P.dot(P.head<3>()) + r.angular_P.dot(P.tail<3>()) + r.linear_C.dot(C.head<3>()) +
         r.angular_C.dot(C.tail<3>()) - r.b;
}

namespace {

/// Whether a constraint is a limit of a joint: with_joint_limits() names them.
bool is_limit_of(std::string_view joint, std::string_view constraint) {
  if (!constraint.starts_with(joint)) return false;
  const std::string_view end = constraint.substr(joint.size());
  return end == ".lower" || end == ".upper" || end == ".limits";
}

}  // namespace

double JointReader::force(std::string_view name, const Observation& at) const {
  if (at.reactions.empty()) return std::numeric_limits<double>::quiet_NaN();  // Those of the joint are not known.
  const JointCoordinate& j = joint(name);
  const BodyState &P = at.state[BodyId{j.parent}], &C = at.state[BodyId{j.child}];
  const Vector3d axis = P.q * Vector3d(j.frame_P.axes.col(0)), p_WQ = C.p + C.q * j.frame_C.origin;
  double sum = 0;
  for (const Reaction& r : at.reactions) {
    if (is_limit_of(name, r.name)) continue;
    const ConstraintId id = at.system.find_constraint(r.name);
    if (id.index < 0) continue;
    const auto bodies = at.system.constraint(id).bodies();
    if (bodies.size() != 2) continue;
    const int k = bodies[1].index == j.child ? 1 : 0;
    if (bodies[k].index != j.child || bodies[1 - k].index != j.parent) continue;
    sum += axis.dot(j.slides ? r.on(k).force : r.on(k).about(p_WQ).moment);
  }
  for (const std::string& name : j.actuators) sum += force_of_actuator(name, j, at);
  return sum;
}

Wrench JointReader::wrench_of_actuators(std::string_view name, int on, const Observation& at) const {
  Wrench sum;
  const auto found = joints_->find(name);
  if (found == joints_->end()) return sum;
  const JointCoordinate& j = found->second;
  sum.point = at.state[BodyId{on == 0 ? j.parent : j.child}].p;
  const auto drives = [&](const std::string& each) {
    return std::find(j.actuators.begin(), j.actuators.end(), each) != j.actuators.end();
  };
  for (const Force& force : at.system.forces()) {
    if (!drives(force.name())) continue;
    const Vector6 wrench = wrenches_of(force, at.state)[static_cast<std::size_t>(on)];
    sum.force += wrench.head<3>();
    sum.moment += wrench.tail<3>();
  }
  for (const Reaction& r : at.reactions) {
    if (!drives(r.name)) continue;
    const Wrench wrench = r.on(on).about(sum.point);
    sum.force += wrench.force;
    sum.moment += wrench.moment;
  }
  return sum;
}

}  // namespace linchpin::scene
