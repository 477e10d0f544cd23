// Rank decision for rows of loops. In joint coordinates a nearly redundant row becomes short, but the solver scales
// every row to unit length. Its length in maximal coordinates, where every link is a body and every joint a
// constraint, distinguishes a real row from the rounding of a file (T6). Private to the core.
#pragma once

#include "articulated/gram_factor.h"
#include "math/vector_ops.h"

#include <linchpin/problem.h>
#include <linchpin/system.h>

#include <span>
#include <vector>

namespace linchpin::articulated {

/// A rigid body that moves and shares a constraint with links.
struct RigidBody {
  BodyId id;
  int column = 0, dof = 0;
  Vector3d force = Vector3d::Zero(), moment = Vector3d::Zero();  ///< applied, gravity included, world axes
  bool gyroscopic = false;  ///< whether the host gives it its gyroscopic torque (T2)
};

/// Which rows of a problem say something of their own. Rows that do not are dropped: their entries become zero, and
/// nothing is asked of them.
class TreeRank {
 public:
  void resize(int rows);
  void keep_all_rows();
  bool is_dropped(int row) const { return dropped_[z(row)] != 0; }
  /// e ← 0 in the dropped rows.
  void zero_dropped_rows(std::span<double> e) const;

  /// Length of a row of B, had its links been bodies of their own, whose joints' rows share in it. Zero: not known.
  /// @param links_square, rigid_square  squared length in the columns of links and of rigid bodies
  /// @param joints                      of the trees that its forces go through
  void set_length(int row, double links_square, double rigid_square, int joints);

  struct Tolerances {
    double cut;   ///< rows of which less than this part is left across the rows before are dropped
    double rank;  ///< below this part, rounding is left, which the solver itself decides on
  };
  /// Returns whether the rows of a factor are so far from dependent that none is to be dropped.
  bool is_clear(std::span<const GramFactor::KeptRow> rows, double cut) const;
  /// Drops dependent rows, in columns in which the mass of trees is one.
  /// @param smallest_pivot  of the factor of all rows; a large one makes the closer look unnecessary
  /// @param rigid           whose columns follow those of the trees
  /// @return whether a row was dropped: then the problem has to be factored again
  bool drop_dependent_rows(ConstrainedProblem& problem, double smallest_pivot, Tolerances tolerances,
                           const System& system, const State& state, std::span<const RigidBody> rigid);

 private:
  double smallest_relative_length(const ConstrainedProblem& problem, int first_rigid_column) const;
  void fill_rows(const ConstrainedProblem& problem, const System& system, const State& state,
                 std::span<const RigidBody> rigid);
  void orthogonalize(double cut);

  int columns_ = 0;
  std::vector<double> length_, rigid_square_;   ///< by row, as set_length() has them
  std::vector<double> remainder_;               ///< part of each row across those before it [rows × columns]
  std::vector<double> initial_remainder_size_;  ///< by row
  std::vector<char> dropped_, done_;            ///< by row
};

}  // namespace linchpin::articulated
