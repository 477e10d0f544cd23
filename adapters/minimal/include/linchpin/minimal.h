// linchpin in the toy engine of adapters/minimal/engine. It is a complete adapter in few lines, and the template for an
// adapter of your own; docs/how-to/write-an-adapter.md explains it step by step.
//
//     toy::World world;
//     …
//     linchpin::minimal::Solver exact(world);
//
// The joints of the world and the constraints of the program then end every step satisfied. Contacts and motors stay
// with the engine.
#pragma once

#include "toy.h"

#include <linchpin/constraint.h>
#include <linchpin/host.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace linchpin::minimal {

/// Solves the equality constraints of a world from construction to destruction. It keeps a reference to the world,
/// which must outlive it. It owns the constraints of the program. Reports are valid until the next step, and until
/// constraints change. Use it from the thread that steps the world. A step calls functions of constraints and laws.
/// They must not call the solver or step the world.
///
///   bodies.cpp   bodies ↔ ids; reading and writing poses and velocities
///   joints.cpp   joints of the world and constraints of the program ↔ entries
///   rows.cpp     rows and velocities of the engine's solver
///   solver.cpp   installing, reports, and the calls of a step in their order
///
/// It contains no algorithm.
class Solver final : private toy::StepHook, private host::World {
 public:
  /// Installs itself as the hook of the world. @throws std::invalid_argument if the world has one.
  explicit Solver(toy::World& world, const host::SolverOptions& options = {},
                  host::Capabilities::Coupling coupling = host::Capabilities::Coupling::rows);
  ~Solver() override;  ///< The world then solves its joints itself.
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;

  /// The id of a body of the world in constraints; −1: the world. @throws std::invalid_argument for a body that the
  /// world has not
  BodyId id(int body);
  /// A constraint of the program's own, on bodies by id(). @return its entry @throws std::invalid_argument for a name
  /// in use, and for bodies of which none can move
  int add(Constraint constraint);
  /// The constraint residual(s) = 0 on positions (see linchpin::holonomic).
  template <class Phi>
  int constrain(std::string name, const std::vector<int>& bodies, Phi phi) {
    std::vector<BodyId> ids;
    for (const int body : bodies) ids.push_back(id(body));
    return add(holonomic(std::move(name), std::move(ids), std::move(phi)));
  }
  void remove(int entry);               ///< of a constraint of the program's own
  int entry_of_joint(int joint);        ///< −1: none
  int find(std::string_view name);      ///< entry of a joint, such as "hinge#3" by kind and index, or of a constraint
  const Reaction& reaction(int entry);  ///< of the last step; valid until constraints change
  /// Laws, unilateral constraints, reports, balances, counts and histories, by entry.
  host::ConstraintSolver& solver() { return solver_; }

 private:
  /// Contains the id of a body, and the settings that the solver has of it.
  struct BodyBinding {
    BodyId id;
    toy::Body::Motion motion = toy::Body::Motion::free;
    double mass = 0;
    Vector3d inertia = Vector3d::Zero();
    std::string fault;  ///< "body 3, whose …"; empty: it has a mass matrix or does not need one
  };
  struct JointBinding {
    int entry = -1;
    toy::Joint::Settings settings;  ///< as they were read
    int missing = -1;               ///< a body that it named then and that the world did not have; −1: none
  };
  // toy::StepHook
  void begin_step(double dt) override;
  bool solves_joint(int joint) const override;
  bool solves_body(int body) const override;
  bool start(toy::Solve& solve) override;
  bool apply(toy::Solve& solve, std::size_t row, double impulse) override;
  void after_iteration(toy::Solve& solve) override;
  bool finish(toy::Solve& solve) override;
  void write() override;
  void end_step(double dt) override;

  // host::World
  std::string name() const override { return "the toy engine"; }
  double energy() const override { return world_.energy(); }
  void find_joints() override;
  void look_at_bodies(bool) override;
  void map_joints(bool is_anew) override;
  void map_joint(int entry) override;
  void read(BodyId id, BodyState& out) const override;
  const char* why_unsupported(BodyId id) const override;
  void read_forces(BodyId id, host::Load& load) const override;
  int row_body(BodyId id) const override { return body_of(id); }
  void write(std::span<host::Motion> motions) override;
  bool is_enabled(int entry) const override;
  void enable(int entry, bool on) override;
  double breaking_impulse(int entry) const override;
  void break_joint(int entry) override;
  void report_impulses(std::span<const host::JointImpulse> impulses) override;
  void solve_in_host(int entry) override;

  // bodies.cpp
  int body_of(BodyId id) const;
  // joints.cpp
  int joint_of(int entry) const;
  // rows.cpp
  bool separate(const toy::Solve& solve);
  void read_bodies(const toy::Solve& solve);
  void read_rows(const toy::Solve& solve);
  void leave_out_rigid_parts(toy::Solve& solve);
  void write_start_velocities(toy::Solve& solve);
  void couple_rows(toy::Solve& solve);

  toy::World& world_;
  host::ConstraintSolver solver_;
  std::vector<BodyBinding> bodies_;   // by body of the world
  std::vector<int> body_of_;          // by index of id; −1: none
  BodyId absent_;                     // stands for bodies that joints name and that are not in the world
  std::vector<JointBinding> joints_;  // by joint of the world
  std::vector<int> joint_of_;         // by entry; −1: a constraint of the program's own
  std::vector<int> left_to_host_;     // entries that the engine solves in this step
  std::vector<char> solved_;          // by body: its island is solved without rows
  host::Rows rows_;
  std::vector<const host::Response*> responses_;  // by row of the engine; null: it moves its own bodies
  unsigned listed_ = 0;                           // structure for which islands were built
  double dt_ = 0;
  bool is_separated_ = false, is_integrated_ = true;
};

}  // namespace linchpin::minimal
