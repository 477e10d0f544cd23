// A table of numbers as text: RFC 4180, SI units in the header, 17 digits, so that reading it back gives the same
// doubles.
#pragma once

#include <linchpin/constraint.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace linchpin::cli {

/// A text as a field: it may hold commas and quotes.
inline std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

/// A number as a field, with 17 digits; what is not finite is an empty one, which readers take for "no number".
inline std::string csv_field(double x) {
  if (!std::isfinite(x)) return {};
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", x);
  return text;
}

class Csv {
 public:
  /// @throws std::runtime_error when it cannot be written, also from close().
  explicit Csv(const std::string& file) : out_(std::fopen(file.c_str(), "w")) {
    if (!out_) throw std::runtime_error(std::string("cannot be written: ") + std::strerror(errno));
  }
  ~Csv() {
    if (out_) std::fclose(out_);
  }
  Csv(const Csv&) = delete;
  Csv& operator=(const Csv&) = delete;

  void column(const std::string& name) {
    separate();
    std::fputs(csv_field(name).c_str(), out_);
  }
  /// name.x [unit], name.y [unit], …
  void columns(const std::string& name, const std::vector<const char*>& parts) {
    for (const char* part : parts) column(name + part);
  }
  void put(double x) {
    separate();
    std::fputs(csv_field(x).c_str(), out_);
  }
  void end_row() {
    std::fputc('\n', out_);
    first_ = true;
  }
  void close() {
    const bool bad = std::ferror(out_) != 0;
    const bool unflushed = std::fclose(out_) != 0;
    out_ = nullptr;
    if (bad || unflushed) throw std::runtime_error(std::string("was not written in full: ") + std::strerror(errno));
  }

 private:
  void separate() {
    if (!first_) std::fputc(',', out_);
    first_ = false;
  }
  std::FILE* out_;
  bool first_ = true;
};

/// " [N m]" behind the name of what has a unit; nothing of what has none.
inline std::string bracketed(const std::string& unit) { return unit.empty() ? "" : " [" + unit + "]"; }

/// The column of a constraint's residual.
inline const char* gap_column(RowUnit unit) {
  return unit == RowUnit::metre ? ".gap [m]" : unit == RowUnit::radian ? ".gap [rad]" : ".gap";
}
inline const std::vector<const char*> body_columns = {
    ".x [m]",    ".y [m]",    ".z [m]",    ".qw",         ".qx",         ".qy",        ".qz",
    ".vx [m/s]", ".vy [m/s]", ".vz [m/s]", ".wx [rad/s]", ".wy [rad/s]", ".wz [rad/s]"};
inline const std::vector<const char*> force_columns = {".Fx [N]",   ".Fy [N]",   ".Fz [N]",
                                                       ".Mx [N m]", ".My [N m]", ".Mz [N m]"};

}  // namespace linchpin::cli
