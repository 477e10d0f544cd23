# Named frames: of a robot's links and joints, of links without mass, and of [[frame]]; in expressions, joints, forces,
# springs and sensors. A scene replaces joints of the file.
source "$(dirname "$0")/common.bash" "$@"

# A turn of a quarter about z; the centre of mass is beside the frame of the link, and its inertia is not diagonal.
cat >"$scratch/arm.urdf" <<'URDF'
<robot name="arm">
  <link name="base"/>
  <link name="upper"><inertial><origin xyz="0.3 0.1 0.2"/><mass value="2"/>
    <inertia ixx="0.2" iyy="0.15" izz="0.1" ixy="0.01" ixz="-0.02" iyz="0.005"/></inertial></link>
  <link name="tool"/>
  <joint name="shoulder" type="continuous"><origin xyz="0 0 1"/><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/></joint>
  <joint name="flange" type="fixed"><origin xyz="0.6 0 0" rpy="0 0 1.5707963267948966"/><parent link="upper"/><child link="tool"/></joint>
</robot>
URDF
cat >"$scratch/arm.toml" <<'TOML'
schema = 2
[world]
gravity = [0, 0, 0]
duration = 0.2
[model]
urdf = "arm.urdf"
rates = { shoulder = 2.0 }
[[frame]]
name = "grip"
frame = "tool"
position = [0, 0.1, 0]
[[frame]]
name = "centre"
body = "upper"
TOML
value() {  # VALUE IS [TOLERANCE]: expected at the start
  printf '[[expect]]\nvalue = "%s"\nat = 0\nis = %s\ntolerance = %s\n' "$1" "$2" "${3:-1e-12}" >>"$scratch/arm.toml"
}
value "tool.position" "[0.6, 0, 1]"
value "tool.frame.x" 0.6
value "upper.frame.position" "[0, 0, 1]"
value "shoulder.position" "[0, 0, 1]"
value "upper.position" "[0.3, 0.1, 1.2]"
value "centre.position" "[0.3, 0.1, 1.2]"
value "grip.position" "[0.5, 0, 1]"
value "tool.axis(1, 0, 0)" "[0, 1, 0]"
value "tool.point(0.1, 0, 0.05)" "[0.6, 0.1, 1.05]"
value "upper.frame.to_frame(tool.position)" "[0.6, 0, 0]"
value "tool.to_frame(grip.position)" "[0, 0.1, 0]"
value "tool.omega" "[0, 2, 0]"
value "tool.velocity" "[0, 0, -1.2]"
value "tool.velocity(0, 0, 0.1)" "[0.2, 0, -1.2]"
value "tool.velocity(tool.to_frame(upper.position)) - upper.velocity" "[0, 0, 0]"
value "tool.point(0, t, 0)" "[0.6, 0, 1]"
for host in bare bullet-float64 "bullet-float64 --as multibody"; do
  # shellcheck disable=SC2086
  expect 0 run "$scratch/arm.toml" --json --host $host
  holds '[.solver.expect[].met] | all'
done
# The acceleration of a frame is the change of its velocity.
cat >>"$scratch/arm.toml" <<'TOML'
[[log]]
channel = "tool.velocity.z"
[[log]]
channel = "tool.acceleration.z"
TOML
expect 0 run "$scratch/arm.toml" --method rk4 --dt 0.0001 --duration 0.01 --csv "$scratch/arm.csv"
awk -v a="$(column "$scratch/arm.csv" "tool.velocity.z [m/s]" 50)" -v b="$(column "$scratch/arm.csv" "tool.velocity.z [m/s]" 52)" \
  -v q="$(column "$scratch/arm.csv" "tool.acceleration.z" 51)" 'BEGIN {d = (b - a) / 2e-4 - q; exit !(d < 1e-5 && d > -1e-5)}' ||
  fail "the acceleration of a frame is not the rate of its velocity"

# Where the centre of mass is in each frame.
expect 0 check "$scratch/arm.toml" --frames
prints '^upper +upper +0\.30000 +0\.10000 +0\.20000 '
prints '^tool +upper +0\.10000 +0\.30000 +0\.20000 .* 0\.60000 +0\.00000 +1\.00000 *$'
expect 0 check "$scratch/arm.toml" --json
holds '.frames | map(.name) == ["base", "upper", "tool", "shoulder", "flange", "grip", "centre"]'
holds '.frames[6].centre_of_mass == [0, 0, 0] and .frames[6].body_axes == [1, 0, 0, 0]'

# A box welded by frames hangs at the tool. The sensor reads its weight, and the moment about the origin of the frame.
cat >"$scratch/box.toml" <<'TOML'
schema = 2
[world]
duration = 0.2
[model]
urdf = "arm.urdf"
[[body]]
name = "box"
mass = 1
shape = { box = [0.2, 0.2, 0.2] }
position = [0.62, 0.2, 1]
[[frame]]
name = "handle"
body = "box"
position = [-0.2, 0, 0]
[[joint]]
name = "held"
type = "weld"
frame_a = "tool"
frame_b = "handle"
[[actuator]]
joint = "shoulder"
position = "0*t"
[[sensor]]
name = "wrist"
joint = "held"
frame = "tool"
[[expect]]
value = "box.position"
throughout = true
is = [0.6, 0.2, 1]
tolerance = 1e-9
[[expect]]
value = "wrist_force"
at = 0.1
is = [0, 0, 9.81]
tolerance = 1e-9
[[expect]]
value = "wrist_torque"
at = 0.1
is = [0, -1.962, 0]
tolerance = 1e-9
TOML
for host in bare bullet-float64; do
  expect 0 run "$scratch/box.toml" --json --host $host
  holds '[.solver.expect[].met] | all'
done
# About the origin of another frame the same wrench has another moment.
sed 's/frame = "tool"$/frame = "handle_of_arm"/; s/is = \[0, -1.962, 0\]/is = [0, -0.981, 0]/' "$scratch/box.toml" >"$scratch/moved.toml"
cat >>"$scratch/moved.toml" <<'TOML'
[[frame]]
name = "handle_of_arm"
frame = "tool"
position = [0.1, 0, 0]
TOML
expect 0 run "$scratch/moved.toml" --json
holds '[.solver.expect[].met] | all'

# A force, a spring and a hinge by frames.
cat >"$scratch/forces.toml" <<'TOML'
schema = 2
[world]
gravity = [0, 0, 0]
duration = 0.1
[model]
urdf = "arm.urdf"
[[body]]
name = "fan"
mass = 1
shape = { sphere = 0.1 }
position = [0.6, 0, 1.3]
[[frame]]
name = "hub"
body = "fan"
position = [0, 0, -0.3]
[[joint]]
name = "axle"
type = "hinge"
frame_a = "tool"
frame_b = "hub"
axis_a = [0, 0, 1]
[[force]]
name = "push"
frame = "tool"
at = [0, 0.1, 0]
force = "[0, 0, 5]"
[[force]]
name = "rope"
type = "spring"
frame_a = "world"
frame_b = "tool"
stiffness = 10
rest = 0
[[expect]]
value = "applied_moment(push)"
at = 0
is = [-0.5, -1.0, 0]
tolerance = 1e-12
[[expect]]
value = "norm(applied_force(rope, upper))"
at = 0
is = "10*sqrt(1.36)"
tolerance = 1e-12
[[expect]]
value = "fan.axis(0, 0, 1) - tool.axis(0, 0, 1)"
throughout = true
is = [0, 0, 0]
tolerance = 1e-9
TOML
expect 0 run "$scratch/forces.toml" --json
holds '[.solver.expect[].met] | all'

# A hinge of the file becomes a ball joint with friction, or nothing.
cat >"$scratch/ball.toml" <<'TOML'
schema = 2
[model]
urdf = "arm.urdf"
replace_joints = { shoulder = "ball" }
[[attach]]
to = "shoulder"
law = { type = "viscous_torque", coefficient = 0.1 }
TOML
expect 0 check "$scratch/ball.toml" --json
holds '.degrees_of_freedom == 3 and .constraints[0].name == "shoulder" and .constraints[0].type == "ball"'
for host in bare bullet-float64 "bullet-float64 --as multibody"; do
  # shellcheck disable=SC2086
  expect 0 run "$scratch/ball.toml" --json --duration 0.2 --host $host
  holds '.solver.status == "ok"'
done
sed '/attach/,$d; s/"ball"/"none"/' "$scratch/ball.toml" >"$scratch/none.toml"
expect 0 check "$scratch/none.toml" --json
holds '.degrees_of_freedom == 6'
sed '/attach/,$d; s/"ball"/{ type = "universal", axis_a = [0, 0, 1], axis_b = [0, 1, 0] }/' "$scratch/ball.toml" >"$scratch/cross.toml"
expect 0 check "$scratch/cross.toml" --json
holds '.degrees_of_freedom == 2 and .constraints[0].residual < 1e-12'

# Faults name the place and what to do.
fault() {  # SED EXPRESSION, PATTERN
  sed "$1" "$scratch/forces.toml" >"$scratch/fault.toml"
  expect 3 check "$scratch/fault.toml"
  says "$2"
}
fault 's/frame_b = "hub"/frame_b = "hab"/' 'there is no frame "hab"; did you mean "hub"'
fault 's/frame_b = "hub"/frame_b = "fan"/' '"fan" is a body without a frame of a file\. Give it one by \[\[frame\]\] body = "fan"'
fault 's/frame_b = "hub"/b = "hub"/' 'there is no body "hub"\. It is a frame: write frame_b'
fault 's/^frame_a = "tool"/frame_a = "tool"\na = "upper"/' 'give a \(a body\) or frame_a \(a frame\)'
fault 's/axis_a = \[0, 0, 1\]/axis = [0, 0, 1]/' 'give axis_a, in the axes of the first frame'
fault 's/axis_a = \[0, 0, 1\]/at = [0, 0, 1]/' 'frames have their own places'
fault 's/name = "hub"/name = "fan"/' '"fan" is both a body and a frame'
fault 's/name = "hub"/name = "tool"/' 'there are two frames "tool"'
fault 's/^body = "fan"/body = "fan"\nframe = "tool"/' 'give body, from whose centre of mass its position is, or frame'
fault 's/value = "applied_moment(push)"/value = "fan.frame.position"/' "'fan' is no link of a robot, so it has no frame of a file"
fault 's/value = "applied_moment(push)"/value = "tool.to_body([0, 0, 0])"/' 'a frame has no "to_body"'
sed 's/"ball"/"bell"/' "$scratch/ball.toml" >"$scratch/fault.toml"
expect 3 check "$scratch/fault.toml"
says 'a joint cannot be replaced by "bell"; did you mean "ball"'
sed 's/{ shoulder/{ sholder/' "$scratch/ball.toml" >"$scratch/fault.toml"
expect 3 check "$scratch/fault.toml"
says 'there is no joint "sholder" to replace; did you mean "shoulder"'

# A joint beside a link without mass keeps its place in a compound joint.
cat >"$scratch/chain.urdf" <<'URDF'
<robot name="chain">
  <link name="base"/>
  <link name="cross"/>
  <link name="arm"><inertial><mass value="2"/><inertia ixx="0.2" iyy="0.15" izz="0.1"/></inertial></link>
  <joint name="roll" type="continuous"><parent link="base"/><child link="cross"/><axis xyz="1 0 0"/></joint>
  <joint name="pitch" type="continuous"><parent link="cross"/><child link="arm"/><axis xyz="0 1 0"/></joint>
</robot>
URDF
for joint in roll pitch; do
  printf 'schema = 2\n[model]\nurdf = "chain.urdf"\nreplace_joints = { %s = "ball" }\n' $joint >"$scratch/chain.toml"
  expect 3 check "$scratch/chain.toml"
  says "joint \"$joint\" cannot be replaced: it is beside a link without mass\. Give the link an <inertial>"
done

sed 's/"ball"/"weld"/' "$scratch/chain.toml" >"$scratch/welded.toml"
expect 0 check "$scratch/welded.toml" --json
holds '.degrees_of_freedom == 1'

# A name has one meaning, also where only a log reads it.
printf 'schema = 2\n[params]\ntool = [1, 2, 3]\n[model]\nurdf = "arm.urdf"\n[[log]]\nchannel = "tool.x"\n' >"$scratch/two.toml"
expect 3 check "$scratch/two.toml"
says '"tool" is both a frame and a parameter; rename one'
printf 'schema = 2\n[model]\nurdf = "arm.urdf"\n[[body]]\nname = "tool"\nmass = 1\nshape = { sphere = 1 }\n' >"$scratch/two.toml"
expect 3 check "$scratch/two.toml"
says '"tool" is a body, and a frame in another one\. Rename the body, or write prefix in \[model\]'

# Two frames that are turned far come together with the same axes, not with opposite ones.
for type in weld hinge cylindrical planar; do
  for angle in 0.4 3.0 -2.2 5; do
    cat >"$scratch/far.toml" <<TOML
schema = 2
[world]
gravity = [0, 0, 0]
duration = 0.05
[[body]]
name = "fan"
mass = 1000
inertia = [1000, 1000, 1000]
position = [1, 2, 3]
rotation = { axis = [1, 2, 3], angle = 2.5 }
[[body]]
name = "blade"
mass = 1
inertia = [0.1, 0.2, 0.25]
position = [-1, 0, 3]
rotation = { axis = [1, -2, 0.3], angle = $angle }
[[frame]]
name = "hub"
body = "fan"
position = [0.1, 0.2, 0.3]
rotation = { axis = [0.3, 1, 0.2], angle = 3.0 }
[[frame]]
name = "root"
body = "blade"
position = [0.3, -0.2, 0.1]
rotation = { axis = [0.3, -1, 0.2], angle = 1.3 }
[[joint]]
name = "bearing"
type = "$type"
frame_a = "hub"
frame_b = "root"
$([[ $type == weld ]] || echo 'axis_a = [0, 0, 1]')
[[expect]]
value = "hub.axis(0, 0, 1) - root.axis(0, 0, 1)"
at = 0.05
is = "[0, 0, 0]"
tolerance = 1e-12
TOML
    # The coordinate of a hinge is 0 where the frames coincide, however far they are apart at the start.
    [[ $type != hinge ]] || cat >>"$scratch/far.toml" <<'TOML'
[[expect]]
value = "[cos(joint_position(bearing)), sin(joint_position(bearing)), 0] - hub.to_frame(hub.position + root.axis(1, 0, 0))"
at = 0.05
is = "[0, 0, 0]"
tolerance = 1e-12
TOML
    for host in bare bullet-float64; do
      expect 0 run "$scratch/far.toml" --json --host $host
      holds '[.solver.expect[].met] | all'
    done
  done
done

# Messages that say what to write.
cat >"$scratch/named.urdf" <<'URDF'
<robot name="named"><link name="base"/><link name="part"><inertial><mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="0.1"/></inertial></link>
<link name="tool-0"/><joint name="pin" type="continuous"><parent link="base"/><child link="part"/><axis xyz="0 1 0"/></joint>
<joint name="tip" type="fixed"><parent link="part"/><child link="tool-0"/></joint></robot>
URDF
printf 'schema = 2\n[model]\nurdf = "named.urdf"\n' >"$scratch/inner.toml"
wrong() { # TEXT PATTERN
  { cat "$scratch/inner.toml"; printf '%b' "$1"; } >"$scratch/wrong.toml"
  expect 3 check "$scratch/wrong.toml"
  says "$2"
}
wrong '[[log]]\nchannel = "tool-0.position"\n' "The name \"tool-0\" has characters besides letters, digits and _, so write 'tool-0' with its quotes"
wrong '[[log]]\nchannel = "moment(pin, tool-0)"\n' "so write 'tool-0' with its quotes"
wrong '[[log]]\nchannel = "moment(pin, '"'tool-0'"')"\n' '"tool-0" is not a body of the constraint "pin"\. It is a frame of the body "part"'
wrong '[[frame]]\nname = "x"\nframe = "y"\n[[frame]]\nname = "y"\nbody = "part"\n' 'the frame "y" stands below\. Frames are read in order.*above this one'
wrong '[[force]]\nname = "f"\nbody = "tool-0"\nforce = [0, 0, 1]\n' 'It is a frame of the body "part": give this body, or write frame = "tool-0"'
wrong '[[force]]\nname = "f"\nbody = "part"\nagainst = "tool-0"\nforce = [0, 0, 1]\n' 'there is no body "tool-0"\. It is a frame of the body "part": give this body$'
sed 's/schema = 2/schema = 2\ninclude = ["inner.toml"]/' "$scratch/inner.toml" >"$scratch/twice.toml"
expect 3 check "$scratch/twice.toml"
says 'there are two bodies "base"\. Write prefix = ".*" in \[model\]'
# Definitions read sensors, for logs.
cat >"$scratch/sensed.toml" <<'TOML'
schema = 2
[world]
duration = 0.1
[definitions]
load = "norm(wrist_force)"
[model]
urdf = "named.urdf"
[[sensor]]
name = "wrist"
joint = "pin"
[[expect]]
value = "load"
at = 0
is = 9.81
tolerance = 1e-9
TOML
expect 0 run "$scratch/sensed.toml" --json
holds '[.solver.expect[].met] | all'
printf '[[force]]\nname = "f"\nbody = "part"\nforce = "[0, 0, load]"\n' >>"$scratch/sensed.toml"
expect 3 check "$scratch/sensed.toml"
says 'in the definition "load": the sensor "wrist" gives a result of the run\. It can be used in \[\[log\]\] and \[\[expect\]\] only'

done_testing
