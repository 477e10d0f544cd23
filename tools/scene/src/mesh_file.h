// The files of meshes: STL (binary and text), OBJ and COLLADA (.dae). A collision uses convex hulls, so the readers
// keep the surfaces and nothing else. They are written for damaged and hostile files: every index is
// checked, no other file is opened, and the size of what is read has a limit.
#pragma once

#include <linchpin/system.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace linchpin::scene {

/// The limits of a file: its bytes, and the points of its surfaces with repetitions.
constexpr std::size_t most_mesh_bytes = 256u << 20, most_mesh_points = 16u << 20;

/// A mesh file is not usable. what() is the reason, without the name of the file.
struct MeshError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A part of a file: a solid of STL, an object or a group of OBJ, a node of COLLADA.
struct MeshPart {
  std::string name;
  std::vector<Vector3d> points;  ///< the corners of its triangles [m]; finite; the same point may occur often
  std::vector<std::array<std::uint32_t, 3>> triangles = {};  ///< indices of points; polygons are fans of triangles
};

/// Reads a file by the end of its name, in upper or lower case. Parts without a point are left out. STL and OBJ have no
/// unit and count in metres. COLLADA counts in its own unit. Its <up_axis> is not used, as in rviz: the axes of the
/// file are those of the link.
/// @throws MeshError for a file that cannot be read, is of another format or damaged, or has no points.
std::vector<MeshPart> read_mesh(const std::string& path);

/// Adds a polygon as a fan of triangles.
/// @param corners  indices of points
void add_polygon(MeshPart& part, std::span<const std::uint32_t> corners);

/// The readers of the formats by themselves, for a text in memory. They throw as read_mesh().
std::vector<MeshPart> read_stl(std::string_view text);
std::vector<MeshPart> read_obj(std::string_view text);
std::vector<MeshPart> read_collada(std::string_view text);

}  // namespace linchpin::scene
