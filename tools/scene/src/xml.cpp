#if LINCHPIN_URDF
#include "xml.h"

#include <algorithm>
#include <filesystem>

namespace linchpin::scene {

namespace {

// The first byte that is of no letter in UTF-8.
std::size_t end_of_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const auto first = static_cast<unsigned char>(text[at]);
    const std::size_t more = first < 0x80   ? 0
                             : first < 0xC2 ? 9
                             : first < 0xE0 ? 1
                             : first < 0xF0 ? 2
                             : first < 0xF5 ? 3
                                            : 9;
    if (more == 9 || text.size() - at <= more) return at;
    for (std::size_t i = 1; i <= more; ++i)
      if ((static_cast<unsigned char>(text[at + i]) & 0xC0) != 0x80) return at;
    // Letters written longer than they need, halves of pairs, and what lies beyond the last letter.
    const auto second = more ? static_cast<unsigned char>(text[at + 1]) : 0u;
    if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) || (first == 0xF0 && second < 0x90) ||
        (first == 0xF4 && second > 0x8F))
      return at;
    at += more + 1;
  }
  return at;
}

}  // namespace

std::size_t parse_xml(tinyxml2::XMLDocument& document, const std::shared_ptr<const Source>& source,
                      const std::string& begins) {
  std::string text = source->text;
  const std::size_t zeros = std::erase(text, '\0');
  if (const std::size_t end = end_of_utf8(text); end < text.size()) {
    const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n') + 1;
    const auto byte = static_cast<unsigned char>(text[end]);
    const char* digits = "0123456789ABCDEF";
    fail(place_of(source, static_cast<int>(line)),
         std::string("is not UTF-8 text: the byte 0x") + digits[byte / 16] + digits[byte % 16] + " is not valid there");
  }
  if (document.Parse(text.data(), text.size()) == tinyxml2::XML_SUCCESS) return zeros;
  std::string why = "is not well-formed XML";
  switch (document.ErrorID()) {
    case tinyxml2::XML_ERROR_EMPTY_DOCUMENT:
      fail({source, 0, 0}, "is empty; " + begins);
    case tinyxml2::XML_ERROR_MISMATCHED_ELEMENT:
      why += ": the end tag of this element is missing or has another name";
      break;
    case tinyxml2::XML_ERROR_PARSING_ATTRIBUTE:
      why += ": an attribute is written name=\"value\", once in its element";
      break;
    case tinyxml2::XML_ELEMENT_DEPTH_EXCEEDED:
      why = "elements are more than 100 deep in one another, which is the limit for robots";
      break;
    default:
      break;
  }
  fail(place_of(source, document.ErrorLineNum(), "<"), why);
}

Place place_of(const std::shared_ptr<const Source>& source, int line, std::string_view word) {
  const auto number = static_cast<std::size_t>(std::max(line, 0));
  const std::string_view text = source->line(number);
  const std::size_t at = word.empty() ? text.find_first_not_of(" \t") : text.find(word);
  std::size_t column = 1;
  for (std::size_t i = 0; at != std::string_view::npos && i < at; ++i)
    column += (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
  return {source, number, column};
}

std::string note_of_zeros(std::size_t zeros) {
  return "the file has " + std::to_string(zeros) + (zeros == 1 ? " byte" : " bytes") +
         " of value 0, which are left out";
}

std::string expand_xacro(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  return "this is xacro. Run \"xacro " + name + " > " + (name == "robot.urdf" ? "expanded.urdf" : "robot.urdf") + "\"";
}

void refuse_xacro(const std::shared_ptr<const Source>& source, const tinyxml2::XMLElement& in) {
  const auto refuse = [&](int line, std::string_view word, const std::string& what) {
    fail(place_of(source, line, word), what + ": " + expand_xacro(source->path));
  };
  const std::string name = in.Name();
  if (name.starts_with("xacro:")) refuse(in.GetLineNum(), "<" + name, "<" + name + ">");
  for (const auto* a = in.FirstAttribute(); a; a = a->Next())
    for (const char* begin : {"$(", "${"})
      if (std::string_view(a->Value()).find(begin) != std::string_view::npos)
        refuse(a->GetLineNum(), a->Name(),
               "<" + name + ">: " + a->Name() + ": \"" + std::string(a->Value()).substr(0, 200) + "\"");
  for (const auto* each = in.FirstChildElement(); each; each = each->NextSiblingElement()) refuse_xacro(source, *each);
}

std::vector<std::string> words_of(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  std::vector<std::string> out;
  for (std::size_t at = text.find_first_not_of(blanks); at != std::string_view::npos;
       at = text.find_first_not_of(blanks, at)) {
    const std::size_t end = std::min(text.find_first_of(blanks, at), text.size());
    out.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

}  // namespace linchpin::scene

#endif
