#include "step_start.h"

#include <linchpin/constraint.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace linchpin::worker {

StepStart::StepStart(Scene& scene, bullet::Solver* solver) : scene_(scene), solver_(solver) {
  if (!scene.built()) return;
  const scene::Model& model = scene.built()->model();
  wanted_ = solver && (std::any_of(model.logs.begin(), model.logs.end(),
                                   [](const scene::Channel& c) { return c.reads_forces(); }) ||
                       std::any_of(model.expectations.begin(), model.expectations.end(),
                                   [](const scene::Expectation& e) { return e.value.reads_forces(); }));
  if (wanted_) assembly_.layout = whole_system(scene.built()->mirror());
}

void StepStart::before(double t) {
  if (!scene_.built()) return;
  state_ = scene_.built()->state(t);
  if (!std::exchange(begun_, true)) look_at_start();
  if (!wanted_) return;
  const auto last = solver_->reactions();
  before_.resize(last.size());
  for (std::size_t i = 0; i < last.size(); ++i)
    before_[i] = {last[i].name, last[i].work, last[i].gap, last[i].gap_angle, last[i].residual};
  measure_gaps();
}

// By the scene's own equations, so that there are gaps at the start too. Joints of an included file have none there and
// keep those of the last step's end.
void StepStart::measure_gaps() {
  const System& mirror = scene_.built()->mirror();
  assemble_constraints(mirror, state_, assembly_);
  if (!assembly_.failure.empty()) return;
  const IslandLayout& layout = assembly_.layout;
  const auto& constraints = scene_.built()->model().constraints;
  place_.resize(layout.constraints.size(), 0);
  for (std::size_t i = 0; i < layout.constraints.size(); ++i) {
    const Constraint& c = mirror.constraint(layout.constraints[i]);
    auto at = before_.begin() + static_cast<std::ptrdiff_t>(std::min(place_[i], before_.size()));
    if (at == before_.end() || at->name != c.name())  // mostly where it was in the last step
      at = std::find_if(before_.begin(), before_.end(), [&](const Before& b) { return b.name == c.name(); });
    place_[i] = static_cast<std::size_t>(at - before_.begin());
    if (at == before_.end() || c.function().level() != Level::position) continue;
    const auto of_scene = static_cast<std::size_t>(layout.constraints[i].index);
    if (constraints[of_scene].yields()) continue;  // The deformation is that at the end of the last step.
    at->gap = at->gap_angle = at->residual = 0;
    for (int r = layout.row[i]; r < layout.row[i + 1]; ++r) {
      const RowUnit unit = c.function().unit(r - layout.row[i]);
      double& largest = unit == RowUnit::metre ? at->gap : unit == RowUnit::radian ? at->gap_angle : at->residual;
      largest = std::max(largest, std::abs(assembly_.position[static_cast<std::size_t>(r)]));
    }
  }
}

void StepStart::look_at_start() {
  if (!solver_ || solver_->options().mode != bullet::Mode::exact) return;
  const System& mirror = scene_.built()->mirror();
  for (const scene::SceneConstraint& c : scene_.built()->model().constraints)
    if (c.unilateral && scene::is_open(mirror, mirror.find_constraint(c.name), state_))
      modes_.look(c.name, true, state_.t);
}

void StepStart::look_at_modes(double end) {
  if (!solver_ || solver_->options().mode != bullet::Mode::exact) return;
  modes_.look(solver_->laws(), end);
  if (!scene_.built()) return;
  for (const scene::SceneConstraint& c : scene_.built()->model().constraints)
    if (c.unilateral) modes_.look(c.name, solver_->find(c.name).released(), end);
}

std::span<const Reaction> StepStart::reactions() {
  if (!solver_) return {};
  const auto now = solver_->reactions();
  if (!wanted_) return now;
  list_.assign(now.begin(), now.end());
  for (std::size_t i = 0; i < list_.size(); ++i) {
    Reaction& r = list_[i];
    const bool same = i < before_.size() && before_[i].name == r.name;
    const auto at =
        same ? before_.begin() + static_cast<std::ptrdiff_t>(i)
             : std::find_if(before_.begin(), before_.end(), [&](const Before& b) { return b.name == r.name; });
    const Before was = at == before_.end() ? Before{r.name} : *at;
    r.work = was.work, r.gap = was.gap, r.gap_angle = was.gap_angle, r.residual = was.residual;
  }
  return list_;
}

}  // namespace linchpin::worker
