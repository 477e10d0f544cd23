// The facade of the host module: bodies, constraints and reports. step_driver.cpp has the step.
#include "host/constraint_solver_impl.h"
#include "host/diagnostics.h"
#include "host/reactions.h"
#include "host/rollback.h"
#include "host/tuning.h"
#include "host/unilateral.h"
#include "model/format.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace linchpin::host {

void World::read_frame(BodyId body, Vector3d& p, Matrix3d& R) const {
  BodyState s;
  read(body, s);
  p = s.p;
  R = s.R();
}
void World::replace_velocity(const Motion& given, const Vector3d& v, const Vector3d& w) {
  Motion end;
  end.body = given.body;
  end.turns = given.turns;
  end.v = v;
  end.w = w;
  write({&end, 1});
}
void World::move(BodyId body, const Vector3d& p, const Quaterniond& q) {
  BodyState now;
  read(body, now);
  Motion there;
  there.body = body;
  there.write_pose = true;
  there.v = now.v;
  there.w = now.w;
  there.start = {p, q};
  write({&there, 1});
}
bool World::restore_finite(BodyId body, const BodyState& was) {
  BodyState now;
  read(body, now);
  if (now.p.allFinite() && now.q.coeffs().allFinite() && can_hold(now.v) && can_hold(now.w)) return false;
  Motion back;
  back.body = body;
  back.write_pose = true;
  back.v = was.v;
  back.w = was.w;
  back.start = {was.p, was.q};
  write({&back, 1});
  return true;
}
Quaterniond World::rotation(const Vector3d& w, double dt) const {
  BodyState s;
  advance(s, Vector3d::Zero(), w, dt);
  return s.q;
}

unsigned long Context::next_serial() {
  static std::atomic<unsigned long> last{0};
  return ++last;
}

namespace {

/// @throw std::invalid_argument with the name and the value of an option that no step can be made with
const SolverOptions& checked(const SolverOptions& o) {
  const auto refuse = [](const char* name, const std::string& limit, const std::string& value) {
    throw std::invalid_argument(std::string("linchpin: Options::") + name + " must be " + limit + ", got " + value);
  };
  const std::array<std::pair<const char*, double>, 7> positive{{{"rank_tolerance", o.rank_tolerance},
                                                                {"newton_tolerance", o.newton_tolerance},
                                                                {"gap_tolerance", o.gap_tolerance},
                                                                {"tolerance", o.tolerance},
                                                                {"max_tension_frequency", o.max_tension_frequency},
                                                                {"max_energy_gain", o.max_energy_gain},
                                                                {"max_velocity_residual", o.max_velocity_residual}}};
  struct Count {
    const char* name;
    int value, least;
  };
  for (const auto& [name, x] : positive)
    if (!(x > 0)) refuse(name, "above 0", text(x));
  for (const auto& [name, x] : std::span(positive).first(4))
    if (std::isinf(x)) refuse(name, "finite", text(x));
  for (const auto& [name, value, least] :
       {Count{"max_newton", o.max_newton, 0}, Count{"max_substeps", o.max_substeps, 1}, Count{"threads", o.threads, 1}})
    if (value < least) refuse(name, "at least " + std::to_string(least), std::to_string(value));
  return o;
}

}  // namespace

ConstraintSolver::ConstraintSolver(World& world, const SolverOptions& options)
    : impl_(std::make_unique<Impl>(world, checked(options))) {}
ConstraintSolver::~ConstraintSolver() = default;

const SolverOptions& ConstraintSolver::options() const { return impl_->c.options; }
void ConstraintSolver::set_options(const SolverOptions& options) {
  (void)checked(options);
  if (options.mode != impl_->c.options.mode)
    demand("set_options()", "the mode cannot change after the solver is made. Make another solver");
  if (options.threads != impl_->c.options.threads)
    demand("set_options()", "the number of threads is " + std::to_string(impl_->c.options.threads) +
                                " and cannot change to " + std::to_string(options.threads) +
                                " after the solver is made. Make another solver");
  update_reports();  // of the last step, which was taken with the old options
  clear_islands();
  impl_->c.options = options;
}
Context& ConstraintSolver::context() { return impl_->c; }
World& ConstraintSolver::world() { return impl_->c.world; }
void ConstraintSolver::set_companion(Companion* companion) { impl_->c.companion = companion; }
void ConstraintSolver::set_capabilities(const Capabilities& capabilities) { impl_->c.capabilities = capabilities; }

// ---- bodies ----

namespace {
const char* const not_a_body = " (not a body)";
}

System& ConstraintSolver::system() { return impl_->c.system; }

BodyId ConstraintSolver::add_body(BodyKind kind, double mass, const Vector3d& inertia) {
  Context& c = impl_->c;
  const std::string name = c.bodies.new_name("body");
  Result<BodyId> made{Error{ErrorKind::argument, {}}};
  // Poses are read in every step.
  if (kind == BodyKind::particle) {
    made = c.system.try_add_particle(name, mass, Vector3d::Zero());
  } else if (kind == BodyKind::rigid) {
    made = c.system.try_add_body(name, 1, Matrix3d::Identity(), Pose{});
    if (const Result<void> set = c.system.try_set_mass(*made, mass, inertia.asDiagonal()); !set) {
      c.system.remove(*made);
      made = set.error();
    }
  } else if (kind == BodyKind::kinematic) {
    made = c.system.add_kinematic(name, Pose{});
  }
  const BodyId id = made ? *made : c.system.add_fixed(kind == BodyKind::fixed ? name : name + not_a_body, Pose{});
  c.bodies.add(id, true);
  impl_->sleep.forget(id);
  c.locked.set(id, 0, -1);
  return id;
}

bool ConstraintSolver::is_of_kind(BodyId body, BodyKind kind) const {
  const System& system = impl_->c.system;
  return system.kind(body) == kind || system.name(body).ends_with(not_a_body);
}

void ConstraintSolver::remove_body(BodyId body) { impl_->c.bodies.remove(body); }
void ConstraintSolver::replace_body(BodyId old, BodyId now) {
  impl_->c.bodies.replace(old, now);
  impl_->c.constraints.replace_body(old, now);
}
void ConstraintSolver::change_body(BodyId body, double mass, const Vector3d& inertia) {
  impl_->c.bodies.set_mass(body, mass, inertia);
  impl_->c.bodies.changes.note(body);
}
void ConstraintSolver::set_in_world(BodyId body, bool is) { impl_->c.bodies.set_in_world(body, is); }

// ---- reports ----

void ConstraintSolver::make_reactions() { impl_->c.reactions.make(impl_->c); }

void ConstraintSolver::update_reports() { host::update_reports(impl_->c); }

void ConstraintSolver::update_redundancy() {
  make_reactions();
  update_reports();
  if (impl_->c.companion) impl_->c.companion->update_redundancy();
  host::update_redundancy(impl_->c);
}

std::span<Reaction> ConstraintSolver::reactions() { return impl_->c.reactions.all(); }
std::span<LawWork> ConstraintSolver::laws() { return impl_->c.laws.all(impl_->c.constraints); }
std::span<LawWork> ConstraintSolver::laws_of(int entry) {
  (void)impl_->c.laws.all(impl_->c.constraints);
  return impl_->c.laws.of(impl_->c.constraints.at(entry));
}
std::span<const MomentumBalance> ConstraintSolver::momentum_balances() const {
  if (impl_->c.companion) impl_->c.companion->append_balances();
  return impl_->c.balance.all();
}
Counts& ConstraintSolver::counts() { return impl_->c.counts; }
const std::vector<LawWarning>& ConstraintSolver::law_warnings() const { return impl_->c.laws.warnings.all(); }
const std::vector<LawWarning>& ConstraintSolver::law_failures() const { return impl_->c.laws.failures.all(); }
std::span<const EnergyGain> ConstraintSolver::energy_gains() const { return impl_->c.energy_gains; }
std::span<const VelocityResidual> ConstraintSolver::velocity_residuals() const { return impl_->c.velocity_residuals; }
std::string& ConstraintSolver::fallback_reason() { return impl_->c.notes.fallback_reason; }

std::string ConstraintSolver::summary() {
  World& world = impl_->c.world;
  if (world.why_absent())
    return world.has_ended() ? "linchpin: the world has been destroyed\n"
                             : "linchpin: the solver is not attached to a world. Call attach()\n";
  world.find_joints();
  world.look_at_bodies(false);
  make_reactions();
  update_reports();
  return host::summary(impl_->c, energy());
}

double ConstraintSolver::energy() const {
  const Context& c = impl_->c;
  if (c.world.why_absent()) return std::numeric_limits<double>::quiet_NaN();
  return c.world.energy();
}

std::vector<HostPart> ConstraintSolver::host_parts() const { return host::host_parts(impl_->c); }

RankReport ConstraintSolver::rank_report() {
  update_reports();  // residuals
  return host::rank_report(impl_->c);
}

ConstrainedProblem ConstraintSolver::problem(std::string_view constraint) { return problem_of(impl_->c, constraint); }

std::vector<Finding> ConstraintSolver::check() {
  Context& c = impl_->c;
  if (c.world.why_absent())
    return {{"", c.world.has_ended() ? "the world has been destroyed"
                                     : "the solver is not attached to a world. Call attach()"}};
  c.world.find_joints();
  c.world.look_at_bodies(false);
  c.world.map_joints(false);
  State now = c.bodies.start;
  now.t = c.t;
  for (int i = 1; i < static_cast<int>(c.bodies.count()); ++i)
    if (const BodyId id = c.system.body_at(i); c.bodies.in_host(id)) c.world.read(id, now[id]);
  return host::check(c, now);
}

void ConstraintSolver::draw_reactions(double scale, const DrawLine& draw) {
  if (!(scale >= 0) || !std::isfinite(scale))
    demand("draw_reactions()", "the scale must be finite and not below 0, got " + text(scale));
  if (!draw) demand("draw_reactions()", "the argument `draw` is an empty function");
  make_reactions();
  update_reports();
  host::draw_reactions(impl_->c, scale, draw);
}

const BodyState& ConstraintSolver::start_state(BodyId body) const { return impl_->c.bodies.start[body]; }
joints::PlacedBody ConstraintSolver::placed(BodyId body) const {
  const Context& c = impl_->c;
  (void)c.system.kind(body);  // throws where there is no such body
  BodyState now;
  if (!(c.companion && c.companion->read_state(body, now)) && c.bodies.in_host(body)) c.world.read(body, now);
  return {body, {now.p, now.q}};
}
std::span<const BodyId> ConstraintSolver::solved_bodies() {
  impl_->bodies.clear();
  for (const auto& b : impl_->c.islands.all())
    if (b->took_part(impl_->c.step))
      impl_->bodies.insert(impl_->bodies.end(), b->layout().bodies.begin(), b->layout().bodies.end());
  return impl_->bodies;
}
double ConstraintSolver::t() const { return impl_->c.t; }
void ConstraintSolver::set_t(double t) { impl_->c.t = t; }
double ConstraintSolver::dt() const { return impl_->c.dt; }

// ---- forgetting, and going back ----

void ConstraintSolver::clear_islands() {
  Context& c = impl_->c;
  for (const auto& b : c.islands.all()) flush_work(c, *b);
  c.islands.clear();
  structure_changed();
}

void ConstraintSolver::reset() {
  Context& c = impl_->c;
  update_reports();
  c.counts = {};
  c.energy_gains.clear();
  c.velocity_residuals.clear();
  c.laws.warnings.clear();
  c.laws.failures.clear();
  c.gaps.largest_gap = c.gaps.largest_angle = 0;
  c.teleported = true;
  c.skipped = false;
  c.dt = tuning::first_dt;
  c.bodies.forget_motions();
  impl_->sleep.forget();
  c.notes.fallback_reason.clear();
  c.notes.dropped.clear();
  c.notes.dropped_count = 0;
  for (const auto& b : c.islands.all()) {
    flush_work(c, *b);
    forget_history(c, *b);
  }
  c.reactions.forget_work();
  for (int i = 0; i < entry_count(); ++i) {
    ConstraintEntry& r = c.constraints[i];
    r.law_range.count = 0;  // what laws did is forgotten
    r.work = r.parting_speed = 0;
    r.time = ConstraintEntry::Time::constant;
    r.outcome.contradictory = false;
    if (!r.released || !r.unilateral.reengage) continue;
    r.released = false;
    c.world.enable(i, r.enabled);
    structure_changed();
  }
  c.laws.laws_changed();
  if (c.companion) c.companion->reset();
  if (!c.world.why_absent()) {
    c.world.find_joints();
    for (ConstraintEntry& r : c.constraints.all())
      if (r.geometry.is_gear) r.joint.is_mapped = false;  // its teeth mesh again where they are
    c.world.map_joints(true);
    order_by_age();
  }
}

std::shared_ptr<SolverHistory> ConstraintSolver::history() {
  if (!impl_->c.world.why_absent()) impl_->c.world.find_joints();
  if (impl_->c.reactions.exist()) update_reports();  // adds the work of the last step
  auto out = keep_history(impl_->c, impl_->sleep);
  if (impl_->c.companion) out->tree_laws = impl_->c.companion->law_history();
  return out;
}

void ConstraintSolver::restore(const SolverHistory& past) {
  Context& c = impl_->c;
  if (!c.world.why_absent()) c.world.find_joints();
  demand(why_not_restored(c, past));
  demand_world(c.world, "restore()");
  c.gaps.forget_unreported();
  for (const EntryPast& was : past.entries) {
    ConstraintEntry& r = entry(was.entry);
    if (!r.is_joint() || r.joint.released_to_host == was.released_to_host) continue;
    r.joint.released_to_host = was.released_to_host;
    r.joint.is_mapped = false;
  }
  c.world.map_joints(true);  // joints that the program has set back are as they were then
  refresh_order();
  restore_history(c, impl_->sleep, past);
  if (c.companion) c.companion->restore(past.tree_laws);
}

}  // namespace linchpin::host
