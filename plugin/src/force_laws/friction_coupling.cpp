// Friction with unknown efforts: unit responses, the friction problem, and warnings about its solution. Also re-applies
// friction after the end-of-step Newton has changed the slips.
#include "force_laws/friction_callbacks.h"
#include "model/format.h"
#include "problem/jacobian_products.h"

#include <linchpin/constraint.h>
#include <linchpin/law_report.h>

#include <algorithm>
#include <cmath>

namespace linchpin {

/// Poses and solves the friction problem for the unknown efforts.
void LawSolver::couple_friction(const Scene& scene, std::span<double> vdot, std::span<double> nonideal,
                                std::span<double> induced) {
  coupling_.is_linearized = false;
  number_unknowns();
  coupling_.is_sparse = solves_sparsely(scene);
  if (coupling_.is_sparse && take_in_sliding()) {
    restore_without_laws(scene, vdot, nonideal, induced);
    add_response_to_known(scene, vdot, nonideal, induced);
    number_unknowns();
  }
  pose_problem(scene, vdot, induced);
  if (coupling_.terms.empty()) return;
  if (coupling_.is_sparse && !solve_sparsely(scene, SparseStart::last_solution) &&
      !solve_sparsely(scene, SparseStart::no_friction)) {
    coupling_.sparse_failed = true;
    coupling_.is_sparse = false;
    pose_problem(scene, vdot, induced);
  }
  if (!coupling_.is_sparse) solve(scene);
  std::fill(scratch_.applied.begin(), scratch_.applied.end(), 0.0);
  add_efforts(scene, coupling_.efforts, scratch_.applied);
  add_response(scene, scratch_.applied, vdot, nonideal, induced);
}

/// Makes elements that are known to slide unknowns of given sense, where they read the coupled normal force. In a
/// sparse problem they cost little, and their efforts follow that force without further rounds. @return whether there
/// are any
bool LawSolver::take_in_sliding() {
  bool any = false;
  for (UnknownTerm& p : unknown_terms_) {
    if (p.element < 0 || p.block >= 0 || p.what->normal_force != NormalForce::coupled) continue;
    p.block = 0;
    p.slides_in_problem = any = true;
  }
  return any;
}

/// Lets a small number of unknowns read the coupled normal force implicitly from the start. That takes no more
/// back-solves, and shows how many solutions there are.
void LawSolver::read_few_implicitly(const Scene& scene) {
  int unknowns = 0;
  for (const UnknownTerm& p : unknown_terms_) unknowns += p.block >= 0 ? p.dim : 0;
  if (unknowns > few_unknowns) return;
  for (UnknownTerm& p : unknown_terms_) {
    if (p.block < 0 || p.reaction_implicit || p.what->normal_force != NormalForce::coupled) continue;
    if (p.slip_implicit && !depends_on_thrust(scene, smooth_terms_[z(p.smooth)])) continue;
    p.reaction_implicit = true;
    if (p.slip_implicit) set_basis(p, Vector6d::Zero());
  }
}

/// Poses the friction problem.
void LawSolver::pose_problem(const Scene& scene, std::span<const double> vdot, std::span<const double> induced) {
  coupling_.problem.blocks.clear();
  if (coupling_.terms.empty()) return;
  for (Site& site : sites_) site.actual = site.without_unknowns = site.ideal + reaction(scene, site, induced);
  if (coupling_.is_sparse) return pose_sparse_problem(scene, vdot);
  const bool same = coupling_.responses.of == coupling_.terms && !coupling_.responses.is_sparse &&
                    (coupling_.responses.with_reactions || !coupling_.any_reaction_implicit);
  coupling_.problem.reset(coupling_.unknowns, static_cast<int>(sites_.size()), same);
  for (std::size_t s = 0; s < sites_.size(); ++s)
    std::copy_n(sites_[s].actual.data(), 6, coupling_.problem.thrust0(static_cast<int>(s)).begin());
  coupling_.continues = same && !coupling_.any_reaction_implicit;
  if (!same) {
    compute_unit_responses(scene, vdot.size(), induced.size());
    coupling_.responses.of = coupling_.terms;
    coupling_.responses.with_reactions = coupling_.any_reaction_implicit;
  }
  for (const int index : coupling_.terms) {
    pose_term(scene, unknown_terms_[z(index)], vdot);
    pose_residual_slip(scene, unknown_terms_[z(index)], induced.size());
  }
  coupling_.problem.find_prescribed_slips(rest_speed);
}

/// Returns true if the unknowns are many, and of kinds that SparseFriction solves. Static friction of more unknowns
/// than the mechanism has degrees of freedom is indeterminate. FrictionProblem distributes it, unless it is too large.
bool LawSolver::solves_sparsely(const Scene& scene) const {
  const int unknowns = coupling_.undecided;
  if (unknowns <= many_unknowns || coupling_.any_reaction_implicit || coupling_.sparse_failed ||
      scene.solver.options().backend == Backend::dense)
    return false;
  if (unknowns <= most_dense_unknowns && unknowns > scene.solver.columns() - scene.solver.rank()) return false;
  return std::all_of(coupling_.terms.begin(), coupling_.terms.end(), [&](int i) {
    const UnknownTerm& p = unknown_terms_[z(i)];
    return p.element >= 0 || (p.slip_implicit && p.slip_fraction == 1);
  });
}

/// Poses the friction problem without responses.
void LawSolver::pose_sparse_problem(const Scene& scene, std::span<const double> vdot) {
  const bool same = coupling_.responses.of == coupling_.terms && coupling_.responses.is_sparse;
  coupling_.problem.reset_slips(coupling_.unknowns);
  coupling_.continues = same;
  if (!same) {
    if (!coupling_.sparse) coupling_.sparse = std::make_unique<detail::SparseFriction>();
    coupling_.sparse->reset(scene.assembly.problem, coupling_.problem.blocks, step > 0 ? step : 1);
    coupling_.responses.mobility.resize(z(coupling_.unknowns));
    for (const UnknownTerm& p : unknown_terms_)
      for (int k = 0; k < p.dim; ++k) {
        auto& direction = coupling_.sparse->directions.emplace_back(direction_of(scene, p, k));
        direction.acts = p.block >= 0;
        if (direction.acts) coupling_.responses.mobility[z(p.start + k)] = direction.mobility;
      }
    coupling_.responses.of = coupling_.terms;
    coupling_.responses.is_sparse = true;
  }
  for (const int index : coupling_.terms) {
    const UnknownTerm& p = unknown_terms_[z(index)];
    pose_term(scene, p, vdot);
    auto& block = coupling_.problem.blocks.back();
    if (p.element < 0) continue;
    const bool stuck =
        persistent_.last_sticking.size() == elements.size() ? persistent_.last_sticking[z(p.element)] : block.at_rest;
    if (block.is_forced() || (stuck && !block.is_given())) block.mode = detail::FrictionProblem::Mode::sticks;
  }
}

/// Returns the force of a unit effort k of an unknown term on the columns of its bodies.
detail::SparseFriction::Direction LawSolver::direction_of(const Scene& scene, const UnknownTerm& p, int k) const {
  const Site& site = sites_[z(p.site)];
  detail::SparseFriction::Direction out;
  out.constraint = site.constraint;
  out.mobility = (step > 0 ? step : 1) * p.basis.col(k).dot(site.mobility * p.basis.col(k));
  for_each_force(scene, site, p.basis.col(k),
                 [&](std::size_t side, int column, int dof, const Vector3d& f, const Vector3d& m) {
                   auto& part = out.parts[side];
                   part.column = column;
                   part.size = dof;
                   for (int i = 0; i < 3; ++i) part.force[z(i)] = f[i], part.force[z(3 + i)] = m[i];
                 });
  return out;
}

void LawSolver::number_unknowns() {
  coupling_.terms.clear();
  coupling_.unknowns = coupling_.undecided = 0;
  for (std::size_t i = 0; i < unknown_terms_.size(); ++i) {
    UnknownTerm& p = unknown_terms_[i];
    if (p.block < 0) continue;
    p.block = static_cast<int>(coupling_.terms.size());
    p.start = coupling_.unknowns;
    coupling_.unknowns += p.dim;
    coupling_.undecided += p.slides_in_problem ? 0 : p.dim;
    coupling_.terms.push_back(static_cast<int>(i));
  }
  coupling_.any_reaction_implicit = std::any_of(coupling_.terms.begin(), coupling_.terms.end(),
                                                [&](int i) { return unknown_terms_[z(i)].reaction_implicit; });
}

/// Adds the block of an unknown term to the friction problem.
void LawSolver::pose_term(const Scene& scene, const UnknownTerm& p, std::span<const double> vdot) {
  auto& block = coupling_.problem.blocks.emplace_back();
  block.start = p.start;
  block.dim = p.dim;
  block.site = p.site;
  block.reaction_implicit = p.reaction_implicit;
  std::copy_n(thrust_read(p).data(), 6, block.known.begin());
  using Kind = detail::FrictionProblem::Block::Kind;
  block.kind = p.element >= 0 ? Kind::dry : p.slip_implicit ? Kind::slip_implicit : Kind::smooth;
  block.slip_fraction = p.slip_fraction;
  if (p.slip_implicit) {
    std::copy_n(p.slip.data(), 6, block.start_slip.begin());
    for (int k = 0; k < p.dim; ++k) coupling_.problem.slip0(p.start + k) = end_slip(scene, p, k, vdot, step);
  }
  if (!block.is_smooth()) pose_dry_term(scene, p, vdot, block);
}

/// Sets the members of a block that belong to dry friction.
void LawSolver::pose_dry_term(const Scene& scene, const UnknownTerm& p, std::span<const double> vdot,
                              detail::FrictionProblem::Block& block) {
  const ModeRequest& request = persistent_.requested_modes[z(p.element)];
  const FrictionMode how = request.how;
  const double speed = p.slip.norm();
  block.speed = speed;
  block.mobility = 1e-300;
  for (int k = 0; k < p.dim; ++k)
    block.mobility = std::max(block.mobility, coupling_.responses.mobility[z(p.start + k)]);
  const bool at_end = how == FrictionMode::slips && step > 0 && !(request.sense.squaredNorm() > 0);
  block.at_rest = step > 0 ? speed <= rest_speed && !at_end : true;
  const bool is_given =
      p.slides_in_problem || (how == FrictionMode::slips && !at_end) ||
      (how == FrictionMode::automatic && step == 0 && speed > rest_speed && !rounded_rest(scene, p, vdot));
  using Guidance = detail::FrictionProblem::Block::Guidance;
  block.guidance = how == FrictionMode::sticks ? Guidance::forced : is_given ? Guidance::given : Guidance::free;
  if (is_given) std::copy_n(sliding_sense(p).data(), 6, block.sense.begin());
  if (step > 0) std::copy_n(p.slip.data(), 6, block.start_slip.begin());
  for (int k = 0; k < p.dim; ++k) coupling_.problem.slip0(p.start + k) = end_slip(scene, p, k, vdot, step);
  if (!at_end && rounded_rest(scene, p, vdot)) block.at_rest = true;
  block.reach = reach_of(scene, p, vdot);
}

/// Sets the residual slips of a dry term. @param m  number of rows
void LawSolver::pose_residual_slip(const Scene& scene, const UnknownTerm& p, std::size_t m) {
  for (int k = 0; k < p.dim && step > 0 && p.element >= 0; ++k)
    coupling_.problem.residual_slip(p.start + k) = residual_slip(scene, p.start + k, m);
}

/// Returns the part of the slip along unknown j that is an error of the velocities at the state, which violate the
/// constraints in this direction. It is yᵀ(A v + φ_t), where −y are the multipliers in response to a unit effort.
double LawSolver::residual_slip(const Scene& scene, int j, std::size_t m) const {
  double sum = 0;
  for (std::size_t r = 0; r < m; ++r) sum -= coupling_.responses.lambda[z(j) * m + r] * scene.assembly.velocity[r];
  return sum;
}

/// Returns how fast the two points of an unknown term move separately along its unit directions: speeds with a step,
/// accelerations at an instant.
double LawSolver::reach_of(const Scene& scene, const UnknownTerm& p, std::span<const double> vdot) const {
  const Site& site = sites_[z(p.site)];
  const IslandLayout& block = scene.assembly.layout;
  double linear = step > 0 ? 0 : site.bias.norm(), angular = 0;
  for (const std::size_t side : {std::size_t(0), std::size_t(1)}) {
    const BodyId id = side == 0 ? site.first : site.second;
    if (id.index < 0) continue;
    const BodyState& body = scene.state[id];
    Vector3d v = body.v, w = body.w;
    if (const int slot = site.slots[side]; step == 0 && slot >= 0) {
      const Vector6d rate = twist_of(block, z(slot), vdot);
      v = rate.head<3>();
      w = rate.tail<3>();
    } else if (step == 0) {
      v = body.a;
      w = body.alpha;
    }
    linear += v.norm() + w.norm() * (site.point - body.p).norm();
    angular += w.norm();
  }
  double most = 0;
  for (int k = 0; k < p.dim; ++k)
    most = std::max(most, p.basis.col(k).head<3>().norm() * linear + p.basis.col(k).tail<3>().norm() * angular);
  return most;
}

/// Computes the response of every slip and reaction to every unknown effort, with one back-solve for each.
void LawSolver::compute_unit_responses(const Scene& scene, std::size_t n, std::size_t m) {
  coupling_.responses.vdot.resize(z(coupling_.unknowns) * n);
  coupling_.responses.force.resize(z(coupling_.unknowns) * n);
  coupling_.responses.lambda.resize(z(coupling_.unknowns) * m);
  coupling_.responses.mobility.assign(z(coupling_.unknowns), 0.0);
  coupling_.responses.is_sparse = false;
  const double h = step > 0 ? step : 1;
  for (const int index : coupling_.terms)
    for (int k = 0; k < unknown_terms_[z(index)].dim; ++k) {
      const UnknownTerm& p = unknown_terms_[z(index)];
      const int j = p.start + k;
      const std::span<double> column = std::span(coupling_.responses.vdot).subspan(z(j) * n, n),
                              force = std::span(coupling_.responses.force).subspan(z(j) * n, n),
                              lambda = std::span(coupling_.responses.lambda).subspan(z(j) * m, m);
      std::fill(scratch_.applied.begin(), scratch_.applied.end(), 0.0);
      add(scene, sites_[z(p.site)], p.basis.col(k), scratch_.applied);
      scene.solver.inverse_mass(scratch_.applied, column);
      coupling_.responses.mobility[z(j)] = h * p.basis.col(k).dot(twist(scene, sites_[z(p.site)], column));
      if (coupling_.responses.mobility[z(j)] > 0) coupling_.problem.weight(j) = coupling_.responses.mobility[z(j)];
      multiply(scene.assembly.problem, column, scratch_.row);
      for (double& r : scratch_.row) r = -r;
      scene.solver.apply(scratch_.row, lambda, force, scratch_.dv);
      ++report.back_solves;
      for (std::size_t i = 0; i < n; ++i) {
        column[i] += scratch_.dv[i];
        force[i] += scratch_.applied[i];
      }
      for (const int o : coupling_.terms) {
        const UnknownTerm& other = unknown_terms_[z(o)];
        if (other.element < 0 && !other.slip_implicit) continue;
        const Vector6d u = twist(scene, sites_[z(other.site)], column);
        for (int i = 0; i < other.dim; ++i) coupling_.problem.W(other.start + i, j) = h * other.basis.col(i).dot(u);
      }
      if (coupling_.any_reaction_implicit)
        for (std::size_t s = 0; s < sites_.size(); ++s) {
          const Vector6d N = reaction(scene, sites_[s], lambda);
          for (int i = 0; i < 6; ++i) coupling_.problem.K(static_cast<int>(s), i, j) = N[i];
        }
    }
}

/// Redistributes the friction of redundant elements that are held. Gauss–Seidel distributes it in an arbitrary way.
/// Where one element exceeds its bound, they are distributed within their bounds if all together can stick. Otherwise
/// the distribution of limit analysis is used. It exceeds all bounds at the same time, so that this time can be
/// located.
void LawSolver::redistribute_static_friction(LawCallbacks& callbacks) {
  bool passed = false;
  for (std::size_t i = 0; i < coupling_.problem.blocks.size(); ++i) {
    const auto& block = coupling_.problem.blocks[i];
    if (!block.is_forced()) continue;
    double friction = 0;
    for (int k = 0; k < block.dim; ++k) friction += std::pow(coupling_.efforts[z(block.start + k)], 2);
    const double bound = callbacks.holding(static_cast<int>(i), coupling_.problem.read(block, coupling_.efforts));
    passed = passed || std::sqrt(friction) > (1 + 1e-12) * bound;
  }
  if (!passed) return;
  scratch_.change = coupling_.efforts;
  if (coupling_.problem.distribute_static_friction(
          callbacks, coupling_.efforts,
          true) &&  // Sliding elements beside it respond to the new distribution.
      !coupling_.problem.solve(callbacks, coupling_.efforts, true, detail::FrictionProblem::Choice::continuous).found)
    coupling_.efforts = scratch_.change;
}

/// Returns true if the efforts would accelerate an element beyond all bounds. Then normal forces and efforts increase
/// each other without end, and the result is not a solution.
bool LawSolver::moves_beyond_all_bounds() const {
  const double most = fastest_by_laws / (step > 0 ? 1 : shortest_law_step);
  for (int i = 0; i < coupling_.unknowns; ++i)
    if (!(std::fabs(coupling_.problem.slip(i, coupling_.efforts) - coupling_.problem.slip0(i)) <= most)) return true;
  return false;
}

void LawSolver::solve(const Scene& scene) {
  using detail::FrictionProblem;
  LawCallbacks callbacks(*this, scene);
  const bool known = start_at_last_solution();
  const FrictionProblem::Choice choice = branch_choice();
  FrictionProblem::Result result = coupling_.problem.solve(callbacks, coupling_.efforts, known, choice);
  report.gain = result.gain;
  report.residual = result.residual;
  report.solutions = coupling_.any_reaction_implicit ? result.solutions : 0;
  if (result.reaction_implicit && (!result.found || moves_beyond_all_bounds())) {
    fall_back_to_ideal(scene, result.gain);
    result = coupling_.problem.solve(callbacks, coupling_.efforts, false, choice);
    report.residual = result.residual;
  } else {
    redistribute_static_friction(callbacks);
    report.branch = choice == FrictionProblem::Choice::smallest  ? Branch::smallest
                    : choice == FrictionProblem::Choice::largest ? Branch::largest
                                                                 : Branch::continuous;
    if (result.solutions > 1) warn_of_several_solutions(result.gain);
    if (step > 0 && result.gain >= 1 && result.solutions == 1) check_jamming(scene, callbacks);
  }
  if (result.worst >= 0 && report.warning.empty()) warn_of_residual(scene, result);
}

/// Solves the friction problem without responses. @return whether a solution was found
bool LawSolver::solve_sparsely(const Scene& scene, SparseStart start) {
  LawCallbacks callbacks(*this, scene, reads_actual_);
  std::vector<double>& last_slips = coupling_.sparse->last_slips;
  last_slips.clear();
  const bool is_warm = start == SparseStart::last_solution;
  if (!is_warm || !start_at_last_solution()) std::fill(coupling_.efforts.begin(), coupling_.efforts.end(), 0.0);
  if (is_warm && !coupling_.continues && step > 0 && persistent_.last_slips.size() == unknown_terms_.size()) {
    last_slips.resize(z(coupling_.unknowns));
    for (const int i : coupling_.terms) {
      const UnknownTerm& p = unknown_terms_[z(i)];
      for (int k = 0; k < p.dim; ++k) last_slips[z(p.start + k)] = p.basis.col(k).dot(persistent_.last_slips[z(i)]);
    }
  }
  const detail::SparseFriction::Result result =
      coupling_.sparse->solve(callbacks, scene.solver, coupling_.problem.slips0(), coupling_.efforts);
  store_sticking();
  report.back_solves += result.solves;
  report.gain = 0;
  report.residual = result.residual;
  report.solutions = 0;
  if (!result.found && coupling_.unknowns > most_dense_unknowns) {
    report.warning = "dry friction at " + std::to_string(coupling_.terms.size()) +
                     " places is solved only to a relative error of " + text(result.residual) + ". Use a shorter step";
    return true;
  }
  return result.found;
}

/// Starts at the last solution. It determines the branch of the coupled normal force, and the distribution over
/// redundant elements. For the same unknowns at another given normal force it is the result of the last iteration.
/// @return whether there is one
bool LawSolver::start_at_last_solution() {
  const bool known = coupling_.continues || persistent_.last_efforts.size() == unknown_terms_.size();
  if (coupling_.continues) return true;
  coupling_.efforts.assign(z(coupling_.unknowns), 0.0);
  for (const int i : coupling_.terms) {
    const UnknownTerm& p = unknown_terms_[z(i)];
    for (int k = 0; known && k < p.dim; ++k)
      coupling_.efforts[z(p.start + k)] =
          p.basis.col(k).dot(persistent_.last_efforts[z(i)]) / p.basis.col(k).squaredNorm();
  }
  return known;
}

detail::FrictionProblem::Choice LawSolver::branch_choice() const {
  using Choice = detail::FrictionProblem::Choice;
  Choice choice = Choice::continuous;
  for (const int i : coupling_.terms)
    if (const UnknownTerm& p = unknown_terms_[z(i)]; p.reaction_implicit && p.what->branch != Branch::continuous)
      choice = p.what->branch == Branch::smallest ? Choice::smallest : Choice::largest;
  return choice;
}

/// Makes all terms read the frictionless normal force, because no actual one was found, and reports it.
void LawSolver::fall_back_to_ideal(const Scene& scene, double gain) {
  report.fell_back = true;
  const Law::Term* reader = nullptr;
  const Site* where = nullptr;
  for (const int i : coupling_.terms)
    if (const UnknownTerm& p = unknown_terms_[z(i)]; p.reaction_implicit && reader == nullptr)
      reader = p.what, where = &sites_[z(p.site)];
  const bool exists = gain < 0.9;  // Below this coupling gain there is a solution, which was not found.
  report.warning = name_of(scene, *where, *reader) +
                   (exists ? ": no coupled normal force was found that satisfies the law (coupling gain "
                           : ": no coupled normal force satisfies the law (coupling gain ") +
                   text(gain) +
                   (exists ? "). The law is discontinuous in its normal force, or masses differ too much. "
                             "The frictionless normal force was used instead. Make the law smooth"
                           : ", a case of Painlevé). The frictionless normal force was used instead. Use "
                             "less friction, or a unilateral constraint");
  for (auto& block : coupling_.problem.blocks) {
    block.reaction_implicit = false;
    std::copy_n(sites_[z(block.site)].ideal.data(), 6, block.known.begin());
  }
  persistent_.last_efforts.clear();
  std::fill(coupling_.efforts.begin(), coupling_.efforts.end(), 0.0);
}

void LawSolver::warn_of_several_solutions(double gain) {
  report.warning = "several coupled normal forces satisfy the laws (coupling gain " + text(gain) + "). The one " +
                   (report.branch == Branch::smallest  ? "of least magnitude"
                    : report.branch == Branch::largest ? "of greatest magnitude"
                                                       : "nearest to the last") +
                   " was used. with_branch() selects another";
}

/// Warns of the law with the largest residual, if it is implicit in its slip and the residual is large.
void LawSolver::warn_of_residual(const Scene& scene, const detail::FrictionProblem::Result& result) {
  const UnknownTerm& p = unknown_terms_[z(coupling_.terms[z(result.worst)])];
  if (!(result.residual > 1e-3 && p.slip_implicit) || p.what->multiplier) return;
  // Slips at the level of their rounding make forces that are rounding, too.
  if (result.worst_size <= 1e-9 * sites_[z(p.site)].ideal.head<3>().norm()) return;
  report.warning = name_of(scene, sites_[z(p.site)], *p.what);
  if (jumps_at_rest(scene, p, coupling_.problem.read(coupling_.problem.blocks[z(result.worst)], coupling_.efforts)))
    report.warning +=
        ": the force jumps where the slip changes sign, and no slip at the end of the step satisfies the law. The step "
        "uses a force at the jump. Use coulomb(), which can stick, or regularized_coulomb(), which is smooth";
  else if (const std::string jump = jump_at_end(scene, p); !jump.empty())
    report.warning += jump;
  else
    report.warning +=
        ": the law is satisfied only to " + text(100 * result.residual) +
        " % of the largest force at the end of the step, because other laws act on the same bodies. Use a shorter step";
}

/// Describes a jump of the law near the slip at the end of the step. Empty if there is none.
std::string LawSolver::jump_at_end(const Scene& scene, const UnknownTerm& p) {
  const Site& site = sites_[z(p.site)];
  const detail::Six N = coupling_.problem.read(coupling_.problem.blocks[z(p.block)], coupling_.efforts);
  const Vector6d end = implicit_slip(p);
  const auto at = [&](double part) {
    Vector6d u;
    u << site.relative, site.relative_spin;
    u += p.basis.leftCols(p.dim) * (part * end - p.slip).head(p.dim);
    return LawInput{u.head<3>(), u.tail<3>(), Eigen::Map<const Vector6d>(N.data())};
  };
  return p.memory >= 0 ? std::string() : jump_between(scene, site, *p.what, at(0.9), at(1.1));
}

/// Stores the efforts of every unknown term as the start of the next solution.
void LawSolver::store_efforts() {
  persistent_.last_efforts.clear();
  persistent_.last_slips.clear();
  for (const UnknownTerm& p : unknown_terms_) {
    persistent_.last_efforts.push_back(effort_of(p));
    if (!coupling_.is_sparse || step == 0) continue;
    Vector6d& slip = persistent_.last_slips.emplace_back(Vector6d::Zero());
    for (int k = 0; k < p.dim; ++k)
      slip += (p.block < 0 ? p.slip[k] : slip_of(p.start + k)) / p.basis.col(k).squaredNorm() * p.basis.col(k);
  }
  store_sticking();
}

/// Stores which elements stick as the start of the next solution, also of the next iteration at other normal forces.
void LawSolver::store_sticking() {
  persistent_.last_sticking.assign(elements.size(), 0);
  for (const UnknownTerm& p : unknown_terms_)
    if (p.element >= 0 && p.block >= 0)
      persistent_.last_sticking[z(p.element)] =
          coupling_.problem.blocks[z(p.block)].mode == detail::FrictionProblem::Mode::sticks;
}

/// Warns of jamming. An element that slid at the start of the step and is at rest at its end may have had no other
/// solution. While it slides, no normal force satisfies its law (Painlevé), and it stops as by an impact without
/// collision.
void LawSolver::check_jamming(const Scene& scene, LawCallbacks& callbacks) {
  const auto jams = [&](const UnknownTerm& p) {
    const auto& block = coupling_.problem.blocks[z(p.block)];
    return p.element >= 0 && block.reaction_implicit && !block.is_forced() && !block.at_rest &&
           block.mode == detail::FrictionProblem::Mode::sticks;
  };
  const auto one =
      std::find_if(coupling_.terms.begin(), coupling_.terms.end(), [&](int i) { return jams(unknown_terms_[z(i)]); });
  if (one == coupling_.terms.end()) return;
  const std::vector<detail::FrictionProblem::Block> blocks = coupling_.problem.blocks;  // Rare cases may allocate.
  std::vector<double> slides(coupling_.efforts.size(), 0.0);
  for (const int i : coupling_.terms) {
    const UnknownTerm& p = unknown_terms_[z(i)];
    auto& block = coupling_.problem.blocks[z(p.block)];
    if (!jams(p)) continue;
    std::copy_n(sliding_sense(p).data(), 6, block.sense.begin());
    block.guidance = detail::FrictionProblem::Block::Guidance::given;
  }
  if (!coupling_.problem.solve(callbacks, slides, false, detail::FrictionProblem::Choice::continuous).found)
    report.warning = name_of(scene, sites_[z(unknown_terms_[z(*one)].site)], *unknown_terms_[z(*one)].what) +
                     ": the body cannot slide with any coupled normal force (coupling gain " + text(report.gain) +
                     ", a case of Painlevé). It stops within the step, as after an impact. Use less friction, or a "
                     "unilateral constraint";
  coupling_.problem.blocks = blocks;
}

/// Returns true if the effort of a law jumps where the slip passes through rest in some direction. A smooth effort
/// changes in proportion over so small a distance, however stiff it is.
bool LawSolver::jumps_at_rest(const Scene& scene, const UnknownTerm& p, const detail::Six& N) const {
  const Eigen::Map<const Vector6d> thrust(N.data());
  for (int k = 0; k < p.dim; ++k) {
    const auto across = [&](double slip) {
      const ForceMoment a = p.what->force(thrust_at_slip(scene, p, thrust, slip * Vector6d::Unit(k)));
      const ForceMoment b = p.what->force(thrust_at_slip(scene, p, thrust, -slip * Vector6d::Unit(k)));
      return std::hypot((a.force - b.force).norm(), (a.moment - b.moment).norm());
    };
    constexpr double hardly = 1e-12;  // In m/s.
    if (across(0) > 0) return false;  // The law is not a function of its arguments.
    const double change = across(hardly);
    if (change > 0 && change > 0.5 * across(1000 * hardly)) return true;
  }
  return false;
}

double LawSolver::reapply_stick(const Scene& scene, std::span<double> v, std::span<double> vdot,
                                std::span<double> nonideal, std::span<double> induced) {
  if (coupling_.problem.blocks.empty() || (step == 0 && report.sticking == 0)) return 0;
  double most = slips_at_midpoint(scene, v);
  scratch_.change.assign(z(coupling_.unknowns), 0.0);
  const std::size_t n = v.size(), m = induced.size();
  if (step == 0) {  // An impulse, which is not part of the force at the instant.
    if (!(most > 0)) return 0;
    if (coupling_.is_sparse) {
      if (!linearize_response(scene) || !coupling_.sparse->respond(scratch_.values, scratch_.change)) return 0;
      respond_to_change(scene, scratch_.change);
      for (std::size_t j = 0; j < n; ++j) v[j] += scratch_.dv[j];
      return most;
    }
    coupling_.problem.correction(scratch_.values, scratch_.change);
    for (std::size_t k = 0; k < scratch_.change.size(); ++k)
      for (std::size_t j = 0; j < n; ++j) v[j] += scratch_.change[k] * coupling_.responses.vdot[k * n + j];
    return most;
  }

  // The end-of-step Newton has changed the slips. So every element responds again, within its bound.
  constexpr double rounding = 1e-15;
  double slip_change = 0;
  for (const int index : coupling_.terms) {
    const UnknownTerm& p = unknown_terms_[z(index)];
    for (int k = 0; k < p.dim && (p.element >= 0 || p.slip_implicit); ++k) {
      const int i = p.start + k;
      const double change = scratch_.values[z(i)] - slip_of(i);
      coupling_.problem.slip0(i) += change;
      slip_change = std::max(slip_change, std::fabs(change));
    }
  }
  if (slip_change <= rounding * largest(v)) return 0;
  scratch_.change = coupling_.efforts;
  coupling_.is_linearized = false;
  LawCallbacks callbacks(*this, scene);
  try {
    if (coupling_.is_sparse
            ? !coupling_.sparse
                   ->solve(callbacks, scene.solver, coupling_.problem.slips0(), coupling_.efforts, scratch_.values)
                   .found
            : !coupling_.problem.solve(callbacks, coupling_.efforts, true, detail::FrictionProblem::Choice::continuous)
                   .found)
      coupling_.efforts = scratch_.change;
    for (std::size_t k = 0; k < scratch_.change.size(); ++k)
      scratch_.change[k] = coupling_.efforts[k] - scratch_.change[k];
    store_efforts();
    most = 0;
    if (coupling_.is_sparse) {
      std::fill(scratch_.applied.begin(), scratch_.applied.end(), 0.0);
      add_efforts(scene, scratch_.change, scratch_.applied);
      scratch_.vdot.assign(vdot.begin(), vdot.end());
      add_response(scene, scratch_.applied, vdot, nonideal, induced);
      for (std::size_t j = 0; j < n; ++j) {
        const double change = step * (vdot[j] - scratch_.vdot[j]);
        v[j] += change;
        most = std::max(most, std::fabs(change));
      }
    }
    for (std::size_t k = 0; k < scratch_.change.size() && !coupling_.is_sparse; ++k) {
      const double d = scratch_.change[k];
      if (d == 0) continue;
      for (std::size_t j = 0; j < n; ++j) {
        v[j] += step * d * coupling_.responses.vdot[k * n + j];
        most = std::max(most, std::fabs(step * d * coupling_.responses.vdot[k * n + j]));
        vdot[j] += d * coupling_.responses.vdot[k * n + j];
        nonideal[j] += d * coupling_.responses.force[k * n + j];
      }
      for (std::size_t r = 0; r < m; ++r) induced[r] += d * coupling_.responses.lambda[k * m + r];
    }
    std::fill(scratch_.applied.begin(), scratch_.applied.end(), 0.0);
    for (const int i : coupling_.terms) {
      const UnknownTerm& p = unknown_terms_[z(i)];
      Vector6d e = Vector6d::Zero();
      for (int k = 0; k < p.dim; ++k) e += scratch_.change[z(p.start + k)] * p.basis.col(k);
      sites_[z(p.site)].effort += e;
      add(scene, sites_[z(p.site)], e, scratch_.applied);
    }
    for (std::size_t j = 0; j < n && !coupling_.is_sparse; ++j) scene.assembly.problem.c[j] += scratch_.applied[j];
    report.sticking = 0;
    write_results(scene, vdot, induced);
    write_efforts();
  } catch (...) {
    return 0;  // A law that was just evaluated fails now. The earlier result stays.
  }
  return most;
}

void LawSolver::respond(const Scene& scene, std::span<double> dv, LawResponse* so_far) {
  if (coupling_.problem.blocks.empty() || !(step > 0) || !linearize_response(scene)) return;
  const std::size_t unknowns = z(coupling_.unknowns), n = dv.size();
  scratch_.values.assign(unknowns, 0.0);
  for (const int i : coupling_.terms) {
    const UnknownTerm& p = unknown_terms_[z(i)];
    const Vector6d u = twist(scene, sites_[z(p.site)], dv);
    for (int k = 0; k < p.dim; ++k) scratch_.values[z(p.start + k)] = p.basis.col(k).dot(u);
  }
  scratch_.change.assign(unknowns, 0.0);
  if (so_far != nullptr) {
    so_far->efforts.resize(unknowns, 0.0);
    scratch_.change = so_far->efforts;
  }
  if (!coupling_.is_sparse)
    coupling_.problem.respond(scratch_.values, scratch_.change);
  else if (!coupling_.sparse->respond(scratch_.values, scratch_.change))
    return;
  if (so_far != nullptr) {
    keep_static_bounds(scratch_.change);
    so_far->efforts.swap(scratch_.change);
    for (std::size_t k = 0; k < unknowns; ++k) scratch_.change[k] = so_far->efforts[k] - scratch_.change[k];
    for (const int i : coupling_.terms) {
      const UnknownTerm& p = unknown_terms_[z(i)];
      Vector6d e = Vector6d::Zero();
      for (int k = 0; k < p.dim; ++k) e += step * scratch_.change[z(p.start + k)] * p.basis.col(k);
      add(scene, sites_[z(p.site)], e, so_far->impulse);
    }
  }
  if (coupling_.is_sparse) {
    respond_to_change(scene, scratch_.change);
    for (std::size_t j = 0; j < n; ++j) dv[j] += step * scratch_.dv[j];
    return;
  }
  for (std::size_t k = 0; k < unknowns; ++k) {
    const double impulse = step * scratch_.change[k];
    for (std::size_t j = 0; j < n && impulse != 0; ++j) dv[j] += impulse * coupling_.responses.vdot[k * n + j];
  }
}

/// Adds the force of efforts of all unknowns to `out` [n].
void LawSolver::add_efforts(const Scene& scene, std::span<const double> efforts_of_unknowns,
                            std::span<double> out) const {
  for (const int i : coupling_.terms) {
    const UnknownTerm& p = unknown_terms_[z(i)];
    Vector6d e = Vector6d::Zero();
    for (int k = 0; k < p.dim; ++k) e += efforts_of_unknowns[z(p.start + k)] * p.basis.col(k);
    add(scene, sites_[z(p.site)], e, out);
  }
}

/// scratch_.dv ← the acceleration that efforts of all unknowns make.
void LawSolver::respond_to_change(const Scene& scene, std::span<const double> change) {
  std::fill(scratch_.applied.begin(), scratch_.applied.end(), 0.0);
  add_efforts(scene, change, scratch_.applied);
  scratch_.vdot.resize(scratch_.applied.size());
  scene.solver.inverse_mass(scratch_.applied, scratch_.vdot);
  multiply(scene.assembly.problem, scratch_.vdot, scratch_.row);
  for (double& r : scratch_.row) r = -r;
  scene.solver.apply(scratch_.row, {}, {}, scratch_.dv);
  for (std::size_t j = 0; j < scratch_.dv.size(); ++j) scratch_.dv[j] += scratch_.vdot[j];
}

/// Linearises the laws at the solution of the last evaluation. @return false if a law fails, which just had a value
bool LawSolver::linearize_response(const Scene& scene) {
  if (coupling_.is_linearized) return true;
  LawCallbacks callbacks(*this, scene);
  try {
    if (coupling_.is_sparse)
      coupling_.sparse->linearize(callbacks, coupling_.efforts);
    else
      coupling_.problem.linearize_slips(callbacks, coupling_.efforts);
    coupling_.bounds.assign(coupling_.terms.size(), 0.0);
    for (std::size_t k = 0; k < coupling_.terms.size(); ++k) {
      const UnknownTerm& p = unknown_terms_[z(coupling_.terms[k])];
      if (p.element < 0) continue;
      double& bound = coupling_.bounds[k] = elements[z(p.element)].bound;
      // The load of a host's contacts is in the normal force of the last step, and perhaps not in the present one.
      if (z(p.effort) < records_.histories.size()) bound = std::max(bound, records_.histories[z(p.effort)].bound);
    }
  } catch (...) {
    return false;
  }
  return coupling_.is_linearized = true;
}

/// Reduces changes of sticking efforts that exceed their static bound.
void LawSolver::keep_static_bounds(std::span<double> change) const {
  for (std::size_t k = 0; k < coupling_.terms.size(); ++k) {
    const UnknownTerm& p = unknown_terms_[z(coupling_.terms[k])];
    if (p.element < 0 || !elements[z(p.element)].sticks) continue;
    double friction = 0;
    for (int i = p.start; i < p.start + p.dim; ++i) friction += std::pow(coupling_.efforts[z(i)] + change[z(i)], 2);
    friction = std::sqrt(friction);
    if (!(friction > coupling_.bounds[k])) continue;
    const double part = coupling_.bounds[k] / friction;
    for (int i = p.start; i < p.start + p.dim; ++i)
      change[z(i)] = part * (coupling_.efforts[z(i)] + change[z(i)]) - coupling_.efforts[z(i)];
  }
}

/// Computes the slips of all unknown efforts in the middle of a step with velocities v, where a velocity constraint of
/// a step is met (T12), into scratch_.values. @return the largest one of a sticking element
double LawSolver::slips_at_midpoint(const Scene& scene, std::span<const double> v) {
  // One state for all blocks, because a state for each of thousands of blocks of one world is too large.
  thread_local State middle;
  const IslandLayout& block = scene.assembly.layout;
  for (const Site& site : sites_) {
    const auto bodies = scene.system.constraint(block.constraints[z(site.constraint)]).bodies();
    copy_bodies(scene.state, bodies, middle);
    for (const BodyId id : bodies) {
      BodyState& body = middle[id];
      if (const int slot = block.body_index(id); slot >= 0) {
        const Vector6d u = twist_of(block, z(slot), v);
        body.v = u.head<3>();
        body.w = u.tail<3>();
      } else if (scene.system.kind(id) != BodyKind::kinematic) {
        continue;
      }
      advance(body, body.v, body.w, 0.5 * step);
    }
  }
  middle.t = scene.state.t + 0.5 * step;
  const auto velocity = [&](BodyId id, const Vector3d& at) -> Vector3d {
    if (id.index < 0) return Vector3d::Zero();
    const BodyState& body = middle[id];
    return scene.system.kind(id) == BodyKind::particle ? body.v : Vector3d(body.v + body.w.cross(at - body.p));
  };
  scratch_.values.assign(z(coupling_.unknowns), 0.0);
  double most = 0;
  for (const int i : coupling_.terms) {
    const UnknownTerm& p = unknown_terms_[z(i)];
    if (p.element < 0 && !p.slip_implicit) continue;
    const Site& site = sites_[z(p.site)];
    const bool sticks = p.element >= 0 && elements[z(p.element)].sticks;
    if (p.what->row >= 0) {
      scratch_.values[z(p.start)] = row_velocity(scene, site, p.what->row, middle);
      if (sticks) most = std::max(most, std::fabs(scratch_.values[z(p.start)]));
      continue;
    }
    const Vector3d at = scene.system.constraint(block.constraints[z(site.constraint)]).application_point(0, middle);
    Vector6d rubs;
    rubs << velocity(site.first, at) - velocity(site.second, at),
        middle[site.first].w - (site.second.index < 0 ? Vector3d(Vector3d::Zero()) : middle[site.second].w);
    if (p.what->belt && p.element >= 0)
      rubs.head<3>() += p.what->belt_slip(thrust_of(scene, site, *p.what, site.ideal));
    for (int k = 0; k < p.dim; ++k) {
      scratch_.values[z(p.start + k)] = p.basis.col(k).dot(rubs);
      if (sticks) most = std::max(most, std::fabs(scratch_.values[z(p.start + k)]));
    }
  }
  return most;
}

}  // namespace linchpin
