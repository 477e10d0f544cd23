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
/// linchpin new [TEMPLATE]
void add_new(CLI::App& app, int& exit_code);
/// linchpin convert FILE [SCENE]
void add_convert(CLI::App& app, int& exit_code);
/// linchpin check SCENE
void add_check(CLI::App& app, int& exit_code);
/// linchpin explain SCENE [CONSTRAINT]
void add_explain(CLI::App& app, int& exit_code);
/// linchpin equilibrium SCENE
void add_equilibrium(CLI::App& app, int& exit_code);
/// linchpin linearize SCENE
void add_linearize(CLI::App& app, int& exit_code);
/// linchpin sweep SCENE
void add_sweep(CLI::App& app, int& exit_code);
/// linchpin sensitivities SCENE --to PARAMETERS
void add_sensitivities(CLI::App& app, int& exit_code);
/// linchpin fit SCENE DATA…
void add_fit(CLI::App& app, int& exit_code);
/// linchpin report RECORDING…
void add_report(CLI::App& app, int& exit_code);
/// linchpin bench [SCENE]
void add_bench(CLI::App& app, int& exit_code);
/// linchpin completion, linchpin man: of all verbs added before
void add_describe(CLI::App& app, int& exit_code);

}  // namespace linchpin::cli
