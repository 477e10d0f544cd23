// A robot's file as parts of a scene: links become bodies, joints become constraints. The rules are
// docs/how-to/robots.md.
#pragma once

#include "joint_coordinate.h"
#include "source.h"

#include <linchpin/scene.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace linchpin::scene {

enum class RobotFormat { urdf, sdf };

struct RobotOptions {
  RobotFormat format = RobotFormat::urdf;
  std::string prefix;              ///< before every name
  Pose base;                       ///< of the root link's frame
  std::optional<bool> fixed_base;  ///< without: fixed where nothing at the root has a mass
  bool merge_fixed = false;        ///< links on fixed joints become part of their parents
  bool self_collision = false;
  std::size_t mesh_hulls = 0;  ///< of a convex decomposition of each mesh, at most; 0: hulls of its parts
  bool link_axes = false;  ///< bodies have the axes of their links, and products of inertia, if they are no multibody
  bool multibody = false;  ///< say which bodies are links of one, and which joints are of its tree
  using OfJoints = std::map<std::string, std::pair<double, Place>, std::less<>>;
  OfJoints joints;                       ///< positions at the start [rad or m]
  OfJoints rates;                        ///< and how fast they change [rad/s or m/s]
  Vector3d velocity = Vector3d::Zero();  ///< of the origin of `base` at the start, with what is free at the root
  Vector3d angular_velocity = Vector3d::Zero();  ///< of that, about world axes
  Place moving;                                  ///< where the two stand, if one is not zero
  /// Names of joints, without the prefix, that the scene replaces by joints of its own, and where it says so.
  std::map<std::string, Place, std::less<>> replaced;
  std::set<std::string, std::less<>> welded;  ///< those of them that become fixed joints
};

/// A joint of the file that the scene replaces: the two bodies that it connected, and its frames on them.
struct ReplacedJoint {
  std::string name;                   ///< without the prefix
  BodyId a, b;                        ///< bodies of the parent and of the child, as in Robot::joints
  JointFrame frame_a, frame_b;        ///< they coincide where its position is 0; their axes are those of the file
  Vector3d axis = Vector3d::UnitX();  ///< in the frames
};

struct Robot {
  template <class T>
  using Placed = std::pair<T, Place>;
  std::vector<Placed<SceneBody>> bodies;
  /// BodyId{i + 1} is bodies[i], BodyId{0} the world.
  std::vector<Placed<SceneConstraint>> joints;
  std::vector<Placed<SceneConstraint>> compound_coordinates;  ///< as Model::compound_coordinates
  std::vector<SceneFrame> frames;  ///< of its links and joints, but not of links without a body
  std::vector<ReplacedJoint> replaced;
  std::vector<std::string> native;    ///< limits: in no System
  std::vector<std::string> warnings;  ///< as Model::warnings
  std::vector<Note> notes;            ///< as Model::notes
  std::vector<std::string> files;     ///< that were read besides its own: meshes
};

/// @param text, path  of the file. @param from  what asked for it, for a message that no reader of it was built in.
/// @throws SceneError at the element's place.
Robot read_robot(const std::string& text, const std::string& path, const RobotOptions& options, const Place& from);

}  // namespace linchpin::scene
