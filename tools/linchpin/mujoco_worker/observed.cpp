#include "observed.h"

#include <algorithm>
#include <utility>

namespace linchpin::mujoco_worker {

void Observed::before() {
  if (!scene_.scene()) return;
  state_ = scene_.state();
  if (std::exchange(begun_, true) || !solver_) return;
  for (const scene::SceneConstraint& c : scene_.scene()->constraints)
    if (c.unilateral && scene::is_open(scene_.mirror(), scene_.mirror().find_constraint(c.name), state_))
      modes_.look(c.name, true, state_.t);
}

void Observed::after(double end) {
  if (!scene_.scene()) return;
  read_reactions();
  if (!solver_) return;
  modes_.look(solver_->laws(), end);
  for (const scene::SceneConstraint& c : scene_.scene()->constraints)
    if (c.unilateral) modes_.look(c.name, solver_->find(c.name).released(), end);
}

// Forces are of the state before the step by themselves; works and gaps are those of the end of the last one.
void Observed::read_reactions() {
  reactions_.clear();
  if (solver_) reactions_.assign(solver_->reactions().begin(), solver_->reactions().end());
  const std::vector<Reaction> now = reactions_;
  for (Reaction& r : reactions_) {
    const auto was = std::find_if(last_.begin(), last_.end(), [&](const Reaction& x) { return x.name == r.name; });
    const bool known = was != last_.end();
    r.work = known ? was->work : 0;
    r.gap = known ? was->gap : 0, r.gap_angle = known ? was->gap_angle : 0, r.residual = known ? was->residual : 0;
  }
  last_ = now;
  // Of joints and equalities that linchpin does not hold in this step, MuJoCo knows the forces.
  const auto& links = scene_.model().links();
  for (const scene::SceneConstraint& c : scene_.scene()->constraints) {
    if (!c.tree && !c.imported) continue;
    const auto link = std::find_if(links.begin(), links.end(), [&](const Link& x) { return x.name == c.name; });
    const auto known =
        std::find_if(reactions_.begin(), reactions_.end(), [&](const Reaction& r) { return r.name == c.name; });
    const bool is_current = known != reactions_.end() && !known->native && known->t == state_.t && solver_;
    if (link == links.end() || is_current) continue;
    Reaction r;
    r.name = c.name;
    r.t = state_.t;
    r.on_a = forces_.by_mujoco(static_cast<std::size_t>(link - links.begin()));
    r.on_b = opposite(r.on_a);
    r.ideal.on_a = r.on_a, r.ideal.on_b = r.on_b;
    if (known != reactions_.end())
      *known = r;
    else
      reactions_.push_back(r);
  }
}

}  // namespace linchpin::mujoco_worker
