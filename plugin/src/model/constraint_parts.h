// Access to the function of a constraint. Private to the core.
#pragma once

#include <linchpin/constraint.h>

#include <memory>
#include <utility>

namespace linchpin::detail {

struct ConstraintParts {
  /// Returns the same constraint with another function of the same bodies. The function may have no rows.
  static Constraint with_function(const Constraint& constraint, std::unique_ptr<ConstraintFunction> function) {
    Constraint out = constraint;
    out.function_ = std::move(function);
    return out;
  }
};

}  // namespace linchpin::detail
