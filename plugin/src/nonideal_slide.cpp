// Who slides, and keeps to it through the step: friction that is known before anything is solved (T5).
#include "columns.h"
#include "nonideal_answers.h"

#include <algorithm>
#include <cmath>

namespace linchpin {

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
/// with the accelerations vdot, its own friction apart. At the start of a step a contact that stuck at the end of the
/// last one may have all of that: steps bring it to rest in their middle.
bool Nonideal::rounded_rest(const Scene& scene, const Piece& p, std::span<const double> vdot) const {
  const double length = step > 0 ? step : span;
  double gain = 0;
  for (int k = 0; k < p.dim && length > 0; ++k) gain += std::pow(end_slip(scene, p, k, vdot, length) - p.slip[k], 2);
  const bool stuck = step == 0 && z(p.effort) < stuck_before_.size() && stuck_before_[z(p.effort)];
  return length > 0 && p.slip.norm() <= (stuck ? 1 : 1e-3) * std::sqrt(gain);
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

/// Finds the terms whose effort is known once their thrust is (T5): smooth ones that are weak for the step, and
/// contacts that slide. Within a step that the latter is only right far from rest, and where friction that turns with
/// the slip is weak for the step: it damps across the slip by r/|slip|, and an explicit step is unstable where that is
/// much for the mass (four feet of a table that slides slowly begin to yaw). The others are posed.
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
    p.block = p.contact >= 0 || p.answers ? 0 : -1;
    if (p.contact < 0) continue;
    const Grip how = holds_[z(p.contact)].how;
    const double speed = p.slip.norm();
    if (how == Grip::sticks || (speed <= rest_speed && (how == Grip::automatic || step > 0)) ||
        rounded_rest(scene, p, kept_))
      continue;
    detail::Six N{};
    std::copy_n(sites_[z(p.site)].ideal.data(), 6, N.begin());
    const double friction = answers.sliding(p, N, speed);
    p.known = -friction * sense_of(p);
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

/// All that is known: smooth laws that are simply added, and the friction of what slides. One back-solve, and one more
/// each time that a contact so comes near rest or turns and is posed instead, or that what is known follows its thrust.
void Nonideal::slide(const Scene& scene, std::span<double> vdot, std::span<double> nonideal,
                     std::span<double> induced) {
  for (Following so_far;;) {
    std::fill(given_.begin(), given_.end(), 0.0);
    for (const Site& site : sites_) add(scene, site, site.effort, given_);
    for (const Piece& p : pieces_) {
      if (p.block < 0) add(scene, sites_[z(p.site)], p.basis * p.known, given_);
      if (p.answers) add(scene, sites_[z(p.site)], p.across, given_);
    }
    if (largest(given_) > 0) respond(scene, given_, vdot, nonideal, induced);
    bool stays = true;
    if (step > 0)
      for (Piece& p : pieces_)
        if (p.block < 0 && p.contact >= 0 && !keeps_sliding(scene, p, vdot, 0.5)) p.block = 0, stays = false;
    if (stays) {
      if (!reads_actual_) return;
      read_thrusts(scene, induced);
      if (follow_thrusts(scene, so_far)) return;
    }
    forget_response(scene, vdot, nonideal, induced);
  }
}

void Nonideal::read_thrusts(const Scene& scene, std::span<const double> induced) {
  for (Site& site : sites_) site.actual = site.ideal + reaction(scene, site, induced);
}

/// Whether what is known agrees with the thrusts that are there with it (T9). What does not is made to follow them, as
/// long as that takes fewer back-solves than its unit responses; else it is posed. It is also posed beside what is
/// posed already, since that calls up thrusts too.
bool Nonideal::follow_thrusts(const Scene& scene, Following& so_far) {
  constexpr double rounding = 1e-13, stalled = 1e-11;
  Answers answers(*this, scene);
  double change = 0;
  int unknowns = 0;
  bool posed = false;
  for (Piece& p : pieces_) {
    posed = posed || p.block >= 0;
    if (p.block >= 0 || p.what->reads != Reads::actual) continue;
    p.next = answers.known(p, sites_[z(p.site)].actual);
    const double off = (p.next - p.known).norm(), size = std::max(p.next.norm(), p.known.norm());
    if (!(off > rounding * size)) continue;
    unknowns += p.dim;
    change = std::max(change, off / size);
  }
  if (unknowns == 0) return true;
  const double rate = so_far.rounds > 0 ? change / so_far.change : change;
  if (so_far.rounds > 0 && change <= stalled && rate > 0.5) return true;  // round-off of the thrusts
  report.gain = rate;
  // In a step friction that changes much is judged anew for its length.
  const bool follows = !posed && rate < 0.9 && (step == 0 || change < 0.1) &&
                       so_far.rounds + std::log(rounding / change) / std::log(rate) < unknowns;
  for (Piece& p : pieces_) {
    if (p.block >= 0 || p.what->reads != Reads::actual || p.next == p.known) continue;
    p.known = p.next;
    if (!follows) p.block = 0, p.implicit = true;
  }
  so_far = {so_far.rounds + 1, change};
  return false;
}

/// Poses what was solved for another thrust than is there now that everything has answered. @return whether there is
/// such a term
bool Nonideal::pose_what_changed(const Scene& scene, std::span<const double> induced) {
  if (!reads_actual_ || posed_.empty()) return false;
  read_thrusts(scene, induced);
  Answers answers(*this, scene);
  bool changed = false;
  for (Piece& p : pieces_) {
    if (p.what->reads != Reads::actual) continue;
    changed = stiffens(scene, p) || changed;
    if (p.block >= 0 && p.implicit) continue;
    const Site& site = sites_[z(p.site)];
    Vector6d was, is;
    if (p.block < 0) {
      was = p.known;
      is = answers.known(p, site.actual);
    } else {
      was = answers.answer(p, site.ideal);
      is = answers.answer(p, site.actual);
    }
    if (!((is - was).norm() > 1e-12 * std::max(is.norm(), was.norm()))) continue;
    p.implicit = changed = true;
    if (p.block < 0)
      p.block = 0;
    else
      set_basis(p, was);
  }
  return changed;
}

}  // namespace linchpin
