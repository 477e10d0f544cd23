// The model: bodies with their mass, poses and velocities. Hides index maps, rotated inertia and the gyroscopic term.
// Stores constraints, forces and laws by name, but does not use the equations of constraints.
//
// The structs of this header are plain values: a copy shares nothing with the original.
#pragma once

#include <linchpin/error.h>
#include <linchpin/export.h>

#include <Eigen/Core>
#include <Eigen/Geometry>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace linchpin {

using Eigen::Matrix3d;
using Eigen::Vector3d;
// The following are unaligned, so that programs that are built for other vector units see the same layout.
/// A unit quaternion. It is not aligned.
using Quaterniond = Eigen::Quaternion<double, Eigen::DontAlign>;
/// A force and a moment, or a linear and an angular velocity.
using Vector6 = Eigen::Matrix<double, 6, 1, Eigen::DontAlign>;

/// Indices with separate types, so that a body cannot be passed in place of a constraint. Indices of removed things are
/// reused in time. The version says which of the things with one index is meant.
struct BodyId {
  int index = -1;        ///< Index of the body. −1: none.
  unsigned version = 0;  ///< Counts the things that have had the index.
  friend bool operator==(BodyId, BodyId) = default;
};
/// The id of a constraint: see BodyId.
struct ConstraintId {
  int index = -1;        ///< Index of the constraint. −1: none.
  unsigned version = 0;  ///< Counts the things that have had the index.
  friend bool operator==(ConstraintId, ConstraintId) = default;
};

/// The ground: body 0 of every system, fixed, at the origin, not rotated.
inline constexpr BodyId ground{0};

/// Position of a body's centre of mass and orientation of its frame: p_WQ = p + q * p_BQ.
struct Pose {
  Vector3d p = Vector3d::Zero();            ///< Centre of mass [m] (W).
  Quaterniond q = Quaterniond::Identity();  ///< Body to world, unit.
};

/// One body at one time, all in world axes W. `a` and `alpha` are the known acceleration of kinematic bodies and are
/// read for these only. For bodies that the equations move they are ignored on input.
struct BodyState {
  Vector3d p = Vector3d::Zero();            ///< Centre of mass [m].
  Quaterniond q = Quaterniond::Identity();  ///< Body to world, unit.
  Vector3d v = Vector3d::Zero();            ///< Velocity of the centre of mass [m/s].
  Vector3d w = Vector3d::Zero();            ///< Angular velocity [rad/s].
  Vector3d a = Vector3d::Zero();            ///< Acceleration of the centre of mass of a kinematic body [m/s²].
  Vector3d alpha = Vector3d::Zero();        ///< Angular acceleration of a kinematic body [rad/s²].

  Matrix3d R() const { return q.toRotationMatrix(); }  ///< Rotation matrix, body to world.
  /// World position of a body-fixed point [m].
  Vector3d point(const Vector3d& p_BQ) const { return p + q * p_BQ; }
  /// World velocity of a body-fixed point [m/s].
  Vector3d velocity_of(const Vector3d& p_BQ) const { return v + w.cross(q * p_BQ); }
};

/// All bodies of a system at one time, indexed by BodyId.
struct State {
  double t = 0;                   ///< Time [s].
  std::vector<BodyState> bodies;  ///< By BodyId::index.
  /// BodyId::version of each body, as far as indices have been reused. Bodies beyond have the version that the system
  /// has.
  std::vector<unsigned> versions{};

  BodyState& operator[](BodyId id) { return bodies[static_cast<std::size_t>(id.index)]; }  ///< The state of a body.
  /// The constant state of a body.
  const BodyState& operator[](BodyId id) const { return bodies[static_cast<std::size_t>(id.index)]; }
};

/// Moves one pose along a constant twist for dt, by the exponential map (T1): p + dt v, exp(dt [w]×) q.
LINCHPIN_API void advance(BodyState& body, const Vector3d& v, const Vector3d& w, double dt);
/// Returns the rotation vector [rad] (W) that takes one orientation to another, at most half a turn long. It is the
/// inverse of `advance`.
LINCHPIN_API Vector3d turn_between(const Quaterniond& from, const Quaterniond& to);

/// How a body moves, and its columns in M and A.
enum class BodyKind {
  fixed,      ///< Does not move and has no columns.
  kinematic,  ///< Kinematic: moves as the user or the host prescribes. No columns. Its velocity and acceleration enter
              ///< b.
  particle,   ///< 3 columns: velocity.
  rigid,      ///< 6 columns: [velocity of the centre of mass; angular velocity], world axes.
  coordinate  ///< 1 column: a generalized coordinate of the user's own. p.x is q, v.x its rate.
};

class Constraint;  // constraint.h
class Force;       // forces.h
class Kinetics;    // coordinates.h

/// The bodies, constraints, forces and laws of one model. Functions that build it throw std::invalid_argument with the
/// name and the value. `add…` and `set_mass` have `try_` twins that do not throw (linchpin/error.h). Names are not
/// empty, and unique among bodies, among constraints and among forces. The name of a removed thing is free again.
///
/// A System owns its constraints, forces, laws and functions of motion. It shares each Kinetics with the program. It
/// can be moved but not copied. Solvers such as Dynamics and Stepper keep a reference to the System. It must outlive
/// them, and must not be moved while they exist.
///
/// References, strings and spans that a System returns are valid until the next call that adds or removes something.
/// Ids stay valid.
///
/// One thread at a time may change a System or evaluate its functions. Several threads may call its const functions
/// together while no thread changes it, except initial_state() and update_kinematic(). These two call the functions of
/// kinematic bodies. Such a function must not change the System or call a solver.
class LINCHPIN_API System {
 public:
  System();
  ~System();
  System(System&&) noexcept;
  System& operator=(System&&) noexcept;

  /// Adds a point mass. @param mass [kg] > 0.
  BodyId add_particle(std::string name, double mass, const Vector3d& p, const Vector3d& v = Vector3d::Zero());
  /// Adds a rigid body. @param inertia about the centre of mass, body axes [kg·m²]. It is symmetric positive definite,
  /// and no principal moment exceeds the sum of the other two by more than round-off.
  BodyId add_body(std::string name, double mass, const Matrix3d& inertia, const Pose& pose,
                  const Vector3d& v = Vector3d::Zero(), const Vector3d& w = Vector3d::Zero());
  /// Adds a rigid body with the principal moments along the body axes.
  BodyId add_body(std::string name, double mass, const Vector3d& principal_inertia, const Pose& pose,
                  const Vector3d& v = Vector3d::Zero(), const Vector3d& w = Vector3d::Zero());
  /// Adds a rigid body from an Eigen expression: 0.1 * Vector3d(1, 2, 3), Matrix3d::Identity().
  template <class Expression>
  BodyId add_body(std::string name, double mass, const Eigen::MatrixBase<Expression>& inertia, const Pose& pose,
                  const Vector3d& v = Vector3d::Zero(), const Vector3d& w = Vector3d::Zero()) {
    using Plain = std::conditional_t<Expression::ColsAtCompileTime == 1, Vector3d, Matrix3d>;
    return add_body(std::move(name), mass, Plain(inertia), pose, v, w);
  }
  /// Adds a body that does not move.
  BodyId add_fixed(std::string name, const Pose& pose);
  /// Adds a kinematic body. @param motion  t [s] → its whole state at t (also v, w, a, alpha). Then `pose` is not used.
  /// May be empty where a host sets the state itself.
  BodyId add_kinematic(std::string name, const Pose& pose, std::function<BodyState(double)> motion = {});

  /// Adds generalized coordinates q of the user's own, coupled by the mass matrix of one kinetic energy
  /// (coordinates.h). Each is a body of one column: p.x is q and v.x its rate. A force on it has its generalized force
  /// in x. Their ids follow each other. They have no place in the world, no mass of their own and no weight. Gravity
  /// acts on them by a potential (forces.h).
  /// @return the id of the first
  BodyId add_coordinates(std::vector<std::string> names, std::vector<double> q, std::vector<double> rate,
                         std::shared_ptr<const Kinetics> kinetics);

  /// Reserves memory for this number of bodies and constraints in all. They are then added without moving others in
  /// memory.
  void reserve(int bodies, int constraints);
  /// @throws std::invalid_argument also if none of the constraint's bodies can move.
  ConstraintId add(Constraint constraint);
  /// Adds a force. @throws std::invalid_argument also if it names a body that does not exist.
  void add(Force force);
  void set_gravity(const Vector3d& g);  ///< Gravity [m/s²] (W), zero at first.

  Result<BodyId> try_add_particle(std::string name, double mass, const Vector3d& p,
                                  const Vector3d& v = Vector3d::Zero()) noexcept;
  Result<BodyId> try_add_body(std::string name, double mass, const Matrix3d& inertia, const Pose& pose,
                              const Vector3d& v = Vector3d::Zero(), const Vector3d& w = Vector3d::Zero()) noexcept;
  Result<BodyId> try_add_fixed(std::string name, const Pose& pose) noexcept;
  Result<BodyId> try_add_kinematic(std::string name, const Pose& pose,
                                   std::function<BodyState(double)> motion = {}) noexcept;
  Result<BodyId> try_add_coordinates(std::vector<std::string> names, std::vector<double> q, std::vector<double> rate,
                                     std::shared_ptr<const Kinetics> kinetics) noexcept;
  Result<ConstraintId> try_add(Constraint constraint) noexcept;
  Result<void> try_add(Force force) noexcept;
  Result<void> try_set_mass(BodyId id, double mass, const Matrix3d& inertia) noexcept;

  /// Gives a body another name. Ids, states and constraints stay.
  /// @throws std::invalid_argument  the name is empty or in use, or the body is ground or removed
  void set_name(BodyId id, std::string name);

  /// Enables or disables a constraint. It keeps its laws and its internal state.
  void enable(ConstraintId id, bool on);
  bool enabled(ConstraintId id) const;  ///< Returns whether a constraint is enabled.
  /// Removes a constraint, or a body with the constraints and forces on it. Ids of the others stay valid. The index is
  /// reused later, but the old id never names the new thing. For the old id removed() is true, the kind is fixed, and
  /// it is not enabled. Other queries with it throw std::invalid_argument.
  void remove(ConstraintId id);
  /// Removes a body, with the constraints and forces on it.
  void remove(BodyId id);

  /// Changes mass and inertia of a dynamic body, as the bodies of a host change at run time. The checks are those of
  /// add_body, but any symmetric positive definite inertia is accepted. Game bodies often have one that no distribution
  /// of mass has. A particle takes the mass and ignores the inertia.
  void set_mass(BodyId id, double mass, const Matrix3d& inertia);

  /// A number that no two structures share, of one system or of several. It changes with every body and constraint
  /// added, removed, enabled or disabled. Use it as a key for cached results.
  unsigned long structure() const;
  int body_count() const;        ///< With the world, and with removed bodies (kind fixed).
  int constraint_count() const;  ///< With removed ones (not enabled).
  /// Returns the present or last id at an index below the count. Use it to loop over all of them.
  BodyId body_at(int index) const;
  /// The same for constraints.
  ConstraintId constraint_at(int index) const;
  BodyKind kind(BodyId id) const;            ///< The kind of a body. Removed bodies are fixed.
  int dof(BodyId id) const;                  ///< Number of columns: 0, 1, 3 or 6.
  double mass(BodyId id) const;              ///< Mass [kg]. 0 for fixed and kinematic bodies and for coordinates.
  const Matrix3d& inertia(BodyId id) const;  ///< Body axes [kg·m²]. Zero unless rigid.
  /// The coordinates that one kinetic energy couples. For bodies of other kinds `kinetics` is null, and `first` and
  /// `count` have no meaning.
  struct CoordinateGroup {
    BodyId first;                        ///< The first coordinate.
    int count = 0;                       ///< Number of coordinates.
    const Kinetics* kinetics = nullptr;  ///< Their kinetic energy.
  };
  /// The group to which a coordinate belongs.
  CoordinateGroup coordinates(BodyId id) const;
  const std::string& name(BodyId id) const;             ///< Name of a body.
  const std::string& name(ConstraintId id) const;       ///< Name of a constraint.
  const Constraint& constraint(ConstraintId id) const;  ///< A constraint.
  Constraint& constraint(ConstraintId id);  ///< A constraint, for a change of its settings. Its bodies must stay.
  bool removed(BodyId id) const;            ///< Returns whether a body has been removed.
  bool removed(ConstraintId id) const;      ///< Returns whether a constraint has been removed.
  const Vector3d& gravity() const;          ///< Gravity [m/s²] (W).
  std::span<const Force> forces() const;    ///< All forces, in the order in which they were added.

  /// Finds by name. The index is −1 when there is none.
  BodyId find_body(std::string_view name) const;
  /// Finds a constraint by its name. The index is −1 when there is none.
  ConstraintId find_constraint(std::string_view name) const;

  /// The state the bodies were added with, at t = 0. Kinematic bodies are at their motion(0).
  State initial_state() const;
  /// Sets fixed and kinematic bodies of `state` to their poses at state.t. Kinematic bodies without a motion stay as
  /// they are. Bodies added since `state` was made enter it as they were added.
  void update_kinematic(State& state) const;

  /// World inertia R I Rᵀ [kg·m²] of a rigid body.
  Matrix3d world_inertia(BodyId id, const Quaterniond& q) const;
  /// Gyroscopic torque −ω × (R I Rᵀ ω) [N·m] (W) (T2).
  Vector3d gyroscopic_torque(BodyId id, const BodyState& s) const;

 private:
  struct Impl;
  friend struct SystemParts;  // Access for the library itself: laws are kept here and offered by laws.h.
  std::unique_ptr<Impl> impl_;
};

}  // namespace linchpin
