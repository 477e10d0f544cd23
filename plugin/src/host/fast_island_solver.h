// Solves islands of nothing but stock joints between rigid bodies, which most mechanisms are in most steps, by the
// joint kernel (linchpin::detail::JointStep): without the problem written down, four islands of the same shape at a
// time where no host row acts on them, and coupled with the host's rows where some do. What the kernel cannot do goes
// to the general solver. The problem is made up for when somebody reads a report.
#pragma once

#include "host/context.h"
#include "host/island_solver.h"

#include <span>

namespace linchpin::host {

class FastIslandSolver final : public RespondingIslandSolver {
 public:
  /// @param threads  that take steps at a time
  FastIslandSolver(Context& c, int threads) : c_(c), shapes_(threads) {}

  /// Looks whether an island can be solved so in this step, and lays the kernel out where it has not been.
  void lay_out(Island& b);
  /// Takes the steps of islands of one shape on which no host row acts. Islands whose phase is `waiting` afterwards
  /// need the general solver; nothing that others read was changed for them.
  /// @param worker  whose memory the kernel uses
  void take(std::span<Island* const> islands, int worker);

  // Coupled with the rows of the host.
  bool begin(Island& b, bool among_rows) override;
  bool start(Island& b) override;
  void project(Island& b, std::span<double> change) override;
  void prepare_responses(Island& b) override;
  void respond(Island& b, std::span<const Impulse> impulses, std::span<double> motion) override;
  bool finish(Island& b, SubstepStates& states) override;
  /// Whether welds make all of an island one rigid body.
  bool is_composite(const Island& b, CompositeBody& out) const;

 private:
  using Kernel = linchpin::detail::JointStep;
  bool settle(Island& b, const Kernel::Outcome& whole, double before, int worker);
  bool goes_in_substeps(const Island& b) const;
  bool take_substeps_at_once(Island& b, double before, int worker);
  void accept(Island& b, const Kernel::Outcome& at_start);
  void leave(Island& b, double before);

  Context& c_;
  linchpin::detail::JointShapes shapes_;
};

/// Forces on an island at the step's start, with the mean force of the host's rows. Valid until the next call.
std::span<const double> forces_with_rows(const Context& c, Island& b);
/// Takes the substeps of the last step once more, to the last bit, and sums up their impulses for reports.
void record_fast_substeps(Context& c, Island& b);
/// Brings the impulses of joints in fast substeps into the wrenches of the step.
void sum_fast_wrenches(const Context& c, Island& b);

}  // namespace linchpin::host
