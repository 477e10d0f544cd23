// A run in a Bullet world as a recording (recording.h).
#pragma once

#include "joint_forces.h"
#include "recording.h"
#include "scene.h"
#include "watch.h"

#include <string>
#include <vector>

namespace linchpin::worker {

class Recorder {
 public:
  Recorder(const cli::RecordingOptions& options, Scene& scene, const std::vector<std::string>& joint_names, double dt,
           long steps);
  /// Call before every step, and at the end. @param t  [s] now
  void state(double t, const Watch& watch);
  /// Call after it. @param solver  may be null
  void forces(const JointForces& forces, const bullet::Solver* solver);
  Json json() const { return recording_.json(); }

 private:
  cli::Recording make(const cli::RecordingOptions& options, const std::vector<std::string>& joint_names, double dt,
                      long steps) const;
  Scene& scene_;
  const double dt_;
  std::vector<btRigidBody*> bodies_;  // the scene's, and what joints tie them to
  cli::Recording recording_;
  std::vector<BodyState> states_;
  std::vector<double> gaps_, residuals_, signals_;
  std::vector<cli::Recording::Force> forces_;
  State before_;
};

}  // namespace linchpin::worker
