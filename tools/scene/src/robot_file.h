// A robot as its file has it, whichever format that is. A reader makes it (urdf.cpp, sdf.cpp); robot.cpp makes bodies
// and joints of it.
#pragma once

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
    Matrix3d inertia = Matrix3d::Zero();  ///< about its origin, in its axes
  };
  struct Link {
    std::string name;
    Place at;
    std::optional<Inertial> inertial;
    std::vector<PlacedShape> shapes;  ///< in the link's frame
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
    std::optional<std::pair<double, double>> limits;
    struct Mimic {
      std::string leader;
      int of = -1;  ///< the joint of that name
      Place at;
      double multiplier = 1, offset = 0;
    };
    std::optional<Mimic> mimic;

    bool turns() const { return kind == Kind::revolute || kind == Kind::continuous; }
    bool slides() const { return kind == Kind::prismatic; }
  };
  std::vector<Link> links;
  std::vector<Joint> joints;                 ///< one that no link hangs by closes a loop
  std::vector<int> order;                    ///< of links, parents first
  std::vector<std::string> warnings, notes;  ///< as Robot's
};

constexpr std::size_t most_links = 10000;  ///< of a file

const char* to_string(RobotFile::Joint::Kind kind);

/// @throws SceneError at the element's place, and at `from` where linchpin was built without the reader.
RobotFile read_urdf(const std::string& text, const std::string& path, const Place& from);
RobotFile read_sdf(const std::string& text, const std::string& path, const Place& from);

/// Finds who leads. @throws SceneError where that is nobody, has no position, or follows its follower.
void resolve_mimics(RobotFile& file);

/// Why a mass is none that a moving body may have [kg]; empty where it is.
std::string refusal_of_mass(double mass);
/// Why an inertia is none that a moving body may have; empty where it is positive definite.
std::string refusal_of(const Matrix3d& inertia);
/// A number as a message has it.
std::string shown(double x);
Pose operator*(const Pose& a, const Pose& b);
Pose inverse(const Pose& a);
/// Of a collision element of either format: along z there, along y in scenes.
Quaterniond upright();

}  // namespace linchpin::scene
