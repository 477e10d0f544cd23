# All names that a user types or parses: commands with their options, words of scenes, keys of JSON, columns of CSV. They are compared
# with golden_keys.txt. A new name is added there on purpose, and a name that is changed raises the schema of its file.
# Called as: golden_keys_test.sh <bin dir> <source dir>. LINCHPIN_WRITE_GOLDEN=1 writes the file instead.
source "$(dirname "$0")/common.bash" "$@"
[ -x "$bin/linchpin-bench-bullet-float64" ] || { echo "skipped: no bench program in double precision"; exit 0; }
scenes=$source/demos/scenes golden=$source/tests/cli/golden_keys.txt
cd "$scratch" || exit 1

# section NAME: sorted lines from the input, each with the section before it.
section() { LC_ALL=C sort -u | sed "s|^|$1: |" >>keys; }

# ---- commands and options, with the words that an option takes
for verb in $("$linchpin" --help | sed -n '/^Subcommands:/,$ s/^  \([a-z]*\) .*/\1/p'); do
  "$linchpin" "$verb" --help | sed -nE "s/^  (-[a-z],)?(--[a-z-]+).*(\{[^}]*\}).*/\2 \3/p; t
    s/^  (-[a-z],)?(--[a-z-]+).*/\2/p; t
    s/^  ([A-Za-z]+)( .*(\{[^}]*\}).*)/\1 \3/p; t
    s/^  ([A-Z]+|scenes) .*/\1/p" | grep -v '^linchpin' | section "option of $verb"
done
sed -n 's/^    {"\(.*\)", "\(.*\)", "\(.*\)"},$/\1 \2 -> \3/p' "$source/tools/linchpin/renamed_options.h" | section "option, renamed"
"$bin/linchpin-bench-bullet-float64" --none x 2>&1 | grep -oE -- '--[a-z]+ ' | tr -d ' ' | grep -v none | section "option of linchpin-bench"

# ---- scenes: every word in quotes of the files that read them
for file in load parts model expression modes; do
  grep -v '^ *//' "$source/tools/scene/src/$file.cpp" | grep -oE '"[A-Za-z][A-Za-z_0-9-]*"' | tr -d '"' | section "scene, $file.cpp"
done
grep -oE '\{"[^"]*", "[^"]*", "[^"]*"\}' "$source/tools/scene/src/renamed.cpp" |
  sed 's/{"\(.*\)", "\(.*\)", "\(.*\)"}/\1 \2 -> \3/' | section "scene, renamed"

# ---- JSON: the ways to all values; names of bodies and constraints are *
cat >keys.jq <<'JQ'
def line: reduce .[] as $k ({out: "", star: 0};
    if ($k | type) == "number" then .out += "[]"
    elif .star > 0 or ($map and .out == "equilibria[].bodies") then .out += ".*" | .star -= 1
    else .out += (if .out == "" then "" else "." end) + $k
      | if $k == "forces" and $map then .star = 2
        elif $k == "A" or $k == "shape" or $k == "user_gaps" or ($map and ($k == "coordinates" or $k == "units")) then .star = 1
        else . end
    end) | .out;
[paths | line] | unique | .[]
JQ
# values PATH…: words that a key takes.
cat >values.jq <<'JQ'
["kind", "shape", "class", "gravity_from", "force_basis", "backend", "normal_force", "stability", "verb", "host"] as $of
| [paths(strings) as $p | select($p[-1] as $k | $of | index([$k]) != null)
   | ($p | map(select(type == "string")) | .[-1]) + " = " + getpath($p)] | unique | .[]
JQ
json() { # VERB FILE
  local map=false
  [ "$1" = equilibrium ] && map=true
  jq -r --argjson map $map -f keys.jq "$2" | section "json of $1"
  jq -r -f values.jq "$2" | grep -v 'Bullet Physics' | section "json of $1, value"
}
# call VERB WORDS…: runs it with --json, whatever its exit code.
call() {
  "$linchpin" "$@" --json >out 2>err
  jq -e . out >/dev/null 2>&1 || fail "linchpin $*: no JSON: $(head -n 3 err)"
  json "$1" out
}
cat >other.toml <<'TOML'
schema = 2
[world]
duration = 0.02
dt = 0.01
[[body]]
name = "arm"
mass = 2
inertia = [1, 1, 1]
position = [1, 0, 0]
[[body]]
name = "turntable"
kind = "kinematic"
motion = { axis = [0, 1, 0], angle = "t^2" }
[[joint]]
name = "pin"
type = "hinge"
b = "arm"
at = [0, 0, 0]
axis = [0, 0, 1]
law = { type = "hinge_friction", mu = 0.3, pin_radius = 0.01, normal_force = "frictionless" }
[[joint]]
name = "pin again"
type = "hinge"
b = "arm"
at = [0, 0, 0]
axis = [0, 0, 1]
[[body]]
name = "load"
kind = "particle"
mass = 1
[[constraint]]
name = "rope"
equation = "dist2(load.position, turntable.point(1, 0, 0)) = 1"
application_points = { load = [0, 0, 0] }
sliding_body = "load"
unit = "custom"
law = { force = "-0.1*N*slip_velocity" }
[[log]]
channel = "norm(normal_force(pin)) - norm(frictionless_normal_force(pin))"
unit = "N"
[[expect]]
value = "load.y"
at = 0.01
is = 1
[[expect]]
value = "energy()"
throughout = true
TOML
# A released constraint, and a value that is no number.
cat >open.toml <<'TOML'
schema = 2
[world]
duration = 0.02
dt = 0.01
[[body]]
name = "ball"
kind = "particle"
mass = 1
position = [0, 1, 0]
[[constraint]]
name = "floor"
equation = "ball.y = 0"
unilateral = { reengage = true }
[[expect]]
value = "sqrt(-ball.y)"
at = 0.01
is = 1
TOML
call explain open.toml
call run open.toml
call check other.toml
call check "$scenes/rolling-disk.toml"
call explain other.toml
call explain "$scenes/bead-on-turning-arm.toml"
call linearize "$scenes/brake-squeal.toml" --report modes.html
call sensitivities "$scenes/rough-circle.toml" --to mu --column bead.y --duration 1.2
call sensitivities "$scenes/rough-circle.toml" --to mu --until bead.x --csv sensitivities.csv
call equilibrium other.toml
call equilibrium "$scenes/bead-on-turning-arm.toml"
call equilibrium "$scenes/rotating-hoop.toml"
call run other.toml --csv bare.csv --record bare.rec --mcap bare.mcap
call run other.toml --host bullet-float64 --csv bullet.csv --record bullet.rec
call run "$scenes/bead-on-turning-arm.toml" --duration 0.05 --csv coordinates.csv --record coordinates.rec
call run "$scenes/turning-edge.toml" --duration 0.05 --host bullet-float64 --record edge.rec
call compare other.toml --with exact,bullet:si --csv table --record both.rec
call compare "$scenes/turning-edge.toml" --duration 0.05 --csv edge --report page.html
call compare "$scenes/slider-friction.toml" --duration 0.05 --precision both
call compare "$scenes/four-bar-robot.toml" --as multibody --duration 0.05
call sweep "$scenes/rotating-hoop.toml" --set w=1,2 --out rest.csv --equilibrium --report sweep.html
call sweep "$scenes/rotating-hoop.toml" --set w=1,2 --duration 0.01 --out motion.csv
"$linchpin" run "$scenes/swinging-bar.toml" --duration 0.5 --csv bar.csv >out 2>err
call fit "$scenes/swinging-bar.toml" bar.csv --duration 0.5 --column angle --free mu,r --out residuals.csv --report fit.html \
  --against "$scenes/swinging-bar.toml:mu"
call report bare.rec --out report.html --gltf motion.glb --mcap again.mcap
call bench mechanisms
call bench W1:2 R1 --duration 0.05 --with exact,si:10
cat >problem.json <<'JSON'
{ "schema": 1, "t": 0, "mass_blocks": [[[2]], [[1]]], "Q": [1, 0], "c": [0, 0],
  "rows": [{ "constraint": "a", "entries": [[0, 1]], "b": 0 }, { "constraint": "b", "entries": [[0, 1]], "b": 1 }] }
JSON
json problem problem.json
call solve problem.json
grep -q '"status": "contradictory"' out || fail "solve: $(cat out)"
for recording in bare bullet coordinates both edge; do json recording $recording.rec; done
sed -n 's|.*<script type="application/json" id="recording">\(.*\)</script>.*|\1|p' sweep.html >page.json
json "page of a sweep" page.json
sed -n 's|.*<script type="application/json" id="recording">\(.*\)</script>.*|\1|p' fit.html >page.json
json "page of a fit" page.json
sed -n 's|.*<script type="application/json" id="recording">\(.*\)</script>.*|\1|p' modes.html >page.json
json "page of modes" page.json
# Schemas stand in MCAP as text.
for schema in Wrench Scalar Coordinate; do
  grep -ao "{\"title\":\"linchpin.$schema\".*" bare.mcap | head -n 1 | jq -r '.properties | keys[]' 2>/dev/null | section "mcap, linchpin.$schema"
done

# ---- CSV: the heads, names of bodies and constraints replaced
columns() { # KIND FILE
  [ -s "$2" ] || fail "no $2"
  # Columns of expressions with a comma in them are in quotes: they are left out.
  head -n 1 "$2" | sed -E 's/"[^"]*"//g' | tr ',' '\n' | sed -E '/^$/d; s/^(arm|turntable|load|p)\./BODY./
    s/^(pin|pin again|rope|edge)\./CONSTRAINT./' | section "csv of $1"
}
columns run bare.csv
columns run bullet.csv
columns 'run, coordinates' coordinates.csv
columns compare table-exact-double.csv
columns compare edge-exact-double.csv
columns sweep motion.csv
columns fit residuals.csv
columns 'sweep --equilibrium' rest.csv

if [ -n "${LINCHPIN_WRITE_GOLDEN:-}" ]; then
  LC_ALL=C sort -u keys >"$golden"
  echo "wrote $golden"
  done_testing
fi
LC_ALL=C sort -u keys >now
diff -u "$golden" now >difference || fail "names are not those of tests/cli/golden_keys.txt (LINCHPIN_WRITE_GOLDEN=1 writes it):
$(head -n 60 difference)"
# None of them is one that was renamed.
old=$(sed -n 's/^    {"\(.*\)", "\(.*\)", "\(.*\)"},$/\2/p' "$source/tools/scene/src/renamed.cpp" | grep -vxE 'own|path|actual|ideal' | paste -sd '|')
grep -E "(: |\.)($old)\$" now | grep -v 'scene, renamed' && fail "names that were renamed"
done_testing
