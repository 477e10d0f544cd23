# What verbs say of a scene beside its numbers: Painlevé's cases, several answers and redundancy in every verb that
# steps, what a search for rest leaves out, rows on velocities that hold positions, and units of coordinates.
source "$(dirname "$0")/common.bash" "$@"
scenes=$source/demos/scenes
cd "$scratch" || exit 1

# A rod that slides on its tip: at tan th = 2 no normal force lets it slide beyond mu = 4/3; at 60 degrees and 4 rad/s three
# normal forces satisfy mu = 1.6.
cat >rod.toml <<'TOML'
schema = 2
[params]
th = "atan(2)"
w = 0.0
mu = 1.4
[world]
duration = "1/240"
[[body]]
name = "rod"
mass = 1
inertia = [0.02, "1/3", "1/3"]
position = ["cos(th)", "sin(th)", 0]
rotation = { axis = [0, 0, 1], angle = "th" }
velocity = ["-0.7 - w*sin(th)", "w*cos(th)", 0]
omega = [0, 0, "w"]
[[joint]]
name = "tip"
type = "point_on_plane"
b = "rod"
at_b = [-1, 0, 0]
axis = [0, 1, 0]
law = { type = "coulomb", mu = "mu", normal_force = "coupled" }
TOML
expect 0 run rod.toml
prints "warning: law 'coulomb' on tip: the body cannot slide with any coupled normal force .*Painlev"
expect 0 sweep rod.toml --set mu=0.5,1.4 --column rod.x --out rod.csv
grep -Eq '^0,0.5,ok,' rod.csv || fail "below 4/3: $(cat rod.csv)"
grep -Eq "^1,1.3999.*,\"ok, but law 'coulomb' on tip: the body cannot slide with any coupled normal force .*Painlev" rod.csv || fail "beyond 4/3: $(cat rod.csv)"
expect 0 explain rod.toml tip
prints "warning: law 'coulomb' on tip: no coupled normal force satisfies the law .*a case of Painlevé"
sed -e 's|^th = .*|th = "pi/3"|' -e 's|^w = .*|w = 4|' -e 's|^mu = .*|mu = 1.6|' rod.toml >three.toml
expect 0 sweep three.toml --set mu=1.6 --column rod.x --out three.csv
grep -q '"ok, but several coupled normal forces satisfy the laws' three.csv || fail "three thrusts: $(cat three.csv)"
expect 0 explain three.toml --json
holds '.warnings | length == 1 and (.[0] | test("several coupled normal forces"))'

# A step without an answer is told to the end of the run, on every host and in a comparison.
for host in bare bullet bullet-float64; do
  expect 0 run rod.toml --host $host --duration 0.1
  prints "warning: law 'coulomb' on tip: the body cannot slide with any coupled normal force .*Painlev"
done
expect 0 run rod.toml --host bullet-float64 --duration 0.1 --json
holds '.solver.warnings | length == 1 and (.[0] | test("a case of Painlevé.*that begins at t = 0 s"))'
expect 0 compare rod.toml --duration 0.1
prints "exact, double: warning: law 'coulomb' on tip: the body cannot slide with any coupled normal force .*Painlev"
# Two tips whose names differ by a digit are two.
{
  sed -e 's|"rod"|"rod1"|' -e 's|"tip"|"tip1"|' rod.toml
  sed -e '/^\[\[body/,$!d' -e 's|"rod"|"rod2"|' -e 's|"tip"|"tip2"|' rod.toml
} >rods.toml
expect 0 run rods.toml --host bullet-float64 --duration 0.1
prints "warning: law 'coulomb' on tip1: the body cannot slide with any coupled normal force"
prints "warning: law 'coulomb' on tip2: the body cannot slide with any coupled normal force"

# A law with a memory is explained as the motion has it: the bristles of LuGre, bent by what went before.
sed -e '/^\[\[expect/,$d' -e 's|^law = .*|law = { type = "lugre", mu = 0.3, mu_kinetic = 0.2, speed = 0.01, stiffness = 1e4, damping = 100, viscous = 0.1 }|' \
  "$scenes/slider-friction.toml" >lugre.toml
printf '[[log]]\nchannel = "friction(rail, block).x"\n' >>lugre.toml
expect 0 run lugre.toml --duration 0.1 --csv lugre.csv
friction=$(tail -n 1 lugre.csv | sed 's/.*,//')
expect 0 explain lugre.toml rail --at 0.1 --json
holds "(.constraints[0].on[] | select(.body == \"block\") | .law_force[0] - $friction | fabs) < 1e-9 and ($friction | fabs) > 1"

# Redundancy: in the words of `run`, and whose forces it leaves open.
expect 0 run "$scenes/table-on-four-legs.toml"
prints '3 of 4 constraint equations are independent'
sed 's|^sx = .*|sx = 0.6|' "$scenes/table-on-four-legs.toml" >table.toml
expect 0 sweep table.toml --set sx=0.6,0.7 --column 'reaction(leg1, plate).y' --out table.csv
[ "$(grep -c '"ok, but 3 of 4 constraint equations are independent; the reactions of leg1, leg2, leg3, leg4 are undetermined' table.csv)" -eq 2 ] ||
  fail "redundant: $(cat table.csv)"
expect 0 explain table.toml
prints '^3 of 4 constraint equations are independent'
prints 'UNDETERMINED: redundant constraints share the load'
expect 0 explain table.toml --json
holds '.rank.rows == 4 and .rank.rank == 3 and (.rank.undetermined | length) == 4'

# A search for rest says what has no part in it, and so does a sweep of it.
cat >rest.toml <<'TOML'
schema = 2
[params]
L = 1.0
[[body]]
name = "bob"
mass = 1
shape = { sphere = 0.1 }
position = ["L", 0, 0]
[[joint]]
name = "pin"
type = "hinge"
b = "bob"
at = [0, 0, 0]
axis = [0, 0, 1]
law = { type = "hinge_friction", mu = 0.2, pin_radius = 0.05 }
TOML
expect 0 equilibrium rest.toml
prints "^left out: law 'hinge friction' on pin$|^left out: law 'hinge_friction.*' on pin$"
prints '^the equilibria below do not take it into account\. With it the scene may have others, or may not rest there$'
expect 0 equilibrium rest.toml --json
holds '.left_out | length == 1 and (.[0] | test("on pin$"))'
expect 0 sweep rest.toml --set L=1,2 --equilibrium --column bob.y --out rest.csv
[ "$(grep -c '"ok, but left out: law .* on pin",stable,' rest.csv)" -eq 2 ] || fail "left out: $(cat rest.csv)"
expect 0 equilibrium "$scenes/pendulum.toml"
grep -q 'left out' out && fail "nothing is left out of a pendulum"
cat >arm.urdf <<'URDF'
<robot name="arm">
  <link name="base"/>
  <link name="arm">
    <inertial>
      <origin xyz="0.5 0 0"/><mass value="1"/><inertia ixx="0.01" iyy="0.09" izz="0.09" ixy="0" ixz="0" iyz="0"/>
    </inertial>
  </link>
  <joint name="pin" type="revolute">
    <parent link="base"/><child link="arm"/><axis xyz="0 1 0"/>
    <limit lower="-0.3" upper="0.7" effort="10" velocity="10"/>
  </joint>
</robot>
URDF
if ! "$linchpin" check arm.urdf 2>&1 | grep -q "built without URDF"; then
  expect 0 equilibrium arm.urdf
  prints '^left out: pin: limits -0.3 to 0.7 rad$'
  # Laws on links of a multibody warn as those on bodies do.
  cat >bars.urdf <<'URDF'
<robot name="bars">
  <link name="base"/>
  <link name="upper">
    <inertial>
      <origin xyz="0.5 0 0"/><mass value="1"/><inertia ixx="0.02" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/>
    </inertial>
  </link>
  <link name="fore">
    <inertial>
      <origin xyz="0.5 0 0"/><mass value="1"/><inertia ixx="0.02" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/>
    </inertial>
  </link>
  <joint name="shoulder" type="continuous">
    <parent link="base"/><child link="upper"/><origin xyz="0 0.3 0"/><axis xyz="0 0 1"/>
  </joint>
  <joint name="elbow" type="continuous">
    <parent link="upper"/><child link="fore"/><origin xyz="1 0 0"/><axis xyz="0 0 1"/>
  </joint>
</robot>
URDF
  cat >bars.toml <<'TOML'
schema = 2
[world]
gravity = [0, -10, 0]
dt = 0.001
duration = 0.02
[model]
urdf = "bars.urdf"
as = "multibody"
[[constraint]]
name = "floor"
equation = "fore.point(0.5, 0, 0).y = 0"
application_points = { fore = [0.5, 0, 0] }
law = { force = "-N*slip_direction*1e3" }
TOML
  # The bars stop, and the slip is then of the size of rounding: its sign decides which of the steps have a force.
  expect 0 run bars.toml --host bullet-float64
  prints 'warning: law on floor: no coupled normal force satisfies the law .*a case of Painlevé.*\(in [0-9]+ steps, first in the one that begins at t = 0 s\)$'
fi

# A door on a vertical hinge rests wherever it stands: one place for all, and no rates of rounding.
cat >door.toml <<'TOML'
schema = 2
[[body]]
name = "door"
mass = 10
shape = { box = [1, 2, 0.05] }
position = [0.5, 0, 0]
[[joint]]
name = "h"
type = "hinge"
b = "door"
at = [0, 0, 0]
axis = [0, 1, 0]
TOML
expect 0 equilibrium door.toml
prints '^1. marginal: 0 rad/s; potential 0 J$'
prints '^   one of many equilibria beside each other, all with the same potential \(the frequency along them is 0\)$'
grep -q '^2\.' out && fail "one place is enough: $(cat out)"
expect 0 equilibrium door.toml --json
holds '.equilibria | length == 1 and .[0].continuum'

# A bicycle: the rows of its wheels along the normal of the road hold positions. No place of rest is in the road.
cat >bicycle.toml <<'TOML'
schema = 2
[params]
r = 0.3
[world]
gravity = [0, 0, -9.81]
[[body]]
name = "frame"
mass = 20
inertia = [2, 3, 2]
position = [0.45, 0, 0.8]
[[body]]
name = "fork"
mass = 3
inertia = [0.1, 0.1, 0.05]
position = [0.95, 0, 0.6]
[[body]]
name = "rear"
mass = 2
inertia = [0.05, 0.1, 0.05]
position = [0, 0, "r"]
[[body]]
name = "front"
mass = 2
inertia = [0.05, 0.1, 0.05]
position = [1, 0, "r"]
[[joint]]
name = "rear hub"
type = "hinge"
a = "frame"
b = "rear"
at = [0, 0, "r"]
axis = [0, 1, 0]
[[joint]]
name = "front hub"
type = "hinge"
a = "fork"
b = "front"
at = [1, 0, "r"]
axis = [0, 1, 0]
[[joint]]
name = "head"
type = "hinge"
a = "frame"
b = "fork"
at = [0.9, 0, 0.8]
axis = [-0.3, 0, 0.95]
[[constraint]]
name = "rear rolls"
velocity = "rear.velocity + cross(rear.omega, r/sqrt(1 - rear.axis(0,1,0).z^2)*(rear.axis(0,1,0).z*rear.axis(0,1,0) - [0,0,1])) = [0,0,0]"
[[constraint]]
name = "front rolls"
velocity = "front.velocity + cross(front.omega, r/sqrt(1 - front.axis(0,1,0).z^2)*(front.axis(0,1,0).z*front.axis(0,1,0) - [0,0,1])) = [0,0,0]"
TOML
expect 0 check bicycle.toml
prints '^row 3 of rear rolls is integrable: it is a condition on positions$'
prints '^row 3 of front rolls is integrable: it is a condition on positions$'
expect 0 equilibrium bicycle.toml --starts 6 --seconds 60 --json
# The centre of a wheel is above the road by r times the sine of the angle between the wheel's axis and the vertical.
holds '(.equilibria | length) > 0 and ([.equilibria[] | .bodies | (.rear, .front) |
  (.rotation as [$w, $x, $y, $z] | (2 * ($y * $z + $w * $x)) as $up | .position[2] - 0.3 * (1 - $up * $up | sqrt) | fabs)] | max) < 1e-7'

# An upright disk: the same row written alone, or as two that only together are integrable.
sed -e '/^\[\[expect/,$d' -e 's|^velocity = "disk.*|velocity = ["disk.velocity.x - r*disk.omega.y + disk.velocity.z = 0", "disk.velocity.y + r*disk.omega.x = 0", "disk.velocity.x - r*disk.omega.y - 2*disk.velocity.z = 0"]|' \
  "$scenes/rolling-disk.toml" >mixed.toml
expect 0 check mixed.toml --json
holds '.integrable | length == 1 and (.[0] | .constant and ([.rows[] | .row] == [1, 3]) and (.rows[0].coefficient + .rows[1].coefficient | fabs) < 1e-6)'
holds '.integrable[0].integral | test("disk.z$")'
expect 0 check "$scenes/skate.toml" --json
holds '.integrable == []'

# A turntable without t changes with nothing; an equation whose integral has t in it does.
expect 0 check "$scenes/ball-on-turntable.toml"
prints '^rolling .*nonholonomic, scleronomic, acatastatic$'
prints '^row 3 of rolling is integrable: it is the rate of ball.z$'

# Units of coordinates: of values, rates and generalized forces, in columns, words and recordings.
expect 0 run "$scenes/bead-on-turning-arm.toml" --csv arm.csv --record arm.rec --mcap arm.mcap
head -n 1 arm.csv | grep -qF "r [m],r' [m/s],phi [rad],phi' [rad/s],motor.gap [rad],motor on phi [N m]" || fail "header: $(head -n 1 arm.csv)"
jq -e '[.motions[0].bodies[] | .force_unit] == ["N", "N m"]' arm.rec >/dev/null || fail "recording: $(jq -c '.motions[0].bodies' arm.rec)"
grep -aq '/wrench/motor' arm.mcap && grep -aq 'N m' arm.mcap || fail "MCAP"
expect 0 explain "$scenes/bead-on-turning-arm.toml" motor --at 0.5
prints 'acts on phi with the generalized force [-0-9.e]+ N m$'
sed 's|^unit = "N m"$||' "$scenes/bead-on-turning-arm.toml" >arm.toml
for channel in "reaction(motor, phi):N m" "phi:rad" "phi':rad/s" "abs(r'):m/s" "lambda(motor):N m" "gap(motor):rad" "r^2:" "energy():J" "energy()^2:"; do
  printf '[[log]]\nchannel = "%s"\n' "${channel%:*}" >>arm.toml
done
expect 0 run arm.toml --csv arm.csv
head -n 1 arm.csv | grep -qF "\"reaction(motor, phi) [N m]\",phi [rad],phi' [rad/s],abs(r') [m/s],lambda(motor) [N m],gap(motor) [rad],r^2,energy() [J],energy()^2" ||
  fail "logs: $(head -n 1 arm.csv)"
printf 'schema = 2\n[[body]]\nname = "p"\nkind = "particle"\nmass = 1\n[[log]]\nchannel = "norm2(p.position)"\n[[log]]\nchannel = "norm(p.velocity)"\n' >norms.toml
expect 0 run norms.toml --csv norms.csv
head -n 1 norms.csv | grep -qF 'norm2(p.position),norm(p.velocity) [m/s]' || fail "norms: $(head -n 1 norms.csv)"
cat >swing.toml <<'TOML'
schema = 2
[[coordinate]]
name = "theta"
start = 0.3
unit = "rad"
[lagrangian]
kinetic = "0.5*theta'^2"
potential = "-9.81*cos(theta)"
[[constraint]]
name = "held"
equation = "theta = 0.3"
unit = "rad"
TOML
expect 0 equilibrium swing.toml
prints '^   theta = 0.3 rad$'
prints 'held acts on theta with the generalized force 2.899.* N m$'
done_testing
