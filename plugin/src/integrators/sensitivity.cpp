// Sensitivities of a trajectory (T19): the linearised equations of motion along the states of a Stepper, and the jump
// of the sensitivities at events.
#include "dynamics/state_directions.h"
#include "integrators/parametric_family.h"
#include "integrators/sensitivity_data.h"
#include "math/vector_ops.h"
#include "model/format.h"

#include <linchpin/constraint.h>
#include <linchpin/derivatives.h>
#include <linchpin/laws.h>
#include <linchpin/projection.h>
#include <linchpin/sensitivity.h>

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace linchpin {

namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double before_event = 1e-12;  // Time before an event at which the mode before it is evaluated [s].

VectorXd vector(std::span<const double> x) {
  return Eigen::Map<const VectorXd>(x.data(), static_cast<Eigen::Index>(x.size()));
}

void write_row_major(const MatrixXd& x, std::vector<double>& out) {
  out.resize(static_cast<std::size_t>(x.size()));
  Eigen::Map<Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(out.data(), x.rows(), x.cols()) =
      x;
}

}  // namespace

struct LINCHPIN_PRIVATE SensitivityStepper::Impl {
  Impl(const ParametricSystem& given, SensitivityOptions options)
      : options_(std::move(options)),
        family_(given, options_.stepper.solve),
        stepped_(given.make(given.values)),
        stepper_(stepped_, stepped_.initial_state(), checked(options_.stepper)),
        layout_(whole_system(stepped_)) {
    derivatives_.emplace(nominal().system, with_enabled_constraints(given), options_.stepper.solve);
    follow_enabled();
    if (nominal().dynamics.evaluate(stepper_.state()) == Status::invalid)
      throw std::invalid_argument("the equation cannot be evaluated at the start: " + nominal().dynamics.reason());
    if (!nominal().dynamics.internal_state().empty())
      throw std::invalid_argument(
          "a law has an internal state, whose sensitivities are not computed. Use a law without one");
    read_modes();
    differentiate_start();
    evaluate_all(stepper_.state());
    publish();
  }

  /// Systems of the family with the constraints enabled that are so in the present one.
  ParametricSystem with_enabled_constraints(const ParametricSystem& given) {
    ParametricSystem out = given;
    out.make = [make = given.make, &system = family_.nominal().system](std::span<const double> values) {
      System made = make(values);
      for (int i = 0; i < system.constraint_count(); ++i) {
        const ConstraintId id = system.constraint_at(i);
        if (!system.removed(id)) made.enable(id, system.enabled(id));
      }
      return made;
    };
    return out;
  }

  static const StepOptions& checked(const StepOptions& options) {
    if (!locates_events(options.method))
      throw std::invalid_argument(
          "sensitivities need a method that locates events (rk4, adaptive or adaptive8), but "
          "the method is " +
          std::string(to_string(options.method)));
    return options;
  }

  // ---- steps ----

  const StepReport& step(double dt) {
    const State before = stepper_.state();
    const StepReport& report = stepper_.step(dt);
    switches_.clear();
    crossings_.clear();
    if (report.rejected) return report;
    parts_per_second_ = std::max(1, report.substeps) / std::max(dt, 1e-300);
    Columns all = begin_columns();
    State begin = before;
    const std::span<const ModeSwitch> events = stepper_.switches();
    const std::span<const Crossing> crossed = stepper_.crossings();
    std::size_t next = 0;
    const auto pass_crossings = [&](double until) {
      for (; next < crossed.size() && crossed[next].t <= until; ++next)
        begin = pass_crossing(crossed[next], crossed[next].state, begin, all);
    };
    for (std::size_t first = 0; first < events.size();) {
      std::size_t last = first + 1;
      while (last < events.size() && events[last].t - events[first].t <= before_event) ++last;
      const double end = events[first].t - before_event;
      pass_crossings(end);
      if (end > begin.t) {
        const State at = stepper_.state_at(end);
        propagate(begin, at, all);
        begin = at;
      }
      // A crossing at the event itself is one of the motion before it.
      for (; next < crossed.size() && crossed[next].t <= events[first].t + before_event; ++next)
        begin = pass_crossing(crossed[next], begin, begin, all);
      begin = is_passed(events[first]) ? begin : pass_event(events.subspan(first, last - first), begin, all);
      first = last;
    }
    pass_crossings(stepper_.state().t);
    if (stepper_.state().t > begin.t) propagate(begin, stepper_.state(), all);
    end_columns(all);
    follow_enabled();
    compare_modes();
    publish();
    return report;
  }

  /// The sensitivities, and beside them the unit columns of the Jacobian where it is kept.
  Columns begin_columns() const {
    if (!options_.keep_jacobians) return sensitivity_;
    Columns out(n(), p() + 2 * n());
    out.displacement.leftCols(p()) = sensitivity_.displacement;
    out.velocity.leftCols(p()) = sensitivity_.velocity;
    out.displacement.middleCols(p(), n()).setIdentity();
    out.velocity.rightCols(n()).setIdentity();
    return out;
  }
  void end_columns(const Columns& all) {
    if (options_.keep_jacobians) {
      StepJacobian kept;
      kept.jacobian.resize(2 * n(), 2 * n());
      kept.jacobian << all.displacement.rightCols(2 * n()), all.velocity.rightCols(2 * n());
      MatrixXd end(2 * n(), p()), begin(2 * n(), p());
      end << all.displacement.leftCols(p()), all.velocity.leftCols(p());
      begin << sensitivity_.displacement, sensitivity_.velocity;
      kept.by_parameters = end - kept.jacobian * begin;
      jacobians_.push_back(std::move(kept));
    }
    sensitivity_.displacement = all.displacement.leftCols(p());
    sensitivity_.velocity = all.velocity.leftCols(p());
  }

  /// Integrates the columns from one state to a later one, without an event between.
  void propagate(const State& from, const State& to, Columns& all) {
    // The local error of the method is (rate · step)⁵/120. Steps by tolerance are longer than their own method needs.
    const double most = options_.stepper.method == Method::rk4
                            ? 0.5
                            : std::min(0.5, std::pow(120 * options_.stepper.relative_tolerance, 0.2));
    constexpr double growth = 2, safety = 0.8, shortest = 1e-8;  // Shortest part with a Runge–Kutta step [s].
    double planned = 1 / parts_per_second_;
    State at = from;
    while (to.t > at.t) {
      const double left = to.t - at.t, part = std::min({left, planned, longest_part(at)});
      const bool is_last = left - part < 1e-3 * part;
      const State end = is_last ? to : stepper_.state_at(at.t + part);
      Columns result = all;
      if (end.t - at.t <= shortest) {
        result = all.plus(end.t - at.t, rates(at, all));
      } else if (const double rate =
                     runge_kutta(at, stepper_.state_at(0.5 * (at.t + end.t)), end, result) / (end.t - at.t);
                 rate * (end.t - at.t) > most && part > 1e3 * shortest) {
        planned = safety * std::max(0.1 * part, most / rate);
        continue;
      }
      all = std::move(result);
      at = end;
      planned = std::min(growth * std::max(part, planned), 1 / parts_per_second_);
    }
  }
  /// Plans a part: the time in which no direction of slip turns much. Friction in a plane turns a slow slip fast. A
  /// very slow one has its final direction, and differences of forces would reach across the point of rest. So it goes
  /// straight.
  double longest_part(const State& at) {
    double out = std::numeric_limits<double>::infinity();
    if (std::ranges::all_of(modes_, [](const ElementMode& mode) { return mode.sticks; })) return out;
    constexpr double fraction = 0.2, least = 1e-9;  // In s.
    constexpr double slow = 1e-5;                   // Relative to the characteristic velocity.
    solve(nominal(), at);
    directions_.measure(at, StateDirections::Size::of_constraints);
    const double slowest = slow * directions_.length() * directions_.characteristic_rate();
    bool changed = false;
    for (const FrictionElement& e : nominal().dynamics.friction_elements()) {
      ElementMode* const mode = mode_of(constraint_of(nominal().dynamics, e), e.law, e.term);
      if (mode == nullptr || e.sticks || e.dim < 2) continue;
      const double speed = e.slip_velocity.norm(), change = e.slip_acceleration.norm();
      changed = changed || mode->straight != (speed < slowest);
      mode->straight = speed < slowest;
      if (speed > 1e-9) mode->sense = e.slip_velocity;
      if (change > 0)
        out = std::min(out, std::max({least, fraction * speed / change, mode->straight ? slowest / change : 0}));
    }
    if (changed) apply_modes();
    return out;
  }

  /// One step of the classical method. @return the rate of the equations times the step
  double runge_kutta(const State& from, const State& middle, const State& to, Columns& all) {
    const double h = to.t - from.t;
    const Columns k1 = rates(from, all, &all);
    const Columns k2 = rates(middle, all.plus(0.5 * h, k1));
    const Columns k3 = rates(middle, all.plus(0.5 * h, k2));
    const Columns k4 = rates(to, all.plus(h, k3));
    all = all.plus(h / 6, k1).plus(h / 3, k2).plus(h / 3, k3).plus(h / 6, k4);
    constexpr double rounding = 1e-10;  // Relative to the columns. Smaller changes say nothing about the rate.
    const double change = (k2.velocity - k1.velocity).norm(), size = all.velocity.norm() + all.displacement.norm();
    return h * change > rounding * size ? 2 * (k3.velocity - k2.velocity).norm() / change : 0;
  }

  /// Rates of the columns at a state (T19), with derivatives of v̇ (T18).
  /// @param projected  receives the columns on the linearised constraints, if given
  Columns rates(const State& at, const Columns& columns, Columns* projected = nullptr) {
    Columns out(n(), columns.count());
    try {
      derivatives_->evaluate(at);
      if (projected != nullptr) project(at, *projected);
      const Columns& used = projected != nullptr ? *projected : columns;
      out.displacement = used.velocity;
      turn_displacements(at, used, out);
      std::vector<double> parameters(z(p()));
      for (Eigen::Index j = 0; j < used.count(); ++j) {
        const TangentVector along = tangent(used, j);
        std::fill(parameters.begin(), parameters.end(), 0.0);
        const bool by_family = along.parameter >= 0 && family_.is_one_sided(along.parameter);
        if (along.parameter >= 0 && !by_family) parameters[z(along.parameter)] = 1;
        const InputChange change{
            .displacement = numbers(along.displacement), .velocity = numbers(along.velocity), .parameters = parameters};
        out.velocity.col(j) = vector(derivatives_->forward(change).vdot);
        if (by_family) out.velocity.col(j) += by_parameter(at, along.parameter);
      }
    } catch (const std::invalid_argument& e) {
      throw std::invalid_argument("the motion has no derivative at t = " + text(at.t) + " s: " + e.what());
    }
    return out;
  }
  /// ∂v̇/∂p of a parameter at the end of its range, by one-sided differences of solutions.
  VectorXd by_parameter(const State& at, int parameter) {
    directions_.measure(at, StateDirections::Size::of_constraints);
    return family_.derivative(directions_, at, {VectorXd::Zero(n()), VectorXd::Zero(n()), 0, parameter},
                              [&](SystemVariant& of, const State& state, VectorXd& vdot) {
                                solve(of, state);
                                vdot = vector(of.dynamics.vdot());
                              });
  }
  /// The rotation of a body turns its displacement: dδθ/dt = δω + ω × δθ.
  void turn_displacements(const State& at, const Columns& columns, Columns& rate) const {
    for (std::size_t s = 0; s < layout_.bodies.size(); ++s) {
      if (stepped_.kind(layout_.bodies[s]) != BodyKind::rigid) continue;
      const int row = layout_.column[s] + 3;
      for (Eigen::Index j = 0; j < columns.count(); ++j)
        rate.displacement.col(j).segment<3>(row) +=
            at[layout_.bodies[s]].w.cross(Vector3d(columns.displacement.col(j).segment<3>(row)));
    }
  }

  void solve(SystemVariant& of, const State& state) {
    if (of.dynamics.evaluate(state) == Status::invalid)
      throw std::invalid_argument("the equation cannot be differentiated at t = " + text(state.t) +
                                  " s, because it cannot be evaluated next to the trajectory: " + of.dynamics.reason());
  }

  /// Projects columns onto the linearised constraints, in the mass metric, with the factor of the derivatives.
  void project(const State& at, Columns& columns) {
    const ConstraintFactorization& factor = derivatives_->dynamics().solver();
    const int m = derivatives_->dynamics().assembly().problem.m();
    if (m == 0) return;
    directions_.measure(at, StateDirections::Size::of_constraints);
    const std::vector<char> on_position = position_rows();
    std::vector<double> e(z(m)), dv(z(static_cast<int>(n())));
    for (Eigen::Index j = 0; j < columns.count(); ++j) {
      const VectorXd off = family_.derivative(directions_, at, tangent(columns, j),
                                              [&](SystemVariant& of, const State& state, VectorXd& residuals) {
                                                of.assembly.layout = derivatives_->dynamics().assembly().layout;
                                                assemble_constraints(of.system, state, of.assembly);
                                                residuals.resize(2 * m);
                                                residuals << vector(of.assembly.position), vector(of.assembly.velocity);
                                              });
      for (int r = 0; r < m; ++r) e[z(r)] = on_position[z(r)] ? off[r] : 0;
      factor.solve_unrefined(e, {}, {}, dv);
      columns.displacement.col(j) -= vector(dv);
      for (int r = 0; r < m; ++r) e[z(r)] = off[m + r];
      factor.solve_unrefined(e, {}, {}, dv);
      columns.velocity.col(j) -= vector(dv);
    }
  }
  std::vector<char> position_rows() {
    const IslandLayout& block = derivatives_->dynamics().assembly().layout;
    std::vector<char> out;
    for (std::size_t i = 0; i < block.constraints.size(); ++i)
      out.insert(out.end(), z(block.row[i + 1] - block.row[i]),
                 nominal().system.constraint(block.constraints[i]).function().level() == Level::position);
    return out;
  }

  // ---- the start ----

  /// Differentiates the assembled start.
  void differentiate_start() {
    sensitivity_ = Columns(n(), p());
    const State& at = stepper_.state();
    for (int j = 0; j < p(); ++j) {
      const TangentVector along{VectorXd::Zero(n()), VectorXd::Zero(n()), 0, j};
      const VectorXd slope =
          family_.derivative(directions_, at, along, [&](SystemVariant& of, const State&, VectorXd& value) {
            const Stepper start(of.system, of.system.initial_state(), options_.stepper);
            difference(at, start.state(), value);
          });
      sensitivity_.displacement.col(j) = slope.head(n());
      sensitivity_.velocity.col(j) = slope.tail(n());
    }
    start_ = sensitivity_;
    follow_enabled();
  }

  // ---- modes and events ----

  void read_modes() {
    modes_.clear();
    for (const FrictionElement& e : stepper_.dynamics().friction_elements()) {
      Vector6 sense = e.slip_velocity;
      if (sense.norm() <= 1e-9) sense = e.slip_acceleration;
      modes_.push_back({constraint_of(stepper_.dynamics(), e), e.law, e.term, e.sticks, sense});
    }
  }
  static ConstraintId constraint_of(const Dynamics& dynamics, const FrictionElement& e) {
    return dynamics.assembly().layout.constraints[z(e.constraint)];
  }
  static int element_of(const Dynamics& dynamics, const ConstraintId on, int law, int term) {
    const auto elements = dynamics.friction_elements();
    for (std::size_t i = 0; i < elements.size(); ++i)
      if (constraint_of(dynamics, elements[i]) == on && elements[i].law == law && elements[i].term == term)
        return static_cast<int>(i);
    return -1;
  }
  ElementMode* mode_of(ConstraintId on, int law, int term) {
    const auto at = std::find_if(modes_.begin(), modes_.end(), [&](const ElementMode& mode) {
      return mode.on == on && mode.law == law && mode.term == term;
    });
    return at == modes_.end() ? nullptr : &*at;
  }

  /// Sets the modes in all equations. The nominal one has been evaluated with the present constraints.
  void apply_modes() {
    if (modes_.empty()) return;
    derivatives_->reset_friction_modes();
    const auto set = [&](auto& equation, const Dynamics& listed) {
      for (const ElementMode& mode : modes_) {
        const int element = element_of(listed, mode.on, mode.law, mode.term);
        if (element >= 0)
          equation.set_friction_mode(element, mode.sticks ? FrictionMode::sticks : FrictionMode::slips,
                                     Vector6((mode.straight ? 1e30 : 1e-12) * mode.sense.stableNormalized()));
      }
    };
    family_.each([&](SystemVariant& of) { set(of.dynamics, of.dynamics); });
    set(*derivatives_, nominal().dynamics);
  }

  /// Enables the constraints in all variants that the stepper has enabled.
  void follow_enabled() {
    for (int i = 0; i < stepped_.constraint_count(); ++i) {
      const ConstraintId id = stepped_.constraint_at(i);
      if (stepped_.removed(id)) continue;
      // The stepper releases a contact that has been opened already in its next step.
      if (stepped_.enabled(id) && std::ranges::find(opened_, id) != opened_.end()) continue;
      std::erase(opened_, id);
      if (nominal().system.enabled(id) == stepped_.enabled(id)) continue;
      enable_in_all(id, stepped_.enabled(id));
      evaluate_all(stepper_.state());
    }
  }
  /// Evaluates all variants, which lists their friction elements, and sets the modes.
  void evaluate_all(const State& at) {
    family_.each([&](SystemVariant& of) {
      State own = at;
      of.system.update_kinematic(own);
      solve(of, own);
    });
    apply_modes();
  }

  /// Takes over the modes of the stepper where they differ: another element at its limit has changed with an event.
  void compare_modes() {
    bool changed = false;
    for (const FrictionElement& e : stepper_.dynamics().friction_elements()) {
      const ConstraintId on = constraint_of(stepper_.dynamics(), e);
      ElementMode* const mode = mode_of(on, e.law, e.term);
      if (mode == nullptr) {
        read_modes();
        changed = true;
        break;
      }
      if (mode->sticks != e.sticks) mode->sense = e.slip_velocity.norm() > 1e-9 ? e.slip_velocity : e.slip_acceleration;
      changed = changed || mode->sticks != e.sticks;
      mode->sticks = e.sticks;
      if (!e.sticks && e.slip_velocity.norm() > 1e-9) mode->sense = e.slip_velocity;
    }
    if (changed)
      evaluate_all(stepper_.state());
    else
      apply_modes();  // The direction of a slip turns with the bodies.
  }

  /// The function whose zero is the event, in the mode before it.
  double event_value(SystemVariant& of, const ModeSwitch& event, const State& at) {
    if (event.what == ModeSwitch::What::engages) {
      std::vector<BodyState> bodies;
      for (const BodyId id : of.system.constraint(event.on).bodies()) bodies.push_back(at[id]);
      double gap = 0;
      of.system.constraint(event.on).function().residual(bodies, at.t, {&gap, 1});
      return gap;
    }
    solve(of, at);
    if (event.what == ModeSwitch::What::releases) {
      const IslandLayout& block = of.dynamics.assembly().layout;
      for (std::size_t i = 0; i < block.constraints.size(); ++i)
        if (block.constraints[i] == event.on)
          return of.dynamics.lambda()[z(block.row[i])] + of.dynamics.induced()[z(block.row[i])];
      return 0;
    }
    const int element = element_of(of.dynamics, event.on, event.law, event.term);
    if (element < 0) return 0;
    const FrictionElement& e = of.dynamics.friction_elements()[z(element)];
    if (event.what == ModeSwitch::What::slides) return e.bound - e.friction;
    const ElementMode* const mode = mode_of(event.on, event.law, event.term);
    return mode == nullptr ? 0 : e.slip_velocity.dot(mode->sense.stableNormalized());
  }

  /// Applies the jump of the columns at events of one time. The first one determines the time. The others follow from
  /// it: an impact after which a contact opens again, or friction that sticks after it.
  /// @param at  the state just before them
  /// @return the state just after them
  State pass_event(std::span<const ModeSwitch> events, const State& at, Columns& all) {
    const TangentVector before = motion(at);
    const VectorXd times = event_times(events.front(), at, before, all);
    const EventSensitivity here = event_sensitivity(events.front().t, at, before, times, all);
    record(events, here);
    const bool impact = begin_events(events, at);
    State end = at;
    bring_to_rest(nominal(), end, impact);
    if (add_modes(end)) {
      end = at;
      bring_to_rest(nominal(), end, impact);
    }
    if (impact || comes_to_rest(events)) {
      jump_to_rest(at, end, before, times, impact, all);
    } else {
      all.displacement += before.displacement * times.transpose();
      all.velocity += before.velocity * times.transpose();
    }
    end_events(events, end);
    if (impact) {
      open_pulling(events, end);
      last_impact_ = here;
    }
    const TangentVector after = motion(end);
    all.displacement -= after.displacement * times.transpose();
    all.velocity -= after.velocity * times.transpose();
    end.t = events.front().t;
    return end;
  }

  /// Opens contacts again that would pull after the impact that has closed them. The stepper releases them at the same
  /// time, perhaps in the next step.
  void open_pulling(std::span<const ModeSwitch> events, const State& at) {
    solve(nominal(), at);
    const IslandLayout& block = nominal().dynamics.assembly().layout;
    std::vector<ConstraintId> pulling;
    for (const ModeSwitch& event : events) {
      if (event.what != ModeSwitch::What::engages) continue;
      for (std::size_t i = 0; i < block.constraints.size(); ++i) {
        if (block.constraints[i] != event.on) continue;
        const std::size_t row = z(block.row[i]);
        const double force = nominal().dynamics.lambda()[row] + nominal().dynamics.induced()[row];
        if (unilateral(stepped_, event.on).negative ? force > 0 : force < 0) pulling.push_back(event.on);
      }
    }
    for (const ConstraintId id : pulling) enable_in_all(id, false);
    opened_ = pulling;
    if (!pulling.empty()) evaluate_all(at);
  }
  /// Records a release of a contact that open_pulling() has opened. @return whether it is one
  bool is_passed(const ModeSwitch& event) {
    if (event.what != ModeSwitch::What::releases || nominal().system.enabled(event.on)) return false;
    if (!last_impact_) return false;
    record({&event, 1}, *last_impact_);
    return true;
  }

  /// Derivatives of the time of an event along the columns.
  VectorXd event_times(const ModeSwitch& event, const State& at, const TangentVector& motion_before,
                       const Columns& all) {
    const auto value = [&](SystemVariant& of, const State& state, VectorXd& out) {
      out.resize(1);
      out[0] = event_value(of, event, state);
    };
    const ZeroTimes found = times_of_zero(at, motion_before, all, all.count(), value);
    constexpr double touch = 1e-6;  // Relative to the characteristic velocity.
    const bool touches = event.what == ModeSwitch::What::engages &&
                         std::fabs(found.rate) < touch * directions_.length() * directions_.characteristic_rate();
    if (touches || !found.times.allFinite())
      throw std::invalid_argument("the motion has no derivative: at t = " + text(event.t) + " s, \"" +
                                  stepped_.name(event.on) + "\" touches an event without crossing it");
    return found.times;
  }

  /// Derivatives of the time of a zero along the first columns: −(change of the value)/(its rate along the motion).
  struct ZeroTimes {
    VectorXd times;
    double rate = 0;
  };
  template <class Value>
  ZeroTimes times_of_zero(const State& at, const TangentVector& motion_there, const Columns& all, Eigen::Index count,
                          Value value) {
    directions_.measure(at, StateDirections::Size::of_constraints);
    ZeroTimes out{VectorXd(count), family_.derivative(directions_, at, motion_there, value)[0]};
    for (Eigen::Index j = 0; j < count; ++j)
      out.times[j] = -family_.derivative(directions_, at, tangent(all, j), value)[0] / out.rate;
    return out;
  }

  static bool comes_to_rest(std::span<const ModeSwitch> events) {
    return std::ranges::any_of(events, [](const ModeSwitch& event) {
      return event.what == ModeSwitch::What::sticks || event.what == ModeSwitch::What::turns;
    });
  }

  void record(std::span<const ModeSwitch> events, const EventSensitivity& at) {
    for (const ModeSwitch& each : events) {
      SwitchSensitivity out;
      static_cast<EventSensitivity&>(out) = at;
      out.t = each.t;
      out.event = each;
      switches_.push_back(std::move(out));
    }
  }
  EventSensitivity event_sensitivity(double t, const State& at, const TangentVector& motion_there,
                                     const VectorXd& times, const Columns& all) const {
    const VectorXd own = times.head(p());
    EventSensitivity out{t, {own.begin(), own.end()}, at, {}, {}};
    write_row_major(all.displacement.leftCols(p()) + motion_there.displacement * own.transpose(), out.displacement);
    write_row_major(all.velocity.leftCols(p()) + motion_there.velocity * own.transpose(), out.velocity);
    return out;
  }

  // ---- zero crossings ----

  int watch(OutputFunction function) {
    if (!function) throw std::invalid_argument("watch() needs a function");
    watched_.push_back(std::move(function));
    const std::size_t number = watched_.size() - 1;
    return stepper_.watch([this, number](const State& state) {
      double value = 0;
      watched_[number]({stepped_, state, nominal().values, {}}, {&value, 1});
      return value;
    });
  }

  /// Propagates the columns to the state of a zero crossing, and finds its derivatives. @return that state
  State pass_crossing(const Crossing& crossing, const State& at, const State& begin, Columns& all) {
    if (at.t > begin.t) propagate(begin, at, all);
    const OutputFunction& function = watched_[z(crossing.function)];
    const auto value = [&](SystemVariant& of, const State& state, VectorXd& out) {
      out.resize(1);
      function({of.system, state, of.values, {}}, {out.data(), 1});
    };
    const TangentVector motion_there = motion(at);
    const VectorXd times = times_of_zero(at, motion_there, all, p(), value).times;
    if (!times.allFinite())
      throw std::invalid_argument("the motion has no derivative: at t = " + text(crossing.t) +
                                  " s, a watched function touches zero without crossing it");
    CrossingSensitivity out;
    static_cast<EventSensitivity&>(out) = event_sensitivity(crossing.t, at, motion_there, times, all);
    out.function = crossing.function;
    out.rising = crossing.rising;
    crossings_.push_back(std::move(out));
    return at;
  }

  /// The direction of the motion itself.
  TangentVector motion(const State& at) {
    solve(nominal(), at);
    return {vector(nominal().dynamics.assembly().v), vector(nominal().dynamics.vdot()), 1, -1};
  }

  /// Closes contacts and stops friction elements, as the events say. @return whether one of them is an impact
  bool begin_events(std::span<const ModeSwitch> events, const State& at) {
    bool impact = false;
    for (const ModeSwitch& event : events) {
      if (event.what == ModeSwitch::What::engages) {
        enable_in_all(event.on, true);
        impact = true;
      } else if (ElementMode* const mode = mode_of(event.on, event.law, event.term);
                 mode != nullptr && event.what != ModeSwitch::What::releases) {
        mode->sticks = true;
      }
    }
    evaluate_all(at);
    return impact;
  }
  /// Opens contacts, and lets elements slide against the friction that would hold them.
  void end_events(std::span<const ModeSwitch> events, const State& at) {
    solve(nominal(), at);
    for (const ModeSwitch& event : events) {
      if (event.what == ModeSwitch::What::releases) enable_in_all(event.on, false);
      if (event.what != ModeSwitch::What::slides && event.what != ModeSwitch::What::turns) continue;
      ElementMode* const mode = mode_of(event.on, event.law, event.term);
      const int element = element_of(nominal().dynamics, event.on, event.law, event.term);
      if (mode == nullptr || element < 0) continue;
      mode->sense = -nominal().dynamics.friction_elements()[z(element)].force;
      mode->sticks = false;
    }
    evaluate_all(at);
  }
  void enable_in_all(ConstraintId id, bool on) {
    family_.each([&](SystemVariant& of) {
      of.system.enable(id, on);
      of.dynamics.restructure();
    });
  }
  /// Adds the modes of elements whose contact has just closed. @return whether there are any
  bool add_modes(const State& at) {
    solve(nominal(), at);
    bool any = false;
    for (const FrictionElement& e : nominal().dynamics.friction_elements()) {
      const ConstraintId on = constraint_of(nominal().dynamics, e);
      if (mode_of(on, e.law, e.term) != nullptr) continue;
      modes_.push_back(
          {on, e.law, e.term, e.sticks, e.slip_velocity.norm() > 1e-9 ? e.slip_velocity : e.slip_acceleration});
      any = true;
    }
    if (any) evaluate_all(at);
    return any;
  }

  /// Brings poses and velocities onto the constraints at an impact, and takes the slip of sticking elements, as the
  /// stepper does.
  void bring_to_rest(SystemVariant& of, State& state, bool impact) {
    solve(of, state);
    if (impact) {
      project_positions(of.system, of.dynamics, state, options_.stepper.newton_tolerance, options_.stepper.max_newton);
      solve(of, state);
      project_velocities(of.system, of.dynamics, state);
      solve(of, state);
    }
    if (std::ranges::none_of(modes_, [](const ElementMode& mode) { return mode.sticks; })) return;
    std::vector<double> v = of.dynamics.assembly().v;
    if (!(of.dynamics.reapply_stick(state, v) > 0)) return;
    for (std::size_t s = 0; s < layout_.bodies.size(); ++s) {
      BodyState& body = state[layout_.bodies[s]];
      const int at = layout_.column[s], size = layout_.column[s + 1] - at;
      for (int i = 0; i < std::min(3, size); ++i) body.v[i] = v[z(at + i)];
      for (int i = 3; i < size; ++i) body.w[i - 3] = v[z(at + i)];
    }
  }

  /// The columns after bring_to_rest(), before the part of the time: its derivative along S + ẋ⁻ dt*/dp.
  void jump_to_rest(const State& at, const State& end, const TangentVector& motion_before, const VectorXd& times,
                    bool impact, Columns& all) {
    directions_.measure(at, StateDirections::Size::of_constraints);
    for (Eigen::Index j = 0; j < all.count(); ++j) {
      TangentVector along = tangent(all, j);
      along.displacement += motion_before.displacement * times[j];
      along.velocity += motion_before.velocity * times[j];
      along.time = times[j];
      const VectorXd slope =
          family_.derivative(directions_, at, along, [&](SystemVariant& of, const State& state, VectorXd& out) {
            State moved = state;
            bring_to_rest(of, moved, impact);
            difference(end, moved, out);
          });
      all.displacement.col(j) = slope.head(n());
      all.velocity.col(j) = slope.tail(n());
    }
  }

  // ---- results ----

  OutputSensitivity outputs(const State& at, const Columns& columns, std::span<const double> times, int count,
                            const OutputFunction& function, bool with_reactions) {
    if (!function || count < 0)
      throw std::invalid_argument("outputs need a function and a number of outputs from 0, but the number is " +
                                  std::to_string(count));
    directions_.measure(at, StateDirections::Size::of_constraints);
    std::vector<Reaction> reactions;
    const auto value = [&](SystemVariant& of, const State& state, VectorXd& out) {
      out = VectorXd::Zero(count);
      if (with_reactions) {
        solve(of, state);
        of.dynamics.reactions(state, reactions, false);
      }
      function({of.system, state, of.values, reactions}, {out.data(), z(count)});
    };
    OutputSensitivity out;
    VectorXd now;
    value(nominal(), at, now);
    out.value.assign(now.begin(), now.end());
    MatrixXd derivative(count, p());
    for (int j = 0; j < p(); ++j) {
      TangentVector along = tangent(columns, j);
      if (!times.empty()) along.time = times[z(j)];
      derivative.col(j) = family_.derivative(directions_, at, along, value);
    }
    write_row_major(derivative, out.derivative);
    return out;
  }
  OutputSensitivity outputs_at(const EventSensitivity& event, int count, const OutputFunction& function,
                               bool with_reactions) {
    if (event.t_derivatives.size() != z(p()) || event.displacement.size() != z(static_cast<int>(n()) * p()) ||
        event.velocity.size() != event.displacement.size())
      throw std::invalid_argument("the event has derivatives by another number of parameters");
    using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    Columns columns;
    columns.displacement = Eigen::Map<const RowMajor>(event.displacement.data(), n(), p());
    columns.velocity = Eigen::Map<const RowMajor>(event.velocity.data(), n(), p());
    return outputs(event.state, columns, event.t_derivatives, count, function, with_reactions);
  }

  std::vector<double> gradient(std::span<const StateWeights> weights) const {
    if (!options_.keep_jacobians)
      throw std::invalid_argument("gradient() needs SensitivityOptions::keep_jacobians from the start");
    MatrixXd by_step = MatrixXd::Zero(2 * n(), static_cast<Eigen::Index>(jacobians_.size()) + 1);
    for (const StateWeights& w : weights) {
      if (w.step < 0 || w.step > static_cast<long>(jacobians_.size()))
        throw std::invalid_argument("a weight is for step " + std::to_string(w.step) + ", but " +
                                    std::to_string(jacobians_.size()) + " steps have been taken");
      for (const std::vector<double>* part : {&w.displacement, &w.velocity})
        if (!part->empty() && part->size() != static_cast<std::size_t>(n()))
          throw std::invalid_argument("a weight has " + std::to_string(part->size()) + " numbers, but the system has " +
                                      std::to_string(n()) + " columns");
      if (!w.displacement.empty()) by_step.col(w.step).head(n()) += vector(w.displacement);
      if (!w.velocity.empty()) by_step.col(w.step).tail(n()) += vector(w.velocity);
    }
    VectorXd adjoint = by_step.rightCols(1), gradient = VectorXd::Zero(p());
    for (std::size_t k = jacobians_.size(); k-- > 0;) {
      gradient += jacobians_[k].by_parameters.transpose() * adjoint;
      adjoint = jacobians_[k].jacobian.transpose() * adjoint + by_step.col(static_cast<Eigen::Index>(k));
    }
    gradient += start_.displacement.transpose() * adjoint.head(n()) + start_.velocity.transpose() * adjoint.tail(n());
    return {gradient.begin(), gradient.end()};
  }

  void publish() {
    write_row_major(sensitivity_.displacement, displacement_);
    write_row_major(sensitivity_.velocity, velocity_);
  }

  /// Writes the displacement and the velocity change [2n] from one state to another.
  void difference(const State& from, const State& to, VectorXd& out) const {
    out.resize(2 * n());
    const std::size_t count = z(static_cast<int>(n()));
    directions_.difference(from, to, {out.data(), count}, {out.data() + count, count});
  }
  TangentVector tangent(const Columns& columns, Eigen::Index j) const {
    return {columns.displacement.col(j), columns.velocity.col(j), 0, j < p() ? static_cast<int>(j) : -1};
  }
  SystemVariant& nominal() { return family_.nominal(); }
  Eigen::Index n() const { return layout_.n(); }
  int p() const { return family_.parameters(); }

  SensitivityOptions options_;
  ParametricFamily family_;
  System stepped_;
  Stepper stepper_;
  IslandLayout layout_;
  StateDirections directions_{stepped_, layout_};
  std::optional<Derivatives> derivatives_;
  std::vector<ElementMode> modes_;
  Columns sensitivity_, start_;
  std::vector<double> displacement_, velocity_;  // The same, row-major.
  std::optional<EventSensitivity> last_impact_;
  std::vector<ConstraintId> opened_;  // Contacts that open_pulling() has opened, and the stepper not yet.
  std::vector<SwitchSensitivity> switches_;
  std::vector<CrossingSensitivity> crossings_;
  std::vector<OutputFunction> watched_;
  std::vector<StepJacobian> jacobians_;
  double parts_per_second_ = 0;  // Parts of the sensitivities by the substeps of the last step.
};

SensitivityStepper::SensitivityStepper(const ParametricSystem& family, SensitivityOptions options)
    : impl_(std::make_unique<Impl>(family, std::move(options))) {}
SensitivityStepper::~SensitivityStepper() = default;
SensitivityStepper::SensitivityStepper(SensitivityStepper&&) noexcept = default;

const StepReport& SensitivityStepper::step(double dt) { return impl_->step(dt); }
const Stepper& SensitivityStepper::stepper() const { return impl_->stepper_; }
const State& SensitivityStepper::state() const { return impl_->stepper_.state(); }
double SensitivityStepper::t() const { return state().t; }
const IslandLayout& SensitivityStepper::layout() const { return impl_->layout_; }
std::span<const double> SensitivityStepper::displacement() const { return impl_->displacement_; }
std::span<const double> SensitivityStepper::velocity() const { return impl_->velocity_; }
std::span<const SwitchSensitivity> SensitivityStepper::switches() const { return impl_->switches_; }
OutputSensitivity SensitivityStepper::outputs(int count, const OutputFunction& function, bool with_reactions) const {
  return impl_->outputs(state(), impl_->sensitivity_, {}, count, function, with_reactions);
}
OutputSensitivity SensitivityStepper::outputs_at(const EventSensitivity& event, int count,
                                                 const OutputFunction& function, bool with_reactions) const {
  return impl_->outputs_at(event, count, function, with_reactions);
}
int SensitivityStepper::watch(OutputFunction function) { return impl_->watch(std::move(function)); }
std::span<const CrossingSensitivity> SensitivityStepper::crossings() const { return impl_->crossings_; }
std::vector<double> SensitivityStepper::gradient(std::span<const StateWeights> weights) const {
  return impl_->gradient(weights);
}

}  // namespace linchpin
