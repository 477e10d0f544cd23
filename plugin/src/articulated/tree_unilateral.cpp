#include "articulated/tree_unilateral.h"

namespace linchpin::articulated {

void TreeUnilateral::switch_all() {
  for (int i = 0; i < static_cast<int>(c_.constraints.size()); ++i) {
    const host::ConstraintEntry& r = c_.constraints[i];
    if (!r.alive || !r.is_on_links() || !r.deferred || !r.enabled || !r.unilateral.on) continue;
    if (r.released && !r.unilateral.reengage) continue;
    host::UnilateralState at;
    if (read(*r.deferred, at)) host::switch_unilateral(c_, i, at);
  }
}

void TreeUnilateral::release_all() {
  for (const ConstraintRows& c : t_.constraints.constraints())
    if (c.rows == 1) host::release_unilateral(c_, c.owner, t_.x.multipliers[z(c.row)]);
}

BodyState TreeUnilateral::state_of(BodyId id) {
  BodyState out;
  if (const LinkTable::Place link = t_.links[id]; link.tree >= 0) {
    Tree& t = t_.tree(link);
    t.refresh();
    out = articulated::state_of(t.tree.motion(link.link));
  } else if (c_.bodies.in_host(id)) {
    c_.world.read(id, out);
  }
  return out;
}

/// @return false where the residual throws: the solve that holds it again names it
bool TreeUnilateral::read(const Constraint& constraint, host::UnilateralState& out) {
  const auto ids = constraint.bodies();
  states_.clear();
  for (const BodyId id : ids) states_.push_back(state_of(id));
  if (!host::linearize(constraint, states_, c_.t, rows_)) return false;
  out = {rows_.position[0], rows_.velocity[0], -c_.dt * rows_.b[0]};
  for (std::size_t k = 0; k < ids.size(); ++k) {
    const double* row = rows_.A.data() + 6 * k;
    const LinkTable::Place link = t_.links[ids[k]];
    if (link.tree < 0) {
      host::add_applied_gain(c_, ids[k], row, out.gain);
      continue;
    }
    const Tree& t = t_.tree(link);
    columns_.assign(z(t.tree.columns()), 0);
    t.tree.add_jacobian_row(link.link, row, columns_);
    for (std::size_t c = 0; t.has_factor() && c < columns_.size(); ++c) out.gain += c_.dt * columns_[c] * t.free[c];
  }
  return true;
}

}  // namespace linchpin::articulated
