// The stock joints of the block of a Dynamics. Private to the core.
#pragma once

#include "problem/kept_assembly.h"

#include <linchpin/dynamics.h>

namespace linchpin::detail {

/// Every Dynamics keeps a KeptAssembly.
inline const StockJoints& stock_of(const Dynamics& dynamics) {
  return static_cast<const KeptAssembly&>(dynamics.assembly()).stock;
}
/// Returns the largest angle by which a joint of the block is turned far from where it is held [rad], or 0.
double widest_turn(const Dynamics& dynamics, const State& state);

}  // namespace linchpin::detail
