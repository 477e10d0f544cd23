# A run whose energy grows without a source ends with its text as status and with exit code 4, on every host.
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
  sed 's/max_energy_gain = 1e-4/max_energy_gain = 1e9/' "$scratch/chain.toml" >"$scratch/unwatched.toml"
  expect 0 run "$scratch/unwatched.toml" --host "$host" --json
done
expect 4 run "$scratch/chain.toml" --host bullet-float64
prints "energy grows without a source"
done_testing
