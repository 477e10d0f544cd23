// The coefficients of the Runge–Kutta methods on the pose manifold (T13), and of the composition that makes RATTLE one
// of order 4. Numbers only; the stages are the stepper's.
#pragma once

#include <array>
#include <cmath>

namespace linchpin {

struct Tableau {
  std::size_t stages = 0;  ///< before the step's end is known
  std::array<double, 7> at{};
  std::array<std::array<double, 6>, 6> from{};  ///< a_kj: row k uses the stages before it
  std::array<double, 7> weight{};
  /// Of a pair: one more stage at the end itself; then what tells the error, and the fourth power of dense output.
  bool pair = false;
  std::array<double, 7> error{}, dense{};
};

inline constexpr Tableau runge_kutta_4{.stages = 4,
                                       .at = {0, 0.5, 0.5, 1},
                                       .from = {{{}, {0.5}, {0, 0.5}, {0, 0, 1}}},
                                       .weight = {1.0 / 6, 1.0 / 3, 1.0 / 3, 1.0 / 6}};

/// Dormand and Prince, J. Comput. Appl. Math. 6 (1980) 19–26; dense output of order 4 by Hairer, Nørsett, Wanner,
/// Solving Ordinary Differential Equations I, II.6.
inline constexpr Tableau dormand_prince_5{
    .stages = 6,
    .at = {0, 0.2, 0.3, 0.8, 8.0 / 9, 1, 1},
    .from = {{{},
              {0.2},
              {3.0 / 40, 9.0 / 40},
              {44.0 / 45, -56.0 / 15, 32.0 / 9},
              {19372.0 / 6561, -25360.0 / 2187, 64448.0 / 6561, -212.0 / 729},
              {9017.0 / 3168, -355.0 / 33, 46732.0 / 5247, 49.0 / 176, -5103.0 / 18656}}},
    .weight = {35.0 / 384, 0, 500.0 / 1113, 125.0 / 192, -2187.0 / 6784, 11.0 / 84, 0},
    .pair = true,
    .error = {71.0 / 57600, 0, -71.0 / 16695, 71.0 / 1920, -17253.0 / 339200, 22.0 / 525, -1.0 / 40},
    .dense = {-12715105075.0 / 11282082432, 0, 87487479700.0 / 32700410799, -10690763975.0 / 1880347072,
              701980252875.0 / 199316789632, -1453857185.0 / 822651844, 69997945.0 / 29380423}};

/// Steps of a symmetric method of order 2, in parts of the whole, that make one of order 4 (Suzuki, Phys. Lett. A 146
/// (1990) 319–323). Five small ones, one of them backwards: their error is a hundredth of that of the three of Yoshida.
inline std::array<double, 5> composition_4() {
  const double outer = 1 / (4 - std::cbrt(4.0));
  return {outer, outer, 1 - 4 * outer, outer, outer};
}

}  // namespace linchpin
