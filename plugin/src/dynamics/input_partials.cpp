// Differences of the assembled equation along directions of its inputs.
#include "dynamics/input_partials.h"

#include "model/format.h"
#include "problem/jacobian_products.h"

#include <linchpin/constraint.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace linchpin {

using detail::CentralDifference;

namespace {

bool has_nonzero(std::span<const double> x) {
  return std::any_of(x.begin(), x.end(), [](double xi) { return xi != 0; });
}

}  // namespace

InputPartials::InputPartials(const System& system, ParametricSystem parametric, const IslandLayout& layout)
    : system_(system), parametric_(std::move(parametric)), layout_(layout), directions_(system, layout) {
  if (parametric_.values.size() != parametric_.names.size())
    throw std::invalid_argument("the system has " + std::to_string(parametric_.names.size()) +
                                " parameters, but values for " + std::to_string(parametric_.values.size()));
  if (!parametric_.names.empty() && !parametric_.make)
    throw std::invalid_argument("the parametric system has no function that makes it");
  restructure();
}

void InputPartials::restructure() {
  here_.emplace(system_, layout_);
  parameters_.clear();
  parameters_.resize(parametric_.values.size());
  for (std::size_t k = 0; k < parameters_.size(); ++k) {
    const double size = std::fabs(parametric_.values[k]);
    parameters_[k].step = CentralDifference::first_step * (size > 0 ? size : 1);
  }
  for (auto* x : {&zeros_, &unit_}) x->assign(z(layout_.n()), 0.0);
}

void InputPartials::begin(const State& state) {
  directions_.measure(state, StateDirections::Size::of_constraints);
  state_partials_.resize(2 * z(layout_.n()) + 1);
  for (std::vector<double>& partials : state_partials_) partials.clear();
  known_state_partials_ = 0;
  for (Parameter& parameter : parameters_) parameter.is_known = false;
}

void InputPartials::add_change(const DifferentiatedEquation& at, std::span<const double> dq, std::span<const double> dv,
                               double dt, std::span<const double> dp, std::span<double> out) {
  if (dq.empty()) dq = zeros_;
  if (dv.empty()) dv = zeros_;
  bool state_is_done = !has_nonzero(dq) && !has_nonzero(dv) && dt == 0;
  const bool knows_state = known_state_partials_ == state_partials_.size();
  for (std::size_t k = 0; k < dp.size(); ++k) {
    if (dp[k] == 0) continue;
    if (!state_is_done && !knows_state && !parameters_[k].is_known) {  // Both in the same differences.
      add_differences(at, dq, dv, dt, static_cast<int>(k), dp[k], out);
      state_is_done = true;
      continue;
    }
    const std::vector<double>& partial = of_parameter(at, k);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += dp[k] * partial[i];
  }
  if (!state_is_done) add_state_change(at, dq, dv, dt, out);
}

/// Adds the derivative along a direction of the state, from those by single inputs where all are known.
void InputPartials::add_state_change(const DifferentiatedEquation& at, std::span<const double> dq,
                                     std::span<const double> dv, double dt, std::span<double> out) {
  if (known_state_partials_ < state_partials_.size()) return add_differences(at, dq, dv, dt, -1, 0, out);
  const auto add = [&](double factor, std::size_t input) {
    if (factor == 0) return;
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += factor * state_partials_[input][i];
  };
  for (std::size_t j = 0; j < dq.size(); ++j) {
    add(dq[j], j);
    add(dv[j], dq.size() + j);
  }
  add(dt, 2 * dq.size());
}

/// Adds differences along a direction of the state, and of one parameter if its index is not negative. Systems exist at
/// the steps of the parameter only. So the first step is one of these.
void InputPartials::add_differences(const DifferentiatedEquation& at, std::span<const double> dq,
                                    std::span<const double> dv, double dt, int parameter, double dp,
                                    std::span<double> out) {
  const double size = std::max(directions_.size_of(dq, dv), std::fabs(dt) * directions_.characteristic_rate());
  double step = size > 0 ? CentralDifference::first_step / size : 1;
  int first_level = 0;
  if (parameter >= 0) {
    double largest = parameters_[z(parameter)].step / std::fabs(dp);
    for (; size > 0 && largest > step && first_level < CentralDifference::most_levels / 2; ++first_level) largest /= 2;
    step = largest;
  }
  along_.resize(out.size());
  const auto evaluate = [&](int level, double part, std::span<double> values) {
    EquationPartials* partials = &*here_;
    if (parameter >= 0) {
      Nearby* const other = nearby(z(parameter), first_level + level, part * dp);
      if (other == nullptr) return false;
      partials = &other->partials;
    }
    directions_.displace(at.state, dq, dv, part, displaced_);
    displaced_.t += part * dt;
    if (parameter >= 0 || dt != 0) partials->system().update_kinematic(displaced_);
    if (partials->evaluate(displaced_, at.solution, at.factor, at.parts, values)) return true;
    failure_ = partials->failure();
    return false;
  };
  if (!differences_.run(evaluate, step, at.blocks, along_)) {
    if (parameter >= 0)
      throw std::invalid_argument("the equation cannot be evaluated beside the value " +
                                  text(parametric_.values[z(parameter)]) + " of the parameter \"" +
                                  parametric_.names[z(parameter)] + "\": " + failure_);
    throw std::invalid_argument("the equation cannot be evaluated beside the state: " + failure_);
  }
  for (std::size_t i = 0; i < out.size(); ++i) out[i] += along_[i];
}

const std::vector<double>& InputPartials::of_state_input(const DifferentiatedEquation& at, std::size_t input) {
  std::vector<double>& out = state_partials_[input];
  if (!out.empty()) return out;
  out.assign(at.parts.size(), 0.0);
  const std::size_t columns = zeros_.size();
  if (input == 2 * columns) {
    add_differences(at, zeros_, zeros_, 1, -1, 0, out);
  } else {
    unit_[input % columns] = 1;
    if (input < columns)
      add_differences(at, unit_, zeros_, 0, -1, 0, out);
    else
      add_differences(at, zeros_, unit_, 0, -1, 0, out);
    unit_[input % columns] = 0;
  }
  ++known_state_partials_;
  return out;
}

const std::vector<double>& InputPartials::of_parameter(const DifferentiatedEquation& at, std::size_t k) {
  Parameter& parameter = parameters_[k];
  if (parameter.is_known) return parameter.partials;
  parameter.partials.assign(at.parts.size(), 0.0);
  add_differences(at, zeros_, zeros_, 0, static_cast<int>(k), 1, parameter.partials);
  parameter.is_known = true;
  return parameter.partials;
}

/// Returns the system at a change of a parameter, which is ± its step / 2^level. Null, with the reason in failure_,
/// where there is none.
InputPartials::Nearby* InputPartials::nearby(std::size_t k, int level, double change) {
  if (level >= CentralDifference::most_levels) return nullptr;
  std::unique_ptr<Nearby>& out = parameters_[k].systems[z(2 * level + (change > 0 ? 1 : 0))];
  if (!out) try {
      std::vector<double> values = parametric_.values;
      values[k] += std::copysign(std::ldexp(parameters_[k].step, -level), change);
      auto made = std::make_unique<Nearby>(parametric_.make(values), layout_);
      if (made->system.body_count() != system_.body_count() ||
          made->system.constraint_count() != system_.constraint_count())
        throw std::invalid_argument("the number of bodies or constraints changes");
      out = std::move(made);
    } catch (const std::exception& e) {
      failure_ = e.what();
      return nullptr;
    }
  for (const ConstraintId id : layout_.constraints) {
    const std::vector<double> internal = system_.constraint(id).function().internal_state();
    if (!internal.empty()) out->system.constraint(id).function().set_internal_state(internal);
  }
  return out.get();
}

}  // namespace linchpin
