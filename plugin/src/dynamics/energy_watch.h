// Compares the energy that each island gains in a step with the work of its sources (T15). Ideal constraints that do
// not move, gyroscopic torques and the integration itself are no sources. What they add up to is the error of the
// method. It oscillates where the method follows the motion, and grows where the step is too long. Private to the core.
#pragma once

#include "dynamics/energy_account.h"

#include <linchpin/dynamics.h>
#include <linchpin/system.h>

#include <span>
#include <vector>

namespace linchpin {

class EnergyWatch {
 public:
  /// Finds the islands: bodies that constraints or forces join. Gains so far are forgotten.
  void restructure(const System& system, const IslandLayout& layout);
  /// Begins a step, or tries it again.
  void begin(const System& system, const State& at);
  /// A step that has been made.
  struct Step {
    const State &start, &end;
    double dt;  ///< [s]
    /// Times since the velocities at the start and the end [s]: semi-implicit ones are those of the middle of a
    /// substep. Potentials are taken where the bodies were then.
    double start_lag = 0, end_lag = 0;
  };
  /// Ends a step that may still be tried again.
  /// @param dynamics  gives the applied forces of the last evaluation
  /// @param sources  work of the sources by slot, without forces with a potential (ImpulseRecorder::sources()) [J]
  /// @return the largest gain of an island, relative to what its motion and its sources explain
  double end(const System& system, const Dynamics& dynamics, const Step& step, std::span<const double> sources);
  /// Counts the change of energy of an island in the step as explained, by a constraint whose work is not known.
  /// @param body  one of the island @return as end()
  double explain(const IslandLayout& layout, BodyId body);
  /// Returns true if the island with that gain gained some of it in the step.
  bool grows() const { return worst_ >= 0 && islands_[static_cast<std::size_t>(worst_)].account.grows(); }
  /// Accepts the step.
  void accept();

  /// The island with the largest relative gain of the last step.
  double gain() const { return worst_ < 0 ? 0 : islands_[static_cast<std::size_t>(worst_)].account.gain(); }  ///< [J]
  BodyId first_body() const { return worst_ < 0 ? BodyId{} : islands_[static_cast<std::size_t>(worst_)].first; }
  int bodies() const { return worst_ < 0 ? 0 : islands_[static_cast<std::size_t>(worst_)].bodies; }
  /// Counts that gain as explained from now on.
  void forget_gain();

 private:
  struct Island {
    BodyId first;
    int bodies = 0;
    double start = 0, end = 0;  // Kinetic energy at the start and the end of the step [J].
    double sources = 0;         // Their work in the step [J].
    double rest = 0;            // Energy that the applied forces could give from rest in this step [J].
    EnergyAccount account{};
  };
  double kinetic(const System& system, const State& at, std::size_t slot) const;
  void add_potential_work(const System& system, const IslandLayout& layout, const Step& step);
  double find_worst();

  std::vector<Island> islands_;
  std::vector<int> island_of_;  // By slot; −1 for coordinates, whose energy is not watched.
  std::vector<BodyId> bodies_;  // By slot.
  int worst_ = -1;
  std::vector<BodyState> of_force_start_, of_force_end_;  // Scratch.
};

}  // namespace linchpin
