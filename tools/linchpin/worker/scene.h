// A world from a .bullet file or a scene of ours, with the names the file gives to its bodies and joints.
#pragma once

#include "bullet_scene/built.h"
#include "worker_common/job.h"

#include <BulletDynamics/MLCPSolvers/btMLCPSolverInterface.h>
#include <btBulletDynamicsCommon.h>

#include <memory>
#include <string>
#include <vector>

namespace linchpin::worker {

using bullet_scene::Built;
using bullet_scene::Multibodies;
using bullet_scene::NativeLoops;

/// A freshly loaded world; every run gets its own, so that no solver starts from what another left behind.
class Scene {
 public:
  /// @throws Refused("scene", …) for what is not a scene of rigid bodies, SceneError for what is wrong in one of ours.
  explicit Scene(const Job& job);
  ~Scene();
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  btDiscreteDynamicsWorld& world() { return *world_; }
  /// Dynamic bodies first to last as in the world, then the others; names are distinct.
  const std::vector<btRigidBody*>& bodies() const { return bodies_; }
  const std::vector<std::string>& body_names() const { return body_names_; }
  /// In world order; the name is empty where the file has none.
  const std::vector<btTypedConstraint*>& joints() const { return joints_; }
  const std::vector<std::string>& joint_names() const { return joint_names_; }
  /// What a scene of ours adds to a world; null for a .bullet file by itself.
  Built* built() { return built_.get(); }
  /// How a body is turned, in the axes that the scene gives it.
  Quaterniond rotation(std::size_t body) const;
  /// A step, with what a scene of ours does around one.
  void step(double t, double dt);
  /// What the solver says of a joint of the world, or then of a scene's own constraints; null where nothing.
  const Reaction* reaction(std::size_t link, bullet::Solver& solver) const;
  bool gravity_from_file() const { return gravity_from_file_; }
  /// The bodies as scenes of ours have them, in the order of bodies().
  std::vector<scene::SceneBody> describe() const;

  /// Puts Bullet's own solver in the place of one that was installed in the world; constraints stay.
  void solve_natively() { world_->setConstraintSolver(solver_.get()); }
  /// How often the MLCP solver gave up and left a group to sequential impulses; 0 for the others.
  long mlcp_fallbacks() const;

  /// Why the state after this step is of no use: it is not finite, or it has diverged. Empty while all is well.
  std::string ruin(long step) const;

 private:
  class Importer;
  void make_world(const Job& job, bool multibodies);
  void load(const std::string& file);
  void load_ours(const Job& job);
  void name_things();
  void check() const;

  std::unique_ptr<btDefaultCollisionConfiguration> configuration_;
  std::unique_ptr<btCollisionDispatcher> dispatcher_;
  std::unique_ptr<btDbvtBroadphase> broadphase_;
  std::unique_ptr<btMLCPSolverInterface> mlcp_;
  std::unique_ptr<btConstraintSolver> solver_;
  mutable std::vector<std::size_t> reaction_of_;  // guesses, by link
  std::unique_ptr<btDiscreteDynamicsWorld> world_;
  std::unique_ptr<Importer> importer_;
  std::unique_ptr<Built> built_;
  std::vector<btRigidBody*> bodies_;
  std::vector<std::string> body_names_;
  std::vector<btTypedConstraint*> joints_;
  std::vector<std::string> joint_names_;
  bool gravity_from_file_ = false;
};

}  // namespace linchpin::worker
