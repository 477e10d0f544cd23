// The interface of the solvers of islands: the general one, the fast one, and that of articulated trees.
#pragma once

#include "host/island.h"

#include <span>

namespace linchpin::host {

/// Takes the steps of islands. A function that returns false has set History::failure to the reason, and the host has
/// to solve the island. Exceptions are stated.
class IslandSolver {
 public:
  virtual ~IslandSolver() = default;

  /// Factors the problem at the start of the step. @param among_rows  rows of the host act in its group
  virtual bool begin(Island& b, bool among_rows) = 0;
  /// Finds velocities x.v that the host's rows start from: they end the step on the constraints.
  virtual bool start(Island& b) = 0;
  /// Finds the change of velocities v [n] in x.v that restores the row velocities that start() found.
  /// @param change  [n] out
  virtual void project(Island& b, std::span<double> change) = 0;
  /// Ends the step when the impulses of the host's rows are known. Where it returns false and Outcome::repeats_rows is
  /// set, the host's rows are to be solved once more.
  virtual bool finish(Island& b, SubstepStates& states) = 0;
};

/// An island solver that also finds the response of an island to single impulses of rows. Hosts of Coupling::rows need
/// it. The solver of articulated trees has no such responses, because its hosts project between two iterations.
class RespondingIslandSolver : public IslandSolver {
 public:
  using Impulse = linchpin::detail::JointIsland::Impulse;  ///< on one or two bodies of an island, by slot
  static constexpr std::size_t most_impulses = linchpin::detail::JointIsland::max_jobs;

  /// Prepares respond() for impulses on the bodies that rows act on, RowLoad::contacted.
  virtual void prepare_responses(Island& b) = 0;
  /// Finds the motion of those bodies by each of up to most_impulses impulses, with the constraints kept: P Jᵀ with P =
  /// M⁻¹ − M⁻¹AᵀG⁺AM⁻¹.
  /// @param motion  [impulses × 6 · contacted] out
  virtual void respond(Island& b, std::span<const Impulse> impulses, std::span<double> motion) = 0;
};

}  // namespace linchpin::host
