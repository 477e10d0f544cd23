#include "run_remarks.h"

#include <cmath>
#include <cstdio>

namespace linchpin::cli {

namespace {

std::string counted_text(const std::string& what, long times, long all, const char* of, double first) {
  char text[96];
  std::snprintf(text, sizeof text, " in %ld of %ld %s, first at %.6g s", times, all, of, first);
  return what + text;
}

}  // namespace

void add_remark(std::string& status, const std::string& what) { status += (status == "ok" ? ", but " : "; ") + what; }

std::string not_finite(const std::string& column, double x) {
  return std::isfinite(x) ? std::string() : column + " is " + (std::isnan(x) ? "not a number" : "infinite");
}

RunRemarks::RunRemarks(const scene::Model& model) : model_(model), coefficients_(model.constraints.size()) {
  for (const scene::Channel& log : model.logs) {
    if (log.size() == 1) columns_.push_back({log.title()});
    for (const char* part : {".x", ".y", ".z"})
      if (log.size() == 3) columns_.push_back({log.title() + part});
  }
}

void RunRemarks::step(const State& state) {
  ++steps_;
  for (std::size_t i = 0; i < coefficients_.size(); ++i) {
    const scene::SceneConstraint& c = model_.constraints[i];
    if (c.coefficients.empty()) continue;
    const auto found = kinetic_above_static(c, state);
    if (!found || coefficients_[i].times++ > 0) continue;
    char text[120];
    std::snprintf(text, sizeof text, " (%.6g) exceeds mu (%.6g), so mu was used,", found->mu_kinetic, found->mu);
    coefficients_[i].what = "mu_kinetic of \"" + c.name + "\"" + text;
    coefficients_[i].first = state.t;
  }
}

std::span<const double> RunRemarks::logs(const scene::Observation& at, bool forces_known) {
  values_.clear();
  ++rows_;
  for (const scene::Channel& log : model_.logs) {
    const bool known = forces_known || !log.reads_forces();
    for (const double x : log(at)) {
      Count& column = columns_[values_.size()];
      values_.push_back(known || at.reactions.empty() ? x
                                                      : std::nan(""));  // without reactions they are NaN by themselves
      if (!known || std::isfinite(x) || log.reads_mode_times()) continue;
      if (column.times++ > 0) continue;
      column.what = not_finite(column.what, x);
      column.first = at.state.t;
    }
  }
  return values_;
}

std::vector<std::string> RunRemarks::texts() const {
  std::vector<std::string> out;
  for (const Count& c : coefficients_)
    if (c.times > 0) out.push_back(counted_text(c.what, c.times, steps_, "steps", c.first));
  for (const Count& c : columns_)
    if (c.times > 0) out.push_back(counted_text(c.what, c.times, rows_, "rows", c.first));
  return out;
}

}  // namespace linchpin::cli
