// Inputs and outputs of the linearised equations of a scene: the forces and the positions of its joint coordinates.
//
// The structs of this header are plain values. The functions evaluate the model's coordinates, so one thread at a time
// may use one model.
#pragma once

#include <linchpin/linearization.h>
#include <linchpin/scene.h>
#include <linchpin/scene/export.h>

#include <string>
#include <vector>

namespace linchpin::scene {

/// A coordinate of a scene: the angle of a hinge, the shift of a slider, or a generalized coordinate.
struct CoordinateGradient {
  std::string name;  ///< name of the joint or of the coordinate
  std::string unit;  ///< of its position: rad, m, or as the scene says
  /// [n] change of the position by a displacement in block order; also the force of a unit of force along it
  std::vector<double> gradient;
};

/// Computes the gradients of all coordinates of a scene that are in a block, joints first.
/// @param layout  of the block, from LinearizedMotion or Assembly
[[nodiscard]] LINCHPIN_SCENE_API std::vector<CoordinateGradient> coordinate_gradients(const Model& model,
                                                                                      const System& system,
                                                                                      const State& state,
                                                                                      const IslandLayout& layout);

/// Returns a unit force along each coordinate, as inputs of linearize().
[[nodiscard]] LINCHPIN_SCENE_API std::vector<ForceInput> force_inputs(const std::vector<CoordinateGradient>& gradients);

/// The matrix C of the outputs y = C x: the positions of the coordinates. Row-major, [coordinates × size()].
[[nodiscard]] LINCHPIN_SCENE_API std::vector<double> position_outputs(const std::vector<CoordinateGradient>& gradients,
                                                                      const LinearizedMotion& motion);

}  // namespace linchpin::scene
