#include "measurements.h"

#include "recording/mcap_reader.h"
#include "units.h"

#include <linchpin/scene/names.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

namespace linchpin::cli {

namespace {

std::string_view line_of(std::string_view text, std::size_t line) {
  for (std::size_t l = 1; l < line; ++l) {
    const auto end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  text = text.substr(0, text.find('\n'));
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r"), last = text.find_last_not_of(" \t\r");
  return first == std::string_view::npos ? "" : std::string(text.substr(first, last - first + 1));
}

struct Field {
  std::string text;
  std::size_t column = 1;  // in its line, from 1
};

/// The fields of one line, quotes and blanks at their ends taken off.
std::vector<Field> fields_of(std::string_view line, char separator) {
  std::vector<Field> out(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"')
      out.back().text += line[i++];
    else if (line[i] == '"')
      quoted = !quoted;
    else if (line[i] == separator && !quoted)
      out.push_back({"", i + 2});
    else
      out.back().text += line[i];
  }
  for (Field& field : out) {
    field.column += std::min(line.substr(field.column - 1).find_first_not_of(" \t"), field.text.size());
    field.text = trimmed(field.text);
  }
  return out;
}

/// The character between the fields: the one of which the line of titles has most outside of quotes.
char separator_of(std::string_view line) {
  std::map<char, int> count;
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') quoted = !quoted;
    if (!quoted) ++count[c];
  }
  return count['\t'] > 0 ? '\t' : count[';'] > 0 ? ';' : ',';
}

/// "pin angle [deg]" as name and unit.
std::pair<std::string, std::string> name_and_unit(const std::string& title) {
  const auto open = title.rfind(" [");
  if (!title.ends_with(']') || open == std::string::npos) return {title, ""};
  return {trimmed(title.substr(0, open)), trimmed(title.substr(open + 2, title.size() - open - 3))};
}

bool is_time(const std::string& name) { return name == "t" || name == "time"; }

std::string nearest_title(const std::vector<MeasuredColumn>& columns) {
  std::vector<std::string> names;
  for (const MeasuredColumn& each : columns) names.push_back(each.name);
  const std::string guess = scene::nearest("time", names), other = scene::nearest("t", names);
  const std::string found = guess.empty() ? other : guess;
  return found.empty() ? "" : ". The nearest title is \"" + found + "\"";
}

/// Reads one table line by line.
class MeasuredTable {
 public:
  MeasuredTable(const std::string& file, std::string text) {
    out_.file = file;
    out_.text = std::move(text);
  }

  MeasuredFile read(const WantedColumn& wanted) {
    std::string_view left = out_.text;
    if (left.starts_with("\xef\xbb\xbf")) left.remove_prefix(3);
    for (std::size_t line = 1; !left.empty(); ++line) {
      std::string_view text = left.substr(0, left.find('\n'));
      left.remove_prefix(std::min(text.size() + 1, left.size()));
      if (text.ends_with('\r')) text.remove_suffix(1);
      if (trimmed(text).empty() || text.starts_with('#')) continue;
      if (out_.title_line == 0)
        titles(text, line, wanted);
      else
        row(text, line);
    }
    if (out_.title_line == 0)
      refuse(0, 0, "the file is empty. The first line must have titles such as \"t [s],bead.x [m]\"");
    if (rows_ == 0) refuse(out_.title_line, 1, "the table has titles but no rows");
    std::vector<MeasuredColumn> kept;
    for (std::size_t i = 0; i < out_.columns.size(); ++i)
      if (wanted_[i]) kept.push_back(std::move(out_.columns[i]));
    out_.columns = std::move(kept);
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::size_t line, std::size_t column, const std::string& message) const {
    throw measurement_error(out_, line, column, message);
  }

  void titles(std::string_view text, std::size_t line, const WantedColumn& wanted) {
    out_.title_line = line;
    separator_ = separator_of(text);
    for (const Field& field : fields_of(text, separator_)) {
      MeasuredColumn column;
      std::tie(column.name, column.unit) = name_and_unit(field.text);
      column.column = field.column;
      const std::size_t at = out_.columns.size();
      if (is_time(column.name)) {
        if (time_) refuse(line, field.column, "the table has two columns of times");
        time_ = at;
        try {
          seconds_ = conversion(column.unit, "s");
        } catch (const std::invalid_argument& e) {
          refuse(line, field.column, "\"" + column.name + "\": " + e.what());
        }
      }
      for (const MeasuredColumn& other : out_.columns)
        if (other.name == column.name && !column.name.empty())
          refuse(line, field.column, "two columns have the title \"" + column.name + "\"");
      wanted_.push_back(time_ != at && !column.name.empty() && wanted(column.name, field.text));
      if (time_ != at && column.name.empty() && wanted("", "")) refuse(line, field.column, "the column has no title");
      out_.columns.push_back(std::move(column));
    }
    if (!time_) refuse(line, 1, "no column has the time. Its title is \"t [s]\"" + nearest_title(out_.columns));
  }

  void row(std::string_view text, std::size_t line) {
    const std::vector<Field> fields = fields_of(text, separator_);
    if (fields.size() != out_.columns.size())
      refuse(line, fields.back().column,
             "the row has " + std::to_string(fields.size()) + (fields.size() == 1 ? " field" : " fields") + " under " +
                 std::to_string(out_.columns.size()) + " titles");
    const Field& of_time = fields[*time_];
    if (of_time.text.empty()) refuse(line, of_time.column, "the time is missing");
    const double t = seconds_ * number(of_time, line);
    if (rows_ > 0 && !(t > last_))
      refuse(line, of_time.column,
             "the time " + of_time.text + (t == last_ ? " is there twice" : " goes back") + ". Times must increase");
    last_ = t;
    ++rows_;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (!wanted_[i] || fields[i].text.empty()) continue;
      MeasuredColumn& column = out_.columns[i];
      column.values.push_back(number(fields[i], line));
      column.t.push_back(t);
      column.lines.push_back(line);
    }
  }

  double number(const Field& field, std::size_t line) const {
    char* end = nullptr;
    const double out = std::strtod(field.text.c_str(), &end);
    if (*end != '\0' || field.text.empty())
      refuse(line, field.column,
             "\"" + field.text + "\" is not a number" +
                 (field.text.find(',') != std::string::npos ? ". Write a decimal point in place of the comma" : ""));
    if (!std::isfinite(out))
      refuse(line, field.column, "\"" + field.text + "\" is not finite. Leave the field empty if there is no sample");
    return out;
  }

  MeasuredFile out_;
  char separator_ = ',';
  std::optional<std::size_t> time_;  // which column
  double seconds_ = 1, last_ = 0;
  std::size_t rows_ = 0;
  std::vector<char> wanted_;  // by column
};

/// Collects the messages of an MCAP file by quantity.
class Messages {
 public:
  Messages(const std::string& file, const WantedColumn& wanted) : wanted_(wanted) { out_.file = file; }

  void take(const recording::McapMessage& message) {
    const std::string& topic = message.topic;
    const auto named = [&](std::string_view kind) { return topic.substr(kind.size()); };
    const auto unit = message.metadata.find("unit");
    // That of a wrench is "N, N m, m": of force, moment and point.
    const std::string of = unit == message.metadata.end() ? "" : unit->second.substr(0, unit->second.find(','));
    const double t = 1e-9 * static_cast<double>(message.ns);
    const auto json = nlohmann::json::parse(message.data, nullptr, false);
    if (topic.starts_with("/signal/")) {
      sample(named("/signal/"), of, t, json, "value");
    } else if (topic.starts_with("/coordinate/")) {
      const std::string name = scene::quoted(named("/coordinate/"));
      sample(name, of, t, json, "value");
      sample(name + "'", of.empty() ? "" : of + "/s", t, json, "rate");
    } else if (topic.starts_with("/wrench/")) {
      const auto body = json.find("body");
      if (body == json.end() || !body->is_string() || *body == "world") return;
      const std::string on =
          "(" + scene::quoted(named("/wrench/")) + ", " + scene::quoted(body->get<std::string>()) + ").";
      vector("reaction" + on, of, t, json, "force");
      vector("moment" + on, "N m", t, json, "moment");
    } else if (topic == "/tf" && json.contains("transforms")) {
      for (const auto& each : json["transforms"]) {
        const auto child = each.find("child_frame_id");
        if (child != each.end() && child->is_string())
          vector(scene::quoted(child->get<std::string>()) + ".", "m", t, each, "translation");
      }
    }
  }

  MeasuredFile finish() {
    if (number_.empty()) throw measurement_error(out_, 0, 0, "the file has no messages of linchpin in JSON");
    return std::move(out_);
  }

 private:
  void vector(const std::string& name, const std::string& unit, double t, const nlohmann::json& in, const char* key) {
    if (!in.contains(key)) return;
    for (const char* part : {"x", "y", "z"}) sample(name + part, unit, t, in[key], part);
  }

  void sample(const std::string& name, const std::string& unit, double t, const nlohmann::json& in, const char* key) {
    const auto [known, added] = number_.try_emplace(name, out_.columns.size());
    if (added && !wanted_(name, unit.empty() ? name : name + " [" + unit + "]")) {
      known->second = left_out;
    } else if (added) {
      out_.columns.push_back({name, unit, 0, {}, {}, {}});
    }
    if (known->second == left_out || !in.is_object() || !in.contains(key) || !in[key].is_number()) return;
    MeasuredColumn& column = out_.columns[known->second];
    if (!column.t.empty() && !(t > column.t.back()))
      throw measurement_error(out_, 0, 0,
                              "\"" + name + "\" at " + std::to_string(t) + " s: the time goes back or is there twice");
    column.t.push_back(t);
    column.values.push_back(in[key].get<double>());
  }

  static constexpr std::size_t left_out = std::size_t(-1);
  const WantedColumn& wanted_;
  MeasuredFile out_;
  std::map<std::string, std::size_t> number_;
};

}  // namespace

scene::SceneError measurement_error(const MeasuredFile& in, std::size_t line, std::size_t column,
                                    const std::string& message) {
  std::string whole = in.file;
  if (line > 0) whole += ":" + std::to_string(line) + ":" + std::to_string(column);
  whole += ": error: " + message;
  const std::string_view source = line > 0 ? line_of(in.text, line) : std::string_view();
  if (!source.empty() && source.size() <= 200)
    whole += "\n  " + std::string(source) + "\n  " + std::string(column > 0 ? column - 1 : 0, ' ') + "^";
  return {whole, in.file, line, column, message};
}

MeasuredFile read_measured_table(const std::string& file, std::string text, const WantedColumn& wanted) {
  return MeasuredTable(file, std::move(text)).read(wanted);
}

MeasuredFile read_measured_mcap(const std::string& file, std::string_view bytes, const WantedColumn& wanted) {
  Messages messages(file, wanted);
  try {
    recording::read_mcap(bytes, [&](const recording::McapMessage& message) { messages.take(message); });
  } catch (const std::invalid_argument& e) {
    MeasuredFile none;
    none.file = file;
    throw measurement_error(none, 0, 0, e.what());
  }
  return messages.finish();
}

}  // namespace linchpin::cli
