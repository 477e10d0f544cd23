// Cases on processes: what a case does to a process, a crash or a limit passed, costs that case and no other.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace linchpin::cli {

/// Calls `work` for each case in one of `jobs` forked processes, and here, as each ends, in whatever order, `done` with
/// what it returned or `died` with how its process ended, in words; then another process takes its place. For a program
/// of one thread. The processes end with this one, whatever ends it. `meanwhile`, if any, is called at least every
/// millisecond while cases run.
/// @throws std::system_error when no process can be started; what `done` and `died` throw.
void run_cases(const std::vector<std::uint64_t>& cases, int jobs, const std::function<std::string(std::uint64_t)>& work,
               const std::function<void(std::uint64_t, const std::string&)>& done,
               const std::function<void(std::uint64_t, const std::string&)>& died,
               const std::function<void()>& meanwhile = {});

}  // namespace linchpin::cli
