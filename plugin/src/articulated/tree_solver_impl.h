// The parts of a tree solver. Private to the core.
#pragma once

#include "articulated/tree_balance.h"
#include "articulated/tree_island.h"
#include "articulated/tree_island_solver.h"
#include "articulated/tree_laws.h"
#include "articulated/tree_layout.h"
#include "articulated/tree_reports.h"
#include "articulated/tree_unilateral.h"
#include "articulated/tree_watch.h"
#include "host/context.h"

#include <memory>
#include <string>
#include <vector>

namespace linchpin::articulated {

struct LINCHPIN_PRIVATE TreeSolver::Impl final : host::Companion {
  Impl(host::ConstraintSolver& of_solver, TreeWorld& w, RotationOverStep rotation)
      : owner(of_solver),
        c(owner.context()),
        world(w),
        t(rotation),
        laws(parts, layout),
        balance(parts, laws, layout),
        solver(parts, laws, balance),
        reports(parts, laws) {}

  // host::Companion
  void update_reports() override { reports.update(); }
  void append_balances() override {
    world.find_trees();  // Trees that have gone since have no balances.
    balance.append();
  }
  void update_redundancy() override { reports.update_redundancy(); }
  int rows() const override { return t.is_held() ? t.constraints.solver().rows() : 0; }
  int rank() const override { return t.is_held() ? t.constraints.solver().rank() : 0; }
  RankReport rank_report() const override { return reports.rank_report(); }
  bool has(int entry) const override;
  std::string why_no_law(int entry) const override { return laws.why_no_law(entry); }
  void add_law(int entry, const Law& law) override { laws.add(entry, law); }
  /// The problem in the trees' own coordinates, with their mass matrices.
  ConstrainedProblem problem() const override { return t.constraints.problem_in_joint_coordinates(); }
  std::vector<host::HostPart> host_parts() const override { return notes; }
  std::vector<host::Finding> check() override;
  std::shared_ptr<const Dynamics::LawHistory> law_history() const override { return laws.history(); }
  void restore(std::shared_ptr<const Dynamics::LawHistory> history) override;
  void end_step() override;
  bool read_state(BodyId body, BodyState& out) const override {
    bool moves = false;
    return layout.read_state(body, out, moves);
  }
  void reset() override {
    laws.reset();
    world.mesh_gears();
  }

  void lay_out();

  // A step.
  void read_trees();
  bool wake();
  void leave_to_host();
  void read_velocities_of_links();
  void read_velocities_among_rows(bool first);
  void add_change();
  void read_row_impulses();
  void note_step();
  void read_velocities_of_bodies();
  void write_velocities();
  void add_work();
  void report_joints();
  void report_joint(const ConstraintRows& rows, std::size_t first);

  host::ConstraintSolver& owner;
  host::Context& c;
  TreeWorld& world;
  TreeIsland t;
  const TreeContext parts{c, world, t};
  TreeLayout layout{parts};
  TreeUnilateral unilateral{parts};
  TreeLaws laws;
  TreeBalance balance;
  TreeIslandSolver solver;
  TreeReports reports;
  TreeWatch watch{parts, layout};
  std::vector<host::HostPart> notes;  ///< constraints of which laws are not in force
  host::SubstepStates states;         ///< memory of steps in substeps
  std::vector<double> velocity;       ///< scratch: of one tree
};

}  // namespace linchpin::articulated
