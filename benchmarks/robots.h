// Robots as multibodies, with loops that Bullet's solver and linchpin close: what an exact step costs beside a native
// one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace linchpin::bench {

/// "R1": an arm, "R2": a tree, "R3": a comb with a loop at every tenth link, "R4": a quadruped of four closed legs,
/// "R5": a long arm, "R5+1", "R5+2", "R5+4": the same pinned at so many places.
bool is_robot(std::string_view name);
std::vector<int> robot_sizes(std::string_view name);
/// Prints a line of JSON for the exact and one for the native step, which take turns. @param size  links
void run_robot(std::string_view name, int size, double duration, double budget);

}  // namespace linchpin::bench
