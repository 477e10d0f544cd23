// Random vectors, poses and bodies from a seed: the same on every machine, and repeatable one by one.
#pragma once

#include <linchpin/system.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <numbers>
#include <random>
#include <string>
#include <vector>

namespace linchpin::test {

/// Seeds 1 … count, or the one in LINCHPIN_TEST_SEED.
///
///     for (const std::uint64_t seed : seeds(100)) {
///       SCOPED_TRACE(repeat_with(seed));
///       Random random(seed);
inline std::vector<std::uint64_t> seeds(int count) {
  if (const char* given = std::getenv("LINCHPIN_TEST_SEED")) return {std::strtoull(given, nullptr, 10)};
  std::vector<std::uint64_t> all;
  for (int i = 1; i <= count; ++i) all.push_back(static_cast<std::uint64_t>(i));
  return all;
}

inline std::string repeat_with(std::uint64_t seed) {
  return "repeat this case alone: LINCHPIN_TEST_SEED=" + std::to_string(seed);
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : bits_(seed) {
    bits_.discard(16);  // neighbouring seeds begin alike
  }

  /// In [low, high). Not std::uniform_real_distribution, which differs between libraries.
  double uniform(double low = -1, double high = 1) {
    return low + (high - low) * (static_cast<double>(bits_() >> 11) * 0x1p-53);
  }
  /// low … high, both included.
  int integer(int low, int high) {
    return low + static_cast<int>(bits_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool coin() { return (bits_() >> 40 & 1) != 0; }

  /// Components within ±size.
  Vector3d vector(double size = 1) {
    const double x = uniform(), y = uniform(), z = uniform();
    return size * Vector3d(x, y, z);
  }
  /// Unit, uniform on the sphere.
  Vector3d direction() {
    const double z = uniform(), angle = uniform(-std::numbers::pi, std::numbers::pi), r = std::sqrt(1 - z * z);
    return {r * std::cos(angle), r * std::sin(angle), z};
  }
  /// Any axis, any angle.
  Quaterniond rotation() {
    const Vector3d axis = direction();
    return Quaterniond(Eigen::AngleAxisd(uniform(-std::numbers::pi, std::numbers::pi), axis));
  }
  Pose pose(double size = 1) {
    const Vector3d p = vector(size);
    return {p, rotation()};
  }

  /// Principal moments that some distribution of mass has, about `size` each.
  Vector3d principal_inertia(double size = 1) {
    const double x = uniform(0.2, 1), y = uniform(0.2, 1), z = uniform(0.2, 1);  // second moments ∫x² dm …
    return 0.5 * size * Vector3d(y + z, z + x, x + y);
  }
  /// The same in turned body axes.
  Matrix3d inertia(double size = 1) {
    const Vector3d principal = principal_inertia(size);
    const Matrix3d R = rotation().toRotationMatrix(), I = R * principal.asDiagonal() * R.transpose();
    return 0.5 * (I + I.transpose());
  }

  /// Everything of a body at random, accelerations too.
  BodyState body_state(double size = 1, double speed = 1) {
    BodyState s;
    s.p = vector(size);
    s.q = rotation();
    s.v = vector(speed);
    s.w = vector(speed);
    s.a = vector(speed);
    s.alpha = vector(speed);
    return s;
  }

  /// A rigid body of random mass, inertia, pose and velocity.
  BodyId add_body(System& system, std::string name) {
    const double mass = uniform(0.5, 3);
    const Matrix3d I = inertia(mass);
    const BodyState s = body_state();
    return system.add_body(std::move(name), mass, I, {s.p, s.q}, s.v, s.w);
  }

 private:
  std::mt19937_64 bits_;
};

}  // namespace linchpin::test
