// A system that depends on parameters, for derivatives with respect to them.
#pragma once

#include <linchpin/export.h>
#include <linchpin/system.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace linchpin {

/// A system whose construction reads parameters. A parameter may be a mass, a length, a coefficient of a law, a start
/// value, or any other number. It is a plain value. A copy shares what the function `make` shares.
struct ParametricSystem {
  std::vector<std::string> names;  ///< Names of the parameters in messages.
  std::vector<double> values;      ///< Values at which derivatives are taken, one for each name.
  /// Makes the system for values of the parameters. The systems for all values have the same bodies, constraints and
  /// laws in the same order. Derivatives are computed with nearby values, so the function must accept these and must be
  /// smooth.
  std::function<System(std::span<const double> values)> make;
};

}  // namespace linchpin
