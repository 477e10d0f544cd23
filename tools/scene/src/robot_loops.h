// The loops of a robot from a robot.yaml file, the format of a public collection of parallel robots. A URDF file cannot
// contain them. Hides YAML.
#pragma once

#include "joint_replacement.h"
#include "robot_notes.h"
#include "source.h"

#include <string>
#include <vector>

namespace linchpin::scene {

struct RobotLoops {
  struct Loop {
    std::string name;              ///< of its constraint
    std::string frame_a, frame_b;  ///< names of links in the robot's file, without a prefix
    std::string type;              ///< "ball" of 3d, "weld" of 6d
    Place place;
  };
  std::vector<Loop> loops;
  JointReplacements replacements;   ///< of joint_name and joint_type
  std::vector<std::string> motors;  ///< of name_mot
};

/// Reads closed_loop, type, name_mot, joint_name and joint_type. @param from  what named the file, for a message that
/// no reader of it was built in. @throws SceneError at the line of the fault
RobotLoops read_robot_loops(const std::string& text, const std::string& path, const Place& from);

}  // namespace linchpin::scene
