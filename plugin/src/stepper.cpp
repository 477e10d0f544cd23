// The motion without a host. Hides both methods, redoing a step in halves, and when things are made again because the
// system changed.
#include "ledger.h"

#include <linchpin/constraint.h>
#include <linchpin/laws.h>
#include <linchpin/stepper.h>

#include <array>
#include <bit>
#include <exception>
#include <limits>
#include <stdexcept>

namespace linchpin {

namespace {

constexpr double stable = 1;  // rate · h of laws in rk4, whose own limit is 2.78

constexpr const char* astray = "the end of the step did not come to lie on the constraints";

/// θ̇ for R = exp(θ)R₀ turning with ω: the inverse of the exponential's differential (T13).
Vector3d rate_of_rotation(const Vector3d& theta, const Vector3d& omega) {
  const double square = theta.squaredNorm();
  const double half = 0.5 * std::sqrt(square);
  const double factor = square < 1e-6 ? 1.0 / 12 + square / 720 : (1 - half / std::tan(half)) / square;
  const Vector3d first = theta.cross(omega);
  return omega - 0.5 * first + factor * theta.cross(first);
}

}  // namespace

struct Stepper::Impl {
  System* system;
  State state;
  StepOptions options;
  Dynamics dynamics;
  Ledger ledger;
  Start start;
  StepReport report;
  std::vector<Reaction> list;
  bool list_current = false;
  bool restart = false;                // the system changed: assemble again before the next step
  double last_dt = 0, last_swing = 0;  // of the last accepted step; ω [rad/s]
  double last_h = 0;                   // of the last semi-implicit part of a step

  // How contacts and one-sided constraints are between two events (T10).
  struct Mode {
    ConstraintId on;
    int law = 0, term = 0;
    bool sticks = false;
    Vector6d sense = Vector6d::Zero();  // of the rubbing, while it slides
  };
  struct Pusher {
    ConstraintId on;
    bool negative = false;
  };
  std::vector<Mode> modes, modes_before;
  std::vector<Pusher> held, let_go;  // one-sided constraints; those let go are watched only if they re-engage
  std::vector<Pusher> let_go_before;
  std::vector<ConstraintId> toggled;  // in this step
  std::vector<ModeSwitch> switches;
  std::vector<char> over, over_held, over_gone;  // past their event
  bool modes_known = false, turned_back = false;
  double closed = 0;        // up to when the ledger counts [s]
  double law_rate = 0;      // the largest of the stages of the last advance_by() [1/s]
  std::vector<char> stuck;  // contacts at the end of the last semi-implicit step
  std::vector<BodyState> watched;

  // Memory of a step.
  State before, next, stage;
  std::vector<double> v0, v1, beyond, beyond_rate, force, gyroscopic, error, all, mass;
  std::array<std::vector<double>, 4> vdot, pose_rate;
  std::vector<BodyState> scene;

  Impl(System& s, State at, const StepOptions& o) : system(&s), state(std::move(at)), options(o), dynamics(s, o.solve) {
    if (const std::string why = begin_at(true); !why.empty()) throw std::invalid_argument("linchpin::Stepper: " + why);
  }

  const Block& block() const { return dynamics.assembly().block; }

  /// Assembles the start (T14) and makes room for what a step needs. @return what is wrong.
  std::string begin_at(bool forget) {
    const std::size_t count = z(system->body_count());
    if (state.bodies.size() > count || (forget && state.bodies.size() < count))
      return "the state has " + std::to_string(state.bodies.size()) + " bodies, the system " + std::to_string(count);
    if (state.bodies.size() < count) {  // added on the way
      const State added = system->initial_state();
      state.bodies.insert(state.bodies.end(), added.bodies.begin() + static_cast<long>(state.bodies.size()),
                          added.bodies.end());
    }
    dynamics.restructure();
    dynamics.set_step(0);
    dynamics.ask_rates(options.method == Method::rk4);
    modes.clear();
    modes_known = false;
    stuck.clear();
    watch();
    ledger.restructure(*system, block(), forget);
    start = {};
    list_current = false;
    last_dt = last_swing = last_h = 0;
    system->update_driven(state);
    if (dynamics.evaluate(state) == Status::invalid) return dynamics.reason();
    start.gap = largest(dynamics.assembly().position);
    close_gaps(*system, dynamics, state, options.newton_tolerance, 10 * options.max_newton, &start.moved);
    if (dynamics.evaluate(state) == Status::invalid) return dynamics.reason();
    start.impulse_energy = project_velocities(*system, dynamics, state);
    make_room();
    return {};
  }

  void make_room() {
    const std::size_t n = z(block().n()), m = z(block().m());
    for (auto* x : {&v0, &v1, &force, &gyroscopic}) x->assign(n, 0.0);
    for (auto* x : {&beyond, &beyond_rate, &error, &all}) x->assign(m, 0.0);
    for (auto* four : {&vdot, &pose_rate})
      for (auto& x : *four) x.assign(n, 0.0);
    switches.reserve(16);
  }

  bool structure_changed() const {
    std::size_t on = 0;
    for (int i = 0; i < system->constraint_count(); ++i) {
      const ConstraintId id{i};
      if (system->removed(id) || !system->enabled(id)) continue;
      if (on >= block().constraints.size() || block().constraints[on] != id) return true;
      ++on;
    }
    if (on != block().constraints.size()) return true;
    for (const BodyId id : block().bodies)
      if (system->dof(id) == 0) return true;
    return static_cast<int>(state.bodies.size()) != system->body_count();
  }

  void refuse(Status status, std::string why) {
    report.rejected = true;
    report.status = std::max(report.status, status);
    report.reason = std::move(why);
  }

  /// Feedback α on the residuals, as a change of v̇ by the constraints themselves; also its λ, in beyond_rate.
  void add_feedback(std::span<double> acceleration) {
    const Assembly& assembly = dynamics.assembly();
    const double alpha = options.baumgarte_rate;
    for (std::size_t r = 0; r < error.size(); ++r)
      error[r] = -2 * alpha * assembly.velocity[r] - alpha * alpha * assembly.position[r];
    dynamics.solver().apply(error, beyond_rate, {}, force);
    for (std::size_t j = 0; j < acceleration.size(); ++j) acceleration[j] += force[j];
  }

  void move(const State& from, State& to, double h, std::span<const double> v) const {
    for (std::size_t s = 0; s < block().bodies.size(); ++s) {
      const Vector6d u = twist_of(block(), s, v);
      BodyState& body = to[block().bodies[s]];
      body = from[block().bodies[s]];
      body.v = u.head<3>();
      body.w = u.tail<3>();
      advance(body, body.v, body.w, h);
    }
  }

  /// ω of T15 for the forces of the last evaluation and impulses `beyond` over h.
  double swing_of(const State& at, double h) {
    for (std::size_t r = 0; r < all.size(); ++r) all[r] = dynamics.lambda()[r] + dynamics.induced()[r] + beyond[r] / h;
    return fastest_swing(*system, dynamics.assembly(), at, all);
  }

  // ---- semi-implicit (T12) ----

  /// The gyroscopic torque at v₀ alone feeds energy into everything that tumbles, at first order and without end. The
  /// mean of before and after the step makes the step symmetric in time, and energy only oscillates (a double pendulum
  /// of 20 J in space: 1.4 J gained in a minute, against 1 mJ). Brings v₁ nearer to that; false when it is there.
  bool centre_gyroscopic(double h) {
    double most = 0, size = 0;
    std::fill(force.begin(), force.end(), 0.0);
    for (std::size_t s = 0; s < block().bodies.size(); ++s) {
      const BodyId id = block().bodies[s];
      if (system->kind(id) != BodyKind::rigid) continue;
      BodyState body = state[id];
      const Vector3d at_start = system->gyroscopic_torque(id, body);
      body.w = twist_of(block(), s, v1).tail<3>();
      const Vector3d change = 0.5 * h * (system->gyroscopic_torque(id, body) - at_start);
      for (int j = 0; j < 3; ++j) {
        const std::size_t column = z(block().column[s] + 3 + j);
        force[column] = change[j] - gyroscopic[column];
        most = std::max(most, std::fabs(force[column]));
        size = std::max(size, h * std::fabs(at_start[j]));
      }
    }
    if (!(most > 1e-9 * size)) return false;
    for (std::size_t j = 0; j < force.size(); ++j) gyroscopic[j] += force[j];
    dynamics.solver().inverse_mass(force, force);
    for (std::size_t j = 0; j < v1.size(); ++j) v1[j] += force[j];
    return true;
  }

  enum class Outcome { done, too_long, invalid };

  /// One substep of h from `state`, which moves only when all went well; else `trouble` says why not.
  Outcome substep(double h, bool finest, double& swing, const char*& trouble) {
    // Velocities belong to the middle of the steps they carry: from one middle to the next is half of each. With h
    // alone a pendulum that is stepped finely where it is fast comes to rest within minutes.
    const double kick = last_h > 0 ? 0.5 * (last_h + h) : h;
    dynamics.set_step(kick);  // friction obeys its law at the end of the step
    const Status status = dynamics.evaluate(state);
    if (status == Status::invalid) return Outcome::invalid;
    report.status = std::max(report.status, status);
    std::copy(dynamics.assembly().v.begin(), dynamics.assembly().v.end(), v0.begin());
    std::copy(dynamics.vdot().begin(), dynamics.vdot().end(), vdot[0].begin());
    std::fill(beyond.begin(), beyond.end(), 0.0);
    if (options.drift == Drift::baumgarte) {
      add_feedback(vdot[0]);
      for (std::size_t r = 0; r < beyond.size(); ++r) beyond[r] = kick * beyond_rate[r];
    }
    for (std::size_t j = 0; j < v0.size(); ++j) v1[j] = v0[j] + kick * vdot[0][j];

    next = state;
    next.t = state.t + h;
    system->update_driven(next);
    std::fill(gyroscopic.begin(), gyroscopic.end(), 0.0);
    if (options.drift == Drift::exact) {
      // Sticking contacts are brought to rest again after each Newton, which moves them a little.
      const auto unsettled = [&] {
        const bool turned = centre_gyroscopic(h);
        return dynamics.hold(v1) > 1e-15 * (1 + largest(v1)) || turned;
      };
      for (int round = 0; round == 0 || (round < 4 && unsettled()); ++round) {
        const NewtonReport newton = end_on_constraints(*system, dynamics, state, next, h, v1, beyond, {},
                                                       options.newton_tolerance, options.max_newton);
        report.newton_solves += newton.solves;
        // Rows that contradict each other have no end to meet; the step then is the least-squares one, and says so.
        if (newton.least_squares) report.status = Status::inconsistent;
        if (!newton.converged && status != Status::inconsistent) {
          trouble = astray;
          return Outcome::too_long;
        }
      }
    } else {
      move(state, next, h, v1);
    }
    trouble = "the velocity is not finite";
    if (!finite(v1)) return Outcome::too_long;
    swing = swing_of(state, kick);
    trouble = "a body swings too fast for the step under its own joint forces";
    // At the finest part the limit of stability is the limit; beyond it nothing is believed (T15).
    const double limit = finest ? std::max(options.swing_limit, 2.0) : options.swing_limit;
    if (options.drift == Drift::exact && !(swing * h <= limit)) return Outcome::too_long;

    ledger.record(*system, dynamics, state, kick, beyond, v0, v1);
    ledger.record_applied(block(), gyroscopic, v0, v1);
    note_modes(state.t + h);
    dynamics.accept(h);
    const Instant& instant = dynamics.assembly().instant;
    ledger.record_momentum(block(), instant, instant.mass, v0, v1);
    std::swap(state, next);
    last_h = h;
    return Outcome::done;
  }

  /// What stuck or slid differently in the last part of a step.
  void note_modes(double t) {
    const auto contacts = dynamics.contacts();
    report.sticking = dynamics.law_report().sticking;
    const bool known = stuck.size() == contacts.size();
    if (!known) stuck.assign(contacts.size(), 0);
    for (std::size_t i = 0; i < contacts.size(); ++i) {
      const Contact& c = contacts[i];
      if (known && c.sticks != static_cast<bool>(stuck[i]))
        note(t, {block().constraints[z(c.constraint)], c.law, c.term},
             c.sticks ? ModeSwitch::What::sticks : ModeSwitch::What::slides);
      stuck[i] = c.sticks;
    }
  }

  void semi_implicit(double dt) {
    // Time inside a step is counted in its smallest parts, so that halves meet the end exactly. The last step's swing
    // is only a guess to begin with: whether a part was short enough is judged by the forces it had itself.
    const int parts = static_cast<int>(std::bit_floor(static_cast<unsigned>(std::max(1, options.max_substeps))));
    int stride = parts;
    while (stride > 1 && last_swing * dt * stride / parts > options.swing_limit) stride /= 2;
    report.substeps = 0;
    double fastest = 0;
    for (int done = 0; done < parts;) {
      const double h = dt * stride / parts;
      double swing = 0;
      const char* trouble = nullptr;
      const Outcome outcome = substep(h, stride == 1, swing, trouble);
      if (outcome == Outcome::invalid) return refuse(Status::invalid, dynamics.reason());
      if (outcome == Outcome::too_long) {
        if (stride == 1) return refuse(report.status, trouble);
        stride /= 2;
        continue;
      }
      done += stride;
      ++report.substeps;
      report.swing = std::max(report.swing, swing * h);
      fastest = std::max(fastest, swing);
      if (stride < parts && done % (2 * stride) == 0 && 2 * swing * h < 0.75 * options.swing_limit) stride *= 2;
    }
    last_swing = fastest;
  }

  // ---- Runge–Kutta–Munthe-Kaas of order 4 (T13) ----

  /// One step of the method from `state` to `next`, contacts held in their modes. @return whether it went well.
  bool advance_by(double dt) {
    constexpr std::array<double, 4> at{0, 0.5, 0.5, 1}, weight{1.0 / 6, 1.0 / 3, 1.0 / 3, 1.0 / 6};
    const Block& b = block();
    stage = state;
    for (std::size_t k = 0; k < 4; ++k) {
      if (k > 0) {
        for (std::size_t s = 0; s < b.bodies.size(); ++s) {
          const Vector6d u = at[k] * dt * twist_of(b, s, pose_rate[k - 1]);
          const Vector6d v = twist_of(b, s, v0) + at[k] * dt * twist_of(b, s, vdot[k - 1]);
          BodyState& body = stage[b.bodies[s]];
          body = state[b.bodies[s]];
          advance(body, u.head<3>(), u.tail<3>(), 1.0);
          body.v = v.head<3>();
          body.w = v.tail<3>();
        }
        stage.t = state.t + at[k] * dt;
        system->update_driven(stage);
      }
      const Status status = dynamics.evaluate(stage);
      if (status == Status::invalid) return refuse(Status::invalid, dynamics.reason()), false;
      report.status = std::max(report.status, status);
      const std::vector<double>& v = dynamics.assembly().v;
      if (k == 0) v0 = v, turned_back = false, law_rate = 0;
      law_rate = std::max(law_rate, dynamics.law_report().rate);
      for (std::size_t i = 0; k > 0 && i < modes.size() && i < dynamics.contacts().size(); ++i)
        turned_back = turned_back || (!modes[i].sticks && dynamics.contacts()[i].rubbing.dot(modes[i].sense) < 0);
      if (k == 2) mass = dynamics.assembly().instant.mass;  // of the middle: M(v₁ − v₀) then is right to second order
      std::copy(dynamics.vdot().begin(), dynamics.vdot().end(), vdot[k].begin());
      std::fill(beyond.begin(), beyond.end(), 0.0);
      if (options.drift == Drift::baumgarte) {
        add_feedback(vdot[k]);
        for (std::size_t r = 0; r < beyond.size(); ++r) beyond[r] = weight[k] * dt * beyond_rate[r];
      }
      for (std::size_t s = 0; s < b.bodies.size(); ++s) {
        Vector6d rate = twist_of(b, s, v);
        if (k > 0)
          rate.tail<3>() = rate_of_rotation(at[k] * dt * twist_of(b, s, pose_rate[k - 1]).tail<3>(), rate.tail<3>());
        for (int j = b.column[s]; j < b.column[s + 1]; ++j) pose_rate[k][z(j)] = rate[j - b.column[s]];
      }
      // The power of each stage with the weights of the method: work is as accurate as the motion.
      ledger.record(*system, dynamics, stage, weight[k] * dt, beyond, v, v);
    }
    report.swing = std::max(report.swing, dt * swing_of(stage, dt));

    next = state;
    next.t = state.t + dt;
    system->update_driven(next);
    for (std::size_t s = 0; s < b.bodies.size(); ++s) {
      Vector6d u = Vector6d::Zero(), dv = Vector6d::Zero();
      for (std::size_t k = 0; k < 4; ++k) {
        u += weight[k] * dt * twist_of(b, s, pose_rate[k]);
        dv += weight[k] * dt * twist_of(b, s, vdot[k]);
      }
      BodyState& body = next[b.bodies[s]];
      advance(body, u.head<3>(), u.tail<3>(), 1.0);
      body.v += dv.head<3>();
      body.w += dv.tail<3>();
      if (!body.p.allFinite() || !body.v.allFinite() || !body.w.allFinite())
        return refuse(report.status, "the state is not finite"), false;
    }
    if (options.drift == Drift::exact) {
      const double gap = close_gaps(*system, dynamics, next, options.newton_tolerance, options.max_newton);
      if (!(gap <= std::max(options.newton_tolerance, 1e-6))) {
        // Either the step went too far, or the rows contradict each other and this is their least squares: then a
        // further correction moves nothing.
        if (!std::isfinite(gap) || dynamics.evaluate(next) == Status::invalid) return refuse(Status::ok, astray), false;
        dynamics.solver().apply(dynamics.assembly().position, {}, {}, force);
        if (!(largest(force) <= 1e-6 * gap)) return refuse(report.status, astray), false;
        report.status = Status::inconsistent;
      }
      project_velocities(*system, dynamics, next);
    }
    for (std::size_t s = 0; s < b.bodies.size(); ++s) {
      const BodyState& body = next[b.bodies[s]];
      if (!body.p.allFinite() || !body.v.allFinite() || !body.w.allFinite())
        return refuse(report.status, "the state is not finite"), false;
      for (int j = b.column[s]; j < b.column[s + 1]; ++j)
        v1[z(j)] = j < b.column[s] + 3 ? body.v[j - b.column[s]] : body.w[j - b.column[s] - 3];
    }
    if (eventful()) {  // the end itself: what sticks is at rest there, and events are judged there
      if (dynamics.evaluate(next) == Status::invalid) return refuse(Status::invalid, dynamics.reason()), false;
      if (dynamics.hold(v1) > 0) give(v1, next);
    }
    ledger.record_momentum(b, dynamics.assembly().instant, mass, v0, v1);
    return true;
  }

  void give(std::span<const double> v, State& to) const {
    for (std::size_t s = 0; s < block().bodies.size(); ++s) {
      const Vector6d u = twist_of(block(), s, v);
      to[block().bodies[s]].v = u.head<3>();
      to[block().bodies[s]].w = u.tail<3>();
    }
  }

  // ---- events (T10) ----

  bool eventful() const { return !dynamics.contacts().empty() || !held.empty() || !let_go.empty(); }

  /// Finds the one-sided constraints that are held; those let go stay known.
  void watch() {
    held.clear();
    for (const ConstraintId id : block().constraints)
      if (const OneSided& how = one_sided(*system, id); how.on) held.push_back({id, how.negative});
    std::erase_if(let_go, [&](const Pusher& p) { return system->removed(p.on) || system->enabled(p.on); });
  }

  /// Modes of all contacts at `state`: as they were where they were known, else as slip and bound say.
  void decide_modes() {
    dynamics.release_grips();
    if (dynamics.evaluate(state) == Status::invalid) return;
    modes_before = modes;
    modes.clear();
    for (const Contact& c : dynamics.contacts()) {
      Mode mode{block().constraints[z(c.constraint)], c.law, c.term, c.sticks, c.rubbing};
      if (c.rubbing.norm() <= 1e-9) mode.sense = c.gaining;
      for (const Mode& old : modes_before)
        if (old.on == mode.on && old.law == mode.law && old.term == mode.term) mode = old;
      modes.push_back(mode);
    }
    apply_modes();
  }

  std::size_t dry_terms() const {
    std::size_t count = 0;
    for (const ConstraintId id : block().constraints)
      for (const Law& law : laws(*system, id))
        for (const Law::Term& term : law.terms()) count += static_cast<bool>(term.holding);
    return count;
  }

  void apply_modes() {
    for (std::size_t i = 0; i < modes.size(); ++i)
      dynamics.grip(static_cast<int>(i), modes[i].sticks ? Grip::sticks : Grip::slips, modes[i].sense);
  }

  /// The multiplier that all forces leave a one-sided constraint, counted positive while it pushes.
  double push_of(const Pusher& p) const {
    for (std::size_t i = 0; i < block().constraints.size(); ++i)
      if (block().constraints[i] == p.on) {
        const std::size_t r = z(block().row[i]);
        return (p.negative ? -1 : 1) * (dynamics.lambda()[r] + dynamics.induced()[r]);
      }
    return 0;
  }

  double gap_of(const Pusher& p, const State& at) {
    watched.clear();
    for (const BodyId id : system->constraint(p.on).bodies()) watched.push_back(at[id]);
    double phi = 0;
    system->constraint(p.on).function().residual(watched, at.t, {&phi, 1});
    return p.negative ? -phi : phi;
  }

  /// The event that is furthest past at the end of the last advance_by(), or nearest: negative when past.
  double event_value(const State& at) {
    double least = std::numeric_limits<double>::infinity();
    const auto contacts = dynamics.contacts();
    over.assign(contacts.size(), 0);
    for (std::size_t i = 0; i < contacts.size(); ++i) {
      const Contact& c = contacts[i];
      if (c.dim == 0) continue;
      double e = 0;
      if (modes[i].sticks) {
        e = c.bound - c.friction + 1e-12 * c.bound;  // held with a bound that is just enough, it stays
        if (c.bound == 0 && c.friction <= 1e-12) e = 0;
      } else {
        const double size = modes[i].sense.norm();
        e = size > 0 ? c.rubbing.dot(modes[i].sense) / size : 0;
      }
      over[i] = e < 0;
      least = std::min(least, e);
    }
    over_held.assign(held.size(), 0);
    for (std::size_t i = 0; i < held.size(); ++i) {
      const double e = push_of(held[i]);
      over_held[i] = e < 0;
      least = std::min(least, e);
    }
    over_gone.assign(let_go.size(), 0);
    for (std::size_t i = 0; i < let_go.size(); ++i) {
      const double e = gap_of(let_go[i], at);
      over_gone[i] = e < 0;
      least = std::min(least, e);
    }
    return least;
  }

  void note(double t, const Mode& mode, ModeSwitch::What what) {
    switches.push_back({t, mode.on, mode.law, mode.term, what});
    ++report.mode_switches;
  }

  /// At an event, which is `state`: contacts past theirs come to rest and are judged anew together with those at rest.
  bool switch_modes() {
    std::vector<char>& past = over;
    for (std::size_t i = 0; i < modes.size(); ++i)
      if (past[i] && !modes[i].sticks) dynamics.grip(static_cast<int>(i), Grip::sticks);
    if (dynamics.evaluate(state) == Status::invalid) return refuse(Status::invalid, dynamics.reason()), false;
    v1.assign(dynamics.assembly().v.begin(), dynamics.assembly().v.end());
    if (dynamics.hold(v1) > 0) give(v1, state);
    for (std::size_t i = 0; i < modes.size(); ++i)
      if (past[i] || modes[i].sticks) dynamics.grip(static_cast<int>(i), Grip::automatic);
    if (dynamics.evaluate(state) == Status::invalid) return refuse(Status::invalid, dynamics.reason()), false;
    for (std::size_t i = 0; i < modes.size(); ++i) {
      Mode& mode = modes[i];
      const Contact& c = dynamics.contacts()[i];
      if (!past[i] && !mode.sticks) continue;
      const bool stuck_before = mode.sticks;
      mode.sticks = c.sticks && !(stuck_before && past[i]);
      if (!mode.sticks) mode.sense = c.gaining.norm() > 0 ? c.gaining : Vector6d(-c.effort);
      if (stuck_before && !mode.sticks) note(state.t, mode, ModeSwitch::What::slides);
      if (!stuck_before) note(state.t, mode, mode.sticks ? ModeSwitch::What::sticks : ModeSwitch::What::turns);
    }
    apply_modes();
    return true;
  }

  /// One-sided constraints at their events, which is `state`: released ones go, others come back without bouncing.
  bool release_and_engage() {
    bool changed = false, impact = false;
    for (std::size_t i = 0; i < held.size(); ++i) {
      if (!over_held[i]) continue;
      const Pusher p = held[i];
      toggled.push_back(p.on);
      system->enable(p.on, false);
      if (one_sided(*system, p.on).reengage) let_go.push_back(p);
      note(state.t, {p.on, -1, -1}, ModeSwitch::What::releases);
      changed = true;
    }
    for (std::size_t i = 0; i < over_gone.size(); ++i) {
      if (!over_gone[i]) continue;
      toggled.push_back(let_go[i].on);
      system->enable(let_go[i].on, true);
      note(state.t, {let_go[i].on, -1, -1}, ModeSwitch::What::engages);
      changed = impact = true;
    }
    if (!changed) return true;
    ledger.close(state.t - closed);
    closed = state.t;
    dynamics.restructure();
    ledger.restructure(*system, block(), false);
    ledger.begin();
    make_room();
    watch();
    if (dynamics.evaluate(state) == Status::invalid) return refuse(Status::invalid, dynamics.reason()), false;
    if (impact) {
      close_gaps(*system, dynamics, state, options.newton_tolerance, options.max_newton);
      if (dynamics.evaluate(state) == Status::invalid) return refuse(Status::invalid, dynamics.reason()), false;
      project_velocities(*system, dynamics, state);  // (T14)
    }
    decide_modes();
    return true;
  }

  void rk4(double dt) {
    if (!modes_known || modes.size() != dry_terms()) {
      decide_modes();
      modes_known = true;
    }
    report.substeps = 0;
    for (double done = 0; done < dt;) {
      double left = dt - done;
      ledger.keep();
      // Smooth laws are explicit in the stages, and drive what they should damp where rate · h is far beyond 1.
      const double finest = dt / std::max(1, options.max_substeps);
      if (dynamics.law_report().rate * left > stable)
        left = std::min(left, std::max(finest, 0.7 * stable / dynamics.law_report().rate));
      if (!advance_by(left)) return;
      while (law_rate * left > stable && left > finest * (1 + 1e-9)) {
        left = std::max(finest, 0.5 * left);
        ledger.undo();
        if (!advance_by(left)) return;
      }
      if (law_rate * left > stable && report.warning.empty()) {
        const int i = dynamics.law_report().stiffest;
        report.warning = (i < 0 ? std::string("a smooth law") : name_of(dynamics.law_efforts()[z(i)])) +
                         " damps faster than the step, even as short as dt/" + std::to_string(options.max_substeps) +
                         ", can follow: energy may grow. Method::semi_implicit has no such limit";
      }
      double e = eventful() ? event_value(next) : 1;
      // A stage that has turned back where the end has not: the motion is too fast for the step, and friction would
      // give power there.
      while (e >= 0 && turned_back && left > dt / 256) {
        left *= 0.5;
        ledger.undo();
        if (!advance_by(left)) return;
        e = event_value(next);
      }
      if (e >= 0) {
        done = left < dt - done ? done + left : dt;
        take(left);
        continue;
      }
      // Between `a`, where nothing has happened, and `b`, where something has: Illinois, kept honest by halving.
      double a = 0, b = left, at_a = 0, at_b = e, last = left;
      const auto value = [&](double h) {
        ledger.undo();
        last = h;
        return advance_by(h) ? event_value(next) : std::numeric_limits<double>::quiet_NaN();
      };
      const double sharp = std::max(options.event_tolerance, 4e-16 * (std::fabs(state.t) + left));
      for (int k = 0; at_a <= 0 && k < 40 && b > sharp; ++k) {
        const double h = 0.5 * b;
        e = value(h);
        if (report.rejected) return;
        e < 0 ? (b = h, at_b = e) : (a = h, at_a = std::max(e, 1e-300));
      }
      for (int k = 0; at_a > 0 && b - a > sharp && k < 200; ++k) {
        double h = k % 3 == 2 ? 0.5 * (a + b) : (at_a * b - at_b * a) / (at_a - at_b);
        if (!(h > a && h < b)) h = 0.5 * (a + b);
        h = std::clamp(h, a + 0.25 * std::min(sharp, b - a), b - 0.25 * std::min(sharp, b - a));
        e = value(h);
        if (report.rejected) return;
        if (e < 0) {
          b = h;
          at_b = e;
          at_a *= 0.5;
        } else {
          a = h;
          at_a = std::max(e, 1e-300);
          at_b *= 0.5;
        }
      }
      if (last != b) value(b);
      if (report.rejected) return;
      done += b;
      take(b);
      if (report.mode_switches >= options.max_switches)
        return refuse(report.status, "modes of friction change more than max_switches times in one step");
      if (!switch_modes() || !release_and_engage()) return;
    }
  }

  std::string name_of(const LawEffort& e) const {
    const ConstraintId on = block().constraints[z(e.constraint)];
    return "law '" + laws(*system, on)[z(e.law)].terms()[z(e.term)].name + "' on " + system->name(on);
  }

  /// The part of a step that has just been found good.
  void take(double h) {
    ++report.substeps;
    std::swap(state, next);
    dynamics.accept(h);
    for (std::size_t i = 0; i < modes.size() && i < dynamics.contacts().size(); ++i) {
      const Contact& c = dynamics.contacts()[i];
      if (!modes[i].sticks && c.rubbing.dot(modes[i].sense) > 0) modes[i].sense = c.rubbing;
    }
    apply_modes();
  }

  // ---- both ----

  void accept() {
    for (const ConstraintId id : block().constraints) {
      Constraint& constraint = system->constraint(id);
      scene.clear();
      for (const BodyId body : constraint.bodies()) scene.push_back(state[body]);
      constraint.function().accept(scene, state.t);
    }
  }

  const StepReport& step(double dt) {
    report.status = Status::ok;
    report.substeps = 1;
    report.newton_solves = 0;
    report.swing = 0;
    report.rejected = false;
    report.mode_switches = 0;
    report.reason.clear();
    report.warning.clear();
    switches.clear();
    toggled.clear();
    let_go_before = let_go;
    if (!(dt > 0) || !std::isfinite(dt)) {
      refuse(Status::invalid, "dt must be positive and finite");
      return report;
    }
    list_current = false;
    before = state;
    const double h_before = last_h;
    try {  // motions of driven bodies are the user's
      if (restart || structure_changed()) {
        restart = true;
        const std::string why = begin_at(false);
        restart = !why.empty();
        if (restart) {
          refuse(Status::invalid, why);
          state = before;
          return report;
        }
        before = state;
      }
      ledger.begin();
      closed = state.t;
      options.method == Method::rk4 ? rk4(dt) : semi_implicit(dt);
    } catch (const std::exception& e) {
      refuse(Status::invalid, e.what());
    } catch (...) {
      refuse(Status::invalid, "something that is not a std::exception was thrown");
    }
    if (report.rejected) {
      state = before;  // not a trace of what was tried
      for (const ConstraintId id : toggled) system->enable(id, !system->enabled(id));
      let_go = let_go_before;
      restart = restart || !toggled.empty();
      modes.clear();
      modes_known = false;
      switches.clear();
      report.mode_switches = 0;
      last_h = h_before;
      ledger.begin();
      return report;
    }
    state.t = before.t + dt;
    if (options.method == Method::rk4) report.sticking = dynamics.law_report().sticking;
    last_dt = dt;
    ledger.close(state.t - closed);
    accept();
    if (report.warning.empty() && !dynamics.law_report().trouble.empty())
      report.warning = dynamics.law_report().trouble;
    return report;
  }

  std::span<const Reaction> reactions() {
    if (structure_changed()) {
      dynamics.restructure();
      ledger.restructure(*system, block(), false);
      restart = true;
      list_current = false;
    }
    if (!list_current) {
      dynamics.set_step(0);
      dynamics.evaluate(state);
      dynamics.reactions(state, list);
      ledger.complete(*system, block(), state, last_dt, list);
      list_current = true;
    }
    return list;
  }
};

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
std::span<const BodyBooks> Stepper::books() const { return impl_->ledger.books(); }
const EnergyBooks& Stepper::energy_books() const { return impl_->ledger.energy(); }
std::span<const LawWork> Stepper::law_works() const { return impl_->ledger.laws(); }
std::span<const ModeSwitch> Stepper::switches() const { return impl_->switches; }
const Dynamics& Stepper::dynamics() const { return impl_->dynamics; }
double Stepper::constraint_work() const { return impl_->ledger.work(); }
double Stepper::energy_minus_work() const {
  return energy_integral(*impl_->system, impl_->state) - impl_->ledger.work();
}

}  // namespace linchpin
