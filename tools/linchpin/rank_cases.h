// Cases on the processes of an `mpirun`, each with workers of its own (case_workers.h).
#pragma once

#include "ranks.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace linchpin::cli {

/// Of a case, its row; of a case whose process ended, the row that says how.
struct CaseWork {
  std::function<std::string(std::uint64_t)> row;
  std::function<std::string(std::uint64_t, const std::string& how)> row_of_the_dead;
};

/// Rank 0: gives cases to all ranks, fewer at a time towards the end, takes its part of them, and calls `done` with
/// each row, in whatever order. What `done` throws, it throws.
void hand_out(Ranks& ranks, const std::vector<std::uint64_t>& cases, int jobs, const CaseWork& work,
              const std::function<void(std::uint64_t, const std::string&)>& done);

/// The others: works until there is nothing left.
void work_off(Ranks& ranks, int jobs, const CaseWork& work);

}  // namespace linchpin::cli
