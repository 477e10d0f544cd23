// The inertia of robots: which links have one of their own, what stands in for one that the file does not give, and
// which is refused. The test belongs to a body, which is one link or several on fixed joints.
#pragma once

#include "robot_file.h"

namespace linchpin::scene {

/// Whether a body may have this inertia as it is: positive definite, beyond rounding.
/// @param mass  [kg], gives the scale below which an inertia is zero: 1 nm of radius of gyration
bool is_positive_definite(const Matrix3d& inertia, double mass);

/// Takes links of less than 1e-9 of the robot's mass as massless, with a note: exporters write dummy links of 1e-15 kg.
/// The root keeps such a mass, unless a link with mass is fixed to it. Then gives the inertia of the solid bounding box
/// of their shapes to links with mass, shapes and zero inertia that no other link bears, as Bullet's own loader does.
/// @param fixed_base  whether the root is fixed on request
/// @throws SceneError for a mass that is outside the supported range.
void complete_masses(RobotFile& file, bool fixed_base);

/// The inertia of a body that moves, from the sum of those of its links.
/// @param link  the one that names it, at whose inertia errors stand
/// @param links  how many links it has
/// @return the same, or with its smallest moment raised to 1e-6 of the largest, with a note
/// @throws SceneError for an inertia that no motion can have.
Matrix3d checked_inertia(const Matrix3d& sum, double mass, const RobotFile::Link& link, std::size_t links,
                         RobotNotes& notes);

}  // namespace linchpin::scene
