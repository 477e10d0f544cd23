// Differences between the versions of MuJoCo, for the worker: Debian's 2.2.2, and the releases since 3.0.
#pragma once

#include <mujoco/mujoco.h>

namespace linchpin::mujoco_worker {

/// Returns whether an equality of the model is switched on.
template <class Model, class Data>
bool is_active(const Model& m, const Data& d, int equality) {
  if ((m.opt.disableflags & (mjDSBL_EQUALITY | mjDSBL_CONSTRAINT)) != 0) return false;
  if constexpr (requires { d.eq_active; })
    return d.eq_active[equality] != 0;
  else
    return m.eq_active[equality] != 0;
}

/// Copies the switches of equalities to other data of the same model.
template <class Model, class Data>
void copy_switches(const Model& m, const Data& from, Data& to) {
  if constexpr (requires { from.eq_active; })
    for (int i = 0; i < m.neq; ++i) to.eq_active[i] = from.eq_active[i];
}

/// Returns whether the objects of an equality are sites, and not bodies.
template <class Model>
bool is_between_sites(const Model& m, int equality) {
  if constexpr (requires { m.eq_objtype; })
    return m.eq_objtype[equality] == mjOBJ_SITE;
  else
    return false;
}

/// The geometries of a model that bodies have in MuJoCo's pictures unless the user chooses others.
inline constexpr int visible_groups = 3;

/// Returns the cause of forces by which MuJoCo changed the energy in the last step. Null: there was none.
template <class Model, class Data>
const char* dissipation(const Model& m, const Data& d) {
  const auto any = [&](const mjtNum* x) {
    for (int i = 0; i < m.nv; ++i)
      if (x[i] != 0) return true;
    return false;
  };
  if (any(d.qfrc_actuator)) return "actuators";
  if constexpr (requires { d.qfrc_damper; }) {
    if (any(d.qfrc_damper)) return "damping";
  } else {
    if (any(m.dof_damping)) return "damping";
    for (int i = 0; i < m.ntendon; ++i)
      if (m.tendon_damping[i] != 0) return "damping";
  }
  if constexpr (requires { d.qfrc_gravcomp; })
    if (any(d.qfrc_gravcomp)) return "gravity compensation";
  if constexpr (requires { d.qfrc_fluid; }) {
    if (any(d.qfrc_fluid)) return "drag of the medium";
  } else {
    if (m.opt.density != 0 || m.opt.viscosity != 0) return "drag of the medium";
  }
  if constexpr (requires { m.nplugin; })
    if (m.nplugin > 0) return "plugins";
  if constexpr (requires { m.nflex; })
    if (m.nflex > 0) return "flexible bodies";
  return nullptr;
}

#if mjVERSION_HEADER >= 300
inline constexpr int no_springs = mjDSBL_SPRING, no_damping = mjDSBL_DAMPER;
#else
inline constexpr int no_springs = mjDSBL_PASSIVE, no_damping = mjDSBL_PASSIVE;
#endif

/// Number of actuators.
template <class Model>
int actuators(const Model& m) {
  if constexpr (requires { m.nactuator; })
    return m.nactuator;
  else
    return m.nu;
}

/// Where the first force of an actuator is among the forces of all.
template <class Model>
int first_output(const Model& m, int actuator) {
  if constexpr (requires { m.actuator_outadr; })
    return m.actuator_outadr[actuator];
  else
    return actuator;
}

/// The control 0 of an actuator, as MuJoCo clamps it.
template <class Model>
double control_at_zero(const Model& m, int actuator) {
  int control = actuator;
  if constexpr (requires { m.actuator_ctrladr; }) control = m.actuator_ctrladr[actuator];
  if (!m.actuator_ctrllimited[control] || (m.opt.disableflags & mjDSBL_CLAMPCTRL)) return 0;
  return mju_clip(0, m.actuator_ctrlrange[2 * control], m.actuator_ctrlrange[2 * control + 1]);
}

/// Returns whether the spring of a joint yields.
template <class Model>
bool is_plastic(const Model& m, int joint) {
  if constexpr (requires { m.jnt_plasticadr; })
    return m.jnt_plasticadr[joint] >= 0;
  else
    return false;
}

/// Returns whether the group of an actuator is switched off.
template <class Model>
bool is_in_disabled_group(const Model& m, int actuator) {
  if constexpr (requires { m.opt.disableactuator; }) {
    const int group = m.actuator_group[actuator];
    return group >= 0 && group <= 30 && (m.opt.disableactuator & (1 << group)) != 0;
  } else {
    return false;
  }
}

/// Returns whether the sum of the forces of actuators on a joint has a range.
template <class Model>
bool has_range_of_actuators(const Model& m, int joint) {
  if constexpr (requires { m.jnt_actfrclimited; })
    return m.jnt_actfrclimited[joint] != 0;
  else
    return false;
}

/// Damping and inertia of a coordinate itself, with those of actuators on its joint.
struct OfCoordinate {
  double damping = 0, armature = 0;
  bool is_linear = true;  ///< Damping and spring are proportional to rate and shift.
};
template <class Model>
OfCoordinate of_coordinate(const Model& m, int joint) {
  const int dof = m.jnt_dofadr[joint];
  OfCoordinate out{m.dof_damping[dof], m.dof_armature[dof]};
  if constexpr (requires { m.actuator_armature; })
    for (int a = 0; a < m.nactuator; ++a) {
      const int on = m.actuator_trntype[a];
      if ((on != mjTRN_JOINT && on != mjTRN_JOINTINPARENT) || m.actuator_trnid[2 * a] != joint) continue;
      const double gear = m.actuator_gear[6 * m.actuator_outadr[a]];
      out.damping += gear * gear * m.actuator_damping[a];
      for (int k = 0; k < mjNPOLY; ++k) out.is_linear = out.is_linear && m.actuator_dampingpoly[mjNPOLY * a + k] == 0;
      out.armature += gear * gear * m.actuator_armature[a];
    }
#ifdef mjNPOLY
  for (int k = 0; k < mjNPOLY; ++k)
    if (m.dof_dampingpoly[mjNPOLY * dof + k] != 0 || m.jnt_stiffnesspoly[mjNPOLY * joint + k] != 0)
      out.is_linear = false;
#endif
  if (m.opt.disableflags & no_damping) out.damping = 0;
  return out;
}

/// Name of an integrator as MJCF has it.
inline const char* integrator_name(int integrator) {
  constexpr const char* names[] = {"Euler", "RK4", "implicit", "implicitfast"};
  return integrator >= 0 && integrator < 4 ? names[integrator] : "another integrator";
}

}  // namespace linchpin::mujoco_worker
