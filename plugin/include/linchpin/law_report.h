// What force laws did at an evaluation: efforts, states of dry friction, and how the laws were solved.
#pragma once

#include <linchpin/laws.h>
#include <linchpin/system.h>

#include <Eigen/Core>

#include <string>

namespace linchpin {

/// The sum of what the laws of one constraint prescribed at the last evaluation.
struct Prescribed {
  int constraint = 0;                  ///< index into the block's constraints
  Vector3d force = Vector3d::Zero();   ///< on the first body; its opposite acts on the second [N]
  Vector3d p_WQ = Vector3d::Zero();    ///< where both act [m]: one point, so that a law makes no angular momentum
  Vector3d moment = Vector3d::Zero();  ///< on the first body about p_WQ, and its opposite on the second [N·m]
};

/// How a dry contact is to be held (T10).
enum class Grip {
  automatic,  ///< as its slip and its bound say
  slips,      ///< it slides, in the sense given
  sticks      ///< it holds, whatever its bound says: `Contact::friction` against `Contact::bound` tells when to let go
};

/// One dry friction term of a law on a constraint, at the last evaluation. Rubbing velocities are [slip m/s; spin
/// rad/s] in world axes, spin times the arm where both share one bound (Rubs::both).
struct Contact {
  int constraint = 0;     ///< index into the block's constraints
  int law = 0, term = 0;  ///< of laws(system, id)[law].terms()[term]
  int dim = 0;            ///< free directions it rubs in; 0: it has none and does nothing
  bool sticks = false;
  Eigen::Matrix<double, 6, 1> rubbing = Eigen::Matrix<double, 6, 1>::Zero();  ///< at the state, belts included
  Eigen::Matrix<double, 6, 1> gaining = Eigen::Matrix<double, 6, 1>::Zero();  ///< its rate of change; 0 while it sticks
  Eigen::Matrix<double, 6, 1> effort = Eigen::Matrix<double, 6, 1>::Zero();   ///< on the first body [N; N·m]
  double friction = 0;  ///< the same as a norm, moments divided by the arm where both share one bound [N or N·m]
  double bound = 0;     ///< what rest could hold at this thrust [N or N·m]
  double kinetic = 0;   ///< what sliding takes at this thrust, at its speed or that of the step's end [N or N·m]
};

/// What one term of one law prescribed at the last evaluation: on the first body at Prescribed::p_WQ, and its opposite
/// on the second.
struct LawEffort {
  int constraint = 0;                  ///< index into the block's constraints
  int law = 0, term = 0;               ///< of laws(system, id)[law].terms()[term]
  Vector3d force = Vector3d::Zero();   ///< [N] (W)
  Vector3d moment = Vector3d::Zero();  ///< [N·m] (W), about p_WQ
  Vector3d p_WQ = Vector3d::Zero();    ///< where both act [m] (W)
  double power = 0;  ///< on the two bodies together, at the state [W]; a belt's motor is not one of them
  Reads reads =
      Reads::ideal;  ///< the thrust it was given; ideal too where it asked for the actual one and none was found
  Vector3d thrust = Vector3d::Zero();         ///< that thrust: force on the first body [N] (W)
  Vector3d thrust_moment = Vector3d::Zero();  ///< and moment about p_WQ [N·m] (W)
  /// The actual thrust less the ideal one, whichever of the two it was given [N; N·m] (W). Zero where they differ by no
  /// more than rounding, and where the law gives the same for both.
  Vector3d difference = Vector3d::Zero(), difference_moment = Vector3d::Zero();
  int contact = -1;  ///< of dry friction: index into contacts()
  long switches =
      0;  ///< up to the last accept(): times a dry one began to stick or slide, or a smooth one's force reversed
};

/// How the laws were answered at the last evaluation.
struct LawReport {
  int contacts = 0, sticking = 0;  ///< dry ones
  int back_solves = 0;  ///< with the factor: 1 where friction does not change what laws read and nothing rests (T5)
  double residual = 0;  ///< of laws on the actual thrust, relative to the largest effort
  double gain = 0;      ///< how strongly such laws call themselves up; below 1 there is one answer (T9)
  int solutions = 0;  ///< found of the actual thrust: 0 none, several where the gain allows it; 0 also if none reads it
  int most_different = -1;  ///< index into law_efforts(): LawEffort::difference is largest there; −1: all are zero
  Branch branch = Branch::continuous;  ///< which of several solutions was taken
  bool fell_back = false;              ///< none was found: those laws were given the ideal thrust instead
  double rate = 0;  ///< bound on how fast smooth laws damp or turn what they act on [1/s]: an explicit step is shorter.
                    ///< It takes bodies as free, until Dynamics::find_rate() has found better. At an instant also of
                    ///< dry friction that turns with its slip; `stiffest` then is −1. Of smooth laws where it is looked
                    ///< for: with a step, or after ask_rates()
  int stiffest = -1;    ///< the one of them that does so fastest: index into law_efforts()
  std::string trouble;  ///< names laws and constraint when one of these is worth a warning; else empty
};

}  // namespace linchpin
