# The 95 % interval of `linchpin fit` contains the true coefficient of friction in about 950 of 1000 recordings with noise.
# Called as: fit_coverage_test.slow.sh <bin dir> <source dir>
source "$(dirname "$0")/common.bash" "$@"
cd "$scratch" || exit 1

# Angles of the rough circle with a noise of 1 % of its first angle, from the start to beyond the first turn.
{ sed 's/^dt = .*/dt = 0.02/; s/^duration = .*/duration = 1.6/; /^\[\[expect/,$d' "$source/demos/scenes/rough-circle.toml"
  printf '[[log]]\nname = "angle"\nchannel = "atan2(bead.x, -bead.y)"\nunit = "rad"\n'; } >circle.toml
expect 0 run circle.toml --csv circle.csv
awk -F, 'function noise() { return sqrt(-2*log(1 - rand()))*cos(6.283185307179586*rand()) }
  NR == 1 {for (i = 1; i <= NF; ++i) if ($i == "angle [rad]") at = i}
  NR > 1 && (NR - 2) % 4 == 0 {t[++n] = $1; angle[n] = $at}
  END {for (seed = 1; seed <= 1000; ++seed) {
    srand(seed)
    file = seed ".csv"
    print "t [s],angle [rad]" >file
    for (i = 1; i <= n; ++i) printf "%s,%.17g\n", t[i], angle[i] + 0.0157*noise() >file
    close(file)}}' circle.csv

covered=0
while read -r low high; do
  covered=$((covered + $(awk -v low="$low" -v high="$high" 'BEGIN {print low <= 0.2 && 0.2 <= high}')))
done < <(seq 1000 | xargs -P "$(nproc)" -I SEED sh -c "'$linchpin' fit circle.toml SEED.csv --free mu --json -j 1 |
  jq -r '.parameters[0] | \"\(.low_95) \(.high_95)\"'")
{ [ "$covered" -ge 930 ] && [ "$covered" -le 970 ]; } || fail "$covered of 1000 intervals contain 0.2"
echo "$covered of 1000 intervals contain 0.2"
done_testing
