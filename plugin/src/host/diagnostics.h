// Diagnostics of a world: a summary in words, the rank, findings of a check, and the problem of an island.
#pragma once

#include "host/context.h"

#include <string>
#include <string_view>
#include <vector>

namespace linchpin::host {

/// Returns the first names of a list, and how many others there are: "a, b, c and 4 more".
/// @param total  number of all names, where `names` has the first ones only
std::string list_of(const std::vector<std::string>& names, std::size_t most = 6, std::size_t total = 0);
/// Returns the indices of reactions whose constraints contradict others: those that are not met, or all where each is
/// met.
std::vector<int> contradictory_reactions(Context& c);
RankReport rank_report(Context& c);
/// Returns the problem of the island of a constraint at its last step. It is empty where there is none.
ConstrainedProblem problem_of(Context& c, std::string_view constraint);
std::vector<HostPart> host_parts(const Context& c);
/// Checks derivatives, start residuals and rank of all constraints at the present state.
/// @param now  that state
std::vector<Finding> check(const Context& c, const State& now);
void draw_reactions(Context& c, double scale, const ConstraintSolver::DrawLine& draw);
std::string summary(Context& c, double energy);

}  // namespace linchpin::host
