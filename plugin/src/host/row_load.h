// What the host's own rows do to one island in a step: impulses on its bodies, and the passive rows among them.
#pragma once

#include "joint_kernel/joint_island.h"

#include <linchpin/host.h>

#include <array>
#include <vector>

namespace linchpin::host {

/// A limit or a contact that acts on an island: between its own bodies or against what does not move, or the side on
/// the island of one that it shares with other bodies.
struct PassiveRow {
  enum Kind : std::size_t { contact, limit, shared, kinds };
  Row* row = nullptr;  ///< among Rows
  int entry = -1;      ///< whose mean wrenches contain it; −1: none
  Kind kind = contact;
  std::array<int, 2> slot;  ///< −1: does not move
  std::array<Vector6, 2> J;
  double impulse = 0, impact = 0;        ///< of the whole step as it was solved; the part that acts at its start
  double impact_left = 0, left = 0;      ///< in substeps: what is yet to be applied of the impact, and of the rest
  double sustained_now = 0;              ///< of the rest in the substep at hand
  double velocity_before = 0, work = 0;  ///< velocity of the row where the substep begins; its work in it [J]
  enum class State : unsigned char {
    active,
    released,  ///< not in the substep at hand
    dropped    ///< nor in those after it
  } state = State::active;
};

/// Work that limits, locks and contacts were solved to do on one island against its own bodies or against what does not
/// move [J].
struct PassiveWork {
  double work = 0;           ///< of all
  double contacts_ask = 0;   ///< Σ p · target, of each no more than twice what it may give
  double contacts_most = 0;  ///< all bodies of the island at the largest of these targets
  double limits_ask = 0;
};

/// Impulses of the host's rows on an island [N·s, N·m·s], in its columns [n].
struct RowLoad {
  std::vector<double> total;       ///< of the whole step
  std::vector<double> impact;      ///< in substeps: what acts at the start, of rows that are not passive,
  std::vector<double> sustained;   ///< and what acts over the whole step
  std::vector<double> force_now;   ///< in the substep at hand, as a mean force [N, N·m]
  std::vector<double> impact_now;  ///< and at its start
  std::vector<double> applied;     ///< what the substeps have applied so far
  std::vector<PassiveRow> passive;
  bool is_delivered = false;  ///< the host knows what the passive rows did

  // Energy [J].
  PassiveWork passive_work;
  double absorbed = 0;      ///< by shared passive rows, as they were solved
  double solved_work = 0;   ///< of all rows, as they were solved
  double limit_return = 0;  ///< that a limit may give to come back from where it is exceeded, whatever moves
  double given = 0;         ///< by rows and constraints in this step so far
  std::array<double, PassiveRow::kinds> budget{};  ///< what passive rows of a kind may yet give in the step
  bool pushes_at_fixed = false;                    ///< some row pushes at what does not move
  std::vector<double> damping;  ///< impulses of the damping of this step; empty: none could be needed
  double mass = 0;              ///< of all bodies of the island [kg]

  // Responses of rows.
  struct Pending {
    std::size_t at;  ///< where its motion is added
    linchpin::detail::JointIsland::Impulse impulse;
  };
  std::vector<Pending> pending;   ///< impulses whose motion is yet to be found
  int rows = 0;                   ///< number of rows that act on the island
  std::vector<int> contacted;     ///< slots of bodies that rows act on
  std::vector<int> contacted_at;  ///< by slot its place among those; −1: none
};

}  // namespace linchpin::host
