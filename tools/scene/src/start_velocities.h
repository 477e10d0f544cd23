// Start velocities of a mechanism, assembled from given rates (T14).
#pragma once

#include "expression.h"

#include <linchpin/scene.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace linchpin::scene {

/// Why there are no start velocities.
struct StartFailure {
  std::string why;
  int row = 0;  ///< row of the tape that is farthest from being met; 0 where a constraint is
};

/// Gives the bodies of a model velocities that meet its constraints and the rows of `given`. They are the nearest to
/// those of the model: the kinetic energy of the change is least. Poses stay as they are. Newton's method meets
/// rows that are not linear in the velocities. Where it does not converge from the velocities of the bodies, it starts
/// from others of many sizes, and the nearest result is taken.
/// @param given  on velocities of Names that begin with the world, then the bodies of the model
/// @param units  of its rows, for messages; empty where a row has none of its own
/// @return nothing, or why there are none
std::optional<StartFailure> assemble_velocities(Model& model, const std::shared_ptr<const Tape>& given,
                                                const std::vector<std::string>& units);

/// Rates of joints at the start that a model was given.
struct RateAssembly {
  enum class Outcome {
    met_already,  ///< The velocities of the model satisfy its constraints.
    met,          ///< The bodies have other velocities, which satisfy the constraints and have the given rates.
    not_met       ///< The constraints do not permit the given rates together. The velocities are those of the model.
  };
  Outcome outcome = Outcome::met_already;
  std::vector<double> rates;  ///< of not_met, by joint: those of the nearest velocities that the constraints permit
};
/// Gives the bodies of a model velocities that meet its constraints, with the rates of some joints. They are the
/// nearest to those of the model in the same sense as in assemble_velocities().
/// @param joints  of the model, with a coordinate
/// @param rates  [rad/s or m/s] by joint
RateAssembly assemble_rates(Model& model, const std::vector<const SceneConstraint*>& joints,
                            const std::vector<double>& rates);

}  // namespace linchpin::scene
