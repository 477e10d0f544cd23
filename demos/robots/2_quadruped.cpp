// A quadruped stands on the ground in Bullet, held by PD controllers in its twelve joints. linchpin holds the joints
// and reports their torques, and Bullet solves the contacts of the feet.
#include <linchpin/bullet_simulation.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace linchpin::scene;

int main() {
  linchpin::bullet::Simulation robot(load(LINCHPIN_ROBOTS_DIR "/quadruped.toml"));
  const double posture[] = {0, 0.8, -1.6};  // hip, thigh, calf of each leg [rad]
  robot.set_controller([&](const JointState& at, std::vector<double>& torque) {
    for (std::size_t i = 0; i < torque.size(); ++i)
      torque[i] = 80 * (posture[i % 3] - at.position[i]) - 3 * at.velocity[i];
  });
  robot.run(3);
  const linchpin::Vector3d stood = robot.state()[linchpin::BodyId{1}].p;
  std::vector<double> least(12, 1e9), most(12, -1e9);
  for (int step = 0; step < 1000; ++step) {
    robot.step();
    for (std::size_t i = 0; i < 12; ++i) {
      const double torque = robot.joint(robot.joints()[i]).force();
      least[i] = std::min(least[i], torque), most[i] = std::max(most[i], torque);
    }
  }

  bool good = robot.failure_count() == 0;
  for (std::size_t i = 0; i < 12; ++i) {
    std::printf("%-18s %9.4f N m, changes by %.1e in the last second\n", robot.joints()[i].c_str(), most[i],
                most[i] - least[i]);
    good = good && most[i] - least[i] < 0.01;
  }
  const linchpin::Vector3d stands = robot.state()[linchpin::BodyId{1}].p;
  std::printf("the trunk is %.4f m above the ground, and has moved by %.1e m\n", stands.z(), (stands - stood).norm());
  return good && std::abs(stands.z() - 0.30) < 0.01 && (stands - stood).norm() < 1e-4 ? 0 : 1;
}
