#include "measure.h"

#include "contradiction.h"
#include "law_works.h"
#include "link_forces.h"
#include "mjcf_scene.h"
#include "mode_changes.h"
#include "observed.h"
#include "recorder.h"
#include "reference.h"
#include "run_remarks.h"
#include "scene.h"
#include "scene_text.h"
#include "table_file.h"
#include "verdicts.h"
#include "versions.h"
#include "watch.h"
#include "watch_status.h"
#include "worker_common/run_text.h"

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
using worker::names_at;
using worker::Progress;
using worker::StepCounts;

bool is_exact(const Job& job) { return job.kind == "exact"; }

// How the rows of the equalities are set, as text.
std::string configure(const Job& job, Scene& scene) {
  Model& model = scene.model();
  model.model().opt.timestep = job.dt;
  for (int i = 0; i < 3 && scene.scene(); ++i) model.model().opt.gravity[i] = scene.scene()->gravity[i];
  if (job.gravity) std::copy(job.gravity->begin(), job.gravity->end(), model.model().opt.gravity);
  if (job.kind == "stiff") return "soft constraints at their stiffest: " + model.stiffen();
  return "soft constraints, as the model has them";
}

// linchpin on the model. Null where MuJoCo alone solves.
std::unique_ptr<mujoco::Solver> make_solver(const Job& job, Scene& scene) {
  Model& model = scene.model();
  if (!is_exact(job)) {
    scene.demand_mujoco_alone();
    return nullptr;
  }
  auto made = try_call([&] { return std::make_unique<mujoco::Solver>(model.model(), model.data()); });
  if (!made) {
    std::string_view why = made.error().message;
    constexpr std::string_view who = "linchpin: ";
    if (why.starts_with(who)) why.remove_prefix(who.size());
    throw Refused("solver", std::string(why));
  }
  std::unique_ptr<mujoco::Solver> solver = std::move(*made);
  scene.constrain(*solver);
  return solver;
}

long long timed_step(Scene& scene, mujoco::Solver* solver, double dt) {
  Model& model = scene.model();
  scene.before_step();
  model.model().opt.timestep = dt;
  const auto start = Clock::now();
  if (solver)
    solver->step();
  else
    mj_step(&model.model(), &model.data());
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

// What a program would wait for: the same steps with nobody looking.
std::vector<long long> time_steps(const Job& job, Scene& scene, Progress& progress) {
  std::vector<long long> ns;
  scene.restart();
  const auto solver = make_solver(job, scene);
  progress.phase("time");
  const bool has_forces = scene.scene() && !scene.scene()->forces.empty();
  for (long step = 0; step < job.steps; ++step) {
    if (has_forces) scene.look(job.dt);
    const long long each = timed_step(scene, solver.get(), job.dt);
    if (!scene.model().ruin(step).empty()) break;
    if (step >= job.warmup_steps) ns.push_back(each);
    progress.step(step, job.steps);
  }
  return ns;
}

// Which equations of the model are redundant at the start. Null unless some are, or contradict each other.
Json look_at_rank(Job job, Scene& scene) {
  job.kind = "exact";
  scene.restart();
  const auto solver = try_call([&] { return make_solver(job, scene); });
  if (!solver) return {};
  scene.look(job.dt);
  (void)timed_step(scene, solver->get(), job.dt);
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
std::string verdict(mujoco::Solver& solver, const StepCounts& steps) {
  const RankReport rank = solver.rank_report();
  std::string why;
  if (!rank.contradictory.empty())
    why = cli::torn_text({{"contradictory", names_at(rank.contradictory, solver.reactions())}}, solver.reactions());
  return worker::verdict_of_steps(steps, "MuJoCo", why, solver.native());
}

std::string body_name(const Model& model, mujoco::Solver& solver, BodyId id) {
  for (int i = 1; i < model.model().nbody; ++i)
    if (const auto known = try_call([&] { return solver.id(i); }); known && *known == id)
      return model.body_names()[static_cast<std::size_t>(i) - 1];
  return "a body of the model";
}

}  // namespace

Json describe(const std::string& file) {
  Scene scene(file);
  Json out = {{"dt", scene.model().model().opt.timestep}};
  if (scene.scene())
    out = {{"dt", scene.scene()->dt}, {"duration", scene.scene()->duration}, {"warnings", scene.scene()->warnings}};
  return out;
}

Json convert(const std::string& file) {
  Model model(file);
  return cli::json_of(scene_text_of(model));
}

Json measure(const Job& job, Progress& progress) {
  progress.phase("load");
  Scene scene(job.scene);
  loading_is_over();
  Model& model = scene.model();
  const bool exact = is_exact(job);
  std::string held = configure(job, scene);
  progress.phase("look");
  const Json rank = look_at_rank(job, scene);
  std::vector<long long> ns;
  if (job.time_apart) ns = time_steps(job, scene, progress);

  scene.restart();
  const auto solver = make_solver(job, scene);
  LinkForces link_forces(model, solver.get());
  Observed observed(scene, solver.get(), link_forces);
  Watch watch(model, scene.why_not_conserved());
  Reference reference(model, solver.get(), job.steps, !scene.has_constraints_or_laws());
  const scene::Model* const of = scene.scene();
  std::unique_ptr<TableFile> table;
  if (!job.csv.empty()) table = std::make_unique<TableFile>(job.csv, model, of, job.time_apart);
  std::unique_ptr<Recorder> recorder;
  if (job.record) recorder = std::make_unique<Recorder>(*job.record, model, of, job.dt, job.steps);
  std::unique_ptr<scene::Judge> judge;
  // The tolerance of an expectation is that of the host of its scene, which is MuJoCo.
  if (of && exact && !of->expectations.empty()) judge = std::make_unique<scene::Judge>(*of, scene::Host::bare, job.dt);
  std::unique_ptr<cli::RunRemarks> remarks;
  if (of) remarks = std::make_unique<cli::RunRemarks>(*of);
  const auto logs_at = [&](const scene::Observation& at, bool forces_known) {
    return remarks ? remarks->logs(at, forces_known) : std::span<const double>();
  };

  std::string status = "ok";
  StepCounts steps;
  progress.phase("run");
  scene.look(job.dt);
  for (long step = 0; step < job.steps; ++step) {
    const double t = double(step) * job.dt;
    if (step == job.warmup_steps) watch.begin();
    if (table) table->state();
    if (recorder) recorder->state();
    // A step within which an expectation waits is taken in parts. Forces at its start are those of the first.
    const std::vector<double> parts = judge ? judge->parts(t, job.dt) : std::vector<double>{job.dt};
    ++steps.taken;
    long long spent = 0;
    reference.before(step);
    for (std::size_t part = 0; part < parts.size() && status == "ok"; ++part) {
      observed.before();
      spent += timed_step(scene, solver.get(), parts[part]);
      if (const std::string ruin = model.ruin(step); !ruin.empty()) {
        status = ruin;
        break;
      }
      link_forces.update();
      observed.after(model.data().time);
      if (judge) judge->see(observed.at_start());
      watch.events(step);
      if (part == 0) {
        if (step >= job.warmup_steps && parts.size() == 1) reference.after(step);
        const auto logs = of ? logs_at(observed.at_start(), true) : std::span<const double>();
        if (table) table->forces(link_forces, logs);
        if (recorder) recorder->forces(link_forces, logs);
      }
      scene.look(parts[part]);
      scene.after_step();
    }
    if (status != "ok") break;
    if (remarks) remarks->step(scene.state());
    if (!job.time_apart && step >= job.warmup_steps) ns.push_back(spent);
    if (exact && solver->counts().fallbacks > steps.fallbacks)
      ++steps.inexact, steps.fallbacks = solver->counts().fallbacks;
    if (step >= job.warmup_steps) watch.look();
    progress.step(step, job.steps);
  }
  model.model().opt.timestep = job.dt;
  if (table) {
    if (status == "ok") table->state();
    std::vector<double> logs;
    if (of) {
      const State last = scene.state();
      const auto values = logs_at({scene.mirror(), last, {}, &observed.modes()}, false);
      logs.assign(values.begin(), values.end());
    }
    table->close(logs);
  }
  if (recorder && status == "ok") recorder->state();

  Json row;
  row["name"] = job.solver;
  row["precision"] = "double";
  row["steps"] = steps.taken;
  row["ns_per_step"] = ns.empty() ? Json() : Json(worker::median(ns));
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
  row["joints"] = model.model().njnt + model.model().neq +
                  static_cast<long>(std::count_if(model.links().begin(), model.links().end(),
                                                  [](const Link& link) { return link.kind == Link::Kind::own; }));
  if (exact && status == "ok") status = verdict(*solver, steps);
  if (exact && status.starts_with("ok")) {
    const auto gains = solver->energy_gains();
    const std::string first = gains.empty() ? "" : body_name(model, *solver, gains.front().body);
    const std::string found =
        cli::watch_status(first, gains, counts.energy_gains, solver->velocity_residuals(), counts.velocity_residuals);
    if (!found.empty()) status = found;
  }
  if (exact && solver->counts().law_failures > 0 && status.starts_with("ok"))
    status = "not exact: " + host::law_failure_text(solver->law_failures(), solver->counts().law_failures);
  if (const std::string failure = scene.force_failure(); !failure.empty() && status.starts_with("ok")) status = failure;
  std::vector<std::string> said = warnings();
  for (const std::string& each : remarks ? remarks->texts() : std::vector<std::string>()) {
    said.push_back(each);
    if (status.starts_with("ok")) cli::add_remark(status, each);
  }
  const mjWarningStat* const statistics = model.data().warning;
  if (status.starts_with("ok") && statistics[mjWARN_CONTACTFULL].number + statistics[mjWARN_CNSTRFULL].number > 0)
    cli::add_remark(status,
                    "MuJoCo left out contacts or constraints for want of memory. Set memory in <size> of the file");
  row["status"] = status;
  const double end = double(steps.taken) * job.dt;
  if (exact) {
    row["laws"] = cli::laws_json(solver->laws());
    row["law_differences"] = normal_force_differences(solver->laws());
    cli::put_energy_gains(row, solver->energy_gains(), counts.energy_gains,
                          [&](BodyId body) { return body_name(model, *solver, body); });
    cli::put_mode_changes(row, observed.modes());
    held = "the step ends on the constraint: Newton's method, at most " + std::to_string(solver->options().max_newton) +
           " iterations";
    row["summary"] = solver->summary();
  } else {
    row["summary"] =
        worker::summary_of_host(std::string("MuJoCo ") + mj_versionString() + " alone (" + job.solver + ")", row, end,
                                model.energy()) +
        "  " + held + "\n";
  }
  row["summary"] = worker::completed(row, row["summary"].get<std::string>(), watch.start_energy());
  row["warnings"] = said;
  if (exact)  // the summary has them
    for (const auto& warning : solver->law_warnings()) row["warnings"].push_back(host::warning_text(warning));
  for (const std::string& each : said) row["summary"] = row["summary"].get<std::string>() + "  warning: " + each + "\n";
  row["method"] = {{"host", std::string("MuJoCo ") + mj_versionString()},
                   {"integrator", std::string("MuJoCo's ") + integrator_name(model.model().opt.integrator)},
                   {"stabilisation", held}};
  if (!exact) row["method"]["iterations"] = model.model().opt.iterations;
  if (recorder) row["motion"] = recorder->json();
  if (!judge) return row;
  if (status.starts_with("ok")) {  // the forces at the last state are those of the step that starts there
    observed.before();
    const bool forces = judge->needs_forces(end);
    if (forces) {
      (void)timed_step(scene, solver.get(), job.dt);
      link_forces.update();
      observed.after(model.data().time);
    }
    judge->see({scene.mirror(), observed.state(), forces ? observed.reactions() : std::span<const Reaction>(),
                &observed.modes()});
  }
  judge->end(double(job.steps) * job.dt);
  row["expect"] = cli::verdicts_json(*judge);
  return row;
}

}  // namespace linchpin::mujoco_worker
