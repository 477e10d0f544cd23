// Solves islands that consist of stock joints between rigid bodies, by the joint kernel
// (linchpin::detail::JointIsland). Most mechanisms are such islands in most steps. The kernel does not write the
// problem down. It solves four islands of one topology at a time where no host row acts on them, and couples with the
// host's rows where some do. The general solver takes what the kernel refuses. The problem is evaluated when somebody
// reads a report.
#pragma once

#include "host/context.h"
#include "host/island_solver.h"

#include <span>

namespace linchpin::host {

class FastIslandSolver final : public RespondingIslandSolver {
 public:
  /// @param threads  number of threads that solve at a time
  FastIslandSolver(Context& c, int threads) : c_(c), topologies_(threads) {}

  /// Decides whether the kernel can solve an island in this step, and lays the kernel out if it has not been.
  void lay_out(Island& b);
  /// Solves the steps of islands of one topology on which no host row acts. Islands whose phase is `waiting` afterwards
  /// need the general solver. Nothing that other parts read was changed for them.
  /// @param worker  the worker whose memory the kernel uses
  void solve_steps(std::span<Island* const> islands, int worker);

  // The following are for a step that is coupled with the rows of the host.
  bool begin(Island& b, bool among_rows) override;
  bool start(Island& b) override;
  void project(Island& b, std::span<double> change) override;
  void prepare_responses(Island& b) override;
  void respond(Island& b, std::span<const Impulse> impulses, std::span<double> motion) override;
  bool finish(Island& b, SubstepStates& states) override;
  /// Returns whether welds make all of an island one rigid body.
  bool is_composite(const Island& b, CompositeBody& out) const;

 private:
  using Kernel = linchpin::detail::JointIsland;
  bool accept_or_substep(Island& b, const Kernel::Outcome& whole, double before, int worker);
  bool begins_with_substeps(const Island& b) const;
  bool take_substeps_without_try(Island& b, double before, int worker);
  void accept(Island& b, const Kernel::Outcome& at_start);
  void leave_to_general_solver(Island& b, double before);

  Context& c_;
  linchpin::detail::JointTopologies topologies_;
};

/// Returns the forces on an island at the step's start, with the mean force of the host's rows. Valid until the next
/// call.
std::span<const double> forces_with_rows(const Context& c, Island& b);
/// Repeats the substeps of the last step, to the last bit, and sums their impulses for reports.
void record_fast_substeps(Context& c, Island& b);
/// Writes the impulses of joints in fast substeps into the wrenches of the step.
void sum_fast_wrenches(const Context& c, Island& b);

}  // namespace linchpin::host
