#include <linchpin/constraint.h>
#include <linchpin/laws.h>
#include <linchpin/scene/modes.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace linchpin::scene {

namespace {

using What = ModeSwitch::What;

// Times of one run that differ by rounding are one time.
bool at_or_before(double change, double t) { return change <= t + 1e-12 * (1 + std::abs(t)); }

std::string term_name(const System& system, ConstraintId on, int law, int term) {
  const auto laws = laws_on(system, on);
  return laws[static_cast<std::size_t>(law)].terms()[static_cast<std::size_t>(term)].name;
}

}  // namespace

const char* to_string(What what) {
  switch (what) {
    case What::sticks:
      return "sticks";
    case What::turns:
      return "turns";
    case What::slides:
      return "slides";
    case What::releases:
      return "releases";
    case What::engages:
      break;
  }
  return "engages";
}

ModeRecord::Element& ModeRecord::element(const std::string& constraint, int law, int term, bool holds,
                                         const std::string& name) {
  for (Element& e : elements_)
    if (e.law == law && e.term == term && e.constraint == constraint) return e;
  elements_.push_back({constraint, name, law, term, holds, holds, {}});
  return elements_.back();
}

void ModeRecord::change(Element& element, double t, What what) {
  element.holds_now = what == What::sticks || what == What::engages;
  element.changes.push_back({t, element.constraint, element.name, what});
  changes_.push_back(element.changes.back());
}

void ModeRecord::begin(const System& system, const Dynamics& dynamics, double t) {
  start_ = t;
  for (const FrictionElement& e : dynamics.friction_elements()) {
    const ConstraintId on = dynamics.assembly().layout.constraints[static_cast<std::size_t>(e.constraint)];
    element(system.constraint(on).name(), e.law, e.term, e.sticks, term_name(system, on, e.law, e.term));
  }
  for (int i = 0; i < system.constraint_count(); ++i)
    if (const ConstraintId id = system.constraint_at(i);
        !system.removed(id) && !system.enabled(id) && unilateral(system, id).on)
      look(system.constraint(id).name(), true, t);
}

void ModeRecord::add(const System& system, std::span<const ModeSwitch> switches) {
  for (const ModeSwitch& s : switches) {
    const bool unilateral = s.law < 0, holds = s.what == What::sticks || s.what == What::engages;
    const std::string name = unilateral ? std::string() : term_name(system, s.on, s.law, s.term);
    // An event that a method locates at the start lies after it by rounding.
    change(element(system.constraint(s.on).name(), s.law, s.term, !holds, name),
           at_or_before(s.t, start_) ? start_ : s.t, s.what);
  }
}

void ModeRecord::look(std::span<const LawWork> laws, double end) {
  for (const LawWork& w : laws) {
    if (w.mode == LawWork::Mode::smooth) continue;
    const bool sticks = w.mode == LawWork::Mode::sticks;
    Element& e = element(w.constraint, w.law, w.term, sticks, w.name);
    if (e.holds_now != sticks) change(e, end, sticks ? What::sticks : What::slides);
  }
}

void ModeRecord::look(const std::string& constraint, bool released, double end) {
  Element& e = element(constraint, -1, -1, true, {});
  if (e.holds_now == released) change(e, end, released ? What::releases : What::engages);
}

double ModeRecord::sticks(const std::string& constraint, double t) const {
  bool any = false, all = true;
  for (const Element& e : elements_) {
    if (e.law < 0 || e.constraint != constraint) continue;
    bool holds = e.holds;
    for (auto c = e.changes.rbegin(); c != e.changes.rend(); ++c) {
      if (!at_or_before(c->t, t)) continue;
      holds = c->what == What::sticks;
      break;
    }
    any = true, all = all && holds;
  }
  return any ? static_cast<double>(all) : std::numeric_limits<double>::quiet_NaN();
}

double ModeRecord::last(const std::string& constraint, What what, double t) const {
  double last = std::numeric_limits<double>::quiet_NaN();
  for (const Element& e : elements_) {
    if (e.constraint != constraint) continue;
    for (auto c = e.changes.rbegin(); c != e.changes.rend(); ++c) {
      if (c->what != what || !at_or_before(c->t, t)) continue;
      last = std::isnan(last) ? c->t : std::max(last, c->t);
      break;
    }
  }
  return last;
}

bool is_open(const System& system, ConstraintId id, const State& at) {
  constexpr double closed = 1e-9;
  const Unilateral& how = unilateral(system, id);
  if (!how.on) return false;
  const Constraint& c = system.constraint(id);
  std::vector<BodyState> X;
  for (const BodyId body : c.bodies()) X.push_back(at[body]);
  double phi = 0;
  c.function().residual(X, at.t, {&phi, 1});
  return (how.negative ? -phi : phi) > closed;
}

}  // namespace linchpin::scene
