// The step of a block that is nothing but balls, hinges, sliders, welds and their like between rigid bodies: what
// most mechanisms are in most steps. The equation at the start (T5), the impulse that ends the step
// on the constraints (T12), and the estimates that say whether it may stand (T15), in one walk over joints and bodies
// each, without rows of A or names. Where rows depend on each other some are left out, and multipliers are those of
// least norm (T7). Same numbers as Dynamics and end_on_constraints give, to their rounding; anything that is not plain
// is refused, and theirs to decide. Blocks whose joints meet in the same way are stepped side by side, each as it would
// be alone, to the last bit.
#pragma once

#include <linchpin/assembly.h>
#include <linchpin/system.h>

#include <array>
#include <limits>
#include <memory>
#include <span>
#include <vector>

namespace linchpin::detail {

struct JointBlock;
struct JointShape;
class CoupledStep;

/// The shapes of all blocks, and the memory in which their steps are worked out.
class JointShapes {
 public:
  /// @param members  how many threads take steps at a time
  explicit JointShapes(int members);
  ~JointShapes();
  /// The one like it that is known, or this from now on.
  std::shared_ptr<JointShape> find(JointShape&& shape);

 private:
  int members_;
  std::vector<std::weak_ptr<JointShape>> known_;
};

class JointStep {
 public:
  JointStep();
  ~JointStep();

  /// Takes over structure, geometry and masses of a block. Allocates, as else only what a first time needs: rows that
  /// depend on each other, begin().
  /// @return whether the block is of the kind: joints of points, axes and dots between rigid bodies with diagonal
  /// inertia, the rest fixed, and a factor without much fill.
  bool lay_out(const System& system, const Block& block, JointShapes& shapes);
  /// Of one that has a shape, when masses have changed.
  void take_masses(const System& system);
  std::span<const Vector3d> inertia() const { return inertia_; }  ///< principal ones by body [kg·m²]
  /// Null where it is not of the kind. Blocks of the same can be stepped side by side.
  const JointShape* shape() const { return shape_.get(); }
  const JointBlock& block() const { return *block_; }  ///< of one that has a shape

  struct Limits {
    double dt;
    double newton_tolerance, gap_tolerance;  ///< [m, rad]: of φ at the end; of φ at the start
    int max_solves;
    double swing;          ///< largest ω·dt (T15)
    double left_open = 0;  ///< share of a gap at the start, where it is more than rounding, that the end is to have
    double enough;         ///< of ω·dt: up to here a bound of it will do
  };
  /// Of a block, in its columns [n] and rows [m].
  struct Numbers {
    std::span<const double> Q;        ///< [n] in: force at the start, gyroscopic torque included [N, N·m]
    std::span<const double> applied;  ///< [n] in: what is applied over the step [N·s, N·m·s]
    std::span<double> newton;  ///< [m] in: where Newton starts; out: what it added to dt λ at the start [N·s, N·m·s]
    std::span<double> v;       ///< [n] out: velocities at the end
    std::span<double> start{};  ///< [m] out: λ at the start; or none
    std::span<double> total;    ///< [m] out: dt λ + newton
    std::span<double> mean;     ///< [m] out: A ½ (v₀ + v)
    /// [12 × joints] out: impulse and angular impulse of `total` on the first body of each joint, about its centre of
    /// mass, and on the second [N·s, N·m·s] (W); or none
    std::span<double> pull{};
    /// In: bodies whose `applied` lacks a gyroscopic torque, that of the mean of the velocities over this time, which
    /// the end is found with [s]
    std::span<const int> turning{};
    double turning_for = 0;
    /// In: by body, whether Q and `applied` lack its gyroscopic torque, in `applied` by one Newton step of implicit
    /// Euler over the whole step (Bullet's BT_ENABLE_GYROSCOPIC_FORCE_IMPLICIT_BODY); or none does
    std::span<const char> spinning{};
  };
  struct Outcome {
    const char* refused =
        nullptr;            ///< why, in that case nothing of the numbers was changed but, where `answered`, `start`
    bool answered = false;  ///< λ at the start is known
    double off = 0;         ///< largest |φ̇| at the start
    double fastest = 0;     ///< largest |v| at the start, over all columns
    double activation = 0;  ///< where off is far above Job::usual_off, energy of the impulse that takes it away [J]
    double swing = 0;       ///< ω·dt (T15), or a bound of it that is below Limits::enough; 0 where it is not known
    double gain = 0;        ///< work of the constraints [J]
    double kinetic = 0;     ///< of the centres of mass at the start [J]
    double energy = 0;      ///< kinetic, at the end [J]
    int solves = 0;         ///< of Newton
    double residual = 0;    ///< largest |φ| where Newton stopped [m, rad]
  };
  struct Job {
    const JointStep* of = nullptr;
    Numbers numbers{};
    double usual_off = std::numeric_limits<double>::infinity();  ///< |φ̇| that steps begin with
    Outcome outcome{};
  };
  static constexpr int most = 4;
  /// Why a block is refused whose rows depend on each other in ways that cost more here than elsewhere: not to be tried
  /// again.
  static constexpr const char* too_dear = "null vectors too long";
  /// Steps of up to `most` blocks of one shape. @param member  whose memory it is done in
  static void take(const State& state, const Limits& limits, std::span<Job> jobs, int member = 0);

  // A step in turns with rows of the host's own (contacts, limits, motors), whose impulses are known only once it has
  // solved them: from velocities on the constraints, and by what an impulse of theirs moves in all of the block. Each
  // call answers for the last begin(), in memory of the block's own.

  /// Factors at the start. Allocates when it is called for the first time. @return why the step is not plain, or null
  const char* begin(const State& state, double gap_tolerance);
  /// Velocities that end the step on the constraints, of the start's and of `applied` impulses, by Newton (T12).
  /// @param tolerance  of φ at the end [m, rad]
  /// @param applied    [n] [N·s, N·m·s]
  /// @param Q          [n] forces [N, N·m]: Newton begins with the multipliers that answer them; none: with none
  /// @param v          [n] out
  /// @return the largest |φ| at the end [m, rad]
  double reach(double dt, double tolerance, int most_solves, std::span<const double> applied, std::span<const double> Q,
               std::span<double> v);
  /// Likewise, velocities that the rows at the start allow: the mean over `time` [s] of theirs, by Ȧ alone.
  void keep(double time, std::span<const double> applied, std::span<double> v);
  /// v [n] ← the nearest in the metric of the masses whose rows have the rates of those that reach() or keep() found.
  void hold(std::span<double> v);
  /// An impulse at one body of the block or at two.
  struct Push {
    struct At {
      int body = -1;                          ///< in Block::bodies; −1: none
      Eigen::Matrix<double, 6, 1> impulse{};  ///< about its centre of mass (W) [N·s, N·m·s]
    };
    std::array<At, 2> at;
  };
  /// What welds have made of a block: one body, to whatever pushes at it.
  struct One {
    double inverse_mass = 0;  ///< 0 where they hold it to what does not move
    Vector3d centre = Vector3d::Zero();
    Matrix3d inverse_inertia = Matrix3d::Zero();  ///< (W)
  };
  /// @return whether they have
  bool as_one(One& to) const;
  /// Which bodies move() is asked about, in Block::bodies, ascending.
  void aim(std::span<const int> bodies);
  /// What each of up to `most` impulses at those moves of those with the constraints kept, P Jᵀ with
  /// P = M⁻¹ − M⁻¹AᵀG⁻¹AM⁻¹.
  /// @param to  [pushes × 6 · bodies] out, one after the other
  void move(std::span<const Push> pushes, std::span<double> to);
  /// The step, as take() has it, when the forces on it are known.
  void end(const Limits& limits, Job& job);

 private:
  std::shared_ptr<JointShape> shape_;
  std::unique_ptr<JointBlock> block_;
  std::unique_ptr<CoupledStep> turns_;
  std::vector<Vector3d> inertia_;
};

}  // namespace linchpin::detail
