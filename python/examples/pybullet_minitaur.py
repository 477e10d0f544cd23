"""The minitaur of PyBullet's data: four closed loops, by PyBullet and by linchpin."""

import math

import numpy as np
import pybullet as p
import pybullet_data

import linchpin.pybullet

RIGHT, LEFT = [0, 0.005, 0.2], [0, 0.01, 0.2]  # the points of the two lower links of a leg


def walk(exact: bool) -> float:
    """Drives the legs for 4 s on the ground. @return the largest gap of a loop in the plane of its leg [m]"""
    client = p.connect(p.DIRECT)
    p.setAdditionalSearchPath(pybullet_data.getDataPath())
    p.setGravity(0, 0, -10)
    p.loadURDF("plane.urdf")
    robot = p.loadURDF("quadruped/minitaur.urdf", [0, 0, 0.2])
    joints = {p.getJointInfo(robot, i)[1].decode(): i for i in range(p.getNumJoints(robot))}
    attachment = linchpin.pybullet.attach(client) if exact else None  # the new line
    legs = []
    for leg in ("front_left", "back_left", "front_right", "back_right"):
        sign = -1 if "left" in leg else 1
        for side in "LR":
            p.resetJointState(robot, joints[f"motor_{leg}{side}_joint"], sign * math.pi / 2)
            p.resetJointState(robot, joints[f"knee_{leg}{side}_link"], sign * -2.1834)
            p.setJointMotorControl2(robot, joints[f"knee_{leg}{side}_link"], p.VELOCITY_CONTROL, force=0)
        right, left = joints[f"knee_{leg}R_link"], joints[f"knee_{leg}L_link"]
        legs.append((right, left))
        if attachment:  # two rows for each loop: its third one would be across the plane of the leg
            attachment.close_loop(leg, (robot, right), (robot, left), kind="point_on_line", at_a=RIGHT, at_b=LEFT,
                                  axis_a=[0, 1, 0])
        else:
            p.createConstraint(robot, right, robot, left, p.JOINT_POINT2POINT, [0, 0, 0], RIGHT, LEFT)
    largest = 0.0
    for step in range(4 * 240):
        for name, joint in joints.items():
            if name.startswith("motor_"):
                target = (-1 if "left" in name else 1) * math.pi / 2 + 0.3 * math.sin(step / 60 + ("L_" in name))
                p.setJointMotorControl2(robot, joint, p.POSITION_CONTROL, target, positionGain=1, force=3.5)
        p.stepSimulation()
        for right, left in legs:
            states = [p.getLinkState(robot, link, computeForwardKinematics=1) for link in (right, left)]
            axes = [np.array(p.getMatrixFromQuaternion(state[1])).reshape(3, 3) for state in states]
            a, b = (np.array(s[0]) + R @ np.array(at) for s, R, at in zip(states, axes, (RIGHT, LEFT)))
            x, _, z = axes[0].T @ (a - b)
            largest = max(largest, math.hypot(x, z)) if step > 60 else 0.0
    if attachment:
        print(attachment.summary())
    p.disconnect(client)
    return largest


# %% The robot walks for 4 s with each of them:
print(f"largest gap: PyBullet {walk(exact=False):.1e} m, linchpin {walk(exact=True):.1e} m")
