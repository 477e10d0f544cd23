// The documents name files, and the files exist. Three kinds of name are read:
//
//   link    [text](path#section) to a file of the repository. A section is a heading of that file.
//   path    `plugin/src/host/island.h` or `tests/unit` in back-ticks, from the root. The ending may be missing.
//   table   A column "file of `folder`" or "files of `folder`" has names of sources of that folder.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path root = LINCHPIN_SOURCE_DIR;

std::vector<fs::path> documents() {
  std::vector<fs::path> found{root / "README.md", root / "CONTRIBUTING.md"};
  for (const char* folder : {"docs", "adapters"})
    for (const auto& entry : fs::recursive_directory_iterator(root / folder))
      if (entry.path().extension() == ".md") found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

/// The lines of a document; those of code blocks are empty.
std::vector<std::string> lines_of(const fs::path& document) {
  std::ifstream file(document);
  std::vector<std::string> lines;
  bool is_code = false;
  for (std::string line; std::getline(file, line);) {
    const bool is_fence = line.find("```") != std::string::npos;
    lines.push_back(is_code || is_fence ? "" : line);
    is_code = is_code != is_fence;
  }
  return lines;
}

std::vector<std::string> all_matches(const std::string& line, const std::regex& pattern) {
  std::vector<std::string> found;
  for (std::sregex_iterator at(line.begin(), line.end(), pattern), end; at != end; ++at) found.push_back((*at)[1]);
  return found;
}

/// A source may be named without its ending.
bool is_there(const fs::path& path) {
  for (const char* ending : {"", ".h", ".cpp"})
    if (fs::exists(path.string() + ending)) return true;
  return false;
}

/// The section that a heading makes: lower case, without marks, hyphens for blanks.
std::string section_of(const std::string& heading) {
  std::string section;
  for (const char c : heading.substr(std::min(heading.find_first_not_of("# "), heading.size()))) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || (c & 0x80))
      section += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (c == ' ')
      section += '-';
  }
  return section;
}

bool has_section(const fs::path& document, const std::string& section) {
  const auto lines = lines_of(document);
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.starts_with('#') && section_of(line) == section; });
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  if (!line.starts_with('|')) return cells;
  for (std::size_t at = 1, end = 0; (end = line.find('|', at)) != std::string::npos; at = end + 1)
    cells.push_back(line.substr(at, end - at));
  return cells;
}

/// The folder of a column "files of `folder`", from the root or from plugin/src; empty for other columns.
fs::path folder_of_column(const std::string& head) {
  static const std::regex pattern("^ *files? of `([^`]+)`");
  std::smatch found;
  if (!std::regex_search(head, found, pattern)) return {};
  const std::string name = found[1];
  return fs::is_directory(root / name) ? root / name : root / "plugin/src" / name;
}

TEST(Documents, LinkToFilesThatExist) {
  static const std::regex link(R"(\]\(([^)\s]+)\))");
  for (const fs::path& document : documents())
    for (const std::string& line : lines_of(document))
      for (const std::string& target : all_matches(line, link)) {
        if (target.find("://") != std::string::npos || target.starts_with("mailto:")) continue;
        const std::size_t mark = target.find('#');
        const std::string path = target.substr(0, mark);
        const fs::path file = path.empty() ? document : document.parent_path() / path;
        EXPECT_TRUE(fs::exists(file)) << document << " links to " << target;
        if (mark != std::string::npos && file.extension() == ".md") {
          EXPECT_TRUE(has_section(file, target.substr(mark + 1))) << document << " links to " << target;
        }
      }
}

TEST(Documents, NamePathsThatExist) {
  static const std::regex path(
      R"(`((?:plugin|adapters|tests|docs|demos|tools|scripts|benchmarks|cmake)/[A-Za-z0-9_./-]+)`)");
  for (const fs::path& document : documents())
    for (const std::string& line : lines_of(document))
      for (const std::string& name : all_matches(line, path))
        EXPECT_TRUE(is_there(root / name)) << document << " names " << name;
}

TEST(Documents, NameSourcesOfAFolderInTheColumnOfThatFolder) {
  static const std::regex name("`([a-z0-9_]+(?:\\.h|\\.cpp)?)`");
  int checked = 0;
  for (const fs::path& document : documents()) {
    std::vector<fs::path> folders;
    for (const std::string& line : lines_of(document)) {
      const auto cells = cells_of(line);
      if (cells.empty()) folders.clear();
      if (cells.empty() || !folders.empty()) {
        for (std::size_t i = 0; i < std::min(cells.size(), folders.size()); ++i) {
          if (folders[i].empty()) continue;
          for (const std::string& source : all_matches(cells[i], name)) {
            ++checked;
            EXPECT_TRUE(is_there(folders[i] / source)) << document << ": " << folders[i] << " has no " << source;
          }
        }
        continue;
      }
      for (const std::string& head : cells) folders.push_back(folder_of_column(head));
    }
  }
  EXPECT_GT(checked, 50);
}

}  // namespace
