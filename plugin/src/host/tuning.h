// The tuning constants of the step of a host, by mechanism. Each has a unit, where it has one, and a reason. Options
// has the numbers that a user may want to change.
#pragma once

#include <cstddef>

namespace linchpin::host::tuning {

/// Length of a step before the first one is known [s].
inline constexpr double first_dt = 1.0 / 60;
/// Stands for no limit on a number of substeps or tries.
inline constexpr int no_limit = 1 << 28;

// ---- energy that a step may gain (step_acceptance.cpp, energy_budget.cpp; T15) ----

/// Fraction of its kinetic energy that a step may gain from constraints that can do no work. A step that is short
/// enough gains far less; one in which a chain becomes taut gains more.
inline constexpr double allowed_gain = 0.02;
/// Fraction of its kinetic energy that limits and locks may give a mechanism in a step. It is less than that of
/// constraints, because what constraints give in one step they take in the next.
inline constexpr double allowed_limit_gain = 0.2 * allowed_gain;
/// Roundings of a pose, and Newton tolerances, that a step may have to close. Below the energy of that motion a gain
/// means nothing.
inline constexpr double floor_pose_roundings = 4, floor_newton_tolerances = 100;
/// Share of the work of the host's rows that may be missing, because iterations end before they are exact.
inline constexpr double unsolved_work = 1e-3;
/// Allowances by which a substep may exceed its energy before passive rows are dropped from it.
inline constexpr double far_gain = 2;

// ---- the watch over energies and velocity residuals (island_watch.cpp; T15) ----

/// Halvings of a step in which energy or a velocity residual has grown. A program cannot wait for more parts of every
/// step.
inline constexpr int max_halvings = 6;
/// Steps without growth after which a step is divided into half as many parts.
inline constexpr int calm_steps = 64;

// ---- rotations (start_of_step.cpp, step_acceptance.cpp, body_registry.cpp) ----

/// Turn in a step at which a pose no longer shows which way a body has turned: half a turn, less a margin [rad].
inline constexpr double half_turn = 3;
/// Turn over which accelerations of rows are extrapolated at most [rad]. Farther on the rows point elsewhere.
inline constexpr double max_extrapolated_turn = 2;
/// Change of a velocity, relative to it, that a gyroscopic update must exceed to be repeated: rounding.
inline constexpr double gyroscopic_rounding = 1e-12;
/// Difference, relative to the larger, between the rate of a kinematic body and that of its last two poses, up to which
/// the poses are believed. A host may find the rate from an arc cosine in single precision, off by percents.
inline constexpr double kinematic_rate_error = 0.25;

// ---- Newton and the whole step (general_island_solver.cpp, fast_island_solver.cpp; T12) ----

/// Alternations of Newton with the stick of friction, and with the gyroscopic update. Each round changes the velocities
/// by less than the one before. A body that turns by radians in a step needs more.
inline constexpr int max_end_rounds = 4, max_end_rounds_with_gyroscopic = 20;
/// Alternations in which stick is applied again. The constraints have the last one.
inline constexpr int max_stick_rounds = 3;
/// Change of a velocity by stick that is rounding, over the largest velocity.
inline constexpr double stick_rounding = 1e-15;
/// Residual of a fast Newton that has stopped at rounding, and not because the step is too long [m, rad].
inline constexpr double newton_rounding = 1e-12;
/// Residual over the gap at the start, plus a rounding [m], from which a mechanism counts as held by curvature.
inline constexpr double curvature_gap_factor = 10, curvature_rounding = 1e-12;
/// Steps ahead at which a singular pose is linearised again. Nearer to it the multipliers would be huge.
inline constexpr double re_linearisation_steps = 10;
/// Largest ω·dt with ½ dt² K⁺ in the inertia [1]. Exact stiffness would leave √2, but K⁺ may be that of the last step.
inline constexpr double max_stiffened_omega_dt = 1.9;
/// Share of the limit of ω·dt from which a body gets implicit stiffness: it may come to the limit within the step.
inline constexpr double stiffened_share = 0.5;
/// Velocity of a constraint by itself, φ_t, relative to that of its bodies, above which it depends on time.
inline constexpr double time_dependence = 1e-9;
/// Rows up to which the dense solver may take an island. It takes a millisecond for so many, and a step does not wait
/// longer.
inline constexpr int max_dense_rows = 120;

// ---- extrapolation of Newton's impulses (newton_extrapolation.cpp) ----

/// Differences that are kept: of steps in a row, the polynomial has one degree less.
inline constexpr int extrapolation_orders = 6;
/// Error of a prediction, over what Newton has to add, above which it saves no solve.
inline constexpr double max_extrapolation_error = 0.1;
/// Steps without a useful prediction after which none is tried, and for how many steps. Rough motion stays rough.
inline constexpr int extrapolation_patience = 12, extrapolation_pause = 64;

// ---- substeps (substepper.cpp, general_substep.cpp; T15) ----

/// Rounding of the time within a step, over the step.
inline constexpr double time_rounding = 1e-12;
/// Rounding of the number of substeps to the end of a step: a length that fits up to it is not shortened.
inline constexpr double substep_rounding = 1e-9;
/// Margin below the limit of ω·h that the next substep aims at.
inline constexpr double omega_safety = 0.9;
/// Length of the first substep, over the step: two at least, and no more than eight before ω·h of one is known.
inline constexpr double min_first_substep = 0.125, max_first_substep = 0.5;
/// Change of length from one substep to the next. It limits the effect of a single value of ω.
inline constexpr double min_growth = 0.5, max_growth = 2;
/// Share of the limit of ω·h below which only a bound of ω is computed, because the next substep may be twice as long.
inline constexpr double doubling_share = 0.45;
/// Shortest substep, as a fraction of a step shared out evenly. A light link that a heavy load turns over as the link
/// becomes taut needs it.
inline constexpr int shortest_fraction = 256;
/// Share of the step that the last one must have had, for host rows to start as for a whole step.
inline constexpr double whole_length = 0.99;
/// Work of the tries that are tested where the energy of host rows is bounded: rows times fast tries. A program cannot
/// wait longer than a frame.
inline constexpr double tested_work = 6000;
/// Tries that are tested at least, at any cost.
inline constexpr int min_tested = 16;
/// All tries, for each that is tested. It bounds the search for a length that is short enough.
inline constexpr int tries_per_tested = 7;
/// Price of a try of the general solver, over that of a fast one.
inline constexpr double general_price = 8;
/// Most work of the substeps of one step: rows times substeps that converge to rounding, and of those that converge to
/// gap_tolerance, among rows that depend on each other.
inline constexpr int max_row_substeps = 10000, max_loose_row_substeps = 200000;
/// Most work of dense factors in a step, m² n: a tenth of a second. A taut bridge takes hundreds of substeps in every
/// step, and a program that waits seconds for each step does not run at all.
inline constexpr double max_dense_flops = 2e7;
/// Steps for which convergence to gap_tolerance is accepted after convergence to rounding has cost too much.
inline constexpr unsigned loose_steps = 60;
/// Gap at the start of a substep that is rounding, and is closed whole [m].
inline constexpr double substep_gap_rounding = 1e-12;

// ---- stages of rk4 and adaptive (staged_integrator.cpp; T13) ----

/// Limit of ω·h, over that of the semi-implicit step. The former is stable up to ω·h = 2√2, the latter up to 2. Near
/// its limit rk4 also damps a motion instead of feeding it.
inline constexpr double rk4_omega_factor = 2.4;
/// Share of the limit of ω·h that a substep aims at.
inline constexpr double rk4_omega_margin = 0.9;
/// Share of a substep's motion and velocities by which its end may be off the constraints before it is projected. A
/// larger error is that of a motion that is over before a stage has seen it.
inline constexpr double max_projection_share = 0.02;
/// Largest rate · h of smooth laws. Laws are explicit in the stages of rk4, and far beyond 1 they drive what they
/// should damp.
inline constexpr double max_law_rate = 1;
/// Share of a limit, or of the length that an error allows, that the next length aims at.
inline constexpr double stage_safety = 0.9;
/// Change of length after a rejected substep of adaptive, and the change where the error is not known.
inline constexpr double min_shortening = 0.1, max_shortening = 0.9, unknown_shortening = 0.25;
/// Change of length after a rejected substep of rk4.
inline constexpr double rk4_shortening = 0.5;
/// Change of length after an accepted substep of adaptive. The error of an RK pair predicts no farther.
inline constexpr double min_stage_growth = 0.2, max_stage_growth = 5;
/// Error, over the tolerance, below which it predicts nothing about the next length.
inline constexpr double min_stage_error = 1e-10;
/// Velocity error at the start, over the velocity, up to which the accelerations are not evaluated again after its
/// impulse. The change of the accelerations is then rounding.
inline constexpr double small_start_impulse = 1e-6;
/// Change of the velocity of a kinematic body in a step, over the velocity, up to which its motion is taken as a curve.
/// A body that starts, stops or turns round goes straight.
inline constexpr double max_kinematic_bend = 0.5;

// ---- gaps at the start of a step (start_gap.cpp; T12) ----

/// Turn by which a body is brought back in a step [rad]. A viewer can follow it.
inline constexpr double max_turn_back = 0.5;
/// Share of that turn which a joint must have used to count as still on its way.
inline constexpr double used_turn_back = 0.9;
/// Displacement above which the problem is evaluated at the new poses [m, rad]. The rounding of a host in single
/// precision is below it. Rows of far older poses would hold the bodies askew.
inline constexpr double far_moved = 1e-4;
/// Gap above which the host's rows start from linearised velocities [m]: Newton would make the gap a velocity.
inline constexpr double far_open = 1e-3;

// ---- rows of the host (row_coupling.cpp, whole_step.cpp) ----

/// Newton for the velocities that the host's rows start from: tolerance of φ [m or rad], tolerances up to which the
/// velocities are accepted, and solves. Rows that iterate need no last digits; the end of the step has them.
inline constexpr double start_tolerance = 1e-9, start_slack = 1e3;
inline constexpr int start_solves = 5;
/// Rows on an island up to which each gets a solve of its own in a step. More rows alternate with the island.
inline constexpr int max_response_rows = 64;
/// Rows on a body above which their responses are sums of the six unit responses of the body.
inline constexpr int max_own_responses = 6;
/// Share of its motion that the constraints must leave a row. Below it the row is held by them, but for rounding, and
/// is inactive. A tonne a metre out on a hinge pin of a few grams is above it.
inline constexpr double min_freedom = 1e-6;
/// Time in which a limit may bring back a mechanism at rest [s].
inline constexpr double limit_return_time = 2;
/// Approach velocity of a contact, over that at the start, from which it is left approaching.
inline constexpr double left_approaching = 2;
/// Accuracy of the host's iterations, over the change of velocity of the bodies.
inline constexpr double iteration_accuracy = 1e-4;

// ---- islands that cannot be solved (fallback.cpp, fast_island_solver.cpp) ----

/// Tries in a row without a pause. One that has failed so often will most likely fail again.
inline constexpr int fallback_patience = 8;
/// Powers of two of the longest pause [steps], and of the longest after tries that cost much.
inline constexpr int max_pause_power = 6, max_costly_pause_power = 9;
/// Work of a costly try: rows times substeps. A program waits a second for it.
inline constexpr double costly_try_work = 1e5;
/// Rows of an island whose gap does not close, above which a try is costly: it is factored many times.
inline constexpr int costly_gap_rows = 60;
/// Error of second order that no velocity reaches, above which it is no rounding [m, rad].
inline constexpr double unreachable_rounding = 1e-13;
/// Share of the largest such error, or load, from which on a constraint yields. Constraints beside a straight chain
/// have only what the bodies between turn.
inline constexpr double yielding_share = 0.05;
/// Stiffness of a constraint that yields, where the program has given none, times dt² over the mass.
inline constexpr double yielding_stiffness = 100;
/// Longest pause of the fast path [steps].
inline constexpr unsigned max_fast_pause = 1024;

// ---- sleeping (sleep_policy.cpp) ----

/// Motion since its timer began up to which a body is at rest [m, rad]. A pendulum in mid-air moves more in that time.
inline constexpr double rest_motion = 1e-3;

// ---- bodies that a host stops early (write_back.cpp) ----

/// Square of velocities that every host can hold, those of single precision too [m²/s² + rad²/s²].
inline constexpr double held_by_all_hosts = 1e30;

/// Roundings of the host by which a body may miss its end without having been stopped.
inline constexpr double swept_roundings = 64;

// ---- reports (diagnostics.cpp, law_records.h) ----

/// Residual at the start that a check reports, of the host's joints and of the user's constraints [m, rad]. Joints of a
/// host are made from poses in single precision.
inline constexpr double reported_joint_residual = 1e-3, reported_user_residual = 1e-6;
/// Activation energy that a summary reports [J].
inline constexpr double reported_activation = 1e-3;
/// Warnings of laws that are kept. The first ones show the cause.
inline constexpr std::size_t max_law_warnings = 16;
/// Constraints that were removed with their bodies, of which the names are kept.
inline constexpr long max_dropped_constraints = 16;

}  // namespace linchpin::host::tuning
