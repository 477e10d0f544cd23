// The reactions of constraints. A reaction takes nearly a kilobyte, so the table is made when a program first reads
// one. The reactions of a step are computed when somebody reads them, from data that the step left behind.
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
  /// Sets a new order of entries: joints as the host has them, then all others by age. Joints that are not among
  /// `joints` have no reaction any more.
  void set_order(Context& c, std::span<const int> joints);
  /// Adds an entry of the user's own after all others.
  void append(Context& c, ConstraintEntry& entry);
  /// The name of an entry, or what the host keeps of it, has changed.
  void describe(ConstraintEntry& entry);
  void set_left_to_host(ConstraintEntry& entry, bool is);
  void add_work(ConstraintEntry& entry, double work);
  /// Clears the reaction of an entry that is switched off, broken or left to the host: its forces are not known.
  void clear(const Context& c, ConstraintEntry& entry);
  void forget_work();

 private:
  std::vector<Reaction> all_;
  std::mutex making_;
  std::atomic<bool> made_ = false;
};

/// After the host has integrated: the reactions of joints that it solves as a whole are what its rows did in dt.
void write_host_reactions(Context& c, double dt);
/// Returns whether the host solves all rows of an entry while the entry is switched on.
bool is_left_to_host(const ConstraintEntry& entry);

/// Writes the reactions of an island at the start of its step (T11), from the problem in `dynamics`.
void write_start_reactions(Context& c, Island& b);
/// Writes the stabilisation: impulses of constraints in the substeps of a step, less the reactions at its start.
void write_stabilisation(Context& c, Island& b);
/// Returns the problem of the last step of an island as it was at its start.
Dynamics& start_problem(const Context& c, Island& b);
/// Updates the reactions and the momentum balance of an island.
void update_report(Context& c, Island& b);
/// Returns true if the reports of an island with laws are made when somebody reads them, also after substeps. Laws at
/// the start of the step are a friction problem of their own.
bool reports_later(const Context& c, const Island& b);
/// Adds the work of rows since the last call to the entries of an island.
void flush_work(Context& c, Island& b);
/// Updates all reactions and balances of the last step.
void update_reports(Context& c);
/// Updates which reactions are redundant or undetermined.
void update_redundancy(Context& c);
/// The same of one island, if its rank is another than when they were last reported. @param find_ranks  by constraint
void update_redundancy(Context& c, Island& b, const linchpin::ConstraintFactorization& solver,
                       const std::function<RankReport()>& find_ranks);

}  // namespace linchpin::host
