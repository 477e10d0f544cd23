// The equation at one state with forces and laws. Hides the order of assembly, factor and laws, and the distinction
// between contradictory rows and rows with a residual velocity error.
#include "force_laws/law_solver.h"
#include "model/force_rows.h"
#include "problem/assembly_parts.h"
#include "problem/jacobian_products.h"
#include "problem/kept_assembly.h"

#include <linchpin/constraint.h>
#include <linchpin/dynamics.h>
#include <linchpin/forces.h>
#include <linchpin/report.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace linchpin {

struct LINCHPIN_PRIVATE Dynamics::Impl {
  const System* system;
  bool everything;
  std::vector<ConstraintId> only;  // Constraints of the block, when not `everything`.
  ConstraintFactorization solver;
  detail::KeptAssembly assembly;
  bool factored = false;
  Status status = Status::invalid;
  std::string reason = "the problem has not been evaluated yet. Call evaluate() first";
  FailureKind failure = FailureKind::problem;
  std::vector<Eigen::Matrix3d> added_inertia;  // By slot.
  std::vector<double> a, vdot, ideal, nonideal, lambda, induced;
  LawSolver laws_;

  /// Laws at the start of the step, where the evaluation was for a step (T11).
  struct AtStart {
    LawSolver laws;
    std::vector<double> vdot, nonideal, induced;
    std::vector<double> step_c;  // The prescribed force of the step.
    double share_of_step = 1;    // Time of the step's laws over the time of the mean.
    bool is_known = false;
  };
  AtStart at_start;

  /// The test whether rows that disagree contradict each other. It uses the same constraints with projected velocities.
  struct Consistency {
    detail::KeptAssembly projected;  // It is made when rows first look contradictory.
    State state;
    std::vector<double> row, projection;
    std::vector<double> residual, scale;  // b − A a, and the size of its terms.
    bool is_open = false;  // Rows disagree, and it has not been tested whether they contradict each other.
  };
  mutable Consistency consistency;

  struct Ranks {
    RankReport report;  // For the last evaluation, computed on first request.
    bool is_known = false;
  };
  mutable Ranks ranks;

  Impl(const System& s, bool all, std::span<const ConstraintId> constraints, SolveOptions options)
      : system(&s), everything(all), only(constraints.begin(), constraints.end()), solver(options) {
    restructure();
  }

  void restructure() {
    added_inertia.clear();
    if (everything) {
      assembly.layout = whole_system(*system);
    } else {
      std::vector<ConstraintId> on;
      for (const ConstraintId id : only)
        if (!system->removed(id) && system->enabled(id)) on.push_back(id);
      lay_out_island(*system, on, assembly.layout);
    }
    const std::size_t n = z(assembly.layout.n()), m = z(assembly.layout.m());
    for (auto* x : {&a, &vdot, &ideal, &nonideal}) x->assign(n, 0.0);
    for (auto* x : {&consistency.scale, &lambda, &induced, &consistency.residual}) x->assign(m, 0.0);
    laws_.restructure(assembly.layout);
    at_start.laws.restructure(assembly.layout);
    at_start.is_known = false;
    consistency.projected.layout = {};
    factored = consistency.is_open = false;
    status = Status::invalid;
    reason = "the problem has not been evaluated yet. Call evaluate() first";
    failure = FailureKind::problem;
    ranks.is_known = false;
  }

  Status fail(std::string why, FailureKind kind = FailureKind::problem) {
    at_start.is_known = false;
    reason = std::move(why);
    failure = kind;
    for (auto* x : {&vdot, &ideal, &nonideal, &lambda, &induced}) std::fill(x->begin(), x->end(), 0.0);
    laws_.prescribed.clear();
    laws_.efforts.clear();
    laws_.elements.clear();
    return status = Status::invalid;
  }

  Status factor(const State& state) {
    factored = ranks.is_known = consistency.is_open = false;
    std::fill(consistency.residual.begin(), consistency.residual.end(),
              0.0);  // Rows of another pose contain no information on these.
    if (!assembly.failure.empty()) return fail(assembly.failure);
    if (!added_inertia.empty()) add_inertia();
    if (!solver.factor(assembly.problem)) return fail(why_not_factored(state.t));
    factored = true;
    return solver.full_row_rank() ? Status::ok : Status::redundant;
  }

  Status solve(const State& state) { return factor(state) == Status::invalid ? Status::invalid : respond(state, true); }

  /// Computes all that depends on the applied force, with the present rows and factor.
  /// @param test_consistency  test at once whether rows that disagree contradict each other. Otherwise this is tested
  /// on request.
  Status respond(const State& state, bool test_consistency) {
    ConstrainedProblem& problem = assembly.problem;
    ranks.is_known = at_start.is_known = false;
    reason.clear();
    failure = FailureKind::none;
    std::fill(nonideal.begin(), nonideal.end(), 0.0);
    std::fill(induced.begin(), induced.end(), 0.0);
    if (!finite(problem.Q)) return fail("the applied force is not finite");

    thread_local std::vector<double> dv;
    dv.assign(problem.Q.begin(), problem.Q.end());
    solver.complete_force(problem.b, dv);
    solver.inverse_mass(dv, a);  // (T2)
    difference(assembly, problem.b, a, consistency.residual, consistency.scale);
    const double outside = solver.apply(consistency.residual, lambda, ideal, dv, consistency.scale);  // (T5)
    if (std::isinf(outside))
      return fail(*solver.info().reason ? solver.info().reason : "the acceleration is not finite");
    for (std::size_t j = 0; j < vdot.size(); ++j) vdot[j] = a[j] + dv[j];

    status = solver.full_row_rank() ? Status::ok : Status::redundant;
    consistency.is_open = outside > consistency_tolerance();
    if (consistency.is_open) store_state_for_projection(state);
    if (consistency.is_open && test_consistency && contradictory()) status = Status::contradictory;

    std::fill(problem.c.begin(), problem.c.end(), 0.0);
    if (std::string why = laws_.apply(scene(state), vdot, nonideal, induced); !why.empty())
      return fail(std::move(why), FailureKind::law);
    if (!finite(vdot) || !finite(lambda)) return fail("the acceleration is not finite");
    return status;
  }

  void evaluate_laws_at(const State& state, double over) {
    if (status == Status::invalid || !(laws_.step > 0) || laws_.efforts.empty()) return;
    at_start.share_of_step = laws_.step / over;
    at_start.laws.start_at_instant_of(laws_);
    at_start.vdot.resize(vdot.size());
    solver.inverse_mass(ideal, at_start.vdot);
    for (std::size_t j = 0; j < vdot.size(); ++j) at_start.vdot[j] += a[j];
    at_start.nonideal.assign(nonideal.size(), 0.0);
    at_start.induced.assign(induced.size(), 0.0);
    std::vector<double>& c = assembly.problem.c;
    at_start.step_c = c;
    std::fill(c.begin(), c.end(), 0.0);
    at_start.is_known = at_start.laws.apply(scene(state), at_start.vdot, at_start.nonideal, at_start.induced).empty();
    if (!at_start.is_known)
      c = at_start.step_c;  // A law has a value for the step but none at its start. The value for the step stays.
  }

  const LawSolver& reported_laws() const { return at_start.is_known ? at_start.laws : laws_; }

  LawSolver::Scene scene(const State& state) { return {*system, assembly, solver, state, lambda}; }

  /// Returns A_ikᵀλ about the centre of mass. On a point mass it is a force only.
  Vector6d wrench_on(int i, int k, std::span<const double> multipliers) const {
    Vector6d w = wrench_at_centre(assembly, i, k, multipliers);
    if (system->kind(system->constraint(assembly.layout.constraints[z(i)]).bodies()[z(k)]) == BodyKind::particle)
      w.tail<3>().setZero();
    return w;
  }

  const RankReport& known_ranks() const {
    if (!ranks.is_known && consistency.is_open) contradictory();
    if (!ranks.is_known)
      ranks.report = status == Status::invalid ? RankReport{} : solver.report(consistency.residual, consistency.scale);
    ranks.is_known = true;
    return ranks.report;
  }

 private:
  void add_inertia() {
    const std::vector<int>& column = assembly.layout.column;
    for_mass_blocks(assembly.layout, assembly.problem, [&](std::size_t s, double* M, int) {
      if (s >= added_inertia.size() || column[s + 1] - column[s] != 6) return;
      for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j) M[(3 + i) * 6 + 3 + j] += added_inertia[s](i, j);
    });
  }

  /// Returns why the solver failed, with the names of the system.
  std::string why_not_factored(double t) const {
    const std::string why = assembly.problem.invalid();
    const std::size_t column = first_without_inertia();
    if (column == z(assembly.layout.n())) return why.empty() ? "the mass matrix could not be factored" : why;
    std::size_t slot = 0;
    while (z(assembly.layout.column[slot + 1]) <= column) ++slot;
    const BodyId id = assembly.layout.bodies[slot];
    char when[48];
    std::snprintf(when, sizeof when, " at t = %.9g s", t);
    return (system->kind(id) == BodyKind::coordinate
                ? "coordinate '" + system->name(id) + "' has no inertia of its own"
                : "the mass or inertia of body '" + system->name(id) + "' is not above 0") +
           when + ": the mass matrix is not positive definite";
  }

  /// Returns the first column of M whose pivot in a Cholesky factor is not above rounding. Returns n when all are
  /// above, or M is not finite.
  std::size_t first_without_inertia() const {
    const ConstrainedProblem& problem = assembly.problem;
    std::size_t start = 0, first = 0;
    for (const int size : problem.block_sizes) {
      const std::size_t n = z(size);
      std::vector<double> L(problem.mass.begin() + static_cast<std::ptrdiff_t>(start),
                            problem.mass.begin() + static_cast<std::ptrdiff_t>(start + n * n));
      for (std::size_t j = 0; j < n; ++j) {
        const double whole = L[j * n + j];
        for (std::size_t k = 0; k < j; ++k) L[j * n + j] -= L[j * n + k] * L[j * n + k];
        if (!std::isfinite(L[j * n + j])) return z(assembly.layout.n());
        if (!(L[j * n + j] > 1e-14 * whole)) return first + j;
        L[j * n + j] = std::sqrt(L[j * n + j]);
        for (std::size_t i = j + 1; i < n; ++i) {
          for (std::size_t k = 0; k < j; ++k) L[i * n + j] -= L[i * n + k] * L[j * n + k];
          L[i * n + j] /= L[j * n + j];
        }
      }
      start += n * n;
      first += n;
    }
    return first;
  }

  /// Returns the consistency tolerance. A gap of g rotates rows by about g over the lever (taken as 1 m). Redundant
  /// rows then disagree by that much without a contradiction.
  double consistency_tolerance() const {
    return std::max(solver.options().consistency_tolerance, largest(assembly.position));
  }

  void store_state_for_projection(const State& state) {
    consistency.state.t = state.t;
    consistency.state.bodies.resize(state.bodies.size());
    for (const ConstraintId id : assembly.layout.constraints)
      for (const BodyId body : system->constraint(id).bodies()) consistency.state[body] = state[body];
    for (const BodyId body : assembly.layout.bodies) consistency.state[body] = state[body];
  }

  /// Tests whether rows contradict each other. The velocities of any host obey the constraints only to O(dt). They put
  /// a part of that size outside range(A) into b. Only a part that remains with projected velocities is a contradiction
  /// (T11).
  bool contradictory() const {
    const IslandLayout& layout = assembly.layout;
    consistency.is_open = false;
    if (consistency.projected.layout.constraints != layout.constraints ||
        consistency.projected.layout.row != layout.row)
      consistency.projected.layout = layout;
    consistency.row.resize(consistency.residual.size());
    consistency.projection.resize(vdot.size());
    for (std::size_t r = 0; r < consistency.row.size(); ++r) consistency.row[r] = -assembly.velocity[r];
    solver.apply(consistency.row, {}, {}, consistency.projection);  // (T14)
    for (std::size_t s = 0; s < layout.bodies.size(); ++s) {
      BodyState& body = consistency.state[layout.bodies[s]];
      const double* d = &consistency.projection[z(layout.column[s])];
      body.v += Vector3d(d[0], d[1], d[2]);
      if (layout.column[s + 1] - layout.column[s] == 6) body.w += Vector3d(d[3], d[4], d[5]);
    }
    assemble_constraints(*system, consistency.state, consistency.projected);
    if (!consistency.projected.failure.empty()) return true;
    difference(assembly, consistency.projected.problem.b, a, consistency.residual, consistency.scale);
    return solver.apply(consistency.residual, {}, {}, {}, consistency.scale) > consistency_tolerance();
  }
};

Dynamics::Dynamics(const System& system, SolveOptions options)
    : impl_(std::make_unique<Impl>(system, true, std::span<const ConstraintId>{}, options)) {}
Dynamics::Dynamics(const System& system, std::span<const ConstraintId> constraints, SolveOptions options)
    : impl_(std::make_unique<Impl>(system, false, constraints, options)) {}
Dynamics::~Dynamics() = default;
Dynamics::Dynamics(Dynamics&&) noexcept = default;

void Dynamics::restructure() { impl_->restructure(); }

Status Dynamics::evaluate(const State& state) noexcept {
  assemble_constraints(*impl_->system, state, impl_->assembly);
  assemble_forces(*impl_->system, state, impl_->assembly);
  return impl_->solve(state);
}

Status Dynamics::evaluate(const State& state, std::span<const double> Q) noexcept {
  assemble_constraints(*impl_->system, state, impl_->assembly);
  if (Q.size() != z(impl_->assembly.layout.n()))
    return impl_->fail("the applied force has " + std::to_string(Q.size()) + " entries, but the problem has " +
                       std::to_string(impl_->assembly.layout.n()) + " velocities");
  impl_->assembly.problem.Q.assign(Q.begin(), Q.end());
  impl_->assembly.problem.c.resize(Q.size());
  return impl_->solve(state);
}

Status Dynamics::factor(const State& state) noexcept {
  assemble_constraints(*impl_->system, state, impl_->assembly);
  impl_->assembly.problem.Q.assign(z(impl_->assembly.layout.n()), 0.0);
  impl_->assembly.problem.c.assign(z(impl_->assembly.layout.n()), 0.0);
  return impl_->factor(state);
}

Status Dynamics::resolve(const State& state, std::span<const double> Q) noexcept {
  if (!impl_->factored) return Status::invalid;  // `reason` still contains the cause.
  if (Q.size() != z(impl_->assembly.layout.n()))
    return impl_->fail("the applied force has " + std::to_string(Q.size()) + " entries, but the problem has " +
                       std::to_string(impl_->assembly.layout.n()) + " velocities");
  impl_->assembly.problem.Q.assign(Q.begin(), Q.end());
  return impl_->respond(state, false);
}

void Dynamics::add_inertia(std::span<const Eigen::Matrix3d> by_slot) {
  impl_->added_inertia.assign(by_slot.begin(), by_slot.end());
}

const std::string& Dynamics::reason() const { return impl_->reason; }
FailureKind Dynamics::failure() const { return impl_->failure; }
const Assembly& Dynamics::assembly() const { return impl_->assembly; }
const ConstraintFactorization& Dynamics::solver() const { return impl_->solver; }
std::span<const double> Dynamics::vdot() const { return impl_->vdot; }
std::span<const double> Dynamics::ideal() const { return impl_->ideal; }
std::span<const double> Dynamics::nonideal() const { return impl_->nonideal; }
std::span<const double> Dynamics::lambda() const { return impl_->lambda; }
std::span<const double> Dynamics::induced() const { return impl_->induced; }
std::span<const Prescribed> Dynamics::prescribed() const { return impl_->reported_laws().prescribed; }
std::span<const LawForce> Dynamics::law_forces() const { return impl_->laws_.efforts; }
void Dynamics::set_step(double dt) {
  impl_->laws_.step = dt > 0 && std::isfinite(dt) ? dt : 0;
  impl_->laws_.span = 0;
}
void Dynamics::set_instantaneous(double dt) {
  impl_->laws_.step = 0;
  impl_->laws_.span = dt > 0 && std::isfinite(dt) ? dt : 0;
}
void Dynamics::compute_rates(bool on) { impl_->laws_.rates = on; }
void Dynamics::find_rate(const State& state, double from) {
  if (impl_->status != Status::invalid) impl_->laws_.find_rate(impl_->scene(state), from);
}
double Dynamics::step() const { return impl_->laws_.step; }
std::span<const FrictionElement> Dynamics::friction_elements() const { return impl_->laws_.elements; }
void Dynamics::set_friction_mode(int element, FrictionMode how, const Vector6& sense) {
  impl_->laws_.set_friction_mode(element, how, sense);
}
void Dynamics::reset_friction_modes() { impl_->laws_.reset_friction_modes(); }
double Dynamics::reapply_stick(const State& state, std::span<double> v) {
  Impl& d = *impl_;
  if (d.status == Status::invalid || v.size() != d.vdot.size()) return 0;
  return d.laws_.reapply_stick(d.scene(state), v, d.vdot, d.nonideal, d.induced);
}
void Dynamics::add_law_response(const State& state, std::span<double> dv) {
  Impl& d = *impl_;
  if (d.status != Status::invalid && dv.size() == d.vdot.size()) d.laws_.respond(d.scene(state), dv, nullptr);
}
void Dynamics::add_law_response(const State& state, std::span<double> dv, LawResponse& so_far) {
  Impl& d = *impl_;
  so_far.impulse.assign(dv.size(), 0.0);
  if (d.status != Status::invalid && dv.size() == d.vdot.size()) d.laws_.respond(d.scene(state), dv, &so_far);
}
std::span<const double> Dynamics::internal_state() const { return impl_->laws_.internal_state_now; }
std::span<const double> Dynamics::internal_state_rate() const { return impl_->laws_.internal_state_rate; }
void Dynamics::set_internal_state(std::span<const double> values) { impl_->laws_.set_internal_state(values); }
void Dynamics::accept(double dt) { impl_->laws_.accept(dt); }
void Dynamics::evaluate_laws_at(const State& state, double over) noexcept { impl_->evaluate_laws_at(state, over); }
struct LINCHPIN_PRIVATE Dynamics::LawHistory {
  LawSolver::Snapshot snapshot;
};
std::shared_ptr<const Dynamics::LawHistory> Dynamics::law_history() const {
  auto out = std::make_shared<LawHistory>();
  impl_->laws_.save(out->snapshot);
  return out;
}
void Dynamics::set_law_history(const std::shared_ptr<const LawHistory>& history) {
  impl_->laws_.restore(history ? history->snapshot : LawSolver::Snapshot{});
}
void Dynamics::mark_law_history() { impl_->laws_.mark(); }
void Dynamics::return_to_marked_law_history() { impl_->laws_.return_to_mark(); }
const LawReport& Dynamics::law_report() const { return impl_->laws_.report; }

std::vector<std::string> Dynamics::warnings() const {
  Impl& d = *impl_;
  std::vector<std::string> out;
  if (!d.laws_.report.warning.empty()) out.push_back(d.laws_.report.warning);
  // The evaluated things may have been removed since.
  if (d.status == Status::invalid || AssemblyParts::of(d.assembly).laid_out_for != d.system->structure()) return out;
  for (const std::string& what : d.laws_.inactive_laws(*d.system, d.assembly.layout)) out.push_back(what);
  if (d.solver.full_row_rank()) return out;
  // Writes one sentence for all constraints that have a law of the same name.
  std::vector<std::pair<std::string, std::vector<std::string>>> readers;
  for (const int i : d.known_ranks().undetermined) {
    const ConstraintId id = d.assembly.layout.constraints[z(i)];
    for (const Law& law : laws_on(*d.system, id))
      for (const Law::Term& term : law.terms()) {
        auto at = std::find_if(readers.begin(), readers.end(), [&](const auto& r) { return r.first == term.name; });
        if (at == readers.end()) at = readers.insert(at, {term.name, {}});
        if (at->second.empty() || at->second.back() != d.system->name(id)) at->second.push_back(d.system->name(id));
      }
  }
  for (const auto& [law, on] : readers) {
    constexpr std::size_t most = 8;  // Number of names in one sentence.
    std::string where;
    for (std::size_t k = 0; k < std::min(on.size(), most); ++k)
      where += (k == 0 ? "" : k + 1 == on.size() ? " and " : ", ") + on[k];
    if (on.size() > most) where += " and " + std::to_string(on.size() - most) + " more";
    out.push_back(
        "law '" + law + "' on " + where +
        ": the normal force is undetermined, because redundant constraints share the load. The distribution of least "
        "norm is used. Remove a redundant constraint, or put the law on a constraint that carries the whole load");
  }
  return out;
}

RankReport Dynamics::rank_report() const { return impl_->known_ranks(); }

void Dynamics::reactions(const State& state, std::vector<Reaction>& out, bool with_rank) const {
  const Impl& d = *impl_;
  const IslandLayout& layout = d.assembly.layout;
  out.resize(layout.constraints.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    reaction(static_cast<int>(i), state, out[i]);
    const Constraint& constraint = d.system->constraint(layout.constraints[i]);
    out[i].name = constraint.name();
    out[i].gap = out[i].gap_angle = out[i].residual = 0;
    const auto add_gap = [&](RowUnit unit, double phi) {
      double& worst = unit == RowUnit::metre    ? out[i].gap
                      : unit == RowUnit::radian ? out[i].gap_angle
                                                : out[i].residual;
      worst = std::max(worst, std::fabs(phi));
    };
    for (int r = layout.row[i]; r < layout.row[i + 1]; ++r)
      add_gap(constraint.function().unit(r - layout.row[i]), d.assembly.position[z(r)]);
    if (const auto* const springs = detail::compliant_rows_of(constraint)) {
      std::vector<BodyState> X;
      for (const BodyId id : constraint.bodies()) X.push_back(state[id]);
      const auto& values = springs->evaluate(X, state.t);
      for (std::size_t row = 0; row < values.position.size(); ++row)
        add_gap(springs->whole().unit(static_cast<int>(row)), values.position[row]);
    }
    if (const JointRows::Alignment* const alignment = detail::alignment_of(constraint.function()))
      out[i].gap_angle = std::max(out[i].gap_angle, detail::turned_away(*alignment, state[constraint.bodies()[0]].R(),
                                                                        state[constraint.bodies()[1]].R()));
    out[i].determined = true;
    out[i].redundant = false;
  }
  if (!with_rank || d.status == Status::invalid || d.solver.full_row_rank()) return;
  for (const int i : d.known_ranks().undetermined) out[z(i)].determined = false;
  for (const int i : d.known_ranks().redundant) out[z(i)].redundant = true;
}

namespace {
/// Returns the sum of the laws of constraint i, or null without any.
const Prescribed* prescribed_on(const LawSolver& laws, int i) {
  const auto& all = laws.prescribed;  // In the order of constraints.
  const auto at =
      std::lower_bound(all.begin(), all.end(), i, [](const Prescribed& p, int of) { return p.constraint < of; });
  return at != all.end() && at->constraint == i ? &*at : nullptr;
}
}  // namespace

void Dynamics::reaction(int i, const State& state, Reaction& reaction) const {
  const Impl& d = *impl_;
  const IslandLayout& layout = d.assembly.layout;
  const Constraint& constraint = d.system->constraint(layout.constraints[z(i)]);
  const auto bodies = constraint.bodies();
  const int K = static_cast<int>(bodies.size()), first = layout.row[z(i)], end = layout.row[z(i + 1)];
  reaction.t = state.t;
  reaction.lambda.assign(d.lambda.begin() + first, d.lambda.begin() + end);
  for (Wrenches* part : {static_cast<Wrenches*>(&reaction), &reaction.ideal, &reaction.prescribed, &reaction.induced,
                         &reaction.stabilisation})
    part->others.resize(z(std::max(0, K - 2)));

  const Prescribed* const law = prescribed_on(d.reported_laws(), i);
  const Prescribed* const law_in_step = d.at_start.is_known ? prescribed_on(d.laws_, i) : nullptr;
  const std::span<const double> induced_now = d.at_start.is_known ? d.at_start.induced : d.induced;

  reaction.power = 0;
  for (int k = 0; k < K; ++k) {
    const BodyState& body = state[bodies[z(k)]];
    const Vector3d p_WQ = constraint.application_point(k, state);
    Wrench& ideal = reaction.ideal.on(k) = moved_to(d.wrench_on(i, k, d.lambda), body.p, p_WQ);
    Wrench& induced = reaction.induced.on(k) = moved_to(d.wrench_on(i, k, induced_now), body.p, p_WQ);
    const auto wrench_of = [&](const Prescribed* of) {
      Wrench w{Vector3d::Zero(), Vector3d::Zero(), p_WQ};
      if (of != nullptr && k < 2)
        w = k == 0 ? Wrench{of->force, of->moment, of->p_WQ}.about(p_WQ)
                   : Wrench{-of->force, -of->moment, of->p_WQ}.about(p_WQ);
      if (d.system->kind(bodies[z(k)]) == BodyKind::particle) w.moment.setZero();
      return w;
    };
    const Wrench& prescribed = reaction.prescribed.on(k) = wrench_of(law);
    if (d.at_start.is_known) {
      const Wrench laws = wrench_of(law_in_step), called = moved_to(d.wrench_on(i, k, d.induced), body.p, p_WQ);
      const double share = d.at_start.share_of_step;
      reaction.stabilisation.on(k) = {share * (laws.force + called.force) - prescribed.force - induced.force,
                                      share * (laws.moment + called.moment) - prescribed.moment - induced.moment, p_WQ};
    } else if (d.laws_.step > 0) {
      reaction.stabilisation.on(k) = Wrench{Vector3d::Zero(), Vector3d::Zero(), p_WQ};
    }
    Wrench& sum = reaction.on(k);
    sum =
        Wrench{ideal.force + induced.force + prescribed.force, ideal.moment + induced.moment + prescribed.moment, p_WQ};
    const int dof = d.system->dof(bodies[z(k)]);
    if (dof == 0) continue;
    reaction.power += sum.force.dot(body.v);
    if (dof == 6) reaction.power += sum.about(body.p).moment.dot(body.w);
  }

  reaction.velocity_residual = 0;
  for (int r = first; r < end; ++r)
    reaction.velocity_residual = std::max(reaction.velocity_residual, std::fabs(d.assembly.velocity[z(r)]));
}

}  // namespace linchpin
