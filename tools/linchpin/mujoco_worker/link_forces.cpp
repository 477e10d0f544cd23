#include "link_forces.h"

#include <algorithm>
#include <limits>

namespace linchpin::mujoco_worker {

void LinkForces::update() {
  if (exact_) reactions_ = solver_->reactions();
  model_.find_joint_wrenches();
}

// Reactions are in the order of the equalities, then the others.
const Reaction* LinkForces::reaction(std::size_t i) const {
  const Link& link = model_.links()[i];
  if (link.kind == Link::Kind::joint) return nullptr;
  const Reaction* found = nullptr;
  if (link.is_equality())
    found = i < reactions_.size() ? &reactions_[i] : nullptr;
  else
    for (const Reaction& r : reactions_)
      if (r.name == link.name) found = &r;
  return found && !found->native ? found : nullptr;
}

Wrench LinkForces::by_mujoco(std::size_t i) const {
  const Link& link = model_.links()[i];
  return link.is_equality() ? model_.row_wrench(link) : model_.joint_wrench(link);
}

Wrench LinkForces::on_first(std::size_t i) const {
  const Link& link = model_.links()[i];
  if (const Reaction* const r = reaction(i)) return r->on_a;
  if (link.kind == Link::Kind::own) {
    const Vector3d none = Vector3d::Constant(std::numeric_limits<double>::quiet_NaN());
    return {none, none, Vector3d::Zero()};
  }
  if (exact_ && link.kind == Link::Kind::joint) {
    const char* const name = mj_id2name(&model_.model(), mjOBJ_JOINT, link.index);
    if (const Result<Wrench> on = try_call([&] { return solver_->joint_wrench(name); })) return opposite(*on);
  }
  return by_mujoco(i);
}

recording::Recording::Force LinkForces::of(std::size_t i, std::size_t on) const {
  if (const Reaction* const r = reaction(i)) return recording::Recording::Force::of(*r, on);
  const Wrench first = on_first(i);
  recording::Recording::Force out;
  out.on = on == 0 ? first : opposite(first);
  return out;
}

}  // namespace linchpin::mujoco_worker
