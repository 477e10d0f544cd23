// From a system at a state to an `Instant`: which bodies and constraints form a block, and the rows, masses, forces and
// residuals that they have there.
#pragma once

#include <linchpin/problem.h>
#include <linchpin/system.h>

#include <Eigen/Core>

#include <span>
#include <string>
#include <vector>

namespace linchpin {

/// The bodies and constraints of one block and where their columns and rows are. A system may be cut into blocks that
/// share no constraint; each is assembled and solved on its own.
struct Block {
  std::vector<BodyId> bodies;             ///< the movable ones, in column order, which is that of BodyId
  std::vector<int> column;                ///< first column of each, and n at the end
  std::vector<ConstraintId> constraints;  ///< enabled ones, in row order
  std::vector<int> row;                   ///< first row of each, and m at the end

  /// Index of a body in `bodies`, −1 outside the block. O(log).
  int slot(BodyId id) const;
  int n() const { return column.empty() ? 0 : column.back(); }
  int m() const { return row.empty() ? 0 : row.back(); }
};

/// The whole system as one block.
Block whole(const System& system);
/// Only the given constraints (and all movable bodies they touch, in BodyId order). Reuses `out`'s memory.
void make_block(const System& system, std::span<const ConstraintId> constraints, Block& out);

/// A, b and the residuals (T4) of a block at a state, beside the Instant they are part of.
struct Assembly {
  Block block;
  Instant instant;
  std::vector<double> position;  ///< [m] φ (0 for rows of the other levels)
  std::vector<double> velocity;  ///< [m] φ̇ = A v + φ_t, or ψ
  std::vector<double> v;         ///< [n] the block's velocities, as in the state
  std::vector<double> bias;      ///< [n] h of M q̈ + h = Q for coordinates (Kinetics); zero for bodies
  std::string failure;  ///< names the constraint whose residual was not finite or threw; empty when all went well

  /// The jacobian of constraint i of the block with respect to its body k as assembled: [rows × 6], row-major; columns
  /// beyond dof(k) and those of fixed bodies are not in A but are kept here.
  std::span<const double> jacobian(int i, int k) const;
  /// Index of body k of constraint i in block.bodies, −1 outside.
  int slot(int i, int k) const { return slots[static_cast<std::size_t>(slot_start[static_cast<std::size_t>(i)] + k)]; }

  std::vector<double> jacobians;    ///< per constraint K blocks of [rows × 6]
  std::vector<int> jacobian_start;  ///< per constraint
  std::vector<int> slot_start;      ///< per constraint, in `slots`
  std::vector<int> slots;           ///< of each of its bodies: index into block.bodies, −1 outside
  Block laid_out;                   ///< the block whose pattern `instant` has,
  unsigned long laid_out_for = 0;   ///< and the System::structure() it was laid out for
  struct EntryRun {
    int source = 0, length = 0;  // in `jacobians`
  };
  std::vector<EntryRun> entry_runs;  ///< the entries of `instant` in order, one row of one body after the other
  std::vector<BodyState> scratch;
  std::vector<double> scratch_rows, scratch_q;
  std::vector<Eigen::Matrix<double, 6, 1>> scratch_wrenches;
};

/// Fills everything of `out` but Q and c, for out.block, at `state`: M, A, b, residuals, v. No allocation once warm.
void assemble_constraints(const System& system, const State& state, Assembly& out) noexcept;
/// Fills Q (T2): gravity, gyroscopic torque, the system's forces; c is set to zero.
void assemble_forces(const System& system, const State& state, Assembly& out) noexcept;

/// One instant of a whole system, ideal constraints only (laws need the ideal forces first: see Dynamics).
[[nodiscard]] Instant assemble(const System& system, const State& state);

}  // namespace linchpin
