// The systems of a ParametricSystem that finite differences need, and derivatives along changes of a state and of a
// parameter together. Private to the core.
#pragma once

#include "dynamics/state_directions.h"

#include <linchpin/assembly.h>
#include <linchpin/dynamics.h>
#include <linchpin/parametric_system.h>

#include <Eigen/Core>

#include <cmath>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

namespace linchpin {

/// A system of the family, with its equation.
struct SystemVariant {
  SystemVariant(System made, std::vector<double> of, const SolveOptions& options)
      : system(std::move(made)), dynamics(system, options), values(std::move(of)) {}
  System system;
  Dynamics dynamics;
  std::vector<double> values;  // Of the parameters.
  Assembly assembly;           // For rows alone. Its layout is that of `dynamics`.
};

/// A direction in which a state and one parameter change together.
struct TangentVector {
  Eigen::VectorXd displacement, velocity;  // [n] each.
  double time = 0;
  int parameter = -1;  // Changes by 1. −1: none.
};

inline std::span<const double> numbers(const Eigen::VectorXd& x) {
  return {x.data(), static_cast<std::size_t>(x.size())};
}

/// The systems at the points of a difference formula of order 4 for each parameter.
class ParametricFamily {
 public:
  /// @throws std::invalid_argument with the name of the parameter for which there is no system
  ParametricFamily(const ParametricSystem& family, const SolveOptions& options);

  int parameters() const { return static_cast<int>(stencils_.size()); }
  /// Returns whether the differences for a parameter are one-sided, because it is at the end of its range.
  bool is_one_sided(int parameter) const {
    return stencils_[static_cast<std::size_t>(parameter)].points.size() > std::size(central_nodes);
  }
  SystemVariant& nominal() { return *nominal_; }
  template <class Visit>
  void each(Visit visit) {
    visit(*nominal_);
    for (const Stencil& stencil : stencils_)
      for (const Point& point : stencil.points)
        if (point.variant.get() != nullptr) visit(*point.variant);
  }

  /// Differentiates a function of a system and a state.
  /// @param directions  measured at the state
  /// @param value  value(variant, state, out) writes a vector
  template <class Value>
  Eigen::VectorXd derivative(const StateDirections& directions, const State& at, const TangentVector& along,
                             Value value) {
    // The scale is that of a change that differences resolve well. A large change of the state has a step of its own.
    constexpr double small = 1e-3, large = 1e-2;
    const std::span<const double> dq = numbers(along.displacement), dv = numbers(along.velocity);
    const double size = directions.size_of(dq, dv) + std::fabs(along.time) * directions.characteristic_rate();
    Eigen::VectorXd out;
    const auto add = [&](SystemVariant& variant, double part, double weight, bool move) {
      if (move) {
        directions.displace(at, dq, dv, part, displaced_);
        displaced_.t += part * along.time;
      } else {
        displaced_ = at;
      }
      variant.system.update_kinematic(displaced_);
      value(variant, displaced_, value_);
      if (out.size() == 0) out = Eigen::VectorXd::Zero(value_.size());
      out += weight * value_;
    };
    if (along.parameter < 0 || size * step(along.parameter) > large) {
      const double h = size > 0 ? small / size : small;
      for (const Node& node : central_nodes) add(*nominal_, node.offset * h, node.weight / h, true);
      if (along.parameter < 0) return out;
    }
    const bool move = !(size * step(along.parameter) > large);
    const Stencil& stencil = stencils_[static_cast<std::size_t>(along.parameter)];
    for (const Point& point : stencil.points)
      add(point.variant ? *point.variant : *nominal_, point.node.offset * stencil.step,
          point.node.weight / stencil.step, move);
    return out;
  }

 private:
  struct Node {
    double offset, weight;
  };
  static constexpr Node central_nodes[4] = {{-2, 1.0 / 12}, {-1, -2.0 / 3}, {1, 2.0 / 3}, {2, -1.0 / 12}};
  static constexpr Node forward_nodes[5] = {{0, -25.0 / 12}, {1, 4}, {2, -3}, {3, 4.0 / 3}, {4, -0.25}};
  struct Point {
    Node node;
    std::unique_ptr<SystemVariant> variant;  // Null: the nominal system.
  };
  struct Stencil {
    double step = 0;
    std::vector<Point> points;
  };
  const System& system() const { return nominal_->system; }
  double step(int parameter) const { return stencils_[static_cast<std::size_t>(parameter)].step; }
  std::unique_ptr<SystemVariant> make(const ParametricSystem& family, std::vector<double> values,
                                      const SolveOptions& options) const;
  Stencil stencil(const ParametricSystem& family, std::size_t parameter, const SolveOptions& options) const;

  std::unique_ptr<SystemVariant> nominal_;
  std::vector<Stencil> stencils_;
  State displaced_;
  Eigen::VectorXd value_;
};

}  // namespace linchpin
