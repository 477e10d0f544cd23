// What `run --csv` and `compare --csv` write of an MJCF file: one row per step with the state before the step and the
// forces at that state. A last row has the final state and no forces. The columns are those of the other hosts.
#pragma once

#include "csv.h"
#include "link_forces.h"
#include "model.h"

#include <memory>
#include <string>

namespace linchpin::mujoco_worker {

class TableFile {
 public:
  /// @param compared  also the largest angle of gaps and the energy @throws Refused("csv", …)
  TableFile(const std::string& file, Model& model, bool compared);
  /// Call before a step and after Model::look().
  void state();
  /// Call after the step: ends the row.
  void forces(const LinkForces& forces);
  /// Ends the last row without forces and closes. @throws Refused("csv", …)
  void close();

 private:
  Model& model_;
  const bool compared_;
  std::unique_ptr<cli::Csv> out_;
  bool row_open_ = false;
};

}  // namespace linchpin::mujoco_worker
