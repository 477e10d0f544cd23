// Names as people write them: the nearest known one to a misspelt one, and how equations have them.
#pragma once

#include <linchpin/scene/export.h>

#include <string>
#include <string_view>
#include <vector>

namespace linchpin::scene {

/// The known name with the fewest edits from `word`, when that is near enough to be a slip; else empty. A letter in the
/// wrong case is half an edit.
LINCHPIN_SCENE_API std::string nearest(std::string_view word, const std::vector<std::string>& known);

/// As an equation takes it: in single quotes unless it is of letters, digits and _.
LINCHPIN_SCENE_API std::string quoted(const std::string& name);

}  // namespace linchpin::scene
