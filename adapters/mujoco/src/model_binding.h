// A MuJoCo model and its data as a host of the core: bodies, equalities, the step, and what MuJoCo's arrays contain
// afterwards.
#pragma once

#include "model_trees.h"
#include "row_projection.h"

#include <linchpin/mujoco.h>

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace linchpin::mujoco {

using Owner = host::ConstraintEntry::Owner;

/// An equality of the model, by its number.
struct Equality {
  int entry = -1;
  bool is_gear = false;               ///< on joint positions, and not between bodies
  std::array<int, 2> bodies{-1, -1};  ///< of MuJoCo, of a connect or a weld
  std::array<Vector3d, 2> anchors{};  ///< in the frames of these bodies
  std::array<Quaterniond, 2> axes{Quaterniond::Identity(), Quaterniond::Identity()};  ///< in them, held together
  bool has_rotation = false;    ///< a weld that holds the rotation
  std::vector<double> numbers;  ///< of the model, from which it was made
  std::string why_native;       ///< empty: linchpin holds it
};

class ModelBinding;

/// A model as a host::World. It has no rigid bodies: all are links of trees.
class ModelWorld final : public host::World {
 public:
  explicit ModelWorld(ModelBinding& binding) : binding_(binding) {}
  void read(BodyId, BodyState&) const override {}
  void read_forces(BodyId, host::Load&) const override {}
  void write(std::span<host::Motion>) override {}
  void move(BodyId, const Vector3d&, const Quaterniond&) override {}
  bool restore_finite(BodyId, const BodyState&) override { return false; }
  void solve_in_host(int) override {}  // MuJoCo has the rows of an equality that linchpin does not hold
  std::string name() const override;
  double energy() const override;
  bool keeps_entry(int entry) const override;
  bool is_enabled(int entry) const override;
  void enable(int entry, bool on) override;
  void map_joint(int entry) override;

 private:
  ModelBinding& binding_;
};

class ModelBinding final : private articulated::TreeWorld {
 public:
  ModelBinding(mjModel& model, mjData& data, const Options& options);

  host::ConstraintSolver& solver() { return solver_; }
  const Options& options() const { return options_; }
  void set_options(const Options& options);
  void reset();

  // ---- names (names.cpp) ----
  int body_of(const BodyRef& body) const;  ///< @throws std::invalid_argument
  BodyId id_of(const BodyRef& body, const std::string& who);
  const BodyFrame& frame_of(const BodyRef& body) const;
  Solver::Site site(std::string_view name);
  int add(Constraint constraint);
  int joint_entry(std::string_view name);
  LinkPlace place_of_joint(std::string_view name) const;
  int body_of_id(BodyId id) const;  ///< −1: the world
  /// The solver, for reports of joints in the last step. @throws OrderError  MuJoCo took that step alone
  articulated::TreeSolver& trees_of_step(std::string_view joint);

  // ---- the step (step.cpp) ----
  void step();

  /// The same within a step of MuJoCo, after its constraint solve and before its integrator: corrects the acceleration,
  /// the forces of constraints and the sensors. @throws OrderError  options that a plugin does not support
  void correct_forward();

  // ---- for ModelWorld ----
  double energy() const;
  int equality_of(int entry) const;  ///< −1: it is none
  bool is_enabled(int entry) const;
  void enable_equality(int index, bool on);
  void map_equality(int index);

 private:
  // articulated::TreeWorld
  void read(int tree, articulated::TreeModel& model, articulated::TreeState& state) const override;
  articulated::LinkModel read_link(int tree, int link) const override;
  std::string link_name(int tree, int link) const override;
  void note_link(BodyId id, int tree, int link) override;
  std::string why_unsupported(int tree) const override { return model_trees_[tree].unsupported; }
  bool is_asleep(int) const override { return false; }
  void wake(int) override {}
  void move(int tree, const articulated::Configuration& to) override;
  void read_velocity(int tree, std::span<double> v) const override;
  void read_velocity_change(int tree, std::span<double> dv) const override;
  void add_velocity(int tree, std::span<double> dv) override;
  void read_row_wrenches(int tree, std::span<Wrench> on) const override;
  Vector3d gravity() const override;
  BodyId current_id(BodyId body) override { return body; }
  bool read_row_body(BodyId, host::RowBody&) const override { return false; }
  void add_row_velocity(BodyId, bool, Vector3d&, Vector3d&) override {}

  // equalities.cpp
  void find_equalities();
  void switch_equalities();
  void read_numbers(int equality, std::vector<double>& to) const;
  Equality shape_of(int equality) const;
  std::string add_gear_terms(int equality, int side, double factor, std::vector<articulated::Gear::Term>& to,
                             std::vector<BodyId>& bodies, double& constant);
  std::string make_gear(int equality, Equality& of);
  void make_pair(int equality, Equality& of);
  Matrix3d rotation_rows(int equality) const;
  void fill_equality_forces();

  // step.cpp
  bool follow_program();
  void forget_forces();
  void copy_model();
  void show_model();
  void solve_step();
  void restore_sparse_rows();
  void end_corrected_step();
  void demand_supported() const;
  void follow_model();
  bool has_exact() const;
  void forward();
  void find_free_velocities();
  std::span<const double> integrate(std::span<const double> qfrc_constraint);
  void set_damping();
  void even_damping_of_balls();
  void begin_velocities();
  void gather_velocities(std::vector<double>& qvel) const;
  void write_result();
  void add_own_wrenches();
  void read_sensors();
  void advance();

  // body_forces.cpp
  void find_forces_on_bodies();
  void place_force(int body, const Vector3d& at, const Vector3d& force, const Vector3d& moment);
  void find_row_wrenches();
  void add_contact_wrenches();
  void add_equality_wrenches(int equality, const mjtNum* rows);

  // rows.cpp
  bool find_rows();
  void solve_rows(bool holds);
  void project_rows_of_model();
  void begin_rows_of_model();
  void add_row_impulses();
  void add_implicit_response();

  mjModel& m_;
  mjData& d_;
  mjModel view_;  ///< a copy of the struct of the model, with other options; the arrays are the model's
  mjOption options_of_program_{};
  mjModel* shown_ = &view_;  ///< the model in the phases of MuJoCo in which callbacks of the program run
  Options options_;
  ModelTrees model_trees_;
  std::vector<mjtNum> inertial_frames_;  ///< of the model when it was bound
  ModelWorld world_{*this};
  host::ConstraintSolver solver_;
  articulated::TreeSolver tree_solver_;
  std::vector<Equality> equalities_;
  std::vector<mjtNum> tree_numbers_, tree_numbers_now_;  ///< of the model, from which the trees were made
  std::vector<double> equality_numbers_;                 ///< scratch

  std::vector<std::pair<BodyId, int>> bodies_of_ids_;  ///< bodies of MuJoCo that have an id
  bool is_stepping_ = false;                           ///< velocities are those of the step that is under way
  double end_of_corrected_ = -1;         ///< time at the end of a step of correct_forward(); −1: there is none
  bool was_native_ = false;              ///< MuJoCo took the last step alone
  bool has_forces_ = false;              ///< reports have forces of exact constraints
  bool was_moved_ = false;               ///< positions have been corrected in the step
  std::vector<double> free_;             ///< velocities at the end of the step without rows, MuJoCo's coordinates [nv]
  std::vector<double> host_;             ///< the same in the core's coordinates, all trees
  std::vector<double> change_;           ///< what constraints and rows have added to them
  std::vector<double> damping_;          ///< added to the diagonal of M [nv]
  std::vector<double> implicit_forces_;  ///< what an implicit integrator adds to the forces besides [nv]
  bool damping_is_diagonal_ = true;      ///< damping_ is all that the integrator adds to M
  std::vector<mjtNum> no_damping_;
  std::vector<int> other_rows_;  ///< rows of MuJoCo that are not those of exact equalities
  std::vector<int> exact_rows_;  ///< rows of exact equalities
  std::vector<double> saved_jacobian_, saved_reference_, saved_forces_, last_forces_;  ///< of the rows
  RowProjection projection_;
  std::vector<double> tree_rows_, rows_, target_;  ///< scratch of the projection
  std::vector<double> row_forces_, contact_forces_, friction_forces_,
      joint_forces_;                     ///< of other rows, all and by kind
  std::vector<Wrench> row_wrenches_;     ///< of other rows that act on places of bodies, by body of MuJoCo
  std::vector<Wrench> placed_wrenches_;  ///< the same of smooth forces
  std::vector<double> placed_forces_;    ///< these along the coordinates [nv]
  std::vector<double> saved_applied_;
  mutable std::vector<double> force_scratch_, velocity_scratch_;
  std::vector<double> nv_, nv2_, saved_qpos_, saved_qvel_, saved_warmstart_, saved_smooth_, saved_qacc_;  ///< scratch
};

}  // namespace linchpin::mujoco
