// The command `linchpin`: finds the verb, turns mistakes on the command line into exit code 2 with the nearest known
// word.
#include "commands.h"
#include "messages.h"
#include "renamed_options.h"
#include "report_file.h"

#include <linchpin/version.h>

#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

namespace {

using linchpin::cli::nearest;

std::vector<std::string> verbs(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(verb->get_name());
  return names;
}

std::vector<std::string> options(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

int misused(const std::string& what, const std::string& suggestion, const std::string& help) {
  std::cerr << "linchpin: " << what;
  if (!suggestion.empty()) std::cerr << "; did you mean \"" << suggestion << "\"?";
  std::cerr << "\nTry \"" << help << "\".\n";
  return linchpin::cli::exit_usage;
}

// What CLI11 could not place: a misspelt option, most often.
std::string first_stray(const CLI::App& app, const CLI::App& verb) {
  auto strays = verb.remaining();
  if (strays.empty()) strays = app.remaining(true);
  return strays.empty() ? std::string() : strays.front();
}

// The command as one would type it again.
std::string as_typed(int argc, char** argv) {
  std::string out = "linchpin";
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool plain = !word.empty() && word.find_first_of(" \t\n\"'\\$`*?()[]{}<>|&;#~!") == std::string::npos;
    std::string quoted;
    for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    out += " " + (plain ? word : "'" + quoted + "'");
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("linchpin: exact constraint forces, by the Udwadia-Kalaba equation", "linchpin");
  app.set_version_flag("--version", "linchpin " LINCHPIN_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 ok, 2 usage, 3 bad input, 4 physics failure. \"linchpin COMMAND --help\" describes a command.");

  linchpin::cli::command_line() = as_typed(argc, argv);
  int exit_code = linchpin::cli::exit_ok;
  linchpin::cli::add_new(app, exit_code);
  linchpin::cli::add_convert(app, exit_code);
  linchpin::cli::add_check(app, exit_code);
  linchpin::cli::add_run(app, exit_code);
  linchpin::cli::add_compare(app, exit_code);
  linchpin::cli::add_explain(app, exit_code);
  linchpin::cli::add_equilibrium(app, exit_code);
  linchpin::cli::add_linearize(app, exit_code);
  linchpin::cli::add_sensitivities(app, exit_code);
  linchpin::cli::add_sweep(app, exit_code);
  linchpin::cli::add_fit(app, exit_code);
  linchpin::cli::add_report(app, exit_code);
  linchpin::cli::add_solve(app, exit_code);
  linchpin::cli::add_bench(app, exit_code);
  linchpin::cli::add_describe(app, exit_code);

  if (argc < 2) {
    std::cerr << app.help();
    return linchpin::cli::exit_usage;
  }
  const std::string word = argv[1];
  const auto known = verbs(app);
  if (!word.starts_with("-") && std::find(known.begin(), known.end(), word) == known.end()) {
    return misused("there is no command \"" + word + "\"", nearest(word, known), "linchpin --help");
  }

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    const CLI::App& verb = chosen.empty() ? app : *chosen.front();
    const std::string help = (chosen.empty() ? "linchpin" : "linchpin " + verb.get_name()) + " --help";
    if (dynamic_cast<const CLI::ExtrasError*>(&error)) {
      const std::string stray = first_stray(app, verb);
      const bool option = stray.starts_with("-");
      if (const auto now = linchpin::cli::renamed_option(verb.get_name(), stray); !now.empty())
        return misused(
            "option \"" + stray.substr(0, stray.find('=')) + "\" was renamed to \"" + std::string(now) + "\"", "",
            help);
      return misused(
          (option ? "there is no option \"" : "the argument \"") + stray + (option ? "\"" : "\" is one too many"),
          option ? nearest(stray, options(verb)) : "", help);
    }
    return misused(error.what(), "", help);
  } catch (const std::exception& error) {
    std::cerr << "linchpin: " << linchpin::cli::said(error) << "\n";
    return linchpin::cli::exit_physics;
  }
  // A full disk is found out about here: a report that nobody got is no success.
  std::cout.flush();
  if (!std::cout || std::fflush(stdout) != 0) {
    std::cerr
        << "linchpin: the result could not be written to standard output (is the disk full or the pipe closed?)\n";
    return linchpin::cli::exit_usage;
  }
  return exit_code;
}
