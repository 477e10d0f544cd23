// A wall of bricks welded to their neighbours (far more welds than it needs) is hit by a ball and breaks where a weld
// takes more than its threshold.
#include "program.h"

#include <BulletDynamics/ConstraintSolver/btFixedConstraint.h>

#include <array>

namespace programs {
namespace {

class BreakableWall final : public Program {
 public:
  BreakableWall() : Program(1.0 / 60) {
    constexpr int wide = 6, high = 5;
    box(0, vec(20, 0.5, 20), vec(0, -0.5, 0));
    std::array<std::array<btRigidBody*, wide>, high> brick{};
    for (std::size_t row = 0; row < high; ++row)
      for (std::size_t i = 0; i < wide; ++i) {
        brick[row][i] = &box(10, vec(0.25, 0.15, 0.15), vec(0.5 * double(i) - 1.25, 0.15 + 0.3 * double(row), 0));
        if (i > 0) weld(*brick[row][i - 1], *brick[row][i]);
        if (row > 0) weld(*brick[row - 1][i], *brick[row][i]);
      }
    btRigidBody& shot = ball(60, 0.25, vec(0.1, 0.9, 4));
    shot.setLinearVelocity(vec(0, 1, -10));
  }

 private:
  void weld(btRigidBody& a, btRigidBody& b) {
    const btTransform middle(btQuaternion::getIdentity(),
                             (a.getCenterOfMassPosition() + b.getCenterOfMassPosition()) / 2);
    joint<btFixedConstraint>(a, b, in(a)*middle, in(b)*middle).setBreakingImpulseThreshold(25);
  }
};

}  // namespace

std::unique_ptr<Program> breakable_wall() { return std::make_unique<BreakableWall>(); }

}  // namespace programs
