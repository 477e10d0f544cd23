// Compares two sentences without their numbers.
#pragma once

#include <cstddef>
#include <string_view>

namespace linchpin::detail {

/// Returns the end of a number that begins at `at`, or `at` itself if none begins there. Digits of a name (foot2, p-1)
/// are not numbers.
inline std::size_t behind_number(std::string_view text, std::size_t at) {
  const auto digit = [&](std::size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  const auto is = [&](std::size_t i, std::string_view any) {
    return i < text.size() && any.find(text[i]) != std::string_view::npos;
  };
  if (at > 0 && !is(at - 1, " (")) return at;
  std::size_t i = at + (is(at, "+-") ? 1 : 0);
  if (!digit(i)) return at;
  while (digit(i)) ++i;
  if (is(i, ".") && digit(i + 1)) ++i;
  while (digit(i)) ++i;
  if (is(i, "eE")) {
    const std::size_t exponent = i + 1 + (is(i + 1, "+-") ? 1 : 0);
    if (digit(exponent)) i = exponent;
    while (digit(i)) ++i;
  }
  return i;
}

inline bool same_words(std::string_view a, std::string_view b) {
  for (std::size_t i = 0, k = 0;;) {
    const std::size_t next = behind_number(a, i), other = behind_number(b, k);
    if ((next == i) != (other == k)) return false;
    i = next, k = other;
    if (i == a.size() || k == b.size()) return i == a.size() && k == b.size();
    if (a[i++] != b[k++]) return false;
  }
}

}  // namespace linchpin::detail
