// Installing linchpin into a Bullet world, and leaving it.
#include "world_binding.h"

#include "multibody.h"
#include "multibody_solver.h"
#include "solver_hooks.h"
#include "world_peek.h"

#include <BulletDynamics/ConstraintSolver/btNNCGConstraintSolver.h>
#include <BulletDynamics/Featherstone/btMultiBodyConstraintSolver.h>
#include <BulletDynamics/Featherstone/btMultiBodyDynamicsWorld.h>
#include <BulletDynamics/MLCPSolvers/btMLCPSolver.h>
#include <BulletSoftBody/btSoftMultiBodyDynamicsWorld.h>

#include <cmath>
#include <sstream>
#include <utility>

namespace LINCHPIN_BULLET_NAMESPACE {

namespace {

const char* const supported_solvers =
    ", which linchpin does not support. Supported are exactly these classes, without derived ones: "
    "btSequentialImpulseConstraintSolver and btNNCGConstraintSolver; btMLCPSolver in Mode::passive; "
    "btConstraintSolverPoolMt of sequential impulse solvers in a btDiscreteDynamicsWorldMt; "
    "btMultiBodyConstraintSolver in a btMultiBodyDynamicsWorld";

// The class is known by its type. A dynamic_cast to it would need Bullet's library of soft bodies.
bool has_soft_bodies(btMultiBodyDynamicsWorld& world) {
  return static_cast<btSoftMultiBodyDynamicsWorld&>(world).getSoftBodyArray().size() > 0;
}

const Options& checked(const Options& o) {
  for (const auto& [name, value] :
       {std::pair{"draw_force", o.draw_force}, {"draw_native_difference", o.draw_native_difference}})
    if (!(value >= 0) || !std::isfinite(value)) {
      std::ostringstream why;
      why << "linchpin: Options::" << name << " must be finite and not below 0, got " << value;
      host::demand(why.str());
    }
  return o;
}

}  // namespace

WorldBinding::WorldBinding(Solver& owner, const Options& options)
    : owner_(owner),
      options_(host::with_default_tolerances(checked(options), sizeof(btScalar) == 4)),
      world_(host::options_of(options_)),
      groups_(world_),
      native_run_(world_, options_) {}

// A solver injected at construction may outlive its world. Without an island manager of ours nobody knows whether it
// did.
WorldBinding::~WorldBinding() {
  if (found_.solver || islands_) uninstall();
}

void WorldBinding::make_solver() { hooks_ = std::make_unique<SolverHooks<btSequentialImpulseConstraintSolver>>(*this); }

std::string WorldBinding::install(btDiscreteDynamicsWorld& world) {
  if (options_.bullet_version != BT_BULLET_VERSION)
    return "linchpin was compiled with BT_BULLET_VERSION " + std::to_string(BT_BULLET_VERSION) +
           ", but the program with " + std::to_string(options_.bullet_version) + ". Compile both with the same Bullet";
  if (std::string why = find_kind(world); !why.empty()) return why;
  if (threads_ && options_.mode == Mode::passive)
    return "linchpin: Mode::passive does not support a btDiscreteDynamicsWorldMt, because its solvers run in several "
           "threads. Use Mode::exact";
  const bool may_be_soft = links_world_ && world.getWorldType() == BT_SOFT_MULTIBODY_DYNAMICS_WORLD;
  if (world.getWorldType() == BT_SOFT_RIGID_DYNAMICS_WORLD || (may_be_soft && has_soft_bodies(*links_world_)))
    return "linchpin: worlds with soft bodies are not supported. Put the mechanism into a world without soft bodies";
  if (world.getWorldType() != BT_DISCRETE_DYNAMICS_WORLD && !may_be_soft)
    return "linchpin: the type of the world (getWorldType() = " + std::to_string(world.getWorldType()) +
           ") is not supported. Use a btDiscreteDynamicsWorld or a btMultiBodyDynamicsWorld";
  btConstraintSolver* const found = world.getConstraintSolver();
  if (!found) return "linchpin: the world has no constraint solver. Pass one to the constructor of the world";
  if (links_world_ && (options_.compare_native || options_.mode == Mode::passive))
    return "linchpin: a btMultiBodyDynamicsWorld supports neither Mode::passive nor Options::compare_native. Use "
           "Mode::exact without compare_native";
  if (std::string why = choose_hooks(*found); !why.empty()) return why;
  enter(&world);
  // A world that owns its solver would free it when it is replaced; it gets it back, owned, in uninstall(). A world of
  // threads would go past us to its other one.
  found_ = {found, nullptr, std::exchange(WorldPeek::owns_solver(world), false)};
  if (threads_) found_.large = std::exchange(ThreadsPeek::large(*threads_), nullptr);
  set_solver(hooks_.get());
  if (links_world_) world_.multibodies = std::make_unique<Multibodies>(world_, *links_world_);
  if (links_world_ || native_run_.compares()) solver().make_reactions();
  add_actions();
  joints().scan();
  if (multibodies()) multibodies()->scan();
  return {};
}

/// Chooses the hooks over the world's own kind of solver. @return why there are none, or empty
std::string WorldBinding::choose_hooks(btConstraintSolver& found) {
  const std::string name = linchpin::detail::class_name(found),
                    unknown = "linchpin: the constraint solver of the world has the type " + name + supported_solvers;
  if (name.find("SolverHooks") != std::string::npos)
    return "linchpin: this world already has a linchpin solver. Use that one, or detach() it first";
  if (links_world_) {
    if (!is_exactly<btMultiBodyConstraintSolver>(found)) return unknown;
    hooks_ = std::make_unique<MultiBodySolverHooks>(*this);
    world_.native_solver = "multibody";
  } else if (is_exactly<btSequentialImpulseConstraintSolver>(found) ||
             (threads_ && is_exactly<btConstraintSolverPoolMt>(found) &&
              found.getSolverType() == BT_SEQUENTIAL_IMPULSE_SOLVER)) {
    hooks_ = std::make_unique<SolverHooks<btSequentialImpulseConstraintSolver>>(*this);
  } else if (is_exactly<btNNCGConstraintSolver>(found)) {
    hooks_ = std::make_unique<SolverHooks<btNNCGConstraintSolver>>(*this);
    world_.native_solver = "NNCG";
  } else if (is_exactly<btMLCPSolver>(found) && options_.mode == Mode::passive) {
    hooks_ = std::make_unique<SolverHooks<btMLCPSolver>>(*this, MlcpPeek::inner(static_cast<btMLCPSolver&>(found)));
    world_.native_solver = "MLCP";
  } else {
    return unknown;
  }
  return {};
}

/// Finds whether the world is one of threads or of multibodies. @return why that cannot be said, or empty
std::string WorldBinding::find_kind(btDiscreteDynamicsWorld& world) {
  if (type_of(world)) {
    threads_ = dynamic_cast<btDiscreteDynamicsWorldMt*>(&world);
    links_world_ = dynamic_cast<btMultiBodyDynamicsWorld*>(&world);
    return {};
  }
  // The program's own class, compiled with -fno-rtti. The parts that Bullet itself has put into the world have types.
  threads_ = nullptr;
  links_world_ = nullptr;
  if (is_exactly<btSimulationIslandManagerMt>(*world.getSimulationIslandManager()))
    threads_ = static_cast<btDiscreteDynamicsWorldMt*>(&world);
  const btConstraintSolver* solver = world.getConstraintSolver();
  if (!solver || !(is_exactly<btMultiBodyConstraintSolver>(*solver) || is_exactly<MultiBodySolverHooks>(*solver)))
    return {};
  return "linchpin: the class of this world was compiled without type information (-fno-rtti). Its solver is a "
         "btMultiBodyConstraintSolver, so linchpin cannot tell whether the world is a btMultiBodyDynamicsWorld. "
         "Compile the source files that use the class with -frtti";
}

void WorldBinding::enter(btDiscreteDynamicsWorld* world) {
  world_.enter(world);
  if (!world) return;
  const auto coupling = couples_rows() || links_world_ ? host::Capabilities::Coupling::rows
                                                       : host::Capabilities::Coupling::between_iterations;
  // Beyond π/4 per step Bullet does not turn as it is asked to; a margin is for rounding.
  solver().set_capabilities({.coupling = coupling, .rounding = double(SIMD_EPSILON), .largest_turn = 0.78});
  const auto before_islands = [this] {
    if (solver().has_user_constraints()) bodies().drop_gone();
  };
  if (WorldPeek::owns_islands(*world) && world->getSimulationIslandManager())
    islands_ = std::make_unique<WorldIslands>(WorldPeek::islands(*world), before_islands, [this] { world_ends(); });
  if (islands_ && !islands_->watches()) islands_.reset();
}

// Called from the world's destructor. The destructors of Bullet's derived classes have run already.
void WorldBinding::world_ends() {
  threads_ = nullptr;
  links_world_ = nullptr;
  world_.end();
  uninstall();
}

// One of ours before all others, in whose order nothing changes, and one after those that are there.
void WorldBinding::add_actions() {
  world_.world()->addAction(this);
  if (!steps_by_stages()) return;
  world_.world()->addAction(&first_action_);
  auto& actions = WorldPeek::actions(*world_.world());
  for (int i = actions.size() - 1; i > 0; --i) actions.swap(i, i - 1);
}

void WorldBinding::remove_actions() {
  auto& actions = WorldPeek::actions(*world_.world());
  for (btActionInterface* ours :
       {static_cast<btActionInterface*>(&first_action_), static_cast<btActionInterface*>(this)}) {
    const int at = actions.findLinearSearch(ours);
    if (at == actions.size()) continue;
    for (int i = at; i + 1 < actions.size(); ++i)
      actions.swap(i, i + 1);  // Bullet's own way puts the last in its place
    actions.pop_back();
  }
}

// A world of multibodies has its solver in a second place, which only this call reaches.
void WorldBinding::set_solver(btConstraintSolver* solver) {
  if (links_world_)
    links_world_->setMultiBodyConstraintSolver(static_cast<btMultiBodyConstraintSolver*>(solver));
  else
    world_.world()->setConstraintSolver(solver);
}

std::string WorldBinding::attach(btDiscreteDynamicsWorld& world) {
  if (world_.world())
    return world_.world() == &world
               ? ""
               : "linchpin: this solver is attached to another world. Call detach() first, or make a second solver";
  if (world.getConstraintSolver() != hooks_.get())
    return "linchpin: attach(): the world was not made with constraint_solver() of this solver. Pass it to the "
           "constructor of the world, or use Solver(world)";
  if (std::string why = find_kind(world); !why.empty()) return why;
  if (std::exchange(links_world_, nullptr) || std::exchange(threads_, nullptr) ||
      world.getWorldType() != BT_DISCRETE_DYNAMICS_WORLD)
    return "linchpin: attach() supports btDiscreteDynamicsWorld only. For multibodies or threads use the constructor "
           "Solver(world)";
  for (int i = 0; i < solver().entry_count(); ++i)  // of a world before this one
    if (!solver().entry(i).is_joint()) solver().remove(i);
  enter(&world);
  found_ = {};  // the world never had another: it gets a fresh sequential impulse solver when we leave
  add_actions();
  joints().scan();
  return {};
}

void WorldBinding::uninstall() {
  btDiscreteDynamicsWorld* const world = world_.world();
  if (!world) return;
  joints().leave_world();
  remove_actions();
  if (threads_) ThreadsPeek::large(*threads_) = found_.large;
  if (world->getConstraintSolver() == hooks_.get()) {
    if (found_.solver) {
      set_solver(found_.solver);
      WorldPeek::owns_solver(*world) = found_.owned;
    } else if (!world_.has_ended()) {
      void* memory = btAlignedAlloc(sizeof(btSequentialImpulseConstraintSolver), 16);
      world->setConstraintSolver(new (memory) btSequentialImpulseConstraintSolver);
      WorldPeek::owns_solver(*world) = true;
    }
  }
  world_.multibodies.reset();
  islands_.reset();
  enter(nullptr);
  found_ = {};
  threads_ = nullptr;
  links_world_ = nullptr;
}

void WorldBinding::set_options(const Options& options) {
  if (options.compare_native != options_.compare_native)
    host::demand("set_options()", "compare_native cannot change after the solver is made. Make another solver");
  const Options now = host::with_default_tolerances(checked(options), sizeof(btScalar) == 4);
  solver().set_options(host::options_of(now));
  if (world_.world()) remove_actions();
  options_ = now;
  if (world_.world()) add_actions();
}

void WorldBinding::set_callback(std::function<void(Step)> callback) {
  callback_ = callback ? std::make_shared<const std::function<void(Step)>>(std::move(callback)) : nullptr;
}

}  // namespace LINCHPIN_BULLET_NAMESPACE
