#include "messages.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

namespace linchpin::cli {

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
  if (!std::filesystem::exists(status)) return refuse("the file does not exist");
  if (std::filesystem::is_directory(status)) return refuse("is a directory");
  // A pipe by name waits for who knows whom; one that is open already, as a shell makes for <(…), has its other end.
  const bool open = path == "/dev/stdin" || path.starts_with("/dev/fd/");
  if (!open && !std::filesystem::is_regular_file(status)) return refuse("is not a regular file");
  std::ifstream file(path, std::ios::binary);
  std::ostringstream all;
  if (file.peek() != std::ifstream::traits_type::eof()) all << file.rdbuf();
  if (!file.is_open() || file.bad()) return refuse("cannot be read");
  text = all.str();
  return true;
}

int misused(const std::string& verb, const std::string& what) {
  std::cerr << "linchpin " << verb << ": " << what << "\n";
  return exit_usage;
}

std::string said(const std::exception& error) {
  const std::string_view what = error.what();
  const std::size_t colon = what.find(": ");
  return std::string(what.starts_with("linchpin::") && colon != std::string_view::npos ? what.substr(colon + 2) : what);
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

std::string significant(double x, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*g", digits, x + 0.0);
  return text;
}

ProgressLine::ProgressLine(double patience) : terminal_(::isatty(STDERR_FILENO) != 0), next_(patience) {}

ProgressLine::~ProgressLine() {
  if (terminal_) std::fputs("\r\033[K", stderr);
}

void ProgressLine::show(const char* format, ...) {
  if (!terminal_ || seconds() < next_) return;
  next_ = seconds() + 0.05;
  std::fputs("\r\033[K", stderr);
  std::va_list values;
  va_start(values, format);
  std::vfprintf(stderr, format, values);
  va_end(values);
}

double ProgressLine::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

std::string counted(long n, const std::string& one, const std::string& many) {
  return std::to_string(n) + " " + (n == 1 ? one : many.empty() ? one + "s" : many);
}

}  // namespace linchpin::cli
