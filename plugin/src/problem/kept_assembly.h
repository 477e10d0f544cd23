// The assembly that a Dynamics keeps: the public Assembly and the stock joints in flat lists. Private to the core.
#pragma once

#include "model/stock_joints.h"

#include <linchpin/assembly.h>

#include <vector>

namespace linchpin::detail {

/// An assembly that is repeated, with the lists from which its stock joints are assembled. Every Dynamics has one.
struct KeptAssembly : Assembly {
  StockJoints stock;
  std::vector<Matrix3d> turned;  // R of block.bodies.
  bool closing = false;          // A joint that is turned far gets the rows of the way back (JointRows::Alignment).
};
/// What a stock joint counts as, some of whose rows are springs (Compliance).
enum class CompliantJoints { are_others, are_stock };
/// Collects the stock joints of a block.
void find_stock(const System& system, const IslandLayout& layout, StockJoints& stock,
                CompliantJoints compliant = CompliantJoints::are_others);
/// Same as the public function, which calls the function of every joint.
void assemble_constraints(const System& system, const State& state, KeptAssembly& out) noexcept;

}  // namespace linchpin::detail
