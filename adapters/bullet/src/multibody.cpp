// Multibodies of the world, their links as bodies of the core, and the constraints between them.
#include "multibody.h"

#include "bodies.h"

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

int Multibodies::tree_of(const btMultiBody* body) const {
  for (std::size_t i = 0; i < trees_.size(); ++i)
    if (trees_[i]->body == body) return static_cast<int>(i);
  return -1;
}

std::string Multibodies::id_of(const Link& link, BodyId& id) {
  scan();
  return register_link(link, id);
}

std::string Multibodies::register_link(const Link& link, BodyId& id) {
  if (!link.body || tree_of(link.body) < 0) return "the multibody is not in the world";
  if (link.index < -1 || link.index >= link.body->getNumLinks())
    return "the multibody has no link " + std::to_string(link.index);
  if (const std::string why = why_unsupported(*link.body); !why.empty())
    return "the multibody cannot be held exactly: " + why;
  for (std::size_t i = 0; i < link_of_id_.size(); ++i)
    if (link_of_id_[i].body == link.body && link_of_id_[i].link == link.index) {
      id = c_.system.body_at(static_cast<int>(i));
      return {};
    }
  // To the core it is a rigid body with a mass of its own; only this class knows that it is part of a tree.
  const std::string name = c_.bodies.new_name("link");
  const double mass = mass_of(*link.body, link.index);
  const Vector3d inertia = inertia_of(*link.body, link.index);
  if ((link.index < 0 && link.body->hasFixedBase()) || !(mass > 0) || !(inertia.minCoeff() > 0)) {
    id = c_.system.add_fixed(name, Pose{});
  } else {
    std::string why = c_.system.try_add_body(id, name, 1, Matrix3d::Identity(), Pose{});
    if (why.empty()) why = c_.system.try_set_mass(id, mass, inertia.asDiagonal());
    if (!why.empty()) return why;
  }
  c_.bodies.add(id, false);
  binding_.bodies().add_foreign(id);
  link_of_id_.resize(std::max(link_of_id_.size(), z(id.index) + 1));
  link_of_id_[z(id.index)] = {link.body, link.index};
  return {};
}

namespace {

/// Reads the state of a link as it is now. @return whether any coordinate moves it
bool read_link_state(const btMultiBody& body, int link, BodyState& to) {
  KinematicTree tree(host_rotation);
  std::vector<articulated::LinkMotion> motions;
  read_tree(body, tree);
  tree.forward_kinematics(tree.state().at, tree.state().velocity, motions);
  const articulated::LinkMotion& at = motions[z(link + 1)];
  to = BodyState{at.p, Quaterniond(at.R), at.v, at.w};
  return tree.can_move(link);
}

}  // namespace

std::string Multibodies::add(Constraint constraint, int& index) {
  if (c_.constraints.find(constraint.name()) >= 0) return "linchpin: the name '" + constraint.name() + "' is in use";
  std::vector<btRigidBody*> rigid;
  bool moves = false;
  State now = c_.bodies.start;
  now.t = c_.t;
  for (const BodyId id : constraint.bodies()) {
    if (is_link(id)) {
      const LinkId& link = link_of_id_[z(id.index)];
      const bool can_move = read_link_state(*link.body, link.link, now[id]);
      moves = moves || can_move;
      continue;
    }
    btRigidBody* body = id == linchpin::world ? nullptr : binding_.bodies().body(id);
    if (!body) continue;
    if (const char* why = why_unsupported(*body))
      return "linchpin: constraint '" + constraint.name() + "' is on " + why + ", which has no mass matrix";
    now[id] = bullet::read_state(*body);
    moves = moves || c_.system.dof(id) > 0;
    rigid.push_back(body);
  }
  if (!moves) return "linchpin: constraint '" + constraint.name() + "': none of its bodies and links can move";
  if (const ConstraintCheck found = check_constraint(c_.system, constraint, now);
      !found.ok() && (!found.finite || std::max({found.error_A, found.error_b, found.error_velocity}) > 1e-5))
    return "linchpin: " + found.message;
  index = binding_.joints().add(Owner::user_on_links, constraint.name());
  binding_of(index).bodies = std::move(rigid);
  c_.constraints[index].deferred = std::make_unique<Constraint>(std::move(constraint));
  for (btRigidBody* body : binding_of(index).bodies) body->activate();
  layout_is_stale_ = true;
  binding_.joints().order_reactions();
  return {};
}

void Multibodies::forget(const btMultiBody& body) {
  for (int i = 0; i < static_cast<int>(c_.constraints.size()); ++i) {
    const host::ConstraintEntry& r = c_.constraints[i];
    if (!r.alive || !r.is_on_links() || !r.deferred) continue;
    const auto ids = r.deferred->bodies();
    if (std::any_of(ids.begin(), ids.end(),
                    [&](BodyId id) { return is_link(id) && link_of_id_[z(id.index)].body == &body; }))
      binding_.joints().remove(i);
  }
  std::erase_if(stock_, [&](const Stock& s) {
    if (s.constraint->getMultiBodyA() != &body && s.constraint->getMultiBodyB() != &body) return false;
    if (c_.constraints[s.entry].alive) binding_.joints().remove(s.entry);
    return true;
  });
  stock_of_.clear();  // the next scan finds them again
  for (std::size_t i = 0; i < link_of_id_.size(); ++i)
    if (link_of_id_[i].body == &body) release_link(i);
  std::erase_if(trees_, [&](const auto& t) { return t->body == &body; });
  layout_is_stale_ = true;
}

void Multibodies::release_link(std::size_t id) {
  link_of_id_[id] = {};
  c_.bodies.remove(c_.system.body_at(static_cast<int>(id)));
}

// Programs add and remove multibodies without notice. Pointers are compared only, because their objects may be gone.
void Multibodies::scan() {
  if (scan_trees()) {
    for (int i = 0; i < static_cast<int>(c_.constraints.size()); ++i) {
      const host::ConstraintEntry& r = c_.constraints[i];
      if (!r.alive || !r.is_on_links() || !r.deferred) continue;
      const auto ids = r.deferred->bodies();
      if (std::any_of(ids.begin(), ids.end(),
                      [&](BodyId id) { return is_link(id) && tree_of(link_of_id_[z(id.index)].body) < 0; }))
        binding_.joints().remove(i);
    }
    for (std::size_t i = 0; i < link_of_id_.size(); ++i)
      if (link_of_id_[i].body && tree_of(link_of_id_[i].body) < 0) release_link(i);
    layout_is_stale_ = true;
  }
  scan_stock();
}

/// Takes the trees of the world, in its order. @return whether they are others than before
bool Multibodies::scan_trees() {
  const int n = world_.getNumMultibodies();
  bool same = n == static_cast<int>(trees_.size());
  for (int i = 0; same && i < n; ++i)
    same = trees_[z(i)]->body == world_.getMultiBody(i) &&
           (trees_[z(i)]->tree.links() == 0 || same_shape(trees_[z(i)]->tree, *trees_[z(i)]->body));
  if (same) return false;
  std::vector<std::unique_ptr<Tree>> fresh;
  for (int i = 0; i < n; ++i) {
    const int at = tree_of(world_.getMultiBody(i));
    fresh.push_back(at >= 0 && trees_[z(at)] ? std::move(trees_[z(at)])
                                             : std::make_unique<Tree>(*world_.getMultiBody(i)));
    std::erase(trees_, nullptr);
    read_tree(*fresh.back()->body, fresh.back()->tree);
  }
  trees_ = std::move(fresh);
  return true;
}

bool Multibodies::has(int entry) const {
  const auto all = constraints_.constraints();
  return is_solved() &&
         std::any_of(all.begin(), all.end(), [&](const articulated::ConstraintRows& c) { return c.owner == entry; });
}

std::vector<host::HostPart> Multibodies::host_parts() const {
  std::vector<host::HostPart> out;
  for (const std::string& text : notes_) {
    const std::size_t cut = text.find('\n');
    out.push_back({text.substr(0, cut), text.substr(cut + 1)});
  }
  return out;
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
