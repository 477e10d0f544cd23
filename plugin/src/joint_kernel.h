// The numbers of JointStep, for one block or for several alike side by side in the lanes of a vector (Real). Rows stand
// in the order in which their joints are eliminated, so that each pass reads memory from front to back.
#pragma once

#include "joint_factor.h"
#include "joint_secants.h"
#include "joint_welds.h"
#include "joint_work.h"
#include "lanes.h"

#include <linchpin/detail/gyroscopic.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

namespace linchpin::detail {
inline namespace LINCHPIN_LANES {

template <class Real>
class JointKernel {
 public:
  static constexpr int lanes = Lanes<Real>::count;

  void lay_out(const JointPattern& p) {
    bodies_.assign(z(p.all_bodies), Body{});
    frames_.resize(bodies_.size());
    masses_.assign(bodies_.size(), Mass{});
    for (auto* x : {&start_, &free_, &accelerations_, &twists_}) x->assign(bodies_.size(), Twist{});
    turns_.assign(bodies_.size(), Turn{});
    stiffness_.assign(bodies_.size(), Mass{});
    bounds_.resize(bodies_.size());
    points_.resize(p.points.size());
    point_places_.resize(p.points.size());
    axes_.resize(p.axes.size());
    dots_.resize(p.dots.size());
    for (auto* x : {&bias_, &velocity_, &x_, &lambda_, &newton_, &total_}) x->assign(z(p.rows), Real{});
    secants_.lay_out(z(p.rows));
    p.welds ? welds_.lay_out(p) : factor_.lay_out(p);
    moving_ = z(p.bodies);
    for (const JointPattern::Node& node : p.nodes) {
      for (int k = node.points; k < node.points_end; ++k) points_[z(k)].a = node.a, points_[z(k)].b = node.b;
      for (int k = node.axes; k < node.axes_end; ++k) axes_[z(k)].a = node.a, axes_[z(k)].b = node.b;
      for (int k = node.dots; k < node.dots_end; ++k) dots_[z(k)].a = node.a, dots_[z(k)].b = node.b;
      for (int k = node.points; k < node.points_end; ++k) points_[z(k)].row = node.first + 3 * (k - node.points);
      for (int k = node.axes; k < node.axes_end; ++k) axes_[z(k)].row = node.first + node.axis_row + (k - node.axes);
      for (int k = node.dots; k < node.dots_end; ++k) dots_[z(k)].row = node.first + node.dot_row + (k - node.dots);
    }
  }

  // Where a block was, and how fast; what does not change of it only where another was in the lane.
  void take_block(int lane, const JointBlock& block, const State& state) {
    if (std::exchange(held_[z(lane)], block.version) != block.version) {
      take_geometry(lane, block.geometry.data());
      take_masses(lane, block.masses);
    }
    for (std::size_t i = 0; i < block.bodies.size(); ++i) take_body(i, lane, state[block.bodies[i]]);
  }

  // Forces stand in the place of the twists that they make until step() has the masses.
  void take_forces(int lane, std::span<const double> Q, std::span<const double> applied) {
    for (std::size_t i = 0; i < moving_; ++i) {
      put(twists_[i].v, lane, Q.data() + 6 * i);
      put(twists_[i].w, lane, Q.data() + 6 * i + 3);
      put(free_[i].v, lane, applied.data() + 6 * i);
      put(free_[i].w, lane, applied.data() + 6 * i + 3);
    }
  }

  // Bodies that the end is to find the gyroscopic torque of.
  void take_turning(int lane, const JointStep::Numbers& of) {
    if (lane == 0) turning_.clear();
    for (const int slot : of.turning) turning_.push_back({.body = z(slot), .lane = lane, .h = of.turning_for});
  }

  void take_start(const JointPattern& p, int lane, std::span<const double> newton) {
    for (std::size_t r = 0; r < newton_.size(); ++r) set(newton_[r], lane, newton[z(p.row_of[r])]);
  }

  struct Result {
    std::array<JointStep::Outcome, std::size_t{lanes}> of;
  };

  Result step(const JointPattern& p, const JointStep::Limits& limits, std::span<const JointStep::Job> jobs) {
    gap_ = start();
    Result result = found();
    for (int lane = 0; lane < lanes; ++lane)
      if (!(get(gap_, lane) <= limits.gap_tolerance)) refuse(result, lane, "a gap at the start");
    if (none(result)) return result;
    const Real margin = refactor(p, [&](int lane) { return !result.of[z(lane)].refused; });
    for (int lane = 0; lane < lanes; ++lane)
      if (!(get(margin, lane) > 0)) refuse(result, lane, why_not(get(margin, lane)));
    if (!none(result)) finish(p, limits, jobs, result);
    return result;
  }

  // ---- one block in turns with a host's rows (JointStep::begin and what follows it) ----

  const char* begin(const JointPattern& p, double gap_tolerance) {
    for (auto* x : {&target_, &newton_}) x->assign(z(p.rows), Real{});
    ways_.resize(z(p.rows));
    for (auto* x : {&way_free_, &way_wrenches_}) x->resize(bodies_.size());
    is_aimed_.resize(bodies_.size());
    reached_.resize(p.nodes.size());
    for (auto* x : {&twists_, &free_}) std::fill(x->begin(), x->end(), Twist{});  // no forces so far
    gap_ = start();
    if (!(gap_ <= gap_tolerance)) return "a gap at the start";
    const Real margin = refactor(p, [](int) { return true; });
    return margin > 0 ? nullptr : why_not(margin);
  }

  double reach(const JointPattern& p, double dt, double tolerance, int most, std::span<const double> applied,
               std::span<const double> Q) {
    set_free(applied);
    std::fill(total_.begin(), total_.end(), Real{});
    twists_ = free_;
    if (!Q.empty()) {  // from what answers the forces
      ask(Q);
      if (redundant_) least_norm(x_);
      solve(p, x_);
      for (std::size_t r = 0; r < x_.size(); ++r) total_[r] = dt * x_[r];
      respond(p, total_, free_);
    }
    Real worst = look(dt, Real{});
    for (int solves = 0; solves < most && worst > tolerance; ++solves) {
      for (Real& x : x_) x *= -1 / dt;
      solve(p, x_);
      for (std::size_t r = 0; r < x_.size(); ++r) total_[r] += x_[r];
      respond(p, total_, free_);
      worst = look(dt, Real{});
    }
    rates(twists_, target_);
    if (p.welds) lift_target();
    return worst;
  }

  void keep(const JointPattern& p, double time, std::span<const double> applied) {
    set_free(applied);
    twists_ = free_;
    for (std::size_t r = 0; r < target_.size(); ++r) target_[r] = 0.5 * time * bias_[r];
    if (p.welds) lift_target();
    approach_target(p);
  }

  void hold(const JointPattern& p, std::span<const double> v) {
    for (std::size_t i = 0; i < moving_; ++i) twists_[i] = twist_from(v, i);
    approach_target(p);
  }

  // Joints on the bodies that are looked at, and all whose elimination those of a solve go through: the others have
  // nothing to say about what such bodies do to each other.
  void aim(const JointPattern& p, std::span<const int> bodies) {
    aimed_.assign(bodies.begin(), bodies.end());
    std::fill(is_aimed_.begin(), is_aimed_.end(), 0);
    for (const int body : bodies) is_aimed_[z(body)] = 1;
    for (auto* x : {&aimed_nodes_, &aimed_points_, &aimed_axes_, &aimed_dots_, &between_, &beside_}) x->clear();
    std::fill(reached_.begin(), reached_.end(), p.hubs.empty() ? 0 : 1);  // all of them by way of hubs
    for (std::size_t i = 0; i < p.nodes.size(); ++i) {
      const JointPattern::Node& node = p.nodes[i];
      const bool there = is_aimed_[z(node.a)] || is_aimed_[z(node.b)];
      if (!there && !reached_[i]) continue;
      aimed_nodes_.push_back(static_cast<int>(i));
      if (node.below < node.below_end) reached_[z(p.belows[z(node.below)].node)] = 1;
      if (there) beside_.insert(beside_.end(), {node.a, node.b});
      for (int k = node.points; there && k < node.points_end; ++k) aimed_points_.push_back(k);
      for (int k = node.axes; there && k < node.axes_end; ++k) aimed_axes_.push_back(k);
      for (int k = node.dots; there && k < node.dots_end; ++k) aimed_dots_.push_back(k);
      for (int r = 0; !there && r < node.width; ++r) between_.push_back(node.first + r);
    }
  }

  void move(const JointPattern& p, std::span<const JointStep::Push> pushes, double* to) {
    if (p.welds) return move_as_one(pushes, to);
    for (std::size_t lane = 0; lane < pushes.size(); ++lane)
      for (const JointStep::Push::At& at : pushes[lane].at) {
        if (at.body < 0) continue;
        TwistOf<Four>& f = way_free_[z(at.body)];
        for (auto* u : {&f.v, &f.w}) {
          const double* const from = u == &f.v ? at.impulse.data() : at.impulse.data() + 3;
          u->x[lane] += from[0], u->y[lane] += from[1], u->z[lane] += from[2];
        }
      }
    for (const int i : aimed_) way_free_[z(i)] = moved(z(i), way_free_[z(i)]);
    for (const int row : between_) ways_[z(row)] = Four{};
    for (const int k : aimed_points_) write(ways_, points_[z(k)].row, rate(points_[z(k)], way_free_));
    for (const int k : aimed_axes_) ways_[z(axes_[z(k)].row)] = rate(axes_[z(k)], way_free_);
    for (const int k : aimed_dots_) ways_[z(dots_[z(k)].row)] = rate(dots_[z(k)], way_free_);
    factor_.solve(p, aimed_nodes_, ways_.data());
    for (const int i : beside_) way_wrenches_[z(i)] = TwistOf<Four>{};
    for (const int k : aimed_points_) add_pull(points_[z(k)], ways_, way_wrenches_);
    for (const int k : aimed_axes_) add_pull(axes_[z(k)], ways_, way_wrenches_);
    for (const int k : aimed_dots_) add_pull(dots_[z(k)], ways_, way_wrenches_);
    for (std::size_t k = 0; k < aimed_.size(); ++k) {
      const std::size_t i = z(aimed_[k]);
      TwistOf<Four>& free = way_free_[i];
      const TwistOf<Four> u = free - moved(i, way_wrenches_[i]);
      for (std::size_t lane = 0; lane < pushes.size(); ++lane) {
        double* const x = to + 6 * (lane * aimed_.size() + k);
        x[0] = u.v.x[lane], x[1] = u.v.y[lane], x[2] = u.v.z[lane];
        x[3] = u.w.x[lane], x[4] = u.w.y[lane], x[5] = u.w.z[lane];
      }
      free = TwistOf<Four>{};
    }
  }

  bool as_one(JointStep::One& to) const {
    const auto& I = welds_.inverse();
    take(welds_.centre(), 0, to.centre.data());
    to.inverse_mass = welds_.inverse_mass();
    to.inverse_inertia << I.xx, I.xy, I.xz, I.xy, I.yy, I.yz, I.xz, I.yz, I.zz;
    return true;
  }

  Result end(const JointPattern& p, const JointStep::Limits& limits, std::span<const JointStep::Job> job) {
    set_free(job[0].numbers.applied);
    ask(job[0].numbers.Q);
    take_turning(0, job[0].numbers);
    std::fill(newton_.begin(), newton_.end(), Real{});
    Result result = found();
    finish(p, limits, job, result);
    return result;
  }

  void give_velocities(int lane, std::span<double> v) const {
    for (std::size_t i = 0; i < moving_; ++i) {
      take(twists_[i].v, lane, v.data() + 6 * i);
      take(twists_[i].w, lane, v.data() + 6 * i + 3);
    }
  }

  void give(const JointPattern& p, int lane, const JointStep::Outcome& outcome, JointStep::Job& job) const {
    const JointStep::Numbers& to = job.numbers;
    job.outcome = outcome;
    for (std::size_t r = 0; r < lambda_.size() && outcome.answered; ++r)
      to.start[z(p.row_of[r])] = get(lambda_[r], lane);
    if (outcome.refused) return;
    give_velocities(lane, to.v);
    for (std::size_t r = 0; r < lambda_.size(); ++r) {
      const std::size_t row = z(p.row_of[r]);
      to.newton[row] = get(newton_[r], lane);
      to.total[row] = get(total_[r], lane);
      to.mean[row] = get(x_[r], lane);
    }
    if (!to.pull.empty()) give_pull(p, lane, to.pull);
  }

 private:
  void take_geometry(int lane, const double* from) {
    for (PointPlace& k : point_places_) {
      put(k.p_A, lane, from);
      put(k.p_B, lane, from + 3);
      set(k.arm_A, lane, from[6]);
      set(k.arm_B, lane, from[7]);
      from += 8;
    }
    for (Axis& k : axes_) {
      put(k.u_A, lane, from);
      put(k.p_A, lane, from + 3);
      put(k.p_B, lane, from + 6);
      set(k.d0, lane, from[9]);
      from += 10;
    }
    for (Dot& k : dots_) {
      put(k.u_A, lane, from);
      put(k.w_B, lane, from + 3);
      set(k.c, lane, from[6]);
      from += 7;
    }
  }

  void take_masses(int lane, std::span<const JointBlock::Mass> masses) {
    for (std::size_t i = 0; i < moving_; ++i) {
      Body& body = bodies_[i];
      set(body.mass, lane, masses[i].mass);
      set(masses_[i].inverse, lane, masses[i].inverse_mass);
      set(body.least_inertia, lane, masses[i].least_inertia);
      put(body.inertia, lane, masses[i].inertia);
      put(body.inverse_inertia, lane, masses[i].inverse_inertia);
    }
  }

  void take_body(std::size_t i, int lane, const BodyState& s) {
    Body& body = bodies_[i];
    put(body.p, lane, s.p);
    set(body.qx, lane, s.q.x()), set(body.qy, lane, s.q.y()), set(body.qz, lane, s.q.z()), set(body.qw, lane, s.q.w());
    if (i >= moving_) return;
    put(start_[i].v, lane, s.v);
    put(start_[i].w, lane, s.w);
  }

  void give_pull(const JointPattern& p, int lane, std::span<double> to) const {
    for (std::size_t i = 0; i < p.nodes.size(); ++i) {
      const JointPattern::Node& node = p.nodes[i];
      V f{}, on_a{}, on_b{};
      for (int k = node.points; k < node.points_end; ++k) {
        const Point& point = points_[z(k)];
        const V p_k = read(total_, point.row);
        f += p_k;
        on_a += cross(point.r_A, p_k);
        on_b -= cross(point.r_B, p_k);
      }
      for (int k = node.axes; k < node.axes_end; ++k) {
        const Axis& axis = axes_[z(k)];
        const Real& p_k = total_[z(axis.row)];
        f -= p_k * axis.u;
        on_a += p_k * axis.c_A;
        on_b += p_k * axis.c_B;
      }
      for (int k = node.dots; k < node.dots_end; ++k) {
        const V m = total_[z(dots_[z(k)].row)] * dots_[z(k)].n;
        on_a += m;
        on_b -= m;
      }
      double* const at = to.data() + 12 * z(p.joint_of[i]);
      take(f, lane, at);
      take(on_a, lane, at + 3);
      take(-f, lane, at + 6);
      take(on_b, lane, at + 9);
    }
  }

  using V = V3<Real>;
  struct Body {
    V p;
    Real qx, qy, qz, qw;
    Real mass, least_inertia;
    V inertia, inverse_inertia;  // along its own axes
  };
  struct Frame {
    V x, y, z;  // rows of R
  };
  struct Mass {
    Real inverse;
    Real xx, yy, zz, xy, xz, yz;  // R I⁻¹ Rᵀ
  };
  template <class X>
  struct TwistOf {
    V3<X> v, w;
    TwistOf operator+(const TwistOf& u) const { return {v + u.v, w + u.w}; }
    TwistOf operator-(const TwistOf& u) const { return {v - u.v, w - u.w}; }
  };
  using Twist = TwistOf<Real>;
  struct Turn {  // of a step: its displacement, its angle, sin t / t and (1 − cos t) / t²
    V moved, turn;
    Real sine, versine;
  };
  struct Point {
    int a, b, row;
    V r_A, r_B, phi;  // at the start (W)
  };
  struct PointPlace {  // of a point, what passes over the points do without: long chains leave the cache
    V p_A, p_B;
    Real arm_A, arm_B;
  };
  struct PointMasses {  // K (r × e_i) by side that moves, the second's with its sign
    V on[2][3];
  };
  using ByRow = std::array<Real, JointPattern::widest>;
  struct OfRows {  // of a joint, by component: what its rows pull with at the first of its sides, and K times their
                   // moments
    ByRow v[3], on[2][3];
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
  static void refuse(Result& result, int lane, const char* why) {
    if (!result.of[z(lane)].refused) result.of[z(lane)].refused = why;
  }
  static bool none(const Result& result) {
    return std::all_of(result.of.begin(), result.of.end(), [](const auto& out) { return out.refused != nullptr; });
  }
  static V turned(const Frame& R, const V& u) { return {dot(R.x, u), dot(R.y, u), dot(R.z, u)}; }
  template <class X>
  static V3<X> times(const Mass& K, const V3<X>& u) {
    return {K.xx * u.x + K.xy * u.y + K.xz * u.z, K.xy * u.x + K.yy * u.y + K.yz * u.z,
            K.xz * u.x + K.yz * u.y + K.zz * u.z};
  }
  template <class X>
  static V3<X> times(const V& u, const X& s) {
    return {s * u.x, s * u.y, s * u.z};
  }

  // What start() has seen.
  Result found() const {
    Result result;
    for (int lane = 0; lane < lanes; ++lane) {
      JointStep::Outcome& out = result.of[z(lane)];
      out.off = get(off_, lane);
      out.fastest = get(fastest_, lane);
      out.kinetic = get(kinetic_, lane);
    }
    return result;
  }

  // The factor, made once more where rows depend on each other for the first time, and the null vectors of those that
  // do. Those of long ladders of welds are as long as the ladder, which the way of all others is spared.
  // @return as JointFactor::factor, or where they are too long `dear`
  static constexpr double dear = -2;
  static constexpr std::size_t most_fours = 16;  // of null vectors, by row; windows of four bars have 1.3
  static const char* why_not(double margin) {
    return margin == dear ? JointStep::too_dear : "rank not clear from the pivots";
  }
  template <class Wanted>
  Real refactor(const JointPattern& p, Wanted wanted) {
    if (p.welds) return factor_welds(p);
    fill(p);
    Real margin = factor_.factor(p);
    const auto unclear = [&](int lane) { return wanted(lane) && !(get(margin, lane) > 0); };
    bool again = false;
    for (int lane = 0; lane < lanes && !factor_.drops(); ++lane) again = again || unclear(lane);
    if (again) {
      factor_.drop_dependent();
      fill(p);
      margin = factor_.factor(p);
    }
    redundant_ = false;
    for (int lane = 0; lane < lanes; ++lane) {
      null_spaces_[z(lane)].clear();
      if (!wanted(lane) || !(get(margin, lane) > 0) || factor_.whole(lane)) continue;
      factor_.find_null_space(p, lane, null_spaces_[z(lane)]);
      if (null_spaces_[z(lane)].size() > most_fours * x_.size()) set(margin, lane, dear);
      redundant_ = true;
    }
    return margin;
  }

  Real factor_welds(const JointPattern& p) {
    for (std::size_t i = 0; i < p.nodes.size(); ++i) {
      typename JointWelds<Real>::Weld& to = welds_.welds[i];
      const JointPattern::Node& node = p.nodes[i];
      const Point& point = points_[z(node.points)];
      to.r_A = point.r_A, to.r_B = point.r_B;
      for (std::size_t k = 0; k < 3; ++k) to.n[k] = dots_[z(node.dots) + k].n;
    }
    for (std::size_t i = 0; i < moving_; ++i) {
      const Body& from = bodies_[i];
      const Frame& R = frames_[i];
      const V x = scaled(R.x, from.inertia), y = scaled(R.y, from.inertia), w = scaled(R.z, from.inertia);
      welds_.bodies[i] = {from.mass,   from.p,      dot(x, R.x), dot(y, R.y),
                          dot(w, R.z), dot(x, R.y), dot(x, R.z), dot(y, R.z)};
    }
    redundant_ = welds_.loops();
    return welds_.factor();
  }

  // x ← multipliers that make these rates
  void solve(const JointPattern& p, Row<Real>& x) { p.welds ? welds_.solve(x.data()) : factor_.solve(p, x.data()); }

  // From the factor on; x_ is what the forces leave of the bias.
  void finish(const JointPattern& p, const JointStep::Limits& limits, std::span<const JointStep::Job> jobs,
              Result& result) {
    answer(p, result);
    for (JointStep::Outcome& out : result.of) out.answered = !out.refused;
    if (none(result)) return;
    activate(p, jobs, result);
    close(p, limits, result);
    if (none(result)) return;
    if (redundant_) {
      least_norm(total_);
      for (int lane = 0; lane < lanes; ++lane)
        if (welds_.loops() || !null_spaces_[z(lane)].empty())
          for (std::size_t r = 0; r < total_.size(); ++r)
            set(newton_[r], lane, get(total_[r], lane) - limits.dt * get(lambda_[r], lane));
    }
    judge(limits, result);
  }

  Twist twist_from(std::span<const double> x, std::size_t i) const {
    Twist u;
    put(u.v, 0, x.data() + 6 * i);
    put(u.w, 0, x.data() + 6 * i + 3);
    return u;
  }

  // free_ ← the velocities at the start and what impulses make of them
  void set_free(std::span<const double> applied) {
    for (std::size_t i = 0; i < moving_; ++i) {
      free_[i] = start_[i] + moved(i, twist_from(applied, i));
    }
  }

  void lift_target() {
    lifted_.resize(moving_);
    const auto* const twists = welds_.lift(target_.data());
    for (std::size_t i = 0; i < moving_; ++i) lifted_[i] = {twists[i].v, twists[i].w};
  }

  void move_as_one(std::span<const JointStep::Push> pushes, double* to) const {
    for (const JointStep::Push& push : pushes) {
      V linear{}, angular{};
      for (const JointStep::Push::At& at : push.at) {
        if (at.body < 0) continue;
        V f, m;
        put(f, 0, at.impulse.data());
        put(m, 0, at.impulse.data() + 3);
        linear += f;
        angular += m + cross(welds_.arm(z(at.body)), f);
      }
      const auto all = welds_.moved(linear, angular);
      for (const int body : aimed_) {
        const auto u = welds_.at(z(body), all);
        take(u.v, 0, to);
        take(u.w, 0, to + 3);
        to += 6;
      }
    }
  }

  // x_ ← what forces leave of the bias, as start() has it of those that it knows
  void ask(std::span<const double> Q) {
    for (std::size_t i = 0; i < moving_; ++i) twists_[i] = accelerations_[i] = moved(i, twist_from(Q, i));
    rates(twists_, x_);
    size_ = Real{};
    for (std::size_t r = 0; r < x_.size(); ++r) {
      size_ = larger(size_, larger(magnitude(bias_[r]), magnitude(x_[r])));
      x_[r] = bias_[r] - x_[r];
    }
  }

  // twists_ ← the nearest, in the metric of the masses, whose rates are the target
  void approach_target(const JointPattern& p) {
    if (p.welds) {
      const auto all = welds_.common(twists_.data());
      for (std::size_t i = 0; i < moving_; ++i) {
        const auto own = welds_.at(i, all);
        twists_[i] = lifted_[i] + Twist{own.v, own.w};
      }
      return;
    }
    rates(twists_, x_);
    for (std::size_t r = 0; r < x_.size(); ++r) x_[r] = target_[r] - x_[r];
    solve(p, x_);
    respond(p, x_, twists_);
  }

  // Rows of A times what bodies do.
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

  // What the poses and velocities at hand make of every body and row. @return the largest |φ|
  Real start() {
    Real fastest{}, kinetic{}, extent{};
    for (std::size_t i = 0; i < bodies_.size(); ++i) {
      const Body& b = bodies_[i];
      Frame& R = frames_[i];
      const Real x2 = b.qx + b.qx, y2 = b.qy + b.qy, z2 = b.qz + b.qz;
      const Real wx = x2 * b.qw, wy = y2 * b.qw, wz = z2 * b.qw, xx = x2 * b.qx, xy = y2 * b.qx, xz = z2 * b.qx,
                 yy = y2 * b.qy, yz = z2 * b.qy, zz = z2 * b.qz;
      R.x = {1 - (yy + zz), xy - wz, xz + wy};
      R.y = {xy + wz, 1 - (xx + zz), yz - wx};
      R.z = {xz - wy, yz + wx, 1 - (xx + yy)};
      if (i >= moving_) continue;
      Mass& K = masses_[i];
      const V kx = scaled(R.x, b.inverse_inertia), ky = scaled(R.y, b.inverse_inertia),
              kz = scaled(R.z, b.inverse_inertia);
      K.xx = dot(kx, R.x), K.yy = dot(ky, R.y), K.zz = dot(kz, R.z);
      K.xy = dot(kx, R.y), K.xz = dot(kx, R.z), K.yz = dot(ky, R.z);
      Twist &a = twists_[i], &f = free_[i];  // forces so far
      const Twist& now = start_[i];
      accelerations_[i] = a = moved(i, a);
      f = now + moved(i, f);
      fastest = larger(fastest, larger(largest(now.v), largest(now.w)));
      kinetic += b.mass * dot(now.v, now.v);
      extent = larger(extent, largest(b.p));
    }
    fastest_ = fastest;
    extent_ = extent;
    kinetic_ = 0.5 * kinetic;
    Real gap{}, off{}, size{}, probe{};
    for (std::size_t i = 0; i < points_.size(); ++i) {
      Point& k = points_[i];
      const Twist &A = start_[z(k.a)], &B = start_[z(k.b)], &a = twists_[z(k.a)], &b = twists_[z(k.b)];
      k.r_A = turned(frames_[z(k.a)], point_places_[i].p_A);
      k.r_B = turned(frames_[z(k.b)], point_places_[i].p_B);
      k.phi = (bodies_[z(k.a)].p - bodies_[z(k.b)].p) + (k.r_A - k.r_B);
      const V v_A = cross(A.w, k.r_A), v_B = cross(B.w, k.r_B);
      const V phi_dot = (A.v + v_A) - (B.v + v_B);
      const V bias = cross(B.w, v_B) - cross(A.w, v_A);
      const V moves = (a.v + cross(a.w, k.r_A)) - (b.v + cross(b.w, k.r_B));
      gap = larger(gap, largest(k.phi));
      off = larger(off, largest(phi_dot));
      size = larger(size, larger(largest(bias), largest(moves)));
      write(velocity_, k.row, phi_dot);
      write(bias_, k.row, bias);
      write(x_, k.row, bias - moves);
      probe += 0 * ((k.phi.x + phi_dot.x + bias.x) + (k.phi.y + phi_dot.y + bias.y) + (k.phi.z + phi_dot.z + bias.z));
    }
    const auto note = [&](int row, const Real& phi, const Real& phi_dot, const Real& bias, const Real& moves) {
      gap = larger(gap, magnitude(phi));
      off = larger(off, magnitude(phi_dot));
      size = larger(size, larger(magnitude(bias), magnitude(moves)));
      velocity_[z(row)] = phi_dot;
      bias_[z(row)] = bias;
      x_[z(row)] = bias - moves;
      probe += 0 * (phi + phi_dot + bias);
    };
    for (Axis& k : axes_) {
      const Twist &A = start_[z(k.a)], &B = start_[z(k.b)];
      k.u = turned(frames_[z(k.a)], k.u_A);
      k.r_A = turned(frames_[z(k.a)], k.p_A);
      k.r_B = turned(frames_[z(k.b)], k.p_B);
      k.d = (bodies_[z(k.b)].p - bodies_[z(k.a)].p) + (k.r_B - k.r_A);
      k.c_A = cross(k.u, k.r_A + k.d);
      k.c_B = cross(k.r_B, k.u);
      const V v_A = cross(A.w, k.r_A), v_B = cross(B.w, k.r_B);
      const V d_dot = (B.v + v_B) - (A.v + v_A), u_dot = cross(A.w, k.u);
      const Real phi = k.phi = dot(k.u, k.d) - k.d0, phi_dot = dot(u_dot, k.d) + dot(k.u, d_dot);
      const Real bias =
          -(dot(cross(A.w, u_dot), k.d) + 2 * dot(u_dot, d_dot) + dot(k.u, cross(B.w, v_B) - cross(A.w, v_A)));
      const Real moves = rate(k, twists_);
      note(k.row, phi, phi_dot, bias, moves);
    }
    for (Dot& k : dots_) {
      const V &wA = start_[z(k.a)].w, &wB = start_[z(k.b)].w;
      k.u = turned(frames_[z(k.a)], k.u_A);
      k.w = turned(frames_[z(k.b)], k.w_B);
      k.n = cross(k.u, k.w);
      const V u_dot = cross(wA, k.u), w_dot = cross(wB, k.w);
      const Real phi = k.phi = dot(k.u, k.w) - k.c, phi_dot = dot(k.n, wA - wB);
      const Real bias = -(dot(cross(wA, u_dot), k.w) + 2 * dot(u_dot, w_dot) + dot(k.u, cross(wB, w_dot)));
      const Real moves = dot(k.n, twists_[z(k.a)].w - twists_[z(k.b)].w);
      note(k.row, phi, phi_dot, bias, moves);
    }
    off_ = off;
    size_ = size;
    return gap + probe;
  }

  // G = A M⁻¹ Aᵀ into the places of its factor.
  void fill(const JointPattern& p) {
    Real* const values = factor_.clear();
    for (Axis& k : axes_) {
      if (z(k.a) < moving_) k.on_a = times(masses_[z(k.a)], k.c_A);
      if (z(k.b) < moving_) k.on_b = times(masses_[z(k.b)], k.c_B);
    }
    for (Dot& k : dots_) {
      if (z(k.a) < moving_) k.on_a = times(masses_[z(k.a)], k.n);
      if (z(k.b) < moving_) k.on_b = -times(masses_[z(k.b)], k.n);
    }
    PointMasses ball;
    OfRows rows{};
    int ball_of = -1, rows_of = -1;
    for (const JointPattern::Meeting& m : p.meetings) {  // all of one j after the other
      const Real inverse = masses_[z(m.body)].inverse;
      const Real linear = m.side_i == m.side_j ? inverse : -inverse;
      Real* const to = values + m.target;
      if (m.ball_i >= 0) {
        if (std::exchange(ball_of, m.j) != m.j) ball = masses_on(points_[z(m.ball_j)]);
        meet(points_[z(m.ball_i)], m.side_i, ball.on[m.side_j], linear, m.i == m.j, to);
        continue;
      }
      if (std::exchange(rows_of, m.j) != m.j) take_rows(p.nodes[z(m.j)], rows);
      const int width = p.nodes[z(m.j)].width;
      JointFactor<Real>::of_width(
          width, [&](auto known) { meet<decltype(known)::value>(p.nodes[z(m.i)], m, rows, linear, width, to); });
    }
    if (!p.hubs.empty()) fill_hubs(p);
  }

  PointMasses masses_on(const Point& point) const {
    PointMasses to;
    for (int side = 0; side < 2; ++side) {
      const std::size_t body = z(side == 0 ? point.a : point.b);
      if (body >= moving_) continue;
      const Mass& K = masses_[body];
      const V r = side == 0 ? point.r_A : -point.r_B;
      V* on = to.on[side];  // K (0, z, −y), K (−z, 0, x), K (y, −x, 0)
      on[0] = {K.xy * r.z - K.xz * r.y, K.yy * r.z - K.yz * r.y, K.yz * r.z - K.zz * r.y};
      on[1] = {K.xz * r.x - K.xx * r.z, K.yz * r.x - K.xy * r.z, K.zz * r.x - K.xz * r.z};
      on[2] = {K.xx * r.y - K.xy * r.x, K.xy * r.y - K.yy * r.x, K.xz * r.y - K.yz * r.x};
    }
    return to;
  }

  // What joints have in the columns of hubs, and how long that makes their rows; and what those weigh.
  void fill_hubs(const JointPattern& p) {
    constexpr int stride = JointPattern::hub_stride;
    for (const JointPattern::Grip& grip : p.grips) {
      const JointPattern::Node& node = p.nodes[z(grip.node)];
      const Real inverse = masses_[z(grip.body)].inverse, one = Lanes<Real>::all(grip.side == 0 ? 1 : -1);
      Real* to = factor_.holds() + grip.values;
      Real* length = factor_.lengths() + node.first;
      const auto row = [&](const V& v, const V& w, const Real& square) {
        to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = w.x, to[4] = w.y, to[5] = w.z;
        to += stride;
        *length++ += square;
      };
      for (int k = node.points; k < node.points_end; ++k) {
        const V r = grip.side == 0 ? points_[z(k)].r_A : -points_[z(k)].r_B;
        const PointMasses masses = masses_on(points_[z(k)]);
        const V* on = masses.on[grip.side];
        row({one, Real{}, Real{}}, {Real{}, r.z, -r.y}, inverse + (r.z * on[0].y - r.y * on[0].z));
        row({Real{}, one, Real{}}, {-r.z, Real{}, r.x}, inverse + (r.x * on[1].z - r.z * on[1].x));
        row({Real{}, Real{}, one}, {r.y, -r.x, Real{}}, inverse + (r.y * on[2].x - r.x * on[2].y));
      }
      for (int k = node.axes; k < node.axes_end; ++k) {
        const Axis& axis = axes_[z(k)];
        const V &arm = grip.side == 0 ? axis.c_A : axis.c_B, &on = grip.side == 0 ? axis.on_a : axis.on_b;
        row(grip.side == 0 ? -axis.u : axis.u, arm, inverse * dot(axis.u, axis.u) + dot(arm, on));
      }
      for (int k = node.dots; k < node.dots_end; ++k) {
        const V n = normal(dots_[z(k)], grip.side);
        row(V{}, n, dot(n, grip.side == 0 ? dots_[z(k)].on_a : dots_[z(k)].on_b));
      }
    }
    for (std::size_t i = 0; i < p.hubs.size(); ++i) {
      const Body& body = bodies_[z(p.hubs[i])];
      const Frame& R = frames_[z(p.hubs[i])];
      Real* to = factor_.hub_mass(static_cast<int>(i));
      for (int k = 0; k < 3; ++k, to += stride) to[k] = body.mass;
      for (const V* x : {&R.x, &R.y, &R.z}) {
        const V I = scaled(*x, body.inertia);
        to[3] = dot(I, R.x), to[4] = dot(I, R.y), to[5] = dot(I, R.z);
        to += stride;
      }
    }
  }

  static V normal(const Dot& k, int side) { return side == 0 ? k.n : -k.n; }

  // What two balls add to each other's rows: (r × e_x) · on[0] and so on; of the diagonal the lower half.
  static void meet(const Point& point, int side, const V* on, const Real& linear, bool lower, Real* x) {
    const V r = side == 0 ? point.r_A : -point.r_B;
    Real *const y = x + 3, *const z = y + 3;
    x[0] += linear + (r.z * on[0].y - r.y * on[0].z);
    y[0] += r.x * on[0].z - r.z * on[0].x;
    z[0] += r.y * on[0].x - r.x * on[0].y;
    y[1] += linear + (r.x * on[1].z - r.z * on[1].x);
    z[1] += r.y * on[1].x - r.x * on[1].y;
    z[2] += linear + (r.y * on[2].x - r.x * on[2].y);
    if (lower) return;
    x[1] += r.z * on[1].y - r.y * on[1].z;
    x[2] += r.z * on[2].y - r.y * on[2].z;
    y[2] += r.x * on[2].z - r.z * on[2].x;
  }

  void take_rows(const JointPattern::Node& node, OfRows& to) const {
    std::size_t row = 0;
    const auto add = [&](const V& v, const V& on_a, const V& on_b) {
      to.v[0][row] = v.x, to.v[1][row] = v.y, to.v[2][row] = v.z;
      to.on[0][0][row] = on_a.x, to.on[0][1][row] = on_a.y, to.on[0][2][row] = on_a.z;
      to.on[1][0][row] = on_b.x, to.on[1][1][row] = on_b.y, to.on[1][2][row] = on_b.z;
      ++row;
    };
    const Real one = Lanes<Real>::all(1);
    for (int k = node.points; k < node.points_end; ++k) {
      const PointMasses masses = masses_on(points_[z(k)]);
      add({one, Real{}, Real{}}, masses.on[0][0], masses.on[1][0]);
      add({Real{}, one, Real{}}, masses.on[0][1], masses.on[1][1]);
      add({Real{}, Real{}, one}, masses.on[0][2], masses.on[1][2]);
    }
    for (int k = node.axes; k < node.axes_end; ++k) add(-axes_[z(k)].u, axes_[z(k)].on_a, axes_[z(k)].on_b);
    for (int k = node.dots; k < node.dots_end; ++k) add(V{}, dots_[z(k)].on_a, dots_[z(k)].on_b);
  }

  // What a joint and the rows of another, or its own, add to each other's; of the diagonal at least the lower half.
  template <int W>
  void meet(const JointPattern::Node& i, const JointPattern::Meeting& m, const OfRows& rows, const Real& linear,
            int width, Real* to) const {
    const auto& v = rows.v;
    const auto& on = rows.on[m.side_j];
    const bool lower = m.i == m.j;
    int row = 0;
    const auto add = [&](const Real& a, const ByRow& A, const Real& b, const ByRow& B, const Real& c, const ByRow& C) {
      add_row<W>(to, lower ? row + 1 : width, a, A, b, B, c, C);
    };
    const auto next = [&] { ++row, to += W > 0 ? W : width; };
    for (int k = i.points; k < i.points_end; ++k) {
      const V r = m.side_i == 0 ? points_[z(k)].r_A : -points_[z(k)].r_B;
      add(linear, v[0], r.z, on[1], -r.y, on[2]), next();
      add(linear, v[1], r.x, on[2], -r.z, on[0]), next();
      add(linear, v[2], r.y, on[0], -r.x, on[1]), next();
    }
    for (int k = i.axes; k < i.axes_end; ++k) {
      const Axis& axis = axes_[z(k)];
      const V &arm = m.side_i == 0 ? axis.c_A : axis.c_B, pull = -linear * axis.u;
      add(pull.x, v[0], pull.y, v[1], pull.z, v[2]);
      add(arm.x, on[0], arm.y, on[1], arm.z, on[2]), next();
    }
    for (int k = i.dots; k < i.dots_end; ++k) {
      const V n = normal(dots_[z(k)], m.side_i);
      add(n.x, on[0], n.y, on[1], n.z, on[2]), next();
    }
  }

  template <int W>
  [[gnu::always_inline]] static void add_row(Real* to, int count, const Real& a, const ByRow& A, const Real& b,
                                             const ByRow& B, const Real& c, const ByRow& C) {
    const auto one = [&](int k) { to[k] += a * A[z(k)] + (b * B[z(k)] + c * C[z(k)]); };
    if constexpr (W >= 4 && lanes == 1) {  // whole
      const auto four = [](const double* from) {
        Four x;
        std::memcpy(&x, from, sizeof x);
        return x;
      };
      const Four sum = four(to) + (a * four(A.data()) + (b * four(B.data()) + c * four(C.data())));
      std::memcpy(to, &sum, sizeof sum);
      if constexpr (W > 4) one(4);
      if constexpr (W > 5) one(5);
    } else {
      for (int k = 0; k < count; ++k) one(k);
    }
  }

  // twists_ ← from + M⁻¹Aᵀλ, body by body: what pulls at one is summed where it is at hand.
  void respond(const JointPattern& p, const Row<Real>& lambda, const Row<Twist>& from) {
    const int* end = p.body_ends.data();
    for (std::size_t i = 0; i < moving_; ++i) {
      const JointPattern::Ends &own = p.ends_of[i], &next = p.ends_of[i + 1];
      Twist f{};
      for (int k = own.points; k < own.axes; ++k, ++end) pull_at(points_[z(*end >> 1)], *end & 1, lambda, f);
      for (int k = own.axes; k < own.dots; ++k, ++end) pull_at(axes_[z(*end >> 1)], *end & 1, lambda, f);
      for (int k = own.dots; k < next.points; ++k, ++end) pull_at(dots_[z(*end >> 1)], *end & 1, lambda, f);
      twists_[i] = from[i] + moved(i, f);
    }
  }

  // What a row of a joint does to its body of a side.
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
  template <class Primitive, class X>
  static void add_pull(const Primitive& k, const Row<X>& lambda, Row<TwistOf<X>>& wrenches) {
    pull_at(k, 0, lambda, wrenches[z(k.a)]);
    pull_at(k, 1, lambda, wrenches[z(k.b)]);
  }

  // to ← A twists
  template <class X>
  void rates(const Row<TwistOf<X>>& twists, Row<X>& to) const {
    for (const Point& k : points_) write(to, k.row, rate(k, twists));
    for (const Axis& k : axes_) to[z(k.row)] = rate(k, twists);
    for (const Dot& k : dots_) to[z(k.row)] = rate(k, twists);
  }
  // M⁻¹ f of a body that moves.
  template <class X>
  TwistOf<X> moved(std::size_t i, const TwistOf<X>& f) const {
    return {masses_[i].inverse * f.v, times(masses_[i], f.w)};
  }

  // Where rows depend on each other, of the multipliers that do the same those of least norm (T6), which the
  // estimate of T15 needs, too.
  void least_norm(Row<Real>& lambda) {
    for (int lane = 0; lane < lanes; ++lane)
      if (welds_.loops())
        welds_.project(lambda.data(), lane);
      else if (!null_spaces_[z(lane)].empty())
        null_spaces_[z(lane)].project(lambda.data(), lane);
  }

  // What rows that depend on each other ask for need not agree: velocities a step begins with are off the constraints
  // by O(dt), and so are accelerations at them. As far as it does not they are met in the least squares (T6).
  void consent() {
    rest_ = x_;
    least_norm(rest_);
    for (std::size_t r = 0; r < x_.size(); ++r) bias_[r] -= x_[r] - rest_[r];
    std::swap(x_, rest_);
  }

  // The equation (T5), its residual looked at and, where it is more than rounding, taken out once.
  void answer(const JointPattern& p, Result& result) {
    if (redundant_) consent();
    solve(p, x_);
    std::swap(lambda_, x_);
    // Before they are looked at: what a null vector is wrong by is part of the residual, and taken out with it.
    if (redundant_) least_norm(lambda_);
    respond(p, lambda_, accelerations_);
    Real worst{}, probe{};
    for (const Point& k : points_) {
      const Twist &a = twists_[z(k.a)], &b = twists_[z(k.b)];
      const V e = read(bias_, k.row) - ((a.v + cross(a.w, k.r_A)) - (b.v + cross(b.w, k.r_B)));
      worst = larger(worst, largest(e));
      probe += 0 * (e.x + e.y + e.z);
      write(x_, k.row, e);
    }
    for (const Axis& k : axes_) {
      const Real e = bias_[z(k.row)] - rate(k, twists_);
      worst = larger(worst, magnitude(e));
      probe += 0 * e;
      x_[z(k.row)] = e;
    }
    for (const Dot& k : dots_) {
      const Real e = bias_[z(k.row)] - dot(k.n, twists_[z(k.a)].w - twists_[z(k.b)].w);
      worst = larger(worst, magnitude(e));
      probe += 0 * e;
      x_[z(k.row)] = e;
    }
    worst += probe;
    constexpr double rounding = 1e-7, smooth = 1e-13;
    for (int lane = 0; lane < lanes; ++lane)
      if (!(get(worst, lane) <= rounding * get(size_, lane))) refuse(result, lane, "the equation's residual");
    if (none(result)) return;
    Real rough{};
    bool any = false;
    for (int lane = 0; lane < lanes; ++lane) {
      if (result.of[z(lane)].refused || get(worst, lane) <= smooth * get(size_, lane)) continue;
      set(rough, lane, 1);
      any = true;
    }
    if (!any) return;
    solve(p, x_);
    for (std::size_t r = 0; r < x_.size(); ++r) lambda_[r] += rough * x_[r];
  }

  // Of a step that begins further off the velocity constraints than steps do.
  void activate(const JointPattern& p, std::span<const JointStep::Job> jobs, Result& result) {
    constexpr double rounding = 1e-13;
    const auto jumps = [&](std::size_t i) {
      const JointStep::Outcome& out = result.of[i];
      return !out.refused && out.off > 2 * jobs[i].usual_off && out.off > rounding * out.fastest;
    };
    bool any = false;
    for (std::size_t i = 0; i < jobs.size(); ++i) any = any || jumps(i);
    if (!any) return;
    x_ = velocity_;
    if (redundant_) least_norm(x_);
    solve(p, x_);
    Real energy{};
    for (std::size_t r = 0; r < x_.size(); ++r) energy += 0.5 * (x_[r] * velocity_[r]);
    for (std::size_t i = 0; i < jobs.size(); ++i)
      if (jumps(i)) result.of[i].activation = get(energy, static_cast<int>(i));
  }

  // Newton from newton_ to the step's end on the constraints (T12), by the factor at its start.
  void close(const JointPattern& p, const JointStep::Limits& limits, Result& result) {
    constexpr double round_off = 1e-12;
    const double dt = limits.dt;
    Real left{};
    for (int lane = 0; lane < lanes; ++lane)
      if (get(gap_, lane) > round_off) set(left, lane, limits.left_open);
    for (std::size_t r = 0; r < lambda_.size(); ++r) total_[r] = dt * lambda_[r] + newton_[r];
    Real going = Lanes<Real>::all(1), best = Lanes<Real>::all(std::numeric_limits<double>::max());
    for (int lane = 0; lane < lanes; ++lane)
      if (result.of[z(lane)].refused) set(going, lane, 0);
    constexpr int most_stalls = 3;
    std::array<int, std::size_t{lanes}> stalled{};
    Real turns{};  // one in lanes where chords leave more than a tenth
    secants_.begin();
    begin_turning();
    for (int solves = 0;; ++solves) {
      respond(p, total_, free_);
      turn();
      const Real worst = look(dt, left);
      bool any = false, stalls = false;
      for (int lane = 0; lane < lanes; ++lane) {
        if (get(going, lane) == 0) continue;
        const double now = get(worst, lane);
        result.of[z(lane)].residual = now;
        // Poses far out are no better than their own rounding.
        if (now <= std::max(limits.newton_tolerance, 4 * std::numeric_limits<double>::epsilon() * get(extent_, lane))) {
          set(going, lane, 0);
          result.of[z(lane)].solves = solves;
        } else if (!(now < std::numeric_limits<double>::infinity()) || solves == limits.max_solves) {
          set(going, lane, 0);
          refuse(result, lane, "Newton does not end");
        } else {
          if (solves > 0 && now > 0.1 * get(best, lane)) set(turns, lane, 1);
          stalls = stalls || now > 0.5 * get(best, lane);
          any = true;
        }
      }
      if (!any) return;
      if (stalls) {
        const Real beyond = beyond_rounding();
        for (int lane = 0; lane < lanes; ++lane) {
          if (get(going, lane) == 0 || !(get(worst, lane) > 0.5 * get(best, lane))) continue;
          const bool rounding = get(beyond, lane) <= 1;
          if (!rounding && ++stalled[z(lane)] < most_stalls && get(worst, lane) < 10 * get(best, lane)) continue;
          set(going, lane, 0);
          result.of[z(lane)].solves = solves;
          if (!rounding) refuse(result, lane, "Newton does not contract");
        }
      }
      best = smaller(best, worst);
      const Real scale = (-1 / dt) * going;
      for (Real& x : x_) x *= scale;
      secants_.reduce(x_, turns);
      solve(p, x_);
      const Row<Real>& step = secants_.lengthen(x_);
      for (std::size_t r = 0; r < step.size(); ++r) {
        newton_[r] += step[r];
        total_[r] += step[r];
      }
    }
  }

  void begin_turning() {
    for (Turning& t : turning_) {
      const Frame& R = frames_[t.body];
      take(bodies_[t.body].inertia, t.lane, t.I.data());
      take(start_[t.body].w, t.lane, t.w0.data());
      double* const to = t.R.data();  // by columns
      for (int i = 0; i < 3; ++i) {
        const V& row = i == 0 ? R.x : i == 1 ? R.y : R.z;
        to[i] = get(row.x, t.lane), to[i + 3] = get(row.y, t.lane), to[i + 6] = get(row.z, t.lane);
      }
    }
  }

  // In twists_, what their own spin does to bodies that turn far.
  void turn() {
    for (Turning& t : turning_) {
      V& w = twists_[t.body].w;
      take(w, t.lane, t.w.data());
      t.turn();
      put(w, t.lane, t.w.data());
    }
  }

  // φ at the end of the step by row, less what is to be left of the start's, into x_. @return the largest, infinity
  // where one is no number
  Real look(double dt, const Real& left) {
    for (std::size_t i = 0; i < moving_; ++i) {
      Turn& t = turns_[i];
      t.moved = dt * twists_[i].v;
      t.turn = dt * twists_[i].w;
      turn_factors(dot(t.turn, t.turn), t.sine, t.versine);
    }
    const auto added = [&](int body, const V& r) -> V {
      const Turn& t = turns_[z(body)];
      const V across = cross(t.turn, r);
      return t.sine * across + t.versine * cross(t.turn, across);
    };
    Real worst{}, probe{};
    for (const Point& k : points_) {
      const V gap = k.phi + ((turns_[z(k.a)].moved - turns_[z(k.b)].moved) + (added(k.a, k.r_A) - added(k.b, k.r_B)));
      const V off = gap - left * k.phi;
      worst = larger(worst, largest(off));
      probe += 0 * (gap.x + gap.y + gap.z);
      write(x_, k.row, off);
    }
    for (const Axis& k : axes_) {  // (u + Δu) · (d + Δd) − d0
      const V du = added(k.a, k.u);
      const V dd = (turns_[z(k.b)].moved - turns_[z(k.a)].moved) + (added(k.b, k.r_B) - added(k.a, k.r_A));
      const Real phi = k.phi + (dot(du, k.d) + dot(k.u + du, dd)), off = phi - left * k.phi;
      worst = larger(worst, magnitude(off));
      probe += 0 * phi;
      x_[z(k.row)] = off;
    }
    for (const Dot& k : dots_) {
      const Real phi = dot(k.u + added(k.a, k.u), k.w + added(k.b, k.w)) - k.c - left * k.phi;
      worst = larger(worst, magnitude(phi));
      probe += 0 * phi;
      x_[z(k.row)] = phi;
    }
    return worst + probe;
  }

  // The residual in x_ over what the rounding of poses explains, at most.
  Real beyond_rounding() const {
    constexpr double unit = 32 * std::numeric_limits<double>::epsilon();
    Real most{};
    for (const Point& k : points_) {
      const Real poses = largest(bodies_[z(k.a)].p) + largest(bodies_[z(k.b)].p);
      const V a = absolute(k.r_A), b = absolute(k.r_B), gap = absolute(read(x_, k.row));
      most = larger(most, larger(gap.x / (unit * (poses + (a.y + a.z) + (b.y + b.z))),
                                 larger(gap.y / (unit * (poses + (a.x + a.z) + (b.x + b.z))),
                                        gap.z / (unit * (poses + (a.x + a.y) + (b.x + b.y))))));
    }
    for (const Axis& k : axes_) {
      const Real poses = largest(bodies_[z(k.a)].p) + largest(bodies_[z(k.b)].p);
      const V u = absolute(k.u), a = absolute(k.c_A), b = absolute(k.c_B);
      most = larger(
          most, magnitude(x_[z(k.row)]) / (unit * ((u.x + u.y + u.z) * poses + (a.x + a.y + a.z) + (b.x + b.y + b.z))));
    }
    for (const Dot& k : dots_) {
      const V n = absolute(k.n);
      most = larger(most, magnitude(x_[z(k.row)]) / (unit * 2 * (n.x + n.y + n.z)));
    }
    return most;
  }

  // Mean velocities of the rows into x_, the work done with them, and how fast the tension makes bodies swing (T15).
  void judge(const JointStep::Limits& limits, Result& result) {
    std::fill(bounds_.begin(), bounds_.end(), Real{});
    Real gain{}, probe{};
    for (std::size_t i = 0; i < points_.size(); ++i) {
      const Point& k = points_[i];
      const Twist &a = twists_[z(k.a)], &b = twists_[z(k.b)];
      const V mean = 0.5 * (read(velocity_, k.row) + ((a.v + cross(a.w, k.r_A)) - (b.v + cross(b.w, k.r_B))));
      const V p = read(total_, k.row);
      gain += dot(p, mean);
      const Real force = root(dot(p, p));
      bounds_[z(k.a)] += force * point_places_[i].arm_A;
      bounds_[z(k.b)] += force * point_places_[i].arm_B;
      write(x_, k.row, mean);
    }
    for (const Axis& k : axes_) {
      const Real mean = 0.5 * (velocity_[z(k.row)] + rate(k, twists_));
      const Real p = total_[z(k.row)], force = magnitude(p);
      const V r_A = k.r_A + k.d;
      gain += p * mean;
      bounds_[z(k.a)] += force * root(dot(r_A, r_A));
      bounds_[z(k.b)] += force * root(dot(k.r_B, k.r_B));
      x_[z(k.row)] = mean;
    }
    for (const Dot& k : dots_) {
      const Real mean = 0.5 * (velocity_[z(k.row)] + dot(k.n, twists_[z(k.a)].w - twists_[z(k.b)].w));
      gain += total_[z(k.row)] * mean;
      x_[z(k.row)] = mean;
    }
    Real most{}, energy{};
    for (std::size_t i = 0; i < moving_; ++i) {
      const Body& b = bodies_[i];
      const Twist& u = twists_[i];
      const Frame& R = frames_[i];
      const V w{R.x.x * u.w.x + R.y.x * u.w.y + R.z.x * u.w.z, R.x.y * u.w.x + R.y.y * u.w.y + R.z.y * u.w.z,
                R.x.z * u.w.x + R.y.z * u.w.y + R.z.z * u.w.z};
      energy += 0.5 * (b.mass * dot(u.v, u.v) + dot(scaled(b.inertia, w), w));
      const Real bound = bounds_[i] / b.least_inertia;
      most = larger(most, bound);
      probe += 0 * (bound + dot(twists_[i].v, twists_[i].w));
    }
    bool fast = false;
    for (int lane = 0; lane < lanes; ++lane) {
      JointStep::Outcome& out = result.of[z(lane)];
      out.gain = get(gain, lane);
      out.energy = get(energy, lane);
      out.swing = std::sqrt(get(most, lane) * limits.dt);  // ω² dt² with impulses, which are dt times forces
      if (get(probe, lane) != 0) refuse(result, lane, "numbers that are not finite");
      fast = fast || (!out.refused && !(out.swing <= limits.enough));
    }
    if (!fast) return;
    stiffen();
    for (int lane = 0; lane < lanes; ++lane) {
      JointStep::Outcome& out = result.of[z(lane)];
      if (out.refused || out.swing <= limits.enough) continue;
      out.swing = swing(limits.dt, lane);
      if (!(out.swing <= limits.swing)) refuse(result, lane, "too long a step");
    }
  }

  // J Rᵀ K R J of every body, K the geometric stiffness of T15 from impulses and J² the inverse inertia in the body's
  // axes: its eigenvalues are ω² dt.
  void stiffen() {
    std::fill(stiffness_.begin(), stiffness_.end(), Mass{});
    const auto add = [&](int body, const V& r, const V& f) {
      Mass& K = stiffness_[z(body)];
      const Real along = dot(r, f);
      K.xx += along - r.x * f.x, K.yy += along - r.y * f.y, K.zz += along - r.z * f.z;
      K.xy -= 0.5 * (r.x * f.y + r.y * f.x), K.xz -= 0.5 * (r.x * f.z + r.z * f.x);
      K.yz -= 0.5 * (r.y * f.z + r.z * f.y);
    };
    for (const Point& k : points_) {
      const V p = read(total_, k.row);
      add(k.a, k.r_A, p);
      add(k.b, k.r_B, -p);
    }
    for (const Axis& k : axes_) {
      const V p = total_[z(k.row)] * k.u;
      add(k.a, k.r_A + k.d, -p);
      add(k.b, k.r_B, p);
    }
    for (std::size_t i = 0; i < moving_; ++i) {
      Mass& K = stiffness_[i];
      const Frame& R = frames_[i];
      const V& inverse = bodies_[i].inverse_inertia;
      const V x = root(inverse.x) * V{R.x.x, R.y.x, R.z.x}, y = root(inverse.y) * V{R.x.y, R.y.y, R.z.y},
              z = root(inverse.z) * V{R.x.z, R.y.z, R.z.z};  // the body's axes (W)
      const V Kx = times(K, x), Ky = times(K, y), Kz = times(K, z);
      K = {K.inverse, dot(x, Kx), dot(y, Ky), dot(z, Kz), dot(x, Ky), dot(x, Kz), dot(y, Kz)};
      bounds_[i] = mean_of(K) + 2 * spread_of(K);
    }
  }

  // A symmetric K has eigenvalues m + 2p cos θ with θ, θ ± 2π/3: m their mean, 6p² the squares of K − m1 summed.
  static Real mean_of(const Mass& K) { return (1. / 3) * (K.xx + K.yy + K.zz); }
  static Real spread_of(const Mass& K) {
    const Real m = mean_of(K), x = K.xx - m, y = K.yy - m, z = K.zz - m;
    return root((1. / 6) * (x * x + y * y + z * z + 2 * (K.xy * K.xy + K.xz * K.xz + K.yz * K.yz)));
  }

  // The largest ω dt of a lane, to half the digits at least. What bounds an eigenvalue tells of most that they are not.
  double swing(double dt, int lane) const {
    std::size_t widest = 0;
    for (std::size_t i = 0; i < moving_; ++i)
      if (!(get(bounds_[i], lane) <= get(bounds_[widest], lane))) widest = i;
    if (!std::isfinite(get(bounds_[widest], lane))) return std::numeric_limits<double>::infinity();
    double most = 0;
    const auto look = [&](std::size_t i) {
      if (!(get(bounds_[i], lane) > most)) return;
      const Mass& K = stiffness_[i];
      const double m = get(mean_of(K), lane), p = get(spread_of(K), lane);
      if (!(p > 0)) {
        most = std::max(most, m);
        return;
      }
      const double c = (most - m) / (2 * p);  // cos θ, no less than ½, if this were what is there already
      const double x = (get(K.xx, lane) - m) / p, y = (get(K.yy, lane) - m) / p, z = (get(K.zz, lane) - m) / p;
      const double xy = get(K.xy, lane) / p, xz = get(K.xz, lane) / p, yz = get(K.yz, lane) / p;
      const double det = x * (y * z - yz * yz) - xy * (xy * z - yz * xz) + xz * (xy * yz - y * xz);
      const double cosine = std::clamp(0.5 * det, -1.0, 1.0);  // of 3θ, 4 cos³ θ − 3 cos θ
      if (c >= 0.5 && c * (4 * c * c - 3) >= cosine) return;
      most = std::max(most, m + 2 * p * std::cos(std::acos(cosine) / 3));
    };
    look(widest);
    for (std::size_t i = 0; i < moving_; ++i)
      if (i != widest) look(i);
    return std::sqrt(most * dt);
  }

  template <class X>
  static V3<X> read(const Row<X>& from, int row) {
    return {from[z(row)], from[z(row + 1)], from[z(row + 2)]};
  }
  template <class X>
  static void write(Row<X>& to, int row, const V3<X>& u) {
    to[z(row)] = u.x, to[z(row + 1)] = u.y, to[z(row + 2)] = u.z;
  }

  std::size_t moving_ = 0;  // bodies that do, before those that do not
  Row<Body> bodies_;
  Row<Frame> frames_;
  Row<Mass> masses_;
  Row<Mass> stiffness_;
  Row<Twist> start_, free_, accelerations_, twists_;
  Row<Turn> turns_;
  std::vector<Turning> turning_;  // by lane
  Row<Real> bounds_;
  Row<Point> points_;
  Row<PointPlace> point_places_;
  Row<Axis> axes_;
  Row<Dot> dots_;
  Row<Real> bias_, velocity_, x_, lambda_, newton_, total_;
  JointFactor<Real> factor_;
  JointSecants<Real> secants_;
  JointWelds<Real> welds_;
  Row<Real> target_;   // rates of the rows that a host's own are to leave
  Row<Twist> lifted_;  // of welds, the twists of those
  Row<Four> ways_;     // right-hand sides of move()
  Row<TwistOf<Four>> way_free_, way_wrenches_;
  std::vector<int> aimed_, aimed_nodes_;                     // see aim(): its bodies, and the nodes of a solve in order
  std::vector<int> aimed_points_, aimed_axes_, aimed_dots_;  // of joints on its bodies
  std::vector<int> beside_, between_;                        // bodies that those pull at; rows of the other nodes
  std::vector<char> is_aimed_, reached_;                     // by body, by node
  std::array<JointNullSpace, std::size_t{lanes}> null_spaces_;
  bool redundant_ = false;  // in a lane
  Row<Real> rest_;
  std::array<unsigned long, std::size_t{lanes}> held_{};  // versions of the blocks whose numbers are there
  Real gap_{}, off_{}, fastest_{}, kinetic_{}, size_{}, extent_{};
};

template <class Real>
class JointLanes final : public JointWork {
 public:
  explicit JointLanes(const JointPattern& pattern) : pattern_(pattern) { kernel_.lay_out(pattern); }

  void take(const State& state, const JointStep::Limits& limits, std::span<JointStep::Job> jobs) override {
    for (int lane = 0; lane < JointKernel<Real>::lanes; ++lane) {  // lanes without a job of their own have the first's
      const JointStep::Job& job =
          jobs[static_cast<std::size_t>(lane) < jobs.size() ? static_cast<std::size_t>(lane) : 0];
      kernel_.take_block(lane, job.of->block(), state);
      kernel_.take_forces(lane, job.numbers.Q, job.numbers.applied);
      kernel_.take_turning(lane, job.numbers);
      kernel_.take_start(pattern_, lane, job.numbers.newton);
    }
    const auto result = kernel_.step(pattern_, limits, jobs);
    for (std::size_t i = 0; i < jobs.size(); ++i) kernel_.give(pattern_, static_cast<int>(i), result.of[i], jobs[i]);
  }

 private:
  const JointPattern& pattern_;
  JointKernel<Real> kernel_;
};

class JointTurnsOfOne final : public JointTurns {
 public:
  explicit JointTurnsOfOne(const JointPattern& pattern) : pattern_(pattern) { kernel_.lay_out(pattern); }

  const char* begin(const State& state, const JointBlock& block, double gap_tolerance) override {
    kernel_.take_block(0, block, state);
    return kernel_.begin(pattern_, gap_tolerance);
  }
  double reach(double dt, double tolerance, int most_solves, std::span<const double> applied, std::span<const double> Q,
               std::span<double> v) override {
    const double left = kernel_.reach(pattern_, dt, tolerance, most_solves, applied, Q);
    kernel_.give_velocities(0, v);
    return left;
  }
  void keep(double time, std::span<const double> applied, std::span<double> v) override {
    kernel_.keep(pattern_, time, applied);
    kernel_.give_velocities(0, v);
  }
  void hold(std::span<double> v) override {
    kernel_.hold(pattern_, v);
    kernel_.give_velocities(0, v);
  }
  bool as_one(JointStep::One& to) const override { return pattern_.welds && kernel_.as_one(to); }
  void aim(std::span<const int> bodies) override { kernel_.aim(pattern_, bodies); }
  void move(std::span<const JointStep::Push> pushes, double* to) override { kernel_.move(pattern_, pushes, to); }
  void end(const JointStep::Limits& limits, JointStep::Job& job) override {
    kernel_.give(pattern_, 0, kernel_.end(pattern_, limits, {&job, 1}).of[0], job);
  }

 private:
  const JointPattern& pattern_;
  JointKernel<double> kernel_;
};

}  // namespace LINCHPIN_LANES
}  // namespace linchpin::detail
