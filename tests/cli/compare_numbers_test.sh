# `linchpin compare --csv`: the numbers of the table follow from the tables of the runs, and both sides have one physics.
source "$(dirname "$0")/common.bash" "$@"
scenes=$source/demos/scenes

# Everything but the time and the counts, found again: gaps and energy over the states after each step of the
# statistics, force errors over their steps.
again='
  NR == 1 {
    for (i = 1; i <= NF; ++i) {
      at[$i] = i
      if ($i ~ /\.gap( \[|$)/) gap[i] = $i
      if ($i ~ /\.gap \[m\]$/) metres[i] = 1
    }
    next
  }
  { n = NR - 2; E = $(at["energy [J]"]); put_in = at["work of prescribed motions [J]"]; if (put_in) E -= $put_in }
  n == settle { E0 = E }
  n > settle {
    for (i in metres) if ($i != "") { g2 += $i * $i; ++count; if ($i > max) max = $i }
    for (i in gap) if ($i > own[i]) own[i] = $i
    if ($(at["largest gap [rad]"]) > rad) rad = $(at["largest gap [rad]"])
    dE = E - E0; if (dE < 0) dE = -dE; if (dE > worst) worst = dE
  }
  n >= settle && $(at["reference force [N]"]) != "" {
    ++samples
    fe += $(at["force error [N]"]) ^ 2; f += $(at["reference force [N]"]) ^ 2
    me += $(at["moment error [N m]"]) ^ 2; m += $(at["reference moment [N m]"]) ^ 2
    ie += $(at["impulse error / dt [N]"]) ^ 2; s += $(at["reference impulse / dt [N]"]) ^ 2
  }
  function ratio(e, x) { return e == 0 || x == 0 ? 0 : sqrt(e / x) }
  END {
    printf "{\"max_gap_m\": %.17g, \"max_gap_rad\": %.17g, \"max_energy_error_J\": %.17g", max, rad, worst
    if (count) printf ", \"rms_gap_m\": %.17g", sqrt(g2 / count)
    printf ", \"force_rms_error_rel\": %.17g, \"impulse_rms_error_rel\": %.17g", ratio(fe, f), ratio(ie, s)
    printf ", \"moment_rms_error_rel\": %.17g", ratio(me, m)
    printf ", \"force_samples\": %d, \"user_gaps\": {", samples
    for (i in gap) { name = gap[i]; sub(/\.gap.*/, "", name); printf "%s\"%s\": %.17g", comma, name, own[i]; comma = ", " }
    print "}}"
  }'
recomputed() {  # SCENE SETTLE OPTIONS…
  local scene=$1 settle=$2 solver name
  shift 2
  expect 0 compare "$scene" --warmup-steps "$settle" --json --csv "$scratch/out" "$@"
  while read -r name precision; do
    LC_ALL=C awk -F, -v settle="$settle" "$again" "$scratch/out-${name//:/-}-$precision.csv" >"$scratch/again.json"
    solver=$(jq --slurpfile again "$scratch/again.json" --arg name "$name" --arg precision "$precision" '
      def same($x; $y): $x == null or ($x - $y | fabs) <= 1e-9 * ($x | fabs) + 1e-300;
      .solvers[] | select(.name == $name and .precision == $precision) | . as $row | $again[0] as $a |
      [(["max_gap_m", "rms_gap_m", "max_gap_rad", "max_energy_error_J", "force_rms_error_rel", "moment_rms_error_rel",
         "impulse_rms_error_rel", "force_samples"][] | select(same($row[.]; $a[.]) | not)),
       ($row.user_gaps | to_entries[] | select(same(.value; $a.user_gaps[.key]) | not) | .key)]' "$scratch/out")
    [ "$(jq length <<<"$solver")" = 0 ] || fail "$scene, $name $precision: not found again: $solver"
    jq -e --arg name "$name" '[.solvers[] | select(.name == $name) | .force_samples] | all(. > 5)' "$scratch/out" >/dev/null ||
      fail "$scene, $name: no forces were looked at"
  done < <(jq -r '.solvers[] | "\(.name) \(.precision)"' "$scratch/out")
}
recomputed "$scenes/pendulum.bullet" 0 --precision both --duration 0.5
recomputed "$scenes/bridge.bullet" 5 --with exact,bullet:si:50,bullet:nncg --duration 0.2
recomputed "$scenes/double-pendulum.toml" 3 --duration 0.2
recomputed "$scenes/skate.toml" 0 --duration 0.2
recomputed "$scenes/four-bar.toml" 0 --duration 0.2
recomputed "$scenes/robot-arm.toml" 0 --duration 0.2

# Three bodies in one row are more than a native solver can hold.
cat >"$scratch/three.toml" <<'EOF'
schema = 2
[[repeat]]
count = 3
[[repeat.body]]
name = "p{i}"
kind = "particle"
mass = 1
position = ["i", 0, 0]
[[constraint]]
name = "sum"
equation = "p1.y + p2.y + p3.y = 0"
EOF
expect 0 compare "$scratch/three.toml" --duration 0.1 --json
holds '.solvers[0].status == "ok" and (.solvers[1].status | test("between two bodies only, but .sum. has 3"))'

# One physics on both sides: with ever smaller steps both come to one motion. Gravity, masses, inertias, springs, or a
# start that were not the same would leave a difference.
apart='
  FNR == 1 { ++file; for (i = NF; i > 0; --i) { if ($i ~ /\.gap/) last = i - 1; turn[i] = $i ~ /\.q[wxyz]$/ } next }
  { for (i = 2; i <= last; ++i) end[file, i] = $i }
  END {
    for (i = 2; i <= last; ++i) {
      d = end[1, i] - end[2, i]; if (d < 0) d = -d
      other = end[1, i] + end[2, i]; if (other < 0) other = -other
      if (turn[i] && other < d) d = other  # q and -q are one orientation
      size = end[1, i]; if (size < 0) size = -size
      if (d / (1 + size) > worst) worst = d / (1 + size)
    }
    printf "%.3g", worst
  }'
refused=0 compared=0
for scene in "$scenes"/*.toml; do
  grep -q '^\[\[coordinate\]\]' "$scene" && continue
  # Steps that its stiffest spring can take.
  rate=2000
  case $(basename "$scene" .toml) in flyball-governor) rate=10000 ;; esac
  for dt in "1/$rate" "1/${rate}0"; do
    expect 0 compare "$scene" --dt "$dt" --duration 0.02 --json --csv "$scratch/${dt#1/}"
    if jq -e '.solvers[1].status | startswith("refused")' "$scratch/out" >/dev/null; then
      # What the native solver cannot express is said, and only of scenes where it is so.
      case $(jq -r '.solvers[1].status' "$scratch/out") in
        *"the native solver cannot apply the force law of "*) grep -q '^law' "$scene" ;;
        *"the native solver cannot hold the unilateral constraint '"*) grep -q '^unilateral' "$scene" ;;
        *"the native solver cannot hold '"*"' with compliance"*) grep -q '^compliance' "$scene" ;;
        *"the native solver supports constraints between two bodies only, but 'length1' has 3"*) grep -q '^name = "length' "$scene" ;;
        *"the native solver supports constraints between two bodies only, but 'left teeth' has 3"*) grep -q '^name = "left teeth"' "$scene" ;;
        *) false ;;
      esac || fail "$scene was refused: $(jq -c '.solvers[1].status' "$scratch/out")"
      refused=$((refused + 1))
      continue 2
    fi
    holds '[.solvers[] | .status == "ok"] | all'
  done
  coarse=$(LC_ALL=C awk -F, "$apart" "$scratch/$rate-exact-double.csv" "$scratch/$rate-bullet-si-double.csv")
  fine=$(LC_ALL=C awk -F, "$apart" "$scratch/${rate}0-exact-double.csv" "$scratch/${rate}0-bullet-si-double.csv")
  compared=$((compared + 1))
  LC_ALL=C awk -v a="$coarse" -v b="$fine" 'BEGIN { exit !(b < 1e-9 || b < 0.35 * a) }' ||
    fail "$(basename "$scene"): the two sides are $coarse apart with steps of 1/$rate s, $fine with 1/${rate}0 s"
  [ -z "${LINCHPIN_VERBOSE:-}" ] || echo "$(basename "$scene") $coarse $fine"
done
[ "$compared" -ge 25 ] && [ "$refused" -ge 3 ] || fail "$compared compared, $refused refused"
done_testing
