#include "robot_inertia.h"

#include <Eigen/Eigenvalues>

#include <cstdio>
#include <limits>
#include <utility>

namespace linchpin::scene {

namespace {

using Link = RobotFile::Link;
using Joint = RobotFile::Joint;

constexpr double least_mass = 1e-15;      // [kg]: single precision still has the square of its inverse
constexpr double negligible = 1e-9;       // of the robot's mass
constexpr double thinnest = 1e-6;         // smallest principal moment of a body, of the largest
constexpr double rounding = 1e-12;        // of the largest moment
constexpr double radius_squared = 1e-14;  // of gyration [m²], below which an inertia is zero: 0.1 µm

constexpr RobotNotes::Kind massless{"link", "has less than 1e-9 of the robot's mass and is taken as massless",
                                    "have less than 1e-9 of the robot's mass and are taken as massless"};
constexpr RobotNotes::Kind boxed{
    "link", "has a mass and zero inertia. It gets the inertia of the solid bounding box of its collision shapes",
    "have a mass and zero inertia. They get the inertia of the solid bounding box of their collision shapes"};
constexpr RobotNotes::Kind raised{"link", "has a principal moment of inertia below 1e-6 of its largest one",
                                  "have a principal moment of inertia below 1e-6 of their largest one"};

Vector3d moments_of(const Matrix3d& inertia) {
  return Eigen::SelfAdjointEigenSolver<Matrix3d>(inertia, Eigen::EigenvaluesOnly).eigenvalues();
}

bool is_zero(const Matrix3d& inertia, double mass) { return inertia.cwiseAbs().maxCoeff() <= radius_squared * mass; }

// Half the edges of the box around a shape, in its own axes.
Vector3d half_extents(const Shape& shape) {
  const double r = shape.size[0], half = 0.5 * shape.size[1];
  switch (shape.kind) {
    case Shape::Kind::box:
    case Shape::Kind::hull:
      return 0.5 * shape.size;
    case Shape::Kind::sphere:
      return Vector3d::Constant(r);
    case Shape::Kind::capsule:
      return {r, half + r, r};
    case Shape::Kind::cylinder:
      return {r, half, r};
    case Shape::Kind::none:
      break;
  }
  return Vector3d::Zero();
}

// The inertia of the solid box around the shapes. It is about the centre of the box, in axes of the link's inertial
// frame.
Matrix3d inertia_of_bounding_box(const Link& link) {
  Vector3d low = Vector3d::Constant(std::numeric_limits<double>::max()), high = -low;
  const Pose to_frame = inverse(link.inertial->frame);
  for (const PlacedShape& each : link.shapes) {
    const Pose at = to_frame * each.pose;
    const Vector3d half = at.q.toRotationMatrix().cwiseAbs() * half_extents(each.shape);
    low = low.cwiseMin(at.p - half), high = high.cwiseMax(at.p + half);
  }
  const Vector3d squares = (high - low).cwiseAbs2();
  return (link.mass() / 12 * Vector3d(squares.y() + squares.z(), squares.z() + squares.x(), squares.x() + squares.y()))
      .asDiagonal();
}

void drop_negligible_masses(RobotFile& file) {
  double all = 0;
  for (const Link& link : file.links) all += link.mass();
  const auto is_negligible = [&](const Link& link) { return link.mass() < negligible * all; };
  // A root that floats would be fixed by it, unless its mass is that of a link on a fixed joint.
  std::vector<char> bears_fixed(file.links.size());
  for (const Joint& joint : file.joints)
    if (joint.kind == Joint::Kind::fixed && !is_negligible(file.links[static_cast<std::size_t>(joint.child)]))
      bears_fixed[static_cast<std::size_t>(joint.parent)] = 1;
  for (std::size_t i = 0; i < file.links.size(); ++i) {
    Link& link = file.links[i];
    if (link.mass() == 0 || !is_negligible(link) || (link.joint < 0 && !bears_fixed[i])) continue;
    file.notes.add(massless, link.name);
    link.inertial->mass = 0;
  }
}

}  // namespace

bool is_positive_definite(const Matrix3d& inertia, double mass) {
  const Vector3d moments = moments_of(inertia);
  return moments[2] > radius_squared * mass && moments[0] > rounding * moments[2] && moments[0] > 1e-30;
}

void complete_masses(RobotFile& file, bool fixed_base) {
  drop_negligible_masses(file);
  // A link is borne if it does not move, or if its body has a link with an inertia before it.
  std::vector<char> borne(file.links.size());
  for (const int i : file.order) {
    Link& link = file.links[static_cast<std::size_t>(i)];
    if (link.mass() > 0 && link.mass() < least_mass)
      fail(link.inertial->at, "link \"" + link.name + "\", <mass>: a mass of " + shown(link.mass()) +
                                  " kg is outside the supported range; a link without any is a frame, its mass 0");
    const bool root = link.joint < 0;
    char& bears = borne[static_cast<std::size_t>(i)];
    if (root) {
      bears = link.held || fixed_base || (link.name == "world" && link.mass() == 0);
    } else {
      const Joint& by = file.joints[static_cast<std::size_t>(link.joint)];
      bears = by.kind == Joint::Kind::fixed && borne[static_cast<std::size_t>(by.parent)];
    }
    if (!bears && link.mass() > 0 && !link.shapes.empty() && is_zero(link.inertial->inertia, link.mass())) {
      link.inertial->inertia = inertia_of_bounding_box(link);
      file.notes.add(boxed, link.name);
    }
    if (link.mass() == 0 || !is_positive_definite(link.inertial->inertia, link.mass())) continue;
    // With it, the frames that it is fixed to are part of a body.
    for (int at = i;;) {
      borne[static_cast<std::size_t>(at)] = 1;
      const int joint = file.links[static_cast<std::size_t>(at)].joint;
      if (joint < 0 || file.joints[static_cast<std::size_t>(joint)].kind != Joint::Kind::fixed) break;
      at = file.joints[static_cast<std::size_t>(joint)].parent;
      if (borne[static_cast<std::size_t>(at)]) break;
    }
  }
}

Matrix3d checked_inertia(const Matrix3d& sum, double mass, const Link& link, std::size_t links, RobotNotes& notes) {
  const Eigen::SelfAdjointEigenSolver<Matrix3d> solver(sum);
  const Vector3d moments = solver.eigenvalues();
  const double least = thinnest * moments[2];
  const std::string who = "link \"" + link.name + "\"" +
                          (links > 1 ? " with the " + std::to_string(links - 1) + " that are fixed to it" : "") +
                          ", <inertia>: ";
  const std::string values = "its principal moments are " + shown(moments[0]) + ", " + shown(moments[1]) + ", " +
                             shown(moments[2]) + " kg m^2";
  if (moments[2] < -least || (moments[0] < 0 && moments[2] <= 1e-30))
    fail(link.inertial->at, who + "the inertia is negative: " + values + ". Correct the signs of its entries");
  if (is_zero(sum, mass) || moments[2] <= 1e-30)
    fail(link.inertial->at, who +
                                "the inertia is zero, but a link with a mass that moves needs one. Give it the "
                                "inertia of its solid, or a collision shape, of which it can be computed");
  if (moments[0] < -least)
    fail(link.inertial->at,
         who + "the inertia is not positive definite: " + values + ". Correct the entry that makes it negative");
  if (moments[1] < least)
    fail(link.inertial->at, who + "the inertia is not positive definite: " + values +
                                ". No mass has an inertia about one axis only: give it the other two moments");
  if (moments[0] >= least) return sum;
  char change[80];
  std::snprintf(change, sizeof change, "%.3g raised to %.3g kg m^2", moments[0], least);
  notes.add(raised, link.name, change);
  const Matrix3d V = solver.eigenvectors();
  const Matrix3d out = V * Vector3d(least, moments[1], moments[2]).asDiagonal() * V.transpose();
  return 0.5 * (out + out.transpose());
}

}  // namespace linchpin::scene
