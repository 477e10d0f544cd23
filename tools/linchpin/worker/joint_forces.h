// What a solver says its joints do, in one way for all solvers: the exact reaction, or Bullet's own joint feedback and
// the impulses of the rows we gave it.
#pragma once

#include "scene.h"

#include <linchpin/bullet.h>

#include <cstddef>
#include <vector>

namespace linchpin::worker {

class JointForces {
 public:
  /// @param links  joints of the world, then a scene's other constraints
  JointForces(Scene& scene, std::size_t links, bool exact);
  ~JointForces();
  JointForces(const JointForces&) = delete;
  JointForces& operator=(const JointForces&) = delete;

  std::size_t size() const { return links_; }
  /// Call before a step: where the joints' first bodies are.
  void before();
  /// Call after it: the wrench of a link on its first body, about the point of its reaction; about the body's centre of
  /// mass where there is no solver of ours to say one. NaN where nobody knows it. @param solver  may be null
  Wrench on_a(std::size_t link, bullet::Solver* solver) const;
  /// The exact reaction of a link; null for a native solver and for what is left to it.
  const Reaction* exact(std::size_t link, bullet::Solver* solver) const;

 private:
  Scene& scene_;
  const std::size_t links_;
  const bool exact_;
  const bool unknown_;  // Bullet alone, of multibodies: it says nothing of most joints, and twice of the others
  std::vector<btJointFeedback> feedback_;
  std::vector<btVector3> centre_;
};

}  // namespace linchpin::worker
