// The hook into Bullet: a mixin over one of its stock solvers that overrides the protected steps of a group solve and
// lends its arrays to the binding. Everything native stays the base's.
#pragma once

#include "world_binding.h"

#include <utility>
#include <vector>

namespace LINCHPIN_BULLET_NAMESPACE {

template <class Base>
class SolverHooks : public Base {
 public:
  template <class... Args>
  explicit SolverHooks(WorldBinding& binding, Args... args) : Base(args...), binding_(binding), shadow_(args...) {}

  void prepareSolve(int body_count, int manifold_count) override {
    Base::prepareSolve(body_count, manifold_count);
    binding_.begin_step();
  }
  void allSolved(const btContactSolverInfo& info, btIDebugDraw* draw) override {
    Base::allSolved(info, draw);
    binding_.end_solve();
  }

  btScalar solveGroup(btCollisionObject** bodies, int nb, btPersistentManifold** manifolds, int nm,
                      btTypedConstraint** constraints, int nc, const btContactSolverInfo& info, btIDebugDraw* draw,
                      btDispatcher* dispatcher) override {
    if (!groups().takes_islands())
      return Base::solveGroup(bodies, nb, manifolds, nm, constraints, nc, info, draw, dispatcher);
    if (nb == 0) return 0;
    WorldGroup& g = groups().gather(group(bodies, nb, manifolds, nm, constraints, nc), dispatcher);
    shadow({g.bodies, g.manifolds, g.constraints}, info, draw);
    binding_.begin_group(g.constraints, info);
    groups().solve_separate();
    if (!g.bodies.empty() || !native().empty())
      Base::solveGroup(g.bodies.data(), size(g.bodies), g.manifolds.data(), size(g.manifolds), native_data(),
                       size(native()), info, draw, dispatcher);
    binding_.write_separate();
    return 0;
  }

 protected:
  btScalar solveGroupCacheFriendlySetup(btCollisionObject** bodies, int nb, btPersistentManifold** manifolds, int nm,
                                        btTypedConstraint** constraints, int nc, const btContactSolverInfo& info,
                                        btIDebugDraw* draw) override {
    if (!groups().takes_islands()) {
      const Group g = group(bodies, nb, manifolds, nm, constraints, nc);
      shadow(g, info, draw);
      binding_.begin_group(g.constraints, info);
    }
    btScalar r =
        Base::solveGroupCacheFriendlySetup(bodies, nb, manifolds, nm, native_data(), size(native()), info, draw);
    while (!rows().start(arrays())) r = set_up_again(bodies, nb, manifolds, nm, info, draw);
    return r;
  }

  void solveGroupCacheFriendlySplitImpulseIterations(btCollisionObject** bodies, int nb,
                                                     btPersistentManifold** manifolds, int nm,
                                                     btTypedConstraint** constraints, int nc,
                                                     const btContactSolverInfo& info, btIDebugDraw* draw) override {
    Base::solveGroupCacheFriendlySplitImpulseIterations(bodies, nb, manifolds, nm, constraints, nc, info, draw);
    rows().push(arrays());
    // After the pushes, whose own iterations use the rows as they were.
    if (!binding_.couples_rows() || !rows().couple(arrays(), !binding_.multibodies())) return;
    native_generic_ = this->getActiveConstraintRowSolverGeneric();
    native_lower_ = this->getActiveConstraintRowSolverLowerLimit();
    rows().begin_iterations(arrays(), native_generic_, native_lower_);
    this->setConstraintRowSolverGeneric(&RowReader::row_generic);
    this->setConstraintRowSolverLowerLimit(&RowReader::row_lower);
  }

  btScalar solveSingleIteration(int iteration, btCollisionObject** bodies, int nb, btPersistentManifold** manifolds,
                                int nm, btTypedConstraint** constraints, int nc, const btContactSolverInfo& info,
                                btIDebugDraw* draw) override {
    const btScalar residual =
        Base::solveSingleIteration(iteration, bodies, nb, manifolds, nm, constraints, nc, info, draw);
    rows().project(arrays());
    return residual;
  }

  btScalar solveGroupCacheFriendlyIterations(btCollisionObject** bodies, int nb, btPersistentManifold** manifolds,
                                             int nm, btTypedConstraint**, int, const btContactSolverInfo& info,
                                             btIDebugDraw* draw) override {
    const auto iterate = [&] {
      const btScalar r =
          Base::solveGroupCacheFriendlyIterations(bodies, nb, manifolds, nm, native_data(), size(native()), info, draw);
      if (!native_generic_) return r;  // no row was coupled
      this->setConstraintRowSolverGeneric(std::exchange(native_generic_, nullptr));
      this->setConstraintRowSolverLowerLimit(native_lower_);
      return r;
    };
    btScalar r = iterate();
    // An island is left to Bullet, or was too long for what its rows were solved for: all starts once more.
    while (!rows().finish(arrays())) {
      do set_up_again(bodies, nb, manifolds, nm, info, draw);
      while (!rows().start(arrays()));
      after_second_setup();
      r = iterate();
    }
    return r;
  }

  btScalar solveGroupCacheFriendlyFinish(btCollisionObject** bodies, int nb, const btContactSolverInfo& info) override {
    const btScalar r = Base::solveGroupCacheFriendlyFinish(bodies, nb, info);
    binding_.write_group();
    return r;
  }

  // For hosts that set up more than rigid bodies: before a setup is done again, and after.
  virtual void before_second_setup() {}
  virtual void after_second_setup() {}
  virtual LinkRows link_rows() { return {}; }
  SolverArrays arrays() {
    return {this->m_tmpSolverBodyPool,
            this->m_tmpSolverContactConstraintPool,
            this->m_tmpSolverNonContactConstraintPool,
            this->m_tmpSolverContactFrictionConstraintPool,
            this->m_tmpSolverContactRollingFrictionConstraintPool,
            link_rows()};
  }

 private:
  static int size(const auto& x) { return static_cast<int>(x.size()); }
  RowReader& rows() { return binding_.world().rows; }
  GroupTaker& groups() { return binding_.groups(); }
  std::vector<btTypedConstraint*>& native() { return binding_.world().native_constraints; }
  btTypedConstraint** native_data() { return native().empty() ? nullptr : native().data(); }
  static Group group(btCollisionObject** bodies, int nb, btPersistentManifold** manifolds, int nm,
                     btTypedConstraint** constraints, int nc) {
    return {{bodies, z(nb)}, {manifolds, z(nm)}, {constraints, z(nc)}};
  }
  void shadow(const Group& g, const btContactSolverInfo& info, btIDebugDraw* draw) {
    NativeRun& run = binding_.native_run();
    if (!run.runs()) return;
    run.save(g);
    shadow_.solveGroup(g.bodies.data(), size(g.bodies), g.manifolds.data(), size(g.manifolds), g.constraints.data(),
                       size(g.constraints), info, draw, nullptr);
    run.take(g);
  }
  btScalar set_up_again(btCollisionObject** bodies, int nb, btPersistentManifold** manifolds, int nm,
                        const btContactSolverInfo& info, btIDebugDraw* draw) {
    before_second_setup();
    RowReader::forget_companions(arrays());
    binding_.forget_contacts_of_failed({manifolds, z(nm)});
    for (btConstraintArray* rows : arrays().all()) rows->resizeNoInitialize(0);
    return Base::solveGroupCacheFriendlySetup(bodies, nb, manifolds, nm, native_data(), size(native()), info, draw);
  }

  WorldBinding& binding_;
  Base shadow_;
  btSingleConstraintRowSolver native_generic_ = nullptr, native_lower_ = nullptr;  // while rows() has others
};

}  // namespace LINCHPIN_BULLET_NAMESPACE
