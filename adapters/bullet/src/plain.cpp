// The step of a block that is nothing but stock joints of full row rank, which no native row touches and which asks for
// nothing out of the ordinary: what most mechanisms are in most steps. It is taken whole (linchpin::detail::JointStep),
// four alike at a time, without the problem written down; that is made up for when somebody asks. Whatever is not plain
// in it goes the way of all others (group.cpp, step.cpp).
#include "engine.h"

#include "columns.h"
#include "energy_watch.h"

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

// Laid out once nothing has changed for a step: what is switched on and off time and again is not.
void Engine::lay_out_plain(BlockSolve& b) {
  const unsigned long structure = system_.structure();
  b.plain_fits = false;
  if (options_.mode != Mode::exact || !options_.drift_correction || options_.stepping != Stepping::semi_implicit ||
      b.with_laws || b.of_users || b.with_driven || b.geared)
    return;
  if (std::exchange(b.plain_for, structure) != structure) {
    b.plain_known = false;
    return;
  }
  if (!b.plain_known) {
    b.plain_known = true;
    if (b.dynamics->assembly().laid_out_for == structure) b.plain.lay_out(system_, *b.dynamics, joint_shapes_);
  }
  b.plain_fits = b.plain.shape() != nullptr;
}

// Takes the plain steps among those of some blocks of one shape whose bodies have been read. Where one does not stand,
// nothing that others read was changed.
void Engine::take_plainly(std::span<const int> blocks, int member) {
  std::array<detail::JointStep::Job, detail::JointStep::most> jobs;
  std::array<BlockSolve*, detail::JointStep::most> of{};
  std::size_t count = 0;
  for (const int index : blocks) {
    BlockSolve& b = *blocks_[z(index)];
    if (!b.plain_fits || b.stage == BlockSolve::Stage::refused || b.creeps || !b.stiffness.empty() ||
        (b.last_length > 0 && b.last_length != dt_))
      continue;
    b.start_lambda.resize(b.lambda.size());
    predict(b);
    of[count] = &b;
    jobs[count++] = {.of = &b.plain,
                     .numbers = {.Q = b.Q,
                                 .applied = b.applied,
                                 .newton = b.lambda,
                                 .v = b.v,
                                 .start = b.start_lambda,
                                 .total = b.own_lambda,
                                 .mean = b.e}};
  }
  if (count == 0) return;
  detail::JointStep::take(system_, state_,
                          {.dt = dt_,
                           .newton_tolerance = options_.newton_tolerance,
                           .gap_tolerance = options_.gap_tolerance,
                           .max_solves = options_.max_newton,
                           .swing = options_.swing_limit},
                          std::span(jobs).first(count), member);
  for (std::size_t i = 0; i < count; ++i) end_plainly(*of[i], jobs[i].outcome);
}

void Engine::end_plainly(BlockSolve& b, const detail::JointStep::Outcome& outcome) {
  const bool jumps = outcome.off > 2 * b.usual_off && outcome.off > 1e-13 * outcome.fastest;
  if (outcome.refused || jumps || outcome.gain > allowed_gain * outcome.kinetic) {
    std::fill(b.lambda.begin(), b.lambda.end(), 0.0);
    return;
  }
  b.stage = BlockSolve::Stage::solved;
  b.plainly = b.answered = true;
  b.told = false;
  b.usual_off = outcome.off;
  b.swing = outcome.swing;
  b.newton = outcome.solves;
  b.tally.newton += outcome.solves;
  ++b.tally.factors;
  ++b.tally.solves;
  b.next_stiffness.clear();
  note_added(b);
  if (turns_beyond_host(b)) start_from_true_turn(b);
}

Dynamics& Engine::problem(BlockSolve& b) const {
  if (!b.plainly) return *b.dynamics;
  b.plainly = false;
  b.dynamics->evaluate(state_, b.Q);
  // Both records in the digits of the one that is asked for.
  const auto lambda = b.dynamics->lambda();
  for (std::size_t i = 0; i < b.lambda.size(); ++i) b.lambda[i] = b.own_lambda[i] - dt_ * lambda[i];
  return *b.dynamics;
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
