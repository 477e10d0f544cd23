// Assembly of the loops of a robot: joint positions at which joints that are open in the pose of the file are closed.
#pragma once

#include <linchpin/scene.h>

#include <set>
#include <string>
#include <vector>

namespace linchpin::scene {

struct LoopAssembly {
  enum class Outcome {
    closed_already,  ///< No joint between links is open by more than open_loop.
    assembled,       ///< All are closed in `state`.
    not_closable     ///< No pose within the limits was found. `state` is that of the model.
  };
  Outcome outcome = Outcome::closed_already;
  State state;                       ///< of the model's System
  std::vector<double> positions;     ///< by constraint of the model: that of a hinge or a slider in `state`, else 0
  std::vector<std::string> opened;   ///< joints that are open at the start
  double gap_at_start = 0, gap = 0;  ///< largest gap at the start, and the least one that was found [m or rad]
  std::string worst;                 ///< the joint of the second
  std::vector<std::string> moved;    ///< joints that were to be held, but move
  /// If it is not closable within the limits, but without them: the joints that would be beyond their limits.
  std::vector<std::string> beyond_limits;
};

/// A gap above this [m or rad] is not left to the closing of small gaps, which does not know limits.
inline constexpr double open_loop = 1e-3;

/// Follows the joint positions from those of the model while all gaps are reduced together to zero, within the limits.
/// Where this path ends, it searches the least sum of squares of the gaps from there and from other starts, which are
/// the same in every call. The gap of a rotation is an angle, so that no pose that is wrong by half a turn is a
/// solution. Free bases stay. The joints `held` stay where a pose with that exists. Cost: O(n³ + n² m) for each of some
/// hundred iterations at most, with n joint coordinates and m rows.
LoopAssembly assemble_loops(const Model& model, const std::set<std::string, std::less<>>& held);

}  // namespace linchpin::scene
