// The reactions of constraints. A reaction takes nearly a kilobyte, so the table is made when a program first reads
// one. The numbers of a step are put together when somebody reads them, from what the step left behind.
#pragma once

#include <linchpin/host.h>
#include <linchpin/report.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

namespace linchpin::host {

struct Context;
struct Island;
struct SubstepStates;
class StagedIntegrator;

class ReactionTable {
 public:
  bool exist() const { return made_; }
  /// Makes the table. Any thread may call it while islands are solved.
  void make(Context& c);
  Reaction& operator[](int reaction) { return all_[static_cast<std::size_t>(reaction)]; }
  std::span<Reaction> all() { return all_; }
  /// Puts entries in a new order: joints as the host has them, then all others by age. Joints that are not among
  /// `joints` have no reaction any more.
  void set_order(Context& c, std::span<const int> joints);
  /// Adds an entry of the user's own behind all others.
  void append(Context& c, ConstraintEntry& entry);
  /// The name of an entry, or what the host keeps of it, has changed.
  void describe(ConstraintEntry& entry);
  void set_left_to_host(ConstraintEntry& entry, bool is);
  void add_work(ConstraintEntry& entry, double work);
  /// What is switched off, broken or left to the host from now on carries nothing that is known.
  void clear(const Context& c, ConstraintEntry& entry);
  void forget_work();

 private:
  std::vector<Reaction> all_;
  std::mutex making_;
  std::atomic<bool> made_ = false;
};

/// Whether the host solves all rows of an entry while it is switched on.
bool is_left_to_host(const ConstraintEntry& entry);

/// Writes the reactions of an island at the start of its step (T11), from the problem that `dynamics` has.
void write_start_reactions(Context& c, Island& b);
/// Writes what constraints did in the substeps of a step, less what is reported of its start: the stabilisation.
void write_stabilisation(Context& c, Island& b);
/// The problem of the last step of an island as it was at its start.
Dynamics& start_problem(const Context& c, Island& b);
/// Brings reactions and momentum balance of an island up to date.
void update_report(Context& c, Island& b);
/// Adds the work that rows have done since the last call to the entries of an island.
void flush_work(Context& c, Island& b);
/// Brings all reactions and balances of the last step up to date,
void update_reports(Context& c);
/// and which of them are redundant or undetermined.
void update_redundancy(Context& c);
/// The same of one island, if its rank is another than when they were last reported. @param find_ranks  by constraint
void update_redundancy(Context& c, Island& b, const linchpin::Solver& solver,
                       const std::function<RankReport()>& find_ranks);

}  // namespace linchpin::host
