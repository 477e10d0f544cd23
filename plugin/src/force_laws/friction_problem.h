// The small problem that friction poses once its rows have been solved for: unknown efforts z, each of which moves the
// slips (W) and the thrusts (K), under laws that are set-valued in slip, or smooth in it, and may be implicit in thrust
// (T9, T10). Hides sweeps, Newton, the choice of stick or slip, and the search for second solutions. Knows no
// mechanics. Private to the core.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace linchpin::detail {

using Six = std::array<double, 6>;
using Square = std::array<Six, 6>;

class FrictionProblem {
 public:
  enum class Mode { slips, sticks };
  struct Block {
    int start = 0, dim = 0;  // in z, at most 6
    int site = 0;            // whose thrust it reads
    bool smooth = false;     // z = effort(thrust), no dry friction
    bool answers = false;    // smooth: z = effort(thrust, slip), the slip `share` of the way from the start to the end
    double share = 1;
    bool implicit = false;         // reads the thrust that efforts make, N + K z, else `known`
    Six known{};                   // a thrust that is given
    bool given = false;            // dry: slides along `sense` at `speed`, whatever the slips say
    bool forced = false;           // dry: sticks, whatever its bound says
    bool at_rest = false;          // dry: at rest to begin with: held up to the static bound
    bool slip_prescribed = false;  // dry: constraints prescribe a slip of it, so that no effort brings it to rest
    double reach = 0;              // dry: speed of its bodies, of which a slip that is only rounding is a small part
    Six sense{};                   // unit
    Six start_slip{};              // dry: a slip that turns against this one has passed through rest
    double speed = 0;
    double mobility = 1;      // dry: size of W's own entries if nothing but this contact held its bodies
    Mode mode = Mode::slips;  // out, and guess
    bool resolved = false;    // whether these two are known: W of the block is the same in every sweep
    Six size{};               // eigenvalues of the symmetric part of W of the block
    Square axes{};            // and its eigenvectors, columns

    /// Whether the bound of rest holds it: it is at rest, or passes through rest. @param q  its slips without its own
    /// effort
    bool may_hold(const Six& q) const {
      double turn = 0;
      for (std::size_t i = 0; i < static_cast<std::size_t>(dim); ++i) turn += q[i] * start_slip[i];
      return at_rest || turn < 0;
    }
  };
  /// The laws themselves, by block; thrust as [force; moment].
  class Laws {
   public:
    virtual ~Laws() = default;
    virtual double holding(int block, const Six& thrust) = 0;
    virtual double sliding(int block, const Six& thrust, double speed) = 0;
    /// @param slip  of blocks that answer to theirs; else nothing to be read
    virtual void effort(int block, const Six& thrust, const Six& slip, double* out) = 0;
    /// Whether the thrusts of an answer are allowed (one-sided constraints).
    virtual bool allowed(std::span<const Six> thrusts) = 0;
  };
  enum class Choice { continuous, smallest, largest };
  struct Answer {
    bool found = false;     // a solution of all laws, to round-off
    bool implicit = false;  // whether efforts change thrusts that are read
    int solutions = 0;      // distinct ones met with; the search is made only where the gain allows several
    double residual = 0;    // of the laws, relative to the largest effort
    int worst = -1;         // the block that has it
    double worst_size = 0;  // and the same, not relative
    double gain = 0;  // spectral radius of how efforts call up efforts by way of the thrusts; below 1: one solution
    int iterations = 0;
  };

  /// Forgets the content, keeps the memory. @param same  keep W, K and weights, which are those of the last problem
  void reset(int unknowns, int sites, bool same = false);
  std::vector<Block> blocks;
  int unknowns() const { return size_; }
  double& W(int i, int j) { return W_[at(i, j)]; }                      // slip i from effort j
  double& slip0(int i) { return slip0_[static_cast<std::size_t>(i)]; }  // without any
  double slip0(int i) const { return slip0_[static_cast<std::size_t>(i)]; }
  /// The part of slip0 by which the velocities miss the constraints: it is not prescribed by them.
  double& residual_slip(int i) { return residual_slip_[static_cast<std::size_t>(i)]; }
  double& weight(int i) { return weight_[static_cast<std::size_t>(i)]; }  // > 0, puts efforts of all kinds on one scale
  double& K(int site, int component, int j) { return K_[at(6 * site + component, j)]; }
  Six& thrust0(int site) { return N0_[static_cast<std::size_t>(site)]; }

  /// Finds the blocks whose slip constraints prescribe; once W, the slips and the blocks are known. @param rest  slips
  /// below it are rest
  void find_prescribed_slips(double rest);
  /// @param z  in: where to begin, and the solution to stay near to; out. @param known  whether z holds such a one.
  Answer solve(Laws& laws, std::span<double> z, bool known, Choice choice);

  double slip(int i, std::span<const double> z) const;
  Six thrust(int site, std::span<const double> z) const;
  /// What a block reads.
  Six read(const Block& b, std::span<const double> z) const;
  /// What holds all that is at rest, where contacts are redundant. @return whether z is within all bounds; if not, and
  /// not `anyhow`, it is as it was
  bool share(Laws& laws, std::span<double> z, bool anyhow = false);
  /// Δz that takes `slips` (of the sticking blocks' directions, [unknowns]) away, zero elsewhere.
  void correction(std::span<const double> slips, std::span<double> dz);

 private:
  /// What there is among the blocks.
  struct Kinds {
    bool implicit = false, answering = false;
    bool free = false;   // dry, and no given sense
    bool given = false;  // a sense, or that it sticks
  };
  std::size_t at(int i, int j) const {
    return static_cast<std::size_t>(i) * static_cast<std::size_t>(size_) + static_cast<std::size_t>(j);
  }
  Six slips(const Block& b, std::span<const double> z) const;
  bool may_hold(const Block& b, const Six& u, std::span<const double> z) const;
  Six slip_read(const Block& b, std::span<const double> z) const;
  bool within_rounding(const Block& b, const Square& slope, const Six& F, std::span<const double> z) const;
  bool follow(Laws& laws, std::size_t b, std::span<const double> z);
  void relax(Laws& laws, std::size_t b, const Six& N, std::span<double> z);
  void find_axes(Block& b, bool with_followers);
  void respond(Laws& laws, std::size_t b, std::span<double> z);
  bool sweep(Laws& laws, std::span<double> z, int most, double tolerance);
  bool newton(Laws& laws, std::span<double> z, Answer& answer, int most);
  bool settle(Laws& laws, std::span<double> z, Answer& answer, int steps = 40);
  double linearize(Laws& laws, std::span<const double> z, bool turning = true, int* worst = nullptr);
  void linearize_smooth(Laws& laws, int b, const Six& N, double thrust_size, std::span<const double> z, bool turning);
  void linearize_sliding(Laws& laws, int b, const Six& N, double thrust_size, std::span<const double> z, bool turning);
  bool thrust_moves(int site) const;
  bool hardly_moves(const Block& b, std::span<const double> z) const;
  bool stays(Laws& laws, std::span<double> z);
  void find(Laws& laws, std::span<double> z, bool known, const Kinds& of, Answer& answer);
  void find_all(Laws& laws, std::span<double> z, bool known, Choice choice, const Kinds& of, Answer& answer);
  bool allowed(Laws& laws, std::span<const double> z);
  double merit() const;
  double weighted(std::span<const double> x) const;
  double rounded(std::span<const double> z, bool with_jacobian);
  bool descend(Laws& laws, std::span<double> z, bool known, Answer& answer);
  void slopes(Laws& laws, int b, const Six& N, const Six& slip, Square& out);
  double gain_of(Laws& laws, std::span<const double> z);
  void eliminate();
  bool eliminate_rows();
  bool rests(Laws& laws, std::span<double> z, Answer& answer);
  void at_rest_sticks(std::span<const double> z);
  void derivatives(Laws& laws, int b, const Six& N, double speed, double size, Six& by_thrust, double& by_speed);

  int size_ = 0, sites_ = 0;
  bool careful_ = false;  // smooth laws answer to their slip, and saturate: Newton's whole steps may leap for ever
  std::vector<double> W_, K_, slip0_, residual_slip_, weight_;
  std::vector<Six> N0_, thrusts_;
  bool modes_known_ = false;  // those of `blocks` are of a solve of the same problem
  std::vector<double> J_, LU_, F_, x_, try_, best_, start_, first_, last_, kept_, found_z_;
  std::vector<double> radius_, round_;  // by block, of rounded()
  std::vector<int> row_, column_;
  std::vector<int> followers_;     // unknowns of smooth laws that answer to the slip of the block in hand
  std::vector<double> follow_;     // and what they do by its efforts, 6 numbers each
  Square own_{};                   // W of that block while they do
  std::vector<double> found_;      // solutions one after the other
  std::vector<Mode> found_modes_;  // of every block in each of them
  std::vector<Mode> swept_modes_;  // as sweeps ended
  std::vector<double> part_, freed_, gives_way_;  // of share(), by block, by unknown, and y
};

}  // namespace linchpin::detail
