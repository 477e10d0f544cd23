// The facade for multibodies: turns the answers of Multibodies into exceptions.
#include "multibody.h"
#include "world_binding.h"

#include <string>

namespace LINCHPIN_BULLET_NAMESPACE {

using host::demand;

namespace {
Multibodies& multibodies_of(WorldBinding& binding, const std::string& who) {
  host::demand_world(binding.world(), who);
  if (!binding.multibodies()) demand(who, "the world is not a btMultiBodyDynamicsWorld");
  return *binding.multibodies();
}
Multibodies& multibodies_of(WorldBinding& binding, const Link& link, const std::string& who) {
  if (!link.body) demand(who, "the link is of no multibody");
  return multibodies_of(binding, who);
}
BodyId id_of(WorldBinding& binding, const Link& link, const std::string& who) {
  BodyId id;
  demand(who, multibodies_of(binding, who).id_of(link, id));
  return id;
}
}  // namespace

std::vector<BodyId> Solver::ids_of(const std::string& name, const std::vector<BodyRef>& parts) {
  std::vector<BodyId> ids;
  for (const BodyRef& part : parts)
    ids.push_back(part.rigid_ ? ids_of(name, std::vector<btRigidBody*>{part.rigid_})[0]
                              : id_of(*binding_, part.link_, "constraint '" + name + "'"));
  return ids;
}

BodyId Solver::id(Link link) { return id_of(*binding_, link, "id"); }

Handle Solver::name_joint(btMultiBodyConstraint& constraint, std::string name) {
  int entry = -1;
  Multibodies& multibodies = multibodies_of(*binding_, "name_joint '" + name + "'");
  demand(multibodies.name(constraint, std::move(name), entry));
  return {*binding_, entry};
}

Handle Solver::name_joint(Link link, std::string name) {
  int entry = -1;
  Multibodies& multibodies = multibodies_of(*binding_, link, "name_joint '" + name + "'");
  demand(multibodies.name_joint(link, std::move(name), entry));
  return {*binding_, entry};
}

Wrench Solver::joint_wrench(Link link) const {
  Wrench out;
  demand(multibodies_of(*binding_, link, "joint_wrench").joint_wrench(link, out));
  return out;
}

JointForces Solver::joint_forces(Link link) const {
  JointForces out;
  demand(multibodies_of(*binding_, link, "joint_forces").joint_forces(link, out));
  return out;
}

void Solver::release_body(btMultiBody& body) {
  if (binding_->multibodies()) binding_->multibodies()->forget(body);
}

}  // namespace LINCHPIN_BULLET_NAMESPACE
