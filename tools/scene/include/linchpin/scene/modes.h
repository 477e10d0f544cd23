// Times of stick and slip: when dry friction and unilateral constraints changed their mode in a run. A host fills the
// record, channels read it. One object serves one thread at a time.
#pragma once

#include <linchpin/dynamics.h>
#include <linchpin/report.h>
#include <linchpin/scene/export.h>
#include <linchpin/stepper.h>
#include <linchpin/system.h>

#include <span>
#include <string>
#include <vector>

namespace linchpin::scene {

/// One change of mode. It is a plain value.
struct ModeChange {
  double t = 0;  ///< [s] as located by rk4 and the adaptive methods; otherwise the end of the step in which it was
  std::string constraint;                            ///< name of the constraint
  std::string law;                                   ///< name of the term; empty for a unilateral constraint
  ModeSwitch::What what = ModeSwitch::What::sticks;  ///< the kind of the change
};

/// "sticks", "turns", "slides", "releases" or "engages".
LINCHPIN_SCENE_API const char* to_string(ModeSwitch::What what);

/// The modes of all friction elements and unilateral constraints since the start of a run.
class LINCHPIN_SCENE_API ModeRecord {
 public:
  /// Starts with the modes of a stepper at its state. A unilateral constraint that is open there releases at this
  /// time. Call it after the first Stepper::reactions(). @param t  of the state [s]
  void begin(const System& system, const Dynamics& dynamics, double t);
  /// Adds the changes of the last step of a stepper. Call it after each step.
  void add(const System& system, std::span<const ModeSwitch> switches);
  /// Compares the modes of a step with those of the step before it, for hosts that do not tell the changes.
  /// @param end  of the step [s]
  void look(std::span<const LawWork> laws, double end);
  /// The same for a unilateral constraint.
  void look(const std::string& constraint, bool released, double end);

  /// 1 where all dry friction of a constraint sticks at time t, else 0; NaN without a record of dry friction there.
  double sticks(const std::string& constraint, double t) const;
  /// The time of the last change of this kind at t or before [s], NaN without one.
  double last(const std::string& constraint, ModeSwitch::What what, double t) const;
  /// All changes, in order of time.
  std::span<const ModeChange> changes() const { return changes_; }

 private:
  struct Element {
    std::string constraint, name;
    int law = -1, term = -1;  // −1 for a unilateral constraint
    bool holds = true;        // at first: sticks, or is not released
    bool holds_now = true;
    std::vector<ModeChange> changes;
  };
  Element& element(const std::string& constraint, int law, int term, bool holds, const std::string& name);
  void change(Element& element, double t, ModeSwitch::What what);
  std::vector<Element> elements_;
  std::vector<ModeChange> changes_;
  double start_ = 0;  // of the run [s]
};

/// Returns whether the gap of a unilateral constraint is open at a state by more than the error that a step leaves,
/// 1e-9 in its unit. Other constraints are not open.
LINCHPIN_SCENE_API bool is_open(const System& system, ConstraintId id, const State& at);

}  // namespace linchpin::scene
