// Laws at one state. First, laws whose efforts are known are added. Other laws are at rest, are evaluated at the end of
// a step, or read the actual normal force. For these the friction problem is solved with unit responses of all unknown
// efforts. Last, the result passes through the factor once more as one force. So no round-off of the small problem
// remains in v̇. Inputs of laws are collected in law_evaluation.cpp. Sliding is in sliding.cpp, and the friction
// problem in friction_coupling.cpp.
#include "force_laws/friction_callbacks.h"
#include "model/format.h"
#include "problem/jacobian_products.h"

#include <linchpin/constraint.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <exception>
#include <limits>
#include <stdexcept>

namespace linchpin {

void LawSolver::restructure(const IslandLayout& block) {
  sites_.clear();
  prescribed.clear();
  unknown_terms_.clear();
  elements.clear();
  persistent_.memories.clear();
  persistent_.requested_modes.clear();
  persistent_.last_efforts.clear();
  records_.histories.clear();
  records_.stuck_before.clear();
  marked_.reset();
  fault_.text.clear();
  masses_.clear();
  std::size_t entries = 0;
  for (std::size_t s = 0; s < block.bodies.size(); ++s) {
    masses_.push_back(entries);
    const std::size_t dof = z(block.column[s + 1] - block.column[s]);
    entries += dof * dof;
  }
  rates_.root.assign(block.bodies.size(), 0.0);
  persistent_.memory_begun = false;
  rates_.smooth_ratio = rates_.turning_ratio = nan_;
  report = {};
}

void LawSolver::save(Snapshot& to) const {
  to.persistent = persistent_;
  to.histories = records_.histories;
  to.smooth_ratio = rates_.smooth_ratio;
  to.turning_ratio = rates_.turning_ratio;
  // The same law may have another address when it is restored.
  for (Memory& m : to.persistent.memories) m.what = nullptr;
}

void LawSolver::restore(const Snapshot& from) {
  persistent_ = from.persistent;
  records_.histories = from.histories;
  rates_.smooth_ratio = from.smooth_ratio;
  rates_.turning_ratio = from.turning_ratio;
}

void LawSolver::mark() {
  if (!marked_) marked_ = std::make_unique<Snapshot>();
  save(*marked_);
}

void LawSolver::return_to_mark() {
  if (!marked_) return;
  marked_->persistent.requested_modes = persistent_.requested_modes;
  restore(*marked_);
}

/// Adds the response to the force `c` [n]: one back-solve (T5).
void LawSolver::add_response(const Scene& scene, std::span<const double> c, std::span<double> vdot,
                             std::span<double> nonideal, std::span<double> induced) {
  scene.solver.inverse_mass(c, scratch_.dv);
  for (std::size_t j = 0; j < vdot.size(); ++j) {
    vdot[j] += scratch_.dv[j];
    nonideal[j] += c[j];
    scene.assembly.problem.c[j] += c[j];
  }
  multiply(scene.assembly.problem, scratch_.dv, scratch_.row);
  for (double& r : scratch_.row) r = -r;
  scene.solver.apply(scratch_.row, scratch_.lambda, scratch_.force, scratch_.dv);  // −AᵀG⁺A M⁻¹c
  ++report.back_solves;
  for (std::size_t j = 0; j < vdot.size(); ++j) {
    vdot[j] += scratch_.dv[j];
    nonideal[j] += scratch_.force[j];
  }
  for (std::size_t r = 0; r < induced.size(); ++r) induced[r] += scratch_.lambda[r];
}

/// Restores the values without laws.
void LawSolver::restore_without_laws(const Scene& scene, std::span<double> vdot, std::span<double> nonideal,
                                     std::span<double> induced) {
  std::copy(ideal_.vdot.begin(), ideal_.vdot.end(), vdot.begin());
  std::copy(ideal_.nonideal.begin(), ideal_.nonideal.end(), nonideal.begin());
  std::copy(ideal_.induced.begin(), ideal_.induced.end(), induced.begin());
  std::fill(scene.assembly.problem.c.begin(), scene.assembly.problem.c.end(), 0.0);
}

// Writes the results of all friction elements and laws. Checks that laws have the properties that they declare.
void LawSolver::write_results(const Scene& scene, std::span<const double> vdot, std::span<const double> induced) {
  LawCallbacks callbacks(*this, scene);
  read_thrusts(scene, induced);
  for (const UnknownTerm& p : unknown_terms_) {
    const detail::FrictionProblem::Block* const block = p.block < 0 ? nullptr : &coupling_.problem.blocks[z(p.block)];
    const bool actual = p.what->normal_force == NormalForce::coupled &&
                        (block == nullptr || block->reaction_implicit || !report.fell_back);
    detail::Six N{};
    if (block != nullptr)
      N = coupling_.problem.read(*block, coupling_.efforts);
    else
      std::copy_n(thrust_read(p).data(), 6, N.begin());
    LawForce& own = efforts[z(p.effort)];
    own.normal_force = actual ? NormalForce::coupled : NormalForce::frictionless;
    own.normal = Vector3d(N[0], N[1], N[2]);
    own.normal_moment = Vector3d(N[3], N[4], N[5]);
    if (p.element < 0)
      check_smooth_result(scene, p, Eigen::Map<const Vector6d>(N.data()));
    else
      write_friction_element(scene, p, N, callbacks, vdot);
  }
  report.friction_elements = static_cast<int>(elements.size());
  if (reads_actual_ && (coupling_.terms.empty() || !coupling_.any_reaction_implicit)) report.solutions = 1;
  update_differences(scene);
  if (step == 0 && span == 0) bound_turning_rate();
}

/// Checks the effort of a smooth term at the reaction N, and updates its internal state.
void LawSolver::check_smooth_result(const Scene& scene, const UnknownTerm& p, const Vector6d& N) {
  const Site& site = sites_[z(p.site)];
  if (p.what->multiplier) return;
  if (p.slip_implicit) {
    const ConstraintReaction n = thrust_at_slip(scene, p, N, implicit_slip(p));
    // Its internal state advances through the step with the slip at which the law is evaluated.
    if (p.memory >= 0) {
      Memory& m = persistent_.memories[z(p.memory)];
      m.thrust = n;
      m.thrust.internal_state = m.value;
    }
    // Evaluates the law itself. The result found differs from it a little where no slip satisfies the law.
    check(scene, site, *p.what, p.what->force(n), n);
    return;
  }
  ConstraintReaction n = thrust_of(scene, site, *p.what, N);
  if (p.memory >= 0) {  // So far it was evaluated at the frictionless normal force.
    Memory& m = persistent_.memories[z(p.memory)];
    n.internal_state = m.value;
    m.thrust = n;
    n.internal_state = m.next;
    write_memory(p.memory, n);
  }
  const Vector6d e = effort_of(p);
  check(scene, site, *p.what, {e.head<3>(), e.tail<3>()}, n);
}

/// Writes the results of a friction element at the reaction N.
void LawSolver::write_friction_element(const Scene& scene, const UnknownTerm& p, const detail::Six& N,
                                       LawCallbacks& callbacks, std::span<const double> vdot) {
  const detail::FrictionProblem::Block* const block = p.block < 0 ? nullptr : &coupling_.problem.blocks[z(p.block)];
  FrictionElement& element = elements[z(p.element)];
  const bool solved = block != nullptr && !block->is_given();
  element.sticks = solved && block->mode == detail::FrictionProblem::Mode::sticks;
  element.bound = callbacks.holding(p, N);
  double speed = p.slip.norm();
  if (solved) {  // Then friction is that of the slip at the end.
    speed = 0;
    for (int k = 0; k < p.dim; ++k) speed += std::pow(slip_of(p.start + k), 2);
    speed = std::sqrt(speed);
  }
  element.kinetic = callbacks.sliding(p, N, std::max(speed, 1e-300));
  if (!std::isfinite(element.bound) || !std::isfinite(element.kinetic) || !effort_of(p).allFinite())
    throw std::runtime_error(name_of(scene, sites_[z(p.site)], *p.what) + " returned a bound that is not finite");
  if (element.bound < 0 || element.kinetic < 0)
    throw std::runtime_error(
        name_of(scene, sites_[z(p.site)], *p.what) + " has a negative friction bound of " +
        text(std::min(element.bound, element.kinetic)) +
        (p.what->friction_kind == FrictionKind::slip || p.what->friction_kind == FrictionKind::both ? " N" : " N·m") +
        ". The bound of dry friction must be at least 0");
  element.slip_acceleration.setZero();
  if (element.sticks) {
    ++report.sticking;
  } else {
    for (int k = 0; k < p.dim; ++k) element.slip_acceleration += end_slip(scene, p, k, vdot, 0) * p.axes.col(k);
  }
}

/// Computes the difference between the actual and the frictionless normal force, where a law gives different efforts
/// for them.
void LawSolver::update_differences(const Scene& scene) {
  constexpr double rounding = 1e-9;
  const auto differ = [](const auto& a, const auto& b, double size) { return (a - b).norm() > rounding * size; };
  report.most_different = -1;
  double most = 0;
  auto at = sites_.begin();
  for (std::size_t i = 0; i < efforts.size(); ++i) {
    LawForce& own = efforts[i];
    own.difference.setZero();
    own.difference_moment.setZero();
    while (at->constraint != own.constraint) ++at;
    const double force = std::max(at->ideal.head<3>().norm(), at->actual.head<3>().norm());
    const double moment = std::max(at->ideal.tail<3>().norm(), at->actual.tail<3>().norm());
    const bool forces = differ(at->actual.head<3>(), at->ideal.head<3>(), force);
    const bool moments = differ(at->actual.tail<3>(), at->ideal.tail<3>(), std::max(moment, 1e-3 * force));
    if (!forces && !moments) continue;
    const Law::Term& term =
        laws_on(scene.system, scene.assembly.layout.constraints[z(own.constraint)])[z(own.law)].terms()[z(own.term)];
    if (term.row >= 0) continue;  // It reads no normal force.
    if (!term.advance_state) {
      const Vector6d actual = evaluate_term(scene, *at, term, {at->relative, at->relative_spin, at->actual});
      const Vector6d ideal = evaluate_term(scene, *at, term, {at->relative, at->relative_spin, at->ideal});
      if (!differ(actual, ideal, std::max(actual.norm(), ideal.norm()))) continue;
    }
    if (forces) own.difference = at->actual.head<3>() - at->ideal.head<3>();
    if (moments) own.difference_moment = at->actual.tail<3>() - at->ideal.tail<3>();
    const double size = own.difference.norm() + own.difference_moment.norm();
    if (size > most) most = size, report.most_different = static_cast<int>(i);
  }
}

Vector6d LawSolver::effort_of(const UnknownTerm& p) const {
  Vector6d e = Vector6d::Zero();
  for (int k = 0; k < p.dim; ++k) e += (p.block < 0 ? p.known[k] : coupling_.efforts[z(p.start + k)]) * p.basis.col(k);
  return e;
}

void LawSolver::write_efforts() {
  for (const UnknownTerm& p : unknown_terms_) {
    const Vector6d e = effort_of(p);
    efforts[z(p.effort)].force = e.head<3>() + p.across.head<3>();
    efforts[z(p.effort)].moment = e.tail<3>() + p.across.tail<3>();
    if (p.element < 0) continue;
    FrictionElement& element = elements[z(p.element)];
    element.force = e;
    if (p.what->row >= 0)
      element.friction = std::fabs(p.block < 0 ? p.known[0] : coupling_.efforts[z(p.start)]);
    else if (p.what->friction_kind == FrictionKind::both)
      element.friction = std::hypot(e.head<3>().norm(), e.tail<3>().norm() / p.what->arm);
    else
      element.friction = e.norm();
  }
  // Between the stages of a method a law may jump although it is the same at the end of every step.
  for (std::size_t i = 0; step == 0 && i < efforts.size() && records_.histories.size() == efforts.size(); ++i) {
    History& h = records_.histories[i];
    Vector6d now;
    now << efforts[i].force, efforts[i].moment;
    h.reversed = h.reversed || (efforts[i].element < 0 && now.dot(h.seen) < 0 && now.norm() > 0.1 * h.largest);
    h.seen = now;
  }
  auto at = sites_.begin();
  for (LawForce& e : efforts) {
    while (at->constraint != e.constraint) ++at;
    e.power = e.force.dot(at->relative) + e.moment.dot(at->relative_spin);
  }
  prescribed.clear();
  for (const Site& site : sites_)
    prescribed.push_back({site.constraint, site.effort.head<3>(), site.point, site.effort.tail<3>()});
}

std::string LawSolver::apply(const Scene& scene, std::span<double> vdot, std::span<double> nonideal,
                             std::span<double> induced) {
  report.friction_elements = report.sticking = report.back_solves = report.solutions = 0;
  report.residual = report.gain = report.rate = 0;
  report.stiffest = -1;
  report.most_different = -1;
  report.branch = Branch::continuous;
  report.fell_back = false;
  report.warning.clear();
  coupling_.problem.blocks.clear();
  coupling_.sparse_failed = false;
  prescribed.clear();
  error_.term = nullptr;
  if (!records_.histories.empty()) {
    records_.stuck_before.resize(records_.histories.size());
    for (std::size_t i = 0; i < records_.histories.size(); ++i) records_.stuck_before[i] = records_.histories[i].stuck;
  }
  try {
    gather(scene);
    if (sites_.empty()) return {};
    // Sized only when there is a law, because most systems have none.
    for (auto* x : {&scratch_.applied, &scratch_.dv, &scratch_.force}) x->resize(vdot.size());
    for (auto* x : {&scratch_.row, &scratch_.lambda}) x->resize(induced.size());
    ideal_.vdot.assign(vdot.begin(), vdot.end());
    ideal_.nonideal.assign(nonideal.begin(), nonideal.end());
    ideal_.induced.assign(induced.begin(), induced.end());
    classify_sliding(scene);
    bool is_first = true;
    for (FixedPointState iteration;; is_first = false) {
      report.fell_back = false;
      report.warning.clear();
      read_few_implicitly(scene);
      add_known_efforts(scene, vdot, nonideal, induced, is_first);
      couple_friction(scene, vdot, nonideal, induced);
      if (laws_agree(scene, induced, iteration)) {
        if (keeps_classification(scene, vdot)) break;
        iteration = {};
      }
      restore_without_laws(scene, vdot, nonideal, induced);
    }
    if (!coupling_.terms.empty() && !report.fell_back) store_efforts();
    for (const UnknownTerm& p : unknown_terms_) sites_[z(p.site)].effort += effort_of(p) + p.across;
    write_results(scene, vdot, induced);
    for (const Site& site : sites_)
      if (!site.effort.allFinite()) return names_on(scene, site) + " gave a force that is not finite";
    if (std::string why = excessive_force(scene, nonideal); !why.empty()) return why;
    write_efforts();
    check_jumps(scene);
    if (report.warning.empty()) report.warning = fault_.text;
    if (report.warning.empty()) report.warning = chatter_warning(scene);
  } catch (const std::exception& e) {
    // Exceptions of this library name the law. Exceptions of a law do not.
    const std::string what = e.what();
    const std::string name = error_.term == nullptr ? "a law" : name_of(scene, *error_.site, *error_.term);
    return what.rfind(name, 0) == 0 ? what : name + " threw: " + what;
  } catch (...) {
    return (error_.term == nullptr ? std::string("a law") : name_of(scene, *error_.site, *error_.term)) +
           " threw an exception that is not a std::exception";
  }
  return {};
}

/// Describes a law whose effort reverses in step after step. Otherwise returns an empty text.
std::string LawSolver::chatter_warning(const Scene& scene) const {
  if (records_.histories.size() != efforts.size()) return {};
  for (std::size_t i = 0; i < efforts.size(); ++i)
    if (const int of16 = std::popcount(records_.histories[i].reversals & 0xffffu);
        of16 >= 9 || records_.histories[i].overshoots >= 2) {
      const LawForce& e = efforts[i];
      const ConstraintId id = scene.assembly.layout.constraints[z(e.constraint)];
      const Law::Term& term = laws_on(scene.system, id)[z(e.law)].terms()[z(e.term)];
      const auto site =
          std::find_if(sites_.begin(), sites_.end(), [&](const Site& x) { return x.constraint == e.constraint; });
      // The text is the same in every step. LawWork::switches_per_second() gives the frequency.
      return name_of(scene, *site, term) + ": the force reverses " +
             (of16 >= 9 ? "in most steps" : "with the slip and more than stops it in one step") +
             " (chatter). The law is discontinuous, or too stiff for the step. Use coulomb(), which can stick, or "
             "regularized_coulomb(), which is smooth";
    }
  return {};
}

std::string beyond_all_bounds(double force, double acceleration) {
  return " gave a force of " + text(force) + " N, which is too large: it would cause an acceleration of " +
         text(acceleration) + " m/s². Check the units of its coefficients";
}

/// Rejects forces that are finite but unusable, because a host in single precision cannot represent their effect.
std::string LawSolver::excessive_force(const Scene& scene, std::span<const double> nonideal) {
  scene.solver.inverse_mass(nonideal, scratch_.dv);
  const double most = largest(scratch_.dv) * std::max(step, shortest_law_step);
  if (most <= fastest_by_laws) return {};
  std::size_t worst = 0;
  double size = -1;
  for (std::size_t i = 0; i < sites_.size(); ++i)
    if (const double x = sites_[i].effort.cwiseAbs().maxCoeff(); !(x <= size)) size = x, worst = i;
  return names_on(scene, sites_[worst]) + beyond_all_bounds(size, largest(scratch_.dv));
}

std::vector<std::string> LawSolver::inactive_laws(const System& system, const IslandLayout& block) const {
  std::vector<std::string> out;
  const auto is_zero = [&](const Site& site, const Law::Term& term) {
    return std::any_of(smooth_terms_.begin(), smooth_terms_.end(), [&](const SmoothTerm& s) {
      return s.what == &term && &sites_[z(s.site)] == &site && s.e.isZero(0);
    });
  };
  for (const Site& site : sites_) {
    const ConstraintId id = block.constraints[z(site.constraint)];
    for (const Law& law : laws_on(system, id))
      for (const Law::Term& term : law.terms()) {
        if (term.row >= 0) continue;
        bool slides = site.slips == 0, spins = site.spins == 0;
        if (term.static_limit) {
          slides = slides && (term.friction_kind == FrictionKind::slip || term.friction_kind == FrictionKind::both);
          spins = spins && term.friction_kind ==
                               FrictionKind::spin;  // Rolling friction needs a normal force, which may appear later.
          if (term.friction_kind == FrictionKind::both && site.spins > 0) slides = false;
        } else {  // A smooth law that only dissipates acts only where something moves. Others may load the constraint.
          slides = slides && (term.dissipative ? !term.has_moment || spins : spins && is_zero(site, term));
          spins = slides && term.has_moment;
        }
        if (!slides && !spins) continue;
        if (site.slips == 0 && site.spins == 0)
          out.push_back(name_of(system, block, site, term) +
                        ": the constraint leaves no direction to slide in and no axis to turn about, so the law has no "
                        "effect. Remove the law, or use a joint that can move");
        else
          out.push_back(
              name_of(system, block, site, term) + ": the constraint leaves no " +
              (spins ? "axis to turn about, so the law has no effect. For a slider use coulomb() or slider_friction()"
                     : "direction to slide in, so the law has no effect. For a hinge use hinge_friction()"));
      }
  }
  return out;
}

void LawSolver::accept(double dt) {
  for (Memory& m : persistent_.memories)
    if (m.what != nullptr) {
      m.value = m.given ? m.next : m.what->advance_state(m.thrust, dt);
      m.given = false;
    }
  persistent_.memory_t += dt;
  rates_.smooth_ratio = rates_.turning_ratio = nan_;
  if (records_.histories.size() != efforts.size()) records_.histories.assign(efforts.size(), History{});
  auto at = sites_.begin();
  for (std::size_t i = 0; i < efforts.size(); ++i) {
    History& h = records_.histories[i];
    const LawForce& e = efforts[i];
    while (at->constraint != e.constraint) ++at;
    const LawInput input = input_of(*at, e);
    Vector6d now;
    now << e.force, e.moment;
    h.overshoots += overshoots(*at, h, input, now, static_cast<int>(i), dt);
    h.input = input;
    h.value = records_.values[i];
    const double size = now.norm(), before = h.last.norm();
    h.largest = std::max(h.largest, size);
    const bool stuck = e.element >= 0 && elements[z(e.element)].sticks;
    // At rest, a force reverses with its rounding, and dry friction that sticks reverses with the load.
    const bool rounding = size <= 1e-9 * std::max(e.normal.norm(), e.normal_moment.norm());
    const bool reverses =
        h.known && (stuck != h.stuck || (!rounding && (h.reversed || (!stuck && !h.stuck && now.dot(h.last) < 0 &&
                                                                      std::max(size, before) > 0.1 * h.largest))));
    h.known = true;
    h.reversed = false;
    h.reversals = (h.reversals << 1) | static_cast<unsigned>(reverses);
    h.switches += reverses;
    h.last = now;
    h.stuck = stuck;
    h.bound = e.element >= 0 ? elements[z(e.element)].bound : 0;
  }
}

void LawSolver::start_at_instant_of(const LawSolver& of_step) {
  step = 0;
  span = of_step.step;
  persistent_ = of_step.persistent_;
  records_.stuck_before = of_step.records_.stuck_before;
  fault_ = of_step.fault_;
  set_internal_state(
      of_step.internal_state_now);  // Uses the values at the evaluation, because accept() may have followed since.
}

void LawSolver::set_friction_mode(int element, FrictionMode how, const Vector6d& sense) {
  if (element < 0 || z(element) >= persistent_.requested_modes.size()) return;
  persistent_.requested_modes[z(element)] = {how, sense};
}

void LawSolver::reset_friction_modes() {
  std::fill(persistent_.requested_modes.begin(), persistent_.requested_modes.end(), ModeRequest{});
}

}  // namespace linchpin
