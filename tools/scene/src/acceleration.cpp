// Accelerations for channels, from what a run knows of the forces at a state.
#include "channel.h"

#include <linchpin/report.h>

#include <Eigen/Cholesky>

#include <limits>

namespace linchpin::scene {

namespace {

// Adds the wrench on a body, about its centre of mass, to the generalized forces of its columns.
void add_to(Eigen::VectorXd& Q, Eigen::Index column, BodyKind kind, const BodyState& body, const Wrench& on) {
  if (kind == BodyKind::coordinate) {
    Q[column] += on.force.x();
    return;
  }
  Q.segment<3>(column) += on.force;
  if (kind == BodyKind::rigid) Q.segment<3>(column + 3) += on.about(body.p).moment;
}

}  // namespace

void Accelerations::evaluate(const Observation& at) {
  assembly_.layout = whole_system(at.system);
  assemble_constraints(at.system, at.state, assembly_);
  assemble_forces(at.system, at.state, assembly_);
  const ConstrainedProblem& problem = assembly_.problem;
  const double none = std::numeric_limits<double>::quiet_NaN();
  Eigen::VectorXd Q = Eigen::Map<const Eigen::VectorXd>(problem.Q.data(), problem.n());
  bool known = assembly_.failure.empty() && (!at.reactions.empty() || assembly_.layout.constraints.empty());
  for (const Reaction& r : at.reactions) {
    const ConstraintId id = at.system.find_constraint(r.name);
    if (id.index < 0) continue;
    known = known && !r.native;
    const auto bodies = at.system.constraint(id).bodies();
    for (std::size_t k = 0; k < bodies.size(); ++k) {
      const int slot = assembly_.layout.body_index(bodies[k]);
      if (slot >= 0)
        add_to(Q, assembly_.layout.column[static_cast<std::size_t>(slot)], at.system.kind(bodies[k]),
               at.state[bodies[k]], r.on(static_cast<int>(k)));
    }
  }
  a_.resize(Q.size());
  Eigen::Index column = 0, entry = 0;
  for (const int size : problem.block_sizes) {
    const Eigen::Map<const Eigen::MatrixXd> M(problem.mass.data() + entry, size, size);
    const Eigen::LDLT<Eigen::MatrixXd> factor(M);
    const bool regular = known && factor.info() == Eigen::Success && factor.vectorD().minCoeff() > 0;
    if (regular)
      a_.segment(column, size) = factor.solve(Q.segment(column, size));
    else
      a_.segment(column, size).setConstant(none);
    column += size, entry += size * size;
  }
}

Vector6 Accelerations::of(const Observation& at, BodyId id) const {
  Vector6 out = Vector6::Zero();
  const int slot = assembly_.layout.body_index(id);
  if (slot < 0) {  // moves as prescribed, or not at all
    out << at.state[id].a, at.state[id].alpha;
    return out;
  }
  const Eigen::Index column = assembly_.layout.column[static_cast<std::size_t>(slot)];
  out.head(at.system.dof(id)) = a_.segment(column, at.system.dof(id));
  return out;
}

}  // namespace linchpin::scene
