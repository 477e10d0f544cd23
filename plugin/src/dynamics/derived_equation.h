// The derived equation at a state: changes of the solution from changes of the parts of the equation, and the
// transposed solution (T18). Private to the core.
#pragma once

#include "dynamics/equation_partials.h"
#include "math/central_difference.h"

#include <linchpin/derivatives.h>

#include <Eigen/Core>

#include <span>
#include <vector>

namespace linchpin {

/// The solution changes with the efforts of laws, and these with the solution. Efforts that read the coupled normal
/// force, or that stick, are the unknowns of a small dense system. Its inverse is kept.
class DerivedEquation {
 public:
  /// Prepares the solutions at the state of the solution. @param here  the equation there, assembled.
  /// @throws std::invalid_argument  the efforts of laws have no unique change
  void prepare(const Dynamics& dynamics, const State& state, const KeptSolution& solution, const EquationParts& parts,
               EquationPartials& here);

  /// @param change  of the parts. @param force  [n] change of the applied force, or empty.
  void forward(std::span<const double> change, std::span<const double> force, OutputChange& out);
  /// @param weights  of the solution. @param of_parts  out: their effect by parts. @param of_force  [n] out.
  void reverse(const OutputWeights& weights, std::span<double> of_parts, std::span<double> of_force);

 private:
  /// How the effort at a constraint with laws, and the slip accelerations, change with multipliers of its rows.
  struct Reading {
    int site = 0, first_row = 0, rows = 0;
    bool reads_ideal = false;           // `effort_by_ideal` is not zero.
    Eigen::MatrixXd effort_by_ideal;    // [6 × rows] by the multipliers of Q^N.
    Eigen::MatrixXd slip_by_ideal;      // [sticking × rows] The free directions of rolling friction depend on them.
    Eigen::MatrixXd effort_by_coupled;  // [6 × rows] by all multipliers.
    std::vector<double> forces;         // [6 × n] Generalized force of each unit effort.
  };
  /// An unknown effort of unit size.
  struct Unknown {
    std::vector<double> force;         // [n] Its generalized force.
    std::vector<double> vdot, lambda;  // [n] and [m] Response to it.
    int reading = -1;                  // Index of the reading of its constraint.
    bool sticks = false;               // Otherwise it changes with the coupled normal force.
    Eigen::VectorXd reads;             // [rows] That change with the multipliers of the rows.
  };

  void find_outside_range();
  void find_readings(const State& state, EquationPartials& here);
  void differentiate_readings(const LawSolver::Scene& scene, LawPartials& laws, bool coupled);
  void add_reading_unknowns();
  void add_sticking_unknowns(const LawSolver::Scene& scene, LawPartials& laws);
  void invert_coupling();
  [[noreturn]] void fail_without_unique_efforts() const;
  void solve(std::span<double> f, std::span<const double> g, std::span<double> x, std::span<double> y);
  void add_outside_range(double factor, std::span<const double> k, std::span<double> y);
  const ConstrainedProblem& problem() const { return dynamics_->assembly().problem; }

  const Dynamics* dynamics_ = nullptr;
  const KeptSolution* solution_ = nullptr;
  EquationParts parts_;
  std::vector<Reading> readings_;
  std::vector<Unknown> unknowns_;
  Eigen::MatrixXd coupling_;       // Inverse of the small system.
  Eigen::MatrixXd outside_range_;  // Orthonormal basis of what is outside the range of A, with redundant rows.
  detail::CentralDifference difference_;
  // Work memory.
  std::vector<double> f_, g_, x_, y_, ideal_y_, e_, scale_, dv_, row_;
  Eigen::VectorXd right_, efforts_, outside_;
  Eigen::Matrix<double, 6, 1> effort_;
};

}  // namespace linchpin
