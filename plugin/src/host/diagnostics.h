// What a solver says about a world: a summary in words, rank, findings of a check, and the problem of an island.
#pragma once

#include "host/context.h"

#include <string>
#include <string_view>
#include <vector>

namespace linchpin::host {

/// Reactions of constraints that contradict others, as indices: those that are not met, or all where each is.
std::vector<int> contradictory_reactions(Context& c);
RankReport rank_report(Context& c);
/// The problem of the island of a constraint at its last step. Empty where there is none.
Instant problem_of(Context& c, std::string_view constraint);
std::vector<HostPart> host_parts(const Context& c);
/// Derivatives, start residuals and rank of everything at the present state. @param now  that state
std::vector<Finding> check(const Context& c, const State& now);
void draw_reactions(Context& c, double scale, const ConstraintSolver::DrawLine& draw);
std::string summary(Context& c, double energy);

}  // namespace linchpin::host
