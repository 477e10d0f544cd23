#include "page.h"

#include "compare_text.h"

#include <linchpin/version.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <utility>

// The page, as tools/report/build.mjs made it; CMake says where it lies. Assembled, not compiled: a string literal of
// this length is nothing that compilers are made for.
asm(".section .rodata\n"
    ".global linchpin_report_template\n"
    ".global linchpin_report_template_end\n"
    ".hidden linchpin_report_template\n"
    ".hidden linchpin_report_template_end\n"
    "linchpin_report_template:\n"
    ".incbin \"" LINCHPIN_REPORT_TEMPLATE
    "\"\n"
    "linchpin_report_template_end:\n"
    ".byte 0\n"
    ".previous\n");
extern "C" const char linchpin_report_template[];
extern "C" const char linchpin_report_template_end[];

namespace linchpin::recording {

namespace {

using Json = nlohmann::ordered_json;

Json lines(const std::string& text) {
  Json out = Json::array();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const std::size_t first = line.find_first_not_of(' ');
    if (first != std::string::npos) out.push_back(line.substr(first));
    at = end + 1;
  }
  return out;
}

}  // namespace

void add_words(Json& recording) {
  const Json& solvers = recording["comparison"]["solvers"];
  Json verdict = lines(verdict_text(solvers)),
       notes = lines(notes_text(solvers));  // a new key moves all that are there
  recording["verdict"] = std::move(verdict);
  recording["notes"] = std::move(notes);
}

Json provenance(const std::string& command, Json scene) {
  return {{"schema", 2},           {"kind", nullptr}, {"linchpin", LINCHPIN_VERSION}, {"compiler", "g++ " __VERSION__},
          {"commands", {command}}, {"verb", nullptr}, {"scene", std::move(scene)}};
}

namespace {

/// Title of the page: of the scene, or the name of its file, and what the page is.
std::string title_of(const Json& recording) {
  std::string title;
  const auto look = [&](const Json& of, const char* key) {
    if (title.empty() && of.is_object() && of.contains(key) && of.at(key).is_string()) title = of.at(key);
  };
  const Json scene = recording.value("scene", Json());
  look(scene, "title");
  look(recording, "title");
  look(scene, "file");
  const Json kind = recording.value("kind", Json());
  return title + (kind == "linchpin sweep"   ? " – linchpin sweep"
                  : kind == "linchpin fit"   ? " – linchpin fit"
                  : kind == "linchpin modes" ? " – linchpin modes"
                                             : " – linchpin report");
}

/// Text of an HTML element.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

void replace_mark(std::string& page, std::string_view mark, const std::string& text) {
  const std::size_t at = page.find(mark);
  if (at == std::string::npos)
    throw std::logic_error("internal error: the report template has no mark " + std::string(mark));
  page.replace(at, mark.size(), text);
}

}  // namespace

std::string report_page(const Json& recording) {
  std::string page(linchpin_report_template,
                   static_cast<std::size_t>(linchpin_report_template_end - linchpin_report_template));
  // In a script element nothing but "</script" and "<!--" has a meaning, and neither is without "<".
  std::string text;
  for (const char c : recording.dump(-1, ' ', false, Json::error_handler_t::replace))
    c == '<' ? text += "\\u003c" : text += c;
  replace_mark(page, "@RECORDING@", text);
  replace_mark(page, "@TITLE@", escaped(title_of(recording)));  // it comes before the recording
  return page;
}

namespace {

// Names of what a run has, by which programs that have no scene file tell one scene from another.
Json names(const Json& recording, const char* of) {
  Json out = Json::array();
  for (const Json& motion : recording["motions"]) {
    if (!motion.is_object()) continue;
    for (const Json& each : motion.at(of)) out.push_back(each.at("name"));
    break;
  }
  return out;
}

void demand_one_scene(const Json& a, const Json& b) {
  const std::string file = a["scene"]["file"].dump();
  const auto refuse = [](const std::string& why) { throw std::invalid_argument(why); };
  if (a["scene"].value("file", Json()) != b["scene"].value("file", Json()))
    refuse("the recordings are of two scenes: " + file + " and " + b["scene"]["file"].dump());
  if (a["scene"] != b["scene"]) refuse(file + " was changed between the two recordings. Record both again");
  for (const char* key : {"gravity", "warmup_steps"}) {
    const Json usual = std::string_view(key) == "warmup_steps" ? Json(0) : Json();
    const Json one = a["comparison"].value(key, usual), other = b["comparison"].value(key, usual);
    if (one != other)
      refuse("the recordings of " + file + " differ in " + key + ": " + one.dump() + " and " + other.dump());
  }
  if (a["scene"]["text"].is_string() || a["scene"].value("bytes", 0L) > 0) return;
  for (const char* of : {"bodies", "constraints"})
    if (names(a, of) != names(b, of)) refuse("the recordings of " + file + " have different " + of);
}

}  // namespace

Json merge(std::vector<Json> recordings) {
  Json out = std::move(recordings.at(0));
  for (std::size_t i = 1; i < recordings.size(); ++i) {
    Json& more = recordings[i];
    demand_one_scene(out, more);
    for (Json& command : more["commands"]) out["commands"].push_back(std::move(command));
    for (Json& solver : more["comparison"]["solvers"]) {
      // One head has one step: a run that had another says so below the table.
      for (const char* key : {"dt", "duration"})
        if (const Json& x = more["comparison"].value(key, Json()); x != out["comparison"].value(key, Json()))
          if (!solver.contains("ran_in_steps"))
            solver["ran_in_steps"] = {more["comparison"].at("dt"), more["comparison"].at("duration")};
      if (solver.contains("ran_in_steps")) solver["label"] = run_label(solver);
      out["comparison"]["solvers"].push_back(std::move(solver));
    }
    for (Json& motion : more["motions"]) out["motions"].push_back(std::move(motion));
    out["verb"] = "compare";
  }
  Json said = out.value("notes_of_program", Json::array());
  add_words(out);
  for (Json& line : said) out["notes"].push_back(std::move(line));
  return out;
}

}  // namespace linchpin::recording
