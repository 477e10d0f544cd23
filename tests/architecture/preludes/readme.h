// The snippets of README.md use these names.
#include <linchpin/bullet.h>

#include <fstream>
#include <iostream>

extern btDiscreteDynamicsWorld world;
extern btRigidBody hook, load, blade;
extern btSliderConstraint slider;
extern btHingeConstraint door_hinge;
extern linchpin::bullet::Solver exact;
extern std::ofstream file;
