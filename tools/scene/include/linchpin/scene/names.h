// The nearest known name to a misspelt one, for everything that reads what people write.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace linchpin::scene {

/// The known name with the fewest edits from `word`, when that is near enough to be a slip; else empty. A letter in the
/// wrong case is half an edit.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace linchpin::scene
