// The robots of a scene that are wished as btMultiBody: made in the world from the model's bodies and the joints of its
// trees. Each link has a btRigidBody for a stand-in, which is in no world: reports and gaps look at bodies, and it goes
// where its link goes.
#pragma once

#include <linchpin/bullet.h>
#include <linchpin/scene.h>

#include <BulletDynamics/Featherstone/btMultiBody.h>
#include <BulletDynamics/Featherstone/btMultiBodyDynamicsWorld.h>
#include <BulletDynamics/Featherstone/btMultiBodyJointLimitConstraint.h>
#include <BulletDynamics/Featherstone/btMultiBodyLinkCollider.h>
#include <btBulletDynamicsCommon.h>

#include <memory>
#include <vector>

namespace linchpin::bullet_scene {

class Multibodies {
 public:
  /// @param stand_ins  as the model's bodies, with the shapes of links, which collide where the model has contacts;
  /// those of bodies that are no links are left alone. All must outlive this.
  Multibodies(const scene::Model& model, btMultiBodyDynamicsWorld& world, const std::vector<btRigidBody*>& stand_ins);
  ~Multibodies();
  Multibodies(const Multibodies&) = delete;
  Multibodies& operator=(const Multibodies&) = delete;

  /// No body in it where that body of the model is no link.
  bullet::Link link(BodyId body) const;
  /// By which a joint of the tree is known; its second body's.
  bullet::Link joint(const scene::SceneConstraint& tree) const { return link(tree.bodies[1]); }
  /// Moves all links to the places of a state, with its velocities, and forgets their contacts. Joints get the
  /// coordinates that the places of their two links give. Call follow() after it.
  void place(const State& state);
  /// Stand-ins to where their links are. Call after a step.
  void follow();
  /// Force and torque [N, N m] for the next step on a link, at its centre of mass, in world axes.
  void push(const bullet::Link& on, const btVector3& force, const btVector3& torque);
  /// Whether some joint has ever been at its limit.
  bool limited() const;

 private:
  struct Tree {
    std::unique_ptr<btMultiBody> body;
    std::vector<btRigidBody*> links;  // stand-ins, the base first; null where that is the world
    std::vector<BodyId> bodies;       // of the model, the same ones
    std::vector<std::unique_ptr<btMultiBodyLinkCollider>> colliders;
    std::vector<std::unique_ptr<btMultiBodyJointLimitConstraint>> limits;
  };
  void place_joint(Tree& tree, int link, const State& state) const;
  void plant(const scene::Model& model, int which, const std::vector<btRigidBody*>& stand_ins);
  void collide(Tree& tree, int link, bool moves, bool contacts);

  btMultiBodyDynamicsWorld& world_;
  std::vector<Tree> trees_;
  std::vector<bullet::Link> link_of_;  // by body of the model
  btAlignedObjectArray<btQuaternion> turns_;
  btAlignedObjectArray<btVector3> places_, omega_, velocity_;
};

}  // namespace linchpin::bullet_scene
