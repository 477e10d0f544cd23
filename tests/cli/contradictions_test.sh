# Constraints that cannot be met, and constraints that move with time: who is named, what goes on, what is no rest.
source "$(dirname "$0")/common.bash" "$@"
cd "$scratch" || exit 1

particles() {  # NAME X …: particles on the x axis
  printf 'schema = 2\n[world]\nduration = 0.2\n'
  while [ $# -gt 1 ]; do
    printf '[[body]]\nname = "%s"\nkind = "particle"\nmass = 1\nposition = [%s, 0, 0]\n' "$1" "$2"
    shift 2
  done
}
constraint() { printf '[[constraint]]\nname = "%s"\n%s\n' "$1" "$2"; }

# A triangle of 2, 1 and 4 m: nonlinear rows, all independent.
{
  particles p 1 q 3
  printf '[[joint]]\nname = "%s"\ntype = "rod"\na = "%s"\nb = "%s"\nlength = %s\n' pq p q 2 p0 world p 1 q0 world q 4
  constraint bystander 'equation = "p.z = 0"'
} >triangle.toml
# No real solution; two velocities at once, one of them met by chance at the start.
{
  particles p 1 q 3
  constraint left 'equation = "p.z = 0"'
  constraint right 'equation = "norm2(p.position) = -1"'
  constraint innocent 'equation = "q.y = 0"'
} >unsat.toml
{
  particles p 1
  constraint slow 'velocity = "p.velocity.x = 1"'
  constraint fast 'velocity = "p.velocity.x = 2"'
  constraint flat 'velocity = "p.velocity.y = 0"'
} >speeds.toml

# The bare host goes on, and names those that cannot be met, with what they leave open, and nobody else.
for method in semi-implicit rk4 adaptive rattle; do
  expect 0 run triangle.toml --method "$method" --json
  holds '.solver.steps == 48 and .solver.rank.contradictory == ["pq", "p0", "q0"]'
  holds '.solver.status | test("^ok, but no motion satisfies these constraints together: pq [(]open by 0[.][0-9]+ m[)], p0 [(]open by 0[.][0-9]+ m[)], q0 [(]open by 0[.][0-9]+ m[)]")'
done
expect 0 run unsat.toml
prints 'status: ok, but no motion satisfies this constraint: right \(open by [0-9.]+, in the unit of its equation\)'
expect 0 run speeds.toml
prints 'status: ok, but no motion satisfies these constraints together: slow, fast$'

# So do Bullet's, as long as most steps are exact; what is not exact is no success, and has a name.
for host in bullet bullet-float64; do
  expect 0 run speeds.toml --host $host
  prints '^  contradictory constraints: slow, fast\. No motion satisfies all of them'
  prints '^status: ok, but no motion satisfies these constraints together: slow, fast$'
  expect 4 run unsat.toml --host $host
  says 'not exact: in 4[0-9] of 48 steps the native solver had to solve constraints. Cause: no motion satisfies this constraint: right'
  expect 4 run triangle.toml --host $host --json
  holds '.solver.rank.contradictory == ["pq", "p0", "q0"]'
  prints 'steps the native solver had to solve constraints.* no motion satisfies these constraints together: pq.*, p0.*, q0'
done
expect 0 compare speeds.toml --with exact --precision both
[ "$(grep -c 'ok, but no motion satisfies these constraints together: slow, fast' out)" -eq 2 ] || fail "compare: $(cat out)"
expect 4 compare unsat.toml --with exact --json
holds '.solvers[0].status | test("no motion satisfies this constraint: right")'
says 'exact, double: not exact: .*no motion satisfies this constraint: right'

# No solver can, and the table says no more than that.
{
  particles p 1
  constraint c 'equation = "p.x^1000000000000 = 1"'
} >steep.toml
expect 4 compare steep.toml
prints 'exact .*refused: .*The derivative is wrong'
grep -q json out err && fail "an exception of the parser: $(cat out err)"
expect 4 check steep.toml
prints 'of rank 1'
grep -q 'zero Jacobian' out && fail "of rank 1, and holds nothing"

# What moves with time by itself is frozen as kinematic bodies are, and that is said: motors, equations and forces of t.
{
  particles bead 0.3
  constraint hoop 'equation = ["norm2(bead.position) = 0.09", "bead.x*sin(5*t) + bead.z*cos(5*t) = 0"]'
} >turning.toml
cat >motor.toml <<'TOML'
schema = 2
[params]
g = 9.81
[[coordinate]]
name = "theta"
start = 0.5
[[coordinate]]
name = "phi"
rate = 5
[lagrangian]
kinetic = "0.5*(theta'^2 + sin(theta)^2*phi'^2)"
potential = "-g*cos(theta)"
[[constraint]]
name = "hoop"
equation = "phi = 5*t"
TOML
cat >pulled.toml <<'TOML'
schema = 2
[[body]]
name = "p"
kind = "particle"
mass = 1
position = [0, -1, 0]
[[joint]]
name = "rod"
type = "rod"
b = "p"
length = 1
[[force]]
name = "hoop"
body = "p"
force = "[sin(t), 0, 0]"
TOML
for scene in turning motor pulled; do
  expect 0 equilibrium $scene.toml --json
  holds '.frozen_at_start == ["hoop"] and ([.equilibria[].stability | endswith(" while frozen")] | all)'
  expect 0 equilibrium $scene.toml
  prints '^hoop depends on time\. The search uses its value at the start$'
  prints '^1\. (stable|marginal) while frozen'
done
sed 's/"phi = 5\*t"/"phi = 0"/' motor.toml >locked.toml
expect 0 equilibrium locked.toml --json
holds '.frozen_at_start == [] and .equilibria[0].stability == "stable"'
expect 0 sweep motor.toml --equilibrium --set g=9:10:2 --out rest.csv
[ "$(grep -c ',stable while frozen' rest.csv)" -eq 2 ] || fail "sweep: $(cat rest.csv)"

# Where a constraint asks for motion nothing rests, whatever the forces do.
{
  particles p 1
  constraint belt 'velocity = "p.velocity.x = 1"'
  constraint floor 'equation = "p.y = 0"'
} >conveyor.toml
expect 4 equilibrium conveyor.toml
says 'there is no equilibrium, because belt prescribes a motion$'
expect 4 equilibrium conveyor.toml --json
holds '.equilibria == [] and .requires_motion == ["belt"]'
expect 4 equilibrium speeds.toml
says 'slow, fast prescribe a motion'
expect 4 equilibrium triangle.toml
says 'there is no equilibrium, because no motion satisfies these constraints together: pq, p0, q0$'

# What a law complains of reaches the reader, once.
cat >rub.toml <<'TOML'
schema = 2
[world]
duration = 0.5
dt = 0.001
[solver]
method = "rk4"
[[body]]
name = "sled"
kind = "particle"
mass = 3
[[body]]
name = "brick"
kind = "particle"
mass = 1
position = [0, 0.1, 0]
[[joint]]
name = "floor"
type = "point_on_plane"
b = "sled"
axis = [0, 1, 0]
[[constraint]]
name = "on top"
equation = "brick.y - sled.y = 0.1"
law = { force = "-0.2*N*slip_velocity/(norm(slip_velocity) + 1e-9)" }
TOML
expect 0 run rub.toml --json
holds '(.solver.warnings | length) == 1 and (.solver.warnings[0] | test("on on top"))'
expect 0 run rub.toml
[ "$(grep -c '^  warning: ' out)" -eq 1 ] || fail "a warning: $(cat out)"
expect 0 run "$source/demos/scenes/pendulum.toml" --json
holds '.solver.warnings == []'
# What a motion that is driven does to energy has a word of its own.
expect 0 run "$source/demos/scenes/winch.toml"
prints 'largest energy error .* J, of energy minus the work of prescribed motions$'
done_testing
