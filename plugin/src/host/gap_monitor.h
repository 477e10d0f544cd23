// Measures the gaps of all constraints on positions after each step of the host, from the poses as the host stores
// them.
#pragma once

#include <linchpin/constraint.h>
#include <linchpin/host.h>
#include <linchpin/joints.h>
#include <linchpin/system.h>

#include <array>
#include <map>
#include <span>
#include <vector>

namespace linchpin::host {

struct Context;

/// Runs of numbers in one array. A run that is released is used again for another of its length.
class NumberRuns {
 public:
  /// @return where a run of this length begins
  int take(int size);
  void give(int first, int size) {
    if (size > 0) free_[size].push_back(first);
  }
  double* data() { return numbers_.data(); }
  const double* data() const { return numbers_.data(); }

 private:
  std::vector<double> numbers_;
  std::map<int, std::vector<int>> free_;  // by length
};

class GapMonitor {
 public:
  /// Largest gaps of one constraint [m], [rad] and in a unit of the user's own.
  struct Gap {
    double length = 0, angle = 0, own = 0;
  };

  /// Stores the primitives of a joint's exact part. Empty rows: it has none.
  void set_geometry(ConstraintEntry& entry, const JointRows& rows);
  void forget_geometry(ConstraintEntry& entry);
  void set_turned_far(ConstraintEntry& entry, bool is);
  /// Returns the number of joints that were turned far from their required rotation.
  int turned_far() const { return turned_far_; }

  /// Begins a new list of watched constraints. watch() adds to it in the order of entries. end_list() copies gaps that
  /// are not reported yet from the list before.
  void begin_list(Context& c);
  void watch(const Context& c, int entry);
  void end_list();
  /// Measures all gaps.
  void measure(Context& c);
  /// Writes the gaps into the reactions.
  void report(Context& c);
  void forget_unreported() { reported_ = true; }

  double largest_gap = 0, largest_angle = 0;  ///< since the start [m], [rad]

 private:
  struct Watch {
    BodyId a, b;
    int entry;
    ConstraintId id;
    int first;  // of its primitives in numbers_; −1: its function has the residual
    std::array<int, JointRows::primitive_count> counts;
    bool has_orientation;
    bool yields;  // by compliance: its gap is a deformation
    Gap gap{};
  };
  Gap of_primitives(const World& world, const Watch& w) const;

  std::vector<Watch> watched_, before_;
  NumberRuns numbers_;
  bool reported_ = true;
  int turned_far_ = 0;
  std::vector<BodyState> states_;
  std::vector<double> residual_;
};

/// Finds the largest residuals of a constraint function by unit; none where it throws.
/// @param residual  memory
GapMonitor::Gap gap_of(const ConstraintFunction& function, std::span<const BodyState> X, double t,
                       std::vector<double>& residual);
/// Reads the states of the bodies of a constraint as the host has them now.
/// @param out  memory
std::span<const BodyState> read_states(const Context& c, const Constraint& constraint, std::vector<BodyState>& out);

}  // namespace linchpin::host
