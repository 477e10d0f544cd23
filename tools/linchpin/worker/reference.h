// The forces that would have been exact, found a second time: the problem a block really had (M, Q with the host's own
// impulses, A, b) is solved densely here, with Eigen's decompositions and nothing of linchpin's solver, and what a
// solver reports is held against it.
#pragma once

#include "scene.h"
#include "worker_common/job.h"

#include <linchpin/bullet.h>

#include <Eigen/Core>

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace linchpin::worker {

class Reference {
 public:
  /// @param by_body  joints share load in a way the equations leave open: compare sums on bodies
  Reference(Scene& scene, bullet::Solver& solver, const Job& job, bool by_body);
  ~Reference();

  /// Call before a step: remembers velocities and centres of mass.
  void before();
  /// Call after a step of the statistics. Looks at a sample of them: about a second of dense solves spread over the
  /// run.
  void after(long step);

  /// What the last step added to the sums, root of: |reported − should be| and |should be|; nothing when it was no
  /// sample.
  struct Added {
    double force_error = 0, force = 0;      ///< [N]
    double moment_error = 0, moment = 0;    ///< [N·m]
    double impulse_error = 0, impulse = 0;  ///< over the step, [N]
  };
  const std::optional<Added>& added() const { return added_; }

  /// force_rms_error_rel, moment_rms_error_rel, impulse_rms_error_rel, force_samples, force_basis, force_note.
  void report(Json& row) const;

 private:
  struct Sum {  // of squares
    double difference = 0, size = 0;
    void add(const Sum& other);
    void add(const Eigen::Vector3d& is, const Eigen::Vector3d& should);
    /// Null where what should be is nothing beside the loads: bodies that fall together press on no joint.
    Json relative(double load) const;
  };
  // A joint of the world, or a constraint that a scene of ours adds.
  struct Link {
    btTypedConstraint* joint;
    std::vector<btRigidBody*> bodies;
  };

  bool sample();
  bool solve_block(const ConstrainedProblem& problem);
  void compare_joints();
  void compare_bodies();

  Scene& scene_;
  bullet::Solver& solver_;
  const bool exact_;
  const double dt_;
  const long steps_;
  long next_ = 0, stride_ = 0;
  double work_ = 0;  // of the last sample, multiplications
  bool by_body_;
  std::string note_;
  long samples_ = 0;
  Sum force_, moment_, impulse_;
  std::optional<Added> added_;
  double load_ = 0;  // applied forces, sum of squares

  std::unordered_map<const btRigidBody*, std::size_t> index_;  // into scene_.bodies()
  std::vector<btJointFeedback> feedback_;
  double t_ = 0;         // [s] before the step
  long substepped_ = 0;  // count before the step
  struct Before {
    Eigen::Vector3d p, v, w;
  };
  std::vector<Before> before_;
  std::vector<Link> links_;  // as reactions() has them
  // of the sample at hand
  std::unordered_map<std::string, std::size_t> link_of_;  // by name in reactions()
  std::vector<std::vector<Vector6>> should_;              // by link and body
  std::vector<char> has_;                                 // links of a block that could be solved
  std::vector<Vector6> body_should_, Q_, momentum_;
  std::vector<char> body_has_;
};

}  // namespace linchpin::worker
