#include "remarks.h"

#include "contradiction.h"
#include "messages.h"
#include "recording/compare_text.h"

#include <linchpin/detail/same_words.h>

#include <algorithm>

namespace linchpin::cli {

namespace {

constexpr std::size_t most_warnings = 8;

}  // namespace

void take_warning(const std::string& warning, std::vector<std::string>& warnings) {
  if (warning.empty() || warnings.size() >= most_warnings) return;
  if (std::none_of(warnings.begin(), warnings.end(), [&](const auto& w) { return detail::same_words(w, warning); }))
    warnings.push_back(warning);
}

nlohmann::ordered_json dependent_rows(const System& system, const scene::Model& model, const State& at) {
  Dynamics dynamics(system, model.options.solve);
  if (dynamics.evaluate(at) == Status::invalid) return {};
  const RankReport report = rank_of(dynamics);
  const int rows = dynamics.solver().rows();
  return report.rank < rows ? rank_json(report, rows, model) : nlohmann::ordered_json();
}

std::string rank_text(const nlohmann::ordered_json& rank, bool forces) {
  const long independent = rank["rank"].get<long>();
  std::string out = std::to_string(independent) + " of " + counted(rank["rows"].get<long>(), "constraint equation") +
                    (independent == 1 ? " is" : " are") + " independent";
  const auto& open = rank["undetermined"];
  if (forces && !open.empty())
    out += (open.size() == 1 ? "; the reaction of " : "; the reactions of ") + recording::some(open, 6) +
           (open.size() == 1 ? " is" : " are") + " undetermined (reported is the distribution of least norm)";
  return out;
}

}  // namespace linchpin::cli
