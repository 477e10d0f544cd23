// The convex hull of a cloud of points, with a limited number of vertices: what a mesh collides by.
#pragma once

#include <linchpin/scene.h>

#include <cstddef>
#include <optional>
#include <span>

namespace linchpin::scene {

/// The most vertices that the hull of a mesh has. The cost of a collision grows with them.
constexpr std::size_t most_hull_vertices = 100;

/// A hull, and how much it leaves out.
struct MeshHull {
  Hull hull;
  /// Largest distance of a point from the plane of a face that it lies outside of [m]. Where the hull has fewer
  /// vertices than the limit, it is 1e-5 of the extent of the points at most, and 2e-6 of their distance from the
  /// origin.
  double shortfall = 0;
};

/// Returns the convex hull of points: a polyhedron whose vertices are among them, so it lies inside the exact hull. The
/// vertices are added one after the other, the farthest first, until no point lies outside or the limit is reached. The
/// cost grows with the number of points times the logarithm of the number of vertices.
/// @param points  finite
/// @param most  number of vertices, at least 4
/// @return nothing for points in one plane, within 1e-5 of their extent: they have no volume.
std::optional<MeshHull> convex_hull(std::span<const Vector3d> points, std::size_t most = most_hull_vertices);

}  // namespace linchpin::scene
