// The step of a block that is nothing but stock joints of full row rank, which no native row touches and which asks for
// nothing out of the ordinary: what most mechanisms are in most steps. It is taken whole (linchpin::detail::JointStep)
// without the problem written down; that is made up for when somebody asks. Whatever is not plain in it goes the way of
// all others (group.cpp, step.cpp).
#include "engine.h"

#include "columns.h"
#include "energy_watch.h"

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

bool Engine::is_plain(BlockSolve& b) const {
  if (options_.mode != Mode::exact || !options_.drift_correction || options_.geometric_stiffness ||
      options_.stepping != Stepping::semi_implicit || b.with_laws || b.of_users || b.with_driven || b.geared ||
      b.wants_all || b.creeps || (b.last_length > 0 && b.last_length != dt_))
    return false;
  // Laid out once nothing has changed for a step: what is switched on and off time and again is not.
  const unsigned long structure = system_.structure();
  if (b.plain_for != structure) {
    b.plain_known = false;
    b.plain_for = structure;
    return false;
  }
  if (!b.plain_known) {
    b.plain_known = true;
    b.plain_fits = b.dynamics->assembly().laid_out_for == structure && b.plain.lay_out(system_, *b.dynamics);
  }
  return b.plain_fits;
}

// @return whether the step stands; if not, nothing that others read was changed
bool Engine::take_plainly(BlockSolve& b) {
  if (!is_plain(b)) return false;
  b.start_lambda.resize(b.lambda.size());
  predict(b);
  const auto outcome = b.plain.take(system_, state_,
                                    {.dt = dt_,
                                     .newton_tolerance = options_.newton_tolerance,
                                     .gap_tolerance = options_.gap_tolerance,
                                     .max_solves = options_.max_newton,
                                     .swing = options_.swing_limit},
                                    {.Q = b.Q,
                                     .applied = b.applied,
                                     .newton = b.lambda,
                                     .v = b.v,
                                     .start = b.start_lambda,
                                     .total = b.own_lambda,
                                     .mean = b.e});
  const bool jumps = outcome.off > 2 * b.usual_off && outcome.off > 1e-13 * outcome.fastest;
  if (outcome.refused || jumps || outcome.gain > allowed_gain * outcome.kinetic) {
    std::fill(b.lambda.begin(), b.lambda.end(), 0.0);
    return false;
  }
  b.plainly = true;
  b.answered = true;
  b.told = false;
  b.usual_off = outcome.off;
  b.swing = outcome.swing;
  b.newton = outcome.solves;
  b.tally.newton += outcome.solves;
  ++b.tally.factors;
  ++b.tally.solves;
  note_added(b);
  if (turns_beyond_host(b)) start_from_true_turn(b);
  return true;
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
