// An arm of two rods follows a circle with control forces by the equation of Udwadia (2003, 2008). The controller knows
// the masses of the rods, or has masses that are wrong by 20 %.
//
//     uniform rods of 1 kg and 1 m, shoulder at the origin, y upwards, g = 9.81 m/s²
//     tip on (1 + 0.3 cos t, 0.5 + 0.3 sin t), control every millisecond
//
// With the right masses the torques are those of the inverse dynamics. With wrong masses, the error of the acceleration
// is a disturbance d. The error of the tip then comes to d/ω², for the rate ω at which the servo-constraint corrects
// errors. With ω = 200 rad/s it stays below 0.1 mm. Theory: T17.

#include <linchpin/joints.h>
#include <linchpin/servo.h>
#include <linchpin/stepper.h>

#include "known.h"

#include <Eigen/LU>

using linchpin::BodyId;
using linchpin::BodyState;
using linchpin::State;
using linchpin::Vector3d;

namespace {

struct Arm {
  linchpin::System system;
  BodyId upper, fore;

  Arm(double upper_mass, double fore_mass) {
    system.set_gravity({0, -9.81, 0});
    const auto rod = [&](const char* name, double mass) {
      return system.add_body(name, mass, Vector3d(1e-4, mass / 12, mass / 12), {});
    };
    upper = rod("upper", upper_mass), fore = rod("fore", fore_mass);
    const Vector3d z = Vector3d::UnitZ();
    system.add(linchpin::joints::hinge("shoulder", linchpin::ground, {0, 0, 0}, z, upper, {-0.5, 0, 0}, z));
    system.add(linchpin::joints::hinge("elbow", upper, {0.5, 0, 0}, z, fore, {-0.5, 0, 0}, z));
  }

  linchpin::ServoController controller(double rate) {
    linchpin::Servo tip{linchpin::holonomic("tip", {fore},
                                            [](const auto& s) {
                                              const auto at = s[0].point(0.5, 0, 0);
                                              return rows(at.x - 1.0 - 0.3 * cos(s.t), at.y - 0.5 - 0.3 * sin(s.t));
                                            }),
                        rate};
    linchpin::Actuator shoulder{linchpin::Force("shoulder motor", {upper}, [](linchpin::ForceFrame& f) {
      f.add_moment(0, {0, 0, 1});
    })};
    linchpin::Actuator elbow{linchpin::Force("elbow motor", {fore, upper}, [](linchpin::ForceFrame& f) {
      f.add_moment(0, {0, 0, 1});
      f.add_moment(1, {0, 0, -1});
    })};
    return {system, {std::move(tip)}, {std::move(shoulder), std::move(elbow)}};
  }

  /// The state with the tip on the circle at t = 0.
  State start() const {
    const double x = 1.3, y = 0.5, elbow = std::acos((x * x + y * y - 2) / 2);
    const double first = std::atan2(y, x) - elbow / 2, second = first + elbow;
    Eigen::Matrix2d jacobian;
    jacobian << -std::sin(first), -std::sin(second), std::cos(first), std::cos(second);
    const Eigen::Vector2d rate = jacobian.lu().solve(Eigen::Vector2d(0, 0.3));
    State out = system.initial_state();
    Vector3d joint = Vector3d::Zero(), velocity = Vector3d::Zero();
    const auto place = [&](BodyId id, double angle, double speed) {
      BodyState& body = out[id];
      const Vector3d half = 0.5 * Vector3d(std::cos(angle), std::sin(angle), 0);
      body.q = Eigen::AngleAxisd(angle, Vector3d::UnitZ());
      body.w = {0, 0, speed};
      body.p = joint + half;
      body.v = velocity + body.w.cross(half);
      joint += 2 * half;
      velocity += 2 * body.w.cross(half);
    };
    place(upper, first, rate[0]);
    place(fore, second, rate[1]);
    return out;
  }
};

/// Lets the arm go round once. @return the largest error of the tip after the first second [m]
double largest_error(double upper_of_model, double fore_of_model, double rate) {
  constexpr double dt = 1e-3, period = 2 * 3.14159265358979323846;
  Arm arm(1, 1), model(upper_of_model, fore_of_model);
  linchpin::ServoController motors = arm.controller(rate), controller = model.controller(rate);
  linchpin::Stepper stepper(arm.system, arm.start(), {.method = linchpin::Method::rk4});
  double most = 0;
  while (stepper.t() < period) {
    motors.set_input(controller.control(stepper.state()).input);
    stepper.step(dt);
    const Vector3d tip = stepper.state()[arm.fore].point({0.5, 0, 0});
    const double t = stepper.t();
    if (t > 1) most = std::max(most, std::hypot(tip.x() - 1 - 0.3 * std::cos(t), tip.y() - 0.5 - 0.3 * std::sin(t)));
  }
  return most;
}

}  // namespace

int main() {
  Arm arm(1, 1);
  linchpin::ServoController controller = arm.controller(10);
  const linchpin::ServoControl& control = controller.control(arm.start());
  expect("torque of the shoulder at t = 0 [N m]", control.input[0], 15.235628553717829, 1e-12);
  expect("torque of the elbow at t = 0 [N m]", control.input[1], 2.029840998886058, 1e-12);

  std::printf("largest error of the tip after the first second [mm]\n");
  std::printf("  masses of the model [kg]   rate 10 rad/s   50 rad/s   200 rad/s\n");
  for (const auto& [upper, fore] : {std::pair{1.0, 1.0}, {1.2, 1.2}, {0.8, 0.8}, {1.2, 0.8}, {0.8, 1.2}}) {
    const double slow = largest_error(upper, fore, 10), middle = largest_error(upper, fore, 50),
                 fast = largest_error(upper, fore, 200);
    std::printf("  %.1f, %.1f %30.4f %10.4f %11.4f\n", upper, fore, 1e3 * slow, 1e3 * middle, 1e3 * fast);
    expect("error at 200 rad/s above 0.1 mm [mm]", std::max(0.0, 1e3 * fast - 0.1), 0);
  }
  return known_answers_missed;
}
