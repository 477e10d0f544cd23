// Records the impulses of a step by body, constraint and kind, and their work (T11). Every value is recorded
// separately, and none is computed by subtracting the others. Private to the core.
#pragma once

#include "problem/jacobian_products.h"

#include <linchpin/report.h>
#include <linchpin/system.h>

namespace linchpin {

class ImpulseRecorder {
 public:
  /// Selects a new block. @param forget  clears also the work done so far
  void restructure(const System& system, const IslandLayout& layout, bool forget);
  /// Stores the records since begin(), and restores them, for substeps that are repeated.
  void store();
  void restore();
  /// Begins the records of a step. Removes the records of laws that have been cleared.
  void begin(const System& system);
  /// Records the forces of `dynamics` at `state`, acting for `dt`, and in addition impulses λ of stabilisation [m].
  /// Work is impulse · ½(v₀ + v₁).
  void record(const System& system, const Dynamics& dynamics, const State& state, double dt,
              std::span<const double> stabilisation, std::span<const double> v0, std::span<const double> v1);
  /// Records an applied impulse [n] in addition to dt·Q.
  void record_applied(const IslandLayout& layout, std::span<const double> impulse, std::span<const double> v0,
                      std::span<const double> v1);
  /// Records M(v₁ − v₀), with the blocks of M one after the other as in a ConstrainedProblem.
  void record_momentum(const IslandLayout& layout, const ConstrainedProblem& problem, std::span<const double> mass,
                       std::span<const double> v0, std::span<const double> v1);
  /// Adds the work of a plastic impact on a constraint, and the change of kinetic energy that it makes. It happens at
  /// an instant, outside begin() and close().
  void record_impact(ConstraintId on, double work);
  /// Ends the records of a step, and adds the work of `dt` to the totals. A step that is not closed does not count.
  void close(double dt);

  /// Fills work and stabilisation of reactions of this block, at `state` after a step of `dt`.
  void fill_work(const System& system, const IslandLayout& layout, const State& state, double dt,
                 std::vector<Reaction>& reactions) const;
  std::span<const MomentumBalance> momentum_balances() const { return balances_; }
  double work() const;                    ///< Work of constraints and laws together.
  double work_of(ConstraintId id) const;  ///< Work of one constraint since the start, also where it is not enabled.
  const EnergyBalance& energy() const { return energy_; }
  std::span<const LawWork> laws() const { return laws_; }
  /// Work of the sources of energy on each body of the block since begin() [J]: applied forces without gyroscopic
  /// torques, laws, and constraints that move. Forces with a potential are not among them, but gravity is. The work of
  /// one law or constraint is all on its first body.
  std::span<const double> sources() const { return sources_; }

 private:
  struct Impulse {  // On one body of a constraint, about its centre of mass: [force; moment] · dt.
    Vector6d own = Vector6d::Zero(), stabilisation = Vector6d::Zero();
  };
  std::vector<Impulse> impulses_;
  std::vector<int> start_;            // Start of each constraint in impulses_.
  std::vector<int> constraint_;       // Index of its id.
  std::vector<double> work_of_step_;  // Per constraint of the block.
  std::vector<double> work_;          // By constraint id, since the start.
  std::vector<unsigned> version_;     // Version of that constraint id.
  double work_of_removed_ = 0;        // Work of removed constraints whose index has been reused.
  std::vector<MomentumBalance> balances_;
  std::vector<LawWork> laws_;
  std::vector<unsigned long> cleared_;  // For each law: number of clear_laws() calls of its constraint before it began.
  unsigned long law_changes_ = 0;       // Value of the system's law_changes at the last begin().
  std::size_t next_law_ = 0;
  EnergyBalance energy_, energy_of_step_;
  std::vector<double> sources_;  // By slot.

  struct {
    std::vector<Impulse> impulses;
    std::vector<double> work, law;
    std::vector<MomentumBalance> books;
    EnergyBalance energy;
    std::vector<double> sources;
  } stored_;
  std::size_t law_index(const System& system, ConstraintId on, int law, int term);
};

}  // namespace linchpin
