#include "hinge_limits.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace linchpin::bullet_scene {

void set_limits(btHingeConstraint& joint, double lower, double upper) {
  // By default a limit of Bullet's hinge throws its bodies back with 0.3 of their speed, and takes back 0.06 of its
  // excess. A limit of a multibody does neither.
  constexpr btScalar softness = btScalar(0.9), bias = 1, rebound = 0;
  // Bullet's hinge measures how its first body leads the second.
  joint.setLimit(btScalar(-upper), btScalar(-lower), softness, bias, rebound);
}

bool HingeLimits::counts(const scene::SceneConstraint& c) {
  return c.type == "hinge" && !c.tree && c.limits && c.limits->second - c.limits->first > std::numbers::pi;
}

void HingeLimits::add(const scene::SceneConstraint& c, btHingeConstraint& joint) {
  hinges_.push_back({c.limits->first, c.limits->second, c.start, c.start, &joint});
}

void HingeLimits::follow(double t) {
  constexpr double pi = std::numbers::pi, quarter = 0.5 * pi;
  const bool again = t < t_;
  t_ = t;
  for (Hinge& hinge : hinges_) {
    if (again) hinge.angle = hinge.start;
    const double by_frames = -double(hinge.joint->getHingeAngle());  // of the second body
    hinge.angle += std::remainder(by_frames - hinge.angle, 2 * pi);
    // Beyond a limit the window begins at this limit. Bullet then finds the right side up to 3/4 π beyond it.
    const double low = std::clamp(hinge.angle - quarter, hinge.lower, hinge.upper - quarter),
                 high = std::clamp(hinge.angle + quarter, hinge.lower + quarter, hinge.upper);
    set_limits(*hinge.joint, low, high);
  }
}

}  // namespace linchpin::bullet_scene
