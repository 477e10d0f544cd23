// The scenes that `linchpin new` prints; made from demos/scenes at build time.
#pragma once

#include <span>
#include <string_view>

namespace linchpin::cli {

struct Template {
  std::string_view name, text;
};
std::span<const Template> templates();

}  // namespace linchpin::cli
