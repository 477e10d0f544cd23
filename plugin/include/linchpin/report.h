// What the forces were: wrenches on bodies, parts, power, work, residuals, and whether the books balance.
#pragma once

#include <linchpin/dynamics.h>
#include <linchpin/system.h>
#include <linchpin/wrench.h>

#include <iosfwd>
#include <span>
#include <string>
#include <vector>

namespace linchpin {

/// One constraint at one time (design: two forces, T11). The wrenches of the base are the instantaneous reaction:
/// ideal + induced + prescribed.
struct Reaction : Wrenches {
  std::string name;
  /// [s] of the state the forces belong to, laws included: in a host the state before the step, without one the current
  double t = 0;
  Wrenches ideal;          ///< A_iᵀλ, does no virtual work (T9)
  Wrenches prescribed;     ///< what the laws returned: friction (T9)
  Wrenches induced;        ///< normal forces that all prescribed forces call up, −A_iᵀ(G⁺A M⁻¹Σc)_i (T9)
  Wrenches stabilisation;  ///< mean over the last step of what was applied beyond the reaction, to end the step on the
                           ///< constraint
  std::vector<double> lambda;    ///< per row, of the ideal part (least norm) [N or N·m or as the row's unit implies]
  double power = 0;              ///< of the reaction at t, on those of its bodies that the equations move [W]
  double work = 0;               ///< since the start, the last step included: impulse · ½(v₀ + v₁) [J]
  double gap = 0;                ///< largest |φ| of rows in metres [m]
  double gap_angle = 0;          ///< likewise in radians [rad]
  double residual = 0;           ///< likewise in the user's own unit
  double velocity_residual = 0;  ///< largest |φ̇| or |ψ| at t
  bool determined = true;        ///< T6: false where redundancy leaves this reaction open (λ is the least-norm choice)
  bool redundant = false;
  bool native = false;  ///< left to the host in the last step: no exact reaction
};

/// The books of one body over one step, in impulses [N·s, N·m·s]: momentum = applied + host + own + (imbalance). Each
/// term comes from its own record, none by subtraction (T11).
struct BodyBooks {
  BodyId body;
  Eigen::Matrix<double, 6, 1> momentum = Eigen::Matrix<double, 6, 1>::Zero();  ///< M (v₁ − v₀)
  Eigen::Matrix<double, 6, 1> applied = Eigen::Matrix<double, 6, 1>::Zero();   ///< dt·Q as the step applied it
  Eigen::Matrix<double, 6, 1> host =
      Eigen::Matrix<double, 6, 1>::Zero();  ///< contacts, limits, motors, springs of the host
  Eigen::Matrix<double, 6, 1> own =
      Eigen::Matrix<double, 6, 1>::Zero();  ///< all constraints: sum over `Reaction`s of their impulses, and the torque
                                            ///< of geometric stiffness (T15)
  Eigen::Matrix<double, 6, 1> rounding =
      Eigen::Matrix<double, 6, 1>::Zero();  ///< M·(velocity as written to the host − v₁)
  double gross_force = 0,
         gross_moment = 0;  ///< largest single impulse summed in `own`: what its round-off is measured by
  double linear_motion = 0, angular_motion = 0;  ///< of M v₀: 16 roundings of it are not held against the books
  /// |momentum − applied − host − own| relative to the largest term or single impulse. Forces and moments are judged
  /// separately, but moments by no less than the forces on an arm of 1 mm, and forces by no less than the moments over
  /// 1 km.
  double imbalance() const;
};

/// Where kinetic energy went since the start [J], in the works of impulses ½(v₀ + v₁)·p (T11): kinetic = applied + laws
/// + constraints + (imbalance), each from its own record. Without a host there is no fifth term.
struct EnergyBooks {
  double kinetic = 0;      ///< Σ ½(v₀ + v₁)·M(v₁ − v₀)
  double applied = 0;      ///< of Q: gravity, springs and all impressed forces, those with a potential included
  double laws = 0;         ///< of what laws prescribe, on bodies that the equations move
  double constraints = 0;  ///< of all else that constraints do: rheonomic ones, and what ends a step on them
  double imbalance() const { return kinetic - applied - laws - constraints; }
};

/// One term of one law: what it does now, and what it did since the start. Work is on its two bodies together, driven
/// and fixed ones included: ≤ 0 for dissipative laws, belts apart.
struct LawWork {
  enum class Mode {
    smooth,  ///< not dry friction
    sticks,
    slides
  };
  ConstraintId on;
  int law = 0, term = 0;         ///< of laws(system, on)[law].terms()[term]
  double work = 0;               ///< since the start [J]
  double last = 0;               ///< in the last step [J]
  std::string constraint, name;  ///< of the constraint and of the term

  // At the last evaluation of the last step: as the law acted in the step, at its end where the law is implicit (T10).
  // Reaction::prescribed is that of the state before it.
  Wrench effort;     ///< on the first body; its opposite acts on the second
  double power = 0;  ///< [W], at the state before the step
  Mode mode = Mode::smooth;
  double bound = 0;  ///< of dry friction: what rest could hold [N or N·m]
  Reads reads =
      Reads::ideal;   ///< the thrust it was given; ideal too where it asked for the actual one and none was found
  Wrench thrust;      ///< that thrust, on the first body
  int solutions = 0;  ///< of the actual thrust: 0 if nothing reads it, or none was found
  Branch branch = Branch::continuous;  ///< of several: which was taken
  bool fell_back = false;              ///< it asked for the actual thrust and there was none
  Wrench difference;                   ///< as LawEffort::difference

  double largest_difference = 0;         ///< of that force, since the start [N]
  double largest_moment_difference = 0;  ///< and of that moment [N·m]
  double thrust_there = 0;  ///< force of the thrust it was given where the force differed most, or else the moment

  long switches = 0;  ///< dry: times it began to stick or to slide; smooth: times its force reversed from step to step
  double time = 0;    ///< that these are counted in [s]
  long counted = 0;   ///< of LawEffort::switches, up to now
  double switches_per_second() const { return time > 0 ? static_cast<double>(switches) / time : 0; }

  void end_step(double dt);  ///< takes what the last step did into the sums and maxima
};

/// By how much the actual thrust of laws differed from the ideal one since the start, and which of them they read, in
/// words: a line for each law where it is more than rounding, the largest first. Of more than `most` the last line
/// gives the number that is left.
std::vector<std::string> thrust_differences(std::span<const LawWork> laws, std::size_t most = 4);

/// Takes what `e`, of the last evaluation of `dynamics` at `state`, did while it acted for dt between the velocities v0
/// and v1 [n] of the block into `to`, adding to `last`. @return the part of the work on bodies that the equations move.
double book_law(const System& system, const Dynamics& dynamics, const State& state, const LawEffort& e, double dt,
                std::span<const double> v0, std::span<const double> v1, LawWork& to);

/// Kinetic energy [J]: ½ vᵀM v of bodies, T of coordinates.
double kinetic_energy(const System& system, const State& state);
/// Gravity and all forces that declare a potential [J].
double potential_energy(const System& system, const State& state);
/// Whether every force of the system has a potential, no law is active and no kinetic energy changes with time, so that
/// energy means something.
bool conservative(const System& system);
double energy(const System& system, const State& state);
/// Σ q̇ ∂L/∂q̇ − L [J], Jacobi's integral: the energy, except that of a kinetic energy of coordinates terms of first
/// degree in the rates do not count and those of degree zero count negatively. Constant where T and V do not change
/// with time.
double energy_integral(const System& system, const State& state);
/// [kg·m/s]
Vector3d linear_momentum(const System& system, const State& state);
/// About a world point [kg·m²/s].
Vector3d angular_momentum(const System& system, const State& state, const Vector3d& about = Vector3d::Zero());
/// E − ω·L for a frame turning uniformly with `omega` [rad/s] about a line through the origin: constant where forces
/// and constraints do not change in that frame (T-WIRE, T-HOOP).
double energy_in_rotating_frame(const System& system, const State& state, const Vector3d& omega);

/// "hinge  F = (…) N at (…) m …", one line per reaction.
std::ostream& operator<<(std::ostream& out, const Reaction& r);

}  // namespace linchpin
