#include "host/compliance.h"

#include "host/body_vectors.h"
#include "host/reactions.h"
#include "host/tuning.h"
#include "model/force_rows.h"
#include "model/stock_joints.h"

#include <linchpin/projection.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace linchpin::host {

using linchpin::detail::compliant_rows_of;
using linchpin::detail::ForceRows;
using SpringImpulse = linchpin::detail::JointIsland::SpringImpulse;
using Spring = linchpin::detail::JointIsland::Spring;

bool is_stock_joint(const Constraint& constraint) {
  const ForceRows* const springs = compliant_rows_of(constraint);
  return linchpin::detail::rows_of(springs ? springs->whole() : constraint.function()) != nullptr;
}

bool has_compliance(const Constraint& constraint) { return compliant_rows_of(constraint) != nullptr; }

bool has_compliance(const Context& c, const ConstraintEntry& entry) {
  return entry.id.index >= 0 && has_compliance(c.system.constraint(entry.id));
}

namespace {

/// Calls visit(constraint, springs, impulses) for each constraint of an island that has springs.
template <class Visit>
void for_each_with_springs(Island& b, std::span<const SpringImpulse> impulses, const Visit& visit) {
  const auto springs = b.fast.kernel.springs();
  for (std::size_t first = 0, end = 0; first < springs.size(); first = end) {
    while (end < springs.size() && springs[end].constraint == springs[first].constraint) ++end;
    visit(springs[first].constraint, springs.subspan(first, end - first), impulses.subspan(first, end - first));
  }
}

/// Returns the term of the law of compliance that belongs to a row. There is one for each spring, in the order of rows.
int term_of(const ForceRows& forces, int row) {
  const auto exact_before = std::count_if(forces.exact().begin(), forces.exact().end(), [&](int r) { return r < row; });
  return row - static_cast<int>(exact_before);
}

}  // namespace

void record_springs(Context& c, Island& b) {
  (void)c.laws.all(c.constraints);  // in their order
  const auto& done = b.step.division == Division::substeps ? b.fast.spring_sums : b.fast.springs;
  for_each_with_springs(
      b, done, [&](int constraint, std::span<const Spring> springs, std::span<const SpringImpulse> impulses) {
        ConstraintEntry& r = c.constraints[b.topology.entries[z(constraint)]];
        const Constraint& of = c.system.constraint(r.id);
        const ForceRows& forces = *compliant_rows_of(of);
        const Vector3d centre = c.bodies.start[of.bodies()[0]].p, point = of.application_point(0, c.bodies.start);
        double work = 0;
        for (std::size_t i = 0; i < springs.size(); ++i) {
          work += impulses[i].work;
          for (LawWork& law : c.laws.of(r)) {
            if (law.law != 0 || law.term != term_of(forces, springs[i].row)) continue;
            law.last = impulses[i].work;
            const Vector6 f = impulses[i].on[0] / c.dt;
            law.force = Wrench{f.head<3>(), f.tail<3>(), centre}.about(point);
            law.power = law.last / c.dt;
            law.end_step(c.dt);
          }
        }
        if (!b.report.work_in_balance) c.reactions.add_work(r, work);
      });
}

void write_spring_stabilisation(Context& c, Island& b) {
  for_each_with_springs(
      b, b.fast.springs, [&](int constraint, std::span<const Spring>, std::span<const SpringImpulse> impulses) {
        Reaction& r = c.reactions[c.constraints[b.topology.entries[z(constraint)]].reaction];
        const auto bodies = c.system.constraint(b.topology.ids[z(constraint)]).bodies();
        for (int k = 0; k < 2; ++k) {
          Vector6 f = Vector6::Zero();
          for (const SpringImpulse& spring : impulses) f += spring.on[z(k)] / c.dt;
          const Vector3d point = r.ideal.on(k).point;
          const Wrench of_step = Wrench{f.head<3>(), f.tail<3>(), c.bodies.start[bodies[z(k)]].p}.about(point);
          const Wrench at_start = r.prescribed.on(k).about(point);
          Wrench& to = r.stabilisation.on(k);
          to.force += of_step.force - at_start.force;
          to.moment += of_step.moment - at_start.moment;
        }
      });
}

// ---- compliance where exact rows cannot bear the load ----

namespace {

/// Computes the error of the rows at the end of a step that keeps to them to first order. Returns the part of it that
/// no velocity can correct, because it is outside the range of A (T6, T12). A straight chain between two fixed points
/// lengthens by such an error.
std::vector<double> unreachable_error(const Context& c, Island& b) {
  Dynamics& dynamics = start_problem(c, b);
  const Assembly& assembly = dynamics.assembly();
  const IslandLayout& layout = b.layout();
  std::vector<double> v(z(layout.n())), error(z(layout.m())), reached(z(layout.m()));
  read_velocities(layout, c.bodies.start, v);
  for (std::size_t j = 0; j < v.size(); ++j) v[j] += c.dt * dynamics.vdot()[j];
  State end = c.bodies.start;
  for (std::size_t slot = 0; slot < b.slots(); ++slot) {
    const int column = layout.column[slot];
    const bool turns = host::turns(layout, slot);
    advance(end[layout.bodies[slot]], head(v, column), turns ? head(v, column + 3) : Vector3d(0, 0, 0), c.dt);
  }
  row_velocities(assembly, v, reached);
  std::vector<BodyState> X;
  for (std::size_t i = 0; i < b.topology.ids.size(); ++i) {
    const Constraint& constraint = c.system.constraint(b.topology.ids[i]);
    if (constraint.function().level() != Level::position) continue;
    X.clear();
    for (const BodyId id : constraint.bodies()) X.push_back(end[id]);
    const std::size_t row = z(layout.row[i]), rows = z(layout.row[i + 1]) - row;
    constraint.function().residual(X, c.t + c.dt, std::span(error).subspan(row, rows));
    for (std::size_t r = row; r < row + rows; ++r) error[r] -= assembly.position[r] + c.dt * reached[r];
  }
  std::vector<double> change(v.size());
  dynamics.solver().solve_unrefined(error, {}, {}, change);  // M⁻¹Aᵀ G⁺ error
  row_velocities(assembly, change, reached);
  for (std::size_t r = 0; r < error.size(); ++r) error[r] -= reached[r];
  return error;
}

/// The largest magnitudes of the rows of a constraint: of those in radians, and of the others.
struct Share {
  double linear = 0, angular = 0;
  double most() const { return std::max(linear, angular); }
};

std::vector<Share> by_constraint(const Context& c, const Island& b, std::span<const double> rows) {
  std::vector<Share> largest(b.topology.ids.size());
  for (std::size_t i = 0; i < largest.size(); ++i) {
    const ConstraintFunction& function = c.system.constraint(b.topology.ids[i]).function();
    const int first = b.layout().row[i];
    for (int r = first; r < b.layout().row[i + 1]; ++r) {
      double& to = function.unit(r - first) == RowUnit::radian ? largest[i].angular : largest[i].linear;
      to = std::max(to, std::abs(rows[z(r)]));
    }
  }
  return largest;
}

double largest_of(std::span<const Share> shares) {
  double most = 0;
  for (const Share& share : shares) most = std::max(most, share.most());
  return most;
}

/// Returns the compliance of a constraint whose rows yield where their share is above `least`. Stiffness that the
/// program has not given moves the bodies by a hundredth of what they would move in a step without the row.
Compliance compliance_for(const Context& c, const Island& b, std::size_t constraint, const Share& share, double least) {
  double mass = std::numeric_limits<double>::infinity(), inertia = mass;
  for (const BodyId id : c.system.constraint(b.topology.ids[constraint]).bodies()) {
    if (c.system.dof(id) == 0) continue;
    mass = std::min(mass, c.system.mass(id));
    if (c.system.kind(id) == BodyKind::rigid) inertia = std::min(inertia, c.system.inertia(id).diagonal().minCoeff());
  }
  const Compliance& given = *c.options.automatic_compliance;
  const auto stiffness_of = [&](double chosen, double moved) {
    return std::isinf(chosen) ? tuning::yielding_stiffness * moved / (c.dt * c.dt) : chosen;
  };
  Compliance compliance;
  if (share.linear > least) {
    compliance.stiffness = stiffness_of(given.stiffness, mass);
    compliance.damping = given.damping;
  }
  if (share.angular > least) {
    compliance.angular_stiffness = stiffness_of(given.angular_stiffness, inertia);
    compliance.angular_damping = given.angular_damping;
  }
  return compliance;
}

bool can_yield(const Context& c, const ConstraintEntry& r) {
  const Constraint& constraint = c.system.constraint(r.id);
  return r.owner != ConstraintEntry::Owner::locked_axes && r.laws.empty() && !r.unilateral.on &&
         constraint.bodies().size() <= 2 && constraint.function().level() == Level::position;
}

}  // namespace

void choose_yielding_constraints(Context& c, Island& b) {
  if (!c.options.automatic_compliance || !b.step.outcome.no_step_keeps_rows || b.layout().m() == 0) return;
  b.step.problem_is_current = false;  // substeps have overwritten it
  b.step.division = Division::whole;
  std::vector<Share> shares = by_constraint(c, b, unreachable_error(c, b));
  if (!(largest_of(shares) > tuning::unreachable_rounding))  // Rows nearly depend on each other: by the largest loads.
    shares = by_constraint(c, b, b.dynamics->lambda());
  const double least = tuning::yielding_share * largest_of(shares);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const int entry = b.topology.entries[i];
    if (shares[i].most() > least && can_yield(c, c.constraints[entry]))
      c.yielding.push_back({entry, c.constraints[entry].version, compliance_for(c, b, i, shares[i], least)});
  }
}

}  // namespace linchpin::host
