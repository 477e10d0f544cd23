# Broken scenes: exit code 3, one message with the place and what would be right, nothing on stdout. What each must say
# is its first line.
source "$(dirname "$0")/common.bash" "$@"
cd "$source/tests/scenes/broken" || exit 1
count=0
for scene in *.toml; do
  count=$((count + 1))
  for verb in check run; do
    expect 3 "$verb" "$scene"
    [ -s "$scratch/out" ] && fail "$scene: printed something"
    says "$(head -n 1 "$scene" | sed 's/^# says: //')"
    says '^[a-z0-9./-]+\.toml(:[0-9]+:[0-9]+)?: error: '
    [ "$(wc -c <"$scratch/err")" -lt 1500 ] || fail "$scene: a message of $(wc -c <"$scratch/err") bytes"
  done
done
[ "$count" -ge 25 ] || fail "only $count scenes"
# A table is taken apart by recursion: keys of many parts, in every place a key may stand.
key=$(printf 'a.%.0s' $(seq 50000))a
for text in "[$key]" "[[$key]]" "$key = 1" "x = { $key = 1 }" "x = [{ $key = 1 }]"; do
  printf 'schema = 2\n%s\n' "$text" >"$scratch/deep.toml"
  expect 3 check "$scratch/deep.toml"
  says 'deep.toml:2:[0-9]+: error: a key of more than 16 parts'
done
# Parameters, each of the one before, and constraints among them: the time is in proportion (a minute and more, when each
# had a copy of all).
{
  printf 'schema = 2\n[[body]]\nname = "p"\nkind = "particle"\nmass = 1\nposition = [0, 3000, 0]\n'
  printf '[[repeat]]\ncount = 2000\n[[repeat.constraint]]\nname = "c{i}"\nequation = "p.y = k30000*3000/30001"\n'
  printf '[params]\nk0 = "1"\n'
  for ((i = 1; i <= 30000; ++i)); do echo "k$i = \"k$((i - 1)) + 1\""; done
} >"$scratch/params.toml"
timeout 60 "$linchpin" explain "$scratch/params.toml" c1 >"$scratch/out" || fail "30,000 parameters take over 60 s"
prints 'p.vy'
head -c 10000000 /dev/urandom >"$scratch/noise.toml"
expect 3 check "$scratch/noise.toml"
says 'larger than 8 MB'
head -c 1000000 /dev/urandom >"$scratch/noise.toml"
expect 3 check "$scratch/noise.toml"
done_testing
