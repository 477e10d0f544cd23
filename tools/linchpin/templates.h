// Scenes that are part of the command; made from demos/scenes at build time.
#pragma once

#include <span>
#include <string_view>

namespace linchpin::cli {

struct Template {
  std::string_view name, text;
};
std::span<const Template> templates();
/// The published mechanisms that `linchpin bench mechanisms` runs.
std::span<const Template> mechanisms();

}  // namespace linchpin::cli
