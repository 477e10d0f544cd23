// The work and the warnings of force laws, over the steps of a host.
#pragma once

#include <linchpin/dynamics.h>
#include <linchpin/host.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace linchpin::host {

class Constraints;
struct Island;

/// The warnings of laws since the start, each text once.
class LawWarnings {
 public:
  /// Adds a warning of one step. Allocates only for a new one.
  void note(std::string_view text, double t, unsigned step);
  /// Adds a warning that holds as long as laws and constraints stay as they are. Its steps are not counted.
  void note_standing(std::string_view text, double t) { find(text, t); }
  const std::vector<LawWarning>& all() const { return all_; }
  bool full() const { return full_; }  ///< There were more.
  void clear() { *this = {}; }

 private:
  int find(std::string_view text, double t);

  std::vector<LawWarning> all_;
  std::vector<unsigned> last_step_;  // Step in which each was last added.
  bool full_ = false;
};

/// Records whether the standing warnings of an island were added, with redundant rows and without.
struct StandingWarnings {
  unsigned law_edits = 0;  ///< Number of edits of laws at that time.
  std::array<bool, 2> noted{};
};

class LawRecords {
 public:
  /// Returns every term of every law, in the order of the reactions. Sorts them first if constraints have changed.
  std::span<LawWork> all(Constraints& constraints);
  std::span<LawWork> of(const ConstraintEntry& entry) {
    return std::span(works_).subspan(static_cast<std::size_t>(std::max(0, entry.law_range.first)),
                                     static_cast<std::size_t>(entry.law_range.count));
  }
  void begin_step(Constraints& constraints);
  /// Sets the forces of laws to zero whose entry is off or broken. Their work stays.
  void clear_forces(const ConstraintEntry& entry) {
    for (LawWork& law : of(entry)) {
      law.force = law.normal = law.difference = {};
      law.power = law.bound = 0;
    }
  }
  /// The assignment of laws to entries has changed, or the order of reactions.
  void constraints_changed() { changed_ = true; }
  /// Laws were added or removed. Standing warnings are added again.
  void laws_changed() {
    changed_ = true;
    ++edits_;
  }
  void forget_noted() { ++edits_; }

  /// Adds the work of the last evaluation of `dynamics`, at the state `at`. It acts for dt from velocities v0 to v1
  /// [n].
  /// @param entries  by constraint of the island
  /// @param by_row   [m] or empty: the work on bodies that equations move is added to the first row of its constraint
  void book(const System& system, Constraints& constraints, std::span<const int> entries, const Dynamics& dynamics,
            const State& at, double dt, std::span<const double> v0, std::span<const double> v1,
            std::span<double> by_row = {});
  /// Adds the warnings of the laws of `dynamics`.
  /// @param trouble  that of this step
  void note_warnings(const Dynamics& dynamics, std::string_view trouble, StandingWarnings& standing, double t,
                     unsigned step);

  LawWarnings warnings;
  LawWarnings failures;  ///< of steps in which no law acted, because one of them failed

 private:
  void order(Constraints& constraints);

  std::vector<LawWork> works_;
  bool changed_ = false;
  unsigned edits_ = 1;
};

}  // namespace linchpin::host
