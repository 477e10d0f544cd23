#include "actuator.h"
#include "channel.h"
#include "joint_coordinate.h"

#include <linchpin/scene/joint_limits.h>
#include <linchpin/scene/names.h>
#include <linchpin/scene/simulation.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <stdexcept>
#include <utility>

namespace linchpin::scene {

namespace {

std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", x);
  return text;
}

[[noreturn]] void refuse_name(std::string_view name, std::span<const std::string> known) {
  throw std::invalid_argument("there is no hinge or slider \"" + std::string(name) + "\"" +
                              suggestion_or_all(name, {known.begin(), known.end()}));
}

/// Returns true for constraints that make their bodies move together when one is placed elsewhere.
bool carries(const SceneConstraint& c) {
  static const char* const couplings[] = {"mimic",    "gear",    "prescribed_angle", "prescribed_distance",
                                          "equation", "velocity"};
  return !c.yields() &&
         std::none_of(std::begin(couplings), std::end(couplings), [&](const char* type) { return c.type == type; });
}

/// Moves a body with a rotation about the axis of a joint, or a shift along it. The motion relative to what the axis is
/// fixed in turns with the body.
void move_with(BodyState& body, const CoordinateRow& joint, const Quaterniond& by, const Vector3d& shift) {
  const auto carried = [&](const Vector3d& p) -> Vector3d { return joint.v + joint.w.cross(p - joint.point); };
  const Vector3d v = body.v - carried(body.p), w = body.w - joint.w;
  body.p = joint.point + by * (body.p - joint.point) + shift;
  body.q = (by * body.q).normalized();
  body.v = carried(body.p) + by * v;
  body.w = joint.w + by * w;
}

}  // namespace

std::size_t JointState::index(std::string_view name) const {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) refuse_name(name, names);
  return static_cast<std::size_t>(found - names.begin());
}

SimulationHost::~SimulationHost() = default;

/// The host without an engine.
class SteppedModel final : public SimulationHost {
 public:
  explicit SteppedModel(const Model& model)
      : system_(with_joint_limits(model).system()), stepper_(system_, system_.initial_state(), model.options) {}
  const System& system() const override { return system_; }
  const State& state() const override { return stepper_.state(); }
  void set_state(const State& state) override { stepper_.set_state(state); }
  void step(double dt) override {
    const StepReport& report = stepper_.step(dt);
    if (report.rejected)
      throw std::runtime_error("the step at t = " + number(stepper_.t()) + " s was rejected: " + report.reason);
  }
  ForceInstant force_instant() const override { return ForceInstant::present; }
  Observation forces() override { return {system_, stepper_.state(), stepper_.reactions()}; }
  System& changeable_system() { return system_; }
  Stepper& stepper() { return stepper_; }

 private:
  System system_;
  Stepper stepper_;
};

struct LINCHPIN_PRIVATE Simulation::Impl {
  struct Joint {
    const SceneConstraint* joint;  // of the model
    JointCoordinate coordinate;    // indices are BodyId::index
    double position = 0;
  };

  Model model;
  const State start = model.system().initial_state();
  std::vector<double> commands;  // of set_force() and the controller, by joint
  // The commands to which the forces of the host belong: the motors exert them.
  std::shared_ptr<std::vector<double>> exerted = std::make_shared<std::vector<double>>();
  std::vector<std::string> names;
  std::vector<Joint> joints;
  std::shared_ptr<JointCoordinates> coordinates = std::make_shared<JointCoordinates>();
  std::unique_ptr<SimulationHost> host;
  SteppedModel* stepped = nullptr;  // the host, if there is no engine
  std::unique_ptr<JointReader> reader;

  Controller controller;
  ControllerOptions options;
  long steps_to_call = 0, steps_per_call = 1;  // the next call is after so many steps
  std::vector<double> positions, velocities, forces;
  std::vector<ControllerFailure> failures;
  long failure_count = 0;
  bool in_controller = false;

  Impl(Model from, const HostFactory& factory) : model(std::move(from)) {
    find_joints();
    add_motors();
    if (factory) {
      host = factory(model);
    } else {
      auto made = std::make_unique<SteppedModel>(model);
      stepped = made.get();
      host = std::move(made);
    }
    reader = std::make_unique<JointReader>(coordinates);
    read_positions();
  }

  void find_joints() {
    for (const SceneConstraint* c : joints_with_coordinate(std::as_const(model))) {
      names.push_back(c->name);
      joints.push_back({c, driven_coordinate_of(*c, start, model.constraints, model.forces)});
      coordinates->emplace(c->name, joints.back().coordinate);
    }
    for (auto* numbers : {&commands, exerted.get(), &positions, &velocities, &forces}) numbers->resize(joints.size());
  }

  // One force for each joint, which set_force() commands.
  void add_motors() {
    for (std::size_t i = 0; i < joints.size(); ++i) {
      const SceneConstraint& c = *joints[i].joint;
      const auto command = [all = exerted, i, most = c.max_force, fastest = c.max_rate](double, double rate,
                                                                                        const ForceFrame&) {
        return within_limits((*all)[i], rate, most, fastest);
      };
      SceneForce motor = force_of_joint(motor_name(c.name), c, start, {}, command);
      model.forces.push_back(std::move(motor));
    }
  }

  void read_positions() {
    for (std::size_t i = 0; i < joints.size(); ++i) joints[i].position = reader->position(names[i], state());
  }

  const State& state() const { return host->state(); }

  void set_state(const State& to, std::span<const double> joint_positions) {
    const auto require_size = [](const char* what, std::size_t got, std::size_t expected) {
      if (got != expected)
        throw std::invalid_argument("set_state: the state has " + std::to_string(got) + " " + what +
                                    ", but the simulation has " + std::to_string(expected));
    };
    require_size("bodies", to.bodies.size(), state().bodies.size());
    if (!joint_positions.empty()) require_size("joint positions", joint_positions.size(), joints.size());
    if (!std::isfinite(to.t))
      throw std::invalid_argument("set_state: the time is " + number(to.t) + " s. It must be a finite number");
    for (std::size_t i = 1; i < to.bodies.size(); ++i) {
      const BodyState& body = to.bodies[i];
      if (body.p.allFinite() && body.v.allFinite() && body.w.allFinite() && std::fabs(body.q.norm() - 1) < 1e-6)
        continue;
      throw std::invalid_argument("set_state: the state of body \"" + model.bodies[i - 1].name +
                                  "\" has a number that is not finite, or an orientation that is no unit quaternion");
    }
    if (!joint_positions.empty()) count_turns(to, joint_positions);
    host->set_state(to);
    read_positions();
    if (joint_positions.empty()) return;
    for (std::size_t i = 0; i < joints.size(); ++i) reader->set_near(names[i], joint_positions[i]);
    read_positions();
  }

  // Actuators, limits and mimics count whole turns from state to state. Where a position is elsewhere than they count
  // it at the new state, their joint is turned there, in small steps, for them alone. An engine has limits of its own.
  void count_turns(const State& to, std::span<const double> positions) {
    constexpr double turn = 2 * std::numbers::pi;
    constexpr int parts = 12;  // of a turn
    const bool begins_again = to.t <= start.t && state().t > start.t;
    for (std::size_t i = 0; i < joints.size(); ++i) {
      const JointCoordinate& j = joints[i].coordinate;
      if (j.slides) continue;
      const CoordinateRow now = begins_again
                                    ? coordinate_row(j, to[BodyId{j.parent}], to[BodyId{j.child}], j.start_values())
                                    : reader->row(names[i], to);
      const double turns = std::round((positions[i] - (now.value - j.zero)) / turn);
      if (turns == 0) continue;
      const bool is_bound = joints[i].joint->limits || is_coupled(i);
      if (is_bound && !stepped)
        throw std::invalid_argument(
            "set_state: the position " + number(positions[i]) + " rad of joint \"" + names[i] + "\" is " +
            number(std::abs(turns)) + (std::abs(turns) > 1 ? " turns" : " turn") +
            " from where the engine counts it for its limits and mimics. Begin at that position "
            "in [model], joints");
      const bool is_driven = std::any_of(model.forces.begin(), model.forces.end(), [&](const SceneForce& force) {
        return force.joint == names[i] && force.name != motor_name(names[i]);
      });
      if (!is_bound && !is_driven) continue;
      const std::vector<char> moves = moving_with_child(i);
      const int steps = static_cast<int>(parts * std::abs(turns));
      for (int step = 0; step <= steps; ++step) {
        State turned = to;
        const Quaterniond by(Eigen::AngleAxisd(turns * turn * step / steps, now.axis));
        for (std::size_t b = 1; b < moves.size(); ++b)
          if (moves[b]) move_with(turned.bodies[b], now, by, Vector3d::Zero());
        for (const Force& force : host->system().forces())
          if (is_actuator(force.name())) (void)wrenches_of(force, turned);
        if (stepped) count_in_constraints(i, turned);
      }
    }
  }

  // Lets the limits and mimics of a joint count its turns.
  void count_in_constraints(std::size_t joint, const State& at) {
    System& system = stepped->changeable_system();
    const auto count = [&](const std::string& name) {
      const ConstraintId id = system.find_constraint(name);
      if (id.index < 0) return;
      std::vector<BodyState> X;
      for (const BodyId body : system.constraint(id).bodies()) X.push_back(at[body]);
      system.constraint(id).function().accept(X, at.t);
    };
    for (const char* end : {".lower", ".upper", ".limits"}) count(names[joint] + end);
    for (const SceneConstraint& c : model.constraints)
      if (couples(c, joint)) count(c.name);
  }

  // A mimic counts the whole turns of both of its joints.
  bool couples(const SceneConstraint& c, std::size_t joint) const {
    return c.mimic && (c.mimic->leader == names[joint] || c.mimic->follower == names[joint]);
  }
  bool is_coupled(std::size_t joint) const {
    return std::any_of(model.constraints.begin(), model.constraints.end(),
                       [&](const SceneConstraint& c) { return couples(c, joint); });
  }
  bool is_actuator(const std::string& force) const {
    return std::any_of(model.forces.begin(), model.forces.end(),
                       [&](const SceneForce& each) { return each.name == force && !each.joint.empty(); });
  }

  // The bodies that move with the child of a joint. @throws std::invalid_argument if the parent is one of them
  std::vector<char> moving_with_child(std::size_t joint) const {
    const JointCoordinate& of = joints[joint].coordinate;
    std::vector<char> moves(model.bodies.size() + 1, 0);
    std::vector<int> open = {of.child};
    moves[static_cast<std::size_t>(of.child)] = 1;
    while (!open.empty()) {
      const int body = open.back();
      open.pop_back();
      for (const SceneConstraint& c : model.constraints) {
        if (c.name == of.constraint || !carries(c)) continue;
        if (std::none_of(c.bodies.begin(), c.bodies.end(), [&](BodyId id) { return id.index == body; })) continue;
        for (const BodyId id : c.bodies) {
          char& with = moves[static_cast<std::size_t>(id.index)];
          if (!with) open.push_back(id.index);
          with = 1;
        }
      }
    }
    if (moves[static_cast<std::size_t>(of.parent)] || moves[0])
      throw std::invalid_argument("joint \"" + names[joint] +
                                  "\" is part of a closed loop, so that it cannot move alone. Set the positions of the "
                                  "start in [model], joints");
    return moves;
  }

  void require_finite(std::size_t joint, const char* what, double x) const {
    if (!std::isfinite(x))
      throw std::invalid_argument("joint \"" + names[joint] + "\": the " + what + " is " + number(x) +
                                  ". It must be a finite number");
  }

  using Mimic = SceneConstraint::Mimic;

  void refuse_to_set_follower(std::size_t joint) const {
    for (const SceneConstraint& c : model.constraints)
      if (c.mimic && c.mimic->follower == names[joint])
        throw std::invalid_argument("joint \"" + names[joint] + "\" mimics joint \"" + c.mimic->leader +
                                    "\", so that it cannot be set. Set \"" + c.mimic->leader + "\"");
  }

  // Calls `set` with each joint that mimics this one, and with the coupling.
  void for_followers(std::size_t joint, const std::function<void(std::size_t, const Mimic&)>& set) const {
    for (const SceneConstraint& c : model.constraints) {
      if (!c.mimic || c.mimic->leader != names[joint]) continue;
      const auto found = std::find(names.begin(), names.end(), c.mimic->follower);
      if (found != names.end()) set(static_cast<std::size_t>(found - names.begin()), *c.mimic);
    }
  }

  void set_position(std::size_t joint, double position) {
    require_finite(joint, "position", position);
    refuse_to_set_follower(joint);
    State state = host->state();
    place(joint, within_rigid_limits(joint, position), state);
    host->set_state(state);
    read_positions();
  }

  // No pose is beyond a limit that linchpin holds. A projection onto the limit would move other joints, too.
  double within_rigid_limits(std::size_t joint, double position) const {
    const auto& limits = joints[joint].joint->limits;
    const auto held = [&](const char* end) { return host->system().find_constraint(names[joint] + end).index >= 0; };
    if (!limits || !(held(".lower") || held(".limits"))) return position;
    return std::clamp(position, limits->first, limits->second);
  }

  // Places a joint, and those that mimic it.
  void place(std::size_t joint, double position, State& state) const {
    const double by = position - joints[joint].position;
    const bool slides = joints[joint].coordinate.slides;
    if (!slides && std::fabs(by) >= std::numbers::pi)
      throw std::invalid_argument(
          "joint \"" + names[joint] + "\": the position " + number(position) +
          " rad is half a turn or more from the present position " + number(joints[joint].position) +
          " rad, so that its whole turns are not known. Set it in shorter steps, or give the positions of the start in "
          "[model], joints");
    const std::vector<char> moves = moving_with_child(joint);
    const CoordinateRow at = reader->row(names[joint], state);
    const Quaterniond turn(Eigen::AngleAxisd(slides ? 0 : by, at.axis));
    const Vector3d shift = slides ? Vector3d(by * at.axis) : Vector3d::Zero();
    for (std::size_t i = 1; i < moves.size(); ++i)
      if (moves[i]) move_with(state.bodies[i], at, turn, shift);
    for_followers(joint, [&](std::size_t follower, const Mimic& mimic) {
      place(follower, mimic.multiplier * position + mimic.offset, state);
    });
  }

  void set_velocity(std::size_t joint, double velocity) {
    require_finite(joint, "rate", velocity);
    refuse_to_set_follower(joint);
    State state = host->state();
    set_rate(joint, velocity, state);
    host->set_state(state);
  }

  // Sets the rate of a joint, and of those that mimic it.
  void set_rate(std::size_t joint, double velocity, State& state) const {
    const std::vector<char> moves = moving_with_child(joint);
    const CoordinateRow at = reader->row(names[joint], state);
    const double by = velocity - at.rate;
    for (std::size_t i = 1; i < moves.size(); ++i) {
      if (!moves[i]) continue;
      BodyState& body = state.bodies[i];
      if (joints[joint].coordinate.slides) {
        body.v += by * at.axis;
      } else {
        body.v += by * at.axis.cross(body.p - at.point);
        body.w += by * at.axis;
      }
    }
    for_followers(joint, [&](std::size_t follower, const Mimic& mimic) {
      set_rate(follower, mimic.multiplier * velocity, state);
    });
  }

  void set_force(std::size_t joint, double force) {
    require_finite(joint, "force", force);
    command(joint, within_limits(force, 0, joints[joint].joint->max_force, {}));
  }

  void command(std::size_t joint, double force) {
    commands[joint] = force;
    if (host->force_instant() == ForceInstant::present) (*exerted)[joint] = force;
  }

  void refuse_in_controller(const char* what) const {
    if (in_controller)
      throw OrderError(std::string("a controller cannot call ") + what + ". Call it between two steps");
  }

  void step() {
    refuse_in_controller("step() or run()");
    control();
    *exerted = commands;
    host->step(model.dt);
    read_positions();
  }

  double acceleration(std::size_t joint) {
    const Observation at = host->forces();
    if (host->force_instant() == ForceInstant::start_of_last_step) {
      const double before = reader->velocity(names[joint], at.state), now = reader->velocity(names[joint], state());
      return (now - before) / (state().t - at.state.t);
    }
    Accelerations accelerations;
    accelerations.evaluate(at);
    const JointCoordinate& j = joints[joint].coordinate;
    return reader->acceleration(names[joint], at.state, accelerations.of(at, BodyId{j.parent}),
                                accelerations.of(at, BodyId{j.child}));
  }

  SteppedModel& without_engine(const char* what) const {
    if (!stepped)
      throw OrderError(std::string("this simulation runs in an engine, so it has no ") + what +
                       ". Use state(), reactions() and the functions of the engine's simulation");
    return *stepped;
  }

  // ---- the controller ----

  void control() {
    if (!controller) return;
    if (steps_to_call > 0) {
      --steps_to_call;
      return;
    }
    steps_to_call = steps_per_call - 1;
    for (std::size_t i = 0; i < joints.size(); ++i) {
      positions[i] = joints[i].position;
      velocities[i] = reader->velocity(names[i], state());
    }
    forces.assign(joints.size(), 0.0);
    const auto began = std::chrono::steady_clock::now();
    in_controller = true;
    const std::unique_ptr<bool, void (*)(bool*)> back(&in_controller, [](bool* flag) { *flag = false; });
    try {
      controller({state().t, names, positions, velocities}, forces);
    } catch (const std::exception& e) {
      return fail(ControllerFailure::Kind::exception, std::string("the controller threw an exception: ") + e.what());
    } catch (...) {
      return fail(ControllerFailure::Kind::exception, "the controller threw an exception of an unknown type");
    }
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    if (forces.size() != joints.size())
      return fail(ControllerFailure::Kind::wrong_size, "the controller returned " + std::to_string(forces.size()) +
                                                           " forces for " + std::to_string(joints.size()) + " joints");
    for (std::size_t i = 0; i < forces.size(); ++i)
      if (!std::isfinite(forces[i]))
        return fail(ControllerFailure::Kind::not_finite,
                    "the controller returned " + number(forces[i]) + " for joint \"" + names[i] + "\"");
    if (options.deadline > 0 && took > options.deadline)
      return fail(ControllerFailure::Kind::late, "the controller took " + number(took) + " s, which is more than its " +
                                                     "deadline of " + number(options.deadline) + " s");
    for (std::size_t i = 0; i < forces.size(); ++i) set_force(i, forces[i]);
  }

  void fail(ControllerFailure::Kind kind, const std::string& what) {
    constexpr long most = 100;
    const bool holds = options.on_failure == FailureCommand::hold;
    for (std::size_t i = 0; !holds && i < commands.size(); ++i) command(i, 0);
    if (++failure_count > most) return;
    failures.push_back({state().t, kind,
                        "at t = " + number(state().t) + " s " + what + ". For one period " +
                            (holds ? "the motors keep their last forces" : "the motors have no force")});
  }
};

Simulation::Simulation(Model model) : Simulation(std::move(model), HostFactory()) {}
Simulation::Simulation(Model model, const HostFactory& factory)
    : impl_(std::make_unique<Impl>(std::move(model), factory)) {}
Simulation::~Simulation() = default;

std::span<const std::string> Simulation::joints() const { return impl_->names; }

SimulatedJoint Simulation::joint(std::string_view name) {
  const auto found = std::find(impl_->names.begin(), impl_->names.end(), name);
  if (found == impl_->names.end()) refuse_name(name, impl_->names);
  return {*this, static_cast<std::size_t>(found - impl_->names.begin())};
}

void Simulation::step() { impl_->step(); }

void Simulation::run(double duration) {
  if (!(duration >= 0) || !std::isfinite(duration))
    throw std::invalid_argument("run: the duration is " + number(duration) +
                                " s. It must be a finite number, at least 0");
  const double steps = std::ceil(duration / impl_->model.dt - 1e-6);
  for (long i = 0; static_cast<double>(i) < steps; ++i) step();
}

void Simulation::set_controller(Controller controller, ControllerOptions options) {
  impl_->refuse_in_controller("set_controller()");
  const double dt = impl_->model.dt, ratio = options.period / dt;
  const bool is_multiple = options.period == 0 || (ratio > 0.5 && std::fabs(ratio - std::round(ratio)) < 1e-6);
  if (!is_multiple || ratio > 1e9)
    throw std::invalid_argument("the period of the controller is " + number(options.period) +
                                " s. It must be a multiple of the step, which is " + number(dt) + " s");
  if (!(options.deadline >= 0))
    throw std::invalid_argument("the deadline of the controller is " + number(options.deadline) +
                                " s. It must be positive, or 0 for none");
  impl_->controller = std::move(controller);
  impl_->options = options;
  impl_->steps_per_call = options.period == 0 ? 1 : std::lround(ratio);
  impl_->steps_to_call = 0;
  impl_->failures.clear();
  impl_->failure_count = 0;
}

std::span<const ControllerFailure> Simulation::failures() const { return impl_->failures; }
long Simulation::failure_count() const { return impl_->failure_count; }
const Model& Simulation::model() const { return impl_->model; }
const State& Simulation::state() const { return impl_->state(); }
const System& Simulation::system() const { return impl_->host->system(); }
void Simulation::set_state(const State& state, std::span<const double> joint_positions) {
  impl_->refuse_in_controller("set_state()");
  impl_->set_state(state, joint_positions);
}
std::span<const Reaction> Simulation::reactions() { return impl_->host->forces().reactions; }
System& Simulation::system() { return impl_->without_engine("System to change").changeable_system(); }
Stepper& Simulation::stepper() { return impl_->without_engine("Stepper").stepper(); }
const Stepper& Simulation::stepper() const { return impl_->without_engine("Stepper").stepper(); }
SimulationHost& Simulation::host() { return *impl_->host; }

const std::string& SimulatedJoint::name() const { return simulation_->impl_->names[index_]; }
bool SimulatedJoint::slides() const { return simulation_->impl_->joints[index_].coordinate.slides; }
double SimulatedJoint::position() const { return simulation_->impl_->joints[index_].position; }
double SimulatedJoint::velocity() const { return simulation_->impl_->reader->velocity(name(), simulation_->state()); }
double SimulatedJoint::acceleration() const { return simulation_->impl_->acceleration(index_); }
double SimulatedJoint::force() const {
  return simulation_->impl_->reader->force(name(), simulation_->impl_->host->forces());
}
Wrench SimulatedJoint::wrench() const {
  const std::string& constraint = simulation_->impl_->joints[index_].coordinate.constraint;
  for (const Reaction& r : simulation_->reactions())
    if (r.name == constraint) return r.on(1);
  return {};
}
std::optional<std::pair<double, double>> SimulatedJoint::limits() const {
  return simulation_->impl_->joints[index_].joint->limits;
}
std::optional<double> SimulatedJoint::max_force() const { return simulation_->impl_->joints[index_].joint->max_force; }
std::optional<double> SimulatedJoint::max_rate() const { return simulation_->impl_->joints[index_].joint->max_rate; }
void SimulatedJoint::set_position(double position) { simulation_->impl_->set_position(index_, position); }
void SimulatedJoint::set_velocity(double velocity) { simulation_->impl_->set_velocity(index_, velocity); }
void SimulatedJoint::set_force(double force) { simulation_->impl_->set_force(index_, force); }

}  // namespace linchpin::scene
