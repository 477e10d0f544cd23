// What a scene calls itself.
#pragma once

#include <linchpin/scene/export.h>

#include <string>

namespace linchpin::scene {

/// The `title` of a scene's text that could be loaded; empty without one.
LINCHPIN_SCENE_API std::string title_of(const std::string& text);

}  // namespace linchpin::scene
