// The explicit equation with force laws at a state, kept for many evaluations without allocation. Leaves time to
// stepper.h.
#pragma once

#include <linchpin/assembly.h>
#include <linchpin/law_report.h>
#include <linchpin/laws.h>
#include <linchpin/problem.h>
#include <linchpin/system.h>

#include <Eigen/Core>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace linchpin {

struct Reaction;  // report.h

/// The full equation (T5) at a state, kept for many: assembles, factors, solves for the ideal forces, asks the laws,
/// solves again with the same factor. One block; no allocation once warm.
class Dynamics {
 public:
  explicit Dynamics(const System& system, SolveOptions options = {});
  Dynamics(const System& system, std::span<const ConstraintId> constraints, SolveOptions options = {});
  ~Dynamics();
  Dynamics(Dynamics&&) noexcept;

  /// Looks again at which constraints are enabled; call after enable, remove, add.
  void restructure();

  /// @return ok, redundant, inconsistent or invalid; `reason()` for the last. Never throws.
  Status evaluate(const State& state) noexcept;
  /// The same with the applied force given instead of assembled [n], block order: what hosts use.
  Status evaluate(const State& state, std::span<const double> Q) noexcept;
  /// The rows and the factor alone, for a host that does not know all its forces yet: `assembly` and `solver` are of
  /// `state`, everything else is that of the last answer until resolve() gives one. @return ok, redundant or invalid.
  Status factor(const State& state) noexcept;
  /// Another applied force [n], as a host's own impulses are (T11), with the rows and the factor of the last evaluate()
  /// or factor(), whose state this is. @return ok, invalid, or redundant: rank_report() tells what is contradictory.
  Status resolve(const State& state, std::span<const double> Q) noexcept;

  /// Adds to the moment of inertia of each body of the block, in block order, at every evaluation and factorisation
  /// from here on [kg·m²], world axes, symmetric positive semidefinite: w dt² K⁺ of implicit geometric stiffness (T15).
  /// Particles and coordinates take none. What is solved is then not (T1); whoever does it owes the torque that goes
  /// with it and a word in the report. Empty: none.
  void add_inertia(std::span<const Eigen::Matrix3d> by_slot);

  const std::string& reason() const;
  const Assembly& assembly() const;          ///< A, b, Q, c, residuals of the last evaluation
  const Solver& solver() const;              ///< its factorisation
  std::span<const double> vdot() const;      ///< [n]
  std::span<const double> ideal() const;     ///< [n] Q^N
  std::span<const double> nonideal() const;  ///< [n] Q^W
  std::span<const double> lambda() const;    ///< [m] of Q^N
  std::span<const double> induced() const;   ///< [m] multipliers of −AᵀG⁺A M⁻¹c
  /// In row order of the constraints that have a law.
  std::span<const Prescribed> prescribed() const;
  /// The same term by term, in row order.
  std::span<const LawEffort> law_efforts() const;

  // Dry friction (T10). Rows of stick are not put into A: the factor of A answers for them too, one back-solve for each
  // free direction of a contact that may stick, and a small problem over all of them decides who sticks. The reaction
  // of stick is a prescribed force like that of slip, and is reported as one.
  //
  // A host that takes steps without events calls set_step(dt) once and evaluates or resolves as ever: what it then gets
  // makes the slip at the *end* of the step obey the law (at rest if the bound allows it, else friction against that
  // slip), so contacts stop and stay stopped, and no step gains energy by friction. After its own end-of-step Newton it
  // may call hold(v₁). A stepper that locates events leaves the step at 0, where laws are those of the instant, and
  // holds each contact by grip() between two events.

  /// @param dt  of the steps that evaluations are for [s]; 0: instantaneous laws (the default)
  void set_step(double dt);
  double step() const;
  /// Laws of the instant between two steps of dt [s] (T11). What such a step leaves in a contact that stuck at the last
  /// accept() is no slip: the contact is at rest, and holds what its bound allows. 0: as set_step(0).
  void set_instant(double dt);
  void ask_rates(bool on);  ///< LawReport::rate also for laws of the instant, for some more calls of each smooth law
  /// Finds LawReport::rate of the last evaluation, which was at `state`, on the motion that the constraints leave. It
  /// does nothing where the bound of free bodies is not above `from` [1/s]. It costs some ten back-solves.
  void find_rate(const State& state, double from);
  /// Every dry term of every law of the block, in row order; same order while laws and constraints stay.
  std::span<const Contact> contacts() const;
  /// From the next evaluation on, until changed or the number of contacts changes. @param sense  rubbing velocity whose
  /// direction counts, for Grip::slips: of one free direction only the sign; of several where the slip itself is
  /// turned back, or no faster than `sense` is long (and than 1e-9). Zero: the slip's own.
  void grip(int contact, Grip how, const Eigen::Matrix<double, 6, 1>& sense = Eigen::Matrix<double, 6, 1>::Zero());
  void release_grips();  ///< all automatic again
  /// With a step: every contact answers once more to the slips that the block has when it moves with the velocities `v`
  /// [n] (in the middle of the step, T12), by correcting `v` and the forces of the last evaluation; bounds are kept.
  /// Without: takes away, by an impulse, the slip that sticking contacts have at the state.
  /// @param state  that of the last evaluation. @return the largest change of `v`, or the largest slip before.
  double hold(const State& state, std::span<double> v);
  /// Internal states of laws (LuGre), three numbers for each law that has one, in row order: those of the last
  /// evaluation, and their rates there. Evaluations at an instant later than the last accept() advance them from there
  /// with their thrust, to first order; an integrator that takes them along in its stages gives them.
  std::span<const double> memory() const;
  std::span<const double> memory_rate() const;
  /// Internal states for the evaluations at an instant until accept(), which keeps them. Empty: no longer.
  void give_memory(std::span<const double> values);
  /// Lets laws with an internal state live through dt, with the thrusts of the last evaluation, or as they were given.
  void accept(double dt);
  /// Answers the laws once more at the instant of `state`, which is that of the last evaluate() or resolve() (T11).
  /// Smooth laws are then taken at the slips of the state, and contacts are at rest as set_instant() says. Until the
  /// next evaluation prescribed(), reaction(), reactions() and assembly().instant.c are of that instant.
  /// Reaction::stabilisation holds what the laws do in the step beyond it. Everything else stays that of the step.
  /// Without a step this call does nothing, and reaction() leaves the stabilisation as it is.
  void answer_at_instant(const State& state) noexcept;
  /// What laws carry from one evaluation to the next: internal states and where friction was found.
  struct LawHistory;
  std::shared_ptr<const LawHistory> law_history() const;
  /// Back to there, in this Dynamics or another of the same constraints and laws: what is evaluated then is the same to
  /// the last bit. Null: as if nothing had been evaluated yet.
  void set_law_history(const std::shared_ptr<const LawHistory>& history);
  const LawReport& law_report() const;
  /// Laws whose thrust redundancy leaves undetermined (T6), by name and with what to do, laws with nothing to rub on,
  /// and law_report().trouble. With redundant rows O(m r²); allocates.
  std::vector<std::string> warnings() const;
  RankReport rank_report() const;  ///< allocates

  /// Fills name, t, parts, λ, power, residuals of every constraint of the block, in row order. Reuses memory.
  /// @param ask_rank  also fill `determined` and `redundant`: with redundant rows O(m r²) more, and allocates.
  void reactions(const State& state, std::vector<Reaction>& out, bool ask_rank = true) const;
  /// The same of constraint i of the block alone, but for name, gaps, residual and flags: what is there of them stays.
  void reaction(int i, const State& state, Reaction& out) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace linchpin
