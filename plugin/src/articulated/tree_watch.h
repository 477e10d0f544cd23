// The watch over trees of links (T15). The energy that trees gain in the steps of a host without a source is compared
// with their motion. A host integrates joint coordinates with the velocity terms of the start of its step. The mass
// matrix changes within the step. Both together are no source of energy, and what they add up to is the error of the
// host's method. The velocities at the end of a step that no Newton has ended are compared with the exact rows.
#pragma once

#include "articulated/tree_island.h"
#include "articulated/tree_layout.h"

#include <span>
#include <vector>

namespace linchpin::articulated {

/// Returns whether a constraint may depend on time, and so be a source of energy: one of the user's own.
bool may_give_energy(const host::Context& c, const ConstraintRows& rows);
/// Returns the part of the change of kinetic energy in a step or substep of dt that is the error of the host's method
/// [J].
/// @param tree    at the start @param v1  velocities at the end @param at_end  motions there @param scratch  memory
double energy_of_integration(const KinematicTree& tree, std::span<const double> v1, std::span<const LinkMotion> at_end,
                             double dt, std::vector<LinkMotion>& scratch);

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
  bool has_moved_as_solved() const;
  Change change_of(Tree& tree);
  void account(EnergyAccount& account, const Change& change, int first_tree);

  host::Context& c_;
  TreeWorld& world_;
  TreeIsland& t_;
  TreeLayout& layout_;
  double constraint_work_ = 0;     // of the step [J]
  std::vector<BodyState> states_;  // scratch
  std::vector<double> A_, rows_;   // scratch
};

}  // namespace linchpin::articulated
