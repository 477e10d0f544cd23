// The meshes of a robot's collision elements: where their files are, and the convex hulls that they collide by. Both
// formats of robots use it.
#pragma once

#include "mesh_file.h"
#include "robot_file.h"

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace linchpin::scene {

/// The most hulls of one file. A file with more parts has one hull of all its points.
constexpr std::size_t most_mesh_hulls = 32;

/// Finds the file of a mesh. `package://NAME/REST` and `model://NAME/REST` are looked for in this order: in a folder
/// NAME that is a folder above `from` or lies in one; in a folder above whose package.xml has that <name>; and in the
/// folders of environment variables. These are ROS_PACKAGE_PATH and AMENT_PREFIX_PATH for packages, and
/// GZ_SIM_RESOURCE_PATH, IGN_GAZEBO_RESOURCE_PATH, SDF_PATH and GAZEBO_MODEL_PATH for models. Other names are paths
/// from the folder of `from`, with or without `file://`.
/// @param from  the robot's file
/// @return the path, or an empty text without such a file
std::string find_mesh(const std::string& uri, const std::string& from);

/// Reads each mesh of a robot once.
class RobotMeshes {
 public:
  /// @param hulls  of a convex decomposition of each file, at most; 0: one hull of each part
  explicit RobotMeshes(std::size_t hulls = 0) : hulls_(hulls) {}
  /// An element <mesh> of a collision.
  struct Mesh {
    std::string uri;   ///< as the file has it
    std::string from;  ///< the file that has it
    Vector3d scale = Vector3d::Ones();
    std::string part = {};  ///< the one part to use, by its name; empty: all
    bool centred = false;   ///< with the centre of its bounding box at the origin
  };
  /// Adds the hulls of a mesh to the shapes of a link. Adds a note instead where there is no file, where it cannot be
  /// read, or where it has no volume.
  /// @param pose  of the mesh in the link
  void add(const Mesh& mesh, const Pose& pose, RobotFile::Link& link, RobotFile& file);

 private:
  using Key = std::tuple<std::string, double, double, double, std::string, bool>;
  struct Read {
    std::vector<PlacedShape> shapes;
    std::string error;  // why there are no shapes; empty: they have no volume
  };
  const Read& read(const std::string& path, const Mesh& mesh);
  std::size_t hulls_;
  std::map<Key, Read> read_;
};

}  // namespace linchpin::scene
