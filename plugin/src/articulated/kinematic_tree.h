// One articulated body in joint coordinates: kinematics of its links, its mass as an operator and the forces on it.
// It knows no constraints and no host.
//
// The joint-space mass matrix M is never assembled for a step. Articulated-body inertias (Featherstone), computed once
// from the tips to the base, factor it, M = L Lᵀ, with one column of L per joint coordinate. One walk along the tree
// multiplies by L⁻¹ (inward) or by L⁻ᵀ (outward). Any factor serves as the root of M in T5. Private to the core.
#pragma once

#include "math/vector_ops.h"

#include <linchpin/articulated.h>
#include <linchpin/wrench.h>

#include <Eigen/Core>

#include <array>
#include <span>
#include <utility>
#include <vector>

namespace linchpin::articulated {

/// [linear; angular] of a link: a velocity, an acceleration, or a wrench about its centre of mass.

/// A link, or the base, at one time, world axes.
struct LinkMotion {
  Vector3d p = Vector3d::Zero();      ///< centre of mass [m]
  Vector3d pivot = Vector3d::Zero();  ///< of its joint, fixed in the link [m]
  Matrix3d R = Matrix3d::Identity();  ///< link to world
  Vector3d v = Vector3d::Zero(), w = Vector3d::Zero();
  Vector3d a = Vector3d::Zero(), alpha = Vector3d::Zero();  ///< with all joint accelerations zero: J̇q̇
};

/// Velocities are [angular velocity of the base, its velocity, joint rates], world axes, 6 + joint rates numbers.
/// Columns of an equation are the same without the first six where the base is fixed.
class KinematicTree {
 public:
  explicit KinematicTree(RotationOverStep rotation) : rotation_(rotation) {}

  /// Takes another model and state: `fill(model, state)` writes them in place, so that memory is kept.
  template <class Fill>
  void update(Fill fill) {
    fill(model_, state_);
    prepare();
  }

  // ---- kinematics ----
  /// Motion of all links at `at` with velocities `u`, base first. @param out [links + 1], kept memory
  void forward_kinematics(const Configuration& at, std::span<const double> u, std::vector<LinkMotion>& out) const;
  /// The same without accelerations.
  void poses_and_velocities(const Configuration& at, std::span<const double> u, std::vector<LinkMotion>& out) const;
  /// The same at the state, of which motions() must be good, with other velocities. Leaves out accelerations and
  /// pivots.
  void velocities_at_state(std::span<const double> u, std::vector<LinkMotion>& out) const;
  /// Where the host's integrator ends from a configuration.
  void integrate(const Configuration& from, std::span<const double> u, double dt, Configuration& to) const;
  /// Where the host's integrator has to begin to end in a configuration. @param to  another one than `end`
  void integrate_back(const Configuration& end, std::span<const double> u, double dt, Configuration& to) const;
  /// Computes motions() at the state.
  void find_motions();
  /// Takes motions() from another tree, which has them, where both have the same joints and the same state.
  void take_motions(const KinematicTree& from);
  /// Computes motions(), joint axes and the factor of M at the state. O(links).
  /// @return false when M is not positive definite, or a number is not finite: then only motions() and axes are good
  bool factorize();

  // ---- forces ----
  /// Q − h [columns]: applied forces, gravity, damping and joint forces, less Coriolis and gyroscopic terms.
  void generalized_force(std::span<double> out) const;
  /// The same by cause, with the gravity `g` [m/s²] of the forces on the links apart: gravity + velocity + damping +
  /// applied.
  struct ForcesByCause {
    std::vector<double> gravity, velocity, damping, applied;  ///< [columns] each
  };
  void forces_by_cause(const Vector3d& g, ForcesByCause& out) const;
  /// The same as wrenches on the links about their centres, base first, each link as a body of its own. A force along a
  /// joint acts on its link, and its opposite acts on the parent. @param out [links + 1]
  void applied_wrenches(std::vector<Wrench>& out) const;
  /// Adds forces along the joint rates [joint rates] as such pairs to `on` [links + 1].
  void add_joint_forces(std::span<const double> efforts, std::vector<Wrench>& on) const;
  /// Jᵀ of wrenches on the links about their centres. @param out [columns]
  void generalized(std::span<const Wrench> on, std::span<double> out) const;
  /// Adds Jᵀ of a row that is [linear; angular] on link i to out [columns]. @return the largest entry that was added
  double add_jacobian_row(int i, const double* row, std::span<double> out) const;
  /// Returns whether any coordinate moves link i, −1 the base.
  bool can_move(int i) const;
  /// Wrenches [N, N·m] on the links by their parents, through their joints, about the joints' pivots. Motors and limits
  /// of the joints are part of them. One walk out and one in.
  /// @param vdot    accelerations [columns]
  /// @param others  wrenches on the links about their centres, beside those of generalized_force() [links + 1]
  /// @param out     [links + 1]; that of the base belongs to no joint
  void joint_wrenches(std::span<const double> vdot, std::span<const Wrench> others, std::vector<Wrench>& out) const;
  /// The part of them that `vdot` and `others` make by themselves, with the links at rest and no other force. `others`
  /// may be `out`.
  void joint_wrenches_at_rest(std::span<const double> vdot, std::span<const Wrench> others,
                              std::vector<Wrench>& out) const;
  /// A wrench through the joint of link i without the part that the joint leaves free.
  Wrench without_free_part(int i, Wrench w) const;

  // ---- M = L Lᵀ, at the state ----
  /// w ← L⁻¹(Jᵀ on + w), with wrenches on the links and forces along the coordinates.
  /// @param path  links to walk, children before parents, −1 the base: all that something acts on, and their ancestors
  /// @param on    wrenches about the centres, [force; moment], base first [links + 1]; overwritten on the path
  /// @param w     [columns], those of the path alone
  void solve_factor(std::span<const int> path, std::span<Vector6> on, std::span<double> w) const;
  /// Wrenches, and forces along a coordinate, of several rows at once.
  static constexpr std::size_t rows_at_once = 4;
  using CoordinateRows = std::array<double, rows_at_once>;
  using WrenchRows = std::array<CoordinateRows, 6>;
  /// The same for several rows.
  void solve_factor(std::span<const int> path, std::span<WrenchRows> on, std::span<CoordinateRows> w) const;
  /// The same with every link on the path.
  void solve_factor(std::span<Vector6> on, std::span<double> w) const { solve_factor(inward_order_, on, w); }
  /// v ← L⁻ᵀ v, [columns].
  void solve_factor_transposed(std::span<double> v) const;
  /// M⁻¹(Q − h) from the forces on the links, without Q of the coordinates, whose sums would cancel in a long chain.
  void free_acceleration(std::span<double> out) const;
  /// M v, [columns] → [columns], as the forces that accelerate all links by v.
  void times_mass(std::span<const double> v, std::span<double> out) const;
  /// The impulses [N·s; N·m·s] by which links change their motion when the coordinates change their velocities by dv in
  /// the time h: M (J dv + h J̇q̇) of each link about its centre, base first. @param dv [columns] @param out [links + 1]
  void motion_impulses(std::span<const double> dv, double h, std::vector<Vector6>& out) const;
  Vector3d base_arm() const;
  /// What the diagonal of M has beside the links: LinkModel::rotor_inertia and damping_inertia.
  double added_inertia(int column) const;
  /// M itself, row by row [columns × columns], for reports: O(links²).
  void mass_matrix(std::vector<double>& out) const;
  double kinetic_energy() const { return kinetic_energy(motions_, state_.velocity); }  ///< [J] at the state
  /// [J] of other motions of the links, base first, which velocities `u` make.
  double kinetic_energy(std::span<const LinkMotion> motions, std::span<const double> u) const;
  /// The force that link i − 1 takes to move as it does with all joint accelerations zero, about its centre.
  LinkForce velocity_force(int i) const;

  // ---- sizes ----
  int links() const { return static_cast<int>(model_.links.size()); }
  int velocities() const { return 6 + model_.rates; }    ///< numbers of a velocity
  int columns() const { return velocities() - fixed_; }  ///< of an equation
  int fixed_velocities() const { return fixed_; }        ///< 6 where the base is fixed, else 0
  int base_columns() const { return 6 - fixed_; }        ///< columns of the base
  int column_of(int rate) const { return rate + 6 - fixed_; }
  /// Sizes of the diagonal blocks that M falls apart into, in column order: limbs on a base that is fixed.
  std::vector<int> mass_block_sizes() const;
  /// Sizes of groups of neighbouring columns, six at most, in which a row touches all or none.
  std::vector<int> column_group_sizes() const;

  const TreeModel& model() const { return model_; }
  const LinkModel& link(int i) const { return model_.links[z(i)]; }
  const TreeState& state() const { return state_; }
  /// At the state, base first; good after factorize().
  const std::vector<LinkMotion>& motions() const { return motions_; }
  const LinkMotion& motion(int link) const { return motions_[z(link + 1)]; }

 private:
  using Matrix6 = Eigen::Matrix<double, 6, 6>;
  /// P S / D and 1/√D of one column, with the articulated inertia P behind its joint and D = SᵀP S.
  struct Pivot {
    Vector6 gain;
    double root;
  };

  void prepare();
  template <bool with_accelerations>
  void find_motions(const Configuration& at, std::span<const double> u, std::vector<LinkMotion>& out) const;
  Matrix3d rotation_to_parent(int i, const Configuration& at) const;
  std::pair<int, int> columns_of(int i) const;
  bool factor_link(int i);
  void add_inertia_to_parent(int i);
  void accelerate(std::span<const double> vdot) const;
  void subtract_from_inertial(std::span<const Wrench> others) const;
  void wrenches_at_pivots(std::vector<Wrench>& out) const;
  void accumulate_inward(std::vector<LinkForce>& on) const;
  void project_on_coordinates(std::vector<LinkForce>& on, std::span<double> out) const;
  Vector6 find_direction(int column) const;
  const Vector6& direction(int column) const { return directions_[z(column)]; }
  Vector3d turn_about_origin(const Quaterniond& from, const Quaterniond& to) const;
  LinkForce acceleration_force(int i) const;
  LinkForce damping_force(int i) const;
  LinkForce net_force(int i) const;
  Vector3d arm(int i) const;
  Vector6& carry_outward(int i) const;

  RotationOverStep rotation_;
  TreeModel model_;
  TreeState state_;
  int fixed_ = 0;
  std::vector<Vector3d> revolute_axis_;  ///< unit length, by link
  std::vector<int> link_of_rate_;
  std::vector<int> inward_order_;  ///< all links, children before parents, the base last
  std::vector<LinkMotion> motions_;
  bool has_motions_ = false;                ///< of the state
  std::vector<Vector3d> angular_, linear_;  ///< of every joint rate, world axes, at the state
  std::vector<Vector6> directions_;         ///< of every column, at the state
  std::vector<Pivot> pivots_;
  std::vector<Matrix6> inertias_;  ///< articulated, [linear; angular], while the factor is computed
  std::vector<double> cancelled_;  ///< part of SᵀP S that has cancelled, by column
  mutable std::vector<LinkForce> link_forces_;
  mutable std::vector<Vector6> link_accelerations_, link_wrenches_;  ///< by link: [linear; angular]
};

}  // namespace linchpin::articulated
