// `linchpin new`: a scene to begin with. The templates are scenes of the gallery, put in at build time.
#include "commands.h"
#include "messages.h"
#include "templates.h"

#include <CLI/CLI.hpp>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace linchpin::cli {

namespace {

int run_new(const std::string& name) {
  std::vector<std::string> names;
  for (const Template& each : templates()) {
    if (each.name == name) {
      std::cout << each.text;
      return exit_ok;
    }
    names.emplace_back(each.name);
  }
  const std::string near = nearest(name, names);
  std::cerr << "linchpin new: there is no template \"" << name << "\"";
  if (near.empty()) {
    std::cerr << "; there are";
    for (const std::string& each : names) std::cerr << " " << each;
  } else {
    std::cerr << "; did you mean \"" << near << "\"?";
  }
  std::cerr << "\n";
  return exit_usage;
}

}  // namespace

void add_new(CLI::App& app, int& exit_code) {
  const auto name = std::make_shared<std::string>("pendulum");
  CLI::App* verb = app.add_subcommand("new", "Print an example scene: linchpin new winch > winch.toml");
  std::string names;
  for (const Template& each : templates()) names += (names.empty() ? "" : ",") + std::string(each.name);
  verb->add_option("TEMPLATE", *name, "The example, a scene of the gallery")
      ->type_name("{" + names + "}")
      ->capture_default_str();
  verb->footer("Next: linchpin check winch.toml, linchpin run winch.toml. Exit codes: 0 ok, 2 usage.");
  verb->callback([name, &exit_code] { exit_code = run_new(*name); });
}

}  // namespace linchpin::cli
