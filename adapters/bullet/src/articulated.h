// One btMultiBody in double: where its links are, how they move, its joint-space mass matrix and the forces on it. Read
// from Bullet's joint positions and velocities, by its own conventions; Bullet's caches, which single precision rounds,
// are not used. Knows no constraints.
#pragma once

#include <linchpin/bullet.h>

#include <BulletDynamics/Featherstone/btMultiBody.h>

#include <span>
#include <vector>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

/// Velocities are Bullet's: [angular velocity of the base, its velocity, joint rates], world axes, 6 + joints numbers.
/// Columns of an equation are the same without the first six where the base is fixed.
class Articulated {
 public:
  explicit Articulated(btMultiBody& body) : body_(&body) {}

  /// Where it is: base, and joint positions as Bullet keeps them (a quaternion for a spherical joint).
  struct Configuration {
    Vector3d p = Vector3d::Zero();
    Quaterniond q = Quaterniond::Identity();  ///< base to world
    std::vector<double> joints;
  };
  /// A link, or the base, at one time, world axes.
  struct Place {
    Vector3d p = Vector3d::Zero();      ///< centre of mass [m]
    Vector3d pivot = Vector3d::Zero();  ///< of its joint [m]
    Matrix3d R = Matrix3d::Identity();  ///< link to world
    Vector3d v = Vector3d::Zero(), w = Vector3d::Zero();
    Vector3d a = Vector3d::Zero(), alpha = Vector3d::Zero();  ///< with all joint accelerations zero: J̇q̇
  };

  /// Why this multibody cannot take part in exact constraints; empty when it can.
  std::string unsupported() const;

  /// Reads configuration, velocities and applied forces from Bullet.
  void capture();
  /// Places of all links at `at` with velocities `u`, base first. @param out [links + 1], kept memory
  void place(const Configuration& at, std::span<const double> u, std::vector<Place>& out) const;
  /// Where Bullet's own integrator ends from the captured configuration (btMultiBody::stepPositionsMultiDof).
  void advance(const Configuration& from, std::span<const double> u, double dt, Configuration& to) const;
  /// Writes a configuration back to Bullet.
  void write(const Configuration& q) const;

  /// places(), joint axes and M at the captured state.
  void refresh();
  /// Q − h [columns]: applied forces, gravity, damping, joint torques, less Coriolis and gyroscopic terms, as Bullet's
  /// articulated-body algorithm has them.
  void applied(std::span<double> out) const;
  /// The same by cause, with gravity `g` [m/s²] among the forces on the links: gravity + velocity + damping + applied.
  struct Causes {
    std::vector<double> gravity, velocity, damping, applied;  ///< [columns] each
  };
  void causes(const Vector3d& g, Causes& out) const;
  /// The same as wrenches on the links about their centres, base first, each link a body of its own: a torque on a
  /// joint acts on its link, and its opposite on the parent. @param out [links + 1]
  void applied_on_links(std::vector<Wrench>& out) const;
  /// Forces along the joint coordinates [joints] as such pairs, added to `on` [links + 1].
  void add_along_joints(std::span<const double> efforts, std::vector<Wrench>& on) const;
  /// What wrenches on the links, about their centres, are along the coordinates. @param out [columns]
  void along(std::span<const Wrench> on, std::span<double> out) const;
  /// Column i of a row that is [linear; angular] on a link: Jᵀ, added to out [columns].
  void add_row(int link, const double* row, std::span<double> out) const;
  /// Which columns a link depends on: marks them in out [columns].
  void mark(int link, std::span<char> out) const;
  /// Wrench [N, N·m] on a link by its parent, through its joint, about the joint's pivot, when all move with
  /// accelerations `vdot` [columns] and `others` [links + 1] act on the links about their centres beside what applied()
  /// has: motors and limits of the joint included.
  Wrench through_joint(int link, std::span<const double> vdot, std::span<const Wrench> others) const;

  btMultiBody& body() const { return *body_; }
  int links() const { return links_; }
  int rates() const { return 6 + dofs_; }           ///< numbers of a velocity
  int columns() const { return rates() - first_; }  ///< of an equation
  int first() const { return first_; }              ///< 6 where the base is fixed, else 0
  bool asleep() const;
  std::span<const double> M() const { return M_; }  ///< [columns × columns]
  /// Sizes of the diagonal blocks that M falls apart into, in column order: limbs on a base that does not move.
  std::vector<int> limbs() const;
  const std::vector<Place>& places() const { return places_; }
  const Configuration& start() const { return start_; }
  std::span<const double> u() const { return u_; }  ///< captured velocities
  double mass(int link) const;
  Vector3d inertia(int link) const;
  double kinetic() const;  ///< [J] at the captured state, by links
  /// Same joints and links as when it was captured last?
  bool same_shape() const;

 private:
  struct Force {
    Vector3d f, n;
  };
  Vector3d axis_top(int link, int k) const;
  Vector3d axis_bottom(int link, int k) const;
  Matrix3d from_parent(int link, const Configuration& at) const;  ///< rotation parent to link
  void inward(std::vector<Force>& on) const;
  void generalized(std::vector<Force>& on, std::span<double> out) const;
  Force inertial(int i) const;
  Force damped(int i) const;

  btMultiBody* body_;
  int links_ = 0, dofs_ = 0, first_ = 0;
  Configuration start_;
  std::vector<double> u_, torque_, M_;
  std::vector<Force> forces_;  ///< applied, base first, about the centres
  std::vector<Place> places_;
  std::vector<Vector3d> top_, bottom_;  ///< of every joint coordinate, world axes, at the captured state
  std::vector<int> link_of_;            ///< by joint coordinate
  mutable std::vector<Force> scratch_;
  mutable std::vector<Vector3d> alpha_, a_;
  struct Composite {
    double m;
    Vector3d c;
    Matrix3d I;
  };
  std::vector<Composite> composite_;
};

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
