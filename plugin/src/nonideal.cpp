// Laws at one state. The order of things: laws that only add up; then, if anything is at rest, is to be judged at the
// end of a step or reads the actual thrust, unit responses of all unknown efforts and the friction problem; last, what
// came out goes through the factor once more as one force, so that no round-off of the small problem is left in v̇.
#include "nonideal.h"

#include "columns.h"
#include "text.h"

#include <linchpin/constraint.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <exception>
#include <limits>
#include <stdexcept>

namespace linchpin {
namespace {

/// Counts as a step where laws are those of the instant [s], for how fast they may make a body.
constexpr double shortest = 1e-6;

}  // namespace

/// The laws as the friction problem calls them.
class Nonideal::Answers final : public detail::FrictionProblem::Laws {
 public:
  Answers(Nonideal& own, const Scene& scene) : own_(own), scene_(scene) {}
  double holding(int block, const detail::Six& N) override { return holding(piece(block), N); }
  double holding(const Piece& p, const detail::Six& N) { return own(p).holding(thrust(p, N)); }
  double sliding(int block, const detail::Six& N, double speed) override { return sliding(piece(block), N, speed); }
  double sliding(const Piece& p, const detail::Six& N, double speed) { return own(p).sliding(thrust(p, N), speed); }
  void effort(int block, const detail::Six& N, const detail::Six& slip, double* out) override {
    const Piece& p = piece(block);
    const Effort e = own(p).effort(p.answers ? own_.thrust_at_slip(scene_, p, Eigen::Map<const Vector6d>(N.data()),
                                                                   Eigen::Map<const Vector6d>(slip.data()))
                                             : thrust(p, N));
    for (int k = 0; k < p.dim; ++k)
      out[k] = p.basis.col(k).head<3>().dot(e.force) + p.basis.col(k).tail<3>().dot(e.moment);
  }
  bool allowed(std::span<const detail::Six> thrusts) override {
    for (std::size_t s = 0; s < own_.sites_.size(); ++s) {
      const Site& site = own_.sites_[s];
      if (site.one_sided == 0) continue;
      const Vector3d N(thrusts[s][0], thrusts[s][1], thrusts[s][2]);
      if (site.one_sided * N.dot(site.push) < 0) return false;
    }
    return true;
  }

 private:
  const Piece& piece(int block) const { return own_.pieces_[z(own_.posed_[z(block)])]; }
  const Law::Term& own(const Piece& p) const {
    own_.blame(own_.sites_[z(p.site)], *p.what);
    return *p.what;
  }
  Thrust thrust(const Piece& p, const detail::Six& N) const {
    Thrust n = own_.thrust_of(scene_, own_.sites_[z(p.site)], *p.what, Eigen::Map<const Vector6d>(N.data()));
    if (p.memory >= 0) n.memory = own_.memories_[z(p.memory)].next;
    return n;
  }
  Nonideal& own_;
  const Scene& scene_;
};

void Nonideal::restructure(const Block& block) {
  sites_.clear();
  prescribed.clear();
  pieces_.clear();
  contacts.clear();
  memories_.clear();
  holds_.clear();
  z_known_.clear();
  histories_.clear();
  flaw_.clear();
  masses_.clear();
  std::size_t entries = 0;
  for (std::size_t s = 0; s < block.bodies.size(); ++s) {
    masses_.push_back(entries);
    const std::size_t dof = z(block.column[s + 1] - block.column[s]);
    entries += dof * dof;
  }
  shared_.assign(block.bodies.size(), 0.0);
  memory_begun_ = false;
  report = {};
}

/// Adds what the force `c` [n] does to everything: one back-solve (T5).
void Nonideal::respond(const Scene& scene, std::span<const double> c, std::span<double> vdot,
                       std::span<double> nonideal, std::span<double> induced) {
  scene.solver.inverse_mass(c, dv_);
  for (std::size_t j = 0; j < vdot.size(); ++j) {
    vdot[j] += dv_[j];
    nonideal[j] += c[j];
    scene.assembly.instant.c[j] += c[j];
  }
  multiply(scene.assembly.instant, dv_, row_);
  for (double& r : row_) r = -r;
  scene.solver.apply(row_, lambda_, force_, dv_);  // −AᵀG⁺A M⁻¹c
  ++report.back_solves;
  for (std::size_t j = 0; j < vdot.size(); ++j) {
    vdot[j] += dv_[j];
    nonideal[j] += force_[j];
  }
  for (std::size_t r = 0; r < induced.size(); ++r) induced[r] += lambda_[r];
}

/// Rubbing velocity of a piece after h with the accelerations vdot; its rate for h = 0.
double Nonideal::end_slip(const Scene& scene, const Piece& p, int k, std::span<const double> vdot, double h) const {
  const Site& site = sites_[z(p.site)];
  Vector6d rate = twist(scene, site, vdot);
  rate.head<3>() += site.bias;
  rate.tail<3>() += site.bias_spin;
  const double gain = p.basis.col(k).dot(rate);
  return h > 0 ? p.slip[k] + h * gain : gain;
}

/// Whether a slip is what a host in single precision leaves in what rests: little beside what one step would make of it
/// with the accelerations vdot, its own friction apart.
bool Nonideal::rounded_rest(const Scene& scene, const Piece& p, std::span<const double> vdot) const {
  double gain = 0;
  for (int k = 0; k < p.dim && step > 0; ++k) gain += std::pow(end_slip(scene, p, k, vdot, step) - p.slip[k], 2);
  return step > 0 && p.slip.norm() <= 1e-3 * std::sqrt(gain);
}

/// Whether a contact that slides does so along its slip, rather than in a sense that was given.
bool Nonideal::goes_its_own_way(const Piece& p) const {
  const Hold& hold = holds_[z(p.contact)];
  Vector6d given = Vector6d::Zero();
  for (int k = 0; k < p.dim; ++k) given[k] = p.axes.col(k).dot(hold.sense);
  return hold.how != Grip::slips || !(given.squaredNorm() > 0) ||
         (p.dim > 1 && p.slip.dot(given) > 0 && p.slip.norm() > std::max(rest_speed, hold.sense.norm()));
}

/// The sense in which a contact that slides does so, in the basis of its piece.
Vector6d Nonideal::sense_of(const Piece& p) const {
  Vector6d sense = p.slip;
  if (!goes_its_own_way(p))
    for (int k = 0; k < p.dim; ++k) sense[k] = p.axes.col(k).dot(holds_[z(p.contact)].sense);
  const double length = sense.norm();
  return length > 0 ? Vector6d(sense / length) : sense;
}

/// Friction μN against a slip of several directions damps what is across the slip by μN/|slip|: a rate like that of a
/// stiff smooth law, of no term in particular. The sum bounds how contacts share bodies.
void Nonideal::measure_turning(const Scene& scene) {
  double sum = 0, most = 0;
  for (const Piece& p : pieces_) {
    if (p.contact < 0 || p.dim == 1 || contacts[z(p.contact)].sticks || !goes_its_own_way(p)) continue;
    double mobility = 0;
    for (int k = 0; k < p.dim; ++k) {
      std::fill(kept_.begin(), kept_.end(), 0.0);
      add(scene, sites_[z(p.site)], p.basis.col(k), kept_);
      scene.solver.inverse_mass(kept_, kept_);
      mobility = std::max(mobility, p.basis.col(k).dot(twist(scene, sites_[z(p.site)], kept_)));
    }
    sum += contacts[z(p.contact)].kinetic * std::sqrt(mobility);
    most = std::max(most, std::sqrt(mobility) / p.slip.norm());
  }
  if (!(sum * most > report.rate) || !std::isfinite(sum * most)) return;
  report.rate = sum * most;
  report.stiffest = -1;
}

/// All as it was without laws.
void Nonideal::forget_response(const Scene& scene, std::span<double> vdot, std::span<double> nonideal,
                               std::span<double> induced) {
  std::copy(kept_.begin(), kept_.end(), vdot.begin());
  std::copy(kept_nonideal_.begin(), kept_nonideal_.end(), nonideal.begin());
  std::copy(kept_induced_.begin(), kept_induced_.end(), induced.begin());
  std::fill(scene.assembly.instant.c.begin(), scene.assembly.instant.c.end(), 0.0);
}

/// Finds the contacts whose friction is known before anything is solved (T5): they read the ideal thrust and slide.
/// Within a step that is only right far from rest, and where friction that turns with the slip is weak for the step: it
/// damps across the slip by r/|slip|, and an explicit step is unstable where that is much for the mass (four feet of a
/// table that slides slowly begin to yaw). The others are posed.
void Nonideal::mark_sliding(const Scene& scene) {
  Answers answers(*this, scene);
  const Block& block = scene.assembly.block;
  const auto on_bodies = [&](const Piece& p, const auto& visit) {
    const Site& site = sites_[z(p.site)];
    for (const BodyId id : {site.first, site.second})
      if (const int slot = id.index < 0 ? -1 : block.slot(id); slot >= 0) visit(shared_[z(slot)]);
  };
  std::fill(shared_.begin(), shared_.end(), 0.0);
  work_.assign(2 * pieces_.size(), 0.0);  // √mobility over the step, and what it adds to its bodies' rate
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    Piece& p = pieces_[i];
    p.block = 0;
    if (p.contact < 0 || p.what->reads != Reads::ideal) continue;
    const Grip how = holds_[z(p.contact)].how;
    const double speed = p.slip.norm();
    if (how == Grip::sticks || (speed <= rest_speed && (how == Grip::automatic || step > 0)) ||
        rounded_rest(scene, p, kept_))
      continue;
    detail::Six N{};
    std::copy_n(sites_[z(p.site)].ideal.data(), 6, N.begin());
    const double friction = answers.sliding(p, N, speed);
    p.slides = -friction * sense_of(p);
    p.block = -1;
    if (step == 0 || p.dim == 1) continue;
    double mobility = 0;
    for (int k = 0; k < p.dim; ++k) {
      std::fill(given_.begin(), given_.end(), 0.0);
      add(scene, sites_[z(p.site)], p.basis.col(k), given_);
      scene.solver.inverse_mass(given_, given_);
      mobility = std::max(mobility, step * p.basis.col(k).dot(twist(scene, sites_[z(p.site)], given_)));
    }
    work_[2 * i] = std::sqrt(mobility);
    work_[2 * i + 1] = friction / speed * work_[2 * i];
    on_bodies(p, [&](double& sum) { sum += work_[2 * i + 1]; });
  }
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    if (!(work_[2 * i] > 0)) continue;
    double sum = 0;
    int bodies = 0;
    on_bodies(pieces_[i], [&](double& rate) { sum += rate, ++bodies; });
    // Gershgorin's bound for the contacts that share bodies; what other constraints hold moves less.
    if (work_[2 * i] * (sum - (bodies == 2 ? work_[2 * i + 1] : 0)) > 0.5) pieces_[i].block = 0;
  }
}

/// Whether a contact that slides still does so at the step's end, in about the same direction and at least at `part` of
/// its speed. Its work then is negative.
bool Nonideal::keeps_sliding(const Scene& scene, const Piece& p, std::span<const double> vdot, double part) const {
  double along = 0, end = 0;
  for (int k = 0; k < p.dim; ++k) {
    const double s = end_slip(scene, p, k, vdot, step);
    along += s * p.slip[k];
    end += s * s;
  }
  const double begin = p.slip.norm();
  return along > part * begin * std::max(begin, std::sqrt(end));
}

/// All that is known: smooth laws that are simply added, and the friction of what slides. One back-solve, and a second
/// one where a contact so comes near rest or turns, and is posed instead.
void Nonideal::slide(const Scene& scene, std::span<double> vdot, std::span<double> nonideal,
                     std::span<double> induced) {
  const auto respond_to_known = [&]() {
    std::fill(given_.begin(), given_.end(), 0.0);
    for (const Site& site : sites_) add(scene, site, site.effort, given_);
    for (const Piece& p : pieces_)
      if (p.block < 0) add(scene, sites_[z(p.site)], p.basis * p.slides, given_);
    if (largest(given_) > 0) respond(scene, given_, vdot, nonideal, induced);
  };
  respond_to_known();
  if (step == 0) return;
  bool stays = true;
  for (Piece& p : pieces_)
    if (p.block < 0 && !keeps_sliding(scene, p, vdot, 0.5)) p.block = 0, stays = false;
  if (stays) return;
  forget_response(scene, vdot, nonideal, induced);
  respond_to_known();
}

/// What is not known: the friction problem. @return whether what was taken to slide does, with it
bool Nonideal::rub(const Scene& scene, std::span<double> vdot, std::span<double> nonideal, std::span<double> induced) {
  pose(scene, vdot, induced);
  if (posed_.empty()) return true;
  solve(scene);
  std::fill(given_.begin(), given_.end(), 0.0);
  for (const int i : posed_) add(scene, sites_[z(pieces_[z(i)].site)], effort_of(pieces_[z(i)]), given_);
  respond(scene, given_, vdot, nonideal, induced);
  return step == 0 || std::all_of(pieces_.begin(), pieces_.end(),
                                  [&](const Piece& p) { return p.block >= 0 || keeps_sliding(scene, p, vdot, 0.25); });
}

/// Poses the friction problem: how every slip and thrust answers to every unknown effort, one back-solve for each.
void Nonideal::pose(const Scene& scene, std::span<const double> vdot, std::span<const double> induced) {
  const std::size_t n = vdot.size(), m = induced.size();
  posed_.clear();
  unknowns_ = 0;
  problem_.blocks.clear();
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    Piece& p = pieces_[i];
    if (p.block < 0) continue;
    p.block = static_cast<int>(posed_.size());
    p.start = unknowns_;
    unknowns_ += p.dim;
    posed_.push_back(static_cast<int>(i));
  }
  if (posed_.empty()) return;
  problem_.reset(unknowns_, static_cast<int>(sites_.size()));
  columns_.resize(z(unknowns_) * n);
  forces_.resize(z(unknowns_) * n);
  multipliers_.resize(z(unknowns_) * m);
  for (std::size_t s = 0; s < sites_.size(); ++s) {
    sites_[s].actual = sites_[s].ideal + reaction(scene, sites_[s], induced);
    std::copy_n(sites_[s].ideal.data(), 6, problem_.ideal(static_cast<int>(s)).begin());
    std::copy_n(sites_[s].actual.data(), 6, problem_.thrust0(static_cast<int>(s)).begin());
  }
  mobility_.assign(z(unknowns_), 0.0);
  const double h = step > 0 ? step : 1;
  for (const int index : posed_)
    for (int k = 0; k < pieces_[z(index)].dim; ++k) {
      const Piece& p = pieces_[z(index)];
      const int j = p.start + k;
      const std::span<double> column = std::span(columns_).subspan(z(j) * n, n),
                              force = std::span(forces_).subspan(z(j) * n, n),
                              lambda = std::span(multipliers_).subspan(z(j) * m, m);
      std::fill(given_.begin(), given_.end(), 0.0);
      add(scene, sites_[z(p.site)], p.basis.col(k), given_);
      scene.solver.inverse_mass(given_, column);
      mobility_[z(j)] = h * p.basis.col(k).dot(twist(scene, sites_[z(p.site)], column));
      if (mobility_[z(j)] > 0) problem_.weight(j) = mobility_[z(j)];
      multiply(scene.assembly.instant, column, row_);
      for (double& r : row_) r = -r;
      scene.solver.apply(row_, lambda, force, dv_);
      ++report.back_solves;
      for (std::size_t i = 0; i < n; ++i) {
        column[i] += dv_[i];
        force[i] += given_[i];
      }
      for (const int o : posed_) {
        const Piece& other = pieces_[z(o)];
        if (other.contact < 0 && !other.answers) continue;
        const Vector6d u = twist(scene, sites_[z(other.site)], column);
        for (int i = 0; i < other.dim; ++i) problem_.W(other.start + i, j) = h * other.basis.col(i).dot(u);
      }
      if (implicit_)
        for (std::size_t s = 0; s < sites_.size(); ++s) {
          const Vector6d N = reaction(scene, sites_[s], lambda);
          for (int i = 0; i < 6; ++i) problem_.K(static_cast<int>(s), i, j) = N[i];
        }
    }
  for (const int index : posed_) {
    const Piece& p = pieces_[z(index)];
    auto& block = problem_.blocks.emplace_back();
    block.start = p.start;
    block.dim = p.dim;
    block.site = p.site;
    block.implicit = p.what->reads == Reads::actual;
    block.smooth = p.contact < 0;
    block.answers = p.answers;
    block.share = p.share;
    if (p.answers) {
      std::copy_n(p.slip.data(), 6, block.start_slip.begin());
      for (int k = 0; k < p.dim; ++k) problem_.slip0(p.start + k) = end_slip(scene, p, k, vdot, step);
    }
    if (block.smooth) continue;
    const Grip how = holds_[z(p.contact)].how;
    const double speed = p.slip.norm();
    block.speed = speed;
    block.mobility = 1e-300;
    for (int k = 0; k < p.dim; ++k) block.mobility = std::max(block.mobility, mobility_[z(p.start + k)]);
    block.forced = how == Grip::sticks;
    const bool at_end = how == Grip::slips && step > 0 && !(holds_[z(p.contact)].sense.squaredNorm() > 0);
    block.at_rest = step > 0 ? speed <= rest_speed && !at_end : true;
    block.given = (how == Grip::slips && !at_end) || (how == Grip::automatic && step == 0 && speed > rest_speed);
    if (block.given) std::copy_n(sense_of(p).data(), 6, block.sense.begin());
    if (step > 0) std::copy_n(p.slip.data(), 6, block.start_slip.begin());
    for (int k = 0; k < p.dim; ++k) problem_.slip0(p.start + k) = end_slip(scene, p, k, vdot, step);
    if (!at_end && rounded_rest(scene, p, vdot)) block.at_rest = true;
  }
}

/// Redundant contacts that are held share as they come to be swept. Where one so passes its bound they share anew:
/// within their bounds if all together can hold, else by the share of the limit, which passes all bounds in one moment,
/// for that to be found.
void Nonideal::share_anew(Answers& answers) {
  bool passed = false;
  for (std::size_t i = 0; i < problem_.blocks.size(); ++i) {
    const auto& block = problem_.blocks[i];
    if (!block.forced) continue;
    double friction = 0;
    for (int k = 0; k < block.dim; ++k) friction += std::pow(z_[z(block.start + k)], 2);
    const double bound = answers.holding(static_cast<int>(i),
                                         block.implicit ? problem_.thrust(block.site, z_) : problem_.ideal(block.site));
    passed = passed || std::sqrt(friction) > (1 + 1e-12) * bound;
  }
  if (!passed) return;
  change_ = z_;
  if (problem_.share(answers, z_, true) &&  // and what slides beside it answers
      !problem_.solve(answers, z_, true, detail::FrictionProblem::Choice::continuous).found)
    z_ = change_;
}

void Nonideal::solve(const Scene& scene) {
  Answers answers(*this, scene);
  z_.assign(z(unknowns_), 0.0);
  // What was found last is where to begin: the branch of the actual thrust, and how redundant contacts share.
  const bool known = z_known_.size() == z(places_);
  if (known)
    for (const int i : posed_)
      std::copy_n(&z_known_[z(pieces_[z(i)].place)], pieces_[z(i)].dim, &z_[z(pieces_[z(i)].start)]);
  auto choice = detail::FrictionProblem::Choice::continuous;
  for (const Piece& p : pieces_)
    if (p.what->reads == Reads::actual && p.what->branch != Branch::continuous)
      choice = p.what->branch == Branch::smallest ? detail::FrictionProblem::Choice::smallest
                                                  : detail::FrictionProblem::Choice::largest;
  auto answer = problem_.solve(answers, z_, known, choice);
  report.gain = answer.gain;
  report.residual = answer.residual;
  report.solutions = implicit_ ? answer.solutions : 0;
  if (!answer.found && implicit_) {
    report.fell_back = true;
    const Law::Term* reader = nullptr;
    const Site* where = nullptr;
    for (const Piece& p : pieces_)
      if (p.what->reads == Reads::actual && reader == nullptr) reader = p.what, where = &sites_[z(p.site)];
    report.trouble =
        name_of(scene, *where, *reader) +
        (answer.gain < 0.9 ? ": no actual thrust was found that satisfies it (coupling gain "
                           : ": no actual thrust satisfies it (coupling gain ") +
        text(answer.gain) +
        (answer.gain < 0.9 ? "; the law is discontinuous, or masses are too far apart for the digits there "
                             "are)"
                           : "; the Painlevé case)") +
        "; the ideal thrust was used";
    for (auto& block : problem_.blocks) block.implicit = false;
    z_known_.clear();
    std::fill(z_.begin(), z_.end(), 0.0);
    answer = problem_.solve(answers, z_, false, choice);
    report.residual = answer.residual;
  } else {
    share_anew(answers);
    remember();
    report.branch = choice == detail::FrictionProblem::Choice::smallest  ? Branch::smallest
                    : choice == detail::FrictionProblem::Choice::largest ? Branch::largest
                                                                         : Branch::continuous;
    if (answer.solutions > 1)
      report.trouble = "several actual thrusts satisfy the laws (coupling gain " + std::to_string(answer.gain) +
                       "); taken is the one " +
                       (report.branch == Branch::smallest  ? "of least magnitude"
                        : report.branch == Branch::largest ? "of greatest magnitude"
                                                           : "nearest to the last") +
                       " (Branch)";
    if (step > 0 && answer.gain >= 1 && answer.solutions == 1) look_for_jamming(scene, answers);
  }
  if (answer.worst < 0 || !report.trouble.empty()) return;
  if (const Piece& p = pieces_[z(posed_[z(answer.worst)])]; answer.residual > 1e-3 && p.answers) {
    // Slips at the level of their rounding make forces that are rounding too.
    if (answer.worst_size <= 1e-9 * sites_[z(p.site)].ideal.head<3>().norm()) return;
    report.trouble = name_of(scene, sites_[z(p.site)], *p.what);
    if (jumps_at_rest(scene, p,
                      problem_.blocks[z(answer.worst)].implicit ? problem_.thrust(p.site, z_) : problem_.ideal(p.site)))
      report.trouble +=
          ": jumps where its slip changes sign, and no slip at the end of the step satisfies it; it is held at the "
          "jump. coulomb() knows what rest is, regularized_coulomb() is smooth";
    else if (const std::string jump = jump_at_end(scene, p); !jump.empty())
      report.trouble += jump;
    else
      report.trouble += ": met at the end of the step to " + text(answer.residual) +
                        " of the largest effort only, beside the other laws on these bodies. A shorter step helps";
  }
}

/// The same about the slip at the step's end, in words.
std::string Nonideal::jump_at_end(const Scene& scene, const Piece& p) {
  const Site& site = sites_[z(p.site)];
  const detail::Six N = problem_.blocks[z(p.block)].implicit ? problem_.thrust(p.site, z_) : problem_.ideal(p.site);
  Vector6d end = Vector6d::Zero();
  for (int k = 0; k < p.dim; ++k) end[k] = (1 - p.share) * p.slip[k] + p.share * problem_.slip(p.start + k, z_);
  const auto at = [&](double part) {
    Vector6d u;
    u << site.relative, site.relative_spin;
    u += p.basis.leftCols(p.dim) * (part * end - p.slip).head(p.dim);
    return Asked{u.head<3>(), u.tail<3>(), Eigen::Map<const Vector6d>(N.data())};
  };
  return p.memory >= 0 ? std::string() : jump_between(scene, site, *p.what, at(0.9), at(1.1));
}

/// Where the next solution begins: at what was found for every piece.
void Nonideal::remember() {
  z_known_.resize(z(places_));
  for (const Piece& p : pieces_)
    std::copy_n(p.block < 0 ? p.slides.data() : &z_[z(p.start)], p.dim, &z_known_[z(p.place)]);
}

/// What slid at the step's start and rests at its end may have had no choice: as it slides no thrust satisfies its law
/// (Painlevé), and it stops as by an impact without collision.
void Nonideal::look_for_jamming(const Scene& scene, Answers& answers) {
  const auto jams = [&](const Piece& p) {
    const auto& block = problem_.blocks[z(p.block)];
    return p.contact >= 0 && block.implicit && !block.forced && !block.at_rest &&
           block.mode == detail::FrictionProblem::Mode::sticks;
  };
  const auto one = std::find_if(posed_.begin(), posed_.end(), [&](int i) { return jams(pieces_[z(i)]); });
  if (one == posed_.end()) return;
  const std::vector<detail::FrictionProblem::Block> blocks = problem_.blocks;  // what is rare may allocate
  std::vector<double> slides(z_.size(), 0.0);
  for (const int i : posed_) {
    const Piece& p = pieces_[z(i)];
    auto& block = problem_.blocks[z(p.block)];
    if (!jams(p)) continue;
    std::copy_n(sense_of(p).data(), 6, block.sense.begin());
    block.given = true;
  }
  if (!problem_.solve(answers, slides, false, detail::FrictionProblem::Choice::continuous).found)
    report.trouble = name_of(scene, sites_[z(pieces_[z(*one)].site)], *pieces_[z(*one)].what) +
                     ": no actual thrust lets it slide (coupling gain " + text(report.gain) +
                     "; the Painlevé case); it stops within the step, as by an impact";
  problem_.blocks = blocks;
}

/// Whether a law's effort jumps where the slip goes through rest in some direction. What is smooth changes in
/// proportion over so little, however stiff it is.
bool Nonideal::jumps_at_rest(const Scene& scene, const Piece& p, const detail::Six& N) const {
  const Eigen::Map<const Vector6d> thrust(N.data());
  for (int k = 0; k < p.dim; ++k) {
    const auto across = [&](double slip) {
      const Effort a = p.what->effort(thrust_at_slip(scene, p, thrust, slip * Vector6d::Unit(k)));
      const Effort b = p.what->effort(thrust_at_slip(scene, p, thrust, -slip * Vector6d::Unit(k)));
      return std::hypot((a.force - b.force).norm(), (a.moment - b.moment).norm());
    };
    constexpr double hardly = 1e-12;  // [m/s]
    if (across(0) > 0) return false;  // no function of its arguments
    const double change = across(hardly);
    if (change > 0 && change > 0.5 * across(1000 * hardly)) return true;
  }
  return false;
}

// What was found, contact by contact, and whether laws were what they say they are.
void Nonideal::conclude(const Scene& scene, std::span<const double> vdot) {
  Answers answers(*this, scene);
  for (const Piece& p : pieces_) {
    const Site& site = sites_[z(p.site)];
    const detail::FrictionProblem::Block* const block = p.block < 0 ? nullptr : &problem_.blocks[z(p.block)];
    detail::Six N{};
    std::copy_n(site.ideal.data(), 6, N.begin());
    const bool actual = block != nullptr && block->implicit;
    if (actual) N = problem_.thrust(p.site, z_);
    const Vector6d e = effort_of(p);
    LawEffort& own = efforts[z(p.effort)];
    own.reads = actual ? Reads::actual : Reads::ideal;
    own.thrust = Vector3d(N[0], N[1], N[2]);
    own.thrust_moment = Vector3d(N[3], N[4], N[5]);
    if (p.contact < 0) {
      const Eigen::Map<const Vector6d> thrust(N.data());
      Thrust n;
      if (p.answers) {
        Vector6d u = Vector6d::Zero();
        for (int k = 0; k < p.dim; ++k) u[k] = (1 - p.share) * p.slip[k] + p.share * problem_.slip(p.start + k, z_);
        n = thrust_at_slip(scene, p, thrust, u);
        if (p.memory >= 0) {  // it lives through the step with the slip that it answers to
          Memory& m = memories_[z(p.memory)];
          m.thrust = n;
          m.thrust.memory = m.value;
        }
        // The law itself: what was found is a little beside it where no slip satisfies it.
        check(scene, site, *p.what, p.what->effort(n), n);
        continue;
      } else {
        n = thrust_of(scene, site, *p.what, thrust);
        if (p.memory >= 0) {  // it was the ideal thrust so far
          Memory& m = memories_[z(p.memory)];
          n.memory = m.value;
          m.thrust = n;
          n.memory = m.next;
          note_memory(p.memory, n);
        }
      }
      check(scene, site, *p.what, {e.head<3>(), e.tail<3>()}, n);
      continue;
    }
    Contact& contact = contacts[z(p.contact)];
    const bool answered = block != nullptr && !block->given;
    contact.sticks = answered && block->mode == detail::FrictionProblem::Mode::sticks;
    contact.bound = answers.holding(p, N);
    double speed = p.slip.norm();
    if (answered) {  // friction then is that of the slip at the end
      speed = 0;
      for (int k = 0; k < p.dim; ++k) speed += std::pow(problem_.slip(p.start + k, z_), 2);
      speed = std::sqrt(speed);
    }
    contact.kinetic = answers.sliding(p, N, std::max(speed, 1e-300));
    if (!std::isfinite(contact.bound) || !std::isfinite(contact.kinetic) || !e.allFinite())
      throw std::runtime_error(name_of(scene, site, *p.what) + " returned a bound that is not finite");
    if (contact.bound < 0 || contact.kinetic < 0)
      throw std::runtime_error(name_of(scene, site, *p.what) + " is dry friction but gives power: its bound is " +
                               std::to_string(std::min(contact.bound, contact.kinetic)));
    contact.gaining.setZero();
    if (contact.sticks) {
      ++report.sticking;
    } else {
      for (int k = 0; k < p.dim; ++k) contact.gaining += end_slip(scene, p, k, vdot, 0) * p.axes.col(k);
    }
  }
  report.contacts = static_cast<int>(contacts.size());
  if (step == 0) measure_turning(scene);
}

Vector6d Nonideal::effort_of(const Piece& p) const {
  Vector6d e = Vector6d::Zero();
  for (int k = 0; k < p.dim; ++k) e += (p.block < 0 ? p.slides[k] : z_[z(p.start + k)]) * p.basis.col(k);
  return e;
}

void Nonideal::book() {
  for (const Piece& p : pieces_) {
    const Vector6d e = effort_of(p);
    efforts[z(p.effort)].force = e.head<3>() + p.across.head<3>();
    efforts[z(p.effort)].moment = e.tail<3>() + p.across.tail<3>();
    if (p.contact < 0) continue;
    Contact& contact = contacts[z(p.contact)];
    contact.effort = e;
    if (p.what->rubs == Rubs::both)
      contact.friction = std::hypot(e.head<3>().norm(), e.tail<3>().norm() / p.what->arm);
    else
      contact.friction = e.norm();
  }
  // The stages of a method may see a law jump that looks the same at the end of every step.
  for (std::size_t i = 0; step == 0 && i < efforts.size() && histories_.size() == efforts.size(); ++i) {
    History& h = histories_[i];
    Vector6d now;
    now << efforts[i].force, efforts[i].moment;
    h.reversed = h.reversed || (efforts[i].contact < 0 && now.dot(h.seen) < 0 && now.norm() > 0.1 * h.largest);
    h.seen = now;
  }
  auto at = sites_.begin();
  for (LawEffort& e : efforts) {
    while (at->constraint != e.constraint) ++at;
    e.power = e.force.dot(at->relative) + e.moment.dot(at->relative_spin);
  }
  prescribed.clear();
  for (const Site& site : sites_)
    prescribed.push_back({site.constraint, site.effort.head<3>(), site.point, site.effort.tail<3>()});
}

std::string Nonideal::apply(const Scene& scene, std::span<double> vdot, std::span<double> nonideal,
                            std::span<double> induced) {
  report.contacts = report.sticking = report.back_solves = report.solutions = 0;
  report.residual = report.gain = report.rate = 0;
  report.stiffest = -1;
  report.branch = Branch::continuous;
  report.fell_back = false;
  report.trouble.clear();
  problem_.blocks.clear();
  prescribed.clear();
  at_fault_ = nullptr;
  try {
    gather(scene);
    if (sites_.empty()) return {};
    for (auto* x : {&given_, &dv_, &force_}) x->resize(vdot.size());  // not before there is a law: mostly there is none
    for (auto* x : {&row_, &lambda_}) x->resize(induced.size());
    kept_.assign(vdot.begin(), vdot.end());
    kept_nonideal_.assign(nonideal.begin(), nonideal.end());
    kept_induced_.assign(induced.begin(), induced.end());
    mark_sliding(scene);
    slide(scene, vdot, nonideal, induced);
    if (!rub(scene, vdot, nonideal, induced)) {  // friction beside it has turned what slid: all of them answer together
      for (Piece& p : pieces_) p.block = 0;
      forget_response(scene, vdot, nonideal, induced);
      slide(scene, vdot, nonideal, induced);
      rub(scene, vdot, nonideal, induced);
    }
    for (const Piece& p : pieces_) sites_[z(p.site)].effort += effort_of(p);
    conclude(scene, vdot);
    for (const Site& site : sites_)
      if (!site.effort.allFinite()) return names_on(scene, site) + " gave a force that is not finite";
    if (std::string why = too_large(scene, nonideal); !why.empty()) return why;
    book();
    look_for_jumps(scene);
    if (report.trouble.empty()) report.trouble = flaw_;
    if (histories_.size() == efforts.size() && report.trouble.empty())
      for (std::size_t i = 0; i < efforts.size(); ++i)
        if (const int of16 = std::popcount(histories_[i].reversals & 0xffffu);
            of16 >= 9 || histories_[i].overshoots >= 2) {
          const LawEffort& e = efforts[i];
          const ConstraintId id = scene.assembly.block.constraints[z(e.constraint)];
          const Law::Term& term = laws(scene.system, id)[z(e.law)].terms()[z(e.term)];
          const auto site =
              std::find_if(sites_.begin(), sites_.end(), [&](const Site& x) { return x.constraint == e.constraint; });
          // The same words in every step: how often is LawWork::switches_per_second().
          report.trouble = name_of(scene, *site, term) + ": chatters, its force reverses " +
                           (of16 >= 9 ? "in most steps" : "with its slip, by more than stops it in a step") +
                           "; it jumps, or is too strong for the step. coulomb() knows what rest is, "
                           "regularized_coulomb() is smooth";
          break;
        }
  } catch (const std::exception& e) {
    // What we throw names the law; what a law throws does not.
    const std::string what = e.what();
    const std::string name = at_fault_ == nullptr ? "a law" : name_of(scene, *at_fault_site_, *at_fault_);
    return what.rfind(name, 0) == 0 ? what : name + " threw: " + what;
  } catch (...) {
    return (at_fault_ == nullptr ? std::string("a law") : name_of(scene, *at_fault_site_, *at_fault_)) + " threw";
  }
  return {};
}

std::string beyond_all_bounds(double force, double acceleration) {
  return " gave a force of " + text(force) + ", which is beyond all bounds: it makes " + text(acceleration) + " m/s²";
}

/// Forces that are finite and yet no forces: a host in single precision has no number for what they do.
std::string Nonideal::too_large(const Scene& scene, std::span<const double> nonideal) {
  scene.solver.inverse_mass(nonideal, dv_);
  const double most = largest(dv_) * std::max(step, shortest);
  if (most <= fastest_by_laws) return {};
  std::size_t worst = 0;
  double size = -1;
  for (std::size_t i = 0; i < sites_.size(); ++i)
    if (const double x = sites_[i].effort.cwiseAbs().maxCoeff(); !(x <= size)) size = x, worst = i;
  return names_on(scene, sites_[worst]) + beyond_all_bounds(size, largest(dv_));
}

double Nonideal::hold(const Scene& scene, std::span<double> v, std::span<double> vdot, std::span<double> nonideal,
                      std::span<double> induced) {
  if (problem_.blocks.empty() || (step == 0 && report.sticking == 0)) return 0;
  // Rubbing in the middle of the step, where a velocity constraint of a step is met (T12). One state for all blocks: a
  // world of thousands has no room for one of the world in each.
  thread_local State middle;
  const Block& block = scene.assembly.block;
  for (const Site& site : sites_) {
    const auto bodies = scene.system.constraint(block.constraints[z(site.constraint)]).bodies();
    copy_bodies(scene.state, bodies, middle);
    for (const BodyId id : bodies) {
      BodyState& body = middle[id];
      if (const int slot = block.slot(id); slot >= 0) {
        const Vector6d u = twist_of(block, z(slot), v);
        body.v = u.head<3>();
        body.w = u.tail<3>();
      } else if (scene.system.kind(id) != BodyKind::driven) {
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
  work_.assign(z(unknowns_), 0.0);
  double most = 0;
  for (const int i : posed_) {
    const Piece& p = pieces_[z(i)];
    if (p.contact < 0 && !p.answers) continue;
    const Site& site = sites_[z(p.site)];
    const Vector3d at = scene.system.constraint(block.constraints[z(site.constraint)]).acting_point(0, middle);
    Vector6d rubs;
    rubs << velocity(site.first, at) - velocity(site.second, at),
        middle[site.first].w - (site.second.index < 0 ? Vector3d(Vector3d::Zero()) : middle[site.second].w);
    if (p.what->belt && p.contact >= 0)
      rubs.head<3>() += p.what->belt_slip(thrust_of(scene, site, *p.what, site.ideal));
    const bool sticks = p.contact >= 0 && contacts[z(p.contact)].sticks;
    for (int k = 0; k < p.dim; ++k) {
      work_[z(p.start + k)] = p.basis.col(k).dot(rubs);
      if (sticks) most = std::max(most, std::fabs(work_[z(p.start + k)]));
    }
  }
  change_.assign(z(unknowns_), 0.0);
  const std::size_t n = v.size(), m = induced.size();
  if (step == 0) {  // an impulse, no part of the instant's force
    if (!(most > 0)) return 0;
    problem_.correction(work_, change_);
    for (std::size_t k = 0; k < change_.size(); ++k)
      for (std::size_t j = 0; j < n; ++j) v[j] += change_[k] * columns_[k * n + j];
    return most;
  }

  // What ends the step on the constraints has moved the slips: every contact answers again, within its bound.
  for (const int index : posed_) {
    const Piece& p = pieces_[z(index)];
    for (int k = 0; k < p.dim && (p.contact >= 0 || p.answers); ++k) {
      const int i = p.start + k;
      problem_.slip0(i) += work_[z(i)] - problem_.slip(i, z_);
    }
  }
  change_ = z_;
  Answers answers(*this, scene);
  try {
    if (!problem_.solve(answers, z_, true, detail::FrictionProblem::Choice::continuous).found) z_ = change_;
    for (std::size_t k = 0; k < change_.size(); ++k) change_[k] = z_[k] - change_[k];
    remember();
    most = 0;
    for (std::size_t k = 0; k < change_.size(); ++k) {
      const double d = change_[k];
      if (d == 0) continue;
      for (std::size_t j = 0; j < n; ++j) {
        v[j] += step * d * columns_[k * n + j];
        most = std::max(most, std::fabs(step * d * columns_[k * n + j]));
        vdot[j] += d * columns_[k * n + j];
        nonideal[j] += d * forces_[k * n + j];
      }
      for (std::size_t r = 0; r < m; ++r) induced[r] += d * multipliers_[k * m + r];
    }
    std::fill(given_.begin(), given_.end(), 0.0);
    for (const int i : posed_) {
      const Piece& p = pieces_[z(i)];
      Vector6d e = Vector6d::Zero();
      for (int k = 0; k < p.dim; ++k) e += change_[z(p.start + k)] * p.basis.col(k);
      sites_[z(p.site)].effort += e;
      add(scene, sites_[z(p.site)], e, given_);
    }
    for (std::size_t j = 0; j < n; ++j) scene.assembly.instant.c[j] += given_[j];
    report.sticking = 0;
    conclude(scene, vdot);
    book();
  } catch (...) {
    return 0;  // a law that has just answered and now does not: the answer it gave stays
  }
  return most;
}

std::vector<std::string> Nonideal::idle(const System& system, const Block& block) const {
  std::vector<std::string> out;
  for (const Site& site : sites_) {
    const ConstraintId id = block.constraints[z(site.constraint)];
    for (const Law& law : laws(system, id))
      for (const Law::Term& term : law.terms()) {
        bool slides = site.slips == 0, spins = site.spins == 0;
        if (term.holding) {
          slides = slides && (term.rubs == Rubs::slip || term.rubs == Rubs::both);
          spins = spins && term.rubs == Rubs::spin;  // rolling needs a thrust to roll across, which may come
          if (term.rubs == Rubs::both && site.spins > 0) slides = false;
        } else {  // smooth: one that only takes energy does so where something moves
          slides = slides && term.dissipative && (!term.turns || spins);
          spins = slides && term.turns;
        }
        if (slides || spins)
          out.push_back(name_of(system, block, site, term) + ": the constraint leaves no direction to " +
                        (spins ? "turn about" : "slide in") + ", so it does nothing");
      }
  }
  return out;
}

void Nonideal::accept(double dt) {
  for (Memory& m : memories_)
    if (m.what != nullptr) {
      m.value = m.given ? m.next : m.what->advance(m.thrust, dt);
      m.given = false;
    }
  memory_t_ += dt;
  if (histories_.size() != efforts.size()) histories_.assign(efforts.size(), History{});
  auto at = sites_.begin();
  for (std::size_t i = 0; i < efforts.size(); ++i) {
    History& h = histories_[i];
    const LawEffort& e = efforts[i];
    while (at->constraint != e.constraint) ++at;
    const Asked asked = asked_of(*at, e);
    Vector6d now;
    now << e.force, e.moment;
    h.overshoots += overshoots(*at, h, asked, now, static_cast<int>(i), dt);
    h.asked = asked;
    h.value = values_[i];
    const double size = now.norm(), before = h.last.norm();
    h.largest = std::max(h.largest, size);
    const bool stuck = e.contact >= 0 && contacts[z(e.contact)].sticks;
    // What rests reverses with its rounding, and dry friction that holds with what it holds.
    const bool rounding = size <= 1e-9 * std::max(e.thrust.norm(), e.thrust_moment.norm());
    const bool reverses =
        h.known && (stuck != h.stuck || (!rounding && (h.reversed || (!stuck && !h.stuck && now.dot(h.last) < 0 &&
                                                                      std::max(size, before) > 0.1 * h.largest))));
    h.known = true;
    h.reversed = false;
    h.reversals = (h.reversals << 1) | static_cast<unsigned>(reverses);
    h.switches += reverses;
    h.last = now;
    h.stuck = stuck;
  }
}

void Nonideal::grip(int contact, Grip how, const Vector6d& sense) {
  if (contact < 0 || z(contact) >= holds_.size()) return;
  holds_[z(contact)] = {how, sense};
}

void Nonideal::release_grips() { std::fill(holds_.begin(), holds_.end(), Hold{}); }

}  // namespace linchpin
