// Members of Bullet's worlds that are protected and have no accessor. A pointer to member named through a derived class
// is how C++ lets one read them.
#pragma once

#include <BulletDynamics/Dynamics/btDiscreteDynamicsWorldMt.h>
#include <BulletDynamics/MLCPSolvers/btMLCPSolver.h>

namespace LINCHPIN_BULLET_NAMESPACE {

struct WorldPeek : btDiscreteDynamicsWorld {
  static btAlignedObjectArray<btActionInterface*>& actions(btDiscreteDynamicsWorld& w) {
    return w.*(&WorldPeek::m_actions);
  }
  static btAlignedObjectArray<btTypedConstraint*>& joints(btDiscreteDynamicsWorld& w) {
    return w.*(&WorldPeek::m_constraints);
  }
  static bool& owns_solver(btDiscreteDynamicsWorld& w) { return w.*(&WorldPeek::m_ownsConstraintSolver); }
  static bool owns_islands(btDiscreteDynamicsWorld& w) { return w.*(&WorldPeek::m_ownsIslandManager); }
  static btSimulationIslandManager*& islands(btDiscreteDynamicsWorld& w) { return w.*(&WorldPeek::m_islandManager); }
};
struct ThreadsPeek : btDiscreteDynamicsWorldMt {
  static btConstraintSolver*& large(btDiscreteDynamicsWorldMt& w) { return w.*(&ThreadsPeek::m_constraintSolverMt); }
};
struct MlcpPeek : btMLCPSolver {
  static btMLCPSolverInterface* inner(btMLCPSolver& s) { return s.*(&MlcpPeek::m_solver); }
};

}  // namespace LINCHPIN_BULLET_NAMESPACE
