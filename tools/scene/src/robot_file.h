// A robot as its file has it, whichever format that is. A reader makes it (urdf.cpp, sdf_module.cpp); robot.cpp makes
// bodies and joints of it.
#pragma once

#include "robot_notes.h"
#include "source.h"

#include <linchpin/scene.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace linchpin::scene {

struct RobotFile {
  struct Inertial {
    double mass = 0;
    Pose frame;                           ///< in the link's
    Matrix3d inertia = Matrix3d::Zero();  ///< about its origin, in its axes; any symmetric matrix of finite numbers
    Place at;                             ///< of the inertia
  };
  struct Link {
    std::string name;
    Place at;
    std::optional<Inertial> inertial;
    std::vector<PlacedShape> shapes;  ///< in the link's frame
    std::vector<PlacedShape> planes;  ///< half spaces as boxes, which say nothing of its size
    int joint = -1;                   ///< by which it hangs on its parent; −1: a root
    Pose pose;                        ///< of a root, in the robot's frame
    bool held = false;                ///< a root that does not move
    double mass() const { return inertial ? inertial->mass : 0; }
  };
  struct Joint {
    enum class Kind { revolute, continuous, prismatic, fixed, floating, planar, ball };
    std::string name;
    Place at;
    Kind kind = Kind::fixed;
    int parent = -1, child = -1;
    Pose in_parent, in_child;           ///< frames on the two links that coincide where its position is 0
    Vector3d axis = Vector3d::UnitX();  ///< in them
    double damping = 0, friction = 0;
    double stiffness = 0, spring_reference = 0;  ///< of a spring along it [N m/rad or N/m], and where it has no force
    double armature = 0;  ///< inertia of its rate, as that of a rotor that it turns [kg m² or kg]
    std::optional<std::pair<double, double>> limits;
    std::optional<double> max_force, max_rate;  ///< of its actuator [N m or N], [rad/s or m/s]
    struct Mimic {
      std::string leader;
      int of = -1;  ///< the joint of that name
      Place at;
      double multiplier = 1, offset = 0;
      std::string name = {};  ///< of the constraint; empty: that of the joint with ".mimic"
    };
    std::optional<Mimic> mimic;

    bool turns() const { return kind == Kind::revolute || kind == Kind::continuous; }
    bool slides() const { return kind == Kind::prismatic; }
  };
  /// Two rotations in proportion: θ₂ = −ratio·θ₁. θ₁ is the angle of link 1 relative to the reference link about axis
  /// 1, θ₂ that of link 2 about axis 2. Both are 0 in the pose of the file. It holds nothing else.
  struct Gear {
    std::string name;
    Place at;
    int reference = -1;
    int links[2] = {-1, -1};
    Vector3d axes[2];  ///< in the frame of the reference link, unit
    Pose frames[2];    ///< of the links in the reference link, in the pose of the file
    double ratio = 1;
  };
  std::vector<Link> links;
  std::vector<Gear> gears;
  std::vector<Joint> joints;          ///< one that no link hangs by closes a loop
  std::vector<int> order;             ///< of links, parents first
  std::vector<std::string> warnings;  ///< as Robot's
  std::vector<std::string> files;     ///< of meshes that it collides by
  RobotNotes notes;
};

constexpr std::size_t most_links = 10000;  ///< of a file

const char* to_string(RobotFile::Joint::Kind kind);

/// @param mesh_hulls  as RobotOptions
/// @throws SceneError at the element's place, and at `from` where linchpin was built without the reader.
RobotFile read_urdf(const std::string& text, const std::string& path, const Place& from, std::size_t mesh_hulls = 0);
RobotFile read_sdf(const std::string& text, const std::string& path, const Place& from, std::size_t mesh_hulls = 0);

constexpr double no_limit = 1e9;  ///< a limit of a joint from here on [rad or m] is none

/// Finds who leads. A mimic of an unknown joint, or of a joint without a position, is left out with a note.
/// @throws SceneError where a leader has no position, or follows its follower.
void resolve_mimics(RobotFile& file);

/// A number as a message has it.
std::string shown(double x);
Pose operator*(const Pose& a, const Pose& b);
Pose inverse(const Pose& a);
/// Of a collision element of either format: along z there, along y in scenes.
Quaterniond upright();
/// A half space of a collision element as a box whose upper face is the plane through the origin of `pose`.
PlacedShape half_space(const Pose& pose, const Vector3d& normal);

/// Kinds of notes that both formats have.
namespace notes {
inline constexpr RobotNotes::Kind no_size{"link", "has a collision shape of size zero, which is left out",
                                          "have collision shapes of size zero, which are left out"};
inline constexpr RobotNotes::Kind no_shape{"link", "has a collision shape that is not supported and is left out",
                                           "have collision shapes that are not supported and are left out",
                                           "Supported are boxes, spheres, cylinders, capsules, planes and meshes"};
inline constexpr RobotNotes::Kind plane{"link",
                                        "collides by a plane, which is a box of 200 m by 200 m by 10 m below it",
                                        "collide by planes, which are boxes of 200 m by 200 m by 10 m below them"};
inline constexpr RobotNotes::Kind one_limit{"joint", "has a limit on one side alone, which is left out",
                                            "have a limit on one side alone, which is left out"};
}  // namespace notes

}  // namespace linchpin::scene
