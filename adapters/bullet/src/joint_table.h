// The constraints of a Bullet world and their entries in the solver: joints of the world, which are classified again
// when the program changes them, and the user's own, which proxies represent in the world.
#pragma once

#include "body_table.h"
#include "class_of.h"
#include "joints.h"
#include "proxy.h"

#include <linchpin/host.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

/// What of an entry is Bullet's.
struct JointBinding {
  btTypedConstraint* joint = nullptr;  ///< null for the user's own
  const void* type = nullptr;          ///< class_of() the joint: another may come to lie where it was
  JointKind kind = JointKind::other;
  bool is_classified = false;         ///< as its numbers are, and its bodies have stayed what they were
  bool given_back = false;            ///< an adopted joint that Bullet solves until it is adopted again
  bool linked_collide = true;         ///< Bullet lets the bodies collide.
  int numbers = 0, numbers_size = 0;  ///< what it was classified by, in JointTable
  JointSummary shape;
  std::unique_ptr<NativePart> native_part;
  std::vector<std::unique_ptr<Proxy>> proxies;
  std::vector<btRigidBody*> bodies;  ///< of the user's own; two for a joint
};

class JointTable final : private ProxyRows {
 public:
  using Owner = host::ConstraintEntry::Owner;
  JointTable(host::ConstraintSolver& solver, BodyTable& bodies) : solver_(solver), bodies_(bodies) {}
  void set_world(btDiscreteDynamicsWorld* world) { world_ = world; }

  JointBinding& operator[](int entry) { return bindings_[static_cast<std::size_t>(entry)]; }
  const JointBinding& operator[](int entry) const { return bindings_[static_cast<std::size_t>(entry)]; }
  int find(const btTypedConstraint* constraint) const;  ///< the entry of a joint, native part or proxy; −1: none
  bool is_alive(int entry) const { return solver_.entry(entry).alive; }

  /// An entry that has no joint and no proxies yet.
  int add(Owner owner, std::string name);
  std::string add_user(Constraint constraint, std::vector<btRigidBody*> bodies, int& entry);
  std::string adopt(btTypedConstraint& joint, std::string name, int& entry);
  void remove(int entry);
  void give_back(int entry);
  void set_collisions(int entry, bool on);
  void enable(int entry, bool on);
  /// Takes all proxies out of the world, for good.
  void leave_world();
  void order_reactions();

  /// Finds which constraints of the world have come or gone.
  void scan();
  void classify(int entry);
  /// Classifies all joints, where the structure has changed or the program has changed one.
  void watch();
  bool lists_are_current() const { return watched_structure_ == solver_.structure(); }
  /// Joints as they are configured now, which is where they start from, and all in the order in which they came.
  void classify_anew();
  void classify_all();
  /// Bodies have other settings, sorted.
  void note_changed_bodies(const std::vector<const btRigidBody*>& changed);
  void forget_classification(const btRigidBody& body);
  bool names(const btRigidBody& body) const;
  /// Entries that stand for the axes that factors of bodies lock.
  void lock_axes();
  void forget_past_proxies() { past_proxies_.clear(); }
  void forget_numbers(int entry);
  bool is_unchanged(int entry) const;

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
    // Of one that has an entry: what is looked at in every step, and the rest only when that has changed.
    int entry = -1, numbers = 0;
    JointKind kind = JointKind::other;
    Reach reach;
    bool enabled = false;
    unsigned char asks = 0;
    explicit Seen(btTypedConstraint* c)
        : joint(c), type(class_of(*c)), a(&c->getRigidBodyA()), b(&c->getRigidBodyB()) {}
    bool is_still(btTypedConstraint& c) const {
      return type == class_of(c) && a == &c.getRigidBodyA() && b == &c.getRigidBodyB() && is_marked(c);
    }
  };
  /// Runs of numbers in one array.
  class Numbers {
   public:
    int take(int size);
    void give(int first, int size) {
      if (size > 0) free_[size].push_back(first);
    }
    double* at(int first) { return numbers_.data() + first; }
    const double* at(int first) const { return numbers_.data() + first; }

   private:
    std::vector<double> numbers_;
    std::map<int, std::vector<int>> free_;  // by length
  };

  int rows(int entry) const override;
  void linearize(int entry, LinearRows& out) const override;
  static bool is_marked(btTypedConstraint& joint);
  int add_joint(btTypedConstraint& joint, std::string name);
  bool is_same_world();
  JointShape shape_of(const JointBinding& joint) const;
  std::string attach(int entry, JointShape& shape, BodyId a, BodyId b);
  void rejoin(int entry);
  void add_proxies(int entry);
  void take_out(Proxy& p);
  void take_out_for_good(std::unique_ptr<Proxy> p);
  void list_world();

  host::ConstraintSolver& solver_;
  BodyTable& bodies_;
  btDiscreteDynamicsWorld* world_ = nullptr;
  std::deque<JointBinding> bindings_;  // by entry; native parts refer to the shapes in it
  std::unordered_map<const btTypedConstraint*, int> entry_of_;
  Numbers numbers_;                                   // that joints are classified by
  std::vector<Seen> world_order_;                     // as last scanned
  std::vector<std::unique_ptr<Proxy>> past_proxies_;  // removed since the last step began
  std::vector<unsigned> locked_;                      // by id of body: axes that are locked
  std::vector<int> locked_entry_;                     // likewise: the entry for them; −1: none
  unsigned watched_structure_ = 0;
  bool is_edited_ = false;  // a joint is not as it was classified, as last scanned
};

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
