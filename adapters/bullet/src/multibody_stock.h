// Bullet's own constraints between links: which rows of each can be held exactly.
#pragma once

#include <BulletDynamics/Featherstone/btMultiBodyConstraint.h>

#include <linchpin/bullet.h>

#include <array>
#include <string>

namespace LINCHPIN_BULLET_NAMESPACE {

/// The rows of a stock multibody constraint that can be held exactly; `native` says why there are none.
struct StockShape {
  const char* kind = "multibody constraint";
  std::string native;
  JointRows rows;  ///< between link A and link B, or a rigid body, or the world
  Vector3d application_A = Vector3d::Zero(), application_B = Vector3d::Zero();
  btRigidBody* rigid = nullptr;  ///< in place of link B
  bool gear = false;
  double ratio = 0, target = 0;
  int aux = -1;  ///< gear: third link, −1: none
  bool has_target = false;
};
StockShape shape_of(btMultiBodyConstraint& constraint);
/// All settings that the shape depends on.
using StockNumbers = std::array<double, 40>;
StockNumbers numbers_of(btMultiBodyConstraint& constraint);

}  // namespace LINCHPIN_BULLET_NAMESPACE
