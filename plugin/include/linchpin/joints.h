// Stock joints, made through the same public interface as a user's constraint. They are derived by hand from three
// primitives (rows with their A and b), and tests check them against automatic differentiation:
//
//   P  point      p_AQ − p_BQ = 0                    3 rows [m]
//   D  dot        u_A · w_B − c = 0                  1 row  [rad]
//   L  axis       u_A · (p_BQ − p_AQ) − d0 = 0       1 row  [m]
//
// Points p_AQ, p_BQ [m] and axes u_A, u_B are in the axes of the body named. Points are measured from its centre of
// mass. Axes need not be unit. Zero axes and numbers that are not finite throw std::invalid_argument. Angles follow the
// right hand about the axis. `ground` is a body like others. Reactions on a and b are `on_a` and `on_b`.
//
// A joint acts at its points. A joint whose point of b slides along a acts on both bodies at that point of b. Rows are
// in the order P, L, D. Two rows across an axis u use the perpendiculars e = u.unitOrthogonal() and u × e of the unit
// u, in that order.
//
// The structs of this header are plain values. Any thread may call the functions. Each call makes a constraint of its
// own. Callables of time and of surfaces are copied into it; see linchpin::Constraint for copies and threads.
#pragma once

#include <linchpin/constraint.h>
#include <linchpin/export.h>

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace linchpin {

/// A frame fixed in a body: origin [m] from the centre of mass, axes as columns of a rotation (body axes).
struct JointFrame {
  Vector3d origin = Vector3d::Zero();    ///< Origin [m], from the centre of mass in body axes.
  Matrix3d axes = Matrix3d::Identity();  ///< The axes as columns (body axes).
};

namespace joints {

/// 3P: the two points coincide.
LINCHPIN_API Constraint ball(std::string name, BodyId a, const Vector3d& p_AQ, BodyId b, const Vector3d& p_BQ);
/// 3P + 2D: leaves rotation about one axis.
LINCHPIN_API Constraint hinge(std::string name, BodyId a, const Vector3d& p_AQ, const Vector3d& u_A, BodyId b,
                              const Vector3d& p_BQ, const Vector3d& u_B);
/// 2L + 3D: slides along x of the frames and does not rotate. The frames must have the same orientation when the joint
/// is satisfied.
LINCHPIN_API Constraint slider(std::string name, BodyId a, const JointFrame& frame_A, BodyId b,
                               const JointFrame& frame_B);
/// 3P + 3D: the two frames coincide.
LINCHPIN_API Constraint weld(std::string name, BodyId a, const JointFrame& frame_A, BodyId b,
                             const JointFrame& frame_B);
/// 3P + 1D: u_A stays perpendicular to u_B. (A cross with one axis in each body.)
LINCHPIN_API Constraint universal(std::string name, BodyId a, const Vector3d& p_AQ, const Vector3d& u_A, BodyId b,
                                  const Vector3d& p_BQ, const Vector3d& u_B);
/// 2L + 2D: slides along one axis and rotates about it.
LINCHPIN_API Constraint cylindrical(std::string name, BodyId a, const Vector3d& p_AQ, const Vector3d& u_A, BodyId b,
                                    const Vector3d& p_BQ, const Vector3d& u_B);
/// 1L + 2D: a point of b stays in the plane of a through p_AQ with normal u_A, and u_B stays along u_A.
LINCHPIN_API Constraint planar(std::string name, BodyId a, const Vector3d& p_AQ, const Vector3d& u_A, BodyId b,
                               const Vector3d& p_BQ, const Vector3d& u_B);
/// 2L: a point of b stays on a line of a.
LINCHPIN_API Constraint point_on_line(std::string name, BodyId a, const Vector3d& p_AQ, const Vector3d& u_A, BodyId b,
                                      const Vector3d& p_BQ);
/// 1L: a point of b stays in a plane of a.
LINCHPIN_API Constraint point_on_plane(std::string name, BodyId a, const Vector3d& p_AQ, const Vector3d& u_A, BodyId b,
                                       const Vector3d& p_BQ);
/// Keeps |p_AQ − p_BQ| = length by one row [m] (φ = (d² − l²)/2l). @param length [m] > 0.
LINCHPIN_API Constraint rod(std::string name, BodyId a, const Vector3d& p_AQ, BodyId b, const Vector3d& p_BQ,
                            double length);
/// A point of b stays at distance `radius` [m] > 0 from a point of a. It is the constraint of `rod` under another name.
LINCHPIN_API Constraint point_on_sphere(std::string name, BodyId a, const Vector3d& p_AQ, double radius, BodyId b,
                                        const Vector3d& p_BQ);
/// Couples two rotations relative to `carrier`, θ_a about u_A of a and θ_b about u_B of b: θ_a + ratio·θ_b = constant.
/// Angles are measured about the axes as they lie in the carrier at the first evaluation. They are unwrapped from step
/// to step, so that the residual is positional and does not drift [rad]. Other joints must hold the axes in place in
/// the carrier. A body must turn by less than half a turn in a step. A copy that is made before the first evaluation
/// measures its own angles. A later copy continues with the angles so far. @param ratio  not 0; > 0 for wheels that
/// turn against each other.
LINCHPIN_API Constraint gear(std::string name, BodyId a, const Vector3d& u_A, BodyId b, const Vector3d& u_B,
                             double ratio, BodyId carrier = ground);

/// One single row of the primitives, for hosts and for joints not listed here.
LINCHPIN_API Constraint dot_row(std::string name, BodyId a, const Vector3d& u_A, BodyId b, const Vector3d& w_B,
                                double c = 0);
/// One row of a point along an axis of a: u_A · (p_WB − p_WA) = d0 [m].
LINCHPIN_API Constraint axis_row(std::string name, BodyId a, const Vector3d& p_AQ, const Vector3d& u_A, BodyId b,
                                 const Vector3d& p_BQ, double d0 = 0);

}  // namespace joints

/// The general joint: any of the primitives between two bodies, in the order of the members. Adapters build their
/// joints from it.
struct JointRows {
  /// Two points that coincide: 3 rows.
  struct Point {
    Vector3d p_AQ, p_BQ;  ///< The points, from the centres of mass in body axes [m].
  };
  /// A scalar product of two unit vectors: 1 row.
  struct Dot {
    Vector3d u_A, w_B;  ///< The unit vectors, in the axes of A and of B.
    double c = 0;       ///< Value of the product.
  };
  /// A distance along an axis of A: 1 row.
  struct Axis {
    Vector3d u_A, p_AQ, p_BQ;  ///< The axis and the two points, in the axes of their bodies [m].
    double d0 = 0;             ///< The distance [m].
  };
  static constexpr std::size_t primitive_count = 3;  ///< Number of kinds: points, axes and dots.
  /// The relative rotation that the dots hold, by frames of A and B (axes as columns, body axes). Dots alone vanish at
  /// other rotations, too, such as half a turn away. A joint that is turned by more than half a radian is brought to
  /// this rotation (`project_positions`).
  struct Alignment {
    /// What the dots hold.
    enum class Of {
      nothing,     ///< The dots hold no rotation that is known.
      angle,       ///< The first axis of B, seen along the third of A, lies along the first of A.
      angle_in_b,  ///< The first axis of A, seen along the third of B, lies along the first of B.
      direction,   ///< The third axes are the same.
      orientation  ///< All axes are the same.
    };
    Of of = Of::nothing;                                          ///< What the dots hold.
    Matrix3d A = Matrix3d::Identity(), B = Matrix3d::Identity();  ///< The frames in A and in B.
    /// Number of dots that the alignment stands for.
    int held() const { return of == Of::nothing ? 0 : of == Of::direction ? 2 : of == Of::orientation ? 3 : 1; }
  };
  std::vector<Point> points;  ///< Points, 3 rows each.
  std::vector<Axis> axes;     ///< Distances along axes, 1 row each.
  std::vector<Dot> dots;      ///< Scalar products, 1 row each.
  Alignment alignment = {};   ///< The rotation that the dots hold.
};
namespace joints {

/// @param application_A, application_B  points where its wrench is reported [m], body axes.
LINCHPIN_API Constraint joint(std::string name, BodyId a, BodyId b, JointRows rows, const Vector3d& application_A,
                              const Vector3d& application_B);

/// A generic callable of time on number types: [](auto t) { return 1.5 + 0.1 * sin(t); }
template <class F>
concept MotionOfTime = !std::is_arithmetic_v<F>;

/// A rod of length l(t) [m].
template <MotionOfTime Length>
Constraint rod(std::string name, BodyId a, const Vector3d& p_AQ, BodyId b, const Vector3d& p_BQ, Length length);
/// A point of b stays on a surface f(x, y, z) = 0, given in the axes of a, from its centre of mass. `f` is a generic
/// callable of a Vec3 [m]. Its gradient must not vanish on the surface. The row has f's own unit.
template <class Surface>
Constraint point_on_surface(std::string name, BodyId a, Surface f, BodyId b, const Vector3d& p_BQ);
/// A point of b stays on a curve of a, given as the common zeros of two functions returned by `f` as rows(f1, f2).
template <class Curve>
Constraint point_on_curve(std::string name, BodyId a, Curve f, BodyId b, const Vector3d& p_BQ);
/// The distance of a point of b along u_A from a point of a is f(t) [m].
template <MotionOfTime Motion>
Constraint prescribed_distance(std::string name, BodyId a, const Vector3d& p_AQ, const Vector3d& u_A, BodyId b,
                               const Vector3d& p_BQ, Motion f);
/// The angle by which x_B leads x_A about the axis u_A is f(t) [rad]; both x are perpendicular to the axis when
/// satisfied.
template <MotionOfTime Motion>
Constraint prescribed_angle(std::string name, BodyId a, const Vector3d& u_A, const Vector3d& x_A, BodyId b,
                            const Vector3d& x_B, Motion f);

}  // namespace joints

// ---- templates ----

namespace detail {
/// Argument checks of joints, compiled where exceptions are enabled. @throws std::invalid_argument.
LINCHPIN_API Vector3d unit_axis(const std::string& joint, const char* what, const Vector3d& u);
inline constexpr const char *anchor_on_a = "the anchor point p_AQ on the first body",
                            *anchor_on_b = "the anchor point p_BQ on the second body";
LINCHPIN_API void require_finite(const std::string& joint, const char* what, const Vector3d& p);
}  // namespace detail

namespace joints {

template <MotionOfTime Length>
Constraint rod(std::string name, BodyId a, const Vector3d& p_AQ, BodyId b, const Vector3d& p_BQ, Length length) {
  detail::require_finite(name, detail::anchor_on_a, p_AQ);
  detail::require_finite(name, detail::anchor_on_b, p_BQ);
  const auto phi = [=](const auto& s) {
    const auto d = s[0].point(p_AQ) - s[1].point(p_BQ);
    const auto l = length(s.t);
    return (dot(d, d) - l * l) / (2.0 * l);
  };
  return holonomic(std::move(name), {a, b}, phi, RowUnit::metre).set_application_points({p_AQ, p_BQ});
}

template <class Surface>
Constraint point_on_surface(std::string name, BodyId a, Surface f, BodyId b, const Vector3d& p_BQ) {
  detail::require_finite(name, detail::anchor_on_b, p_BQ);
  const auto phi = [=](const auto& s) { return f(s[0].to_body(s[1].point(p_BQ))); };
  return holonomic(std::move(name), {a, b}, phi).set_application_points({Vector3d::Zero(), p_BQ}).set_sliding_body(1);
}

template <class Curve>
Constraint point_on_curve(std::string name, BodyId a, Curve f, BodyId b, const Vector3d& p_BQ) {
  return point_on_surface(std::move(name), a, f, b, p_BQ);
}

template <MotionOfTime Motion>
Constraint prescribed_distance(std::string name, BodyId a, const Vector3d& p_AQ, const Vector3d& u_A, BodyId b,
                               const Vector3d& p_BQ, Motion f) {
  detail::require_finite(name, detail::anchor_on_a, p_AQ);
  detail::require_finite(name, detail::anchor_on_b, p_BQ);
  const Vector3d u = detail::unit_axis(name, "u_A", u_A);
  const auto phi = [=](const auto& s) { return dot(s[0].axis(u), s[1].point(p_BQ) - s[0].point(p_AQ)) - f(s.t); };
  return holonomic(std::move(name), {a, b}, phi, RowUnit::metre)
      .set_application_points({p_AQ, p_BQ})
      .set_sliding_body(1);
}

template <MotionOfTime Motion>
Constraint prescribed_angle(std::string name, BodyId a, const Vector3d& u_A, const Vector3d& x_A, BodyId b,
                            const Vector3d& x_B, Motion f) {
  const Vector3d u = detail::unit_axis(name, "u_A", u_A);
  const Vector3d x = detail::unit_axis(name, "the part of x_A perpendicular to u_A", x_A - u * u.dot(x_A)),
                 y = u.cross(x);
  const Vector3d xb = detail::unit_axis(name, "x_B", x_B);
  const auto phi = [=](const auto& s) {  // sin(angle − f): zero and monotone around the motion.
    using T = std::remove_cvref_t<decltype(s.t)>;
    const T angle = f(s.t);
    const auto in_b = s[1].axis(xb);
    return dot(in_b, s[0].axis(y)) * cos(angle) - dot(in_b, s[0].axis(x)) * sin(angle);
  };
  return holonomic(std::move(name), {a, b}, phi, RowUnit::radian);
}

}  // namespace joints

}  // namespace linchpin
