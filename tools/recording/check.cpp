#include "check.h"

#include "base64.h"

#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace linchpin::recording {

namespace {

using Json = nlohmann::ordered_json;

// A value with the way to it, for messages: "motions[0].frames".
struct Field {
  const Json& value;
  std::string name;

  [[noreturn]] void refuse(const std::string& expected) const {
    std::string shown = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (shown.size() > 60) shown = shown.substr(0, 57) + "...";
    throw std::runtime_error(name + " is " + shown + ", expected " + expected);
  }
  void demand(bool so, const char* expected) const {
    if (!so) refuse(expected);
  }
  bool has(const char* key) const { return value.contains(key); }
  Field at(const char* key) const {
    demand(value.is_object(), "an object");
    if (!value.contains(key)) throw std::runtime_error((name.empty() ? "" : name + ".") + key + " is missing");
    return {value[key], (name.empty() ? "" : name + ".") + key};
  }
  Field item(std::size_t i) const { return {value[i], name + "[" + std::to_string(i) + "]"}; }
  std::size_t items() const {
    demand(value.is_array(), "an array");
    return value.size();
  }

  void text() const { demand(value.is_string(), "a text"); }
  void one_of(std::initializer_list<std::string_view> words) const {
    text();
    std::string all;
    for (const std::string_view word : words) {
      if (value.get_ref<const std::string&>() == word) return;
      all += (all.empty() ? "one of " : ", ") + std::string(word);
    }
    refuse(all);
  }
  void texts() const {
    for (std::size_t i = 0; i < items(); ++i) item(i).text();
  }
  double number() const {
    demand(value.is_number() && std::isfinite(value.get<double>()), "a number");
    return value.get<double>();
  }
  void number_or_null() const {
    if (!value.is_null()) (void)number();
  }
  long whole(long least, long most) const {
    const bool so = value.is_number_unsigned()
                        ? value.get<unsigned long>() <= static_cast<unsigned long>(most) && value.get<long>() >= least
                        : value.is_number_integer() && value.get<long>() >= least && value.get<long>() <= most;
    if (!so) refuse("a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    return value.get<long>();
  }
  void numbers(std::size_t n) const {
    if (items() != n) refuse(std::to_string(n) + " numbers");
    for (std::size_t i = 0; i < n; ++i) (void)item(i).number();
  }
};

// What a page holds is some 11 MB; a file that was recorded for nothing else may be a hundred times that.
constexpr long most_frames = 1'000'000'000;

// @return its bytes; checked by length before room is asked for
std::string column(const Field& columns, const char* name, std::size_t bytes) {
  const Field field = columns.at(name);
  field.text();
  const std::string& text = field.value.get_ref<const std::string&>();
  if (text.size() != (bytes + 2) / 3 * 4)
    throw std::runtime_error(field.name + " has " + std::to_string(text.size()) + " letters of base64, expected " +
                             std::to_string((bytes + 2) / 3 * 4) + " for " + std::to_string(bytes) + " bytes");
  std::string out;
  if (!from_base64(text, out) || out.size() != bytes) field.refuse("base64 of " + std::to_string(bytes) + " bytes");
  return out;
}

void demand_shape(const Field& of) {
  of.at("shape").one_of({"none", "box", "sphere", "capsule", "cylinder", "hull"});
  of.at("size").numbers(3);
  if (of.at("shape").value != "hull") return;
  const Field text = of.at("vertices"), triangles = of.at("triangles");
  text.text();
  std::string bytes;
  if (!from_base64(text.value.get_ref<const std::string&>(), bytes) || bytes.empty() || bytes.size() % 12 != 0 ||
      bytes.size() / 12 > 65535)
    text.refuse("base64 of three numbers for each of at most 65535 vertices");
  for (std::size_t i = 0; i + 4 <= bytes.size(); i += 4) {
    float x = 0;
    std::memcpy(&x, &bytes[i], sizeof x);
    if (!std::isfinite(x)) text.refuse("finite vertices");
  }
  if (triangles.items() % 3 != 0) triangles.refuse("three numbers for each triangle");
  for (std::size_t i = 0; i < triangles.items(); ++i)
    (void)triangles.item(i).whole(0, static_cast<long>(bytes.size() / 12) - 1);
}

void demand_motion(const Field& motion) {
  const auto frames = static_cast<std::size_t>(motion.at("frames").whole(1, most_frames));
  (void)motion.at("every").whole(1, most_frames);
  motion.at("dt").demand(motion.at("dt").number() > 0, "a step above 0");
  const Field bodies = motion.at("bodies"), links = motion.at("constraints"), signals = motion.at("signals");
  std::size_t placed = 0, moving = 0;
  for (std::size_t i = 0; i < bodies.items(); ++i) {
    const Field body = bodies.item(i);
    body.at("name").text();
    body.at("kind").one_of({"rigid", "particle", "fixed", "kinematic", "coordinate"});
    if (body.at("kind").value == "coordinate") {
      body.at("unit").text();
      if (body.has("force_unit")) body.at("force_unit").text();
      continue;
    }
    ++placed;
    demand_shape(body);
    if (!body.has("parts")) continue;
    const Field parts = body.at("parts");
    for (std::size_t k = 0; k < parts.items(); ++k) {
      demand_shape(parts.item(k));
      parts.item(k).at("position").numbers(3);
      parts.item(k).at("rotation").numbers(4);
    }
  }
  for (std::size_t i = 0; i < links.items(); ++i) {
    const Field link = links.item(i);
    link.at("name").text();
    link.at("unit").text();
    const Field of = link.at("bodies");
    for (std::size_t k = 0; k < of.items(); ++k) (void)of.item(k).whole(-1, static_cast<long>(bodies.items()) - 1);
    (void)link.at("on").whole(0, of.items() == 0 ? 0 : static_cast<long>(of.items()) - 1);
    if (link.at("at").value.is_null())
      ++moving;
    else
      link.at("at").numbers(3);
  }
  for (std::size_t i = 0; i < signals.items(); ++i) {
    signals.item(i).at("name").text();
    signals.item(i).at("unit").text();
  }
  motion.at("energy_at_start_J").number_or_null();

  const Field columns = motion.at("columns");
  const std::string times = column(columns, "t", 4 * frames);
  float before = -std::numeric_limits<float>::infinity();
  for (std::size_t f = 0; f < frames; ++f) {
    float t = 0;
    std::memcpy(&t, &times[4 * f], sizeof t);
    if (!std::isfinite(t) || t < before)
      throw std::runtime_error(columns.name + ".t is " + std::to_string(t) + " at frame " + std::to_string(f) +
                               ", expected a time, no earlier than the one before");
    before = t;
  }
  const auto wide = [&](const char* name, std::size_t bytes) { (void)column(columns, name, bytes * frames); };
  wide("position", 12 * placed);
  wide("rotation", 8 * placed);
  wide("coordinate", 8 * (bodies.items() - placed));
  wide("gap", 4 * links.items());
  wide("force", 12 * links.items());
  wide("signal", 4 * signals.items());
  if (columns.has("energy")) wide("energy", 4);
  if (columns.has("point")) wide("point", 12 * moving);
  for (const char* name : {"moment", "ideal", "nonideal", "stabilisation"})
    if (columns.has(name)) wide(name, 4 * links.items());
  if (columns.has("nonideal") && !columns.has("ideal"))
    throw std::runtime_error(columns.name + ".ideal is missing, and nonideal is there");
}

void demand_row(const Field& row) {
  for (const char* key : {"name", "precision", "status"}) row.at(key).text();
  for (const char* key : {"steps", "ns_per_step", "max_gap_m", "rms_gap_m", "max_gap_rad", "max_energy_error_J",
                          "broken", "force_rms_error_rel", "moment_rms_error_rel", "impulse_rms_error_rel",
                          "force_samples", "fallbacks", "substepped_steps", "gap_corrected_m"})
    if (row.has(key)) row.at(key).number_or_null();
  for (const char* key : {"steps", "broken", "force_samples", "fallbacks", "substepped_steps"})
    if (row.has(key)) (void)row.at(key).whole(0, most_frames);
  for (const char* key : {"max_gap_joint", "energy_note", "force_basis", "force_note", "energy_error_of"})
    if (row.has(key) && !row.at(key).value.is_null()) row.at(key).text();
  if (row.has("user_gaps")) {
    const Field gaps = row.at("user_gaps");
    gaps.demand(gaps.value.is_object(), "an object");
    for (const auto& [name, gap] : gaps.value.items()) Field{gap, gaps.name + "." + name}.number_or_null();
  }
  if (row.has("native"))
    for (std::size_t i = 0; i < row.at("native").items(); ++i) {
      row.at("native").item(i).at("name").text();
      row.at("native").item(i).at("why").text();
    }
  if (row.has("rank")) {
    const Field rank = row.at("rank");
    for (const char* key : {"rank", "rows"}) (void)rank.at(key).whole(0, most_frames);
    for (const char* key : {"redundant", "undetermined", "contradictory"}) rank.at(key).texts();
  }
  if (row.has("ran_in_steps")) row.at("ran_in_steps").numbers(2);
  if (row.has("method")) {
    const Field method = row.at("method");
    method.demand(method.value.is_object(), "an object");
    for (const char* key : {"host", "integrator", "stabilisation"})
      if (method.has(key)) method.at(key).text();
  }
  if (row.has("expect"))
    for (std::size_t i = 0; i < row.at("expect").items(); ++i) {
      const Field verdict = row.at("expect").item(i);
      verdict.at("value").text();
      if (verdict.has("name")) verdict.at("name").text();
    }
}

}  // namespace

void demand_sound(const Json& recording) {
  const Field all{recording, ""};
  all.at("commands").texts();
  if (all.has("title")) all.at("title").text();
  for (const char* key : {"linchpin", "compiler", "verb"})
    if (all.has(key)) all.at(key).text();
  for (const char* key : {"verdict", "notes", "notes_of_program"})
    if (all.has(key)) all.at(key).texts();
  const Field scene = all.at("scene");
  scene.at("file").text();
  (void)scene.at("bytes").whole(0, std::numeric_limits<long>::max());
  if (!scene.at("text").value.is_null()) scene.at("text").text();
  const Field comparison = all.at("comparison");
  comparison.at("dt").demand(comparison.at("dt").number() > 0, "a step above 0");
  comparison.at("duration").demand(comparison.at("duration").number() >= 0, "a time of at least 0");
  for (const char* key : {"bodies", "joints"})
    if (!comparison.at(key).value.is_null()) (void)comparison.at(key).whole(0, most_frames);
  if (comparison.has("warmup_steps")) (void)comparison.at("warmup_steps").whole(0, most_frames);
  for (const char* key : {"scene", "gravity_from", "host"})
    if (comparison.has(key) && !comparison.at(key).value.is_null()) comparison.at(key).text();
  if (!comparison.at("gravity").value.is_null()) comparison.at("gravity").numbers(3);
  const Field solvers = comparison.at("solvers"), motions = all.at("motions");
  if (solvers.items() == 0) solvers.refuse("a solver at least");
  if (motions.items() != solvers.items())
    throw std::runtime_error("motions are " + std::to_string(motions.items()) + ", expected " +
                             std::to_string(solvers.items()) + ", one for each of comparison.solvers");
  for (std::size_t i = 0; i < solvers.items(); ++i) {
    demand_row(solvers.item(i));
    if (!motions.item(i).value.is_null()) demand_motion(motions.item(i));
  }
}

}  // namespace linchpin::recording
