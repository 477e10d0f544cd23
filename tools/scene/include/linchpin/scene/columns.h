// The columns that every table of a run has: of the states of bodies, and of the gaps and forces of constraints.
#pragma once

#include <linchpin/constraint.h>

#include <vector>

namespace linchpin::scene {

/// The parts of the titles of the columns of a body, behind its name.
inline const std::vector<const char*> body_columns = {
    ".x [m]",    ".y [m]",    ".z [m]",    ".qw",         ".qx",         ".qy",        ".qz",
    ".vx [m/s]", ".vy [m/s]", ".vz [m/s]", ".wx [rad/s]", ".wy [rad/s]", ".wz [rad/s]"};
/// The same for the columns of the wrench of a constraint.
inline const std::vector<const char*> force_columns = {".Fx [N]",   ".Fy [N]",   ".Fz [N]",
                                                       ".Mx [N m]", ".My [N m]", ".Mz [N m]"};
/// The same for the column of its residual.
inline const char* gap_column(RowUnit unit) {
  return unit == RowUnit::metre ? ".gap [m]" : unit == RowUnit::radian ? ".gap [rad]" : ".gap";
}

}  // namespace linchpin::scene
