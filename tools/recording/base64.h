// Bytes as text, for JSON.
#pragma once

#include <algorithm>
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

}  // namespace linchpin::recording
