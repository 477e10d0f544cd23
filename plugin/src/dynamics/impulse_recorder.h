// What was applied in a step, to which body, by which constraint, in which part; and what work it did (T11). Every
// number has a record of its own: nothing here is found by subtracting the others. Private to the core.
#pragma once

#include "problem/jacobian_products.h"

#include <linchpin/report.h>
#include <linchpin/system.h>

namespace linchpin {

class ImpulseRecorder {
 public:
  /// Follows a new block. @param forget  also the work done so far.
  void restructure(const System& system, const Block& block, bool forget);
  /// Remembers what has been recorded since begin(), and goes back to it: for parts of a step that are taken again.
  void keep();
  void undo();
  /// Opens the books of a step. Accounts of laws that have been cleared are closed.
  void begin(const System& system);
  /// What `dynamics` found at `state`, acting for `dt`, and impulses λ of stabilisation [m] on top.
  /// Work is impulse · ½(v₀ + v₁).
  void record(const System& system, const Dynamics& dynamics, const State& state, double dt,
              std::span<const double> stabilisation, std::span<const double> v0, std::span<const double> v1);
  /// An applied impulse [n] beyond dt·Q.
  void record_applied(const Block& block, std::span<const double> impulse, std::span<const double> v0,
                      std::span<const double> v1);
  /// M(v₁ − v₀), with the blocks of M one after the other as in an Instant.
  void record_momentum(const Block& block, const Instant& instant, std::span<const double> mass,
                       std::span<const double> v0, std::span<const double> v1);
  /// Closes them: the work of `dt` counts from now on. A step that is not closed has not happened.
  void close(double dt);

  /// Work and stabilisation of reactions of this block, as they are at `state` after a step of `dt`.
  void complete(const System& system, const Block& block, const State& state, double dt,
                std::vector<Reaction>& reactions) const;
  std::span<const BodyBooks> books() const { return books_; }
  double work() const;  ///< of constraints and laws together
  const EnergyBooks& energy() const { return energy_; }
  std::span<const LawWork> laws() const { return laws_; }

 private:
  struct Impulse {  // on one body of a constraint, about its centre of mass [force; moment] · dt
    Vector6d own = Vector6d::Zero(), stabilisation = Vector6d::Zero();
  };
  std::vector<Impulse> impulses_;
  std::vector<int> start_;            // of each constraint in impulses_
  std::vector<int> constraint_;       // index of its id
  std::vector<double> work_of_step_;  // per constraint of the block
  std::vector<double> work_;          // by constraint id, since the start
  std::vector<unsigned> version_;     // of whom that is
  double work_of_removed_ = 0;        // whose place another has
  std::vector<BodyBooks> books_;
  std::vector<LawWork> laws_;
  std::vector<unsigned long> cleared_;  // of each: how often its constraint's laws had been cleared when it began
  unsigned long law_changes_ = 0;       // of the system, as last looked at
  std::size_t next_law_ = 0;
  EnergyBooks energy_, energy_of_step_;

  struct {
    std::vector<Impulse> impulses;
    std::vector<double> work, law;
    std::vector<BodyBooks> books;
    EnergyBooks energy;
  } kept_;
  std::size_t law_index(const System& system, ConstraintId on, int law, int term);
};

}  // namespace linchpin
