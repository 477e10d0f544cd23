// Compares the energy that each island gains in a step with the work of its sources (T15). Ideal constraints that do
// not move, gyroscopic torques and the integration itself are no sources. What they add up to is the error of the
// method. It oscillates where the method follows the motion, and grows where the step is too long. Private to the core.
#pragma once

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
  /// Ends a step that may still be tried again.
  /// @param dynamics  gives the applied forces of the last evaluation
  /// @param sources  work of the sources by slot [J]  @param dt  length of the step [s]
  /// @return the largest gain of an island, relative to what its motion and its sources explain
  double end(const System& system, const Dynamics& dynamics, const State& at, std::span<const double> sources,
             double dt);
  /// Returns true if the island with that gain gained some of it in the step.
  bool grows() const { return worst_ >= 0 && islands_[static_cast<std::size_t>(worst_)].pending > 0; }
  /// Accepts the step.
  void accept();

  /// The island with the largest relative gain of the last step.
  double gain() const { return worst_ < 0 ? 0 : islands_[static_cast<std::size_t>(worst_)].gain; }  ///< [J]
  BodyId first_body() const { return worst_ < 0 ? BodyId{} : islands_[static_cast<std::size_t>(worst_)].first; }
  int bodies() const { return worst_ < 0 ? 0 : islands_[static_cast<std::size_t>(worst_)].bodies; }
  /// Counts that gain as explained from now on.
  void forget_gain();

 private:
  struct Island {
    BodyId first;
    int bodies = 0;
    double start = 0, end = 0;  // Kinetic energy at the start and the end of the step [J].
    double gain = 0;            // Energy without a source, since it was least [J].
    double pending = 0;         // Part of it that the step adds [J].
    double scale = 0;           // Largest kinetic energy without that gain so far [J].
    double rest = 0;            // Energy that the applied forces could give from rest in this step [J].
    double floor = 0;           // The largest such energy so far [J].
  };
  double kinetic(const System& system, const State& at, std::size_t slot) const;

  std::vector<Island> islands_;
  std::vector<int> island_of_;  // By slot; −1 for coordinates, whose energy is not watched.
  std::vector<BodyId> bodies_;  // By slot.
  int worst_ = -1;
};

}  // namespace linchpin
