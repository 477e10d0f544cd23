// Reading a btMultiBody into the core's description of an articulated body, and writing a configuration back. Joint
// positions and velocities are read by Bullet's own conventions and converted to double here and nowhere else. Bullet's
// caches, which single precision rounds, are not used.
#pragma once

#include <BulletDynamics/Featherstone/btMultiBody.h>

#include <linchpin/articulated.h>
#include <linchpin/bullet.h>

#include <string>

namespace LINCHPIN_BULLET_NAMESPACE {

/// Why this multibody cannot take part in exact constraints; empty when it can.
std::string why_unsupported(const btMultiBody& body);
/// Returns whether Bullet lets it stand: one collider asleep is enough for btMultiBodyDynamicsWorld.
bool is_asleep(const btMultiBody& body);
articulated::LinkModel read_link(const btMultiBody& body, int link);  ///< −1: the base, without a joint
/// Reads masses, joints, configuration, velocities and applied forces.
void read_tree(const btMultiBody& body, articulated::TreeModel& model, articulated::TreeState& state);
/// Memory of Bullet's forward kinematics.
struct KinematicsMemory {
  btAlignedObjectArray<btQuaternion> rotations;
  btAlignedObjectArray<btVector3> places;
};
/// Writes a configuration back to Bullet, and its caches.
void write_configuration(const articulated::Configuration& at, btMultiBody& body, KinematicsMemory& memory);

}  // namespace LINCHPIN_BULLET_NAMESPACE
