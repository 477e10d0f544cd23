// Events (T10): changes between stick, slip, release and engagement, their location within a step, and the loop from
// one event to the next.
#include "integrators/stepper_impl.h"
#include "model/format.h"

#include <linchpin/constraint.h>
#include <linchpin/laws.h>
#include <linchpin/projection.h>

#include <algorithm>
#include <cmath>

namespace linchpin {

namespace {

/// Limits of substeps. A step by tolerance has at most the first number, because it would follow a force that jumps for
/// ever. Other steps have at most the second, because only events, smooth laws (max_substeps) and friction that turns
/// (fine_substeps) divide them. The number of tries is limited for each substep.
constexpr long max_substeps_by_tolerance = 100000, max_explicit_substeps = 4000, max_tries = 5;
constexpr long slow_substeps = 1000;

/// Number of substeps of rk4 in which friction that turns is fully resolved.
constexpr long fine_substeps = 1000;

constexpr double shortest_substep = 1e-13;  // In s.

/// Relative distance to its bound within which an element at rest starts to slide together with another one that
/// reaches its bound.
constexpr double at_limit = 1e-11;

/// Returns the part of a slip that is not along a direction [m/s or rad/s].
double beside(const Vector6d& slip, const Vector6d& way) {
  const Vector6d along = way.stableNormalized();
  return (slip - std::max(0.0, slip.dot(along)) * along).norm();
}

/// Step lengths around an event: it has not happened at `a`, and it has happened at `b`.
struct Bracket {
  double a, b;        // Step lengths [s].
  double at_a, at_b;  // Values of the event, not negative and negative. at_a = 0: not evaluated yet.

  void add(double h, double e) {
    if (e < 0)
      b = h, at_b = e;
    else
      a = h, at_a = std::max(e, 1e-300);
  }
};

/// Narrows a bracket to the width `sharp` by the Illinois method, with halving as a safeguard. Stops where the value is
/// NaN, or the step is rejected.
template <class Value>
void narrow(Bracket& x, double sharp, const bool& rejected, Value value) {
  for (int k = 0; x.at_a > 0 && x.b - x.a > sharp && k < 200; ++k) {
    double h = k % 3 == 2 ? 0.5 * (x.a + x.b) : (x.at_a * x.b - x.at_b * x.a) / (x.at_a - x.at_b);
    if (!(h > x.a && h < x.b)) h = 0.5 * (x.a + x.b);
    h = std::clamp(h, x.a + 0.25 * std::min(sharp, x.b - x.a), x.b - 0.25 * std::min(sharp, x.b - x.a));
    const double e = value(h);
    if (rejected || std::isnan(e)) return;
    x.add(h, e);
    (e < 0 ? x.at_a : x.at_b) *= 0.5;
  }
}

}  // namespace

void Stepper::Impl::collect_unilateral() {
  switching.active_unilateral.clear();
  for (const ConstraintId id : block().constraints)
    if (const Unilateral& how = unilateral(*system, id); how.on)
      switching.active_unilateral.push_back({id, how.negative});
  std::erase_if(switching.inactive_unilateral,
                [&](const UnilateralMode& p) { return system->removed(p.on) || system->enabled(p.on); });
}

bool Stepper::Impl::deactivate_open() {
  constexpr double open_gap = 1e-9;  // In m. It is not more than an error that closing gaps removes.
  bool any = false;
  for (const UnilateralMode& p : switching.active_unilateral) {
    if (!unilateral(*system, p.on).reengage) continue;
    const auto at = std::find(block().constraints.begin(), block().constraints.end(), p.on);
    const std::size_t r = z(block().row[z(static_cast<int>(at - block().constraints.begin()))]);
    const double sign = p.negative ? -1 : 1, phi = sign * dynamics.assembly().position[r];
    if (!(phi > open_gap || (phi > -open_gap && sign * dynamics.assembly().velocity[r] > rest_speed))) continue;
    system->enable(p.on, false);
    switching.switched_in_step.push_back(p.on);
    switching.inactive_unilateral.push_back(p);
    any = true;
  }
  return any;
}

void Stepper::Impl::decide_modes() {
  dynamics.reset_friction_modes();
  if (dynamics.evaluate(state) == Status::invalid) return;
  switching.modes_before = switching.modes;
  switching.modes.clear();
  for (const FrictionElement& c : dynamics.friction_elements()) {
    Mode mode{block().constraints[z(c.constraint)], c.law, c.term, c.sticks, c.slip_velocity};
    if (c.slip_velocity.norm() <= 1e-9) mode.sense = c.slip_acceleration;
    for (const Mode& old : switching.modes_before)
      if (old.on == mode.on && old.law == mode.law && old.term == mode.term) mode = old;
    switching.modes.push_back(mode);
  }
  clear_straight();
}

std::size_t Stepper::Impl::dry_terms() const {
  std::size_t count = 0;
  for (const ConstraintId id : block().constraints)
    for (const Law& law : laws_on(*system, id))
      for (const Law::Term& term : law.terms()) count += static_cast<bool>(term.static_limit);
  return count;
}

void Stepper::Impl::apply_modes() {
  for (std::size_t i = 0; i < switching.modes.size(); ++i) {
    const bool given = switching.straight[i].squaredNorm() > 0;
    dynamics.set_friction_mode(
        static_cast<int>(i), switching.modes[i].sticks ? FrictionMode::sticks : FrictionMode::slips,
        given ? Vector6d(1e30 * switching.straight[i]) : Vector6d(1e-12 * switching.modes[i].sense.stableNormalized()));
  }
}

double Stepper::Impl::rate_of_laws(const State& at, double from) {
  dynamics.find_rate(at, from);
  return dynamics.law_report().rate;
}

bool Stepper::Impl::may_turn(std::size_t i) const {
  return !switching.modes[i].sticks && dynamics.friction_elements()[i].dim > 1 &&
         switching.modes[i].sense.squaredNorm() > 0;
}

bool Stepper::Impl::begins_to_slide() const {
  for (std::size_t i = 0; i < switching.modes.size(); ++i)
    if (may_turn(i) && dynamics.friction_elements()[i].slip_velocity.norm() <= rest_speed) return true;
  return false;
}

void Stepper::Impl::clear_straight() {
  switching.straight.assign(switching.modes.size(), Vector6d::Zero());
  apply_modes();
}

bool Stepper::Impl::go_straight(double h, bool anyhow) {
  ++switching.try_count;
  clear_straight();
  for (std::size_t i = 0; i < switching.modes.size(); ++i)
    if (may_turn(i)) dynamics.set_friction_mode(static_cast<int>(i), FrictionMode::slips);
  dynamics.set_step(h);
  const bool answered = dynamics.evaluate(state) != Status::invalid;
  switching.smooth_rate = rate_of_laws(state, stable / h);
  dynamics.set_step(0);
  bool any = false;
  for (std::size_t i = 0; answered && i < switching.modes.size(); ++i) {
    if (!may_turn(i)) continue;
    const FrictionElement& c = dynamics.friction_elements()[i];
    Vector6d way = c.sticks ? Vector6d(Vector6d::Zero()) : Vector6d(c.slip_velocity + h * c.slip_acceleration);
    if (c.sticks && c.slip_velocity.norm() <= rest_speed) way = switching.modes[i].sense;
    if (!(way.squaredNorm() > 0) || !(anyhow || beside(c.slip_velocity, way) <= rest_speed)) continue;
    switching.straight[i] = way.stableNormalized();
    any = true;
  }
  apply_modes();
  return any;
}

bool Stepper::Impl::goes_straight() const {
  return std::any_of(switching.straight.begin(), switching.straight.end(),
                     [](const Vector6d& way) { return way.squaredNorm() > 0; });
}

bool Stepper::Impl::went_straight() const {
  for (std::size_t i = 0; i < switching.straight.size(); ++i) {
    if (!(switching.straight[i].squaredNorm() > 0)) continue;
    const FrictionElement& c = dynamics.friction_elements()[i];
    // On a curved surface the direction turns with it. Friction is opposite to the direction, and so shows the present
    // one.
    // Not for bores, which have an arm.
    const bool one_kind = c.force.head<3>().isZero(0) || c.force.tail<3>().isZero(0);
    const bool direction_known = one_kind && c.force.squaredNorm() > 0;
    if (beside(c.slip_velocity, direction_known ? Vector6d(-c.force) : switching.straight[i]) > 2 * rest_speed)
      return false;
  }
  return true;
}

double Stepper::Impl::plan_length(double left, double enough, bool anyhow) {
  double h = left;
  do {
    if (go_straight(h, anyhow)) return h;
    h *= 0.25;
  } while (h > std::max(2 * enough, shortest_substep));
  clear_straight();
  return std::min(left, std::max(enough, shortest_substep));
}

double Stepper::Impl::unilateral_force(const UnilateralMode& p) const {
  for (std::size_t i = 0; i < block().constraints.size(); ++i)
    if (block().constraints[i] == p.on) {
      const std::size_t r = z(block().row[i]);
      return (p.negative ? -1 : 1) * (dynamics.lambda()[r] + dynamics.induced()[r]);
    }
  return 0;
}

double Stepper::Impl::gap_of(const UnilateralMode& p, const State& at) {
  switching.watched.clear();
  for (const BodyId id : system->constraint(p.on).bodies()) switching.watched.push_back(at[id]);
  double phi = 0;
  system->constraint(p.on).function().residual(switching.watched, at.t, {&phi, 1});
  return p.negative ? -phi : phi;
}

double Stepper::Impl::event_value(const State& at) {
  double least = std::numeric_limits<double>::infinity();
  const auto contacts = dynamics.friction_elements();
  switching.over.assign(contacts.size(), 0);
  for (std::size_t i = 0; i < contacts.size(); ++i) {
    const FrictionElement& c = contacts[i];
    if (c.dim == 0) continue;
    double e = 0;
    if (switching.modes[i].sticks) {
      e = c.bound - c.friction + 1e-12 * c.bound;  // An element with a bound that is just sufficient stays.
      if (c.bound == 0 && c.friction <= 1e-12) e = 0;
    } else {
      const double size = switching.modes[i].sense.norm();
      e = size > 0 ? c.slip_velocity.dot(switching.modes[i].sense) / size : 0;
    }
    switching.over[i] = e < 0;
    least = std::min(least, e);
  }
  switching.over_active.assign(switching.active_unilateral.size(), 0);
  for (std::size_t i = 0; i < switching.active_unilateral.size(); ++i) {
    const double e = unilateral_force(switching.active_unilateral[i]);
    switching.over_active[i] = e < 0;
    least = std::min(least, e);
  }
  switching.over_inactive.assign(switching.inactive_unilateral.size(), 0);
  for (std::size_t i = 0; i < switching.inactive_unilateral.size(); ++i) {
    const double e = gap_of(switching.inactive_unilateral[i], at);
    switching.over_inactive[i] = e < 0;
    least = std::min(least, e);
  }
  return least;
}

void Stepper::Impl::record_switch(double t, const Mode& mode, ModeSwitch::What what) {
  switching.switches.push_back({t, mode.on, mode.law, mode.term, what});
  ++report.mode_switches;
}

bool Stepper::Impl::switch_modes() {
  std::vector<char>& past = switching.over;
  // Elements of one body stop together, except for rounding. So those at rest are switched together with the one that
  // was found.
  if (std::find(past.begin(), past.end(), 1) != past.end())
    for (std::size_t i = 0; i < switching.modes.size(); ++i)
      if (!switching.modes[i].sticks && dynamics.friction_elements()[i].dim > 0)
        past[i] = past[i] || dynamics.friction_elements()[i].slip_velocity.norm() <= rest_speed;
  // Redundant elements reach the limit of rest together, and start to slide against their friction. Their slip
  // acceleration there is rounding.
  switching.slide_directions.assign(switching.modes.size(), Vector6d::Zero());
  bool gives_way = false;
  for (std::size_t i = 0; i < switching.modes.size(); ++i)
    gives_way = gives_way || (past[i] && switching.modes[i].sticks);
  for (std::size_t i = 0; gives_way && i < switching.modes.size(); ++i) {
    const FrictionElement& c = dynamics.friction_elements()[i];
    if (!switching.modes[i].sticks || c.dim == 0) continue;
    past[i] = past[i] || c.bound - c.friction <= at_limit * c.bound;
    if (past[i]) switching.slide_directions[i] = -c.force;
  }
  for (std::size_t i = 0; i < switching.modes.size(); ++i)
    if (past[i] && !switching.modes[i].sticks) dynamics.set_friction_mode(static_cast<int>(i), FrictionMode::sticks);
  if (dynamics.evaluate(state) == Status::invalid) return refuse(Status::invalid, dynamics.reason()), false;
  work.v1.assign(dynamics.assembly().v.begin(), dynamics.assembly().v.end());
  if (dynamics.reapply_stick(state, work.v1) > 0) set_velocities(work.v1, state);
  for (std::size_t i = 0; i < switching.modes.size(); ++i)
    if (past[i] || switching.modes[i].sticks) dynamics.set_friction_mode(static_cast<int>(i), FrictionMode::automatic);
  if (dynamics.evaluate(state) == Status::invalid) return refuse(Status::invalid, dynamics.reason()), false;
  for (std::size_t i = 0; i < switching.modes.size(); ++i) {
    Mode& mode = switching.modes[i];
    const FrictionElement& c = dynamics.friction_elements()[i];
    if (!past[i] && !mode.sticks) continue;
    const bool stuck_before = mode.sticks;
    mode.sticks = c.sticks && !(stuck_before && past[i]);
    if (!mode.sticks)
      mode.sense = switching.slide_directions[i].squaredNorm() > 0 ? switching.slide_directions[i]
                   : c.slip_acceleration.norm() > 0                ? c.slip_acceleration
                                                                   : Vector6d(-c.force);
    if (stuck_before && !mode.sticks) record_switch(state.t, mode, ModeSwitch::What::slides);
    if (!stuck_before) record_switch(state.t, mode, mode.sticks ? ModeSwitch::What::sticks : ModeSwitch::What::turns);
  }
  clear_straight();
  return true;
}

bool Stepper::Impl::release_and_engage(double t) {
  const bool at_end = options.method == Method::semi_implicit;
  bool changed = false, impact = false;
  ConstraintId engaged;
  for (std::size_t i = 0; i < switching.active_unilateral.size(); ++i) {
    if (!switching.over_active[i]) continue;
    const UnilateralMode p = switching.active_unilateral[i];
    switching.switched_in_step.push_back(p.on);
    switching.switched_in_substep.push_back(p.on);
    system->enable(p.on, false);
    if (unilateral(*system, p.on).reengage) switching.inactive_unilateral.push_back(p);
    record_switch(t, {p.on, -1, -1}, ModeSwitch::What::releases);
    changed = true;
  }
  for (std::size_t i = 0; i < switching.over_inactive.size(); ++i) {
    if (!switching.over_inactive[i]) continue;
    switching.switched_in_step.push_back(switching.inactive_unilateral[i].on);
    switching.switched_in_substep.push_back(switching.inactive_unilateral[i].on);
    system->enable(switching.inactive_unilateral[i].on, true);
    record_switch(t, {switching.inactive_unilateral[i].on, -1, -1}, ModeSwitch::What::engages);
    changed = impact = true;
    engaged = switching.inactive_unilateral[i].on;
  }
  if (!changed) return true;
  recorder.close(state.t - recorded_until);
  recorded_until = state.t;
  restructure_dynamics();
  recorder.restructure(*system, block(), false);
  recorder.begin(*system);
  resize_work_memory();
  collect_unilateral();
  if (at_end && (!impact || options.drift == Drift::exact)) return true;
  if (dynamics.evaluate(state) == Status::invalid) return refuse(Status::invalid, dynamics.reason()), false;
  if (impact) {
    project_positions(*system, dynamics, state, options.newton_tolerance, options.max_newton);
    if (dynamics.evaluate(state) == Status::invalid) return refuse(Status::invalid, dynamics.reason()), false;
    const double kinetic = kinetic_energy(*system, state);
    project_velocities(*system, dynamics, state);  // (T14)
    recorder.record_impact(engaged, kinetic_energy(*system, state) - kinetic);
  }
  if (!at_end) decide_modes();
  return true;
}

void Stepper::Impl::march(double dt) {
  const bool adaptive = by_tolerance(options.method);
  if (!switching.modes_known || switching.modes.size() != dry_terms()) {
    decide_modes();
    switching.modes_known = true;
  }
  if (symplectic(options.method) &&
      (dry_terms() > 0 || !switching.active_unilateral.empty() || !switching.inactive_unilateral.empty()))
    return refuse(Status::invalid,
                  "the method " + std::string(to_string(options.method)) +
                      " does not support dry friction and unilateral constraints. Use rk4, adaptive or semi-implicit");
  report.substeps = 0;
  switching.try_count = 0;
  control.first_stage_is_known = false;
  if (adaptive && !(control.try_h > 0)) control.try_h = first_guess(dt);
  double last = dt;
  int cut_substeps = 0;  // Substeps that a law with a known jump has shortened.
  for (double done = 0; done < dt;) {
    recorder.store();
    if (adaptive && refuse_endless(dt - done, cut_substeps)) return;
    if (adaptive && report.substeps == slow_substeps) warn_of_slow_law(last);
    double e = 0, at = 0;
    for (double most = std::min(dt - done, longest_part(dt));; most = 0.5 * at, recorder.restore()) {
      if (refuse_too_many(last)) return;
      double left = most;
      if (!(adaptive ? advance_adaptively(left, dt - done) : advance_in_stages(left, dt))) return;
      e = eventful() ? event_value(work.next) : 1;
      // A stage has turned back although the end has not. The motion is too fast for the step, and friction would give
      // power there.
      while (e >= 0 && switching.slip_reverses && left > dt / 256) {
        left *= 0.5;
        recorder.restore();
        if (!advance_by(left)) return;
        e = event_value(work.next);
      }
      at = e < 0 ? locate(left, e) : left;
      if (report.rejected) return;
      if (e >= 0 || at <= shortest_substep || !turned_round()) break;
    }
    last = at;
    if (!dynamics.law_report().warning.empty() && at < 1e-5 * dt) ++cut_substeps;
    done = e < 0 || at < dt - done ? done + at : dt;
    accept_substep(at);
    if (e >= 0) continue;
    if (report.mode_switches >= max_mode_switches())
      return refuse(report.status, "friction changes between sticking and sliding more than " +
                                       std::to_string(max_mode_switches()) + " times in one step (max_switches is " +
                                       std::to_string(options.max_switches) + "), most often at " + most_switched() +
                                       ". Use semi-implicit");
    if (!switch_modes() || !release_and_engage(state.t)) return;
    control.first_stage_is_known = false;
  }
}

/// A mechanism of many joints that begins to move changes the mode of each of them several times.
long Stepper::Impl::max_mode_switches() const {
  const std::size_t elements = dry_terms() + switching.active_unilateral.size() + switching.inactive_unilateral.size();
  return static_cast<long>(options.max_switches) * static_cast<long>(std::max<std::size_t>(elements, 1));
}

bool Stepper::Impl::refuse_too_many(double part) {
  const long most = by_tolerance(options.method) ? max_substeps_by_tolerance : max_explicit_substeps;
  if (report.substeps < most && switching.try_count < max_tries * most) return false;
  const std::string too_many = report.substeps < most ? std::to_string(max_tries * most) + " attempts at substeps"
                                                      : std::to_string(most) + " substeps";
  std::string why = "the step needs more than " + too_many + " (the last one is " + text(part) +
                    " s long, at t = " + text(state.t) + " s). A force is discontinuous or very stiff";
  if (!report.warning.empty()) why += "; " + report.warning;
  if (const LawReport& r = dynamics.law_report(); r.rate * part > 0.1 * stable)
    why += "; " +
           (r.stiffest < 0 ? "dry friction changes its direction at a rate of "
                           : name_of(dynamics.law_forces()[z(r.stiffest)]) + " damps at a rate of ") +
           text(r.rate) + " 1/s";
  for (const std::string& warning : dynamics.warnings()) why += "; " + warning;
  refuse(report.status, why + ". Use a shorter step, or the method semi-implicit");
  return true;
}

std::string Stepper::Impl::most_switched() const {
  long most = 0;
  const ModeSwitch* which = nullptr;
  for (const ModeSwitch& s : switching.switches) {
    const auto same = [&](const ModeSwitch& o) { return o.on == s.on && o.law == s.law && o.term == s.term; };
    if (const long count = std::count_if(switching.switches.begin(), switching.switches.end(), same); count > most)
      most = count, which = &s;
  }
  if (which == nullptr) return "none";
  return (which->law < 0
              ? std::string()
              : "law '" + laws_on(*system, which->on)[z(which->law)].terms()[z(which->term)].name + "' on ") +
         system->name(which->on) + " (" + std::to_string(most) + " times)";
}

bool Stepper::Impl::refuse_endless(double left, int cut_substeps) {
  constexpr int max_cut_substeps = 50;
  const auto jumps = [&] {
    refuse(report.status,
           dynamics.law_report().warning +
               ". The substeps around the jump become shorter without end. Use the method semi-implicit");
    return true;
  };
  if (cut_substeps >= max_cut_substeps) return jumps();
  constexpr long asked_at = 64;  // Number of substeps after which the start or the end of a motion is over.
  if (report.substeps != asked_at) return false;
  dynamics.compute_rates(true);
  const bool answered = dynamics.evaluate(state) != Status::invalid;
  dynamics.compute_rates(false);
  control.first_stage_is_known = false;
  constexpr double too_many = 3 * static_cast<double>(max_substeps_by_tolerance);
  const bool too_fast = answered && rate_of_laws(state, too_many / left) * left > too_many;
  const LawReport& r = dynamics.law_report();
  if (!too_fast || r.stiffest < 0) return false;  // It has its own limit.
  if (!r.warning.empty()) return jumps();
  refuse(report.status, name_of(dynamics.law_forces()[z(r.stiffest)]) + too_stiff);
  return true;
}

void Stepper::Impl::warn_of_slow_law(double part) {
  dynamics.compute_rates(true);
  const bool answered = dynamics.evaluate(state) != Status::invalid;
  dynamics.compute_rates(false);
  control.first_stage_is_known = false;
  const bool slows = answered && rate_of_laws(state, 0.3 * stable / part) * part > 0.3 * stable;
  const LawReport& r = dynamics.law_report();
  if (!slows || r.stiffest < 0 || !report.warning.empty()) return;
  report.warning = name_of(dynamics.law_forces()[z(r.stiffest)]) + " needs substeps of about " + text(part) +
                   " s at t = " + text(state.t) +
                   " s: it is very stiff, or its slope is infinite there, as that of a square root at 0. The method "
                   "semi-implicit is stable at any step";
}

bool Stepper::Impl::turned_round() const {
  for (std::size_t i = 0; i < switching.over.size() && i < switching.modes.size(); ++i)
    if (switching.over[i] && may_turn(i) && dynamics.friction_elements()[i].slip_velocity.norm() > 4 * rest_speed)
      return true;
  return false;
}

bool Stepper::Impl::advance_in_stages(double& left, double dt) {
  if (options.method != Method::rk4) return advance_by(left);
  // Smooth laws are explicit in the stages. They drive the motion that they should damp where rate · h is far above 1.
  const double finest = dt / std::max(1, options.max_substeps);
  const bool anyhow = report.substeps >= fine_substeps;
  const auto enough = [](double rate) { return 0.7 * stable / rate; };
  const bool goes_on = goes_straight();
  clear_straight();
  const double rate = rate_of_laws(state, stable / left);
  const bool dry = dynamics.law_report().stiffest < 0;
  switching.smooth_rate = dry ? 0 : rate;
  const auto limit = [&](double h) {
    return switching.smooth_rate * h > stable ? std::min(h, std::max(finest, enough(switching.smooth_rate))) : h;
  };
  left = limit(left);
  if (begins_to_slide())
    left = limit(plan_length(left, 0, anyhow));
  else if (dry && rate * left > stable)
    left = limit(plan_length(left, enough(rate), anyhow));
  else if (goes_on && go_straight(left, anyhow))  // The rate at which it would turn has not been computed.
    left = limit(left);
  const Status status = report.status;
  for (;;) {
    if (!advance_by(left)) {
      // Stages of laws that are too stiff for the substep may have any state.
      if (!(switching.law_rate * left > stable) || !(left > finest * (1 + 1e-9))) return false;
      report.rejected = false;
      report.reason.clear();
      report.status = status;
      recorder.restore();
      left = std::max(finest, 0.5 * left);
      continue;
    }
    if (!(switching.law_rate * left > stable)) {
      if (anyhow || left <= shortest_substep || went_straight()) return true;
      recorder.restore();
      left = limit(plan_length(0.5 * left, rate > 0 ? enough(rate) : 0, anyhow));
    } else if (switching.dry_is_fastest) {
      if (left <= shortest_substep) return true;
      recorder.restore();
      // A stage may have been where the slip is least. So the length is reduced by no more than that requires at once.
      left = limit(
          plan_length(goes_straight() ? 0.5 * left : left, std::max(enough(switching.law_rate), 0.25 * left), anyhow));
    } else {
      if (!(left > finest * (1 + 1e-9))) break;
      recorder.restore();
      left = std::max(finest, 0.5 * left);
    }
  }
  if (report.warning.empty() && dynamics.law_report().warning.empty()) {
    const int i = dynamics.law_report().stiffest;
    report.warning = (i < 0 ? std::string("a smooth law") : name_of(dynamics.law_forces()[z(i)])) +
                     " is too stiff even for substeps of dt/" + std::to_string(options.max_substeps) +
                     ", so energy may grow. Use the method semi-implicit, which has no such limit";
  }
  return true;
}

bool Stepper::Impl::advance_adaptively(double& left, double rest_of_step) {
  const double most = left, planned = control.try_h;
  const bool goes_on = goes_straight();
  clear_straight();
  const bool begins = begins_to_slide();
  const bool turns = rate_of_laws(state, 0.3 * stable / control.try_h) * control.try_h > 0.3 * stable;
  if (begins || goes_on || (turns && dynamics.law_report().stiffest < 0)) {
    left = plan_length(most, begins ? 0 : control.try_h, false);
    if (goes_straight()) {
      if (!advance_within_tolerance(left, rest_of_step)) return false;
      if (went_straight()) return true;
      recorder.restore();
      control.try_h = planned;
      clear_straight();
    }
    left = most;
  }
  if (1.001 * control.try_h < left)
    left = 2 * control.try_h < left ? control.try_h : 0.5 * left;  // Avoids a very short substep at the end.
  return advance_within_tolerance(left, rest_of_step);
}

double Stepper::Impl::locate(double left, double e) {
  const double sharp = std::max(options.event_tolerance, 4e-16 * (std::fabs(state.t) + left));
  double last = left;
  const auto by_a_step = [&](double h) {
    recorder.restore();
    last = h;
    return advance_by(h) ? event_value(work.next) : std::numeric_limits<double>::quiet_NaN();
  };
  Bracket steps{0, left, 0, -1};
  if (const std::optional<Guess> guess = guess_event(left, e, sharp)) {
    e = by_a_step(guess->at);
    if (report.rejected) return left;
    double width = std::max(sharp, 2 * std::fabs(e) / guess->slope);
    steps.add(guess->at, e);
    // The polynomial has an error of its own. A few widths of that bracket the event.
    for (int k = 0; k < 8 && (steps.at_a <= 0 || steps.b == left); ++k, width *= 8) {
      const double h = steps.at_a <= 0 ? steps.b - width : steps.a + width;
      if (!(h > 0.01 * steps.b && h < left)) break;
      e = by_a_step(h);
      if (report.rejected) return left;
      steps.add(h, e);
    }
  }
  for (int k = 0; steps.at_a <= 0 && k < 40 && steps.b > sharp; ++k) {
    const double h = 0.5 * steps.b;
    e = by_a_step(h);
    if (report.rejected) return left;
    steps.add(h, e);
  }
  narrow(steps, sharp, report.rejected, by_a_step);
  if (report.rejected) return left;
  if (last != steps.b) by_a_step(steps.b);
  return steps.b;
}

std::optional<Stepper::Impl::Guess> Stepper::Impl::guess_event(double left, double e, double sharp) {
  const auto on_polynomial = [&](double h) {
    evaluate_segment(state, dense.trial, h / left, work.next);
    work.memory.there.resize(work.memory.after.size());
    for (std::size_t j = 0; j < work.memory.there.size(); ++j)
      work.memory.there[j] = work.memory.before[j] + h / left * (work.memory.after[j] - work.memory.before[j]);
    dynamics.set_internal_state(work.memory.there);
    return dynamics.evaluate(work.next) == Status::invalid ? std::numeric_limits<double>::quiet_NaN()
                                                           : event_value(work.next);
  };
  Bracket bracket{0, left, 0, e};
  for (int k = 0; bracket.at_a <= 0 && k < 6; ++k) {
    e = on_polynomial(0.5 * bracket.b);
    if (std::isnan(e)) break;
    bracket.add(0.5 * bracket.b, e);
  }
  if (!(bracket.at_a > 0) || std::isnan(e)) return {};
  const double slope = (bracket.at_a - bracket.at_b) / (bracket.b - bracket.a);
  narrow(bracket, sharp, report.rejected, on_polynomial);
  return Guess{bracket.b, slope};
}

void Stepper::Impl::accept_substep(double h) {
  ++report.substeps;
  std::swap(state, work.next);
  // The last evaluation of the pair is the first one of the next substep, if nothing else changes there.
  control.first_stage_is_known = by_tolerance(options.method) && !eventful() && dynamics.law_forces().empty();
  store_segment();
  dynamics.accept(h);
  for (std::size_t i = 0; i < switching.modes.size() && i < dynamics.friction_elements().size(); ++i) {
    const FrictionElement& c = dynamics.friction_elements()[i];
    if (!switching.modes[i].sticks && c.slip_velocity.dot(switching.modes[i].sense) > 0)
      switching.modes[i].sense = c.slip_velocity;
  }
  apply_modes();
}

}  // namespace linchpin
