// The motion without a host. Hides the methods, how long their steps are, where events lie, and when things are made
// again because the system changed.
#include "ledger.h"
#include "nonideal.h"
#include "runge_kutta.h"
#include "text.h"
#include "variational.h"

#include <linchpin/constraint.h>
#include <linchpin/laws.h>
#include <linchpin/stepper.h>

#include <array>
#include <bit>
#include <exception>
#include <functional>
#include <limits>
#include <stdexcept>

namespace linchpin {

namespace {

constexpr double stable = 1;  // rate · h of laws in rk4, whose own limit is 2.78

/// Of an adaptive step, which would otherwise follow a force that jumps for ever.
constexpr long most_parts = 100000;

constexpr const char* too_stiff =
    " damps faster than the step can follow. Method::semi_implicit has no such limit; nor has a shorter step";

constexpr const char* astray = "the end of the step did not come to lie on the constraints";

bool symplectic(Method m) { return m == Method::rattle || m == Method::rattle4; }

}  // namespace

const char* to_string(Method method) {
  switch (method) {
    case Method::semi_implicit:
      return "semi-implicit";
    case Method::rk4:
      return "rk4";
    case Method::adaptive:
      return "adaptive";
    case Method::rattle:
      return "rattle";
    default:
      return "rattle4";
  }
}

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
  std::vector<ConstraintId> tried;    // likewise, in this part of a semi-implicit one
  std::vector<ModeSwitch> switches;
  std::vector<char> over, over_held, over_gone;  // past their event
  std::vector<char> frozen;                      // contacts that go on in their sense, in this part of a step
  std::vector<double> slowness;                  // speed of contacts, the least of the stages of the last advance_by()
  bool dry_is_fastest = false;                   // law_rate is that of friction which turns with its slip
  bool modes_known = false, turned_back = false;
  double closed = 0;        // up to when the ledger counts [s]
  double law_rate = 0;      // the largest of the stages of the last advance_by() [1/s]
  std::vector<char> stuck;  // contacts at the end of the last semi-implicit step
  std::vector<BodyState> watched;

  // The pair (T13).
  double try_h = 0;          // how long the next part may be [s]; 0: not known
  double last_error = 1e-4;  // of the last accepted part, in units of the tolerance
  double error_of_step = 0;
  bool fresh = false;  // the last evaluation was at `state`, and is the first of the next part

  // Dense output: of a part of a step, y(θ) = c₀θ + θ(1 − θ)(c₁ + θ(c₂ + (1 − θ)c₃)) from its beginning, θ = 0 … 1.
  struct Segment {
    State base;
    double h = 0;
    std::array<std::vector<double>, 4> pose, rate;  // chart; velocity less that of the beginning
    void resize(std::size_t n) {
      for (auto* four : {&pose, &rate})
        for (auto& x : *four) x.resize(n);
    }
  };
  Segment trial;
  std::vector<Segment> segments;
  std::size_t segment_count = 0;
  std::vector<std::function<double(const State&)>> functions;
  std::vector<double> values;  // of the functions at `state`; NaN: not known
  std::vector<Crossing> crossings;

  // Memory of a step.
  using Stages = std::array<std::vector<double>, 7>;
  State before, next, stage, between, probe;
  std::vector<double> v0, v1, beyond, beyond_rate, force, gyroscopic, error, all, mass, in_chart, gained, momentum,
      momentum_before, all_forces;
  Stages vdot, pose_rate;
  Assembly forces_alone;
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
    if (symplectic(options.method))
      for (const BodyId id : block().bodies)
        if (system->kind(id) == BodyKind::coordinate)
          return "rattle moves bodies by their momenta; coordinates such as '" + system->name(id) +
                 "' need rk4 or adaptive";
    try_h = 0;
    fresh = false;
    segment_count = 0;
    std::fill(values.begin(), values.end(), std::numeric_limits<double>::quiet_NaN());
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
    for (auto* x : {&v0, &v1, &force, &gyroscopic, &in_chart, &gained, &momentum, &momentum_before}) x->assign(n, 0.0);
    for (auto* x : {&beyond, &beyond_rate, &error, &all}) x->assign(m, 0.0);
    for (Stages* stages : {&vdot, &pose_rate})
      for (auto& x : *stages) x.assign(n, 0.0);
    trial.resize(n);
    forces_alone.block = block();
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
      const Vector3d turned = 0.5 * h * (system->gyroscopic_torque(id, body) - at_start);
      for (int j = 0; j < 3; ++j) {
        const std::size_t column = z(block().column[s] + 3 + j);
        force[column] = turned[j] - gyroscopic[column];
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

  enum class Outcome { done, too_long, switched, invalid };

  /// How far a unit multiplier of a constraint of one row moves it, if nothing else held its bodies [1/kg].
  double mobility_of(int constraint) {
    const Block& b = block();
    const auto& bodies = system->constraint(b.constraints[z(constraint)]).bodies();
    std::fill(force.begin(), force.end(), 0.0);
    std::fill(all.begin(), all.end(), 0.0);
    all[z(b.row[z(constraint)])] = 1;
    for (std::size_t k = 0; k < bodies.size(); ++k) {
      const int slot = b.slot(bodies[k]);
      if (slot < 0) continue;
      const Vector6d w = wrench_at_centre(dynamics.assembly(), constraint, static_cast<int>(k), all);
      for (int j = b.column[z(slot)]; j < b.column[z(slot + 1)]; ++j) force[z(j)] += w[j - b.column[z(slot)]];
    }
    gained = force;
    dynamics.solver().inverse_mass(force, force);
    double sum = 0;
    for (std::size_t j = 0; j < force.size(); ++j) sum += gained[j] * force[j];
    return sum;
  }

  /// The one-sided constraint that the part of a step from `state` to `next` shows held or let go wrongly, by most:
  /// pulled on by its mean multiplier so much that its gap would open, or passed through. Each changes twice at most.
  /// @return whether there is one; over_held and over_gone say which.
  bool one_sided_is_wrong(double h, double kick) {
    over_held.assign(held.size(), 0);
    over_gone.assign(let_go.size(), 0);
    char* worst = nullptr;
    double most = std::max(10 * options.newton_tolerance, 1e-15);
    const auto consider = [&](ConstraintId on, double depth, char& which) {
      if (!(depth > most) || std::count(tried.begin(), tried.end(), on) >= 2) return;
      most = depth;
      worst = &which;
    };
    for (std::size_t k = 0; k < held.size(); ++k)
      for (std::size_t i = 0; i < block().constraints.size(); ++i) {
        if (block().constraints[i] != held[k].on) continue;
        const std::size_t r = z(block().row[i]);
        const double push =
            (held[k].negative ? -1 : 1) * (dynamics.lambda()[r] + dynamics.induced()[r] + beyond[r] / kick);
        if (push < 0) consider(held[k].on, -push * kick * h * mobility_of(static_cast<int>(i)), over_held[k]);
      }
    for (std::size_t k = 0; k < let_go.size(); ++k) consider(let_go[k].on, -gap_of(let_go[k], next), over_gone[k]);
    if (worst == nullptr) return false;
    *worst = 1;
    return true;
  }

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
        return dynamics.hold(state, v1) > 1e-15 * (1 + largest(v1)) || turned;
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
    if (!(held.empty() && let_go.empty()) && one_sided_is_wrong(h, kick))
      return release_and_engage(state.t + h) ? Outcome::switched : Outcome::invalid;
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
    interpolate_ends(h);
    std::swap(state, next);
    keep_segment();
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
    tried.clear();
    for (int done = 0; done < parts;) {
      const double h = dt * stride / parts;
      double swing = 0;
      const char* trouble = nullptr;
      const Outcome outcome = substep(h, stride == 1, swing, trouble);
      if (outcome == Outcome::invalid) return refuse(Status::invalid, dynamics.reason());
      if (outcome == Outcome::switched) continue;
      tried.clear();
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

  // ---- Runge–Kutta–Munthe-Kaas (T13) ----

  const Tableau& tableau() const { return options.method == Method::adaptive ? dormand_prince_5 : runge_kutta_4; }

  /// y ← h Σ_k weight_k rate_k, over the first `count` stages.
  void combine(double h, std::span<const double> weight, std::size_t count, const Stages& rate,
               std::span<double> y) const {
    std::fill(y.begin(), y.end(), 0.0);
    for (std::size_t k = 0; k < count; ++k) {
      if (weight[k] == 0) continue;
      const double w = h * weight[k];
      for (std::size_t j = 0; j < y.size(); ++j) y[j] += w * rate[k][j];
    }
  }

  /// Bodies of `to` where the chart at `from` has `pose`, with the velocities of `from` and `rate` more.
  void place(const State& from, std::span<const double> pose, std::span<const double> rate, State& to) const {
    for (std::size_t s = 0; s < block().bodies.size(); ++s) {
      const Vector6d u = twist_of(block(), s, pose), dv = twist_of(block(), s, rate);
      BodyState& body = to[block().bodies[s]];
      body = from[block().bodies[s]];
      advance(body, u.head<3>(), u.tail<3>(), 1.0);
      body.v += dv.head<3>();
      body.w += dv.tail<3>();
    }
  }

  /// The rate of the chart where it has `pose`, when bodies have velocities v.
  void rate_of_chart(std::span<const double> pose, std::span<const double> v, std::span<double> rate) const {
    const Block& b = block();
    std::copy(v.begin(), v.end(), rate.begin());
    for (std::size_t s = 0; s < b.bodies.size(); ++s) {
      if (b.column[s + 1] - b.column[s] != 6) continue;
      Eigen::Map<Vector3d> turning(&rate[z(b.column[s] + 3)]);
      turning = rate_of_rotation(Eigen::Map<const Vector3d>(&pose[z(b.column[s] + 3)]), turning);
    }
  }

  void velocities(const State& at, std::span<double> v) const {
    for (std::size_t s = 0; s < block().bodies.size(); ++s) {
      const BodyState& body = at[block().bodies[s]];
      const int first = block().column[s], dof = block().column[s + 1] - first;
      for (int j = 0; j < dof; ++j) v[z(first + j)] = j < 3 ? body.v[j] : body.w[j - 3];
    }
  }

  /// The equation at a stage, with its part of the books.
  bool evaluate_stage(std::size_t k, double dt) {
    const double weight = tableau().weight[k];
    const bool known = k == 0 && fresh;
    fresh = false;
    const Status status = known ? report.status : dynamics.evaluate(stage);
    if (status == Status::invalid) {
      const bool stiff = options.method == Method::rk4 && dynamics.law_report().rate * dt > stable;
      return refuse(Status::invalid, dynamics.reason() + (stiff ? "; it" + std::string(too_stiff) : "")), false;
    }
    // Stages between the ends are off the constraints by their error, and redundant rows then disagree by as much.
    const bool on_the_way = k > 0 && status == Status::inconsistent;
    report.status = std::max(report.status, on_the_way ? Status::redundant : status);
    const std::vector<double>& v = dynamics.assembly().v;
    if (k == 0) v0 = v, turned_back = dry_is_fastest = false, law_rate = 0;
    if (dynamics.law_report().rate > law_rate) {
      law_rate = dynamics.law_report().rate;
      dry_is_fastest = dynamics.law_report().stiffest < 0;
    }
    if (k == 0) slowness.assign(dynamics.contacts().size(), std::numeric_limits<double>::infinity());
    for (std::size_t i = 0; i < std::min(slowness.size(), dynamics.contacts().size()); ++i)
      slowness[i] = std::min(slowness[i], dynamics.contacts()[i].rubbing.norm());
    for (std::size_t i = 0; k > 0 && i < modes.size() && i < dynamics.contacts().size(); ++i)
      turned_back = turned_back || (!modes[i].sticks && dynamics.contacts()[i].rubbing.dot(modes[i].sense) < 0);
    // Of the middle, or nearly: M(v₁ − v₀) then is right to second order.
    if (k == 2) mass = dynamics.assembly().instant.mass;
    std::copy(dynamics.vdot().begin(), dynamics.vdot().end(), vdot[k].begin());
    if (const auto laws_now = dynamics.law_efforts(); !laws_now.empty() && largest(vdot[k]) * dt > fastest_by_laws) {
      const auto size = [](const LawEffort& e) { return std::max(e.force.norm(), e.moment.norm()); };
      const LawEffort& most = *std::max_element(laws_now.begin(), laws_now.end(),
                                                [&](const auto& a, const auto& b) { return size(a) < size(b); });
      if (size(most) > 0)
        return refuse(Status::invalid, name_of(most) + beyond_all_bounds(size(most), largest(vdot[k])) +
                                           (law_rate * dt > stable ? "; it" + std::string(too_stiff) : "")),
               false;
    }
    std::fill(beyond.begin(), beyond.end(), 0.0);
    if (options.drift == Drift::baumgarte) {
      add_feedback(vdot[k]);
      for (std::size_t r = 0; r < beyond.size(); ++r) beyond[r] = weight * dt * beyond_rate[r];
    }
    rate_of_chart(in_chart, v, pose_rate[k]);
    // The power of each stage with the weights of the method: work is as accurate as the motion.
    if (weight != 0) ledger.record(*system, dynamics, stage, weight * dt, beyond, v, v);
    return true;
  }

  /// One step of the method from `state` to `next`, contacts held in their modes. @return whether it went well.
  bool step_runge_kutta(double dt) {
    const Tableau& method = tableau();
    const Block& b = block();
    stage = state;
    std::fill(in_chart.begin(), in_chart.end(), 0.0);
    for (std::size_t k = 0; k < method.stages; ++k) {
      if (k > 0) {
        combine(dt, method.from[k], k, pose_rate, in_chart);
        combine(dt, method.from[k], k, vdot, gained);
        place(state, in_chart, gained, stage);
        stage.t = state.t + method.at[k] * dt;
        system->update_driven(stage);
      }
      if (!evaluate_stage(k, dt)) return false;
    }
    report.swing = std::max(report.swing, dt * swing_of(stage, dt));

    next = state;
    next.t = state.t + dt;
    system->update_driven(next);
    combine(dt, method.weight, method.stages, pose_rate, in_chart);
    combine(dt, method.weight, method.stages, vdot, gained);
    place(state, in_chart, gained, next);
    if (!is_finite(next)) return refuse(report.status, "the state is not finite"), false;
    if (options.drift == Drift::exact) {
      stage = next;
      const double gap = close_gaps(*system, dynamics, next, options.newton_tolerance, options.max_newton);
      if (!(gap <= std::max(options.newton_tolerance, 1e-6))) {
        // Either the step went too far, or the rows contradict each other.
        if (!std::isfinite(gap) || !settle_in_least_squares(next)) return refuse(report.status, astray), false;
        report.status = Status::inconsistent;
      }
      project_velocities(*system, dynamics, next);
      if (!is_finite(next)) return refuse(report.status, "the state is not finite"), false;
      for (std::size_t s = 0; s < b.bodies.size(); ++s) {  // the chart follows the projection
        const BodyState &was = stage[b.bodies[s]], &is = next[b.bodies[s]];
        for (int j = 0; j < std::min(3, b.column[s + 1] - b.column[s]); ++j)
          in_chart[z(b.column[s] + j)] += is.p[j] - was.p[j];
        if (b.column[s + 1] - b.column[s] == 6)
          Eigen::Map<Vector3d>(&in_chart[z(b.column[s] + 3)]) += turn_between(was.q, is.q);
      }
    }
    if (method.pair) {  // its last stage, on the constraints, is the first of the next step
      stage = next;
      if (!evaluate_stage(method.stages, dt)) return false;
    } else if (eventful() && dynamics.evaluate(next) == Status::invalid) {
      return refuse(Status::invalid, dynamics.reason()), false;
    }
    velocities(next, v1);
    // The end itself: what sticks is at rest there, and events are judged there.
    if (eventful() && dynamics.hold(next, v1) > 0) give(v1, next);
    if (method.pair) error_of_step = error_norm(dt);
    interpolate(dt, method.pair ? pose_rate[6] : pose_rate[3], method.pair ? vdot[6] : vdot[3]);
    if (method.pair)
      for (std::size_t j = 0; j < in_chart.size(); ++j)
        for (std::size_t k = 0; k < method.dense.size(); ++k) {
          trial.pose[3][j] += dt * method.dense[k] * pose_rate[k][j];
          trial.rate[3][j] += dt * method.dense[k] * vdot[k][j];
        }
    ledger.record_momentum(b, dynamics.assembly().instant, mass, v0, v1);
    return true;
  }

  /// Rows that contradict each other have no end to meet: poses go to their least squares, where a further correction
  /// moves nothing (Gauss–Newton: closing gaps stops where the largest of them no longer shrinks, which may be before).
  /// @return whether they got there
  bool settle_in_least_squares(State& end) {
    double last = std::numeric_limits<double>::infinity();
    for (int round = 0; round < 30; ++round) {
      if (dynamics.evaluate(end) == Status::invalid) return false;
      dynamics.solver().apply(dynamics.assembly().position, {}, {}, force);
      const double moves = largest(force);
      if (moves <= 1e-6 * largest(dynamics.assembly().position)) return true;
      // Rows that are independent do not contradict each other here.
      if (dynamics.solver().full_row_rank() || !(moves < 0.5 * last)) return false;
      last = moves;
      for (std::size_t s = 0; s < block().bodies.size(); ++s) {
        const Vector6d u = twist_of(block(), s, force);
        advance(end[block().bodies[s]], u.head<3>(), u.tail<3>(), -1.0);
      }
    }
    return false;
  }

  bool is_finite(const State& x) const {
    return std::all_of(block().bodies.begin(), block().bodies.end(), [&](BodyId id) {
      const BodyState& body = x[id];
      return body.p.allFinite() && body.v.allFinite() && body.w.allFinite();
    });
  }

  /// What the two methods of the pair disagree by, in units of the tolerance: rms over all coordinates and velocities.
  /// Vectors are judged by their length, so that the axes do not matter.
  double error_norm(double dt) {
    const Block& b = block();
    double sum = 0;
    const auto add = [&](std::span<const double> e, int first, int count, double size) {
      const double scale = options.absolute_tolerance + options.relative_tolerance * size;
      for (int j = first; j < first + count; ++j) sum += e[z(j)] * e[z(j)] / (scale * scale);
    };
    const Tableau& method = tableau();
    for (const Stages* rate : {&pose_rate, &vdot}) {
      combine(dt, method.error, 7, *rate, gained);
      for (std::size_t s = 0; s < b.bodies.size(); ++s) {
        const BodyState &from = state[b.bodies[s]], &to = next[b.bodies[s]];
        const int first = b.column[s], dof = b.column[s + 1] - first;
        const bool poses = rate == &pose_rate;
        add(gained, first, std::min(3, dof),
            poses ? std::max(from.p.norm(), to.p.norm()) : std::max(from.v.norm(), to.v.norm()));
        if (dof == 6) add(gained, first + 3, 3, poses ? 1 : std::max(from.w.norm(), to.w.norm()));
      }
    }
    return std::sqrt(sum / std::max(1.0, 2.0 * b.n()));
  }

  // ---- dense output ----

  /// The step from `state` to `next` as a polynomial in the chart at its beginning: the cubic with the right ends and
  /// slopes, to which the pair adds a fourth power.
  void interpolate(double dt, std::span<const double> end_rate, std::span<const double> end_vdot) {
    trial.h = dt;
    for (std::size_t j = 0; j < in_chart.size(); ++j) {
      const auto hermite = [&](auto& c, double difference, double first, double last) {
        c[0][j] = difference;
        c[1][j] = dt * first - difference;
        c[2][j] = difference - dt * last - c[1][j];
        c[3][j] = 0;
      };
      hermite(trial.pose, in_chart[j], pose_rate[0][j], end_rate[j]);
      hermite(trial.rate, v1[j] - v0[j], vdot[0][j], end_vdot[j]);
    }
  }

  /// A step of the methods without stages: poses with the velocities of both ends as slopes, velocities on a line.
  void interpolate_ends(double dt) {
    const Block& b = block();
    for (std::size_t s = 0; s < b.bodies.size(); ++s) {
      const BodyState &from = state[b.bodies[s]], &to = next[b.bodies[s]];
      const Vector3d turn = turn_between(from.q, to.q);
      for (int j = b.column[s]; j < b.column[s + 1]; ++j)
        in_chart[z(j)] =
            j < b.column[s] + 3 ? to.p[j - b.column[s]] - from.p[j - b.column[s]] : turn[j - b.column[s] - 3];
    }
    velocities(state, v0);
    velocities(next, v1);
    std::copy(v0.begin(), v0.end(), pose_rate[0].begin());
    rate_of_chart(in_chart, v1, pose_rate[3]);
    for (std::size_t j = 0; j < gained.size(); ++j) vdot[0][j] = (v1[j] - v0[j]) / dt;
    interpolate(dt, pose_rate[3], vdot[0]);
  }

  void look_inside(const State& base, const Segment& segment, double theta, State& out) {
    out = base;
    out.t = base.t + theta * segment.h;
    system->update_driven(out);
    const double rest = 1 - theta;
    const auto at = [&](const auto& c, std::size_t j) {
      return theta * (c[0][j] + rest * (c[1][j] + theta * (c[2][j] + rest * c[3][j])));
    };
    for (std::size_t j = 0; j < in_chart.size(); ++j) {
      in_chart[j] = at(segment.pose, j);
      gained[j] = at(segment.rate, j);
    }
    place(base, in_chart, gained, out);
  }

  /// The polynomial of the part of a step that has just been taken, `next` being where it began.
  void keep_segment() {
    if (segment_count == segments.size()) segments.emplace_back(trial);
    Segment& segment = segments[segment_count++];
    std::swap(segment, trial);
    trial.resize(z(block().n()));
    segment.base = next;
    if (!functions.empty()) find_crossings(segment);
  }

  void find_crossings(const Segment& segment) {
    constexpr int samples = 4;  // of each part: a function that comes and goes within it should be seen
    for (std::size_t i = 0; i < functions.size(); ++i) {
      double& value = values[i];
      if (std::isnan(value)) value = functions[i](segment.base);
      for (int k = 1; k <= samples; ++k) {
        double a = (k - 1.0) / samples, b = double(k) / samples, at_a = value;
        const auto look = [&](double theta) {
          look_inside(segment.base, segment, theta, probe);
          return functions[i](probe);
        };
        double at_b = k == samples ? functions[i](state) : look(b);
        value = at_b;
        if (!(at_a < 0 && at_b >= 0) && !(at_a > 0 && at_b <= 0)) continue;
        const bool rising = at_a < 0;
        const double sharp = std::max(options.event_tolerance, 4e-16 * std::fabs(state.t)) / segment.h;
        for (int n = 0; b - a > sharp && n < 200; ++n) {  // Illinois, kept honest by halving
          double m = n % 3 == 2 || at_a == at_b ? 0.5 * (a + b) : (a * at_b - b * at_a) / (at_b - at_a);
          m = std::clamp(m, a + 0.25 * std::min(sharp, b - a), b - 0.25 * std::min(sharp, b - a));
          const double e = look(m);
          if (rising ? e < 0 : e > 0) {
            a = m, at_a = e;
            at_b *= 0.5;
          } else {
            b = m, at_b = e;
            at_a *= 0.5;
          }
        }
        look_inside(segment.base, segment, b, probe);
        crossings.push_back({probe.t, static_cast<int>(i), rising, probe});
      }
    }
  }

  // ---- RATTLE with the exponential map (T13) ----

  /// Forces at a state, without the gyroscopic torque: momenta in world axes have none.
  void take_gyroscopic(const State& at, double h, std::span<double> out) {
    std::fill(out.begin(), out.end(), 0.0);
    for (std::size_t s = 0; s < block().bodies.size(); ++s) {
      const BodyId id = block().bodies[s];
      if (system->kind(id) != BodyKind::rigid) continue;
      const Vector3d torque = system->gyroscopic_torque(id, at[id]);
      for (int k = 0; k < 3; ++k) out[z(block().column[s] + 3 + k)] = -h * torque[k];
    }
  }

  /// The equation at `at` gives the bodies the impulse that it has in h: added to `momentum`, whose velocities are v.
  bool kick(const State& at, double h, std::span<const double> v) {
    const Status status = dynamics.evaluate(at);
    if (status == Status::invalid) return refuse(Status::invalid, dynamics.reason()), false;
    report.status = std::max(report.status, status);
    std::copy(dynamics.vdot().begin(), dynamics.vdot().end(), vdot[0].begin());
    std::fill(beyond.begin(), beyond.end(), 0.0);
    if (options.drift == Drift::baumgarte) {
      add_feedback(vdot[0]);
      for (std::size_t r = 0; r < beyond.size(); ++r) beyond[r] = h * beyond_rate[r];
    }
    take_gyroscopic(at, h, gyroscopic);
    for (std::size_t j = 0; j < gained.size(); ++j) gained[j] = v[j] + h * vdot[0][j];
    momenta_of(*system, block(), at, gained, momentum);
    for (std::size_t j = 0; j < momentum.size(); ++j) momentum[j] += gyroscopic[j];
    return true;
  }

  /// Half a kick, the free motion, half a kick: symmetric, and symplectic where forces have a potential. The
  /// multipliers of the first make poses obey at the end, those of the second velocities.
  bool step_rattle(double h, const State& from, State& to) {
    const Block& b = block();
    const double half = 0.5 * h;
    velocities(from, v0);
    stage = from;
    // Forces that depend on velocities see that of the middle in both kicks, the first of which is implicit in it.
    double moved_before = std::numeric_limits<double>::infinity();
    for (int round = 0;; ++round) {
      if (round > 0) {
        velocities_of(*system, b, from, momentum, gained);
        give(gained, stage);
        if (!depends_on_velocity(from, stage)) break;
        std::copy(momentum.begin(), momentum.end(), momentum_before.begin());
      }
      if (!kick(stage, half, v0)) return false;
      to = from;
      to.t = from.t + h;
      system->update_driven(to);
      std::copy(v0.begin(), v0.end(), v1.begin());
      if (options.drift == Drift::exact) {
        const NewtonReport newton = end_on_constraints_with_momenta(
            *system, dynamics, from, to, h, momentum, v1, beyond, options.newton_tolerance, options.max_newton);
        report.newton_solves += newton.solves;
        if (newton.least_squares) report.status = Status::inconsistent;
        if (!newton.converged && report.status != Status::inconsistent) return refuse(report.status, astray), false;
      } else {
        twists_of(*system, b, from, h, momentum, v1);
        move(from, to, h, v1);
      }
      if (round == 0) continue;
      double moved = 0, size = 0;
      for (std::size_t j = 0; j < momentum.size(); ++j) {
        moved = std::max(moved, std::fabs(momentum[j] - momentum_before[j]));
        size = std::max(size, std::fabs(momentum[j]));
      }
      if (moved <= 1e-15 * size || (moved <= 1e-9 * size && moved > 0.5 * moved_before)) break;
      moved_before = moved;
      if (round == 50 || !std::isfinite(moved))
        return refuse(report.status, "a force changes so fast with the velocity that half a step cannot be found"),
               false;
    }
    velocities_of(*system, b, from, momentum, gained);
    ledger.record(*system, dynamics, from, half, beyond, v0, gained);
    ledger.record_applied(b, gyroscopic, v0, gained);
    ledger.record_momentum(b, dynamics.assembly().instant, dynamics.assembly().instant.mass, v0, gained);

    velocities_of(*system, b, to, momentum, v0);  // v of the middle, as M at the end has it
    give(v0, to);
    if (!is_finite(to)) return refuse(report.status, "the state is not finite"), false;
    if (!kick(to, half, v0)) return false;
    velocities_of(*system, b, to, momentum, v1);
    give(v1, to);
    if (options.drift == Drift::exact) project_velocities(*system, dynamics, to, beyond);
    velocities(to, v1);
    if (!is_finite(to)) return refuse(report.status, "the state is not finite"), false;
    report.swing = std::max(report.swing, std::fabs(h) * swing_of(to, half));
    ledger.record(*system, dynamics, to, half, beyond, v0, v1);
    ledger.record_applied(b, gyroscopic, v0, v1);
    ledger.record_momentum(b, dynamics.assembly().instant, dynamics.assembly().instant.mass, v0, v1);
    return true;
  }

  /// Whether forces or laws differ between two states that have the same poses.
  bool depends_on_velocity(const State& a, const State& b) {
    if (!dynamics.law_efforts().empty() || !dynamics.contacts().empty()) return true;
    for (const ConstraintId id : block().constraints)
      if (!laws(*system, id).empty()) return true;
    assemble_forces(*system, a, forces_alone);
    all_forces = forces_alone.instant.Q;
    take_gyroscopic(a, 1, gained);
    for (std::size_t j = 0; j < all_forces.size(); ++j) all_forces[j] += gained[j];
    assemble_forces(*system, b, forces_alone);
    take_gyroscopic(b, 1, gained);
    for (std::size_t j = 0; j < all_forces.size(); ++j) {
      const double force_there = forces_alone.instant.Q[j] + gained[j];
      // What is left of a gyroscopic torque taken away is no force.
      if (std::fabs(force_there - all_forces[j]) > 1e-13 * (std::fabs(force_there) + std::fabs(gained[j]))) return true;
    }
    return false;
  }

  bool step_symplectic(double dt) {
    if (options.method == Method::rattle) {
      if (!step_rattle(dt, state, next)) return false;
    } else {
      between = state;
      for (const double part : composition_4()) {
        if (!step_rattle(part * dt, between, next)) return false;
        std::swap(between, next);
      }
      std::swap(between, next);
      next.t = state.t + dt;
    }
    interpolate_ends(dt);
    return true;
  }

  bool advance_by(double dt) { return symplectic(options.method) ? step_symplectic(dt) : step_runge_kutta(dt); }

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

  /// Gives the contacts their modes. A sliding one goes along its slip, or along its sense where that is frozen.
  void apply_modes() {
    frozen.resize(modes.size(), 0);
    for (std::size_t i = 0; i < modes.size(); ++i)
      dynamics.grip(static_cast<int>(i), modes[i].sticks ? Grip::sticks : Grip::slips,
                    (frozen[i] ? 1e30 : 1e-12) * modes[i].sense.stableNormalized());
  }

  /// Friction of slow slips turns with them faster than `h` can follow: those go on in the sense they had. (In a
  /// straight line that is exact; a slip so slow is over, or fast enough, soon.) @return whether there are any more
  bool freeze_slow_slips(double h) {
    if (!(law_rate * h > stable) || !dry_is_fastest) return false;
    const auto turns = [&](std::size_t i) {
      return !frozen[i] && !modes[i].sticks && modes[i].sense.norm() > 0 && dynamics.contacts()[i].dim > 1;
    };
    double slowest = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < modes.size() && i < slowness.size(); ++i)
      if (turns(i)) slowest = std::min(slowest, slowness[i]);
    bool more = false;
    for (std::size_t i = 0; i < modes.size() && i < slowness.size(); ++i) {
      if (!turns(i) || slowness[i] > slowest * law_rate * h / stable) continue;
      frozen[i] = 1;
      more = true;
    }
    if (more) apply_modes();
    return more;
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
    if (dynamics.hold(state, v1) > 0) give(v1, state);
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
  /// A semi-implicit step is taken again with them from its beginning, and ends on those that come back. @param t  when
  bool release_and_engage(double t) {
    const bool at_end = options.method == Method::semi_implicit;
    bool changed = false, impact = false;
    for (std::size_t i = 0; i < held.size(); ++i) {
      if (!over_held[i]) continue;
      const Pusher p = held[i];
      toggled.push_back(p.on);
      tried.push_back(p.on);
      system->enable(p.on, false);
      if (one_sided(*system, p.on).reengage) let_go.push_back(p);
      note(t, {p.on, -1, -1}, ModeSwitch::What::releases);
      changed = true;
    }
    for (std::size_t i = 0; i < over_gone.size(); ++i) {
      if (!over_gone[i]) continue;
      toggled.push_back(let_go[i].on);
      tried.push_back(let_go[i].on);
      system->enable(let_go[i].on, true);
      note(t, {let_go[i].on, -1, -1}, ModeSwitch::What::engages);
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
    if (at_end && (!impact || options.drift == Drift::exact)) return true;
    if (dynamics.evaluate(state) == Status::invalid) return refuse(Status::invalid, dynamics.reason()), false;
    if (impact) {
      close_gaps(*system, dynamics, state, options.newton_tolerance, options.max_newton);
      if (dynamics.evaluate(state) == Status::invalid) return refuse(Status::invalid, dynamics.reason()), false;
      project_velocities(*system, dynamics, state);  // (T14)
    }
    if (!at_end) decide_modes();
    return true;
  }

  /// A first guess of how long a part may be: a hundredth of the time in which the motion leaves its own size.
  double first_guess(double dt) {
    if (dynamics.evaluate(state) == Status::invalid) return dt;
    double size = 0, rate = 0;
    for (std::size_t s = 0; s < block().bodies.size(); ++s) {
      const BodyState& body = state[block().bodies[s]];
      const Vector6d a = twist_of(block(), s, dynamics.vdot());
      const auto add = [&](double x, double x_dot) {
        const double scale = options.absolute_tolerance + options.relative_tolerance * x;
        size = std::max(size, x / scale);
        rate = std::max(rate, x_dot / scale);
      };
      add(body.p.norm(), body.v.norm());
      add(body.v.norm(), a.head<3>().norm());
      if (system->dof(block().bodies[s]) < 6) continue;
      add(1, body.w.norm());
      add(body.w.norm(), a.tail<3>().norm());
    }
    return rate > 0 && size > 0 ? std::min(dt, 0.01 * size / rate) : dt;
  }

  /// A part of the pair, shortened until its error is within the tolerance, and how long the next one may be (a
  /// proportional-integral controller, Hairer and Wanner, II, IV.2).
  bool advance_within_tolerance(double& part, double left) {
    const double wanted = try_h, shortest = 16 * std::numeric_limits<double>::epsilon() * (std::fabs(state.t) + left);
    const Status status = report.status;
    for (bool first = true;; first = false) {
      report.status = status;
      const bool went = advance_by(part);
      const double e = went ? std::max(error_of_step, 1e-10) : std::numeric_limits<double>::infinity();
      if (e <= 1) {
        const double factor = 0.9 * std::pow(e, -0.7 / 5) * std::pow(last_error, 0.4 / 5);
        const double next_h = part * std::clamp(factor, 0.2, first ? 5.0 : 1.0);
        try_h = part < wanted && first ? std::max(wanted, next_h) : next_h;  // cut short by the end of the step only
        last_error = std::max(e, 1e-4);
        return true;
      }
      part *= went ? std::clamp(0.9 * std::pow(e, -0.2), 0.1, 0.9) : 0.25;
      if (!(part > shortest)) {
        if (went) refuse(report.status, "the error of the step stays above the tolerance however short it is");
        return false;
      }
      report.rejected = false;
      report.reason.clear();
      ledger.undo();
    }
  }

  void march(double dt) {
    const bool adaptive = options.method == Method::adaptive;
    if (!modes_known || modes.size() != dry_terms()) {
      decide_modes();
      modes_known = true;
    }
    if (symplectic(options.method) && (dry_terms() > 0 || !held.empty() || !let_go.empty()))
      return refuse(Status::invalid, "rattle has no stick, slip and release; take rk4, adaptive or semi_implicit");
    report.substeps = 0;
    fresh = false;
    if (adaptive && !(try_h > 0)) try_h = first_guess(dt);
    long parts = 0;
    for (double done = 0; done < dt;) {
      double left = dt - done;
      ledger.keep();
      if (adaptive && ++parts > most_parts) {
        std::string why = "the step needs more than " + std::to_string(most_parts) + " parts, the last of " +
                          text(try_h) + " s: a force jumps, or is stiff";
        for (const std::string& warning : dynamics.warnings()) why += "; " + warning;
        return refuse(report.status, why);
      }
      if (adaptive) {
        if (1.001 * try_h < left) left = 2 * try_h < left ? try_h : 0.5 * left;  // no splinter at the end
        if (!advance_within_tolerance(left, dt - done)) return;
      } else {
        // Smooth laws are explicit in the stages, and drive what they should damp where rate · h is far beyond 1.
        const bool explicit_laws = options.method == Method::rk4;
        const double finest = dt / std::max(1, options.max_substeps);
        if (explicit_laws && dynamics.law_report().rate * left > stable)
          left = std::min(left, std::max(finest, 0.7 * stable / dynamics.law_report().rate));
        if (!advance_by(left)) return;
        while (explicit_laws && law_rate * left > stable && left > finest * (1 + 1e-9)) {
          left = std::max(finest, 0.5 * left);
          ledger.undo();
          if (!advance_by(left)) return;
        }
        while (explicit_laws && freeze_slow_slips(left)) {
          ledger.undo();
          if (!advance_by(left)) return;
        }
        if (explicit_laws && law_rate * left > stable && !dry_is_fastest && report.warning.empty()) {
          const int i = dynamics.law_report().stiffest;
          report.warning = (i < 0 ? std::string("a smooth law") : name_of(dynamics.law_efforts()[z(i)])) +
                           " damps faster than the step, even as short as dt/" + std::to_string(options.max_substeps) +
                           ", can follow: energy may grow. Method::semi_implicit has no such limit";
        }
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
      const double at = locate(left, e);
      if (report.rejected) return;
      done += at;
      take(at);
      if (report.mode_switches >= options.max_switches)
        return refuse(report.status, "modes of friction change more than max_switches times in one step");
      if (!switch_modes() || !release_and_engage(state.t)) return;
      fresh = false;
    }
  }

  /// Where the event lies that a step of `left` has passed, its value being `e` there: dense output says where to look,
  /// and steps of the method find it. @return the length of the step, taken last, that ends just past it.
  double locate(double left, double e) {
    const double sharp = std::max(options.event_tolerance, 4e-16 * (std::fabs(state.t) + left));
    double a = 0, b = left, at_a = 0, at_b = e, last = left;
    const auto narrow = [&](auto value) {
      for (int k = 0; at_a > 0 && b - a > sharp && k < 200; ++k) {  // Illinois, kept honest by halving
        double h = k % 3 == 2 ? 0.5 * (a + b) : (at_a * b - at_b * a) / (at_a - at_b);
        if (!(h > a && h < b)) h = 0.5 * (a + b);
        h = std::clamp(h, a + 0.25 * std::min(sharp, b - a), b - 0.25 * std::min(sharp, b - a));
        e = value(h);
        if (report.rejected || std::isnan(e)) return;
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
    };
    const auto on_polynomial = [&](double h) {
      look_inside(state, trial, h / left, next);
      return dynamics.evaluate(next) == Status::invalid ? std::numeric_limits<double>::quiet_NaN() : event_value(next);
    };
    const auto by_a_step = [&](double h) {
      ledger.undo();
      last = h;
      return advance_by(h) ? event_value(next) : std::numeric_limits<double>::quiet_NaN();
    };

    for (int k = 0; at_a <= 0 && k < 6; ++k) {
      e = on_polynomial(0.5 * b);
      if (std::isnan(e)) break;
      e < 0 ? (b *= 0.5, at_b = e) : (a = 0.5 * b, at_a = std::max(e, 1e-300));
    }
    double width = 0;
    if (at_a > 0 && !std::isnan(e)) {
      const double slope = (at_a - at_b) / (b - a);
      narrow(on_polynomial);
      const double there = b;
      a = 0, b = left, at_a = 0, at_b = -1;
      e = by_a_step(there);
      if (report.rejected) return left;
      width = std::max(sharp, 2 * std::fabs(e) / slope);
      if (e < 0)
        b = there, at_b = e;
      else
        a = there, at_a = std::max(e, 1e-300);
      // The polynomial is off by its own error; a few widths of that bracket the event.
      for (int k = 0; k < 8 && (at_a <= 0 || b == left); ++k, width *= 8) {
        const double h = at_a <= 0 ? b - width : a + width;
        if (!(h > 0.01 * b && h < left)) break;
        e = by_a_step(h);
        if (report.rejected) return left;
        if (e < 0)
          b = h, at_b = e;
        else
          a = h, at_a = std::max(e, 1e-300);
      }
    } else {
      a = 0, b = left, at_a = 0, at_b = -1;
    }
    // Between `a`, where nothing has happened, and `b`, where something has.
    for (int k = 0; at_a <= 0 && k < 40 && b > sharp; ++k) {
      const double h = 0.5 * b;
      e = by_a_step(h);
      if (report.rejected) return left;
      e < 0 ? (b = h, at_b = e) : (a = h, at_a = std::max(e, 1e-300));
    }
    narrow(by_a_step);
    if (report.rejected) return left;
    if (last != b) by_a_step(b);
    return b;
  }

  std::string name_of(const LawEffort& e) const {
    const ConstraintId on = block().constraints[z(e.constraint)];
    return "law '" + laws(*system, on)[z(e.law)].terms()[z(e.term)].name + "' on " + system->name(on);
  }

  /// The part of a step that has just been found good.
  void take(double h) {
    ++report.substeps;
    std::swap(state, next);
    // What the pair found last is what it needs first, where nothing else is to be settled there.
    fresh = options.method == Method::adaptive && !eventful() && dynamics.law_efforts().empty();
    keep_segment();
    dynamics.accept(h);
    for (std::size_t i = 0; i < modes.size() && i < dynamics.contacts().size(); ++i) {
      const Contact& c = dynamics.contacts()[i];
      if (!modes[i].sticks && !frozen[i] && c.rubbing.dot(modes[i].sense) > 0) modes[i].sense = c.rubbing;
    }
    frozen.assign(modes.size(), 0);
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
    crossings.clear();
    segment_count = 0;
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
      options.method == Method::semi_implicit ? semi_implicit(dt) : march(dt);
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
      crossings.clear();
      segment_count = 0;
      std::fill(values.begin(), values.end(), std::numeric_limits<double>::quiet_NaN());
      report.mode_switches = 0;
      last_h = h_before;
      ledger.begin();
      return report;
    }
    state.t = before.t + dt;
    if (options.method != Method::semi_implicit) report.sticking = dynamics.law_report().sticking;
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
int Stepper::watch(std::function<double(const State&)> function) {
  impl_->functions.push_back(std::move(function));
  impl_->values.push_back(std::numeric_limits<double>::quiet_NaN());
  return static_cast<int>(impl_->functions.size()) - 1;
}
std::span<const Crossing> Stepper::crossings() const { return impl_->crossings; }
State Stepper::state_at(double t) const {
  Impl& d = *impl_;
  State out = d.state;
  for (std::size_t i = 0; i < d.segment_count; ++i) {
    const Impl::Segment& segment = d.segments[i];
    const double theta = (t - segment.base.t) / segment.h;
    if (theta < 0 || (theta >= 1 && i + 1 < d.segment_count) || theta >= 1 + 1e-9) continue;
    if (theta < 1) d.look_inside(segment.base, segment, theta, out);
    break;
  }
  return out;
}
const Dynamics& Stepper::dynamics() const { return impl_->dynamics; }
double Stepper::constraint_work() const { return impl_->ledger.work(); }
double Stepper::energy_minus_work() const {
  return energy_integral(*impl_->system, impl_->state) - impl_->ledger.work();
}

}  // namespace linchpin
