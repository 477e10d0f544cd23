// Numbers and words in the text of a mesh file, which may be damaged.
#pragma once

#include "mesh_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <system_error>

namespace linchpin::scene {

/// The words of a text between blanks, one after the other.
class MeshWords {
 public:
  explicit MeshWords(std::string_view text) : rest_(text) {}
  /// Returns the next word, or an empty one at the end.
  std::string_view next() {
    std::size_t begin = 0;
    while (begin < rest_.size() && blank(rest_[begin])) ++begin;
    std::size_t end = begin;
    while (end < rest_.size() && !blank(rest_[end])) ++end;
    const std::string_view out = rest_.substr(begin, end - begin);
    rest_.remove_prefix(end);
    return out;
  }
  /// Returns the rest of the line without blanks at its ends, and goes behind it.
  std::string_view line() {
    const std::size_t end = std::min(rest_.find_first_of("\r\n"), rest_.size());
    std::string_view out = rest_.substr(0, end);
    rest_.remove_prefix(end);
    while (!out.empty() && blank(out.front())) out.remove_prefix(1);
    while (!out.empty() && blank(out.back())) out.remove_suffix(1);
    return out;
  }
  bool ended() const { return rest_.empty(); }

 private:
  static bool blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' || c == '\v'; }
  std::string_view rest_;
};

/// A word as a message shows it: its first letters, and none that would break the line.
inline std::string quoted(std::string_view word) {
  std::string out = "\"";
  for (const char c : word.substr(0, 40)) out += static_cast<unsigned char>(c) < 32 || c == 127 ? '?' : c;
  return out + (word.size() > 40 ? "…\"" : "\"");
}

/// @throws MeshError for a word that is no finite number.
inline double mesh_number(std::string_view word) {
  double x = 0;
  const std::string_view digits = word.starts_with('+') ? word.substr(1) : word;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), x);
  // A number below the range of double precision is zero.
  if (error == std::errc::result_out_of_range && stop == digits.data() + digits.size() &&
      digits.find("e-") != std::string_view::npos)
    return 0;
  if (error != std::errc() || stop != digits.data() + digits.size() || !std::isfinite(x))
    throw MeshError("has " + quoted(word) + " in place of a finite number");
  return x;
}

/// @throws MeshError for a word that is no whole number.
inline long mesh_index(std::string_view word) {
  long out = 0;
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), out);
  if (error != std::errc() || stop != word.data() + word.size())
    throw MeshError("has " + quoted(word) + " in place of an index");
  return out;
}

/// @throws MeshError where a file has more points than the limit.
inline void check_mesh_points(std::size_t count) {
  if (count > most_mesh_points)
    throw MeshError("has more than " + std::to_string(most_mesh_points / 1'000'000) +
                    " million corners of triangles, which is the limit");
}

}  // namespace linchpin::scene
