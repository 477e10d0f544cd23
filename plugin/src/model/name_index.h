// Finds the owner of a name, where the owners keep their names. It is an open hash table of indices, so that a name
// costs only a few bytes in addition.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

namespace linchpin::detail {

/// In all functions `name_of(index)` is the name of an owner in the table.
class NameIndex {
 public:
  /// @return −1 when the name is not in the table
  template <class NameOf>
  int find(std::string_view name, const NameOf& name_of) const {
    if (slots_.empty()) return none;
    for (std::size_t at = first(name);; at = next(at)) {
      if (slots_[at] == none) return none;
      if (slots_[at] >= 0 && std::string_view(name_of(slots_[at])) == name) return slots_[at];
    }
  }
  template <class NameOf>
  void add(int index, const NameOf& name_of) {
    if (4 * (used_ + 1) > 3 * slots_.size()) grow(name_of);
    place(index, name_of(index));
  }
  /// Does nothing when `index` is not in the table under that name.
  void erase(int index, std::string_view name) {
    if (slots_.empty()) return;
    for (std::size_t at = first(name); slots_[at] != none; at = next(at))
      if (slots_[at] == index) {
        slots_[at] = erased;
        --alive_;
        return;
      }
  }

 private:
  static constexpr int none = -1, erased = -2;
  std::size_t first(std::string_view name) const { return std::hash<std::string_view>{}(name) & (slots_.size() - 1); }
  std::size_t next(std::size_t at) const { return (at + 1) & (slots_.size() - 1); }
  void place(int index, std::string_view name) {
    std::size_t at = first(name);
    while (slots_[at] >= 0) at = next(at);
    used_ += slots_[at] == none;
    ++alive_;
    slots_[at] = index;
  }
  template <class NameOf>
  void grow(const NameOf& name_of) {
    std::size_t size = 16;
    while (size < 2 * (alive_ + 1)) size *= 2;
    std::vector<int> old(size, none);
    old.swap(slots_);
    used_ = alive_ = 0;
    for (const int index : old)
      if (index >= 0) place(index, name_of(index));
  }

  std::vector<int> slots_;            // The size is a power of two.
  std::size_t used_ = 0, alive_ = 0;  // Numbers of slots that are not empty, and of those that are not erased either.
};

}  // namespace linchpin::detail
