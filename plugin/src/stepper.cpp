// The motion without a host. Hides both methods, redoing a step in halves, and when things are made again because the
// system changed.
#include "ledger.h"

#include <linchpin/constraint.h>
#include <linchpin/stepper.h>

#include <array>
#include <bit>
#include <exception>
#include <stdexcept>

namespace linchpin {

namespace {

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
    const std::size_t n = z(block().n()), m = z(block().m());
    for (auto* x : {&v0, &v1, &force, &gyroscopic}) x->assign(n, 0.0);
    for (auto* x : {&beyond, &beyond_rate, &error, &all}) x->assign(m, 0.0);
    for (auto* four : {&vdot, &pose_rate})
      for (auto& x : *four) x.assign(n, 0.0);
    return {};
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
      for (int round = 0; round == 0 || (round < 4 && centre_gyroscopic(h)); ++round) {
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
    ledger.record_applied(block(), gyroscopic);
    ledger.record_momentum(block(), dynamics.assembly().instant.mass, v0, v1);
    std::swap(state, next);
    last_h = h;
    return Outcome::done;
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

  void rk4(double dt) {
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
      if (status == Status::invalid) return refuse(Status::invalid, dynamics.reason());
      report.status = std::max(report.status, status);
      const std::vector<double>& v = dynamics.assembly().v;
      if (k == 0) v0 = v;
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
    report.swing = dt * swing_of(stage, dt);

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
        return refuse(report.status, "the state is not finite");
    }
    if (options.drift == Drift::exact) {
      const double gap = close_gaps(*system, dynamics, next, options.newton_tolerance, options.max_newton);
      if (!(gap <= std::max(options.newton_tolerance, 1e-6))) {
        // Either the step went too far, or the rows contradict each other and this is their least squares: then a
        // further correction moves nothing.
        if (!std::isfinite(gap) || dynamics.evaluate(next) == Status::invalid) return refuse(Status::ok, astray);
        dynamics.solver().apply(dynamics.assembly().position, {}, {}, force);
        if (!(largest(force) <= 1e-6 * gap)) return refuse(report.status, astray);
        report.status = Status::inconsistent;
      }
      project_velocities(*system, dynamics, next);
    }
    for (std::size_t s = 0; s < b.bodies.size(); ++s) {
      const BodyState& body = next[b.bodies[s]];
      if (!body.p.allFinite() || !body.v.allFinite() || !body.w.allFinite())
        return refuse(report.status, "the state is not finite");
      for (int j = b.column[s]; j < b.column[s + 1]; ++j)
        v1[z(j)] = j < b.column[s] + 3 ? body.v[j - b.column[s]] : body.w[j - b.column[s] - 3];
    }
    ledger.record_momentum(b, mass, v0, v1);
    std::swap(state, next);
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
    report.reason.clear();
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
      options.method == Method::rk4 ? rk4(dt) : semi_implicit(dt);
    } catch (const std::exception& e) {
      refuse(Status::invalid, e.what());
    } catch (...) {
      refuse(Status::invalid, "something that is not a std::exception was thrown");
    }
    if (report.rejected) {
      state = before;  // not a trace of what was tried
      last_h = h_before;
      ledger.begin();
      return report;
    }
    state.t = before.t + dt;
    last_dt = dt;
    ledger.close();
    accept();
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
double Stepper::constraint_work() const { return impl_->ledger.work(); }
double Stepper::energy_minus_work() const { return energy(*impl_->system, impl_->state) - impl_->ledger.work(); }

}  // namespace linchpin
