// Takes a step of the host by the stages of a Runge–Kutta–Munthe-Kaas method (T13). The step goes from the host's state
// at its start to the constraints at its end, in substeps where one would be too long (T15). The host moves to the end
// with the mean velocity.
#pragma once

#include "host/context.h"

namespace linchpin::host {

/// Returns why an island cannot take this step by stages; null: it can.
const char* why_no_stages(const Context& c, const Island& b);
/// Returns whether only stages need the acceleration at the step's start. They find it like that of any stage.
bool stages_find_forces(const Context& c, const Island& b);
/// Returns whether even the shortest substep is too long for the laws of the last stage. Substeps of Stepping::adaptive
/// find that by their error.
bool laws_are_too_stiff(const Context& c, const Island& b);
/// @return false where no substep was short enough
bool take_step_by_stages(Context& c, Island& b, SubstepStates& states);
/// Repeats the last step, to the last bit, and sums its impulses for reports.
void repeat_stages_with_records(Context& c, Island& b);

}  // namespace linchpin::host
