// `linchpin solve`: one problem from a file, so that a failure can be mailed and any language can use the solver.
#include "commands.h"
#include "messages.h"

#include <linchpin/dynamics.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace linchpin::cli {
namespace {

struct SolveArguments {
  std::string file;
  bool json = false;
  std::string backend = "auto";
  double rank_tolerance = SolveOptions{}.rank_tolerance;
};

std::vector<double> list(const Eigen::VectorXd& x) { return {x.data(), x.data() + x.size()}; }

void print_json(const Acceleration& x) {
  nlohmann::ordered_json out;
  out["schema"] = 1;
  out["status"] = to_string(x.status);
  if (!x.reason.empty()) out["reason"] = x.reason;
  out["vdot"] = list(x.vdot);
  out["ideal"] = list(x.ideal);
  out["nonideal"] = list(x.nonideal);
  out["lambda"] = list(x.lambda);
  out["rank"] = x.rank;
  if (x.status == Status::invalid) {
    out["residual"] = nullptr;
  } else {
    out["residual"] = x.residual;
  }
  out["backend"] = to_string(x.backend);
  out["redundant"] = x.redundant;
  out["contradictory"] = x.contradictory;
  out["undetermined"] = x.undetermined;
  std::cout << out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
}

void print_names(const char* what, const std::vector<std::string>& names) {
  if (names.empty()) return;
  std::printf("%-14s", what);
  for (std::size_t i = 0; i < names.size(); ++i) std::printf("%s%s", i > 0 ? ", " : "", names[i].c_str());
  std::printf("\n");
}

void print_text(const ConstrainedProblem& problem, const Acceleration& x) {
  std::printf("%-14s%s\n", "status", to_string(x.status));
  if (x.status == Status::invalid) return;
  std::printf("%-14s%d of %d rows, %d columns\n", "rank", x.rank, problem.m(), problem.n());
  std::printf("%-14s%.3g\n", "residual", x.residual);
  std::printf("%-14s%s\n", "backend", to_string(x.backend));
  print_names("redundant", x.redundant);
  print_names("undetermined", x.undetermined);
  print_names("contradictory", x.contradictory);
  if (problem.n() > 0) std::printf("\n%6s  %20s  %20s  %20s\n", "column", "vdot", "ideal", "nonideal");
  for (int j = 0; j < problem.n(); ++j)
    std::printf("%6d  %20.12g  %20.12g  %20.12g\n", j, x.vdot[j], x.ideal[j], x.nonideal[j]);
  if (problem.m() > 0) std::printf("\n%6s  %20s  %s\n", "row", "lambda", "constraint");
  for (int r = 0; r < problem.m(); ++r) {
    const auto constraint = static_cast<std::size_t>(problem.row_constraint[static_cast<std::size_t>(r)]);
    std::printf("%6d  %20.12g  %s\n", r, x.lambda[r], problem.constraints[constraint].c_str());
  }
}

int run_solve(const SolveArguments& arguments) {
  std::string text;
  if (!read_file(arguments.file, text)) return exit_bad_input;
  ConstrainedProblem problem;
  try {
    problem = read_json(text);
  } catch (const std::invalid_argument& error) {
    complain(arguments.file, text, error.what());
    return exit_bad_input;
  }
  SolveOptions options;
  options.backend = arguments.backend == "dense"    ? Backend::dense
                    : arguments.backend == "sparse" ? Backend::sparse
                                                    : Backend::automatic;
  options.rank_tolerance = arguments.rank_tolerance;
  const Acceleration answer = solve(problem, options);
  if (arguments.json) {
    print_json(answer);
  } else {
    print_text(problem, answer);
  }
  if (answer.status != Status::invalid) return exit_ok;
  std::cerr << arguments.file << ": error: " << answer.reason << "\n";
  return exit_physics;
}

}  // namespace

void add_solve(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<SolveArguments>();
  CLI::App* verb = app.add_subcommand("solve", "Compute accelerations and constraint forces of one saved problem");
  verb->add_option("PROBLEM", arguments->file, "The problem as JSON, schema 1; - reads standard input")->required();
  verb->add_flag("--json", arguments->json, "Print one JSON object (schema 1) and nothing else on stdout");
  verb->add_option("--backend", arguments->backend, "How the equations are solved: auto, dense, sparse")
      ->check(CLI::IsMember({"auto", "dense", "sparse"}));
  verb->add_option("--rank-tolerance", arguments->rank_tolerance,
                   "Singular values of the scaled constraint matrix below this fraction of the largest count as zero")
      ->check(CLI::Validator(
          [](std::string& value) {
            double x = 0;
            if (!CLI::detail::lexical_cast(value, x)) return "\"" + value + "\" is not a number";
            return x >= 0 && x < 1 ? std::string() : value + " is not in [0, 1)";
          },
          "in [0, 1)"))
      ->capture_default_str();
  verb->footer(
      "The file is one JSON object: { \"schema\": 1, \"mass_blocks\": [[[2.0]], …], \"Q\": […], \"rows\": [{ "
      "\"constraint\":\n"
      "\"rod\", \"entries\": [[column, value], …], \"b\": 0.25 }, …] }: blocks on the diagonal of M, applied forces, "
      "and\n"
      "A vdot = b row by row. docs/explanation/architecture.md, \"A problem as a file\", has every key.\n"
      "Exit codes: 0 ok (also redundant or contradictory: the status says so), 2 usage, 3 bad file, 4 no solution.\n"
      "With --json, stdout stays empty on exit codes 2 and 3. The error is on stderr.");
  verb->callback([arguments, &exit_code] { exit_code = run_solve(*arguments); });
}

}  // namespace linchpin::cli
