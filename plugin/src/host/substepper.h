// Takes a step of an island in substeps: chooses their lengths, and repeats those that are not accepted.
#pragma once

#include "host/step_acceptance.h"

#include <linchpin/host.h>

namespace linchpin::host {

struct Island;
struct Context;

/// One substep.
struct Substep {
  double done = 0;             ///< Time of the step that earlier substeps have covered [s].
  double length = 0;           ///< [s]
  double previous_length = 0;  ///< Length of the substep before [s].
  double desired_length = 0;   ///< Length that it would have if the step did not end [s].
  double force_time = 0;       ///< Time over which applied forces act in it [s].
  double omega_dt = 0;         ///< Frequency of the geometric stiffness times its length (T15).
  double gain = 0;             ///< Energy from constraints that can do no work [J].
  double explained = 0;        ///< Part of it that constraints which move have given [J].
  double kinetic = 0;          ///< Kinetic energy at its start, or a lower bound of it [J].
  double end_kinetic = 0;      ///< Kinetic energy at its end [J].
  int taken = 0;               ///< Number of earlier substeps.
  bool is_tested = true;       ///< Its ω·h and gain are tested. Where tries run out, the gain is damped instead.
  bool first() const { return done == 0; }
};

/// How an island takes one substep.
class SubstepMethod {
 public:
  virtual ~SubstepMethod() = default;
  virtual Acceptance attempt(Substep& s) = 0;
  /// Records an accepted substep, and moves on to its end.
  virtual void accept(const Substep& s) = 0;
  /// Returns the length to try in place of a substep that was too long [s].
  virtual double shorter(const Substep& s) { return 0.5 * s.length; }
  /// Returns the length of the substep after `s` [s].
  virtual double next(const Substep& s) = 0;
};

struct SubstepLimits {
  double shortest;   ///< [s]
  double longest;    ///< [s]
  int max_accepted;  ///< Most accepted substeps.
  int max_tested;    ///< Most tries, rejected ones included, whose ω·h and gain are tested.
};

struct SubstepResult {
  bool complete = false;
  int taken = 0;
  double last_length = 0, next_length = 0;  ///< [s]
};

/// Takes a step of dt.
/// @param first  length of the first substep [s]
/// @param previous  length of the step before [s]
SubstepResult take_substeps(SubstepMethod& method, const SubstepLimits& limits, double dt, double first,
                            double previous);

/// Returns the length of the first substep of a step whose ω·dt as a whole was `omega_dt`. It is no shorter than an
/// eighth of the step, because ω may be as wrong as the step was.
double first_substep(const Context& c, double omega_dt);
/// Keeps a step in substeps while the recorded ratio predicts that a whole step would be rejected. Two half steps often
/// pass the test of ω·dt so easily that a whole step seems possible although it was just rejected.
void keep_substeps(const Context& c, Island& b);
/// Returns the length of the shortest substep that is tried. A light link that a heavy load turns over, as the link
/// becomes taut, needs substeps that are far shorter than a step divided evenly.
double shortest_substep(const Context& c);
/// Returns the factor from the length of a substep of ω·h to that of the next one.
double growth(const Context& c, double omega_dt);
/// Returns the limits of semi-implicit substeps. Where the energy of host rows is bounded, few tries are tested,
/// because a program cannot wait longer than a frame.
/// @param price  price of a try, over that of a fast one
SubstepLimits semi_implicit_limits(const Context& c, const Island& b, double price);

}  // namespace linchpin::host
