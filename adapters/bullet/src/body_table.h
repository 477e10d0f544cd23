// The bodies of a Bullet world and their ids in the solver: who is there, what the program has changed of them, and the
// states that a step starts from.
#pragma once

#include "bodies.h"

#include <linchpin/host.h>

#include <btBulletDynamicsCommon.h>

#include <functional>
#include <unordered_map>
#include <vector>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

class BodyTable {
 public:
  /// What the constraints of the world say about a body.
  struct Constraints {
    std::function<bool(const btRigidBody&)> name;          ///< Some constraint names it.
    std::function<void(const btRigidBody&)> changed_kind;  ///< It has got another id.
  };
  BodyTable(host::ConstraintSolver& solver, bool refuse_velocities, Constraints constraints)
      : solver_(solver), refuses_velocities_(refuse_velocities), constraints_(std::move(constraints)) {
    body_of_.push_back(nullptr);
    place_.push_back(-1);
    watch_.resize(1);
  }
  void set_world(btDiscreteDynamicsWorld* world) { world_ = world; }

  /// The id of a body. A body that is new, or has become kinematic, static or dynamic, gets one.
  BodyId id(btRigidBody& body);
  btRigidBody* body(BodyId id) const;
  int find(const btRigidBody& body) const;           ///< −1: not known
  int find_in_world(const btRigidBody& body) const;  ///< −1: not known, or not in the world
  bool in_world(const btRigidBody& body) const;
  std::size_t count() const { return body_of_.size(); }
  /// A body of the core that is none of Bullet's rigid bodies, as a link.
  void add_foreign(BodyId id);
  void forget(btRigidBody& body);

  /// Looks at all bodies once before a step: whether each is still there, a velocity that is no number, mass, factors
  /// and kind, which the program may change at any time, and the state that the step starts from.
  /// @param changed  out: bodies with other settings, sorted @return whether there are some
  bool watch(std::vector<const btRigidBody*>& changed);
  bool has_new() const { return has_new_; }
  void drop_gone();
  const std::vector<BodyId>& kinematic() const { return kinematic_; }
  void find_kinematic();
  bool any_swept() const { return any_swept_; }
  bool is_at_its_place(BodyId id) const;

 private:
  /// The settings of a body that its mass and kind depend on.
  struct Watch {
    const btRigidBody* body = nullptr;
    int flags = 0;
    btScalar inverse_mass = -1, inverse_inertia[3] = {0, 0, 0};
  };
  struct Factors {
    btVector3 linear{1, 1, 1}, angular{1, 1, 1};
  };
  bool drop_if_gone(std::size_t i);
  bool note_settings(std::size_t i, const btRigidBody& body);
  bool has_other_factors(int id, const btRigidBody& body);
  void refuse_velocities(btRigidBody& body, BodyId id);
  void make_room(BodyId id, btRigidBody* body);

  host::ConstraintSolver& solver_;
  const bool refuses_velocities_;
  Constraints constraints_;
  btDiscreteDynamicsWorld* world_ = nullptr;
  std::vector<btRigidBody*> body_of_;  // by id, as the following; null for the world and for what is gone
  std::vector<int> place_;             // in the world's array of objects; −1: not in the world
  std::vector<Watch> watch_;
  std::unordered_map<const btRigidBody*, int> id_of_;
  std::unordered_map<int, Factors> other_factors_;  // by id: of bodies of which some are not 1
  std::vector<BodyId> kinematic_;
  std::vector<const btRigidBody*> changed_;
  bool any_swept_ = false;  // some body is to be stopped in mid-step (CCD)
  bool has_new_ = false;
};

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
