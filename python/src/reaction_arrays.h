// Reactions, wrenches and forces of joints as arrays. linchpin/reactions.py gives names to the fields.
#pragma once

#include "arrays.h"

#include <linchpin/articulated.h>
#include <linchpin/report.h>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

namespace linchpin::python {

/// Force, moment and point.
inline nanobind::tuple tuple_of(const Wrench& w) {
  return nanobind::make_tuple(new_vector(w.force), new_vector(w.moment), new_vector(w.point));
}

/// Forces along the coordinates of a joint, by cause [N or N·m].
inline nanobind::dict dict_of(const articulated::JointForces& f) {
  nanobind::dict out;
  out["gravity"] = new_vector(f.gravity), out["velocity"] = new_vector(f.velocity);
  out["damping"] = new_vector(f.damping), out["applied"] = new_vector(f.applied);
  out["constraint"] = new_vector(f.constraint), out["contact"] = new_vector(f.contact);
  out["friction"] = new_vector(f.friction), out["laws"] = new_vector(f.laws);
  out["native"] = new_vector(f.native), out["inertia"] = new_vector(f.inertia);
  return out;
}

/// The reaction of one constraint as a row of a structured array. linchpin/reactions.py names the fields.
struct ReactionRow {
  double t, force[3], moment[3], point[3], force_b[3], moment_b[3], point_b[3], ideal_force[3], ideal_moment[3],
      nonideal_force[3], nonideal_moment[3], stabilisation_force[3], stabilisation_moment[3], power, work, gap,
      gap_angle, residual, velocity_residual;
  std::uint8_t determined, redundant, native, unused[5];
};

inline void put(double (&to)[3], const Vector3d& v) { std::copy_n(v.data(), 3, to); }

inline ReactionRow row_of(const Reaction& r) {
  ReactionRow row{};
  row.t = r.t;
  put(row.force, r.on_a.force), put(row.moment, r.on_a.moment), put(row.point, r.on_a.point);
  put(row.force_b, r.on_b.force), put(row.moment_b, r.on_b.moment), put(row.point_b, r.on_b.point);
  put(row.ideal_force, r.ideal.on_a.force + r.induced.on_a.force);
  put(row.ideal_moment, r.ideal.on_a.moment + r.induced.on_a.moment);
  put(row.nonideal_force, r.prescribed.on_a.force), put(row.nonideal_moment, r.prescribed.on_a.moment);
  put(row.stabilisation_force, r.stabilisation.on_a.force);
  put(row.stabilisation_moment, r.stabilisation.on_a.moment);
  row.power = r.power, row.work = r.work, row.gap = r.gap, row.gap_angle = r.gap_angle;
  row.residual = r.residual, row.velocity_residual = r.velocity_residual;
  row.determined = r.determined, row.redundant = r.redundant, row.native = r.native;
  return row;
}

/// Names, rows and multipliers of all reactions.
inline nanobind::tuple arrays_of(std::span<const Reaction> all) {
  namespace nb = nanobind;
  auto memory = std::make_unique<ReactionRow[]>(all.size() + 1);
  nb::list names, multipliers;
  for (std::size_t i = 0; i < all.size(); ++i) {
    memory[i] = row_of(all[i]);
    names.append(all[i].name);
    multipliers.append(new_vector(all[i].lambda));
  }
  const nb::capsule owner(memory.get(), [](void* p) noexcept { delete[] static_cast<ReactionRow*>(p); });
  const nb::ndarray<nb::numpy, std::uint8_t> bytes(memory.release(), {all.size(), sizeof(ReactionRow)}, owner);
  return nb::make_tuple(names, bytes, multipliers);
}

}  // namespace linchpin::python
