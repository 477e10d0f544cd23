// Constraints that a program adds in an engine: by an equation as text, and joints by the name of their kind.
#pragma once

#include <linchpin/joints.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace linchpin::python {

/// A constraint by equation, and what its names mean.
struct Equation {
  /// A body, where it is now. Quantities of a body are from its centre of mass, in its axes.
  struct Body {
    std::string name;                                ///< in the equation
    Vector3d position = Vector3d::Zero();            ///< of the centre of mass in the world [m]
    Quaterniond rotation = Quaterniond::Identity();  ///< from axes of the body to axes of the world
  };
  /// A frame that is fixed in a body. Quantities of a frame are from its origin, in its axes.
  struct Frame {
    std::string name;                                ///< in the equation
    std::string body;                                ///< name of a body, or "world"
    Vector3d position = Vector3d::Zero();            ///< of the origin, in the body [m]
    Quaterniond rotation = Quaterniond::Identity();  ///< from axes of the frame to axes of the body
  };
  std::string name;                                        ///< of the constraint
  std::string key;                                         ///< "equation", on positions, or "velocity"
  std::string text;                                        ///< the equation
  std::vector<Body> bodies;                                ///< bodies that may be in it
  std::vector<Frame> frames;                               ///< frames that may be in it
  std::map<std::string, double> params;                    ///< named numbers
  std::vector<std::pair<std::string, Vector3d>> points{};  ///< application points by the name of a body [m], in it
};

/// Makes the constraint of an equation. @param id_of  the id of the body with this place in Equation::bodies
/// @throws scene::SceneError with the constraint and the place for a fault in the equation
Constraint constraint_of(const Equation& equation, const std::function<BodyId(std::size_t)>& id_of);

/// Makes a joint of joints.h by the name of its kind. Points [m] and axes are as there. @param length  of a rod [m]
/// @throws std::invalid_argument for a kind that does not exist, and as the joint
Constraint joint_of(const std::string& name, const std::string& kind, BodyId a, const Vector3d& at_a,
                    const Vector3d& axis_a, BodyId b, const Vector3d& at_b, const Vector3d& axis_b, double length);

}  // namespace linchpin::python
