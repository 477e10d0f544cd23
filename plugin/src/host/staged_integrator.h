// A step of the host by the stages of a Runge–Kutta–Munthe-Kaas method (T13): from the host's state at its start to the
// constraints at its end, in substeps where one would be too long (T15). The host goes there with the mean velocity.
#pragma once

#include "host/context.h"

namespace linchpin::host {

/// Why an island cannot take this step by stages; null: it can.
const char* why_no_stages(const Context& c, const Island& b);
/// Whether nothing but stages needs the acceleration at the step's start: they find it as that of any stage.
bool stages_find_forces(const Context& c, const Island& b);
/// Whether even the shortest substep is too long for the laws of the last stage. Substeps of the pair find that by
/// their error.
bool laws_are_too_stiff(const Context& c, const Island& b);
/// @return false where no substep was short enough
bool take_step_by_stages(Context& c, Island& b, SubstepStates& states);
/// Takes the last step once more, to the last bit, and sums up its impulses for reports.
void repeat_stages_with_records(Context& c, Island& b);

}  // namespace linchpin::host
