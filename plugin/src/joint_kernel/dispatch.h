// Connects JointIsland with its solvers, which are compiled for several processors: the data of an island, the
// interfaces of the solvers, and the functions that make them.
#pragma once

#include "joint_kernel/joint_island.h"
#include "joint_kernel/symbolic.h"

#include <memory>
#include <span>
#include <vector>

namespace linchpin::detail {

/// The data of one island. Everything else belongs to its symbolic factor or to its state.
struct JointIslandData {
  unsigned long version = 0;   ///< changes whenever the data do, and is never that of another island
  std::vector<BodyId> bodies;  ///< in the order of the symbolic factor
  struct Mass {
    double mass, inverse_mass, least_inertia;
    Vector3d inertia, inverse_inertia;
  };
  std::vector<Mass> masses;                  ///< of the bodies that move
  std::vector<JointIsland::Spring> springs;  ///< of the compliant rows, in the order of the symbolic factor
  std::vector<double> geometry;  ///< members of P::Geometry of all primitives, in the order of the symbolic factor
};

/// Steps of islands of one symbolic factor, in memory of its own.
class JointSolver {
 public:
  virtual ~JointSolver() = default;
  /// @param jobs  as many as the solver has lanes
  virtual void solve(const State& state, const JointIsland::Limits& limits, std::span<JointIsland::Job> jobs) = 0;
};

/// A step of one island that is coupled with rows of the host, as JointIsland has it.
class CoupledStep {
 public:
  virtual ~CoupledStep() = default;
  virtual JointIsland::Refusal factor(const State& state, const JointIslandData& island, double dt,
                                      double gap_tolerance) = 0;
  virtual double find_start_velocities(double dt, double tolerance, int max_solves, std::span<const double> applied,
                                       std::span<const double> forces, std::span<double> v) = 0;
  virtual void find_linearized_start_velocities(double time, std::span<const double> applied, std::span<double> v) = 0;
  virtual void project(std::span<double> v) = 0;
  virtual bool composite_body(JointIsland::CompositeMass& to) const = 0;
  virtual void select_response_bodies(std::span<const int> bodies) = 0;
  virtual void find_impulse_responses(std::span<const JointIsland::Impulse> impulses, double* to) = 0;
  virtual void solve_end_of_step(const JointIsland::Limits& limits, JointIsland::Job& job) = 0;
};

/// Solvers for the best instructions that this processor has.
std::unique_ptr<JointSolver> make_joint_solver(const SymbolicFactor& pattern);
std::unique_ptr<JointSolver> make_four_lane_joint_solver(const SymbolicFactor& pattern);
std::unique_ptr<CoupledStep> make_coupled_step(const SymbolicFactor& pattern);
#if defined(__x86_64__)
std::unique_ptr<JointSolver> make_joint_solver_avx2(const SymbolicFactor& pattern);
std::unique_ptr<JointSolver> make_four_lane_joint_solver_avx2(const SymbolicFactor& pattern);
std::unique_ptr<CoupledStep> make_coupled_step_avx2(const SymbolicFactor& pattern);
#endif

}  // namespace linchpin::detail
