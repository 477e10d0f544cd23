// Newton's cradle: five balls, each on two rods in a V (one equation too many), the first let go from 45 degrees.
#include "program.h"

#include <cmath>

namespace programs {
namespace {

class Cradle final : public Program {
 public:
  Cradle() : Program(1.0 / 240) {
    world.getSolverInfo().m_splitImpulsePenetrationThreshold = 0;  // overlaps are pushed apart without giving speed
    for (int i = 0; i < 5; ++i) {
      const double angle = i == 0 ? 0.25 * SIMD_PI : 0, x = 0.2 * i;
      btRigidBody& b = ball(1, 0.1, vec(x - std::sin(angle), 2 - std::cos(angle), 0));
      b.setRestitution(1);
      b.setFriction(0);
      pin(b, vec(x, 2, -0.4));
      pin(b, vec(x, 2, 0.4));
    }
  }
};

}  // namespace

std::unique_ptr<Program> newtons_cradle() { return std::make_unique<Cradle>(); }

}  // namespace programs
