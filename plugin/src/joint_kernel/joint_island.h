// The fast step of an island of rigid bodies whose joints are balls, hinges, sliders, welds and their like. Most
// mechanisms are such islands in most steps. In one pass over the joints and the bodies each, without rows of A or
// names, it solves
//
//  - the equation at the start (T5),
//  - the impulse that ends the step on the constraints (T12),
//  - the estimates that decide whether the step is accepted (T15).
//
// Where rows depend on each other some are dropped, and the multipliers are those of least norm (T7). The results are
// those of Dynamics and solve_end_of_step, to their rounding. An island that is not of this kind is refused, and the
// general solver decides. Islands of one topology are solved side by side, each as it would be alone, to the last bit.
#pragma once

#include <linchpin/assembly.h>
#include <linchpin/system.h>

#include <array>
#include <limits>
#include <memory>
#include <span>
#include <vector>

namespace linchpin::detail {

struct JointIslandData;
struct JointTopology;
class CoupledStep;

/// The topologies of all islands, and the memory in which the workers solve them.
class JointTopologies {
 public:
  /// @param workers  how many threads solve at a time
  explicit JointTopologies(int workers);
  ~JointTopologies();
  /// Returns the known topology that is equal, or this one, which is known from then on.
  std::shared_ptr<JointTopology> find(JointTopology&& topology);

 private:
  int workers_;
  std::vector<std::weak_ptr<JointTopology>> known_;
};

class JointIsland {
 public:
  JointIsland();
  ~JointIsland();

  /// Reads the structure, the geometry and the masses of an island. It allocates. After it, memory is allocated
  /// only when rows depend on each other for the first time, and by the first factor().
  /// @return whether the island is of the kind: joints of points, axes and dots between rigid bodies with diagonal
  /// inertia, the rest fixed, and a factor without much fill-in
  bool lay_out(const System& system, const IslandLayout& layout, JointTopologies& topologies);
  /// Reads the masses again, of an island that is laid out.
  void read_masses(const System& system);
  std::span<const Vector3d> inertia() const { return inertia_; }  ///< principal ones by body [kg·m²]
  /// The topology, or null where the island is not of the kind. Islands of one topology can be solved side by side.
  const JointTopology* topology() const { return topology_.get(); }
  const JointIslandData& data() const { return *data_; }  ///< of an island that is laid out

  /// A spring with a damper in place of a row of a joint (Compliance). Its force is that at the end of the step.
  struct Spring {
    int constraint = 0;                 ///< place of the joint in IslandLayout::constraints
    int row = 0;                        ///< of all rows of the joint
    double stiffness = 0, damping = 0;  ///< [N/m, N·s/m]; in N·m for rows in radians
  };
  /// The springs of the island, in the order of Vectors::springs.
  std::span<const Spring> springs() const;
  /// The impulse and the work of a spring in a step.
  struct SpringImpulse {
    double impulse = 0;  ///< along the row [N·s, N·m·s]
    double work = 0;     ///< with the mean of the velocities at the start and the end [J]
    /// The impulse and the angular impulse on the first body and on the second, about their centres of mass (W).
    std::array<Eigen::Matrix<double, 6, 1>, 2> on{Eigen::Matrix<double, 6, 1>::Zero(),
                                                  Eigen::Matrix<double, 6, 1>::Zero()};
  };

  struct Limits {
    double dt;
    double newton_tolerance, gap_tolerance;  ///< of |φ| at the end; of |φ| at the start [m, rad]
    int max_solves;
    double max_omega_dt;  ///< largest ω·dt of the geometric stiffness (T15)
    /// The share of φ at the start, where that is more than rounding, that φ at the end is to have.
    double residual_share = 0;
    double coarse_omega_dt;  ///< Up to this ω·dt an upper bound of it is computed instead.
  };
  /// Vectors of an island, in its columns [n] and rows [m].
  struct Vectors {
    std::span<const double> Q;                ///< [n] in: force at the start, with the gyroscopic torque [N, N·m]
    std::span<const double> applied_impulse;  ///< [n] in: impulse that is applied over the step [N·s, N·m·s]
    /// [m] In: where Newton starts. Out: what it added to dt λ at the start [N·s, N·m·s].
    std::span<double> newton_impulses;
    std::span<double> v;                    ///< [n] out: velocities at the end
    std::span<double> start_multipliers{};  ///< [m] out: λ at the start; or empty
    std::span<double> total_impulses;       ///< [m] out: dt λ + newton_impulses
    std::span<double> mean_row_velocities;  ///< [m] out: A ½ (v₀ + v)
    /// [12 × joints] Out: the impulse and the angular impulse of `total_impulses` on the first body of each joint,
    /// about its centre of mass, and on the second [N·s, N·m·s] (W); or empty.
    std::span<double> constraint_impulses{};
    /// In: bodies, ascending, whose `applied_impulse` lacks the impulse of the gyroscopic torque. The step adds it, by
    /// the mean of the velocities at the start and the end (T15).
    std::span<const int> gyroscopic{};
    double gyroscopic_time = 0;          ///< time of that torque [s]
    std::span<SpringImpulse> springs{};  ///< out: of the springs of the island; or empty
  };
  /// Why a step is refused. The general solver takes it then.
  enum class Refusal : unsigned char {
    none,
    gap_at_start,          ///< |φ| at the start is above Limits::gap_tolerance
    rank_unclear,          ///< a pivot is neither clearly positive nor rounding
    null_space_too_large,  ///< Redundant rows have null vectors so long that the general solver is cheaper.
    residual_too_large,    ///< λ at the start does not solve the equation
    newton_unfinished,     ///< Newton has used all its solves
    newton_stalled,        ///< Newton does not contract
    not_finite,
    step_too_long  ///< ω·dt is above Limits::max_omega_dt
  };
  struct Outcome {
    /// A refused step writes nothing but `start_multipliers`, and those only if `has_start_multipliers`.
    Refusal refusal = Refusal::none;
    bool has_start_multipliers = false;
    double velocity_error = 0;     ///< largest |φ̇| at the start
    double largest_velocity = 0;   ///< largest |v| at the start, over all columns
    double activation_energy = 0;  ///< of the impulse that removes a velocity error far above the typical one [J]
    double omega_dt = 0;           ///< ω·dt (T15), or a bound of it below Limits::coarse_omega_dt; 0: not known
    double constraint_work = 0;    ///< work of the constraints [J]
    double start_energy = 0;       ///< kinetic energy of the centres of mass at the start [J]
    double end_energy = 0;         ///< kinetic energy at the end [J]
    int newton_solves = 0;
    double residual = 0;  ///< largest |φ| where Newton stopped [m, rad]

    bool refused() const { return refusal != Refusal::none; }
  };
  struct Job {
    const JointIsland* island = nullptr;
    Vectors vectors{};
    /// The |φ̇| with which steps of the island begin.
    double typical_velocity_error = std::numeric_limits<double>::infinity();
    Outcome outcome{};
  };
  static constexpr int max_jobs = 4;  ///< that are solved side by side
  /// Solves the steps of up to `max_jobs` islands of one topology. @param worker  the thread whose memory is used
  static void solve_steps(const State& state, const Limits& limits, std::span<Job> jobs, int worker = 0);

  // A step that is coupled with rows of the host (contacts, limits, motors). Their impulses are known only once the
  // host has solved them. The host starts from velocities on the constraints, and needs to know what an impulse changes
  // of the whole island. Each call refers to the last factor(), in memory of the island.

  /// Factors G at the start of a step of length dt [s]. The first call allocates.
  Refusal factor(const State& state, double dt, double gap_tolerance);
  /// Computes velocities that end the step on the constraints, from those at the start and `applied`, by Newton (T12).
  /// @param tolerance  of φ at the end [m, rad]
  /// @param applied    [n] impulses [N·s, N·m·s]
  /// @param Q          [n] forces [N, N·m]: Newton begins with the multipliers that answer them; or empty
  /// @param v          [n] out
  /// @return the largest |φ| at the end [m, rad]
  double find_start_velocities(double dt, double tolerance, int max_solves, std::span<const double> applied,
                               std::span<const double> Q, std::span<double> v);
  /// Computes velocities that the rows at the start allow: the mean over `time` [s] of those that Ȧ alone makes.
  void find_linearized_start_velocities(double time, std::span<const double> applied, std::span<double> v);
  /// Projects velocities [n], in the metric of the masses, on those whose rows have the rates of the start velocities
  /// that were found last.
  void project(std::span<double> v);
  /// An impulse on one body of the island or on two.
  struct Impulse {
    struct At {
      int body = -1;                          ///< in IslandLayout::bodies; −1: none
      Eigen::Matrix<double, 6, 1> impulse{};  ///< about its centre of mass (W) [N·s, N·m·s]
    };
    std::array<At, 2> at;
  };
  /// The mass of the composite rigid body that an island of welds is.
  struct CompositeMass {
    double inverse_mass = 0;  ///< 0 where a weld holds it to a fixed body
    Vector3d centre = Vector3d::Zero();
    Matrix3d inverse_inertia = Matrix3d::Zero();  ///< (W)
  };
  /// @return whether the island is a composite body
  bool composite_body(CompositeMass& to) const;
  /// Selects the bodies whose motions find_impulse_responses() computes, in IslandLayout::bodies, ascending.
  void select_response_bodies(std::span<const int> bodies);
  /// Computes what each of up to `max_jobs` impulses on those bodies changes of their velocities with the constraints
  /// kept: P Jᵀ with P = M⁻¹ − M⁻¹AᵀG⁻¹AM⁻¹.
  /// @param to  [impulses × 6 · bodies] out, one after the other
  void find_impulse_responses(std::span<const Impulse> impulses, std::span<double> to);
  /// Solves the step, as solve_steps() does, once the forces are known.
  void solve_end_of_step(const Limits& limits, Job& job);

 private:
  std::shared_ptr<JointTopology> topology_;
  std::unique_ptr<JointIslandData> data_;
  std::unique_ptr<CoupledStep> coupled_;
  std::vector<Vector3d> inertia_;
};

}  // namespace linchpin::detail
