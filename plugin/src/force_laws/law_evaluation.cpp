// Inputs of laws at one state: their acting points, the free directions of their constraints, and the motion and
// reaction there. Decides how each is solved: simply added, or as an unknown term of the friction problem (T9, T10).
// The solution is in law_solver.cpp.
#include "force_laws/law_solver.h"

#include "model/force_rows.h"
#include "model/format.h"
#include "problem/jacobian_products.h"

#include <linchpin/constraint.h>

#include <Eigen/Eigenvalues>
#include <Eigen/LU>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

namespace linchpin {
namespace {

/// Product of damping rate and step up to which smooth laws are evaluated at the start of the step. At 1 a body would
/// stop in it. At 2 the law would drive it.
constexpr double explicit_limit = 0.5;

/// Rate [1/s] above which a law at rest is tested for a jump there.
constexpr double abrupt = 1e5;

/// Computes orthonormal directions that rows leave free (3 values each, `gram` = Σ row rowᵀ). Rows below 1e-5 of the
/// longest are noise of frames in single precision. @return their number
int left_free(const Eigen::Matrix3d& gram, double longest, Eigen::Matrix3d& out) {
  if (!(gram.trace() > 1e-10 * longest * longest)) {
    out.setIdentity();
    return 3;
  }
  const Eigen::SelfAdjointEigenSolver<Eigen::Matrix3d> modes(gram);
  int count = 0;
  for (int i = 0; i < 3; ++i)
    if (!(modes.eigenvalues()[i] > 1e-10 * longest * longest)) out.col(count++) = modes.eigenvectors().col(i);
  return count;
}

/// Returns the part of x along the first `count` columns, which are orthonormal. It is written out, because products of
/// dynamic width cost five times as much and this runs several times for every law and step.
Vector3d along(const Eigen::Matrix3d& columns, int count, const Vector3d& x) {
  if (count == 3) return x;
  Vector3d sum = Vector3d::Zero();
  for (int k = 0; k < count; ++k) sum += columns.col(k).dot(x) * columns.col(k);
  return sum;
}

/// Returns the states of the bodies of a constraint, without accelerations that equations determine.
std::span<const BodyState> states_of(const System& system, const State& state, const Constraint& constraint,
                                     std::vector<BodyState>& out) {
  out.clear();
  for (const BodyId id : constraint.bodies()) {
    BodyState& body = out.emplace_back(state[id]);
    if (system.dof(id) > 0) body.a = body.alpha = Vector3d::Zero();
  }
  return out;
}

bool turns(const Law::Term& term) {
  return term.friction_kind == FrictionKind::spin || term.friction_kind == FrictionKind::roll;
}

}  // namespace

void LawSolver::free_directions(const Scene& scene, Site& site) const {
  const auto J = scene.assembly.jacobian(site.constraint, 0);
  const Vector3d arm = scene.state[site.first].p - site.point;
  Eigen::Matrix3d linear = Eigen::Matrix3d::Zero(), angular = Eigen::Matrix3d::Zero();
  const int first = scene.assembly.layout.row[z(site.constraint)];
  const int rows = scene.assembly.layout.row[z(site.constraint) + 1] - first;
  for (int r = 0; r < rows; ++r) {
    const double* row = &J[z(6 * r)];
    Vector3d f(row[0], row[1], row[2]), m = Vector3d(row[3], row[4], row[5]) + arm.cross(f);
    if (r == 0) site.unit_force = f;
    const double length = std::sqrt(f.squaredNorm() + m.squaredNorm());  // A moment of 1 N·m counts as a force of 1 N.
    if (!(length > 0)) continue;
    f /= length;
    m /= length;
    linear += f * f.transpose();
    angular += m * m.transpose();
  }
  site.slips = left_free(linear, 1, site.free_slip);
  const auto rotates = [&](BodyId id) { return id.index >= 0 && scene.system.kind(id) == BodyKind::rigid; };
  site.spins = rotates(site.first) || rotates(site.second) ? left_free(angular, 1, site.free_spin) : 0;
}

void LawSolver::motion_at(const Scene& scene, Site& site) const {
  const Constraint& constraint = scene.system.constraint(scene.assembly.layout.constraints[z(site.constraint)]);
  const auto velocity = [&](BodyId id) -> Vector3d {
    const BodyState& body = scene.state[id];
    if (scene.system.kind(id) == BodyKind::particle) return body.v;
    return body.v + body.w.cross(site.point - body.p);
  };
  // Velocity of the acting point itself: that of its body, or from the declared function.
  Vector3d moves;
  if (!constraint.application_point_moves()) {
    moves = velocity(constraint.sliding_body() < 0 ? site.first : constraint.bodies()[z(constraint.sliding_body())]);
  } else {
    thread_local State at;
    const auto point = [&](double s) {
      copy_bodies(scene.state, constraint.bodies(), at);
      at.t += s;
      for (const BodyId id : constraint.bodies()) advance(at[id], at[id].v, at[id].w, s);
      return constraint.application_point(0, at);
    };
    const double h = 1e-4;
    moves = (8 * (point(h) - point(-h)) - (point(2 * h) - point(-2 * h))) / (12 * h);
    if (!moves.allFinite())
      throw std::runtime_error("constraint '" + constraint.name() +
                               "': the velocity of its application_point is not finite");
  }
  const auto gains = [&](BodyId id) -> Vector3d {  // Rate of velocity() at v̇ = 0.
    const BodyState& body = scene.state[id];
    const BodyKind kind = scene.system.kind(id);
    if (kind == BodyKind::particle) return Vector3d::Zero();
    Vector3d sum = body.w.cross(moves - body.v);
    if (kind == BodyKind::kinematic) sum += body.a + body.alpha.cross(site.point - body.p);
    return sum;
  };
  site.relative = velocity(site.first);
  site.relative_spin = scene.state[site.first].w;
  site.bias = gains(site.first);
  site.bias_spin.setZero();
  if (scene.system.kind(site.first) == BodyKind::kinematic) site.bias_spin += scene.state[site.first].alpha;
  if (site.second.index < 0) return;
  site.relative -= velocity(site.second);
  site.relative_spin -= scene.state[site.second].w;
  site.bias -= gains(site.second);
  if (scene.system.kind(site.second) == BodyKind::kinematic) site.bias_spin -= scene.state[site.second].alpha;
}

Vector6d LawSolver::reaction(const Scene& scene, const Site& site, std::span<const double> lambda) const {
  Vector6d w = wrench_at_centre(scene.assembly, site.constraint, 0, lambda);
  if (scene.system.kind(site.first) == BodyKind::particle) w.tail<3>().setZero();
  const Wrench at = moved_to(w, scene.state[site.first].p, site.point);
  w << at.force, at.moment;
  if (scene.system.kind(site.first) == BodyKind::particle) w.tail<3>().setZero();
  return w;
}

ConstraintReaction LawSolver::thrust_of(const Scene& scene, const Site& site, const Law::Term& term, const Vector6d& N,
                                        const Vector3d& relative, const Vector3d& spin) const {
  ConstraintReaction n;
  n.t = scene.state.t;
  n.point = site.point;
  n.normal = N.head<3>();
  n.moment = N.tail<3>();
  n.first = &scene.state[site.first];
  n.second = site.second.index < 0 ? nullptr : &scene.state[site.second];
  n.relative_velocity = relative;
  if (site.spins == 1) n.axis = site.free_spin.col(0);
  Vector3d rubs = relative;
  rubs += term.belt_slip(n);
  n.slip_velocity = along(site.free_slip, site.slips, rubs);
  n.spin_velocity = along(site.free_spin, site.spins, spin);
  return n;
}

/// Returns the slip at which a smooth unknown term is evaluated implicitly, in its basis.
Vector6d LawSolver::implicit_slip(const UnknownTerm& p) const {
  Vector6d u = Vector6d::Zero();
  for (int k = 0; k < p.dim; ++k) u[k] = (1 - p.slip_fraction) * p.slip[k] + p.slip_fraction * slip_of(p.start + k);
  return u;
}

/// Returns the input of a smooth unknown term for another slip than at the state. Its internal state is advanced
/// through the step with that slip.
ConstraintReaction LawSolver::thrust_at_slip(const Scene& scene, const UnknownTerm& p, const Vector6d& N,
                                             const Vector6d& slip) const {
  const Site& site = sites_[z(p.site)];
  Vector6d u;
  u << site.relative, site.relative_spin;
  u += p.basis.leftCols(p.dim) * (slip - p.slip).head(p.dim);
  ConstraintReaction n = thrust_of(scene, site, *p.what, N, u.head<3>(), u.tail<3>());
  if (p.memory >= 0) {
    n.internal_state = n.internal_state_before = persistent_.memories[z(p.memory)].value;
    n.internal_state = p.what->advance_state(n, step);
    n.internal_state_span = step;
  }
  return n;
}

void LawSolver::free_mobility(const Scene& scene, Site& site) const {
  const IslandLayout& layout = scene.assembly.layout;
  site.mobility.setZero();
  for (const std::size_t side : {std::size_t(0), std::size_t(1)}) {
    const BodyId id = side == 0 ? site.first : site.second;
    const int slot = site.slots[side];
    if (slot < 0) continue;
    const int dof = layout.column[z(slot + 1)] - layout.column[z(slot)];
    const double* M = &scene.assembly.problem.mass[masses_[z(slot)]];
    site.mobility.topLeftCorner<3, 3>().diagonal().array() += 1 / M[0];
    if (dof != 6) continue;
    Eigen::Matrix3d I, arm;
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 3; ++j) I(i, j) = M[6 * (i + 3) + j + 3];
    const Vector3d r = site.point - scene.state[id].p;
    arm << 0, r.z(), -r.y(), -r.z(), 0, r.x(), r.y(), -r.x(), 0;  // ω × r = arm ω.
    const Eigen::Matrix3d inverse = I.inverse();
    site.mobility.topLeftCorner<3, 3>() += arm * inverse * arm.transpose();
    site.mobility.topRightCorner<3, 3>() += arm * inverse;
    site.mobility.bottomLeftCorner<3, 3>() += inverse * arm.transpose();
    site.mobility.bottomRightCorner<3, 3>() += inverse;
  }
}

/// Returns the effort of a smooth term for a reaction and velocities. Its internal state is advanced through the step
/// with them.
Vector6d LawSolver::effort_at(const Scene& scene, const SmoothTerm& s, const Vector6d& N, const Vector3d& relative,
                              const Vector3d& spin) const {
  ConstraintReaction n = thrust_of(scene, sites_[z(s.site)], *s.what, N, relative, spin);
  if (s.memory >= 0) {
    const Memory& m = persistent_.memories[z(s.memory)];
    n.internal_state = n.internal_state_before = m.value;
    n.internal_state = step > 0 ? s.what->advance_state(n, step) : m.next;
    n.internal_state_span = step;
  }
  const ForceMoment e = s.what->force(n);
  Vector6d out;
  out << e.force, e.moment;
  return out;
}

/// Returns true if a smooth law changes its effort when the normal force is 1.5 times as large.
bool LawSolver::depends_on_thrust(const Scene& scene, const SmoothTerm& s) const {
  const Site& site = sites_[z(s.site)];
  const auto at = [&](double factor) {
    return effort_at(scene, s, factor * site.ideal, site.relative, site.relative_spin);
  };
  return (at(1.5) - at(1)).norm() > 0;
}

/// Measures how fast a smooth law damps velocities. Uses its slope at the slip, and the chord to the opposite slip,
/// which shows a law that jumps at rest. Uses traces, because they do not depend on the different units of forces and
/// moments.
void LawSolver::measure(const Scene& scene, SmoothTerm& s, const Vector6d& N) {
  const Site& site = sites_[z(s.site)];
  const Law::Term& term = *s.what;
  set_error_context(site, term);
  const ConstraintReaction n = thrust_of(scene, site, term, N);
  const Vector6d here =
      s.memory >= 0 || N != site.ideal ? effort_at(scene, s, N, site.relative, site.relative_spin) : s.e;
  measure_slope(scene, s, N, n, here);
  measure_chord(scene, s, N, n, here);
  if (s.memory >= 0 && step == 0) measure_bristles(s, n);
  if (!std::isfinite(s.rate)) s.rate = 0;
}

/// Measures the rate by the derivative of the effort at the slip. @param here  effort at the slip
void LawSolver::measure_slope(const Scene& scene, SmoothTerm& s, const Vector6d& N, const ConstraintReaction& n,
                              const Vector6d& here) {
  const Site& site = sites_[z(s.site)];
  Eigen::Matrix<double, 6, 6> C = Eigen::Matrix<double, 6, 6>::Zero();
  for (int k = 0; k < site.slips; ++k) {
    const Vector3d u = site.free_slip.col(k);
    const double h = 1e-6 * n.slip_velocity.norm() + 1e-9;
    C.leftCols<3>() -= (effort_at(scene, s, N, site.relative + h * u, site.relative_spin) - here) / h * u.transpose();
  }
  for (int k = 0; k < site.spins && s.what->has_moment; ++k) {
    const Vector3d u = site.free_spin.col(k);
    const double h = 1e-6 * n.spin_velocity.norm() + 1e-9;
    C.rightCols<3>() -= (effort_at(scene, s, N, site.relative, site.relative_spin + h * u) - here) / h * u.transpose();
  }
  const Eigen::Matrix<double, 6, 6> A = site.mobility * C;
  const double damping = A.trace(), turning = std::sqrt(std::fabs((A * A).trace()));
  s.rate = std::max(std::fabs(damping), turning);
  s.turns = turning > 0 && std::fabs(damping) <= 1e-6 * turning;
  s.slip_implicit = s.turns || damping > 0;
  s.slope = C;
}

/// Measures the rate by the chord to the opposite slip, and uses it where it is larger. @param here  effort at the slip
void LawSolver::measure_chord(const Scene& scene, SmoothTerm& s, const Vector6d& N, const ConstraintReaction& n,
                              const Vector6d& here) {
  const Site& site = sites_[z(s.site)];
  Vector6d slip;
  slip << n.slip_velocity, s.what->has_moment ? n.spin_velocity : Vector3d(Vector3d::Zero());
  if (!(slip.squaredNorm() > 0)) return;
  const Vector6d change =
      here - effort_at(scene, s, N, site.relative - 2 * slip.head<3>(), site.relative_spin - 2 * slip.tail<3>());
  const double along = 2 * change.dot(slip);
  const double chord = change.dot(site.mobility * change);
  // If the law acts across its slip, the chord contains no information.
  if (std::fabs(along) <= 1e-9 * change.norm() * slip.norm()) return;
  if (along < 0) {
    if (chord / -along > s.rate) {
      s.rate = chord / -along;
      s.slope = change * change.transpose() / -along;
    }
    s.slip_implicit = true;
    s.turns = false;
  } else if (along > 0 && !s.turns) {
    s.slip_implicit = false;
  }
}

/// Measures the rate of bristles, which are a spring where steps are explicit.
void LawSolver::measure_bristles(SmoothTerm& s, const ConstraintReaction& n) const {
  const Law::Term& term = *s.what;
  ConstraintReaction bent = n;
  bent.internal_state = persistent_.memories[z(s.memory)].next;
  const double h = 1e-6 * bent.internal_state.norm() + 1e-12;
  double stiffness = 0;
  for (int k = 0; k < 3; ++k) {
    ConstraintReaction more = bent;
    more.internal_state[k] += h;
    stiffness -= (sites_[z(s.site)].mobility.topLeftCorner<3, 3>() * (term.force(more).force - s.e.head<3>()))[k] / h;
  }
  if (stiffness > 0) s.rate = std::max(s.rate, std::sqrt(stiffness));
  // The decay rate of the bristles is the rate at which their force settles.
  constexpr double moment = 1e-7;
  for (int k = 0; k < 3; ++k) {
    ConstraintReaction more = bent;
    more.internal_state[k] += h;
    const double kept = (term.advance_state(more, moment) - term.advance_state(bent, moment))[k] / h;
    if (kept < 1) s.rate = std::max(s.rate, -std::log(std::max(kept, 1e-300)) / moment);
  }
  s.slip_implicit = true;
}

/// Classifies smooth laws. Where the step is short for all of them together, they are simply added. Otherwise they are
/// evaluated at the slip at the end of the step, as dry friction is. So they never give energy, however stiff they are.
/// Laws that turn their slip (Lorentz) are evaluated at its mean, which conserves energy.
void LawSolver::classify_smooth(const Scene& scene) {
  const auto slots = [&](const SmoothTerm& s) { return sites_[z(s.site)].slots; };
  std::fill(rates_.root.begin(), rates_.root.end(), 0.0);
  rates_.smooth = rates_.turning = rates_.memory_bound = 0;
  rates_.stiffest = -1;
  for (SmoothTerm& s : smooth_terms_) {
    s.rate = 0;
    s.slip_implicit = s.turns = false;
    if (step > 0 || rates) measure(scene, s, sites_[z(s.site)].ideal);
    if (step == 0 && s.rate > abrupt && s.memory < 0) check_jump_at_rest(scene, sites_[z(s.site)], *s.what);
    if (!s.slip_implicit) continue;
    for (const int slot : slots(s))
      if (slot >= 0) rates_.root[z(slot)] += std::sqrt(s.rate);
  }
  for (const SmoothTerm& s : smooth_terms_) {
    // Gershgorin's bound for the rates of all laws that share bodies.
    double rate = 0;
    if (s.slip_implicit) {
      const double own = std::sqrt(s.rate);
      double sum = 0;
      int bodies = 0;
      for (const int slot : slots(s))
        if (slot >= 0) sum += rates_.root[z(slot)], ++bodies;
      rate = own * (sum - (bodies == 2 ? own : 0));
      if (s.memory >= 0) rates_.memory_bound = std::max(rates_.memory_bound, rate);
      if (rate > rates_.smooth) {
        rates_.smooth = rate;
        rates_.stiffest = s.effort;
      }
    }
    const bool stiff =
        step > 0 && s.slip_implicit && s.rate > 0 && (s.turns || s.memory >= 0 || rate * step > explicit_limit);
    if (stiff || s.what->normal_force == NormalForce::coupled) {
      UnknownTerm& p = add_unknown_term(scene, s.site, s.law, s.term, *s.what, s.memory, s.effort);
      p.smooth = static_cast<int>(&s - smooth_terms_.data());
      p.measured_at = sites_[z(s.site)].ideal;
      p.slip_implicit = stiff;
      p.slip_fraction = s.turns ? 0.5 : 1;
      set_basis(p, s.e);
      continue;
    }
    Site& site = sites_[z(s.site)];
    const ConstraintReaction n = thrust_of(scene, site, *s.what, site.ideal);
    set_error_context(site, *s.what);
    check(scene, site, *s.what, {s.e.head<3>(), s.e.tail<3>()}, n);
    efforts[z(s.effort)].force = s.e.head<3>();
    efforts[z(s.effort)].moment = s.e.tail<3>();
    site.effort += s.e;
  }
  if (rates_.row_bound > rates_.smooth) rates_.smooth = rates_.row_bound, rates_.stiffest = rates_.row_effort;
  update_rate();
}

/// Tests a smooth unknown term that was weak for the step at the normal force at which it was measured. Other forces
/// may have increased the normal force since. If the unknown term is too stiff now, it becomes implicit in the slip at
/// the end of the step.
bool LawSolver::stiffens(const Scene& scene, UnknownTerm& p) {
  constexpr double hardly = 0.1;
  const Site& site = sites_[z(p.site)];
  if (step == 0 || p.element >= 0 || p.slip_implicit) return false;
  if ((site.actual - p.measured_at).norm() <= hardly * std::max(site.actual.norm(), p.measured_at.norm())) return false;
  SmoothTerm& s = smooth_terms_[z(p.smooth)];
  p.measured_at = site.actual;
  measure(scene, s, site.actual);
  if (!s.slip_implicit || !(s.turns || s.rate * step > explicit_limit)) return false;
  p.slip_implicit = true;
  p.slip_fraction = s.turns ? 0.5 : 1;
  p.block = 0;
  set_basis(p, effort_at(scene, s, site.actual, site.relative, site.relative_spin));
  return true;
}

void LawSolver::add(const Scene& scene, const Site& site, const Vector6d& effort, std::span<double> out) const {
  for_each_force(scene, site, effort, [&](std::size_t, int column, int dof, const Vector3d& f, const Vector3d& m) {
    for (int j = 0; j < 3; ++j) out[z(column + j)] += f[j];
    for (int j = 0; j < 3 && dof == 6; ++j) out[z(column + 3 + j)] += m[j];
  });
}

Vector6d LawSolver::twist(const Scene& scene, const Site& site, std::span<const double> v) const {
  const IslandLayout& layout = scene.assembly.layout;
  const auto of = [&](BodyId id, int slot) -> Vector6d {
    Vector6d u = Vector6d::Zero();
    if (slot < 0) return u;
    u = twist_of(layout, z(slot), v);
    u.head<3>() += Vector3d(u.tail<3>()).cross(site.point - scene.state[id].p);
    return u;
  };
  return of(site.first, site.slots[0]) - of(site.second, site.slots[1]);
}

std::string LawSolver::name_of(const System& system, const IslandLayout& layout, const Site& site,
                               const Law::Term& term) const {
  return (term.name == "law" ? term.name : "law '" + term.name + "'") + " on " +
         system.name(layout.constraints[z(site.constraint)]);
}

/// Names all laws of a constraint.
std::string LawSolver::names_on(const Scene& scene, const Site& site) const {
  const ConstraintId id = scene.assembly.layout.constraints[z(site.constraint)];
  const Law::Term* only = nullptr;
  std::string names;
  for (const Law& law : laws_on(scene.system, id))
    for (const Law::Term& term : law.terms()) {
      only = names.empty() ? &term : nullptr;
      names += (names.empty() ? "'" : ", '") + term.name + "'";
    }
  return only != nullptr ? name_of(scene, site, *only) : "laws " + names + " on " + scene.system.name(id);
}

LawSolver::UnknownTerm& LawSolver::add_unknown_term(const Scene& scene, int site_index, int law, int index,
                                                    const Law::Term& what, int memory, int effort) {
  const Site& site = sites_[z(site_index)];
  UnknownTerm& p = unknown_terms_.emplace_back();
  p.site = site_index;
  p.what = &what;
  p.effort = effort;
  p.memory = memory;
  p.basis.setZero();
  p.slip.setZero();
  p.known.setZero();
  p.next.setZero();
  p.across.setZero();
  p.axes.setZero();
  reads_actual_ = reads_actual_ || what.normal_force == NormalForce::coupled;
  // Branches other than `continuous` select one of several solutions.
  p.reaction_implicit = what.normal_force == NormalForce::coupled && what.branch != Branch::continuous;
  if (what.row >= 0) {
    const RowAtState& row = row_of(site, what);
    p.basis.col(0) = row.direction;
    p.axes.col(0) = row.direction.stableNormalized();
    p.slip[0] = row.velocity;
    p.dim = 1;
    p.slip_implicit = static_cast<bool>(what.multiplier);
  } else if (what.static_limit) {
    if (!turns(what))
      for (int k = 0; k < site.slips; ++k) p.basis.col(p.dim++).head<3>() = site.free_slip.col(k);
    if (what.friction_kind == FrictionKind::spin || what.friction_kind == FrictionKind::both)
      for (int k = 0; k < site.spins; ++k)
        p.basis.col(p.dim++).tail<3>() =
            (what.friction_kind == FrictionKind::both ? what.arm : 1) * site.free_spin.col(k);
    if (what.friction_kind == FrictionKind::roll) {
      // Uses the free axes perpendicular to the normal force, or all of them without a normal force.
      const Vector3d n = site.ideal.head<3>();
      const auto S = site.free_spin.leftCols(site.spins);
      Eigen::Matrix3d taken = n.squaredNorm() > 0 ? Eigen::Matrix3d(n * n.transpose() / n.squaredNorm())
                                                  : Eigen::Matrix3d(Eigen::Matrix3d::Zero());
      taken += Eigen::Matrix3d::Identity() - S * S.transpose();
      Eigen::Matrix3d across;
      const int count = left_free(taken, 1, across);
      for (int k = 0; k < count; ++k) p.basis.col(p.dim++).tail<3>() = across.col(k);
    }
    p.axes = p.basis;
    if (what.friction_kind == FrictionKind::both) p.axes.bottomRows<3>() /= what.arm;
    Vector6d rubs;
    rubs << site.relative, site.relative_spin;
    if (what.belt) rubs.head<3>() += what.belt_slip(thrust_of(scene, site, what, site.ideal));
    p.slip.head(p.dim) = p.basis.leftCols(p.dim).transpose() * rubs;
  }
  if (what.static_limit) {
    p.element = static_cast<int>(elements.size());
    FrictionElement element;
    element.constraint = site.constraint;
    element.law = law;
    element.term = index;
    element.dim = p.dim;
    element.slip_velocity = p.axes.leftCols(p.dim) * p.slip.head(p.dim);
    elements.push_back(element);
    efforts[z(effort)].element = p.element;
  }
  return p;
}

/// Returns the reaction that an unknown term reads in this iteration, unless it reads it implicitly.
const Vector6d& LawSolver::thrust_read(const UnknownTerm& p) const {
  const Site& site = sites_[z(p.site)];
  return p.what->normal_force == NormalForce::coupled ? site.read : site.ideal;
}

/// Sets the directions of the efforts of a smooth unknown term. An unknown term that is implicit in its slip, at a
/// known reaction, acts in the free directions of its constraint. Across them nothing moves, and its effort there is
/// that at the state.
void LawSolver::set_basis(UnknownTerm& p, const Vector6d& effort) {
  const Eigen::Matrix<double, 6, 6> before = p.basis;
  const Site& site = sites_[z(p.site)];
  p.basis.setZero();
  p.slip.setZero();
  p.known.setZero();
  p.across.setZero();
  p.dim = 0;
  if (p.slip_implicit && !p.reaction_implicit) {
    for (int k = 0; k < site.slips; ++k) p.basis.col(p.dim++).head<3>() = site.free_slip.col(k);
    for (int k = 0; k < site.spins && p.what->has_moment; ++k) p.basis.col(p.dim++).tail<3>() = site.free_spin.col(k);
    p.across = effort - p.basis.leftCols(p.dim) * (p.basis.leftCols(p.dim).transpose() * effort);
    if (!p.what->has_moment) p.across.tail<3>().setZero();
  } else {
    p.dim = p.what->has_moment ? 6 : 3;
    p.basis.setIdentity();
    p.known.head(p.dim) = effort.head(p.dim);
  }
  Vector6d twist;
  twist << site.relative, site.relative_spin;
  p.slip.head(p.dim) = p.basis.leftCols(p.dim).transpose() * twist;
  p.axes = p.basis;
  if (p.basis != before) coupling_.responses.of.clear();
}

void LawSolver::write_memory(int which, const ConstraintReaction& n) {
  const std::size_t first = 3 * z(which);
  if (internal_state_now.size() < first + 3)
    internal_state_now.resize(first + 3), internal_state_rate.resize(first + 3);
  Eigen::Map<Vector3d>{&internal_state_now[first]} = n.internal_state;
  Eigen::Map<Vector3d>{&internal_state_rate[first]} = persistent_.memories[z(which)].what->internal_state_rate(n);
}

void LawSolver::set_internal_state(std::span<const double> values) {
  const bool all = values.size() == 3 * persistent_.memories.size();
  for (std::size_t i = 0; i < persistent_.memories.size(); ++i) {
    persistent_.memories[i].given = all;
    if (all) persistent_.memories[i].next = Eigen::Map<const Vector3d>(&values[3 * i]);
  }
}

/// Collects the terms of all laws at this state, and decides how each is solved.
void LawSolver::gather(const Scene& scene) {
  collect_terms(scene);
  classify_smooth(scene);
  if (persistent_.requested_modes.size() != elements.size())
    persistent_.requested_modes.assign(elements.size(), ModeRequest{});
}

/// Collects sites, unknown terms and friction elements at this state, and evaluates all smooth laws.
void LawSolver::collect_terms(const Scene& scene) {
  const IslandLayout& layout = scene.assembly.layout;
  sites_.clear();
  unknown_terms_.clear();
  efforts.clear();
  elements.clear();
  smooth_terms_.clear();
  rows_.clear();
  rates_.row_bound = 0;
  coupling_.responses.of.clear();
  reads_actual_ = false;
  refresh_fault(scene.system);
  int memory_count = 0;
  if (!persistent_.memory_begun) persistent_.memory_t = scene.state.t, persistent_.memory_begun = true;
  for (int i = 0; i < static_cast<int>(layout.constraints.size()); ++i) {
    const auto on_this = laws_on(scene.system, layout.constraints[z(i)]);
    if (on_this.empty()) continue;
    add_site(scene, i);
    for (std::size_t l = 0; l < on_this.size(); ++l)
      for (std::size_t k = 0; k < on_this[l].terms().size(); ++k)
        add_term(scene, static_cast<int>(l), static_cast<int>(k), on_this[l].terms()[k], memory_count);
  }
  persistent_.memories.resize(z(memory_count));  // Entries of removed laws would have dangling pointers.
  internal_state_now.resize(3 * z(memory_count));
  internal_state_rate.resize(3 * z(memory_count));
}

/// Adds constraint i with its laws: its acting point, free directions, motion and reaction.
void LawSolver::add_site(const Scene& scene, int i) {
  const ConstraintId id = scene.assembly.layout.constraints[z(i)];
  const Constraint& constraint = scene.system.constraint(id);
  Site& site = sites_.emplace_back();
  site.constraint = i;
  site.first = constraint.bodies()[0];
  site.second = constraint.bodies().size() > 1 ? constraint.bodies()[1] : BodyId{};
  const auto slot_of = [&](BodyId body) { return body.index < 0 ? -1 : scene.assembly.layout.body_index(body); };
  site.slots = {slot_of(site.first), slot_of(site.second)};
  site.point = constraint.application_point(0, scene.state);
  site.unit_force.setZero();
  const Unilateral& sided = unilateral(scene.system, id);
  site.unilateral = !sided.on ? 0 : sided.negative ? -1 : 1;
  free_directions(scene, site);
  motion_at(scene, site);
  site.read = site.ideal = reaction(scene, site, scene.lambda);
  site.effort.setZero();
  site.read_error.setZero();
  add_rows(scene, site);
  free_mobility(scene, site);
}

/// Evaluates the rows along which laws of a site act.
void LawSolver::add_rows(const Scene& scene, Site& site) {
  site.first_row = -1;
  const Constraint& constraint = scene.system.constraint(scene.assembly.layout.constraints[z(site.constraint)]);
  const auto* const forces = detail::force_rows_of(constraint);
  if (!forces) return;
  thread_local std::vector<BodyState> X;
  const auto& rows = forces->evaluate(states_of(scene.system, scene.state, constraint, X), scene.state.t);
  site.first_row = static_cast<int>(rows_.size());
  // The residual need not depend on a first body that does not move, such as the ground.
  const bool is_second = X.size() > 1 && scene.system.dof(site.first) == 0;
  const Vector3d arm = scene.state[is_second ? site.second : site.first].p - site.point;
  const std::size_t width = 6 * X.size();
  for (std::size_t r = 0; r < rows.b.size(); ++r) {
    const double* const J = &rows.A[r * width + (is_second ? 6 : 0)];
    RowAtState& row = rows_.emplace_back();
    const Vector3d f(J[0], J[1], J[2]);
    row.direction << f, Vector3d(J[3], J[4], J[5]) + arm.cross(f);
    if (is_second) row.direction *= -1;
    row.position = rows.position[r];
    row.velocity = rows.velocity[r];
    row.bias = -rows.b[r];
    if (!row.direction.allFinite() || !std::isfinite(row.position + row.velocity + row.bias))
      throw std::runtime_error("constraint '" + constraint.name() +
                               "': a row of its Jacobian is not finite at t = " + text(scene.state.t) + " s");
  }
}

/// Returns the velocity of a row at another state.
double LawSolver::row_velocity(const Scene& scene, const Site& site, int row, const State& at) const {
  const Constraint& constraint = scene.system.constraint(scene.assembly.layout.constraints[z(site.constraint)]);
  thread_local std::vector<BodyState> X;
  return detail::force_rows_of(constraint)->evaluate(states_of(scene.system, at, constraint, X), at.t).velocity[z(row)];
}

/// Returns the multiplier of a row for its mean velocity through the step.
double LawSolver::row_multiplier(const UnknownTerm& p, double velocity) const {
  return p.what->multiplier(row_of(sites_[z(p.site)], *p.what).position + step * velocity, velocity);
}

/// Adds compliance along a row of the last site. In a step it is implicit in the velocity of the row.
void LawSolver::add_compliance(const Scene& scene, int law, int index, const Law::Term& term, int effort) {
  Site& site = sites_.back();
  const RowAtState row = row_of(site, term);
  if (step > 0) {
    add_unknown_term(scene, static_cast<int>(sites_.size()) - 1, law, index, term, -1, effort);
    return;
  }
  const double now = term.multiplier(row.position, row.velocity);
  const Vector6d e = now * row.direction;
  efforts[z(effort)].force = e.head<3>();
  efforts[z(effort)].moment = e.tail<3>();
  site.effort += e;
  const double mobility = row.direction.dot(site.mobility * row.direction);
  const double stiffness = now - term.multiplier(row.position + 1, row.velocity),
               damping = now - term.multiplier(row.position, row.velocity + 1);
  const double rate = std::max(mobility * damping, std::sqrt(std::max(0.0, mobility * stiffness)));
  if (!(rate > rates_.row_bound)) return;
  rates_.row_bound = rate;
  rates_.row_effort = effort;
}

/// Adds a term of a law on the last site, as an unknown term if it is dry, and as a smooth term otherwise.
/// @param memory_count  in and out: number of terms with an internal state so far
void LawSolver::add_term(const Scene& scene, int law, int index, const Law::Term& term, int& memory_count) {
  const Site& site = sites_.back();
  set_error_context(site, term);
  int memory = -1;
  ConstraintReaction n = thrust_of(scene, site, term, site.ideal);
  if (term.advance_state) {
    memory = memory_count++;
    read_memory(scene, memory, term, n);
  }
  LawForce& own = efforts.emplace_back();
  own.constraint = site.constraint;
  own.law = law;
  own.term = index;
  own.p_WQ = site.point;
  own.normal = site.ideal.head<3>();
  own.normal_moment = site.ideal.tail<3>();
  if (efforts.size() <= records_.histories.size()) own.switches = records_.histories[efforts.size() - 1].switches;
  const int here = static_cast<int>(sites_.size()) - 1, effort = static_cast<int>(efforts.size()) - 1;
  if (term.multiplier) return add_compliance(scene, law, index, term, effort);
  if (term.static_limit) {
    if (add_unknown_term(scene, here, law, index, term, memory, effort).dim == 0) unknown_terms_.pop_back();
    return;
  }
  SmoothTerm& s = smooth_terms_.emplace_back();
  s.site = here;
  s.law = law;
  s.term = index;
  s.effort = effort;
  s.memory = memory;
  s.what = &term;
  const ForceMoment e = term.force(n);
  s.e << e.force, e.moment;
  if (!s.e.allFinite()) throw std::runtime_error(name_of(scene, site, term) + " returned a force that is not finite");
  if (term.dissipative) check_push_at_rest(scene, site, term, s.e);
}

/// Sets the internal state of the input n of a term, advanced to the time of this evaluation.
void LawSolver::read_memory(const Scene& scene, int which, const Law::Term& term, ConstraintReaction& n) {
  const double elapsed = std::max(0.0, scene.state.t - persistent_.memory_t);
  if (z(which) == persistent_.memories.size()) persistent_.memories.emplace_back();
  Memory& m = persistent_.memories[z(which)];
  if (m.what && m.what != &term) m = Memory{};
  m.what = &term;
  n.internal_state = m.value;
  m.thrust = n;
  if (!m.given || step > 0) m.next = elapsed > 0 ? term.advance_state(n, elapsed) : m.value;
  n.internal_state = m.next;
  write_memory(which, n);
}

void LawSolver::check(const Scene& scene, const Site& site, const Law::Term& term, const ForceMoment& e,
                      const ConstraintReaction& n) {
  if (!e.force.allFinite() || !e.moment.allFinite())
    throw std::runtime_error(name_of(scene, site, term) + " returned a force that is not finite");
  if (!term.dissipative) return;
  const double power = e.force.dot(n.slip_velocity) + e.moment.dot(n.spin_velocity);
  // Slip and spin are parts of these velocities, and have their rounding. A picowatt counts as rounding in any case.
  const Vector3d turning = n.first->w - (n.second ? n.second->w : Vector3d::Zero());
  if (power > 1e-12 + 1e-9 * (e.force.norm() * (n.slip_velocity.norm() + n.relative_velocity.norm()) +
                              e.moment.norm() * (n.spin_velocity.norm() + turning.norm())))
    throw std::runtime_error(name_of(scene, site, term) + " is declared dissipative but gives " + text(power) +
                             " W. Correct the law, or remove dissipative()");
}

}  // namespace linchpin
