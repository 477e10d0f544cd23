// An MJCF file by itself, or a scene of ours with one in it: its constraints, laws and forces in MuJoCo.
#pragma once

#include "model.h"

#include <linchpin/mujoco.h>
#include <linchpin/scene.h>
#include <linchpin/system.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace linchpin::mujoco_worker {

class Scene {
 public:
  /// @throws Refused("scene", …), SceneError for what is wrong in a scene of ours
  explicit Scene(const std::string& path);
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  Model& model() { return *model_; }
  /// The scene. Null for an MJCF file by itself.
  const scene::Model* scene() const { return scene_ ? &*scene_ : nullptr; }
  /// The bodies, forces and constraints of the scene, for what it reads of them. With a scene only.
  const System& mirror() const { return mirror_; }

  /// Makes the data those of the start again.
  void restart();
  /// Adds the constraints and laws of the scene. @throws Refused("solver", …)
  void constrain(mujoco::Solver& solver);
  /// @throws Refused("solver", …) where MuJoCo alone cannot do what the scene asks for
  void demand_mujoco_alone() const;
  /// Returns whether MuJoCo's own matrices do not contain all constraint forces.
  bool has_constraints_or_laws() const;
  /// Why the energy of the model is not conserved in this scene. Null: it is.
  const char* why_not_conserved() const;

  /// Applies the forces of the scene in the next step.
  void before_step();
  /// Call after a step.
  void after_step();
  /// Model::look(), and the gaps of the constraints of the scene. @param dt  of the last step [s]
  void look(double dt);
  /// The state that look() has seen.
  State state() const;
  /// Text on forces that were not finite, and did not act. Empty: all were.
  std::string force_failure() const;

 private:
  void load(const std::string& path);
  void find_own();
  Constraint in_axes_of_solver(const scene::SceneConstraint& c, mujoco::Solver& solver) const;

  std::unique_ptr<Model> model_;
  std::optional<scene::Model> scene_;
  System mirror_;
  std::vector<std::size_t> own_;  // constraints of the scene that MuJoCo has not
  std::vector<Gap> own_gaps_;
  bool has_own_on_velocities_ = false;
  std::string failed_force_;
  double failed_at_ = 0;
  long failed_steps_ = 0;
};

}  // namespace linchpin::mujoco_worker
