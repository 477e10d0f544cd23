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
head -c 10000000 /dev/urandom >"$scratch/noise.toml"
expect 3 check "$scratch/noise.toml"
says 'larger than 8 MB'
head -c 1000000 /dev/urandom >"$scratch/noise.toml"
expect 3 check "$scratch/noise.toml"
done_testing
