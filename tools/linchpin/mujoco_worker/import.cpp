#include "import.h"

#include <linchpin/joints.h>

#include <algorithm>
#include <set>
#include <utility>

namespace linchpin::mujoco_worker {

namespace {

// A body without a mass of its own, which MuJoCo allows within a moving one.
constexpr double least_mass = 1e-12;

scene::SceneBody body_of(const Model& model, int i) {
  const mjModel& m = model.model();
  scene::SceneBody out;
  out.name = model.body_names()[static_cast<std::size_t>(i) - 1];
  out.kind = model.kind(i) == BodyKind::rigid ? BodyKind::rigid : BodyKind::fixed;
  out.start = model.state(i);
  if (out.kind == BodyKind::fixed) {
    out.start.v = out.start.w = Vector3d::Zero();
    return out;
  }
  out.mass = std::max(m.body_mass[i], least_mass);
  const Matrix3d axes = quaternion(m.body_iquat + 4 * i).normalized().toRotationMatrix();
  const Vector3d moments = vector3(m.body_inertia + 3 * i).cwiseMax(least_mass);
  out.inertia = axes * moments.asDiagonal() * axes.transpose();
  out.inertia = 0.5 * (out.inertia + out.inertia.transpose()).eval();
  return out;
}

BodyId id_of(int body) { return body == 0 ? ground : BodyId{body}; }

// A frame at a point of the world with axes of the world, in a body.
JointFrame frame_in(const Model& model, int body, const Vector3d& at, const Matrix3d& axes) {
  if (body == 0) return {at, axes};
  const BodyState s = model.state(body);
  const Matrix3d R = s.q.toRotationMatrix();
  return {R.transpose() * (at - s.p), R.transpose() * axes};
}

Matrix3d axes_with_x(const Vector3d& x) {
  return Eigen::Quaterniond::FromTwoVectors(Eigen::Vector3d::UnitX(), x).toRotationMatrix();
}

// A hinge, a slider or a ball of the tree. Without a type: none of these.
scene::SceneConstraint joint_of(const Model& model, const Link& link) {
  const mjModel& m = model.model();
  const mjData& d = model.seen();
  const int i = link.index, parent = link.bodies[0], child = link.bodies[1];
  scene::SceneConstraint out;
  out.name = link.name;
  out.bodies = {id_of(parent), id_of(child)};
  out.tree = true;
  const Vector3d at = vector3(d.xanchor + 3 * i);
  const Matrix3d axes = axes_with_x(vector3(d.xaxis + 3 * i));
  const JointFrame P = out.frame_a = frame_in(model, parent, at, axes),
                   C = out.frame_b = frame_in(model, child, at, axes);
  out.own_axes = Quaterniond::Identity();  // sensors read in the axes of the body, as on the other hosts
  const std::string name = link.name;
  switch (m.jnt_type[i]) {
    case mjJNT_HINGE:
      out.type = "hinge";
      out.make = [=](const std::vector<BodyId>& id) {
        return joints::hinge(name, id[0], P.origin, P.axes.col(0), id[1], C.origin, C.axes.col(0));
      };
      break;
    case mjJNT_SLIDE:
      out.type = "slider";
      out.make = [=](const std::vector<BodyId>& id) { return joints::slider(name, id[0], P, id[1], C); };
      break;
    case mjJNT_BALL:
      out.type = "ball";
      out.make = [=](const std::vector<BodyId>& id) { return joints::ball(name, id[0], P.origin, id[1], C.origin); };
      return out;
    default:
      return out;
  }
  out.start = d.qpos[m.jnt_qposadr[i]];
  out.rate = d.qvel[m.jnt_dofadr[i]];
  return out;
}

// A connect or a weld. Without a type: another equality.
scene::SceneConstraint equality_of(const Model& model, const Link& link) {
  scene::SceneConstraint out;
  const auto ends = model.ends_of(link);
  if (!ends) return out;
  out.name = link.name;
  out.imported = true;
  out.bodies = {id_of(link.bodies[0]), id_of(link.bodies[1])};
  std::array<JointFrame, 2> frames;
  for (std::size_t k = 0; k < 2; ++k) {
    const int body = link.bodies[k];
    // MuJoCo's frame of the body is in the axes of the scene's body.
    frames[k] = {
        ends->anchors[k] - (body == 0 ? Vector3d(Vector3d::Zero()) : vector3(model.model().body_ipos + 3 * body)),
        ends->axes[k].normalized().toRotationMatrix()};
  }
  out.frame_a = frames[0], out.frame_b = frames[1];
  out.type = ends->has_rotation ? "weld" : "ball";
  out.make = [name = link.name, A = frames[0], B = frames[1],
              welds = ends->has_rotation](const std::vector<BodyId>& id) {
    return welds ? joints::weld(name, id[0], A, id[1], B) : joints::ball(name, id[0], A.origin, id[1], B.origin);
  };
  return out;
}

}  // namespace

scene::Imported imported_of(Model& model) {
  const mjModel& m = model.model();
  model.look();
  scene::Imported out;
  out.gravity = vector3(m.opt.gravity);
  out.dt = m.opt.timestep;
  for (int i = 1; i < m.nbody; ++i) out.bodies.push_back(body_of(model, i));
  const auto moves = [&](BodyId id) {
    return id != ground && out.bodies[static_cast<std::size_t>(id.index) - 1].kind != BodyKind::fixed;
  };
  for (const Link& link : model.links()) {
    if (!link.is_equality() && m.body_jntnum[link.bodies[1]] > 1) continue;
    scene::SceneConstraint c = link.is_equality() ? equality_of(model, link) : joint_of(model, link);
    if (c.type.empty() || c.bodies[0] == c.bodies[1] || !(moves(c.bodies[0]) || moves(c.bodies[1]))) continue;
    out.joints.push_back(std::move(c));
  }
  std::set<std::string> taken;
  const auto add_frame = [&](const std::string& name, int body, const Vector3d& p, const Quaterniond& q) {
    if (taken.insert(name).second) out.frames.push_back({name, id_of(body), {p, q}});
  };
  for (int i = 1; i < m.nbody; ++i)
    add_frame(out.bodies[static_cast<std::size_t>(i) - 1].name, i, -vector3(m.body_ipos + 3 * i),
              Quaterniond::Identity());
  for (int i = 0; i < m.nsite; ++i) {
    const char* const name = mj_id2name(&m, mjOBJ_SITE, i);
    if (!name || !*name) continue;
    const int body = m.site_bodyid[i];
    const Vector3d centre = body == 0 ? Vector3d(Vector3d::Zero()) : vector3(m.body_ipos + 3 * body);
    add_frame(name, body, vector3(m.site_pos + 3 * i) - centre, quaternion(m.site_quat + 4 * i).normalized());
  }
  return out;
}

}  // namespace linchpin::mujoco_worker
