// What a step's forces were: reactions, and the books of every body from records of their own (T11).
#include "engine.h"

#include "columns.h"

#include <utility>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

Vector6 generalized_force(const Assembly& assembly, int i, int k, std::span<const double> lambda) {
  Vector6 f = Vector6::Zero();
  const auto J = assembly.jacobian(i, k);
  const int first = assembly.block.row[z(i)], count = assembly.block.row[z(i + 1)] - first;
  for (int r = 0; r < count; ++r)
    for (int c = 0; c < 6; ++c) f[c] += J[z(6 * r + c)] * lambda[z(first + r)];
  return f;
}

void Engine::keep_reactions(BlockSolve& b) {
  make_reactions();
  // Reports are of the step's start (T11), where the laws of the step may be of its end.
  if (b.with_laws) b.dynamics->answer_at_instant(state_);
  for (std::size_t i = 0; i < b.records.size(); ++i) {
    Record& r = records_[z(b.records[i])];
    Reaction& to = reactions_[z(r.reaction)];
    b.dynamics->reaction(static_cast<int>(i), state_, to);  // rank is asked for when somebody reads it
    to.native = r.reports_native = options_.mode == Mode::observe;
  }
}

// Reactions and books of a step are put together when somebody reads them, from what the step left behind.
void Engine::tell(BlockSolve& b) {
  if (b.told) return;
  b.told = true;
  make_reactions();
  problem(b);
  if (b.plain_parts) {
    record_parts(b);
    tell_parts(b);
  }
  if (b.by_stages && !b.recorded) take_by_stages(b, true);
  if (!b.in_parts) {  // else both are there, from the parts
    keep_reactions(b);
    // The stabilisation part is Newton's own record, and what laws do in the step beyond its start.
    const bool beyond = b.with_laws && options_.mode == Mode::exact;
    for (std::size_t i = 0; i < b.ids.size(); ++i) {
      Reaction& r = reactions_[z(records_[z(b.records[i])].reaction)];
      const auto bodies = system_.constraint(b.ids[i]).bodies();
      for (int k = 0; k < static_cast<int>(bodies.size()); ++k) {
        const Vector6 f = generalized_force(b.dynamics->assembly(), static_cast<int>(i), k, b.lambda) / dt_;
        const Wrench of_laws = r.stabilisation.on(k);
        Wrench& sum = r.stabilisation.on(k);
        sum = Wrench{f.head<3>(), f.tail<3>(), state_[bodies[z(k)]].p}.about(r.ideal.on(k).point);
        if (!beyond) continue;
        sum.force += of_laws.force;
        sum.moment += of_laws.moment;
      }
    }
  }
  if (options_.mode == Mode::exact) keep_books(b);
  flush_work(b);
}

void Engine::flush_work(BlockSolve& b) {
  if (b.ids.empty()) return;
  const Block& block = b.block;
  for (std::size_t i = 0; i < b.records.size(); ++i) {
    Record& r = records_[z(b.records[i])];
    double work = 0;
    const bool counts = r.alive && r.reaction >= 0;
    if (counts) work = r.work;
    for (int row = block.row[i]; row < block.row[i + 1]; ++row) work += std::exchange(b.work[z(row)], 0.0);
    if (!counts) continue;
    r.work = work;
    add_work(r, 0);
  }
}

void Engine::note_time_dependence(BlockSolve& b) {
  const Assembly& a = b.dynamics->assembly();
  velocity_of_rows(b, a.v, b.e);
  for (std::size_t i = 0; i < b.records.size(); ++i) {
    Record& r = records_[z(b.records[i])];
    if (r.joint || r.held) continue;
    double own = 0, size = 0;  // φ_t, and what the bodies contribute
    for (int row = a.block.row[i]; row < a.block.row[i + 1]; ++row) {
      own = std::max(own, std::abs(a.velocity[z(row)] - b.e[z(row)]));
      size = std::max({size, std::abs(a.velocity[z(row)]), std::abs(b.e[z(row)])});
    }
    r.moves_by_itself = own > 1e-9 * size && own > 0;
    r.time_dependent = r.time_dependent || r.moves_by_itself;
  }
}

void Engine::keep_books(BlockSolve& b) {
  const Block& block = b.block;
  book_of_.resize(body_of_.size(), -1);
  for (std::size_t slot = 0; slot < b.pool.size(); ++slot) {
    const BodyId id = block.bodies[slot];
    book_of_[z(id.index)] = static_cast<int>(books_.size());
    BodyBooks* at = &books_.emplace_back();
    const int c = block.column[slot], dof = block.column[slot + 1] - c;
    at->body = id;
    at->linear_motion = system_.mass(id) * state_[id].v.norm();
    if (dof == 6) at->angular_motion = (system_.world_inertia(id, state_[id].q) * state_[id].w).norm();
    at->rounding.head<3>() = system_.mass(id) * (from_bullet(to_bullet(head(b.v, c))) - head(b.v, c));
    if (dof == 6)
      at->rounding.tail<3>() =
          system_.world_inertia(id, state_[id].q) * (from_bullet(to_bullet(head(b.v, c + 3))) - head(b.v, c + 3));
    at->applied.head<3>() = head(b.applied, c);
    at->host.head<3>() = head(b.host, c);
    if (!b.damping.empty()) at->own.head<3>() += head(b.damping, c);
    if (b.in_parts)
      at->momentum.head<3>() = head(b.Q_host, c);
    else
      at->momentum.head<3>() = system_.mass(id) * (head(b.v, c) - head(b.v0, c));
    if (dof == 6) {
      at->applied.tail<3>() = head(b.applied, c + 3);
      at->host.tail<3>() = head(b.host, c + 3);
      if (!b.damping.empty()) at->own.tail<3>() += head(b.damping, c + 3);
      if (!b.stiffness.empty()) {  // −½ dt² K⁺ω₁ of its torque and inertia together
        at->applied.tail<3>() += b.stiffness[slot] * head(b.v0, c + 3);
        at->own.tail<3>() -= b.stiffness[slot] * head(b.v, c + 3);
      }
      if (b.in_parts)
        at->momentum.tail<3>() = head(b.Q_host, c + 3);
      else
        at->momentum.tail<3>() = system_.world_inertia(id, state_[id].q) * (head(b.v, c + 3) - head(b.v0, c + 3));
    }
  }
  // Own impulses, from what the reactions say, moved to the centres of mass; and their work with the mean velocity
  // (T11).
  for (std::size_t i = 0; i < b.records.size(); ++i) {
    Record& record = records_[z(b.records[i])];
    const Reaction& r = reactions_[z(record.reaction)];
    const auto bodies = system_.constraint(b.ids[i]).bodies();
    for (int k = 0; k < static_cast<int>(bodies.size()); ++k) {
      const BodyId id = bodies[z(k)];
      const Vector3d com = state_[id].p;
      Vector6 impulse = Vector6::Zero();
      double gross_force = 0, gross_moment = 0;  // of the parts, which may cancel
      for (const Wrenches* part : {&r.ideal, &r.prescribed, &r.induced, &r.stabilisation}) {
        const Wrench w = part->on(k).about(com);
        impulse.head<3>() += dt_ * w.force;
        impulse.tail<3>() += dt_ * w.moment;
        gross_force = std::max(gross_force, dt_ * w.force.norm());
        gross_moment = std::max(gross_moment, dt_ * w.moment.norm());
      }
      const int slot = block.slot(id);
      Vector3d v = state_[id].v, w = state_[id].w;
      if (slot >= 0) {
        const int c = block.column[z(slot)];
        v = 0.5 * (v + head(b.v, c));
        if (block.column[z(slot + 1)] - c == 6) w = 0.5 * (w + head(b.v, c + 3));
        BodyBooks& books = books_[z(book_of_[z(id.index)])];
        books.own.head<3>() += impulse.head<3>();
        if (b.in_parts) {
          gross_force = std::max(gross_force, b.sub_gross[z(2 * slot)]);
          gross_moment = std::max(gross_moment, b.sub_gross[z(2 * slot + 1)]);
        }
        books.gross_force = std::max(books.gross_force, gross_force);
        // A moment about the centre is rounded as what it is made of, the force times its lever.
        const double lever = (r.ideal.on(k).point - com).norm();
        books.gross_moment = std::max({books.gross_moment, gross_moment, lever * gross_force});
        if (block.column[z(slot + 1)] - c == 6) books.own.tail<3>() += impulse.tail<3>();
      }
      // What the program moves is in no balance: an ideal joint would do as much to it as it takes from the others.
      if (slot >= 0 && b.work_in_books) add_work(record, impulse.head<3>().dot(v) + impulse.tail<3>().dot(w));
    }
  }
  for (const BodyId id : block.bodies)
    counts_.imbalance = std::max(counts_.imbalance, books_[z(book_of_[z(id.index)])].imbalance());
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
