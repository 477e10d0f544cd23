# MJCF files: MuJoCo reads and runs them, and linchpin makes their equalities exact.
source "$(dirname "$0")/common.bash" "$@"

# ---- without the worker: what to do
cat >"$scratch/four-bar.xml" <<'XML'
<!-- The root element decides, not the name. -->
<mujoco model="four-bar">
  <option timestep="0.002"/>
  <default>
    <geom type="capsule" size="0.02" contype="0" conaffinity="0"/>
    <joint type="hinge" axis="0 1 0"/>
  </default>
  <worldbody>
    <body name="crank">
      <joint name="crank_pin"/>
      <geom fromto="0 0 0 0.1694 0 0.2476" mass="1"/>
      <body name="coupler" pos="0.1694 0 0.2476">
        <joint name="elbow"/>
        <geom fromto="0 0 0 0.7216 0 0.3455" mass="2"/>
      </body>
    </body>
    <body name="rocker" pos="0.8 0 0">
      <joint name="rocker_pin"/>
      <geom fromto="0 0 0 0.091 0 0.5931" mass="1.5"/>
    </body>
  </worldbody>
  <equality>
    <connect name="loop" body1="coupler" body2="rocker" anchor="0.7216 0 0.3455"/>
  </equality>
</mujoco>
XML
mkdir "$scratch/alone"
cp "$linchpin" "$scratch/alone/linchpin"
"$scratch/alone/linchpin" run "$scratch/four-bar.xml" >"$scratch/out" 2>"$scratch/err"
[ $? -eq 2 ] || fail "without a worker: $(cat "$scratch/err")"
says 'the program for MuJoCo, which reads MJCF files, was not found .*"scripts/setup --mujoco", and build linchpin again'
[ -x "$bin/linchpin-worker-mujoco" ] || {
  echo "skipped: no linchpin-worker-mujoco was built (scripts/setup --mujoco)"
  done_testing
}
cd "$scratch" || exit 1

# ---- compare: a row per solver, with the columns that scenes have
expect 0 compare four-bar.xml --json --csv table
[ -s err ] && fail "progress or noise where stderr is no terminal: $(cat err)"
holds '[.solvers[].name] == ["exact", "mujoco", "mujoco:stiff"] and ([.solvers[] | .precision == "double" and .status == "ok" and .steps == 1000 and .ns_per_step > 0] | all)' \
  '.schema == 2 and .dt == 0.002 and .duration == 2 and .bodies == 3 and .joints == 4 and .gravity == [0, 0, -9.81] and .gravity_from == "file"' \
  '.solvers[0] | .max_gap_m <= 1e-9 and .fallbacks == 0 and .native == [] and .force_rms_error_rel < 1e-7 and .force_samples > 100 and .force_basis == "coordinates"' \
  '.solvers[1] | .max_gap_m > 1e-3 and .max_gap_m < 5e-2 and .max_gap_joint == "loop" and .force_rms_error_rel > 1e-3' \
  '.solvers[2] | .max_gap_m > 1e-5 and .max_gap_m < 1e-3' \
  '[.solvers[] | .rank.rows == 3 and .rank.rank == 2 and .rank.redundant == ["loop"] and .max_energy_error_J > 0.01 and .max_energy_error_J < 2] | all' \
  '.solvers[1].method.stabilisation == "soft constraints, as the model has them" and (.solvers[1].method.host | test("^MuJoCo [0-9.]+$"))' \
  '.solvers[2].method.stabilisation | test("solref=\"0.004 1\" solimp=\"0.9999 0.9999 0.001\"")'
# The tables have states, gaps, energy, and the forces of the equality and of all joints by name.
for solver in exact mujoco mujoco-stiff; do
  rectangular "table-$solver-double.csv"
  # The first state is the same for all of them, and so are the forces there, but for the softness of the rows.
  awk -v x="$(column "table-$solver-double.csv" 'crank_pin.Fz [N]' 1)" 'BEGIN {exit !(x < -17.3 && x > -17.6)}' ||
    fail "$solver: another force on the crank at the start"
done
[ "$(column table-exact-double.csv 'crank_pin.My [N m]' 400 | awk '{print ($1 < 1e-9 && $1 > -1e-9)}')" = 1 ] ||
  fail "a free hinge transmits a moment along its axis"
expect 0 compare four-bar.xml
prints '^In double precision, exact keeps every joint closed to .* The best native solver, mujoco:stiff, leaves a gap of'
prints '^mujoco +double .* ok$'
prints '^mujoco:stiff +double .* ok$'
prints 'the joints have 3 equations, and 2 of them are independent\. Redundant: loop'
prints 'forces are compared along the coordinates of the model'
expect 0 compare four-bar.xml --with exact --dt 1/1000 --duration 0.1 --gravity 0,0,0 --json
holds '.dt == 0.001 and .gravity == [0, 0, 0] and .gravity_from == "option" and .solvers[0].steps == 100 and .solvers[0].max_energy_error_J == 0'

# ---- run: the same keys as other hosts, files for viewers, and the forces in them
expect 0 run four-bar.xml --json --csv run.csv --record run.rec --report page.html --gltf run.glb --mcap run.mcap
holds '.host == "mujoco" and .solver.name == "exact" and .solver.max_gap_m <= 1e-9 and .solver.laws == [] and .solver.energy_gains == []'
for file in run.csv run.rec page.html run.glb run.mcap; do [ -s $file ] || fail "run: no $file"; done
rectangular run.csv
expect 0 report run.rec --out again.html
expect 0 run four-bar.xml
prints '^linchpin in MuJoCo [0-9.]+$'
prints 'redundant constraints, which other constraints imply: loop'
expect 0 run four-bar.xml --solver mujoco
prints '^MuJoCo [0-9.]+ alone \(mujoco\)$'
prints 'energy .* J at the start'
expect 0 run four-bar.xml --solver mujoco:stiff --host mujoco
# Everything but the time is the same the next time.
for n in 1 2; do
  expect 0 compare four-bar.xml --duration 0.2 --json
  jq 'del(.solvers[].ns_per_step)' out >again$n
done
cmp -s again1 again2 || fail "two runs differ"

# ---- welds, couplings of joints, contacts, actuators and names that are missing
cat >mixed.xml <<'XML'
<mujoco>
  <worldbody>
    <geom type="plane" size="3 3 .1"/>
    <body name="box" pos="0 0 .5"><freejoint/><geom type="box" size=".1 .1 .1" mass="1"/></body>
    <body name="lid" pos="0 0 .75"><freejoint/><geom type="box" size=".1 .1 .1" mass="1"/></body>
    <body pos="1 0 .5"><joint name="j1" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 .3 0 0" size=".02" contype="0" conaffinity="0"/>
      <body pos=".3 0 0"><joint name="j2" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 .3 0 0" size=".02" contype="0" conaffinity="0"/></body></body>
  </worldbody>
  <equality><weld body1="box" body2="lid"/><joint joint1="j1" joint2="j2" polycoef="0 0.5 0.1 0 0"/></equality>
</mujoco>
XML
expect 0 compare mixed.xml --duration 1 --json --csv mixed
holds '.solvers[0] | .max_gap_m <= 1e-9 and .max_gap_rad <= 1e-9 and .force_rms_error_rel < 1e-7' \
  '.solvers[1] | .max_gap_m > 1e-4 and .max_gap_rad > 1e-3' \
  '[.solvers[].energy_note | startswith("contacts from step ")] | all'
rectangular mixed-exact-double.csv
head -n 1 mixed-exact-double.csv | grep -q '^t \[s\],box\.x \[m\].*,body#3\.x \[m\].*,equality#0\.gap \[m\],equality#1\.gap \[rad\],' || fail "names: $(head -n 1 mixed-exact-double.csv)"

# Contacts that MuJoCo leaves out are told. (MuJoCo 2 has other limits.)
if grep -q 'MuJoCo [3-9]' <("$linchpin" run four-bar.xml --duration 0.01); then
  {
    echo '<mujoco><size memory="200K"/><worldbody><geom type="plane" size="3 3 .1"/>'
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
      echo "<body pos='0.0$i 0 .$i'><freejoint/><geom type='box' size='.2 .2 .2'/></body>"
    done
    echo '</worldbody></mujoco>'
  } >full.xml
  expect 0 run full.xml --solver mujoco --duration 0.01
  prints '^status: ok, but MuJoCo left out contacts or constraints for want of memory'
fi

# ---- what is refused
sed 's/<option /<option integrator="RK4" /' four-bar.xml >rk4.xml
expect 4 run rk4.xml
says 'linchpin run: exact: the integrator RK4 takes stages within a step'
expect 4 compare rk4.xml --duration 0.1 --json
holds '(.solvers[0].status | startswith("refused: the integrator RK4")) and .solvers[1].status == "ok"'
sed 's/axis="0 1 0"/axes="0 1 0"/' four-bar.xml >bad.xml
expect 3 run bad.xml
says '^bad\.xml:6:5: error: MuJoCo: .*unrecognized attribute: .axes.'
says '^ +<joint type="hinge" axes'
[ -s out ] && fail "stdout of a file that is wrong: $(cat out)"
sed 's/body2="rocker"/body2="rcoker"/' four-bar.xml >unknown.xml
expect 3 compare unknown.xml
says '^unknown\.xml.*: error: MuJoCo: .*rcoker'
head -c 200 four-bar.xml >cut.xml
expect 3 run cut.xml
says '^cut\.xml.*: error: MuJoCo: '
echo '<mujoco><worldbody/></mujoco>' >empty.xml
expect 3 run empty.xml
says '^empty\.xml: error: holds no body beside the world'
expect 2 run four-bar.xml --solver mujoco:stif
says 'there is no solver "mujoco:stif"; did you mean "mujoco:stiff"\?'
expect 2 run four-bar.xml --solver bullet:si --host mujoco
says 'solver "bullet:si" is Bullet.s, and MuJoCo runs this file. Known for MJCF files: exact, mujoco, mujoco:stiff'
expect 2 compare "$source/demos/scenes/winch.toml" --with exact,mujoco
says 'solver "mujoco" is MuJoCo.s, which runs MJCF files only'
expect 2 run four-bar.xml --host bulet
says '--host is "bulet", expected bare, bullet, bullet-float64 or mujoco; did you mean "bullet"'
expect 2 run "$source/demos/scenes/winch.toml" --host mujoco
says '--host mujoco runs MJCF files only'
expect 2 run four-bar.xml --method rk4
says 'set integrator in <option> of the file'
expect 2 run four-bar.xml --as bodies
says '--as applies to robots of URDF and SDF files'
expect 2 compare four-bar.xml --precision both
says '--precision applies to Bullet'
expect 2 run four-bar.xml --csv four-bar.xml

# ---- the root element decides: a URDF with a <mujoco> element stays a URDF, and MJCF may have any name
cp four-bar.xml four-bar.urdf
expect 0 run four-bar.urdf --duration 0.1 --json
holds '.host == "mujoco"'
sed 's|<robot[^>]*>|&<mujoco><compiler/></mujoco>|' "$source/demos/scenes/four-bar-robot.urdf" >robot.urdf
expect 0 run robot.urdf --duration 0.1 --json
holds '.host == "bare"'
# ---- a scene with an MJCF file: constraints between its bodies and sites, laws on its joints, logs and expectations
sed -i 's|</body>\n  </worldbody>||; s|<geom fromto="0 0 0 0.091 0 0.5931" mass="1.5"/>|&<site name="tip" pos="0.091 0 0.5931"/>|' four-bar.xml
cat >driven.toml <<'TOML'
schema = 2
title = "a four-bar of MuJoCo, driven"
[model]
mjcf = "four-bar.xml"
[world]
duration = 1
[[constraint]]
name = "drive"
equation = "atan2(crank.axis(0, 0, 1).x, crank.axis(0, 0, 1).z) = 0.2*sin(3*t)"
unit = "rad"
[[attach]]
to = "rocker_pin"
law = { type = "hinge_friction", mu = 0.2, pin_radius = 0.01 }
[[log]]
channel = "joint_position(crank_pin)"
[[log]]
channel = "reaction(rocker_pin, rocker)"
[[log]]
channel = "tip.position"
[[log]]
channel = "reaction(loop, coupler)"
[[expect]]
value = "joint_position(crank_pin)"
at = 0.5
is = "0.2*sin(1.5)"
tolerance = 1e-9
[[expect]]
value = "norm(tip.position - [0.8, 0, 0])"
throughout = true
is = "sqrt(0.091^2 + 0.5931^2)"
tolerance = 1e-9
[[expect]]
value = "gap(loop)"
throughout = true
is = 0
tolerance = 1e-9
TOML
expect 0 run driven.toml --json --csv driven.csv --record driven.rec --report driven.html --mcap driven.mcap
holds '.host == "mujoco" and .dt == 0.002 and .duration == 1 and .joints == 5 and .gravity == [0, 0, -9.81]' \
  '.solver | .status == "ok" and .max_gap_m <= 1e-9 and .max_gap_rad <= 1e-9 and ([.expect[].met] | all and length == 3)' \
  '.solver.laws | length == 1 and .[0].constraint == "rocker_pin" and .[0].work_J < 0' \
  '.solver.energy_note == "force laws" and .solver.force_rms_error_rel == null and (.solver.force_note | test("no constraints and laws of the scene"))'
rectangular driven.csv
for column in 'drive.gap [rad]' 'drive.My [N m]' 'joint_position(crank_pin) [rad]'; do
  [ -n "$(column driven.csv "$column" 100)" ] || fail "no column $column: $(head -n 1 driven.csv)"
done
# A log of a reaction is the column of the joint.
a=$(column driven.csv 'loop.Fz [N]' 300)
head -n 301 driven.csv | tail -n 1 | grep -q -- ",$a," || fail "no force of the loop"
expect 0 run driven.toml
prints 'met +joint_position\(crank_pin\) at 0\.5 s'
sed 's/0\.2\*sin(1\.5)/0.1/' driven.toml >wrong.toml
expect 4 run wrong.toml
says '1 expectation of the scene \(\[\[expect\]\]\) was not met'
expect 0 compare driven.toml --duration 0.2 --json
holds '[.solvers[].name] == ["exact", "mujoco", "mujoco:stiff"] and .solvers[0].status == "ok"' \
  '.solvers[1].status == "refused: MuJoCo cannot hold the constraint \u0027drive\u0027 of the scene. Use the solver exact"'
# Without constraints and laws of the scene, MuJoCo takes it, with its forces and logs.
cat >pushed.toml <<'TOML'
schema = 2
[model]
mjcf = "four-bar.xml"
[world]
duration = 0.2
dt = 0.001
gravity = [0, 0, -1]
[[force]]
name = "push"
body = "coupler"
force = "[1, 0, 0]"
[[log]]
channel = "reaction(loop, rocker)"
[[log]]
channel = "reaction(elbow, coupler)"
TOML
for solver in exact mujoco:stiff; do
  expect 0 run pushed.toml --solver $solver --json --csv pushed-$solver.csv
  holds '.dt == 0.001 and .gravity == [0, 0, -1] and .solver.energy_note == "forces of the scene"'
  rectangular pushed-$solver.csv
done
# Both know the same forces at the start, up to the softness of the rows.
for title in 'reaction(loop, rocker).z' 'reaction(elbow, coupler).x'; do
  for solver in exact mujoco:stiff; do
    sed 's/"[^"]*"/q/g' pushed-$solver.csv | sed -n 2p | tr ',' '\n' | tail -n 6 | tr '\n' ' ' >last-$solver
  done
done
paste -d ' ' last-exact last-mujoco:stiff | awk '{for (i = 1; i <= 6; ++i) if (($i - $(i + 6))^2 > 1e-4) exit 1}' ||
  fail "logs of forces differ: $(cat last-exact), $(cat last-mujoco:stiff)"

# Frames: bodies whose inertial frames are turned, a body that cannot move, sites, the world. The residual is measured with the
# bodies of the scene, so it shows that both have the same axes.
cat >frames.xml <<'XML'
<mujoco>
  <option timestep="0.001"/>
  <worldbody>
    <site name="hook" pos="0 0.2 1.1"/>
    <body name="post" pos="0 0 1" euler="20 30 40">
      <geom type="box" size=".1 .2 .3" pos=".05 0 .1" contype="0" conaffinity="0"/>
      <site name="eye" pos=".1 .2 .3" euler="10 0 0"/>
    </body>
    <body name="brick" pos=".5 .1 1.2" euler="50 60 70">
      <freejoint/>
      <geom type="box" size=".1 .2 .3" pos=".05 .02 .1" euler="15 25 35" mass="2" contype="0" conaffinity="0"/>
      <site name="corner" pos=".1 .2 .3"/>
      <body name="flap" pos="0 0 .4" euler="5 6 7">
        <joint name="hinge" type="hinge" axis="1 2 3"/>
        <geom type="box" size=".1 .05 .2" pos=".03 .02 .1" euler="35 5 15" mass="1" contype="0" conaffinity="0"/>
      </body>
    </body>
  </worldbody>
</mujoco>
XML
# Conditions on velocities are met in the middle of a step, where MuJoCo's joints are then, as on the other hosts.
cat >cart.xml <<'XML'
<mujoco>
  <option timestep="0.002"/>
  <worldbody>
    <body name="cart" pos="0 0 0.1"><freejoint/><geom type="box" size="0.2 0.15 0.04" mass="5"/>
      <body name="left" pos="-0.1 0.17 0"><joint name="l" axis="0 1 0"/><geom type="sphere" size="0.1" mass="0.5"/></body>
      <body name="right" pos="-0.1 -0.17 0"><joint name="r" axis="0 1 0"/><geom type="sphere" size="0.1" mass="0.5"/></body>
    </body>
  </worldbody>
  <contact><exclude body1="cart" body2="left"/><exclude body1="cart" body2="right"/></contact>
</mujoco>
XML
cat >cart.toml <<'TOML'
schema = 2
[model]
mjcf = "cart.xml"
[world]
gravity = [0, 0, 0]
duration = 1
[[constraint]]
name = "left rolls"
velocity = "left.velocity + cross(left.omega, [0, 0, -0.1]) = [0, 0, 0]"
[[constraint]]
name = "right rolls"
velocity = "right.velocity + cross(right.omega, [0, 0, -0.1]) = [0, 0, 0]"
[[actuator]]
name = "drive"
joint = "l"
torque = "4"
[[log]]
channel = "reaction(l)"
TOML
expect 0 compare cart.toml --with exact,bullet:exact --json --csv carts
holds '.solvers | all(.status == "ok" and (.user_gaps | length == 2 and all(. < 1e-10)))'
awk -v q="$(column carts-exact-double.csv cart.qw 501)" 'BEGIN {exit !(q * q > 0.1 && q * q < 0.9)}' || fail "the cart did not turn"
# The force of a joint is that on its first body, the parent, on every host.
for table in carts-exact-double.csv carts-bullet-exact-double.csv; do
  awk -v a="$(column "$table" 'l.Fx [N]' 300)" -v b="$(column "$table" 'reaction(l).x [N]' 300)" \
    'BEGIN {exit !(a * a > 1 && (a - b) ^ 2 < 1e-3 * b * b)}' || fail "$table: another force on the cart"
done

cat >frames.toml <<'TOML'
schema = 2
[model]
mjcf = "frames.xml"
[world]
duration = 0.5
[[constraint]]
name = "rod"
equation = "dist2(eye.position, corner.position) = dist2(eye.start_position, corner.start_position)"
[[constraint]]
name = "second rod"
equation = "norm(post.point(0.1, 0.2, 0.3) - flap.point(0.1, 0, 0.2)) = 0.9"
[[joint]]
name = "ball"
type = "ball"
a = "world"
b = "flap"
at = [0.3, 0.2, 1.4]
[[attach]]
to = "hinge"
law = { type = "viscous", coefficient = 0.1 }
[[log]]
channel = "brick.frame.position"
TOML
sed -i '/start_position/s/.*/equation = "norm(eye.position - corner.position) = 0.6"/' frames.toml
expect 0 run frames.toml --json --csv frames.csv
holds '.solver | (.status | startswith("ok")) and .max_gap_m <= 1e-9' '.solver.max_gap_joint != null'
# The log is MuJoCo's origin of the body: at the start as in the file.
for part in x:0.5 y:0.1 z:1.2; do
  [ "$(column frames.csv "brick.frame.position.${part%%:*} [m]" 1 | awk -v x="${part##*:}" '{print (($1 - x)^2 < 1e-6)}')" = 1 ] ||
    fail "brick.frame.position.${part%%:*} at the start: $(column frames.csv "brick.frame.position.${part%%:*} [m]" 1)"
done
cat >bodies.toml <<'TOML'
schema = 2
[model]
mjcf = "four-bar.xml"
[[body]]
name = "load"
kind = "particle"
mass = 1
TOML
expect 3 run bodies.toml
says ".load. is a body or a coordinate of the scene, and MuJoCo has those of .*four-bar\.xml only"
refuse() { # TOML MESSAGE: a scene of the four-bar with these lines
  printf 'schema = 2\n%s\n' "$1" >refused.toml
  expect 3 run refused.toml
  says "$2"
}
refuse '[model]
mjcf = "nowhere.xml"' 'nowhere.xml'
refuse '[model]
mjcf = "bad.xml"' 'refused.toml:3:.*bad\.xml.*MuJoCo: .*axes'
refuse '[model]
mjcf = "four-bar.xml"
urdf = "x.urdf"' 'a model has one file: urdf, sdf or mjcf'
refuse '[model]
mjcf = "four-bar.xml"
[[log]]
channel = "reaction(lop)"' 'did you mean "loop"|loop'
refuse '[model]
mjcf = "four-bar.xml"
[[log]]
channel = "joint_acceleration(elbow)"' 'accelerations cannot be used with an MJCF file'
# The same scene on another host.
expect 0 run driven.toml --host bare
prints 'met +joint_position\(crank_pin\) at 0\.5 s'
[ -e MUJOCO_LOG.TXT ] && fail "MuJoCo wrote a log"
done_testing
