#include "measure.h"

#include "bullet_scene/solver_options.h"
#include "contradiction.h"
#include "law_works.h"
#include "mode_changes.h"
#include "recorder.h"
#include "recording/compare_text.h"
#include "reference.h"
#include "run_remarks.h"
#include "scene.h"
#include "step_start.h"
#include "table_file.h"
#include "verdicts.h"
#include "watch.h"
#include "watch_status.h"
#include "worker_common/run_text.h"

#include <linchpin/bullet_recorder.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace linchpin::worker {

namespace {

using Clock = std::chrono::steady_clock;

#ifdef BT_USE_DOUBLE_PRECISION
constexpr const char* precision = "double";
constexpr scene::Host host = scene::Host::bullet_float64;
#else
constexpr const char* precision = "single";
constexpr scene::Host host = scene::Host::bullet;
#endif

bool alone(Scene& scene) { return scene.built() && scene.built()->native_loops(); }

// Whether a scene's `stepping` had no part: linchpin held nothing exactly, and Bullet stepped by itself.
bool stepping_is_idle(Scene& scene, bullet::Solver& solver) {
  if (!scene.built() || scene.built()->model().stepping == Method::semi_implicit) return false;
  const auto reactions = solver.reactions();
  return std::all_of(reactions.begin(), reactions.end(), [](const Reaction& r) { return r.native; });
}
std::string idle_stepping(Scene& scene) {
  return "stepping = \"" + std::string(to_string(scene.built()->model().stepping)) +
         "\" had no effect: linchpin holds no constraint in this scene, so Bullet integrates the bodies";
}

// linchpin on a world: solving, or looking on while Bullet solves; null where it cannot, or where Bullet has all there
// is to hold: of multibodies.
std::unique_ptr<bullet::Solver> install(const Job& job, Scene& scene, std::string& why) {
  if (alone(scene)) return nullptr;
  bullet::Options options = scene.built() ? bullet_scene::solver_options(scene.built()->model()) : bullet::Options();
  options.mode = job.kind == "exact" ? bullet::Mode::exact : bullet::Mode::passive;
  auto installed = bullet::Solver::try_install(scene.world(), options);
  why = installed.error().message;
  if (!installed) return nullptr;
  std::unique_ptr<bullet::Solver> solver = *std::move(installed);
  for (std::size_t i = 0; i < scene.joints().size(); ++i)
    if (!scene.joint_names()[i].empty())  // a joint whose name is in use keeps the name it got by its place
      (void)solver->try_name_joint(*scene.joints()[i], scene.joint_names()[i]);
  if (scene.built()) scene.built()->constrain(*solver, job.kind == "exact");
  return solver;
}

// The world's joints, then what a scene of ours adds: as reactions() has them.
std::vector<std::string> names_of_joints(Scene& scene, bullet::Solver* solver) {
  std::vector<std::string> names = scene.joint_names();
  if (scene.built())
    for (const Built::Constrained& each : scene.built()->constrained()) names.push_back(each.name);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (const Reaction* named = solver ? scene.reaction(i, *solver) : nullptr)
      names[i] = named->name;
    else if (names[i].empty())
      names[i] = "joint#" + std::to_string(i);
  }
  return names;
}

struct Timing {
  std::vector<long long> ns;
  long mlcp_fallbacks = 0;
};

long long timed_step(Scene& scene, double t, double dt) {
  if (scene.built()) scene.built()->before_step(t, dt);
  const auto start = Clock::now();
  scene.world().stepSimulation(btScalar(dt), 0);
  const auto end = Clock::now();
  if (scene.built()) scene.built()->after_step(t + dt);
  return std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count();
}

// What a program would wait for: the same steps with nobody looking.
Timing time_steps(const Job& job, Progress& progress) {
  Timing timing;
  Scene scene(job);
  std::string why;
  std::unique_ptr<bullet::Solver> solver;
  // Without linchpin the native solver knows nothing of a scene's own constraints: it is given their rows, and looking
  // on, which no program would wait for, is left out.
  const bool stand_ins = job.kind != "exact" && !alone(scene) && scene.built() && !scene.built()->constrained().empty();
  if (job.kind == "exact" || stand_ins) solver = install(job, scene, why);
  if (stand_ins && !solver) return timing;
  if (stand_ins) scene.solve_natively();
  progress.phase("time");
  for (long step = 0; step < job.steps; ++step) {
    const long long ns = timed_step(scene, double(step) * job.dt, job.dt);
    if (!scene.ruin(step).empty()) break;
    if (step >= job.warmup_steps) timing.ns.push_back(ns);
    progress.step(step, job.steps);
  }
  timing.mlcp_fallbacks = scene.mlcp_fallbacks();
  return timing;
}

// Which equations of the scene as loaded are redundant. Asked of an exact step for every solver alike: joints that a
// native solver has let drift apart may look independent.
struct Structure {
  Json rank;  // null unless rows are redundant or contradict each other
  Json torn;  // null unless they do: `contradictory`
  bool undetermined = false;
};

Structure look_at_structure(Job job, Progress& progress) {
  Structure out;
  job.kind = "exact";
  Scene scene(job);
  progress.phase("look");  // the file has been read: what goes wrong from here on is no fault of its
  std::string why;
  const auto solver = install(job, scene, why);
  if (!solver) return out;
  scene.step(0, job.dt);
  long rows = 0;
  for (const Reaction& r : solver->reactions()) rows += static_cast<long>(r.lambda.size());
  const RankReport report = solver->rank_report();
  out.undetermined = !report.undetermined.empty();
  // Of a scene of ours by its own equations, as check has it: a step that failed says less, and of more constraints.
  if (Built* built = scene.built())
    out.torn = cli::contradiction(built->mirror(), built->model(), built->mirror().initial_state());
  else if (!report.contradictory.empty())
    out.torn = {{"contradictory", names_at(report.contradictory, solver->reactions())}};
  if (report.rank >= rows && out.torn.is_null()) return out;
  out.rank = {{"rank", report.rank},
              {"rows", rows},
              {"redundant", names_at(report.redundant, solver->reactions())},
              {"undetermined", names_at(report.undetermined, solver->reactions())},
              {"contradictory", out.torn.is_null() ? Json::array() : out.torn["contradictory"]}};
  return out;
}

// What an exact run that came to its end is worth: whether constraints could be met, and whether its steps were exact.
std::string verdict(Scene& scene, bullet::Solver& solver, Json torn, double end, const StepCounts& steps, Json& row) {
  // A law that fails is a fault of the scene, in whichever step it is.
  if (const long count = solver.counts().law_failures; count > 0)
    return "not exact: " + bullet::law_failure_text(solver.law_failures(), count);
  if (torn.is_null() && scene.built() && (steps.fallbacks > 0 || !solver.rank_report().contradictory.empty())) {
    torn = cli::contradiction(scene.built()->mirror(), scene.built()->model(), scene.built()->state(end));
    if (!torn.is_null()) row["rank"] = torn;
  }
  // Joints of a multibody cannot open: there the solver knows better who is left open.
  if (const auto known = solver.rank_report().contradictory;
      !torn.is_null() && !known.empty() && scene.built() && scene.built()->multibodies())
    torn["contradictory"] = names_at(known, solver.reactions());
  const std::string why = torn.is_null() ? "" : cli::torn_text(torn, solver.reactions());
  return verdict_of_steps(steps, "the native solver", why, solver.native());
}

std::string force_failure_text(const Built::ForceFailure& failure) {
  char text[160];
  std::snprintf(text, sizeof text,
                "\" was not finite in %ld %s, first at t = %.6g s, and did not act then. Correct its expression",
                failure.steps, failure.steps == 1 ? "step" : "steps", failure.t);
  return "force \"" + failure.force + text;
}

// Gives the bodies of the solver the names that they have in the scene. A body that cannot move has none in the solver.
void name_bodies(Scene& scene, bullet::Solver& solver) {
  const auto name = [&](const bullet::BodyRef& body, const std::string& as) {
    (void)try_call([&] { solver.name_body(body, as); });
  };
  const Multibodies* const multibodies = scene.built() ? scene.built()->multibodies() : nullptr;
  for (std::size_t i = 0; i < scene.bodies().size(); ++i)
    if (!scene.bodies()[i]->isStaticOrKinematicObject() && scene.bodies()[i]->isInWorld())
      name(*scene.bodies()[i], scene.body_names()[i]);
  for (int i = 0; multibodies && i < scene.built()->mirror().body_count(); ++i) {
    const BodyId body = scene.built()->mirror().body_at(i);
    if (const bullet::Link link = multibodies->link(body); link.body) name(link, scene.built()->mirror().name(body));
  }
}

Json method(const Job& job, Scene& scene, bool exact) {
  bullet::Options options;
  options.mode = exact ? bullet::Mode::exact : bullet::Mode::passive;
  if (scene.built()) {
    options.drift_correction = scene.built()->model().options.drift == Drift::exact;
    options.max_newton = scene.built()->model().options.max_newton;
  }
  const bool direct = job.kind == "mlcp" || job.kind == "lemke";
  const auto [integrator, held] = bullet::method_of(scene.world().getSolverInfo(), options, direct);
  Json out = {{"host", bullet::host_name()}, {"integrator", integrator}, {"stabilisation", held}};
  if (job.kind == "si" || job.kind == "nncg") out["iterations"] = job.iterations;
  return out;
}

}  // namespace

Json measure(const Job& job, Progress& progress) {
  Timing timing;
  progress.phase("load");
  const Structure structure = look_at_structure(job, progress);
  if (job.time_apart) timing = time_steps(job, progress);
  Scene scene(job);
  std::string why;
  const auto solver = install(job, scene, why);
  const bool needs_us =
      job.kind == "exact" || (!alone(scene) && scene.built() && !scene.built()->constrained().empty());
  if (!solver && needs_us) throw Refused("solver", why);
  const std::vector<std::string> names = names_of_joints(scene, solver.get());
  Watch watch(scene, job.kind == "exact" ? solver.get() : nullptr);
  std::unique_ptr<Reference> reference;
  const bool multibodies = scene.built() && scene.built()->multibodies();
  if (multibodies)
    why = "joints of multibodies have no second solution to be compared with";
  else if (solver)
    reference = std::make_unique<Reference>(scene, *solver, job, structure.undetermined);
  std::unique_ptr<TableFile> table;
  if (!job.csv.empty()) table = std::make_unique<TableFile>(job.csv, scene, names, job.time_apart, watch);
  std::unique_ptr<Recorder> recorder;
  if (job.record) recorder = std::make_unique<Recorder>(*job.record, scene, names, job.dt, job.steps);
  std::unique_ptr<JointForces> joint_forces;
  if (table || recorder) joint_forces = std::make_unique<JointForces>(scene, names.size(), job.kind == "exact");

  std::unique_ptr<scene::Judge> judge;
  if (scene.built() && job.kind == "exact" && !scene.built()->model().expectations.empty())
    judge = std::make_unique<scene::Judge>(scene.built()->model(), host, job.dt);
  StepStart start(scene, solver.get());
  std::unique_ptr<cli::RunRemarks> remarks;
  if (scene.built()) remarks = std::make_unique<cli::RunRemarks>(scene.built()->model());
  const auto logs_at = [&](const State& state, std::span<const Reaction> reactions, bool forces_known) {
    return remarks ? remarks->logs({scene.built()->mirror(), state, reactions, &start.modes()}, forces_known)
                   : std::span<const double>();
  };

  std::string status = "ok";
  StepCounts steps;
  progress.phase("run");
  for (long step = 0; step < job.steps; ++step) {
    const double t = double(step) * job.dt;
    if (step == job.warmup_steps) watch.begin(t);
    if (reference) reference->before();
    if (table) table->state(t, job.dt, watch);
    if (recorder) recorder->state(t, watch);
    if (joint_forces) joint_forces->before();
    // A step within which an expectation waits is taken in parts. Forces at its start are those of the first.
    const std::vector<double> parts = judge ? judge->parts(t, job.dt) : std::vector<double>{job.dt};
    double now = t;
    long long ns = 0;
    ++steps.taken;
    for (std::size_t part = 0; part < parts.size() && status == "ok"; ++part) {
      const double h = parts[part];
      start.before(now);
      ns += timed_step(scene, now, h);
      now += h;
      if (const std::string ruin = scene.ruin(step); !ruin.empty()) {
        status = ruin;
        break;
      }
      start.look_at_modes(now);
      if (judge) judge->see({scene.built()->mirror(), start.state(), start.reactions(), &start.modes()});
      watch.events(step);
      if (part + 1 == parts.size() && step >= job.warmup_steps) {
        watch.look(double(step + 1) * job.dt, h);
        if (!job.time_apart) timing.ns.push_back(ns);
        if (reference && parts.size() == 1) reference->after(step);
      }
      if (part > 0) continue;
      if (!table && !recorder) continue;
      const auto logs = logs_at(start.state(), start.reactions(), true);
      if (table) table->forces(*joint_forces, solver.get(), reference.get(), logs);
      if (recorder) recorder->forces(*joint_forces, solver.get(), logs);
    }
    if (remarks && status == "ok") remarks->step(scene.built()->state(now));
    if (job.kind == "exact" && solver->counts().fallbacks > steps.fallbacks)
      ++steps.inexact, steps.fallbacks = solver->counts().fallbacks;
    if (status != "ok") break;
    progress.step(step, job.steps);
  }
  const double end = double(steps.taken) * job.dt;
  if (table) {
    if (status == "ok") table->state(end, job.dt, watch);
    table->close(scene.built() ? logs_at(scene.built()->state(end), {}, false) : std::span<const double>());
  }
  if (recorder && status == "ok") recorder->state(end, watch);

  Json row;
  row["name"] = job.solver;
  row["precision"] = precision;
  row["steps"] = steps.taken;
  row["ns_per_step"] = timing.ns.empty() ? Json() : Json(median(timing.ns));
  watch.report(row, names);
  if (reference) {
    reference->report(row);
  } else {
    for (const char* key : {"force_rms_error_rel", "moment_rms_error_rel", "impulse_rms_error_rel"}) row[key] = nullptr;
    row["force_samples"] = 0;
    row["force_basis"] = nullptr;
    row["force_note"] = why;
  }
  if (!structure.rank.is_null()) row["rank"] = structure.rank;
  const bullet::Counts counts = solver ? solver->counts() : bullet::Counts();
  const bool exact = job.kind == "exact";
  row["fallbacks"] = exact ? counts.fallbacks : timing.mlcp_fallbacks;
  row["substepped_steps"] = exact ? counts.substepped_steps : 0;
  row["gap_corrected_m"] = exact ? counts.largest_correction : 0.0;
  row["native"] = Json::array();
  if (exact)
    for (const auto& native : solver->native()) row["native"].push_back({{"name", native.name}, {"why", native.why}});
  row["gravity"] = {double(scene.world().getGravity().x()), double(scene.world().getGravity().y()),
                    double(scene.world().getGravity().z())};
  row["gravity_from"] = job.gravity ? "option" : scene.gravity_from_file() ? "file" : "default";
  row["bodies"] = scene.bodies().size();
  row["joints"] = names.size();
  // Steps that went to native rows are not exact, however well the rest went.
  if (exact && status == "ok") status = verdict(scene, *solver, structure.torn, end, steps, row);
  const auto gained = [&](BodyId body) {
    return body.index < 0 ? std::string("a multibody") : solver->body_name(body);
  };
  if (solver) name_bodies(scene, *solver);
  if (exact && status.starts_with("ok")) {
    const auto gains = solver->energy_gains();
    const std::string first = gains.empty() ? "" : gained(gains.front().body);
    const std::string found =
        cli::watch_status(first, gains, counts.energy_gains, solver->velocity_residuals(), counts.velocity_residuals);
    if (!found.empty()) status = found;
  }
  if (scene.built() && scene.built()->force_failure().steps > 0 && status.starts_with("ok"))
    status = force_failure_text(scene.built()->force_failure());
  std::vector<std::string> said = remarks ? remarks->texts() : std::vector<std::string>();
  if (status.starts_with("ok"))
    for (const std::string& each : said) cli::add_remark(status, each);
  if (exact && stepping_is_idle(scene, *solver)) said.push_back(idle_stepping(scene));
  row["status"] = status;
  if (alone(scene)) {
    row["enforced_by_bullet"] = Json::array();
    for (const NativeLoops::Held& each : scene.built()->native_loops()->held())
      row["enforced_by_bullet"].push_back({{"name", each.name}, {"why", each.by}});
    std::string summary = summary_of_host("Bullet alone (" + std::string(precision) + " precision, " + job.solver + ")",
                                          row, end, watch.energy(end));
    if (!row["enforced_by_bullet"].empty())
      summary += "  held by Bullet's own constraints: " + recording::grouped_natives(row["enforced_by_bullet"]) + "\n";
    row["summary"] = summary;
  }
  if (exact) {
    row["laws"] = cli::laws_json(solver->laws());
    row["law_differences"] = normal_force_differences(solver->laws());
    cli::put_energy_gains(row, solver->energy_gains(), counts.energy_gains, gained);
    cli::put_mode_changes(row, start.modes());
    row["warnings"] = Json::array();
    for (const bullet::LawWarning& warning : solver->law_warnings())
      row["warnings"].push_back(bullet::warning_text(warning));
  }
  if (solver) row["summary"] = solver->summary();
  for (const std::string& each : said) {
    row["warnings"].push_back(each);
    if (row.contains("summary")) row["summary"] = row["summary"].get<std::string>() + "  warning: " + each + "\n";
  }
  if (row.contains("summary"))
    row["summary"] = completed(row, row["summary"].get<std::string>(), watch.energy_at_start());
  row["method"] = method(job, scene, exact);
  if (recorder) row["motion"] = recorder->json();
  if (!judge) return row;
  if (status.starts_with("ok")) {  // the forces at the last state are those of the step that starts there
    start.before(end);
    const bool forces = judge->needs_forces(end);
    if (forces) scene.step(end, job.dt);
    judge->see({scene.built()->mirror(), start.state(), forces ? start.reactions() : std::span<const Reaction>(),
                &start.modes()});
  }
  judge->end(double(job.steps) * job.dt);
  row["expect"] = cli::verdicts_json(*judge);
  return row;
}

}  // namespace linchpin::worker
