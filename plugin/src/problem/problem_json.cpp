// The file form of a ConstrainedProblem, schema 1. Hides the JSON library, and numbers that JSON cannot express.
#include <linchpin/detail/edits.h>
#include <linchpin/problem.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace linchpin {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse_at(const std::string& place, const std::string& why) {
  throw std::invalid_argument(place.empty() ? why : place + ": " + why);
}

std::string line_and_column(std::string_view text, std::size_t byte) {
  byte = std::min(byte, text.size());
  const auto before = text.substr(0, byte);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const auto newline = before.rfind('\n');
  const auto column = 1 + (newline == std::string_view::npos ? byte : byte - newline - 1);
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

// ---- reading ----

// Replaces NaN, Infinity and 1e999 by null. Programs that fail write them although JSON has no such numbers. They are a
// fault of the data, which solve reports, and not one of the file. The replacement has the same length, so that
// positions in messages stay true.
std::string without_non_finite(std::string_view text) {
  std::string out(text);
  const auto blank = [&](std::size_t at, std::size_t length) {
    out.replace(at, length, "null" + std::string(length > 4 ? length - 4 : 0, ' '));
  };
  for (std::size_t i = 0; i < out.size();) {
    if (out[i] == '"') {
      for (++i; i < out.size() && out[i] != '"'; ++i) {
        if (out[i] == '\\') ++i;
      }
      ++i;
      continue;
    }
    const auto is = [](char c, std::string_view set) { return set.find(c) != std::string_view::npos; };
    if (!is(out[i], "-+.0123456789NIni")) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < out.size() && !is(out[end], " \t\r\n,:[]{}\"")) ++end;
    const std::string word = out.substr(i, end - i);
    if (word == "NaN" || word == "nan") {
      // NaN is one letter shorter than null. The separator that follows keeps its line, and only its column changes.
      out.replace(i, 3, "null");
      end = i + 4;
    } else if (word == "Infinity" || word == "-Infinity" || word == "-NaN") {
      blank(i, word.size());
    } else if (is(word.front(), "-0123456789")) {
      char* stop = nullptr;
      if (std::isinf(std::strtod(word.c_str(), &stop)) && *stop == '\0' && is(word.back(), "0123456789"))
        blank(i, word.size());
    }
    i = std::max(end, i + 1);
  }
  return out;
}

std::string key_path(const std::string& path, const std::string& key) { return path.empty() ? key : path + "." + key; }
std::string index_path(const std::string& path, std::size_t i) { return path + "[" + std::to_string(i) + "]"; }

const char* kind(const Json& value) {
  if (value.is_null()) return "null";
  return value.type_name();
}

void check_keys(const Json& object, const std::string& path, std::initializer_list<const char*> known) {
  if (!object.is_object())
    refuse_at(path.empty() ? "the file" : path, std::string("expected an object, found ") + kind(object));
  for (const auto& item : object.items()) {
    const std::string& key = item.key();
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const char* nearest = *std::min_element(known.begin(), known.end(), [&](const char* a, const char* b) {
      return detail::edits(key, a) < detail::edits(key, b);
    });
    refuse_at(key_path(path, key), std::string("unknown key; did you mean \"") + nearest + "\"?");
  }
}

const Json& member(const Json& object, const std::string& path, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) refuse_at(key_path(path, key), "missing");
  return *found;
}

const Json& array(const Json& value, const std::string& path) {
  if (!value.is_array()) refuse_at(path, std::string("expected an array, found ") + kind(value));
  return value;
}

double number(const Json& value, const std::string& path) {
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!value.is_number()) refuse_at(path, std::string("expected a number, found ") + kind(value));
  return value.get<double>();
}

void numbers(const Json& value, const std::string& path, std::vector<double>& out) {
  array(value, path);
  out.reserve(out.size() + value.size());
  for (std::size_t i = 0; i < value.size(); ++i) out.push_back(number(value[i], index_path(path, i)));
}

void read_mass(const Json& blocks, ConstrainedProblem& out) {
  array(blocks, "mass_blocks");
  for (std::size_t k = 0; k < blocks.size(); ++k) {
    const std::string path = index_path("mass_blocks", k);
    const std::size_t size = array(blocks[k], path).size();
    if (size == 0) refuse_at(path, "a mass block has at least one row");
    for (std::size_t i = 0; i < size; ++i) {
      const std::string row = index_path(path, i);
      if (array(blocks[k][i], row).size() != size) {
        refuse_at(row, "has " + std::to_string(blocks[k][i].size()) + " numbers in a block of " + std::to_string(size) +
                           " rows");
      }
      numbers(blocks[k][i], row, out.mass);
    }
    out.block_sizes.push_back(static_cast<int>(size));
  }
}

void read_entries(const Json& entries, const std::string& path, int n, ConstrainedProblem& out) {
  const auto first = static_cast<std::ptrdiff_t>(out.entries.size());
  array(entries, path);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string at = index_path(path, i);
    if (array(entries[i], at).size() != 2) refuse_at(at, "expected [column, value]");
    const Json& column = entries[i][0];
    if (!column.is_number_integer())
      refuse_at(index_path(at, 0), std::string("expected a column, found ") + column.dump());
    if (column < 0 || column >= n) {
      refuse_at(index_path(at, 0),
                "column " + column.dump() + " is not among the " + std::to_string(n) + " columns from 0");
    }
    out.entries.push_back({column.get<int>(), number(entries[i][1], index_path(at, 1))});
  }
  const auto by_column = [](const ConstrainedProblem::Entry& a, const ConstrainedProblem::Entry& b) {
    return a.column < b.column;
  };
  std::sort(out.entries.begin() + first, out.entries.end(), by_column);
  const auto twice = std::adjacent_find(out.entries.begin() + first, out.entries.end(),
                                        [](const auto& a, const auto& b) { return a.column == b.column; });
  if (twice != out.entries.end()) refuse_at(path, "column " + std::to_string(twice->column) + " appears twice");
}

void read_rows(const Json& rows, ConstrainedProblem& out) {
  std::unordered_map<std::string, int> index;
  out.row_start.push_back(0);
  array(rows, "rows");
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::string path = index_path("rows", r);
    check_keys(rows[r], path, {"constraint", "entries", "b"});
    const Json& name = member(rows[r], path, "constraint");
    if (!name.is_string()) refuse_at(key_path(path, "constraint"), std::string("expected a name, found ") + kind(name));
    if (name.get_ref<const std::string&>().empty()) refuse_at(key_path(path, "constraint"), "a constraint has a name");
    const auto [found, fresh] = index.emplace(name, static_cast<int>(out.constraints.size()));
    if (fresh) out.constraints.push_back(name);
    out.row_constraint.push_back(found->second);
    read_entries(member(rows[r], path, "entries"), key_path(path, "entries"), out.n(), out);
    out.row_start.push_back(static_cast<int>(out.entries.size()));
    out.b.push_back(number(member(rows[r], path, "b"), key_path(path, "b")));
  }
}

Json parse(std::string_view text) {
  std::vector<std::vector<std::string>> seen;
  const auto once = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) seen.emplace_back();
    if (event == Json::parse_event_t::object_end) seen.pop_back();
    if (event == Json::parse_event_t::key) {
      auto& keys = seen.back();
      const auto& key = value.get_ref<const std::string&>();
      if (std::find(keys.begin(), keys.end(), key) != keys.end())
        refuse_at("", "key \"" + key + "\" appears twice in one object");
      keys.push_back(key);
    }
    return true;
  };
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) refuse_at("line 1, column 1", "the file is empty");
  const std::string clean = without_non_finite(text);
  try {
    return Json::parse(clean, once);
  } catch (const Json::parse_error& error) {
    // Skips the first part of "[json.exception.parse_error.101] parse error at line 1, column 3: syntax error while …".
    // The message is the part after the position.
    std::string what = error.what();
    if (const auto from = what.find(": "); from != std::string::npos) what = what.substr(from + 2);
    refuse_at(line_and_column(clean, error.byte > 0 ? error.byte - 1 : 0), what);
  } catch (const Json::exception& error) {
    refuse_at("", error.what());
  }
}

// ---- writing ----

// Writes the shortest digits, 17 at most, that read back as the same double.
void write(std::string& out, double x) {
  if (!std::isfinite(x)) {
    out += "null";
    return;
  }
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), x).ptr;
  const std::string_view text(digits.data(), static_cast<std::size_t>(end - digits.data()));
  out += text;
  if (text.find_first_of(".e") == std::string_view::npos)
    out += ".0";  // Otherwise -0 would be read back as an unsigned integer.
}

void write(std::string& out, const std::vector<double>& x) {
  out += '[';
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i > 0) out += ", ";
    write(out, x[i]);
  }
  out += ']';
}

}  // namespace

std::string write_json(const ConstrainedProblem& x) {
  std::string out = "{ \"schema\": 1,\n  \"t\": ";
  write(out, x.t);
  out += ",\n  \"mass_blocks\": [";
  std::size_t value = 0;
  for (std::size_t k = 0; k < x.block_sizes.size(); ++k) {
    const auto size = static_cast<std::size_t>(x.block_sizes[k]);
    out += k > 0 ? ",\n    [" : "\n    [";
    for (std::size_t i = 0; i < size; ++i, value += size) {
      if (i > 0) out += ", ";
      const auto row = x.mass.begin() + static_cast<std::ptrdiff_t>(value);
      write(out, std::vector<double>(row, row + static_cast<std::ptrdiff_t>(size)));
    }
    out += ']';
  }
  out += "],\n  \"Q\": ";
  write(out, x.Q);
  out += ",\n  \"c\": ";
  write(out, x.c);
  out += ",\n  \"rows\": [";
  for (std::size_t r = 0; r < x.b.size(); ++r) {
    out += r > 0 ? ",\n    " : "\n    ";
    out += "{ \"constraint\": ";
    const auto constraint = static_cast<std::size_t>(x.row_constraint[r]);
    out += Json(x.constraints[constraint]).dump(-1, ' ', false, Json::error_handler_t::replace);
    out += ", \"entries\": [";
    for (int i = x.row_start[r]; i < x.row_start[r + 1]; ++i) {
      const auto& entry = x.entries[static_cast<std::size_t>(i)];
      out += i > x.row_start[r] ? ", [" : "[";
      out += std::to_string(entry.column);
      out += ", ";
      write(out, entry.value);
      out += ']';
    }
    out += "], \"b\": ";
    write(out, x.b[r]);
    out += " }";
  }
  out += "] }\n";
  return out;
}

ConstrainedProblem read_json(std::string_view text) {
  const Json file = parse(text);
  // Checks the schema first, because keys of another schema are not misspelt ones of this.
  if (file.is_object() && file.contains("schema") && file["schema"] != 1) {
    refuse_at("schema", "the file has schema " + file["schema"].dump() + ", but this version reads schema 1 only");
  }
  check_keys(file, "", {"schema", "t", "mass_blocks", "Q", "c", "rows"});
  member(file, "", "schema");
  ConstrainedProblem out;
  if (file.contains("t")) out.t = number(file["t"], "t");
  read_mass(member(file, "", "mass_blocks"), out);
  numbers(member(file, "", "Q"), "Q", out.Q);
  const int n = std::accumulate(out.block_sizes.begin(), out.block_sizes.end(), 0);
  if (out.n() != n)
    refuse_at("Q", "has " + std::to_string(out.n()) + " numbers; the mass blocks have " + std::to_string(n) + " rows");
  if (file.contains("c")) {
    numbers(file["c"], "c", out.c);
    if (out.c.size() != out.Q.size()) {
      refuse_at("c", "has " + std::to_string(out.c.size()) + " numbers; Q has " + std::to_string(out.n()));
    }
  } else {
    out.c.assign(out.Q.size(), 0.0);
  }
  read_rows(member(file, "", "rows"), out);
  return out;
}

}  // namespace linchpin
