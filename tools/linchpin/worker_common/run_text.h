// Parts of the answer of a run that all worker programs write in the same words.
#pragma once

#include "job.h"

#include <linchpin/host.h>
#include <linchpin/report.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace linchpin::worker {

/// Returns the median of the times of the steps [ns], 0 where there is none. Reorders them.
long long median(std::vector<long long>& ns);

/// Returns the names of reactions as a JSON array. @param indices  those that do not exist are left out
Json names_at(const std::vector<int>& indices, std::span<const Reaction> reactions);

/// The steps of a run.
struct StepCounts {
  long taken = 0;
  long inexact = 0;    ///< in which the host had to solve constraints
  long fallbacks = 0;  ///< times that it had to; several islands of a step may be left to it
};

/// Returns the status of a run of linchpin that came to its end: "ok", "ok, but …" or "not exact: …".
/// @param host_solver  what solves the constraints that linchpin leaves, such as "the native solver"
/// @param why  which constraints contradict each other; empty: none
/// @param native  what the host solved in the last step
std::string verdict_of_steps(const StepCounts& steps, const std::string& host_solver, const std::string& why,
                             std::span<const host::HostPart> native);

/// Returns the summary of a run in which linchpin had no part.
/// @param host  "MuJoCo 3.3.0 alone (native)"  @param row  with `steps` and gaps
/// @param end  the time at the end [s]  @param energy  at the end [J]
std::string summary_of_host(const std::string& host, const Json& row, double end, double energy);

/// Completes a summary: the largest gap becomes that of the row, which is measured alike for all solvers, and the
/// energy at the start [J] stands beside that at the end.
std::string completed(const Json& row, std::string summary, double energy_at_start);

}  // namespace linchpin::worker
