#include "renamed.h"

#include <span>

namespace linchpin::scene {

namespace {

struct Renamed {
  const char *where, *old, *now;
};

// By the kind of the table.
constexpr Renamed keys[] = {
    {"solver", "swing_limit", "max_tension_frequency"}, {"solver", "path", "backend"},
    {"constraint", "acting_at", "application_points"},  {"constraint", "acting_where", "application_point"},
    {"constraint", "sliding_on", "sliding_body"},       {"law", "thrust", "normal_force"},
};

// By the key.
constexpr Renamed values[] = {
    {"kind", "driven", "kinematic"},
    {"unit", "own", "custom"},
    {"normal_force", "actual", "coupled"},
    {"normal_force", "ideal", "frictionless"},
};

// Words of expressions, wherever they stand.
constexpr Renamed words[] = {
    {"", "thrust", "normal_force"},
    {"", "ideal_thrust", "frictionless_normal_force"},
    {"", "slip", "slip_velocity"},
};

std::string_view find(std::span<const Renamed> all, std::string_view where, std::string_view old) {
  for (const Renamed& each : all)
    if (where == each.where && old == each.old) return each.now;
  return {};
}

// solver of: solver; constraint of: constraint "rope"; law of: joint "elbow", law. Names in quotes may hold anything.
std::string_view kind_of(std::string_view table) {
  const std::size_t quote = table.rfind('"');
  if (quote != std::string_view::npos && quote + 1 == table.size()) return table.substr(0, table.find(' '));
  const std::size_t comma = table.rfind(", ");
  if (comma == std::string_view::npos || (quote != std::string_view::npos && comma < quote)) return table;
  return table.substr(comma + 2);
}

}  // namespace

std::string_view renamed_key(std::string_view table, std::string_view key) { return find(keys, kind_of(table), key); }
std::string_view renamed_value(std::string_view key, std::string_view value) { return find(values, key, value); }
std::string_view renamed_word(std::string_view word) { return find(words, "", word); }

std::string was_renamed(std::string_view now) { return " was renamed to \"" + std::string(now) + "\""; }

}  // namespace linchpin::scene
