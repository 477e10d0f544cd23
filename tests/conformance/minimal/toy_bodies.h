// Bodies and joints of the toy engine for the tests of the minimal adapter.
#pragma once

#include <linchpin/minimal.h>

#include <vector>

namespace linchpin::test {

/// Returns a box of half extents `half`, without points of contact.
inline toy::Body toy_box(double mass, const Vector3d& half, const Vector3d& at) {
  toy::Body body;
  body.mass = mass;
  const Vector3d square = half.cwiseProduct(half);
  body.inertia = mass / 3 * Vector3d(square.y() + square.z(), square.x() + square.z(), square.x() + square.y());
  body.p = at;
  return body;
}

/// Returns a solid ball, which meets the ground with its surface.
inline toy::Body toy_ball(double mass, double radius, const Vector3d& at) {
  toy::Body body;
  body.mass = mass;
  body.inertia.setConstant(0.4 * mass * radius * radius);
  body.p = at;
  body.contact_points = {Vector3d::Zero()};
  body.radius = radius;
  return body;
}

/// Returns a joint at points from the centres of mass, with the axes of the bodies.
inline toy::Joint toy_joint(toy::Joint::Kind kind, int a, int b, const Vector3d& on_a, const Vector3d& on_b) {
  toy::Joint made;
  made.settings.kind = kind;
  made.settings.a = a;
  made.settings.b = b;
  made.settings.on_a.origin = on_a;
  made.settings.on_b.origin = on_b;
  return made;
}

}  // namespace linchpin::test
