// A ball of a tonne on a chain of twenty links of 100 g, released horizontally, hits a wall of bricks. At 240 Hz the
// links are too light for their tension in any one-step method: see adapters/bullet/README.md on substeps.
#include "program.h"

namespace programs {
namespace {

class WreckingBall final : public Program {
 public:
  explicit WreckingBall(bool wall) : Program(1.0 / 240) {
    const double top = wall ? 11.5 : 0;
    btRigidBody* last = nullptr;
    for (int i = 0; i < 20; ++i) {
      btRigidBody& link = box(0.1, vec(0.25, 0.05, 0.05), vec(0.5 * i + 0.25, top, 0), turn(along_x, 0), false);
      if (last)
        pin(*last, link, vec(0.5 * i, top, 0));
      else
        pin(link, vec(0, top, 0));
      last = &link;
    }
    btRigidBody& weight = ball(1000, 0.5, vec(10.5, top, 0));
    pin(*last, weight, vec(10, top, 0));
    for (const auto& b : bodies) b->setActivationState(DISABLE_DEACTIVATION);
    if (!wall) return;
    box(0, vec(20, 0.5, 10), vec(0, -0.5, 0));
    for (int row = 0; row < 6; ++row)
      for (int i = 0; i < 5; ++i)
        box(20, vec(0.2, 0.2, 0.4), vec(-1, 0.2 + 0.4 * row, 0.81 * (i - 2) + (row % 2 ? 0.2 : -0.2)));
  }
};

}  // namespace

std::unique_ptr<Program> wrecking_ball() { return std::make_unique<WreckingBall>(true); }
std::unique_ptr<Program> wrecking_ball_alone() { return std::make_unique<WreckingBall>(false); }

}  // namespace programs
