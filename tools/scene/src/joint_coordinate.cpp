#include "joint_coordinate.h"

#include "compound_joint.h"

#include <linchpin/report.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>

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

// What a wrench on the child does along the coordinate.
double along(const CoordinateRow& row, const JointCoordinate& j, const Wrench& on_child) {
  return row.axis.dot(j.slides ? on_child.force : on_child.about(row.point).moment);
}

// Along the coordinate. Bodies 0 and 1 of the force are the parent and the child.
double force_of_actuator(const std::string& name, const CoordinateRow& row, const JointCoordinate& j,
                         const Observation& at) {
  for (const Force& force : at.system.forces()) {
    if (force.name() != name) continue;
    const Vector6 on_child = wrenches_of(force, at.state)[1];
    Wrench wrench;
    wrench.force = on_child.head<3>(), wrench.moment = on_child.tail<3>();
    wrench.point = at.state[BodyId{j.child}].p;
    return along(row, j, wrench);
  }
  return 0;
}

template <class Joint, class AnyModel>
std::vector<Joint*> joints_of(AnyModel& model) {
  std::vector<Joint*> out;
  for (Joint& c : model.constraints)
    if (has_coordinate(c)) out.push_back(&c);
  for (Joint& c : model.compound_coordinates) out.push_back(&c);
  return out;
}

}  // namespace

CoordinateValues JointCoordinate::start_values() const {
  if (compound) return linchpin::scene::start_values(*compound);
  return CoordinateValues::Constant(1, start + zero);
}

CoordinateRow coordinate_row(const JointCoordinate& j, const BodyState& P, const BodyState& C,
                             const CoordinateValues& near) {
  if (j.compound) return compound_row(*j.compound, j.which, P, C, near);
  CoordinateRow out = j.slides ? shift(j, P, C) : turn(j, P, C, near[0]);
  out.axis = P.q * Vector3d(j.frame_P.axes.col(0));
  out.point = C.point(j.frame_C.origin);
  out.v = P.v + P.w.cross(out.point - P.p), out.w = P.w;
  out.values = CoordinateValues::Constant(1, out.value);
  return out;
}

bool has_coordinate(const SceneConstraint& c) {
  // The frames of an imported joint are not known.
  return !c.imported && (c.type == "hinge" || c.type == "slider") && c.bodies.size() == 2;
}

std::vector<const SceneConstraint*> joints_with_coordinate(const Model& model) {
  return joints_of<const SceneConstraint>(model);
}
std::vector<SceneConstraint*> joints_with_coordinate(Model& model) { return joints_of<SceneConstraint>(model); }

JointCoordinate coordinate_of(const SceneConstraint& c, const State& start) {
  JointCoordinate out;
  out.parent = c.bodies[0].index, out.child = c.bodies[1].index;
  out.slides = c.type == "slider";
  out.start = c.start;
  out.constraint = c.name;
  if (c.compound) {
    out.constraint = c.compound->name;
    out.compound = c.compound, out.which = c.compound_coordinate;
    return out;
  }
  out.frame_P = c.frame_a, out.frame_C = c.frame_b;
  out.zero = coordinate_row(out, start[c.bodies[0]], start[c.bodies[1]], out.start_values()).value - c.start;
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
  if (c.compound)  // where they are no part of the constraint
    for (const char* part : {".damping", ".friction", ".spring"}) out.actuators.push_back(c.name + part);
  return out;
}

CoordinateRow JointReader::next(std::string_view name, const State& at) {
  if (at.t < t_) last_.clear();
  t_ = at.t;
  CoordinateRow now = row(name, at);
  last_.insert_or_assign(joint(name).constraint, now.values);
  return now;
}

void JointReader::set_near(std::string_view name, double position) {
  const JointCoordinate& j = joint(name);
  last_.try_emplace(j.constraint, j.start_values()).first->second[j.which] = position + j.zero;
}

CoordinateRow JointReader::row(std::string_view name, const State& at) const {
  const JointCoordinate& j = joint(name);
  const auto last = last_.find(j.constraint);
  return coordinate_row(j, at[BodyId{j.parent}], at[BodyId{j.child}],
                        last == last_.end() ? j.start_values() : last->second);
}

double JointReader::velocity(std::string_view name, const State& at) const { return row(name, at).rate; }

double JointReader::acceleration(std::string_view name, const State& at, const Vector6& P, const Vector6& C) const {
  return row(name, at).acceleration(P, C);
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
  const CoordinateRow now = row(name, at.state);
  double sum = 0;
  for (const Reaction& r : at.reactions) {
    if (is_limit_of(name, r.name)) continue;
    const ConstraintId id = at.system.find_constraint(r.name);
    if (id.index < 0) continue;
    const auto bodies = at.system.constraint(id).bodies();
    if (bodies.size() != 2) continue;
    const int k = bodies[1].index == j.child ? 1 : 0;
    if (bodies[k].index != j.child || bodies[1 - k].index != j.parent) continue;
    sum += along(now, j, r.on(k));
  }
  for (const std::string& actuator : j.actuators) sum += force_of_actuator(actuator, now, j, at);
  return sum;
}

Wrench JointReader::wrench_of_actuators(std::string_view name, int on, const Observation& at) const {
  Wrench sum;
  std::set<std::string, std::less<>> actuators;
  for (const auto& [joint, j] : *joints_) {
    if (j.constraint != name) continue;
    sum.point = at.state[BodyId{on == 0 ? j.parent : j.child}].p;
    actuators.insert(j.actuators.begin(), j.actuators.end());
  }
  const auto drives = [&](const std::string& each) { return actuators.count(each) > 0; };
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
