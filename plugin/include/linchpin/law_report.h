// Reports of the force laws at one evaluation: efforts, friction modes of dry friction, and how the laws were solved.
// The structs of this header are plain values.
#pragma once

#include <linchpin/laws.h>
#include <linchpin/system.h>

#include <Eigen/Core>

#include <string>

namespace linchpin {

/// The sum of the efforts that all laws of one constraint prescribe at the last evaluation.
struct Prescribed {
  int constraint = 0;                 ///< Index into the block's constraints.
  Vector3d force = Vector3d::Zero();  ///< Force on the first body [N] (W). Its opposite acts on the second body.
  /// Point where both forces act [m] (W). It is one point, so that a law makes no angular momentum.
  Vector3d p_WQ = Vector3d::Zero();
  /// Moment on the first body about p_WQ [N·m] (W). Its opposite acts on the second body.
  Vector3d moment = Vector3d::Zero();
};

/// Friction mode of a dry friction element, set by `Dynamics::set_friction_mode()` (T10).
enum class FrictionMode {
  automatic,  ///< The evaluation chooses by the slip and the bound.
  slips,      ///< The element slides in the given direction.
  /// The element sticks, whatever its bound is. Compare `FrictionElement::friction` with `FrictionElement::bound` to
  /// decide when it starts to slide.
  sticks
};

/// A dry friction element: one dry friction term of a law on a constraint, at the last evaluation. Slip velocities are
/// [slip m/s; spin rad/s] in world axes. The spin is multiplied by the arm where slip and spin share one bound
/// (`FrictionKind::both`).
struct FrictionElement {
  int constraint = 0;     ///< Index into the block's constraints.
  int law = 0, term = 0;  ///< Position in laws_on(system, id)[law].terms()[term].
  int dim = 0;            ///< Number of free directions in which friction acts. With 0 the element does nothing.
  bool sticks = false;    ///< The element sticks.
  /// Slip velocity at the state, the belt included.
  Vector6 slip_velocity = Vector6::Zero();
  /// Rate of change of the slip velocity. It is 0 while the element sticks.
  Vector6 slip_acceleration = Vector6::Zero();
  Vector6 force = Vector6::Zero();  ///< Force and moment on the first body [N; N·m] (W).
  /// Norm of the effort [N or N·m]. Moments are divided by the arm where slip and spin share one bound.
  double friction = 0;
  double bound = 0;  ///< Largest friction of a sticking element at this normal force [N or N·m].
  /// Friction of a sliding element at this normal force [N or N·m]. Its speed is the present one or that at the end of
  /// the step.
  double kinetic = 0;
};

/// Force and moment of one term of one law at the last evaluation. It acts on the first body at Prescribed::p_WQ, and
/// its opposite acts on the second body.
struct LawForce {
  int constraint = 0;                  ///< Index into the block's constraints.
  int law = 0, term = 0;               ///< Position in laws_on(system, id)[law].terms()[term].
  Vector3d force = Vector3d::Zero();   ///< Force [N] (W).
  Vector3d moment = Vector3d::Zero();  ///< Moment about p_WQ [N·m] (W).
  Vector3d p_WQ = Vector3d::Zero();    ///< Point where both act [m] (W).
  /// Power on the two bodies together, at the state [W]. The motor of a belt is not one of these bodies.
  double power = 0;
  /// The normal force that the law received. It is also `frictionless` where the law selects the coupled one and
  /// none was found.
  NormalForce normal_force = NormalForce::frictionless;
  Vector3d normal = Vector3d::Zero();         ///< Normal force that the law received: on the first body [N] (W).
  Vector3d normal_moment = Vector3d::Zero();  ///< Moment of that reaction about p_WQ [N·m] (W).
  /// The coupled normal force minus the frictionless one [N] (W), and the same for the moment [N·m] (W). It does not
  /// depend on which of the two the law received. It is zero where they differ by no more than rounding, and where the
  /// law gives the same effort for both.
  Vector3d difference = Vector3d::Zero(), difference_moment = Vector3d::Zero();
  int element = -1;  ///< Index into friction_elements() for dry friction, −1 for a smooth term.
  /// Number of mode changes up to the last accept(). A dry term counts each start of sticking or sliding. A smooth
  /// term counts each reversal of its force.
  long switches = 0;
};

/// Forces with which laws respond to impulses in a step (Dynamics::add_law_response()).
struct LawResponse {
  std::vector<double> efforts;  ///< Mean force of each unknown effort over the step. Empty: none so far.
  std::vector<double> impulse;  ///< [n] Impulse of the last call [N·s; N·m·s].
};

/// How the laws were solved at the last evaluation.
struct LawReport {
  int friction_elements = 0, sticking = 0;  ///< Number of dry friction elements, and of those that stick.
  /// Number of back-solves with the factor. It is 1 where friction does not change what laws read and nothing sticks
  /// (T5).
  int back_solves = 0;
  double residual = 0;  ///< Residual of laws that read the coupled normal force, relative to the largest effort.
  /// Loop gain of the laws that read the coupled normal force: the amplification of their effort by the normal forces
  /// that it induces. Below 1 there is exactly one solution (T9).
  double gain = 0;
  /// Number of solutions found for the coupled normal force. 0 means none, or that no law reads it. There can be
  /// several only where the gain allows it.
  int solutions = 0;
  int most_different = -1;  ///< Index into law_forces() of the largest LawForce::difference. −1 if all are zero.
  Branch branch = Branch::continuous;  ///< The branch that was taken where there are several solutions.
  bool fell_back = false;  ///< No solution was found. The laws received the frictionless normal force instead.
  /// Upper bound of the rate at which smooth laws damp or rotate velocities [1/s]. An explicit step must be shorter
  /// than its inverse. The bound treats bodies as free until Dynamics::find_rate() has found a better one. At an
  /// instant it includes dry friction whose direction turns with its slip; `stiffest` is then −1. The rate of smooth
  /// laws is computed only with a step, or after compute_rates().
  double rate = 0;
  int stiffest = -1;  ///< Index into law_forces() of the term with that rate.
  /// Warning that names the laws and the constraint, where one of these values needs one. Otherwise empty.
  std::string warning;
};

}  // namespace linchpin
