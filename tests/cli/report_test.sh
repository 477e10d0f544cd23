#!/usr/bin/env bash
# Reports and recordings: what is in them, and that they are one thing. How a report looks is tests/browser.
source "$(dirname "$0")/common.bash" "$@"
scenes=$(cd "$source" && pwd)/demos/scenes
bin=$(cd "$bin" && pwd)
linchpin=$bin/linchpin
cd "$scratch" || exit 1

# The page is the template with the recording in it, and needs nothing from anywhere.
recording() { sed -n 's|.*<script type="application/json" id="recording">\(.*\)</script>.*|\1|p' "$1"; }
expect 0 run "$scenes/pendulum.toml" --host bare --report page.html --record run.rec --json
recording page.html >page.json
jq -e . page.json >/dev/null || fail "the page holds no JSON"
cmp <(jq -cS . page.json) <(jq -cS . run.rec) || fail "page and recording differ"
! grep -qE '(src|href)="https?:' page.html || fail "the page asks for something"
grep -q "default-src 'none'" page.html || fail "the page has no policy"
grep -qF "<title>$(jq -r '.scene.title // .title // .scene.file' run.rec) – linchpin report</title>" page.html ||
  fail "the title of the page is $(grep '<title>' page.html)"
has() { jq -e "$1" run.rec >/dev/null || fail "run.rec: $1"; }
has '.schema == 2 and .kind == "linchpin recording" and .verb == "run" and (.commands | length == 1)'
has '(.scene.text | contains("[[body]]")) and .scene.file == "pendulum.toml"'
has '.comparison.solvers[0] | .name == "exact" and .precision == "double" and .status == "ok" and (.method.integrator | length > 0)'
has '(.motions | length == 1) and (.motions[0] | .frames > 60 and .every >= 1 and (.bodies | length > 0) and (.columns | has("position")))'

# Columns have the numbers of the table of every step: here every step is a frame.
expect 0 run "$scenes/pendulum.toml" --host bare --frames 1e6 --record all.rec --csv all.csv
column() { jq -r ".motions[0].columns.$1" all.rec | base64 -d | od -An -v -t f4 -w"$2"; }
rows=$(($(wc -l <all.csv) - 1))
[[ $(jq '.motions[0].frames' all.rec) == "$rows" && $(jq '.motions[0].every' all.rec) == 1 ]] || fail "not every step is a frame"
# t and the first body's place: columns 1 to 4 of the table.
paste -d' ' <(column t 4) <(column position "$((12 * $(jq '[.motions[0].bodies[] | select(.kind != "coordinate")] | length' all.rec)))") >frames.txt
awk -F'[ ,]+' '
  NR == FNR { sub(/^ +/, ""); for (k = 1; k <= 4; ++k) frame[NR, k] = $k; n = NR; next }
  FNR > 1 { for (k = 1; k <= 4; ++k) { d = $k - frame[FNR - 1, k]; if (d < 0) d = -d; if (d > 1e-6) { print "row " FNR ", column " k ": " $k " and " frame[FNR - 1, k]; bad = 1 } } ++rows }
  END { exit bad || n != rows }' frames.txt all.csv || fail "frames are not the rows of the table"

# Recordings of one scene go together; of two they do not.
expect 0 run "$scenes/pendulum.toml" --solver bullet:si --record native.rec
expect 0 report run.rec native.rec --out both.html --json
holds '.schema == 1 and .out == "both.html" and .recordings == 2'
recording both.html >both.json
jq -e '[.comparison.solvers[].name] == ["exact", "bullet:si"] and (.motions | length == 2) and (.commands | length == 2)
  and (.verdict[0] | test("bullet:si"))' both.json >/dev/null || fail "both.html has not both"
expect 0 compare "$scenes/winch.toml" --record winch.rec --duration 0.2
expect 2 report run.rec winch.rec --out no.html
says 'two scenes'
[[ ! -e no.html ]] || fail "wrote a page of two scenes"

expect 2 report run.rec native.rec --out native.rec
says 'is one of the files that are read'

# compare reads them too: the table of what was run before, by whomever, and nothing is run.
expect 0 compare run.rec native.rec --json --report compared.html --record compared.rec
jq -e --slurpfile run run.rec --slurpfile native native.rec \
  '.solvers[0] == $run[0].comparison.solvers[0] and .solvers[1] == $native[0].comparison.solvers[0]' "$scratch/out" >/dev/null ||
  fail "the comparison of recordings has other numbers than they: $(head -c 400 "$scratch/out")"
cmp <(recording compared.html | jq -cS .) <(jq -cS . both.json) || fail "compare and report make two pages of the same recordings"
expect 0 compare compared.rec
prints 'In double precision, .*bullet:si'
prints '^bullet:si  double'
expect 2 compare run.rec winch.rec
says 'the recordings are of two scenes: "pendulum.toml" and "winch.toml"$'
expect 2 compare run.rec native.rec --dt 1/100
says '\-\-dt has no effect on recordings'
expect 3 compare run.rec "$scenes/pendulum.toml"
says 'pendulum.toml: error: is not a recording of linchpin'
expect 4 run "$scenes/pendulum.toml" --host bare --gravity 0,-1.62,0 --record moon.rec  # its known answer is of the earth
expect 2 compare run.rec moon.rec
says 'differ in gravity: \[0.0,-9.81,0.0\] and \[0.0,-1.62,0.0\]'
sed 's/^title = .*/title = "edited"/' "$scenes/pendulum.toml" >pendulum.toml
expect 0 run pendulum.toml --host bare --record edited.rec
expect 2 compare run.rec edited.rec
says 'was changed between the two recordings'
expect 0 run "$scenes/pendulum.toml" --host bare --dt 0.0005 --record finer.rec
expect 0 compare run.rec finer.rec
prints 'ran [0-9.]+ s in steps of 0.0005 s'
# A sentence speaks of one step: each run by itself, and its name says how it ran.
[[ $(grep -c '^In double precision.* exact keeps every ' "$scratch/out") == 2 ]] || fail "verdict: $(head -n 3 "$scratch/out")"
prints '^In double precision over [0-9.]+ s in steps of 0.0005 s, exact keeps'
prints '^exact \([0-9.]+ s in steps of 0.0005 s\) +double'
expect 0 compare run.rec finer.rec --json
holds '(.solvers[1].label | test("steps of 0.0005 s")) and (.solvers[0] | has("label") | not)'
expect 0 run "$scenes/pendulum.toml" --solver bullet:si --dt 0.0005 --record finer-native.rec
expect 0 compare run.rec native.rec finer-native.rec
! grep -q 'exact.*bullet:si.*0.0005' <(head -n 1 "$scratch/out") || fail "a verdict over two steps: $(head -n 2 "$scratch/out")"
prints '^In double precision over .*, bullet:si leaves the least, a residual of'
# A program that recorded itself, exact and native: nothing of a scene's file, the same table and page.
if [[ -x $bin/quickstart-5_report ]]; then
  (mkdir own && cd own && "$bin/quickstart-5_report" >/dev/null) || fail "quickstart-5_report: $?"
  expect 0 compare own/exact.rec own/native.rec --report own/both.html
  prints 'chain: 10 bodies, 10 joints; 2 s in steps of 0.00416667 s'
  prints 'exact keeps every joint closed to .*bullet:si, leaves'
  recording own/exact.html | jq -e '.motions[0] | .frames == 241 and .every == 2 and .bodies[9].name == "plank 10"' >/dev/null || fail "own/exact.html"
  # Half a second down, the hook feels nearly the same under both: Bullet's forces are there.
  for run in exact native; do
    jq -r '.motions[0].columns.force' own/$run.rec | base64 -d | od -An -v -t f4 -w12 | awk 'NR == 601 { print sqrt($1 * $1 + $2 * $2 + $3 * $3) }'
  done | paste -sd' ' | awk '{ exit !($1 > 50 && $2 > 0.85 * $1 && $2 < 1.15 * $1) }' || fail "forces of a program's own recording"
  expect 2 compare own/exact.rec run.rec
  says 'two scenes: "chain" and "pendulum.toml"'
fi
expect 2 compare run.rec native.rec --report native.rec
says 'is one of the files that are read'

# The scene's text cannot end the page's script.
sed 's|^title = .*|title = "</script><script>alert(1)</script><!--"|' "$scenes/pendulum.toml" >evil.toml
expect 0 run evil.toml --report evil.html
[[ $(grep -o '</script>' evil.html | wc -l) == $(grep -o '</script>' page.html | wc -l) ]] || fail "the scene's text ends the script"
recording evil.html | jq -e '.scene.text | contains("</script><script>alert(1)</script><!--")' >/dev/null || fail "the scene's text was changed"

# An animation: what it says of itself goes together. That viewers can read it is tests/viewers.
expect 0 run "$scenes/pendulum.toml" --host bare --gltf run.gltf --mcap run.mcap
prints 'wrote run.gltf'
jq -e '.asset.version == "2.0" and (.animations | length == 1) and (.animations[0].channels | length >= 1)
  and ([.accessors[] | select(.type == "SCALAR" and .max)] | length == 1)' run.gltf >/dev/null || fail "run.gltf: $(head -c 300 run.gltf)"
[[ $(jq -r '.buffers[0].uri' run.gltf | cut -d, -f2 | base64 -d | wc -c) == "$(jq '.buffers[0].byteLength' run.gltf)" ]] || fail "run.gltf: its buffer has another length"
[[ $(head -c 8 run.mcap | od -An -tx1 | tr -d ' ') == 894d434150300d0a && $(tail -c 8 run.mcap | od -An -tx1 | tr -d ' ') == 894d434150300d0a ]] || fail "run.mcap is no MCAP"
expect 0 report run.rec native.rec --gltf both.glb
[[ $(head -c 4 both.glb) == glTF && $(od -An -tu4 -j8 -N4 both.glb | tr -d ' ') == "$(stat -c %s both.glb)" ]] || fail "both.glb has another length than it says"
expect 2 run "$scenes/pendulum.toml" --gltf run.obj
says 'run.obj.*\.gltf or \.glb'
expect 2 run "$scenes/hoop-in-its-angle.toml" --gltf flat.gltf
says 'no position in space'
[[ ! -e flat.gltf && ! -e run.obj ]] || fail "wrote an animation of nothing"
expect 2 report run.rec
says 'name an output with --out, --gltf or --mcap'
jq '.motions[0].frames = 7' run.rec >short.rec
expect 3 report short.rec --gltf no.glb
says 'short.rec: error: is a damaged recording: motions\[0\].columns.t has [0-9]+ letters of base64, expected 40 for 28 bytes'
jq '.motions[0].columns.rotation = "!!!!"' run.rec >odd.rec
expect 3 report odd.rec --gltf no.glb
[[ ! -e no.glb ]] || fail "wrote an animation of a damaged recording"

# What is wrong with a recording is said with its place and value, by whoever reads it.
damaged() {  # damaged FILTER PATTERN
  jq "$1" run.rec >damaged.rec
  for words in 'report damaged.rec --out no.html' 'compare damaged.rec native.rec' 'report native.rec damaged.rec --mcap no.html'; do
    expect 3 $words
    says "damaged.rec: error: is a damaged recording: $2"
  done
}
damaged '.motions[0].frames = 1000000000' 'motions\[0\].columns.t has'
damaged '.motions[0].frames = -1' 'motions\[0\].frames is -1, expected a whole number from 1'
damaged '.motions[0].every = 0' 'motions\[0\].every is 0, expected a whole number from 1'
damaged '.motions[0].columns.t |= .[0:100]' 'motions\[0\].columns.t has 100 letters'
damaged '.motions[0].columns.t |= "!" + .[1:]' 'motions\[0\].columns.t is .*, expected base64'
damaged '.motions[0].bodies[0].size = [1, 2]' 'motions\[0\].bodies\[0\].size is \[1,2\], expected 3 numbers'
damaged '.motions[0].bodies[0].name = 7' 'motions\[0\].bodies\[0\].name is 7, expected a text'
damaged '.motions[0].constraints[0].bodies = [99]' 'motions\[0\].constraints\[0\].bodies\[0\] is 99'
damaged '.comparison.dt = "x"' 'comparison.dt is "x", expected a number'
damaged '.comparison.solvers[0].status = 3' 'comparison.solvers\[0\].status is 3, expected a text'
damaged '.scene = {}' 'scene.file is missing'
damaged '.motions = []' 'motions are 0, expected 1'
for good in run native compared; do expect 0 report $good.rec --out good.html; done

# The log of a recording: single precision, the forces with their points.
expect 0 report run.rec native.rec --mcap both.mcap
prints 'wrote both.mcap'
[[ $(tail -c 8 both.mcap | od -An -tx1 | tr -d ' ') == 894d434150300d0a ]] || fail "both.mcap is no MCAP"
grep -aq '"point"' both.mcap || fail "both.mcap has no forces with their points"

# Whatever the sampling, the last state is there, and a short run is no two points.
last() { jq -r '.motions[0].columns.t' "$1" | base64 -d | od -An -v -t f4 -w4 | tail -n 1 | awk -v t="$2" '{ exit !(($1 - t) ^ 2 < 1e-12) }' || fail "$1 does not end at $2 s"; }
expect 0 run "$scenes/andrews.toml" --record andrews.rec --csv andrews.csv
last andrews.rec "$(tail -n 1 andrews.csv | cut -d, -f1)"
jq -e '.motions[0].every == 1 and .title != null' andrews.rec >/dev/null || fail "andrews: one of $(jq '.motions[0].every' andrews.rec) steps"
expect 0 run "$scenes/bead-on-ring.toml" --record bead.rec
last bead.rec 0.5
jq -e '.motions[0] | .frames >= 200 and .frames < 450' bead.rec >/dev/null || fail "bead-on-ring: $(jq '.motions[0].frames' bead.rec) frames"
expect 0 run "$scenes/bead-on-ring.toml" --frames 7 --record bead.rec
last bead.rec 0.5
jq -e '.motions[0].frames < 10' bead.rec >/dev/null || fail "--frames 7 has $(jq '.motions[0].frames' bead.rec) frames in half a second"
expect 0 run "$scenes/pendulum.toml" --solver bullet:si --duration 0.3 --record short.rec
last short.rec 0.3

# One energy: the largest change that is recorded is what the table calls the error; where something works, a note says so.
cat >links.toml <<'END'
schema = 2
title = "five links"
[world]
duration = 3
[[chain]]
name = "link"
count = 5
step = [0.1, 0, 0]
shape = { capsule = [0.02, 0.06] }
density = 1000
joint = "ball"
END
for host in bare bullet-float64; do
  expect 0 run links.toml --host $host --frames 1e6 --record links.rec --json
  most=$(jq -r '.motions[0].columns.energy' links.rec | base64 -d | od -An -v -t f4 -w4 | awk '{ if ($1 ^ 2 > m ^ 2) m = $1 } END { printf "%.9g", m < 0 ? -m : m }')
  jq -e --argjson most "$most" '.solver.max_energy_error_J as $e | $e > 1e-6 and ($e - $most | fabs) < 1e-5 * $e + 1e-7' "$scratch/out" >/dev/null ||
    fail "links on $host: recorded $most J, said $(jq .solver.max_energy_error_J "$scratch/out")"
done
[[ $(jq -r .title links.rec) == "five links" ]] || fail "the title is not in the recording"
expect 0 run "$scenes/rotating-wire.toml" --record wire.rec
jq -e '.notes | any(test("the energy error is that of energy minus the work of prescribed motions"))' wire.rec >/dev/null || fail "wire: $(jq -c .notes wire.rec)"

# No force where the equation has no answer: nothing, not nought.
cat >overflow.toml <<'END'
schema = 2
[world]
duration = 2
dt = 0.05
[[body]]
name = "p"
kind = "particle"
mass = 1
position = [1, 0, 0]
[[constraint]]
name = "c"
equation = "p.y = 0"
[[force]]
name = "f"
body = "p"
force = "[exp(30*p.x), 0, 0]"
END
expect 4 run overflow.toml --csv overflow.csv --record overflow.rec
[[ $(tail -n 1 overflow.csv) == *,,,,,, ]] || fail "forces of a state that has none: $(tail -n 1 overflow.csv)"
jq -r '.motions[0].columns.force' overflow.rec | base64 -d | od -An -v -t f4 -w12 | tail -n 1 | grep -q nan || fail "overflow.rec has a force at its end"

# One place for one file, and a run that is refused leaves none.
expect 2 run "$scenes/pendulum.toml" --csv same.x --report ./same.x
says '\-\-report and --csv are both "same.x"'
expect 2 report run.rec --out same.html --gltf same.html
expect 2 run "$scenes/andrews.toml" --report none.html --gltf none.glb --mcap none.mcap --csv none.csv
says 'no position in space'
! compgen -G 'none.*' >/dev/null && [[ ! -e same.x ]] || fail "a run that was refused left $(ls none.* same.x)"

# A long run with many bodies stays below the size that opens well, and says how many frames it has.
expect 0 run "$scenes/rope.toml" --solver bullet:si --duration 20 --frames 1e6 --report long.html
(($(stat -c %s long.html) < 15000000)) || fail "a long report is $(stat -c %s long.html) bytes"
recording long.html | jq -e '.motions[0] | .every > 1 and .frames > 100' >/dev/null || fail "a long run is not thinned"

# What is no recording is refused with the file's name, and nothing is left behind.
echo '{"schema": 1}' >not.rec
expect 3 report not.rec --out no.html
says 'not.rec'
jq '.schema = 3' run.rec >later.rec
expect 3 report later.rec --out no.html
jq '.schema = 1' run.rec >earlier.rec
expect 3 report earlier.rec --out no.html
says 'schema 1, expected 2\. Record it again'
jq 'del(.motions)' run.rec >torn.rec
expect 3 report torn.rec --out no.html
jq '.comparison.solvers = [3]' run.rec >odd.rec
expect 3 report odd.rec --out no.html
expect 2 run "$scenes/pendulum.toml" --report /no/such/folder/page.html
expect 2 run "$scenes/pendulum.toml" --report page.html --frames 0
[[ ! -e no.html ]] || fail "wrote a page of what is no recording"
! compgen -G '*.part-*' >/dev/null || fail "left a part of a file behind"

done_testing
