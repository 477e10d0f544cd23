// `linchpin convert`: an MJCF file as a scene in TOML.
#include "commands.h"
#include "messages.h"
#include "mjcf.h"
#include "recording/output_file.h"

#include <CLI/CLI.hpp>

#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>

namespace linchpin::cli {

namespace {

struct ConvertArguments {
  std::string file, scene;
};

// The scene with what it has not, in comments.
std::string commented(const std::string& file, const scene::MjcfScene& scene) {
  std::string out = "# Made of " + file + " by linchpin convert.\n";
  for (const scene::Note& note : scene.notes) out += "# note: " + note.shown() + "\n";
  return out + scene.text;
}

int run_convert(const ConvertArguments& arguments) try {
  std::string text;
  if (!read_file(arguments.file, text)) return exit_bad_input;
  if (!is_mjcf(arguments.file)) {
    complain(arguments.file, {},
             "is no MJCF file: its root element is not <mujoco>. All commands read .toml, .urdf, .sdf and .bullet "
             "files as they are");
    return exit_bad_input;
  }
  recording::OutputFile output("SCENE", arguments.scene, {arguments.file});
  scene::MjcfScene scene;
  try {
    scene = import_mjcf(arguments.file);
  } catch (const std::runtime_error& e) {
    complain(arguments.file, text, e.what());
    return exit_bad_input;
  }
  constexpr std::size_t most_names = 3;
  for (const scene::Note& note : scene.notes) std::cerr << "note: " << note.shown(most_names) << "\n";
  const std::string converted = commented(arguments.file, scene);
  if (arguments.scene.empty()) {
    std::cout << converted;
    return exit_ok;
  }
  output.write(converted);
  std::cout << "wrote " << arguments.scene << "\n";
  return exit_ok;
} catch (const std::invalid_argument& e) {
  return misused("convert", e.what());
}

}  // namespace

void add_convert(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<ConvertArguments>();
  CLI::App* verb = app.add_subcommand("convert", "Write an MJCF file of MuJoCo as a .toml scene");
  verb->add_option("FILE", arguments->file, "An MJCF file")->required();
  verb->add_option("SCENE", arguments->scene, "The .toml file to write. Default: standard output");
  verb->footer(
      "Notes, and comments in the scene, name what the scene has not.\n"
      "Exit codes: 0 ok, 2 usage or a file that cannot be written, 3 bad file.");
  verb->callback([arguments, &exit_code] { exit_code = run_convert(*arguments); });
}

}  // namespace linchpin::cli
