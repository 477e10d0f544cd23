# `linchpin compare`: what it prints is what design asks for, and what it says of the solvers is so.
source "$(dirname "$0")/common.bash" "$@"
scenes=$source/demos/scenes

# A pendulum under both precisions: exact holds, its forces are right, energy is looked at.
expect 0 compare "$scenes/pendulum.bullet" --with exact,bullet:si --precision both --json
[ -s "$scratch/err" ] && fail "progress or noise where stderr is no terminal: $(cat "$scratch/err")"
holds '.schema == 2 and (.solvers | length) == 4 and .dt == 1/240 and .gravity_from == "file" and .gravity[1] == -9.81'
holds '[.solvers[] | .name + " " + .precision] == ["exact double", "exact single", "bullet:si double", "bullet:si single"]'
holds '[.solvers[] | .status == "ok" and .steps == 480 and .ns_per_step > 0] | all'
holds '[.solvers[] | has("user_gaps") and has("rms_gap_m") and has("max_gap_rad") and has("native") and has("fallbacks")] | all'
holds '.solvers[0] | .max_gap_m <= 1e-9 and .max_gap_rad <= 1e-9 and .force_rms_error_rel <= 1e-9 and .force_basis == "joints"'
holds '.solvers[1] | .max_gap_m <= 2e-5 and .max_gap_rad <= 2e-5 and .force_rms_error_rel <= 1e-5'
holds '[.solvers[0:2][] | .fallbacks == 0 and .native == [] and .force_samples > 10] | all'
holds '[.solvers[] | .max_energy_error_J != null and .max_energy_error_J < 0.5] | all'
# Bullet leaves a gap, and its forces, means over a step, are an O(dt) off.
holds '[.solvers[2:4][] | .max_gap_m > 1e-5 and .max_gap_m < 1e-2 and .force_rms_error_rel > 1e-4 and .force_rms_error_rel < 0.1] | all'
# What the step applied is the same in both to O(dt): an impulse is not the force.
holds '[.solvers[] | .impulse_rms_error_rel > 1e-4 and .impulse_rms_error_rel < 0.1] | all'

# Gravity and step from the command line; without forces nothing moves.
expect 0 compare "$scenes/pendulum.bullet" --with exact --gravity 0,0,0 --dt 1/120 --duration 0.5 --json
holds '.gravity == [0,0,0] and .gravity_from == "option" and .dt == 1/120 and .solvers[0].steps == 60 and .solvers[0].max_energy_error_J == 0'

# The bridge: redundant by name, forces by body, and worse for Bullet than for us at twenty times its iterations.
expect 0 compare "$scenes/bridge.bullet" --with exact,bullet:si,bullet:si:200 --duration 0.25 --warmup-steps 5 --json
holds '.warmup_steps == 5 and .solvers[0].rank.rows == 120 and .solvers[0].rank.rank == 117'
holds '.solvers[0].rank | (.redundant | index("hinge 7")) != null and (.undetermined | index("hinge 7")) != null and (.undetermined | index("hook")) == null'
holds '[.solvers[] | .force_basis == "bodies" and .max_energy_error_J != null and .rank.rank == 117] | all'
holds '.solvers[0] | .max_gap_m <= 1e-9 and .force_rms_error_rel <= 1e-9'
holds '.solvers[0].max_gap_m < .solvers[2].max_gap_m and .solvers[2].max_gap_m < .solvers[1].max_gap_m'
holds '.solvers[1].force_rms_error_rel > 1e-3 and (.solvers[1].max_gap_joint | type) == "string"'

# Every solver by name; one that blows up is told so, and takes nobody with it.
expect 0 compare "$scenes/bridge.bullet" --with bullet:mlcp,bullet:nncg:5,bullet:lemke,bullet:si --duration 0.3 --json
holds '(.solvers | length) == 4 and .solvers[3].status == "ok"'
holds '[.solvers[] | .status == "ok" or (.status | test("^(diverged|not finite) at step [0-9]+: a (body|pose) "))] | all'
jq -e . "$scratch/out" >/dev/null || fail "not JSON"

expect 4 compare "$scenes/bridge.bullet" --with bullet:mlcp --duration 0.3
says 'no solver finished'
prints '^No solver finished'
prints 'Energy error: largest'

# Everything but the time is the same the next time.
for n in 1 2; do
  expect 0 compare "$scenes/bridge.bullet" --with exact,bullet:nncg --duration 0.2 --json
  jq 'del(.solvers[].ns_per_step)' "$scratch/out" >"$scratch/again$n"
done
cmp -s "$scratch/again1" "$scratch/again2" || fail "two runs differ: $(diff "$scratch/again1" "$scratch/again2" | head -n 5)"

# For people: verdict first, units in the header, a line per solver and precision, notes.
expect 0 compare "$scenes/bridge.bullet" --with exact,bullet:si --duration 0.1
head -n 1 "$scratch/out" | grep -q '^In double precision, exact keeps every joint closed to ' || fail "no verdict first"
prints '^solver +precision +time/step \[µs\] +max gap \[m\]'
prints '^exact +double .* ok$'
prints '^bullet:si +double .* ok$'
prints 'the joints have 120 equations, and 117 of them are independent\. Redundant: .* more'

if [ -f "$shared/bullet/spider.bullet" ]; then
  expect 0 compare "$shared/bullet/spider.bullet" --with exact,bullet:si --precision both --duration 0.5 --warmup-steps 10 --json
  holds '.solvers[0].max_gap_m <= 1e-9 and .solvers[1].max_gap_m <= 2e-5'
  holds '[.solvers[0:2][] | (.native | length) == 24 and .fallbacks == 0 and .max_energy_error_J == null] | all'
  holds '.solvers[2].max_gap_m > 1e-5'
else
  echo "skipped: no spider.bullet (LINCHPIN_SHARED_DATA)"
fi
if [ -f "$shared/bullet/testFileFracture.bullet" ]; then
  expect 0 compare "$shared/bullet/testFileFracture.bullet" --with bullet:si --duration 0.02 --json
  holds '.bodies == 102 or .bodies > 99'
else
  echo "skipped: no testFileFracture.bullet (LINCHPIN_SHARED_DATA)"
fi
done_testing
