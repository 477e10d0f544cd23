#include "directions.h"

#include <Eigen/Dense>

#include <algorithm>
#include <cmath>

namespace linchpin::analysis {

std::vector<BodyId> movable(const System& system) {
  std::vector<BodyId> out;
  for (int i = 0; i < system.body_count(); ++i)
    if (const BodyId id{i}; system.dof(id) > 0) out.push_back(id);
  return out;
}

std::vector<Direction> directions_of(const System& system, std::span<const BodyId> bodies) {
  std::vector<Direction> out;
  for (const BodyId id : bodies)
    for (int k = 0; k < system.dof(id); ++k) out.push_back({id, k});
  return out;
}

void displace(State& state, const Direction& d, double h) {
  const Vector3d e = Vector3d::Unit(d.axis % 3);
  advance(state[d.body], d.axis < 3 ? e : Vector3d::Zero(), d.axis < 3 ? Vector3d::Zero() : e, h);
}

void displace(State& state, const std::vector<Direction>& directions, const Eigen::VectorXd& by) {
  for (std::size_t i = 0; i < directions.size();) {
    const BodyId id = directions[i].body;
    Vector3d v = Vector3d::Zero(), w = Vector3d::Zero();
    for (; i < directions.size() && directions[i].body == id; ++i)
      (directions[i].axis < 3 ? v : w)[directions[i].axis % 3] = by[static_cast<Eigen::Index>(i)];
    advance(state[id], v, w, 1);
  }
}

State at_rest(const System& system, State state) {
  for (int i = 0; i < system.body_count(); ++i)
    if (const BodyId id{i}; system.dof(id) > 0) state[id].v.setZero(), state[id].w.setZero();
  return state;
}

Eigen::VectorXd difference(const State& from, const State& to, const std::vector<Direction>& directions) {
  Eigen::VectorXd out(static_cast<Eigen::Index>(directions.size()));
  for (std::size_t i = 0; i < directions.size(); ++i) {
    const Direction& d = directions[i];
    const BodyState &a = from[d.body], &b = to[d.body];
    const Eigen::AngleAxisd turn(b.q * a.q.conjugate());
    const double angle = std::remainder(turn.angle(), 2 * EIGEN_PI);
    out[static_cast<Eigen::Index>(i)] = d.axis < 3 ? b.p[d.axis] - a.p[d.axis] : angle * turn.axis()[d.axis - 3];
  }
  return out;
}

Eigen::MatrixXd kernel(Eigen::MatrixXd A) {
  for (Eigen::Index r = 0; r < A.rows(); ++r)  // units of rows decide nothing
    if (const double norm = A.row(r).norm(); norm > 0) A.row(r) /= norm;
  const Eigen::Index n = A.cols();
  if (A.rows() == 0 || A.isZero(0)) return Eigen::MatrixXd::Identity(n, n);
  Eigen::ColPivHouseholderQR<Eigen::MatrixXd> qr;
  qr.setThreshold(1e-9);
  qr.compute(A.transpose());
  return qr.householderQ() * Eigen::MatrixXd::Identity(n, n).rightCols(n - qr.rank());
}

namespace {

// What a displacement u of a body has to change by for it to turn with w: the inverse of the exponential's derivative.
Vector3d turned(const Vector3d& u, const Vector3d& w) {
  const double angle = u.norm(), half = 0.5 * angle;
  const double c = angle < 1e-4 ? 1.0 / 12 + angle * angle / 720 : (1 - half / std::tan(half)) / (angle * angle);
  return w - 0.5 * u.cross(w) + c * u.cross(u.cross(w));
}

}  // namespace

bool follow(State& state, const std::vector<Direction>& directions, const Rate& rate, int parts) {
  const auto n = static_cast<Eigen::Index>(directions.size());
  const auto moved = [&](const Eigen::VectorXd& by) {
    State out = state;
    displace(out, directions, by.head(n));
    if (by.size() > n) out.t += by[n];
    return out;
  };
  const auto slope = [&](const Eigen::VectorXd& u) {
    Eigen::VectorXd k = rate(moved(u));
    for (Eigen::Index i = 0; i + 2 < n && k.size() > 0; ++i)
      if (directions[static_cast<std::size_t>(i)].axis == 3) k.segment<3>(i) = turned(u.segment<3>(i), k.segment<3>(i));
    return k;
  };
  constexpr double rough = 5e-7;  // of third order in a part, where an even way has some 1e-7
  const double least = 1e-4 / parts;
  double left = 1, h = 1.0 / parts;
  for (int tries = 0; left > 1e-12; ++tries) {
    if (tries > 20 * parts + 100) return false;
    h = std::min(h, left);
    const Eigen::VectorXd a = rate(state);
    if (a.size() == 0) return false;
    const Eigen::VectorXd b = slope(0.5 * h * a);
    if (b.size() == 0) return false;
    const Eigen::VectorXd c = slope(0.5 * h * b);
    if (c.size() == 0) return false;
    const Eigen::VectorXd d = slope(h * c);
    if (d.size() == 0) return false;
    // Beside a place where rows lose their meaning, as those of a wheel that lies flat, they turn ever faster or jump.
    if (!(h * ((b - c).norm() + (a - b - c + d).norm()) <= rough)) {
      h *= 0.5;
      if (h < least) return false;
      continue;
    }
    state = moved(h / 6 * (a + 2 * b + 2 * c + d));
    left -= h;
    h = std::min(2 * h, 1.0 / parts);
  }
  return true;
}

}  // namespace linchpin::analysis
