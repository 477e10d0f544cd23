// Stores the data that a solver carries from one step to the next, and restores them. With the bodies as they were, the
// same steps then give the same bits.
#pragma once

#include "host/context.h"
#include "host/sleep_policy.h"

#include <memory>
#include <string>

namespace linchpin::host {

/// The data of an entry that can change from step to step.
struct EntryPast {
  int entry;
  unsigned version, order, frames_moved_at;
  bool enabled, released, released_to_host;
  ConstraintEntry::Outcome outcome;
  ConstraintEntry::Time time;
  double parting_speed, work;
  std::vector<double> state;  ///< of its function
  std::vector<LawWork> law_works;
};

struct SolverHistory {
  unsigned long of;
  double t, dt;
  unsigned step;
  bool teleported, skipped;
  std::unordered_map<int, KinematicMotion> motions;
  std::vector<RestPose> rest_poses;
  std::vector<EntryPast> entries;
  std::vector<IslandPast> islands;
  IslandOfSet sets;
  std::shared_ptr<const Dynamics::LawHistory> tree_laws;
  Counts counts;
  std::vector<EnergyGain> energy_gains;
  std::vector<VelocityResidual> velocity_residuals;
  LawWarnings law_warnings, law_failures;
  double largest_gap, largest_angle;
};

/// Restores the history of an island.
void restore_island(const Context& c, Island& b, const IslandPast& past);
/// Clears the history of an island.
void forget_history(const Context& c, Island& b);
std::shared_ptr<SolverHistory> keep_history(Context& c, const SleepPolicy& sleep);
/// @return why it cannot be restored, or empty
std::string why_not_restored(const Context& c, const SolverHistory& past);
void restore_history(Context& c, SleepPolicy& sleep, const SolverHistory& past);

}  // namespace linchpin::host
