#include "measure.h"

#include "law_works.h"
#include "link_forces.h"
#include "mode_changes.h"
#include "recorder.h"
#include "recording/compare_text.h"
#include "reference.h"
#include "run_remarks.h"
#include "table_file.h"
#include "versions.h"
#include "watch.h"
#include "watch_status.h"

#include <linchpin/mujoco.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <utility>

namespace linchpin::mujoco_worker {

namespace {

using Clock = std::chrono::steady_clock;
using worker::Job;
using worker::Progress;

bool is_exact(const Job& job) { return job.kind == "exact"; }

// How the rows of the equalities are set, as text.
std::string configure(const Job& job, Model& model) {
  model.model().opt.timestep = job.dt;
  if (job.gravity) std::copy(job.gravity->begin(), job.gravity->end(), model.model().opt.gravity);
  if (job.kind == "stiff") return "soft constraints at their stiffest: " + model.stiffen();
  return "soft constraints, as the model has them";
}

// linchpin on the model. Null where MuJoCo alone solves.
std::unique_ptr<mujoco::Solver> make_solver(const Job& job, Model& model) {
  if (!is_exact(job)) return nullptr;
  auto made = try_call([&] { return std::make_unique<mujoco::Solver>(model.model(), model.data()); });
  if (!made) {
    std::string_view why = made.error().message;
    constexpr std::string_view who = "linchpin: ";
    if (why.starts_with(who)) why.remove_prefix(who.size());
    throw Refused("solver", std::string(why));
  }
  return std::move(*made);
}

long long median(std::vector<long long>& ns) {
  if (ns.empty()) return 0;
  const auto middle = ns.begin() + static_cast<std::ptrdiff_t>(ns.size() / 2);
  std::nth_element(ns.begin(), middle, ns.end());
  return *middle;
}

long long timed_step(Model& model, mujoco::Solver* solver) {
  const auto start = Clock::now();
  if (solver)
    solver->step();
  else
    mj_step(&model.model(), &model.data());
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

// What a program would wait for: the same steps with nobody looking.
std::vector<long long> time_steps(const Job& job, Model& model, Progress& progress) {
  std::vector<long long> ns;
  model.restart();
  const auto solver = make_solver(job, model);
  progress.phase("time");
  for (long step = 0; step < job.steps; ++step) {
    const long long each = timed_step(model, solver.get());
    if (!model.ruin(step).empty()) break;
    if (step >= job.warmup_steps) ns.push_back(each);
    progress.step(step, job.steps);
  }
  return ns;
}

Json names_at(const std::vector<int>& indices, std::span<const Reaction> reactions) {
  Json out = Json::array();
  for (const int i : indices)
    if (i >= 0 && static_cast<std::size_t>(i) < reactions.size())
      out.push_back(reactions[static_cast<std::size_t>(i)].name);
  return out;
}

// Which equations of the model are redundant at the start. Null unless some are, or contradict each other.
Json look_at_rank(Job job, Model& model) {
  job.kind = "exact";
  model.restart();
  const auto solver = try_call([&] { return make_solver(job, model); });
  if (!solver || !*solver || model.equalities() == 0) return {};
  (*solver)->step();
  long rows = 0;
  for (const Reaction& r : (*solver)->reactions()) rows += static_cast<long>(r.lambda.size());
  const RankReport report = (*solver)->rank_report();
  if (report.rank >= rows && report.contradictory.empty()) return {};
  return {{"rank", report.rank},
          {"rows", rows},
          {"redundant", names_at(report.redundant, (*solver)->reactions())},
          {"undetermined", names_at(report.undetermined, (*solver)->reactions())},
          {"contradictory", names_at(report.contradictory, (*solver)->reactions())}};
}

// What an exact run that came to its end is worth.
std::string verdict(mujoco::Solver& solver, long taken, long astray) {
  const long fallbacks = solver.counts().fallbacks;
  const auto native = solver.native();
  const RankReport rank = solver.rank_report();
  std::string why;
  if (!rank.contradictory.empty())
    why = "constraints contradict each other: " + recording::some(names_at(rank.contradictory, solver.reactions()), 6);
  if (2 * astray > taken)
    return "not exact: in " + std::to_string(astray) + " of " + std::to_string(taken) +
           " steps MuJoCo had to solve constraints. Cause: " +
           (!why.empty()     ? why
            : native.empty() ? "linchpin rejected the step"
                             : native.front().name + ": " + native.front().why);
  std::string out = "ok";
  if (!why.empty()) cli::add_remark(out, why);
  if (fallbacks > 0)
    cli::add_remark(out,
                    std::to_string(fallbacks) + (fallbacks == 1 ? " step was" : " steps were") + " left to MuJoCo");
  return out;
}

std::string body_name(const Model& model, mujoco::Solver& solver, BodyId id) {
  for (int i = 1; i < model.model().nbody; ++i)
    if (const auto known = try_call([&] { return solver.id(i); }); known && *known == id)
      return model.body_names()[static_cast<std::size_t>(i) - 1];
  return "a body of the model";
}

// The summary with the largest gap as this file looks at all solvers, and the energy that the run began with.
std::string completed(const Json& row, std::string summary, double energy_at_start) {
  char text[64];
  const std::string_view energy = "\n  energy ", gap = "\n  largest gap ";
  if (const std::size_t from = summary.find(energy); from != std::string::npos) {
    std::snprintf(text, sizeof text, ", %.6g J at the start", energy_at_start);
    summary.insert(summary.find('\n', from + 1), text);
  }
  const std::size_t from = summary.find(gap);
  const std::size_t unit = from == std::string::npos ? from : summary.find(" rad", from);
  if (unit == std::string::npos || !row["max_gap_m"].is_number() || !row["max_gap_rad"].is_number()) return summary;
  std::snprintf(text, sizeof text, "%.3g m, %.3g", row["max_gap_m"].get<double>(), row["max_gap_rad"].get<double>());
  return summary.replace(from + gap.size(), unit - from - gap.size(), text);
}

// Of a run of MuJoCo alone, in the same words.
std::string summary_of(const Job& job, const Json& row, double end, double energy, double energy_at_start,
                       const std::string& held) {
  char line[160];
  std::snprintf(line, sizeof line, "\n  t = %.3g s, %ld steps\n", end, row["steps"].get<long>());
  std::string out = std::string("MuJoCo ") + mj_versionString() + " alone (" + job.solver + ")" + line;
  if (row["max_gap_m"].is_number()) {
    std::snprintf(line, sizeof line, "  largest gap %.3g m, %.3g rad\n", row["max_gap_m"].get<double>(),
                  row["max_gap_rad"].get<double>());
    out += line;
  }
  std::snprintf(line, sizeof line, "  energy %.6g J, %.6g J at the start\n", energy, energy_at_start);
  return out + line + "  " + held + "\n";
}

}  // namespace

Json describe(const std::string& file) {
  const Model model(file);
  return {{"dt", model.model().opt.timestep}};
}

Json measure(const Job& job, Progress& progress) {
  progress.phase("load");
  Model model(job.scene);
  loading_is_over();
  const bool exact = is_exact(job);
  std::string held = configure(job, model);
  progress.phase("look");
  const Json rank = look_at_rank(job, model);
  std::vector<long long> ns;
  if (job.time_apart) ns = time_steps(job, model, progress);

  model.restart();
  const auto solver = make_solver(job, model);
  LinkForces link_forces(model, solver.get());
  Watch watch(model);
  Reference reference(model, solver.get(), job.steps);
  std::unique_ptr<TableFile> table;
  if (!job.csv.empty()) table = std::make_unique<TableFile>(job.csv, model, job.time_apart);
  std::unique_ptr<Recorder> recorder;
  if (job.record) recorder = std::make_unique<Recorder>(*job.record, model, job.dt, job.steps);

  std::string status = "ok";
  long taken = 0, astray = 0, fallbacks = 0;
  progress.phase("run");
  model.look();
  for (long step = 0; step < job.steps; ++step) {
    if (step == job.warmup_steps) watch.begin();
    if (table) table->state();
    if (recorder) recorder->state();
    ++taken;
    reference.before(step);
    const long long spent = timed_step(model, solver.get());
    status = model.ruin(step);
    if (!status.empty()) break;
    status = "ok";
    if (!job.time_apart && step >= job.warmup_steps) ns.push_back(spent);
    watch.events(step);
    if (step >= job.warmup_steps) reference.after(step);
    link_forces.update();
    if (table) table->forces(link_forces);
    if (recorder) recorder->forces(link_forces);
    if (exact && solver->counts().fallbacks > fallbacks) ++astray, fallbacks = solver->counts().fallbacks;
    model.look();
    if (step >= job.warmup_steps) watch.look();
    progress.step(step, job.steps);
  }
  if (table) {
    if (status == "ok") table->state();
    table->close();
  }
  if (recorder && status == "ok") recorder->state();

  Json row;
  row["name"] = job.solver;
  row["precision"] = "double";
  row["steps"] = taken;
  row["ns_per_step"] = ns.empty() ? Json() : Json(median(ns));
  watch.report(row);
  reference.report(row);
  if (!rank.is_null()) row["rank"] = rank;
  const mujoco::Counts counts = exact ? solver->counts() : mujoco::Counts();
  row["fallbacks"] = counts.fallbacks;
  row["substepped_steps"] = counts.substepped_steps;
  row["gap_corrected_m"] = counts.largest_correction;
  row["native"] = Json::array();
  if (exact)
    for (const auto& native : solver->native()) row["native"].push_back({{"name", native.name}, {"why", native.why}});
  row["gravity"] = {model.model().opt.gravity[0], model.model().opt.gravity[1], model.model().opt.gravity[2]};
  row["gravity_from"] = job.gravity ? "option" : "file";
  row["bodies"] = model.body_names().size();
  row["joints"] = model.model().njnt + model.model().neq;
  if (exact && status == "ok") status = verdict(*solver, taken, astray);
  if (exact && status.starts_with("ok")) {
    const auto gains = solver->energy_gains();
    const std::string first = gains.empty() ? "" : body_name(model, *solver, gains.front().body);
    const std::string found =
        cli::watch_status(first, gains, counts.energy_gains, solver->velocity_residuals(), counts.velocity_residuals);
    if (!found.empty()) status = found;
  }
  row["status"] = status;
  const double end = double(taken) * job.dt;
  std::vector<std::string> said = warnings();
  if (exact) {
    row["laws"] = cli::laws_json(solver->laws());
    row["law_differences"] = normal_force_differences(solver->laws());
    cli::put_energy_gains(row, solver->energy_gains(), counts.energy_gains,
                          [&](BodyId body) { return body_name(model, *solver, body); });
    cli::put_mode_changes(row, scene::ModeRecord());
    held = "the step ends on the constraint: Newton's method, at most " + std::to_string(solver->options().max_newton) +
           " iterations";
    row["summary"] = completed(row, solver->summary(), watch.start_energy());
  } else {
    row["summary"] = summary_of(job, row, end, model.energy(), watch.start_energy(), held);
  }
  row["warnings"] = said;
  for (const std::string& each : said) row["summary"] = row["summary"].get<std::string>() + "  warning: " + each + "\n";
  row["method"] = {{"host", std::string("MuJoCo ") + mj_versionString()},
                   {"integrator", std::string("MuJoCo's ") + integrator_name(model.model().opt.integrator)},
                   {"stabilisation", held}};
  if (!exact) row["method"]["iterations"] = model.model().opt.iterations;
  if (recorder) row["motion"] = recorder->json();
  return row;
}

}  // namespace linchpin::mujoco_worker
