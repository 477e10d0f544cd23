// The hook for worlds of multibodies: SolverHooks over btMultiBodyConstraintSolver. Bullet's solver does not get the
// multibody constraints that are held exactly, and velocities are put back on these between its iterations.
#pragma once

#include "multibody.h"
#include "solver_hooks.h"

#include <BulletDynamics/Featherstone/btMultiBodyConstraintSolver.h>

namespace LINCHPIN_BULLET_NAMESPACE {

class MultiBodySolverHooks final : public SolverHooks<btMultiBodyConstraintSolver> {
  using Hooks = SolverHooks<btMultiBodyConstraintSolver>;

 public:
  explicit MultiBodySolverHooks(WorldBinding& binding) : Hooks(binding), binding_(binding) {}

  void solveMultiBodyGroup(btCollisionObject** bodies, int nb, btPersistentManifold** manifolds, int nm,
                           btTypedConstraint** constraints, int nc, btMultiBodyConstraint** links, int nl,
                           const btContactSolverInfo& info, btIDebugDraw* draw, btDispatcher* dispatcher) override {
    host_constraints_.clear();
    for (int i = 0; i < nl; ++i)
      if (!links_() || !links_()->adopted(links[i])) host_constraints_.push_back(links[i]);
    Hooks::solveMultiBodyGroup(bodies, nb, manifolds, nm, constraints, nc,
                               host_constraints_.empty() ? nullptr : host_constraints_.data(),
                               static_cast<int>(host_constraints_.size()), info, draw, dispatcher);
  }

 protected:
  btScalar solveGroupCacheFriendlySetup(btCollisionObject** bodies, int nb, btPersistentManifold** manifolds, int nm,
                                        btTypedConstraint** constraints, int nc, const btContactSolverInfo& info,
                                        btIDebugDraw* draw) override {
    const btScalar r = Hooks::solveGroupCacheFriendlySetup(bodies, nb, manifolds, nm, constraints, nc, info, draw);
    couple(true);
    return r;
  }
  btScalar solveSingleIteration(int iteration, btCollisionObject** bodies, int nb, btPersistentManifold** manifolds,
                                int nm, btTypedConstraint** constraints, int nc, const btContactSolverInfo& info,
                                btIDebugDraw* draw) override {
    const btScalar r = Hooks::solveSingleIteration(iteration, bodies, nb, manifolds, nm, constraints, nc, info, draw);
    couple(false);
    return r;
  }
  btScalar solveGroupCacheFriendlyFinish(btCollisionObject** bodies, int nb, const btContactSolverInfo& info) override {
    if (links_()) links_()->read_rows(link_rows(), m_data);
    return Hooks::solveGroupCacheFriendlyFinish(bodies, nb, info);
  }
  void before_second_setup() override {
    if (links_()) links_()->take_back_rows(m_data);
    setup_was_repeated_ = true;
  }
  void after_second_setup() override {
    if (setup_was_repeated_) couple(true);
    setup_was_repeated_ = false;
  }
  LinkRows link_rows() override {
    return {&m_multiBodyNonContactConstraints, &m_multiBodyNormalContactConstraints,
            &m_multiBodyFrictionContactConstraints, &m_multiBodyTorsionalFrictionContactConstraints,
            &m_multiBodySpinningFrictionContactConstraints};
  }

 private:
  Multibodies* links_() const { return binding_.multibodies(); }
  void couple(bool first) {
    if (links_()) links_()->couple(arrays(), m_data, first);
  }

  WorldBinding& binding_;
  std::vector<btMultiBodyConstraint*> host_constraints_;
  bool setup_was_repeated_ = false;
};

}  // namespace LINCHPIN_BULLET_NAMESPACE
