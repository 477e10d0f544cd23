// Bytes as text, for JSON.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace linchpin::recording {

inline std::string base64(const void* data, std::size_t n) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto* bytes = static_cast<const unsigned char*>(data);
  std::string out;
  out.reserve((n + 2) / 3 * 4);
  for (std::size_t i = 0; i < n; i += 3) {
    const std::size_t left = std::min<std::size_t>(3, n - i);
    const unsigned a = bytes[i], b = left > 1 ? bytes[i + 1] : 0u, c = left > 2 ? bytes[i + 2] : 0u;
    const unsigned word = a << 16 | b << 8 | c;
    for (std::size_t k = 0; k < 4; ++k) out += k <= left ? letters[word >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

/// Back again. @return false for what is no base64
inline bool from_base64(std::string_view text, std::string& out) {
  static const std::array<int, 256> values = [] {
    std::array<int, 256> all;
    all.fill(-1);
    int n = 0;
    for (const char c : std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"))
      all[static_cast<unsigned char>(c)] = n++;
    return all;
  }();
  out.clear();
  if (text.size() % 4 != 0) return false;
  for (int ends = 0; ends < 2 && text.ends_with('='); ++ends) text.remove_suffix(1);
  out.reserve(text.size() / 4 * 3 + 3);
  unsigned word = 0;
  int bits = 0;
  for (const char c : text) {
    const int value = values[static_cast<unsigned char>(c)];
    if (value < 0) return false;
    word = word << 6 | static_cast<unsigned>(value);
    bits += 6;
    if (bits >= 8) out += static_cast<char>(word >> (bits -= 8) & 0xff);
  }
  return true;
}

}  // namespace linchpin::recording
