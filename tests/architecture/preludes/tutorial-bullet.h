// The snippets of docs/tutorials/bullet.md, sections 8 to 13, of README.md and of other pages use these names.
#include <linchpin/bullet.h>

#include <fstream>
#include <iostream>

extern btDiscreteDynamicsWorld world;
extern btRigidBody hook, load, blade;
extern btSliderConstraint slider;
extern linchpin::bullet::Solver exact;
extern std::ofstream file;
