// What the engine knows of the world: installing and leaving, bodies, joints and the user's constraints.
#include "engine.h"

#include "bodies.h"
#include "columns.h"
#include "exact_solver.h"
#include "multibody.h"
#include "multibody_solver.h"

#include <BulletDynamics/ConstraintSolver/btNNCGConstraintSolver.h>
#include <BulletDynamics/Featherstone/btMultiBodyConstraintSolver.h>
#include <BulletDynamics/Featherstone/btMultiBodyDynamicsWorld.h>
#include <BulletDynamics/MLCPSolvers/btMLCPSolver.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <utility>

#if __has_include(<cxxabi.h>)
#include <cxxabi.h>
#endif

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

namespace {

// They are protected, with no accessor: a pointer to member named through a derived class is how C++ lets one read
// them.
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

const char* const not_a_body = " (not a body)";
const char* const known_solvers =
    "btSequentialImpulseConstraintSolver, btNNCGConstraintSolver (Mode::observe also btMLCPSolver), in a "
    "btDiscreteDynamicsWorldMt a btConstraintSolverPoolMt of the first kind, and in a btMultiBodyDynamicsWorld "
    "btMultiBodyConstraintSolver";

/// No row of it is ours, while it is switched on.
bool all_native(const Record& r) { return r.id.index < 0 && !(r.on_links && r.waiting); }

// As its programmer wrote it, where the compiler's library can say so.
std::string readable(const btConstraintSolver& solver) {
  const std::type_info* found = type_of(solver);
  if (!found) return "a class that was compiled without type information (-fno-rtti)";
  const std::type_info& type = *found;
#if __has_include(<cxxabi.h>)
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                    std::free);
  if (status == 0) return name.get();
#endif
  return type.name();
}

}  // namespace

Engine::Engine(Solver& owner, Options options)
    : owner_(owner), options_(options), joint_shapes_(std::max(1, options.threads)) {
  const bool single = sizeof(btScalar) == 4;
  if (options_.newton_tolerance <= 0) options_.newton_tolerance = single ? 1e-10 : 1e-15;
  if (options_.rank_tolerance <= 0) options_.rank_tolerance = single ? 1e-5 : 1e-6;
  if (options_.gap_tolerance <= 0) options_.gap_tolerance = single ? 1e-5 : 1e-9;
  if (!(options_.tolerance > 0)) options_.tolerance = single ? 1e-6 : 1e-9;
  if (options_.threads > 1) crew_ = std::make_unique<Crew>(options_.threads);
  for (int member = 0; member < (crew_ ? crew_->size() : 1); ++member)
    substep_states_.push_back(std::make_unique<SubstepStates>());
  body_of_.push_back(nullptr);
  state_ = base_ = end_ = system_.initial_state();
  place_.resize(1);
  loads_.resize(1);
}

// A solver injected at construction may outlive its world. Without an island manager of ours nobody knows whether it
// did.
Engine::~Engine() {
  if (native_ || islands_) uninstall();
}

void Engine::make_solver() { host_solver_ = std::make_unique<ExactSolver<btSequentialImpulseConstraintSolver>>(*this); }

std::string Engine::install(btDiscreteDynamicsWorld& world) {
  if (std::string why = find_kind(world); !why.empty()) return why;
  btDiscreteDynamicsWorldMt* const threads = threads_;
  btMultiBodyDynamicsWorld* const links = links_world_;
  if (threads && options_.mode == Mode::observe)
    return "linchpin: the world is a btDiscreteDynamicsWorldMt, whose native solvers run in several threads at once: "
           "Mode::observe is not supported there";
  if (world.getWorldType() == BT_SOFT_RIGID_DYNAMICS_WORLD)
    return "linchpin: the world is a soft body world (btSoftRigidDynamicsWorld), which is not supported yet";
  if (world.getWorldType() != BT_DISCRETE_DYNAMICS_WORLD)
    return "linchpin: the world is of a kind that is not supported";
  btConstraintSolver* found = world.getConstraintSolver();
  if (!found) return "linchpin: the world has no constraint solver";
  if (links && (options_.shadow || options_.mode == Mode::observe))
    return "linchpin: the world is a btMultiBodyDynamicsWorld, where Mode::observe and Options::shadow are not "
           "supported yet";
  if (links && is_exactly<btMultiBodyConstraintSolver>(*found)) {
    host_solver_ = std::make_unique<ExactMultiBodySolver>(*this);
    base_name_ = "multibody";
  } else if (links) {
    const std::string name = readable(*found);
    if (name.find("ExactMultiBodySolver") != std::string::npos)
      return "linchpin: this world already has a linchpin solver";
    return "linchpin: the world's constraint solver is of type " + name + "; known are " + known_solvers;
  } else if (is_exactly<btSequentialImpulseConstraintSolver>(*found) ||
             (threads && is_exactly<btConstraintSolverPoolMt>(*found) &&
              found->getSolverType() == BT_SEQUENTIAL_IMPULSE_SOLVER)) {
    host_solver_ = std::make_unique<ExactSolver<btSequentialImpulseConstraintSolver>>(*this);
  } else if (is_exactly<btNNCGConstraintSolver>(*found)) {
    host_solver_ = std::make_unique<ExactSolver<btNNCGConstraintSolver>>(*this);
    base_name_ = "NNCG";
  } else if (is_exactly<btMLCPSolver>(*found) && options_.mode == Mode::observe) {
    host_solver_ =
        std::make_unique<ExactSolver<btMLCPSolver>>(*this, MlcpPeek::inner(static_cast<btMLCPSolver&>(*found)));
    base_name_ = "MLCP";
  } else {
    const std::string name = readable(*found);
    if (name.find("ExactSolver") != std::string::npos) return "linchpin: this world already has a linchpin solver";
    return "linchpin: the world's constraint solver is of type " + name + "; known are " + known_solvers;
  }
  native_ = found;
  enter(world);
  // A world that owns its solver would free it when it is replaced; it gets it back, owned, in uninstall().
  world_owned_native_ = WorldPeek::owns_solver(world);
  WorldPeek::owns_solver(world) = false;
  set_solver(host_solver_.get());
  // A world of threads would go past us to it.
  if (threads) native_large_ = std::exchange(ThreadsPeek::large(*threads), nullptr);
  if (links) multibodies_ = std::make_unique<Multibodies>(*this, *links);
  if (links || tells_native()) make_reactions();
  if (links) make_ends();
  add_actions();
  scan_world();
  if (multibodies_) multibodies_->look();
  return {};
}

/// Finds whether the world is one of threads or of multibodies. @return why that cannot be said, or empty
std::string Engine::find_kind(btDiscreteDynamicsWorld& world) {
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
  if (!solver || !(is_exactly<btMultiBodyConstraintSolver>(*solver) || is_exactly<ExactMultiBodySolver>(*solver)))
    return {};
  return "linchpin: the class of this world was compiled without type information (-fno-rtti). Its solver is a "
         "btMultiBodyConstraintSolver, so linchpin cannot tell whether the world is a btMultiBodyDynamicsWorld. "
         "Compile "
         "the source files that use the class with -frtti";
}

void Engine::enter(btDiscreteDynamicsWorld& world) {
  world_ = &world;
  world_ended_ = false;
  if (WorldPeek::owns_islands(world) && world.getSimulationIslandManager())
    islands_ = std::make_unique<WorldIslands>(WorldPeek::islands(world), [this] { world_ends(); });
  if (islands_ && !islands_->watches()) islands_.reset();
}

/// From its destructor. Those of Bullet's derived classes have run already.
void Engine::world_ends() {
  threads_ = nullptr;
  links_world_ = nullptr;
  world_ended_ = true;
  uninstall();
}

const char* Engine::why_no_world() const {
  return world_ended_ ? "the world of this solver has been destroyed" : "attach the solver to a world first";
}

// One of ours before all others, in whose order nothing changes, and one after those that are there.
void Engine::add_actions() {
  world_->addAction(this);
  if (options_.stepping == Stepping::semi_implicit || options_.mode == Mode::observe) return;
  world_->addAction(&first_action_);
  auto& actions = WorldPeek::actions(*world_);
  for (int i = actions.size() - 1; i > 0; --i) actions.swap(i, i - 1);
}

void Engine::remove_actions() {
  auto& actions = WorldPeek::actions(*world_);
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
void Engine::set_solver(btConstraintSolver* solver) {
  if (links_world_)
    links_world_->setMultiBodyConstraintSolver(static_cast<btMultiBodyConstraintSolver*>(solver));
  else
    world_->setConstraintSolver(solver);
}

std::string Engine::attach(btDiscreteDynamicsWorld& world) {
  if (world_) return world_ == &world ? "" : "linchpin: this solver is attached to another world";
  if (world.getConstraintSolver() != host_solver_.get())
    return "linchpin: attach: the world was not built with this solver's constraint_solver()";
  if (std::string why = find_kind(world); !why.empty()) return why;
  if (std::exchange(links_world_, nullptr) || std::exchange(threads_, nullptr) ||
      world.getWorldType() != BT_DISCRETE_DYNAMICS_WORLD)
    return "linchpin: attach: worlds of multibodies (btMultiBodyDynamicsWorld), whose solver is given to the "
           "constructor of Solver, of soft bodies or of threads (btDiscreteDynamicsWorldMt) are not supported";
  for (std::size_t i = 0; i < records_.size(); ++i)  // of a world before this one
    if (records_[i].alive && !records_[i].joint) remove(static_cast<int>(i));
  enter(world);
  native_ = nullptr;  // the world never had another: it gets a fresh sequential impulse solver when we leave
  add_actions();
  scan_world();
  return {};
}

void Engine::uninstall() {
  if (!world_) return;
  for (Record& r : records_) {
    for (auto& p : r.proxies) take_out_for_good(std::move(p));
    r.proxies.clear();
  }
  remove_actions();
  if (threads_) ThreadsPeek::large(*threads_) = std::exchange(native_large_, nullptr);
  if (world_->getConstraintSolver() == host_solver_.get()) {
    if (native_) {
      set_solver(native_);
      WorldPeek::owns_solver(*world_) = world_owned_native_;
    } else if (!world_ended_) {
      void* memory = btAlignedAlloc(sizeof(btSequentialImpulseConstraintSolver), 16);
      world_->setConstraintSolver(new (memory) btSequentialImpulseConstraintSolver);
      WorldPeek::owns_solver(*world_) = true;
    }
  }
  multibodies_.reset();
  islands_.reset();
  world_ = nullptr;
  native_ = nullptr;
  threads_ = nullptr;
  links_world_ = nullptr;
}

// ---- bodies
// ----------------------------------------------------------------------------------------------------------

bool Engine::in_world(const btRigidBody& body) const {
  if (&body == &btTypedConstraint::getFixedBody()) return true;
  const btCollisionObjectArray& all = world_->getCollisionObjectArray();
  const int index = body.getWorldArrayIndex();
  return index >= 0 && index < all.size() && all[index] == &body;
}

btRigidBody* Engine::body_of(BodyId id) const {
  return id.index > 0 && z(id.index) < body_of_.size() && !system_.removed(id) ? body_of_[z(id.index)] : nullptr;
}

BodyId Engine::body_id(btRigidBody& body) {
  if (&body == &btTypedConstraint::getFixedBody()) return world;
  const BodyPart part = part_of(body);
  const auto wanted = part == BodyPart::fixed || part == BodyPart::unsupported ? BodyKind::fixed
                      : part == BodyPart::driven                               ? BodyKind::driven
                      : part == BodyPart::point                                ? BodyKind::particle
                                                                               : BodyKind::rigid;
  if (const auto known = id_of_.find(&body); known != id_of_.end()) {
    const BodyId id = system_.body_at(known->second);
    if (system_.kind(id) == wanted || system_.name(id).ends_with(not_a_body)) return id;
    // It changed kind (made kinematic, static, …): a new body of the core takes its place.
    id_of_.erase(known);
    leave_body(id.index);
    changed_bodies_.push_back(&body);  // what the user has on it is joined to the new one in watch_bodies()
    for (Record& r : records_)
      if (r.alive && r.joint && std::find(r.bodies.begin(), r.bodies.end(), &body) != r.bodies.end()) r.seen_to = false;
  }
  const std::string name = new_body_name("body");
  // Poses are read anew every step. A body whose numbers are no mass (NaN in the world already) counts as fixed.
  BodyId id;
  std::string why;
  if (wanted == BodyKind::particle) {
    why = system_.try_add_particle(id, name, 1 / double(body.getInvMass()), Vector3d::Zero());
  } else if (wanted == BodyKind::rigid) {
    why = system_.try_add_body(id, name, 1, Matrix3d::Identity(), Pose{});
    if (why.empty()) why = system_.try_set_mass(id, 1 / double(body.getInvMass()), read_inertia(body));
    if (!why.empty() && id.index >= 0) system_.remove(id);
  } else if (wanted == BodyKind::driven) {
    id = system_.add_driven(name, Pose{});
  }
  if (wanted == BodyKind::fixed || !why.empty()) id = system_.add_fixed(why.empty() ? name : name + not_a_body, Pose{});
  id_of_[&body] = id.index;
  make_room(id, &body);
  return id;
}

std::string Engine::new_body_name(const char* kind) { return std::string(kind) + "#" + std::to_string(bodies_made_++); }

void Engine::make_room(BodyId id, btRigidBody* body) {
  const std::size_t n = z(system_.body_count()), i = z(id.index);
  body_of_.resize(n, nullptr);
  body_of_[i] = body;
  place_.resize(n, 0);
  place_[i] = body ? std::max(body->getWorldArrayIndex(), 0) : -1;
  state_.bodies.resize(n);
  state_[id] = {};
  if (ends_made_)
    for (State* s : {&base_, &end_}) {
      s->bodies.resize(n);
      (*s)[id] = {};
    }
  loads_.resize(n);
  loads_[i] = {};
  body_watch_.resize(n);
  body_watch_[i] = {};
  if (i < rest_poses_.size()) rest_poses_[i] = {};
  past_of_driven_.erase(id.index);
  odd_factors_.erase(id.index);
  bodies_came_ = true;
  if (body) note_settings(i, *body);
  if (!tells_native()) return;
  for (auto* x : {&shadow_v_, &shadow_w_}) {
    x->resize(n, Vector3d::Zero());
    (*x)[i].setZero();
  }
}

void Engine::leave_body(int index) {
  body_of_[z(index)] = nullptr;
  place_[z(index)] = -1;
  bodies_gone_.push_back(index);
}

/// By a constraint that is there.
bool Engine::is_named(BodyId id) const {
  const auto names = [&](const Constraint& c) {
    return std::find(c.bodies().begin(), c.bodies().end(), id) != c.bodies().end();
  };
  return std::any_of(records_.begin(), records_.end(), [&](const Record& r) {
    return r.alive && ((r.id.index >= 0 && names(system_.constraint(r.id))) || (r.waiting && names(*r.waiting)) ||
                       (r.link_id.index >= 0 && names(system_.constraint(r.link_id))));
  });
}

/// At a step's beginning, when nobody can ask about the last one any more and all lists are of what is there now.
void Engine::free_places() {
  std::erase_if(records_gone_, [&](int index) {
    Record& r = records_[z(index)];
    if (multibodies_ && multibodies_->stock(r)) return false;
    joint_numbers_.give(r.numbers, r.numbers_size);
    gap_numbers_.give(r.primitives, r.primitives_size);
    r.numbers_size = r.primitives_size = 0;
    free_records_.give(index);
    return true;
  });
  std::erase_if(bodies_gone_, [&](int index) {
    const BodyId id = system_.body_at(index);
    if (is_named(id)) return false;
    system_.remove(id);
    return true;
  });
}

void Engine::sync_mass(btRigidBody& body, BodyId id) {
  const BodyKind kind = system_.kind(id);
  if (kind == BodyKind::particle) {
    const double mass = 1 / double(body.getInvMass());
    if (mass == system_.mass(id)) return;
    (void)system_.try_set_mass(id, mass, Matrix3d::Zero());
    ++mass_changes_;
  } else if (kind == BodyKind::rigid) {
    const double mass = 1 / double(body.getInvMass());
    const btVector3& inv = body.getInvInertiaDiagLocal();
    const Matrix3d& I = system_.inertia(id);
    if (mass != system_.mass(id) || I(0, 0) != 1 / double(inv.x()) || I(1, 1) != 1 / double(inv.y()) ||
        I(2, 2) != 1 / double(inv.z())) {
      (void)system_.try_set_mass(id, mass, read_inertia(body));
      ++mass_changes_;
    }
  }
}

// ---- records
// ---------------------------------------------------------------------------------------------------------

std::string Engine::free_name(std::string base) const {
  std::string name = base;
  for (int i = 2; find(name) >= 0; ++i) name = base + "." + std::to_string(i);
  return name;
}

int Engine::find(std::string_view name) const {
  return names_.find(name, [this](int i) -> const std::string& { return records_[z(i)].name; });
}

void Engine::rename(int record, std::string name) {
  Record& r = records_[z(record)];
  names_.erase(record, r.name);
  r.name = std::move(name);
  names_.add(record, [this](int i) -> const std::string& { return records_[z(i)].name; });
}

int Engine::make_record(btTypedConstraint* joint, std::string name, bool named) {
  Record r;
  r.joint = joint;
  if (joint) r.type = class_of(*joint);
  r.named = named;
  r.version = ++records_made_;
  int index = free_records_.take(records_.size());
  if (index < 0) {
    index = static_cast<int>(records_.size());
    records_.push_back(std::move(r));
  } else {
    records_[z(index)] = std::move(r);
  }
  ++structure_;
  rename(index, std::move(name));
  if (joint) {
    record_of_[joint] = index;
    Record& made = records_[z(index)];
    made.kind = joint_kind(*joint);
    made.numbers_size = count_numbers(*joint, made.kind);
    made.numbers = joint_numbers_.take(made.numbers_size);
    classify_record(index);
  }
  return index;
}

void Engine::classify_record(int index) {
  Record& r = records_[z(index)];
  const BodyId a = body_id(r.joint->getRigidBodyA()), b = body_id(r.joint->getRigidBodyB());
  double* const numbers = joint_numbers_.data() + r.numbers;
  if (r.seen_to && unchanged(*r.joint, r.kind, numbers) &&
      (r.id.index < 0 || (system_.constraint(r.id).bodies()[0] == a && system_.constraint(r.id).bodies()[1] == b)))
    return;
  if (r.id.index >= 0 && r.seen_to) r.moved_step = step_;  // else a body of it has changed, not the joint
  read_numbers(*r.joint, r.kind, numbers);
  r.seen_to = true;
  ++structure_;
  report_native(r, true);  // until it is solved exactly
  const bool was_exact = r.id.index >= 0;
  if (was_exact) {
    refresh();
    system_.remove(r.id);
  }
  r.id = {};
  if (r.native_part) record_of_.erase(r.native_part.get());
  r.native_part.reset();
  r.bodies = {&r.joint->getRigidBodyA(), &r.joint->getRigidBodyB()};
  JointShape shape = classify(*r.joint);
  for (const btRigidBody* body : r.bodies)
    if (part_of(*body) == BodyPart::unsupported) {
      shape = JointShape{};
      shape.native = std::string("all (") + why_unsupported(*body) + ")";
    }
  if (r.released) {
    shape = JointShape{};
    shape.native = "all (given back)";
  }
  if (r.bodies[0] == r.bodies[1]) {
    shape = JointShape{};
    shape.native = "all (it joins a body to itself)";
  }
  const auto leave = [&](std::string why) {
    shape.native = std::move(why);
    shape.rows = {};
    shape.function.reset();
  };
  if (shape.any_exact() && (system_.dof(a) + system_.dof(b) == 0 || a == b)) leave("all (neither body can move)");
  if (shape.any_exact()) {
    std::string core_name = r.name;
    if (system_.find_constraint(core_name).index >= 0) core_name = r.name + "~" + std::to_string(index);
    std::string why;
    try {
      why =
          system_.try_add(shape.function ? Constraint(core_name, {a, b}, shape.function)
                                         : linchpin::joint(core_name, a, b, shape.rows, shape.acting_A, shape.acting_B),
                          &r.id);
    } catch (const std::exception& e) {  // frames that are no numbers: we are inside a step
      why = e.what();
    }
    if (!why.empty()) {
      leave("all (" + why + ")");
      r.id = {};
    } else {
      r.order = ++orders_given_;
    }
  }
  keep_primitives(r, shape.rows);
  note_turned_away(r, r.oriented && detail::turned_away(shape.rows.alignment, read_state(*r.bodies[0]).R(),
                                                        read_state(*r.bodies[1]).R()) > 0);
  r.row_axes.reset();
  if (!shape.row_axes_world) r.row_axes = shape.row_axes_A;
  r.shape = std::move(static_cast<JointSummary&>(shape));
  if (r.id.index < 0) {
    if (was_exact && reactions_made_ && r.reaction >= 0) silence(r);
    return;
  }
  for (const Law& law : r.laws) linchpin::add_law(system_, r.id, law);
  laws_changed_ = true;
  if (r.shape.may_emit_native) {
    r.native_part = std::make_unique<NativePart>(*r.joint, r.shape);
    record_of_[r.native_part.get()] = index;
  }
}

// A body whose factors forbid it some axes carries a record of its own, which takes part wherever the body does.
void Engine::hold_locked_axes() {
  bool changed = false;
  held_.resize(body_of_.size());
  for (std::size_t i = 1; i < body_of_.size(); ++i) {
    Held& h = held_[i];
    const unsigned locked = body_of_[i] ? locked_axes(*body_of_[i]) : 0;
    const bool there = h.record >= 0 && records_[z(h.record)].alive;
    if (locked == h.locked && there == (locked != 0)) continue;
    if (there) remove(h.record);
    h = {locked, -1, 0};
    changed = true;
    if (locked == 0) continue;
    const BodyId id = system_.body_at(static_cast<int>(i));
    ConstraintId made;
    const std::string name = free_name(system_.name(id) + " held axes");
    if (!system_.try_add(Constraint(name, {id}, hold_axes(locked)), &made).empty()) continue;
    h.record = make_record(nullptr, name, false);
    Record& r = records_[z(h.record)];
    r.id = made;
    r.order = ++orders_given_;
    r.bodies = {body_of_[i]};
    r.held = true;
  }
  if (changed) order_reactions();
}

// A joint may be deleted and another of its kind, between the same bodies, come to lie where it was. One that we know
// bears a mark that a new one lacks: its applied impulse is never +0, but −0.
bool Engine::marked(btTypedConstraint& joint) {
  const btScalar impulse = joint.internalGetAppliedImpulse();
  return impulse != 0 || std::signbit(impulse);
}
void Engine::mark(btTypedConstraint& joint) {
  if (!marked(joint)) joint.internalSetAppliedImpulse(btScalar(-0.0));
}
void Engine::mark_joints() {
  for (const Seen& here : world_order_) mark(*here.joint);
}

/// Whether its constraints are those that were there; in the same walk, whether each is as it was classified.
bool Engine::same_world() {
  const btAlignedObjectArray<btTypedConstraint*>& joints = WorldPeek::joints(*world_);
  const int n = joints.size();
  joints_edited_ = false;
  if (n != static_cast<int>(world_order_.size())) return false;
  constexpr int ahead = 6;
  for (int i = 0; i < n; ++i) {
    if (i + ahead < n) {
      const Seen& next = world_order_[z(i + ahead)];
      prefetch(next.joint, sizeof(btTypedConstraint));
      if (next.reach.size > 0) prefetch(reinterpret_cast<const char*>(next.joint) + next.reach.at, next.reach.size);
    }
    const Seen& seen = world_order_[z(i)];
    btTypedConstraint& joint = *joints[i];
    if (seen.joint != &joint || !seen.still(joint)) return false;
    if (seen.record >= 0 && !joints_edited_)
      joints_edited_ = seen.enabled != joint.isEnabled() || seen.asks != asks_for_forces(joint) ||
                       !unchanged(joint, seen.kind, joint_numbers_.data() + seen.numbers);
  }
  return true;
}

/// Whether anybody's actions but ours may change the world after a step's solve.
bool Engine::others_act() const {
  const int ours = options_.stepping == Stepping::semi_implicit || options_.mode == Mode::observe ? 1 : 2;
  return WorldPeek::actions(*world_).size() > ours;
}

void Engine::scan_world() {
  if (same_world()) return;
  const int n = world_->getNumConstraints();
  world_order_.clear();
  std::vector<std::size_t> seen(records_.size(), 0);
  // Joints not known yet and their places, which do not stay: removing a constraint takes its proxies out of the order.
  std::vector<std::pair<int, btTypedConstraint*>> fresh;
  for (int i = 0; i < n; ++i) {
    world_order_.emplace_back(world_->getConstraint(i));
    const Seen& here = world_order_.back();
    const auto known = record_of_.find(here.joint);
    if (known == record_of_.end()) {
      fresh.emplace_back(i, here.joint);
      continue;
    }
    const Record& r = records_[z(known->second)];
    if (r.joint && !(r.type == here.type && r.bodies[0] == here.a && r.bodies[1] == here.b && marked(*here.joint)))
      fresh.emplace_back(i, here.joint);
    else
      ++seen[z(known->second)];
  }
  for (std::size_t i = 0; i < seen.size(); ++i)  // removed without telling us; of the user's own, one of its proxies
    if (records_[i].alive && seen[i] < (records_[i].joint ? 1 : records_[i].proxies.size()))
      remove(static_cast<int>(i));
  if (fresh.size() > records_.size()) {  // most of the world is new to us
    const std::size_t bodies = body_of_.size() + z(world_->getNumCollisionObjects());
    system_.reserve(static_cast<int>(bodies), system_.constraint_count() + n);
    state_.bodies.reserve(bodies);
  }
  for (const auto& [i, joint] : fresh) {
    if (!record_of_.contains(joint))  // somebody added it twice
      make_record(joint, free_name(std::string(kind_of(*joint)) + "#" + std::to_string(i)), false);
  }
  mark_joints();
  order_reactions();
}

// Bodies leave the world and are deleted without a word. One that a constraint of the world names must still exist.
void Engine::drop_bodies_gone() {
  for (std::size_t i = 1; i < body_of_.size(); ++i)
    if (body_of_[i]) drop_if_gone(i);
}

bool Engine::drop_if_gone(std::size_t i) {
  const btCollisionObjectArray& all = world_->getCollisionObjectArray();
  btRigidBody* body = body_of_[i];
  const auto there = [&] {
    return place_[i] >= 0 && place_[i] < all.size() && all[place_[i]] == body && btRigidBody::upcast(all[place_[i]]);
  };
  if (there()) return false;
  place_[i] = all.findLinearSearch(body);
  if (there()) return false;
  place_[i] = -1;
  if (std::any_of(records_.begin(), records_.end(), [&](const Record& r) {
        return r.alive && !r.held && std::find(r.bodies.begin(), r.bodies.end(), body) != r.bodies.end();
      }))
    return false;
  id_of_.erase(body);
  leave_body(static_cast<int>(i));
  return true;
}

void Engine::order_reactions() {
  for (const auto& b : blocks_) flush_work(*b);
  ++structure_;
  std::vector<int> order;
  std::vector<char> taken(records_.size(), 0);
  for (const Seen& here : world_order_) {
    const auto known = record_of_.find(here.joint);
    if (known == record_of_.end() || taken[z(known->second)]) continue;
    taken[z(known->second)] = 1;
    if (records_[z(known->second)].alive && records_[z(known->second)].joint == here.joint)
      order.push_back(known->second);
  }
  const auto joints = static_cast<std::ptrdiff_t>(order.size());
  for (std::size_t i = 0; i < records_.size(); ++i) {
    if (records_[i].alive && !records_[i].joint)
      order.push_back(static_cast<int>(i));
    else if (!taken[i])
      records_[i].reaction = -1;  // no longer in the world
  }
  std::sort(order.begin() + joints, order.end(),
            [&](int a, int b) { return records_[z(a)].version < records_[z(b)].version; });
  std::vector<Reaction> fresh(reactions_made_ ? order.size() : 0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    Record& r = records_[z(order[i])];
    if (reactions_made_) {
      if (r.reaction >= 0 && z(r.reaction) < reactions_.size() && reactions_[z(r.reaction)].name == r.name)
        fresh[i] = std::move(reactions_[z(r.reaction)]);
      describe(r, fresh[i]);
    }
    r.reaction = static_cast<int>(i);
    r.reports_native = false;
  }
  reactions_ = std::move(fresh);
  reaction_count_ = static_cast<int>(order.size());
  laws_changed_ = true;
  if (!tells_native()) return;
  shadow_.resize(reactions_.size());
  for (std::size_t i = 0; i < reactions_.size(); ++i) shadow_[i].name = reactions_[i].name;
}

/// What plain steps do without: where Bullet starts from, if not from where it is, and where steps end.
void Engine::make_ends() {
  if (ends_made_) return;
  const std::lock_guard<std::mutex> lock(making_);
  if (ends_made_) return;
  for (State* s : {&base_, &end_}) s->bodies = state_.bodies;  // what no equation moves is there
  ends_made_ = true;
}

// Nearly a kilobyte each, of which most programs never see one.
void Engine::make_reactions() {
  if (reactions_made_) return;
  const std::lock_guard<std::mutex> lock(making_);
  if (reactions_made_) return;
  reactions_.resize(z(reaction_count_));
  for (Record& r : records_) {
    if (!r.alive || r.reaction < 0) continue;
    Reaction& reaction = reactions_[z(r.reaction)];
    describe(r, reaction);
    reaction.native = reaction.native || r.reports_native;
    reaction.work = r.work;
  }
  if (counts_.steps > 0)
    for (const int i : off_records_)
      if (records_[z(i)].alive && records_[z(i)].reaction >= 0) silence(records_[z(i)]);
  reactions_made_ = true;
}

void Engine::report_native(Record& r, bool native) {
  r.reports_native = native;
  if (reactions_made_ && r.reaction >= 0) reactions_[z(r.reaction)].native = native;
}

void Engine::add_work(Record& r, double work) {
  r.work += work;
  if (reactions_made_ && r.reaction >= 0) reactions_[z(r.reaction)].work = r.work;
}

/// What is switched off, broken or native from now on carries nothing that is known.
void Engine::silence(Record& r) {
  Reaction& reaction = reactions_[z(r.reaction)];
  for (Wrenches* part : {static_cast<Wrenches*>(&reaction), &reaction.ideal, &reaction.prescribed, &reaction.induced,
                         &reaction.stabilisation}) {
    for (const int k : {0, 1}) part->on(k).force = part->on(k).moment = Vector3d::Zero();
    for (Wrench& w : part->others) w.force = w.moment = Vector3d::Zero();  // none before something is told of it
  }
  std::fill(reaction.lambda.begin(), reaction.lambda.end(), 0.0);
  reaction.power = reaction.gap = reaction.gap_angle = reaction.residual = reaction.velocity_residual = 0;
  reaction.t = t_;
  reaction.determined = true;
  reaction.redundant = false;
  report_native(r, all_native(r));  // not as of the last step that it was on
}

void Engine::describe(const Record& r, Reaction& reaction) const {
  reaction.name = r.name;
  reaction.native = all_native(r);
  if (r.bodies.size() > 2) reaction.others.resize(r.bodies.size() - 2);
}

void Engine::end_links() {
  if (multibodies_) multibodies_->finish();
}

std::string Engine::add_user(Constraint constraint, std::vector<btRigidBody*> bodies, int& record) {
  if (!world_) return "linchpin: constraint '" + constraint.name() + "': " + why_no_world();
  if (find(constraint.name()) >= 0) return "linchpin: the name '" + constraint.name() + "' is in use";
  for (std::size_t k = 0; k < bodies.size(); ++k)
    if (!bodies[k] || !in_world(*bodies[k]))
      return "linchpin: constraint '" + constraint.name() + "': body " + std::to_string(k) + " is not in the world";
  for (const btRigidBody* body : bodies)
    if (part_of(*body) == BodyPart::unsupported)
      return "linchpin: constraint '" + constraint.name() + "' is on " + why_unsupported(*body) +
             ", which has no mass matrix";
  State now = state_;
  for (std::size_t k = 0; k < bodies.size(); ++k) now[constraint.bodies()[k]] = read_state(*bodies[k]);
  now.t = t_;
  if (const ConstraintCheck found = check_constraint(system_, constraint, now); !found.ok())
    return "linchpin: " + found.message;
  ConstraintId id;
  std::string name = constraint.name();
  if (std::string why = system_.try_add(std::move(constraint), &id); !why.empty()) return "linchpin: " + why;
  record = make_record(nullptr, name, true);
  Record& r = records_[z(record)];
  r.id = id;
  r.order = ++orders_given_;
  r.bodies = std::move(bodies);
  const int K = static_cast<int>(r.bodies.size());
  int first = 0;  // one that moves, for Bullet's islands do not reach across one that stands
  while (first < K - 1 && r.bodies[z(first)]->isStaticOrKinematicObject()) ++first;
  // A native solver that runs these rows sees two bodies at a time and takes the others as they stand. For bodies that
  // do stand one pair says it all; a second, with less of the row in it, would hold the first back.
  const auto stands = [&](int k) { return r.bodies[z(k)]->isStaticOrKinematicObject(); };
  int partners = 0;
  for (int k = 0; k < K; ++k) partners += k != first && !stands(k);
  for (int k = 0; k < K; ++k) {
    if (k == first && K > 1) continue;
    if (K > 1 && stands(k) && (partners > 0 || !r.proxies.empty())) continue;
    btRigidBody& second = K > 1 ? *r.bodies[z(k)] : btTypedConstraint::getFixedBody();
    r.proxies.push_back(std::make_unique<Proxy>(*this, record, *r.bodies[z(first)], second, first, K > 1 ? k : -1));
    record_of_[r.proxies.back().get()] = record;
    world_->addConstraint(r.proxies.back().get(), false);
    world_order_.emplace_back(r.proxies.back().get());
  }
  for (btRigidBody* body : r.bodies) body->activate();
  // At the end, where users' own come in the order of their records: not all are ordered again for each of thousands.
  for (const auto& b : blocks_) flush_work(*b);
  ++structure_;
  laws_changed_ = true;
  r.reaction = reaction_count_++;
  if (reactions_made_) describe(r, reactions_.emplace_back());
  if (tells_native()) shadow_.emplace_back().name = r.name;
  return {};
}

std::string Engine::name_joint(btTypedConstraint& joint, std::string name, int& record) {
  if (!world_) return "linchpin: adopt '" + name + "': " + why_no_world();
  if (name.empty()) return "linchpin: adopt: a joint needs a name";
  scan_world();
  const auto known = record_of_.find(&joint);
  if (known == record_of_.end() || !records_[z(known->second)].alive)
    return "linchpin: adopt '" + name + "': the joint is not in the world";
  if (const int other = find(name); other >= 0 && other != known->second)
    return "linchpin: the name '" + name + "' is in use";
  refresh();
  Record& r = records_[z(known->second)];
  rename(known->second, std::move(name));
  r.named = true;
  const bool back = std::exchange(r.released, false);
  r.seen_to = false;  // the core's constraint is made again under the new name
  classify_record(known->second);
  record = known->second;
  if (r.reaction < 0 || back) {
    order_reactions();
    return {};
  }
  // In its place, since a program that names ten thousand joints must not wait for as many orderings of all of them.
  for (const auto& b : blocks_) flush_work(*b);
  ++structure_;
  r.reports_native = false;
  if (reactions_made_) describe(r, reactions_[z(r.reaction)]);
  if (tells_native()) shadow_[z(r.reaction)].name = r.name;
  laws_changed_ = true;
  return {};
}

// One that the program has taken out already may name bodies that are no more.
void Engine::take_out(Proxy& p) {
  for (int i = 0; world_ && i < world_->getNumConstraints(); ++i)
    if (world_->getConstraint(i) == &p) return world_->removeConstraint(&p);
}

/// A body that is no longer in the world has most likely been deleted, as programs do before they come to the solver:
/// it is not touched. Should it live on, it still names the stand-in, which therefore stays, switched off.
void Engine::take_out_for_good(std::unique_ptr<Proxy> p) {
  const btCollisionObjectArray& all = world_->getCollisionObjectArray();
  const auto there = [&](btRigidBody& body) {
    return &body == &btTypedConstraint::getFixedBody() || all.findLinearSearch(&body) < all.size();
  };
  if (there(p->getRigidBodyA()) && there(p->getRigidBodyB())) return take_out(*p);
  WorldPeek::joints(*world_).remove(p.get());
  p->setEnabled(false);
  static std::mutex adding;
  static auto* const left_behind = new std::vector<std::unique_ptr<Proxy>>;  // to the end of the program
  const std::lock_guard<std::mutex> lock(adding);
  left_behind->push_back(std::move(p));
}

void Engine::remove(int index) {
  Record& r = records_[z(index)];
  if (!r.alive) return;
  refresh();
  for (const auto& b : blocks_) flush_work(*b);
  r.alive = false;
  records_gone_.push_back(index);
  names_.erase(index, r.name);
  if (r.held)
    for (Held& h : held_)
      if (h.record == index) h.record = -1;
  if (r.id.index >= 0) system_.remove(r.id);
  if (r.link_id.index >= 0) system_.remove(r.link_id);
  r.link_id = {};
  // Where a deleted joint lay something else may lie by now, a proxy made since the world was last looked at.
  if (const auto there = record_of_.find(r.joint); there != record_of_.end() && there->second == index)
    record_of_.erase(there);
  if (r.native_part) record_of_.erase(r.native_part.get());
  for (auto& p : r.proxies) {
    record_of_.erase(p.get());
    take_out(*p);
    std::erase_if(world_order_, [&](const Seen& here) { return here.joint == p.get(); });
    p->setEnabled(false);  // Bullet may hold it in its list for this step
    past_proxies_.push_back(std::move(p));
  }
  r.proxies.clear();
  r.native_part.reset();
  r.laws.clear();
  r.reaction = -1;
  order_reactions();
}

Record* Engine::still_there(int index) {
  Record& r = records_[z(index)];
  if (r.alive && r.joint && world_) scan_world();
  return r.alive ? &r : nullptr;
}

void Engine::remove_by_user(int index) {
  Record* const there = still_there(index);
  if (!there) return;
  Record& r = *there;
  if (!r.joint && !(r.on_links && r.proxies.empty() && multibodies_ && multibodies_->give_back(index)))
    return remove(index);
  refresh();
  if (!r.joint) return order_reactions();
  if (!world_) return;
  r.released = true;
  r.seen_to = false;
  classify_record(index);
  order_reactions();
}

void Engine::forget(btRigidBody& body) {
  refresh();
  for (std::size_t i = 0; i < records_.size(); ++i)
    if (records_[i].alive && !records_[i].joint &&
        std::find(records_[i].bodies.begin(), records_[i].bodies.end(), &body) != records_[i].bodies.end())
      remove(static_cast<int>(i));
  const auto known = id_of_.find(&body);
  if (known == id_of_.end()) return;
  leave_body(known->second);
  id_of_.erase(known);
  for (const auto& b : blocks_) flush_work(*b);
  blocks_.clear();
  block_of_set_.clear();
  last_group_.clear();
  ++structure_;
}

void Engine::reset() {
  refresh();
  counts_ = {};
  law_warnings_.clear();
  max_gap_ = max_angle_ = 0;
  teleported_ = true;
  replaced_ = false;
  dt_ = first_dt;
  past_of_driven_.clear();
  rest_poses_.clear();
  trouble_.clear();
  for (const auto& b : blocks_) {
    flush_work(*b);
    b->past.reset();
    BlockPast none;
    none.added.assign(b->added.size(), 0.0);
    none.last_step = b->last_step;
    go_back(*b, none);
  }
  for (Reaction& r : reactions_) r.work = 0;
  for (Record& r : records_) {
    r.law_count = 0, r.work = 0;  // what they did is forgotten
    r.time_dependent = r.moves_by_itself = r.unmet = false;
    r.parting = 0;
    if (r.let_go && r.one_sided.reengage) {
      r.let_go = false;
      switch_on(r, r.enabled);
    }
  }
  laws_changed_ = true;
  ++law_edits_;
  if (world_) classify_anew();
  if (multibodies_) multibodies_->reset();
}

/// Joints as they are configured now, which is where they start from; and all in the order in which they came.
void Engine::classify_anew() {
  scan_world();
  std::vector<Record*> all;
  for (std::size_t i = 0; i < records_.size(); ++i) {
    Record& r = records_[i];
    if (!r.alive) continue;
    if (r.joint) {
      // Gears mesh anew where they are.
      if (r.shape.function || !unchanged(*r.joint, r.kind, joint_numbers_.data() + r.numbers)) r.seen_to = false;
      classify_record(static_cast<int>(i));
    }
    if (r.id.index >= 0) all.push_back(&r);
  }
  std::sort(all.begin(), all.end(), [](const Record* a, const Record* b) { return a->version < b->version; });
  if (std::is_sorted(all.begin(), all.end(), [](const Record* a, const Record* b) { return a->order < b->order; }))
    return;
  for (Record* r : all) r->order = ++orders_given_;
  ++structure_;
}

std::string Engine::add_law(int index, Law law) {
  Record* const there = still_there(index);
  if (!there) return "linchpin: the constraint has been removed";
  Record& r = *there;
  if (r.id.index < 0 && !(r.on_links && r.waiting))
    return "linchpin: '" + r.name + "' takes no law: it is left to the native solver: " + r.shape.native;
  if (r.on_links)
    if (const std::string why = multibodies_->why_no_law(r); !why.empty())
      return "linchpin: '" + r.name + "' takes no law: " + why;
  try {
    refresh();
    if (!r.on_links)
      linchpin::add_law(system_, r.id, law);
    else if (std::string why = multibodies_->add_law(r, law); !why.empty())
      return why;
  } catch (const std::exception& e) {
    return e.what();
  }
  r.laws.push_back(std::move(law));
  ++structure_;
  laws_changed_ = true;
  ++law_edits_;
  wake(r);
  return {};
}

void Engine::wake(const Record& r) {
  if (!world_) return;  // they may be gone with it
  for (btRigidBody* body : r.bodies)
    if (body && !body->isStaticOrKinematicObject()) body->activate();
}

// A place for what every term of every law does; what it has done so far goes with it.
void Engine::order_laws() {
  if (!laws_changed_) return;
  laws_changed_ = false;
  std::vector<Record*> order(z(reaction_count_), nullptr);
  for (Record& r : records_) {
    if (r.alive && r.reaction >= 0 && z(r.reaction) < order.size())
      order[z(r.reaction)] = &r;
    else
      r.law_count = 0;
  }
  std::vector<LawWork> fresh;
  for (Record* r : order) {
    if (!r) continue;
    const int first = static_cast<int>(fresh.size());
    int k = 0;
    for (std::size_t l = 0; l < r->laws.size(); ++l)
      for (std::size_t t = 0; t < r->laws[l].terms().size(); ++t, ++k) {
        LawWork& to = fresh.emplace_back();
        if (k < r->law_count) to = std::move(law_works_[z(r->first_law + k)]);
        to.on = r->on_links ? r->link_id : r->id;
        to.law = static_cast<int>(l);
        to.term = static_cast<int>(t);
        to.constraint = r->name;
        to.name = r->laws[l].terms()[t].name;
      }
    r->first_law = first;
    r->law_count = k;
  }
  law_works_ = std::move(fresh);
}

// The user's own only: a joint of the world is switched by its program.
void Engine::switch_on(Record& r, bool on) {
  for (auto& p : r.proxies) p->setEnabled(on);
  ++structure_;
}

std::string Engine::set_one_sided(int index, OneSided how) {
  Record& r = records_[z(index)];
  if (!r.alive) return "linchpin: the constraint has been removed";
  if (r.joint)
    return "linchpin: '" + r.name +
           "' is a joint of the world, which holds both ways: only constraints of your own can be one-sided";
  const ConstraintFunction& function = own(r).function();
  if (function.level() != Level::position || function.rows() != 1)
    return "linchpin: constraint '" + r.name + "': only a constraint of one position row can be one-sided";
  r.one_sided = how;
  for (const ConstraintId id : {r.id, r.link_id})
    if (id.index >= 0) linchpin::set_one_sided(system_, id, how);
  if (r.let_go && !how.on) {
    r.let_go = false;
    switch_on(r, r.enabled);
  }
  wake(r);
  return {};
}

void Engine::clear_laws(int index) {
  Record* const there = still_there(index);
  if (!there) return;
  Record& r = *there;
  refresh();
  ++structure_;
  r.laws.clear();
  if (r.id.index >= 0) linchpin::clear_laws(system_, r.id);
  if (r.link_id.index >= 0) linchpin::clear_laws(system_, r.link_id);
  r.law_count = 0;
  laws_changed_ = true;
  ++law_edits_;
  wake(r);
}

void Engine::set_points(int index, std::vector<Vector3d> points) {
  Record& r = records_[z(index)];
  if (!r.alive) return;
  if (r.id.index >= 0)
    system_.constraint(r.id).acting_at(std::move(points));
  else if (r.on_links && r.waiting) {
    if (r.link_id.index >= 0) system_.constraint(r.link_id).acting_at(points);
    r.waiting->acting_at(std::move(points));
  }
}

void Engine::enable(int index, bool on) {
  Record* const there = still_there(index);
  if (!there) return;
  Record& r = *there;
  r.enabled = on;
  r.let_go = false;
  ++structure_;
  if (r.joint && world_) r.joint->setEnabled(on);
  for (auto& p : r.proxies) p->setEnabled(on);
  wake(r);
}

void Engine::link_collisions(int index, bool on) {
  Record& r = records_[z(index)];
  if (!r.alive || r.joint || r.linked_collide == on || !world_) return;
  r.linked_collide = on;
  for (auto& p : r.proxies) {
    world_->removeConstraint(p.get());
    world_->addConstraint(p.get(), !on);
  }
}

const Constraint& Engine::own(const Record& r) const { return r.waiting ? *r.waiting : system_.constraint(r.id); }

void Engine::linearize(const Record& r, std::vector<double>& A, std::vector<double>& b, std::vector<double>& position,
                       std::vector<double>& velocity) {
  const Constraint& c = own(r);
  const std::size_t m = z(c.function().rows()), K = c.bodies().size();
  A.assign(m * 6 * K, 0);
  b.assign(m, 0);
  position.assign(m, 0);
  velocity.assign(m, 0);
  std::vector<BodyState> X;
  for (btRigidBody* body : r.bodies) X.push_back(read_state(*body));
  try {
    c.function().linearize(X, t_, {A, b, position, velocity});
  } catch (...) {  // a user's residual: nothing throws out of a step
    std::fill(A.begin(), A.end(), std::numeric_limits<double>::quiet_NaN());
  }
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
