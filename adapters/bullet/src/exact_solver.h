// The hook: a mixin over one of Bullet's stock solvers that overrides the protected steps of a group solve and lends
// its arrays to the engine. Everything native stays the base's.
#pragma once

#include "engine.h"

#include <utility>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

template <class Base>
class ExactSolver : public Base {
 public:
  template <class... Args>
  explicit ExactSolver(Engine& engine, Args... args) : Base(args...), engine_(engine), shadow_(args...) {}

  void prepareSolve(int body_count, int manifold_count) override {
    Base::prepareSolve(body_count, manifold_count);
    engine_.begin_step();
  }
  void allSolved(const btContactSolverInfo& info, btIDebugDraw* draw) override {
    Base::allSolved(info, draw);
    engine_.give_islands_back();
    engine_.end_links();
  }

  btScalar solveGroup(btCollisionObject** bodies, int nb, btPersistentManifold** manifolds, int nm,
                      btTypedConstraint** constraints, int nc, const btContactSolverInfo& info, btIDebugDraw* draw,
                      btDispatcher* dispatcher) override {
    if (!engine_.takes_islands())
      return Base::solveGroup(bodies, nb, manifolds, nm, constraints, nc, info, draw, dispatcher);
    if (nb == 0) return 0;
    WorldGroup& g = engine_.gather_awake(bodies, nb, manifolds, nm, constraints, nc, dispatcher);
    shadow(g.bodies.data(), size(g.bodies), g.manifolds.data(), size(g.manifolds), g.constraints.data(),
           size(g.constraints), info, draw);
    engine_.begin_group(g.constraints.data(), size(g.constraints), info);
    engine_.set_apart(g);
    engine_.solve_apart(g);
    if (!g.bodies.empty() || engine_.rest_count() > 0)
      Base::solveGroup(g.bodies.data(), size(g.bodies), g.manifolds.data(), size(g.manifolds), engine_.rest(),
                       engine_.rest_count(), info, draw, dispatcher);
    engine_.conclude_apart();
    return 0;
  }

 protected:
  btScalar solveGroupCacheFriendlySetup(btCollisionObject** bodies, int nb, btPersistentManifold** manifolds, int nm,
                                        btTypedConstraint** constraints, int nc, const btContactSolverInfo& info,
                                        btIDebugDraw* draw) override {
    if (!engine_.takes_islands()) {
      shadow(bodies, nb, manifolds, nm, constraints, nc, info, draw);
      engine_.begin_group(constraints, nc, info);
    }
    btScalar r =
        Base::solveGroupCacheFriendlySetup(bodies, nb, manifolds, nm, engine_.rest(), engine_.rest_count(), info, draw);
    while (!engine_.after_setup(pools())) r = again(bodies, nb, manifolds, nm, info, draw);
    return r;
  }

  void solveGroupCacheFriendlySplitImpulseIterations(btCollisionObject** bodies, int nb,
                                                     btPersistentManifold** manifolds, int nm,
                                                     btTypedConstraint** constraints, int nc,
                                                     const btContactSolverInfo& info, btIDebugDraw* draw) override {
    Base::solveGroupCacheFriendlySplitImpulseIterations(bodies, nb, manifolds, nm, constraints, nc, info, draw);
    engine_.after_push(pools());
    if (!engine_.couple_rows(pools())) return;
    engine_.begin_rows(pools(), this->getActiveConstraintRowSolverGeneric(),
                       this->getActiveConstraintRowSolverLowerLimit());
    this->setConstraintRowSolverGeneric(&Engine::row_generic);
    this->setConstraintRowSolverLowerLimit(&Engine::row_lower);
  }

  btScalar solveSingleIteration(int iteration, btCollisionObject** bodies, int nb, btPersistentManifold** manifolds,
                                int nm, btTypedConstraint** constraints, int nc, const btContactSolverInfo& info,
                                btIDebugDraw* draw) override {
    const btScalar residual =
        Base::solveSingleIteration(iteration, bodies, nb, manifolds, nm, constraints, nc, info, draw);
    engine_.after_iteration(pools());
    return residual;
  }

  btScalar solveGroupCacheFriendlyIterations(btCollisionObject** bodies, int nb, btPersistentManifold** manifolds,
                                             int nm, btTypedConstraint**, int, const btContactSolverInfo& info,
                                             btIDebugDraw* draw) override {
    const RowSolvers own(*this);
    btScalar r = Base::solveGroupCacheFriendlyIterations(bodies, nb, manifolds, nm, engine_.rest(),
                                                         engine_.rest_count(), info, draw);
    own.put_back();
    while (!engine_.after_iterations(pools())) {  // a block gave up: its joints go to native rows, from the start
      do again(bodies, nb, manifolds, nm, info, draw);
      while (!engine_.after_setup(pools()));
      after_setup_again();
      r = Base::solveGroupCacheFriendlyIterations(bodies, nb, manifolds, nm, engine_.rest(), engine_.rest_count(), info,
                                                  draw);
      own.put_back();
    }
    return r;
  }

  btScalar solveGroupCacheFriendlyFinish(btCollisionObject** bodies, int nb, const btContactSolverInfo& info) override {
    const btScalar r = Base::solveGroupCacheFriendlyFinish(bodies, nb, info);
    engine_.after_finish();
    return r;
  }

  /// Before a native setup is done again, and after; for hosts that set up more than rigid bodies.
  virtual void set_up_again() {}
  virtual void after_setup_again() {}
  virtual LinkRows link_rows() { return {}; }
  Pools pools() {
    return {this->m_tmpSolverBodyPool,
            this->m_tmpSolverContactConstraintPool,
            this->m_tmpSolverNonContactConstraintPool,
            this->m_tmpSolverContactFrictionConstraintPool,
            this->m_tmpSolverContactRollingFrictionConstraintPool,
            link_rows()};
  }

 private:
  /// The row solvers that the program chose, for while coupled rows have another.
  struct RowSolvers {
    explicit RowSolvers(ExactSolver& s)
        : solver(s),
          generic(s.getActiveConstraintRowSolverGeneric()),
          lower(s.getActiveConstraintRowSolverLowerLimit()) {}
    void put_back() const {
      solver.setConstraintRowSolverGeneric(generic);
      solver.setConstraintRowSolverLowerLimit(lower);
    }
    ExactSolver& solver;
    btSingleConstraintRowSolver generic, lower;
  };
  template <class T>
  static int size(const std::vector<T>& x) {
    return static_cast<int>(x.size());
  }
  void shadow(btCollisionObject** bodies, int nb, btPersistentManifold** manifolds, int nm,
              btTypedConstraint** constraints, int nc, const btContactSolverInfo& info, btIDebugDraw* draw) {
    if (!engine_.wants_shadow()) return;
    engine_.save_world(bodies, nb, manifolds, nm, constraints, nc);
    shadow_.solveGroup(bodies, nb, manifolds, nm, constraints, nc, info, draw, nullptr);
    engine_.take_shadow(manifolds, nm, constraints, nc);
  }
  btScalar again(btCollisionObject** bodies, int nb, btPersistentManifold** manifolds, int nm,
                 const btContactSolverInfo& info, btIDebugDraw* draw) {
    set_up_again();
    engine_.drop_pool(pools());
    engine_.forget_contacts_of_failed(manifolds, nm);
    this->m_tmpSolverContactConstraintPool.resizeNoInitialize(0);
    this->m_tmpSolverNonContactConstraintPool.resizeNoInitialize(0);
    this->m_tmpSolverContactFrictionConstraintPool.resizeNoInitialize(0);
    this->m_tmpSolverContactRollingFrictionConstraintPool.resizeNoInitialize(0);
    return Base::solveGroupCacheFriendlySetup(bodies, nb, manifolds, nm, engine_.rest(), engine_.rest_count(), info,
                                              draw);
  }

  Engine& engine_;
  Base shadow_;
};

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
