// What the snippets of docs/tutorial.md take for granted, section 6.
#include <linchpin/bullet.h>

#include <fstream>
#include <iostream>

extern btDiscreteDynamicsWorld world;
extern btRigidBody hook, load, blade;
extern btSliderConstraint slider;
extern linchpin::bullet::Solver exact;
extern std::ofstream file;
