// The data that the parts of a solver share: the settings, the clock, the registries of bodies and constraints, the
// islands, and the sums for reports.
#pragma once

#include "host/body_registry.h"
#include "host/constraint_registry.h"
#include "host/entry_lists.h"
#include "host/gap_monitor.h"
#include "host/island_cache.h"
#include "host/law_records.h"
#include "host/locked_axes.h"
#include "host/momentum_balance.h"
#include "host/reactions.h"
#include "host/tuning.h"

#include <linchpin/host.h>
#include <linchpin/system.h>

#include <string>
#include <vector>

namespace linchpin::host {

struct Context {
  static unsigned long next_serial();

  Context(World& w, const SolverOptions& o) : world(w), options(o), bodies(system), constraints(system) {}

  World& world;
  SolverOptions options;  ///< Only ConstraintSolver::set_options() changes them.
  Capabilities capabilities;

  double t = 0, dt = tuning::first_dt;  ///< at the start of the step; its length [s]
  unsigned step = 0;
  unsigned structure = 1;   ///< counts changes of what there is
  bool teleported = false;  ///< reset() was called since the last step: kinematic bodies have not moved to their poses
  bool skipped = false;     ///< another solver has solved the last step

  const unsigned long serial = next_serial();  ///< no other solver has it
  Companion* companion = nullptr;

  System system;
  Bodies bodies;
  Constraints constraints;
  EntryLists lists;
  LockedAxes locked;
  IslandCache islands;
  LawRecords laws;
  ReactionTable reactions;
  MomentumBalances balance;
  GapMonitor gaps;

  Counts counts;
  std::vector<EnergyGain> energy_gains;              ///< the first of Counts::energy_gains
  std::vector<VelocityResidual> velocity_residuals;  ///< the first of Counts::velocity_residuals
  struct Notes {
    std::string fallback_reason;             ///< reason of the last fallback
    const char* order_reductions = nullptr;  ///< last reason of Counts::order_reductions
    std::string widest_turned;               ///< the joint of Counts::widest
    std::vector<Finding> dropped;            ///< the first constraints that were removed with their bodies
    long dropped_count = 0;                  ///< number of all of them
  } notes;
  std::vector<JointImpulse> joint_impulses;  ///< memory
  /// A constraint that is to have compliance from the next step on, and the compliance.
  struct Yielding {
    int entry;
    unsigned version;
    Compliance compliance;
  };
  std::vector<Yielding> yielding;
  std::vector<int> left_to_host;  ///< entries that the host has in this step, though they are exact
};

/// Sets the reason of a failure. @return false
inline bool fail(Island& island, std::string why, FailureKind kind = FailureKind::problem) {
  island.history.failure = std::move(why);
  island.history.failure_kind = kind;
  return false;
}
inline bool fail(Island& island, const Dynamics& dynamics) {
  return fail(island, dynamics.reason(), dynamics.failure());
}

/// Returns whether the step's forces are known only when the host's rows are solved. Then they are in Q_total.
inline bool waits_for_rows(const Island& b) {
  return b.step.rows != HostRows::none || b.solver_body[0] >= 0 || !b.step.has_forces;
}
inline std::span<const double> all_forces(const Island& b) { return waits_for_rows(b) ? b.x.Q_total : b.x.Q; }

}  // namespace linchpin::host
