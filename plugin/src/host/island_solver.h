// How an island is solved: the interface of the general solver, of the fast one and of that of articulated trees.
#pragma once

#include "host/island.h"

#include <span>

namespace linchpin::host {

/// Takes the steps of islands. Unless it says otherwise, a function that returns false has put its reason into
/// History::failure, and the host has to solve the island.
class IslandSolver {
 public:
  virtual ~IslandSolver() = default;

  /// Factors the problem at the start of the step. @param among_rows  rows of the host act in its group
  virtual bool begin(Island& b, bool among_rows) = 0;
  /// Finds velocities x.v that the host's rows start from: they end the step on the constraints.
  virtual bool start(Island& b) = 0;
  /// Finds the change of velocities v [n] in x.v that puts the rows back to the velocities that start() found.
  /// @param change  [n] out
  virtual void project(Island& b, std::span<double> change) = 0;
  /// Ends the step when the impulses of the host's rows are known. Where it returns false and Verdict::again is set,
  /// the host's rows are to be solved once more.
  virtual bool finish(Island& b, SubstepStates& states) = 0;
};

/// An island solver that also knows what single impulses of rows do to an island, for hosts of Coupling::rows. That of
/// articulated trees is none: such hosts project between two iterations.
class RespondingIslandSolver : public IslandSolver {
 public:
  using Impulse = linchpin::detail::JointStep::Push;  ///< on one or two bodies of an island, by slot
  static constexpr std::size_t most_impulses = linchpin::detail::JointStep::most;

  /// Prepares respond() for impulses on the bodies that rows act on, RowLoad::contacted.
  virtual void prepare_responses(Island& b) = 0;
  /// The motion of those bodies by each of up to most_impulses impulses, with the constraints kept:
  /// P Jᵀ with P = M⁻¹ − M⁻¹AᵀG⁺AM⁻¹. @param motion  [impulses × 6 · contacted] out
  virtual void respond(Island& b, std::span<const Impulse> impulses, std::span<double> motion) = 0;
};

}  // namespace linchpin::host
