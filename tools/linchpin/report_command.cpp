// `linchpin report`: recordings become a page, or an animation.
#include "commands.h"
#include "messages.h"
#include "recording/gltf.h"
#include "recording/mcap.h"
#include "recording/page.h"
#include "recording_file.h"
#include "report_file.h"

#include <CLI/CLI.hpp>

#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace linchpin::cli {

namespace {

using Json = nlohmann::ordered_json;

struct ReportArguments {
  std::vector<std::string> recordings;
  std::string out, gltf, mcap;
  bool json = false;
};

int run_report(const ReportArguments& arguments) try {
  if (arguments.out.empty() && arguments.gltf.empty() && arguments.mcap.empty())
    throw std::invalid_argument("name an output with --out, --gltf or --mcap");
  demand_other_places({{"--out", arguments.out}, {"--gltf", arguments.gltf}, {"--mcap", arguments.mcap}});
  OutputFile out("--out", arguments.out, arguments.recordings, "recording");
  OutputFile animation("--gltf", arguments.gltf, arguments.recordings, "recording");
  OutputFile log("--mcap", arguments.mcap, arguments.recordings, "recording");
  const bool binary = is_binary_gltf(arguments.gltf);
  Json all;
  if (!read_recordings(arguments.recordings, all)) return exit_bad_input;
  const std::string shown = arguments.gltf.empty() ? "" : gltf(all, binary);
  log.write(arguments.mcap.empty() ? "" : mcap(all));
  animation.write(shown);
  if (!arguments.out.empty()) out.write(report_page(all));
  if (arguments.json) {
    Json written = {{"schema", 1}};
    if (!arguments.out.empty()) written["out"] = arguments.out;
    if (!arguments.gltf.empty()) written["gltf"] = arguments.gltf;
    if (!arguments.mcap.empty()) written["mcap"] = arguments.mcap;
    written["recordings"] = arguments.recordings.size();
    std::cout << written.dump(2) << "\n";
    return exit_ok;
  }
  for (const std::string& file : {arguments.gltf, arguments.mcap, arguments.out})
    if (!file.empty()) std::cout << "wrote " << file << "\n";
  return exit_ok;
} catch (const std::invalid_argument& e) {
  std::cerr << "linchpin report: " << e.what() << "\n";
  return exit_usage;
}

}  // namespace

void add_report(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<ReportArguments>();
  CLI::App* verb = app.add_subcommand("report", "Make a page or an animation from recordings of one scene");
  verb->add_option("RECORDING", arguments->recordings, "Files that run or compare wrote with --record")->required();
  verb->add_option("--out", arguments->out, "The page, an .html file");
  verb->add_option("--gltf", arguments->gltf, "The motions as a glTF 2.0 animation, a .gltf or .glb file");
  verb->add_option(
      "--mcap", arguments->mcap,
      "An MCAP log of poses, forces and scalars for robotics viewers, in the single precision of recordings");
  verb->add_flag("--json", arguments->json, "Print one JSON object (schema 1) and nothing else on stdout");
  verb->footer("Exit codes: 0 ok, 2 usage, 3 bad recording.");
  verb->callback([arguments, &exit_code] { exit_code = run_report(*arguments); });
}

}  // namespace linchpin::cli
