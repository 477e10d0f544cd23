// Which joints of a block meet on which bodies, in the order in which they are eliminated (T7): all of a JointKernel
// that its numbers do not decide.
#pragma once

#include "model/stock_joints.h"

#include <linchpin/assembly.h>

#include <vector>

namespace linchpin::detail {

struct SymbolicFactor {
  static constexpr int widest = 6;     // rows of a joint
  static constexpr int most_hubs = 8;  // bodies that are unknowns of their own: see HighDegreeBodies
  static constexpr int hub_columns = 6,
                       hub_stride = 8;  // columns of one; and between rows of them, for they are taken in fours
  struct Elimination {                  // all of a joint that a solve needs to know
    int first = 0, width = 0;           // its rows
    int below = 0, below_end = 0;       // what its elimination touches
    int diagonal = 0, panel = 0;        // where its numbers are
    bool operator==(const Elimination&) const = default;
  };
  struct Node : Elimination {  // a joint
    int a = 0, b = 0;          // its bodies
    int points = 0, points_end = 0, axes = 0, axes_end = 0, dots = 0, dots_end = 0;
    int axis_row = 0, dot_row = 0;  // where among its rows those begin: points come first
    int height = 0;                 // rows that its elimination touches
    int updates = 0;
    bool threes = false;  // those, like it, have three rows each
    int holds = 0, holds_end = 0,
        hold_updates = 0;  // hubs that it holds on to, itself or by what was eliminated into it
    bool operator==(const Node&) const = default;
  };
  struct Hold {
    int hub = 0, values = 0;  // [width × hub_stride]
    bool operator==(const Hold&) const = default;
  };
  struct Grip {  // of a joint's end on a hub
    int node = 0, side = 0, body = 0, values = 0;
    bool operator==(const Grip&) const = default;
  };
  struct Below {
    int node = 0, first = 0, width = 0;
    int offset = 0;  // row in the panel
    bool operator==(const Below&) const = default;
  };
  struct Meeting {  // of the ends of two joints, or of one with itself, on a body that moves: i not before j
    int i = 0, j = 0, side_i = 0, side_j = 0, body = 0;
    int target = 0;                // where their product is
    int ball_i = -1, ball_j = -1;  // their points, where both have one and nothing else
    bool axes = false;             // whether either has any
    bool operator==(const Meeting&) const = default;
  };
  struct Ends {  // on a body that moves: where among all ends those of points, axes and dots begin, up to the next
                 // body's
    int points = 0, axes = 0, dots = 0;
    bool operator==(const Ends&) const = default;
  };
  std::vector<Node> nodes;  // those that hold on to nothing but hubs, and what is fixed, at the end
  int eliminated = 0;       // all before them
  std::vector<Below> belows;
  std::vector<int> aboves, above;  // nodes whose elimination touches one: from above[node] to above[node + 1]
  std::vector<int> updates;        // where products of a node's belows go, in their order
  std::vector<Meeting> meetings;
  std::vector<int> hubs;  // bodies
  std::vector<Hold> holds;
  std::vector<int> hold_updates;  // where a node's holds go in those of its belows
  std::vector<Grip> grips;
  std::vector<int> points, axes, dots;  // in StockJoints
  std::vector<Ends> ends_of;            // by body, and one more
  std::vector<int> body_ends;           // twice the place of a point, an axis or a dot above, and its side
  std::vector<int> row_of;              // row of the block
  std::vector<int> joint_of;            // by node: in StockJoints, and in the block
  int bodies = 0, all_bodies = 0, rows = 0, values = 0, widest_panel = 0, hold_values = 0;
  bool welds = false;  // nothing else: joints in their own order, none eliminated (CompositeBody)

  bool operator==(const SymbolicFactor&) const = default;

  /// @param ids  in: the block's bodies; out: and those that its joints hold on to besides
  /// @return false where its factor would fill up, or its bodies are not of the kind
  bool lay_out(const StockJoints& stock, const Block& block, std::vector<BodyId>& ids);
};

}  // namespace linchpin::detail
