// Solves any island: all kinds of constraints and laws, redundant rows, implicit geometric stiffness, and steps by
// stages. It assembles the problem of an island and factors it (Dynamics).
#pragma once

#include "host/context.h"
#include "host/island_solver.h"
#include "host/substepper.h"

#include <linchpin/projection.h>

#include <span>

namespace linchpin::host {

class GeneralIslandSolver final : public RespondingIslandSolver {
 public:
  explicit GeneralIslandSolver(Context& c) : c_(c) {}

  bool begin(Island& b, bool among_rows) override;
  bool start(Island& b) override;
  void project(Island& b, std::span<double> change) override;
  void prepare_responses(Island& b) override;
  void respond(Island& b, std::span<const Impulse> impulses, std::span<double> motion) override;
  bool finish(Island& b, SubstepStates& states) override;
  /// Moves the start poses of an island by a split impulse of the host. The displacement is the nearest one, in the
  /// mass metric, that keeps the constraints.
  /// @param push  [n] velocities of the host's split impulse
  void push(Island& b, std::span<const double> push);

 private:
  void prepare_laws(Island& b);
  void note_state_before_rows(Island& b);
  bool ask_for_rows_with_sliding(Island& b);
  void release_friction_modes(Island& b);
  bool start_from_forces(Island& b, bool with_constraint_forces);
  void start_from_rows(Island& b);
  bool correct_start_gap(Island& b);
  bool try_stages(Island& b, SubstepStates& states, bool forces_are_open, bool& done);
  double predicted_length(const Island& b, bool among_rows) const;
  bool take_semi_implicit(Island& b, SubstepStates& states);
  bool set_law_time(Island& b);
  bool take_substeps_without_try(Island& b, SubstepStates& states, double before);
  bool redo_in_substeps(Island& b, SubstepStates& states, double before);
  Acceptance try_whole_step(Island& b);
  struct WholeStep {
    bool converged = false;
    bool is_re_linearized = false;  ///< at a pose ahead
    bool is_impossible = false;     ///< the problem cannot be evaluated there
  };
  WholeStep find_whole_velocities(Island& b);
  void start_newton(Island& b);
  bool re_linearize_ahead(Island& b);
  bool is_energy_acceptable(Island& b);
  void find_multipliers(Island& b, bool accepted);

  Context& c_;
};

/// Solves the end-of-step Newton (T12), and alternates it with re-applying stick and with the gyroscopic
/// update until neither changes the velocities. The constraints have the last iteration.
/// @param evaluated  state of the problem
/// @param base, end  start and end poses
/// @param h  [s]
/// @param v  [n] in and out
NewtonReport end_step(const Context& c, Island& b, const State& evaluated, const State& base, State& end, double h,
                      std::span<double> v, GyroscopicTorques& gyroscopic, std::span<const double> residual_target = {});
/// Records the energy of the impulse by which a step gets its velocity constraints (T14), as of a body that was just
/// thrown. Steps of a host are always off by O(dt), so only an error far above that of the last step counts.
void note_activation(Island& b);
/// Stores the first trouble of the laws in the accepted substeps of a step.
void note_law_trouble(Island& b);
/// Finds which constraints of the user's own depend on time: φ_t ≠ 0.
void note_time_dependence(Context& c, Island& b);
/// Clears the work of laws in this step and restores their states, where its substeps are not accepted.
void forget_law_works(Context& c, Island& b);

}  // namespace linchpin::host
