// What `linchpin run --csv` writes: one row per step with the state before the step and the forces at that state, so
// that a force and the pose it belongs to stand in one row; a last row has the final state and no forces. SI units in
// the header, 17 digits, so that reading it back gives the same doubles.
#pragma once

#include "scene.h"

#include <linchpin/bullet.h>

#include <cstdio>
#include <string>
#include <vector>

namespace linchpin::worker {

class TableFile {
 public:
  /// @param solver  may be null: then forces are the joint feedback and no point on the joint is known
  /// @throws Refused("csv", …) when the file cannot be written.
  TableFile(const std::string& file, Scene& scene, const std::vector<std::string>& joint_names, bool exact);
  ~TableFile();
  TableFile(const TableFile&) = delete;
  TableFile& operator=(const TableFile&) = delete;

  /// Call before the step, with the time [s] the step starts from.
  void state(double t);
  /// Call after it: ends the row with the forces of the step.
  void forces(const bullet::Solver* solver);
  /// Ends the last row without forces and closes. @throws Refused when the disk did not take it all.
  void close();

 private:
  void put(double x);
  void end_row();

  Scene& scene_;
  const bool exact_;
  std::string file_;
  std::FILE* out_ = nullptr;
  std::vector<btJointFeedback> feedback_;
  std::vector<btVector3> centre_;  // of the joints' first bodies, before the step
  bool first_ = true;
};

}  // namespace linchpin::worker
