// One btMultiBody in double: where its links are, how they move, its mass as an operator and the forces on it. Read
// from Bullet's joint positions and velocities, by its own conventions; Bullet's caches, which single precision rounds,
// are not used. Knows no constraints.
//
// Its joint-space mass matrix M is never made for a step. Articulated inertias (Featherstone), found once from the tips
// to the base, factor it, M = L Lᵀ with one column of L per joint coordinate, and one walk along the tree multiplies by
// L⁻¹ (inward) or by L⁻ᵀ (outward): any factor serves as the root in T5.
#pragma once

#include <linchpin/bullet.h>

#include <BulletDynamics/Featherstone/btMultiBody.h>

#include <Eigen/Core>

#include <span>
#include <vector>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

/// Velocities are Bullet's: [angular velocity of the base, its velocity, joint rates], world axes, 6 + joints numbers.
/// Columns of an equation are the same without the first six where the base is fixed.
class Articulated {
 public:
  using Vector6 = Eigen::Matrix<double, 6, 1>;

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
    Vector3d pivot = Vector3d::Zero();  ///< of its joint, fixed in the link [m]
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

  /// places(), joint axes and the factor of M at the captured state. O(links).
  /// @return false when M is not positive definite, or a number is not finite: then only places() and axes are good
  bool refresh();
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
  /// Whether any coordinate moves a link, −1 the base.
  bool moves(int link) const;
  /// Wrenches [N, N·m] on the links by their parents, through their joints, about the joints' pivots, when all move
  /// with accelerations `vdot` [columns] and `others` [links + 1] act on the links about their centres beside what
  /// applied() has: motors and limits of the joints included. One walk out and one in. @param out [links + 1], the
  /// base's no joint
  void through_joints(std::span<const double> vdot, std::span<const Wrench> others, std::vector<Wrench>& out) const;
  /// What of it `vdot` and `others` make by themselves, the links at rest and nothing else acting on them. `others` may
  /// be `out`.
  void through_joints_at_rest(std::span<const double> vdot, std::span<const Wrench> others,
                              std::vector<Wrench>& out) const;

  // ---- M = L Lᵀ, at the captured state ----
  /// w ← L⁻¹(Jᵀ on + w): wrenches on links about their centres, [force; moment], with forces along the coordinates.
  /// @param path  links to walk, children before parents, −1 the base: all that anything acts on, and their ancestors
  /// @param on    [links + 1] base first; spoilt on the path
  /// @param w     [columns], of the path's alone
  void to_unit(std::span<const int> path, std::span<Vector6> on, std::span<double> w) const;
  /// The same with every link on the path.
  void to_unit(std::span<Vector6> on, std::span<double> w) const { to_unit(every_, on, w); }
  /// v ← L⁻ᵀ v, [columns].
  void from_unit(std::span<double> v) const;
  /// M⁻¹(Q − h) by what acts on the links, without Q of the coordinates, whose sums would cancel in a long chain.
  void free_acceleration(std::span<double> out) const;
  /// M v, [columns] → [columns], by accelerating all links and looking at what that takes.
  void times_mass(std::span<const double> v, std::span<double> out) const;
  /// M itself, row by row [columns × columns], for those who want to see it: O(links²).
  void mass_matrix(std::vector<double>& out) const;

  btMultiBody& body() const { return *body_; }
  int links() const { return links_; }
  int rates() const { return 6 + dofs_; }           ///< numbers of a velocity
  int columns() const { return rates() - first_; }  ///< of an equation
  int first() const { return first_; }              ///< 6 where the base is fixed, else 0
  bool asleep() const;
  /// Sizes of the diagonal blocks that M falls apart into, in column order: limbs on a base that does not move.
  std::vector<int> limbs() const;
  /// Sizes of groups of neighbouring columns, six at most, in which rows touch all or none.
  std::vector<int> groups() const;
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
  Matrix3d to_parent(int link, const Configuration& at) const;  ///< rotation link to parent
  int column_of(int coordinate) const { return 6 + coordinate - first_; }
  bool factor();
  void accelerate(std::span<const double> vdot) const;
  void resist(std::span<const Wrench> others) const;
  void at_pivots(std::vector<Wrench>& out) const;
  void inward(std::vector<Force>& on) const;
  void generalized(std::vector<Force>& on, std::span<double> out) const;
  Vector6 direction(int column) const;
  Force inertial(int i) const;
  Force resistance(int i) const;
  Force damped(int i) const;
  Force acting(int i) const;
  Vector3d arm(int link) const;
  Vector6& carry(int link) const;

  btMultiBody* body_;
  int links_ = 0, dofs_ = 0, first_ = 0;
  Configuration start_;
  std::vector<double> u_, torque_;
  struct Fixed {
    Matrix3d to_parent;  ///< at angle zero
    Vector3d axis;       ///< of a revolute joint
  };
  std::vector<Fixed> fixed_;   ///< of the links: what does not change while they move
  std::vector<Force> forces_;  ///< applied, base first, about the centres
  std::vector<Place> places_;
  std::vector<Vector3d> top_, bottom_;  ///< of every joint coordinate, world axes, at the captured state
  std::vector<int> link_of_;            ///< by joint coordinate
  std::vector<int> every_;              ///< all links, children before parents, the base last
  /// Of every column: P S / D and 1/√D, with P the inertia that its joint feels behind it, D = SᵀP S.
  struct Pivot {
    Vector6 gain;
    double root;
  };
  std::vector<Pivot> pivots_;
  std::vector<Eigen::Matrix<double, 6, 6>> inertias_;  ///< articulated, [linear; angular], while they are found
  std::vector<double> lost_;                           ///< what of SᵀP S has cancelled, by column
  mutable std::vector<Force> scratch_;
  mutable std::vector<Vector6> moves_, on_;  ///< by link: [linear; angular]
};

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
