#include "recording_file.h"

#include "messages.h"
#include "recording/check.h"
#include "recording/compare_text.h"
#include "recording/page.h"

#include <fstream>
#include <stdexcept>
#include <utility>

namespace linchpin::cli {

namespace {

using Json = nlohmann::ordered_json;

// What report_file.cpp wrote, or nothing after saying what is wrong: the file may have come from anywhere.
bool read_recording(const std::string& path, Json& recording) {
  std::string text;
  if (!read_file(path, text)) return false;
  recording = Json::parse(text, nullptr, false);
  const auto fault = [&]() -> std::string {
    if (!recording.is_object() || recording.value("kind", Json()) != "linchpin recording")
      return "is not a recording of linchpin. Make one with run --record or compare --record";
    if (recording.value("schema", Json()) != 2)
      return "is a recording of schema " + recording.value("schema", Json()).dump() + ", expected 2. Record it again";
    try {
      linchpin::recording::demand_sound(recording);
    } catch (const std::runtime_error& e) {
      return std::string("is a damaged recording: ") + e.what() + ". Record it again";
    }
    return "";
  }();
  if (fault.empty()) {
    const Json nothing = linchpin::recording::empty_row("", "", "");
    for (Json& row : recording["comparison"]["solvers"])
      for (const auto& [key, value] : nothing.items())
        if (!row.contains(key)) row[key] = value;
    return true;
  }
  complain(path, {}, fault);
  return false;
}

}  // namespace

bool looks_like_recording(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string begin(256, '\0');
  in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return begin.starts_with("{") && begin.find("linchpin recording") != std::string::npos;
}

bool read_recordings(const std::vector<std::string>& paths, Json& all) {
  std::vector<Json> recordings(paths.size());
  for (std::size_t i = 0; i < recordings.size(); ++i)
    if (!read_recording(paths[i], recordings[i])) return false;
  all = recording::merge(std::move(recordings));
  return true;
}

}  // namespace linchpin::cli
