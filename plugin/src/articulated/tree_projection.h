// Projection on the constraints in joint coordinates (T12). Gaps of a step's start are closed by moving. The velocities
// of a step are made to end it on the constraints, by Newton on the host's own integrator. Private to the core.
#pragma once

#include "articulated/tree_constraints.h"

#include <linchpin/detail/anderson.h>
#include <linchpin/system.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace linchpin::articulated {

/// Access to the poses, which the host holds, while gaps are closed.
class PoseAccess {
 public:
  virtual ~PoseAccess() = default;
  /// Writes a configuration, and reads the tree as the host has it then: a host in single precision rounds it.
  virtual void move_tree(int tree, const Configuration& to) = 0;
  virtual void move_body(BodyId id, const BodyState& to) = 0;
  /// Reads the states of the bodies of the problem that are no links.
  virtual void read_bodies() = 0;
};

/// One step of the host.
struct TreeStep {
  const System& system;
  State& state;       ///< at its start
  const State& base;  ///< where the host integrates the rigid bodies from
  State& end;         ///< overwritten: rigid bodies where a velocity leads
  double t, dt;
};

struct ProjectionOptions {
  double gap_tolerance, newton_tolerance;  ///< [m, rad]
  int max_newton;
};

/// How gaps were closed.
struct GapClosing {
  double moved = 0;     ///< longest way of a centre of mass in one iteration [m]
  double turned = 0;    ///< sum over the iterations of the widest angle [rad]
  bool is_any = false;  ///< whether something was moved
  /// The widest angle by which a joint was turned so far from where it is held that its dots do not tell the way [rad],
  /// and the joint, by index of TreeConstraints::constraints().
  double widest = 0;
  int widest_constraint = -1;
  std::string failure;  ///< empty, or why there are no rows any more
};

class TreeProjection {
 public:
  /// @param rotation  of the host's integrator, for the rigid bodies
  TreeProjection(TreeConstraints& constraints, RotationOverStep rotation)
      : constraints_(constraints), rotation_(rotation) {}
  void set_options(const ProjectionOptions& options) { options_ = options; }
  void lay_out();  ///< after that of the constraints

  // ---- positions ----
  void begin_step();  ///< no gap is left open as yet
  /// Returns whether there is a gap beyond the tolerance, or a joint is turned far.
  bool has_gap(const State& state) const;
  GapClosing project_positions(const TreeStep& step, PoseAccess& poses);

  // ---- velocities ----
  /// Corrects v until the step ends on the constraints, or where it is nearest to them if they contradict each other.
  /// Multipliers are added to `impulse`. error() is good afterwards.
  /// @return whether it ends on the constraints
  bool solve_end_of_step(const TreeStep& step, std::span<double> v, std::vector<double>& impulse, double tolerance,
                         int max_solves);
  /// One solve of that Newton.
  void correct_once(const TreeStep& step, std::span<double> v, std::span<double> impulse);
  /// Puts v on the rows' velocities of the start of the step, where no Newton ends: gaps are then closed by moving.
  void project_velocities(std::span<double> v, std::span<double> impulse);
  /// Solves of the Newtons since this was asked last.
  int take_solves() { return std::exchange(solves_, 0); }
  /// Returns whether rows of a constraint are unmet at the end of the step by more than the gap tolerance.
  bool is_unmet(const ConstraintRows& c, double dt) const;

 private:
  /// One iteration that closes gaps.
  struct GapStep {
    bool ends = false;             ///< there is none that would
    bool is_on_long_way = false;   ///< shortened, from where gaps are wide
    double length = 0, angle = 0;  ///< [m], [rad]
  };

  double widest_angle(const State& state, int& which) const;
  void close_gaps_by_rows(GapClosing& out);
  GapStep take_gap_step();
  GapStep shorten_gap_step(double open, double scale, double angle, double length);
  bool widen_rank_cut();
  void leave_gaps_open();
  double angle_of(std::span<const double> d) const;
  double try_displacement(double scale);
  bool displace(double scale);
  bool arrive(double scale);
  bool linearize();

  double residuals(const TreeStep& step, std::span<const double> v);
  void try_step(const TreeStep& step, std::span<const double> v, double h);
  double residuals_of(const TreeStep& step, const ConstraintRows& c, double h);
  void evaluate(const TreeStep& step, const ConstraintRows& c, double h, std::span<double> out);

  TreeConstraints& constraints_;
  RotationOverStep rotation_;
  ProjectionOptions options_{};
  int solves_ = 0;
  std::vector<double> left_open_;  ///< by row: a gap that no motion closes is held as it is

  // While gaps are closed.
  const TreeStep* step_ = nullptr;
  PoseAccess* poses_ = nullptr;
  TreeConstraints::FarJoints far_joints_ = TreeConstraints::FarJoints::as_they_are;
  std::string failure_;
  std::vector<double> displacement_;

  // Scratch of a Newton.
  std::vector<double> error_, lambda_, dv_, chord_, rates_, start_rates_;
  std::vector<double> best_v_, best_impulse_;  ///< where it has been nearest to its end
  linchpin::detail::AndersonAcceleration anderson_;
  std::vector<BodyState> states_;
};

}  // namespace linchpin::articulated
