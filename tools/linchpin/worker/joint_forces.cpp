#include "joint_forces.h"

#include <limits>

namespace linchpin::worker {

namespace {

Wrench nothing_known() {
  const Vector3d none = Vector3d::Constant(std::numeric_limits<double>::quiet_NaN());
  return {none, none, Vector3d::Zero()};
}

}  // namespace

JointForces::JointForces(Scene& scene, std::size_t links, bool exact)
    : scene_(scene),
      links_(links),
      exact_(exact),
      unknown_(!exact && scene.built() && scene.built()->multibodies()),
      feedback_(scene.joints().size()),
      centre_(scene.joints().size(), btVector3(0, 0, 0)) {
  // Whoever asked for feedback before keeps it: only joints nobody listens to get ours.
  for (std::size_t i = 0; i < feedback_.size(); ++i)
    if (!scene.joints()[i]->getJointFeedback()) scene.joints()[i]->setJointFeedback(&feedback_[i]);
}

JointForces::~JointForces() {
  for (std::size_t i = 0; i < feedback_.size(); ++i)
    if (scene_.joints()[i]->getJointFeedback() == &feedback_[i]) scene_.joints()[i]->setJointFeedback(nullptr);
}

void JointForces::before() {
  for (std::size_t i = 0; i < centre_.size(); ++i)
    centre_[i] = scene_.joints()[i]->getRigidBodyA().getCenterOfMassPosition();
}

const Reaction* JointForces::exact(std::size_t link, bullet::Solver* solver) const {
  const Reaction* r = exact_ && solver ? scene_.reaction(link, *solver) : nullptr;
  return r && !r->native ? r : nullptr;
}

Wrench JointForces::on_a(std::size_t link, bullet::Solver* solver) const {
  if (unknown_) return nothing_known();
  const Reaction* named = solver ? scene_.reaction(link, *solver) : nullptr;
  const bool joint = link < feedback_.size();
  if (joint && !scene_.joints()[link]->isEnabled()) return {};
  if (const Reaction* r = exact(link, solver)) return r->on_a;
  if (!joint) {
    if (!solver || link >= solver->native_comparison().size()) return {};
    const bullet::NativeComparison& shadow = solver->native_comparison()[link];
    return {shadow.force, shadow.moment, named ? named->on_a.point : Vector3d(Vector3d::Zero())};
  }
  const btJointFeedback* f = scene_.joints()[link]->getJointFeedback();
  if (!f) return {};
  const Wrench on{bullet::from_bullet(f->m_appliedForceBodyA), bullet::from_bullet(f->m_appliedTorqueBodyA),
                  bullet::from_bullet(centre_[link])};
  return named ? on.about(named->on_a.point) : on;
}

}  // namespace linchpin::worker
