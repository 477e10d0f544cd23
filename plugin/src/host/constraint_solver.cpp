// The facade of the host module: bodies, constraints and reports. step_driver.cpp has the step.
#include "host/constraint_solver_impl.h"
#include "host/diagnostics.h"
#include "host/reactions.h"
#include "host/rollback.h"
#include "host/tuning.h"
#include "host/unilateral.h"

#include <algorithm>
#include <atomic>
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
  if (now.p.allFinite() && now.q.coeffs().allFinite() && now.v.allFinite() && now.w.allFinite()) return false;
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
Vector3d World::gyroscopic_change(BodyId, const Matrix3d&) const { return Vector3d::Zero(); }

unsigned long Context::next_serial() {
  static std::atomic<unsigned long> last{0};
  return ++last;
}

ConstraintSolver::ConstraintSolver(World& world, const Options& options)
    : impl_(std::make_unique<Impl>(world, options)) {}
ConstraintSolver::~ConstraintSolver() = default;

const Options& ConstraintSolver::options() const { return impl_->c.options; }
Context& ConstraintSolver::context() { return impl_->c; }
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
  BodyId id;
  std::string why;
  // Poses are read in every step.
  if (kind == BodyKind::particle) {
    why = c.system.try_add_particle(id, name, mass, Vector3d::Zero());
  } else if (kind == BodyKind::rigid) {
    why = c.system.try_add_body(id, name, 1, Matrix3d::Identity(), Pose{});
    if (why.empty()) why = c.system.try_set_mass(id, mass, inertia.asDiagonal());
    if (!why.empty() && id.index >= 0) c.system.remove(id);
  } else if (kind == BodyKind::driven) {
    id = c.system.add_driven(name, Pose{});
  }
  if (kind == BodyKind::fixed || !why.empty()) id = c.system.add_fixed(why.empty() ? name : name + not_a_body, Pose{});
  c.bodies.add(id, true);
  impl_->sleep.forget(id);
  impl_->builder.set_locked_axes(id, -1);
  return id;
}

bool ConstraintSolver::is_of_kind(BodyId body, BodyKind kind) const {
  const System& system = impl_->c.system;
  return system.kind(body) == kind || system.name(body).ends_with(not_a_body);
}

void ConstraintSolver::remove_body(BodyId body) { impl_->c.bodies.remove(body); }
void ConstraintSolver::set_mass(BodyId body, double mass, const Vector3d& inertia) {
  impl_->c.bodies.set_mass(body, mass, inertia);
}
void ConstraintSolver::set_in_world(BodyId body, bool is) { impl_->c.bodies.set_in_world(body, is); }
void ConstraintSolver::read_body(BodyId body) { impl_->c.bodies.read(impl_->c.world, body, impl_->c.step); }
void ConstraintSolver::set_locked_axes(BodyId body, int entry) { impl_->builder.set_locked_axes(body, entry); }

// ---- constraints ----

ConstraintEntry& ConstraintSolver::entry(int index) { return impl_->c.constraints[index]; }
int ConstraintSolver::entry_count() const { return static_cast<int>(impl_->c.constraints.size()); }
const Constraint& ConstraintSolver::constraint(int entry) const {
  return impl_->c.constraints.of(impl_->c.constraints[entry]);
}
int ConstraintSolver::find(std::string_view name) const { return impl_->c.constraints.find(name); }
std::string ConstraintSolver::free_name(std::string base) const {
  return impl_->c.constraints.free_name(std::move(base));
}

int ConstraintSolver::add_entry(ConstraintEntry::Owner owner, std::string name) {
  structure_changed();
  return impl_->c.constraints.add(owner, std::move(name));
}

std::string ConstraintSolver::add_constraint(Constraint constraint, int& entry) {
  Context& c = impl_->c;
  const std::string name = constraint.name();
  if (find(name) >= 0) return "linchpin: the name '" + name + "' is in use";
  State now = c.system.initial_state();
  for (const BodyId id : constraint.bodies()) c.world.read(id, now[id]);
  now.t = c.t;
  if (const ConstraintCheck found = check_constraint(c.system, constraint, now); !found.ok())
    return "linchpin: " + found.message;
  const int made = add_entry(ConstraintEntry::Owner::user, name);
  if (std::string why = attach(made, std::move(constraint)); !why.empty()) {
    remove(made);
    return "linchpin: " + why;
  }
  entry = made;
  append_reaction(entry);
  return {};
}

void ConstraintSolver::append_reaction(int entry) { impl_->c.reactions.append(impl_->c, impl_->c.constraints[entry]); }

void ConstraintSolver::rename(int entry, std::string name) { impl_->c.constraints.rename(entry, std::move(name)); }

// The reaction keeps its place: a program that names ten thousand joints does not wait for as many sorts.
void ConstraintSolver::refresh_reaction(int entry) {
  Context& c = impl_->c;
  for (const auto& b : c.islands.all()) flush_work(c, *b);
  structure_changed();
  c.reactions.describe(c.constraints[entry]);
  c.laws.constraints_changed();
}

std::string ConstraintSolver::attach(int entry, Constraint constraint) {
  impl_->c.laws.constraints_changed();
  return impl_->c.constraints.attach(entry, std::move(constraint));
}

void ConstraintSolver::detach(int entry) {
  if (impl_->c.constraints[entry].id.index < 0) return;
  update_reports();
  impl_->c.constraints.detach(entry);
}

void ConstraintSolver::set_geometry(int entry, const JointRows& rows) {
  impl_->c.gaps.set_geometry(impl_->c.constraints[entry], rows);
}
void ConstraintSolver::set_turned_far(int entry, bool is) {
  impl_->c.gaps.set_turned_far(impl_->c.constraints[entry], is);
}
void ConstraintSolver::note_frames_moved(int entry) { impl_->c.constraints[entry].frames_moved_at = impl_->c.step; }
void ConstraintSolver::set_left_to_host(int entry, bool is) {
  impl_->c.reactions.set_left_to_host(impl_->c.constraints[entry], is);
}
void ConstraintSolver::clear_reaction(int entry) {
  ConstraintEntry& r = impl_->c.constraints[entry];
  if (impl_->c.reactions.exist() && r.reaction >= 0) impl_->c.reactions.clear(impl_->c, r);
}

bool ConstraintSolver::acts_on(int entry, BodyId body) const {
  const ConstraintEntry& r = impl_->c.constraints[entry];
  if (!r.alive || (r.id.index < 0 && !r.deferred)) return false;
  const auto bodies = constraint(entry).bodies();
  return std::find(bodies.begin(), bodies.end(), body) != bodies.end();
}

void ConstraintSolver::replace_body(int entry, BodyId was, BodyId is) {
  const auto bodies = constraint(entry).bodies();
  std::vector<BodyId> ids(bodies.begin(), bodies.end());
  std::replace(ids.begin(), ids.end(), was, is);
  Constraint same = constraint(entry).between(std::move(ids));
  detach(entry);
  ConstraintEntry& r = impl_->c.constraints[entry];
  if (const std::string why = attach(entry, same); why.empty()) {
    r.deferred.reset();
    r.host_part.clear();
  } else {
    r.deferred = std::make_unique<Constraint>(std::move(same));
    r.host_part = "all (" + why + ")";
  }
}

void ConstraintSolver::remove(int entry) {
  Context& c = impl_->c;
  update_reports();
  for (const auto& b : c.islands.all()) flush_work(c, *b);
  c.constraints.remove(entry);
}

std::string ConstraintSolver::add_law(int entry, Law law) {
  Context& c = impl_->c;
  ConstraintEntry& r = c.constraints[entry];
  try {
    update_reports();
    if (r.id.index >= 0) linchpin::add_law(c.system, r.id, law);
  } catch (const std::exception& e) {
    return e.what();
  }
  r.laws.push_back(std::move(law));
  structure_changed();
  c.laws.laws_changed();
  host::wake(c, r);
  return {};
}

void ConstraintSolver::clear_laws(int entry) {
  Context& c = impl_->c;
  ConstraintEntry& r = c.constraints[entry];
  update_reports();
  structure_changed();
  r.laws.clear();
  for (const ConstraintId id : {r.id, r.link_id})
    if (id.index >= 0) linchpin::clear_laws(c.system, id);
  r.law_count = 0;
  c.laws.laws_changed();
  host::wake(c, r);
}

std::string ConstraintSolver::set_unilateral(int entry, OneSided how) {
  Context& c = impl_->c;
  ConstraintEntry& r = c.constraints[entry];
  if (r.is_joint())
    return "linchpin: '" + r.name +
           "' is a joint of the world, which holds both ways: only constraints of your own can be one-sided";
  const ConstraintFunction& function = c.constraints.of(r).function();
  if (function.level() != Level::position || function.rows() != 1)
    return "linchpin: constraint '" + r.name + "': only a constraint of one position row can be one-sided";
  r.unilateral = how;
  for (const ConstraintId id : {r.id, r.link_id})
    if (id.index >= 0) linchpin::set_one_sided(c.system, id, how);
  if (r.released && !how.on) {
    r.released = false;
    c.world.enable(entry, r.enabled);
    structure_changed();
  }
  host::wake(c, r);
  return {};
}

void ConstraintSolver::set_application_points(int entry, std::vector<Vector3d> points) {
  Context& c = impl_->c;
  ConstraintEntry& r = c.constraints[entry];
  if (r.id.index >= 0) return void(c.system.constraint(r.id).acting_at(std::move(points)));
  if (!r.is_on_links() || !r.deferred) return;
  if (r.link_id.index >= 0) c.system.constraint(r.link_id).acting_at(points);
  r.deferred->acting_at(std::move(points));
}

void ConstraintSolver::enable(int entry, bool on) {
  ConstraintEntry& r = impl_->c.constraints[entry];
  r.enabled = on;
  r.released = false;
  structure_changed();
  impl_->c.world.enable(entry, on);
  host::wake(impl_->c, r);
}

void ConstraintSolver::wake(int entry) { host::wake(impl_->c, impl_->c.constraints[entry]); }

void ConstraintSolver::set_order(std::span<const int> joints) { impl_->c.reactions.set_order(impl_->c, joints); }

void ConstraintSolver::order_by_age() {
  Context& c = impl_->c;
  std::vector<ConstraintEntry*> all;
  for (ConstraintEntry& r : c.constraints.all())
    if (r.alive && r.id.index >= 0) all.push_back(&r);
  std::sort(all.begin(), all.end(), [](const auto* a, const auto* b) { return a->version < b->version; });
  if (std::is_sorted(all.begin(), all.end(), [](const auto* a, const auto* b) { return a->order < b->order; })) return;
  for (ConstraintEntry* r : all) c.constraints.put_last(*r);
  structure_changed();
}

void ConstraintSolver::structure_changed() { ++impl_->c.structure; }
unsigned ConstraintSolver::structure() const { return impl_->c.structure; }
bool ConstraintSolver::has_exact_constraints() const { return impl_->c.lists.any_exact; }
std::span<const int> ConstraintSolver::entries_with_host_rows() const { return impl_->c.lists.with_host_rows; }

void ConstraintSolver::linearize(int entry, std::vector<double>& A, std::vector<double>& b,
                                 std::vector<double>& position, std::vector<double>& velocity) const {
  LinearizedEntry rows = host::linearize(impl_->c, impl_->c.constraints[entry]);
  A.swap(rows.A);
  b.swap(rows.b);
  position.swap(rows.position);
  velocity.swap(rows.velocity);
}

// ---- reports ----

void ConstraintSolver::make_reactions() { impl_->c.reactions.make(impl_->c); }

void ConstraintSolver::update_reports() {
  host::update_reports(impl_->c);
  if (impl_->c.companion) impl_->c.companion->update_reports();
  impl_->c.gaps.report(impl_->c);
}

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
  return impl_->c.laws.of(impl_->c.constraints[entry]);
}
std::span<const BodyBooks> ConstraintSolver::balances() const { return impl_->c.balance.all(); }
Counts& ConstraintSolver::counts() { return impl_->c.counts; }
const std::vector<LawWarning>& ConstraintSolver::law_warnings() const { return impl_->c.laws.warnings.all(); }
std::string& ConstraintSolver::trouble() { return impl_->c.trouble; }

std::string ConstraintSolver::summary(const std::string& remark, double energy) {
  make_reactions();
  update_reports();
  return host::summary(impl_->c, remark, energy);
}

std::vector<HostPart> ConstraintSolver::host_parts() const { return host::host_parts(impl_->c); }

RankReport ConstraintSolver::rank_report() {
  update_reports();  // residuals
  return host::rank_report(impl_->c);
}

Instant ConstraintSolver::problem(std::string_view constraint) { return problem_of(impl_->c, constraint); }

std::vector<Finding> ConstraintSolver::check() {
  Context& c = impl_->c;
  State now = c.bodies.start;
  now.t = c.t;
  for (int i = 1; i < static_cast<int>(c.bodies.count()); ++i)
    if (const BodyId id = c.system.body_at(i); c.bodies.in_host(id)) c.world.read(id, now[id]);
  return host::check(c, now);
}

const BodyState& ConstraintSolver::start_state(BodyId body) const { return impl_->c.bodies.start[body]; }
std::span<const BodyId> ConstraintSolver::solved_bodies() {
  impl_->bodies.clear();
  for (const auto& b : impl_->c.islands.all())
    if (b->took_part(impl_->c.step))
      impl_->bodies.insert(impl_->bodies.end(), b->block().bodies.begin(), b->block().bodies.end());
  return impl_->bodies;
}
double ConstraintSolver::t() const { return impl_->c.t; }
void ConstraintSolver::set_t(double t) { impl_->c.t = t; }
double ConstraintSolver::dt() const { return impl_->c.dt; }

// ---- forgetting, and going back ----

void ConstraintSolver::forget_islands() {
  Context& c = impl_->c;
  for (const auto& b : c.islands.all()) flush_work(c, *b);
  c.islands.clear();
  structure_changed();
}

void ConstraintSolver::forget_unreported_gaps() { impl_->c.gaps.forget_unreported(); }

void ConstraintSolver::reset() {
  Context& c = impl_->c;
  update_reports();
  c.counts = {};
  c.laws.warnings.clear();
  c.gaps.largest_gap = c.gaps.largest_angle = 0;
  c.teleported = true;
  c.dt = tuning::first_dt;
  c.bodies.forget_motions();
  impl_->sleep.forget();
  c.trouble.clear();
  for (const auto& b : c.islands.all()) {
    flush_work(c, *b);
    forget_history(c, *b);
  }
  c.reactions.forget_work();
  for (int i = 0; i < entry_count(); ++i) {
    ConstraintEntry& r = c.constraints[i];
    r.law_count = 0;  // what laws did is forgotten
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
}

std::shared_ptr<SolverHistory> ConstraintSolver::history() {
  if (impl_->c.reactions.exist()) update_reports();  // adds the work of the last step
  auto out = keep_history(impl_->c, impl_->sleep);
  if (impl_->c.companion) out->tree_laws = impl_->c.companion->law_history();
  return out;
}

std::string ConstraintSolver::why_not_restored(const SolverHistory& past) const {
  return host::why_not_restored(impl_->c, past);
}

void ConstraintSolver::restore(const SolverHistory& past) {
  restore_history(impl_->c, impl_->sleep, past);
  if (impl_->c.companion) impl_->c.companion->restore(past.tree_laws);
}

}  // namespace linchpin::host
