// Words of scenes that were renamed: an old one is an error that names the new one. The tables are in renamed.cpp.
#pragma once

#include <string>
#include <string_view>

namespace linchpin::scene {

/// Returns the present name of an old key, or an empty text.
/// @param table  how messages call the table: "solver", or: joint "elbow", law
std::string_view renamed_key(std::string_view table, std::string_view key);
/// Returns the present name of an old value of a key, or an empty text.
std::string_view renamed_value(std::string_view key, std::string_view value);
/// Returns the present name of an old function or quantity of expressions, or an empty text.
std::string_view renamed_word(std::string_view word);

/// Returns the part of a message that says so: was renamed to "kinematic".
std::string was_renamed(std::string_view now);

/// Scenes have this schema. It was raised when keys were renamed.
inline constexpr int schema = 2;

}  // namespace linchpin::scene
