// Approximate convex decomposition of a mesh: several hulls that together are close to it, also where it is hollow.
#pragma once

#include "mesh_file.h"
#include "mesh_hull.h"

#include <cstddef>
#include <span>
#include <vector>

namespace linchpin::scene {

/// The most hulls of a decomposition.
constexpr std::size_t most_decomposition_hulls = 64;

/// Cuts a mesh by planes across its axes, and returns the hulls of the pieces. The piece whose surface is deepest below
/// its hull is cut, where the sum of the volumes of the two hulls is least. It ends at `most` hulls, or where no
/// surface is deeper than 1 % of the extent of the mesh. Pieces whose common hull is no larger than their own hulls
/// together are joined again. Equal meshes have equal results.
///
/// A mesh need not be closed. The search uses at most about a thousand triangles of each piece, so its cost is bounded
/// by `most`. The cuts are made on the whole mesh.
/// @param parts  of the mesh: each is cut by itself. @param most  from 1 to most_decomposition_hulls
/// @return nothing for a part without volume, or for more parts than `most`
std::vector<MeshHull> convex_decomposition(std::span<const MeshPart> parts, std::size_t most);

/// The volume of a hull [m³].
double volume_of(const Hull& hull);

}  // namespace linchpin::scene
