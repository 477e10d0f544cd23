// A system at a state becomes plain numbers. Hides which body has which columns, the two calls that functions and
// forces need with their scratch memory, and what a callable of the user's may throw.
#include <linchpin/constraint.h>
#include <linchpin/dynamics.h>
#include <linchpin/forces.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <string>

namespace linchpin {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

void reset(Block& block, const System& system) {
  block.bodies.clear();
  block.column.clear();
  block.constraints.clear();
  block.row.clear();
  block.body_slot.assign(at(system.body_count()), -1);
}

// Columns for the marked bodies in BodyId order, rows for the constraints already listed.
void number(Block& block, const System& system) {
  int column = 0;
  for (int i = 0; i < system.body_count(); ++i) {
    if (block.body_slot[at(i)] < 0) continue;
    block.body_slot[at(i)] = static_cast<int>(block.bodies.size());
    block.bodies.push_back(BodyId{i});
    block.column.push_back(column);
    column += system.dof(BodyId{i});
  }
  block.column.push_back(column);
  int row = 0;
  for (const ConstraintId id : block.constraints) {
    block.row.push_back(row);
    row += system.constraint(id).function().rows();
  }
  block.row.push_back(row);
}

// The states a function or a force sees. What the equations move has no known acceleration: theirs is the unknown v̇.
void gather(const System& system, const State& state, std::span<const BodyId> bodies, std::vector<BodyState>& out) {
  out.resize(bodies.size());
  for (std::size_t k = 0; k < bodies.size(); ++k) {
    out[k] = state[bodies[k]];
    if (system.kind(bodies[k]) != BodyKind::driven) {
      out[k].a.setZero();
      out[k].alpha.setZero();
    }
  }
}

void fill_masses(const System& system, const State& state, Assembly& out) {
  Instant& x = out.instant;
  x.block_sizes.clear();
  x.mass.clear();
  out.v.clear();
  const auto push3 = [](std::vector<double>& to, const Vector3d& u) { to.insert(to.end(), {u.x(), u.y(), u.z()}); };
  for (const BodyId id : out.block.bodies) {
    const BodyState& body = state[id];
    const double mass = system.mass(id);
    push3(out.v, body.v);
    const int dof = system.dof(id);
    x.block_sizes.push_back(dof);
    const auto start = x.mass.size();
    x.mass.resize(start + at(dof) * at(dof), 0.0);
    double* M = x.mass.data() + start;
    for (int i = 0; i < 3; ++i) M[i * dof + i] = mass;
    if (dof == 3) continue;
    push3(out.v, body.w);
    const Matrix3d I = system.world_inertia(id, body.q);
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 3; ++j) M[(3 + i) * dof + 3 + j] = 0.5 * (I(i, j) + I(j, i));
    }
  }
}

void fill_names(const System& system, const Block& block, std::vector<std::string>& names) {
  names.resize(block.constraints.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (const std::string& name = system.name(block.constraints[i]); names[i] != name) names[i] = name;
  }
}

bool finite(std::span<const double> x) {
  return std::all_of(x.begin(), x.end(), [](double xi) { return std::isfinite(xi); });
}

// Row r of constraint i: the columns of its movable bodies, ascending, whatever order it names the bodies in.
void push_row(const Assembly& from, std::span<const BodyId> bodies, int i, int r,
              std::vector<Instant::Entry>& entries) {
  int before = -1;
  for (std::size_t done = 0; done < bodies.size(); ++done) {
    int slot = std::numeric_limits<int>::max(), k = -1;
    for (std::size_t l = 0; l < bodies.size(); ++l) {
      const int s = from.block.body_slot[at(bodies[l].index)];
      if (s > before && s < slot) {
        slot = s;
        k = static_cast<int>(l);
      }
    }
    if (k < 0) return;
    before = slot;
    const int first = from.block.column[at(slot)], dof = from.block.column[at(slot) + 1] - first;
    const auto J = from.jacobian(i, k);
    for (int j = 0; j < dof; ++j) entries.push_back({first + j, J[at(6 * r + j)]});
  }
}

}  // namespace

Block whole(const System& system) {
  Block block;
  reset(block, system);
  for (int i = 0; i < system.body_count(); ++i) {
    if (system.dof(BodyId{i}) > 0) block.body_slot[at(i)] = 0;
  }
  for (int i = 0; i < system.constraint_count(); ++i) {
    if (system.enabled(ConstraintId{i})) block.constraints.push_back(ConstraintId{i});
  }
  number(block, system);
  return block;
}

void make_block(const System& system, std::span<const ConstraintId> constraints, Block& out) {
  reset(out, system);
  out.constraints.assign(constraints.begin(), constraints.end());
  for (const ConstraintId id : constraints) {
    for (const BodyId body : system.constraint(id).bodies()) {
      if (system.dof(body) > 0) out.body_slot[at(body.index)] = 0;
    }
  }
  number(out, system);
}

std::span<const double> Assembly::jacobian(int i, int k) const {
  const int rows = block.row[at(i) + 1] - block.row[at(i)];
  return {jacobians.data() + jacobian_start[at(i)] + 6 * rows * k, at(6 * rows)};
}

void assemble_constraints(const System& system, const State& state, Assembly& out) noexcept {
  out.failure.clear();
  Instant& x = out.instant;
  const Block& block = out.block;
  if (state.bodies.size() != at(system.body_count())) {
    x.clear();
    out.failure = "the state has " + std::to_string(state.bodies.size()) + " bodies, the system " +
                  std::to_string(system.body_count());
    return;
  }
  const auto n = at(block.n()), m = at(block.m());
  x.t = state.t;
  fill_masses(system, state, out);
  fill_names(system, block, x.constraints);
  if (x.Q.size() != n) x.Q.assign(n, 0.0);
  if (x.c.size() != n) x.c.assign(n, 0.0);
  x.b.assign(m, 0.0);
  out.position.assign(m, 0.0);
  out.velocity.assign(m, 0.0);
  x.row_constraint.clear();
  x.entries.clear();
  x.row_start.clear();
  x.row_start.push_back(0);
  out.jacobians.clear();
  out.jacobian_start.clear();

  for (int i = 0; i < static_cast<int>(block.constraints.size()); ++i) {
    const Constraint& constraint = system.constraint(block.constraints[at(i)]);
    const auto bodies = constraint.bodies();
    const int first = block.row[at(i)], rows = block.row[at(i) + 1] - first;
    const auto width = 6 * bodies.size();
    const auto start = out.jacobians.size();
    out.jacobian_start.push_back(static_cast<int>(start));
    out.jacobians.resize(start + at(rows) * width, 0.0);
    out.scratch_rows.assign(at(rows) * width, 0.0);
    gather(system, state, bodies, out.scratch);

    const auto part = [&](std::vector<double>& all) { return std::span(all).subspan(at(first), at(rows)); };
    const char* fault = nullptr;
    std::string what;
    try {
      constraint.function().linearize(out.scratch, state.t,
                                      {out.scratch_rows, part(x.b), part(out.position), part(out.velocity)});
      if (!finite(out.scratch_rows) || !finite(part(x.b)) || !finite(part(out.position)) ||
          !finite(part(out.velocity))) {
        fault = "the residual or its derivatives are not finite";
      }
    } catch (const std::exception& e) {
      fault = "the residual threw: ";
      what = e.what();
    } catch (...) {
      fault = "the residual threw";
    }
    if (fault) {
      if (out.failure.empty()) {
        out.failure =
            "constraint \"" + constraint.name() + "\" at t = " + std::to_string(state.t) + ": " + fault + what;
      }
      // No zeros in place of what is unknown: whoever overlooks `failure` must still be stopped by solve.
      std::fill(out.scratch_rows.begin(), out.scratch_rows.end(), 0.0);
      std::fill_n(x.b.begin() + first, rows, std::numeric_limits<double>::quiet_NaN());
    }

    for (std::size_t k = 0; k < bodies.size(); ++k) {
      double* J = out.jacobians.data() + start + 6 * at(rows) * k;
      for (int r = 0; r < rows; ++r) std::copy_n(out.scratch_rows.data() + at(r) * width + 6 * k, 6, J + 6 * r);
    }
    for (int r = 0; r < rows; ++r) {
      push_row(out, bodies, i, r, x.entries);
      x.row_start.push_back(static_cast<int>(x.entries.size()));
      x.row_constraint.push_back(i);
    }
  }
}

void assemble_forces(const System& system, const State& state, Assembly& out) noexcept {
  Instant& x = out.instant;
  const Block& block = out.block;
  if (state.bodies.size() != at(system.body_count())) return;  // assemble_constraints has said so
  x.Q.assign(at(block.n()), 0.0);
  x.c.assign(at(block.n()), 0.0);
  const auto add = [&](BodyId id, int from, const Vector3d& u) {
    double* Q = x.Q.data() + block.column[at(block.body_slot[at(id.index)])] + from;
    for (int j = 0; j < 3; ++j) Q[j] += u[j];
  };
  for (const BodyId id : block.bodies) {  // (T2)
    add(id, 0, system.mass(id) * system.gravity());
    if (system.dof(id) == 6) add(id, 3, system.gyroscopic_torque(id, state[id]));
  }
  for (const Force& force : system.forces()) {
    const auto bodies = force.bodies();
    const auto ours = [&](BodyId id) { return block.body_slot[at(id.index)] >= 0; };
    if (std::none_of(bodies.begin(), bodies.end(), ours)) continue;
    gather(system, state, bodies, out.scratch);
    out.scratch_wrenches.assign(bodies.size(), Eigen::Matrix<double, 6, 1>::Zero());
    std::string what;
    bool failed = false;
    try {
      ForceFrame frame(state.t, out.scratch, out.scratch_wrenches);
      force.act(frame);
      failed = std::any_of(out.scratch_wrenches.begin(), out.scratch_wrenches.end(),
                           [](const auto& w) { return !w.allFinite(); });
      if (failed) what = "it is not finite";
    } catch (const std::exception& e) {
      failed = true;
      what = std::string("it threw: ") + e.what();
    } catch (...) {
      failed = true;
      what = "it threw";
    }
    if (failed) {
      if (out.failure.empty())
        out.failure = "force \"" + force.name() + "\" at t = " + std::to_string(state.t) + ": " + what;
      std::fill(x.Q.begin(), x.Q.end(), std::numeric_limits<double>::quiet_NaN());
      return;
    }
    for (std::size_t k = 0; k < bodies.size(); ++k) {
      if (!ours(bodies[k])) continue;
      add(bodies[k], 0, out.scratch_wrenches[k].head<3>());
      if (system.dof(bodies[k]) == 6) add(bodies[k], 3, out.scratch_wrenches[k].tail<3>());
    }
  }
}

Instant assemble(const System& system, const State& state) {
  Assembly assembly;
  assembly.block = whole(system);
  assemble_constraints(system, state, assembly);
  assemble_forces(system, state, assembly);
  return std::move(assembly.instant);
}

}  // namespace linchpin
