// A lorry of three tonnes crosses a suspension bridge: twenty planks on universal joints, a sliding bearing at the far
// end, two cables of rigid links over towers, and hangers between.
#include "program.h"

#include <BulletDynamics/ConstraintSolver/btUniversalConstraint.h>

namespace programs {
namespace {

constexpr int planks = 20;
constexpr double span = 24, pitch = span / planks, side = 2.1;

double camber(double x) { return 1.6 * (x / span) * (1 - x / span); }
btVector3 deck(int i) { return vec(pitch * i, camber(pitch * i), 0); }
btVector3 cable(int i, double z) {
  const double s = 2.0 * i / planks - 1;
  return vec(pitch * i, 1.6 + 5 * s * s, z);
}

class Bridge final : public Program {
 public:
  Bridge() : Program(1.0 / 120) {
    passive_from = 14;
    btRigidBody& near_bank = box(0, vec(5, 1, 4), vec(-5, -0.9, 0));
    btRigidBody& far_bank = box(0, vec(12, 1, 4), vec(span + 12, -0.9, 0));

    std::vector<btRigidBody*> plank;
    for (int i = 0; i < planks; ++i) {
      plank.push_back(&bar(200, deck(i), deck(i + 1), 0.1, 2));
      plank.back()->setFriction(1);
      btVector3 pitch_axis = along_z, roll_axis = along_x, seam = deck(i);
      joint<btUniversalConstraint>(i == 0 ? near_bank : *plank[std::size_t(i) - 1], *plank.back(), seam, pitch_axis,
                                   roll_axis);
    }
    const btTransform end(btQuaternion::getIdentity(), deck(planks));  // a bearing: it carries, and lets the deck slide
    auto& expansion =
        joint<btGeneric6DofSpring2Constraint>(far_bank, *plank.back(), in(far_bank)*end, in(*plank.back()) * end);
    expansion.setLinearLowerLimit(vec(-0.3, 0, 1));
    expansion.setLinearUpperLimit(vec(0.3, 0, -1));
    expansion.setAngularLowerLimit(vec(1, 1, 1));
    expansion.setAngularUpperLimit(vec(-1, -1, -1));

    for (const double z : {-side, side}) {
      btRigidBody* last = nullptr;
      for (int i = 0; i < planks; ++i) {
        btRigidBody& link = bar(30, cable(i, z), cable(i + 1, z), 0.05, 0.05, false);
        if (!last)
          pin(link, cable(0, z));
        else
          pin(*last, link, cable(i, z));
        if (i > 0) {
          const btVector3 low = deck(i) + vec(0, 0, z);
          btRigidBody& hanger = bar(20, low, cable(i, z), 0.03, 0.03, false);
          pin(hanger, link, cable(i, z));
          pin(hanger, *plank[std::size_t(i)], low);
        }
        last = &link;
      }
      pin(*last, cable(planks, z));
    }
    for (const auto& b : bodies)
      if (!b->isStaticObject()) b->setDamping(btScalar(0.1), btScalar(0.1));

    btRigidBody& chassis = box(2600, vec(1.5, 0.3, 0.7), vec(-4, 0.95, 0));
    btCollisionShape& tyre = shape<btCylinderShapeZ>(vec(0.45, 0.45, 0.15));
    for (const double x : {-1.1, 1.1})
      for (const double z : {-0.95, 0.95}) {
        const btVector3 hub = chassis.getCenterOfMassPosition() + vec(x, -0.4, z);
        btRigidBody& wheel = body(100, tyre, hub);
        wheel.setFriction(1);
        axle.push_back(&hinge(chassis, wheel, hub, along_z));
      }
  }

 private:
  btRigidBody& bar(double mass, const btVector3& from, const btVector3& to, double half_y, double half_z,
                   bool collides = true) {
    const btVector3 along = to - from;
    return box(mass, btVector3(along.length() / 2 - btScalar(0.02), btScalar(half_y), btScalar(half_z)),
               (from + to) / 2, shortestArcQuat(along_x, along.normalized()), collides);
  }
  void control() override {
    const bool drives = t < passive_from;
    const double speed = t < 1 ? 0 : 3;  // [m/s]
    for (btHingeConstraint* a : axle)
      a->enableAngularMotor(true, drives ? btScalar(speed / 0.45) : 0, btScalar((drives ? 1000 : 300) * dt));
  }
  std::vector<btHingeConstraint*> axle;
};

}  // namespace

std::unique_ptr<Program> suspension_bridge() { return std::make_unique<Bridge>(); }

}  // namespace programs
