#include "scene.h"

#include "bullet_scene/principal_axes.h"
#include "import.h"
#include "prescribing.h"

#include <linchpin/constraint.h>
#include <linchpin/forces.h>
#include <linchpin/report.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <utility>

namespace linchpin::mujoco_worker {

namespace {

constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

[[noreturn]] void refuse(const std::string& what) { throw Refused("solver", what); }

// The axes of a body of the solver in those of the scene's body, and where its centre is in the body of the solver.
struct BodyInSolver {
  Quaterniond turn = Quaterniond::Identity();
  Vector3d origin = Vector3d::Zero();
};
BodyInSolver place_in(const mujoco::Solver& solver, const mjModel& m, BodyId id) {
  if (id == ground) return {};
  Matrix3d back;
  for (int c = 0; c < 3; ++c) back.col(c) = solver.axis(id.index, Vector3d::Unit(c));
  return {Quaterniond(Eigen::Quaterniond(Matrix3d(back.transpose()))).normalized(),
          solver.point(id.index, vector3(m.body_ipos + 3 * id.index))};
}

}  // namespace

Scene::Scene(const std::string& path) {
  if (!path.ends_with(".toml") && !path.ends_with(".TOML")) {
    model_ = std::make_unique<Model>(path);
    return;
  }
  load(path);
}

void Scene::load(const std::string& path) {
  scene::Overrides overrides;
  overrides.mjcf = [&](const std::string& file) {
    try {
      model_ = std::make_unique<Model>(file);
    } catch (const Refused& e) {  // the place in the file goes behind its name
      throw std::runtime_error(std::string(": ") + e.what());
    }
    return imported_of(*model_);
  };
  scene_ = scene::load(path, {}, overrides);
  if (!model_) throw Refused("scene", "has no MJCF file in [model]");
  const auto other = std::find_if(scene_->bodies.begin(), scene_->bodies.end(),
                                  [](const scene::SceneBody& body) { return !body.imported; });
  if (other != scene_->bodies.end())
    throw Refused("scene", "'" + other->name + "' is a body or a coordinate of the scene, and MuJoCo has those of " +
                               scene_->mjcf_file + " only. Add it to that file");
  mirror_ = scene_->system();
  find_own();
}

void Scene::restart() {
  model_->restart();
  if (scene_) mirror_ = scene_->system();
}

void Scene::find_own() {
  for (std::size_t i = 0; i < scene_->constraints.size(); ++i) {
    const scene::SceneConstraint& c = scene_->constraints[i];
    if (c.tree || c.imported) continue;
    const ConstraintFunction& f = mirror_.constraint(mirror_.find_constraint(c.name)).function();
    Link link;
    link.name = c.name;
    link.kind = Link::Kind::own;
    link.index = static_cast<int>(own_.size());
    link.unit = f.level() == Level::position ? f.unit(0) : RowUnit::custom;
    link.bodies.clear();
    for (const BodyId id : c.bodies) link.bodies.push_back(id.index);
    for (const Link& known : model_->links())
      if (known.name == c.name)
        throw Refused("scene",
                      "the constraint '" + c.name + "' has the name of a joint or an equality of " + scene_->mjcf_file);
    own_.push_back(i);
    has_own_on_velocities_ = has_own_on_velocities_ || f.level() == Level::velocity;
    own_gaps_.emplace_back();
    model_->add_link(std::move(link), own_gaps_);
  }
}

Constraint Scene::in_axes_of_solver(const scene::SceneConstraint& c, mujoco::Solver& solver) const {
  std::vector<BodyId> ids;
  std::vector<Quaterniond> turns;
  std::vector<Vector3d> origins;
  for (const BodyId id : c.bodies) {
    ids.push_back(id == ground ? ground : solver.id(id.index));
    const BodyInSolver of = place_in(solver, model_->model(), id);
    turns.push_back(of.turn);
    origins.push_back(of.origin);
  }
  return bullet_scene::with_axes_of_scene(c.make(std::move(ids)), turns, origins);
}

void Scene::constrain(mujoco::Solver& solver) {
  if (!scene_) return;
  try {
    for (const std::size_t i : own_) {
      const scene::SceneConstraint& c = scene_->constraints[i];
      mujoco::Handle handle = solver.add(in_axes_of_solver(c, solver));
      if (c.unilateral) handle.unilateral(*c.unilateral);
      if (c.compliance) handle.compliance(*c.compliance);
      if (c.dry_friction) handle.motor({0, *c.dry_friction});
    }
    const bool reads_forces =
        std::any_of(scene_->logs.begin(), scene_->logs.end(), [](const auto& log) { return log.reads_forces(); }) ||
        std::any_of(scene_->expectations.begin(), scene_->expectations.end(),
                    [](const auto& e) { return e.value.reads_forces(); });
    for (const scene::SceneConstraint& c : scene_->constraints) {
      if (c.tree && reads_forces) (void)solver.joint(c.name);
      for (const Law& law : c.laws) {
        const BodyId second = c.bodies.size() > 1 ? c.bodies[1] : ground;
        const Quaterniond a = place_in(solver, model_->model(), c.bodies[0]).turn,
                          b = place_in(solver, model_->model(), second).turn;
        (c.tree ? solver.joint(c.name) : solver.find(c.name)).law(bullet_scene::with_axes_of_scene(law, a, b));
      }
    }
  } catch (const std::invalid_argument& e) {
    refuse(e.what());
  }
}

void Scene::demand_mujoco_alone() const {
  if (!scene_) return;
  if (!own_.empty())
    refuse("MuJoCo cannot hold the constraint '" + scene_->constraints[own_.front()].name +
           "' of the scene. Use the solver exact");
  for (const scene::SceneConstraint& c : scene_->constraints)
    if (!c.laws.empty()) refuse("MuJoCo cannot apply the force law of '" + c.name + "'. Use the solver exact");
}

bool Scene::has_constraints_or_laws() const {
  return !own_.empty() || (scene_ && std::any_of(scene_->constraints.begin(), scene_->constraints.end(),
                                                 [](const auto& c) { return !c.laws.empty(); }));
}

const char* Scene::why_not_conserved() const {
  if (!scene_) return nullptr;
  if (!scene_->forces.empty()) return "forces of the scene";
  for (const scene::SceneConstraint& c : scene_->constraints) {
    if (!c.laws.empty() || c.yields()) return "force laws";
    if (c.unilateral) return "a unilateral constraint, whose impacts are plastic";
  }
  const std::vector<char> prescribes = cli::prescribes_motion(*scene_, mirror_);
  return std::count(prescribes.begin(), prescribes.end(), 1) > 0 ? "constraints that prescribe motion" : nullptr;
}

void Scene::before_step() {
  if (!scene_ || mirror_.forces().empty()) return;
  mjData& d = model_->data();
  std::fill_n(d.xfrc_applied, 6 * model_->model().nbody, mjtNum{0});
  const State now = state();
  bool failed = false;
  for (const Force& force : mirror_.forces()) {
    std::vector<BodyState> X;
    for (const BodyId id : force.bodies()) X.push_back(now[id]);
    std::vector<Vector6> wrenches(X.size(), Vector6::Zero());
    ForceFrame frame(now.t, X, wrenches);
    force.act(frame);
    if (!std::all_of(wrenches.begin(), wrenches.end(), [](const Vector6& w) { return w.allFinite(); })) {
      if (failed_steps_ == 0) failed_force_ = force.name(), failed_at_ = now.t;
      failed = true;
      continue;
    }
    for (std::size_t k = 0; k < X.size(); ++k)
      for (int c = 0; c < 6; ++c) d.xfrc_applied[6 * force.bodies()[k].index + c] += wrenches[k][c];
  }
  failed_steps_ += failed;
}

void Scene::after_step() {
  if (own_.empty()) return;
  const State now = state();
  std::vector<BodyState> X;
  for (const std::size_t i : own_) {
    Constraint& c = mirror_.constraint(mirror_.find_constraint(scene_->constraints[i].name));
    X.clear();
    for (const BodyId id : c.bodies()) X.push_back(now[id]);
    c.function().accept(X, now.t);
  }
}

void Scene::look(double dt) {
  State middle;
  if (has_own_on_velocities_) {
    model_->look(0.5 * dt);
    middle = state();
  }
  model_->look();
  if (own_.empty()) return;
  const State end = state();
  std::vector<BodyState> X;
  for (std::size_t i = 0; i < own_.size(); ++i) {
    const Constraint& c = mirror_.constraint(mirror_.find_constraint(scene_->constraints[own_[i]].name));
    const ConstraintFunction& f = c.function();
    Gap& gap = own_gaps_[i];
    gap = {};
    // Conditions on velocities are met in the middle of a step. Those on accelerations leave no residual.
    const State& at = f.level() == Level::position ? end : middle;
    if (f.level() == Level::acceleration || scene_->constraints[own_[i]].yields()) {
      gap = {no_number, no_number, no_number};
      continue;
    }
    X.clear();
    for (const BodyId id : c.bodies()) X.push_back(at[id]);
    std::vector<double> residual(static_cast<std::size_t>(f.rows()));
    f.residual(X, at.t, residual);
    for (int row = 0; row < f.rows(); ++row) {
      const RowUnit unit = f.level() == Level::position ? f.unit(row) : RowUnit::custom;
      double& largest = unit == RowUnit::metre ? gap.metres : unit == RowUnit::radian ? gap.radians : gap.custom;
      largest = std::max(largest, std::abs(residual[static_cast<std::size_t>(row)]));
    }
  }
}

State Scene::state() const {
  State out = mirror_.initial_state();
  out.t = model_->seen().time;
  for (int i = 1; i < model_->model().nbody; ++i) {
    const BodyState now = model_->state(i);
    BodyState& to = out.bodies[static_cast<std::size_t>(i)];
    to.p = now.p, to.q = now.q;
    if (model_->kind(i) == BodyKind::rigid) to.v = now.v, to.w = now.w;
  }
  return out;
}

std::string Scene::force_failure() const {
  if (failed_steps_ == 0) return {};
  char text[160];
  std::snprintf(text, sizeof text,
                "\" was not finite in %ld %s, first at t = %.6g s, and did not act then. Correct its expression",
                failed_steps_, failed_steps_ == 1 ? "step" : "steps", failed_at_);
  return "force \"" + failed_force_ + text;
}

}  // namespace linchpin::mujoco_worker
