// Divides the constraints of a group into islands: sets that share movable bodies.
#pragma once

#include "host/context.h"

#include <span>
#include <vector>

namespace linchpin::host {

class IslandBuilder {
 public:
  explicit IslandBuilder(Context& c) : c_(c) {}

  /// Makes the islands of these entries, which may be named twice, and of the locked axes of their bodies. They are
  /// Context::islands.last_group afterwards.
  void build(std::span<const int> entries);
  /// Sets the entry of a body's locked axes; −1: none.
  void set_locked_axes(BodyId body, int entry);
  int locked_axes(BodyId body) const { return z(body.index) < locked_axes_.size() ? locked_axes_[z(body.index)] : -1; }

 private:
  void add_locked_axes();
  void join_by_bodies();
  int root(int i);
  void update(Island& b, int first);
  void lay_out(Island& b, int first);
  void find_clusters(Topology& topology) const;
  template <class Visit>
  void for_entries(int first, Visit visit) const {
    for (int j = first; j >= 0; j = next_[z(j)]) visit(entries_[z(j)], c_.constraints[entries_[z(j)]]);
  }

  Context& c_;
  std::vector<int> entries_;        // Entries of the group, in the order of their rows.
  std::vector<int> parent_;         // Union–find over entries_.
  std::vector<int> first_of_body_;  // By id of body: its first entry in entries_; −1: none.
  std::vector<int> next_, last_;    // By entry: the next one of its island, or −1. By root: the last one.
  std::vector<int> locked_axes_;    // by id of body
};

}  // namespace linchpin::host
