// Efforts of laws at states beside a solution, with the multipliers, modes and internal states of the solution (T18).
// Derivatives differentiate them. Private to the core.
#pragma once

#include "force_laws/law_solver.h"

#include <linchpin/law_report.h>

#include <span>
#include <vector>

namespace linchpin {

/// The reports of the laws at a solution.
struct LawSolution {
  std::span<const LawForce> forces;
  std::span<const FrictionElement> elements;
  std::span<const double> internal_state;
  std::span<const Vector6> senses;  ///< By element: the direction of sliding that was given, zero for none.
};

/// The state of the laws of a solution, which they have at states beside it, too.
struct KeptLaws {
  enum class Kind : unsigned char { smooth, slides, sticks };
  /// A term of a law, by index of Dynamics::law_forces().
  struct Term {
    Kind kind = Kind::smooth;
    bool reads_coupled = false;         ///< It receives the normal force with all laws.
    Vector6 effort = Vector6::Zero();   ///< Effort of a sticking term.
    Vector6 sense = Vector6::Zero();    ///< Given direction of sliding. Zero: along the slip.
    Eigen::Matrix<double, 6, 6> basis;  ///< Directions of a sticking term, the first dim columns.
    int constraint = 0, dim = 0;        ///< Index of its constraint, and number of those directions.
  };
  std::vector<Term> terms;
  std::vector<double> internal_state;  ///< Three numbers of each term that has one.
  int sticking = 0;                    ///< Number of directions of all sticking terms.
  bool any_coupled = false;            ///< An effort may depend on the normal force with all laws.
  bool any_frictionless = false;       ///< An effort or a direction may depend on that without laws.
  bool directions_read = false;        ///< A direction of sliding may depend on that without laws.
  bool empty() const { return terms.empty(); }
};

/// Evaluates the laws of one system at states beside a solution. It serves one system, one layout and one thread.
class LawPartials {
 public:
  void restructure(const IslandLayout& layout) { laws_.restructure(layout); }
  /// Stores the modes and internal states of a solution. @param scene  at its state
  void keep(const LawSolver::Scene& scene, const LawSolution& solution, KeptLaws& out);
  /// Evaluates all laws. @param scene  at any state, with the multipliers of Q^N. @param induced  [m] further
  /// multipliers of the coupled normal force. @param vdot  [n] accelerations of the solution.
  void evaluate(const LawSolver::Scene& scene, const KeptLaws& kept, std::span<const double> vdot,
                std::span<const double> induced);

  /// Evaluates all laws at the state of the last evaluate(), with other multipliers.
  void evaluate_at_multipliers(const LawSolver::Scene& scene, const KeptLaws& kept, std::span<const double> vdot,
                               std::span<const double> induced);

  // Results of the last evaluation.
  int site_count() const { return static_cast<int>(laws_.sites_.size()); }  ///< Number of constraints with laws.
  /// Index of the constraint of a site.
  int constraint_of(int site) const { return laws_.sites_[static_cast<std::size_t>(site)].constraint; }
  /// Sum of the efforts of a site: force and moment about its point on the first body.
  const Vector6& effort(int site) const { return laws_.sites_[static_cast<std::size_t>(site)].effort; }
  /// Slip accelerations of all sticking terms, along their directions at the solution.
  std::span<const double> slip_accelerations() const { return slip_accelerations_; }
  /// f += generalized force [n] of an effort at a site.
  void add(const LawSolver::Scene& scene, int site, const Vector6& effort, std::span<double> f) const {
    laws_.add(scene, laws_.sites_[static_cast<std::size_t>(site)], effort, f);
  }
  /// Index of the site of a constraint.
  int site_of(int constraint) const;

 private:
  void add_laws(const LawSolver::Scene& scene, const KeptLaws& kept, std::span<const double> vdot,
                std::span<const double> induced);
  void add_smooth(const LawSolver::Scene& scene, const KeptLaws& kept);
  void add_dry(const LawSolver::Scene& scene, const KeptLaws& kept, std::span<const double> vdot);
  void add_sticking(const LawSolver::Scene& scene, const KeptLaws::Term& term, const LawSolver::UnknownTerm& p,
                    std::span<const double> vdot);

  LawSolver laws_;
  std::vector<Vector6> compliance_;  // By site: efforts that do not depend on reactions.
  std::vector<double> slip_accelerations_;
};

}  // namespace linchpin
