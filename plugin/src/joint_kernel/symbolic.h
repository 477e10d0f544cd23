// The symbolic factor of G = A M⁻¹ Aᵀ of an island (T7): which joints meet on which bodies, their order of elimination,
// and the place of every number of the factor. It is all of a JointKernel that numbers do not decide. Islands with
// equal symbolic factors can be solved side by side.
#pragma once

#include "model/primitives/ranges.h"

#include <linchpin/assembly.h>

#include <array>
#include <vector>

namespace linchpin::detail {

struct StockJoints;

struct SymbolicFactor {
  static constexpr int max_width = 6;        ///< rows of a joint
  static constexpr int max_high_degree = 8;  ///< high-degree bodies
  static constexpr int body_columns = 6;     ///< columns of a high-degree body
  static constexpr int body_stride = 8;      ///< numbers from row to row of them: two SIMD vectors of four

  /// All of a joint that a solve needs to know. The ancestors of a joint are the joints that its elimination fills.
  struct Elimination {
    int first = 0, width = 0;                    ///< its rows
    int ancestors_begin = 0, ancestors_end = 0;  ///< in `ancestors`
    int diagonal = 0, panel = 0;                 ///< places of D, and of the blocks of L by ancestor
    bool operator==(const Elimination&) const = default;
  };
  /// A joint.
  struct Node : Elimination {
    int a = 0, b = 0;                            ///< its bodies
    PrimitiveRanges primitives;                  ///< in SymbolicFactor::primitives
    int height = 0;                              ///< rows of all its ancestors
    int updates = 0;                             ///< where its places begin in SymbolicFactor::updates
    bool three_rows_only = false;                ///< it and its ancestors have three rows each
    int couplings_begin = 0, couplings_end = 0;  ///< in `couplings`
    int coupling_updates = 0;                    ///< where its places begin in SymbolicFactor::coupling_updates
    bool operator==(const Node&) const = default;
  };
  struct Ancestor {
    int node = 0, first = 0, width = 0;
    int offset = 0;  ///< row in the panel
    bool operator==(const Ancestor&) const = default;
  };
  /// The rows of a joint in the columns of a high-degree body, directly or by what was eliminated into the joint.
  struct Coupling {
    int index = 0;   ///< of the body, in `high_degree_bodies`
    int values = 0;  ///< place of [width × body_stride]
    bool operator==(const Coupling&) const = default;
  };
  /// An end of a joint on a high-degree body.
  struct HighDegreeEnd {
    int node = 0, side = 0, body = 0;
    int values = 0;  ///< of their coupling
    bool operator==(const HighDegreeEnd&) const = default;
  };
  /// The ends of two joints, or of one joint twice, on a body that moves. Node i is not before node j.
  struct BlockPair {
    int i = 0, j = 0, side_i = 0, side_j = 0, body = 0;
    int target = 0;                  ///< place of their product
    int point_i = -1, point_j = -1;  ///< their points, where each of them has one point and nothing else
    bool operator==(const BlockPair&) const = default;
  };

  /// A row with compliance. The multipliers of such rows come after those of the Block, in the order of this list.
  struct CompliantRow {
    int row = 0;                   ///< of the factor
    int diagonal = 0;              ///< place of its number on the diagonal
    int joint = 0, joint_row = 0;  ///< joint of StockJoints, and the row of all its rows
    bool operator==(const CompliantRow&) const = default;
  };

  std::vector<Node> nodes;  ///< in the order of elimination
  /// How many nodes are eliminated. The nodes after them are on nothing but high-degree and fixed bodies.
  int eliminated = 0;
  std::vector<Ancestor> ancestors;
  /// The nodes that have one as an ancestor, from descendants_begin[node] to descendants_begin[node + 1].
  std::vector<int> descendants, descendants_begin;
  std::vector<int> updates;  ///< places of the products of a node's ancestors, in their order
  std::vector<BlockPair> block_pairs;
  /// Bodies of so many joints that they are unknowns of their own (HighDegreeBodies).
  std::vector<int> high_degree_bodies;
  std::vector<Coupling> couplings;
  std::vector<int> coupling_updates;  ///< places of a node's couplings in those of its ancestors
  std::vector<HighDegreeEnd> high_degree_ends;
  std::array<std::vector<int>, primitive_count> primitives;  ///< in StockJoints, by primitive
  /// Where the ends on a body that moves begin in body_ends, by primitive. There is one body more.
  std::vector<PrimitiveIndices> ends_of;
  std::vector<int> body_ends;  ///< twice the place of a primitive, plus its side
  std::vector<int> row_of;     ///< row of the Block, and after those the compliant rows, by row of the factor
  std::vector<CompliantRow> compliant;
  std::vector<int> joint_of;  ///< joint of StockJoints and of the Block, by node
  int bodies = 0, all_bodies = 0, rows = 0, values = 0, widest_panel = 0, coupling_values = 0;
  /// All joints are welds: they stand in their own order, and none is eliminated (CompositeBody).
  bool is_composite = false;

  bool operator==(const SymbolicFactor&) const = default;

  /// @param ids  in: the bodies of the island; out: and after them those outside it that its joints are on
  /// @return false where the factor would fill up, or the bodies are not of the kind
  bool lay_out(const StockJoints& stock, const IslandLayout& layout, std::vector<BodyId>& ids);
};

}  // namespace linchpin::detail
