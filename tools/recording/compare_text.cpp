#include "compare_text.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace linchpin::recording {

namespace {

using Json = nlohmann::ordered_json;

// Shortest with so many significant digits.
std::string brief(double x, int digits = 6) {
  char text[48];
  std::snprintf(text, sizeof text, "%.*g", digits, x);
  return text;
}

std::string number(const Json& x) {
  if (!x.is_number()) return "-";
  char text[48];
  std::snprintf(text, sizeof text, "%.1e", x.get<double>());
  return x.get<double>() == 0 ? "0" : text;
}

std::string microseconds(const Json& ns) {
  if (!ns.is_number()) return "-";
  char text[48];
  std::snprintf(text, sizeof text, "%.1f", ns.get<double>() / 1000);
  return text;
}

std::string label(const Json& row) { return run_label(row) + ", " + row.value("precision", std::string()); }

// Runs are held against each other in the same steps over the same time alone: a key of those, empty for the table's.
std::string steps_of(const Json& row) {
  if (!row.contains("ran_in_steps")) return "";
  return brief(row["ran_in_steps"][1]) + " s in steps of " + brief(row["ran_in_steps"][0]) + " s";
}

bool ran(const Json& row) { return row.value("status", std::string()).starts_with("ok"); }

// Letters, not bytes: names and units are UTF-8.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string table(const std::vector<std::vector<std::string>>& lines, std::size_t words) {
  std::vector<std::size_t> widest;
  for (const auto& line : lines) {
    widest.resize(std::max(widest.size(), line.size()));
    for (std::size_t i = 0; i < line.size(); ++i) widest[i] = std::max(widest[i], width(line[i]));
  }
  std::string out;
  for (const auto& line : lines) {
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string pad(widest[i] - width(line[i]), ' ');
      const bool left = i < words || i + 1 == line.size();
      text += (i > 0 ? "  " : "") + (left ? line[i] + pad : pad + line[i]);
    }
    out += text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

// How far a run was from its constraints: the largest gap of its joints [m], and the largest residual of the equations
// that have units of their own. Empty where it has no such constraint.
struct Violation {
  std::optional<double> gap, residual;
  auto operator<=>(const Violation&) const = default;
};
Violation violation(const Json& row) {
  Violation out;
  if (row["max_gap_m"].is_number()) out.gap = row["max_gap_m"].get<double>();
  for (const auto& [name, residual] : row["user_gaps"].items())
    if (residual.is_number()) out.residual = std::max(out.residual.value_or(0), residual.get<double>());
  return out;
}
// Gaps decide which of two runs is nearer to its constraints. Residuals decide where the gaps are equal, or one has
// none.
bool compare_by_residual(const Violation& a, const Violation& b) {
  return a.residual && b.residual && (!a.gap || !b.gap || (a.gap == b.gap && a.residual != b.residual));
}

// The one number of a run: its gap, or its residual where it has no gap or residuals are compared.
struct Remaining {
  bool is_residual;
  double size;
};
Remaining remaining(const Violation& of, bool by_residual = false) {
  const bool is_residual = by_residual || !of.gap;
  return {is_residual, is_residual ? of.residual.value_or(0) : *of.gap};
}
// "joint closed to 1e-9 m", "constraint closed to a residual of 1e-9, in the unit of its equation".
std::string closed(const Remaining& of) {
  return of.is_residual ? "constraint closed to a residual of " + number(of.size) + ", in the unit of its equation"
                        : "joint closed to " + number(of.size) + " m";
}
std::string left(const Remaining& of) {
  return of.is_residual ? "a residual of " + number(of.size) : "a gap of " + number(of.size) + " m";
}

// The row that holds tightest among those that ran to the end; null when there is none.
const Json* tightest(const Json& rows, bool exact, const std::string& precision, const std::string& steps) {
  const Json* best = nullptr;
  for (const Json& row : rows) {
    if (is_exact(row) != exact || row["precision"] != precision || steps_of(row) != steps || !ran(row)) continue;
    const Violation of = violation(row);
    if (!of.gap && !of.residual) continue;
    if (!best || of < violation(*best)) best = &row;
  }
  return best;
}

std::string against(const Json& exact, const Json& native) {
  const Violation of_exact = violation(exact), of_native = violation(native);
  const bool by_residual = compare_by_residual(of_exact, of_native);
  const Remaining ours = remaining(of_exact, by_residual), theirs = remaining(of_native, by_residual);
  const std::string name = native.value("name", std::string());
  std::string out =
      "exact keeps every " + closed(ours) + ". The best native solver, " + name + ", leaves " + left(theirs);
  if (ours.size == theirs.size)
    out = "exact and " + name + " both leave " + left(ours);
  else if (ours.size > theirs.size)
    out = name + " leaves the least, " + left(theirs) + ", and exact leaves " + left(ours);
  const Json &t = exact["ns_per_step"], &u = native["ns_per_step"];
  if (t.is_number() && u.is_number() && t.get<double>() > 0) {
    const double ratio = u.get<double>() / t.get<double>();
    out += ". The solver " + name + " takes " + brief(ratio, 2) +
           (ratio >= 1 ? " times as long as exact" : " of the time of exact");
  }
  return out;
}

}  // namespace

std::string run_label(const Json& row) {
  const std::string of = steps_of(row);
  return row.value("name", std::string()) + (of.empty() ? "" : " (" + of + ")");
}

std::string some(const Json& names, std::size_t at_most) {
  std::string out;
  for (std::size_t i = 0; i < std::min(names.size(), at_most); ++i)
    out += (i > 0 ? ", " : "") + names[i].get<std::string>();
  if (names.size() > at_most) out += " and " + std::to_string(names.size() - at_most) + " more";
  return out;
}

std::string verdict_text(const Json& rows) {
  std::vector<std::string> parts, steps = {""};
  for (const Json& row : rows)
    if (const std::string each = steps_of(row); std::find(steps.begin(), steps.end(), each) == steps.end())
      steps.push_back(each);
  std::vector<std::pair<std::string, std::string>> groups;
  for (const std::string& each : steps)
    for (const char* precision : {"double", "single"}) groups.emplace_back(precision, each);
  for (const auto& [precision, of] : groups) {
    const Json *exact = tightest(rows, true, precision, of), *native = tightest(rows, false, precision, of);
    std::string part;
    if (exact && native)
      part = against(*exact, *native);
    else if (exact)
      part = "exact keeps every " + closed(remaining(violation(*exact)));
    else if (native)
      part = (*native).value("name", std::string()) + " leaves the least, " + left(remaining(violation(*native)));
    if (!part.empty())
      parts.push_back("In " + precision + " precision" + (of.empty() ? "" : " over " + of) + ", " + part + ".");
  }
  for (const Json& row : rows)
    if (is_exact(row) && !ran(row))
      parts.insert(parts.begin(), run_label(row) + " failed in " + row.value("precision", std::string()) +
                                      " precision: " + row.value("status", std::string()) + ".");
  if (parts.empty())
    return std::any_of(rows.begin(), rows.end(), ran) ? "The scene has no joint, so there is no gap to compare.\n"
                                                      : "No solver finished.\n";
  std::string out;
  for (const std::string& part : parts) out += part + "\n";
  return out;
}

namespace {

// Rows that say the same share a footnote.
class Footnotes {
 public:
  void add(const Json& row, const std::string& text) {
    const auto at = std::find_if(notes_.begin(), notes_.end(), [&](const auto& note) { return note.first == text; });
    if (at == notes_.end())
      notes_.push_back({text, {label(row)}});
    else
      at->second.push_back(label(row));
    ++rows_;
  }
  std::string text(std::size_t all) const {
    std::string out;
    for (const auto& [text, labels] : notes_) {
      std::string who;
      for (const std::string& each : labels) who += (who.empty() ? "" : "; ") + each;
      out += "  " + (labels.size() == all && all > 1 ? std::string("all") : who) + ": " + text + "\n";
    }
    return out;
  }

 private:
  std::vector<std::pair<std::string, std::vector<std::string>>> notes_;
  std::size_t rows_ = 0;
};

std::string count(const Json& n, const char* one, const char* many) {
  return std::to_string(n.get<long>()) + " " + (n.get<long>() == 1 ? one : many);
}

void add_notes(const Json& row, Footnotes& notes) {
  const std::string host = row.contains("method") ? row["method"].value("host", std::string()) : "";
  if (!row["native"].empty())
    notes.add(row, std::string("left to ") + (host.starts_with("MuJoCo") ? "MuJoCo" : "Bullet") + ": " +
                       grouped_natives(row["native"]));
  if (row.contains("enforced_by_bullet") && !row["enforced_by_bullet"].empty())
    notes.add(row, "held by Bullet's own constraints: " + grouped_natives(row["enforced_by_bullet"]));
  if (row.contains("rank")) {
    const Json& rank = row["rank"];
    const bool same = rank["redundant"] == rank["undetermined"];
    std::string text = "the joints have " + count(rank["rows"], "equation", "equations") + ", and " +
                       count(rank["rank"], "of them is", "of them are") + " independent";
    if (!rank["redundant"].empty()) text += ". Redundant: " + some(rank["redundant"]);
    if (!rank["undetermined"].empty())
      text += (same ? std::string(". Their reactions are undetermined")
                    : ". Undetermined are the reactions of: " + some(rank["undetermined"])) +
              ". Only their sum on each body is determined";
    if (!rank["contradictory"].empty()) text += ". Contradictory: " + some(rank["contradictory"]);
    notes.add(row, text);
  }
  if (row.contains("ran_in_steps"))
    notes.add(row, "ran " + steps_of(row) +
                       ", other than the first run; it is compared only with runs of the same duration and step");
  std::vector<std::pair<double, std::string>> residuals;  // the worst eight of many, else in their order
  for (const auto& [name, gap] : row["user_gaps"].items())
    residuals.emplace_back(gap.is_number() ? gap.get<double>() : 0, name + " " + number(gap));
  const std::size_t shown = std::min<std::size_t>(residuals.size(), 8);
  if (shown < residuals.size())
    std::stable_sort(residuals.begin(), residuals.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string listed;
  for (std::size_t i = 0; i < shown; ++i) listed += (i > 0 ? ", " : "") + residuals[i].second;
  if (shown > 0)
    notes.add(row, (shown < residuals.size() ? "the largest of " + std::to_string(residuals.size()) + " residuals: "
                                             : "largest residuals: ") +
                       listed);
  if (row["energy_note"].is_string())
    notes.add(row,
              "no energy error is given, because energy is not conserved: " + row["energy_note"].get<std::string>());
  if (row.contains("energy_error_of"))
    notes.add(row, "the energy error is that of " + row["energy_error_of"].get<std::string>() +
                       ". Plots and recordings show the energy itself");
  if (row.contains("law_differences"))
    for (const Json& each : row["law_differences"]) notes.add(row, each.get<std::string>());
  if (row.contains("warnings"))
    for (const Json& each : row["warnings"]) notes.add(row, "warning: " + each.get<std::string>());
  if (row.value("fallbacks", 0L) > 0)
    notes.add(row, is_exact(row) ? count(row["fallbacks"], "step of an island was", "steps of islands were") +
                                       " left to the native solver"
                                 : "the MLCP solver failed in " + count(row["fallbacks"], "step", "steps") +
                                       ", which sequential impulses solved instead");
  if (row.value("substepped_steps", 0L) > 0)
    notes.add(row, count(row["substepped_steps"], "step of an island was", "steps of islands were") +
                       " divided into substeps");
  if (row["gap_corrected_m"].is_number() && row["gap_corrected_m"].get<double>() > 0)
    notes.add(row, "bodies were moved by at most " + number(row["gap_corrected_m"]) +
                       " m to close gaps at the start of a step");
  if (row.value("broken", 0L) > 0) notes.add(row, count(row["broken"], "joint", "joints") + " broke");
  if (row["force_basis"] == "bodies" && row.value("force_samples", 0L) > 0)
    notes.add(row, "forces are compared as their sum on each body");
  if (row["force_basis"] == "coordinates" && row.value("force_samples", 0L) > 0)
    notes.add(row, "forces are compared along the coordinates of the model, in the metric of the inverse mass matrix");
  if (row.contains("force_note") && row["force_note"].is_string() && !row["force_note"].get<std::string>().empty())
    notes.add(row, "forces: " + row["force_note"].get<std::string>());
}

}  // namespace

std::string grouped_natives(const Json& natives) {
  struct Group {
    std::string why, kind, name;
    bool one_kind = true;
    long n = 0;
  };
  std::vector<Group> groups;
  for (const Json& native : natives) {
    const std::string name = native.value("name", std::string()), why = native.value("why", std::string());
    // A joint without a name of its own is called by its kind and place: hinge#3.
    const std::size_t hash = name.find('#');
    const std::string kind = hash == std::string::npos ? std::string() : name.substr(0, hash);
    auto at = std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.why == why; });
    if (at == groups.end()) {
      groups.push_back({why, kind, name, true, 0});
      at = groups.end() - 1;
    }
    ++at->n;
    at->one_kind = at->one_kind && at->kind == kind;
  }
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.n > b.n; });
  std::string out;
  constexpr std::size_t most = 6;
  for (std::size_t i = 0; i < std::min(groups.size(), most); ++i) {
    const Group& g = groups[i];
    const std::string kind = g.one_kind && !g.kind.empty() ? g.kind : "joint";
    out += (i > 0 ? "; " : "") + (g.n == 1 ? g.name : std::to_string(g.n) + " " + kind + "s") + ": " + g.why;
  }
  if (groups.size() > most) out += "; and " + std::to_string(groups.size() - most) + " more kinds";
  return out;
}

std::string notes_text(const Json& rows) {
  Footnotes notes;
  for (const Json& row : rows) add_notes(row, notes);
  return notes.text(rows.size());
}

bool is_exact(const Json& row) {
  const std::string name = row.at("name");
  return name == "exact" || name.ends_with(":exact");
}

Json empty_row(const std::string& solver, const std::string& precision, const std::string& status) {
  Json row;
  row["name"] = solver;
  row["precision"] = precision;
  row["steps"] = 0;
  for (const char* key : {"ns_per_step", "max_gap_m", "rms_gap_m", "max_gap_rad", "max_gap_joint"}) row[key] = nullptr;
  row["user_gaps"] = Json::object();
  for (const char* key : {"max_energy_error_J", "energy_note"}) row[key] = nullptr;
  row["broken"] = 0;
  for (const char* key : {"force_rms_error_rel", "moment_rms_error_rel", "impulse_rms_error_rel"}) row[key] = nullptr;
  row["force_samples"] = 0;
  for (const char* key : {"force_basis", "force_note"}) row[key] = nullptr;
  row["fallbacks"] = 0;
  row["substepped_steps"] = 0;
  row["gap_corrected_m"] = nullptr;
  row["native"] = Json::array();
  row["status"] = status;
  return row;
}

std::string comparison_text(const Json& comparison) {
  const Json& rows = comparison["solvers"];
  std::vector<std::vector<std::string>> lines = {{"solver", "precision", "time/step [µs]", "max gap [m]", "rms gap [m]",
                                                  "max gap [rad]", "energy error [J]", "force error", "impulse error",
                                                  "status"}};
  for (const Json& row : rows) {
    lines.push_back({run_label(row), row["precision"], microseconds(row["ns_per_step"]), number(row["max_gap_m"]),
                     number(row["rms_gap_m"]), number(row["max_gap_rad"]), number(row["max_energy_error_J"]),
                     number(row["force_rms_error_rel"]), number(row["impulse_rms_error_rel"]), row["status"]});
  }
  std::string out = verdict_text(rows) + "\n";
  out += comparison.value("scene", std::string()) + ": ";
  if (comparison["bodies"].is_number())  // unknown where no solver ran
    out += count(comparison["bodies"], "body", "bodies") + ", " + count(comparison["joints"], "joint", "joints") + "; ";
  out += brief(comparison["duration"]) + " s in steps of " + brief(comparison["dt"]) + " s";
  if (comparison.value("warmup_steps", 0L) > 0)
    out += ", the first " + std::to_string(comparison.value("warmup_steps", 0L)) + " left out";
  if (comparison["gravity"].is_array())
    out += "; gravity (" + brief(comparison["gravity"][0]) + ", " + brief(comparison["gravity"][1]) + ", " +
           brief(comparison["gravity"][2]) + ") m/s², " + comparison.value("gravity_from", std::string());
  out += "\n\n" + table(lines, 2);
  out +=
      "\nForce error: relative rms difference between the joint forces that the solver reports and an independent\n"
      "dense solution at the same state, with the same contacts. Impulse error: the same for the impulses that\n"
      "it applied. Energy error: largest change of the energy since the start. Times are medians. A dash means\n"
      "that there is no such number: the run ended early, or the scene has no such quantity.\n";
  const std::string footnotes = notes_text(rows);
  if (!footnotes.empty()) out += "\n" + footnotes;
  return out;
}

}  // namespace linchpin::recording
