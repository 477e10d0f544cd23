// A System from a model, and channels evaluated on it.
#include "channel.h"
#include "compound_joint.h"

#include <linchpin/report.h>
#include <linchpin/scene.h>
#include <linchpin/scene/modes.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>

namespace linchpin::scene {

const char* to_string(Host host) {
  switch (host) {
    case Host::bare:
      return "bare";
    case Host::bullet:
      return "bullet";
    default:
      return "bullet-float64";
  }
}

System Model::system() const {
  System system;
  system.set_gravity(gravity);
  std::vector<std::string> names;
  std::vector<double> q, rate;
  for (const SceneBody& body : bodies) {
    const Pose pose{body.start.p, body.start.q};
    switch (body.kind) {
      case BodyKind::particle:
        system.add_particle(body.name, body.mass, body.start.p, body.start.v);
        break;
      case BodyKind::rigid: {
        const BodyId id = system.add_body(body.name, body.mass, Matrix3d::Identity(), pose, body.start.v, body.start.w);
        system.set_mass(id, body.mass, body.inertia);  // game bodies have inertias that no distribution of mass has
        break;
      }
      case BodyKind::fixed:
        system.add_fixed(body.name, pose);
        break;
      case BodyKind::kinematic:
        system.add_kinematic(body.name, pose, body.motion);
        break;
      case BodyKind::coordinate:  // all at once: one mass matrix couples them
        names.push_back(body.name);
        q.push_back(body.start.p.x());
        rate.push_back(body.start.v.x());
        break;
    }
  }
  if (!names.empty()) system.add_coordinates(std::move(names), std::move(q), std::move(rate), kinetics());
  for (const SceneConstraint& c : constraints) {
    const ConstraintId id = c.compliance     ? add_compliant(system, c.make(c.bodies), *c.compliance)
                            : c.dry_friction ? add_motor(system, c.make(c.bodies), {0, *c.dry_friction})
                                             : system.add(c.make(c.bodies));
    for (const Law& law : c.laws) add_law(system, id, law);
    if (c.unilateral) set_unilateral(system, id, *c.unilateral);
  }
  for (const SceneForce& force : forces) system.add(force.make(force.bodies));
  return system;
}

Channel::Impl::Impl(std::shared_ptr<const scene::Tape> tape, std::shared_ptr<const std::vector<scene::Sensor>> sensors_,
                    std::shared_ptr<const JointCoordinates> joints_)
    : sensors(std::move(sensors_)),
      joints(std::move(joints_)),
      evaluate(std::move(tape)),
      X(evaluate.tape().bodies.size()),
      given(evaluate.tape().inputs.size()) {
  const auto& inputs = evaluate.tape().inputs;
  if (std::any_of(inputs.begin(), inputs.end(),
                  [](const Input& i) { return i.kind == Input::Of::body || i.name == "joint_acceleration"; }))
    accelerations.emplace();
}

Channel::Channel() = default;
Channel::Channel(const Channel& from)
    : text_(from.text_),
      name_(from.name_),
      unit_(from.unit_),
      impl_(from.impl_ ? std::make_unique<Impl>(*from.impl_) : nullptr) {}
Channel::Channel(Channel&&) noexcept = default;
Channel& Channel::operator=(const Channel& from) { return *this = Channel(from); }
Channel& Channel::operator=(Channel&&) noexcept = default;
Channel::~Channel() = default;

int Channel::size() const { return impl_->evaluate.tape().rows(); }

bool Channel::reads_forces() const {
  const auto& inputs = impl_->evaluate.tape().inputs;
  return std::any_of(inputs.begin(), inputs.end(), [](const scene::Input& i) {
    return i.of != "-" && i.name != "joint_position" && i.name != "joint_velocity";
  });
}

bool Channel::reads_mode_times() const {
  const auto& inputs = impl_->evaluate.tape().inputs;
  return std::any_of(inputs.begin(), inputs.end(), [](const scene::Input& i) { return is_mode_time(i.name); });
}

bool Channel::reads_history() const {
  const auto& inputs = impl_->evaluate.tape().inputs;
  return std::any_of(inputs.begin(), inputs.end(), [](const scene::Input& i) {
    return is_mode_time(i.name) || i.name == "sticks" || i.name == "work";
  });
}

std::optional<FrictionCoefficients> kinetic_above_static(const SceneConstraint& constraint, const State& at) {
  for (const auto& coefficients : constraint.coefficients) {
    ConstraintReaction n;
    n.t = at.t;
    n.first = &at[constraint.bodies[0]];
    n.second = &at[constraint.bodies.size() > 1 ? constraint.bodies[1] : ground];
    try {
      const FrictionCoefficients now = coefficients(n);
      if (now.mu_kinetic > now.mu * (1 + 1e-12)) return now;
    } catch (const std::domain_error&) {  // the law itself refuses them
    }
  }
  return {};
}

namespace {

double gap_of(const Reaction& r) { return std::max({r.gap, r.gap_angle, r.residual}); }

// Names by themselves are those of sensors.
Vector3d sensed(const std::vector<scene::Sensor>& sensors, const scene::Input& input, const Observation& at,
                const JointReader& joints) {
  for (const scene::Sensor& s : sensors) {
    const bool force = input.name == s.name + "_force";
    if (!force && input.name != s.name + "_torque") continue;
    for (const Reaction& r : at.reactions) {
      if (r.name != s.joint) continue;
      const Quaterniond to_frame = (at.state[s.frame].q * s.axes).conjugate();
      // A sensor between the two bodies also measures the motor.
      const Wrench& joint = r.on(s.on);
      const Wrench motor = joints.wrench_of_actuators(s.joint, s.on, at);
      if (force) return to_frame * (joint.force + motor.force);
      const Vector3d point = s.origin ? at.state[s.frame].point(*s.origin) : joint.point;
      return to_frame * (joint.about(point).moment + motor.about(point).moment);
    }
  }
  return Vector3d::Constant(std::numeric_limits<double>::quiet_NaN());
}

// Of the mode of friction or of a unilateral constraint; nothing where the input is another quantity.
std::optional<double> mode(const scene::Input& input, const Observation& at) {
  using What = ModeSwitch::What;
  static constexpr std::pair<const char*, What> times[] = {{"stick_time", What::sticks},
                                                           {"slip_time", What::slides},
                                                           {"release_time", What::releases},
                                                           {"engage_time", What::engages}};
  const double none = std::numeric_limits<double>::quiet_NaN();
  if (input.name == "sticks") return at.modes ? at.modes->sticks(input.of, at.state.t) : none;
  for (const auto& [name, what] : times)
    if (input.name == name) return at.modes ? at.modes->last(input.of, what, at.state.t) : none;
  return {};
}

// What an impressed force does to one of its bodies at a state.
Vector3d applied(const scene::Input& input, const Observation& at) {
  for (const Force& force : at.system.forces()) {
    if (force.name() != input.of) continue;
    const Vector6 on = wrenches_of(force, at.state)[static_cast<std::size_t>(std::max(input.on, 0))];
    return input.name == "applied_force" ? Vector3d(on.head<3>()) : Vector3d(on.tail<3>());
  }
  return Vector3d::Constant(std::numeric_limits<double>::quiet_NaN());
}

// Of a joint's coordinate; nothing where the input is another quantity.
std::optional<double> of_joint(const scene::Input& input, const Observation& at, scene::JointReader& joints,
                               const Accelerations* accelerations) {
  if (!input.name.starts_with("joint_")) return {};
  const CoordinateRow now = joints.next(input.of, at.state);
  const JointCoordinate& j = joints.joint(input.of);
  if (input.name == "joint_position") return now.value - j.zero;
  if (input.name == "joint_velocity") return now.rate;
  if (input.name == "joint_force") return joints.force(input.of, at);
  return now.acceleration(accelerations->of(at, BodyId{j.parent}), accelerations->of(at, BodyId{j.child}));
}

Vector3d quantity(const scene::Input& input, const Observation& at, scene::JointReader& joints,
                  const Accelerations* accelerations) {
  const auto scalar = [](double x) { return Vector3d(x, 0, 0); };
  if (input.name == "energy") return scalar(energy(at.system, at.state));
  if (input.name == "energy_integral") return scalar(energy_integral(at.system, at.state));
  if (input.name == "kinetic") return scalar(kinetic_energy(at.system, at.state));
  if (input.name == "potential") return scalar(potential_energy(at.system, at.state));
  if (input.name == "momentum") return linear_momentum(at.system, at.state);
  if (input.name == "angular_momentum") return angular_momentum(at.system, at.state);
  if (input.kind == Input::Of::force) return applied(input, at);
  if (input.kind == Input::Of::body) {
    const Vector6 a = accelerations->of(at, BodyId{input.on});
    return input.name == "alpha" ? Vector3d(a.tail<3>()) : Vector3d(a.head<3>());
  }
  if (const auto value = mode(input, at)) return scalar(*value);
  if (const auto value = of_joint(input, at, joints, accelerations)) return scalar(*value);
  const auto found =
      std::find_if(at.reactions.begin(), at.reactions.end(), [&](const Reaction& r) { return r.name == input.of; });
  if (found == at.reactions.end()) return Vector3d::Constant(std::numeric_limits<double>::quiet_NaN());
  const Reaction& r = *found;
  const int k = std::max(input.on, 0);
  if (input.name == "reaction") return r.on(k).force;
  if (input.name == "moment") return r.on(k).moment;
  if (input.name == "friction") return r.prescribed.on(k).force;
  if (input.name == "friction_moment") return r.prescribed.on(k).moment;
  if (input.name == "normal_force") return r.ideal.on(k).force + r.induced.on(k).force;
  if (input.name == "frictionless_normal_force") return r.ideal.on(k).force;
  if (input.name == "power") return scalar(r.power);
  if (input.name == "work") return scalar(r.work);
  if (input.name == "lambda") {
    const auto row = static_cast<std::size_t>(input.row);
    return scalar(row < r.lambda.size() ? r.lambda[row] : 0);
  }
  return scalar(gap_of(r));
}

}  // namespace

std::span<const double> Channel::operator()(const Observation& at) const {
  const scene::Tape& tape = impl_->evaluate.tape();
  for (std::size_t k = 0; k < impl_->X.size(); ++k) impl_->X[k] = at.state[BodyId{tape.bodies[k]}];
  if (impl_->accelerations) impl_->accelerations->evaluate(at);
  for (std::size_t i = 0; i < impl_->given.size(); ++i)
    impl_->given[i] = tape.inputs[i].of.empty() ? sensed(*impl_->sensors, tape.inputs[i], at, impl_->joints)
                                                : quantity(tape.inputs[i], at, impl_->joints,
                                                           impl_->accelerations ? &*impl_->accelerations : nullptr);
  return impl_->evaluate(impl_->X, at.state.t, impl_->given);
}

Judge::Judge(const Model& model, Host host, double dt) : dt_(dt) {
  for (const Expectation& e : model.expectations) {
    Verdict verdict;
    verdict.expectation = &e;
    verdict.tolerance = host == Host::bare     ? e.tolerance
                        : host == Host::bullet ? e.tolerance_single
                                               : e.tolerance_bullet;
    verdicts_.push_back(verdict);
    first_.push_back(e.is);
  }
}

bool Judge::due(const Expectation& e, double t) const { return e.throughout || std::abs(t - e.at) < 1e-6 * dt_; }

bool Judge::needs_forces(double t) const {
  return std::any_of(verdicts_.begin(), verdicts_.end(),
                     [&](const Verdict& v) { return v.expectation->value.reads_forces() && due(*v.expectation, t); });
}

std::vector<double> Judge::parts(double t, double dt) const {
  std::vector<double> ends;
  for (const Verdict& v : verdicts_) {
    const double at = v.expectation->at;
    if (v.tolerance > 0 && !v.expectation->throughout && at > t + 1e-6 * dt_ && at < t + dt - 1e-6 * dt_)
      ends.push_back(at);
  }
  if (ends.empty()) return {dt};
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end(), [&](double a, double b) { return b - a < 1e-6 * dt_; }), ends.end());
  ends.push_back(t + dt);
  std::adjacent_difference(ends.begin(), ends.end(), ends.begin());
  ends.front() -= t;
  return ends;
}

std::string Judge::why_not(const Verdict& verdict) const {
  if (verdict.judged) return {};
  if (verdict.tolerance == 0) return "the scene does not test it on this host";
  char text[80];
  if (verdict.expectation->throughout && !verdict.got.empty()) {
    if (!(last_ > first_time_)) return "the run took no step";
    std::snprintf(text, sizeof text, "the run ended early, at %.6g s", last_);
    return text;
  }
  if (!verdict.expectation->throughout && verdict.expectation->at > last_ + 1e-6 * dt_) {
    std::snprintf(text, sizeof text, "the run ends at %.6g s, before this time", last_);
    return text;
  }
  return "a force that it uses is not known at that time";
}

void Judge::end(double t) {
  if (last_ > first_time_ && last_ > t - 1e-6 * dt_) return;
  for (Verdict& verdict : verdicts_)
    if (verdict.expectation->throughout && verdict.met) verdict.judged = verdict.met = false;
}

void Judge::see(const Observation& at) {
  last_ = at.state.t;
  if (!std::exchange(seen_, true)) first_time_ = last_;
  for (std::size_t i = 0; i < verdicts_.size(); ++i) {
    Verdict& verdict = verdicts_[i];
    if (verdict.tolerance == 0 || !due(*verdict.expectation, at.state.t)) continue;
    const auto value = verdict.expectation->value(at);
    const bool there = std::none_of(value.begin(), value.end(), [](double x) { return std::isnan(x); });
    if (!there && verdict.expectation->value.reads_forces() && at.reactions.empty()) continue;
    if (first_[i].empty()) first_[i].assign(value.begin(), value.end());
    double error = 0;
    for (std::size_t k = 0; k < value.size(); ++k) {
      const double off = std::abs(value[k] - first_[i][k]);
      error = std::isnan(off) ? std::numeric_limits<double>::infinity() : std::max(error, off);
      if (std::isnan(off) && !verdict.not_a_number_at) verdict.not_a_number_at = at.state.t;
    }
    if (verdict.judged && error <= verdict.error) continue;
    verdict.judged = true;
    verdict.error = error;
    verdict.met = error <= verdict.tolerance;
    verdict.got.assign(value.begin(), value.end());
  }
}

std::string force_unit(const std::string& unit) {
  if (unit.empty()) return {};
  return unit == "rad" ? "N m" : unit == "m" ? "N" : "J/" + unit;
}

namespace {
enum class Subject { constraint, force, system };
struct Observable {
  const char *name, *unit;
  Type type;
  Subject of;
};
constexpr Observable observables[] = {
    {"reaction", "N", Type::vector, Subject::constraint},
    {"moment", "N m", Type::vector, Subject::constraint},
    {"normal_force", "N", Type::vector, Subject::constraint},
    {"frictionless_normal_force", "N", Type::vector, Subject::constraint},
    {"friction", "N", Type::vector, Subject::constraint},
    {"friction_moment", "N m", Type::vector, Subject::constraint},
    {"gap", "", Type::scalar, Subject::constraint},
    {"power", "W", Type::scalar, Subject::constraint},
    {"work", "J", Type::scalar, Subject::constraint},
    {"lambda", "", Type::scalar, Subject::constraint},
    {"sticks", "", Type::scalar, Subject::constraint},
    {"stick_time", "s", Type::scalar, Subject::constraint},
    {"slip_time", "s", Type::scalar, Subject::constraint},
    {"release_time", "s", Type::scalar, Subject::constraint},
    {"engage_time", "s", Type::scalar, Subject::constraint},
    {"joint_position", "", Type::scalar, Subject::constraint},
    {"joint_velocity", "", Type::scalar, Subject::constraint},
    {"joint_acceleration", "", Type::scalar, Subject::constraint},
    {"joint_force", "", Type::scalar, Subject::constraint},
    {"applied_force", "N", Type::vector, Subject::force},
    {"applied_moment", "N m", Type::vector, Subject::force},
    {"energy", "J", Type::scalar, Subject::system},
    {"energy_integral", "J", Type::scalar, Subject::system},
    {"kinetic", "J", Type::scalar, Subject::system},
    {"potential", "J", Type::scalar, Subject::system},
    {"momentum", "kg m/s", Type::vector, Subject::system},
    {"angular_momentum", "kg m^2/s", Type::vector, Subject::system},
};
}  // namespace

bool is_result(std::string_view function) {
  return std::any_of(std::begin(observables), std::end(observables),
                     [&](const Observable& o) { return function == o.name; });
}

bool is_mode_time(std::string_view function) { return function.ends_with("_time"); }

void Names::add_constraint(const SceneConstraint& constraint, int rows) {
  constraints.push_back(constraint.name);
  constraint_rows.push_back(rows);
  constraint_coordinates.push_back(has_coordinate(constraint));
  constraint_bodies.emplace_back();
  for (const BodyId id : constraint.bodies) constraint_bodies.back().push_back(id.index);
}

void Names::add_joint_in_compound(const SceneConstraint& joint) {
  if (const auto found = std::find(constraints.begin(), constraints.end(), joint.name); found != constraints.end()) {
    constraint_coordinates[static_cast<std::size_t>(found - constraints.begin())] = true;  // the compound joint itself
    return;
  }
  add_constraint(joint, 0);
  if (!constraint_modes.empty()) constraint_modes.push_back({false, false, false});
  compound_of.emplace(joint.name, joint.compound->is_constraint() ? joint.compound->name : std::string());
}

void offer_observables(Names& names) {
  for (const Observable& o : observables) {
    Input input{o.name, o.type, o.of == Subject::system ? "-" : ""};
    if (o.of == Subject::force) input.kind = Input::Of::force;
    names.observables.push_back(std::move(input));
  }
  names.accelerations = true;
}

namespace {

// Operations that pick a part of a quantity or its size: its unit stays.
bool keeps_unit(Code code) {
  switch (code) {
    case Code::x:
    case Code::y:
    case Code::z:
    case Code::norm:
    case Code::abs:
    case Code::negate:
    case Code::negate_vector:
      return true;
    default:
      return false;
  }
}

bool gives_vector(Code code) { return code == Code::input_vector || code >= Code::make; }

// What gave an operand; null where it is a constant.
const Operation* maker_of(const Tape& tape, int at, bool vector) {
  const auto found = std::find_if(tape.operations.begin(), tape.operations.end(),
                                  [&](const Operation& op) { return op.out == at && gives_vector(op.code) == vector; });
  return found == tape.operations.end() ? nullptr : &*found;
}

bool takes_vector(Code code) { return code != Code::abs && code != Code::negate; }

const SceneBody* coordinate_at(BodyId id, const Model& model) {
  if (id == ground) return nullptr;
  const SceneBody& body = model.bodies[static_cast<std::size_t>(id.index) - 1];
  return body.kind == BodyKind::coordinate ? &body : nullptr;
}

// Of the rows of a constraint on positions, where all of them have one unit.
std::optional<RowUnit> unit_of_rows(const SceneConstraint& c) {
  const Constraint made = c.make(c.bodies);
  const ConstraintFunction& f = made.function();
  if (f.level() != Level::position) return {};
  for (int row = 1; row < f.rows(); ++row)
    if (f.unit(row) != f.unit(0)) return {};
  return f.unit(0);
}

// Of a quantity of a joint's coordinate.
std::string unit_of_joint(std::string_view quantity, std::string_view type) {
  const std::string length = type == "slider" ? "m" : "rad";
  if (quantity == "joint_position") return length;
  if (quantity == "joint_velocity") return length + "/s";
  if (quantity == "joint_acceleration") return length + "/s^2";
  if (quantity == "joint_force") return force_unit(length);
  return {};
}

std::string unit_of_input(const Input& input, const Model& model) {
  if (input.kind == Input::Of::body) {
    const SceneBody* coordinate = coordinate_at(BodyId{input.on}, model);
    if (!coordinate) return input.name == "alpha" ? "rad/s^2" : "m/s^2";
    return coordinate->unit.empty() ? "" : coordinate->unit + "/s^2";
  }
  if (input.kind == Input::Of::force) {
    const auto force = std::find_if(model.forces.begin(), model.forces.end(),
                                    [&](const SceneForce& each) { return each.name == input.of; });
    const SceneBody* coordinate = coordinate_at(force->bodies[static_cast<std::size_t>(std::max(input.on, 0))], model);
    if (coordinate) return force_unit(coordinate->unit);
    return input.name == "applied_force" ? "N" : "N m";
  }
  if (input.of.empty())  // of a sensor
    return input.name.ends_with("_force") ? "N" : input.name.ends_with("_torque") ? "N m" : "";
  if (input.name.starts_with("joint_"))
    for (const SceneConstraint* joint : joints_with_coordinate(model))
      if (joint->name == input.of) return unit_of_joint(input.name, joint->type);
  const auto c = std::find_if(model.constraints.begin(), model.constraints.end(),
                              [&](const SceneConstraint& each) { return each.name == input.of; });
  if (c != model.constraints.end()) {
    const bool gap = input.name == "gap";
    if (gap || input.name == "lambda") {
      const auto unit = unit_of_rows(*c);
      if (unit == RowUnit::metre) return gap ? "m" : "N";
      if (unit == RowUnit::radian) return gap ? "rad" : "N m";
      return {};
    }
    const std::size_t on = static_cast<std::size_t>(std::max(input.on, 0));
    const SceneBody* coordinate = input.type == Type::vector ? coordinate_at(c->bodies[on], model) : nullptr;
    if (coordinate) return force_unit(coordinate->unit);
  }
  for (const Observable& o : observables)
    if (input.name == o.name) return o.unit;
  return {};
}

}  // namespace

std::string unit_of(const Tape& tape, const Model& model) {
  const Tape::Result& result = tape.results.front();
  const Operation* op = maker_of(tape, result.at, result.type == Type::vector);
  while (op && keeps_unit(op->code)) op = maker_of(tape, op->a, takes_vector(op->code));
  if (!op) return {};
  const auto body = [&] { return BodyId{tape.bodies[static_cast<std::size_t>(op->b)]}; };
  switch (op->code) {
    case Code::time:
      return "s";
    case Code::input:
    case Code::input_vector:
      return unit_of_input(tape.inputs[static_cast<std::size_t>(op->a)], model);
    case Code::position:
      if (const SceneBody* coordinate = coordinate_at(body(), model)) return coordinate->unit;
      return "m";
    case Code::velocity:
      if (const SceneBody* coordinate = coordinate_at(body(), model))
        return coordinate->unit.empty() ? "" : coordinate->unit + "/s";
      return "m/s";
    case Code::point:
    case Code::point_at:
      return "m";
    case Code::velocity_of:
    case Code::velocity_at:
      return "m/s";
    case Code::omega:
      return "rad/s";
    default:
      return {};
  }
}

}  // namespace linchpin::scene
