# Actuators on every host, for bodies and multibodies: the same positions and torques, and those of inverse dynamics.
source "$(dirname "$0")/common.bash" "$@"
cd "$scratch" || exit 1

cat >arm.urdf <<'END'
<robot name="arm">
  <link name="base"/>
  <link name="upper"><inertial><origin xyz="0 0 -0.25"/><mass value="2"/>
    <inertia ixx="0.05" iyy="0.05" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="lower"><inertial><origin xyz="0 0 -0.2"/><mass value="1"/>
    <inertia ixx="0.02" iyy="0.02" izz="0.005" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/>
    <limit lower="-3" upper="3" effort="30" velocity="5"/></joint>
  <joint name="elbow" type="revolute"><parent link="upper"/><child link="lower"/><origin xyz="0 0 -0.5"/>
    <axis xyz="0 1 0"/><limit lower="-3" upper="3" effort="10" velocity="5"/></joint>
</robot>
END
# The arm starts at the prescribed angle and rate. The elbow holds 0.4 rad by PD with its gravity torque.
cat >arm.toml <<'END'
schema = 2
[world]
duration = 3
dt = 0.001
[model]
urdf = "arm.urdf"
joints = { shoulder = 0.2, elbow = 0.4 }
[[actuator]]
joint = "shoulder"
position = "0.2 + 0*t"
[[actuator]]
joint = "elbow"
position = 0.4
stiffness = 80
damping = 4
torque = "9.81*0.2*sin(joint_position(shoulder) + joint_position(elbow))"
[[expect]]
value = "joint_position(elbow)"
at = 2
is = 0.4
tolerance = 1e-9
single = 1e-4
[[expect]]
value = "joint_force(shoulder)"
at = 2
is = "2*9.81*0.25*sin(0.2) + 9.81*(0.5*sin(0.2) + 0.2*sin(0.6))"
tolerance = 1e-6
single = 1e-2
[[expect]]
value = "joint_force(elbow)"
at = 2
is = "9.81*0.2*sin(0.6)"
tolerance = 1e-6
single = 1e-2
[[sensor]]
name = "root"
joint = "shoulder"
[[sensor]]
name = "grip"
joint = "elbow"
# A sensor measures what the parent exerts: also the prescribed motion of the shoulder and the torque of the elbow.
[[expect]]
value = "root_torque.y"
at = 2
is = "2*9.81*0.25*sin(0.2) + 9.81*(0.5*sin(0.2) + 0.2*sin(0.6))"
tolerance = 1e-6
single = 1e-2
[[expect]]
value = "grip_torque.y"
at = 2
is = "9.81*0.2*sin(0.6)"
tolerance = 1e-6
single = 1e-2
END
for how in bare bullet-float64 "bullet-float64 --as multibody" bullet "bullet --as multibody"; do
  # shellcheck disable=SC2086
  expect 0 run arm.toml --host $how
done

# The effort of the file limits the elbow: with 1 N m it cannot hold the link, and the torque never exceeds 1.
sed -i 's/effort="10"/effort="1"/' arm.urdf
sed -e '/^\[\[expect\]\]/,$d' arm.toml >limited.toml
cat >>limited.toml <<'END'
[[log]]
channel = "joint_force(elbow)"
name = "torque"
END
for how in bare bullet-float64 "bullet-float64 --as multibody"; do
  # shellcheck disable=SC2086
  expect 0 run limited.toml --host $how --csv out.csv
  awk -F, 'NR == 1 { for (i = 1; i <= NF; ++i) if ($i ~ /^torque/) c = i }
    NR > 1 && $c != "" { n++; x = $c < 0 ? -$c : $c; if (x > most) most = x }
    END { exit !(n > 2900 && most <= 1 + 1e-9 && most > 0.99) }' out.csv || fail "the limit of the torque on $how"
done

# Two joints with a link without mass between them are one compound joint. Each has its coordinate: the first is
# prescribed, the second is held by PD with its gravity torque. The potential energy of the bar is
# V = m g (0.1 sin(a) - 0.25 cos(a) cos(b)), and the torques are its derivatives.
cat >universal.urdf <<'END'
<robot name="universal">
  <link name="base"/><link name="cross"/>
  <link name="bar"><inertial><origin xyz="0 0 -0.25"/><mass value="2"/>
    <inertia ixx="0.05" iyy="0.05" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="roll" type="revolute"><parent link="base"/><child link="cross"/><axis xyz="1 0 0"/>
    <limit lower="-3" upper="3" effort="30" velocity="5"/></joint>
  <joint name="flex" type="revolute"><parent link="cross"/><child link="bar"/><origin xyz="0 0.1 0"/>
    <axis xyz="0 1 0"/><limit lower="-3" upper="3" effort="30" velocity="5"/></joint>
</robot>
END
cat >universal.toml <<'END'
schema = 2
[world]
duration = 2
dt = 0.001
[model]
urdf = "universal.urdf"
joints = { roll = 0.3, flex = 0.5 }
[[actuator]]
joint = "roll"
position = "0.3 + 0*t"
[[actuator]]
joint = "flex"
position = 0.5
stiffness = 60
damping = 3
torque = "2*9.81*0.25*sin(joint_position(flex))*cos(joint_position(roll))"
[[expect]]
value = "[joint_position(roll), joint_position(flex), joint_velocity(flex)]"
at = 1
is = [0.3, 0.5, 0]
tolerance = 1e-9
single = 2e-4
[[expect]]
value = "[joint_force(roll), joint_force(flex), 0]"
at = 1
is = ["2*9.81*(0.1*cos(0.3) + 0.25*sin(0.3)*cos(0.5))", "2*9.81*0.25*sin(0.5)*cos(0.3)", 0]
tolerance = 1e-6
single = 2e-2
[[sensor]]
name = "root"
joint = "flex"
[[expect]]
value = "norm(root_force)"
at = 1
is = 19.62
tolerance = 1e-6
single = 1e-2
END
# The same by PD. In single precision a prescribed motion at rest can end with "energy grows": 1e-5 J by rounding.
sed '/^position = "0.3/c position = 0.3\
stiffness = 200\
damping = 10\
torque = "2*9.81*(0.1*cos(joint_position(roll)) + 0.25*sin(joint_position(roll))*cos(joint_position(flex)))"' \
  universal.toml >held.toml
for how in bare bullet-float64 "bullet-float64 --as multibody"; do
  # shellcheck disable=SC2086
  expect 0 run universal.toml --host $how
done
for how in bare bullet-float64 "bullet-float64 --as multibody" bullet "bullet --as multibody"; do
  # shellcheck disable=SC2086
  expect 0 run held.toml --host $how
done

# Faults have the place, the name and what to do.
printf '[[actuator]]\njoint = "elbw"\ntorque = 1\n' >>limited.toml
expect 3 check limited.toml
says 'there is no joint "elbw" with a coordinate; did you mean "elbow"\?'
done_testing
