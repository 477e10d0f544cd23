// The snippets of docs/how-to/linearize.md, docs/how-to/servo.md and docs/how-to/derivatives.md use these names.
#include <linchpin/constraint.h>
#include <linchpin/linearization.h>
#include <linchpin/servo.h>
#include <linchpin/stepper.h>

#include <cstdio>
#include <vector>

extern linchpin::System model;
extern linchpin::State state;
extern linchpin::BodyId upper, fore;
extern linchpin::Stepper stepper;
extern linchpin::ServoController arm;
