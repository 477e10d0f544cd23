#include "scenes.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>

namespace linchpin::others {

namespace {

constexpr double pi = 3.14159265358979323846;

Quaterniond about_z(double angle) { return Quaterniond(Eigen::AngleAxisd(angle, Vector3d::UnitZ())); }

/// Two particles on massless rods, let go from the level (T-DP; two tolerances agree to 1e-12).
Scene double_pendulum() {
  Scene s{.name = "double-pendulum", .title = "double pendulum, 3 s", .duration = 3, .planar = true};
  for (int i = 0; i < 2; ++i) {
    s.bodies.push_back({.name = i == 0 ? "p" : "q", .p = {1.0 + i, 0, 0}});
    s.joints.push_back({.a = i - 1, .b = i, .at = {double(i), 0, 0}});
  }
  const double at[3][4] = {{-0.585168391998871, -0.810911803469068, -1.44481884994348, -1.32179446138146},
                           {-0.464412868699527, -0.885618816075108, -1.43412481746429, -1.12987019564715},
                           {0.976976565890954, 0.213346642110717, 1.87625085068208, -0.224038497912809}};
  for (int t = 0; t < 3; ++t)
    for (int i = 0; i < 2; ++i) s.known.push_back({.t = 1.0 + t, .body = i, .is = {at[t][2 * i], at[t][2 * i + 1], 0}});
  return s;
}

/// Two four-bars in a row, all bars of one length, ten times in one line (T-A02; one angle, closed form).
Scene n_four_bar() {
  Scene s{
      .name = "n-four-bar", .title = "two four-bars through singular positions, 10 s", .duration = 10, .planar = true};
  const Vector3d inertia(1e-3, 1.0 / 12, 1.0 / 12);
  for (int i = 0; i < 3; ++i)
    s.bodies.push_back(
        {"upright" + std::to_string(i), 1, inertia, {double(i), 0.5, 0}, about_z(pi / 2), {0.5, 0, 0}, {0, 0, -1}});
  for (int i = 0; i < 2; ++i)
    s.bodies.push_back({"bar" + std::to_string(i), 1, inertia, {i + 0.5, 1, 0}, about_z(0), {1, 0, 0}, {0, 0, 0}});
  for (int i = 0; i < 3; ++i) s.joints.push_back({.a = -1, .b = i, .at = {double(i), 0, 0}});
  for (int i = 0; i < 2; ++i) s.joints.push_back({.a = i, .b = 3 + i, .at = {double(i), 1, 0}});
  for (int i = 0; i < 2; ++i) s.joints.push_back({.a = i + 1, .b = 3 + i, .at = {i + 1.0, 1, 0}, .closes = true});
  const double at[3][3] = {{2, 0.0578157957679112, 0.998327267863461},
                           {5, -0.811310461002865, -0.584615545352087},
                           {10, 0.328458111536178, 0.944518538180214}};
  for (const auto& [t, x, y] : at) s.known.push_back({t, 0, {0.5, 0, 0}, {x, y, 0}});
  return s;
}

/// Five bars, six hinges, thirty equations of rank 29 (T-A04; closure curve and energy, by quadrature).
/// For 9 s: at 10 it is all but at rest, where an error in time would not show.
Scene bricard() {
  Scene s{.name = "bricard", .title = "Bricard's mechanism, thirty equations of rank 29, 9 s", .duration = 9};
  const Vector3d P[] = {{0, 0, 0}, {1, 0, 0}, {1, -1, 0}, {1, -1, 1}, {0, -1, 1}, {0, 0, 1}};
  const Vector3d axis[] = {Vector3d::UnitY(), Vector3d::UnitZ(), Vector3d::UnitX()};
  for (int i = 0; i < 5; ++i) {
    const Vector3d along = (P[i + 1] - P[i]).cwiseAbs();
    const Vector3d inertia = (0.01 / 6) * along + (1.01 / 12) * (Vector3d::Ones() - along);
    s.bodies.push_back({.name = "bar" + std::to_string(i + 1), .inertia = inertia, .p = 0.5 * (P[i] + P[i + 1])});
    s.joints.push_back({.a = i - 1, .b = i, .at = P[i], .axis = axis[i % 3]});
  }
  s.joints.push_back({.a = -1, .b = 4, .at = P[5], .axis = axis[2], .closes = true});
  const double at[3][4] = {{2, -0.969340344776364, -1.22124689496048, 0.754278010774694},
                           {7, -0.971373849261739, -1.21454187479344, 0.762444017186615},
                           {9, 0.539064288783701, -1.63845330812752, 0.157735378542989}};
  for (const auto& [t, x, y, z] : at) s.known.push_back({t, 2, {0, 0, 0.5}, {x, y, z}});
  return s;
}

/// W1: a hundred boxes of 1 kg on ball joints, let go from the level.
Scene chain() {
  Scene s{.name = "W1 100", .title = "chain of 100 links let go from the level, 2 s", .duration = 2};
  for (int i = 0; i < 100; ++i) {
    s.bodies.push_back(
        {.name = "link" + std::to_string(i), .inertia = Vector3d(0.02, 0.26, 0.26) / 12, .p = {0.5 * i + 0.25, 0, 0}});
    s.joints.push_back({.kind = Joint::Kind::ball, .a = i - 1, .b = i, .at = {0.5 * i, 0, 0}});
  }
  // Our own adaptive8 at 1e-13, and Simbody's Runge–Kutta–Merson on its tree at 1e-11: they agree to 5e-11.
  s.known = {{1, 49, {0.25, 0, 0}, {23.7601901237214, -4.90500000043484, 0}},
             {1, 99, {0.25, 0, 0}, {48.7601901237215, -4.905, 0}},
             {2, 49, {0.25, 0, 0}, {16.390955329823, -18.5457218989629, 0}},
             {2, 99, {0.25, 0, 0}, {41.1930106176508, -19.62, 0}}};
  return s;
}

}  // namespace

const std::vector<Scene>& scenes() {
  static const std::vector<Scene> all{double_pendulum(), n_four_bar(), bricard(), chain()};
  return all;
}

double cpu_seconds() {
  std::timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

void measure(const Scene& scene, Row& row, const std::function<long(double t)>& to,
             const std::function<Vector3d(int body, const Vector3d& local)>& point) {
  row.scene = scene.name;
  double reached = 0, seconds = 0;
  for (const Known& known : scene.known) {
    if (known.t > reached) {
      const double start = cpu_seconds();
      try {
        row.steps += to(known.t);
      } catch (const std::exception& e) {
        row.note = e.what();
      }
      seconds += cpu_seconds() - start;
      reached = known.t;
    }
    const double off =
        row.note.empty() ? (point(known.body, known.local) - known.is).norm() : std::numeric_limits<double>::infinity();
    row.error = std::isfinite(off) ? std::max(row.error, off) : std::numeric_limits<double>::infinity();
    if (!std::isfinite(row.error)) break;
  }
  row.cost = seconds / reached;
}

}  // namespace linchpin::others
