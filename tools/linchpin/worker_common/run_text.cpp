#include "run_text.h"

#include "run_remarks.h"

#include <algorithm>
#include <cstdio>

namespace linchpin::worker {

long long median(std::vector<long long>& ns) {
  if (ns.empty()) return 0;
  const auto middle = ns.begin() + static_cast<std::ptrdiff_t>(ns.size() / 2);
  std::nth_element(ns.begin(), middle, ns.end());
  return *middle;
}

Json names_at(const std::vector<int>& indices, std::span<const Reaction> reactions) {
  Json out = Json::array();
  for (const int i : indices)
    if (i >= 0 && static_cast<std::size_t>(i) < reactions.size())
      out.push_back(reactions[static_cast<std::size_t>(i)].name);
  return out;
}

std::string verdict_of_steps(const StepCounts& steps, const std::string& host_solver, const std::string& why,
                             std::span<const host::HostPart> native) {
  if (2 * steps.inexact > steps.taken)
    return "not exact: in " + std::to_string(steps.inexact) + " of " + std::to_string(steps.taken) + " steps " +
           host_solver + " had to solve constraints. Cause: " +
           (!why.empty()     ? why
            : native.empty() ? "linchpin rejected the step"
                             : native.front().name + ": " + native.front().why);
  std::string out = "ok";
  if (!why.empty()) cli::add_remark(out, why);
  if (steps.fallbacks > 0)
    cli::add_remark(out, std::to_string(steps.fallbacks) + (steps.fallbacks == 1 ? " step was" : " steps were") +
                             " left to " + host_solver);
  return out;
}

std::string summary_of_host(const std::string& host, const Json& row, double end, double energy) {
  char line[160];
  std::snprintf(line, sizeof line, "\n  t = %.3g s, %ld steps\n", end, row["steps"].get<long>());
  std::string out = host + line;
  if (row["max_gap_m"].is_number()) {
    std::snprintf(line, sizeof line, "  largest gap %.3g m, %.3g rad\n", row["max_gap_m"].get<double>(),
                  row["max_gap_rad"].get<double>());
    out += line;
  }
  std::snprintf(line, sizeof line, "  energy %.6g J\n", energy);
  return out + line;
}

std::string completed(const Json& row, std::string summary, double energy_at_start) {
  char text[64];
  const std::string_view energy = "\n  energy ", gap = "\n  largest gap ";
  if (const std::size_t from = summary.find(energy); from != std::string::npos) {
    std::snprintf(text, sizeof text, ", %.6g J at the start", energy_at_start);
    summary.insert(summary.find('\n', from + 1), text);
  }
  const std::size_t from = summary.find(gap);
  const std::size_t unit = from == std::string::npos ? from : summary.find(" rad", from);
  if (unit == std::string::npos || !row["max_gap_m"].is_number() || !row["max_gap_rad"].is_number()) return summary;
  std::snprintf(text, sizeof text, "%.3g m, %.3g", row["max_gap_m"].get<double>(), row["max_gap_rad"].get<double>());
  return summary.replace(from + gap.size(), unit - from - gap.size(), text);
}

}  // namespace linchpin::worker
