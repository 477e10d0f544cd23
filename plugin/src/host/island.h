// An island: constraints and the bodies that they join, solved together. Its data have four lives: the topology is
// fixed while the constraints stay, the history goes from step to step, the step lasts for one step, and the vectors
// are memory that each step fills anew.
//
// Thread safety: the solution of an island writes only that island, and the entries that its own bodies and constraints
// have in the registries. Islands can therefore be solved concurrently.
#pragma once

#include "host/fast_rotation.h"
#include "host/law_records.h"
#include "host/newton_extrapolation.h"
#include "host/row_load.h"
#include "joint_kernel/joint_island.h"

#include <linchpin/dynamics.h>
#include <linchpin/host.h>
#include <linchpin/stages.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace linchpin::host {

// ---- fixed while its constraints stay ----

/// Kinds of constraints and bodies that an island may have.
enum class Trait : unsigned {
  user_constraint = 1,
  kinematic_body = 2,
  laws = 4,
  gear = 8,          ///< a function of turns, of which poses show less than half
  state = 16,        ///< a function with an internal state
  forces_read = 32,  ///< The program reads forces in every step, or the island has laws.
  breakable = 64
};

/// What an island is made of.
struct Topology {
  struct Joint {
    int entry, place;     ///< its entry, and its place among those of the island
    int row, force_rows;  ///< its first row, and how many rows are forces along orthonormal axes
  };
  bool has(Trait t) const { return (traits & static_cast<unsigned>(t)) != 0; }
  void set(Trait t, bool on) { traits = on ? traits | static_cast<unsigned>(t) : traits & ~static_cast<unsigned>(t); }

  std::vector<int> entries;   ///< in the order of their rows
  unsigned entries_made = 0;  ///< how many entries had been made when the island was laid out
  std::vector<ConstraintId> ids;
  Block block;
  std::vector<BodyId> bodies;    ///< all that the constraints name, fixed and kinematic ones included
  std::vector<BodyId> boundary;  ///< the fixed and kinematic ones of them
  std::vector<int> cluster;      ///< by slot: the same for bodies that welds make one; −1: welded to what is fixed
  bool has_clusters = false;
  std::vector<Joint> joints;  ///< the host's joints
  unsigned traits = 0;
};

// ---- from step to step ----

/// The part of the history that is put back when a step is taken once more.
struct Carry {
  double last_length = 0;             ///< of the last step or substep [s]; 0 at the start
  double next_length = 0;             ///< of the next fast substep, where the last step was taken in such [s]
  double next_substep = 0;            ///< of the first substep by stages of the next step [s]; 0: not known
  double rejected_ratio = 0;          ///< ω·dt of the last rejected whole step over the sum of ω·h of its substeps
  double typical_velocity_error = 0;  ///< |φ̇| at the start of the last step, O(dt)
  int extrapolation_steps = 0;        ///< steps in a row that the extrapolation goes back
  unsigned fast_from = 0;             ///< first step in which the fast path is tried again
  unsigned fast_pause = 0;            ///< number of steps in which it was not tried
  unsigned loose_until = 0;           ///< step from which convergence to rounding is asked for again
  std::vector<Matrix3d> stiffness;    ///< K⁺ at the end of the last step, where the next step needs it (T15)
};

/// What the steps of an island leave to later ones.
struct History : Carry {
  NewtonExtrapolation extrapolation;
  int failures = 0;          ///< failed tries in a row
  unsigned next_try = 0;     ///< The host solves the island until this step.
  unsigned last_step = 0;    ///< in which the island took part
  unsigned too_long_at = 0;  ///< step in which host rows had been solved for a whole step that was too long
  bool was_contradictory = true;
  std::string failure;         ///< reason of the last failure
  std::vector<char> sticking;  ///< which friction elements stuck at the end of the last step
};

/// A history as Solver::history() keeps it, with the states of laws.
struct IslandPast : History {
  std::vector<int> entries;
  std::shared_ptr<const Dynamics::LawHistory> laws;
};

// ---- one step ----

enum class Phase : unsigned char { waiting, begun, solved, refused, failed, written };
enum class Path : unsigned char { general, fast, coupled };  ///< coupled: the fast path among host rows
enum class Division : unsigned char { whole, substeps, stages };
/// Rows of the host that act on an island, from none to the most.
enum class HostRows : unsigned char { none, joints, contacts, multibody };
/// How rows and island are solved together.
enum class RowMethod : unsigned char {
  alternating,  ///< The island is projected after each iteration of the host (block Gauss–Seidel).
  responses,    ///< Each row knows what its impulse does to the whole island.
  composite     ///< Welds make the island one body of the host's row solver.
};
/// What is wrong with the poses at the start of a step.
enum class StartGap : unsigned char {
  small,
  frames_moved,  ///< The program has moved joint frames: the step ends on them.
  turned_far     ///< A joint is on its way back: the step keeps it as far off as it is.
};

/// What an island does in one step. Each step begins with a new one.
struct IslandStep {
  Path path = Path::general;
  Division division = Division::whole;
  HostRows rows = HostRows::none;
  RowMethod method = RowMethod::alternating;
  StartGap start_gap = StartGap::small;

  bool problem_is_current = true;  ///< `dynamics` has the problem of the step's start
  bool is_sized = false;           ///< vectors that fast steps without host rows do not need have their size
  bool has_forces = false;         ///< constraint forces are known before the host's rows are solved
  bool keeps_records = false;      ///< impulses of substeps are summed up for reports as they go

  struct Poses {
    bool current = false;             ///< base and end of its bodies are those of this step
    bool pushed = false;              ///< the start poses were moved, by a split impulse or to close a gap
    bool start_changed = false;       ///< the host must integrate from `base`
    bool end_velocity_later = false;  ///< the host integrates the mean velocity, and gets that of the end afterwards
  } poses;
  struct Verdict {
    bool contradictory = false;
    bool over_budget = false;  ///< solves or substeps cost too much
    bool loose = false;        ///< convergence to gap_tolerance is accepted
    bool again = false;        ///< the host's rows are to be solved once more
  } verdict;
  const char* stepped_down = nullptr;  ///< why not by stages

  int substeps = 1;
  int newton_solves = 0;
  double omega_dt = 0;           ///< frequency of the geometric stiffness times dt (T15)
  double moved = 0, turned = 0;  ///< largest displacement and turn by which a start gap was closed [m, rad]
  double gap_left = 0;           ///< what is left of it [m or rad]
  double turned_away = 0;        ///< largest turn of a joint from where it holds its bodies [rad]
  int turned_entry = -1;         ///< the entry of that joint
  double first_substep = 0;      ///< length with which the first substep by stages was tried [s]
  double substep_error = 0;      ///< of the last substep of Stepping::adaptive, in units of the tolerance
  double law_time = 0;           ///< through which the states of laws have been advanced in substeps [s]
  double dense_flops = 0;        ///< m² n of the factors that came from the dense solver
  double first_length = 0, length_before = 0;  ///< with which fast substeps began [s]
};

/// Sums for `Counts`, since they were last collected.
struct IslandStats {
  long solves = 0, factors = 0, newton = 0, substepped = 0, substeps = 0, parts = 0, parts_refused = 0,
       stepped_down = 0, stiffened = 0, damped = 0;
  double activation_energy = 0, stiffness_work = 0, damping_work = 0;
};

// ---- memory that each step fills anew ----

/// Vectors of a whole step, in the island's columns [n] and rows [m].
struct StepVectors {
  std::vector<double> v0, v;               ///< [n] velocities at the start and at the end
  std::vector<double> Q;                   ///< [n] applied force at the start, gyroscopic torque included
  std::vector<double> Q_total;             ///< [n] the same with the mean force of the host's rows
  std::vector<double> applied;             ///< [n] impulse of the applied forces over the step
  std::vector<double> newton;              ///< [m] multiplier impulses that Newton added
  std::vector<double> multipliers;         ///< [m] multiplier impulses of all that constraints did
  std::vector<double> momentum;            ///< [n] substeps: change of momentum, for the balance
  std::vector<double> target;              ///< [m] row velocities that host rows start from
  std::vector<double> mean_force;          ///< [m] multipliers of the force that the step applied (T15)
  std::vector<double> row_velocity;        ///< [m] mean row velocities of a fast step
  std::vector<double> force, dv;           ///< [n] scratch: impulses, changes of velocity
  std::vector<double> row;                 ///< [m] scratch
  std::vector<double> change, row_change;  ///< [n], [m] scratch
};

/// Sums over the substeps of a step. `h` marks what belongs to the substep at hand until it is accepted.
struct SubstepSums {
  std::vector<double> v;                      ///< [n] velocities at the end of the substep
  std::vector<double> applied, momentum;      ///< [n]
  std::vector<double> multipliers, work;      ///< [m]
  std::vector<double> gross;                  ///< largest impulse and angular impulse of each body, by slot
  std::vector<Vector6> wrenches;              ///< mean wrenches by constraint and body, about the centres of mass
  std::vector<double> gyroscopic;             ///< [n] torque of the substep beyond that of the step's start
  std::vector<double> left_open;              ///< [m] φ on which the substep is to end
  std::vector<double> h_applied, h_momentum;  ///< [n]
  std::vector<double> h_multipliers, h_work;  ///< [m]
  std::vector<Vector6> h_wrenches;
  std::vector<double> h_pull, pull;  ///< fast path: impulses by joint, see JointIsland::Vectors::constraint_impulses
  std::vector<double> law_last, law_memory;  ///< LawWork::last of accepted substeps; states of laws at the start
};

/// Entries of A by body, for impulses on single bodies.
class RowsByBody {
 public:
  void sort(const Assembly& assembly);
  /// rows −= A_k v_k of the body at `slot`, with v [n] and rows [m]
  void subtract_velocities(const Block& block, int slot, std::span<const double> v, std::span<double> rows) const;

 private:
  struct Entry {
    const double* J;
    int row, count;
  };
  std::vector<Entry> entries_;
  std::vector<int> begin_;  // by slot
};

/// The fast path of an island: its kernel, and whether it can be used.
struct FastPath {
  linchpin::detail::JointIsland kernel;
  bool is_laid_out = false;  ///< it was tried to lay the kernel out
  bool fits = false;         ///< it may be used in this step
  unsigned masses_at = 0;    ///< Bodies::mass_changes() when it took the masses
  std::vector<int> sides;    ///< slots of the two bodies of each joint, −1: none
};

/// Bodies of an island that have a gyroscopic torque.
struct Gyroscopics {
  std::vector<char> active;     ///< by slot
  std::vector<char> in_kernel;  ///< by slot: Q and `applied` lack the torque, which the fast kernel adds
  bool any_in_kernel = false;
  FastRotation step, substep;  ///< bodies that turn far in the step, and in the substep at hand
};

/// What reports need of the last step, until somebody reads them.
struct PendingReport {
  bool is_current = true;        ///< reactions and balances are those of the last step
  bool work_in_balance = false;  ///< its work is counted when the momentum balance is made
  bool has_start_problem = false;
  Instant start_problem;     ///< the problem of the step's start, where substeps have overwritten it
  std::vector<double> work;  ///< of each row, not yet in the reactions [J]
  std::string law_trouble;   ///< the first one of the laws in the substeps that were accepted
  StandingWarnings standing;
  int flags_rank = -1;          ///< rank at which redundancy was last reported
  std::vector<Motion> written;  ///< what the host was given of bodies whose end velocity comes later
};

struct Island {
  bool has(Trait t) const { return topology.has(t); }
  bool failed() const { return phase == Phase::failed; }
  bool took_part(unsigned in_step) const { return !topology.ids.empty() && history.last_step == in_step && !failed(); }
  const Block& block() const { return topology.block; }
  std::size_t slots() const { return topology.block.bodies.size(); }

  Topology topology;
  History history;
  Carry before;                            ///< as the step began
  std::unique_ptr<const IslandPast> past;  ///< what the history becomes when the island is laid out

  Phase phase = Phase::waiting;
  bool detached = false;  ///< one of its bodies is not in the world
  IslandStep step;
  IslandStats stats;

  StepVectors x;
  SubstepSums sums;
  RowLoad rows;
  std::vector<int> solver_body;  ///< by slot: index in the host's RowBody array; −1: none
  RowsByBody rows_by_body;
  FastPath fast;
  Gyroscopics gyroscopics;
  std::vector<Matrix3d> stiffness;  ///< by slot: ½ dt² K⁺ of this step (T15); empty: none
  StepInStages stages;
  std::optional<Dynamics> dynamics;  ///< made when a step needs it first
  PendingReport report;
};

/// States of a step that is taken in substeps. One set serves all islands that one worker solves.
struct SubstepStates {
  State start, now, next, end, projected;
};

}  // namespace linchpin::host
