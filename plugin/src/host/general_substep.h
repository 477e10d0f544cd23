// Takes a step of the general solver in substeps.
#pragma once

#include "host/context.h"

namespace linchpin::host {

/// Takes a step in semi-implicit substeps.
/// @param before  length of the step before [s]
/// @return false where it is not possible. Then only IslandStep::outcome and IslandStep::substeps were changed.
bool take_general_substeps(Context& c, Island& b, SubstepStates& states, double before);

}  // namespace linchpin::host
