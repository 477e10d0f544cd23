// The robots of robots.txt: their structure as plain data, and the same as a URDF file and a scene.
#pragma once

#include <linchpin/system.h>

#include <Eigen/Geometry>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <numbers>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace linchpin::test::robots {

enum class JointKind { none, hinge, slider, ball, weld };

/// A link and the joint that holds it to its parent. The frame of the link is at the joint.
struct Link {
  std::string name;
  int parent = -1;                       ///< index; −1 of the root
  JointKind kind = JointKind::none;      ///< of the joint; none of the root
  Vector3d at = Vector3d::Zero();        ///< origin of the joint in the frame of the parent [m]
  Matrix3d turn = Matrix3d::Identity();  ///< of the joint in the frame of the parent
  Vector3d rpy = Vector3d::Zero();       ///< the same, as in URDF [rad]
  Vector3d axis = Vector3d::UnitX();     ///< unit, in the frame of the joint
  std::optional<std::pair<double, double>> within;
  double near = 0;                   ///< position at which the loops are about closed
  double damping = 0, friction = 0;  ///< [N m s/rad or N s/m], [N m or N]
  int leader = -1;                   ///< of a mimic joint: q = multiplier · q_leader + offset
  double multiplier = 1, offset = 0;
  double mass = 0;                      ///< 0: a frame only
  Vector3d com = Vector3d::Zero();      ///< in the frame of the link
  Vector3d tilt = Vector3d::Zero();     ///< of the axes of `moments`, as in URDF [rad]
  std::array<double, 6> moments = {};   ///< xx, yy, zz, xy, xz, yz in the axes of `tilt`
  Matrix3d inertia = Matrix3d::Zero();  ///< about the centre of mass, in the axes of the link [kg m²]
  std::string joint() const { return name + "_joint"; }
};

/// A joint that closes a loop: a ball, or a pin, which is a point on a line.
struct Loop {
  std::string name;
  bool pin = false;
  int a = 0, b = 0;                   ///< links
  Vector3d axis = Vector3d::UnitZ();  ///< of a pin, in the frame of a
  Vector3d at_a, at_b;                ///< in the frames of the links
};

struct Robot {
  std::string name;
  bool free = false;  ///< the root moves freely
  std::vector<Link> links;
  std::vector<Loop> loops;
  int index(const std::string& link) const {
    for (std::size_t i = 0; i < links.size(); ++i)
      if (links[i].name == link) return static_cast<int>(i);
    throw std::invalid_argument(name + " has no link " + link);
  }
  const Link& link(int i) const { return links[static_cast<std::size_t>(i)]; }
};

inline void PrintTo(const Robot& robot, std::ostream* out) { *out << robot.name; }

/// Rotation of URDF's roll, pitch and yaw: about x, then y, then z of the outer frame.
inline Matrix3d rotation(const Vector3d& rpy) {
  using Eigen::AngleAxisd;
  return (AngleAxisd(rpy.z(), Vector3d::UnitZ()) * AngleAxisd(rpy.y(), Vector3d::UnitY()) *
          AngleAxisd(rpy.x(), Vector3d::UnitX()))
      .toRotationMatrix();
}

/// Reads robots.txt, whose first lines describe the format.
inline std::vector<Robot> read_robots(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::invalid_argument("cannot read " + path);
  std::vector<Robot> out;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    if (!(words >> word)) continue;
    const auto fail = [&](const std::string& what) {
      throw std::invalid_argument(path + ":" + std::to_string(number) + ": " + what);
    };
    const auto value = [&] {
      double x = 0;
      if (std::string text; words >> text) return std::stod(text);
      fail("a number is missing");
      return x;
    };
    const auto vector = [&] {
      const double x = value(), y = value(), z = value();
      return Vector3d(x, y, z);
    };
    const auto angles = [&] { return Vector3d(vector() * (std::numbers::pi / 180)); };
    const auto text = [&] {
      std::string next;
      if (!(words >> next)) fail("a word is missing");
      return next;
    };
    if (word == "robot") {
      out.emplace_back();
      out.back().name = text();
      out.back().free = text() == "free";
      continue;
    }
    Robot& robot = out.back();
    if (word == "loop") {
      Loop loop;
      loop.name = text(), loop.pin = text() == "pin";
      loop.a = robot.index(text()), loop.b = robot.index(text());
      if (loop.pin) (void)text(), loop.axis = vector().normalized();
      (void)text(), loop.at_a = vector(), loop.at_b = vector();
      robot.loops.push_back(loop);
      continue;
    }
    Link link;
    link.name = word;
    while (words >> word) {
      if (word == "root") {
      } else if (word == "on") {
        link.parent = robot.index(text());
        const std::string kind = text();
        link.kind = kind == "hinge"    ? JointKind::hinge
                    : kind == "slider" ? JointKind::slider
                    : kind == "ball"   ? JointKind::ball
                    : kind == "weld"   ? JointKind::weld
                                       : JointKind::none;
        if (link.kind == JointKind::none) fail("no joint is a " + kind);
      } else if (word == "at") {
        link.at = vector();
      } else if (word == "rpy") {
        link.rpy = angles(), link.turn = rotation(link.rpy);
      } else if (word == "axis") {
        link.axis = vector().normalized();
      } else if (word == "within") {
        const double low = value();
        link.within = {low, value()};
      } else if (word == "near") {
        link.near = value();
      } else if (word == "damping") {
        link.damping = value();
      } else if (word == "friction") {
        link.friction = value();
      } else if (word == "mimic") {
        link.leader = robot.index(text()), link.multiplier = value(), link.offset = value();
      } else if (word == ":") {
        link.mass = value();
      } else if (word == "com") {
        link.com = vector();
      } else if (word == "I") {
        for (int k = 0; k < 3; ++k) link.moments[static_cast<std::size_t>(k)] = value();
        for (std::size_t k = 3;
             k < 6 && (words >> std::ws, std::isdigit(words.peek()) || words.peek() == '-' || words.peek() == '.'); ++k)
          link.moments[k] = value();
      } else if (word == "tilt") {
        link.tilt = angles();
      } else {
        fail("\"" + word + "\" means nothing");
      }
    }
    const auto& I = link.moments;
    Matrix3d own;
    own << I[0], I[3], I[4], I[3], I[1], I[5], I[4], I[5], I[2];
    link.inertia = rotation(link.tilt) * own * rotation(link.tilt).transpose();
    robot.links.push_back(link);
  }
  return out;
}

inline std::string exact(double x) {
  std::ostringstream out;
  out.precision(17);
  out << x;
  return out.str();
}
inline std::string exact(const Vector3d& v) { return exact(v.x()) + " " + exact(v.y()) + " " + exact(v.z()); }

/// @param losses  with damping and friction of the joints
inline std::string urdf(const Robot& robot, bool losses) {
  std::string out = "<robot name='" + robot.name + "'>\n";
  for (const Link& link : robot.links) {
    out += "<link name='" + link.name + "'>";
    const auto& I = link.moments;
    if (link.mass > 0)
      out += "<inertial><origin xyz='" + exact(link.com) + "' rpy='" + exact(link.tilt) + "'/><mass value='" +
             exact(link.mass) + "'/><inertia ixx='" + exact(I[0]) + "' iyy='" + exact(I[1]) + "' izz='" + exact(I[2]) +
             "' ixy='" + exact(I[3]) + "' ixz='" + exact(I[4]) + "' iyz='" + exact(I[5]) + "'/></inertial>";
    out += "</link>\n";
    if (link.parent < 0) continue;
    const char* type = link.kind == JointKind::slider ? "prismatic"
                       : link.kind == JointKind::ball ? "spherical"
                       : link.kind == JointKind::weld ? "fixed"
                       : link.within                  ? "revolute"
                                                      : "continuous";
    out += "<joint name='" + link.joint() + "' type='" + type + "'><parent link='" + robot.link(link.parent).name +
           "'/><child link='" + link.name + "'/><origin xyz='" + exact(link.at) + "' rpy='" + exact(link.rpy) +
           "'/><axis xyz='" + exact(link.axis) + "'/>";
    if (link.within)
      out += "<limit lower='" + exact(link.within->first) + "' upper='" + exact(link.within->second) +
             "' effort='0' velocity='0'/>";
    else if (link.kind == JointKind::slider)
      out += "<limit lower='-100' upper='100' effort='0' velocity='0'/>";
    if (losses && (link.damping > 0 || link.friction > 0))
      out += "<dynamics damping='" + exact(link.damping) + "' friction='" + exact(link.friction) + "'/>";
    if (link.leader >= 0)
      out += "<mimic joint='" + robot.link(link.leader).joint() + "' multiplier='" + exact(link.multiplier) +
             "' offset='" + exact(link.offset) + "'/>";
    out += "</joint>\n";
  }
  return out + "</robot>\n";
}

}  // namespace linchpin::test::robots
