// Derivatives of the equation at a state by the implicit function theorem (T18). The equation with the solution
// inserted is differentiated at fixed accelerations, multipliers and modes of laws. The derived equation then gives
// their changes.
#include "dynamics/derived_equation.h"
#include "dynamics/input_partials.h"
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

}  // namespace

struct LINCHPIN_PRIVATE Derivatives::Impl {
  const System* system;
  Dynamics dynamics;
  InputPartials inputs;
  unsigned long structure = 0;

  struct Modes {
    std::vector<FrictionMode> modes;  // By friction element.
    std::vector<Vector6> senses;
    std::vector<double> internal_state;
  };
  Modes given;
  bool modes_are_set = false;  // `dynamics` has them.

  State state;
  Status status = Status::invalid;
  bool is_evaluated = false;
  KeptSolution solution;
  EquationParts parts;
  std::vector<detail::ValueBlock> blocks;
  DerivedEquation equation;
  std::vector<double> change, weights;  // Of the parts.
  std::vector<double> row, scale, total;
  OutputChange output;
  InputGradient gradient;

  Impl(const System& given_system, ParametricSystem parameters, SolveOptions options)
      : system(&given_system),
        dynamics(given_system, options),
        inputs(given_system, std::move(parameters), dynamics.assembly().layout),
        structure(given_system.structure()) {}

  const IslandLayout& layout() const { return dynamics.assembly().layout; }
  const ConstrainedProblem& problem() const { return dynamics.assembly().problem; }
  int n() const { return layout().n(); }
  int m() const { return layout().m(); }

  // ---- the solution at the state ----

  void evaluate(const State& at) {
    is_evaluated = false;
    if (structure != system->structure()) {
      dynamics.restructure();
      inputs.restructure();
      structure = system->structure();
      modes_are_set = false;
    }
    state = at;
    solve();
    check_rows();
    check_friction();
    inputs.begin(state);
    keep_solution();
    if (parts.redundant) check_rank();
    if (parts.laws) keep_laws();
    set_blocks();
    equation.prepare(dynamics, state, solution, parts, inputs.here());
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
        throw std::invalid_argument(
            "the dry friction of \"" + system->name(layout().constraints[z(elements[i].constraint)]) + "\" " + why +
            " at this state, where the equation has no derivative. Give another mode by set_friction_mode()");
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
    for (auto* x : {&row, &scale}) x->resize(z(m()));
    parts = {
        .n = n(), .m = m(), .laws = !dynamics.law_forces().empty(), .redundant = !dynamics.solver().full_row_rank()};
    solution.redundant = parts.redundant;
    if (parts.laws) dynamics.solver().inverse_mass(dynamics.nonideal(), solution.ideal_vdot);
    for (std::size_t j = 0; j < solution.vdot.size(); ++j)
      solution.ideal_vdot[j] = solution.vdot[j] - solution.ideal_vdot[j];
    if (!parts.redundant) return;
    solution.preimage.resize(z(n()));
    solution.laws_preimage.resize(z(n()));
    dynamics.solver().apply(solution.lambda, {}, {}, solution.preimage);
    total = solution.lambda;
    for (std::size_t r = 0; r < total.size(); ++r) total[r] += solution.induced[r];
    dynamics.solver().apply(total, {}, {}, solution.laws_preimage);
  }
  void keep_laws() {
    EquationPartials& here = inputs.here();
    if (!here.assemble(state)) throw std::invalid_argument(here.failure());
    here.laws().keep({*system, here.assembly(), dynamics.solver(), state, solution.lambda},
                     {dynamics.law_forces(), dynamics.friction_elements(), dynamics.internal_state(), given.senses},
                     solution.laws);
    parts.sticking = solution.laws.sticking;
  }

  void set_blocks() {
    const std::size_t size = parts.size();
    for (auto* x : {&change, &weights}) x->assign(size, 0.0);
    difference(dynamics.assembly(), problem().b, solution.vdot, row, scale);
    const double rows = largest(scale);
    difference(dynamics.assembly(), dynamics.assembly().velocity, dynamics.assembly().v, row, scale);
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
    std::vector<double> direction(z(n())), motion(z(n())), dv(z(n()));
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
    if (!(largest(direction) > 1e-12)) return;
    std::vector<double> slope(z(m()));
    double entries = 0;
    for (const auto& entry : problem().entries) entries = std::max(entries, std::fabs(entry.value));
    const detail::ValueBlock block{0, slope.size(), entries * largest(motion)};
    const auto value = [&](const Assembly& assembly, std::span<double> out) {
      multiply(assembly.problem, motion, out);
    };
    if (!inputs.along_displacement(state, direction, std::span(&block, 1), value, slope)) return;
    const double natural = std::max(
        largest(slope), block.terms * inputs.directions().size_of(direction, std::vector<double>(z(n()), 0.0)));
    factor.apply(slope, {}, {}, dv);
    multiply(problem(), dv, row);
    for (std::size_t r = 0; r < row.size(); ++r) slope[r] -= row[r];
    if (largest(slope) > rises * natural)
      throw std::invalid_argument("the rank of the constraints " + quoted(dynamics.rank_report().redundant, problem()) +
                                  " drops at this state, so the equation has no derivative here");
  }

  // ---- derivatives of the solution ----

  DifferentiatedEquation equation_at_state() const { return {state, solution, parts, dynamics.solver(), blocks}; }
  void check_evaluated() const {
    if (!is_evaluated)
      throw std::invalid_argument("there is no state at which to differentiate. Call evaluate() first");
  }

  const OutputChange& forward(const InputChange& d) {
    check_evaluated();
    check_size(d.displacement, n(), "displacement");
    check_size(d.velocity, n(), "change of velocity");
    check_size(d.force, n(), "change of the force");
    check_size(d.parameters, static_cast<int>(inputs.parameter_count()), "change of the parameters");
    std::fill(change.begin(), change.end(), 0.0);
    inputs.add_change(equation_at_state(), d.displacement, d.velocity, d.time, d.parameters, change);
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
    gradient.parameters.resize(inputs.parameter_count());
    equation.reverse(w, weights, gradient.force);
    const auto weighted = [&](const std::vector<double>& partial) {
      double sum = 0;
      for (std::size_t i = 0; i < partial.size(); ++i) sum += weights[i] * partial[i];
      return sum;
    };
    const DifferentiatedEquation at = equation_at_state();
    const std::size_t columns = z(n());
    for (std::size_t j = 0; j < columns; ++j) {
      gradient.displacement[j] = weighted(inputs.of_state_input(at, j));
      gradient.velocity[j] = weighted(inputs.of_state_input(at, columns + j));
    }
    gradient.time = weighted(inputs.of_state_input(at, 2 * columns));
    for (std::size_t k = 0; k < gradient.parameters.size(); ++k)
      gradient.parameters[k] = weighted(inputs.of_parameter(at, k));
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
