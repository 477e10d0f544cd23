// Implicit geometric stiffness in place of substeps (T15): ½ dt² K⁺ is added to the moments of inertia of bodies whose
// ω·dt is too large, with the torque that belongs to it. It damps those swings.
#pragma once

#include "host/context.h"

#include <span>

namespace linchpin::host {

/// At the start of a step: the stiffness that the last step has found, where this one goes on from it.
void begin_stiffness(const Context& c, Island& b);
/// Replaces the stiffness of the step by ½ dt² K⁺ of the given K⁺, by slot. Empty: none.
void set_stiffness(const Context& c, Island& b, std::span<const Matrix3d> K);
/// Makes a step that was too long ready to be tried once more with stiffness. @return whether that is of use
bool add_stiffness(Context& c, Island& b);
/// After an accepted step: notes the work of the stiffness, and finds that of the next step.
void note_stiffness(const Context& c, Island& b);

}  // namespace linchpin::host
