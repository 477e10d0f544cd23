// Simbody: a tree of mobilizers in joint coordinates, loops closed by its own constraints.
#include "scenes.h"

#include <Simbody.h>

#include <memory>
#include <stdexcept>

namespace linchpin::others {

namespace {

SimTK::Vec3 vec(const Vector3d& x) { return {x.x(), x.y(), x.z()}; }
SimTK::Transform pose(const Body& b) {
  const SimTK::Quaternion q(b.q.w(), b.q.x(), b.q.y(), b.q.z());
  return {SimTK::Rotation(q), vec(b.p)};
}

struct Mechanism {
  SimTK::MultibodySystem system;
  SimTK::SimbodyMatterSubsystem matter{system};
  SimTK::GeneralForceSubsystem forces{system};
  SimTK::Force::UniformGravity gravity{forces, matter, SimTK::Vec3(0, -9.81, 0)};
  std::vector<SimTK::MobilizedBody> bodies;
  SimTK::State start;

  explicit Mechanism(const Scene& scene) {
    const auto at = [&](int i) { return i < 0 ? SimTK::Transform() : pose(scene.bodies[std::size_t(i)]); };
    const auto body = [&](int i) -> SimTK::MobilizedBody& {
      return i < 0 ? static_cast<SimTK::MobilizedBody&>(matter.updGround()) : bodies[std::size_t(i)];
    };
    std::vector<std::pair<SimTK::MobilizedBody::Pin, double>> turning;
    for (const Joint& j : scene.joints) {
      const SimTK::UnitVec3 axis(vec(j.axis));
      const SimTK::Transform joint(SimTK::Rotation(axis, SimTK::ZAxis), vec(j.at));
      if (!j.closes) {
        const Body& b = scene.bodies[std::size_t(j.b)];
        const SimTK::Body::Rigid mass(SimTK::MassProperties(b.mass, SimTK::Vec3(0), SimTK::Inertia(vec(b.inertia))));
        const SimTK::Transform in_a = ~at(j.a) * joint, in_b = ~at(j.b) * joint;
        if (j.kind == Joint::Kind::hinge) {
          SimTK::MobilizedBody::Pin pin(body(j.a), in_a, mass, in_b);
          const Vector3d before = j.a < 0 ? Vector3d(0, 0, 0) : scene.bodies[std::size_t(j.a)].w;
          turning.emplace_back(pin, j.axis.dot(b.w - before));
          bodies.push_back(pin);
        } else {
          bodies.push_back(SimTK::MobilizedBody::Ball(body(j.a), in_a, mass, in_b));
        }
        continue;
      }
      const SimTK::Vec3 on_a = ~at(j.a) * vec(j.at), on_b = ~at(j.b) * vec(j.at);
      if (scene.planar) {
        for (const SimTK::Vec3& n : {SimTK::Vec3(1, 0, 0), SimTK::Vec3(0, 1, 0)}) {
          const SimTK::UnitVec3 normal(n);
          SimTK::Constraint::PointInPlane(body(j.a), normal, SimTK::dot(normal, on_a), body(j.b), on_b);
        }
        continue;
      }
      SimTK::Constraint::Ball(body(j.a), on_a, body(j.b), on_b);
      const SimTK::UnitVec3 axis_b(~at(j.b).R() * vec(j.axis));
      for (const SimTK::UnitVec3& across : {axis.perp(), SimTK::UnitVec3(SimTK::cross(axis, axis.perp()))})
        SimTK::Constraint::ConstantAngle(body(j.a), SimTK::UnitVec3(~at(j.a).R() * across), body(j.b), axis_b,
                                         SimTK::Pi / 2);
    }
    start = system.realizeTopology();
    for (auto& [pin, rate] : turning) pin.setRate(start, rate);
    system.realize(start, SimTK::Stage::Velocity);
  }
};

template <class Integrator>
void run(const Scene& scene, const std::string& method, double accuracy, const std::function<void(const Row&)>& out) {
  Mechanism m(scene);
  Integrator integrator(m.system);
  integrator.setAccuracy(accuracy);
  integrator.setReturnEveryInternalStep(true);
  SimTK::TimeStepper stepper(m.system, integrator);
  stepper.initialize(m.start);
  const bool loops = scene.joints.back().closes;
  Row row{.code = "Simbody 3.7",
          .formulation = loops ? "joint tree, loops by constraints" : "joint tree",
          .method = method};
  measure(
      scene, row,
      [&](double t) {
        const int before = integrator.getNumStepsTaken();
        const double begun = cpu_seconds();
        while (stepper.getTime() < t) {  // after every step of its own, so that a run that stands still is given up
          stepper.stepTo(t);
          if (cpu_seconds() - begun > 60) throw std::runtime_error("more than 60 s");
        }
        return long(integrator.getNumStepsTaken() - before);
      },
      [&](int body, const Vector3d& local) {
        const SimTK::Vec3 p = m.bodies[std::size_t(body)].findStationLocationInGround(stepper.getState(), vec(local));
        return Vector3d(p[0], p[1], p[2]);
      });
  out(row);
}

}  // namespace

void by_simbody(const Scene& scene, const std::function<void(const Row&)>& out) {
  for (const auto& [text, accuracy] : {std::pair{"1e-3", 1e-3}, {"1e-5", 1e-5}, {"1e-7", 1e-7}, {"1e-9", 1e-9}})
    run<SimTK::RungeKuttaMersonIntegrator>(scene, std::string("Runge–Kutta–Merson, accuracy ") + text, accuracy, out);
  for (const auto& [text, accuracy] : {std::pair{"1e-3", 1e-3}, {"1e-5", 1e-5}})
    run<SimTK::VerletIntegrator>(scene, std::string("Verlet, accuracy ") + text, accuracy, out);
}

}  // namespace linchpin::others
