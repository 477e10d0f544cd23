# What a scene with friction says of laws that fail or have no effect, of laws on many joints, of friction moments, and of
# energy.
source "$(dirname "$0")/common.bash" "$@"

# block LAW: a block that slides on a plane.
block() {
  cat <<END
schema = 2
[params]
al = "pi/6"
[world]
duration = 1
dt = 0.01
gravity = [0, -9.81, 0]
[[body]]
name = "block"
kind = "particle"
mass = 2
[[constraint]]
name = "plane"
equation = ["block.x*sin(al) + block.y*cos(al) = 0", "block.z = 0"]
law = { $1 }
END
}

# A law that is no number in some steps, and is one again at the end.
block 'type = "coulomb", mu = "0.4 + 0*sqrt(abs(t - 0.5) - 0.1)"' >"$scratch/nan.toml"
expect 4 run "$scratch/nan.toml" --host bullet-float64 --json
says "not exact: no law acted in [0-9]+ steps of an island, because law 'coulomb' on plane threw: mu = -?nan at t = 0.4"
says 'first in the step that begins at t = 0\.4[01]* s\). Correct the law'
holds '.solver.steps == 100 and (.solver.status | startswith("not exact: no law acted in"))'
expect 4 run "$scratch/nan.toml" --host bullet-float64
prints "^  no law acted in .* because law 'coulomb' on plane"
expect 4 run "$scratch/nan.toml" --host bare
says "law 'coulomb' on plane"

# The same of a force.
cat >"$scratch/push.toml" <<'TOML'
schema = 2
[world]
duration = 1
dt = 0.01
[[body]]
name = "block"
mass = 2
shape = { box = [1, 1, 1] }
[[constraint]]
name = "plane"
equation = "block.y = 0"
[[force]]
name = "push"
body = "block"
force = "[1 + 0*sqrt(abs(t - 0.5) - 0.1), 0, 0]"
TOML
expect 4 run "$scratch/push.toml" --host bullet-float64
says 'force "push" was not finite in (19|20|21) steps, first at t = 0\.4[01]* s, and did not act then. Correct its expression'
expect 4 run "$scratch/push.toml" --host bare
says 'force "push" at t = 0.4'

# Laws on all joints of a chain: by the key, and by a pattern.
chain() {
  cat <<END
schema = 2
[world]
duration = 0.2
dt = "1/240"
[[chain]]
name = "link"
count = $1
step = [0.1, 0, 0]
joint = "hinge"
shape = { capsule = [0.02, 0.06] }
density = 1000
$2
END
}
law='law = { type = "hinge_friction", mu = 0.3, pin_radius = 0.01 }'
chain 30 "$law" >"$scratch/key.toml"
chain 30 "[[attach]]
to = \"link.joint*\"
$law" >"$scratch/pattern.toml"
{
  chain 30 ''
  for ((i = 1; i <= 30; ++i)); do printf '[[attach]]\nto = "link.joint%d"\n%s\n' "$i" "$law"; done
} >"$scratch/attach.toml"
for host in bare bullet-float64; do
  for way in key pattern attach; do
    expect 0 run "$scratch/$way.toml" --host $host --json
    jq 'del(.scene, .solver.ns_per_step)' "$scratch/out" >"$scratch/$way.json"
  done
  jq -e '.solver.laws | length == 30' "$scratch/key.json" >/dev/null || fail "not 30 laws"
  cmp -s "$scratch/key.json" "$scratch/attach.json" || fail "$host: the key law is not 30 [[attach]]"
  cmp -s "$scratch/pattern.json" "$scratch/attach.json" || fail "$host: the pattern is not 30 [[attach]]"
done

# Ten lines of changes at most.
expect 0 run "$scratch/key.toml" --host bullet-float64
[ "$(grep -c '^  link.joint.*: ' "$scratch/out")" -eq 10 ] || fail "not ten lines: $(cat "$scratch/out")"
prints '^  and [0-9]+ more constraints \(all of them: --json\)$'

# rk4 starts a chain of many dry hinges, each of which changes its mode several times in the first step.
chain 18 "$law" >"$scratch/eighteen.toml"
expect 0 run "$scratch/eighteen.toml" --host bare --method rk4 --duration 1/240 --json
holds '.solver.mode_changes_in_all > 100'

# Laws that cannot act.
cat >"$scratch/weld.toml" <<'TOML'
schema = 2
[[body]]
name = "box"
mass = 1
shape = { box = [1, 1, 1] }
[[joint]]
name = "weld"
type = "weld"
b = "box"
at = [0, 0, 0]
law = [{ type = "coulomb", mu = 0.3 }, { type = "hinge_friction", mu = 0.3, pin_radius = 0.1 }, { force = "-0.1*N*slip_direction" }]
TOML
expect 0 check "$scratch/weld.toml" --json
holds '[.warnings[] | select(test("^law .*on weld: the constraint leaves no direction to slide in and no axis to turn about, so the law has no effect"))] | length == 3'
says "weld.toml: warning: law 'coulomb' on weld"

# The loss of a plastic impact is no error of the energy.
cat >"$scratch/impact.toml" <<'TOML'
schema = 2
[world]
duration = 1
gravity = [0, 0, -9.81]
[[body]]
name = "p"
kind = "particle"
mass = 1
position = [0, 0, 1]
velocity = [1, 0, 0]
[[constraint]]
name = "floor"
equation = "p.z = 0"
unilateral = { reengage = true }
TOML
for host in bare bullet-float64; do
  expect 0 run "$scratch/impact.toml" --host $host --json
  holds '.solver.max_energy_error_J < 0.3 and .solver.energy_error_of == "energy minus the loss in plastic impacts"'
done
for method in rk4 adaptive; do
  expect 0 run "$scratch/impact.toml" --host bare --method $method --json
  holds '.solver.max_energy_error_J < 1e-6'
done
done_testing
