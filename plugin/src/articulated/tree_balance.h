// The momentum balances of links of trees, and of the rigid bodies that are joined to them (T11). A link counts as a
// body of its own: the joints of its tree act on it as constraints. Private to the core.
#pragma once

#include "articulated/tree_island.h"
#include "articulated/tree_laws.h"
#include "articulated/tree_layout.h"
#include "host/context.h"

#include <linchpin/report.h>

#include <span>
#include <vector>

namespace linchpin::articulated {

// Joint coordinates know no reactions of their own joints. They follow from the motion of the links outward of a joint,
// without the part along the coordinates of the joint. That part has to vanish with the other terms, which have records
// of their own: one number for each coordinate, and six for a base that moves.
class TreeBalance {
 public:
  TreeBalance(const TreeContext& context, TreeLaws& laws, TreeLayout& layout)
      : c_(context.host), t_(context.island), laws_(laws), layout_(layout) {}

  /// A step begins, or the data of the last one are gone.
  void forget();
  /// The host's rows are solved: keeps what they did, before velocities are written and reports add to it.
  void note_rows();
  /// The step is solved: keeps what laws did in it.
  void note_step();
  /// Velocities are written: keeps those that the host has.
  void note_velocities(TreeWorld& world);
  /// Appends the balances of the last step. Gives ids to links.
  void append();

  // ---- a step in substeps ----
  /// Begins sums over substeps.
  void begin_parts();
  /// The substeps were not accepted.
  void drop_parts() { has_parts_ = false; }
  /// Adds a substep of length h from the present states of trees and rigid bodies to the velocities x.v.
  /// @param bodies       states of the rigid bodies @param share  part of the impulses of the host's rows
  /// @param multipliers  impulses [rows]
  void add_part(const State& bodies, double h, double share, std::span<const double> multipliers);

 private:
  /// A part of a step: of the whole, or a substep.
  struct Part {
    double h, share;  ///< [s], and of the impulses of the host's rows
    std::span<const double> multipliers;
  };
  /// Sizes of linear and angular momentum, without what cancels.
  struct Size {
    double linear, angular;
  };
  void add_tree(Tree& t, const Part& part);
  void add_rotors(Tree& t);
  void measure_motion(Tree& t);
  void add_host(Tree& t, const Part& part);
  void add_constraints(Tree& t, const Part& part);
  void add_joints(Tree& t);
  void add_rigid(LoopBody& b, const BodyState& state, const Part& part);
  void append_tree(int index);
  bool is_in_problem(const Tree& t) const { return t_.is_held() && t.column >= 0; }
  bool has_laws() const { return t_.prescribed.is_known; }

  host::Context& c_;
  TreeIsland& t_;
  TreeLaws& laws_;
  TreeLayout& layout_;
  bool is_current_ = true, has_parts_ = false;
  std::vector<Vector6> motion_, outside_, carried_;         // scratch: impulses on the links of a tree, base first
  std::vector<Size> sizes_;                                 // scratch
  std::vector<Wrench> applied_, pairs_;                     // scratch
  std::vector<double> change_, efforts_, rest_, leverage_;  // scratch
};

}  // namespace linchpin::articulated
