// Bullet's bodies as the core sees them: mass, pose and velocity, converted to double at this boundary and nowhere
// else.
#pragma once

#include <linchpin/bullet.h>
#include <linchpin/detail/class_of.h>

#include <cmath>
#include <cstddef>

namespace LINCHPIN_BULLET_NAMESPACE {

// Many games are compiled with -fno-rtti. There, dynamic_cast and typeid of an object whose class the game defines
// would read type information that does not exist.
using linchpin::detail::class_of;
using linchpin::detail::is_exactly;
using linchpin::detail::type_of;

inline std::size_t z(int i) { return static_cast<std::size_t>(i); }

/// Returns whether a body is the one that stands for the world in Bullet's joints. Each copy of Bullet in a program has
/// one of its own, without mass and shape: a host that loads linchpin as a plugin has another than linchpin.
inline bool is_fixed_body(const btRigidBody& body) {
  return &body == &btTypedConstraint::getFixedBody() || (body.getInvMass() == 0 && !body.getCollisionShape());
}

/// A kinematic body is BodyKind::kinematic. A body that nothing can turn is a particle. A disabled body and one that is
/// not supported are fixed.
BodyKind kind_of(const btRigidBody& body);
/// Why a body that moves has no mass matrix, in words; null: it has one, or does not move.
const char* why_unsupported(const btRigidBody& body);
bool is_disabled(const btRigidBody& body);  ///< DISABLE_SIMULATION: it stands where it is
/// Whether nothing can turn it, and it turns: the program has set it turning.
bool is_turning_point(const btRigidBody& body);
/// World axes along which the factors of a dynamic body forbid it to change its motion. Bit i is for linear x y z, bit
/// 3 + i for angular, where the body can turn.
unsigned locked_axes(const btRigidBody& body);

/// In the precision of Bullet, which squares velocities at once and goes on with what is no number then.
inline bool can_be_squared(const btVector3& u) { return std::isfinite(u.length2()); }
inline bool can_be_squared(const Vector3d& u) { return std::isfinite(btScalar(u.squaredNorm())); }

/// Pose and velocity of a body as it stands [W]. Rotations are made orthonormal in double.
BodyState read_state(const btRigidBody& body);
/// The same; accelerations stay what they are.
void read_state(const btRigidBody& body, BodyState& to);
Pose read_pose(const btTransform& transform);
inline double read_mass(const btRigidBody& body) { return 1 / double(body.getInvMass()); }
/// Principal moments of inertia, body axes, from Bullet's inverse diagonal [kg·m²].
Vector3d read_inertia(const btRigidBody& body);
void write_pose(btTransform& transform, const Vector3d& p, const Quaterniond& q);

/// The rotation by which Bullet's own integrator turns a body over dt, its clamp at π/4 included.
Quaterniond host_rotation(const Vector3d& w, double dt);

}  // namespace LINCHPIN_BULLET_NAMESPACE
