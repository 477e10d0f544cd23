#include "host/energy_budget.h"

#include "host/body_vectors.h"
#include "host/step_acceptance.h"
#include "host/tuning.h"

#include <Eigen/Cholesky>

#include <algorithm>
#include <cmath>

namespace linchpin::host {

bool bounds_energy(const Context& c, const Island& b) {
  return c.options.mode == Mode::exact && c.options.drift_correction && b.step.rows != HostRows::none &&
         b.step.start_gap != StartGap::frames_moved && b.stiffness.empty();
}

double energy_allowance(const Context& c, const Island& b) {
  return energy_floor(c, b) + tuning::allowed_gain * inner_start_energy(c, b);
}

double limit_budget(const Context& c, const Island& b) {
  return std::max(energy_floor(c, b) + tuning::allowed_limit_gain * inner_start_energy(c, b), b.rows.limit_return);
}

// Impulses p that bring velocities J v, to which forces add J x, to those that rows ask for do the work
// ½ pᵀ(J v + target). Impulses that are solved to the end have pᵀ J v ≤ pᵀ target − pᵀ J x. Their work is then no more
// than pᵀ target − ½ pᵀ J x. The last term is at most what the energies of x and of the motion allow together.
double passive_work(const Context& c, const Island& b) {
  const PassiveWork& passive = b.rows.passive_work;
  if (!(passive.work > 0)) return passive.work;
  const double asked = std::min(passive.contact_target_work, passive.max_contact_work) +
                       std::min(passive.limit_target_work, b.rows.budget[PassiveRow::limit]);
  return std::min(passive.work, asked + 2 * std::sqrt(energy_floor(c, b) * (start_energy(c, b) + asked)));
}

void reset_energy(Island& b) {
  b.rows.energy_given = 0;
  b.rows.damping.assign(b.x.v.size(), 0.0);
}

bool gains_far_too_much(const Island& b, double gain, double kinetic, double allowed) {
  return b.rows.energy_given + gain - std::max(b.rows.solved_work, 0.0) > tuning::far_gain * allowed + kinetic;
}

void count_damping(Island& b) {
  const bool dropped = std::any_of(b.rows.passive.begin(), b.rows.passive.end(),
                                   [](const PassiveRow& r) { return r.state == PassiveRow::State::dropped; });
  if (dropped || largest(b.rows.damping) > 0) ++b.stats.damped_steps;
}

namespace {

/// Removes energy from velocities and leaves the joints closed: all velocities are scaled towards a common motion of
/// the island. Where no constraint joins the island to other bodies, that is the motion of the rigid body with the same
/// momenta. Where a kinematic body is joined to it, it is the motion of that body. Elsewhere it is rest: an island on
/// the ground is slowed as a whole.
class EnergyDamper {
 public:
  EnergyDamper(const Context& c, Island& b, const State& at, std::span<double> v) : c_(c), b_(b), at_(at), v_(v) {
    if (is_free())
      find_rigid_motion();
    else
      find_kinematic_motion();
  }

  /// @return the energy that it removed [J]
  double remove(double energy) {
    double removed = 0;
    for (const bool about_common : {true, false}) {
      if (!about_common && !(is_free() && b_.rows.pushes_at_fixed)) break;
      const double there = kinetic_energy(c_.system, b_.layout(), at_, v_, about_common ? common_ : RigidMotion{}),
                   part = std::min(energy - removed, there);
      if (!(part > 0) || !std::isfinite(there)) continue;
      scale(std::sqrt(std::max(0.0, 1 - part / there)), about_common);
      removed += part;
    }
    return removed;
  }

 private:
  bool is_free() const { return b_.topology.boundary.empty(); }

  void find_rigid_motion() {
    const IslandLayout& layout = b_.layout();
    double mass = 0;
    for (const BodyId id : layout.bodies) mass += c_.system.mass(id);
    for (std::size_t slot = 0; slot < b_.slots(); ++slot) {
      const double m = c_.system.mass(layout.bodies[slot]) / mass;
      common_.centre += m * at_[layout.bodies[slot]].p;
      common_.linear += m * head(v_, layout.column[slot]);
    }
    Vector3d L(0, 0, 0);
    Matrix3d I = Matrix3d::Zero();
    for (std::size_t slot = 0; slot < b_.slots(); ++slot) {
      const BodyId id = layout.bodies[slot];
      const int column = layout.column[slot];
      const Vector3d r = at_[id].p - common_.centre;
      L += c_.system.mass(id) * r.cross(head(v_, column) - common_.linear);
      I += c_.system.mass(id) * (r.squaredNorm() * Matrix3d::Identity() - r * r.transpose());
      if (!turns(layout, slot)) continue;
      const Matrix3d own = c_.system.world_inertia(id, at_[id].q);
      L += own * head(v_, column + 3);
      I += own;
    }
    const Vector3d found = I.ldlt().solve(L);
    if (found.allFinite()) common_.angular = found;
  }

  void find_kinematic_motion() {
    for (const BodyId id : b_.topology.boundary)
      if (c_.system.kind(id) == BodyKind::kinematic) {
        common_.centre = at_[id].p;
        common_.linear = at_[id].v;
        common_.angular = at_[id].w;
        break;
      }
  }

  void scale(double by, bool about_common) {
    for (std::size_t slot = 0; slot < b_.slots(); ++slot) {
      const BodyId id = b_.layout().bodies[slot];
      const int column = b_.layout().column[slot];
      const RigidMotion motion = about_common ? common_ : RigidMotion{};
      const Vector3d common_v = motion.at(at_[id].p), v0 = head(v_, column), change = (by - 1) * (v0 - common_v);
      put(v_, column, v0 + change);
      add(b_.rows.damping, column, c_.system.mass(id) * change);
      if (!turns(b_.layout(), slot)) continue;
      const Vector3d w0 = head(v_, column + 3), turn = (by - 1) * (w0 - motion.angular);
      put(v_, column + 3, w0 + turn);
      add(b_.rows.damping, column + 3, c_.system.world_inertia(id, at_[id].q) * turn);
    }
  }

  const Context& c_;
  Island& b_;
  const State& at_;
  std::span<double> v_;
  RigidMotion common_;
};

}  // namespace

void damp_excess_energy(const Context& c, Island& b, double constraints, double rows, double allowed, const State& at,
                        std::span<double> v) {
  b.rows.energy_given += constraints + rows;
  const double excess = b.rows.energy_given - (1 + tuning::unsolved_work) * std::max(b.rows.solved_work, 0.0) - allowed;
  if (!(excess > 0)) return;
  const double removed = EnergyDamper(c, b, at, v).remove(excess);
  b.stats.damping_work -= removed;
  b.rows.energy_given -= removed;
}

}  // namespace linchpin::host
