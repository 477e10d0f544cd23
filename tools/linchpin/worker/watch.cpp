#include "watch.h"

#include "gaps.h"
#include "prescribing.h"

#include <linchpin/laws.h>
#include <linchpin/scene/modes.h>

#include <cmath>

namespace linchpin::worker {

Watch::Watch(Scene& scene, bullet::Solver* solver) : scene_(scene), solver_(solver) {
  for (const btTypedConstraint* joint : scene.joints()) enabled_at_start_.push_back(joint->isEnabled());
  for (const btRigidBody* body : scene.bodies())
    if (!body->isStaticOrKinematicObject() && (body->getLinearDamping() != 0 || body->getAngularDamping() != 0))
      energy_note_ = "damping";
  if (scene.built()) {
    user_gaps_.assign(scene.built()->constrained().size(), 0.0);
    if (const char* why = scene.built()->why_not_conserved()) energy_note_ = why;
    note_prescribed_motion();
    note_compliance();
    find_unilateral();
  }
  begin(0);
}

void Watch::note_prescribed_motion() {
  const scene::Model& model = scene_.built()->model();
  const std::vector<char> prescribes = cli::prescribes_motion(model, scene_.built()->mirror());
  for (std::size_t i = 0; i < prescribes.size(); ++i)
    if (prescribes[i]) working_.insert(model.constraints[i].name);
  if (working_.empty() || solver_) return;
  if (energy_note_.empty())
    energy_note_ = "constraints prescribe motion (" + *working_.begin() +
                   (working_.size() > 1 ? " and " + std::to_string(working_.size() - 1) + " more" : "") +
                   "), and the native solver does not report their work";
  working_.clear();
}

// The gap of a joint with compliance is a deformation, and its springs take and give energy.
void Watch::note_compliance() {
  yields_.assign(scene_.joints().size(), 0);
  for (const scene::SceneConstraint& c : scene_.built()->model().constraints) {
    if (!c.yields()) continue;
    if (solver_) working_.insert(c.name);
    for (std::size_t i = 0; i < yields_.size(); ++i)
      if (scene_.joint_names()[i] == c.name) yields_[i] = 1;
  }
}

void Watch::find_unilateral() {
  const System& mirror = scene_.built()->mirror();
  const State start = scene_.built()->state(0);
  for (const Built::Constrained& each : scene_.built()->constrained()) {
    const ConstraintId id = mirror.find_constraint(each.name);
    unilateral_.push_back(solver_ && unilateral(mirror, id).on);
    if (unilateral_.back()) impacting_.insert(each.name);
    open_at_start_.push_back(scene::is_open(mirror, id, start));
  }
}

bool Watch::released(std::size_t i) const {
  if (!unilateral_[i]) return false;
  if (solver_->counts().steps == 0) return open_at_start_[i];
  return solver_->find(scene_.built()->constrained()[i].name).released();
}

void Watch::begin(double t) {
  energy0_ = energy(t);
  work0_ = work();
}

double Watch::work() const {
  if (!counts_work()) return 0;
  double sum = 0;
  for (const Reaction& r : solver_->reactions())
    if (working_.contains(r.name) || impacting_.contains(r.name)) sum += r.work;
  return sum;
}

void Watch::look(double t, double dt) {
  looked_ = true;
  t_ = t;
  if (scene_.built()) look_at_constraints(dt);
  for (std::size_t i = 0; i < scene_.joints().size(); ++i) {
    const Gap gap = measure_gap(*scene_.joints()[i]);
    if (!gap.any || (!yields_.empty() && yields_[i])) continue;
    any_gap_ = true;
    squares_ += gap.metres * gap.metres;
    ++count_;
    if (gap.metres > max_gap_) {
      max_gap_ = gap.metres;
      worst_ = i;
    }
    max_angle_ = std::max(max_angle_, gap.radians);
  }
  energy_error_ = std::max(energy_error_, std::abs(energy(t) - energy0_ - (work() - work0_)));
}

void Watch::look_at_constraints(double dt) {
  Built& built = *scene_.built();
  built.residuals(t_, dt, residuals_);
  for (std::size_t i = 0; i < residuals_.size(); ++i) {
    if (released(i)) continue;
    user_gaps_[i] = std::max(user_gaps_[i], residuals_[i]);
    const RowUnit unit = built.constrained()[i].unit;
    if (unit == RowUnit::radian) max_angle_ = std::max(max_angle_, residuals_[i]);
    if (unit != RowUnit::metre) continue;
    any_gap_ = true;
    squares_ += residuals_[i] * residuals_[i];
    ++count_;
    if (residuals_[i] <= max_gap_) continue;
    max_gap_ = residuals_[i];
    worst_ = scene_.joints().size() + i;
  }
}

void Watch::events(long step) {
  if (!energy_note_.empty()) return;
  if (const char* why = why_not_conserved()) energy_note_ = std::string(why) + " from step " + std::to_string(step);
}

const char* Watch::why_not_conserved() const {
  const btDispatcher* dispatcher = scene_.world().getDispatcher();
  for (int i = 0; i < dispatcher->getNumManifolds(); ++i) {
    const btPersistentManifold* manifold = const_cast<btDispatcher*>(dispatcher)->getManifoldByIndexInternal(i);
    for (int k = 0; k < manifold->getNumContacts(); ++k)
      if (manifold->getContactPoint(k).getAppliedImpulse() != 0) return "contacts";
  }
  for (btTypedConstraint* joint : scene_.joints())
    if (const char* what = works(*joint)) return what;
  if (scene_.built() && scene_.built()->multibodies() && scene_.built()->multibodies()->limited()) return "a limit";
  for (const btRigidBody* body : scene_.bodies())
    if (!body->isStaticOrKinematicObject() && !body->isActive()) return "sleeping bodies";
  return nullptr;
}

double Watch::energy(double t) const {
  // With its springs and other potentials.
  if (scene_.built()) return linchpin::energy(scene_.built()->mirror(), scene_.built()->state(t));
  double sum = 0;
  for (const btRigidBody* body : scene_.bodies()) {
    if (body->isStaticOrKinematicObject() || body->getInvMass() == 0) continue;
    const double mass = 1 / double(body->getInvMass());
    const btVector3 &v = body->getLinearVelocity(), &w = body->getAngularVelocity(), &g = body->getGravity(),
                    &x = body->getCenterOfMassPosition(), &inverse = body->getInvInertiaDiagLocal();
    const btMatrix3x3& R = body->getWorldTransform().getBasis();
    for (int i = 0; i < 3; ++i) {
      sum += mass * (0.5 * double(v[i]) * double(v[i]) - double(g[i]) * double(x[i]));
      double along = 0;  // angular velocity about the body's axis i
      for (int k = 0; k < 3; ++k) along += double(R[k][i]) * double(w[k]);
      if (inverse[i] != 0) sum += 0.5 * along * along / double(inverse[i]);
    }
  }
  return sum;
}

void Watch::report(Json& row, const std::vector<std::string>& joint_names) const {
  const bool gaps = looked_ && any_gap_;
  row["max_gap_m"] = gaps ? Json(max_gap_) : Json();
  row["rms_gap_m"] = gaps ? Json(std::sqrt(squares_ / double(count_))) : Json();
  row["max_gap_rad"] = gaps ? Json(max_angle_) : Json();
  row["max_gap_joint"] = gaps && max_gap_ > 0 ? Json(joint_names[worst_]) : Json();
  row["user_gaps"] = Json::object();
  for (std::size_t i = 0; looked_ && i < user_gaps_.size(); ++i)
    row["user_gaps"][scene_.built()->constrained()[i].name] = user_gaps_[i];
  row["max_energy_error_J"] = looked_ && energy_note_.empty() ? Json(energy_error_) : Json();
  row["energy_note"] = energy_note_.empty() ? Json() : Json(energy_note_);
  if (looked_ && energy_note_.empty() && counts_work())
    row["energy_error_of"] = "energy" + cli::less_work(!working_.empty(), !impacting_.empty());
  long broken = 0;
  for (std::size_t i = 0; i < scene_.joints().size(); ++i)
    broken += enabled_at_start_[i] && !scene_.joints()[i]->isEnabled();
  row["broken"] = broken;
}

}  // namespace linchpin::worker
