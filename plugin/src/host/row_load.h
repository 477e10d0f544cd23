// The load of the host's own rows on one island in a step: impulses on its bodies, and the passive rows among them.
#pragma once

#include "joint_kernel/joint_island.h"

#include <linchpin/host.h>

#include <array>
#include <vector>

namespace linchpin::host {

/// A limit or a contact that acts on an island. It acts between bodies of the island, or against a body that does not
/// move. If the island shares the row with other bodies, this is the side on the island.
struct PassiveRow {
  enum Kind : std::size_t { contact, limit, shared, kinds };
  Row* row = nullptr;  ///< Its place in Rows.
  int entry = -1;      ///< The entry whose mean wrenches contain it; −1: none.
  Kind kind = contact;
  std::array<int, 2> slot;  ///< −1: A body that does not move.
  std::array<Vector6, 2> J;
  double impulse = 0, impact = 0;  ///< Impulse of the whole step as it was solved; the part that acts at its start.
  double impact_left = 0,
         impulse_left = 0;   ///< Substeps: parts of the impact and of the rest that are not applied yet.
  double sustained_now = 0;  ///< Part of the rest that acts in the current substep.
  double velocity_before = 0,
         work = 0;  ///< Velocity of the row at the start of the substep; its work in the substep [J].
  enum class State : unsigned char {
    active,
    released,  ///< It does not act in the current substep.
    dropped    ///< It does not act in the current substep, nor in later ones.
  } state = State::active;
};

/// Work that limits, locks and contacts were solved to do on one island [J]. They act against bodies of the island, or
/// against bodies that do not move.
struct PassiveWork {
  double work = 0;                 ///< Work of all these rows.
  double contact_target_work = 0;  ///< Σ p · target, of each no more than twice its bound.
  double max_contact_work = 0;     ///< Kinetic energy of all bodies of the island at the largest of these targets.
  double limit_target_work = 0;
  double lifting_work = 0;  ///< Σ p · the mean velocity on the way to the target, or · the target where it is larger.
  double max_lifting_velocity = 0;  ///< Largest of these velocities [m/s, rad/s].
};

/// Impulses of the host's rows on an island [N·s, N·m·s], in its columns [n].
struct RowLoad {
  std::vector<double> total;       ///< Impulses of the whole step.
  std::vector<double> impact;      ///< Substeps: the part at the start, of rows that are not passive.
  std::vector<double> sustained;   ///< Substeps: the part over the whole step, of rows that are not passive.
  std::vector<double> force_now;   ///< Mean force in the current substep [N, N·m].
  std::vector<double> impact_now;  ///< Impulse at the start of the current substep.
  std::vector<double> applied;     ///< Impulse that the substeps have applied so far.
  std::vector<PassiveRow> passive;
  bool is_delivered = false;  ///< The impulses of passive rows are written to the host.

  // Energy [J].
  PassiveWork passive_work;
  double absorbed = 0;     ///< Energy that shared passive rows absorb, as they were solved.
  double solved_work = 0;  ///< Work of all rows, as they were solved.
  double source_work = 0;  ///< Part of it that is a source of energy: of rows that are not passive, and lifting work.
  /// Energy that free and kinematic bodies lost in passive rows, beyond the work of the rows on the island.
  double taken_beyond = 0;
  double limit_return = 0;  ///< Energy that a limit may always give to come back from where it is exceeded.
  double energy_given = 0;  ///< Energy that rows and constraints gave in this step so far.
  std::array<double, PassiveRow::kinds> budget{};  ///< Energy that passive rows of a kind may still give in the step.
  bool pushes_at_fixed = false;                    ///< Some row pushes at a body that does not move.
  std::vector<double> damping;  ///< Impulses of the damping of this step; empty: none could be needed.
  double mass = 0;              ///< Mass of all bodies of the island [kg].
  double applied_impulse = 0;   ///< Impulse of the applied forces on all bodies in the step [N·s].

  // Responses of rows.
  struct Pending {
    std::size_t at;  ///< Place where its motion is added.
    linchpin::detail::JointIsland::Impulse impulse;
  };
  std::vector<Pending> pending;       ///< Impulses whose motion is not found yet.
  int rows = 0;                       ///< Number of rows that act on the island.
  std::vector<int> contacted;         ///< Slots of bodies that rows act on.
  std::vector<int> contacted_at;      ///< By slot: its place in `contacted`; −1: none.
  std::vector<int> contacted_bodies;  ///< Those bodies by their index in Rows::bodies.
};

}  // namespace linchpin::host
