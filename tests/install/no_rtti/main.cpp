// A game compiled with -fno-rtti and -fno-exceptions, as many are, with a world, joints and constraints of its own.
#include <BulletDynamics/ConstraintSolver/btFixedConstraint.h>
#include <BulletDynamics/ConstraintSolver/btGeneric6DofSpring2Constraint.h>
#include <BulletDynamics/Featherstone/btMultiBodyConstraintSolver.h>
#include <BulletDynamics/Featherstone/btMultiBodyDynamicsWorld.h>
#include <btBulletDynamicsCommon.h>
#include <linchpin/bullet.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

void require(bool good, const char* what, const std::string& why = "") {
  if (good) return;
  std::printf("not so: %s%s%s\n", what, why.empty() ? "" : ": ", why.c_str());
  std::exit(1);
}

struct GameWorld : btDiscreteDynamicsWorld {
  using btDiscreteDynamicsWorld::btDiscreteDynamicsWorld;
  int calls = 0;
  void internalSingleStepSimulation(btScalar dt) override {
    ++calls;
    btDiscreteDynamicsWorld::internalSingleStepSimulation(dt);
  }
};
struct GameLinks : btMultiBodyDynamicsWorld {
  using btMultiBodyDynamicsWorld::btMultiBodyDynamicsWorld;
  void solveConstraints(btContactSolverInfo& info) override { btMultiBodyDynamicsWorld::solveConstraints(info); }
};
template <class Base>
struct Game : Base {
  using Base::Base;
  int tag = 7;
  void getInfo1(btTypedConstraint::btConstraintInfo1* info) override { Base::getInfo1(info); }
};
// None of Bullet's: left to the native solver.
struct GameRope : btTypedConstraint {
  explicit GameRope(btRigidBody& body) : btTypedConstraint(MAX_CONSTRAINT_TYPE, body) {}
  void getInfo1(btConstraintInfo1* info) override { info->m_numConstraintRows = info->nub = 0; }
  void getInfo2(btConstraintInfo2*) override {}
  void setParam(int, btScalar, int) override {}
  btScalar getParam(int, int) const override { return 0; }
};
struct GameSolver : btSequentialImpulseConstraintSolver {
  void reset() override { btSequentialImpulseConstraintSolver::reset(); }
};

}  // namespace

int main() {
  btDefaultCollisionConfiguration config;
  btCollisionDispatcher dispatcher(&config);
  btDbvtBroadphase broadphase;
  btSequentialImpulseConstraintSolver native;
  btBoxShape box(btVector3(btScalar(.2), btScalar(.2), btScalar(.2)));
  for (const bool own_world : {false, true}) {
    btDiscreteDynamicsWorld plain(&dispatcher, &broadphase, &native, &config);
    GameWorld game(&dispatcher, &broadphase, &native, &config);
    btDiscreteDynamicsWorld& world = own_world ? game : plain;
    world.setGravity(btVector3(0, -10, 0));
    btRigidBody body(1, nullptr, &box, btVector3(btScalar(.03), btScalar(.03), btScalar(.03)));
    btRigidBody second(1, nullptr, &box, btVector3(btScalar(.03), btScalar(.03), btScalar(.03)));
    world.addRigidBody(&body, 0, 0);
    world.addRigidBody(&second, 0, 0);
    btTransform there = btTransform::getIdentity();
    there.setOrigin(btVector3(-1, 0, 0));
    Game<btHingeConstraint> hinge(body, btVector3(-1, 0, 0), btVector3(0, 0, 1));
    Game<btPoint2PointConstraint> ball(second, btVector3(0, -1, 0));
    Game<btGeneric6DofSpring2Constraint> locked(body, there);  // all of it held, beside the hinge: redundant
    Game<btGeneric6DofConstraint> also(body, there, true);
    for (int axis = 0; axis < 5; ++axis) {
      locked.setLimit(axis, 0, 0);
      also.setLimit(axis, 0, 0);
    }
    locked.setLimit(5, 1, -1);
    also.setLimit(5, 1, -1);
    GameRope rope(second);
    for (btTypedConstraint* joint : {static_cast<btTypedConstraint*>(&hinge), static_cast<btTypedConstraint*>(&ball),
                                     static_cast<btTypedConstraint*>(&locked), static_cast<btTypedConstraint*>(&also),
                                     static_cast<btTypedConstraint*>(&rope)})
      world.addConstraint(joint);
    auto installed = linchpin::bullet::Solver::try_install(world);
    require(installed.has_value(), "it can be installed", installed.error().message);
    std::unique_ptr<linchpin::bullet::Solver> exact = *std::move(installed);
    auto own = exact->try_constrain("own", {second}, [](const auto& s) { return s[0].position().z; });
    require(own && own->valid(), "a constraint of its own can be added", own.error().message);
    for (int i = 0; i < 60; ++i) world.stepSimulation(btScalar(1) / 60, 0);
    int held = 0;
    for (const linchpin::Reaction& r : exact->reactions()) {
      held += !r.native;
      require(r.gap < 1e-4 && r.residual < 1e-4, "joints are held", r.name);
    }
    require(held == 5, "four of the joints and the constraint of its own are exact", exact->summary());
    require(exact->native().size() == 1, "only the rope is left to Bullet", exact->summary());
    require(exact->find("hinge#0").valid() && exact->find("point2point#1").valid() &&
                exact->find("6dof-spring2#2").valid() && exact->find("6dof#3").valid(),
            "joints are called by what they are", exact->summary());
    exact.reset();
    for (btTypedConstraint* joint : {static_cast<btTypedConstraint*>(&hinge), static_cast<btTypedConstraint*>(&ball),
                                     static_cast<btTypedConstraint*>(&locked), static_cast<btTypedConstraint*>(&also),
                                     static_cast<btTypedConstraint*>(&rope)})
      world.removeConstraint(joint);
    world.removeRigidBody(&body);
    world.removeRigidBody(&second);
  }
  GameSolver solver;
  btDiscreteDynamicsWorld with_own_solver(&dispatcher, &broadphase, &solver, &config);
  std::string why = linchpin::bullet::Solver::try_install(with_own_solver).error().message;
  require(why.find("-fno-rtti") != std::string::npos, "a solver of its own is refused with a reason", why);
  btMultiBodyConstraintSolver links_solver;
  GameLinks links(&dispatcher, &broadphase, &links_solver, &config);
  why = linchpin::bullet::Solver::try_install(links).error().message;
  require(why.find("-frtti") != std::string::npos, "a world of multibodies of its own is refused with what to do", why);
  btMultiBodyDynamicsWorld stock_links(&dispatcher, &broadphase, &links_solver, &config);
  const auto stock = linchpin::bullet::Solver::try_install(stock_links);
  require(stock.has_value(), "Bullet's own is not", stock.error().message);
  return 0;
}
