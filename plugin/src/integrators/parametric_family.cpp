#include "integrators/parametric_family.h"

#include "model/format.h"

#include <linchpin/constraint.h>

#include <cmath>
#include <optional>
#include <span>

namespace linchpin {

namespace {

/// Describes the first difference in structure between two systems. Empty: there is none.
std::string structural_difference(const System& a, const System& b) {
  if (a.body_count() != b.body_count()) return "another number of bodies";
  if (a.constraint_count() != b.constraint_count()) return "another number of constraints";
  for (int i = 0; i < a.body_count(); ++i)
    if (a.kind(a.body_at(i)) != b.kind(b.body_at(i)) || a.name(a.body_at(i)) != b.name(b.body_at(i)))
      return "another body in the place of \"" + a.name(a.body_at(i)) + "\"";
  for (int i = 0; i < a.constraint_count(); ++i) {
    const ConstraintId in_a = a.constraint_at(i), in_b = b.constraint_at(i);
    if (a.name(in_a) != b.name(in_b) || a.enabled(in_a) != b.enabled(in_b) ||
        laws_on(a, in_a).size() != laws_on(b, in_b).size())
      return "another constraint in the place of \"" + a.name(in_a) + "\", or other laws on it";
  }
  return "";
}

}  // namespace

ParametricFamily::ParametricFamily(const ParametricSystem& family, const SolveOptions& options) {
  if (!family.make) throw std::invalid_argument("the parametric system has no function that makes a system");
  if (family.names.size() != family.values.size())
    throw std::invalid_argument("the parametric system has " + std::to_string(family.names.size()) +
                                " names of parameters, but " + std::to_string(family.values.size()) + " values");
  for (std::size_t j = 0; j < family.values.size(); ++j)
    if (!std::isfinite(family.values[j]))
      throw std::invalid_argument("the parameter \"" + family.names[j] + "\" is " + text(family.values[j]) +
                                  ", which is not finite");
  nominal_ = std::make_unique<SystemVariant>(family.make(family.values), family.values, options);
  for (std::size_t j = 0; j < family.values.size(); ++j) stencils_.push_back(stencil(family, j, options));
}

std::unique_ptr<SystemVariant> ParametricFamily::make(const ParametricSystem& family, std::vector<double> values,
                                                      const SolveOptions& options) const {
  System system = family.make(values);
  return std::make_unique<SystemVariant>(std::move(system), std::move(values), options);
}

ParametricFamily::Stencil ParametricFamily::stencil(const ParametricSystem& family, std::size_t parameter,
                                                    const SolveOptions& options) const {
  constexpr double relative = 1e-3, absolute = 1e-4;
  const double value = family.values[parameter];
  const double step = value != 0 ? relative * std::fabs(value) : absolute;
  std::string reason;
  const auto attempt = [&](std::span<const Node> nodes, double h) -> std::optional<Stencil> {
    Stencil out{h, {}};
    for (const Node& node : nodes) {
      if (node.offset == 0) {
        out.points.push_back({node, nullptr});
        continue;
      }
      std::vector<double> values = family.values;
      values[parameter] += node.offset * h;
      try {
        out.points.push_back({node, make(family, std::move(values), options)});
      } catch (const std::invalid_argument& e) {
        reason = e.what();
        return std::nullopt;
      }
      const std::string other = structural_difference(system(), out.points.back().variant->system);
      if (!other.empty())
        throw std::invalid_argument("the system for \"" + family.names[parameter] +
                                    "\" = " + text(value + node.offset * h) + " has " + other + " than the one for " +
                                    text(value) + ". Derivatives need systems of one structure");
    }
    return out;
  };
  // A parameter at the end of its range, such as a coefficient of friction of 0, has values on one side only.
  if (auto found = attempt(central_nodes, step)) return std::move(*found);
  if (auto found = attempt(forward_nodes, step)) return std::move(*found);
  if (auto found = attempt(forward_nodes, -step)) return std::move(*found);
  throw std::invalid_argument("no system can be made for values of \"" + family.names[parameter] + "\" next to " +
                              text(value) + ": " + reason);
}

}  // namespace linchpin
