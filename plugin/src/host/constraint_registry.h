// The constraints of a host's world: joints that the host has, the user's own, and the locked axes of bodies. Each is
// an entry that keeps its index while it exists.
#pragma once

#include "math/vector_ops.h"
#include "model/free_list.h"
#include "model/name_index.h"

#include <linchpin/host.h>

#include <deque>
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
  std::size_t size() const { return entries_.size(); }
  std::deque<ConstraintEntry>& all() { return entries_; }
  const std::deque<ConstraintEntry>& all() const { return entries_; }
  unsigned made() const { return made_; }

  int add(Owner owner, std::string name);
  void rename(int entry, std::string name);
  int find(std::string_view name) const;
  /// `base`, or "base.2" and on where it is in use.
  std::string free_name(std::string base) const;
  /// Gives the constraint of an entry to the system, with its laws. @return why not, or empty
  std::string attach(int entry, Constraint constraint);
  void detach(int entry);
  /// Says that an entry has come behind all others: its rows do.
  void put_last(ConstraintEntry& r) { r.order = ++orders_given_; }
  /// The entry is gone. Its index is free after release_places().
  void remove(int entry);
  /// At the start of a step, when nothing refers to removed entries any more. @param free  asked for each entry
  template <class Free>
  void release_places(Free free) {
    std::erase_if(removed_, [&](int entry) {
      if (!free(entry)) return false;
      free_.give(entry);
      return true;
    });
  }
  bool names(BodyId id) const;  ///< Some entry names the body.
  /// The constraint of an entry, deferred or in the system.
  const Constraint& of(const ConstraintEntry& r) const { return r.deferred ? *r.deferred : system_.constraint(r.id); }
  /// Entries by their place among the reactions; null: none is there.
  /// @param forget_laws  entries without a reaction forget what their laws have done
  std::vector<ConstraintEntry*> by_reaction(bool forget_laws = false);

  int reactions = 0;  ///< number of entries that have one

 private:
  System& system_;
  std::deque<ConstraintEntry> entries_;
  linchpin::detail::NameIndex names_;
  linchpin::detail::FreeList free_;
  std::vector<int> removed_;
  unsigned made_ = 0, orders_given_ = 0;
};

}  // namespace linchpin::host
