// The scenes on which linchpin is held beside other codes: rigid bodies and joints as all of them know, what is known
// of the motion, and the rows that are measured. Knows no code. C++17, for the sake of Simbody's headers.
#pragma once

#include <Eigen/Core>
#include <Eigen/Geometry>

#include <functional>
#include <string>
#include <vector>

namespace linchpin::others {

using Eigen::Quaterniond;
using Eigen::Vector3d;

/// Body axes at the centre of mass are principal. SI, world axes, y up.
struct Body {
  std::string name;
  double mass = 1;
  Vector3d inertia = Vector3d::Zero();  ///< principal [kg·m²]; zero: a particle on the joint's rod
  Vector3d p = Vector3d::Zero();
  Quaterniond q = Quaterniond::Identity();
  Vector3d v = Vector3d::Zero(), w = Vector3d::Zero();
};

struct Joint {
  enum class Kind { hinge, ball };
  Kind kind = Kind::hinge;
  int a = -1, b = 0;                  ///< bodies, −1 the world; in a tree b hangs on a
  Vector3d at = Vector3d::Zero();     ///< world, at the start [m]
  Vector3d axis = Vector3d::UnitZ();  ///< of hinges, world, at the start
  bool closes = false;                ///< closes a loop: no joint of the tree
};

/// Where a point fixed in a body is known to be.
struct Known {
  double t = 0;
  int body = 0;
  Vector3d local = Vector3d::Zero(), is = Vector3d::Zero();
};

struct Scene {
  std::string name, title;
  double duration = 1;
  std::vector<Body> bodies = {};
  std::vector<Joint> joints = {};  ///< those of the tree in the order of their bodies, then those that close loops
  std::vector<Known> known = {};   ///< in the order of time; the last at `duration`
  bool planar = false;             ///< all axes are z: what closes a loop needs no row across the plane
};

const std::vector<Scene>& scenes();

/// One run: the largest distance of a known point from where it belongs, and what it cost.
struct Row {
  std::string scene = {}, code, formulation, method;
  double error = 0;       ///< [m]; infinite where the run did not arrive
  double cost = 0;        ///< CPU seconds of the steps for each simulated second
  long steps = 0;         ///< that were taken
  std::string note = {};  ///< why it did not arrive
};

/// CPU time of this process [s].
double cpu_seconds();

/// Steps to each known time, timed, and looks; the part that all codes share.
/// @param to     takes the motion to a time, and returns the steps that were taken
/// @param point  where a point of a body is
void measure(const Scene& scene, Row& row, const std::function<long(double t)>& to,
             const std::function<Vector3d(int body, const Vector3d& local)>& point);

using Rows = std::vector<Row>;
void by_linchpin(const Scene& scene, const std::function<void(const Row&)>& out);
void by_simbody(const Scene& scene, const std::function<void(const Row&)>& out);
void by_mujoco(const Scene& scene, const std::function<void(const Row&)>& out);
void by_ode(const Scene& scene, const std::function<void(const Row&)>& out);

}  // namespace linchpin::others
