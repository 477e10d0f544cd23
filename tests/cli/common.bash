# For the tests of the command: `source common.bash "$@"` sets bin, source and a scratch folder, and gives the checks below.
set -u
bin=$1 source=$2
linchpin=$bin/linchpin
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

fail() {
  echo "FAIL: $*" >&2
  failures=$((failures + 1))
}

# expect CODE WORDS… : runs the command with the words, keeps $scratch/out and $scratch/err, wants the exit code.
expect() {
  local code=$1 got
  shift
  "$linchpin" "$@" >"$scratch/out" 2>"$scratch/err"
  got=$?
  [ "$got" -eq "$code" ] || fail "linchpin $*: exit code $got, not $code: $(tail -n 3 "$scratch/err")"
}

# says PATTERN: what the last command said on stderr (extended regular expression).
says() { grep -Eq -- "$1" "$scratch/err" || fail "stderr does not say '$1': $(cat "$scratch/err")"; }
prints() { grep -Eq -- "$1" "$scratch/out" || fail "stdout does not say '$1': $(head -n 30 "$scratch/out")"; }

# holds FILTER… : jq conditions on the JSON the last command printed, each with one result.
holds() {
  local filters filter result
  filters=$(printf ', (%s)' "$@")
  mapfile -t result < <(jq -r "${filters:2}" "$scratch/out" 2>&1)
  for filter; do
    [ "${result[0]:-}" = true ] || fail "not so: $filter"
    result=("${result[@]:1}")
  done
}

# rectangular FILE: every row of a table has as many fields as its row of titles.
rectangular() {
  [ -s "$1" ] || fail "no table $1"
  sed 's/"[^"]*"/q/g' "$1" | awk -F, -v file="$1" 'NR == 1 {n = NF} NF != n {print file ": row " NR " has " NF " fields under " n " titles"; exit 1}' >&2 ||
    fail "not every row has a field for each title"
}
# column FILE TITLE ROW: a field of a table, by its title; row 1 is the first below the titles. Titles without commas.
column() {
  sed 's/"[^"]*"/q/g' "$1" | awk -F, -v title="$2" -v row="$3" 'NR == 1 {for (i = 1; i <= NF; ++i) if ($i == title) at = i}
    NR == row + 1 {print $at}'
}

done_testing() {
  [ "$failures" -eq 0 ] || exit 1
  exit 0
}

command -v jq >/dev/null || { echo "jq is not installed"; exit 1; }
for worker in linchpin-worker-bullet linchpin-worker-bullet-float64; do
  [ -x "$bin/$worker" ] || { echo "skipped: no $worker was built"; exit 0; }
done

# Scenes nobody here wrote; not part of the repository.
shared=${LINCHPIN_SHARED_DATA:-$source/../shared/data}
