#include "scene.h"

#include "divergence.h"

#include <BulletDynamics/ConstraintSolver/btNNCGConstraintSolver.h>
#include <BulletDynamics/Featherstone/btMultiBodyConstraintSolver.h>
#include <BulletDynamics/Featherstone/btMultiBodyDynamicsWorld.h>
#include <BulletDynamics/Featherstone/btMultiBodyMLCPConstraintSolver.h>
#include <BulletDynamics/MLCPSolvers/btDantzigSolver.h>
#include <BulletDynamics/MLCPSolvers/btLemkeSolver.h>
#include <BulletDynamics/MLCPSolvers/btMLCPSolver.h>
#include <BulletWorldImporter/btBulletWorldImporter.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <set>

namespace linchpin::worker {

namespace {

// What a solver of linear complementarity problems solves them by; null for the others.
std::unique_ptr<btMLCPSolverInterface> direct_solver(const Job& job) {
  if (job.kind == "mlcp") return std::make_unique<btDantzigSolver>();
  if (job.kind == "lemke") return std::make_unique<btLemkeSolver>();
  return nullptr;
}

std::unique_ptr<btConstraintSolver> native_solver(const Job& job, btMLCPSolverInterface* mlcp) {
  if (job.kind == "nncg") return std::make_unique<btNNCGConstraintSolver>();
  if (mlcp) return std::make_unique<btMLCPSolver>(mlcp);
  if (job.kind == "si" || job.kind == "exact") return std::make_unique<btSequentialImpulseConstraintSolver>();
  throw Refused("solver", "no solver of kind '" + job.kind + "'");
}

std::unique_ptr<btMultiBodyConstraintSolver> multibody_solver(const Job& job, btMLCPSolverInterface* mlcp) {
  if (mlcp) return std::make_unique<btMultiBodyMLCPConstraintSolver>(mlcp);
  if (job.kind == "si" || job.kind == "exact") return std::make_unique<btMultiBodyConstraintSolver>();
  throw Refused("solver", "Bullet has no solver of kind '" + job.kind + "' for multibodies");
}

bool is_finite(const btVector3& v) { return std::isfinite(v.x()) && std::isfinite(v.y()) && std::isfinite(v.z()); }
bool is_finite(const btRigidBody& body) {
  const btTransform& x = body.getWorldTransform();
  for (int i = 0; i < 3; ++i)
    if (!is_finite(x.getBasis()[i])) return false;
  return is_finite(x.getOrigin()) && is_finite(body.getLinearVelocity()) && is_finite(body.getAngularVelocity());
}

// The first free one of name, name#2, name#3, …: files may repeat names, columns and reports may not.
std::string distinct(std::string name, std::set<std::string>& taken) {
  std::string free = name;
  for (int i = 2; !taken.insert(free).second; ++i) free = name + "#" + std::to_string(i);
  return free;
}

}  // namespace

// The importer keeps to itself which joints and bodies it made, and whether the file stored a gravity; its virtuals
// tell.
class Scene::Importer : public btBulletWorldImporter {
 public:
  using btBulletWorldImporter::btBulletWorldImporter;
  void setDynamicsWorldInfo(const btVector3& gravity, const btContactSolverInfo& info) override {
    has_gravity = true;
    btBulletWorldImporter::setDynamicsWorldInfo(gravity, info);
  }
  bool has_gravity = false;
};

Scene::Scene(const Job& job)
    : configuration_(std::make_unique<btDefaultCollisionConfiguration>()),
      dispatcher_(std::make_unique<btCollisionDispatcher>(configuration_.get())),
      broadphase_(std::make_unique<btDbvtBroadphase>()) {
  if (job.scene.ends_with(".bullet")) {
    make_world(job, false);
    load(job.scene);
  } else {
    load_ours(job);
  }
  // Iterations are what the solvers of a comparison differ in; everything else the file says about solving stays.
  world_->getSolverInfo().m_numIterations = job.iterations;
  if (job.gravity) {
    const auto& g = *job.gravity;
    world_->setGravity(btVector3(btScalar(g[0]), btScalar(g[1]), btScalar(g[2])));
    if (built_) built_->set_gravity({g[0], g[1], g[2]});
  }
  if (!built_) name_things();
  check();
}

void Scene::make_world(const Job& job, bool multibodies) {
  mlcp_ = direct_solver(job);
  if (multibodies) {
    auto solver = multibody_solver(job, mlcp_.get());
    world_ = std::make_unique<btMultiBodyDynamicsWorld>(dispatcher_.get(), broadphase_.get(), solver.get(),
                                                        configuration_.get());
    solver_ = std::move(solver);
  } else {
    solver_ = native_solver(job, mlcp_.get());
    world_ = std::make_unique<btDiscreteDynamicsWorld>(dispatcher_.get(), broadphase_.get(), solver_.get(),
                                                       configuration_.get());
  }
  world_->setGravity(btVector3(0, btScalar(-9.81), 0));
}

Scene::~Scene() {
  built_.reset();
  if (importer_) importer_->deleteAllData();
}

void Scene::load(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in || bytes.empty()) throw Refused("scene", "cannot be read");
  const std::size_t size = bytes.size();
  // The reader looks for the next chunk beyond the last one; zeros there stop it.
  bytes.resize(size + 256, '\0');
  importer_ = std::make_unique<Importer>(world_.get());
  ::alarm(60);  // a damaged file can send the reader round in circles; the signal ends us and says so to the command
  if (!importer_->loadFileFromMemory(bytes.data(), static_cast<int>(size)))
    throw Refused("scene", "Bullet's reader of .bullet files refused it");
  ::alarm(0);
  gravity_from_file_ = importer_->has_gravity;
}

// The bodies of an included .bullet file are in the world before the rest of the scene is read.
void Scene::load_ours(const Job& job) {
  scene::Overrides overrides;
  overrides.robots = job.robots;
  if (!job.mjcf.empty())
    overrides.mjcf_scene = [&](const std::string& path) {
      const auto found = job.mjcf.find(path);
      if (found == job.mjcf.end()) throw std::runtime_error("is an MJCF file that was not read before");
      return found->second;
    };
  const auto import = [&](const std::string& path) {
    make_world(job, false);
    load(path);
    name_things();
    scene::Imported out;
    out.bodies = describe();
    return out;
  };
  scene::Model model = job.mjcf.count(job.scene)
                           ? scene::load_text(cli::scene_with_mjcf(job.scene), job.scene, import, overrides)
                           : scene::load(job.scene, import, overrides);
  if (!world_) make_world(job, model.multibodies > 0);
  for (const scene::SceneBody& body : model.bodies)
    if (body.kind == BodyKind::coordinate)
      throw Refused("scene", "'" + body.name +
                                 "' is a coordinate of its own kinetic energy; Bullet has bodies only: "
                                 "linchpin run --host bare");
  const std::size_t imported = bodies_.size();
  gravity_from_file_ = gravity_from_file_ || model.gravity_given;
  std::set<std::string> taken(joint_names_.begin(), joint_names_.end());
  for (const scene::SceneConstraint& c : model.constraints)
    if (!c.name.empty() && taken.count(c.name))
      throw Refused("scene", "the constraint '" + c.name + "' has the name of a joint of the included file");
  built_ = std::make_unique<Built>(std::move(model), *world_, bodies_);
  if (built_->multibodies() && job.kind != "exact") built_->hold_natively();
  for (std::size_t i = imported; i < built_->bodies().size(); ++i) {
    bodies_.push_back(built_->bodies()[i]);
    body_names_.push_back(built_->model().bodies[i].name);
  }
  for (const Built::Joint& joint : built_->joints()) {
    joints_.push_back(joint.joint);
    joint_names_.push_back(joint.name);
  }
}

std::vector<scene::SceneBody> Scene::describe() const {
  std::vector<scene::SceneBody> out;
  for (std::size_t i = 0; i < bodies_.size(); ++i) {
    const btRigidBody& body = *bodies_[i];
    scene::SceneBody each;
    each.name = body_names_[i];
    each.kind = body.isStaticOrKinematicObject() || body.getInvMass() == 0 ? BodyKind::fixed : BodyKind::rigid;
    const btQuaternion q = body.getWorldTransform().getRotation();
    each.start.p = bullet::from_bullet(body.getWorldTransform().getOrigin());
    each.start.q = Quaterniond(double(q.w()), double(q.x()), double(q.y()), double(q.z())).normalized();
    if (each.kind == BodyKind::rigid) {
      const btVector3& inverse = body.getInvInertiaDiagLocal();
      each.start.v = bullet::from_bullet(body.getLinearVelocity());
      each.start.w = bullet::from_bullet(body.getAngularVelocity());
      each.mass = 1 / double(body.getInvMass());
      if (inverse.x() > 0 && inverse.y() > 0 && inverse.z() > 0)
        each.inertia = bullet::from_bullet(inverse).cwiseInverse().asDiagonal();
      else
        each.kind = BodyKind::particle;
    }
    out.push_back(std::move(each));
  }
  return out;
}

Quaterniond Scene::rotation(std::size_t body) const {
  if (built_) return built_->rotation(body);
  const btQuaternion q = bodies_[body]->getWorldTransform().getRotation();
  return {double(q.w()), double(q.x()), double(q.y()), double(q.z())};
}

void Scene::step(double t, double dt) {
  if (built_) built_->before_step(t, dt);
  world_->stepSimulation(btScalar(dt), 0);
  if (built_) built_->after_step(t + dt);
}

// In the order of the world's constraints and then of the user's, but for multibodies: joints of their trees are no
// constraints of the world, and their limits are ones that have no other name.
const Reaction* Scene::reaction(std::size_t link, bullet::Solver& solver) const {
  const auto all = solver.reactions();
  if (!built_ || !built_->multibodies()) return link < all.size() ? &all[link] : nullptr;
  const std::string& name =
      link < joints_.size() ? joint_names_[link] : built_->constrained()[link - joints_.size()].name;
  if (reaction_of_.size() <= link) reaction_of_.resize(link + 1, link);
  std::size_t& at = reaction_of_[link];
  if (at >= all.size() || all[at].name != name)
    at = static_cast<std::size_t>(
        std::find_if(all.begin(), all.end(), [&](const Reaction& r) { return r.name == name; }) - all.begin());
  return at < all.size() ? &all[at] : nullptr;
}

void Scene::name_things() {
  std::set<std::string> taken;
  for (int pass = 0; pass < 2; ++pass)
    for (int i = 0; i < world_->getNumCollisionObjects(); ++i) {
      btRigidBody* body = btRigidBody::upcast(world_->getCollisionObjectArray()[i]);
      if (!body || body->isStaticOrKinematicObject() != (pass == 1)) continue;
      const char* name = importer_->getNameForPointer(body);
      bodies_.push_back(body);
      body_names_.push_back(
          distinct(name && *name ? std::string(name) : "body#" + std::to_string(bodies_.size()), taken));
    }
  std::set<std::string> taken_by_joints;
  for (int i = 0; i < world_->getNumConstraints(); ++i) {
    btTypedConstraint* joint = world_->getConstraint(i);
    const char* name = importer_->getNameForPointer(joint);
    joints_.push_back(joint);
    joint_names_.push_back(name && *name ? distinct(name, taken_by_joints) : std::string());
  }
}

void Scene::check() const {
  if (bodies_.empty()) throw Refused("scene", "holds no rigid body");
  for (std::size_t i = 0; i < bodies_.size(); ++i) {
    const btRigidBody& body = *bodies_[i];
    if (!is_finite(body)) throw Refused("scene", "body '" + body_names_[i] + "' has a pose that is not finite");
    if (!std::isfinite(body.getInvMass()) || !is_finite(body.getInvInertiaDiagLocal()))
      throw Refused("scene", "body '" + body_names_[i] + "' has a mass or an inertia that is not finite");
  }
}

long Scene::mlcp_fallbacks() const {
  if (const auto* mlcp = dynamic_cast<const btMLCPSolver*>(solver_.get())) return mlcp->getNumFallbacks();
  const auto* of_multibodies = dynamic_cast<const btMultiBodyMLCPConstraintSolver*>(solver_.get());
  return of_multibodies ? of_multibodies->getNumFallbacks() : 0;
}

std::string Scene::ruin(long step) const {
  const auto lost_body = [](const btRigidBody* body) {
    return !(body->getCenterOfMassPosition().length2() < cli::divergence_bound * cli::divergence_bound &&
             body->getLinearVelocity().length2() < cli::divergence_bound * cli::divergence_bound);
  };
  for (const btRigidBody* body : bodies_)
    if (!is_finite(*body))
      return "not finite at step " + std::to_string(step) + ": a pose or a velocity is infinite or not a number";
  if (std::none_of(bodies_.begin(), bodies_.end(), lost_body)) return {};
  return cli::divergence_text(step);
}

}  // namespace linchpin::worker
