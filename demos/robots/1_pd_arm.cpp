// A PD controller with gravity compensation moves an arm to a pose and holds it. The torques at rest are those of the
// weight, and the controller is called at 500 Hz.
#include <linchpin/scene/robot_dynamics.h>
#include <linchpin/scene/simulation.h>

#include <cstdio>

using namespace linchpin::scene;

int main() {
  const Model model = load(LINCHPIN_ROBOTS_DIR "/arm.toml");
  Simulation arm(model);
  RobotDynamics dynamics(model);
  const double target[] = {0.5, 0.8, -1.2};  // waist, shoulder, elbow [rad]
  arm.set_controller(
      [&](const JointState& at, std::vector<double>& torque) {
        dynamics.set_state(arm.state());
        const linchpin::VectorX weight = dynamics.gravity_force();
        for (std::size_t i = 0; i < torque.size(); ++i)
          torque[i] = 100 * (target[i] - at.position[i]) - 15 * at.velocity[i] - weight[long(i)];
      },
      {.period = 0.002});
  arm.run(5);

  bool good = arm.failure_count() == 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const SimulatedJoint joint = arm.joint(arm.joints()[i]);
    std::printf("%-8s  %9.6f rad, wanted %g  %10.6f N m\n", joint.name().c_str(), joint.position(), target[i],
                joint.force());
    good = good && std::abs(joint.position() - target[i]) < 1e-6;
  }
  const double known = 9.81 * (1 * 0.15 * std::cos(-0.4));  // the weight of the lower arm about the elbow
  std::printf("elbow holds %.6f N m, known %.6f\n", arm.joint("elbow").force(), known);
  return good && std::abs(arm.joint("elbow").force() - known) < 1e-4 ? 0 : 1;
}
