// The bodies and the rows of an island, or of several islands of one topology side by side in the lanes of Real.
// It has their data, and products of A and Aᵀ with twists and multipliers. Rows stand in the order in which the factor
// eliminates their joints, so that each pass reads memory from front to back.
#pragma once

#include "joint_kernel/dispatch.h"
#include "joint_kernel/symbolic.h"
#include "math/simd.h"
#include "model/primitives/list.h"

#include <array>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

namespace linchpin::detail {
inline namespace LINCHPIN_SIMD {

/// The value of a primitive's rows in a vector by row: one number, or three as a vector.
template <class P, class X>
auto load_rows(const AlignedVector<X>& from, int row) {
  const X* const first = from.data() + row;
  if constexpr (P::rows == 1)
    return *first;
  else
    return Vector3<X>{first[0], first[1], first[2]};
}
template <class X>
void store_rows(AlignedVector<X>& to, int row, const X& value) {
  to[static_cast<std::size_t>(row)] = value;
}
template <class X>
void store_rows(AlignedVector<X>& to, int row, const Vector3<X>& value) {
  X* const first = to.data() + row;
  first[0] = value.x, first[1] = value.y, first[2] = value.z;
}

/// A symmetric matrix. Its columns are in the four numbers from xx and the four from xz.
template <class X>
struct Symmetric3 {
  X xx, xy, xz, yy, yz, zz;
  template <class Y>
  auto operator*(const Vector3<Y>& u) const -> Vector3<std::decay_t<decltype(xx * u.x)>> {
    return {xx * u.x + xy * u.y + xz * u.z, xy * u.x + yy * u.y + yz * u.z, xz * u.x + yz * u.y + zz * u.z};
  }
};

/// M⁻¹ of a body: one over its mass, and R I⁻¹ Rᵀ (W).
template <class X>
struct InverseMass {
  X linear;
  Symmetric3<X> angular;
  template <class Y>
  SpatialVector<Y> operator*(const SpatialVector<Y>& wrench) const {
    return {linear * wrench.v, angular * wrench.w};
  }
};

template <class Real>
struct KernelRows {
  static constexpr int lanes = SimdTraits<Real>::count;
  using V = Vector3<Real>;
  using Twist = SpatialVector<Real>;

  struct Body {
    V p;
    Real qx, qy, qz, qw;
    Real mass, least_inertia;
    V inertia, inverse_inertia;  // along the principal axes, which are those of the body
  };
  /// A primitive of a joint: its bodies, its first row, and its quantities at the start of the step. Passes over the
  /// rows of long chains leave the cache, so that nothing is here that they do without.
  struct BodiesAndRow {
    int a, b, row;
  };
  /// K times the angular parts of a row, by side. Three rows of a point are cheaper to compute than to keep.
  struct WeightedRow {
    std::array<V, 2> weighted;
  };
  struct NotKept {};
  template <class P>
  struct Row : P::template Start<V>, BodiesAndRow, std::conditional_t<P::rows == 1, WeightedRow, NotKept> {};
  template <class P>
  using RowList = AlignedVector<Row<P>>;
  template <class P>
  using GeometryList = AlignedVector<typename P::template Geometry<V>>;

  std::size_t moving = 0;  // bodies that move; they come before those that do not
  AlignedVector<Body> bodies;
  AlignedVector<Rotation3<Real>> rotations;
  AlignedVector<InverseMass<Real>> inverse_masses;
  AlignedVector<Twist> start;  // velocities
  PrimitiveLists<RowList> rows;
  PrimitiveLists<GeometryList> geometry;
  AlignedVector<Real> biases, velocities;  // b of A v̇ = b, and φ̇, by row, at the start
  AlignedVector<Real> stiffness, damping;  // by compliant row

  void lay_out(const SymbolicFactor& p) {
    bodies.assign(z(p.all_bodies), Body{});
    rotations.resize(bodies.size());
    inverse_masses.assign(bodies.size(), InverseMass<Real>{});
    start.assign(bodies.size(), Twist{});
    for (auto* x : {&biases, &velocities}) x->assign(z(p.rows), Real{});
    for (auto* x : {&stiffness, &damping}) x->assign(p.compliant.size(), Real{});
    moving = z(p.bodies);
    for_each_primitive([&]<class P>(P) {
      rows.template of<P>().resize(p.primitives[index_of<P>()].size());
      geometry.template of<P>().resize(p.primitives[index_of<P>()].size());
    });
    for (const SymbolicFactor::Node& node : p.nodes) {
      int row = node.first;
      for_each_primitive([&]<class P>(P) {
        for_each_of<P>(node.primitives, [&](std::size_t k) {
          static_cast<BodiesAndRow&>(rows.template of<P>()[k]) = {node.a, node.b, row};
          row += P::rows;
        });
      });
    }
  }

  /// Reads an island into a lane. Geometry and masses are read only where the lane held those of another island.
  void read_island(int lane, const JointIslandData& island, const State& state) {
    if (std::exchange(versions_[z(lane)], island.version) != island.version) {
      read_geometry(lane, island.geometry.data());
      read_masses(lane, island.masses);
      for (std::size_t i = 0; i < stiffness.size(); ++i) {
        set_lane(stiffness[i], lane, island.springs[i].stiffness);
        set_lane(damping[i], lane, island.springs[i].damping);
      }
    }
    for (std::size_t i = 0; i < island.bodies.size(); ++i) read_body(i, lane, state[island.bodies[i]]);
  }

  /// Calls visit(row) for all rows, primitive after primitive. @tparam visit  templated on the primitive
  template <class Visit>
  [[gnu::always_inline]] void for_each_row(const Visit& visit) const {
    for_each_primitive([&]<class P>(P) {
      for (const Row<P>& k : rows.template of<P>()) visit(P(), k);
    });
  }

  /// A times the twists of the bodies, of the rows of one primitive.
  template <class P, class X>
  static auto rate(const Row<P>& k, const AlignedVector<SpatialVector<X>>& twists) {
    return P::rate(k, twists[z(k.a)], twists[z(k.b)]);
  }
  /// to ← A twists
  void rates(const AlignedVector<Twist>& twists, AlignedVector<Real>& to) const {
    for_each_row([&]<class P>(P, const Row<P>& k) { store_rows(to, k.row, rate(k, twists)); });
  }

  /// to ← from + M⁻¹Aᵀλ, body by body: the constraint forces on one are summed where it is at hand.
  void add_response(const SymbolicFactor& p, const AlignedVector<Real>& lambda, const AlignedVector<Twist>& from,
                    AlignedVector<Twist>& to) const {
    for (std::size_t i = 0; i < moving; ++i) add_response(p, i, lambda.data(), from, to);
  }

  static std::size_t z(int i) { return static_cast<std::size_t>(i); }

 private:
  [[gnu::always_inline]] void add_response(const SymbolicFactor& p, std::size_t i, const Real* lambda,
                                           const AlignedVector<Twist>& from, AlignedVector<Twist>& to) const {
    const int* end = p.body_ends.data() + p.ends_of[i][0];
    const int* const last = end + (p.ends_of[i + 1][0] - p.ends_of[i][0]);
    std::conditional_t<lanes == 1, PackedSpatialVector, Twist> f{};
    add_forces<0>(p.ends_of[i], end, last, lambda, f);
    if constexpr (lanes == 1) {
      const InverseMass<Real>& K = inverse_masses[i];
      const Vec4d a = load3(K.angular.xx), b = load3(K.angular.xz);
      const Vec4d x = a, y{a[1], b[1], b[2], 0}, z{b[0], b[2], b[3], 0};  // the columns of K
      const Twist& u = from[i];
      const V v = first3(load3(u.v.x) + K.linear * f.v.of);
      to[i] = {v, first3(load3(u.w.x) + (x * f.w.of[0] + y * f.w.of[1] + z * f.w.of[2]))};
    } else {
      to[i] = from[i] + inverse_masses[i] * f;
    }
  }
  // The forces of the primitives from the i-th on, at one body, whose ends begin at those places.
  template <std::size_t i, class Wrench>
  [[gnu::always_inline]] void add_forces(const PrimitiveIndices& begin, const int* end, const int* last,
                                         const Real* lambda, Wrench& on) const {
    using P = std::tuple_element_t<i, Primitives>;
    const RowList<P>& list = rows.template of<P>();
    const int* stop = last;
    if constexpr (i + 1 < primitive_count) stop = end + (begin[i + 1] - begin[i]);
    for (; end != stop; ++end) {
      const Row<P>& k = list[z(*end >> 1)];
      P::add_constraint_force(k, lambda + k.row, *end & 1, on);
    }
    if constexpr (i + 1 < primitive_count)
      if (end != last) add_forces<i + 1>(begin, end, last, lambda, on);
  }

  void read_geometry(int lane, const double* from) {
    for_each_primitive([&]<class P>(P) {
      for (auto& k : geometry.template of<P>())
        std::apply([&](auto... member) { (read_member(k.*member, lane, from), ...); },
                   std::decay_t<decltype(k)>::members());
    });
  }
  static void read_member(V& to, int lane, const double*& from) { set_lane(to, lane, from), from += 3; }
  static void read_member(Real& to, int lane, const double*& from) { set_lane(to, lane, *from++); }

  void read_masses(int lane, std::span<const JointIslandData::Mass> of) {
    for (std::size_t i = 0; i < moving; ++i) {
      Body& body = bodies[i];
      set_lane(body.mass, lane, of[i].mass);
      set_lane(inverse_masses[i].linear, lane, of[i].inverse_mass);
      set_lane(body.least_inertia, lane, of[i].least_inertia);
      set_lane(body.inertia, lane, of[i].inertia.data());
      set_lane(body.inverse_inertia, lane, of[i].inverse_inertia.data());
    }
  }

  void read_body(std::size_t i, int lane, const BodyState& s) {
    Body& body = bodies[i];
    set_lane(body.p, lane, s.p.data());
    set_lane(body.qx, lane, s.q.x()), set_lane(body.qy, lane, s.q.y());
    set_lane(body.qz, lane, s.q.z()), set_lane(body.qw, lane, s.q.w());
    if (i >= moving) return;
    set_lane(start[i].v, lane, s.v.data());
    set_lane(start[i].w, lane, s.w.data());
  }

  std::array<unsigned long, std::size_t{lanes}> versions_{};  // of the islands whose numbers are there
};

}  // namespace LINCHPIN_SIMD
}  // namespace linchpin::detail
