#include "program.h"

namespace programs {

std::span<const Entry> all() {
  static constexpr Entry entries[] = {
      {"suspension-bridge", "a lorry of three tonnes crosses a suspension bridge", suspension_bridge},
      {"ragdoll", "a ragdoll tumbles down a flight of stairs", ragdoll},
      {"wrecking-ball", "a tonne on a light chain hits a wall", wrecking_ball},
      {"newtons-cradle", "Newton's cradle on rods", newtons_cradle},
      {"hinge2-car", "a car with springs and steering on rough ground", hinge2_car},
      {"forklift", "a forklift moves a pallet by slider and motors", forklift},
      {"walker", "a quadruped trots on closed-loop legs", walker},
      {"chain-over-edge", "a chain slides over the edge of a table", chain_over_edge},
      {"breakable-wall", "a wall of breakable welds is hit by a ball", breakable_wall},
  };
  return entries;
}

}  // namespace programs
