// Multibodies of the world, their links as bodies of the core, and the user's own constraints between them.
#include "multibody.h"

#include "bodies.h"

#include <BulletDynamics/Featherstone/btMultiBodyLinkCollider.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace LINCHPIN_BULLET_NAMESPACE {

using host::demand;

int Multibodies::tree_of(const btMultiBody* body) const {
  const auto at = std::find_if(trees_seen_.begin(), trees_seen_.end(), [&](const Tree& t) { return t.body == body; });
  return at == trees_seen_.end() ? -1 : static_cast<int>(at - trees_seen_.begin());
}

void Multibodies::scan() {
  const int n = world_.getNumMultibodies();
  bool same = n == static_cast<int>(trees_seen_.size());
  for (int i = 0; same && i < n; ++i) same = trees_seen_[static_cast<std::size_t>(i)] == Tree(*world_.getMultiBody(i));
  if (!same) {
    std::vector<Tree> now;
    for (int i = 0; i < n; ++i) now.emplace_back(*world_.getMultiBody(i));
    replace_trees(std::move(now));
  }
  scan_stock();
}

/// Takes other trees. Constraints on those that are gone are removed.
void Multibodies::replace_trees(std::vector<Tree> now) {
  std::vector<int> before;
  for (const Tree& t : now) before.push_back(tree_of(t.body));
  trees_seen_ = std::move(now);
  for (const int entry : trees_.set_trees(before)) host_.solver.remove(entry);
}

void Multibodies::forget(const btMultiBody& body) {
  std::vector<Tree> now = trees_seen_;
  std::erase_if(now, [&](const Tree& t) { return t.body == &body; });
  replace_trees(std::move(now));
  std::erase_if(stock_, [&](const Stock& s) {
    if (s.constraint->getMultiBodyA() != &body && s.constraint->getMultiBodyB() != &body) return false;
    if (host_.solver.entry(s.entry).alive) host_.solver.remove(s.entry);
    return true;
  });
  stock_of_.clear();  // the next scan finds them again
}

BodyId Multibodies::id_of(const Link& link) {
  scan();
  return trees_.link_id(tree_of(link.body), link.index);
}

bool Multibodies::names_link(const Constraint& constraint) const {
  const auto ids = constraint.bodies();
  return std::any_of(ids.begin(), ids.end(), [&](BodyId id) { return id.index >= 0 && trees_.is_link(id); });
}

int Multibodies::add(Constraint constraint) {
  const std::string name = constraint.name();
  demand_free(name);
  std::vector<btRigidBody*> rigid;
  for (const BodyId id : constraint.bodies()) {
    btRigidBody* const rigid_body = host_.bodies.body(id);
    if (!rigid_body) continue;
    if (const char* why = bullet::why_unsupported(*rigid_body))
      demand("linchpin: constraint '" + name + "': one of its bodies has no mass matrix: " + why);
    rigid.push_back(rigid_body);
  }
  demand(trees_.why_not_held(constraint));
  const int entry = host_.solver.add_entry(Owner::user_on_links, name);
  host_.joints[entry].bodies = std::move(rigid);
  trees_.set_constraint(entry, std::make_unique<Constraint>(std::move(constraint)));
  for (btRigidBody* b : host_.joints[entry].bodies) b->activate();
  host_.solver.refresh_order();
  return entry;
}

int Multibodies::name_joint(const Link& link, std::string name) {
  scan();
  const int tree = tree_of(link.body);
  auto joint = std::make_unique<Constraint>(trees_.make_joint(tree, link.index, name));
  int entry = trees_.find_joint(tree, link.index);
  if (entry < 0 || host_.solver.entry(entry).name != name) demand_free(name);
  if (entry < 0)
    entry = host_.solver.add_entry(Owner::multibody_joint, std::move(name));
  else
    host_.solver.name_joint(entry, std::move(name));
  trees_.set_constraint(entry, std::move(joint));
  host_.solver.refresh_order();
  return entry;
}

int Multibodies::entry_of(const btMultiBodyConstraint* constraint, const Link& link) {
  scan();
  return constraint ? find(*constraint) : joint_entry(link);
}

int Multibodies::joint_entry(const Link& link) {
  const int tree = tree_of(link.body);
  if (tree < 0 || link.index < 0 || link.index >= link.body->getNumLinks() || !why_unsupported(tree).empty()) return -1;
  if (const int known = trees_.find_joint(tree, link.index); known >= 0) return known;
  const char* const own = link.body->getLink(link.index).m_jointName;
  const std::string place = "joint#" + std::to_string(tree) + "." + std::to_string(link.index);
  return name_joint(link, host_.solver.free_name(own && *own ? own : place));
}

int Multibodies::find(const btMultiBodyConstraint& constraint) const {
  const auto at =
      std::find_if(stock_.begin(), stock_.end(), [&](const Stock& s) { return s.constraint == &constraint; });
  return at == stock_.end() ? -1 : at->entry;
}

void Multibodies::demand_free(const std::string& name) const {
  if (host_.solver.find(name) >= 0)
    demand("linchpin: another constraint has the name '" + name + "'. Choose a different name");
}

// ---- articulated::TreeWorld ----

void Multibodies::read(int tree, articulated::TreeModel& model, articulated::TreeState& state) const {
  read_tree(body(tree), model, state);
}
articulated::LinkModel Multibodies::read_link(int tree, int link) const { return bullet::read_link(body(tree), link); }
std::string Multibodies::why_unsupported(int tree) const { return bullet::why_unsupported(body(tree)); }
bool Multibodies::is_asleep(int tree) const { return bullet::is_asleep(body(tree)); }

void Multibodies::wake(int tree) {
  const auto wake = [](btMultiBodyLinkCollider* c) {
    if (c && !c->isActive()) c->setActivationState(ACTIVE_TAG);
  };
  btMultiBody& b = body(tree);
  b.wakeUp();
  wake(b.getBaseCollider());
  for (int i = 0; i < b.getNumLinks(); ++i) wake(b.getLink(i).m_collider);
}

void Multibodies::move(int tree, const articulated::Configuration& to) {
  write_configuration(to, body(tree), kinematics_);
}

BodyId Multibodies::current_id(BodyId id) {
  btRigidBody* const rigid = host_.bodies.body(id);
  return rigid ? host_.bodies.id(*rigid) : id;
}

// ---- reports ----

double Multibodies::energy() const {
  double sum = 0;
  articulated::TreeModel model;
  articulated::TreeState state;
  for (int i = 0; i < world_.getNumMultibodies(); ++i) {
    read_tree(*world_.getMultiBody(i), model, state);
    articulated::add_energy(model, state, gravity(), sum);
  }
  return sum;
}

Wrench Multibodies::joint_wrench(const Link& link) { return trees_.joint_wrench(checked_tree_of(link), link.index); }

JointForces Multibodies::joint_forces(const Link& link) {
  return trees_.joint_forces(checked_tree_of(link), link.index);
}

int Multibodies::checked_tree_of(const Link& link) const {
  const int tree = tree_of(link.body);
  if (tree < 0) demand("the multibody is not in the world");
  return tree;
}

}  // namespace LINCHPIN_BULLET_NAMESPACE
