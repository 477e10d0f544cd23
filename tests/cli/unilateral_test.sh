# Unilateral constraints while they are released: a row of the table for each title, no force, the distance as their gap, and
# no residual of it.
source "$(dirname "$0")/common.bash" "$@"

# A ball above a floor, which it hits at 0.5 s, and a second constraint whose columns stand behind those of the floor.
cat >"$scratch/drop.toml" <<'END'
schema = 2
[world]
gravity = [0, -8, 0]
duration = 1
dt = 0.01
[[body]]
name = "ball"
kind = "particle"
mass = 1
position = [0, 1, 0]
[[body]]
name = "other"
kind = "particle"
mass = 1
position = [1, 0, 0]
[[constraint]]
name = "floor"
equation = "ball.y = 0"
unit = "m"
unilateral = { reengage = true }
[[constraint]]
name = "rail"
equation = "other.y = 0"
unit = "m"
[[log]]
name = "multiplier"
channel = "lambda(floor)"
[[expect]]
value = "gap(floor)"
at = 0.25
is = 0.75
tolerance = 0.02
[[expect]]
value = "[lambda(floor), norm(normal_force(floor)), norm(reaction(floor))]"
at = 0.25
is = [0, 0, 0]
[[expect]]
value = "work(floor)"
at = 0.25
is = 0
[[expect]]
value = "reaction(floor).y"
at = 0.9
is = 8
tolerance = 1e-9
[[expect]]
value = "release_time(floor)"
at = 0.1
is = 0
[[expect]]
value = "engage_time(floor)"
at = 0.9
is = 0.5
tolerance = 0.011
END
for host in bare bullet-float64 bullet; do
  expect 0 run "$scratch/drop.toml" --host $host --csv "$scratch/$host.csv"
  rectangular "$scratch/$host.csv"
  prints '^  floor: is open at the start, engages at 0\.5[0-9]* s$'
  expect 0 run "$scratch/drop.toml" --host $host --json
  holds '.solver.status == "ok" and .solver.max_gap_m < 1e-6'
  holds '.solver.mode_changes[0] | .what == "releases" and .t == 0'
  [ "$(column "$scratch/$host.csv" 'floor.gap [m]' 1)" = 1 ] || fail "$host: gap $(column "$scratch/$host.csv" 'floor.gap [m]' 1)"
  [ "$(column "$scratch/$host.csv" 'floor.Fy [N]' 1)" = 0 ] || fail "$host: force $(column "$scratch/$host.csv" 'floor.Fy [N]' 1)"
  [ "$(column "$scratch/$host.csv" 'rail.Fy [N]' 1)" = 8 ] || fail "$host: force $(column "$scratch/$host.csv" 'rail.Fy [N]' 1)"
  [ "$(column "$scratch/$host.csv" 'multiplier [N]' 1)" = 0 ] || fail "$host: lambda $(column "$scratch/$host.csv" 'multiplier [N]' 1)"
done
expect 0 run "$scratch/drop.toml" --record "$scratch/bare.rec"
expect 0 check "$scratch/drop.toml"
prints '^floor +1 row +residual 0 .*unilateral, open at the start, so it has no force there$'
prints ': 5 degrees of freedom$'
expect 0 check "$scratch/drop.toml" --json
holds '.status == "ok" and .constraints[0].residual == 0 and .rows == 1'
expect 0 explain "$scratch/drop.toml" --at 0.25
prints '^  is open by 0\.7[0-9]* m and has no force$'
prints 'other.vy'
expect 0 explain "$scratch/drop.toml" floor --json
holds '.constraints | length == 1 and .[0].released == true and .[0].gap == 1 and (.[0].rows | length) == 0'
expect 0 compare "$scratch/drop.toml" --with exact --json
holds '.solvers[0].max_gap_m < 1e-12 and .solvers[0].status == "ok"'

# One that is pulled off from the start is open from there, not from where a method locates its event.
cat >"$scratch/pulled.toml" <<'END'
schema = 2
[world]
gravity = [0, 8, 0]
duration = 0.5
dt = 0.01
[solver]
method = "rk4"
[[body]]
name = "ball"
kind = "particle"
mass = 1
[[constraint]]
name = "floor"
equation = "ball.y = 0"
unilateral = true
[[expect]]
value = "release_time(floor)"
at = 0.5
is = 0
tolerance = 1e-300
END
expect 0 run "$scratch/pulled.toml"
prints '^  floor: is open at the start$'
done_testing
