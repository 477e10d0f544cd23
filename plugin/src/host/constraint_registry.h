// The constraints of a host's world: joints that the host has, the user's own, and the locked axes of bodies. Each is
// an entry that keeps its index while it exists.
#pragma once

#include "math/vector_ops.h"
#include "model/free_list.h"
#include "model/name_index.h"

#include <linchpin/host.h>

#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace linchpin::host {

class Constraints {
 public:
  using Owner = ConstraintEntry::Owner;
  explicit Constraints(System& system) : system_(system) {}

  ConstraintEntry& operator[](int entry) { return entries_[z(entry)]; }
  const ConstraintEntry& operator[](int entry) const { return entries_[z(entry)]; }
  /// @throw std::out_of_range  there is no such entry
  ConstraintEntry& at(int entry);
  std::size_t size() const { return entries_.size(); }
  std::deque<ConstraintEntry>& all() { return entries_; }
  const std::deque<ConstraintEntry>& all() const { return entries_; }
  unsigned made() const { return made_; }

  int add(Owner owner, std::string name);
  void rename(int entry, std::string name);
  int find(std::string_view name) const;
  /// Returns `base`, or "base.2", "base.3" and so on if it is in use.
  std::string free_name(std::string base) const;
  /// Adds the constraint of an entry to the system, with its laws.
  /// @return why not, or empty
  std::string attach(int entry, Constraint constraint);
  void detach(int entry);
  /// Makes an entry the last one in the order of rows.
  void put_last(ConstraintEntry& r) { r.order = ++orders_given_; }
  /// Removes an entry. Its index is free after release_places().
  void remove(int entry);
  /// Frees the indices of removed entries. Call it at the start of a step, when nothing refers to them any more.
  /// @param free  free(entry): whether the index may be used again
  template <class Free>
  void release_places(Free free) {
    std::erase_if(removed_, [&](int entry) {
      if (!free(entry)) return false;
      free_.give(entry);
      return true;
    });
  }
  bool names(BodyId id) const;  ///< Some entry has the body in the system.
  /// Returns the bodies of an entry: of a joint also where the host solves it.
  std::span<const BodyId> bodies(const ConstraintEntry& r) const;
  /// Joints of a body are to be mapped again, on another one.
  void replace_body(BodyId old, BodyId now);
  /// Returns the constraint of an entry, deferred or in the system.
  const Constraint& of(const ConstraintEntry& r) const { return r.deferred ? *r.deferred : system_.constraint(r.id); }
  /// Entries by their place among the reactions; null: none is there.
  /// @param forget_laws  entries without a reaction forget what their laws have done
  std::vector<ConstraintEntry*> by_reaction(bool forget_laws = false);

  int reactions = 0;   ///< number of entries that have one
  int user_count = 0;  ///< number of the user's own on rigid bodies

 private:
  System& system_;
  std::deque<ConstraintEntry> entries_;
  linchpin::detail::NameIndex names_;
  linchpin::detail::FreeList free_;
  std::vector<int> removed_;
  unsigned made_ = 0, orders_given_ = 0;
};

}  // namespace linchpin::host
