#!/usr/bin/env bash
# The pictures of the documents are of the scenes as they are: scripts/pictures wrote down which it drew.
source=$2
cd "$source" || exit 1
failed=0
fail() { echo "FAIL: $*" >&2; failed=1; }

sha256sum --check --quiet docs/pictures/scenes.sha256 || fail "a scene was changed since its picture was made: scripts/pictures"
for picture in docs/pictures/*.png docs/pictures/*.gif; do
  name=${picture##*/}
  grep -q "name: '${name%.*}'" tools/report/pictures.mjs || fail "$picture is none of scripts/pictures"
  grep -q "pictures/$name" README.md docs/*.md docs/*/*.md || fail "$picture is in no document"
  most=60000
  [[ $picture != *.gif ]] || most=2000000
  (($(stat -c %s "$picture") <= most)) || fail "$picture has $(stat -c %s "$picture") bytes, more than $most"
done
# And the other way round: what is drawn is there, and every scene that is drawn has its sum.
drawn=$(sed -n "s/^  { name: '\([^']*\)', scene: '\([^']*\)'.*/\1 \2/p" tools/report/pictures.mjs)
[ "$(wc -l <<<"$drawn")" -ge 6 ] || fail "pictures.mjs draws: $drawn"
while read -r name scene; do
  [ -s "docs/pictures/$name.png" ] || fail "docs/pictures/$name.png is missing: scripts/pictures"
  grep -q "  demos/scenes/$scene\$" docs/pictures/scenes.sha256 || fail "$scene has no sum: scripts/pictures"
done <<<"$drawn"
exit $failed
