// How many there are of each primitive, and where. This header does not depend on the processor that a file is compiled
// for, so that all files have the same types (see math/vec3.h).
#pragma once

#include <linchpin/joints.h>

#include <array>
#include <cstddef>

namespace linchpin::detail {

/// The length of the list in model/primitives/list.h, which checks it.
inline constexpr std::size_t primitive_count = JointRows::primitive_count;

/// A number for each primitive, in the order of the list.
using PrimitiveIndices = std::array<int, primitive_count>;

/// Some of each primitive: those from `begin` to `end`.
struct PrimitiveRanges {
  PrimitiveIndices begin{}, end{};
  bool operator==(const PrimitiveRanges&) const = default;
};

}  // namespace linchpin::detail
