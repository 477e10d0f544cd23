#include <linchpin/scene/title.h>

#include "source.h"

namespace linchpin::scene {

std::string title_of(const std::string& text) try {
  return toml::parse(text)["title"].value_or(std::string());
} catch (const toml::parse_error&) {
  return {};
}

}  // namespace linchpin::scene
