// A chain lies on a table; a third of it hangs over the edge with a ball at its end, pulls the rest after it and falls
// in a heap on the floor.
#include "program.h"

namespace programs {
namespace {

class ChainOverEdge final : public Program {
 public:
  ChainOverEdge() : Program(1.0 / 240) {
    box(0, vec(5, 0.5, 2), vec(-5, -0.5, 0)).setFriction(btScalar(0.7));
    box(0, vec(8, 0.5, 8), vec(0, -4.5, 0));
    constexpr int lying = 22, hanging = 10;
    constexpr double length = 0.2, x = 0.03, y = 0.025;
    const auto at = [&](int i) {  // of joint i
      return i <= lying ? vec(x - length * (lying - i), y, 0) : vec(x, y - length * (i - lying), 0);
    };
    btRigidBody* last = nullptr;
    for (int i = 0; i < lying + hanging; ++i) {
      const bool lies = i < lying;
      btRigidBody& link = box(0.1, lies ? vec(0.085, 0.02, 0.02) : vec(0.02, 0.085, 0.02), (at(i) + at(i + 1)) / 2);
      link.setFriction(btScalar(0.3));
      if (last) pin(*last, link, at(i));
      last = &link;
    }
    btRigidBody& weight = ball(0.5, 0.08, at(lying + hanging) - vec(0, 0.08, 0));
    pin(*last, weight, at(lying + hanging));
  }
};

}  // namespace

std::unique_ptr<Program> chain_over_edge() { return std::make_unique<ChainOverEdge>(); }

}  // namespace programs
