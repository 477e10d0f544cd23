// The watch over trees of links (T15). The energy that trees gain in the steps of a host without a source is compared
// with their motion. A host integrates joint coordinates with the velocity terms of the start of its step. The mass
// matrix changes within the step. Both together are no source of energy, and what they add up to is the error of the
// host's method. The velocities at the end of a step that no Newton has ended are compared with the exact rows.
#pragma once

#include "articulated/tree_island.h"
#include "articulated/tree_layout.h"

namespace linchpin::articulated {

class TreeWatch {
 public:
  TreeWatch(const TreeContext& context, TreeLayout& layout)
      : c_(context.host), world_(context.world), t_(context.island), layout_(layout) {}

  /// Notes the work of the exact constraints in the step, when it has been solved. x.row has the mean velocities of the
  /// rows.
  void note_constraint_work();
  /// Ends the accounts of all trees that moved, when the host has integrated. Trees of the problem are at their ends
  /// already (Tree::after). The others are read.
  void end_step();

 private:
  void compare_energies();
  void compare_velocities();
  RowResidual residual_of(const ConstraintRows& rows, int index);
  struct Change {
    double start = 0, end = 0, unexplained = 0;  // [J]
  };
  Change change_of(Tree& tree);
  double energy_from_rest(Tree& tree);
  void account(EnergyAccount& account, const Change& change, int first_tree);

  host::Context& c_;
  TreeWorld& world_;
  TreeIsland& t_;
  TreeLayout& layout_;
  double constraint_work_ = 0;           // of the step [J]
  std::vector<LinkMotion> motions_;      // scratch
  KinematicTree::ForcesByCause forces_;  // scratch
  std::vector<BodyState> states_;        // scratch
  std::vector<double> A_, rows_;         // scratch
};

}  // namespace linchpin::articulated
