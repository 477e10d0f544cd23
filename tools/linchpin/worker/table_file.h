// What `run --csv` and `compare --csv` write: one row per step with the state before the step and the forces at that
// state, so that a force and the pose it belongs to stand in one row; a last row has the final state and no forces.
// Channels that a scene logs stand last.
#pragma once

#include "csv.h"
#include "joint_forces.h"
#include "reference.h"
#include "scene.h"
#include "step_start.h"
#include "watch.h"

#include <linchpin/bullet.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace linchpin::worker {

class TableFile {
 public:
  /// @param compared  also what a comparison is made of: largest turning gap, energy, errors of the forces
  /// @param joint_names  of the joints of the world, then of a scene's other constraints
  /// @throws Refused("csv", …) when the file cannot be written.
  TableFile(const std::string& file, Scene& scene, const std::vector<std::string>& joint_names, bool compared,
            const Watch& watch);

  /// Call before the step, with the time [s] the step starts from.
  void state(double t, double dt, const Watch& watch);
  /// Call after it: ends the row with the forces of the step.
  /// @param solver, reference  may be null
  void forces(const JointForces& forces, bullet::Solver* solver, const Reference* reference, StepStart& start);
  /// Ends the last row without forces and closes. @param t  [s] of its state. @throws Refused when the disk did not
  /// take it all.
  void close(double t);

 private:
  void logs(const State& state, std::span<const Reaction> reactions);

  Scene& scene_;
  const bool compared_;
  std::unique_ptr<cli::Csv> out_;
  const std::size_t links_;  // joints of the world, then a scene's other constraints
  std::vector<double> residuals_;
  const scene::ModeRecord* modes_ = nullptr;  // of the run
  bool row_open_ = false;                     // its state is there, its forces are not
};

}  // namespace linchpin::worker
