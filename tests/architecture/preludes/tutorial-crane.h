// The snippets of docs/tutorials/bullet.md, sections 2 to 6, use these names.
#include <linchpin/bullet.h>

#include <iostream>

extern btDiscreteDynamicsWorld world;
extern btRigidBody trolley, hook, load;
extern btSliderConstraint rail;
extern btPoint2PointConstraint rope, ring;
extern linchpin::bullet::Solver exact;
