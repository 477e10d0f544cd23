// The facade for multibodies.
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

/// Calls a function that names a link. The text of its error begins with `who`.
template <class Call>
auto with_link(WorldBinding& binding, const Link& link, const std::string& who, Call call) {
  if (!link.body) demand(who, "the link is of no multibody");
  Multibodies& multibodies = multibodies_of(binding, who);
  auto made = try_call([&] { return call(multibodies); });
  if (made) return *made;
  constexpr std::string_view prefix = "linchpin: ";
  const std::string& why = made.error().message;
  const std::size_t at = why.starts_with(prefix) ? prefix.size() : 0;
  Error{made.error().kind, std::string(prefix) + who + ": " + why.substr(at)}.raise();
}

}  // namespace

BodyId id_of_link(WorldBinding& binding, const Link& link, const std::string& who) {
  return with_link(binding, link, who, [&](Multibodies& m) { return m.id_of(link); });
}

int name_multibody_joint(WorldBinding& binding, btMultiBodyConstraint* constraint, const Link& link, std::string name) {
  const std::string who = "name_joint '" + name + "'";
  if (constraint) return multibodies_of(binding, who).name(*constraint, std::move(name));
  return with_link(binding, link, who, [&](Multibodies& m) { return m.name_joint(link, name); });
}

Wrench Solver::joint_wrench(Link link) {
  return with_link(*binding_, link, "joint_wrench", [&](Multibodies& m) { return m.joint_wrench(link); });
}
JointForces Solver::joint_forces(Link link) {
  return with_link(*binding_, link, "joint_forces", [&](Multibodies& m) { return m.joint_forces(link); });
}

void Solver::release_body(btMultiBody& body) {
  if (binding_->multibodies()) binding_->multibodies()->forget(body);
}

}  // namespace LINCHPIN_BULLET_NAMESPACE
