// Lists of entries that every step reads. They are made again when entries or their settings have changed.
#pragma once

#include <vector>

namespace linchpin::host {

struct Context;

struct EntryLists {
  std::vector<int> with_host_rows;  ///< The host keeps rows of them, or all of them.
  std::vector<int> users;           ///< Constraints of the user's own on rigid bodies.
  std::vector<int> off;             ///< Switched off or released.
  std::vector<int> with_kinematic;  ///< Exact, and on a kinematic body.
  bool any_exact = false;           ///< Some constraint in the world is exact.
  unsigned made_for = 0;            ///< Context::structure when the lists were made.
};

/// Makes the lists, and wakes the bodies of joints that the program has switched on.
void make_lists(Context& c);

}  // namespace linchpin::host
