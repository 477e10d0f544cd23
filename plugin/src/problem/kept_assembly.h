// What a Dynamics keeps beside the Assembly that it shows: its stock joints in flat lists. Private to the core.
#pragma once

#include "model/stock_joints.h"

#include <linchpin/assembly.h>

#include <vector>

namespace linchpin::detail {

/// An assembly made again and again: with what its stock joints are assembled from. Every Dynamics keeps one.
struct KeptAssembly : Assembly {
  StockJoints stock;
  std::vector<Matrix3d> turned;  // R of block.bodies
  bool closing = false;          // A joint that is turned far has the rows of the way back (JointRows::Alignment).
};
/// What of a block is stock joints.
void find_stock(const System& system, const Block& block, StockJoints& stock);
/// As the public one, which asks the function of every joint.
void assemble_constraints(const System& system, const State& state, KeptAssembly& out) noexcept;

}  // namespace linchpin::detail
