// Assembles a system at a state into plain numbers. Hides which body has which columns, the calls of constraint
// functions and forces with their scratch memory, and exceptions of user callables.
#include <linchpin/assembly.h>
#include <linchpin/constraint.h>
#include <linchpin/coordinates.h>
#include <linchpin/forces.h>

#include "math/vector_ops.h"
#include "model/finite_state.h"
#include "model/force_rows.h"
#include "model/system_impl.h"
#include "problem/assembly_parts.h"
#include "problem/kept_assembly.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <string>

namespace linchpin {
namespace {

// Numbers the columns of the listed bodies in BodyId order, each once, and the rows of the constraints already listed.
void number(IslandLayout& layout, const System& system) {
  // One mass matrix couples the coordinates of a group, so a block with one of them contains all.
  for (std::size_t s = 0, bodies = layout.bodies.size(); s < bodies; ++s)
    if (const auto group = system.coordinates(layout.bodies[s]); group.kinetics)
      for (int i = 0; i < group.count; ++i) layout.bodies.push_back({group.first.index + i});
  std::sort(layout.bodies.begin(), layout.bodies.end(), [](BodyId x, BodyId y) { return x.index < y.index; });
  layout.bodies.erase(std::unique(layout.bodies.begin(), layout.bodies.end()), layout.bodies.end());
  layout.column.clear();
  layout.row.clear();
  int column = 0;
  for (const BodyId id : layout.bodies) {
    layout.column.push_back(column);
    column += system.dof(id);
  }
  layout.column.push_back(column);
  int row = 0;
  for (const ConstraintId id : layout.constraints) {
    layout.row.push_back(row);
    row += system.constraint(id).function().rows();
  }
  layout.row.push_back(row);
}

// Copies the states that a function or a force reads. Bodies that the equations move have no known acceleration,
// because theirs is the unknown v̇.
void gather(const System& system, const State& state, std::span<const BodyId> bodies, std::vector<BodyState>& out) {
  out.resize(bodies.size());
  for (std::size_t k = 0; k < bodies.size(); ++k) {
    const BodyState& from = state[bodies[k]];
    if (system.kind(bodies[k]) == BodyKind::kinematic) {
      out[k] = from;
      continue;
    }
    out[k].p = from.p;
    out[k].q = from.q;
    out[k].v = from.v;
    out[k].w = from.w;
    out[k].a.setZero();
    out[k].alpha.setZero();
  }
}

// Tests the sum first, and the single values only if the sum is not finite.
bool numbers_are_finite(std::span<const double> x) {
  return std::isfinite(Eigen::Map<const Eigen::VectorXd>(x.data(), static_cast<Eigen::Index>(x.size())).sum()) ||
         std::all_of(x.begin(), x.end(), [](double xi) { return std::isfinite(xi); });
}

// Computes M and h of a group of coordinates, whose first column is `first`.
void fill_coordinates(const System& system, const State& state, const System::CoordinateGroup& group, int first,
                      double* M, Assembly& out) {
  auto& parts = AssemblyParts::of(out);
  const auto n = z(group.count);
  parts.q.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    const BodyState& s = state[BodyId{group.first.index + static_cast<int>(i)}];
    parts.q[i] = s.p.x();
    out.v[z(first) + i] = s.v.x();
  }
  const std::span<double> mass(M, n * n), bias = std::span(out.bias).subspan(z(first), n);
  const char* fault = nullptr;
  std::string what;
  try {
    group.kinetics->evaluate(parts.q, std::span(out.v).subspan(z(first), n), state.t, mass, bias);
    if (!numbers_are_finite(mass) || !numbers_are_finite(bias))
      fault = "its kinetic energy or its derivatives are not finite";
  } catch (const std::exception& e) {
    fault = "its kinetic energy threw: ";
    what = e.what();
  } catch (...) {
    fault = "its kinetic energy threw an exception that is not a std::exception";
  }
  if (fault) {
    if (out.failure.empty())
      out.failure =
          "coordinate \"" + system.name(group.first) + "\" at t = " + std::to_string(state.t) + ": " + fault + what;
    std::fill(mass.begin(), mass.end(), std::numeric_limits<double>::quiet_NaN());
    return;
  }
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < i; ++j) mass[i * n + j] = mass[j * n + i] = 0.5 * (mass[i * n + j] + mass[j * n + i]);
}

// @param turned  [bodies] out: R. May be null.
void fill_masses(const System& system, const State& state, Assembly& out, Matrix3d* turned) {
  ConstrainedProblem& x = out.problem;
  out.v.resize(z(out.layout.n()));
  const auto& bodies = SystemParts::of(system).bodies;
  double* v = out.v.data();
  double* M = x.mass.data();
  for (std::size_t s = 0; s < out.layout.bodies.size(); ++s) {
    const BodyId id = out.layout.bodies[s];
    if (bodies[z(id.index)].kind == BodyKind::coordinate) {
      const System::CoordinateGroup group = system.coordinates(id);
      fill_coordinates(system, state, group, out.layout.column[s], M, out);
      v += group.count;
      M += group.count * group.count;
      s += z(group.count) - 1;
      continue;
    }
    const BodyState& body = state[id];
    const auto& given = bodies[z(id.index)];
    const int dof = out.layout.column[s + 1] - out.layout.column[s];
    for (int i = 0; i < 3; ++i) {  // All other entries of a block are zero since it was laid out.
      v[i] = body.v[i];
      M[i * dof + i] = given.mass;
    }
    const Matrix3d R = body.R();
    if (turned) turned[s] = R;
    if (dof == 6) {
      const Matrix3d half = R * given.inertia;
      for (int i = 0; i < 3; ++i) {  // Computes half of it, which makes it symmetric to the last bit.
        v[3 + i] = body.w[i];
        for (int j = 0; j <= i; ++j)
          M[(3 + i) * 6 + 3 + j] = M[(3 + j) * 6 + 3 + i] =
              half(i, 0) * R(j, 0) + half(i, 1) * R(j, 1) + half(i, 2) * R(j, 2);
      }
    }
    v += dof;
    M += dof * dof;
  }
}

// Lays out row r of constraint i: the columns of its movable bodies, ascending, in any order of the bodies.
void lay_out_row(Assembly& out, std::span<const BodyId> bodies, int i, int r) {
  auto& parts = AssemblyParts::of(out);
  const int rows = out.layout.row[z(i) + 1] - out.layout.row[z(i)];
  int before = -1;
  for (std::size_t done = 0; done < bodies.size(); ++done) {
    int slot = std::numeric_limits<int>::max(), k = -1;
    for (std::size_t l = 0; l < bodies.size(); ++l) {
      const int s = out.body_index(i, static_cast<int>(l));
      if (s > before && s < slot) {
        slot = s;
        k = static_cast<int>(l);
      }
    }
    if (k < 0) return;
    before = slot;
    const int first = out.layout.column[z(slot)], dof = out.layout.column[z(slot) + 1] - first;
    for (int j = 0; j < dof; ++j) out.problem.entries.push_back({first + j, 0.0});
    parts.entry_runs.push_back({parts.jacobian_start[z(i)] + 6 * (rows * k + r), dof});
  }
}

// Returns true if `instant` has the pattern of the block.
bool laid_out(const System& system, const Assembly& out) {
  const auto& parts = AssemblyParts::of(out);
  const IslandLayout &a = parts.laid_out, &b = out.layout;
  return parts.laid_out_for == system.structure() && a.constraints == b.constraints && a.bodies == b.bodies &&
         a.column == b.column && a.row == b.row && out.problem.row_start.size() == z(b.m()) + 1;
}

// Sets all of the instant that depends only on the block.
void lay_out(const System& system, Assembly& out) {
  auto& parts = AssemblyParts::of(out);
  ConstrainedProblem& x = out.problem;
  const IslandLayout& layout = out.layout;
  x.clear();
  const auto n = z(layout.n()), m = z(layout.m());
  x.Q.assign(n, 0.0);
  x.c.assign(n, 0.0);
  x.b.assign(m, 0.0);
  std::size_t mass = 0;
  for (std::size_t s = 0; s < layout.bodies.size();) {
    const System::CoordinateGroup group = system.coordinates(layout.bodies[s]);
    const int size = group.kinetics ? group.count : system.dof(layout.bodies[s]);
    x.block_sizes.push_back(size);
    mass += z(size) * z(size);
    s += group.kinetics ? z(group.count) : 1;
  }
  x.mass.assign(mass, 0.0);
  out.bias.assign(n, 0.0);  // It stays so for bodies.
  parts.jacobian_start.clear();
  parts.entry_runs.clear();
  parts.slot_start.clear();
  parts.slots.clear();
  x.row_start.push_back(0);
  std::size_t entries = 0, runs = 0;
  for (std::size_t i = 0; i < layout.constraints.size(); ++i) {
    for (const BodyId id : system.constraint(layout.constraints[i]).bodies()) {
      const int dof = system.dof(id);
      entries += z(dof * (layout.row[i + 1] - layout.row[i]));
      if (dof > 0) runs += z(layout.row[i + 1] - layout.row[i]);
    }
  }
  x.entries.reserve(entries);
  parts.entry_runs.reserve(runs);
  int jacobian = 0;
  for (int i = 0; i < static_cast<int>(layout.constraints.size()); ++i) {
    const Constraint& constraint = system.constraint(layout.constraints[z(i)]);
    const int rows = layout.row[z(i) + 1] - layout.row[z(i)];
    x.constraints.push_back(constraint.name());
    parts.slot_start.push_back(static_cast<int>(parts.slots.size()));
    for (const BodyId id : constraint.bodies()) parts.slots.push_back(layout.body_index(id));
    parts.jacobian_start.push_back(jacobian);
    jacobian += 6 * rows * static_cast<int>(constraint.bodies().size());
    for (int r = 0; r < rows; ++r) {
      lay_out_row(out, constraint.bodies(), i, r);
      x.row_start.push_back(static_cast<int>(x.entries.size()));
      x.row_constraint.push_back(i);
    }
  }
  parts.jacobians.assign(z(jacobian), 0.0);
  parts.laid_out = layout;
  parts.laid_out_for = system.structure();
}

// Reports a value that is not finite. NaN is written in its place, so that `solve` stops a caller that overlooks
// `failure`.
void fail(const System& system, const State& state, const Constraint& constraint, int first, int rows,
          const std::string& why, Assembly& out) {
  if (out.failure.empty()) {
    const std::string about_body = detail::what_is_not_finite(system, constraint.bodies(), state);
    out.failure = "constraint \"" + constraint.name() + "\" at t = " + std::to_string(state.t) + ": " +
                  (about_body.empty() ? why : about_body);
  }
  std::fill_n(out.problem.b.begin() + first, rows, std::numeric_limits<double>::quiet_NaN());
}

constexpr const char* not_finite = "the residual or its derivatives are not finite";
constexpr const char* point_not_finite = "its application_point is not finite";

// b −= A_k [a; α] of a body whose acceleration is given.
void subtract_given(const BodyState& s, const double* A, int rows, double* b) {
  for (int r = 0; r < rows; ++r, A += 6)
    b[r] -= A[0] * s.a[0] + A[1] * s.a[1] + A[2] * s.a[2] + A[3] * s.alpha[0] + A[4] * s.alpha[1] + A[5] * s.alpha[2];
}

// Writes the rows of stock joints, each directly to its place.
void write_stock_joints(const System& system, const State& state, detail::KeptAssembly& out) {
  auto& parts = AssemblyParts::of(out);
  const detail::StockJoints& stock = out.stock;
  double probe = 0;  // 0 times a value that is not finite is NaN.
  for (int i = 0; i < stock.count(); ++i) {
    const detail::StockJoints::Joint& joint = stock.joints[z(i)];
    const BodyState &a = state[joint.a], &b = state[joint.b];
    const Matrix3d other = joint.slot_a < 0 ? a.R() : joint.slot_b < 0 ? b.R() : Matrix3d();
    const detail::TurnedBody A{a, joint.slot_a < 0 ? other : out.turned[z(joint.slot_a)]};
    const Matrix3d both_outside = joint.slot_a < 0 && joint.slot_b < 0 ? b.R() : Matrix3d();
    const detail::TurnedBody B{b, joint.slot_b >= 0  ? out.turned[z(joint.slot_b)]
                                  : joint.slot_a < 0 ? both_outside
                                                     : other};
    const int rows = out.layout.row[z(joint.constraint) + 1] - joint.row;
    double* const J = parts.jacobians.data() + parts.jacobian_start[z(joint.constraint)];
    int at_row = 0;
    const auto row = [&](int r) {
      double* const to = J + 6 * (at_row + r);
      const std::size_t whole = z(joint.row + at_row + r);
      return detail::JointRow{to, to + 6 * rows, &out.problem.b[whole], &out.position[whole], &out.velocity[whole]};
    };
    int dots = 0;
    detail::for_each_primitive([&]<class P>(P) {
      if constexpr (std::is_same_v<P, detail::DotPrimitive>) dots = at_row;
      stock.for_each_of_joint<P>(i, [&](const auto& fixed) {
        detail::write_rows<P>(fixed, A, B, row);
        at_row += P::rows;
      });
    });
    if (out.closing && joint.alignment >= 0) {
      const JointRows::Alignment& alignment = stock.alignments[z(joint.alignment)];
      at_row = dots;
      if (const auto off = detail::misalignment(alignment, A.R, B.R); off.far)
        detail::write_misalignment(off, alignment.held(), A, B, row);
    }
    double* const right = &out.problem.b[z(joint.row)];
    if (joint.driven_a) subtract_given(a, J, rows, right);
    if (joint.driven_b) subtract_given(b, J + 6 * rows, rows, right);
    for (int r = joint.row; r < joint.row + rows; ++r)
      probe += 0 * (out.problem.b[z(r)] + (out.position[z(r)] + out.velocity[z(r)]));
  }
  if (probe == 0) return;
  for (int i = 0; i < stock.count(); ++i) {
    const detail::StockJoints::Joint& joint = stock.joints[z(i)];
    const int rows = out.layout.row[z(joint.constraint) + 1] - joint.row;
    double* const J = parts.jacobians.data() + parts.jacobian_start[z(joint.constraint)];
    const auto part = [&](std::vector<double>& all) { return std::span(all).subspan(z(joint.row), z(rows)); };
    if (numbers_are_finite(part(out.problem.b)) && numbers_are_finite(part(out.position)) &&
        numbers_are_finite(part(out.velocity)) && numbers_are_finite({J, z(12 * rows)}))
      continue;
    std::fill_n(J, 12 * rows, 0.0);
    fail(system, state, system.constraint(out.layout.constraints[z(joint.constraint)]), joint.row, rows, not_finite,
         out);
  }
}

}  // namespace

void detail::find_stock(const System& system, const IslandLayout& layout, StockJoints& stock,
                        CompliantJoints compliant) {
  stock.joints.clear();
  for_each_primitive([&]<class P>(P) { stock.primitives.of<P>().clear(); });
  stock.alignments.clear();
  stock.others.clear();
  const auto begin = [&](int i, int row) {
    StockJoints::Joint joint{.constraint = i, .row = row, .a = {}, .b = {}};
    for_each_primitive(
        [&]<class P>(P) { joint.first[index_of<P>()] = static_cast<int>(stock.primitives.of<P>().size()); });
    return joint;
  };
  for (int i = 0; i < static_cast<int>(layout.constraints.size()); ++i) {
    const Constraint& constraint = system.constraint(layout.constraints[z(i)]);
    const ForceRows* compliance = compliant == CompliantJoints::are_stock ? compliant_rows_of(constraint) : nullptr;
    const JointRows* rows = rows_of(compliance ? compliance->whole() : constraint.function());
    if (!rows) {
      stock.others.push_back(i);
      continue;
    }
    StockJoints::Joint joint = begin(i, layout.row[z(i)]);
    joint.a = constraint.bodies()[0];
    joint.b = constraint.bodies()[1];
    joint.slot_a = layout.body_index(joint.a);
    joint.slot_b = layout.body_index(joint.b);
    joint.driven_a = system.kind(joint.a) == BodyKind::kinematic;
    joint.driven_b = system.kind(joint.b) == BodyKind::kinematic;
    joint.compliance = compliance;
    stock.joints.push_back(joint);
    for_each_primitive([&]<class P>(P) {
      for (const auto& parameters : P::of(*rows)) stock.primitives.of<P>().push_back(P::geometry(parameters));
    });
    if (rows->alignment.of == JointRows::Alignment::Of::nothing) continue;
    stock.joints.back().alignment = static_cast<int>(stock.alignments.size());
    stock.alignments.push_back(rows->alignment);
  }
  stock.rigid = stock.others.empty();
  for (const BodyId id : layout.bodies) stock.rigid = stock.rigid && system.kind(id) == BodyKind::rigid;
  stock.joints.push_back(begin(static_cast<int>(layout.constraints.size()), layout.m()));
}

int IslandLayout::body_index(BodyId id) const {
  const auto found =
      std::lower_bound(bodies.begin(), bodies.end(), id, [](BodyId x, BodyId y) { return x.index < y.index; });
  return found != bodies.end() && *found == id ? static_cast<int>(found - bodies.begin()) : -1;
}

IslandLayout whole_system(const System& system) {
  IslandLayout layout;
  for (int i = 0; i < system.body_count(); ++i)
    if (const BodyId id = system.body_at(i); system.dof(id) > 0) layout.bodies.push_back(id);
  for (int i = 0; i < system.constraint_count(); ++i)
    if (const ConstraintId id = system.constraint_at(i); system.enabled(id)) layout.constraints.push_back(id);
  number(layout, system);
  return layout;
}

void lay_out_island(const System& system, std::span<const ConstraintId> constraints, IslandLayout& out) {
  out.bodies.clear();
  out.constraints.assign(constraints.begin(), constraints.end());
  for (const ConstraintId id : constraints)
    for (const BodyId body : system.constraint(id).bodies())
      if (system.dof(body) > 0) out.bodies.push_back(body);
  number(out, system);
}

std::span<const double> Assembly::jacobian(int i, int k) const {
  const int rows = layout.row[z(i) + 1] - layout.row[z(i)];
  return {parts_.jacobians.data() + parts_.jacobian_start[z(i)] + 6 * rows * k, z(6 * rows)};
}

namespace {

// Assembles one constraint by a call of its function.
void assemble_by_function(const System& system, const State& state, int i, Assembly& out) {
  auto& parts = AssemblyParts::of(out);
  ConstrainedProblem& x = out.problem;
  const IslandLayout& layout = out.layout;
  const Constraint& constraint = system.constraint(layout.constraints[z(i)]);
  const auto bodies = constraint.bodies();
  const int first = layout.row[z(i)], rows = layout.row[z(i) + 1] - first;
  const auto width = 6 * bodies.size();
  parts.rows.assign(z(rows) * width, 0.0);
  for (auto* values : {&x.b, &out.position, &out.velocity}) std::fill_n(values->begin() + first, rows, 0.0);
  gather(system, state, bodies, parts.states);

  const auto part = [&](std::vector<double>& all) { return std::span(all).subspan(z(first), z(rows)); };
  const char* fault = nullptr;
  std::string what;
  try {
    constraint.function().linearize(parts.states, state.t,
                                    {parts.rows, part(x.b), part(out.position), part(out.velocity)});
    double probe = Eigen::Map<const Eigen::VectorXd>(parts.rows.data(), static_cast<Eigen::Index>(rows * 6) *
                                                                            static_cast<Eigen::Index>(bodies.size()))
                       .sum();
    for (int r = first; r < first + rows; ++r) probe += x.b[z(r)] + (out.position[z(r)] + out.velocity[z(r)]);
    if (!std::isfinite(probe) && (!numbers_are_finite(parts.rows) || !numbers_are_finite(part(x.b)) ||
                                  !numbers_are_finite(part(out.position)) || !numbers_are_finite(part(out.velocity)))) {
      fault = not_finite;
    }
  } catch (const std::exception& e) {
    fault = "the residual threw: ";
    what = e.what();
  } catch (...) {
    fault = "the residual threw an exception that is not a std::exception";
  }
  if (!fault && constraint.application_point_moves()) try {
      if (!constraint.application_point(0, state).allFinite()) fault = point_not_finite;
    } catch (const std::exception& e) {
      fault = "its application_point threw: ";
      what = e.what();
    } catch (...) {
      fault = "its application_point threw an exception that is not a std::exception";
    }
  if (fault) {
    std::fill(parts.rows.begin(), parts.rows.end(), 0.0);
    fail(system, state, constraint, first, rows, fault + what, out);
  }

  const double* from = parts.rows.data();
  double* const J = parts.jacobians.data() + parts.jacobian_start[z(i)];
  for (int r = 0; r < rows; ++r) {
    double* to = J + 6 * r;
    for (std::size_t k = 0; k < bodies.size(); ++k, from += 6, to += 6 * rows)
      for (int j = 0; j < 6; ++j) to[j] = from[j];
  }
}

// Sets all that does not depend on constraints. @return whether there is anything to assemble
bool begin(const System& system, const State& state, Assembly& out) {
  out.failure.clear();
  if (state.bodies.size() != z(system.body_count())) {
    out.problem.clear();
    out.failure = "the state has " + std::to_string(state.bodies.size()) + " bodies, but the system has " +
                  std::to_string(system.body_count()) + ". Use system.initial_state()";
    return false;
  }
  out.problem.t = state.t;
  for (auto* rows : {&out.problem.b, &out.position, &out.velocity}) rows->resize(z(out.layout.m()));
  return true;
}

// Copies the jacobian columns of movable bodies to the entries of A.
void fill_entries(Assembly& out) {
  auto& parts = AssemblyParts::of(out);
  ConstrainedProblem::Entry* entry = out.problem.entries.data();
  for (const auto& run : parts.entry_runs) {
    const double* const from = parts.jacobians.data() + run.source;
    if (run.length == 6) {
      for (int j = 0; j < 6; ++j) entry[j].value = from[j];
      entry += 6;
      continue;
    }
    for (int j = 0; j < run.length; ++j, ++entry) entry->value = from[j];
  }
}

}  // namespace

void assemble_constraints(const System& system, const State& state, Assembly& out) noexcept {
  if (state.bodies.size() == z(system.body_count()) && !laid_out(system, out)) lay_out(system, out);
  if (!begin(system, state, out)) return;
  fill_masses(system, state, out, nullptr);
  for (int i = 0; i < static_cast<int>(out.layout.constraints.size()); ++i) assemble_by_function(system, state, i, out);
  fill_entries(out);
}

namespace detail {

void assemble_constraints(const System& system, const State& state, KeptAssembly& out) noexcept {
  if (state.bodies.size() == z(system.body_count()) && !laid_out(system, out)) {
    lay_out(system, out);
    find_stock(system, out.layout, out.stock);
    out.turned.resize(out.layout.bodies.size());
  }
  if (!begin(system, state, out)) return;
  fill_masses(system, state, out, out.turned.data());
  write_stock_joints(system, state, out);
  for (const int i : out.stock.others) assemble_by_function(system, state, i, out);
  fill_entries(out);
}

}  // namespace detail

void assemble_forces(const System& system, const State& state, Assembly& out) noexcept {
  auto& parts = AssemblyParts::of(out);
  ConstrainedProblem& x = out.problem;
  const IslandLayout& layout = out.layout;
  if (state.bodies.size() != z(system.body_count())) return;  // assemble_constraints() has reported it.
  x.Q.assign(z(layout.n()), 0.0);
  x.c.assign(z(layout.n()), 0.0);
  parts.potential_forces.clear();
  const auto add = [&](std::vector<double>& to, BodyId id, int from, const Vector3d& u) {
    double* Q = to.data() + layout.column[z(layout.body_index(id))] + from;
    for (int j = 0; j < std::min(3, system.dof(id)); ++j) Q[j] += u[j];
  };
  for (std::size_t s = 0; s < layout.bodies.size(); ++s) {  // (T2)
    const BodyId id = layout.bodies[s];
    if (system.kind(id) == BodyKind::coordinate) {
      x.Q[z(layout.column[s])] = -out.bias[z(layout.column[s])];
      continue;
    }
    Eigen::Map<Vector3d>(&x.Q[z(layout.column[s])]) = system.mass(id) * system.gravity();
    if (system.dof(id) == 6)
      Eigen::Map<Vector3d>(&x.Q[z(layout.column[s] + 3)]) = system.gyroscopic_torque(id, state[id]);
  }
  for (const Force& force : system.forces()) {
    const auto bodies = force.bodies();
    const auto ours = [&](BodyId id) { return layout.body_index(id) >= 0; };
    if (std::none_of(bodies.begin(), bodies.end(), ours)) continue;
    gather(system, state, bodies, parts.states);
    parts.wrenches.assign(bodies.size(), Eigen::Matrix<double, 6, 1>::Zero());
    std::string what;
    bool failed = false;
    try {
      ForceFrame frame(state.t, parts.states, parts.wrenches);
      force.act(frame);
      failed = std::any_of(parts.wrenches.begin(), parts.wrenches.end(), [](const auto& w) { return !w.allFinite(); });
      if (failed) what = "it is not finite";
    } catch (const std::exception& e) {
      failed = true;
      what = std::string("it threw: ") + e.what();
    } catch (...) {
      failed = true;
      what = "it threw an exception that is not a std::exception";
    }
    if (failed) {
      if (out.failure.empty())
        out.failure = "force \"" + force.name() + "\" at t = " + std::to_string(state.t) + ": " + what;
      std::fill(x.Q.begin(), x.Q.end(), std::numeric_limits<double>::quiet_NaN());
      return;
    }
    const auto add_all = [&](std::vector<double>& to) {
      for (std::size_t k = 0; k < bodies.size(); ++k) {
        if (!ours(bodies[k])) continue;
        add(to, bodies[k], 0, parts.wrenches[k].head<3>());
        if (system.dof(bodies[k]) == 6) add(to, bodies[k], 3, parts.wrenches[k].tail<3>());
      }
    };
    add_all(x.Q);
    if (!has_potential_of_bodies(system, force)) continue;
    parts.potential_forces.resize(x.Q.size());
    add_all(parts.potential_forces);
  }
}

ConstrainedProblem assemble(const System& system, const State& state) {
  Assembly assembly;
  assembly.layout = whole_system(system);
  assemble_constraints(system, state, assembly);
  assemble_forces(system, state, assembly);
  return std::move(assembly.problem);
}

}  // namespace linchpin
