// A ragdoll is pushed off a landing and tumbles down a flight of stairs: cone-twist joints in hips, shoulders, spine
// and neck, hinges with limits in knees and elbows.
#include "program.h"

namespace programs {
namespace {

class Ragdoll final : public Program {
 public:
  Ragdoll() : Program(1.0 / 120) {
    box(0, vec(2, 0.5, 2), vec(-2, -0.5, 0));
    for (int i = 0; i < 12; ++i) box(0, vec(0.15, 1.5, 2), vec(0.3 * i + 0.15, -0.17 * (i + 1) - 1.5, 0));
    box(0, vec(6, 0.5, 4), vec(3.6 + 6, -0.17 * 13 - 0.5, 0));

    const btVector3 p = vec(-0.3, 0.98, 0);  // the pelvis
    btRigidBody& pelvis = box(12, vec(0.1, 0.1, 0.15), p);
    btRigidBody& torso = box(25, vec(0.11, 0.24, 0.17), p + vec(0, 0.37, 0));
    btRigidBody& head = ball(5, 0.11, p + vec(0, 0.77, 0));
    cone(pelvis, torso, p + vec(0, 0.12, 0), along_y, 0.3, 0.3);
    cone(torso, head, p + vec(0, 0.64, 0), along_y, 0.5, 0.5);
    for (const double z : {-1.0, 1.0}) {
      limb(torso, 2.2, 1.5, 0.045, 0.28, p + vec(0, 0.56, 0.23 * z), 1.2, -2.2, 0);
      limb(pelvis, 8, 4, 0.07, 0.4, p + vec(0, -0.11, 0.1 * z), 0.8, 0, 2.2);
    }
    for (const auto& b : bodies) {
      b->setFriction(btScalar(0.6));
      if (!b->isStaticObject()) b->setDamping(btScalar(0.05), btScalar(0.2));
    }
    torso.setLinearVelocity(vec(2.5, 0, 0.3));
    head.setLinearVelocity(vec(2.5, 0, 0.3));
  }

 private:
  /// Twist about `along`, swing of at most `swing` about the two others.
  void cone(btRigidBody& a, btRigidBody& b, const btVector3& point, const btVector3& along, double swing,
            double twist) {
    const btTransform frame(shortestArcQuat(along_x, along), point);
    joint<btConeTwistConstraint>(a, b, in(a)*frame, in(b)*frame)
        .setLimit(btScalar(swing), btScalar(swing), btScalar(twist));
  }
  /// Two capsules that hang from a point, the lower on a hinge along z.
  void limb(btRigidBody& from, double upper_mass, double lower_mass, double radius, double length,
            const btVector3& root, double swing, double least, double most) {
    btCollisionShape& capsule = shape<btCapsuleShape>(btScalar(radius), btScalar(length - 2 * radius));
    btRigidBody& upper = body(upper_mass, capsule, root - vec(0, length / 2, 0));
    btRigidBody& lower = body(lower_mass, capsule, root - vec(0, 3 * length / 2, 0));
    cone(from, upper, root, -along_y, swing, 0.4);
    hinge(upper, lower, root - vec(0, length, 0), along_z).setLimit(btScalar(least), btScalar(most));
  }
};

}  // namespace

std::unique_ptr<Program> ragdoll() { return std::make_unique<Ragdoll>(); }

}  // namespace programs
