// The check of constraints on links at the present state. It changes neither the problem nor the reports of the last
// step. Private to the core.
#pragma once

#include "articulated/tree_layout.h"

#include <linchpin/host.h>

#include <vector>

namespace linchpin::articulated {

/// Checks derivatives and residuals of the constraints on links. Call it when the trees of the world are known.
std::vector<host::Finding> check_link_constraints(const TreeContext& context, const TreeLayout& layout);

}  // namespace linchpin::articulated
