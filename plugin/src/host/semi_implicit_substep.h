// Substeps of order 1 (T15). Applied forces are spread evenly over the step, and so is the part of the host's impulses
// that balances them. Impacts act in the first substep. Each substep ends on the constraints, and is tested by its own
// ω·h and energy.
#pragma once

#include "host/context.h"
#include "host/substepper.h"

#include <span>
#include <vector>

namespace linchpin::host {

/// The common base of the substeps of both island solvers.
class SemiImplicitSubstep : public SubstepMethod {
 public:
  SemiImplicitSubstep(Context& c, Island& b, double energy_allowed);
  Acceptance attempt(Substep& s) final;
  double next(const Substep& s) final { return s.length * (s.is_tested ? growth(c_, s.omega_dt) : 2); }
  double largest_omega_dt() const { return largest_omega_dt_; }

 protected:
  /// Finds the end of a substep from `now()`, and tests it.
  virtual Acceptance solve(Substep& s) = 0;
  virtual State& now() = 0;
  virtual std::span<const double> start_velocities() = 0;  ///< at the start of the substep [n]
  virtual std::span<double> end_velocities() = 0;          ///< [n]
  /// Returns whether the energy that constraints gave so far, with `gain` of this substep, is too much [J].
  bool gains_too_much(const Substep& s, double gain, double end_energy, double start_energy) const;
  void accepted(const Substep& s);
  /// Returns whether energy is bounded by damping. Then end_velocities() may differ from the motion of the substep.
  bool bounds_energy() const { return bounds_energy_; }

  Context& c_;
  Island& b_;
  std::vector<double>& undamped_;  ///< [n] velocities by which the poses move

 private:
  const bool bounds_energy_;
  const double allowed_;  // [J]
  double gained_ = 0;     // [J] where energy is not bounded by damping
  double largest_omega_dt_ = 0;
};

/// Ends an accepted step in substeps: stores its sums and sets the poses. Both island solvers use it.
void end_semi_implicit_substeps(Context& c, Island& b, const State& end, const SubstepResult& result,
                                double largest_omega_dt, bool keeps_records);

}  // namespace linchpin::host
