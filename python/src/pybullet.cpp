// linchpin in the world of a PyBullet client. linchpin/pybullet.py is its interface.
#include "arrays.h"
#include "callables.h"
#include "program_constraints.h"
#include "pybullet_plugin.h"
#include "pybullet_world.h"
#include "reaction_arrays.h"

#include <linchpin/bullet.h>

#include <BulletDynamics/Featherstone/btMultiBodyConstraintSolver.h>
#include <BulletDynamics/Featherstone/btMultiBodyDynamicsWorld.h>
#include <BulletSoftBody/btSoftMultiBodyDynamicsWorld.h>

#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace linchpin::python {

namespace {

/// A link of a body of PyBullet: unique id of the body, and index of the link; -1 is the base.
using PyBulletLink = std::pair<int, int>;
using bullet::BodyRef;
using bullet::Link;

/// Locks a mutex whose owner may need the interpreter. It does not wait for the mutex while it holds the interpreter.
std::unique_lock<std::recursive_mutex> locked(std::recursive_mutex& mutex) {
  std::unique_lock<std::recursive_mutex> lock(mutex, std::defer_lock);
  if (!PyGILState_Check()) {
    lock.lock();
    return lock;
  }
  while (!lock.try_lock()) {
    const nb::gil_scoped_release release;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return lock;
}

/// linchpin in the world of one client. PyBullet steps in the thread that calls stepSimulation(), or with a window in
/// a thread of its own.
class Attachment {
 public:
  Attachment() : calls_{this, &on_attach, &on_before_step, &on_after_step, &on_close} {}
  ~Attachment() { detach(); }
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

  /// The address that the plugin gets, as a hexadecimal number.
  std::string address() {
    std::ostringstream text;
    text << std::hex << reinterpret_cast<std::uintptr_t>(&calls_);
    return text.str();
  }
  /// Throws what a call of the plugin could not throw. @throws std::runtime_error
  void check() {
    if (!error_.empty()) throw std::runtime_error(error_);
    if (closed_) throw OrderError("this PyBullet client is no longer attached: it was disconnected or detached");
    if (!finder_) throw OrderError("this object has no PyBullet client. Use linchpin.pybullet.attach()");
    require_between_steps();
  }
  /// @throws OrderError in a step, which is where the function of a law is called
  void require_between_steps() const {
    if (in_step_)
      throw OrderError(
          "a law or a callback cannot use the attachment, because a step is running. Use it between two steps");
  }
  /// The solver of the present world. @throws as check()
  bullet::Solver& solver() {
    check();
    follow_world();
    check();
    return *solver_;
  }
  btMultiBodyDynamicsWorld& world() { return *world_; }
  void set_enabled(bool on) { enabled_ = on; }
  bool enabled() const { return enabled_; }
  bool closed() const { return closed_; }
  std::recursive_mutex& mutex() { return mutex_; }

  void detach() {
    solver_.reset();
    world_ = nullptr;
    closed_ = true;
  }

  /// A link of a multibody, or a rigid body, by PyBullet's ids. @throws std::invalid_argument with both
  BodyRef body(const PyBulletLink& at) {
    if (btMultiBody* const found = multibody(at.first)) {
      demand_link(at, -1, found->getNumLinks(), "link", "links");
      return Link{found, at.second};
    }
    demand_link(at, -1, 0, "link", "links");
    return &rigid_body(at.first);
  }
  /// The child link of a joint of a multibody. @throws std::invalid_argument with both ids
  Link joint(const PyBulletLink& at) {
    btMultiBody* const found = multibody(at.first);
    if (!found) throw std::invalid_argument("this client has no multibody " + std::to_string(at.first));
    demand_link(at, 0, found->getNumLinks(), "joint", "joints");
    return {found, at.second};
  }
  /// The pose of the centre of mass of a body, with the axes of its inertia. The ids are those of a body().
  btTransform pose(const PyBulletLink& at) {
    const btMultiBody* const found = multibody(at.first);
    if (!found) return rigid_body(at.first).getWorldTransform();
    return at.second < 0 ? found->getBaseWorldTransform() : found->getLink(at.second).m_cachedWorldTransform;
  }

 private:
  /// The multibody with an id of PyBullet, or null.
  btMultiBody* multibody(int body) const {
    for (int i = 0; i < world_->getNumMultibodies(); ++i)
      if (world_->getMultiBody(i)->getUserIndex2() == body) return world_->getMultiBody(i);
    return nullptr;
  }
  btRigidBody& rigid_body(int body) const {
    for (int i = 0; i < world_->getNumCollisionObjects(); ++i)
      if (btRigidBody* const found = btRigidBody::upcast(world_->getCollisionObjectArray()[i]);
          found && found->getUserIndex2() == body)
        return *found;
    throw std::invalid_argument("this client has no body " + std::to_string(body));
  }
  static void demand_link(const PyBulletLink& at, int first, int count, const char* one, const std::string& several) {
    if (at.second >= first && at.second < count) return;
    throw std::invalid_argument("body " + std::to_string(at.first) + " has no " + one + " " +
                                std::to_string(at.second) + "; its " + several + " are " +
                                (first < 0 ? "-1 (the base)" : "0") + " to " + std::to_string(count - 1));
  }

  /// Runs a part of a step. An error ends the attachment's work, and the next call from Python throws it.
  template <class Work>
  void guarded(Work work) noexcept {
    try {
      work();
    } catch (const std::exception& e) {
      fail(e.what());
    }
  }
  void fail(const std::string& why) noexcept {
    if (error_.empty())
      std::fprintf(stderr, "linchpin: %s\nPyBullet solves all constraints from here on.\n", why.c_str());
    error_ = why;
    solver_.reset();
    world_ = nullptr;
  }

  /// Installs the solver in the present world, if this is another one than before.
  void follow_world() {
    if (closed_ || !error_.empty()) return;
    btDiscreteDynamicsWorld& present = finder_->world();
    // A new world may have the address of the old one.
    if (world_ == &present && solver_ && solver_->has_world()) return;
    solver_.reset();  // Its world is gone, which it knows.
    guarded([&] {
      auto* const links = dynamic_cast<btMultiBodyDynamicsWorld*>(&present);
      if (!links) throw std::runtime_error("the world of this client is not a btMultiBodyDynamicsWorld");
      native_ = present.getConstraintSolver();
      law_failures_ = 0;
      solver_ = std::make_unique<bullet::Solver>(present);
      world_ = links;
      hand_back();
    });
  }

  // Between steps the world has its own solver, because setPhysicsEngineParameter() deletes the solver of the world.
  void take_over() { world_->setMultiBodyConstraintSolver(static_cast<btMultiBodyConstraintSolver*>(hooks_)); }
  void hand_back() {
    hooks_ = world_->getConstraintSolver();
    world_->setMultiBodyConstraintSolver(static_cast<btMultiBodyConstraintSolver*>(native_));
  }

  void before_step() {
    follow_world();
    if (!solver_ || !enabled_) return;
    if (world_->getConstraintSolver() != native_)
      return fail(
          "the constraint solver of the world was replaced (constraintSolverType of setPhysicsEngineParameter). "
          "linchpin supports PyBullet's default solver only. Set it before attach()");
    if (world_->getWorldType() == BT_SOFT_MULTIBODY_DYNAMICS_WORLD &&
        static_cast<btSoftMultiBodyDynamicsWorld*>(world_)->getSoftBodyArray().size() > 0)
      return fail("the world has soft bodies, which linchpin does not support");
    take_over();
    in_step_ = true;
  }
  void after_step() {
    if (!std::exchange(in_step_, false) || !solver_) return;
    hand_back();
    if (solver_->counts().law_failures > law_failures_) {
      law_failures_ = solver_->counts().law_failures;
      fail(bullet::law_failure_text(solver_->law_failures(), law_failures_));
    }
  }

  static Attachment& self(void* attachment) { return *static_cast<Attachment*>(attachment); }
  static void on_attach(void* attachment, void* processor) {
    Attachment& a = self(attachment);
    const auto lock = locked(a.mutex_);
    try {
      a.finder_.emplace(processor);
    } catch (const std::exception& e) {
      a.error_ = e.what();
      return;
    }
    a.follow_world();
  }
  // A step with a window is in a thread of its own. The lock is held from its beginning to its end.
  static void on_before_step(void* attachment) {
    locked(self(attachment).mutex_).release();
    self(attachment).guarded([&] { self(attachment).before_step(); });
  }
  static void on_after_step(void* attachment) {
    self(attachment).guarded([&] { self(attachment).after_step(); });
    self(attachment).mutex_.unlock();
  }
  static void on_close(void* attachment) {
    const auto lock = locked(self(attachment).mutex_);
    self(attachment).detach();
  }

  PluginCalls calls_;
  std::optional<PyBulletWorld> finder_;
  btMultiBodyDynamicsWorld* world_ = nullptr;
  btConstraintSolver *native_ = nullptr, *hooks_ = nullptr;
  std::unique_ptr<bullet::Solver> solver_;
  std::string error_;
  long law_failures_ = 0;  // until now, in this world
  bool enabled_ = true, closed_ = false, in_step_ = false;
  std::recursive_mutex mutex_;
};

/// Runs a function with the solver, locked.
template <class Function>
auto with(Attachment& a, Function function) {
  const auto lock = locked(a.mutex());
  return function(a.solver());
}

void add_equation(Attachment& a, const std::string& name, const std::string& key, const std::string& equation,
                  const std::vector<std::pair<std::string, PyBulletLink>>& bodies,
                  const std::map<std::string, double>& params,
                  const std::vector<std::pair<std::string, nb::object>>& points) {
  with(a, [&](bullet::Solver& solver) {
    Equation e{.name = name, .key = key, .text = equation, .bodies = {}, .frames = {}, .params = params};
    for (const auto& [body_name, link] : bodies) {
      (void)solver.id(a.body(link));
      const btTransform x = a.pose(link);
      const btVector3& p = x.getOrigin();
      const btQuaternion q = x.getRotation();
      e.bodies.push_back({body_name, {p.x(), p.y(), p.z()}, {q.w(), q.x(), q.y(), q.z()}});
    }
    for (const auto& [body_name, point] : points)
      e.points.emplace_back(body_name, vector3_argument("application_points[\"" + body_name + "\"]", point));
    solver.add(constraint_of(e, [&](std::size_t i) { return solver.id(a.body(bodies[i].second)); }));
  });
}

void add_joint(Attachment& at, const std::string& name, const std::string& kind, const PyBulletLink& a,
               const nb::object& at_a, const nb::object& axis_a, const PyBulletLink& b, const nb::object& at_b,
               const nb::object& axis_b, double length) {
  with(at, [&](bullet::Solver& solver) {
    solver.add(joint_of(name, kind, solver.id(at.body(a)), vector3_argument("at_a", at_a),
                        vector3_argument("axis_a", axis_a), solver.id(at.body(b)), vector3_argument("at_b", at_b),
                        vector3_argument("axis_b", axis_b), length));
  });
}

bullet::Handle found(bullet::Solver& solver, const std::string& name) {
  bullet::Handle handle = solver.find(name);
  (void)handle.reaction();  // throws with the nearest name
  return handle;
}

}  // namespace

}  // namespace linchpin::python

NB_MODULE(_pybullet, m) {
  using namespace linchpin::python;
  namespace bullet = linchpin::bullet;
  m.doc() = "linchpin in the world of a PyBullet client. Use linchpin.pybullet.";
  nb::module_::import_("linchpin._core");  // knows the types
  nb::class_<Attachment>(m, "Attachment")
      .def(nb::init<>())
      .def_prop_ro("address", &Attachment::address)
      .def("check", [](Attachment& a) { with(a, [](bullet::Solver&) {}); })
      .def("detach",
           [](Attachment& a) {
             const auto lock = locked(a.mutex());
             a.require_between_steps();
             a.detach();
           })
      .def("require_between_steps",
           [](Attachment& a) {
             const auto lock = locked(a.mutex());
             a.require_between_steps();
           })
      .def_prop_rw(
          "t", [](Attachment& a) { return with(a, [](bullet::Solver& solver) { return solver.t(); }); },
          [](Attachment& a, double t) { with(a, [t](bullet::Solver& solver) { solver.set_t(t); }); })
      .def_prop_ro("closed", &Attachment::closed)
      .def_prop_rw("enabled", &Attachment::enabled, &Attachment::set_enabled)
      .def("bodies",
           [](Attachment& a) {
             return with(a, [&](bullet::Solver&) {
               std::vector<std::pair<int, double>> out;
               for (int i = 0; i < a.world().getNumMultibodies(); ++i)
                 out.emplace_back(a.world().getMultiBody(i)->getUserIndex2(), a.world().getMultiBody(i)->getBaseMass());
               return out;
             });
           })
      .def("gravity",
           [](Attachment& a) {
             return with(a, [&](bullet::Solver&) {
               const btVector3 g = a.world().getGravity();
               return new_array(g.m_floats, {3});
             });
           })
      .def("add_equation", &add_equation, nb::arg("name"), nb::arg("key"), nb::arg("equation"), nb::arg("bodies"),
           nb::arg("params"), nb::arg("points"))
      .def("add_joint", &add_joint, nb::arg("name"), nb::arg("kind"), nb::arg("a"), nb::arg("at_a"), nb::arg("axis_a"),
           nb::arg("b"), nb::arg("at_b"), nb::arg("axis_b"), nb::arg("length"))
      .def("add_law_on_joint",
           [](Attachment& a, const PyBulletLink& joint, const nb::object& law) {
             with(a, [&](bullet::Solver& solver) {
               bullet::Handle handle = solver.handle(a.joint(joint));
               handle.law(law_of(law, std::string(handle.name())));
             });
           })
      .def("add_law",
           [](Attachment& a, const std::string& name, const nb::object& law) {
             with(a, [&](bullet::Solver& solver) { found(solver, name).law(law_of(law, name)); });
           })
      .def("remove",
           [](Attachment& a, const std::string& name) {
             with(a, [&](bullet::Solver& solver) { found(solver, name).remove(); });
           })
      .def("joint_wrench",
           [](Attachment& a, const PyBulletLink& joint) {
             return with(a, [&](bullet::Solver& solver) { return tuple_of(solver.joint_wrench(a.joint(joint))); });
           })
      .def("joint_forces",
           [](Attachment& a, const PyBulletLink& joint) {
             return with(a, [&](bullet::Solver& solver) { return dict_of(solver.joint_forces(a.joint(joint))); });
           })
      .def("reactions",
           [](Attachment& a) { return with(a, [](bullet::Solver& solver) { return arrays_of(solver.reactions()); }); })
      .def("summary", [](Attachment& a) { return with(a, [](bullet::Solver& solver) { return solver.summary(); }); })
      .def("energy", [](Attachment& a) { return with(a, [](bullet::Solver& solver) { return solver.energy(); }); })
      .def("reset", [](Attachment& a) { with(a, [](bullet::Solver& solver) { solver.reset(); }); });
}
