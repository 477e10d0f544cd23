// The kinematic trees of a MuJoCo model in the coordinates of the core's articulated bodies (linchpin/articulated.h).
//
// A tree consists of the bodies below one child of the world. A body with several joints becomes as many links, of
// which only the last one has a mass. A body that cannot move belongs to the base, which is then the world. A body with
// a free joint is the base itself.
//
// The links have the axes of MuJoCo's inertial frames. The rates of hinges and slides are those of MuJoCo. The rates of
// a ball joint are in link axes. The velocities of a free base are those of the origin of its frame, in world axes.
#pragma once

#include <linchpin/articulated.h>

#include <mujoco/mujoco.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace linchpin::mujoco {

inline std::size_t z(int i) { return static_cast<std::size_t>(i); }

/// Converts MuJoCo's arrays.
inline Vector3d vector3(const mjtNum* x) { return {x[0], x[1], x[2]}; }
inline Quaterniond quaternion(const mjtNum* q) { return {q[0], q[1], q[2], q[3]}; }

/// The name of an object of the model in quotes, for a message; its number where it has none.
std::string quoted_name(const mjModel& model, int type, int id);

/// Where a body of MuJoCo is among the trees.
struct LinkPlace {
  int tree = -1;  ///< −1: it belongs to the world and cannot move
  int link = -1;  ///< −1: the base
};

/// The pose of the axes and of the centre of mass of linchpin in the frame of a body of MuJoCo.
struct BodyFrame {
  Quaterniond q = Quaterniond::Identity();
  Vector3d p = Vector3d::Zero();
};

/// One tree. Numbers of a link are by link, numbers of a rate by rate.
struct ModelTree {
  articulated::TreeModel model;
  int root = -1;                   ///< body of MuJoCo that is its first
  std::vector<int> bodies;         ///< by link: the body of MuJoCo; −1: the link has no mass
  std::vector<int> joints;         ///< by link: the joint of MuJoCo; −1: it is welded to its parent
  std::vector<int> dofs;           ///< by rate: the coordinate of MuJoCo
  std::vector<int> balls;          ///< links with a ball joint whose axes are not those of MuJoCo's rates
  std::size_t first_velocity = 0;  ///< of its velocities among those of all trees
  std::string unsupported;         ///< why it takes no part in exact constraints, or empty
  bool is_floating() const { return !model.fixed_base; }
  int base_joint = -1, base_dof = -1;  ///< MuJoCo's free joint and its first coordinate, of a free base
};

class ModelTrees {
 public:
  explicit ModelTrees(const mjModel& model);

  int size() const { return static_cast<int>(trees_.size()); }
  const ModelTree& operator[](int tree) const { return trees_[z(tree)]; }
  LinkPlace place_of_body(int body) const { return places_[z(body)]; }
  LinkPlace place_of_joint(int joint) const { return joint_places_[z(joint)]; }
  const BodyFrame& frame_of(int body) const { return frames_[z(body)]; }
  int velocities() const { return velocities_; }                         ///< of all trees
  bool is_of_joint(int dof) const { return is_of_joint_[z(dof)] != 0; }  ///< and not of a free base
  /// Returns the part of one tree in an array over the velocities of all trees.
  template <class T>
  std::span<T> part_of(int tree, std::span<T> all) const {
    return all.subspan(trees_[z(tree)].first_velocity, z(6 + trees_[z(tree)].model.rates));
  }

  /// Sets what the integrator adds to the diagonal of M for damping, by coordinate of MuJoCo [nv].
  void set_damping_inertia(std::span<const double> by_dof);
  void read_state(int tree, const mjModel& m, const mjData& d, articulated::TreeState& to) const;
  void write_configuration(int tree, const mjModel& m, const articulated::Configuration& from, mjtNum* qpos) const;
  /// Velocities of MuJoCo [nv] as those of the core, [6 + rates] of one tree.
  void to_core(int tree, const mjtNum* qpos, std::span<const double> qvel, std::span<double> u) const;
  /// The same the other way. Writes the coordinates of the tree only.
  void to_mujoco(int tree, const mjtNum* qpos, std::span<const double> u, std::span<double> qvel) const;
  /// Forces, or a row of a Jacobian, along MuJoCo's coordinates [nv] as those along the core's.
  void forces_to_core(int tree, const mjtNum* qpos, std::span<const double> qfrc, std::span<double> on) const;
  /// The same the other way.
  void forces_to_mujoco(int tree, const mjtNum* qpos, std::span<const double> on, std::span<double> qfrc) const;

 private:
  void add_tree(const mjModel& m, int root);
  void add_body(const mjModel& m, int body, ModelTree& tree);
  void add_joint_link(const mjModel& m, int body, int joint, bool is_first, bool is_last, ModelTree& tree);
  void add_tendon_armature(const mjModel& m, int tendon);
  Quaterniond axes_of(const ModelTree& t, std::size_t link) const;
  Quaterniond base_rotation(const ModelTree& t, const mjtNum* qpos) const;

  std::vector<ModelTree> trees_;
  std::vector<LinkPlace> places_, joint_places_;
  std::vector<BodyFrame> frames_;        // by body
  std::vector<BodyFrame> static_poses_;  // of bodies that cannot move, in the world
  std::vector<int> qpos_of_joint_;
  std::vector<char> is_of_joint_;  // by coordinate
  int velocities_ = 0;
};

}  // namespace linchpin::mujoco
