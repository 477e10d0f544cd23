#include "model_trees.h"

#include "versions.h"

#include <algorithm>

namespace linchpin::mujoco {

using articulated::JointKind;
using articulated::LinkModel;

namespace {

Vector3d three(std::span<const double> x, int at) { return {x[z(at)], x[z(at + 1)], x[z(at + 2)]}; }
void put(std::span<double> x, int at, const Vector3d& v) {
  for (int k = 0; k < 3; ++k) x[z(at + k)] = v[k];
}

bool has_free_joint(const mjModel& m, int body) {
  return m.body_jntnum[body] == 1 && m.jnt_type[m.body_jntadr[body]] == mjJNT_FREE;
}

}  // namespace

std::string quoted_name(const mjModel& m, int type, int id) {
  const char* const name = mj_id2name(&m, type, id);
  return name && *name ? "'" + std::string(name) + "'" : "#" + std::to_string(id);
}

ModelTrees::ModelTrees(const mjModel& m)
    : places_(z(m.nbody)),
      joint_places_(z(m.njnt)),
      frames_(z(m.nbody)),
      static_poses_(z(m.nbody)),
      qpos_of_joint_(m.jnt_qposadr, m.jnt_qposadr + m.njnt),
      is_of_joint_(z(m.nv), 0) {
  for (int i = 1; i < m.nbody; ++i) {
    if (m.body_weldid[i] == 0) {
      const BodyFrame& up = static_poses_[z(m.body_parentid[i])];
      static_poses_[z(i)] = {(up.q * quaternion(m.body_quat + 4 * i)).normalized(),
                             up.p + up.q * vector3(m.body_pos + 3 * i)};
      frames_[z(i)] = {static_poses_[z(i)].q.conjugate(), -(static_poses_[z(i)].q.conjugate() * static_poses_[z(i)].p)};
    } else {
      frames_[z(i)] = {quaternion(m.body_iquat + 4 * i).normalized(), vector3(m.body_ipos + 3 * i)};
    }
  }
  for (int i = 1; i < m.nbody; ++i)
    if (m.body_parentid[i] == 0) add_tree(m, i);
  for (int t = 0; t < m.ntendon; ++t) add_tendon_armature(m, t);
}

void ModelTrees::add_tree(const mjModel& m, int root) {
  ModelTree tree;
  tree.root = root;
  tree.model.fixed_base = !has_free_joint(m, root);
  const int index = size();
  for (int body = root; body < m.nbody && m.body_rootid[body] == root; ++body) {
    if (m.body_weldid[body] != 0) places_[z(body)].tree = index;
    add_body(m, body, tree);
  }
  if (tree.model.fixed_base && tree.model.links.empty()) return;  // nothing of it can move
  if (m.body_mocapid[root] >= 0)
    tree.unsupported =
        "its root body " + quoted_name(m, mjOBJ_BODY, root) + " is a mocap body, which the program moves";
  tree.first_velocity = z(velocities_);
  velocities_ += 6 + tree.model.rates;
  trees_.push_back(std::move(tree));
}

void ModelTrees::add_body(const mjModel& m, int body, ModelTree& tree) {
  if (m.body_weldid[body] == 0) return;
  const int first = m.body_jntadr[body], joints = m.body_jntnum[body];
  if (has_free_joint(m, body)) {
    tree.base_joint = first;
    tree.base_dof = m.jnt_dofadr[first];
    tree.model.base_mass = m.body_mass[body];
    tree.model.base_inertia = vector3(m.body_inertia + 3 * body);
    const BodyFrame& frame = frames_[z(body)];
    tree.model.base_origin = -(frame.q.conjugate() * frame.p);
    places_[z(body)] = {size(), -1};
    joint_places_[z(first)] = {size(), -1};
    for (int k = 0; k < 6; ++k) {
      const int dof = tree.base_dof + k;
      if (m.dof_damping[dof] != 0 || armature(m, dof) != 0)
        tree.unsupported = "the free joint of body " + quoted_name(m, mjOBJ_BODY, body) +
                           " has damping or armature. Set both to 0, or write <freejoint/>";
    }
    return;
  }
  if (joints == 0) add_joint_link(m, body, -1, true, true, tree);
  for (int k = 0; k < joints; ++k) add_joint_link(m, body, first + k, k == 0, k + 1 == joints, tree);
}

/// Adds the link behind one joint of a body. The links before the last one of a body have the axes of the body's frame
/// and their centre at the anchor of their joint.
void ModelTrees::add_joint_link(const mjModel& m, int body, int joint, bool is_first, bool is_last, ModelTree& tree) {
  const int index = static_cast<int>(tree.model.links.size());
  const BodyFrame& own = frames_[z(body)];
  const Vector3d anchor = joint < 0 ? Vector3d::Zero() : vector3(m.jnt_pos + 3 * joint);
  LinkModel link;
  // From the axes of the parent to the frame of the body, as far as it does not turn.
  Quaterniond q = Quaterniond::Identity();
  Vector3d p = Vector3d::Zero();
  if (is_first) {
    const int parent = m.body_parentid[body];
    const Quaterniond to_body = quaternion(m.body_quat + 4 * body).normalized();
    const Vector3d at = vector3(m.body_pos + 3 * body) + to_body * anchor;
    if (m.body_weldid[parent] == 0) {
      link.parent = -1;
      q = static_poses_[z(parent)].q * to_body;
      p = static_poses_[z(parent)].p + static_poses_[z(parent)].q * at;
    } else {
      const BodyFrame& up = frames_[z(parent)];
      link.parent = places_[z(parent)].link;
      q = up.q.conjugate() * to_body;
      p = up.q.conjugate() * (at - up.p);
    }
  } else {
    link.parent = index - 1;
    p = anchor - vector3(m.jnt_pos + 3 * (joint - 1));
  }
  const Quaterniond axes = is_last ? own.q : Quaterniond(Quaterniond::Identity());
  link.R_PL_at_zero = (q * axes).normalized().toRotationMatrix();
  link.p_PJ = p;
  if (is_last) {
    link.p_JL = axes.conjugate() * (own.p - anchor);
    link.mass = m.body_mass[body];
    link.inertia = vector3(m.body_inertia + 3 * body);
    places_[z(body)].link = index;
  }
  const int kind = joint < 0 ? -1 : m.jnt_type[joint];
  link.joint = kind == mjJNT_HINGE   ? JointKind::revolute
               : kind == mjJNT_SLIDE ? JointKind::prismatic
               : kind == mjJNT_BALL  ? JointKind::spherical
                                     : JointKind::fixed;
  link.first_position = tree.model.positions;
  link.first_rate = tree.model.rates;
  if (joint >= 0) {
    link.positions = kind == mjJNT_BALL ? 4 : 1;
    link.rates = kind == mjJNT_BALL ? 3 : 1;
    const Vector3d axis = axes.conjugate() * vector3(m.jnt_axis + 3 * joint);
    for (int k = 0; k < link.rates; ++k) {
      const Vector3d along = kind == mjJNT_BALL ? Vector3d(Vector3d::Unit(k)) : axis;
      link.angular[z(k)] = kind == mjJNT_SLIDE ? Vector3d(Vector3d::Zero()) : along;
      link.linear[z(k)] = kind == mjJNT_SLIDE ? along : Vector3d(along.cross(link.p_JL));
      const int dof = m.jnt_dofadr[joint] + k;
      link.rotor_inertia[z(k)] = armature(m, dof);
      tree.dofs.push_back(dof);
      is_of_joint_[z(dof)] = 1;
    }
    tree.model.positions += link.positions;
    tree.model.rates += link.rates;
    joint_places_[z(joint)] = {size(), index};
  }
  if (kind == mjJNT_BALL && is_last) tree.balls.push_back(index);
  tree.bodies.push_back(is_last ? body : -1);
  tree.joints.push_back(joint);
  tree.model.links.push_back(link);
}

/// Adds the inertia of a tendon that belongs to one joint. The trees of other tendons that have one are not supported.
void ModelTrees::add_tendon_armature(const mjModel& m, int tendon) {
  const double inertia = tendon_armature(m, tendon);
  if (inertia == 0) return;
  const int first = m.tendon_adr[tendon], count = m.tendon_num[tendon];
  if (count == 1 && m.wrap_type[first] == mjWRAP_JOINT) {
    const LinkPlace at = joint_places_[z(m.wrap_objid[first])];
    const double factor = m.wrap_prm[first];
    trees_[z(at.tree)].model.links[z(at.link)].rotor_inertia[0] += factor * factor * inertia;
    return;
  }
  for (int w = first; w < first + count; ++w) {
    const int type = m.wrap_type[w], id = m.wrap_objid[w];
    if (type == mjWRAP_NONE || type == mjWRAP_PULLEY) continue;
    const int body = type == mjWRAP_JOINT  ? m.jnt_bodyid[id]
                     : type == mjWRAP_SITE ? m.site_bodyid[id]
                                           : m.geom_bodyid[id];
    if (const int tree = places_[z(body)].tree; tree >= 0)
      trees_[z(tree)].unsupported = "the tendon " + quoted_name(m, mjOBJ_TENDON, tendon) +
                                    " has armature, which couples joints. Give the armature to the joints";
  }
}

void ModelTrees::set_damping_inertia(std::span<const double> by_dof) {
  for (ModelTree& t : trees_)
    for (LinkModel& link : t.model.links)
      for (int k = 0; k < link.rates; ++k) link.damping_inertia[z(k)] = by_dof[z(t.dofs[z(link.first_rate + k)])];
}

/// The axes of a link in the frame of its body.
Quaterniond ModelTrees::axes_of(const ModelTree& t, std::size_t link) const {
  return t.bodies[link] < 0 ? Quaterniond(Quaterniond::Identity()) : frames_[z(t.bodies[link])].q;
}

// ---- the base ----

Quaterniond ModelTrees::base_rotation(const ModelTree& t, const mjtNum* qpos) const {
  return quaternion(qpos + qpos_of_joint_[z(t.base_joint)] + 3).normalized();
}

// ---- states ----

void ModelTrees::read_state(int tree, const mjModel& m, const mjData& d, articulated::TreeState& to) const {
  const ModelTree& t = trees_[z(tree)];
  to.at.q = Quaterniond::Identity();
  to.at.p = Vector3d::Zero();
  to.at.joints.resize(z(t.model.positions));
  to.velocity.resize(z(6 + t.model.rates));
  to.joint_forces.resize(z(t.model.rates));
  to.forces.resize(t.model.links.size() + 1);
  if (t.is_floating()) {
    const mjtNum* const q = d.qpos + qpos_of_joint_[z(t.base_joint)];
    to.at.q = (base_rotation(t, d.qpos) * frames_[z(t.root)].q).normalized();
    to.at.p = vector3(q) + base_rotation(t, d.qpos) * frames_[z(t.root)].p;
  }
  for (std::size_t i = 0; i < t.model.links.size(); ++i) {
    if (t.joints[i] < 0) continue;
    const LinkModel& link = t.model.links[i];
    const int at = qpos_of_joint_[z(t.joints[i])];
    double* const position = to.at.joints.data() + link.first_position;
    if (link.joint == JointKind::spherical) {
      const Quaterniond axes = axes_of(t, i);
      const Quaterniond q = (axes.conjugate() * quaternion(d.qpos + at).normalized() * axes).normalized();
      position[0] = q.x(), position[1] = q.y(), position[2] = q.z(), position[3] = q.w();
    } else {
      position[0] = d.qpos[at] - m.qpos0[at];
    }
  }
  to_core(tree, d.qpos, std::span<const double>(d.qvel, z(m.nv)), to.velocity);
}

void ModelTrees::write_configuration(int tree, const mjModel& m, const articulated::Configuration& from,
                                     mjtNum* qpos) const {
  const ModelTree& t = trees_[z(tree)];
  if (t.is_floating()) {
    mjtNum* const to = qpos + qpos_of_joint_[z(t.base_joint)];
    const Quaterniond q = (from.q * frames_[z(t.root)].q.conjugate()).normalized();
    const Vector3d p = from.p - q * frames_[z(t.root)].p;
    for (int k = 0; k < 3; ++k) to[k] = p[k];
    to[3] = q.w(), to[4] = q.x(), to[5] = q.y(), to[6] = q.z();
  }
  for (std::size_t i = 0; i < t.model.links.size(); ++i) {
    if (t.joints[i] < 0) continue;
    const LinkModel& link = t.model.links[i];
    const int at = qpos_of_joint_[z(t.joints[i])];
    const double* const position = from.joints.data() + link.first_position;
    if (link.joint == JointKind::spherical) {
      const Quaterniond axes = axes_of(t, i);
      const Quaterniond own(position[3], position[0], position[1], position[2]);
      const Quaterniond q = (axes * own * axes.conjugate()).normalized();
      qpos[at] = q.w(), qpos[at + 1] = q.x(), qpos[at + 2] = q.y(), qpos[at + 3] = q.z();
    } else {
      qpos[at] = position[0] + m.qpos0[at];
    }
  }
}

// ---- velocities and forces ----

namespace {

/// Calls `turn(first rate, axes)` for each ball joint whose link has other axes than MuJoCo's rates.
template <class Turn>
void each_ball(const ModelTree& t, const std::vector<BodyFrame>& frames, Turn turn) {
  for (const int i : t.balls) turn(6 + t.model.links[z(i)].first_rate, frames[z(t.bodies[z(i)])].q);
}

}  // namespace

void ModelTrees::to_core(int tree, const mjtNum* qpos, std::span<const double> qvel, std::span<double> u) const {
  const ModelTree& t = trees_[z(tree)];
  std::fill_n(u.begin(), 6, 0.0);
  if (t.is_floating()) {
    const Vector3d w = base_rotation(t, qpos) * three(qvel, t.base_dof + 3);
    put(u, 0, w);
    put(u, 3, three(qvel, t.base_dof));
  }
  for (int k = 0; k < t.model.rates; ++k) u[z(6 + k)] = qvel[z(t.dofs[z(k)])];
  each_ball(t, frames_, [&](int at, const Quaterniond& axes) { put(u, at, axes.conjugate() * three(u, at)); });
}

void ModelTrees::to_mujoco(int tree, const mjtNum* qpos, std::span<const double> u, std::span<double> qvel) const {
  const ModelTree& t = trees_[z(tree)];
  if (t.is_floating()) {
    const Vector3d w = three(u, 0);
    put(qvel, t.base_dof, three(u, 3));
    put(qvel, t.base_dof + 3, base_rotation(t, qpos).conjugate() * w);
  }
  for (int k = 0; k < t.model.rates; ++k) qvel[z(t.dofs[z(k)])] = u[z(6 + k)];
  each_ball(t, frames_, [&](int at, const Quaterniond& axes) {
    const Vector3d w = axes * three(u, at);
    for (int k = 0; k < 3; ++k) qvel[z(t.dofs[z(at - 6 + k)])] = w[k];
  });
}

void ModelTrees::forces_to_core(int tree, const mjtNum* qpos, std::span<const double> qfrc,
                                std::span<double> on) const {
  const ModelTree& t = trees_[z(tree)];
  std::fill_n(on.begin(), 6, 0.0);
  if (t.is_floating()) {
    put(on, 0, base_rotation(t, qpos) * three(qfrc, t.base_dof + 3));
    put(on, 3, three(qfrc, t.base_dof));
  }
  for (int k = 0; k < t.model.rates; ++k) on[z(6 + k)] = qfrc[z(t.dofs[z(k)])];
  each_ball(t, frames_, [&](int at, const Quaterniond& axes) { put(on, at, axes.conjugate() * three(on, at)); });
}

void ModelTrees::forces_to_mujoco(int tree, const mjtNum* qpos, std::span<const double> on,
                                  std::span<double> qfrc) const {
  const ModelTree& t = trees_[z(tree)];
  if (t.is_floating()) {
    put(qfrc, t.base_dof, three(on, 3));
    put(qfrc, t.base_dof + 3, base_rotation(t, qpos).conjugate() * three(on, 0));
  }
  for (int k = 0; k < t.model.rates; ++k) qfrc[z(t.dofs[z(k)])] = on[z(6 + k)];
  each_ball(t, frames_, [&](int at, const Quaterniond& axes) {
    const Vector3d f = axes * three(on, at);
    for (int k = 0; k < 3; ++k) qfrc[z(t.dofs[z(at - 6 + k)])] = f[k];
  });
}

}  // namespace linchpin::mujoco
