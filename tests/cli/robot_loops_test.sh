# Loops of a robot from robot.yaml: they are assembled from the open pose of the file, within the limits, on every host.
# If no pose closes them, the smallest gap and the limits in the way are in a note.
source "$(dirname "$0")/common.bash" "$@"

# Two arms of two bars of length L. The pins are 1 m apart, and the bars stand upright in the pose of the file.
robot() {  # LENGTH LIMIT
  local side x
  echo '<robot name="five bar"><link name="base"/>'
  for side in left right; do
    x=0 && [ $side = left ] || x=1
    for bar in upper lower; do
      echo "<link name=\"${side}_$bar\"><inertial><origin xyz=\"0 0 $(awk "BEGIN {print $1 / 2}")\"/><mass value=\"1\"/>" \
        '<inertia ixx="0.01" iyy="0.01" izz="0.001"/></inertial></link>'
    done
    echo "<link name=\"end_$side\"/>"
    echo "<joint name=\"${side}_motor\" type=\"revolute\"><origin xyz=\"$x 0 0\"/><parent link=\"base\"/><child link=\"${side}_upper\"/>" \
      "<axis xyz=\"0 1 0\"/><limit lower=\"-$2\" upper=\"$2\" effort=\"5\" velocity=\"5\"/></joint>"
    echo "<joint name=\"${side}_elbow\" type=\"continuous\"><origin xyz=\"0 0 $1\"/><parent link=\"${side}_upper\"/><child link=\"${side}_lower\"/>" \
      '<axis xyz="0 1 0"/></joint>'
    echo "<joint name=\"${side}_tip\" type=\"fixed\"><origin xyz=\"0 0 $1\"/><parent link=\"${side}_lower\"/><child link=\"end_$side\"/></joint>"
  done
  echo '</robot>'
}
robot 0.6 1.5 >"$scratch/robot.urdf"
cat >"$scratch/robot.yaml" <<'YAML'
closed_loop: [['end_left', 'end_right']]   # a pin, as a ball joint
type: ['3d']
name_mot: ['left_motor', 'right_motor']
YAML
cat >"$scratch/scene.toml" <<'TOML'
schema = 2
[world]
duration = 1.0
[model]
urdf = "robot.urdf"
loops = "robot.yaml"
TOML
expect 0 check "$scratch/scene.toml" --json
holds '.status == "ok" and .degrees_of_freedom == 2 and ([.constraints[] | select(.name == "end") | .residual < 1e-12 and .type == "ball"] == [true])'
says 'open in the pose of the file, by up to 1 m or rad\. The robot starts in the pose near it that closes them\. Open were: end'
says '\[\[actuator\]\] drives them: left_motor, right_motor'
for host in bare bullet-float64 bullet "bullet-float64 --as multibody"; do
  # shellcheck disable=SC2086
  expect 0 run "$scratch/scene.toml" --json --dt 0.001 --host $host
  holds '.solver.status == "ok" and .solver.max_gap_m < 1e-5'
done

# A position that the scene gives stays.
sed '/loops/a joints = { left_motor = -0.2 }' "$scratch/scene.toml" >"$scratch/given.toml"
cat >>"$scratch/given.toml" <<'TOML'
[[expect]]
value = "joint_position(left_motor)"
at = 0
is = -0.2
tolerance = 1e-12
[[expect]]
value = "dist(end_left.position, end_right.position + [0, 0, 0]) + 1"
at = 0
is = 1
tolerance = 1e-9
TOML
expect 0 run "$scratch/given.toml" --json
holds '[.solver.expect[].met] | all'

# Rates that the scene gives hold exactly at the start, where the loop permits them.
sed '/loops/a rates = { left_motor = 0.7, right_motor = -0.3 }' "$scratch/scene.toml" >"$scratch/rates.toml"
for rate in left_motor=0.7 right_motor=-0.3; do
  printf '[[expect]]\nvalue = "joint_velocity(%s)"\nat = 0\nis = %s\ntolerance = 1e-12\nsingle = 1e-5\n' "${rate%=*}" "${rate#*=}" >>"$scratch/rates.toml"
done
for host in bare bullet-float64 bullet "bullet-float64 --as multibody"; do
  # shellcheck disable=SC2086
  expect 0 run "$scratch/rates.toml" --json --duration 0.1 --host $host
  holds '[.solver.expect[].met] | all'
done
sed 's/right_motor = -0.3/right_motor = -0.3, left_elbow = 5/' "$scratch/rates.toml" >"$scratch/rates2.toml"
expect 0 check "$scratch/rates2.toml"
says 'the loops of the robot do not permit the rates that the scene gives together.*left_motor \(0\.7 rad/s in the scene, 3\.2[0-9]* rad/s at the start\)'

# Out of reach: the bars of 0.2 m leave 0.2 m. Within limits of 0.1 rad there is no pose either, but beyond them.
robot 0.2 1.5 >"$scratch/robot.urdf"
expect 4 check "$scratch/scene.toml"
says 'no pose within the limits of the joints was found that closes them\. The least gap was 0\.20*[0-9]? m or rad at "end"'
says 'Check the frames of: end'
robot 0.3 0.1 >"$scratch/robot.urdf"
"$linchpin" check "$scratch/scene.toml" >"$scratch/out" 2>"$scratch/err"
says 'They close only beyond the limits of: left_motor, right_motor'

# Frames that turn by half a turn from each other are open, although the rows of a weld would not show it.
cat >"$scratch/robot.urdf" <<'URDF'
<robot name="half turn"><link name="base"/><link name="stop"/>
<link name="crank"><inertial><mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="0.1"/></inertial></link>
<joint name="axle" type="continuous"><parent link="base"/><child link="crank"/><axis xyz="0 0 1"/></joint>
<joint name="stop_joint" type="fixed"><origin xyz="0 0 0" rpy="0 0 3.0"/><parent link="base"/><child link="stop"/></joint></robot>
URDF
printf 'closed_loop: [[stop, crank]]\ntype: [6d]\n' >"$scratch/robot.yaml"
cp "$scratch/scene.toml" "$scratch/turn.toml"
printf '[[expect]]\nvalue = "joint_position(axle)"\nat = 0\nis = 3\ntolerance = 1e-9\n' >>"$scratch/turn.toml"
expect 0 run "$scratch/turn.toml" --json
holds '[.solver.expect[].met] | all'

# Replaced joints and faults of the file.
fault() {  # TEXT OF robot.yaml, PATTERN
  printf '%b' "$1" >"$scratch/robot.yaml"
  expect 3 check "$scratch/scene.toml"
  says "$2"
}
fault 'closed_loop: [[stop, cranc]]\ntype: [6d]\n' 'robot.yaml:1:.*no link or joint with the frame "cranc"; did you mean "crank"'
fault 'closed_loop: [[stop, crank]]\n' 'closed_loop has 1 pair of frames, and type has 0 entries'
fault 'closed_loop: [[stop, crank]]\ntype: [5d]\n' 'robot.yaml:2:8: error: type: a loop is 3d \(a ball joint\) or 6d \(a weld\), not "5d"'
fault 'closed_loop: [stop, crank]\ntype: [6d, 6d]\n' 'each loop is a pair of frames'
fault 'closed_loops: []\n' 'there is no key "closed_loops" in a robot.yaml; did you mean "closed_loop"'
fault 'closed_loop: [[stop, crank]]\ntype: [6d]\ntype: [3d]\n' 'robot.yaml:3:1: error: the key type occurs twice, first in line 2'
fault 'closed_loop: [[stop, crank]\n' 'robot.yaml:.*the file is no YAML'
fault '- a\n' 'needs the keys closed_loop and type'
fault 'closed_loop: []\ntype: []\njoint_name: [axle]\njoint_type: [ROUND]\n' 'a joint becomes SPHERICAL, FIXED or UJOINT_XY'
fault 'closed_loop: []\ntype: []\njoint_name: [axel]\njoint_type: [SPHERICAL]\n' 'there is no joint "axel" to replace; did you mean "axle"'
printf 'closed_loop: []\ntype: []\njoint_name: [axle]\njoint_type: [UJOINT_ZX]\n' >"$scratch/robot.yaml"
expect 0 check "$scratch/scene.toml" --json
holds '.degrees_of_freedom == 2 and .constraints[0].type == "universal"'

done_testing
