# What a run says of numbers that are none, of coefficients in the wrong order, of expectations of runs that end early and
# of options without a part in it.
source "$(dirname "$0")/common.bash" "$@"

# scene DURATION MORE: a block that slides along x at 1 m/s.
scene() {
  cat <<END
schema = 2
[world]
duration = $1
dt = 0.01
[[body]]
name = "block"
mass = 1
shape = { sphere = 0.1 }
velocity = [1, 0, 0]
$2
END
}

# A log that is no number, in a part of the run: named and counted in the status, with its times.
scene 0.5 '[[constraint]]
name = "ground"
equation = "block.y = 0"
[[log]]
name = "root"
channel = "sqrt(0.255 - block.x)"' >"$scratch/root.toml"
for host in bare bullet-float64; do
  expect 0 run "$scratch/root.toml" --host $host --csv "$scratch/root.csv"
  rectangular "$scratch/root.csv"
  prints '^status: ok, but root is not a number in 25 of 51 rows, first at 0\.26 s$'
  prints 'warning: root is not a number in 25 of 51 rows'
done
[ -z "$(column "$scratch/root.csv" root 51)" ] || fail "no number is an empty field: $(column "$scratch/root.csv" root 51)"
expect 0 run "$scratch/root.toml" --json
holds '.solver.status == "ok"' # without a table nobody sees the log

# An expectation whose value is none says so, and when.
{
  cat "$scratch/root.toml"
  echo '[[expect]]
name = "of the root"
value = "sqrt(0.255 - block.x)"
at = 0.4
is = 0'
} >"$scratch/none.toml"
expect 4 run "$scratch/none.toml"
prints 'NOT MET +of the root: .* is not a number at 0\.4 s$'
expect 4 run "$scratch/none.toml" --json
holds '(.solver.expect[0].not_a_number_at - 0.4 | fabs) < 1e-9 and .solver.expect[0].met == false'

# Expectations at all times of a run that ends early, or takes no step, are not met.
scene 1 '[[constraint]]
name = "ground"
equation = "block.y = 0.1*sqrt(0.255 - block.x)^3 - 0.01287676"
[[expect]]
value = "block.z"
throughout = true' >"$scratch/early.toml"
expect 4 run "$scratch/early.toml"
prints '^  NOT TESTED +block\.z at all times stays +\(the run ended early, at 0\.[0-9]+ s\)$'
expect 4 run "$scratch/early.toml" --json
holds '.solver.expect[0].met == false'

scene 1 '[[constraint]]
name = "ground"
equation = "block.y = 0*sqrt(0.005 - t)"
[[expect]]
value = "block.z"
throughout = true' >"$scratch/nothing.toml"
expect 4 run "$scratch/nothing.toml"
prints '^  NOT TESTED +block\.z at all times stays +\(the run took no step\)$'

# mu_kinetic above mu, which the expressions make in the motion.
scene 0.5 '[[constraint]]
name = "ground"
equation = "block.y = 0"
application_points = { block = [0, 0, 0] }
law = { type = "coulomb", mu = 0.01, mu_kinetic = "0.005 + 0.05*block.x" }' >"$scratch/kinetic.toml"
for host in bare bullet-float64; do
  expect 0 run "$scratch/kinetic.toml" --host $host
  prints '^  warning: mu_kinetic of "ground" \(0\.010[0-9]*\) exceeds mu \(0\.01\), so mu was used, in 4[0-9] of 50 steps, first at 0\.1[0-9]? s$'
  prints '^status: ok, but mu_kinetic of "ground" \(0\.010[0-9]*\) exceeds mu'
  expect 0 run "$scratch/kinetic.toml" --host $host --json
  holds '.solver.warnings | length == 1'
done

# An application point that is lost on the way is named with its constraint.
scene 1 '[[constraint]]
name = "ground"
equation = "block.y = 0"
application_point = "block.position - [0, 0.1*sqrt(0.255 - block.x), 0]"
law = { type = "coulomb", mu = 0.01 }' >"$scratch/point.toml"
expect 4 run "$scratch/point.toml"
says 'constraint .ground.*application_point is not finite'
sed -i '/^law/d' "$scratch/point.toml"
expect 4 run "$scratch/point.toml"
says 'constraint "ground" at t = .*: its application_point is not finite'

# A stepping without a part in the run.
scene 0.1 '[solver]
stepping = "rk4"' >"$scratch/stepping.toml"
expect 0 run "$scratch/stepping.toml"
prints 'the host bare leaves out: stepping = "rk4", which applies to Bullet only \(this host uses method = "semi-implicit"\)'
expect 0 run "$scratch/stepping.toml" --host bullet-float64
prints 'warning: stepping = "rk4" had no effect: linchpin holds no constraint in this scene, so Bullet integrates the bodies'

# Start velocities of an equation that has no derivative at rest.
cat >"$scratch/start.toml" <<'END'
schema = 2
[start]
velocity = "norm2(arm.omega) = 9"
[world]
duration = 0.1
[[body]]
name = "arm"
mass = 2
shape = { box = [1, 0.1, 0.1] }
position = [0.5, 0, 0]
[[joint]]
name = "pivot"
type = "hinge"
b = "arm"
at = [0, 0, 0]
axis = [0, 0, 1]
[[expect]]
value = "arm.omega.z"
at = 0
is = 3
tolerance = 1e-9
END
expect 0 run "$scratch/start.toml"
sed -i 's/= 9"/= -9"/' "$scratch/start.toml"
expect 3 run "$scratch/start.toml"
says 'no start velocities satisfy this equation and the constraints\. The best ones leave its left side 9 above its right side, in the unit of its equation'
sed -i 's/^velocity = .*/velocity = "arm.omega.x = 3"/' "$scratch/start.toml"
expect 3 run "$scratch/start.toml"
says 'The best ones leave its left side 1.5 rad/s below its right side. Give a rate that the mechanism can have'

# Definitions, each of which uses the one above.
{
  scene 0.1 '[[log]]
channel = "d60"
[definitions]
d1 = "block.x"'
  for ((i = 2; i <= 60; ++i)); do echo "d$i = \"d$((i - 1)) + 1\""; done
} >"$scratch/chain.toml"
expect 0 check "$scratch/chain.toml"
{
  cat "$scratch/chain.toml"
  for ((i = 61; i <= 70; ++i)); do echo "d$i = \"d$((i - 1)) + 1\""; done
} >"$scratch/longer.toml"
expect 3 check "$scratch/longer.toml"
says 'is the last of more than 60 definitions, each of which uses the one above'
expect 0 sweep --help
prints 'Find where the scene can rest'
done_testing
