// An MJCF file that MuJoCo has read: the model, its data, the names that reports have, and what is measured of a state.
#pragma once

#include "worker_common/job.h"

#include <linchpin/constraint.h>
#include <linchpin/system.h>
#include <linchpin/wrench.h>

#include <mujoco/mujoco.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace linchpin::mujoco_worker {

using worker::Json;
using worker::Refused;

/// Converts MuJoCo's arrays.
inline Vector3d vector3(const mjtNum* x) { return {x[0], x[1], x[2]}; }
inline Quaterniond quaternion(const mjtNum* q) { return {q[0], q[1], q[2], q[3]}; }

/// Makes MuJoCo's errors the answer of the worker, and collects its warnings.
void install_handlers();
/// The first different warnings of MuJoCo so far.
const std::vector<std::string>& warnings();
/// Errors from here on are of the run, and not of the file.
void loading_is_over();

/// What joins bodies and has a name in reports.
struct Link {
  enum class Kind {
    equality,  ///< of the model
    joint,     ///< of a tree of the model
    own        ///< a constraint of a scene
  };
  bool is_equality() const { return kind == Kind::equality; }
  std::string name;
  Kind kind = Kind::equality;
  int index = -1;                    ///< number of the equality, of the joint, or among the constraints of the scene
  std::optional<RowUnit> unit = {};  ///< of its gap; none: it has no gap
  std::vector<int> bodies = {0, 0};  ///< of MuJoCo; 0 is the world. Those of a joint are the parent and its own body
};

/// Where a connect or a weld acts.
struct Ends {
  std::array<Vector3d, 2> anchors{};  ///< in MuJoCo's frames of the bodies
  std::array<Quaterniond, 2> axes{Quaterniond::Identity(), Quaterniond::Identity()};  ///< in them, held together
  bool has_rotation = false;
};

/// How far a link is open.
struct Gap {
  double metres = 0, radians = 0, custom = 0;
  double in(RowUnit unit) const { return unit == RowUnit::metre ? metres : unit == RowUnit::radian ? radians : custom; }
};

class Model {
 public:
  /// @throws Refused("scene", …) with MuJoCo's reason
  explicit Model(const std::string& path);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  mjModel& model() { return *m_; }
  const mjModel& model() const { return *m_; }
  mjData& data() { return *d_; }
  const mjData& data() const { return *d_; }

  /// Bodies without the world: body i + 1 of MuJoCo, by distinct names.
  const std::vector<std::string>& body_names() const { return body_names_; }
  BodyKind kind(int body) const;
  /// Equalities first, in their order, then joints with a name that transmit forces, then constraints of a scene.
  const std::vector<Link>& links() const { return links_; }
  /// Adds a constraint of a scene. @param own_gaps  the gaps of all of them, which the scene keeps up to date
  void add_link(Link link, const std::vector<Gap>& own_gaps);
  /// Where an equality acts. Empty: it is no connect and no weld.
  std::optional<Ends> ends_of(const Link& equality) const;
  std::size_t equalities() const { return static_cast<std::size_t>(m_->neq); }

  /// Makes the data those of the start again.
  void restart();
  /// Makes all equalities as stiff as MuJoCo's documentation allows: timeconst 2·timestep, critical damping, and the
  /// largest impedance. @return the settings as text
  std::string stiffen();

  /// Computes poses, velocities and energy of the present state, without a change of the data. The functions below are
  /// of that state. @param back  time before it, at which the joints had the present velocities [s]
  void look(double back = 0);
  const mjData& seen() const { return *look_; }
  /// The state of a body: its centre of mass, and the axes of MuJoCo's frame of the body.
  BodyState state(int body) const;
  /// Kinetic energy, and that of gravity and springs as MuJoCo has them [J].
  double energy() const { return look_->energy[0] + look_->energy[1]; }
  Gap gap(const Link& link) const;

  /// Wrench of MuJoCo's own rows of an equality on its first body, in the last step. NaN where rows have no wrench.
  Wrench row_wrench(const Link& equality) const;
  /// Computes the forces at the joints of the trees in the last step, by MuJoCo. Call it before look().
  void find_joint_wrenches();
  /// The wrench of the body of a joint on its parent, through all its joints, about the anchor of this joint.
  Wrench joint_wrench(const Link& joint) const;
  /// Why the energy was not conserved in the last step. Null: it was.
  const char* why_not_conserved() const;
  /// Why the state after a step is of no use. Empty: it is well.
  std::string ruin(long step) const;

 private:
  Ends ends(int equality) const;
  void name_bodies();
  void find_links();
  double length(int equality, int side) const;

  mjModel* m_ = nullptr;
  mjData *d_ = nullptr, *look_ = nullptr;
  std::vector<std::string> body_names_;
  std::vector<Link> links_;
  const std::vector<Gap>* own_gaps_ = nullptr;
};

}  // namespace linchpin::mujoco_worker
