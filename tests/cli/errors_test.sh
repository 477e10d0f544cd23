# Whatever is wrong: the exit code design states, a message that names it, and never a crash.
source "$(dirname "$0")/common.bash" "$@"
scene=$source/demos/scenes/pendulum.bullet

# 2: usage
expect 2 compare
expect 2 compare "$scene" --with exact,bullet:sii
says 'bullet:sii.*did you mean "bullet:si"'
expect 2 compare "$scene" --with nonsense
says 'nonsense.*known: exact, bullet:si'
expect 2 compare "$scene" --with bullet:si,exact,bullet:si:10
says 'one solver twice.*bullet:si.*bullet:si:10'
for n in 0 -1 x 1.5 100001 99999999999999999999 ''; do
  expect 2 compare "$scene" --with "bullet:si:$n"
  says 'whole number from 1 to 100000'
done
expect 2 compare "$scene" --with bullet:mlcp:3
says 'takes no number of iterations'
expect 2 compare "$scene" --with exact,
says 'empty name'
for dt in 0 -0.01 2 abc nan inf 1e-9 1/0 '' 0.01s; do
  expect 2 compare "$scene" --dt="$dt"
  says '--dt.*(from 1e-06 to 1|requires|required|ArgumentMismatch)'
done
expect 2 compare "$scene" --duration 0.001
says '--duration.*at least one step'
expect 2 compare "$scene" --duration 86400 --dt 1e-6
says '--duration.*at most 1e8 steps'
for n in -1 480 x 1.5; do
  expect 2 compare "$scene" --warmup-steps="$n"
  says '--warmup-steps.*from 0 to 479'
done
expect 2 compare "$scene" --settle 5
says 'option "--settle" was renamed to "--warmup-steps"'
for g in 1,2 1,2,3,4 a,b,c ,, 1,2,nan; do
  expect 2 compare "$scene" --gravity="$g"
  says '--gravity.*three numbers'
done
expect 2 compare "$scene" --precision half
says '--precision.*half'
expect 2 compare "$scene" --solvers exact
says 'no option "--solvers"'
expect 2 equilibrium "$scene" --seconds nan
says '--seconds is nan, expected a number above 0'
expect 3 run - <"$scene"
says 'read from a file, not from standard input'
expect 2 run "$scene" --host bulet
says '--host.*did you mean "bullet"'
expect 2 run "$scene" --host bare
says 'A .bullet file needs --host bullet or bullet-float64'
expect 2 run "$scene" --solver exakt
says 'did you mean "exact"'
expect 2 run "$scene" --csv "$scratch"
says 'cannot be written: it is a directory'
expect 2 run "$scene" --csv "$scratch/no/such/folder/x.csv"
says 'cannot be written: No such file'
expect 2 run "$scene" --csv /dev/null
says 'is not a regular file'
cp "$scene" "$scratch/copy.bullet"
expect 2 run "$scratch/copy.bullet" --csv "$scratch/copy.bullet"
says 'is the scene itself'
cmp -s "$scene" "$scratch/copy.bullet" || fail "the scene was overwritten"
# Nor what the scene reads: an included file, with a model of our own and with one that a host makes.
for included in toml bullet; do
  cp "$scene" "$scratch/part.bullet"
  printf 'schema = 2\n[[body]]\nname = "p"\nkind = "particle"\nmass = 1\n' >"$scratch/part.toml"
  printf 'schema = 2\ninclude = "part.%s"\n' "$included" >"$scratch/whole.toml"
  cp "$scratch/part.$included" "$scratch/kept"
  for option in --csv --report --record --gltf --mcap; do
    expect 2 run "$scratch/whole.toml" --duration 0.01 "$option" "$scratch/part.$included"
    says 'is one of the files that are read|ends in'
    cmp -s "$scratch/kept" "$scratch/part.$included" || fail "$option overwrote the included .$included file"
  done
done

# 3: bad scene, each with the file's name
bad() {
  expect 3 compare "$1" --with bullet:si --json
  says "^$1: error: $2"
  [ -s "$scratch/out" ] && fail "printed something for $1"
}
cd "$scratch" || exit 1
bad missing.bullet 'the file does not exist'
mkdir folder.bullet && bad folder.bullet 'is a directory'
: >empty.bullet && bad empty.bullet 'is empty'
echo '<robot name="x"/>' >scene.urdf
for verb in run check explain "compare --with bullet:si"; do
  # shellcheck disable=SC2086
  expect 3 $verb scene.urdf
  says '^scene.urdf:1:1: error: <robot>: holds no <link>'
done
head -c 5 "$scene" >five.bullet && bad five.bullet 'is not a .bullet scene'
head -c 10 "$scene" >header.bullet && bad header.bullet 'ends after 10 bytes'
head -c 12 "$scene" >nothing.bullet && bad nothing.bullet 'is truncated'
size=$(stat -c %s "$scene")
for part in 2 3 4 5 6 7 8 9; do
  head -c $((size * part / 10)) "$scene" >cut.bullet
  bad cut.bullet '(is truncated|Bullet.s reader)'
done
{ printf 'BULLETd-v288'; head -c 100000 /dev/zero; } >zeros.bullet && bad zeros.bullet 'is truncated'
{ printf 'BULLETd-v288'; yes 'RBDY' | head -c 100000; } >foreign.bullet && bad foreign.bullet 'is (truncated|damaged)'
# A damaged description of its data takes Bullet's reader down, not the command.
{ head -c $((size - 9000)) "$scene"; head -c 9000 /dev/zero | tr '\0' '\377'; } >dna.bullet
bad dna.bullet 'Bullet.s reader of .bullet files'
if chmod 000 copy.bullet && ! [ -r copy.bullet ]; then bad copy.bullet 'cannot be read'; fi

# 4: the one solver of a run failed
expect 4 run "$source/demos/scenes/bridge.bullet" --solver bullet:mlcp --duration 1 --csv lost.csv
says 'bullet:mlcp: (diverged|not finite) at step'
[ -s lost.csv ] || fail "the steps before the failure were not kept"
# What people do with scenes of ours: another case, another ending, line ends and a mark of another system, an empty file.
ours=$source/demos/scenes/winch.toml
cp "$ours" "$scratch/WINCH.TOML"
expect 0 check "$scratch/WINCH.TOML"
cp "$ours" "$scratch/winch.txt"
expect 3 run "$scratch/winch.txt"
says 'Names of scenes end with .toml'
{ printf '\xef\xbb\xbf'; sed 's/$/\r/' "$ours"; } >"$scratch/käfer 1.toml"
expect 0 run "$scratch/käfer 1.toml" --json
holds '.solver.status == "ok"'
: >"$scratch/empty.toml"
expect 3 check "$scratch/empty.toml"
says '"schema" is missing'
mkdir "$scratch/folder.toml"
expect 3 explain "$scratch/folder.toml"
says 'is a directory'
mkfifo "$scratch/pipe.toml"
printf 'schema = 2\ninclude = "pipe.toml"\n' >"$scratch/waits.toml"
expect 3 check "$scratch/waits.toml"
says 'is not a regular file'
# The main door waits for nobody either; standard input and a pipe that a shell has opened are no such thing.
mkfifo "$scratch/pipe.json"
for words in "check $scratch/pipe.toml" "run $scratch/pipe.toml" "solve $scratch/pipe.json"; do
  # shellcheck disable=SC2086
  timeout 10 "$linchpin" $words >"$scratch/out" 2>"$scratch/err"
  [ $? -eq 3 ] || fail "$words: a pipe was waited for"
  says 'pipe\.(toml|json): error: is not a regular file'
done
expect 3 solve - <<<'{}'
says 'schema: missing'
expect 3 solve <(echo '{}')
says 'schema: missing'

# Every verb: --help is help, --json prints JSON or nothing, a typo is exit 3 with the nearest name, on stderr alone.
sed 's/load.point/loda.point/' "$ours" >"$scratch/typo.toml"
for verb in check run compare explain equilibrium; do
  expect 0 "$verb" --help
  prints 'Exit codes: 0 ok'
  expect 3 "$verb" "$scratch/typo.toml" --json
  [ -s "$scratch/out" ] && fail "$verb --json printed something beside its error"
  says 'did you mean "load"'
done
for verb in check explain equilibrium; do
  "$linchpin" "$verb" "$ours" --json 2>/dev/null | jq -e .schema >/dev/null || fail "$verb --json is no JSON"
done

# Standard output that nobody can take in full is no success; a reader that goes away is nobody's crash.
if [ -w /dev/full ]; then
  for words in "check $ours" "run $ours --json" "new pendulum"; do
    # shellcheck disable=SC2086
    "$linchpin" $words >/dev/full 2>"$scratch/err"
    [ $? -eq 2 ] || fail "$words: a full disk was called a success"
    says 'could not be written to standard output'
  done
fi
"$linchpin" man | head -n 1 >/dev/null
status=${PIPESTATUS[0]}
[ "$status" -eq 0 ] || [ "$status" -eq 141 ] || fail "man | head: $status"
done_testing
