#include "bare_run.h"

#include "contradiction.h"
#include "csv.h"
#include "divergence.h"
#include "law_works.h"
#include "messages.h"
#include "mode_changes.h"
#include "prescribing.h"
#include "recording/columns.h"
#include "recording/compare_text.h"
#include "remarks.h"
#include "run_remarks.h"
#include "verdicts.h"
#include "watch_status.h"

#include <linchpin/report.h>
#include <linchpin/scene/joint_limits.h>
#include <linchpin/scene/modes.h>
#include <linchpin/scene_recorder.h>
#include <linchpin/stepper.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace linchpin::cli {

namespace {

constexpr const char* in_bodies = "multibodies (the joints of a robot are constraints between rigid bodies here)";

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

// Of the rows of each constraint, by the first: what its gap is told in.
std::vector<RowUnit> units_of_gaps(const scene::Model& model, const System& system) {
  std::vector<RowUnit> out;
  for (const scene::SceneConstraint& c : model.constraints) out.push_back(scene::gap_unit(system, c));
  return out;
}

// Of all constraints, in the order of the model.
std::vector<ConstraintId> ids_of(const scene::Model& model, const System& system) {
  std::vector<ConstraintId> out;
  for (const scene::SceneConstraint& c : model.constraints) out.push_back(system.find_constraint(c.name));
  return out;
}

// Of rows in other units too, what is in this one.
double gap_in(RowUnit unit, const Reaction& r) {
  return unit == RowUnit::metre ? r.gap : unit == RowUnit::radian ? r.gap_angle : r.residual;
}

// The columns of a worker's file (worker/table_file.h), from the core's own records.
class Table {
 public:
  Table(const std::string& file, const scene::Model& model, const System& system)
      : csv_(file), model_(model), units_(units_of_gaps(model, system)) {
    csv_.column("t [s]");
    for (const scene::SceneBody& body : model.bodies) {
      if (body.kind != BodyKind::coordinate) {
        csv_.columns(body.name, body_columns);
        continue;
      }
      csv_.column(body.name + bracketed(body.unit));
      csv_.column(body.name + "'" + bracketed(body.unit.empty() ? "" : body.unit + "/s"));
    }
    for (std::size_t i = 0; i < units_.size(); ++i) csv_.column(model.constraints[i].name + gap_column(units_[i]));
    for (const scene::SceneConstraint& c : model.constraints) {
      if (!is_coordinate(c.bodies[0])) csv_.columns(c.name, force_columns);
      for (const BodyId id : c.bodies)
        if (is_coordinate(id))
          csv_.column(c.name + " on " + system.name(id) + bracketed(scene::force_unit(body_of(id).unit)));
    }
    csv_.columns(model.logs);
    csv_.end_row();
  }

  /// @param forces  whether the reactions have any: the equation has no answer at every state that a step can reach
  /// @param logs  values of all of them
  void row(const scene::Observation& at, bool forces, std::span<const double> logs) {
    csv_.put(at.state.t);
    for (std::size_t i = 1; i < at.state.bodies.size(); ++i) {
      const BodyState& s = at.state.bodies[i];
      if (is_coordinate({static_cast<int>(i)})) {
        csv_.put(s.p.x());
        csv_.put(s.v.x());
        continue;
      }
      csv_.put(s);
    }
    for (std::size_t i = 0; i < units_.size(); ++i) csv_.put(gap_in(units_[i], at.reactions[i]));
    const double none = std::nan("");
    const Wrench no_wrench{Vector3d::Constant(none), Vector3d::Constant(none)};
    for (std::size_t i = 0; i < at.reactions.size(); ++i) {
      const Reaction& r = at.reactions[i];
      const std::vector<BodyId>& bodies = model_.constraints[i].bodies;
      if (!is_coordinate(bodies[0])) csv_.put(forces ? r.on_a : no_wrench);
      for (std::size_t k = 0; k < bodies.size(); ++k)
        if (is_coordinate(bodies[k])) csv_.put(forces ? r.on(static_cast<int>(k)).force.x() : none);
    }
    for (const double x : logs) csv_.put(x);
    csv_.end_row();
  }
  void close() { csv_.close(); }

 private:
  const scene::SceneBody& body_of(BodyId id) const { return model_.bodies[static_cast<std::size_t>(id.index) - 1]; }
  bool is_coordinate(BodyId id) const { return id != ground && body_of(id).kind == BodyKind::coordinate; }
  Csv csv_;
  const scene::Model& model_;
  std::vector<RowUnit> units_;  // of gaps
};

// The same as frames.
class Recorder {
 public:
  Recorder(const recording::RecordingOptions& options, const Simulation& simulation, const scene::Model& model,
           const System& system)
      : ids_(ids_of(model, system)),
        recording_(options, simulation.dt, simulation.steps, scene::recorded_bodies(model),
                   scene::recorded_joints(model, system), scene::recorded_signals(model)) {}

  void row(const scene::Observation& at, bool forces, std::span<const double> logs) {
    gaps_.clear();
    forces_.clear();
    for (std::size_t i = 0; i < at.reactions.size(); ++i) {
      const Reaction& r = at.reactions[i];
      // The distance of a released constraint is no residual.
      gaps_.push_back(at.system.enabled(ids_[i]) ? recording_.links()[i].gap_of(r) : std::nan(""));
      forces_.push_back(recording::Recording::Force::of(r, recording_.links()[i].on));
    }
    recording_.state(at.state.t, std::span(at.state.bodies).subspan(1), gaps_, linchpin::energy(at.system, at.state));
    if (!recording_.is_frame()) return;
    recording_.forces(
        forces ? std::span<const recording::Recording::Force>(forces_) : std::span<const recording::Recording::Force>(),
        logs);
  }
  Json json() const { return recording::Columns::json(recording_); }

 private:
  std::vector<ConstraintId> ids_;
  recording::Recording recording_;
  std::vector<double> gaps_;
  std::vector<recording::Recording::Force> forces_;
};

// What is looked at after every step.
struct Watch {
  double gap = 0, squares = 0, angle = 0, energy = 0, energy_error = 0;
  long count = 0;
  bool metres = false, radians = false;  // whether any row is in them
  std::string worst;
  Json user = Json::object();

  // Released constraints are no residual.
  void look(const System& system, std::span<const Reaction> reactions) {
    for (std::size_t i = 0; i < reactions.size(); ++i) {
      const Reaction& r = reactions[i];
      if (!system.enabled(ids[i])) continue;
      if (yields[i]) continue;  // Its gap is a deformation.
      squares += r.gap * r.gap;
      ++count;
      if (r.gap > gap) gap = r.gap, worst = r.name;
      angle = std::max(angle, r.gap_angle);
      if (user.contains(r.name)) user[r.name] = std::max(user[r.name].get<double>(), r.residual + velocity_of(r));
    }
  }
  double energy_gain = 0;         // largest of energy − work − the same at the start [J]
  double kinetic_energy = 0;      // largest [J]
  std::vector<ConstraintId> ids;  // of the constraints
  std::vector<char> yields;       // by constraint: whether forces act in place of its rows
  std::vector<std::string> on_velocities;
  double velocity_of(const Reaction& r) const {
    const bool velocity = std::find(on_velocities.begin(), on_velocities.end(), r.name) != on_velocities.end();
    return velocity ? r.velocity_residual : 0;
  }
};

// "2 bodies", "2 coordinates", "1 body and 2 coordinates".
std::string movers(long bodies, long coordinates) {
  const std::string of_bodies = counted(bodies, "body", "bodies");
  if (coordinates == 0) return of_bodies;
  return (bodies > 0 ? of_bodies + " and " : "") + counted(coordinates, "coordinate");
}

// From where the stepper stands, a step that leaves the gaps as they are. @return null where not even that begins
const StepReport* go_on_without_closing(System& system, const scene::Model& model, double dt,
                                        std::unique_ptr<Stepper>& stepper) {
  StepOptions options = model.options;
  options.drift = Drift::none;
  options.method = Method::semi_implicit;  // of what no motion meets there is no order of accuracy to keep
  const State from = stepper->state();
  try {
    stepper = std::make_unique<Stepper>(system, from, options);
    return &stepper->step(dt);
  } catch (const std::invalid_argument&) {
    return nullptr;
  }
}

// Who may have been left open by a step that says so, where nothing is any more: who contradicts others in
// accelerations, or else whose equations repeat those of others.
Json suspects(const Dynamics& dynamics, const scene::Model& model) {
  RankReport report = rank_of(dynamics);
  if (report.contradictory.empty()) report.contradictory = report.redundant;
  return rank_json(report, dynamics.solver().rows(), model);
}

std::string summary(const Json& row, const scene::Model& model) {
  std::ostringstream out;
  out.precision(3);
  const auto coordinates = std::count_if(model.bodies.begin(), model.bodies.end(),
                                         [](const scene::SceneBody& b) { return b.kind == BodyKind::coordinate; });
  out << movers(static_cast<long>(model.bodies.size()) - coordinates, coordinates) << ", "
      << counted(static_cast<long>(model.constraints.size()), "constraint") << ", "
      << counted(row["steps"].get<long>(), "step") << " without an engine (method " << to_string(model.options.method)
      << ")\n";
  if (row["max_gap_m"].is_number()) out << "  largest gap " << row["max_gap_m"].get<double>() << " m\n";
  for (const auto& [name, gap] : row["user_gaps"].items())
    out << "  " << name << ": residual at most " << gap.get<double>() << ", in the unit of its equation\n";
  if (row["max_energy_error_J"].is_number())
    out << "  largest energy error " << row["max_energy_error_J"].get<double>() << " J"
        << (row.contains("energy_error_of") ? ", of " + row["energy_error_of"].get<std::string>() : "") << "\n";
  for (const Json& each : row["left_out"]) out << "  the host bare leaves out: " << each.get<std::string>() << "\n";
  const double moved = row["start"]["moved_m"], turned = row["start"]["turned_rad"];
  if (moved > 1e-9 || turned > 1e-9) {
    out << "  bodies were moved by at most " << moved << " m";
    if (turned > 1e-9) out << " and rotated by at most " << turned << " rad";
    out << " to close gaps at the start\n";
  }
  if (const double jump = row["start"]["impulse_energy_J"]; jump > 1e-9)
    out << "  start velocities were changed to satisfy the constraints (kinetic energy of the change " << jump
        << " J)\n";
  if (row.contains("rank")) out << "  " << rank_text(row["rank"], false) << "\n";
  if (row.contains("rank") && !row["rank"]["contradictory"].empty())
    out << "  contradictory constraints: " << recording::some(row["rank"]["contradictory"], 6) << "\n";
  for (const Json& each : row["law_differences"]) out << "  " << each.get<std::string>() << "\n";
  for (const Json& each : row["warnings"]) out << "  warning: " << each.get<std::string>() << "\n";
  return out.str();
}

// What of a run's method a report says.
const char* integrator(Method method) {
  switch (method) {
    case Method::semi_implicit:
      break;
    case Method::rk4:
      return "Runge-Kutta of 4th order";
    case Method::adaptive:
      return "Runge-Kutta pair of order 5(4), adaptive";
    case Method::adaptive8:
      return "Runge-Kutta pair of order 8(5,3), adaptive";
    case Method::rattle:
      return "RATTLE, symplectic of 2nd order";
    case Method::rattle4:
      return "RATTLE composed, symplectic of 4th order";
  }
  return "semi-implicit Euler";
}

std::string stabilisation(const StepOptions& options) {
  if (options.drift == Drift::none) return "none: the bare acceleration";
  if (options.drift == Drift::baumgarte) return "feedback of gap and slip (Baumgarte)";
  if (options.method == Method::rk4 || chooses_parts(options.method))
    return "poses, then velocities, are projected in the mass metric after every step";
  return "the step ends on the constraint: Newton's method, at most " + std::to_string(options.max_newton) +
         " iterations";
}

// Says that a motion has gained most of its energy from no source. A gain that bodies get from rest in one step under
// gravity, and rounding, have no meaning. Empty: it has not.
std::string gain_of_energy(const Watch& watch, const System& system, double energy_at_start, double dt) {
  double mass = 0;
  for (int i = 0; i < system.body_count(); ++i)
    if (const BodyId id = system.body_at(i);
        system.kind(id) == BodyKind::particle || system.kind(id) == BodyKind::rigid)
      mass += system.mass(id);
  const double fall = 0.5 * mass * system.gravity().squaredNorm() * dt * dt;
  if (!(watch.energy_gain > fall + 1e-9 * std::abs(energy_at_start) && watch.energy_gain > 0.5 * watch.kinetic_energy))
    return {};
  char text[200];
  std::snprintf(
      text, sizeof text,
      "energy grows without a source: the motion has gained %.6g J, and its largest kinetic energy is %.6g J. "
      "Use a shorter step, or a method of higher order",
      watch.energy_gain, watch.kinetic_energy);
  return text;
}

bool has_diverged(const System& system, const State& state) {
  for (int i = 0; i < system.body_count(); ++i) {
    const BodyId id = system.body_at(i);
    const BodyState& body = state[id];
    if (system.kind(id) != BodyKind::coordinate &&
        !(body.p.cwiseAbs().maxCoeff() < divergence_bound && body.v.cwiseAbs().maxCoeff() < divergence_bound))
      return true;
  }
  return false;
}

}  // namespace

Json run_bare(const scene::Model& scene, const Simulation& simulation, const std::string& csv,
              const recording::RecordingOptions* record) {
  const scene::Model model = scene::with_joint_limits(scene);
  System system = model.system();
  if (simulation.gravity) {
    const auto& g = *simulation.gravity;
    system.set_gravity({g[0], g[1], g[2]});
  }
  // The two limits of a joint never hold together, so they have no part in this.
  Json rank = dependent_rows(scene.system(), scene, system.initial_state());
  auto stepper = std::make_unique<Stepper>(system, system.initial_state(), model.options);
  const Stepper::Start begun = stepper->start();
  std::unique_ptr<Table> table;
  if (!csv.empty()) table = std::make_unique<Table>(csv, model, system);
  std::unique_ptr<Recorder> recorder;
  if (record) recorder = std::make_unique<Recorder>(*record, simulation, model, system);
  scene::Judge judge(model, scene::Host::bare, simulation.dt);
  (void)stepper->reactions();
  scene::ModeRecord modes;
  modes.begin(system, stepper->dynamics(), stepper->t());
  RunRemarks remarks(model);
  Watch watch;
  watch.ids = ids_of(model, system);
  for (const scene::SceneConstraint& c : model.constraints) watch.yields.push_back(c.yields());
  for (const scene::SceneConstraint& c : model.constraints) {
    const ConstraintFunction& f = system.constraint(system.find_constraint(c.name)).function();
    for (int row = 0; f.level() == Level::position && row < f.rows(); ++row) {
      watch.metres = watch.metres || f.unit(row) == RowUnit::metre;
      watch.radians = watch.radians || f.unit(row) == RowUnit::radian;
    }
    if (f.level() != Level::position) watch.on_velocities.push_back(c.name);
    if (f.level() != Level::position || f.unit(0) == RowUnit::custom) watch.user[c.name] = 0.0;
  }
  const bool energy_means = conservative(system);
  // What is kept: the energy, less the work of constraints that do some; of coordinates Jacobi's integral.
  std::vector<char> works = energy_means ? prescribes_motion(model, system) : std::vector<char>();
  const bool any_work = std::count(works.begin(), works.end(), char(true)) > 0;
  bool any_impact = false;  // of unilateral constraints
  for (std::size_t i = 0; i < works.size(); ++i)
    if (model.constraints[i].unilateral) works[i] = any_impact = true;
  double work_before = 0;  // of steppers before this one
  const auto work = [&](std::span<const Reaction> reactions) {
    double sum = work_before;
    for (std::size_t i = 0; i < reactions.size() && i < works.size(); ++i) sum += works[i] ? reactions[i].work : 0;
    return sum;
  };
  const double energy0 = energy_integral(system, stepper->state());
  bool integral_alone = false;  // Jacobi's integral is something else than the energy
  std::vector<long long> ns;
  std::string status = "ok";
  std::vector<std::string> warnings;
  long taken = 0, substepped_steps = 0;
  bool gaps_stay = false, torn = false, divided = false;  // divided: the step was made in substeps
  std::string since;                                      // what became of the step when they were found to stay
  ProgressLine progress;
  // At every state a step of the run ends in, and at those within it that an expectation waits for.
  const auto observe = [&](bool end_of_step) {
    const bool forces = end_of_step || judge.needs_forces(stepper->t());
    const scene::Observation at{system, stepper->state(), forces ? stepper->reactions() : std::span<const Reaction>(),
                                &modes};
    judge.see(at);
    if (!end_of_step) return;
    const bool known = stepper->dynamics().reason().empty();
    if (table || recorder) {
      const auto logs = remarks.logs(at, known);
      if (table) table->row(at, known, logs);
      if (recorder) recorder->row(at, known, logs);
    }
    watch.look(system, at.reactions);
    if (!energy_means) return;
    const double kept = energy_integral(system, at.state);
    const double gained = kept - energy0 - work(at.reactions);
    watch.energy_error = std::max(watch.energy_error, std::abs(gained));
    watch.energy_gain = std::max(watch.energy_gain, gained);
    watch.kinetic_energy = std::max(watch.kinetic_energy, kinetic_energy(system, at.state));
    integral_alone =
        integral_alone || std::abs(kept - linchpin::energy(system, at.state)) > 1e-9 * (1 + std::abs(kept));
  };
  // @return whether the run goes on
  const auto take = [&](long step, double dt) {
    const StepReport* report = &stepper->step(dt);
    if (report->rejected && !gaps_stay) {
      // Where constraints contradict each other no end of a step lies on them all: it goes on by their accelerations.
      State end = stepper->state();
      end.t += dt;
      if (const Json found = contradiction(system, model, end); !found.is_null() && !found["contradictory"].empty()) {
        rank = found;
        gaps_stay = torn = true;
        const std::string why = report->reason;
        work_before = work(stepper->reactions());
        report = go_on_without_closing(system, model, dt, stepper);
        const std::string from = " (since step " + std::to_string(step) + " gaps are not closed, because " + why + ")";
        if (report && !report->rejected) since = from;
      }
    }
    if (!report || report->rejected) {
      status = "the run stopped at step " + std::to_string(step) + ": " + (report ? report->reason : "not finite");
      if (gaps_stay) status += "; " + torn_text(rank);
      return false;
    }
    if (has_diverged(system, stepper->state())) {
      status = divergence_text(step) + ". Use a shorter step";
      return false;
    }
    modes.add(system, stepper->switches());
    if (!report->gains_energy) take_warning(report->warning, warnings);
    divided = divided || (report->substeps > 1 && !chooses_parts(model.options.method));
    if (report->status == Status::contradictory && !std::exchange(torn, true)) {
      // What the step could not meet may be met again by now, as at a pose at which a mechanism folds.
      const Json found = contradiction(system, model, stepper->state());
      rank = found.is_null() ? suspects(stepper->dynamics(), model) : found;
    }
    return true;
  };
  observe(true);
  bool goes_on = true;
  for (long step = 0; goes_on && step < simulation.steps; ++step) {
    divided = false;
    const std::vector<double> parts = judge.parts(stepper->t(), simulation.dt);
    std::chrono::nanoseconds spent{0};
    for (std::size_t i = 0; goes_on && i < parts.size(); ++i) {
      const auto start = Clock::now();
      goes_on = take(step, parts[i]);
      spent += Clock::now() - start;
      if (goes_on) observe(i + 1 == parts.size());
    }
    if (goes_on) remarks.step(stepper->state());
    ns.push_back(spent.count());
    taken += goes_on;
    substepped_steps += goes_on && divided;
    progress.show("bare: %ld %%", 100 * step / simulation.steps);
  }
  if (table) table->close();
  if (const std::string found = watch_status(system, *stepper); status == "ok" && !found.empty()) status = found;
  if (const std::string found = gain_of_energy(watch, system, energy0, simulation.dt);
      status == "ok" && energy_means && !integral_alone && !torn && !found.empty())
    status = found;
  if (torn && status == "ok") status = "ok, but " + torn_text(rank, stepper->reactions()) + since;
  judge.end(simulation.dt * static_cast<double>(simulation.steps));
  for (const std::string& each : remarks.texts()) {
    warnings.push_back(each);
    if (status.starts_with("ok")) add_remark(status, each);
  }

  Json row;
  row["name"] = "exact";
  row["host"] = "bare";
  row["precision"] = "double";
  row["steps"] = taken;
  std::sort(ns.begin(), ns.end());
  row["ns_per_step"] = ns.empty() ? Json() : Json(ns[ns.size() / 2]);
  row["max_gap_m"] = watch.metres ? Json(watch.gap) : Json();
  row["rms_gap_m"] = watch.metres && watch.count > 0 ? Json(std::sqrt(watch.squares / double(watch.count))) : Json();
  row["max_gap_rad"] = watch.radians ? Json(watch.angle) : Json();
  row["max_gap_joint"] = watch.worst.empty() ? Json() : Json(watch.worst);
  row["user_gaps"] = watch.user;
  row["max_energy_error_J"] = energy_means ? Json(watch.energy_error) : Json();
  if (energy_means && (any_work || any_impact || integral_alone))
    row["energy_error_of"] =
        std::string(integral_alone ? "Jacobi's integral" : "energy") + less_work(any_work, any_impact);
  row["energy_note"] = energy_means ? Json() : Json("force laws, or forces without a potential");
  row["substepped_steps"] = substepped_steps;
  row["start"] = {{"gap", begun.gap},
                  {"moved_m", begun.moved},
                  {"turned_rad", begun.turned},
                  {"impulse_energy_J", begun.impulse_energy}};
  row["warnings"] = warnings;
  row["laws"] = laws_json(stepper->law_works());
  row["law_differences"] = normal_force_differences(stepper->law_works());
  put_energy_gains(row, stepper->energy_gains(), stepper->energy_gain_count(),
                   [&](BodyId body) { return system.name(body); });
  put_mode_changes(row, modes);
  if (!rank.is_null()) row["rank"] = rank;
  row["left_out"] = model.native;
  if (model.multibodies > 0) row["left_out"].push_back(in_bodies);
  if (model.contacts) row["left_out"].push_back("contacts = true: bodies collide on a Bullet host only");
  if (model.stepping != Method::semi_implicit)
    row["left_out"].push_back("stepping = \"" + std::string(to_string(model.stepping)) +
                              "\", which applies to Bullet only (this host uses method = \"" +
                              to_string(model.options.method) + "\")");
  row["gravity"] = {system.gravity().x(), system.gravity().y(), system.gravity().z()};
  row["gravity_from"] = simulation.gravity ? "option" : model.gravity_given ? "file" : "default";
  row["bodies"] = model.bodies.size();
  row["joints"] = scene.constraints.size();
  row["method"] = {{"integrator", integrator(model.options.method)}, {"stabilisation", stabilisation(model.options)}};
  row["status"] = status;
  if (recorder) row["motion"] = recorder->json();
  row["summary"] = summary(row, scene);
  if (!model.expectations.empty()) row["expect"] = verdicts_json(judge);
  return row;
}

}  // namespace linchpin::cli
