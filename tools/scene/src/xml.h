// XML as the files of robots are written in: by tinyxml2, which says on which line an element stands.
#pragma once

#include "source.h"

#include <tinyxml2.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace linchpin::scene {

/// Bytes of value 0, which some writers leave at the end, are left out.
/// @param begins  what a file of the kind begins with, for a message
/// @return how many bytes were left out
/// @throws SceneError with its line for what is no text in UTF-8 or no well-formed XML.
std::size_t parse_xml(tinyxml2::XMLDocument& document, const std::shared_ptr<const Source>& source,
                      const std::string& begins);

/// Where a word stands in a line; at its first letter without one.
Place place_of(const std::shared_ptr<const Source>& source, int line, std::string_view word = {});

/// The note on bytes of value 0 that were left out. @param zeros  how many, above 0
std::string note_of_zeros(std::size_t zeros);
/// @throws SceneError for an element of xacro or a text with $(…) or ${…} in this element or in one inside.
void refuse_xacro(const std::shared_ptr<const Source>& source, const tinyxml2::XMLElement& in);
/// What to do with a file that is xacro.
std::string expand_xacro(const std::string& path);

/// Without the blanks between them.
std::vector<std::string> words_of(std::string_view text);

}  // namespace linchpin::scene
