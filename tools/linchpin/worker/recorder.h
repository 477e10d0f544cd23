// A run in a Bullet world as a recording (linchpin/recording.h).
#pragma once

#include "joint_forces.h"
#include "scene.h"
#include "watch.h"

#include "recording/columns.h"

#include <span>
#include <string>
#include <vector>

namespace linchpin::worker {

class Recorder {
 public:
  Recorder(const recording::RecordingOptions& options, Scene& scene, const std::vector<std::string>& joint_names,
           double dt, long steps);
  /// Call before every step, and at the end. @param t  [s] now
  void state(double t, const Watch& watch);
  /// Call after it. @param solver  may be null @param logs  values of all logs at that state
  void forces(const JointForces& forces, bullet::Solver* solver, std::span<const double> logs);
  Json json() const { return recording::Columns::json(recording_); }

 private:
  recording::Recording make(const recording::RecordingOptions& options, const std::vector<std::string>& joint_names,
                            double dt, long steps) const;
  Scene& scene_;
  const double dt_;
  std::vector<btRigidBody*> bodies_;  // the scene's, and what joints tie them to
  recording::Recording recording_;
  std::vector<BodyState> states_;
  std::vector<double> gaps_, residuals_;
  std::vector<recording::Recording::Force> forces_;
};

}  // namespace linchpin::worker
