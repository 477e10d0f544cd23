// Forces of MuJoCo on places of bodies: of spatial tendons, of actuators on sites, of gravity compensation, of
// contacts, and of equalities between bodies that stay with MuJoCo. MuJoCo sums most of them along its coordinates. The
// load of a joint depends on where they act.
#include "model_binding.h"
#include "versions.h"

#include <algorithm>
#include <cmath>

namespace linchpin::mujoco {

namespace {

bool is_spatial(const mjModel& m, int tendon) { return m.wrap_type[m.tendon_adr[tendon]] != mjWRAP_JOINT; }

void add_at(std::vector<Wrench>& on, const mjData& d, int body, const Vector3d& force, const Vector3d& moment,
            const Vector3d& at) {
  Wrench& to = on[z(body)];
  to.force += force;
  to.moment += moment + (at - vector3(d.xipos + 3 * body)).cross(force);
}

/// Calls push(body, place, force) for the forces by which a spatial tendon acts on the bodies along its path.
/// @param push_apart  the force along the tendon that lengthens it [N]
template <class Push>
void each_force_of_tendon(const mjModel& m, const mjData& d, int tendon, double push_apart, Push push) {
  int object = m.tendon_adr[tendon], last_body = -1;
  double divisor = 1;
  Vector3d last = Vector3d::Zero();
  for (int k = d.ten_wrapadr[tendon]; k < d.ten_wrapadr[tendon] + d.ten_wrapnum[tendon]; ++k) {
    const int geom = d.wrap_obj[k];
    if (geom < 0)  // a site or a pulley: the next one of the path
      while (m.wrap_type[object] != mjWRAP_SITE && m.wrap_type[object] != mjWRAP_PULLEY) ++object;
    if (geom < 0 && m.wrap_type[object] == mjWRAP_PULLEY) {
      divisor = m.wrap_prm[object++];
      last_body = -1;
      continue;
    }
    const int body = geom >= 0 ? m.geom_bodyid[geom] : m.site_bodyid[m.wrap_objid[object++]];
    const Vector3d at = vector3(d.wrap_xpos + 3 * k);
    if (const double length = (at - last).norm(); last_body >= 0 && length > 0) {
      const Vector3d force = push_apart / divisor / length * (at - last);
      push(last_body, last, Vector3d(-force));
      push(body, at, force);
    }
    last_body = body;
    last = at;
  }
}

/// Returns whether a joint that carries a body takes its gravity compensation as the force of an actuator.
bool is_compensated_by_actuators(const mjModel& m, int body) {
  for (; body > 0; body = m.body_parentid[body])
    for (int j = m.body_jntadr[body]; j < m.body_jntadr[body] + m.body_jntnum[body]; ++j)
      if (has_actuated_compensation(m, j)) return true;
  return false;
}

}  // namespace

/// Finds which of the smooth forces act on places of bodies, and what these are along the coordinates.
void ModelBinding::find_forces_on_bodies() {
  std::fill(placed_wrenches_.begin(), placed_wrenches_.end(), Wrench{});
  std::fill(placed_forces_.begin(), placed_forces_.end(), 0.0);
  const Vector3d g = gravity();
  for (int i = 1; i < m_.nbody; ++i)
    if (const double share = compensation(m_, i); share != 0 && !is_compensated_by_actuators(m_, i))
      place_force(i, vector3(d_.xipos + 3 * i), -share * m_.body_mass[i] * g, Vector3d::Zero());
  for (int t = 0; t < m_.ntendon; ++t) {
    if (!is_spatial(m_, t)) continue;
    double force = passive_force(m_, d_, t);
    each_actuator_output(m_, [&](int actuator, int output) {
      if (m_.actuator_trntype[actuator] == mjTRN_TENDON && m_.actuator_trnid[2 * actuator] == t)
        force += m_.actuator_gear[6 * output] * d_.actuator_force[output];
    });
    if (force == 0) continue;
    each_force_of_tendon(m_, d_, t, force, [&](int body, const Vector3d& at, const Vector3d& f) {
      place_force(body, at, f, Vector3d::Zero());
    });
  }
  each_actuator_output(m_, [&](int actuator, int output) {
    const double size = d_.actuator_force[output];
    if (m_.actuator_trntype[actuator] != mjTRN_SITE || size == 0) return;
    const int site = m_.actuator_trnid[2 * actuator], reference = m_.actuator_trnid[2 * actuator + 1];
    const Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>> axes(d_.site_xmat +
                                                                              9 * (reference >= 0 ? reference : site));
    const Vector3d force = size * (axes * vector3(m_.actuator_gear + 6 * output)),
                   moment = size * (axes * vector3(m_.actuator_gear + 6 * output + 3));
    place_force(m_.site_bodyid[site], vector3(d_.site_xpos + 3 * site), force, moment);
    if (reference >= 0) place_force(m_.site_bodyid[reference], vector3(d_.site_xpos + 3 * reference), -force, -moment);
  });
}

void ModelBinding::place_force(int body, const Vector3d& at, const Vector3d& force, const Vector3d& moment) {
  add_at(placed_wrenches_, d_, body, force, moment, at);
  mj_applyFT(&view_, &d_, force.data(), moment.data(), at.data(), body, placed_forces_.data());
}

/// Finds the forces of MuJoCo's rows on the bodies, about their centres of mass, where they act on places of them.
void ModelBinding::find_row_wrenches() {
  std::fill(row_wrenches_.begin(), row_wrenches_.end(), Wrench{});
  add_contact_wrenches();
  for (std::size_t r = 0; r < other_rows_.size(); ++r) {
    const int row = other_rows_[r], type = d_.efc_type[row], id = d_.efc_id[row];
    if (type == mjCNSTR_EQUALITY &&
        (r == 0 || d_.efc_type[other_rows_[r - 1]] != type || d_.efc_id[other_rows_[r - 1]] != id))
      add_equality_wrenches(id, d_.efc_force + row);
    if ((type != mjCNSTR_LIMIT_TENDON && type != mjCNSTR_FRICTION_TENDON) || !is_spatial(m_, id)) continue;
    const double to_lower = d_.ten_length[id] - m_.tendon_range[2 * id],
                 to_upper = m_.tendon_range[2 * id + 1] - d_.ten_length[id];
    const bool is_upper =
        type == mjCNSTR_LIMIT_TENDON && std::abs(d_.efc_pos[row] - to_upper) < std::abs(d_.efc_pos[row] - to_lower);
    each_force_of_tendon(m_, d_, id, is_upper ? -d_.efc_force[row] : d_.efc_force[row],
                         [&](int body, const Vector3d& at, const Vector3d& f) {
                           add_at(row_wrenches_, d_, body, f, Vector3d::Zero(), at);
                         });
  }
}

void ModelBinding::add_contact_wrenches() {
  for (int i = 0; i < d_.ncon; ++i) {
    const mjContact& contact = d_.contact[i];
    if (contact.efc_address < 0) continue;
    mjtNum f[6];
    mj_contactForce(&view_, &d_, i, f);
    const Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>> frame(contact.frame);
    const Vector3d force = frame.transpose() * vector3(f), moment = frame.transpose() * vector3(f + 3);
    for (const int side : {0, 1}) {
      const int geom = geom_of(contact, side);
      if (geom < 0) continue;
      const double sign = side == 0 ? -1 : 1;
      add_at(row_wrenches_, d_, m_.geom_bodyid[geom], sign * force, sign * moment, vector3(contact.pos));
    }
  }
}

/// Adds the forces of the rows of a connect or a weld on its two bodies.
void ModelBinding::add_equality_wrenches(int equality, const mjtNum* rows) {
  if (z(equality) >= equalities_.size()) return;
  const Equality& of = equalities_[z(equality)];
  if (of.bodies[0] < 0) return;
  const Vector3d force = vector3(rows), moment = of.has_rotation
                                                     ? Vector3d(rotation_rows(equality).transpose() * vector3(rows + 3))
                                                     : Vector3d(Vector3d::Zero());
  for (const std::size_t k : {std::size_t{0}, std::size_t{1}}) {
    const double sign = k == 0 ? 1 : -1;
    const int body = of.bodies[k];
    add_at(row_wrenches_, d_, body, sign * force, sign * moment,
           vector3(d_.xpos + 3 * body) + quaternion(d_.xquat + 4 * body) * of.anchors[k]);
  }
}

}  // namespace linchpin::mujoco
