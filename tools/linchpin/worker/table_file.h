// What `run --csv` and `compare --csv` write: one row per step with the state before the step and the forces at that
// state, so that a force and the pose it belongs to stand in one row; a last row has the final state and no forces.
// Channels that a scene logs stand last.
#pragma once

#include "csv.h"
#include "joint_forces.h"
#include "reference.h"
#include "scene.h"
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
  /// @param logs  values of all logs at the state
  void forces(const JointForces& forces, bullet::Solver* solver, const Reference* reference,
              std::span<const double> logs);
  /// Ends the last row without forces and closes. @param logs  at its state. @throws Refused when the disk did not take
  /// it all.
  void close(std::span<const double> logs);

 private:
  Scene& scene_;
  const bool compared_;
  std::unique_ptr<cli::Csv> out_;
  const std::size_t links_;  // joints of the world, then a scene's other constraints
  std::vector<double> residuals_;
  bool row_open_ = false;  // its state is there, its forces are not
};

}  // namespace linchpin::worker
