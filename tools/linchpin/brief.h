// Small numbers in messages.
#pragma once

#include <cstdio>
#include <string>

namespace linchpin::cli {

/// With two digits: the size of an error or a gap.
inline std::string brief(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", x);
  return text;
}

}  // namespace linchpin::cli
