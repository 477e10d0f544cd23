// MuJoCo: a tree of joints, loops closed by its `connect` equalities, which are soft; chains longer than its XML may be
// nested as free bodies, every joint such an equality.
#include "scenes.h"

#include <mujoco/mujoco.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <sstream>
#include <stdexcept>

namespace linchpin::others {

namespace {

std::string text(const Vector3d& x) {
  std::ostringstream s;
  s.precision(17);
  s << x.x() << ' ' << x.y() << ' ' << x.z();
  return s.str();
}
std::string text(const Quaterniond& q) {
  std::ostringstream s;
  s.precision(17);
  s << q.w() << ' ' << q.x() << ' ' << q.y() << ' ' << q.z();
  return s.str();
}

struct Softness {
  const char* name;
  std::string attributes;
};

/// The nesting of a body and all that hangs on it.
void nest(const Scene& scene, int i, std::ostream& xml) {
  const Body& b = scene.bodies[std::size_t(i)];
  const Joint& j = scene.joints[std::size_t(i)];
  const Quaterniond up = j.a < 0 ? Quaterniond::Identity() : scene.bodies[std::size_t(j.a)].q;
  const Vector3d from = j.a < 0 ? Vector3d(0, 0, 0) : scene.bodies[std::size_t(j.a)].p;
  // It takes no body without inertia; as a hundred-thousandth of m l² that of a particle stays below all that is shown.
  const Vector3d inertia = b.inertia.isZero() ? Vector3d::Constant(1e-14) : b.inertia;
  xml << "<body name='" << b.name << "' pos='" << text(Vector3d(up.conjugate() * (b.p - from))) << "' quat='"
      << text(Quaterniond(up.conjugate() * b.q)) << "'><inertial pos='0 0 0' mass='" << b.mass << "' diaginertia='"
      << text(inertia) << "'/><joint type='hinge' pos='" << text(Vector3d(b.q.conjugate() * (j.at - b.p))) << "' axis='"
      << text(Vector3d(b.q.conjugate() * j.axis)) << "'/>";
  for (std::size_t k = 0; k < scene.bodies.size(); ++k)
    if (scene.joints[k].a == i) nest(scene, int(k), xml);
  xml << "</body>";
}

std::string model(const Scene& scene, const char* integrator, double h, const Softness& soft, bool free_bodies) {
  std::ostringstream xml, equalities;
  xml.precision(17);
  xml << "<mujoco><compiler angle='radian'/><option gravity='0 -9.81 0' timestep='" << h << "' integrator='"
      << integrator << "'><flag contact='disable'/></option><worldbody>";
  const auto connect = [&](const Joint& j, const Vector3d& at) {
    const Body& b = scene.bodies[std::size_t(j.b)];
    equalities << "<connect body1='" << b.name << "'"
               << (j.a < 0 ? "" : " body2='" + scene.bodies[std::size_t(j.a)].name + "'") << " anchor='"
               << text(Vector3d(b.q.conjugate() * (at - b.p))) << "' " << soft.attributes << "/>";
  };
  for (std::size_t i = 0; i < scene.bodies.size(); ++i) {
    const Body& b = scene.bodies[i];
    if (!free_bodies) {
      if (scene.joints[i].a < 0) nest(scene, int(i), xml);
      continue;
    }
    xml << "<body name='" << b.name << "' pos='" << text(b.p) << "' quat='" << text(b.q)
        << "'><inertial pos='0 0 0' mass='" << b.mass << "' diaginertia='" << text(b.inertia)
        << "'/><freejoint/></body>";
  }
  for (const Joint& j : scene.joints) {
    if (!j.closes && !free_bodies) continue;
    connect(j, j.at);
    // A hinge is two points of its axis; in a plane one is enough.
    if (j.kind == Joint::Kind::hinge && !scene.planar) connect(j, j.at + j.axis);
  }
  xml << "</worldbody><equality>" << equalities.str() << "</equality></mujoco>";
  return xml.str();
}

void run(const Scene& scene, const char* integrator, int per_second, const Softness& soft,
         const std::function<void(const Row&)>& out) {
  const bool free_bodies = scene.joints.front().kind == Joint::Kind::ball, loops = scene.joints.back().closes;
  const std::string xml = model(scene, integrator, 1.0 / per_second, soft, free_bodies);
  static mjVFS files;
  mj_defaultVFS(&files);
  mj_makeEmptyFileVFS(&files, "scene.xml", int(xml.size()));
  std::memcpy(files.filedata[0], xml.data(), xml.size());
  char error[1000] = "";
  const std::unique_ptr<mjModel, void (*)(mjModel*)> m(mj_loadXML("scene.xml", &files, error, sizeof error),
                                                       mj_deleteModel);
  mj_deleteVFS(&files);
  if (!m) throw std::runtime_error(std::string("MuJoCo: ") + error);
  const std::unique_ptr<mjData, void (*)(mjData*)> d(mj_makeData(m.get()), mj_deleteData);
  if (!free_bodies)
    for (std::size_t i = 0; i < scene.bodies.size(); ++i) {
      const Joint& j = scene.joints[i];
      const int id = mj_name2id(m.get(), mjOBJ_BODY, scene.bodies[i].name.c_str());
      const Vector3d before = j.a < 0 ? Vector3d(0, 0, 0) : scene.bodies[std::size_t(j.a)].w;
      d->qvel[m->body_dofadr[id]] = j.axis.dot(scene.bodies[i].w - before);
    }
  const std::string how = free_bodies ? "free bodies, all joints" : loops ? "joint tree, loops" : "joint tree";
  Row row{.code = "MuJoCo 2.2.2",
          .formulation = how + (free_bodies || loops ? " soft (" + std::string(soft.name) + ")" : ""),
          .method = std::string(integrator) + ", h = 1/" + std::to_string(per_second) + " s"};
  measure(
      scene, row,
      [&](double t) {
        long steps = 0;
        const double begun = cpu_seconds();
        for (; std::lround(t * per_second) > std::lround(d->time * per_second); ++steps) {
          mj_step(m.get(), d.get());
          if (d->warning[mjWARN_BADQACC].number > 0) throw std::runtime_error("diverged");
          if (steps % 100 == 0 && cpu_seconds() - begun > 60) throw std::runtime_error("more than 60 s");
        }
        return steps;
      },
      [&](int body, const Vector3d& local) -> Vector3d {
        mj_kinematics(m.get(), d.get());
        const int id = mj_name2id(m.get(), mjOBJ_BODY, scene.bodies[std::size_t(body)].name.c_str());
        const double *p = d->xpos + 3 * id, *q = d->xquat + 4 * id;
        return Vector3d(p[0], p[1], p[2]) + Quaterniond(q[0], q[1], q[2], q[3]) * local;
      });
  out(row);
}

}  // namespace

void by_mujoco(const Scene& scene, const std::function<void(const Row&)>& out) {
  const bool rows = scene.joints.back().closes || scene.joints.front().kind == Joint::Kind::ball;
  const std::vector<int> rates = scene.name.starts_with("W1") ? std::vector{240, 960} : std::vector{240, 1000, 4000};
  for (const char* integrator : {"Euler", "RK4"})
    for (const int n : rates) {
      std::ostringstream stiff;
      stiff << "solref='" << 2.0 / n << " 1' solimp='0.9999 0.9999 0.001'";
      if (rows) run(scene, integrator, n, {"default", ""}, out);
      run(scene, integrator, n, {"stiffest", stiff.str()}, out);
    }
}

}  // namespace linchpin::others
