// What there is: bodies with their mass, where they are and how they move. Hides index maps, rotated inertia and the
// gyroscopic term. Knows nothing of constraints' equations; it keeps them, the forces and the laws by name.
#pragma once

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
/// Unaligned, so that a program built for a wider vector unit than ours sees the same layout.
using Quaterniond = Eigen::Quaternion<double, Eigen::DontAlign>;
using Eigen::Vector3d;

/// Indices with a type each, so that a body cannot be passed where a constraint is meant. Places of removed things are
/// used again in the end: the version of a place says which of those that have had it is meant.
struct BodyId {
  int index = -1;
  unsigned version = 0;
  friend bool operator==(BodyId, BodyId) = default;
};
struct ConstraintId {
  int index = -1;
  unsigned version = 0;
  friend bool operator==(ConstraintId, ConstraintId) = default;
};

/// The world itself: body 0 of every system, fixed, at the origin, not rotated.
inline constexpr BodyId world{0};

/// Where a body's centre of mass is and how its frame is turned: p_WQ = p + q * p_BQ.
struct Pose {
  Vector3d p = Vector3d::Zero();            ///< centre of mass [m] (W)
  Quaterniond q = Quaterniond::Identity();  ///< body to world, unit
};

/// One body at one time, all in world axes W. `a` and `alpha` are read for driven bodies only (their known
/// acceleration); for bodies that the equations move they are ignored on input.
struct BodyState {
  Vector3d p = Vector3d::Zero();            ///< centre of mass [m]
  Quaterniond q = Quaterniond::Identity();  ///< body to world, unit
  Vector3d v = Vector3d::Zero();            ///< velocity of the centre of mass [m/s]
  Vector3d w = Vector3d::Zero();            ///< angular velocity [rad/s]
  Vector3d a = Vector3d::Zero();            ///< acceleration of the centre of mass of a driven body [m/s²]
  Vector3d alpha = Vector3d::Zero();        ///< angular acceleration of a driven body [rad/s²]

  Matrix3d R() const { return q.toRotationMatrix(); }
  /// World position of a body-fixed point [m].
  Vector3d point(const Vector3d& p_BQ) const { return p + q * p_BQ; }
  /// World velocity of a body-fixed point [m/s].
  Vector3d velocity_of(const Vector3d& p_BQ) const { return v + w.cross(q * p_BQ); }
};

/// All bodies of a system at one time, indexed by BodyId.
struct State {
  double t = 0;  ///< [s]
  std::vector<BodyState> bodies;
  /// BodyId::version of each as far as places have been used again; of those beyond, whatever the system has there.
  std::vector<unsigned> versions{};

  BodyState& operator[](BodyId id) { return bodies[static_cast<std::size_t>(id.index)]; }
  const BodyState& operator[](BodyId id) const { return bodies[static_cast<std::size_t>(id.index)]; }
};

/// Moves one pose along a constant twist for dt, by the exponential map (T1): p + dt v, exp(dt [w]×) q.
void advance(BodyState& body, const Vector3d& v, const Vector3d& w, double dt);
/// The other way round: the rotation vector [rad] (W) that takes one orientation to another, at most half a turn long.
Vector3d turn_between(const Quaterniond& from, const Quaterniond& to);

enum class BodyKind {
  fixed,      ///< does not move; no columns
  driven,     ///< moves as the user or the host says; no columns, its velocity and acceleration enter b
  particle,   ///< 3 columns: velocity
  rigid,      ///< 6 columns: [velocity of the centre of mass; angular velocity], world axes
  coordinate  ///< 1 column: a generalized coordinate of the user's own; p.x is q, v.x its rate
};

class Constraint;  // constraint.h
class Force;       // forces.h
class Kinetics;    // coordinates.h

/// The bodies, constraints, forces and laws of one model. Building throws std::invalid_argument with the name and the
/// value; `add…` and `set_mass` have noexcept `try_` twins that return the message instead (empty when it went well).
/// Names are not empty and unique among bodies, among constraints and among forces; a removed thing gives its name
/// back.
class System {
 public:
  System();
  ~System();
  System(System&&) noexcept;
  System& operator=(System&&) noexcept;

  /// A point mass. @param mass [kg] > 0.
  BodyId add_particle(std::string name, double mass, const Vector3d& p, const Vector3d& v = Vector3d::Zero());
  /// A rigid body. @param inertia about the centre of mass, body axes [kg·m²], symmetric positive definite, and such
  /// that no principal moment exceeds the sum of the other two (by more than round-off).
  BodyId add_body(std::string name, double mass, const Matrix3d& inertia, const Pose& pose,
                  const Vector3d& v = Vector3d::Zero(), const Vector3d& w = Vector3d::Zero());
  /// The same with the principal moments along the body axes.
  BodyId add_body(std::string name, double mass, const Vector3d& principal_inertia, const Pose& pose,
                  const Vector3d& v = Vector3d::Zero(), const Vector3d& w = Vector3d::Zero());
  /// Either of them from an Eigen expression: 0.1 * Vector3d(1, 2, 3), Matrix3d::Identity().
  template <class Expression>
  BodyId add_body(std::string name, double mass, const Eigen::MatrixBase<Expression>& inertia, const Pose& pose,
                  const Vector3d& v = Vector3d::Zero(), const Vector3d& w = Vector3d::Zero()) {
    using Plain = std::conditional_t<Expression::ColsAtCompileTime == 1, Vector3d, Matrix3d>;
    return add_body(std::move(name), mass, Plain(inertia), pose, v, w);
  }
  BodyId add_fixed(std::string name, const Pose& pose);
  /// A body that moves as told. @param motion  t [s] → its whole state at t (also v, w, a, alpha), and then `pose` is
  /// not used; may be empty where a host sets the state itself.
  BodyId add_driven(std::string name, const Pose& pose, std::function<BodyState(double)> motion = {});

  /// Generalized coordinates q of the user's own, coupled by the mass matrix of one kinetic energy (coordinates.h).
  /// Each is a body of one column: p.x is q, v.x its rate, and a force on it has its generalized force in x. Their ids
  /// follow each other. They have no place in the world, no mass of their own, and weigh nothing: gravity is theirs by
  /// a potential (forces.h).
  /// @return the id of the first
  BodyId add_coordinates(std::vector<std::string> names, std::vector<double> q, std::vector<double> rate,
                         std::shared_ptr<const Kinetics> kinetics);

  /// Room for so many bodies and constraints in all: they are then added without moving the others in memory.
  void reserve(int bodies, int constraints);
  /// @throws also if none of the constraint's bodies can move.
  ConstraintId add(Constraint constraint);
  void add(Force force);
  void set_gravity(const Vector3d& g);  ///< [m/s²] (W); zero to begin with

  [[nodiscard]] std::string try_add_particle(BodyId& id, std::string name, double mass, const Vector3d& p,
                                             const Vector3d& v = Vector3d::Zero()) noexcept;
  [[nodiscard]] std::string try_add_body(BodyId& id, std::string name, double mass, const Matrix3d& inertia,
                                         const Pose& pose, const Vector3d& v = Vector3d::Zero(),
                                         const Vector3d& w = Vector3d::Zero()) noexcept;
  [[nodiscard]] std::string try_add_fixed(BodyId& id, std::string name, const Pose& pose) noexcept;
  [[nodiscard]] std::string try_add_driven(BodyId& id, std::string name, const Pose& pose,
                                           std::function<BodyState(double)> motion = {}) noexcept;
  [[nodiscard]] std::string try_add_coordinates(BodyId& first, std::vector<std::string> names, std::vector<double> q,
                                                std::vector<double> rate,
                                                std::shared_ptr<const Kinetics> kinetics) noexcept;
  [[nodiscard]] std::string try_add(Constraint constraint, ConstraintId* id = nullptr) noexcept;
  [[nodiscard]] std::string try_add(Force force) noexcept;
  [[nodiscard]] std::string try_set_mass(BodyId id, double mass, const Matrix3d& inertia) noexcept;

  void enable(ConstraintId id, bool on);
  bool enabled(ConstraintId id) const;
  /// Takes a constraint, or a body with the constraints and forces on it, out for good; ids of the others stay valid.
  /// In time its place is another's. Its own id never names that one: removed() is true of it, its kind is fixed, it is
  /// not enabled, and what asks for more throws std::invalid_argument.
  void remove(ConstraintId id);
  void remove(BodyId id);

  /// Changes mass and inertia of a dynamic body (a host's bodies change under us). Same checks as add_body, but any
  /// symmetric positive definite inertia is taken: game bodies often have one that no distribution of mass has. A
  /// particle takes the mass and ignores the inertia.
  void set_mass(BodyId id, double mass, const Matrix3d& inertia);

  /// A number that no two structures share, of one system or of several: it changes with every body and constraint
  /// added, removed, enabled or disabled. For those who keep what they have worked out of it.
  unsigned long structure() const;
  int body_count() const;        ///< with the world, and with removed bodies (kind fixed)
  int constraint_count() const;  ///< with removed ones (not enabled)
  /// The id of what is, or was last, at an index below the count: to go through all of them.
  BodyId body_at(int index) const;
  ConstraintId constraint_at(int index) const;
  BodyKind kind(BodyId id) const;
  int dof(BodyId id) const;                  ///< 0, 1, 3 or 6
  double mass(BodyId id) const;              ///< [kg]; 0 for fixed and driven bodies and for coordinates
  const Matrix3d& inertia(BodyId id) const;  ///< body axes [kg·m²]; zero unless rigid
  /// The coordinates that one kinetic energy couples. `kinetics` is null, and `first` and `count` have no meaning, for
  /// bodies of other kinds.
  struct CoordinateGroup {
    BodyId first;
    int count = 0;
    const Kinetics* kinetics = nullptr;
  };
  CoordinateGroup coordinates(BodyId id) const;
  const std::string& name(BodyId id) const;
  const std::string& name(ConstraintId id) const;
  const Constraint& constraint(ConstraintId id) const;
  Constraint& constraint(ConstraintId id);
  bool removed(BodyId id) const;
  bool removed(ConstraintId id) const;
  const Vector3d& gravity() const;
  std::span<const Force> forces() const;

  /// Finds by name; index −1 when there is none.
  BodyId find_body(std::string_view name) const;
  ConstraintId find_constraint(std::string_view name) const;

  /// The state the bodies were added with, at t = 0; driven bodies at their motion(0).
  State initial_state() const;
  /// Sets fixed and driven bodies of `state` to where they are at state.t (driven ones without a motion stay as they
  /// are). Bodies that were added since `state` was made come in as they were added.
  void update_driven(State& state) const;

  /// World inertia R I Rᵀ [kg·m²] of a rigid body.
  Matrix3d world_inertia(BodyId id, const Quaterniond& q) const;
  /// Gyroscopic torque −ω × (R I Rᵀ ω) [N·m] (W) (T2).
  Vector3d gyroscopic_torque(BodyId id, const BodyState& s) const;

 private:
  struct Impl;
  friend struct SystemParts;  // the library's own way in: laws are kept here and offered by laws.h
  std::unique_ptr<Impl> impl_;
};

}  // namespace linchpin
