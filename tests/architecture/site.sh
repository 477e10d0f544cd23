#!/usr/bin/env bash
# The documentation site builds without a fault, and the script that builds it reports faults. The pages are in `site` of
# the present folder.
#
#   site.sh <source dir>
#
# Exit code 77, with a message, where the packages of `scripts/setup --docs` are missing.
set -u
source=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
fail() { echo "FAIL: $*" >&2; failed=1; }

LINCHPIN_DOCS_DIR=$PWD/site "$source/scripts/docs"
result=$?
if ((result == 77)); then
  echo "skipped: the packages of scripts/setup --docs are not installed"
  exit 77
fi
((result == 0)) || fail "scripts/docs: exit code $result"

# A small project with one fault of each kind.
copy=$scratch/project
mkdir -p "$copy"/{scripts,docs/how-to,docs/explanation,plugin/include/linchpin,adapters,tools}
cp -r "$source/docs/site" "$copy/docs"
cp "$source/scripts/docs" "$copy/scripts"
cp "$source/CITATION.cff" "$copy"
mkdir -p "$copy"/{adapters,tools}/one/include
header=$copy/plugin/include/linchpin/one.h
cat >"$header" <<'EOF'
// One header. It has a label (T1).
#pragma once
namespace linchpin {
/// A function (T1).
int documented();
int forgotten();
/// Values.
enum class Values {
  first,  ///< It has a comment.
  second
};
/// A pair.
struct Pair {
  double a = 0, b = 0;  ///< Both have this comment.
};
}  // namespace linchpin
EOF
out=$("$copy/scripts/docs" --names 2>&1) && fail "names without a comment were not reported"
for name in 'one.h:6: .*forgotten' 'one.h:8: .*Values::second'; do
  grep -Eq "$name" <<<"$out" || fail "the message does not name $name: $out"
done
grep -q 'documented()\|Pair' <<<"$out" && fail "names with a comment were reported: $out"

sed -i -e 's:^int forgotten.*::' -e 's:^  second:  second  ///< It also has one.:' "$header"
printf '# Theory\n\n## T1 One\n\nText.\n\n## T9 Nine\n\nText.\n' >"$copy/docs/explanation/theory.md"
printf '# One\n\nText. [anchor](#here)\n\n## Here\n\n```cpp\nint x;\n```\n' >"$copy/docs/how-to/one.md"
front() { printf '# Front\n\n## Pages\n\n- [theory](explanation/theory.md#t1-one)\n- [headers](../plugin/include)\n%b' "$1" >"$copy/docs/index.md"; }

front '- [one](how-to/one.md#here), [source](../plugin/include/linchpin/one.h), [file](../CITATION.cff)\n'
out=$("$copy/scripts/docs" 2>&1) || fail "a project without a fault: $out"
[[ -s $copy/build/docs/source/CITATION.cff.html ]] || fail "a source has no page"

# HTML blocks: an image is copied, and a link to a page becomes one of the site. Comments are left out.
mkdir -p "$copy/docs/pictures"
printf '<svg xmlns="http://www.w3.org/2000/svg"/>' >"$copy/docs/pictures/one.svg"
front '- [one](how-to/one.md)\n\n<!-- hidden -->\n\n<p><a href="how-to/one.md#here"><img src="pictures/one.svg" alt="one"></a></p>\n'
out=$("$copy/scripts/docs" 2>&1) || fail "a page with HTML: $out"
page=$copy/build/docs/docs/index.html
grep -q '<a href="how-to/one.html#here"><img src="../_images/one.svg"' "$page" || fail "HTML: $(grep -A1 one.svg "$page")"
! grep -q 'hidden -->' "$page" || fail "a comment is on the page"

refused() { # refused <text of the front page> <what the message must contain>
  front "$1"
  if out=$("$copy/scripts/docs" 2>&1); then
    fail "no message for: $1"
  elif ! grep -Eq "$2" <<<"$out"; then
    fail "no message '$2' for: $1: $out"
  fi
}
refused '- [one](how-to/one.md), [lost](how-to/lost.md)\n' 'docs/index.md:.*how-to/lost.md'
refused '- [one](how-to/one.md#nowhere)\n' 'docs/index.md:.*one.md#nowhere'
refused '- [one](how-to/one.md)\n\n![picture](pictures/lost.png)\n' 'image.*lost.png'
refused '- [one](how-to/one.md)\n\n<p><img src="pictures/lost.png"></p>\n' 'image.*lost.png'
refused '- [one](how-to/one.md)\n\n<p><a href="#nowhere">x</a></p>\n' 'index.html: #nowhere'
refused 'No page.\n' 'one.md is not on the front page'
exit $failed
