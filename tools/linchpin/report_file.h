// What `run` and `compare` leave behind for looking at: a recording (one JSON object, docs/how-to/reports.md), the page
// made from it, which is the template of tools/report with the recording in it, and files for the viewers of others.
#pragma once

#include "recording/output_file.h"

#include <linchpin/recording.h>

#include <nlohmann/json.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
}

namespace linchpin::cli {

// What the command shares with programs that record themselves (tools/recording).
using namespace recording;

/// The words of the command line.
struct ReportOptions {
  std::string report, record, gltf, mcap, frames;
  void add_to(CLI::App& verb);
  /// Those that were asked for.
  std::vector<std::string> files() const;
  /// Each with its option, an empty path for one that was not.
  std::vector<std::pair<std::string, std::string>> outputs() const;
};

class ReportFiles {
 public:
  /// @param read  the scene's files, itself first: none of them is written to. @param runs  that share one page's size
  /// @throws std::invalid_argument for what cannot be written or was not understood.
  ReportFiles(const ReportOptions& options, const std::vector<std::string>& read, std::size_t runs);

  bool wanted() const { return wanted_; }
  const recording::RecordingOptions* recording() const { return wanted_ ? &recording_ : nullptr; }
  /// As a worker's job has it.
  nlohmann::ordered_json recording_json() const;
  /// Nothing when nothing was asked for. @throws std::invalid_argument, before any of them is written, where there is
  /// nothing to show
  /// @param comparison  what `compare --json` prints, of `run` too. @param motions  by its solvers, null for none
  void write(const std::string& verb, const std::string& scene, const nlohmann::ordered_json& comparison,
             nlohmann::ordered_json motions);

 private:
  bool wanted_ = false;
  recording::RecordingOptions recording_;
  OutputFile report_, record_, gltf_, mcap_;
  bool binary_gltf_ = false;
};

/// By the end of a file's name. @throws std::invalid_argument
bool is_binary_gltf(const std::string& path);

/// What made a recording or a sweep (recording/page.h), of this command.
nlohmann::ordered_json provenance(const std::string& scene);

/// The command line, for reports to say what made them. Set once, by main.
std::string& command_line();

}  // namespace linchpin::cli
