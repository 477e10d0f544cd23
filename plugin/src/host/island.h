// An island: constraints and the bodies that they join, solved together. Its data have four lifetimes. The topology is
// fixed while the constraints stay. The history goes from step to step. The step lasts for one step. The vectors are
// memory that each step fills again.
//
// Thread safety: the solution of an island writes only that island, and the entries that its own bodies and constraints
// have in the registries. Islands can therefore be solved concurrently.
#pragma once

#include "dynamics/energy_account.h"
#include "dynamics/velocity_residual.h"
#include "host/gyroscopic_torques.h"
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
  user_constraint = 1,  ///< with a function that is no stock joint's, or a unilateral one
  kinematic_body = 2,
  laws = 4,
  gear = 8,          ///< a function of turns, of which poses show less than half a turn
  state = 16,        ///< a function with an internal state
  forces_read = 32,  ///< The program reads forces in every step.
  breakable = 64,
  own_laws = 128  ///< laws other than the compliance of stock joints
};

/// The constraints and bodies of an island.
struct Topology {
  struct Joint {
    int entry, place;     ///< Its entry, and its place among those of the island.
    int row, force_rows;  ///< Its first row, and how many rows are forces along orthonormal axes.
  };
  bool has(Trait t) const { return (traits & static_cast<unsigned>(t)) != 0; }
  void set(Trait t, bool on) { traits = on ? traits | static_cast<unsigned>(t) : traits & ~static_cast<unsigned>(t); }

  std::vector<int> entries;   ///< In the order of their rows.
  unsigned entries_made = 0;  ///< Number of entries that had been made when the island was laid out.
  std::vector<ConstraintId> ids;
  IslandLayout layout;
  std::vector<BodyId> bodies;    ///< All bodies that the constraints name, fixed and kinematic ones included.
  std::vector<BodyId> boundary;  ///< The fixed and kinematic ones of them.
  std::vector<int> cluster;      ///< By slot: equal for bodies that welds make one; −1: welded to a fixed body.
  bool has_clusters = false;
  std::vector<Joint> joints;  ///< The host's joints.
  unsigned traits = 0;
};

// ---- from step to step ----

/// The part of the history that is restored when a step is repeated.
struct RetryState {
  double last_length = 0;             ///< Length of the last step or substep [s]; 0 at the start.
  double next_length = 0;             ///< Length of the next fast substep, where the last step was taken in such [s].
  double next_substep = 0;            ///< Length of the first substep by stages of the next step [s]; 0: not known.
  double rejected_ratio = 0;          ///< ω·dt of the last rejected whole step over the sum of ω·h of its substeps.
  double typical_velocity_error = 0;  ///< |φ̇| at the start of the last step, O(dt).
  int extrapolation_steps = 0;        ///< Steps in a row that the extrapolation goes back.
  unsigned fast_from = 0;             ///< First step in which the fast path is tried again.
  unsigned fast_pause = 0;            ///< Number of steps in which it was not tried.
  unsigned loose_until = 0;           ///< Step from which convergence to rounding is required again.
  std::vector<Matrix3d> stiffness;    ///< K⁺ at the end of the last step, where the next step needs it (T15).
};

/// Data that the steps of an island leave to later ones.
struct History : RetryState {
  NewtonExtrapolation extrapolation;
  EnergyAccount energy;
  ResidualAccount residual;
  int halvings = 0;    ///< Parts of a step are no longer than the step divided by 2^halvings: energy or residual grew.
  int calm_steps = 0;  ///< Steps since one of them last grew so much.
  int failures = 0;    ///< Failed tries in a row.
  unsigned next_try = 0;     ///< The host solves the island until this step.
  unsigned last_step = 0;    ///< Last step in which the island took part.
  unsigned too_long_at = 0;  ///< Step in which host rows had been solved for a whole step that was too long.
  /// Step in which host rows had been solved with friction that their impulses make slide. 0: none.
  unsigned slides_at = 0;
  unsigned laws_marked_at = 0;  ///< Step in which the history of the laws at its start was stored. 0: none.
  bool was_contradictory = true;
  std::string failure;  ///< Reason of the last failure.
  FailureKind failure_kind = FailureKind::none;
  std::vector<char> sticking;  ///< By friction element: whether it stuck at the end of the last step.
};

/// A history as ConstraintSolver::history() stores it, with the states of laws.
struct IslandPast : History {
  std::vector<int> entries;
  std::shared_ptr<const Dynamics::LawHistory> laws;
};

// ---- one step ----

enum class Phase : unsigned char { waiting, begun, solved, refused, failed, written };
enum class Path : unsigned char { general, fast, coupled };  ///< coupled: The fast path among host rows.
enum class Division : unsigned char { whole, substeps, stages };
/// Rows of the host that act on an island, from none to the most.
enum class HostRows : unsigned char { none, joints, contacts, multibody };
/// How rows and island are solved together.
enum class RowMethod : unsigned char {
  alternating,  ///< The island is projected after each iteration of the host (block Gauss–Seidel).
  responses,    ///< Each row knows what its impulse does to the whole island.
  composite     ///< Welds make the island one body of the host's row solver.
};
/// The reason why the poses at the start of a step are off the constraints.
enum class StartGap : unsigned char {
  small,
  frames_moved,  ///< The program has moved joint frames. The step ends on them.
  turned_far     ///< A joint is on its way back. The step keeps its residual as it is.
};

/// The data of an island for one step. Each step begins with a new one.
struct IslandStep {
  Path path = Path::general;
  Division division = Division::whole;
  HostRows rows = HostRows::none;
  RowMethod method = RowMethod::alternating;
  StartGap start_gap = StartGap::small;

  bool problem_is_current = true;  ///< `dynamics` has the problem of the step's start.
  bool is_sized = false;           ///< Vectors that fast steps without host rows do not need have their size.
  bool has_forces = false;         ///< Constraint forces are known before the host's rows are solved.
  bool keeps_records = false;      ///< Impulses of substeps are summed for reports during the step.

  struct Poses {
    bool current = false;             ///< Base and end of its bodies are those of this step.
    bool pushed = false;              ///< The start poses were moved, by a split impulse or to close a gap.
    bool start_changed = false;       ///< The host must integrate from `base`.
    bool end_velocity_later = false;  ///< The host integrates the mean velocity, and gets the end velocity afterwards.
  } poses;
  struct Outcome {
    bool contradictory = false;
    bool over_budget = false;         ///< Solves or substeps cost too much.
    bool loose_convergence = false;   ///< Convergence to gap_tolerance is accepted.
    bool no_step_keeps_rows = false;  ///< Neither the step nor its substeps could be solved.
    bool repeats_rows = false;        ///< The host's rows are to be solved once more.
  } outcome;
  const char* order_reductions = nullptr;  ///< Reason why the step is not taken by stages; null: it is.

  int substeps = 1;
  int newton_solves = 0;
  double force_time = 0;         ///< Time over which forces act in a whole step of the general solver [s].
  double omega_dt = 0;           ///< Frequency of the geometric stiffness times dt (T15).
  double moved = 0, turned = 0;  ///< Largest displacement and turn by which a start gap was closed [m, rad].
  double gap_left = 0;           ///< Rest of that gap [m or rad].
  double turned_away = 0;        ///< Largest turn of a joint from its required rotation [rad].
  int turned_entry = -1;         ///< The entry of that joint.
  double first_substep = 0;      ///< Length with which the first substep by stages was tried [s].
  double substep_error = 0;      ///< Error of the last substep of Stepping::adaptive, in units of the tolerance.
  double dense_flops = 0;        ///< Work m² n of the factors that came from the dense solver.
  struct Energy {
    double start = 0, end = 0;   ///< Kinetic energy, or a lower bound of it, where no host row acts [J].
    double constraint_gain = 0;  ///< Energy from constraints that can do no work [J].
    double explained = 0;        ///< Part of it that constraints which move have given [J].
  } energy;
  struct FastSubsteps {
    double first_length = 0;   ///< Length of the first substep [s].
    double length_before = 0;  ///< Length of the substep or step before it [s].
  } fast_substeps;
};

/// Sums for `Counts`, since they were last collected.
struct IslandStats {
  long solves = 0, factorizations = 0, newton_solves = 0, substepped_steps = 0, substeps = 0, integrator_substeps = 0,
       rejected_substeps = 0, order_reductions = 0, stiffened_steps = 0, damped_steps = 0;
  double activation_energy = 0, stiffness_work = 0, damping_work = 0;
};

// ---- memory that each step fills again ----

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
  std::vector<char> sticks;                ///< by friction element, where the host rows start
  std::vector<double> before_rows;         ///< [n] with laws: velocities that host rows start from
  LawResponse law_response;                ///< of the laws to the host rows
  std::vector<double> mean_force;          ///< [m] multipliers of the force that the step applied (T15)
  std::vector<double> row_velocity;        ///< [m] mean row velocities of a fast step
  std::vector<double> force, dv;           ///< [n] scratch: impulses, changes of velocity
  std::vector<double> row;                 ///< [m] scratch
  std::vector<double> change, row_change;  ///< [n], [m] scratch
};

/// Sums over the substeps of a step. `h` marks sums of the current substep until it is accepted.
struct SubstepSums {
  std::vector<double> v;                      ///< [n] velocities at the end of the substep
  std::vector<double> applied, momentum;      ///< [n]
  std::vector<double> multipliers, work;      ///< [m]
  std::vector<double> largest_impulse;        ///< By slot: largest impulse and angular impulse on a body.
  std::vector<Vector6> wrenches;              ///< Mean wrenches by constraint and body, about the centres of mass.
  std::vector<double> gyroscopic;             ///< [n] gyroscopic impulses of free rotation in the substep
  std::vector<double> residual_target;        ///< [m] φ on which the substep is to end
  std::vector<double> h_applied, h_momentum;  ///< [n]
  std::vector<double> h_multipliers, h_work;  ///< [m]
  std::vector<Vector6> h_wrenches;
  std::vector<double> h_joint_impulses,
      joint_impulses;            ///< Fast path: JointIsland::Vectors::constraint_impulses.
  std::vector<double> law_last;  ///< LawWork::last of accepted substeps.
};

/// Entries of A by body, for impulses on single bodies.
class RowsByBody {
 public:
  void sort(const Assembly& assembly);
  /// rows −= A_k v_k of the body at `slot`, with v [n] and rows [m]
  void subtract_velocities(const IslandLayout& layout, int slot, std::span<const double> v,
                           std::span<double> rows) const;

 private:
  struct Entry {
    const double* J;
    int row, count;
  };
  std::vector<Entry> entries_;
  std::vector<int> begin_;  // by slot
};

/// The fast path of an island: its kernel, and whether the kernel can be used.
struct FastPath {
  linchpin::detail::JointIsland kernel;
  bool is_laid_out = false;  ///< The kernel was laid out, or cannot be.
  bool fits = false;         ///< The kernel may be used in this step.
  unsigned masses_at = 0;    ///< Bodies::mass_changes() when the kernel read the masses.
  std::vector<int> sides;    ///< Slots of the two bodies of each joint; −1: none.
  /// What the springs of compliance do: in the step or the current substep, and in the substeps that were accepted.
  std::vector<linchpin::detail::JointIsland::SpringImpulse> springs, spring_sums;
};

/// Bodies of an island that have a gyroscopic torque.
struct GyroscopicBodies {
  std::vector<char> active;         ///< by slot
  GyroscopicTorques step, substep;  ///< of the step, and of the current substep
};

/// Data of the last step from which reports are made when they are read.
struct PendingReport {
  bool is_current = true;        ///< Reactions and balances are those of the last step.
  bool work_in_balance = false;  ///< Its work is counted when the momentum balance is made.
  bool has_start_problem = false;
  ConstrainedProblem start_problem;  ///< The problem of the step's start, where substeps have overwritten it.
  std::vector<double> work;          ///< Work of each row that is not yet in the reactions [J].
  std::string law_trouble;           ///< The first trouble of a law in the accepted substeps.
  StandingWarnings standing;
  int flags_rank = -1;          ///< Rank at which redundancy was last reported.
  std::vector<Motion> written;  ///< Motions given to the host, of bodies whose end velocity comes later.
};

struct Island {
  bool has(Trait t) const { return topology.has(t); }
  bool failed() const { return phase == Phase::failed; }
  bool took_part(unsigned in_step) const { return !topology.ids.empty() && history.last_step == in_step && !failed(); }
  const IslandLayout& layout() const { return topology.layout; }
  std::size_t slots() const { return topology.layout.bodies.size(); }

  Topology topology;
  History history;
  RetryState before;                       ///< As the step began.
  std::unique_ptr<const IslandPast> past;  ///< The history that the island gets when it is laid out.

  Phase phase = Phase::waiting;
  bool detached = false;  ///< One of its bodies is not in the world.
  IslandStep step;
  IslandStats stats;

  StepVectors x;
  SubstepSums sums;
  RowLoad rows;
  std::vector<int> solver_body;  ///< By slot: index in the host's RowBody array; −1: none.
  RowsByBody rows_by_body;
  FastPath fast;
  GyroscopicBodies gyroscopics;
  std::vector<Matrix3d> stiffness;  ///< By slot: ½ dt² K⁺ of this step (T15); empty: none.
  RungeKuttaStages stages;
  std::optional<Dynamics> dynamics;  ///< Made when a step first needs it.
  /// Constraints at the end of the step, and the floors of its bodies by slot. Made when a step first needs them.
  std::unique_ptr<Assembly> at_end;
  std::vector<SpeedFloor> floors;
  PendingReport report;
};

/// States of a step that is taken in substeps. All islands that one worker solves share one set.
struct SubstepStates {
  State start, now, next, end, projected;
};

}  // namespace linchpin::host
