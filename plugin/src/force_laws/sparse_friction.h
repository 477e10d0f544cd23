// The friction problem of a large mechanism, in the sparse structure of its constraints (T10). Its unknowns are those
// of FrictionProblem. The response of slips to efforts is not stored as a matrix. The first Newton iteration factors
// the rows of the constraints and those of the efforts together. Later ones factor what has changed. The cost of an
// iteration is at most proportional to the number of joints where they form trees. The class contains no laws, and
// calls them through FrictionProblem::Laws. It is private to the core.
#pragma once

#include "force_laws/friction_problem.h"
#include "math/second_order_cone.h"
#include "problem/sparse_factorization.h"

#include <linchpin/problem.h>

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace linchpin::detail {

class SparseFriction {
 public:
  using Block = FrictionProblem::Block;
  using Laws = FrictionProblem::Laws;
  /// The direction of one effort: its force on the columns of one body, or of two.
  struct Direction {
    struct Part {
      int column = -1, size = 0;  // A size of 0 means no such body.
      Six force{};
    };
    std::array<Part, 2> parts;
    int constraint = 0;   // Index of the constraint beside which it lies.
    bool acts = true;     // It is an unknown of the problem. Others only keep the structure the same from step to step.
    double mobility = 0;  // Change of its slip by a unit effort if nothing but its bodies' inertia resisted.
  };
  struct Result {
    bool found = false;
    double residual = 0;    // Residual of the laws, relative to the largest effort.
    int worst = -1;         // Block with that residual.
    double worst_size = 0;  // That residual, not relative.
    int solves = 0, factorizations = 0;
  };

  /// Begins a problem. Both arguments must exist as long as the problem is used.
  /// @param step  time over which efforts act on slips [s]; 1 for rates of slips
  void reset(const ConstrainedProblem& constraints, std::vector<Block>& blocks, double step);
  std::vector<Direction> directions;  // Directions that act are in the order of the unknowns.
  std::vector<double> last_slips;     // Slips at the solution that z is from, by unknown. Empty: not known.

  /// Solves all blocks, which read the reaction `known`. The iteration starts at the efforts z. `solver` and `slip0`
  /// must exist until the next call.
  /// @param solver  the factor of the constraints alone
  /// @param slip0  slips without efforts  @param z  in and out
  /// @param slips  slips at efforts z, if these are the efforts of the last solution. Empty: not known
  Result solve(Laws& laws, const ConstraintFactorization& solver, std::span<const double> slip0, std::span<double> z,
               std::span<const double> slips = {});
  /// Linearises the blocks at the solution z, for respond().
  void linearize(Laws& laws, std::span<const double> z);
  /// Completes Δz so that the linearised blocks are satisfied where the slips have changed by `slips`, the effect of Δz
  /// included. @return false where that failed
  bool respond(std::span<const double> slips, std::span<double> dz);

  /// Returns true if the laws read the reactions at the solution itself.
  bool reads_at_solution() const { return reads_at_solution_; }
  /// Slips at the solution.
  double slip(int i) const { return slips_[static_cast<std::size_t>(i)]; }

 private:
  /// A block in its linearised form (1 − d) Δz + d/γ Δu = −F in directions q. γ is the mobility of the block. d is 1
  /// where the block sticks, and 0 where its effort does not depend on its slip.
  struct Linear {
    Square axes{};  // q, as columns.
    Six d{};
    Six scale{};          // Factor of F, for blocks whose residual is not in the form above.
    bool sticks = false;  // q, d and the scale are those of a block that sticks.
  };
  /// A dry block in the interior-point method. Bound and effort form the vector (r, z). The vector of the slip is
  /// (t, slip). Both are inside the second-order cone. At the solution their Jordan product is zero.
  struct Cone {
    bool inside = false;  // False for blocks without such a bound.
    double bound = 0;     // r, as used; it follows the bound of the law.
    double top = 0;       // t
    double top_step = 0;
    double kept_top = 0;    // t at the last point.
    ConeScaling scaling;    // At the start of the step.
    ConeVector correction;  // Second-order term of Mehrotra.
  };
  /// The place of the active-set method between the problem that its start solves and the present one.
  struct Path {
    std::vector<double> slips, slip_steps;  // By unknown: slips there, and the step that leads to the present problem.
    std::vector<double> bounds;             // By block.
    std::vector<double> parts;              // By block: part of the step after which it contradicts its mode.
    std::vector<double> contradictions;     // By block: see contradiction_at_end().
    bool has_changed = false;               // The last step changed modes.
  };
  struct WholeSteps {
    int count = 0, fewest = 0, misses = 0;
    bool make_progress(int contradictions);
  };
  struct Margins {
    double bound = 0, slip = 0;
    double ratio() const { return bound < slip ? bound / slip : slip / bound; }
  };
  /// Returns true for dry blocks that may stick or slide.
  static bool has_modes(const Block& b) { return !b.is_smooth() && b.guidance == Block::Guidance::free; }
  std::size_t index_of(int unknown) const {
    return static_cast<std::size_t>(by_unknown_[static_cast<std::size_t>(unknown)]);
  }
  const Direction& direction(int unknown) const { return directions[index_of(unknown)]; }
  void add_forces(std::span<const double> z, std::span<double> force) const;
  void lay_out();
  static void set_sticking(Linear& to, std::size_t dim);
  void write_rows(std::size_t block);
  /// Linear blocks that differ by less are not factored again. Between changes of modes they may differ more.
  static constexpr double same = 1e-3, similar = 0.1;
  static bool hardly_differ(const Linear& a, const Linear& b, double same);
  bool factor(Result& result, double same);
  void take_step(double part, std::span<double> z);
  // The active-set method (sparse_friction_active_set.cpp).
  enum class Reactions { fixed, follow };
  bool follow_active_set(Laws& laws, std::span<double> z, Result& result, Reactions reactions, int most);
  double read_reactions(Laws& laws);
  void find_static_bounds(Laws& laws, std::span<const double> z);
  bool may_hold_more(Laws& laws, std::size_t block) const;
  void mark_rest(std::span<const double> z);
  void begin_active_set(Laws& laws, std::span<const double> z);
  void add_missing_slips();
  double part_to_contradiction(std::size_t block, std::span<const double> z, double tolerance) const;
  double contradiction_at_end(std::size_t block, std::span<const double> z, double tolerance) const;
  int change_modes_at_end(std::span<const double> z, double tolerance);
  double change_contradicted_modes(std::span<const double> z, double tolerance);
  bool take_part(double part, std::span<double> z);
  bool is_factored_in_modes() const;
  // The interior-point method (sparse_friction_cones.cpp).
  bool follow_central_path(Laws& laws, std::span<double> z, Result& result);
  void enter_cones(Laws& laws, std::span<double> z);
  void update_cone_bounds(Laws& laws, std::span<double> z, double gap);
  bool find_central_step(Laws& laws, std::span<const double> z, double gap, Result& result);
  void find_cone_step(std::span<const double> z, double target, bool corrects);
  ConeVector cone_effort(std::size_t block, std::span<const double> z) const;
  ConeVector cone_slip(std::size_t block) const;
  ConeVector cone_effort_step(std::size_t block) const;
  ConeVector cone_slip_step(std::size_t block) const;
  double mean_gap(std::span<const double> z, double part) const;
  double part_within_cones(std::span<const double> z) const;
  Margins margins(std::size_t block, std::span<const double> z) const;
  bool choose_modes_by_cones(std::span<const double> z);
  bool accept_cones(Laws& laws, std::span<double> z, Result& result);
  // The blocks that the interior-point method leaves undecided (sparse_friction_undecided.cpp).
  void find_undecided(std::span<const double> z);
  bool settle_undecided(Laws& laws, std::span<double> z, Result& result);
  bool pose_undecided(std::span<const double> z);
  // Parts of all methods.
  void update(std::span<const double> F);
  void slips_of(std::span<const double> vdot, std::span<double> u) const;
  Six slip_read(const Block& b, std::span<const double> u) const;
  /// Largest mobility of the directions of a block.
  double mobility(const Block& b) const { return mobilities_[static_cast<std::size_t>(&b - blocks_->data())]; }
  static double size_of(const Block& b, std::span<const double> u);
  double bound_of(Laws& laws, std::size_t block, std::span<const double> z, std::span<const double> u);
  void linearize_dry(Laws& laws, std::size_t block, std::span<const double> z, std::span<const double> u,
                     std::span<double> F, Linear& to);
  void linearize_smooth(Laws& laws, std::size_t block, std::span<const double> z, std::span<const double> u,
                        std::span<double> F, Linear& to);
  double residuals(Laws& laws, std::span<const double> z, std::span<const double> u, std::span<double> F,
                   Result& result);
  void find_worst(std::span<const double> z, std::span<const double> F, Result& result) const;
  double natural_residual(Laws& laws, std::span<const double> z, Result& result);
  void find_slips(std::span<const double> z);
  void respond_to_efforts(std::span<const double> z);
  void in_directions(std::span<const double> x, std::span<double> to) const;

  const ConstrainedProblem* constraints_ = nullptr;
  std::vector<Block>* blocks_ = nullptr;
  const ConstraintFactorization* solver_ = nullptr;  // Without the friction.
  std::span<const double> slip0_;                    // Slips without efforts.
  double step_ = 1;
  ConstrainedProblem rows_;  // The rows of the constraints, and those of the efforts beside them.
  std::vector<double> compliance_;
  std::vector<int> changed_;                      // Constraints whose rows have changed since they were factored.
  std::vector<int> first_by_constraint_, order_;  // Work memory of lay_out().
  std::vector<int> by_unknown_;                   // Index of its direction.
  std::vector<int> constraint_rows_;              // By row of the constraints: its row in rows_.
  std::vector<int> places_;                       // By unknown: its row in rows_.
  std::vector<double> mobilities_;                // By block.
  std::vector<std::array<int, 2>> entries_;       // By direction: first entry of each part in rows_.
  SparseFactorization factor_{BlockCholesky::Order::depth};  // Most iterations factor again for few joints.
  bool is_laid_out_ = false, is_factored_ = false, reads_at_solution_ = false;
  std::vector<Linear> linear_;                                           // By block, as wanted.
  std::vector<Linear> factored_;                                         // As factored.
  std::vector<Six> roots_;                                               // By block: √d as factored, 0 where d is.
  std::vector<double> slips_, F_, dz_, du_, trial_F_, kept_z_, kept_u_;  // By unknown.
  std::vector<double> bounds_;                                           // By block.
  std::vector<char> bound_is_known_;      // By block: it is the static bound at the reaction that is read.
  std::vector<double> lambda_, dlambda_;  // Multipliers of the constraints that efforts induce.
  std::vector<double> kept_lambda_;
  std::vector<FrictionProblem::Mode> kept_modes_;  // By block.
  std::vector<Six> read_;                          // By block: reactions of the last iteration.
  Path path_;
  std::vector<double> most_by_column_;  // By the first column of a body: the largest excess of its blocks.
  double accepted_ = 0;                 // Residual that rounding of the slips has left in the last solution. 0: none.

  // The interior-point method.
  std::vector<Cone> cones_;                        // By block.
  std::vector<double> kept_path_z_, kept_path_u_;  // Last point of the central path.
  std::vector<int> undecided_;                     // Blocks that may stick or slide at that point.
  FrictionProblem small_;                          // The problem of these blocks alone.
  std::vector<double> small_z_;                    // Its unknowns.

  std::vector<double> free_, dv_;        // [n]
  std::vector<double> e_, multipliers_;  // By row of rows_.
};

}  // namespace linchpin::detail
