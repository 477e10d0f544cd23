// ODE: free bodies, its joints with the error reduction and the softness it comes with, dWorldStep (not the quick one).
#include "scenes.h"

#include <ode/ode.h>

#include <cmath>
#include <stdexcept>

namespace linchpin::others {

namespace {

void run(const Scene& scene, int per_second, const std::function<void(const Row&)>& out) {
  dWorldID world = dWorldCreate();
  dWorldSetGravity(world, 0, -9.81, 0);
  dWorldSetAutoDisableFlag(world, 0);
  std::vector<dBodyID> bodies;
  for (const Body& b : scene.bodies) {
    dBodyID body = dBodyCreate(world);
    dMass mass;
    // A particle on rods is never turned: any inertia will do.
    const Vector3d I = b.inertia.isZero() ? Vector3d(1, 1, 1) : b.inertia;
    dMassSetParameters(&mass, b.mass, 0, 0, 0, I.x(), I.y(), I.z(), 0, 0, 0);
    dBodySetMass(body, &mass);
    dBodySetPosition(body, b.p.x(), b.p.y(), b.p.z());
    const dQuaternion q = {b.q.w(), b.q.x(), b.q.y(), b.q.z()};
    dBodySetQuaternion(body, q);
    dBodySetLinearVel(body, b.v.x(), b.v.y(), b.v.z());
    dBodySetAngularVel(body, b.w.x(), b.w.y(), b.w.z());
    bodies.push_back(body);
  }
  bool rods = false;
  for (const Joint& j : scene.joints) {
    dBodyID b = bodies[std::size_t(j.b)], a = j.a < 0 ? nullptr : bodies[std::size_t(j.a)];
    if (scene.bodies[std::size_t(j.b)].inertia.isZero()) {
      dJointID joint = dJointCreateDBall(world, nullptr);
      dJointAttach(joint, b, a);
      const Vector3d &at_b = scene.bodies[std::size_t(j.b)].p, at_a = j.a < 0 ? j.at : scene.bodies[std::size_t(j.a)].p;
      dJointSetDBallAnchor1(joint, at_b.x(), at_b.y(), at_b.z());
      dJointSetDBallAnchor2(joint, at_a.x(), at_a.y(), at_a.z());
      rods = true;
    } else if (j.kind == Joint::Kind::ball) {
      dJointID joint = dJointCreateBall(world, nullptr);
      dJointAttach(joint, b, a);
      dJointSetBallAnchor(joint, j.at.x(), j.at.y(), j.at.z());
    } else {
      dJointID joint = dJointCreateHinge(world, nullptr);
      dJointAttach(joint, b, a);
      dJointSetHingeAnchor(joint, j.at.x(), j.at.y(), j.at.z());
      dJointSetHingeAxis(joint, j.axis.x(), j.axis.y(), j.axis.z());
    }
  }
  Row row{.code = "ODE 0.16",
          .formulation = rods ? "free bodies, distance joints" : "free bodies, joints",
          .method = "dWorldStep, h = 1/" + std::to_string(per_second) + " s"};
  long taken = 0;
  measure(
      scene, row,
      [&](double t) {
        const long before = taken;
        const double begun = cpu_seconds();
        for (; taken < std::lround(t * per_second); ++taken) {
          if (!dWorldStep(world, 1.0 / per_second)) throw std::runtime_error("a step failed");
          if (taken % 100 == 0 && cpu_seconds() - begun > 60) throw std::runtime_error("more than 60 s");
        }
        return taken - before;
      },
      [&](int body, const Vector3d& local) {
        dVector3 p;
        dBodyGetRelPointPos(bodies[std::size_t(body)], local.x(), local.y(), local.z(), p);
        return Vector3d(p[0], p[1], p[2]);
      });
  dWorldDestroy(world);
  out(row);
}

}  // namespace

void by_ode(const Scene& scene, const std::function<void(const Row&)>& out) {
  dInitODE2(0);
  for (const int n : scene.name.starts_with("W1") ? std::vector{240, 960} : std::vector{240, 1000, 4000})
    run(scene, n, out);
  dCloseODE();
}

}  // namespace linchpin::others
