// Solves the problem of constraints on links. Private to the core.
#pragma once

#include "articulated/tree_balance.h"
#include "articulated/tree_island.h"
#include "articulated/tree_laws.h"
#include "host/context.h"
#include "host/island_solver.h"

#include <span>
#include <vector>

namespace linchpin::articulated {

/// Takes the steps of a TreeIsland, as the other island solvers take those of islands of rigid bodies. A step that does
/// not end on the constraints is taken in substeps. Where these fail too, it gets the velocities that the constraints
/// allow at its start.
class TreeIslandSolver final : public host::IslandSolver {
 public:
  TreeIslandSolver(const TreeContext& context, TreeLaws& laws, TreeBalance& balance)
      : c_(context.host), world_(context.world), laws_(laws), balance_(balance) {}

  /// Reads the problem at the step's start, closes its gaps, factors it, and evaluates its laws.
  ///
  /// @param among_rows  not used: which rows act is known only when the host has set them up
  bool begin(host::Island& b, bool among_rows) override;
  bool start(host::Island& b) override;
  void project(host::Island& b, std::span<double> change) override;
  /// @param states  memory of substeps
  /// @return false where the velocities are not finite
  bool finish(host::Island& b, host::SubstepStates& states) override;

 private:
  TreeStep step() const;
  bool read_problem(TreeIsland& t);
  void project_positions(TreeIsland& t);
  void solve_forces(TreeIsland& t);
  void add_forces(TreeIsland& t);
  void solve_end_of_step(TreeIsland& t, host::SubstepStates& states);
  bool gains_too_much(TreeIsland& t);
  bool redo_in_substeps(TreeIsland& t, host::SubstepStates& states, double tolerance);

  host::Context& c_;
  TreeWorld& world_;
  TreeLaws& laws_;
  TreeBalance& balance_;
};

/// Reads the states of all bodies of the problem that are no links.
void read_boundaries(const TreeContext& context);

}  // namespace linchpin::articulated
