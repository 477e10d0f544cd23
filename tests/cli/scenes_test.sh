# Scene files at the command line: every scene of the gallery meets its known answers on every host it can live in, and
# the verbs that need no step say what is so.
source "$(dirname "$0")/common.bash" "$@"
scenes=$source/demos/scenes

count=0
for scene in "$scenes"/*.toml; do
  name=$(basename "$scene" .toml)
  count=$((count + 1))
  hosts="bare bullet-float64 bullet"
  if grep -q '^\[\[coordinate\]\]' "$scene"; then  # no engine has coordinates of ours, and that is said
    hosts=bare
    for verb in "run --host bullet" compare; do
      # shellcheck disable=SC2086
      expect 3 $verb "$scene"
      says 'is a coordinate of its own kinetic energy; Bullet has bodies only'
    done
  fi
  for host in $hosts; do
    expect 0 run "$scene" --host "$host" --json --csv "$scratch/table.csv"
    rectangular "$scratch/table.csv"
    # Where its bars come to lie in one line, single precision may leave a step to the native rows: counted, and no more.
    case $name-$host in
      n-four-bar-bullet) ok='.solver.status | test("^ok(, but [1-9] steps? w(as|ere) left to the native solver)?$")' ;;
      *) ok='.solver.status == "ok"' ;;
    esac
    holds ".host == \"$host\" and (.solver.expect | length) > 0" "$ok" \
      '([.solver.expect[] | .met == true or (.met == null and .tolerance == 0)] | all) and ([.solver.expect[] | .met == true] | any)'
  done
  grep -q "($name.toml)\|\`$name\`" "$source/docs/reference/gallery.md" || fail "docs/reference/gallery.md does not list $name"
  expect 0 check "$scene" --json
  holds '.status == "ok" and ([.constraints[] | .derivatives_ok and .residual < 1e-9] | all)'
done
[ "$count" -ge 20 ] || fail "only $count scenes"

# The numbers in a file are those in the report, and a log is a column with its unit.
expect 0 run "$scenes/winch.toml" --csv "$scratch/winch.csv" --json
head -n 1 "$scratch/winch.csv" | grep -q 'rope.gap.*,"reaction(rope, load).x \[N\]"' || fail "header: $(head -n 1 "$scratch/winch.csv")"
[ "$(wc -l <"$scratch/winch.csv")" -eq 2002 ] || fail "a row per step, the last state and a header"

# Names are the titles of columns and stand before the values that are expected.
expect 0 run "$scenes/backlash.toml" --csv "$scratch/backlash.csv"
prints 'once to and fro: block.x at 0.614159 s = 0.0  error [0-9.e-]+, tolerance '
head -n 1 "$scratch/backlash.csv" | grep -q ',into the springs \[m\]$' || fail "header: $(head -n 1 "$scratch/backlash.csv")"
expect 0 run "$scenes/backlash.toml" --json --host bullet-float64 --csv "$scratch/backlash.csv"
holds '.solver.expect[0].name == "once to and fro" and .solver.expect[0].value == "block.x" and (.solver.expect[1] | has("name") | not)'
head -n 1 "$scratch/backlash.csv" | grep -q ',into the springs \[m\]$' || fail "header: $(head -n 1 "$scratch/backlash.csv")"

# When friction slips and sticks: in the text, in JSON on all hosts, in columns and in expectations.
expect 0 run "$scenes/self-locking-wedge.toml" --csv "$scratch/wedge.csv"
prints '^  face: slides at 0.00489294 s, sticks at 0.0285824 s, slides at 0.0548929 s'
head -n 1 "$scratch/wedge.csv" | grep -q ',shaken by \[N\],acceleration of the load \[m/s^2\],sticks$' || fail "header: $(head -n 1 "$scratch/wedge.csv")"
for host in bare bullet-float64 bullet; do
  expect 0 run "$scenes/self-locking-wedge.toml" --json --host $host
  holds '.solver.mode_changes[0] | .constraint == "face" and .law == "coulomb" and .what == "slides" and (.t - 0.00489294 | fabs) < 1e-3'
  holds '.solver.mode_changes_in_all == (.solver.mode_changes | length) and .solver.mode_changes_in_all == 6'
done
expect 0 run "$scenes/off-a-sphere.toml" --json
holds '.solver.mode_changes[0] | .what == "releases" and (has("law") | not)'
# What a unilateral constraint is to the searches for rest and to the native solver.
expect 0 equilibrium "$scenes/off-a-sphere.toml"
prints 'left out: the free side of sphere, which is held as an equality'
expect 0 compare "$scenes/off-a-sphere.toml" --json --duration 0.1
holds '.solvers[0].status == "ok" and (.solvers[1].status | test("unilateral constraint .sphere"))'
expect 0 check "$scenes/off-a-sphere.toml"
prints '^sphere .* holonomic, scleronomic, unilateral$'
# An explicit method inside of Bullet's step, which the file chooses.
expect 0 run "$scenes/tippe-top.toml" --json --host bullet-float64
holds '.solver.summary | test("Runge-Kutta integration in")'

# Methods by name, which only a host without an engine leaves to us.
expect 0 run "$scenes/pendulum.toml" --method rattle4 --json
holds '.solver.max_energy_error_J < 1e-9'
expect 2 run "$scenes/pendulum.toml" --method ratle
says 'did you mean "rattle"'
expect 2 run "$scenes/pendulum.toml" --host bullet --method rk4
says 'write stepping'
expect 4 run "$scenes/hoop-in-its-angle.toml" --method rattle
says 'the method rattle does not support coordinates such as .*Use rk4 or adaptive'
expect 0 bench mechanisms --json
holds '(.rows | length) >= 28 and ([.rows[].met] | all)'
# Parts do not depend on the machine: what the adaptive methods need where motion is smooth, and beside singular positions.
for name in bricard n-four-bar slider-crank; do holds ".rows[] | select(.scene == \"$name\") | .substeps < 500 and .max_gap <= 1.01e-13"; done

# compare: one world for both sides; what a native solver cannot do is said.
expect 0 compare "$scenes/growing-rod.toml" --json --duration 0.5
holds '[.solvers[] | .status == "ok" and .user_gaps.rod != null] | all'
holds '.solvers[0].user_gaps.rod < 1e-12 and .solvers[1].user_gaps.rod > 1e-9'
# Forces against an independent dense solution: typed equations, laws, kinematic bodies.
holds '.solvers[0].force_rms_error_rel < 1e-9 and .solvers[1].force_rms_error_rel > 1e-6'
for name in bead-on-ring slider-friction rotating-wire rolling-disk robot-arm; do
  expect 0 compare "$scenes/$name.toml" --with exact --json --duration 0.2
  holds '.solvers[0] | .status == "ok" and .force_samples > 0 and .force_rms_error_rel < 1e-8'
done
expect 0 compare "$scenes/slider-friction.toml" --json --duration 0.1
holds '.solvers[0].status == "ok" and (.solvers[1].status | test("cannot apply the force law of .rail"))'
expect 0 compare "$scenes/pendulum.toml" --duration 0.2
prints 'pendulum.toml: 1 body, 1 joint; 0.2 s'
prints 'largest residuals: rod'

# Two bodies in space, a rope between them that changes, a keel; Newton capped, a log, the host in the file.
cat >"$scratch/winch.toml" <<'END'
schema = 2
[world]
gravity = [0.0, -9.81, 0.0]
duration = 10.0
dt = 0.0041666666666666666
host = "bullet-float64"          # bullet | bullet-float64 | bare
[solver]
projection = 2                   # Newton corrections per step, 0 = off (drifts!)
[[body]]
name = "hook"                    # or [model] urdf = "arm.urdf", links become bodies
mass = 1.0
shape = { box = [0.1, 0.1, 0.1] }
position = [0, 2, 0]
[[body]]
name = "load"
mass = 5.0
shape = { sphere = 0.2 }
position = [0, 0.2, 0]
[[constraint]]
name = "winch"
equation = "dist2(hook.point(0,-0.1,0), load.point(0,0.2,0)) = (L0 + 0.1*(1 - cos(w*t)))^2"
params = { L0 = 1.5, w = 3.0 }
[[constraint]]
name = "keel"
velocity = "dot(load.velocity, load.axis(0,0,1)) = 0"
[[log]]
channel = "reaction(winch)"
END
expect 0 run "$scratch/winch.toml" --csv "$scratch/winch.csv" --json
holds '.host == "bullet-float64" and .duration == 10 and .solver.steps == 2400 and .solver.user_gaps.winch < 1e-11 and .solver.user_gaps.keel < 1e-11'
head -n 1 "$scratch/winch.csv" | grep -q ',reaction(winch).x \[N\],' || fail "header: $(head -n 1 "$scratch/winch.csv")"
sed -i 's/load.point/loda.point/' "$scratch/winch.toml"
expect 3 check "$scratch/winch.toml"
says 'winch.toml:21:41: error: constraint "winch": unknown name .loda.; did you mean "load"'
says '^ {42}\^$'

# Coordinates of one's own: columns by name and unit, generalized forces, rest and rate.
expect 0 run "$scenes/bead-on-turning-arm.toml" --csv "$scratch/arm.csv"
head -n 1 "$scratch/arm.csv" | grep -q "^t \[s\],r \[m\],r' \[m/s\],phi \[rad\],phi' \[rad/s\],motor.gap \[rad\],motor on phi \[N m\]," ||
  fail "header: $(head -n 1 "$scratch/arm.csv")"
expect 0 explain "$scenes/bead-on-turning-arm.toml" --at 0.5 --json
holds '.constraints[0].rows[0].A == {"phi'"'"'": 1} and (.constraints[0].on[0].generalized_force - 0.5*9*0.04*10.0178749 | fabs) < 1e-6'
expect 0 equilibrium "$scenes/hoop-in-its-angle.toml" --json
holds '[.equilibria[] | select(.stability == "stable")] | length == 2'  # to either side
holds '[.equilibria[] | select(.stability == "stable")][0] | (.coordinates.a | cos) - 9.81/(0.5*49) | fabs < 1e-9'

# check: kinds by name, and contradictions.
expect 0 check "$scenes/skate.toml"
prints 'edge +1 row .*nonholonomic, scleronomic, catastatic'
expect 0 check "$scenes/four-bar.toml" --json
holds '.rows == 20 and .rank == 17 and .degrees_of_freedom == 1 and (.redundant | length) == 4'
cat >"$scratch/torn.toml" <<'END'
schema = 2
[[body]]
name = "p"
kind = "particle"
mass = 1
[[constraint]]
name = "here"
equation = "p.x = 0"
[[constraint]]
name = "there"
equation = "p.x = t^2"
[world]
duration = 0.1
END
expect 4 check "$scratch/torn.toml" --json
holds '.status == "contradictory" and .contradictory == ["here", "there"]'
says 'no motion satisfies these constraints together: here, there'
expect 0 run "$scratch/torn.toml" --json
holds '.solver.status | test("no motion satisfies these constraints together")'

# Velocities: of two rows that ask for two, of a row that is the rate of another, of one that cannot be met at t = 0.
velocities() {
  {
    printf 'schema = 2\n[[body]]\nname = "p"\nkind = "particle"\nmass = 1\nposition = [0.3, 0.4, 0.5]\n'
    printf '[[constraint]]\nname = "a"\n%s\n' "$1"
    [ $# -lt 2 ] || printf '[[constraint]]\nname = "b"\n%s\n' "$2"
  } >"$scratch/v.toml"
}
velocities 'velocity = "p.velocity.y = 1"' 'velocity = "p.velocity.y = 2"'
expect 4 check "$scratch/v.toml" --json
holds '.contradictory == ["a", "b"] and .constraints[0].contradictory and .constraints[1].velocity_residual == 2'
says 'no motion satisfies these constraints together: a, b'
velocities 'equation = "p.y = 0.4 + 0.1*t"' 'velocity = "p.velocity.y = 0"'
expect 4 check "$scratch/v.toml"
says 'no motion satisfies these constraints together: a, b'
velocities 'equation = "p.y = 0.4 + 0.1*t"' 'velocity = "2*p.velocity.y = 0.2"'
expect 0 check "$scratch/v.toml" --json
holds '.contradictory == [] and (.redundant | length) == 2'
velocities 'velocity = "t*p.velocity.x + p.x = 0"'
expect 3 check "$scratch/v.toml"
says 'v.toml:9:13: error: constraint "a": all derivatives of this equation are zero at the start'
velocities 'velocity = "p.velocity.y = 1"'
expect 0 check "$scratch/v.toml"
prints 'a +1 row +residual 1  .*the rate of p.y - t$'
expect 0 run "$scratch/v.toml"
prints 'start velocities were changed to satisfy the constraints \(kinetic energy of the change 0.5 J\)$'
velocities 'equation = "p.y = 0.4 + t"'
expect 0 check "$scratch/v.toml"
prints 'a +1 row +residual 0, of its rate 1  '
velocities 'velocity = "p.velocity.y^3 = 0"'  # no derivative wherever it is met
expect 3 check "$scratch/v.toml"
says 'constraint "a": all derivatives of this equation are zero'
velocities 'velocity = ["p.velocity.y^3 = 0", "p.velocity.x = 0"]'  # of one row of it
expect 4 check "$scratch/v.toml"
says 'constraint "a": the derivatives of one of its rows are all zero'
prints 'zero Jacobian at the start'
expect 0 run "$scratch/torn.toml"
prints 'status: ok, but no motion satisfies these constraints together: here.*, there'
# Rows that agree in their accelerations contradict each other all the same, and all verbs name them.
sed -i 's/p.x = t^2/p.x = 0.1/' "$scratch/torn.toml"
expect 0 run "$scratch/torn.toml" --json
holds '.solver.rank.contradictory == ["here", "there"] and (.solver.status | test(": here .*, there"))'
expect 0 explain "$scratch/torn.toml"
prints '1 p.vx. = 0 '
prints 'CONTRADICTORY'
# Curved ones too, under every method: the poses of least squares, 2y(y^2 - 1) + y - 2 = 0.
cat >"$scratch/ring.toml" <<'END'
schema = 2
[world]
gravity = [0, 0, 0]
duration = 0.1
dt = 0.01
[[body]]
name = "p"
kind = "particle"
mass = 1
position = [0, 1.1, 0]
[[constraint]]
name = "ring"
equation = "norm2(p.position) = 1"
[[constraint]]
name = "line"
equation = "p.y = 2"
[[constraint]]
name = "aside"
equation = "p.z = 0"
[[expect]]
value = "p.y"
at = 0.1
is = 1.1654
tolerance = 1e-4
END
for method in semi-implicit rk4; do
  expect 0 run "$scratch/ring.toml" --method "$method" --json
  holds '.solver.rank.contradictory == ["ring", "line"]'
done

# The bare host says how far it moved bodies at the start. An expectation of a later time than the run has is not met.
cat >"$scratch/far.toml" <<'END'
schema = 2
[[body]]
name = "p"
kind = "particle"
mass = 1
[[constraint]]
name = "s"
equation = "p.x = 100"
[[expect]]
value = "p.x"
at = 1
is = 100
END
expect 4 run "$scratch/far.toml" --duration 0.5
prints 'bodies were moved by at most 100 m to close gaps at the start'
prints 'NOT TESTED  p.x at 1 s = 100.0  \(the run ends at 0.5 s, before this time\)'
says '1 expectation could not be tested'

# A mass matrix that becomes singular on the way: whose coordinate, and when. theta' = 1: sin(theta)^2 ends at pi.
cat >"$scratch/pole.toml" <<'END'
schema = 2
[world]
duration = 4
dt = 0.01
[[coordinate]]
name = "theta"
start = 1
rate = -1
[[coordinate]]
name = "phi"
[lagrangian]
mass = ["1", "theta"]
END
expect 4 run "$scratch/pole.toml"
says "coordinate 'phi' has no inertia of its own at t = (1|0.9|1.0).* s"
printf 'schema = 2\n[[body]]\nname = "p"\nkind = "particle"\nmass = 1\n' >"$scratch/free.toml"
expect 0 explain "$scratch/free.toml"
prints 'no constraints'

# explain, equilibrium, new.
expect 0 explain "$scenes/winch.toml" rope --at 0 --json
holds '.t == 0 and (.constraints | length) == 1 and .constraints[0].determined and (.constraints[0].on[1].force[1] - 44.55 | fabs) < 1e-9'
expect 2 explain "$scenes/winch.toml" ropee
says 'did you mean "rope"'
expect 2 explain "$scenes/winch.toml" nope_at_all
says 'there is no constraint "nope_at_all"; known: rope$'
expect 0 equilibrium "$scenes/rods-at-45-degrees.toml" --json
holds '.equilibria[0].stability == "stable" and (.equilibria[0].forces.rod.p | (.[0]*.[0] + .[1]*.[1] | sqrt) / (1.3*9.81) - 1.5811388 | fabs) < 1e-6'
expect 0 equilibrium "$scenes/rotating-hoop.toml"
prints 'which rotates with \(0, 7, 0\)'
prints 'stable: 6.41436 rad/s'
expect 0 equilibrium "$scenes/heavy-top.toml"
prints 'marginal: 0 rad/s, 3.10791 rad/s'
sed 's/angle = "w\*t"/angle = "w*t + 0.1*sin(t)"/' "$scenes/rotating-hoop.toml" >"$scratch/unsteady.toml"
expect 0 equilibrium "$scratch/unsteady.toml" --json
holds '.frame_angular_velocity == null and .frozen_at_start == ["hoop"] and .stopped_early == false'
expect 0 equilibrium "$scratch/unsteady.toml"
prints 'hoop moves, but not with one constant rotation'
cat >"$scratch/curl.toml" <<'END'
schema = 2
[world]
gravity = [0, 0, 0]
[[body]]
name = "p"
kind = "particle"
mass = 1
position = [0.5, 0.2, 0]
[[force]]
name = "s"
body = "p"
force = "[-p.x - 5*p.y, 5*p.x - p.y, -0.25*p.z]"
END
expect 0 equilibrium "$scratch/curl.toml"
prints 'unstable: 0.5 rad/s, flutter at 1.74628 rad/s, growth rate 1.43161 1/s'
expect 4 equilibrium "$scenes/rope.toml" --seconds 1e-6
says 'stopped after 1e-06 s, at start 0 of'
for template in pendulum winch skate four-bar slider-friction; do
  expect 0 new "$template"
  cmp -s "$scratch/out" "$scenes/$template.toml" || fail "new $template is not the gallery's"
done
expect 2 new pendlum
says 'did you mean "pendulum"'

# A .bullet file with constraints on its bodies by name.
cp "$scenes/pendulum.bullet" "$scratch/"
cat >"$scratch/more.toml" <<'END'
schema = 2
include = "pendulum.bullet"
[world]
duration = 0.5
[[body]]
name = "weight"
kind = "particle"
mass = 1
position = [1, -1, 0]
[[joint]]
name = "string"
type = "rod"
a = "bar"
b = "weight"
END
expect 0 run "$scratch/more.toml" --json
holds '.host == "bullet-float64" and .bodies == 3 and .solver.user_gaps.string < 1e-10 and .solver.max_gap_m < 1e-9'
expect 2 run "$scratch/more.toml" --host bare
says 'needs --host bullet or bullet-float64'
# The verbs without steps read it too: the hinge's five rows and the string's one.
expect 0 check "$scratch/more.toml" --json
holds '.rows == 6 and .rank == 6 and .columns == 9 and ([.constraints[].name] == ["hinge", "string"]) and (.native | length) == 0'
expect 0 explain "$scratch/more.toml" hinge --json
holds '.constraints[0].rows | length == 5'
expect 0 equilibrium "$scratch/more.toml"
prints 'stable'
expect 0 check "$scenes/bridge.bullet" --json
holds '.rows == 120 and .rank == 117 and .status == "ok" and (.undetermined | index("hinge 7")) != null'
# A pendulum of Bullet's, a bar of 2 kg at 0.5 m: both places of rest, and w^2 = m g l/I there.
expect 0 equilibrium "$scenes/pendulum.bullet" --json
holds '[.equilibria[].stability] == ["stable", "unstable"]'
holds '.equilibria[0].frequencies_squared[0] - 9.81*0.5/(1.01/12 + 0.25) | fabs < 1e-4'
sed -i 's/"bar"/"bra"/' "$scratch/more.toml"
expect 3 run "$scratch/more.toml"
says 'more.toml:13:5: error: joint "string": there is no body "bra"; did you mean "bar"'

# Names that are no words of an equation are shown as one takes them.
expect 0 explain "$scenes/bridge.bullet" "hinge 1"
prints "^  1 'plank 1'.vx' .* - 1 'plank 2'.vx' "

# An inertia that no mass has is taken, and said once: by name and place, for all rounds of a repeat.
expect 0 check "$scenes/steady-top.toml" --json
holds '(.warnings | length) == 1 and .status == "ok"'
says 'steady-top.toml:[0-9]+:11: warning: body "top": no mass has this inertia: .* 0.0002, 0.0002 and 0.001 '
{
  printf 'schema = 2\n[world]\nduration = 0.1\n[[repeat]]\ncount = 3\n[[repeat.body]]\nname = "b{i}"\nmass = 1\ninertia = [1, 1, 5]\n'
  printf '[[body]]\nname = "plate"\nmass = 1\ninertia = [1, 1, 2]\n'
} >"$scratch/heavy.toml"
for verb in check run; do
  expect 0 $verb "$scratch/heavy.toml"
  says 'heavy.toml:9:11: warning: body "b1": '
  [ "$(grep -c warning: "$scratch/err")" -eq 1 ] || fail "$verb: $(cat "$scratch/err")"
done

# A long chain: the time of check is in proportion (ten minutes, when classification had a copy of all for each link).
printf 'schema = 2\n[[chain]]\nname = "l"\ncount = 16000\nstep = [0.1, 0, 0]\nshape = { sphere = 0.01 }\ndensity = 1000\n' >"$scratch/chain.toml"
timeout 60 "$linchpin" check "$scratch/chain.toml" >"$scratch/out" || fail "check of 16,000 links takes over 60 s"
prints '48000 equations of rank 48000'

# One source for --help, completion and the manual.
expect 0 completion
grep -q 'equilibrium) words="--help --starts --seconds --json"' "$scratch/out" || fail "completion: $(grep equilibrium "$scratch/out")"
bash -n "$scratch/out" || fail "completion is no bash"
completes() {  # WORDS… WANTED: what bash offers for the last of the words
  local wanted=${*: -1} got
  got=$(cd "$scenes" && source "$scratch/out" && COMP_WORDS=("${@:1:$#-1}") COMP_CWORD=$(($# - 2)) && _linchpin && echo "${COMPREPLY[*]}")
  [ "$got" = "$wanted" ] || fail "completion of $*: $got"
}
completes linchpin new w winch
completes linchpin run winch.toml --host bullet- bullet-float64
completes linchpin run winch.toml --method rattle "rattle rattle4"
completes linchpin run winch.t winch.toml
completes linchpin equilibrium --sta --starts
mkdir "$scratch/of mine"
touch "$scratch/of mine/my winch.toml"
completes linchpin run "$scratch/of mine/my" "$scratch/of mine/my winch.toml"
[ "$(source "$scratch/out" && COMP_WORDS=(linchpin run "$scratch/of") COMP_CWORD=2 && _linchpin && echo "${#COMPREPLY[@]}")" = 1 ] ||
  fail "a name with a blank is completed as two"
expect 0 man
prints '^\.SS linchpin explain'
prints 'Time \[s\]\. The scene runs up to it on the host bare'
done_testing
