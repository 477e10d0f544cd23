// What is looked at after every step: gaps, energy, and why energy need not be conserved.
#pragma once

#include "model.h"

#include <string>
#include <vector>

namespace linchpin::mujoco_worker {

class Watch {
 public:
  /// @param why_not_conserved  of the scene, from the start; or null
  Watch(Model& model, const char* why_not_conserved) : model_(model), residuals_(model.links().size()) {
    if (why_not_conserved) energy_note_ = why_not_conserved;
  }

  /// Energy now is what later energies are compared with. Call Model::look() before.
  void begin() { start_energy_ = model_.energy(); }
  double start_energy() const { return start_energy_; }
  /// After each step of the statistics and Model::look().
  void look();
  /// After each step, those left out of the statistics included: events count from the start.
  void events(long step);
  /// max_gap_m, rms_gap_m, max_gap_rad, max_gap_joint, user_gaps, max_energy_error_J, energy_note, broken.
  void report(Json& row) const;

 private:
  Model& model_;
  bool has_looked_ = false, has_metres_ = false, has_radians_ = false;
  double start_energy_ = 0, energy_error_ = 0, largest_ = 0, largest_angle_ = 0, squares_ = 0;
  long count_ = 0;
  std::string worst_, energy_note_;
  std::vector<double> residuals_;  // of links in units of their own
};

}  // namespace linchpin::mujoco_worker
