// Constraints between links of articulated bodies, rigid bodies and the world as one constrained problem (T5), in the
// columns of the solver. Every tree is a mass block given by the factor of its articulated inertias, so that in these
// columns its mass is one. A constraint sees a link as a body whose acceleration has a known part, J̇q̇. Private to the
// core.
#pragma once

#include "articulated/gram_factor.h"
#include "articulated/kinematic_tree.h"
#include "articulated/tree_rank.h"

#include <linchpin/constraint.h>
#include <linchpin/problem.h>
#include <linchpin/system.h>

#include <array>
#include <span>
#include <string>
#include <vector>

namespace linchpin::articulated {

/// A tree as the solver knows it.
struct ConstrainedTree {
  enum class Factor { stale, good, singular };

  explicit ConstrainedTree(RotationOverStep rotation) : tree(rotation) {}

  KinematicTree tree;  ///< at the step's start
  int column = -1;     ///< its first in the problem, −1: not in it
  Factor factor = Factor::stale;
  std::vector<double> free;      ///< M⁻¹(Q − h) [columns], where the factor is good
  std::vector<double> velocity;  ///< scratch of a motion that is tried [velocities]
  Configuration end;             ///< where that motion ends
  std::vector<LinkMotion> at_end;
  KinematicTree::ForcesByCause causes;                 ///< scratch
  std::vector<Vector6> wrenches;                       ///< scratch: on the links, on their way inward
  std::vector<KinematicTree::WrenchRows> wrench_rows;  ///< the same of several rows

  /// Computes motions, factor and free acceleration where the state has changed since they were.
  void refresh();
  bool has_factor() const { return factor == Factor::good; }
  std::span<double> own(std::span<double> x) const { return x.subspan(z(column), z(tree.columns())); }
  std::span<const double> own(std::span<const double> x) const { return x.subspan(z(column), z(tree.columns())); }
  /// Sets `velocity` to that of the state, with its columns from v.
  void set_velocity(std::span<const double> v);
  /// Computes where the velocities v of its columns lead in h: `end` and `at_end`.
  void try_motion(std::span<const double> v, double h);
  /// `end` and `at_end` are overwritten, so that try_motion() has to compute them again.
  void forget_motion() { tried_.h = 0; }
  /// The same for `scale` of a displacement d; a fixed base stays where it is.
  void try_displacement(std::span<const double> d, double scale);
  /// Energy that gravity `g` [m/s²] and the applied forces could give from rest in a step [J]. Needs the factor.
  double energy_from_rest(const Vector3d& g, double dt);

 private:
  /// The motion of which `end` and `at_end` are. h = 0: of none.
  struct Tried {
    double h = 0;
    std::vector<double> velocity;
    Configuration from;
  };
  Tried tried_;
};

/// The state of a link as that of a body whose acceleration has a known part.
inline BodyState state_of(const LinkMotion& link) {
  return BodyState{link.p, Quaterniond(link.R), link.v, link.w, link.a, link.alpha};
}

/// One body of a constraint: a link, a rigid body, or what the equations do not move.
struct ConstraintBody {
  BodyId id;
  int tree = -1, link = -1;
  int column = -1, dof = 0;  ///< of a rigid body that moves
};

/// A joint position in the single row of a gear.
struct GearTerm {
  int tree = -1, link = -1;
  int position = 0, velocity = 0;  ///< indices in Configuration::joints and in the velocities
  double factor = 1;               ///< in the sum, or in that of the inputs
  bool is_input = false;
  double derivative = 1;  ///< of the row by the position, at the last linearization
};

/// A constraint of the problem and its rows.
struct ConstraintRows {
  int owner = -1;  ///< the host's index of it
  Constraint* constraint = nullptr;
  std::vector<ConstraintBody> bodies;
  std::vector<GearTerm> gear;  ///< of a gear, whose row is on joint positions instead of on bodies
  double gear_target = 0;
  std::array<double, 5> gear_polynomial{};

  // Computed by TreeConstraints::lay_out():
  struct Path {
    int tree;
    std::vector<int> links;  ///< that a row touches, with all that they hang on, children first
  };
  std::vector<Path> paths;
  std::vector<int> columns;  ///< that its rows may touch, ascending
  int row = 0, rows = 0;
  int joints = 0;         ///< of trees that its forces go through
  std::vector<double> A;  ///< [rows × 6 bodies], of the last linearization

  bool is_gear() const { return !gear.empty(); }
  bool is_linear_gear() const;  ///< no input
  Level level() const { return is_gear() ? Level::position : constraint->function().level(); }
  /// Its part of a vector of rows.
  std::span<double> own(std::span<double> x) const { return x.subspan(z(row), z(rows)); }
  std::span<const double> own(std::span<const double> x) const { return x.subspan(z(row), z(rows)); }
};

class TreeConstraints {
 public:
  // ---- layout ----
  void clear();
  /// Adds a constraint. Its bodies name trees by index of the list that lay_out() gets.
  void add(ConstraintRows constraint) { constraints_.push_back(std::move(constraint)); }
  /// Gives columns to the trees, of which `column` is not negative, and to the rigid bodies, and rows to the
  /// constraints.
  /// @param names  of the constraints, in their order
  void lay_out(std::span<ConstrainedTree* const> trees, std::vector<RigidBody> rigid, std::vector<std::string> names,
               const SolveOptions& options);

  // ---- linearization ----
  /// Resets the cut of the rank decision, which closing gaps may have raised.
  void reset_rank_cut() { rank_cut_ = rank_tolerance_; }
  double rank_cut() const { return rank_cut_; }
  /// Which rows a joint has that is turned far from where it is held.
  enum class FarJoints {
    as_they_are,  ///< those of its dots
    on_way_back   ///< those of the way back
  };
  /// Writes the states of the links that constraints name.
  void write_link_states(State& state);
  /// Computes A, b, M and the free acceleration at the trees' states and `state`, and factors them.
  /// @return why not, or empty
  std::string linearize(const System& system, const State& state, double t, FarJoints far_joints);
  /// Drops rows that depend on others up to `cut`, and factors again. @return whether there is a factor
  bool drop_dependent_rows(const System& system, const State& state, double cut);

  // ---- products, [columns] and [rows] ----
  /// From the solver's columns to the trees' joint coordinates.
  void to_joint_coordinates(std::span<double> v) const;
  void row_velocities(std::span<const double> v, std::span<double> out) const;
  /// λ = G⁺ e and dv = M⁻¹Aᵀλ in joint coordinates. @param lambda  may be empty
  void solve(std::span<const double> e, std::span<double> lambda, std::span<double> dv) const;
  /// The same with nothing asked of the dropped rows: e is zero there afterwards.
  void solve_kept(std::span<double> e, std::span<double> lambda, std::span<double> dv) const;
  /// The constraint forces (T5) for the free acceleration at hand: multipliers, and the acceleration that they make.
  /// @return the part of the rows that contradicts others, as Solver::apply() has it
  double solve_forces(std::span<double> lambda, std::span<double> acceleration);
  /// Returns whether a row is one of those on which all others depend. Where the rank is in doubt, all are.
  bool is_independent(int r) const { return !rank_.is_dropped(r) && (!is_clear_ || gram_.keeps(r)); }
  /// Writes a row of A in joint coordinates [columns].
  void row(int r, std::span<double> out) const;
  enum class Columns { joint, unit };  ///< joint coordinates, or those of the solver
  /// out += Aᵀλ in the columns of one tree. @param out  [its columns]
  void add_constraint_force(const ConstrainedTree& t, Columns in, std::span<const double> lambda,
                            std::span<double> out) const;
  /// Wrench that the multipliers make on body k of a constraint, [force; moment] about its centre of mass.
  Vector6 wrench_on(const ConstraintRows& c, int k, std::span<const double> lambda) const;
  /// Largest residual of position among the rows that are not dropped [m, rad].
  double largest_gap() const;
  /// Residual of the single row of a gear at joint positions `at_end` of its trees.
  double gear_residual_at_end(const ConstraintRows& c) const;
  /// Rounding of poses far from the origin: four units in the last place of the largest coordinate [m].
  double pose_rounding() const;

  BodyState state_of(const ConstraintBody& body, bool at_end) const;
  /// The problem in the trees' joint coordinates, with their mass matrices. Allocates.
  ConstrainedProblem problem_in_joint_coordinates() const;

  std::span<ConstrainedTree* const> trees() const { return trees_; }
  std::span<const ConstraintRows> constraints() const { return constraints_; }
  /// Constraints of the system may have moved in memory. @param find  find(rows): where one is now
  template <class Find>
  void find_constraints_again(Find find) {
    for (ConstraintRows& c : constraints_) c.constraint = find(c);
  }
  std::span<RigidBody> rigid_bodies() { return rigid_; }
  std::span<const RigidBody> rigid_bodies() const { return rigid_; }
  const ConstrainedProblem& problem() const { return problem_; }
  /// The general solver, which factors where it has not yet: most steps need the factor of few clear rows alone.
  const ConstraintFactorization& solver() const;
  /// Returns whether no row is redundant.
  bool full_row_rank() const { return is_clear_ ? gram_.full_row_rank() : solver_.full_row_rank(); }
  const TreeRank& rank() const { return rank_; }
  std::span<const double> position() const { return position_; }  ///< residuals of position at the start [rows]
  std::span<const double> velocity() const { return velocity_; }  ///< of velocity [rows]
  std::span<const double> start_velocity() const { return start_velocity_; }  ///< v₀ [columns]
  std::span<double> free_acceleration() { return free_; }                     ///< M⁻¹(Q − h) [columns]
  int columns() const { return problem_.n(); }
  int rows() const { return problem_.m(); }

 private:
  int lay_out_columns();
  int lay_out_rows(std::vector<std::string> names);
  void lay_out_path(ConstraintRows& c);
  void find_touched_links(const ConstraintRows& c, int tree, std::vector<std::size_t>& touched) const;
  void read_masses_and_forces(const System& system, const State& state);
  void read_rigid_body(const System& system, const BodyState& state, const RigidBody& b, std::size_t& mass);
  void linearize_gear(ConstraintRows& c);
  std::string linearize_function(ConstraintRows& c, const System& system, const State& state, double t,
                                 FarJoints far_joints);
  bool project_row(const ConstraintRows& c, int row);
  void measure_row(const ConstraintRows& c, int row, const System& system, const State& state);
  void append_joint_row(const ConstraintRows& c);
  void append_unit_rows(const ConstraintRows& c, int first, std::span<const bool> is_row);
  std::size_t first_rigid_mass() const;
  bool factor(const System& system, const State& state);

  std::vector<ConstrainedTree*> trees_;
  std::vector<ConstraintRows> constraints_;
  std::vector<RigidBody> rigid_;
  /// In the solver's columns: those of trees are of L⁻¹, so that their mass is one. Q has the rigid bodies alone.
  ConstrainedProblem problem_;
  std::vector<ConstrainedProblem::Entry> joint_entries_;  ///< A in joint coordinates, laid out as problem_.entries
  GramFactor gram_;                                       ///< of the problem where its rank is clear
  bool is_clear_ = false;                                 ///< gram_ is the factor, and not solver_
  mutable ConstraintFactorization solver_;
  mutable bool is_factored_ = false;  ///< solver_ has the factor of the problem
  TreeRank rank_;
  double rank_tolerance_ = 0, rank_cut_ = 0;
  std::vector<double> position_, velocity_, start_velocity_, free_;
  std::vector<double> row_, error_, scale_;               ///< scratch
  std::vector<KinematicTree::CoordinateRows> unit_rows_;  ///< scratch
  std::vector<BodyState> states_;                         ///< scratch
};

}  // namespace linchpin::articulated
