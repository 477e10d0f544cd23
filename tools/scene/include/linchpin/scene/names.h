// Names: the known name that is nearest to a misspelt one, and names in equations. Any thread may call the functions.
#pragma once

#include <linchpin/scene/export.h>

#include <string>
#include <string_view>
#include <vector>

namespace linchpin::scene {

/// Returns the known name with the fewest edits from `word`, if it is near enough to be a slip. Otherwise the result is
/// empty. A letter in the wrong case is half an edit.
LINCHPIN_SCENE_API std::string nearest(std::string_view word, const std::vector<std::string>& known);

/// Returns a name in the form of an equation: in single quotes unless it consists of letters, digits and _.
LINCHPIN_SCENE_API std::string quoted(const std::string& name);

}  // namespace linchpin::scene
