# Balances and expectations of a run: what constraints that prescribe motion put in is no energy error, a work stands
# beside the state it belongs to, and an expectation is judged at its time or fails.
source "$(dirname "$0")/common.bash" "$@"
scenes=$source/demos/scenes
cd "$scratch" || exit 1

# A turntable moves a ball without t in the equation. Its work is no energy error, wherever the ball starts: at the
# middle the table asks for nothing yet.
sed -e 's|position = \[0.4, 0, "a"\]|position = [0, 0, "a"]|' -e 's|^omega = .*|omega = [-10, 2, 2]|' -e '/^\[\[expect/,$d' \
  "$scenes/ball-on-turntable.toml" >middle.toml
for scene in "$scenes/ball-on-turntable.toml" middle.toml; do
  expect 0 run "$scene" --json
  holds '.solver.max_energy_error_J < 1e-11 and .solver.energy_error_of == "energy minus the work of prescribed motions"'
  for host in bullet-float64:1e-11 bullet:1e-3; do
    expect 0 run "$scene" --host "${host%:*}" --json
    holds ".solver.max_energy_error_J < ${host#*:} and .solver.energy_error_of == \"energy minus the work of prescribed motions\""
  done
done
expect 0 compare "$scenes/ball-on-turntable.toml" --json --csv table
holds '.solvers[0].max_energy_error_J < 1e-11 and .solvers[0].energy_error_of != null'
holds '.solvers[1].max_energy_error_J == null and (.solvers[1].energy_note | test("prescribe motion .rolling.*native solver does not report"))'
# The table has the numbers that the error is made of.
error=$(LC_ALL=C awk -F, '
  NR == 1 { for (i = 1; i <= NF; ++i) { if ($i == "energy [J]") E = i; if ($i ~ /^work of prescribed motions/) W = i } next }
  NR == 2 { first = $E - $W }
  { d = $E - $W - first; if (d < 0) d = -d; if (d > most) most = d }
  END { printf "%.17g", most }' table-exact-double.csv)
holds "(.solvers[0].max_energy_error_J - $error | fabs) < 1e-13"
expect 0 compare "$scenes/ball-on-turntable.toml"
prints 'the energy error is that of energy minus the work of prescribed motions'
prints 'no energy error is given, because energy is not conserved: constraints prescribe motion \(rolling\)'
# A knife edge that turns with time is homogeneous in the velocities and does no work: its energy is judged as it is.
expect 0 run "$scenes/turning-edge.toml" --json
holds '.solver.max_energy_error_J < 1e-9 and (.solver | has("energy_error_of") | not)'

# Who winds up a wheel has put in what it has of energy, beside the same state: E = I (2 c t)^2/2 for an angle c t^2.
cat >wheel.toml <<'TOML'
schema = 2
[params]
c = 1.5
[world]
gravity = [0, 0, 0]
duration = 0.5
dt = 0.01
[[body]]
name = "wheel"
mass = 2
inertia = [0.3, 0.3, 0.4]
[[joint]]
name = "pin"
type = "hinge"
b = "wheel"
at = [0, 0, 0]
axis = [0, 0, 1]
[[joint]]
name = "motor"
type = "prescribed_angle"
b = "wheel"
axis = [0, 0, 1]
angle = "c*t^2"
[[log]]
channel = "work(motor)"
[[log]]
channel = "energy()"
[[log]]
channel = "gap(motor)"
[[expect]]
value = "energy() - work(motor)"
throughout = true
is = 0
tolerance = 1e-9
single = 1e-5
TOML
# A body that the program moves takes part in no balance: what holds a bead to it does work on the bead alone.
cat >carried.toml <<'TOML'
schema = 2
[params]
c = 1.5
[world]
gravity = [0, 0, 0]
duration = 0.5
dt = 0.01
[[body]]
name = "arm"
kind = "kinematic"
motion = { position = "[0, 0, 0]", axis = [0, 0, 1], angle = "c*t^2" }
[[body]]
name = "bead"
kind = "particle"
mass = 2
position = [0.5, 0, 0]
[[joint]]
name = "pin"
type = "ball"
a = "arm"
b = "bead"
at = [0.5, 0, 0]
[[expect]]
value = "energy() - work(pin)"
throughout = true
is = 0
tolerance = 1e-9
single = 1e-5
TOML
for host in bare:1e-11 bullet-float64:1e-11 bullet:1e-5; do
  expect 0 run carried.toml --host "${host%:*}" --json
  holds ".solver.max_energy_error_J < ${host#*:} and ([.solver.expect[] | .met] | all)"
done
for host in bare bullet-float64 bullet; do
  expect 0 run wheel.toml --host $host --csv wheel.csv
  LC_ALL=C awk -F, -v host=$host '
    NR == 1 { for (i = 1; i <= NF; ++i) { if ($i == "work(motor) [J]") W = i; if ($i == "energy() [J]") E = i; if ($i == "gap(motor) [rad]") G = i } next }
    $W != "" { d = $W - $E; if (d * d > (host == "bullet" ? 1e-10 : 1e-18) || $G == "") { print; bad = 1 }; ++n }
    END { exit bad || n < 50 || !W || !E || !G }' wheel.csv >awk.out || fail "$host: work beside its state: $(head -n 3 awk.out)"
done

# An expectation whose time no step meets is stepped to and judged, on every host and in a sweep; forces are those there.
cat >fall.toml <<'TOML'
schema = 2
[params]
y = "-9.81/2*0.35^2"
[world]
duration = 1
dt = 0.3
[solver]
method = "rk4"
[[body]]
name = "ball"
kind = "particle"
mass = 2
[[joint]]
name = "rail"
type = "point_on_plane"
b = "ball"
axis = [1, 0, 0]
[[force]]
name = "wind"
body = "ball"
force = "[7*t, 0, 0]"
[[expect]]
value = "ball.y"
at = 0.35
is = "y"
tolerance = 1e-12
bullet = 1
[[expect]]
value = "reaction(rail, ball).x"
at = 0.35
is = "-7*0.35"
tolerance = 1e-12
[[expect]]
value = "ball.y"
at = 0.4
is = "-9.81/2*0.4^2"
tolerance = 1e-12
bullet = 1
TOML
expect 0 run fall.toml --duration 0.9 --csv fall.csv --json
holds '.solver.steps == 3 and ([.solver.expect[] | .met == true] | all)'
[ "$(wc -l <fall.csv)" -eq 5 ] || fail "a row per step and the last state, not $(wc -l <fall.csv) lines"
expect 0 run fall.toml --host bullet-float64 --duration 0.9 --csv fall.csv --json
holds '.solver.steps == 3 and ([.solver.expect[] | .met == true] | all)'
[ "$(wc -l <fall.csv)" -eq 5 ] || fail "bullet: a row per step and the last state, not $(wc -l <fall.csv) lines"
sed -i 's|^is = "y"|is = "y + 0.001"|' fall.toml
expect 4 run fall.toml --duration 0.9
prints 'NOT MET     ball.y at 0.35 s'
says '1 expectation of the scene .* was not met'
expect 0 sweep fall.toml --set y=1:2:2 --duration 0.9 --out fall-sweep.csv
LC_ALL=C awk -F, 'NR == 2 { d = $5 + 9.81 / 2 * 0.35 ^ 2; exit !($3 == "ok" && $5 != "" && d ^ 2 < 1e-20) }' fall-sweep.csv || fail "sweep: $(cat fall-sweep.csv)"

# One that the run ends before fails, and says why; one that is not of this host does not.
expect 4 run fall.toml --duration 0.3
prints 'NOT TESTED  ball.y at 0.4 s = .*  \(the run ends at 0.3 s, before this time\)'
says '3 expectations could not be tested'
expect 4 run fall.toml --duration 0.3 --json
holds '[.solver.expect[] | .met == false and .error == null and (.not_judged | test("the run ends at 0.3 s, before"))] | all'
sed -i 's|^bullet = 1$|bullet = false|' fall.toml
expect 0 run fall.toml --host bullet-float64 --duration 0.9
prints 'not tested  ball.y at 0.4 s = .*  \(the scene does not test it on this host\)'

# `explain` goes to the time it is asked for, not to the step beside it.
expect 0 explain fall.toml rail --at 0.35 --json
holds '(.t - 0.35 | fabs) < 1e-12 and (.constraints[0].on[] | select(.body == "ball") | .force[0] + 7 * 0.35 | fabs) < 1e-9'
done_testing
