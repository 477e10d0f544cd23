// Indices of bodies and joints are int, those of std::vector are std::size_t.
#pragma once

#include <cstddef>

namespace linchpin::minimal {

/// A non-negative index as std::vector takes it.
inline std::size_t z(int i) { return static_cast<std::size_t>(i); }

}  // namespace linchpin::minimal
