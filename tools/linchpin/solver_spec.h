// Names of solvers as users write them: exact, bullet:si, bullet:si:50, bullet:nncg:20, bullet:mlcp, bullet:lemke.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace linchpin::cli {

struct SolverSpec {
  std::string name;     ///< as the user wrote it
  std::string kind;     ///< exact, si, nncg, mlcp or lemke
  int iterations = 10;  ///< Bullet's default
};

/// @throws std::invalid_argument with the nearest known name or the allowed range.
SolverSpec parse_solver(const std::string& name);
/// Separated by commas. @throws also for none and for two that are the same.
std::vector<SolverSpec> parse_solvers(std::string_view names);

}  // namespace linchpin::cli
