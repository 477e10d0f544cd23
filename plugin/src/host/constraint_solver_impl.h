// The parts of a ConstraintSolver.
#pragma once

#include "host/context.h"
#include "host/fast_island_solver.h"
#include "host/general_island_solver.h"
#include "host/island_builder.h"
#include "host/row_coupling.h"
#include "host/sleep_policy.h"
#include "host/worker_pool.h"

#include <memory>
#include <span>
#include <vector>

namespace linchpin::host {

struct LINCHPIN_PRIVATE ConstraintSolver::Impl {
  Impl(World& world, const SolverOptions& options)
      : c(world, options),
        builder(c),
        general(c),
        fast(c, std::max(1, options.threads)),
        coupling(c, general, fast),
        pool(options.threads > 1 ? std::make_unique<WorkerPool>(options.threads) : nullptr),
        states(pool ? static_cast<std::size_t>(pool->size()) : 1) {}

  bool start(Island& b);
  bool finish(Island& b);
  void group_by_topology();
  void begin_separate(std::span<Island* const> islands, int worker);
  void solve_on_threads();
  bool calls_the_program(const Island& b) const;
  void list_bodies();
  void leave_out_islands();
  void forget_approaching(Rows& rows);

  Context c;
  IslandBuilder builder;
  GeneralIslandSolver general;
  FastIslandSolver fast;
  RowCoupling coupling;
  SleepPolicy sleep;
  std::unique_ptr<WorkerPool> pool;                     // null where the caller does everything
  std::vector<SubstepStates> states;                    // by worker
  std::vector<Island*> separate;                        // islands on which no host row acts
  std::vector<std::span<Island* const>> same_topology;  // runs of them that are stepped side by side
  std::vector<BodyId> bodies;                           // memory of what is returned
  std::vector<char> separated;                          // the same, by id of body
  std::vector<RowVelocity> coupled, projected;
  std::vector<BodyState> read_memory;
};

}  // namespace linchpin::host
