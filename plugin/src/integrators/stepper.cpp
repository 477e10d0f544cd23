// Motion without a host: its start, the beginning and end of a step, and its queries. Hides the updates after a change
// of the system. The kinds of steps are in the sources beside this one (stepper_impl.h).
#include "dynamics/step_events.h"
#include "integrators/stepper_impl.h"
#include "model/format.h"
#include "model/prescribed_motion.h"
#include "model/system_impl.h"
#include "projection/stock_joints_of.h"
#include "projection/workspace.h"

#include <linchpin/constraint.h>
#include <linchpin/projection.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <stdexcept>

namespace linchpin {

bool locates_events(Method method) {
  return method == Method::rk4 || method == Method::adaptive || method == Method::adaptive8;
}

const char* to_string(Method method) {
  switch (method) {
    case Method::semi_implicit:
      return "semi-implicit";
    case Method::rk4:
      return "rk4";
    case Method::adaptive:
      return "adaptive";
    case Method::adaptive8:
      return "adaptive8";
    case Method::rattle:
      return "rattle";
    default:
      return "rattle4";
  }
}

namespace {

/// Returns an error with name and value for options that allow no step. Otherwise empty.
std::string wrong_with(const StepOptions& o) {
  if (std::find(all_methods.begin(), all_methods.end(), o.method) == all_methods.end())
    return "StepOptions::method is " + std::to_string(static_cast<int>(o.method)) + ", which is not a value of Method";
  if (o.drift != Drift::exact && o.drift != Drift::none && o.drift != Drift::baumgarte)
    return "StepOptions::drift is " + std::to_string(static_cast<int>(o.drift)) + ", which is not a value of Drift";
  if (symplectic(o.method) && o.drift != Drift::exact)
    return "the method " + std::string(to_string(o.method)) + " needs StepOptions::drift = Drift::exact";
  for (const auto& [name, value] : {std::pair{"newton_tolerance", o.newton_tolerance},
                                    {"max_tension_frequency", o.max_tension_frequency},
                                    {"event_tolerance", o.event_tolerance},
                                    {"baumgarte_rate", o.baumgarte_rate},
                                    {"max_energy_gain", o.max_energy_gain},
                                    {"max_velocity_residual", o.max_velocity_residual}})
    if (!(value > 0)) return "StepOptions::" + std::string(name) + " must be above 0, got " + text(value);
  for (const auto& [name, value] :
       {std::pair{"relative_tolerance", o.relative_tolerance}, {"absolute_tolerance", o.absolute_tolerance}})
    if (!(value >= 0) || !std::isfinite(value) || o.relative_tolerance + o.absolute_tolerance == 0)
      return "StepOptions::" + std::string(name) +
             " must be finite and not below 0, and not both tolerances may be 0, got " + text(value);
  for (const auto& [name, value] :
       {std::pair{"max_newton", o.max_newton}, {"max_substeps", o.max_substeps}, {"max_switches", o.max_switches}})
    if (value < 1) return "StepOptions::" + std::string(name) + " must be at least 1, got " + std::to_string(value);
  return "";
}

}  // namespace

Stepper::Impl::Impl(System& s, State at, const StepOptions& o)
    : system(&s), state(std::move(at)), options(o), dynamics(s, o.solve), factor_at_start(s, o.solve) {
  if (const std::string why = wrong_with(o); !why.empty()) throw std::invalid_argument("linchpin::Stepper: " + why);
  if (const std::string why = begin_at(true); !why.empty()) throw std::invalid_argument("linchpin::Stepper: " + why);
}

std::string Stepper::Impl::begin_at(bool forget) {
  const std::size_t count = z(system->body_count());
  if (state.bodies.size() > count || (forget && state.bodies.size() < count))
    return "the state has " + std::to_string(state.bodies.size()) + " bodies, but the system has " +
           std::to_string(count) + ". Use system.initial_state()";
  SystemParts::of(*system).bring_in(state);  // Bodies added since.
  if (forget) {                              // At a new state those may hold that were open at the last one.
    for (const UnilateralMode& p : switching.inactive_unilateral)
      if (!system->removed(p.on)) system->enable(p.on, true);
    switching.inactive_unilateral.clear();
  }
  restructure_dynamics();
  dynamics.set_step(0);
  dynamics.compute_rates(options.method == Method::rk4);
  if (symplectic(options.method))
    for (const BodyId id : block().bodies)
      if (system->kind(id) == BodyKind::coordinate)
        return "the method " + std::string(to_string(options.method)) + " does not support coordinates such as '" +
               system->name(id) + "'. Use rk4 or adaptive";
  control.try_h = 0;
  control.first_stage_is_known = false;
  dense.segment_count = 0;
  std::fill(dense.values.begin(), dense.values.end(), std::numeric_limits<double>::quiet_NaN());
  switching.modes.clear();
  switching.modes_known = false;
  switching.stuck.clear();
  collect_unilateral();
  recorder.restructure(*system, block(), forget);
  start = {};
  reaction_list_is_current = false;
  last_dt = last_frequency = last_h = 0;
  system->update_kinematic(state);
  // Constraints that the state leaves hold nothing.
  const auto evaluate_without_open = [&] {
    if (dynamics.evaluate(state) == Status::invalid) return false;
    if (!deactivate_open()) return true;
    restructure_dynamics();
    collect_unilateral();
    recorder.restructure(*system, block(), forget);
    return dynamics.evaluate(state) != Status::invalid;
  };
  if (!evaluate_without_open()) return dynamics.reason();
  start.gap = std::max(largest(dynamics.assembly().position), detail::widest_turn(dynamics, state));
  project_positions(*system, dynamics, state, options.newton_tolerance, 10 * options.max_newton, &start.moved,
                    &start.turned);
  if (!evaluate_without_open()) return dynamics.reason();  // A state beyond a constraint may leave it from there.
  start.impulse_energy = project_velocities(*system, dynamics, state);
  watching.watch.restructure(*system, block());
  resize_work_memory();
  return {};
}

void Stepper::Impl::restructure_dynamics() {
  dynamics.restructure();
  factor_at_start.restructure();
  watching.at_end.layout = block();
  watching.has_velocity_rows = has_level(*system, block(), Level::velocity);
}

void Stepper::Impl::resize_work_memory() {
  const std::size_t n = z(block().n()), m = z(block().m());
  for (auto* x : {&work.v0, &work.v1, &work.force, &work.gyroscopic, &work.in_chart, &work.gained, &work.momentum,
                  &work.momentum_before})
    x->assign(n, 0.0);
  for (auto* x : {&work.beyond, &work.beyond_rate, &work.error, &work.all}) x->assign(m, 0.0);
  for (Stages* stages : {&work.vdot, &work.pose_rate})
    for (auto& x : *stages) x.assign(n, 0.0);
  dense.trial.resize(n);
  work.forces_alone.layout = block();
  switching.switches.reserve(16);
}

bool Stepper::Impl::structure_changed() const {
  std::size_t on = 0;
  for (int i = 0; i < system->constraint_count(); ++i) {
    const ConstraintId id = system->constraint_at(i);
    if (system->removed(id) || !system->enabled(id)) continue;
    if (on >= block().constraints.size() || block().constraints[on] != id) return true;
    ++on;
  }
  if (on != block().constraints.size()) return true;
  for (const BodyId id : block().bodies)
    if (system->dof(id) == 0) return true;
  return static_cast<int>(state.bodies.size()) > system->body_count() || SystemParts::of(*system).lacks_bodies(state);
}

void Stepper::Impl::refuse(Status status, std::string why) {
  report.rejected = true;
  report.status = std::max(report.status, status);
  report.reason = std::move(why);
}

void Stepper::Impl::add_feedback(std::span<double> acceleration) {
  const Assembly& assembly = dynamics.assembly();
  const double alpha = options.baumgarte_rate;
  for (std::size_t r = 0; r < work.error.size(); ++r)
    work.error[r] = -2 * alpha * assembly.velocity[r] - alpha * alpha * assembly.position[r];
  dynamics.solver().apply(work.error, work.beyond_rate, {}, work.force);
  for (std::size_t j = 0; j < acceleration.size(); ++j) acceleration[j] += work.force[j];
}

void Stepper::Impl::move(const State& from, State& to, double h, std::span<const double> v) const {
  for (std::size_t s = 0; s < block().bodies.size(); ++s) {
    const Vector6d u = twist_of(block(), s, v);
    BodyState& body = to[block().bodies[s]];
    body = from[block().bodies[s]];
    body.v = u.head<3>();
    body.w = u.tail<3>();
    advance(body, body.v, body.w, h);
  }
}

double Stepper::Impl::stiffness_frequency(const State& at, double h) {
  for (std::size_t r = 0; r < work.all.size(); ++r)
    work.all[r] = dynamics.lambda()[r] + dynamics.induced()[r] + work.beyond[r] / h;
  return tension_frequency(*system, dynamics, at, work.all);
}

void Stepper::Impl::velocities(const State& at, std::span<double> v) const {
  for (std::size_t s = 0; s < block().bodies.size(); ++s) {
    const BodyState& body = at[block().bodies[s]];
    const int first = block().column[s], dof = block().column[s + 1] - first;
    for (int j = 0; j < dof; ++j) v[z(first + j)] = j < 3 ? body.v[j] : body.w[j - 3];
  }
}

bool Stepper::Impl::is_finite(const State& x) const {
  return std::all_of(block().bodies.begin(), block().bodies.end(), [&](BodyId id) {
    const BodyState& body = x[id];
    return body.p.allFinite() && body.v.allFinite() && body.w.allFinite();
  });
}

void Stepper::Impl::set_velocities(std::span<const double> v, State& to) const {
  for (std::size_t s = 0; s < block().bodies.size(); ++s) {
    const Vector6d u = twist_of(block(), s, v);
    to[block().bodies[s]].v = u.head<3>();
    to[block().bodies[s]].w = u.tail<3>();
  }
}

std::string Stepper::Impl::name_of(const LawForce& e) const {
  const ConstraintId on = block().constraints[z(e.constraint)];
  return "law '" + laws_on(*system, on)[z(e.law)].terms()[z(e.term)].name + "' on " + system->name(on);
}

void Stepper::Impl::accept() {
  const auto accept_constraint = [&](ConstraintId id) {
    Constraint& constraint = system->constraint(id);
    work.scene.clear();
    for (const BodyId body : constraint.bodies()) work.scene.push_back(state[body]);
    constraint.function().accept(work.scene, state.t);
  };
  for (const ConstraintId id : block().constraints) accept_constraint(id);
  // A released constraint counts the turns of its bodies, too, because its gap is watched.
  for (const UnilateralMode& mode : switching.inactive_unilateral) accept_constraint(mode.on);
}

const StepReport& Stepper::Impl::step(double dt) {
  begin_report();
  if (!(dt > 0) || !std::isfinite(dt)) {
    refuse(Status::invalid, "dt must be positive and finite");
    return report;
  }
  reaction_list_is_current = false;
  before = state;
  const double h_before = last_h;
  watching.may_divide = true;
  for (bool again = true; again;) {
    take(dt);
    again = report.rejected ? take_less_divided(h_before) : needs_more_parts(dt);
    if (again) begin_again(h_before);
  }
  if (report.rejected)
    undo_step(h_before);
  else
    finish_step(dt);
  return report;
}

void Stepper::Impl::take(double dt) {
  try {  // Motions of kinematic bodies are user functions.
    if ((restart || structure_changed()) && !assemble_again()) return;
    recorder.begin(*system);
    watching.watch.begin(*system, before);
    watching.h_before = last_h;
    watching.stuck_before = switching.stuck;
    watching.reversals_before = law_reversals();
    recorded_until = state.t;
    options.method == Method::semi_implicit ? semi_implicit(dt) : march(dt);
  } catch (const std::exception& e) {
    refuse(Status::invalid, e.what());
  } catch (...) {
    refuse(Status::invalid, "something that is not a std::exception was thrown");
  }
}

bool Stepper::Impl::take_less_divided(double h_before) {
  if (watching.halvings == 0) return false;
  if (watching.may_divide) ++watching.rejected_divisions;
  watching.may_divide = false;
  --watching.halvings;
  undo_step(h_before);
  return true;
}

double Stepper::Impl::relative_energy_gain(const StepWatch::Step& step) {
  StepWatch& watch = watching.watch;
  const double relative = watch.compare_energies(*system, dynamics, step, recorder.sources());
  if (!(watch.gain_grows() && relative > 0.5 * options.max_energy_gain)) return relative;
  double without_jumps = relative;
  for (const ConstraintId id : block().constraints) {
    const Constraint& constraint = system->constraint(id);
    work.scene.clear();
    bool jumps = false;
    for (const BodyId body : constraint.bodies()) {
      work.scene.push_back(before[body]);
      jumps = jumps || (system->kind(body) == BodyKind::kinematic && detail::motion_jumps(before[body], state[body]));
    }
    if (!jumps && !detail::rate_jumps(constraint, work.scene, before.t, step.dt)) continue;
    for (const BodyId body : constraint.bodies()) without_jumps = watch.explain(block(), body);
  }
  return without_jumps;
}

bool Stepper::Impl::may_leave_residual() const {
  if (!std::isfinite(options.max_velocity_residual)) return false;
  if (options.drift != Drift::exact) return true;
  return options.method != Method::semi_implicit && (watching.has_velocity_rows || !dynamics.solver().full_row_rank());
}

void Stepper::Impl::compare_velocities(const StepWatch::Step& step) {
  assemble_constraints(*system, step.end, watching.at_end);
  if (watching.at_end.failure.empty()) watching.watch.compare_velocities(*system, dynamics, watching.at_end, step);
}

bool Stepper::Impl::needs_more_parts(double dt) {
  constexpr int calm = 64;  // Steps after which fewer parts are tried.
  const double gain_limit = options.max_energy_gain, residual_limit = options.max_velocity_residual;
  const bool by_energy = std::isfinite(gain_limit), by_velocities = may_leave_residual();
  StepWatch& watch = watching.watch;
  report.divisions = 1 << watching.halvings;
  if (!(by_energy || by_velocities) || !switching.switched_in_step.empty()) return false;
  const bool by_middles = options.method == Method::semi_implicit;
  const StepWatch::Step step{.start = before,
                             .end = state,
                             .dt = dt,
                             .start_lag = by_middles ? 0.5 * watching.h_before : 0,
                             .end_lag = by_middles ? 0.5 * last_h : 0};
  double relative = 0;
  try {  // Potentials and constraints are user functions.
    if (by_energy) relative = relative_energy_gain(step);
    if (by_velocities) compare_velocities(step);
  } catch (const std::exception& e) {
    return refuse(Status::invalid, e.what()), false;
  } catch (...) {
    return refuse(Status::invalid, "something that is not a std::exception was thrown"), false;
  }
  const bool gain_grows = by_energy && watch.gain_grows() && relative > 0.5 * gain_limit,
             residual_grows = by_velocities && watch.residual_grows(0.5 * residual_limit);
  // A law with an internal state has already accepted the step. One that reverses needs another law, not more parts.
  const bool may_repeat = watching.may_divide && !by_tolerance(options.method) && dynamics.internal_state().empty() &&
                          law_reversals() == watching.reversals_before;
  // Without correction of drift, or with its feedback, steps gain energy. They are offered to show that. With it, what
  // is left of velocities is of rows that no velocity meets, in no part of a step either.
  const bool corrects = options.drift == Drift::exact, parts_help = corrects ? gain_grows : residual_grows;
  if (parts_help && may_repeat && (2 << watching.halvings) <= options.max_substeps) {
    ++watching.halvings;
    watching.calm_steps = 0;
    return true;
  }
  watch.accept(residual_limit, [&](const RowResidual& row) { record_velocity_residual(before.t + dt, row); });
  if (by_energy && relative > gain_limit) {
    record_energy_gain(before.t + dt, relative);
    watch.forget_gain();
  }
  if (watching.halvings > 0) {
    ++watching.divided_steps;
    watching.calm_steps = gain_grows || residual_grows ? 0 : watching.calm_steps + 1;
    if (watching.calm_steps >= calm) --watching.halvings, watching.calm_steps = 0;
  }
  return false;
}

void Stepper::Impl::begin_again(double h_before) {
  state = before;
  dynamics.set_internal_state({});
  last_h = h_before;
  switching.stuck = watching.stuck_before;
  switching.modes_known = false;
  begin_report();
}

void Stepper::Impl::record_energy_gain(double t, double relative) {
  const StepWatch& watch = watching.watch;
  const EnergyGain gain{.t = t,
                        .gain = watch.gain(),
                        .relative = relative,
                        .body = watch.first_body(),
                        .bodies = watch.bodies(),
                        .contradictory = !dynamics.rank_report().contradictory.empty()};
  report.gains_energy = true;
  watching.said += (watching.said.empty() ? "" : "; ") + energy_gain_text(*system, gain);
  add_event(gain, watching.gains, watching.gain_count);
}

void Stepper::Impl::record_velocity_residual(double t, const RowResidual& row) {
  const VelocityResidual residual{.t = t,
                                  .residual = row.value,
                                  .relative = row.relative,
                                  .constraint = system->name(block().constraints[z(row.constraint)])};
  report.leaves_velocity_residual = true;
  watching.said += (watching.said.empty() ? "" : "; ") + velocity_residual_text(residual);
  add_event(residual, watching.residuals, watching.residual_count);
}

void Stepper::Impl::begin_report() {
  report.status = Status::ok;
  report.substeps = 1;
  report.newton_solves = 0;
  report.tension_frequency = 0;
  report.rejected = false;
  report.mode_switches = 0;
  report.reason.clear();
  report.warning.clear();
  report.divisions = 1;
  report.gains_energy = report.leaves_velocity_residual = false;
  watching.said.clear();
  switching.switches.clear();
  dense.crossings.clear();
  dense.segment_count = 0;
  switching.switched_in_step.clear();
  switching.inactive_before = switching.inactive_unilateral;
}

bool Stepper::Impl::assemble_again() {
  restart = true;
  const std::string why = begin_at(false);
  restart = !why.empty();
  if (restart) {
    refuse(Status::invalid, why);
    state = before;
    return false;
  }
  before = state;
  return true;
}

void Stepper::Impl::undo_step(double h_before) {
  state = before;
  dynamics.set_internal_state({});
  for (const ConstraintId id : switching.switched_in_step) system->enable(id, !system->enabled(id));
  switching.inactive_unilateral = switching.inactive_before;
  restart = restart || !switching.switched_in_step.empty();
  switching.modes.clear();
  switching.modes_known = false;
  switching.switches.clear();
  dense.crossings.clear();
  dense.segment_count = 0;
  std::fill(dense.values.begin(), dense.values.end(), std::numeric_limits<double>::quiet_NaN());
  report.mode_switches = 0;
  last_h = h_before;
  recorder.begin(*system);
}

void Stepper::Impl::finish_step(double dt) {
  state.t = before.t + dt;
  if (options.method != Method::semi_implicit) report.sticking = dynamics.law_report().sticking;
  last_dt = dt;
  recorder.close(state.t - recorded_until);
  accept();
  if (report.warning.empty() && !dynamics.law_report().warning.empty()) report.warning = dynamics.law_report().warning;
  if (report.warning.empty() && !dynamics.law_forces().empty()) report.warning = standing_warning();
  if (!watching.said.empty()) report.warning += (report.warning.empty() ? "" : "; ") + watching.said;
}

long Stepper::Impl::law_reversals() const {
  long sum = 0;
  for (const LawForce& law : dynamics.law_forces()) sum += law.switches;
  return sum;
}

const std::string& Stepper::Impl::standing_warning() {
  const bool determined = dynamics.solver().full_row_rank();
  const std::pair now{system->structure(), SystemParts::of(*system).law_changes};
  if (now != warned_of) warned = {};
  warned_of = now;
  auto& warning = warned[determined];
  if (!warning) {
    warning.emplace();
    for (const std::string& one : dynamics.warnings()) *warning += (warning->empty() ? "" : "; ") + one;
  }
  return *warning;
}

namespace {

/// Returns the reaction of a released constraint of one position row: no force, and the gap.
Reaction released_reaction(const Constraint& constraint, const State& state) {
  Reaction out;
  out.name = constraint.name();
  out.t = state.t;
  out.lambda = {0};
  const auto bodies = constraint.bodies();
  for (Wrenches* part : {static_cast<Wrenches*>(&out), &out.ideal, &out.prescribed, &out.induced, &out.stabilisation}) {
    if (bodies.size() > 2) part->others.resize(bodies.size() - 2);
    for (int k = 0; k < static_cast<int>(bodies.size()); ++k)
      part->on(k).point = constraint.application_point(k, state);
  }
  std::vector<BodyState> X;
  for (const BodyId id : bodies) X.push_back(state[id]);
  double phi = 0;
  constraint.function().residual(X, state.t, {&phi, 1});
  const RowUnit unit = constraint.function().unit(0);
  (unit == RowUnit::metre ? out.gap : unit == RowUnit::radian ? out.gap_angle : out.residual) = std::abs(phi);
  return out;
}

}  // namespace

void Stepper::Impl::add_released_reactions() {
  for (int i = 0, place = 0; i < system->constraint_count(); ++i) {
    const ConstraintId id = system->constraint_at(i);
    if (system->removed(id)) continue;
    if (!system->enabled(id)) {
      if (!unilateral(*system, id).on) continue;
      const auto added =
          reaction_list.insert(reaction_list.begin() + place, released_reaction(system->constraint(id), state));
      added->work = recorder.work_of(id);
    }
    ++place;
  }
}

std::span<const Reaction> Stepper::Impl::reactions() {
  if (structure_changed()) {
    dynamics.restructure();
    recorder.restructure(*system, block(), false);
    restart = true;
    reaction_list_is_current = false;
  }
  if (!reaction_list_is_current) {
    dynamics.set_instantaneous(options.method == Method::semi_implicit ? last_h : 0);
    dynamics.evaluate(state);
    dynamics.reactions(state, reaction_list);
    recorder.fill_work(*system, block(), state, last_dt, reaction_list);
    add_released_reactions();
    reaction_list_is_current = true;
  }
  return reaction_list;
}

Stepper::Stepper(System& system, State start, StepOptions options)
    : impl_(std::make_unique<Impl>(system, std::move(start), options)) {}
Stepper::~Stepper() = default;

const StepReport& Stepper::step(double dt) { return impl_->step(dt); }
const State& Stepper::state() const { return impl_->state; }
void Stepper::set_state(const State& state) {
  impl_->state = state;
  if (const std::string why = impl_->begin_at(true); !why.empty())
    throw std::invalid_argument("linchpin::Stepper::set_state: " + why);
}
const Stepper::Start& Stepper::start() const { return impl_->start; }
std::span<const Reaction> Stepper::reactions() { return impl_->reactions(); }
std::span<const MomentumBalance> Stepper::momentum_balances() const { return impl_->recorder.momentum_balances(); }
std::span<const EnergyGain> Stepper::energy_gains() const { return impl_->watching.gains; }
long Stepper::energy_gain_count() const { return impl_->watching.gain_count; }
std::span<const VelocityResidual> Stepper::velocity_residuals() const { return impl_->watching.residuals; }
long Stepper::velocity_residual_count() const { return impl_->watching.residual_count; }
long Stepper::divided_steps() const { return impl_->watching.divided_steps; }
long Stepper::rejected_divisions() const { return impl_->watching.rejected_divisions; }
const EnergyBalance& Stepper::energy_balance() const { return impl_->recorder.energy(); }
std::span<const LawWork> Stepper::law_works() const { return impl_->recorder.laws(); }
std::span<const ModeSwitch> Stepper::switches() const { return impl_->switching.switches; }
int Stepper::watch(std::function<double(const State&)> function) {
  impl_->dense.functions.push_back(std::move(function));
  impl_->dense.values.push_back(std::numeric_limits<double>::quiet_NaN());
  return static_cast<int>(impl_->dense.functions.size()) - 1;
}
std::span<const Crossing> Stepper::crossings() const { return impl_->dense.crossings; }
State Stepper::state_at(double t) const {
  Impl& d = *impl_;
  State out = d.state;
  for (std::size_t i = 0; i < d.dense.segment_count; ++i) {
    const Impl::Segment& segment = d.dense.segments[i];
    const double theta = (t - segment.base.t) / segment.h;
    if (theta < 0 || (theta >= 1 && i + 1 < d.dense.segment_count) || theta >= 1 + 1e-9) continue;
    if (theta < 1) d.evaluate_segment(segment.base, segment, theta, out);
    break;
  }
  return out;
}
const Dynamics& Stepper::dynamics() const { return impl_->dynamics; }
double Stepper::constraint_work() const { return impl_->recorder.work(); }
double Stepper::energy_minus_work() const {
  return energy_integral(*impl_->system, impl_->state) - impl_->recorder.work();
}

}  // namespace linchpin
