// The inertia of robots: which links have one of their own, what stands in for one that the file does not give, and
// which is refused. The test belongs to a body, which is one link or several on fixed joints.
#pragma once

#include "robot_file.h"

namespace linchpin::scene {

/// True if a body may have this inertia as it is. It must be positive definite beyond rounding, and not zero.
/// @param mass  [kg]; an inertia is zero if its radius of gyration is below 1 nm
bool is_positive_definite(const Matrix3d& inertia, double mass);

/// Makes links massless that have less than 1e-9 of the robot's mass, with a note. Exporters write dummy links of
/// 1e-15 kg. The root keeps such a mass, unless a link with mass is fixed to it.
/// Then replaces zero inertias by those of the solid bounding box of the link's shapes, with a note. This applies to
/// links of a moving body that has no link with a positive definite inertia before them. Bullet's own loader does it.
/// @param fixed_base  whether the root is fixed on request
/// @throws SceneError for a mass that is outside the supported range.
void complete_masses(RobotFile& file, bool fixed_base);

/// The inertia that a moving body gets. It is the sum, or the sum with its smallest moment raised to 1e-6 of the
/// largest, with a note.
/// @param sum  of the inertias of its links
/// @param link  gives the body its name; errors stand at its inertia
/// @param links  number of its links with mass
/// @throws SceneError for an inertia that no motion can have.
Matrix3d checked_inertia(const Matrix3d& sum, double mass, const RobotFile::Link& link, std::size_t links,
                         RobotNotes& notes);

}  // namespace linchpin::scene
