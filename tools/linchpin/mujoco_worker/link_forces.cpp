#include "link_forces.h"

#include <limits>

namespace linchpin::mujoco_worker {

void LinkForces::update() {
  if (exact_)
    reactions_ = solver_->reactions();
  else
    model_.find_joint_wrenches();
}

// Reactions are in the order of the equalities.
const Reaction* LinkForces::reaction(std::size_t link) const {
  if (link >= model_.equalities() || link >= reactions_.size() || reactions_[link].native) return nullptr;
  return &reactions_[link];
}

Wrench LinkForces::on_first(std::size_t i) const {
  const Link& link = model_.links()[i];
  if (const Reaction* const r = reaction(i)) return r->on_a;
  if (link.is_equality) return model_.row_wrench(link);
  if (!exact_) return model_.joint_wrench(link);
  const char* const name = mj_id2name(&model_.model(), mjOBJ_JOINT, link.index);
  if (const Result<Wrench> on = try_call([&] { return solver_->joint_wrench(name); })) return *on;
  const Vector3d none = Vector3d::Constant(std::numeric_limits<double>::quiet_NaN());
  return {none, none, Vector3d::Zero()};
}

recording::Recording::Force LinkForces::of(std::size_t i, std::size_t on) const {
  if (const Reaction* const r = reaction(i)) return recording::Recording::Force::of(*r, on);
  const Wrench first = on_first(i);
  recording::Recording::Force out;
  out.on = on == 0 ? first : Wrench{-first.force, -first.moment, first.point};
  return out;
}

}  // namespace linchpin::mujoco_worker
