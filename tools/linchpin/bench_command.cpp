// `linchpin bench`: the benchmark scenes on this machine, exact against Bullet's own solvers, time beside error.
#include "bench_mechanisms.h"
#include "commands.h"
#include "messages.h"
#include "worker_process.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <iomanip>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace linchpin::cli {

namespace {

struct BenchOptions {
  std::vector<std::string> scenes{"W1:100", "W1s:100", "W2:100", "W3:8", "W4:100", "W5a", "W5b:10", "W6"};
  std::string with = "exact,si:10,si:50,si:200", precision = "double";
  double duration = 2, budget = 20;
  bool json = false;
  bool of_engine = false;  ///< one of the options that mechanisms do not take was given
};

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ",") + part;
  return out;
}

std::string cell(const Json& row, const char* key, int digits) {
  if (!row.contains(key) || row[key].is_null()) return "-";
  std::ostringstream s;
  s << std::setprecision(digits) << row[key].get<double>();
  return s.str();
}

void print_head() {
  std::cout << std::left << std::setw(6) << "scene" << std::right << std::setw(7) << "size"
            << "  " << std::left << std::setw(8) << "solver" << std::setw(8) << "prec." << std::right << std::setw(8)
            << "rows" << std::setw(12) << "ns/row" << std::setw(12) << "us/step" << std::setw(12) << "solver:si10"
            << std::setw(12) << "step:si10" << std::setw(12) << "max gap m" << std::setw(13) << "force error"
            << std::setw(10) << "substeps" << std::setw(12) << "law solves" << std::setw(11) << "fallbacks"
            << "\n";
}

void print(const Json& row) {
  std::cout << std::left << std::setw(6) << row.value("scene", "") << std::right << std::setw(7) << row.value("size", 0)
            << "  " << std::left << std::setw(8) << row.value("solver", "") << std::setw(8)
            << row.value("precision", "") << std::right << std::setw(8) << row.value("rows", 0) << std::setw(12)
            << cell(row, "ns_per_row_solver", 4) << std::setw(12) << cell(row, "us_per_step", 4) << std::setw(12)
            << cell(row, "ratio_to_si10_solver", 3) << std::setw(12) << cell(row, "ratio_to_si10_step", 3)
            << std::setw(12) << cell(row, "max_gap_m", 2) << std::setw(13) << cell(row, "force_error_rel", 2)
            << std::setw(10) << cell(row, "substeps_per_step", 3) << std::setw(12)
            << cell(row, "law_solves_per_step", 3) << std::setw(11) << row.value("fallbacks", 0L)
            << (row.value("status", "ok") == "ok" ? "" : "  " + row.value("status", "")) << std::endl;
}

int bench(const BenchOptions& o) {
  if (std::find(o.scenes.begin(), o.scenes.end(), "mechanisms") != o.scenes.end()) {
    if (o.scenes.size() == 1 && !o.of_engine) return bench_mechanisms(o.json);
    std::cerr << "linchpin bench: \"mechanisms\" runs the published scenes with their own methods. It can be combined "
                 "with --json only\n";
    return exit_usage;
  }
  std::vector<std::string> precisions;
  if (o.precision != "double") precisions.push_back("single");
  if (o.precision != "single") precisions.push_back("double");
  Json rows = Json::array();
  bool headed = o.json;  // a mistake on the command line needs no head
  for (const std::string& precision : precisions) {
    const std::string name = precision == "single" ? "linchpin-bench-bullet" : "linchpin-bench-bullet-float64";
    std::string looked;
    const std::string program = find_worker(name, looked);
    if (program.empty()) {
      std::cerr << "linchpin: the benchmark program " << name << " was not found (looked for " << looked << ")\n";
      return exit_physics;
    }
    std::ostringstream command;
    command << quoted(program) << " --scenes " << quoted(joined(o.scenes)) << " --solvers " << quoted(o.with)
            << " --duration " << o.duration << " --budget " << o.budget;
    std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.str().c_str(), "r"), ::pclose);
    if (!pipe) {
      std::cerr << "linchpin: " << name << " cannot be started\n";
      return exit_physics;
    }
    std::string line;
    for (int c; (c = std::fgetc(pipe.get())) != EOF;) {
      if (c != '\n') {
        line += static_cast<char>(c);
        continue;
      }
      Json row = Json::parse(line, nullptr, false);
      line.clear();
      if (row.is_discarded()) continue;
      if (!std::exchange(headed, true)) print_head();
      if (!o.json) print(row);
      rows.push_back(std::move(row));
    }
    const int status = ::pclose(pipe.release());
    if (!WIFEXITED(status)) {
      std::cerr << "linchpin: " << name << " ended by a signal\n";
      return exit_physics;
    }
    if (WEXITSTATUS(status) != 0) return WEXITSTATUS(status) == 2 ? exit_usage : exit_physics;  // it has said why
  }
  if (o.json) std::cout << Json{{"schema", 2}, {"rows", rows}}.dump(2) << "\n";
  return exit_ok;
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<BenchOptions>();
  const CLI::Validator above_zero(
      [](std::string& value) {
        double x = 0;
        if (!CLI::detail::lexical_cast(value, x)) return "\"" + value + "\" is not a number";
        return x > 0 ? std::string() : value + " is not above 0";
      },
      "above 0");
  CLI::App* verb = app.add_subcommand("bench", "Measure time and error of the benchmark scenes on this machine");
  verb->add_option("scenes", o->scenes,
                   "W1 W1s W2 W3 W4 W5a W5b W6, with :SIZE for one size (W1:1000); a program of demos/programs "
                   "(walker); robots as "
                   "multibodies: R1 R2 R3 R4 R5 (R5+1, R5+2, R5+4: with loops). \"all\" takes an hour. \"mechanisms\", "
                   "alone: the "
                   "published mechanisms without an engine")
      ->capture_default_str();
  verb->add_option("--with", o->with,
                   "Solvers, separated by commas: exact, rk4 and adaptive (exact with this integration method), law "
                   "(exact with a "
                   "smooth law on every joint), dry (exact with dry friction in every joint), si:N, nncg:N, mlcp. Each "
                   "can have @R for R "
                   "steps per second")
      ->capture_default_str();
  verb->add_option("--precision", o->precision, "Precision of Bullet: double, single or both")
      ->check(CLI::IsMember({"double", "single", "both"}))
      ->capture_default_str();
  verb->add_option("--duration", o->duration, "Simulated time [s]")->check(above_zero)->capture_default_str();
  verb->add_option("--budget", o->budget, "Largest wall time per run [s]")->check(above_zero)->capture_default_str();
  verb->add_flag("--json", o->json, "Print one JSON object (schema 2) and nothing else on stdout");
  verb->footer(
      "ns/row: solver time per constraint equation and accepted substep, without reading and writing the world.\n"
      "Ratios are to Bullet's sequential impulse solver with 10 iterations in the same process. Law solves: back-\n"
      "solves for force laws, beyond those of the constraints.");
  verb->callback([o, verb, &exit_code] {
    for (const char* option : {"--with", "--precision", "--duration", "--budget"})
      o->of_engine = o->of_engine || verb->count(option) > 0;
    exit_code = bench(*o);
  });
}

}  // namespace linchpin::cli
