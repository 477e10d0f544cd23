// The verbs of the command. Each adds its own subcommand and sets `exit_code` when it runs; a new verb is one file, one
// declaration here and one line in main.cpp.
#pragma once

namespace CLI {
class App;
}

namespace linchpin::cli {

/// linchpin solve INSTANT.json
void add_solve(CLI::App& app, int& exit_code);
/// linchpin compare SCENE
void add_compare(CLI::App& app, int& exit_code);
/// linchpin run SCENE
void add_run(CLI::App& app, int& exit_code);

}  // namespace linchpin::cli
