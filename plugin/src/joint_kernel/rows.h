// Bodies and rows of a block, or of several alike side by side in the lanes of a vector (Real): what poses, velocities
// and geometry come to at the start of a step, A times twists and Aᵀ times multipliers, and φ where a step would end.
// Rows stand in the order in which their joints are eliminated, so that each pass reads memory from front to back.
#pragma once

#include "joint_kernel/dispatch.h"
#include "joint_kernel/symbolic.h"
#include "math/gyroscopic_newton.h"
#include "math/simd.h"
#include "math/simd_vec4.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

template <class Real>
class KernelRows {
 public:
  static constexpr int lanes = Lanes<Real>::count;
  using V = V3<Real>;
  struct Body {
    V p;
    Real qx, qy, qz, qw;
    Real mass, least_inertia;
    V inertia, inverse_inertia;  // along its own axes
  };
  template <class X>
  struct FrameOf {
    V3<X> x, y, z;  // rows of R
  };
  using Frame = FrameOf<Real>;
  template <class X>
  struct MassOf {
    X inverse;
    X xx, xy, xz, yy, yz, zz;  // R I⁻¹ Rᵀ; in an order whose fours from xx and from xz hold all its columns
  };
  using Mass = MassOf<Real>;
  template <class X>
  struct TwistOf {
    V3<X> v, w;
    TwistOf operator+(const TwistOf& u) const { return {v + u.v, w + u.w}; }
    TwistOf operator-(const TwistOf& u) const { return {v - u.v, w - u.w}; }
  };
  using Twist = TwistOf<Real>;
  template <class X>
  struct TurnOf {  // of a step: its displacement, its angle, sin t / t and (1 − cos t) / t²
    V3<X> moved, turn;
    X sine, versine;
    V3<X> added(const V3<X>& r) const {
      const V3<X> across = cross(turn, r);
      return sine * across + versine * cross(turn, across);
    }
  };
  using Turn = TurnOf<Real>;
  struct Point {
    int a, b, row;
    V r_A, r_B, phi;  // at the start (W)
  };
  struct PointPlace {  // of a point, what passes over the points do without: long chains leave the cache
    V p_A, p_B;
    Real arm_A, arm_B;
  };
  struct Axis {
    int a, b, row;
    V u_A, p_A, p_B;
    Real d0;
    V u, r_A, r_B, d;  // at the start (W)
    V c_A, c_B;  // its row: −u and c_A on a, u and c_B on b, for it pulls both at the point of b, r_A + d from a
    Real phi;
    V on_a, on_b;  // K c
  };
  struct Dot {
    int a, b, row;
    V u_A, w_B;
    Real c;
    V u, w, n;  // at the start (W)
    Real phi;
    V on_a, on_b;
  };

  std::size_t moving = 0;  // bodies that do, before those that do not
  Row<Body> bodies;
  Row<Frame> frames;
  Row<Mass> masses;
  Row<Twist> start;  // velocities
  Row<Point> points;
  Row<PointPlace> point_places;
  Row<Axis> axes;
  Row<Dot> dots;
  Row<Real> biases, velocities;  // b of A v̇ = b, and φ̇, by row, at the start
  Row<Real> spinning;            // one of bodies whose gyroscopic torque see() adds, zero of others

  void lay_out(const SymbolicFactor& p) {
    bodies.assign(z(p.all_bodies), Body{});
    frames.resize(bodies.size());
    masses.assign(bodies.size(), Mass{});
    start.assign(bodies.size(), Twist{});
    spinning.assign(z(p.bodies), Real{});
    turns_.assign(bodies.size(), Turn{});
    points.resize(p.points.size());
    point_places.resize(p.points.size());
    axes.resize(p.axes.size());
    dots.resize(p.dots.size());
    for (auto* x : {&biases, &velocities}) x->assign(z(p.rows), Real{});
    moving = z(p.bodies);
    for (const SymbolicFactor::Node& node : p.nodes) {
      for (int k = node.points; k < node.points_end; ++k) points[z(k)].a = node.a, points[z(k)].b = node.b;
      for (int k = node.axes; k < node.axes_end; ++k) axes[z(k)].a = node.a, axes[z(k)].b = node.b;
      for (int k = node.dots; k < node.dots_end; ++k) dots[z(k)].a = node.a, dots[z(k)].b = node.b;
      for (int k = node.points; k < node.points_end; ++k) points[z(k)].row = node.first + 3 * (k - node.points);
      for (int k = node.axes; k < node.axes_end; ++k) axes[z(k)].row = node.first + node.axis_row + (k - node.axes);
      for (int k = node.dots; k < node.dots_end; ++k) dots[z(k)].row = node.first + node.dot_row + (k - node.dots);
    }
  }

  /// Where a block was, and how fast; what does not change of it only where another was in the lane.
  void take_block(int lane, const JointBlock& block, const State& state) {
    if (std::exchange(held_[z(lane)], block.version) != block.version) {
      take_geometry(lane, block.geometry.data());
      take_masses(lane, block.masses);
    }
    for (std::size_t i = 0; i < block.bodies.size(); ++i) take_body(i, lane, state[block.bodies[i]]);
  }

  /// What see() finds, by lane: the largest |φ|, no number where one is none; the largest |φ̇| and velocity; the
  /// kinetic energy but for the spin's; the largest bias or rate; the farthest body.
  struct Seen {
    Real gap{}, off{}, fastest{}, kinetic{}, size{}, extent{};
  };
  /// What poses and velocities make of every body and row.
  /// @param free           in: impulses; out: velocities with them
  /// @param accelerations  in: forces; out: accelerations that they make
  /// @param asked          by row, what those leave of the bias
  /// @param spin_for       time of the gyroscopic torque of bodies that spin, 0 where none does [s]
  Seen see(Row<Twist>& free, Row<Twist>& accelerations, Row<Real>& asked, double spin_for) {
    Seen seen;
    std::size_t i = 0;
    if constexpr (lanes == 1)
      for (; i + 4 <= moving; i += 4) {
        const Row<Body>& of = bodies;
        const auto four = [&](auto Body::*x) { return together(of[i].*x, of[i + 1].*x, of[i + 2].*x, of[i + 3].*x); };
        const auto twists = [&](const Row<Twist>& x) { return together(x[i], x[i + 1], x[i + 2], x[i + 3]); };
        const FrameOf<Four> R = frame(four(&Body::qx), four(&Body::qy), four(&Body::qz), four(&Body::qw));
        MassOf<Four> K = mass(R, four(&Body::inverse_inertia));
        const Mass* const m = &masses[i];
        K.inverse = Four{m->inverse, m[1].inverse, m[2].inverse, m[3].inverse};
        const TwistOf<Four> by_forces = moved(K, twists(accelerations)),
                            with_impulses = twists(start) + moved(K, twists(free));
        for (int lane = 0; lane < 4; ++lane) {
          const std::size_t at = i + z(lane);
          frames[at] = {one_of(R.x, lane), one_of(R.y, lane), one_of(R.z, lane)};
          masses[at] = {K.inverse[lane], K.xx[lane], K.xy[lane], K.xz[lane], K.yy[lane], K.yz[lane], K.zz[lane]};
          accelerations[at] = {one_of(by_forces.v, lane), one_of(by_forces.w, lane)};
          free[at] = {one_of(with_impulses.v, lane), one_of(with_impulses.w, lane)};
        }
      }
    for (; i < bodies.size(); ++i) {
      const Body& b = bodies[i];
      frames[i] = frame(b.qx, b.qy, b.qz, b.qw);
      if (i >= moving) continue;
      Mass K = mass(frames[i], b.inverse_inertia);
      K.inverse = masses[i].inverse;
      masses[i] = K;
      accelerations[i] = moved(K, accelerations[i]);
      free[i] = start[i] + moved(K, free[i]);
    }
    for (i = 0; i < moving; ++i) {
      const Twist& now = start[i];
      if (spin_for > 0) spin(i, spin_for, free[i].w, accelerations[i].w);
      seen.fastest = larger(seen.fastest, larger(largest(now.v), largest(now.w)));
      seen.kinetic += bodies[i].mass * dot(now.v, now.v);
      seen.extent = larger(seen.extent, largest(bodies[i].p));
    }
    seen.kinetic *= 0.5;
    Real probe{};
    i = 0;
    if constexpr (lanes == 1) {
      Four gap{}, off{}, size{}, finite{};
      for (; i + 4 <= points.size(); i += 4) {
        Point* const k = &points[i];
        const PointPlace* const place = &point_places[i];
        const auto four = [&](const auto& of) { return together(of(0), of(1), of(2), of(3)); };
        const auto all = [&](const auto& of, int Point::*side) {
          return four([&](int lane) -> const auto& { return of[z(k[lane].*side)]; });
        };
        const PointSeen<Four> now = see_point(
            all(frames, &Point::a), all(frames, &Point::b), four([&](int lane) -> const V& { return place[lane].p_A; }),
            four([&](int lane) -> const V& { return place[lane].p_B; }),
            four([&](int lane) { return bodies[z(k[lane].a)].p - bodies[z(k[lane].b)].p; }), all(start, &Point::a),
            all(start, &Point::b), all(accelerations, &Point::a), all(accelerations, &Point::b));
        gap = larger(gap, largest(now.phi));
        off = larger(off, largest(now.phi_dot));
        size = larger(size, larger(largest(now.bias), largest(now.moves)));
        finite += now.probe();
        const V3<Four> rest = now.bias - now.moves;
        for (int lane = 0; lane < 4; ++lane) {
          k[lane].r_A = one_of(now.r_A, lane);
          k[lane].r_B = one_of(now.r_B, lane);
          k[lane].phi = one_of(now.phi, lane);
          write(velocities, k[lane].row, one_of(now.phi_dot, lane));
          write(biases, k[lane].row, one_of(now.bias, lane));
          write(asked, k[lane].row, one_of(rest, lane));
        }
      }
      seen.gap = largest_of(gap);
      seen.off = largest_of(off);
      seen.size = largest_of(size);
      probe = (finite[0] + finite[1]) + (finite[2] + finite[3]);
    }
    for (; i < points.size(); ++i) {
      Point& k = points[i];
      const PointSeen<Real> now = see_point(frames[z(k.a)], frames[z(k.b)], point_places[i].p_A, point_places[i].p_B,
                                            bodies[z(k.a)].p - bodies[z(k.b)].p, start[z(k.a)], start[z(k.b)],
                                            accelerations[z(k.a)], accelerations[z(k.b)]);
      k.r_A = now.r_A;
      k.r_B = now.r_B;
      k.phi = now.phi;
      seen.gap = larger(seen.gap, largest(now.phi));
      seen.off = larger(seen.off, largest(now.phi_dot));
      seen.size = larger(seen.size, larger(largest(now.bias), largest(now.moves)));
      write(velocities, k.row, now.phi_dot);
      write(biases, k.row, now.bias);
      write(asked, k.row, now.bias - now.moves);
      probe += now.probe();
    }
    const auto note = [&](int row, const Real& phi, const Real& phi_dot, const Real& bias, const Real& moves) {
      seen.gap = larger(seen.gap, magnitude(phi));
      seen.off = larger(seen.off, magnitude(phi_dot));
      seen.size = larger(seen.size, larger(magnitude(bias), magnitude(moves)));
      velocities[z(row)] = phi_dot;
      biases[z(row)] = bias;
      asked[z(row)] = bias - moves;
      probe += 0 * (phi + phi_dot + bias);
    };
    for (Axis& k : axes) {
      const Twist &A = start[z(k.a)], &B = start[z(k.b)];
      k.u = turned(frames[z(k.a)], k.u_A);
      k.r_A = turned(frames[z(k.a)], k.p_A);
      k.r_B = turned(frames[z(k.b)], k.p_B);
      k.d = (bodies[z(k.b)].p - bodies[z(k.a)].p) + (k.r_B - k.r_A);
      k.c_A = cross(k.u, k.r_A + k.d);
      k.c_B = cross(k.r_B, k.u);
      const V v_A = cross(A.w, k.r_A), v_B = cross(B.w, k.r_B);
      const V d_dot = (B.v + v_B) - (A.v + v_A), u_dot = cross(A.w, k.u);
      const Real phi = k.phi = dot(k.u, k.d) - k.d0, phi_dot = dot(u_dot, k.d) + dot(k.u, d_dot);
      const Real bias =
          -(dot(cross(A.w, u_dot), k.d) + 2 * dot(u_dot, d_dot) + dot(k.u, cross(B.w, v_B) - cross(A.w, v_A)));
      const Real moves = rate(k, accelerations);
      note(k.row, phi, phi_dot, bias, moves);
    }
    for (Dot& k : dots) {
      const V &wA = start[z(k.a)].w, &wB = start[z(k.b)].w;
      k.u = turned(frames[z(k.a)], k.u_A);
      k.w = turned(frames[z(k.b)], k.w_B);
      k.n = cross(k.u, k.w);
      const V u_dot = cross(wA, k.u), w_dot = cross(wB, k.w);
      const Real phi = k.phi = dot(k.u, k.w) - k.c, phi_dot = dot(k.n, wA - wB);
      const Real bias = -(dot(cross(wA, u_dot), k.w) + 2 * dot(u_dot, w_dot) + dot(k.u, cross(wB, w_dot)));
      const Real moves = dot(k.n, accelerations[z(k.a)].w - accelerations[z(k.b)].w);
      note(k.row, phi, phi_dot, bias, moves);
    }
    seen.gap += probe;
    return seen;
  }

  /// Rows of A times what bodies do.
  template <class X>
  static V3<X> rate(const Point& k, const Row<TwistOf<X>>& of) {
    const TwistOf<X>&a = of[z(k.a)], &b = of[z(k.b)];
    return (a.v + cross(a.w, k.r_A)) - (b.v + cross(b.w, k.r_B));
  }
  template <class X>
  static X rate(const Axis& k, const Row<TwistOf<X>>& of) {
    const TwistOf<X>&a = of[z(k.a)], &b = of[z(k.b)];
    return dot(k.u, b.v - a.v) + (dot(k.c_A, a.w) + dot(k.c_B, b.w));
  }
  template <class X>
  static X rate(const Dot& k, const Row<TwistOf<X>>& of) {
    return dot(k.n, of[z(k.a)].w - of[z(k.b)].w);
  }

  /// to ← from + M⁻¹Aᵀλ, body by body: what pulls at one is summed where it is at hand.
  void respond(const SymbolicFactor& p, const Row<Real>& lambda, const Row<Twist>& from, Row<Twist>& to) const {
    for (std::size_t i = 0; i < moving; ++i) respond(p, i, lambda, from, to);
  }

  [[gnu::always_inline]] void respond(const SymbolicFactor& p, std::size_t i, const Row<Real>& lambda,
                                      const Row<Twist>& from, Row<Twist>& to) const {
    const SymbolicFactor::Ends &own = p.ends_of[i], &next = p.ends_of[i + 1];
    const int* end = p.body_ends.data() + own.points;
    std::conditional_t<lanes == 1, Threes, Twist> f{};
    const int *const axis = end + (own.axes - own.points), *const last = end + (next.points - own.points);
    for (; end != axis; ++end) pull_at(points[z(*end >> 1)], *end & 1, lambda, f);
    if (end != last) {
      for (const int* const dot = end + (own.dots - own.axes); end != dot; ++end)
        pull_at(axes[z(*end >> 1)], *end & 1, lambda, f);
      for (; end != last; ++end) pull_at(dots[z(*end >> 1)], *end & 1, lambda, f);
    }
    if constexpr (lanes == 1) {
      const Mass& K = masses[i];
      const Four a = three(K.xx), b = three(K.xz);
      const Four x = a, y{a[1], b[1], b[2], 0}, z{b[0], b[2], b[3], 0};  // its columns
      const Twist& u = from[i];
      const V v = of_three(three(u.v.x) + K.inverse * f.v);
      to[i] = {v, of_three(three(u.w.x) + (x * f.w[0] + y * f.w[1] + z * f.w[2]))};
    } else {
      to[i] = from[i] + moved(i, f);
    }
  }

  /// What a row of a joint does to its body of a side.
  template <class X>
  static void pull_at(const Point& k, int side, const Row<X>& lambda, TwistOf<X>& on) {
    const V3<X> f = read(lambda, k.row);
    if (side == 0)
      on.v += f, on.w += cross(k.r_A, f);
    else
      on.v -= f, on.w -= cross(k.r_B, f);
  }
  template <class X>
  static void pull_at(const Axis& k, int side, const Row<X>& lambda, TwistOf<X>& on) {
    const X p = lambda[z(k.row)];
    if (side == 0)
      on.v -= times(k.u, p), on.w += times(k.c_A, p);
    else
      on.v += times(k.u, p), on.w += times(k.c_B, p);
  }
  template <class X>
  static void pull_at(const Dot& k, int side, const Row<X>& lambda, TwistOf<X>& on) {
    const V3<X> m = times(k.n, lambda[z(k.row)]);
    if (side == 0)
      on.w += m;
    else
      on.w -= m;
  }
  static void pull_at(const Point& k, int side, const Row<double>& lambda, Threes& on) {
    const Four f = three(lambda[z(k.row)]);
    if (side == 0)
      on.v += f, on.w += cross(three(k.r_A.x), f);
    else
      on.v -= f, on.w -= cross(three(k.r_B.x), f);
  }
  static void pull_at(const Axis& k, int side, const Row<double>& lambda, Threes& on) {
    const double p = lambda[z(k.row)];
    if (side == 0)
      on.v -= p * three(k.u.x), on.w += p * three(k.c_A.x);
    else
      on.v += p * three(k.u.x), on.w += p * three(k.c_B.x);
  }
  static void pull_at(const Dot& k, int side, const Row<double>& lambda, Threes& on) {
    const Four m = lambda[z(k.row)] * three(k.n.x);
    if (side == 0)
      on.w += m;
    else
      on.w -= m;
  }
  template <class Primitive, class X>
  static void add_pull(const Primitive& k, const Row<X>& lambda, Row<TwistOf<X>>& wrenches) {
    pull_at(k, 0, lambda, wrenches[z(k.a)]);
    pull_at(k, 1, lambda, wrenches[z(k.b)]);
  }

  /// to ← A twists
  template <class X>
  void rates(const Row<TwistOf<X>>& twists, Row<X>& to) const {
    for (const Point& k : points) write(to, k.row, rate(k, twists));
    for (const Axis& k : axes) to[z(k.row)] = rate(k, twists);
    for (const Dot& k : dots) to[z(k.row)] = rate(k, twists);
  }
  /// M⁻¹ f of a body that moves.
  template <class X>
  TwistOf<X> moved(std::size_t i, const TwistOf<X>& f) const {
    return moved(masses[i], f);
  }
  template <class M, class X>
  static TwistOf<X> moved(const MassOf<M>& K, const TwistOf<X>& f) {
    return {K.inverse * f.v, times(K, f.w)};
  }

  /// x ← φ at the end of a step with these twists, by row, less what is to be left of the start's.
  /// @return the largest, no number where one is none
  Real look(double dt, const Real& left, const Row<Twist>& twists, Row<Real>& x) {
    for (std::size_t i = 0; i < moving; ++i) {
      Turn& t = turns_[i];
      t.moved = dt * twists[i].v;
      t.turn = dt * twists[i].w;
      turn_factors(dot(t.turn, t.turn), t.sine, t.versine);
    }
    Real worst{}, probe{};
    std::size_t i = 0;
    if constexpr (lanes == 1) {
      Four most{}, finite{};
      for (; i + 4 <= points.size(); i += 4) {
        const Point *const k = &points[i], *const l = k + 1, *const m = k + 2, *const n = k + 3;
        const auto phi = together(k->phi, l->phi, m->phi, n->phi);
        const auto gap =
            end_of_point(turns_together(k->a, l->a, m->a, n->a), turns_together(k->b, l->b, m->b, n->b),
                         together(k->r_A, l->r_A, m->r_A, n->r_A), together(k->r_B, l->r_B, m->r_B, n->r_B), phi);
        const auto off = gap - left * phi;
        most = larger(most, largest(off));
        finite += 0 * (gap.x + gap.y + gap.z);
        for (int lane = 0; lane < 4; ++lane) write(x, k[lane].row, one_of(off, lane));
      }
      worst = largest_of(most);
      probe = (finite[0] + finite[1]) + (finite[2] + finite[3]);
    }
    for (; i < points.size(); ++i) {
      const Point& k = points[i];
      const V gap = end_of_point(turns_[z(k.a)], turns_[z(k.b)], k.r_A, k.r_B, k.phi);
      const V off = gap - left * k.phi;
      worst = larger(worst, largest(off));
      probe += 0 * (gap.x + gap.y + gap.z);
      write(x, k.row, off);
    }
    for (const Axis& k : axes) {  // (u + Δu) · (d + Δd) − d0
      const Turn &A = turns_[z(k.a)], &B = turns_[z(k.b)];
      const V du = A.added(k.u);
      const V dd = (B.moved - A.moved) + (B.added(k.r_B) - A.added(k.r_A));
      const Real phi = k.phi + (dot(du, k.d) + dot(k.u + du, dd)), off = phi - left * k.phi;
      worst = larger(worst, magnitude(off));
      probe += 0 * phi;
      x[z(k.row)] = off;
    }
    i = 0;
    if constexpr (lanes == 1) {
      Four most{}, finite{};
      for (; i + 4 <= dots.size(); i += 4) {
        const Dot *const k = &dots[i], *const l = k + 1, *const m = k + 2, *const n = k + 3;
        const Four phi = end_of_dot(turns_together(k->a, l->a, m->a, n->a), turns_together(k->b, l->b, m->b, n->b),
                                    together(k->u, l->u, m->u, n->u), together(k->w, l->w, m->w, n->w)) -
                         Four{k->c, l->c, m->c, n->c} - left * Four{k->phi, l->phi, m->phi, n->phi};
        most = larger(most, magnitude(phi));
        finite += 0 * phi;
        for (int lane = 0; lane < 4; ++lane) x[z(k[lane].row)] = phi[lane];
      }
      worst = larger(worst, largest_of(most));
      probe += (finite[0] + finite[1]) + (finite[2] + finite[3]);
    }
    for (; i < dots.size(); ++i) {
      const Dot& k = dots[i];
      const Real phi = end_of_dot(turns_[z(k.a)], turns_[z(k.b)], k.u, k.w) - k.c - left * k.phi;
      worst = larger(worst, magnitude(phi));
      probe += 0 * phi;
      x[z(k.row)] = phi;
    }
    return worst + probe;
  }

  /// φ over what the rounding of poses explains, at most.
  Real beyond_rounding(const Row<Real>& x) const {
    constexpr double unit = 32 * std::numeric_limits<double>::epsilon();
    Real most{};
    for (const Point& k : points) {
      const Real poses = largest(bodies[z(k.a)].p) + largest(bodies[z(k.b)].p);
      const V a = absolute(k.r_A), b = absolute(k.r_B), gap = absolute(read(x, k.row));
      most = larger(most, larger(gap.x / (unit * (poses + (a.y + a.z) + (b.y + b.z))),
                                 larger(gap.y / (unit * (poses + (a.x + a.z) + (b.x + b.z))),
                                        gap.z / (unit * (poses + (a.x + a.y) + (b.x + b.y))))));
    }
    for (const Axis& k : axes) {
      const Real poses = largest(bodies[z(k.a)].p) + largest(bodies[z(k.b)].p);
      const V u = absolute(k.u), a = absolute(k.c_A), b = absolute(k.c_B);
      most = larger(
          most, magnitude(x[z(k.row)]) / (unit * ((u.x + u.y + u.z) * poses + (a.x + a.y + a.z) + (b.x + b.y + b.z))));
    }
    for (const Dot& k : dots) {
      const V n = absolute(k.n);
      most = larger(most, magnitude(x[z(k.row)]) / (unit * 2 * (n.x + n.y + n.z)));
    }
    return most;
  }

  static std::size_t z(int i) { return static_cast<std::size_t>(i); }
  static double get(const Real& x, int lane) { return Lanes<Real>::get(x, lane); }
  static void set(Real& x, int lane, double to) { Lanes<Real>::set(x, lane, to); }
  static void put(V& x, int lane, const Vector3d& from) { put(x, lane, from.data()); }
  static void put(V& x, int lane, const double* from) {
    set(x.x, lane, from[0]), set(x.y, lane, from[1]), set(x.z, lane, from[2]);
  }
  static void take(const V& x, int lane, double* to) {
    to[0] = get(x.x, lane), to[1] = get(x.y, lane), to[2] = get(x.z, lane);
  }
  template <class X>
  static V3<X> turned(const FrameOf<X>& R, const V3<X>& u) {
    return {dot(R.x, u), dot(R.y, u), dot(R.z, u)};
  }
  template <class M, class X>
  static V3<X> times(const MassOf<M>& K, const V3<X>& u) {
    return {K.xx * u.x + K.xy * u.y + K.xz * u.z, K.xy * u.x + K.yy * u.y + K.yz * u.z,
            K.xz * u.x + K.yz * u.y + K.zz * u.z};
  }
  template <class X>
  static V3<X> times(const V& u, const X& s) {
    return {s * u.x, s * u.y, s * u.z};
  }
  template <class X>
  static V3<X> read(const Row<X>& from, int row) {
    return {from[z(row)], from[z(row + 1)], from[z(row + 2)]};
  }
  template <class X>
  static void write(Row<X>& to, int row, const V3<X>& u) {
    to[z(row)] = u.x, to[z(row + 1)] = u.y, to[z(row + 2)] = u.z;
  }

 private:
  template <class X>
  static FrameOf<X> frame(const X& qx, const X& qy, const X& qz, const X& qw) {
    const X x2 = qx + qx, y2 = qy + qy, z2 = qz + qz;
    const X wx = x2 * qw, wy = y2 * qw, wz = z2 * qw, xx = x2 * qx, xy = y2 * qx, xz = z2 * qx, yy = y2 * qy,
            yz = z2 * qy, zz = z2 * qz;
    return {{1 - (yy + zz), xy - wz, xz + wy}, {xy + wz, 1 - (xx + zz), yz - wx}, {xz - wy, yz + wx, 1 - (xx + yy)}};
  }
  // All of it but the mass.
  template <class X>
  static MassOf<X> mass(const FrameOf<X>& R, const V3<X>& inverse_inertia) {
    const V3<X> x = scaled(R.x, inverse_inertia), y = scaled(R.y, inverse_inertia), z = scaled(R.z, inverse_inertia);
    return {X{}, dot(x, R.x), dot(x, R.y), dot(x, R.z), dot(y, R.y), dot(y, R.z), dot(z, R.z)};
  }

  // Of a point at the start: its arms, φ, φ̇, what b of A v̇ = b is and what accelerations without joints make of it.
  template <class X>
  struct PointSeen {
    V3<X> r_A, r_B, phi, phi_dot, bias, moves;
    X probe() const {
      return 0 * ((phi.x + phi_dot.x + bias.x) + (phi.y + phi_dot.y + bias.y) + (phi.z + phi_dot.z + bias.z));
    }
  };
  template <class X>
  static PointSeen<X> see_point(const FrameOf<X>& R_A, const FrameOf<X>& R_B, const V3<X>& p_A, const V3<X>& p_B,
                                const V3<X>& apart, const TwistOf<X>& A, const TwistOf<X>& B, const TwistOf<X>& a,
                                const TwistOf<X>& b) {
    PointSeen<X> to;
    to.r_A = turned(R_A, p_A);
    to.r_B = turned(R_B, p_B);
    to.phi = apart + (to.r_A - to.r_B);
    const V3<X> v_A = cross(A.w, to.r_A), v_B = cross(B.w, to.r_B);
    to.phi_dot = (A.v + v_A) - (B.v + v_B);
    to.bias = cross(B.w, v_B) - cross(A.w, v_A);
    to.moves = (a.v + cross(a.w, to.r_A)) - (b.v + cross(b.w, to.r_B));
    return to;
  }

  static FrameOf<Four> together(const Frame& a, const Frame& b, const Frame& c, const Frame& d) {
    return {detail::together(a.x, b.x, c.x, d.x), detail::together(a.y, b.y, c.y, d.y),
            detail::together(a.z, b.z, c.z, d.z)};
  }
  static TwistOf<Four> together(const Twist& a, const Twist& b, const Twist& c, const Twist& d) {
    return {detail::together(a.v, b.v, c.v, d.v), detail::together(a.w, b.w, c.w, d.w)};
  }
  static V3<Four> together(const V& a, const V& b, const V& c, const V& d) { return detail::together(a, b, c, d); }
  static Four together(double a, double b, double c, double d) { return Four{a, b, c, d}; }

  void spin(std::size_t i, double h, V& free, V& acceleration) const {
    const Body& b = bodies[i];
    const Frame& R = frames[i];
    const V& w = start[i].w;
    const V u{R.x.x * w.x + R.y.x * w.y + R.z.x * w.z, R.x.y * w.x + R.y.y * w.y + R.z.y * w.z,
              R.x.z * w.x + R.y.z * w.y + R.z.z * w.z};
    const V L = scaled(b.inertia, u), torque = cross(u, L);
    const V change = solve_spin(b.inertia, u, L, h, h * torque);
    const auto less = [&](V& from, const V& by) {  // which may be no number where it is not asked for
      const auto of = [&](Real& x, const Real& y) { x = where_below(Real{}, spinning[i], x - y, x); };
      of(from.x, by.x), of(from.y, by.y), of(from.z, by.z);
    };
    less(free, turned(R, change));
    less(acceleration, turned(R, scaled(b.inverse_inertia, torque)));
  }

  TurnOf<Four> turns_together(int k, int l, int m, int n) const {
    const Turn &a = turns_[z(k)], &b = turns_[z(l)], &c = turns_[z(m)], &d = turns_[z(n)];
    return {together(a.moved, b.moved, c.moved, d.moved), together(a.turn, b.turn, c.turn, d.turn),
            Four{a.sine, b.sine, c.sine, d.sine}, Four{a.versine, b.versine, c.versine, d.versine}};
  }
  template <class X>
  static V3<X> end_of_point(const TurnOf<X>& A, const TurnOf<X>& B, const V3<X>& r_A, const V3<X>& r_B,
                            const V3<X>& phi) {
    return phi + ((A.moved - B.moved) + (A.added(r_A) - B.added(r_B)));
  }
  template <class X>
  static X end_of_dot(const TurnOf<X>& A, const TurnOf<X>& B, const V3<X>& u, const V3<X>& w) {
    return dot(u + A.added(u), w + B.added(w));
  }

  void take_geometry(int lane, const double* from) {
    for (PointPlace& k : point_places) {
      put(k.p_A, lane, from);
      put(k.p_B, lane, from + 3);
      set(k.arm_A, lane, from[6]);
      set(k.arm_B, lane, from[7]);
      from += 8;
    }
    for (Axis& k : axes) {
      put(k.u_A, lane, from);
      put(k.p_A, lane, from + 3);
      put(k.p_B, lane, from + 6);
      set(k.d0, lane, from[9]);
      from += 10;
    }
    for (Dot& k : dots) {
      put(k.u_A, lane, from);
      put(k.w_B, lane, from + 3);
      set(k.c, lane, from[6]);
      from += 7;
    }
  }

  void take_masses(int lane, std::span<const JointBlock::Mass> of) {
    for (std::size_t i = 0; i < moving; ++i) {
      Body& body = bodies[i];
      set(body.mass, lane, of[i].mass);
      set(masses[i].inverse, lane, of[i].inverse_mass);
      set(body.least_inertia, lane, of[i].least_inertia);
      put(body.inertia, lane, of[i].inertia);
      put(body.inverse_inertia, lane, of[i].inverse_inertia);
    }
  }

  void take_body(std::size_t i, int lane, const BodyState& s) {
    Body& body = bodies[i];
    put(body.p, lane, s.p);
    set(body.qx, lane, s.q.x()), set(body.qy, lane, s.q.y()), set(body.qz, lane, s.q.z()), set(body.qw, lane, s.q.w());
    if (i >= moving) return;
    put(start[i].v, lane, s.v);
    put(start[i].w, lane, s.w);
  }

  Row<Turn> turns_;                                       // of the step that was looked at last
  std::array<unsigned long, std::size_t{lanes}> held_{};  // versions of the blocks whose numbers are there
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
