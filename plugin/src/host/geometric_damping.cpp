#include "host/geometric_damping.h"

#include "host/body_vectors.h"
#include "host/start_of_step.h"
#include "host/tuning.h"

#include <linchpin/projection.h>

namespace linchpin::host {

namespace {

/// Finds K⁺ of the forces of the step, for bodies whose ω·dt is half of the limit or more.
/// @return whether there is one
bool find_stiffness(const Context& c, Island& b) {
  std::vector<Matrix3d>& found = b.history.stiffness;
  geometric_stiffness(c.system, *b.dynamics, c.bodies.start, b.x.mean_force, found);
  const double slow = tuning::stiffened_share * tuning::stiffened_share * c.options.max_tension_frequency *
                      c.options.max_tension_frequency / (c.dt * c.dt);
  bool any = false;
  for (std::size_t slot = 0; slot < found.size(); ++slot) {
    Matrix3d& K = found[slot];
    if (K.isZero(0)) continue;
    const double least = c.system.inertia(b.layout().bodies[slot]).diagonal().minCoeff();  // principal moments
    if (!K.allFinite() || K.norm() <= slow * least)
      K.setZero();
    else
      any = true;
  }
  if (!any) found.clear();
  return any;
}

}  // namespace

void begin_stiffness(const Context& c, Island& b) {
  if (!b.step.is_sized) size_vectors(c, b);
  b.stiffness.clear();
  const bool goes_on = b.history.last_length == c.dt && b.history.stiffness.size() == b.slots();
  set_stiffness(c, b, goes_on ? std::span<const Matrix3d>(b.history.stiffness) : std::span<const Matrix3d>{});
}

void set_stiffness(const Context& c, Island& b, std::span<const Matrix3d> K) {
  const auto apply = [&](double sign) {  // −½ dt² K⁺ω is an impulse; as a force it belongs to Q
    for (std::size_t slot = 0; slot < b.stiffness.size(); ++slot) {
      if (b.stiffness[slot].isZero(0)) continue;
      const int column = b.layout().column[slot] + 3;
      const Vector3d impulse = sign * (b.stiffness[slot] * head(b.x.v0, column));
      add(b.x.applied, column, impulse);
      for (auto* Q : {&b.x.Q, &b.x.Q_total}) add(*Q, column, impulse / c.dt);
    }
  };
  apply(1);
  b.stiffness.assign(K.begin(), K.end());
  for (Matrix3d& k : b.stiffness) k *= 0.5 * c.dt * c.dt;
  apply(-1);
  if (b.stiffness.empty() && !b.dynamics) return;
  if (!b.dynamics) make_dynamics(c, b);
  b.dynamics->add_inertia(b.stiffness);
}

bool add_stiffness(Context& c, Island& b) {
  if (!find_stiffness(c, b)) return false;
  b.history.extrapolation_steps = 0;
  set_stiffness(c, b, b.history.stiffness);
  ++b.stats.factorizations;
  return b.dynamics->evaluate(c.bodies.start, all_forces(b)) != Status::invalid;
}

void note_stiffness(const Context& c, Island& b) {
  for (std::size_t slot = 0; slot < b.stiffness.size(); ++slot) {
    if (b.stiffness[slot].isZero(0)) continue;
    const int column = b.layout().column[slot] + 3;
    const Vector3d w0 = head(b.x.v0, column), w1 = head(b.x.v, column);
    b.stats.stiffness_work -= (b.stiffness[slot] * w1).dot(0.5 * (w0 + w1));
  }
  if (b.stiffness.empty()) return b.history.stiffness.clear();  // it begins only where a step is too long
  ++b.stats.stiffened_steps;
  find_stiffness(c, b);
}

}  // namespace linchpin::host
