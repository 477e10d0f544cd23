# MJCF files on the hosts that are not MuJoCo: MuJoCo reads the file, and gives it as a scene.
source "$(dirname "$0")/common.bash" "$@"

[ -x "$bin/linchpin-worker-mujoco" ] || {
  echo "skipped: no linchpin-worker-mujoco was built (scripts/setup --mujoco)"
  done_testing
}
cd "$scratch" || exit 1

# A four-bar whose joints have springs, dampers and armature. @param $1 step, $2 more of each joint
four_bar() {
  cat <<XML
<mujoco>
  <option timestep="$1"/>
  <default>
    <geom type="capsule" size="0.02" contype="0" conaffinity="0"/>
    <joint type="hinge" axis="0 1 0" $2/>
  </default>
  <worldbody>
    <body name="crank">
      <joint name="crank_pin"/>
      <geom fromto="0 0 0 0.1694 0 0.2476" mass="1"/>
      <body name="coupler" pos="0.1694 0 0.2476">
        <joint name="elbow"/>
        <geom fromto="0 0 0 0.7216 0 0.3455" mass="2"/>
        <site name="tip" pos="0.7216 0 0.3455"/>
      </body>
    </body>
    <body name="rocker" pos="0.8 0 0">
      <joint name="rocker_pin"/>
      <geom fromto="0 0 0 0.091 0 0.5931" mass="1.5"/>
    </body>
  </worldbody>
  <equality><connect name="loop" body1="coupler" body2="rocker" anchor="0.7216 0 0.3455"/></equality>
</mujoco>
XML
}

# A planar base, joints beside the frames of their bodies, references, a limit, a ball joint with damping, a joint that
# follows another, a weld, and what these hosts cannot express.
cat >tree.xml <<'XML'
<mujoco>
  <option timestep="0.001"/>
  <default><geom type="capsule" size="0.02" contype="0" conaffinity="0"/></default>
  <worldbody>
    <body name="base" pos="0 0 1">
      <joint name="x" type="slide" axis="1 0 0" damping="0.5"/>
      <joint name="z" type="slide" axis="0 0 1" stiffness="100"/>
      <joint name="pitch" axis="0 1 0" pos="0.05 0 0.02"/>
      <geom type="box" size=".1 .05 .05" pos="0.02 0 0.01" euler="10 20 30" mass="2"/>
      <body name="thigh" pos="0.1 0 0" euler="0 20 0">
        <joint name="hip x" axis="1 0 0" pos="0 0 0.01"/>
        <joint name="hip y" axis="0 1 0" pos="0 0 0.01" ref="10"/>
        <geom fromto="0 0 0 0 0 -0.3" mass="1"/>
        <body name="shin" pos="0 0 -0.3">
          <joint name="knee" axis="0 1 0" pos="0.01 0 0.03" ref="20" range="-90 40" limited="true"/>
          <geom fromto="0 0 0 0.1 0 -0.3" mass="0.6"/>
          <body name="tip" pos="0.1 0 -0.3"><geom type="sphere" size="0.03" mass="0.1"/></body>
        </body>
      </body>
      <body name="first" pos="-0.1 0.1 0"><joint name="leader" axis="0 1 0" ref="15"/><geom fromto="0 0 0 0.2 0 0" mass="0.3"/></body>
      <body name="second" pos="-0.1 -0.1 0"><joint name="follower" axis="0 1 0"/><geom fromto="0 0 0 0.2 0 0" mass="0.3"/></body>
    </body>
    <body name="ball" pos="0.4 0 1"><joint name="socket" type="ball" pos="0 0 0.1" damping="0.05"/><geom fromto="0 0 -0.1 0.2 0 -0.2" mass="0.3"/></body>
    <body name="free" pos="0.4 1 1"><freejoint/><geom fromto="0 0 -0.1 0.2 0 -0.2" mass="0.3"/></body>
    <body name="pointer" mocap="true" pos="3 0 0"><geom type="sphere" size="0.1"/></body>
  </worldbody>
  <equality>
    <weld name="hold" body1="free" body2="ball"/>
    <joint name="follow" joint1="follower" joint2="leader" polycoef="0 -0.5 0 0 0"/>
    <joint name="curve" joint1="hip y" joint2="knee" polycoef="0 0.5 1 0 0" active="false"/>
  </equality>
  <tendon><fixed name="string"><joint joint="knee" coef="1"/></fixed></tendon>
  <actuator>
    <position name="servo" joint="knee" kp="2"/>
    <motor name="idle" joint="leader"/>
    <motor name="puller" tendon="string"/>
  </actuator>
</mujoco>
XML

# apart FILE SECONDS OTHER TITLE… : largest distance of columns at the end on MuJoCo and on another host.
apart() {
  local file=$1 seconds=$2 host=$3 title largest=0
  shift 3
  expect 0 run "$file" --duration "$seconds" --csv of-mujoco.csv
  expect 0 run "$file" --duration "$seconds" --csv of-other.csv --host "$host"
  rectangular of-other.csv
  for title; do
    largest=$(paste -d ' ' <(column of-mujoco.csv "$title" "$(($(wc -l <of-mujoco.csv) - 1))") \
      <(column of-other.csv "$title" "$(($(wc -l <of-other.csv) - 1))") |
      awk -v l="$largest" 'NF != 2 {print 1; exit} {d = $1 - $2; d = d < 0 ? -d : d; print (d > l ? d : l)}')
  done
  echo "$largest"
}
below() { awk -v x="$1" -v most="$2" 'BEGIN {exit !(x <= most)}' || fail "$3: $1 is above $2"; }

# ---- the same mechanism on all hosts: positions agree to the order of the step
titles=('crank.x [m]' 'crank.z [m]' 'coupler.x [m]' 'coupler.z [m]' 'rocker.x [m]' 'rocker.z [m]')
for more in '' 'damping="0.1" stiffness="2" springref="20" armature="0.05"'; do
  four_bar 0.002 "$more" >four-bar.xml
  four_bar 0.0005 "$more" >fine.xml
  for host in bare bullet-float64 bullet; do
    coarse=$(apart four-bar.xml 0.5 $host "${titles[@]}")
    below "$coarse" 2e-3 "four-bar with '$more' on $host"
    [ $host = bullet ] || below "$(apart fine.xml 0.5 $host "${titles[@]}")" "$(awk -v x="$coarse" 'BEGIN {print 0.35 * x}')" "a quarter of the step on $host"
  done
done
titles=('base.x [m]' 'base.z [m]' 'thigh.x [m]' 'shin.x [m]' 'shin.z [m]' 'tip.z [m]' 'first.x [m]' 'second.z [m]' 'ball.x [m]' 'ball.y [m]' 'free.z [m]')
for host in bare bullet-float64 bullet; do
  below "$(apart tree.xml 0.3 $host "${titles[@]}")" 4e-3 "tree on $host"
done
for word in 'tendons are left out.*: string' 'mocap bodies stay where they are at the start: pointer' \
  'equalities that the file switches off are left out: curve' 'exert nothing, as on MuJoCo: idle' \
  'actuators of tendons.*are left out: puller' 'one compound joint each: "pitch" \("x", "z", "pitch"\)'; do
  says "^note: .*$word"
done
expect 0 run tree.xml --host bare --json
holds '.host == "bare" and .dt == 0.001 and .gravity == [0, 0, -9.81] and (.solver.status | startswith("ok"))' '.solver.max_gap_m <= 1e-12'

# ---- actuators and couplings whose numbers are not the usual ones
cat >numbers.xml <<'XML'
<mujoco>
  <compiler angle="radian"/>
  <option timestep="0.001" actuatorgroupdisable="2"/>
  <default><geom type="capsule" size="0.02" contype="0" conaffinity="0"/></default>
  <worldbody>
    <body name="a"><joint name="bent" axis="0 1 0" ref="0.2"/><geom fromto="0 0 0 0.3 0 0" mass="1"/></body>
    <body name="b" pos="0 1 0"><joint name="other" axis="0 1 0"/><geom fromto="0 0 0 0.3 0 0" mass="1"/></body>
    <body name="c" pos="0 2 0"><joint name="held" axis="0 1 0"/><geom fromto="0 0 0 0.3 0 0" mass="1"/></body>
    <body name="d" pos="0 3 0"><joint name="loose" axis="0 1 0" armature="0.5" actuatorfrcrange="-1 1"/><geom fromto="0 0 0 0.3 0 0" mass="1"/></body>
    <body name="e" pos="0 4 0"><joint name="stop" axis="0 1 0" range="-1 0.5" limited="true" margin="0.1"/><geom fromto="0 0 0 0.3 0 0" mass="1"/></body>
  </worldbody>
  <equality><joint name="coupling" joint1="bent" joint2="other" polycoef="0 0.5 0 0 0"/></equality>
  <actuator>
    <position name="servo" joint="held" kp="5" ctrlrange="0.1 0.5" ctrllimited="true"/>
    <position name="off" joint="other" kp="50" group="2"/>
    <position name="weak" joint="loose" kp="2"/>
  </actuator>
</mujoco>
XML
for host in bare bullet-float64; do
  below "$(apart numbers.xml 0.2 $host 'a.x [m]' 'b.z [m]' 'c.x [m]' 'c.z [m]')" 5e-4 "numbers on $host"
done
says '^note: .*actuators of groups that the file switches off are left out: off'
says '^note: .*actuatorfrcrange of joints is left out: loose'
expect 0 convert numbers.xml numbers.toml
grep -q 'lower="-0.9[0-9]*" upper="0.4[0-9]*"' numbers.toml || fail "the limits do not begin at the margin: $(grep lower numbers.toml)"

# ---- sensors of a scene read in the axes of the same body
cat >sensed.xml <<'XML'
<mujoco>
  <option timestep="0.0005"/>
  <default><geom type="capsule" size="0.02" contype="0" conaffinity="0"/></default>
  <worldbody>
    <body name="upper" pos="0 0 1" euler="5 10 20"><joint name="shoulder" axis="0 1 0" pos=".02 0 .01"/><geom fromto="0 0 0 .3 0 0" mass="1"/>
      <body name="lower" pos=".3 0 0" euler="30 10 0"><joint name="elbow" axis="0 1 .2"/><geom fromto="0 0 0 .3 0 .1" mass=".7"/></body></body>
  </worldbody>
</mujoco>
XML
cat >sensed.toml <<'TOML'
schema = 2
[model]
mjcf = "sensed.xml"
[[sensor]]
name = "s"
joint = "shoulder"
[[sensor]]
name = "e"
joint = "elbow"
TOML
for law in '' '[[attach]]
to = "elbow"
law = { type = "viscous_torque", coefficient = 0.01 }'; do
  echo "$law" >>sensed.toml
  for host in mujoco bare bullet-float64; do
    expect 0 run sensed.toml --duration 0.2 --host $host --csv sensed-$host.csv
  done
  for title in 's_force.x [N]' 's_force.z [N]' 's_torque.x [N m]' 'e_torque.z [N m]'; do
    a=$(column sensed-mujoco.csv "$title" 200)
    for host in bare bullet-float64; do
      awk -v a="$a" -v b="$(column sensed-$host.csv "$title" 200)" 'BEGIN {exit !(a * a > 1e-3 && (a - b) ^ 2 < 1e-4 * a * a)}' ||
        fail "$title on $host with '$law': $a"
    done
  done
done

# ---- contacts: on the hosts of Bullet
cat >drop.xml <<'XML'
<mujoco>
  <worldbody>
    <geom type="plane" size="3 3 .1"/>
    <body name="box" pos="0 0 .15"><freejoint/><geom type="box" size=".1 .1 .1" mass="1"/></body>
    <body name="egg" pos="1 0 .5"><freejoint/><geom name="shell" type="ellipsoid" size=".1 .1 .2" mass="1"/></body>
  </worldbody>
</mujoco>
XML
expect 0 run drop.xml --host bullet-float64 --duration 1 --csv drop.csv
says '^note: geometries that are meshes.*collide with nothing: shell'
below "$(column drop.csv 'box.z [m]' 400 | awk '{print ($1 > 0.095 && $1 < 0.105) ? 0 : 1}')" 0 "a box on the floor"

# ---- all commands
four_bar 0.002 '' >four-bar.xml
expect 0 check four-bar.xml --json
holds '.bodies == 3 and .rank == 17 and .degrees_of_freedom == 1' '[.constraints[].name] == ["crank_pin", "elbow", "rocker_pin", "loop"]'
expect 0 check four-bar.xml --frames
prints '^tip +coupler'
expect 0 explain four-bar.xml loop
expect 0 equilibrium four-bar.xml --json
holds '.equilibria | length > 0'
expect 2 sweep four-bar.xml --set mass=1,2 --out swept.csv
says 'an MJCF file has no \[params\]\. Include it in a \.toml scene: mjcf = "four-bar\.xml" in \[model\]'
cat >swept.toml <<'TOML'
schema = 2
[model]
mjcf = "four-bar.xml"
[params]
push = 1
[world]
duration = 0.2
gravity = [0, 0, -1]
[[force]]
name = "push"
frame = "tip"
force = ["push", 0, 0]
[[log]]
channel = "joint_position(crank_pin)"
TOML
expect 0 sweep swept.toml --set push=0,1,10 --out swept.csv
[ "$(awk -F, 'NR > 1 {print $(NF - 1)}' swept.csv | sort -u | wc -l)" = 3 ] || fail "a sweep of a scene with an MJCF file: $(cat swept.csv)"
expect 0 check swept.toml
expect 0 run swept.toml --host bare --json
holds '.host == "bare" and .dt == 0.002 and .gravity == [0, 0, -1] and .duration == 0.2'
expect 0 run swept.toml --json
holds '.host == "mujoco" and .gravity == [0, 0, -1]'
sed 's/^\[world\]/&\nhost = "bullet-float64"/' swept.toml >bullet.toml
expect 0 run bullet.toml --json
holds '.host == "bullet-float64"'
expect 0 run bullet.toml --json --host mujoco
holds '.host == "mujoco"'

# ---- compare: hosts side by side
expect 0 compare four-bar.xml --duration 0.2 --with exact,mujoco,bullet:exact,bullet:si,bare:exact --json --csv table --report page.html
holds '[.solvers[].name] == ["exact", "mujoco", "bullet:exact", "bullet:si", "bare:exact"]' \
  '[.solvers[].status] | all(startswith("ok"))' '.solvers | (.[0].max_gap_m <= 1e-9 and .[2].max_gap_m <= 1e-9 and .[4].max_gap_m <= 1e-9)' \
  '.solvers[1].max_gap_m > 1e-4 and .solvers[3].max_gap_m > 1e-6'
for name in exact mujoco bullet-exact bullet-si bare-exact; do rectangular table-$name-double.csv; done
[ -s page.html ] || fail "no page of the comparison"
expect 0 compare four-bar.xml --duration 0.1 --with bullet:exact,bare:exact --precision both
prints '^bullet:exact +single'
prints '^In double precision, exact keeps every joint closed to'
expect 0 compare "$source/demos/scenes/winch.toml" --duration 0.1 --with exact,bare:exact --json
holds '[.solvers[].status] == ["ok", "ok"]'
expect 2 run four-bar.xml --solver bare:exact
says 'is one of compare\. Use --solver exact --host bare'

# ---- convert: the scene as a file
expect 0 convert tree.xml tree.toml
prints '^wrote tree\.toml$'
says '^note: tendons are left out'
grep -q '^# note: tendons are left out' tree.toml || fail "the scene does not name what it has not"
expect 0 run tree.toml --csv of-scene.csv --duration 0.1
expect 0 run tree.xml --host bare --csv of-file.csv --duration 0.1
cmp -s of-scene.csv of-file.csv || fail "the converted scene moves otherwise than the file"
expect 0 convert four-bar.xml
prints '^schema = 2$'
expect 3 convert tree.toml
says 'is no MJCF file'
expect 2 convert four-bar.xml four-bar.xml

# ---- what is wrong
sed 's/axis="0 1 0"/axes="0 1 0"/' four-bar.xml >bad.xml
expect 3 check bad.xml
says '^bad\.xml:5:5: error: MuJoCo: .*unrecognized attribute: .axes.'
sed 's/four-bar/bad/' swept.toml >bad.toml
expect 3 check bad.toml
says '^bad\.toml:3:.*"bad\.xml": .*MuJoCo: '
sed 's/four-bar/nowhere/' swept.toml >bad.toml
expect 3 check bad.toml
says '^bad\.toml:3:.*"nowhere\.xml": does not exist'
done_testing
