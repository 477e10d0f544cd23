// A quadruped that walks on closed-loop legs: each of two thighs on two motors at the hip and two shins that meet at
// the foot, as Minitaur's. The motors follow a trot.
#include "program.h"

#include <array>
#include <cmath>

namespace programs {
namespace {

constexpr double thigh = 0.1, shin = 0.2, height = 0.22, stride = 0.04, lift = 0.05, period = 0.6;

class Walker final : public Program {
 public:
  Walker() : Program(1.0 / 240) {
    passive_from = 16;
    box(0, vec(20, 0.5, 20), vec(0, -0.5, 0)).setFriction(1);
    btRigidBody& trunk = box(8, vec(0.3, 0.05, 0.14), vec(0, height + 0.021, 0));
    trunk.setActivationState(DISABLE_DEACTIVATION);
    for (const double x : {-0.2, 0.2})
      for (const double z : {-0.18, 0.18}) {
        Leg leg;
        leg.phase = x * z > 0 ? 0 : 0.5;
        const btVector3 hip = trunk.getCenterOfMassPosition() + vec(x, 0, z), foot = hip - vec(0, height, 0);
        std::array<btRigidBody*, 2> lower{};
        for (std::size_t k = 0; k < 2; ++k) {
          const double angle = angles(0, height)[k];
          const btVector3 knee = hip + thigh * vec(std::sin(angle), -std::cos(angle), 0);
          btRigidBody& upper = bar(0.2, hip, knee);
          lower[k] = &bar(0.2, knee, foot, k == 0 ? 0.02 : 0);
          leg.motor[k] = &hinge(trunk, upper, hip, along_z);
          hinge(upper, *lower[k], knee, along_z);
        }
        pin(*lower[0], *lower[1], foot);
        legs.push_back(leg);
      }
  }

 private:
  struct Leg {
    double phase = 0;
    std::array<btHingeConstraint*, 2> motor{};
  };
  /// Of the two thighs from straight down, for a foot x ahead of and y below its hip.
  static std::array<double, 2> angles(double x, double y) {
    const double r = std::hypot(x, y), lean = std::atan2(x, y);
    const double apart = std::acos((thigh * thigh + r * r - shin * shin) / (2 * thigh * r));
    return {lean - apart, lean + apart};
  }
  /// With a radius, a foot at its end; without, it touches nothing.
  btRigidBody& bar(double mass, const btVector3& from, const btVector3& to, double foot = 0) {
    const btVector3 along = to - from;
    const btQuaternion q = shortestArcQuat(along_x, along.normalized());
    btCollisionShape& rod = shape<btBoxShape>(btVector3(along.length() / 2, btScalar(0.01), btScalar(0.01)));
    if (foot <= 0) return body(mass, rod, (from + to) / 2, q, false);
    auto& with_foot = shape<btCompoundShape>();
    with_foot.addChildShape(btTransform::getIdentity(), &rod);
    with_foot.addChildShape(btTransform(btQuaternion::getIdentity(), btVector3(along.length() / 2, 0, 0)),
                            &shape<btSphereShape>(btScalar(foot)));
    btRigidBody& b = body(mass, with_foot, (from + to) / 2, q);
    b.setFriction(1);
    return b;
  }
  void control() override {
    const bool walks = t > 1 && t < passive_from - 1;
    const auto rest = angles(0, height);
    for (const Leg& leg : legs) {
      const double s = std::fmod((t - 1) / period + leg.phase, 1.0);
      double x = 0, y = height;
      if (walks && s < 0.5) {  // on the ground, backwards
        x = stride * (1 - 4 * s);
      } else if (walks) {  // through the air, forwards
        x = stride * (4 * s - 3);
        y = height - lift * std::sin(2 * SIMD_PI * (s - 0.5));
      }
      const auto wanted = angles(x, y);
      for (std::size_t k = 0; k < 2; ++k) {
        const double off = -(wanted[k] - rest[k]) - double(leg.motor[k]->getHingeAngle());
        leg.motor[k]->enableAngularMotor(true, btScalar(t < passive_from ? 30 * off : 0), btScalar(20 * dt));
      }
    }
  }
  std::vector<Leg> legs;
};

}  // namespace

std::unique_ptr<Program> walker() { return std::make_unique<Walker>(); }

}  // namespace programs
