// What `run --csv` and `compare --csv` write of an MJCF file: one row per step with the state before the step and the
// forces at that state. A last row has the final state and no forces. The columns are those of the other hosts.
#pragma once

#include "csv.h"
#include "link_forces.h"
#include "model.h"

#include <linchpin/scene.h>

#include <memory>
#include <span>
#include <string>

namespace linchpin::mujoco_worker {

class TableFile {
 public:
  /// @param compared  also the largest angle of gaps and the energy @throws Refused("csv", …)
  /// @param scene  may be null
  TableFile(const std::string& file, Model& model, const scene::Model* scene, bool compared);
  /// Call before a step and after Model::look().
  void state();
  /// Call after the step: ends the row.
  void forces(const LinkForces& forces, std::span<const double> logs);
  /// Ends the last row without forces and closes. @param logs  at its state @throws Refused("csv", …)
  void close(std::span<const double> logs);

 private:
  Model& model_;
  const bool compared_;
  std::unique_ptr<cli::Csv> out_;
  bool row_open_ = false;
};

}  // namespace linchpin::mujoco_worker
