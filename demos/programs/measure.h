// What is measured on a program, from Bullet's own objects alone: whoever solves its joints is asked the same.
#pragma once

#include "program.h"

namespace programs {

/// How far a joint's equalities are from being met. Limits, motors, springs and gears have no part in it.
struct Gap {
  double length = 0;  ///< between the joint's two points, along its locked axes [m]
  double angle = 0;   ///< between its frames, about the locked ones [rad]
};
Gap gap_of(btTypedConstraint& joint);
/// How many equalities a joint asks for as it is configured; 0 when it is disabled.
int rows_of(btTypedConstraint& joint);
/// Largest of all joints that are enabled.
Gap largest_gap(btDiscreteDynamicsWorld& world);

/// Deepest of all contacts, as Bullet found it when the step began [m]; 0 without any.
double deepest_penetration(btDiscreteDynamicsWorld& world);

/// Kinetic, in gravity, and in the springs of 6dof joints [J].
double energy(const btDiscreteDynamicsWorld& world);

bool finite(const btDiscreteDynamicsWorld& world);

/// The worst of a run, seen after each of its steps.
struct Watch {
  Gap gap;
  double depth = 0;  ///< deepest penetration [m]
  /// Energy above the highest of the first second in which no motor worked, mean over a second [J]; the integrator's
  /// own span is in that second (T12). Lowest double until a second has been seen after it.
  double gain = -1e300;
  double fastest = 0;  ///< of all bodies [m/s]
  bool alive = true;   ///< everything was finite

  /// @param held false leaves the gaps of this step out: its joints were not the solver's under test.
  void look(Program& program, bool held = true);

 private:
  double highest_ = -1e300, sum_ = 0;
  int count_ = 0;
};

}  // namespace programs
