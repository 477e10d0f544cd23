// A car on rough ground: four wheels on hinge2 joints with springs and dampers, kinematic by their axle motors, the
// front ones steered by servos.
#include "program.h"

#include <BulletDynamics/ConstraintSolver/btHinge2Constraint.h>

#include <cmath>
#include <random>

namespace programs {
namespace {

class Car final : public Program {
 public:
  Car() : Program(1.0 / 120) {
    passive_from = 14;
    btRigidBody& ground = box(0, vec(30, 0.5, 120), vec(0, -0.5, 100));
    ground.setFriction(1);
    std::mt19937 random(11);
    const auto draw = [&](double from, double to) { return from + (to - from) * (random() / 4294967296.0); };
    for (int i = 0; i < 150; ++i) {
      const btVector3 at = vec(draw(-6, 6), draw(-0.09, -0.04), 4 + 0.6 * i);
      box(0, vec(0.8, 0.1, 0.2), at, turn(along_y, draw(-1, 1)) * turn(along_z, draw(-0.1, 0.1))).setFriction(1);
    }

    chassis = &box(800, vec(0.7, 0.25, 1.8), vec(0, 0.75, 0));
    btCollisionShape& tyre = shape<btCylinderShapeX>(vec(0.125, 0.35, 0.35));
    for (const double z : {-1.25, 1.25})
      for (const double x : {-0.95, 0.95}) {
        btVector3 hub = vec(x, 0.36, z), up = along_y, axle = along_x;
        btRigidBody& wheel = body(30, tyre, hub);
        wheel.setFriction(1);
        auto& j = joint<btHinge2Constraint>(*chassis, wheel, hub, up, axle);
        j.setLinearLowerLimit(vec(0, 0, -0.15));  // travel, along `up`
        j.setLinearUpperLimit(vec(0, 0, 0.15));
        j.setStiffness(2, btScalar(40e3));
        j.setDamping(2, btScalar(3e3));
        j.setEquilibriumPoint();
        j.enableMotor(3, true);
        if (z > 0) {
          j.setLowerLimit(btScalar(-0.5));
          j.setUpperLimit(btScalar(0.5));
          j.enableMotor(5, true);
          j.setServo(5, true);
          j.setMaxMotorForce(5, 500);
          j.setTargetVelocity(5, 2);
          steering.push_back(&j);
        } else {
          j.setLowerLimit(0);
          j.setUpperLimit(0);
        }
        wheels.push_back(&j);
      }
  }

 private:
  void control() override {
    const bool drives = t > 0.5 && t < passive_from;
    for (btHinge2Constraint* w : wheels) {
      w->setMaxMotorForce(3, btScalar(drives ? 250 : 60));
      w->setTargetVelocity(3, btScalar(drives ? -6 / 0.35 : 0));
    }
    for (btHinge2Constraint* w : steering) w->setServoTarget(5, btScalar(drives ? 0.1 * std::sin(t) : 0));
  }
  btRigidBody* chassis = nullptr;
  std::vector<btHinge2Constraint*> wheels, steering;
};

}  // namespace

std::unique_ptr<Program> hinge2_car() { return std::make_unique<Car>(); }

}  // namespace programs
