// The snippets of docs/tutorials/core.md, section 6, use these names.
#include <linchpin/bullet.h>

#include <fstream>
#include <iostream>

extern btDiscreteDynamicsWorld world;
extern btRigidBody hook, load, blade;
extern btSliderConstraint slider;
extern linchpin::bullet::Solver exact;
extern std::ofstream file;
