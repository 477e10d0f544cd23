// Layout of the problem of constraints on links: which links have ids, and which constraints and bodies are in the
// problem. Private to the core.
#pragma once

#include "articulated/tree_island.h"
#include "host/context.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace linchpin::articulated {

/// Returns whether a constraint on links is in force, so that the layout has it.
inline bool is_in_force_on_links(const host::ConstraintEntry& r) {
  return r.alive && r.is_on_links() && r.enabled && !r.released && r.deferred;
}

class TreeLayout {
 public:
  explicit TreeLayout(const TreeContext& context) : c_(context.host), world_(context.world), t_(context.island) {}

  // ---- trees and links ----
  std::vector<int> set_trees(std::span<const int> before);  ///< as TreeSolver has it
  /// Gives a link an id. @return why it has none, or empty
  std::string link_id(int tree, int link, BodyId& id);
  /// Why a law on a tree would not know the loads of its joints; empty where it would.
  std::string why_massless(int tree) const;

  // ---- constraints ----
  std::string why_not_held(const Constraint& constraint) const;
  /// The state that a link has in the host now, and whether it can move. @return false: the body is no link
  bool read_state(BodyId body, BodyState& out, bool& moves) const;
  void set_constraint(int entry, std::unique_ptr<Constraint> constraint);
  void set_gear(int entry, Gear gear);
  bool is_gear(int entry) const { return gears_.contains(entry); }
  const Gear* gear(int entry) const;  ///< null: it is none
  /// The same constraint between the bodies that stand for its own now, where the host has replaced some.
  Constraint with_current_bodies(const Constraint& constraint) const;
  /// Reads the states of the bodies of a constraint as they are now. @return whether any of them can move
  bool read_states(const Constraint& constraint, State& now) const;
  Constraint make_joint(int tree, int link, const std::string& name);
  int find_joint(int tree, int link);

  // ---- the problem ----
  void make_stale() { is_stale_ = true; }
  bool is_current() const { return !is_stale_ && made_for_ == c_.structure; }
  /// Lays the problem out, without its laws.
  void lay_out();
  /// Returns whether a constraint on rigid bodies is in the problem.
  bool has_rigid(int entry) const { return z(entry) < has_rigid_.size() && has_rigid_[z(entry)] != 0; }
  /// Gives the constraints on rigid bodies back to their islands. The next step tries again.
  void leave_rigid();

 private:
  void size_vectors();
  ConstraintBody take_body(BodyId id);
  void follow_bodies(host::ConstraintEntry& r) const;
  void lay_out_link_constraints();
  void add_gear_terms(const Gear& gear, ConstraintRows& rows) const;
  void lay_out_rigid_constraints();
  bool names_gone(const host::ConstraintEntry& r) const;

  host::Context& c_;
  TreeWorld& world_;
  TreeIsland& t_;
  std::map<int, Gear> gears_;                          // by entry
  std::vector<std::unique_ptr<Constraint>> replaced_;  // that the layout still names
  std::vector<char> has_rigid_;                        // by entry
  std::set<int> rigid_;                                // bodies that move, while the problem is laid out
  unsigned made_for_ = 0;                              // Context::structure of the layout
  bool is_stale_ = true;
};

}  // namespace linchpin::articulated
