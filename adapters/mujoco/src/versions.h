// The parts that differ between the versions of MuJoCo: Debian's 2.2.2, and the releases since 3.0. Everything else of
// the adapter is the same for all of them.
#pragma once

#include <mujoco/mujoco.h>

#include <array>
#include <cmath>

#if mjVERSION_HEADER < 230
// The library has this function; the header does not declare it.
extern "C" void mj_implicit(const mjModel* m, mjData* d);
#endif

namespace linchpin::mujoco {

#ifdef mjNPOLY
constexpr int order_of_damping = mjNPOLY;
#else
constexpr int order_of_damping = 1;
#endif
constexpr int sleep_flag = 1 << 4;                                             // mjENBL_SLEEP, since 3.3.8
constexpr int last_integrator = mjVERSION_HEADER >= 300 ? 3 : mjINT_IMPLICIT;  // mjINT_IMPLICITFAST

/// Returns whether an equality constraint of the model is switched on.
template <class Model, class Data>
bool is_active(const Model& m, const Data& d, int equality) {
  if constexpr (requires { d.eq_active; })
    return d.eq_active[equality] != 0;
  else
    return m.eq_active[equality] != 0;
}

/// Switches an equality constraint of the model on or off.
template <class Model, class Data>
void set_active(Model& m, Data& d, int equality, bool on) {
  if constexpr (requires { d.eq_active; })
    d.eq_active[equality] = on;
  else
    m.eq_active[equality] = on;
}

/// Returns whether the objects of an equality constraint are sites, and not bodies.
template <class Model>
bool is_between_sites(const Model& m, int equality) {
  if constexpr (requires { m.eq_objtype; })
    return m.eq_objtype[equality] == mjOBJ_SITE;
  else
    return false;
}

/// Makes the Jacobian of the rows dense, and makes MuJoCo solve all of them together.
inline void keep_rows_dense_and_together(mjModel& view) {
  view.opt.jacobian = mjJAC_DENSE;
#if mjVERSION_HEADER >= 3003005
  view.opt.disableflags |= mjDSBL_ISLAND;
#elif mjVERSION_HEADER >= 300
  view.opt.enableflags &= ~mjENBL_ISLAND;
#endif
}

/// Takes back keep_rows_dense_and_together(). @param before  the options before it
inline void restore_options(mjModel& m, const mjOption& before) {
  m.opt.jacobian = before.jacobian;
  m.opt.disableflags = before.disableflags;
  m.opt.enableflags = before.enableflags;
}

/// Makes mj_sensorAcc() compute the forces between bodies again. It does so once after each mj_forward() only.
template <class Data>
void forget_forces_of_sensors(Data& d) {
  if constexpr (requires { d.flg_rnepost; }) d.flg_rnepost = 0;
}

/// Makes a copy of the model with which mj_Euler() changes positions and velocities only.
template <class Model>
void leave_out_other_states(Model& view) {
  view.na = 0;
  if constexpr (requires { view.nplugin; }) view.nplugin = 0;
  if constexpr (requires { view.nhistory; }) view.nhistory = 0;
}

/// Makes a copy of the model with which mj_Euler() integrates mjData::qacc as it is. @param no_damping  [nv] zeros
inline void integrate_acceleration_as_it_is(mjModel& view, [[maybe_unused]] mjtNum* no_damping) {
#if mjVERSION_HEADER >= 230
  view.opt.disableflags |= mjDSBL_EULERDAMP;
#else
  view.dof_damping = no_damping;
#endif
}

/// Calls visit(actuator, gear²) for each actuator on a joint or a tendon that may have damping or armature.
template <class Model, class Visit>
void each_actuator_on(const Model& m, mjtObj type, int id, Visit visit) {
  if constexpr (requires { m.jnt_actuatorid; }) {
    if ((type == mjOBJ_JOINT ? m.jnt_actuatorid : m.tendon_actuatorid)[id] == -1) return;
    for (int a = 0; a < m.nactuator; ++a) {
      const int on = m.actuator_trntype[a];
      const bool is_on_type = type == mjOBJ_JOINT ? on == mjTRN_JOINT || on == mjTRN_JOINTINPARENT : on == mjTRN_TENDON;
      const double gear = m.actuator_gear[6 * m.actuator_outadr[a]];
      if (is_on_type && m.actuator_trnid[2 * a] == id) visit(a, gear * gear);
    }
  }
}

/// Returns the inertia of a coordinate itself, with that of actuators on its joint.
template <class Model>
double armature(const Model& m, int dof) {
  double sum = m.dof_armature[dof];
  if constexpr (requires { m.actuator_armature; })
    each_actuator_on(m, mjOBJ_JOINT, m.dof_jntid[dof],
                     [&](int a, double gear2) { sum += gear2 * m.actuator_armature[a]; });
  return sum;
}

/// Returns the inertia of the rate of a tendon, with that of actuators on it.
template <class Model>
double tendon_armature(const Model& m, int tendon) {
  double sum = 0;
  if constexpr (requires { m.tendon_armature; }) sum = m.tendon_armature[tendon];
  if constexpr (requires { m.actuator_armature; })
    each_actuator_on(m, mjOBJ_TENDON, tendon, [&](int a, double gear2) { sum += gear2 * m.actuator_armature[a]; });
  return sum;
}

/// Coefficients c of the damping force −v Σ cₖ |v|ᵏ of a coordinate of a joint, or of a tendon, with that of actuators.
/// @param id     the joint or the tendon
/// @param index  the coordinate or the tendon
template <class Model>
std::array<double, 1 + order_of_damping> damping_of(const Model& m, mjtObj type, int id, int index) {
  std::array<double, 1 + order_of_damping> out{(type == mjOBJ_TENDON ? m.tendon_damping : m.dof_damping)[index]};
  if constexpr (requires { m.dof_dampingpoly; }) {
    const auto* const poly = type == mjOBJ_TENDON ? m.tendon_dampingpoly : m.dof_dampingpoly;
    for (int k = 0; k < order_of_damping; ++k) out[k + 1] = poly[order_of_damping * index + k];
    each_actuator_on(m, type, id, [&](int a, double gear2) {
      out[0] += m.actuator_damping[a] * gear2;
      for (int k = 0; k < order_of_damping; ++k) out[k + 1] += m.actuator_dampingpoly[order_of_damping * a + k] * gear2;
    });
  }
  return out;
}

/// Returns the derivative of the damping force by the rate, by which mj_Euler() adds to the diagonal of M over h.
template <class Model, class Data>
double euler_damping(const Model& m, const Data& d, int dof) {
#if mjVERSION_HEADER >= 230
  if (m.opt.disableflags & mjDSBL_EULERDAMP) return 0;
#endif
#if mjVERSION_HEADER >= 300
  if (m.opt.disableflags & mjDSBL_DAMPER) return 0;
#endif
  double sum = 0, power = 1;
  int k = 0;
  for (const double c : damping_of(m, mjOBJ_JOINT, m.dof_jntid[dof], dof)) {
    sum += ++k * c * power;
    power *= std::abs(d.qvel[dof]);
  }
  return sum;
}

/// Calls visit(actuator, output) for each force output of each actuator.
template <class Model, class Visit>
void each_actuator_output(const Model& m, Visit visit) {
  if constexpr (requires { m.actuator_outadr; }) {
    for (int a = 0; a < m.nactuator; ++a)
      for (int k = 0; k < m.actuator_outnum[a]; ++k) visit(a, m.actuator_outadr[a] + k);
  } else {
    for (int a = 0; a < m.nu; ++a) visit(a, a);
  }
}

/// Returns the force of spring and damping along a tendon that lengthens it [N].
template <class Model, class Data>
double passive_force(const Model& m, const Data& d, int tendon) {
#if mjVERSION_HEADER >= 300
  const bool springs = !(m.opt.disableflags & mjDSBL_SPRING), dampers = !(m.opt.disableflags & mjDSBL_DAMPER);
#else
  const bool springs = !(m.opt.disableflags & mjDSBL_PASSIVE), dampers = springs;
#endif
  constexpr int ends = mjVERSION_HEADER >= 230 ? 2 : 1;  // of the range in which the spring is slack
  const double length = d.ten_length[tendon], v = d.ten_velocity[tendon];
  const mjtNum* slack = m.tendon_lengthspring + ends * tendon;
  if constexpr (requires { m.tendon_plasticadr; })
    if (m.tendon_plasticadr[tendon] >= 0) slack = d.plastic + m.tendon_plasticadr[tendon];
  const double lower = slack[0], upper = slack[ends - 1];
  const double x = length > upper ? length - upper : length < lower ? length - lower : 0;
  double stiffness = m.tendon_stiffness[tendon], damping = 0, power = 1;
  if constexpr (requires { m.tendon_stiffnesspoly; })
    for (int k = 0; k < order_of_damping; ++k)
      stiffness += m.tendon_stiffnesspoly[order_of_damping * tendon + k] * std::pow(x, k + 1);
  for (const double c : damping_of(m, mjOBJ_TENDON, tendon, tendon)) {
    damping += c * power;
    power *= std::abs(v);
  }
  return (springs ? -stiffness * x : 0) - (dampers ? damping * v : 0);
}

/// Returns the share of the weight of a body that MuJoCo compensates.
template <class Model>
double compensation(const Model& m, int body) {
  if constexpr (requires { m.body_gravcomp; })
    return m.body_gravcomp[body];
  else
    return 0;
}
template <class Model>
bool has_actuated_compensation(const Model& m, int joint) {
  if constexpr (requires { m.jnt_actgravcomp; })
    return m.jnt_actgravcomp[joint] != 0;
  else
    return false;
}

/// Where the entries of mjData::qDeriv are: numbers of entries, addresses and columns, by row.
struct DerivativePattern {
  const int *rownnz, *rowadr, *colind;
};
template <class Model, class Data>
DerivativePattern derivative_pattern(const Model& m, const Data& d) {
  if constexpr (requires { m.D_rownnz; })
    return {m.D_rownnz, m.D_rowadr, m.D_colind};
  else
    return {d.D_rownnz, d.D_rowadr, d.D_colind};
}

/// The geometries of a contact; −1 where it has none, as for a flexible body.
template <class Contact>
int geom_of(const Contact& contact, int side) {
  if constexpr (requires { contact.geom[side]; })
    return contact.geom[side];
  else
    return side == 0 ? contact.geom1 : contact.geom2;
}

/// Why the adapter does not support what the options of a model ask for. Null: it supports them.
template <class Model>
const char* why_unsupported(const Model& m) {
  if (m.opt.integrator == mjINT_RK4)
    return "the integrator RK4 takes stages within a step. Use Euler, implicit or implicitfast";
#if mjVERSION_HEADER >= 300
  if (m.opt.enableflags & sleep_flag) return "bodies may sleep (the flag \"sleep\"). Switch the flag off";
#endif
  if (m.opt.integrator > last_integrator)
    return "the integrator discrete solves constraints in another mass matrix. Use Euler, implicit or implicitfast";
  return nullptr;
}

}  // namespace linchpin::mujoco
