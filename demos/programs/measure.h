// What is measured on a program, from Bullet's own objects alone: whoever solves its joints is asked the same.
#pragma once

#include <btBulletDynamicsCommon.h>

namespace programs {

/// How far a joint's equalities are from being met. Limits, motors, springs and gears have no part in it.
struct Gap {
  double length = 0;  ///< between the joint's two points, along its locked axes [m]
  double angle = 0;   ///< between its frames, about the locked ones [rad]
};
Gap gap_of(btTypedConstraint& joint);
/// Largest of all joints that are enabled.
Gap largest_gap(btDiscreteDynamicsWorld& world);

/// Deepest of all contacts, as Bullet found it when the step began [m]; 0 without any.
double deepest_penetration(btDiscreteDynamicsWorld& world);

/// Kinetic, in gravity, and in the springs of 6dof joints [J].
double energy(const btDiscreteDynamicsWorld& world);

bool finite(const btDiscreteDynamicsWorld& world);

}  // namespace programs
