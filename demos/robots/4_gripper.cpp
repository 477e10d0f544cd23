// A gripper closes on a box with 15 N, lifts it by 0.2 m and holds it. Bullet solves the contacts and their friction;
// linchpin holds the guides and reports the force of the lift, which carries the weight of hand, fingers and box.
#include <linchpin/bullet_simulation.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace linchpin::scene;

int main() {
  linchpin::bullet::Simulation gripper(load(LINCHPIN_ROBOTS_DIR "/gripper.toml"));
  for (const char* name : {"left finger", "right finger", "box"}) gripper.body(name).setFriction(1);
  gripper.set_controller([](const JointState& at, std::vector<double>& force) {
    const double s = std::clamp(at.t - 1, 0.0, 1.0), height = 0.2 * s * s * (3 - 2 * s);  // lifts from 1 s to 2 s
    const std::size_t lift = at.index("lift");
    force[lift] = 2000 * (height - at.position[lift]) - 100 * at.velocity[lift] + (at.t < 1 ? 1.2 : 1.7) * 9.81;
    for (const char* finger : {"left", "right"}) force[at.index(finger)] = 15 - 50 * at.velocity[at.index(finger)];
  });
  gripper.run(2.5);
  const auto box = [&] { return linchpin::bullet::from_bullet(gripper.body("box").getCenterOfMassPosition()); };
  const linchpin::Vector3d lifted = box();
  gripper.run(1.5);

  std::printf("the box is %.4f m above the ground, and has slipped by %.1e m in 1.5 s\n", lifted.z() - 0.03,
              lifted.z() - box().z());
  std::printf("the lift carries %.4f N, known %.4f\n", gripper.joint("lift").force(), 1.7 * 9.81);
  return std::abs(lifted.z() - 0.23) < 0.001 && std::abs(lifted.z() - box().z()) < 1e-4 &&
                 std::abs(gripper.joint("lift").force() - 1.7 * 9.81) < 0.01
             ? 0
             : 1;
}
