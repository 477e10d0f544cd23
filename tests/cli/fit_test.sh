# `linchpin fit`: parameters from exact and noisy recordings, what the data do not determine, the comparison of laws, and what
# is said about bad data.
# Called as: fit_test.sh <bin dir> <source dir>
source "$(dirname "$0")/common.bash" "$@"
scenes=$source/demos/scenes
cd "$scratch" || exit 1

# noisy FILE COLUMN FACTOR SIGMA SEED EVERY TITLE: one column of a table, times a factor, with normal noise; a row of every few.
noisy() {
  awk -F, -v col="$2" -v f="$3" -v s="$4" -v seed="$5" -v every="$6" -v title="$7" '
    function noise() { return sqrt(-2*log(1 - rand()))*cos(6.283185307179586*rand()) }
    BEGIN {srand(seed)}
    NR == 1 {for (i = 1; i <= NF; ++i) if ($i == col) at = i; print "t [s]," title}
    NR > 1 && (NR - 2) % every == 0 {printf "%s,%.17g\n", $1, $at*f + s*noise()}' "$1"
}

# ---- The rough circle: its four turning points, by an independent integration of the angle from the bottom.
cat >turns.csv <<'CSV'
t [s],"atan2(bead.x, -bead.y) [rad]"
0,-1.5707963267948966
1.1011737001724389,0.7777241756245301
2.1149967125051194,-0.30367428522790474
3.108998575286501,-0.09404817815808023
CSV
circle=$scenes/rough-circle.toml
expect 0 fit "$circle" turns.csv --free mu --set mu=0.3 --duration 4 --json
holds '.converged and .samples == 4 and .not_determined == []' \
  '.parameters[0] | .name == "mu" and .determined and (.value - 0.2 | fabs) < 1e-9 and .at_bound == "no" and .start == 0.3' \
  '.columns[0] | .name == "atan2(bead.x, -bead.y)" and .unit == "rad" and .samples == 4 and .sigma_given == false'
# The same in milliseconds and degrees, between semicolons.
awk -F, 'NR == 1 {print "time [ms];\"atan2(bead.x, -bead.y) [deg]\""} NR > 1 {printf "%.17g;%.17g\n", 1000*$1, $2*180/atan2(0, -1)}' turns.csv >degrees.csv
expect 0 fit "$circle" degrees.csv --free mu=0:1 --set mu=0.3 --duration 4 --json
holds '(.parameters[0].value - 0.2 | fabs) < 1e-9 and .parameters[0].lower_bound == 0 and .parameters[0].upper_bound == 1'

# A bound that holds back the parameter is said, and the parameter then has no error.
expect 0 fit "$circle" turns.csv --free mu=0.25:1 --set mu=0.3 --duration 4 --json
holds '.parameters[0] | .value == 0.25 and .at_bound == "low" and .standard_error == null'
expect 0 fit "$circle" turns.csv --free mu=0.25:1 --set mu=0.3 --duration 4
prints '^  mu +0.25 +at its lower bound$'

# A table of `linchpin run --csv` has all columns that a fit can read; gaps and quaternions are left out.
expect 0 run "$circle" --csv run.csv
expect 0 fit "$circle" run.csv --free mu,g --set mu=0.25,g=9.5 --json --out residuals.csv --report page.html
holds '([.parameters[] | .value] | ((.[0] - 0.2 | fabs) < 1e-9) and ((.[1] - 9.81 | fabs) < 1e-8))' \
  '[.columns[] | .name] | index("circle.Fx") != null and index("bead.vx") != null and index("circle.gap") == null' \
  '[.remarks[] | select(test("\"bead.z\" does not depend on the free parameters"))] | length == 1'
rectangular residuals.csv
head -n 1 residuals.csv | grep -qx 'recording,column,unit,t \[s\],measured,predicted,residual,sigma' || fail "residuals: $(head -n 1 residuals.csv)"
grep -q '"kind":"linchpin fit"' page.html || fail "the page has no fit in it"

# Files in MCAP, whose columns have the names of the scene.
expect 0 run "$scenes/swinging-bar.toml" --mcap bar.mcap --duration 2
expect 0 fit "$scenes/swinging-bar.toml" bar.mcap --column angle --duration 2 --free mu --set mu=0.25 --json
holds '(.parameters[0].value - 0.3 | fabs) < 1e-8 and (.columns | length) == 1'
expect 3 fit "$scenes/swinging-bar.toml" bar.mcap --column angel --free mu
says '^bar.mcap: error: there is no column "angel"; did you mean "angle"\?$'
head -c 3000 bar.mcap >torn.mcap
expect 3 fit "$scenes/swinging-bar.toml" torn.mcap --column angle --free mu
says '^torn.mcap: error: the MCAP file is damaged or incomplete$'

# ---- Noise: known and estimated levels, samples that are missing.
noisy run.csv 'bead.x [m]' 1000 10 7 5 'bead.x [mm]' | awk -F, -v OFS=, 'NR % 9 == 3 {$2 = ""} {print}' >noisy.csv
expect 0 fit "$circle" noisy.csv --free mu --json
holds '.parameters[0] | .low_95 < .value and .value < .high_95 and (.value - 0.2 | fabs) < 4*.standard_error and .standard_error < 0.01' \
  '.columns[0] | .unit == "mm" and .sigma > 8 and .sigma < 12 and .samples == 178' '.degrees_of_freedom == 177'
expect 0 fit "$circle" noisy.csv --free mu --sigma 'bead.x=1 cm' --json
holds '.columns[0] | .sigma == 10 and .sigma_given' '.degrees_of_freedom == null'

# ---- What the data do not determine: of a free oscillator, quotients alone.
cat >oscillator.toml <<'TOML'
schema = 2
[params]
stiffness = 40
mass = 2
damping = 1
shift = 0
other = 3
[world]
gravity = [0, 0, 0]
duration = 5
dt = 0.01
[solver]
method = "rk4"
[[body]]
name = "block"
kind = "particle"
mass = "mass"
position = [1, 0, 0]
[[constraint]]
name = "rail"
equation = ["block.y = 0", "block.z = 0"]
[[force]]
name = "spring"
body = "block"
force = "-stiffness*[block.x, 0, 0] - damping*block.velocity"
[[log]]
name = "scale"
channel = "block.x + shift + 2*other"
unit = "m"
TOML
expect 0 run oscillator.toml --csv oscillator.csv
expect 4 fit oscillator.toml oscillator.csv --column block.x --free stiffness,mass,damping --set stiffness=50,mass=2.2,damping=0.5 --json
holds '.converged and (.not_determined | length) == 1 and .smallest_singular_value == 0' \
  '.not_determined[0] == "the data determine only stiffness/mass and damping/mass, not stiffness, mass and damping each"' \
  '[.parameters[] | .value == null and .determined == false and .standard_error == null] | all' \
  '[.combinations[] | .expression] == ["stiffness/mass", "damping/mass"]' \
  '(.combinations[0].value - 20 | fabs) < 1e-8 and (.combinations[1].value - 0.5 | fabs) < 1e-8'
expect 4 fit oscillator.toml oscillator.csv --column block.x --free stiffness,mass,damping
prints '^  stiffness +not determined$'
prints '^NOT DETERMINED: the data determine only stiffness/mass and damping/mass, not stiffness, mass and damping each$'
prints '^  stiffness/mass = 20, standard error '
# Sums, and a parameter without any effect.
expect 4 fit oscillator.toml oscillator.csv --column scale --free shift,other,stiffness --set shift=0.1 --json
holds '.combinations[0].expression == "shift + 2*other" and (.combinations[0].value - 6 | fabs) < 1e-9' \
  '.parameters[2] | .determined and (.value - 40 | fabs) < 1e-6'
expect 4 fit oscillator.toml oscillator.csv --column block.x --free stiffness,other
prints '^NOT DETERMINED: the data do not depend on other$'
# With the mass known, the stiffness is determined.
expect 0 fit oscillator.toml oscillator.csv:mass=2 --column block.x --free stiffness,damping --set stiffness=50

# The search finds the nearest minimum; one that explains nothing is called so.
expect 0 fit oscillator.toml oscillator.csv --column block.x --free stiffness=400:900 --set stiffness=600
prints '^note: the prediction of "block.x" is far from the data: .*another start value helps \(--set\)$'

# ---- Two loads: the friction of the pin, or a constant torque. Recordings from each law, in degrees with noise.
for law in swinging-bar swinging-bar-constant; do
  for load in 2 8; do
    sed "s/^load = .*/load = $load/; s/^duration = .*/duration = 3/" "$scenes/$law.toml" >law.toml
    "$linchpin" run law.toml --csv law.csv >/dev/null 2>&1
    noisy law.csv 'angle [rad]' 57.29577951308232 0.5 $load 5 'angle [deg]' >$law-$load.csv
  done
done
compare() { # DATA: pin friction against constant friction
  expect 0 fit "$scenes/swinging-bar.toml" "$1-2.csv:load=2" "$1-8.csv:load=8" --free mu=0: --set mu=0.2 --duration 3 \
    --against "$scenes/swinging-bar-constant.toml:torque=0:" --json
}
compare swinging-bar
holds '.comparison | (.best | endswith("/swinging-bar.toml")) and .scenes[0].weight > 0.999 and .scenes[1].excess > 6 and (.verdict | test("is better"))' \
  '.parameters[0] | .low_95 < 0.3 and .high_95 > 0.3' '.against[0].parameters[0].name == "torque"'
compare swinging-bar-constant
holds '.comparison | (.best | endswith("/swinging-bar-constant.toml")) and .scenes[1].weight > 0.999 and .scenes[0].excess > 6' \
  '.against[0].parameters[0] | .low_95 < 0.18 and .high_95 > 0.18'
# From one load nobody can tell: the verdict says so.
expect 0 fit "$scenes/swinging-bar.toml" swinging-bar-2.csv:load=2 --free mu=0: --duration 3 --against "$scenes/swinging-bar.toml" --json
holds '.comparison.verdict | test("^the data do not decide")'
# A value of each recording.
expect 0 fit "$scenes/swinging-bar.toml" swinging-bar-2.csv:load=2 swinging-bar-8.csv:load=8 --free mu --free-each start=0:2 --set start=0.9 --duration 3 --json
holds '[.parameters[].name] == ["mu", "start of swinging-bar-2.csv", "start of swinging-bar-8.csv"]' \
  '[.parameters[1:][].value - 1 | fabs] | max < 0.01'

# ---- Bad data: the file, the line, the column and the reason.
bad() { # TEXT PATTERN WORDS…
  local text=$1 pattern=$2
  shift 2
  printf "%b" "$text" >bad.csv
  expect 3 fit "$circle" bad.csv --free mu "$@"
  says "$pattern"
}
bad 'x [m],bead.x [m]\n0,1\n' '^bad.csv:1:1: error: no column has the time. Its title is "t \[s\]"'
bad 'bead.x [m],t\n0,1\n' '^bad.csv:1:12: error: "t": the unit is missing: write \[s\] behind the name$'
bad 't [m],bead.x [m]\n0,1\n' '^bad.csv:1:1: error: "t": the unit is \[m\], expected \[s\] or a multiple of it$'
bad 't [s],beda.x [m]\n0,1\n' '^bad.csv:1:7: error: "beda.x" is no quantity of .*rough-circle.toml: unknown name .beda.; did you mean "bead"\?'
bad 't [s],bead.x [m]\n0,1\n' '^bad.csv:1:1: error: there is no column "bead.y"; did you mean "bead.x"\?$' --column bead.y
bad 't [s],bead.x [m]\n0,1\n' '^bad.csv:1:1: error: there is no column "bead.y"' --column bead.x --column bead.y
bad 't [s],bead.x [kg]\n0,1\n' '^bad.csv:1:7: error: "bead.x": the unit is \[kg\], expected \[m\] or a multiple of it$'
bad 't [s],bead.x [furlong]\n0,1\n' '^bad.csv:1:7: error: "bead.x": the unit \[furlong\] is not known, expected \[m\]'
bad 't [s],bead.x\n0,1\n' '^bad.csv:1:7: error: "bead.x": the unit is missing: write \[m\] behind the name$'
bad 't [s],bead.position [m]\n0,1\n' '^bad.csv:1:7: error: "bead.position" is a vector. Measure a component, such as bead.position.x'
bad 't [s],bead.x [m],bead.x [m]\n0,1,1\n' '^bad.csv:1:18: error: two columns have the title "bead.x"$'
bad 't [s],bead.x [m]\n0,-1\n0.1,nan\n' '^bad.csv:3:5: error: "nan" is not finite. Leave the field empty if there is no sample$'
bad 't [s],bead.x [m]\n0,-1\n0.1,-inf\n' '^bad.csv:3:5: error: "-inf" is not finite'
bad 't [s],bead.x [m]\n0,-1\n0.1, wide\n' '^bad.csv:3:6: error: "wide" is not a number$'
bad 't [s];bead.x [m]\n0;-1\n0.1;0,5\n' '^bad.csv:3:5: error: "0,5" is not a number. Write a decimal point in place of the comma$'
bad '# made by hand\n\nt [s],bead.x [m]\n0,-1\n0.2,-1\n0.1,-1\n' '^bad.csv:6:1: error: the time 0.1 goes back. Times must increase$'
bad 't [s],bead.x [m]\n0,-1\n0.2,-1\n0.2,-1\n' '^bad.csv:4:1: error: the time 0.2 is there twice'
bad 't [s],bead.x [m]\n,-1\n' '^bad.csv:2:1: error: the time is missing$'
bad 't [s],bead.x [m]\n5,1\n6,1\n' '^bad.csv:2:1: error: the times do not overlap with the run: they are from 5 to 6 s, and the run is from 0 to 1 s'
bad 't [s],bead.x [m]\n0,-1\n0.2\n' '^bad.csv:3:1: error: the row has 1 field under 2 titles$'
bad 't [s],bead.x [m]\n' '^bad.csv:1:1: error: the table has titles but no rows$'
bad '' '^bad.csv: error: the file is empty'
bad 't [s]\n0\n' '^bad.csv:1:1: error: there is no column beside the time$'
grep -q '^ *\^$' err || fail "no caret under the place"
expect 3 fit "$circle" missing.csv --free mu
says '^missing.csv: error: the file does not exist$'
# Samples after the end of the run are left out, and that is said.
printf 't [s],bead.x [m]\n0,-1\n0.5,-0.1\n3,0\n' >late.csv
expect 0 fit "$circle" late.csv --free mu=0: --set mu=0.1
prints '^note: 1 sample of late.csv lies outside of the run from 0 to 1 s and is left out$'

# Steps of the semi-implicit method end beside the times of stick and slip.
sed 's/^method = .*/method = "semi-implicit"/' "$circle" >semi-implicit.toml
expect 0 fit semi-implicit.toml run.csv --column bead.x --free mu --set mu=0.21
prints '^note: the scene steps by the method semi-implicit, which locates stick and slip at the ends of steps only'

# ---- Mistakes on the command line, and fits without a result.
printf 't [s],bead.x [m]\n0,-1\n0.5,-0.1\n' >two.csv
expect 2 fit "$circle" two.csv --free mmu
says 'the scene has no number "mmu" in \[params\]; did you mean "mu"\?$'
expect 2 fit "$circle" two.csv --free g=1:5
says 'the start value of "g" is 9.81, outside of its bounds from 1 to 5. --set can give another start value$'
expect 2 fit "$circle" two.csv --free mu=1
says '"mu=1" must have two bounds, as in mu=0:1'
expect 2 fit "$circle" two.csv --free mu=1:0
says 'the bounds of "mu" are 1 and 0. The first must be smaller$'
expect 2 fit "$circle" two.csv --free mu --set mmu=1
says 'no scene has a number "mmu" in \[params\]$'
expect 2 fit "$circle" two.csv:mu=0.1 --free mu
says '"mu" is free, but two.csv gives it a value$'
expect 2 fit "$circle" two.csv --free mu --sigma bead.y=1
says 'there is no column "bead.y"; did you mean "bead.x"\?$'
expect 2 fit "$circle" two.csv --free mu --sigma 'bead.x=1 s'
says 'the unit is \[s\], expected \[m\] or a multiple of it$'
expect 2 fit "$circle" two.csv --free mu --sigma bead.x=-1
says 'expected a positive number'
expect 2 fit "$circle" two.csv --free mu,g,R
says 'there are 2 measurements for 3 parameters$'
expect 3 fit "$circle" two.csv --free mu --set mu=-1
says 'rough-circle.toml:28:32: error: .*mu must not be below 0$'
cp two.csv kept.csv
expect 2 fit "$circle" kept.csv --free mu --out kept.csv
cmp -s two.csv kept.csv || fail "a recording was written over"
done_testing
