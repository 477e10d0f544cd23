// The fast step of a block of rigid bodies whose joints are balls, hinges, sliders, welds and their like: what most
// mechanisms are in most steps. In one pass over the joints and the bodies each, without rows of A or names, it solves
//
//  - the equation at the start (T5),
//  - the impulse that ends the step on the constraints (T12),
//  - the estimates that say whether the step is accepted (T15).
//
// Where rows depend on each other some are left out, and the multipliers are those of least norm (T7). The results are
// those of Dynamics and end_on_constraints, to their rounding. A block that is not of this kind is refused, and the
// general solver decides. Blocks whose joints meet in the same way are solved side by side, each as it would be alone,
// to the last bit.
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

/// The shapes of all blocks, and the memory in which their steps are computed.
class JointShapes {
 public:
  /// @param members  how many threads solve at a time
  explicit JointShapes(int members);
  ~JointShapes();
  /// Returns the known shape that is equal, or this one, which is known from then on.
  std::shared_ptr<JointShape> find(JointShape&& shape);

 private:
  int members_;
  std::vector<std::weak_ptr<JointShape>> known_;
};

class JointStep {
 public:
  JointStep();
  ~JointStep();

  /// Reads the structure, the geometry and the masses of a block. It allocates. Later only the first time allocates
  /// that rows depend on each other, and the first begin().
  /// @return whether the block is of the kind: joints of points, axes and dots between rigid bodies with diagonal
  /// inertia, the rest fixed, and a factor without much fill
  bool lay_out(const System& system, const Block& block, JointShapes& shapes);
  /// Reads the masses again, of a block that has a shape.
  void take_masses(const System& system);
  std::span<const Vector3d> inertia() const { return inertia_; }  ///< principal ones by body [kg·m²]
  /// The shape, or null where the block is not of the kind. Blocks of one shape can be solved side by side.
  const JointShape* shape() const { return shape_.get(); }
  const JointBlock& block() const { return *block_; }  ///< of a block that has a shape

  struct Limits {
    double dt;
    double newton_tolerance, gap_tolerance;  ///< of |φ| at the end; of |φ| at the start [m, rad]
    int max_solves;
    double swing;          ///< largest ω·dt of the geometric stiffness (T15)
    double left_open = 0;  ///< share of φ at the start, where it is more than rounding, that φ at the end is to have
    double enough;         ///< up to this ω·dt a bound of it is computed instead
  };
  /// Numbers of a block, in its columns [n] and rows [m].
  struct Numbers {
    std::span<const double> Q;        ///< [n] in: force at the start, with the gyroscopic torque [N, N·m]
    std::span<const double> applied;  ///< [n] in: impulse that is applied over the step [N·s, N·m·s]
    std::span<double> newton;  ///< [m] in: where Newton starts; out: what it added to dt λ at the start [N·s, N·m·s]
    std::span<double> v;       ///< [n] out: velocities at the end
    std::span<double> start{};  ///< [m] out: λ at the start; or empty
    std::span<double> total;    ///< [m] out: dt λ + newton
    std::span<double> mean;     ///< [m] out: A ½ (v₀ + v)
    /// [12 × joints] out: the impulse and the angular impulse of `total` on the first body of each joint, about its
    /// centre of mass, and on the second [N·s, N·m·s] (W); or empty
    std::span<double> pull{};
    /// In: fast-spinning bodies. Their `applied` lacks the gyroscopic torque, which is that of the mean of the
    /// velocities at the start and the end.
    std::span<const int> turning{};
    double turning_for = 0;  ///< time of that torque [s]
    /// In, by body: whether Q and `applied` lack its gyroscopic torque. In `applied` it is added by one Newton step of
    /// implicit Euler over the whole step (BT_ENABLE_GYROSCOPIC_FORCE_IMPLICIT_BODY of Bullet). Empty: none lacks it.
    std::span<const char> spinning{};
  };
  struct Outcome {
    /// Why the step is refused, or null. Of a refused step nothing is written but `start`, and that where `answered`.
    const char* refused = nullptr;
    bool answered = false;  ///< λ at the start is known
    double off = 0;         ///< largest |φ̇| at the start
    double fastest = 0;     ///< largest |v| at the start, over all columns
    double activation = 0;  ///< energy of the impulse that takes `off` away, if that is far above Job::usual_off [J]
    double swing = 0;       ///< ω·dt (T15), or a bound of it that is below Limits::enough; 0 where it is not known
    double gain = 0;        ///< work of the constraints [J]
    double kinetic = 0;     ///< kinetic energy of the centres of mass at the start [J]
    double energy = 0;      ///< kinetic energy at the end [J]
    int solves = 0;         ///< of Newton
    double residual = 0;    ///< largest |φ| where Newton stopped [m, rad]
  };
  struct Job {
    const JointStep* of = nullptr;
    Numbers numbers{};
    double usual_off = std::numeric_limits<double>::infinity();  ///< the |φ̇| that steps of the block begin with
    Outcome outcome{};
  };
  static constexpr int most = 4;
  /// The reason of a refusal that is not worth another try: the rows depend on each other in ways that cost more here
  /// than in the general solver.
  static constexpr const char* too_dear = "null vectors too long";
  /// Solves the steps of up to `most` blocks of one shape. @param member  the thread whose memory is used
  static void take(const State& state, const Limits& limits, std::span<Job> jobs, int member = 0);

  // A step that is coupled with rows of the host (contacts, limits, motors). Their impulses are known only once the
  // host has solved them: it starts from velocities on the constraints, and needs to know what an impulse changes of
  // the whole block. Each call refers to the last begin(), in memory of the block.

  /// Factors G at the start. The first call allocates. @return why the step is refused, or null
  const char* begin(const State& state, double gap_tolerance);
  /// Computes velocities that end the step on the constraints, from those at the start and `applied`, by Newton (T12).
  /// @param tolerance  of φ at the end [m, rad]
  /// @param applied    [n] impulses [N·s, N·m·s]
  /// @param Q          [n] forces [N, N·m]: Newton begins with the multipliers that answer them; or empty
  /// @param v          [n] out
  /// @return the largest |φ| at the end [m, rad]
  double reach(double dt, double tolerance, int most_solves, std::span<const double> applied, std::span<const double> Q,
               std::span<double> v);
  /// Computes velocities that the rows at the start allow: the mean over `time` [s] of those that Ȧ alone makes.
  void keep(double time, std::span<const double> applied, std::span<double> v);
  /// Projects velocities [n], in the metric of the masses, on those whose rows have the rates of the last reach() or
  /// keep().
  void hold(std::span<double> v);
  /// An impulse on one body of the block or on two.
  struct Push {
    struct At {
      int body = -1;                          ///< in Block::bodies; −1: none
      Eigen::Matrix<double, 6, 1> impulse{};  ///< about its centre of mass (W) [N·s, N·m·s]
    };
    std::array<At, 2> at;
  };
  /// The composite rigid body that a block of welds is.
  struct One {
    double inverse_mass = 0;  ///< 0 where a weld holds it to a fixed body
    Vector3d centre = Vector3d::Zero();
    Matrix3d inverse_inertia = Matrix3d::Zero();  ///< (W)
  };
  /// @return whether the block is a composite body
  bool as_one(One& to) const;
  /// Selects the bodies that move() answers for, in Block::bodies, ascending.
  void aim(std::span<const int> bodies);
  /// Computes what each of up to `most` impulses on those changes of their velocities with the constraints kept: P Jᵀ
  /// with P = M⁻¹ − M⁻¹AᵀG⁻¹AM⁻¹.
  /// @param to  [pushes × 6 · bodies] out, one after the other
  void move(std::span<const Push> pushes, std::span<double> to);
  /// Solves the step, as take() does, once the forces are known.
  void end(const Limits& limits, Job& job);

 private:
  std::shared_ptr<JointShape> shape_;
  std::unique_ptr<JointBlock> block_;
  std::unique_ptr<CoupledStep> coupled_;
  std::vector<Vector3d> inertia_;
};

}  // namespace linchpin::detail
