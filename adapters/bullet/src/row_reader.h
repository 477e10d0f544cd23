// The rows of Bullet's solver as the host module knows them: reading them, and applying what it changes of them.
#pragma once

#include "joint_table.h"

#include <linchpin/host.h>

#include <BulletDynamics/Featherstone/btMultiBodySolverConstraint.h>

#include <array>
#include <vector>

namespace LINCHPIN_BULLET_NAMESPACE {

/// Rows that act on a multibody, and perhaps a rigid body; none in a world without.
using LinkRows = std::array<const btMultiBodyConstraintArray*, 5>;

/// The arrays of Bullet's solver during one group.
struct SolverArrays {
  btAlignedObjectArray<btSolverBody>& bodies;
  btConstraintArray& contacts;
  btConstraintArray& joints;
  btConstraintArray& friction;
  btConstraintArray& rolling;
  LinkRows link_rows{};
  /// In the order of host::Rows::all().
  std::array<btConstraintArray*, 4> all() const { return {&contacts, &joints, &friction, &rolling}; }
};

class RowReader {
 public:
  RowReader(host::ConstraintSolver& solver, const BodyTable& bodies, const JointTable& joints)
      : solver_(solver), bodies_(bodies), joints_(joints) {}

  /// Index of a body in the arrays, −1 where it is not there.
  int row_body(const btRigidBody& body) const;
  /// Takes the mass of kinematic bodies away. Otherwise rows, warm start, pushes and forces would move them from where
  /// the program has them. Their velocity would still be there in the next of several substeps.
  void hold_kinematic(SolverArrays arrays) const;
  /// Before a setup is done again: companion ids of kinematic bodies outlive a setup, and would index the next arrays.
  static void forget_companions(SolverArrays arrays);

  /// Rows are set up. @return false where they are to be set up once more
  bool start(SolverArrays arrays);
  void push(SolverArrays arrays);
  /// Gives rows of small number the motion of whole islands. @return whether there are any, which row_generic() and
  /// row_lower() then solve instead of Bullet's own until the iterations end
  bool couple(SolverArrays arrays, bool find_composites);
  void begin_iterations(SolverArrays arrays, btSingleConstraintRowSolver generic, btSingleConstraintRowSolver lower);
  static btScalar row_generic(btSolverBody& a, btSolverBody& b, const btSolverConstraint& row);
  static btScalar row_lower(btSolverBody& a, btSolverBody& b, const btSolverConstraint& row);
  void project(SolverArrays arrays);
  /// The iterations are over. @return false where rows are to be set up once more
  bool finish(SolverArrays arrays);

 private:
  void read_bodies(SolverArrays arrays);
  void read_rows(SolverArrays arrays);
  void read_joints(SolverArrays arrays);
  void read_link_rows(SolverArrays arrays);
  host::Row& read_row(const btSolverConstraint& row, int index, std::vector<host::Row>& to) const;
  void read_friction(const btConstraintArray& from, const btConstraintArray& contacts, std::vector<host::Row>& to);
  bool concerns_us(const btSolverConstraint& row) const;
  void add_torques(SolverArrays arrays, btConstraintArray& friction) const;
  void leave_out_rigid_parts(SolverArrays arrays);
  void write_start_velocities(SolverArrays arrays);
  bool make_composites(SolverArrays arrays);
  void put_on_composites(btSolverConstraint& row, const host::CompositeRow& by);
  void put_rows_back(SolverArrays arrays);
  void apply_changes(SolverArrays arrays);
  void apply(const host::RowChange& change, btSolverConstraint& row) const;
  btScalar resolve(btSolverBody& a, btSolverBody& b, const btSolverConstraint& row, bool bounded_above) const;
  const host::Response* response_of(const btSolverConstraint& row) const;

  /// The side of a row as it was before the row acted on a composite body.
  struct Side {
    btSolverConstraint* row;
    int k, body;
    btVector3 moment, angular;
  };
  /// A part of the arrays whose rows have responses.
  struct Range {
    const btSolverConstraint* first = nullptr;
    std::vector<const host::Response*> response;  // by row; null: none
  };

  host::ConstraintSolver& solver_;
  const BodyTable& bodies_;
  const JointTable& joints_;
  btAlignedObjectArray<btSolverBody>* solver_bodies_ = nullptr;  // during a group
  host::Rows rows_;
  std::vector<int> own_rows_;
  std::vector<Side> sides_;
  std::vector<int> composite_body_;  // by composite: its solver body
  std::array<Range, 4> ranges_;
  std::vector<btVector3> motion_;  // of responses, in Bullet's precision: linear and angular by body
  btSingleConstraintRowSolver native_generic_ = nullptr, native_lower_ = nullptr;
};

}  // namespace LINCHPIN_BULLET_NAMESPACE
