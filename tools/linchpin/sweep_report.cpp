#include "sweep_report.h"

#include "report_file.h"

#include <cmath>
#include <cstdlib>

namespace linchpin::cli {

namespace {

using Json = nlohmann::ordered_json;

// The fields of a line of a table of ours, quotes taken off.
std::vector<std::string> fields(const std::string& line) {
  std::vector<std::string> out(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size() && line[i] != '\n'; ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"')
      out.back() += line[i++];
    else if (line[i] == '"')
      quoted = !quoted;
    else if (line[i] == ',' && !quoted)
      out.emplace_back();
    else
      out.back() += line[i];
  }
  return out;
}

Json number(const std::string& field) {
  char* end = nullptr;
  const double x = std::strtod(field.c_str(), &end);
  return field.empty() || *end != '\0' ? Json() : Json(x);
}
Json number(double x) { return std::isfinite(x) ? Json(x) : Json(); }

}  // namespace

Json sweep_json(const SweepPicture& picture) {
  Json out = provenance(picture.scene);
  out["kind"] = "linchpin sweep";
  out["verb"] = "sweep";
  out["random"] = picture.random;
  const std::vector<std::string> names = fields(picture.header);
  const std::size_t parameters = picture.parameters.size(), first = 3 + parameters;  // case, parameters, status, time
  const bool at_rest = names[first - 1] == "stability";
  out["parameters"] = Json::array();
  for (std::size_t i = 0; i < parameters; ++i)
    out["parameters"].push_back({{"name", names[1 + i]}, {"own", number(picture.own[i])}});
  out["end"] = names[first - 1];
  out["columns"] = Json::array();
  for (std::size_t i = 0; i < picture.columns.size(); ++i)
    out["columns"].push_back(
        {{"name", names[first + i]},
         {"expected", picture.columns[i].expected},
         {"tolerance", picture.columns[i].tolerance > 0 ? Json(picture.columns[i].tolerance) : Json()},
         {"at_own", number(picture.columns[i].at_own)},
         {"known", Json()}});
  // Every n-th row, where there are too many; counts are of all.
  const std::size_t every = (picture.rows.size() + most_rows_of_page - 1) / most_rows_of_page;
  out["cases"] = picture.rows.size();
  out["every"] = every;
  std::size_t failed = 0;
  Json rows = Json::array();
  for (std::size_t n = 0; n < picture.rows.size(); ++n) {
    const std::vector<std::string> row = fields(picture.rows[n]);
    const bool ok = row[first - 2].starts_with("ok");
    failed += !ok;
    if (n % every != 0) continue;
    Json each = Json::array({number(row[0])});
    for (std::size_t i = 0; i < parameters; ++i) each.push_back(number(row[1 + i]));
    each.push_back(row[first - 2]);
    each.push_back(at_rest ? Json(row[first - 1]) : number(row[first - 1]));
    for (std::size_t i = 0; i < picture.columns.size(); ++i) each.push_back(number(row[first + i]));
    rows.push_back(std::move(each));
  }
  out["failed"] = failed;
  for (std::size_t i = 0; i < picture.columns.size(); ++i) {
    const std::vector<double>& known = picture.columns[i].known;
    // An answer that is the same everywhere is a number, true of the scene's own parameters; one that follows the
    // parameters is a curve.
    bool follows = false;
    for (const double x : known) follows = follows || (std::isfinite(x) && x != picture.columns[i].at_own);
    if (!follows) continue;
    Json& list = out["columns"][i]["known"] = Json::array();
    for (std::size_t n = 0; n < known.size(); n += every) list.push_back(number(known[n]));
  }
  out["rows"] = std::move(rows);
  return out;
}

}  // namespace linchpin::cli
