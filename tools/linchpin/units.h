// Units of measurements: metres, millimetres, degrees, kilonewtons and their products.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace linchpin::cli {

/// A unit as a factor and powers of m, kg, s and rad.
struct Unit {
  double factor = 1;               ///< its size in these units
  std::array<int, 4> powers = {};  ///< of m, kg, s, rad

  bool measures_the_same_as(const Unit& other) const { return powers == other.powers; }
};

/// Reads "mm", "N m", "deg/s", "m/s^2", "1/s". Nothing if the text is no unit.
std::optional<Unit> unit_of_text(std::string_view text);

/// The factor from one unit to another, for example 0.001 from "mm" to "m".
/// @param to  the unit of a quantity of a scene. Empty: not known, so the factor is that to SI units.
/// @throws std::invalid_argument if the units do not fit, with the reason
double conversion(const std::string& from, const std::string& to);

}  // namespace linchpin::cli
