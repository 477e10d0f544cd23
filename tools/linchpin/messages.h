// What the command says when something is wrong: places, source lines, nearest known names.
#pragma once

#include <linchpin/scene/names.h>

#include <chrono>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace linchpin::cli {

/// Exit codes of every verb.
inline constexpr int exit_ok = 0;
inline constexpr int exit_usage = 2;
inline constexpr int exit_bad_input = 3;
inline constexpr int exit_physics = 4;

using scene::nearest;

/// Reads a whole file, "-" being standard input. @return false after saying on stderr why it could not be read.
bool read_file(const std::string& path, std::string& text);

/// Prints `path:line:column: error: …` with the source line and a caret where `what` begins with "line L, column C: ",
/// `path: error: …` otherwise. To stderr.
void complain(const std::string& path, std::string_view text, const std::string& what);

/// Says on stderr what is wrong with the options of a verb. @return exit_usage
int misused(const std::string& verb, const std::string& what);

/// The message of an exception of the library without the name of the function that threw it ("linchpin::Stepper: …").
std::string said(const std::exception& error);

/// "1 body", "3 bodies": the number with the noun that belongs to it. @param many  without: `one` and an s
std::string counted(long n, const std::string& one, const std::string& many = {});

/// A number with so many significant digits, without a sign of zero.
std::string significant(double x, int digits = 7);

/// One line on stderr that says how far a command has come, gone when the object goes; nothing where stderr is no
/// terminal.
class ProgressLine {
 public:
  /// @param patience  before the first is shown [s]
  explicit ProgressLine(double patience = 0.1);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  /// As printf, in place of what stood there; too soon after another it is left out.
  [[gnu::format(printf, 2, 3)]] void show(const char* format, ...);
  double seconds() const;  ///< since it was made

 private:
  const bool terminal_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double next_;
};

}  // namespace linchpin::cli
