// Names of solvers as users write them: exact; of Bullet bullet:si, bullet:si:50, bullet:nncg:20, bullet:mlcp and
// bullet:lemke; of MuJoCo mujoco and mujoco:stiff. In a comparison, bare:exact and bullet:exact name the host of exact.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace linchpin::cli {

struct SolverSpec {
  std::string name;     ///< as the user wrote it
  std::string kind;     ///< exact, si, nncg, mlcp or lemke; of MuJoCo exact, mujoco or stiff
  int iterations = 10;  ///< Bullet's default
  /// Where exact runs if its name says so: bare or bullet. Otherwise empty.
  std::string host = {};
  /// Returns whether MuJoCo alone has it.
  bool is_of_mujoco() const { return kind == "mujoco" || kind == "stiff"; }
  /// Returns whether Bullet alone has it.
  bool is_of_bullet() const { return host == "bullet" || (kind != "exact" && !is_of_mujoco()); }
  /// Returns whether no engine runs it.
  bool is_bare() const { return host == "bare"; }
};

/// Solvers of scenes, of Bullet and of MJCF files that `compare` runs by default.
inline constexpr const char* default_solvers = "exact,bullet:si";
inline constexpr const char* default_mujoco_solvers = "exact,mujoco,mujoco:stiff";

/// @throws std::invalid_argument with the nearest known name or the allowed range.
SolverSpec parse_solver(const std::string& name);
/// Separated by commas. @throws also for none and for two that are the same.
std::vector<SolverSpec> parse_solvers(std::string_view names);
/// @throws std::invalid_argument for a solver that an MJCF file, or another scene, cannot have in `linchpin run`.
void demand_solver_of(bool mjcf, const SolverSpec& solver);

}  // namespace linchpin::cli
