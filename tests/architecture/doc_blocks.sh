#!/usr/bin/env bash
# Compiles the C++ blocks of a Markdown file, so that the documents cannot promise what the code does not keep.
#
#   doc_blocks.sh <compiler> <dir with core.rsp, minimal.rsp, bullet.rsp, …> <file.md>
#   doc_blocks.sh <compiler> <dir> --self-test
#   doc_blocks.sh <compiler> <dir> --precompile
#
# --precompile prepares <linchpin/bullet.h> and <linchpin/scene.h> for blocks that include it first: most of the time
# goes into the headers. The compiler finds the prepared header by itself, and blocks mean the same without it.
#
# Every block opened by ```cpp must be preceded, on the line before, by one of
#
#   <!-- compile: core -->                      a whole program (or header) against linchpin::core
#   <!-- compile: scene -->                     likewise against linchpin::scene
#   <!-- compile: bullet -->                    a whole program against both precisions of linchpin::bullet
#   <!-- compile: recording -->                 likewise with linchpin::recording beside it
#   <!-- compile: simulation -->                likewise against both precisions of linchpin::simulation-bullet
#   <!-- compile: minimal -->                   likewise against linchpin::minimal
#   <!-- compile: mujoco -->                    likewise against linchpin::mujoco
#   <!-- compile: snippet-core NAME -->         statements, wrapped in a function, after preludes/NAME.h
#   <!-- compile: snippet-minimal NAME -->      the same, against linchpin::minimal
#   <!-- compile: snippet-mujoco NAME -->       the same, against linchpin::mujoco
#   <!-- compile: snippet-bullet NAME -->       the same, against both precisions
#
# A block without a marker fails, and so does an unknown marker: nothing goes unread. Text that is not meant to compile is
# opened by another word (```text, ```console, or none).
#
# A prelude is a header that declares what the snippet takes for granted (`extern btDiscreteDynamicsWorld world;`):
# declarations are enough, nothing is linked. Include lines of a snippet move in front of the function, and so to the
# other snippets of its prelude in the document. A snippet may leave variables unused. Compiler messages carry the
# document's file name and line.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
compiler=$1
flags=$2
subject=$3

# compile <library> <document> <line> [flag...] < text
compile() {
  local library=$1 document=$2 line=$3
  shift 3
  if [[ ! -f $flags/$library.rsp ]]; then
    echo "$document:$line: linchpin::$library was not built, so the block cannot be checked"
    return 1
  fi
  "$compiler" "-I$flags/precompiled/$library" "@$flags/$library.rsp" "$@" -x c++ -
}

# precompile <library> <include folder> <header>
precompile() {
  local library=$1 header=$2/$3 to=$flags/precompiled/$1/$3.gch
  [[ -f $flags/$library.rsp ]] || return 0
  mkdir -p "${to%/*}"
  # Warnings are those of the blocks; here `#pragma once` would cause one.
  sed 's/^-fsyntax-only$/-w/' "$flags/$library.rsp" >"$to.rsp"
  "$compiler" "@$to.rsp" -x c++-header "$header" -o "$to"
  ln -sf "$header" "${to%.gch}"  # for a second include of it
}

check_document() {
  local document=$1 failed=0 blocks=0 number=0 previous="" inside=0 marker="" start=0 line
  local name=${document##*/}
  local folder
  folder=$(mktemp -d)
  local scratch=$folder/block
  while IFS= read -r line || [[ -n $line ]]; do
    number=$((number + 1))
    if ((inside == 0)) && [[ $line =~ ^[[:space:]]*\`\`\`+[[:space:]]*(cpp|c\+\+|cxx|cc)([^[:alnum:]]|$) ]]; then
      inside=1 marker=$previous start=$((number + 1))
      : >"$scratch"
    elif ((inside == 0)) && [[ $line =~ ^[[:space:]]*\`\`\` ]]; then
      inside=2
    elif ((inside > 0)) && [[ $line =~ ^[[:space:]]*\`\`\`+[[:space:]]*$ ]]; then
      if ((inside == 1)); then
        blocks=$((blocks + 1))
        check_block "$marker" "$scratch" "$name" "$start" || failed=$((failed + 1))
      fi
      inside=0
    elif ((inside == 1)); then
      printf '%s\n' "$line" >>"$scratch"
    fi
    previous=$line
  done <"$document"
  if ((inside != 0)); then
    echo "$name: the last code block is not closed"
    failed=$((failed + 1))
  fi
  check_snippets "$name" || failed=$((failed + 1))
  rm -rf "$folder"
  echo "$name: $blocks C++ blocks, $failed failed"
  ((failed == 0))
}

check_block() {
  local marker=$1 block=$2 document=$3 start=$4 library kind prelude=""
  if [[ ! $marker =~ ^[[:space:]]*\<!--[[:space:]]*compile:[[:space:]]*([a-z-]+)[[:space:]]*([A-Za-z0-9_-]*)[[:space:]]*--\>[[:space:]]*$ ]]; then
    echo "$document:$((start - 1)): C++ block without a <!-- compile: ... --> line right before it"
    return 1
  fi
  prelude=${BASH_REMATCH[2]}
  case ${BASH_REMATCH[1]} in
    core) kind=program library="core" ;;
    scene) kind=program library="scene" ;;
    bullet) kind=program library="bullet bullet-float64" ;;
    recording) kind=program library="recording-bullet recording-bullet-float64" ;;
    simulation) kind=program library="simulation-bullet simulation-bullet-float64" ;;
    minimal) kind=program library="minimal" ;;
    mujoco) kind=program library="mujoco" ;;
    snippet-core) kind=snippet library="core" ;;
    snippet-minimal) kind=snippet library="minimal" ;;
    snippet-mujoco) kind=snippet library="mujoco" ;;
    snippet-bullet) kind=snippet library="bullet bullet-float64" ;;
    *)
      echo "$document:$((start - 2)): unknown marker '${BASH_REMATCH[1]}' (known: core, scene, bullet, recording, simulation, minimal, mujoco, snippet-core, snippet-minimal, snippet-mujoco, snippet-bullet)"
      return 1
      ;;
  esac
  if [[ $kind == snippet && ! -f $here/preludes/$prelude.h ]]; then
    echo "$document:$((start - 2)): no prelude tests/architecture/preludes/$prelude.h"
    return 1
  fi
  if [[ $kind == program && -n $prelude ]]; then
    echo "$document:$((start - 2)): a whole program takes no prelude"
    return 1
  fi
  local each
  for each in $library; do
    if [[ $kind == program ]]; then
      { printf '#line %d "%s"\n' "$start" "$document"; cat "$block"; } | compile "$each" "$document" "$start" || return 1
      continue
    fi
    grep -E '^[[:space:]]*#[[:space:]]*include' "$block" >>"$folder/$each.$prelude.includes" || true
    {
      printf 'void snippet_%d();\nvoid snippet_%d() {\n#line %d "%s"\n' "$start" "$start" "$start" "$document"
      # Blanked, not removed, so that line numbers stay right.
      sed -E 's/^[[:space:]]*#[[:space:]]*include.*//' "$block"
      printf '\n}\n'
    } >>"$folder/$each.$prelude.snippets"
  done
}

# Those of a document that take the same for granted, compiled together: most of the time goes into the headers.
check_snippets() {
  local document=$1 failed=0 group name
  for group in "$folder"/*.snippets; do
    [[ -e $group ]] || continue
    group=${group%.snippets}
    name=${group##*/}
    local prelude=$here/preludes/${name#*.}.h
    # Its first include once more before it: a prepared header serves there only.
    { grep -m 1 '^#include' "$prelude" || true; printf '#include "%s"\n' "$prelude"; cat "$group.includes" "$group.snippets"; } |
      compile "${name%%.*}" "$document" 1 -Wno-unused -Wno-shadow || failed=1
  done
  return $failed
}

# The checker must be able to say no. The cases hold back-ticks and are expanded by printf %b, hence the single quotes.
# shellcheck disable=SC2016
self_test() {
  local folder bad=0
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' RETURN
  expect() { # expect <pass|fail> <what the output must contain> <text>
    local answer=pass output
    printf '%b' "$3" >"$folder/case.md"
    output=$(check_document "$folder/case.md" 2>&1) || answer=fail
    if [[ $answer != "$1" || $output != *"$2"* ]]; then
      printf 'expected %s with "%s", got %s:\n%s\n--- from:\n%b\n' "$1" "$2" "$answer" "$output" "$3"
      bad=1
    fi
  }
  expect pass '1 C++ blocks' '<!-- compile: core -->\n```cpp\n#include <vector>\nint main() { return 0; }\n```\n'
  expect pass '1 C++ blocks' '<!-- compile: snippet-core none -->\n```cpp\n#include <vector>\nstd::vector<int> v;\nint unused;\n```\n'
  expect pass '0 C++ blocks' 'text\n```console\n$ no c++ here\n```\n'
  expect fail 'case.md:4' '<!-- compile: core -->\n```cpp\nint main() {\n  return undeclared;\n}\n```\n'
  expect fail 'case.md:3' '<!-- compile: snippet-core none -->\n```cpp\nundeclared();\n```\n'
  expect fail 'case.md:8' '<!-- compile: snippet-core none -->\n```cpp\nint x;\n```\n\n<!-- compile: snippet-core none -->\n```cpp\nundeclared();\n```\n'
  expect fail 'without a' 'text\n```cpp\nint x;\n```\n'
  expect fail 'without a' '<!-- compile: core -->\n\n```cpp\nint x;\n```\n'
  expect fail 'unknown marker' '<!-- compile: cure -->\n```cpp\nint x;\n```\n'
  expect fail 'no prelude' '<!-- compile: snippet-core nowhere -->\n```cpp\nint x;\n```\n'
  expect fail 'not closed' '<!-- compile: core -->\n```cpp\nint x;\n'
  ((bad == 0)) && echo "self-test: all expectations met"
  return $bad
}

if [[ $subject == --self-test ]]; then
  self_test
elif [[ $subject == --precompile ]]; then
  root=$here/../..
  precompile bullet "$root/adapters/bullet/include" linchpin/bullet.h
  precompile bullet-float64 "$root/adapters/bullet/include" linchpin/bullet.h
  precompile scene "$root/tools/scene/include" linchpin/scene.h
else
  check_document "$subject"
fi
