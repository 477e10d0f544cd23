// Unilateral constraints on links: how they move at the start of a step, which decides whether they hold. Private to
// the core.
#pragma once

#include "articulated/tree_island.h"
#include "host/unilateral.h"

#include <vector>

namespace linchpin::articulated {

class TreeUnilateral {
 public:
  explicit TreeUnilateral(const TreeContext& context) : c_(context.host), t_(context.island) {}
  /// At the start of a step: releases and engages those that the program has switched on.
  void switch_all();
  /// At its end: releases those of which the impulse had the wrong sign.
  void release_all();

 private:
  bool read(const Constraint& constraint, host::UnilateralState& out);
  BodyState state_of(BodyId id);

  host::Context& c_;
  TreeIsland& t_;
  // Scratch.
  host::LinearizedEntry rows_;
  std::vector<BodyState> states_;
  std::vector<double> columns_;
};

}  // namespace linchpin::articulated
