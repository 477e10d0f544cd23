// Takes a step of the general solver in substeps.
#pragma once

#include "host/context.h"

namespace linchpin::host {

/// Takes a step in semi-implicit substeps.
/// @param before  length of the step before [s]
/// @return false where it is not possible. Then only IslandStep::outcome and IslandStep::substeps were changed.
/// @param first  length of the first substep [s]  @param is_factored  `dynamics` has the factor of the start
bool take_general_substeps(Context& c, Island& b, SubstepStates& states, double before, double first,
                           bool is_factored = false);

}  // namespace linchpin::host
