// The small problem that friction poses after its rows have been solved for (T9, T10). Its unknowns are efforts z, each
// of which changes the slips (W) and the reactions (K). Laws are set-valued or smooth in slip, and may be implicit in
// the reaction. Hides Gauss–Seidel sweeps, Newton, the choice of stick or slip, and the search for several solutions.
// Contains no mechanics. Private to the core.
#pragma once

#include "math/householder_qr.h"

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace linchpin::detail {

using Six = std::array<double, 6>;
using Square = std::array<Six, 6>;

/// Slips below this speed count as rest for laws of the instant [m/s or rad/s].
constexpr double rest_speed = 1e-9;

class FrictionProblem {
 public:
  enum class Mode { slips, sticks };
  struct Block {
    int start = 0, dim = 0;  // Place in z, at most 6 unknowns.
    int site = 0;            // Site whose reaction it reads.
    enum class Kind : unsigned char {
      dry,
      smooth,        // z = effort(reaction).
      slip_implicit  // z = effort(reaction, slip), with the slip at `slip_fraction` of the way from the start to the
                     // end.
    };
    Kind kind = Kind::dry;
    double slip_fraction = 1;
    bool reaction_implicit = false;  // It reads the reaction that efforts make, N + K z. Otherwise it reads `known`.
    Six known{};                     // The given reaction.
    enum class Guidance : unsigned char {
      free,
      given,  // Dry: it slides along `sense` at `speed`, for any slips.
      forced  // Dry: it sticks, for any bound.
    };
    Guidance guidance = Guidance::free;
    bool at_rest = false;          // Dry: it is at rest at first, and is held up to the static bound.
    bool slip_prescribed = false;  // Dry: constraints prescribe a slip of it, so that no effort brings it to rest.
    double reach = 0;              // Dry: speed of its bodies. A slip that is only rounding is a small part of it.
    Six sense{};                   // Unit vector.
    Six start_slip{};              // Dry: a slip that turns against this one has passed through rest.
    double speed = 0;
    double mobility = 1;      // Dry: size of its own entries of W if only this element held its bodies.
    Mode mode = Mode::slips;  // Result, and initial guess.
    bool resolved = false;    // The next two members are known. W of the block is the same in every sweep.
    Six size{};               // Eigenvalues of the symmetric part of W of the block.
    Square axes{};            // Its eigenvectors, as columns.

    bool is_smooth() const { return kind != Kind::dry; }
    bool is_slip_implicit() const { return kind == Kind::slip_implicit; }
    bool is_given() const { return guidance == Guidance::given; }
    bool is_forced() const { return guidance == Guidance::forced; }
    /// Returns true if the static bound applies: the block is at rest, or passes through rest. @param q  its slips
    /// without its own effort
    bool may_hold(const Six& q) const {
      double turn = 0;
      for (std::size_t i = 0; i < static_cast<std::size_t>(dim); ++i) turn += q[i] * start_slip[i];
      return at_rest || turn < 0;
    }
  };
  /// The laws themselves, by block, with reactions as [force; moment].
  class Laws {
   public:
    virtual ~Laws() = default;
    virtual double holding(int block, const Six& thrust) = 0;
    virtual double sliding(int block, const Six& thrust, double speed) = 0;
    /// @param slip  for blocks that are implicit in it, undefined for others
    virtual void effort(int block, const Six& thrust, const Six& slip, double* out) = 0;
    /// Returns true if the reactions of a solution are allowed (unilateral constraints).
    virtual bool reactions_allowed(std::span<const Six> thrusts) = 0;
    /// Sets Block::known of blocks that read the reaction which efforts make, as the efforts make it now.
    /// @param lambda  multipliers of the constraints that efforts induce
    virtual void read_reactions(std::span<const double> lambda) { (void)lambda; }
  };
  enum class Choice { continuous, smallest, largest };
  struct Result {
    bool found = false;              // A solution of all laws, to round-off.
    bool reaction_implicit = false;  // Efforts change reactions that laws read.
    int solutions = 0;  // Number of distinct solutions found. Several are searched for only where the gain allows them.
    double residual = 0;    // Residual of the laws, relative to the largest effort.
    int worst = -1;         // Block with that residual.
    double worst_size = 0;  // That residual, not relative.
    // Spectral radius of the feedback of efforts on efforts through the reactions. Below 1 there is one solution.
    double gain = 0;
    int iterations = 0;
  };

  /// Clears the content and keeps the memory. @param same  keep W, K and weights of the last problem
  void reset(int unknowns, int sites, bool same = false);
  /// Clears the content of a problem whose W and K are not used. Only its blocks and slip0() are.
  void reset_slips(int unknowns);
  std::vector<Block> blocks;
  int unknowns() const { return size_; }
  double& W(int i, int j) { return W_[at(i, j)]; }                      // Slip i by effort j.
  double& slip0(int i) { return slip0_[static_cast<std::size_t>(i)]; }  // Slip without efforts.
  double slip0(int i) const { return slip0_[static_cast<std::size_t>(i)]; }
  std::span<const double> slips0() const { return slip0_; }
  /// Part of slip0 that is an error of the velocities, which violate the constraints. Constraints do not prescribe it.
  double& residual_slip(int i) { return residual_slip_[static_cast<std::size_t>(i)]; }
  // Positive scale that makes efforts of all kinds comparable.
  double& weight(int i) { return weight_[static_cast<std::size_t>(i)]; }
  double& K(int site, int component, int j) { return K_[at(6 * site + component, j)]; }
  Six& thrust0(int site) { return N0_[static_cast<std::size_t>(site)]; }

  /// Finds the blocks whose slip constraints prescribe, once W, the slips and the blocks are set. @param rest  smaller
  /// slips count as rest
  void find_prescribed_slips(double rest);
  /// Solves the problem. @param z  in: where to begin, and the solution to stay near to. Out: the solution. @param
  /// known  whether z holds such a solution
  Result solve(Laws& laws, std::span<double> z, bool known, Choice choice);

  double slip(int i, std::span<const double> z) const;
  Six thrust(int site, std::span<const double> z) const;
  /// Returns the reaction that a block reads.
  Six read(const Block& b, std::span<const double> z) const;
  /// Distributes static friction over redundant elements at rest. @return whether z is within all bounds. If not, and
  /// without `anyhow`, z is unchanged.
  bool distribute_static_friction(Laws& laws, std::span<double> z, bool anyhow = false);
  /// Computes Δz that removes `slips` (in the directions of the sticking blocks, [unknowns]). Zero elsewhere.
  void correction(std::span<const double> slips, std::span<double> dz);
  /// Linearises the blocks at the solution z for respond(). Elements that stick go on sticking, and sliding ones keep
  /// their friction. Costs O(unknowns³).
  void linearize_slips(Laws& laws, std::span<const double> z);
  /// Completes Δz so that the linearised blocks are satisfied where the slips have changed by `slips` [unknowns], the
  /// effect of Δz included. Costs O(unknowns²).
  void respond(std::span<const double> slips, std::span<double> dz);

 private:
  class StaticDistribution;
  /// Kinds of blocks in the problem.
  struct Kinds {
    bool reaction_implicit = false, slip_implicit = false;
    bool free = false;   // Dry, without a given sense.
    bool given = false;  // Dry, with a given sense, or forced to stick.
  };
  std::size_t at(int i, int j) const {
    return static_cast<std::size_t>(i) * static_cast<std::size_t>(size_) + static_cast<std::size_t>(j);
  }
  static bool keeps_sticking(const Block& b) { return !b.is_smooth() && !b.is_given() && b.mode == Mode::sticks; }
  Six slips(const Block& b, std::span<const double> z) const;
  bool may_hold(const Block& b, const Six& u, std::span<const double> z) const;
  Six slip_read(const Block& b, std::span<const double> z) const;
  bool within_rounding(const Block& b, const Square& slope, const Six& F, std::span<const double> z) const;
  bool linearize_coupled_laws(Laws& laws, std::size_t b, std::span<const double> z);
  void solve_smooth_block(Laws& laws, std::size_t b, const Six& N, std::span<double> z);
  void find_axes(Block& b, bool with_coupled_laws);
  void update_block(Laws& laws, std::size_t b, std::span<double> z);
  void update_dry_block(Laws& laws, std::size_t b, const Six& N, std::span<double> z);
  bool gauss_seidel(Laws& laws, std::span<double> z, int most, double tolerance);
  bool newton(Laws& laws, std::span<double> z, Result& result, int most);
  bool solve_modes(Laws& laws, std::span<double> z, Result& result, int steps = 40);
  double linearize(Laws& laws, std::span<const double> z, bool turning = true, int* worst = nullptr);
  void linearize_smooth(Laws& laws, int b, const Six& N, double thrust_size, std::span<const double> z, bool turning);
  void linearize_sliding(Laws& laws, int b, const Six& N, double thrust_size, std::span<const double> z, bool turning);
  bool efforts_change_reaction(int site) const;
  bool slip_is_rounding(const Block& b, std::span<const double> z) const;
  bool stays_at_rest(Laws& laws, std::span<double> z);
  void find_solution(Laws& laws, std::span<double> z, bool known, const Kinds& kinds, Result& result);
  bool try_cheap_methods(Laws& laws, std::span<double> z, bool known, bool convex, const Kinds& kinds, Result& result);
  void store_swept(std::span<const double> z);
  void restore_swept(std::span<double> z);
  void alternate_newton_and_sweeps(Laws& laws, std::span<double> z, Result& result);
  void find_all_solutions(Laws& laws, std::span<double> z, bool known, Choice choice, const Kinds& kinds,
                          Result& result);
  bool reactions_allowed(Laws& laws, std::span<const double> z);
  double merit() const;
  double weighted(std::span<const double> x) const;
  double rounded(std::span<const double> z, bool with_jacobian);
  bool minimize_rounded(Laws& laws, std::span<double> z, bool known, Result& result);
  double gain_of(Laws& laws, std::span<const double> z);
  void eliminate();
  bool eliminate_rows();
  bool solve_modes_at_rest(Laws& laws, std::span<double> z, Result& result);
  void stick_where_at_rest(std::span<const double> z);
  void derivatives(Laws& laws, int b, const Six& N, double speed, double size, Six& by_thrust, double& by_speed);

  int size_ = 0, sites_ = 0;
  // Smooth laws that are implicit in their slip saturate. Full Newton steps may then oscillate for ever.
  bool damped_newton_ = false;
  std::vector<double> W_, K_, slip0_, residual_slip_, weight_;
  std::vector<Six> N0_, thrusts_;
  bool modes_known_ = false;  // The modes in `blocks` are from a solution of the same problem.
  /// Work memory of Newton and of the search for solutions.
  struct Scratch {
    std::vector<double> J, LU, F, x, trial, best, start, first, last, kept, found;
    std::vector<double> radius, round;  // By block, for rounded().
    std::vector<int> row, column;
    std::vector<Mode> swept_modes;  // Modes at the end of the sweeps.
  };
  Scratch work_;
  /// Response of coupled smooth laws to the slip of the present block.
  struct CoupledLaws {
    std::vector<int> unknowns;     // Unknowns of the laws that respond.
    std::vector<double> response;  // Their response to the efforts of the block, 6 values each.
    Square own_response{};         // W of the block including this response.
  };
  CoupledLaws coupled_;
  /// Solutions that the search has found.
  struct Solutions {
    std::vector<double> values;  // One after the other.
    std::vector<Mode> modes;     // Modes of every block in each of them.
  };
  Solutions solutions_;
  /// The linearised blocks of respond(): rows of J Δz = −F, scaled by `scale`.
  struct LinearResponse {
    Reflectors J;
    std::vector<double> scale;
    std::vector<Square> slopes;  // By block: derivative of the effort by the slip at the end.
  };
  LinearResponse linear_;
  /// Work memory of StaticDistribution: by block, by unknown, and y.
  struct StaticScratch {
    std::vector<double> scale, free_slips, collapse;
  };
  StaticScratch static_;
};

}  // namespace linchpin::detail
