// Derivatives of the equation at a state by the implicit function theorem (T18). The equation with the solution
// inserted is differentiated at fixed accelerations, multipliers and modes of laws. The derived equation then gives
// their changes.
#include "dynamics/derived_equation.h"
#include "dynamics/equation_partials.h"
#include "dynamics/state_directions.h"
#include "math/central_difference.h"
#include "model/format.h"
#include "problem/jacobian_products.h"

#include <linchpin/constraint.h>
#include <linchpin/derivatives.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>

namespace linchpin {

using detail::CentralDifference;

/// A system at other values of the parameters, at the present state.
struct LINCHPIN_PRIVATE NearbySystem {
  System system;
  EquationPartials partials;
  State state;
  NearbySystem(System made, const IslandLayout& layout) : system(std::move(made)), partials(system, layout) {}
};

/// A parameter with systems beside its value, which are made once.
struct LINCHPIN_PRIVATE NearbyParameter {
  double step = 0;  // First step of the differences.
  std::array<std::unique_ptr<NearbySystem>, 2 * CentralDifference::most_levels> systems;
  std::vector<double> partials;  // Of the parts of the equation.
  bool is_known = false;         // `partials` belongs to the present state.
};

namespace {

void check_size(std::span<const double> x, int expected, const char* what) {
  if (!x.empty() && x.size() != z(expected))
    throw std::invalid_argument("the " + std::string(what) + " has " + std::to_string(x.size()) +
                                " numbers, but the system has " + std::to_string(expected));
}

std::string quoted(std::span<const int> constraints, const ConstrainedProblem& problem) {
  std::string out;
  for (const int i : constraints) out += (out.empty() ? "\"" : ", \"") + problem.constraints[z(i)] + "\"";
  return out;
}

bool any(std::span<const double> x) {
  return std::any_of(x.begin(), x.end(), [](double xi) { return xi != 0; });
}

}  // namespace

struct LINCHPIN_PRIVATE Derivatives::Impl {
  const System* system;
  ParametricSystem parametric;
  Dynamics dynamics;
  StateDirections directions;
  unsigned long structure = 0;
  std::optional<EquationPartials> partials;
  std::vector<NearbyParameter> parameters;

  struct Modes {
    std::vector<FrictionMode> modes;  // By friction element.
    std::vector<Vector6> senses;
    std::vector<double> internal_state;
  };
  Modes given;
  bool modes_are_set = false;  // `dynamics` has them.
  Status status = Status::invalid;

  State state, displaced;
  bool is_evaluated = false;
  KeptSolution solution;
  EquationParts parts;
  DerivedEquation equation;
  CentralDifference differences;
  std::vector<detail::ValueBlock> blocks;
  std::vector<double> zeros;                        // [n]
  std::vector<double> change, along, unit;          // Changes of the parts; one direction of the state [n].
  std::vector<std::vector<double>> state_partials;  // By input of the state. Empty: not known.
  bool state_partials_are_known = false;            // All of them.
  std::vector<double> weights;
  OutputChange output;
  InputGradient gradient;

  Impl(const System& given_system, ParametricSystem given_parameters, SolveOptions options)
      : system(&given_system),
        parametric(std::move(given_parameters)),
        dynamics(given_system, options),
        directions(given_system, dynamics.assembly().layout) {
    if (parametric.values.size() != parametric.names.size())
      throw std::invalid_argument("the system has " + std::to_string(parametric.names.size()) +
                                  " parameters, but values for " + std::to_string(parametric.values.size()));
    if (!parametric.names.empty() && !parametric.make)
      throw std::invalid_argument("the parametric system has no function that makes it");
    restructure();
  }

  const IslandLayout& layout() const { return dynamics.assembly().layout; }
  const ConstrainedProblem& problem() const { return dynamics.assembly().problem; }
  int n() const { return layout().n(); }
  int m() const { return layout().m(); }

  void restructure() {
    structure = system->structure();
    partials.emplace(*system, layout());
    parameters.clear();
    parameters.resize(parametric.values.size());
    for (std::size_t k = 0; k < parameters.size(); ++k) {
      const double size = std::fabs(parametric.values[k]);
      parameters[k].step = CentralDifference::first_step * (size > 0 ? size : 1);
    }
    is_evaluated = modes_are_set = false;
  }

  // ---- the solution at the state ----

  void evaluate(const State& at) {
    is_evaluated = false;
    if (structure != system->structure()) {
      dynamics.restructure();
      restructure();
    }
    state = at;
    solve();
    check_rows();
    check_friction();
    directions.measure(state);
    keep_solution();
    set_blocks();
    if (parts.redundant) check_rank();
    if (!partials->assemble(state)) throw std::invalid_argument(partials->failure());
    equation.prepare(dynamics, state, solution, parts, *partials);
    state_partials.assign(2 * z(n()) + 1, {});
    state_partials_are_known = false;
    for (NearbyParameter& parameter : parameters) parameter.is_known = false;
    is_evaluated = true;
  }

  void solve() {
    const auto run = [&] {
      status = dynamics.evaluate(state);
      if (status == Status::invalid)
        throw std::invalid_argument("the equation has no derivative at this state: " + dynamics.reason());
    };
    const auto set_modes = [&] {
      for (std::size_t i = 0; i < given.modes.size(); ++i)
        dynamics.set_friction_mode(static_cast<int>(i), given.modes[i], given.senses[i]);
      dynamics.set_internal_state(given.internal_state);
    };
    set_modes();
    run();
    // The first evaluation finds the friction elements and the internal states.
    if (given.modes.size() < dynamics.friction_elements().size()) {
      given.modes.resize(dynamics.friction_elements().size(), FrictionMode::automatic);
      given.senses.resize(given.modes.size(), Vector6::Zero());
    }
    const bool has_modes = std::any_of(given.modes.begin(), given.modes.end(),
                                       [](FrictionMode m) { return m != FrictionMode::automatic; });
    const std::size_t internal = dynamics.internal_state().size();
    if (given.internal_state.size() != internal) given.internal_state.assign(internal, 0.0);
    if (!modes_are_set && (has_modes || internal > 0)) {
      set_modes();
      run();
    }
    modes_are_set = true;
  }

  void check_rows() {
    if (status == Status::contradictory)
      throw std::invalid_argument("the constraints " + quoted(dynamics.rank_report().contradictory, problem()) +
                                  " contradict each other at this state, so their forces have no derivative");
  }

  void check_friction() {
    const auto elements = dynamics.friction_elements();
    for (std::size_t i = 0; i < elements.size(); ++i) {
      if (elements[i].dim == 0) continue;
      if (const char* const why = why_no_mode(elements[i], given.modes[i], given.senses[i]); why != nullptr)
        throw std::invalid_argument("the dry friction of \"" +
                                    system->name(layout().constraints[z(elements[i].constraint)]) + "\" " + why +
                                    " at this state, where the equation has no derivative. Give another mode by "
                                    "set_friction_mode()");
    }
  }
  /// Returns why the mode of an element is not the same beside the state, or null.
  static const char* why_no_mode(const FrictionElement& e, FrictionMode mode, const Vector6& sense) {
    constexpr double near = 1e-9;  // Relative distance from the bound.
    if (mode == FrictionMode::sticks) return e.sticks ? nullptr : "cannot stick, because constraints make it slip,";
    if (mode == FrictionMode::automatic && e.sticks)
      return e.friction < (1 - near) * e.bound ? nullptr : "is at its bound";
    return e.slip_velocity.norm() > detail::rest_speed || sense.squaredNorm() > 0 ? nullptr : "starts to slide";
  }

  void keep_solution() {
    const auto copy = [](std::span<const double> from, std::vector<double>& to) {
      to.assign(from.begin(), from.end());
    };
    copy(dynamics.vdot(), solution.vdot);
    copy(dynamics.lambda(), solution.lambda);
    copy(dynamics.induced(), solution.induced);
    solution.ideal_vdot.assign(z(n()), 0.0);
    parts = {
        .n = n(), .m = m(), .laws = !dynamics.law_forces().empty(), .redundant = !dynamics.solver().full_row_rank()};
    solution.redundant = parts.redundant;
    if (parts.laws) {
      dynamics.solver().inverse_mass(dynamics.nonideal(), solution.ideal_vdot);
      if (!partials->assemble(state)) throw std::invalid_argument(partials->failure());
      partials->laws().keep(
          {*system, partials->assembly(), dynamics.solver(), state, solution.lambda},
          {dynamics.law_forces(), dynamics.friction_elements(), dynamics.internal_state(), given.senses},
          solution.laws);
      parts.sticking = solution.laws.sticking;
    } else {
      solution.laws = {};
    }
    for (std::size_t j = 0; j < solution.vdot.size(); ++j)
      solution.ideal_vdot[j] = solution.vdot[j] - solution.ideal_vdot[j];
    if (!parts.redundant) return;
    solution.preimage.resize(z(n()));
    solution.laws_preimage.resize(z(n()));
    dynamics.solver().apply(solution.lambda, {}, {}, solution.preimage);
    std::vector<double> total = solution.lambda;
    for (std::size_t r = 0; r < total.size(); ++r) total[r] += solution.induced[r];
    dynamics.solver().apply(total, {}, {}, solution.laws_preimage);
  }

  void set_blocks() {
    const std::size_t size = parts.size();
    for (auto* x : {&change, &along, &weights}) x->assign(size, 0.0);
    zeros.assign(z(n()), 0.0);
    unit.assign(z(n()), 0.0);
    std::vector<double> e(z(m())), scale(z(m()));
    difference(dynamics.assembly(), problem().b, solution.vdot, e, scale);
    const double rows = largest(scale);
    difference(dynamics.assembly(), dynamics.assembly().velocity, dynamics.assembly().v, e, scale);
    const double velocity = largest(scale);
    const double force = largest(problem().Q) + largest(dynamics.ideal()) + largest(dynamics.nonideal());
    const double multiplier = largest(solution.lambda) + largest(solution.induced);
    blocks.clear();
    const auto of = parts.of(std::span<double>(change));
    const auto add = [&](std::span<double> part, double terms) {
      const std::size_t begin = static_cast<std::size_t>(part.data() - change.data());
      if (!part.empty()) blocks.push_back({begin, begin + part.size(), terms});
    };
    for (const auto part : {of.ideal_balance, of.ideal_force, of.balance, of.law_force}) add(part, force);
    for (const auto part : {of.ideal_rows, of.rows}) add(part, rows);
    for (const auto part : {of.ideal_range, of.range}) add(part, multiplier);
    add(of.velocity, velocity);
    add(of.slip, largest(solution.vdot));
  }
  /// Tests whether the rank of redundant rows rises beside the state. There A maps a direction that it mapped to zero
  /// outside its range.
  void check_rank() {
    constexpr double rises = 1e-6;
    const ConstraintFactorization& factor = dynamics.solver();
    std::vector<double> direction(z(n())), motion(z(n())), row(z(m())), dv(z(n()));
    unsigned bits = 12345;
    const auto fill_allowed = [&](std::vector<double>& x) {  // A displacement that the rows allow, without a pattern.
      for (double& xi : x) {
        bits = bits * 1664525u + 1013904223u;
        xi = static_cast<double>(bits >> 8) / 0x1p24 - 0.5;
      }
      for (int repeat = 0; repeat < 2; ++repeat) {
        multiply(problem(), x, row);
        for (double& r : row) r = -r;
        factor.apply(row, {}, {}, dv);
        for (std::size_t j = 0; j < x.size(); ++j) x[j] += dv[j];
      }
    };
    fill_allowed(direction);
    fill_allowed(motion);
    const double size = directions.size_of(direction, zeros);
    if (!(size > 1e-12)) return;
    std::vector<double> slope(z(m()));
    double entries = 0;
    for (const auto& entry : problem().entries) entries = std::max(entries, std::fabs(entry.value));
    const double terms = entries * largest(motion);
    const detail::ValueBlock block{0, slope.size(), terms};
    const auto value = [&](int, double part, std::span<double> out) {
      directions.displace(state, direction, zeros, part, displaced);
      if (!partials->assemble(displaced)) return false;
      multiply(partials->assembly().problem, motion, out);
      return true;
    };
    if (!differences.run(value, CentralDifference::first_step / size, std::span(&block, 1), slope)) return;
    const double natural = std::max(largest(slope), terms * size);
    factor.apply(slope, {}, {}, dv);
    multiply(problem(), dv, row);
    for (std::size_t r = 0; r < row.size(); ++r) slope[r] -= row[r];
    if (largest(slope) > rises * natural)
      throw std::invalid_argument("the rank of the constraints " + quoted(dynamics.rank_report().redundant, problem()) +
                                  " drops at this state, so the equation has no derivative here");
  }

  // ---- derivatives of the parts of the equation ----

  /// Adds the derivative of the parts along a direction of the state, from those by single inputs where reverse() has
  /// found them.
  void add_state_change(std::span<const double> dq, std::span<const double> dv, double dt, std::span<double> out) {
    if (!state_partials_are_known) return add_state_direction(dq, dv, dt, out);
    const auto add = [&](double factor, std::size_t input) {
      if (factor == 0) return;
      for (std::size_t i = 0; i < out.size(); ++i) out[i] += factor * state_partials[input][i];
    };
    for (std::size_t j = 0; j < dq.size(); ++j) {
      add(dq[j], j);
      add(dv[j], dq.size() + j);
    }
    add(dt, 2 * dq.size());
  }
  /// Adds the same by differences along the direction.
  void add_state_direction(std::span<const double> dq, std::span<const double> dv, double dt, std::span<double> out) {
    const double size = std::max(directions.size_of(dq, dv), std::fabs(dt) * directions.characteristic_rate());
    if (!(size > 0)) return;
    const auto value = [&](int, double part, std::span<double> values) {
      directions.displace(state, dq, dv, part, displaced);
      if (dt != 0) {
        displaced.t += part * dt;
        system->update_kinematic(displaced);
      }
      return partials->evaluate(displaced, solution, dynamics.solver(), parts, values);
    };
    if (!differences.run(value, CentralDifference::first_step / size, blocks, along))
      throw std::invalid_argument("the equation cannot be evaluated beside the state: " + partials->failure());
    for (std::size_t i = 0; i < along.size(); ++i) out[i] += along[i];
  }

  /// Returns the derivatives of the parts by a parameter.
  const std::vector<double>& of_parameter(std::size_t k) {
    NearbyParameter& parameter = parameters[k];
    if (parameter.is_known) return parameter.partials;
    std::string failure;
    const auto value = [&](int level, double part, std::span<double> values) {
      NearbySystem* const nearby = nearby_system(k, level, part, failure);
      if (nearby == nullptr) return false;
      nearby->state = state;
      nearby->system.update_kinematic(nearby->state);
      if (nearby->partials.evaluate(nearby->state, solution, dynamics.solver(), parts, values)) return true;
      failure = nearby->partials.failure();
      return false;
    };
    parameter.partials.resize(parts.size());
    if (!differences.run(value, parameter.step, blocks, parameter.partials))
      throw std::invalid_argument("the equation cannot be evaluated beside the value " + text(parametric.values[k]) +
                                  " of the parameter \"" + parametric.names[k] + "\": " + failure);
    parameter.is_known = true;
    return parameter.partials;
  }

  /// Returns the system at a step from the value of a parameter, or null with the reason.
  NearbySystem* nearby_system(std::size_t k, int level, double part, std::string& failure) {
    std::unique_ptr<NearbySystem>& nearby = parameters[k].systems[z(2 * level + (part > 0 ? 1 : 0))];
    if (!nearby) try {
        std::vector<double> values = parametric.values;
        values[k] += part;
        nearby = std::make_unique<NearbySystem>(parametric.make(values), layout());
        if (nearby->system.body_count() != system->body_count() ||
            nearby->system.constraint_count() != system->constraint_count()) {
          nearby.reset();
          failure = "the number of bodies or constraints changes";
        }
      } catch (const std::exception& e) {
        failure = e.what();
      }
    if (nearby)
      for (const ConstraintId id : layout().constraints) copy_internal_state(id, nearby->system);
    return nearby.get();
  }
  void copy_internal_state(ConstraintId id, System& to) const {
    const std::vector<double> internal = system->constraint(id).function().internal_state();
    if (!internal.empty()) to.constraint(id).function().set_internal_state(internal);
  }

  /// Returns the derivatives of the parts by an input of the state: displacements, velocities, time.
  const std::vector<double>& of_state_input(std::size_t input) {
    std::vector<double>& out = state_partials[input];
    if (!out.empty()) return out;
    out.assign(parts.size(), 0.0);
    const std::size_t columns = z(n());
    if (input == 2 * columns) {
      add_state_direction(zeros, zeros, 1, out);
      return out;
    }
    unit[input % columns] = 1;
    if (input < columns)
      add_state_direction(unit, zeros, 0, out);
    else
      add_state_direction(zeros, unit, 0, out);
    unit[input % columns] = 0;
    return out;
  }

  // ---- derivatives of the solution ----

  void check_evaluated() const {
    if (!is_evaluated)
      throw std::invalid_argument("there is no state at which to differentiate. Call evaluate() first");
  }

  const OutputChange& forward(const InputChange& d) {
    check_evaluated();
    check_size(d.displacement, n(), "displacement");
    check_size(d.velocity, n(), "change of velocity");
    check_size(d.force, n(), "change of the force");
    check_size(d.parameters, static_cast<int>(parameters.size()), "change of the parameters");
    std::fill(change.begin(), change.end(), 0.0);
    const auto or_zeros = [&](std::span<const double> x) { return x.empty() ? std::span<const double>(zeros) : x; };
    if (any(d.displacement) || any(d.velocity) || d.time != 0)
      add_state_change(or_zeros(d.displacement), or_zeros(d.velocity), d.time, change);
    for (std::size_t k = 0; k < d.parameters.size(); ++k) {
      if (d.parameters[k] == 0) continue;
      const std::vector<double>& partial = of_parameter(k);
      for (std::size_t i = 0; i < change.size(); ++i) change[i] += d.parameters[k] * partial[i];
    }
    for (auto* x : {&output.vdot, &output.ideal, &output.nonideal}) x->resize(z(n()));
    for (auto* x : {&output.lambda, &output.velocity_residual}) x->resize(z(m()));
    equation.forward(change, d.force, output);
    return output;
  }

  const InputGradient& reverse(const OutputWeights& w) {
    check_evaluated();
    check_size(w.vdot, n(), "vector of weights of vdot");
    check_size(w.lambda, m(), "vector of weights of lambda");
    check_size(w.ideal, n(), "vector of weights of the ideal force");
    check_size(w.nonideal, n(), "vector of weights of the nonideal force");
    check_size(w.velocity_residual, m(), "vector of weights of the velocity residual");
    for (auto* x : {&gradient.displacement, &gradient.velocity, &gradient.force}) x->resize(z(n()));
    gradient.parameters.resize(parameters.size());
    equation.reverse(w, weights, gradient.force);
    const auto weighted = [&](const std::vector<double>& partial) {
      double sum = 0;
      for (std::size_t i = 0; i < partial.size(); ++i) sum += weights[i] * partial[i];
      return sum;
    };
    const std::size_t columns = z(n());
    for (std::size_t j = 0; j < columns; ++j) {
      gradient.displacement[j] = weighted(of_state_input(j));
      gradient.velocity[j] = weighted(of_state_input(columns + j));
    }
    gradient.time = weighted(of_state_input(2 * columns));
    state_partials_are_known = true;
    for (std::size_t k = 0; k < parameters.size(); ++k) gradient.parameters[k] = weighted(of_parameter(k));
    return gradient;
  }
};

Derivatives::Derivatives(const System& system, ParametricSystem parameters, SolveOptions options)
    : impl_(std::make_unique<Impl>(system, std::move(parameters), options)) {}
Derivatives::~Derivatives() = default;
Derivatives::Derivatives(Derivatives&&) noexcept = default;

void Derivatives::set_friction_mode(int element, FrictionMode how, const Vector6& sense) {
  if (element < 0) return;
  auto& given = impl_->given;
  if (z(element) >= given.modes.size()) {
    given.modes.resize(z(element) + 1, FrictionMode::automatic);
    given.senses.resize(given.modes.size(), Vector6::Zero());
  }
  given.modes[z(element)] = how;
  given.senses[z(element)] = how == FrictionMode::slips ? sense : Vector6(Vector6::Zero());
}
void Derivatives::reset_friction_modes() {
  std::fill(impl_->given.modes.begin(), impl_->given.modes.end(), FrictionMode::automatic);
  std::fill(impl_->given.senses.begin(), impl_->given.senses.end(), Vector6::Zero());
}
void Derivatives::set_internal_state(std::span<const double> values) {
  impl_->given.internal_state.assign(values.begin(), values.end());
}
void Derivatives::evaluate(const State& state) { impl_->evaluate(state); }
const Dynamics& Derivatives::dynamics() const { return impl_->dynamics; }
const OutputChange& Derivatives::forward(const InputChange& change) { return impl_->forward(change); }
const InputGradient& Derivatives::reverse(const OutputWeights& weights) { return impl_->reverse(weights); }

}  // namespace linchpin
