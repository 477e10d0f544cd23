// `linchpin sweep`: one scene over many values of its parameters. What a row holds depends on its case alone: not on
// which process ran it, when, after which other, or on which machine of a kind.
#include "bullet_import.h"
#include "case_list.h"
#include "case_table.h"
#include "case_workers.h"
#include "commands.h"
#include "csv.h"
#include "experiment.h"
#include "messages.h"
#include "mjcf.h"
#include "rank_cases.h"
#include "ranks.h"
#include "recording/output_file.h"
#include "recording/page.h"
#include "report_file.h"
#include "scene_file.h"
#include "simulation_options.h"
#include "sweep_report.h"

#include <linchpin/scene.h>
#include <linchpin/version.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace linchpin::cli {

namespace {

struct SweepArguments {
  SimulationOptions simulation;
  std::vector<std::string> sets, columns, merge;
  std::uint64_t samples = 0, seed = 0;
  std::string until, shard = "0/1", out, report;
  int starts = 24, jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  bool equilibrium = false, linearize = false, resume = false, force = false, mpi = false, json = false;

  ExperimentKind kind() const {
    return linearize     ? ExperimentKind::linearization
           : equilibrium ? ExperimentKind::equilibrium
                         : ExperimentKind::motion;
  }
};

ExperimentCases cases_of(const CaseList& cases) {
  return {cases.names(), cases.size(), [&cases](std::uint64_t n) { return cases.values(n); }};
}

ExperimentOptions options_of(const SweepArguments& arguments) {
  ExperimentOptions out;
  out.scene = arguments.simulation.scene;
  out.columns = arguments.columns;
  out.until = arguments.until;
  out.kind = arguments.kind();
  out.at_equilibrium = arguments.equilibrium;
  out.starts = arguments.starts;
  out.simulation = [&arguments](const scene::Model& model) { return arguments.simulation.check(model); };
  out.import = import_bullet;
  out.import_mjcf = import_mjcf;
  return out;
}

// The fields of a row after the case and its parameters, and their titles.
std::string titles(const Experiment& experiment, ExperimentKind kind) {
  std::string out = std::string("status,") + (kind == ExperimentKind::motion ? "t [s]" : "stability");
  for (const std::string& column : experiment.columns()) out += "," + csv_field(column);
  return out;
}

std::string row_fields(const ExperimentResult& result) {
  std::string status = result.status;
  for (char& c : status)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  std::string out = csv_field(status) + "," + (result.stability.empty() ? csv_field(result.t) : result.stability);
  for (const double x : result.values) out += "," + csv_field(x);
  return out;
}

std::string fields_of_failure(const Experiment& experiment, std::string reason) {
  ExperimentResult result;
  result.status = std::move(reason);
  result.values.resize(experiment.columns().size(), std::nan(""));
  return row_fields(result);
}

std::vector<SweepPicture::Column> picture_columns(const Experiment& experiment, ExperimentKind kind) {
  std::vector<SweepPicture::Column> out(experiment.columns().size());
  for (std::size_t i = 0; kind == ExperimentKind::motion && i < experiment.tolerances().size(); ++i) {
    out[i].expected = true;
    out[i].tolerance = experiment.tolerances()[i];
  }
  return out;
}

// What tells rows of one sweep from those of another with the same parameters: FNV-1a of all that they depend on.
std::string stamp(const SweepArguments& arguments, const std::vector<std::string>& texts) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto mix = [&](const std::string& text) {
    for (const char c : text + '\0') hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  };
  mix(LINCHPIN_VERSION);
  for (const std::string& text : texts) mix(text);
  const SimulationOptions& s = arguments.simulation;
  for (const std::string& text : {s.dt, s.duration, s.gravity, arguments.until}) mix(text);
  for (const std::string& text : arguments.columns) mix(text);
  mix(arguments.equilibrium ? "equilibrium from " + std::to_string(arguments.starts) : "motion");
  if (arguments.linearize) mix("linearized");
  char out[17];
  std::snprintf(out, sizeof out, "%016llx", static_cast<unsigned long long>(hash));
  return out;
}

bool is_ok(const std::string& row_from_status) {
  return row_from_status.starts_with("ok,") || row_from_status.starts_with("\"ok, ");
}

// The first field, quotes taken off.
std::string status_of(const std::string& row_from_status) {
  if (!row_from_status.starts_with("\"")) return row_from_status.substr(0, row_from_status.find(','));
  std::string out;
  for (std::size_t i = 1; i < row_from_status.size(); ++i) {
    if (row_from_status[i] == '"' && (++i == row_from_status.size() || row_from_status[i] != '"')) break;
    out += row_from_status[i];
  }
  return out;
}

// What every process of a sweep has to have alike.
struct Sweep {
  CaseList cases;
  std::optional<Experiment> experiment;
  std::string stamp;

  CaseWork work() const {
    return {
        [this](std::uint64_t n) { return row_fields(experiment->run(cases.values(n))); },
        [this](std::uint64_t, const std::string& how) { return fields_of_failure(*experiment, "the process " + how); }};
  }
};

// @return nothing after saying on stderr which file cannot be read
std::optional<Sweep> prepare(const SweepArguments& arguments, bool random) {
  Sweep out{CaseList(arguments.sets,
                     random ? std::optional(CaseList::Random{arguments.samples, arguments.seed}) : std::nullopt),
            {},
            {}};
  const std::string& scene = arguments.simulation.scene;
  if (const std::string why = why_no_params(scene); !why.empty()) throw std::invalid_argument(why);
  std::vector<std::string> texts(1);
  if (!read_file(scene == "-" ? "./-" : scene, texts[0])) return {};
  out.experiment.emplace(options_of(arguments), texts[0], cases_of(out.cases), [&](const scene::Model& model) {
    warn(model);
    // Steps that are a case's own are for its row to refuse.
    const SimulationOptions& s = arguments.simulation;
    if (!s.dt.empty() || !s.duration.empty() || !s.gravity.empty()) (void)options_of(arguments).simulation(model);
  });
  for (std::size_t i = 1; i < out.experiment->files().size(); ++i)
    if (!read_file(out.experiment->files()[i], texts.emplace_back())) return {};
  out.stamp = stamp(arguments, texts);
  return out;
}

int run_sweep(const SweepArguments& arguments, bool random, bool seeded, Ranks* ranks) try {
  if (seeded && !random) return misused("sweep", "--seed needs --random");
  if (arguments.kind() != ExperimentKind::motion && !arguments.until.empty())
    return misused("sweep", std::string("--until and ") + (arguments.linearize ? "--linearize" : "--equilibrium") +
                                " exclude each other");
  const Shard shard(arguments.shard);
  const std::optional<Sweep> sweep = prepare(arguments, random);
  if (!sweep) return exit_bad_input;
  const std::string& scene = arguments.simulation.scene;
  const CaseList& cases = sweep->cases;
  const Experiment& experiment = *sweep->experiment;
  { const OutputFile possible("--out", arguments.out, experiment.files()); }
  demand_other_places({{"--out", arguments.out}, {"--out", arguments.out + ".part"}, {"--report", arguments.report}});
  OutputFile page("--report", arguments.report, experiment.files());

  std::string header = "case";
  for (const std::string& name : cases.names()) header += "," + csv_field(name);
  header += "," + titles(experiment, arguments.kind()) + ",sweep";
  const auto begins = [&](std::uint64_t n) {
    std::string out = std::to_string(n) + ",";
    for (const double value : cases.values(n)) out += csv_field(value) + ",";
    return out;
  };
  CaseTable table(arguments.out, header, cases.size(), begins, "," + sweep->stamp);
  for (const std::string& file : arguments.merge) table.take(file);
  const auto still_missing = [&] {
    std::vector<std::uint64_t> out;
    for (std::uint64_t n = 0; n < cases.size(); ++n)
      if (shard.has(n) && !table.has(n)) out.push_back(n);
    return out;
  };
  // A table that is there took its time: it is read, gone on with or replaced on request, never written over.
  const bool there = ::access(arguments.out.c_str(), F_OK) == 0 && std::filesystem::file_size(arguments.out) > 0;
  bool complete = false;
  if (there && !arguments.force) {
    try {
      table.take(arguments.out);
    } catch (const std::invalid_argument& e) {
      if (arguments.resume) throw;
      throw std::invalid_argument("--out: " + std::string(e.what()) + ". --force replaces it");
    }
    complete = still_missing().empty();
    if (!complete && !arguments.resume)
      throw std::invalid_argument(
          "--out: \"" + arguments.out +
          "\" has some rows of this sweep. Use --resume to run the others, or --force to run all of them");
  }
  if (!complete) table.open(arguments.resume);
  const std::vector<std::uint64_t> missing = still_missing();
  std::size_t done = 0, failed = 0;
  {
    ProgressLine progress;
    const auto keep = [&](std::uint64_t n, const std::string& row) {
      table.append(n, row);
      failed += !is_ok(row);
      ++done;
      const double left = progress.seconds() / static_cast<double>(done) * static_cast<double>(missing.size() - done);
      progress.show("sweep: %zu of %zu cases, %zu failed, about %.0f s left", done, missing.size(), failed, left);
    };
    const CaseWork work = sweep->work();
    if (ranks) {
      ranks->begin(sweep->stamp);
      hand_out(*ranks, missing, arguments.jobs, work, keep);
      ranks->finish();
    } else {
      run_cases(missing, arguments.jobs, work.row, keep,
                [&](std::uint64_t n, const std::string& how) { keep(n, work.row_of_the_dead(n, how)); });
    }
  }
  if (!complete) table.finish();

  std::uint64_t rows = 0, bad = 0, remarked = 0;
  std::string first, remark;
  for (std::uint64_t n = 0; n < cases.size(); ++n) {
    if (!table.has(n)) continue;
    ++rows;
    const std::string row = table.row(n).substr(begins(n).size());
    if (is_ok(row)) {
      if (row.starts_with('"') && ++remarked == 1) remark = "case " + std::to_string(n) + ": " + status_of(row);
      continue;
    }
    if (++bad == 1) first = "case " + std::to_string(n) + ": " + status_of(row);
  }
  if (!arguments.report.empty()) {
    SweepPicture picture{
        scene, cases.names(), random, header, picture_columns(experiment, arguments.kind()), experiment.own(), {}};
    const std::vector<double> at_own = experiment.known(picture.own);
    for (std::size_t i = 0; i < picture.columns.size(); ++i) picture.columns[i].at_own = at_own[i];
    for (std::uint64_t n = 0; n < cases.size(); ++n) {
      if (!table.has(n)) continue;
      picture.rows.push_back(table.row(n));
      const std::vector<double> known = experiment.known(cases.values(n));
      for (std::size_t i = 0; i < known.size(); ++i) picture.columns[i].known.push_back(known[i]);
    }
    page.write(report_page(sweep_json(picture)));
  }
  if (arguments.json) {
    nlohmann::ordered_json written = {{"schema", 1},         {"scene", scene},        {"out", arguments.out},
                                      {"cases", rows},       {"run", missing.size()}, {"failed", bad},
                                      {"remarked", remarked}};
    if (!arguments.report.empty()) written["report"] = arguments.report;
    std::cout << written.dump(2) << "\n";
  } else {
    if (complete)
      std::cout << arguments.out << " is already complete: " << counted(static_cast<long>(rows), "case") << "\n";
    else
      std::cout << "wrote " << arguments.out << ": " << counted(static_cast<long>(rows), "case") << ", "
                << missing.size() << " of them run now\n";
    if (!arguments.report.empty()) std::cout << "wrote " << arguments.report << "\n";
    if (remarked > 0)
      std::cout << counted(static_cast<long>(remarked), "case is", "cases are")
                << (remarked == 1 ? " ok but has a warning; it is " : " ok but have a warning; the first is ") << remark
                << "\n";
  }
  if (bad == 0) return exit_ok;
  std::cerr << "linchpin sweep: " << bad << (bad == 1 ? " case" : " cases") << " failed, " << first << "\n";
  return exit_physics;
} catch (const scene::SceneError& e) {
  std::cerr << e.what() << "\n";
  return exit_bad_input;
} catch (const BadExpression& e) {
  std::cerr << e.text << "\n";
  return exit_bad_input;
} catch (const std::invalid_argument& e) {
  return misused("sweep", e.what());
} catch (const std::runtime_error& e) {
  return misused("sweep", e.what());
}

// Any rank but the first, which alone has the table and the last word.
int run_rank(const SweepArguments& arguments, bool random, Ranks& ranks) try {
  const std::string stamp = ranks.receive(0);
  if (stamp.empty()) {  // the first has said why there is nothing to do
    ranks.finish();
    return exit_ok;
  }
  const std::optional<Sweep> sweep = prepare(arguments, random);
  if (!sweep) return exit_bad_input;
  if (sweep->stamp != stamp)
    return misused("sweep", "rank " + std::to_string(ranks.rank()) +
                                " has another scene, other options or another version of linchpin than rank 0");
  work_off(ranks, arguments.jobs, sweep->work());
  ranks.finish();
  return exit_ok;
} catch (const scene::SceneError& e) {
  std::cerr << e.what() << "\n";
  return exit_bad_input;
} catch (const BadExpression& e) {
  std::cerr << e.text << "\n";
  return exit_bad_input;
} catch (const std::exception& e) {
  return misused("sweep", e.what());
}

int run_sweep_by_mpi(const SweepArguments& arguments, bool random, bool seeded) try {
  Ranks ranks;
  if (ranks.rank() > 0) return run_rank(arguments, random, ranks);
  const int code = run_sweep(arguments, random, seeded, &ranks);
  if (!ranks.begun()) {
    ranks.begin("");
    ranks.finish();
  }
  return code;
} catch (const std::invalid_argument& e) {
  return misused("sweep", e.what());
}

// What a 64-bit option may be; as it is read it would wrap.
CLI::Validator whole(std::uint64_t least, std::uint64_t most) {
  return {[=](const std::string& text) {
            std::uint64_t x = 0;
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
            const bool good = error == std::errc() && end == text.data() + text.size() && x >= least && x <= most;
            return good ? std::string()
                        : "is \"" + text + "\", expected a whole number from " + std::to_string(least) + " to " +
                              std::to_string(most);
          },
          "", "whole"};
}

}  // namespace

void add_sweep(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<SweepArguments>();
  CLI::App* verb =
      app.add_subcommand("sweep", "Run a scene for many values of its parameters and write one row per case");
  arguments->simulation.add_to(*verb, false);
  const auto one_each = [](CLI::Option* option) { return option->expected(1)->take_all(); };
  one_each(verb->add_option("--set", arguments->sets,
                            "name=first:last:count or name=a,b,c for a name in [params]. Repeat it for other names: "
                            "all combinations are run. "
                            "With --random: name=least:most"))
      ->required();
  CLI::Option* random =
      verb->add_option("--random", arguments->samples, "Number of random samples, uniform in the ranges of --set")
          ->check(whole(1, CaseList::most));
  CLI::Option* seed =
      verb->add_option("--seed", arguments->seed, "Seed of --random. Sample n does not depend on the number of samples")
          ->check(whole(0, std::numeric_limits<std::uint64_t>::max()))
          ->capture_default_str();
  one_each(verb->add_option(
      "--column", arguments->columns,
      "One more quantity at the end of each case, as in [[log]]: 'norm(bead.velocity)'. Repeat it for more"));
  verb->add_option(
      "--until", arguments->until,
      "End a case where this quantity crosses zero: 'bead.x'. A case without a crossing within the duration fails");
  verb->add_flag("--equilibrium", arguments->equilibrium,
                 "Find where the scene can rest instead of running it: the stable equilibrium of the lowest potential, "
                 "or the lowest if none is stable");
  verb->add_flag("--linearize", arguments->linearize,
                 "Linearise the scene about its start instead of running it, or about its equilibrium with "
                 "--equilibrium. A row has the eigenvalues, by rising frequency");
  verb->add_option("--starts", arguments->starts,
                   "With --equilibrium: number of start poses of the search. The first is that of the scene")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  CLI::Option* jobs = verb->add_option("-j,--jobs", arguments->jobs,
                                       "Number of processes. Default: one per core, or one per rank with --mpi")
                          ->check(CLI::Range(1, 4096));
  verb->add_flag("--mpi", arguments->mpi, "Run the cases on all ranks of an mpirun. Rank 0 writes the table");
  verb->add_option("--shard", arguments->shard, "i/n: run the cases whose number modulo n is i (i from 0)")
      ->capture_default_str();
  verb->add_flag("--resume", arguments->resume,
                 "Keep the rows of the table and of its .part file, and run the other cases");
  verb->add_flag("--force", arguments->force, "Replace an existing table, which is an error without this option");
  verb->add_option("--merge", arguments->merge, "Also use the rows of these files, such as the tables of shards")
      ->expected(1, -1);
  verb->add_option("--out", arguments->out, "The table, a .csv file. During the sweep its name ends with .part")
      ->required();
  verb->add_flag("--json", arguments->json, "Print one JSON object (schema 1) and nothing else on stdout");
  verb->add_option(
      "--report", arguments->report,
      "Write a page for a browser: curves over one parameter or a map over two, with the answers of [[expect]]");
  verb->footer(
      "Each row has the case number, the parameters, the status and the time. Then follow the value of each\n"
      "[[expect]] at the time that its column names, of each [[log]] and --column at the end, and a mark of the\n"
      "scene and the options. Expectations are not tested.\n"
      "A row depends on its case alone, so -j, shards and resumed sweeps give the same bytes. Cases run on the\n"
      "host bare.\n"
      "\n"
      "  linchpin sweep hoop.toml --set w=1:7:13 --equilibrium --out angle.csv\n"
      "  linchpin sweep brake-squeal.toml --set mu=0.1:0.6:51 --set h=0 --linearize --out flutter.csv\n"
      "  linchpin sweep hoop.toml --set w=1:7 --set a=0.1:1 --random 1000 --seed 7 --out cloud.csv\n"
      "  for i in 0 1 2; do linchpin sweep hoop.toml --set w=1:7:999 --shard $i/3 --out part-$i.csv; done\n"
      "  linchpin sweep hoop.toml --set w=1:7:999 --merge part-*.csv --out all.csv\n"
      "  mpirun -n 4 linchpin sweep hoop.toml --set w=1:7:999 --mpi --out all.csv\n"
      "\n"
      "Exit codes: 0 ok, 2 usage, 3 bad scene, 4 cases failed: their rows give the reason, the other rows are\n"
      "complete.");
  verb->callback([arguments, random, seed, jobs, &exit_code] {
    if (arguments->mpi && jobs->count() == 0) arguments->jobs = 1;
    exit_code = arguments->mpi ? run_sweep_by_mpi(*arguments, random->count() > 0, seed->count() > 0)
                               : run_sweep(*arguments, random->count() > 0, seed->count() > 0, nullptr);
  });
}

}  // namespace linchpin::cli
