// Sums impulses and their work from the results of the equation.
#include "dynamics/impulse_recorder.h"

#include "model/system_impl.h"
#include "problem/assembly_parts.h"

#include <linchpin/constraint.h>

#include <cmath>
#include <numeric>
#include <utility>

namespace linchpin {
namespace {

/// Returns true if a constraint moves its bodies by itself: it depends on time, or a kinematic body takes part in it.
bool moves(const Assembly& assembly, int constraint) {
  constexpr double rounding = 1e-9;
  const ConstrainedProblem& problem = assembly.problem;
  for (int r = assembly.layout.row[z(constraint)]; r < assembly.layout.row[z(constraint + 1)]; ++r) {
    double rate = assembly.velocity[z(r)], size = std::fabs(rate);
    for (int e = problem.row_start[z(r)]; e < problem.row_start[z(r + 1)]; ++e) {
      const double term = problem.entries[z(e)].value * assembly.v[z(problem.entries[z(e)].column)];
      rate -= term;
      size += std::fabs(term);
    }
    if (std::fabs(rate) > rounding * size) return true;
  }
  return false;
}

}  // namespace

void ImpulseRecorder::restructure(const System& system, const IslandLayout& layout, bool forget) {
  if (forget) {
    work_.clear();
    laws_.clear();
    cleared_.clear();
    energy_ = {};
    work_of_removed_ = 0;
  }
  work_.resize(z(system.constraint_count()), 0.0);
  for (std::size_t i = 0; i < work_.size(); ++i) {
    const unsigned version = system.constraint_at(static_cast<int>(i)).version;
    if (i < version_.size() && version_[i] != version) work_of_removed_ += std::exchange(work_[i], 0.0);
    if (i < version_.size())
      version_[i] = version;
    else
      version_.push_back(version);
  }
  start_.assign(1, 0);
  constraint_.clear();
  for (const ConstraintId id : layout.constraints) {
    start_.push_back(start_.back() + static_cast<int>(system.constraint(id).bodies().size()));
    constraint_.push_back(id.index);
  }
  impulses_.assign(z(start_.back()), {});
  work_of_step_.assign(layout.constraints.size(), 0.0);
  balances_.assign(layout.bodies.size(), {});
  sources_.assign(layout.bodies.size(), 0.0);
  for (std::size_t s = 0; s < balances_.size(); ++s) balances_[s].body = layout.bodies[s];
}

void ImpulseRecorder::begin(const System& system) {
  const auto& parts = SystemParts::of(system);
  if (law_changes_ != parts.law_changes) {
    for (std::size_t i = laws_.size(); i-- > 0;)
      if (const ConstraintId on = laws_[i].on;
          system.constraint_at(on.index) != on || cleared_[i] != parts.at(on).laws_cleared()) {
        laws_.erase(laws_.begin() + static_cast<std::ptrdiff_t>(i));
        cleared_.erase(cleared_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    law_changes_ = parts.law_changes;
    next_law_ = 0;
  }
  std::fill(impulses_.begin(), impulses_.end(), Impulse{});
  std::fill(work_of_step_.begin(), work_of_step_.end(), 0.0);
  for (LawWork& law : laws_) law.last = 0;
  energy_of_step_ = {};
  std::fill(sources_.begin(), sources_.end(), 0.0);
  for (MomentumBalance& balance : balances_) balance = MomentumBalance{.body = balance.body};
}

void ImpulseRecorder::store() {
  stored_.impulses = impulses_;
  stored_.work = work_of_step_;
  stored_.law.clear();
  for (const LawWork& law : laws_) stored_.law.push_back(law.last);
  stored_.books = balances_;
  stored_.energy = energy_of_step_;
  stored_.sources = sources_;
}

void ImpulseRecorder::restore() {
  impulses_ = stored_.impulses;
  work_of_step_ = stored_.work;
  for (std::size_t i = 0; i < laws_.size(); ++i) laws_[i].last = i < stored_.law.size() ? stored_.law[i] : 0;
  balances_ = stored_.books;
  energy_of_step_ = stored_.energy;
  sources_ = stored_.sources;
}

std::size_t ImpulseRecorder::law_index(const System& system, ConstraintId on, int law, int term) {
  for (std::size_t k = 0; k < laws_.size(); ++k) {  // Laws are in the same order every time.
    const std::size_t i = (next_law_ + k) % laws_.size();
    if (laws_[i].on != on || laws_[i].law != law || laws_[i].term != term) continue;
    next_law_ = i + 1;
    return i;
  }
  LawWork& fresh = laws_.emplace_back();
  fresh.on = on;
  fresh.law = law;
  fresh.term = term;
  fresh.constraint = system.name(on);
  fresh.name = linchpin::laws_on(system, on)[z(law)].terms()[z(term)].name;
  cleared_.push_back(SystemParts::of(system).at(on).laws_cleared());
  next_law_ = laws_.size();
  return laws_.size() - 1;
}

void ImpulseRecorder::record(const System& system, const Dynamics& dynamics, const State& state, double dt,
                             std::span<const double> stabilisation, std::span<const double> v0,
                             std::span<const double> v1) {
  const Assembly& assembly = dynamics.assembly();
  const IslandLayout& layout = assembly.layout;
  std::size_t law = 0;
  const auto prescribed = dynamics.prescribed();
  for (int i = 0; i < static_cast<int>(layout.constraints.size()); ++i) {
    const auto bodies = system.constraint(layout.constraints[z(i)]).bodies();
    while (law < prescribed.size() && prescribed[law].constraint < i) ++law;
    const bool has_law = law < prescribed.size() && prescribed[law].constraint == i;
    const bool is_source = moves(assembly, i);
    for (int k = 0; k < static_cast<int>(bodies.size()); ++k) {
      const BodyId id = bodies[z(k)];
      const int slot = layout.body_index(id);
      if (slot < 0) continue;
      Vector6d own = dt * (wrench_at_centre(assembly, i, k, dynamics.lambda()) +
                           wrench_at_centre(assembly, i, k, dynamics.induced()));
      const Vector6d of_rows = own;
      if (has_law && k < 2) {
        const Vector3d f = k == 0 ? prescribed[law].force : -prescribed[law].force;
        own.head<3>() += dt * f;
        own.tail<3>() += dt * ((prescribed[law].p_WQ - state[id].p).cross(f) +
                               (k == 0 ? prescribed[law].moment : -prescribed[law].moment));
      }
      Vector6d beyond = Vector6d::Zero();
      if (!stabilisation.empty()) beyond = wrench_at_centre(assembly, i, k, stabilisation);
      if (system.dof(id) <= 3) own.tail<3>().setZero(), beyond.tail<3>().setZero();

      Impulse& impulse = impulses_[z(start_[z(i)] + k)];
      impulse.own += own;
      impulse.stabilisation += beyond;
      const Vector6d both = own + beyond, mean = 0.5 * (twist_of(layout, z(slot), v0) + twist_of(layout, z(slot), v1));
      work_of_step_[z(i)] += both.dot(mean);
      if (is_source) sources_[z(slot)] += (of_rows + beyond).dot(mean);
      MomentumBalance& balance = balances_[z(slot)];
      balance.constraints += both;
      balance.gross_force = std::max(balance.gross_force, both.head<3>().norm());
      balance.gross_moment = std::max(balance.gross_moment, both.tail<3>().norm());
    }
  }
  for (std::size_t s = 0; s < balances_.size(); ++s) {
    const Vector6d impulse = dt * twist_of(layout, s, assembly.problem.Q);
    balances_[s].applied += impulse;
    const Vector6d mean = 0.5 * (twist_of(layout, s, v0) + twist_of(layout, s, v1));
    energy_of_step_.applied += impulse.dot(mean);
    sources_[s] += impulse.dot(mean);
    if (const auto& potential = AssemblyParts::of(assembly).potential_forces; !potential.empty())
      sources_[s] -= dt * twist_of(layout, s, potential).dot(mean);
    if (const BodyId id = layout.bodies[s]; system.kind(id) == BodyKind::rigid) {
      BodyState body = state[id];
      body.w = twist_of(layout, s, assembly.v).tail<3>();  // Q has the torque at these velocities.
      sources_[s] -= dt * system.gyroscopic_torque(id, body).dot(mean.tail<3>());
    }
  }

  double lawful = 0;
  for (const LawForce& e : dynamics.law_forces()) {
    const ConstraintId on = layout.constraints[z(e.constraint)];
    const double work =
        add_law_work(system, dynamics, state, e, dt, v0, v1, laws_[law_index(system, on, e.law, e.term)]);
    lawful += work;
    for (const BodyId id : system.constraint(on).bodies())
      if (const int slot = layout.body_index(id); slot >= 0) {
        sources_[z(slot)] += work;
        break;
      }
  }
  double all = 0;
  for (const double w : work_of_step_) all += w;
  energy_of_step_.laws += lawful;
  energy_of_step_.constraints = all - energy_of_step_.laws;
}

void ImpulseRecorder::record_applied(const IslandLayout& layout, std::span<const double> impulse,
                                     std::span<const double> v0, std::span<const double> v1) {
  for (std::size_t s = 0; s < balances_.size(); ++s) {
    const Vector6d p = twist_of(layout, s, impulse);
    balances_[s].applied += p;
    energy_of_step_.applied += 0.5 * p.dot(twist_of(layout, s, v0) + twist_of(layout, s, v1));
  }
}

void ImpulseRecorder::record_momentum(const IslandLayout& layout, const ConstrainedProblem& problem,
                                      std::span<const double> mass, std::span<const double> v0,
                                      std::span<const double> v1) {
  const double* M = mass.data();
  std::size_t s = 0;  // Body of the column.
  int first = 0;
  for (const int size : problem.block_sizes) {
    for (int i = 0; i < size; ++i) {
      while (layout.column[s + 1] <= first + i) ++s;
      const int own = first + i - layout.column[s];
      double before = 0;
      for (int j = 0; j < size; ++j) {
        before += M[i * size + j] * v0[z(first + j)];
        const double p = M[i * size + j] * (v1[z(first + j)] - v0[z(first + j)]);
        balances_[s].momentum[own] += p;
        energy_of_step_.kinetic += 0.5 * p * (v0[z(first + i)] + v1[z(first + i)]);
      }
      double& motion = own < 3 ? balances_[s].linear_motion : balances_[s].angular_motion;
      motion = std::max(motion, std::abs(before));
    }
    M += size * size;
    first += size;
  }
}

void ImpulseRecorder::close(double dt) {
  for (std::size_t i = 0; i < work_of_step_.size(); ++i) work_[z(constraint_[i])] += work_of_step_[i];
  for (LawWork& law : laws_) law.end_step(dt);
  energy_.kinetic += energy_of_step_.kinetic;
  energy_.applied += energy_of_step_.applied;
  energy_.laws += energy_of_step_.laws;
  energy_.constraints += energy_of_step_.constraints;
}

void ImpulseRecorder::record_impact(ConstraintId on, double work) {
  work_[z(on.index)] += work;
  energy_.kinetic += work;
  energy_.constraints += work;
}

void ImpulseRecorder::fill_work(const System& system, const IslandLayout& layout, const State& state, double dt,
                                std::vector<Reaction>& reactions) const {
  for (std::size_t i = 0; i < reactions.size(); ++i) {
    const Constraint& constraint = system.constraint(layout.constraints[i]);
    reactions[i].work = work_[z(constraint_[i])];
    for (int k = 0; k < static_cast<int>(constraint.bodies().size()); ++k) {
      const BodyState& body = state[constraint.bodies()[z(k)]];
      Vector6d mean = Vector6d::Zero();
      if (dt > 0) mean = impulses_[z(start_[i] + k)].stabilisation / dt;
      reactions[i].stabilisation.on(k) = moved_to(mean, body.p, constraint.application_point(k, state));
    }
  }
}

double ImpulseRecorder::work_of(ConstraintId id) const {
  return z(id.index) < work_.size() && version_[z(id.index)] == id.version ? work_[z(id.index)] : 0;
}

double ImpulseRecorder::work() const { return std::accumulate(work_.begin(), work_.end(), work_of_removed_); }

}  // namespace linchpin
