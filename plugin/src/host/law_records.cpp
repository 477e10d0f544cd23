#include "host/law_records.h"

#include "host/constraint_registry.h"
#include "host/tuning.h"

#include <linchpin/detail/same_words.h>

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <utility>

namespace linchpin::host {

std::string warning_text(const LawWarning& warning) {
  if (warning.steps == 0) return warning.text;
  std::ostringstream out;
  out << std::setprecision(6) << warning.text << " (in ";
  if (warning.steps > 1)
    out << warning.steps << " steps, first in the one";
  else
    out << "the step";
  out << " that begins at t = " << warning.t << " s)";
  return out.str();
}

std::string law_failure_text(std::span<const LawWarning> failures, long count) {
  std::ostringstream out;
  out << std::setprecision(6) << "no law acted in " << count << (count == 1 ? " step" : " steps")
      << " of an island, because " << failures.front().text
      << " (first in the step that begins at t = " << failures.front().t
      << " s). Correct the law, so that it is finite at every state that the motion reaches";
  if (failures.size() > 1)
    out << "; " << failures.size() - 1 << (failures.size() == 2 ? " other law" : " other laws") << " failed too";
  return out.str();
}

void LawWarnings::note(std::string_view text, double t, unsigned step) {
  const int at = find(text, t);
  if (at < 0) return;
  LawWarning& to = all_[z(at)];
  unsigned& last = last_step_[z(at)];
  if (to.steps == 0 || last != step) ++to.steps;
  last = step;
}

int LawWarnings::find(std::string_view text, double t) {
  const auto at = std::find_if(all_.begin(), all_.end(),
                               [&](const LawWarning& w) { return linchpin::detail::same_words(w.text, text); });
  if (at != all_.end()) return static_cast<int>(at - all_.begin());
  full_ = full_ || all_.size() >= tuning::max_law_warnings;
  if (full_) return -1;
  all_.push_back({std::string(text), t, 0});
  last_step_.push_back(0);
  return static_cast<int>(all_.size()) - 1;
}

std::span<LawWork> LawRecords::all(Constraints& constraints) {
  order(constraints);
  return works_;
}

void LawRecords::begin_step(Constraints& constraints) {
  order(constraints);
  for (LawWork& law : works_) law.last = 0;
}

// Sorts the terms. A term keeps its work when its place changes.
void LawRecords::order(Constraints& constraints) {
  if (!std::exchange(changed_, false)) return;
  std::vector<LawWork> fresh;
  for (ConstraintEntry* r : constraints.by_reaction(true)) {
    if (!r) continue;
    const int first = static_cast<int>(fresh.size());
    int k = 0;
    for (std::size_t l = 0; l < r->laws.size(); ++l)
      for (std::size_t t = 0; t < r->laws[l].terms().size(); ++t, ++k) {
        LawWork& to = fresh.emplace_back();
        if (k < r->law_range.count) to = std::move(works_[z(r->law_range.first + k)]);
        to.on = r->is_on_links() ? r->link_id : r->id;
        to.law = static_cast<int>(l);
        to.term = static_cast<int>(t);
        to.constraint = r->name;
        to.name = r->laws[l].terms()[t].name;
      }
    r->law_range.first = first;
    r->law_range.count = k;
  }
  works_ = std::move(fresh);
}

void LawRecords::book(const System& system, Constraints& constraints, std::span<const int> entries,
                      const Dynamics& dynamics, const State& at, double dt, std::span<const double> v0,
                      std::span<const double> v1, std::span<double> by_row) {
  order(constraints);
  for (const LawForce& e : dynamics.law_forces())
    for (LawWork& to : of(constraints[entries[z(e.constraint)]])) {
      if (to.law != e.law || to.term != e.term) continue;
      const double work = add_law_work(system, dynamics, at, e, dt, v0, v1, to);
      const std::vector<int>& row = dynamics.assembly().layout.row;
      if (!by_row.empty() && row[z(e.constraint)] < row[z(e.constraint) + 1]) by_row[z(row[z(e.constraint)])] += work;
    }
}

void LawRecords::note_warnings(const Dynamics& dynamics, std::string_view trouble, StandingWarnings& standing, double t,
                               unsigned step) {
  if (!trouble.empty()) warnings.note(trouble, t, step);
  if (std::exchange(standing.law_edits, edits_) != edits_) standing.noted = {};
  if (std::exchange(standing.noted[dynamics.solver().full_row_rank()], true)) return;
  for (const std::string& warning : dynamics.warnings())
    if (warning != dynamics.law_report().warning) warnings.note_standing(warning, t);
}

}  // namespace linchpin::host
