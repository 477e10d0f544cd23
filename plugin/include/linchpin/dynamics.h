// The explicit equation of motion with force laws at a state, evaluated many times without allocation. Integration over
// time is in stepper.h.
#pragma once

#include <linchpin/assembly.h>
#include <linchpin/export.h>
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

/// What made an evaluation invalid.
enum class FailureKind : unsigned char {
  none,     ///< It is valid.
  problem,  ///< An equation, an applied force, a mass or the factorisation.
  law       ///< A force law threw, or gave a force that is not finite or not usable.
};

/// The full equation (T5) at a state, kept for many states. An evaluation assembles, factors, and solves for the ideal
/// forces. It then calls the laws and solves again with the same factor. One object serves one block of constraints. It
/// does not allocate after warm-up.
///
/// A Dynamics owns its results and keeps a reference to the System, which must outlive it. References and spans are
/// valid until the next evaluation, or until the object is destroyed. A move does not change them.
///
/// One object serves one thread at a time, its const functions included: rank_report(), reactions() and warnings()
/// compute with work memory of the object and keep the result. Evaluations call the functions of constraints, kinetic
/// energies, forces and laws in the calling thread. Such a function must not call a solver. If it throws, the
/// evaluation returns Status::invalid, and reason() has the text.
class LINCHPIN_API Dynamics {
 public:
  /// All enabled constraints of a system. The system is kept by reference.
  explicit Dynamics(const System& system, SolveOptions options = {});
  /// The block of the given constraints and of all bodies that they move.
  Dynamics(const System& system, std::span<const ConstraintId> constraints, SolveOptions options = {});
  ~Dynamics();
  Dynamics(Dynamics&&) noexcept;

  /// Reads again which constraints are enabled. Call it after enable, remove and add.
  void restructure();

  /// @return ok, redundant, contradictory or invalid. `reason()` explains the last one. Never throws.
  Status evaluate(const State& state) noexcept;
  /// Evaluates with a given applied force Q instead of the assembled one. @param Q  [n] in block order [N, N·m]. Hosts
  /// use this call.
  Status evaluate(const State& state, std::span<const double> Q) noexcept;
  /// Assembles the rows and factors them, without solving. A host calls it before it knows all its forces. Then
  /// `assembly` and `solver` belong to `state`. Everything else keeps the values of the last solution until resolve()
  /// computes the next. @return ok, redundant or invalid.
  Status factor(const State& state) noexcept;
  /// Solves for another applied force Q [n], such as one that contains a host's own impulses (T11). Uses the rows and
  /// the factor of the last evaluate() or factor(), which must have been at `state`. @return ok, invalid or redundant.
  /// rank_report() names contradictory constraints.
  Status resolve(const State& state, std::span<const double> Q) noexcept;

  /// Adds to the moment of inertia of each body of the block [kg·m²], in block order and world axes. The matrices are
  /// symmetric positive semidefinite: w dt² K⁺ of implicit geometric stiffness (T15). They apply to every evaluation
  /// and factorisation from here on. Particles and coordinates take none. The equation solved is then not (T1). The
  /// caller has to apply the torque that belongs to it, and to report it. Empty: none.
  void add_inertia(std::span<const Eigen::Matrix3d> by_slot);

  const std::string& reason() const;              ///< Reason of Status::invalid. Empty otherwise.
  FailureKind failure() const;                    ///< Kind of that reason.
  const Assembly& assembly() const;               ///< A, b, Q, c and residuals of the last evaluation.
  const ConstraintFactorization& solver() const;  ///< Factorisation of the last evaluation.
  std::span<const double> vdot() const;           ///< [n] Acceleration v̇.
  std::span<const double> ideal() const;          ///< [n] Ideal constraint force Q^N.
  std::span<const double> nonideal() const;       ///< [n] Nonideal force Q^W.
  std::span<const double> lambda() const;         ///< [m] Multipliers of Q^N.
  std::span<const double> induced() const;        ///< [m] Multipliers of the induced force −AᵀG⁺A M⁻¹c.
  /// Sums per constraint, in row order of the constraints that have a law.
  std::span<const Prescribed> prescribed() const;
  /// The same efforts term by term, in row order.
  std::span<const LawForce> law_forces() const;

  // Dry friction (T10). The rows of stick are not put into A, because the factor of A serves them too. Each free
  // direction of an element that may stick costs one back-solve. A small problem over all of them decides which
  // elements stick. The reaction of stick is a prescribed force like that of slip, and it is reported as one.
  //
  // A host that takes steps without events calls set_step(dt) once and then evaluates or resolves as usual. The slip at
  // the *end* of the step then obeys the law: it is zero if the bound allows it, and otherwise friction opposes that
  // slip. So friction elements stop and stay stopped, and no step gains energy by friction. After its own end-of-step
  // Newton the host may call reapply_stick(v₁). A stepper that locates events leaves the step at 0, where laws are
  // those of the instant. It sets the mode of each element by `set_friction_mode()` between two events.

  /// @param dt  length of the steps that evaluations are for [s]. 0: instantaneous laws (the default).
  void set_step(double dt);
  double step() const;  ///< Length of the steps that evaluations are for [s], as set_step() has set it.
  /// Selects laws of the instant between two steps of dt [s] (T11). Such a step leaves a small slip in an element that
  /// stuck at the last accept(). This slip is ignored: the element is at rest, with friction up to its bound. 0 is the
  /// same as set_step(0).
  void set_instantaneous(double dt);
  /// Computes LawReport::rate also for laws of the instant. It costs some more calls of each smooth law.
  void compute_rates(bool on);
  /// Improves LawReport::rate of the last evaluation, which was at `state`, on the motion that the constraints leave.
  /// It does nothing where the bound of free bodies is not above `from` [1/s]. It costs about ten back-solves.
  void find_rate(const State& state, double from);
  /// Every dry term of every law of the block, in row order. The order stays while laws and constraints stay.
  std::span<const FrictionElement> friction_elements() const;
  /// Sets the friction mode from the next evaluation on, until it is changed or the number of elements changes.
  /// @param sense  slip velocity whose direction counts, for `FrictionMode::slips`. With one free direction only its
  /// sign is used. With several it is used where the slip reverses, or is no faster than the length of `sense` (and
  /// than 1e-9). Zero: the direction of the actual slip.
  void set_friction_mode(int element, FrictionMode how, const Vector6& sense = Vector6::Zero());
  void reset_friction_modes();  ///< Sets all friction modes to automatic again.
  /// Re-applies the friction laws to the velocities `v` [n]. With a step, every element responds once more to the slip
  /// that the block has at `v` in the middle of the step (T12). The call corrects `v` and the forces of the last
  /// evaluation, and it keeps the bounds. Without a step, an impulse removes the slip of sticking elements at the
  /// state.
  /// @param state  that of the last evaluation. @return the largest change of `v`, or the largest slip before.
  double reapply_stick(const State& state, std::span<double> v);
  /// Adds the response of the laws to a change of velocity that an impulse makes, with the constraints kept. Without it
  /// the impulse would find a joint free that static friction or a damper holds. It needs a step, and uses the laws of
  /// the last evaluation, linearised: elements that stick go on sticking, smooth laws that are implicit in their slip
  /// change with it, and all other forces stay. It does nothing without such laws.
  /// @param state  that of the last evaluation
  /// @param dv     [n] change of the end velocities, in and out. Costs O(n u + u²) for u unknown efforts, and O(u³) at
  ///               the first call after an evaluation.
  void add_law_response(const State& state, std::span<double> dv);
  /// The same for a change that is found in iterations. Friction that sticks keeps its static bound.
  /// @param dv      [n] the whole change, the response of earlier iterations included
  /// @param so_far  response of the earlier iterations, in and out
  void add_law_response(const State& state, std::span<double> dv, LawResponse& so_far);
  /// Internal states of laws (LuGre) at the last evaluation, and their rates there. Each law with a state has three
  /// numbers, in row order. Evaluations at an instant later than the last accept() advance them to first order with
  /// their normal force. An integrator that integrates them in its stages sets them by set_internal_state().
  std::span<const double> internal_state() const;
  /// Rates of the internal states, in the order of internal_state().
  std::span<const double> internal_state_rate() const;
  /// Sets internal states for the evaluations at an instant until accept(), which stores them. Empty: ends this.
  void set_internal_state(std::span<const double> values);
  /// Advances internal states by dt, with the normal forces of the last evaluation, or stores the states of
  /// set_internal_state().
  void accept(double dt);
  /// Evaluates the laws once more at the instant of `state`, which is that of the last evaluate() or resolve() (T11).
  /// Smooth laws then use the slips of the state, and sticking elements are at rest as set_instantaneous() says. Until
  /// the next evaluation prescribed(), reaction(), reactions() and assembly().problem.c belong to that instant.
  /// Reaction::stabilisation contains the difference to the effect of the laws in the step. Everything else still
  /// belongs to the step. Without a step this call does nothing, and reaction() leaves the stabilisation as it is.
  /// @param over  time over which the stabilisation is the mean of the step's impulses [s]. It differs from step()
  /// where forces act from the middle of one step to the middle of the next (T12).
  void evaluate_laws_at(const State& state, double over) noexcept;
  /// History of the laws between evaluations: internal states, and the friction found last. It does not change, and any
  /// number of objects may share it.
  struct LawHistory;
  std::shared_ptr<const LawHistory> law_history() const;  ///< Returns a copy of the history.
  /// Restores a history, in this Dynamics or in another one with the same constraints and laws. The next evaluation is
  /// then the same to the last bit. Null: as before the first evaluation.
  void set_law_history(const std::shared_ptr<const LawHistory>& history);
  /// Stores the history in this object. It does not allocate after warm-up.
  void mark_law_history();
  /// Restores the history of mark_law_history(). Friction modes stay as set_friction_mode() has set them. Without a
  /// mark it does nothing.
  void return_to_marked_law_history();
  const LawReport& law_report() const;  ///< How the laws were solved in the last evaluation.
  /// Warnings with names and advice: laws whose normal force is undetermined by redundancy (T6), laws without a free
  /// direction for friction, and law_report().warning. With redundant rows it costs O(m r²). Allocates.
  std::vector<std::string> warnings() const;
  /// Ranks and names of redundant constraints at the last evaluation. The first call computes them. Allocates.
  RankReport rank_report() const;

  /// Fills name, t, wrenches, λ, power and residuals of every constraint of the block, in row order. Reuses memory.
  /// @param with_rank  also fill `determined` and `redundant`. With redundant rows this costs O(m r²) more, and it
  /// allocates.
  void reactions(const State& state, std::vector<Reaction>& out, bool with_rank = true) const;
  /// Fills the reaction of constraint i of the block alone. Name, gaps, residual and flags in `out` stay as they are.
  void reaction(int i, const State& state, Reaction& out) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace linchpin
