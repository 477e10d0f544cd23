// How far a joint's bodies are from where its equalities want them, measured from Bullet's own frames and poses in
// double, by nothing of linchpin: the judge must not be the party.
#pragma once

#include <btBulletDynamicsCommon.h>

namespace linchpin::worker {

struct Gap {
  double metres = 0;   ///< length of the mismatch along locked directions [m]
  double radians = 0;  ///< angle of the mismatch about locked axes [rad]
  bool any = false;    ///< the joint has an equality that can be measured (not broken, not soft)
};

Gap measure_gap(btTypedConstraint& joint);

/// What, right now, makes the joint do work or take energy, as of the last step: "motor", "limits", "springs"; null
/// when nothing does.
const char* works(btTypedConstraint& joint);

/// The joint has rows that are no equalities (limits, motors, springs), active or not.
bool has_native_rows(btTypedConstraint& joint);

}  // namespace linchpin::worker
