// What a run's expectations came to, as JSON and as text.
#pragma once

#include "brief.h"

#include <linchpin/scene.h>

#include <nlohmann/json.hpp>

#include <cstdio>
#include <string>
#include <vector>

namespace linchpin::cli {

inline nlohmann::ordered_json verdicts_json(const scene::Judge& judge) {
  using Json = nlohmann::ordered_json;
  const auto value = [](const std::vector<double>& x) {
    return x.empty() ? Json() : x.size() == 1 ? Json(x.front()) : Json(x);
  };
  Json out = Json::array();
  for (const scene::Judge::Verdict& v : judge.verdicts()) {
    const scene::Expectation& e = *v.expectation;
    out.push_back(Json::object());
    if (e.value.has_name()) out.back()["name"] = e.value.title();
    out.back().update({{"value", e.value.text()},
                       {"at", e.throughout ? Json() : Json(e.at)},
                       {"is", value(e.is)},
                       {"got", value(v.got)},
                       {"error", v.judged ? Json(v.error) : Json()},
                       {"tolerance", v.tolerance},
                       {"met", v.tolerance > 0 ? Json(v.met) : Json()}});
    if (v.not_a_number_at) out.back()["not_a_number_at"] = *v.not_a_number_at;
    if (!v.judged) out.back()["not_judged"] = judge.why_not(v);
  }
  return out;
}

/// One line each; empty without expectations.
inline std::string verdicts_text(const nlohmann::ordered_json& verdicts) {
  std::string out;
  for (const auto& v : verdicts) {
    const bool judged = !v.contains("not_judged"), asked = v["met"].is_boolean();
    std::string numbers;
    if (judged && v.contains("not_a_number_at"))
      numbers = "  is not a number at " + brief(v["not_a_number_at"].get<double>()) + " s";
    else if (judged && v["error"].is_number())
      numbers = "  error " + brief(v["error"].get<double>()) + ", tolerance " + brief(v["tolerance"].get<double>());
    char at[48] = "at all times";
    if (v["at"].is_number()) std::snprintf(at, sizeof at, "at %g s", v["at"].get<double>());
    const std::string why = judged ? "" : "  (" + v["not_judged"].get<std::string>() + ")";
    out += std::string(!asked                 ? "  not tested  "
                       : !judged              ? "  NOT TESTED  "
                       : v["met"].get<bool>() ? "  met         "
                                              : "  NOT MET     ") +
           (v.contains("name") ? v["name"].get<std::string>() + ": " : std::string()) + v["value"].get<std::string>() +
           " " + at + (v["is"].is_null() ? std::string(" stays") : " = " + v["is"].dump()) + numbers + why + "\n";
  }
  return out;
}

/// How many are not met, those included that were asked of this host and could not be judged.
inline int unmet(const nlohmann::ordered_json& verdicts) {
  int n = 0;
  for (const auto& v : verdicts) n += v["met"].is_boolean() && !v["met"].get<bool>();
  return n;
}

}  // namespace linchpin::cli
