// The snippets of docs/tutorials/bullet.md, sections 8 to 13, and of other pages about Bullet use these names.
#include <linchpin/bullet.h>

#include <fstream>
#include <iostream>

extern btDiscreteDynamicsWorld world;
extern btRigidBody hook, load, blade;
extern btSliderConstraint slider;
extern linchpin::bullet::Solver exact;
extern std::ofstream file;
