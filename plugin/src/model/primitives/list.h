// The primitives of which the stock joints are made. A new primitive is a header beside this one, a list in JointRows
// (linchpin/joints.h), and its name in `Primitives`.
#pragma once

#include "model/primitives/axis.h"
#include "model/primitives/dot.h"
#include "model/primitives/point.h"
#include "model/primitives/ranges.h"

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

/// In the order in which a joint has their rows.
using Primitives = std::tuple<PointPrimitive, AxisPrimitive, DotPrimitive>;
static_assert(std::tuple_size_v<Primitives> == primitive_count, "JointRows::primitive_count is the length of the list");

/// The place of a primitive in the list.
template <class P, std::size_t i = 0>
constexpr std::size_t index_of() {
  if constexpr (std::is_same_v<P, std::tuple_element_t<i, Primitives>>)
    return i;
  else
    return index_of<P, i + 1>();
}

/// Calls visit(P()) for each primitive, in order.
template <class Visit>
[[gnu::always_inline]] inline void for_each_primitive(const Visit& visit) {
  [&]<std::size_t... i>(std::index_sequence<i...>) { (visit(std::tuple_element_t<i, Primitives>()), ...); }
  (std::make_index_sequence<primitive_count>());
}

/// Calls visit(k) for those of one primitive.
template <class P, class Visit>
[[gnu::always_inline]] inline void for_each_of(const PrimitiveRanges& ranges, const Visit& visit) {
  for (int k = ranges.begin[index_of<P>()]; k < ranges.end[index_of<P>()]; ++k) visit(static_cast<std::size_t>(k));
}
template <class P>
int count_of(const PrimitiveRanges& ranges) {
  return ranges.end[index_of<P>()] - ranges.begin[index_of<P>()];
}

/// Returns the number of each primitive in a joint.
inline PrimitiveIndices counts_of(const JointRows& joint) {
  PrimitiveIndices counts{};
  for_each_primitive([&]<class P>(P) { counts[index_of<P>()] = static_cast<int>(P::of(joint).size()); });
  return counts;
}

/// Returns the first row of a primitive in a joint. For `NoPrimitive` it is the number of all rows.
struct NoPrimitive {};
template <class Of>
int first_row_of(const PrimitiveIndices& counts) {
  int rows = 0;
  bool before = true;
  for_each_primitive([&]<class P>(P) {
    before = before && !std::is_same_v<P, Of>;
    if (before) rows += P::rows * counts[index_of<P>()];
  });
  return rows;
}
template <class Of>
int first_row_of(const JointRows& joint) {
  return first_row_of<Of>(counts_of(joint));
}

/// Returns the number of each primitive.
inline PrimitiveIndices counts_of(const PrimitiveRanges& of) {
  PrimitiveIndices counts{};
  for (std::size_t i = 0; i < primitive_count; ++i) counts[i] = of.end[i] - of.begin[i];
  return counts;
}
/// Returns whether these are one point and nothing else.
inline bool is_ball(const PrimitiveRanges& of) {
  PrimitiveIndices other = counts_of(of);
  return std::exchange(other[index_of<PointPrimitive>()], 0) == 1 && other == PrimitiveIndices{};
}
/// Returns whether these are the primitives of a weld.
inline bool is_weld(const PrimitiveRanges& of) {
  PrimitiveIndices other = counts_of(of);
  return std::exchange(other[index_of<PointPrimitive>()], 0) == 1 &&
         std::exchange(other[index_of<DotPrimitive>()], 0) == 3 && other == PrimitiveIndices{};
}

/// A List<P> for each primitive P.
template <template <class> class List>
class PrimitiveLists {
 public:
  template <class P>
  List<P>& of() {
    return std::get<index_of<P>()>(lists_);
  }
  template <class P>
  const List<P>& of() const {
    return std::get<index_of<P>()>(lists_);
  }

 private:
  template <std::size_t... i>
  static auto make(std::index_sequence<i...>) -> std::tuple<List<std::tuple_element_t<i, Primitives>>...>;
  decltype(make(std::make_index_sequence<primitive_count>())) lists_;
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
