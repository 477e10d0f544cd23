#include "indices.h"

#include <linchpin/minimal.h>

#include <stdexcept>
#include <utility>

namespace linchpin::minimal {

namespace {

using Kind = toy::Joint::Kind;

constexpr const char* names[] = {"ball", "hinge", "slider", "weld"};  // by kind

/// The equality part of a joint, by primitives. The axis of a joint is the z axis of its frames. A motor stays with the
/// engine, by name.
host::JointShape shape_of(const toy::Joint::Settings& joint) {
  const toy::Frame &a = joint.on_a, &b = joint.on_b;
  host::JointShape shape;
  shape.application_A = a.origin;
  shape.application_B = b.origin;
  if (joint.kind == Kind::slider)
    for (const int k : {0, 1}) shape.hold_distance(a.axes.col(k), 0);
  else
    shape.hold_point();
  if (joint.kind == Kind::hinge && joint.motor_torque > 0) shape.leave("motor");
  if (joint.kind == Kind::ball) return shape;
  for (const int k : {0, 1}) shape.hold_dot(a.axes.col(k), b.axes.col(2));
  shape.rows.alignment = {JointRows::Alignment::Of::direction, a.axes, b.axes};
  if (joint.kind == Kind::hinge) return shape;
  shape.hold_dot(a.axes.col(0), b.axes.col(1));
  shape.rows.alignment.of = JointRows::Alignment::Of::orientation;
  return shape;
}

}  // namespace

int Solver::joint_of(int entry) const { return z(entry) < joint_of_.size() ? joint_of_[z(entry)] : -1; }

// ---- joints of the world ----

void Solver::find_joints() {
  bool changed = joints_.size() != static_cast<std::size_t>(world_.joint_count());
  joints_.resize(static_cast<std::size_t>(world_.joint_count()));
  for (int i = 0; i < world_.joint_count(); ++i) {
    JointBinding& binding = joints_[z(i)];
    const toy::Joint* const joint = world_.joint(i);
    if ((joint != nullptr) == (binding.entry >= 0)) continue;
    changed = true;
    if (!joint) {
      joint_of_[z(binding.entry)] = -1;
      solver_.remove(std::exchange(binding.entry, -1));
      continue;
    }
    const std::string name = std::string(names[static_cast<int>(joint->settings.kind)]) + "#" + std::to_string(i);
    binding.entry = solver_.add_entry(host::ConstraintEntry::Owner::joint, solver_.free_name(name));
    joint_of_.resize(z(solver_.entry_count()), -1);
    joint_of_[z(binding.entry)] = i;
    map_joint(binding.entry);
  }
  if (!changed) return;
  std::vector<int> order;
  for (const JointBinding& binding : joints_) order.push_back(binding.entry);
  solver_.set_order(order);
}

void Solver::map_joints(bool) {
  for (const JointBinding& binding : joints_)
    if (binding.entry >= 0) map_joint(binding.entry);
}

void Solver::map_joint(int entry) {
  const toy::Joint* const joint = world_.joint(joint_of(entry));
  if (!joint) return;
  JointBinding& binding = joints_[z(joint_of(entry))];
  const toy::Joint::Settings& now = joint->settings;
  const int missing = world_.missing_body(now);
  if (missing != -1 && absent_.index < 0) absent_ = solver_.add_body(BodyKind::fixed, 0, Vector3d::Zero());
  const std::array<BodyId, 2> bodies = missing == -1 ? std::array{id(now.a), id(now.b)} : std::array{absent_, ground};
  const bool has_changed = missing != std::exchange(binding.missing, missing) || now != binding.settings;
  binding.settings = now;
  if (!solver_.is_to_be_mapped(entry, bodies, has_changed)) return;
  const std::string why = "it names body " + std::to_string(missing) + ", which is not in the world";
  solver_.set_joint(entry, bodies, missing == -1 ? shape_of(now) : host::JointShape::left_to_host(why));
}

int Solver::entry_of_joint(int joint) {
  find_joints();
  return joint >= 0 && z(joint) < joints_.size() ? joints_[z(joint)].entry : -1;
}

// ---- constraints of the program ----

int Solver::add(Constraint constraint) { return solver_.add_constraint(std::move(constraint)); }

void Solver::remove(int entry) {
  if (joint_of(entry) < 0) solver_.remove(entry);
}

// ---- host::World ----

bool Solver::is_enabled(int entry) const {
  const host::ConstraintEntry& r = solver_.entry(entry);
  if (!r.is_joint()) return r.enabled && !r.released;
  const toy::Joint* const joint = world_.joint(joint_of(entry));
  return joint && joint->settings.enabled;
}

void Solver::enable(int entry, bool on) {
  if (toy::Joint* const joint = world_.joint(joint_of(entry))) joint->settings.enabled = on;
}

double Solver::breaking_impulse(int entry) const {
  const toy::Joint* const joint = world_.joint(joint_of(entry));
  return joint ? joint->breaking_impulse : host::World::breaking_impulse(entry);
}

void Solver::break_joint(int entry) { enable(entry, false); }

void Solver::report_impulses(std::span<const host::JointImpulse> impulses) {
  for (const host::JointImpulse& x : impulses)
    if (toy::Joint* const joint = world_.joint(joint_of(x.entry))) joint->impulse = x.impulse;
}

void Solver::solve_in_host(int entry) { left_to_host_.push_back(entry); }

}  // namespace linchpin::minimal
