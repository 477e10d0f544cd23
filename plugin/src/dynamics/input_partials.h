// Derivatives of the parts of the equation with respect to its inputs: displacements, velocities, time and parameters.
// Hides the systems at nearby values of the parameters, and the steps of the differences. Private to the core.
#pragma once

#include "dynamics/equation_partials.h"
#include "dynamics/state_directions.h"
#include "math/central_difference.h"

#include <linchpin/parametric_system.h>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace linchpin {

/// The solution beside which the equation is differentiated. All references are valid while derivatives are computed.
struct DifferentiatedEquation {
  const State& state;
  const KeptSolution& solution;
  const EquationParts& parts;
  const ConstraintFactorization& factor;
  std::span<const detail::ValueBlock> blocks;  ///< Parts with the sizes of their terms.
};

/// It keeps references to a system and its layout. It does not allocate after warm-up, except for new parameters.
class InputPartials {
 public:
  /// @throws std::invalid_argument the parametric system is not complete
  InputPartials(const System& system, ParametricSystem parametric, const IslandLayout& layout);
  /// Reads the layout again.
  void restructure();

  std::size_t parameter_count() const { return parameters_.size(); }
  EquationPartials& here() { return *here_; }  ///< The system itself.
  const StateDirections& directions() const { return directions_; }

  /// Begins at another state. The functions below then belong to it.
  void begin(const State& state);
  /// Adds the derivative along a direction of all inputs. @param dq, dv [n] or empty. @param dp [p] or empty @throws
  /// std::invalid_argument the equation cannot be evaluated beside the state
  void add_change(const DifferentiatedEquation& at, std::span<const double> dq, std::span<const double> dv, double dt,
                  std::span<const double> dp, std::span<double> out);
  /// The derivative by one input of the state: displacements, then velocities, then time. It is kept for the state.
  const std::vector<double>& of_state_input(const DifferentiatedEquation& at, std::size_t input);
  /// The derivative by a parameter. It is kept for the state.
  const std::vector<double>& of_parameter(const DifferentiatedEquation& at, std::size_t k);

  /// Writes the derivative of a vector of the equation along a displacement. @param value value(assembly, out) @return
  /// whether there is one
  template <class Value>
  bool along_displacement(const State& state, std::span<const double> dq, std::span<const detail::ValueBlock> blocks,
                          Value value, std::span<double> out) {
    const double size = directions_.size_of(dq, zeros_);
    return size > 0 && differences_.run(
                           [&](int, double part, std::span<double> values) {
                             directions_.displace(state, dq, zeros_, part, displaced_);
                             if (!here_->assemble(displaced_)) return false;
                             value(here_->assembly(), values);
                             return true;
                           },
                           detail::CentralDifference::first_step / size, blocks, out);
  }

 private:
  /// A system at other values of the parameters.
  struct Nearby {
    System system;
    EquationPartials partials;
    Nearby(System made, const IslandLayout& layout) : system(std::move(made)), partials(system, layout) {}
  };
  /// A parameter with systems beside its value, which are made once.
  struct Parameter {
    double step = 0;  // First step of the differences.
    std::array<std::unique_ptr<Nearby>, 2 * detail::CentralDifference::most_levels> systems;
    std::vector<double> partials;
    bool is_known = false;  // `partials` belongs to the present state.
  };

  void add_state_change(const DifferentiatedEquation& at, std::span<const double> dq, std::span<const double> dv,
                        double dt, std::span<double> out);
  void add_differences(const DifferentiatedEquation& at, std::span<const double> dq, std::span<const double> dv,
                       double dt, int parameter, double dp, std::span<double> out);
  Nearby* nearby(std::size_t k, int level, double change);

  const System& system_;
  ParametricSystem parametric_;
  const IslandLayout& layout_;
  StateDirections directions_;
  std::optional<EquationPartials> here_;
  std::vector<Parameter> parameters_;
  detail::CentralDifference differences_;
  State displaced_;
  std::string failure_;                              // Why the equation could not be evaluated last.
  std::vector<double> zeros_, unit_, along_;         // [n], [n], and of the parts.
  std::vector<std::vector<double>> state_partials_;  // By input. Empty: not known.
  std::size_t known_state_partials_ = 0;
};

}  // namespace linchpin
