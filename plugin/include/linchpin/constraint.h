// A constraint is written once, as a residual, and its rows of A and b follow (T3). This header hides automatic
// differentiation, the chain rule through rotations and explicit time. The function solve (problem.h) decides whether
// rows are consistent.
//
// Objects of this header have no locks and share no hidden data. Two threads may use two different objects at the same
// time. One object, its functions of const objects included, serves one thread at a time: an evaluation uses memory of
// the function.
#pragma once

#include <linchpin/detail/jet.h>
#include <linchpin/export.h>
#include <linchpin/system.h>

#include <array>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace linchpin {

/// The quantity on which a residual is a condition (T3).
enum class Level {
  position,     ///< Holonomic: φ(X, t) = 0.
  velocity,     ///< Nonholonomic: ψ(X, V, t) = 0, linear in V or not.
  acceleration  ///< On accelerations: α(X, V, V̇, t) = 0, linear in V̇.
};

/// Unit of one row of a position residual. It decides the column of a report in which the row appears.
enum class RowUnit {
  metre,   ///< A length [m].
  radian,  ///< An angle [rad].
  custom   ///< A unit of the user's own.
};

/// Output of `ConstraintFunction::linearize`, row-major, for all K bodies of the constraint, fixed ones included.
struct Linearization {
  std::span<double> A;  ///< [rows × 6K]: body k at columns 6k, [linear; angular] in W. A particle uses the first 3.
  std::span<double> b;  ///< [rows]: A v̇ = b.
  std::span<double> position;  ///< [rows]: φ, zero for the other levels.
  std::span<double> velocity;  ///< [rows]: φ̇ = A v + φ_t, or ψ. Zero for acceleration rows.
};

/// The equations of a constraint. Stock joints implement it by hand (joints.h). `holonomic`, `nonholonomic` and
/// `on_acceleration` below make one from a lambda.
///
/// A Constraint owns its function. The solver calls a function while it evaluates a step, from the thread that steps.
/// The spans of a call are valid during the call. A function must not call a solver, because solvers of one thread
/// share work memory. It may throw: a step then fails or is left to the host, and the report contains the text. An
/// evaluation is const, but it may use scratch memory of the function. A gear also takes its first angles from its
/// first evaluation. So only one thread at a time may use one function. Different functions are independent.
class LINCHPIN_API ConstraintFunction {
 public:
  virtual ~ConstraintFunction() = default;
  /// Returns a copy with the same internal state. Later changes of one do not influence the other. A derived class
  /// returns `std::make_unique<Derived>(*this)`.
  virtual std::unique_ptr<ConstraintFunction> clone() const = 0;
  virtual int rows() const = 0;             ///< Number of rows.
  virtual int bodies() const = 0;           ///< Number of bodies K.
  virtual Level level() const = 0;          ///< The quantity on which the rows are conditions.
  virtual RowUnit unit(int row) const = 0;  ///< Unit of a row.
  /// Residual φ(X, t), ψ(X, V, t) or α(X, V, V̇, t) by level, where V̇ is the `a`, `alpha` in X. @param X the K bodies.
  /// @param out [rows].
  virtual void residual(std::span<const BodyState> X, double t, std::span<double> out) const = 0;
  /// Computes A, b and the residuals at both levels. Kinematic bodies carry their velocity and acceleration in X. The
  /// vector b includes −A_k [a; alpha] of every body's `a`, `alpha`, so the caller sets them to zero for bodies that
  /// the equations move.
  virtual void linearize(std::span<const BodyState> X, double t, Linearization out) const = 0;
  /// Called once after each accepted step. Functions with an internal state (unwrapped angles) update it here.
  virtual void accept(std::span<const BodyState> /*X*/, double /*t*/) {}
  /// The internal state as numbers, with which a caller can restore an earlier time. Empty for functions without one.
  virtual std::vector<double> internal_state() const { return {}; }
  /// Sets the internal state. The argument is a result of internal_state(). It is ignored if its size is different.
  virtual void set_internal_state(std::span<const double> /*kept*/) {}

 protected:
  ConstraintFunction() = default;
  ConstraintFunction(const ConstraintFunction&) = default;
  ConstraintFunction& operator=(const ConstraintFunction&) = default;
};

namespace detail {
struct ConstraintParts;
}

/// A named constraint between K bodies, ready to be added to a System. It is a value that owns its function.
///
/// A copy clones the function and its internal state. The copies share nothing, so one can be added to each of several
/// systems. The lambda of a residual is copied as C++ copies it. An object that it captures by reference or by pointer
/// is the same for all copies, and must exist as long as they do. A move is cheap and leaves an object that can only be
/// assigned or destroyed. Pointers to the function stay valid when the constraint is moved. One thread at a time may
/// use one constraint.
class LINCHPIN_API Constraint {
 public:
  /// @throws std::invalid_argument  unless there is a name and a function of that number of bodies, each named once.
  Constraint(std::string name, std::vector<BodyId> bodies, std::unique_ptr<ConstraintFunction> function);
  Constraint(const Constraint& other);
  Constraint(Constraint&&) noexcept = default;
  Constraint& operator=(const Constraint& other) { return *this = Constraint(other); }
  Constraint& operator=(Constraint&&) noexcept = default;
  ~Constraint() = default;

  /// Declares the point of each body where the constraint acts (body axes, from the centre of mass [m]). There its
  /// wrench is reported, its normal force is measured, and the force of a law is applied. Joints set it themselves. A
  /// residual of the user's own needs it before it takes a law, except between particles.
  Constraint& set_application_points(std::vector<Vector3d> p_BQ);
  /// Declares an application point that is fixed on none of the bodies. An example is the point where a ball touches
  /// its lane.
  /// @param p_WQ  the point [m] (W), one for all bodies, from their states at any time
  Constraint& set_application_point(std::function<Vector3d(const State&)> p_WQ);
  /// Declares that the constraint acts on all its bodies at body k's present point. Use it for a point of k that slides
  /// along the others. Without it the constraint acts on each body at that body's own point.
  Constraint& set_sliding_body(int k);

  /// Returns a copy of the constraint between the same number of other bodies, with its internal state.
  Constraint between(std::vector<BodyId> bodies) const {
    Constraint copy = *this;
    copy.bodies_ = std::move(bodies);
    return copy;
  }

  /// Name of the constraint, as in reports.
  const std::string& name() const { return name_; }
  /// Valid until the constraint is assigned, moved or destroyed.
  std::span<const BodyId> bodies() const { return bodies_; }
  /// The equations of the constraint.
  const ConstraintFunction& function() const { return *function_; }
  /// The equations of the constraint, for a change of their settings or internal state.
  ConstraintFunction& function() { return *function_; }
  /// Returns whether application points are known, so that the constraint can have laws.
  bool has_application_points() const { return !points_.empty() || where_; }
  /// Acting point [m], body axes. Zero (the centre of mass) where nothing was declared.
  Vector3d point(int k) const { return points_.empty() ? Vector3d::Zero() : points_[static_cast<std::size_t>(k)]; }
  /// Point where the constraint acts on body k at a state [m] (W): the point of its wrench, of its normal force and of
  /// a law's force. Calls the function of set_application_point().
  Vector3d application_point(int k, const State& state) const {
    if (where_) return where_(state);
    const int holder = slider_ < 0 ? k : slider_;
    return state[bodies_[static_cast<std::size_t>(holder)]].point(point(holder));
  }
  /// The body whose point slides along the others (`set_sliding_body`), −1 for none.
  int sliding_body() const { return slider_; }
  /// Returns true if the application point was declared by `set_application_point`.
  bool application_point_moves() const { return static_cast<bool>(where_); }

 private:
  friend struct detail::ConstraintParts;  // Access for the library itself.
  std::string name_;
  std::vector<BodyId> bodies_;
  std::unique_ptr<ConstraintFunction> function_;
  std::vector<Vector3d> points_;
  int slider_ = -1;
  std::function<Vector3d(const State&)> where_;
};

// ---- arguments of a residual ----

namespace detail {
struct AutodiffSeed;
template <class...>
inline constexpr bool never = false;
/// @throws std::invalid_argument. It is compiled in the library, because headers compile without exceptions.
[[noreturn]] LINCHPIN_API void no_such_body(std::size_t k, std::size_t count);
}  // namespace detail

/// Pose of one body: all that a holonomic residual may read. T is a number type of detail/jet.h.
///
/// The views of this header are plain values without references to the system. They are valid during the call of the
/// residual that receives them.
template <class T>
class PoseView {
 public:
  using number = T;  ///< Number type of the components.

  /// World position of a body-fixed point [m], given in body axes from the centre of mass.
  Vec3<T> point(const Eigen::Vector3d& p_BQ) const { return p_ + turned(p_BQ); }
  /// World position of a body-fixed point [m], by its components.
  Vec3<T> point(double x, double y, double z) const { return point({x, y, z}); }
  /// World components of a body-fixed direction (not normalised).
  Vec3<T> axis(const Eigen::Vector3d& u_B) const { return turned(u_B); }
  /// World components of a body-fixed direction, by its components.
  Vec3<T> axis(double x, double y, double z) const { return turned({x, y, z}); }
  /// Centre of mass [m] (W).
  const Vec3<T>& position() const { return p_; }
  /// Body-axes position of a world point [m]: the inverse of point().
  Vec3<T> to_body(const Vec3<T>& p_WQ) const {
    const Vec3<T> d = p_WQ - p_;
    return {dot(columns_[0], d), dot(columns_[1], d), dot(columns_[2], d)};
  }

  /// Does not compile: a holonomic residual reads positions only.
  template <class... Point>
  Vec3<T> velocity(const Point&...) const {
    static_assert(detail::never<T, Point...>,
                  "linchpin: a holonomic residual must not read velocities. Use nonholonomic(), or "
                  "constrain_velocity() in an engine");
    return {};
  }
  /// Does not compile: a holonomic residual reads positions only.
  template <class... None>
  Vec3<T> omega(const None&...) const {
    static_assert(detail::never<T, None...>,
                  "linchpin: a holonomic residual must not read velocities. Use nonholonomic(), or "
                  "constrain_velocity() in an engine");
    return {};
  }

 protected:
  /// Turns a vector from body to world axes.
  Vec3<T> turned(const Eigen::Vector3d& u) const {
    return {columns_[0].x * u.x() + columns_[1].x * u.y() + columns_[2].x * u.z(),
            columns_[0].y * u.x() + columns_[1].y * u.y() + columns_[2].y * u.z(),
            columns_[0].z * u.x() + columns_[1].z * u.y() + columns_[2].z * u.z()};
  }
  friend struct detail::AutodiffSeed;
  Vec3<T> p_;                       ///< Centre of mass [m] (W).
  std::array<Vec3<T>, 3> columns_;  ///< Columns of R_WB.
};

/// Pose and velocity of one body: the argument of a nonholonomic residual.
template <class T>
class VelocityView : public PoseView<T> {
 public:
  /// Velocity of the centre of mass [m/s] (W).
  const Vec3<T>& velocity() const { return v_; }
  /// Velocity of a body-fixed point [m/s] (W).
  Vec3<T> velocity(const Eigen::Vector3d& p_BQ) const { return v_ + cross(w_, this->turned(p_BQ)); }
  /// Velocity of a body-fixed point [m/s] (W), by its components.
  Vec3<T> velocity(double x, double y, double z) const { return velocity(Eigen::Vector3d(x, y, z)); }
  /// Angular velocity [rad/s] (W).
  const Vec3<T>& omega() const { return w_; }

 protected:
  friend struct detail::AutodiffSeed;
  Vec3<T> v_, w_;  ///< Velocity of the centre of mass and angular velocity (W).
};

/// Pose, velocity and acceleration of one body: the argument of an acceleration residual.
template <class T>
class AccelerationView : public VelocityView<T> {
 public:
  const Vec3<T>& acceleration() const { return a_; }  ///< Acceleration of the centre of mass [m/s²] (W).
  const Vec3<T>& alpha() const { return alpha_; }     ///< Angular acceleration [rad/s²] (W).
  /// Acceleration of a body-fixed point [m/s²] (W).
  Vec3<T> acceleration(const Eigen::Vector3d& p_BQ) const {
    const Vec3<T> r = this->turned(p_BQ);
    return a_ + cross(alpha_, r) + cross(this->w_, cross(this->w_, r));
  }
  /// Acceleration of a body-fixed point [m/s²] (W), by its components.
  Vec3<T> acceleration(double x, double y, double z) const { return acceleration(Eigen::Vector3d(x, y, z)); }

 protected:
  friend struct detail::AutodiffSeed;
  Vec3<T> a_, alpha_;  ///< Acceleration of the centre of mass and angular acceleration (W).
};

/// The argument `s` of a residual: s[k] is its k-th body, and s.t is the time. It refers to memory of the caller and is
/// valid during the call of the residual.
template <template <class> class View, class T>
struct ResidualArgs {
  std::span<const View<T>> bodies;  ///< The bodies, in the order of the constraint.
  T t;                              ///< Time [s].
  /// The k-th body. It ends in an exception if there is no such body.
  const View<T>& operator[](std::size_t k) const {
    if (k >= bodies.size()) detail::no_such_body(k, bodies.size());
    return bodies[k];
  }
};

/// Joins scalars and vectors to the rows of one residual: return rows(dot(u, v), a - b).
template <class... Parts>
auto rows(const Parts&... parts);

// ---- making constraints ----

/// A constraint on positions: φ(X, t) = 0. A is ∂φ̇/∂v, b is −φ̈ along the motion with v̇ = 0 (T3). Example:
///
///     auto rod = holonomic("rod", {a, b}, [](const auto& s) {
///       auto d = s[0].point(0, -0.1, 0) - s[1].position();
///       return dot(d, d) - square(1.5 + 0.1 * sin(3.0 * s.t));
///     });
///
/// @param bodies  The K bodies that φ reads as s[0] … s[K−1], each once. `ground` and fixed bodies may be among them.
/// @param phi     Called on number types, so write sin(x), not std::sin(x). It returns a number, a Vec3, a std::array
/// of numbers or rows(…). It is smooth near the motion. Reading a velocity does not compile. The constraint keeps a
/// copy of it, and copies of the constraint copy it. It may be called several times in a step, so it must not count or
/// remember.
/// @param unit    Unit of all rows, if metres or radians. It decides where a report shows the gap.
/// @throws std::invalid_argument  if bodies is empty or names one twice. Cost: one evaluation with 6 directions per
/// body and one Taylor evaluation. No allocation.
template <class Phi>
Constraint holonomic(std::string name, std::vector<BodyId> bodies, Phi phi, RowUnit unit = RowUnit::custom);

/// A constraint on velocities: ψ(X, V, t) = 0, linear in V or not. A is ∂ψ/∂v, b is −ψ̇ along the motion with v̇ = 0
/// (T3). It is used as `holonomic`, with s[k].velocity() and s[k].omega() in addition.
template <class Psi>
Constraint nonholonomic(std::string name, std::vector<BodyId> bodies, Psi psi);

/// A constraint on accelerations: α(X, V, V̇, t) = 0, linear in V̇. A is ∂α/∂v̇, b is −α at v̇ = 0 (T3). It is used as
/// `holonomic`, with s[k].acceleration() and s[k].alpha() in addition.
template <class Alpha>
Constraint on_acceleration(std::string name, std::vector<BodyId> bodies, Alpha alpha);

// ---- checking ----

/// Result of `check_constraint`. Each error is relative to the largest entry of its quantity (or 1).
struct ConstraintCheck {
  double error_A = 0;         ///< Largest |A − central difference|.
  double error_b = 0;         ///< Largest |b − central difference|.
  double error_velocity = 0;  ///< Largest |φ̇ − central difference|, position level only.
  int row = -1, body = -1;    ///< Place of the largest of these errors. Body −1: in b or in φ̇.
  bool finite = true;         ///< No residual, A or b is NaN or infinite.
  double residual = 0;        ///< Largest |φ|, |ψ| at the state.
  double velocity = 0;        ///< Largest |φ̇| or |ψ| at the state.
  std::string message;        ///< Empty on success. Otherwise names the constraint, the row and the fault.

  bool ok() const { return message.empty(); }  ///< Returns true if the check found no fault.
};

/// Compares A and b of a constraint with central differences of its residual, at `state`. It is the derivative test for
/// residuals and for hand-derived functions alike. b and φ̇ are also compared at invented velocities, so that a state
/// at rest hides nothing. It reports errors above 1e-5 (b: 1e-4), values that are not finite, and a constraint of which
/// no body can move. If the state of a body is not finite, the message names the body and the value. The function costs
/// about 30 evaluations for each body. It allocates and never throws.
[[nodiscard]] LINCHPIN_API ConstraintCheck check_constraint(const System& system, const Constraint& constraint,
                                                            const State& state) noexcept;

// ---- implementation ----

namespace detail {

template <class R>
struct row_traits {  // Number of rows that a residual returns, and access to each.
  static constexpr int count = 0;
};
template <Number T>
struct row_traits<T> {
  static constexpr int count = 1;
  using number = T;
  template <class F>
  static void each(const T& r, F f) {
    f(0, r);
  }
};
template <Number T>
struct row_traits<Vec3<T>> {
  static constexpr int count = 3;
  using number = T;
  template <class F>
  static void each(const Vec3<T>& r, F f) {
    f(0, r.x);
    f(1, r.y);
    f(2, r.z);
  }
};
template <Number T, std::size_t m>
struct row_traits<std::array<T, m>> {
  static constexpr int count = static_cast<int>(m);
  using number = T;
  template <class F>
  static void each(const std::array<T, m>& r, F f) {
    for (std::size_t i = 0; i < m; ++i) f(static_cast<int>(i), r[i]);
  }
};

}  // namespace detail

template <class... Parts>
auto rows(const Parts&... parts) {
  static_assert(((detail::row_traits<Parts>::count > 0) && ...),
                "linchpin: each argument of rows() must be a number, a Vec3 or a std::array of numbers that is "
                "computed from s[k] or s.t");
  using T = typename detail::row_traits<std::tuple_element_t<0, std::tuple<Parts...>>>::number;
  std::array<T, static_cast<std::size_t>((detail::row_traits<Parts>::count + ...))> all;
  int at = 0;
  (
      [&] {
        detail::row_traits<Parts>::each(parts, [&](int i, const T& x) { all[static_cast<std::size_t>(at + i)] = x; });
        at += detail::row_traits<Parts>::count;
      }(),
      ...);
  return all;
}

namespace detail {

/// Builds the views of one body for one pass.
struct AutodiffSeed {
  /// Without derivatives, for residuals in Newton iterations.
  template <class View>
  static View constant(const BodyState& s, const Matrix3d& R);
  /// Directions 0…5: displacement and rotation [δp; δθ] (A of position rows), velocity, or acceleration.
  static PoseView<Dual<6>> displaced(const BodyState& s, const Matrix3d& R, bool seeded);
  static VelocityView<Dual<6>> velocity(const BodyState& s, const Matrix3d& R, bool seeded);
  static AccelerationView<Dual<6>> acceleration(const BodyState& s, const Matrix3d& R, bool seeded);
  /// Along the motion with the v̇ of the state: p + s v + ½s² a, and the exponential of the rotation to second order.
  static PoseView<Taylor> moved(const BodyState& s, const Matrix3d& R);
  static VelocityView<Taylor> moving(const BodyState& s, const Matrix3d& R);
  /// A coordinate and its rate, as the x of position and velocity.
  template <class T>
  static VelocityView<T> coordinate(const T& q, const T& rate) {
    VelocityView<T> view;
    view.p_.x = q;
    view.v_.x = rate;
    return view;
  }
};

template <template <class> class View, class F, Level level_>
class FromResidual;

template <class F>
using HolonomicFunction = FromResidual<PoseView, F, Level::position>;
template <class F>
using NonholonomicFunction = FromResidual<VelocityView, F, Level::velocity>;
template <class F>
using AccelerationFunction = FromResidual<AccelerationView, F, Level::acceleration>;

}  // namespace detail
}  // namespace linchpin

#include <linchpin/detail/residual.h>
