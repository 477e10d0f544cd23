// The composite rigid body of an island of nothing but welds (T7). It takes the place of a KernelFactor and a
// KernelNullSpace. Each loop of welds has six redundant rows, which G would have to drop. But a motion that does not
// open the welds moves the island as one body, and multipliers come from a pass over a spanning tree. The multipliers
// of least norm are A y with AᵀA y = Aᵀλ, with unknowns by body instead of by loop.
#pragma once

#include "joint_kernel/symbolic.h"
#include "joint_kernel/tuning.h"
#include "math/block_cholesky.h"
#include "math/simd.h"

#include <algorithm>
#include <array>
#include <vector>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

template <class Real>
class CompositeBody {
  using V = Vector3<Real>;

 public:
  /// A weld, by node of the symbolic factor. Its rows are those of its point, then of its three dots.
  struct Weld {
    int a = 0, b = 0, row = 0;
    V r_A, r_B;
    std::array<V, 3> n;
  };
  struct Body {  // a body that moves
    Real mass;
    V p;
    Real xx, yy, zz, xy, xz, yz;  // of its inertia (W)
  };
  struct Twist {
    V v, w;
  };

  std::vector<Weld, SimdAllocator<Weld>> welds;
  std::vector<Body, SimdAllocator<Body>> bodies;

  CompositeBody() {}  // NOLINT: with `= default` GCC 12 has an internal error under the sanitizers

  void lay_out(const SymbolicFactor& p) {
    const int moving = p.bodies;
    welds.assign(p.nodes.size(), Weld{});
    bodies.assign(z(moving), Body{});
    inverses_.resize(p.nodes.size());
    twists_.assign(z(p.all_bodies), Twist{});
    for (std::size_t i = 0; i < welds.size(); ++i)
      welds[i].a = p.nodes[i].a, welds[i].b = p.nodes[i].b, welds[i].row = p.nodes[i].first;
    // All fixed bodies are one root. Without them the first body is the root.
    std::vector<char> reached(z(p.all_bodies), 0);
    std::fill(reached.begin() + moving, reached.end(), 1);
    const auto on_fixed = [&](const Weld& weld) { return weld.a >= moving || weld.b >= moving; };
    free_ = std::none_of(welds.begin(), welds.end(), on_fixed);
    if (free_) reached[0] = 1;
    steps_.clear();
    for (bool more = true; more;) {
      more = false;
      for (std::size_t i = 0; i < welds.size(); ++i) {
        const bool a = reached[z(welds[i].a)], b = reached[z(welds[i].b)];
        if (a == b) continue;
        more = true;
        reached[z(welds[i].a)] = reached[z(welds[i].b)] = 1;
        steps_.push_back({static_cast<int>(i), a});
      }
    }
    loops_ = steps_.size() < welds.size();
    if (loops_) lay_out_squares(moving);
  }

  bool loops() const { return loops_; }

  /// @return positive where the multipliers of all welds are well defined
  Real factor() {
    Real margin = SimdTraits<Real>::all(1);
    for (std::size_t i = 0; i < welds.size(); ++i) {
      const auto& n = welds[i].n;
      const V yz = cross(n[1], n[2]);
      const Real volume = dot(n[0], yz), scale = 1 / volume;
      margin = minimum(margin, absolute(volume) - tuning::min_weld_volume);
      inverses_[i] = {scale * yz, scale * cross(n[2], n[0]), scale * cross(n[0], n[1])};
    }
    if (free_) factor_mass();
    for (int lane = 0; loops_ && lane < SimdTraits<Real>::count; ++lane)
      if (SimdTraits<Real>::get(margin, lane) > 0 && !factor_squares(lane)) SimdTraits<Real>::set(margin, lane, -1);
    return margin;
  }

  /// x ← multipliers whose motion has the rates x, by row. They are zero outside the tree. Rates outside the tree are
  /// not read: where all rates agree they are met.
  void solve(Real* x) {
    lift(x);
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      twists_[i].v = bodies[i].mass * twists_[i].v;
      twists_[i].w = turned(bodies[i], twists_[i].w);
    }
    for (const Weld& k : welds) std::fill_n(x + k.row, 6, Real{});
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
      const Weld& k = welds[z(step->weld)];
      const auto& c = inverses_[z(step->weld)];
      Twist &a = twists_[z(k.a)], &b = twists_[z(k.b)];
      V f, m;
      if (step->outward) {
        f = -b.v;
        m = -b.w - cross(k.r_B, f);
        a.v -= f;
        a.w -= cross(k.r_A, f) + m;
      } else {
        f = a.v;
        m = a.w - cross(k.r_A, f);
        b.v += f;
        b.w += cross(k.r_B, f) + m;
      }
      Real* const own = x + k.row;
      own[0] = f.x, own[1] = f.y, own[2] = f.z;
      for (std::size_t i = 0; i < 3; ++i) own[3 + i] = dot(c[i], m);
    }
  }

  /// The motion of the bodies that has the rates x, by body. It is valid until the next call.
  const Twist* lift(const Real* x) {
    for (std::size_t i = z(bodies.size()); i < twists_.size(); ++i) twists_[i] = Twist{};
    if (free_) twists_[0] = Twist{};
    for (const Step& step : steps_) {
      const Weld& k = welds[z(step.weld)];
      const auto& c = inverses_[z(step.weld)];
      const Real* const own = x + k.row;
      const V p{own[0], own[1], own[2]}, turn = own[3] * c[0] + own[4] * c[1] + own[5] * c[2];
      Twist &a = twists_[z(k.a)], &b = twists_[z(k.b)];
      if (step.outward) {
        b.w = a.w - turn;
        b.v = ((a.v + cross(a.w, k.r_A)) - cross(b.w, k.r_B)) - p;
      } else {
        a.w = b.w + turn;
        a.v = ((b.v + cross(b.w, k.r_B)) - cross(a.w, k.r_A)) + p;
      }
    }
    if (free_) {
      const Twist all = common(twists_.data());
      for (std::size_t i = 0; i < bodies.size(); ++i) {
        const Twist own = at(i, all);
        twists_[i].v -= own.v;
        twists_[i].w -= own.w;
      }
    }
    return twists_.data();
  }

  /// The motion of the composite body that has the momentum of these motions.
  template <class T>
  Twist common(const T* of) const {
    V linear{}, angular{};
    for (std::size_t i = 0; free_ && i < bodies.size(); ++i) {
      const V p = bodies[i].mass * of[i].v;
      linear += p;
      angular += turned(bodies[i], of[i].w) + cross(bodies[i].p - centre_, p);
    }
    return moved(linear, angular);
  }
  /// The motion that an impulse makes. @param angular  its moment about the centre
  Twist moved(const V& linear, const V& angular) const {
    return free_ ? Twist{(1 / mass_) * linear, turned(inverse_, angular)} : Twist{};
  }
  Real inverse_mass() const { return free_ ? 1 / mass_ : Real{}; }
  const Body& inverse() const { return inverse_; }
  const V& centre() const { return centre_; }
  Twist at(std::size_t body, const Twist& all) const { return {all.v + cross(all.w, arm(body)), all.w}; }
  V arm(std::size_t body) const { return bodies[body].p - centre_; }

  /// Replaces multipliers by those of least norm that do the same. Rates become the nearest rates that agree.
  void project(Real* x, int lane) {
    if (!loops_) return;
    std::vector<double>&left = left_, &made = made_;
    for (std::size_t r = 0; r < left.size(); ++r) left[r] = SimdTraits<Real>::get(x[r], lane), made[r] = 0;
    for (int round = 0; round < 2; ++round) {  // AᵀA has half the digits, and a second round the others
      const BlockCholesky& squares = squares_[z(lane)];
      std::fill(y_.begin(), y_.end(), 0.0);
      for (std::size_t i = 0; i < welds.size(); ++i) pull(i, lane);
      for (int tree = 0; tree < squares.trees(); ++tree) squares.solve(tree, y_.data());
      for (std::size_t i = 0; i < welds.size(); ++i) add_rates(i, lane);
    }
    for (std::size_t r = 0; r < made.size(); ++r) SimdTraits<Real>::set(x[r], lane, made[r]);
  }

 private:
  struct Step {
    int weld;
    bool outward;  // from a to b
  };
  struct Place {  // of a weld in AᵀA: blocks of a, of b, of both
    BlockCholesky::Slot a, b, both;
    int at_a = -1, at_b = -1;  // in y_; −1: the root
    bool a_first = false;      // the rows of `both` are those of a
  };
  static std::size_t z(std::size_t i) { return i; }
  static std::size_t z(int i) { return static_cast<std::size_t>(i); }
  static V turned(const Body& I, const V& u) {
    return {I.xx * u.x + I.xy * u.y + I.xz * u.z, I.xy * u.x + I.yy * u.y + I.yz * u.z,
            I.xz * u.x + I.yz * u.y + I.zz * u.z};
  }
  static Vector3<double> lane_of(const V& u, int lane) {
    return {SimdTraits<Real>::get(u.x, lane), SimdTraits<Real>::get(u.y, lane), SimdTraits<Real>::get(u.z, lane)};
  }

  // ---- as one body

  void factor_mass() {
    mass_ = Real{};
    V sum{};
    for (const Body& k : bodies) mass_ += k.mass, sum += k.mass * k.p;
    centre_ = (1 / mass_) * sum;
    Body all{};
    for (const Body& k : bodies) {
      const V d = k.p - centre_;
      all.xx += k.xx + k.mass * (d.y * d.y + d.z * d.z), all.xy += k.xy - k.mass * (d.x * d.y);
      all.yy += k.yy + k.mass * (d.x * d.x + d.z * d.z), all.xz += k.xz - k.mass * (d.x * d.z);
      all.zz += k.zz + k.mass * (d.x * d.x + d.y * d.y), all.yz += k.yz - k.mass * (d.y * d.z);
    }
    const Real xx = all.yy * all.zz - all.yz * all.yz, xy = all.xz * all.yz - all.xy * all.zz,
               xz = all.xy * all.yz - all.xz * all.yy;
    const Real scale = 1 / (all.xx * xx + all.xy * xy + all.xz * xz);
    inverse_.xx = scale * xx, inverse_.xy = scale * xy, inverse_.xz = scale * xz;
    inverse_.yy = scale * (all.xx * all.zz - all.xz * all.xz),
    inverse_.zz = scale * (all.xx * all.yy - all.xy * all.xy);
    inverse_.yz = scale * (all.xy * all.xz - all.xx * all.yz);
  }

  // ---- AᵀA, of bodies that are not the root

  void lay_out_squares(int moving) {
    const int root = free_ ? 0 : -1;
    const auto node = [&](int body) { return body >= moving || body == root ? -1 : free_ ? body - 1 : body; };
    BlockCholesky::Pattern pattern;
    pattern.clear();
    const std::size_t count = z(free_ ? moving - 1 : moving);
    pattern.sizes.assign(count, 6);
    pattern.negative.assign(count, 0);
    pattern.late.assign(count, 0);
    for (const Weld& k : welds) {
      if (node(k.a) >= 0) pattern.clique.push_back(node(k.a));
      if (node(k.b) >= 0) pattern.clique.push_back(node(k.b));
      pattern.clique_start.push_back(static_cast<int>(pattern.clique.size()));
    }
    for (BlockCholesky& lane : squares_) lane.analyse(pattern);
    const BlockCholesky& any = squares_[0];
    places_.assign(welds.size(), Place{});
    for (std::size_t i = 0; i < welds.size(); ++i) {
      Place& to = places_[i];
      const int a = node(welds[i].a), b = node(welds[i].b);
      if (a >= 0) to.at_a = any.position(a), to.a = any.slot(a, a);
      if (b >= 0) to.at_b = any.position(b), to.b = any.slot(b, b);
      if (a < 0 || b < 0) continue;
      to.a_first = to.at_a > to.at_b;
      to.both = to.a_first ? any.slot(a, b) : any.slot(b, a);
    }
    y_.assign(6 * count, 0.0);
    left_.assign(6 * welds.size(), 0.0);
    made_.assign(6 * welds.size(), 0.0);
  }

  bool factor_squares(int lane) {
    BlockCholesky& squares = squares_[z(lane)];
    for (int tree = 0; tree < squares.trees(); ++tree) squares.clear(tree);
    double* const values = squares.values();
    for (std::size_t i = 0; i < welds.size(); ++i) {
      const Weld& k = welds[i];
      const Place& to = places_[i];
      const Vector3<double> r_A = lane_of(k.r_A, lane), r_B = lane_of(k.r_B, lane);
      double S[3][3] = {};
      for (const V& of : k.n) {
        const Vector3<double> n = lane_of(of, lane);
        S[0][0] += n.x * n.x, S[1][0] += n.y * n.x, S[1][1] += n.y * n.y;
        S[2][0] += n.z * n.x, S[2][1] += n.z * n.y, S[2][2] += n.z * n.z;
      }
      S[0][1] = S[1][0], S[0][2] = S[2][0], S[1][2] = S[2][1];
      // The rows of a point are (1, −r×) on one body and (−1, r×) on the other.
      const auto own = [&](const Vector3<double>& r, const BlockCholesky::Slot& slot) {
        double* x = values + slot.offset;
        const int s = slot.stride;
        x[0] += 1, x[s + 1] += 1, x[2 * s + 2] += 1;
        x += 3 * s;
        x[1] -= r.z, x[2] += r.y, x[3] += S[0][0] + r.y * r.y + r.z * r.z;
        x += s;
        x[0] += r.z, x[2] -= r.x, x[3] += S[1][0] - r.y * r.x, x[4] += S[1][1] + r.x * r.x + r.z * r.z;
        x += s;
        x[0] -= r.y, x[1] += r.x;
        x[3] += S[2][0] - r.z * r.x, x[4] += S[2][1] - r.z * r.y, x[5] += S[2][2] + r.x * r.x + r.y * r.y;
      };
      if (to.at_a >= 0) own(r_A, to.a);
      if (to.at_b >= 0) own(r_B, to.b);
      if (to.at_a < 0 || to.at_b < 0) continue;
      const Vector3<double>&p = to.a_first ? r_A : r_B,
            &q = to.a_first ? r_B : r_A;  // of the body of the rows, and of the columns
      double* x = values + to.both.offset;
      const int s = to.both.stride;
      const double along = dot(p, q);
      x[0] -= 1, x[4] -= q.z, x[5] += q.y;
      x += s;
      x[1] -= 1, x[3] += q.z, x[5] -= q.x;
      x += s;
      x[2] -= 1, x[3] -= q.y, x[4] += q.x;
      x += s;
      x[1] += p.z, x[2] -= p.y;
      x[3] += q.x * p.x - along - S[0][0], x[4] += q.x * p.y - S[0][1], x[5] += q.x * p.z - S[0][2];
      x += s;
      x[0] -= p.z, x[2] += p.x;
      x[3] += q.y * p.x - S[1][0], x[4] += q.y * p.y - along - S[1][1], x[5] += q.y * p.z - S[1][2];
      x += s;
      x[0] += p.y, x[1] -= p.x;
      x[3] += q.z * p.x - S[2][0], x[4] += q.z * p.y - S[2][1], x[5] += q.z * p.z - along - S[2][2];
    }
    bool good = true;
    for (int tree = 0; tree < squares.trees(); ++tree) {
      squares.read_diagonal(tree);
      const BlockCholesky::Outcome outcome = squares.factor(tree, tuning::max_dependent_weld_pivot);
      good = good && outcome.finite && outcome.kept == squares.end(tree) - squares.begin(tree);
    }
    return good;
  }

  // y_ += Aᵀ left_ of a weld
  void pull(std::size_t i, int lane) {
    const Weld& k = welds[i];
    const double* const x = left_.data() + k.row;
    const Vector3<double> f{x[0], x[1], x[2]};
    Vector3<double> m{};
    for (std::size_t d = 0; d < 3; ++d) m += x[3 + d] * lane_of(k.n[d], lane);
    const auto add = [&](int at, const Vector3<double>& r, double sign) {
      if (at < 0) return;
      const Vector3<double> turn = cross(r, f) + m;
      double* const y = y_.data() + at;
      y[0] += sign * f.x, y[1] += sign * f.y, y[2] += sign * f.z;
      y[3] += sign * turn.x, y[4] += sign * turn.y, y[5] += sign * turn.z;
    };
    add(places_[i].at_a, lane_of(k.r_A, lane), 1);
    add(places_[i].at_b, lane_of(k.r_B, lane), -1);
  }

  // left_ −= A y_, made_ += A y_ of a weld
  void add_rates(std::size_t i, int lane) {
    const Weld& k = welds[i];
    Vector3<double> v{}, w{};
    const auto add = [&](int at, const Vector3<double>& r, double sign) {
      if (at < 0) return;
      const double* const y = y_.data() + at;
      const Vector3<double> turn{y[3], y[4], y[5]};
      v += sign * (Vector3<double>{y[0], y[1], y[2]} + cross(turn, r));
      w += sign * turn;
    };
    add(places_[i].at_a, lane_of(k.r_A, lane), 1);
    add(places_[i].at_b, lane_of(k.r_B, lane), -1);
    const std::array<double, 6> rates{
        v.x, v.y, v.z, dot(lane_of(k.n[0], lane), w), dot(lane_of(k.n[1], lane), w), dot(lane_of(k.n[2], lane), w)};
    for (std::size_t r = 0; r < 6; ++r) {
      left_[z(k.row) + r] -= rates[r];
      made_[z(k.row) + r] += rates[r];
    }
  }

  std::vector<Step> steps_;
  std::vector<std::array<V, 3>, SimdAllocator<std::array<V, 3>>> inverses_;  // of the matrix of n, by columns
  std::vector<Twist, SimdAllocator<Twist>> twists_;
  bool free_ = false, loops_ = false;
  Real mass_{};
  V centre_{};
  Body inverse_{};  // inverse inertia of the composite body
  std::array<BlockCholesky, std::size_t{SimdTraits<Real>::count}> squares_;
  std::vector<Place> places_;
  std::vector<double> y_, left_, made_;
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
