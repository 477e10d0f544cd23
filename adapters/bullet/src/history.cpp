// Keeps what a solver carries from one step to the next, and puts it back. With the bodies as they were, the same steps
// then give the same bits.
#include "engine.h"

#include "columns.h"
#include "multibody.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

unsigned long Engine::next_serial() {
  static std::atomic<unsigned long> last{0};
  return ++last;
}

void Engine::keep_past(const BlockSolve& b, BlockPast& past) {
  static_cast<CarriedOn&>(past) = b;
  past.records = b.records;
  past.added = b.added;
  past.added_size = b.added_size;
  past.added_in_vain = b.added_in_vain;
  past.added_rest = b.added_rest;
  past.failures = b.failures;
  past.was_unmet = b.was_unmet;
  past.last_step = b.last_step;
  past.too_long_at = b.too_long_at;
  past.next_try = b.next_try;
  past.trouble = b.trouble;
  past.stuck = b.stuck;
  if (b.with_laws && b.dynamics) past.laws = b.dynamics->law_history();
}

void Engine::go_back(BlockSolve& b, const BlockPast& past) const {
  static_cast<CarriedOn&>(b) = past;
  b.added = past.added;
  b.added_size = past.added_size;
  b.added_in_vain = past.added_in_vain;
  b.added_rest = past.added_rest;
  b.failures = past.failures;
  b.was_unmet = past.was_unmet;
  b.last_step = past.last_step;
  b.too_long_at = past.too_long_at;
  b.next_try = past.next_try;
  b.trouble = past.trouble;
  b.stuck = past.stuck;
  if (past.laws && !b.dynamics) make_dynamics(b);
  if (b.dynamics) b.dynamics->set_law_history(past.laws);
}

std::shared_ptr<const EnginePast> Engine::history() {
  if (world_) scan_world();
  if (reactions_made_) refresh();  // adds the work of the last step
  for (const auto& b : blocks_) flush_work(*b);
  order_laws();
  auto out = std::make_shared<EnginePast>(EnginePast{.of = serial_,
                                                     .t = t_,
                                                     .dt = dt_,
                                                     .step = step_,
                                                     .teleported = teleported_,
                                                     .replaced = replaced_,
                                                     .driven = past_of_driven_,
                                                     .rest_poses = rest_poses_,
                                                     .records = {},
                                                     .blocks = {},
                                                     .block_of_set = block_of_set_,
                                                     .link_laws = multibodies_ ? multibodies_->law_history() : nullptr,
                                                     .counts = counts_,
                                                     .law_warnings = law_warnings_,
                                                     .max_gap = max_gap_,
                                                     .max_angle = max_angle_});
  for (std::size_t i = 0; i < records_.size(); ++i) {
    const Record& r = records_[i];
    if (!r.alive) continue;
    RecordPast& to = out->records.emplace_back(RecordPast{.index = static_cast<int>(i),
                                                          .version = r.version,
                                                          .order = r.order,
                                                          .moved_step = r.moved_step,
                                                          .enabled = r.enabled,
                                                          .let_go = r.let_go,
                                                          .unmet = r.unmet,
                                                          .time_dependent = r.time_dependent,
                                                          .moves_by_itself = r.moves_by_itself,
                                                          .joint_on = r.joint_on,
                                                          .broken = r.broken,
                                                          .released = r.released,
                                                          .parting = r.parting,
                                                          .work = r.work,
                                                          .memory = {},
                                                          .law_works = {}});
    if (r.id.index >= 0) to.memory = system_.constraint(r.id).function().memory();
    for (int k = 0; k < r.law_count; ++k) to.law_works.push_back(law_works_[z(r.first_law + k)]);
  }
  for (const auto& b : blocks_) {
    if (b->past)  // not laid out since it went back itself
      out->blocks.push_back(*b->past);
    else
      keep_past(*b, out->blocks.emplace_back());
  }
  return out;
}

/// Constraints that have come or gone since are blocks of their own kind: nothing that was kept is of them.
std::string Engine::why_not_back(const EnginePast& past) const {
  const std::string restore = "linchpin: restore: ";
  if (past.of != serial_) return restore + "this history is another solver's";
  if (!world_) return restore + why_no_world();
  std::size_t there = 0;
  for (const RecordPast& was : past.records) {
    if (is_stale(was.index, was.version))
      return restore + "a constraint has been removed since, the " + std::to_string(&was - past.records.data() + 1) +
             "th of " + std::to_string(past.records.size());
    ++there;
  }
  for (std::size_t i = 0; i < records_.size() && there > 0; ++i) {
    const Record& r = records_[i];
    if (r.alive && std::none_of(past.records.begin(), past.records.end(),
                                [&](const RecordPast& was) { return was.index == static_cast<int>(i); }))
      return restore + "constraint '" + r.name + "' has come since";
  }
  return {};
}

/// @param later  how many steps have been taken since
void Engine::go_back(Record& r, const RecordPast& past, unsigned later) {
  r.order = past.order;
  r.moved_step = past.moved_step + later;
  r.let_go = past.let_go;
  r.unmet = past.unmet;
  r.time_dependent = past.time_dependent;
  r.moves_by_itself = past.moves_by_itself;
  r.joint_on = past.joint_on;
  r.broken = past.broken;
  r.parting = past.parting;
  r.work = past.work;
  if (!r.joint) {
    r.enabled = past.enabled;
    switch_on(r, r.enabled && !r.let_go);
  }
  if (r.id.index >= 0) system_.constraint(r.id).function().set_memory(past.memory);
  for (int k = 0; k < std::min(r.law_count, static_cast<int>(past.law_works.size())); ++k)
    law_works_[z(r.first_law + k)] = past.law_works[z(k)];
  if (reactions_made_ && r.reaction >= 0) reactions_[z(r.reaction)].work = r.work;
}

std::string Engine::go_back(const EnginePast& past) {
  if (world_) scan_world();
  if (std::string why = why_not_back(past); !why.empty()) return why;
  const unsigned later = step_ - past.step;
  for (const auto& b : blocks_) flush_work(*b);
  gaps_told_ = true;
  for (const RecordPast& was : past.records) {  // joints that the program has set back are again as they were then
    Record& r = records_[z(was.index)];
    if (!r.joint) continue;
    if (r.released != was.released || !unchanged(*r.joint, r.kind, joint_numbers_.data() + r.numbers))
      r.seen_to = false;
    r.released = was.released;
    classify_record(was.index);
  }
  order_reactions();
  order_laws();
  for (const RecordPast& was : past.records) go_back(records_[z(was.index)], was, later);
  std::vector<std::unique_ptr<BlockSolve>> blocks;
  for (const BlockPast& was : past.blocks) {
    const auto same = std::find_if(blocks_.begin(), blocks_.end(), [&](const auto& b) {
      return b && !b->ids.empty() && b->records == was.records &&
             std::equal(b->ids.begin(), b->ids.end(), was.records.begin(),
                        [&](ConstraintId id, int record) { return records_[z(record)].id == id; });
    });
    BlockPast now = was;
    for (unsigned* step : {&now.last_step, &now.too_long_at, &now.next_try, &now.plain_from, &now.creeps_until})
      *step += later;
    BlockSolve& b = *blocks.emplace_back(same != blocks_.end() ? std::move(*same) : std::make_unique<BlockSolve>());
    b.told = b.failed = true;  // nothing is told of its last step
    if (b.ids.empty()) {
      b.last_step = now.last_step;
      b.past = std::make_unique<const BlockPast>(std::move(now));
    } else {
      b.past.reset();
      go_back(b, now);
    }
  }
  blocks_ = std::move(blocks);
  block_of_set_ = past.block_of_set;
  group_.clear();
  apart_.clear();
  last_group_.clear();
  last_constraints_.clear();
  ++structure_;
  t_ = past.t;
  dt_ = past.dt;
  teleported_ = past.teleported;
  replaced_ = past.replaced;
  past_of_driven_ = past.driven;
  rest_poses_ = past.rest_poses;
  counts_ = past.counts;
  law_warnings_ = past.law_warnings;
  ++law_edits_;  // what stands may have been told since
  max_gap_ = past.max_gap;
  max_angle_ = past.max_angle;
  if (multibodies_) multibodies_->go_back(past.link_laws);
  return {};
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
