// The constraints of a Bullet world and their entries in the solver. Joints of the world are mapped again when the
// program changes them. Proxies represent the user's own constraints in the world.
#pragma once

#include "body_table.h"
#include "joints.h"
#include "proxy.h"

#include <linchpin/host.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace LINCHPIN_BULLET_NAMESPACE {

/// The part of an entry that is Bullet's.
struct JointBinding {
  btTypedConstraint* joint = nullptr;  ///< null for the user's own
  const void* type = nullptr;          ///< class_of() the joint: another may come to lie where it was
  const JointClass* of = nullptr;      ///< how it is mapped
  bool linked_collide = true;          ///< Bullet lets the bodies collide.
  std::array<bool, 6> exact_axis{};    ///< see host::JointShape
  std::uint64_t settings = 0;          ///< JointClass::settings() of the joint when it was mapped
  std::unique_ptr<NativePart> native_part;
  std::vector<std::unique_ptr<Proxy>> proxies;
  std::vector<btRigidBody*> bodies;  ///< of the user's own; two for a joint
};

class JointTable {
 public:
  JointTable(host::ConstraintSolver& solver, BodyTable& bodies) : solver_(solver), bodies_(bodies) {}

  JointBinding& operator[](int entry) {
    while (z(entry) >= bindings_.size()) bindings_.push_back(std::make_unique<JointBinding>());
    return *bindings_[z(entry)];
  }
  const JointBinding& operator[](int entry) const { return const_cast<JointTable&>(*this)[entry]; }
  int find(const btTypedConstraint* constraint) const;  ///< the entry of a joint, native part or proxy; −1: none
  /// Returns whether a joint is the one that the last scan found at its address.
  bool is_known(btTypedConstraint& joint) const;

  int add_user(Constraint constraint, std::vector<btRigidBody*> bodies);  ///< @return its entry, as the following
  int name_joint(btTypedConstraint& joint, std::string name);
  void forget(int entry);  ///< It is gone from the solver.
  void set_collisions(int entry, bool on);
  void enable(int entry, bool on);
  /// Takes all proxies out of the world, for good.
  void leave_world();

  /// Finds which constraints of the world have come or gone.
  void scan();
  /// Maps all joints, where the structure has changed or the program has changed one.
  void watch();
  /// Maps joints as they are configured now, as if they had always been so.
  void map_anew();
  void map(int entry);
  void forget_past_proxies() { past_proxies_.clear(); }

  /// A joint that is known bears a mark that a new one at the same address lacks: its applied impulse is never +0, but
  /// −0.
  static void mark(btTypedConstraint& joint);
  void mark_all();

 private:
  /// A constraint of the world. The program may delete one and make another at its address: a pointer is not enough.
  struct Seen {
    btTypedConstraint* joint;
    const void* type;
    const btRigidBody *a, *b;
    int entry = -1;  // of a joint of the world, with what may make it change
    const JointClass* of = nullptr;
    bool enabled = false;
    unsigned char read_forces = 0;
    std::uint64_t settings = 0;
    explicit Seen(btTypedConstraint* c)
        : joint(c), type(class_of(*c)), a(&c->getRigidBodyA()), b(&c->getRigidBodyB()) {}
    bool is_still(btTypedConstraint& c) const;
    bool is_edited() const;
  };

  static bool is_marked(btTypedConstraint& joint);
  void add_joint(btTypedConstraint& joint, int place);
  bool is_same_world();
  void list_world();
  void add_proxies(int entry);
  void take_out(JointBinding& j);  ///< Takes its proxies out of the world.
  void set_collisions(Proxy& p, bool on);

  host::ConstraintSolver& solver_;
  BodyTable& bodies_;
  std::vector<std::unique_ptr<JointBinding>> bindings_;  // by entry; references stay valid
  std::unordered_map<const btTypedConstraint*, int> entry_of_;
  std::vector<Seen> world_order_;                     // as last scanned
  std::vector<std::unique_ptr<Proxy>> past_proxies_;  // removed since the last step began
  unsigned watched_structure_ = 0;
  bool is_edited_ = false;  // a joint is not as it was mapped, as last scanned
};

}  // namespace LINCHPIN_BULLET_NAMESPACE
