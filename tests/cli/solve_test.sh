# linchpin solve: answers, exit codes, and who speaks on which stream.
# Called as: solve_test.sh <bin dir> <source dir>
set -u
linchpin=$1/linchpin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

fail() {
  echo "FAILED: $*"
  echo "--- stdout"; cat out
  echo "--- stderr"; cat err
  failures=$((failures + 1))
}
# expect <exit code> <arguments…>: runs, keeps out and err
expect() {
  local wanted=$1
  shift
  "$linchpin" "$@" >out 2>err </dev/null
  local got=$?
  [[ $got == "$wanted" ]] || fail "linchpin $*: exit $got, expected $wanted"
}
out_has() { grep -qF -- "$1" out || fail "stdout lacks: $1"; }
err_has() { grep -qF -- "$1" err || fail "stderr lacks: $1"; }
out_is_empty() { [[ ! -s out ]] || fail "stdout should be empty"; }
err_is_empty() { [[ ! -s err ]] || fail "stderr should be empty"; }

good='{ "schema": 1, "t": 0.0,
  "mass_blocks": [ [[2.0]], [[1.0, 0.1], [0.1, 3.0]] ],
  "Q": [0.0, -9.81, 0.5], "c": [0.0, 0.0, 0.0],
  "rows": [ { "constraint": "rod", "entries": [[0, 1.0], [2, -0.5]], "b": 0.25 } ] }'
echo "$good" >good.json

expect 0 solve good.json --json
err_is_empty
[[ $(head -c1 out) == "{" && $(tail -n1 out) == "}" ]] || fail "stdout is one JSON object"
for key in status vdot ideal nonideal lambda rank residual backend redundant contradictory undetermined; do
  out_has "\"$key\":"
done
out_has '"status": "ok"'
out_has '"backend": "sparse"'
out_has '"rank": 1'

expect 0 solve good.json
err_is_empty
out_has "rod"
expect 0 solve good.json --json --backend sparse
out_has '"backend": "sparse"'
expect 0 solve good.json --json --backend dense --rank-tolerance 1e-8
out_has '"backend": "dense"'
"$linchpin" solve - --json <good.json >out 2>err || fail "reads standard input"
out_has '"status": "ok"'

# Redundant and contradictory problems are answers.
cat >torn.json <<'END'
{"schema": 1, "mass_blocks": [[[1]]], "Q": [0], "rows": [
  {"constraint": "one", "entries": [[0, 1]], "b": 1},
  {"constraint": "three", "entries": [[0, 2]], "b": 6}]}
END
expect 0 solve torn.json --json
out_has '"status": "contradictory"'
grep -Eq '2\.(6|59999)' out || fail "v̇ is 2.6"
out_has '"three"'

# Physics: exit 4, the JSON still comes, and says why.
sed 's/\[\[2.0\]\]/[[-2.0]]/' good.json >bad.json
expect 4 solve bad.json --json
out_has '"status": "invalid"'
out_has 'mass_blocks[0] is not positive definite'
err_has 'bad.json: error: mass_blocks[0]'
for word in NaN Infinity -Infinity 1e999 null; do
  sed "s/-9.81/$word/" good.json >bad.json
  expect 4 solve bad.json --json
  out_has '"status": "invalid"'
done

# Bad input: exit 3 with the place, nothing on stdout.
expect 3 solve missing.json --json
out_is_empty
err_has 'missing.json: error: the file does not exist'
expect 3 solve . --json
err_has 'is a directory'
: >empty.json
expect 3 solve empty.json --json
err_has 'empty.json:1:1: error: the file is empty'
sed 's/"b": 0.25/"b": 0.25,/' good.json >bad.json
expect 3 solve bad.json --json
out_is_empty
err_has 'bad.json:4:'
err_has '^'
sed 's/\[2, -0.5\]/[3, -0.5]/' good.json >bad.json
expect 3 solve bad.json
err_has 'rows[0].entries[1][0]: column 3'
sed 's/"entries"/"entrys"/' good.json >bad.json
expect 3 solve bad.json
err_has 'rows[0].entrys: unknown key; did you mean "entries"?'
sed 's/"schema": 1/"schema": 9/' good.json >bad.json
expect 3 solve bad.json
err_has 'schema 9'

# Usage: exit 2.
expect 2
expect 2 slove good.json
err_has 'did you mean "solve"?'
expect 2 solve
err_has 'PROBLEM'
expect 2 solve good.json --jsn
err_has 'did you mean "--json"?'
expect 2 solve good.json other.json
expect 2 solve good.json --path dense
err_has 'option "--path" was renamed to "--backend"'
expect 2 solve good.json --path=dense
err_has 'option "--path" was renamed to "--backend"'
expect 2 solve good.json --backend sideways
expect 2 solve good.json --rank-tolerance 2
expect 2 solve good.json --rank-tolerance none
expect 2 --vrsion
out_is_empty

expect 0 --version
out_has 'linchpin '
expect 0 --help
out_has 'solve'
expect 0 solve --help
out_has '--rank-tolerance'

# Every saved problem can be replayed from the command line.
for file in "$2"/tests/regression/instants/*.json; do
  [[ $file == *.expected.json ]] && continue
  expect 0 solve "$file" --json
done

((failures == 0)) && echo "solve: all well"
exit $((failures > 0))
