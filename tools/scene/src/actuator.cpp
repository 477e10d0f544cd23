#include "actuator.h"

#include "compound_joint.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

namespace linchpin::scene {

namespace {

/// Reads the coordinate of a joint from the states of a force. It counts whole turns from call to call, and begins
/// again where the time goes back to the start.
class CoordinateOfForce {
 public:
  CoordinateOfForce(const JointCoordinate& joint, double start_time)
      : joint_(joint), start_time_(start_time), last_time_(start_time), last_(joint.start_values()) {}
  CoordinateRow operator()(const ForceFrame& frame) {
    if (frame.t <= start_time_ && last_time_ > start_time_) last_ = joint_.start_values();
    last_time_ = frame.t;
    CoordinateRow row = coordinate_row(joint_, frame[static_cast<std::size_t>(joint_.parent)],
                                       frame[static_cast<std::size_t>(joint_.child)], last_);
    if (row.values.allFinite()) last_ = row.values;
    row.value -= joint_.zero;
    return row;
  }

 private:
  JointCoordinate joint_;
  double start_time_, last_time_;
  CoordinateValues last_;
};

const SceneConstraint& joint_named(const Text& name, const std::string& who, const DrivableJoints& joints) {
  if (const SceneConstraint* found = joints.find(name.value)) return *found;
  std::vector<std::string> known;
  for (const SceneConstraint& c : joints.constraints) {
    if (has_coordinate(c)) known.push_back(c.name);
    if (c.name == name.value)
      fail(name.place, who + ": \"" + c.name + "\" is of type " + c.type +
                           ". An actuator drives a hinge or a slider, which has one coordinate");
  }
  for (const SceneConstraint& c : joints.in_compounds) known.push_back(c.name);
  fail(name.place,
       who + ": there is no joint \"" + name.value + "\" with a coordinate" + suggestion_or_all(name.value, known));
}

/// A scalar expression of the states of a force. Of inputs it reads joint_position and joint_velocity.
class ExpressionOfJoints {
 public:
  /// @param bodies  in and out: those of the force
  ExpressionOfJoints(std::shared_ptr<const Tape> tape, const DrivableJoints& joints, std::vector<BodyId>& bodies)
      : evaluate_(std::move(tape)), start_time_(joints.start.t) {
    const auto slot_of = [&](BodyId id) {
      const auto found = std::find(bodies.begin(), bodies.end(), id);
      const auto slot = found - bodies.begin();
      if (found == bodies.end()) bodies.push_back(id);
      return static_cast<int>(slot);
    };
    for (const int body : evaluate_.tape().bodies) slots_.push_back(static_cast<std::size_t>(slot_of(BodyId{body})));
    for (const Input& input : evaluate_.tape().inputs) {
      JointCoordinate coordinate = coordinate_of(*joints.find(input.of), joints.start);
      coordinate.parent = slot_of(BodyId{coordinate.parent});
      coordinate.child = slot_of(BodyId{coordinate.child});
      coordinates_.emplace_back(coordinate, start_time_);
    }
    X_.resize(slots_.size());
    given_.resize(coordinates_.size());
  }
  double operator()(const ForceFrame& frame) {
    for (std::size_t k = 0; k < slots_.size(); ++k) X_[k] = frame[slots_[k]];
    for (std::size_t k = 0; k < coordinates_.size(); ++k) {
      const CoordinateRow row = coordinates_[k](frame);
      given_[k] = Vector3d(evaluate_.tape().inputs[k].name == "joint_position" ? row.value : row.rate, 0, 0);
    }
    return evaluate_(X_, frame.t, given_)[0];
  }

 private:
  Evaluator evaluate_;
  double start_time_;
  std::vector<std::size_t> slots_;
  std::vector<CoordinateOfForce> coordinates_;  // by input
  std::vector<BodyState> X_;
  std::vector<Vector3d> given_;
};

/// The command of a motor: force + stiffness (position − q) + damping (velocity − q̇).
struct Command {
  std::optional<ExpressionOfJoints> force, position, velocity;
  double stiffness = 0, damping = 0;
  std::optional<double> max_force, max_rate;

  double operator()(double q, double rate, const ForceFrame& frame) {
    double sum = force ? (*force)(frame) : 0;
    if (position) sum += stiffness * ((*position)(frame)-q);
    if (damping != 0) sum += damping * ((velocity ? (*velocity)(frame) : 0) - rate);
    return within_limits(sum, rate, max_force, max_rate);
  }
};

/// Adds a constant to a motion.
struct ShiftedMotion {
  MotionText motion;
  double by;
  template <Number T>
  T operator()(const T& t) const {
    return motion(t) + by;
  }
};

/// A number, or an expression as text.
std::shared_ptr<const Tape> scalar_of(Table& table, const std::string& key, const Names& names) {
  if (table.find(key)->is_string()) return compiled(table.text(key), names, Type::scalar, table.what() + ", " + key);
  Tape constant;
  constant.scalars = {table.number(key)};
  constant.results = {{Type::scalar, 0}};
  return std::make_shared<const Tape>(std::move(constant));
}

SceneConstraint prescribed_motion(const std::string& name, const SceneConstraint& joint, const State& start,
                                  std::shared_ptr<const Tape> motion) {
  const JointCoordinate coordinate = coordinate_of(joint, start);
  SceneConstraint out;
  out.name = name;
  out.type = coordinate.slides ? "prescribed_distance" : "prescribed_angle";
  out.bodies = joint.bodies;
  out.frame_a = joint.frame_a, out.frame_b = joint.frame_b;
  out.rheonomic = motion->uses_time;
  if (joint.compound) {
    out.make = [name, coordinate, motion = MotionText(std::move(motion))](const std::vector<BodyId>& id) {
      return coordinate_constraint(name, id, coordinate, [motion](double t) { return motion(Taylor(t, 1, 0)); });
    };
    return out;
  }
  const ShiftedMotion shifted{MotionText(std::move(motion)), coordinate.zero};
  out.make = [name, P = joint.frame_a, C = joint.frame_b, slides = coordinate.slides,
              shifted](const std::vector<BodyId>& id) {
    if (slides) return joints::prescribed_distance(name, id[0], P.origin, P.axes.col(0), id[1], C.origin, shifted);
    return joints::prescribed_angle(name, id[0], P.axes.col(0), P.axes.col(1), id[1], C.axes.col(1), shifted);
  };
  return out;
}

}  // namespace

const SceneConstraint* DrivableJoints::find(std::string_view name) const {
  for (const auto* joints : {&constraints, &in_compounds})
    for (const SceneConstraint& c : *joints)
      if (c.name == name && has_coordinate(c)) return &c;
  return nullptr;
}

void offer_joints(Names& names, const DrivableJoints& joints) {
  for (const char* const quantity : {"joint_position", "joint_velocity"})
    names.observables.push_back({quantity, Type::scalar, ""});
  for (const SceneConstraint& c : joints.constraints) names.add_constraint(c, 0);
  for (const SceneConstraint& c : joints.in_compounds) names.add_joint_in_compound(c);
}

double within_limits(double force, double rate, std::optional<double> max_force, std::optional<double> max_rate) {
  if (max_rate && std::fabs(rate) >= *max_rate && force * rate > 0) return 0;
  return max_force ? std::clamp(force, -*max_force, *max_force) : force;
}

SceneForce force_of_joint(std::string name, const SceneConstraint& joint, const State& start,
                          const std::vector<BodyId>& more, ForceOfJoint force) {
  SceneForce out;
  out.name = name;
  out.joint = joint.name;
  out.bodies = joint.bodies;
  out.bodies.insert(out.bodies.end(), more.begin(), more.end());
  JointCoordinate coordinate = coordinate_of(joint, start);
  coordinate.parent = 0, coordinate.child = 1;
  out.make = [name = std::move(name), force = std::move(force), coordinate,
              t = start.t](const std::vector<BodyId>& id) {
    return Force(name, id, [force, read = CoordinateOfForce(coordinate, t)](ForceFrame& frame) mutable {
      const CoordinateRow row = read(frame);
      const double f = force(row.value, row.rate, frame);
      frame.add_force(0, f * row.linear_P);
      frame.add_moment(0, f * row.angular_P);
      frame.add_force(1, f * row.linear_C);
      frame.add_moment(1, f * row.angular_C);
    });
  };
  return out;
}

Actuator read_actuator(Table& table, const Context& context, const DrivableJoints& joints) {
  Actuator out;
  const Text joint_name = table.text("joint");
  table.rename("actuator of \"" + joint_name.value + "\"");
  const SceneConstraint& joint = joint_named(joint_name, table.what(), joints);
  const bool slides = joint.type == "slider";
  const char* const key = slides ? "force" : "torque";
  const char* const wrong = slides ? "torque" : "force";
  if (table.has(wrong))
    table.refuse(wrong, std::string("the coordinate of a ") + joint.type + " is " + (slides ? "a length" : "an angle") +
                            ". Write " + key + " = \"…\"");
  const std::string name = table.has("name") ? table.text("name").value : joint.name + ".actuator";
  const bool has_gains = table.has("stiffness") || table.has("damping");
  if (!table.has(key) && !table.has("position") && !table.has("velocity"))
    table.refuse(std::string("needs a command: ") + key + ", position or velocity");

  if (table.has("position") && !has_gains) {
    for (const char* other : {key, "velocity"})
      if (table.has(other))
        table.refuse(other, "a position without stiffness and damping prescribes the motion, so leave out " +
                                std::string(other) + ", or give stiffness");
    out.constraint = prescribed_motion(name, joint, joints.start, scalar_of(table, "position", of_time(context)));
    return out;
  }
  if (table.has("velocity") && !table.has("damping"))
    table.refuse("velocity", std::string("needs damping = … [") + (slides ? "N s/m" : "N m s/rad") + "]");
  if (table.has("stiffness") && !table.has("position")) table.refuse("stiffness", "needs position = \"…\"");

  Command command;
  std::vector<BodyId> bodies = joint.bodies;
  const auto expression = [&](const char* of, std::optional<ExpressionOfJoints>& to) {
    if (table.has(of)) to.emplace(scalar_of(table, of, context.names), joints, bodies);
  };
  expression(key, command.force);
  expression("position", command.position);
  expression("velocity", command.velocity);
  command.stiffness = table.not_negative("stiffness", 0);
  command.damping = table.not_negative("damping", 0);
  command.max_force = joint.max_force, command.max_rate = joint.max_rate;
  const std::string largest = std::string("max_") + key;
  if (table.has(largest)) command.max_force = table.positive(largest);
  if (table.has("max_rate")) command.max_rate = table.positive("max_rate");
  const std::vector<BodyId> more(bodies.begin() + 2, bodies.end());
  out.force = force_of_joint(
      name, joint, joints.start, more,
      [command](double q, double rate, const ForceFrame& frame) mutable { return command(q, rate, frame); });
  for (const Vector6& wrench : wrenches_of(out.force->make(out.force->bodies), joints.start))
    if (!wrench.allFinite()) table.refuse("is not finite at the start");
  return out;
}

}  // namespace linchpin::scene
