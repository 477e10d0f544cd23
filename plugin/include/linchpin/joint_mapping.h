// Helpers for the mapping of a host's joints to rows that linchpin holds exactly. An adapter reads frames, limits and
// motors of a joint and fills a `JointShape`. A row is exact where the joint holds it both ways and without bound;
// limits, motors, springs and softened rows stay with the host, by name.
//
// The structs of this header are values. Any thread may call the functions. A JointShape owns its function, so it can
// be moved but not copied.
#pragma once

#include <linchpin/export.h>
#include <linchpin/joints.h>

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace linchpin::host {

/// The part of a joint that linchpin holds, as the joint is configured now, and the part that stays with the host.
struct LINCHPIN_API JointShape {
  JointRows rows;                                ///< in the bodies' own axes; none where the host has all
  std::unique_ptr<ConstraintFunction> function;  ///< in place of rows: a gear
  Vector3d application_A = Vector3d::Zero(), application_B = Vector3d::Zero();  ///< where its wrench is reported [m]
  std::array<bool, 6> exact_axis{};  ///< by axis of the joint: linear x y z, angular
  /// Axes in the first body along which the host's own linear rows lie, for the breaking test; none: world axes.
  std::optional<Matrix3d> breaking_axes;
  std::string host_part;  ///< "limits, motor", or "all (why)"; empty where nothing stays with the host

  JointShape() = default;
  /// A joint that acts at the origins of two frames.
  JointShape(const JointFrame& a, const JointFrame& b) : application_A(a.origin), application_B(b.origin) {}
  /// A joint of which the host has all. @param why  the reason for reports
  static JointShape left_to_host(std::string_view why) {
    JointShape s;
    s.leave_all(why);
    return s;
  }
  /// Returns whether linchpin holds any part of the joint.
  bool any_exact() const { return function || !rows.points.empty() || !rows.axes.empty() || !rows.dots.empty(); }

  void leave(std::string_view part);  ///< The host keeps a part of the joint.
  /// Leaves the whole joint to the host.
  void leave_all(std::string_view why) { host_part = "all (" + std::string(why) + ")"; }
  /// Holds the two application points together.
  void hold_point() { rows.points.push_back({application_A, application_B}); }
  /// Holds a distance along an axis of A between the application points.
  void hold_distance(const Vector3d& u_A, double d) { rows.axes.push_back({u_A, application_A, application_B, d}); }
  /// Holds u_A · w_B = c.
  void hold_dot(const Vector3d& u_A, const Vector3d& w_B, double c = 0) { rows.dots.push_back({u_A, w_B, c}); }
  /// Holds axis i of two frames together.
  void hold_direction(const JointFrame& a, const JointFrame& b, int i);
  /// Holds the last angle by a dot, after which (x_A, y_A) lie along (x_B, y_B) as far as they are square.
  void hold_orientation(const JointRows::Dot& dot, const Vector3d& x_A, const Vector3d& y_A, const Vector3d& x_B,
                        const Vector3d& y_B);
};

/// One of the six axes of a joint: how far its bodies may go along or about it, and what else acts there.
struct JointAxis {
  double lower = 1, upper = -1;  ///< free where lower > upper; locked where they are equal
  /// A motor, a spring, or softened rows act along or about the axis.
  bool motor = false, spring = false, soft = false;
  bool stops_at_half_turn = true;  ///< Limits of a whole turn, too, have rows in the host.
  /// Returns whether the axis is held exactly.
  bool is_locked() const { return lower == upper && !motor && !spring && !soft; }
};
/// Limits of an angle that is brought to −π … π before: those that span a whole turn stop nothing.
LINCHPIN_API bool stops(double lower, double upper);

/// Turns about z of the frames. Only that axis of A's frame is trusted where the frame is skewed.
/// @param about  a locked angle t holds x_A cos t − y_A sin t square to y_B
LINCHPIN_API JointShape hinge_joint(const JointFrame& a, const JointFrame& b, const JointAxis& about, bool holds_point);
/// Slides along x of the frames and turns about it. @param about  y_B leads y_A by this angle
LINCHPIN_API JointShape slider_joint(const JointFrame& a, const JointFrame& b, const JointAxis& along,
                                     const JointAxis& about);
/// A ball joint that may also hold x of the frames together, and then y.
LINCHPIN_API JointShape cone_twist_joint(const JointFrame& a, const JointFrame& b, bool holds_swing, bool holds_twist);

/// The order of the Euler angles of a joint: the axes of A and of B that span them, the middle one, and the parity.
struct EulerOrder {
  int a = 2, b = 0, middle = 1;  ///< x, y, z
  double sign = 1;               ///< 1 or −1: parity of the order
};
/// A joint with a linear and an angular position for each of three axes.
/// @param axes  linear x y z [m], angular x y z [rad]
LINCHPIN_API JointShape six_axis_joint(const JointFrame& a, const JointFrame& b, const std::array<JointAxis, 6>& axes,
                                       const EulerOrder& order);

/// Mixes the settings of a joint into one number. An adapter compares it with an earlier one to find that the program
/// has changed a setting. Zero is the same with either sign. Different settings have the same number with a probability
/// of 2⁻⁶⁴. A plain value.
class SettingsMixer {
 public:
  /// Adds settings.
  template <class... Numbers>
  void add(Numbers... numbers) {
    (mix(static_cast<double>(numbers)), ...);
  }
  /// The number for all settings so far.
  std::uint64_t sum() const {
    std::uint64_t all = 0;
    for (const std::uint64_t sum : sums_) all = mixed(all, sum);
    return all;
  }

 private:
  static std::uint64_t mixed(std::uint64_t sum, std::uint64_t x) {
    sum = (sum ^ x) * 0x9E3779B97F4A7C15u;
    return sum ^ (sum >> 32);
  }
  void mix(double x) {
    std::uint64_t& sum = sums_[next_++ % sums_.size()];
    sum = mixed(sum, std::bit_cast<std::uint64_t>(x + 0.0));
  }
  std::array<std::uint64_t, 4> sums_{};  ///< of every fourth number: one would wait for the other
  std::size_t next_ = 0;
};

/// u_A·ω_A + ratio u_B·ω_B = 0 with axes carried by the bodies, as a condition on positions: the angles turned since
/// the gear was first evaluated. Two poses determine a rotation below half a turn, from the begin of a (sub)step to its
/// end. A body may have turned further under host rows: the teeth then mesh again where they are. A clone has its own
/// angles.
LINCHPIN_API std::unique_ptr<ConstraintFunction> body_gear(const Vector3d& u_A, const Vector3d& u_B, double ratio);

}  // namespace linchpin::host
