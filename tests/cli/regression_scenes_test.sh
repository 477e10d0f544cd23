# Scenes that once had a wrong answer without a message meet their known answers: on the bare host with every method that
# has dry friction, and in Bullet in both precisions.
source "$(dirname "$0")/common.bash" "$@"

met() {
  holds '.solver.status == "ok" and (.solver.expect | length) > 0'
  holds '[.solver.expect[] | .met == true or (.met == null and .tolerance == 0)] | all'
}

for scene in "$source"/tests/scenes/regression/*.toml; do
  hosts="bullet-float64 bullet"
  methods="semi-implicit rk4 adaptive adaptive8"
  if grep -q '^method = ' "$scene"; then hosts="" methods=$(sed -n 's/^method = "\(.*\)"/\1/p' "$scene"); fi
  for method in $methods; do
    expect 0 run "$scene" --method "$method" --json
    met
  done
  for host in $hosts; do
    expect 0 run "$scene" --host "$host" --json
    met
  done
done
done_testing
