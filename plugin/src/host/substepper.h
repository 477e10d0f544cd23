// The loop that takes a step of an island in substeps: it chooses their lengths, and repeats those that may not stand.
#pragma once

#include <linchpin/host.h>

namespace linchpin::host {

struct Island;
struct Context;

/// One substep.
struct Substep {
  double done = 0;        ///< time behind it in the step [s]
  double length = 0;      ///< its own [s]
  double before = 0;      ///< of the last one [s]
  double wish = 0;        ///< length that it would have, were it not for the end of the step [s]
  double weight = 0;      ///< time over which applied forces act in it [s]
  double omega_dt = 0;    ///< frequency of the geometric stiffness times its length (T15)
  double gain = 0;        ///< energy from constraints that can do no work [J]
  double kinetic = 0;     ///< kinetic energy at its start, or a lower bound of it [J]
  int taken = 0;          ///< substeps behind it
  bool is_judged = true;  ///< by ω·h and gain; where tries run out, what it gains is damped instead
  bool first() const { return done == 0; }
};

enum class Verdict {
  accepted,
  repeat,  ///< once more with the same length: host rows were left out
  too_long,
  impossible  ///< no shorter substep would help
};

/// How an island takes one substep.
class SubstepMethod {
 public:
  virtual ~SubstepMethod() = default;
  virtual Verdict attempt(Substep& s) = 0;
  /// The substep stands: records it, and moves on to its end.
  virtual void accept(const Substep& s) = 0;
  /// Length to try in place of a substep that was too long [s].
  virtual double shorter(const Substep& s) { return 0.5 * s.length; }
  /// Length of the substep after `s` [s].
  virtual double next(const Substep& s) = 0;
};

struct SubstepLimits {
  double shortest;  ///< [s]
  int most;         ///< accepted substeps
  int most_judged;  ///< tries, refused ones included, that are judged by ω·h and gain
};

struct SubstepResult {
  bool complete = false;
  int taken = 0;
  double last_length = 0, next_length = 0;  ///< [s]
};

/// Takes a step of dt. @param first  length of the first substep @param before  of the step before [s]
SubstepResult take_substeps(SubstepMethod& method, const SubstepLimits& limits, double dt, double first, double before);

/// Length of the first substep of a step whose ω·dt as a whole was `omega_dt`. It is no shorter than an eighth of the
/// step, as ω may be as wrong as the step was.
double first_substep(const Context& c, double omega_dt);
/// The shortest substep that is tried. A light link that a heavy load turns over as it snaps taut needs some that are
/// far shorter than a step shared out evenly.
double shortest_substep(const Context& c);
/// Factor from the length of a substep of ω·h to that of the next one.
double growth(const Context& c, double omega_dt);
/// Limits of semi-implicit substeps. Where the energy of host rows is bounded, few tries are judged, as a program
/// cannot wait longer than a frame. @param price  of a try, over that of a fast one
SubstepLimits semi_implicit_limits(const Context& c, const Island& b, double price);

}  // namespace linchpin::host
