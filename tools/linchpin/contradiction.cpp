#include "contradiction.h"

#include "brief.h"

#include <linchpin/projection.h>
#include <linchpin/scene/modes.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace linchpin::cli {

namespace {

using Json = nlohmann::ordered_json;

Json names_at(const std::vector<int>& indices, const scene::Model& model) {
  Json out = Json::array();
  for (const int i : indices) out.push_back(model.constraints[static_cast<std::size_t>(i)].name);
  return out;
}

// What is open of the one of that name, zero where nobody knows.
struct Open {
  double size = 0;
  const char* unit = "";
};
Open open_of(const std::string& name, std::span<const Reaction> now) {
  const auto r = std::find_if(now.begin(), now.end(), [&](const Reaction& each) { return each.name == name; });
  if (r == now.end()) return {};
  Open out{r->gap, " m"};
  if (r->gap_angle > out.size) out = {r->gap_angle, " rad"};
  if (r->residual > out.size) out = {r->residual, ", in the unit of its equation"};
  return out;
}

}  // namespace

RankReport rank_of(const Dynamics& dynamics) {
  RankReport report = dynamics.rank_report();
  const auto& ids = dynamics.assembly().layout.constraints;
  for (auto* indices : {&report.redundant, &report.undetermined, &report.contradictory})
    for (int& i : *indices) i = ids[static_cast<std::size_t>(i)].index;
  return report;
}

Json rank_json(const RankReport& report, int rows, const scene::Model& model) {
  return {{"rank", report.rank},
          {"rows", rows},
          {"redundant", names_at(report.redundant, model)},
          {"undetermined", names_at(report.undetermined, model)},
          {"contradictory", names_at(report.contradictory, model)}};
}

Json contradiction(const System& system, const scene::Model& model, State at) {
  system.update_kinematic(at);
  std::vector<ConstraintId> holding;
  for (const scene::SceneConstraint& c : model.constraints)
    if (const ConstraintId id = system.find_constraint(c.name); system.enabled(id) && !scene::is_open(system, id, at))
      holding.push_back(id);
  if (holding.empty()) return {};
  Dynamics dynamics(system, holding, model.options.solve);
  if (dynamics.evaluate(at) == Status::invalid) return {};
  RankReport report = rank_of(dynamics);
  project_positions(system, dynamics, at, 1e-12, 300);
  if (dynamics.evaluate(at) == Status::invalid) return {};
  project_velocities(system, dynamics, at);
  if (dynamics.evaluate(at) == Status::invalid) return {};
  const Assembly& a = dynamics.assembly();
  for (std::size_t i = 0; i < a.layout.constraints.size(); ++i) {
    double left = 0;
    for (auto r = static_cast<std::size_t>(a.layout.row[i]); r < static_cast<std::size_t>(a.layout.row[i + 1]); ++r)
      left = std::max({left, std::abs(a.position[r]), std::abs(a.velocity[r])});
    if (left > 1e-8) report.contradictory.push_back(a.layout.constraints[i].index);
  }
  auto& names = report.contradictory;
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names.empty() ? Json() : rank_json(report, dynamics.solver().rows(), model);
}

std::string torn_text(const Json& rank, std::span<const Reaction> now) {
  if (rank.is_null() || rank["contradictory"].empty()) return "constraints contradict each other";
  const Json& names = rank["contradictory"];
  constexpr std::size_t most = 6;
  constexpr double no_gap = 1e-8;
  std::string out =
      names.size() == 1 ? "no motion satisfies this constraint" : "no motion satisfies these constraints together";
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i) {
    const std::string name = names[i];
    out += (i == 0 ? ": " : ", ") + name;
    const Open open = open_of(name, now);
    if (open.size > no_gap) out += " (open by " + brief(open.size) + open.unit + ")";
  }
  if (names.size() > most) out += " and " + std::to_string(names.size() - most) + " more";
  return out;
}

}  // namespace linchpin::cli
