// Reports of the last step of trees: reactions, rank, the sensors in joints, gaps. Private to the core.
#pragma once

#include "articulated/tree_island.h"
#include "articulated/tree_laws.h"
#include "host/context.h"

#include <linchpin/report.h>

#include <string>
#include <vector>

namespace linchpin::articulated {

class TreeReports {
 public:
  TreeReports(const TreeContext& context, TreeLaws& laws)
      : c_(context.host), world_(context.world), t_(context.island), laws_(laws) {}

  /// A step begins: what nobody has read is past.
  void begin_step() { is_current_ = joints_are_current_ = true; }
  /// Its step has ended, and the constraints have been solved in it.
  void make_stale() { is_current_ = false; }
  void make_joints_stale() { joints_are_current_ = false; }
  /// Collects accelerations and what acts on the links, for the sensors in joints.
  void collect();
  /// After the host has integrated: measures the gaps of constraints on links. A constraint with memory accepts the
  /// pose.
  void measure_gaps();

  void update();
  void update_redundancy();
  RankReport rank_report() const;  ///< indices as reactions()
  Wrench joint_wrench(int tree, int link);
  JointForces joint_forces(int tree, int link);

 private:
  RankReport ranks() const;
  void measure_gap(const ConstraintRows& c, Reaction& to);
  void report_constraints();
  void report_constraint(const ConstraintRows& c, std::size_t first, Reaction& to);
  Vector3d application_point(const ConstraintRows& c, int body) const;
  void add_prescribed(std::size_t constraint, int entry, Reaction& to);
  void report_joint(int entry, Reaction& to);
  void write_joint_reaction(int entry, LinkTable::Place joint, Tree& t, Reaction& to);
  std::string why_no_report(LinkTable::Place joint);
  void demand_report(LinkTable::Place joint);
  const std::vector<Wrench>& wrenches_through_joints(Tree& t);
  const std::vector<Wrench>& corrections_through_joints(Tree& t);
  Wrench correction_through_joint(Tree& t, int link, const Wrench& reaction);
  void update_forces(Tree& t);
  bool is_in_problem(const Tree& t) const { return t_.is_held() && t.column >= 0; }
  bool has_laws() const { return t_.prescribed.is_known; }

  host::Context& c_;
  TreeWorld& world_;
  TreeIsland& t_;
  TreeLaws& laws_;
  bool is_current_ = true, joints_are_current_ = true;
  std::vector<BodyState> states_;  // scratch
  std::vector<double> residual_;   // scratch
};

}  // namespace linchpin::articulated
