// Reads the bodies of the host at the start of a step.
#pragma once

namespace linchpin::host {

struct Context;

/// Reads the states and the forces that the step starts from. Kinematic bodies are read when they bound an island.
/// In Mode::exact, a velocity that the host cannot hold becomes zero, in the host too.
void read_bodies(Context& c);

}  // namespace linchpin::host
