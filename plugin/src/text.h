// Numbers in messages. Private to the core.
#pragma once

#include <cstdio>
#include <string>

namespace linchpin {

inline std::string text(double x) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%g", x);
  return buffer;
}

}  // namespace linchpin
