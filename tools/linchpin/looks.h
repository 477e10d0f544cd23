// How the bodies of a scene are drawn in a recording.
#pragma once

#include <linchpin/recording.h>
#include <linchpin/scene.h>

#include <vector>

namespace linchpin {

/// A shape of a scene for viewers.
inline recording::VisualShape look_of(const scene::Shape& shape) {
  // The kinds of both are in the same order.
  recording::VisualShape out{static_cast<recording::VisualShape::Kind>(shape.kind), shape.size, {}, {}};
  if (shape.hull) out.vertices = shape.hull->vertices, out.triangles = shape.hull->faces;
  return out;
}

/// The shapes of a robot's link for viewers, in body axes.
inline std::vector<recording::PlacedVisualShape> parts_of(const scene::SceneBody& body) {
  std::vector<recording::PlacedVisualShape> out;
  for (const scene::PlacedShape& each : body.more_shapes)
    out.push_back({look_of(each.shape), each.pose.p, each.pose.q});
  return out;
}

}  // namespace linchpin
