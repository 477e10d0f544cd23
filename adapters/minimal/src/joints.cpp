#include <linchpin/minimal.h>

#include <stdexcept>
#include <utility>

namespace linchpin::minimal {

namespace {

using Kind = toy::Joint::Kind;

std::size_t z(int i) { return static_cast<std::size_t>(i); }

constexpr const char* names[] = {"ball", "hinge", "slider", "weld"};  // by kind

/// The equality part of a joint, by primitives. The axis of a joint is the z axis of its frames.
JointRows equality_rows(const toy::Joint::Settings& joint) {
  const toy::Frame &a = joint.on_a, &b = joint.on_b;
  JointRows rows;
  if (joint.kind == Kind::slider)
    for (const int k : {0, 1}) rows.axes.push_back({a.axes.col(k), a.origin, b.origin, 0});
  else
    rows.points.push_back({a.origin, b.origin});
  if (joint.kind == Kind::ball) return rows;
  for (const int k : {0, 1}) rows.dots.push_back({a.axes.col(k), b.axes.col(2), 0});
  rows.alignment = {JointRows::Alignment::Of::direction, a.axes, b.axes};
  if (joint.kind == Kind::hinge) return rows;
  rows.dots.push_back({a.axes.col(0), b.axes.col(1), 0});
  rows.alignment.of = JointRows::Alignment::Of::orientation;
  return rows;
}

}  // namespace

int Solver::joint_of(int entry) const { return z(entry) < joint_of_.size() ? joint_of_[z(entry)] : -1; }

// ---- joints of the world ----

void Solver::scan_joints() {
  const auto count = static_cast<std::size_t>(world_.joint_count());
  bool changed = count != joints_.size();
  joints_.resize(count);
  for (int i = 0; i < world_.joint_count(); ++i) {
    JointBinding& binding = joints_[z(i)];
    const toy::Joint* const joint = world_.joint(i);
    if (!joint) {
      if (binding.entry < 0) continue;
      joint_of_[z(binding.entry)] = -1;
      solver_.remove(std::exchange(binding.entry, -1));
      changed = true;
      continue;
    }
    if (binding.entry >= 0 && joint->settings == binding.settings) continue;
    changed = true;
    if (binding.entry < 0) {
      const std::string name =
          solver_.free_name(std::string(names[static_cast<int>(joint->settings.kind)]) + "#" + std::to_string(i));
      binding.entry = solver_.add_entry(host::ConstraintEntry::Owner::joint, name);
      joint_of_.resize(z(solver_.entry_count()), -1);
      joint_of_[z(binding.entry)] = i;
    } else {
      solver_.note_frames_moved(binding.entry);
    }
    classify(i);
  }
  if (changed) order_reactions();
}

void Solver::order_reactions() {
  std::vector<int> order;
  for (const JointBinding& binding : joints_)
    if (binding.entry >= 0) order.push_back(binding.entry);
  solver_.set_order(order);
  solver_.structure_changed();
}

// Gives the equality part of a joint to the solver. What the solver does not take stays with the engine, by name.
void Solver::classify(int joint) {
  JointBinding& binding = joints_[z(joint)];
  binding.settings = world_.joint(joint)->settings;
  const toy::Joint::Settings& s = binding.settings;
  const int entry = binding.entry;
  const BodyId a = id(s.a), b = id(s.b);
  const JointRows rows = equality_rows(s);
  std::string why = "neither body can move";
  solver_.set_left_to_host(entry, true);  // until it is solved
  solver_.detach(entry);
  host::ConstraintEntry& r = solver_.entry(entry);
  try {
    if (solver_.system().dof(a) + solver_.system().dof(b) > 0)
      why = solver_.attach(entry, linchpin::joint(r.name, a, b, rows, s.on_a.origin, s.on_b.origin));
  } catch (const std::exception& e) {  // frames that are no numbers: nothing throws out of a step
    why = e.what();
  }
  solver_.set_geometry(entry, why.empty() ? rows : JointRows{});
  const bool has_motor = s.kind == Kind::hinge && s.motor_torque > 0;
  r.host_part = !why.empty() ? "all (" + why + ")" : has_motor ? "motor" : "";
  r.may_have_host_rows = why.empty() && has_motor;
  if (!why.empty()) solver_.clear_reaction(entry);
}

int Solver::entry_of_joint(int joint) {
  scan_joints();
  return joint >= 0 && z(joint) < joints_.size() ? joints_[z(joint)].entry : -1;
}

// ---- constraints of the program ----

int Solver::add(Constraint constraint) {
  int entry = -1;
  if (const std::string why = solver_.add_constraint(std::move(constraint), entry); !why.empty())
    throw std::invalid_argument(why);
  return entry;
}

void Solver::remove(int entry) {
  if (joint_of(entry) >= 0) return;
  solver_.remove(entry);
  order_reactions();
}

// A body that became kinematic, or free again, has another id. A constraint of the program goes with its body.
void Solver::replace_body(BodyId was, BodyId is) {
  for (int entry = 0; entry < solver_.entry_count(); ++entry) {
    if (!solver_.acts_on(entry, was)) continue;
    if (solver_.entry(entry).is_joint())
      classify(joint_of(entry));
    else if (is.index < 0)
      remove(entry);
    else
      solver_.replace_body(entry, was, is);
  }
}

// ---- host::World ----

bool Solver::is_enabled(int entry) const {
  const host::ConstraintEntry& r = solver_.entry(entry);
  return r.is_joint() ? world_.joint(joint_of(entry))->settings.enabled : r.enabled && !r.released;
}

void Solver::enable(int entry, bool on) {
  if (toy::Joint* const joint = world_.joint(joint_of(entry))) joint->settings.enabled = on;
}

double Solver::breaking_impulse(int entry) const { return world_.joint(joint_of(entry))->breaking_impulse; }

void Solver::break_joint(int entry) { enable(entry, false); }

void Solver::report_impulses(std::span<const host::JointImpulse> impulses, bool) {
  for (const host::JointImpulse& x : impulses) world_.joint(joint_of(x.entry))->impulse = x.impulse;
}

void Solver::solve_in_host(int entry) { left_to_host_.push_back(entry); }

}  // namespace linchpin::minimal
