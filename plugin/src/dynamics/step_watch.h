// Compares each island with its rules after a step (T15). The energy that it gains is compared with the work of its
// sources, and its velocities with the rows of its constraints. Ideal constraints that do not move, gyroscopic torques
// and the integration itself are no sources. What they add up to is the error of the method. It oscillates where the
// method follows the motion, and grows where the step is too long. Private to the core.
#pragma once

#include "dynamics/energy_account.h"
#include "dynamics/velocity_residual.h"

#include <linchpin/dynamics.h>
#include <linchpin/system.h>

#include <span>
#include <vector>

namespace linchpin {

class StepWatch {
 public:
  /// Finds the islands: bodies that constraints or forces join. Gains and residuals so far are forgotten.
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

  // ---- energy ----

  /// Compares the energies of a step that may still be tried again.
  /// @param dynamics  gives the applied forces of the last evaluation
  /// @param sources  work of the sources by slot, without forces with a potential (ImpulseRecorder::sources()) [J]
  /// @return the largest gain of an island, relative to what its motion and its sources explain
  double compare_energies(const System& system, const Dynamics& dynamics, const Step& step,
                          std::span<const double> sources);
  /// Counts the change of energy of an island in the step as explained, by a constraint whose work is not known.
  /// @param body  one of the island @return as compare_energies()
  double explain(const IslandLayout& layout, BodyId body);
  /// Returns true if the island with that gain gained some of it in the step.
  bool gain_grows() const { return worst_ >= 0 && islands_[static_cast<std::size_t>(worst_)].account.grows(); }
  /// The island with the largest relative gain of the last step.
  double gain() const { return worst_ < 0 ? 0 : islands_[static_cast<std::size_t>(worst_)].account.gain(); }  ///< [J]
  BodyId first_body() const { return worst_ < 0 ? BodyId{} : islands_[static_cast<std::size_t>(worst_)].first; }
  int bodies() const { return worst_ < 0 ? 0 : islands_[static_cast<std::size_t>(worst_)].bodies; }
  /// Counts that gain as explained from now on.
  void forget_gain();

  // ---- velocities ----

  /// Compares the velocities at the end of a step with the rows there.
  /// @param assembly  constraints assembled at step.end. Its layout is that of the islands.
  void compare_velocities(const System& system, const Dynamics& dynamics, const Assembly& assembly, const Step& step);
  /// Returns true if the residual of an island is above `limit` and grew in the step.
  bool residual_grows(double limit) const;

  /// Accepts the step. Calls name(RowResidual) for each island whose residual has come above `limit`.
  template <class Name>
  void accept(double limit, Name name) {
    for (Island& island : islands_) {
      island.account.accept_step();
      if (island.residual.accept_step(limit)) name(island.residual.worst());
    }
  }

 private:
  struct Island {
    BodyId first;
    int bodies = 0;
    double start = 0, end = 0;  // Kinetic energy at the start and the end of the step [J].
    double sources = 0;         // Their work in the step [J].
    double rest = 0;            // Energy that the applied forces could give from rest in this step [J].
    EnergyAccount account{};
    bool has_coordinates = false;  // Its energy is not compared.
    ResidualAccount residual{};
  };
  /// What the applied forces give a body from rest in a step, and the speed that closes the rounding of its pose.
  struct FromRest {
    double rounding = 0;  // [m/s, rad/s]
    Vector3d v = Vector3d::Zero(), w = Vector3d::Zero();
    double energy = 0;  // With that of the rounding [J].
  };
  static FromRest from_rest(const System& system, const Dynamics& dynamics, const Step& step, std::size_t slot);
  double kinetic(const System& system, const State& at, std::size_t slot) const;
  void add_potential_work(const System& system, const IslandLayout& layout, const Step& step);
  double find_worst();

  std::vector<Island> islands_;
  std::vector<int> island_of_;  // By slot.
  std::vector<BodyId> bodies_;  // By slot.
  int worst_ = -1;
  std::vector<BodyState> of_force_start_, of_force_end_;  // Scratch.
  std::vector<SpeedFloor> floors_;                        // By slot. Scratch.
};

}  // namespace linchpin
