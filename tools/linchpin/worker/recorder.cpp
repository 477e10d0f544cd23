#include "recorder.h"

#include "gaps.h"

#include <algorithm>
#include <cmath>

namespace linchpin::worker {

namespace {

// As scenes of ours have them; what they do not have is drawn as the box around it.
Shape shape_of(const btCollisionShape& shape) {
  Shape out;
  const auto around = [&] {
    btVector3 least, most;
    shape.getAabb(btTransform::getIdentity(), least, most);
    out.kind = Shape::Kind::box;
    out.size = bullet::from_bullet(most - least);
  };
  switch (shape.getShapeType()) {
    case BOX_SHAPE_PROXYTYPE:
      out.kind = Shape::Kind::box;
      out.size = 2 * bullet::from_bullet(static_cast<const btBoxShape&>(shape).getHalfExtentsWithMargin());
      break;
    case SPHERE_SHAPE_PROXYTYPE:
      out.kind = Shape::Kind::sphere;
      out.size.x() = double(static_cast<const btSphereShape&>(shape).getRadius());
      break;
    case CAPSULE_SHAPE_PROXYTYPE: {
      const auto& capsule = static_cast<const btCapsuleShape&>(shape);
      if (capsule.getUpAxis() != 1) {
        around();
        break;
      }
      out.kind = Shape::Kind::capsule;
      out.size = {double(capsule.getRadius()), 2 * double(capsule.getHalfHeight()), 0};
      break;
    }
    case CYLINDER_SHAPE_PROXYTYPE: {
      const auto& cylinder = static_cast<const btCylinderShape&>(shape);
      if (cylinder.getUpAxis() != 1) {
        around();
        break;
      }
      out.kind = Shape::Kind::cylinder;
      out.size = {double(cylinder.getRadius()), 2 * double(cylinder.getHalfExtentsWithMargin().y()), 0};
      break;
    }
    case EMPTY_SHAPE_PROXYTYPE:
    case STATIC_PLANE_PROXYTYPE:
      break;
    default:
      around();
      if (!(out.size.norm() < 1e6)) out = {};
  }
  return out;
}

BodyKind kind_of(const btRigidBody& body) {
  if (body.isKinematicObject()) return BodyKind::driven;
  if (body.getInvMass() == 0) return BodyKind::fixed;
  return body.getInvInertiaDiagLocal().length2() == 0 ? BodyKind::particle : BodyKind::rigid;
}

const char* unit_of(RowUnit unit) { return unit == RowUnit::metre ? "m" : unit == RowUnit::radian ? "rad" : ""; }

}  // namespace

Recorder::Recorder(const cli::RecordingOptions& options, Scene& scene, const std::vector<std::string>& joint_names,
                   double dt, long steps)
    : scene_(scene),
      dt_(dt),
      bodies_(scene.bodies()),
      recording_(make(options, joint_names, dt, steps)),
      states_(bodies_.size()),
      forces_(joint_names.size()) {}

cli::Recording Recorder::make(const cli::RecordingOptions& options, const std::vector<std::string>& joint_names,
                              double dt, long steps) const {
  std::vector<cli::Recording::Body> bodies;
  for (std::size_t i = 0; i < bodies_.size(); ++i)
    bodies.push_back({scene_.body_names()[i], kind_of(*bodies_[i]), shape_of(*bodies_[i]->getCollisionShape()), ""});
  const auto index = [&](const btRigidBody& body) {
    const auto at = std::find(bodies_.begin(), bodies_.end(), &body);
    return at == bodies_.end() ? -1 : static_cast<int>(at - bodies_.begin());
  };
  std::vector<cli::Recording::Link> links;
  for (std::size_t i = 0; i < joint_names.size(); ++i) {
    cli::Recording::Link link{joint_names[i], "m", {}};
    if (i < scene_.joints().size()) {
      const btTypedConstraint& joint = *scene_.joints()[i];
      link.bodies = {index(joint.getRigidBodyA()), index(joint.getRigidBodyB())};
    } else {
      const Built::Constrained& own = scene_.built()->constrained()[i - scene_.joints().size()];
      link.unit = unit_of(own.unit);
      for (const btRigidBody* body : own.bodies) link.bodies.push_back(index(*body));
    }
    links.push_back(std::move(link));
  }
  std::vector<cli::Recording::Signal> signals;
  if (scene_.built())
    for (const Channel& log : scene_.built()->model().logs) {
      if (log.size() == 1) signals.push_back({log.text(), log.unit()});
      for (const char* part : {".x", ".y", ".z"})
        if (log.size() == 3) signals.push_back({log.text() + part, log.unit()});
    }
  return {options, dt, steps, std::move(bodies), std::move(links), std::move(signals)};
}

void Recorder::state(double t, const Watch& watch) {
  for (std::size_t i = 0; i < bodies_.size(); ++i) {
    const btTransform& x = bodies_[i]->getWorldTransform();
    const btQuaternion q = x.getRotation();
    states_[i].p = bullet::from_bullet(x.getOrigin());
    states_[i].q = Quaterniond(double(q.w()), double(q.x()), double(q.y()), double(q.z()));
  }
  gaps_.clear();
  for (btTypedConstraint* joint : scene_.joints()) {
    const Gap gap = measure_gap(*joint);
    gaps_.push_back(gap.any ? gap.metres : std::nan(""));
  }
  if (scene_.built()) {
    scene_.built()->residuals(t, dt_, residuals_);
    gaps_.insert(gaps_.end(), residuals_.begin(), residuals_.end());
    before_ = scene_.built()->state(t);
  }
  recording_.state(t, states_, gaps_, watch.energy(t));
}

void Recorder::forces(const JointForces& forces, const bullet::Solver* solver) {
  if (!recording_.is_frame()) return;
  for (std::size_t i = 0; i < forces_.size(); ++i) {
    const std::size_t body = recording_.links()[i].on;
    if (const Reaction* r = forces.exact(i, solver)) {
      forces_[i] = cli::Recording::Force::of(*r, body);
      continue;
    }
    const Wrench on_a = forces.on_a(i, solver);
    forces_[i] = {};
    forces_[i].on = body == 0 ? on_a : Wrench{-on_a.force, -on_a.moment, on_a.point};
  }
  signals_.clear();
  if (scene_.built()) {
    const Observation at{scene_.built()->mirror(), before_, solver ? solver->reactions() : std::span<const Reaction>()};
    for (const Channel& log : scene_.built()->model().logs)
      for (const double x : log(at)) signals_.push_back(x);
  }
  recording_.forces(forces_, signals_);
}

}  // namespace linchpin::worker
