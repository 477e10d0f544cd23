#include "units.h"

#include <cmath>
#include <numbers>
#include <stdexcept>

namespace linchpin::cli {

namespace {

struct Symbol {
  std::string_view name;
  Unit unit;
  bool takes_prefix = true;
};

constexpr double pi = std::numbers::pi;
constexpr Symbol symbols[] = {
    {"m", {1, {1, 0, 0, 0}}},
    {"g", {1e-3, {0, 1, 0, 0}}},
    {"s", {1, {0, 0, 1, 0}}},
    {"rad", {1, {0, 0, 0, 1}}},
    {"N", {1, {1, 1, -2, 0}}},
    {"J", {1, {2, 1, -2, 0}}},
    {"W", {1, {2, 1, -3, 0}}},
    {"Hz", {1, {0, 0, -1, 0}}},
    {"deg", {pi / 180, {0, 0, 0, 1}}, false},
    {"°", {pi / 180, {0, 0, 0, 1}}, false},
    {"rev", {2 * pi, {0, 0, 0, 1}}, false},
    {"rpm", {2 * pi / 60, {0, 0, -1, 1}}, false},
    {"min", {60, {0, 0, 1, 0}}, false},
    {"h", {3600, {0, 0, 1, 0}}, false},
    {"%", {0.01, {}}, false},
    {"1", {1, {}}, false},
};

struct Prefix {
  std::string_view name;
  double factor;
};
constexpr Prefix prefixes[] = {{"n", 1e-9}, {"µ", 1e-6}, {"u", 1e-6}, {"m", 1e-3}, {"c", 1e-2}, {"k", 1e3}, {"M", 1e6}};

std::optional<Unit> unit_of_symbol(std::string_view name) {
  for (const Symbol& symbol : symbols)
    if (symbol.name == name) return symbol.unit;
  for (const Prefix& prefix : prefixes)
    if (name.starts_with(prefix.name))
      for (const Symbol& symbol : symbols)
        if (symbol.takes_prefix && symbol.name == name.substr(prefix.name.size())) {
          Unit out = symbol.unit;
          out.factor *= prefix.factor;
          return out;
        }
  return {};
}

/// One factor with its power: "m", "m^2", "s²".
std::optional<Unit> unit_of_factor(std::string_view text) {
  int power = 1;
  for (const auto& [mark, value] : {std::pair<std::string_view, int>{"^2", 2}, {"²", 2}, {"^3", 3}, {"³", 3}})
    if (text.ends_with(mark)) {
      text.remove_suffix(mark.size());
      power = value;
    }
  auto out = unit_of_symbol(text);
  if (!out) return {};
  out->factor = std::pow(out->factor, power);
  for (int& each : out->powers) each *= power;
  return out;
}

}  // namespace

std::optional<Unit> unit_of_text(std::string_view text) {
  Unit out;
  int sign = 1;  // of powers: all factors behind a "/" divide
  bool any = false;
  while (!text.empty()) {
    if (text.front() == ' ' || text.front() == '*') {
      text.remove_prefix(1);
      continue;
    }
    if (text.starts_with("·")) {
      text.remove_prefix(std::string_view("·").size());
      continue;
    }
    if (text.front() == '/') {
      if (!any || sign < 0) return {};
      sign = -1;
      text.remove_prefix(1);
      continue;
    }
    const std::size_t end = std::min(text.find_first_of(" */"), text.find("·"));
    const auto factor = unit_of_factor(text.substr(0, end));
    if (!factor) return {};
    any = true;
    out.factor *= sign > 0 ? factor->factor : 1 / factor->factor;
    for (std::size_t i = 0; i < out.powers.size(); ++i) out.powers[i] += sign * factor->powers[i];
    text.remove_prefix(std::min(end, text.size()));
  }
  if (!any) return {};
  return out;
}

double conversion(const std::string& from, const std::string& to) {
  if (from == to) return 1;
  if (from.empty()) throw std::invalid_argument("the unit is missing: write [" + to + "] behind the name");
  const auto unit = unit_of_text(from);
  const auto target = unit_of_text(to.empty() ? "1" : to);
  if (!unit)
    throw std::invalid_argument("the unit [" + from + "] is not known" +
                                (to.empty() ? ". Known units are m, kg, s, rad, deg, N, J, W, Hz, rpm, with prefixes "
                                              "such as mm, ms and kN, and their products such as N m and deg/s"
                                            : ", expected [" + to + "] or a multiple of it"));
  if (to.empty()) return unit->factor;
  if (!target) throw std::invalid_argument("the unit is [" + from + "], expected [" + to + "]");
  if (!unit->measures_the_same_as(*target))
    throw std::invalid_argument("the unit is [" + from + "], expected [" + to + "] or a multiple of it");
  return unit->factor / target->factor;
}

}  // namespace linchpin::cli
