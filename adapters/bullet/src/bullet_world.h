// A Bullet world as the solver sees it: bodies, joints and rows are read and written here, and nothing is decided.
#pragma once

#include "body_table.h"
#include "joint_table.h"
#include "row_reader.h"

#include <linchpin/host.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace LINCHPIN_BULLET_NAMESPACE {

class Multibodies;  // multibody.h

/// Bodies, contacts and constraints that Bullet gives to a solver.
struct Group {
  std::span<btCollisionObject*> bodies;
  std::span<btPersistentManifold*> manifolds;
  std::span<btTypedConstraint*> constraints;
};

class BulletWorld final : public host::World {
 public:
  explicit BulletWorld(const host::SolverOptions& options);
  ~BulletWorld() override;
  void enter(btDiscreteDynamicsWorld* world);  ///< null: leaves it
  btDiscreteDynamicsWorld* world() const { return bodies.world(); }
  void end() { ended_ = true; }  ///< The world has been destroyed before it was left.

  host::ConstraintSolver solver;
  BodyTable bodies;
  JointTable joints;
  RowReader rows;
  std::unique_ptr<Multibodies> multibodies;            ///< of a btMultiBodyDynamicsWorld
  std::vector<btTypedConstraint*> native_constraints;  ///< that Bullet solves itself in the group at hand
  std::string native_solver = "sequential impulse";

  // host::World: the calls that the binding makes, too
  const char* why_absent() const override;
  bool has_ended() const override { return ended_; }
  void find_joints() override { joints.scan(); }
  void look_at_bodies(bool step_begins) override { step_begins ? bodies.watch() : bodies.drop_gone(); }
  void map_joints(bool is_anew) override { is_anew ? joints.map_anew() : joints.watch(); }

 private:
  std::string name() const override;
  double energy() const override;
  void map_joint(int entry) override;
  void entry_removed(int entry) override { joints.forget(entry); }
  bool keeps_entry(int entry) const override;
  void read(BodyId id, BodyState& out) const override;
  const char* why_unsupported(BodyId id) const override;
  unsigned locked_axes(BodyId id) const override;
  void read_forces(BodyId id, host::Load& load) const override;
  void read_frame(BodyId id, Vector3d& p, Matrix3d& R) const override;
  int row_body(BodyId id) const override { return rows.row_body(*bodies.body(id)); }
  void write(std::span<host::Motion> motions) override;
  void replace_velocity(const host::Motion& given, const Vector3d& v, const Vector3d& w) override;
  void move(BodyId id, const Vector3d& p, const Quaterniond& q) override;
  bool can_hold(const Vector3d& u) const override { return can_be_squared(u); }
  Quaterniond rotation(const Vector3d& w, double dt) const override { return host_rotation(w, dt); }
  Vector3d rounded(const Vector3d& u) const override { return from_bullet(to_bullet(u)); }
  double swept_motion(BodyId id) const override { return double(bodies.body(id)->getCcdSquareMotionThreshold()); }
  bool is_awake(BodyId id) const override { return bodies.body(id)->isActive(); }
  void prefetch_body(BodyId id, Access access) const override;
  void wake(BodyId id) override;
  bool may_fall_asleep(BodyId id) const override;
  double rest_time(BodyId id) const override { return double(bodies.body(id)->getDeactivationTime()); }
  void restart_rest_timer(BodyId id) override { bodies.body(id)->setDeactivationTime(0); }
  bool is_enabled(int entry) const override;
  void enable(int entry, bool on) override { joints.enable(entry, on); }
  bool needs_forces(int entry) const override { return joints[entry].joint->getJointFeedback() != nullptr; }
  double breaking_impulse(int entry) const override;
  void break_joint(int entry) override { joints[entry].joint->setEnabled(false); }
  bool is_host_part_broken(int entry) const override {
    return joints[entry].native_part && !joints[entry].native_part->isEnabled();
  }
  void report_impulses(std::span<const host::JointImpulse> impulses) override;
  void report_forces(int entry, const Wrench& on_a, const Wrench& on_b) override;
  void solve_in_host(int entry) override;

  bool ended_ = false;
};

}  // namespace LINCHPIN_BULLET_NAMESPACE
