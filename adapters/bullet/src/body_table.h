// The bodies of a Bullet world and their ids in the solver: who is there, what the program has changed of them, and the
// states that a step starts from.
#pragma once

#include "bodies.h"

#include <linchpin/host.h>

#include <btBulletDynamicsCommon.h>

#include <unordered_map>
#include <utility>
#include <vector>

namespace LINCHPIN_BULLET_NAMESPACE {

class BodyTable {
 public:
  explicit BodyTable(host::ConstraintSolver& solver) : solver_(solver) {}
  void set_world(btDiscreteDynamicsWorld* world) { world_ = world; }
  btDiscreteDynamicsWorld* world() const { return world_; }

  /// The id of a body. A body that is new, or has become kinematic, static or dynamic, gets one.
  BodyId id(btRigidBody& body);
  btRigidBody* body(BodyId id) const {
    return id.index > 0 && z(id.index) < bodies_.size() ? bodies_[z(id.index)] : nullptr;
  }
  /// −1: not known. Most worlds ask for the same bodies in every step.
  int find(const btRigidBody& body) const {
    const std::size_t place = static_cast<std::size_t>(body.getWorldArrayIndex());  // −1 is beyond all
    return place < found_.size() && found_[place].first == &body ? found_[place].second : search(body);
  }
  bool in_world(const btRigidBody& body) const;
  std::size_t count() const { return entries_.size(); }
  /// A body of the core that is none of Bullet's rigid bodies, as a link.
  void add_foreign(BodyId id) { enter(id, nullptr); }
  void forget(btRigidBody& body);

  /// Looks at all bodies once before a step: whether each is still there, and its mass, factors and kind. The program
  /// may change all of these at any time.
  void watch();
  void drop_gone();
  bool any_swept() const { return any_swept_; }
  bool is_at_its_place(BodyId id) const;

 private:
  /// The settings of a body that its mass and kind depend on.
  struct Settings {
    int flags = 0;
    bool disabled = false, turning_point = false;
    btScalar inverse_mass = -1;
    btVector3 inverse_inertia, linear_factor, angular_factor;
    bool operator==(const Settings&) const = default;
  };
  struct Entry {
    int place = -1;   ///< in the world's array of objects; −1: not in the world
    int serial = -1;  ///< number of the body among all that Bullet has made: another may come to lie at its address
    Settings settings;
  };
  static Settings settings_of(const btRigidBody& body);
  int search(const btRigidBody& body) const;
  void enter(BodyId id, btRigidBody* body);
  void leave(int id);
  void drop_if_gone(int id);
  bool is_there(int id) const;
  BodyId at(int id) const { return solver_.system().body_at(id); }

  host::ConstraintSolver& solver_;
  btDiscreteDynamicsWorld* world_ = nullptr;
  std::vector<btRigidBody*> bodies_{nullptr};           // by id; null for the world, for links and for what is gone
  std::vector<Entry> entries_ = std::vector<Entry>(1);  // by id
  std::unordered_map<const btRigidBody*, int> id_of_;
  // Results of search(), by place in the world.
  mutable std::vector<std::pair<const btRigidBody*, int>> found_;
  bool any_swept_ = false;  // some body is to be stopped in mid-step (CCD)
};

}  // namespace LINCHPIN_BULLET_NAMESPACE
