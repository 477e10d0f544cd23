// Lists of entries for what is done in every step. They are made again when entries or their settings have changed.
#pragma once

#include <vector>

namespace linchpin::host {

struct Context;

struct EntryLists {
  std::vector<int> with_host_rows;  ///< the host keeps rows of them, or all of them
  std::vector<int> users;           ///< constraints of the user's own on rigid bodies
  std::vector<int> off;             ///< switched off or released
  std::vector<int> with_kinematic;  ///< exact, and on a kinematic body
  bool any_exact = false;           ///< something in the world is exact
  unsigned made_for = 0;            ///< Context::structure then
};

/// Makes the lists, and wakes the bodies of joints that the program has switched on.
void make_lists(Context& c);

}  // namespace linchpin::host
