// The integration methods. The header has values only, and any thread may call its function.
#pragma once

#include <linchpin/export.h>

#include <array>

namespace linchpin {

/// Integration method of a step. All but the first keep poses and velocities on the constraints to newton_tolerance by
/// projection or by RATTLE (T13). Tests show each order by its slope.
enum class Method {
  /// Order 1. v₁ = v₀ + dt·a, X₁ = X₀ ⊕ dt·v₁ and Newton to the end of the step (T12). It is exactly the integrator of
  /// a game engine.
  semi_implicit,
  rk4,  ///< Order 4. Runge–Kutta–Munthe-Kaas with projection of poses, then velocities, in the mass metric.
  /// Order 5(4). The pair of Dormand and Prince with the same projection. Substeps are as long as the tolerances allow.
  adaptive,
  /// Order 8(5,3). DOP853 with the same projection. It needs fewer evaluations than adaptive where motion is smooth and
  /// tolerances are 1e-8 or less.
  adaptive8,
  /// Order 2. RATTLE on momenta, rotations by the exponential map. It is symmetric, and symplectic for forces with a
  /// potential, so that energy has no trend. Only for bodies (no coordinates) and smooth laws.
  rattle,
  rattle4  ///< Order 4. Composition of five rattle steps (Suzuki), one of them backwards.
};
/// All methods, in the order of the enum.
inline constexpr std::array all_methods{Method::semi_implicit, Method::rk4,    Method::adaptive,
                                        Method::adaptive8,     Method::rattle, Method::rattle4};
/// Returns whether steps of the method locate events: changes between stick and slip, and unilateral constraints that
/// release or engage.
LINCHPIN_API bool locates_events(Method method);
/// Name in scenes and on the command line: "semi-implicit", "rk4", …
LINCHPIN_API const char* to_string(Method method);

}  // namespace linchpin
