// A table of numbers as text: RFC 4180, SI units in the header, 17 digits, so that reading it back gives the same
// doubles.
#pragma once

#include <linchpin/scene.h>
#include <linchpin/scene/columns.h>
#include <linchpin/system.h>
#include <linchpin/wrench.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace linchpin::cli {

/// " [N m]" behind the name of what has a unit; nothing of what has none.
inline std::string bracketed(const std::string& unit) { return unit.empty() ? "" : " [" + unit + "]"; }

using scene::body_columns;
using scene::force_columns;
using scene::gap_column;

/// The names of the values of a channel: its title, or one for each component.
inline std::vector<std::string> value_names(const scene::Channel& channel) {
  if (channel.size() == 1) return {channel.title()};
  return {channel.title() + ".x", channel.title() + ".y", channel.title() + ".z"};
}

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

/// A table that is written row by row. The first row has the titles, and every other row has as many fields.
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
  /// The channels that a scene logs. A vector has three columns.
  void columns(const std::vector<scene::Channel>& logs) {
    for (const scene::Channel& log : logs) {
      if (log.size() == 1)
        column(log.title() + bracketed(log.unit()));
      else
        for (const char* part : {".x", ".y", ".z"}) column(log.title() + part + bracketed(log.unit()));
    }
  }
  void put(double x) {
    separate();
    std::fputs(csv_field(x).c_str(), out_);
  }
  void put(const Vector3d& v) {
    for (int i = 0; i < 3; ++i) put(v[i]);
  }
  /// The fields of body_columns.
  void put(const BodyState& s) {
    put(s.p);
    for (const double e : {s.q.w(), s.q.x(), s.q.y(), s.q.z()}) put(e);
    put(s.v);
    put(s.w);
  }
  /// The fields of force_columns.
  void put(const Wrench& on) {
    put(on.force);
    put(on.moment);
  }
  /// @throws std::logic_error where a row has another number of fields than the row of titles.
  void end_row() {
    if (titles_ == 0) titles_ = fields_;
    if (fields_ != titles_)
      throw std::logic_error("internal error: a table row has " + std::to_string(fields_) +
                             " fields, but the table has " + std::to_string(titles_) + " columns");
    std::fputc('\n', out_);
    fields_ = 0;
  }
  void close() {
    const bool bad = std::ferror(out_) != 0;
    const bool unflushed = std::fclose(out_) != 0;
    out_ = nullptr;
    if (bad || unflushed) throw std::runtime_error(std::string("was not written in full: ") + std::strerror(errno));
  }

 private:
  void separate() {
    if (fields_++ > 0) std::fputc(',', out_);
  }
  std::FILE* out_;
  std::size_t fields_ = 0, titles_ = 0;  // of the row so far, and of the first row
};

}  // namespace linchpin::cli
