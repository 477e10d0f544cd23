# A run whose energy grows without a source, or whose velocities do not meet the constraints, ends with its text as status
# and with exit code 4, on every host.
source "$(dirname "$0")/common.bash" "$@"

cat >"$scratch/chain.toml" <<'SCENE'
schema = 2
title = "two bars that swing fast for their step"

[world]
gravity = [0, -9.81, 0]
duration = 2
dt = 0.02

[solver]
max_energy_gain = 1e-4
max_substeps = 1

[[body]]
name = "upper bar"
mass = 1
shape = { box = [1.0, 0.1, 0.2] }
position = [0.5, 0, 0]

[[body]]
name = "lower bar"
mass = 1
shape = { box = [1.0, 0.2, 0.1] }
position = [1.5, 0, 0]

[[joint]]
name = "shoulder"
type = "ball"
b = "upper bar"
at = [0, 0, 0]

[[joint]]
name = "elbow"
type = "ball"
a = "upper bar"
b = "lower bar"
at = [1, 0, 0]
SCENE

for host in bare bullet-float64 bullet; do
  expect 4 run "$scratch/chain.toml" --host "$host" --json
  says "energy grows without a source: '(upper|lower) bar' and the body joined to it have gained"
  holds '.solver.status | startswith("energy grows without a source")'
  holds '.solver | (.energy_gains | length) == ([.energy_gains_in_all, 100] | min) and .energy_gains_in_all > 1'
  holds '.solver.energy_gains | all(.t > 0 and .relative > 0 and .gain_J > 0 and .bodies == 2 and (.body == "upper bar" or .body == "lower bar"))'
  holds '.solver as $s | $s.status | contains($s.energy_gains[0].body)'
  sed 's/max_energy_gain = 1e-4/max_energy_gain = 1e9/' "$scratch/chain.toml" >"$scratch/unwatched.toml"
  expect 0 run "$scratch/unwatched.toml" --host "$host" --json
done
for host in bare bullet-float64; do
  expect 4 run "$scratch/chain.toml" --host $host
  prints "energy grows without a source"
  prints '^  energy gains: [0-9.e-]+ % at [0-9.]+ s \((upper|lower) bar\)'
  grep -q 'body#' "$scratch/out" && fail "$host: a body has another name in the summary"
done

# The bare acceleration drifts. The same steps with correction of drift meet the constraints.
sed -e 's/max_energy_gain = 1e-4/max_energy_gain = 1e9\ndrift = "none"/' "$scratch/chain.toml" >"$scratch/drifts.toml"
sed 's/drift = "none"/drift = "exact"/' "$scratch/drifts.toml" >"$scratch/corrected.toml"
sed 's/drift = "none"/drift = "none"\nmax_velocity_residual = 1e9/' "$scratch/drifts.toml" >"$scratch/unwatched.toml"
for host in bare bullet-float64 bullet; do
  expect 4 run "$scratch/drifts.toml" --host "$host" --json
  says "velocities do not satisfy '(shoulder|elbow)': their residual is"
  holds '.solver.status | startswith("velocities do not satisfy")'
  expect 0 run "$scratch/corrected.toml" --host "$host" --json
  expect 0 run "$scratch/unwatched.toml" --host "$host" --json
done
done_testing
