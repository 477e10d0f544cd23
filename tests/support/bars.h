// Links of a planar chain: bars of 1 m and 1 kg that turn about z.
#pragma once

#include <linchpin/articulated.h>

namespace linchpin::test {

/// Returns the rotation by angular velocity w over dt.
inline Quaterniond exponential(const Vector3d& w, double dt) {
  const double angle = w.norm() * dt;
  return angle != 0 ? Quaterniond(Eigen::AngleAxisd(angle, w.normalized())) : Quaterniond(Quaterniond::Identity());
}

/// Returns the link with index i of the chain.
inline articulated::LinkModel bar(int i) {
  articulated::LinkModel link;
  link.parent = i - 1;
  link.joint = articulated::JointKind::revolute;
  link.first_position = link.first_rate = i;
  link.positions = link.rates = 1;
  link.p_PJ = i == 0 ? Vector3d(0, 0, 0) : Vector3d(0.5, 0, 0);
  link.p_JL = Vector3d(0.5, 0, 0);
  link.angular[0] = Vector3d::UnitZ();
  link.linear[0] = Vector3d::UnitZ().cross(link.p_JL);
  link.mass = 1;
  link.inertia = Vector3d(0.01, 0.08, 0.08);
  return link;
}

}  // namespace linchpin::test
