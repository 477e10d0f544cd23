// A substep of the general solver.
#pragma once

#include "host/context.h"

namespace linchpin::host {

/// Takes a step in semi-implicit substeps. @param before  length of the step before [s]
/// @return false where it is not possible: nothing else of the island was changed then but Verdict and
/// IslandStep::substeps
bool take_general_substeps(Context& c, Island& b, SubstepStates& states, double before);

}  // namespace linchpin::host
