"""A leg in MuJoCo: two closed loops like those of Cassie, motors and the ground, by MuJoCo and by linchpin."""

import mujoco
import numpy as np

import linchpin.mujoco

LEG = """
<mujoco>
  <option timestep="0.001" integrator="implicitfast"/>
  <default>
    <joint axis="0 1 0" damping="0.05"/>
    <geom type="capsule" size="0.012" contype="0" conaffinity="0"/>
    <position kp="400" kv="8"/>
  </default>
  <worldbody>
    <geom name="floor" type="plane" size="2 2 0.1" contype="1" conaffinity="1"/>
    <body name="pelvis" pos="0 0 0.875">
      <joint name="height" type="slide" axis="0 0 1" damping="0"/>
      <geom type="box" size="0.06 0.06 0.04" mass="6"/>
      <body name="thigh">
        <joint name="hip"/>
        <geom fromto="0 0 0 0.12 0 -0.03" mass="2"/>
        <body name="shin" pos="0.12 0 -0.03">
          <joint name="knee"/>
          <geom fromto="0 0 0 -0.22 0 -0.38" mass="0.8"/>
          <body name="tarsus" pos="-0.22 0 -0.38">
            <joint name="tarsus"/>
            <geom fromto="-0.12 0 0.03 0 0 0" mass="0.2"/>
            <geom fromto="0 0 0 0.14 0 -0.38" mass="0.6"/>
            <body name="crank" pos="0.028 0 -0.076">
              <joint name="crank"/>
              <geom fromto="0 0 0 -0.05 0 -0.03" mass="0.1"/>
              <body name="plantar rod" pos="-0.05 0 -0.03">
                <joint name="plantar rod"/>
                <geom fromto="0 0 0 0.112 0 -0.304" size="0.006" mass="0.1"/>
              </body>
            </body>
            <body name="foot" pos="0.14 0 -0.38">
              <joint name="ankle"/>
              <geom fromto="-0.05 0 -0.06 0.1 0 -0.06" size="0.02" mass="0.3" contype="1" conaffinity="1"/>
            </body>
          </body>
        </body>
        <body name="achilles rod">
          <joint name="achilles rod"/>
          <geom fromto="0 0 0 -0.22 0 -0.38" size="0.006" mass="0.2"/>
        </body>
      </body>
    </body>
  </worldbody>
  <equality>
    <connect name="achilles" body1="achilles rod" body2="tarsus" anchor="-0.22 0 -0.38"/>
    <connect name="plantar" body1="plantar rod" body2="foot" anchor="0.112 0 -0.304"/>
  </equality>
  <actuator>
    <position name="hip" joint="hip"/>
    <position name="knee" joint="knee"/>
    <position name="crank" joint="crank"/>
  </actuator>
</mujoco>
"""
model = mujoco.MjModel.from_xml_string(LEG)
data = mujoco.MjData(model)


def squat(step: int) -> None:
    """The targets of the motors: hip and knee bend together, 1.5 times a second."""
    bend = 0.15 * (1 - np.cos(2 * np.pi * 1.5 * step * model.opt.timestep))
    data.ctrl[:] = [-bend, 2 * bend, bend]


# %% `attach` is the new line. `compare` runs the leg for 2 s by MuJoCo and by linchpin, also with the hardest loops that MuJoCo permits:
exact = linchpin.mujoco.attach(model, data)
gaps = exact.compare(2000, squat)
print(f"largest gap: MuJoCo {gaps.native_gap.max():.1e} m, linchpin {gaps.exact_gap.max():.1e} m")
mujoco.mj_resetData(model, data)
model.eq_solref[:] = [2 * model.opt.timestep, 1]
hard = exact.compare(2000, squat)
print(f"hard loops:  MuJoCo {hard.native_gap.max():.1e} m, linchpin {hard.exact_gap.max():.1e} m")

# %% A light rod with a pin at each end carries a force along itself. The exact reaction says so:
force = exact.reactions["achilles"].force  # [N], world axes, on the rod
along = data.body("achilles rod").xmat.reshape(3, 3) @ [-0.22, 0, -0.38]
along /= np.linalg.norm(along)
print(f"achilles: {np.linalg.norm(force):.2f} N, of which {force @ along:.2f} N along the rod")

# %% Each `connect` has one row more than a leg in a plane needs. The report names them:
print(exact.rank())

# %% The friction of a pin grows with its load. The `frictionloss` of MuJoCo is a constant:
exact.law("hip", linchpin.mujoco.laws.hinge_friction(0.2, pin_radius=0.01))
mujoco.mj_resetData(model, data)
exact.reset()
for step in range(1, 1001):
    squat(step)
    exact.step()
    if step % 200 == 0:
        load = np.linalg.norm(exact.joint_wrench("hip").force)
        moment = exact.joint_forces("hip")["laws"][0]
        print(f"t = {data.time:.1f} s: load {load:6.2f} N, moment of friction {moment:7.4f} N m")

# %% The summary says what linchpin solves, and what stays with MuJoCo:
print(exact.summary())
