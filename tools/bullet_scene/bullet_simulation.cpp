#include "built.h"
#include "refused.h"
#include "solver_options.h"

#include <linchpin/bullet_simulation.h>
#include <linchpin/scene/names.h>

#include <BulletDynamics/Featherstone/btMultiBodyConstraintSolver.h>
#include <BulletDynamics/Featherstone/btMultiBodyDynamicsWorld.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace linchpin::bullet_scene {

namespace {

std::string seconds(double t) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g s", t);
  return text;
}

void refuse_what_bullet_lacks(const scene::Model& model) {
  for (const scene::SceneBody& body : model.bodies)
    if (body.kind == BodyKind::coordinate)
      throw std::invalid_argument("\"" + body.name +
                                  "\" is a coordinate of its own kinetic energy. Bullet has bodies only. Use "
                                  "scene::Simulation, which needs no engine");
}

}  // namespace

/// A world of Bullet with one scene in it.
class SceneInWorld final : public scene::SimulationHost {
 public:
  explicit SceneInWorld(const scene::Model& model);

  const System& system() const override { return built_->mirror(); }
  const State& state() const override { return now_; }
  void set_state(const State& state) override;
  void step(double dt) override;
  scene::ForceInstant force_instant() const override { return scene::ForceInstant::start_of_last_step; }
  scene::Observation forces() override;

  btDiscreteDynamicsWorld& world() { return *world_; }
  bullet::Solver& solver() { return *solver_; }
  const Built& built() const { return *built_; }

 private:
  void make_world(bool multibodies);
  void require_finite() const;

  btDefaultCollisionConfiguration configuration_;
  btCollisionDispatcher dispatcher_{&configuration_};
  btDbvtBroadphase broadphase_;
  std::unique_ptr<btConstraintSolver> native_;
  std::unique_ptr<btDiscreteDynamicsWorld> world_;
  std::unique_ptr<Built> built_;
  std::unique_ptr<bullet::Solver> solver_;
  State start_, now_;  // of the last step
  bool has_stepped_ = false;
  bool has_laws_ = false;
  long failed_forces_ = 0, failed_laws_ = 0;  // steps with such failures, until now
};

SceneInWorld::SceneInWorld(const scene::Model& model) {
  refuse_what_bullet_lacks(model);
  make_world(model.multibodies > 0);
  try {
    built_ = std::make_unique<Built>(model, *world_, std::vector<btRigidBody*>());
    solver_ = std::make_unique<bullet::Solver>(*world_, solver_options(model));
    built_->name_joints(*solver_);
    built_->constrain(*solver_, true);
  } catch (const Refused& e) {
    throw std::invalid_argument(e.what());
  }
  for (const scene::SceneConstraint& c : model.constraints) has_laws_ = has_laws_ || !c.laws.empty();
  now_ = built_->state(0);
}

void SceneInWorld::make_world(bool multibodies) {
  if (multibodies) {
    auto native = std::make_unique<btMultiBodyConstraintSolver>();
    world_ = std::make_unique<btMultiBodyDynamicsWorld>(&dispatcher_, &broadphase_, native.get(), &configuration_);
    native_ = std::move(native);
  } else {
    native_ = std::make_unique<btSequentialImpulseConstraintSolver>();
    world_ = std::make_unique<btDiscreteDynamicsWorld>(&dispatcher_, &broadphase_, native_.get(), &configuration_);
  }
}

void SceneInWorld::set_state(const State& state) {
  built_->place(state);
  solver_->reset();
  solver_->set_t(state.t);
  now_ = built_->state(state.t);
}

void SceneInWorld::step(double dt) {
  built_->before_step(now_.t, dt);
  if (const Built::ForceFailure& failure = built_->force_failure(); failure.steps > failed_forces_) {
    failed_forces_ = failure.steps;
    world_->clearForces();
    throw std::runtime_error("the force \"" + failure.last + "\" is not finite at t = " + seconds(now_.t) +
                             ". Correct its expression or its command");
  }
  start_ = now_;
  world_->stepSimulation(btScalar(dt), 0);
  built_->after_step(start_.t + dt);
  now_ = built_->state(start_.t + dt);
  has_stepped_ = true;
  if (has_laws_ && solver_->counts().law_failures > failed_laws_) {
    failed_laws_ = solver_->counts().law_failures;
    throw std::runtime_error("the step from t = " + seconds(start_.t) +
                             " has no result: " + bullet::law_failure_text(solver_->law_failures(), failed_laws_));
  }
  require_finite();
}

void SceneInWorld::require_finite() const {
  for (std::size_t i = 1; i < now_.bodies.size(); ++i) {
    const BodyState& body = now_.bodies[i];
    if (body.p.allFinite() && body.q.coeffs().allFinite() && body.v.allFinite() && body.w.allFinite()) continue;
    throw std::runtime_error("the step from t = " + seconds(start_.t) + " has no result: \"" +
                             built_->model().bodies[i - 1].name +
                             "\" is at a place that is not a number. Take shorter steps or smaller gains");
  }
}

scene::Observation SceneInWorld::forces() {
  if (!has_stepped_) throw OrderError("forces are those of the last step, and there has been none. Call step() first");
  return {built_->mirror(), start_, solver_->reactions()};
}

}  // namespace linchpin::bullet_scene

namespace LINCHPIN_BULLET_NAMESPACE {

namespace {

bullet_scene::SceneInWorld& in_world(scene::SimulationHost& host) {
  return static_cast<bullet_scene::SceneInWorld&>(host);
}

}  // namespace

Simulation::Simulation(scene::Model model)
    : scene::Simulation(std::move(model), [](const scene::Model& with_motors) {
        return std::make_unique<bullet_scene::SceneInWorld>(with_motors);
      }) {}

btDiscreteDynamicsWorld& Simulation::world() { return in_world(host()).world(); }
Solver& Simulation::solver() { return in_world(host()).solver(); }

btRigidBody& Simulation::body(std::string_view name) {
  const bullet_scene::Built& built = in_world(host()).built();
  std::vector<std::string> known;
  for (std::size_t i = 0; i < built.bodies().size(); ++i) {
    known.push_back(built.model().bodies[i].name);
    if (known.back() == name) return *built.bodies()[i];
  }
  for (const scene::SceneFrame& frame : built.model().frames)
    if (frame.name == name)
      throw std::invalid_argument("there is no body \"" + std::string(name) + "\". It is a frame of " +
                                  (frame.body == ground
                                       ? std::string("the world, which is no btRigidBody")
                                       : "the body \"" + known[static_cast<std::size_t>(frame.body.index) - 1] + "\""));
  const std::string near = scene::nearest(name, known);
  throw std::invalid_argument("there is no body \"" + std::string(name) + "\"" +
                              (near.empty() ? std::string() : "; did you mean \"" + near + "\"?"));
}

}  // namespace LINCHPIN_BULLET_NAMESPACE
