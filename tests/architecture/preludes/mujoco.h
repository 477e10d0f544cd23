// The snippets of docs/how-to/mujoco.md use these names.
#include <linchpin/mujoco.h>

extern linchpin::mujoco::Solver exact;
extern mjModel* model;
extern mjData* data;
