#include "messages.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

namespace linchpin::cli {
namespace {

// Edits from a to b, in halves: wrong case is half a mistake.
std::size_t edits(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = 2 * j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = 2 * (i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t change = a[i] == b[j] ? 0 : lower(a[i]) == lower(b[j]) ? 1 : 2;
      const std::size_t next = std::min({row[j] + 2, row[j + 1] + 2, diagonal + change});
      diagonal = row[j + 1];
      row[j + 1] = next;
    }
  }
  return row.back();
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  std::size_t least = 2 * std::max<std::size_t>(2, word.size() / 2) + 1;
  for (const std::string& name : known) {
    if (const std::size_t d = edits(word, name); d < least) {
      least = d;
      best = name;
    }
  }
  return best;
}

bool read_file(const std::string& path, std::string& text) {
  const auto refuse = [&](const char* why) {
    std::cerr << path << ": error: " << why << "\n";
    return false;
  };
  if (path == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
    return true;
  }
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) return refuse("no such file");
  if (std::filesystem::is_directory(status)) return refuse("is a directory");
  std::ifstream file(path, std::ios::binary);
  std::ostringstream all;
  if (file.peek() != std::ifstream::traits_type::eof()) all << file.rdbuf();
  if (!file.is_open() || file.bad()) return refuse("cannot be read");
  text = all.str();
  return true;
}

void complain(const std::string& path, std::string_view text, const std::string& what) {
  std::size_t line = 0, column = 0;
  int length = 0;
  if (std::sscanf(what.c_str(), "line %zu, column %zu: %n", &line, &column, &length) < 2 || length == 0) {
    std::cerr << path << ": error: " << what << "\n";
    return;
  }
  std::cerr << path << ":" << line << ":" << column << ": error: " << what.substr(static_cast<std::size_t>(length))
            << "\n";
  for (std::size_t l = 1; l < line; ++l) {
    const auto end = text.find('\n');
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
  const std::string_view source = text.substr(0, text.find('\n'));
  if (source.empty() || source.size() > 200) return;  // a file on one line says nothing more
  std::cerr << "  " << source << "\n  " << std::string(column > 0 ? column - 1 : 0, ' ') << "^\n";
}

}  // namespace linchpin::cli
