// Edit distance of a misspelt word from a known one, and the known word that is nearest, for the messages of all
// readers of user input.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace linchpin::detail {

/// Edits from a to b, in halves: a wrong case is half a mistake. O(|a| |b|). Allocates.
inline std::size_t edits(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = 2 * j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = 2 * (i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t change = a[i] == b[j] ? 0 : lower(a[i]) == lower(b[j]) ? 1 : 2;
      const std::size_t next = std::min({row[j] + 2, row[j + 1] + 2, diagonal + change});
      diagonal = row[j + 1];
      row[j + 1] = next;
    }
  }
  return row.back();
}

/// Returns the known name with the fewest edits from `word`, if it is near enough to be a slip. Otherwise the result is
/// empty.
inline std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  if (word.size() > 200) return best;
  std::size_t least = 2 * std::max<std::size_t>(2, word.size() / 2) + 1;
  for (const std::string& name : known) {
    if (name.size() > word.size() + 100) continue;
    if (const std::size_t d = edits(word, name); d < least) {
      least = d;
      best = name;
    }
  }
  return best;
}

}  // namespace linchpin::detail
