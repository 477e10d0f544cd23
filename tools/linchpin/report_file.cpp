#include "report_file.h"

#include "recording/gltf.h"
#include "recording/mcap.h"
#include "recording/page.h"

#include <linchpin/scene/title.h>

#include <CLI/CLI.hpp>

#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <vector>

namespace linchpin::cli {

namespace {

using Json = nlohmann::ordered_json;

// A page of this size opens in a second or two. What others read may be larger.
constexpr double most_bytes_of_page = 8e6, most_bytes_of_file = 2e8;

double frames_per_second(const std::string& text) {
  if (text.empty()) return recording::RecordingOptions().frames_per_second;
  double x = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (error != std::errc() || end != text.data() + text.size() || !(x >= 0.01 && x <= 1e6))
    throw std::invalid_argument("--frames is \"" + text + "\", expected a number from 0.01 to 1e6");
  return x;
}

Json scene_json(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  Json out = {{"file", path.substr(path.find_last_of('/') + 1)}, {"bytes", bytes.size()}, {"text", nullptr}};
  constexpr std::size_t most = 300'000;
  if (path.ends_with(".toml") && bytes.size() <= most) out["text"] = bytes;
  return out;
}

}  // namespace

void ReportOptions::add_to(CLI::App& verb) {
  verb.add_option("--report", report, "Write a page for a browser: plots, 3D playback and numbers");
  verb.add_option("--record", record,
                  "Write a recording, from which `linchpin report` and `linchpin compare` make pages");
  verb.add_option("--gltf", gltf, "Write a glTF 2.0 animation, a .gltf or .glb file, for Blender and other viewers");
  verb.add_option("--mcap", mcap,
                  "Write an MCAP log of poses, wrenches and scalars in double precision, for robotics viewers");
  verb.add_option(
      "--frames", frames,
      "Frames per second of these files, fewer where a page would become large. Default: 60, more in a short run");
}

std::vector<std::string> ReportOptions::files() const {
  std::vector<std::string> out;
  for (const std::string& file : {report, record, gltf, mcap})
    if (!file.empty()) out.push_back(file);
  return out;
}

bool is_binary_gltf(const std::string& path) {
  if (path.empty() || path.ends_with(".gltf")) return false;
  if (path.ends_with(".glb")) return true;
  throw std::invalid_argument("--gltf is \"" + path + "\", expected a name that ends with .gltf or .glb");
}

std::vector<std::pair<std::string, std::string>> ReportOptions::outputs() const {
  return {{"--report", report}, {"--record", record}, {"--gltf", gltf}, {"--mcap", mcap}};
}

ReportFiles::ReportFiles(const ReportOptions& options, const std::vector<std::string>& read, std::size_t runs)
    : wanted_(!options.files().empty()),
      recording_{
          frames_per_second(options.frames),
          (options.report.empty() && options.record.empty() ? most_bytes_of_file : most_bytes_of_page) / double(runs),
          !options.mcap.empty(),
          options.frames.empty() ? recording::RecordingOptions().least_frames : 0,  // who gives a number gets it
          recording::RecordingOptions().least_bytes / double(runs)},
      report_("--report", options.report, read),
      record_("--record", options.record, read),
      gltf_("--gltf", options.gltf, read),
      mcap_("--mcap", options.mcap, read),
      binary_gltf_(is_binary_gltf(options.gltf)) {}

Json ReportFiles::recording_json() const {
  return {{"frames_per_second", recording_.frames_per_second},
          {"most_bytes", recording_.most_bytes},
          {"full", recording_.full},
          {"least_frames", recording_.least_frames},
          {"least_bytes", recording_.least_bytes}};
}

void ReportFiles::write(const std::string& verb, const std::string& scene, const Json& comparison, Json motions) {
  if (!wanted_) return;
  Json recording = provenance(scene);
  recording["kind"] = "linchpin recording";
  recording["verb"] = verb;
  recording["comparison"] = comparison;
  add_words(recording);
  recording["motions"] = std::move(motions);
  // What refuses does so before anything is written.
  const std::string log = mcap_.temporary().empty() ? "" : mcap(recording);
  for (Json& motion : recording["motions"])
    if (motion.is_object()) motion.erase("full");
  const std::string animation = gltf_.temporary().empty() ? "" : gltf(recording, binary_gltf_);
  mcap_.write(log);
  gltf_.write(animation);
  record_.write(recording.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  report_.write(report_page(recording));
}

Json provenance(const std::string& scene) {
  Json out = recording::provenance(command_line(), scene_json(scene));
  const Json& text = out["scene"]["text"];
  if (const std::string title = text.is_string() ? scene::title_of(text.get<std::string>()) : ""; !title.empty())
    out["title"] = title;
  return out;
}

std::string& command_line() {
  static std::string text;
  return text;
}

}  // namespace linchpin::cli
