// The data of a SensitivityStepper: columns of sensitivities, Jacobians of steps, and modes between events. Private to
// the core.
#pragma once

#include <linchpin/system.h>

#include <Eigen/Core>

namespace linchpin {

/// The mode of a dry friction element between two events.
struct ElementMode {
  ConstraintId on;
  int law, term;
  bool sticks;
  Vector6 sense;          // Of the slip.
  bool straight = false;  // The slip is so slow that friction keeps its direction.
};

/// Directions in the tangent space, one for each column.
struct Columns {
  Eigen::MatrixXd displacement, velocity;  // [n × columns]

  Columns() = default;
  Columns(Eigen::Index n, Eigen::Index count)
      : displacement(Eigen::MatrixXd::Zero(n, count)), velocity(Eigen::MatrixXd::Zero(n, count)) {}
  Eigen::Index count() const { return displacement.cols(); }
  Columns plus(double factor, const Columns& rate) const {
    Columns out;
    out.displacement = displacement + factor * rate.displacement;
    out.velocity = velocity + factor * rate.velocity;
    return out;
  }
};

/// The linear map of the sensitivities over one step: S₁ = jacobian S₀ + by_parameters.
struct StepJacobian {
  Eigen::MatrixXd jacobian;       // [2n × 2n]
  Eigen::MatrixXd by_parameters;  // [2n × p]
};

}  // namespace linchpin
