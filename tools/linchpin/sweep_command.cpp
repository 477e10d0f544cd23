// `linchpin sweep`: one scene over many values of its parameters. What a row holds depends on its case alone: not on
// which process ran it, when, after which other, or on which machine of a kind.
#include "bullet_import.h"
#include "case_list.h"
#include "case_table.h"
#include "case_workers.h"
#include "commands.h"
#include "contradiction.h"
#include "csv.h"
#include "equilibrium_search.h"
#include "messages.h"
#include "rank_cases.h"
#include "ranks.h"
#include "recording/output_file.h"
#include "recording/page.h"
#include "remarks.h"
#include "report_file.h"
#include "run_remarks.h"
#include "scene_file.h"
#include "simulation_options.h"
#include "sweep_report.h"
#include "watch_status.h"

#include <linchpin/dynamics.h>
#include <linchpin/scene.h>
#include <linchpin/scene/joint_limits.h>
#include <linchpin/scene/modes.h>
#include <linchpin/stepper.h>
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
  bool equilibrium = false, resume = false, force = false, mpi = false, json = false;
};

// What is wrong with an expression of the command line, as it is printed.
struct BadExpression {
  std::string text;
};

// One case: the scene with these values, and what came of it.
class Experiment {
 public:
  /// @throws SceneError; std::invalid_argument for what does not fit the scene.
  Experiment(const SweepArguments& arguments, std::string text, const CaseList& cases)
      : arguments_(arguments), text_(std::move(text)), names_(cases.names()) {
    const scene::Model model = any_of(cases);
    warn(model);
    const SimulationOptions& s = arguments.simulation;
    // Steps that are a case's own are for its row to refuse.
    if (!s.dt.empty() || !s.duration.empty() || !s.gravity.empty()) (void)s.check(opened(model));
    if (!arguments.until.empty() && (model.logs.back().reads_forces() || model.logs.back().size() != 1))
      throw std::invalid_argument(
          "--until is \"" + arguments.until +
          "\", expected a scalar quantity of the motion, such as bead.x. Forces are not possible");
    std::size_t expectations = 0;  // that have their columns
    for (const auto& [channel, log] : channels(model)) {
      const std::string unit = bracketed(channel->unit());
      const scene::Expectation* expectation = log ? nullptr : &model.expectations[expectations++];
      const std::string when = log ? "" : at(*expectation);
      if (channel->size() == 1) add_column(channel->title() + when, unit);
      for (const char* part : {".x", ".y", ".z"})
        if (channel->size() == 3) add_column(channel->title() + part + when, unit);
      if (!log) tolerances_.resize(columns_.size(), expectation->tolerance);
    }
    // Of a motion that is not ended by a quantity there is then nothing to tell; where it rests has a stability.
    if (columns_.empty() && arguments.until.empty() && !arguments.equilibrium)
      throw std::invalid_argument(
          "the sweep would record nothing. Add [[log]] or [[expect]] to the scene, or --column 'norm(body.velocity)'");
    files_ = model.files;
  }

  const std::vector<std::string>& files() const { return files_; }
  /// Columns of header() after the first two.
  std::vector<SweepPicture::Column> expected() const {
    std::vector<SweepPicture::Column> out(columns_.size());
    for (std::size_t i = 0; i < tolerances_.size() && !arguments_.equilibrium; ++i) {
      out[i].expected = true;
      out[i].tolerance = tolerances_[i];
    }
    return out;
  }
  std::string header() const {
    std::string out = std::string("status,") + (arguments_.equilibrium ? "stability" : "t [s]");
    for (const std::string& column : columns_) out += "," + csv_field(column);
    return out;
  }

  /// The fields of header().
  std::string row(const std::vector<double>& values) const {
    Outcome outcome;
    try {
      scene::Model model = load(values);
      arguments_.equilibrium ? rest(model, outcome) : move(model, outcome);
    } catch (const scene::SceneError& e) {
      outcome.status = (e.line > 0 ? "line " + std::to_string(e.line) + ": " : "") + e.message;
    } catch (const std::exception& e) {
      outcome.status = e.what();
    }
    if (!outcome.values.empty() && outcome.values.size() != columns_.size())
      outcome = {"this case has other columns than the first", "", {}};
    explain_holes(outcome);
    outcome.values.resize(columns_.size(), std::nan(""));
    return fields(outcome.status, outcome.first, outcome.values);
  }
  /// What the scene expects with these values, by column; NaN where it says nothing, or is none.
  std::vector<double> known(const std::vector<double>& values) const {
    std::vector<double> out(arguments_.equilibrium ? columns_.size() : 0, std::nan(""));  // those are of the motion
    try {
      for (const scene::Expectation& e : out.empty() ? load(values).expectations : std::vector<scene::Expectation>())
        for (int k = 0; k < e.value.size(); ++k)
          out.push_back(e.is.empty() ? std::nan("") : e.is[static_cast<std::size_t>(k)]);
    } catch (const scene::SceneError&) {
    }
    out.resize(columns_.size(), std::nan(""));
    return out;
  }
  /// The values that the scene itself gives to the parameters.
  std::vector<double> own() const {
    scene::Overrides overrides;
    overrides.logs = names_;
    const scene::Model model = load_text(text_, arguments_.simulation.scene, import_bullet, overrides);
    const System system = model.system();
    const State start = system.initial_state();
    std::vector<double> out;
    for (std::size_t i = model.logs.size() - names_.size(); i < model.logs.size(); ++i)
      out.push_back(model.logs[i]({system, start, {}})[0]);
    return out;
  }
  std::string row_of_the_dead(const std::string& how) const {
    return fields("the process " + how, "", std::vector<double>(columns_.size(), std::nan("")));
  }

 private:
  struct Outcome {
    std::string status, first;  // first: time or stability
    std::vector<double> values;
  };

  // A model for what all cases have alike: an expression need not have a value at the numbers of the scene itself, nor
  // at those of every case. @throws SceneError of the first; BadExpression; std::invalid_argument for names that
  // [params] does not have
  scene::Model any_of(const CaseList& cases) const {
    std::optional<scene::SceneError> first;
    constexpr std::uint64_t tries = 16;
    const std::uint64_t every = std::max<std::uint64_t>(1, cases.size() / tries);
    for (std::uint64_t n = 0; n < cases.size(); n += every) try {
        return load(cases.values(n));
      } catch (const scene::SceneError& e) {
        if (!first) first = e;
      }
    try {
      return load({});
    } catch (const scene::SceneError&) {
    }
    const std::string what = first->what();
    const std::string_view place = "column:", twice = " error: column:";
    if (!what.starts_with(place)) throw *first;
    std::string text = (of_until(cases.values(0)) ? "--until:" : "--column:") + what.substr(place.size());
    if (const std::size_t again = text.find(twice); again != std::string::npos)
      text.replace(again, twice.size(), " error:");
    throw BadExpression{text};
  }
  bool of_until(const std::vector<double>& values) const try {
    if (arguments_.until.empty()) return false;
    scene::Overrides overrides;
    for (std::size_t i = 0; i < values.size(); ++i) overrides.params[names_[i]] = values[i];
    overrides.logs = {arguments_.until};
    (void)scene::load_text(text_, arguments_.simulation.scene, import_bullet, overrides);
    return false;
  } catch (const scene::SceneError&) {
    return true;
  }
  // " at 0.5 s": of an [[expect]], as rows with other times stand beside it.
  std::string at(const scene::Expectation& e) const {
    if (arguments_.equilibrium || e.throughout) return "";
    char text[48];
    std::snprintf(text, sizeof text, " at %.12g s", e.at);
    return text;
  }
  // A number that is none, with its name: an empty field alone does not say whether it was lost.
  void explain_holes(Outcome& out) const {
    for (std::size_t i = tolerances_.size(); i < out.values.size() && i < columns_.size(); ++i)
      if (!std::isfinite(out.values[i]) && out.status.starts_with("ok"))
        return add_remark(out.status, not_finite(columns_[i], out.values[i]));
  }

  scene::Model load(const std::vector<double>& values) const {
    scene::Overrides overrides;
    for (std::size_t i = 0; i < values.size(); ++i) overrides.params[names_[i]] = values[i];
    overrides.logs = arguments_.columns;
    if (!arguments_.until.empty()) overrides.logs.push_back(arguments_.until);
    return load_text(text_, arguments_.simulation.scene, import_bullet, overrides);
  }
  Opened opened(const scene::Model& model) const {
    Opened out;
    out.dt = model.dt, out.duration = model.duration;
    return out;
  }
  // What a row holds, in order; the number is that of the log, or −1 for an expectation.
  std::vector<std::pair<const scene::Channel*, bool>> channels(const scene::Model& model) const {
    std::vector<std::pair<const scene::Channel*, bool>> out;
    for (const scene::Expectation& e : model.expectations) out.emplace_back(&e.value, false);
    for (const scene::Channel& log : model.logs) out.emplace_back(&log, true);
    if (!arguments_.until.empty()) out.pop_back();
    return out;
  }
  void add_column(const std::string& name, const std::string& unit) {
    std::string whole = name + unit;
    for (int n = 2; std::count(columns_.begin(), columns_.end(), whole) > 0; ++n)
      whole = name + " #" + std::to_string(n) + unit;
    columns_.push_back(whole);
  }
  System system_of(const scene::Model& model) const {
    System system = model.system();
    if (const auto gravity = arguments_.simulation.check(opened(model)).gravity)
      system.set_gravity({(*gravity)[0], (*gravity)[1], (*gravity)[2]});
    return system;
  }
  static std::string fields(std::string status, const std::string& first, const std::vector<double>& values) {
    for (char& c : status)
      if (static_cast<unsigned char>(c) < 0x20) c = ' ';
    std::string out = csv_field(status) + "," + first;
    for (const double x : values) out += "," + csv_field(x);
    return out;
  }

  void move(const scene::Model& model, Outcome& out) const {
    const Simulation simulation = arguments_.simulation.check(opened(model));
    const scene::Model limited = scene::with_joint_limits(model);
    System system = system_of(limited);
    Stepper stepper(system, system.initial_state(), model.options);
    const bool until = !arguments_.until.empty();
    if (until) stepper.watch([&](const State& state) { return model.logs.back()({system, state, {}})[0]; });
    scene::Judge judge(model, scene::Host::bare, simulation.dt);
    scene::ModeRecord modes;
    modes.begin(system, stepper.dynamics(), stepper.t());
    RunRemarks remarks(model);
    const auto observe = [&] {
      const bool forces = judge.needs_forces(stepper.t());
      judge.see({system, stepper.state(), forces ? stepper.reactions() : std::span<const Reaction>(), &modes});
    };
    std::vector<std::string> warnings;
    bool torn = false;
    // @return whether the case goes on
    const auto take = [&](long step, double dt) {
      const StepReport& report = stepper.step(dt);
      if (report.rejected) {
        out.status = "the run stopped at step " + std::to_string(step) + ": " + report.reason;
        return false;
      }
      modes.add(system, stepper.switches());
      remarks.step(stepper.state());
      if (!report.gains_energy) take_warning(report.warning, warnings);
      torn = torn || report.status == Status::contradictory;
      if (stepper.crossings().empty()) return true;
      const State there = stepper.crossings().front().state;
      stepper.set_state(there);
      out.status = "ok";
      return false;
    };
    const nlohmann::ordered_json rank = dependent_rows(system, limited, system.initial_state());
    out.status = until ? arguments_.until + " did not cross zero within the duration" : "ok";
    observe();
    bool goes_on = true;
    for (long step = 0; goes_on && step < simulation.steps; ++step)
      for (const double part : judge.parts(stepper.t(), simulation.dt)) {
        goes_on = take(step, part);
        if (!goes_on) break;
        observe();
      }
    out.first = csv_field(stepper.t());
    if (const std::string found = watch_status(system, stepper); out.status.starts_with("ok") && !found.empty())
      out.status = found;
    if (torn) {
      const auto found = contradiction(system, model, stepper.state());
      add_remark(out.status, found.is_null() ? "constraints contradict each other" : torn_text(found));
    }
    if (!rank.is_null()) add_remark(out.status, rank_text(rank, true));
    for (const std::string& warning : warnings) add_remark(out.status, warning);
    for (const std::string& each : remarks.texts()) add_remark(out.status, each);
    if (!out.status.starts_with("ok")) return;  // numbers of where it got to would pass for an answer
    const scene::Observation end{system, stepper.state(), stepper.reactions(), &modes};
    std::size_t i = 0;
    for (const auto& [channel, log] : channels(model)) {
      if (log) {
        const auto values = (*channel)(end);
        out.values.insert(out.values.end(), values.begin(), values.end());
        continue;
      }
      const auto& got = judge.verdicts()[i++].got;
      for (int k = 0; k < channel->size(); ++k)
        out.values.push_back(got.empty() ? std::nan("") : got[static_cast<std::size_t>(k)]);
    }
  }

  void rest(const scene::Model& model, Outcome& out) const {
    const System system = system_of(model);
    const State start = system.initial_state();
    Dynamics dynamics(system, model.options.solve);
    if (dynamics.evaluate(start) == Status::invalid) throw std::invalid_argument(dynamics.reason());
    if (dynamics.assembly().layout.n() > most_velocities)
      throw std::invalid_argument("the scene has more than " + std::to_string(most_velocities) +
                                  " velocities, which is the limit of the search for equilibria");
    const auto turning = scene::rotation_of_kinematic_bodies(system);
    const Held held = held_at_start(model, system, turning.has_value());
    const scene::EquilibriumSearch search = search_around(start, turning, arguments_.starts);
    auto found = scene::find_equilibria(system, start, search);
    if (const auto moving = drop_moving(system, search, found); found.empty() && !moving.empty())
      throw std::invalid_argument("there is no equilibrium, because " + moving.front() + " prescribes a motion");
    if (found.empty())
      throw std::invalid_argument("no equilibrium was found from " + std::to_string(arguments_.starts) + " starts");
    const auto stable = std::find_if(found.begin(), found.end(), [](const scene::Equilibrium& e) {
      return e.stability == scene::Equilibrium::Stability::stable;
    });
    const scene::Equilibrium& e = stable == found.end() ? found.front() : *stable;
    State state = e.state;
    for (int i = 1; turning && i < system.body_count(); ++i) {  // at rest in the frame that turns
      const BodyId id{i};
      if (system.dof(id) == 0 || system.kind(id) == BodyKind::coordinate) continue;
      state[id].v = turning->first.cross(state[id].p - turning->second);
      if (system.kind(id) == BodyKind::rigid) state[id].w = turning->first;
    }
    std::vector<Reaction> reactions;
    if (dynamics.evaluate(state) != Status::invalid) dynamics.reactions(state, reactions);
    out.status = "ok";
    const nlohmann::ordered_json rank = dependent_rows(system, model, state);
    if (!rank.is_null()) add_remark(out.status, rank_text(rank, true));
    std::string without;
    for (const std::string& each : left_out(model)) without += (without.empty() ? "left out: " : "; ") + each;
    if (!without.empty()) add_remark(out.status, without);
    out.first = to_string(e.stability, held.any());
    for (const auto& [channel, log] : channels(model)) {
      const auto values = (*channel)({system, state, reactions});
      out.values.insert(out.values.end(), values.begin(), values.end());
    }
  }

  const SweepArguments& arguments_;
  const std::string text_;
  const std::vector<std::string> names_;
  std::vector<std::string> files_, columns_;
  std::vector<double> tolerances_;  // of the columns of expectations, which are the first
};

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
    return {[this](std::uint64_t n) { return experiment->row(cases.values(n)); },
            [this](std::uint64_t, const std::string& how) { return experiment->row_of_the_dead(how); }};
  }
};

// @return nothing after saying on stderr which file cannot be read
std::optional<Sweep> prepare(const SweepArguments& arguments, bool random) {
  Sweep out{CaseList(arguments.sets,
                     random ? std::optional(CaseList::Random{arguments.samples, arguments.seed}) : std::nullopt),
            {},
            {}};
  const std::string& scene = arguments.simulation.scene;
  if (scene.ends_with(".bullet"))
    throw std::invalid_argument("a .bullet file has no [params]. Include it in a .toml scene");
  std::vector<std::string> texts(1);
  if (!read_file(scene == "-" ? "./-" : scene, texts[0])) return {};
  out.experiment.emplace(arguments, texts[0], out.cases);
  for (std::size_t i = 1; i < out.experiment->files().size(); ++i)
    if (!read_file(out.experiment->files()[i], texts.emplace_back())) return {};
  out.stamp = stamp(arguments, texts);
  return out;
}

int run_sweep(const SweepArguments& arguments, bool random, bool seeded, Ranks* ranks) try {
  if (seeded && !random) return misused("sweep", "--seed needs --random");
  if (arguments.equilibrium && !arguments.until.empty())
    return misused("sweep", "--until and --equilibrium exclude each other");
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
  header += "," + experiment.header() + ",sweep";
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
    SweepPicture picture{scene, cases.names(), random, header, experiment.expected(), experiment.own(), {}};
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
