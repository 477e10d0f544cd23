// Access to the private part of an Assembly. Private to the core.
#pragma once

#include <linchpin/assembly.h>

namespace linchpin {

struct AssemblyParts {
  using EntryRun = Assembly::EntryRun;
  static Assembly::Parts& of(Assembly& assembly) { return assembly.parts_; }
  static const Assembly::Parts& of(const Assembly& assembly) { return assembly.parts_; }
};

}  // namespace linchpin
