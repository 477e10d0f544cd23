# `linchpin sweep`: the same bytes whoever runs the cases and however often the sweep is ended; closed forms over a
# parameter; a case that fails costs its row.
source "$(dirname "$0")/common.bash" "$@"
scenes=$source/demos/scenes
bin=$(cd "$bin" && pwd)
linchpin=$bin/linchpin
cd "$scratch" || exit 1

# A small scene with two parameters, one of which the other numbers follow from.
cat >throw.toml <<'END'
schema = 2
[params]
v = 3.0
g = 9.81
m = 1.0
top = "v^2/(2*g)"
[world]
gravity = [0, "-g", 0]
duration = 0.5
dt = 0.001
[solver]
method = "rk4"
[[body]]
name = "ball"
kind = "particle"
mass = "m"
velocity = [0, "v", 0]
[[constraint]]
name = "wall"
equation = "ball.z = 0"
[[log]]
channel = "ball.position"
[[expect]]
value = "top"
at = 0.5
is = 0.458715596330275
tolerance = 1e-12
END
sweep() { expect 0 sweep throw.toml --set v=1:4:7 --set g=1.62,9.81 "$@"; }

sweep -j 1 --out one.csv
[ "$(wc -l <one.csv)" -eq 15 ] || fail "$(wc -l <one.csv) lines, not a header and 14 cases"
[ "$(head -n 1 one.csv)" = 'case,v,g,status,t [s],top at 0.5 s,ball.position.x [m],ball.position.y [m],ball.position.z [m],sweep' ] ||
  fail "header: $(head -n 1 one.csv)"
# v^2/(2 g) and v t - g t^2/2, in the order of the cases, the last name fastest.
LC_ALL=C awk -F, '
  NR == 1 { next }
  {
    n = NR - 2; v = 1 + 0.5 * int(n / 2); g = n % 2 ? 9.81 : 1.62
    e = $1 - n; f = $2 - v; h = $3 - g; top = $6 - v * v / (2 * g); y = $8 - (v * 0.5 - g * 0.125)
    if ($4 != "ok" || e || f || h || $5 != 0.5 && ($5 - 0.5) ^ 2 > 1e-24 || top ^ 2 > 1e-28 || y ^ 2 > 1e-24) { print; bad = 1 }
  }
  END { exit bad }' one.csv >awk.out || fail "rows: $(cat awk.out)"

# The page: the rows of the table, the scene's own parameters, and what its [[expect]] says of them.
sed 's|^is = .*|is = "v^2/(2*g)"|' throw.toml >known.toml
for scene in throw known; do
  expect 0 sweep $scene.toml --set v=1:4:7 --set g=1.62,9.81 -j 1 --out $scene.csv --report $scene.html
  sed -n 's|.*<script type="application/json" id="recording">\(.*\)</script>.*|\1|p' $scene.html >$scene.json
done
jq -e '.kind == "linchpin sweep" and .cases == 14 and .failed == 0 and (.rows | length) == 14
  and .parameters == [{"name": "v", "own": 3}, {"name": "g", "own": 9.81}]
  and (.columns[0] | .expected and .at_own == 0.458715596330275 and .known == null) and (.columns[1].expected | not)' throw.json >/dev/null ||
  fail "page: $(head -c 600 throw.json)"
jq -e '.rows as $rows | .columns[0].known as $known | ($known | length) == 14 and
  all(range(14); $rows[.] as $r | $known[.] == $r[5] and ($known[.] - $r[1] * $r[1] / (2 * $r[2]) | fabs) < 1e-14)' known.json >/dev/null ||
  fail "known answers: $(head -c 600 known.json)"
[ "$(jq -r '.rows[] | @csv' throw.json | cut -d, -f1-3)" = "$(tail -n +2 one.csv | cut -d, -f1-3 | sed 's/1.6200000000000001/1.62/; s/9.8100000000000005/9.81/')" ] ||
  fail "the page has other rows than the table"

# Workers.
sweep -j 2 --out two.csv
cmp -s one.csv two.csv || fail "1 and 2 workers differ"

# Shards, merged by the command and by sort.
sweep --shard 0/2 --out shard-0.csv
sweep --shard 1/2 --out shard-1.csv
[ "$(wc -l <shard-1.csv)" -eq 8 ] || fail "a shard of 7 cases has $(wc -l <shard-1.csv) lines"
sweep --merge shard-0.csv shard-1.csv --out merged.csv
prints '14 cases, 0 of them run now'
cmp -s one.csv merged.csv || fail "merged shards differ"
{ head -n 1 shard-0.csv; tail -q -n +2 shard-0.csv shard-1.csv | sort -t, -k1,1n; } >sorted.csv
cmp -s one.csv sorted.csv || fail "sorted shards differ"

# Killed twice, with whatever was there by then; the second time in the middle of a row.
slow() { "$linchpin" sweep throw.toml --set v=1:4:300 --set g=1.62,9.81 -j 2 --out "$1.csv" "${@:2}" >out 2>err; }
slow whole || fail "exit code $?: $(cat err)"
killed() {  # killed ROWS WORDS…: ends the sweep when so many rows are there
  "$linchpin" sweep throw.toml --set v=1:4:300 --set g=1.62,9.81 -j 2 --out ended.csv "${@:2}" >out 2>err &
  local sweep=$!
  for _ in $(seq 2000); do
    [ "$(cat ended.csv.part 2>/dev/null | wc -l)" -ge "$1" ] && break
    kill -0 $sweep 2>/dev/null || break
    sleep 0.005
  done
  kill -KILL $sweep
  wait $sweep 2>/dev/null
  # Its workers end with it, in a moment on a busy machine; until then the table is theirs.
  for _ in $(seq 200); do [ ! -e ended.csv.part ] || flock -n ended.csv.part true && break; sleep 0.05; done
  [ -e ended.csv ] && fail "the sweep was over before it was killed"
  [ -e ended.csv.part ] || fail "nothing was kept"
}
killed 20
expect 2 sweep throw.toml --set v=1:4:300 --set g=1.62,9.81 --out ended.csv
says 'an unfinished sweep.*--resume'
killed 150 --resume
printf '599,4,9.8' >>ended.csv.part
before=$(($(wc -l <ended.csv.part) - 1))
slow ended --resume || fail "exit code $?: $(cat err)"
grep -q "600 cases, $((600 - before)) of them run now" out || fail "$before rows were there: $(cat out)"
cmp -s whole.csv ended.csv || fail "a sweep killed twice differs"
[ -e ended.csv.part ] && fail "FILE.part was left behind"

# GNU parallel, as the guide has it.
if command -v parallel >/dev/null; then
  parallel --will-cite "$linchpin" sweep throw.toml --set v=1:4:7 --set g=1.62,9.81 -j 1 --resume --shard {}/3 --out part-{}.csv ::: 0 1 2 >out 2>err ||
    fail "parallel: $(cat err)"
  sweep --merge part-0.csv part-1.csv part-2.csv --out parallel.csv
  prints '14 cases, 0 of them run now'
  cmp -s one.csv parallel.csv || fail "GNU parallel gives other bytes"
else
  echo "skipped: no GNU parallel (Debian: parallel)"
fi

# MPI: the same bytes of two ranks, of a sweep that was ended and goes on, and of one with a case that kills its process.
if [ -e "$bin/linchpin-mpi.so" ] && command -v mpirun >/dev/null; then
  # As many ranks as asked for, whoever asks and on however many cores; OpenMPI's words.
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
  ranks() { timeout 120 mpirun -n "$@" >out 2>err; }
  ranks 2 "$linchpin" sweep throw.toml --set v=1:4:7 --set g=1.62,9.81 --mpi --out mpi.csv || fail "mpirun: $? $(cat err)"
  [ "$(cat out)" = "wrote mpi.csv: 14 cases, 14 of them run now" ] || fail "mpirun: $(cat out)"
  cmp -s one.csv mpi.csv || fail "two ranks give other bytes"
  ranks 3 "$linchpin" sweep throw.toml --set v=1:4:300 --set g=1.62,9.81 --mpi -j 2 --out mpi-whole.csv || fail "mpirun: $? $(cat err)"
  cmp -s whole.csv mpi-whole.csv || fail "three ranks with two workers each give other bytes"
  { head -n 200 whole.csv; printf '599,4,9.8'; } >mpi-ended.csv.part
  ranks 2 "$linchpin" sweep throw.toml --set v=1:4:300 --set g=1.62,9.81 --mpi --resume --out mpi-ended.csv || fail "mpirun: $? $(cat err)"
  grep -q '600 cases, 401 of them run now' out || fail "mpirun: $(cat out)"
  cmp -s whole.csv mpi-ended.csv || fail "a resumed sweep of two ranks differs"
  # What is wrong is said once, and nobody waits for anybody.
  ranks 2 "$linchpin" sweep throw.toml --set vv=1:2:3 --mpi --out x.csv
  [ $? -eq 2 ] || fail "mpirun of a wrong name: $(cat err)"
  [ "$(grep -c 'did you mean "v"' err)" -eq 1 ] || fail "said more than once: $(cat err)"
  expect 0 sweep throw.toml --set v=1:4:7 --set g=1.62,9.81 --mpi --out alone.csv
  cmp -s one.csv alone.csv || fail "--mpi without mpirun gives other bytes"
else
  echo "skipped: no MPI (Debian: openmpi-bin libopenmpi-dev)"
fi
# Where there is none, the command says so.
mkdir -p without && cp "$linchpin" without/
without/linchpin sweep throw.toml --set v=1,2 --mpi --out x.csv >out 2>err
[ $? -eq 2 ] || fail "--mpi without MPI: exit code, $(cat err)"
grep -q -- '--mpi: this linchpin was built without MPI' err || fail "--mpi without MPI: $(cat err)"

# More of the same: samples are by number. What is of another sweep is refused by its place.
expect 0 sweep throw.toml --set v=1:4 --set g=1.62,9.81 --random 12 --seed 7 --out some.csv
head -n 1 some.csv >less.csv
sed -n '2,5p' some.csv >>less.csv
expect 0 sweep throw.toml --set v=1:4 --set g=1.62,9.81 --random 4 --seed 7 --out few.csv
cmp -s few.csv less.csv || fail "sample n depends on how many there are"
expect 0 sweep throw.toml --set v=1:4 --set g=1.62,9.81 --random 12 --seed 7 --merge few.csv --out more.csv
prints '8 of them run now'
cmp -s some.csv more.csv || fail "samples added differ"
LC_ALL=C awk -F, 'NR > 1 && ($2 < 1 || $2 >= 4 || $3 != 1.6200000000000001 && $3 != 9.8100000000000005)' some.csv | grep -q . &&
  fail "samples out of range"
# The published answer of Philox4x32-10 to counter 0 and key 0, 6627e8d5 e169c58d, as a number in [0, 1).
expect 0 sweep throw.toml --set v=0:1 --random 1 --seed 0 --out philox.csv --json
holds '.schema == 1 and .out == "philox.csv" and .cases == 1 and .run == 1 and .failed == 0'
[ "$(tail -n 1 philox.csv | cut -d, -f2)" = 0.3990464708489645 ] || fail "Philox: $(tail -n 1 philox.csv)"
expect 2 sweep throw.toml --set v=1:4 --set g=1.62,9.81 --random 12 --seed 8 --merge few.csv --out more.csv
says 'few.csv", line 2: the row has other parameters than this case'
expect 2 sweep throw.toml --set v=1:4 --set g=1.62,9.81 --random 12 --seed 7 --duration 0.4 --merge few.csv --out more.csv
says 'few.csv", line 2: the row comes from another scene, other options'
sed 's/^duration.*/duration = 0.4/' throw.toml >shorter.toml
sed -i '/^.*expect/,$d' shorter.toml
expect 2 sweep shorter.toml --set v=1:4 --set g=1.62,9.81 --random 12 --seed 7 --merge few.csv --out more.csv
says 'other columns'

# A case that fails costs its row: a scene that is none, a process that passes a limit.
expect 4 sweep throw.toml --set m=1,0,2 --out mass.csv
says '1 case failed, case 1: .*mass'
[ "$(cut -d, -f1-3 mass.csv | grep -c ',ok$')" -eq 2 ] || fail "rows: $(cat mass.csv)"
grep -q '^1,0,.*line [0-9]*: .*mass.*,,,' mass.csv || fail "rows: $(cat mass.csv)"
sed 's/^v = .*/v = 3.0\nT = 0.5/; s/^duration.*/duration = "T"/' throw.toml >long.toml
(
  ulimit -S -t 1
  "$linchpin" sweep long.toml --set T=0.5,99000,0.6 -j 2 --out long.csv >out 2>err
  [ $? -eq 4 ]
) || fail "exit code, $(cat err)"
cut -d, -f1-3 long.csv | tail -n +2 >long.out
[ "$(paste -sd' ' long.out)" = '0,0.5,ok 1,99000,the process ended by signal 24 (CPU time limit exceeded) 2,0.59999999999999998,ok' ] ||
  fail "rows: $(cat long.out)"

# Words.
expect 2 sweep throw.toml --set vv=1:2:3 --out x.csv
says 'no number "vv" in \[params\].*did you mean "v"'
for set in v v=1:2 v=1:2:0 v=a,b v=1:2:3:4 =1; do
  expect 2 sweep throw.toml --set "$set" --out x.csv
  says "\"$set\", expected name=first:last:count or name=a,b,c"
done
expect 2 sweep throw.toml --set v=1,2 --shard 2/2 --out x.csv
says 'expected i/n with i from 0 to n - 1'
expect 2 sweep throw.toml --set v=1,2 --out throw.toml
says 'is the scene itself'
expect 3 sweep throw.toml --set v=1,2 --column 'ball.velocty' --out x.csv
says 'column:1:.*velocty'
expect 2 sweep throw.toml --set v=1,2 --until 'norm(reaction(wall))' --out x.csv
says 'Forces are not possible'
expect 2 sweep throw.toml --set v=1,2 --seed 3 --out x.csv
says 'seed needs --random'
[ -e x.csv ] && fail "a sweep that was refused wrote a table"

# A table took its time: it is not written over.
expect 0 sweep throw.toml --set v=1:4:7 --set g=1.62,9.81 --out one.csv
prints '^one.csv is already complete: 14 cases$'
cp one.csv kept.csv
expect 2 sweep throw.toml --set v=1:4:6 --set g=1.62,9.81 --out one.csv
says 'out: "one.csv", line .* the file belongs to another sweep\. --force replaces it'
echo garbage >mine.txt
expect 2 sweep throw.toml --set v=1,2 --out mine.txt
[ "$(cat mine.txt)" = garbage ] || fail "a file of somebody else was replaced"
head -n 4 one.csv >few-rows.csv
expect 2 sweep throw.toml --set v=1:4:7 --set g=1.62,9.81 --out few-rows.csv
says 'has some rows of this sweep\. Use --resume'
expect 0 sweep throw.toml --set v=1:4:7 --set g=1.62,9.81 --out few-rows.csv --force
cmp -s one.csv few-rows.csv && cmp -s one.csv kept.csv || fail "--force gives another table"
expect 2 sweep throw.toml --set v=1,2 --out same.csv --report same.csv
says 'are both "same.csv"'
[ ! -e same.csv ] && [ ! -e same.csv.part ] || fail "a sweep that was refused left a file"

# Expressions are read at the numbers of a case, and a number that is none has a reason.
expect 0 sweep throw.toml --set v=4,5 --column '1/(v-3)' --out pole.csv
[ "$(tail -n +2 pole.csv | awk -F, '{ print $(NF - 1) }' | paste -sd' ')" = '1 0.5' ] || fail "rows: $(cat pole.csv)"
expect 0 sweep throw.toml --set v=2,4 --column 'sqrt(v-3)' --out root.csv
grep -q '^0,2,"\?ok, but sqrt(v-3) is not a number"\?,.*,,' root.csv && grep -q '^1,4,ok,' root.csv || fail "rows: $(cat root.csv)"
expect 3 sweep throw.toml --set v=1,2 --until 'ball.velocty' --out x.csv
says '^--until:1:1: error: [^c]'
for n in 99999999 1000000000000; do
  expect 2 sweep throw.toml --set v=0:1:$n --out x.csv
  says 'count is a whole number from 1 to 10000000'
done
expect 2 sweep throw.toml --set v=0:1 --random -3 --out x.csv
says '"-3", expected a whole number from 1 to 10000000'
sed '/^.*log/,$d' throw.toml >silent.toml
expect 2 sweep silent.toml --set v=0:1:9 --out x.csv
says 'the sweep would record nothing'
expect 0 sweep silent.toml --set v=0:1:2 --until 'ball.y + 0.1' --out until.csv
[ -e x.csv ] && fail "a sweep that was refused wrote a table"
# What a motion is expected to come to is nothing of a place of rest.
expect 0 sweep "$scenes/rotating-hoop.toml" --set w=6,7 --equilibrium --out rest.csv --report rest.html
sed -n 's|.*<script type="application/json" id="recording">\(.*\)</script>.*|\1|p' rest.html |
  jq -e '[.columns[] | .at_own == null and .known == null and (.expected | not)] | all' >/dev/null || fail "expectations of a motion in a search for rest"

# The rotating hoop rests at cos a = g/(R w^2), below sqrt(g/R) at the bottom; there N = m R w^2, or m g.
expect 0 sweep "$scenes/rotating-hoop.toml" --set w=1:7:13 --equilibrium --column 'norm(reaction(on_hoop, bead))' --out hoop.csv
LC_ALL=C awk -F, '
  NR == 1 { for (i = 1; i <= NF; ++i) if ($i == "\"norm(reaction(on_hoop") N = i; next }
  {
    w = $2; c = 9.81 / (0.5 * w * w); low = c >= 1; if (low) c = 1
    a = low ? 0 : atan2(sqrt(1 - c * c), c); thrust = 0.8 * (low ? 9.81 : 0.5 * w * w)
    da = $5 - a; dN = $(NF - 1) - thrust
    if ($3 != "ok" || $4 != "stable" || da ^ 2 > 1e-16 || dN ^ 2 > 1e-12) { print a, thrust, $0; bad = 1 }
    ++n
  }
  END { exit bad || n != 13 }' hoop.csv >awk.out || fail "rotating hoop: $(cat awk.out)"

# Speed at the bottom of the rough circle: v^2/R = p(0) - p(-pi/2) exp(-pi mu). Published: 3.1853893542 at 0.2.
expect 0 sweep "$scenes/rough-circle.toml" --set mu=0:0.5:11 --until bead.x --column 'norm(bead.velocity)' --out circle.csv
LC_ALL=C awk -F, '
  NR == 1 { next }
  {
    mu = $2; g = 9.81; pi = atan2(0, -1)
    v = sqrt(g * (2 * (1 - 2 * mu * mu) - 6 * mu * exp(-pi * mu)) / (1 + 4 * mu * mu)); dv = $(NF - 1) - v
    if ($3 != "ok" || dv ^ 2 > 1e-16) { printf "%.12g off by %g: %s\n", v, dv, $0; bad = 1 }
    if (mu > 0.199 && mu < 0.201 && (v - 3.1853893542) ^ 2 < 1e-18) ++n
  }
  END { exit bad || NR != 12 || n != 1 }' circle.csv >awk.out || fail "rough circle: $(cat awk.out)"
# mu > 0.60334: friction stops the bead before the bottom.
expect 4 sweep "$scenes/rough-circle.toml" --set mu=0.3,0.61 --until bead.x --out stops.csv
says '1 case failed, case 1: bead.x did not cross zero within the duration$'
done_testing
