// One element of a list, or four that follow each other side by side in a SIMD vector: loops over rows and bodies are
// written once for both.
#pragma once

#include "math/simd.h"

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

/// A struct of vectors and numbers that lists its members, with vectors of one kind of number.
template <class T>
concept HasMembers = requires {
  T::members();
};

/// Four of them side by side.
template <template <class> class Struct>
Struct<Vector3<Vec4d>> gather(const Struct<Vector3<double>>& a, const Struct<Vector3<double>>& b,
                              const Struct<Vector3<double>>& c,
                              const Struct<Vector3<double>>& d) requires HasMembers<Struct<Vector3<double>>> {
  Struct<Vector3<Vec4d>> to;
  constexpr auto from = Struct<Vector3<double>>::members();
  constexpr auto of = Struct<Vector3<Vec4d>>::members();
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    ((to.*std::get<i>(of) =
          gather(a.*std::get<i>(from), b.*std::get<i>(from), c.*std::get<i>(from), d.*std::get<i>(from))),
     ...);
  }
  (std::make_index_sequence<std::tuple_size_v<decltype(from)>>());
  return to;
}
/// One lane of them.
template <template <class> class Struct>
void scatter_lane(const Struct<Vector3<Vec4d>>& four, int lane, Struct<Vector3<double>>& to) {
  constexpr auto of = Struct<Vector3<Vec4d>>::members();
  constexpr auto into = Struct<Vector3<double>>::members();
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    ((to.*std::get<i>(into) = lane_of(four.*std::get<i>(of), lane)), ...);
  }
  (std::make_index_sequence<std::tuple_size_v<decltype(of)>>());
}

/// The value of get(index) of one element.
struct PickOne {
  std::size_t at;
  template <class Get>
  [[gnu::always_inline]] decltype(auto) operator()(const Get& get) const {
    return get(at);
  }
};
/// The values of get(index) of four elements side by side.
struct PickFour {
  std::size_t at;
  template <class Get>
  [[gnu::always_inline]] auto operator()(const Get& get) const {
    return gather(get(at), get(at + 1), get(at + 2), get(at + 3));
  }
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
