// The snippets of docs/tutorials/core.md, and of other pages about the core, use these names.
#include <linchpin/forces.h>
#include <linchpin/joints.h>
#include <linchpin/stepper.h>

#include <fstream>
#include <iostream>
#include <memory>

extern linchpin::System model;
extern linchpin::BodyId blade;
extern linchpin::ConstraintId wire;
extern std::unique_ptr<linchpin::Stepper> stepper;
