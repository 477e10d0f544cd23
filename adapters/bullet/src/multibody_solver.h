// The hook for worlds of multibodies: ExactSolver over btMultiBodyConstraintSolver. Bullet's solver does not get the
// multibody constraints that are held exactly, and velocities are put back on these between its iterations.
#pragma once

#include "exact_solver.h"
#include "multibody.h"

#include <BulletDynamics/Featherstone/btMultiBodyConstraintSolver.h>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

class ExactMultiBodySolver final : public ExactSolver<btMultiBodyConstraintSolver> {
  using Exact = ExactSolver<btMultiBodyConstraintSolver>;

 public:
  explicit ExactMultiBodySolver(Engine& engine) : Exact(engine), engine_(engine) {}

  void solveMultiBodyGroup(btCollisionObject** bodies, int nb, btPersistentManifold** manifolds, int nm,
                           btTypedConstraint** constraints, int nc, btMultiBodyConstraint** links, int nl,
                           const btContactSolverInfo& info, btIDebugDraw* draw, btDispatcher* dispatcher) override {
    host_constraints_.clear();
    for (int i = 0; i < nl; ++i)
      if (!links_() || !links_()->adopted(links[i])) host_constraints_.push_back(links[i]);
    Exact::solveMultiBodyGroup(bodies, nb, manifolds, nm, constraints, nc,
                               host_constraints_.empty() ? nullptr : host_constraints_.data(),
                               static_cast<int>(host_constraints_.size()), info, draw, dispatcher);
  }

 protected:
  btScalar solveGroupCacheFriendlySetup(btCollisionObject** bodies, int nb, btPersistentManifold** manifolds, int nm,
                                        btTypedConstraint** constraints, int nc, const btContactSolverInfo& info,
                                        btIDebugDraw* draw) override {
    const btScalar r = Exact::solveGroupCacheFriendlySetup(bodies, nb, manifolds, nm, constraints, nc, info, draw);
    couple(true);
    return r;
  }
  btScalar solveSingleIteration(int iteration, btCollisionObject** bodies, int nb, btPersistentManifold** manifolds,
                                int nm, btTypedConstraint** constraints, int nc, const btContactSolverInfo& info,
                                btIDebugDraw* draw) override {
    const btScalar r = Exact::solveSingleIteration(iteration, bodies, nb, manifolds, nm, constraints, nc, info, draw);
    couple(false);
    return r;
  }
  btScalar solveGroupCacheFriendlyFinish(btCollisionObject** bodies, int nb, const btContactSolverInfo& info) override {
    if (links_()) links_()->read_host_rows(link_rows(), m_data);
    return Exact::solveGroupCacheFriendlyFinish(bodies, nb, info);
  }
  void set_up_again() override {
    if (links_()) links_()->take_back_host_rows(m_data);
    setup_was_repeated_ = true;
  }
  void after_setup_again() override {
    if (setup_was_repeated_) couple(true);
    setup_was_repeated_ = false;
  }
  LinkRows link_rows() override {
    return {&m_multiBodyNonContactConstraints, &m_multiBodyNormalContactConstraints,
            &m_multiBodyFrictionContactConstraints, &m_multiBodyTorsionalFrictionContactConstraints,
            &m_multiBodySpinningFrictionContactConstraints};
  }

 private:
  Multibodies* links_() const { return engine_.multibodies(); }
  void couple(bool first) {
    if (!links_()) return;
    if (first) links_()->find_host_rows(pools());
    links_()->couple(pools(), m_data, first);
  }

  Engine& engine_;
  std::vector<btMultiBodyConstraint*> host_constraints_;
  bool setup_was_repeated_ = false;
};

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
