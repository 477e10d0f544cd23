// The title of a scene. Any thread may call the function.
#pragma once

#include <linchpin/scene/export.h>

#include <string>

namespace linchpin::scene {

/// Returns the `title` of the text of a scene that can be loaded. Empty without one.
LINCHPIN_SCENE_API std::string title_of(const std::string& text);

}  // namespace linchpin::scene
