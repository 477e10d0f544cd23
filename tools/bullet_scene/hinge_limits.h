// Limits of Bullet's hinges, which count whole turns.
#pragma once

#include <linchpin/scene.h>

#include <btBulletDynamicsCommon.h>

#include <vector>

namespace linchpin::bullet_scene {

/// Sets the limits of a hinge, which acts as one of a multibody or of a slider then: a stop without rebound that takes
/// back a fifth of its excess in each step. @param lower, upper  angles of the second body about the axis [rad]
void set_limits(btHingeConstraint& joint, double lower, double upper);

/// Limits whose span is more than half a turn. btHingeConstraint knows its angle between −π and π only, so it cannot
/// tell its two limits apart if they are a whole turn or more from each other. Before each step it gets a window of at
/// most half a turn around its counted angle, which ends at the limits.
class HingeLimits {
 public:
  /// Returns whether the joint is a hinge of bodies with such limits.
  static bool counts(const scene::SceneConstraint& joint);
  /// Adds a hinge for which counts() is true. @param joint  the hinge; it must exist as long as this object is used
  void add(const scene::SceneConstraint& constraint, btHingeConstraint& joint);
  /// Counts the turns and sets the windows for the step from t [s]. Between two calls, each hinge turns by less than
  /// half a turn. If the time goes back, the count begins again at the start.
  void follow(double t);

 private:
  struct Hinge {
    double lower, upper, start, angle;  // [rad], of the second body about the axis
    btHingeConstraint* joint;
  };
  std::vector<Hinge> hinges_;
  double t_ = 0;  // of the last call [s]
};

}  // namespace linchpin::bullet_scene
