// Builds a `ConstrainedProblem` from a system at a state. Defines the island of bodies and constraints, and their rows,
// masses, forces and residuals.
#pragma once

#include <linchpin/export.h>
#include <linchpin/problem.h>
#include <linchpin/system.h>

#include <Eigen/Core>

#include <span>
#include <string>
#include <vector>

namespace linchpin {

/// A plain value. The layout of an island: bodies and constraints that are assembled and solved together, with their
/// columns and rows. A system may be divided into islands that share no constraint.
struct LINCHPIN_API IslandLayout {
  std::vector<BodyId> bodies;             ///< Movable bodies, in column order, which is the order of BodyId.
  std::vector<int> column;                ///< First column of each body, and n at the end.
  std::vector<ConstraintId> constraints;  ///< Enabled constraints, in row order.
  std::vector<int> row;                   ///< First row of each constraint, and m at the end.

  /// Index of a body in `bodies`, −1 outside the island. O(log).
  int body_index(BodyId id) const;
  int n() const { return column.empty() ? 0 : column.back(); }  ///< Number of columns.
  int m() const { return row.empty() ? 0 : row.back(); }        ///< Number of rows.
};

/// The whole system as one island.
LINCHPIN_API IslandLayout whole_system(const System& system);
/// Makes the layout of the given constraints and all their movable bodies, in BodyId order. Reuses the memory of `out`.
LINCHPIN_API void lay_out_island(const System& system, std::span<const ConstraintId> constraints, IslandLayout& out);

/// A, b and the residuals (T4) of an island at a state, beside the ConstrainedProblem that contains A and b.
///
/// An Assembly is a value that owns all its memory. It refers to no system. Set `layout`, and call the two functions
/// below. They write the other members, and private memory for later calls.
struct LINCHPIN_API Assembly {
  IslandLayout layout;           ///< The island, set by the caller.
  ConstrainedProblem problem;    ///< Mass matrix, forces and rows.
  std::vector<double> position;  ///< [m] φ (0 for rows of the other levels).
  std::vector<double> velocity;  ///< [m] φ̇ = A v + φ_t, or ψ.
  std::vector<double> v;         ///< [n] Velocities of the island, as in the state.
  std::vector<double> bias;      ///< [n] h of M q̈ + h = Q for coordinates (Kinetics). Zero for bodies.
  std::string failure;           ///< Names the constraint whose residual was not finite or threw. Empty on success.

  /// Jacobian of constraint i of the island with respect to its body k as assembled: [rows × 6], row-major. Columns
  /// beyond dof(k) and those of fixed bodies are not in A but are kept here. Valid until the next assembly.
  std::span<const double> jacobian(int i, int k) const;
  /// Index of body k of constraint i in layout.bodies, −1 outside.
  int body_index(int i, int k) const {
    return parts_.slots[static_cast<std::size_t>(parts_.slot_start[static_cast<std::size_t>(i)] + k)];
  }

 private:
  friend struct AssemblyParts;  // Access for the library itself.
  struct EntryRun {
    int source = 0, length = 0;  // Place in `jacobians`.
  };
  struct Parts {
    std::vector<double> jacobians;     // K blocks of [rows × 6] per constraint.
    std::vector<int> jacobian_start;   // Start of each constraint in `jacobians`.
    std::vector<int> slot_start;       // Start of each constraint in `slots`.
    std::vector<int> slots;            // Index into layout.bodies for each of its bodies, −1 outside.
    IslandLayout laid_out;             // Layout for which the pattern of `problem` was made.
    unsigned long laid_out_for = 0;    // System::structure() for which it was made.
    std::vector<EntryRun> entry_runs;  // The entries of `problem` in order, one row of one body after the other.
    // Memory of the evaluations of one constraint, one force or one group of coordinates.
    std::vector<BodyState> states;
    std::vector<double> rows, q;
    std::vector<Vector6> wrenches;
    std::vector<double> potential_forces;  // [n] Part of Q with a potential, gravity apart; empty: there is none.
  };
  Parts parts_;
};

/// Fills all of `out` but Q and c, for out.layout, at `state`: M, A, b, residuals, v. Does not allocate after warm-up.
/// The functions below call the functions of constraints, kinetic energies and forces of the system, in the calling
/// thread. Text of exceptions goes to `failure`. One thread at a time may evaluate one system.
LINCHPIN_API void assemble_constraints(const System& system, const State& state, Assembly& out) noexcept;
/// Fills Q (T2): gravity, gyroscopic torque and the forces of the system. c is set to zero.
LINCHPIN_API void assemble_forces(const System& system, const State& state, Assembly& out) noexcept;

/// The problem of a whole system with ideal constraints only. Laws need the ideal forces first: see Dynamics.
[[nodiscard]] LINCHPIN_API ConstrainedProblem assemble(const System& system, const State& state);

}  // namespace linchpin
