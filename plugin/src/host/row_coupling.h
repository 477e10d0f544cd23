// Couples the host's rows with the constrained motion of islands. Where few rows act on an island, each has the
// response of the whole island to its impulse: y = P Jᵀ with P = M⁻¹ − M⁻¹AᵀG⁺AM⁻¹. The response keeps the constraints.
// A motor that holds a heavy load by a light part then acts on the load, not on the part. Iterations that alternate
// with the island would need as many rounds as the load is heavier than the part. A row is relaxed at most as far as
// the host relaxes it, so that iterations converge where the host's own do.
#pragma once

#include "host/context.h"
#include "host/fast_island_solver.h"
#include "host/general_island_solver.h"
#include "host/row_impulses.h"

#include <array>
#include <span>
#include <vector>

namespace linchpin::host {

class RowCoupling {
 public:
  RowCoupling(Context& c, GeneralIslandSolver& general, FastIslandSolver& fast)
      : c_(c), general_(general), fast_(fast) {}

  RespondingIslandSolver& solver_of(const Island& b) {
    if (b.step.path == Path::coupled) return fast_;
    return general_;
  }

  /// By index in Rows::bodies.
  BodySlots slots;

  /// Returns whether a row acts within one rigid part of an island. Its impulses on the part cancel. However, its lever
  /// turns with the part, and the host does not know the impulses of the welds.
  bool is_within_cluster(const Rows& rows, const Row& row) const;

  /// Finds the islands that welds make one rigid body of the host's row solver.
  std::span<const CompositeBody> find_composites();
  std::span<const CompositeBody> composites() const { return composites_; }
  CompositeRow on_composites(const Rows& rows, const Row& row) const;

  /// Finds the responses of islands on which few rows act. Rows on composite bodies are without their sides on them.
  /// @return whether there are such islands
  bool find_responses(const Rows& rows, const RowSettings& settings);
  const Response& response(std::span<const Row> rows, std::size_t i) const { return responses_[first_of(rows) + i]; }
  const RowChange& change(std::span<const Row> rows, std::size_t i) const { return changes_[first_of(rows) + i]; }
  /// Motion of the contacted bodies by unit impulses on rows, six numbers for each body of RowLoad::contacted.
  std::span<const double> motion() const { return motion_; }

 private:
  static constexpr int wanted = -2;  // a unit response that is not found yet
  std::size_t first_of(std::span<const Row> rows) const;
  void count_rows(const Rows& rows);
  bool prepare_islands();
  bool uses_unit_responses(const Row& row) const;
  void find_unit_responses(const Rows& rows);
  void respond(const Row& row);
  void solve_pending(std::vector<double>& to);
  bool responds(BodySlot at) const {
    return at.island >= 0 && c_.islands[at.island].step.method == RowMethod::responses;
  }
  double motion_of(const Row& row, const Response& response) const;
  double overlap_less(const Rows& rows, const Row& row, const Response& response) const;
  double target_less(const Rows& rows, const Row& row, const Response& response, const RowSettings& settings);

  Context& c_;
  GeneralIslandSolver& general_;
  FastIslandSolver& fast_;
  std::vector<CompositeBody> composites_;
  std::vector<int> composite_of_;           // by island; −1: none
  std::vector<Response> responses_;         // of contacts, joints, friction and rolling, one after the other
  std::vector<RowChange> changes_;          // in the same order
  std::array<const Row*, 4> first_rows_{};  // of each of these
  std::array<std::size_t, 4> first_responses_{};
  std::vector<double> motion_, moves_, unit_responses_;
  std::vector<int> rows_at_, unit_at_;  // by body: number of rows; its six unit responses, −1: none
};

/// Returns whether iterations have left a contact approaching faster than at the start. Such a contact must not be
/// warm-started: in a jammed mechanism its impulse would grow from step to step.
bool is_left_approaching(const BodySlots& slots, const Rows& rows, const Row& contact);

}  // namespace linchpin::host
