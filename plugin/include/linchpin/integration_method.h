// The integration methods.
#pragma once

#include <array>

namespace linchpin {

/// How a step is made. All but the first keep the constraints by their own means to newton_tolerance, poses and
/// velocities both (T13); the tests show each order by its slope.
enum class Method {
  semi_implicit,  ///< order 1. v₁ = v₀ + dt·a, X₁ = X₀ ⊕ dt·v₁ with end-of-step satisfaction (T12): what a game engine
                  ///< does, exactly
  rk4,        ///< order 4. Runge–Kutta–Munthe-Kaas with projection of poses, then velocities, in the mass metric
  adaptive,   ///< order 5(4). The pair of Dormand and Prince likewise, in parts as long as the tolerances allow
  adaptive8,  ///< order 8(5,3). DOP853 likewise: fewer evaluations than adaptive where motion is smooth and tolerances
              ///< are 1e-8 or less
  rattle,     ///< order 2. RATTLE on momenta, rotations by the exponential map: symmetric, symplectic for forces
              ///< with a potential, so that energy has no trend. Bodies only (no coordinates), smooth laws only
  rattle4     ///< order 4. Five of its steps composed (Suzuki), one of them backwards
};
inline constexpr std::array all_methods{Method::semi_implicit, Method::rk4,    Method::adaptive,
                                        Method::adaptive8,     Method::rattle, Method::rattle4};
const char* to_string(Method method);  ///< as scenes and the command line name it: "semi-implicit", "rk4", …

}  // namespace linchpin
