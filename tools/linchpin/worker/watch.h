// What is looked at after every step, from Bullet's own objects: gaps, energy, and why energy need not be conserved.
#pragma once

#include "scene.h"
#include "worker_common/job.h"

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace linchpin::worker {

class Watch {
 public:
  /// @param solver  of an exact run, whose reactions tell the work of constraints that prescribe motion; else null
  Watch(Scene& scene, bullet::Solver* solver);

  /// Energy now is what later energies are compared with. @param t  [s] now
  void begin(double t);
  /// After each step of the statistics.
  void look(double t, double dt);
  /// After each step, those left out of the statistics included: events count from the start.
  void events(long step);

  /// With the potentials of springs and other forces [J]. @param t  [s] now
  double energy(double t) const;
  double energy_at_start() const { return energy0_; }  ///< when it began
  /// Whether constraints prescribe motion or are unilateral, so that the energy error is of the energy less their work.
  bool counts_work() const { return !working_.empty() || !impacting_.empty(); }
  double work() const;  ///< theirs since the first step [J]
  /// Whether a constraint, by its place in Built::constrained(), is unilateral and released. Its distance is no
  /// residual.
  bool released(std::size_t i) const;
  void note_compliance();
  /// max_gap_m, rms_gap_m, max_gap_rad, max_gap_joint, max_energy_error_J, energy_error_of, energy_note, broken.
  void report(Json& row, const std::vector<std::string>& joint_names) const;

 private:
  void look_at_constraints(double dt);
  const char* why_not_conserved() const;
  void note_prescribed_motion();
  void find_unilateral();

  Scene& scene_;
  std::vector<char> enabled_at_start_;
  std::vector<char> yields_;                      // by joint: whether it has compliance
  std::vector<char> unilateral_, open_at_start_;  // of constraints, by their place in Built::constrained()
  std::vector<double> user_gaps_, residuals_;
  double t_ = 0;
  bool any_gap_ = false, looked_ = false;
  double max_gap_ = 0, max_angle_ = 0, squares_ = 0;
  long count_ = 0;
  std::size_t worst_ = 0;
  double energy0_ = 0, work0_ = 0, energy_error_ = 0;
  bullet::Solver* solver_;
  std::set<std::string, std::less<>> working_;    // constraints that prescribe motion
  std::set<std::string, std::less<>> impacting_;  // unilateral constraints
  std::string energy_note_;
};

}  // namespace linchpin::worker
