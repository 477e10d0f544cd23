#include "multibodies.h"

#include <cmath>
#include <map>
#include <numbers>

namespace linchpin::bullet_scene {

namespace {

// To parent-from-child turned round: quatRotate(q, v) has v's components in the child's axes (btMultiBody's zero turn).
btQuaternion turn_of(const Quaterniond& q) {
  return {btScalar(q.x()), btScalar(q.y()), btScalar(q.z()), btScalar(q.w())};
}
btQuaternion turn_of(const Matrix3d& R) { return turn_of(Quaterniond(Eigen::Quaterniond(R).normalized())); }

}  // namespace

Multibodies::Multibodies(const scene::Model& model, btMultiBodyDynamicsWorld& world,
                         const std::vector<btRigidBody*>& stand_ins)
    : world_(world), link_of_(model.bodies.size()) {
  trees_.reserve(static_cast<std::size_t>(model.multibodies));
  for (int which = 1; which <= model.multibodies; ++which) plant(model, which, stand_ins);
  follow();
}

Multibodies::~Multibodies() {
  for (Tree& tree : trees_) {
    for (const auto& limit : tree.limits) world_.removeMultiBodyConstraint(limit.get());
    for (const auto& collider : tree.colliders) world_.removeCollisionObject(collider.get());
    world_.removeMultiBody(tree.body.get());
  }
}

bullet::Link Multibodies::link(BodyId body) const {
  return body == linchpin::ground ? bullet::Link() : link_of_[static_cast<std::size_t>(body.index) - 1];
}

void Multibodies::plant(const scene::Model& model, int which, const std::vector<btRigidBody*>& stand_ins) {
  const auto body_at = [&](BodyId id) -> const scene::SceneBody& {
    return model.bodies[static_cast<std::size_t>(id.index) - 1];
  };
  std::multimap<int, const scene::SceneConstraint*> hanging;  // by the parent's BodyId
  std::vector<char> hangs(model.bodies.size() + 1);
  for (const scene::SceneConstraint& c : model.constraints) {
    if (!c.tree || body_at(c.bodies[1]).multibody != which) continue;
    hanging.emplace(c.bodies[0].index, &c);
    hangs[static_cast<std::size_t>(c.bodies[1].index)] = 1;
  }
  int base = 0;  // the world itself, unless one of the bodies hangs on nothing
  for (std::size_t i = 0; i < model.bodies.size(); ++i)
    if (model.bodies[i].multibody == which && !hangs[i + 1]) base = static_cast<int>(i) + 1;
  std::vector<const scene::SceneConstraint*> joints;  // parents first
  std::map<int, int> index = {{base, -1}};            // of links
  std::vector<int> next = {base};
  for (std::size_t k = 0; k < next.size(); ++k) {
    const auto [from, to] = hanging.equal_range(next[k]);
    for (auto at = from; at != to; ++at) {
      const int child = at->second->bodies[1].index;
      index[child] = static_cast<int>(joints.size());
      joints.push_back(at->second);
      next.push_back(child);
    }
  }
  const auto n = static_cast<int>(joints.size());
  const scene::SceneBody* root = base > 0 ? &model.bodies[static_cast<std::size_t>(base) - 1] : nullptr;
  const bool fixed = !root || root->kind == BodyKind::fixed;
  trees_.emplace_back();
  Tree& tree = trees_.back();
  tree.body = std::make_unique<btMultiBody>(n, fixed ? 0 : btScalar(root->mass),
                                            fixed ? btVector3(0, 0, 0) : bullet::to_bullet(root->inertia.diagonal()),
                                            fixed, false);
  btMultiBody& mb = *tree.body;
  tree.links.push_back(root ? stand_ins[static_cast<std::size_t>(base) - 1] : nullptr);
  tree.bodies.push_back(BodyId{base});
  if (root) {
    link_of_[static_cast<std::size_t>(base) - 1] = {&mb, -1};
    mb.setBaseWorldTransform(tree.links[0]->getWorldTransform());
  }
  for (int i = 0; i < n; ++i) {
    const scene::SceneConstraint& c = *joints[static_cast<std::size_t>(i)];
    const scene::SceneBody& body = body_at(c.bodies[1]);
    const std::size_t at = static_cast<std::size_t>(c.bodies[1].index) - 1;
    tree.links.push_back(stand_ins[at]);
    tree.bodies.push_back(c.bodies[1]);
    link_of_[at] = {&mb, i};
    const int parent = index.at(c.bodies[0].index);
    const btScalar mass = btScalar(body.mass);
    const btVector3 inertia = bullet::to_bullet(body.inertia.diagonal());
    // The frames of the joint coincide at 0: the child's axes from the parent's then.
    const btQuaternion turn = turn_of(c.frame_b.axes * c.frame_a.axes.transpose());
    const btVector3 axis = bullet::to_bullet(c.frame_b.axes.col(0)), to_pivot = bullet::to_bullet(c.frame_a.origin),
                    from_pivot = -bullet::to_bullet(c.frame_b.origin);
    if (c.type == "hinge")
      mb.setupRevolute(i, mass, inertia, parent, turn, axis, to_pivot, from_pivot, true);
    else if (c.type == "slider")
      mb.setupPrismatic(i, mass, inertia, parent, turn, axis, to_pivot, from_pivot, true);
    else if (c.type == "ball")
      mb.setupSpherical(i, mass, inertia, parent, turn, to_pivot, from_pivot, true);
    else
      mb.setupFixed(i, mass, inertia, parent, turn, to_pivot, from_pivot);
  }
  mb.finalizeMultiDof();
  if (root) {
    mb.setBaseVel(tree.links[0]->getLinearVelocity());
    mb.setBaseOmega(tree.links[0]->getAngularVelocity());
  }
  // Bullet's defaults that a robot's file says nothing of, and that rigid bodies do not have.
  mb.setLinearDamping(0);
  mb.setAngularDamping(0);
  mb.setMaxCoordinateVelocity(btScalar(1e30));
  mb.setCanSleep(false);
  mb.setHasSelfCollision(root ? root->family == 0 : body_at(joints.front()->bodies[1]).family == 0);
  world_.addMultiBody(&mb);
  for (int i = 0; i < n; ++i) {
    const scene::SceneConstraint& c = *joints[static_cast<std::size_t>(i)];
    if (c.type == "hinge" || c.type == "slider") {
      mb.setJointPos(i, btScalar(c.start));
      mb.setJointVel(i, btScalar(c.rate));
    }
    if (!c.limits) continue;
    tree.limits.push_back(std::make_unique<btMultiBodyJointLimitConstraint>(&mb, i, btScalar(c.limits->first),
                                                                            btScalar(c.limits->second)));
    tree.limits.back()->finalizeMultiDof();
    world_.addMultiBodyConstraint(tree.limits.back().get());
  }
  mb.forwardKinematics(turns_, places_);
  for (int i = -1; i < n; ++i) collide(tree, i, i >= 0 || !fixed, model.contacts);
}

// Every link has a collider, if only to be in a group: Bullet leaves out the limits of joints whose links have none.
void Multibodies::collide(Tree& tree, int link, bool moves, bool contacts) {
  const btRigidBody* of = tree.links[static_cast<std::size_t>(link + 1)];
  if (!of) return;
  if (of->getCollisionShape()->getShapeType() == EMPTY_SHAPE_PROXYTYPE) contacts = false;
  tree.colliders.push_back(std::make_unique<btMultiBodyLinkCollider>(tree.body.get(), link));
  btMultiBodyLinkCollider& collider = *tree.colliders.back();
  collider.setCollisionShape(const_cast<btCollisionShape*>(of->getCollisionShape()));
  collider.setWorldTransform(link < 0 ? tree.body->getBaseWorldTransform()
                                      : tree.body->getLink(link).m_cachedWorldTransform);
  collider.setUserIndex(of->getUserIndex());
  using Filter = btBroadphaseProxy;
  if (contacts)
    world_.addCollisionObject(&collider, moves ? Filter::DefaultFilter : Filter::StaticFilter,
                              moves ? Filter::AllFilter : Filter::AllFilter ^ Filter::StaticFilter);
  else
    world_.addCollisionObject(&collider, 0, 0);
  if (link < 0)
    tree.body->setBaseCollider(&collider);
  else
    tree.body->getLink(link).m_collider = &collider;
}

void Multibodies::place(const State& state) {
  for (Tree& tree : trees_) {
    btMultiBody& mb = *tree.body;
    if (!mb.hasFixedBase()) {
      const BodyState& base = state[tree.bodies[0]];
      mb.setBaseWorldTransform(btTransform(turn_of(base.q), bullet::to_bullet(base.p)));
      mb.setBaseVel(bullet::to_bullet(base.v));
      mb.setBaseOmega(bullet::to_bullet(base.w));
    }
    for (int i = 0; i < mb.getNumLinks(); ++i) place_joint(tree, i, state);
    mb.clearForcesAndTorques();
    mb.forwardKinematics(turns_, places_);
    mb.updateCollisionObjectWorldTransforms(turns_, places_);
    for (const auto& collider : tree.colliders) {
      world_.getPairCache()->cleanProxyFromPairs(collider->getBroadphaseHandle(), world_.getDispatcher());
      world_.updateSingleAabb(collider.get());
    }
  }
}

// The formulas of btMultibodyLink::updateCacheMultiDof, solved for the coordinates.
void Multibodies::place_joint(Tree& tree, int link, const State& state) const {
  btMultiBody& mb = *tree.body;
  const btMultibodyLink& at = mb.getLink(link);
  const auto body = [&](int i) { return state[tree.bodies[static_cast<std::size_t>(i + 1)]]; };
  const BodyState parent = body(mb.getParent(link)), child = body(link);
  const Quaterniond to_child = child.q.conjugate();
  const Vector3d p = child.p - parent.p;
  const btVector3 w = bullet::to_bullet(to_child * (child.w - parent.w));
  const btQuaternion turn = turn_of(Quaterniond(to_child * parent.q));
  const btQuaternion by = turn * at.m_zeroRotParentToThis.inverse();
  switch (at.m_jointType) {
    case btMultibodyLink::eRevolute: {
      const btVector3 axis = at.getAxisTop(0);
      const double angle = -2 * std::atan2(double(btVector3(by.x(), by.y(), by.z()).dot(axis)), double(by.w()));
      const double last = double(mb.getJointPos(link));
      mb.setJointPos(link, btScalar(last + std::remainder(angle - last, 2 * std::numbers::pi)));
      mb.setJointVel(link, axis.dot(w));
      return;
    }
    case btMultibodyLink::ePrismatic: {
      const btVector3 axis = at.getAxisBottom(0), r = bullet::to_bullet(to_child * p);
      mb.setJointPos(link, axis.dot(r - quatRotate(turn, at.m_eVector) - at.m_dVector));
      mb.setJointVel(link, axis.dot(bullet::to_bullet(to_child * (child.v - parent.v - parent.w.cross(p)))));
      return;
    }
    case btMultibodyLink::eSpherical: {
      btScalar position[] = {by.x(), by.y(), by.z(), -by.w()}, rate[] = {w.x(), w.y(), w.z()};
      mb.setJointPosMultiDof(link, position);
      mb.setJointVelMultiDof(link, rate);
      return;
    }
    default:
      return;
  }
}

void Multibodies::follow() {
  for (Tree& tree : trees_) {
    btMultiBody& mb = *tree.body;
    mb.forwardKinematics(turns_, places_);
    omega_.resize(mb.getNumLinks() + 1);
    velocity_.resize(mb.getNumLinks() + 1);
    mb.compTreeLinkVelocities(&omega_[0], &velocity_[0]);
    for (int i = -1; i < mb.getNumLinks(); ++i) {
      btRigidBody* to = tree.links[static_cast<std::size_t>(i + 1)];
      if (!to || to->isStaticObject()) continue;
      const btTransform at = i < 0 ? mb.getBaseWorldTransform() : mb.getLink(i).m_cachedWorldTransform;
      to->setWorldTransform(at);
      to->setInterpolationWorldTransform(at);
      to->setLinearVelocity(at.getBasis() * velocity_[i + 1]);
      to->setAngularVelocity(at.getBasis() * omega_[i + 1]);
    }
  }
}

void Multibodies::push(const bullet::Link& on, const btVector3& force, const btVector3& torque) {
  if (on.index < 0) {
    on.body->addBaseForce(force);
    on.body->addBaseTorque(torque);
  } else {
    on.body->addLinkForce(on.index, force);
    on.body->addLinkTorque(on.index, torque);
  }
}

bool Multibodies::limited() const {
  for (const Tree& tree : trees_)
    for (const auto& limit : tree.limits)
      for (int row = 0; row < limit->getNumRows(); ++row)
        if (limit->getAppliedImpulse(row) != 0) return true;
  return false;
}

}  // namespace linchpin::bullet_scene
