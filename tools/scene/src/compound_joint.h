// Joints in a chain whose links between them have no mass. The chain is one compound joint between the bodies at its
// two ends: one exact constraint, and one row for each coordinate of the chain (docs/how-to/robots.md, "Compound
// joints").
#pragma once

#include "joint_coordinate.h"

#include <linchpin/constraint.h>
#include <linchpin/joints.h>

#include <string>
#include <vector>

namespace linchpin::scene {

/// The coordinates q₁ … q_k of a chain from body A to body B. The pose of frame B in frame A is
/// F(q) = before₁ M₁(q₁) … before_k M_k(q_k) tip, where M_i turns about the axis of coordinate i or shifts along it.
struct CompoundJoint {
  struct Coordinate {
    bool slides = false;                ///< a shift [m] along the axis; otherwise an angle [rad] about it
    Vector3d axis = Vector3d::UnitX();  ///< unit, in the frame of the coordinate
    Pose before;                        ///< of the frame of the coordinate in that after the coordinate before it
    double start = 0;                   ///< its value at the start [rad or m]
  };
  std::string name;  ///< of the constraint
  std::vector<Coordinate> coordinates;
  JointFrame frame_A, frame_B;      ///< frame A in body A, frame B in body B
  Vector3d tip = Vector3d::Zero();  ///< origin of frame B in the frame after the last coordinate [m]

  /// Returns false for six coordinates, which leave all motions free.
  bool is_constraint() const { return coordinates.size() < 6; }
};

/// Moves the origin of frame B into the point through which all axes of a chain of hinges go. Without such a point, and
/// for a chain with a shift, it stays where it is.
void move_to_common_point(CompoundJoint& joint);

/// The independent motions that the axes of a chain give.
struct Freedom {
  int rank = 0;                 ///< of the twists of its joints, in a pose that is not singular
  bool singular_start = false;  ///< The rank at the start is lower (gimbal lock).
};
/// @param joint  has at most six coordinates.
Freedom freedom(const CompoundJoint& joint);

/// The exact constraint Nᵀ(V − S q̇) = Nᵀ V = 0 of 6 − k rows. V is the twist of frame B relative to frame A. The
/// columns of S(q) are the twists of the k joints. N is a basis of the complement of S. Its wrench acts at the origin
/// of frame B.
/// @param joint  has the rank k = number of coordinates < 6.
Constraint compound_joint(BodyId a, BodyId b, const CompoundJoint& joint);

/// Returns the values of all coordinates at the start.
CoordinateValues start_values(const CompoundJoint& joint);

/// The row of one coordinate, as of coordinate_row(). A force τ along the coordinate is the wrench S (SᵀS)⁻¹ τ.
/// @param joint  has the rank k = number of coordinates.
CoordinateRow compound_row(const CompoundJoint& joint, int which, const BodyState& A, const BodyState& B,
                           const CoordinateValues& near);

}  // namespace linchpin::scene
